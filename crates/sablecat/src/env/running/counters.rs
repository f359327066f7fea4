//! What all processes that have the environment open have counted together, and what holds back most: for a
//! program that watches.

use std::path::Path;

use sablecat_os::atomic::Ordering;
use sablecat_os::calendar::Moment;

use super::Running;
use super::processes::{pid_of, region_from_outside};
use crate::env::config::Config;
use crate::env::files::log_memory;
use crate::error::Result;
use crate::log::LogCounts;
use crate::region::Region;
use crate::types::Lsn;

/// What all processes that have an environment open have done since the first of them opened it, including
/// those that have closed it since or were killed.
///
/// Counting takes no locked instruction, and next to no time: each operation counts for itself, beside words
/// that it writes anyway. Reading the counters adds up what thousands of participants may have counted: it
/// takes microseconds and never waits, and each number is as of some moment during the reading.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// When the first of them opened it: counting began then. It changes when all processes have closed the
    /// environment and another one opens it.
    pub since: Moment,
    /// Processes that have it open now. 1 unless it is shared.
    pub processes: u64,
    /// Commits: of transactions, of single records, and of the library itself, for example when it opens, or
    /// frees the pages of a removed database. Each is counted exactly once, even if processes are killed.
    pub commits: u64,
    /// Conflicts of transactions ([`ErrorKind::Conflict`](crate::ErrorKind::Conflict)), including those that
    /// [`Env::write`](crate::Env::write) ran again.
    pub conflicts: u64,
    /// Snapshots that were given up because the versions that they kept filled the cache.
    pub snapshots_given_up: u64,
    /// Cache hits: pages that reads found in the cache, one or more for a single read. Pages that commits
    /// read again after latching them are not counted, nor those that a Data Store changes.
    pub page_hits: u64,
    /// Cache misses: pages that were not in the cache and were read in.
    pub page_misses: u64,
    /// Pages written because the cache needed their frames for other pages. If this number grows as fast as
    /// that of commits, a larger cache saves writing.
    pub pages_swept: u64,
    /// Checkpoints that became durable.
    pub checkpoints: u64,
    /// Pages that were written for checkpoints, without those that were moved.
    pub pages_checkpointed: u64,
    /// Flushes of the log's files.
    pub log_flushes: u64,
    /// Bytes of log handed to the operating system; 0 in memory alone.
    pub log_bytes: u64,
    /// The oldest snapshot that is in use: everything that was replaced since is kept for it. None if there
    /// is none.
    pub oldest_snapshot: Option<OldestSnapshot>,
}

/// The oldest snapshot, and the process that keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestSnapshot {
    /// The state that it sees.
    pub lsn: Lsn,
    /// Bytes of log committed since.
    pub lag: u64,
    /// The process that keeps it, by its number in its own namespace of process numbers; 0 if it has ended
    /// meanwhile.
    pub pid: u32,
}

/// What was counted of the environment in a directory, as seen from outside; none if nobody has it open. As
/// [`activity`](super::activity) does, it changes nothing, and believes nothing that it reads to be within
/// bounds.
pub(crate) fn counters(directory: &Path, config: &Config) -> Result<Option<Counters>> {
    let Some(region) = region_from_outside(directory, config)? else { return Ok(None) };
    let seen = of_region(&region, log_memory(&region).counts());
    region.check_fence_and_end()?;
    // What all processes left behind that were killed is not open.
    Ok((seen.processes > 0).then_some(seen))
}

impl Running {
    /// What everybody has counted.
    pub(crate) fn counters(&self) -> Counters {
        let mut seen = of_region(self.kernel.pages.region(), self.kernel.log.counts());
        if self.config.read_only {
            // A process that follows checkpoints pins their numbers.
            if let Some(oldest) = &mut seen.oldest_snapshot {
                oldest.lsn = self.kernel.pages.lsn_of(oldest.lsn);
                oldest.lag = self.checkpointed().0.saturating_sub(oldest.lsn.0);
            }
        }
        seen
    }
}

fn of_region(region: &Region, log: LogCounts) -> Counters {
    let header = region.header();
    let word = |word: &sablecat_os::atomic::AtomicU64| word.load(Ordering::SeqCst);
    let visible = header.visible();
    let pinned = |slot: u16| region.slot(slot).pinned().map(|at| (at, slot));
    let oldest = region.slots_used().filter_map(pinned).min();
    let counts = region.counts();
    let processes = match region.membership() {
        None => 1,
        Some(membership) => (0..region.geometry().members)
            .filter(|&number| region.member(number).is_used() && membership.is_alive(number))
            .count() as u64,
    };
    Counters {
        since: Moment { ms: word(&header.made) },
        processes,
        commits: counts.commits,
        conflicts: counts.conflicts,
        snapshots_given_up: counts.given_up,
        page_hits: counts.hits,
        page_misses: counts.misses,
        pages_swept: counts.swept,
        checkpoints: word(&header.generation.0).saturating_sub(word(&header.generation_first)),
        pages_checkpointed: counts.captured,
        log_flushes: log.flushes,
        log_bytes: log.bytes,
        oldest_snapshot: oldest.map(|(lsn, slot)| OldestSnapshot {
            lsn,
            lag: visible.0.saturating_sub(lsn.0),
            pid: pid_of(region, slot),
        }),
    }
}

//! Members: the attached processes.
//!
//! A member's number is the byte it holds locked in the environment's lock file for as long as it is
//! attached; whether it lives is asked of that lock, never of what stands here. The rest is for people, but
//! for which file it has open: a process that enters compares that. Written under the attach lock: by the
//! member when it enters and leaves, and by the process that has reaped it.
//!
//! The *incarnation* is for processes that live although they were taken for dead, since the lock was closed
//! behind their backs. A process that reaps a member makes it another before anything else; a process whose
//! member has another incarnation than when it entered touches nothing that is shared any more. An odd one is
//! that of a process, an even one that of nobody, or of a process found dead. It changes by compare-and-swap,
//! and a process that enters makes it another too, its lock held: so a process that has found another one
//! dead, and comes late to say so, does not say it of the next one.
//!
//! A process whose threads read the log says from where on they do, so that a process that lets go of old log
//! leaves that. What it says names its incarnation, and counts as long as that is in force: it ends with the
//! process's death being noted, and nothing that a process says late is taken for what the next one says.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};
use sablecat_os::disk::FileId;

use crate::types::Lsn;

/// Words kept of the command a member runs.
const COMMAND_WORDS: usize = 12;

/// A process as what may outlive it names it: the number of its member, and the low half of the incarnation
/// that it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberIncarnation {
    pub(crate) member: u16,
    pub(crate) incarnation: u32,
}

/// One attached process.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Member {
    /// 0 if nobody stands here, else the low half of an odd incarnation.
    used: AtomicU32,
    pid: AtomicU32,
    /// The main volume's file as this process has it open: file system and number, 0 if it has none.
    volume: [AtomicU64; 2],
    incarnation: AtomicU64,
    /// From where on this process reads the log ([`said`], in blocks and one more; 0: it does not). Written
    /// by the process alone, read by processes that let go of log.
    log_wanted: AtomicU64,
    /// How much of it, from the end, it wants at most ([`said`], in blocks). Written before the other.
    log_lag_max: AtomicU64,
    command: [AtomicU64; COMMAND_WORDS],
}

/// The unit in which processes say what of the log they read.
const LOG_BLOCK: u64 = 4096;
/// Bits of a number that was said; the rest are of the incarnation that said it.
const SAID_BITS: u32 = 50;
const SAID_MAX: u64 = (1 << SAID_BITS) - 1;

/// A number as an incarnation says it.
fn said(incarnation: u64, number: u64) -> u64 {
    incarnation << SAID_BITS | number.min(SAID_MAX)
}

/// The number in what was said, if this incarnation said it.
fn heard(incarnation: u64, said: u64) -> Option<u64> {
    ((said ^ (incarnation << SAID_BITS)) <= SAID_MAX).then_some(said & SAID_MAX)
}

/// What says that a process stands somewhere, of its incarnation or of the one that says it dead.
pub(super) fn used_as(incarnation: u64) -> u32 {
    incarnation.wrapping_sub(1) as u32 | 1
}

impl Member {
    /// Enters a process, whose lock is held.
    pub(crate) fn enter(&self, pid: u32, volume: Option<FileId>, command: &str) {
        let bytes = command.as_bytes();
        for (n, word) in self.command.iter().enumerate() {
            let mut eight = [0; 8];
            let part = bytes.get(8 * n..).unwrap_or_default();
            let len = part.len().min(8);
            eight[..len].copy_from_slice(&part[..len]);
            // Relaxed: for people.
            word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        self.pid.store(pid, Ordering::Relaxed);
        let volume = volume.map_or([0; 2], |id| [id.device, id.number]);
        // Relaxed: read under the attach lock, under which this is.
        self.volume.iter().zip(volume).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.used.store(used_as(self.incarnation.load(Ordering::SeqCst)), Ordering::SeqCst);
    }

    /// Strikes out the process that stood here as this incarnation, or which this one says to be dead; unless
    /// another stands here by now. None of its slots is in use any more. False if that was done already.
    pub(crate) fn leave(&self, incarnation: u64) -> bool {
        self.used.compare_exchange(used_as(incarnation), 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Which process stands here, of those that ever had the number and did not leave by themselves.
    pub(crate) fn incarnation(&self) -> &AtomicU64 {
        &self.incarnation
    }

    /// A process enters, whose lock is held: which incarnation it is.
    pub(crate) fn begin(&self) -> u64 {
        loop {
            let seen = self.incarnation.load(Ordering::SeqCst);
            let mine = seen.wrapping_add(1) | 1;
            if self.incarnation.compare_exchange(seen, mine, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return mine;
            }
        }
    }

    /// From now on the process that stands here as this incarnation counts for nothing: the incarnation that
    /// says so. None if another stands here by now.
    pub(crate) fn fence(&self, seen: u64) -> Option<u64> {
        let fenced = seen.wrapping_add(seen & 1);
        self.incarnation
            .compare_exchange(seen, fenced, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
            .then_some(fenced)
    }

    /// The same, unless another incarnation than this one stands here by now.
    pub(crate) fn fence_from(&self, incarnation: u64) {
        let _ = self.incarnation.compare_exchange(
            incarnation,
            incarnation + 1,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
    }

    /// Says from where on the process that entered as this incarnation reads the log (none: nowhere), and
    /// that it wants no more of it than `lag_max` bytes. False if it counts for nothing by now.
    pub(crate) fn want_log(&self, incarnation: u64, from: Option<Lsn>, lag_max: u64) -> bool {
        let say = |word: &AtomicU64, number: u64| loop {
            let seen = word.load(Ordering::SeqCst);
            // In this order: another incarnation's first word changes what was seen, so what this one says
            // late does not take its place.
            if self.incarnation.load(Ordering::SeqCst) != incarnation {
                return false;
            }
            if word
                .compare_exchange(seen, said(incarnation, number), Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
            {
                return true;
            }
        };
        say(&self.log_lag_max, lag_max / LOG_BLOCK)
            && say(&self.log_wanted, from.map_or(0, |from| from.0 / LOG_BLOCK + 1))
    }

    /// From where on the process here wants the log, of which the end is `tail`; none if it does not read it.
    pub(crate) fn log_wanted(&self, tail: Lsn) -> Option<Lsn> {
        // SeqCst throughout: rare, and in one order with the words of a process that begins to read.
        let wanted = self.log_wanted.load(Ordering::SeqCst);
        let lag_max = self.log_lag_max.load(Ordering::SeqCst);
        let incarnation = self.incarnation.load(Ordering::SeqCst);
        let from = heard(incarnation, wanted)?.checked_sub(1)?;
        let at_least = (tail.0 / LOG_BLOCK).saturating_sub(heard(incarnation, lag_max)?);
        Some(Lsn(from.max(at_least) * LOG_BLOCK))
    }

    /// Whether a process stands here, alive or not.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::SeqCst) != 0
    }

    /// Whether the process still stands here that was this incarnation: it has not left, and was not reaped.
    /// SeqCst: a process that finds it gone finds all that it, or the process that reaped it, has done.
    pub(super) fn stands_as(&self, incarnation: u32) -> bool {
        self.used.load(Ordering::SeqCst) == incarnation
    }

    /// Which file it has open as the main volume, if its disk can tell.
    pub(crate) fn volume(&self) -> Option<FileId> {
        let [device, number] = [0, 1].map(|n| self.volume[n].load(Ordering::Relaxed));
        (number != 0).then_some(FileId { device, number })
    }

    /// The process's number, in its own namespace.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// The beginning of its command.
    pub(crate) fn command(&self) -> String {
        let bytes: Vec<u8> =
            self.command.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        Member {
            used: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            volume: Default::default(),
            incarnation: AtomicU64::new(0),
            log_wanted: AtomicU64::new(0),
            log_lag_max: AtomicU64::new(0),
            command: Default::default(),
        }
    }

    #[test]
    fn log_is_wanted_until_nobody_does_or_the_process_counts_for_nothing() {
        let member = member();
        let end = Lsn(1 << 30);
        assert_eq!(member.log_wanted(end), None);
        let first = member.begin();
        assert!(member.want_log(first, Some(Lsn(10_000)), u64::MAX));
        assert_eq!(member.log_wanted(end), Some(Lsn(8192)), "in blocks");
        assert!(member.want_log(first, None, u64::MAX));
        assert_eq!(member.log_wanted(end), None);
        assert!(member.want_log(first, Some(Lsn(0)), u64::MAX));
        assert_eq!(member.log_wanted(end), Some(Lsn(0)));
        member.fence_from(first);
        assert_eq!(member.log_wanted(end), None, "its death was noted");
        assert!(!member.want_log(first, Some(Lsn(0)), u64::MAX));
    }

    #[test]
    fn what_the_next_process_wants_is_not_overwritten_by_who_was_taken_for_dead() {
        let member = member();
        let first = member.begin();
        assert!(member.want_log(first, Some(Lsn(4096)), u64::MAX));
        member.fence_from(first);
        let second = member.begin();
        assert_eq!(member.log_wanted(Lsn(1 << 30)), None, "it has said nothing yet");
        assert!(member.want_log(second, Some(Lsn(40_960)), u64::MAX));
        assert!(!member.want_log(first, Some(Lsn(81_920)), u64::MAX));
        assert_eq!(member.log_wanted(Lsn(1 << 30)), Some(Lsn(40_960)));
    }

    #[test]
    fn who_lags_too_far_behind_holds_no_more_than_that() {
        let member = member();
        let me = member.begin();
        assert!(member.want_log(me, Some(Lsn(4096)), 1 << 20));
        assert_eq!(member.log_wanted(Lsn(4096 + (1 << 20))), Some(Lsn(4096)));
        assert_eq!(member.log_wanted(Lsn(1 << 30)), Some(Lsn((1 << 30) - (1 << 20))));
    }
}

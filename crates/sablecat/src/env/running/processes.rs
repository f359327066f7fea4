//! Which processes have the environment open, and what each holds: a look at the shared words while all of
//! them go on, from inside or from outside.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use sablecat_os::atomic::Ordering;
use sablecat_os::liveness::LockFile;
use sablecat_os::regular;

use super::Running;
use crate::env::config::Config;
use crate::env::files::entrance::taken_alone;
use crate::env::files::left::{region_path, this_boots};
use crate::env::files::{LOCK, existing_volume, log_memory};
use crate::error::{Error, Result};
use crate::pages::volume::Volume;
use crate::region::{Membership, NO_EPOCH, Phase, Region, STRUCTURE_LATCHES, Work};
use crate::txn::locks::{LockMode, LockTable, SeenLock};
use crate::types::{Lsn, PageId};

/// A process that has the environment open, or died while it had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its number, in its own namespace of process numbers.
    pub pid: u32,
    /// The beginning of its command.
    pub command: String,
    /// Whether it is alive. A dead process is shown until another process has finished its work.
    pub alive: bool,
    /// Whether it is the process that called this.
    pub asking: bool,
    /// What its operations and transactions hold. A process that does nothing at the moment has none, or idle
    /// ones.
    pub participants: Vec<Participant>,
}

/// An operation or transaction in progress, or the slot of one that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// Its slot.
    pub slot: u16,
    /// The name of its transaction ([`Txn::set_name`](crate::Txn::set_name)), or the beginning of that name.
    pub name: Option<String>,
    /// The snapshot it has pinned.
    pub snapshot: Option<Lsn>,
    /// Bytes of log committed since that snapshot.
    pub snapshot_lag: u64,
    /// Whether its snapshot was given up because the cache was full.
    pub given_up: bool,
    /// Whether it is reading pages at this moment.
    pub in_operation: bool,
    /// Whether it is past the commit point and publishing.
    pub committing: bool,
    /// Pages it has latched: to change them in a commit, to read them in, to evict them, to write them for a
    /// checkpoint.
    pub pages_latched: usize,
    /// Record locks it holds.
    pub record_locks: usize,
    /// Whether it waits for a record lock.
    pub waits_for_lock: bool,
    /// The roles it has; only one participant at a time has a role: `commit`, `checkpoint`, `housekeeping`,
    /// `reaping`, `serial`, `unreachable` (looking for unreachable pages), `log flush`, `log supply`; and
    /// `structure` (of trees) and `lock table`, once for each latch held.
    pub roles: Vec<&'static str>,
}

/// A record lock that a participant holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordLock {
    /// The record, as the lock table identifies it: 44 bits of a hash of database and key, which cannot be
    /// reversed. [`Database::lock_number`] gives the number for a key.
    ///
    /// [`Database::lock_number`]: crate::Database::lock_number
    pub record: u64,
    /// The slot of the participant that holds it, or waits for it.
    pub slot: u16,
    /// The number (pid) of that participant's process, in its own namespace; 0 if it has ended meanwhile.
    pub pid: u32,
    /// The name of that participant's transaction ([`Txn::set_name`](crate::Txn::set_name)).
    pub name: Option<String>,
    /// Whether the lock that is held or waited for is exclusive; otherwise it is shared.
    pub exclusive: bool,
    /// Whether it is part of a coarse lock, on many records, because the lock table had no room for more
    /// single locks.
    pub coarse: bool,
    /// The slots of the participants it waits for; none if it holds the lock.
    pub waits_for: Option<Vec<u16>>,
}

/// What is looked at.
struct SharedState<'a> {
    region: &'a Region,
    locks: &'a LockTable,
    /// The log's turns, by name, and the slot that has each.
    turns: [(&'static str, u16); 2],
}

/// The processes that share an environment, and what they hold: see
/// [`Builder::activity`](crate::Builder::activity).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// The processes that have it open.
    pub processes: Vec<Process>,
    /// All record locks that participants hold or wait for. Sorted by record, holders before waiters.
    pub locks: Vec<RecordLock>,
}

/// Looks at the processes that share the environment in a directory, from outside.
pub(crate) fn activity(directory: &Path, config: &Config) -> Result<Activity> {
    let Some(region) = region_from_outside(directory, config)? else { return Ok(Activity::default()) };
    let shared =
        SharedState { region: &region, locks: &LockTable::new(&region), turns: log_memory(&region).turns() };
    let locks = shared.record_locks();
    let activity = Activity { processes: shared.processes(&locks), locks };
    // Whether it was all there.
    region.check_fence_and_end().map(|()| activity)
}

/// The region of the processes that share the environment in a directory, to look at from outside: takes no
/// number and no lock, waits for nobody and changes nothing. What is read there others write meanwhile, or
/// have damaged: nothing of it is to be believed to be within bounds. None if no process has the environment
/// open, and none that had it open was killed.
pub(super) fn region_from_outside(directory: &Path, config: &Config) -> Result<Option<Arc<Region>>> {
    let mut config = config.clone();
    let directory = &config.locate(directory)?;
    let volume = existing_volume(directory, &config)?;
    let (lock_path, region_path) = (directory.join(LOCK), region_path(directory, &config)?);
    let lock = match LockFile::open_to_ask(&lock_path) {
        Ok(lock) => Membership::outside(lock),
        // Nobody has ever had it open to the end.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("opening", &lock_path, error)),
    };
    let file = match regular::open(&region_path, OpenOptions::new().read(true), 0) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let taken =
                lock.whole_file_is_taken().map_err(|e| Error::io("testing the locks of", &lock_path, e))?;
            return if taken { Err(taken_alone(&lock_path, &lock.attach_note())) } else { Ok(None) };
        }
        Err(error) => return Err(Error::io("opening the shared memory", &region_path, error)),
    };
    let uuid = Volume::look(&*config.disk, &volume)?.uuid;
    let region = Region::look_at((file, &region_path), this_boots(uuid)?, lock).map_err(|error| {
        Error::new(error.kind(), format!("reading the shared memory {}: {error}", region_path.display()))
    })?;
    Ok(Some(Arc::new(region)))
}

/// The process that a slot belongs to; 0 if it belongs to none.
pub(in crate::env) fn pid_of(region: &Region, slot: u16) -> u32 {
    let geometry = region.geometry();
    let member = (slot < geometry.slots).then(|| region.slot(slot).member()).flatten();
    match member.filter(|&member| member < geometry.members) {
        Some(_) if region.membership().is_none() => std::process::id(),
        Some(member) => region.member(member).pid(),
        None => 0,
    }
}

impl Running {
    fn shared(&self) -> SharedState<'_> {
        SharedState {
            region: self.kernel.pages.region(),
            locks: &self.kernel.locks,
            turns: self.kernel.log.turns(),
        }
    }

    /// All processes that have the environment open.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let mut processes = self.shared().processes(&self.record_locks());
        if self.config.read_only {
            // A process that follows checkpoints pins their numbers.
            for one in processes.iter_mut().flat_map(|process| &mut process.participants) {
                one.snapshot = one.snapshot.map(|at| self.kernel.pages.lsn_of(at));
                one.snapshot_lag = one.snapshot.map_or(0, |at| self.checkpointed().0.saturating_sub(at.0));
            }
        }
        processes
    }

    /// All record locks, and all waits for one.
    pub(crate) fn record_locks(&self) -> Vec<RecordLock> {
        self.shared().record_locks()
    }
}

/// What all participants hold.
struct Holdings<'a> {
    locks: &'a [RecordLock],
    latches: HashMap<u16, usize>,
    roles: Vec<(&'static str, u16)>,
}

impl SharedState<'_> {
    fn processes(&self, locks: &[RecordLock]) -> Vec<Process> {
        let region = self.region;
        let held = Holdings { locks, latches: self.latches(), roles: self.roles() };
        let Some(membership) = region.membership() else {
            let command = std::env::args().collect::<Vec<_>>().join(" ");
            return vec![Process {
                pid: std::process::id(),
                command,
                alive: true,
                asking: true,
                participants: self.participants_of(0, &held),
            }];
        };
        (0..region.geometry().members)
            .filter(|&number| region.member(number).is_used())
            .map(|number| Process {
                pid: region.member(number).pid(),
                command: region.member(number).command(),
                alive: membership.is_alive(number),
                asking: number == region.number(),
                participants: self.participants_of(number, &held),
            })
            .collect()
    }

    fn record_locks(&self) -> Vec<RecordLock> {
        let shown = |seen: SeenLock| RecordLock {
            record: seen.record,
            slot: seen.slot,
            pid: pid_of(self.region, seen.slot),
            name: (seen.slot < self.region.geometry().slots)
                .then(|| self.region.slot(seen.slot).name())
                .flatten(),
            exclusive: seen.mode == LockMode::Exclusive,
            coarse: seen.coarse,
            waits_for: seen.waits_for,
        };
        let mut locks: Vec<_> = self.locks.look().into_iter().map(shown).collect();
        locks.sort_by_key(|lock| (lock.record, lock.waits_for.is_some(), lock.slot));
        locks
    }

    /// How many pages each participant has latched. A participant's list knows only those of a commit.
    fn latches(&self) -> HashMap<u16, usize> {
        let pages =
            self.region.header().page_high.load(Ordering::SeqCst).min(self.region.geometry().pages_max);
        let mut latches = HashMap::new();
        for page in 1..pages {
            match self.region.entry(PageId(page as u32)).word().owner() {
                0 => {}
                owner => *latches.entry(owner).or_default() += 1,
            }
        }
        latches
    }

    /// Which slot does what only one does at a time; for some nobody does, and their slot is 0.
    fn roles(&self) -> Vec<(&'static str, u16)> {
        let region = self.region;
        let mut roles = vec![
            ("commit", region.role(Work::Commit).look().owner()),
            ("checkpoint", region.role(Work::Checkpoint).look().owner()),
            ("housekeeping", region.role(Work::Housekeeping).look().owner()),
            ("reaping", region.role(Work::Reaping).look().owner()),
            ("serial", region.role(Work::Serial).look().owner()),
            ("unreachable", region.role(Work::Unreachable).look().owner()),
        ];
        roles.extend(self.turns);
        roles.extend(
            (0..STRUCTURE_LATCHES)
                .map(|index| ("structure", region.role(Work::Structure(index)).look().owner())),
        );
        roles.extend(self.locks.look_at_latches().map(|owner| ("lock table", owner)));
        roles
    }

    fn participants_of(&self, member: u16, held: &Holdings<'_>) -> Vec<Participant> {
        let Holdings { locks, latches, roles } = held;
        let region = self.region;
        let visible = region.header().visible();
        region
            .slots_used()
            .filter(|&number| region.slot(number).member() == Some(member))
            .map(|number| {
                let slot = region.slot(number);
                let snapshot = slot.pinned();
                Participant {
                    slot: number,
                    name: slot.name(),
                    snapshot,
                    snapshot_lag: snapshot.map_or(0, |at| visible.0.saturating_sub(at.0)),
                    given_up: slot.is_revoked() && snapshot.is_some(),
                    in_operation: slot.epoch() != NO_EPOCH,
                    committing: slot.phase() == Phase::Committing,
                    pages_latched: latches.get(&number).copied().unwrap_or_default(),
                    record_locks: locks
                        .iter()
                        .filter(|lock| lock.slot == number && lock.waits_for.is_none())
                        .count(),
                    waits_for_lock: slot.waits_for.load(Ordering::Acquire) != 0,
                    roles: roles
                        .iter()
                        .filter(|(_, owner)| *owner == number)
                        .map(|&(name, _)| name)
                        .collect(),
                }
            })
            .collect()
    }
}

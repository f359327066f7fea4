//! Who has the environment open, and what each holds: a look at the shared words while everybody goes on.

use sablecat_os::atomic::Ordering;

use super::Core;
use crate::region::{NO_EPOCH, Phase, STRUCTURE_LATCHES};
use crate::txn::locks::Mode;
use crate::types::Lsn;

/// A process that has the environment open, or died while it had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its number, in its own namespace of process numbers.
    pub pid: u32,
    /// The beginning of its command.
    pub command: String,
    /// Whether it lives. A dead one is shown until somebody has finished what it left undone.
    pub alive: bool,
    /// Whether it is the process that asks.
    pub asking: bool,
    /// What its operations and transactions hold. A process that does nothing at the moment has none, or idle ones.
    pub participants: Vec<Participant>,
}

/// An operation or transaction in progress, or the place of one that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// Its slot.
    pub slot: u16,
    /// The snapshot it has pinned.
    pub snapshot: Option<Lsn>,
    /// Bytes of log committed since that snapshot.
    pub snapshot_lag: u64,
    /// Whether its snapshot was given up for want of cache.
    pub given_up: bool,
    /// Whether it is looking at pages at this moment.
    pub in_operation: bool,
    /// Whether it is past the commit point and publishing.
    pub committing: bool,
    /// Pages it has latched for a commit.
    pub pages_latched: usize,
    /// Record locks it has.
    pub record_locks: usize,
    /// Whether it waits for a record lock.
    pub waits_for_lock: bool,
    /// Work that one participant does at a time, and this one does: `commit`, `checkpoint`, `housekeeping`, `reaping`, `serial`, `log flush`,
    /// `log supply`; and `structure`, once for each structure latch it has.
    pub roles: Vec<&'static str>,
}

/// A record lock that somebody has or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordLock {
    /// The record, as the lock table knows it: 44 bits of a hash of database and key, which do not tell either. [`Database::lock_number`] is the
    /// other direction.
    ///
    /// [`Database::lock_number`]: crate::Database::lock_number
    pub record: u64,
    /// The slot of the participant that has it, or waits for it.
    pub slot: u16,
    /// Its process's number, in its own namespace; 0 if it has ended meanwhile.
    pub pid: u32,
    /// Whether it has it, or wants it, alone; otherwise, with others that share it.
    pub exclusive: bool,
    /// Whether it has it as part of a lock on many records, for want of room.
    pub coarse: bool,
    /// The slots of the participants it waits for; none: it has the lock.
    pub waits_for: Option<Vec<u16>>,
}

impl Core {
    /// Everybody who has the environment open.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let region = &self.kernel.pages.region;
        let locks = self.record_locks();
        let Some(membership) = region.membership() else {
            let command = std::env::args().collect::<Vec<_>>().join(" ");
            return vec![Process {
                pid: std::process::id(),
                command,
                alive: true,
                asking: true,
                participants: self.participants_of(0, &locks),
            }];
        };
        (0..region.geometry().members)
            .filter(|&number| region.member(number).is_used())
            .map(|number| Process {
                pid: region.member(number).pid(),
                command: region.member(number).command(),
                alive: membership.is_alive(number),
                asking: number == region.number(),
                participants: self.participants_of(number, &locks),
            })
            .collect()
    }

    /// All record locks, and all waits for one.
    pub(crate) fn record_locks(&self) -> Vec<RecordLock> {
        let region = &self.kernel.pages.region;
        let private = region.membership().is_none();
        let pid = |slot: u16| match region.slot(slot).member() {
            Some(_) if private => std::process::id(),
            Some(member) => region.member(member).pid(),
            None => 0,
        };
        let shown = |seen: crate::txn::locks::Seen| RecordLock {
            record: seen.record,
            slot: seen.slot,
            pid: pid(seen.slot),
            exclusive: seen.mode == Mode::Exclusive,
            coarse: seen.coarse,
            waits_for: seen.waits_for,
        };
        let mut locks: Vec<_> = self.kernel.locks.look().into_iter().map(shown).collect();
        locks.sort_by_key(|lock| (lock.record, lock.waits_for.is_some(), lock.slot));
        locks
    }

    fn participants_of(&self, member: u16, locks: &[RecordLock]) -> Vec<Participant> {
        let region = &self.kernel.pages.region;
        let header = region.header();
        let visible = header.visible();
        let mut roles = vec![
            ("commit", header.commit.0.look().owner()),
            ("checkpoint", header.checkpoint.0.look().owner()),
            ("housekeeping", header.housekeep.0.look().owner()),
            ("reaping", header.reap.0.look().owner()),
            ("serial", header.serial.0.look().owner()),
        ];
        roles.extend(self.kernel.log.turns());
        roles.extend((0..STRUCTURE_LATCHES).map(|index| ("structure", region.structure(index).look().owner())));
        (1..header.slots_high.0.load(Ordering::SeqCst) as u16)
            .filter(|&number| region.slot(number).member() == Some(member))
            .map(|number| {
                let slot = region.slot(number);
                let snapshot = slot.pinned();
                Participant {
                    slot: number,
                    snapshot,
                    snapshot_lag: snapshot.map_or(0, |at| visible.0.saturating_sub(at.0)),
                    given_up: slot.is_revoked() && snapshot.is_some(),
                    in_operation: slot.epoch() != NO_EPOCH,
                    committing: slot.phase() == Phase::Committing,
                    pages_latched: slot.list_len(),
                    record_locks: locks.iter().filter(|lock| lock.slot == number && lock.waits_for.is_none()).count(),
                    waits_for_lock: slot.waits_for.load(Ordering::Acquire) != 0,
                    roles: roles.iter().filter(|(_, owner)| *owner == number).map(|&(name, _)| name).collect(),
                }
            })
            .collect()
    }
}

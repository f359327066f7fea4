//! What statistics show of the lock table: a look at what goes on, not a lock on it.

use sablecat_os::atomic::Ordering;

use super::LockTable;
#[cfg(test)]
use super::Mode;
use super::table::Counter;
#[cfg(test)]
use super::word::{LockId, Want};

/// A lock that somebody has.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    /// The participant.
    pub(crate) slot: u16,
    /// How it has it.
    pub(crate) mode: Mode,
    /// Whether it has it as part of a lock on many records.
    pub(crate) coarse: bool,
    /// Whether somebody may be waiting for it.
    pub(crate) awaited: bool,
}

/// What happened since the region was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Locks that were not to be had at once.
    pub(crate) waits: u64,
    /// Waits that ended in a deadlock error.
    pub(crate) deadlocks: u64,
    /// Waits that ended in a timeout.
    pub(crate) timeouts: u64,
    /// Locks made coarse for want of room.
    pub(crate) coarse: u64,
}

impl LockTable {
    /// Who has the record of `hash` locked.
    #[cfg(test)]
    pub(crate) fn holders(&self, hash: u64) -> Vec<Holder> {
        let mut holders = Vec::new();
        let want = Want { id: LockId::of(hash), mode: Mode::Shared };
        self.table.against(0, want, |lock| {
            holders.push(Holder { slot: lock.owner(), mode: lock.mode(), coarse: lock.is_coarse(), awaited: lock.is_waited() });
        });
        holders
    }

    /// What happened since the region was created.
    pub(crate) fn counts(&self) -> Counts {
        let of = |counter| self.table.counter(counter).load(Ordering::Relaxed);
        Counts {
            waits: of(Counter::Waits),
            deadlocks: of(Counter::Deadlocks),
            timeouts: of(Counter::Timeouts),
            coarse: of(Counter::Coarse),
        }
    }
}

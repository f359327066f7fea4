//! What people and statistics are shown of the lock table: a look at what goes on, not a lock on it.

use sablecat_os::atomic::Ordering;

use super::table::Counter;
#[cfg(test)]
use super::word::Want;
use super::word::{LockId, Word};
use super::{LockMode, LockTable};

/// A lock that somebody has.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    /// The participant.
    pub(crate) slot: u16,
    /// How it has it.
    pub(crate) mode: LockMode,
    /// Whether it has it as part of a lock on many records.
    pub(crate) coarse: bool,
    /// Whether somebody may be waiting for it.
    pub(crate) awaited: bool,
}

/// A lock, or the wait for one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeenLock {
    /// What the table knows of the record.
    pub(crate) record: u64,
    /// The participant.
    pub(crate) slot: u16,
    /// How it has the record, or wants it.
    pub(crate) mode: LockMode,
    /// Whether it has it as part of a lock on many records.
    pub(crate) coarse: bool,
    /// The participants it waits for; none: it has the lock.
    pub(crate) waits_for: Option<Vec<u16>>,
}

/// What the table keeps of a record's hash.
pub(crate) fn kept_of(hash: u64) -> u64 {
    LockId::of(hash).0
}

/// What happened since the region was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockCounts {
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
    /// The holders of locks on the record of `hash`.
    #[cfg(test)]
    pub(crate) fn holders(&self, hash: u64) -> Vec<Holder> {
        let mut holders = Vec::new();
        let want = Want { id: LockId::of(hash), mode: LockMode::Shared };
        self.table.against(0, want, |lock| {
            holders.push(Holder {
                slot: lock.owner(),
                mode: lock.mode(),
                coarse: lock.is_coarse(),
                awaited: lock.is_waited(),
            });
        });
        holders
    }

    /// All locks, and all waits for one, at a glance: no latch is taken, so what was there all the time is
    /// shown, and nothing else for sure.
    pub(crate) fn look(&self) -> Vec<SeenLock> {
        let seen = |word: Word, slot, waits_for| SeenLock {
            record: word.id().0,
            slot,
            mode: word.mode(),
            coarse: word.is_coarse(),
            waits_for,
        };
        let mut found = Vec::new();
        self.table.each_place(|index| {
            // Acquire: as in `BucketTable::against`.
            let word = Word(self.table.word(index).load(Ordering::Acquire));
            if !word.is_free() {
                found.push(seen(word, word.owner(), None));
            }
        });
        for (slot, words) in self.table.slots_in_use() {
            let wait = Word(words.waits_for.load(Ordering::Acquire));
            if !wait.is_free() {
                let mut holders = Vec::new();
                self.table.against(slot, wait.want(), |lock| holders.push(lock.owner()));
                found.push(seen(wait, slot, Some(holders)));
            }
        }
        found
    }

    /// The participants that are changing the table, once for each part of it. They may have been stopped in
    /// the middle.
    pub(crate) fn look_at_latches(&self) -> impl Iterator<Item = u16> {
        self.table.latch_owners()
    }

    /// What happened since the region was created.
    pub(crate) fn counts(&self) -> LockCounts {
        let of = |counter| self.table.counter(counter).load(Ordering::Relaxed);
        LockCounts {
            waits: of(Counter::Waits),
            deadlocks: of(Counter::Deadlocks),
            timeouts: of(Counter::Timeouts),
            coarse: of(Counter::Coarse),
        }
    }
}

//! Record locks: they say which transactions may go on with a record, and last until the transaction ends.
//!
//! A lock is *shared* or *exclusive*, on one record, held by a participant slot. The record is known by a
//! 64-bit hash of its tree and key (name.rs) of which 44 bits are kept: records that agree in them share one
//! lock. That may make a transaction wait for no reason; it never lets one through that should wait. Locks
//! manage contention, no more: what a commit may do is decided by validation, so a lock that is late, lost
//! with its owner or coarser than need be costs time and nothing else.
//!
//! ```text
//! word.rs      one word of the table: record, owner, mode
//! table.rs     buckets of such words in the region, and their latches
//! manner.rs    how one is asked for
//! grant.rs     one try: what stands against it, what is written when nothing does
//! overflow.rs  full buckets: words in other buckets, coarse locks
//! wait.rs      waiting, and which waiters a release wakes
//! deadlock.rs  circles of waiters, and which one gives way
//! holders.rs   what statistics show
//! named.rs     locks that programs hold by name, each given back by itself
//! name.rs      from a tree and a key to the hash
//! ```
//!
//! # The idea
//! A bucket is a cache line: a header and seven words, each word one lock of one owner (a shared lock of five
//! owners is five words). Words are written under the latch in the header, a few tens of nanoseconds at a
//! time, and taken back by their owner with one swap, without it. So no state of the table needs repair: **a
//! word is a lock, whole, from the store that writes it to the swap that clears it**, and names the
//! participant that must clear it. If a participant dies anywhere, [`LockTable::release_all_of`] clears its
//! words and latches by looking at all of them.
//!
//! # Invariants
//! - A bucket's word goes from zero to something only under that bucket's latch, and back to zero only by its
//!   owner or the owner's reaper.
//! - A lock is granted under the latch of its record's home bucket, wherever its word ends up: so two grants
//!   for one record never overlap.
//! - A record lock is never awaited while holding anything short: a latch, a role, an operation. The detector
//!   could not see such a circle.
//!
//! # Fairness
//! A release wakes one waiter, of those that can go on the one whose transaction is oldest (and if it is to
//! share the lock, the others that are), not all: no stampede. A running participant may still take the lock
//! first. Newcomers to a shared lock hold back for one short sleep if somebody waits to have it exclusively.
//! Nothing stronger is promised: a transaction that keeps losing takes the environment's serial gate.
//!
//! # Costs (sketch)
//! A grant is one cache line, one compare-and-swap (the latch) and two stores; a release one swap; a
//! transaction's first lock another fetch-and-add, for its age. Measured, uncontended: 23 ns for all of it,
//! 21 for each of ten in one transaction, 12 to find that a lock is held already.
//!
//! `unsafe`: the view of the region's lock words as buckets, in table.rs.

mod deadlock;
mod grant;
mod holders;
mod manner;
mod name;
mod named;
mod overflow;
mod table;
#[cfg(test)]
mod tests;
mod wait;
mod word;

pub use deadlock::DeadlockPolicy;
pub(crate) use holders::{SeenLock, kept_of};
pub(crate) use name::record_hash;
pub(crate) use named::NamedLocks;
pub(crate) use word::LockMode;

use std::sync::Arc;
use std::time::Duration;

use sablecat_os::atomic::Ordering;

use crate::error::Result;
use crate::region::Region;
use manner::Manner;
use table::BucketTable;
use word::{LockId, Want, Word};

/// The locks of one transaction: where their words are. To drop it without [`LockTable::release_all`] leaves
/// them locked.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    /// Indices of the words in the table. One that was given up for a coarse lock may be somebody else's by
    /// now.
    words: Vec<u32>,
    /// Whether the slot says when this transaction took its first lock.
    dated: bool,
}

impl HeldLocks {
    /// True while no lock is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// The record locks of a region.
#[derive(Debug)]
pub(crate) struct LockTable {
    table: BucketTable,
    policy: DeadlockPolicy,
}

impl LockTable {
    /// The lock table of `region`.
    pub(crate) fn new(region: &Arc<Region>) -> LockTable {
        LockTable { table: BucketTable::new(Arc::clone(region)), policy: DeadlockPolicy::default() }
    }

    /// The same, with this choice of the participant that gives way in a deadlock. A matter of the
    /// participant that finds it: all should agree.
    pub(crate) fn with_policy(self, policy: DeadlockPolicy) -> LockTable {
        LockTable { policy, ..self }
    }

    /// Locks the record of `hash` for `me`, waiting for up to `timeout`. Nothing happens if `me` has it in
    /// this mode or a stronger one; if `me` shares it and wants it exclusively, it waits for the others that
    /// share it.
    ///
    /// # Errors
    /// `Deadlock`: waiting would never have ended, and `me` is the one to give way. `Timeout`: it took too
    /// long; the message names the holders. `TooMany`: no word is free. After each, what was held before
    /// still is.
    #[inline]
    pub(crate) fn acquire(
        &self,
        me: u16,
        hash: u64,
        mode: LockMode,
        timeout: Duration,
        held: &mut HeldLocks,
    ) -> Result<()> {
        let want = Want { id: LockId::of(hash), mode };
        self.date(me, held);
        if self.attempt(me, want, Manner::ASK, held)? {
            return Ok(());
        }
        self.wait(me, want, timeout, held)
    }

    /// Locks the record of `hash` for `me` if that is possible without waiting, and says whether it was.
    ///
    /// # Errors
    /// `TooMany`: no word is free.
    #[inline]
    pub(crate) fn try_acquire(
        &self,
        me: u16,
        hash: u64,
        mode: LockMode,
        held: &mut HeldLocks,
    ) -> Result<bool> {
        self.date(me, held);
        self.attempt(me, Want { id: LockId::of(hash), mode }, Manner::TAKE, held)
    }

    /// Whether somebody else has the record of `hash` locked. Without the latch: a lock that is taken
    /// meanwhile may not be seen. But the holder of the commit role sees all locks of its predecessors in the
    /// role.
    #[inline]
    pub(crate) fn is_taken(&self, me: u16, hash: u64) -> bool {
        let mut is_taken = false;
        let want = Want { id: LockId::of(hash), mode: LockMode::Exclusive };
        if !self.table.is_quiet(want.id) {
            self.table.against(me, want, |_| is_taken = true);
        }
        is_taken
    }

    /// Whether somebody else has the record of `hash` locked. If so, the end of that lock wakes the
    /// transactions that sleep until something changes.
    pub(crate) fn is_barred(&self, me: u16, hash: u64) -> bool {
        self.stands_against(me, Want { id: LockId::of(hash), mode: LockMode::Exclusive })
    }

    /// Ends all locks in `held` and wakes their waiters.
    #[inline]
    pub(crate) fn release_all(&self, me: u16, held: &mut HeldLocks) {
        self.release_to_retry(me, held);
        held.dated = false;
    }

    /// Releases all locks of a transaction that will run again. It keeps its age, so that it does not give
    /// way as the youngest for ever.
    #[inline]
    pub(crate) fn release_to_retry(&self, me: u16, held: &mut HeldLocks) {
        if !held.is_empty() {
            self.release_some(me, held);
        }
    }

    #[inline(never)]
    fn release_some(&self, me: u16, held: &mut HeldLocks) {
        // If this process was taken for dead, the slot is another's, and with it the locks that name it.
        let is_fenced = self.table.is_fenced();
        for index in held.words.drain(..).filter(|_| !is_fenced) {
            self.release(me, index as usize);
        }
    }

    #[inline]
    fn release(&self, me: u16, index: usize) {
        let place = self.table.word(index);
        // Relaxed: if the word is ours we wrote it; if it is not, it does not matter whose.
        if Word(place.load(Ordering::Relaxed)).owner() == me {
            // Pairs with the Acquire of the survey that finds the word free. SeqCst: see `pass_on`.
            let last = Word(place.swap(Word::FREE.0, Ordering::SeqCst));
            if last.is_waited() {
                self.pass_on(last);
            }
        }
    }

    /// Releases whatever the participant of `slot` held when it died: its locks, its latches on buckets, its
    /// announcements. The caller knows that it is dead; others may do the same at once, and should the caller
    /// die here, the next one starts again.
    pub(crate) fn release_all_of(&self, slot: u16) {
        self.table.each_place(|index| self.release_for_dead(slot, index));
        // Only now: while a latch is held nobody relies on the words under it.
        self.table.break_latches_of(slot);
        self.withdraw(slot);
    }

    /// As [`LockTable::release`], for a dead participant: unless another mender has done the same, and the
    /// word is a third participant's by now.
    fn release_for_dead(&self, dead: u16, index: usize) {
        let place = self.table.word(index);
        // Relaxed: the exchange decides.
        let mut last = Word(place.load(Ordering::Relaxed));
        while last.owner() == dead && !self.table.is_fenced() {
            // SeqCst: as in `release`. It may have been flagged meanwhile, by a waiter.
            match place.compare_exchange(last.0, Word::FREE.0, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) if last.is_waited() => return self.pass_on(last),
                Ok(_) => return,
                Err(now) => last = Word(now),
            }
        }
    }

    /// Notes when the transaction took its first lock: that is its age, when one of several has to give way.
    #[inline]
    fn date(&self, me: u16, held: &mut HeldLocks) {
        if !held.dated {
            held.dated = true;
            // Relaxed: others look at it after they saw the announcement of a wait, which is a Release.
            self.table.slot(me).locks_since.store(self.table.next_moment(), Ordering::Relaxed);
        }
    }
}

//! Queues: records by number, of which some transactions append and others consume, without being in each
//! other's way.
//!
//! A queue's records are those of an ordinary tree: the key is the number, eight bytes, most significant
//! first; the value is never empty, but that of a *mark*: the record that was the last when it was consumed.
//!
//! # Appending
//! The next number is one above the last, so two transactions that append at once would take the same. So
//! numbers are taken by batches of [`BATCH`]: a transaction that appends locks the batch of the next number,
//! and takes the numbers that are left in it. If it finds the batch locked, it goes on to a later one, and
//! does not wait. That it has a number for itself is known once the batch is locked and the newest state has
//! no record at or above the number. What is not used, or rolled back, is a gap.
//!
//! No number may come twice, so the highest one that was ever committed has to have a record: **a record is
//! removed only by a transaction that sees one above it**, and one that consumes the last record leaves a
//! mark in its place. A mark below other records goes with the next record that is consumed above it. (All
//! that on the newest state as on a snapshot: what a snapshot has above a record was committed, so if it is
//! gone by now there is another one above it.)
//!
//! The locks of batches have names of their own: a record that has just become visible is not locked by the
//! transaction that appended it, so consumers find the records of one commit in order.
//!
//! # Consuming
//! The first record whose lock is to be had without waiting, and that the newest state still has, is removed;
//! the lock stays until the transaction ends, so others pass over it. What was passed over, and that there is
//! nothing else, is not part of what a serialisable transaction has read: others may consume and append, as
//! with [`Transaction::try_lock`] they may lock. But a transaction that waits for a change waits for that as
//! well.
//!
//! # One by itself
//! An operation that appends or consumes one record by itself has no lock, but the page latched
//! (operations/queue.rs). So a transaction that has locked a batch or a record takes the commit role once
//! before it looks at the newest state.
//!
//! Each transaction remembers up to where it has consumed everything, so that it does not go over its own
//! removals again. Nothing else has to be remembered: leaves that get empty are joined with
//! their neighbours, so the first record is in one of the first few leaves.
//!
//! # Invariants
//! - Exclusion is by locks, and what a commit may do by validation, as everywhere: the record that was
//!   consumed, and that there was none where one is appended, is compared in the commit step (claims.rs, or,
//!   at the isolation Snapshot, with the other writes).
//!
//! # Costs (sketch)
//! Append: a lock, 23 ns; a way down to the last leaf and a copy of it, 150; the insertion. Consume: a way
//! down to the first leaf and a copy, 150; a lock; a comparison of two states of a leaf, nothing if it has
//! not changed; the removal.

use std::ops::Bound;

use super::Transaction;
use crate::access::{Scan, ScannedValue, StateSource};
use crate::error::{Error, Result};
use crate::txn::catalog::TreeRef;
use crate::txn::commit::publish;
use crate::txn::locks::{LockMode, record_hash};
use crate::txn::options::Isolation;
use crate::txn::refusals::removed;
use crate::txn::seen::merged::Merged;
use crate::txn::state::CommittedState;
use crate::types::TreeId;

/// Numbers that one lock is for.
pub(in crate::txn) const BATCH: u64 = 64;
/// So many batches in a row are tried. What comes then may be one transaction's that appends very much, so
/// each step is twice as far as the one before;
const TRIES_IN_A_ROW: u32 = 16;
/// and after so many one is waited for: a transaction with very many locks may have all of them
/// (locks/overflow.rs).
const TRIES: u32 = 48;
/// After the number of a batch, in the name of its lock: no record has such a key.
const TURN: u8 = b'a';

/// The key of a number.
pub(crate) fn key_of(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number of a key.
///
/// # Errors
/// `Invalid` for a key that is none of a number.
pub(crate) fn number_of(key: &[u8]) -> Result<u64> {
    let number = key.try_into().map(u64::from_be_bytes).ok().filter(|&number| number > 0);
    number.ok_or_else(|| {
        Error::invalid(format!(
            "the key {} is not that of a numbered record: something other than numbered records was written \
             to the database",
            key.escape_ascii()
        ))
    })
}

pub(in crate::txn) fn next_after(number: u64) -> Result<u64> {
    number.checked_add(1).ok_or_else(|| Error::exhausted("all numbers of a queue are used"))
}

/// The name of a batch's lock.
pub(in crate::txn) fn turn(tree: TreeId, batch: u64) -> u64 {
    let [a, b, c, d, e, f, g, h] = batch.to_be_bytes();
    record_hash(tree, &[a, b, c, d, e, f, g, h, TURN])
}

impl Transaction<'_> {
    /// Appends a record to a queue; its number. `last` is that of the last one, as far as is known; 0: it is
    /// not.
    ///
    /// # Errors
    /// Those of [`Transaction::set`] and of reading; `Timeout` and `Deadlock` beside transactions that have
    /// appended very much.
    pub(crate) fn append(&mut self, tree: &TreeRef, record: &[u8], last: u64) -> Result<u64> {
        let number = self.take_number(tree, last)?;
        let key = key_of(number);
        self.claim_found(tree, &key, None);
        self.set(tree, &key, Some(record))?;
        Ok(number)
    }

    fn take_number(&mut self, tree: &TreeRef, last: u64) -> Result<u64> {
        let taken = self.queues.known().taken.iter_mut().find(|taken| taken.0 == tree.id);
        if let Some(number) = taken.and_then(|taken| taken.1.next()) {
            return Ok(number);
        }
        self.transactions.pages.check_fence()?;
        let (me, patience) = (self.seat.number(), self.options.patience);
        let mut number = match last.checked_add(1).filter(|_| last > 0) {
            Some(next) => next,
            // That the last of all was taken through a handle is no more than a hint either.
            None => next_after(self.last_taken(tree)?)?,
        };
        for tries in 0.. {
            let batch = number / BATCH;
            let hash = turn(tree.id, batch);
            let locks = &self.transactions.locks;
            let is_locked = if tries < TRIES {
                locks.try_acquire(me, hash, LockMode::Exclusive, &mut self.held)?
            } else {
                locks.acquire(me, hash, LockMode::Exclusive, patience, &mut self.held)?;
                true
            };
            let beyond = (batch + 1).saturating_mul(BATCH);
            if !is_locked {
                let batches = 1 << tries.saturating_sub(TRIES_IN_A_ROW);
                number = beyond.saturating_add((batches - 1) * BATCH);
                continue;
            }
            // The transaction that had it locked last has committed by now, or never will.
            self.after_singles()?;
            number = number.max(next_after(self.last_taken(tree)?)?);
            if number / BATCH == batch {
                let taken = &mut self.queues.known().taken;
                taken.retain(|taken| taken.0 != tree.id);
                taken.push((tree.id, number.saturating_add(1)..beyond));
                return Ok(number);
            }
        }
        unreachable!("it goes on until a batch is locked")
    }

    /// The highest number that the newest state has, or this transaction is about to set; 0 if there is none.
    fn last_taken(&self, tree: &TreeRef) -> Result<u64> {
        let pending = match self.writes.records(tree.id) {
            Some(records) => records.edge(Bound::Unbounded, Bound::Unbounded, false)?,
            None => None,
        };
        let pending = pending.map_or(Ok(0), |(key, _)| number_of(&key))?;
        if tree.is_new() {
            return Ok(pending);
        }
        let (transactions, me) = (self.transactions, &*self.seat);
        let newest = transactions.pages.guarded(me);
        if !transactions.is_there(tree, newest.at(), me)? {
            return Err(removed());
        }
        let mut state = CommittedState { states: transactions, me, at: newest.at() };
        let mut scan = Scan::new(Bound::Unbounded, Bound::Unbounded);
        let last = scan.next(&tree.tree(), &mut state, false)?;
        Ok(last.map_or(Ok(0), |(key, _)| number_of(&key))?.max(pending))
    }

    /// Removes the first record of a queue that nobody else has locked; its number and value. None if all are
    /// locked, or there are none: what was looked at is waited for, if the transaction waits for a change.
    ///
    /// # Errors
    /// As [`Transaction::try_lock`] and [`Transaction::set`].
    pub(crate) fn consume(&mut self, tree: &TreeRef) -> Result<Option<(u64, Vec<u8>)>> {
        let (is_steady, at) = (self.keeps_snapshot(), self.at());
        // Read committed: records appear below those that were consumed.
        let front = if is_steady { self.queues.known().front_of(tree.id, at) } else { None };
        let from = || front.map_or(Bound::Unbounded, |front| Bound::Included(key_of(front).to_vec()));
        let mut scan = Scan::new(from(), Bound::Unbounded);
        let (mut passed, mut marks) = (None, Vec::new());
        while let Some((key, found)) = self.next_found_unnoted(tree, &mut scan)? {
            let number = number_of(&key)?;
            if is_mark(&found) {
                marks.push(key);
                continue;
            }
            if !self.try_take(tree, &key)? {
                passed.get_or_insert(number);
                continue;
            }
            let value = if is_steady {
                self.look(tree, |state| state.load(found))?
            } else {
                // It was consumed, perhaps, between the look and the lock.
                match self.get_owned(tree, &key)? {
                    Some(value) if !value.is_empty() => value,
                    _ => continue,
                }
            };
            let is_last = self.next_found_unnoted(tree, &mut scan)?.is_none();
            self.claim_found(tree, &key, Some(&value));
            self.set(tree, &key, is_last.then_some(&[][..]))?;
            for mark in marks {
                // Where it cannot be locked another consumer removes it, or has.
                if self.try_take(tree, &mark)? {
                    self.set(tree, &mark, None)?;
                }
            }
            if is_steady {
                self.queues.known().set_front(tree.id, at, passed.unwrap_or(number));
            }
            return Ok(Some((number, value)));
        }
        if self.tracks_reads() {
            self.note_empty(tree, Scan::new(from(), Bound::Unbounded))?;
        }
        Ok(None)
    }

    /// Removes the record of a queue with this number, out of its turn; false if there is none. Locks
    /// nothing, but where it leaves a mark: that which was there before goes, if it is to be had.
    ///
    /// # Errors
    /// As [`Transaction::try_lock`] and [`Transaction::set`].
    pub(crate) fn remove_numbered(&mut self, tree: &TreeRef, number: u64) -> Result<bool> {
        let key = key_of(number);
        let Some(value) = self.get_owned(tree, &key)?.filter(|value| !value.is_empty()) else {
            return Ok(false);
        };
        let mut above = Scan::new(Bound::Excluded(key.to_vec()), Bound::Unbounded);
        let is_last = self.next_found_unnoted(tree, &mut above)?.is_none();
        self.claim_found(tree, &key, Some(&value));
        self.set(tree, &key, is_last.then_some(&[][..]))?;
        if is_last {
            // Not further: there may be as many records that it has removed itself.
            let from = key_of(number.saturating_sub(2 * BATCH));
            let mut below = Scan::new(Bound::Included(from.to_vec()), Bound::Excluded(key.to_vec()));
            if let Some((mark, found)) = self.found_unnoted(tree, &mut below, false)?
                && is_mark(&found)
                && self.try_take(tree, &mark)?
            {
                self.set(tree, &mark, None)?;
            }
        }
        Ok(true)
    }

    /// As [`Transaction::try_lock`], also beside operations that consume without locks.
    fn try_take(&mut self, tree: &TreeRef, key: &[u8]) -> Result<bool> {
        self.try_lock_and(tree, key, Transaction::after_singles)
    }

    /// Lets all commits end that may not have seen the locks which this transaction has by now.
    fn after_singles(&self) -> Result<()> {
        publish::acquire(&self.transactions.pages, &self.transactions.log, &self.seat).map(drop)
    }

    /// Has a record that is about to change compared in the commit step with what it was found to be, where
    /// it is not compared with the other writes.
    pub(crate) fn claim_found(&mut self, tree: &TreeRef, key: &[u8], found: Option<&[u8]>) {
        let is_own =
            || self.writes.records(tree.id).is_some_and(|records| matches!(records.get(key), Ok(Some(_))));
        if self.options.isolation != Isolation::Snapshot && !tree.is_new() && !is_own() {
            self.claims.add(tree, key, found);
        }
    }

    fn next_found_unnoted(&self, tree: &TreeRef, scan: &mut Scan) -> Result<Option<(Vec<u8>, ScannedValue)>> {
        self.found_unnoted(tree, scan, true)
    }

    /// The next record of a scan, or, back, the one before, which does not count as read.
    fn found_unnoted(
        &self,
        tree: &TreeRef,
        scan: &mut Scan,
        forward: bool,
    ) -> Result<Option<(Vec<u8>, ScannedValue)>> {
        self.look(tree, |state| {
            scan.look_in(self.state(state.at));
            let mut merged = Merged { reads: None, ..self.merged(state, tree) };
            scan.next(&tree.tree(), &mut merged, forward)
        })
    }

    /// Notes what a scan has gone over in vain.
    fn note_empty(&mut self, tree: &TreeRef, mut scan: Scan) -> Result<()> {
        self.queues.known();
        self.look(tree, |state| {
            scan.look_in(self.state(state.at));
            let empty = self.queues.get().map(|known| &known.empty);
            let mut merged = Merged { reads: empty, ..self.merged(state, tree) };
            while scan.next(&tree.tree(), &mut merged, true)?.is_some() {}
            Ok(())
        })
    }
}

/// Whether a record was the last when it was consumed.
pub(crate) fn is_mark(found: &ScannedValue) -> bool {
    matches!(found, ScannedValue::Bytes(value) if value.is_empty())
}

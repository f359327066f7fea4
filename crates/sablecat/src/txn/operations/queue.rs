//! One record that is appended or consumed by itself: the fast path of auto-commit operations.
//!
//! One leaf, one version; no write set, no lock. An operation that appends has the last leaf latched, and one
//! that consumes the first that has a record to be had: nobody else has the number, or the record, until that
//! is published.
//!
//! What transactions have in hand they have locked. A transaction with such a lock looks at the newest state
//! once it has had the commit role after the lock (`Transaction::after_singles`). So the locks are looked at
//! in the commit step: either the lock is seen here, or the commit there.
//!
//! Where the last leaf is full it is divided under the tree's structure latch. Whatever is less simple goes
//! by a transaction: an empty queue, a leaf that is to be merged, records that somebody follows.
//!
//! Costs (sketch, 32 bytes, all in cache): those of a single change (txn/operations/single.rs), and a look at
//! a line of the lock table for each record that is passed over, and twice for the one that is taken.

use std::borrow::Cow;

use super::Kernel;
use super::single::is_too_old;
use crate::access::{PageWrite, RecordsOnPage, StoredValue, Tree, Tried};
use crate::error::{ErrorKind, Result};
use crate::log::{RecordBuilder, RecordKind};
use crate::pages::LocalParticipant;
use crate::txn::catalog::TreeRef;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish;
use crate::txn::commit::scratch::ScratchRecord;
use crate::txn::locks::record_hash;
use crate::txn::options::Durability;
use crate::txn::refusals::conflict;
use crate::txn::transactions::queue::{BATCH, next_after, number_of, turn};
use crate::types::{Lsn, PageId};

/// So many batches that others have are passed over.
const BATCHES: usize = 4;
/// So many marks go with a record at most.
const MARKS: usize = 3;
/// So many leaves are looked at for what can be consumed.
const LEAVES: usize = 4;
/// Below all numbers, and above all.
const FIRST: &[u8] = &[];
const LAST: &[u8] = &[0xff; 8];

/// A change that was made and is to be published.
struct Prepared<T> {
    done: T,
    /// The names of locks that nobody may have.
    free: [u64; 1 + MARKS],
    locks: usize,
}

impl<T> Prepared<T> {
    fn new(done: T, lock: u64) -> Prepared<T> {
        let mut free = [0; 1 + MARKS];
        free[0] = lock;
        Prepared { done, free, locks: 1 }
    }
}

/// What is consumed.
struct FirstRecord {
    /// Which record of its leaf it is, from 0 on.
    n: usize,
    key: [u8; 8],
    value: Vec<u8>,
    /// It stays as a mark: a record is removed only by an operation that sees one above it.
    is_highest: bool,
    /// Below it, likewise.
    marks: [(usize, [u8; 8]); MARKS],
    marked: usize,
}

/// A leaf, and a key that it covers.
type Covered = (PageId, Cow<'static, [u8]>);

/// How an attempt ended.
enum Attempt<T> {
    Done(Lsn, T),
    /// It takes a transaction.
    NotSo,
    /// The page that was found does not cover the end any more.
    Moved,
}

impl Kernel {
    /// Appends a record to a queue and commits that; its number. None if it takes a transaction: nothing was
    /// done.
    pub(crate) fn append_one(
        &self,
        tree: &TreeRef,
        record: &[u8],
        durability: Durability,
    ) -> Result<Option<u64>> {
        // A long one goes past the cache, and into the log in parts.
        if record.len() > tree.tree().inline_value_bytes_max(self.page_size(), size_of::<u64>()) {
            return Ok(None);
        }
        let find = |view: &Tree<'_>, at, me: &LocalParticipant| {
            Ok(Some((self.locate(view, view.sought(LAST), at, me)?, Cow::Borrowed(LAST))))
        };
        let mut is_full = false;
        let appended = self.change_end(tree, durability, find, |changes, view, page, log| {
            let me = changes.participant().number();
            let Some(number) = self.number_at_end(tree, view, changes.latched(page)?, me)? else {
                return Ok(None);
            };
            let key = number.to_be_bytes();
            let Tried::Done = view.try_change(changes, page, (view.sought(&key), Some(record)))? else {
                is_full = true;
                return Ok(None);
            };
            log.put(tree.id, &key, record);
            Ok(Some(Prepared::new(number, turn(tree.id, number / BATCH))))
        })?;
        if is_full && appended.is_none() {
            return self.append_dividing(tree, record, durability);
        }
        Ok(appended)
    }

    /// The same, where the last leaf has no room for it.
    #[cold]
    fn append_dividing(&self, tree: &TreeRef, record: &[u8], durability: Durability) -> Result<Option<u64>> {
        let seat = self.pages.participants.sit()?;
        let me = &*seat;
        let mut log = ScratchRecord::of(me);
        self.wait_for_gate(me)?;
        let attempt = self.patiently(|| {
            let _structure = self.hold_structure(std::iter::once(tree.id), me)?;
            loop {
                let attempt = self.attempt_dividing(tree, record, me, &mut log);
                // Nobody saw anything of a snapshot that was given up.
                if !is_too_old(&attempt) {
                    return attempt;
                }
            }
        });
        drop(log);
        let Attempt::Done(lsn, number) = attempt? else { return Ok(None) };
        self.settle(lsn, tree.durability(durability), me.number())?;
        Ok(Some(number))
    }

    fn attempt_dividing(
        &self,
        tree: &TreeRef,
        record: &[u8],
        me: &LocalParticipant,
        log: &mut RecordBuilder,
    ) -> Result<Attempt<u64>> {
        let view = tree.tree();
        // Pinned after the structure latch was taken: the last leaf stays that.
        let pinned = self.pages.pinned(me);
        let at = pinned.at();
        let page = self.pages.operate(me, || view.find(&self.pages.at_pin(me, at)?, view.sought(LAST)))?;
        let mut changes = ChangedPages::new(&self.pages, me, at);
        let leaf = changes.latched(page)?;
        // Where the snapshot was given up before that, the page may be another's.
        let number = match view.covers(leaf, view.sought(LAST)) {
            true => self.number_at_end(tree, &view, leaf, me.number())?,
            false => None,
        };
        let Some(number) = number else { return Ok(Attempt::NotSo) };
        let key = number.to_be_bytes();
        if !self.apply_one(&mut changes, &view, (&key, Some(record)), None)? {
            return Ok(Attempt::NotSo);
        }
        log.begin(RecordKind::Commit);
        log.put(tree.id, &key, record);
        let prepared = Prepared::new(number, turn(tree.id, number / BATCH));
        self.publish_end(tree, changes, prepared, at, log)
    }

    /// A number above those of the last leaf, of a batch that nobody has. None if these are too many, or this
    /// is not the last leaf, or an empty one.
    fn number_at_end(&self, tree: &TreeRef, view: &Tree<'_>, leaf: &[u8], me: u16) -> Result<Option<u64>> {
        let last = match view.records_on(leaf) {
            Some(records) if records.next().is_none() => {
                records.count().checked_sub(1).map(|last| (records, last))
            }
            _ => None,
        };
        let Some((records, last)) = last else { return Ok(None) };
        let mut number = next_after(number_at(records, last)?)?;
        for _ in 0..BATCHES {
            let batch = number / BATCH;
            if !self.locks.is_taken(me, turn(tree.id, batch)) {
                return Ok(Some(number));
            }
            number = (batch + 1).saturating_mul(BATCH);
        }
        Ok(None)
    }

    /// Removes the first record of a queue that nobody has in hand, and commits that; its number and value.
    /// None if it takes a transaction to do so, or to know that there is none: nothing was done.
    pub(crate) fn consume_one(
        &self,
        tree: &TreeRef,
        record_bytes: usize,
        durability: Durability,
    ) -> Result<Option<(u64, Vec<u8>)>> {
        let find = |view: &Tree<'_>, at, me: &LocalParticipant| self.front(tree, view, at, me);
        self.change_end(tree, durability, find, |changes, view, page, log| {
            let me = changes.participant().number();
            let first = self.first_free(tree, view, changes.latched(page)?, me)?;
            // One of another length was not appended: a transaction can leave it where it is, and say so.
            let Some(first) = first.filter(|first| first.value.len() == record_bytes) else {
                return Ok(None);
            };
            let mut prepared =
                Prepared::new((u64::from_be_bytes(first.key), first.value), record_hash(tree.id, &first.key));
            if first.is_highest {
                let mark = (view.sought(&first.key), Some(&[][..]));
                let Tried::Done = view.try_change(changes, page, mark)? else { return Ok(None) };
                log.put(tree.id, &first.key, &[]);
            } else {
                let Tried::Done = view.remove_here(changes, page, first.n)? else { return Ok(None) };
                log.delete(tree.id, &first.key);
            }
            // From above, so that those below stay where they are.
            for (n, mark) in first.marks[..first.marked].iter().rev() {
                let Tried::Done = view.remove_here(changes, page, *n)? else { return Ok(None) };
                log.delete(tree.id, mark);
                prepared.free[prepared.locks] = record_hash(tree.id, mark);
                prepared.locks += 1;
            }
            Ok(Some(prepared))
        })
    }

    /// The first leaf with a record that nobody has in hand, as far as one of the first few is it, and the
    /// least key that it covers. The leaves before it are empty, or others have their records in hand.
    ///
    /// The first one often is: it has the place for shorter keys that a leaf between others has, and cannot
    /// be joined with a full one.
    fn front(
        &self,
        tree: &TreeRef,
        view: &Tree<'_>,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<Option<Covered>> {
        let mut least = Cow::Borrowed(FIRST);
        for n in 0..LEAVES {
            let (page, next) = self.pages.operate(me, || {
                let mut snapshot = self.pages.at_pin(me, at)?;
                let page = snapshot.locate_in_front(view, view.sought(&least), n)?;
                let next = snapshot.show(page, |leaf| {
                    let records = view.records_on(leaf)?;
                    let is_free = |n| self.is_free(tree, records, n, me.number());
                    match (0..records.count()).any(is_free) {
                        true => Some(None),
                        false => Some(Some(records.next()?.to_vec())),
                    }
                })?;
                Ok((page, next))
            })?;
            match next {
                Some(None) => return Ok(Some((page, least))),
                Some(Some(next)) => least = Cow::Owned(next),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Whether a record of a leaf is there to be consumed.
    fn is_free(&self, tree: &TreeRef, records: RecordsOnPage<'_>, n: usize, me: u16) -> bool {
        let is_mark = matches!(records.value(n), StoredValue::Inline(value) if value.is_empty());
        // What is no record of a queue is found out later.
        !is_mark
            && number_at(records, n)
                .map_or(true, |number| !self.locks.is_taken(me, record_hash(tree.id, &number.to_be_bytes())))
    }

    /// The first record of a leaf that nobody has in hand, if there is another record above it there or none
    /// anywhere.
    fn first_free(
        &self,
        tree: &TreeRef,
        view: &Tree<'_>,
        leaf: &[u8],
        me: u16,
    ) -> Result<Option<FirstRecord>> {
        let Some(records) = view.records_on(leaf) else { return Ok(None) };
        let (mut marks, mut marked) = ([(0, [0; 8]); MARKS], 0);
        for n in 0..records.count() {
            let key = number_at(records, n)?.to_be_bytes();
            let StoredValue::Inline(value) = records.value(n) else { return Ok(None) };
            let is_free = || !self.locks.is_taken(me, record_hash(tree.id, &key));
            if !value.is_empty() && is_free() {
                let is_highest = n + 1 == records.count();
                let is_known = !is_highest || records.next().is_none();
                return Ok(is_known.then(|| FirstRecord {
                    n,
                    key,
                    value: value.to_vec(),
                    is_highest,
                    marks,
                    marked,
                }));
            }
            if value.is_empty() && marked < MARKS && is_free() {
                marks[marked] = (n, key);
                marked += 1;
            }
        }
        Ok(None)
    }

    /// Has `change` change the leaf at an end of a queue, and commits that. `find` finds the leaf, and a key
    /// that it covers, in a state that the participant has pinned.
    fn change_end<T>(
        &self,
        tree: &TreeRef,
        durability: Durability,
        find: impl Fn(&Tree<'_>, Lsn, &LocalParticipant) -> Result<Option<Covered>>,
        mut change: impl FnMut(
            &mut ChangedPages<'_>,
            &Tree<'_>,
            PageId,
            &mut RecordBuilder,
        ) -> Result<Option<Prepared<T>>>,
    ) -> Result<Option<T>> {
        if tree.follower.is_some() {
            return Ok(None);
        }
        let seat = self.pages.participants.sit()?;
        let me = &*seat;
        let mut log = ScratchRecord::of(me);
        self.wait_for_gate(me)?;
        let (lsn, done) = loop {
            let attempt = self.patiently(|| {
                let pinned = self.pages.pinned(me);
                let Some(end) = find(&tree.tree(), pinned.at(), me)? else { return Ok(Attempt::NotSo) };
                self.attempt_end(tree, end, pinned.at(), me, &mut log, &mut change)
            });
            match attempt {
                // Nobody saw anything of a snapshot that was given up.
                attempt if is_too_old(&attempt) => continue,
                Err(error) => return Err(error),
                Ok(Attempt::Done(lsn, done)) => break (lsn, done),
                Ok(Attempt::NotSo) => return Ok(None),
                Ok(Attempt::Moved) => self.help_committer(me),
            }
        };
        drop(log);
        self.settle(lsn, tree.durability(durability), me.number())?;
        Ok(Some(done))
    }

    /// One try. The participant is pinned at `at`.
    #[inline]
    fn attempt_end<T>(
        &self,
        tree: &TreeRef,
        (page, key): Covered,
        at: Lsn,
        me: &LocalParticipant,
        log: &mut RecordBuilder,
        change: impl FnOnce(
            &mut ChangedPages<'_>,
            &Tree<'_>,
            PageId,
            &mut RecordBuilder,
        ) -> Result<Option<Prepared<T>>>,
    ) -> Result<Attempt<T>> {
        let view = tree.tree();
        let mut changes = ChangedPages::new(&self.pages, me, at);
        let leaf = changes.latched(page)?;
        if !view.covers(leaf, view.sought(&key)) {
            me.hints.forget(tree.id);
            return self.check_moved(tree.id, page, leaf, at).map(|()| Attempt::Moved);
        }
        log.begin(RecordKind::Commit);
        let Some(prepared) = change(&mut changes, &view, page, log)? else { return Ok(Attempt::NotSo) };
        self.publish_end(tree, changes, prepared, at, log)
    }

    /// Commits a change that was made at an end of a queue, from the state at `at`.
    #[inline]
    fn publish_end<T>(
        &self,
        tree: &TreeRef,
        changes: ChangedPages<'_>,
        prepared: Prepared<T>,
        at: Lsn,
        log: &mut RecordBuilder,
    ) -> Result<Attempt<T>> {
        let me = changes.participant();
        if tree.temporary {
            log.begin(tree.record_kind());
        }
        log.finish_body();
        #[cfg(test)]
        others(InterleavingPoint::Prepared);
        let validate = |_: &mut ChangedPages<'_>| {
            self.check_not_rebuilt(tree.id, at)?;
            self.check_there(tree, me)?;
            let mut locks = prepared.free[..prepared.locks].iter();
            if locks.any(|&lock| self.locks.is_taken(me.number(), lock)) {
                return Err(conflict(
                    "another transaction has just taken the record of the queue that this one was about to \
                     change; run this one again",
                ));
            }
            #[cfg(test)]
            others(InterleavingPoint::Checked);
            Ok(())
        };
        match publish::publish(&self.pages, &self.log, changes, log, validate) {
            // A transaction finds out what is so now.
            Err(error) if error.is_rebuilt() || error.kind() == ErrorKind::Conflict => Ok(Attempt::NotSo),
            published => Ok(Attempt::Done(published?, prepared.done)),
        }
    }
}

/// The number of a record in a leaf.
#[inline]
fn number_at(records: RecordsOnPage<'_>, n: usize) -> Result<u64> {
    let (prefix, suffix) = records.key(n);
    // As in the leaves at both ends.
    if prefix.is_empty() {
        return number_of(suffix);
    }
    let mut key = [0; 8];
    if prefix.len() + suffix.len() == key.len() {
        key[..prefix.len()].copy_from_slice(prefix);
        key[prefix.len()..].copy_from_slice(suffix);
        return number_of(&key);
    }
    number_of(&[prefix, suffix].concat())
}

/// Where others may come in between.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum InterleavingPoint {
    /// The change is made, and not yet published.
    Prepared,
    /// In the commit step, what others have locked was looked at.
    Checked,
}

/// What others do there.
#[cfg(test)]
type Others = std::rc::Rc<dyn Fn(InterleavingPoint)>;

#[cfg(test)]
thread_local! {
    static OTHERS: std::cell::RefCell<Option<Others>> = const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
fn others(at: InterleavingPoint) {
    let others = OTHERS.with_borrow(Clone::clone);
    others.into_iter().for_each(|others| others(at));
}

/// Does something of which `others` come in between.
#[cfg(test)]
pub(in crate::txn) fn between<T>(others: impl Fn(InterleavingPoint) + 'static, act: impl FnOnce() -> T) -> T {
    OTHERS.set(Some(std::rc::Rc::new(others)));
    let done = act();
    OTHERS.set(None);
    done
}

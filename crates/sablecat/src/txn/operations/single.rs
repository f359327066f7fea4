//! Single-record commits: the fast path of auto-commit operations.
//!
//! One leaf, one version, one record; no write set, no allocation. When the leaf has no room, or gets so
//! empty that it should be merged, the same change runs again under the tree's structure latch.
//!
//! Costs (sketch, 8 + 32 bytes, all in cache): seat 5 ns, pin 6, hinted leaf 10 or descent 150 random, latch
//! 5, copy 46, change 30, record and checksum 20, commit step 30: 150 ns in order, 300 at random.

use super::Kernel;
use crate::access::{PageRead, PageWrite, SetOrRemove, Sought, StoredValue, Tree, Tried};
use crate::error::{ErrorKind, Result};
use crate::log::RecordBuilder;
use crate::pages::{LocalParticipant, Use, header};
use crate::txn::catalog::TreeRef;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish;
use crate::txn::commit::scratch::ScratchRecord;
use crate::txn::options::{Durability, Isolation, Options};
use crate::txn::transactions::Transaction;
use crate::types::Lsn;

/// A change of one record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordChange<'a> {
    /// Set the value, whether or not the record was there.
    Put(&'a [u8]),
    /// Remove the record.
    Remove,
}

impl<'a> RecordChange<'a> {
    /// The value that is set.
    #[inline]
    fn value(self) -> Option<&'a [u8]> {
        match self {
            RecordChange::Put(value) => Some(value),
            RecordChange::Remove => None,
        }
    }

    /// The change of the record with a key, as the access methods want it.
    #[inline]
    fn of(self, key: &'a [u8]) -> SetOrRemove<'a> {
        (key, self.value())
    }
}

/// How an attempt to change one page alone ended.
enum Attempt {
    Done(Lsn),
    /// There was nothing to remove in a state that everybody sees.
    Nothing,
    /// The tree's structure must change.
    Structure,
    /// The page that was found does not cover the key any more.
    Moved,
}

impl Kernel {
    /// Shows `look` the newest committed value of a record, in place. A long value is read whole.
    #[inline]
    pub(crate) fn read_one<R>(
        &self,
        tree: &TreeRef,
        key: &[u8],
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let mut look = Some(look);
        match self.show_one(tree, key, &mut look)? {
            Some(shown) => Ok(shown),
            None => {
                let value = self.get_one_long(tree, key)?;
                Ok(look.take().expect("a long value was not shown")(value.as_deref()))
            }
        }
    }

    /// The newest committed value of a record. There is one copy of it: the one that is returned.
    #[inline]
    pub(crate) fn get_one(&self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.show_one(tree, key, &mut Some(|value: Option<&[u8]>| value.map(<[u8]>::to_vec)))? {
            Some(value) => Ok(value),
            None => self.get_one_long(tree, key),
        }
    }

    /// Shows `look` the newest committed value of a record, in place, unless key or value is long.
    #[inline]
    fn show_one<R>(
        &self,
        tree: &TreeRef,
        key: &[u8],
        look: &mut Option<impl FnOnce(Option<&[u8]>) -> R>,
    ) -> Result<Option<R>> {
        let view = tree.tree();
        if self.is_nested(&view, key) {
            return Ok(None);
        }
        let sought = view.sought(key);
        self.foresee(&view, sought);
        // Beside the answers of the loops, each of which looks at what it hands on.
        let mut shown = None;
        self.read_newest(|seat| {
            self.pages.operate(seat, || {
                let mut snapshot = self.pages.snapshot(seat);
                self.look_up(&mut snapshot, &view, sought, |value| match value {
                    Some(StoredValue::Long { .. }) => {}
                    Some(StoredValue::Inline(value)) => shown = look.take().map(|look| look(Some(value))),
                    None => shown = look.take().map(|look| look(None)),
                })
            })
        })?;
        Ok(shown)
    }

    /// Runs `read`, an operation at a snapshot of its own, and again when that was given up: nobody has seen
    /// anything of it.
    #[inline]
    fn read_newest<R>(&self, mut read: impl FnMut(&LocalParticipant) -> Result<R>) -> Result<R> {
        loop {
            let seat = self.pages.sit_to_read()?;
            let read = self.until_there_is_room(|| read(&seat));
            if !is_too_old(&read) {
                return read;
            }
            // The mark may have been met before there was a pin, in a search for frames.
            seat.slot().clear_revoked();
        }
    }

    /// How long the newest committed value of a record is; none if there is no record. Reads nothing but the
    /// leaf.
    pub(crate) fn value_len(&self, tree: &TreeRef, key: &[u8]) -> Result<Option<u64>> {
        let view = tree.tree();
        if self.is_nested(&view, key) {
            return self.value_len_nested(tree, key);
        }
        let sought = view.sought(key);
        self.read_newest(|seat| {
            self.pages.operate(seat, || {
                let mut snapshot = self.pages.snapshot(seat);
                self.look_up(&mut snapshot, &view, sought, |value| {
                    value.map(|value| match value {
                        StoredValue::Inline(value) => value.len() as u64,
                        StoredValue::Long { len, .. } => len,
                    })
                })
            })
        })
    }

    /// The value of a record whose key or value is long: read in a transaction, whose snapshot holds while
    /// its pages are gone through.
    #[cold]
    pub(super) fn get_one_long(&self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        loop {
            let read = self.begin_read()?.get_owned(tree, key);
            // Nobody saw anything of a snapshot that was given up before the value was whole.
            if !is_too_old(&read) {
                return read;
            }
        }
    }

    /// How long the value of a nested key is: see [`Kernel::value_len`].
    #[cold]
    pub(super) fn value_len_nested(&self, tree: &TreeRef, key: &[u8]) -> Result<Option<u64>> {
        loop {
            let read = self.begin_read()?.value_len(tree, key);
            // As above.
            if !is_too_old(&read) {
                return read;
            }
        }
    }

    /// Reads part of a record's newest committed value: see [`Transaction::read_at`].
    pub(crate) fn read_part(
        &self,
        tree: &TreeRef,
        key: &[u8],
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        loop {
            let read = self.begin_read()?.read_at(tree, key, offset, into);
            // As above.
            if !is_too_old(&read) {
                return read;
            }
        }
    }

    fn begin_read(&self) -> Result<Transaction<'_>> {
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: Durability::Memory,
            read_only: true,
            patience: self.patience,
        };
        Transaction::begin(self, options)
    }

    /// Commits one change by itself. False if it was the removal of a record that was not there.
    pub(crate) fn change_one(
        &self,
        tree: &TreeRef,
        key: &[u8],
        change: RecordChange<'_>,
        durability: Durability,
    ) -> Result<bool> {
        let view = tree.tree();
        // What says whether there is anything to remove may be in another page than what is to change.
        let is_unseen = view.has_layers() && matches!(change, RecordChange::Remove);
        let takes_more = self.is_nested(&view, key) || self.needs_pages(&view, key, change) || is_unseen;
        if takes_more || tree.follower.is_some() {
            return self.change_by_transaction(tree, key, change, durability);
        }
        let sought = view.sought(key);
        self.foresee_change(&view, sought);
        let seat = self.pages.participants.sit()?;
        let me = &*seat;
        let mut record = ScratchRecord::of(me);
        record.begin(tree.record_kind());
        match change {
            _ if tree.temporary => {}
            RecordChange::Put(value) => record.put(tree.id, key, value),
            RecordChange::Remove => record.delete(tree.id, key),
        }
        record.finish_body();
        self.wait_for_gate(me)?;
        let mut is_shaped = false;
        let done = loop {
            // What counts its records and was just added to will be again: that is not found out each time.
            let is_of_structure = view.is_of_structure(change.of(key))
                || view.method.counts() && me.hints.is_likely_of_structure(tree.id);
            let attempt = if is_of_structure {
                Ok(Attempt::Structure)
            } else {
                self.patiently(|| self.attempt(tree, sought, change, &mut record, me))
            };
            // A sweep may give up any snapshot that is not being read at the moment; nobody saw anything of
            // this one yet.
            if is_too_old(&attempt) {
                // The mark may have been met before there was a pin, in a search for frames.
                me.slot().clear_revoked();
                continue;
            }
            match attempt? {
                Attempt::Done(lsn) => break Some(lsn),
                Attempt::Nothing => break None,
                Attempt::Structure => {
                    is_shaped = true;
                    if view.method.counts() && !is_of_structure {
                        me.hints.was_of_structure(tree.id);
                    }
                    break self.patiently(|| self.change_structure(tree, key, change, &mut record, me))?;
                }
                Attempt::Moved => self.help_committer(me),
            }
        };
        drop(record);
        let settled = match done {
            Some(lsn) => self.settle(lsn, tree.durability(durability), me.number()).map(|()| true),
            None => Ok(false),
        };
        if is_shaped {
            self.structure_changed(tree);
        }
        settled
    }

    fn needs_pages(&self, tree: &Tree<'_>, key: &[u8], change: RecordChange<'_>) -> bool {
        let inline_max = tree.inline_value_bytes_max(self.page_size(), key.len());
        matches!(change, RecordChange::Put(value) if value.len() > inline_max)
    }

    /// One try with the leaf alone.
    #[inline]
    fn attempt(
        &self,
        tree: &TreeRef,
        sought: Sought<'_>,
        change: RecordChange<'_>,
        record: &mut RecordBuilder,
        me: &LocalParticipant,
    ) -> Result<Attempt> {
        let view = tree.tree();
        let sought = sought.after(me.hints.near(tree.id, Use::Change));
        let (page, pinned) = self.pages.operate_watched(me, || {
            let mut snapshot = self.pages.snapshot(me);
            let page = snapshot.locate(&view, sought)?;
            self.pages.foresee_latched(page);
            Ok((page, snapshot.into_pinned()))
        })?;
        let at = pinned.at();
        let mut changes = ChangedPages::new(&self.pages, me, at);
        if matches!(change, RecordChange::Remove) {
            changes.only_remove();
        }
        let bytes = changes.latched(page)?;
        if !view.covers(bytes, sought) {
            me.hints.forget(tree.id);
            return self.check_moved(tree.id, page, bytes, at).map(|()| Attempt::Moved);
        }
        match view.try_change(&mut changes, page, (sought, change.value()))? {
            Tried::Done => {}
            Tried::Structure => return Ok(Attempt::Structure),
            Tried::Missing => {
                // What the latch shows may not be visible yet, and the caller would find the record if it
                // looked.
                if changes.read(page, header::born)? > at {
                    self.help_committer(me);
                }
                // If the snapshot was given up before the latch was had, it may be a page being built that
                // has the page's number by now.
                let is_of_tree = at >= self.pages.leaves_since();
                return Ok(if is_of_tree { Attempt::Nothing } else { Attempt::Structure });
            }
        }
        let validate = |_: &mut ChangedPages<'_>| {
            self.check_not_rebuilt(tree.id, at)?;
            self.check_there(tree, me)
        };
        match publish::publish(&self.pages, &self.log, changes, record, validate) {
            Err(error) if error.is_rebuilt() => Ok(Attempt::Structure),
            done => done.map(Attempt::Done),
        }
    }

    /// The change under the tree's structure latch, with splits and merges.
    #[cold]
    fn change_structure(
        &self,
        tree: &TreeRef,
        key: &[u8],
        change: RecordChange<'_>,
        record: &mut RecordBuilder,
        me: &LocalParticipant,
    ) -> Result<Option<Lsn>> {
        let _structure = self.hold_structure(std::iter::once(tree.id), me)?;
        loop {
            let result = self.try_structure(tree, key, change, record, me);
            // As in `change_one`: nobody saw anything of a snapshot that was given up.
            if !is_too_old(&result) {
                return result;
            }
        }
    }

    fn try_structure(
        &self,
        tree: &TreeRef,
        key: &[u8],
        change: RecordChange<'_>,
        record: &mut RecordBuilder,
        me: &LocalParticipant,
    ) -> Result<Option<Lsn>> {
        // Pinned after the structure latch was taken: every earlier change of shape is visible.
        let pinned = self.pages.pinned(me);
        let mut changes = ChangedPages::new(&self.pages, me, pinned.at());
        if matches!(change, RecordChange::Remove) {
            changes.only_remove();
        }
        if !self.apply_one(&mut changes, &tree.tree(), change.of(key), None)? {
            // As in `attempt`.
            drop(changes);
            self.help_committer(me);
            return Ok(None);
        }
        publish::publish(&self.pages, &self.log, changes, record, |_| self.check_there(tree, me)).map(Some)
    }

    /// Commits one change that takes more: a nested key, a value in pages of its own, or a tree that somebody
    /// follows. False if it was the removal of a record that was not there.
    fn change_by_transaction(
        &self,
        tree: &TreeRef,
        key: &[u8],
        change: RecordChange<'_>,
        durability: Durability,
    ) -> Result<bool> {
        // Whether there is something to remove must still be so when it is removed; and so must what a
        // follower made something of.
        let isolation = match change {
            RecordChange::Put(_) if tree.follower.is_none() => Isolation::ReadCommitted,
            _ => Isolation::Snapshot,
        };
        let options = Options { isolation, durability, read_only: false, patience: self.patience };
        let mut txn = Transaction::begin(self, options)?;
        loop {
            let done = match change {
                RecordChange::Put(value) => txn.set(tree, key, Some(value)).map(|()| true),
                RecordChange::Remove => txn.value_len(tree, key).map(|len| len.is_some()),
            };
            let done = done.and_then(|there| {
                if there && matches!(change, RecordChange::Remove) {
                    txn.set(tree, key, None)?;
                }
                txn.commit(durability).map(|_| there)
            });
            match done {
                // Nobody saw anything of the snapshot that was given up, or in which the record was another.
                Err(error)
                    if matches!(error.kind(), ErrorKind::SnapshotTooOld | ErrorKind::Conflict)
                        && !error.is_changed()
                        && !tree.is_gone() =>
                {
                    txn.restart()
                }
                result => return result,
            }
        }
    }
}

/// Whether a snapshot was given up.
pub(super) fn is_too_old<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::SnapshotTooOld)
}

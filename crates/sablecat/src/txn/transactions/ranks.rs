//! Records by their number in a counted tree, as a transaction sees them: what its snapshot counts, corrected
//! by what it has pending.
//!
//! A pending record is one more if the snapshot does not have it, and one fewer if it goes; what a removed
//! range takes is counted and left out. So each question looks at all that is pending in the tree, and at
//! some pages of the snapshot.
//!
//! What the snapshot said is noted as it was asked: that so many records lie between two bounds. Validation
//! asks again (validation.rs). A number depends on every record before it: a transaction that adds one there
//! or takes one away, and commits first, is in conflict with one that has read the number.

use std::ops::Bound;

use super::Transaction;
use crate::access::{KeyBounds, KeySpan, ScannedValue, StateSource};
use crate::error::Result;
use crate::txn::catalog::TreeRef;
use crate::txn::pending::write_set::PendingRecords;
use crate::txn::ranges;
use crate::txn::seen::validation::count_between;
use crate::txn::state::CommittedState;

/// A pending record.
struct Weight {
    key: Vec<u8>,
    /// Whether it sets a value.
    sets: bool,
    /// How many records more there are for those that are pending before it.
    before: i64,
}

impl Transaction<'_> {
    /// How many records there are between two bounds.
    pub(crate) fn count(&self, tree: &TreeRef, span: &KeySpan) -> Result<u64> {
        let view = tree.tree();
        if ranges::is_empty(ranges::bounds(span), |a, b| view.order.compare(a, b)) {
            return Ok(0);
        }
        let committed = if view.method.counts() {
            self.count_standing(tree, span)?
        } else {
            self.count_committed(tree, span, self.tracks_reads())?
        };
        let (set, hidden) = self.pending_in(tree, span, true, |_| ())?;
        Ok(committed.saturating_add(set).saturating_sub(hidden))
    }

    /// The record of a counted tree before which there are `n`, a long value read whole; none if there are no
    /// more.
    pub(crate) fn nth(&self, tree: &TreeRef, n: u64) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let load = |state: &CommittedState<'_>, found| state.load(found);
        self.nth_as(tree, n, load, |pending| pending)
    }

    /// As [`Transaction::nth`], a long value not read.
    pub(crate) fn nth_found(&self, tree: &TreeRef, n: u64) -> Result<Option<(Vec<u8>, ScannedValue)>> {
        self.nth_as(tree, n, |_, found| Ok(found), ScannedValue::Bytes)
    }

    /// The record before which there are `n`, and what is made of its value.
    fn nth_as<T>(
        &self,
        tree: &TreeRef,
        n: u64,
        load: impl FnOnce(&CommittedState<'_>, ScannedValue) -> Result<T>,
        of_pending: impl FnOnce(Vec<u8>) -> T,
    ) -> Result<Option<(Vec<u8>, T)>> {
        let (pending, total) = self.weights(tree)?;
        let Ok(wanted) = i64::try_from(n) else { return Ok(None) };
        // The last pending one before which there are no more than n.
        let (mut from, mut to, mut last) = (0, pending.len(), None);
        while from < to {
            let middle = from + (to - from) / 2;
            let Weight { key, before, .. } = &pending[middle];
            let below = (Bound::Unbounded, Bound::Excluded(key.clone()));
            let rank = before.saturating_add_unsigned(self.count_standing(tree, &below)?);
            if rank <= wanted {
                (from, last) = (middle + 1, Some(rank));
            } else {
                to = middle;
            }
        }
        if let Some(Weight { key, sets: true, .. }) = from.checked_sub(1).map(|at| &pending[at])
            && last == Some(wanted)
            && let Some(value) = self.pending(tree.id, key)?
        {
            return Ok(value.as_deref().map(|value| (key.clone(), of_pending(value.to_vec()))));
        }
        let before = pending.get(from).map_or(total, |pending| pending.before);
        match u64::try_from(wanted.saturating_sub(before)) {
            Ok(n) => self.nth_standing(tree, n, load),
            Err(_) => Ok(None),
        }
    }

    /// What is pending in a tree, in order, and how many records more there are for all of it.
    fn weights(&self, tree: &TreeRef) -> Result<(Vec<Weight>, i64)> {
        let (mut pending, mut before) = (Vec::<Weight>::new(), 0);
        let Some(records) = self.writes.records(tree.id) else { return Ok((pending, before)) };
        loop {
            let from = pending.last().map_or(Bound::Unbounded, |last| Bound::Excluded(&last.key[..]));
            let Some((key, value)) = records.edge(from, Bound::Unbounded, true)? else { break };
            let more = i64::from(value.is_some()) - i64::from(self.stands(tree, records, &key, true)?);
            pending.push(Weight { key, sets: value.is_some(), before });
            before += more;
        }
        Ok((pending, before))
    }

    /// Whether the snapshot has a record that no removed range takes; with `notes`, that is noted as read.
    pub(super) fn stands(
        &self,
        tree: &TreeRef,
        records: &PendingRecords,
        key: &[u8],
        notes: bool,
    ) -> Result<bool> {
        if tree.is_new() || records.removed_around(key).is_some() {
            return Ok(false);
        }
        self.look(tree, |state| match notes {
            true => self.extent(state, tree, key, |_| ()).map(|extent| extent.is_some()),
            false => state.has(&tree.tree(), key),
        })
    }

    /// How many records the snapshot has in a range of a counted tree that no removed range takes.
    fn count_standing(&self, tree: &TreeRef, span: &KeySpan) -> Result<u64> {
        if tree.is_new() {
            return Ok(0);
        }
        let left = self.not_removed(tree, span);
        self.look(tree, |state| {
            left.iter().map(|span| self.count_noting(&state, tree, ranges::bounds(span))).sum()
        })
    }

    /// How many records the snapshot has between two bounds, which is noted.
    fn count_noting(&self, state: &CommittedState<'_>, tree: &TreeRef, bounds: KeyBounds<'_>) -> Result<u64> {
        let records = count_between(state, &tree.tree(), bounds)?;
        if self.tracks_reads() {
            self.reads.borrow_mut().note_count(tree, bounds, records);
        }
        Ok(records)
    }

    /// Of the records that the snapshot has and no removed range takes, the one before which there are `n`.
    fn nth_standing<T>(
        &self,
        tree: &TreeRef,
        n: u64,
        load: impl FnOnce(&CommittedState<'_>, ScannedValue) -> Result<T>,
    ) -> Result<Option<(Vec<u8>, T)>> {
        if tree.is_new() {
            return Ok(None);
        }
        self.look(tree, |state| {
            let mut at = n;
            for removed in self.writes.records(tree.id).into_iter().flat_map(PendingRecords::removed) {
                let below = match removed.0 {
                    Bound::Unbounded => 0,
                    Bound::Included(key) => {
                        self.count_noting(&state, tree, (Bound::Unbounded, Bound::Excluded(key)))?
                    }
                    Bound::Excluded(key) => {
                        self.count_noting(&state, tree, (Bound::Unbounded, Bound::Included(key)))?
                    }
                };
                if at < below {
                    break;
                }
                at = at.saturating_add(self.count_noting(&state, tree, removed)?);
            }
            let Some((key, found)) = tree.tree().record_at(&state, at)? else {
                self.count_noting(&state, tree, (Bound::Unbounded, Bound::Unbounded))?;
                return Ok(None);
            };
            if self.tracks_reads() {
                // That it is there, and that it is this one.
                self.extent(state, tree, &key, |_| ())?;
                self.reads.borrow_mut().note_count(tree, (Bound::Unbounded, Bound::Excluded(&key)), at);
            }
            Ok(Some((key, load(&state, found)?)))
        })
    }
}

//! Removing a range of keys in a transaction: counted now, carried out when it commits.
//!
//! What the snapshot has of the range is counted by looking at its leaves, and noted as read. Whatever
//! changes in it before the transaction commits is a conflict, be it a record that goes with the range or one
//! that was not there. So what others have committed in a range is removed by a transaction that has seen it,
//! or by none. Read committed transactions are an exception, as they note nothing: what is there when they
//! commit goes.
//!
//! What the transaction itself has set there is not pending any more. The range is one entry of its write
//! set, of the log, and of the commit step's work (apply.rs).

use super::Transaction;
use crate::access::KeySpan;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::catalog::TreeRef;
use crate::txn::ranges;

impl Transaction<'_> {
    /// Removes all records between two bounds; how many there were. On any error nothing is removed. Nobody
    /// follows the tree.
    pub(crate) fn remove_range(&mut self, tree: &TreeRef, span: KeySpan) -> Result<u64> {
        if self.options.read_only {
            return Err(Error::new(ErrorKind::NotAllowed, "a write in a read-only transaction"));
        }
        debug_assert!(tree.follower.is_none(), "each record's removal is to be told");
        let view = tree.tree();
        if ranges::is_empty(ranges::bounds(&span), |a, b| view.order.compare(a, b)) {
            return Ok(0);
        }
        let committed = self.count_committed(tree, &span, self.keeps_snapshot())?;
        let mut pending = Vec::new();
        let (set, hidden) = self.pending_in(tree, &span, true, |key| pending.push(key.to_vec()))?;
        self.used.set(self.used.get() + 1);
        self.sets += 1;
        if self.writes.records(tree.id).is_some_and(|records| records.is_spilled()) {
            self.in_one(|txn| pending.iter().try_for_each(|key| txn.set_one(tree, key, None)))?;
        } else {
            pending.iter().for_each(|key| self.writes.unset(tree, key));
        }
        if committed > 0 {
            self.writes.remove_range(tree, span);
        }
        Ok(committed + set - hidden)
    }

    /// How many records the snapshot has in a range, without what was removed as part of a range before; with
    /// `notes`, each of its leaves is noted as read.
    pub(super) fn count_committed(&self, tree: &TreeRef, span: &KeySpan, notes: bool) -> Result<u64> {
        if tree.is_new() {
            return Ok(0);
        }
        let left = self.not_removed(tree, span);
        self.look(tree, |state| {
            let mut source = self.merged(state, tree);
            source.reads = notes.then_some(&self.reads);
            left.iter().map(|span| tree.tree().count(&mut source, ranges::bounds(span))).sum()
        })
    }

    /// What of a range no removed range takes.
    pub(super) fn not_removed(&self, tree: &TreeRef, span: &KeySpan) -> Vec<KeySpan> {
        match self.writes.records(tree.id) {
            Some(records) => records.not_removed(span),
            None => vec![span.clone()],
        }
    }

    /// What is pending in a range: how many records that the snapshot does not have, or that a range took
    /// away, are set; and how many that it has are gone already. `each` is shown the keys of all;
    /// with `notes`, that they were looked for is noted as read.
    pub(super) fn pending_in(
        &self,
        tree: &TreeRef,
        span: &KeySpan,
        notes: bool,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(u64, u64)> {
        let (mut set, mut hidden, mut last) = (0, 0, None::<Vec<u8>>);
        let Some(records) = self.writes.records(tree.id) else { return Ok((set, hidden)) };
        let (lower, upper) = ranges::bounds(span);
        loop {
            let from = last.as_ref().map_or(lower, |key| std::ops::Bound::Excluded(key));
            let Some((key, value)) = records.edge(from, upper, true)? else { break };
            let is_there = self.stands(tree, records, &key, notes)?;
            set += u64::from(value.is_some() && !is_there);
            hidden += u64::from(value.is_none() && is_there);
            each(&key);
            last = Some(key);
        }
        Ok((set, hidden))
    }
}

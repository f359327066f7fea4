//! How many records of a range a transaction sees, about: what its snapshot has, with what is pending over
//! it.
//!
//! Nothing is noted as read: what is about right need not be so still when the transaction commits.

use super::Transaction;
use crate::access::{KeySpan, RecordEstimate};
use crate::error::Result;
use crate::txn::catalog::TreeRef;
use crate::txn::ranges;

impl Transaction<'_> {
    /// How many records there are between two bounds, about: the same for the same state.
    pub(crate) fn estimate(&self, tree: &TreeRef, span: &KeySpan) -> Result<RecordEstimate> {
        let view = tree.tree();
        let mut sum = RecordEstimate { number: 0.0, is_exact: true };
        if ranges::is_empty(ranges::bounds(span), |a, b| view.order.compare(a, b)) {
            return Ok(sum);
        }
        if !tree.is_new() {
            let left = self.not_removed(tree, span);
            self.look(tree, |state| {
                left.iter().try_for_each(|span| {
                    let seed = state.seed(tree.id);
                    sum.add(view.estimate_range(&state, ranges::bounds(span), seed)?, 1.0);
                    Ok(())
                })
            })?;
        }
        let (set, hidden) = self.pending_in(tree, span, false, |_| ())?;
        sum.number = (sum.number + set as f64 - hidden as f64).max(0.0);
        Ok(sum)
    }
}

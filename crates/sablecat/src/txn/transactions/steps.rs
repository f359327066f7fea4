//! Several changes as one: none of them stays if one fails, or panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Transaction;
use crate::error::Result;
use crate::txn::pending::savepoints::Position;

impl Transaction<'_> {
    /// Does what has several steps, of which all are undone unless all are made. No more is noted afterwards
    /// than was before.
    pub(super) fn in_one<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let was_journaled = self.writes.is_journaled();
        let begun = Some(self.writes.savepoint());
        let mut steps = Steps { txn: self, begun, was_journaled };
        let done = work(steps.txn);
        if done.is_ok() {
            steps.begun = None;
        }
        done
    }
}

/// The steps of one change: a follower may fail, and an order may panic.
struct Steps<'t, 'k> {
    txn: &'t mut Transaction<'k>,
    /// What is undone up to, unless all are made.
    begun: Option<Position>,
    was_journaled: bool,
}

impl Drop for Steps<'_, '_> {
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            // It is of this write set, and nothing was rolled back over it. An order that has panicked may do
            // so again: then the rest stays, and nothing else could be done.
            let _ = catch_unwind(AssertUnwindSafe(|| self.txn.roll_back_to(begun)));
        }
        if !self.was_journaled {
            self.txn.writes.forget_savepoints();
        }
    }
}

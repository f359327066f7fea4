//! What a transaction knows of the queues that it uses.

use std::cell::RefCell;
use std::ops::Range;

use crate::seldom::Seldom;
use crate::txn::seen::reads::ReadSet;
use crate::types::{Lsn, TreeId};

/// What a transaction knows of the queues that it uses; nothing, before it uses one.
#[derive(Debug, Default)]
pub(in crate::txn) struct Queues(Seldom<KnownQueues>);

#[derive(Debug, Default)]
pub(super) struct KnownQueues {
    /// Numbers that it may use, by queue.
    pub(super) taken: Vec<(TreeId, Range<u64>)>,
    /// Up to which number it has consumed everything, by queue, as of a snapshot.
    pub(super) fronts: Vec<(TreeId, Lsn, u64)>,
    /// Where it has found nothing to consume.
    pub(super) empty: RefCell<ReadSet>,
}

impl Queues {
    /// It begins anew.
    #[inline]
    pub(in crate::txn) fn clear(&mut self) {
        self.0.clear();
    }

    /// Records that it has consumed may be there again.
    pub(super) fn rolled_back(&mut self) {
        if let Some(known) = self.0.get_mut() {
            known.fronts.clear();
        }
    }

    /// What was looked at in vain; all else is forgotten.
    pub(super) fn take_empty(&mut self) -> Option<ReadSet> {
        self.0.take().map(|known| known.empty.into_inner())
    }

    /// What it knows, if anything.
    pub(super) fn get(&self) -> Option<&KnownQueues> {
        self.0.get()
    }

    pub(super) fn known(&mut self) -> &mut KnownQueues {
        self.0.needed()
    }
}

impl KnownQueues {
    pub(super) fn front_of(&self, tree: TreeId, at: Lsn) -> Option<u64> {
        self.fronts.iter().find(|front| (front.0, front.1) == (tree, at)).map(|front| front.2)
    }

    pub(super) fn set_front(&mut self, tree: TreeId, at: Lsn, front: u64) {
        self.fronts.retain(|have| have.0 != tree);
        self.fronts.push((tree, at, front));
    }
}

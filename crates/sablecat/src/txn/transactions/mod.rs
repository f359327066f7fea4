//! Transactions: private until they commit, published in one step.
//!
//! A `transaction` reads its snapshot with what it has pending over it (`seeing`; by number, `ranks`; about
//! how many, `estimate`), sets records, with what follows them (`followed`), and removes ranges of them
//! (`remove_range`), all `steps` of which are undone if one fails. It appends to queues and consumes from
//! them (`queue`; what it knows of them is `known_queues`, what it passes over since others have it locked
//! `passed_over`). It may have the environment to itself (`gate`), or sleep until something changes that it
//! has read (`waiting`). A transaction that asks is told of a conflict before the commit (`early`). Locks by
//! name are held beside them (`locker`).

mod early;
mod estimate;
mod followed;
mod gate;
mod known_queues;
mod locker;
mod passed_over;
pub(crate) mod queue;
mod ranks;
mod remove_range;
mod seeing;
mod steps;
pub(in crate::txn) mod transaction;
mod waiting;

pub(crate) use locker::LockOwner;
pub(crate) use transaction::{Stamp, Transaction};

use std::ops::Deref;

use crate::txn::locks::LockTable;
use crate::txn::pending::runs::SpillSettings;
use crate::txn::trees::Trees;

/// What transactions run on.
#[derive(Debug)]
pub(crate) struct Transactions {
    trees: Trees,
    pub(crate) locks: LockTable,
    /// Where write sets go that are too large for memory; none: they stay there.
    pub(crate) spill: Option<SpillSettings>,
}

impl Transactions {
    pub(in crate::txn) fn new(trees: Trees, locks: LockTable, spill: Option<SpillSettings>) -> Transactions {
        Transactions { trees, locks, spill }
    }
}

impl Deref for Transactions {
    type Target = Trees;

    #[inline(always)]
    fn deref(&self) -> &Trees {
        &self.trees
    }
}

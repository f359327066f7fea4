//! Changing trees: what a commit is made of, before its commit step.
//!
//! A write set goes to the log (`chunks`), its large values to their pages (`large`), and its records to the
//! leaves that they belong to, or, under the structure latches, to new ones as well (`apply`); leaves not in
//! memory are asked for before (`ahead`). What is larger than the cache is built `beside` what there
//! is, in copies (`copy`), of which a list is kept (`listed`). Whole trees are made and freed
//! (`making`), and the layers of those that have some are sealed and merged (`layers`).

mod ahead;
pub(in crate::txn) mod apply;
pub(in crate::txn) mod beside;
pub(in crate::txn) mod chunks;
mod copy;
pub(in crate::txn) mod large;
mod layers;
pub(crate) mod listed;
pub(in crate::txn) mod making;

use std::ops::Deref;

use crate::txn::commit::Committer;

/// What changes trees.
#[derive(Debug)]
pub(crate) struct Trees {
    committer: Committer,
    /// What large commits of this process have left and could not free yet.
    unfreed: listed::Unfreed,
    /// Trees whose layers are to be sealed and merged.
    tending: layers::Tending,
}

impl Trees {
    /// `newest_layer_bytes`: how large the newest layer of an LSM tree becomes; none: a part of the cache.
    pub(in crate::txn) fn new(committer: Committer, newest_layer_bytes: Option<usize>) -> Trees {
        let cache = (committer.pages.frames_max(), committer.pages.page_size());
        let tending = layers::Tending::new(newest_layer_bytes, cache);
        Trees { committer, unfreed: listed::Unfreed::default(), tending }
    }
}

impl Deref for Trees {
    type Target = Committer;

    #[inline(always)]
    fn deref(&self) -> &Committer {
        &self.committer
    }
}

//! Conflicts found before the commit, for a transaction that asks: work that cannot be committed need not be
//! gone on with.
//!
//! What is asked is what the commit will ask (validation.rs), of a key or of a tree alone: whether what was
//! read reads the same in the newest state, or, at snapshot isolation, whether the record is the same. So
//! what is a conflict here is one at the commit, unless the change is taken back before that; and what was
//! not read, as of a record that is set whatever it was, is none in either place.
//!
//! Costs: where nothing was committed since the snapshot, a load. Else the way to the key's leaf, which is
//! mostly remembered, a pin, and a look at when its newest version was born. Records are compared only where
//! that is younger than the snapshot.

use std::iter;
use std::ops::Bound;

use super::Transaction;
use crate::error::Result;
use crate::pages::LocalParticipant;
use crate::txn::catalog::TreeRef;
use crate::txn::locks::record_hash;
use crate::txn::options::Isolation;
use crate::txn::refusals::{conflict, count_conflict, removed};
use crate::txn::state::CommittedState;
use crate::types::Lsn;

impl Transaction<'_> {
    /// Whether nothing was committed since its snapshot.
    #[inline]
    pub(crate) fn sees_newest(&self) -> bool {
        self.at() == self.transactions.pages.newest()
    }

    /// A conflict if others have changed, and committed, what it has read of a key: in one piece with that,
    /// if it was read as part of a range. At snapshot isolation: if they have changed its record.
    #[inline]
    pub(crate) fn check_unchanged(&self, tree: &TreeRef, key: &[u8]) -> Result<()> {
        if self.sees_newest() || !self.may_conflict(tree) {
            return Ok(());
        }
        self.checked(tree, |at, me| self.check_key(tree, key, at, me))
    }

    /// A conflict if others have changed, and committed, anything that it has read of a tree: by key or by
    /// range, not what it has counted in a counted tree.
    pub(crate) fn check_all_unchanged(&self, tree: &TreeRef) -> Result<()> {
        if self.sees_newest() || !self.may_conflict(tree) {
            return Ok(());
        }
        self.checked(tree, |at, me| {
            self.check_there(tree, self.transactions.pages.guarded(me).at(), me)?;
            self.reads.borrow_mut().check_tree(self.transactions, tree.id, at, me)
        })
    }

    /// Whether another transaction has a record locked.
    pub(crate) fn is_locked(&self, tree: &TreeRef, key: &[u8]) -> bool {
        self.transactions.locks.is_taken(self.number(), record_hash(tree.id, key))
    }

    /// Whether the commit compares anything of a tree with the snapshot.
    fn may_conflict(&self, tree: &TreeRef) -> bool {
        !tree.is_new() && !self.options.read_only && self.options.isolation != Isolation::ReadCommitted
    }

    /// What a check comes to: of a tree whose pages were freed it may look like damage.
    fn checked(
        &self,
        tree: &TreeRef,
        check: impl FnOnce(Lsn, &LocalParticipant) -> Result<()>,
    ) -> Result<()> {
        self.look(tree, |CommittedState { me, at, .. }| {
            check(at, me)
                .map_err(|error| count_conflict(self.transactions.explain(error, iter::once(tree), me), me))
        })
    }

    /// A conflict if a tree is not there in the newest state, which is pinned.
    fn check_there(&self, tree: &TreeRef, newest: Lsn, me: &LocalParticipant) -> Result<()> {
        if self.transactions.is_there(tree, newest, me)? { Ok(()) } else { Err(removed()) }
    }

    fn check_key(&self, tree: &TreeRef, key: &[u8], at: Lsn, me: &LocalParticipant) -> Result<()> {
        let transactions = self.transactions;
        let view = tree.tree();
        let place = transactions.place(&view, key, at, me)?;
        let page = transactions.locate(&place.tree, place.sought(), at, me)?;
        let newest = transactions.pages.guarded(me);
        self.check_there(tree, newest.at(), me)?;
        if transactions.is_leaf_unchanged(page, at) {
            return Ok(());
        }
        if self.options.isolation == Isolation::Snapshot {
            return match transactions.record_is_same(tree, key, (at, self.time.get()), newest.at(), me)? {
                true => Ok(()),
                false => Err(conflict(
                    "another transaction changed a record after this one's snapshot, and has committed; run \
                     this one again",
                )),
            };
        }
        let key = place.tree.bound_read(Bound::Included(place.rest), transactions.page_size());
        let key = key.as_ref().map(|key| &**key);
        self.reads.borrow_mut().check_around(transactions, (page, key), (at, newest.at()), me)
    }
}

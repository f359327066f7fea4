//! Changes of records that somebody follows, in a transaction.

use super::Transaction;
use crate::access::{KeySpan, Scan, SetOrRemove, StateSource};
use crate::error::{Error, Result};
use crate::pages::Pages;
use crate::txn::catalog::follow::{self, Follow, FollowedRecords, View, With};
use crate::txn::catalog::{self, CatalogEntry, Presence, TreeRef, note_key};
use crate::txn::options::Isolation;
use crate::txn::refusals::conflict;
use crate::types::{Lsn, TreeId};

impl Transaction<'_> {
    /// As [`Transaction::set`], with what follows the record.
    #[cold]
    pub(super) fn set_followed(
        &mut self,
        tree: &TreeRef,
        follower: &dyn Follow,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.transactions.check_record(tree, key, value.map_or(0, <[u8]>::len))?;
        self.check_sees_kept(follower)?;
        // One step is made whole or not at all, unless what is undone by itself has to be noted.
        let has_steps = value.is_none() && follower.is_referred_to();
        if has_steps || self.writes.is_journaled() {
            self.in_one(|txn| follow::change(txn, tree, (key, value)))
        } else {
            follow::change(self, tree, (key, value))
        }
    }

    /// A conflict if the snapshot is from before something that is kept with the records was made.
    fn check_sees_kept(&self, follower: &dyn Follow) -> Result<()> {
        let (trees, since) = follower.keeps();
        if !self.keeps_snapshot() || self.at() >= since {
            return Ok(());
        }
        for tree in trees.iter().filter(|tree| !tree.is_new()) {
            if !self.has_name(tree)? {
                return Err(conflict(
                    "a database got an index after the transaction that writes to it had begun; run the \
                     transaction again",
                ));
            }
        }
        Ok(())
    }

    /// Shows `each` the records of a tree, one after the other, which are as they are now when the
    /// transaction commits, or it gets a conflict; `each` may change other records.
    ///
    /// # Errors
    /// `NotAllowed` in a read committed transaction.
    pub(crate) fn each_to_stay(
        &mut self,
        tree: &TreeRef,
        mut each: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        if !self.keeps_snapshot() {
            return Err(Error::new(
                crate::error::ErrorKind::NotAllowed,
                "an index made in a read committed transaction, which may miss what others write meanwhile; \
                 make it in one with a snapshot, or serializable",
            ));
        }
        let mut scan = Scan::new(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        loop {
            let next = self.look(tree, |state| {
                scan.look_in(self.state(state.at));
                let mut source = self.merged(state, tree);
                source.reads = Some(&self.reads);
                let found = scan.next(&tree.tree(), &mut source, true)?;
                found.map(|(key, found)| Ok((key, state.load(found)?))).transpose()
            })?;
            let Some((key, value)) = next else { return Ok(()) };
            each(self, &key, &value)?;
        }
    }

    /// Whether what it reads is not validated as a whole, so that what is made of it has to be claimed.
    fn claims_reads(&self) -> bool {
        self.options.isolation != Isolation::Serializable
    }
}

impl View for Transaction<'_> {
    fn pages(&self) -> &Pages {
        &self.transactions.pages
    }

    fn names_since(&self) -> Lsn {
        self.transactions.names_since()
    }

    fn state(&self) -> Lsn {
        self.at()
    }

    fn entry(&self, name: &str) -> Result<Option<CatalogEntry>> {
        let value = self.get_owned(catalog::catalog_tree(), name.as_bytes())?;
        value.map(|value| CatalogEntry::decode(name.as_bytes(), &value)).transpose()
    }

    fn presence(&self, tree: TreeId) -> Presence {
        match self.pending_in_catalog(&note_key(tree)) {
            Some(None) => Presence::made_in(self.number()),
            _ => Presence::seen_at(self.at()),
        }
    }
}

impl FollowedRecords for Transaction<'_> {
    fn get(&mut self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_owned(tree, key)
    }

    fn contains(&mut self, tree: &TreeRef, key: &[u8]) -> Result<bool> {
        self.value_len(tree, key).map(|len| len.is_some())
    }

    fn before(&mut self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.get_owned(tree, key)?;
        if self.options.isolation == Isolation::ReadCommitted && self.pending(tree.id, key)?.is_none() {
            self.claims.add(tree, key, found.as_deref());
        }
        Ok(found)
    }

    fn first(&mut self, tree: &TreeRef, span: &KeySpan) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.next(tree, &mut Scan::new(span.0.clone(), span.1.clone()), true)
    }

    fn must_stay(&mut self, tree: &TreeRef, key: &[u8]) {
        // What it has set itself is there when it commits, or is rolled back with what refers to it.
        let is_own = || matches!(self.pending(tree.id, key), Ok(Some(_)));
        if self.claims_reads() && !tree.is_new() && !is_own() {
            self.claims.add_staying(tree, key);
        }
    }

    fn must_be_empty(&mut self, tree: &TreeRef, span: KeySpan, removed: (TreeId, &[u8])) {
        if self.claims_reads() && !tree.is_new() {
            self.claims.add_empty(tree, span, removed);
        }
    }

    fn set(&mut self, tree: &TreeRef, (key, value): SetOrRemove<'_>, with: &With) -> Result<()> {
        self.transactions.pages.check_fence()?;
        let all = || with.first.iter().chain(&with.last).map(|(tree, key, value)| (tree, &key[..], value));
        for (tree, key, value) in all() {
            self.transactions.check_record(tree, key, value.as_ref().map_or(0, Vec::len))?;
        }
        self.used.set(self.used.get() + 1);
        self.sets += 1;
        // From here on nothing fails, unless there is something to roll back to.
        self.transactions.spill.as_ref().map_or(Ok(()), |place| self.writes.make_room(tree.id, place))?;
        for (tree, key, value) in all() {
            self.writes.set(tree, key, value.as_deref())?;
        }
        self.writes.set(tree, key, value)
    }
}

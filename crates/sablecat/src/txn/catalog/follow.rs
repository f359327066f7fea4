//! What follows the records of a database: its indices, which keep records of their own with them.
//!
//! A tree may have a follower ([`TreeRef::follower`]). Then each change of one of its records comes to it, by
//! whatever way it is made, and what it wants set in other trees is part of the same transaction: committed,
//! rolled back, logged and in conflict with others as that is. There is one place for it, [`change`], and
//! both kinds of writers come there:
//!
//! ```text
//! transactions      in Transaction::set (followed.rs). What else would change such a tree becomes a
//!                   transaction: single operations, bulk loads
//! the Data Store    before it writes in place
//! ```
//!
//! Replay does not come here, nor does a process that applies the log to another environment: what a follower
//! of records has set is in the log too.
//!
//! What the record was must still be that when the transaction commits, or what was made of it would be
//! wrong. Snapshot and serializable transactions make sure of that as of all that they change or read; read
//! committed ones claim it (claims.rs).
//!
//! *References.* If records of others refer to those of a tree, the removal of one has consequences, and
//! these may have some: each is a change like the first. What is left to do is a list of removed records,
//! each as deep in it as references led there, not a recursion. It ends, however references run: what is
//! removed is not found again, and what is changed refers no more.
//!
//! Costs: of a tree that nobody follows, the test of a pointer that came with the tree.

use std::fmt;
use std::sync::Arc;

use super::{CatalogEntry, Presence, TreeRef};
use crate::access::{KeySpan, SetOrRemove};
use crate::error::Result;
use crate::pages::Pages;
use crate::types::{Lsn, TreeId};

/// Follows the records of a tree.
pub(crate) trait Follow: fmt::Debug + Send + Sync {
    /// A record is to be set or removed. Says what is to be set or removed with it.
    ///
    /// # Errors
    /// Whatever it fails with, nothing is changed.
    fn follow(
        &self,
        tree: &TreeRef,
        change: SetOrRemove<'_>,
        records: &mut dyn FollowedRecords,
    ) -> Result<With>;

    /// What a record that is there has in one of the indices, by name.
    ///
    /// # Errors
    /// As [`Follow::follow`].
    fn entries(
        &self,
        index: &str,
        record: (&[u8], &[u8]),
        tree: &TreeRef,
        records: &mut dyn FollowedRecords,
    ) -> Result<With>;

    /// Whether records of others may refer to those of the tree.
    fn is_referred_to(&self) -> bool;

    /// The next change that the removal of a record brings about, with what was done for it so far; none: all
    /// is done.
    ///
    /// # Errors
    /// Whatever it fails with, the removal has failed.
    fn consequence(
        &self,
        removed: (TreeId, &[u8]),
        progress: &mut RemovalProgress,
        records: &mut dyn FollowedRecords,
    ) -> Result<Option<Also>>;

    /// The trees that it changes with that which it follows, and a state that had them.
    fn keeps(&self) -> (&[TreeRef], Lsn);
}

/// A record of a tree, and what it is to become.
pub(crate) type Also = (TreeRef, Vec<u8>, Option<Vec<u8>>);

/// What of other trees changes with a record: what is set before that is, and what goes after it. So a change
/// in place that is cut short leaves entries that lead nowhere, and no record without its own.
#[derive(Debug, Default)]
pub(crate) struct With {
    pub(crate) first: Vec<Also>,
    pub(crate) last: Vec<Also>,
}

/// How far the consequences of a removal have come.
#[derive(Debug, Default)]
pub(crate) struct RemovalProgress {
    /// How many of the indices that refer to the record lead to none any more.
    pub(crate) done: usize,
    /// Which entry of the next one was dealt with last.
    pub(crate) after: Option<Vec<u8>>,
}

/// What a follower of records sees of the catalog.
pub(crate) trait View {
    /// The pages that the catalog is on.
    fn pages(&self) -> &Pages;

    /// What a state at or above this LSN had, the newest one has, unless its name was taken away since that
    /// was looked at.
    fn names_since(&self) -> Lsn;

    /// The state that was looked at last.
    fn state(&self) -> Lsn;

    /// What the catalog says of a database.
    fn entry(&self, name: &str) -> Result<Option<CatalogEntry>>;

    /// What is known of whether a tree is there, which an entry just read names.
    fn presence(&self, tree: TreeId) -> Presence;
}

/// The records that a follower sees, and changes.
pub(crate) trait FollowedRecords: View {
    /// The value of a record.
    fn get(&mut self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Whether there is a record.
    fn contains(&mut self, tree: &TreeRef, key: &[u8]) -> Result<bool>;

    /// The value of a record that is to change, or of one that is not there and is to be set.
    fn before(&mut self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The first record of a range.
    fn first(&mut self, tree: &TreeRef, span: &KeySpan) -> Result<Option<(Vec<u8>, Vec<u8>)>>;

    /// A record that is there is to be there when this is committed, or to be removed by it.
    fn must_stay(&mut self, tree: &TreeRef, key: &[u8]);

    /// A range in which there is nothing any more is to be empty when this is committed, if it removes a
    /// record then that is removed by now.
    fn must_be_empty(&mut self, tree: &TreeRef, span: KeySpan, removed: (TreeId, &[u8]));

    /// Sets or removes a record, and others with it.
    fn set(&mut self, tree: &TreeRef, change: SetOrRemove<'_>, with: &With) -> Result<()>;
}

/// Sets or removes a record of a tree that somebody follows, with all that follows from it. After an error
/// the caller undoes what was done.
pub(crate) fn change(
    records: &mut dyn FollowedRecords,
    tree: &TreeRef,
    (key, value): SetOrRemove<'_>,
) -> Result<()> {
    let Some(follower) = step(records, tree, (key, value))? else { return Ok(()) };
    let mut removed = vec![(follower, (tree.id, key.to_vec()), RemovalProgress::default())];
    while let Some((follower, (tree, key), progress)) = removed.last_mut() {
        match follower.consequence((*tree, key), progress, records)? {
            None => _ = removed.pop(),
            Some((tree, key, value)) => {
                if let Some(follower) = step(records, &tree, (&key, value.as_deref()))? {
                    removed.push((follower, (tree.id, key), RemovalProgress::default()));
                }
            }
        }
    }
    Ok(())
}

/// Changes one record, and what is kept with it. Returns the record's follower, if that has consequences.
fn step(
    records: &mut dyn FollowedRecords,
    tree: &TreeRef,
    change: SetOrRemove<'_>,
) -> Result<Option<Arc<dyn Follow>>> {
    let Some(follower) = &tree.follower else {
        return records.set(tree, change, &With::default()).map(|()| None);
    };
    let with = follower.follow(tree, change, records)?;
    records.set(tree, change, &with)?;
    Ok((change.1.is_none() && follower.is_referred_to()).then(|| Arc::clone(follower)))
}

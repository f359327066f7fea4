//! Who follows the records of a database: an index, say, which keeps records of its own with them.
//!
//! A tree may have a follower ([`TreeRef::follower`]). Then each change of one of its records comes to it, by
//! whatever way it is made, and what it wants set in other trees is part of the same transaction: committed,
//! rolled back, logged and in conflict with others as that is. There is one place for it, [`followed`], and
//! both kinds of writers come there:
//!
//! ```text
//! transactions      in Transaction::set. What else would change such a tree becomes a transaction: single operations, bulk loads
//! the Data Store    before it writes in place
//! ```
//!
//! Replay does not come here, nor does who applies the log to another environment: what a follower has set is
//! in the log too.
//!
//! What the record was is looked for only if the follower asks. It must still be that when the transaction
//! commits, or what was made of it would be wrong. Snapshot and serializable transactions make sure of that
//! as of all that they change or read; read committed ones claim it (claims.rs).
//!
//! Costs: of a tree that nobody follows, the test of a pointer that came with the tree.

use std::fmt;
use std::ops::Bound;

use super::{Durability, Isolation, Kernel, Options, Transaction, TreeRef};
use crate::access::{Change, InOrder, Scan};
use crate::error::{Error, Result};

/// Follows the records of a tree.
pub(crate) trait Follow: fmt::Debug + Send + Sync {
    /// A record is to be set or removed. `before` says what it was; what is to be set or removed in other
    /// trees with it goes to `also`.
    ///
    /// # Errors
    /// Whatever it fails with, nothing is changed.
    fn follow(
        &self,
        change: Change<'_>,
        before: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
        also: &mut Vec<Also>,
    ) -> Result<()>;
}

/// A record of a tree, and what it is to become.
pub(crate) type Also = (TreeRef, Vec<u8>, Option<Vec<u8>>);

/// What of other trees changes with a record: what is to be set before that is, and what is to go after it.
/// So who is cut short in place leaves entries that lead nowhere, and no record without its own.
pub(crate) fn followed(
    follower: &dyn Follow,
    change: Change<'_>,
    before: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
) -> Result<(Vec<Also>, Vec<Also>)> {
    let mut all = Vec::new();
    follower.follow(change, before, &mut all)?;
    Ok(all.into_iter().partition(|(_, _, value)| value.is_some()))
}

impl Kernel {
    /// Loads records into an empty tree that somebody follows: by a transaction, which may be of any size.
    pub(super) fn load_followed<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &TreeRef,
        records: impl IntoIterator<Item = (K, V)>,
        durability: Durability,
    ) -> Result<u64> {
        // That nothing was there has been read, and is validated.
        let options = Options {
            isolation: Isolation::Serializable,
            durability,
            read_only: false,
            patience: self.patience,
        };
        let mut txn = Transaction::begin(self, options)?;
        if txn.next_found(tree, &mut Scan::new(Bound::Unbounded, Bound::Unbounded), true)?.is_some() {
            return Err(not_empty());
        }
        let mut order = InOrder::default();
        for (key, value) in records {
            if tree.tree().loads_in_order() {
                order.next(tree.tree().order, key.as_ref())?;
            } else {
                order.next_of_any(txn.value_len(tree, key.as_ref())?.is_some())?;
            }
            txn.set(tree, key.as_ref(), Some(value.as_ref()))?;
        }
        txn.commit(durability).map(|_| order.count())
    }
}

/// The error of who loads what is not empty.
#[cold]
pub(crate) fn not_empty() -> Error {
    Error::invalid(
        "a bulk load into a database that is not empty; insert the records, or load a new database",
    )
}

/// An index for tests: for each record an entry of the first bytes of its value and its key.
#[cfg(feature = "seam")]
#[derive(Debug)]
pub(crate) struct ByValue {
    index: TreeRef,
}

#[cfg(feature = "seam")]
impl ByValue {
    /// Bytes of a value that an entry has.
    const PART: usize = 16;

    pub(crate) fn new(index: &TreeRef) -> ByValue {
        ByValue { index: index.clone() }
    }

    /// The key of the entry of a record.
    pub(crate) fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
        [&value[..value.len().min(Self::PART)], &[0], key].concat()
    }
}

#[cfg(feature = "seam")]
impl Follow for ByValue {
    fn follow(
        &self,
        (key, value): Change<'_>,
        before: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
        also: &mut Vec<Also>,
    ) -> Result<()> {
        let old = before()?.map(|value| Self::entry(key, &value));
        let new = value.map(|value| Self::entry(key, value));
        if old != new {
            also.extend(old.map(|entry| (self.index.clone(), entry, None)));
            also.extend(new.map(|entry| (self.index.clone(), entry, Some(Vec::new()))));
        }
        Ok(())
    }
}

//! How many records a range has, about.

use super::{DataStore, Database, KeyRange, KeySpan};
use crate::env::Core;
use crate::error::Result;
use crate::txn::{TreeRef, ranges};

/// An estimate of how many records a range has: see [`Database::estimate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeEstimate {
    /// Records in the range.
    pub records: u64,
    /// Whether all pages with records of the range were read, so that it is exact. If not, it is estimated
    /// from 64 paths from the root to a leaf.
    pub is_exact: bool,
}

impl RangeEstimate {
    fn of(core: &Core, tree: &TreeRef, bounds: &KeySpan) -> Result<RangeEstimate> {
        let records = core.kernel.estimate_range(tree, ranges::bounds(bounds))?;
        Ok(RangeEstimate { records: records.number.round() as u64, is_exact: records.is_exact })
    }
}

impl Database {
    /// How many records a range has in the newest committed state: an estimate, or exact if they are in up to
    /// some dozens of pages. It is estimated from 64 paths to records of the range, whatever its size, as
    /// [`Database::stats`] does for all records, and is as rough. For the same state the result is the same.
    /// It is meant for a program that chooses between two ways to an answer, and needs to know which of them
    /// has less to read.
    ///
    /// In a hash table a range is one of hashes, as [`Method::Hash`](crate::Method::Hash) says, and is
    /// assumed to be as dense as the whole table. If a bound is a long key, all or none of the long keys with
    /// the same beginning may be counted.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// let db = sablecat::Env::in_memory()?.database("d")?;
    /// for n in 0..30u8 {
    ///     db.insert([n], "")?;
    /// }
    /// let estimate = db.estimate([10]..[20])?;
    /// assert_eq!((estimate.records, estimate.is_exact), (10, true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Database::get`](crate::Read::get); `Invalid` for a [`Prefix`](crate::Prefix) where keys are not
    /// in the order of bytes.
    pub fn estimate(&self, keys: impl KeyRange) -> Result<RangeEstimate> {
        let bounds = self.bounds(&keys)?;
        let core = self.env().core();
        self.unless_removed(self.tree().and_then(|tree| RangeEstimate::of(core, tree, &bounds)))
    }
}

impl DataStore {
    /// How many records a range of a database has, about: see [`Database::estimate`].
    ///
    /// # Errors
    /// As [`Database::estimate`].
    pub fn estimate(&self, db: &Database<DataStore>, keys: impl KeyRange) -> Result<RangeEstimate> {
        RangeEstimate::of(&self.core, self.tree(db)?, &db.bounds(&keys)?)
    }
}

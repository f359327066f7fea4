//! How many records a range has, about.

use super::{Bounds, DataStore, Database, KeyRange};
use crate::env::Core;
use crate::error::Result;
use crate::txn::{TreeRef, ranges};

/// How many records a range has, about: see [`Database::estimate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeEstimate {
    /// Records in the range.
    pub records: u64,
    /// Whether all pages with records of the range were looked at, so that it is exact. If not, it is
    /// estimated from 64 ways from the root to a leaf.
    pub is_exact: bool,
}

impl RangeEstimate {
    fn of(core: &Core, tree: &TreeRef, bounds: &Bounds) -> Result<RangeEstimate> {
        let records = core.kernel.estimate_range(tree, ranges::bounds(bounds))?;
        Ok(RangeEstimate { records: records.number.round() as u64, is_exact: records.is_exact })
    }
}

impl Database {
    /// How many records a range has, about, in the newest committed state; exactly, if they are in some
    /// dozens of pages. Looks at 64 ways to records of the range, whatever its size, as [`Database::stats`]
    /// does for all of them, and is as rough. It says the same for the same state: for who chooses between
    /// two ways to an answer, and wants to know which has less to read.
    ///
    /// In a hash table a range is one of hashes, as [`Method::Hash`](crate::Method::Hash) says, and taken to
    /// be as dense as all of it. Of long keys that begin alike, of which a bound is one, all or none may be
    /// counted.
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

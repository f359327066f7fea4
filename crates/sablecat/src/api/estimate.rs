//! How many records a range has, about.

use super::read::Read;
use super::{Database, KeyRange};
use crate::access::RecordEstimate;
use crate::error::Result;

/// An estimate of how many records a range has: see [`Read::estimate`](crate::Read::estimate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeEstimate {
    /// Records in the range.
    pub records: u64,
    /// Whether all pages with records of the range were read, so that it is exact. If not, it is estimated
    /// from 64 paths from the root to a leaf.
    pub is_exact: bool,
}

impl From<RecordEstimate> for RangeEstimate {
    fn from(RecordEstimate { number, is_exact }: RecordEstimate) -> RangeEstimate {
        RangeEstimate { records: number.round() as u64, is_exact }
    }
}

impl Database {
    /// How many records a range has in the newest committed state, about: see
    /// [`Read::estimate`](crate::Read::estimate).
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
    /// As [`Database::range`].
    pub fn estimate(&self, keys: impl KeyRange) -> Result<RangeEstimate> {
        self.env().estimate(self, keys)
    }
}

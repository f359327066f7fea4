//! Databases that count their records.

use super::database::Kind;
use super::read::{Read, Record};
use super::{Database, KeyRange};
use crate::error::{Error, Result};

impl<K: Kind> Database<K> {
    /// An error unless it counts its records, which what is done with it takes.
    pub(super) fn require_counts(&self, doing: &str) -> Result<()> {
        if self.method().counts() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{doing} in the database {:?}, a {}, which does not count its records; create it as a counted \
             B+tree",
            self.name(),
            self.method()
        )))
    }
}

impl Database {
    /// How many records a range of keys has: see [`Read::count`](crate::Read::count).
    ///
    /// # Errors
    /// As [`Database::range`].
    pub fn count(&self, keys: impl KeyRange) -> Result<u64> {
        self.env().count(self, keys)
    }

    /// How many records have keys below this one, of a database that counts them: see
    /// [`Read::rank`](crate::Read::rank).
    ///
    /// # Errors
    /// As [`Read::rank`](crate::Read::rank).
    pub fn rank(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.env().rank(self, key)
    }

    /// The record with `n` records before it, in a database that counts them: see
    /// [`Read::nth`](crate::Read::nth).
    ///
    /// # Errors
    /// As [`Read::rank`](crate::Read::rank).
    pub fn nth(&self, n: u64) -> Result<Option<Record>> {
        self.env().nth(self, n)
    }
}

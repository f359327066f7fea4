//! What changes: as readers of the log are told.

use std::ops::Bound;

use crate::access::Method;
use crate::txn::{Holds, IndexInfo};

/// One change of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change<'a> {
    /// A record has this value from here on, whether or not its key had one before.
    Insert {
        /// The name of the database, as of this commit.
        database: &'a str,
        /// The key.
        key: &'a [u8],
        /// The whole value.
        value: &'a [u8],
    },
    /// There is no record of this key from here on, if there was one.
    Remove {
        /// The name of the database, as of this commit.
        database: &'a str,
        /// The key.
        key: &'a [u8],
    },
    /// There are no records between these keys from here on, if there were any. What the commit inserts there
    /// comes after it.
    RemoveRange {
        /// The name of the database, as of this commit.
        database: &'a str,
        /// From where on.
        lower: Bound<&'a [u8]>,
        /// Up to where.
        upper: Bound<&'a [u8]>,
    },
    /// There is a new database, empty.
    CreateDatabase {
        /// Its name.
        name: &'a str,
        /// The comparator that it is ordered by; none: by bytes.
        comparator: Option<&'a str>,
        /// How its records are arranged.
        method: Method,
        /// What kind of records it holds.
        holds: Holds,
        /// What it is an index of; none: it is none. What is in it comes as with any database.
        index: Option<&'a IndexInfo>,
        /// Whether it is temporary: then nothing is told of its records, here or later.
        temporary: bool,
    },
    /// A database has another name from here on.
    RenameDatabase {
        /// The name that it had.
        from: &'a str,
        /// The name that it has.
        to: &'a str,
    },
    /// A database is gone, with all its records.
    RemoveDatabase {
        /// The name that it had.
        name: &'a str,
    },
}

//! Secondary indices: databases that the engine keeps with the records of another, to find these by something
//! else than their keys.
//!
//! ```text
//! options.rs   what an index is to be
//! making.rs    making and opening one
//! found.rs     records found by it, in order
//! join.rs      records found by several
//! verifying.rs whether it agrees with its primary
//! cursor.rs    places among its entries
//! databases.rs what that needs of handles of databases
//! ```

mod cursor;
mod databases;
mod found;
mod join;
mod making;
mod options;
mod verifying;

pub use cursor::IndexCursor;
pub use found::{Found, FoundKeys};
pub use join::Join;
pub use options::IndexOptions;
pub(in crate::api) use verifying::verify_indices;

use std::fmt;
use std::sync::Arc;

use super::{Database, Env, KeyRange, KeySpan, Kind, Read, Record, Write};
use crate::access::Counting;
use crate::env::{key_of, leads_nowhere};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::IndexInfo;
use crate::txn::pairs::{bounds_of, bounds_of_one};

/// So often something is looked for that is said to be there, before it counts as missing: a reader that
/// looks at another state each time may meet with transactions that remove it and set it again.
const LOOKS: u32 = 16;

/// A secondary index, as Berkeley DB calls it too: a database that finds the records of another one, its
/// *primary*, by keys that an extractor finds in them.
///
/// ```
/// use sablecat::{Env, IndexOptions, Result};
///
/// # fn main() -> Result<()> {
/// // A person is "city,name". The extractor is given each time that the environment is opened.
/// let env = Env::builder()
///     .extractor("city", |_key, person, cities| {
///         cities.push(person.split(|&byte| byte == b',').next().unwrap_or_default());
///     })
///     .in_memory()?;
/// let people = env.database("people")?;
/// people.insert("1", "Rome,Livia")?;
///
/// let by_city = env.index("people by city", &people, IndexOptions::new("city"))?;
/// people.insert("2", "Oslo,Kari")?;
/// people.insert("3", "Rome,Marco")?;
/// let romans: Vec<_> = by_city.get_all(&env, "Rome")?.collect::<Result<_>>()?;
/// assert_eq!(romans, [(b"1".to_vec(), b"Rome,Livia".to_vec()), (b"3".to_vec(), b"Rome,Marco".to_vec())]);
///
/// people.insert("3", "Oslo,Marco")?;
/// assert_eq!((by_city.count(&env, "Rome")?, by_city.count(&env, "Oslo")?), (1, 2));
/// # Ok(())
/// # }
/// ```
///
/// Every change of a record of the primary, through any handle and in any process, changes the index in the
/// same transaction. The catalog says which indices a database has, and a process that has not registered the
/// extractor ([`Builder::extractor`](super::Builder::extractor)) cannot write to the primary. Handles that
/// were open before the index was created maintain it from that commit on; transactions that are in progress
/// at that commit and write to the primary get a conflict and run again. Each single operation on a primary
/// costs a transaction.
///
/// Index keys are in the order of their bytes; records with the same index key, in the order of their own
/// keys. An index key and the primary key together may have up to 64 KiB. Writing to the index itself is
/// [`NotAllowed`](crate::ErrorKind::NotAllowed). An index is removed and renamed like any database, and is
/// removed with its primary. It is in the same state as its primary: a transaction reads both as of one
/// moment. In a read committed transaction, each read is of another state, and a record that was found may
/// have another index key by then.
///
/// A primary may be a B+tree in the order of bytes or a hash table; it cannot itself be an index. If it is a
/// [`Queue`](super::Queue), records are found by the index until they are consumed; such an index has no
/// references. This is a handle; clones name the same index.
pub struct Index<O: Kind = Env> {
    entries: Database<O>,
    primary: Database<O>,
    info: Arc<IndexInfo>,
}

impl<O: Kind> fmt::Debug for Index<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("name", &self.name()).field("info", &self.info).finish_non_exhaustive()
    }
}

impl<O: Kind> Clone for Index<O> {
    fn clone(&self) -> Self {
        Index { entries: self.entries.clone(), primary: self.primary.clone(), info: Arc::clone(&self.info) }
    }
}

impl<O: Kind> Index<O> {
    /// The name it was opened under.
    pub fn name(&self) -> &str {
        self.entries.name()
    }

    /// The database whose records it finds.
    pub fn primary(&self) -> &Database<O> {
        &self.primary
    }

    /// The index as a database, which can be read: each index key has its primary keys as [several
    /// values](crate::MultiMap), or, in a unique index, one primary key.
    pub fn database(&self) -> &Database<O> {
        &self.entries
    }

    /// What kind of index it is, as of when it was opened.
    pub fn info(&self) -> &IndexInfo {
        &self.info
    }

    /// The first record with an index key: its key and its value.
    ///
    /// # Errors
    /// As [`Read::get`]; `Corruption` if the index leads to a record that is not there.
    pub fn get(&self, from: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<Option<Record>> {
        self.get_all(from, key)?.next().transpose()
    }

    /// All records with an index key: their keys and values, in the order of their own keys, from either end.
    ///
    /// # Errors
    /// As [`Read::range`]. Each record comes as a result, with the errors of [`Index::get`].
    pub fn get_all<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        key: impl AsRef<[u8]>,
    ) -> Result<FoundRecords<S::Lasting<'s>>> {
        Ok(FoundRecords { found: self.found(from, bounds_of_one(key.as_ref()))? })
    }

    /// The records of some index keys, in the order of these, from either end: index key, key and value.
    ///
    /// ```
    /// # use sablecat::{Env, IndexOptions, Prefix, Result};
    /// # fn main() -> Result<()> {
    /// # let env = Env::builder().extractor("all", |_, value, keys| keys.push(value)).in_memory()?;
    /// let animals = env.database("animals")?;
    /// let by_name = env.index("animals by name", &animals, IndexOptions::new("all"))?;
    /// animals.insert_batch([("1", "cat"), ("2", "horse"), ("3", "cow")])?;
    /// let keys = |found: sablecat::Found<_>| {
    ///     found.map(|one| one.map(|(_, key, _)| key)).collect::<Result<Vec<_>>>()
    /// };
    /// assert_eq!(keys(by_name.range(&env, "cat".."dog")?)?, [b"1", b"3"]);
    /// assert_eq!(by_name.range(&env, Prefix("c"))?.next_back().unwrap()?.1, b"3");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Index::get_all`].
    pub fn range<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        keys: impl KeyRange,
    ) -> Result<Found<S::Lasting<'s>>> {
        self.found(from, bounds_of(self.entries.bounds(&keys)?))
    }

    /// The records of some index keys, as [`Index::range`] gives them, without their values: the primary is
    /// not read.
    ///
    /// # Errors
    /// As [`Index::range`].
    pub fn keys<'s, S: Read<Of = O>>(
        &self,
        from: &'s S,
        keys: impl KeyRange,
    ) -> Result<FoundKeys<S::Lasting<'s>>> {
        let bounds = bounds_of(self.entries.bounds(&keys)?);
        Ok(FoundKeys::new(from.range(&self.entries, bounds)?, self.info.unique))
    }

    fn found<'s, S: Read<Of = O>>(&self, from: &'s S, bounds: KeySpan) -> Result<Found<S::Lasting<'s>>> {
        let keys = FoundKeys::new(from.range(&self.entries, bounds)?, self.info.unique);
        Ok(Found::new(keys, self.clone()))
    }

    /// Whether a record has an index key.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn contains_key(&self, from: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<bool> {
        from.range(&self.entries, bounds_of_one(key.as_ref()))?.next().transpose().map(|one| one.is_some())
    }

    /// How many records have an index key. Counts them.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn count(&self, from: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<u64> {
        from.fold_each(&self.entries, bounds_of_one(key.as_ref()), 0, Counting)
    }

    /// Removes all records of the primary with an index key, and returns how many there were.
    ///
    /// # Errors
    /// As [`Write::remove`]; `Corruption` as for [`Index::get`]; `NotAllowed` for records of a queue.
    pub fn remove(&self, from: &mut impl Write<Of = O>, key: impl AsRef<[u8]>) -> Result<u64> {
        let mut walk = self.entries.walk(&bounds_of_one(key.as_ref()))?;
        let mut count = 0;
        while let Some(entry) = walk.next(from)? {
            count += u64::from(self.remove_by(from, &entry)?);
        }
        Ok(count)
    }

    /// Removes the record that an entry leads to. False if the entry is gone: in a read committed transaction
    /// that may be, and the record may come back in between.
    fn remove_by(&self, from: &mut impl Write<Of = O>, entry: &[u8]) -> Result<bool> {
        if self.primary.holds().has_marks() {
            return Err(Error::new(
                ErrorKind::NotAllowed,
                format!(
                    "removing records of the queue {:?} by the index {:?}: a queue keeps the place of its \
                     last record; remove them by their numbers (Queue::remove)",
                    self.primary.name(),
                    self.name()
                ),
            ));
        }
        let mut key = Vec::new();
        for _ in 0..LOOKS {
            let Some(value) = from.get(&self.entries, entry)? else { return Ok(false) };
            key = key_of(self.info.unique, entry, value)?;
            if from.remove(&self.primary, &key)? {
                return Ok(true);
            }
        }
        Err(leads_nowhere(self.name(), self.primary.name(), &key))
    }
}

/// The records with one index key, each as its key and value: see [`Index::get_all`].
pub struct FoundRecords<S: Read> {
    found: Found<S>,
}

impl<S: Read> fmt::Debug for FoundRecords<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.found.fmt(f)
    }
}

impl<S: Read> Iterator for FoundRecords<S> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.found.next().map(|found| found.map(|(_, key, value)| (key, value)))
    }
}

impl<S: Read> DoubleEndedIterator for FoundRecords<S> {
    fn next_back(&mut self) -> Option<Result<Record>> {
        self.found.next_back().map(|found| found.map(|(_, key, value)| (key, value)))
    }
}

//! The Data Store: records without transactions and without a log, for one program that wants speed.

use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;

use super::{Stats, owned_bounds, visit};
use crate::env::{CheckpointReport, CompactReport, Core, Named, Progress, VerifyReport};
use crate::error::Result;
use crate::txn::{Committed, Direct};

/// An environment without transactions and without a log.
///
/// There is one handle: whoever holds it exclusively writes, in place; through shared references any number of threads read. What was
/// written since the last [`DataStore::checkpoint`] is lost in a crash; what was there at that checkpoint is whole. Closing writes one, and so
/// does dropping the handle.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// let mut store = sablecat::Env::builder().data_store_in_memory()?;
/// let words = store.database("words")?;
/// store.insert(&words, "cat", "a small animal")?;
/// assert_eq!(store.get(&words, "cat")?.as_deref(), Some(&b"a small animal"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DataStore {
    core: Arc<Core>,
    closed: bool,
}

/// A database of a [`DataStore`].
#[derive(Clone, Debug)]
pub struct StoreTable {
    named: Arc<Named>,
}

impl Drop for DataStore {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is left to tell; the last checkpoint is whole.
            let _ = self.core.close();
        }
    }
}

impl DataStore {
    pub(super) fn new(core: Arc<Core>) -> DataStore {
        DataStore { core, closed: false }
    }

    /// Opens a database, creating it if there is none of that name.
    ///
    /// # Errors
    /// As [`Env::database`](super::Env::database).
    pub fn database(&mut self, name: &str) -> Result<StoreTable> {
        self.core.database_or_new(name, None).map(|named| StoreTable { named })
    }

    /// The names of all databases, in order.
    ///
    /// # Errors
    /// Those of reading.
    pub fn databases(&self) -> Result<Vec<String>> {
        self.core.database_names()
    }

    /// Removes a database with all its records; false if there was none.
    ///
    /// # Errors
    /// Those of writing.
    pub fn remove_database(&mut self, name: &str) -> Result<bool> {
        self.core.remove_database(name)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Corruption` and `Io` from reading pages.
    pub fn get(&self, table: &StoreTable, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.core.kernel.get_one(self.core.tree(&table.named)?, key.as_ref())
    }

    /// Shows the value of a key to `look`, in place: nothing is copied.
    ///
    /// # Errors
    /// As [`DataStore::get`].
    #[inline]
    pub fn get_with<R>(&self, table: &StoreTable, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.core.kernel.read_one(self.core.tree(&table.named)?, key, look)
    }

    /// How many bytes the value of a key has, without reading it; none if there is no record.
    ///
    /// # Errors
    /// As [`DataStore::get`].
    pub fn value_len(&self, table: &StoreTable, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.core.kernel.value_len(self.core.tree(&table.named)?, key.as_ref())
    }

    /// Reads part of a value, from `offset` on, as much as `into` has room for. None if there is no such record, else how many bytes were
    /// read; 0 at the value's end. Of a long value only the pages concerned are read.
    ///
    /// # Errors
    /// As [`DataStore::get`].
    pub fn read_at(&self, table: &StoreTable, key: impl AsRef<[u8]>, offset: u64, into: &mut [u8]) -> Result<Option<usize>> {
        self.core.kernel.read_part(self.core.tree(&table.named)?, key.as_ref(), offset, into)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `Invalid` for a key or value that is too long; `Full` for a full disk or cache; `Corruption` and `Io` from reading pages.
    #[inline]
    pub fn insert(&mut self, table: &StoreTable, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.core.kernel.check_record(self.core.tree(&table.named)?, key, value.len())?;
        self.change(table, key, Some(value)).map(|_| ())
    }

    /// Removes a record; false if there was none.
    ///
    /// # Errors
    /// As [`DataStore::insert`].
    pub fn remove(&mut self, table: &StoreTable, key: impl AsRef<[u8]>) -> Result<bool> {
        self.change(table, key.as_ref(), None)
    }

    /// Loads records that come in ascending order of their keys into an empty database, building pages directly. Returns how many
    /// there were. After an error part of them may be there, in pages that nothing leads to.
    ///
    /// # Errors
    /// `Invalid` if the database is not empty or the records are not in order; as [`DataStore::insert`].
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: &StoreTable,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let kernel = &self.core.kernel;
        let seat = kernel.pages.participants.sit()?;
        // SAFETY: this handle is the only one and is borrowed exclusively.
        let mut direct = unsafe { Direct::new(&kernel.pages, &seat) };
        direct.bulk_load(&self.core.tree(&table.named)?.tree(), records)
    }

    #[inline]
    fn change(&mut self, table: &StoreTable, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        let tree = self.core.tree(&table.named)?;
        let kernel = &self.core.kernel;
        let seat = kernel.pages.participants.sit()?;
        // SAFETY: this handle is the only one and is borrowed exclusively: no read is in progress, and a Data Store has no snapshots.
        let mut direct = unsafe { Direct::new(&kernel.pages, &seat) };
        direct.change(&tree.tree(), key, value)
    }

    /// Shows all records between two bounds to `each`, in order and in place.
    ///
    /// # Errors
    /// As [`DataStore::get`].
    pub fn visit<K: AsRef<[u8]>>(
        &self,
        table: &StoreTable,
        bounds: impl RangeBounds<K>,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.fold(table, bounds, (), |(), key, value| each(key, value))
    }

    /// Folds all records between two bounds into one value, in order and in place; see [`Database::fold`](crate::Database::fold).
    ///
    /// # Errors
    /// As [`DataStore::get`].
    pub fn fold<B, K: AsRef<[u8]>>(
        &self,
        table: &StoreTable,
        bounds: impl RangeBounds<K>,
        initial: B,
        each: impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<B> {
        let kernel = &self.core.kernel;
        let seat = kernel.pages.participants.sit()?;
        let pinned = kernel.pages.pinned(&seat);
        let state = Committed { kernel, me: &seat, at: pinned.at() };
        visit::fold(state, self.core.tree(&table.named)?, owned_bounds(&bounds), initial, each)
    }

    /// Writes a checkpoint: what is there now survives any crash. Durable when it returns.
    ///
    /// # Errors
    /// As [`Env::checkpoint`](super::Env::checkpoint).
    pub fn checkpoint(&mut self) -> Result<CheckpointReport> {
        self.core.checkpoint(false)
    }

    /// Makes the volume as small as it can be: see [`Env::compact`](super::Env::compact).
    ///
    /// # Errors
    /// As [`DataStore::checkpoint`].
    pub fn compact(&mut self) -> Result<CompactReport> {
        self.core.compact()
    }

    /// Checks every invariant: see [`Env::verify`](super::Env::verify).
    ///
    /// # Errors
    /// Those that prevent checking.
    pub fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport> {
        self.core.verify(progress)
    }

    /// Numbers about the environment.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn stats(&self) -> Result<Stats> {
        Stats::of(&self.core)
    }

    /// Writes a last checkpoint and closes.
    ///
    /// # Errors
    /// As [`DataStore::checkpoint`].
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        self.core.close()
    }
}

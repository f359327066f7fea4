//! The Data Store: records without transactions and without a log, for one program that wants speed.

use std::sync::Arc;

use super::database::StoreHandle;
use super::index::verify_indices;
use super::read::reading;
use super::read::sealed::{Seen, State};
use super::write::{goes_singly, remove_each, writing};
use super::{Database, DatabaseStats, KeyRange, Range, Read, Stats, Write};
use crate::access::{Each, InOrder, KeySpan, Method, Scan, SetOrRemove};
use crate::env::{Asked, CheckpointReport, CompactReport, Core, EnvTxn, Progress, VerifyReport, arranged};
use crate::error::Result;
use crate::pages::Pages;
use crate::txn::catalog::{CatalogEntry, catalog_tree};
use crate::txn::{
    Also, CommittedState, Direct, Durability, FollowedRecords, Holds, IndexInfo, Isolation, Kernel, Options,
    Presence, TreeRef, View, With, change_followed, not_empty, ranges,
};
use crate::types::{Lsn, TreeId};

/// An environment without transactions and without a log.
///
/// There is one handle. Writing needs an exclusive reference to it, and is done in place; any number of
/// threads can read through shared references. A crash loses everything that was written since the last
/// [`DataStore::checkpoint`], and leaves the state of that checkpoint. Closing the store writes a checkpoint,
/// and so does dropping the handle.
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
    pub(super) core: Arc<Core>,
    /// Counts the changes, of records and databases: places in trees are good for one state.
    changes: u64,
    closed: bool,
}

impl Drop for DataStore {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is left to tell; the last checkpoint is whole.
            let _ = self.core.close();
        }
    }
}

impl State for DataStore {
    fn with<T>(&self, look: impl FnOnce(Seen<'_>) -> Result<T>) -> Result<T> {
        let patience = self.core.config.lock_timeout;
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: Durability::Memory,
            read_only: true,
            patience,
        };
        let txn = EnvTxn::begin(&self.core, options)?;
        // Records are changed in place, at one LSN.
        txn.records.set_state(self.changes);
        look(Seen(&txn))
    }
}

impl Read for DataStore {
    type Of = DataStore;
    type Lasting<'a> = &'a DataStore;

    fn lasting(&self) -> Result<&DataStore> {
        Ok(self)
    }

    fn existing_database(&self, name: &str) -> Result<Option<Database<DataStore>>> {
        Ok(self.core.database(name)?.map(|named| Database::new(StoreHandle::of(&self.core), named)))
    }

    fn databases(&self) -> Result<Vec<String>> {
        self.core.database_names()
    }

    fn get(&self, db: &Database<DataStore>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.core.kernel.get_one(self.tree(db)?, key.as_ref())
    }

    #[inline]
    fn get_with<R>(
        &self,
        db: &Database<DataStore>,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        self.core.kernel.read_one(self.tree(db)?, key.as_ref(), look)
    }

    fn value_len(&self, db: &Database<DataStore>, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.core.kernel.value_len(self.tree(db)?, key.as_ref())
    }

    fn read_at(
        &self,
        db: &Database<DataStore>,
        key: impl AsRef<[u8]>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        self.core.kernel.read_part(self.tree(db)?, key.as_ref(), offset, into)
    }

    fn fold_each<B>(
        &self,
        db: &Database<DataStore>,
        keys: impl KeyRange,
        initial: B,
        each: impl Each<B>,
    ) -> Result<B> {
        let bounds = db.bounds(&keys)?;
        let kernel = &self.core.kernel;
        let seat = kernel.pages.participants.sit()?;
        let pinned = kernel.pages.pinned(&seat);
        self.tree(db)?.tree().fold(
            CommittedState { states: kernel, me: &seat, at: pinned.at() },
            bounds,
            true,
            initial,
            each,
        )
    }
}

impl Write for DataStore {
    fn insert(
        &mut self,
        db: &Database<DataStore>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.insert(db, key, value)
    }

    fn remove(&mut self, db: &Database<DataStore>, key: impl AsRef<[u8]>) -> Result<bool> {
        self.remove(db, key)
    }

    fn remove_range(&mut self, db: &Database<DataStore>, keys: impl KeyRange) -> Result<u64> {
        let tree = self.tree(db)?;
        let bounds = db.bounds(&keys)?;
        if goes_singly(tree, &bounds) {
            return remove_each(self, db, keys);
        }
        self.changes += 1;
        let kernel = &self.core.kernel;
        let seat = kernel.pages.participants.sit()?;
        // SAFETY: this handle is the only one and is borrowed exclusively: no read is in progress, and a Data
        // Store has no snapshots.
        let mut direct = unsafe { Direct::new(&kernel.pages, &seat) };
        direct.remove_range(&tree.tree(), ranges::bounds(&bounds))
    }
}

impl DataStore {
    pub(super) fn new(core: Arc<Core>) -> DataStore {
        DataStore { core, changes: 1, closed: false }
    }

    /// Opens a database, creating it if there is none of that name.
    ///
    /// # Errors
    /// As [`Env::database`](super::Env::database).
    pub fn database(&mut self, name: &str) -> Result<Database<DataStore>> {
        self.changes += 1;
        self.core
            .database_or_new(name, Asked::default())
            .map(|named| Database::new(StoreHandle::of(&self.core), named))
    }

    /// Opens a database, or creates one that is arranged in this way: see
    /// [`Env::database_as`](super::Env::database_as).
    ///
    /// # Errors
    /// As [`Env::database_as`](super::Env::database_as).
    pub fn database_as(&mut self, name: &str, method: Method) -> Result<Database<DataStore>> {
        self.changes += 1;
        self.core
            .database_or_new(name, Asked::arranged_as(method))
            .and_then(|named| arranged(named, method))
            .map(|named| Database::new(StoreHandle::of(&self.core), named))
    }

    /// Opens or creates a database whose keys are ordered by a comparator: see
    /// [`Env::database_ordered_by`](super::Env::database_ordered_by).
    ///
    /// # Errors
    /// As [`Env::database_ordered_by`](super::Env::database_ordered_by).
    pub fn database_ordered_by(&mut self, name: &str, comparator: &str) -> Result<Database<DataStore>> {
        self.changes += 1;
        self.core
            .database_or_new(name, Asked::ordered_by(comparator))
            .map(|named| Database::new(StoreHandle::of(&self.core), named))
    }

    /// Opens or creates a database that holds this kind of records: see
    /// [`Env::database_holding`](super::Env::database_holding).
    ///
    /// # Errors
    /// As [`Env::database_holding`](super::Env::database_holding).
    pub fn database_holding(&mut self, name: &str, holds: Holds) -> Result<Database<DataStore>> {
        self.changes += 1;
        self.core
            .database_or_new(name, Asked::to_hold(holds))
            .map(|named| Database::new(StoreHandle::of(&self.core), named))
    }

    /// Opens a database if there is one of that name.
    ///
    /// # Errors
    /// As [`Read::existing_database`].
    pub fn existing_database(&self, name: &str) -> Result<Option<Database<DataStore>>> {
        Read::existing_database(self, name)
    }

    /// The names of all databases, in order.
    ///
    /// # Errors
    /// Those of reading.
    pub fn databases(&self) -> Result<Vec<String>> {
        Read::databases(self)
    }

    /// Gives a database another name. Handles stay good.
    ///
    /// # Errors
    /// `NotFound` if there is none of the first name, `Exists` if there is one of the second; those of
    /// writing.
    pub fn rename_database(&mut self, from: &str, to: &str) -> Result<()> {
        self.core.rename_database(from, to)
    }

    /// Removes a database with all its records; false if there was none.
    ///
    /// # Errors
    /// Those of writing.
    pub fn remove_database(&mut self, name: &str) -> Result<bool> {
        self.changes += 1;
        self.core.remove_database(name)
    }

    /// The records of some keys, in order, from either end.
    ///
    /// # Errors
    /// As [`Read::range`].
    pub fn range(&self, db: &Database<DataStore>, keys: impl KeyRange) -> Result<Range<&DataStore>> {
        Read::range(self, db, keys)
    }

    reading!(DataStore);

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `Invalid` for a key or value that is too long; `DiskFull` and `CacheFull`; `Corruption` and `Io` from
    /// reading pages.
    #[inline]
    pub fn insert(
        &mut self,
        db: &Database<DataStore>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let tree = self.tree(db)?;
        self.core.kernel.check_record(tree, key, value.len())?;
        self.change(tree, (key, Some(value))).map(drop)
    }

    /// Removes a record; false if there was none.
    ///
    /// # Errors
    /// As [`DataStore::insert`].
    pub fn remove(&mut self, db: &Database<DataStore>, key: impl AsRef<[u8]>) -> Result<bool> {
        self.change(self.tree(db)?, (key.as_ref(), None))
    }

    writing!(DataStore);

    /// Loads records, which must come in ascending order of their keys, into an empty database, and builds
    /// its pages directly. Returns how many there were. After an error the database is empty.
    ///
    /// # Errors
    /// `Invalid` if the database is not empty or the records are not in order; as [`DataStore::insert`].
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        db: &Database<DataStore>,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        self.changes += 1;
        if self.tree(db)?.follower.is_some() {
            return self.load_followed(db, records);
        }
        let kernel = &self.core.kernel;
        let seat = kernel.pages.participants.sit()?;
        // SAFETY: this handle is the only one and is borrowed exclusively.
        let mut direct = unsafe { Direct::new(&kernel.pages, &seat) };
        direct.bulk_load(&self.tree(db)?.tree(), records)
    }

    /// Loads records that somebody follows, one by one.
    fn load_followed<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        db: &Database<DataStore>,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        if self.first(db)?.is_some() {
            return Err(not_empty());
        }
        let loaded = self.insert_each(db, records);
        if loaded.is_err() {
            self.unload_followed(db)?;
        }
        loaded
    }

    /// Removes all records with what is kept with them, and with no regard to records that refer to them: all
    /// that do were loaded with them.
    fn unload_followed(&mut self, db: &Database<DataStore>) -> Result<()> {
        while let Some((key, _)) = self.first(db)? {
            let tree = self.tree(db)?;
            let mut in_place = UndoGuard { store: self, done: Vec::new() };
            let with = match &tree.follower {
                Some(follower) => follower.follow(tree, (&key, None), &mut in_place)?,
                None => With::default(),
            };
            in_place.set(tree, (&key, None), &with)?;
            in_place.keep();
        }
        Ok(())
    }

    fn insert_each<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        db: &Database<DataStore>,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let mut order = InOrder::default();
        for (key, value) in records {
            if self.tree(db)?.tree().loads_in_order() {
                order.next(self.tree(db)?.tree().order, key.as_ref())?;
            } else {
                order.next_of_any(self.value_len(db, key.as_ref())?.is_some())?;
            }
            self.insert(db, key, value)?;
        }
        Ok(order.count())
    }

    /// The tree of one of its own databases.
    #[inline]
    pub(super) fn tree<'d>(&self, db: &'d Database<DataStore>) -> Result<&'d TreeRef> {
        self.core.tree(db.named_in(&self.core)?)
    }

    #[inline]
    fn change(&mut self, tree: &TreeRef, change: SetOrRemove<'_>) -> Result<bool> {
        self.changes += 1;
        match &tree.follower {
            None => self.change_one(tree, change),
            Some(_) => self.change_followed(tree, change),
        }
    }

    /// Changes a record that others follow, with all that follows from it.
    #[cold]
    fn change_followed(&mut self, tree: &TreeRef, (key, value): (&[u8], Option<&[u8]>)) -> Result<bool> {
        let is_there = self.core.kernel.value_len(tree, key)?.is_some();
        let mut in_place = UndoGuard { store: self, done: Vec::new() };
        change_followed(&mut in_place, tree, (key, value))?;
        in_place.keep();
        Ok(is_there)
    }

    #[inline]
    fn change_one(&mut self, tree: &TreeRef, (key, value): SetOrRemove<'_>) -> Result<bool> {
        let kernel = &self.core.kernel;
        let view = tree.tree();
        let sought = view.sought(key);
        kernel.foresee_change(&view, sought);
        // SAFETY: this handle is the only one and is borrowed exclusively, and a Data Store has no threads of
        // its own: nobody else takes or leaves a seat.
        let seat = unsafe { kernel.pages.participants.sit_alone() }?;
        // SAFETY: so no read is in progress either, and a Data Store has no snapshots.
        let mut direct = unsafe { Direct::new(&kernel.pages, &seat) };
        direct.change_sought(&view, (sought, value))
    }

    /// Writes a checkpoint: the present state survives any crash. Durable when it returns.
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
        let mut report = self.core.verify(progress)?;
        if report.problems.is_empty() {
            verify_indices(self, &mut report)?;
        }
        Ok(report)
    }

    /// Statistics of the environment.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn stats(&self) -> Result<Stats> {
        Stats::of(&self.core)
    }

    /// The size of a database, exact or an estimate: see [`Database::stats`].
    ///
    /// # Errors
    /// As [`DataStore::get`](Read::get).
    pub fn database_stats(&self, db: &Database<DataStore>) -> Result<DatabaseStats> {
        DatabaseStats::of(&self.core, self.tree(db)?)
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

/// Makes an index in a store.
pub(super) fn index_of_store(
    store: &mut DataStore,
    name: &str,
    of: &Database<DataStore>,
    info: &IndexInfo,
) -> Result<Database<DataStore>> {
    of.named_in(&store.core)?;
    store.changes += 1;
    store.core.create_index(name, info).map(|named| Database::new(StoreHandle::of(&store.core), named))
}

/// Records that are changed in place, and what they were before: which they are again when it is dropped,
/// whatever cut it short.
struct UndoGuard<'s> {
    store: &'s mut DataStore,
    done: Vec<Also>,
}

impl Drop for UndoGuard<'_> {
    /// Puts back what was there: where nothing can be rolled back, half of what belongs together would stay.
    fn drop(&mut self) {
        while let Some((tree, key, before)) = self.done.pop() {
            // What fails here has failed above already, of a disk or a cache; `Index::verify` tells of it.
            let _ = self.store.change_one(&tree, (&key, before.as_deref()));
        }
    }
}

impl UndoGuard<'_> {
    /// What was done stays.
    fn keep(mut self) {
        self.done.clear();
    }

    fn kernel(&self) -> &Kernel {
        &self.store.core.kernel
    }

    fn set_one(&mut self, tree: &TreeRef, change: SetOrRemove<'_>) -> Result<()> {
        let before = self.store.core.kernel.get_one(tree, change.0)?;
        self.store.changes += 1;
        self.store.change_one(tree, change)?;
        self.done.push((tree.clone(), change.0.to_vec(), before));
        Ok(())
    }
}

impl View for UndoGuard<'_> {
    fn pages(&self) -> &Pages {
        &self.kernel().pages
    }

    fn names_since(&self) -> Lsn {
        self.kernel().names_since()
    }

    fn state(&self) -> Lsn {
        self.kernel().pages.newest()
    }

    fn entry(&self, name: &str) -> Result<Option<CatalogEntry>> {
        let value = self.kernel().get_one(catalog_tree(), name.as_bytes())?;
        value.map(|value| CatalogEntry::decode(name.as_bytes(), &value)).transpose()
    }

    fn presence(&self, _: TreeId) -> Presence {
        Presence::seen_at(self.state())
    }
}

impl FollowedRecords for UndoGuard<'_> {
    fn get(&mut self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.kernel().get_one(tree, key)
    }

    fn contains(&mut self, tree: &TreeRef, key: &[u8]) -> Result<bool> {
        self.kernel().value_len(tree, key).map(|len| len.is_some())
    }

    fn before(&mut self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.kernel().get_one(tree, key)
    }

    fn first(&mut self, tree: &TreeRef, (lower, upper): &KeySpan) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut scan = Scan::new(lower.clone(), upper.clone());
        self.store.with(|Seen(txn)| txn.records.next(tree, &mut scan, true))
    }

    // Nobody else changes anything.
    fn must_stay(&mut self, _: &TreeRef, _: &[u8]) {}

    fn must_be_empty(&mut self, _: &TreeRef, _: KeySpan, _: (TreeId, &[u8])) {}

    fn set(&mut self, tree: &TreeRef, change: SetOrRemove<'_>, with: &With) -> Result<()> {
        for (tree, key, value) in with.first.iter().chain(&with.last) {
            self.kernel().check_record(tree, key, value.as_ref().map_or(0, Vec::len))?;
        }
        for (tree, key, value) in &with.first {
            self.set_one(tree, (key, value.as_deref()))?;
        }
        self.set_one(tree, change)?;
        with.last.iter().try_for_each(|(tree, key, value)| self.set_one(tree, (key, value.as_deref())))
    }
}

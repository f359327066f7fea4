//! A database's handle: of an environment's, single operations, each a transaction of its own.

use std::cmp::Ordering;
use std::fmt::{self, Debug};
use std::sync::{Arc, Weak};

use super::cursor::KeyWalk;
use super::read::{Record, foreign};
use super::within::{self, address};
use super::{Cursor, DataStore, DatabaseStats, Entry, Env, KeyRange, KeySpan, Read, Txn, TxnOptions};
use crate::access::Method;
use crate::env::{Core, Databases, Named};
use crate::error::{Error, Result};
use crate::txn::{Holds, Isolation, RecordChange, TreeRef, locks};

/// A named, ordered map from byte keys to byte values. A handle; clones name the same database.
///
/// `K` is what it belongs to: an [`Env`], which is the default, or a [`DataStore`]. It can only be used with
/// the environment or store that it belongs to: with another one, operations fail with `Invalid`.
///
/// The database of an environment has operations of its own. Each is a transaction of its own: when it
/// returns, it is committed, and as durable as the environment's [`Durability`](crate::Durability) says.
/// Reads see the newest committed state. To do several things in one transaction, use [`Env::write`]. The
/// database of a Data Store is read and written through the [store](DataStore).
///
/// Keys can have up to 64 KiB (65,536 bytes), values up to 4 GiB; both may be empty. Values need not fit the
/// cache; while one is being set, there is one copy of it in memory beside the caller's.
///
/// Long keys cost more: those with at least an eighth of a page less 16 bytes (496 bytes with pages of 4096).
/// They are split into slices of that length. All keys with the same first slice are kept together in a tree
/// of their own, in at least one page, without that slice; what is left of each key is split in the same way.
/// So each slice costs one more search, and a page of its own if no other key begins with it. Transactions
/// that write long keys in one database wait for each other. In a database with a comparator, which compares
/// whole keys, the longest key has an eighth of a page less 16 bytes.
pub struct Database<K: Kind = Env> {
    pub(super) of: K::Handle,
    pub(super) named: Arc<Named>,
}

/// What databases can be of: an [`Env`] or a [`DataStore`]. Implemented here, and by no other crate.
pub trait Kind: sealed::Owner {}

impl Kind for Env {}
impl Kind for DataStore {}

mod sealed {
    use super::{Databases, Debug};

    /// An environment.
    #[derive(Debug)]
    pub struct Of<'a>(pub(in crate::api) &'a Databases);

    /// An owner of databases.
    pub trait Owner {
        /// What a database knows of it.
        type Handle: Clone + Debug + Send + Sync;
        /// Whether it is this one.
        fn is(handle: &Self::Handle, of: Of<'_>) -> bool;
        /// Whether two handles are of the same.
        fn is_one(handle: &Self::Handle, other: &Self::Handle) -> bool;
    }
}

use sealed::Of;

/// What the database of a Data Store knows of that: it does not keep it open.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    /// Where its databases are.
    at: usize,
    /// So that nothing else comes to be there.
    _core: Weak<Core>,
}

impl StoreHandle {
    pub(super) fn of(core: &Arc<Core>) -> StoreHandle {
        StoreHandle { at: address(core), _core: Arc::downgrade(core) }
    }
}

impl sealed::Owner for Env {
    type Handle = Env;

    #[inline]
    fn is(handle: &Env, of: Of<'_>) -> bool {
        address(handle.core()) == address(of.0)
    }

    fn is_one(handle: &Env, other: &Env) -> bool {
        address(handle.core()) == address(other.core())
    }
}

impl sealed::Owner for DataStore {
    type Handle = StoreHandle;

    #[inline]
    fn is(handle: &StoreHandle, of: Of<'_>) -> bool {
        // Where it is no other can be as long as there is a handle, whether or not it is still open.
        handle.at == address(of.0)
    }

    fn is_one(handle: &StoreHandle, other: &StoreHandle) -> bool {
        handle.at == other.at
    }
}

impl<K: Kind> Clone for Database<K> {
    fn clone(&self) -> Self {
        Database { of: self.of.clone(), named: Arc::clone(&self.named) }
    }
}

impl<K: Kind> Debug for Database<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.named.name).finish_non_exhaustive()
    }
}

impl<K: Kind> Database<K> {
    pub(super) fn new(of: K::Handle, named: Arc<Named>) -> Database<K> {
        Database { of, named }
    }

    /// What an environment knows it by, after making sure that it is of that one.
    #[inline]
    pub(super) fn named_in(&self, databases: &Databases) -> Result<&Named> {
        if K::is(&self.of, Of(databases)) { Ok(&self.named) } else { Err(foreign(self.name())) }
    }

    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// The name of the comparator that orders its keys; none if their bytes do.
    pub fn comparator(&self) -> Option<&str> {
        self.named.comparator()
    }

    /// How its records are arranged.
    pub fn method(&self) -> Method {
        self.named.method()
    }

    /// What kind of records it holds, as was said when it was made.
    pub fn holds(&self) -> Holds {
        self.named.holds
    }

    /// Whether it is temporary: see [`DatabaseOptions::temporary`](super::DatabaseOptions::temporary).
    pub fn is_temporary(&self) -> bool {
        self.named.is_temporary()
    }

    /// What it is known by.
    pub(super) fn into_named(self) -> Arc<Named> {
        self.named
    }

    /// A cursor, which stands nowhere yet.
    pub fn cursor(&self) -> Cursor<K> {
        Cursor::new(self.clone())
    }

    /// Some of its keys, to be gone through while they are changed.
    pub(super) fn walk(&self, keys: &impl KeyRange) -> Result<KeyWalk<K>> {
        Ok(KeyWalk::new(self.clone(), self.bounds(keys)?))
    }

    /// How two keys are ordered.
    pub(super) fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        self.named.compare(one, other)
    }

    /// The bounds of some of its keys.
    pub(super) fn bounds(&self, keys: &impl KeyRange) -> Result<KeySpan> {
        keys.bounds(|| self.require_order_of_bytes("asking for a prefix"))
    }

    /// An error unless its keys are in the order of their bytes, which what is done with it takes.
    pub(crate) fn require_order_of_bytes(&self, doing: &str) -> Result<()> {
        let order = match self.comparator() {
            Some(comparator) => format!("ordered by the comparator {comparator:?}"),
            None if self.named.method().hashes() => "a hash table".to_owned(),
            None => return Ok(()),
        };
        Err(Error::invalid(format!(
            "{doing} in the database {:?}: it is {order}, and keys with the same prefix need not be next to \
             each other there",
            self.name()
        )))
    }
}

impl Database {
    #[inline]
    pub(super) fn tree(&self) -> Result<&TreeRef> {
        self.of.core().tree(&self.named)
    }

    /// The result of an operation that looked for the tree before it took its snapshot: the database may have
    /// been removed in between.
    #[inline]
    pub(super) fn unless_removed<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.of.core().explain(&self.named, error))
    }

    /// Refuses a change of it by itself, within what this thread is in the middle of.
    #[inline]
    pub(super) fn refuse_around(&self, tree: &TreeRef, what: &str) -> Result<()> {
        within::refuse_around(self.of.core(), Some(tree.id), None, || {
            format!("{what} the database {:?}", self.name())
        })
    }

    /// The environment it is in.
    pub fn env(&self) -> &Env {
        &self.of
    }

    /// The size of the database in its newest committed state: an estimate, or exact if it has up to some
    /// dozens of pages. It is estimated from 64 paths from the root to a leaf, whatever the size: so at most
    /// 64 pages of each level are read, and those in the cache cost no reading. Where pages are alike, as
    /// they are when keys came in random order, the error is about five percent; the more the lengths of keys
    /// and values differ between parts of the database, the larger it is. For the same state the result is
    /// the same.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// let db = sablecat::Env::in_memory()?.database("d")?;
    /// db.insert("key", "value")?;
    /// let stats = db.stats()?;
    /// assert_eq!((stats.records, stats.depth, stats.is_exact), (1, 1, true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn stats(&self) -> Result<DatabaseStats> {
        let core = self.of.core();
        self.unless_removed(self.tree().and_then(|tree| DatabaseStats::of(core, tree)))
    }

    /// The number that [`Env::locks`] shows for locks on the record of a key. Different records may have one
    /// number.
    ///
    /// # Errors
    /// `NotFound` if the database was removed.
    pub fn lock_number(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        Ok(locks::kept_of(locks::record_hash(self.tree()?.id, key.as_ref())))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Corruption` and `Io` from reading pages; `NotFound` if the database was removed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.unless_removed(self.of.core().kernel.get_one(self.tree()?, key.as_ref()))
    }

    /// Calls `look` with the value of a key, in place: nothing is copied. `look` should be brief; while it
    /// runs, evicted memory is not reused.
    ///
    /// # Errors
    /// As [`Database::get`].
    #[inline]
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.unless_removed(self.of.core().kernel.read_one(self.tree()?, key.as_ref(), look))
    }

    /// Whether there is a record with this key.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.value_len(key).map(|len| len.is_some())
    }

    /// How many bytes the value of a key has, without reading it; none if there is no record.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn value_len(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.unless_removed(self.of.core().kernel.value_len(self.tree()?, key.as_ref()))
    }

    /// Reads part of a value, from `offset` on, as much as `into` has room for. None if there is no such
    /// record, else how many bytes were read; 0 at the value's end. Of a long value only the pages concerned
    /// are read, and large parts do not take cache from other pages.
    ///
    /// Each call sees the newest committed value. To read all parts of one state, read them in a
    /// [`ReadTxn`](crate::ReadTxn):
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let films = env.database("films")?;
    /// films.insert("nosferatu", vec![7; 300_000])?;
    ///
    /// let snapshot = env.snapshot()?;
    /// let len = snapshot.value_len(&films, "nosferatu")?.expect("was just inserted");
    /// let mut part = vec![0; 65536];
    /// let mut sum = 0;
    /// for offset in (0..len).step_by(part.len()) {
    ///     let read = snapshot.read_at(&films, "nosferatu", offset, &mut part)?;
    ///     let read = read.expect("the snapshot does not change");
    ///     sum += part[..read].iter().map(|&byte| u64::from(byte)).sum::<u64>();
    /// }
    /// assert_eq!(sum, 2_100_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn read_at(&self, key: impl AsRef<[u8]>, offset: u64, into: &mut [u8]) -> Result<Option<usize>> {
        self.unless_removed(self.of.core().kernel.read_part(self.tree()?, key.as_ref(), offset, into))
    }

    /// Sets the value of a key, whether or not there was one.
    ///
    /// # Errors
    /// `Invalid` for a key or value that is too long; `DiskFull` and `CacheFull`; `NotDurable` and `Poisoned`
    /// as for [`Txn::commit`](crate::Txn::commit); `ReadOnly`.
    #[inline]
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let core = self.of.core().to_write()?;
        let (key, value) = (key.as_ref(), value.as_ref());
        let tree = self.tree()?;
        self.refuse_around(tree, "setting a record of")?;
        core.kernel.check_record(tree, key, value.len())?;
        self.change_one(core, tree, key, RecordChange::Put(value)).map(|_| ())
    }

    /// Removes a record; false if there was none.
    ///
    /// # Errors
    /// As [`Database::insert`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let core = self.of.core().to_write()?;
        let tree = self.tree()?;
        self.refuse_around(tree, "removing a record of")?;
        core.kernel.check_record(tree, key.as_ref(), 0)?;
        self.change_one(core, tree, key.as_ref(), RecordChange::Remove)
    }

    #[inline]
    fn change_one(&self, core: &Core, tree: &TreeRef, key: &[u8], change: RecordChange<'_>) -> Result<bool> {
        let done = core.kernel.change_one(tree, key, change, core.config.durability);
        match done {
            Err(error) => self.change_again(core, key, change, error),
            done => done,
        }
    }

    /// The record with the least key.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn first(&self) -> Result<Option<Record>> {
        self.of.first(self)
    }

    /// The record with the greatest key.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn last(&self) -> Result<Option<Record>> {
        self.of.last(self)
    }

    /// The record with this key or, if there is none, with the next one above it.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn at_or_after(&self, key: impl AsRef<[u8]>) -> Result<Option<Record>> {
        self.of.at_or_after(self, key)
    }

    /// The record with this key or, if there is none, with the next one below it.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn at_or_before(&self, key: impl AsRef<[u8]>) -> Result<Option<Record>> {
        self.of.at_or_before(self, key)
    }

    /// The entry of one key, to insert or to change its value: see [`Entry`].
    pub fn entry(&self, key: impl AsRef<[u8]>) -> Entry<'_> {
        Entry::new(self, key.as_ref())
    }

    /// Runs `work` on one record, or few, in a transaction. What it changes it has read, and that is checked.
    pub(super) fn change<T>(&self, work: impl FnMut(&mut Txn<'_>) -> Result<T>) -> Result<T> {
        self.of.write_with(TxnOptions::new().isolation(Isolation::Snapshot), work)
    }

    /// Removes a record; returns its value, if there was one.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.change(|txn| txn.take(self, key.as_ref()))
    }

    /// Sets the value of a key; returns the old value, if there was one. [`Database::insert`], which does not
    /// read the old value, is faster.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn replace(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.change(|txn| txn.replace(self, key.as_ref(), value.as_ref()))
    }

    /// Sets the value of a key if there is no record with it. True if there was none.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let names = env.database("names")?;
    /// assert!(names.insert_new("ada", "1")?);
    /// assert!(!names.insert_new("ada", "2")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn insert_new(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.change(|txn| txn.insert_new(self, key.as_ref(), value.as_ref()))
    }

    /// Sets the value of a key to what `change` returns for its present value; none means that there is no
    /// record, before as well as after. Returns the new value. Locks the record; `change` may run more than
    /// once all the same.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.change(|txn| {
            txn.get_for_update(self, key.as_ref())?;
            txn.update(self, key.as_ref(), &mut change)
        })
    }

    /// Sets the value of a key to `new`, or removes the record if `new` is none, if its value is `expected`;
    /// an `expected` of none means that there is no record. True if it was.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let leader = env.database("leader")?;
    /// assert!(leader.compare_and_swap("", None, Some(b"me"))?);
    /// assert!(!leader.compare_and_swap("", None, Some(b"another"))?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.change(|txn| txn.compare_and_swap(self, key.as_ref(), expected, new))
    }

    /// Adds to a value that is a number: see [`Write::increment`](crate::Write::increment). Locks the record,
    /// so that transactions that increment the same value wait for each other instead of running again.
    ///
    /// # Errors
    /// As [`Write::increment`](crate::Write::increment), and [`Env::write`].
    pub fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        self.change(|txn| {
            txn.get_for_update(self, key.as_ref())?;
            txn.increment(self, key.as_ref(), by)
        })
    }

    /// Replaces some bytes of a value by others: see [`Write::splice`](crate::Write::splice).
    ///
    /// # Errors
    /// As [`Write::splice`](crate::Write::splice), and [`Env::write`].
    pub fn splice(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        len: u64,
        bytes: impl AsRef<[u8]>,
    ) -> Result<u64> {
        self.change(|txn| txn.splice(self, key.as_ref(), offset, len, bytes.as_ref()))
    }

    /// Removes the record with the least key, and returns it. Several consumers of one queue do better with
    /// [`Txn::pop_first_unlocked`](crate::Txn::pop_first_unlocked).
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn pop_first(&self) -> Result<Option<Record>> {
        self.change(|txn| txn.pop_first(self))
    }

    /// Removes the record with the greatest key, and returns it.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn pop_last(&self) -> Result<Option<Record>> {
        self.change(|txn| txn.pop_last(self))
    }

    /// The number of records. Counts them, unless the database keeps count
    /// ([`Method::Counted`](crate::Method::Counted)).
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn len(&self) -> Result<u64> {
        self.of.len(self)
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.first().map(|first| first.is_none())
    }
}

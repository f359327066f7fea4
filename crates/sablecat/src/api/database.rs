//! A database's handle: single operations, each a transaction of its own.

use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;

use super::within::{self, Doing, Within};
use super::{Bounds, Env, Range, owned_bounds, prefix_bounds, visit};
use crate::env::Named;
use crate::error::{Error, Result};
use crate::txn::{Committed, RecordChange, TreeRef, locks};

/// A named, ordered map from byte keys to byte values, in an environment. A handle; clones name the same database.
///
/// Its operations are transactions of their own: what returned is committed, and as durable as the environment's
/// [`Durability`](crate::Durability) says. Reads see the newest committed state. To do several things as one, use [`Env::write`].
///
/// Keys can have up to 64 KiB (65,536 bytes), values up to 4 GiB; both may be empty.
/// Values need not fit the cache; while one is being set, there is one copy of it in memory beside the caller's.
///
/// Keys of an eighth of a page less 16 bytes (496 with pages of 4096) and longer ones cost more. All that share their first so many
/// bytes are kept together, in at least one page of their own, without these bytes; what is left of a key is kept in the same way. So
/// each such part of a key is one more search, and a page if no other key begins like it. Writers of long keys in one database wait for
/// each other. In a database with a comparator, which compares whole keys, the longest key is that of an eighth of a page less 16 bytes.
#[derive(Clone, Debug)]
pub struct Database {
    env: Env,
    named: Arc<Named>,
}

impl Database {
    pub(super) fn new(env: Env, named: Arc<Named>) -> Database {
        Database { env, named }
    }

    #[inline]
    pub(super) fn tree(&self) -> Result<&TreeRef> {
        self.env.core().tree(&self.named)
    }

    /// What a transaction of an environment knows it by, after making sure that it is of that one.
    #[inline]
    pub(super) fn named_in(&self, env: &Env) -> Result<&Named> {
        if std::ptr::eq(self.env.core(), env.core()) {
            Ok(&self.named)
        } else {
            Err(Error::invalid(format!("the database {:?} is of another environment than the transaction", self.name())))
        }
    }

    /// The result of an operation that looked for the tree before it took its snapshot: the database may have been removed in between.
    #[inline]
    fn unless_removed<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.env.core().explain(&self.named, error))
    }

    /// Refuses a change of it by itself, within what this thread is in the middle of.
    #[inline]
    fn refuse_around(&self, tree: &TreeRef, what: &str) -> Result<()> {
        within::refuse_around(self.env.core(), Some(tree.id), None, || format!("{what} the database {:?}", self.name()))
    }

    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// The environment it is in.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The number that [`Env::locks`] shows for locks on the record of a key. Different records may have one number.
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
        self.unless_removed(self.env.core().kernel.get_one(self.tree()?, key.as_ref()))
    }

    /// Shows the value of a key to `look`, in place: nothing is copied. `look` should be brief; while it runs, evicted memory is not reused.
    ///
    /// # Errors
    /// As [`Database::get`].
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.unless_removed(self.env.core().kernel.read_one(self.tree()?, key, look))
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
        self.unless_removed(self.env.core().kernel.value_len(self.tree()?, key.as_ref()))
    }

    /// Reads part of a value, from `offset` on, as much as `into` has room for. None if there is no such record, else how many bytes were
    /// read; 0 at the value's end. Of a long value only the pages concerned are read, and large parts leave the cache to others.
    ///
    /// Each call sees the newest committed value. To read all parts of one state, read them in a [`ReadTxn`](crate::ReadTxn):
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let films = env.database("films")?;
    /// films.insert("nosferatu", vec![7; 300_000])?;
    ///
    /// let mut snapshot = env.snapshot()?;
    /// let len = snapshot.value_len(&films, "nosferatu")?.expect("was just inserted");
    /// let mut part = vec![0; 65536];
    /// let mut sum = 0;
    /// for offset in (0..len).step_by(part.len()) {
    ///     let read = snapshot.read_at(&films, "nosferatu", offset, &mut part)?.expect("the snapshot does not change");
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
        self.unless_removed(self.env.core().kernel.read_part(self.tree()?, key.as_ref(), offset, into))
    }

    /// Sets the value of a key, whether or not there was one.
    ///
    /// # Errors
    /// `Invalid` for a key or value that is too long; `Full` for a full disk or cache; `NotDurable` and `Poisoned` as for
    /// [`Txn::commit`](crate::Txn::commit); `ReadOnly`.
    #[inline]
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let core = self.env.core().to_write()?;
        let (key, value) = (key.as_ref(), value.as_ref());
        let tree = self.tree()?;
        self.refuse_around(tree, "setting a record of")?;
        core.kernel.check_record(tree, key, value.len())?;
        self.unless_removed(core.kernel.change_one(tree, key, RecordChange::Put(value), core.config.durability)).map(|_| ())
    }

    /// Removes a record; false if there was none.
    ///
    /// # Errors
    /// As [`Database::insert`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let core = self.env.core().to_write()?;
        let tree = self.tree()?;
        self.refuse_around(tree, "removing a record of")?;
        core.kernel.check_record(tree, key.as_ref(), 0)?;
        self.unless_removed(core.kernel.change_one(tree, key.as_ref(), RecordChange::Remove, core.config.durability))
    }

    /// The record with the least key.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range::<&[u8]>(..)?.next().transpose()
    }

    /// The record with the greatest key.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range::<&[u8]>(..)?.next_back().transpose()
    }

    /// The records between two bounds, in order, from either end. The range has a snapshot of its own.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let db = env.database("letters")?;
    /// for letter in ["a", "b", "c", "d"] {
    ///     db.insert(letter, "")?;
    /// }
    /// let backwards: Vec<_> = db.range("b"..)?.rev().map(|record| record.map(|(key, _)| key)).collect::<sablecat::Result<_>>()?;
    /// assert_eq!(backwards, [b"d", b"c", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Full` when too many transactions are in progress. Each record comes as a result, with the errors of [`Database::get`].
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Result<Range<'_>> {
        Range::owned(self, owned_bounds(&bounds))
    }

    /// The records whose keys begin with `prefix`, in order, from either end. Only for databases in the order of bytes: in another, keys that begin
    /// alike need not stand together.
    ///
    /// # Errors
    /// `Invalid` for a database that is ordered by a comparator; as [`Database::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        Range::owned(self, self.prefix_bounds(prefix.as_ref())?)
    }

    /// The bounds of all keys that begin with `prefix`.
    pub(super) fn prefix_bounds(&self, prefix: &[u8]) -> Result<Bounds> {
        match self.named.comparator() {
            None => Ok(prefix_bounds(prefix)),
            Some(comparator) => Err(Error::invalid(format!(
                "asking the database {:?} for a prefix: it is ordered by the comparator {comparator:?}, and keys that begin alike need not stand \
                 together; ask for a range, or look at all records",
                self.name()
            ))),
        }
    }

    /// Shows all records between two bounds to `each`, in order and in place, at one snapshot: the fastest way to read many. `each` is
    /// shown a leaf's records at a time without pause and should be brief; it may end the visit.
    ///
    /// # Errors
    /// As [`Database::range`].
    pub fn visit<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>, mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.fold(bounds, (), |(), key, value| each(key, value))
    }

    /// Folds all records between two bounds into one value, in order and in place, at one snapshot, as [`Database::visit`] shows them. `each` is
    /// given what has been made of the records before, `initial` at first, and a record; `Break` ends it.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let db = env.database("stock")?;
    /// db.insert("apples", 3u32.to_le_bytes())?;
    /// db.insert("pears", 4u32.to_le_bytes())?;
    /// let fruit = db.fold::<u32, &str>(.., 0, |sum, _, value| ControlFlow::Continue(sum + u32::from_le_bytes(value.try_into().unwrap())))?;
    /// assert_eq!(fruit, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Database::range`].
    pub fn fold<B, K: AsRef<[u8]>>(
        &self,
        bounds: impl RangeBounds<K>,
        initial: B,
        each: impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<B> {
        let kernel = &self.env.core().kernel;
        let seat = kernel.pages.sit()?;
        let pinned = kernel.pages.pinned(&seat);
        let bounds = owned_bounds(&bounds);
        // The snapshot first: a database that is there after it stays there in it.
        self.tree().and_then(|tree| visit::fold(Committed { kernel, me: &seat, at: pinned.at() }, tree, bounds, initial, each))
    }

    /// Sets many records in one transaction.
    ///
    /// # Errors
    /// As [`Database::insert`]; on any error none is set.
    pub fn insert_batch<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let mut txn = self.env.begin()?;
        for (key, value) in records {
            txn.insert(self, key, value)?;
        }
        txn.commit()
    }

    /// Loads records that come in ascending order of their keys into an empty database, building pages directly: the fastest way to fill
    /// one. All or nothing, as durable as the environment's [`Durability`](crate::Durability) says. Returns how many records there were.
    ///
    /// Others go on while the records are drawn, and the iterator may take its time and use the environment, other databases of it as well; but the database
    /// must stay empty until it is loaded.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let squares = env.database("squares")?;
    /// squares.bulk_load((0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes())))?;
    /// assert_eq!(squares.get(12u32.to_be_bytes())?.as_deref(), Some(&144u32.to_be_bytes()[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the database is not empty or the records are not in order; `Conflict` if somebody inserted meanwhile; as
    /// [`Database::insert`]. What the iterator itself inserts into the database is `NotAllowed`.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        let core = self.env.core().to_write()?;
        let tree = self.tree()?;
        self.refuse_around(tree, "a bulk load of")?;
        let _within = Within::begin(core, Doing::Load(tree.id));
        self.unless_removed(core.kernel.bulk_load(tree, records, core.config.durability))
    }

    /// The place of one key: to look at it, fill it or change it. Each step is an operation of its own; for several as one, use
    /// [`Env::write`].
    pub fn entry(&self, key: impl AsRef<[u8]>) -> Entry<'_> {
        Entry { database: self, key: key.as_ref().to_vec() }
    }

    /// Keeps the records that `keep` says to keep and removes the others, in one transaction.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn retain(&self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.env.write(|txn| {
            let mut doomed = Vec::new();
            for record in txn.range::<&[u8]>(self, ..)? {
                let (key, value) = record?;
                if !keep(&key, &value) {
                    doomed.push(key);
                }
            }
            doomed.iter().try_for_each(|key| txn.remove(self, key).map(|_| ()))
        })
    }

    /// How many records there are. Counts them.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn len(&self) -> Result<u64> {
        let mut count = 0;
        self.visit::<&[u8]>(.., |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.first().map(|first| first.is_none())
    }
}

/// The place of one key in a database: see [`Database::entry`].
#[derive(Debug)]
pub struct Entry<'d> {
    database: &'d Database,
    key: Vec<u8>,
}

impl Entry<'_> {
    /// The value, set to `value` first if there is none. Atomic.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn or_insert(self, value: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.database.env.write(|txn| {
            if let Some(have) = txn.get(self.database, &self.key)? {
                return Ok(have);
            }
            txn.insert(self.database, &self.key, value.as_ref())?;
            Ok(value.as_ref().to_vec())
        })
    }

    /// Changes the value, if there is one, to what `change` makes of it; says what it is then. Atomic; `change` may run more than once.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn and_modify(self, mut change: impl FnMut(&[u8]) -> Vec<u8>) -> Result<Option<Vec<u8>>> {
        self.database.env.write(|txn| {
            let Some(have) = txn.get_for_update(self.database, &self.key)? else { return Ok(None) };
            let value = change(&have);
            txn.insert(self.database, &self.key, &value)?;
            Ok(Some(value))
        })
    }
}

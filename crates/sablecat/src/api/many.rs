//! What is done with many records of a database at once.

use std::ops::ControlFlow;

use super::within::{EnclosingWork, Within};
use super::{Database, KeyRange, Range, Read, ReadTxn};
use crate::access::Each;
use crate::error::Result;
use crate::txn::CommittedState;

/// Many records at once.
impl Database {
    /// The records of a range of keys, in order, from either end. The range has a snapshot of its own,
    /// borrows from nothing and may move between threads.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let db = env.database("letters")?;
    /// for letter in ["a", "b", "c", "d"] {
    ///     db.insert(letter, "")?;
    /// }
    /// let backwards = db.range("b"..)?.rev().map(|record| record.map(|(key, _)| key));
    /// let backwards: Vec<_> = backwards.collect::<sablecat::Result<_>>()?;
    /// assert_eq!(backwards, [b"d", b"c", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TooMany` when too many transactions are in progress. Each record comes as a result, with the errors
    /// of [`Database::get`].
    pub fn range(&self, keys: impl KeyRange) -> Result<Range<ReadTxn>> {
        self.of.range(self, keys)
    }

    /// Calls `each` for the records of a range of keys, in order and in place, at one snapshot: the fastest
    /// way to read many. All records of a leaf are shown without pause, so `each` should be brief; it may end
    /// the visit.
    ///
    /// # Errors
    /// As [`Database::range`].
    pub fn visit(
        &self,
        keys: impl KeyRange,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.fold(keys, (), |(), key, value| each(key, value))
    }

    /// As [`Database::visit`], from the last record to the first. Somewhat slower.
    ///
    /// # Errors
    /// As [`Database::range`].
    pub fn visit_back(
        &self,
        keys: impl KeyRange,
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.of.visit_back(self, keys, each)
    }

    /// Folds the records of a range of keys into one value, in order and in place, at one snapshot, as
    /// [`Database::visit`] shows them. `each` is called with the value so far, `initial` at first, and a
    /// record; `Break` ends the fold.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let db = env.database("stock")?;
    /// db.insert("apples", 3u32.to_le_bytes())?;
    /// db.insert("pears", 4u32.to_le_bytes())?;
    /// let fruit = db.fold(.., 0, |sum, _, value| {
    ///     ControlFlow::Continue(sum + u32::from_le_bytes(value.try_into().unwrap()))
    /// })?;
    /// assert_eq!(fruit, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Database::range`].
    pub fn fold<B>(
        &self,
        keys: impl KeyRange,
        initial: B,
        each: impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<B> {
        self.fold_each(keys, initial, each)
    }

    pub(super) fn fold_each<B>(&self, keys: impl KeyRange, initial: B, each: impl Each<B>) -> Result<B> {
        let bounds = self.bounds(&keys)?;
        let kernel = &self.of.core().kernel;
        let seat = kernel.pages.sit_to_read()?;
        let pinned = kernel.pages.pinned(&seat);
        // The snapshot first: a database that is there after it stays there in it.
        self.tree().and_then(|tree| {
            tree.tree().fold(
                CommittedState { states: kernel, me: &seat, at: pinned.at() },
                bounds,
                true,
                initial,
                each,
            )
        })
    }

    /// Sets many records in one transaction.
    ///
    /// # Errors
    /// As [`Database::insert`]; on any error none is set.
    pub fn insert_batch<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let mut txn = self.of.begin()?;
        for (key, value) in records {
            txn.insert(self, key, value)?;
        }
        txn.commit().map(|_| ())
    }

    /// Loads records, which must come in ascending order of their keys, into an empty database, and builds
    /// its pages directly: the fastest way to fill one. All or none are loaded, as durably as the
    /// environment's [`Durability`](crate::Durability) says. Returns how many records there were.
    ///
    /// Other transactions go on while records are drawn from the iterator. The iterator may take its time,
    /// and may use the environment and its other databases; but this database must stay empty until it is
    /// loaded.
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
    /// `Invalid` if the database is not empty or the records are not in order; `Conflict` if another
    /// transaction inserted into it meanwhile; as [`Database::insert`]. Inserts into the database by the
    /// iterator itself are `NotAllowed`.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let core = self.of.core().to_write()?;
        let tree = self.tree()?;
        self.refuse_around(tree, "a bulk load of")?;
        let _within = Within::begin(core, EnclosingWork::Load(tree.id));
        self.unless_removed(core.kernel.bulk_load(tree, records, core.config.durability))
    }

    /// Removes the records of a range of keys in one transaction, and returns how many there were. Reads each
    /// page that has some of them, not each record: see [`Write::remove_range`](crate::Write::remove_range).
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let log = env.database("log")?;
    /// log.bulk_load((0..10_000u32).map(|n| (n.to_be_bytes(), "a line")))?;
    /// assert_eq!(log.remove_range(..9_000u32.to_be_bytes())?, 9_000);
    /// assert_eq!(log.first()?.map(|(key, _)| key).as_deref(), Some(&9_000u32.to_be_bytes()[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Env::write`](super::Env::write), and [`Database::range`].
    pub fn remove_range(&self, keys: impl KeyRange) -> Result<u64> {
        self.of.write(|txn| txn.remove_range(self, &keys))
    }

    /// Removes all records in one transaction, and returns how many there were. To remove them at the cost of
    /// removing one, [remove the database](super::Env::remove_database).
    ///
    /// # Errors
    /// As [`Env::write`](super::Env::write).
    pub fn clear(&self) -> Result<u64> {
        self.remove_range(..)
    }

    /// Keeps the records for which `keep` returns true and removes the others, in one transaction. `keep` may
    /// be called again for the same record.
    ///
    /// # Errors
    /// As [`Env::write`](super::Env::write).
    pub fn retain(&self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.of.write(|txn| txn.retain(self, &mut keep))
    }
}

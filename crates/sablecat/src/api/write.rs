//! Writing, alike in transactions and in Data Stores.

use std::ops::Bound;

use super::read::{Read, Record};
use super::{Database, Entry, KeyRange, KeySpan};
use crate::error::{Error, Result};
use crate::txn::TreeRef;

/// Anything that records can be written to: a [`Txn`](crate::Txn), or a [`DataStore`](crate::DataStore). The
/// trait is for code that writes to either. Both also have these methods as their own, and so has an
/// environment's [`Database`], where each is a transaction of its own.
///
/// ```
/// use sablecat::{Database, Env, Result, Write};
///
/// fn count<W: Write>(to: &mut W, words: &Database<W::Of>, text: &str) -> Result<()> {
///     for word in text.split(' ') {
///         to.update(words, word, |count| Some(vec![count.map_or(1, |count| count[0] + 1)]))?;
///     }
///     Ok(())
/// }
///
/// # fn main() -> Result<()> {
/// # let env = Env::in_memory()?;
/// let words = env.database("words")?;
/// env.write(|txn| count(txn, &words, "a rose is a rose"))?;
/// assert_eq!(words.take("rose")?.as_deref(), Some(&[2][..]));
/// # Ok(())
/// # }
/// ```
///
/// Implemented here, and by no other crate.
pub trait Write: Read {
    /// Sets the value of a key, whether or not there was one.
    ///
    /// # Errors
    /// `Invalid` for a key or value that is too long, or a database of another environment; those of a full
    /// disk or cache, and of reading pages.
    fn insert(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()>;

    /// As [`Write::insert`], of a record that was found not to be there: at any isolation it is not when the
    /// transaction commits, or that is a conflict.
    #[doc(hidden)]
    fn insert_found_absent(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.insert(db, key, value)
    }

    /// As [`Write::insert`], of a record that was found to be this: at any isolation it is that still when
    /// the transaction commits, or that is a conflict.
    #[doc(hidden)]
    fn insert_found(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        found: &[u8],
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let _ = found;
        self.insert(db, key, value)
    }

    /// Removes a record; false if there is none.
    ///
    /// # Errors
    /// As [`Read::get`] and [`Write::insert`].
    fn remove(&mut self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<bool>;

    /// Removes a record; returns its value, if there was one.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn take(&mut self, db: &Database<Self::Of>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let taken = self.get(db, key.as_ref())?;
        if taken.is_some() {
            self.remove(db, key)?;
        }
        Ok(taken)
    }

    /// Sets the value of a key; returns the old value, if there was one.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn replace(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let before = self.get(db, key.as_ref())?;
        self.insert(db, key, value)?;
        Ok(before)
    }

    /// Sets the value of a key if there is no record with it. True if there was none.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn insert_new(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let is_new = !self.contains_key(db, key.as_ref())?;
        if is_new {
            self.insert(db, key, value)?;
        }
        Ok(is_new)
    }

    /// Sets the value of a key to what `change` returns for its present value; none means that there is no
    /// record, before as well as after. Returns the new value.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn update(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let before = self.get(db, key.as_ref())?;
        let after = change(before.as_deref());
        match &after {
            Some(value) if before.as_ref() != Some(value) => self.insert(db, key, value)?,
            None if before.is_some() => _ = self.remove(db, key)?,
            _ => {}
        }
        Ok(after)
    }

    /// The entry of one key, to insert or to change its value: see [`Entry`].
    fn entry<'e>(&'e mut self, db: &'e Database<Self::Of>, key: impl AsRef<[u8]>) -> Entry<'e>
    where
        Self: Sized,
    {
        Entry::within(self, db, key.as_ref())
    }

    /// Sets the value of a key to `new`, or removes the record if `new` is none, if its value is `expected`;
    /// an `expected` of none means that there is no record. True if it was.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn compare_and_swap(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let is_so = self.get_with(db, key.as_ref(), |value| value == expected)?;
        match new {
            _ if !is_so => {}
            Some(value) => self.insert(db, key, value)?,
            None => _ = self.remove(db, key)?,
        }
        Ok(is_so)
    }

    /// Adds to a value that is a number: eight bytes, an `i64`, the lowest byte first. Without a record the
    /// number is 0. Returns the sum.
    ///
    /// # Errors
    /// `Invalid` if the value has another length, or the sum is no `i64`; as [`Write::remove`].
    fn increment(&mut self, db: &Database<Self::Of>, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
        let before = self.get_with(db, key.as_ref(), |value| value.map_or(Some(0), number))?;
        let Some(before) = before else {
            return Err(Error::invalid(format!(
                "incrementing a value in the database {:?} that is not the eight bytes of a number",
                db.name()
            )));
        };
        let Some(after) = before.checked_add(by) else {
            return Err(Error::invalid(format!(
                "incrementing {before} by {by}, in the database {:?}, exceeds 64 bits",
                db.name()
            )));
        };
        self.insert(db, key, after.to_le_bytes())?;
        Ok(after)
    }

    /// Replaces some bytes of a value by others: `len` bytes from `offset` on, or as many as there are. A
    /// value that ends before `offset` is filled up with zeros; without a record the value is empty. Returns
    /// the new length. The whole value is written.
    ///
    /// # Errors
    /// As [`Write::remove`]; `Invalid` if the value would be too long.
    fn splice(
        &mut self,
        db: &Database<Self::Of>,
        key: impl AsRef<[u8]>,
        offset: u64,
        len: u64,
        bytes: impl AsRef<[u8]>,
    ) -> Result<u64> {
        let bytes = bytes.as_ref();
        let after = offset.saturating_add(bytes.len() as u64);
        if after > u64::from(u32::MAX) {
            return Err(Error::invalid(format!(
                "a value of {after} bytes; values can have {} at most",
                u32::MAX
            )));
        }
        let mut value = self.get(db, key.as_ref())?.unwrap_or_default();
        let offset = offset as usize;
        if value.len() < offset {
            value.resize(offset, 0);
        }
        let end = offset + len.min((value.len() - offset) as u64) as usize;
        value.splice(offset..end, bytes.iter().copied());
        self.insert(db, key, &value)?;
        Ok(value.len() as u64)
    }

    /// Removes the record with the least key, and returns it.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn pop_first(&mut self, db: &Database<Self::Of>) -> Result<Option<Record>> {
        let first = self.first(db)?;
        if let Some((key, _)) = &first {
            self.remove(db, key)?;
        }
        Ok(first)
    }

    /// Removes the record with the greatest key, and returns it.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn pop_last(&mut self, db: &Database<Self::Of>) -> Result<Option<Record>> {
        let last = self.last(db)?;
        if let Some((key, _)) = &last {
            self.remove(db, key)?;
        }
        Ok(last)
    }

    /// Removes the records of a range of keys, and returns how many there were. Reads each page that has some
    /// of them, not each record, and takes little memory and log, however many there are.
    ///
    /// Any change or insertion by another transaction in this range, before this one commits, is a conflict,
    /// at [`Isolation::Snapshot`](crate::Isolation::Snapshot) too. A read committed transaction removes what
    /// is there when it commits.
    ///
    /// If the records have indices, or other records refer to them, they are removed one by one. After an
    /// error, those removed before it then stay removed in this transaction: roll back, to a savepoint or as
    /// a whole. In all other cases an error removes nothing.
    ///
    /// # Errors
    /// As [`Write::remove`], and [`Read::range`].
    fn remove_range(&mut self, db: &Database<Self::Of>, keys: impl KeyRange) -> Result<u64>;

    /// Removes all records, as [`Write::remove_range`] does, and returns how many there were. To remove a
    /// database with everything in it, remove the database: that costs the same whatever its size.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn clear(&mut self, db: &Database<Self::Of>) -> Result<u64> {
        self.remove_range(db, ..)
    }

    /// Keeps the records for which `keep` returns true and removes the others.
    ///
    /// # Errors
    /// As [`Write::remove`].
    fn retain(&mut self, db: &Database<Self::Of>, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut cursor = db.cursor();
        while cursor.next(self)?.is_some() {
            let kept = match (cursor.value(self)?.map(<[u8]>::to_vec), cursor.key()) {
                (Some(value), Some(key)) => keep(key, &value),
                _ => true,
            };
            if !kept {
                cursor.remove(self)?;
            }
        }
        Ok(())
    }
}

/// Whether the records of a range are removed one by one: somebody is to be told of each, or the range means
/// others in a copy of the database, which hashes keys otherwise.
pub(super) fn goes_singly(tree: &TreeRef, bounds: &KeySpan) -> bool {
    let is_whole = matches!(bounds, (Bound::Unbounded, Bound::Unbounded));
    tree.follower.is_some() || (tree.method.hashes() && !is_whole)
}

/// Removes the records of some keys one after the other, as where each is to be told to somebody.
pub(super) fn remove_each<W: Write>(from: &mut W, db: &Database<W::Of>, keys: impl KeyRange) -> Result<u64> {
    let mut walk = db.walk(&keys)?;
    let mut count = 0;
    while let Some(key) = walk.next(from)? {
        count += u64::from(from.remove(db, key)?);
    }
    Ok(count)
}

fn number(value: &[u8]) -> Option<i64> {
    value.try_into().ok().map(i64::from_le_bytes)
}

/// The methods of [`Write`] but the first two, as a type's own.
macro_rules! writing {
    ($of:ty) => {
        /// Removes a record; returns its value, if there was one.
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn take(&mut self, db: &Database<$of>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
            crate::api::Write::take(self, db, key)
        }

        /// Sets the value of a key; returns the old value, if there was one.
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn replace(
            &mut self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
            value: impl AsRef<[u8]>,
        ) -> Result<Option<Vec<u8>>> {
            crate::api::Write::replace(self, db, key, value)
        }

        /// Sets the value of a key if there is no record with it. True if there was none.
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn insert_new(
            &mut self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
            value: impl AsRef<[u8]>,
        ) -> Result<bool> {
            crate::api::Write::insert_new(self, db, key, value)
        }

        /// Sets the value of a key to what `change` returns for its present value: see
        /// [`Write::update`](crate::Write::update).
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn update(
            &mut self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
            change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
        ) -> Result<Option<Vec<u8>>> {
            crate::api::Write::update(self, db, key, change)
        }

        /// The entry of one key, to insert or to change its value: see [`Entry`](crate::Entry).
        pub fn entry<'e>(&'e mut self, db: &'e Database<$of>, key: impl AsRef<[u8]>) -> crate::Entry<'e> {
            crate::api::Write::entry(self, db, key)
        }

        /// Sets the value of a key if its present value is as expected: see
        /// [`Write::compare_and_swap`](crate::Write::compare_and_swap).
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn compare_and_swap(
            &mut self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
            expected: Option<&[u8]>,
            new: Option<&[u8]>,
        ) -> Result<bool> {
            crate::api::Write::compare_and_swap(self, db, key, expected, new)
        }

        /// Adds to a value that is a number: see [`Write::increment`](crate::Write::increment).
        ///
        /// # Errors
        /// As [`Write::increment`](crate::Write::increment).
        pub fn increment(&mut self, db: &Database<$of>, key: impl AsRef<[u8]>, by: i64) -> Result<i64> {
            crate::api::Write::increment(self, db, key, by)
        }

        /// Replaces some bytes of a value by others: see [`Write::splice`](crate::Write::splice).
        ///
        /// # Errors
        /// As [`Write::splice`](crate::Write::splice).
        pub fn splice(
            &mut self,
            db: &Database<$of>,
            key: impl AsRef<[u8]>,
            offset: u64,
            len: u64,
            bytes: impl AsRef<[u8]>,
        ) -> Result<u64> {
            crate::api::Write::splice(self, db, key, offset, len, bytes)
        }

        /// Removes the record with the least key, and returns it.
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn pop_first(&mut self, db: &Database<$of>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
            crate::api::Write::pop_first(self, db)
        }

        /// Removes the record with the greatest key, and returns it.
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn pop_last(&mut self, db: &Database<$of>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
            crate::api::Write::pop_last(self, db)
        }

        /// Removes the records of a range of keys, and returns how many there were: see
        /// [`Write::remove_range`](crate::Write::remove_range).
        ///
        /// # Errors
        /// As [`Write::remove_range`](crate::Write::remove_range).
        pub fn remove_range(&mut self, db: &Database<$of>, keys: impl crate::KeyRange) -> Result<u64> {
            crate::api::Write::remove_range(self, db, keys)
        }

        /// Removes all records: see [`Write::clear`](crate::Write::clear).
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn clear(&mut self, db: &Database<$of>) -> Result<u64> {
            crate::api::Write::clear(self, db)
        }

        /// Keeps the records for which `keep` returns true and removes the others.
        ///
        /// # Errors
        /// As [`Write::remove`](crate::Write::remove).
        pub fn retain(&mut self, db: &Database<$of>, keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
            crate::api::Write::retain(self, db, keep)
        }
    };
}

pub(super) use writing;

//! Cursors over an index: places among its entries, each of which leads to a record.

use std::cmp::Ordering;
use std::fmt;

use super::Index;
use crate::api::pair_cursor::PairCursor;
use crate::api::{Env, Kind, Read, Write};
use crate::env::key_of;
use crate::error::Result;

/// A position in an [`Index`]: at an index key of a record, where one was, before the first one, or after the
/// last one.
///
/// Like a [`Cursor`](crate::Cursor), it is given with each call what to read from, borrows from nothing, and
/// keeps its position whatever happens to the records. A method that moves it returns the index key at which
/// it then stands; [`IndexCursor::primary_key`] is the key of the record with that index key, and
/// [`IndexCursor::value`] that record's value.
///
/// ```
/// use sablecat::{Env, IndexOptions};
///
/// # fn main() -> sablecat::Result<()> {
/// let env = Env::builder().extractor("all", |_, value, keys| keys.push(value)).in_memory()?;
/// let animals = env.database("animals")?;
/// let by_name = env.index("animals by name", &animals, IndexOptions::new("all"))?;
/// animals.insert_batch([("1", "cat"), ("2", "cow"), ("3", "cat"), ("4", "dog")])?;
///
/// env.write(|txn| {
///     let mut cursor = by_name.cursor();
///     assert!(cursor.seek(txn, "cat")? && cursor.next_of_key(txn)?);
///     assert_eq!(cursor.primary_key(), Some(&b"3"[..]));
///     assert!(cursor.remove(txn)?, "the record goes, and its entry with it");
///     assert_eq!(cursor.next(txn)?, Some(&b"cow"[..]));
///     Ok(())
/// })?;
/// assert_eq!(animals.get("3")?, None);
/// # Ok(())
/// # }
/// ```
pub struct IndexCursor<O: Kind = Env> {
    index: Index<O>,
    /// Of an entry's key: the index key and, unless the index is unique, the primary key.
    at: PairCursor<O>,
    /// The primary key, of a unique index.
    primary_key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl<O: Kind> fmt::Debug for IndexCursor<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexCursor")
            .field("index", &self.index.name())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

impl<O: Kind> Clone for IndexCursor<O> {
    /// Another cursor at the same position.
    fn clone(&self) -> Self {
        IndexCursor {
            index: self.index.clone(),
            at: self.at.clone(),
            primary_key: self.primary_key.clone(),
            value: None,
        }
    }
}

impl<O: Kind> Index<O> {
    /// A cursor, which stands nowhere yet.
    pub fn cursor(&self) -> IndexCursor<O> {
        let at = PairCursor::new(&self.entries);
        IndexCursor { index: self.clone(), at, primary_key: Vec::new(), value: None }
    }
}

impl<O: Kind> IndexCursor<O> {
    /// What it is in.
    pub fn index(&self) -> &Index<O> {
        &self.index
    }

    /// The index key at which it stands, or that was there; none before the first, after the last, and
    /// nowhere.
    pub fn key(&self) -> Option<&[u8]> {
        self.at.parts().map(|(index_key, _)| index_key)
    }

    /// The key of the record to which the entry leads at which it stands, or that was there.
    pub fn primary_key(&self) -> Option<&[u8]> {
        self.at.parts().map(|(_, second)| if self.index.info.unique { &*self.primary_key } else { second })
    }

    /// The value of that record; none if the entry is not there any more, or it stands at none.
    ///
    /// # Errors
    /// As [`Index::get`].
    pub fn value(&mut self, state: &impl Read<Of = O>) -> Result<Option<&[u8]>> {
        let is_there = self.is_there(state)?;
        self.value = match (self.key(), self.primary_key()) {
            (Some(index_key), Some(key)) if is_there => self.index.value_of(state, index_key, key)?,
            _ => None,
        };
        Ok(self.value.as_deref())
    }

    /// Goes to the first entry. If there is none, returns none and stands after the last.
    ///
    /// # Errors
    /// As [`Read::get`], and `Invalid` at what is no entry; then it stays where it was. The same holds for
    /// all methods that move it.
    pub fn first(&mut self, state: &impl Read<Of = O>) -> Result<Option<&[u8]>> {
        self.go(state, true, |at| at.first(state))
    }

    /// Goes to the last entry. If there is none, returns none and stands before the first.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn last(&mut self, state: &impl Read<Of = O>) -> Result<Option<&[u8]>> {
        self.go(state, false, |at| at.last(state))
    }

    /// Goes to the next entry, with the same index key or the next one. If there is none, returns none and
    /// stands after the last. If it stands nowhere, goes to the first.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, state: &impl Read<Of = O>) -> Result<Option<&[u8]>> {
        self.go(state, true, |at| at.next(state))
    }

    /// Goes to the entry before, with the same index key or the one before. If there is none, returns none
    /// and stands before the first. If it stands nowhere, goes to the last.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn prev(&mut self, state: &impl Read<Of = O>) -> Result<Option<&[u8]>> {
        self.go(state, false, |at| at.prev(state))
    }

    /// Goes to the next record with the same index key. If there is none, returns false and stays where it
    /// is.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn next_of_key(&mut self, state: &impl Read<Of = O>) -> Result<bool> {
        // Of a unique index there is one.
        self.at.next_same(state)
    }

    /// Goes to the record before with the same index key. If there is none, returns false and stays where it
    /// is.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn prev_of_key(&mut self, state: &impl Read<Of = O>) -> Result<bool> {
        self.at.prev_same(state)
    }

    /// Goes to the first record with the next index key. If there is none, returns none and stands after the
    /// last.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn next_key(&mut self, state: &impl Read<Of = O>) -> Result<Option<&[u8]>> {
        self.go(state, true, |at| at.next_other(state))
    }

    /// Goes to the last record with the index key before. If there is none, returns none and stands before
    /// the first.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn prev_key(&mut self, state: &impl Read<Of = O>) -> Result<Option<&[u8]>> {
        self.go(state, false, |at| at.prev_other(state))
    }

    /// Goes to the first record with this index key. If there is none, returns false and stays where it is.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn seek(&mut self, state: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<bool> {
        self.seek_pair_or_after(state, key, [])
    }

    /// Goes to the first record with this index key or, if there is none, with the next one above it. If
    /// there is neither, returns none and stands after the last.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn at_or_after(&mut self, state: &impl Read<Of = O>, key: impl AsRef<[u8]>) -> Result<Option<&[u8]>> {
        self.go(state, true, |at| at.at_or_after(state, key.as_ref()))
    }

    /// Goes to the last record with this index key or, if there is none, with the next one below it. If there
    /// is neither, returns none and stands before the first.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn at_or_before(
        &mut self,
        state: &impl Read<Of = O>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.go(state, false, |at| at.at_or_before(state, key.as_ref()))
    }

    /// Goes to this record with this index key. If the record does not have it, or is not there, returns
    /// false and stays where it is.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn seek_pair(
        &mut self,
        state: &impl Read<Of = O>,
        key: impl AsRef<[u8]>,
        primary_key: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let mut found = self.clone();
        let is_it = found.seek_pair_or_after(state, key, primary_key.as_ref())?
            && found.primary_key() == Some(primary_key.as_ref());
        if is_it {
            *self = found;
        }
        Ok(is_it)
    }

    /// Goes to this record with this index key or, if it does not have it, to the next one above by its own
    /// key that does. If there is none either, returns false and stays where it is.
    ///
    /// # Errors
    /// As [`IndexCursor::first`].
    pub fn seek_pair_or_after(
        &mut self,
        state: &impl Read<Of = O>,
        key: impl AsRef<[u8]>,
        primary_key: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let (key, primary_key) = (key.as_ref(), primary_key.as_ref());
        if !self.index.info.unique {
            return self.at.seek(state, key, primary_key);
        }
        let mut found = self.clone();
        let is_it = found.at.seek(state, key, &[])? && found.read_primary_key(state)?;
        if is_it && *found.primary_key >= *primary_key {
            *self = found;
            return Ok(true);
        }
        Ok(false)
    }

    /// How many records have the index key at which it stands. Counts them.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn count(&self, state: &impl Read<Of = O>) -> Result<u64> {
        self.at.count(state)
    }

    /// Removes the record to which the entry leads at which it stands, and with it all its entries in all
    /// indices; false if there is none. It stays where it is.
    ///
    /// # Errors
    /// As [`Index::remove`].
    pub fn remove(&mut self, from: &mut impl Write<Of = O>) -> Result<bool> {
        let is_there = self.is_there(from)?;
        match self.at.key() {
            Some(entry) if is_there => self.index.remove_by(from, entry),
            _ => Ok(false),
        }
    }

    /// How the position of this cursor compares with that of another; the same position is equal. None if one
    /// of them stands nowhere.
    ///
    /// # Errors
    /// `Invalid` if the other one is in another index.
    pub fn compare(&self, other: &IndexCursor<O>) -> Result<Option<Ordering>> {
        self.at.compare(&other.at)
    }

    /// Moves it, and on from entries that are gone when they are looked at, as in a read committed
    /// transaction.
    fn go(
        &mut self,
        state: &impl Read<Of = O>,
        forward: bool,
        go: impl FnOnce(&mut PairCursor<O>) -> Result<bool>,
    ) -> Result<Option<&[u8]>> {
        let back = (self.at.standing(), self.primary_key.clone());
        let mut there = go(&mut self.at);
        loop {
            there = match there {
                Ok(true) => match self.read_primary_key(state) {
                    Ok(true) => return Ok(self.key()),
                    Ok(false) if forward => self.at.next(state),
                    Ok(false) => self.at.prev(state),
                    Err(error) => Err(error),
                },
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.at.return_to(back.0);
                    self.primary_key = back.1;
                    return Err(error);
                }
            };
        }
    }

    /// Reads the primary key of the entry, if it is the entry's value; false if that is gone.
    fn read_primary_key(&mut self, state: &impl Read<Of = O>) -> Result<bool> {
        if !self.index.info.unique {
            return Ok(true);
        }
        let value = self.at.value(state)?.map(<[u8]>::to_vec);
        match (self.at.key(), value) {
            (Some(entry), Some(value)) => {
                self.primary_key = key_of(true, entry, value)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether the entry is there at which it stands, and leads to the same record.
    fn is_there(&mut self, state: &impl Read<Of = O>) -> Result<bool> {
        let Some(value) = self.at.value(state)? else { return Ok(false) };
        Ok(!self.index.info.unique || value == self.primary_key)
    }
}

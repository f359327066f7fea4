//! Places among records by number.

use std::cmp::Ordering;
use std::fmt;

use super::{Numbered, key_of, number_of};
use crate::api::{Cursor, Env, Kind, Read, Write};
use crate::error::{Error, Result};

/// A position among records by number, which moves in both directions and reads and writes there: a
/// [`Cursor`] that knows the numbers. Any number of them may be in use in one transaction.
///
/// A position is that of a record, not that of a number: if records are renumbered, it stays at its record,
/// or where that was, when others are inserted and removed.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let poem = sablecat::Numbered::open_renumbered(&env, "poem")?;
/// env.write(|txn| {
///     poem.append(txn, "one")?;
///     poem.append(txn, "four")?;
///     let mut cursor = poem.cursor();
///     assert_eq!(cursor.last(txn)?, Some(2));
///     cursor.insert_before(txn, "two")?;
///     assert_eq!(cursor.insert_after(txn, "three")?, 3);
///     assert_eq!(cursor.next(txn)?, Some(4));
///     assert_eq!(cursor.record(txn)?.as_deref(), Some(&b"four"[..]));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct NumberedCursor<O: Kind = Env> {
    of: Numbered<O>,
    cursor: Cursor<O>,
}

impl<O: Kind> Clone for NumberedCursor<O> {
    fn clone(&self) -> Self {
        NumberedCursor { of: self.of.clone(), cursor: self.cursor.clone() }
    }
}

impl<O: Kind> fmt::Debug for NumberedCursor<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}

impl<O: Kind> Numbered<O> {
    /// A cursor that stands nowhere yet.
    pub fn cursor(&self) -> NumberedCursor<O> {
        NumberedCursor { cursor: self.database.cursor(), of: self.clone() }
    }
}

impl<O: Kind> NumberedCursor<O> {
    /// The records.
    pub fn of(&self) -> &Numbered<O> {
        &self.of
    }

    /// Moves to the first record, and returns its number.
    ///
    /// # Errors
    /// As [`Numbered::get`]; `Invalid` if something else was written to the database.
    pub fn first(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<u64>> {
        self.cursor.first(state)?;
        self.found(state)
    }

    /// Moves to the last record, and returns its number.
    ///
    /// # Errors
    /// As [`NumberedCursor::first`].
    pub fn last(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<u64>> {
        self.cursor.last(state)?;
        self.found(state)
    }

    /// Moves to the next record, or to the first, and returns its number.
    ///
    /// # Errors
    /// As [`NumberedCursor::first`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<u64>> {
        self.cursor.next(state)?;
        self.found(state)
    }

    /// Moves to the record before, or to the last, and returns its number.
    ///
    /// # Errors
    /// As [`NumberedCursor::first`].
    pub fn prev(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<u64>> {
        self.cursor.prev(state)?;
        self.found(state)
    }

    /// Moves to the record with this number or, if there is none, to the next one above it, and returns the
    /// number of that. If there is neither, it stands after the last.
    ///
    /// # Errors
    /// As [`NumberedCursor::first`].
    pub fn at_or_after(&mut self, state: &(impl Read<Of = O> + ?Sized), number: u64) -> Result<Option<u64>> {
        if self.of.renumbers {
            self.cursor.seek_nth(state, number.saturating_sub(1))?;
        } else {
            self.cursor.at_or_after(state, key_of(number))?;
        }
        self.found(state)
    }

    /// The number of the record at which it stands, in this state; none if that is gone, or it stands at
    /// none.
    ///
    /// # Errors
    /// As [`NumberedCursor::first`].
    pub fn number(&self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<u64>> {
        let Some(key) = self.cursor.key() else { return Ok(None) };
        if !state.contains_key(&self.of.database, key)? {
            return Ok(None);
        }
        self.place(state, key).map(Some)
    }

    /// The number of the record to which it has just moved, if it has to one.
    fn found(&self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<u64>> {
        self.cursor.key().map(|key| self.place(state, key)).transpose()
    }

    /// The number of the record with a key.
    fn place(&self, state: &(impl Read<Of = O> + ?Sized), key: &[u8]) -> Result<u64> {
        if self.of.renumbers { Ok(state.rank(&self.of.database, key)? + 1) } else { number_of(key) }
    }

    /// The record at which it stands; none if that is gone, or it stands at none.
    ///
    /// # Errors
    /// As [`Numbered::get`].
    pub fn record(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<Vec<u8>>> {
        Ok(self.cursor.value(state)?.map(<[u8]>::to_vec))
    }

    /// Sets the record at which it stands; if that was removed, it is there again.
    ///
    /// # Errors
    /// `Invalid` if it stands at none; as [`Numbered::put`].
    pub fn put(&mut self, state: &mut (impl Write<Of = O> + ?Sized), record: impl AsRef<[u8]>) -> Result<()> {
        self.of.whole(record.as_ref(), |record| self.cursor.put(state, record))
    }

    /// Inserts a record before the one at which it stands, or where that was, moves to it, and returns its
    /// number. For renumbered records: the numbers of all behind it go up by one.
    ///
    /// # Errors
    /// `Invalid` if it stands at none; as [`Numbered::insert`].
    pub fn insert_before(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        record: impl AsRef<[u8]>,
    ) -> Result<u64> {
        self.to_insert()?;
        let mut before = self.cursor.clone();
        let before = before.prev(state)?.map(<[u8]>::to_vec);
        self.insert_behind(state, before.as_deref(), record.as_ref())
    }

    /// Inserts a record behind the one at which it stands, or where that was, moves to it, and returns its
    /// number. For renumbered records: the numbers of all behind it go up by one.
    ///
    /// # Errors
    /// `Invalid` if it stands at none; as [`Numbered::insert`].
    pub fn insert_after(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        record: impl AsRef<[u8]>,
    ) -> Result<u64> {
        let at = self.to_insert()?;
        self.insert_behind(state, Some(&at), record.as_ref())
    }

    /// The key at which it stands.
    fn to_insert(&self) -> Result<Vec<u8>> {
        let name = self.of.database.name();
        if !self.of.renumbers {
            return Err(Error::invalid(format!(
                "inserting with a cursor into the database {name:?}, whose records keep their numbers"
            )));
        }
        let at = self.cursor.key().map(<[u8]>::to_vec);
        at.ok_or_else(|| {
            Error::invalid(format!(
                "inserting with a cursor that is at no record of the database {name:?}; move it to one first"
            ))
        })
    }

    fn insert_behind(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        before: Option<&[u8]>,
        record: &[u8],
    ) -> Result<u64> {
        let Some(key) = self.of.insert_behind(state, before, record)? else {
            let number = before.map_or(Ok(1), |before| self.place(state, before))?;
            return Err(self.of.no_place(number));
        };
        let number = self.place(state, &key)?;
        self.cursor.stand(key);
        Ok(number)
    }

    /// Removes the record at which it stands, and stays there; false if that is gone.
    ///
    /// # Errors
    /// As [`Numbered::remove`].
    pub fn remove(&mut self, state: &mut (impl Write<Of = O> + ?Sized)) -> Result<bool> {
        self.cursor.remove(state)
    }

    /// How its position compares with that of another cursor: see [`Cursor::compare`].
    ///
    /// # Errors
    /// As [`Cursor::compare`].
    pub fn compare(&self, other: &NumberedCursor<O>) -> Result<Option<Ordering>> {
        self.cursor.compare(&other.cursor)
    }
}

//! Cursors over keys with several values.

use std::cmp::Ordering;
use std::fmt;

use super::{Labels, MultiMap};
use crate::api::pair_cursor::PairCursor;
use crate::api::{Env, Kind, Read, Write};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::Duplicates;
use crate::txn::pairs::pair;

/// A position in a [`MultiMap`]: at a value of a key, where one was, before the first one, or after the last
/// one.
///
/// Like a [`Cursor`](crate::Cursor), it is given with each call what to read from or write to, borrows from
/// nothing, and keeps its position whatever happens to the records around it. A method that moves it returns
/// the key at which it then stands; [`MultiCursor::value`] is the value there.
///
/// ```
/// use sablecat::{Duplicates, MultiMap};
///
/// # fn main() -> sablecat::Result<()> {
/// let env = sablecat::Env::in_memory()?;
/// let steps = MultiMap::open(&env, "steps", Duplicates::Inserted)?;
/// env.write(|txn| {
///     let mut cursor = steps.cursor();
///     cursor.insert_last(txn, "tea", "boil water")?;
///     cursor.insert_last(txn, "tea", "pour")?;
///     cursor.insert_before(txn, "warm the pot")?;
///     cursor.insert_last(txn, "toast", "cut bread")?;
///     assert_eq!(cursor.prev_key(txn)?, Some(&b"tea"[..]));
///     assert_eq!(cursor.value(txn)?, Some(&b"pour"[..]));
///     assert_eq!(cursor.count(txn)?, 3);
///     Ok(())
/// })?;
/// let tea: Vec<_> = steps.values(&env, "tea")?.collect::<Result<_, _>>()?;
/// assert_eq!(tea, [&b"boil water"[..], b"warm the pot", b"pour"]);
/// # Ok(())
/// # }
/// ```
pub struct MultiCursor<O: Kind = Env> {
    map: MultiMap<O>,
    /// Of the record's key: the key, and its value or its label.
    at: PairCursor<O>,
}

impl<O: Kind> fmt::Debug for MultiCursor<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiCursor")
            .field("database", &self.map.database.name())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

impl<O: Kind> Clone for MultiCursor<O> {
    /// Another cursor at the same position.
    fn clone(&self) -> Self {
        MultiCursor { map: self.map.clone(), at: self.at.clone() }
    }
}

impl<O: Kind> MultiCursor<O> {
    pub(super) fn new(map: MultiMap<O>) -> MultiCursor<O> {
        let at = PairCursor::new(&map.database);
        MultiCursor { map, at }
    }

    /// What it is in.
    pub fn map(&self) -> &MultiMap<O> {
        &self.map
    }

    /// The key of the value at which it stands, or of the one that was there; none before the first, after
    /// the last, and nowhere.
    pub fn key(&self) -> Option<&[u8]> {
        self.at.parts().map(|(key, _)| key)
    }

    /// The value at which it stands; none if that is not there any more, or it stands at none.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn value(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<&[u8]>> {
        if self.map.order == Duplicates::Inserted {
            return self.at.value(state);
        }
        let is_there = self.at.value(state)?.is_some();
        Ok(self.at.parts().filter(|_| is_there).map(|(_, value)| value))
    }

    /// Goes to the first value of the first key. If there is none, returns none and stands after the last.
    ///
    /// # Errors
    /// As [`Read::get`], and `Invalid` at a record that is none of such a database; then it stays where it
    /// was. The same holds for all methods that move it.
    pub fn first(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<&[u8]>> {
        self.at.first(state)?;
        Ok(self.key())
    }

    /// Goes to the last value of the last key. If there is none, returns none and stands before the first.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn last(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<&[u8]>> {
        self.at.last(state)?;
        Ok(self.key())
    }

    /// Goes to the next value, of the same key or else the first of the next one. If there is none, returns
    /// none and stands after the last. If it stands nowhere, goes to the first.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<&[u8]>> {
        self.at.next(state)?;
        Ok(self.key())
    }

    /// Goes to the value before, of the same key or else the last of the one before. If there is none,
    /// returns none and stands before the first. If it stands nowhere, goes to the last.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn prev(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<&[u8]>> {
        self.at.prev(state)?;
        Ok(self.key())
    }

    /// Goes to the next value of the same key. If there is none, returns false and stays where it is.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn next_of_key(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<bool> {
        self.at.next_same(state)
    }

    /// Goes to the value before, of the same key. If there is none, returns false and stays where it is.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn prev_of_key(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<bool> {
        self.at.prev_same(state)
    }

    /// Goes to the first value of the next key. If there is none, returns none and stands after the last.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn next_key(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<&[u8]>> {
        self.at.next_other(state)?;
        Ok(self.key())
    }

    /// Goes to the last value of the key before. If there is none, returns none and stands before the first.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn prev_key(&mut self, state: &(impl Read<Of = O> + ?Sized)) -> Result<Option<&[u8]>> {
        self.at.prev_other(state)?;
        Ok(self.key())
    }

    /// Goes to the first value of this key. If the key has none, returns false and stays where it is.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn seek(&mut self, state: &(impl Read<Of = O> + ?Sized), key: impl AsRef<[u8]>) -> Result<bool> {
        self.at.seek(state, key.as_ref(), &[])
    }

    /// Goes to the first value of this key or, if it has none, of the next one above it. If there is neither,
    /// returns none and stands after the last.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn at_or_after(
        &mut self,
        state: &(impl Read<Of = O> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.at.at_or_after(state, key.as_ref())?;
        Ok(self.key())
    }

    /// Goes to the last value of this key or, if it has none, of the next one below it. If there is neither,
    /// returns none and stands before the first.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn at_or_before(
        &mut self,
        state: &(impl Read<Of = O> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.at.at_or_before(state, key.as_ref())?;
        Ok(self.key())
    }

    /// Goes to this value of this key, the first equal one. If the key does not have it, returns false and
    /// stays where it is. Looks at all values of the key if these are not sorted.
    ///
    /// # Errors
    /// As [`MultiCursor::first`].
    pub fn seek_pair(
        &mut self,
        state: &impl Read<Of = O>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let Some(record) = self.map.find(state, key, value)? else { return Ok(false) };
        let second = &record[pair(key, &[]).len()..];
        self.at.stand(key, second);
        Ok(true)
    }

    /// Goes to this value of this key or, if the key does not have it, to its next value above. If there is
    /// none either, returns false and stays where it is.
    ///
    /// # Errors
    /// As [`MultiCursor::first`]; `NotAllowed` where values are not sorted.
    pub fn seek_pair_or_after(
        &mut self,
        state: &(impl Read<Of = O> + ?Sized),
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        self.map.require_order(Duplicates::Sorted, "asking for a value or the next one above it")?;
        self.at.seek(state, key.as_ref(), value.as_ref())
    }

    /// How many values the key has at which it stands. Counts them.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn count(&self, state: &impl Read<Of = O>) -> Result<u64> {
        self.at.count(state)
    }

    /// Sets the value at which it stands; if it was removed meanwhile, it is there again.
    ///
    /// # Errors
    /// `Invalid` if it stands at none; `NotAllowed` for another value where values are sorted, as that has
    /// another place: remove the one and insert the other. As [`Write::insert`].
    pub fn put(&mut self, state: &mut (impl Write<Of = O> + ?Sized), value: impl AsRef<[u8]>) -> Result<()> {
        let value = value.as_ref();
        match (self.map.order, self.at.parts()) {
            (Duplicates::Sorted, Some((_, second))) if second == value => self.at.put(state, []),
            (Duplicates::Sorted, Some(_)) => self
                .map
                .require_order(Duplicates::Inserted, "setting a value, where it stands, to another one"),
            (_, None) => Err(stands_at_none("setting a value")),
            (Duplicates::Inserted, _) => self.at.put(state, value),
        }
    }

    /// Adds a value to the key at which it stands, right before where it stands, and goes there.
    ///
    /// # Errors
    /// `Invalid` if it stands at none; `NotAllowed` where values are sorted: they have a place of their own.
    /// As [`Write::insert`]; then it stays where it was.
    pub fn insert_before(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.insert_beside(state, value.as_ref(), false)
    }

    /// Adds a value to the key at which it stands, right after where it stands, and goes there.
    ///
    /// # Errors
    /// As [`MultiCursor::insert_before`].
    pub fn insert_after(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.insert_beside(state, value.as_ref(), true)
    }

    /// Adds a value to a key, before all its other values, or in its sorted place if values are sorted, and
    /// goes there. If values are sorted and the key has this value already, only goes there, and returns
    /// false.
    ///
    /// # Errors
    /// As [`Write::insert`]; then it stays where it was.
    pub fn insert_first(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        let label = match self.map.order {
            Duplicates::Sorted => None,
            Duplicates::Inserted => {
                let mut beside = PairCursor::new(&self.map.database);
                let has = beside.seek(state, key, &[])?;
                Some(match beside.parts().filter(|_| has) {
                    Some((_, first)) => self.map.label_between(key, None, Some(first))?,
                    None => Labels::first(),
                })
            }
        };
        self.insert_at(state, key, label.as_deref(), value.as_ref())
    }

    /// Adds a value to a key, after all its other values, or in its sorted place if values are sorted, and
    /// goes there. If values are sorted and the key has this value already, only goes there, and returns
    /// false.
    ///
    /// # Errors
    /// As [`MultiCursor::insert_first`].
    pub fn insert_last(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        let label = match self.map.order {
            Duplicates::Sorted => None,
            Duplicates::Inserted => Some(self.map.label_behind(state, key)?),
        };
        self.insert_at(state, key, label.as_deref(), value.as_ref())
    }

    /// Adds a value to a key that does not have it, after all others or in its sorted place, and goes there.
    /// If the key has this value already, only goes there, and returns false. Reads all values of the key if
    /// these are not sorted.
    ///
    /// # Errors
    /// As [`MultiCursor::insert_first`].
    pub fn insert_new(
        &mut self,
        state: &mut impl Write<Of = O>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.seek_pair(state, key, value)? {
            return Ok(false);
        }
        self.insert_last(state, key, value)
    }

    /// Removes the value at which it stands; false if there is none. It stays where that was.
    ///
    /// # Errors
    /// As [`Write::remove`].
    pub fn remove(&mut self, state: &mut (impl Write<Of = O> + ?Sized)) -> Result<bool> {
        self.at.remove(state)
    }

    /// How the position of this cursor compares with that of another; the same position is equal. None if one
    /// of them stands nowhere.
    ///
    /// # Errors
    /// `Invalid` if the other one is in another database.
    pub fn compare(&self, other: &MultiCursor<O>) -> Result<Option<Ordering>> {
        self.at.compare(&other.at)
    }

    fn insert_beside(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        value: &[u8],
        is_after: bool,
    ) -> Result<()> {
        self.map.require_order(Duplicates::Inserted, "adding a value before or after another")?;
        let Some((key, at)) = self.at.parts() else {
            return Err(stands_at_none("adding a value before or after another"));
        };
        // What is there on that side by now.
        let mut beside = self.at.clone();
        let has = if is_after { beside.next_same(state)? } else { beside.prev_same(state)? };
        let other = beside.parts().map(|(_, label)| label).filter(|_| has);
        let label = match (is_after, other) {
            (true, None) => Labels::behind(at).ok_or_else(|| self.map.not_ours(key))?,
            (true, other) => self.map.label_between(key, Some(at), other)?,
            (false, other) => self.map.label_between(key, other, Some(at))?,
        };
        let key = key.to_vec();
        self.insert_at(state, &key, Some(&label), value).map(drop)
    }

    /// Adds a value, under its label if it has one, and goes there.
    fn insert_at(
        &mut self,
        state: &mut (impl Write<Of = O> + ?Sized),
        key: &[u8],
        label: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool> {
        let database = &self.map.database;
        let is_new = match label {
            Some(label) => state.insert_found_absent(database, pair(key, label), value).map(|()| true),
            None => state.insert_new(database, pair(key, value), ""),
        }?;
        self.at.stand(key, label.unwrap_or(value));
        Ok(is_new)
    }
}

#[cold]
fn stands_at_none(doing: &str) -> Error {
    Error::invalid(format!("{doing} with a cursor that is at no record; move it to one first"))
}

impl<O: Kind> MultiMap<O> {
    /// A cursor, which stands nowhere yet.
    pub fn cursor(&self) -> MultiCursor<O> {
        MultiCursor::new(self.clone())
    }

    /// An error unless values are in this order, which what is done takes.
    pub(super) fn require_order(&self, order: Duplicates, doing: &str) -> Result<()> {
        let is = match self.order {
            is if is == order => return Ok(()),
            Duplicates::Sorted => "sorted",
            Duplicates::Inserted => "in the order of insertion",
        };
        Err(Error::new(
            ErrorKind::NotAllowed,
            format!("{doing}: the values of a key in {:?} are {is}", self.database.name()),
        ))
    }
}

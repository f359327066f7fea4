//! A place in a database whose keys are of two parts (txn/pairs.rs): what the cursors of keys with several
//! values and of indices have in common.

use std::cmp::Ordering;

use super::cursor::{Cursor, CursorPosition};
use super::write::Write;
use super::{Database, Kind, Read};
use crate::access::Counting;
use crate::error::Result;
use crate::txn::pairs::{BEYOND, END, bounds_of_one, pair, parts, with_end};

/// A cursor that knows the parts of the key at which it stands.
pub(super) struct PairCursor<K: Kind> {
    cursor: Cursor<K>,
    first: Vec<u8>,
    second: Vec<u8>,
}

impl<K: Kind> Clone for PairCursor<K> {
    fn clone(&self) -> Self {
        PairCursor { cursor: self.cursor.clone(), first: self.first.clone(), second: self.second.clone() }
    }
}

/// Which keys a cursor goes on to, of those that come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedKeys {
    Any,
    /// With the same first part; else it stays where it is.
    SameFirst,
}

impl<K: Kind> PairCursor<K> {
    pub(super) fn new(database: &Database<K>) -> PairCursor<K> {
        PairCursor { cursor: database.cursor(), first: Vec::new(), second: Vec::new() }
    }

    pub(super) fn database(&self) -> &Database<K> {
        self.cursor.database()
    }

    /// Both parts of the key, if it stands at one.
    pub(super) fn parts(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.key().map(|_| (&*self.first, &*self.second))
    }

    /// The whole key, if it stands at one.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.cursor.key()
    }

    pub(super) fn first(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        self.go(WantedKeys::Any, |cursor| cursor.first(state).map(drop))
    }

    pub(super) fn last(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        self.go(WantedKeys::Any, |cursor| cursor.last(state).map(drop))
    }

    pub(super) fn next(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        self.go(WantedKeys::Any, |cursor| cursor.next(state).map(drop))
    }

    pub(super) fn prev(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        self.go(WantedKeys::Any, |cursor| cursor.prev(state).map(drop))
    }

    /// The next one with the same first part; false, and it stays where it is, if there is none.
    pub(super) fn next_same(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        if self.cursor.key().is_none() {
            return Ok(false);
        }
        self.go(WantedKeys::SameFirst, |cursor| cursor.next(state).map(drop))
    }

    /// The one before it with the same first part; false, and it stays where it is, if there is none.
    pub(super) fn prev_same(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        if self.cursor.key().is_none() {
            return Ok(false);
        }
        self.go(WantedKeys::SameFirst, |cursor| cursor.prev(state).map(drop))
    }

    /// The first one with the next first part.
    pub(super) fn next_other(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        match self.parts() {
            Some((first, _)) => {
                let beyond = with_end(first, BEYOND);
                self.go(WantedKeys::Any, |cursor| cursor.at_or_after(state, beyond).map(drop))
            }
            None => self.next(state),
        }
    }

    /// The last one with the first part before.
    pub(super) fn prev_other(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<bool> {
        match self.parts() {
            Some((first, _)) => {
                let begin = with_end(first, END);
                self.go(WantedKeys::Any, |cursor| cursor.below(state, begin).map(drop))
            }
            None => self.prev(state),
        }
    }

    /// The first one with this first part, or with the next one above it.
    pub(super) fn at_or_after(&mut self, state: &(impl Read<Of = K> + ?Sized), first: &[u8]) -> Result<bool> {
        let begin = with_end(first, END);
        self.go(WantedKeys::Any, |cursor| cursor.at_or_after(state, begin).map(drop))
    }

    /// The last one with this first part, or with the next one below it.
    pub(super) fn at_or_before(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        first: &[u8],
    ) -> Result<bool> {
        let beyond = with_end(first, BEYOND);
        self.go(WantedKeys::Any, |cursor| cursor.at_or_before(state, beyond).map(drop))
    }

    /// The first one with this first part, and this second one or the next above it; false, and it stays
    /// where it is, if there is none.
    pub(super) fn seek(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        first: &[u8],
        second: &[u8],
    ) -> Result<bool> {
        let (begin, back) = (pair(first, second), self.standing());
        let found = self.go(WantedKeys::Any, |cursor| cursor.at_or_after(state, begin).map(drop))?;
        if found && self.first == first {
            return Ok(true);
        }
        self.return_to(back);
        Ok(false)
    }

    /// It stands at this key, whether or not there is such a record.
    pub(super) fn stand(&mut self, first: &[u8], second: &[u8]) {
        self.cursor.stand(pair(first, second));
        (self.first, self.second) = (first.to_vec(), second.to_vec());
    }

    /// The value of the record, as [`Cursor::value`] says it.
    pub(super) fn value(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<&[u8]>> {
        self.cursor.value(state)
    }

    /// As [`Cursor::put`].
    pub(super) fn put(
        &mut self,
        state: &mut (impl Write<Of = K> + ?Sized),
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.cursor.put(state, value)
    }

    /// As [`Cursor::remove`].
    pub(super) fn remove(&mut self, state: &mut (impl Write<Of = K> + ?Sized)) -> Result<bool> {
        self.cursor.remove(state)
    }

    /// How many keys have the first part of the one at which it stands.
    pub(super) fn count(&self, state: &impl Read<Of = K>) -> Result<u64> {
        let Some((first, _)) = self.parts() else { return Ok(0) };
        state.fold_each(self.database(), bounds_of_one(first), 0, Counting)
    }

    /// As [`Cursor::compare`].
    pub(super) fn compare(&self, other: &PairCursor<K>) -> Result<Option<Ordering>> {
        self.cursor.compare(&other.cursor)
    }

    /// Where it stands, to return there.
    pub(super) fn standing(&self) -> (CursorPosition, Vec<u8>, Vec<u8>) {
        (self.cursor.standing(), self.first.clone(), self.second.clone())
    }

    pub(super) fn return_to(&mut self, (standing, first, second): (CursorPosition, Vec<u8>, Vec<u8>)) {
        self.cursor.return_to(standing);
        (self.first, self.second) = (first, second);
    }

    /// Moves the cursor; whether it then stands at a key that is wanted. It stays where it was if that key is
    /// none of two parts, which is an error.
    fn go(&mut self, wanted: WantedKeys, go: impl FnOnce(&mut Cursor<K>) -> Result<()>) -> Result<bool> {
        let back = self.cursor.standing();
        let went = go(&mut self.cursor);
        let arrived = went.and_then(|()| match self.cursor.key() {
            Some(key) => parts(key).map(|(first, second)| Some((first, second.to_vec()))),
            None => Ok(None),
        });
        match arrived {
            Ok(Some(both)) if wanted == WantedKeys::Any || both.0 == self.first => {
                (self.first, self.second) = both;
                Ok(true)
            }
            Ok(None) if wanted == WantedKeys::Any => Ok(false),
            elsewhere => {
                self.cursor.return_to(back);
                elsewhere.map(|_| false)
            }
        }
    }
}

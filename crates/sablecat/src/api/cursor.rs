//! Cursors: places in a database, moved to and from in both directions, with changes in between.
//!
//! A cursor holds a key, not a page: it stands at a record, or where one was, whatever becomes of that and of
//! the pages around it. It holds no transaction either, but is given one with each call: so there may be any
//! number of them, beside changes by the transaction itself, and none has a lifetime. What makes moving on
//! cheap, a copy of the leaf that it is in, is looked for again when the state is another (access/scan.rs).
//!
//! Costs: moving on in one direction copies a record's key and value out of the copy of its leaf; turning
//! round, seeking, and moving on after a change of the snapshot are a descent from the root each.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use super::database::Kind;
use super::read::within;
use super::write::Write;
use super::{Database, Env, Read};
use crate::access::{Scan, ScannedValue};
use crate::error::{Error, Result};
use crate::txn::Stamp;

/// A position in a database: at a record, where a record was, before the first one, or after the last one.
///
/// Each method of a cursor is given what to read from: a [`Txn`](crate::Txn), a [`ReadTxn`](crate::ReadTxn),
/// a [`DataStore`](crate::DataStore), or an [`Env`], for the newest state each time. It is usually the same
/// one each time, but need not be. A cursor borrows from nothing, and there may be any number of them. The
/// record at which it stands may be changed or removed, through the cursor or otherwise: the cursor keeps its
/// position, and goes on from there.
///
/// A new cursor stands nowhere: [`Cursor::next`] goes to the first record, [`Cursor::prev`] to the last.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let tasks = env.database("tasks")?;
/// tasks.insert_batch([("1", "wash"), ("2", "done"), ("3", "dry"), ("4", "done")])?;
///
/// env.write(|txn| {
///     let mut cursor = tasks.cursor();
///     while cursor.next(txn)?.is_some() {
///         match cursor.value(txn)? {
///             Some(b"done") => _ = cursor.remove(txn)?,
///             _ => cursor.put(txn, "soon")?,
///         }
///     }
///     Ok(())
/// })?;
/// let left: Vec<_> = tasks.range(..)?.collect::<sablecat::Result<_>>()?;
/// assert_eq!(left, [(b"1".to_vec(), b"soon".to_vec()), (b"3".to_vec(), b"soon".to_vec())]);
/// # Ok(())
/// # }
/// ```
///
/// ```
/// fn sent<T: Send + Sync + 'static>() {}
/// sent::<sablecat::Cursor>();
/// ```
pub struct Cursor<K: Kind = Env> {
    database: Database<K>,
    place: CursorPlace,
    /// The key of the place, if that has one.
    key: Vec<u8>,
    /// The value that was found there, and when; none: it was not, or is long.
    found: Option<(Stamp, Vec<u8>)>,
    /// What `value` returned last, if it had to be read.
    read: Option<Vec<u8>>,
    /// What brought it here, going on in one direction.
    walk: Option<(Scan, bool)>,
}

/// Where a cursor stood.
pub(super) struct CursorPosition {
    place: CursorPlace,
    key: Vec<u8>,
}

/// Where a cursor stands; in order, but for nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum CursorPlace {
    Nowhere,
    Before,
    At,
    After,
}

impl<K: Kind> fmt::Debug for Cursor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("database", &self.database.name())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

impl<K: Kind> Clone for Cursor<K> {
    /// Another cursor at the same position.
    fn clone(&self) -> Self {
        Cursor {
            place: self.place,
            key: self.key.clone(),
            found: self.found.clone(),
            ..Cursor::new(self.database.clone())
        }
    }
}

impl<K: Kind> Cursor<K> {
    pub(super) fn new(database: Database<K>) -> Cursor<K> {
        Cursor { database, place: CursorPlace::Nowhere, key: Vec::new(), found: None, read: None, walk: None }
    }

    /// The database that it is in.
    pub fn database(&self) -> &Database<K> {
        &self.database
    }

    /// The key of the record at which it stands, or of the one that was there; none before the first, after
    /// the last, and nowhere.
    pub fn key(&self) -> Option<&[u8]> {
        (self.place == CursorPlace::At).then_some(&*self.key)
    }

    /// Goes to the first record, and returns its key. If there are no records, returns none and stands after
    /// the last.
    ///
    /// # Errors
    /// As [`Read::get`]; then it stays where it was. The same holds for all methods that move it.
    pub fn first(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<&[u8]>> {
        self.walk(state, (Bound::Unbounded, Bound::Unbounded), true)
    }

    /// Goes to the last record, and returns its key. If there are no records, returns none and stands before
    /// the first.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<&[u8]>> {
        self.walk(state, (Bound::Unbounded, Bound::Unbounded), false)
    }

    /// Goes to the next record above where it stands, and returns its key. If there is none, returns none and
    /// stands after the last.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<&[u8]>> {
        match self.place {
            CursorPlace::Nowhere | CursorPlace::Before => self.first(state),
            CursorPlace::After => Ok(None),
            CursorPlace::At => self.step(state, true),
        }
    }

    /// Goes to the next record below where it stands, and returns its key. If there is none, returns none and
    /// stands before the first.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<&[u8]>> {
        match self.place {
            CursorPlace::Nowhere | CursorPlace::After => self.last(state),
            CursorPlace::Before => Ok(None),
            CursorPlace::At => self.step(state, false),
        }
    }

    /// Goes to the record with this key or, if there is none, to the next one above it, and returns the key
    /// found. If there is neither, returns none and stands after the last.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn at_or_after(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.walk(state, (Bound::Included(key.as_ref().to_vec()), Bound::Unbounded), true)
    }

    /// Goes to the record with this key or, if there is none, to the next one below it, and returns the key
    /// found. If there is neither, returns none and stands before the first.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn at_or_before(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.walk(state, (Bound::Unbounded, Bound::Included(key.as_ref().to_vec())), false)
    }

    /// Goes to the record with the greatest key below this one, and returns that key. If there is none,
    /// returns none and stands before the first.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub(crate) fn below(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.walk(state, (Bound::Unbounded, Bound::Excluded(key.as_ref().to_vec())), false)
    }

    /// Goes to the record with this key; if there is none, to the next one above it; if there is none either,
    /// to the next one below. Returns how the key of the record at which it then stands compares with this
    /// one, in the database's order; none if there are no records.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Ordering>> {
        let key = key.as_ref();
        if self.at_or_after(state, key)?.is_some() {
            // One that a comparator takes for the same may be written in another way.
            let is_same = self.key == key || self.database.compare(&self.key, key).is_eq();
            return Ok(Some(if is_same { Ordering::Equal } else { Ordering::Greater }));
        }
        Ok(self.last(state)?.map(|_| Ordering::Less))
    }

    /// Goes to the record with `n` records before it, in a database that counts them, and returns its key. If
    /// there are no more than that, returns none and stands after the last.
    ///
    /// # Errors
    /// As [`Read::rank`]; then it stays where it was.
    pub fn seek_nth(&mut self, state: &(impl Read<Of = K> + ?Sized), n: u64) -> Result<Option<&[u8]>> {
        self.database.require_counts("asking for a record by its number")?;
        let (found, stamp) = within(state, &self.database, |txn, tree| {
            Ok((txn.records.nth_found(tree, n)?, txn.records.stamp()))
        })?;
        match found {
            Some((key, found)) => {
                self.stand(key);
                self.found = match (found, stamp) {
                    (ScannedValue::Bytes(value), Some(stamp)) => Some((stamp, value)),
                    _ => None,
                };
                Ok(Some(&self.key))
            }
            None => {
                (self.place, self.found, self.walk) = (CursorPlace::After, None, None);
                Ok(None)
            }
        }
    }

    /// How many records there are before the one at which it stands, in a database that counts them: the
    /// number of that record. None if it stands at none.
    ///
    /// # Errors
    /// As [`Read::rank`].
    pub fn rank(&self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<u64>> {
        self.key().map_or(Ok(None), |key| state.rank(&self.database, key).map(Some))
    }

    /// The value of the record at which it stands, as it is now; none if the record is gone, or the cursor
    /// stands at none.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn value(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<&[u8]>> {
        if self.place != CursorPlace::At {
            return Ok(None);
        }
        let Cursor { database, key, found, .. } = self;
        let read = within(state, database, |txn, tree| {
            let is_good =
                found.as_ref().is_some_and(|(stamp, _)| txn.records.stamp().as_ref() == Some(stamp));
            Ok(if is_good { None } else { Some(txn.records.get_owned(tree, key)?) })
        })?;
        Ok(match read {
            None => self.found.as_ref().map(|(_, value)| &**value),
            Some(value) => {
                self.read = value;
                self.read.as_deref()
            }
        })
    }

    /// How many bytes the value of the record at which it stands has; none where [`Cursor::value`] is none.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn value_len(&self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<u64>> {
        self.key().map_or(Ok(None), |key| state.value_len(&self.database, key))
    }

    /// Reads part of the value of the record at which it stands: see [`Read::read_at`].
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn read_at(
        &self,
        state: &(impl Read<Of = K> + ?Sized),
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        self.key().map_or(Ok(None), |key| state.read_at(&self.database, key, offset, into))
    }

    /// Sets the value of the record at which it stands; if it was removed meanwhile, it is there again.
    ///
    /// # Errors
    /// `Invalid` if it stands at no record; as [`Write::insert`].
    pub fn put(&mut self, state: &mut (impl Write<Of = K> + ?Sized), value: impl AsRef<[u8]>) -> Result<()> {
        let key = self.key().ok_or_else(|| {
            Error::invalid(
                "setting the value of a record with a cursor that is at no record; move it to one first",
            )
        })?;
        state.insert(&self.database, key, value)
    }

    /// Sets the value of a key, and goes there.
    ///
    /// # Errors
    /// As [`Write::insert`]; then it stays where it was.
    pub fn insert(
        &mut self,
        state: &mut (impl Write<Of = K> + ?Sized),
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        state.insert(&self.database, key.as_ref(), value)?;
        self.stand(key.as_ref().to_vec());
        Ok(())
    }

    /// Removes the record at which it stands; false if there is none. It stays where that was:
    /// [`Cursor::next`] goes to the one after it.
    ///
    /// # Errors
    /// As [`Write::remove`].
    pub fn remove(&mut self, state: &mut (impl Write<Of = K> + ?Sized)) -> Result<bool> {
        self.key().map_or(Ok(false), |key| state.remove(&self.database, key))
    }

    /// Sets the value of a key, if there is no record with it, and goes there. True if there was none. In
    /// Berkeley DB it is a put with `DB_NOOVERWRITE`.
    ///
    /// # Errors
    /// As [`Write::insert_new`]; then it stays where it was.
    pub fn insert_new(
        &mut self,
        state: &mut (impl Write<Of = K> + ?Sized),
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let is_new = state.insert_new(&self.database, key.as_ref(), value)?;
        self.stand(key.as_ref().to_vec());
        Ok(is_new)
    }

    /// How the position of this cursor compares with that of another, in the database's order; the same
    /// position is equal. None if one of them stands nowhere.
    ///
    /// # Errors
    /// `Invalid` if the other one is in another database.
    pub fn compare(&self, other: &Cursor<K>) -> Result<Option<Ordering>> {
        if !self.database.is_same(&other.database) {
            return Err(Error::invalid(format!(
                "comparing the positions of two cursors, one in the database {:?}, the other in {:?}",
                self.database.name(),
                other.database.name()
            )));
        }
        Ok(match (self.place, other.place) {
            (CursorPlace::Nowhere, _) | (_, CursorPlace::Nowhere) => None,
            (CursorPlace::At, CursorPlace::At) if self.key == other.key => Some(Ordering::Equal),
            (CursorPlace::At, CursorPlace::At) => Some(self.database.compare(&self.key, &other.key)),
            (place, others) => Some(place.cmp(&others)),
        })
    }

    /// Where it stands, to return there.
    pub(super) fn standing(&self) -> CursorPosition {
        CursorPosition { place: self.place, key: self.key.clone() }
    }

    /// Goes back to where it stood.
    pub(super) fn return_to(&mut self, CursorPosition { place, key }: CursorPosition) {
        (self.place, self.key, self.found, self.walk) = (place, key, None, None);
    }

    /// It stands at a key, of whose record nothing is known.
    pub(in crate::api) fn stand(&mut self, key: Vec<u8>) {
        (self.place, self.key, self.found, self.walk) = (CursorPlace::At, key, None, None);
    }

    /// Goes on from the key at which it stands.
    fn step(&mut self, state: &(impl Read<Of = K> + ?Sized), forward: bool) -> Result<Option<&[u8]>> {
        match self.walk.take() {
            Some((scan, direction)) if direction == forward => self.go(state, scan, forward),
            _ if forward => self.walk(state, (Bound::Excluded(self.key.clone()), Bound::Unbounded), true),
            _ => self.walk(state, (Bound::Unbounded, Bound::Excluded(self.key.clone())), false),
        }
    }

    fn walk(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        (lower, upper): super::KeySpan,
        forward: bool,
    ) -> Result<Option<&[u8]>> {
        self.go(state, Scan::new(lower, upper), forward)
    }

    fn go(
        &mut self,
        state: &(impl Read<Of = K> + ?Sized),
        mut scan: Scan,
        forward: bool,
    ) -> Result<Option<&[u8]>> {
        let (next, stamp) = within(state, &self.database, |txn, tree| {
            Ok((txn.records.next_found(tree, &mut scan, forward)?, txn.records.stamp()))
        })?;
        let Some((key, found)) = next else {
            (self.place, self.found, self.walk) =
                (if forward { CursorPlace::After } else { CursorPlace::Before }, None, None);
            return Ok(None);
        };
        self.found = match (found, stamp) {
            (ScannedValue::Bytes(value), Some(stamp)) => Some((stamp, value)),
            _ => None,
        };
        (self.place, self.key, self.walk) = (CursorPlace::At, key, Some((scan, forward)));
        Ok(Some(&self.key))
    }
}

/// Some keys of a database, in order, whatever becomes of the records behind it.
pub(super) struct KeyWalk<K: Kind> {
    database: Database<K>,
    scan: Scan,
}

impl<K: Kind> KeyWalk<K> {
    pub(super) fn new(database: Database<K>, (lower, upper): super::KeySpan) -> KeyWalk<K> {
        KeyWalk { database, scan: Scan::new(lower, upper) }
    }

    /// The next key.
    pub(super) fn next(&mut self, state: &(impl Read<Of = K> + ?Sized)) -> Result<Option<Vec<u8>>> {
        let scan = &mut self.scan;
        within(state, &self.database, |txn, tree| {
            Ok(txn.records.next_found(tree, scan, true)?.map(|(key, _)| key))
        })
    }
}

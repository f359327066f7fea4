//! Places among records that expire.

use std::cmp::Ordering;
use std::fmt;

use super::{Expiring, Lifetime};
use crate::api::{Cursor, Env, Read, Write};
use crate::error::{Error, Result};

/// A position in a database whose records expire, which moves in both directions: a [`Cursor`] that skips
/// expired records.
///
/// ```
/// use std::time::Duration;
///
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let leases = sablecat::Expiring::open(&env, "leases")?;
/// env.write(|txn| {
///     leases.insert(txn, "a", "ada", Duration::from_secs(60))?;
///     leases.insert(txn, "b", "nobody", Duration::ZERO)?;
///     leases.insert(txn, "c", "grace", Duration::from_secs(60))?;
///     let mut cursor = leases.cursor();
///     assert_eq!(cursor.first(txn)?, Some(&b"a"[..]));
///     assert_eq!(cursor.next(txn)?, Some(&b"c"[..]));
///     cursor.put(txn, "joan", Duration::from_secs(30))?;
///     assert_eq!(cursor.value(txn)?, Some(b"joan".to_vec()));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ExpiringCursor {
    of: Expiring,
    cursor: Cursor,
}

impl fmt::Debug for ExpiringCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}

impl ExpiringCursor {
    pub(super) fn new(of: Expiring) -> ExpiringCursor {
        ExpiringCursor { cursor: of.database.cursor(), of }
    }

    /// The database.
    pub fn of(&self) -> &Expiring {
        &self.of
    }

    /// The key at which it stands; none before the first, after the last, or where it was never moved.
    pub fn key(&self) -> Option<&[u8]> {
        self.cursor.key()
    }

    /// Moves to the first record.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn first(&mut self, state: &(impl Read<Of = Env> + ?Sized)) -> Result<Option<&[u8]>> {
        self.cursor.first(state)?;
        self.pass(state, true)
    }

    /// Moves to the last record.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn last(&mut self, state: &(impl Read<Of = Env> + ?Sized)) -> Result<Option<&[u8]>> {
        self.cursor.last(state)?;
        self.pass(state, false)
    }

    /// Moves to the next record, or to the first.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, state: &(impl Read<Of = Env> + ?Sized)) -> Result<Option<&[u8]>> {
        self.cursor.next(state)?;
        self.pass(state, true)
    }

    /// Moves to the record before, or to the last.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn prev(&mut self, state: &(impl Read<Of = Env> + ?Sized)) -> Result<Option<&[u8]>> {
        self.cursor.prev(state)?;
        self.pass(state, false)
    }

    /// Moves to the record with this key, or the next one above it.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn at_or_after(
        &mut self,
        state: &(impl Read<Of = Env> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.cursor.at_or_after(state, key)?;
        self.pass(state, true)
    }

    /// Moves to the record with this key, or the next one below it.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn at_or_before(
        &mut self,
        state: &(impl Read<Of = Env> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<&[u8]>> {
        self.cursor.at_or_before(state, key)?;
        self.pass(state, false)
    }

    /// Moves to the record with this key; if there is none, to the next one above it; if there is none
    /// either, to the next one below. Returns how the key at which it then stands compares with this one, in
    /// the database's order; none if there are no records.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn seek(
        &mut self,
        state: &(impl Read<Of = Env> + ?Sized),
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Ordering>> {
        let found = self.cursor.seek(state, key)?;
        let at = self.key().map(<[u8]>::to_vec);
        Ok(match self.pass(state, true)? {
            Some(stands) if at.as_deref() == Some(stands) => found,
            // What it was taken to had expired, and was not below the key.
            Some(_) => Some(Ordering::Greater),
            None => self.last(state)?.map(|_| Ordering::Less),
        })
    }

    /// Goes on, in one direction, as long as it stands at what has expired.
    fn pass(&mut self, state: &(impl Read<Of = Env> + ?Sized), forward: bool) -> Result<Option<&[u8]>> {
        while let Some(key) = self.cursor.key() {
            if self.of.head(state, key)?.is_some() {
                break;
            }
            if forward {
                self.cursor.next(state)?
            } else {
                self.cursor.prev(state)?
            };
        }
        Ok(self.cursor.key())
    }

    /// The value of the record at which it stands; none if that was removed, or has expired.
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn value(&self, state: &impl Read<Of = Env>) -> Result<Option<Vec<u8>>> {
        self.key().map_or(Ok(None), |key| self.of.get(state, key))
    }

    /// When that record expires: see [`Expiring::lifetime`].
    ///
    /// # Errors
    /// As [`Expiring::get`].
    pub fn lifetime(&self, state: &impl Read<Of = Env>) -> Result<Option<Lifetime>> {
        self.key().map_or(Ok(None), |key| self.of.lifetime(state, key))
    }

    /// Sets the record at which it stands, or where one was.
    ///
    /// # Errors
    /// `Invalid` if it stands at none; as [`Expiring::insert`].
    pub fn put(
        &self,
        state: &mut impl Write<Of = Env>,
        value: impl AsRef<[u8]>,
        lifetime: impl Into<Lifetime>,
    ) -> Result<()> {
        let key = self.key().ok_or_else(|| {
            Error::invalid("setting a record with a cursor that is at no record; move it to one first")
        })?;
        self.of.insert(state, key, value, lifetime)
    }

    /// Sets a record, whether or not there was one, and moves to it.
    ///
    /// # Errors
    /// As [`Expiring::insert`]; then it stays where it was.
    pub fn insert(
        &mut self,
        state: &mut impl Write<Of = Env>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: impl Into<Lifetime>,
    ) -> Result<()> {
        self.of.insert(state, key.as_ref(), value, lifetime)?;
        self.cursor.stand(key.as_ref().to_vec());
        Ok(())
    }

    /// Sets a record if there is none with this key, or an expired one, and moves to it. True if so.
    ///
    /// # Errors
    /// As [`Expiring::insert_new`]; then it stays where it was.
    pub fn insert_new(
        &mut self,
        state: &mut impl Write<Of = Env>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: impl Into<Lifetime>,
    ) -> Result<bool> {
        let is_new = self.of.insert_new(state, key.as_ref(), value, lifetime)?;
        self.cursor.stand(key.as_ref().to_vec());
        Ok(is_new)
    }

    /// How its position compares with that of another cursor: see [`Cursor::compare`].
    ///
    /// # Errors
    /// As [`Cursor::compare`].
    pub fn compare(&self, other: &ExpiringCursor) -> Result<Option<Ordering>> {
        self.cursor.compare(&other.cursor)
    }

    /// Removes the record at which it stands, and stays there; false if that is gone.
    ///
    /// # Errors
    /// As [`Expiring::remove`].
    pub fn remove(&self, state: &mut impl Write<Of = Env>) -> Result<bool> {
        self.key().map_or(Ok(false), |key| self.of.remove(state, key))
    }
}

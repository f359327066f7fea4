//! Setting, touching and removing records that expire, and sweeping them.

use super::{Expiring, Lifetime};
use crate::api::{Env, Write};
use crate::error::Result;
use crate::txn::lapse::{HEAD_BYTES, expires};

impl Expiring {
    /// Sets the value of a key, and when it expires, whether or not there was a record.
    ///
    /// # Errors
    /// As [`Write::insert`]; eight bytes of the longest value are taken.
    pub fn insert(
        &self,
        to: &mut impl Write<Of = Env>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: impl Into<Lifetime>,
    ) -> Result<()> {
        let gone_from = lifetime.into().gone_from(Expiring::now(to)?);
        to.insert(&self.database, key, stored(gone_from, value.as_ref()))
    }

    /// Sets a record if there is none with this key, or an expired one. True if so.
    ///
    /// # Errors
    /// As [`Expiring::insert`] and [`Expiring::get`].
    pub fn insert_new(
        &self,
        to: &mut impl Write<Of = Env>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: impl Into<Lifetime>,
    ) -> Result<bool> {
        let is_new = !self.contains_key(to, key.as_ref())?;
        if is_new {
            self.insert(to, key, value, lifetime)?;
        }
        Ok(is_new)
    }

    /// Gives an existing record another lifetime, and leaves its value as it is; false if there is none, or
    /// it has expired. Writes the whole record again, unless it has that lifetime already.
    ///
    /// # Errors
    /// As [`Expiring::insert`] and [`Expiring::get`].
    pub fn touch(
        &self,
        to: &mut impl Write<Of = Env>,
        key: impl AsRef<[u8]>,
        lifetime: impl Into<Lifetime>,
    ) -> Result<bool> {
        let (key, now) = (key.as_ref(), Expiring::now(to)?);
        let Some(found) = to.get(&self.database, key)? else { return Ok(false) };
        if self.live(Some(&found), now)?.is_none() {
            return Ok(false);
        }
        let gone_from = lifetime.into().gone_from(now);
        if expires(&found) != Some(gone_from) {
            let touched = stored(gone_from, &found[HEAD_BYTES..]);
            to.insert_found(&self.database, key, &found, touched)?;
        }
        Ok(true)
    }

    /// Removes a record; false if there is none, or it has expired.
    ///
    /// # Errors
    /// As [`Write::remove`], and [`Expiring::get`].
    pub fn remove(&self, to: &mut impl Write<Of = Env>, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if self.contains_key(to, key)? { to.remove(&self.database, key) } else { Ok(false) }
    }

    /// Removes a record; returns its value, if there was one that has not expired.
    ///
    /// # Errors
    /// As [`Expiring::remove`].
    pub fn take(&self, to: &mut impl Write<Of = Env>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let taken = self.get(to, key.as_ref())?;
        if taken.is_some() {
            to.remove(&self.database, key)?;
        }
        Ok(taken)
    }

    /// Removes the expired records of this database now: see [`Env::sweep`].
    ///
    /// # Errors
    /// As [`Env::sweep`].
    pub fn sweep(&self) -> Result<u64> {
        self.database.env().core().to_write()?.sweep(Some(self.database.named.tree_id()))
    }
}

/// What is stored of a record.
fn stored(gone_from: u64, value: &[u8]) -> Vec<u8> {
    [&gone_from.to_le_bytes(), value].concat()
}

impl Env {
    /// Removes the records of all databases that have expired ([`Expiring`]) when it is called, and returns
    /// how many there were. Housekeeping does the same for records that expired some seconds ago. It uses
    /// transactions of its own, some records each, which give way to other transactions. It does not wait for
    /// durability: what a crash undoes of it is swept again. Records that a transaction has locked stay.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let sessions = sablecat::Expiring::open(&env, "sessions")?;
    /// env.write(|txn| sessions.insert(txn, "4f1c", "ada", Duration::ZERO))?;
    /// assert_eq!(sessions.get(&env, "4f1c")?, None);
    /// assert_eq!((env.sweep()?, env.sweep()?), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `ReadOnly`; a conflict, if it has lost to other transactions again and again; as [`Write::remove`].
    /// Records that were removed before the error stay removed.
    pub fn sweep(&self) -> Result<u64> {
        self.core().to_write()?.sweep(None)
    }
}

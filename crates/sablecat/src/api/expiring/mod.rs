//! Records that expire.
//!
//! ```text
//! lifetime.rs  how long a record is there
//! opening.rs   opening such a database, with its index by time
//! reading.rs   reading: what has expired is not there
//! writing.rs   setting, touching, removing
//! range.rs     records in order
//! cursor.rs    places in such a database
//! ```
//!
//! What is stored, and why a sweep is in nobody's way: txn/catalog/lapse.rs. The sweep itself:
//! env/databases/sweeping.rs.

mod cursor;
mod lifetime;
mod opening;
mod range;
mod reading;
mod writing;

pub use cursor::ExpiringCursor;
pub use lifetime::Lifetime;
pub use range::Unexpired;

use sablecat_os::calendar::Moment;

use super::read::sealed::Seen;
use super::{Database, Env, Read};
use crate::error::{Error, Result};
use crate::txn::lapse::{HEAD_BYTES, expires, is_gone};

/// A database whose records can expire: each may have a time from which on it is gone (a time to live). For
/// sessions, caches, leases.
///
/// ```
/// use std::time::Duration;
///
/// use sablecat::{Expiring, Lifetime};
///
/// # fn main() -> sablecat::Result<()> {
/// let env = sablecat::Env::in_memory()?;
/// let sessions = Expiring::open(&env, "sessions")?;
/// env.write(|txn| {
///     sessions.insert(txn, "4f1c", "ada", Duration::from_secs(3600))?;
///     sessions.insert(txn, "0000", "nobody", Lifetime::Unlimited)
/// })?;
/// assert_eq!(sessions.get(&env, "4f1c")?.as_deref(), Some(&b"ada"[..]));
/// assert!(env.write(|txn| sessions.touch(txn, "4f1c", Duration::from_secs(7200)))?);
/// assert!(matches!(sessions.remaining(&env, "4f1c")?, Some(Lifetime::For(left)) if left.as_secs() > 7000));
/// # Ok(())
/// # }
/// ```
///
/// An expired record is hidden from every read at once. Housekeeping removes it some seconds later; so does
/// [`Env::sweep`] when it is called: in small transactions, at a cost in proportion to what has expired. (An
/// environment in memory alone has no housekeeping of its own.) Any process that has the environment open
/// does that for all.
///
/// **Time** is the system's time of day, in milliseconds ([`Builder::clock`](super::Builder::clock) sets
/// another clock, for tests). A transaction uses one time for all that it reads: the time when it first needs
/// it; a [`ReadTxn`](super::ReadTxn) uses that of its beginning, however long it lasts. Reads through the
/// environment alone use the time of each call. If the clock is set back, expired records that are not yet
/// swept can be read again until the clock has caught up, and records that are set meanwhile expire that much
/// earlier than those that were set before. Processes on one machine have one clock.
///
/// **Isolation** is that of all records, with one exception: for a transaction for which a record had
/// expired, sweeping that record is no change. So no transaction conflicts with sweeping because it found no
/// record, or because it sets such a record again. A transaction that read a record before it expired, lasts
/// until it is swept and depends on it gets a conflict, as if another transaction had removed the record.
/// Expiry itself changes nothing and wakes no waiting transaction:
/// [`Env::write_when`](super::Env::write_when) sleeps on.
///
/// It is a handle to a [`Database`], which is a B+tree or a hash table, and has an index of its own by time.
/// The index is renamed and removed with the database, and is listed among the databases as "NAME by expiry".
/// Read as a plain database ([`Expiring::database`]), a value has eight bytes before the user's: the time in
/// milliseconds since 1970, lowest byte first, or 0. The database cannot have other indices. Touching a
/// record writes the whole record again, with its value.
#[derive(Clone, Debug)]
pub struct Expiring {
    database: Database,
    by_expiry: Database,
}

impl Expiring {
    /// The database that the records are in, as they are stored.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Whether the database is the index by time of another one, which is created and removed with that one.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn is_index(from: &impl Read<Of = Env>, name: &str) -> Result<bool> {
        let database = from.existing_database(name)?;
        Ok(database.is_some_and(|database| opening::is_by_expiry(&database)))
    }

    /// The time that decides what has expired in a state.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn time(from: &impl Read<Of = Env>) -> Result<Moment> {
        Expiring::now(from).map(|ms| Moment { ms })
    }

    /// What is there of a stored value at a time.
    fn live<'v>(&self, stored: Option<&'v [u8]>, now: u64) -> Result<Option<&'v [u8]>> {
        let Some(stored) = stored else { return Ok(None) };
        let gone_from = expires(stored).ok_or_else(|| self.not_ours())?;
        Ok((!is_gone(gone_from, now)).then(|| &stored[HEAD_BYTES..]))
    }

    /// The time of a state.
    fn now(from: &(impl Read<Of = Env> + ?Sized)) -> Result<u64> {
        from.with(|Seen(txn)| Ok(txn.time()))
    }

    #[cold]
    fn not_ours(&self) -> Error {
        Error::invalid(format!(
            "a record of the database {:?} has no expiry time: something other than expiring records was \
             written to it",
            self.database.name()
        ))
    }
}

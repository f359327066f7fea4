//! Opening databases whose records expire: each with its index by time, made in the same transaction.

use super::Expiring;
use crate::access::Method;
use crate::api::{Database, Env, Index, Read, Txn, TxnOptions};
use crate::env::{Asked, arranged};
use crate::error::{Error, Result};
use crate::txn::lapse::BY_EXPIRY;
use crate::txn::{Holds, IndexInfo, Isolation};

/// What the name of an index by time ends with.
const ENDING: &str = " by expiry";
/// The longest name of a database.
const NAME_BYTES_MAX: usize = 48;

/// Whether a database is an index by time.
pub(super) fn is_by_expiry(database: &Database) -> bool {
    database.index_of().is_some_and(|info| info.extractor == BY_EXPIRY)
}

impl Expiring {
    /// The database of this name, which is created if there is none, as a B+tree unless the environment makes
    /// hash tables ([`Builder::method`](crate::Builder::method)).
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for one that holds something else.
    pub fn open(env: &Env, name: &str) -> Result<Expiring> {
        Expiring::open_or_make(env, name, None)
    }

    /// As [`Expiring::open`], with this access method: see [`Env::database_as`].
    ///
    /// # Errors
    /// As [`Expiring::open`]; `Invalid` for one with another access method.
    pub fn open_as(env: &Env, name: &str, method: Method) -> Result<Expiring> {
        Expiring::open_or_make(env, name, Some(method))
    }

    fn open_or_make(env: &Env, name: &str, method: Option<Method>) -> Result<Expiring> {
        if let Some(database) = env.existing_database(name)?
            && let Some(expiring) = Expiring::existing(env, &database, method)?
        {
            return Ok(expiring);
        }
        env.write_with(TxnOptions::new().isolation(Isolation::Snapshot), |txn| {
            Expiring::open_as_part(txn, name, method)
        })
    }

    /// The database of this name, opened or created as part of a transaction: see
    /// [`Txn::database`]. Without a method, as it is, or as [`Expiring::open`] makes it.
    ///
    /// # Errors
    /// As [`Expiring::open_as`]; `NotAllowed` for one to be created in a read committed transaction.
    pub fn open_in(txn: &mut Txn<'_>, name: &str, method: Option<Method>) -> Result<Expiring> {
        txn.nested(|txn| Expiring::open_as_part(txn, name, method))
    }

    fn open_as_part(txn: &mut Txn<'_>, name: &str, method: Option<Method>) -> Result<Expiring> {
        let asked = Asked { method, ..Asked::to_hold(Holds::Expiring) };
        let database = txn.database_like(name, asked)?;
        if let Some(expiring) = Expiring::existing(txn, &database, method)? {
            return Ok(expiring);
        }
        let index = free_name(txn, name, &database)?;
        let info = IndexInfo::new(name.to_owned(), BY_EXPIRY.to_owned(), false);
        let by_expiry = txn.create_index(&index, &info)?;
        Ok(Expiring { database, by_expiry })
    }

    /// A database that is there, if it has its index: one that is only just being copied may not.
    fn existing(
        from: &impl Read<Of = Env>,
        database: &Database,
        method: Option<Method>,
    ) -> Result<Option<Expiring>> {
        database.require_holds(Holds::Expiring)?;
        if let Some(method) = method {
            arranged(database.clone().into_named(), method)?;
        }
        let index = from.with(|super::Seen(txn)| txn.index_by(database.name(), BY_EXPIRY))?;
        let by_expiry = index.map(|name| from.existing_database(&name)).transpose()?.flatten();
        Ok(by_expiry.map(|by_expiry| Expiring { database: database.clone(), by_expiry }))
    }

    /// An existing database whose records expire, as a state has it.
    ///
    /// # Errors
    /// As [`Read::existing_database`]; `Invalid` for one that holds something else.
    pub fn of(from: &impl Read<Of = Env>, database: &Database) -> Result<Expiring> {
        Expiring::existing(from, database, None)?.ok_or_else(|| {
            Error::invalid(format!(
                "the database {:?} has no index by time; opening it for writing makes one (Expiring::open)",
                database.name()
            ))
        })
    }

    /// Whether the index by time agrees with the records: see [`Index::verify`].
    ///
    /// # Errors
    /// As [`Index::verify`].
    pub fn verify(&self, from: &impl Read<Of = Env>) -> Result<Vec<String>> {
        match Index::existing(from, self.by_expiry.name())? {
            Some(index) => index.verify(from),
            None => Ok(vec![format!("there is no index {:?}", self.by_expiry.name())]),
        }
    }
}

/// A name for the index by time of a database that no other has.
fn free_name(txn: &Txn<'_>, name: &str, database: &Database) -> Result<String> {
    let name = format!("{name}{ENDING}");
    if name.len() <= NAME_BYTES_MAX && txn.existing_database(&name)?.is_none() {
        return Ok(name);
    }
    Ok(format!("tree {}{ENDING}", database.named.tree_id()))
}

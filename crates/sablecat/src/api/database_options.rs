//! What a database is to be when it is made.

use super::{Database, Env, Txn};
use crate::access::Method;
use crate::env::{Asked, arranged};
use crate::error::Result;
use crate::txn::Holds;

/// The properties that a database gets if it is created, and must have if it exists: for
/// [`Env::database_with`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct DatabaseOptions {
    comparator: Option<String>,
    method: Option<Method>,
    holds: Holds,
    temporary: bool,
}

impl DatabaseOptions {
    /// As [`Env::database`] makes it.
    pub fn new() -> DatabaseOptions {
        DatabaseOptions::default()
    }

    /// Ordered by a comparator: see [`Env::database_ordered_by`].
    pub fn ordered_by(mut self, comparator: impl Into<String>) -> DatabaseOptions {
        self.comparator = Some(comparator.into());
        self
    }

    /// Arranged in this way: see [`Env::database_as`].
    pub fn method(mut self, method: Method) -> DatabaseOptions {
        self.method = Some(method);
        self
    }

    /// For a kind of records: see [`Env::database_holding`].
    pub fn holds(mut self, holds: Holds) -> DatabaseOptions {
        self.holds = holds;
        self
    }

    /// Whether its records are *temporary*. All processes of the environment see temporary records; they can
    /// be in one transaction with records of other databases, and are committed and isolated as these. They
    /// are gone when the environment is opened after no process had it open: because all had closed it, all
    /// were killed, or the machine failed. The database itself, its name, kind and indices, is as durable as
    /// any other, and empty then. Default: records are durable.
    ///
    /// Temporary records are not logged. A commit that changes no other records does not wait for the disk,
    /// whatever its [`Durability`](crate::Durability). A follower of the environment's changes gets the
    /// database and not its records; copies and backups have the database, empty. Its pages are in the cache
    /// like all pages, and there may be more of them than the cache has room for: evicted pages, and those
    /// that a checkpoint finds changed, are written to the volume, encrypted or compressed if the volume is,
    /// and freed when the environment is next opened for writing. Until then a
    /// [read-only](crate::Builder::read_only) process sees the records that the last checkpoint has.
    ///
    /// Indices of a temporary database are temporary as well. Its records may refer to records of durable
    /// databases, not the other way round. It may be of any kind and access method: create it with these
    /// options, then open it as the kind that it holds.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let directory = std::env::temp_dir().join(format!("sablecat-temporary-{}", std::process::id()));
    /// use sablecat::{DatabaseOptions, Env, Holds, Queue};
    /// let env = Env::open(&directory)?;
    /// let temporary = DatabaseOptions::new().temporary(true);
    /// let sessions = env.database_with("sessions", temporary.clone())?;
    /// let users = env.database("users")?;
    /// env.write(|txn| {
    ///     txn.insert(&users, "ada", "seen today")?;
    ///     txn.insert(&sessions, "4f1c", "ada")
    /// })?;
    /// env.database_with("jobs", temporary.holds(Holds::Queue { record_bytes: 32, pad: 0 }))?;
    /// let jobs = Queue::open(&env, "jobs", 32)?;
    /// env.write(|txn| jobs.append(txn, "greet ada"))?;
    /// # drop((users, jobs));
    /// drop(sessions);
    /// env.close()?;
    ///
    /// let env = Env::open(&directory)?;
    /// assert!(env.database("sessions")?.is_empty()?);
    /// assert_eq!(env.database("users")?.get("ada")?.as_deref(), Some(&b"seen today"[..]));
    /// # drop(env);
    /// # std::fs::remove_dir_all(directory).expect("removed");
    /// # Ok(())
    /// # }
    /// ```
    pub fn temporary(mut self, temporary: bool) -> DatabaseOptions {
        self.temporary = temporary;
        self
    }

    fn as_asked(&self) -> Asked<'_> {
        Asked {
            index: None,
            comparator: self.comparator.as_deref(),
            method: self.method,
            holds: self.holds,
            temporary: self.temporary,
        }
    }

    /// A database that was opened or made, if it is arranged as was asked.
    fn arranged(&self, database: Database) -> Result<Database> {
        match self.method {
            Some(method) => {
                let env = database.env().clone();
                arranged(database.into_named(), method).map(|named| Database::new(env, named))
            }
            None => Ok(database),
        }
    }
}

impl Env {
    /// Opens a database, creating it with these options if there is none of that name.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` if the database exists and has another order, is arranged in another
    /// way, holds something else, or is durable where a temporary one was asked for. A temporary database is
    /// opened whether or not a temporary one was asked for.
    pub fn database_with(&self, name: &str, options: DatabaseOptions) -> Result<Database> {
        let named = self.core().database_or_new(name, options.as_asked())?;
        options.arranged(Database::new(self.clone(), named))
    }
}

impl Txn<'_> {
    /// Opens or creates, as [`Txn::database`] does, a database as these options say.
    ///
    /// # Errors
    /// As [`Txn::database`]; `Invalid` as [`Env::database_with`].
    pub fn database_with(&mut self, name: &str, options: DatabaseOptions) -> Result<Database> {
        let database = self.database_like(name, options.as_asked())?;
        options.arranged(database)
    }
}

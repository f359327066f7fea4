//! Databases for a kind of records: opened as what they hold, and as nothing else.

use super::database::Kind;
use super::{Database, Env, Txn};
use crate::env::{Asked, check_holds};
use crate::error::Result;
use crate::txn::Holds;

impl Env {
    /// Opens a database that holds this kind of records, creating it if there is none of that name: as
    /// [`MultiMap::open`](super::MultiMap::open), [`Queue::open`](super::Queue::open) and the like do.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` if the database holds something else.
    pub fn database_holding(&self, name: &str, holds: Holds) -> Result<Database> {
        self.core()
            .database_or_new(name, Asked::to_hold(holds))
            .map(|named| Database::new(self.clone(), named))
    }
}

impl Txn<'_> {
    /// Opens or creates, as [`Txn::database`] does, a database that holds this kind of records.
    ///
    /// # Errors
    /// As [`Txn::database`]; `Invalid` if the database exists and holds something else.
    pub fn database_holding(&mut self, name: &str, holds: Holds) -> Result<Database> {
        self.database_like(name, Asked::to_hold(holds))
    }
}

impl<K: Kind> Database<K> {
    /// What it was asked for as when it was made.
    pub(super) fn as_asked(&self) -> Asked<'_> {
        Asked {
            comparator: self.comparator(),
            holds: self.holds(),
            temporary: self.is_temporary(),
            ..Asked::arranged_as(self.method())
        }
    }

    /// An error unless it holds that, or says nothing of what it holds and may.
    pub(crate) fn require_holds(&self, wanted: Holds) -> Result<()> {
        check_holds(self.name(), self.holds(), wanted)
    }
}

//! What indices need of the handles of databases.

use std::sync::Arc;

use super::super::{Database, Env, Kind};
use crate::env::Core;
use crate::error::{Error, Result};
use crate::txn::{IndexInfo, RecordChange};

impl<K: Kind> Database<K> {
    /// What it is an index of, and how, if it is one ([`Index`](super::Index)).
    pub fn index_of(&self) -> Option<&IndexInfo> {
        self.named.index().map(Arc::as_ref)
    }

    /// Whether it is the same database as another.
    pub(crate) fn is_same(&self, other: &Database<K>) -> bool {
        K::is_one(&self.of, &other.of) && self.named.tree_id() == other.named.tree_id()
    }

    /// The same, to set in it what another environment has, with all that its indices have.
    pub(in crate::api) fn as_replica(&self) -> Database<K> {
        Database { of: self.of.clone(), named: Arc::new(self.named.as_replica()) }
    }
}

impl Database {
    /// After an error: the same change again, if the database has other indices than this handle knew.
    #[cold]
    pub(in crate::api) fn change_again(
        &self,
        core: &Core,
        key: &[u8],
        change: RecordChange<'_>,
        mut error: Error,
    ) -> Result<bool> {
        while error.is_changed() {
            match core.kernel.change_one(self.tree()?, key, change, core.config.durability) {
                Err(again) => error = again,
                done => return done,
            }
        }
        self.unless_removed(Err(error))
    }

    /// Refuses a database of another environment.
    pub(super) fn check_in(&self, env: &Env) -> Result<()> {
        self.named_in(env.core()).map(drop)
    }
}

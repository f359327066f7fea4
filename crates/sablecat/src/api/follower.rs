//! Following one environment in another.

use std::collections::HashMap;

use super::{Commit, Database, Env, Read, Txn};
use crate::TxnOptions;
use crate::env::{Asked, Change};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::Isolation;
use crate::types::Lsn;

/// The database in which followers keep how far they have come.
pub(super) const POSITIONS: &str = "sablecat.followed";

/// Applies the commits of another environment, the *origin*, to this one (replication), each in a transaction
/// of its own, while others read: see [`Changes`](super::Changes).
///
/// How far it has come, its *position*, is a record of a database of its own, `sablecat.followed`, under the
/// name that the origin has here, and is committed together with the changes. So each commit is applied
/// exactly once, even if processes are killed: to resume, begin the changes at [`Follower::position`];
/// commits that were applied already are skipped. With a durability below
/// [`Durability::Sync`](crate::Durability::Sync) a crash undoes both together.
///
/// The environment is a copy of the origin: only the follower should write to it; others may read it. Other
/// writes to the same records and databases conflict with the follower's. For databases with a comparator,
/// the comparator must be registered here too. Indices need no extractors here, since the log has their
/// contents. The origin's own `sablecat.followed` is skipped, so a follower can itself be followed.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let base = std::env::temp_dir().join(format!("sablecat-follower-{}", std::process::id()));
/// # let origin = sablecat::Env::open(base.join("origin"))?;
/// # let copy = sablecat::Env::open(base.join("copy"))?;
/// use sablecat::{ChangesOptions, Follower, Lsn};
/// let follower = Follower::new(&copy, "origin")?;
/// let mut changes = match follower.position()? {
///     Some(position) => origin.changes(position)?,
///     None => origin.changes(origin.oldest_change()?)?, // it is new: its log has everything
/// };
/// origin.database("letters")?.insert("a", "alpha")?;
/// while let Some(commit) = changes.try_next()? {
///     follower.apply(&commit)?;
/// }
/// assert_eq!(copy.database("letters")?.get("a")?.as_deref(), Some(&b"alpha"[..]));
/// # drop((changes, follower, origin, copy));
/// # std::fs::remove_dir_all(base).expect("removed");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Follower {
    positions: Database,
    origin: String,
}

impl Follower {
    /// A follower, in `env`, of the origin that has this name here.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for an empty name.
    pub fn new(env: &Env, origin: &str) -> Result<Follower> {
        if origin.is_empty() {
            return Err(Error::invalid("an empty name for the origin of a follower; give it a name"));
        }
        Ok(Follower { positions: env.database(POSITIONS)?, origin: origin.to_owned() })
    }

    /// The database in which it keeps how far it has come.
    pub(super) fn positions(&self) -> &Database {
        &self.positions
    }

    /// The name of the origin.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The environment that the commits are applied to.
    pub fn env(&self) -> &Env {
        self.positions.env()
    }

    /// The LSN, in the origin's log, up to which its commits have been applied; none if none has been
    /// applied, and no position was [set](Follower::set_position).
    ///
    /// # Errors
    /// Those of reading; `Corruption` if the record is not an LSN.
    pub fn position(&self) -> Result<Option<Lsn>> {
        self.read_position(self.env())
    }

    /// Notes, as part of a transaction, that the origin's commits up to an LSN are in this environment: for
    /// the transaction that sets the last records of a copy of a snapshot at that LSN.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn set_position(&self, txn: &mut Txn<'_>, position: Lsn) -> Result<()> {
        txn.insert(&self.positions, &self.origin, position.0.to_le_bytes())
    }

    /// Applies a commit of the origin, in one transaction. False if it has been applied before.
    ///
    /// # Errors
    /// Those of [`Env::write`] and of [`ChangesIn::next`](super::ChangesIn::next); `NotFound` and `Exists` if
    /// this environment does not have the databases that the origin had before the commit. Nothing of the
    /// commit was applied then.
    pub fn apply(&self, commit: &Commit<'_>) -> Result<bool> {
        // Another transaction that applies commits of the origin changes the position too: one of the two is
        // first, and the other second.
        let options = TxnOptions::new().isolation(Isolation::Snapshot);
        self.env().write_with(options, |txn| {
            if self.read_position(txn)?.is_some_and(|position| position >= commit.lsn()) {
                return Ok(false);
            }
            let mut databases = HashMap::new();
            let mut changes = commit.changes();
            while let Some(change) = changes.next()? {
                apply_one(txn, change, &mut databases)?;
            }
            self.set_position(txn, commit.lsn()).map(|()| true)
        })
    }

    fn read_position<R: Read<Of = Env>>(&self, from: &R) -> Result<Option<Lsn>> {
        let Some(bytes) = from.get(&self.positions, &self.origin)? else { return Ok(None) };
        let bytes = bytes.try_into().map_err(|_| {
            Error::corruption(format!(
                "the position of {:?} in {POSITIONS} is not the eight bytes of an LSN",
                self.origin
            ))
        })?;
        Ok(Some(Lsn(u64::from_le_bytes(bytes))))
    }
}

/// Applies one change. `databases` are those that the transaction has met since it last changed which there
/// are.
fn apply_one(txn: &mut Txn<'_>, change: Change<'_>, databases: &mut HashMap<String, Database>) -> Result<()> {
    let is_own = |name: &str| name == POSITIONS;
    match change {
        Change::Insert { database, .. }
        | Change::Remove { database, .. }
        | Change::RemoveRange { database, .. }
            if is_own(database) =>
        {
            Ok(())
        }
        Change::CreateDatabase { name, .. } | Change::RemoveDatabase { name } if is_own(name) => Ok(()),
        Change::Insert { database, key, value } => {
            let database = find(txn, database, databases)?;
            txn.insert(database, key, value)
        }
        Change::Remove { database, key } => {
            let database = find(txn, database, databases)?;
            txn.remove(database, key).map(drop)
        }
        Change::RemoveRange { database, lower, upper } => {
            let database = find(txn, database, databases)?;
            txn.remove_range(database, (lower, upper)).map(drop)
        }
        Change::CreateDatabase { name, comparator, method, holds, index, temporary } => {
            if txn.existing_database(name)?.is_some() {
                return Err(Error::new(
                    ErrorKind::Exists,
                    format!(
                        "the origin created the database {name:?}, and a database of that name exists here \
                         already"
                    ),
                ));
            }
            match index {
                Some(index) => txn.replicate_index(name, index),
                None => txn
                    .database_like(name, Asked { comparator, method: Some(method), holds, index, temporary })
                    .map(drop),
            }
        }
        Change::RenameDatabase { from, to } => txn.rename_database(from, to),
        Change::RemoveDatabase { name } => match txn.remove_replica(name)? {
            true => Ok(()),
            false => Err(missing(name)),
        },
    }
}

fn find<'d>(txn: &Txn<'_>, name: &str, databases: &'d mut HashMap<String, Database>) -> Result<&'d Database> {
    if !databases.contains_key(name) {
        let database = txn.existing_database(name)?.ok_or_else(|| missing(name))?;
        // What the origin's indices have the log says too.
        databases.insert(name.to_owned(), database.as_replica());
    }
    Ok(&databases[name])
}

fn missing(name: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "the origin has a database {name:?}, and this environment has none; follow the origin from its \
             beginning, or from a copy"
        ),
    )
}

//! Copying a whole environment into another, from a state of it: what backups and followers begin with.

use super::follower::POSITIONS;
use super::{Changes, ChangesOptions, Database, Env, Follower, Prefix, ReadTxn};
use crate::error::{Error, ErrorKind, Result};

/// After how many records the caller that copies is told how many there were.
const TELL_EVERY: u64 = 1000;
/// Begins the name under which it is noted that a copy of an origin has begun. No origin has such a name.
const BEGUN: &[u8] = b"\0copying ";

/// How much was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Copied {
    /// Databases that were begun.
    pub databases: u64,
    /// Records of all of them.
    pub records: u64,
}

impl Env {
    /// The identifier of the environment: a random number, made at its creation. Copies of its files have the
    /// same one. None in memory alone.
    pub fn id(&self) -> Option<[u8; 16]> {
        self.core().kernel.pages.volume().map(|volume| volume.superblock().uuid)
    }
}

impl ReadTxn {
    /// Copies all databases, as they are in this snapshot, into another environment, which must have none:
    /// with the same names, orders, access methods and indices. They are loaded in bulk, as durably as that
    /// environment's [`Durability`](crate::Durability) says. Other transactions go on writing to this
    /// environment meanwhile; the old versions of the pages that they change stay in the cache. `progress` is
    /// called now and then with how much has been copied.
    ///
    /// The positions of [`Follower`]s are not copied: the copy has followed no origin. Nor are the records of
    /// [temporary](super::DatabaseOptions::temporary) databases: the copy has these databases, empty.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// env.database("letters")?.insert("a", "alpha")?;
    /// let copy = sablecat::Env::in_memory()?;
    /// let copied = env.snapshot()?.copy_into(&copy, &mut |_| {})?;
    /// assert_eq!((copied.databases, copied.records), (1, 1));
    /// assert_eq!(copy.database("letters")?.get("a")?.as_deref(), Some(&b"alpha"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Exists` if the other environment has databases; `NotAllowed` if this environment is itself an
    /// unfinished copy, made by [`Follower::copy`]; `Invalid` for a database with a comparator that was not
    /// registered in both; `SnapshotTooOld` if the old versions have filled the cache; as [`ReadTxn::get`]
    /// and [`Database::bulk_load`](crate::Database::bulk_load). After an error, a part may have been copied.
    pub fn copy_into(&self, to: &Env, progress: &mut dyn FnMut(Copied)) -> Result<Copied> {
        if let Some(name) = to.databases()?.iter().find(|name| *name != POSITIONS) {
            return Err(Error::new(
                ErrorKind::Exists,
                format!(
                    "copying a whole environment into one that has databases ({name:?}, for example): copy \
                     into a new one"
                ),
            ));
        }
        self.refuse_cut_short()?;
        let mut copied = Copied::default();
        let mut all = Vec::new();
        for name in self.databases()?.into_iter().filter(|name| *name != POSITIONS) {
            let database = self.existing_database(&name)?.ok_or_else(|| {
                Error::corruption(format!("the catalog lists the database {name:?}, which is not there"))
            })?;
            all.push(database);
        }
        // What an index is of is there before it.
        all.sort_by_key(|database| database.index_of().is_some());
        for database in &all {
            copied.databases += 1;
            self.copy_database(to, database, &mut copied, progress)?;
        }
        progress(copied);
        Ok(copied)
    }

    /// Refuses what is itself a copy that was not finished.
    fn refuse_cut_short(&self) -> Result<()> {
        let Some(positions) = self.existing_database(POSITIONS)? else { return Ok(()) };
        match self.range(&positions, Prefix(BEGUN))?.next().transpose()? {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::NotAllowed,
                "copying an environment that is itself an unfinished copy: finish that copy first",
            )),
        }
    }

    fn copy_database(
        &self,
        to: &Env,
        from: &Database,
        copied: &mut Copied,
        progress: &mut dyn FnMut(Copied),
    ) -> Result<()> {
        let mut txn = to.begin()?;
        let into = match from.index_of() {
            Some(index) => {
                txn.replicate_index(from.name(), index)?;
                txn.database(from.name())?
            }
            None => txn.database_like(from.name(), from.as_asked())?,
        };
        txn.commit()?;
        if from.is_temporary() {
            // Its records would be gone there, too, when the copy is opened.
            return Ok(());
        }
        let mut failed = Ok(());
        let mut records = self.range(from, ..)?;
        // What the origin's indices have is copied as it is.
        let loaded = into.as_replica().bulk_load(std::iter::from_fn(|| {
            let record = records.next()?.map_err(|error| failed = Err(error)).ok()?;
            copied.records += 1;
            if copied.records.is_multiple_of(TELL_EVERY) {
                progress(*copied);
            }
            Some(record)
        }));
        failed?;
        loaded.map(drop)
    }
}

impl Follower {
    /// Copies the origin, as it is now, into this environment, and returns the changes that come after the
    /// copy, from which to follow it. What is copied is durable at the origin before it counts as copied
    /// here. See [`ReadTxn::copy_into`].
    ///
    /// A copy that was interrupted, by an error or a crash, is removed when the copy is begun again.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let base = std::env::temp_dir().join(format!("sablecat-copy-{}", std::process::id()));
    /// # let origin = sablecat::Env::open(base.join("origin"))?;
    /// # let copy = sablecat::Env::open(base.join("copy"))?;
    /// use sablecat::Follower;
    /// let letters = origin.database("letters")?;
    /// letters.insert("a", "alpha")?;
    /// let follower = Follower::new(&copy, "origin")?;
    /// let mut changes = match follower.position()? {
    ///     Some(position) => origin.changes(position)?,
    ///     None => follower.copy(&origin, &mut |_| {})?,
    /// };
    /// letters.insert("b", "beta")?;
    /// while let Some(commit) = changes.try_next()? {
    ///     follower.apply(&commit)?;
    /// }
    /// assert_eq!(copy.database("letters")?.len()?, 2);
    /// # drop((changes, follower, letters, origin, copy));
    /// # std::fs::remove_dir_all(base).expect("removed");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Exists` if the origin was copied or followed here before, if there is an unfinished copy of another
    /// origin here, or if there are other databases; as [`ReadTxn::copy_into`] and [`Env::changes_from_now`].
    pub fn copy(&self, origin: &Env, progress: &mut dyn FnMut(Copied)) -> Result<Changes> {
        if let Some(position) = self.position()? {
            return Err(Error::new(
                ErrorKind::Exists,
                format!(
                    "copying an origin that this environment has followed up to LSN {position}: go on with \
                     its changes from there, or copy into a new environment"
                ),
            ));
        }
        // What has no changes to be followed is not even begun.
        let changes = origin.changes_from_now(ChangesOptions::new())?;
        self.begin_copy()?;
        let state = origin.snapshot()?;
        state.copy_into(self.env(), progress)?;
        // A crash must not take from the origin what its copy has.
        origin.sync()?;
        let mut txn = self.env().begin()?;
        self.set_position(&mut txn, state.lsn())?;
        txn.remove(self.positions(), self.begun())?;
        txn.commit()?;
        Ok(changes)
    }

    /// Notes that a copy begins, or removes what one has left that was cut short.
    fn begin_copy(&self) -> Result<()> {
        let env = self.env();
        env.write(|txn| {
            if txn.contains_key(self.positions(), self.begun())? {
                for name in txn.databases()?.iter().filter(|name| *name != POSITIONS) {
                    txn.remove_database(name)?;
                }
            } else if let Some(other) = txn.range(self.positions(), Prefix(BEGUN))?.next().transpose()? {
                // It would remove this copy, taking it for what is left of its own.
                let other = String::from_utf8_lossy(&other.0[BEGUN.len()..]).into_owned();
                return Err(Error::new(
                    ErrorKind::Exists,
                    format!(
                        "copying {:?} into an environment with an unfinished copy of {other:?}: finish that \
                         one, or copy into a new environment",
                        self.origin()
                    ),
                ));
            } else if txn.databases()?.iter().all(|name| name == POSITIONS) {
                txn.insert(self.positions(), self.begun(), "")?;
            }
            Ok(())
        })
    }

    /// The key of the note that a copy has begun.
    fn begun(&self) -> Vec<u8> {
        [BEGUN, self.origin().as_bytes()].concat()
    }
}

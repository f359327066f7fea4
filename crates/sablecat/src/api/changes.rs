//! What was committed, as it comes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sablecat_os::calendar::Moment;
use sablecat_os::clock;

use super::Env;
use super::kept::Kept;
use crate::env::{Change, ChangedRecords, CommitChanges, Core, Stream};
use crate::error::Result;
use crate::log::Reach;
use crate::types::Lsn;

/// How the changes of an environment are read.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct ChangesOptions {
    written: bool,
}

impl ChangesOptions {
    /// Durable commits only: no commit is given that a crash could undo.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also gives commits that are written to the operating system and not durable on the disk yet. A crash
    /// of the machine may undo such commits after they were given; a reader that resumes from one of those
    /// gets [`ErrorKind::LogGone`](crate::ErrorKind::LogGone) and must begin again. No commit is given that a
    /// crash of processes could undo.
    pub fn written(mut self, written: bool) -> Self {
        self.written = written;
        self
    }

    fn reach(self) -> Reach {
        if self.written { Reach::Written } else { Reach::Durable }
    }
}

/// The commits of an environment, in order: first those after an LSN, then new ones as they come, of this
/// process and of all that share the environment (a change stream). From [`Env::changes`].
///
/// A handle, which keeps the environment open. It delays no other work: commits do not wait for it, however
/// slow it is, and a reader whose process dies keeps nothing. The log is kept for it as far as
/// [`Builder::changes_lag_max`](super::Builder::changes_lag_max) says; a reader that lags more gets
/// `LogGone`.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let directory = std::env::temp_dir().join(format!("sablecat-changes-{}", std::process::id()));
/// # let env = sablecat::Env::open(&directory)?;
/// use sablecat::Change;
/// let accounts = env.database("accounts")?;
/// let mut changes = env.changes_from_now(sablecat::ChangesOptions::new())?;
/// env.write(|txn| {
///     txn.insert(&accounts, "ada", "20")?;
///     txn.insert(&accounts, "grace", "80")
/// })?;
///
/// let commit = changes.next()?.expect("nobody stops it");
/// let mut inserted = Vec::new();
/// let mut each = commit.changes();
/// while let Some(change) = each.next()? {
///     if let Change::Insert { database: "accounts", key, .. } = change {
///         inserted.push(key.to_vec());
///     }
/// }
/// assert_eq!(inserted, [&b"ada"[..], b"grace"]);
/// let dealt_with = commit.lsn(); // stored with what was made of it
///
/// // later, in another process perhaps
/// # drop(changes);
/// let mut changes = env.changes(dealt_with)?;
/// assert!(changes.try_next()?.is_none());
/// # drop((changes, accounts));
/// # env.close()?;
/// # std::fs::remove_dir_all(directory).expect("removed");
/// # Ok(())
/// # }
/// ```
///
/// *To begin with a copy*, call [`Env::changes_from_now`] first, then [`Env::snapshot`]; copy that, and of
/// the changes skip the commits at or below [`ReadTxn::lsn`](super::ReadTxn::lsn), which the copy has.
///
/// *To resume* after any interruption, give [`Env::changes`] the LSN of the last commit that was processed:
/// each commit after that is given, once. A reader that stores this LSN in one transaction with what it makes
/// of the changes misses nothing and does nothing twice. A [`Follower`](super::Follower) does so.
///
/// *What is given.* All changes that were committed, by any process and in any way, to records of databases,
/// and the databases that were created, renamed or removed. A database has the name that it had after the
/// commit. A record that a transaction set several times is given once, with its last value. Commits of the
/// engine itself are not given.
///
/// After an error, except an error of reading the changes of one commit, it gives nothing more; begin again
/// at [`Changes::position`].
pub struct Changes {
    stream: Kept<'static, Stream<'static>>,
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("position", &self.position()).finish_non_exhaustive()
    }
}

/// Stops [`Changes`] from waiting: used in another thread, or in the thread that handles signals. Does not
/// keep the environment open.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    core: Weak<Core>,
}

impl Stopper {
    /// Ends a wait in progress, and all waiting from now on: [`Changes::next`] returns none.
    pub fn stop(&self) {
        // SeqCst: before the look for threads that sleep.
        self.stop.store(true, Ordering::SeqCst);
        if let Some(core) = self.core.upgrade() {
            core.kernel.log.wake_listeners();
        }
    }
}

impl Changes {
    pub(super) fn begin(env: &Env, after: Option<Lsn>, options: ChangesOptions) -> Result<Changes> {
        let stream = Kept::owned(env.clone(), |core| Stream::begin(core, after, options.reach()))?;
        Ok(Changes { stream, stop: Arc::default() })
    }

    /// The environment whose commits it gives.
    pub fn env(&self) -> &Env {
        self.stream.env()
    }

    /// The LSN after which to resume: that of the last commit given, or a higher one, if no commit to be
    /// given lies between. [`Env::changes`] can begin there.
    pub fn position(&self) -> Lsn {
        self.stream.position()
    }

    /// A handle with which another thread can end its waiting.
    pub fn stopper(&self) -> Stopper {
        Stopper { stop: Arc::clone(&self.stop), core: self.env().weak() }
    }

    /// The next commit. Waits for it without limit; returns none once it was [stopped](Stopper::stop). While
    /// it waits it sleeps: the process that makes the commit durable wakes it. A commit at a rung below
    /// [`Durability::Sync`](crate::Durability::Sync) becomes durable with the next flush of the log, normally
    /// within a flush interval.
    ///
    /// # Errors
    /// `LogGone` if it has lagged too far behind; `Poisoned` once nothing more can become durable, and all
    /// durable commits were given; `Io`, `Corruption`.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<Commit<'_>>> {
        self.next_until(None)
    }

    /// As [`Changes::next`], for no longer than this.
    ///
    /// # Errors
    /// As [`Changes::next`].
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Commit<'_>>> {
        self.next_until(Some(clock::monotonic().saturating_add(time)))
    }

    /// The next commit, if there is one already; does not wait.
    ///
    /// # Errors
    /// As [`Changes::next`].
    pub fn try_next(&mut self) -> Result<Option<Commit<'_>>> {
        let is_there = self.stream.advance()?;
        Ok(self.commit_if(is_there))
    }

    fn next_until(&mut self, deadline: Option<Duration>) -> Result<Option<Commit<'_>>> {
        let stop = &self.stop;
        let is_there = self.stream.advance_until(deadline, || stop.load(Ordering::SeqCst))?;
        Ok(self.commit_if(is_there))
    }

    fn commit_if(&self, is_there: bool) -> Option<Commit<'_>> {
        if is_there { self.stream.changed().map(|changed| Commit { changed }) } else { None }
    }
}

/// One commit, from [`Changes`].
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    changed: CommitChanges<'a>,
}

impl<'a> Commit<'a> {
    /// Its LSN: what [`Txn::commit`](super::Txn::commit) returned when it was made, and where to resume after
    /// it.
    pub fn lsn(&self) -> Lsn {
        self.changed.lsn()
    }

    /// When it was made: at this time or up to 10 milliseconds later. Known only if a journal is kept, and
    /// only after the first time stamp in the log behind the position from which the changes were read.
    pub fn time(&self) -> Option<Moment> {
        self.changed.time()
    }

    /// Its changes, one after the other: first those of databases, in an order in which they can be applied,
    /// then those of records, by database and key. Each call begins at the first change again. A large commit
    /// is read in parts: a few megabytes, and the longest value, are in memory at a time.
    pub fn changes(&self) -> ChangesIn<'a> {
        ChangesIn { records: self.changed.changes() }
    }
}

/// The changes of one [`Commit`].
#[derive(Debug)]
pub struct ChangesIn<'a> {
    records: ChangedRecords<'a>,
}

impl ChangesIn<'_> {
    /// The next change.
    ///
    /// # Errors
    /// `LogGone` if the parts of a large commit are not kept any more; `Io`, `Corruption`. The changes can be
    /// read again.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<Change<'_>>> {
        self.records.next()
    }
}

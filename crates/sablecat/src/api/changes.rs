//! What was committed, as it comes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sablecat_os::calendar::Moment;
use sablecat_os::clock;

use super::Env;
use super::kept::Kept;
use crate::env::{Change, Changed, ChangedRecords, Core, Stream};
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
    /// Durable commits only: nothing that a crash takes back is ever given.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also what is with the operating system and not on the disk yet. A crash of the machine may take such
    /// commits back after they were given; a reader that resumes from one of those gets
    /// [`ErrorKind::LogGone`](crate::ErrorKind::LogGone) and begins anew. Nothing is given that a crash of
    /// processes takes back.
    pub fn written(mut self, written: bool) -> Self {
        self.written = written;
        self
    }

    fn reach(self) -> Reach {
        if self.written { Reach::Written } else { Reach::Durable }
    }
}

/// The commits of an environment, in order, from somewhere on and then as they come: of this process and of
/// all that share it. From [`Env::changes`].
///
/// A handle, which keeps the environment open. It holds nobody up: commits do not wait for it, however slow
/// it is, and a reader whose process dies keeps nothing. The log is kept for it as far as
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
/// *To resume* after whatever ended it, give the LSN of the last commit that was dealt with to
/// [`Env::changes`]: each commit after that is given, once. A reader that stores this LSN in one transaction
/// with what it makes of the changes misses nothing and does nothing twice. A [`Follower`](super::Follower)
/// does so.
///
/// *What is given.* All that was committed, by whomever and in whatever way, that there is a name for:
/// records, and databases created, renamed, removed. A database's name is the one that it had after the
/// commit. What a transaction set several times comes once, as it became. Nothing is said of commits of the
/// engine's own.
///
/// After an error other than those of the changes of one commit it does not go on; begin again at
/// [`Changes::position`].
pub struct Changes {
    stream: Kept<'static, Stream<'static>>,
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("position", &self.position()).finish_non_exhaustive()
    }
}

/// Ends the waiting of [`Changes`] from elsewhere: from another thread, or from the thread that handles
/// signals. Does not keep the environment open.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    core: Weak<Core>,
}

impl Stopper {
    /// From now on nothing is waited for, and a wait in progress ends: [`Changes::next`] says that there is
    /// none.
    pub fn stop(&self) {
        // SeqCst: before the look for who sleeps.
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

    /// The environment that it follows.
    pub fn env(&self) -> &Env {
        self.stream.env()
    }

    /// The LSN after which to resume: that of the last commit given, or one above it with nothing to be seen
    /// in between. [`Env::changes`] can begin there.
    pub fn position(&self) -> Lsn {
        self.stream.position()
    }

    /// What ends its waiting from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper { stop: Arc::clone(&self.stop), core: self.env().weak() }
    }

    /// The next commit, however long it takes to come; none once it was [stopped](Stopper::stop). Sleeps
    /// meanwhile, and is woken by whoever makes the commit durable, in whatever process. A commit at a rung
    /// below [`Durability::Sync`](crate::Durability::Sync) becomes durable when somebody flushes the log,
    /// every flush interval as a rule.
    ///
    /// # Errors
    /// `LogGone` if it has lagged too far behind; `Poisoned` once nothing more can become durable, and all
    /// that did was given; `Io`, `Corruption`.
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

    /// The next commit if it is there already.
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

/// One commit, as [`Changes`] give it.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    changed: Changed<'a>,
}

impl<'a> Commit<'a> {
    /// Its LSN: what [`Txn::commit`](super::Txn::commit) returned when it was made, and where to resume after
    /// it.
    pub fn lsn(&self) -> Lsn {
        self.changed.lsn()
    }

    /// When it was made: at this time or up to 10 milliseconds later. Known where a journal is kept, from the
    /// first time on that stands in the log after where the changes began.
    pub fn time(&self) -> Option<Moment> {
        self.changed.time()
    }

    /// What it changes, one after the other: databases first, in an order in which it can be done, then
    /// records by database and key. However often it is asked for, it begins anew. Of a large commit a part
    /// is in memory at a time: a few megabytes, and the longest value.
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
    /// asked for again.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<Change<'_>>> {
        self.records.next()
    }
}

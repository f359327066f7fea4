//! The log as a stream: what was changed in which database, commit by commit, as it comes.
//!
//! ```text
//! log/tail.rs ─▶ commits ─▶ naming.rs ─▶ what of it can be seen, by name ─▶ api/changes.rs
//! ```
//!
//! *What is kept.* A reader says from where on it reads, in a word of its process's member
//! ([`Region::want_log`](crate::region::Region::want_log)); of several in one process the one that is
//! furthest behind. A process that lets go of old log leaves what is wanted, up to a limit: for a reader that
//! lags too far behind it keeps as much as that, which others in the reader's process may want. The word
//! counts until the process has left or was found dead: a killed process keeps nothing. It is raised when the
//! next commit is asked for: what was given last may be asked for again until then. And it is raised in
//! steps, since log is kept by segments.
//!
//! It is said before the log is looked for. A process that lets go of log at that moment, and has not seen
//! it, lets go of what was not needed before; if that is what was asked for it is gone. A reader that begins
//! between the chunks of a commit that is to come wants the earlier chunks as well: the transaction that logs
//! them keeps them until the commit, and not until the commit is read.
//!
//! *What waits.* Nobody for a reader.

mod change;
mod naming;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Mutex;
use std::time::Duration;

use sablecat_os::calendar::Moment;
use sablecat_os::clock;

use crate::env::databases::Databases;
use crate::env::mutex::lock;
use crate::error::{Error, Result};
use crate::log::{CommitOperations, LogOperation, LogTail, LoggedCommit, Reach};
use crate::txn::catalog::{self, CATALOG};
use crate::types::Lsn;
pub use change::Change;
use naming::{Backwards, Deed, TreeNames};

/// What is wanted of the log is said anew after so many bytes.
const HOLD_STEP: u64 = 64 << 10;

/// The changes of an environment, for readers that follow them.
#[derive(Debug)]
pub(crate) struct Streams {
    databases: Databases,
    /// The readers of the log, and from where on each reads.
    readers: Mutex<Readers>,
}

impl Streams {
    pub(in crate::env) fn new(databases: Databases) -> Streams {
        Streams { databases, readers: Mutex::default() }
    }
}

impl Deref for Streams {
    type Target = Databases;

    #[inline(always)]
    fn deref(&self) -> &Databases {
        &self.databases
    }
}

/// From where on the readers of this process want the log.
#[derive(Debug, Default)]
pub(in crate::env) struct Readers {
    wanted: BTreeMap<u64, Lsn>,
    next: u64,
}

/// Keeps the log from somewhere on, for one reader.
#[derive(Debug)]
struct Hold<'c> {
    streams: &'c Streams,
    number: u64,
    from: Lsn,
}

impl<'c> Hold<'c> {
    fn begin(streams: &'c Streams, from: Lsn) -> Result<Hold<'c>> {
        let number = {
            let mut readers = lock(&streams.readers);
            readers.next += 1;
            readers.next
        };
        let mut hold = Hold { streams, number, from: Lsn(u64::MAX) };
        hold.set(from)?;
        Ok(hold)
    }

    fn set(&mut self, from: Lsn) -> Result<()> {
        self.from = from;
        let mut readers = lock(&self.streams.readers);
        readers.wanted.insert(self.number, from);
        self.streams.want_log(&readers)
    }

    /// The log below is not needed any more.
    fn raise(&mut self, to: Lsn) -> Result<()> {
        if to.0 >= self.from.0.saturating_add(HOLD_STEP) { self.set(to) } else { Ok(()) }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if self.streams.kernel.pages.participants.is_inherited() {
            // In a child made by fork what is said is its parent's.
            return;
        }
        let mut readers = lock(&self.streams.readers);
        readers.wanted.remove(&self.number);
        // A process that was taken for dead says nothing any more, and need not.
        let _ = self.streams.want_log(&readers);
    }
}

impl Streams {
    /// Says from where on the readers want the log.
    fn want_log(&self, readers: &Readers) -> Result<()> {
        self.kernel.pages.want_log(readers.wanted.values().min().copied(), self.config.changes_lag_max)
    }

    /// The oldest place in the log that a stream can begin at.
    pub(crate) fn oldest_change(&self) -> Result<Lsn> {
        self.check_log()?;
        self.kernel.log.oldest_kept()
    }

    fn check_log(&self) -> Result<()> {
        if self.config.read_only || !self.kernel.log.keeps_records() {
            return Err(Error::invalid(
                "this environment has no log to read changes from: it is in memory alone, a Data Store, or \
                 open read-only",
            ));
        }
        self.check_own()
    }

    /// In a child made by fork the readers are its parent's.
    fn check_own(&self) -> Result<()> {
        if self.kernel.pages.participants.is_inherited() {
            return Err(Error::invalid(
                "these changes were begun by the process that this one was forked from; open the \
                 environment again in the child",
            ));
        }
        Ok(())
    }
}

/// The changes after a place in the log, as they come.
#[derive(Debug)]
pub(crate) struct Stream<'c> {
    streams: &'c Streams,
    reach: Reach,
    tail: LogTail<'c>,
    names: TreeNames,
    hold: Hold<'c>,
    /// Chunks below the second place will have no commit, once everything below the first has been passed.
    void: Option<(Lsn, Lsn)>,
    /// Where it began.
    began: Lsn,
    /// From here on there may be chunks before that, of commits to come; none: there are none.
    before: Option<Lsn>,
    /// What the present commit does about databases.
    deeds: Vec<Deed>,
    /// Everything at or below has been given, or cannot be seen.
    position: Lsn,
    /// An error came between two commits: it may be that the second was not given.
    failed: bool,
}

/// The changes of one commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitChanges<'s> {
    commit: LoggedCommit<'s>,
    stream: &'s Stream<'s>,
}

/// The changes of one commit, one after the other.
#[derive(Debug)]
pub(crate) struct ChangedRecords<'s> {
    deeds: std::slice::Iter<'s, Deed>,
    operations: CommitOperations<'s>,
    stream: &'s Stream<'s>,
}

impl<'c> Stream<'c> {
    /// The changes after `from`; none: after what has been committed by now.
    pub(crate) fn begin(streams: &'c Streams, from: Option<Lsn>, reach: Reach) -> Result<Stream<'c>> {
        streams.check_log()?;
        let kernel = &streams.kernel;
        kernel.log.fail_if_poisoned()?;
        let committed = || kernel.pages.newest();
        let open = kernel.pages.log_needed_from();
        // Before it is known what that is. A process that lets go of log, and has not seen this, needs no
        // more than what is committed by then.
        let mut hold = Hold::begin(streams, from.unwrap_or_else(committed).min(open))?;
        let from = from.unwrap_or_else(committed);
        let tail = kernel.log.tail_from(from, reach)?;
        let began = tail.at();
        let before = Some(hold.from).filter(|&before| before < began);
        hold.set(before.unwrap_or(began))?;
        let names = streams.names_at(began)?;
        Ok(Stream {
            streams,
            reach,
            tail,
            names,
            hold,
            void: None,
            began,
            before,
            deeds: Vec::new(),
            position: began,
            failed: false,
        })
    }

    /// Everything at or below has been given, or cannot be seen.
    pub(crate) fn position(&self) -> Lsn {
        self.position
    }

    /// Goes on to the next commit of which something can be seen. False if there is none yet. After an error
    /// it does not go on.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.failed {
            let position = self.position;
            return Err(Error::invalid(format!(
                "an earlier error ended the changes; begin them again, after LSN {position}"
            )));
        }
        self.failed = true;
        let is_there = self.advance_once()?;
        self.failed = false;
        // All that was passed before it cannot be seen.
        self.position = self.tail.at();
        Ok(is_there)
    }

    fn advance_once(&mut self) -> Result<bool> {
        self.streams.check_own()?;
        self.streams.kernel.pages.check_fence()?;
        loop {
            self.let_go()?;
            if !self.tail.advance()? {
                return Ok(false);
            }
            let Some(commit) = self.tail.commit() else { return Ok(false) };
            self.deeds = self.names.follow(&commit).map_err(|error| self.tail.explain(error))?;
            let is_seen = |tree| self.names.get(tree).is_some();
            if !self.deeds.is_empty()
                || commit.operations().next_of(is_seen).map_err(|error| self.tail.explain(error))?.is_some()
            {
                return Ok(true);
            }
        }
    }

    /// The same, waiting for it until the monotonic clock has come to `deadline` (none: however long it
    /// takes), or `stopped` says so.
    pub(crate) fn advance_until(
        &mut self,
        deadline: Option<Duration>,
        stopped: impl Fn() -> bool,
    ) -> Result<bool> {
        let kernel = &self.streams.kernel;
        loop {
            if stopped() {
                return Ok(false);
            }
            if self.advance()? {
                return Ok(true);
            }
            // What was reached before has been given. Nothing more will be.
            kernel.log.fail_if_poisoned()?;
            kernel.pages.fail_if_poisoned()?;
            let at = self.tail.at();
            let is_over = || deadline.is_some_and(|deadline| clock::monotonic() >= deadline);
            let log = &kernel.log;
            let is_ended = || {
                log.fail_if_poisoned().is_err()
                    || kernel.pages.fail_if_poisoned().is_err()
                    || kernel.pages.is_fenced()
            };
            let look = || (stopped() || log.reached(self.reach) > at || is_ended()).then_some(());
            if log.listen(self.reach, deadline, look).is_none() && is_over() {
                return Ok(false);
            }
        }
    }

    /// The commit that it has gone on to.
    pub(crate) fn changed(&self) -> Option<CommitChanges<'_>> {
        Some(CommitChanges { commit: self.tail.commit()?, stream: self })
    }

    /// Lets go of the log that is not needed any more.
    fn let_go(&mut self) -> Result<()> {
        let (at, needs) = (self.tail.at(), self.needs());
        if needs.0.saturating_add(HOLD_STEP) < at.0 {
            // Chunks that lie far behind may be of a transaction that gave up, or of a killed process.
            match self.void {
                None => {
                    let open = self.streams.kernel.pages.log_needed_from();
                    // In this order: what had its commit by then has it below this.
                    self.void = Some((self.streams.kernel.log.tail(), open));
                }
                Some((passed, open)) if at >= passed => {
                    self.tail.forget_chunks(open);
                    self.before =
                        self.before.map(|before| before.max(open)).filter(|&before| before < self.began);
                    self.void = None;
                }
                Some(_) => {}
            }
        }
        self.hold.raise(self.needs())
    }

    /// From where on the log is still needed, once the present commit is not.
    fn needs(&self) -> Lsn {
        self.before.map_or(self.tail.needs(), |before| before.min(self.tail.needs()))
    }
}

impl Streams {
    /// The names of databases at a place in the log.
    fn names_at(&self, from: Lsn) -> Result<TreeNames> {
        let (records, at) =
            self.read(|txn| Ok((catalog::records(&mut txn.records.committed())?, txn.records.at())))?;
        let later = TreeNames::of(records)?;
        // In this order: what was committed up to that state has raised it.
        // What ends a little above it may be the time that was logged with the commit that did.
        let (since, log) = (self.kernel.names_since(), &self.kernel.log);
        if from >= at || from.0 >= since.0 + log.stamp_bytes() as u64 && from >= log.life() {
            return Ok(later);
        }
        self.flush_log_to(at)?;
        let mut tail = log.tail_from(from, Reach::Written)?;
        let mut backwards = Backwards::default();
        while tail.advance()?
            && let Some(commit) = tail.commit().filter(|commit| commit.lsn <= at)
        {
            backwards.pass(&commit).map_err(|error| tail.explain(error))?;
        }
        Ok(backwards.before(later))
    }
}

impl<'s> CommitChanges<'s> {
    /// The commit's LSN.
    pub(crate) fn lsn(&self) -> Lsn {
        self.commit.lsn
    }

    /// When it was made, as far as the log says.
    pub(crate) fn time(&self) -> Option<Moment> {
        self.commit.time
    }

    /// What it changes, from the beginning.
    pub(crate) fn changes(&self) -> ChangedRecords<'s> {
        ChangedRecords {
            deeds: self.stream.deeds.iter(),
            operations: self.commit.operations(),
            stream: self.stream,
        }
    }
}

impl ChangedRecords<'_> {
    /// The next change.
    pub(crate) fn next(&mut self) -> Result<Option<Change<'_>>> {
        if let Some(deed) = self.deeds.next() {
            return Ok(Some(deed.as_change()));
        }
        let names = &self.stream.names;
        let is_seen = |tree| tree != CATALOG && names.get(tree).is_some();
        let operation = self.operations.next_of(is_seen).map_err(|error| self.stream.tail.explain(error))?;
        let of = |tree| names.get(tree).unwrap_or_default();
        Ok(operation.map(|operation| match operation {
            LogOperation::Put { tree, key, value } => Change::Insert { database: of(tree), key, value },
            LogOperation::Delete { tree, key } => Change::Remove { database: of(tree), key },
            LogOperation::DeleteRange { tree, lower, upper } => {
                Change::RemoveRange { database: of(tree), lower, upper }
            }
        }))
    }
}

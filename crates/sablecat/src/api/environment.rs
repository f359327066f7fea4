//! The environment's handle.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sablecat_os::clock;

use super::index::verify_indices;
use super::read::sealed::{Seen, State};
use super::within::{EnclosingWork, Within};
use super::{Builder, Changes, ChangesOptions, Database, KeyRange, Read, ReadTxn, Stats, Txn, TxnOptions};
use crate::access::{Each, Method};
use crate::env::{
    Asked, CheckpointReport, CompactReport, Core, Counters, EnvTxn, Process, Progress, RecordLock,
    RecoveryReport, VerifyReport, arranged,
};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Durability, Isolation, Options};
use crate::types::Lsn;

/// How often [`Env::write`] runs its work before it takes the environment to itself,
const RUNS_BEFORE_GATE: u32 = 4;
/// or after which part of the time that it has: so work that takes long gets its turn as well.
const TIME_BEFORE_GATE: u32 = 4;
/// How long a transaction that gave way in a deadlock lets others go on before it runs again; doubled each
/// time, up to a point.
const PAUSE_AFTER_DEADLOCK: Duration = Duration::from_micros(50);

/// An environment: a set of databases, which transactions span. A handle; clones name the same environment.
///
/// Dropping the last handle (each database holds one) closes the environment with a checkpoint.
/// [`Env::close`] does so too, and returns errors.
#[derive(Clone, Debug)]
pub struct Env {
    owner: Arc<Owner>,
}

/// Closes the environment when the last handle goes: only then can nobody commit after the last checkpoint.
#[derive(Debug)]
struct Owner {
    core: Arc<Core>,
    closed: bool,
}

impl Owner {
    fn close(&mut self) -> Result<()> {
        self.closed = true;
        self.core.close()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is left to tell. What was promised is in the log, and the next opening finds it there.
            let _ = self.close();
        }
    }
}

/// What became of the runs so far of a transaction's work.
#[derive(Debug, Default)]
struct Losses {
    /// How many were lost to others.
    runs: u32,
    /// How often it paused before the next.
    pauses: u32,
    /// When the first was: measured only then, since most win.
    since: Option<Duration>,
}

impl Losses {
    /// Undoes a run that was lost, and does for the next what may help it. False if there is to be none.
    fn may_run_again(&mut self, why: ErrorKind, txn: &mut Txn<'_>, time: Duration) -> bool {
        let now = clock::monotonic();
        let passed = now.saturating_sub(*self.since.get_or_insert(now));
        if passed >= time || why == ErrorKind::Timeout && txn.has_gate() {
            return false;
        }
        txn.give_up();
        if matches!(why, ErrorKind::Deadlock | ErrorKind::Timeout) {
            txn.release_locks();
            // The transaction that it gave way to must get the lock before this one takes it again.
            std::thread::sleep(PAUSE_AFTER_DEADLOCK * (1 << self.pauses.min(7)));
            self.pauses += 1;
        }
        if why == ErrorKind::Timeout {
            // The transaction that has the lock will not let go of it sooner because everybody else waits
            // too.
            return true;
        }
        self.runs += 1;
        let keeps_losing = self.runs >= RUNS_BEFORE_GATE || passed >= time / TIME_BEFORE_GATE;
        !keeps_losing || txn.take_gate(time - passed)
    }
}

impl State for Env {
    const HAS_MANY: bool = true;

    fn with<T>(&self, look: impl FnOnce(Seen<'_>) -> Result<T>) -> Result<T> {
        let patience = self.core().config.lock_timeout;
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: Durability::Memory,
            read_only: true,
            patience,
        };
        look(Seen(&EnvTxn::begin(self.core(), options)?))
    }
}

/// Each call sees the newest committed state; a range has a snapshot of its own.
impl Read for Env {
    type Of = Env;
    type Lasting<'a> = ReadTxn;

    fn lasting(&self) -> Result<ReadTxn> {
        self.snapshot()
    }

    fn existing_database(&self, name: &str) -> Result<Option<Database>> {
        Ok(self.core().database(name)?.map(|named| Database::new(self.clone(), named)))
    }

    fn databases(&self) -> Result<Vec<String>> {
        self.core().database_names()
    }

    fn get(&self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        db.named_in(self.core())?;
        db.get(key)
    }

    fn get_with<R>(
        &self,
        db: &Database,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        db.named_in(self.core())?;
        db.get_with(key, look)
    }

    fn value_len(&self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        db.named_in(self.core())?;
        db.value_len(key)
    }

    fn read_at(
        &self,
        db: &Database,
        key: impl AsRef<[u8]>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        db.named_in(self.core())?;
        db.read_at(key, offset, into)
    }

    fn fold_each<B>(&self, db: &Database, keys: impl KeyRange, initial: B, each: impl Each<B>) -> Result<B> {
        db.named_in(self.core())?;
        db.fold_each(keys, initial, each)
    }
}

impl Env {
    pub(super) fn new(core: Arc<Core>) -> Env {
        Env { owner: Arc::new(Owner { core, closed: false }) }
    }

    /// The engine behind it, for what must not keep it open.
    pub(super) fn weak(&self) -> Weak<Core> {
        Arc::downgrade(&self.owner.core)
    }

    #[inline]
    pub(super) fn core(&self) -> &Core {
        &self.owner.core
    }

    /// A builder: call its settings first, then [`Builder::open`] or [`Builder::in_memory`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens the environment in a directory with the defaults, creating it if need be, recovering it if it
    /// was not closed.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Env> {
        Self::builder().open(directory)
    }

    /// An environment in memory alone.
    ///
    /// # Errors
    /// As [`Builder::in_memory`].
    pub fn in_memory() -> Result<Env> {
        Self::builder().in_memory()
    }

    /// Opens a database, creating it if there is none of that name. Names have 1 to 48 bytes, and do not
    /// begin with a zero byte. Creation is a transaction of its own; to create a database together with its
    /// records, use [`Txn::database`].
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be, or for a database with a comparator that was not registered, or
    /// one that [holds](crate::Holds) something other than plain records; those of commits; `ReadOnly` if
    /// there is none and none can be created.
    pub fn database(&self, name: &str) -> Result<Database> {
        self.core().database_or_new(name, Asked::default()).map(|named| Database::new(self.clone(), named))
    }

    /// Opens or creates a database whose keys are ordered by a comparator that was registered with
    /// [`Builder::comparator`].
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` if the database exists with another order.
    pub fn database_ordered_by(&self, name: &str, comparator: &str) -> Result<Database> {
        self.core()
            .database_or_new(name, Asked::ordered_by(comparator))
            .map(|named| Database::new(self.clone(), named))
    }

    /// Opens a database, creating it with this access method if there is none of that name: see [`Method`]
    /// and [the guide](crate::guide::keys#hash-tables).
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` if the database exists with another access method.
    pub fn database_as(&self, name: &str, method: Method) -> Result<Database> {
        self.core()
            .database_or_new(name, Asked::arranged_as(method))
            .and_then(|named| arranged(named, method))
            .map(|named| Database::new(self.clone(), named))
    }

    /// Opens a database if there is one of that name, whatever it holds.
    ///
    /// # Errors
    /// As [`Env::database`].
    pub fn existing_database(&self, name: &str) -> Result<Option<Database>> {
        Read::existing_database(self, name)
    }

    /// The processes that have the environment open, and what each holds, read while all of them go on. For a
    /// private environment: this process.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        self.core().processes()
    }

    /// All record locks that transactions of all processes hold or wait for, read while all of them go on.
    /// Sorted by record, holders before waiters. A transaction takes a lock when it reads for update.
    #[must_use]
    pub fn locks(&self) -> Vec<RecordLock> {
        self.core().record_locks()
    }

    /// The names of all databases, in order.
    ///
    /// # Errors
    /// Those of reading.
    pub fn databases(&self) -> Result<Vec<String>> {
        Read::databases(self)
    }

    /// Gives a database another name, in a transaction of its own; for more, see [`Txn::rename_database`].
    /// Open handles stay good.
    ///
    /// # Errors
    /// `NotFound` if there is none of the first name, `Exists` if there is one of the second; those of
    /// commits.
    pub fn rename_database(&self, from: &str, to: &str) -> Result<()> {
        self.core().to_write()?.rename_database(from, to)
    }

    /// Removes a database with all its records, in a transaction of its own; for more, see
    /// [`Txn::remove_database`]. False if there was none. Handles to it then get `NotFound`, except in
    /// transactions whose snapshot is older. Its pages can be used again once no snapshot needs them.
    ///
    /// # Errors
    /// Those of commits.
    pub fn remove_database(&self, name: &str) -> Result<bool> {
        self.core().to_write()?.remove_database(name)
    }

    /// Begins a read-write transaction with the environment's isolation and durability. Dropped, it changes
    /// nothing.
    ///
    /// # Errors
    /// `TooMany` when more than a thousand transactions and operations are in progress; `ReadOnly`.
    pub fn begin(&self) -> Result<Txn<'_>> {
        self.begin_with(TxnOptions::default())
    }

    /// Begins a read-write transaction.
    ///
    /// # Errors
    /// As [`Env::begin`].
    pub fn begin_with(&self, options: TxnOptions) -> Result<Txn<'_>> {
        Txn::begin(self, options)
    }

    /// As [`Env::begin_with`], for a transaction that keeps the environment open itself, and borrows from
    /// nothing: it can be kept in a structure, or moved to another thread.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let db = env.database("letters")?;
    /// let mut txn = env.begin_owned(sablecat::TxnOptions::new())?;
    /// drop(env);
    /// txn.insert(&db, "a", "alpha")?;
    /// let committed = std::thread::spawn(move || txn.commit()).join().unwrap()?;
    /// assert!(db.env().snapshot()?.lsn() >= committed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Env::begin`].
    pub fn begin_owned(&self, options: TxnOptions) -> Result<Txn<'static>> {
        Txn::begin_owned(self.clone(), options)
    }

    /// Begins a read-only transaction: one unchanging state, for as long as it is kept. It keeps the old
    /// versions of pages that others change; when these fill the cache, the oldest snapshot gets
    /// `SnapshotTooOld`.
    ///
    /// # Errors
    /// As [`Env::begin`].
    pub fn snapshot(&self) -> Result<ReadTxn> {
        ReadTxn::begin(self)
    }

    /// Runs `work` in a transaction and commits it. After a conflict with another transaction everything is
    /// undone and `work` runs again, on a new snapshot. A transaction that keeps losing gets the environment
    /// to itself for a run, so each one gets through. It is retried for as long as
    /// [`TxnOptions::give_up_after`] says: a minute.
    ///
    /// `work` must change records through the transaction that it is given. Anything else that would commit
    /// records to the environment, begin a transaction on it or lock a record is refused in `work`
    /// ([`ErrorKind::NotAllowed`]), since the two would wait for each other; so is another `write`. Reading
    /// is allowed: but a [`Database::get`] in `work` sees the newest committed state, not the transaction's
    /// snapshot or its changes, and is not checked for conflicts at the commit; read through the transaction
    /// unless you want that. The environment's own methods for databases ([`Env::database`] and the like) are
    /// allowed too: they wait for no transaction. What they do is not undone with the transaction.
    ///
    /// `work` runs again if an operation of its transaction, or the commit, failed with a retryable error
    /// ([`Error::is_retryable`]), whatever `work` then returned. It does not run again for errors of other
    /// transactions, nor if it timed out waiting for a record lock ([`ErrorKind::Timeout`]) while it had the
    /// environment to itself.
    ///
    /// # Errors
    /// What `work` returns, unless it runs again; those of commits; `NotAllowed` within the `work` of another
    /// `write`.
    pub fn write<T>(&self, work: impl FnMut(&mut Txn<'_>) -> Result<T>) -> Result<T> {
        self.try_write(work)
    }

    /// As [`Env::write`], with options.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn write_with<T>(
        &self,
        options: TxnOptions,
        work: impl FnMut(&mut Txn<'_>) -> Result<T>,
    ) -> Result<T> {
        self.try_write_with(options, work)
    }

    /// As [`Env::write`], for work with its own error type: any type that can be made from an [`Error`]. If
    /// it returns an error, nothing of what it did is kept.
    ///
    /// ```
    /// #[derive(Debug)]
    /// enum Refusal {
    ///     TooLittle(u64),
    ///     Store(sablecat::Error),
    /// }
    ///
    /// impl From<sablecat::Error> for Refusal {
    ///     fn from(error: sablecat::Error) -> Refusal {
    ///         Refusal::Store(error)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Refusal> {
    /// # let env = sablecat::Env::in_memory()?;
    /// # let accounts = env.database("accounts")?;
    /// # accounts.insert("ada", 70u64.to_be_bytes())?;
    /// let paid = env.try_write(|txn| {
    ///     let have = txn.get(&accounts, "ada")?;
    ///     let have = have.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes")));
    ///     let left = have.checked_sub(100).ok_or(Refusal::TooLittle(have))?;
    ///     txn.insert(&accounts, "ada", left.to_be_bytes())?;
    ///     Ok(left)
    /// });
    /// assert!(matches!(paid, Err(Refusal::TooLittle(70))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn try_write<T, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Txn<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.try_write_with(TxnOptions::default(), work)
    }

    /// As [`Env::try_write`], with options.
    ///
    /// # Errors
    /// As [`Env::write`].
    pub fn try_write_with<T, E: From<Error>>(
        &self,
        options: TxnOptions,
        mut work: impl FnMut(&mut Txn<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let made = self.write_until(options, None, |txn| work(txn).map(Some))?;
        Ok(made.expect("work that always makes something is never waited for"))
    }

    /// Runs `work` in a transaction and commits it, again when others get in the way; or, if it makes
    /// nothing, when something that it has read may have changed, until the monotonic clock has come to
    /// `deadline` (none: never), and then nothing is made.
    pub(super) fn write_until<T, E: From<Error>>(
        &self,
        options: TxnOptions,
        deadline: Option<Duration>,
        mut work: impl FnMut(&mut Txn<'_>) -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<Option<T>, E> {
        let mut txn = self.begin_with(options)?;
        let mut losses = Losses::default();
        loop {
            let within = Within::begin(self.core(), EnclosingWork::Write(txn.slot()));
            let made = work(&mut txn);
            drop(within);
            let outcome = match made {
                Ok(None) if txn.lost().is_none() => {
                    if !txn.wait_for_change(deadline)? {
                        return Ok(None);
                    }
                    losses = Losses::default();
                    txn.restart();
                    continue;
                }
                // What it found may be no state at all.
                Ok(None) => Err(E::from(txn.lost_error())),
                made => made.and_then(|made| Ok(txn.commit_once().map(|_| made)?)),
            };
            match txn.lost() {
                Some(why)
                    if outcome.is_err() && losses.may_run_again(why, &mut txn, options.time_to_repeat()) =>
                {
                    txn.restart()
                }
                _ => return outcome,
            }
        }
    }

    /// The durable commits after an LSN, as they come, from all processes: see [`Changes`]. `after` is the
    /// LSN of the last commit that was processed, from [`Commit::lsn`](super::Commit::lsn) or
    /// [`Changes::position`]; it stays valid when the environment is closed and opened again.
    ///
    /// The log from there on is kept for as long as the `Changes` exist, unless they lag too far behind
    /// ([`Builder::changes_lag_max`]). Across a close or a crash of all processes, and while no reader
    /// follows, it is kept only by a journal ([`Builder::journal`]), as far back as that reaches.
    ///
    /// # Errors
    /// `LogGone` if the log is not kept from there on; or does not lead from there to the present, because a
    /// crash lost those commits, which were not durable, or the environment was taken back to an earlier
    /// time. `Invalid` if no commit ends there, and for an environment in memory alone or read-only.
    /// `Poisoned`, `Io`, `Corruption`; those of reading.
    pub fn changes(&self, after: Lsn) -> Result<Changes> {
        self.changes_with(after, ChangesOptions::default())
    }

    /// As [`Env::changes`], with options.
    ///
    /// # Errors
    /// As [`Env::changes`].
    pub fn changes_with(&self, after: Lsn, options: ChangesOptions) -> Result<Changes> {
        Changes::begin(self, Some(after), options)
    }

    /// The commits from now on: see [`Changes`], which says how to begin with a copy.
    ///
    /// # Errors
    /// As [`Env::changes`].
    pub fn changes_from_now(&self, options: ChangesOptions) -> Result<Changes> {
        Changes::begin(self, None, options)
    }

    /// The least LSN that [`Env::changes`] accepts at present: the beginning of the log that is kept.
    ///
    /// # Errors
    /// As [`Env::changes`].
    pub fn oldest_change(&self) -> Result<Lsn> {
        self.core().oldest_change()
    }

    /// Makes everything committed so far durable, at whatever rung (durability level) it was committed.
    ///
    /// # Errors
    /// `NotDurable` if there is no room or no file descriptor for that: call it again later. `Poisoned` if a
    /// write or flush of the log failed, now or before.
    pub fn sync(&self) -> Result<()> {
        self.core().sync()
    }

    /// The LSN of the newest commit that is visible to all. LSNs of commits rise.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        let pages = &self.core().kernel.pages;
        pages.lsn_of(pages.newest())
    }

    /// Makes everything committed at or below an LSN durable, at whatever rung; costs nothing if it is
    /// durable already. Flushes the log, or waits for another flush that does it.
    ///
    /// # Errors
    /// As [`Env::sync`]; `Invalid` for an LSN above [`Env::lsn`], which is not visible yet: see
    /// [`Env::wait_visible`].
    pub fn make_durable(&self, lsn: Lsn) -> Result<()> {
        self.core().make_durable(lsn)
    }

    /// Waits until new transactions in this process see what was committed at an LSN. A commit of a process
    /// that shares the environment is visible as soon as it has returned; in a
    /// [read-only](Builder::read_only) environment, once it is in a checkpoint.
    ///
    /// # Errors
    /// `Timeout` if `time` has passed; those of reading superblocks.
    pub fn wait_visible(&self, lsn: Lsn, time: Duration) -> Result<()> {
        self.core().wait_visible(lsn, time)
    }

    /// Writes a checkpoint, from which recovery begins. Others go on reading and writing. Durable when it
    /// returns.
    ///
    /// When more than a quarter of the volume is free, it also moves some pages towards the beginning of the
    /// file and cuts off free space at the end: so after deletions the file shrinks with every checkpoint.
    ///
    /// # Errors
    /// `DiskFull` (nothing is lost; it may be tried again); `Poisoned` when a write or flush failed.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        self.core().to_write()?.checkpoint(false)
    }

    /// Runs one round of housekeeping (background maintenance): finishes the work of processes that died,
    /// writes the log to the operating system, flushes it, writes a checkpoint, and removes expired records,
    /// each if it is due. For a program that opened the environment with [`Builder::background`] off, because
    /// it may not have threads: call it about every flush interval. Does nothing while another process does
    /// the housekeeping.
    ///
    /// # Errors
    /// Those of [`Env::sync`] and [`Env::checkpoint`]. The next call tries again what can be tried again.
    pub fn keep_house(&self) -> Result<()> {
        self.core().to_write()?.keep_house()
    }

    /// Makes the volume as small as it can be without changing trees. Frees unreachable pages, which are left
    /// when a process is killed in a bulk load, in a large commit or while it removes a database; then moves
    /// all pages to the beginning of the file and cuts the file off behind them, by a series of checkpoints.
    /// Others go on reading and writing; what they free meanwhile may stay until the next time. During a bulk
    /// load, only the pages that killed processes have left notes of are freed. Waits for large commits in
    /// progress to databases in which something is to be freed. Reads everything once.
    ///
    /// Also frees the page numbers and blocks that killed processes had taken and not used yet. For that it
    /// waits some seconds for other processes that are busy with such; if they stay busy, none are freed: see
    /// [`CompactReport::undecided`].
    ///
    /// # Errors
    /// As [`Env::checkpoint`].
    pub fn compact(&self) -> Result<CompactReport> {
        self.core().to_write()?.compact()
    }

    /// Statistics of the environment.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn stats(&self) -> Result<Stats> {
        Stats::of(self.core())
    }

    /// What all processes that have the environment open have done since the first of them opened it. Takes
    /// microseconds, and never waits. For a [read-only](Builder::read_only) environment: what this process
    /// has done.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// let env = sablecat::Env::in_memory()?;
    /// let db = env.database("d")?;
    /// let before = env.counters();
    /// db.insert("key", "value")?;
    /// assert_eq!(env.counters().commits - before.commits, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.core().counters()
    }

    /// Checks every invariant of pages, trees, map and catalog, at one snapshot, while others work. If these
    /// are sound, then checks at another snapshot that indices agree with their primaries, as
    /// [`Index::verify`](super::Index::verify) does, if their extractors are registered. Reads everything.
    ///
    /// # Errors
    /// Those that prevent checking; the problems that are found are in the report.
    pub fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport> {
        let mut report = self.core().verify(progress)?;
        if report.problems.is_empty() {
            verify_indices(self, &mut report)?;
        }
        Ok(report)
    }

    /// What opening the environment found and did.
    pub fn recovery(&self) -> RecoveryReport {
        self.core().recovery
    }

    /// Closes the environment with a last checkpoint. This must be its last handle: each clone and each
    /// database is a handle of it.
    ///
    /// # Errors
    /// `InUse` if other handles are left: a checkpoint has been written, and the environment stays open until
    /// the last of them is dropped, which closes it. Those of [`Env::checkpoint`].
    pub fn close(self) -> Result<()> {
        let shared = match Arc::try_unwrap(self.owner) {
            Ok(mut owner) => return owner.close(),
            Err(shared) => shared,
        };
        if !shared.core.config.read_only {
            shared.core.checkpoint(false)?;
        }
        let left = Arc::strong_count(&shared) - 1;
        if let Some(mut owner) = Arc::into_inner(shared) {
            // The last of the others was dropped meanwhile.
            return owner.close();
        }
        Err(Error::new(
            ErrorKind::InUse,
            format!(
                "{left} other handles of the environment are left (clones, databases); the environment \
                 stays open until the last of them is dropped"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Env, Result};

    #[test]
    fn pages_are_counted_whatever_they_are_latched_for() -> Result<()> {
        let env = Env::in_memory()?;
        env.database("d")?.insert("key", "value")?;
        let core = env.core();
        let pages = &core.kernel.pages;
        let me = pages.participants.sit()?;
        let latched = || {
            core.processes()
                .iter()
                .flat_map(|process| &process.participants)
                .map(|one| (one.slot, one.pages_latched))
                .max_by_key(|one| one.1)
        };
        assert_eq!(latched().map(|one| one.1), Some(0));
        // As a sweep does: not for a commit, whose list would say so.
        let _hand = me.in_hand();
        let taken = [pages.allocate_page()?, pages.allocate_page()?];
        for page in taken {
            pages.keep_latched(page, &me);
        }
        assert_eq!(latched(), Some((me.number(), 2)));
        taken.iter().for_each(|&page| pages.let_go_of(page, &me));
        assert_eq!(latched().map(|one| one.1), Some(0));
        Ok(())
    }
}

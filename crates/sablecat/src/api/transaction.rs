//! Transactions.

use std::cell::Cell;
use std::ops::{ControlFlow, RangeBounds};
use std::time::Duration;

use super::range::Lender;
use super::{Database, Env, Range, owned_bounds, visit, within};
use crate::access::btree::Scan;
use crate::env::EnvTxn;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Durability, Isolation, Options, Position, Transaction, TreeRef};
use crate::types::Lsn;

/// How a transaction differs from the environment's defaults.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct TxnOptions {
    isolation: Option<Isolation>,
    durability: Option<Durability>,
    lock_timeout: Option<Duration>,
    give_up_after: Option<Duration>,
}

/// How long [`Env::write`] goes on, unless something else was asked for.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

impl TxnOptions {
    /// The environment's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the transaction is protected from.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// What its commit promises.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How long it waits for a record lock.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = Some(timeout);
        self
    }

    /// How long [`Env::write`] runs its work again when others got in the way: once this has passed since it was first undone, the error is
    /// returned. Zero: it runs once. A single run may take longer, and is not interrupted. A matter of `write` and its kin alone; who begins a
    /// transaction by hand decides. Default: one minute.
    pub fn give_up_after(mut self, time: Duration) -> Self {
        self.give_up_after = Some(time);
        self
    }

    /// For how long the work is run again.
    pub(super) fn time_to_repeat(&self) -> Duration {
        self.give_up_after.unwrap_or(GIVE_UP_AFTER)
    }

    fn resolve(self, env: &Env) -> Options {
        let config = &env.core().config;
        Options {
            isolation: self.isolation.unwrap_or(config.isolation),
            durability: self.durability.unwrap_or(config.durability),
            read_only: false,
            patience: self.lock_timeout.unwrap_or(config.lock_timeout),
        }
    }
}

/// A read-write transaction. It sees one state of the environment, with its own changes over it; nobody sees these before it commits.
/// Dropped without [`Txn::commit`], it changes nothing.
///
/// Its changes are kept in memory until then, or, when they are many, in files that go with it. It may move between threads, but is never used by two at once:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<sablecat::Txn<'_>>();
/// ```
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// # let db = env.database("stock")?;
/// let mut txn = env.begin()?;
/// txn.insert(&db, "apples", "3")?;
/// let before_pears = txn.savepoint();
/// txn.insert(&db, "pears", "5")?;
/// txn.rollback_to(&before_pears)?;
/// txn.commit()?;
/// assert_eq!(db.get("apples")?.as_deref(), Some(&b"3"[..]));
/// assert_eq!(db.get("pears")?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Txn<'env> {
    env: &'env Env,
    durability: Durability,
    inner: EnvTxn<'env>,
    /// What the last of its operations that another run may not meet with failed by.
    lost: Cell<Option<ErrorKind>>,
}

/// A range's view of a transaction.
struct Lent<'t, 'env> {
    records: &'t mut Transaction<'env>,
    lost: &'t Cell<Option<ErrorKind>>,
}

impl Lender for Lent<'_, '_> {
    fn next(&mut self, tree: &TreeRef, scan: &mut Scan, forward: bool) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        noted(self.lost, self.records.next(tree, scan, forward))
    }
}

/// The result of one of the transaction's operations, of which it remembers whether it is a reason to run again.
#[inline]
fn noted<T>(lost: &Cell<Option<ErrorKind>>, result: Result<T>) -> Result<T> {
    if let Err(error) = &result
        && error.is_retryable()
    {
        lost.set(Some(error.kind()));
    }
    result
}

/// A place in a transaction to roll back to: see [`Txn::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(Position);

impl<'env> Txn<'env> {
    pub(super) fn begin(env: &'env Env, options: TxnOptions) -> Result<Txn<'env>> {
        let options = options.resolve(env);
        let core = env.core().to_write()?;
        within::refuse_around(core, None, None, || "beginning a transaction".to_owned())?;
        Ok(Txn { env, durability: options.durability, inner: EnvTxn::begin(core, options)?, lost: Cell::new(None) })
    }

    /// Opens a database, creating it if there is none of that name. A new one is part of the transaction: others find it, empty or with the
    /// records that the transaction puts into it, once that has committed, and never if it does not.
    ///
    /// The handle of a new one is good in this transaction at once, everywhere after the commit, and nowhere if the creation is undone. Creating
    /// takes a small commit at once, of which nobody sees anything, and two changes of the catalog in the transaction's own.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let orders = env.write(|txn| {
    ///     let orders = txn.database("orders of 2026")?;
    ///     txn.insert(&orders, "1", "two chairs")?;
    ///     let years = txn.database("years")?;
    ///     txn.insert(&years, "2026", "orders of 2026")?;
    ///     Ok(orders)
    /// })?;
    /// assert_eq!(orders.get("1")?.as_deref(), Some(&b"two chairs"[..]));
    ///
    /// let mut txn = env.begin()?;
    /// txn.database("orders of 2027")?;
    /// txn.abort();
    /// assert_eq!(env.databases()?, ["orders of 2026", "years"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be, or for a database with a comparator that was not registered; `Full` for a full disk or cache; as
    /// [`Txn::get`]. Of two transactions that create a database of one name, the second to commit gets a `Conflict` at any isolation; run again,
    /// it finds the database there.
    pub fn database(&mut self, name: &str) -> Result<Database> {
        noted(&self.lost, self.inner.database_or_new(name, None)).map(|named| Database::new(self.env.clone(), named))
    }

    /// Opens or creates, as [`Txn::database`] does, a database whose keys are ordered by a comparator that was registered with
    /// [`Builder::comparator`](super::Builder::comparator).
    ///
    /// # Errors
    /// As [`Txn::database`]; `Invalid` if the database exists with another order.
    pub fn database_ordered_by(&mut self, name: &str, comparator: &str) -> Result<Database> {
        noted(&self.lost, self.inner.database_or_new(name, Some(comparator))).map(|named| Database::new(self.env.clone(), named))
    }

    /// Opens a database if the transaction sees one of that name.
    ///
    /// # Errors
    /// As [`Txn::database`].
    pub fn existing_database(&mut self, name: &str) -> Result<Option<Database>> {
        Ok(noted(&self.lost, self.inner.database(name))?.map(|named| Database::new(self.env.clone(), named)))
    }

    /// The names of all databases that the transaction sees, in order.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn databases(&mut self) -> Result<Vec<String>> {
        noted(&self.lost, self.inner.database_names())
    }

    /// Gives a database another name, as part of the transaction. Handles stay good.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// # env.database("prices")?.insert("tea", "4")?;
    /// // A new version takes the place of the old one; nobody ever sees none, or half of one.
    /// env.write(|txn| {
    ///     let new = txn.database("prices.new")?;
    ///     txn.insert(&new, "tea", "5")?;
    ///     txn.remove_database("prices")?;
    ///     txn.rename_database("prices.new", "prices")
    /// })?;
    /// assert_eq!(env.database("prices")?.get("tea")?.as_deref(), Some(&b"5"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is none of the first name, `Exists` if there is one of the second; `Invalid` for a name that cannot be; as
    /// [`Txn::get`]. The commit gets a `Conflict` if another transaction has changed what one of the names stands for.
    pub fn rename_database(&mut self, from: &str, to: &str) -> Result<()> {
        noted(&self.lost, self.inner.rename_database(from, to))
    }

    /// Removes a database with all its records, as part of the transaction; false if there is none. From then on handles to it get `NotFound` in
    /// this transaction, and everywhere once it has committed, but in transactions with an older snapshot.
    ///
    /// Removing costs the same however large the database is. Its pages are freed by the commit, after it is visible.
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be; as [`Txn::get`]. The commit gets a `Conflict` if another transaction has changed what the name stands
    /// for.
    pub fn remove_database(&mut self, name: &str) -> Result<bool> {
        noted(&self.lost, self.inner.remove_database(name))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Corruption` and `Io` from reading pages; `SnapshotTooOld`; `Invalid` for a database of another environment; `NotFound` for one that was
    /// removed, or that the transaction's snapshot does not have; `NotAllowed` for one that another transaction is only just creating.
    pub fn get(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let tree = self.tree(db)?;
        noted(&self.lost, self.inner.records.get_owned(tree, key.as_ref()))
    }

    /// Shows the value of a key to `look`, in place.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get_with<R>(&mut self, db: &Database, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let tree = self.tree(db)?;
        noted(&self.lost, self.inner.records.get(tree, key, look))
    }

    /// Locks the record and reads it. Until the transaction ends, nobody else locks it: so nobody else who reads it *for update* changes it.
    /// Waits for whoever holds the lock.
    ///
    /// # Errors
    /// `Timeout`, `Deadlock`; `Conflict` if the record was changed since the transaction first read or wrote something; as [`Txn::get`].
    pub fn get_for_update(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let tree = self.tree(db)?;
        within::refuse_around(self.env.core(), None, Some(self.slot()), || format!("locking a record of the database {:?}", db.name()))?;
        noted(&self.lost, self.inner.records.lock(tree, key.as_ref()))?;
        self.get(db, key)
    }

    /// Whether there is a record with this key.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn contains_key(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<bool> {
        self.value_len(db, key).map(|len| len.is_some())
    }

    /// How many bytes the value of a key has, without reading it; none if there is no record.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn value_len(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let tree = self.tree(db)?;
        noted(&self.lost, self.inner.records.value_len(tree, key.as_ref()))
    }

    /// Reads part of a value: see [`Database::read_at`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn read_at(&mut self, db: &Database, key: impl AsRef<[u8]>, offset: u64, into: &mut [u8]) -> Result<Option<usize>> {
        let tree = self.tree(db)?;
        noted(&self.lost, self.inner.records.read_at(tree, key.as_ref(), offset, into))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `Invalid` for a key or value that is too long, or a database of another environment.
    pub fn insert(&mut self, db: &Database, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let tree = self.tree(db)?;
        self.inner.records.set(tree, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a record; false if there is none.
    ///
    /// # Errors
    /// As [`Txn::get`] and [`Txn::insert`].
    pub fn remove(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<bool> {
        let there = self.contains_key(db, key.as_ref())?;
        if there {
            let tree = self.tree(db)?;
            self.inner.records.set(tree, key.as_ref(), None)?;
        }
        Ok(there)
    }

    /// The record with the least key.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn first(&mut self, db: &Database) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range::<&[u8]>(db, ..)?.next().transpose()
    }

    /// The record with the greatest key.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn last(&mut self, db: &Database) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range::<&[u8]>(db, ..)?.next_back().transpose()
    }

    /// The records between two bounds, its own changes included, in order, from either end.
    ///
    /// # Errors
    /// `Invalid` for a database of another environment. Each record comes as a result, with the errors of [`Txn::get`].
    pub fn range<K: AsRef<[u8]>>(&mut self, db: &Database, bounds: impl RangeBounds<K>) -> Result<Range<'_>> {
        let tree = self.tree(db)?;
        Ok(Range::lent(Lent { records: &mut self.inner.records, lost: &self.lost }, tree, owned_bounds(&bounds)))
    }

    /// The records whose keys begin with `prefix`: see [`Database::prefix`].
    ///
    /// # Errors
    /// As [`Txn::range`]; `Invalid` for a database that is ordered by a comparator.
    pub fn prefix(&mut self, db: &Database, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        let tree = self.tree(db)?;
        let bounds = db.prefix_bounds(prefix.as_ref())?;
        Ok(Range::lent(Lent { records: &mut self.inner.records, lost: &self.lost }, tree, bounds))
    }

    /// Marks this place, to roll back to.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint(self.inner.records.position())
    }

    /// Undoes all changes made since a savepoint, of records and of which databases there are. The savepoint stays: more changes may be made, and
    /// undone again. Savepoints taken since it are gone.
    ///
    /// # Errors
    /// `Invalid`, and nothing is undone: for a savepoint of another transaction, or of an earlier run of this one; for one that is gone; in
    /// [`Txn::nested`], for one from before it.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.inner.roll_back_to(savepoint.0)
    }

    /// Runs `work` as a transaction within this one: if it fails, what it changed is undone, and this transaction may go on.
    ///
    /// # Errors
    /// What `work` returns.
    pub fn nested<T>(&mut self, work: impl FnOnce(&mut Txn<'env>) -> Result<T>) -> Result<T> {
        self.try_nested(work)
    }

    /// As [`Txn::nested`], for work with errors of its own, as of [`Env::try_write`].
    ///
    /// # Errors
    /// As [`Txn::nested`].
    pub fn try_nested<T, E: From<Error>>(
        &mut self,
        work: impl FnOnce(&mut Txn<'env>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let before = self.savepoint();
        let kept = self.inner.records.keep();
        let nested = Nested { txn: self, before, kept };
        let made = work(nested.txn)?;
        nested.stands();
        Ok(made)
    }

    /// Commits. When it returns, everybody who begins sees the changes, and they are as durable as the transaction's
    /// [`Durability`] says. Blocks for a flush at [`Durability::Sync`].
    ///
    /// # Errors
    /// `Conflict` if another transaction got in the way: nothing was changed, run it again. `Poisoned` after a failed flush: the changes are
    /// visible but may not survive; reopen the environment. `NotDurable`: the changes are visible, and will be durable once a later sync or commit
    /// finds room; do not run it again. `Full` for a full disk or cache: nothing was changed.
    pub fn commit(mut self) -> Result<()> {
        self.commit_once()
    }

    /// Commits with another rung of durability.
    ///
    /// # Errors
    /// As [`Txn::commit`].
    pub fn commit_with(mut self, durability: Durability) -> Result<()> {
        self.durability = durability;
        self.commit_once()
    }

    /// Drops the transaction and its changes.
    pub fn abort(self) {}

    /// Refuses to commit where that would be around what this thread is in the middle of.
    fn refuse_within(&self) -> Result<()> {
        if !within::any() {
            return Ok(());
        }
        let slot = Some(self.slot());
        let mut trees = self.inner.records.trees();
        trees.try_for_each(|tree| within::refuse_around(self.env.core(), Some(tree), slot, || "committing another transaction".to_owned()))
    }

    pub(super) fn commit_once(&mut self) -> Result<()> {
        self.refuse_within()?;
        noted(&self.lost, self.inner.commit(self.durability)).map(|_| ())
    }

    /// The slot it has, by which it is known while it is in progress.
    pub(super) fn slot(&self) -> u16 {
        self.inner.records.number()
    }

    /// Why it should run again: the last failure of one of its operations that another run may not meet with.
    pub(super) fn lost(&self) -> Option<ErrorKind> {
        self.lost.get()
    }

    pub(super) fn give_up(&mut self) {
        self.lost.set(None);
        self.inner.give_up();
    }

    pub(super) fn restart(&mut self) {
        self.inner.records.restart();
    }

    pub(super) fn release_locks(&mut self) {
        self.inner.records.release_locks();
    }

    /// Whether it has the environment to itself.
    pub(super) fn has_gate(&self) -> bool {
        self.inner.records.has_gate()
    }

    /// Takes the environment to itself, if it can within the time given.
    pub(super) fn take_gate(&mut self, time: Duration) -> bool {
        self.inner.records.take_gate(time)
    }

    #[inline]
    fn tree<'d>(&self, db: &'d Database) -> Result<&'d TreeRef> {
        noted(&self.lost, self.inner.tree(db.named_in(self.env)?))
    }
}

/// A transaction within a transaction. Dropped without [`Nested::stands`], as when its work panics, what it changed is undone.
struct Nested<'t, 'env> {
    txn: &'t mut Txn<'env>,
    before: Savepoint,
    /// What the transaction around it keeps from being rolled back.
    kept: usize,
}

impl Nested<'_, '_> {
    fn stands(mut self) {
        self.before = self.txn.savepoint();
    }
}

impl Drop for Nested<'_, '_> {
    fn drop(&mut self) {
        self.txn.inner.records.keep_only(self.kept);
        // Nobody could roll back over it meanwhile. It fails if the transaction was exchanged for another one, which has none of the changes.
        let _ = self.txn.rollback_to(&self.before);
    }
}

/// A read-only transaction: one unchanging state of the environment.
#[derive(Debug)]
pub struct ReadTxn<'env> {
    txn: Txn<'env>,
}

impl<'env> ReadTxn<'env> {
    pub(super) fn begin(env: &'env Env) -> Result<ReadTxn<'env>> {
        let options = Options { isolation: Isolation::Snapshot, read_only: true, ..TxnOptions::default().resolve(env) };
        let inner = EnvTxn::begin(env.core(), options)?;
        Ok(ReadTxn { txn: Txn { env, durability: options.durability, inner, lost: Cell::new(None) } })
    }

    /// Opens a database if there is one of that name in this state. It can be read in this transaction although it has been removed since.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// # env.database("drafts")?.insert("1", "Dear all")?;
    /// let mut snapshot = env.snapshot()?;
    /// env.remove_database("drafts")?;
    /// let drafts = snapshot.existing_database("drafts")?.expect("it was there");
    /// assert_eq!(snapshot.get(&drafts, "1")?.as_deref(), Some(&b"Dear all"[..]));
    /// assert!(drafts.get("1").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be, or for a database with a comparator that was not registered; as [`Txn::get`].
    pub fn existing_database(&mut self, name: &str) -> Result<Option<Database>> {
        self.txn.existing_database(name)
    }

    /// The names of all databases in this state, in order.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn databases(&mut self) -> Result<Vec<String>> {
        self.txn.databases()
    }

    /// The LSN whose state it sees.
    pub fn lsn(&self) -> Lsn {
        self.txn.env.core().kernel.pages.lsn_of(self.txn.inner.records.at())
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.txn.get(db, key)
    }

    /// Shows the value of a key to `look`, in place.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get_with<R>(&mut self, db: &Database, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.txn.get_with(db, key, look)
    }

    /// How many bytes the value of a key has, without reading it; none if there is no record.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn value_len(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.txn.value_len(db, key)
    }

    /// Reads part of a value: see [`Database::read_at`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn read_at(&mut self, db: &Database, key: impl AsRef<[u8]>, offset: u64, into: &mut [u8]) -> Result<Option<usize>> {
        self.txn.read_at(db, key, offset, into)
    }

    /// The record with the least key.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn first(&mut self, db: &Database) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.txn.first(db)
    }

    /// The record with the greatest key.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn last(&mut self, db: &Database) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.txn.last(db)
    }

    /// The records between two bounds, in order, from either end.
    ///
    /// # Errors
    /// As [`Txn::range`].
    pub fn range<K: AsRef<[u8]>>(&mut self, db: &Database, bounds: impl RangeBounds<K>) -> Result<Range<'_>> {
        self.txn.range(db, bounds)
    }

    /// The records whose keys begin with `prefix`: see [`Database::prefix`].
    ///
    /// # Errors
    /// As [`Txn::range`]; `Invalid` for a database that is ordered by a comparator.
    pub fn prefix(&mut self, db: &Database, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.txn.prefix(db, prefix)
    }

    /// Shows all records between two bounds to `each`, in order and in place: see [`Database::visit`].
    ///
    /// # Errors
    /// As [`Txn::range`].
    pub fn visit<K: AsRef<[u8]>>(
        &mut self,
        db: &Database,
        bounds: impl RangeBounds<K>,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.fold(db, bounds, (), |(), key, value| each(key, value))
    }

    /// Folds all records between two bounds into one value, in order and in place: see [`Database::fold`].
    ///
    /// # Errors
    /// As [`Txn::range`].
    pub fn fold<B, K: AsRef<[u8]>>(
        &mut self,
        db: &Database,
        bounds: impl RangeBounds<K>,
        initial: B,
        each: impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
    ) -> Result<B> {
        let tree = self.txn.tree(db)?;
        visit::fold(self.txn.inner.records.committed(), tree, owned_bounds(&bounds), initial, each)
    }
}

//! Transactions.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use super::kept::Kept;
use super::read::reading;
use super::read::sealed::{Seen, State};
use super::write::{goes_singly, remove_each, writing};
use super::{Database, Env, KeyRange, Range, Read, Record, TxnOptions, Write, within};
use crate::access::Method;
use crate::env::{Asked, EnvTxn, Written, arranged};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Durability, IndexInfo, Position, Transaction, TreeRef};
use crate::types::{Content, Lsn};

/// A read-write transaction. It sees one state of the environment, with its own changes over it; no other
/// transaction sees these before it commits. Dropped without [`Txn::commit`], it changes nothing.
///
/// Its changes are kept in memory until then or, if they are many, in a file that is removed with it. It may
/// move between threads, but only one can use it at a time. One that [`Env::begin_owned`] begins, a
/// `Txn<'static>`, keeps the environment open and borrows from nothing:
///
/// ```
/// fn sent<T: Send + 'static>() {}
/// sent::<sablecat::Txn<'static>>();
/// ```
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
pub struct Txn<'env> {
    durability: Durability,
    inner: Kept<'env, EnvTxn<'env>>,
    /// What the last of its operations that another run may not meet with failed by.
    lost: Cell<Option<ErrorKind>>,
}

impl State for Txn<'_> {
    #[inline]
    fn with<T>(&self, look: impl FnOnce(Seen<'_>) -> Result<T>) -> Result<T> {
        noted(&self.lost, look(Seen(&self.inner)))
    }
}

impl<'env> Read for Txn<'env> {
    type Of = Env;
    type Lasting<'a>
        = &'a Txn<'env>
    where
        Self: 'a;

    fn lasting(&self) -> Result<&Txn<'env>> {
        Ok(self)
    }

    fn existing_database(&self, name: &str) -> Result<Option<Database>> {
        Ok(noted(&self.lost, self.inner.database(name))?
            .map(|named| Database::new(self.env().clone(), named)))
    }

    fn databases(&self) -> Result<Vec<String>> {
        noted(&self.lost, self.inner.database_names())
    }
}

impl Write for Txn<'_> {
    fn insert(&mut self, db: &Database, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.insert(db, key, value)
    }

    fn insert_found_absent(
        &mut self,
        db: &Database,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let tree = self.tree_to_write(db)?;
        self.inner.records.claim_found(&tree, key.as_ref(), None);
        noted(&self.lost, self.inner.records.set(&tree, key.as_ref(), Some(value.as_ref())))
    }

    fn insert_found(
        &mut self,
        db: &Database,
        key: impl AsRef<[u8]>,
        found: &[u8],
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let tree = self.tree_to_write(db)?;
        self.inner.records.claim_found(&tree, key.as_ref(), Some(found));
        noted(&self.lost, self.inner.records.set(&tree, key.as_ref(), Some(value.as_ref())))
    }

    fn remove(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<bool> {
        self.remove(db, key)
    }

    fn remove_range(&mut self, db: &Database, keys: impl KeyRange) -> Result<u64> {
        let (tree, bounds) = (self.tree_to_write(db)?, db.bounds(&keys)?);
        if goes_singly(&tree, &bounds) {
            return remove_each(self, db, keys);
        }
        noted(&self.lost, self.inner.records.remove_range(&tree, bounds))
    }
}

/// The result of one of the transaction's operations, of which it remembers whether it is a reason to run
/// again.
#[inline]
fn noted<T>(lost: &Cell<Option<ErrorKind>>, result: Result<T>) -> Result<T> {
    if let Err(error) = &result
        && error.is_retryable()
    {
        lost.set(Some(error.kind()));
    }
    result
}

impl fmt::Debug for Txn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn").field("inner", &*self.inner).finish_non_exhaustive()
    }
}

/// A point in a transaction to roll back to: see [`Txn::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(Position);

impl Txn<'static> {
    pub(super) fn begin_owned(env: Env, options: TxnOptions) -> Result<Txn<'static>> {
        let options = options.resolve(&env);
        let inner = Kept::owned(env, |core| {
            let core = core.to_write()?;
            within::refuse_around(core, None, None, || "beginning a transaction".to_owned())?;
            EnvTxn::begin(core, options)
        })?;
        Ok(Txn { durability: options.durability, inner, lost: Cell::new(None) })
    }
}

impl<'env> Txn<'env> {
    pub(super) fn begin(env: &'env Env, options: TxnOptions) -> Result<Txn<'env>> {
        let options = options.resolve(env);
        let inner = Kept::borrowed(env, |core| {
            let core = core.to_write()?;
            within::refuse_around(core, None, None, || "beginning a transaction".to_owned())?;
            EnvTxn::begin(core, options)
        })?;
        Ok(Txn { durability: options.durability, inner, lost: Cell::new(None) })
    }

    /// The transaction's environment.
    pub fn env(&self) -> &Env {
        self.inner.env()
    }

    /// Gives the transaction a name until it ends. `sablecat processes` and `sablecat locks` show it, and so
    /// do [`Env::processes`], [`Env::locks`] and errors about locks that it holds. Of a longer name the first
    /// 56 bytes are kept; an empty name is no name.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// env.write(|txn| {
    ///     txn.set_name("monthly invoices");
    ///     let who = env.processes().remove(0).participants;
    ///     assert!(who.iter().any(|one| one.name.as_deref() == Some("monthly invoices")));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_name(&mut self, name: &str) {
        self.inner.records.set_name(name);
    }

    /// Opens a database, creating it if there is none of that name. A new one is part of the transaction:
    /// other transactions see it, with the records that this one puts into it, once this one has committed,
    /// and never if it does not.
    ///
    /// The handle of a new database is valid in this transaction at once, everywhere after the commit, and
    /// nowhere if the creation is undone. Creating a database costs a small commit at once, whose changes no
    /// transaction sees, and two changes of the catalog in the transaction's own commit.
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
    /// `Invalid` for a name that cannot be, or for a database with a comparator that was not registered;
    /// `DiskFull` and `CacheFull`; as [`Txn::get`]. Of two transactions that create a database of one name,
    /// the second to commit gets a `Conflict` at any isolation; run again, it finds the database there.
    pub fn database(&mut self, name: &str) -> Result<Database> {
        self.database_like(name, Asked::default())
    }

    /// Opens or creates, as [`Txn::database`] does, a database whose keys are ordered by a comparator that
    /// was registered with [`Builder::comparator`](super::Builder::comparator).
    ///
    /// # Errors
    /// As [`Txn::database`]; `Invalid` if the database exists with another order.
    pub fn database_ordered_by(&mut self, name: &str, comparator: &str) -> Result<Database> {
        self.database_like(name, Asked::ordered_by(comparator))
    }

    /// Opens or creates, as [`Txn::database`] does, a database with this access method: see
    /// [`Env::database_as`](super::Env::database_as).
    ///
    /// # Errors
    /// As [`Txn::database`]; `Invalid` if the database exists with another access method.
    pub fn database_as(&mut self, name: &str, method: Method) -> Result<Database> {
        let database = self.database_like(name, Asked::arranged_as(method))?;
        arranged(database.into_named(), method).map(|named| Database::new(self.env().clone(), named))
    }

    /// Opens or creates, as [`Txn::database`] does, what was asked for.
    pub(super) fn database_like(&mut self, name: &str, asked: Asked<'_>) -> Result<Database> {
        noted(&self.lost, self.inner.database_or_new(name, asked))
            .map(|named| Database::new(self.env().clone(), named))
    }

    /// Opens a database if the transaction sees one of that name.
    ///
    /// # Errors
    /// As [`Txn::database`].
    pub fn existing_database(&self, name: &str) -> Result<Option<Database>> {
        Read::existing_database(self, name)
    }

    /// The names of all databases that the transaction sees, in order.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn databases(&self) -> Result<Vec<String>> {
        Read::databases(self)
    }

    /// Gives a database another name, as part of the transaction. Handles stay valid.
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
    /// `NotFound` if there is none of the first name, `Exists` if there is one of the second; `Invalid` for a
    /// name that cannot be; as [`Txn::get`]. The commit gets a `Conflict` if another transaction has changed
    /// what one of the names stands for.
    pub fn rename_database(&mut self, from: &str, to: &str) -> Result<()> {
        noted(&self.lost, self.inner.rename_database(from, to))
    }

    /// Removes a database with all its records, as part of the transaction; false if there is none. Handles
    /// to it then get `NotFound` in this transaction, and everywhere once it has committed, except in
    /// transactions whose snapshot is older.
    ///
    /// Removing costs the same whatever the size of the database. Its pages are freed by the commit, after
    /// the commit is visible.
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be; as [`Txn::get`]. The commit gets a `Conflict` if another
    /// transaction has changed what the name stands for.
    pub fn remove_database(&mut self, name: &str) -> Result<bool> {
        noted(&self.lost, self.inner.remove_database(name))
    }

    /// Locks the record and reads it. No other transaction can lock the record until this one ends. The lock
    /// does not block transactions that write the record without locking it. Waits for the holder of the
    /// lock, if there is one.
    ///
    /// # Errors
    /// `Timeout`, `Deadlock`; `Conflict` if the record was changed since the transaction first read or wrote
    /// something; as [`Txn::get`].
    pub fn get_for_update(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let tree = self.tree(db)?;
        self.refuse_locking(db)?;
        noted(&self.lost, self.inner.records.lock(tree, key.as_ref()))?;
        self.get(db, key)
    }

    /// Locks the record of a key if it can do so at once; false if another transaction has locked it, or if
    /// it was changed since this transaction first read or wrote something. As [`Txn::get_for_update`], but
    /// without waiting: to find a record that no other transaction works on.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn try_lock(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<bool> {
        let tree = self.tree(db)?;
        self.refuse_locking(db)?;
        noted(&self.lost, self.inner.records.try_lock(tree, key.as_ref()))
    }

    /// Removes the first record that no other transaction has [locked](Txn::get_for_update), and returns it:
    /// so several consumers can take records from a queue without waiting for each other. The record stays
    /// locked until the transaction ends.
    ///
    /// Use it at [`Isolation::Snapshot`](crate::Isolation::Snapshot) or below: a serialisable transaction has
    /// read all the records that it skipped, and conflicts with the transactions that remove them.
    ///
    /// ```
    /// # use sablecat::{Isolation, TxnOptions};
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let jobs = env.database("jobs")?;
    /// jobs.insert_batch([("1", "wash"), ("2", "dry")])?;
    /// let options = TxnOptions::new().isolation(Isolation::Snapshot);
    /// let (mut one, mut other) = (env.begin_with(options)?, env.begin_with(options)?);
    /// assert_eq!(one.pop_first_unlocked(&jobs)?, Some((b"1".to_vec(), b"wash".to_vec())));
    /// assert_eq!(other.pop_first_unlocked(&jobs)?, Some((b"2".to_vec(), b"dry".to_vec())));
    /// other.commit()?;
    /// one.abort();
    /// assert_eq!(jobs.first()?, Some((b"1".to_vec(), b"wash".to_vec())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn pop_first_unlocked(&mut self, db: &Database) -> Result<Option<Record>> {
        let mut cursor = db.cursor();
        while let Some(key) = cursor.next(self)?.map(<[u8]>::to_vec) {
            if !self.try_lock(db, &key)? {
                continue;
            }
            // Read committed: the last to have it locked may have removed it meanwhile.
            if let Some(value) = self.take(db, &key)? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// Appends to the queue in a database: see [`Queue::append`](super::Queue::append).
    pub(super) fn append(&mut self, db: &Database, record: &[u8], last: u64) -> Result<u64> {
        self.refuse_locking(db)?;
        let tree = self.tree_to_write(db)?;
        noted(&self.lost, self.inner.records.append(&tree, record, last))
    }

    /// Consumes of the queue in a database: see [`Queue::consume`](super::Queue::consume).
    pub(super) fn consume(&mut self, db: &Database) -> Result<Option<(u64, Vec<u8>)>> {
        self.refuse_locking(db)?;
        let tree = self.tree_to_write(db)?;
        noted(&self.lost, self.inner.records.consume(&tree))
    }

    /// Removes from the queue in a database: see [`Queue::remove`](super::Queue::remove).
    pub(super) fn remove_numbered(&mut self, db: &Database, number: u64) -> Result<bool> {
        self.refuse_locking(db)?;
        let tree = self.tree_to_write(db)?;
        noted(&self.lost, self.inner.records.remove_numbered(&tree, number))
    }

    /// Refuses to lock where that would be around what this thread is in the middle of.
    fn refuse_locking(&self, db: &Database) -> Result<()> {
        within::refuse_around(self.inner.databases(), None, Some(self.slot()), || {
            format!("locking a record of the database {:?}", db.name())
        })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `Invalid` for a key or value that is too long, or a database of another environment; `DiskFull` and
    /// `Io` if the transaction has so many changes that they go to a file, and writing that fails. After any
    /// error the transaction is as it was.
    pub fn insert(&mut self, db: &Database, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let tree = self.tree_to_write(db)?;
        noted(&self.lost, self.inner.records.set(&tree, key.as_ref(), Some(value.as_ref())))
    }

    /// Removes a record; false if there is none.
    ///
    /// # Errors
    /// As [`Txn::get`] and [`Txn::insert`].
    pub fn remove(&mut self, db: &Database, key: impl AsRef<[u8]>) -> Result<bool> {
        let there = self.contains_key(db, key.as_ref())?;
        if there {
            let tree = self.tree_to_write(db)?;
            noted(&self.lost, self.inner.records.set(&tree, key.as_ref(), None))?;
        }
        Ok(there)
    }

    writing!(Env);

    /// The records of a range of keys, its own changes included, in order, from either end. Several ranges
    /// may be in use at once; to change records meanwhile, use a [`Cursor`](crate::Cursor).
    ///
    /// # Errors
    /// As [`Read::range`].
    pub fn range(&self, db: &Database, keys: impl KeyRange) -> Result<Range<&Txn<'env>>> {
        Read::range(self, db, keys)
    }

    reading!(Env);

    /// Reads without validation, in the state that the transaction sees, its own changes included: at
    /// [`Isolation::Serializable`](crate::Isolation::Serializable) other transactions may change what is read
    /// in `look`, and that is no conflict. For hints, and for what the program makes sure of in another way.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let (news, mine) = (env.database("news")?, env.database("mine")?);
    /// let mut txn = env.begin()?;
    /// assert_eq!(txn.unvalidated(|txn| txn.get(&news, "headline"))?, None);
    /// news.insert("headline", "cats found in a database")?;
    /// txn.insert(&mine, "seen", "nothing")?;
    /// txn.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unvalidated<T>(&mut self, look: impl FnOnce(&Txn<'env>) -> T) -> T {
        /// Ends it, whatever becomes of the look.
        struct Unvalidated<'t, 'env>(&'t mut Txn<'env>, bool);

        impl Drop for Unvalidated<'_, '_> {
            fn drop(&mut self) {
                if self.1 {
                    self.0.inner.records.set_compared(true);
                }
            }
        }

        let was_compared = self.inner.records.set_compared(false);
        let kept = Unvalidated(self, was_compared);
        look(&*kept.0)
    }

    /// Marks this point, to roll back to.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint(self.inner.records.position())
    }

    /// Undoes all changes since a savepoint: of records, and creations, renamings and removals of databases.
    /// The savepoint stays: more changes may be made, and undone again. Savepoints that were taken after it
    /// are gone.
    ///
    /// # Errors
    /// `Invalid`, and nothing is undone: for a savepoint of another transaction, or of an earlier run of this
    /// one; for one that is gone; within [`Txn::nested`], for one that was followed by changes before the
    /// nested transaction began.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.inner.roll_back_to(savepoint.0)
    }

    /// Releases all savepoints: old values are not kept for rolling back any more, until another savepoint is
    /// taken. Within [`Txn::nested`] it does nothing.
    pub fn forget_savepoints(&mut self) {
        self.inner.records.forget_positions();
    }

    /// Runs `work` as a nested transaction: if it fails, its changes are undone, and this transaction may go
    /// on.
    ///
    /// # Errors
    /// What `work` returns.
    pub fn nested<T>(&mut self, work: impl FnOnce(&mut Txn<'env>) -> Result<T>) -> Result<T> {
        self.try_nested(work)
    }

    /// As [`Txn::nested`], for work with its own error type: see [`Env::try_write`].
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

    /// Commits. When it returns, every transaction that begins sees the changes, and they are as durable as
    /// the transaction's [`Durability`] says. At [`Durability::Sync`] it blocks for a flush. Returns the LSN
    /// of the commit, which others can wait for ([`Env::wait_visible`], [`Env::make_durable`]); for a
    /// transaction that changed nothing, the LSN of the state that it saw.
    ///
    /// # Errors
    /// `Conflict` with another transaction: nothing was changed, run it again. `Poisoned` after a failed
    /// flush: the changes are visible but may not survive; close the environment and open it again.
    /// `NotDurable`: the changes are visible, and will be durable once a later sync or commit finds room; do
    /// not run it again. `DiskFull` and `CacheFull`: nothing was changed.
    pub fn commit(mut self) -> Result<Lsn> {
        self.commit_once()
    }

    /// Commits with another durability level (rung).
    ///
    /// # Errors
    /// As [`Txn::commit`].
    pub fn commit_with(mut self, durability: Durability) -> Result<Lsn> {
        self.durability = durability;
        self.commit_once()
    }

    /// As [`Txn::commit_with`], and returns the [content](Env::content) right before the commit and after it;
    /// none if it changed nothing.
    #[doc(hidden)]
    pub fn commit_over(mut self, durability: Durability) -> Result<(Lsn, Option<[Content; 2]>)> {
        self.durability = durability;
        let lsn = self.commit_once()?;
        Ok((lsn, self.inner.contents()))
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
        trees.try_for_each(|tree| {
            within::refuse_around(self.inner.databases(), Some(tree), slot, || {
                "committing another transaction".to_owned()
            })
        })
    }

    pub(super) fn commit_once(&mut self) -> Result<Lsn> {
        self.refuse_within()?;
        noted(&self.lost, self.inner.commit(self.durability))
    }

    /// The engine's transaction.
    pub(super) fn records(&self) -> &Transaction<'env> {
        &self.inner.records
    }

    /// The slot it has, by which it is known while it is in progress.
    pub(super) fn slot(&self) -> u16 {
        self.inner.records.number()
    }

    /// Why it should run again: the last failure of one of its operations that another run may not meet with.
    pub(super) fn lost(&self) -> Option<ErrorKind> {
        self.lost.get()
    }

    /// The error of work that made nothing of what an operation failed by.
    pub(super) fn lost_error(&self) -> Error {
        let kind = self.lost.get().unwrap_or(ErrorKind::Conflict);
        Error::new(
            kind,
            "an operation of the transaction failed, and its closure ignored the error; run the transaction \
             again",
        )
    }

    pub(super) fn give_up(&mut self) {
        self.lost.set(None);
        self.inner.give_up();
    }

    /// Gives up what it does, and waits until something that it has read may have changed; false: not before
    /// the deadline.
    pub(super) fn wait_for_change(&mut self, deadline: Option<Duration>) -> Result<bool> {
        self.lost.set(None);
        self.inner.wait_for_change(deadline)
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

    /// Makes an index as the log of another environment says it: what is in it the log says too.
    pub(super) fn replicate_index(&mut self, name: &str, info: &IndexInfo) -> Result<()> {
        noted(&self.lost, self.inner.create_index(name, info, true)).map(drop)
    }

    /// Makes an index of a database.
    pub(super) fn create_index(&mut self, name: &str, info: &IndexInfo) -> Result<Database> {
        noted(&self.lost, self.inner.create_index(name, info, false))
            .map(|named| Database::new(self.env().clone(), named))
    }

    /// Removes a database as the log of another environment says it, and nothing with it.
    pub(super) fn remove_replica(&mut self, name: &str) -> Result<bool> {
        noted(&self.lost, self.inner.remove_alone(name))
    }

    #[inline]
    fn tree_to_write<'d>(&self, db: &'d Database) -> Result<Written<'d>> {
        noted(
            &self.lost,
            db.named_in(self.inner.databases()).and_then(|named| self.inner.tree_to_write(named)),
        )
    }

    #[inline]
    fn tree<'d>(&self, db: &'d Database) -> Result<&'d TreeRef> {
        noted(&self.lost, db.named_in(self.inner.databases()).and_then(|named| self.inner.tree(named)))
    }
}

/// A transaction within a transaction. Dropped without [`Nested::stands`], as when its work panics, what it
/// changed is undone.
struct Nested<'t, 'env> {
    txn: &'t mut Txn<'env>,
    before: Savepoint,
    /// What the transaction around it keeps from being rolled back.
    kept: Option<usize>,
}

impl Nested<'_, '_> {
    fn stands(mut self) {
        self.before = self.txn.savepoint();
    }
}

impl Drop for Nested<'_, '_> {
    fn drop(&mut self) {
        self.txn.inner.records.keep_only(self.kept);
        // Nobody could roll back over it meanwhile. It fails if the transaction was exchanged for another
        // one, which has none of the changes.
        let _ = self.txn.rollback_to(&self.before);
    }
}

//! Read-only transactions.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::kept::Kept;
use super::read::reading;
use super::read::sealed::{Seen, State};
use super::{Database, Env, KeyRange, Range, Read};
use crate::env::EnvTxn;
use crate::error::Result;
use crate::txn::{Durability, Isolation, Options};
use crate::types::Lsn;

/// A read-only transaction: one unchanging state (snapshot) of the environment. It keeps the old versions of
/// pages that other transactions change.
///
/// A handle, which keeps the environment open. Clones see the same state, and any number of threads read from
/// it at once. It ends when its last clone and the last of its ranges are dropped.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let db = env.database("numbers")?;
/// for number in 0..1000u32 {
///     db.insert(number.to_be_bytes(), [])?;
/// }
/// let snapshot = env.snapshot()?;
/// let halves = [0..500u32, 500..1000].map(|numbers| {
///     let (snapshot, db) = (snapshot.clone(), db.clone());
///     let keys = numbers.start.to_be_bytes()..numbers.end.to_be_bytes();
///     std::thread::spawn(move || snapshot.range(&db, keys).map(Iterator::count))
/// });
/// for half in halves {
///     assert_eq!(half.join().unwrap()?, 500);
/// }
/// # Ok(())
/// # }
/// ```
///
/// ```
/// fn shared<T: Clone + Send + Sync + 'static>() {}
/// shared::<sablecat::ReadTxn>();
/// ```
#[derive(Clone)]
pub struct ReadTxn {
    shared: Arc<SharedSnapshot>,
}

/// What its handles have together.
struct SharedSnapshot {
    /// A thread that is reading has it; other threads take a seat beside it.
    txn: Kept<'static, Mutex<EnvTxn<'static>>>,
    /// Its slot and its snapshot.
    beside: (u16, Lsn),
    options: Options,
    /// The time by which records have expired in it.
    time: u64,
    /// Whether its slot was given a name. Who has this locked writes it there, and waits for nothing.
    named: Mutex<bool>,
}

impl Drop for SharedSnapshot {
    fn drop(&mut self) {
        // The slot is its own until the transaction is dropped, which is after this.
        if *self.named.get_mut().unwrap_or_else(PoisonError::into_inner) {
            self.set_name("");
        }
    }
}

impl SharedSnapshot {
    fn set_name(&self, name: &str) {
        self.txn.env().core().kernel.pages.participants.set_name(self.beside.0, name);
    }
}

impl fmt::Debug for ReadTxn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTxn").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}

impl State for ReadTxn {
    fn with<T>(&self, look: impl FnOnce(Seen<'_>) -> Result<T>) -> Result<T> {
        match self.shared.txn.try_lock() {
            Ok(txn) => look(Seen(&txn)),
            // What was shown to a closure that panicked was shown, and nothing is left of it.
            Err(TryLockError::Poisoned(txn)) => look(Seen(&txn.into_inner())),
            Err(TryLockError::WouldBlock) => {
                let SharedSnapshot { options, beside, time, .. } = &*self.shared;
                let txn = EnvTxn::begin_beside(self.env().core(), *options, *beside)?;
                txn.records.set_time(*time);
                look(Seen(&txn))
            }
        }
    }
}

impl Read for ReadTxn {
    type Of = Env;
    type Lasting<'a> = ReadTxn;

    fn lasting(&self) -> Result<ReadTxn> {
        Ok(self.clone())
    }

    fn existing_database(&self, name: &str) -> Result<Option<Database>> {
        let named = State::with(self, |Seen(txn)| txn.database(name))?;
        Ok(named.map(|named| Database::new(self.env().clone(), named)))
    }

    fn databases(&self) -> Result<Vec<String>> {
        State::with(self, |Seen(txn)| txn.database_names())
    }
}

impl ReadTxn {
    pub(super) fn begin(env: &Env) -> Result<ReadTxn> {
        let patience = env.core().config.lock_timeout;
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: Durability::Memory,
            read_only: true,
            patience,
        };
        let txn = Kept::owned(env.clone(), |core| EnvTxn::begin(core, options).map(Mutex::new))?;
        let (beside, time) = {
            let txn = txn.lock().unwrap_or_else(PoisonError::into_inner);
            ((txn.records.number(), txn.records.at()), txn.time())
        };
        Ok(ReadTxn {
            shared: Arc::new(SharedSnapshot { txn, beside, options, time, named: Mutex::default() }),
        })
    }

    /// The environment that it reads.
    pub fn env(&self) -> &Env {
        self.shared.txn.env()
    }

    /// Gives the transaction, and all its clones, a name that other processes can see: see
    /// [`Txn::set_name`](super::Txn::set_name). Waits for nobody who reads from it: a closure that is shown
    /// its records may name it too.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # use std::ops::ControlFlow;
    /// # let env = sablecat::Env::in_memory()?;
    /// # let orders = env.database("orders")?;
    /// # orders.insert("1", "")?;
    /// let report = env.snapshot()?;
    /// report.visit(&orders, .., |key, _| {
    ///     report.set_name(&format!("report, at {}", String::from_utf8_lossy(key)));
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_name(&self, name: &str) {
        let mut named = self.shared.named.lock().unwrap_or_else(PoisonError::into_inner);
        *named = true;
        self.shared.set_name(name);
    }

    /// Opens a database if there is one of that name in this state. It can be read in this transaction even
    /// if it has been removed since.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// # env.database("drafts")?.insert("1", "Dear all")?;
    /// let snapshot = env.snapshot()?;
    /// env.remove_database("drafts")?;
    /// let drafts = snapshot.existing_database("drafts")?.expect("it was there");
    /// assert_eq!(snapshot.get(&drafts, "1")?.as_deref(), Some(&b"Dear all"[..]));
    /// assert!(drafts.get("1").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be, or for a database with a comparator that was not registered; as
    /// [`Read::get`].
    pub fn existing_database(&self, name: &str) -> Result<Option<Database>> {
        Read::existing_database(self, name)
    }

    /// The names of all databases in this state, in order.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn databases(&self) -> Result<Vec<String>> {
        Read::databases(self)
    }

    /// The LSN of the state that it sees.
    pub fn lsn(&self) -> Lsn {
        self.env().core().kernel.pages.lsn_of(self.shared.beside.1)
    }

    /// The records of a range of keys, in order, from either end. The range goes on reading this state, also
    /// after the transaction is dropped.
    ///
    /// # Errors
    /// As [`Read::range`].
    pub fn range(&self, db: &Database, keys: impl KeyRange) -> Result<Range<ReadTxn>> {
        Read::range(self, db, keys)
    }

    reading!(Env);
}

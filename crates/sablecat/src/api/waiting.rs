//! Waiting for what others will commit.

use std::time::Duration;

use sablecat_os::clock;

use super::{Env, Txn, TxnOptions};
use crate::error::{Error, Result};
use crate::txn::Isolation;

impl Env {
    /// As [`Env::write`], for work that may have to wait for a change of records: if `work` returns none,
    /// nothing of what it did is kept, and it runs again when something that it has read may have changed, in
    /// this process or in another that shares the environment. Meanwhile the thread sleeps; it does not poll.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = sablecat::Env::in_memory()?;
    /// let jobs = env.database("jobs")?;
    /// std::thread::scope(|scope| {
    ///     // Takes the first job, as soon as there is one.
    ///     let worker = scope.spawn(|| env.write_when(|txn| txn.pop_first(&jobs)));
    ///     jobs.insert("1", "sweep the yard")?;
    ///     let (_, job) = worker.join().expect("ended")?;
    ///     assert_eq!(job, b"sweep the yard");
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// The transaction is serialisable. It waits for what it has read, by records and ranges, as conflicts
    /// are found: a `get` of a key without a record waits for that key, a range for any change in it. It also
    /// waits for records that another transaction had locked, so that [`Txn::try_lock`] or
    /// [`Txn::pop_first_unlocked`] skipped them: it wakes also when that transaction is undone, or its
    /// process is killed. `work` may run again although nothing that it has read has changed, because
    /// something beside it did. While it sleeps it keeps no snapshot and no locks. It sees commits at any
    /// rung (durability level), as readers do.
    ///
    /// # Errors
    /// As [`Env::write`]; `NotAllowed` if `work` returned none and had read nothing through the transaction;
    /// `Poisoned` once nothing can be committed any more.
    pub fn write_when<T>(&self, work: impl FnMut(&mut Txn<'_>) -> Result<Option<T>>) -> Result<T> {
        self.try_write_when(work)
    }

    /// As [`Env::write_when`], for work with its own error type, like [`Env::try_write`]: an error of `work`
    /// is returned, and nothing of what it did is kept.
    ///
    /// # Errors
    /// As [`Env::write_when`].
    pub fn try_write_when<T, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Txn<'_>) -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<T, E> {
        let made = self.write_until(serializable(), None, work)?;
        Ok(made.expect("it is waited for without end"))
    }

    /// As [`Env::write_when`], for no longer than this: none if `work` had nothing to return by then. Runs
    /// `work` at least once.
    ///
    /// # Errors
    /// As [`Env::write_when`].
    pub fn write_when_within<T>(
        &self,
        time: Duration,
        work: impl FnMut(&mut Txn<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.try_write_when_within(time, work)
    }

    /// As [`Env::write_when_within`], for work with its own error type.
    ///
    /// # Errors
    /// As [`Env::write_when`].
    pub fn try_write_when_within<T, E: From<Error>>(
        &self,
        time: Duration,
        work: impl FnMut(&mut Txn<'_>) -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<Option<T>, E> {
        self.write_until(serializable(), Some(clock::monotonic().saturating_add(time)), work)
    }
}

/// Only those note what they read.
fn serializable() -> TxnOptions {
    TxnOptions::new().isolation(Isolation::Serializable)
}

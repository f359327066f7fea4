//! Lockers: owners of locks by name, beside all transactions.

use std::time::Duration;

use super::Transactions;
use crate::error::Result;
use crate::pages::Seat;
use crate::txn::locks::NamedLocks;

/// An owner of such locks, with a seat of its own and no snapshot. They end with it, and with its process.
#[derive(Debug)]
pub(crate) struct LockOwner<'k> {
    over: &'k Transactions,
    seat: Seat<'k>,
    locks: NamedLocks,
}

impl<'k> LockOwner<'k> {
    /// One that has nothing locked.
    ///
    /// # Errors
    /// As of taking a seat.
    pub(crate) fn new(over: &'k Transactions) -> Result<LockOwner<'k>> {
        Ok(LockOwner { over, seat: over.pages.participants.sit()?, locks: NamedLocks::default() })
    }

    /// See [`LockTable::acquire_path`](crate::txn::locks::LockTable::acquire_path).
    ///
    /// # Errors
    /// As that, and once this process was taken for dead.
    pub(crate) fn acquire(&mut self, path: &[u64], timeout: Duration) -> Result<()> {
        self.over.pages.check_fence()?;
        self.over.locks.acquire_path(self.seat.number(), path, timeout, &mut self.locks)
    }

    /// Gives a path back that was locked once more than it was given back.
    pub(crate) fn release(&mut self, path: &[u64]) {
        self.over.locks.release_path(self.seat.number(), path, &mut self.locks);
    }

    /// Gives back whatever there is.
    pub(crate) fn release_all(&mut self) {
        self.over.locks.release_paths(self.seat.number(), &mut self.locks);
    }
}

impl Drop for LockOwner<'_> {
    fn drop(&mut self) {
        self.release_all();
    }
}

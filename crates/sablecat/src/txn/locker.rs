//! Who holds locks by name, beside all transactions.

use std::time::Duration;

use super::Kernel;
use super::locks::NamedLocks;
use crate::error::Result;
use crate::pages::Seat;

/// An owner of such locks, with a seat of its own and no snapshot. They end with it, and with its process.
#[derive(Debug)]
pub(crate) struct Locker<'k> {
    kernel: &'k Kernel,
    seat: Seat<'k>,
    locks: NamedLocks,
}

impl<'k> Locker<'k> {
    /// One that has nothing locked.
    ///
    /// # Errors
    /// As of taking a seat.
    pub(crate) fn new(kernel: &'k Kernel) -> Result<Locker<'k>> {
        Ok(Locker { kernel, seat: kernel.pages.participants.sit()?, locks: NamedLocks::default() })
    }

    /// See [`LockTable::acquire_path`](super::locks::LockTable::acquire_path).
    ///
    /// # Errors
    /// As that, and once this process was taken for dead.
    pub(crate) fn acquire(&mut self, path: &[u64], timeout: Duration) -> Result<()> {
        self.kernel.pages.check_fence()?;
        self.kernel.locks.acquire_path(self.seat.number(), path, timeout, &mut self.locks)
    }

    /// Gives a path back that was locked once more than it was given back.
    pub(crate) fn release(&mut self, path: &[u64]) {
        self.kernel.locks.release_path(self.seat.number(), path, &mut self.locks);
    }

    /// Gives back whatever there is.
    pub(crate) fn release_all(&mut self) {
        self.kernel.locks.release_paths(self.seat.number(), &mut self.locks);
    }
}

impl Drop for Locker<'_> {
    fn drop(&mut self) {
        self.release_all();
    }
}

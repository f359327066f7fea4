//! What a transaction has passed over, since others had it locked.

use super::Transactions;

/// Records that a transaction wanted to lock and did not wait for.
#[derive(Debug, Default)]
pub(in crate::txn) struct PassedOver {
    /// The hashes of those that others had locked.
    locked: Vec<u64>,
    /// One was to be had, and had changed since the snapshot.
    has_changed: bool,
}

impl PassedOver {
    /// Notes one, which may be locked by the transaction all the same.
    pub(in crate::txn) fn note(&mut self, is_locked: bool, hash: u64) {
        self.has_changed |= is_locked;
        if !is_locked {
            self.locked.push(hash);
        }
    }

    /// Whether one of them may be had by now. Where none is, the end of each of the locks wakes the
    /// transactions that sleep until something changes.
    pub(super) fn may_be_had(&self, transactions: &Transactions, me: u16) -> bool {
        self.has_changed || self.locked.iter().any(|&hash| !transactions.locks.is_barred(me, hash))
    }
}

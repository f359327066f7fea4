//! Mending what was left half done: by processes that died (`reap`), as notes of the catalog say (`notes`),
//! and as is found by what nothing leads to (`unreachable`).

mod notes;
pub(in crate::txn) mod reap;
mod unreachable;

use std::ops::Deref;

use crate::region::RoleWatch;
use crate::txn::transactions::Transactions;

/// What mends the work of the dead.
#[derive(Debug)]
pub(crate) struct Mender {
    transactions: Transactions,
    /// For how long another has been mending what the dead left.
    reaper: RoleWatch,
}

impl Mender {
    pub(in crate::txn) fn new(transactions: Transactions) -> Mender {
        Mender { transactions, reaper: RoleWatch::default() }
    }
}

impl Deref for Mender {
    type Target = Transactions;

    #[inline(always)]
    fn deref(&self) -> &Transactions {
        &self.transactions
    }
}

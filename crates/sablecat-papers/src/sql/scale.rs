//! How large a bank of TPC-B's is.

use serde::{Deserialize, Serialize};

/// Tellers of a branch.
pub(super) const TELLERS: u64 = 10;
/// Accounts of a branch, a hundredth of TPC-B's: so the paper has it.
pub(super) const ACCOUNTS: u64 = 100;

/// How large a bank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scale {
    pub(super) branches: u64,
}

impl Scale {
    /// With so many accounts, or some more.
    pub(super) fn of_accounts(accounts: u64) -> Scale {
        Scale { branches: accounts.div_ceil(ACCOUNTS).max(1) }
    }

    pub(super) fn tellers(self) -> u64 {
        self.branches * TELLERS
    }

    pub(super) fn accounts(self) -> u64 {
        self.branches * ACCOUNTS
    }
}

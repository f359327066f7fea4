//! How large a database is, about, in its newest committed state.

use super::Kernel;
use crate::access::Estimate;
use crate::error::{ErrorKind, Result};
use crate::txn::catalog::TreeRef;
use crate::txn::options::{Durability, Isolation, Options};
use crate::txn::transactions::Transaction;

impl Kernel {
    /// How large a tree is: the same for the same state.
    pub(crate) fn estimate(&self, tree: &TreeRef) -> Result<Estimate> {
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: Durability::Memory,
            read_only: true,
            patience: self.patience,
        };
        loop {
            let txn = Transaction::begin(self, options)?;
            match txn.look(tree, |state| tree.tree().estimate(&state, state.seed(tree.id))) {
                // Nobody saw anything of the snapshot that was given up.
                Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
                result => return result,
            }
        }
    }
}

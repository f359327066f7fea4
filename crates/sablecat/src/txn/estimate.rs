//! How large a database is, about, in its newest committed state.

use super::{Durability, Isolation, Kernel, Options, Transaction, TreeRef};
use crate::access::Estimate;
use crate::error::{ErrorKind, Result};

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
            let seed = txn.at().0 ^ u64::from(tree.id.0) << 32;
            match txn.look(tree, |state| tree.tree().estimate(&state, seed)) {
                // Nobody saw anything of the snapshot that was given up.
                Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
                result => return result,
            }
        }
    }
}

//! How large a database is, about, in its newest committed state.

use super::Kernel;
use crate::access::{Estimate, KeyBounds, RecordEstimate};
use crate::error::{ErrorKind, Result};
use crate::txn::catalog::TreeRef;
use crate::txn::options::{Durability, Isolation, Options};
use crate::txn::state::CommittedState;
use crate::txn::transactions::Transaction;

impl Kernel {
    /// How large a tree is: the same for the same state.
    pub(crate) fn estimate(&self, tree: &TreeRef) -> Result<Estimate> {
        self.estimate_by(tree, |state, seed| tree.tree().estimate(state, seed))
    }

    /// How many records of a tree there are between two bounds: the same for the same state.
    pub(crate) fn estimate_range(&self, tree: &TreeRef, bounds: KeyBounds<'_>) -> Result<RecordEstimate> {
        self.estimate_by(tree, |state, seed| tree.tree().estimate_range(state, bounds, seed))
    }

    fn estimate_by<T>(
        &self,
        tree: &TreeRef,
        look: impl Fn(&CommittedState<'_>, u64) -> Result<T>,
    ) -> Result<T> {
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: Durability::Memory,
            read_only: true,
            patience: self.patience,
        };
        loop {
            let txn = Transaction::begin(self, options)?;
            let seed = txn.at().0 ^ u64::from(tree.id.0) << 32;
            match txn.look(tree, |state| look(&state, seed)) {
                // Nobody saw anything of the snapshot that was given up.
                Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
                result => return result,
            }
        }
    }
}

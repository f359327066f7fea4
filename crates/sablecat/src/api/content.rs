//! Whether transactions have changed something, for who keeps what it has read.

use super::Env;
use crate::types::Content;

impl Env {
    /// What transactions have made of the environment. A state that is taken afterwards has all of it; equal
    /// contents are the same, and that a transaction which [says so](super::Txn::commit_over) was the only
    /// one can be told. What is done to single records without a transaction is not in it, nor is what the
    /// engine does for itself.
    #[doc(hidden)]
    #[must_use]
    pub fn content(&self) -> Content {
        self.core().kernel.content()
    }
}

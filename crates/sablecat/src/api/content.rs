//! Whether transactions have changed something, for programs that keep what they have read.

use super::Env;
use crate::types::Content;

impl Env {
    /// What transactions have made of the environment. A state that is taken afterwards has all of it. Equal
    /// contents are the same content, and with [`Txn::commit_over`](super::Txn::commit_over) a program can
    /// tell that its transaction was the only one. Changes of single records without a transaction are not
    /// part of it, nor is what the engine does itself.
    #[doc(hidden)]
    #[must_use]
    pub fn content(&self) -> Content {
        self.core().kernel.content()
    }
}

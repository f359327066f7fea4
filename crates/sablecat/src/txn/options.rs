//! How a transaction is to run.

use std::time::Duration;

/// What becomes of a commit when the process or the machine stops right after it returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Durability {
    /// Nothing is promised: a crash may go back to the last checkpoint.
    Memory,
    /// The log is written when its buffer is half full and every flush interval: a crash may lose that much.
    NoSync,
    /// The record is with the operating system when the commit returns: lost only if that crashes too.
    WriteNoSync,
    /// The record is on stable storage when the commit returns. Commits that wait together share one flush.
    Sync,
}

/// What a transaction is protected from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Isolation {
    /// Each operation sees the newest committed state.
    ReadCommitted,
    /// All reads see one state; of two transactions that change the same record, the second to commit gets a
    /// conflict.
    Snapshot,
    /// As if transactions ran one after the other.
    Serializable,
}

/// How a transaction is to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) isolation: Isolation,
    pub(crate) durability: Durability,
    pub(crate) read_only: bool,
    /// How long to wait for a record lock.
    pub(crate) patience: Duration,
}

//! How a transaction is to run.

use std::time::Duration;

/// How durable a commit is when it returns: what happens to it if the process or the machine stops right
/// after. See [the guide](crate::guide::durability).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Durability {
    /// Not durable: after a crash of the machine, or of all processes unless the environment is shared, the
    /// environment may be at its last checkpoint.
    Memory,
    /// The log is written when its buffer is half full and every flush interval: a crash may lose what was
    /// committed since.
    NoSync,
    /// The log record is written to the operating system when the commit returns: it is lost only if the
    /// operating system crashes too.
    WriteNoSync,
    /// The log record is on stable storage when the commit returns. Commits that wait at the same time share
    /// one flush.
    Sync,
}

/// How far a transaction is isolated from others. See [the guide](crate::guide::isolation).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Isolation {
    /// Each operation sees the newest committed state.
    ReadCommitted,
    /// All reads see one state; of two transactions that change the same record, the second to commit gets a
    /// conflict.
    Snapshot,
    /// The transactions have the same effect as if they ran one after the other.
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

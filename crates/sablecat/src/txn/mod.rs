//! Transactions: private until they commit, published in one step.
//!
//! In rooms, each over those before it:
//!
//! ```text
//! locks         record locks, and locks by name
//! catalog       which databases there are, and what a process knows of each
//! pending       what a transaction would change
//! state         committed states: records and databases at an LSN
//! commit        the commit step: changes of pages and a log record made visible at once
//! seen          what a transaction has seen, and whether it still stands
//! trees         write sets as changes of pages; making and freeing whole trees
//! transactions  transactions
//! mending       what the dead, and commits cut short, have left
//! operations    single operations, bulk loads; the kernel, which has all of the above
//! ```
//!
//! Beside them stand what several use and that uses none: how a transaction is to run (`options`), errors
//! (`refusals`), ranges of keys that lie apart (`ranges`), and two byte strings in one key (`pairs`).

pub(crate) mod catalog;
mod commit;
pub(crate) mod locks;
mod mending;
mod operations;
mod options;
pub(crate) mod pairs;
mod pending;
pub(crate) mod ranges;
mod refusals;
mod seen;
mod state;
#[cfg(test)]
mod tests;
mod transactions;
mod trees;

pub(crate) use catalog::follow::{
    Also, Follow, FollowedRecords, RemovalProgress, View, With, change as change_followed,
};
pub(crate) use catalog::meaning::Meaning;
pub(crate) use catalog::presence::PresenceState;
pub(crate) use catalog::{Comparator, KnownDatabase, Lapse, Looked, Presence, TreeRef, lapse, relation};
pub use catalog::{Duplicates, Holds, IndexInfo, OnRemove};
pub(crate) use commit::caller;
pub(crate) use commit::direct::Direct;
pub use locks::DeadlockPolicy;
pub(crate) use operations::{Kernel, RecordChange};
pub(crate) use options::Options;
pub use options::{Durability, Isolation};
pub(crate) use pending::runs;
pub(crate) use pending::savepoints::Position;
pub(crate) use refusals::{conflict, not_empty};
pub(crate) use state::CommittedState;
pub(crate) use transactions::{LockOwner, Stamp, Transaction, queue};
pub(crate) use trees::listed;

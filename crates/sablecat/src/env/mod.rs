//! Environments: opening, recovering, keeping house, closing; and their databases.
//!
//! In rooms, each over those before it:
//!
//! ```text
//! config     settings and their defaults
//! files      what there is in a directory, whether or not it is open
//! recovery   from files to a kernel; going back
//! running    a kernel that runs, and what there is to see of it
//! upkeep     checkpoints, compaction, the journal, verification
//! databases  databases, their indices, and transactions that change them
//! streams    the log as a stream of changes, and what is kept of it for readers
//! opening    opening, sharing, closing; the threads that keep house
//! ```
//!
//! Beside them stand which records of a database are placed elsewhere (`placed`), which recovery has to know
//! too, and how mutexes are locked (`mutex`).

mod config;
mod databases;
mod files;
mod mutex;
mod opening;
mod placed;
mod recovery;
mod running;
mod streams;
#[cfg(test)]
mod tests;
mod upkeep;

pub use config::IndexKeys;
pub(crate) use config::{Config, EnvMode, Extractor, Journaling, Nullifier, WallClock};
pub(crate) use databases::{
    Asked, Databases, EnvTxn, Named, Written, arranged, check_holds, entries_of, key_of, leads_nowhere,
};
pub(crate) use files::history::history;
pub use files::history::{Epoch, History, JournalFile};
pub(crate) use opening::Core;
pub(crate) use opening::open::{in_memory, open};
#[cfg(feature = "encryption")]
pub use opening::{EncipherReport, EncryptionStats};
pub use recovery::RecoveryReport;
pub(crate) use recovery::backward::prepare as prepare_recovery;
pub use recovery::backward::{Recovery, RecoveryPlan, Target};
pub use running::VolumeStats;
pub(crate) use running::counters::counters;
pub use running::counters::{Counters, OldestSnapshot};
pub(crate) use running::processes::activity;
pub use running::processes::{Activity, Participant, Process, RecordLock};
pub use streams::Change;
pub(crate) use streams::{ChangedRecords, CommitChanges, Stream};
pub use upkeep::{CheckpointReport, CompactReport, ImageReport, Progress, VerifyReport};

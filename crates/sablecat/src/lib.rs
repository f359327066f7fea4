//! sablecat: an embedded transactional record store. A library linked into a program; no server, no
//! administrator.
//!
//! An [`Env`] (environment) is a directory, or memory alone. It holds named [`Database`]s: ordered maps from
//! byte keys to byte values. Any number of threads read and write at the same time; what belongs together
//! goes into a [`Txn`].
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! let env = sablecat::Env::in_memory()?; // or sablecat::Env::open("some/directory")?
//! let accounts = env.database("accounts")?;
//! accounts.insert("ada", "70")?; // a transaction of its own
//! accounts.insert("grace", "30")?;
//!
//! env.write(|txn| {
//!     // all or nothing; run again if another transaction got in the way
//!     txn.insert(&accounts, "ada", "20")?;
//!     txn.insert(&accounts, "grace", "80")
//! })?;
//!
//! assert_eq!(accounts.get("grace")?.as_deref(), Some(&b"80"[..]));
//! for record in accounts.range("a".."b")? {
//!     let (key, value) = record?;
//!     println!("{} has {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Durability`] is how durable a commit is when it returns, and [`Isolation`] how far transactions are
//! isolated from each other; both can be chosen per environment and per transaction. A program that wants
//! speed and no transactions opens a [`DataStore`] instead.
//!
//! Commits can be followed, as they come or later: [`Env::changes`] is the log as a stream of changes, and a
//! [`Follower`] applies it to another environment.
//!
//! After a crash there is nothing to run: opening the environment recovers it.
//!
//! [`Env::counters`] counts what is done. With the feature `tracing`, which is off by default, rare events
//! are also sent to the `tracing` crate, with this library's name as the target: openings and recoveries,
//! checkpoints, sweeps because the cache ran out of frames, snapshots that were given up, processes that died
//! and whose work was finished, what poisons an environment; and, at debug level, conflicts. A subscriber is
//! called in the middle of that work, on the thread that does it: it must not use the environment, and delays
//! others while it runs.
//!
//! With the feature `encryption` environments can be encrypted: see `Builder::encryption_key`; with `lz4` and
//! `zstd` their pages can be compressed: see [`Builder::compression`].
//!
//! The [`guide`] says what to know before you build on it: keys, isolation, processes, durability, errors,
//! containers.

mod access;
mod api;
mod crypt;
mod env;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod globals;
pub mod guide;
mod log;
mod pages;
mod region;
mod seldom;
mod trace;
pub mod tuple;
mod txn;
pub mod typed;
mod types;
mod zeros;

#[doc(hidden)]
pub use access::Each;
pub use access::Method;
#[cfg(feature = "seam")]
#[doc(hidden)]
pub use access::hash_order;
pub use api::{
    Appender, Builder, Changes, ChangesIn, ChangesOptions, Commit, Copied, Cursor, DataStore, Database,
    DatabaseOptions, DatabaseStats, Entry, Env, Expiring, ExpiringCursor, Follower, Found, FoundKeys,
    FoundRecords, InOrderOfNumbers, InQueue, Index, IndexCursor, IndexOptions, Join, KeyRange, Kind,
    Lifetime, Locker, MultiCursor, MultiMap, Numbered, NumberedCursor, Pairs, Prefix, Queue, Range,
    RangeEstimate, Read, ReadTxn, Record, Savepoint, Sequence, SequenceOptions, Stats, Stopper, TextFile,
    Txn, TxnOptions, Unexpired, Values, Write,
};
pub use crypt::Cipher;
#[cfg(feature = "encryption")]
pub use crypt::EncryptionKey;
pub use env::{
    Activity, CheckpointReport, CompactReport, ImageReport, IndexKeys, Participant, Process, Progress,
    RecordLock, RecoveryReport, VerifyReport,
};
pub use env::{Change, Counters, OldestSnapshot, VolumeStats};
#[cfg(feature = "encryption")]
pub use env::{EncipherReport, EncryptionStats};
pub use env::{Epoch, History, JournalFile, Recovery, RecoveryPlan, Target};
pub use error::{Error, ErrorKind, Result};
pub use pages::volume::{Compression, Journal, Place};
pub use sablecat_os::calendar::Moment;
pub use txn::{DeadlockPolicy, Duplicates, Durability, Holds, IndexInfo, Isolation, OnRemove};
#[doc(hidden)]
pub use types::Content;
pub use types::{Lsn, PageId};

/// The example in the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

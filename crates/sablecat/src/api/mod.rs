//! What users see, and nothing else: thin handles over the layers below.

mod builder;
mod changes;
mod copy;
mod cursor;
mod data_store;
mod database;
mod entry;
mod environment;
mod follower;
mod index;
mod kept;
mod keys;
mod multi;
mod options;
mod range;
mod read;
mod sequence;
mod snapshot;
mod stats;
mod transaction;
mod waiting;
mod within;
mod write;

pub use builder::Builder;
pub use changes::{Changes, ChangesIn, ChangesOptions, Commit, Stopper};
pub use copy::Copied;
pub use cursor::Cursor;
pub use data_store::DataStore;
pub use database::{Database, Kind};
pub use entry::Entry;
pub use environment::Env;
pub use follower::Follower;
pub use index::{Found, FoundKeys, FoundRecords, Index, IndexOptions, Join};
pub use keys::{KeyRange, Prefix};
pub use multi::{Duplicates, MultiMap, Pairs, Values};
pub use options::TxnOptions;
pub use range::Range;
pub use read::{Read, Record};
pub use sequence::{Sequence, SequenceOptions};
pub use snapshot::ReadTxn;
pub use stats::{DatabaseStats, Stats};
pub use transaction::{Savepoint, Txn};
pub use write::Write;

use keys::Bounds;

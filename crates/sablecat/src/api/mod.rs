//! What users see, and nothing else: thin handles over the layers below.

mod builder;
mod data_store;
mod database;
mod environment;
mod range;
mod stats;
mod transaction;
mod visit;
mod within;

pub use builder::Builder;
pub use data_store::{DataStore, StoreTable};
pub use database::{Database, Entry};
pub use environment::Env;
pub use range::Range;
pub use stats::Stats;
pub use transaction::{ReadTxn, Savepoint, Txn, TxnOptions};

use std::ops::{Bound, RangeBounds};

use crate::access::btree::nest;

/// The bounds of a range, as owned keys.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds of a range as owned keys.
fn owned_bounds<K: AsRef<[u8]>>(bounds: &impl RangeBounds<K>) -> Bounds {
    let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (owned(bounds.start_bound()), owned(bounds.end_bound()))
}

/// The bounds of all keys that begin with `prefix`, in the order of bytes.
fn prefix_bounds(prefix: &[u8]) -> Bounds {
    (Bound::Included(prefix.to_vec()), nest::after(prefix).map_or(Bound::Unbounded, Bound::Excluded))
}

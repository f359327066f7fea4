//! What a transaction would change, before it commits. Its records in key order and the ranges that it
//! removes are in its `write_set`, of which `recent` is in memory, `sorted` where it is much, in leaves
//! (`sorted_leaf`), `custom` in a user's order. What they were before a savepoint is in `savepoints`. What of
//! them does not stay in memory is in `runs` of `block`s, each with a `filter`, in a `run_file`. Most values
//! are `short`.

mod block;
mod custom;
mod filter;
mod recent;
pub(in crate::txn) mod run_file;
pub(crate) mod runs;
pub(in crate::txn) mod savepoints;
pub(in crate::txn) mod short;
mod sorted;
mod sorted_leaf;
pub(in crate::txn) mod write_set;

pub(in crate::txn) use recent::RecentIter;

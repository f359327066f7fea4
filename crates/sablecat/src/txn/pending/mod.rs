//! What a transaction would change, before it commits: its records in key order and the ranges that it
//! removes (`write_set`, of which `recent` is in memory, `sorted` where it is much, `custom` in a user's
//! order), what they were before a savepoint (`savepoints`), and what of them does not stay in memory (`runs`
//! of `block`s, each with a `filter`, in a `run_file`). Most values are `short`.

mod block;
mod custom;
mod filter;
mod recent;
pub(in crate::txn) mod run_file;
pub(crate) mod runs;
pub(in crate::txn) mod savepoints;
pub(in crate::txn) mod short;
mod sorted;
pub(in crate::txn) mod write_set;

//! What a transaction has seen, and whether it still stands when it commits: what it has read (`reads`, of
//! each leaf: `leaf_read`, in pieces: `span`, and short keys at first: `key_read`; compared with what is
//! there by then: `validation`), what records were that it acts upon (`claims`), and how a scan sees its
//! state, which notes what it reads (`merged`).

pub(in crate::txn) mod claims;
mod key_read;
mod leaf_read;
pub(in crate::txn) mod merged;
pub(in crate::txn) mod reads;
mod span;
pub(in crate::txn) mod validation;

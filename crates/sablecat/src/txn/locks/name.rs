//! From a tree and a key to the hash that locks know a record by.
//!
//! Eight bytes at a time: exclusive-or, multiply to 128 bits, fold the halves together. Every participant
//! must find the same hash, so there is no secret in it. A user that chooses keys on purpose can make records
//! share a lock, and so make transactions wait for each other that need not. Nothing else depends on it.
//!
//! Keys are compared byte by byte here. In a tree with an order of its own, in which different bytes may be
//! one key, such spellings have different locks.

use crate::types::TreeId;

const SPREAD: [u64; 2] = [0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f];

/// The hash of a record.
#[inline]
pub(crate) fn record_hash(tree: TreeId, key: &[u8]) -> u64 {
    // The length tells keys apart that the padding of the last eight bytes would make equal.
    let start = fold(u64::from(tree.0) << 32 ^ key.len() as u64 ^ SPREAD[0], SPREAD[1]);
    let (eights, rest) = key.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = eights.iter().fold(start, |hash, eight| fold(hash ^ u64::from_le_bytes(*eight), SPREAD[1]));
    fold(hash ^ u64::from_le_bytes(last), SPREAD[0])
}

#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

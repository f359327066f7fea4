//! How a database hashes its keys, and orders them by that; and what else a process knows of a table.

use std::cmp::Ordering;

use super::siphash::Seed;
use super::ways::Ways;
use crate::access::btree::node::key_bytes_max;

/// How keys are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hashing {
    seed: Seed,
    /// Of longer keys so many bytes are hashed.
    stem_bytes: usize,
}

impl Hashing {
    /// With a seed, in pages of this size.
    pub(crate) fn new(seed: Seed, page_size: usize) -> Hashing {
        Hashing { seed, stem_bytes: key_bytes_max(page_size) }
    }

    /// The hash of a key, whole or as much of it as a page has.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash(key.get(..self.stem_bytes).unwrap_or(key))
    }

    /// How two whole keys are ordered: by their hashes, then by their bytes.
    pub(crate) fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        self.hash(one).cmp(&self.hash(other)).then_with(|| one.cmp(other))
    }
}

/// A hash table as a process knows it.
#[derive(Debug)]
pub(crate) struct HashTable {
    /// How its keys are hashed.
    pub(crate) hashing: Hashing,
    /// Where they were.
    pub(super) ways: Ways,
}

impl HashTable {
    /// One of which nothing is remembered yet.
    pub(crate) fn new(hashing: Hashing) -> HashTable {
        HashTable { hashing, ways: Ways::default() }
    }
}

/// How hash tables with a seed, in pages of this size, order two keys: for this project's own tests.
#[cfg(feature = "seam")]
pub fn hash_order(seed: [u8; super::SEED_BYTES], page_size: usize, one: &[u8], other: &[u8]) -> Ordering {
    Hashing::new(Seed::of(seed), page_size).compare(one, other)
}

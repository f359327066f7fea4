//! Filters: whether a layer may have a key, without a look at its leaves.
//!
//! A layer's filters are a tree of their own. Each record of it is for some of the layer's records, which
//! follow each other: its key is the first of theirs, its value a Bloom filter of all of them, ten bits a
//! key, which says of one key in a hundred that is not there that it may be. (Bloom, Space/time trade-offs in
//! hash coding with allowable errors, Communications of the ACM 13, 1970; all bits from one hash as in Kirsch
//! and Mitzenmacher, Less hashing, same performance, 2006.) So a filter is made with the records that it is
//! for, whatever comes after them, and lies in one page, beside those that are asked about the same keys.

use std::ops::Bound;

use super::page::Layer;
use super::scan::SideBySide;
use crate::access::PageRead;
use crate::access::btree::{self, Toward, node};
use crate::access::method::{StoredValue, Tree};
use crate::access::scan::Scanned;
use crate::error::{Error, Result};

/// Bits that a key takes.
const BITS_A_KEY: usize = 10;
/// How many of them are set for it.
const BITS_SET: u64 = 7;

/// A key's bits, whatever filter they are for.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterHash(u64);

impl FilterHash {
    pub(super) fn of(key: &[u8]) -> FilterHash {
        let mut hash = key.len() as u64;
        let mut mix = |word: u64| {
            let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
            hash = (product as u64) ^ (product >> 64) as u64 ^ hash.rotate_left(29);
        };
        let (words, rest) = key.as_chunks::<8>();
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last));
        mix(0xd6e8_feb8_6659_fd93);
        FilterHash(hash)
    }

    /// The bits of a filter that are set for it.
    fn bits(self, filter_bytes: usize) -> impl Iterator<Item = usize> {
        let bits = filter_bytes as u128 * 8;
        let step = self.0.rotate_left(32) | 1;
        (0..BITS_SET).map(move |n| {
            let hash = self.0.wrapping_add(step.wrapping_mul(n));
            // As large a part of all bits as the hash is of all hashes.
            ((u128::from(hash) * bits) >> 64) as usize
        })
    }

    fn may_be_in(self, filter: &[u8]) -> bool {
        filter.is_empty() || self.bits(filter.len()).all(|bit| filter[bit / 8] & 1 << (bit % 8) != 0)
    }
}

/// How many keys a filter is for, at most: as many as keep it in a page, beside the longest key.
pub(super) fn keys_max(page_size: usize) -> usize {
    node::inline_value_bytes_max(page_size, node::key_bytes_max(page_size)) * 8 / BITS_A_KEY
}

/// A filter of some keys.
pub(super) fn make(hashes: &[FilterHash]) -> Vec<u8> {
    let mut filter = vec![0; (hashes.len() * BITS_A_KEY).div_ceil(8)];
    for hash in hashes {
        hash.bits(filter.len()).for_each(|bit| filter[bit / 8] |= 1 << (bit % 8));
    }
    filter
}

/// Whether a layer with these filters may have a key.
pub(super) fn may_have<R: PageRead>(
    reader: &R,
    filters: &Tree<'_>,
    key: &[u8],
    hash: FilterHash,
) -> Result<bool> {
    let page = btree::find_leaf(reader, filters, key, Toward::Key, |_| {})?;
    reader.read(page, |bytes| {
        let leaf = node::Leaf::new(bytes);
        let slot = match leaf.search(key, filters.order) {
            Ok(slot) => Some(slot),
            Err(slot) => slot.checked_sub(1),
        };
        match slot.map(|slot| leaf.value(slot)) {
            Some(StoredValue::Inline(filter)) => hash.may_be_in(filter),
            // Before the first that the page has: the page before may have one for it.
            _ => true,
        }
    })
}

/// The first key of a layer that its filters do not know.
pub(super) fn first_unknown<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    layer: &Layer,
    filters: &Tree<'_>,
) -> Result<Option<Vec<u8>>> {
    let (mut records, mut from) = (SideBySide::of_layers(std::slice::from_ref(layer)), Bound::Unbounded);
    loop {
        let bounds = (from.as_ref().map(Vec::as_slice), Bound::Unbounded);
        let Some(key) = records.next(tree, bounds, &mut Scanned(reader), true)? else { return Ok(None) };
        if !may_have(reader, filters, &key, FilterHash::of(&key))? {
            return Ok(Some(key));
        }
        from = Bound::Excluded(key);
    }
}

/// The error of a filter that would be too long for a page.
#[cold]
pub(super) fn too_long() -> Error {
    Error::corruption("a filter is longer than filters are")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_knows_its_keys_and_few_others() {
        for count in [1, 7, 300, 800u32] {
            let key = |n: u32| [&b"key"[..], &n.wrapping_mul(0x9e37_79b1).to_be_bytes()].concat();
            let hashes: Vec<_> = (0..count).map(|n| FilterHash::of(&key(n))).collect();
            let filter = make(&hashes);
            assert!(hashes.iter().all(|hash| hash.may_be_in(&filter)));
            let wrong = (count..count + 10_000).filter(|&n| FilterHash::of(&key(n)).may_be_in(&filter));
            assert!(wrong.count() < 300, "of 10,000 beside {count} keys");
        }
    }

    /// They are in files: what they are must not change.
    #[test]
    fn hashes_are_what_they_were() {
        let hash = |key: &[u8]| FilterHash::of(key).0;
        assert_eq!(
            [hash(b""), hash(b"key"), hash(b"a longer key of more words")],
            [0xc9d8_74ca_57d9_e055, 0x0b9b_b4ea_1585_bf68, 0xba57_1359_2ee7_b7bc]
        );
    }
}

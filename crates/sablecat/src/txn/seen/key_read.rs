//! A short key that a transaction has looked for, or all of a leaf, as most of what is read: noted in few
//! bytes, without a thought of what else was read.

use std::ops::Range;

use super::leaf_read::LeafRead;
use super::span::ReadSpan;
use crate::types::PageId;

/// Bytes of a key at most.
const SHORT: usize = 16;

const _: () = assert!(size_of::<KeyRead>() == 24, "docs/decisions/0091 says so");

/// A key with zeros behind it, if it is short.
///
/// Put together in registers: bytes that are copied to memory and loaded from there as words at once have the
/// processor wait until they are written.
#[inline]
fn padded(key: &[u8]) -> Option<[u8; SHORT]> {
    let word = |bytes: &[u8]| bytes.first_chunk().map(|eight| u64::from_le_bytes(*eight));
    let half = |bytes: &[u8]| bytes.first_chunk().map(|four| u64::from(u32::from_le_bytes(*four)));
    let unused_bits = SHORT.checked_sub(key.len())? * 8;
    let words = match key.len() {
        8.. => (word(key)?, word(&key[key.len() - 8..])?.checked_shr(unused_bits as u32).unwrap_or(0)),
        4.. => (half(key)? | half(&key[key.len() - 4..])? << (96 - unused_bits), 0),
        _ => (key.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
    };
    Some((u128::from(words.1) << 64 | u128::from(words.0)).to_le_bytes())
}

/// Stands for the length of a key: all that the leaf has was read.
const ALL: u8 = u8::MAX;

/// A key that was looked for in a leaf of a tree itself, not of a subtree; or all that is in the leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRead {
    page: PageId,
    /// Which of the set's trees.
    tree: u16,
    len: u8,
    key: [u8; SHORT],
}

impl KeyRead {
    /// None if that does not fit. `tree` is asked for if the key does.
    #[inline]
    pub(super) fn new(tree: impl FnOnce() -> usize, page: PageId, key: &[u8]) -> Option<KeyRead> {
        let own = padded(key)?;
        Some(KeyRead { page, tree: u16::try_from(tree()).ok()?, len: key.len() as u8, key: own })
    }

    /// All that a leaf has. None if that does not fit.
    #[inline]
    pub(super) fn all(tree: usize, page: PageId) -> Option<KeyRead> {
        Some(KeyRead { page, tree: u16::try_from(tree).ok()?, len: ALL, key: [0; SHORT] })
    }

    /// The same, as what was read of the leaf; `no_way` is an empty one among the set's ways.
    pub(super) fn whole(&self, no_way: Range<usize>) -> LeafRead {
        let span = self.key().map_or(ReadSpan::Page, ReadSpan::of_key);
        LeafRead::new((self.tree(), no_way), self.page, span)
    }

    pub(super) fn tree(&self) -> usize {
        self.tree.into()
    }

    pub(super) fn page(&self) -> PageId {
        self.page
    }

    /// The key, as such things are kept; none: all was read.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.key.get(..self.len.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_padded_with_zeros() {
        let bytes: Vec<u8> = (1..=SHORT as u8 + 1).collect();
        for len in 0..=SHORT {
            let mut expected = [0; SHORT];
            expected[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(padded(&bytes[..len]), Some(expected), "{len} bytes");
        }
        assert_eq!(padded(&bytes), None);
    }
}

//! A short key that a transaction has looked for, as most of what is read: noted in few bytes, without a
//! thought of what else was read.

use std::ops::Range;

use super::leaf_read::LeafRead;
use super::span::ReadSpan;
use crate::types::PageId;

/// Bytes of a key at most.
const SHORT: usize = 16;

const _: () = assert!(size_of::<KeyRead>() == 24, "docs/decisions/0091 says so");

/// A key that was looked for in a leaf of a tree itself, not of a subtree.
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
        let mut own = [0; SHORT];
        own.get_mut(..key.len())?.copy_from_slice(key);
        Some(KeyRead { page, tree: u16::try_from(tree()).ok()?, len: key.len() as u8, key: own })
    }

    /// The same, as what was read of the leaf; `no_way` is an empty one among the set's ways.
    pub(super) fn whole(&self, no_way: Range<usize>) -> LeafRead {
        LeafRead::new((self.tree(), no_way), self.page, ReadSpan::of_key(self.key()))
    }

    pub(super) fn tree(&self) -> usize {
        self.tree.into()
    }

    pub(super) fn page(&self) -> PageId {
        self.page
    }

    /// The key, as such things are kept.
    pub(super) fn key(&self) -> &[u8] {
        &self.key[..self.len.into()]
    }
}

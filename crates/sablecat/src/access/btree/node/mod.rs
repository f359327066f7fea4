//! The inside of one B+tree page.
//!
//! Pure functions over `&[u8]` and `&mut [u8]` pages of 480 to 65536 bytes: how a leaf and an inner page are
//! laid out, how a key is found in one, what is done to one page (insert, replace, remove, compact) and to
//! two (split, merge, bulk load). Disks, versions, latches and transactions are none of this module's
//! business; nor does it allocate pages or follow child numbers.
//!
//! ```text
//! 0        64      128
//! | header | hints | heads u32[n] | inner: children u32[n] | offsets u16[n] | free | heap: cells, fences |
//! ```
//!
//! * **Fences.** A page holds keys `lower <= key < upper`; an absent fence is infinite. What both fences
//!   begin with, every key in between begins with, so cells leave that *prefix* out (Bayer and Unterauer's
//!   prefix B-tree).
//! * **Heads.** A slot's head is four bytes of its key as an integer, so that one vector instruction compares
//!   sixteen keys. The heads start behind the prefix and behind the bytes that all keys of the page happen to
//!   share besides (the *skip*), because pages at the tree's edges and the root, which lack a fence, would
//!   otherwise have heads that are all alike.
//! * **Hints.** Every 2^k-th head again, beside the header: one vector compare of the sixteen narrows the
//!   search (LeanStore's hints, with a power of two between them so that an append touches none or one of
//!   them).
//! * **Cells** describe themselves and stay where they are while slots move: heads, hints and offsets can be
//!   derived from them.
//!
//! What is trusted: bytes from disk pass [`check_bounds`] before any other function here sees them. After
//! that nothing here panics or reads outside the page, even if keys are out of order. All but `simd` is safe
//! code, so a caller's mistake can panic, no more.
//!
//! Costs, 4 KiB page in cache, keys of 8 and values of 32 bytes: a search touches the header and hint lines,
//! one line of heads, the offset and the cell: five lines, and two vector compares. Out of cache that is
//! three misses one after the other (header and hints, heads and offset, cell), since the offsets are
//! prefetched while the heads are compared.

mod alike;
mod bulk;
mod bytes;
mod cell;
mod check;
mod counts;
#[cfg(any(test, feature = "fuzzing"))]
mod exercise;
mod header;
mod heap;
mod inner;
mod leaf;
mod limits;
mod merge;
mod search;
mod simd;
mod slots;
mod split;

use crate::access::hash::HashTable;
use std::cmp::Ordering;
use std::fmt;

use crate::types::PageId;

pub(crate) use alike::Alike;
pub(crate) use bulk::{InnerLoader, LeafLoader};
pub(crate) use check::{check_bounds, check_full, claim};
pub(crate) use counts::{COUNT_BYTES, decode_count, encode_count};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use exercise::exercise;
pub(crate) use header::{FLAG_COUNTED, FLAG_CUSTOM_ORDER, NodeKind, flags, is_counted, kind, level};
pub(crate) use heap::gap_of;
pub(crate) use inner::{Inner, InnerMut};
pub(crate) use leaf::{Leaf, LeafMut, LeafRecord};
pub(crate) use limits::{inline_value_bytes_max, key_bytes_max};
pub(crate) use merge::{may_merge, merge_inner, merge_leaf};
pub(crate) use split::{Coming, SplitPoint, split_inner, split_leaf};

/// How the keys of a tree are ordered.
#[derive(Clone, Copy)]
pub(crate) enum Order<'a> {
    /// Byte by byte, shorter first.
    Bytes,
    /// By the user's comparator. Pages of such a tree are formatted with [`FLAG_CUSTOM_ORDER`].
    Custom(&'a (dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync)),
    /// By hash, then byte by byte: of hash tables. No page of a B+tree is so ordered.
    Hashed(&'a HashTable),
}

impl Order<'_> {
    /// Compares two whole keys.
    #[inline]
    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Order::Bytes => bytes::compare(a, b),
            Order::Custom(compare) => compare(a, b),
            Order::Hashed(table) => table.hashing.compare(a, b),
        }
    }
}

impl fmt::Debug for Order<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Bytes => "Bytes",
            Order::Custom(_) => "Custom",
            Order::Hashed(_) => "Hashed",
        })
    }
}

/// The value of a record, as a leaf stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoredValue<'a> {
    /// The bytes themselves.
    Inline(&'a [u8]),
    /// Too long for the leaf: `len` bytes in pages of their own, of which this is the first.
    Long {
        /// Where the value begins.
        first_page: PageId,
        /// Its length in bytes.
        len: u64,
    },
}

impl<'a> StoredValue<'a> {
    /// Stands for a record that is to be taken for removed, where an older layer of its tree may have one
    /// (access/lsm): no value has pages and no bytes.
    pub(crate) const REMOVED: StoredValue<'static> = StoredValue::Long { first_page: PageId::NONE, len: 0 };

    /// Whether it stands for a removed record.
    #[inline]
    pub(crate) fn is_removed(self) -> bool {
        self.in_pages().is_none() && !matches!(self, StoredValue::Inline(_))
    }

    /// Where its pages are, and how many bytes are in them, if it has pages of its own.
    #[inline]
    pub(crate) fn in_pages(self) -> Option<(PageId, u64)> {
        match self {
            StoredValue::Long { first_page, len } if len > 0 => Some((first_page, len)),
            _ => None,
        }
    }
}

/// What a page covers: `lower <= key < upper`. An absent fence is infinite.
///
/// An absent lower fence differs from an empty one: under a custom order keys may sort before the empty key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fences<'a> {
    /// The least key that may be in the page.
    pub(crate) lower: Option<&'a [u8]>,
    /// The first key beyond the page.
    pub(crate) upper: Option<&'a [u8]>,
}

impl Fences<'_> {
    /// Everything: the fences of a tree's first root.
    pub(crate) const NONE: Fences<'static> = Fences { lower: None, upper: None };

    /// Whether a page with these fences is where `key` belongs.
    #[inline]
    pub(crate) fn cover(&self, key: &[u8], order: Order<'_>) -> bool {
        self.lower.is_none_or(|lower| order.compare(lower, key).is_le())
            && self.upper.is_none_or(|upper| order.compare(key, upper).is_lt())
    }
}

/// The page has no room: split it and try again. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageFull;

/// Bytes taken in a leaf or inner page by slots, cells and fences; 0 in a page of another kind.
pub(crate) fn used_bytes(page: &[u8]) -> usize {
    match kind(page) {
        Some(NodeKind::Leaf) => Leaf::new(page).used_bytes(),
        Some(NodeKind::Inner) => Inner::new(page).used_bytes(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;

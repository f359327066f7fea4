//! The first 128 bytes of a page: what it is, and where its parts are.
//!
//! ```text
//!   0  ..   common               what all pages begin with (pages/header.rs); the kind is 1 for a leaf,
//!                                2 for an inner page
//!  21  u8   level                0 for a leaf
//!  22  u16  flags                bit 0: custom order: no prefix, no skip, heads zero; bit 1: counted
//!  24  u16  count                of slots
//!  26  u16  prefix length        of the lower fence: what the cells' keys leave out
//!  28  u32  heap start           the lowest byte of the heap; the page size when it is empty
//!  32  u32  garbage              dead bytes in the heap
//!  36  u16  lower fence offset   0: absent; 128 if the fence is the empty key
//!  38  u16  lower fence length
//!  40  u16  upper fence offset   likewise
//!  42  u16  upper fence length
//!  44  u32  first child          inner pages: the child left of the first separator; zero in leaves
//!  48  u16  skip                 bytes after the prefix that all keys share and heads leave out
//!  50  u48  records              counted inner pages: below the first child; else zero
//!  56  u64  skip word            the first 8 skipped bytes, as a big-endian number, zero padded
//!  64  u32  hints[16]            hints[j] = head of slot (j+1) * 2^k - 1; all ones if there is no such slot
//! 128       heads
//! ```
//!
//! All integers little-endian.

use super::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use super::counts::COUNT_BYTES;
use super::{Fences, bytes};
use crate::pages::header as common;
use crate::types::{PageId, TreeId};

/// Where the heads begin: the length of the header with its hints.
pub(super) const HEADER_BYTES: usize = 128;
/// Where the hints are.
pub(super) const HINTS_AT: usize = 64;
/// Where the records below the first child are counted.
const RECORDS_AT: usize = 50;
/// How many hints a page has.
pub(super) const HINTS: usize = 16;

/// Header flag: the tree is ordered by a comparator of the user's.
pub(crate) const FLAG_CUSTOM_ORDER: u16 = 1;

/// Header flag: the tree counts its records (counts.rs).
pub(crate) const FLAG_COUNTED: u16 = 2;

/// What a page of a tree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum NodeKind {
    /// Records.
    Leaf = 1,
    /// Separators and child pages.
    Inner = 2,
}

/// What `page` says it is; `None` if that is no page of a tree, or it is too short to say.
#[inline(always)]
pub(crate) fn kind(page: &[u8]) -> Option<NodeKind> {
    match common::kind(page)? {
        1 => Some(NodeKind::Leaf),
        2 => Some(NodeKind::Inner),
        _ => None,
    }
}

/// How far above the leaves: 0 is a leaf.
#[inline]
pub(crate) fn level(page: &[u8]) -> u8 {
    page[21]
}

/// What the page was formatted with: 0 or [`FLAG_CUSTOM_ORDER`].
#[inline]
pub(crate) fn flags(page: &[u8]) -> u16 {
    u16_at(page, 22)
}

macro_rules! fields {
    ($($at:literal $get:ident $set:ident $read:ident $write:ident $word:ty;)*) => {$(
        #[inline(always)]
        pub(super) fn $get(page: &[u8]) -> usize {
            $read(page, $at) as usize
        }
        #[inline(always)]
        pub(super) fn $set(page: &mut [u8], value: usize) {
            debug_assert!(value <= <$word>::MAX as usize);
            $write(page, $at, value as $word);
        }
    )*};
}

fields! {
    24 count set_count u16_at put_u16 u16;
    26 prefix_len set_prefix_len u16_at put_u16 u16;
    28 heap_start set_heap_start u32_at put_u32 u32;
    32 garbage set_garbage u32_at put_u32 u32;
    48 skip set_skip u16_at put_u16 u16;
}

#[inline(always)]
pub(super) fn is_custom(page: &[u8]) -> bool {
    flags(page) & FLAG_CUSTOM_ORDER != 0
}

/// Whether the tree counts its records.
#[inline(always)]
pub(crate) fn is_counted(page: &[u8]) -> bool {
    flags(page) & FLAG_COUNTED != 0
}

/// How many records there are below the first child of a counted page, as it stands there.
#[inline(always)]
pub(super) fn first_records(page: &[u8]) -> &[u8; COUNT_BYTES] {
    page[RECORDS_AT..].first_chunk().expect("a page is longer than its header")
}

#[inline(always)]
pub(super) fn set_first_records(page: &mut [u8], records: [u8; COUNT_BYTES]) {
    page[RECORDS_AT..RECORDS_AT + COUNT_BYTES].copy_from_slice(&records);
}

#[inline(always)]
pub(super) fn first_child(page: &[u8]) -> PageId {
    PageId(u32_at(page, 44))
}

#[inline(always)]
pub(super) fn set_first_child(page: &mut [u8], child: PageId) {
    put_u32(page, 44, child.0);
}

#[inline(always)]
pub(super) fn skip_word(page: &[u8]) -> u64 {
    u64_at(page, 56)
}

#[inline(always)]
pub(super) fn set_skip_word(page: &mut [u8], word: u64) {
    put_u64(page, 56, word);
}

/// Which of the two fences.
#[derive(Clone, Copy)]
pub(super) enum FenceSide {
    Lower = 36,
    Upper = 40,
}

/// Offset and length of a fence in the heap, if there is one.
#[inline(always)]
pub(super) fn fence_place(page: &[u8], side: FenceSide) -> Option<(usize, usize)> {
    match u16_at(page, side as usize) as usize {
        0 => None,
        at => Some((at, u16_at(page, side as usize + 2) as usize)),
    }
}

#[inline(always)]
pub(super) fn fence(page: &[u8], side: FenceSide) -> Option<&[u8]> {
    fence_place(page, side).map(|(at, len)| &page[at..at + len])
}

#[inline(always)]
pub(super) fn fences(page: &[u8]) -> Fences<'_> {
    Fences { lower: fence(page, FenceSide::Lower), upper: fence(page, FenceSide::Upper) }
}

/// The bytes every key of the page begins with and no cell repeats.
#[inline(always)]
pub(super) fn prefix(page: &[u8]) -> &[u8] {
    match prefix_len(page) {
        0 => &[],
        len => &fence(page, FenceSide::Lower).unwrap_or_default()[..len],
    }
}

/// What a page is besides its contents.
#[derive(Clone, Copy)]
pub(super) struct NodeIdentity {
    pub(super) page: PageId,
    pub(super) tree: TreeId,
    pub(super) kind: NodeKind,
    pub(super) level: u8,
    pub(super) flags: u16,
    pub(super) first_child: PageId,
    pub(super) first_records: [u8; COUNT_BYTES],
}

impl NodeIdentity {
    /// That of an existing leaf or inner page.
    pub(super) fn of(page: &[u8]) -> NodeIdentity {
        NodeIdentity {
            page: common::page_id(page),
            tree: common::tree_id(page),
            kind: kind(page).unwrap_or(NodeKind::Inner),
            level: level(page),
            flags: flags(page),
            first_child: first_child(page),
            first_records: *first_records(page),
        }
    }

    pub(super) fn is_custom(&self) -> bool {
        self.flags & FLAG_CUSTOM_ORDER != 0
    }
}

/// How many bytes cells may leave out between these fences.
pub(super) fn prefix_between(fences: Fences<'_>, custom: bool) -> usize {
    match fences {
        Fences { lower: Some(lower), upper: Some(upper) } if !custom => bytes::common_len(lower, upper),
        _ => 0,
    }
}

/// Makes `page` an empty page: header, all hints "none", fences at the end of the heap. Other bytes are left
/// as they are.
pub(super) fn format(page: &mut [u8], identity: NodeIdentity, fences: Fences<'_>) {
    assert!(common::is_page_size(page.len()), "page size {}", page.len());
    page[..HINTS_AT].fill(0);
    page[HINTS_AT..HEADER_BYTES].fill(0xff);
    common::form(page, identity.page, identity.tree, identity.kind as u8);
    page[21] = identity.level;
    put_u16(page, 22, identity.flags);
    set_first_child(page, identity.first_child);
    set_first_records(page, identity.first_records);
    set_heap_start(page, page.len());
    place_fence(page, FenceSide::Lower, fences.lower);
    place_fence(page, FenceSide::Upper, fences.upper);
    set_prefix_len(page, prefix_between(fences, identity.is_custom()));
}

/// Stores a fence at the bottom of the heap, which must have room for it.
pub(super) fn place_fence(page: &mut [u8], side: FenceSide, fence: Option<&[u8]>) {
    let (at, len) = match fence {
        None => (0, 0),
        Some([]) => (HEADER_BYTES, 0),
        Some(key) => {
            let at = heap_start(page) - key.len();
            page[at..at + key.len()].copy_from_slice(key);
            set_heap_start(page, at);
            (at, key.len())
        }
    };
    put_u16(page, side as usize, at as u16);
    put_u16(page, side as usize + 2, len as u16);
}

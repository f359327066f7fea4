//! What the pages of all kinds have in common: their first 21 bytes.
//!
//! ```text
//!   0  u32  checksum             set when the page is written to disk, by the volume
//!   4  u32  page id
//!   8  u64  born LSN             at which this version became current; stored atomically, zero until then
//!  16  u32  tree id              the number of the database that the page belongs to, or of a part of it
//!  20  u8   kind                 1 leaf, 2 inner page (access/btree), 3 long value (access/long.rs), 4 free,
//!                                   5 bucket, 6 directory of hash tables (access/hash), 7 root with layers
//!                                   (access/lsm), 255 as only tests have them (access/flat)
//!  21  ..   as the kind says
//! ```
//!
//! A *free* version is the last one of its page, which says "nothing from here on"; other pages may end with
//! it:
//!
//! ```text
//!  24  u32  freed after          how many pages with the numbers that follow are free with it
//! ```
//!
//! All integers little-endian. What the other kinds mean is for the access methods to say.

use crate::region::BORN_AT;
use crate::types::{Lsn, PageId, TreeId};

/// The smallest page: the smallest block without the longest trailer.
pub(crate) const PAGE_SIZE_MIN: usize = 512 - 32;
/// Bytes of what is common.
const COMMON_BYTES: usize = 21;
/// The kind of a free page.
const KIND_FREE: u8 = 4;

const PAGE_ID_AT: usize = 4;
const TREE_ID_AT: usize = 16;
const KIND_AT: usize = 20;
const FREED_AFTER_AT: usize = 24;

/// Whether a page can have so many bytes: those of a block, without what is behind the page there.
pub(crate) const fn is_page_size(bytes: usize) -> bool {
    PAGE_SIZE_MIN <= bytes && bytes <= 65536 && bytes.is_multiple_of(8)
}

/// Bytes at a place that the page has, as the code that checked it knows.
#[inline(always)]
pub(crate) fn at<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    match page.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(array) => *array,
        None => outside(at),
    }
}

#[cold]
#[inline(never)]
fn outside(at: usize) -> ! {
    panic!("read at {at} is outside the page: was it checked?")
}

/// The page's number, as written in it.
#[inline(always)]
pub(crate) fn page_id(page: &[u8]) -> PageId {
    PageId(u32::from_le_bytes(at(page, PAGE_ID_AT)))
}

/// Gives the page another number: for content that moves to another page as it is.
pub(crate) fn set_page_id(page: &mut [u8], id: PageId) {
    page[PAGE_ID_AT..PAGE_ID_AT + 4].copy_from_slice(&id.0.to_le_bytes());
}

/// The LSN at which this version of the page became current.
#[inline(always)]
pub(crate) fn born(page: &[u8]) -> Lsn {
    Lsn(u64::from_le_bytes(at(page, BORN_AT)))
}

/// The tree that the page belongs to.
#[inline(always)]
pub(crate) fn tree_id(page: &[u8]) -> TreeId {
    TreeId(u32::from_le_bytes(at(page, TREE_ID_AT)))
}

/// Gives the page to another tree.
pub(crate) fn set_tree_id(page: &mut [u8], id: TreeId) {
    page[TREE_ID_AT..TREE_ID_AT + 4].copy_from_slice(&id.0.to_le_bytes());
}

/// What kind of page it says it is; none if it is too short to say.
#[inline(always)]
pub(crate) fn kind(page: &[u8]) -> Option<u8> {
    page.get(KIND_AT).copied()
}

/// Says of a page, whose other bytes are for the caller, what it is.
#[inline(always)]
pub(crate) fn form(page: &mut [u8], id: PageId, tree: TreeId, kind: u8) {
    page[..COMMON_BYTES].fill(0);
    set_page_id(page, id);
    set_tree_id(page, tree);
    page[KIND_AT] = kind;
}

/// Forms the last version of a page, with which so many pages that follow it are free.
pub(crate) fn form_free(page: &mut [u8], id: PageId, freed_after: u32) {
    page.fill(0);
    form(page, id, TreeId(0), KIND_FREE);
    page[FREED_AFTER_AT..FREED_AFTER_AT + 4].copy_from_slice(&freed_after.to_le_bytes());
}

/// Whether it is a page's last version.
#[inline(always)]
pub(crate) fn is_free(page: &[u8]) -> bool {
    kind(page) == Some(KIND_FREE)
}

/// How many pages a version says are free after its own; 0 if it is not a last version.
pub(crate) fn freed_after(page: &[u8]) -> u64 {
    if is_free(page) { u64::from(u32::from_le_bytes(at(page, FREED_AFTER_AT))) } else { 0 }
}

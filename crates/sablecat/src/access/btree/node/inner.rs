//! Inner pages: separators and, around them, child pages.
//!
//! With n separators there are n + 1 children. Child i + 1 covers the keys from separator i up; child 0 those
//! below all separators.
//!
//! In a counted page each child has a count of the records below it (counts.rs).

use super::bytes::{put_u32, u32_at};
use super::counts::{COUNT_BYTES, decode_count, encode_count};
use super::header::{self, NodeIdentity, NodeKind};
use super::slots::{INNER, cell, child_at};
use super::{Fences, Order, PageFull, StoredValue, heap, search};
use crate::types::{PageId, TreeId};

/// What stands beside a separator before there is something to be said of the child.
#[inline(always)]
fn nothing(page: &[u8]) -> StoredValue<'static> {
    StoredValue::Inline(if header::is_counted(page) { &[0; COUNT_BYTES] } else { &[] })
}

/// An inner page to read. The page has passed [`check_bounds`](super::check_bounds), or was made here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner<'a> {
    pub(super) page: &'a [u8],
}

impl<'a> Inner<'a> {
    /// Trusts the page to be a checked inner page; on any other the methods may panic.
    #[inline(always)]
    pub(crate) fn new(page: &'a [u8]) -> Inner<'a> {
        debug_assert_eq!(header::kind(page), Some(NodeKind::Inner));
        Inner { page }
    }

    /// How many separators there are; there is one child more.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        header::count(self.page)
    }

    /// How far above the leaves the page is, at least 1.
    #[inline]
    pub(crate) fn level(self) -> u8 {
        header::level(self.page)
    }

    /// The child that covers `key`, with its number. This page must cover the key; this is not checked.
    #[inline]
    pub(crate) fn find(self, key: &[u8], order: Order<'_>) -> (usize, PageId) {
        let child = match search::search::<INNER>(self.page, key, order) {
            Ok(separator) => separator + 1,
            Err(child) => child,
        };
        (child, self.child(child))
    }

    /// A child by its number, `0..=count`.
    #[inline]
    pub(crate) fn child(self, i: usize) -> PageId {
        let count = self.count();
        assert!(i <= count, "child {i} of {count}");
        match i {
            0 => header::first_child(self.page),
            _ => PageId(u32_at(self.page, child_at(count, i - 1))),
        }
    }

    /// A separator by its number, `0..count`, as what all keys below this page begin with, and the rest.
    #[inline]
    pub(crate) fn separator(self, i: usize) -> (&'a [u8], &'a [u8]) {
        (header::prefix(self.page), cell::<INNER>(self.page, i).key(self.page))
    }

    /// How many records there are below a child of a counted page, `0..=count`. 0 in a page without counts.
    #[inline]
    pub(crate) fn records_below(self, i: usize) -> u64 {
        let counted = match i {
            0 => Some(header::first_records(self.page)),
            _ => {
                let cell = cell::<INNER>(self.page, i - 1);
                self.page[cell.value_at()..cell.value_at() + cell.value_len].first_chunk()
            }
        };
        counted.map_or(0, decode_count)
    }

    /// How many records there are below the first `n` children of a counted page.
    #[inline]
    pub(crate) fn records_before(self, n: usize) -> u64 {
        (0..n).map(|i| self.records_below(i)).sum()
    }

    /// Makes `key` a separator.
    pub(crate) fn copy_separator(self, i: usize, key: &mut Vec<u8>) {
        let (prefix, suffix) = self.separator(i);
        key.clear();
        key.extend_from_slice(prefix);
        key.extend_from_slice(suffix);
    }

    /// What the page covers.
    #[inline]
    pub(crate) fn fences(self) -> Fences<'a> {
        header::fences(self.page)
    }

    #[cfg(test)]
    /// The first key beyond the page; `None`: no bound.
    #[inline]
    pub(crate) fn upper_fence(self) -> Option<&'a [u8]> {
        self.fences().upper
    }

    #[cfg(test)]
    /// Whether `key` is to be looked for below this page.
    #[inline]
    pub(crate) fn covers(self, key: &[u8], order: Order<'_>) -> bool {
        self.fences().cover(key, order)
    }

    /// Bytes taken by separators, children and fences; with [`free_bytes`](Self::free_bytes), the page less
    /// its header.
    pub(crate) fn used_bytes(self) -> usize {
        heap::used_bytes::<INNER>(self.page)
    }

    /// Whether a separator of `separator_len` bytes can be inserted.
    #[inline]
    pub(crate) fn fits(self, separator_len: usize) -> bool {
        heap::fits::<INNER>(self.page, separator_len, nothing(self.page))
    }
}

/// An inner page to change.
#[derive(Debug)]
pub(crate) struct InnerMut<'a> {
    page: &'a mut [u8],
}

impl<'a> InnerMut<'a> {
    /// Trusts the page to be a checked inner page.
    #[inline(always)]
    pub(crate) fn new(page: &'a mut [u8]) -> InnerMut<'a> {
        debug_assert_eq!(header::kind(page), Some(NodeKind::Inner));
        InnerMut { page }
    }

    /// Makes `page` an inner page without separators, with one child; whatever it held is overwritten.
    pub(crate) fn format(
        page: &'a mut [u8],
        page_id: PageId,
        tree: TreeId,
        flags: u16,
        level: u8,
        fences: Fences<'_>,
        first_child: PageId,
    ) -> InnerMut<'a> {
        let first_records = [0; COUNT_BYTES];
        let identity = NodeIdentity {
            page: page_id,
            tree,
            kind: NodeKind::Inner,
            level,
            flags,
            first_child,
            first_records,
        };
        header::format(page, identity, fences);
        InnerMut { page }
    }

    #[cfg(test)]
    /// The page as it is now.
    #[inline(always)]
    pub(crate) fn as_inner(&self) -> Inner<'_> {
        Inner { page: self.page }
    }

    /// Inserts separator `i` and, right of it, child `i + 1`: what a split of child `i` asks for.
    pub(crate) fn insert(&mut self, i: usize, separator: &[u8], child: PageId) -> Result<(), PageFull> {
        let suffix = separator.get(header::prefix_len(self.page)..).unwrap_or_default();
        heap::insert::<INNER>(self.page, i, suffix, nothing(self.page))?;
        self.replace_child(i + 1, child);
        Ok(())
    }

    /// Puts another page in the place of child `i`, `0..=count`.
    pub(crate) fn replace_child(&mut self, i: usize, child: PageId) {
        let count = header::count(self.page);
        assert!(i <= count, "child {i} of {count}");
        match i {
            0 => header::set_first_child(self.page, child),
            _ => put_u32(self.page, child_at(count, i - 1), child.0),
        }
    }

    /// Says how many records there are below child `i`, `0..=count`, of a counted page. A page without counts
    /// stays as it is.
    #[inline]
    pub(crate) fn set_records(&mut self, i: usize, records: u64) {
        if !header::is_counted(self.page) {
            return;
        }
        let count = encode_count(records);
        match i {
            0 => header::set_first_records(self.page, count),
            _ => {
                let at = cell::<INNER>(self.page, i - 1).value_at();
                self.page[at..at + COUNT_BYTES].copy_from_slice(&count);
            }
        }
    }

    /// Says that there are so many records more below child `i`, or fewer.
    #[inline]
    pub(crate) fn add_records(&mut self, i: usize, more: i64) {
        let records = Inner { page: self.page }.records_below(i);
        self.set_records(i, records.saturating_add_signed(more));
    }

    /// Removes separator `i` and, right of it, child `i + 1`: what merging children `i` and `i + 1` into `i`
    /// asks for.
    pub(crate) fn remove(&mut self, i: usize) {
        heap::remove::<INNER>(self.page, i);
    }
}

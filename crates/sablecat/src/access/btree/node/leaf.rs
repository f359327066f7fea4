//! Leaves: records in key order.

use std::ops::Range;

use super::bytes::{u16_at, u64_at};
use super::cell::Cell;
use super::counts::COUNT_BYTES;
use super::header::{self, NodeIdentity, NodeKind};
use super::slots::{LEAF, cell, cell_offset, offset_at};
use super::{Fences, Order, PageFull, StoredValue, heap, search};
use crate::pages::Near;
use crate::types::{PageId, TreeId};

/// A leaf to read. The page has passed [`check_bounds`](super::check_bounds), or was made here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    pub(super) page: &'a [u8],
}

impl<'a> Leaf<'a> {
    /// Trusts the page to be a checked leaf; on any other the methods may panic.
    #[inline(always)]
    pub(crate) fn new(page: &'a [u8]) -> Leaf<'a> {
        debug_assert_eq!(header::kind(page), Some(NodeKind::Leaf));
        Leaf { page }
    }

    /// What all keys of the page begin with.
    #[inline]
    pub(crate) fn prefix(self) -> &'a [u8] {
        header::prefix(self.page)
    }

    /// How many records there are.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        header::count(self.page)
    }

    /// The slot of `key`, or the slot it would be inserted at. The page must cover the key; this is not
    /// checked.
    #[inline]
    pub(crate) fn search(self, key: &[u8], order: Order<'_>) -> Result<usize, usize> {
        search::search::<LEAF>(self.page, key, order)
    }

    /// As [`Leaf::search`], after other keys.
    #[inline]
    pub(crate) fn search_after(self, key: &[u8], order: Order<'_>, near: &Near) -> Result<usize, usize> {
        search::search_after::<LEAF>(self.page, key, order, near)
    }

    /// Whether `key` is the one behind that which was found last: then it belongs in this page.
    #[inline]
    pub(crate) fn is_next(self, key: &[u8], order: Order<'_>, near: &Near) -> bool {
        search::is_next::<LEAF>(self.page, key, order, near)
    }

    #[cfg(test)]
    /// The length of the whole key in a slot.
    #[inline]
    pub(crate) fn key_len(self, slot: usize) -> usize {
        header::prefix_len(self.page) + cell::<LEAF>(self.page, slot).key_len
    }

    /// The key in a slot: what all keys of the page begin with, and the rest.
    #[inline]
    pub(crate) fn key(self, slot: usize) -> (&'a [u8], &'a [u8]) {
        (header::prefix(self.page), cell::<LEAF>(self.page, slot).key(self.page))
    }

    /// Makes `key` the key in a slot.
    #[inline]
    pub(crate) fn copy_key(self, slot: usize, key: &mut Vec<u8>) {
        let (prefix, suffix) = self.key(slot);
        key.clear();
        key.extend_from_slice(prefix);
        key.extend_from_slice(suffix);
    }

    /// The value in a slot.
    #[inline]
    pub(crate) fn value(self, slot: usize) -> StoredValue<'a> {
        cell::<LEAF>(self.page, slot).value(self.page)
    }

    /// Whether the cell of a slot was the last to come, as far as can be seen: where the page was built or
    /// moved together since, it is that of the last record.
    pub(crate) fn is_newest(self, slot: usize) -> bool {
        cell_offset::<LEAF>(self.page, slot) == header::heap_start(self.page)
    }

    /// The part of the page in which all keys and values lie.
    #[inline]
    pub(crate) fn cells(self) -> &'a [u8] {
        self.page.get(header::heap_start(self.page)..).unwrap_or_default()
    }

    /// What the page covers.
    #[inline]
    pub(crate) fn fences(self) -> Fences<'a> {
        header::fences(self.page)
    }

    /// The least key the page may hold; `None`: no bound.
    #[inline]
    pub(crate) fn lower_fence(self) -> Option<&'a [u8]> {
        self.fences().lower
    }

    /// The first key beyond the page; `None`: no bound.
    #[inline]
    pub(crate) fn upper_fence(self) -> Option<&'a [u8]> {
        self.fences().upper
    }

    /// Whether `key` belongs in this page.
    #[inline]
    pub(crate) fn covers(self, key: &[u8], order: Order<'_>) -> bool {
        self.fences().cover(key, order)
    }

    #[cfg(test)]
    /// Free bytes, in one piece or not.
    pub(crate) fn free_bytes(self) -> usize {
        heap::free_bytes::<LEAF>(self.page)
    }

    /// Bytes taken by records and fences; with [`free_bytes`](Self::free_bytes), the page less its header.
    pub(crate) fn used_bytes(self) -> usize {
        heap::used_bytes::<LEAF>(self.page)
    }

    #[cfg(test)]
    /// Whether a record with a whole key of `key_len` bytes can be inserted.
    #[inline]
    pub(crate) fn fits(self, key_len: usize, value: StoredValue<'_>) -> bool {
        heap::fits::<LEAF>(self.page, key_len, value)
    }

    #[cfg(test)]
    /// Whether the record in a slot can have its value replaced.
    #[inline]
    pub(crate) fn fits_replacing(self, slot: usize, value: StoredValue<'_>) -> bool {
        let old = cell::<LEAF>(self.page, slot);
        super::cell::size(old.key_len, value) <= old.size() + self.free_bytes()
    }

    /// The records of a range of slots, in place.
    #[inline]
    pub(crate) fn records(self, slots: Range<usize>) -> impl ExactSizeIterator<Item = LeafRecord<'a>> {
        assert!(slots.start <= slots.end && slots.end <= self.count());
        let (count, page) = (self.count(), self.page);
        let offsets = &page[offset_at::<LEAF>(count, slots.start)..offset_at::<LEAF>(count, slots.end)];
        offsets
            .chunks_exact(2)
            .map(move |offset| LeafRecord { page, cell: Cell::at(page, u16_at(offset, 0).into()) })
    }
}

/// A record of a leaf in place.
#[derive(Clone, Copy)]
pub(crate) struct LeafRecord<'a> {
    page: &'a [u8],
    cell: Cell,
}

impl<'a> LeafRecord<'a> {
    /// What the key has after the page's prefix.
    #[inline(always)]
    pub(crate) fn suffix(self) -> &'a [u8] {
        self.cell.key(self.page)
    }

    /// The suffix if it has eight bytes at most: its length, and a word that has its first byte lowest and
    /// zeros behind the last.
    #[inline(always)]
    pub(crate) fn short_suffix(self) -> Option<(usize, u64)> {
        let Cell { key_at, key_len, .. } = self.cell;
        match key_len {
            0 => Some((0, 0)),
            1..=8 => {
                // Eight bytes from the suffix on, whatever the last of them belong to; near the page's end
                // the eight that it ends with.
                let from = key_at.min(self.page.len() - 8);
                let word = u64_at(self.page, from) >> (8 * (key_at - from));
                Some((key_len, word & (u64::MAX >> (64 - 8 * key_len))))
            }
            _ => None,
        }
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn value(self) -> StoredValue<'a> {
        self.cell.value(self.page)
    }
}

/// A leaf to change.
#[derive(Debug)]
pub(crate) struct LeafMut<'a> {
    page: &'a mut [u8],
}

impl<'a> LeafMut<'a> {
    /// Gives its gap to a test.
    #[cfg(test)]
    pub(super) fn change_gap(&mut self, change: impl FnOnce(&mut [u8])) {
        let gap = super::gap_of(self.page);
        change(&mut self.page[gap]);
    }

    /// Trusts the page to be a checked leaf.
    #[inline(always)]
    pub(crate) fn new(page: &'a mut [u8]) -> LeafMut<'a> {
        debug_assert_eq!(header::kind(page), Some(NodeKind::Leaf));
        LeafMut { page }
    }

    /// Makes `page` an empty leaf; whatever it held is overwritten. `flags`: any of
    /// [`FLAG_CUSTOM_ORDER`](super::FLAG_CUSTOM_ORDER) and [`FLAG_COUNTED`](super::FLAG_COUNTED).
    pub(crate) fn format(
        page: &'a mut [u8],
        page_id: PageId,
        tree: TreeId,
        flags: u16,
        fences: Fences<'_>,
    ) -> LeafMut<'a> {
        let identity = NodeIdentity {
            page: page_id,
            tree,
            kind: NodeKind::Leaf,
            level: 0,
            flags,
            first_child: PageId::NONE,
            first_records: [0; COUNT_BYTES],
        };
        header::format(page, identity, fences);
        LeafMut { page }
    }

    #[cfg(test)]
    /// The leaf as it is now.
    #[inline(always)]
    pub(crate) fn as_leaf(&self) -> Leaf<'_> {
        Leaf { page: self.page }
    }

    /// Inserts a record at the slot that [`search`](Leaf::search) gave for its key, which the page covers.
    #[inline]
    pub(crate) fn insert(&mut self, slot: usize, key: &[u8], value: StoredValue<'_>) -> Result<(), PageFull> {
        let suffix = key.get(header::prefix_len(self.page)..).unwrap_or_default();
        heap::insert::<LEAF>(self.page, slot, suffix, value)
    }

    /// Replaces a value; in place if its length stays.
    #[inline]
    pub(crate) fn replace_value(&mut self, slot: usize, value: StoredValue<'_>) -> Result<(), PageFull> {
        heap::replace_value::<LEAF>(self.page, slot, value)
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, slot: usize) {
        heap::remove::<LEAF>(self.page, slot);
    }

    #[cfg(test)]
    /// Moves the cells together, so that no garbage is left.
    pub(crate) fn compact(&mut self) {
        heap::compact::<LEAF>(self.page, None);
    }
}

//! Records that are cut alike, all of a page's as a rule, read faster than one by one.

use std::ops::Range;

use super::bytes::{u16_at, u64_at};
use super::cell::Cell;
use super::leaf::Leaf;
use super::slots::{LEAF, offset_at};

/// Records of a leaf in slot order, as long as their cells are cut alike: key suffixes of the same length,
/// and values that are in the leaf and not long. What a cell says of its form need only be compared then, not
/// taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Alike<'a> {
    page: &'a [u8],
    offsets: &'a [u8],
    suffix_len: u8,
}

/// Bytes before a cell's key, of which a word that ends in it may need as many: its header, and others.
const BEFORE_KEY: usize = size_of::<u64>();
/// And of key and value, of which a word that begins before the key may need as many.
const BODY_MIN: usize = size_of::<u64>();

impl<'a> Leaf<'a> {
    /// The records of a range of slots that are cut as the first of them is; none if that is cut otherwise
    /// than [`Alike`] says.
    #[inline(always)]
    pub(crate) fn alike(self, slots: Range<usize>) -> Option<Alike<'a>> {
        let (count, page) = (self.count(), self.page);
        let offsets = &page[offset_at::<LEAF>(count, slots.start)..offset_at::<LEAF>(count, slots.end)];
        let at = usize::from(u16_at(offsets.get(..2)?, 0));
        let cell = Cell::at(page, at);
        if !cell.is_narrow() || cell.key_len + cell.value_len < BODY_MIN {
            return None;
        }
        Some(Alike { page, offsets, suffix_len: cell.key_len as u8 })
    }
}

impl<'a> Alike<'a> {
    /// The length of every suffix.
    pub(crate) fn suffix_len(&self) -> usize {
        self.suffix_len.into()
    }

    /// How many records of the range have not been handed out.
    pub(crate) fn left(&self) -> usize {
        self.offsets.len() / 2
    }

    /// The next record's key, whose first `prefix_len` bytes are the lowest of `prefix`, and which has eight
    /// at most: as a word that has its first byte lowest, and behind its last whatever there is. And the
    /// value.
    #[inline(always)]
    pub(crate) fn next_short(&mut self, (prefix, prefix_len): (u64, usize)) -> Option<(u64, &'a [u8])> {
        debug_assert!(prefix_len + self.suffix_len() <= BEFORE_KEY);
        let cell = self.next_cell(BEFORE_KEY - 2)?;
        // The suffix is where it is in the key: that takes no shift.
        let suffix = u64_at(cell, BEFORE_KEY - prefix_len);
        let of_suffix = u64::MAX.checked_shl(8 * prefix_len as u32).unwrap_or(0);
        Some((prefix | suffix & of_suffix, &cell[BEFORE_KEY + self.suffix_len()..]))
    }

    /// The next record's suffix and value.
    #[inline(always)]
    pub(crate) fn next_long(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.next_cell(0)?[2..].split_at_checked(self.suffix_len.into())
    }

    /// The next record's cell, and so many bytes that are before it in the page, where there is the header.
    #[inline(always)]
    fn next_cell(&mut self, before: usize) -> Option<&'a [u8]> {
        let (offset, rest) = self.offsets.split_first_chunk()?;
        let at = usize::from(u16::from_le_bytes(*offset));
        let body = Cell::narrow_body(self.page.get(at..)?, self.suffix_len)?;
        // A shorter cell may end where the page does.
        if body < BODY_MIN {
            return None;
        }
        let cell = self.page.get(at.wrapping_sub(before)..at + 2 + body)?;
        self.offsets = rest;
        Some(cell)
    }
}

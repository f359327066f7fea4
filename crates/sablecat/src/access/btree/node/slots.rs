//! The slot arrays behind the header: heads, children (inner pages only), cell offsets; and the hints derived
//! from the heads.
//!
//! For n slots: heads u32[n] at 128, children u32[n] behind them, offsets u16[n] behind those. `C` is the
//! width of a child: 0 in a leaf, 4 in an inner page, where child i is the one right of separator i (the
//! leftmost is in the header).
//!
//! A slot and its cell take at least 8 bytes, so heads end in the first half of the page and a 64-byte load
//! at any head stays inside.

use super::bytes::{common_len, head_of, put_u16, put_u32, u16_at, u32_at, word_of};
use super::cell::Cell;
use super::header::{self, HEADER_BYTES, HINTS, HINTS_AT};

/// The width of a child in the slot of a leaf.
pub(super) const LEAF: usize = 0;
/// The width of a child in the slot of an inner page.
pub(super) const INNER: usize = 4;

/// What a slot takes beside its cell.
pub(super) const fn slot_bytes<const C: usize>() -> usize {
    6 + C
}

/// Where the slots of a page with `count` of them end.
#[inline(always)]
pub(super) fn slots_end<const C: usize>(count: usize) -> usize {
    HEADER_BYTES + slot_bytes::<C>() * count
}

#[inline(always)]
pub(super) fn head_at(slot: usize) -> usize {
    HEADER_BYTES + 4 * slot
}

#[inline(always)]
pub(super) fn child_at(count: usize, slot: usize) -> usize {
    HEADER_BYTES + 4 * count + 4 * slot
}

#[inline(always)]
pub(super) fn offset_at<const C: usize>(count: usize, slot: usize) -> usize {
    HEADER_BYTES + (4 + C) * count + 2 * slot
}

#[inline(always)]
pub(super) fn head(page: &[u8], slot: usize) -> u32 {
    u32_at(page, head_at(slot))
}

/// The cell of `slot`, which must be below `count`.
#[inline(always)]
pub(super) fn cell<const C: usize>(page: &[u8], slot: usize) -> Cell {
    let count = header::count(page);
    assert!(slot < count, "slot {slot} of {count}");
    Cell::at(page, u16_at(page, offset_at::<C>(count, slot)).into())
}

/// Where the cell of `slot` begins.
#[inline(always)]
pub(super) fn cell_offset<const C: usize>(page: &[u8], slot: usize) -> usize {
    u16_at(page, offset_at::<C>(header::count(page), slot)).into()
}

#[inline(always)]
pub(super) fn suffix<const C: usize>(page: &[u8], slot: usize) -> &[u8] {
    cell::<C>(page, slot).key(page)
}

/// Opens a gap for a slot at `slot` and counts it; the caller fills it. There must be room.
#[inline(always)]
pub(super) fn open<const C: usize>(page: &mut [u8], slot: usize) {
    let count = header::count(page);
    let end = slots_end::<C>(count);
    // From the back: offsets from `slot` on move by a head, a child and an offset; what is before them by
    // less.
    page.copy_within(offset_at::<C>(count, slot)..end, offset_at::<C>(count + 1, slot + 1));
    if C != 0 {
        page.copy_within(child_at(count, slot)..offset_at::<C>(count, slot), child_at(count + 1, slot + 1));
        page.copy_within(head_at(slot)..child_at(count, slot), head_at(slot + 1));
    } else {
        page.copy_within(head_at(slot)..offset_at::<C>(count, slot), head_at(slot + 1));
    }
    header::set_count(page, count + 1);
}

/// Closes the gap left by `slot`.
pub(super) fn close<const C: usize>(page: &mut [u8], slot: usize) {
    let count = header::count(page);
    let end = slots_end::<C>(count);
    if C != 0 {
        page.copy_within(head_at(slot + 1)..child_at(count, slot), head_at(slot));
        page.copy_within(child_at(count, slot + 1)..offset_at::<C>(count, slot), child_at(count - 1, slot));
    } else {
        page.copy_within(head_at(slot + 1)..offset_at::<C>(count, slot), head_at(slot));
    }
    page.copy_within(offset_at::<C>(count, slot + 1)..end, offset_at::<C>(count - 1, slot));
    header::set_count(page, count - 1);
}

#[inline(always)]
pub(super) fn set_head(page: &mut [u8], slot: usize, head: u32) {
    put_u32(page, head_at(slot), head);
}

#[inline(always)]
pub(super) fn set_offset<const C: usize>(page: &mut [u8], slot: usize, offset: usize) {
    let at = offset_at::<C>(header::count(page), slot);
    put_u16(page, at, offset as u16);
}

/// Log2 of the distance between hints: the least, from 4 up, with which 16 hints reach over `count` slots.
#[inline(always)]
pub(super) fn hint_shift(count: usize) -> u32 {
    usize::BITS - (count.saturating_sub(1) >> 4 | 8).leading_zeros()
}

/// What hint `j` must be.
#[inline(always)]
pub(super) fn hint(page: &[u8], count: usize, j: usize) -> u32 {
    let slot = ((j + 1) << hint_shift(count)) - 1;
    if slot < count { head(page, slot) } else { u32::MAX }
}

/// Derives the hints again, given that heads before `slot` are as they were; `count_before` says how many
/// slots there were.
#[inline(always)]
pub(super) fn update_hints(page: &mut [u8], slot: usize, count_before: usize) {
    let count = header::count(page);
    let shift = hint_shift(count);
    let first = if shift == hint_shift(count_before) { slot >> shift } else { 0 };
    let last = (count.max(count_before) >> shift).min(HINTS);
    for j in first..last {
        let hint = hint(page, count, j);
        put_u32(page, HINTS_AT + 4 * j, hint);
    }
    if shift != hint_shift(count_before) {
        for j in last..HINTS {
            put_u32(page, HINTS_AT + 4 * j, u32::MAX);
        }
    }
}

/// The head of a key given as its suffix after the prefix, in a page that skips `skip` bytes.
#[inline(always)]
pub(super) fn head_after(suffix: &[u8], skip: usize) -> u32 {
    head_of(suffix.get(skip..).unwrap_or_default())
}

/// Chooses the longest skip, and derives heads and hints from the cells. All keys must be in place and in
/// order.
pub(super) fn derive<const C: usize>(page: &mut [u8]) {
    choose_skip::<C>(page);
    derive_heads::<C>(page);
}

/// The same of a page whose slots were some of `source`'s, from `first` on. Where heads begin with the same
/// byte of the keys as there, they are copied.
pub(super) fn derive_from<const C: usize>(page: &mut [u8], source: &[u8], first: usize) {
    choose_skip::<C>(page);
    let begin = |page: &[u8]| header::prefix_len(page) + header::skip(page);
    if begin(page) == begin(source) && !header::is_custom(page) {
        let count = header::count(page);
        page[head_at(0)..head_at(count)].copy_from_slice(&source[head_at(first)..head_at(first + count)]);
        derive_hints(page);
    } else {
        derive_heads::<C>(page);
    }
}

fn choose_skip<const C: usize>(page: &mut [u8]) {
    let count = header::count(page);
    let (mut skip, mut word) = (0, 0);
    if !header::is_custom(page) && count > 0 {
        let first = suffix::<C>(page, 0);
        skip = common_len(first, suffix::<C>(page, count - 1));
        word = word_of(&first[..skip]);
    }
    header::set_skip(page, skip);
    header::set_skip_word(page, word);
}

fn derive_heads<const C: usize>(page: &mut [u8]) {
    let (custom, skip) = (header::is_custom(page), header::skip(page));
    for slot in 0..header::count(page) {
        let head = if custom { 0 } else { head_after(suffix::<C>(page, slot), skip) };
        set_head(page, slot, head);
    }
    derive_hints(page);
}

fn derive_hints(page: &mut [u8]) {
    let count = header::count(page);
    for j in 0..HINTS {
        let hint = hint(page, count, j);
        put_u32(page, HINTS_AT + 4 * j, hint);
    }
}

/// Whether `suffix` begins with the bytes the page skips, compared to them: `Less` and `Greater` place it
/// before or after all keys.
#[inline(always)]
pub(super) fn compare_skipped<const C: usize>(
    page: &[u8],
    suffix_of_key: &[u8],
    skip: usize,
) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Less};
    let kept = 8 - skip.min(8);
    let mask = if kept == 8 { 0 } else { u64::MAX << (8 * kept) };
    let order = (word_of(suffix_of_key) & mask).cmp(&header::skip_word(page));
    if order != Equal {
        return order;
    }
    if suffix_of_key.len() < skip.min(8) {
        return Less;
    }
    if skip <= 8 {
        return Equal;
    }
    // The word holds eight of the skipped bytes; any key of the page has them all.
    let all = suffix::<C>(page, 0);
    let order = suffix_of_key[8..skip.min(suffix_of_key.len())].cmp(all.get(8..skip).unwrap_or_default());
    // A key that ends within the skipped bytes is `Less` already, being shorter.
    order
}

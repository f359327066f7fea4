//! Changing one page: cells come into the heap, go from it, and are moved together when the room between them
//! is needed.
//!
//! Invariant: the heap, from `heap_start` to the end of the page, is made up of the cells of the slots, the
//! fences, and `garbage` bytes; none overlap. Every function here keeps it, on any page that passed
//! `check_bounds`.

use std::cell::RefCell;
use std::ops::Range;

use super::bytes::word_of;
use super::cell::{self, Cell, CellContent};
use super::header::{self, FenceSide, is_custom};
use super::slots::{self, cell_offset, compare_skipped, head_after, slot_bytes, slots_end};
use super::{PageFull, StoredValue};

thread_local! {
    /// A copy of the page being rewritten in place.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` on `page` and a copy of what it was.
pub(super) fn with_copy<R>(page: &mut [u8], work: impl FnOnce(&mut [u8], &[u8]) -> R) -> R {
    // Where it is gone already, the thread is about to end.
    let mut scratch = SCRATCH.try_with(RefCell::take).unwrap_or_default();
    scratch.clear();
    scratch.extend_from_slice(page);
    let done = work(page, &scratch);
    let _ = SCRATCH.try_with(|place| place.replace(scratch));
    done
}

/// The free piece of a page, between slots and heap.
#[inline(always)]
fn gap<const C: usize>(page: &[u8]) -> Range<usize> {
    slots_end::<C>(header::count(page))..header::heap_start(page)
}

/// The free piece of a leaf or an inner page.
#[inline]
pub(crate) fn gap_of(page: &[u8]) -> Range<usize> {
    if header::level(page) == 0 { gap::<{ slots::LEAF }>(page) } else { gap::<{ slots::INNER }>(page) }
}

/// Free bytes in one piece, between slots and heap.
#[inline(always)]
pub(super) fn contiguous<const C: usize>(page: &[u8]) -> usize {
    gap::<C>(page).len()
}

/// All free bytes.
#[inline(always)]
pub(super) fn free_bytes<const C: usize>(page: &[u8]) -> usize {
    contiguous::<C>(page) + header::garbage(page)
}

/// Bytes taken by slots, cells and fences.
pub(super) fn used_bytes<const C: usize>(page: &[u8]) -> usize {
    super::limits::usable_bytes(page.len()) - free_bytes::<C>(page)
}

/// Whether an entry fits, perhaps after compaction. The key is counted without the page's prefix.
#[inline(always)]
pub(super) fn fits<const C: usize>(page: &[u8], key_len: usize, value: StoredValue<'_>) -> bool {
    let suffix_len = key_len.saturating_sub(header::prefix_len(page));
    cell::size(suffix_len, value) + slot_bytes::<C>() <= free_bytes::<C>(page)
}

/// Takes `size` bytes, which must be there, from the free piece.
#[inline(always)]
fn allocate(page: &mut [u8], size: usize) -> usize {
    let at = header::heap_start(page) - size;
    header::set_heap_start(page, at);
    at
}

#[inline(always)]
fn release(page: &mut [u8], at: usize, size: usize) {
    if at == header::heap_start(page) {
        header::set_heap_start(page, at + size);
    } else {
        let garbage = header::garbage(page) + size;
        header::set_garbage(page, garbage);
    }
}

/// Inserts a slot at `slot` with a cell of `suffix` and `value`; in an inner page the caller sets the child.
/// Hints and heads are kept.
#[inline(always)]
pub(super) fn insert<const C: usize>(
    page: &mut [u8],
    slot: usize,
    suffix: &[u8],
    value: StoredValue<'_>,
) -> Result<(), PageFull> {
    let count = header::count(page);
    assert!(slot <= count, "insert at {slot} of {count}");
    let size = cell::size(suffix.len(), value);
    if contiguous::<C>(page) < size + slot_bytes::<C>() {
        if free_bytes::<C>(page) < size + slot_bytes::<C>() {
            return Err(PageFull);
        }
        compact::<C>(page, None);
    }
    let skip = if is_custom(page) { None } else { Some(skip_with::<C>(page, suffix)) };
    let at = allocate(page, size);
    cell::write(page, at, suffix, value);
    slots::open::<C>(page, slot);
    slots::set_offset::<C>(page, slot, at);
    match skip {
        None => slots::set_head(page, slot, 0),
        Some(Ok(skip)) => slots::set_head(page, slot, head_after(suffix, skip)),
        Some(Err(Shorter)) => {
            slots::derive::<C>(page);
            return Ok(());
        }
    }
    slots::update_hints(page, slot, count);
    Ok(())
}

/// The page's skip must become shorter for a key to be inserted.
struct Shorter;

/// The skip with which a key can be inserted. In an empty page this sets it, to all of the key.
#[inline(always)]
fn skip_with<const C: usize>(page: &mut [u8], suffix: &[u8]) -> Result<usize, Shorter> {
    if header::count(page) == 0 {
        header::set_skip(page, suffix.len());
        header::set_skip_word(page, word_of(suffix));
        return Ok(suffix.len());
    }
    let skip = header::skip(page);
    if skip == 0 || compare_skipped::<C>(page, suffix, skip).is_eq() { Ok(skip) } else { Err(Shorter) }
}

/// Gives the cell of `slot` another value. The key stays.
#[inline(always)]
pub(super) fn replace_value<const C: usize>(
    page: &mut [u8],
    slot: usize,
    value: StoredValue<'_>,
) -> Result<(), PageFull> {
    let old = slots::cell::<C>(page, slot);
    let is_long = matches!(value, StoredValue::Long { .. });
    if old.value_len == cell::value_len(value) && old.is_long == is_long {
        cell::write_value(page, old.value_at(), value);
        return Ok(());
    }
    resize_value::<C>(page, slot, old, value)
}

#[inline(never)]
fn resize_value<const C: usize>(
    page: &mut [u8],
    slot: usize,
    old: Cell,
    value: StoredValue<'_>,
) -> Result<(), PageFull> {
    let at = cell_offset::<C>(page, slot);
    let size = cell::size(old.key_len, value);
    if size <= old.size() {
        // At the same place. The header may change its length, so the key may move.
        let key = old.key_at..old.value_at();
        let key_at = at + size - cell::value_len(value) - old.key_len;
        page.copy_within(key, key_at);
        cell::write_header(page, at, old.key_len, value);
        cell::write_value(page, key_at + old.key_len, value);
        let garbage = header::garbage(page) + old.size() - size;
        header::set_garbage(page, garbage);
    } else if size <= contiguous::<C>(page) {
        let new_at = allocate(page, size);
        let key_at = cell::write_header(page, new_at, old.key_len, value);
        page.copy_within(old.key_at..old.value_at(), key_at);
        cell::write_value(page, key_at + old.key_len, value);
        slots::set_offset::<C>(page, slot, new_at);
        // Never the lowest cell any more, so this is garbage.
        release(page, at, old.size());
    } else if size <= free_bytes::<C>(page) + old.size() {
        compact::<C>(page, Some((slot, value)));
    } else {
        return Err(PageFull);
    }
    Ok(())
}

/// Removes slot and cell.
pub(super) fn remove<const C: usize>(page: &mut [u8], slot: usize) {
    let count = header::count(page);
    let size = slots::cell::<C>(page, slot).size();
    let at = cell_offset::<C>(page, slot);
    release(page, at, size);
    slots::close::<C>(page, slot);
    slots::update_hints(page, slot, count);
}

/// Moves fences and cells together at the end of the page, in slot order; on the way, one slot may get
/// another value, for which there must be room.
#[cold]
pub(super) fn compact<const C: usize>(page: &mut [u8], replace: Option<(usize, StoredValue<'_>)>) {
    with_copy(page, |page, old| {
        header::set_heap_start(page, page.len());
        header::set_garbage(page, 0);
        header::place_fence(page, FenceSide::Lower, header::fence(old, FenceSide::Lower));
        header::place_fence(page, FenceSide::Upper, header::fence(old, FenceSide::Upper));
        for slot in 0..header::count(old) {
            let cell = slots::cell::<C>(old, slot);
            let at = match replace {
                Some((replaced, value)) if replaced == slot => {
                    let at = allocate(page, cell::size(cell.key_len, value));
                    cell::write(page, at, cell.key(old), value);
                    at
                }
                _ => {
                    let at = allocate(page, cell.size());
                    let was_at = cell_offset::<C>(old, slot);
                    page[at..at + cell.size()].copy_from_slice(&old[was_at..was_at + cell.size()]);
                    at
                }
            };
            slots::set_offset::<C>(page, slot, at);
        }
    });
}

/// One entry for [`build`]: its cell, and its child.
#[derive(Clone, Copy)]
pub(super) struct HeapEntry<'a> {
    /// With the whole key.
    pub(super) content: CellContent<'a>,
    pub(super) child: u32,
}

/// Formats `page` and fills it with `count` entries in ascending order.
pub(super) fn build<'a, const C: usize>(
    page: &mut [u8],
    identity: header::NodeIdentity,
    fences: super::Fences<'_>,
    count: usize,
    entries: impl Iterator<Item = HeapEntry<'a>>,
) -> Result<(), PageFull> {
    header::format(page, identity, fences);
    let prefix = header::prefix_len(page);
    let end = slots_end::<C>(count);
    header::set_count(page, count);
    let mut slot = 0;
    for entry in entries {
        let content = entry.content.without(prefix);
        let size = content.size();
        if header::heap_start(page) < end + size {
            return Err(PageFull);
        }
        let at = allocate(page, size);
        content.write(page, at);
        slots::set_offset::<C>(page, slot, at);
        if C != 0 {
            super::bytes::put_u32(page, slots::child_at(count, slot), entry.child);
        }
        slot += 1;
    }
    assert!(slot == count, "{slot} entries where {count} were announced");
    slots::derive::<C>(page);
    Ok(())
}

/// Formats `page` and fills it with some slots of another page. Its fences are not further apart than that
/// one's, so what the keys leave out there is left out here, and mostly more.
pub(super) fn build_part<const C: usize>(
    page: &mut [u8],
    identity: header::NodeIdentity,
    fences: super::Fences<'_>,
    source: &[u8],
    part: Range<usize>,
) -> Result<(), PageFull> {
    let before = header::prefix_len(source);
    let prefix = header::prefix_between(fences, identity.is_custom());
    if prefix < before {
        // Only of a damaged page.
        return build::<C>(page, identity, fences, part.len(), entries::<C>(source, part));
    }
    header::format(page, identity, fences);
    header::set_count(page, part.len());
    let end = slots_end::<C>(part.len());
    let mut at = header::heap_start(page);
    for (slot, was) in part.clone().enumerate() {
        let content = CellContent::of(source, &[], slots::cell::<C>(source, was)).without(prefix - before);
        at = at.checked_sub(content.size()).filter(|&at| at >= end).ok_or(PageFull)?;
        content.write(page, at);
        slots::set_offset::<C>(page, slot, at);
    }
    header::set_heap_start(page, at);
    if C != 0 {
        let from = slots::child_at(header::count(source), part.start);
        let to = slots::child_at(part.len(), 0);
        let bytes = C * part.len();
        page[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
    }
    slots::derive_from::<C>(page, source, part.start);
    Ok(())
}

/// The entries of some slots of a page.
pub(super) fn entries<const C: usize>(
    page: &[u8],
    slots: std::ops::Range<usize>,
) -> impl Iterator<Item = HeapEntry<'_>> {
    let (prefix, count) = (header::prefix(page), header::count(page));
    slots.map(move |slot| {
        let cell = slots::cell::<C>(page, slot);
        let child = if C == 0 { 0 } else { super::bytes::u32_at(page, slots::child_at(count, slot)) };
        HeapEntry { content: CellContent::of(page, prefix, cell), child }
    })
}

/// The bytes of a page that [`build`] would take for these entries between these fences; for comparison with
/// `usable_bytes`.
pub(super) fn bytes_for<'a, const C: usize>(
    fences: super::Fences<'_>,
    custom: bool,
    entries: impl Iterator<Item = HeapEntry<'a>>,
) -> usize {
    let prefix = header::prefix_between(fences, custom);
    let entry_bytes = |entry: HeapEntry<'_>| entry.content.without(prefix).size() + slot_bytes::<C>();
    fence_bytes(fences) + entries.map(entry_bytes).sum::<usize>()
}

/// The bytes that fences take.
pub(super) fn fence_bytes(fences: super::Fences<'_>) -> usize {
    fences.lower.map_or(0, <[u8]>::len) + fences.upper.map_or(0, <[u8]>::len)
}

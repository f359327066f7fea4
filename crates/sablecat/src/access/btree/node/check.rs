//! Is this page what it should be?
//!
//! [`check_bounds`] is for every page that comes from disk: after it no function of this module panics or
//! leaves the page, whatever the bytes mean. It finds that cells and fences lie inside the heap and do not
//! overlap, that the heap's account balances, and that no key or record is longer than `limits` allows, which
//! is what splits rely on. [`check_full`] is for `verify`: also keys in order and inside the fences, heads
//! and hints as derived.

use super::bytes::{u16_at, u32_at};
use super::cell::Cell;
use super::counts::COUNT_BYTES;
use super::header::{
    self, FLAG_COUNTED, FLAG_CUSTOM_ORDER, FenceSide, HEADER_BYTES, HINTS, HINTS_AT, NodeKind,
};
use super::limits::{REFERENCE_BYTES_MAX, key_bytes_max, record_bytes_max};
use super::slots::{self, INNER, LEAF, child_at, head, head_after, offset_at, slots_end, suffix};
use super::{Fences, Order};
use crate::pages::header as common;

/// Whether a leaf or inner page is safe to use. The error says what is wrong, not with which page.
pub(crate) fn check_bounds(page: &[u8]) -> Result<(), String> {
    let bounds = match header::kind(page) {
        _ if !common::is_page_size(page.len()) => {
            return Err(format!("{} bytes are no page", page.len()));
        }
        Some(NodeKind::Leaf) if header::level(page) == 0 => bounds::<LEAF>,
        Some(NodeKind::Inner) if header::level(page) > 0 => bounds::<INNER>,
        _ => {
            return Err(format!(
                "neither leaf nor inner page: kind {}, level {}",
                common::kind(page).unwrap_or_default(),
                header::level(page)
            ));
        }
    };
    // The map of used bytes is on the stack; clear no more of it than the page needs.
    match page.len() {
        ..=4096 => bounds(page, &mut [0; 4096 / 64]),
        4097..=16384 => bounds(page, &mut [0; 16384 / 64]),
        _ => bounds(page, &mut [0; 65536 / 64]),
    }
}

/// Everything that can be said of one page by itself.
pub(crate) fn check_full(page: &[u8], order: Order<'_>) -> Result<(), String> {
    check_bounds(page)?;
    match header::kind(page) {
        Some(NodeKind::Leaf) => full::<LEAF>(page, order),
        _ => full::<INNER>(page, order),
    }
}

fn bounds<const C: usize>(page: &[u8], used: &mut [u64]) -> Result<(), String> {
    let (count, heap_start) = (header::count(page), header::heap_start(page));
    let slots_end = slots_end::<C>(count);
    if heap_start > page.len() || slots_end > heap_start {
        return Err(format!("{count} slots do not fit below a heap at {heap_start}"));
    }
    if header::flags(page) & !(FLAG_CUSTOM_ORDER | FLAG_COUNTED) != 0 {
        return Err(format!("unknown flags {:#x}", header::flags(page)));
    }
    let key_max = key_bytes_max(page.len());
    let mut live = 0;
    for side in [FenceSide::Lower, FenceSide::Upper] {
        match header::fence_place(page, side) {
            None | Some((HEADER_BYTES, 0)) => {}
            Some((at, len)) => {
                if at < heap_start
                    || at + len > page.len()
                    || len == 0
                    || len > key_max
                    || !claim(used, at, len)
                {
                    return Err(format!("a fence of {len} bytes at {at}"));
                }
                live += len;
            }
        }
    }
    let prefix_len = header::prefix_len(page);
    if prefix_len != header::prefix_between(header::fences(page), header::is_custom(page)) {
        return Err(format!("a prefix of {prefix_len} bytes, which is not what the fences share"));
    }
    let record_max = record_bytes_max(page.len());
    // What stands beside each separator.
    let beside = if header::is_counted(page) { COUNT_BYTES } else { 0 };
    let offsets = &page[offset_at::<C>(count, 0)..slots_end];
    for (slot, offset) in offsets.chunks_exact(2).enumerate() {
        let at = usize::from(u16_at(offset, 0));
        let cell = match Cell::checked_at(page, at) {
            Some(cell) if at >= heap_start => cell,
            _ => return Err(format!("the cell of slot {slot}, at {at}, leaves the heap")),
        };
        let (key_len, size) = (cell.key_len + prefix_len, cell.size());
        let is_reference =
            key_len == key_max && cell.value_len == REFERENCE_BYTES_MAX && (C == 0 && cell.is_narrow());
        if key_len > key_max
            || (key_len + cell.value_len > record_max && !is_reference)
            || (C != 0 && (cell.value_len != beside || cell.is_long))
        {
            return Err(format!(
                "slot {slot} has a key of {key_len} and a value of {} bytes",
                cell.value_len
            ));
        }
        if !claim(used, at, size) {
            return Err(format!("the cell of slot {slot}, {size} bytes at {at}, overlaps another"));
        }
        live += size;
    }
    if live + header::garbage(page) != page.len() - heap_start {
        let garbage = header::garbage(page);
        return Err(format!("{live} live and {garbage} dead bytes in a heap of {}", page.len() - heap_start));
    }
    if C != 0 {
        let children = &page[child_at(count, 0)..child_at(count, count)];
        if header::first_child(page).0 == 0 || children.chunks_exact(4).any(|child| u32_at(child, 0) == 0) {
            return Err("a child is missing".to_owned());
        }
    }
    Ok(())
}

/// Marks bytes as used; false if one of them was. They are inside the page.
#[inline(always)]
pub(crate) fn claim(used: &mut [u64], at: usize, len: usize) -> bool {
    let (mut at, end) = (at, at + len);
    let mut clash = 0;
    while at < end {
        let bits = (end - at).min(64 - at % 64);
        let mask = (u64::MAX >> (64 - bits)) << (at % 64);
        clash |= used[at / 64] & mask;
        used[at / 64] |= mask;
        at += bits;
    }
    clash == 0
}

fn full<const C: usize>(page: &[u8], order: Order<'_>) -> Result<(), String> {
    let count = header::count(page);
    let prefix = header::prefix(page);
    let key = |slot| [prefix, suffix::<C>(page, slot)].concat();
    let Fences { lower, upper } = header::fences(page);
    if let (Some(lower), Some(upper)) = (lower, upper)
        && order.compare(lower, upper).is_ge()
    {
        return Err(format!("its fences are {lower:x?} and {upper:x?}"));
    }
    if header::is_custom(page) != matches!(order, Order::Custom(_)) {
        return Err(format!("made for another order than {order:?}"));
    }
    let skip = header::skip(page);
    for slot in 0..count {
        let this = key(slot);
        if slot > 0 && order.compare(&key(slot - 1), &this).is_ge() {
            return Err(format!("the keys of slots {} and {slot} are not ascending", slot - 1));
        }
        if !header::fences(page).cover(&this, order) {
            return Err(format!("the key of slot {slot} is beyond the fences"));
        }
        let suffix = suffix::<C>(page, slot);
        let skipped = if header::is_custom(page) {
            skip == 0
        } else {
            slots::compare_skipped::<C>(page, suffix, skip).is_eq()
        };
        if !skipped {
            return Err(format!("the key of slot {slot} lacks the skipped bytes"));
        }
        let derived = if header::is_custom(page) { 0 } else { head_after(suffix, skip) };
        if head(page, slot) != derived {
            return Err(format!("the head of slot {slot} is {:#x}, not {derived:#x}", head(page, slot)));
        }
    }
    for j in 0..HINTS {
        let (stored, derived) = (u32_at(page, HINTS_AT + 4 * j), slots::hint(page, count, j));
        if stored != derived {
            return Err(format!("hint {j} is {stored:#x}, not {derived:#x}"));
        }
    }
    Ok(())
}

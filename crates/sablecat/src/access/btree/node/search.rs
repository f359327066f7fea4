//! Finding a key in a page.
//!
//! The heads narrow it down to the slots whose head is the key's; usually there is one or none, and its cell
//! decides. The prefix is *not* compared: a key that the page covers begins with it, and comparing would cost
//! a cache line at the far end of the page.

use std::cmp::Ordering;

use sablecat_os::prefetch;

use super::Order;
use super::bytes::{compare, head_of};
use super::header;
use super::simd;
use super::slots::{LEAF, cell_offset, child_at, compare_skipped, head, offset_at, suffix};
use crate::pages::Near;

/// The slot of `key`, or the slot where it would be. The page must cover the key (else the answer is some
/// slot number <= count).
#[inline(always)]
pub(super) fn search<const C: usize>(page: &[u8], key: &[u8], order: Order<'_>) -> Result<usize, usize> {
    match order {
        Order::Bytes => search_bytes::<C>(page, key),
        Order::Custom(compare) => bisect::<C>(page, 0, header::count(page), |suffix| compare(suffix, key)),
        Order::Hashed(_) => bisect::<C>(page, 0, header::count(page), |suffix| order.compare(suffix, key)),
    }
}

/// As [`search`], after another key was found by the same `near`: if that is likely to be in the slot before,
/// this one is looked for in its own.
#[inline(always)]
pub(super) fn search_after<const C: usize>(
    page: &[u8],
    key: &[u8],
    order: Order<'_>,
    near: &Near,
) -> Result<usize, usize> {
    let found = near
        .expected()
        .filter(|_| matches!(order, Order::Bytes))
        .and_then(|slot| search_at::<C>(page, key, slot))
        .unwrap_or_else(|| search::<C>(page, key, order));
    near.found_at(found.unwrap_or_else(|slot| slot));
    found
}

/// Whether the key that follows the one found last by the same `near` is this one: if it is, there need be
/// no search. The whole key is compared, also with what all keys of the page begin with: so a page that has
/// it covers it.
#[inline(always)]
pub(super) fn is_next<const C: usize>(page: &[u8], key: &[u8], order: Order<'_>, near: &Near) -> bool {
    let expected = near.expected().filter(|_| matches!(order, Order::Bytes));
    let Some(slot) = expected.filter(|&slot| slot < header::count(page)) else { return false };
    key.split_at_checked(header::prefix_len(page)).is_some_and(|(prefix, rest)| {
        compare(suffix::<C>(page, slot), rest).is_eq() && compare(header::prefix(page), prefix).is_eq()
    })
}

/// The answer of a search, if it is this slot: not the first.
#[inline(always)]
fn search_at<const C: usize>(page: &[u8], key: &[u8], slot: usize) -> Option<Result<usize, usize>> {
    let count = header::count(page);
    let rest = key.get(header::prefix_len(page)..).unwrap_or_default();
    if slot < count {
        match compare(suffix::<C>(page, slot), rest) {
            Ordering::Equal => return Some(Ok(slot)),
            Ordering::Less => return None,
            Ordering::Greater => {}
        }
    }
    let is_behind = slot <= count && compare(suffix::<C>(page, slot - 1), rest).is_lt();
    is_behind.then_some(Err(slot))
}

#[inline(always)]
fn search_bytes<const C: usize>(page: &[u8], key: &[u8]) -> Result<usize, usize> {
    let count = header::count(page);
    if count == 0 {
        return Err(0);
    }
    let mut rest = key.get(header::prefix_len(page)..).unwrap_or_default();
    let skip = header::skip(page);
    if skip > 0 {
        match compare_skipped::<C>(page, rest, skip) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(count),
            Ordering::Equal => rest = rest.get(skip..).unwrap_or_default(),
        }
    }
    let wanted = head_of(rest);
    let slot = simd::lower_bound(page, count, wanted, beside::<C>(count));
    if slot >= count || head(page, slot) != wanted {
        return Err(slot);
    }
    if C == LEAF {
        // The value comes with the key, instead of after it.
        prefetch::read(page.as_ptr().wrapping_add(cell_offset::<C>(page, slot) + prefetch::LINE_BYTES));
    }
    match compare(after(suffix::<C>(page, slot), skip), rest) {
        Ordering::Equal => Ok(slot),
        Ordering::Greater => Err(slot),
        Ordering::Less if slot + 1 == count || head(page, slot + 1) != wanted => Err(slot + 1),
        Ordering::Less => search_ties::<C>(page, slot + 1, wanted, rest, skip),
    }
}

/// The array that is read once the slot is known: in a leaf the offsets, in an inner page the children.
#[inline(always)]
fn beside<const C: usize>(count: usize) -> (usize, usize) {
    if C == 0 { (offset_at::<C>(count, 0), 2) } else { (child_at(count, 0), 4) }
}

/// Among the slots from `from` on whose head is `wanted`, all but the first of them.
#[cold]
fn search_ties<const C: usize>(
    page: &[u8],
    from: usize,
    wanted: u32,
    rest: &[u8],
    skip: usize,
) -> Result<usize, usize> {
    let count = header::count(page);
    let end = match wanted.checked_add(1) {
        Some(above) => simd::lower_bound(page, count, above, beside::<C>(count)).max(from),
        None => count,
    };
    // The last first: keys often arrive in ascending order.
    if end == count && compare(after(suffix::<C>(page, count - 1), skip), rest).is_lt() {
        return Err(count);
    }
    bisect::<C>(page, from, end, |suffix| compare(after(suffix, skip), rest))
}

#[inline(always)]
fn after(suffix: &[u8], skip: usize) -> &[u8] {
    suffix.get(skip..).unwrap_or_default()
}

/// Binary search of the slots from `low` to below `high`; `compare` compares a slot's suffix to what is
/// wanted.
#[inline(always)]
fn bisect<const C: usize>(
    page: &[u8],
    mut low: usize,
    mut high: usize,
    compare: impl Fn(&[u8]) -> Ordering,
) -> Result<usize, usize> {
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(suffix::<C>(page, middle)) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(middle),
            Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

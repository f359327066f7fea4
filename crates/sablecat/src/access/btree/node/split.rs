//! Splitting one page into two.
//!
//! Both halves are written fresh from the source, so the source may be a version others still read. The left
//! half keeps the page number. What divides two leaves is the shortest key that does (Bayer and Unterauer's
//! simple prefix B-tree); around the middle, the point with the shortest such key is taken. What divides two
//! inner pages is one of the separators, which moves up.

use super::bytes::common_len;
use super::counts::encode_count;
use super::header::{self, NodeIdentity, prefix_between};
use super::heap::{build_part, bytes_for, entries, fence_bytes, used_bytes};
use super::inner::Inner;
use super::limits::usable_bytes;
use super::slots::{INNER, LEAF, cell, slot_bytes, suffix};
use super::{Fences, StoredValue, header::is_custom};
use crate::types::PageId;

/// Where to split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SplitPoint {
    /// Half the bytes to each side; in a leaf, with the record that it is split for.
    Middle,
    /// Records arrive in ascending order at the right end: all stay left, and the next one begins the right
    /// page.
    Append,
    /// They arrive in descending order at the left end: all go right, and the next one begins the left page.
    Prepend,
}

/// The record that a leaf is split for.
#[derive(Clone, Copy)]
pub(crate) struct Coming<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: StoredValue<'a>,
    /// The slot that has its key, whose value it replaces; or the one to insert it at.
    pub(crate) place: Result<usize, usize>,
}

/// Splits a leaf of at least two records, to make room for another, which is above all of them where records
/// are appended and below all where they are prepended; returns the separator: the upper fence of `left` and
/// lower fence of `right`.
pub(crate) fn split_leaf(
    source: &[u8],
    left: &mut [u8],
    right: &mut [u8],
    right_id: PageId,
    (at, coming): (SplitPoint, Coming<'_>),
) -> Vec<u8> {
    let (count, key) = (header::count(source), coming.key);
    assert!(count >= 2, "a leaf of {count} records is not to be split");
    let divides = |separator: Vec<u8>, point: usize| -> Option<(Vec<u8>, usize)> {
        halves_fit::<LEAF>(source, point, point, &separator).then_some((separator, point))
    };
    // Between the last record and the key there may be no room for a fence, which a page is the fuller of.
    let wanted = match at {
        SplitPoint::Middle => beside(source, coming).and_then(|(separator, point)| divides(separator, point)),
        SplitPoint::Append => divides(separator_beyond(source, count - 1, key), count)
            .or_else(|| divides(leaf_separator(source, count - 1), count - 1)),
        SplitPoint::Prepend => {
            divides(separator_before(source, 0, key), 0).or_else(|| divides(leaf_separator(source, 1), 1))
        }
    };
    let (separator, point) = wanted.unwrap_or_else(|| {
        let point = middle::<LEAF>(source, 1..count, |point| leaf_separator_len(source, point));
        (leaf_separator(source, point), point)
    });
    build_halves::<LEAF>(source, left, right, right_id, point, point, &separator);
    separator
}

/// Where the bytes of few records are divided most evenly with the record that comes among them, of which
/// each counts: the separator, and how many records are left of it. `None` where there are many.
fn beside(source: &[u8], coming: Coming<'_>) -> Option<(Vec<u8>, usize)> {
    const FEW: usize = 16;
    let count = header::count(source);
    if count > FEW {
        return None;
    }
    let suffix_len = coming.key.len().saturating_sub(header::prefix_len(source));
    let mut sizes: Vec<usize> = (0..count).map(|slot| cell::<LEAF>(source, slot).size()).collect();
    let size = super::cell::size(suffix_len, coming.value);
    match coming.place {
        Ok(slot) => sizes[slot] = size,
        Err(slot) => sizes.insert(slot, size),
    }
    let inserted = coming.place.err();
    // With one record of the page on each side at least.
    let point_at = |cut: usize| cut - usize::from(inserted.is_some_and(|slot| slot < cut));
    let total: usize = sizes.iter().sum();
    let cut = (1..sizes.len())
        .filter(|&cut| (1..count).contains(&point_at(cut)))
        .min_by_key(|&cut| (2 * sizes[..cut].iter().sum::<usize>()).abs_diff(total))?;
    let separator = match inserted {
        Some(slot) if slot == cut => separator_beyond(source, slot - 1, coming.key),
        Some(slot) if slot + 1 == cut => separator_before(source, slot, coming.key),
        _ => leaf_separator(source, point_at(cut)),
    };
    Some((separator, point_at(cut)))
}

/// Splits an inner page of at least three separators; returns the one that moves up. `Append` leaves right
/// the last separator with the children around it, `Prepend` leaves left the first.
pub(crate) fn split_inner(
    source: &[u8],
    left: &mut [u8],
    right: &mut [u8],
    right_id: PageId,
    at: SplitPoint,
) -> Vec<u8> {
    let count = header::count(source);
    assert!(count >= 3, "an inner page of {count} separators is not to be split");
    let separator = |point: usize| -> Vec<u8> {
        let mut key = Vec::new();
        Inner::new(source).copy_separator(point, &mut key);
        key
    };
    let edge = match at {
        SplitPoint::Middle => None,
        SplitPoint::Append => Some(count - 2),
        SplitPoint::Prepend => Some(1),
    };
    let point = edge
        .filter(|&point| halves_fit::<INNER>(source, point, point + 1, &separator(point)))
        .unwrap_or_else(|| {
            middle::<INNER>(source, 1..count - 1, |point| suffix::<INNER>(source, point).len())
        });
    let separator = separator(point);
    build_halves::<INNER>(source, left, right, right_id, point, point + 1, &separator);
    separator
}

/// Left gets the slots below `left_end`, right those from `right_start`; in an inner page the one in between
/// moves up.
fn build_halves<const C: usize>(
    source: &[u8],
    left: &mut [u8],
    right: &mut [u8],
    right_id: PageId,
    left_end: usize,
    right_start: usize,
    separator: &[u8],
) {
    let count = header::count(source);
    let Fences { lower, upper } = header::fences(source);
    let identity = NodeIdentity::of(source);
    let mut right_identity = NodeIdentity { page: right_id, ..identity };
    if C != 0 {
        right_identity.first_child = Inner::new(source).child(right_start);
        right_identity.first_records = encode_count(Inner::new(source).records_below(right_start));
    }
    let (left_fences, right_fences) =
        (Fences { lower, upper: Some(separator) }, Fences { lower: Some(separator), upper });
    build_part::<C>(left, identity, left_fences, source, 0..left_end)
        .expect("half a page and a fence fit a page: see `limits`");
    build_part::<C>(right, right_identity, right_fences, source, right_start..count)
        .expect("half a page and a fence fit a page: see `limits`");
}

fn halves_fit<const C: usize>(source: &[u8], left_end: usize, right_start: usize, separator: &[u8]) -> bool {
    let whole = header::fences(source);
    let (count, custom, usable) = (header::count(source), is_custom(source), usable_bytes(source.len()));
    let fits = |fences: Fences<'_>, slots: std::ops::Range<usize>| {
        // Often it is all of them, and no cell gets larger.
        let is_all = slots.len() == count && prefix_between(fences, custom) >= header::prefix_len(source);
        let grown = fence_bytes(fences).saturating_sub(fence_bytes(whole));
        is_all && used_bytes::<C>(source) + grown <= usable
            || bytes_for::<C>(fences, custom, entries::<C>(source, slots)) <= usable
    };
    fits(Fences { upper: Some(separator), ..whole }, 0..left_end)
        && fits(Fences { lower: Some(separator), ..whole }, right_start..count)
}

/// Among `points`, the one that divides the bytes most evenly; or one close by whose separator is shorter, if
/// both halves still have room for another entry as long as the longest of these.
fn middle<const C: usize>(
    source: &[u8],
    points: std::ops::Range<usize>,
    separator_len: impl Fn(usize) -> usize,
) -> usize {
    let count = header::count(source);
    let entry = |slot: usize| cell::<C>(source, slot).size() + slot_bytes::<C>();
    let total: usize = (0..count).map(entry).sum();
    let (mut point, mut before) = (0, 0);
    while point + 1 < points.end && 2 * before + entry(point) < total {
        before += entry(point);
        point += 1;
    }
    let even = point.max(points.start);
    if is_custom(source) {
        return even;
    }
    let near = count / 16;
    let nearby = even.saturating_sub(near).max(points.start)..(even + near + 1).min(points.end);
    let best = nearby.min_by_key(|&point| (separator_len(point), point.abs_diff(even))).unwrap_or(even);
    let before_best: usize = (0..best).map(entry).sum();
    let larger = before_best.max(total - before_best);
    let key_max = super::limits::key_bytes_max(source.len());
    let longest = (0..count).map(entry).max().unwrap_or(0);
    let with_room = larger + 2 * key_max + longest <= usable_bytes(source.len());
    if with_room { best } else { even }
}

/// The length, without the prefix, of the shortest key above all left of `point` and not above any right of
/// it.
fn leaf_separator_len(page: &[u8], point: usize) -> usize {
    let (below, above) = (suffix::<LEAF>(page, point - 1), suffix::<LEAF>(page, point));
    if is_custom(page) { above.len() } else { (common_len(below, above) + 1).min(above.len()) }
}

fn leaf_separator(page: &[u8], point: usize) -> Vec<u8> {
    let suffix = &suffix::<LEAF>(page, point)[..leaf_separator_len(page, point)];
    [header::prefix(page), suffix].concat()
}

/// The shortest key that divides a record from a key above it, and below the next record.
fn separator_beyond(page: &[u8], slot: usize, key: &[u8]) -> Vec<u8> {
    if is_custom(page) {
        return key.to_vec();
    }
    let below = [header::prefix(page), suffix::<LEAF>(page, slot)].concat();
    shortest_separator(&below, key).to_vec()
}

/// The shortest key that divides a key from a record above it, and above the record before.
fn separator_before(page: &[u8], slot: usize, key: &[u8]) -> Vec<u8> {
    let above = [header::prefix(page), suffix::<LEAF>(page, slot)].concat();
    if is_custom(page) { above } else { shortest_separator(key, &above).to_vec() }
}

/// The shortest key above `below` and not above `above`, of two keys in ascending byte order.
pub(super) fn shortest_separator<'a>(below: &[u8], above: &'a [u8]) -> &'a [u8] {
    &above[..(common_len(below, above) + 1).min(above.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_is_as_short_as_it_can_be() {
        assert_eq!(shortest_separator(b"apple", b"banana"), b"b");
        assert_eq!(shortest_separator(b"ban", b"banana"), b"bana");
        assert_eq!(shortest_separator(b"", b"\0"), b"\0");
    }
}

//! Merging two neighbours into one page.

use super::Fences;
use super::cell::CellContent;
use super::header::{self, NodeIdentity, is_custom};
use super::heap::{HeapEntry, build, bytes_for, entries, fence_bytes, used_bytes};
use super::limits::usable_bytes;
use super::slots::{INNER, LEAF};

/// Merges leaf `right` into its left neighbour, into `out` under the left page's number; `separator` is what
/// stands between them in their parent. False, with nothing written, if they do not fit one page or are not
/// neighbours at that separator.
pub(crate) fn merge_leaf(left: &[u8], right: &[u8], separator: &[u8], out: &mut [u8]) -> bool {
    are_neighbours(left, right, separator) && merge::<LEAF>(left, right, None, out)
}

/// The same for inner pages; the separator comes down and stands between left's last and right's first child.
pub(crate) fn merge_inner(left: &[u8], right: &[u8], separator: &[u8], out: &mut [u8]) -> bool {
    are_neighbours(left, right, separator) && merge::<INNER>(left, right, Some(separator), out)
}

/// Whether two pages can be merged and leave a quarter of the page to spare, so that it is not split again at
/// once.
pub(crate) fn may_merge(left: &[u8], right: &[u8], separator: &[u8]) -> bool {
    let bytes = match header::kind(left) {
        _ if !are_neighbours(left, right, separator) => return false,
        // Mostly the neighbour is full. What they make leaves out no more of its keys than they do.
        Some(header::NodeKind::Leaf) => match entry_bytes(left) + entry_bytes(right) {
            least if least > most(left) => return false,
            _ => merged_bytes::<LEAF>(left, right, None),
        },
        Some(header::NodeKind::Inner) => merged_bytes::<INNER>(left, right, Some(separator)),
        _ => return false,
    };
    bytes <= most(left)
}

/// So many bytes of a page what was merged may take.
fn most(page: &[u8]) -> usize {
    usable_bytes(page.len()) * 3 / 4
}

/// What the records of a leaf take of it.
fn entry_bytes(leaf: &[u8]) -> usize {
    used_bytes::<LEAF>(leaf).saturating_sub(fence_bytes(header::fences(leaf)))
}

/// Whether the pages are of one size, tree, kind, level and order, and the separator is the fence between
/// them.
fn are_neighbours(left: &[u8], right: &[u8], separator: &[u8]) -> bool {
    left.len() == right.len()
        && left[16..24] == right[16..24]
        && header::fences(left).upper == Some(separator)
        && header::fences(right).lower == Some(separator)
}

fn fences<'a>(left: &'a [u8], right: &'a [u8]) -> Fences<'a> {
    Fences { lower: header::fences(left).lower, upper: header::fences(right).upper }
}

/// All entries of the merged page: left's, the separator with right's first child, right's.
fn merged<'a, const C: usize>(
    left: &'a [u8],
    right: &'a [u8],
    separator: Option<&'a [u8]>,
) -> impl Iterator<Item = HeapEntry<'a>> {
    let down = separator.map(|separator| HeapEntry {
        content: CellContent::new(
            separator,
            if header::is_counted(right) { header::first_records(right) } else { &[] },
            0,
            false,
        ),
        child: header::first_child(right).0,
    });
    entries::<C>(left, 0..header::count(left)).chain(down).chain(entries::<C>(right, 0..header::count(right)))
}

fn merged_bytes<const C: usize>(left: &[u8], right: &[u8], separator: Option<&[u8]>) -> usize {
    bytes_for::<C>(fences(left, right), is_custom(left), merged::<C>(left, right, separator))
}

fn merge<const C: usize>(left: &[u8], right: &[u8], separator: Option<&[u8]>, out: &mut [u8]) -> bool {
    if merged_bytes::<C>(left, right, separator) > usable_bytes(out.len()) {
        return false;
    }
    // The separator's child is there in the first child of the right page.
    let count = header::count(left) + header::count(right) + usize::from(separator.is_some());
    let entries = merged::<C>(left, right, separator);
    build::<C>(out, NodeIdentity::of(left), fences(left, right), count, entries).is_ok()
}

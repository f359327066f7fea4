//! What a transaction has looked for in one place: a key, or all keys between two bounds, as such things are
//! kept ([`Tree::bound_read`]), or all that a page covers.

use std::ops::Bound;

use smallvec::SmallVec;

use crate::access::{KeyBounds, Tree};

/// Bytes of a key that is kept without memory of its own, as most are.
const SHORT: usize = 16;

type ReadKey = SmallVec<[u8; SHORT]>;

/// Keys that were looked for.
#[derive(Debug)]
pub(super) enum ReadSpan {
    Key(ReadKey),
    Range(Bound<ReadKey>, Bound<ReadKey>),
    /// All that the page has, which says itself from where to where that is.
    Page,
}

impl ReadSpan {
    /// From where to where; none if the page says it.
    pub(super) fn bounds(&self) -> Option<KeyBounds<'_>> {
        match self {
            ReadSpan::Key(key) => Some((Bound::Included(key), Bound::Included(key))),
            ReadSpan::Range(lower, upper) => {
                Some((lower.as_ref().map(ReadKey::as_slice), upper.as_ref().map(ReadKey::as_slice)))
            }
            ReadSpan::Page => None,
        }
    }

    /// A key, as it is kept.
    pub(super) fn of_key(key: &[u8]) -> ReadSpan {
        ReadSpan::Key(ReadKey::from_slice(key))
    }

    pub(super) fn of(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> ReadSpan {
        match (lower, upper) {
            // Mostly it is the same one.
            (Bound::Included(one), Bound::Included(two)) if std::ptr::eq(one, two) || one == two => {
                ReadSpan::of_key(one)
            }
            _ => ReadSpan::Range(owned(lower), owned(upper)),
        }
    }

    /// Whether it has everything between two bounds in it, which lie in its page, as far as that is told by
    /// one look.
    pub(super) fn covers(&self, tree: &Tree<'_>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let key = match (lower, upper) {
            (Bound::Included(one), Bound::Included(two)) if one == two => Some(one),
            _ => None,
        };
        if let ReadSpan::Key(own) = self {
            return key.is_some_and(|key| tree.compare_read(key, own).is_eq());
        }
        let Some((from, to)) = self.bounds() else { return true };
        match (key, lower) {
            (Some(key), _) => above(tree, key, from) && below(tree, key, to),
            _ if (from, to) == (lower, upper) => true,
            // As a scan leaves it that is begun anew where it stands.
            (_, Bound::Included(begin) | Bound::Excluded(begin)) => upper == to && above(tree, begin, from),
            (_, Bound::Unbounded) => false,
        }
    }

    /// Has in it what lies between two bounds as well, and all between these and what it had.
    pub(super) fn widen(&mut self, tree: &Tree<'_>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        let Some((from, to)) = self.bounds() else { return };
        let begins = begins_before(tree, lower, from).then(|| owned(ajar(lower)));
        let ends = ends_behind(tree, upper, to).then(|| owned(ajar(upper)));
        match self {
            ReadSpan::Key(key) => {
                let kept = || Bound::Included(key.clone());
                *self = ReadSpan::Range(begins.unwrap_or_else(kept), ends.unwrap_or_else(kept));
            }
            ReadSpan::Range(from, to) => {
                begins.into_iter().for_each(|lower| *from = lower);
                ends.into_iter().for_each(|upper| *to = upper);
            }
            ReadSpan::Page => {}
        }
    }
}

/// Bytes of memory of its own that a bound's key takes.
#[inline]
pub(super) fn allocated(bound: Bound<&[u8]>) -> usize {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > SHORT => key.len(),
        _ => 0,
    }
}

fn owned(bound: Bound<&[u8]>) -> Bound<ReadKey> {
    bound.map(ReadKey::from_slice)
}

/// Whether a key is at or above a lower bound, both as they are kept of what was read.
fn above(tree: &Tree<'_>, key: &[u8], lower: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => tree.compare_read(key, bound).is_ge(),
        Bound::Excluded(bound) => tree.compare_read(key, bound).is_gt(),
    }
}

/// Whether a key is at or below an upper bound, both as they are kept of what was read.
fn below(tree: &Tree<'_>, key: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(bound) => tree.compare_read(key, bound).is_le(),
        Bound::Excluded(bound) => tree.compare_read(key, bound).is_lt(),
    }
}

/// Whether a lower bound lets something in that another does not.
fn begins_before(tree: &Tree<'_>, lower: Bound<&[u8]>, other: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(key) | Bound::Excluded(key) => !above(tree, key, other),
    }
}

/// Whether an upper bound lets something in that another does not.
fn ends_behind(tree: &Tree<'_>, upper: Bound<&[u8]>, other: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(key) | Bound::Excluded(key) => !below(tree, key, other),
    }
}

/// A bound with its key. Whether that is in it too is the least of what is rounded up when spans are joined.
fn ajar(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Excluded(key) => Bound::Included(key),
        bound => bound,
    }
}

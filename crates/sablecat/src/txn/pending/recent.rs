//! Records that a transaction has pending for one tree, in memory and in the tree's order.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;
use std::sync::Arc;

use super::custom::{self, Custom};
use super::short::{FirstBytes, Short};
use super::sorted::{self, Sorted};
use super::write_set::{Becomes, Pending};
use crate::access::Hashing;
use crate::access::KeyBounds;
use crate::txn::catalog::{Comparator, TreeRef};
use crate::txn::ranges;

/// So many records are kept in a sorted vector, which takes a fraction of what a tree of them does to make,
/// to go through and to drop.
const FEW: usize = 32;

/// The pending records of one tree that are in memory, in its order.
#[derive(Debug)]
pub(super) enum RecentRecords {
    /// In the order of bytes, at most [`FEW`].
    Few(Vec<(Short, Pending)>),
    /// In the order of bytes.
    Bytes(Box<Sorted>),
    /// In the order of hashes, each kept with its key.
    Hashed(Box<Hashed>),
    /// In a user's order.
    Custom(Box<Custom>),
}

/// Pending records in the order of hashes.
#[derive(Debug)]
pub(super) struct Hashed {
    comparator: Arc<Comparator>,
    hashing: Hashing,
    map: BTreeMap<(u64, Short), Pending>,
}

impl RecentRecords {
    pub(super) fn new(tree: &TreeRef) -> RecentRecords {
        match &tree.comparator {
            None => RecentRecords::Few(Vec::new()),
            Some(comparator) => match &comparator.table {
                Some(table) => RecentRecords::hashed(comparator, table.hashing),
                None => RecentRecords::custom(comparator),
            },
        }
    }

    /// None, in the same order.
    pub(super) fn like(&self) -> RecentRecords {
        match self {
            RecentRecords::Few(_) | RecentRecords::Bytes(_) => RecentRecords::Few(Vec::new()),
            RecentRecords::Hashed(of) => RecentRecords::hashed(&of.comparator, of.hashing),
            RecentRecords::Custom(of) => RecentRecords::custom(&of.comparator),
        }
    }

    fn hashed(comparator: &Arc<Comparator>, hashing: Hashing) -> RecentRecords {
        let comparator = Arc::clone(comparator);
        RecentRecords::Hashed(Box::new(Hashed { comparator, hashing, map: BTreeMap::new() }))
    }

    fn custom(comparator: &Arc<Comparator>) -> RecentRecords {
        RecentRecords::Custom(Box::new(Custom::new(comparator)))
    }

    /// The order, if it is not that of bytes.
    pub(super) fn order(&self) -> Option<&Comparator> {
        match self {
            RecentRecords::Few(_) | RecentRecords::Bytes(_) => None,
            RecentRecords::Hashed(of) => Some(&of.comparator),
            RecentRecords::Custom(of) => Some(&of.comparator),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            RecentRecords::Bytes(sorted) => sorted.clear(),
            RecentRecords::Hashed(of) => of.map.clear(),
            RecentRecords::Few(records) => records.clear(),
            RecentRecords::Custom(of) => of.clear(),
        }
    }

    /// Those after a key; none: all.
    pub(super) fn after(&self, after: Option<&[u8]>) -> RecentIter<'_> {
        match (self, after) {
            (_, None) => self.iter(),
            (RecentRecords::Few(records), Some(after)) => {
                let from = records.partition_point(|(key, _)| **key <= *after);
                RecentIter::Listed(records[from..].iter())
            }
            (RecentRecords::Bytes(sorted), after) => RecentIter::Bytes(sorted.after(after)),
            (RecentRecords::Hashed(of), Some(after)) => {
                RecentIter::Hashed(of.map.range((Bound::Excluded(of.key(after)), Bound::Unbounded)))
            }
            (RecentRecords::Custom(of), after) => RecentIter::Custom(of.after(after)),
        }
    }

    /// Where a key is among few, or belongs.
    #[inline]
    fn place_of_few(records: &[(Short, Pending)], key: &[u8]) -> std::result::Result<usize, usize> {
        let first = FirstBytes::of(key);
        match records.last() {
            None => Err(0),
            // Keys often come in order.
            Some((last, _)) if last.compare(key, first).is_lt() => Err(records.len()),
            Some(_) => records.binary_search_by(|(have, _)| have.compare(key, first)),
        }
    }

    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<Becomes<'_>> {
        match self {
            RecentRecords::Few(records) => {
                Self::place_of_few(records, key).ok().map(|at| records[at].1.as_deref())
            }
            others => others.get_of_others(key),
        }
    }

    /// As [`RecentRecords::get`], of more than a few or in another order: where there are few, that has
    /// looked.
    #[inline(never)]
    fn get_of_others(&self, key: &[u8]) -> Option<Becomes<'_>> {
        match self {
            RecentRecords::Few(_) => None,
            RecentRecords::Bytes(sorted) => sorted.get(key),
            RecentRecords::Hashed(of) => of.map.get(&of.key(key)).map(Option::as_deref),
            RecentRecords::Custom(of) => of.get(key),
        }
    }

    /// Sets a record. `before` is shown what was pending of it.
    #[inline]
    pub(super) fn set(&mut self, key: &[u8], value: Becomes<'_>, before: impl FnOnce(Option<Becomes<'_>>)) {
        if let RecentRecords::Few(records) = self {
            match Self::place_of_few(records, key) {
                Ok(at) => return replace(&mut records[at].1, value, before),
                Err(at) if records.len() < FEW => {
                    if records.capacity() == 0 {
                        *records = Vec::with_capacity(4);
                    }
                    before(None);
                    return records.insert(at, (key.into(), value.map(Short::from)));
                }
                Err(_) => {}
            }
        }
        self.set_of_others(key, value, before);
    }

    /// As [`RecentRecords::set`], of more than a few or in another order.
    #[inline(never)]
    fn set_of_others(&mut self, key: &[u8], value: Becomes<'_>, before: impl FnOnce(Option<Becomes<'_>>)) {
        match self {
            RecentRecords::Few(records) => {
                let mut sorted = Sorted::of(records);
                sorted.set(key, value, before);
                *self = RecentRecords::Bytes(Box::new(sorted));
            }
            RecentRecords::Bytes(sorted) => sorted.set(key, value, before),
            RecentRecords::Hashed(of) => match of.map.entry(of.key(key)) {
                btree_map::Entry::Occupied(mut have) => replace(have.get_mut(), value, before),
                btree_map::Entry::Vacant(place) => {
                    before(None);
                    place.insert(value.map(Short::from));
                }
            },
            RecentRecords::Custom(of) => of.set(key, value, before),
        }
    }

    pub(super) fn unset(&mut self, key: &[u8]) {
        match self {
            RecentRecords::Few(records) => {
                if let Ok(at) = Self::place_of_few(records, key) {
                    records.remove(at);
                }
            }
            RecentRecords::Bytes(sorted) => sorted.unset(key),
            RecentRecords::Hashed(of) => {
                of.map.remove(&of.key(key));
            }
            RecentRecords::Custom(of) => of.unset(key),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            RecentRecords::Few(records) => records.len(),
            others => others.len_of_others(),
        }
    }

    #[inline]
    pub(super) fn iter(&self) -> RecentIter<'_> {
        match self {
            RecentRecords::Few(records) => RecentIter::Listed(records.iter()),
            others => others.iter_of_others(),
        }
    }

    /// As [`RecentRecords::len`], of more than a few or in another order.
    #[inline(never)]
    fn len_of_others(&self) -> usize {
        match self {
            RecentRecords::Few(records) => records.len(),
            RecentRecords::Bytes(sorted) => sorted.len(),
            RecentRecords::Hashed(of) => of.map.len(),
            RecentRecords::Custom(of) => of.len(),
        }
    }

    /// As [`RecentRecords::iter`], of more than a few or in another order.
    #[inline(never)]
    fn iter_of_others(&self) -> RecentIter<'_> {
        match self {
            RecentRecords::Few(records) => RecentIter::Listed(records.iter()),
            RecentRecords::Bytes(sorted) => RecentIter::Bytes(sorted.after(None)),
            RecentRecords::Hashed(of) => RecentIter::Hashed(of.map.range(..)),
            RecentRecords::Custom(of) => RecentIter::Custom(of.after(None)),
        }
    }

    /// The first record within the bounds (`forward`), or the last.
    pub(super) fn edge(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        forward: bool,
    ) -> Option<(&[u8], Becomes<'_>)> {
        match self {
            RecentRecords::Bytes(sorted) => sorted.edge((lower, upper), forward),
            RecentRecords::Hashed(of) => {
                if ranges::is_empty((lower, upper), |a, b| of.hashing.compare(a, b)) {
                    return None;
                }
                let place = |bound: Bound<&[u8]>| bound.map(|key| of.key(key));
                let mut range = of.map.range((place(lower), place(upper)));
                let found = if forward { range.next() } else { range.next_back() };
                found.map(|((_, key), value)| (&**key, value.as_deref()))
            }
            RecentRecords::Few(records) => edge_of_few(records, (lower, upper), forward),
            RecentRecords::Custom(of) => of.edge((lower, upper), forward),
        }
    }
}

/// The first of few records within the bounds (`forward`), or the last.
fn edge_of_few<'a>(
    records: &'a [(Short, Pending)],
    (lower, upper): KeyBounds<'_>,
    forward: bool,
) -> Option<(&'a [u8], Becomes<'a>)> {
    let from = records.partition_point(|(key, _)| match lower {
        Bound::Unbounded => false,
        Bound::Included(bound) => **key < *bound,
        Bound::Excluded(bound) => **key <= *bound,
    });
    let to = records.partition_point(|(key, _)| match upper {
        Bound::Unbounded => true,
        Bound::Included(bound) => **key <= *bound,
        Bound::Excluded(bound) => **key < *bound,
    });
    let found = if from >= to { None } else { records.get(if forward { from } else { to - 1 }) };
    found.map(|(key, value)| (&**key, value.as_deref()))
}

/// Gives a pending record another value; `before` is shown the one that it has.
#[inline]
pub(super) fn replace(pending: &mut Pending, value: Becomes<'_>, before: impl FnOnce(Option<Becomes<'_>>)) {
    before(Some(pending.as_deref()));
    *pending = value.map(Short::from);
}

impl Hashed {
    /// A key with its hash.
    fn key(&self, key: &[u8]) -> (u64, Short) {
        (self.hashing.hash(key), key.into())
    }
}

/// Records in memory, in order.
pub(crate) enum RecentIter<'a> {
    Bytes(sorted::SortedIter<'a>),
    Hashed(btree_map::Range<'a, (u64, Short), Pending>),
    Listed(slice::Iter<'a, (Short, Pending)>),
    Custom(custom::CustomIter<'a>),
}

impl<'a> Iterator for RecentIter<'a> {
    type Item = (&'a [u8], Becomes<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            RecentIter::Listed(records) => records.next().map(|(key, value)| (&**key, value.as_deref())),
            RecentIter::Bytes(records) => records.next(),
            RecentIter::Custom(records) => records.next(),
            RecentIter::Hashed(records) => records.next().map(|((_, key), value)| (&**key, value.as_deref())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::catalog;

    /// Few records, as many as are kept in a vector, and more.
    #[test]
    fn records_are_found_and_in_order_however_many() {
        let tree = catalog::catalog_tree();
        for count in [1, 2, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            // Up, down, and from the middle on.
            for step in [1, count - 1, count / 2 * 2 + 1] {
                let (mut recent, mut model) = (RecentRecords::new(tree), BTreeMap::new());
                for n in 0..count {
                    let key = (n * step % count) as u16;
                    let value = (!n.is_multiple_of(3)).then(|| vec![n as u8; n]);
                    let mut before = None;
                    let see = |was: Option<Becomes<'_>>| before = was.map(|value| value.map(<[u8]>::to_vec));
                    recent.set(&key.to_be_bytes(), value.as_deref(), see);
                    assert_eq!(before, model.insert(key, value));
                }
                for key in (0..count as u16).filter(|key| key % 5 == 2) {
                    recent.unset(&key.to_be_bytes());
                    model.remove(&key);
                }
                assert_eq!(recent.len(), model.len());
                let alike = |(key, value): (&[u8], Becomes<'_>), (have, is): (&u16, &Option<Vec<u8>>)| {
                    key == have.to_be_bytes() && value == is.as_deref()
                };
                assert!(recent.iter().zip(&model).all(|(one, other)| alike(one, other)));
                for key in 0..=count as u16 {
                    let bytes = key.to_be_bytes();
                    let found = recent.get(&bytes).map(|found| found.map(<[u8]>::to_vec));
                    assert_eq!(found.as_ref(), model.get(&key));
                    assert_eq!(recent.after(Some(&bytes)).count(), model.range(key + 1..).count());
                    let first = recent.edge(Bound::Included(&bytes), Bound::Unbounded, true);
                    let last = recent.edge(Bound::Unbounded, Bound::Excluded(&bytes), false);
                    let same = |one: Option<_>, other: Option<_>| match (one, other) {
                        (None, None) => true,
                        (Some(one), Some(other)) => alike(one, other),
                        _ => false,
                    };
                    assert!(same(first, model.range(key..).next()));
                    assert!(same(last, model.range(..key).next_back()));
                }
            }
        }
    }
}

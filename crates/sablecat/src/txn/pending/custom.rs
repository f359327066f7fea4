//! Pending records in a user's order: in leaves of some hundreds, so that one more among many moves few.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::recent::replace;
use super::short::Short;
use super::write_set::{Becomes, Pending};
use crate::access::KeyBounds;
use crate::txn::catalog::Comparator;

/// A leaf with more records is divided.
const LEAF_MAX: usize = 512;

/// Pending records in a user's order.
#[derive(Debug)]
pub(super) struct Custom {
    pub(super) comparator: Arc<Comparator>,
    /// None is empty.
    leaves: Vec<Vec<(Short, Pending)>>,
    len: usize,
}

/// A place between records, or behind the last of a leaf.
type At = (usize, usize);

impl Custom {
    pub(super) fn new(comparator: &Arc<Comparator>) -> Custom {
        Custom { comparator: Arc::clone(comparator), leaves: Vec::new(), len: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.leaves.clear();
        self.len = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.comparator.compare)(a, b)
    }

    /// Behind all records with such keys, of which there is none behind one that has not.
    fn behind(&self, is_before: impl Fn(&[u8]) -> bool) -> At {
        let leaf = self.leaves.partition_point(|leaf| is_before(&leaf[0].0)).saturating_sub(1);
        let at =
            self.leaves.get(leaf).map_or(0, |records| records.partition_point(|(key, _)| is_before(key)));
        (leaf, at)
    }

    /// The record at a place, and where exactly it is.
    fn record(&self, (leaf, at): At) -> Option<(At, &(Short, Pending))> {
        match self.leaves.get(leaf)?.get(at) {
            Some(record) => Some(((leaf, at), record)),
            None => Some(((leaf + 1, 0), self.leaves.get(leaf + 1)?.first()?)),
        }
    }

    /// Where a key is, or belongs.
    fn place(&self, key: &[u8]) -> Result<At, At> {
        let place = self.behind(|have| self.compare(have, key).is_lt());
        match self.record(place) {
            Some((at, (have, _))) if self.compare(have, key).is_eq() => Ok(at),
            _ => Err(place),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Becomes<'_>> {
        self.place(key).ok().map(|(leaf, at)| self.leaves[leaf][at].1.as_deref())
    }

    /// Sets a record. `before` is shown what was pending of it.
    pub(super) fn set(&mut self, key: &[u8], value: Becomes<'_>, before: impl FnOnce(Option<Becomes<'_>>)) {
        let (leaf, at) = match self.place(key) {
            Ok((leaf, at)) => return replace(&mut self.leaves[leaf][at].1, value, before),
            Err(place) => place,
        };
        before(None);
        if self.leaves.is_empty() {
            self.leaves.push(Vec::new());
        }
        let records = &mut self.leaves[leaf];
        records.insert(at, (key.into(), value.map(Short::from)));
        self.len += 1;
        if records.len() > LEAF_MAX {
            // Keys often come in order.
            let from = if at + 1 == records.len() { at } else { records.len() / 2 };
            let behind = records.split_off(from);
            self.leaves.insert(leaf + 1, behind);
        }
    }

    pub(super) fn unset(&mut self, key: &[u8]) {
        let Ok((leaf, at)) = self.place(key) else { return };
        self.leaves[leaf].remove(at);
        self.len -= 1;
        if self.leaves[leaf].is_empty() {
            self.leaves.remove(leaf);
        }
    }

    /// Those after a key; none: all.
    pub(super) fn after(&self, after: Option<&[u8]>) -> CustomIter<'_> {
        let at = after.map_or((0, 0), |after| self.behind(|key| self.compare(key, after).is_le()));
        CustomIter { of: self, at }
    }

    /// The first record within the bounds (`forward`), or the last.
    pub(super) fn edge(&self, (lower, upper): KeyBounds<'_>, forward: bool) -> Option<(&[u8], Becomes<'_>)> {
        let is_below = |key: &[u8]| match lower {
            Bound::Unbounded => false,
            Bound::Included(bound) => self.compare(key, bound).is_lt(),
            Bound::Excluded(bound) => self.compare(key, bound).is_le(),
        };
        let is_above = |key: &[u8]| match upper {
            Bound::Unbounded => false,
            Bound::Included(bound) => self.compare(key, bound).is_gt(),
            Bound::Excluded(bound) => self.compare(key, bound).is_ge(),
        };
        let (key, value) = if forward {
            self.record(self.behind(is_below))?.1
        } else {
            let (leaf, at) = self.behind(|key| !is_above(key));
            self.leaves.get(leaf)?.get(at.checked_sub(1)?)?
        };
        let is_within = if forward { !is_above(key) } else { !is_below(key) };
        is_within.then(|| (&**key, value.as_deref()))
    }
}

/// Records in order.
pub(crate) struct CustomIter<'a> {
    of: &'a Custom,
    at: At,
}

impl<'a> Iterator for CustomIter<'a> {
    type Item = (&'a [u8], Becomes<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let ((leaf, at), (key, value)) = self.of.record(self.at)?;
        self.at = (leaf, at + 1);
        Some((key, value.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    use super::*;

    /// Of as many as one leaf has and of many, upward, downward and in no order; in an order that is not that
    /// of bytes.
    #[test]
    fn records_are_as_a_map_has_them() {
        let backwards = Arc::new(Comparator::new("backwards", |a, b| b.cmp(a)));
        for count in [1, LEAF_MAX, LEAF_MAX + 1, 5000] {
            for step in [1, count - 1, 3797] {
                let (mut custom, mut model) = (Custom::new(&backwards), BTreeMap::new());
                for n in 0..count {
                    let key = (n * step % count) as u16;
                    let value = (n % 3 != 0).then(|| vec![n as u8; n % 40]);
                    let mut was = None;
                    let before = |old: Option<Becomes<'_>>| was = old.map(|old| old.map(<[u8]>::to_vec));
                    custom.set(&key.to_be_bytes(), value.as_deref(), before);
                    assert_eq!(was, model.insert(Reverse(key), value));
                }
                for key in (0..count as u16).filter(|key| key % 5 == 2 || (600..1800).contains(key)) {
                    custom.unset(&key.to_be_bytes());
                    model.remove(&Reverse(key));
                }
                assert_eq!(custom.len(), model.len());
                let same = |found: Option<(&[u8], Becomes<'_>)>,
                            expected: Option<(&Reverse<u16>, &Option<Vec<u8>>)>| {
                    found.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                        == expected.map(|(key, value)| (key.0.to_be_bytes().to_vec(), value.clone()))
                };
                let mut all = custom.after(None);
                assert!(model.iter().all(|record| same(all.next(), Some(record))) && all.next().is_none());
                for key in (0..=count as u16).step_by(7) {
                    let bytes = key.to_be_bytes();
                    assert_eq!(custom.get(&bytes), model.get(&Reverse(key)).map(Option::as_deref));
                    let after = (Bound::Excluded(Reverse(key)), Bound::Unbounded);
                    assert!(same(custom.after(Some(&bytes)).next(), model.range(after).next()));
                    for high in [0, key / 2, key] {
                        let high_bytes = high.to_be_bytes();
                        let bounds = (Bound::Included(&bytes[..]), Bound::Included(&high_bytes[..]));
                        let mut within = model.range(Reverse(key)..=Reverse(high));
                        assert!(same(custom.edge(bounds, true), within.next()));
                        let mut within = model.range(Reverse(key)..=Reverse(high));
                        assert!(same(custom.edge(bounds, false), within.next_back()));
                    }
                    assert!(same(
                        custom.edge((Bound::Unbounded, Bound::Excluded(&bytes)), false),
                        model.range(..Reverse(key)).next_back()
                    ));
                    assert!(same(
                        custom.edge((Bound::Unbounded, Bound::Unbounded), false),
                        model.iter().next_back()
                    ));
                }
            }
        }
    }
}

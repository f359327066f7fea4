//! Ranges of keys whose committed records a transaction removes.
//!
//! They lie apart: one that meets others takes their place. So what is removed is what they cover, whatever
//! came first, and to undo one is to put those back whose place it took.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::access::{KeyBounds, KeySpan};

/// The bounds of a span.
pub(crate) fn bounds((lower, upper): &KeySpan) -> KeyBounds<'_> {
    (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice))
}

/// Whether no key can lie between the bounds.
pub(super) fn is_empty((lower, upper): KeyBounds<'_>, compare: impl Fn(&[u8], &[u8]) -> Ordering) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(a), Bound::Included(b)) => compare(a, b).is_gt(),
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            compare(a, b).is_ge()
        }
    }
}

/// Where what lies beyond a bound has its own.
fn beyond(bound: &Bound<Vec<u8>>) -> Option<Bound<Vec<u8>>> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(Bound::Excluded(key.clone())),
        Bound::Excluded(key) => Some(Bound::Included(key.clone())),
    }
}

/// Ranges that lie apart, in order.
#[derive(Debug, Default)]
pub(in crate::txn) struct Ranges {
    spans: Vec<KeySpan>,
}

/// What undoes the addition of a range: where it is, and whose place it took.
#[derive(Debug)]
pub(in crate::txn) struct Added {
    at: usize,
    replaced: Vec<KeySpan>,
}

impl Ranges {
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &KeySpan> {
        self.spans.iter()
    }

    /// Adds a range, which is not empty.
    pub(super) fn add(&mut self, span: KeySpan, compare: impl Fn(&[u8], &[u8]) -> Ordering) -> Added {
        let at = self.spans.partition_point(|have| ends_before(&have.1, &span.0, &compare));
        let met = self.spans[at..].partition_point(|have| !ends_before(&span.1, &have.0, &compare));
        let met = at..at + met;
        let (mut lower, mut upper) = span;
        if let [first, ..] = &self.spans[met.clone()]
            && reaches(&first.0, &lower, &|a: &[u8], b: &[u8]| compare(b, a))
        {
            lower = first.0.clone();
        }
        if let [.., last] = &self.spans[met.clone()]
            && reaches(&last.1, &upper, &compare)
        {
            upper = last.1.clone();
        }
        Added { at, replaced: self.spans.splice(met, [(lower, upper)]).collect() }
    }

    /// Undoes the last addition that has not been undone.
    pub(super) fn undo(&mut self, Added { at, replaced }: &mut Added) {
        self.spans.splice(*at..*at + 1, replaced.drain(..));
    }

    /// The range that a key is in.
    pub(super) fn covering(
        &self,
        key: &[u8],
        compare: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> Option<&KeySpan> {
        let is_before = |(_, upper): &KeySpan| match upper {
            Bound::Unbounded => false,
            Bound::Included(upper) => compare(upper, key).is_lt(),
            Bound::Excluded(upper) => compare(upper, key).is_le(),
        };
        let span = self.spans.get(self.spans.partition_point(is_before))?;
        let is_above = match &span.0 {
            Bound::Unbounded => true,
            Bound::Included(lower) => compare(lower, key).is_le(),
            Bound::Excluded(lower) => compare(lower, key).is_lt(),
        };
        is_above.then_some(span)
    }

    /// What of a range is in none of them, in order.
    pub(super) fn gaps(&self, span: &KeySpan, compare: impl Fn(&[u8], &[u8]) -> Ordering) -> Vec<KeySpan> {
        let mut gaps = Vec::new();
        let mut from = Some(span.0.clone());
        let behind = self.spans.iter().filter(|have| !ends_before(&have.1, &span.0, &compare));
        for have in behind.take_while(|have| !ends_before(&span.1, &have.0, &compare)) {
            if let (Some(from), Some(to)) = (from.take(), beyond(&have.0)) {
                gaps.push((from, to));
            }
            from = beyond(&have.1);
        }
        gaps.extend(from.map(|from| (from, span.1.clone())));
        gaps.retain(|gap| !is_empty(bounds(gap), &compare));
        gaps
    }
}

/// Whether keys up to an upper bound end before those from a lower one on begin, and something may lie
/// between the two.
fn ends_before(
    upper: &Bound<Vec<u8>>,
    lower: &Bound<Vec<u8>>,
    compare: &impl Fn(&[u8], &[u8]) -> Ordering,
) -> bool {
    match (upper, lower) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Excluded(a), Bound::Excluded(b)) => compare(a, b).is_le(),
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            compare(a, b).is_lt()
        }
    }
}

/// Whether an upper bound lets all keys pass that another does. Of lower bounds it says the same if keys are
/// compared the other way round.
fn reaches(
    one: &Bound<Vec<u8>>,
    other: &Bound<Vec<u8>>,
    compare: &impl Fn(&[u8], &[u8]) -> Ordering,
) -> bool {
    match (one, other) {
        (Bound::Unbounded, _) => true,
        (_, Bound::Unbounded) => false,
        (Bound::Excluded(a), Bound::Included(b)) => compare(a, b).is_gt(),
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            compare(a, b).is_ge()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::RangeBounds;

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![
            1 => Just(Bound::Unbounded),
            8 => (0u8..20).prop_map(|key| Bound::Included(vec![key])),
            8 => (0u8..20).prop_map(|key| Bound::Excluded(vec![key])),
        ]
    }

    fn covered(ranges: &Ranges) -> Vec<bool> {
        (0..20).map(|key| ranges.covering(&[key], |a, b| a.cmp(b)).is_some()).collect()
    }

    proptest! {
        #[test]
        fn ranges_cover_what_was_added_and_undoing_takes_it_back(
            added in proptest::collection::vec((bound(), bound()), 0..12),
            asked in (bound(), bound()),
        ) {
            let compare = |a: &[u8], b: &[u8]| a.cmp(b);
            let (mut ranges, mut model, mut undo) = (Ranges::default(), vec![false; 20], Vec::new());
            for span in added.into_iter().filter(|span| !is_empty(bounds(span), compare)) {
                let before = model.clone();
                for key in 0..20u8 {
                    model[usize::from(key)] |= span.contains(&vec![key]);
                }
                undo.push((before, ranges.add(span, compare)));
                prop_assert_eq!(covered(&ranges), model.clone());
                for pair in ranges.spans.windows(2) {
                    prop_assert!(ends_before(&pair[0].1, &pair[1].0, &compare), "{:?}", ranges.spans);
                }
                let gaps = ranges.gaps(&asked, compare);
                for key in 0..20u8 {
                    let within = gaps.iter().filter(|gap| gap.contains(&vec![key])).count();
                    let wanted = asked.contains(&vec![key]) && !model[usize::from(key)];
                    prop_assert_eq!(within, usize::from(wanted), "{} of {:?} in {:?}", key, asked, gaps);
                }
            }
            for (before, mut added) in undo.into_iter().rev() {
                ranges.undo(&mut added);
                prop_assert_eq!(covered(&ranges), before);
            }
            prop_assert_eq!(ranges.len(), 0);
        }
    }
}

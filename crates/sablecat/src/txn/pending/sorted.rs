//! Many pending records in the order of bytes: leaves of some dozens that follow each other.
//!
//! A leaf has the keys and values of its records in one piece of memory, one behind the other as they came,
//! and beside it a sorted vector that says where each is and what its key begins with. So a record takes no
//! allocation of its own, most comparisons look at nothing but the vector, and records that come in order,
//! which are most, go behind the last one. Long values lie apart: leaves are copied when they are divided.
//!
//! The more leaves there are the more records each may have, so that a leaf's vector and that of the leaves
//! grow alike, and neither costs much to move by one place (about the square root of all records each).

use std::cmp::Ordering;
use std::ops::Bound;

use super::short::{First, Short};
use super::write_set::{Becomes, Pending};
use crate::access::Bounds;

/// Records in a leaf, at most, while there are few leaves;
const RECORDS_MAX: usize = 64;
/// and each time that there are as many leaves as this times so many, twice as many.
const LEAVES_A_RECORD: usize = 16;
/// Bytes of a value that lies in its leaf, at most.
const IN_LEAF_MAX: usize = 1 << 10;

/// Pending records in the order of bytes.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// None is empty.
    leaves: Vec<Leaf>,
    /// What the first key of each begins with.
    firsts: Vec<First>,
    /// Values that lie apart. What was replaced leaves an empty one.
    apart: Vec<Box<[u8]>>,
    len: usize,
}

#[derive(Debug)]
struct Leaf {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// How many of these are nobody's any more.
    garbage: usize,
}

/// A record of a leaf.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// What its key begins with.
    first: First,
    key: Piece,
    value: Value,
}

/// Bytes of a leaf.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Removed,
    Here(Piece),
    /// The number of a value that lies apart.
    Apart(u32),
}

/// A record's place: its leaf, and its number there; behind a leaf's last record it is that leaf's end.
type At = (usize, usize);

impl Piece {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at as usize..][..self.len as usize]
    }
}

impl Leaf {
    /// A leaf of records whose bytes are in another one: these alone.
    fn gathered(mut entries: Vec<Entry>, from: &[u8], room: usize) -> Leaf {
        let mut leaf = Leaf { entries: Vec::new(), bytes: Vec::with_capacity(room), garbage: 0 };
        for entry in &mut entries {
            entry.key = leaf.add(entry.key.of(from));
            if let Value::Here(value) = &mut entry.value {
                *value = leaf.add(value.of(from));
            }
        }
        leaf.entries = entries;
        leaf
    }

    fn add(&mut self, bytes: &[u8]) -> Piece {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        // Of so few records, with keys and values of so few bytes, all is within four gigabytes.
        Piece { at: at as u32, len: bytes.len() as u32 }
    }

    fn key(&self, at: usize) -> &[u8] {
        self.entries[at].key.of(&self.bytes)
    }

    fn compare(&self, at: usize, key: &[u8], first: First) -> Ordering {
        let entry = &self.entries[at];
        entry.first.cmp(&first).then_with(|| entry.key.of(&self.bytes).cmp(key))
    }

    /// Where a key is, or belongs.
    fn search(&self, key: &[u8], first: First) -> Result<usize, usize> {
        let last = self.entries.len() - 1;
        match self.compare(last, key, first) {
            Ordering::Less => Err(last + 1),
            Ordering::Equal => Ok(last),
            Ordering::Greater => self.entries[..last].binary_search_by(|entry| {
                entry.first.cmp(&first).then_with(|| entry.key.of(&self.bytes).cmp(key))
            }),
        }
    }

    /// Takes its bytes together if most of them are nobody's.
    fn tidy(&mut self) {
        if self.garbage > IN_LEAF_MAX && self.garbage > self.bytes.len() / 2 {
            let room = self.bytes.len() - self.garbage;
            *self = Self::gathered(std::mem::take(&mut self.entries), &self.bytes, room);
        }
    }
}

impl Sorted {
    /// Of sorted records.
    pub(super) fn of(records: &[(Short, Pending)]) -> Sorted {
        let mut sorted = Sorted::default();
        records.iter().for_each(|(key, value)| sorted.set(key, value.as_deref(), |_| ()));
        sorted
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        *self = Sorted::default();
    }

    /// The leaf in which a key is or belongs; 0 if there is none.
    fn leaf_for(&self, key: &[u8], first: First) -> usize {
        let begins_by = |leaf: usize| {
            self.firsts[leaf].cmp(&first).then_with(|| self.leaves[leaf].key(0).cmp(key)).is_le()
        };
        match self.leaves.len().checked_sub(1) {
            Some(last) if !begins_by(last) => {
                let (mut from, mut to) = (0, last);
                while from < to {
                    let middle = (from + to) / 2;
                    match begins_by(middle) {
                        true => from = middle + 1,
                        false => to = middle,
                    }
                }
                from.saturating_sub(1)
            }
            last => last.unwrap_or(0),
        }
    }

    fn find(&self, key: &[u8]) -> Result<At, At> {
        let first = First::of(key);
        let leaf = self.leaf_for(key, first);
        match self.leaves.get(leaf) {
            None => Err((0, 0)),
            Some(have) => have.search(key, first).map(|at| (leaf, at)).map_err(|at| (leaf, at)),
        }
    }

    fn value(&self, (leaf, at): At) -> Becomes<'_> {
        let leaf = &self.leaves[leaf];
        match leaf.entries[at].value {
            Value::Removed => None,
            Value::Here(value) => Some(value.of(&leaf.bytes)),
            Value::Apart(number) => Some(&self.apart[number as usize]),
        }
    }

    fn record(&self, (leaf, at): At) -> Option<(&[u8], Becomes<'_>)> {
        let have = self.leaves.get(leaf)?;
        (at < have.entries.len()).then(|| (have.key(at), self.value((leaf, at))))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Becomes<'_>> {
        self.find(key).ok().map(|at| self.value(at))
    }

    /// Sets a record. `before` is shown what was pending of it.
    pub(super) fn set(&mut self, key: &[u8], value: Becomes<'_>, before: impl FnOnce(Option<Becomes<'_>>)) {
        match self.find(key) {
            Ok(at) => {
                before(Some(self.value(at)));
                self.replace(at, value);
            }
            Err(at) => {
                before(None);
                self.insert(at, key, value);
            }
        }
    }

    fn replace(&mut self, (leaf, at): At, value: Becomes<'_>) {
        let have = &mut self.leaves[leaf];
        let old = have.entries[at].value;
        let new = match (old, value) {
            (Value::Here(piece), Some(value)) if value.len() <= piece.len as usize => {
                have.bytes[piece.at as usize..][..value.len()].copy_from_slice(value);
                have.garbage += piece.len as usize - value.len();
                Value::Here(Piece { len: value.len() as u32, ..piece })
            }
            (Value::Apart(number), Some(value)) if value.len() > IN_LEAF_MAX => {
                self.apart[number as usize] = value.into();
                old
            }
            (_, value) => {
                self.drop_value(leaf, old);
                self.add_value(leaf, value)
            }
        };
        let have = &mut self.leaves[leaf];
        have.entries[at].value = new;
        have.tidy();
    }

    fn add_value(&mut self, leaf: usize, value: Becomes<'_>) -> Value {
        match value {
            None => Value::Removed,
            Some(value) if value.len() <= IN_LEAF_MAX => Value::Here(self.leaves[leaf].add(value)),
            Some(value) => {
                self.apart.push(value.into());
                Value::Apart(self.apart.len() as u32 - 1)
            }
        }
    }

    fn drop_value(&mut self, leaf: usize, value: Value) {
        match value {
            Value::Removed => {}
            Value::Here(piece) => self.leaves[leaf].garbage += piece.len as usize,
            Value::Apart(number) => self.apart[number as usize] = Box::default(),
        }
    }

    fn insert(&mut self, at: At, key: &[u8], value: Becomes<'_>) {
        let (leaf, at) = self.room_at(at, key.len() + value.map_or(0, <[u8]>::len).min(IN_LEAF_MAX));
        let have = &mut self.leaves[leaf];
        let (first, key) = (First::of(key), have.add(key));
        let value = self.add_value(leaf, value);
        self.leaves[leaf].entries.insert(at, Entry { first, key, value });
        if at == 0 {
            self.firsts[leaf] = first;
        }
        self.len += 1;
    }

    /// Makes room for one more record of so many bytes where that belongs, and says where it belongs then.
    fn room_at(&mut self, (leaf, at): At, bytes: usize) -> At {
        let most = RECORDS_MAX.max((self.leaves.len() / LEAVES_A_RECORD).next_power_of_two());
        let is_last = leaf + 1 == self.leaves.len();
        match self.leaves.get_mut(leaf) {
            Some(have) if have.entries.len() < most => (leaf, at),
            // Behind the last record: the next ones go there too, and are like those before.
            Some(have) if is_last && at == have.entries.len() => {
                let room = have.bytes.len().max(bytes);
                self.add_leaf(leaf + 1, Vec::with_capacity(most), room);
                (leaf + 1, 0)
            }
            None => {
                self.add_leaf(0, Vec::with_capacity(RECORDS_MAX), bytes);
                (0, 0)
            }
            Some(have) => {
                let middle = have.entries.len() / 2;
                let right = have.entries.split_off(middle);
                let left = std::mem::take(&mut have.entries);
                let old = std::mem::take(&mut have.bytes);
                let first = right[0].first;
                let right = Leaf::gathered(right, &old, old.len());
                *have = Leaf::gathered(left, &old, old.len());
                self.leaves.insert(leaf + 1, right);
                self.firsts.insert(leaf + 1, first);
                if at < middle { (leaf, at) } else { (leaf + 1, at - middle) }
            }
        }
    }

    /// Adds a leaf, which gets its first record at once.
    fn add_leaf(&mut self, leaf: usize, entries: Vec<Entry>, room: usize) {
        self.leaves.insert(leaf, Leaf { entries, bytes: Vec::with_capacity(room), garbage: 0 });
        self.firsts.insert(leaf, First::of(&[]));
    }

    /// Has nothing pending of a key.
    pub(super) fn unset(&mut self, key: &[u8]) {
        let Ok((leaf, at)) = self.find(key) else { return };
        let have = &mut self.leaves[leaf];
        let entry = have.entries.remove(at);
        have.garbage += entry.key.len as usize;
        self.drop_value(leaf, entry.value);
        self.len -= 1;
        let have = &mut self.leaves[leaf];
        match have.entries.first() {
            None => {
                self.leaves.remove(leaf);
                self.firsts.remove(leaf);
            }
            Some(first) => {
                self.firsts[leaf] = first.first;
                have.tidy();
            }
        }
    }

    /// The records after a key; none: all.
    pub(super) fn after(&self, after: Option<&[u8]>) -> Iter<'_> {
        let at = after.map_or((0, 0), |after| match self.find(after) {
            Ok((leaf, at)) => (leaf, at + 1),
            Err(at) => at,
        });
        Iter { records: self, at }
    }

    /// The first record within the bounds (`forward`), or the last.
    pub(super) fn edge(&self, (lower, upper): Bounds<'_>, forward: bool) -> Option<(&[u8], Becomes<'_>)> {
        let found = match (forward, if forward { lower } else { upper }) {
            (true, Bound::Unbounded) => self.record((0, 0)),
            (true, Bound::Included(key)) => match self.find(key) {
                Ok(at) => self.record(at),
                Err(at) => self.record(self.settled(at)),
            },
            (true, Bound::Excluded(key)) => self.after(Some(key)).next(),
            (false, Bound::Unbounded) => self.before((self.leaves.len(), 0)),
            (false, Bound::Included(key)) => match self.find(key) {
                Ok(at) => self.record(at),
                Err(at) => self.before(at),
            },
            (false, Bound::Excluded(key)) => self.before(self.find(key).unwrap_or_else(|at| at)),
        };
        found.filter(|(key, _)| match if forward { upper } else { lower } {
            Bound::Unbounded => true,
            Bound::Included(bound) if forward => *key <= bound,
            Bound::Excluded(bound) if forward => *key < bound,
            Bound::Included(bound) => *key >= bound,
            Bound::Excluded(bound) => *key > bound,
        })
    }

    /// The place of a record instead of a leaf's end.
    fn settled(&self, (leaf, at): At) -> At {
        match self.leaves.get(leaf) {
            Some(have) if at == have.entries.len() => (leaf + 1, 0),
            _ => (leaf, at),
        }
    }

    /// The record before a place.
    fn before(&self, (leaf, at): At) -> Option<(&[u8], Becomes<'_>)> {
        match at.checked_sub(1) {
            Some(at) => self.record((leaf, at)),
            None => {
                let leaf = leaf.checked_sub(1)?;
                self.record((leaf, self.leaves[leaf].entries.len() - 1))
            }
        }
    }
}

/// Records in order.
pub(crate) struct Iter<'a> {
    records: &'a Sorted,
    at: At,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], Becomes<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.at = self.records.settled(self.at);
        let found = self.records.record(self.at)?;
        self.at.1 += 1;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    fn same(found: Option<(&[u8], Becomes<'_>)>, expected: Option<(&Vec<u8>, &Option<Vec<u8>>)>) -> bool {
        found == expected.map(|(key, value)| (&key[..], value.as_deref()))
    }

    fn check(sorted: &Sorted, model: &Model, keys: &[Vec<u8>]) {
        assert_eq!(sorted.len(), model.len());
        let mut all = sorted.after(None);
        assert!(model.iter().all(|record| same(all.next(), Some(record))) && all.next().is_none());
        for key in keys {
            assert_eq!(sorted.get(key), model.get(key).map(Option::as_deref));
            let after = (Bound::Excluded(key), Bound::Unbounded);
            assert!(same(sorted.after(Some(key)).next(), model.range::<Vec<u8>, _>(after).next()));
        }
        for pair in keys.chunks_exact(2).filter(|pair| pair[0] < pair[1]) {
            let (low, high) = (&pair[0][..], &pair[1][..]);
            let lowers = [Bound::Unbounded, Bound::Included(low), Bound::Excluded(low)];
            let uppers = [Bound::Unbounded, Bound::Included(high), Bound::Excluded(high)];
            for bounds in lowers.into_iter().flat_map(|lower| uppers.map(|upper| (lower, upper))) {
                let mut expected = model.range::<[u8], _>(bounds);
                assert!(same(sorted.edge(bounds, true), expected.clone().next()));
                assert!(same(sorted.edge(bounds, false), expected.next_back()));
            }
        }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let tail = prop::collection::vec(prop::sample::select(vec![0u8, 1, 0xff]), 0..6);
        // Some differ before the sixteenth byte, some behind it, and some in their length alone.
        (0..4usize, tail).prop_map(|(begins, tail)| [vec![7; [0, 1, 14, 20][begins]], tail].concat())
    }

    fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
        let bytes = (any::<u8>(), prop::sample::select(vec![0, 3, 30, 700, IN_LEAF_MAX, IN_LEAF_MAX + 1]));
        prop::option::weighted(0.8, bytes.prop_map(|(byte, len)| vec![byte; len]))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// As a map has them, whatever is set, replaced and taken back, in any order.
        #[test]
        fn records_are_as_a_map_has_them(
            steps in prop::collection::vec((key(), value(), 0..8u8), 0..900),
        ) {
            let (mut sorted, mut model) = (Sorted::default(), Model::new());
            for (key, value, what) in &steps {
                if *what == 0 {
                    sorted.unset(key);
                    model.remove(key);
                    continue;
                }
                let mut was = None;
                sorted.set(key, value.as_deref(), |before| was = before.map(|value| value.map(<[u8]>::to_vec)));
                prop_assert_eq!(was, model.insert(key.clone(), value.clone()));
            }
            let keys: Vec<Vec<u8>> = steps.into_iter().map(|(key, ..)| key).take(100).collect();
            check(&sorted, &model, &keys);
        }
    }

    #[test]
    fn many_are_in_order_and_leaves_grow_with_their_number() {
        let count = 200_000u32;
        for step in [1, count - 1, 104_729] {
            let (mut sorted, mut model) = (Sorted::default(), Model::new());
            for n in 0..count {
                let key = ((u64::from(n) * u64::from(step) % u64::from(count)) as u32).to_be_bytes();
                sorted.set(&key, Some(&n.to_le_bytes()), |_| ());
                model.insert(key.to_vec(), Some(n.to_le_bytes().to_vec()));
            }
            let keys: Vec<_> = (0..300u32).map(|n| (n * 677).to_be_bytes().to_vec()).collect();
            check(&sorted, &model, &keys);
            let most = sorted.leaves.iter().map(|leaf| leaf.entries.len()).max();
            assert!(most > Some(RECORDS_MAX) && sorted.leaves.len() < 5_000, "{most:?}");
        }
    }

    #[test]
    fn what_is_set_again_and_again_takes_no_more_memory() {
        let mut sorted = Sorted::default();
        for n in 0..100_000usize {
            let key = (n % 10).to_be_bytes();
            sorted.set(&key, Some(&vec![1; n * 7 % 2_000]), |_| ());
            if n % 3 == 0 {
                sorted.unset(&key);
            }
        }
        let bytes: usize = sorted.leaves.iter().map(|leaf| leaf.bytes.len()).sum();
        assert!(bytes < 40 * IN_LEAF_MAX, "{bytes}");
    }
}

//! Many pending records in the order of bytes: leaves of some dozens, in groups of some dozens.
//!
//! A leaf has the keys and values of its records in one piece of memory, one behind the other as they came,
//! and beside it, sorted, what keys begin with and where each record is. So a record takes no allocation of
//! its own, most comparisons look at nothing but those beginnings, and records that come in order, which are
//! most, go behind the last one. Long values lie apart: leaves are copied when they are divided.
//!
//! It is a B-tree of three levels, of which the topmost is as long as it has to be: a million records are in
//! some hundred groups, and what an insertion moves by one place is a kilobyte or less.

use std::ops::Bound;
use std::slice;

use super::short::{FirstBytes, Short};
use super::sorted_leaf::{
    IN_LEAF_MAX, NODES_MAX, Piece, RecordPieces, SortedLeaf, ValuePlace, alike, partition,
};
use super::write_set::{Becomes, Pending};
use crate::access::KeyBounds;

/// Pending records in the order of bytes.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    groups: NodeRow<NodeRow<Box<SortedLeaf>>>,
    /// Values that lie apart. What was replaced leaves an empty one.
    apart: Vec<Box<[u8]>>,
    len: usize,
}

/// Leaves, or groups of leaves, in order. None is empty.
#[derive(Debug)]
struct NodeRow<N> {
    nodes: Vec<N>,
    /// What the first key of each begins with.
    firsts: Vec<FirstBytes>,
}

/// The place of a record: its group, its leaf there, and its number there. Behind a leaf's last record it is
/// that leaf's end.
#[derive(Clone, Copy, Debug)]
struct At {
    group: usize,
    leaf: usize,
    record: usize,
}

/// What has a first key.
trait FirstKeyed {
    fn first_key(&self) -> &[u8];
}

impl<N: FirstKeyed> FirstKeyed for NodeRow<N> {
    fn first_key(&self) -> &[u8] {
        self.nodes[0].first_key()
    }
}

impl FirstKeyed for Box<SortedLeaf> {
    fn first_key(&self) -> &[u8] {
        self.key(0)
    }
}

impl<N> Default for NodeRow<N> {
    fn default() -> NodeRow<N> {
        NodeRow { nodes: Vec::new(), firsts: Vec::new() }
    }
}

impl<N> NodeRow<N> {
    fn insert(&mut self, at: usize, first: FirstBytes, node: N) {
        self.nodes.insert(at, node);
        self.firsts.insert(at, first);
    }

    fn remove(&mut self, at: usize) {
        self.nodes.remove(at);
        self.firsts.remove(at);
    }

    /// Takes away what is from a place on.
    fn divide(&mut self, at: usize) -> NodeRow<N> {
        NodeRow { nodes: self.nodes.split_off(at), firsts: self.firsts.split_off(at) }
    }
}

impl<N: FirstKeyed> NodeRow<N> {
    /// The node in which a key is or belongs; 0 if there is none.
    fn node_for(&self, key: &[u8], first: FirstBytes) -> usize {
        let begins_by = |node: usize| self.nodes[node].first_key() <= key;
        partition(alike(&self.firsts, first), begins_by).saturating_sub(1)
    }
}

impl Sorted {
    /// Of sorted records, fewer than a leaf has at most.
    pub(super) fn of(records: &[(Short, Pending)]) -> Sorted {
        let mut sorted = Sorted::default();
        let in_leaf = |value: &Pending| match value.as_deref().map_or(0, <[u8]>::len) {
            apart if apart > IN_LEAF_MAX => 0,
            here => here,
        };
        let bytes: usize = records.iter().map(|(key, value)| key.len() + in_leaf(value)).sum();
        for (n, (key, value)) in records.iter().enumerate() {
            sorted.set(key, value.as_deref(), |_| ());
            if n == 0 {
                // The leaf's others are like these.
                let room = bytes * NODES_MAX / records.len();
                sorted.leaf_mut(At { group: 0, leaf: 0, record: 0 }).bytes.reserve(room);
            }
        }
        sorted
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        *self = Sorted::default();
    }

    /// Where a key is, or belongs.
    fn find(&self, key: &[u8]) -> Result<At, At> {
        let first = FirstBytes::of(key);
        let end = self.end();
        // Keys often come in order.
        if self.leaf(end).is_none_or(|leaf| leaf.ends_before(key, first)) {
            return Err(end);
        }
        let group = self.groups.node_for(key, first);
        let leaves = &self.groups.nodes[group];
        let leaf = leaves.node_for(key, first);
        let at = |record| At { group, leaf, record };
        leaves.nodes[leaf].search(key, first).map(at).map_err(at)
    }

    /// The end of the last leaf.
    fn end(&self) -> At {
        let group = self.groups.nodes.len().saturating_sub(1);
        let leaves = self.groups.nodes.get(group).map_or(&[][..], |leaves| &leaves.nodes);
        At { group, leaf: leaves.len().saturating_sub(1), record: leaves.last().map_or(0, |leaf| leaf.len) }
    }

    fn leaf(&self, at: At) -> Option<&SortedLeaf> {
        self.groups.nodes.get(at.group)?.nodes.get(at.leaf).map(|leaf| &**leaf)
    }

    fn leaf_mut(&mut self, at: At) -> &mut SortedLeaf {
        &mut self.groups.nodes[at.group].nodes[at.leaf]
    }

    fn record(&self, at: At) -> Option<(&[u8], Becomes<'_>)> {
        let leaf = self.leaf(at)?;
        leaf.entries().get(at.record).map(|entry| self.whole(entry, &leaf.bytes))
    }

    /// A record of a leaf with these bytes.
    fn whole<'s>(&'s self, entry: &RecordPieces, bytes: &'s [u8]) -> (&'s [u8], Becomes<'s>) {
        let value = match entry.value {
            ValuePlace::Removed => None,
            ValuePlace::Here(value) => Some(value.of(bytes)),
            ValuePlace::Apart(number) => Some(&*self.apart[number as usize]),
        };
        (entry.key.of(bytes), value)
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Becomes<'_>> {
        self.record(self.find(key).ok()?).map(|(_, value)| value)
    }

    /// Sets a record. `before` is shown what was pending of it.
    pub(super) fn set(&mut self, key: &[u8], value: Becomes<'_>, before: impl FnOnce(Option<Becomes<'_>>)) {
        // Records often come in order, and have short values.
        if value.is_none_or(|value| value.len() <= IN_LEAF_MAX)
            && let Some(leaf) = self.groups.nodes.last_mut().and_then(|leaves| leaves.nodes.last_mut())
            && leaf.len < NODES_MAX
        {
            let first = FirstBytes::of(key);
            if leaf.ends_before(key, first) {
                before(None);
                leaf.push(key, first, value);
                self.len += 1;
                return;
            }
        }
        match self.find(key) {
            Ok(at) => {
                before(self.record(at).map(|(_, value)| value));
                self.replace(at, value);
            }
            Err(at) => {
                before(None);
                self.insert(at, key, value);
            }
        }
    }

    fn replace(&mut self, at: At, value: Becomes<'_>) {
        let leaf = self.leaf_mut(at);
        let old = leaf.entries[at.record].value;
        let new = match (old, value) {
            (ValuePlace::Here(piece), Some(value)) if value.len() <= piece.len as usize => {
                leaf.bytes[piece.at as usize..][..value.len()].copy_from_slice(value);
                leaf.garbage += piece.len as usize - value.len();
                ValuePlace::Here(Piece { len: value.len() as u32, ..piece })
            }
            (ValuePlace::Apart(number), Some(value)) if value.len() > IN_LEAF_MAX => {
                self.apart[number as usize] = value.into();
                old
            }
            (_, value) => {
                self.drop_value(at, old);
                self.add_value(at, value)
            }
        };
        let leaf = self.leaf_mut(at);
        leaf.entries[at.record].value = new;
        leaf.tidy();
    }

    fn add_value(&mut self, at: At, value: Becomes<'_>) -> ValuePlace {
        match value {
            None => ValuePlace::Removed,
            Some(value) if value.len() <= IN_LEAF_MAX => ValuePlace::Here(self.leaf_mut(at).add(value)),
            Some(value) => {
                self.apart.push(value.into());
                ValuePlace::Apart(self.apart.len() as u32 - 1)
            }
        }
    }

    fn drop_value(&mut self, at: At, value: ValuePlace) {
        match value {
            ValuePlace::Removed => {}
            ValuePlace::Here(piece) => self.leaf_mut(at).garbage += piece.len as usize,
            ValuePlace::Apart(number) => self.apart[number as usize] = Box::default(),
        }
    }

    fn insert(&mut self, at: At, key: &[u8], value: Becomes<'_>) {
        let first = FirstBytes::of(key);
        let at = self.room_at(at, first);
        let key = self.leaf_mut(at).add(key);
        let value = self.add_value(at, value);
        self.leaf_mut(at).insert(at.record, first, RecordPieces { key, value });
        self.begins(at, first);
        self.len += 1;
    }

    /// A leaf's record begins so: it may be the leaf's first one, and that its group's.
    fn begins(&mut self, at: At, first: FirstBytes) {
        if at.record == 0 {
            self.groups.nodes[at.group].firsts[at.leaf] = first;
            if at.leaf == 0 {
                self.groups.firsts[at.group] = first;
            }
        }
    }

    /// Makes room for one more record, which begins so, where that belongs; says where it belongs then. A
    /// leaf made for it has no other.
    fn room_at(&mut self, at: At, first: FirstBytes) -> At {
        let At { group, leaf, record } = at;
        let Some(have) = self.leaf(at) else {
            // There is none at all.
            let mut leaves = NodeRow::default();
            leaves.insert(0, first, SortedLeaf::with_room(0));
            self.groups.insert(0, first, leaves);
            return at;
        };
        if have.len < NODES_MAX {
            return at;
        }
        let end = self.end();
        let is_last = (group, leaf) == (end.group, end.leaf);
        let leaves = &mut self.groups.nodes[group];
        let have = &mut leaves.nodes[leaf];
        let middle = if is_last && record == have.len {
            // The next ones go there too, and are like those before, give or take a little.
            let next = SortedLeaf::with_room(have.bytes.len() + have.bytes.len() / 8);
            leaves.insert(leaf + 1, first, next);
            record
        } else {
            let right = have.divide();
            let middle = have.len;
            leaves.insert(leaf + 1, right.firsts[0], right);
            middle
        };
        let (leaf, record) = if record < middle { (leaf, record) } else { (leaf + 1, record - middle) };
        let count = leaves.nodes.len();
        if count <= NODES_MAX {
            return At { group, leaf, record };
        }
        let middle = if is_last { count - 1 } else { count / 2 };
        let right = leaves.divide(middle);
        self.groups.insert(group + 1, right.firsts[0], right);
        if leaf < middle {
            At { group, leaf, record }
        } else {
            At { group: group + 1, leaf: leaf - middle, record }
        }
    }

    /// Has nothing pending of a key.
    pub(super) fn unset(&mut self, key: &[u8]) {
        let Ok(at) = self.find(key) else { return };
        let leaf = self.leaf_mut(at);
        let entry = leaf.remove(at.record);
        leaf.garbage += entry.key.len as usize;
        self.drop_value(at, entry.value);
        self.len -= 1;
        let leaf = self.leaf_mut(at);
        leaf.tidy();
        if let Some(first) = leaf.firsts().first().copied() {
            return self.begins(At { record: 0, ..at }, first);
        }
        let leaves = &mut self.groups.nodes[at.group];
        leaves.remove(at.leaf);
        match leaves.firsts.first().copied() {
            Some(first) => self.groups.firsts[at.group] = first,
            None => self.groups.remove(at.group),
        }
    }

    /// The records after a key; none: all.
    pub(super) fn after(&self, after: Option<&[u8]>) -> SortedIter<'_> {
        let at = after.map_or(At { group: 0, leaf: 0, record: 0 }, |after| match self.find(after) {
            Ok(at) => At { record: at.record + 1, ..at },
            Err(at) => at,
        });
        SortedIter::new(self, at)
    }

    /// The first record within the bounds (`forward`), or the last.
    pub(super) fn edge(&self, (lower, upper): KeyBounds<'_>, forward: bool) -> Option<(&[u8], Becomes<'_>)> {
        let found = match (forward, if forward { lower } else { upper }) {
            (true, Bound::Unbounded) => self.after(None).next(),
            (true, Bound::Included(key)) => {
                SortedIter::new(self, self.find(key).unwrap_or_else(|at| at)).next()
            }
            (true, Bound::Excluded(key)) => self.after(Some(key)).next(),
            (false, Bound::Unbounded) => {
                self.before(At { group: self.groups.nodes.len(), leaf: 0, record: 0 })
            }
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

    /// The record before a place.
    fn before(&self, mut at: At) -> Option<(&[u8], Becomes<'_>)> {
        if at.record == 0 {
            if at.leaf == 0 {
                at.group = at.group.checked_sub(1)?;
                at.leaf = self.groups.nodes[at.group].nodes.len();
            }
            at.leaf -= 1;
            at.record = self.leaf(at)?.len;
        }
        self.record(At { record: at.record - 1, ..at })
    }
}

/// Records in order.
pub(crate) struct SortedIter<'a> {
    records: &'a Sorted,
    /// What is left of a leaf, and its bytes.
    entries: slice::Iter<'a, RecordPieces>,
    bytes: &'a [u8],
    /// The group of the leaf behind that, and its number there.
    next: (usize, usize),
}

impl<'a> SortedIter<'a> {
    /// From a place on.
    fn new(records: &'a Sorted, At { group, leaf, record }: At) -> SortedIter<'a> {
        let mut iter = SortedIter { records, entries: [].iter(), bytes: &[], next: (group, leaf) };
        if iter.next_leaf().is_some() {
            iter.entries = iter.entries.as_slice()[record..].iter();
        }
        iter
    }

    /// Goes to the next leaf, if there is one.
    fn next_leaf(&mut self) -> Option<()> {
        let (group, leaf) = self.next;
        let leaves = &self.records.groups.nodes.get(group)?.nodes;
        let here = &leaves[leaf];
        (self.entries, self.bytes) = (here.entries().iter(), &here.bytes);
        self.next = if leaf + 1 < leaves.len() { (group, leaf + 1) } else { (group + 1, 0) };
        Some(())
    }
}

impl<'a> Iterator for SortedIter<'a> {
    type Item = (&'a [u8], Becomes<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(self.records.whole(entry, self.bytes));
            }
            self.next_leaf()?;
        }
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
                sorted
                    .set(key, value.as_deref(), |before| was = before.map(|value| value.map(<[u8]>::to_vec)));
                prop_assert_eq!(was, model.insert(key.clone(), value.clone()));
            }
            let keys: Vec<Vec<u8>> = steps.into_iter().map(|(key, ..)| key).take(100).collect();
            check(&sorted, &model, &keys);
        }
    }

    #[test]
    fn many_are_in_order_and_can_be_taken_back() {
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
            let groups = &sorted.groups.nodes;
            let leaves = groups.iter().map(|group| group.nodes.len()).sum::<usize>();
            assert!(groups.len() > 40 && leaves < 7_000, "{} {leaves}", groups.len());
            // And taken back, group by group.
            model.keys().for_each(|key| sorted.unset(key));
            assert!(
                sorted.len() == 0 && sorted.groups.nodes.is_empty() && sorted.after(None).next().is_none()
            );
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
        let leaves = sorted.groups.nodes.iter().flat_map(|group| &group.nodes);
        let bytes: usize = leaves.map(|leaf| leaf.bytes.len()).sum();
        assert!(bytes < 40 * IN_LEAF_MAX, "{bytes}");
    }
}

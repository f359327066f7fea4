//! What a transaction would change: its records in key order, tree by tree, in process memory.
//!
//! Savepoints are positions in a journal of what each entry was before; the journal is kept only once a savepoint has been asked for.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;
use std::sync::Arc;

use super::short::Short;
use super::{Comparator, TreeRef};
use crate::types::TreeId;

/// What a record is to become: a value, or none (removed).
pub(crate) type Pending = Option<Short>;

/// The pending records of one tree, in its order.
#[derive(Debug)]
pub(crate) enum Records {
    /// In the order of bytes.
    Bytes(BTreeMap<Short, Pending>),
    /// In a user's order: a sorted vector.
    Custom(Arc<Comparator>, Vec<(Short, Pending)>),
}

impl Records {
    fn new(tree: &TreeRef) -> Records {
        match &tree.comparator {
            None => Records::Bytes(BTreeMap::new()),
            Some(comparator) => Records::Custom(Arc::clone(comparator), Vec::new()),
        }
    }

    fn place(comparator: &Comparator, records: &[(Short, Pending)], key: &[u8]) -> Result<usize, usize> {
        records.binary_search_by(|(have, _)| (comparator.compare)(have, key))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Pending> {
        match self {
            Records::Bytes(map) => map.get(key),
            Records::Custom(comparator, records) => Self::place(comparator, records, key).ok().map(|at| &records[at].1),
        }
    }

    fn set(&mut self, key: &[u8], value: Pending) -> Option<Pending> {
        match self {
            Records::Bytes(map) => map.insert(key.into(), value),
            Records::Custom(comparator, records) => match Self::place(comparator, records, key) {
                Ok(at) => Some(std::mem::replace(&mut records[at].1, value)),
                Err(at) => {
                    records.insert(at, (key.into(), value));
                    None
                }
            },
        }
    }

    fn unset(&mut self, key: &[u8]) {
        match self {
            Records::Bytes(map) => {
                map.remove(key);
            }
            Records::Custom(comparator, records) => {
                if let Ok(at) = Self::place(comparator, records, key) {
                    records.remove(at);
                }
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Records::Bytes(map) => map.len(),
            Records::Custom(_, records) => records.len(),
        }
    }

    /// All records, in order.
    pub(crate) fn iter(&self) -> Iter<'_> {
        match self {
            Records::Bytes(map) => Iter::Bytes(map.iter()),
            Records::Custom(_, records) => Iter::Custom(records.iter()),
        }
    }

    /// The first record within the bounds (`forward`), or the last.
    pub(crate) fn edge(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, forward: bool) -> Option<(&[u8], &Pending)> {
        match self {
            Records::Bytes(map) => {
                if is_empty(lower, upper, |a, b| a.cmp(b)) {
                    return None;
                }
                let mut range = map.range::<[u8], _>((lower, upper));
                let found = if forward { range.next() } else { range.next_back() };
                found.map(|(key, value)| (&**key, value))
            }
            Records::Custom(comparator, records) => {
                let compare = |a: &[u8], b: &[u8]| (comparator.compare)(a, b);
                let from = records.partition_point(|(key, _)| match lower {
                    Bound::Unbounded => false,
                    Bound::Included(bound) => compare(key, bound).is_lt(),
                    Bound::Excluded(bound) => compare(key, bound).is_le(),
                });
                let to = records.partition_point(|(key, _)| match upper {
                    Bound::Unbounded => true,
                    Bound::Included(bound) => compare(key, bound).is_le(),
                    Bound::Excluded(bound) => compare(key, bound).is_lt(),
                });
                let found = if from >= to { None } else { records.get(if forward { from } else { to - 1 }) };
                found.map(|(key, value)| (&**key, value))
            }
        }
    }
}

/// The records of a tree, in order.
pub(crate) enum Iter<'a> {
    Bytes(btree_map::Iter<'a, Short, Pending>),
    Custom(slice::Iter<'a, (Short, Pending)>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a Pending);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Iter::Bytes(records) => records.next().map(|(key, value)| (&**key, value)),
            Iter::Custom(records) => records.next().map(|(key, value)| (&**key, value)),
        }
    }
}

/// Whether no key can lie between the bounds.
fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>, compare: impl Fn(&[u8], &[u8]) -> Ordering) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(a), Bound::Included(b)) => compare(a, b).is_gt(),
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => compare(a, b).is_ge(),
    }
}

#[derive(Debug)]
struct Undo {
    tree: TreeId,
    key: Short,
    /// What was there: nothing, or a pending record.
    before: Option<Pending>,
}

/// The write set of one transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    /// In the order of tree numbers.
    trees: Vec<(TreeRef, Records)>,
    journal: Vec<Undo>,
    journaling: bool,
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records are pending.
    pub(crate) fn len(&self) -> usize {
        self.trees.iter().map(|(_, records)| records.len()).sum()
    }

    /// The trees written to, in the order in which their leaves are latched. Not those of which everything was rolled back: they may be gone.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (&TreeRef, &Records)> {
        self.trees.iter().filter(|(_, records)| records.len() > 0).map(|(tree, records)| (tree, records))
    }

    pub(crate) fn records(&self, tree: TreeId) -> Option<&Records> {
        self.trees.binary_search_by_key(&tree, |(have, _)| have.id).ok().map(|at| &self.trees[at].1)
    }

    /// Sets what a record is to become.
    pub(crate) fn set(&mut self, tree: &TreeRef, key: &[u8], value: Pending) {
        let at = match self.trees.binary_search_by_key(&tree.id, |(have, _)| have.id) {
            Ok(at) => at,
            Err(at) => {
                self.trees.insert(at, (tree.clone(), Records::new(tree)));
                at
            }
        };
        let before = self.trees[at].1.set(key, value);
        if self.journaling {
            self.journal.push(Undo { tree: tree.id, key: key.into(), before });
        }
    }

    /// A position to roll back to.
    pub(crate) fn savepoint(&mut self) -> usize {
        self.journaling = true;
        self.journal.len()
    }

    /// Undoes everything set since the position was taken.
    pub(crate) fn roll_back_to(&mut self, position: usize) {
        while self.journal.len() > position {
            let Some(undo) = self.journal.pop() else { return };
            let Some((_, records)) = self.trees.iter_mut().find(|(tree, _)| tree.id == undo.tree) else { continue };
            match undo.before {
                Some(before) => {
                    records.set(&undo.key, before);
                }
                None => records.unset(&undo.key),
            }
        }
    }
}

//! What a transaction would change: its records in key order, tree by tree, in process memory.
//!
//! Savepoints are positions in a journal of what each entry was before; the journal is kept only once a savepoint has been asked for. A position
//! names the write set that it is of and the change that it follows: so one of another transaction, or of changes that have been undone, is told
//! from one that can be rolled back to, however many changes the journal has by then.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use super::short::Short;
use super::{Comparator, TreeRef};
use crate::error::{Error, Result};
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

    fn place(comparator: &Comparator, records: &[(Short, Pending)], key: &[u8]) -> std::result::Result<usize, usize> {
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
#[derive(Clone)]
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
    /// Which of all changes of the write set this undoes, the undone ones counted.
    change: u64,
    tree: TreeId,
    key: Short,
    /// What was there: nothing, or a pending record.
    before: Option<Pending>,
}

/// A place in a write set to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The write set's number.
    set: u64,
    /// How many changes the journal has before it.
    len: usize,
    /// The last of these; 0: there are none.
    after: u64,
}

/// The journal of a write set.
#[derive(Debug)]
struct Journal {
    /// The write set's number: no other of this process has it.
    set: u64,
    /// How many changes there have been, the undone ones counted.
    changes: u64,
    undos: Vec<Undo>,
    /// As many of the first undos cannot be rolled back at present.
    kept: usize,
}

/// Numbers of write sets with savepoints.
static SETS: AtomicU64 = AtomicU64::new(1);

impl Journal {
    fn new() -> Journal {
        // Relaxed: the numbers need only differ.
        Journal { set: SETS.fetch_add(1, atomic::Ordering::Relaxed), changes: 0, undos: Vec::new(), kept: 0 }
    }

    fn position(&self) -> Position {
        Position { set: self.set, len: self.undos.len(), after: self.undos.last().map_or(0, |undo| undo.change) }
    }

    /// Refuses a position that cannot be rolled back to.
    fn check(&self, position: Position) -> Result<()> {
        if position.set != self.set {
            return Err(foreign());
        }
        let after = position.len.checked_sub(1).map_or(Some(0), |last| self.undos.get(last).map(|undo| undo.change));
        if after != Some(position.after) {
            return Err(Error::invalid(
                "rolling back to a savepoint that is gone: the transaction was rolled back to an earlier one since; nothing was undone",
            ));
        }
        if position.len < self.kept {
            return Err(Error::invalid(
                "rolling back, in a nested transaction, to a savepoint from before it: nothing was undone; let the nested transaction fail, which \
                 undoes what it did, then roll back",
            ));
        }
        Ok(())
    }
}

fn foreign() -> Error {
    Error::invalid(
        "rolling back to a savepoint of another transaction, or of an earlier run of this one: nothing was undone; use the savepoints that this \
         transaction was asked for in this run",
    )
}

/// The write set of one transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    /// In the order of tree numbers.
    trees: Vec<(TreeRef, Records)>,
    journal: Option<Journal>,
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
        if let Some(journal) = &mut self.journal {
            journal.changes += 1;
            journal.undos.push(Undo { change: journal.changes, tree: tree.id, key: key.into(), before });
        }
    }

    /// A position to roll back to.
    pub(crate) fn savepoint(&mut self) -> Position {
        self.journal.get_or_insert_with(Journal::new).position()
    }

    /// Undoes everything set since the position was taken.
    ///
    /// # Errors
    /// `Invalid` for a position of another write set, one that was rolled back over, or one before what is kept: nothing is changed.
    pub(crate) fn roll_back_to(&mut self, position: Position) -> Result<()> {
        let Some(journal) = &mut self.journal else { return Err(foreign()) };
        journal.check(position)?;
        while journal.undos.len() > position.len {
            let Some(undo) = journal.undos.pop() else { break };
            let Some((_, records)) = self.trees.iter_mut().find(|(tree, _)| tree.id == undo.tree) else { continue };
            match undo.before {
                Some(before) => {
                    records.set(&undo.key, before);
                }
                None => records.unset(&undo.key),
            }
        }
        Ok(())
    }

    /// Keeps what was set so far from being rolled back; says how much was kept before.
    pub(crate) fn keep(&mut self) -> usize {
        self.journal.as_mut().map_or(0, |journal| std::mem::replace(&mut journal.kept, journal.undos.len()))
    }

    /// Ends [`WriteSet::keep`], by what that said.
    pub(crate) fn keep_only(&mut self, kept: usize) {
        if let Some(journal) = &mut self.journal {
            journal.kept = kept;
        }
    }
}

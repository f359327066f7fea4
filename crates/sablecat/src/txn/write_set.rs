//! What a transaction would change: its records in key order, tree by tree, in process memory.
//!
//! When they are many, those in memory go to a file, as a sorted run, and memory begins anew (runs.rs): of
//! what memory and runs say of a key the newest counts. Whoever wants all of them goes through both together.
//! The catalog's records, and the journal, stay in memory.
//!
//! Savepoints are positions in a journal of what each entry was before; the journal is kept only once a
//! savepoint has been asked for. A position names the write set that it is of and the change that it follows:
//! so one of another transaction, or of changes that have been undone, is told from one that can be rolled
//! back to, however many changes the journal has by then.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::ops::Bound;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use super::catalog::{self, CATALOG};
use super::runs::{self, Merge, Place, Run, Writer, compare};
use super::short::Short;
use super::{Comparator, TreeRef};
use crate::access::PendingRecord;
use crate::access::hash::Hashing;
use crate::error::{Error, Result};
use crate::types::TreeId;

/// What a record is to become: a value, or none (removed).
pub(crate) type Pending = Option<Short>;

/// What is said of a key: what is pending, or that nothing is.
pub(super) type Slot = Option<Pending>;

/// What a record takes in memory beside its bytes, about.
const RECORD_BYTES: usize = 80;

/// The pending records of one tree that are in memory, in its order.
#[derive(Debug)]
enum Recent {
    /// In the order of bytes.
    Bytes(BTreeMap<Short, Pending>),
    /// In the order of hashes, each kept with its key.
    Hashed(Arc<Comparator>, Hashing, BTreeMap<(u64, Short), Pending>),
    /// In a user's order: a sorted vector.
    Custom(Arc<Comparator>, Vec<(Short, Pending)>),
}

impl Recent {
    fn new(tree: &TreeRef) -> Recent {
        match &tree.comparator {
            None => Recent::Bytes(BTreeMap::new()),
            Some(comparator) => match comparator.hashing {
                Some(hashing) => Recent::Hashed(Arc::clone(comparator), hashing, BTreeMap::new()),
                None => Recent::Custom(Arc::clone(comparator), Vec::new()),
            },
        }
    }

    /// The order, if it is not that of bytes.
    fn order(&self) -> Option<&Comparator> {
        match self {
            Recent::Bytes(_) => None,
            Recent::Hashed(comparator, ..) | Recent::Custom(comparator, _) => Some(comparator),
        }
    }

    fn clear(&mut self) {
        match self {
            Recent::Bytes(map) => map.clear(),
            Recent::Hashed(_, _, map) => map.clear(),
            Recent::Custom(_, records) => records.clear(),
        }
    }

    /// Those after a key; none: all.
    fn after(&self, after: Option<&[u8]>) -> Iter<'_> {
        match (self, after) {
            (_, None) => self.iter(),
            (Recent::Bytes(map), Some(after)) => {
                Iter::Bytes(map.range::<[u8], _>((Bound::Excluded(after), Bound::Unbounded)))
            }
            (Recent::Hashed(_, hashing, map), Some(after)) => {
                Iter::Hashed(map.range((Bound::Excluded(hashed(hashing, after)), Bound::Unbounded)))
            }
            (Recent::Custom(comparator, records), Some(after)) => {
                let from = records.partition_point(|(key, _)| (comparator.compare)(key, after).is_le());
                Iter::Custom(records[from..].iter())
            }
        }
    }

    fn place(
        comparator: &Comparator,
        records: &[(Short, Pending)],
        key: &[u8],
    ) -> std::result::Result<usize, usize> {
        records.binary_search_by(|(have, _)| (comparator.compare)(have, key))
    }

    fn get(&self, key: &[u8]) -> Option<&Pending> {
        match self {
            Recent::Bytes(map) => map.get(key),
            Recent::Hashed(_, hashing, map) => map.get(&hashed(hashing, key)),
            Recent::Custom(comparator, records) => {
                Self::place(comparator, records, key).ok().map(|at| &records[at].1)
            }
        }
    }

    fn set(&mut self, key: &[u8], value: Pending) -> Option<Pending> {
        match self {
            Recent::Bytes(map) => map.insert(key.into(), value),
            Recent::Hashed(_, hashing, map) => map.insert(hashed(hashing, key), value),
            Recent::Custom(comparator, records) => match Self::place(comparator, records, key) {
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
            Recent::Bytes(map) => {
                map.remove(key);
            }
            Recent::Hashed(_, hashing, map) => {
                map.remove(&hashed(hashing, key));
            }
            Recent::Custom(comparator, records) => {
                if let Ok(at) = Self::place(comparator, records, key) {
                    records.remove(at);
                }
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Recent::Bytes(map) => map.len(),
            Recent::Hashed(_, _, map) => map.len(),
            Recent::Custom(_, records) => records.len(),
        }
    }

    fn iter(&self) -> Iter<'_> {
        match self {
            Recent::Bytes(map) => Iter::Bytes(map.range::<[u8], _>(..)),
            Recent::Hashed(_, _, map) => Iter::Hashed(map.range(..)),
            Recent::Custom(_, records) => Iter::Custom(records.iter()),
        }
    }

    /// The first record within the bounds (`forward`), or the last.
    fn edge(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, forward: bool) -> Option<(&[u8], &Pending)> {
        match self {
            Recent::Bytes(map) => {
                if is_empty(lower, upper, |a, b| a.cmp(b)) {
                    return None;
                }
                let mut range = map.range::<[u8], _>((lower, upper));
                let found = if forward { range.next() } else { range.next_back() };
                found.map(|(key, value)| (&**key, value))
            }
            Recent::Hashed(_, hashing, map) => {
                if is_empty(lower, upper, |a, b| hashing.compare(a, b)) {
                    return None;
                }
                let place = |bound: Bound<&[u8]>| bound.map(|key| hashed(hashing, key));
                let mut range = map.range((place(lower), place(upper)));
                let found = if forward { range.next() } else { range.next_back() };
                found.map(|((_, key), value)| (&**key, value))
            }
            Recent::Custom(comparator, records) => {
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

/// A key with its hash.
fn hashed(hashing: &Hashing, key: &[u8]) -> (u64, Short) {
    (hashing.hash(key), key.into())
}

/// Records in memory, in order.
pub(crate) enum Iter<'a> {
    Bytes(btree_map::Range<'a, Short, Pending>),
    Hashed(btree_map::Range<'a, (u64, Short), Pending>),
    Custom(slice::Iter<'a, (Short, Pending)>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a Pending);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Iter::Bytes(records) => records.next().map(|(key, value)| (&**key, value)),
            Iter::Hashed(records) => records.next().map(|((_, key), value)| (&**key, value)),
            Iter::Custom(records) => records.next().map(|(key, value)| (&**key, value)),
        }
    }
}

/// The pending records of one tree, in its order.
#[derive(Debug)]
pub(crate) struct Records {
    recent: Recent,
    /// What is not in memory, the oldest first.
    runs: Vec<Run>,
    /// Keys of which nothing is pending, whatever the runs say: it was rolled back. In the tree's order,
    /// which may take keys for one that are written in different ways.
    void: Recent,
}

impl Records {
    fn new(tree: &TreeRef) -> Records {
        Records { recent: Recent::new(tree), runs: Vec::new(), void: Recent::new(tree) }
    }

    /// What a record is to become, if it is to change.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, Pending>>> {
        match self.recent.get(key) {
            Some(pending) => Ok(Some(Cow::Borrowed(pending))),
            None if self.runs.is_empty() => Ok(None),
            None => self.get_spilled(key).map(|slot| slot.map(Cow::Owned)),
        }
    }

    #[cold]
    fn get_spilled(&self, key: &[u8]) -> Result<Slot> {
        if self.void.get(key).is_some() {
            return Ok(None);
        }
        for run in self.runs.iter().rev() {
            if let Some(slot) = run.get(self.recent.order(), key)? {
                return Ok(slot);
            }
        }
        Ok(None)
    }

    /// As [`Records::get`], where nothing has gone to a file.
    pub(crate) fn get_in_memory(&self, key: &[u8]) -> Option<&Pending> {
        debug_assert!(self.runs.is_empty());
        self.recent.get(key)
    }

    /// All records, in order, where nothing has gone to a file.
    pub(crate) fn iter(&self) -> Iter<'_> {
        debug_assert!(self.runs.is_empty());
        self.recent.iter()
    }

    /// All records after a key, in order; none: from the first on.
    pub(crate) fn after(&self, after: Option<&[u8]>) -> Result<All<'_>> {
        let runs = Merge::after(self.recent.order(), &self.runs, after)?;
        Ok(All { records: self, recent: self.recent.after(after).peekable(), runs })
    }

    /// The first record within the bounds (`forward`), or the last: its key, and whether it is set, and to
    /// what.
    pub(crate) fn edge(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        forward: bool,
    ) -> Result<Option<PendingRecord>> {
        if self.runs.is_empty() {
            let found = self.recent.edge(lower, upper, forward);
            return Ok(found.map(|(key, value)| (key.to_vec(), value.as_deref().map(<[u8]>::to_vec))));
        }
        let order = self.recent.order();
        let (mut lower, mut upper) = (lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
        loop {
            let (low, high) = (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..]));
            let mut edge = self.recent.edge(low, high, forward).map(|(key, _)| key.to_vec());
            for run in &self.runs {
                let Some(key) = run.edge(order, if forward { low } else { high }, forward)? else { continue };
                let is_within = match if forward { high } else { low } {
                    Bound::Unbounded => true,
                    Bound::Included(bound) if forward => compare(order, &key, bound).is_le(),
                    Bound::Excluded(bound) if forward => compare(order, &key, bound).is_lt(),
                    Bound::Included(bound) => compare(order, &key, bound).is_ge(),
                    Bound::Excluded(bound) => compare(order, &key, bound).is_gt(),
                };
                let comes_first = |than: &Vec<u8>| {
                    compare(order, &key, than) == if forward { Ordering::Less } else { Ordering::Greater }
                };
                if is_within && edge.as_ref().is_none_or(comes_first) {
                    edge = Some(key);
                }
            }
            let Some(key) = edge else { return Ok(None) };
            if let Some(pending) = self.get(&key)? {
                let value = pending.as_deref().map(<[u8]>::to_vec);
                return Ok(Some((key, value)));
            }
            if forward {
                lower = Bound::Excluded(key);
            } else {
                upper = Bound::Excluded(key);
            }
        }
    }

    fn has_any(&self) -> bool {
        self.recent.len() > 0 || !self.runs.is_empty()
    }

    fn unset(&mut self, key: &[u8]) {
        self.recent.unset(key);
        if !self.runs.is_empty() {
            self.void.set(key, None);
        }
    }

    /// Moves what is in memory to a file. If that fails, it stays.
    fn spill(&mut self, place: &Place) -> Result<()> {
        let order = self.recent.order();
        let mut void =
            self.void.iter().map(|(key, _)| key).filter(|key| self.recent.get(key).is_none()).peekable();
        let mut writer = Writer::begin(place)?;
        for (key, pending) in self.recent.iter() {
            while let Some(void) = void.next_if(|void| compare(order, void, key).is_lt()) {
                writer.add(void, None)?;
            }
            writer.add(key, Some(pending))?;
        }
        void.try_for_each(|void| writer.add(void, None))?;
        self.runs.push(writer.finish()?);
        self.recent.clear();
        self.void.clear();
        runs::merge_some(place, self.recent.order(), &mut self.runs)
    }
}

/// The key of a record and what it is to become, in memory or read from a file.
pub(crate) type Change<'a> = (Cow<'a, [u8]>, Cow<'a, Pending>);

/// Records of a tree, in order, from memory and runs.
pub(crate) struct All<'a> {
    records: &'a Records,
    recent: Peekable<Iter<'a>>,
    runs: Merge<'a>,
}

impl<'a> All<'a> {
    /// The next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Change<'a>>> {
        if self.records.runs.is_empty() {
            return Ok(self.next_recent());
        }
        self.next_of_both()
    }

    #[inline]
    fn next_recent(&mut self) -> Option<Change<'a>> {
        self.recent.next().map(|(key, pending)| (Cow::Borrowed(key), Cow::Borrowed(pending)))
    }

    #[cold]
    fn next_of_both(&mut self) -> Result<Option<Change<'a>>> {
        loop {
            let order = match (self.recent.peek(), self.runs.peek()) {
                (_, None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((recent, _)), Some(run)) => compare(self.records.recent.order(), recent, run),
            };
            if order == Ordering::Greater {
                let Some((key, slot)) = self.runs.next()? else { continue };
                match slot {
                    Some(pending) if self.records.void.get(&key).is_none() => {
                        return Ok(Some((Cow::Owned(key), Cow::Owned(pending))));
                    }
                    _ => continue,
                }
            }
            if order == Ordering::Equal {
                // What is in memory is newer.
                self.runs.next()?;
            }
            return Ok(self.next_recent());
        }
    }
}

/// Whether no key can lie between the bounds.
fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>, compare: impl Fn(&[u8], &[u8]) -> Ordering) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(a), Bound::Included(b)) => compare(a, b).is_gt(),
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            compare(a, b).is_ge()
        }
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
        Position {
            set: self.set,
            len: self.undos.len(),
            after: self.undos.last().map_or(0, |undo| undo.change),
        }
    }

    /// Refuses a position that cannot be rolled back to.
    fn check(&self, position: Position) -> Result<()> {
        if position.set != self.set {
            return Err(foreign());
        }
        let after =
            position.len.checked_sub(1).map_or(Some(0), |last| self.undos.get(last).map(|undo| undo.change));
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
    /// What has been set since the last time that anything went to a file, in bytes of memory, about.
    bytes: usize,
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records are pending; any number if some are not in memory.
    pub(crate) fn len(&self) -> usize {
        if self.is_spilled() {
            usize::MAX
        } else {
            self.trees.iter().map(|(_, records)| records.recent.len()).sum()
        }
    }

    /// Whether some records are not in memory.
    pub(crate) fn is_spilled(&self) -> bool {
        self.trees.iter().any(|(_, records)| !records.runs.is_empty())
    }

    /// Whether everything is removed that changes, if nothing has gone to files. Taking a name from a
    /// database leaves a note that it is to be freed.
    pub(crate) fn only_removes(&self) -> bool {
        let removes = |tree: &TreeRef, key: &[u8], value: &Pending| {
            value.is_none() || tree.id == CATALOG && !catalog::is_name(key)
        };
        !self.is_spilled()
            && self
                .trees()
                .all(|(tree, records)| records.iter().all(|(key, value)| removes(tree, key, value)))
    }

    /// Moves what is in memory to files, if it is much, before a record of a tree is set. Whether that goes
    /// well or not, the write set says what it did. Nothing is moved for the catalog's records: those stay in
    /// memory, and some are set together, which nothing is to come between.
    pub(crate) fn make_room(&mut self, tree: TreeId, place: &Place) -> Result<()> {
        if self.bytes < place.bytes_max || tree == CATALOG {
            return Ok(());
        }
        let spilled =
            self.trees.iter_mut().filter(|(tree, records)| tree.id != CATALOG && records.recent.len() > 0);
        spilled.into_iter().try_for_each(|(_, records)| records.spill(place))?;
        self.bytes = 0;
        Ok(())
    }

    /// Forgets the trees of which everything was rolled back that had gone to files.
    pub(crate) fn forget_void(&mut self) -> Result<()> {
        for (_, records) in self.trees.iter_mut().filter(|(_, records)| !records.runs.is_empty()) {
            if records.after(None)?.next()?.is_none() {
                records.runs.clear();
                records.void.clear();
            }
        }
        Ok(())
    }

    /// The trees written to, in the order in which their leaves are latched. Not those of which everything
    /// was rolled back: they may be gone.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (&TreeRef, &Records)> {
        self.trees.iter().filter(|(_, records)| records.has_any()).map(|(tree, records)| (tree, records))
    }

    pub(crate) fn records(&self, tree: TreeId) -> Option<&Records> {
        self.trees.binary_search_by_key(&tree, |(have, _)| have.id).ok().map(|at| &self.trees[at].1)
    }

    /// Sets what a record is to become.
    pub(crate) fn set(&mut self, tree: &TreeRef, key: &[u8], value: Pending) -> Result<()> {
        let at = match self.trees.binary_search_by_key(&tree.id, |(have, _)| have.id) {
            Ok(at) => at,
            Err(at) => {
                self.trees.insert(at, (tree.clone(), Records::new(tree)));
                at
            }
        };
        let records = &mut self.trees[at].1;
        let spilled = if self.journal.is_some() && records.recent.get(key).is_none() {
            records.get(key)?.map(Cow::into_owned)
        } else {
            None
        };
        self.bytes += key.len() + value.as_deref().map_or(0, <[u8]>::len) + RECORD_BYTES;
        let before = records.recent.set(key, value).or(spilled);
        if let Some(journal) = &mut self.journal {
            journal.changes += 1;
            journal.undos.push(Undo { change: journal.changes, tree: tree.id, key: key.into(), before });
        }
        Ok(())
    }

    /// A position to roll back to.
    pub(crate) fn savepoint(&mut self) -> Position {
        self.journal.get_or_insert_with(Journal::new).position()
    }

    /// Undoes everything set since the position was taken.
    ///
    /// # Errors
    /// `Invalid` for a position of another write set, one that was rolled back over, or one before what is
    /// kept: nothing is changed.
    pub(crate) fn roll_back_to(&mut self, position: Position) -> Result<()> {
        let Some(journal) = &mut self.journal else { return Err(foreign()) };
        journal.check(position)?;
        while journal.undos.len() > position.len {
            let Some(undo) = journal.undos.pop() else { break };
            let Some((_, records)) = self.trees.iter_mut().find(|(tree, _)| tree.id == undo.tree) else {
                continue;
            };
            match undo.before {
                Some(before) => {
                    records.recent.set(&undo.key, before);
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

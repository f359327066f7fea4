//! What a transaction would change: its records in key order, tree by tree, in process memory.
//!
//! When they are many, those in memory go to a file, as sorted runs, and memory begins anew (runs.rs): of
//! what memory and runs say of a key the newest counts. A reader that wants all of them goes through both
//! together. The catalog's records, and the journal, stay in memory.
//!
//! A range of keys that is removed is one entry, however many records it has (ranges.rs): what it covers is
//! gone but for what is pending there. So what was pending in it before goes, and is not pending any more.
//!
//! Savepoints are positions in a journal of what each entry was before; the journal is kept only once a
//! savepoint has been asked for, until all are given up. A position names the write set that it is of and the
//! change that it follows. So a position of another transaction, or of changes that have been undone, can be
//! told from one that can be rolled back to, however many changes the journal has by then.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use super::recent::{RecentIter, RecentRecords};
use super::run_file::RunFile;
use super::runs::{self, Merge, Most, SortedRun, SpillSettings, Writer, compare};
use super::savepoints::{Position, UndoJournal, Undone, foreign};
use super::short::Short;
use crate::access::{KeyBounds, KeySpan, PendingRecord};
use crate::error::Result;
use crate::log::operation_bytes_max;
use crate::seldom::Seldom;
use crate::txn::catalog::{self, CATALOG, TreeRef};
use crate::txn::ranges::{self, Ranges};
use crate::types::TreeId;

/// What a record is to become: a value, or none (removed).
pub(crate) type Pending = Option<Short>;

/// The same, where it is.
pub(crate) type Becomes<'a> = Option<&'a [u8]>;

/// What is said of a key: what is pending, or that nothing is.
pub(in crate::txn) type MaybePending = Option<Pending>;

/// What a record takes in memory beside its bytes, about.
const RECORD_BYTES: usize = 80;
const _: () =
    assert!(operation_bytes_max(0, 0) <= RECORD_BYTES, "what it takes in memory is more than in the log");

/// The pending records of one tree, in its order.
#[derive(Debug)]
pub(crate) struct PendingRecords {
    recent: RecentRecords,
    more: Seldom<More>,
}

/// What few transactions have pending for a tree.
#[derive(Debug, Default)]
struct More {
    /// What is not in memory, the oldest first.
    runs: Vec<SortedRun>,
    /// Keys of which nothing is pending, whatever the runs say: it was rolled back. In the tree's order,
    /// which may take keys for one that are written in different ways. None: there are none.
    void: Option<RecentRecords>,
    /// Where all that is committed goes. What is pending there comes after it.
    removed: Ranges,
}

impl PendingRecords {
    fn new(tree: &TreeRef) -> PendingRecords {
        PendingRecords { recent: RecentRecords::new(tree), more: Seldom::default() }
    }

    #[inline]
    fn runs(&self) -> &[SortedRun] {
        self.more.get().map_or(&[], |more| &more.runs)
    }

    fn void(&self) -> Option<&RecentRecords> {
        self.more.get().and_then(|more| more.void.as_ref())
    }

    fn has_void(&self) -> bool {
        self.void().is_some_and(|void| void.len() > 0)
    }

    /// Whether it was rolled back what the runs say of a key.
    fn is_void(&self, key: &[u8]) -> bool {
        self.void().is_some_and(|void| void.get(key).is_some())
    }

    /// What a record is to become, if it is to change: by itself, or with a range that is removed.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<NewValue<'_>>> {
        let own = self.get_own(key)?;
        Ok(if own.is_none() && self.removed_around(key).is_some() { Some(None) } else { own })
    }

    /// What a record is to become, if it is to change by itself.
    #[inline]
    fn get_own(&self, key: &[u8]) -> Result<Option<NewValue<'_>>> {
        match self.recent.get(key) {
            Some(pending) => Ok(Some(pending.map(Cow::Borrowed))),
            None if !self.is_spilled() => Ok(None),
            None => Ok(self.get_spilled(key)?.map(owned)),
        }
    }

    #[cold]
    fn get_spilled(&self, key: &[u8]) -> Result<MaybePending> {
        if self.is_void(key) {
            return Ok(None);
        }
        let hash = self.runs().first().map_or(0, |run| run.hash(key));
        for run in self.runs().iter().rev() {
            if let Some(slot) = run.get(self.recent.order(), key, hash)? {
                return Ok(slot);
            }
        }
        Ok(None)
    }

    /// As [`PendingRecords::get`], where nothing has gone to a file.
    pub(crate) fn get_in_memory(&self, key: &[u8]) -> Option<Becomes<'_>> {
        debug_assert!(!self.is_spilled());
        self.recent.get(key)
    }

    /// Whether there is a record of a key that begins so, where nothing has gone to a file and keys are in
    /// the order of bytes.
    pub(in crate::txn) fn has_prefix(&self, prefix: &[u8]) -> bool {
        debug_assert!(!self.is_spilled());
        self.recent
            .edge(Bound::Included(prefix), Bound::Unbounded, true)
            .is_some_and(|(key, _)| key.starts_with(prefix))
    }

    /// All records, in order, where nothing has gone to a file.
    pub(crate) fn iter(&self) -> RecentIter<'_> {
        debug_assert!(!self.is_spilled());
        self.recent.iter()
    }

    /// Those after a key, likewise.
    pub(in crate::txn) fn iter_after(&self, key: &[u8]) -> RecentIter<'_> {
        debug_assert!(!self.is_spilled());
        self.recent.after(Some(key))
    }

    /// All records after a key, in order; none: from the first on.
    pub(crate) fn after(&self, after: Option<&[u8]>) -> Result<All<'_>> {
        let runs = Merge::after(self.recent.order(), self.runs(), after)?;
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
        if !self.is_spilled() {
            let found = self.recent.edge(lower, upper, forward);
            return Ok(found.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))));
        }
        let order = self.recent.order();
        let (mut lower, mut upper) = (lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
        loop {
            let (low, high) = (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..]));
            let mut edge = self.recent.edge(low, high, forward).map(|(key, _)| key.to_vec());
            for run in self.runs() {
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
            if let Some(pending) = self.get(&key)?.map(|pending| pending.map(Cow::into_owned)) {
                return Ok(Some((self.first_written(key)?, pending)));
            }
            if forward {
                lower = Bound::Excluded(key);
            } else {
                upper = Bound::Excluded(key);
            }
        }
    }

    /// A key of which something is pending as it was first written: a user's order may take keys for one that
    /// are written in different ways.
    fn first_written(&self, key: Vec<u8>) -> Result<Vec<u8>> {
        let order = self.recent.order().filter(|order| order.table.is_none());
        if order.is_none() || self.is_void(&key) {
            return Ok(key);
        }
        let mut first = None;
        for run in self.runs() {
            match run.find(order, &key, run.hash(&key), |entry| (entry.key.to_vec(), entry.slot()))? {
                Some((written, Some(_))) => first = first.or(Some(written)),
                // It was rolled back.
                Some((_, None)) => first = None,
                None => {}
            }
        }
        Ok(first.unwrap_or(key))
    }

    fn has_any(&self) -> bool {
        self.recent.len() > 0 || self.is_spilled() || self.has_ranges()
    }

    fn compare(&self) -> impl Fn(&[u8], &[u8]) -> Ordering {
        |a, b| compare(self.recent.order(), a, b)
    }

    /// Whether some are not in memory.
    #[inline]
    pub(crate) fn is_spilled(&self) -> bool {
        self.more.get().is_some_and(|more| !more.runs.is_empty())
    }

    /// Whether it is certain, without a look at a file, that nothing between two bounds is to change.
    pub(crate) fn has_none_between(&self, (lower, upper): KeyBounds<'_>) -> bool {
        !self.is_spilled() && !self.has_ranges() && self.recent.edge(lower, upper, true).is_none()
    }

    /// Whether ranges are removed.
    #[inline]
    pub(crate) fn has_ranges(&self) -> bool {
        self.more.get().is_some_and(|more| more.removed.len() > 0)
    }

    /// How many records and ranges are in memory.
    #[inline]
    pub(in crate::txn) fn len(&self) -> usize {
        self.recent.len() + self.more.get().map_or(0, |more| more.removed.len())
    }

    /// The ranges that are removed, in order; they lie apart.
    pub(crate) fn removed(&self) -> impl Iterator<Item = KeyBounds<'_>> {
        self.more.get().into_iter().flat_map(|more| more.removed.iter().map(ranges::bounds))
    }

    /// The range with a key in it that is removed.
    #[inline]
    pub(crate) fn removed_around(&self, key: &[u8]) -> Option<KeyBounds<'_>> {
        self.more.get()?.removed.covering(key, self.compare()).map(ranges::bounds)
    }

    /// What of a range is not removed yet, in order.
    pub(crate) fn not_removed(&self, span: &KeySpan) -> Vec<KeySpan> {
        match self.more.get() {
            Some(more) => more.removed.gaps(span, self.compare()),
            None => Ranges::default().gaps(span, self.compare()),
        }
    }

    /// All that changes where nothing has gone to a file, in the order of keys: a range where it begins.
    pub(crate) fn steps(&self) -> impl Iterator<Item = WriteStep<'_>> {
        let (mut records, mut ranges) = (self.iter(), self.removed().peekable());
        // The next record, if it was looked at. Where there are no ranges none is.
        let mut seen = None;
        let begins_first = move |(lower, _): KeyBounds<'_>, key: Option<&[u8]>| match (lower, key) {
            (Bound::Unbounded, _) | (_, None) => true,
            (Bound::Included(lower), Some(key)) => compare(self.recent.order(), lower, key).is_le(),
            (Bound::Excluded(lower), Some(key)) => compare(self.recent.order(), lower, key).is_lt(),
        };
        std::iter::from_fn(move || {
            if ranges.peek().is_none() && seen.is_none() {
                return records.next().map(|(key, pending)| WriteStep::Record(key, pending));
            }
            seen = seen.or_else(|| records.next());
            match ranges.next_if(|range| begins_first(*range, seen.map(|(key, _)| key))) {
                Some(range) => Some(WriteStep::Range(range)),
                None => seen.take().map(|(key, pending)| WriteStep::Record(key, pending)),
            }
        })
    }

    /// Has nothing pending of a record. Returns how many bytes of memory that takes, about.
    fn unset(&mut self, key: &[u8]) -> usize {
        self.recent.unset(key);
        let Some(more) = self.more.get_mut().filter(|more| !more.runs.is_empty()) else { return 0 };
        let mut is_new = false;
        let void = more.void.get_or_insert_with(|| self.recent.like());
        void.set(key, None, |before| is_new = before.is_none());
        if is_new { key.len() + RECORD_BYTES } else { 0 }
    }

    /// Moves what is in memory to a file. If that fails, it stays.
    fn spill(&mut self, file: &Arc<RunFile>) -> Result<()> {
        let order = self.recent.order();
        let void = || {
            let all = self.void().into_iter().flat_map(RecentRecords::iter);
            all.map(|(key, _)| key).filter(|key| self.recent.get(key).is_none())
        };
        let mut most = Most::default();
        self.recent.iter().for_each(|(key, pending)| most.add(key, Some(pending)));
        void().for_each(|key| most.add(key, None));
        let mut writer = Writer::begin(file, order, most);
        let mut void = void().peekable();
        for (key, pending) in self.recent.iter() {
            while let Some(void) = void.next_if(|void| compare(order, void, key).is_lt()) {
                writer.add(void, None)?;
            }
            writer.add(key, Some(pending))?;
        }
        void.try_for_each(|void| writer.add(void, None))?;
        let run = writer.finish()?;
        let more = self.more.needed();
        more.runs.push(run);
        more.void = None;
        self.recent.clear();
        runs::merge_some(file, self.recent.order(), &mut more.runs)
    }
}

/// Something that changes.
pub(crate) enum WriteStep<'a> {
    /// All that is committed between two bounds goes.
    Range(KeyBounds<'a>),
    /// A record is set, or goes.
    Record(&'a [u8], Becomes<'a>),
}

/// What a record is to become, in memory or read from a file.
pub(crate) type NewValue<'a> = Option<Cow<'a, [u8]>>;

/// As it was read from a file.
fn owned(pending: Pending) -> NewValue<'static> {
    pending.map(|value| Cow::Owned(value.into_vec()))
}

/// The key of a record and what it is to become.
pub(crate) type PendingChange<'a> = (Cow<'a, [u8]>, NewValue<'a>);

/// Records of a tree, in order, from memory and runs.
pub(crate) struct All<'a> {
    records: &'a PendingRecords,
    recent: Peekable<RecentIter<'a>>,
    runs: Merge<'a>,
}

impl<'a> All<'a> {
    /// The next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<PendingChange<'a>>> {
        if !self.records.is_spilled() {
            return Ok(self.next_recent());
        }
        self.next_of_both()
    }

    #[inline]
    fn next_recent(&mut self) -> Option<PendingChange<'a>> {
        self.recent.next().map(|(key, pending)| (Cow::Borrowed(key), pending.map(Cow::Borrowed)))
    }

    #[cold]
    fn next_of_both(&mut self) -> Result<Option<PendingChange<'a>>> {
        loop {
            let order = match (self.recent.peek(), self.runs.peek()) {
                (_, None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((recent, _)), Some(run)) => compare(self.records.recent.order(), recent, run),
            };
            if order == Ordering::Greater {
                let Some((key, slot)) = self.runs.next()? else { continue };
                match slot {
                    Some(pending) if !self.records.is_void(&key) => {
                        return Ok(Some((Cow::Owned(key), owned(pending))));
                    }
                    _ => continue,
                }
            }
            let from_run = if order == Ordering::Equal { self.runs.next()? } else { None };
            let recent = self.next_recent();
            // What is in memory is newer; but of ways to write a key the first stays.
            return Ok(match from_run {
                Some((first, Some(_))) if !self.records.is_void(&first) => {
                    recent.map(|(_, pending)| (Cow::Owned(first), pending))
                }
                _ => recent,
            });
        }
    }
}

/// The write set of one transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    /// In the order of tree numbers.
    trees: Vec<(TreeRef, PendingRecords)>,
    journal: Seldom<UndoJournal>,
    /// Where records are that are not in memory.
    file: Option<Arc<RunFile>>,
    /// What has been set, or rolled back of what is in the file, since the last time that anything went
    /// there, in bytes of memory, about.
    bytes: usize,
    has_spilled: bool,
    /// No value that was ever set in it is longer.
    longest: usize,
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records and ranges are pending; any number if some are not in memory.
    pub(crate) fn len(&self) -> usize {
        if self.is_spilled() { usize::MAX } else { self.trees.iter().map(|(_, records)| records.len()).sum() }
    }

    /// How many bytes its records take in memory, at most: for each [`RECORD_BYTES`] more than it has. Any
    /// number once some have, or may have, gone to a file, and when they were rolled back.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        if self.has_spilled { usize::MAX } else { self.bytes }
    }

    /// Bytes that no value is longer than.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Whether ranges are removed.
    pub(crate) fn has_ranges(&self) -> bool {
        self.trees.iter().any(|(_, records)| records.has_ranges())
    }

    /// Whether some records are not in memory.
    pub(crate) fn is_spilled(&self) -> bool {
        self.trees.iter().any(|(_, records)| records.is_spilled())
    }

    /// Whether everything is removed that changes, if nothing has gone to files. Taking a name from a
    /// database leaves a note that it is to be freed.
    pub(crate) fn only_removes(&self) -> bool {
        let removes = |tree: &TreeRef, key: &[u8], value: Becomes<'_>| {
            value.is_none() || tree.id == CATALOG && !catalog::is_name(key)
        };
        !self.is_spilled()
            && self
                .trees()
                .all(|(tree, records)| records.iter().all(|(key, value)| removes(tree, key, value)))
    }

    /// Moves what is in memory to the file, if it is much, before a record of a tree is set. Whether that
    /// goes well or not, the write set says what it did. Nothing is moved for the catalog's records: those
    /// stay in memory, and some are set together, which nothing is to come between.
    pub(crate) fn make_room(&mut self, tree: TreeId, place: &SpillSettings) -> Result<()> {
        if self.bytes < place.bytes_max || tree == CATALOG {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(RunFile::make(place)?)),
        };
        // Before anything goes: if that of one tree fails, or its order panics, others are in the file.
        self.has_spilled = true;
        let spilled = self
            .trees
            .iter_mut()
            .filter(|(tree, records)| tree.id != CATALOG && (records.recent.len() > 0 || records.has_void()));
        spilled.into_iter().try_for_each(|(_, records)| records.spill(&file))?;
        self.bytes = 0;
        Ok(())
    }

    /// Forgets the trees of which everything was rolled back that had gone to files.
    pub(crate) fn forget_void(&mut self) -> Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        for (_, records) in self.trees.iter_mut().filter(|(_, records)| records.is_spilled()) {
            if records.after(None)?.next()?.is_none() {
                let more = records.more.needed();
                more.runs.clear();
                more.void = None;
            }
        }
        if !self.is_spilled() {
            self.file = None;
        }
        Ok(())
    }

    /// The trees written to, in the order in which their leaves are latched. Not those of which everything
    /// was rolled back: they may be gone.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (&TreeRef, &PendingRecords)> {
        self.trees.iter().filter(|(_, records)| records.has_any()).map(|(tree, records)| (tree, records))
    }

    /// Those of them of which the log tells: all but the temporary ones.
    pub(crate) fn logged_trees(&self) -> impl Iterator<Item = (&TreeRef, &PendingRecords)> {
        self.trees().filter(|(tree, _)| !tree.temporary)
    }

    /// Whether the log tells of any.
    pub(crate) fn is_logged(&self) -> bool {
        self.logged_trees().next().is_some()
    }

    #[inline]
    pub(crate) fn records(&self, tree: TreeId) -> Option<&PendingRecords> {
        self.trees.binary_search_by_key(&tree, |(have, _)| have.id).ok().map(|at| &self.trees[at].1)
    }

    fn records_mut(&mut self, tree: &TreeRef) -> &mut PendingRecords {
        let at = match self.trees.binary_search_by_key(&tree.id, |(have, _)| have.id) {
            Ok(at) => at,
            Err(at) => {
                if self.trees.capacity() == 0 {
                    self.trees = Vec::with_capacity(2);
                }
                self.trees.insert(at, (tree.clone(), PendingRecords::new(tree)));
                at
            }
        };
        &mut self.trees[at].1
    }

    /// Sets what a record is to become.
    pub(crate) fn set(&mut self, tree: &TreeRef, key: &[u8], value: Becomes<'_>) -> Result<()> {
        let is_journaled = self.is_journaled();
        let value_len = value.map_or(0, <[u8]>::len);
        let bytes = key.len() + value_len + RECORD_BYTES;
        let records = self.records_mut(tree);
        let mut before = None;
        // First what may fail, or panic.
        if is_journaled && records.is_spilled() && records.recent.get(key).is_none() {
            before = records.get_spilled(key)?;
        }
        records.recent.set(key, value, |pending| {
            if is_journaled && let Some(pending) = pending {
                before = Some(pending.map(Short::from));
            }
        });
        self.bytes += bytes;
        self.longest = self.longest.max(value_len);
        self.note(tree.id, || Undone::Record(key.into(), before));
        Ok(())
    }

    /// Removes a range: all that is committed in it. Nothing that is pending in it may be set.
    pub(crate) fn remove_range(&mut self, tree: &TreeRef, span: KeySpan) {
        let records = self.records_mut(tree);
        let order = records.recent.order();
        let added = records.more.needed().removed.add(span, |a, b| compare(order, a, b));
        self.note(tree.id, || Undone::Range(added));
    }

    /// Has nothing pending of a record that is in memory.
    pub(crate) fn unset(&mut self, tree: &TreeRef, key: &[u8]) {
        let records = self.records_mut(tree);
        let before = records.recent.get(key).map(|value| value.map(Short::from));
        let bytes = records.unset(key);
        self.bytes += bytes;
        self.note(tree.id, || Undone::Record(key.into(), before));
    }

    /// Notes what undoes a change, if that may be asked for.
    #[inline]
    fn note(&mut self, tree: TreeId, what: impl FnOnce() -> Undone) {
        if let Some(journal) = self.journal.get_mut() {
            journal.note(tree, what());
        }
    }

    /// Whether changes are noted so that they can be undone.
    pub(crate) fn is_journaled(&self) -> bool {
        !self.journal.is_none()
    }

    /// A position to roll back to.
    pub(crate) fn savepoint(&mut self) -> Position {
        self.journal.needed().position()
    }

    /// Undoes everything set since the position was taken.
    ///
    /// # Errors
    /// `Invalid` for a position of another write set, one that was rolled back over, or one before what is
    /// kept: nothing is changed.
    pub(crate) fn roll_back_to(&mut self, position: Position) -> Result<()> {
        let Some(journal) = self.journal.get_mut() else { return Err(foreign()) };
        journal.check(position)?;
        // What is undone is noted until it is: if an order panics, the next try asks it again.
        while let Some((of, what)) = journal.last_since(position) {
            if let Some((_, records)) = self.trees.iter_mut().find(|(tree, _)| tree.id == of) {
                match what {
                    Undone::Record(key, Some(before)) => {
                        records.recent.set(key, before.as_deref(), |_| ());
                    }
                    Undone::Record(key, None) => self.bytes += records.unset(key),
                    Undone::Range(added) => records.more.needed().removed.undo(added),
                }
            }
            journal.forget_last();
        }
        Ok(())
    }

    /// Has no savepoint any more, and notes nothing until it is asked for one, unless some of what was noted
    /// is kept.
    pub(crate) fn forget_savepoints(&mut self) {
        if self.journal.get().is_some_and(|journal| !journal.is_kept()) {
            self.journal.clear();
        }
    }

    /// Keeps what was set so far from being rolled back; says how much was kept before.
    pub(crate) fn keep(&mut self) -> Option<usize> {
        self.journal.get_mut().and_then(UndoJournal::keep)
    }

    /// Ends [`WriteSet::keep`], by what that said.
    pub(crate) fn keep_only(&mut self, kept: Option<usize>) {
        if let Some(journal) = self.journal.get_mut() {
            journal.keep_only(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sablecat_os::sim::SimDisk;

    #[test]
    fn what_is_rolled_back_again_and_again_takes_no_more_memory() {
        let disk = Arc::new(SimDisk::new(1));
        let place = SpillSettings { disk, directory: "".into(), bytes_max: 20_000, cipher: None };
        let tree = catalog::catalog_tree().with(|tree| tree.id = TreeId(20));
        let mut set = WriteSet::default();
        for n in 0..20_000u32 {
            set.make_room(tree.id, &place).unwrap();
            let before = (n > 1000).then(|| set.savepoint());
            set.set(&tree, &n.to_be_bytes(), Some(&[7; 30])).unwrap();
            before.into_iter().for_each(|before| set.roll_back_to(before).unwrap());
            let void = set.records(tree.id).and_then(|records| records.void());
            assert!(void.is_none_or(|void| void.len() <= place.bytes_max / RECORD_BYTES), "{n}");
        }
        assert!(set.is_spilled());
        let records = set.records(tree.id).unwrap();
        let mut all = records.after(None).unwrap();
        assert_eq!(std::iter::from_fn(|| all.next().unwrap()).count(), 1001);
        assert_eq!(records.get(&1500u32.to_be_bytes()).unwrap(), None);
    }
}

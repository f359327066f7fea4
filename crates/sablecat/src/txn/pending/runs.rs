//! What of a write set does not stay in memory: sorted runs, in a file that has no name (run_file.rs).
//!
//! ```text
//! run    blocks, one after the other; the first key of each stays in memory, with where the block is
//! block  entries in key order, some dozens of KiB or one longer | where each begins u32 | how many u32
//! entry  what u8 (0: removed, 1: set, 2: nothing pending) | key bytes u32 | value bytes u32 | key | value
//! ```
//!
//! Runs that follow each other in time are merged when there are many of one size, so there are few, and each
//! record is written a few times. Of most keys that a run does not have its filter says so (filter.rs), and
//! it is known of those above its last. The file is removed from its directory as soon as it is open: it goes
//! with the transaction, however that ends.
//!
//! All files have one name, for the moment that each has any. Nobody comes to a file by it, so any process
//! may take the name away, whichever file it is of. A process does that when it makes a file and finds the
//! name taken, and when it opens the environment, enters it or mends what the dead left. A process that is
//! killed as it makes a file so leaves one, empty, for a while; and processes of one number, in different
//! namespaces, have nothing to choose alike.
//!
//! Nothing here is read by another process or after a crash, so there are no versions, and what a block's
//! bytes should be is known by a checksum in memory. In an environment that is encrypted each block is
//! enciphered, with its tag behind it, by keys that are nowhere but in memory (crypt/run_key.rs).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::io::ErrorKind as IoErrorKind;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use sablecat_os::disk::{Disk, File, How};

use super::block::{self, PLACE_BYTES, RunBlock};
use super::filter::Filter;
use super::run_file::{FileExtent, RunFile};
use super::short::Short;
use super::write_set::{Becomes, MaybePending};
use crate::crypt::{self, Cipher, RunKey};
use crate::error::{Error, Result};
use crate::txn::catalog::Comparator;

/// A block ends with the entry that brings it to this,
const BLOCK_BYTES: usize = 64 << 10;
/// and to so many times its first key, which is in memory.
const FIRST_KEYS: usize = 8;
/// A longer block, which has a long value, is read again for each look at it.
const KEPT_MAX: usize = (FIRST_KEYS + 1) * BLOCK_BYTES;
/// So much is written at once.
const WRITE_BYTES: usize = 1 << 20;
/// So many runs of one size are merged into one of the next.
const MERGED_AT_ONCE: usize = 8;
/// What a file is called for a moment.
const NAME: &str = "sablecat.spill";

/// Where the files of runs are made.
#[derive(Clone, Debug)]
pub(crate) struct SpillSettings {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    /// So many bytes of a write set stay in memory, about.
    pub(crate) bytes_max: usize,
    /// What is put aside is enciphered, if the environment is.
    pub(crate) cipher: Option<Cipher>,
}

impl SpillSettings {
    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// A file that nobody else has, and that has no name any more; and the name that it had.
    pub(super) fn make_file(&self) -> Result<Arc<dyn File>> {
        let path = self.path();
        let how = How { create_new: true, ..How::default() };
        loop {
            let made = self.disk.open(&path, how);
            match made {
                Err(e) if e.kind() != IoErrorKind::AlreadyExists => {
                    return Err(Error::io("making a file for a large transaction", &path, e));
                }
                _ => self.remove_name()?,
            }
            // Else somebody was making one at the same time, or was killed as it did.
            if let Ok(file) = made {
                return Ok(file);
            }
        }
    }

    /// Takes away the name of a file, if there is one: left by a process that was killed, or of one that is
    /// about to do the same.
    pub(crate) fn remove_name(&self) -> Result<()> {
        let path = self.path();
        match self.disk.remove(&path) {
            Err(e) if e.kind() != IoErrorKind::NotFound => {
                Err(Error::io("removing the name of a file for a large transaction", &path, e))
            }
            _ => Ok(()),
        }
    }
}

/// How keys are ordered.
pub(in crate::txn) fn compare(order: Option<&Comparator>, a: &[u8], b: &[u8]) -> Ordering {
    order.map_or_else(|| a.cmp(b), |order| (order.compare)(a, b))
}

/// One run.
#[derive(Debug)]
pub(in crate::txn) struct SortedRun {
    extent: FileExtent,
    key: Option<RunKey>,
    /// How often what is in it was merged.
    level: u32,
    entries: usize,
    blocks: Vec<BlockAt>,
    /// The key of the last entry. None: there are no entries.
    last_key: Option<Short>,
    filter: Option<Filter>,
    /// The block that was looked at last.
    last: RefCell<Option<(usize, Arc<RunBlock>)>>,
}

/// Where a block is, and which key it begins with.
#[derive(Debug)]
struct BlockAt {
    first: Short,
    at: u64,
    len: usize,
    /// Of its bytes, to know a write that was lost or went astray.
    sum: u32,
}

/// A run being written.
pub(in crate::txn) struct Writer {
    run: SortedRun,
    buffer: Vec<u8>,
    /// Where the block in progress begins in the buffer.
    begun: usize,
    /// Where its entries begin, from there.
    places: Vec<u32>,
    written: u64,
}

/// What a run is to hold, at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Most {
    entries: usize,
    bytes: u64,
}

impl Most {
    pub(super) fn add(&mut self, key: &[u8], slot: Option<Becomes<'_>>) {
        self.entries += 1;
        self.bytes += block::entry_bytes(key, slot);
    }
}

impl Writer {
    /// Begins a run of what moves out of memory.
    pub(super) fn begin(file: &Arc<RunFile>, order: Option<&Comparator>, most: Most) -> Writer {
        Self::begin_merged(file, order, most, (0, 0))
    }

    /// Begins a run of a level in place of others, whose filters have so many bytes.
    fn begin_merged(
        file: &Arc<RunFile>,
        order: Option<&Comparator>,
        most: Most,
        (level, returning): (u32, usize),
    ) -> Writer {
        let key = file.new_key();
        // Each block but the last has so many bytes at least.
        let blocks = most.bytes / BLOCK_BYTES as u64 + 1;
        let each = PLACE_BYTES + key.as_ref().map_or(0, |_| crypt::RUN_BYTES);
        let extent = FileExtent::take(file, most.bytes + blocks * each as u64);
        // An order of users' may take keys for one that are written in different ways.
        let is_of_bytes = order.is_none_or(|order| order.table.is_some());
        let filter = is_of_bytes.then(|| Filter::new(file, most.entries, returning)).flatten();
        let run = SortedRun {
            extent,
            key,
            level,
            entries: 0,
            blocks: Vec::new(),
            last_key: None,
            filter,
            last: RefCell::default(),
        };
        Writer { run, buffer: Vec::new(), begun: 0, places: Vec::new(), written: 0 }
    }

    /// Adds an entry, in key order.
    pub(in crate::txn) fn add(&mut self, key: &[u8], slot: Option<Becomes<'_>>) -> Result<()> {
        if self.begun == self.buffer.len() {
            let at = self.written + self.buffer.len() as u64;
            self.run.blocks.push(BlockAt { first: key.into(), at, len: 0, sum: 0 });
        }
        self.places.push((self.buffer.len() - self.begun) as u32);
        block::write_entry(&mut self.buffer, key, slot);
        self.run.entries += 1;
        if let Some(filter) = &mut self.run.filter {
            filter.add(self.run.extent.hash(key));
        }
        let first = self.run.blocks.last().map_or(0, |block| block.first.len());
        let most = BLOCK_BYTES.max(FIRST_KEYS * first);
        if self.buffer.len() - self.begun + self.places.len() * PLACE_BYTES >= most {
            self.end_block();
        }
        if self.buffer.len() >= WRITE_BYTES && self.begun == self.buffer.len() {
            self.write()
        } else {
            Ok(())
        }
    }

    fn end_block(&mut self) {
        let last =
            self.places.last().and_then(|&last| block::entry_at(&self.buffer, self.begun + last as usize));
        self.run.last_key = last.map(|last| last.key.into());
        block::end(&mut self.buffer, &self.places);
        self.places.clear();
        if let Some(block) = self.run.blocks.last_mut() {
            if let Some(key) = &self.run.key {
                key.seal(block.at, &mut self.buffer, self.begun);
            }
            block.len = self.buffer.len() - self.begun;
            block.sum = crc32c::crc32c(&self.buffer[self.begun..]);
        }
        self.begun = self.buffer.len();
    }

    fn write(&mut self) -> Result<()> {
        self.run.extent.write(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.begun = 0;
        Ok(())
    }

    /// Ends the run.
    pub(in crate::txn) fn finish(mut self) -> Result<SortedRun> {
        if self.begun < self.buffer.len() {
            self.end_block();
        }
        self.write()?;
        self.run.extent.cut(self.written);
        Ok(self.run)
    }
}

impl SortedRun {
    fn block(&self, index: usize) -> Result<Arc<RunBlock>> {
        if let Some((_, block)) = self.last.borrow().as_ref().filter(|(last, _)| *last == index) {
            return Ok(Arc::clone(block));
        }
        let at = &self.blocks[index];
        let mut bytes = vec![0; at.len];
        let read = self.extent.read(&mut bytes, at.at)?;
        if read < bytes.len() || crc32c::crc32c(&bytes) != at.sum {
            return Err(self.is_changed());
        }
        if let Some(key) = &self.key
            && !key.open(at.at, &mut bytes)
        {
            return Err(self.is_changed());
        }
        let block = Arc::new(RunBlock::new(bytes).ok_or_else(|| self.is_changed())?);
        // One that is large has one long value, and each run would keep its own.
        *self.last.borrow_mut() = (at.len <= KEPT_MAX).then(|| (index, Arc::clone(&block)));
        Ok(block)
    }

    #[cold]
    fn is_changed(&self) -> Error {
        Error::corruption(format!(
            "reading back a part of a large transaction from {}: it is not what was written; nothing of the \
             transaction is committed: drop it, and run it again",
            self.extent.directory().display()
        ))
    }

    fn entry<'b>(&self, block: &'b RunBlock, at: usize) -> Result<block::BlockEntry<'b>> {
        block.entry(at).ok_or_else(|| self.is_changed())
    }

    fn partition_point(&self, block: &RunBlock, is_before: impl Fn(&[u8]) -> bool) -> Result<usize> {
        block.partition_point(is_before).ok_or_else(|| self.is_changed())
    }

    /// The hash of a key, as the filters of all runs of the file have it.
    pub(in crate::txn) fn hash(&self, key: &[u8]) -> u64 {
        self.extent.hash(key)
    }

    /// What is said of a key with this hash, if anything.
    pub(in crate::txn) fn get(
        &self,
        order: Option<&Comparator>,
        key: &[u8],
        hash: u64,
    ) -> Result<Option<MaybePending>> {
        self.find(order, key, hash, |entry| entry.slot())
    }

    /// Shows `look` the entry of a key with this hash, if there is one.
    pub(super) fn find<R>(
        &self,
        order: Option<&Comparator>,
        key: &[u8],
        hash: u64,
        look: impl FnOnce(block::BlockEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        let is_out = self.filter.as_ref().is_some_and(|filter| !filter.may_have(hash));
        if is_out || self.last_key.as_ref().is_none_or(|last| compare(order, last, key).is_lt()) {
            return Ok(None);
        }
        let after = self.blocks.partition_point(|block| compare(order, &block.first, key).is_le());
        let Some(index) = after.checked_sub(1) else { return Ok(None) };
        let block = self.block(index)?;
        let at = self.partition_point(&block, |have| compare(order, have, key).is_lt())?;
        if at == block.count() {
            return Ok(None);
        }
        let entry = self.entry(&block, at)?;
        Ok(compare(order, entry.key, key).is_eq().then(|| look(entry)))
    }

    /// The first key beyond the lower bound (`forward`), or the last below the upper.
    pub(in crate::txn) fn edge(
        &self,
        order: Option<&Comparator>,
        bound: Bound<&[u8]>,
        forward: bool,
    ) -> Result<Option<Vec<u8>>> {
        let is_beyond = |key: &[u8]| match bound {
            Bound::Unbounded => true,
            Bound::Included(bound) if forward => compare(order, key, bound).is_ge(),
            Bound::Excluded(bound) if forward => compare(order, key, bound).is_gt(),
            Bound::Included(bound) => compare(order, key, bound).is_le(),
            Bound::Excluded(bound) => compare(order, key, bound).is_lt(),
        };
        if forward && !self.last_key.as_ref().is_some_and(|last| is_beyond(last)) {
            return Ok(None);
        }
        // The block with the edge: going forward, the last that begins before what is looked for, or the one
        // after; going back, the last that begins below the bound.
        let from = if forward {
            self.blocks.partition_point(|block| !is_beyond(&block.first)).saturating_sub(1)
        } else {
            match self.blocks.partition_point(|block| is_beyond(&block.first)).checked_sub(1) {
                Some(index) => index,
                None => return Ok(None),
            }
        };
        for index in from..self.blocks.len() {
            let block = self.block(index)?;
            let at = self.partition_point(&block, |key| is_beyond(key) != forward)?;
            let at = if forward { Some(at).filter(|&at| at < block.count()) } else { at.checked_sub(1) };
            if let Some(at) = at {
                return Ok(Some(self.entry(&block, at)?.key.to_vec()));
            }
        }
        Ok(None)
    }

    fn cursor(&self, order: Option<&Comparator>, after: Option<&[u8]>) -> Result<RunCursor<'_>> {
        let mut cursor = RunCursor { run: self, index: 0, block: None, at: 0, entry: None };
        if let Some(after) = after {
            let is_before = |key: &[u8]| compare(order, key, after).is_le();
            cursor.index = self.blocks.partition_point(|block| is_before(&block.first)).saturating_sub(1);
            if cursor.index < self.blocks.len() {
                let block = self.block(cursor.index)?;
                cursor.at = self.partition_point(&block, is_before)?;
                cursor.block = Some(block);
            }
        }
        cursor.step()?;
        Ok(cursor)
    }
}

/// A place in a run.
struct RunCursor<'r> {
    run: &'r SortedRun,
    /// The block with the next entry, if there is one, and which that is; or the one after.
    index: usize,
    block: Option<Arc<RunBlock>>,
    at: usize,
    entry: Option<(Vec<u8>, MaybePending)>,
}

impl RunCursor<'_> {
    /// Goes to the next entry.
    fn step(&mut self) -> Result<()> {
        self.entry = None;
        while self.index < self.run.blocks.len() {
            let block = match &self.block {
                Some(block) => block,
                None => self.block.insert(self.run.block(self.index)?),
            };
            if self.at < block.count() {
                let entry = self.run.entry(block, self.at)?;
                self.entry = Some((entry.key.to_vec(), entry.slot()));
                self.at += 1;
                return Ok(());
            }
            (self.index, self.block, self.at) = (self.index + 1, None, 0);
        }
        Ok(())
    }
}

/// Runs as one, in key order: of what several say of a key the newest counts.
pub(in crate::txn) struct Merge<'r> {
    order: Option<&'r Comparator>,
    /// The oldest first.
    cursors: Vec<RunCursor<'r>>,
}

impl<'r> Merge<'r> {
    /// Everything after a key; none: from the beginning.
    pub(in crate::txn) fn after(
        order: Option<&'r Comparator>,
        runs: &'r [SortedRun],
        after: Option<&[u8]>,
    ) -> Result<Merge<'r>> {
        Ok(Merge { order, cursors: runs.iter().map(|run| run.cursor(order, after)).collect::<Result<_>>()? })
    }

    /// The next key.
    pub(super) fn peek(&self) -> Option<&[u8]> {
        let keys = self.cursors.iter().filter_map(|cursor| cursor.entry.as_ref().map(|(key, _)| &key[..]));
        keys.reduce(|least, key| if compare(self.order, key, least).is_lt() { key } else { least })
    }

    /// The next key and what is said of it.
    pub(in crate::txn) fn next(&mut self) -> Result<Option<(Vec<u8>, MaybePending)>> {
        let Some(key) = self.peek().map(<[u8]>::to_vec) else { return Ok(None) };
        let mut said = None;
        for cursor in &mut self.cursors {
            if cursor.entry.as_ref().is_some_and(|(have, _)| compare(self.order, have, &key).is_eq()) {
                let newer = cursor.entry.take();
                said = match (said, newer) {
                    // Of ways to write a key the first stays, unless it was rolled back.
                    (Some((first, Some(_))), Some((_, slot))) => Some((first, slot)),
                    (_, newer) => newer,
                };
                cursor.step()?;
            }
        }
        Ok(said)
    }
}

/// Merges runs, the newest of which has just been added, as long as there are many of one size.
pub(super) fn merge_some(
    file: &Arc<RunFile>,
    order: Option<&Comparator>,
    runs: &mut Vec<SortedRun>,
) -> Result<()> {
    while let Some(newest) = runs.last() {
        let level = newest.level;
        let same = runs.iter().rev().take_while(|run| run.level == level).count();
        if same < MERGED_AT_ONCE {
            break;
        }
        let from = runs.len() - same;
        let merged = &runs[from..];
        let most = Most {
            entries: merged.iter().map(|run| run.entries).sum(),
            bytes: merged.iter().map(|run| run.extent.bytes()).sum(),
        };
        let returning = merged.iter().filter_map(|run| run.filter.as_ref()).map(Filter::bytes).sum();
        let mut writer = Writer::begin_merged(file, order, most, (level + 1, returning));
        let mut merge = Merge::after(order, &runs[from..], None)?;
        while let Some((key, slot)) = merge.next()? {
            // What is not pending need not be said where nothing older could say that it is.
            if slot.is_some() || from > 0 {
                writer.add(&key, slot.as_ref().map(Option::as_deref))?;
            }
        }
        drop(merge);
        let merged = writer.finish()?;
        runs.truncate(from);
        runs.push(merged);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use sablecat_os::sim::SimDisk;

    use super::*;

    fn file(disk: &SimDisk, bytes_max: usize) -> Arc<RunFile> {
        let place =
            SpillSettings { disk: Arc::new(disk.clone()), directory: "".into(), bytes_max, cipher: None };
        RunFile::make(&place).unwrap()
    }

    fn run(file: &Arc<RunFile>, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> SortedRun {
        let mut most = Most::default();
        entries.iter().for_each(|(key, value)| most.add(key, Some(Some(value))));
        let mut writer = Writer::begin(file, None, most);
        entries.iter().for_each(|(key, value)| writer.add(key, Some(Some(value))).unwrap());
        writer.finish().unwrap()
    }

    fn get(run: &SortedRun, key: &[u8]) -> Option<MaybePending> {
        run.get(None, key, run.hash(key)).unwrap()
    }

    /// Of each block the first key is in memory.
    #[test]
    fn of_long_keys_few_stay_in_memory() {
        let keys = (0..400u16).map(|n| {
            let mut key = vec![7; 60_000];
            key.extend(n.to_be_bytes());
            (key, vec![1; 10])
        });
        let long = keys.collect();
        let run = run(&file(&SimDisk::new(1), 1 << 20), &long);
        assert!(run.blocks.len() <= 60, "{} blocks", run.blocks.len());
        assert!(run.blocks.iter().all(|block| block.len <= KEPT_MAX), "read again for each look");
        assert!(long.keys().all(|key| get(&run, key).is_some()));
    }

    #[test]
    fn of_keys_that_a_run_does_not_have_few_are_looked_for_in_its_file() {
        let disk = SimDisk::new(1);
        let key = |n: u64| n.to_be_bytes().to_vec();
        let even = (0..20_000).map(|n| (key(2 * n), vec![7; 30])).collect();
        let run = run(&file(&disk, 1 << 20), &even);
        let before = disk.calls();
        // No two in one block, one after the other.
        let odd = (0..20_000).map(|n| n * 7919 % 20_000 * 2 + 1);
        odd.for_each(|n| assert!(get(&run, &key(n)).is_none(), "{n}"));
        (50_000..60_000).for_each(|n| assert!(get(&run, &key(n)).is_none(), "{n}"));
        assert!(disk.calls() - before < 800, "{} calls", disk.calls() - before);
        assert!((0..20_000).all(|n| get(&run, &key(2 * n)).is_some()));
    }

    #[test]
    fn an_order_is_asked_about_nothing_but_keys() {
        let order = Comparator::new("numbers", |a, b| {
            assert!(a.len() == 8 && b.len() == 8, "not a key of this order");
            a.cmp(b)
        });
        let file = file(&SimDisk::new(1), 1 << 20);
        // All that was in it was rolled back.
        let run = Writer::begin(&file, Some(&order), Most::default()).finish().unwrap();
        let key = &7u64.to_be_bytes()[..];
        assert!(run.get(Some(&order), key, run.hash(key)).unwrap().is_none());
        for bound in [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded] {
            assert!([true, false].iter().all(|&to| run.edge(Some(&order), bound, to).unwrap().is_none()));
        }
    }

    #[test]
    fn filters_take_no_more_memory_than_they_may() {
        let disk = SimDisk::new(1);
        let file = file(&disk, 10_000);
        let entries = (0..5000u64).map(|n| (n.to_be_bytes().to_vec(), vec![])).collect();
        let runs: Vec<SortedRun> = (0..3).map(|_| run(&file, &entries)).collect();
        let has_filter = |run: &SortedRun| run.filter.is_some();
        assert_eq!(runs.iter().map(has_filter).collect::<Vec<_>>(), [true, false, false]);
        assert!(runs.iter().all(|run| get(run, &7u64.to_be_bytes()).is_some()), "without one as well");
        drop(runs);
        assert!(has_filter(&run(&file, &entries)), "what was given back is there");
    }

    #[test]
    fn no_run_keeps_a_long_value_in_memory() {
        let entries = [100, 10 * KEPT_MAX].map(|len: usize| (len.to_be_bytes().to_vec(), vec![7; len]));
        let run = run(&file(&SimDisk::new(1), 1 << 20), &entries.clone().into());
        for (key, value) in entries {
            assert_eq!(get(&run, &key).map(|slot| slot.flatten().map(Short::into_vec)), Some(Some(value)));
            assert!(run.last.borrow().as_ref().is_none_or(|(index, _)| run.blocks[*index].len <= KEPT_MAX));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        /// Runs of blocks of all sizes say of each key, and of what is beside it, what a map does.
        #[test]
        fn a_run_says_what_was_written(
            entries in prop::collection::btree_map(
                prop::collection::vec(any::<u8>(), 0..4),
                (0usize..40_000).prop_map(|len| vec![7; len]),
                1..20,
            ),
            probes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 1..20),
        ) {
            let disk = SimDisk::new(2);
            let runs = [run(&file(&disk, 1 << 20), &entries)];
            let [run] = &runs;
            for key in entries.keys().chain(&probes) {
                let said = get(run, key).map(|slot| slot.flatten().map(Short::into_vec));
                prop_assert_eq!(said, entries.get(key).map(|value| Some(value.clone())));
                let above = run.edge(None, Bound::Excluded(key), true).unwrap();
                let beyond = (Bound::Excluded(key.clone()), Bound::Unbounded);
                prop_assert_eq!(&above, &entries.range(beyond.clone()).next().map(|(key, _)| key.clone()));
                let from = run.edge(None, Bound::Included(key), true).unwrap();
                prop_assert_eq!(from, entries.range(key.clone()..).next().map(|(key, _)| key.clone()));
                let below = run.edge(None, Bound::Excluded(key), false).unwrap();
                prop_assert_eq!(below, entries.range(..key.clone()).next_back().map(|(key, _)| key.clone()));
                let to = run.edge(None, Bound::Included(key), false).unwrap();
                prop_assert_eq!(to, entries.range(..=key.clone()).next_back().map(|(key, _)| key.clone()));
                let mut rest = Merge::after(None, &runs, Some(key)).unwrap();
                let rest: Vec<_> = std::iter::from_fn(|| rest.next().unwrap()).map(|(key, _)| key).collect();
                prop_assert_eq!(rest, entries.range(beyond).map(|(key, _)| key.clone()).collect::<Vec<_>>());
            }
        }
    }
}

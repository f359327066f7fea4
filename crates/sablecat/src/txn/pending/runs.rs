//! What of a write set does not stay in memory: sorted runs, in a file that has no name (run_file.rs).
//!
//! ```text
//! run    blocks, one after the other; the first key of each stays in memory, with where the block is
//! block  entries in key order, some dozens of KiB or one longer entry
//! entry  what u8 (0: removed, 1: set, 2: nothing pending) | key bytes u32 | value bytes u32 | key | value
//! ```
//!
//! Runs that follow each other in time are merged when there are many of one size, so there are few, and each
//! record is written a few times. The file is removed from its directory as soon as it is open: it goes with
//! the transaction, however that ends.
//!
//! All files have one name, for the moment that each has any. Nobody comes to a file by it, so anybody may
//! take it away, whosever it is: who makes a file and finds the name taken does, and who opens the
//! environment, enters it or mends what the dead left. A process that is killed as it makes a file so leaves
//! one, empty, for a while; and processes of one number, in different namespaces, have nothing to choose
//! alike.
//!
//! Nothing here is read by another process or after a crash, so there are no checksums and no versions. In an
//! environment that is encrypted each block is enciphered, with its tag behind it, by keys that are nowhere
//! but in memory (crypt/run_key.rs).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::io::ErrorKind as IoErrorKind;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use sablecat_os::disk::{Disk, File, How};

use super::run_file::{Extent, RunFile};
use super::short::Short;
use super::write_set::{Becomes, Slot};
use crate::crypt::{self, Cipher, RunKey};
use crate::error::{Error, Result};
use crate::txn::catalog::Comparator;

/// A block ends with the entry that brings it to this.
const BLOCK_BYTES: usize = 64 << 10;
/// So much is written at once.
const WRITE_BYTES: usize = 1 << 20;
/// So many runs of one size are merged into one of the next.
const MERGED_AT_ONCE: usize = 8;
const HEADER_BYTES: usize = 9;
const REMOVED: u8 = 0;
const SET: u8 = 1;
const NOTHING: u8 = 2;
/// What a file is called for a moment.
const NAME: &str = "sablecat.spill";

/// Where the files of runs are made.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    /// So many bytes of a write set stay in memory, about.
    pub(crate) bytes_max: usize,
    /// What is put aside is enciphered, if the environment is.
    pub(crate) cipher: Option<Cipher>,
}

impl Place {
    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// A file that nobody else has, and that has no name any more; and the name that it had.
    pub(super) fn make_file(&self) -> Result<(Arc<dyn File>, PathBuf)> {
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
                return Ok((file, path));
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

/// How many bytes an entry takes.
pub(super) fn entry_bytes(key: &[u8], slot: Option<Becomes<'_>>) -> u64 {
    let value = slot.flatten().map_or(0, <[u8]>::len);
    (HEADER_BYTES + key.len() + value) as u64
}

/// One run.
#[derive(Debug)]
pub(in crate::txn) struct Run {
    extent: Extent,
    key: Option<RunKey>,
    /// How often what is in it was merged.
    level: u32,
    blocks: Vec<Block>,
    /// The block that was looked at last.
    last: RefCell<Option<(usize, Arc<Vec<u8>>)>>,
}

#[derive(Debug)]
struct Block {
    first: Short,
    at: u64,
    len: usize,
}

/// An entry of a block.
struct Entry<'a> {
    key: &'a [u8],
    what: u8,
    value: &'a [u8],
    /// Where the next one is.
    end: usize,
}

impl Entry<'_> {
    fn slot(&self) -> Slot {
        match self.what {
            REMOVED => Some(None),
            SET => Some(Some(Short::from(self.value))),
            _ => None,
        }
    }
}

/// The entry at a place in a block.
fn entry(block: &[u8], at: usize) -> Option<Entry<'_>> {
    let header = block.get(at..at + HEADER_BYTES)?;
    let len =
        |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
    let (key, value) = (at + HEADER_BYTES, at + HEADER_BYTES + len(1));
    let end = value + len(5);
    Some(Entry { key: block.get(key..value)?, what: header[0], value: block.get(value..end)?, end })
}

/// A run being written.
pub(in crate::txn) struct Writer {
    run: Run,
    buffer: Vec<u8>,
    /// Where the block in progress begins in the buffer.
    begun: usize,
    written: u64,
}

impl Writer {
    /// Begins a run that will have so many bytes at most.
    pub(in crate::txn) fn begin(file: &Arc<RunFile>, bytes_max: u64) -> Writer {
        Self::begin_merged(file, bytes_max, 0)
    }

    fn begin_merged(file: &Arc<RunFile>, bytes_max: u64, level: u32) -> Writer {
        let key = file.new_key();
        let tags = key.as_ref().map_or(0, |_| crypt::RUN_BYTES as u64 * (bytes_max / BLOCK_BYTES as u64 + 1));
        let extent = Extent::take(file, bytes_max + tags);
        let run = Run { extent, key, level, blocks: Vec::new(), last: RefCell::default() };
        Writer { run, buffer: Vec::new(), begun: 0, written: 0 }
    }

    /// Adds an entry, in key order.
    pub(in crate::txn) fn add(&mut self, key: &[u8], slot: Option<Becomes<'_>>) -> Result<()> {
        if self.begun == self.buffer.len() {
            let at = self.written + self.buffer.len() as u64;
            self.run.blocks.push(Block { first: key.into(), at, len: 0 });
        }
        let (what, value): (u8, &[u8]) = match slot {
            Some(None) => (REMOVED, &[]),
            Some(Some(value)) => (SET, value),
            None => (NOTHING, &[]),
        };
        self.buffer.push(what);
        self.buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(value);
        if self.buffer.len() - self.begun >= BLOCK_BYTES {
            self.end_block();
        }
        if self.buffer.len() >= WRITE_BYTES && self.begun == self.buffer.len() {
            self.write()
        } else {
            Ok(())
        }
    }

    fn end_block(&mut self) {
        if let Some(block) = self.run.blocks.last_mut() {
            if let Some(key) = &self.run.key {
                key.seal(block.at, &mut self.buffer, self.begun);
            }
            block.len = self.buffer.len() - self.begun;
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
    pub(in crate::txn) fn finish(mut self) -> Result<Run> {
        if self.begun < self.buffer.len() {
            self.end_block();
        }
        self.write()?;
        self.run.extent.cut(self.written);
        Ok(self.run)
    }
}

impl Run {
    fn block(&self, index: usize) -> Result<Arc<Vec<u8>>> {
        if let Some((_, bytes)) = self.last.borrow().as_ref().filter(|(last, _)| *last == index) {
            return Ok(Arc::clone(bytes));
        }
        let block = &self.blocks[index];
        let mut bytes = vec![0; block.len];
        let read = self.extent.read(&mut bytes, block.at)?;
        if read < bytes.len() {
            return Err(Error::corruption(format!(
                "a part of a large transaction in {} is cut off",
                self.extent.path().display()
            )));
        }
        if let Some(key) = &self.key
            && !key.open(block.at, &mut bytes)
        {
            return Err(Error::corruption(format!(
                "a part of a large transaction in {} is not what was written",
                self.extent.path().display()
            )));
        }
        let bytes = Arc::new(bytes);
        *self.last.borrow_mut() = Some((index, Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// What is said of a key, if anything.
    pub(in crate::txn) fn get(&self, order: Option<&Comparator>, key: &[u8]) -> Result<Option<Slot>> {
        let after = self.blocks.partition_point(|block| compare(order, &block.first, key).is_le());
        let Some(index) = after.checked_sub(1) else { return Ok(None) };
        let block = self.block(index)?;
        let mut at = 0;
        while let Some(entry) = entry(&block, at) {
            match compare(order, entry.key, key) {
                Ordering::Less => at = entry.end,
                Ordering::Equal => return Ok(Some(entry.slot())),
                Ordering::Greater => break,
            }
        }
        Ok(None)
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
            let (mut at, mut found) = (0, None);
            while let Some(entry) = entry(&block, at) {
                at = entry.end;
                if is_beyond(entry.key) {
                    found = Some(entry.key.to_vec());
                    if forward {
                        break;
                    }
                } else if !forward {
                    break;
                }
            }
            if found.is_some() || !forward {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn cursor(&self, order: Option<&Comparator>, after: Option<&[u8]>) -> Result<Cursor<'_>> {
        let index = after.map_or(0, |after| {
            self.blocks.partition_point(|block| compare(order, &block.first, after).is_le()).saturating_sub(1)
        });
        let mut cursor = Cursor { run: self, index, block: Arc::default(), at: 0, entry: None };
        cursor.load()?;
        while cursor
            .entry
            .as_ref()
            .is_some_and(|(key, _)| after.is_some_and(|after| compare(order, key, after).is_le()))
        {
            cursor.step()?;
        }
        Ok(cursor)
    }
}

/// A place in a run.
struct Cursor<'r> {
    run: &'r Run,
    index: usize,
    block: Arc<Vec<u8>>,
    at: usize,
    entry: Option<(Vec<u8>, Slot)>,
}

impl Cursor<'_> {
    fn load(&mut self) -> Result<()> {
        self.entry = None;
        while self.index < self.run.blocks.len() {
            self.block = self.run.block(self.index)?;
            self.at = 0;
            if self.step_within() {
                return Ok(());
            }
            self.index += 1;
        }
        Ok(())
    }

    fn step_within(&mut self) -> bool {
        let Some(entry) = entry(&self.block, self.at) else { return false };
        self.entry = Some((entry.key.to_vec(), entry.slot()));
        self.at = entry.end;
        true
    }

    fn step(&mut self) -> Result<()> {
        if self.step_within() {
            return Ok(());
        }
        self.index += 1;
        self.load()
    }
}

/// Runs as one, in key order: of what several say of a key the newest counts.
pub(in crate::txn) struct Merge<'r> {
    order: Option<&'r Comparator>,
    /// The oldest first.
    cursors: Vec<Cursor<'r>>,
}

impl<'r> Merge<'r> {
    /// Everything after a key; none: from the beginning.
    pub(in crate::txn) fn after(
        order: Option<&'r Comparator>,
        runs: &'r [Run],
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
    pub(in crate::txn) fn next(&mut self) -> Result<Option<(Vec<u8>, Slot)>> {
        let Some(key) = self.peek().map(<[u8]>::to_vec) else { return Ok(None) };
        let mut newest = None;
        for cursor in &mut self.cursors {
            if cursor.entry.as_ref().is_some_and(|(have, _)| compare(self.order, have, &key).is_eq()) {
                newest = cursor.entry.take();
                cursor.step()?;
            }
        }
        Ok(newest)
    }
}

/// Merges runs, the newest of which has just been added, as long as there are many of one size.
pub(super) fn merge_some(file: &Arc<RunFile>, order: Option<&Comparator>, runs: &mut Vec<Run>) -> Result<()> {
    while let Some(newest) = runs.last() {
        let level = newest.level;
        let same = runs.iter().rev().take_while(|run| run.level == level).count();
        if same < MERGED_AT_ONCE {
            break;
        }
        let from = runs.len() - same;
        let bytes = runs[from..].iter().map(|run| run.extent.bytes()).sum();
        let mut writer = Writer::begin_merged(file, bytes, level + 1);
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

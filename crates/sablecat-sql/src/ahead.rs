//! Records read ahead of a cursor.
//!
//! Records are copied some at a time, shown in place by the tree, into memory that is used again for the next
//! ones. Few at first, as most seeks want a record and a look at the one behind it, then more each time: at
//! last whole leaves, in whose copies the records are. From one to the next SQLite goes by itself, without a
//! call.
//!
//! Nobody minds what else a statement reads that only reads, and sees one state. A transaction that is to be
//! serialisable notes what it reads, and conflicts by that; a leaf of which it wants a record counts as read
//! from there on in any case. So it reads no more at a time than lies in a few leaves, or half as much again
//! as it has come to.
//!
//! What is read ahead is of the tree as it was then. A change by the cursor itself of the record that it is
//! at leaves what comes behind as it is; after any other change of the tree it is read anew.

use std::ops::{Bound, ControlFlow, Range};
use std::ptr;

use sablecat::{Database, Each, Read, Txn};

use crate::failure::Failure;
use crate::key;

/// How many records are read at first, where it is not noted what is read; else the one that is asked for.
/// Each time after that four times as many,
pub(crate) const RECORDS_MIN: usize = 2;
/// up to this.
pub(crate) const RECORDS_MAX: usize = 256;
/// So many are likely to be in more leaves than one.
const RECORDS_MANY: usize = 32;
/// A leaf is copied as a whole if a part of its records is wanted that is greater than one divided by this.
const MANY: usize = 4;
/// Of those whose keys begin alike so many are read at first.
const RECORDS_ALIKE: usize = 8;
/// No more are read once they have so many bytes;
pub(crate) const BYTES_MAX: usize = 1 << 16;
/// where it is noted what is read, so many, or half as many as were read since the cursor went there.
pub(crate) const BYTES_NOTED: usize = 1 << 14;

/// A record, as `c/ours.h` has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Of a table its row id. Of an index where among the bytes the key is, behind what all begin with: the
    /// lower half says where, the upper one how long.
    key: i64,
    /// Where its data lies among the bytes.
    at: u32,
    len: u32,
}

/// Some records that follow each other. The beginning is as `c/ours.h` has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Where the bytes of the records are,
    shown: *const u8,
    /// the records,
    shown_records: *const Record,
    /// how many of them may be gone to,
    count: u32,
    /// and at which one the cursor is.
    at: u32,
    /// Whether each comes before the one that was read before it, and not behind.
    is_back: u8,
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// From which record of an index on keys begin with what is where among the bytes.
    prefixes: Vec<(usize, Range<usize>)>,
    /// How many are to be read at a time.
    most: usize,
    /// How many bytes were read since the cursor went to a place.
    bytes_read: usize,
    is_table: bool,
    /// None are read from this key on; empty: there is no such.
    end: Vec<u8>,
    /// None follow before that.
    is_all: bool,
    /// The state that they are of.
    of: StateOf,
}

/// A state of a tree, as told from others by its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateOf {
    /// What the transaction saw as a whole.
    pub(crate) transaction: u64,
    /// How often the transaction has changed the tree.
    pub(crate) changes: u64,
    /// It is noted what is read.
    pub(crate) is_noted: bool,
}

impl Ahead {
    /// Of a cursor in a table, or in an index.
    pub(crate) fn new(is_table: bool) -> Ahead {
        Ahead {
            shown: ptr::null(),
            shown_records: ptr::null(),
            count: 0,
            at: 0,
            is_back: 0,
            bytes: Vec::new(),
            records: Vec::new(),
            prefixes: Vec::new(),
            most: 0,
            bytes_read: 0,
            is_table,
            end: Vec::new(),
            is_all: false,
            of: StateOf::default(),
        }
    }

    /// Whether they are of this state, and go on in this direction.
    pub(crate) fn is_of(&self, state: StateOf, forward: bool) -> bool {
        self.is_now(state) && (self.is_back == 0) == forward
    }

    /// Whether they are of this state.
    pub(crate) fn is_now(&self, state: StateOf) -> bool {
        self.of == state
    }

    /// The record that the cursor is at was changed, and the tree is in this state since.
    pub(crate) fn stays(&mut self, state: StateOf) {
        self.of = state;
    }

    /// Nobody goes through them any more. They stay where they are, as one of them may have been shown.
    pub(crate) fn close(&mut self) {
        (self.count, self.at) = (0, 0);
    }

    /// Has no records any more. What one long record has taken is not kept for short ones.
    pub(crate) fn leave(&mut self) {
        self.close();
        self.is_all = false;
        self.bytes.clear();
        self.records.clear();
        self.prefixes.clear();
        self.bytes.shrink_to(2 * BYTES_MAX);
    }

    /// Reads the first records from a key on, forward or back, in this state.
    pub(crate) fn begin(
        &mut self,
        txn: &Txn<'_>,
        tree: &Database,
        (from, forward, state): (Bound<&[u8]>, bool, StateOf),
    ) -> Result<(), Failure> {
        (self.of, self.is_back) = (state, u8::from(!forward));
        (self.most, self.bytes_read) = (if state.is_noted { 1 } else { RECORDS_MIN }, 0);
        self.end.clear();
        self.read(txn, tree, from)
    }

    /// Reads the first of an index whose keys begin with this, and looks at nothing else. With `only` the
    /// cursor goes through none but those.
    pub(crate) fn begin_alike(
        &mut self,
        txn: &Txn<'_>,
        tree: &Database,
        (beginning, only, state): (&[u8], bool, StateOf),
    ) -> Result<(), Failure> {
        (self.of, self.is_back) = (state, 0);
        (self.most, self.bytes_read) = (if only { RECORDS_ALIKE } else { 1 }, 0);
        self.end.clear();
        self.end.extend_from_slice(beginning);
        self.end.push(key::ABOVE);
        self.read(txn, tree, Bound::Included(beginning))?;
        if !only {
            self.end.clear();
            self.is_all = false;
        }
        Ok(())
    }

    /// Whether there are none behind the last that was read, as far as the cursor goes.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_all && self.at + 1 >= self.count
    }

    /// Goes to the next record, if it was read already.
    pub(crate) fn advance(&mut self) -> bool {
        let is_read = self.at + 1 < self.count;
        self.at += u32::from(is_read);
        is_read
    }

    /// Reads the records that follow the one with this key, which the cursor is at, and goes to the first.
    pub(crate) fn more(&mut self, txn: &Txn<'_>, tree: &Database, key: &[u8]) -> Result<(), Failure> {
        self.most = (self.most * 4).min(RECORDS_MAX);
        // From the next row id on, which is in the next leaf where the one before was the last of its own.
        match key::rowid(key).and_then(|rowid| rowid.checked_add(1)) {
            Some(next) if self.is_table && self.is_back == 0 => {
                self.read(txn, tree, Bound::Included(&key::of_rowid(next)))
            }
            _ => self.read(txn, tree, Bound::Excluded(key)),
        }
    }

    /// The record that the cursor is at: its row id, if it is of a table, and what is in it. None behind the
    /// last one.
    pub(crate) fn record(&self) -> Option<(i64, &[u8])> {
        let record = self.records.get(self.at as usize).filter(|_| self.at < self.count)?;
        let at = record.at as usize;
        Some((if self.is_table { record.key } else { 0 }, &self.bytes[at..at + record.len as usize]))
    }

    /// Has `key` be the key of the record that the cursor is at.
    pub(crate) fn copy_key(&self, key: &mut Vec<u8>) {
        key.clear();
        let at = self.at as usize;
        let Some(record) = self.records.get(at).filter(|_| self.at < self.count) else { return };
        if self.is_table {
            return key.extend_from_slice(&key::of_rowid(record.key));
        }
        let prefix = self.prefixes.iter().rfind(|(from, _)| *from <= at).map(|(_, prefix)| prefix.clone());
        for part in prefix.into_iter().chain([place(record.key)]) {
            key.extend_from_slice(&self.bytes[part]);
        }
    }

    fn read(&mut self, txn: &Txn<'_>, tree: &Database, from: Bound<&[u8]>) -> Result<(), Failure> {
        self.leave();
        let Ahead { bytes, records, prefixes, most, bytes_read, is_table, end, of, is_back, .. } = self;
        let bytes_max = if of.is_noted { (*bytes_read / 2).clamp(BYTES_NOTED, BYTES_MAX) } else { BYTES_MAX };
        let leaf = CopiedLeaf::default();
        let (most, is_table) = (*most, *is_table);
        let mut reading = Reading {
            bytes,
            records,
            prefixes,
            leaf,
            most,
            bytes_max,
            is_table,
            is_ended: false,
            broken: None,
        };
        match *is_back {
            0 => {
                let end = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.as_slice()) };
                txn.fold_each(tree, (from, end), (), &mut reading)?;
            }
            _ => {
                txn.visit_back(tree, (Bound::<&[u8]>::Unbounded, from), |key, value| reading.add(key, value))?
            }
        }
        self.is_all = !end.is_empty() && !reading.is_ended;
        if let Some(broken) = reading.broken {
            self.leave();
            return Err(broken);
        }
        self.bytes_read += self.bytes.len();
        (self.shown, self.shown_records) = (self.bytes.as_ptr(), self.records.as_ptr());
        self.count = self.records.len() as u32;
        Ok(())
    }
}

/// Records of a table, or of an index, as they are read.
struct Reading<'a> {
    bytes: &'a mut Vec<u8>,
    records: &'a mut Vec<Record>,
    prefixes: &'a mut Vec<(usize, Range<usize>)>,
    /// The leaf that they are of at the moment, if it was copied as a whole.
    leaf: CopiedLeaf,
    /// So many are wanted,
    most: usize,
    /// or so many bytes.
    bytes_max: usize,
    is_table: bool,
    /// There may be more.
    is_ended: bool,
    broken: Option<Failure>,
}

/// Where a part of a leaf was,
#[derive(Default)]
struct CopiedLeaf {
    address: usize,
    len: usize,
    /// and where it is among the bytes.
    at: usize,
    /// How long that is what its keys begin with.
    prefix_len: usize,
    /// How many of its records are still to come.
    left: usize,
}

impl Reading<'_> {
    #[inline(always)]
    fn is_enough(&self) -> bool {
        self.records.len() >= self.most || self.bytes.len() >= self.bytes_max
    }

    #[inline(always)]
    fn add(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        let place = value.as_ptr().addr().wrapping_sub(self.leaf.address);
        let is_copied = place < self.leaf.len;
        if !is_copied && self.leaf.len > 0 {
            // A long one: what comes behind it is copied anew, if any more is wanted.
            self.leaf = CopiedLeaf::default();
            self.prefixes.push((self.records.len(), 0..0));
        }
        let key = if self.is_table {
            let Some(rowid) = key::rowid(key) else {
                self.broken = Some(no_rowid());
                return ControlFlow::Break(());
            };
            rowid
        } else if is_copied {
            let end = self.leaf.at + place;
            placed(end + self.leaf.prefix_len - key.len()..end)
        } else {
            self.bytes.extend_from_slice(key);
            placed(self.bytes.len() - key.len()..self.bytes.len())
        };
        let at = if is_copied { self.leaf.at + place } else { self.bytes.len() };
        let (Ok(at), Ok(len)) = (u32::try_from(at), u32::try_from(value.len())) else {
            self.broken = Some(too_long());
            return ControlFlow::Break(());
        };
        if !is_copied {
            self.bytes.extend_from_slice(value);
        }
        self.records.push(Record { key, at, len });
        // What was copied as a whole is gone through as a whole, up to a long one.
        self.leaf.left = self.leaf.left.saturating_sub(1);
        self.is_ended = self.leaf.left == 0 && self.is_enough();
        match self.is_ended {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Each<()> for &mut Reading<'_> {
    #[inline(always)]
    fn one(&mut self, (): (), key: &[u8], value: &[u8]) -> ControlFlow<()> {
        self.add(key, value)
    }

    fn wants_many(&self) -> bool {
        self.most >= RECORDS_MANY
    }

    /// Copies the leaf as a whole if many of its records are wanted.
    fn leaf(&mut self, prefix: &[u8], cells: &[u8], records: usize, of: usize) {
        if self.leaf.len > 0 && !self.is_table {
            self.prefixes.push((self.records.len(), 0..0));
        }
        self.leaf = CopiedLeaf::default();
        let wanted = records.min(self.most.saturating_sub(self.records.len()));
        if MANY * wanted > of {
            if !self.is_table {
                self.prefixes.push((self.records.len(), self.bytes.len()..self.bytes.len() + prefix.len()));
                self.bytes.extend_from_slice(prefix);
            }
            let (address, len, at) = (cells.as_ptr().addr(), cells.len(), self.bytes.len());
            self.leaf = CopiedLeaf { address, len, at, prefix_len: prefix.len(), left: records };
            self.bytes.extend_from_slice(cells);
            self.records.reserve(records);
        }
    }
}

/// The place of a key, as a record has it.
fn placed(key: Range<usize>) -> i64 {
    // What lies before a record's data is within four gigabytes, or there is no record.
    (key.start as u64 | (key.len() as u64) << 32) as i64
}

/// Where a record has its key.
fn place(key: i64) -> Range<usize> {
    let (start, len) = (key as u32 as usize, (key as u64 >> 32) as usize);
    start..start + len
}

/// What a key of a table is that no row id is.
pub(crate) fn no_rowid() -> Failure {
    Failure::corrupt("a key of a table is not a row id")
}

/// What a record is of which SQLite cannot say how long it is.
pub(crate) fn too_long() -> Failure {
    Failure::corrupt("a record is longer than SQLite's records can be")
}

#[cfg(test)]
mod tests {
    use sablecat::Env;

    use super::*;

    /// Of long records no more are read at a time than there is room for, however many a leaf has.
    #[test]
    fn long_records_are_not_read_ahead_by_the_leaf() {
        const LONG: usize = 100_000;
        let env = Env::in_memory().expect("in memory nothing fails");
        let tree = env.database("rows").expect("a table");
        for rowid in 0..300 {
            tree.insert(key::of_rowid(rowid), vec![rowid as u8; LONG]).expect("a row");
        }
        let txn = env.begin().expect("a transaction");
        for is_noted in [false, true] {
            let mut ahead = Ahead::new(true);
            let state = StateOf { is_noted, ..StateOf::default() };
            ahead.begin(&txn, &tree, (Bound::Unbounded, true, state)).expect("rows");
            let mut key = Vec::new();
            for rowid in 0..300 {
                let (found, data) = ahead.record().expect("a row");
                assert!(found == rowid && data.len() == LONG && data[LONG / 2] == rowid as u8, "{rowid}");
                let most = BYTES_MAX + LONG + (1 << 16);
                assert!(ahead.bytes.len() <= most, "{} bytes at row {rowid}", ahead.bytes.len());
                if !ahead.advance() {
                    ahead.copy_key(&mut key);
                    ahead.more(&txn, &tree, &key).expect("rows");
                }
            }
            assert!(ahead.record().is_none());
        }
    }
}

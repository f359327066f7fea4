//! Records read ahead of a cursor that goes forward.
//!
//! Records are copied some at a time, shown in place by the tree, into memory that is used again for the next
//! ones. Few at first, as most seeks want a record and a look at the one behind it, then more each time.
//!
//! Nobody minds what else a statement reads that only reads, and sees one state. A transaction that is to be
//! serialisable notes what it reads, and conflicts by that; a leaf of which it wants a record counts as read
//! from there on in any case. So it reads no more at a time than lies in a few leaves.
//!
//! What is read ahead is of the tree as it was then. A change by the cursor itself of the record that it is
//! at leaves what comes behind as it is; after any other change of the tree it is read anew.

use std::ops::{Bound, ControlFlow};

use sablecat::{Database, Result, Txn};

/// How many records are read at first, where it is not noted what is read; else the one that is asked for.
/// Each time after that four times as many,
const RECORDS_MIN: usize = 2;
/// up to this.
const RECORDS_MAX: usize = 256;
/// No more are read once they have so many bytes,
const BYTES_MAX: usize = 1 << 16;
/// or so many, where it is noted what is read.
const BYTES_NOTED_MAX: usize = 1 << 14;

/// Some records that follow each other.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Their keys and values, one after the other,
    bytes: Vec<u8>,
    /// and where each key and value ends.
    ends: Vec<(usize, usize)>,
    /// Which one the cursor is at.
    at: usize,
    /// How many are to be read at a time.
    most: usize,
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
    /// Whether they are of this state.
    pub(crate) fn is_of(&self, state: StateOf) -> bool {
        self.of == state
    }

    /// The record that the cursor is at was changed, and the tree is in this state since.
    pub(crate) fn stays(&mut self, state: StateOf) {
        self.of = state;
    }

    /// Reads the first records from a key on, in this state.
    pub(crate) fn begin(
        &mut self,
        txn: &Txn<'_>,
        tree: &Database,
        (lower, state): (Bound<&[u8]>, StateOf),
    ) -> Result<()> {
        self.of = state;
        self.most = if state.is_noted { 1 } else { RECORDS_MIN };
        self.read(txn, tree, lower)
    }

    /// Has no records any more. What one long record has taken is not kept for short ones.
    pub(crate) fn leave(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.shrink_to(2 * BYTES_MAX);
    }

    /// Goes to the next record, which is read with more behind it if it was not yet.
    pub(crate) fn next(&mut self, txn: &Txn<'_>, tree: &Database, key: &[u8]) -> Result<()> {
        self.at += 1;
        if self.at < self.ends.len() {
            return Ok(());
        }
        self.most = (self.most * 4).min(RECORDS_MAX);
        self.read(txn, tree, Bound::Excluded(key))
    }

    /// The record that the cursor is at; none behind the last one.
    pub(crate) fn record(&self) -> Option<(&[u8], &[u8])> {
        let (key_end, end) = *self.ends.get(self.at)?;
        let begin = self.at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some((&self.bytes[begin..key_end], &self.bytes[key_end..end]))
    }

    fn read(&mut self, txn: &Txn<'_>, tree: &Database, lower: Bound<&[u8]>) -> Result<()> {
        self.leave();
        self.at = 0;
        let Ahead { bytes, ends, most, of, .. } = self;
        let bytes_max = if of.is_noted { BYTES_NOTED_MAX } else { BYTES_MAX };
        txn.visit(tree, (lower, Bound::<&[u8]>::Unbounded), |key, value| {
            bytes.extend_from_slice(key);
            let key_end = bytes.len();
            bytes.extend_from_slice(value);
            ends.push((key_end, bytes.len()));
            match ends.len() < *most && bytes.len() < bytes_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })
    }
}

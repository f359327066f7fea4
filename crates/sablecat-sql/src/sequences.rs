//! What AUTOINCREMENT is made of: for each table a row of `sqlite_sequence`, with the greatest number that a
//! row of it was ever given.
//!
//! Every statement that inserts reads that row first and raises it at its end, so any two transactions that
//! do would meet there. They need not: the greater number counts, whichever commits last. So what is read of
//! the table for this is nothing that the transaction depends on, but that there is no row yet; and right
//! before the commit, with the row locked by name, it is raised to what others have committed of it
//! meanwhile. The lock goes when the commit is visible, before anything is flushed: what is durable of two
//! such commits is the first, or both.
//!
//! A new row gets a number behind all that was committed of the row of the sequence, and of the table:
//! numbers that are given are locked, as those of other tables are ([`RowIds`](crate::row_ids::RowIds)), so
//! that the next transaction takes others.
//!
//! A program that sets the row itself, as to begin anew, depends on it as on any, and so does AUTOINCREMENT
//! in that transaction from then on. Where it had raised the row before, the commit looks whether that is
//! still what it was raised from.

use std::time::Duration;

use sablecat::ErrorKind;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::key;
use crate::record::{Value, Values, push_varint};
use crate::row_ids::word;

type Result<T> = std::result::Result<T, Failure>;

/// What the names of all locks begin with.
const NAME: &[u8] = b"sablecat-sql sequences";
/// How long a transaction that commits may have one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The numbers of a table with AUTOINCREMENT, as a statement has read of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    /// The greatest.
    pub(crate) last: i64,
    /// The table of sequences and the row of it that says so; none if there is none yet.
    pub(crate) row: Option<(u32, i64)>,
}

/// A row of sequences that the transaction in progress has changed.
#[derive(Debug)]
struct SequenceRow {
    /// The table that it is in, and its number.
    at: (u32, i64),
    /// What it was when AUTOINCREMENT raised it first, if the program had not set it before.
    raised_from: Option<Vec<u8>>,
    /// Whether the program itself has set, made or removed it.
    is_own: bool,
}

/// Rows of sequences that the transaction in progress has changed: no more than it has such tables.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Vec<SequenceRow>);

impl Sequences {
    /// AUTOINCREMENT raises a row that was not changed before, from what it is.
    pub(crate) fn raised(&mut self, at: (u32, i64), from: Vec<u8>) {
        self.0.push(SequenceRow { at, raised_from: Some(from), is_own: false });
    }

    /// The program has set, made or removed a row itself, and depends on what it says.
    pub(crate) fn is_set(&mut self, at: (u32, i64)) {
        match self.0.iter_mut().find(|row| row.at == at) {
            Some(row) => row.is_own = true,
            None => self.0.push(SequenceRow { at, raised_from: None, is_own: true }),
        }
    }

    /// Whether a row was changed at all.
    pub(crate) fn is_changed(&self, at: (u32, i64)) -> bool {
        self.0.iter().any(|row| row.at == at)
    }

    /// Whether AUTOINCREMENT alone has changed a row.
    pub(crate) fn is_raised(&self, at: (u32, i64)) -> bool {
        self.0.iter().any(|row| row.at == at && !row.is_own)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Of which table a row says what number.
fn read(record: &[u8]) -> Result<(&[u8], i64)> {
    let mut values = Values::of(record)?;
    let name = match values.next()? {
        Value::Text(name) | Value::Blob(name, _) => name,
        _ => &[],
    };
    let last = match values.next()? {
        Value::Integer(last) => last,
        _ => 0,
    };
    Ok((name, last))
}

/// The record of a row: a text and an integer of eight bytes.
fn written(name: &[u8], last: i64) -> Vec<u8> {
    const INTEGER: u8 = 6;
    let mut types = Vec::new();
    push_varint(&mut types, 13 + 2 * name.len() as u64);
    types.push(INTEGER);
    let mut record = Vec::new();
    // Of fewer than 127 bytes, with itself.
    push_varint(&mut record, types.len() as u64 + 1);
    [record, types, name.to_vec(), last.to_be_bytes().to_vec()].concat()
}

/// The record of a row, as it was committed last; none if there is none.
fn committed(of: &mut Connection, (root, row): (u32, i64)) -> Result<Option<Vec<u8>>> {
    match of.tree(root)?.get(key::of_rowid(row)) {
        // Nobody else has the table, or nobody has it any more.
        Err(error) if matches!(error.kind(), ErrorKind::NotAllowed | ErrorKind::NotFound) => Ok(None),
        record => Ok(record?),
    }
}

/// The greatest number that a row says, as it was committed last; none if it was another table's then, which
/// the transaction in progress has removed.
pub(crate) fn last_committed(of: &mut Connection, row: (u32, i64)) -> Result<Option<i64>> {
    let Some(theirs) = committed(of, row)? else { return Ok(None) };
    let (named, last) = read(&theirs)?;
    let (tree, key) = (of.tree(row.0)?, key::of_rowid(row.1));
    let own = of.txn()?.unvalidated(|txn| txn.get(&tree, key))?;
    let is_same = own.is_none_or(|own| read(&own).is_ok_and(|(name, _)| name == named));
    Ok(is_same.then_some(last))
}

fn path((root, row): (u32, i64)) -> [Vec<u8>; 2] {
    [NAME.to_vec(), [word(root.into()), word(row as u64)].concat()]
}

/// Raises what the transaction in progress is about to commit to what others have committed meanwhile, and
/// keeps them from more. Returns what is to be [unlocked](unlock) once it has committed.
pub(crate) fn join(of: &mut Connection) -> Result<Vec<(u32, i64)>> {
    let mut rows = std::mem::take(&mut of.sequences.0);
    if of.is_alone() {
        return Ok(Vec::new());
    }
    // In one order, so that no two wait for each other.
    rows.sort_unstable_by_key(|row| row.at);
    let raised: Vec<_> = rows.iter().filter(|row| row.raised_from.is_some()).map(|row| row.at).collect();
    for &row in &raised {
        if !of.lock_path(path(row), PATIENCE)? {
            unlock(of, &raised);
            of.sequences.0 = rows;
            return Err(Failure::busy());
        }
    }
    for SequenceRow { at, raised_from, is_own } in rows {
        let Some(from) = raised_from else { continue };
        let theirs = committed(of, at)?;
        if is_own {
            // Set afterwards, from what was then the transaction's own.
            if theirs.as_ref() != Some(&from) {
                return Err(of.fails(Failure::conflict()));
            }
            continue;
        }
        let (tree, key) = (of.tree(at.0)?, key::of_rowid(at.1));
        let Some(own) = of.txn()?.unvalidated(|txn| txn.get(&tree, key))? else { continue };
        let (name, last) = read(&own)?;
        let Some(theirs) = theirs else { return Err(of.fails(Failure::conflict())) };
        let (named, theirs) = read(&theirs)?;
        if named != name {
            return Err(of.fails(Failure::conflict()));
        }
        if theirs > last {
            of.txn()?.insert(&tree, key, written(name, theirs))?;
        }
    }
    Ok(raised)
}

/// Others may commit such rows.
pub(crate) fn unlock(of: &mut Connection, rows: &[(u32, i64)]) {
    rows.iter().for_each(|row| of.unlock_path(path(*row)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for name in ["t", "", &"long".repeat(100), &"longer".repeat(20_000)] {
            for last in [0, 1, -1, 1 << 40, i64::MAX] {
                let record = written(name.as_bytes(), last);
                assert_eq!(read(&record).map_err(|failure| failure.message), Ok((name.as_bytes(), last)));
            }
        }
    }
}

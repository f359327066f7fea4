//! Ranges: records in order, from either end.

use std::fmt;

use super::read::{Record, within};
use super::{Database, KeySpan, Read};
use crate::access::Scan;
use crate::error::Result;

/// Records in order: an iterator from both ends over pairs of key and value, or errors.
///
/// It copies a leaf at a time. `S` is what it reads from: a [`ReadTxn`](crate::ReadTxn) for a range of a
/// snapshot or a database, which then borrows from nothing and may move between threads; or a reference to a
/// [`Txn`](crate::Txn) or a [`DataStore`](crate::DataStore).
///
/// ```
/// fn sent<T: Send + 'static>() {}
/// sent::<sablecat::Range<sablecat::ReadTxn>>();
/// ```
pub struct Range<S: Read> {
    state: S,
    database: Database<S::Of>,
    scan: Scan,
    failed: bool,
}

impl<S: Read> fmt::Debug for Range<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("database", &self.database.name()).finish_non_exhaustive()
    }
}

impl<S: Read> Range<S> {
    pub(super) fn new(state: S, database: Database<S::Of>, (lower, upper): KeySpan) -> Range<S> {
        Range { state, database, scan: Scan::new(lower, upper), failed: false }
    }

    /// What it reads in.
    pub(super) fn state(&self) -> &S {
        &self.state
    }

    fn step(&mut self, forward: bool) -> Option<Result<Record>> {
        if self.failed {
            return None;
        }
        let scan = &mut self.scan;
        let next = within(&self.state, &self.database, |txn, tree| txn.records.next(tree, scan, forward));
        self.failed = next.is_err();
        next.transpose()
    }
}

impl<S: Read> Iterator for Range<S> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.step(true)
    }
}

impl<S: Read> DoubleEndedIterator for Range<S> {
    fn next_back(&mut self) -> Option<Result<Record>> {
        self.step(false)
    }
}

//! Ranges: records in order, from either end.

use std::fmt;

use super::{Bounds, Database};
use crate::access::btree::Scan;
use crate::error::Result;
use crate::txn::{Durability, Isolation, Options, Transaction, TreeRef};

/// Records in order: an iterator from both ends over pairs of key and value, or errors.
///
/// It copies a leaf at a time and holds nothing else between two records but its snapshot.
pub struct Range<'a> {
    source: Source<'a>,
    tree: TreeRef,
    scan: Scan,
    failed: bool,
}

enum Source<'a> {
    /// A snapshot of the range's own.
    Own(Box<Transaction<'a>>),
    /// The transaction it was asked of.
    Lent(Box<dyn Lender + 'a>),
}

/// A transaction that a range borrows.
pub(super) trait Lender {
    fn next(&mut self, tree: &TreeRef, scan: &mut Scan, forward: bool) -> Result<Option<(Vec<u8>, Vec<u8>)>>;
}

impl fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("tree", &self.tree).finish_non_exhaustive()
    }
}

impl<'a> Range<'a> {
    /// A range with a snapshot of its own.
    pub(super) fn owned(db: &'a Database, (lower, upper): Bounds) -> Result<Range<'a>> {
        let core = db.env().core();
        let options =
            Options { isolation: Isolation::Snapshot, durability: Durability::Memory, read_only: true, patience: core.config.lock_timeout };
        // The snapshot first: a database that is there after it stays there in it.
        let own = Box::new(Transaction::begin(&core.kernel, options)?);
        Ok(Range { source: Source::Own(own), tree: db.tree()?.clone(), scan: Scan::new(lower, upper), failed: false })
    }

    /// A range in a transaction.
    pub(super) fn lent(lender: impl Lender + 'a, tree: &TreeRef, (lower, upper): Bounds) -> Range<'a> {
        Range { source: Source::Lent(Box::new(lender)), tree: tree.clone(), scan: Scan::new(lower, upper), failed: false }
    }

    fn step(&mut self, forward: bool) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        if self.failed {
            return None;
        }
        let next = match &mut self.source {
            Source::Own(txn) => txn.next(&self.tree, &mut self.scan, forward),
            Source::Lent(lender) => lender.next(&self.tree, &mut self.scan, forward),
        };
        self.failed = next.is_err();
        next.transpose()
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

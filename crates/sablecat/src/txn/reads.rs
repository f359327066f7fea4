//! What a serialisable transaction has seen, and whether it still stands when the transaction commits.
//!
//! Each read is noted with the leaf it came from and the LSN at which that leaf's version became current. In the commit step nobody else can
//! commit, so a leaf whose current version is still that one cannot have changed; for any other leaf the read is done again, at the
//! snapshot and at the newest state, and the two are compared record by record. So a neighbour's change in the same page, a split, or an
//! eviction and reload is no conflict, and there are no phantoms: what is compared is the range that was read, not the records found.
//! (Kung and Robinson's backward validation; the leaf test is Silo's node set.)

use std::ops::Bound;

use sablecat_os::atomic::Ordering;

use super::{Kernel, TreeRef, conflict};
use crate::access::btree::{LeafCopy, Scan, Source, Wanted};
use crate::error::Result;
use crate::pages::Participant;
use crate::types::{FrameId, Lsn, PageId};

/// One read: a range of keys of one tree that lay in one leaf.
#[derive(Debug)]
struct Read {
    tree: usize,
    page: PageId,
    born: Lsn,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

/// The reads of a transaction.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    trees: Vec<TreeRef>,
    reads: Vec<Read>,
}

impl ReadSet {
    /// Notes that the keys between the bounds were read from this leaf page.
    pub(crate) fn note(&mut self, tree: &TreeRef, page: PageId, born: Lsn, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        let index = self.tree_index(tree);
        self.reads.push(Read { tree: index, page, born, lower: lower.map(<[u8]>::to_vec), upper: upper.map(<[u8]>::to_vec) });
    }

    fn tree_index(&mut self, tree: &TreeRef) -> usize {
        match self.trees.iter().position(|have: &TreeRef| have.id == tree.id) {
            Some(at) => at,
            None => {
                self.trees.push(tree.clone());
                self.trees.len() - 1
            }
        }
    }

    /// Forgets everything: the transaction's snapshot has moved.
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
    }

    /// A conflict if anything read at `at` would read differently now. Called in the commit step, so "now" holds still.
    pub(crate) fn validate(&self, kernel: &Kernel, at: Lsn, me: &Participant) -> Result<()> {
        for read in &self.reads {
            let frame = kernel.pages.region.entry(read.page).word().frame();
            // SeqCst is not needed: the commit role orders us behind every published commit.
            let entry = kernel.pages.region.entry(read.page);
            // Looked at twice: no operation keeps the frame from being evicted and used again in between.
            if frame != FrameId::NONE
                && kernel.pages.region.born(frame).load(Ordering::Acquire) == read.born.0
                && entry.word().frame() == frame
            {
                continue;
            }
            let tree = &self.trees[read.tree];
            let now = kernel.pages.region.header().visible();
            let (lower, upper) = (read.lower.as_ref().map(Vec::as_slice), read.upper.as_ref().map(Vec::as_slice));
            // The guard pin of the commit step, or the snapshot itself, holds the newest state: nobody else publishes meanwhile.
            if !same(kernel, tree, lower, upper, at, now, me)? {
                return Err(conflict("another transaction changed what this one has read, and committed first; run it again"));
            }
        }
        Ok(())
    }
}

/// Whether the range reads the same at two moments.
fn same(kernel: &Kernel, tree: &TreeRef, lower: Bound<&[u8]>, upper: Bound<&[u8]>, at: Lsn, now: Lsn, me: &Participant) -> Result<bool> {
    let scan = || Scan::new(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
    let (mut then, mut newest) = (scan(), scan());
    let view = tree.tree();
    let mut then_source = Committed { kernel, me, tree, at };
    let mut newest_source = Committed { kernel, me, tree, at: now };
    loop {
        let (before, after) = (then.next(&view, &mut then_source, true)?, newest.next(&view, &mut newest_source, true)?);
        if before != after {
            return Ok(false);
        }
        if before.is_none() {
            return Ok(true);
        }
    }
}

/// The committed state at one LSN, as a scan's source.
pub(super) struct Committed<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) me: &'a Participant,
    pub(super) tree: &'a TreeRef,
    pub(super) at: Lsn,
}

impl Source for Committed<'_> {
    fn leaf(&mut self, wanted: Wanted<'_>, _: Bound<&[u8]>, _: Bound<&[u8]>, into: &mut LeafCopy) -> Result<()> {
        self.kernel.pages.operate(self.me, || {
            let snapshot = self.kernel.pages.at_pin(self.me, self.at)?;
            let page = wanted.find(&snapshot, &self.tree.tree())?;
            into.fill(snapshot.page(page)?);
            Ok(())
        })
    }

    fn pending(&self, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        None
    }
}

//! What a serialisable transaction has seen, and whether it still stands when the transaction commits.
//!
//! Each read is noted with the leaf it came from and the LSN at which that leaf's version became current. In the commit step nobody else can
//! commit, so a leaf whose current version is still that one cannot have changed; for any other leaf the read is done again, at the
//! snapshot and at the newest state, and the two are compared record by record. So a neighbour's change in the same page, a split, or an
//! eviction and reload is no conflict, and there are no phantoms: what is compared is the range that was read, not the records found.
//! A leaf that has not changed is still where it was, in a subtree too: what unmakes a subtree frees its pages.
//!
//! (Kung and Robinson's backward validation; the leaf test is Silo's node set.)

use std::ops::{Bound, Range};

use sablecat_os::atomic::Ordering;

use super::{Committed, Kernel, TreeRef, conflict};
use crate::access::btree::{Scan, nest};
use crate::error::Result;
use crate::pages::Participant;
use crate::types::{FrameId, Lsn, PageId};

/// One read: a range of keys of one tree, or of a subtree of it, that lay in one leaf.
#[derive(Debug)]
struct Read {
    tree: usize,
    /// What leads to the subtree, in [`ReadSet::stems`]; nothing: it is the tree itself.
    stems: Range<usize>,
    page: PageId,
    born: Lsn,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

/// The reads of a transaction.
#[derive(Debug)]
pub(crate) struct ReadSet {
    page_size: usize,
    trees: Vec<TreeRef>,
    reads: Vec<Read>,
    /// Ways down to subtrees. Reads that follow each other on one way down share it.
    stems: Vec<u8>,
}

impl ReadSet {
    pub(crate) fn new(page_size: usize) -> ReadSet {
        ReadSet { page_size, trees: Vec::new(), reads: Vec::new(), stems: Vec::new() }
    }

    /// Notes that the keys between the bounds were read from this leaf page, of the subtree that `stems` lead to.
    pub(crate) fn note(&mut self, tree: &TreeRef, stems: &[u8], page: PageId, born: Lsn, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        let stem_bytes = nest::stem_bytes(tree.tree().order, self.page_size);
        let bound = |bound: Bound<&[u8]>| match bound {
            // What there is of a nested key in a tree is its stem.
            Bound::Included(key) | Bound::Excluded(key) if key.len() >= stem_bytes => Bound::Included(key[..stem_bytes].to_vec()),
            bound => bound.map(<[u8]>::to_vec),
        };
        let (tree, stems) = (self.tree_index(tree), self.keep_stems(stems));
        self.reads.push(Read { tree, stems, page, born, lower: bound(lower), upper: bound(upper) });
    }

    /// Keeps the way to a subtree.
    fn keep_stems(&mut self, stems: &[u8]) -> Range<usize> {
        let start = self.reads.last().map_or(0, |read| read.stems.start);
        let last = &self.stems[start..];
        if last.starts_with(stems) {
            return start..start + stems.len();
        }
        let (start, more) = match stems.strip_prefix(last) {
            Some(more) => (start, more),
            None => (self.stems.len(), stems),
        };
        self.stems.extend_from_slice(more);
        start..self.stems.len()
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

    /// The trees that were read.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &TreeRef> {
        self.trees.iter()
    }

    /// Whether nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Forgets everything: the transaction's snapshot has moved.
    pub(crate) fn clear(&mut self) {
        self.trees.clear();
        self.reads.clear();
        self.stems.clear();
    }

    /// A conflict if anything read at `at` would read differently now. Called in the commit step, so "now" holds still.
    pub(crate) fn validate(&self, kernel: &Kernel, at: Lsn, me: &Participant) -> Result<()> {
        // What was read before trees were built anew may be no page of its tree any more, and so never change.
        let is_in_place = at >= kernel.pages.region.header().rebuilt_since();
        for read in &self.reads {
            let frame = kernel.pages.region.entry(read.page).word().frame();
            // SeqCst is not needed: the commit role orders us behind every published commit.
            let entry = kernel.pages.region.entry(read.page);
            // Looked at twice: no operation keeps the frame from being evicted and used again in between.
            if is_in_place
                && frame != FrameId::NONE
                && kernel.pages.region.born(frame).load(Ordering::Acquire) == read.born.0
                && entry.word().frame() == frame
            {
                continue;
            }
            let tree = &self.trees[read.tree];
            let now = kernel.pages.region.header().visible();
            // The guard pin of the commit step, or the snapshot itself, holds the newest state: nobody else publishes meanwhile.
            if !same(kernel, tree, &self.stems[read.stems.clone()], read, at, now, me)? {
                return Err(conflict("another transaction changed what this one has read, and committed first; run it again"));
            }
        }
        Ok(())
    }
}

/// Whether the range reads the same at two moments. References to subtrees are compared as what they are: what was read in a subtree
/// was noted by itself.
fn same(kernel: &Kernel, tree: &TreeRef, stems: &[u8], read: &Read, at: Lsn, now: Lsn, me: &Participant) -> Result<bool> {
    let view = tree.tree();
    let (mut then_source, mut newest_source) = (Committed { kernel, me, at }, Committed { kernel, me, at: now });
    let then_place = nest::find(&then_source, &view, stems, |_| {})?;
    let newest_place = nest::find(&newest_source, &view, stems, |_| {})?;
    if then_place.tree.root != newest_place.tree.root {
        return Ok(false);
    }
    let scan = || Scan::flat(read.lower.clone(), read.upper.clone());
    let (mut then, mut newest) = (scan(), scan());
    let view = then_place.tree;
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

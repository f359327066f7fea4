//! What a serialisable transaction has seen, and whether it still stands when the transaction commits.
//!
//! Each read is noted with the leaf it came from. In the commit step nobody else can commit, so a leaf whose current version is one that the snapshot
//! has cannot have changed; for any other leaf the read is done again, at the
//! snapshot and at the newest state, and the two are compared record by record. So a neighbour's change in the same page, a split, or an
//! eviction and reload is no conflict, and there are no phantoms: what is compared is the range that was read, not the records found.
//! A leaf that has not changed is still where it was, in a subtree too: what unmakes a subtree frees its pages.
//!
//! Who has read many leaves does all this before it takes the commit role, at a state of that moment; under the role each leaf is only asked whether it has
//! changed since (pages/unchanged.rs), and compared again if it has. What was read of one leaf is kept in one place, so that reading
//! the same again and again takes no memory.
//!
//! (Kung and Robinson's backward validation; the leaf test is Silo's node set.)

use std::ops::{Bound, Range};

use super::changes::PageMap;
use super::{Committed, Kernel, TreeRef, conflict};
use crate::access::Tree;
use crate::error::Result;
use crate::pages::Participant;
use crate::types::{Lsn, PageId};

/// Reads of more leaves than this are found by hashing.
const LINEAR_MAX: usize = 12;
/// Parts of one leaf that are kept apart; one more, and all that lies between them counts as read.
const SPANS_MAX: usize = 16;
/// Who has read more leaves than this validates before it takes the commit role, too.
const AHEAD: usize = 32;

/// Keys that were looked for.
#[derive(Debug)]
enum Span {
    Key(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Span {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        match self {
            Span::Key(key) => (Bound::Included(key), Bound::Included(key)),
            Span::Range(lower, upper) => (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice)),
        }
    }

    fn of(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Span {
        match (lower, upper) {
            (Bound::Included(one), Bound::Included(two)) if one == two => Span::Key(one.to_vec()),
            _ => Span::Range(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec)),
        }
    }

    /// Whether it has everything between two bounds in it, as far as that is told by one look.
    fn covers(&self, tree: &Tree<'_>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let (from, to) = self.bounds();
        (from, to) == (lower, upper)
            || matches!((lower, upper), (Bound::Included(one), Bound::Included(two)) if one == two && tree.above(one, from) && tree.below(one, to))
    }
}

/// A bound with its key. Whether that is in it too is the least of what is rounded up when spans are joined.
fn ajar(bound: Bound<&[u8]>) -> Bound<&[u8]> {
    match bound {
        Bound::Excluded(key) => Bound::Included(key),
        bound => bound,
    }
}

/// What was read of one leaf of a tree, or of a subtree of it.
#[derive(Debug)]
struct Read {
    tree: usize,
    /// What leads to the subtree, in [`ReadSet::stems`]; nothing: it is the tree itself.
    stems: Range<usize>,
    page: PageId,
    span: Span,
    more: Vec<Span>,
}

impl Read {
    fn spans(&self) -> impl Iterator<Item = &Span> {
        std::iter::once(&self.span).chain(&self.more)
    }

    /// One span in place of all.
    fn join(&mut self, tree: &Tree<'_>) {
        let (mut lower, mut upper) = self.span.bounds();
        for (from, to) in self.more.iter().map(Span::bounds) {
            if matches!(from, Bound::Unbounded) || matches!(from, Bound::Included(key) | Bound::Excluded(key) if !tree.above(key, lower)) {
                lower = from;
            }
            if matches!(to, Bound::Unbounded) || matches!(to, Bound::Included(key) | Bound::Excluded(key) if !tree.below(key, upper)) {
                upper = to;
            }
        }
        self.span = Span::of(ajar(lower), ajar(upper));
        self.more.clear();
    }
}

/// The reads of a transaction: as many as it read leaves, whatever it read of them and however often.
#[derive(Debug)]
pub(crate) struct ReadSet {
    page_size: usize,
    trees: Vec<TreeRef>,
    reads: Vec<Read>,
    /// Where in `reads` a leaf is, once they are many. One snapshot has each page once.
    index: PageMap<usize>,
    /// Ways down to subtrees. Reads that follow each other on one way down share it.
    stems: Vec<u8>,
    /// Trees that were to be read, and that the snapshot does not have.
    absent: Vec<TreeRef>,
}

impl ReadSet {
    pub(crate) fn new(page_size: usize) -> ReadSet {
        ReadSet { page_size, trees: Vec::new(), reads: Vec::new(), index: PageMap::default(), stems: Vec::new(), absent: Vec::new() }
    }

    /// Notes that the keys between the bounds were read from this leaf page, of the subtree that `stems` lead to.
    pub(crate) fn note(&mut self, tree: &TreeRef, stems: &[u8], page: PageId, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        let view = tree.tree();
        let (lower, upper) = (view.bound_read(lower, self.page_size), view.bound_read(upper, self.page_size));
        if let Some(at) = self.find(page) {
            let read = &mut self.reads[at];
            if !read.spans().any(|span| span.covers(&view, lower, upper)) {
                read.more.push(Span::of(lower, upper));
                if read.more.len() >= SPANS_MAX {
                    read.join(&view);
                }
            }
            return;
        }
        let (tree, stems) = (self.tree_index(tree), self.keep_stems(stems));
        self.reads.push(Read { tree, stems, page, span: Span::of(lower, upper), more: Vec::new() });
        if self.reads.len() > LINEAR_MAX {
            let known = self.index.len();
            self.index.extend(self.reads.iter().enumerate().skip(known).map(|(at, read)| (read.page, at)));
        }
    }

    /// Notes that a tree was found not to be there.
    pub(crate) fn note_absent(&mut self, tree: &TreeRef) {
        if !self.absent.iter().any(|have| have.id == tree.id) {
            self.absent.push(tree.clone());
        }
    }

    /// Where in `reads` a leaf is, if it is there.
    fn find(&self, page: PageId) -> Option<usize> {
        if self.reads.len() <= LINEAR_MAX { self.reads.iter().rposition(|read| read.page == page) } else { self.index.get(&page).copied() }
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

    /// The trees that were found not to be there.
    pub(super) fn absent(&self) -> impl Iterator<Item = &TreeRef> {
        self.absent.iter()
    }

    /// How many pieces of leaves are kept.
    #[cfg(test)]
    pub(crate) fn spans(&self) -> usize {
        self.reads.iter().map(|read| read.spans().count()).sum()
    }

    /// Whether nothing was read of any tree.
    pub(crate) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Forgets everything: the transaction's snapshot has moved.
    pub(crate) fn clear(&mut self) {
        self.trees.clear();
        self.reads.clear();
        self.index.clear();
        self.stems.clear();
        self.absent.clear();
    }

    /// Validates before the commit step, if that would take long there: with many leaves, which may have to be read in. Up to the state whose LSN is returned
    /// everything read at `at` still stands.
    pub(crate) fn validate_ahead(&self, kernel: &Kernel, at: Lsn, me: &Participant) -> Result<Lsn> {
        if self.reads.len() <= AHEAD {
            return Ok(at);
        }
        let newest = kernel.pages.guarded(me);
        self.compare(kernel, at, (at, newest.at()), me)?;
        Ok(newest.at())
    }

    /// A conflict if anything read at `at`, which still stood at `since`, would read differently now. Called in the commit step, so "now" holds still: the
    /// guard pin of the commit step, or the snapshot itself, holds the newest state, since nobody else publishes meanwhile.
    pub(crate) fn validate(&self, kernel: &Kernel, (at, since): (Lsn, Lsn), me: &Participant) -> Result<()> {
        let now = kernel.pages.region.header().visible();
        self.compare(kernel, since, (at, now), me)
    }

    /// A conflict if anything reads differently at two moments, of which the participant has pinned both. Up to `since` nothing does.
    fn compare(&self, kernel: &Kernel, since: Lsn, (at, now): (Lsn, Lsn), me: &Participant) -> Result<()> {
        if now == since {
            return Ok(());
        }
        // What was read before trees were built anew may be no page of its tree any more, and so never change: at `at`, whatever has been compared since.
        let is_in_place = at >= kernel.pages.region.header().rebuilt_since();
        for read in self.reads.iter().filter(|read| !is_in_place || !kernel.pages.is_unchanged_since(read.page, since)) {
            let (tree, stems) = (&self.trees[read.tree], &self.stems[read.stems.clone()]);
            for span in read.spans() {
                if !same(kernel, (tree, stems), span, (at, now), me)? {
                    return Err(conflict("another transaction changed what this one has read, and committed first; run it again"));
                }
            }
        }
        Ok(())
    }
}

/// Whether the range reads the same at two moments.
fn same(kernel: &Kernel, (tree, stems): (&TreeRef, &[u8]), span: &Span, (at, now): (Lsn, Lsn), me: &Participant) -> Result<bool> {
    let (mut then, mut newest) = (Committed { kernel, me, at }, Committed { kernel, me, at: now });
    tree.tree().reads_same(stems, span.bounds(), (&mut then, &mut newest))
}

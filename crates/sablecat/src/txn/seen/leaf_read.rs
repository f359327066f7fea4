//! What a transaction has read of one leaf, in as few pieces as it takes.

use std::ops::{Bound, Range};

use super::span::ReadSpan;
use crate::access::Tree;
use crate::seldom::Seldom;
use crate::types::PageId;

/// Parts of one leaf that are kept apart; one more, and all that lies between them counts as read, then and
/// from then on.
const SPANS_MAX: usize = 16;

/// What was read of one leaf of a tree, or of a subtree of it.
#[derive(Debug)]
pub(super) struct LeafRead {
    /// Which of the set's trees.
    pub(super) tree: usize,
    /// What leads to the subtree, in the set's stems; nothing: it is the tree itself.
    pub(super) stems: Range<usize>,
    pub(super) page: PageId,
    span: ReadSpan,
    more: Seldom<MoreSpans>,
}

/// What was read of a leaf of which one span does not say it.
#[derive(Debug, Default)]
struct MoreSpans {
    spans: Vec<ReadSpan>,
    /// All is in the one span, and stays so.
    are_joined: bool,
}

impl LeafRead {
    /// A span of a leaf, of a subtree of a tree.
    pub(super) fn new((tree, stems): (usize, Range<usize>), page: PageId, span: ReadSpan) -> LeafRead {
        LeafRead { tree, stems, page, span, more: Seldom::default() }
    }

    /// All of them.
    pub(super) fn spans(&self) -> impl Iterator<Item = &ReadSpan> {
        std::iter::once(&self.span).chain(self.more.get().into_iter().flat_map(|more| &more.spans))
    }

    /// Notes that what lies between two bounds was read.
    pub(super) fn note(&mut self, tree: &Tree<'_>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        if self.spans().any(|span| span.covers(tree, lower, upper)) {
            return;
        }
        let more = self.more.needed();
        if more.are_joined {
            self.span.widen(tree, lower, upper);
            return;
        }
        more.spans.push(ReadSpan::of(lower, upper));
        if more.spans.len() >= SPANS_MAX {
            more.are_joined = true;
            for (lower, upper) in std::mem::take(&mut more.spans).iter().filter_map(ReadSpan::bounds) {
                self.span.widen(tree, lower, upper);
            }
        }
    }

    /// Notes that all of it was read.
    pub(super) fn note_page(&mut self) {
        self.span = ReadSpan::Page;
        self.more.clear();
    }

    /// Notes what another has of the same leaf.
    pub(super) fn absorb(&mut self, tree: &Tree<'_>, other: &LeafRead) {
        for span in other.spans() {
            match span.bounds() {
                Some((lower, upper)) => self.note(tree, lower, upper),
                None => self.note_page(),
            }
        }
    }
}

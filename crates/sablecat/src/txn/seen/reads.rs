//! What a serialisable transaction has read, as it is kept until it is compared
//! ([`validation`](super::validation)).
//!
//! What is read is noted one behind the other, with the leaf it came from. What was read of one leaf is
//! brought to one place once that is much, so that reading the same again and again takes no memory, or once
//! it is looked for.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use super::key_read::KeyRead;
use super::leaf_read::LeafRead;
use super::span::{ReadSpan, allocated};
use crate::access::{KeyBounds, KeySpan};
use crate::pages::PageMap;
use crate::seldom::Seldom;
use crate::txn::catalog::TreeRef;
use crate::txn::ranges;
use crate::types::PageId;

/// So much is noted one behind the other before it is brought to where other reads of its leaves are. And of
/// so much, in leaves or behind each other, it is left to the commit step to find what has changed, where
/// nothing had before.
pub(super) const FRESH_MAX: usize = 1 << 13;
/// Nor do ways down to subtrees, and long keys, take more bytes until then.
const FRESH_BYTES_MAX: usize = 1 << 16;
/// Reads of more leaves than this are found by hashing.
pub(super) const LINEAR_MAX: usize = 12;

/// How many records there were between two bounds of a counted tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CountedSpan {
    pub(super) tree: usize,
    pub(super) span: KeySpan,
    pub(super) records: u64,
}

/// The reads of a transaction: as many as it read leaves, whatever it read of them and however often, and
/// some more.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    pub(super) trees: Vec<TreeRef>,
    /// One for each leaf,
    pub(super) reads: Vec<LeafRead>,
    /// and what was read since they were put together, as it came.
    fresh: Vec<LeafRead>,
    /// Short keys, and leaves as a whole, that were read since, as they came.
    keys: Vec<KeyRead>,
    /// So many bytes of its keys are in memory of their own, at most.
    fresh_bytes: usize,
    /// Ways down to subtrees. Reads that follow each other on one way down share it.
    pub(super) stems: Vec<u8>,
    /// Where the last of these begins.
    last_way: usize,
    /// How long `stems` was, and where its last way began, when all was brought together last.
    settled_ways: (usize, usize),
    pub(super) more: Seldom<SeldomRead>,
    /// How often what was read was compared.
    #[cfg(test)]
    pub(super) compared: std::cell::Cell<usize>,
    /// The time of the transaction, by which records have lapsed or not; 0: it was not asked for.
    pub(in crate::txn) time: u64,
}

/// What few transactions have read.
#[derive(Debug, Default)]
pub(super) struct SeldomRead {
    /// Where in `reads` a leaf is, once they are many. One snapshot has each page once.
    index: PageMap<usize>,
    /// What was counted.
    counted: Vec<CountedSpan>,
    /// Trees that were to be read, and that the snapshot does not have.
    absent: Vec<TreeRef>,
    /// Where what was read of a leaf is since that has changed, each with where in `reads` it is.
    pub(super) homes: BTreeSet<(PageId, usize)>,
}

impl ReadSet {
    /// Notes that the keys between the bounds, which are as such things are kept ([`Tree::bound_read`]), were
    /// read from this leaf page, of the subtree that `stems` lead to.
    pub(crate) fn note(
        &mut self,
        tree: &TreeRef,
        stems: &[u8],
        page: PageId,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) {
        let short = match (lower, upper) {
            (Bound::Included(key), Bound::Included(other))
                if std::ptr::eq(key, other) && stems.is_empty() =>
            {
                KeyRead::new(|| self.tree_index(tree), page, key)
            }
            _ => None,
        };
        if let Some(read) = short {
            self.add_short(read);
            return;
        }
        self.fresh_bytes += allocated(lower) + allocated(upper);
        match self.fresh.last_mut() {
            Some(last) if last.page == page => last.note(&tree.tree(), lower, upper),
            _ => self.add(tree, stems, page, ReadSpan::of(lower, upper)),
        }
    }

    /// Notes that all that a leaf page of the subtree that `stems` lead to has was read.
    pub(crate) fn note_page(&mut self, tree: &TreeRef, stems: &[u8], page: PageId) {
        if stems.is_empty()
            && let Some(read) = KeyRead::all(self.tree_index(tree), page)
        {
            self.add_short(read);
            return;
        }
        match self.fresh.last_mut() {
            Some(last) if last.page == page => last.note_page(),
            _ => self.add(tree, stems, page, ReadSpan::Page),
        }
    }

    /// Adds what was read behind all else, unless that is the same.
    #[inline]
    fn add_short(&mut self, read: KeyRead) {
        if self.keys.last() != Some(&read) {
            self.keys.push(read);
            self.settle_if_much();
        }
    }

    /// Adds what was read of a leaf behind all else.
    fn add(&mut self, tree: &TreeRef, stems: &[u8], page: PageId, span: ReadSpan) {
        let (tree, stems) = (self.tree_index(tree), self.keep_stems(stems));
        self.fresh.push(LeafRead::new((tree, stems), page, span));
        self.settle_if_much();
    }

    #[inline]
    fn settle_if_much(&mut self) {
        let bytes = self.fresh_bytes + self.stems.len() - self.settled_ways.0;
        if self.fresh.len() + self.keys.len() >= FRESH_MAX || bytes >= FRESH_BYTES_MAX {
            self.settle();
        }
    }

    /// Has all that was read since it was last brought to its leaves be such as can be looked at.
    pub(super) fn spell_out(&mut self) {
        let no_way = self.keep_stems(&[]);
        self.fresh.extend(self.keys.drain(..).map(|read| read.whole(no_way.clone())));
    }

    /// Whether all is where other reads of its leaves are.
    pub(super) fn is_settled(&self) -> bool {
        self.fresh.is_empty() && self.keys.is_empty()
    }

    /// Brings what was read since it was done last to where other reads of its leaves are.
    pub(super) fn settle(&mut self) {
        self.spell_out();
        let fresh = std::mem::take(&mut self.fresh);
        self.fresh_bytes = 0;
        // Of the ways that came since, those stay that lead to leaves of which nothing was read before.
        let (len, last_way) = self.settled_ways;
        let from = fresh.iter().map(|read| read.stems.start).fold(len, usize::min);
        let ways = if self.stems.len() > len { self.stems[from..].to_vec() } else { Vec::new() };
        if !ways.is_empty() {
            self.stems.truncate(len);
            self.last_way = last_way;
        }
        for mut read in fresh {
            if let Some(at) = self.find(read.page) {
                let tree = self.trees[read.tree].tree();
                self.reads[at].absorb(&tree, &read);
                continue;
            }
            if !ways.is_empty() {
                read.stems = self.keep_stems(&ways[read.stems.start - from..read.stems.end - from]);
            }
            self.reads.push(read);
            if self.reads.len() > LINEAR_MAX {
                let index = &mut self.more.needed().index;
                let known = index.len();
                index.extend(self.reads.iter().enumerate().skip(known).map(|(at, read)| (read.page, at)));
            }
        }
        self.settled_ways = (self.stems.len(), self.last_way);
    }

    /// How much was read: leaves, and what is not yet brought to them.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.reads.len() + self.fresh.len() + self.keys.len()
    }

    /// All that was read, [spelled out](ReadSet::spell_out), in the order of the numbers that reads have
    /// until more is noted.
    pub(super) fn all(&self) -> impl Iterator<Item = &LeafRead> {
        debug_assert!(self.keys.is_empty(), "what is looked at is spelled out");
        self.reads.iter().chain(&self.fresh)
    }

    pub(super) fn read(&self, number: usize) -> &LeafRead {
        self.reads.get(number).unwrap_or_else(|| &self.fresh[number - self.reads.len()])
    }

    /// Notes how many records there are between two bounds of a counted tree.
    pub(crate) fn note_count(&mut self, tree: &TreeRef, (lower, upper): KeyBounds<'_>, records: u64) {
        let span = (lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
        let counted = CountedSpan { tree: self.tree_index(tree), span, records };
        if self.counted().last() != Some(&counted) {
            self.more.needed().counted.push(counted);
        }
    }

    /// Notes what another has noted, of the same snapshot.
    pub(crate) fn absorb(&mut self, other: &ReadSet) {
        self.time = self.time.max(other.time);
        for CountedSpan { tree, span, records } in other.counted() {
            self.note_count(&other.trees[*tree], ranges::bounds(span), *records);
        }
        for read in &other.keys {
            let (tree, key) = (&other.trees[read.tree()], read.key().map(Bound::Included));
            match key {
                Some(key) => self.note(tree, &[], read.page(), key, key),
                None => self.note_page(tree, &[], read.page()),
            }
        }
        for read in other.reads.iter().chain(&other.fresh) {
            let (tree, stems) = (&other.trees[read.tree], &other.stems[read.stems.clone()]);
            for span in read.spans() {
                match span.bounds() {
                    Some((lower, upper)) => self.note(tree, stems, read.page, lower, upper),
                    None => self.note_page(tree, stems, read.page),
                }
            }
        }
    }

    /// Notes that a tree was found not to be there.
    pub(crate) fn note_absent(&mut self, tree: &TreeRef) {
        if !self.absent().any(|have| have.id == tree.id) {
            self.more.needed().absent.push(tree.clone());
        }
    }

    /// Where in `reads` a leaf is, if it is there. What is not yet [settled](ReadSet::settle) is not found.
    pub(super) fn find(&self, page: PageId) -> Option<usize> {
        if self.reads.len() <= LINEAR_MAX {
            self.reads.iter().rposition(|read| read.page == page)
        } else {
            self.more.get().and_then(|more| more.index.get(&page).copied())
        }
    }

    /// Keeps the way to a subtree.
    fn keep_stems(&mut self, stems: &[u8]) -> Range<usize> {
        let start = self.last_way;
        if stems.is_empty() {
            return start..start;
        }
        let last = &self.stems[start..];
        if last.starts_with(stems) {
            return start..start + stems.len();
        }
        let (start, more) = match stems.strip_prefix(last) {
            Some(more) => (start, more),
            None => (self.stems.len(), stems),
        };
        self.last_way = start;
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
    pub(in crate::txn) fn absent(&self) -> impl Iterator<Item = &TreeRef> {
        self.more.get().into_iter().flat_map(|more| &more.absent)
    }

    /// What was counted.
    #[inline]
    pub(super) fn counted(&self) -> &[CountedSpan] {
        self.more.get().map_or(&[], |more| &more.counted)
    }

    /// Forgets where leaves have gone to.
    #[inline]
    pub(super) fn forget_homes(&mut self) {
        if let Some(more) = self.more.get_mut() {
            more.homes.clear();
        }
    }

    /// How many pieces of leaves are kept.
    #[cfg(test)]
    pub(crate) fn spans(&mut self) -> usize {
        self.settle();
        self.reads.iter().map(|read| read.spans().count()).sum()
    }

    /// Whether nothing was read of any tree.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && self.counted().is_empty()
    }

    /// Of how many leaves something was read.
    #[cfg(test)]
    pub(crate) fn leaves(&mut self) -> usize {
        self.settle();
        self.reads.len()
    }

    /// How many bytes of ways down to subtrees are kept.
    #[cfg(test)]
    pub(crate) fn stem_bytes(&self) -> usize {
        self.stems.len()
    }

    /// How often what was read of a leaf was compared.
    #[cfg(test)]
    pub(crate) fn compared(&self) -> usize {
        self.compared.get()
    }

    /// Forgets everything: the transaction's snapshot has moved.
    pub(crate) fn clear(&mut self) {
        self.trees.clear();
        self.reads.clear();
        self.fresh.clear();
        self.keys.clear();
        self.fresh_bytes = 0;
        self.stems.clear();
        self.last_way = 0;
        self.settled_ways = (0, 0);
        self.more.clear();
        self.time = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;
    use crate::txn::catalog;
    use crate::types::TreeId;

    /// Numbers that look like chance.
    fn dice(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (*state >> 33) % below
    }

    /// In whatever order keys, ranges and whole leaves are noted, of trees and of subtrees, and however often
    /// it is brought to its leaves or taken over by another set meanwhile.
    #[test]
    fn all_that_was_noted_is_found_where_it_was_read() {
        for seed in 0..30 {
            let mut state = seed;
            // Each page is of one tree, or of a subtree of it.
            let leaves = [8, 60, 3000][seed as usize % 3];
            let trees: Vec<TreeRef> =
                (0..5).map(|n| catalog::catalog_tree().with(|tree| tree.id = TreeId(100 + n))).collect();
            let stems = |page: u64| [&b""[..], b"", b"one", b"one and more"][page as usize / 5 % 4];
            let (mut reads, mut noted) = (ReadSet::default(), Vec::new());
            for _ in 0..3 * FRESH_MAX as u64 {
                let page = dice(&mut state, leaves);
                let (tree, stems) = (&trees[page as usize % 5], stems(page));
                let mut key = || vec![dice(&mut state, 30) as u8; dice(&mut state, 25) as usize];
                let (one, two) = (key(), key());
                let id = PageId(page as u32 + 1);
                let (lower, upper) = match dice(&mut state, 40) {
                    0 => {
                        reads.note_page(tree, stems, id);
                        noted.push((page, None));
                        continue;
                    }
                    1 => (Bound::Excluded(&one[..]), Bound::Unbounded),
                    2 if one < two => (Bound::Included(&one[..]), Bound::Excluded(&two[..])),
                    _ => (Bound::Included(&one[..]), Bound::Included(&one[..])),
                };
                reads.note(tree, stems, id, lower, upper);
                noted.push((page, Some((lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec)))));
                match dice(&mut state, 4000) {
                    0 => reads.settle(),
                    1 => reads.spell_out(),
                    2 => {
                        let mut other = ReadSet::default();
                        other.note_page(&trees[4], b"", PageId(5));
                        other.absorb(&reads);
                        reads = other;
                    }
                    _ => {}
                }
            }
            reads.settle();
            for (page, span) in noted {
                let read = &reads.reads[reads.find(PageId(page as u32 + 1)).expect("its leaf is known")];
                assert_eq!(reads.trees[read.tree].id, trees[page as usize % 5].id);
                assert_eq!(&reads.stems[read.stems.clone()], stems(page));
                let tree = trees[page as usize % 5].tree();
                let has = |key: &[u8]| {
                    let key = Bound::Included(key);
                    read.spans().any(|span| span.covers(&tree, key, key))
                };
                let is_there = match &span {
                    None => read.spans().any(|span| matches!(span, ReadSpan::Page)),
                    Some((Bound::Included(one), Bound::Included(_))) => has(one),
                    // Some keys of many.
                    Some(span) => (0..30)
                        .flat_map(|byte| [0, 1, 10, 24].map(|len| vec![byte; len]))
                        .filter(|key| span.contains(key))
                        .all(|key| has(&key)),
                };
                assert!(is_there, "seed {seed}: {span:?} of page {page}");
            }
        }
    }
}

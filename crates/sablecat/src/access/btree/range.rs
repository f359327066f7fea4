//! How many records of a range a tree has, about, from some ways down to them (access/estimate.rs).
//!
//! What a way chooses from is the children of an inner page that the range overlaps. Those at its ends may
//! have next to nothing of it, and count as much as what is in them. While all pages that lead to the range
//! are few, all are looked at, and where that comes to few leaves what they say is exact.

use std::ops::Bound;

use super::node::{self, Inner, Leaf, NodeKind};
use super::{Tree, damaged, nest, slots_between, unborn};
use crate::access::estimate::{Chances, DESCENTS, RandomDescent, RecordEstimate};
use crate::access::{KeyBounds, PageRead};
use crate::error::Result;
use crate::pages::header;
use crate::types::PageId;

/// A page that the range overlaps.
#[derive(Clone, Copy)]
struct Spot {
    page: PageId,
    /// At which level it must be; none: the root, at any.
    level: Option<u8>,
    /// Whether an end of the range may be in it: the lower one, the upper one.
    at_ends: (bool, bool),
}

/// What a page says of the range.
enum RangeInPage {
    /// Those of its children that the range overlaps.
    Below(Vec<Spot>),
    /// The records of a leaf that are in the range.
    Here(RecordEstimate),
}

/// How many records there are between two bounds, about; `seed` picks the ways.
///
/// # Errors
/// Those of reading, and corruption if pages that were looked at do not form a tree.
pub(crate) fn estimate_range<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    bounds: KeyBounds<'_>,
    seed: u64,
) -> Result<RecordEstimate> {
    let nested = |bound: Bound<&[u8]>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => nest::is_nested(tree, key, reader.page_size()),
        Bound::Unbounded => false,
    };
    // What a long key's stem leads to is counted whole or not at all.
    let ends_in_subtree = nested(bounds.0) || nested(bounds.1);
    let ask = Ask { reader, tree, bounds, seed };
    let mut spots = vec![Spot { page: tree.root, level: None, at_ends: (true, true) }];
    // It ends: levels become lower.
    loop {
        let (mut below, mut here) = (Vec::new(), RecordEstimate { number: 0.0, is_exact: !ends_in_subtree });
        for spot in &spots {
            match ask.look(spot).map_err(|error| unborn(tree, spot.page, error))? {
                RangeInPage::Below(spots) => below.extend(spots),
                RangeInPage::Here(records) => here.add(records, 1.0),
            }
        }
        if below.is_empty() {
            return Ok(here);
        }
        if below.len() > DESCENTS {
            return ask.sample(&below);
        }
        spots = below;
    }
}

/// A range of a tree.
struct Ask<'a, R> {
    reader: &'a R,
    tree: &'a Tree<'a>,
    bounds: KeyBounds<'a>,
    seed: u64,
}

impl<R: PageRead> Ask<'_, R> {
    /// What some ways say, all of which begin with one of these.
    fn sample(&self, first: &[Spot]) -> Result<RecordEstimate> {
        let mut chances = Chances::new(self.seed);
        let mut sum = RecordEstimate { number: 0.0, is_exact: false };
        for n in 0..DESCENTS {
            let mut way = RandomDescent::in_part(&mut chances, n);
            let mut times = first.len() as f64 / DESCENTS as f64;
            let mut spot = first[way.pick(first.len())];
            loop {
                match self.look(&spot)? {
                    RangeInPage::Here(records) => break sum.add(records, times),
                    RangeInPage::Below(below) => {
                        times *= below.len() as f64;
                        spot = below[way.pick(below.len())];
                    }
                }
            }
        }
        Ok(sum)
    }

    fn look(&self, spot: &Spot) -> Result<RangeInPage> {
        let (said, subtrees) = self.reader.read(spot.page, |bytes| self.look_into(spot, bytes))??;
        let RangeInPage::Here(mut records) = said else { return Ok(said) };
        for subtree in &subtrees {
            let below = super::estimate(self.reader, subtree, self.seed)?;
            records.add(RecordEstimate { number: below.sum.records, is_exact: below.is_exact }, 1.0);
        }
        Ok(RangeInPage::Here(records))
    }

    /// What a page says, and the subtrees that records of it in the range lead to.
    fn look_into(&self, spot: &Spot, bytes: &[u8]) -> Result<(RangeInPage, Vec<Tree<'static>>)> {
        let &Spot { page, level, at_ends } = spot;
        if header::tree_id(bytes) != self.tree.id || level.is_some_and(|level| level != node::level(bytes)) {
            return Err(damaged(self.tree, page, "belongs to another tree, or to another level of it"));
        }
        match node::kind(bytes) {
            Some(NodeKind::Inner) => {
                self.children(Inner::new(bytes), page, at_ends).map(|below| (below, Vec::new()))
            }
            Some(NodeKind::Leaf) => self.records(bytes),
            _ => Err(damaged(self.tree, page, "is neither a leaf nor an inner page")),
        }
    }

    fn children(
        &self,
        inner: Inner<'_>,
        page: PageId,
        (at_lower, at_upper): (bool, bool),
    ) -> Result<RangeInPage> {
        let Some(level) = inner.level().checked_sub(1) else {
            return Err(damaged(self.tree, page, "is an inner page at the level of leaves"));
        };
        let child_of = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(inner.find(key, self.tree.order).0),
            Bound::Unbounded => None,
        };
        let from = if at_lower { child_of(self.bounds.0) } else { None }.unwrap_or(0);
        let to = if at_upper { child_of(self.bounds.1) } else { None }.unwrap_or(inner.count());
        let spot = |slot| Spot {
            page: inner.child(slot),
            level: Some(level),
            at_ends: (at_lower && slot == from, at_upper && slot == to),
        };
        // At least one, also of a range that ends before it begins: of that there are no records in a leaf.
        Ok(RangeInPage::Below((from..=to.max(from)).map(spot).collect()))
    }

    fn records(&self, bytes: &[u8]) -> Result<(RangeInPage, Vec<Tree<'static>>)> {
        let leaf = Leaf::new(bytes);
        let (slots, _) = slots_between(leaf, self.tree, self.bounds);
        let stem_bytes = nest::stem_bytes(self.tree.order, bytes.len());
        let is_stem = |slot: &usize| {
            let (prefix, suffix) = leaf.key(*slot);
            prefix.len() + suffix.len() == stem_bytes
        };
        let subtree_at = |slot| nest::subtree_at(self.tree, bytes, slot);
        let subtrees = slots.clone().filter(is_stem).map(subtree_at).collect::<Result<Vec<_>>>()?;
        let number = (slots.len() - subtrees.len()) as f64;
        Ok((RangeInPage::Here(RecordEstimate { number, is_exact: true }), subtrees))
    }
}

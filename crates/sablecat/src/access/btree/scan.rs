//! Moving through a tree in order, from either end.
//!
//! A scan copies one leaf at a time (4 KiB: 46 ns for some eighty records) and holds nothing between two leaves, so that a scan left
//! standing holds up nobody but through its snapshot. The next leaf is found by the fence of this one, from the root: some 100 ns a
//! leaf, with all inner pages in cache.
//!
//! What a transaction has pending is merged in by key: a pending record hides the committed one.

use std::ops::Bound;

use super::node::{Leaf, Value};
use super::{Toward, Tree, find_edge, find_leaf};
use crate::access::PageRead;
use crate::error::Result;
use crate::types::PageId;

/// A private copy of a leaf.
#[derive(Debug, Default)]
pub(crate) struct LeafCopy {
    bytes: Vec<u8>,
}

impl LeafCopy {
    /// The leaf; only after it was filled.
    #[inline]
    pub(crate) fn leaf(&self) -> Leaf<'_> {
        Leaf::new(&self.bytes)
    }

    /// Takes a copy of a leaf's page.
    #[inline]
    pub(crate) fn fill(&mut self, page: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(page);
    }
}

/// Which leaf a scan wants next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    First,
    Last,
    /// The one that covers this key.
    At(&'a [u8]),
    /// The one that covers what comes right before this key.
    Before(&'a [u8]),
}

impl Wanted<'_> {
    /// Finds the leaf.
    pub(crate) fn find<R: PageRead>(self, reader: &R, tree: &Tree<'_>) -> Result<PageId> {
        match self {
            Wanted::First => find_edge(reader, tree, true, |_| {}),
            Wanted::Last => find_edge(reader, tree, false, |_| {}),
            Wanted::At(key) => find_leaf(reader, tree, key, Toward::Key, |_| {}),
            Wanted::Before(key) => find_leaf(reader, tree, key, Toward::Before, |_| {}),
        }
    }
}

/// Where a scan gets its leaves and what is pending over them.
pub(crate) trait Source {
    /// Copies the wanted leaf. `lower` and `upper` are what of it the scan will look at, as far as it is known.
    fn leaf(&mut self, wanted: Wanted<'_>, lower: Bound<&[u8]>, upper: Bound<&[u8]>, into: &mut LeafCopy) -> Result<()>;

    /// The first (`forward`) or last pending record between the bounds: its key, and whether it sets a value.
    fn pending(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, forward: bool) -> Option<(Vec<u8>, Option<Vec<u8>>)>;
}

/// What a scan found under a key. Long values never change in place, so their place stands for them when two are compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Bytes(Vec<u8>),
    /// A value in pages of its own.
    Long(PageId, u64),
}

/// One end of a scan: a leaf and the slots of it not yet handed out.
#[derive(Debug, Default)]
struct Side {
    copy: LeafCopy,
    filled: bool,
    from: usize,
    to: usize,
}

/// A scan between two bounds that shrink as records are handed out from either end.
#[derive(Debug)]
pub(crate) struct Scan {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    front: Side,
    back: Side,
    done: bool,
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Scan {
    pub(crate) fn new(lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Scan {
        Scan { lower, upper, front: Side::default(), back: Side::default(), done: false }
    }

    /// The next record from the front (`forward`) or the back.
    pub(crate) fn next<S: Source>(&mut self, tree: &Tree<'_>, source: &mut S, forward: bool) -> Result<Option<(Vec<u8>, Found)>> {
        while !self.done {
            let committed = self.committed(tree, source, forward)?;
            let pending = source.pending(as_slice(&self.lower), as_slice(&self.upper), forward);
            let first = |a: &[u8], b: &[u8]| if forward { tree.order.compare(a, b) } else { tree.order.compare(b, a) };
            let take_pending = match (&committed, &pending) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(committed), Some((key, _))) => first(key, committed).is_le(),
            };
            if take_pending {
                let Some((key, value)) = pending else { break };
                self.pass(key.clone(), forward);
                if let Some(value) = value {
                    return Ok(Some((key, Found::Bytes(value))));
                }
            } else if let Some(key) = committed {
                let side = if forward { &self.front } else { &self.back };
                let slot = if forward { side.from } else { side.to - 1 };
                let value = match side.copy.leaf().value(slot) {
                    Value::Inline(bytes) => Found::Bytes(bytes.to_vec()),
                    Value::Long { first_page, len } => Found::Long(first_page, len),
                };
                self.pass(key.clone(), forward);
                return Ok(Some((key, value)));
            } else {
                self.done = true;
            }
        }
        Ok(None)
    }

    /// Moves the bound past a key.
    fn pass(&mut self, key: Vec<u8>, forward: bool) {
        if forward {
            self.lower = Bound::Excluded(key);
        } else {
            self.upper = Bound::Excluded(key);
        }
    }

    /// The key of the next committed record from one end, which then stands at that end's slot; none if no more lie between the bounds.
    fn committed<S: Source>(&mut self, tree: &Tree<'_>, source: &mut S, forward: bool) -> Result<Option<Vec<u8>>> {
        let (lower, upper) = (as_slice(&self.lower), as_slice(&self.upper));
        let side = if forward { &mut self.front } else { &mut self.back };
        let mut key = Vec::new();
        if !side.filled {
            let wanted = match (forward, lower, upper) {
                (true, Bound::Unbounded, _) => Wanted::First,
                (true, Bound::Included(key) | Bound::Excluded(key), _) => Wanted::At(key),
                (false, _, Bound::Unbounded) => Wanted::Last,
                (false, _, Bound::Included(key)) => Wanted::At(key),
                (false, _, Bound::Excluded(key)) => Wanted::Before(key),
            };
            source.leaf(wanted, lower, upper, &mut side.copy)?;
            side.fill();
        }
        loop {
            // Skip what lies outside the bound of this end: already handed out, or never wanted.
            while side.from < side.to {
                let slot = if forward { side.from } else { side.to - 1 };
                side.copy.leaf().copy_key(slot, &mut key);
                if above(tree, &key, lower) && below(tree, &key, upper) {
                    return Ok(Some(key));
                }
                let beyond = if forward { !below(tree, &key, upper) } else { !above(tree, &key, lower) };
                if beyond {
                    return Ok(None);
                }
                if forward {
                    side.from += 1;
                } else {
                    side.to -= 1;
                }
            }
            let leaf = side.copy.leaf();
            let fence = if forward { leaf.upper_fence() } else { leaf.lower_fence() };
            let Some(fence) = fence.map(<[u8]>::to_vec) else { return Ok(None) };
            let wanted = if forward {
                if !below(tree, &fence, upper) {
                    return Ok(None);
                }
                Wanted::At(&fence)
            } else {
                if !above(tree, &fence, lower) {
                    return Ok(None);
                }
                Wanted::Before(&fence)
            };
            source.leaf(wanted, lower, upper, &mut side.copy)?;
            side.fill();
        }
    }
}

impl Side {
    fn fill(&mut self) {
        self.filled = true;
        self.from = 0;
        self.to = self.copy.leaf().count();
    }
}

/// Whether a key is at or above a lower bound.
pub(crate) fn above(tree: &Tree<'_>, key: &[u8], lower: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => tree.order.compare(key, bound).is_ge(),
        Bound::Excluded(bound) => tree.order.compare(key, bound).is_gt(),
    }
}

/// Whether a key is at or below an upper bound.
pub(crate) fn below(tree: &Tree<'_>, key: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(bound) => tree.order.compare(key, bound).is_le(),
        Bound::Excluded(bound) => tree.order.compare(key, bound).is_lt(),
    }
}

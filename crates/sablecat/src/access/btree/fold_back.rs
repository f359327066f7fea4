//! Bulk reading in place from the last record to the first, at one snapshot: an operation and a descent a
//! leaf.
//!
//! Leaves know the fence below them, and not the leaf there: it is found from the root, some 100 ns for some
//! eighty records. Each record's key is put together behind the leaf's prefix.
//!
//! Keys that are nested (nest.rs) are copied out by a scan of their subtree, between two leaves.

use std::ops::{Bound, ControlFlow};

use super::behind::leaves_behind;
use super::fold::{is_empty, leaf_of};
use super::node::{Leaf, StoredValue};
use super::{Toward, Tree, find_edge, find_leaf, nest};
use crate::access::ahead::VisitForesight;
use crate::access::scan::{KeyBounds, Part, Scan, ScannedValue, StateSource};
use crate::access::{Each, after};
use crate::error::{Error, Result};
use crate::types::PageId;

/// Where a visit stands after a leaf.
enum Next {
    /// All keys from this one on were shown.
    Below(Vec<u8>),
    /// A long value interrupts: its key and place.
    Long(Vec<u8>, PageId, u64),
    /// A subtree interrupts: its stem.
    Inside(Vec<u8>),
    Done,
}

/// Shows all records between the bounds in a state from the last to the first, each with what was made of
/// those shown before, `sum` at first. Returns what was made of the last one shown.
pub(crate) fn fold_back<S: StateSource, B>(
    mut state: S,
    tree: &Tree<'_>,
    (lower, mut upper): (Bound<Vec<u8>>, Bound<Vec<u8>>),
    sum: B,
    mut each: impl Each<B>,
) -> Result<B> {
    let mut each = |so_far, key: &[u8], value: &[u8]| each.one(so_far, key, value);
    if is_empty(tree, (&lower, &upper)) {
        return Ok(sum);
    }
    let stem_bytes = nest::stem_bytes(tree.order, state.page_size());
    let lower_slice = lower.as_ref().map(Vec::as_slice);
    let mut sum = Some(sum);
    let mut key = Vec::new();
    let mut foresight = VisitForesight::default();
    loop {
        let step = state.operate(|snapshot| {
            let before = snapshot.waits();
            let mut parent = None;
            let note = |step| parent = Some(step);
            let page = match &upper {
                Bound::Unbounded => find_edge(snapshot, tree, false, note)?,
                Bound::Included(key) => find_leaf(snapshot, tree, key, Toward::Key, note)?,
                Bound::Excluded(key) => find_leaf(snapshot, tree, key, Toward::Before, note)?,
            };
            let waited = snapshot.waits() != before;
            let list = |many| leaves_behind(snapshot, tree, parent, (false, lower_slice), many);
            foresight.came(snapshot, (page, waited), list)?;
            let bytes = snapshot.page(page)?;
            let leaf = leaf_of(tree, page, bytes)?;
            let bounds = (lower_slice, upper.as_ref().map(Vec::as_slice));
            state.shows(&Part { tree, stems: &[], lower: bounds.0, upper: bounds.1 }, page, bytes);
            let before = sum.take().expect("a leaf is shown once, after all that may have to be repeated");
            let (after, next) = show(tree, leaf, (bounds, stem_bytes), &mut key, before, &mut each);
            sum = Some(after);
            if matches!(next, Next::Done) {
                foresight.end(snapshot, page, None);
            }
            Ok(next)
        })?;
        let mut before = sum.take().expect("the leaf was shown");
        let to = match step {
            Next::Done => return Ok(before),
            Next::Below(fence) => fence,
            Next::Long(key, first, len) => {
                let value = state.load(ScannedValue::Long(first, len))?;
                match each(before, &key, &value) {
                    ControlFlow::Continue(after) => before = after,
                    ControlFlow::Break(last) => return Ok(last),
                }
                key
            }
            Next::Inside(stem) => {
                let from = match &lower {
                    Bound::Included(bound) | Bound::Excluded(bound) if bound.starts_with(&stem) => {
                        lower.clone()
                    }
                    _ => Bound::Included(stem.clone()),
                };
                let to = match &upper {
                    Bound::Included(bound) | Bound::Excluded(bound) if bound.starts_with(&stem) => {
                        upper.clone()
                    }
                    _ => after(&stem).map_or(Bound::Unbounded, Bound::Excluded),
                };
                match Scan::new(from, to).show(tree, &mut state, false, before, &mut each)? {
                    ControlFlow::Continue(after) => before = after,
                    ControlFlow::Break(last) => return Ok(last),
                }
                stem
            }
        };
        let goes_on = match &upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => tree.order.compare(&to, bound).is_le(),
            // A subtree may be left from inside.
            Bound::Excluded(bound) => tree.order.compare(&to, bound).is_lt(),
        };
        if !goes_on {
            return Err(Error::corruption(format!(
                "the leaves of tree {} lead back to where a visit has been",
                tree.id
            )));
        }
        upper = Bound::Excluded(to);
        sum = Some(before);
    }
}

/// Shows one leaf's records between the bounds, from the last on. Returns what was made of them.
#[inline]
fn show<B>(
    tree: &Tree<'_>,
    leaf: Leaf<'_>,
    ((lower, upper), stem_bytes): (KeyBounds<'_>, usize),
    key: &mut Vec<u8>,
    mut sum: B,
    each: &mut impl FnMut(B, &[u8], &[u8]) -> ControlFlow<B, B>,
) -> (B, Next) {
    let place = |bound: &[u8]| leaf.search(bound, tree.order);
    let from = match lower {
        Bound::Unbounded => 0,
        Bound::Included(bound) | Bound::Excluded(bound)
            if leaf.lower_fence().is_some_and(|fence| tree.order.compare(bound, fence).is_lt()) =>
        {
            0
        }
        // The subtree that the bound lies in, if there is one, stands before it.
        Bound::Included(bound) | Bound::Excluded(bound) if bound.len() >= stem_bytes => {
            place(&bound[..stem_bytes]).unwrap_or_else(|slot| slot)
        }
        Bound::Included(bound) => place(bound).unwrap_or_else(|slot| slot),
        Bound::Excluded(bound) => place(bound).map_or_else(|slot| slot, |slot| slot + 1),
    };
    let to = match upper {
        Bound::Unbounded => leaf.count(),
        Bound::Included(bound) => place(bound).map_or_else(|slot| slot, |slot| slot + 1),
        Bound::Excluded(bound) if leaf.covers(bound, tree.order) => place(bound).unwrap_or_else(|slot| slot),
        // It begins the leaf behind this one.
        Bound::Excluded(_) => leaf.count(),
    };
    key.clear();
    key.extend_from_slice(leaf.prefix());
    for slot in (from..to).rev() {
        key.truncate(leaf.prefix().len());
        key.extend_from_slice(leaf.key(slot).1);
        if key.len() == stem_bytes {
            return (sum, Next::Inside(key.clone()));
        }
        match leaf.value(slot) {
            StoredValue::Inline(value) => match each(sum, key, value) {
                ControlFlow::Continue(after) => sum = after,
                ControlFlow::Break(last) => return (last, Next::Done),
            },
            StoredValue::Long { first_page, len } => return (sum, Next::Long(key.clone(), first_page, len)),
        }
    }
    // What lies below the leaf is of interest if it may be above the lower bound.
    let below = leaf.lower_fence().filter(|fence| match lower {
        Bound::Unbounded => true,
        Bound::Included(bound) | Bound::Excluded(bound) => tree.order.compare(fence, bound).is_gt(),
    });
    (sum, below.map_or(Next::Done, |fence| Next::Below(fence.to_vec())))
}

//! Bulk reading in place: whole leaves, under one snapshot, an operation a leaf.

use std::ops::{Bound, ControlFlow};

use crate::access::btree::node::{Leaf, Value};
use crate::access::btree::{Wanted, above, below};
use crate::error::Result;
use crate::pages::Participant;
use crate::txn::{Kernel, TreeRef};
use crate::types::Lsn;

/// Shows all records between the bounds, as of `at`, which `me` has pinned.
pub(super) fn visit(
    kernel: &Kernel,
    me: &Participant,
    at: Lsn,
    tree: &TreeRef,
    (lower, upper): (Bound<Vec<u8>>, Bound<Vec<u8>>),
    mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let view = tree.tree();
    let (lower, upper) = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
    let mut next: Option<Vec<u8>> = None;
    let mut key = Vec::new();
    loop {
        let mut long = None;
        let fence = kernel.pages.operate(me, || {
            let snapshot = kernel.pages.at_pin(me, at)?;
            let wanted = match (&next, lower) {
                (Some(fence), _) => Wanted::At(fence),
                (None, Bound::Unbounded) => Wanted::First,
                (None, Bound::Included(key) | Bound::Excluded(key)) => Wanted::At(key),
            };
            let page = wanted.find(&snapshot, &view)?;
            let leaf = Leaf::new(snapshot.page(page)?);
            // Only the leaves at the bounds need their keys compared with them.
            let from = match lower {
                Bound::Included(bound) | Bound::Excluded(bound) if next.is_none() => leaf.lower_bound(bound, view.order),
                _ => 0,
            };
            let whole = leaf.upper_fence().is_some_and(|fence| below(&view, fence, upper)) || matches!(upper, Bound::Unbounded);
            for slot in from..leaf.count() {
                let (prefix, suffix) = leaf.key(slot);
                key.clear();
                key.extend_from_slice(prefix);
                key.extend_from_slice(suffix);
                if next.is_none() && !above(&view, &key, lower) {
                    continue;
                }
                if !whole && !below(&view, &key, upper) {
                    return Ok(None);
                }
                match leaf.value(slot) {
                    Value::Inline(value) => {
                        if each(&key, value).is_break() {
                            return Ok(None);
                        }
                    }
                    Value::Long { first_page, len } => {
                        long = Some((key.clone(), first_page, len));
                        return Ok(None);
                    }
                }
            }
            Ok(leaf.upper_fence().filter(|fence| below(&view, fence, upper)).map(<[u8]>::to_vec))
        })?;
        if let Some((at_key, first, len)) = long {
            let value = kernel.load_long(me, at, first, len)?;
            if each(&at_key, &value).is_break() {
                return Ok(());
            }
            let rest = (Bound::Excluded(at_key), upper.map(<[u8]>::to_vec));
            return visit(kernel, me, at, tree, rest, each);
        }
        match fence {
            Some(fence) => next = Some(fence),
            None => return Ok(()),
        }
    }
}

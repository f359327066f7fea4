//! Which leaves will be wanted, by what leads to them: for who asks for them before.

use std::ops::Bound;

use super::node::{self, Inner, NodeKind};
use super::{LEVELS_MAX, PageRead, Step, Tree};
use crate::access::ahead::Many;
use crate::error::Result;
use crate::pages::header;
use crate::types::PageId;

/// The leaf for a key, without a look at it unless it is the root.
pub(crate) fn leaf_led_to<R: PageRead>(reader: &R, tree: &Tree<'_>, key: &[u8]) -> Result<PageId> {
    let mut page = tree.root;
    for _ in 0..LEVELS_MAX {
        let (child, is_leaf) = reader.read(page, |bytes| {
            if node::kind(bytes) != Some(NodeKind::Inner) || header::tree_id(bytes) != tree.id {
                return (page, true);
            }
            let inner = Inner::new(bytes);
            (inner.find(key, tree.order).1, inner.level() == 1)
        })?;
        if is_leaf {
            return Ok(child);
        }
        page = child;
    }
    Ok(page)
}

/// The leaves with the same parent that come behind the one that `step` leads to, upward or downward, as far
/// as they may have keys on this side of the bound.
pub(super) fn leaves_behind<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    step: Option<Step>,
    (forward, bound): (bool, Bound<&[u8]>),
    many: Many,
) -> Result<Vec<PageId>> {
    let Some(Step { page, slot }) = step else { return Ok(Vec::new()) };
    reader.read(page, |bytes| {
        if node::kind(bytes) != Some(NodeKind::Inner) || header::tree_id(bytes) != tree.id {
            return Vec::new();
        }
        let inner = Inner::new(bytes);
        // Between two children there is the key that the right one begins with.
        let is_wanted = |separator: usize| {
            let (prefix, suffix) = inner.separator(separator);
            let key = [prefix, suffix].concat();
            if forward { tree.below(&key, bound) } else { tree.above(&key, bound) }
        };
        let slot = slot.min(inner.count());
        let behind = if forward { inner.count() - slot } else { slot };
        (many.without + 1..=behind)
            .take(many.at_most)
            .take_while(|&n| is_wanted(if forward { slot + n - 1 } else { slot - n }))
            .map(|n| inner.child(if forward { slot + n } else { slot - n }))
            .collect()
    })
}

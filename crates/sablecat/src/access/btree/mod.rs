//! B+trees over page readers and page writers.
//!
//! A tree has a number and a root page; the root's page id never changes, since a root that grows moves its
//! content one level down. Pages carry their fences, so a remembered leaf can be checked to be the right one
//! without a descent, and neighbours are found through the fences and the parents: pages have no sibling
//! links, which old versions would make ambiguous.
//!
//! Changing a page's records needs that page alone. Changing the tree's *shape* (split, merge, grow, shrink)
//! also changes inner pages. The caller sees to it that only one writer at a time changes a tree's shape (the
//! structure latch), and that leaves are written in key order.
//!
//! Keys too long for a page are nested: nest.rs. Ranges are removed by pages: removal.rs. Trees that know how
//! many records they have, and which is the nth: counted.rs.
//!
//! Splits leave room for any entry in both halves (node/limits.rs), so a put splits each level at most once.
//! Merges take a page into its right neighbour's company when both fit one page, once it is less than a third
//! full.

mod append;
mod behind;
mod beside;
mod change;
mod count;
mod counted;
mod estimate;
mod fold;
mod fold_back;
mod free;
mod load;
pub(crate) mod nest;
pub(crate) mod node;
mod on_page;
mod own;
mod range;
mod reach;
mod removal;
mod scan;
mod several;
mod shape;
mod verify;

pub(crate) use append::{Append, Appending};
pub(super) use behind::leaf_led_to;
pub(crate) use beside::UnfinishedSubtree;
pub(super) use beside::{change_beside, copy_subtree, own_nested, set_or_remove_beside};
pub(super) use change::{change, remove_here, set_or_remove, try_change, try_set};
pub(super) use count::count;
pub(super) use counted::{count_below, record_at};
pub(super) use estimate::estimate;
pub(super) use fold::fold;
pub(super) use fold_back::fold_back;
pub(super) use free::{Freeing, UnseenLeaves, free_root};
pub(super) use load::Load;
pub(super) use nest::{check_key, find as find_place, find_around, is_nested};
pub(crate) use on_page::RecordsOnPage;
pub(super) use own::OwnValues;
pub(super) use range::estimate_range;
pub(super) use reach::{reach, reach_own};
pub(super) use removal::{remove_some, remove_some_beside};
pub(super) use scan::{Ends, bound_read, reads_same, wanted};
pub(crate) use several::Several;
#[cfg(test)]
pub(crate) use shape::{put, remove};
pub(super) use verify::{verify, verify_own};

use std::ops::{Bound, Range};

use self::node::{Inner, Leaf, LeafMut, NodeKind, Order, StoredValue};
use super::method::{Method, Tree};
use super::wrong::{damaged, misplaced, unborn};
use super::{KeyBounds, PageRead, Sought};
use crate::error::Result;
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// One step of a descent: at `page`, the child in place `slot` was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(crate) page: PageId,
    pub(crate) slot: usize,
}

/// Levels no tree can have: a longer descent follows damaged pages in a circle.
pub(super) const LEVELS_MAX: usize = 48;

/// What a page on the way down says. Small enough to stay in registers.
enum Down {
    Leaf,
    Child { slot: u16, page: PageId },
    OfAnother,
    Wrong,
}

impl Down {
    #[inline(always)]
    fn to(slot: usize, page: PageId) -> Down {
        // A page of 64 KiB has fewer children.
        Down::Child { slot: slot as u16, page }
    }
}

/// What is wrong with a page that says [`Down::Wrong`].
const NEITHER: &str = "is neither a leaf nor an inner page";

/// Which child a descent takes where a separator equals the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Toward {
    /// The child that covers the key.
    Key,
    /// The child that covers what comes right before the key.
    Before,
}

#[inline(always)]
fn look(bytes: &[u8], tree: &Tree<'_>, key: &[u8], toward: Toward) -> Down {
    if header::tree_id(bytes) != tree.id {
        return Down::OfAnother;
    }
    match node::kind(bytes) {
        Some(NodeKind::Leaf) => Down::Leaf,
        Some(NodeKind::Inner) => {
            let inner = Inner::new(bytes);
            let (mut slot, mut page) = inner.find(key, tree.order);
            if toward == Toward::Before && slot > 0 {
                let (prefix, suffix) = inner.separator(slot - 1);
                if equals(prefix, suffix, key) {
                    slot -= 1;
                    page = inner.child(slot);
                }
            }
            Down::to(slot, page)
        }
        _ => Down::Wrong,
    }
}

fn equals(prefix: &[u8], suffix: &[u8], key: &[u8]) -> bool {
    key.len() == prefix.len() + suffix.len() && key.starts_with(prefix) && key.ends_with(suffix)
}

/// Goes down from the root to the leaf for `key`, noting the steps in `path` (the leaf itself is not one).
#[inline(always)]
pub(super) fn find_leaf<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    key: &[u8],
    toward: Toward,
    mut path: impl FnMut(Step),
) -> Result<PageId> {
    let mut page = tree.root;
    for _ in 0..LEVELS_MAX {
        match reader
            .read(page, |bytes| look(bytes, tree, key, toward))
            .map_err(|error| unborn(tree, page, error))?
        {
            Down::Leaf => return Ok(page),
            Down::Child { slot, page: child } => {
                path(Step { page, slot: slot.into() });
                page = child;
            }
            Down::OfAnother => return Err(misplaced(tree, page)),
            Down::Wrong => return Err(damaged(tree, page, NEITHER)),
        }
    }
    Err(damaged(tree, page, "is deeper below the root than a tree can be"))
}

/// The first (`front`) or last leaf of a tree, noting the steps in `path`.
pub(super) fn find_edge<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    front: bool,
    mut path: impl FnMut(Step),
) -> Result<PageId> {
    let mut page = tree.root;
    for _ in 0..LEVELS_MAX {
        let down = reader
            .read(page, |bytes| {
                if header::tree_id(bytes) != tree.id {
                    return Down::OfAnother;
                }
                match node::kind(bytes) {
                    Some(NodeKind::Leaf) => Down::Leaf,
                    Some(NodeKind::Inner) => {
                        let inner = Inner::new(bytes);
                        let slot = if front { 0 } else { inner.count() };
                        Down::to(slot, inner.child(slot))
                    }
                    _ => Down::Wrong,
                }
            })
            .map_err(|error| unborn(tree, page, error))?;
        match down {
            Down::Leaf => return Ok(page),
            Down::Child { page: child, slot } => {
                path(Step { page, slot: slot.into() });
                page = child;
            }
            Down::OfAnother => return Err(misplaced(tree, page)),
            Down::Wrong => return Err(damaged(tree, page, NEITHER)),
        }
    }
    Err(damaged(tree, page, "is deeper below the root than a tree can be"))
}

/// Whether `bytes` is the leaf of `tree` where a key belongs. Where keys come in order the key itself says
/// so, sooner than the page's ends do.
#[inline]
pub(super) fn is_leaf_for(bytes: &[u8], tree: &Tree<'_>, sought: Sought<'_>) -> bool {
    if header::tree_id(bytes) != tree.id || node::kind(bytes) != Some(NodeKind::Leaf) {
        return false;
    }
    let Sought { key, near, .. } = sought;
    let leaf = Leaf::new(bytes);
    near.is_some_and(|near| leaf.is_next(key, tree.order, near)) || leaf.covers(key, tree.order)
}

/// The slots of a leaf between two bounds, and whether the leaf after it may have keys between them as well.
pub(super) fn slots_between(
    leaf: Leaf<'_>,
    tree: &Tree<'_>,
    (lower, upper): KeyBounds<'_>,
) -> (Range<usize>, bool) {
    let order = tree.order;
    let covered = |key: &&[u8]| leaf.covers(key, order);
    let from = match lower {
        Bound::Included(key) if covered(&key) => leaf.search(key, order).unwrap_or_else(|slot| slot),
        Bound::Excluded(key) if covered(&key) => {
            leaf.search(key, order).map_or_else(|slot| slot, |slot| slot + 1)
        }
        _ => 0,
    };
    let goes_on = leaf.upper_fence().is_some_and(|fence| tree.below(fence, upper));
    let to = match upper {
        _ if goes_on => leaf.count(),
        _ if leaf.lower_fence().is_some_and(|fence| !tree.below(fence, upper)) => 0,
        Bound::Included(key) if covered(&key) => {
            leaf.search(key, order).map_or_else(|slot| slot, |slot| slot + 1)
        }
        Bound::Excluded(key) if covered(&key) => leaf.search(key, order).unwrap_or_else(|slot| slot),
        _ => leaf.count(),
    };
    (from..to.max(from), goes_on)
}

/// The fences of a page, if it is a leaf.
pub(super) fn ends_of(bytes: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    if node::kind(bytes) != Some(NodeKind::Leaf) {
        return (None, None);
    }
    let fences = Leaf::new(bytes).fences();
    (fences.lower, fences.upper)
}

/// Whether a page is a leaf without records.
pub(super) fn is_empty_leaf(bytes: &[u8]) -> bool {
    node::kind(bytes) == Some(NodeKind::Leaf) && Leaf::new(bytes).count() == 0
}

/// The value of a record in its leaf.
#[inline(always)]
pub(super) fn get<'p>(bytes: &'p [u8], sought: Sought<'_>, order: Order<'_>) -> Option<StoredValue<'p>> {
    let leaf = Leaf::new(bytes);
    place_in(leaf, sought, order).ok().map(|slot| leaf.value(slot))
}

/// The slot of a key in the leaf where it belongs, or the slot where it would be.
#[inline(always)]
fn place_in(leaf: Leaf<'_>, sought: Sought<'_>, order: Order<'_>) -> std::result::Result<usize, usize> {
    match sought.near {
        Some(near) => leaf.search_after(sought.key, order, near),
        None => leaf.search(sought.key, order),
    }
}

/// Sets a record in a leaf. Fails, changing nothing, when the leaf has no room.
#[inline]
pub(super) fn put_in_leaf(
    bytes: &mut [u8],
    key: &[u8],
    value: StoredValue<'_>,
    order: Order<'_>,
) -> std::result::Result<(), node::PageFull> {
    let at = Leaf::new(bytes).search(key, order);
    let mut leaf = LeafMut::new(bytes);
    match at {
        Ok(index) => leaf.replace_value(index, value),
        Err(index) => leaf.insert(index, key, value),
    }
}

/// Makes an empty tree's root; `flags` as its pages have them.
pub(super) fn format_root(bytes: &mut [u8], tree: TreeId, root: PageId, flags: u16) {
    LeafMut::format(bytes, root, tree, flags, node::Fences::NONE);
}

/// What the pages of a tree are marked with.
pub(super) fn flags_of(method: Method, custom_order: bool) -> u16 {
    let counted = if method.counts() { node::FLAG_COUNTED } else { 0 };
    counted | if custom_order { node::FLAG_CUSTOM_ORDER } else { 0 }
}

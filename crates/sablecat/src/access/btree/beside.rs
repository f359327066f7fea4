//! Changing a tree in copies of its pages: what is to change is copied, from the root down, before it is
//! changed.
//!
//! The root is a copy already. So what the other functions then write are copies, or pages that they have
//! made. Only where they look for a neighbour to merge with may they come to a page that is neither. They do
//! without it, unless that was copied beforehand as well.

use super::change::{LeafOutcome, change_leaf};
use super::node::{self, Inner, InnerMut, Leaf, LeafMut, NodeKind, StoredValue};
use super::removal::Going;
use super::shape::{merge_up, should_merge};
use super::{Toward, Tree, damaged, find_leaf, is_leaf_for, nest};
use crate::access::method::SetOrRemove;
use crate::access::{CopyWrite, PageRead};
use crate::error::{Error, Result};
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// What was begun with a subtree and not ended, as that is more than should be done at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnfinishedSubtree {
    /// The roots of one that is copied, and of the copy: nothing leads to that until it is whole.
    copied: Option<(PageId, PageId)>,
    /// One that a removed range takes whole.
    pub(super) going: Option<Going>,
}

/// Sets or removes a record in a tree whose root is a copy. The way to a leaf is never too long to be copied
/// at once; a subtree may be, and then it is none: so far only pages were copied. Else false if there was
/// nothing to remove.
pub(crate) fn change_beside<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    change: SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<Option<bool>> {
    let (key, value) = change;
    if nest::is_nested(tree, key, writer.page_size()) {
        *last = PageId::NONE;
        if !own_nested(writer, tree, key)? {
            return Ok(None);
        }
        return nest::change(writer, tree, key, value, store).map(Some);
    }
    let set =
        value.map(|value| move |writer: &mut W| nest::store_value(writer, tree, key.len(), value, store));
    set_or_remove_beside(writer, tree, (key, set), last).map(Some)
}

/// As [`change_beside`], of a key that is not nested; the value is what `set` stores. False if there was
/// nothing to remove.
pub(crate) fn set_or_remove_beside<'v, W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (key, set): (&[u8], Option<impl FnOnce(&mut W) -> Result<StoredValue<'v>>>),
    last: &mut PageId,
) -> Result<bool> {
    if *last == PageId::NONE || !writer.read(*last, |bytes| is_leaf_for(bytes, tree, tree.sought(key)))? {
        *last = own_leaf(writer, tree, key)?;
    }
    match change_leaf(writer, tree, (*last, None), (key, set))? {
        LeafOutcome::Done => {}
        LeafOutcome::Missing => return Ok(false),
        LeafOutcome::Split => *last = PageId::NONE,
        LeafOutcome::Sparse => {
            *last = PageId::NONE;
            own_neighbours(writer, tree, key)?;
            merge_up(writer, tree, key)?;
        }
    }
    Ok(true)
}

/// Makes sure that the child in a slot of an inner page, which is a copy, is one as well, and says which page
/// it is.
pub(super) fn own_child<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    parent: PageId,
    slot: usize,
    child: PageId,
) -> Result<PageId> {
    if writer.is_own(child)? {
        return Ok(child);
    }
    let below = writer.read(parent, node::level)?.checked_sub(1);
    check_page(writer, tree, (child, below))?;
    let copy = writer.copy(tree, child)?;
    InnerMut::new(writer.write(parent)?).replace_child(slot, copy);
    Ok(copy)
}

/// That a page is one of this tree, and at this level of it if that is known: what was copied is freed in the
/// end, and where damaged pages lead there may be one of something else.
fn check_page<R: PageRead>(reader: &R, tree: &Tree<'_>, (page, level): (PageId, Option<u8>)) -> Result<()> {
    let is_right = reader.read(page, |bytes| {
        header::tree_id(bytes) == tree.id && level.is_none_or(|level| level == node::level(bytes))
    })?;
    if is_right {
        return Ok(());
    }
    Err(damaged(tree, page, "belongs to another tree, or to another level of it"))
}

/// Makes sure that all pages from the root, which is a copy, to the leaf for a key are copies, and says which
/// page the leaf is.
pub(super) fn own_leaf<W: CopyWrite>(writer: &mut W, tree: &Tree<'_>, key: &[u8]) -> Result<PageId> {
    let mut page = tree.root;
    let mut path = Vec::new();
    find_leaf(writer, tree, key, Toward::Key, |step| path.push(step.slot))?;
    for slot in path {
        let child = writer.read(page, |bytes| Inner::new(bytes).child(slot))?;
        page = own_child(writer, tree, page, slot, child)?;
    }
    Ok(page)
}

/// Copies the neighbours that the pages on the way to a key would be merged with, as far as these are sparse.
fn own_neighbours<W: CopyWrite>(writer: &mut W, tree: &Tree<'_>, key: &[u8]) -> Result<()> {
    let mut path = Vec::new();
    let mut page = find_leaf(writer, tree, key, Toward::Key, |step| path.push(step))?;
    while let Some(parent) = path.pop() {
        if !writer.read(page, should_merge)? {
            break;
        }
        let neighbour = writer.read(parent.page, |bytes| {
            let inner = Inner::new(bytes);
            let slot =
                if parent.slot < inner.count() { Some(parent.slot + 1) } else { parent.slot.checked_sub(1) };
            slot.map(|slot| (slot, inner.child(slot)))
        })?;
        if let Some((slot, neighbour)) = neighbour {
            own_child(writer, tree, parent.page, slot, neighbour)?;
        }
        page = parent.page;
    }
    Ok(())
}

/// As [`own_leaf`] for a nested key, in all trees on the way to it. False if a subtree is not wholly copied
/// yet.
pub(crate) fn own_nested<W: CopyWrite>(writer: &mut W, tree: &Tree<'_>, key: &[u8]) -> Result<bool> {
    let stem_bytes = nest::stem_bytes(tree.order, writer.page_size());
    let (mut tree, mut rest) = (*tree, key);
    while let Some((stem, after)) = rest.split_at_checked(stem_bytes) {
        let leaf = own_leaf(writer, &tree, stem)?;
        let below = writer.read(leaf, |bytes| match Leaf::new(bytes).search(stem, tree.order) {
            Ok(slot) => nest::subtree_at(&tree, bytes, slot).map(|below| Some((slot, below))),
            Err(_) => Ok(None),
        })??;
        let Some((slot, below)) = below else { return Ok(true) };
        let below = Tree { home: tree.home.of_subtree(stem), ..below };
        tree = if writer.is_own(below.root)? {
            below
        } else {
            let Some(copy) = copy_led_to(writer, &below, leaf, slot)? else { return Ok(false) };
            copy
        };
        rest = after;
    }
    own_leaf(writer, &tree, rest).map(|_| true)
}

/// Copies a whole subtree, as [`copy_subtree`], and has the record in a slot of a leaf lead to it.
pub(super) fn copy_led_to<'t, W: CopyWrite>(
    writer: &mut W,
    old: &Tree<'t>,
    leaf: PageId,
    slot: usize,
) -> Result<Option<Tree<'t>>> {
    let Some(new) = copy_subtree(writer, old)? else { return Ok(None) };
    let records = writer.read(leaf, |bytes| nest::records_led_to(Leaf::new(bytes).value(slot)))?;
    let reference = nest::reference(&new, records);
    LeafMut::new(writer.write(leaf)?)
        .replace_value(slot, StoredValue::Inline(&reference))
        .map_err(|_| Error::corruption(format!("page {leaf} has no room for what stood there")))?;
    Ok(Some(new))
}

/// Copies a whole subtree, whose number is in all of its pages and goes with the root's. What is nested in it
/// stays. None if that is more than should be copied at once: the next call goes on.
pub(crate) fn copy_subtree<'t, W: CopyWrite>(writer: &mut W, old: &Tree<'t>) -> Result<Option<Tree<'t>>> {
    let root = match writer.begun().copied {
        Some((of, root)) if of == old.root => root,
        _ => {
            check_page(writer, old, (old.root, None))?;
            let root = writer.copy(old, old.root)?;
            header::set_tree_id(writer.write(root)?, TreeId(!root.0));
            root
        }
    };
    let new = Tree { root, id: TreeId(!root.0), ..*old };
    let is_whole = copy_below(writer, old, &new, root)?;
    writer.begun().copied = (!is_whole).then_some((old.root, root));
    Ok(is_whole.then_some(new))
}

/// Copies what a page of a subtree's copy leads to, in order, and what that does. False if there is more than
/// should be copied at once: of its children the first are copies by then, of which the last may not lead to
/// copies alone.
fn copy_below<W: CopyWrite>(writer: &mut W, old: &Tree<'_>, new: &Tree<'_>, page: PageId) -> Result<bool> {
    let (level, children) = writer.read(page, |bytes| match node::kind(bytes) {
        Some(NodeKind::Inner) => (node::level(bytes), Inner::new(bytes).count() + 1),
        _ => (0, 0),
    })?;
    let child = |writer: &W, slot| writer.read(page, |bytes| Inner::new(bytes).child(slot));
    let (mut copied, mut not) = (0, children);
    while copied < not {
        let middle = copied + (not - copied) / 2;
        if writer.is_own(child(writer, middle)?)? {
            copied = middle + 1;
        } else {
            not = middle;
        }
    }
    for slot in copied.saturating_sub(1)..children {
        let mut below = child(writer, slot)?;
        if slot >= copied {
            if writer.is_full() {
                return Ok(false);
            }
            below = own_child(writer, old, page, slot, below)?;
            header::set_tree_id(writer.write(below)?, new.id);
        }
        // Or damaged pages might lead round and round.
        check_page(writer, new, (below, level.checked_sub(1)))?;
        if !copy_below(writer, old, new, below)? {
            return Ok(false);
        }
    }
    Ok(true)
}

//! Puts and removes that may change the tree's shape.

use super::node::{self, Coming, Fences, Inner, InnerMut, Leaf, LeafMut, NodeKind, SplitPoint, StoredValue};
use super::{Step, Toward, Tree, counted, damaged, find_leaf, put_in_leaf};
use crate::access::PageWrite;
use crate::error::{Error, Result};
use crate::pages::header;
use crate::types::PageId;

/// Sets a record, splitting pages as needed.
pub(crate) fn put<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    key: &[u8],
    value: StoredValue<'_>,
) -> Result<()> {
    let mut path = Vec::new();
    loop {
        path.clear();
        let leaf = find_leaf(writer, tree, key, Toward::Key, |step| path.push(step))?;
        let counts = tree.method.counts()
            && writer.read(leaf, |bytes| Leaf::new(bytes).search(key, tree.order).is_err())?;
        if counts {
            counted::make_ready(writer, &path, leaf)?;
        }
        if put_in_leaf(writer.write(leaf)?, key, value, tree.order).is_ok() {
            return if counts { counted::add(writer, &path, 1) } else { Ok(()) };
        }
        split(writer, tree, &path, leaf, (key, value))?;
    }
}

/// Splits `page`, or, when its parent has no room for another separator, the parent; the caller descends
/// again.
pub(super) fn split<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    path: &[Step],
    page: PageId,
    (key, value): (&[u8], StoredValue<'_>),
) -> Result<()> {
    let Some((parent, above)) = path.split_last() else {
        return grow(writer, tree);
    };
    let has_room =
        writer.read(parent.page, |bytes| Inner::new(bytes).fits(node::key_bytes_max(bytes.len())))?;
    if !has_room {
        return split(writer, tree, above, parent.page, (key, value));
    }
    let source = writer.read(page, <[u8]>::to_vec)?;
    let right = writer.allocate(tree.home.volume)?;
    // Nothing may fail from here on: without the separator half of it would be lost.
    let [left_bytes, right_bytes, parent_bytes] = match writer.write_all([page, right, parent.page]) {
        Ok(bytes) => bytes,
        Err(error) => return Err(in_vain(writer, right, error)),
    };
    let separator = if node::kind(&source) == Some(NodeKind::Leaf) {
        let coming = Coming { key, value, place: Leaf::new(&source).search(key, tree.order) };
        let at = split_point(Leaf::new(&source), coming.place);
        node::split_leaf(&source, left_bytes, right_bytes, right, (at, coming))
    } else {
        let inner = Inner::new(&source);
        let at = if inner.find(key, tree.order).0 == inner.count() {
            SplitPoint::Append
        } else {
            SplitPoint::Middle
        };
        node::split_inner(&source, left_bytes, right_bytes, right, at)
    };
    let mut parent_page = InnerMut::new(parent_bytes);
    let has_room = parent_page.insert(parent.slot, &separator, right).is_ok();
    if has_room && tree.method.counts() {
        parent_page.set_records(parent.slot, counted::records_in(left_bytes));
        parent_page.set_records(parent.slot + 1, counted::records_in(right_bytes));
    }
    settle(writer, tree, page)?;
    settle(writer, tree, right)?;
    if has_room { Ok(()) } else { Err(damaged(tree, parent.page, "has less room than it says")) }
}

/// Has a leaf that got other fences be where it belongs now.
pub(super) fn settle<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, page: PageId) -> Result<()> {
    if tree.home.keys.is_empty() {
        return Ok(());
    }
    let home = writer.read(page, |bytes| tree.home_of_page(bytes))?;
    writer.settle(page, home)
}

/// Where to split a leaf: in the middle, unless records seem to come in order: at an end of the tree, or
/// next to the record that came before, at an end of the leaf. Of leaves of three records every second one
/// is split for a record at one of its ends, in whatever order they come.
fn split_point(leaf: Leaf<'_>, place: std::result::Result<usize, usize>) -> SplitPoint {
    let (count, Fences { lower, upper }) = (leaf.count(), leaf.fences());
    match place {
        Err(slot) if slot == count && (upper.is_none() || leaf.is_newest(count - 1)) => SplitPoint::Append,
        Err(0) if lower.is_none() || leaf.is_newest(0) => SplitPoint::Prepend,
        _ => SplitPoint::Middle,
    }
}

/// The error of a writer that has made a page in vain; the page is given back.
#[cold]
fn in_vain<W: PageWrite>(writer: &mut W, made: PageId, error: Error) -> Error {
    writer.give_back(made, 1);
    error
}

/// Moves the root's content one level down; the root then has one child, which can be split.
pub(super) fn grow<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<()> {
    let child = writer.allocate(tree.home.volume)?;
    let [root, below] = match writer.write_all([tree.root, child]) {
        Ok(bytes) => bytes,
        Err(error) => return Err(in_vain(writer, child, error)),
    };
    below.copy_from_slice(root);
    header::set_page_id(below, child);
    let flags = node::flags(root);
    let level = node::level(root) + 1;
    let mut root = InnerMut::format(root, tree.root, tree.id, flags, level, Fences::NONE, child);
    if tree.method.counts() {
        root.set_records(0, counted::records_in(below));
    }
    Ok(())
}

/// Removes a record, merging pages as they empty. False if it was not there.
#[cfg(test)]
pub(crate) fn remove<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, key: &[u8]) -> Result<bool> {
    remove_with(writer, tree, key, |_| Ok(()))
}

/// Removes a record, then what `led_to` removes, and merges pages as they empty. False if it was not there.
pub(super) fn remove_with<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    key: &[u8],
    led_to: impl FnOnce(&mut W) -> Result<()>,
) -> Result<bool> {
    let mut path = Vec::new();
    let leaf = find_leaf(writer, tree, key, Toward::Key, |step| path.push(step))?;
    if writer.read(leaf, |bytes| Leaf::new(bytes).search(key, tree.order).is_err())? {
        return Ok(false);
    }
    // What is written may be a newer version than what was read: others may have changed records beside this
    // one, which then is in another slot.
    if tree.method.counts() {
        counted::make_ready(writer, &path, leaf)?;
    }
    let bytes = writer.write(leaf)?;
    let Ok(index) = Leaf::new(bytes).search(key, tree.order) else { return Ok(false) };
    LeafMut::new(bytes).remove(index);
    if tree.method.counts() {
        // Of what leads to a subtree there is one left.
        counted::add(writer, &path, -1)?;
    }
    led_to(writer)?;
    merge_path(writer, tree, leaf, path)?;
    Ok(true)
}

/// Merges the leaf for `key`, which has become sparse, and what above it becomes so.
pub(crate) fn merge_up<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, key: &[u8]) -> Result<()> {
    let mut path = Vec::new();
    let leaf = find_leaf(writer, tree, key, Toward::Key, |step| path.push(step))?;
    merge_path(writer, tree, leaf, path)
}

fn merge_path<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    leaf: PageId,
    mut path: Vec<Step>,
) -> Result<()> {
    let mut page = leaf;
    while let Some(mut parent) = path.pop() {
        let above = parent.page;
        let mut is_merged = false;
        // Again, if what comes of it is as empty: a merge with a full neighbour may have failed before, and
        // left a page behind that nothing is removed from any more.
        while writer.read(page, should_merge)?
            && let Some((slot, merged)) = merge(writer, tree, parent, page)?
        {
            (page, parent.slot, is_merged) = (merged, slot, true);
        }
        if !is_merged {
            break;
        }
        page = above;
    }
    shrink(writer, tree)
}

/// Whether a page is so empty that it should be merged, if a neighbour has room.
pub(crate) fn should_merge(bytes: &[u8]) -> bool {
    node::used_bytes(bytes) < bytes.len() / 3
}

/// Merges `page`, the child that `parent` names, with a neighbour below the same parent, the right one or the
/// left, if the two fit one page: which child they are then, and of which slot.
///
/// The left one as well: where records go in the order of their keys, as a queue's do, the page to the right
/// is full each time, and the one to the left may be empty since nothing could be merged with it.
fn merge<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    parent: Step,
    page: PageId,
) -> Result<Option<(usize, PageId)>> {
    let with_left = parent.slot.checked_sub(1);
    for left_slot in std::iter::once(parent.slot).chain(with_left) {
        let neighbours = writer.read(parent.page, |bytes| {
            let inner = Inner::new(bytes);
            // A parent has one child more than separators.
            (left_slot < inner.count()).then(|| (inner.child(left_slot), inner.child(left_slot + 1)))
        })?;
        let Some((left, right)) = neighbours else { continue };
        // Else the page is no longer where the path says: an earlier merge of this commit moved it. It merges
        // another time.
        if (left == page || right == page) && merge_at(writer, tree, parent.page, left_slot, (left, right))? {
            return Ok(Some((left_slot, left)));
        }
    }
    Ok(None)
}

/// Merges two neighbouring children of `parent`, the left one in this slot, if they fit one page.
pub(super) fn merge_at<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    parent: PageId,
    left_slot: usize,
    (left, right): (PageId, PageId),
) -> Result<bool> {
    let separator = writer.read(parent, |bytes| {
        let (prefix, suffix) = Inner::new(bytes).separator(left_slot);
        [prefix, suffix].concat()
    })?;
    // As far as they can be seen: that they do not fit is not found out by writing both.
    let image = writer.read(left, <[u8]>::to_vec)?;
    if !writer.read(right, |bytes| node::may_merge(&image, bytes, &separator))? {
        return Ok(false);
    }
    // Leaves are latched in key order, and a neighbour may come before what is held already: so no waiting
    // for it.
    if !writer.try_claim(left)? || !writer.try_claim(right)? {
        return Ok(false);
    }
    // Written before they are compared: what is compared must be their newest state, under their latches.
    writer.write(left)?;
    writer.write(right)?;
    let left_image = writer.read(left, <[u8]>::to_vec)?;
    let right_image = writer.read(right, <[u8]>::to_vec)?;
    if !node::may_merge(&left_image, &right_image, &separator) {
        return Ok(false);
    }
    // Nothing may fail from here on: what is merged would be there twice.
    let [into, _, above] = writer.write_all([left, right, parent])?;
    let merged = if node::kind(&left_image) == Some(NodeKind::Leaf) {
        node::merge_leaf(&left_image, &right_image, &separator, into)
    } else {
        node::merge_inner(&left_image, &right_image, &separator, into)
    };
    assert!(merged, "two pages that may be merged fit one");
    let below = [left_slot, left_slot + 1].map(|slot| Inner::new(above).records_below(slot));
    let mut above = InnerMut::new(above);
    above.remove(left_slot);
    above.set_records(left_slot, below[0].saturating_add(below[1]));
    settle(writer, tree, left)?;
    writer.free(right)?;
    Ok(true)
}

/// Takes the content of a root's only child into the root.
pub(super) fn shrink<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<()> {
    loop {
        let only = writer.read(tree.root, |bytes| {
            (node::kind(bytes) == Some(NodeKind::Inner))
                .then(|| Inner::new(bytes))
                .filter(|inner| inner.count() == 0)
                .map(|inner| inner.child(0))
        })?;
        let Some(child) = only else { return Ok(()) };
        let [root, below] = writer.write_all([tree.root, child])?;
        root.copy_from_slice(below);
        header::set_page_id(root, tree.root);
        writer.free(child)?;
    }
}

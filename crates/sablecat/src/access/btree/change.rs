//! Setting and removing a record: in its leaf alone, or with whatever else has to change.

use super::node::{Leaf, LeafMut, StoredValue, inline_value_bytes_max};
use super::shape::{merge_up, put, should_merge};
use super::{Step, Toward, Tree, counted, find_leaf, is_leaf_for, nest, place_in};
use crate::access::method::{SetOrRemove, Tried};
use crate::access::{PageWrite, Sought, long};
use crate::error::Result;
use crate::types::{PageId, TreeId};

/// How a change of a leaf ended.
pub(super) enum LeafOutcome {
    Done,
    /// There was nothing to remove.
    Missing,
    /// The leaf has become so empty that it should be merged.
    Sparse,
    /// The leaf had no room and was split: another may cover the key now.
    Split,
}

/// Sets or removes a record in its leaf, if nothing else has to change.
#[inline(always)]
pub(crate) fn try_change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    page: PageId,
    (sought, value): (Sought<'_>, Option<&[u8]>),
) -> Result<Tried> {
    let is_long = |value: &[u8]| value.len() > inline_value_bytes_max(writer.page_size(), sought.key.len());
    if value.is_some_and(is_long) {
        return Ok(Tried::Structure);
    }
    try_set(writer, tree, page, (sought, value.map(StoredValue::Inline)))
}

/// As [`try_change`], of a value that has no pages of its own.
#[inline(always)]
pub(crate) fn try_set<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    page: PageId,
    (sought, value): (Sought<'_>, Option<StoredValue<'_>>),
) -> Result<Tried> {
    let leaf = Leaf::new(writer.latched(page)?);
    let place = place_in(leaf, sought, tree.order);
    // The pages of the value before change as well.
    if place.is_ok_and(|slot| leaf.value(slot).in_pages().is_some()) {
        return Ok(Tried::Structure);
    }
    // What changes counts changes the pages on the way as well.
    if tree.method.counts() && value.is_some() == place.is_err() {
        return Ok(Tried::Structure);
    }
    // The version that is written has what was read in the same slots.
    let fits = match (value, place) {
        (None, Err(_)) => return Ok(Tried::Missing),
        (Some(value), Ok(slot)) => LeafMut::new(writer.write(page)?).replace_value(slot, value).is_ok(),
        (Some(value), Err(slot)) => LeafMut::new(writer.write(page)?).insert(slot, sought.key, value).is_ok(),
        (None, Ok(slot)) => {
            let bytes = writer.write(page)?;
            LeafMut::new(bytes).remove(slot);
            page == tree.root || !should_merge(bytes)
        }
    };
    Ok(if fits { Tried::Done } else { Tried::Structure })
}

/// Removes a record from its leaf, however little that has left then: what is removed next goes the same way.
#[inline]
pub(crate) fn remove_here<W: PageWrite>(writer: &mut W, page: PageId, slot: usize) -> Result<Tried> {
    let leaf = Leaf::new(writer.latched(page)?);
    if slot >= leaf.count() || leaf.value(slot).in_pages().is_some() {
        return Ok(Tried::Structure);
    }
    LeafMut::new(writer.write(page)?).remove(slot);
    Ok(Tried::Done)
}

/// Sets or removes a record with all that has to change for it. The structure latch is held, or nobody else
/// is there.
pub(crate) fn change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    change: SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<bool> {
    let (key, value) = change;
    if nest::is_nested(tree, key, writer.page_size()) {
        return nest::change(writer, tree, key, value, store);
    }
    let set =
        value.map(|value| move |writer: &mut W| nest::store_value(writer, tree, key.len(), value, store));
    set_or_remove(writer, tree, (key, set), last)
}

/// As [`change`], of a key that is not nested; the value is what `set` stores.
pub(crate) fn set_or_remove<'v, W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (key, set): (&[u8], Option<impl FnOnce(&mut W) -> Result<StoredValue<'v>>>),
    last: &mut PageId,
) -> Result<bool> {
    let mut way = None;
    if *last == PageId::NONE || !is_leaf_for(writer.latched(*last)?, tree, tree.sought(key)) {
        let counts = tree.method.counts();
        let mut path = Vec::new();
        *last = find_leaf(writer, tree, key, Toward::Key, |step| {
            if counts {
                path.push(step);
            }
        })?;
        way = Some(path);
    }
    let changed = change_leaf(writer, tree, (*last, way), (key, set))?;
    if let LeafOutcome::Sparse = changed {
        merge_up(writer, tree, key)?;
    }
    if let LeafOutcome::Sparse | LeafOutcome::Split = changed {
        *last = PageId::NONE;
    }
    Ok(!matches!(changed, LeafOutcome::Missing))
}

/// Sets or removes a record in the leaf for its key, to which this is the way, if that is known, splitting
/// pages if need be; the value is what `set` stores. The pages of the value before are freed last: a writer
/// in place that fails on the way leaves pages that nothing leads to, and no record without its value.
pub(super) fn change_leaf<'v, W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (page, way): (PageId, Option<Vec<Step>>),
    (key, set): (&[u8], Option<impl FnOnce(&mut W) -> Result<StoredValue<'v>>>),
) -> Result<LeafOutcome> {
    let leaf = Leaf::new(writer.latched(page)?);
    let place = leaf.search(key, tree.order);
    let before = place.ok().and_then(|slot| leaf.value(slot).in_pages());
    let more = match (&set, place) {
        (Some(_), Err(_)) => 1,
        (None, Ok(_)) => -1,
        _ => 0,
    };
    let counts = tree.method.counts() && more != 0;
    let mut path = Vec::new();
    if counts {
        match way {
            Some(way) => path = way,
            None => _ = find_leaf(writer, tree, key, Toward::Key, |step| path.push(step))?,
        }
        counted::make_ready(writer, &path, page)?;
    }
    let changed = match (set, place) {
        (None, Err(_)) => return Ok(LeafOutcome::Missing),
        (None, Ok(slot)) => {
            let bytes = writer.write(page)?;
            LeafMut::new(bytes).remove(slot);
            if should_merge(bytes) && page != tree.root { LeafOutcome::Sparse } else { LeafOutcome::Done }
        }
        (Some(set), place) => {
            let stored = set(writer)?;
            match put_in_page(writer, tree, page, (key, stored), place) {
                Ok(changed) => changed,
                Err(error) => {
                    long::give_back(writer, stored);
                    return Err(error);
                }
            }
        }
    };
    // A change that splits pages counts what it puts.
    if counts && !matches!(changed, LeafOutcome::Split) {
        counted::add(writer, &path, more)?;
    }
    if let Some((first, len)) = before {
        long::free(writer, first, len)?;
    }
    Ok(changed)
}

/// Sets a record in its place in a leaf, splitting pages if need be.
#[inline(always)]
fn put_in_page<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    page: PageId,
    (key, stored): (&[u8], StoredValue<'_>),
    place: std::result::Result<usize, usize>,
) -> Result<LeafOutcome> {
    let mut leaf = LeafMut::new(writer.write(page)?);
    let put_here = match place {
        Ok(slot) => leaf.replace_value(slot, stored),
        Err(slot) => leaf.insert(slot, key, stored),
    };
    if put_here.is_err() {
        put(writer, tree, key, stored)?;
        return Ok(LeafOutcome::Split);
    }
    Ok(LeafOutcome::Done)
}

//! LSM trees: for records that are written more often than read, and do not fit memory.
//!
//! A change of a B+tree reads the page that it belongs to, and some time later that is written, each time for
//! one record perhaps. Here changes go to the *newest layer*, a small B+tree that stays in memory. Once it is
//! as large as it should be it is *sealed*: nobody changes it any more, and another, empty one, takes its
//! place. Sealed layers of like size are *merged*: read from end to end, side by side, and written from end
//! to end as one. (O'Neil, Cheng, Gawlick and O'Neil, The log-structured merge-tree, Acta Informatica 33,
//! 1996; merged by size as in Jagadish and others, Incremental organization for data recording and
//! warehousing, VLDB 1997.)
//!
//! ```text
//! root page   newest layer: a B+tree, changed
//!             layer         a B+tree, and a B+tree of filters (filter.rs)
//!             layer         ...
//! ```
//!
//! What a layer says of a key hides what older ones say. A removal is a record that says so
//! ([`StoredValue::REMOVED`]), until it is merged with the oldest layer. Until it is first sealed, a tree is
//! a B+tree and nothing else.
//!
//! *Versions.* What a key's record is follows from the page of the newest layer that covers the key, and from
//! layers that do not change. So that page is the key's place: each change is one of that page, and who has
//! read a record has read that page. Merging changes no record, and so concerns nobody. Sealing does: pages
//! of the newest layer are not that any more, and nothing in them says so. It is therefore said to everybody
//! that the tree was built anew (txn/commit/rebuilt.rs).
//!
//! *Merges go on by steps*, each of which is a commit that no log record tells of, like a split: it appends
//! some records to what was made so far, which the root page names. So a merge goes on where it was, whoever
//! made the last step, and whatever died or crashed since. The layers that were merged stay until all of them
//! is in the one that was made; one commit puts it in their place. Then they are freed, also by steps.
//!
//! *Costs.* A record is written to the newest layer, in memory, then once for each time that its layer is
//! merged: about as often as the logarithm, to the base 4, of how many newest layers there are room for in
//! all of the records. A lookup asks each layer's filter, and goes down one layer for the record, in a
//! hundredth of the cases another for nothing. A scan goes along all layers.
//!
//! *Long values* stay where they are when their layers are merged, and what is made leads to them (as in Lu
//! and others, WiscKey: separating keys from values in SSD-conscious storage, FAST 2016): each belongs to the
//! layers that are merged until a step appends its record to what is made, and to that from then on. The same
//! step frees those that the record hides. So what was merged has none when it is freed.
//!
//! *Not here:* keys too long for a page, of which a B+tree makes subtrees.

mod filter;
mod load;
mod page;
mod scan;
mod upkeep;
mod whole;

pub(crate) use load::Load;
pub(super) use page::{KIND, check};
pub(crate) use scan::Ends;
pub(crate) use upkeep::{Drawing, DrawnStep, LayerDuty, LayerLimits};
pub(super) use upkeep::{duty, freed_next, overdue, perform};
pub(super) use whole::{Freeing, estimate, estimate_range, free_root, reach, verify};

use self::filter::FilterHash;
use self::page::{Layers, has_layers, newest_at};
use super::btree::{self, Toward};
use super::method::{SetOrRemove, StoredValue, Tree, Tried};
use super::wrong::{misplaced, unborn};
use super::{CopyWrite, PageRead, PageWrite, Sought};
use crate::error::{Error, Result};
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// Refuses keys that are too long.
pub(super) fn check_key(page_size: usize, key: &[u8]) -> Result<()> {
    let most = btree::node::key_bytes_max(page_size) - 1;
    if key.len() <= most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a key of {} bytes; keys of an LSM tree can have {most} at most with pages of this size (those of a \
         B+tree can be longer)",
        key.len()
    )))
}

/// Shows `look` the root of a tree.
#[inline]
fn at_root<R: PageRead, T>(reader: &R, tree: &Tree<'_>, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
    let looked = reader.read(tree.root, |bytes| {
        if header::tree_id(bytes) == tree.id { Ok(look(bytes)) } else { Err(misplaced(tree, tree.root)) }
    });
    looked.map_err(|error| unborn(tree, tree.root, error))?
}

/// The layer that takes the changes: the tree itself, if it has no others.
#[inline]
fn newest<'t, R: PageRead>(reader: &R, tree: &Tree<'t>) -> Result<Tree<'t>> {
    let root = |bytes: &[u8]| if has_layers(bytes) { page::newest(bytes) } else { tree.root };
    at_root(reader, tree, root).map(|root| newest_at(tree, root))
}

/// The layers of a tree; none: it is a B+tree so far.
fn layers<R: PageRead>(reader: &R, tree: &Tree<'_>) -> Result<Option<Layers>> {
    at_root(reader, tree, |bytes| has_layers(bytes).then(|| Layers::read(bytes)))
}

/// The page of the newest layer that covers a key.
pub(super) fn find<R: PageRead>(reader: &R, tree: &Tree<'_>, key: &[u8]) -> Result<PageId> {
    btree::find_leaf(reader, &newest(reader, tree)?, key, Toward::Key, |_| {})
}

/// The page of the newest layer that covers a key, by what leads there: it may not be in memory yet.
pub(super) fn led_to<R: PageRead>(reader: &R, tree: &Tree<'_>, key: &[u8]) -> Result<PageId> {
    btree::leaf_led_to(reader, &newest(reader, tree)?, key)
}

/// The value of a record in a page that says what it is.
#[inline]
pub(super) fn get<'p>(bytes: &'p [u8], sought: Sought<'_>, tree: &Tree<'_>) -> Option<StoredValue<'p>> {
    says(bytes, sought, tree).flatten()
}

/// What a page says of a record: the value, or that there is none; none: nothing.
#[inline]
pub(super) fn says<'p>(
    bytes: &'p [u8],
    sought: Sought<'_>,
    tree: &Tree<'_>,
) -> Option<Option<StoredValue<'p>>> {
    let said = btree::get(bytes, sought, tree.order)?;
    Some((!said.is_removed()).then_some(said))
}

/// The page of an older layer that says what a record is of which the newest says nothing.
pub(super) fn find_below<R: PageRead>(reader: &R, tree: &Tree<'_>, key: &[u8]) -> Result<Option<PageId>> {
    let (hash, sought) = (FilterHash::of(key), tree.sought(key));
    let nth = |n| {
        reader.read(tree.root, |bytes| {
            (has_layers(bytes) && n < page::count_below(bytes)).then(|| page::layer(bytes, n))
        })
    };
    let mut n = 0;
    while let Some(layer) = nth(n)? {
        n += 1;
        if let Some(filters) = layer.filter_tree(tree)
            && !filter::may_have(reader, &filters, key, hash)?
        {
            continue;
        }
        let page = btree::find_leaf(reader, &layer.tree(tree), key, Toward::Key, |_| {})?;
        if reader.read(page, |bytes| says(bytes, sought, tree).is_some())? {
            return Ok(Some(page));
        }
    }
    Ok(None)
}

/// Sets or removes a record in the page that covers its key, if nothing else has to change. Whether there is
/// a record to be removed is not looked for in older layers.
#[inline]
pub(super) fn try_change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    page: PageId,
    (sought, value): (Sought<'_>, Option<&[u8]>),
) -> Result<Tried> {
    let newest = newest_at(tree, tree.root);
    match value {
        // Where there are no layers in the state that the page was found in, there are none: or the tree is
        // another since, which this change will then be told.
        None if writer.read(tree.root, has_layers)? => {
            btree::try_set(writer, &newest, page, (sought, Some(StoredValue::REMOVED)))
        }
        value => btree::try_change(writer, &newest, page, (sought, value)),
    }
}

/// Sets or removes a record with all that has to change for it. The structure latch is held, or nobody else
/// is there. True where there are older layers, in which a record to be removed is not looked for.
pub(super) fn change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (key, value): SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<bool> {
    let newest = newest(writer, tree)?;
    // Older layers may have a record, which is then to be hidden.
    if value.is_none() && newest.root != tree.root {
        return btree::set_or_remove(writer, &newest, (key, Some(removal)), last);
    }
    btree::change(writer, &newest, (key, value), last, store)
}

/// As [`change`], in a tree whose root is a copy. None if so far only pages were copied.
pub(super) fn change_beside<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (key, value): SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<Option<bool>> {
    let mut newest = newest(writer, tree)?;
    if !writer.is_own(newest.root)? {
        let copy = writer.copy(&newest, newest.root)?;
        page::set_newest(writer.write(tree.root)?, copy);
        newest.root = copy;
    }
    if value.is_none() && newest.root != tree.root {
        return btree::set_or_remove_beside(writer, &newest, (key, Some(removal)), last).map(Some);
    }
    btree::change_beside(writer, &newest, (key, value), last, store)
}

/// Stores a removal.
fn removal<W>(_: &mut W) -> Result<StoredValue<'static>> {
    Ok(StoredValue::REMOVED)
}

//! Counted trees: B+trees that know how many records there are before a key, and which is the nth.
//!
//! Each inner page says of each child how many records there are below it (node/counts.rs). So what there is
//! before a key is the sum of what is left of the way to it, and the nth record is found by going down where
//! the sum passes n.
//!
//! What makes a record or takes one away changes a count on each page from the root to the leaf. That is a
//! change of structure: it is made under the tree's structure latch, one at a time, and all these pages get
//! new versions with the leaf. A change of a value needs the leaf alone, as in any tree. Splits and merges
//! change no sums: they count again what is below the two pages.
//!
//! A subtree of nested keys is counted as a part of the tree around it. The reference to it has its count, so
//! that what is below a page always follows from that page alone, without a way into subtrees.
//!
//! Costs, in pages of 4 KiB with 200 children: an insertion copies an inner page for each level; a search by
//! number or for one adds up half of the counts of each, some 100 ns a level.

use std::ops::Bound;

use super::node::{self, Inner, InnerMut, Leaf, LeafMut, NodeKind, Order, StoredValue};
use super::{LEVELS_MAX, Step, Toward, Tree, damaged, find_leaf, misplaced, nest, unborn};
use crate::access::numbers::CountedRecord;
use crate::access::scan::ScannedValue;
use crate::access::{PageRead, PageWrite};
use crate::error::Result;
use crate::pages::header;
use crate::types::PageId;

/// How many records there are in a page and below it, as the page says.
pub(super) fn records_in(bytes: &[u8]) -> u64 {
    match node::kind(bytes) {
        Some(NodeKind::Leaf) => records_of_leaf(Leaf::new(bytes), bytes, 0..Leaf::new(bytes).count()),
        Some(NodeKind::Inner) => {
            let inner = Inner::new(bytes);
            inner.records_before(inner.count() + 1)
        }
        None => 0,
    }
}

/// The length of a stem in the leaves of a tree, as one of them says.
fn stem_bytes(bytes: &[u8]) -> usize {
    let nests = node::flags(bytes) & node::FLAG_CUSTOM_ORDER == 0;
    if nests { nest::stem_bytes(Order::Bytes, bytes.len()) } else { usize::MAX }
}

/// How many records some slots of a leaf are, or lead to.
fn records_of_leaf(leaf: Leaf<'_>, bytes: &[u8], slots: std::ops::Range<usize>) -> u64 {
    let stem_bytes = stem_bytes(bytes);
    leaf.records(slots)
        .map(|record| records_of(leaf.prefix().len() + record.suffix().len(), stem_bytes, record.value()))
        .sum()
}

/// How many records a record of a leaf stands for.
fn records_of(key_len: usize, stem_bytes: usize, value: StoredValue<'_>) -> u64 {
    if key_len == stem_bytes { nest::records_led_to(value) } else { 1 }
}

/// Makes sure that a leaf and all inner pages on the way to it can be changed: from here on writing them does
/// not fail.
pub(super) fn make_ready<W: PageWrite>(writer: &mut W, path: &[Step], leaf: PageId) -> Result<()> {
    let mut pages: Vec<PageId> = path.iter().map(|step| step.page).collect();
    pages.push(leaf);
    writer.make_ready(&pages)
}

/// Says on the way to a leaf that there are so many records more below, or fewer.
pub(super) fn add<W: PageWrite>(writer: &mut W, path: &[Step], more: i64) -> Result<()> {
    for step in path {
        let bytes = writer.write(step.page)?;
        if node::kind(bytes) == Some(NodeKind::Inner) && step.slot <= Inner::new(bytes).count() {
            InnerMut::new(bytes).add_records(step.slot, more);
        }
    }
    Ok(())
}

/// Says in a tree that the subtree of a stem has so many records more, or fewer.
pub(super) fn add_nested<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    stem: &[u8],
    more: i64,
) -> Result<()> {
    let mut path = Vec::new();
    let leaf = find_leaf(writer, tree, stem, Toward::Key, |step| path.push(step))?;
    make_ready(writer, &path, leaf)?;
    let bytes = writer.write(leaf)?;
    if let Ok(slot) = Leaf::new(bytes).search(stem, tree.order) {
        let below = nest::subtree_at(tree, bytes, slot)?;
        let records = nest::records_led_to(Leaf::new(bytes).value(slot)).saturating_add_signed(more);
        let reference = nest::reference(&below, records);
        // Of the length that it has.
        let is_there = LeafMut::new(bytes).replace_value(slot, StoredValue::Inline(&reference)).is_ok();
        debug_assert!(is_there, "a reference takes the place of one");
    }
    add(writer, &path, more)
}

/// One step of a search: what a page says.
enum RankStep {
    /// So many records before where the search goes on.
    Child(u64, PageId),
    /// It goes on in a subtree.
    Nested(u64, Tree<'static>, Vec<u8>),
    /// It ends.
    Here(u64),
}

/// How many records there are up to an upper bound.
///
/// # Errors
/// Those of reading, and corruption if pages do not form a counted tree.
pub(crate) fn count_below<R: PageRead>(reader: &R, tree: &Tree<'_>, upper: Bound<&[u8]>) -> Result<u64> {
    let (mut tree, mut upper, mut stems_len) = (*tree, upper, 0);
    let mut records: u64 = 0;
    let mut page = tree.root;
    let mut levels = 0;
    loop {
        let down = look(reader, &tree, page, |bytes| match upper {
            Bound::Unbounded => Ok(RankStep::Here(records_in(bytes))),
            Bound::Included(key) | Bound::Excluded(key) => {
                count_in(&tree, bytes, key, matches!(upper, Bound::Included(_)))
            }
        })?;
        match down {
            RankStep::Here(before) => return Ok(records.saturating_add(before)),
            RankStep::Child(before, child) => {
                records = records.saturating_add(before);
                page = child;
                levels += 1;
            }
            RankStep::Nested(before, below, stem) => {
                records = records.saturating_add(before);
                stems_len += stem.len();
                reader.read(page, |bytes| nest::check_depth(&tree, bytes, stems_len))??;
                upper = nest::inside(upper, &stem);
                (page, levels) = (below.root, 0);
                tree = below;
            }
        }
        if levels > LEVELS_MAX {
            return Err(damaged(&tree, page, "is deeper below the root than a tree can be"));
        }
    }
}

/// What a page says of the records below a key, which has to be counted as well if it is `included`.
fn count_in(tree: &Tree<'_>, bytes: &[u8], key: &[u8], included: bool) -> Result<RankStep> {
    if node::kind(bytes) == Some(NodeKind::Inner) {
        let inner = Inner::new(bytes);
        let (slot, child) = inner.find(key, tree.order);
        return Ok(RankStep::Child(inner.records_before(slot), child));
    }
    let leaf = Leaf::new(bytes);
    let stem = key.get(..stem_bytes(bytes));
    Ok(match (leaf.search(stem.unwrap_or(key), tree.order), stem) {
        (Ok(slot), Some(stem)) => {
            let below = nest::subtree_at(tree, bytes, slot)?;
            RankStep::Nested(records_of_leaf(leaf, bytes, 0..slot), below, stem.to_vec())
        }
        (Ok(slot), None) => RankStep::Here(records_of_leaf(leaf, bytes, 0..slot) + u64::from(included)),
        (Err(slot), _) => RankStep::Here(records_of_leaf(leaf, bytes, 0..slot)),
    })
}

/// Shows a page that must be one of a counted tree.
fn look<R: PageRead, T>(
    reader: &R,
    tree: &Tree<'_>,
    page: PageId,
    look: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    reader
        .read(page, |bytes| {
            if header::tree_id(bytes) != tree.id {
                return Err(misplaced(tree, page));
            }
            match node::kind(bytes) {
                Some(_) if node::is_counted(bytes) => look(bytes),
                Some(_) => Err(damaged(tree, page, "has no counts of its records")),
                None => Err(damaged(tree, page, super::NEITHER)),
            }
        })
        .map_err(|error| unborn(tree, page, error))?
}

/// Where the nth record is, as a page says.
enum Nth {
    Child(u64, PageId),
    Nested(u64, Tree<'static>, Vec<u8>),
    Found(Vec<u8>, ScannedValue),
    /// There are not so many.
    Beyond,
}

/// The record before which there are `n`; none if there are no more.
///
/// # Errors
/// As [`count_below`].
pub(crate) fn record_at<R: PageRead>(reader: &R, tree: &Tree<'_>, n: u64) -> Result<Option<CountedRecord>> {
    let (mut tree, mut stems) = (*tree, Vec::new());
    let (mut page, mut left, mut levels) = (tree.root, n, 0);
    // Whether a page before this one has said that it is here.
    let mut is_promised = false;
    loop {
        match look(reader, &tree, page, |bytes| nth_in(&tree, bytes, left))? {
            Nth::Found(rest, found) => return Ok(Some(([stems, rest].concat(), found))),
            Nth::Beyond if is_promised => {
                return Err(damaged(&tree, page, "has fewer records than what leads to it says"));
            }
            Nth::Beyond => return Ok(None),
            Nth::Child(rest, child) => {
                (left, page) = (rest, child);
                levels += 1;
            }
            Nth::Nested(rest, below, stem) => {
                stems.extend(stem);
                reader.read(page, |bytes| nest::check_depth(&tree, bytes, stems.len()))??;
                (left, page, levels) = (rest, below.root, 0);
                tree = below;
            }
        }
        is_promised = true;
        if levels > LEVELS_MAX {
            return Err(damaged(&tree, page, "is deeper below the root than a tree can be"));
        }
    }
}

fn nth_in(tree: &Tree<'_>, bytes: &[u8], n: u64) -> Result<Nth> {
    let mut left = n;
    if node::kind(bytes) == Some(NodeKind::Inner) {
        let inner = Inner::new(bytes);
        for slot in 0..=inner.count() {
            let records = inner.records_below(slot);
            if left < records {
                return Ok(Nth::Child(left, inner.child(slot)));
            }
            left -= records;
        }
        return Ok(Nth::Beyond);
    }
    let (leaf, stem_bytes) = (Leaf::new(bytes), stem_bytes(bytes));
    for (slot, record) in leaf.records(0..leaf.count()).enumerate() {
        let key_len = leaf.prefix().len() + record.suffix().len();
        let records = records_of(key_len, stem_bytes, record.value());
        if left >= records {
            left -= records;
            continue;
        }
        let key = [leaf.prefix(), record.suffix()].concat();
        if key_len == stem_bytes {
            return Ok(Nth::Nested(left, nest::subtree_at(tree, bytes, slot)?, key));
        }
        return Ok(Nth::Found(key, record.value().into()));
    }
    Ok(Nth::Beyond)
}

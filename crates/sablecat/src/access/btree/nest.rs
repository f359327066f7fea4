//! Trees within trees: how keys are held that are too long for a page.
//!
//! A tree in the order of bytes holds keys shorter than a *stem* in its own leaves: the stem's length is that
//! of the longest key that a page can hold. All longer keys that begin with one stem live in a *subtree*,
//! without the stem; what is left of them may be empty, or be as long as a stem again, and is then nested
//! again. (Masstree's trie of B+trees, Mao, Kohler and Morris 2012, with longer slices.) In the tree around
//! it the subtree is a record with the stem for its key, and for its value a *reference*:
//!
//! ```text
//! tree id u32 | root page u32 | records in it u48, in a counted tree
//! ```
//!
//! So a record whose key is exactly as long as a stem always is a reference, and order is kept: the stem
//! sorts before everything longer that begins with it, and everything in its place begins with it.
//!
//! * The number of a subtree is its root's page number with all bits flipped. No two trees have one root at a
//!   time, so numbers need not be given out: they cannot run out, and replaying the log need not find those
//!   of before.
//! * A subtree is never empty: the first put below a stem makes it, the removal of its last record unmakes
//!   it, in the same commit.
//! * References, and all pages of subtrees, change only under the structure latch of the outermost tree.
//! * Each step down uses up a stem of a key with a limit, so no damage makes a descent endless. A scan, which
//!   has no key to use up, counts.
//!
//! A tree with an order of its own compares whole keys: there is no nesting in it. In the place of the
//! outermost tree there may be a hash table, of which the same is asked: to find, set and remove references.
//!
//! Costs: a stem that only one key begins with takes a page of its own. A descent adds one descent a stem.

use super::node::{self, COUNT_BYTES, Inner, Leaf, NodeKind, Order, StoredValue, decode_count, encode_count};
use super::shape::{put, remove_with};
use super::{Toward, Tree, counted, damaged, find_leaf, flags_of, format_root};
use crate::access::method::{KeyPlace, Method};
use crate::access::{Home, PageRead, PageWrite, hash, long};
use crate::error::{Error, Result};
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// The longest key of a tree in the order of bytes, whatever the page size.
pub(crate) const KEY_BYTES_MAX: usize = 65536;

const REFERENCE_BYTES: usize = 8;

/// Bytes of a stem: a key at least as long is nested.
#[inline]
pub(crate) fn stem_bytes(order: Order<'_>, page_size: usize) -> usize {
    match order {
        Order::Bytes | Order::Hashed(_) => node::key_bytes_max(page_size),
        Order::Custom(_) => usize::MAX,
    }
}

/// Whether a key is nested.
#[inline]
pub(crate) fn is_nested(tree: &Tree<'_>, key: &[u8], page_size: usize) -> bool {
    key.len() >= stem_bytes(tree.order, page_size)
}

/// The longest key that a tree takes.
#[inline]
pub(crate) fn key_bytes_max(order: Order<'_>, page_size: usize) -> usize {
    match order {
        Order::Bytes | Order::Hashed(_) => KEY_BYTES_MAX,
        Order::Custom(_) => node::key_bytes_max(page_size),
    }
}

impl Tree<'_> {
    /// The subtree with this root, whose pages go there.
    pub(in crate::access) fn subtree(root: PageId, method: Method, home: Home<'static>) -> Tree<'static> {
        Tree { id: TreeId(!root.0), root, method, order: Order::Bytes, home }
    }
}

/// What stands under a stem for a subtree with so many records, which it says in a counted tree.
pub(crate) fn reference(subtree: &Tree<'_>, records: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REFERENCE_BYTES + COUNT_BYTES);
    bytes.extend((!subtree.root.0).to_le_bytes());
    bytes.extend(subtree.root.0.to_le_bytes());
    if subtree.method.counts() {
        bytes.extend(encode_count(records));
    }
    bytes
}

/// The subtree, arranged by this method, that a reference names; the error says what is wrong with it, not
/// where it is.
pub(crate) fn subtree(
    value: StoredValue<'_>,
    method: Method,
) -> std::result::Result<Tree<'static>, &'static str> {
    let count_bytes = if method.counts() { COUNT_BYTES } else { 0 };
    let (id, root) = match value {
        StoredValue::Inline(&[a, b, c, d, e, f, g, h, ref count @ ..]) if count.len() == count_bytes => {
            (u32::from_le_bytes([a, b, c, d]), PageId(u32::from_le_bytes([e, f, g, h])))
        }
        _ => return Err("where a reference to a subtree should be, has another value"),
    };
    if root == PageId::NONE || id != !root.0 {
        return Err("has a reference to a subtree whose number and root page do not fit each other");
    }
    // For reading. A writer that changes a subtree has come by its stem.
    Ok(Tree::subtree(root, method, Home::MAIN))
}

/// How many records there are in the subtree that a reference of a counted tree names, as it says.
pub(super) fn records_led_to(value: StoredValue<'_>) -> u64 {
    match value {
        StoredValue::Inline(bytes) => {
            bytes.get(REFERENCE_BYTES..).and_then(<[u8]>::first_chunk).map_or(0, decode_count)
        }
        StoredValue::Long { .. } => 0,
    }
}

/// The subtree in a leaf's slot, whose key is a stem.
pub(crate) fn subtree_at(tree: &Tree<'_>, bytes: &[u8], slot: usize) -> Result<Tree<'static>> {
    subtree(Leaf::new(bytes).value(slot), tree.method.nested())
        .map_err(|why| damaged(tree, header::page_id(bytes), format_args!("{why} (record {slot})")))
}

/// Refuses to go deeper than any key does. `bytes` is a leaf, and stems of so many bytes lead to it or
/// further.
pub(crate) fn check_depth(tree: &Tree<'_>, bytes: &[u8], stems_len: usize) -> Result<()> {
    if stems_len <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(damaged(tree, header::page_id(bytes), "is nested deeper than the longest key, or leads to what is"))
}

/// Finds where a key belongs, telling `passed` of the trees around it, from the outermost on.
#[inline]
pub(crate) fn find<'t, 'k, R: PageRead>(
    reader: &R,
    tree: &Tree<'t>,
    key: &'k [u8],
    passed: impl FnMut(Tree<'t>),
) -> Result<KeyPlace<'t, 'k>> {
    if is_nested(tree, key, reader.page_size()) {
        find_nested(reader, tree, key, passed)
    } else {
        Ok(KeyPlace { tree: *tree, stems: &[], rest: key })
    }
}

#[cold]
fn find_nested<'t, 'k, R: PageRead>(
    reader: &R,
    tree: &Tree<'t>,
    key: &'k [u8],
    mut passed: impl FnMut(Tree<'t>),
) -> Result<KeyPlace<'t, 'k>> {
    let mut tree = *tree;
    let (mut stems, mut rest) = key.split_at(0);
    while let Some((stem, _)) = rest.split_at_checked(stem_bytes(tree.order, reader.page_size())) {
        let Some(below) = find_subtree(reader, &tree, stem)? else { break };
        passed(tree);
        tree = Tree { home: tree.home.of_subtree(stem), ..below };
        (stems, rest) = key.split_at(stems.len() + stem.len());
    }
    Ok(KeyPlace { tree, stems, rest })
}

/// The subtree of a stem.
pub(super) fn find_subtree<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    stem: &[u8],
) -> Result<Option<Tree<'static>>> {
    if tree.method == Method::Hash {
        return hash::subtree_of(reader, tree, stem);
    }
    let leaf = find_leaf(reader, tree, stem, Toward::Key, |_| {})?;
    reader.read(leaf, |bytes| match Leaf::new(bytes).search(stem, tree.order) {
        Ok(slot) => subtree_at(tree, bytes, slot).map(Some),
        Err(_) => Ok(None),
    })?
}

/// The leaf of this very tree that has, or will have, the reference to the subtree of a nested key.
pub(crate) fn find_around<R: PageRead>(reader: &R, tree: &Tree<'_>, key: &[u8]) -> Result<PageId> {
    let stem = &key[..key.len().min(stem_bytes(tree.order, reader.page_size()))];
    find_leaf(reader, tree, stem, Toward::Key, |_| {})
}

/// A bound on the keys of a subtree that whole keys on this side of `bound` have there, some of them being
/// below `stems`.
pub(crate) fn inside<'b>(bound: std::ops::Bound<&'b [u8]>, stems: &[u8]) -> std::ops::Bound<&'b [u8]> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    match bound {
        Included(key) => key.strip_prefix(stems).map_or(Unbounded, Included),
        Excluded(key) => key.strip_prefix(stems).map_or(Unbounded, Excluded),
        Unbounded => Unbounded,
    }
}

/// What a tree keeps beside a key of `key_len` bytes: the value itself, or where its pages are, which `store`
/// puts it in.
#[inline]
pub(crate) fn store_value<'v, W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    key_len: usize,
    value: &'v [u8],
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<StoredValue<'v>> {
    if value.len() <= tree.inline_value_bytes_max(writer.page_size(), key_len) {
        return Ok(StoredValue::Inline(value));
    }
    Ok(StoredValue::Long { first_page: store(writer, tree.id, value)?, len: value.len() as u64 })
}

/// Sets or removes the record of a nested key, making and unmaking subtrees. `store` stores the value if it
/// is long. False if there was nothing to remove.
///
/// The outermost tree's structure latch is held, or nobody else is there.
#[cold]
pub(crate) fn change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    key: &[u8],
    value: Option<&[u8]>,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<bool> {
    let mut around = Vec::new();
    let place = find(writer, tree, key, |tree| around.push(tree))?;
    let before = if is_nested(&place.tree, place.rest, writer.page_size()) {
        Before::Nothing
    } else {
        before(writer, &place)?
    };
    match value {
        Some(value) => {
            // Before it: so what fails after that can be undone.
            let counts = matches!(before, Before::Nothing);
            if counts {
                count_around(writer, &around, key, 1)?;
            }
            if let Err(error) = insert(writer, &place, value, store) {
                if counts {
                    _ = count_around(writer, &around, key, -1);
                }
                return Err(error);
            }
            before.free(writer).map(|()| true)
        }
        None if matches!(before, Before::Nothing) => Ok(false),
        None => take_out(writer, &place, around, key, before).map(|()| true),
    }
}

/// Has the trees around that of a key, as far as they are counted, say that there are so many records more in
/// what is nested in them, or fewer.
fn count_around<W: PageWrite>(writer: &mut W, around: &[Tree<'_>], key: &[u8], more: i64) -> Result<()> {
    for (depth, tree) in around.iter().enumerate().filter(|(_, tree)| tree.method.counts()) {
        let stem_len = stem_bytes(tree.order, writer.page_size());
        let stem = key.get(depth * stem_len..(depth + 1) * stem_len).unwrap_or_default();
        counted::add_nested(writer, tree, stem, more)?;
    }
    Ok(())
}

/// What a record was before it changes.
enum Before {
    Nothing,
    Inline,
    Long(PageId, u64),
}

impl Before {
    /// Frees the pages of the value, to which nothing leads any more.
    fn free<W: PageWrite>(self, writer: &mut W) -> Result<()> {
        if let Before::Long(first, len) = self { long::free(writer, first, len) } else { Ok(()) }
    }
}

fn before<R: PageRead>(reader: &R, place: &KeyPlace<'_, '_>) -> Result<Before> {
    let leaf = find_leaf(reader, &place.tree, place.rest, Toward::Key, |_| {})?;
    reader.read(leaf, |bytes| {
        let leaf = Leaf::new(bytes);
        match leaf.search(place.rest, place.tree.order).map(|slot| leaf.value(slot)) {
            Ok(StoredValue::Long { first_page, len }) => Before::Long(first_page, len),
            Ok(StoredValue::Inline(_)) => Before::Inline,
            Err(_) => Before::Nothing,
        }
    })
}

/// Puts a record where it belongs, in new subtrees if need be. These are made from the innermost out, so that
/// nothing leads to them if a writer in place fails on the way; then they are given back.
fn insert<W: PageWrite>(
    writer: &mut W,
    place: &KeyPlace<'_, '_>,
    value: &[u8],
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<()> {
    let (mut stored, mut roots) = (StoredValue::Inline(value), Vec::new());
    let inserted = insert_noting(writer, place, value, store, (&mut stored, &mut roots));
    if inserted.is_err() {
        long::give_back(writer, stored);
        roots.into_iter().for_each(|root| writer.give_back(root, 1));
    }
    inserted
}

/// As [`insert`], noting what the value is kept as and the roots of new subtrees as they are made. None of
/// these has more than a page.
fn insert_noting<'v, W: PageWrite>(
    writer: &mut W,
    place: &KeyPlace<'_, '_>,
    value: &'v [u8],
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    (stored, roots): (&mut StoredValue<'v>, &mut Vec<PageId>),
) -> Result<()> {
    let stem_len = stem_bytes(place.tree.order, writer.page_size());
    let (stems, last) = place.rest.split_at(place.rest.len() / stem_len * stem_len);
    // Whatever is nested in it is where the outermost of the new ones is.
    let home = place.tree.home.of_subtree(stems);
    let method = place.tree.method.nested();
    let mut make = |writer: &mut W| make(writer, method, home).inspect(|tree| roots.push(tree.root));
    let mut tree = if stems.is_empty() { place.tree } else { make(writer)? };
    *stored = store_value(writer, &tree, last.len(), value, store)?;
    put(writer, &tree, last, *stored)?;
    for (depth, stem) in stems.chunks_exact(stem_len).enumerate().rev() {
        let around = if depth == 0 { place.tree } else { make(writer)? };
        let reference = reference(&tree, 1);
        if around.method == Method::Hash {
            hash::put_reference(writer, &around, stem, StoredValue::Inline(&reference))?;
        } else {
            put(writer, &around, stem, StoredValue::Inline(&reference))?;
        }
        tree = around;
    }
    Ok(())
}

/// Makes an empty subtree, whose pages go there.
pub(super) fn make<W: PageWrite>(
    writer: &mut W,
    method: Method,
    home: Home<'static>,
) -> Result<Tree<'static>> {
    let root = writer.allocate(home.volume)?;
    let tree = Tree::subtree(root, method, home);
    format_root(writer.write(root)?, tree.id, root, flags_of(method, false));
    Ok(tree)
}

/// Takes out a record; with it, if it is the only one of its subtree, that, and so on outwards. `around` are
/// the trees around its own.
///
/// One record goes, the outermost that leads to nothing else: so a writer in place that fails before has
/// changed nothing, and after that leaves pages that nothing leads to.
fn take_out<W: PageWrite>(
    writer: &mut W,
    place: &KeyPlace<'_, '_>,
    mut around: Vec<Tree<'_>>,
    key: &[u8],
    before: Before,
) -> Result<()> {
    let stem_len = stem_bytes(place.tree.order, writer.page_size());
    let (mut tree, mut gone, mut pages) = (place.tree, place.rest, Vec::new());
    while let Some(&outer) = around.last() {
        let Some(emptied) = pages_if_last(writer, &tree)? else { break };
        around.pop();
        pages.extend(emptied);
        (tree, gone) = (outer, &key[around.len() * stem_len..][..stem_len]);
    }
    count_around(writer, &around, key, -1)?;
    let led_to = |writer: &mut W| {
        before.free(writer)?;
        pages.into_iter().try_for_each(|page| writer.free(page))
    };
    let is_removed = if tree.method == Method::Hash {
        hash::remove_reference(writer, &tree, gone, led_to)
    } else {
        remove_with(writer, &tree, gone, led_to)
    };
    if is_removed.is_err() {
        _ = count_around(writer, &around, key, 1);
    }
    is_removed.map(drop)
}

/// The pages of a tree with no record but one, of which it may have several: neighbours that could not be
/// merged when they emptied. None if there are more records.
fn pages_if_last<R: PageRead>(reader: &R, tree: &Tree<'_>) -> Result<Option<Vec<PageId>>> {
    let (mut pages, mut records) = (Vec::new(), 0);
    let mut left = vec![(tree.root, None)];
    while let Some((page, expected)) = left.pop() {
        let found = reader.read(page, |bytes| match node::kind(bytes) {
            _ if header::tree_id(bytes) != tree.id
                || expected.is_some_and(|level| level != node::level(bytes)) =>
            {
                None
            }
            Some(NodeKind::Leaf) => Some(Leaf::new(bytes).count()),
            Some(NodeKind::Inner) => {
                let inner = Inner::new(bytes);
                let level = inner.level().saturating_sub(1);
                left.extend((0..=inner.count()).rev().map(|slot| (inner.child(slot), Some(level))));
                Some(0)
            }
            _ => None,
        })?;
        records += found.ok_or_else(|| damaged(tree, page, "is not what its parent says"))?;
        if records > 1 {
            return Ok(None);
        }
        pages.push(page);
    }
    Ok(Some(pages))
}

/// The first subtree of a leaf.
pub(crate) fn first_subtree(tree: &Tree<'_>, bytes: &[u8]) -> Result<Option<(usize, Tree<'static>)>> {
    if node::kind(bytes) != Some(NodeKind::Leaf) {
        return Err(damaged(tree, header::page_id(bytes), "is no leaf"));
    }
    if node::flags(bytes) & node::FLAG_CUSTOM_ORDER != 0 {
        return Ok(None);
    }
    let leaf = Leaf::new(bytes);
    let stem_len = stem_bytes(Order::Bytes, bytes.len());
    let slot = (0..leaf.count()).find(|&slot| {
        let (prefix, suffix) = leaf.key(slot);
        prefix.len() + suffix.len() == stem_len
    });
    slot.map(|slot| Ok((slot, subtree_at(tree, bytes, slot)?))).transpose()
}

/// Refuses keys that no tree of this order takes.
pub(crate) fn check_key(order: Order<'_>, page_size: usize, key: &[u8]) -> Result<()> {
    let most = key_bytes_max(order, page_size);
    if key.len() <= most {
        return Ok(());
    }
    Err(Error::invalid(match order {
        Order::Bytes | Order::Hashed(_) => {
            format!("a key of {} bytes; keys can have {most} at most", key.len())
        }
        Order::Custom(_) => format!(
            "a key of {} bytes; in a database with a comparator, keys can have {most} at most with pages of \
             {page_size} bytes: create the environment with larger pages",
            key.len()
        ),
    }))
}

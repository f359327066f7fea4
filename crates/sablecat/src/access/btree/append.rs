//! Appending many records. Those that come in order behind all that a tree has go to pages that are built
//! from them, as a load builds pages. They do not go record by record to a leaf that is searched and divided
//! again and again.
//!
//! It begins at a last leaf that has few records, as a split leaves it where records are appended, and takes
//! these with it. A page is written once what comes behind it is known, and only then led to; in between the
//! tree has no page for the keys that are taken. So it is for writers whose changes come about as a whole or
//! not at all.

use std::cmp::Ordering;

use super::beside::own_leaf;
use super::node::{self, Inner, InnerMut, Leaf, LeafLoader, Order, StoredValue};
use super::shape::{grow, settle, split};
use super::{Tree, damaged, find_edge, flags_of, is_leaf_for, nest};
use crate::access::{CopyWrite, PageWrite};
use crate::error::Result;
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// How many records the last leaf may have, which are taken along.
const FEW: usize = 8;

/// Pages are as full as can be: records are appended behind these, and not between them.
const FILL_PERCENT: usize = 100;

/// Records being appended.
pub(crate) struct Append<'t> {
    tree: Tree<'t>,
    leaves: LeafLoader,
    /// The leaf that was the last, as long as it is to be written,
    last: PageId,
    /// or what stands between the last page that is written and the next.
    before: Vec<u8>,
}

/// Records in order, of which those that come behind all others of a tree are appended.
#[derive(Default)]
pub(crate) struct Appending<'t>(Option<Append<'t>>);

impl<'t> Appending<'t> {
    /// Takes the next record, or its removal, if it comes behind all others. False if not: then it is to be
    /// changed where it belongs. `begin` looks whether appending can [begin](Append::begin_in_use) with this
    /// record; none: that is known not to be.
    pub(crate) fn takes<W: PageWrite>(
        &mut self,
        writer: &mut W,
        tree: &Tree<'_>,
        (key, value): (&[u8], Option<&[u8]>),
        begin: Option<impl FnOnce(&mut W) -> Result<Option<Append<'t>>>>,
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<bool> {
        if let (None, Some(begin), Some(_)) = (&self.0, begin, value) {
            self.0 = begin(writer)?;
        }
        if tree.is_nested(key, writer.page_size()) {
            self.end(writer)?;
        }
        match (&mut self.0, value) {
            (Some(append), Some(value)) => append.push(writer, key, value, store).map(|()| true),
            // There is nothing behind all that there was.
            (Some(_), None) => Ok(true),
            (None, _) => Ok(false),
        }
    }

    /// Writes what is left of what is appended, if anything is. What comes next need not be behind that.
    pub(crate) fn end<W: PageWrite>(&mut self, writer: &mut W) -> Result<()> {
        self.0.take().map_or(Ok(()), |append| append.finish(writer))
    }
}

impl<'t> Append<'t> {
    /// Begins to append to a tree that is changed in other ways too, if `key` lies behind all that it has and
    /// its last leaf has few records. The structure latch is held.
    pub(crate) fn begin_in_use<W: PageWrite>(
        writer: &mut W,
        tree: Tree<'t>,
        key: &[u8],
    ) -> Result<Option<Append<'t>>> {
        Append::begin(writer, tree, key, FEW)
    }

    /// As [`Append::begin_in_use`], if its last leaf has no more than so many records.
    pub(in crate::access) fn begin<W: PageWrite>(
        writer: &mut W,
        tree: Tree<'t>,
        key: &[u8],
        most: usize,
    ) -> Result<Option<Append<'t>>> {
        let last = find_edge(writer, &tree, false, |_| {})?;
        // Leaves are latched in the order of keys: only one that the key belongs to. Its ends do not change.
        let is_for_it = |bytes: &[u8]| is_leaf_for(bytes, &tree, tree.sought(key));
        if !writer.read(last, is_for_it)? {
            return Ok(None);
        }
        let leaf = Leaf::new(writer.latched(last)?);
        let count = leaf.count();
        if count > most || leaf.upper_fence().is_some() {
            return Ok(None);
        }
        let mut before = Vec::new();
        if count > 0 {
            leaf.copy_key(count - 1, &mut before);
            if tree.order.compare(&before, key) != Ordering::Less {
                return Ok(None);
            }
        }
        let flags = flags_of(tree.method, matches!(tree.order, Order::Custom(_)));
        let page = writer.latched(last)?.to_vec();
        let leaf = Leaf::new(&page);
        let leaves = LeafLoader::new(page.len(), tree.id, flags, FILL_PERCENT, leaf.lower_fence());
        let mut append = Append { tree, leaves, last, before: Vec::new() };
        for slot in 0..count {
            leaf.copy_key(slot, &mut before);
            append.push_stored(writer, &before, leaf.value(slot))?;
        }
        Ok(Some(append))
    }

    /// As [`Append::begin_in_use`], for a tree whose root is a copy, by a writer that must not change what is
    /// none.
    pub(crate) fn begin_beside<W: CopyWrite>(
        writer: &mut W,
        tree: Tree<'t>,
        key: &[u8],
    ) -> Result<Option<Append<'t>>> {
        // All that leads to the last leaf, if it is that.
        own_leaf(writer, &tree, key)?;
        Append::begin_in_use(writer, tree, key)
    }

    /// Takes the next record, whose value `store` stores if it is long.
    #[inline]
    pub(in crate::access) fn push<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: &[u8],
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<()> {
        let stored = nest::store_value(writer, &self.tree, key.len(), value, store)?;
        self.push_stored(writer, key, stored)
    }

    /// Takes the next record, whose value is stored.
    #[inline]
    pub(in crate::access) fn push_stored<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: StoredValue<'_>,
    ) -> Result<()> {
        if self.leaves.push(key, value) { self.write_next(writer) } else { Ok(()) }
    }

    /// Writes the page that is ready.
    fn write_next<W: PageWrite>(&mut self, writer: &mut W) -> Result<()> {
        let page = self.next_page(writer, true)?;
        self.before = self.leaves.emit(writer.write(page)?, page);
        settle(writer, &self.tree, page)
    }

    /// Writes what is left of what is appended.
    pub(in crate::access) fn finish<W: PageWrite>(mut self, writer: &mut W) -> Result<()> {
        let mut image = vec![0; writer.page_size()];
        loop {
            let before = self.leaves.finish(&mut image, PageId::NONE, None);
            let page = self.next_page(writer, before.is_some())?;
            header::set_page_id(&mut image, page);
            writer.write(page)?.copy_from_slice(&image);
            settle(writer, &self.tree, page)?;
            match before {
                Some(before) => self.before = before,
                None => return Ok(()),
            }
        }
    }

    /// The page to be written next, to which something leads, and `more` comes behind it or does not.
    fn next_page<W: PageWrite>(&mut self, writer: &mut W, more: bool) -> Result<PageId> {
        let tree = &self.tree;
        let last = std::mem::replace(&mut self.last, PageId::NONE);
        if last == PageId::NONE {
            return lead_to_another(writer, tree, &self.before);
        }
        if last != tree.root || !more {
            return Ok(last);
        }
        // The root is to lead to what is a leaf now, and to more.
        grow(writer, tree)?;
        find_edge(writer, tree, false, |_| {})
    }
}

/// Makes a page behind all others, with this before it.
fn lead_to_another<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, before: &[u8]) -> Result<PageId> {
    loop {
        let mut path = Vec::new();
        find_edge(writer, tree, false, |step| path.push(step))?;
        let Some((parent, above)) = path.split_last() else {
            grow(writer, tree)?;
            continue;
        };
        if !writer.read(parent.page, |bytes| Inner::new(bytes).fits(node::key_bytes_max(bytes.len())))? {
            split(writer, tree, above, parent.page, (before, StoredValue::Inline(&[])))?;
            continue;
        }
        let page = writer.allocate(tree.home.volume)?;
        let mut leading = InnerMut::new(writer.write(parent.page)?);
        return match leading.insert(parent.slot, before, page) {
            Ok(()) => Ok(page),
            Err(_) => Err(damaged(tree, parent.page, "has less room than it says")),
        };
    }
}

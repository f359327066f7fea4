//! A writer that copies: what it is to change of a frozen tree it changes in copies, with numbers of their own (beside.rs).
//!
//! Whoever changes a record has the pages on the way to it copied first, from the root beside the tree's own on. So what the access methods then write are copies,
//! or pages that they have made; only where they look for a neighbour to merge with they may come to a page that is neither, and do without, unless
//! that was copied beforehand as well.

use super::Kernel;
use super::catalog::Listed;
use super::changes::Changes;
use super::listed::Additions;
use crate::access::btree::node::{self, Inner, InnerMut, Kind, Leaf, LeafMut, Value};
use crate::access::btree::{self, Toward, Tree, nest};
use crate::access::{PageRead, PageWrite, long};
use crate::error::{Error, Result};
use crate::pages::{Run, header};
use crate::types::{Lsn, PageId, TreeId, VolumeId};

/// Changes that copy pages of before a state.
pub(super) struct Copying<'c, 'a> {
    changes: &'c mut Changes<'a>,
    frozen: Lsn,
    listed: Additions,
}

impl<'c, 'a> Copying<'c, 'a> {
    /// Copies what was born up to `frozen`.
    pub(super) fn new(changes: &'c mut Changes<'a>, frozen: Lsn) -> Copying<'c, 'a> {
        Copying { changes, frozen, listed: Additions::default() }
    }

    /// Pages latched so far.
    pub(super) fn len(&self) -> usize {
        self.changes.items().len()
    }

    /// What is to be listed of it.
    pub(super) fn finish(self) -> Additions {
        self.listed
    }

    /// Says that pages are not needed any more if the commit comes about.
    fn replaces(&mut self, first: PageId, count: u64) {
        self.listed.add(Listed::Replaced, first, count);
    }

    /// Whether a page of the tree is a copy, or was made: nobody else knows it.
    fn is_own(&self, page: PageId) -> Result<bool> {
        Ok(self.changes.holds(page) || self.changes.read(page, header::born)? > self.frozen)
    }

    /// Copies the root of a tree. If the commit comes about, the root takes over what is in the copy, and that is not needed any more.
    pub(super) fn copy_root(&mut self, tree: &Tree<'_>) -> Result<PageId> {
        let copy = self.copy(tree, tree.root)?;
        self.replaces(copy, 1);
        Ok(copy)
    }

    /// Copies a page of a tree.
    fn copy(&mut self, tree: &Tree<'_>, page: PageId) -> Result<PageId> {
        let source = self.changes.read(page, <[u8]>::to_vec)?;
        let copy = self.allocate(tree.home.of_page(&source))?;
        let bytes = self.changes.write(copy)?;
        bytes.copy_from_slice(&source);
        header::set_page_id(bytes, copy);
        Ok(copy)
    }

    /// Makes sure that the child in a slot of an inner page, which is a copy, is one as well, and says which page it is.
    fn own_child(&mut self, tree: &Tree<'_>, parent: PageId, slot: usize, child: PageId) -> Result<PageId> {
        if self.is_own(child)? {
            return Ok(child);
        }
        let copy = self.copy(tree, child)?;
        self.replaces(child, 1);
        InnerMut::new(self.changes.write(parent)?).replace_child(slot, copy);
        Ok(copy)
    }

    /// Makes sure that all pages from the root, which is a copy, to the leaf for a key are copies, and says which page the leaf is.
    fn own_leaf(&mut self, tree: &Tree<'_>, key: &[u8]) -> Result<PageId> {
        let mut page = tree.root;
        let mut path = Vec::new();
        btree::find_leaf(self, tree, key, Toward::Key, |step| path.push(step.slot))?;
        for slot in path {
            let child = self.read(page, |bytes| Inner::new(bytes).child(slot))?;
            page = self.own_child(tree, page, slot, child)?;
        }
        Ok(page)
    }

    /// Copies the neighbours that the pages on the way to a key would be merged with, as far as these are sparse.
    fn own_neighbours(&mut self, tree: &Tree<'_>, key: &[u8]) -> Result<()> {
        let mut path = Vec::new();
        let mut page = btree::find_leaf(self, tree, key, Toward::Key, |step| path.push(step))?;
        while let Some(parent) = path.pop() {
            if !self.read(page, btree::should_merge)? {
                break;
            }
            let neighbour = self.read(parent.page, |bytes| {
                let inner = Inner::new(bytes);
                let slot = if parent.slot < inner.count() { Some(parent.slot + 1) } else { parent.slot.checked_sub(1) };
                slot.map(|slot| (slot, inner.child(slot)))
            })?;
            if let Some((slot, neighbour)) = neighbour {
                self.own_child(tree, parent.page, slot, neighbour)?;
            }
            page = parent.page;
        }
        Ok(())
    }

    /// As [`Copying::own_leaf`] for a nested key, in all trees on the way to it.
    fn own_nested(&mut self, tree: &Tree<'_>, key: &[u8]) -> Result<()> {
        let stem_bytes = nest::stem_bytes(tree.order, self.page_size());
        let (mut tree, mut rest) = (*tree, key);
        while let Some((stem, after)) = rest.split_at_checked(stem_bytes) {
            let leaf = self.own_leaf(&tree, stem)?;
            let below = self.read(leaf, |bytes| match Leaf::new(bytes).search(stem, tree.order) {
                Ok(slot) => nest::subtree_at(&tree, bytes, slot).map(|below| Some((slot, below))),
                Err(_) => Ok(None),
            })??;
            let Some((slot, below)) = below else { return Ok(()) };
            let below = Tree { home: tree.home.of_subtree(stem), ..below };
            tree = if self.is_own(below.root)? { below } else { self.copy_subtree(&below, leaf, slot)? };
            rest = after;
        }
        self.own_leaf(&tree, rest).map(drop)
    }

    /// Copies a whole subtree, whose number is in all of its pages and goes with the root's, and has the record in a slot of a leaf lead to it. What is nested
    /// in it stays.
    fn copy_subtree<'t>(&mut self, old: &Tree<'t>, leaf: PageId, slot: usize) -> Result<Tree<'t>> {
        let root = self.copy(old, old.root)?;
        self.replaces(old.root, 1);
        let new = Tree { root, id: TreeId(!root.0), ..*old };
        let mut left = vec![root];
        while let Some(page) = left.pop() {
            let bytes = self.changes.write(page)?;
            header::set_tree_id(bytes, new.id);
            if node::kind(bytes) != Some(Kind::Inner) {
                continue;
            }
            for slot in 0..=Inner::new(bytes).count() {
                let child = self.read(page, |bytes| Inner::new(bytes).child(slot))?;
                if self.is_own(child)? {
                    return Err(Error::corruption(format!("page {child} is reached twice in tree {}", old.id)));
                }
                left.push(self.own_child(old, page, slot, child)?);
            }
        }
        let reference = nest::reference(root);
        LeafMut::new(self.changes.write(leaf)?)
            .replace_value(slot, Value::Inline(&reference))
            .map_err(|_| Error::corruption(format!("page {leaf} has no room for what stood there")))?;
        Ok(new)
    }
}

impl PageRead for Copying<'_, '_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.changes.read(page, look)
    }

    fn page_size(&self) -> usize {
        self.changes.page_size()
    }
}

/// The error of who would change what others read.
fn not_own(page: PageId) -> Error {
    Error::corruption(format!("page {page} was to be changed beside the tree it is still a page of"))
}

impl PageWrite for Copying<'_, '_> {
    fn write(&mut self, page: PageId) -> Result<&mut [u8]> {
        if self.is_own(page)? { self.changes.write(page) } else { Err(not_own(page)) }
    }

    fn write_two(&mut self, first: PageId, second: PageId) -> Result<(&mut [u8], &mut [u8])> {
        match [first, second].into_iter().find_map(|page| self.is_own(page).map(|own| (!own).then_some(page)).transpose()) {
            None => self.changes.write_two(first, second),
            Some(other) => Err(other.map_or_else(|error| error, not_own)),
        }
    }

    fn allocate(&mut self, home: VolumeId) -> Result<PageId> {
        let page = self.changes.allocate(home)?;
        self.listed.add(Listed::Made, page, 1);
        Ok(page)
    }

    fn allocate_run(&mut self, home: VolumeId, count: u64) -> Result<PageId> {
        let first = self.changes.allocate_run(home, count)?;
        self.listed.add(Listed::Made, first, count);
        Ok(first)
    }

    fn settle(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        if self.is_own(page)? { self.changes.settle(page, home) } else { Err(not_own(page)) }
    }

    fn free(&mut self, page: PageId) -> Result<()> {
        if self.is_own(page)? {
            self.listed.remove(Listed::Made, page);
            self.changes.free(page)
        } else {
            self.replaces(page, 1);
            Ok(())
        }
    }

    /// A write set has one value for each key: so what it takes the place of is an old one.
    fn free_run(&mut self, first: PageId, count: u64) -> Result<()> {
        self.replaces(first, count);
        Ok(())
    }

    fn try_claim(&mut self, page: PageId) -> Result<bool> {
        Ok(self.is_own(page)? && self.changes.try_claim(page)?)
    }
}

impl Kernel {
    /// Applies one change to a tree whose root is a copy. `run` is the value's if it was stored past the pool; `last` the leaf of the change before, then
    /// of this one.
    pub(super) fn change_copy(
        &self,
        copying: &mut Copying<'_, '_>,
        tree: &Tree<'_>,
        (key, value): (&[u8], Option<&[u8]>),
        run: Option<&Run<'_>>,
        last: &mut PageId,
    ) -> Result<()> {
        let home = tree.home.of_key(key);
        let store = |copying: &mut Copying<'_, '_>, within: TreeId, value: &[u8]| match run {
            Some(run) => {
                copying.listed.add(Listed::Made, run.first(), run.count());
                copying.changes.add_run(run, tree.id, value)
            }
            None => long::store(copying, (within, home), value),
        };
        if self.is_nested(tree, key) {
            *last = PageId::NONE;
            copying.own_nested(tree, key)?;
            return nest::change(copying, tree, key, value, store).map(drop);
        }
        if *last == PageId::NONE || !copying.read(*last, |bytes| btree::is_leaf_for(bytes, tree, key))? {
            *last = copying.own_leaf(tree, key)?;
        }
        let page = *last;
        let old = copying.read(page, |bytes| {
            let leaf = Leaf::new(bytes);
            leaf.search(key, tree.order).map(|slot| match leaf.value(slot) {
                Value::Long { first_page, len } => (slot, Some((first_page, len))),
                Value::Inline(_) => (slot, None),
            })
        })?;
        if let Ok((_, Some((first, len)))) = old {
            long::free(copying, first, len)?;
        }
        match (value, old) {
            (Some(value), _) => {
                let stored = nest::store_value(copying, tree.id, key.len(), value, store)?;
                if btree::put_in_leaf(copying.write(page)?, key, stored, tree.order).is_err() {
                    btree::put(copying, tree, key, stored)?;
                }
            }
            (None, Ok((slot, _))) => {
                let bytes = copying.write(page)?;
                LeafMut::new(bytes).remove(slot);
                if btree::should_merge(bytes) && page != tree.root {
                    copying.own_neighbours(tree, key)?;
                    btree::merge_up(copying, tree, key)?;
                    *last = PageId::NONE;
                }
            }
            (None, Err(_)) => {}
        }
        Ok(())
    }
}

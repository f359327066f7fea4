//! Bulk loading: building a tree's pages directly from records that come in order.
//!
//! Pages are filled from left to right, each level by a loader of its own; a page is written once and never
//! looked at again. The last page made, at the top, goes into the tree's root, which until then is an empty
//! leaf.
//!
//! Records below one stem come one after the other. The subtree for them is loaded in the same way. When a
//! key comes that does not belong there, the subtree is finished, and its reference goes to the tree around
//! it.

use super::node::{self, InnerLoader, LeafLoader, StoredValue};
use super::{Tree, counted, flags_of, nest};
use crate::access::{InOrder, PageWrite};
use crate::error::Result;
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// How full pages are made: full enough to be worth it, with room for some records that come later.
const FILL_PERCENT: usize = 90;

/// A tree being loaded, with its subtrees.
#[derive(Clone)]
pub(crate) struct Load<'t> {
    tree: Tree<'t>,
    stem_bytes: usize,
    outermost: TreeLoad<'t>,
    /// Subtrees that more records may go to, each in the one before. Their stems are what the last key begins
    /// with.
    below: Vec<TreeLoad<'static>>,
    taken: InOrder,
}

impl<'t> Load<'t> {
    /// Begins to load an empty tree.
    pub(crate) fn new(tree: Tree<'t>, page_size: usize) -> Load<'t> {
        let stem_bytes = nest::stem_bytes(tree.order, page_size);
        Load {
            tree,
            stem_bytes,
            outermost: TreeLoad::new(tree, page_size),
            below: Vec::new(),
            taken: InOrder::default(),
        }
    }

    /// Takes the next record, whose value `store` stores if it is long. Writes pages through `writer` as they
    /// fill; they are complete then.
    pub(crate) fn push<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: &[u8],
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<()> {
        self.taken.check(self.tree.order, key)?;
        self.leave_subtrees(writer, key)?;
        self.taken.note(key);
        // With an order of its own a tree has no stems, and nothing is below it.
        let mut rest = &key[self.below.len().saturating_mul(self.stem_bytes)..];
        while let Some((stem, after)) = rest.split_at_checked(self.stem_bytes) {
            let home = self.below.last().map_or(self.tree.home, |around| around.tree.home).of_subtree(stem);
            self.below.push(TreeLoad::new(
                nest::make(writer, self.tree.method.nested(), home)?,
                writer.page_size(),
            ));
            rest = after;
        }
        match self.below.last_mut() {
            Some(load) => load.push(writer, rest, value, store),
            None => self.outermost.push(writer, rest, value, store),
        }
    }

    /// Finishes the subtrees that `key` does not belong to.
    fn leave_subtrees<W: PageWrite>(&mut self, writer: &mut W, key: &[u8]) -> Result<()> {
        let last = self.taken.last();
        let shared = last.iter().zip(key).take_while(|(a, b)| a == b).count();
        self.leave_below(writer, shared / self.stem_bytes)
    }

    /// Finishes subtrees until so many are left.
    fn leave_below<W: PageWrite>(&mut self, writer: &mut W, depth: usize) -> Result<()> {
        while self.below.len() > depth
            && let Some(load) = self.below.pop()
        {
            let subtree = load.tree;
            let records = load.finish(writer)?;
            let at = self.below.len() * self.stem_bytes;
            let stem = self.taken.last().get(at..at + self.stem_bytes).unwrap_or_default();
            let reference = nest::reference(&subtree, records);
            match self.below.last_mut() {
                Some(around) => around.push_stored(writer, stem, StoredValue::Inline(&reference))?,
                None => self.outermost.push_stored(writer, stem, StoredValue::Inline(&reference))?,
            }
        }
        Ok(())
    }

    /// Writes what is left, and the root. The tree is loaded once the writer has published the root.
    pub(crate) fn finish<W: PageWrite>(mut self, writer: &mut W) -> Result<u64> {
        self.leave_below(writer, 0)?;
        self.outermost.finish(writer)?;
        Ok(self.taken.count())
    }
}

/// A level above the leaves.
#[derive(Clone)]
struct Level {
    loader: InnerLoader,
    /// The separator before the child that comes next.
    before: Vec<u8>,
}

/// One tree being loaded.
#[derive(Clone)]
struct TreeLoad<'t> {
    tree: Tree<'t>,
    flags: u16,
    page_size: usize,
    leaves: LeafLoader,
    levels: Vec<Level>,
}

impl<'t> TreeLoad<'t> {
    fn new(tree: Tree<'t>, page_size: usize) -> TreeLoad<'t> {
        let flags = flags_of(tree.method, matches!(tree.order, node::Order::Custom(_)));
        let leaves = LeafLoader::new(page_size, tree.id, flags, FILL_PERCENT, None);
        TreeLoad { tree, flags, page_size, leaves, levels: Vec::new() }
    }

    fn push<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: &[u8],
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<()> {
        let stored = nest::store_value(writer, &self.tree, key.len(), value, store)?;
        self.push_stored(writer, key, stored)
    }

    fn push_stored<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: StoredValue<'_>,
    ) -> Result<()> {
        if self.leaves.push(key, value) {
            let page = writer.allocate(self.tree.home.volume)?;
            let bytes = writer.write(page)?;
            let separator = self.leaves.emit(bytes, page);
            let (home, records) = (self.tree.home_of_page(bytes), self.records_in(bytes));
            writer.settle(page, home)?;
            self.complete(writer, 0, (page, records), separator)?;
        }
        Ok(())
    }

    /// How many records there are in a page and below it, if they are counted.
    fn records_in(&self, bytes: &[u8]) -> u64 {
        if self.tree.method.counts() { counted::records_in(bytes) } else { 0 }
    }

    /// A page one below `level` is complete, with so many records, and `separator` stands between it and the
    /// next.
    fn complete<W: PageWrite>(
        &mut self,
        writer: &mut W,
        level: usize,
        page: (PageId, u64),
        separator: Vec<u8>,
    ) -> Result<()> {
        let Some(above) = self.levels.get_mut(level) else {
            let number = level as u8 + 1;
            let loader =
                InnerLoader::new(self.page_size, self.tree.id, self.flags, number, FILL_PERCENT, None, page);
            self.levels.push(Level { loader, before: separator });
            return Ok(());
        };
        let before = std::mem::replace(&mut above.before, separator);
        if above.loader.push(&before, page) {
            let full = writer.allocate(self.tree.home.volume)?;
            let bytes = writer.write(full)?;
            let separator = above.loader.emit(bytes, full);
            let records = self.records_in(bytes);
            self.complete(writer, level + 1, (full, records), separator)?;
        }
        Ok(())
    }

    /// Writes what is left, and the root. Says how many records there are, if they are counted.
    fn finish<W: PageWrite>(mut self, writer: &mut W) -> Result<u64> {
        let mut page = vec![0; self.page_size];
        while let Some(separator) = self.leaves.finish(&mut page, self.tree.root, None) {
            let id = self.place(writer, &mut page)?;
            self.complete(writer, 0, id, separator)?;
        }
        let mut level = 0;
        while level < self.levels.len() {
            // The page in hand is the last of the level below: its parent takes it, and is then the last of
            // its own level.
            let id = self.place(writer, &mut page)?;
            let before = std::mem::take(&mut self.levels[level].before);
            if self.levels[level].loader.push(&before, id) {
                let full = writer.allocate(self.tree.home.volume)?;
                let bytes = writer.write(full)?;
                let separator = self.levels[level].loader.emit(bytes, full);
                let records = self.records_in(bytes);
                self.complete(writer, level + 1, (full, records), separator)?;
            }
            while let Some(separator) = self.levels[level].loader.finish(&mut page, self.tree.root, None) {
                let id = self.place(writer, &mut page)?;
                self.complete(writer, level + 1, id, separator)?;
            }
            level += 1;
        }
        writer.write(self.tree.root)?.copy_from_slice(&page);
        Ok(self.records_in(&page))
    }

    /// Gives the page in hand a place of its own; says how many records there are in it, if they are counted.
    fn place<W: PageWrite>(&self, writer: &mut W, page: &mut [u8]) -> Result<(PageId, u64)> {
        let id = writer.allocate(self.tree.home_of_page(page))?;
        header::set_page_id(page, id);
        writer.write(id)?.copy_from_slice(page);
        Ok((id, self.records_in(page)))
    }
}

//! Commits that make and unmake whole trees.

use super::catalog::{self, CATALOG, CatalogEntry};
use super::changes::Changes;
use super::scratch::Record;
use super::{Durability, Kernel, TreeRef, publish};
use crate::access::btree::node::{self, Inner, InnerMut, Kind, Leaf, LeafMut, Order, Value};
use crate::access::btree::{self, Tree, nest};
use crate::access::{PageRead, PageWrite, long};
use crate::error::Result;
use crate::log::{self, RecordBuilder};
use crate::pages::Participant;
use crate::types::{Lsn, PageId, TreeId, VolumeId};

/// Pages that a commit which frees some changes, about: this many, or a part of the pool if that is less.
pub(super) const CHANGED_AT_ONCE: usize = 64;
const CHANGED_PART: usize = 16;
const CHANGED_MIN: usize = 4;

impl Kernel {
    /// Makes an empty tree, with a note in the catalog that it is to be freed, for nobody names it yet: one commit. It is as durable as the
    /// commit that names it will be, since that comes after it in the log.
    pub(crate) fn create_tree(&self, me: &Participant, tree: TreeId, volume: VolumeId, comparator: Option<&str>) -> Result<CatalogEntry> {
        self.create_noted(me, CatalogEntry { tree, root: PageId::NONE, volume, comparator: comparator.map(str::to_owned), list: None })
    }

    /// As [`Kernel::create_tree`], for what the note is to say but for the root page.
    pub(super) fn create_noted(&self, me: &Participant, mut entry: CatalogEntry) -> Result<CatalogEntry> {
        let (tree, volume, custom_order) = (entry.tree, entry.volume, entry.comparator.is_some());
        self.commit_shape(me, &[CATALOG], Durability::Memory, |changes, record| {
            entry.root = changes.allocate(volume)?;
            btree::format_root(changes.write(entry.root)?, tree, entry.root, custom_order);
            let (key, value) = (catalog::note_key(tree), entry.encode());
            self.apply_one(changes, &catalog::catalog_tree().tree(), (&key, Some(&value)), None)?;
            record.begin(log::Kind::Commit);
            record.put(CATALOG, &key, &value);
            Ok(true)
        })?;
        Ok(entry)
    }

    /// Frees a tree of which the catalog has a note, and then the note: some hundred pages a commit. What is cut short goes on where it was.
    pub(crate) fn free_tree(&self, me: &Participant, entry: &CatalogEntry) -> Result<()> {
        if let Some(listed) = entry.list {
            self.free_listed(me, entry, listed)?;
        }
        // Freeing looks at pages, not keys, so neither order nor placement matters.
        let tree = entry.tree(None, None);
        while self.patiently(|| self.free_some(me, &tree))? {}
        self.patiently(|| self.free_root(me, &tree))
    }

    /// Frees some of a tree's pages, from its lower end and its innermost subtrees on, in a commit that no log record tells of. False once
    /// only the root is left.
    pub(super) fn free_some(&self, me: &Participant, tree: &TreeRef) -> Result<bool> {
        self.commit_shape(me, &[tree.id], Durability::Memory, |changes, record| {
            record.begin(log::Kind::Filler);
            changes.only_remove();
            let mut below = Vec::new();
            let most = self.changed_at_once();
            while changes.items().len() < most && free_lowest(changes, &tree.tree(), &mut below, most)? {}
            Ok(!changes.items().is_empty())
        })
    }

    /// How many pages a commit that frees some should change.
    pub(super) fn changed_at_once(&self) -> usize {
        (self.pages.region.geometry().frames / CHANGED_PART).clamp(CHANGED_MIN, CHANGED_AT_ONCE)
    }

    /// Frees a tree's root, the only page it has left, and its note: one commit. If that is lost in a crash, the note is there again and so, as of
    /// some checkpoint, is the tree.
    fn free_root(&self, me: &Participant, tree: &TreeRef) -> Result<()> {
        let key = catalog::note_key(tree.id);
        self.commit_shape(me, &[CATALOG, tree.id], Durability::Memory, |changes, record| {
            changes.only_remove();
            free_long_values(changes, tree.root)?;
            changes.free(tree.root)?;
            self.apply_one(changes, &catalog::catalog_tree().tree(), (&key, None), None)?;
            record.begin(log::Kind::Commit);
            record.delete(CATALOG, &key);
            Ok(true)
        })
        .map(|_| ())
    }

    /// A commit under the structure latches of `trees`. `work` prepares it and begins its record; false: there is nothing to commit. The caller holds no
    /// latch, and may have a snapshot, which stays: perhaps its seat is the last.
    pub(super) fn commit_shape(
        &self,
        me: &Participant,
        trees: &[TreeId],
        durability: Durability,
        work: impl FnOnce(&mut Changes<'_>, &mut RecordBuilder) -> Result<bool>,
    ) -> Result<bool> {
        let done = {
            let _structure = self.hold_structure(trees.iter().copied(), me)?;
            self.commit_prepared(me, work)?
        };
        match done {
            Some(lsn) => self.settle(lsn, durability, me.number()).map(|()| true),
            None => Ok(false),
        }
    }

    fn commit_prepared(
        &self,
        me: &Participant,
        work: impl FnOnce(&mut Changes<'_>, &mut RecordBuilder) -> Result<bool>,
    ) -> Result<Option<Lsn>> {
        let mut record = Record::of(me);
        let mut changes = Changes::at_newest(&self.pages, me);
        if !work(&mut changes, &mut record)? {
            return Ok(None);
        }
        record.finish_body();
        publish::publish(&self.pages, &self.log, changes, &mut record, |_| Ok(())).map(Some)
    }
}

/// Frees the first leaf of a tree without the rest, or some of its long values if these are many, or the first subtree in it if that is a single leaf, or the same in that subtree.
/// `below` are the subtrees on the way to the leaf freed last, each in the first leaf of the one before. False, with nothing freed, if there
/// is nothing but the root.
fn free_lowest<'t>(changes: &mut Changes<'_>, outermost: &Tree<'t>, below: &mut Vec<Tree<'t>>, most: usize) -> Result<bool> {
    loop {
        let tree = *below.last().unwrap_or(outermost);
        let mut path = Vec::new();
        let leaf = btree::find_edge(changes, &tree, true, |step| path.push(step.page))?;
        let stem_bytes = nest::stem_bytes(Order::Bytes, changes.page_size());
        let first = changes.read(leaf, |bytes| {
            nest::check_depth(&tree, bytes, below.len() * stem_bytes)?;
            nest::first_subtree(&tree, bytes)
        })??;
        if let Some((_, subtree)) = first {
            below.push(subtree);
            continue;
        }
        if thin_out(changes, leaf, most)? {
            return Ok(true);
        }
        if leaf != tree.root {
            free_long_values(changes, leaf)?;
            changes.free(leaf)?;
            return drop_first_child(changes, &tree, path).map(|()| true);
        }
        if below.pop().is_none() {
            return Ok(false);
        }
        free_long_values(changes, leaf)?;
        changes.free(leaf)?;
        let around = below.last().unwrap_or(outermost);
        let leaf = btree::find_edge(changes, around, true, |_| {})?;
        let bytes = changes.write(leaf)?;
        if let Some((slot, _)) = nest::first_subtree(around, bytes)? {
            LeafMut::new(bytes).remove(slot);
        }
        return Ok(true);
    }
}

/// Takes the first leaf, which was freed, out of the pages above it, which are freed with their last child. The root becomes a leaf then.
fn drop_first_child(changes: &mut Changes<'_>, tree: &Tree<'_>, mut path: Vec<PageId>) -> Result<()> {
    while let Some(parent) = path.pop() {
        let bytes = changes.write(parent)?;
        if Inner::new(bytes).count() > 0 {
            let next = Inner::new(bytes).child(1);
            let mut inner = InnerMut::new(bytes);
            inner.replace_child(0, next);
            inner.remove(0);
            return Ok(());
        }
        if parent != tree.root {
            changes.free(parent)?;
            continue;
        }
        let custom_order = node::flags(bytes) & node::FLAG_CUSTOM_ORDER != 0;
        btree::format_root(bytes, tree.id, tree.root, custom_order);
    }
    Ok(())
}

/// The long values of a leaf: slot, first page and length of each.
fn long_values(changes: &Changes<'_>, leaf: PageId) -> Result<Vec<(usize, PageId, u64)>> {
    changes.read(leaf, |bytes| {
        if node::kind(bytes) != Some(Kind::Leaf) {
            return Vec::new();
        }
        let leaf = Leaf::new(bytes);
        (0..leaf.count())
            .filter_map(|slot| match leaf.value(slot) {
                Value::Long { first_page, len } => Some((slot, first_page, len)),
                Value::Inline(_) => None,
            })
            .collect()
    })
}

/// Frees the pages of all long values of a leaf.
fn free_long_values(changes: &mut Changes<'_>, leaf: PageId) -> Result<()> {
    long_values(changes, leaf)?.into_iter().try_for_each(|(_, first, len)| long::free(changes, first, len))
}

/// Removes some long values from a leaf if it has more than a commit should free. True if it did.
fn thin_out(changes: &mut Changes<'_>, leaf: PageId, most: usize) -> Result<bool> {
    let values = long_values(changes, leaf)?;
    if values.len() < most {
        return Ok(false);
    }
    for &(slot, first, len) in values[..most].iter().rev() {
        long::free(changes, first, len)?;
        LeafMut::new(changes.write(leaf)?).remove(slot);
    }
    Ok(true)
}

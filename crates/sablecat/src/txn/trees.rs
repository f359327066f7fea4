//! Commits that make and unmake whole trees.

use super::changes::Changes;
use super::scratch::Record;
use super::{Durability, Kernel, TreeRef, publish};
use crate::access::btree;
use crate::access::btree::node::{self, Inner, InnerMut, Kind, Leaf, LeafMut, Value};
use crate::access::{PageRead, PageWrite, long};
use crate::error::Result;
use crate::log::{self, RecordBuilder};
use crate::pages::Participant;
use crate::types::{Lsn, PageId, TreeId};

/// Leaves and long values freed by one commit, about.
const FREED_AT_ONCE: usize = 64;

impl Kernel {
    /// Makes an empty tree and puts the record that `describe` gives, knowing its root, into another tree: one commit. Returns the root.
    pub(crate) fn create_tree(
        &self,
        tree: TreeId,
        custom_order: bool,
        durability: Durability,
        describe: impl Fn(PageId) -> (TreeRef, Vec<u8>, Vec<u8>),
    ) -> Result<PageId> {
        let mut made = PageId::NONE;
        self.commit_shape(&[super::catalog_id()], durability, |changes, record| {
            let root = changes.allocate()?;
            btree::format_root(changes.write(root)?, tree, root, custom_order);
            let (into, key, value) = describe(root);
            self.apply_one(changes, &into.tree(), &key, Some(&value), None)?;
            record.begin(log::Kind::Commit);
            record.put(into.id, &key, &value);
            made = root;
            Ok(true)
        })?;
        Ok(made)
    }

    /// Frees some of a tree's pages, from its lower end, in a commit that no log record tells of. False once only the root is left.
    pub(crate) fn free_some(&self, tree: &TreeRef) -> Result<bool> {
        self.commit_shape(&[tree.id], Durability::Memory, |changes, record| {
            record.begin(log::Kind::Filler);
            let mut above = Vec::new();
            let mut page = tree.root;
            let children = loop {
                let (level, children) = changes.read(page, |bytes| match node::kind(bytes) {
                    Some(Kind::Inner) => {
                        let inner = Inner::new(bytes);
                        (inner.level(), (0..=inner.count()).map(|slot| inner.child(slot)).collect::<Vec<_>>())
                    }
                    _ => (0, Vec::new()),
                })?;
                match level {
                    0 => return thin_out(changes, page),
                    1 => break children,
                    _ => {
                        above.push(page);
                        page = children[0];
                    }
                }
            };
            if thin_out(changes, children[0])? {
                return Ok(true);
            }
            // Each leaf and each long value takes a frame to free, and one to read.
            let (mut freed, mut pages) = (0, 0);
            while freed < children.len() {
                let values = long_values(changes, children[freed])?;
                pages += 1 + values.len();
                if freed > 0 && pages > FREED_AT_ONCE {
                    break;
                }
                values.iter().try_for_each(|&(_, first, len)| long::free(changes, first, len))?;
                changes.free(children[freed])?;
                freed += 1;
            }
            if freed < children.len() {
                let bytes = changes.write(page)?;
                (0..freed).for_each(|_| drop_first_child(bytes));
                return Ok(true);
            }
            loop {
                let Some(parent) = above.pop() else {
                    let custom = tree.comparator.is_some();
                    btree::format_root(changes.write(tree.root)?, tree.id, tree.root, custom);
                    return Ok(true);
                };
                changes.free(page)?;
                let bytes = changes.write(parent)?;
                if Inner::new(bytes).count() > 0 {
                    drop_first_child(bytes);
                    return Ok(true);
                }
                page = parent;
            }
        })
    }

    /// Frees a tree's root, the only page it has left, and removes a record of another tree that told of it: one commit.
    pub(crate) fn free_root(&self, tree: &TreeRef, from: &TreeRef, key: &[u8], durability: Durability) -> Result<()> {
        self.commit_shape(&[from.id, tree.id], durability, |changes, record| {
            for (_, first, len) in long_values(changes, tree.root)? {
                long::free(changes, first, len)?;
            }
            changes.free(tree.root)?;
            self.apply_one(changes, &from.tree(), key, None, None)?;
            record.begin(log::Kind::Commit);
            record.delete(from.id, key);
            Ok(true)
        })
        .map(|_| ())
    }

    /// A commit under the structure latches of `trees`. `work` prepares it and begins its record; false: there is nothing to commit.
    fn commit_shape(
        &self,
        trees: &[TreeId],
        durability: Durability,
        work: impl FnOnce(&mut Changes<'_>, &mut RecordBuilder) -> Result<bool>,
    ) -> Result<bool> {
        let seat = self.pages.participants.sit()?;
        let me: &Participant = &seat;
        let _structure = self.hold_structure(trees.iter().copied(), me);
        let at = self.pages.pin(me);
        let result = self.commit_prepared(me, at, work);
        me.slot().unpin();
        match result? {
            Some(lsn) => self.settle(lsn, durability, me.number()).map(|()| true),
            None => Ok(false),
        }
    }

    fn commit_prepared(
        &self,
        me: &Participant,
        at: Lsn,
        work: impl FnOnce(&mut Changes<'_>, &mut RecordBuilder) -> Result<bool>,
    ) -> Result<Option<Lsn>> {
        let mut record = Record::of(me);
        let mut changes = Changes::new(&self.pages, me, at);
        if !work(&mut changes, &mut record)? {
            return Ok(None);
        }
        record.finish_body();
        publish::publish(&self.pages, &self.log, changes, &mut record, |_| Ok(())).map(Some)
    }
}

fn drop_first_child(bytes: &mut [u8]) {
    let next = Inner::new(bytes).child(1);
    let mut inner = InnerMut::new(bytes);
    inner.replace_child(0, next);
    inner.remove(0);
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

/// Removes some long values from a leaf if it has more than a commit should free. True if it did.
fn thin_out(changes: &mut Changes<'_>, leaf: PageId) -> Result<bool> {
    let values = long_values(changes, leaf)?;
    if values.len() < FREED_AT_ONCE {
        return Ok(false);
    }
    for &(slot, first, len) in values[..FREED_AT_ONCE].iter().rev() {
        long::free(changes, first, len)?;
        LeafMut::new(changes.write(leaf)?).remove(slot);
    }
    Ok(true)
}

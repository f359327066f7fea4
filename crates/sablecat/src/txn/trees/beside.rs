//! Commits larger than the cache: what changes is built beside what there is, and switched to at the roots.
//!
//! ```text
//! 1 a list for the pages, with a note that those made are to be freed
//! 2 structure latches of all trees; nobody else changes these (rebuilt.rs)
//! 3 each tree gets a root beside its own: a copy
//! 4 batch by batch: copies of what is on the way, changed; published
//! 5 the commit step: log record, each root's content, the note says that those replaced are to be freed
//! 6 latches released
//! 7 what was replaced is freed once no snapshot sees it
//! ```
//!
//! A page that is to change is copied to a page with a number of its own, and the page above it, which is
//! such a copy too, is made to lead there. What does not change is shared by both. So nobody reaches the
//! pages of a batch until the root of their tree is reached. They are published as any others, by commit
//! steps of a few pages whose log record says nothing. They are written and evicted as any others.
//! Checkpoints name them, and also the list that says that they are to be freed. The commit step of the whole
//! is that of any commit: its pages are the roots, the leaf of the catalog with the note, and those that
//! databases are created or removed by. However large it is, it needs the frames of a batch.
//!
//! *Readers* go by their snapshot's root, old or new, and find all pages of it where they were: no snapshot
//! is given up, and nobody waits. *Writers* of the same trees wait for the structure latch; of others, not at
//! all.
//!
//! *Death* anywhere before 5 leaves pages that nothing leads to and a note that says so; at and after 5 a
//! commit like any other, and a note that tells of the old pages. A process that opens the environment afresh
//! acts upon notes (env/databases/mod.rs). Checkpoints name one state or the other, each with its note.
//! Replay of the log does what the record says to the old trees, in place.
//!
//! A tree's pages are told apart by when they were born: none of those that were there is younger than the
//! state in which the tree was frozen.
//!
//! Costs (sketch): a copy of each page that changes, its entry in the list twice (20 bytes), and the freeing
//! of the old one: three times what an ordinary commit takes, and no limit but the disk's.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Bound;

use super::Trees;
use super::apply::WriteCheck;
use super::copy::{Copying, store_with};
use super::large::Large;
use crate::access::{
    Appending, CopyWrite, KeyBounds, KeyPlace, PageRead, PageWrite, Tree, Tried, UnfinishedSubtree,
};
use crate::error::{Error, Result};
use crate::log::RecordBuilder;
use crate::pages::{LocalParticipant, PageRun, header};
use crate::txn::catalog::{self, CATALOG, CatalogEntry, Listed, TreeRef, catalog_tree, note_key};
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish::{self, filler};
use crate::txn::pending::write_set::{PendingRecords, WriteSet};
use crate::txn::refusals::conflict;
use crate::types::{Lsn, PageId};

/// Pages that a batch has before it is published: a part of the pool, within these bounds.
const BATCH_PART: usize = 16;
const BATCH: std::ops::RangeInclusive<usize> = 4..=512;
/// The part of the pool that an ordinary commit may have pages latched in, each with a version before and one
/// to be.
const ORDINARY_PART: usize = 4;
/// However small the pool is.
const ORDINARY_MIN: usize = 16;

/// What a commit that goes this way has done.
pub(in crate::txn) struct SwitchedTrees {
    pub(in crate::txn) lsn: Lsn,
    /// The list of what it has replaced.
    pub(in crate::txn) replaced: CatalogEntry,
}

impl Trees {
    /// How many pages an ordinary commit of these changes may have; more are built beside the old ones.
    pub(in crate::txn) fn pages_in_place_max(&self, writes: &WriteSet) -> usize {
        // In memory alone there is nothing but frames; and what is only in the catalog is applied in the
        // commit step either way.
        let can_go_beside =
            self.pages.volume().is_some() && writes.trees().any(|(tree, _)| tree.id != CATALOG);
        if can_go_beside { (self.pages.frames_max() / ORDINARY_PART).max(ORDINARY_MIN) } else { usize::MAX }
    }

    /// How many pages a batch has, about.
    fn pages_in_batch(&self) -> usize {
        (self.pages.frames_max() / BATCH_PART).clamp(*BATCH.start(), *BATCH.end())
    }

    /// Commits a write set of any size. The caller holds no latch.
    #[cold]
    #[inline(never)]
    pub(in crate::txn) fn commit_beside<'a>(
        &'a self,
        me: &'a LocalParticipant,
        (writes, large): (&WriteSet, Large<'a>),
        check: WriteCheck<'a>,
        record: &mut RecordBuilder,
        validate: impl Fn(&mut ChangedPages<'_>) -> Result<()>,
    ) -> Result<SwitchedTrees> {
        let note = self.create_list(me)?;
        let built = self.build_and_switch(me, (writes, large), &note, check, record, validate);
        match built {
            Ok(lsn) => {
                Ok(SwitchedTrees { lsn, replaced: CatalogEntry { list: Some(Listed::Replaced), ..note } })
            }
            Err(error) => {
                // No snapshot has seen it.
                self.free_pages_of(me, note, Lsn(0));
                Err(error)
            }
        }
    }

    fn build_and_switch<'a>(
        &'a self,
        me: &'a LocalParticipant,
        (writes, large): (&WriteSet, Large<'a>),
        note: &CatalogEntry,
        check: WriteCheck<'a>,
        record: &mut RecordBuilder,
        validate: impl Fn(&mut ChangedPages<'_>) -> Result<()>,
    ) -> Result<Lsn> {
        let _structure = self.hold_structure(self.trees_of(writes).chain([note.tree]), me)?;
        let rebuilt = || writes.trees().filter(|(tree, _)| tree.id != CATALOG);
        let (_frozen, frozen) = self.freeze(rebuilt().map(|(tree, _)| tree.id), me)?;
        let mut build = Build {
            trees: self,
            me,
            check,
            frozen,
            list: note.tree_of_note()?,
            runs: large.into_runs(),
            roots: Vec::new(),
            begun: UnfinishedSubtree::default(),
        };
        for (tree, records) in rebuilt() {
            build.tree(tree, records)?;
        }
        self.patiently(|| build.switch(writes, note, record, &validate))
    }
}

/// Trees being built.
struct Build<'a> {
    trees: &'a Trees,
    me: &'a LocalParticipant,
    check: WriteCheck<'a>,
    /// The state in which the trees were frozen.
    frozen: Lsn,
    list: TreeRef,
    /// Large values whose first pages are not published yet.
    runs: VecDeque<PageRun<'a>>,
    /// The roots of trees, and those beside them.
    roots: Vec<(PageId, PageId)>,
    /// What the last batch has begun with a subtree and not ended.
    begun: UnfinishedSubtree,
}

/// What a batch has done.
struct Batch {
    /// The root beside that of the tree.
    root: PageId,
    /// The key up to which records were applied; none: none were so far.
    passed: Option<Vec<u8>>,
    /// There are more.
    more: bool,
}

impl<'a> Build<'a> {
    /// Begins changes over the newest state.
    fn changes(&self) -> (ChangedPages<'a>, Lsn) {
        let changes = ChangedPages::at_newest(&self.trees.pages, self.me);
        let at = changes.at();
        (changes, at)
    }

    fn tree(&mut self, tree: &TreeRef, records: &PendingRecords) -> Result<()> {
        let trees = self.trees;
        let (mut root, mut passed, mut more) = (None, None, true);
        for (lower, upper) in records.removed() {
            let mut left = Some(lower.map(<[u8]>::to_vec));
            while let Some(from) = left {
                let from = from.as_ref().map(Vec::as_slice);
                let (at, after) = trees.patiently(|| self.remove_batch(tree, root, (from, upper)))?;
                (root, left) = (Some(at), after.map(Bound::Included));
            }
        }
        while more {
            // When there is no room for a batch it is begun anew.
            let batch = trees.patiently(|| self.batch(tree, root, (records, passed.as_deref())))?;
            (root, passed, more) = (Some(batch.root), batch.passed, batch.more);
        }
        self.roots.extend(root.map(|root| (tree.root, root)));
        Ok(())
    }

    /// Removes some of a range, from its beginning on, from the tree at a root beside that of the tree, which
    /// is made if there is none yet. Says which root that is, and the least key that may be left.
    fn remove_batch(
        &mut self,
        tree: &TreeRef,
        root: Option<PageId>,
        (lower, upper): KeyBounds<'_>,
    ) -> Result<(PageId, Option<Vec<u8>>)> {
        let trees = self.trees;
        let most = trees.pages_in_batch();
        let (mut changes, _) = self.changes();
        let mut copying = Copying::new(&mut changes, self.frozen, most, self.begun.clone());
        let old = tree.tree();
        let root = match root {
            Some(root) => root,
            None => copying.copy_root(&old)?,
        };
        let new = Tree { root, ..old };
        let mut left = new.remove_some_beside(&mut copying, (lower, upper), most)?.left;
        while let Some(from) = left.as_deref().filter(|_| !copying.is_full()) {
            left = new.remove_some_beside(&mut copying, (Bound::Included(from), upper), most)?.left;
        }
        let (listed, begun) = copying.finish();
        listed.write(&self.list, &mut changes)?;
        publish::publish(&trees.pages, &trees.log, changes, &mut filler(), |_| Ok(()))?;
        self.begun = begun;
        Ok((root, left))
    }

    /// Applies some of the records after a key to the tree at a root beside that of the tree, which is made
    /// if there is none yet.
    fn batch(
        &mut self,
        tree: &TreeRef,
        root: Option<PageId>,
        (records, after): (&PendingRecords, Option<&[u8]>),
    ) -> Result<Batch> {
        let trees = self.trees;
        let most = trees.pages_in_batch();
        let (mut changes, now) = self.changes();
        let mut copying = Copying::new(&mut changes, self.frozen, most, self.begun.clone());
        let old = tree.tree();
        let root = match root {
            Some(root) => root,
            None => copying.copy_root(&old)?,
        };
        let new = Tree { root, ..old };
        let (mut last, mut stored) = (PageId::NONE, 0);
        let (mut passed, mut more, mut appending) = (after.map(Cow::Borrowed), true, Appending::default());
        let mut left = records.after(after)?;
        while !copying.is_full() {
            let Some((key, value)) = left.next()? else {
                more = false;
                break;
            };
            self.check_write(tree, &key, now)?;
            let value = value.as_deref();
            let run = value.filter(|value| trees.is_large(value.len())).and_then(|_| self.runs.get(stored));
            let begin = (last == PageId::NONE).then_some(|copying: &mut _| new.append_beside(copying, &key));
            let store = store_with(&new, &key, run);
            if !appending.takes(&mut copying, &new, (&key, value), begin, store)?
                && !trees.change_copy(&mut copying, &new, (&key, value), run, &mut last)?
            {
                break;
            }
            stored += usize::from(run.is_some());
            passed = Some(key);
        }
        appending.end(&mut copying)?;
        let passed = passed.map(Cow::into_owned);
        let (listed, begun) = copying.finish();
        listed.write(&self.list, &mut changes)?;
        publish::publish(&trees.pages, &trees.log, changes, &mut filler(), |_| Ok(()))?;
        self.begun = begun;
        self.runs.drain(..stored).for_each(PageRun::keep);
        Ok(Batch { root, passed, more })
    }

    /// Snapshot isolation's first-committer-wins, in a tree that nobody changes any more.
    fn check_write(&self, tree: &TreeRef, key: &[u8], now: Lsn) -> Result<()> {
        let WriteCheck::AsOf { at, time, me } = self.check else { return Ok(()) };
        if tree.is_new() {
            return Ok(());
        }
        let (trees, view) = (self.trees, tree.tree());
        let place = trees.place(&view, key, now, me)?;
        let born = trees.pages.operate(me, || {
            let mut snapshot = trees.pages.at_pin(me, now)?;
            snapshot.covering(&place.tree, place.sought()).map(header::born)
        })?;
        let is_in_place = at >= trees.pages.rebuilt_since();
        if is_in_place && born <= at || trees.record_is_same(tree, key, (at, time), now, me)? {
            return Ok(());
        }
        Err(conflict(
            "another transaction changed a record that this one changes, and committed first; run this one \
             again",
        ))
    }

    /// The commit step: the roots take over what is in those beside them.
    fn switch(
        &self,
        writes: &WriteSet,
        note: &CatalogEntry,
        record: &mut RecordBuilder,
        validate: &impl Fn(&mut ChangedPages<'_>) -> Result<()>,
    ) -> Result<Lsn> {
        let trees = self.trees;
        let (mut changes, mut now) = self.changes();
        let (key, value) =
            (note_key(note.tree), CatalogEntry { list: Some(Listed::Replaced), ..note.clone() }.encode());
        let catalog = catalog_tree();
        match writes.trees().find(|(tree, _)| tree.id == CATALOG) {
            // The catalog first: leaves are latched in the order of trees and keys.
            Some((_, records)) => self.change_catalog(&mut changes, records, (&key, &value))?,
            None => {
                let tree = catalog.tree();
                let sought = tree.sought(&key);
                let leaf = trees.leaf_for(&mut changes, &tree, sought, PageId::NONE, &mut now)?;
                if tree.try_change(&mut changes, leaf, (sought, Some(&value)))? != Tried::Done {
                    return Err(Error::corruption(format!(
                        "the catalog has lost the note of the list of pages in tree {}",
                        note.tree
                    )));
                }
            }
        }
        for &(root, beside) in &self.roots {
            let content = changes.read(beside, <[u8]>::to_vec)?;
            let bytes = changes.write(root)?;
            bytes.copy_from_slice(&content);
            header::set_page_id(bytes, root);
        }
        publish::publish(&trees.pages, &trees.log, changes, record, |changes| {
            validate(changes)?;
            trees.say_rebuilt();
            Ok(())
        })
    }

    /// Changes the catalog's records and the note, in key order. The catalog's structure latch is held.
    fn change_catalog(
        &self,
        changes: &mut ChangedPages<'_>,
        records: &PendingRecords,
        (key, value): (&[u8], &[u8]),
    ) -> Result<()> {
        let catalog = catalog_tree();
        let mut all: Vec<(&[u8], Option<&[u8]>)> = records.iter().collect();
        all.push((key, Some(value)));
        all.sort_unstable();
        for &(key, _) in all.iter().filter(|(key, _)| catalog::is_name(key)) {
            let place = KeyPlace { tree: catalog.tree(), stems: &[], rest: key };
            let leaf = place.tree.find(changes, place.sought())?;
            changes.latched(leaf)?;
            self.trees.check_write(changes, leaf, (catalog, key), &place, self.check)?;
        }
        all.into_iter()
            .try_for_each(|change| self.trees.apply_one(changes, &catalog.tree(), change, None).map(drop))
    }
}

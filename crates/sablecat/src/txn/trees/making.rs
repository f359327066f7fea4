//! Commits that make and unmake whole trees.

use super::Trees;
use super::listed::Pace;
use crate::access::PageWrite;
use crate::error::Result;
use crate::log::{self, RecordBuilder};
use crate::pages::LocalParticipant;
use crate::txn::catalog::{self, CATALOG, CatalogEntry, TreeRef};
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish;
use crate::txn::commit::scratch::ScratchRecord;
use crate::txn::options::Durability;
use crate::types::{Lsn, TreeId};

/// Pages that a commit which frees some changes, about: this many, or a part of the pool if that is less.
pub(in crate::txn) const CHANGED_AT_ONCE: usize = 64;
const CHANGED_PART: usize = 16;
const CHANGED_MIN: usize = 4;

impl Trees {
    /// Makes an empty tree as an entry says, but for the root page, with a note in the catalog that it is to
    /// be freed, for nobody names it yet: one commit. It is as durable as the commit that names it will be,
    /// since that comes after it in the log.
    pub(crate) fn create_tree(&self, me: &LocalParticipant, entry: CatalogEntry) -> Result<CatalogEntry> {
        self.create_noted(me, CatalogEntry { maker: Some(self.pages.standing()), ..entry })
    }

    /// As [`Trees::create_tree`], for what the note is to say but for the root page.
    pub(super) fn create_noted(
        &self,
        me: &LocalParticipant,
        mut entry: CatalogEntry,
    ) -> Result<CatalogEntry> {
        let (tree, volume, method) =
            (entry.tree, entry.volume, entry.method(&catalog::note_key(entry.tree))?);
        self.commit_shape(me, &[CATALOG], Durability::Memory, |changes, record| {
            entry.root = changes.allocate(volume)?;
            entry.form_root(method, changes.write(entry.root)?);
            let (key, value) = (catalog::note_key(tree), entry.encode());
            self.apply_one(changes, &catalog::catalog_tree().tree(), (&key, Some(&value)), None)?;
            record.begin(log::RecordKind::Commit);
            record.put(CATALOG, &key, &value);
            Ok(true)
        })?;
        Ok(entry)
    }

    /// Frees a tree of which the catalog has a note, and then the note: some hundred pages a commit. What is
    /// cut short goes on where it was.
    pub(crate) fn free_tree(&self, me: &LocalParticipant, entry: &CatalogEntry) -> Result<()> {
        if let Some(listed) = entry.list {
            self.free_listed(me, entry, listed)?;
        }
        let tree = entry.tree_of_note()?;
        let mut pace = Pace::default();
        while self.patiently(|| self.free_some(me, &tree))? {
            pace.leave_room(self);
        }
        self.patiently(|| self.free_root(me, &tree))
    }

    /// Frees some of a tree's pages, in a commit that no log record tells of. False once
    /// only the root is left.
    pub(in crate::txn) fn free_some(&self, me: &LocalParticipant, tree: &TreeRef) -> Result<bool> {
        self.commit_shape(me, &[tree.id], Durability::Memory, |changes, record| {
            record.begin(log::RecordKind::Filler);
            changes.only_remove();
            let mut freeing = tree.tree().freeing();
            let most = self.changed_at_once();
            let mut freed = false;
            while changes.items().len() < most && freeing.step(changes, most)? {
                freed = true;
            }
            Ok(freed)
        })
    }

    /// How many pages a commit that frees some should change.
    pub(in crate::txn) fn changed_at_once(&self) -> usize {
        (self.pages.frames_max() / CHANGED_PART).clamp(CHANGED_MIN, CHANGED_AT_ONCE)
    }

    /// Frees a tree's root, the only page it has left, and its note: one commit. If that is lost in a crash,
    /// the note is there again and so, as of some checkpoint, is the tree.
    fn free_root(&self, me: &LocalParticipant, tree: &TreeRef) -> Result<()> {
        let key = catalog::note_key(tree.id);
        self.commit_shape(me, &[CATALOG, tree.id], Durability::Memory, |changes, record| {
            changes.only_remove();
            tree.tree().free_root(changes)?;
            self.apply_one(changes, &catalog::catalog_tree().tree(), (&key, None), None)?;
            record.begin(log::RecordKind::Commit);
            record.delete(CATALOG, &key);
            Ok(true)
        })
        .map(|_| ())
    }

    /// A commit under the structure latches of `trees`. `work` prepares it and begins its record; false:
    /// there is nothing to commit. The caller holds no latch, and may have a snapshot, which stays: perhaps
    /// its seat is the last.
    pub(in crate::txn) fn commit_shape(
        &self,
        me: &LocalParticipant,
        trees: &[TreeId],
        durability: Durability,
        work: impl FnOnce(&mut ChangedPages<'_>, &mut RecordBuilder) -> Result<bool>,
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
        me: &LocalParticipant,
        work: impl FnOnce(&mut ChangedPages<'_>, &mut RecordBuilder) -> Result<bool>,
    ) -> Result<Option<Lsn>> {
        let mut record = ScratchRecord::of(me);
        let mut changes = ChangedPages::at_newest(&self.pages, me);
        if !work(&mut changes, &mut record)? {
            return Ok(None);
        }
        record.finish_body();
        publish::publish(&self.pages, &self.log, changes, &mut record, |_| Ok(())).map(Some)
    }
}

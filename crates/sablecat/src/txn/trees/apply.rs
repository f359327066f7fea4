//! Prepare: turning a write set into new page versions.
//!
//! Leaves are latched in key order, trees in the order of their numbers, so that two commits never wait for
//! each other. While every leaf has room, leaves are all a commit touches. As soon as one has none (or should
//! be merged) everything is undone. The structure latches of the trees are taken, in the order of the
//! latches, and the same is done again with inner pages included. The new pages and separators are published
//! in the same step as the records. (Not as publishes of their own beforehand: between two neighbouring keys
//! a write set may need several new leaves, which no content-neutral split can make room for.)

use super::Trees;
use super::ahead::PagesAhead;
use super::large::Large;
use crate::access::{
    Appending, KeyPlace, PageRead, PageWrite, ScannedValue, SetOrRemove, Sought, Tree, Tried, long,
};
use crate::error::{Error, Result};
use crate::pages::{LocalParticipant, Near, PageRun, header};
use crate::region::{HeldRole, STRUCTURE_LATCHES, Work};
use crate::txn::catalog::{self, CATALOG, TreeRef};
use crate::txn::commit::changes::ChangedPages;
use crate::txn::options::Isolation;
use crate::txn::pending::write_set::{WriteSet, WriteStep};
use crate::txn::refusals::conflict;
use crate::types::{FrameId, Lsn, PageId, TreeId};

/// Structure latches, held until dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct StructureHold<'a> {
    _held: Vec<HeldRole<'a>>,
}

impl Trees {
    /// Takes the structure latches of some trees.
    ///
    /// # Errors
    /// `Poisoned` if this process was taken for dead.
    #[inline(never)]
    pub(crate) fn hold_structure(
        &self,
        trees: impl Iterator<Item = TreeId>,
        me: &LocalParticipant,
    ) -> Result<StructureHold<'_>> {
        let mut indexes: Vec<usize> = trees.map(|tree| tree.0 as usize % STRUCTURE_LATCHES).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let take = |index| {
            let held = self.pages.role(Work::Structure(index)).take(me.number())?;
            self.thaw(index);
            Ok(held)
        };
        Ok(StructureHold { _held: indexes.into_iter().map(take).collect::<Result<_>>()? })
    }

    /// Changes that are to be those of a write set.
    pub(in crate::txn) fn changes_of<'a>(
        &self,
        writes: &WriteSet,
        mut changes: ChangedPages<'a>,
    ) -> ChangedPages<'a> {
        // Nowhere else are frames kept for that.
        if self.pages.volume().is_none() && writes.only_removes() {
            changes.only_remove();
        }
        changes
    }

    /// Whether somebody has the structure latch of a tree at this moment.
    pub(super) fn is_structure_held(&self, tree: TreeId) -> bool {
        self.pages.role(Work::Structure(tree.0 as usize % STRUCTURE_LATCHES)).look().owner() != 0
    }

    /// Applies one change, its tree's structure latch being held. `run` is the value's if it was stored past
    /// the pool. False if there was nothing to remove.
    pub(in crate::txn) fn apply_one(
        &self,
        changes: &mut ChangedPages<'_>,
        tree: &Tree<'_>,
        change: SetOrRemove<'_>,
        run: Option<&PageRun<'_>>,
    ) -> Result<bool> {
        let mut nowhere = PageId::NONE;
        self.apply_next(changes, tree, change, run, &mut nowhere)
    }

    /// As [`Trees::apply_one`], for one change after another: `last` is the page of the one before, then of
    /// this one.
    fn apply_next(
        &self,
        changes: &mut ChangedPages<'_>,
        tree: &Tree<'_>,
        change: SetOrRemove<'_>,
        run: Option<&PageRun<'_>>,
        last: &mut PageId,
    ) -> Result<bool> {
        let store = store_with(tree, change.0, run);
        tree.change(changes, (tree.sought(change.0), change.1), last, store)
    }

    /// Applies a write set with structure latches held.
    #[inline(never)]
    pub(in crate::txn) fn apply_shape(
        &self,
        changes: &mut ChangedPages<'_>,
        writes: &WriteSet,
        large: &Large<'_>,
        check: WriteCheck<'_>,
    ) -> Result<()> {
        if check.matters() {
            // Before anything is applied: a split would move records away from the version they are compared
            // with.
            for (tree, records) in writes.trees().filter(|(tree, _)| !tree.is_new()) {
                let view = tree.tree();
                for (key, _) in records.iter() {
                    if let Some(page) = view.changed_around(changes, key)? {
                        changes.latched(page)?;
                    }
                    let place = view.place(changes, key)?;
                    let page = place.tree.find(changes, place.sought())?;
                    changes.latched(page)?;
                    self.check_write(changes, page, (tree, key), &place, check)?;
                }
            }
        }
        let mut runs = large.runs();
        for (tree, records) in writes.trees() {
            let view = tree.tree();
            let (mut last, mut appending) = (PageId::NONE, Appending::default());
            let (me, mut ahead) = (changes.participant(), None);
            for step in records.steps() {
                let (key, value) = match step {
                    WriteStep::Record(key, value) => (key, value),
                    WriteStep::Range(bounds) => {
                        appending.end(changes)?;
                        view.remove_range(changes, bounds)?;
                        last = PageId::NONE;
                        continue;
                    }
                };
                let run = value.filter(|value| self.is_large(value.len())).and_then(|_| runs.next());
                let begin = (last == PageId::NONE).then_some(|changes: &mut _| view.append(changes, key));
                let store = store_with(&view, key, run);
                if !appending.takes(changes, &view, (key, value), begin, store)? {
                    _ = self.apply_next(changes, &view, (key, value), run, &mut last)?;
                    let ahead = ahead.get_or_insert_with(|| PagesAhead::new(self, me, (tree, records)));
                    ahead.applied(key, changes.at());
                }
            }
            appending.end(changes)?;
        }
        Ok(())
    }

    /// In the commit step, snapshot isolation's first-committer-wins for all single records of a write set.
    #[inline(never)]
    pub(in crate::txn) fn check_writes(&self, writes: &WriteSet, check: WriteCheck<'_>) -> Result<()> {
        let WriteCheck::AsOf { at, time, me } = check else { return Ok(()) };
        let now = self.pages.newest();
        for (tree, records) in writes.trees().filter(|(tree, _)| !tree.is_new()) {
            for (key, _) in records.iter() {
                if tree.id == CATALOG && !catalog::is_name(key) {
                    continue;
                }
                if !self.record_is_same(tree, key, (at, time), now, me)? {
                    return Err(changed_first());
                }
            }
        }
        Ok(())
    }

    /// Applies a write set as long as leaves alone suffice.
    pub(in crate::txn) fn apply_leaves(
        &self,
        changes: &mut ChangedPages<'_>,
        writes: &WriteSet,
        mut at: Lsn,
        check: WriteCheck<'_>,
    ) -> Result<Tried> {
        for (tree, records) in writes.trees() {
            let view = tree.tree();
            // A tree that the snapshot does not have, but the newest state, at which it is looked for: the
            // catalog's leaf is held by now.
            let check = if tree.is_new() { WriteCheck::None } else { check };
            let (mut last, near) = (PageId::NONE, Near::default());
            let mut ahead = PagesAhead::new(self, changes.participant(), (tree, records));
            for (key, value) in records.iter() {
                if self.is_nested(&view, key) {
                    return Ok(Tried::Structure);
                }
                let sought = view.sought(key).after(&near);
                let page = self.leaf_for(changes, &view, sought, last, &mut at)?;
                last = page;
                let place = KeyPlace { tree: view, stems: &[], rest: key };
                self.check_write(changes, page, (tree, key), &place, check)?;
                if view.try_change(changes, page, (sought, value))? == Tried::Structure {
                    return Ok(Tried::Structure);
                }
                ahead.applied(key, at);
            }
        }
        Ok(Tried::Done)
    }

    /// The latched leaf for a key: the one before, or found anew, at `at` or at a newer state, which `at`
    /// then is.
    ///
    /// A holder of leaves looks for the next one at the newest state. Pages keep their lower ends, so what
    /// follows a held leaf there follows it still. In a snapshot the key may lie in a page that has since
    /// been split, and ends before the held leaf. To wait for that page would be out of order. Nor does any
    /// sweep give this state up, as it may a snapshot, and the page be used elsewhere while it is waited for.
    pub(in crate::txn) fn leaf_for(
        &self,
        changes: &mut ChangedPages<'_>,
        tree: &Tree<'_>,
        sought: Sought<'_>,
        last: PageId,
        at: &mut Lsn,
    ) -> Result<PageId> {
        let me = changes.participant();
        if last != PageId::NONE && changes.read(last, |bytes| tree.covers(bytes, sought))? {
            return Ok(last);
        }
        if !changes.items().is_empty() {
            *at = changes.guard();
        }
        loop {
            let page = self.locate(tree, sought, *at, me)?;
            self.pages.foresee_latched(page);
            let held = changes.holds(page);
            let bytes = changes.latched(page)?;
            if tree.covers(bytes, sought) {
                return Ok(page);
            }
            if !held {
                let moved = self.check_moved(tree.id, page, bytes, *at);
                changes.release_last();
                moved?;
            }
            // A split moved the key after `at`. Look at the newest state: shapes only ever change in
            // published steps.
            me.hints.forget(tree.id);
            self.help_committer(me);
            *at = changes.guard();
        }
    }

    /// That a latched page, to which the way at an LSN leads and which does not cover the key, has changed
    /// since: a newer state leads elsewhere.
    ///
    /// # Errors
    /// Corruption if it has not: the way at this very state leads to it. The tree is damaged, or partly freed
    /// after its removal.
    pub(in crate::txn) fn check_moved(
        &self,
        tree: TreeId,
        page: PageId,
        bytes: &[u8],
        at: Lsn,
    ) -> Result<()> {
        if header::born(bytes) > at {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "page {page} should be the leaf of tree {tree} for a key, and does not cover it"
        )))
    }

    /// Snapshot isolation's first-committer-wins: the record must be as the snapshot saw it. Its page is
    /// latched; there the key has this place, in the tree or in a subtree of it.
    pub(super) fn check_write(
        &self,
        changes: &ChangedPages<'_>,
        page: PageId,
        (tree, key): (&TreeRef, &[u8]),
        place: &KeyPlace<'_, '_>,
        check: WriteCheck<'_>,
    ) -> Result<()> {
        let WriteCheck::AsOf { at, time, me } = check else { return Ok(()) };
        if tree.id == CATALOG && !catalog::is_name(key) {
            // The note of a tree that this transaction made, in a commit that its snapshot does not have, or
            // removes: nobody else touches it.
            return Ok(());
        }
        let Some(item) = changes.items().iter().rev().find(|item| item.page == page) else { return Ok(()) };
        // A page that replaced others is younger than what it says of its records; one that was loaded is
        // older than that it is a page of its tree.
        let is_in_place = at >= self.pages.rebuilt_since();
        if item.old == FrameId::NONE || is_in_place && self.pages.born(item.old) <= at {
            return Ok(());
        }
        // Its latch holds still what it says, which may not be visible yet; what older layers say is.
        let sought = place.sought();
        let said = changes.read_old(page, |bytes| {
            place.tree.says(bytes, sought).map(|value| value.map(ScannedValue::from))
        });
        let now = match said.flatten() {
            Some(now) => now,
            None => self.value_below(&place.tree, sought, changes.guard(), me)?,
        };
        if !self.was(tree, key, (at, time), now.as_ref(), me)? {
            // The next snapshot must have what this one lacks, however long the committer is kept from making
            // it visible.
            self.help_committer(me);
            return Err(changed_first());
        }
        Ok(())
    }
}

/// Stores the value of a key's record if it is long: it may have been, past the pool.
fn store_with<'s, 'c>(
    tree: &'s Tree<'_>,
    key: &[u8],
    run: Option<&'s PageRun<'_>>,
) -> impl FnOnce(&mut ChangedPages<'c>, TreeId, &[u8]) -> Result<PageId> + use<'s, 'c> {
    let (id, home) = (tree.id, tree.home.of_key(key));
    move |changes, within, value| match run {
        Some(run) => changes.add_run(run, id, value),
        None => long::store(changes, (within, home), value),
    }
}

#[cold]
fn changed_first() -> Error {
    conflict(
        "another transaction changed a record that this one changes, and committed first; run this one again",
    )
}

/// Which committed changes of others forbid a write.
#[derive(Clone, Copy)]
pub(in crate::txn) enum WriteCheck<'a> {
    /// None: reads are validated, or do not matter.
    None,
    /// Any of the same record since the snapshot, but for the sweep of what had lapsed at a time.
    AsOf { at: Lsn, time: u64, me: &'a LocalParticipant },
}

impl WriteCheck<'_> {
    fn matters(self) -> bool {
        matches!(self, WriteCheck::AsOf { .. })
    }

    /// The check that an isolation level asks for.
    pub(in crate::txn) fn of(
        isolation: Isolation,
        (at, time): (Lsn, u64),
        me: &LocalParticipant,
    ) -> WriteCheck<'_> {
        match isolation {
            Isolation::Snapshot => WriteCheck::AsOf { at, time, me },
            Isolation::Serializable | Isolation::ReadCommitted => WriteCheck::None,
        }
    }
}

impl Trees {
    /// All trees of a write set, for their structure latches.
    pub(in crate::txn) fn trees_of<'w>(&self, writes: &'w WriteSet) -> impl Iterator<Item = TreeId> + 'w {
        writes.trees().map(|(tree, _): (&TreeRef, _)| tree.id)
    }
}

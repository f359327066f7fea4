//! Whether what a serialisable transaction has read still stands when it commits.
//!
//! In the commit step nobody else can commit, so a leaf whose current version is one that the snapshot has
//! cannot have changed. For any other leaf the read is done again, at the snapshot and at the newest state,
//! and the two are compared record by record. So a neighbour's change in the same page, a split, or an
//! eviction and reload is no conflict, and there are no phantoms: what is compared is the range that was
//! read, not the records found. A leaf that has not changed is still where it was, in a subtree too: what
//! unmakes a subtree frees its pages.
//!
//! A transaction that has read many leaves does all this before it takes the commit role, at a state of that
//! moment. It does so again of what was published meanwhile (recent.rs), until that is little. Under the role
//! it looks only at what was published since; or, where that is not known, at whether each leaf has changed
//! since (pages/visibility/unchanged.rs). A leaf that has changed by then, and still reads the same, may have
//! been split, or joined to others. So the leaves that have what was read of it are noted beside it, and a
//! change of these counts as well.
//!
//! Where nothing was published since the snapshot, as where nobody else writes, none of it need be looked at.
//!
//! What was counted in a counted tree is counted again: some pages for each number. No count changes without
//! that of all records, which is in the root. So where that has not changed since, nothing is counted. A
//! transaction that has counted much does it before it takes the commit role, as with leaves.
//!
//! (Kung and Robinson's backward validation; the leaf test is Silo's node set.)

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;

use super::leaf_read::LeafRead;
use super::reads::{CountedSpan, FRESH_MAX, LINEAR_MAX, ReadSet};
use super::span::ReadSpan;
use crate::access::{
    KeyBounds, PageCopy, PageRead, Part, PendingRecord, ScanSource, StoredValue, Tree, WantedPage,
};
use crate::error::{Error, Result};
use crate::pages::LocalParticipant;
use crate::txn::commit::Committer;
use crate::txn::commit::recent::Published;
use crate::txn::ranges;
use crate::txn::refusals::{conflict, removed};
use crate::txn::state::CommittedState;
use crate::types::{Lsn, PageId, TreeId};

/// A transaction that has read more leaves than this, or counted more, validates before it takes the commit
/// role, too.
const AHEAD: usize = 32;
/// So much is counted again at one state.
const COUNTED_AT_ONCE: usize = 16;
/// It goes on to a later state until no more pages than this were published meanwhile, or so often.
const FEW: usize = 16;
const ROUNDS: usize = 8;

/// How far what was read has been validated before the commit step.
pub(crate) struct Ahead<'a> {
    /// Up to this state all of it still stands.
    since: Lsn,
    /// What was published after a state that is no later, if that was asked for.
    published: Option<RefCell<Published<'a>>>,
}

/// What is published while somebody waits for a change of what it has read.
pub(crate) struct ReadWatch<'a> {
    elsewhere: (Lsn, Lsn),
    published: Published<'a>,
}

/// Which states come after trees were built anew, and after names of databases were taken away: then what was
/// read may be no page of its tree, or of no database, and never change.
fn elsewhere(committer: &Committer) -> (Lsn, Lsn) {
    (committer.pages.rebuilt_since(), committer.names_since())
}

#[cfg(test)]
impl Ahead<'_> {
    /// Whether all that was published since is known.
    pub(crate) fn knows(&self) -> bool {
        self.published.as_ref().is_some_and(|published| published.borrow_mut().rest().is_some())
    }
}

/// A state that is compared with another, and the leaves that were looked at in it.
struct Compared<'a> {
    state: CommittedState<'a>,
    leaves: Vec<PageId>,
}

impl PageRead for Compared<'_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.state.read(page, look)
    }

    fn page_size(&self) -> usize {
        self.state.page_size()
    }
}

impl ScanSource for Compared<'_> {
    fn copy(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.leaves.push(self.state.copy_page(part, wanted, into)?);
        Ok(())
    }

    fn copy_unseen(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.state.copy_unseen(part, wanted, into)
    }

    fn pending(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        forward: bool,
    ) -> Result<Option<PendingRecord>> {
        self.state.pending(lower, upper, forward)
    }
}

impl ReadSet {
    /// Validates before the commit step, if that would take long there: with many leaves, which may have to
    /// be read in. Waits for the commit role. Not where nothing was published since the snapshot: then the
    /// commit step has nothing to do, as a rule, or to compare what has changed since, which is little.
    pub(crate) fn validate_ahead<'k>(
        &mut self,
        committer: &'k Committer,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<Ahead<'k>> {
        self.forget_homes();
        // Pages that were evicted may have to be read in.
        let is_soon_done = committer.pages.newest() == at && !committer.pages.under_pressure();
        let most = if is_soon_done { FRESH_MAX } else { AHEAD };
        // It may be few leaves, read in turns.
        if self.len() > most {
            self.settle();
        }
        if self.len() <= most && self.counted().len() <= AHEAD {
            return Ok(Ahead { since: at, published: None });
        }
        self.settle();
        let mut published = Published::since_now(committer, me)?;
        let mut since = self.validate_all(committer, at, &mut published, me)?;
        for _ in 0..ROUNDS {
            let Some((taken, pages)) = published.take(me)? else { break };
            let has_counts = self.counts_on(&pages);
            if pages.len() <= FEW && !has_counts && self.reads_on(pages.iter().copied()).next().is_none() {
                break;
            }
            since = if since < committer.pages.rebuilt_since() {
                self.validate_all(committer, at, &mut published, me)?
            } else {
                if has_counts {
                    self.count_ahead(committer, &mut published, me)?;
                }
                let concerned: BTreeSet<_> = self.reads_on(pages.into_iter()).collect();
                for read in concerned {
                    self.compare_with_newest(committer, read, at, me)?;
                    published.look(me)?;
                }
                // Not what they were compared with, which may have more than what was taken.
                taken
            };
        }
        Ok(Ahead { since, published: Some(RefCell::new(published)) })
    }

    /// Has it told from now on when something is published where anything is that was read at `at`. Waits for
    /// the commit role.
    ///
    /// # Errors
    /// A conflict if something would read differently already.
    pub(crate) fn watch<'k>(
        &mut self,
        committer: &'k Committer,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<ReadWatch<'k>> {
        self.forget_homes();
        self.settle();
        // Before all is validated: what changes these words later is noticed.
        let elsewhere = elsewhere(committer);
        let mut published = Published::since_now(committer, me)?;
        {
            // Of what was removed since the snapshot the pages may not say so, and they never change.
            let newest = committer.pages.guarded(me);
            for tree in self.trees() {
                if !committer.is_there(tree, newest.at(), me)? {
                    return Err(removed());
                }
            }
            self.absent().try_for_each(|tree| committer.check_absent(tree, newest.at(), me))?;
        }
        self.validate_all(committer, at, &mut published, me)?;
        Ok(ReadWatch { elsewhere, published })
    }

    /// Whether anything that was read may read differently by now.
    pub(crate) fn is_disturbed(
        &self,
        committer: &Committer,
        watch: &mut ReadWatch<'_>,
        me: &LocalParticipant,
    ) -> Result<bool> {
        let pages = watch.published.take_so_far(me)?;
        Ok(elsewhere(committer) != watch.elsewhere
            || pages.is_none_or(|pages| {
                self.counts_on(&pages) || self.reads_on(pages.into_iter()).next().is_some()
            }))
    }

    /// Compares everything that was read at `at`, and has changed since, with the newest state. Returns the
    /// one up to which all of it still stands.
    fn validate_all(
        &mut self,
        committer: &Committer,
        at: Lsn,
        published: &mut Published<'_>,
        me: &LocalParticipant,
    ) -> Result<Lsn> {
        let since = committer.pages.newest();
        // Behind that look: if it has seen a state from after trees were built anew, this load sees that they
        // were.
        let is_in_place = at >= committer.pages.rebuilt_since();
        self.count_ahead(committer, published, me)?;
        for read in 0..self.reads.len() {
            let is_unchanged = is_in_place && {
                let _newest = committer.pages.guarded(me);
                committer.pages.is_unchanged_since(self.reads[read].page, at)
            };
            if !is_unchanged {
                self.compare_with_newest(committer, read, at, me)?;
            }
            published.look(me)?;
        }
        Ok(since)
    }

    /// A conflict if what was read at `at` of a leaf, in one piece with a key there, reads differently at
    /// `now`. The participant has pinned both.
    pub(in crate::txn) fn check_around(
        &mut self,
        committer: &Committer,
        (leaf, key): (PageId, Bound<&[u8]>),
        (at, now): (Lsn, Lsn),
        me: &LocalParticipant,
    ) -> Result<()> {
        self.settle();
        let Some(read) = self.find(leaf).map(|read| &self.reads[read]) else { return Ok(()) };
        let tree = self.trees[read.tree].tree();
        let spans = read.spans().filter(|span| span.covers(&tree, key, key));
        self.compare_spans(committer, (read, spans), (at, now), me).map(drop)
    }

    /// A conflict if anything that was read at `at` of a tree reads differently in the newest state, which is
    /// pinned for one leaf at a time.
    pub(in crate::txn) fn check_tree(
        &mut self,
        committer: &Committer,
        tree: TreeId,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<()> {
        self.spell_out();
        for (read, of) in self.all().enumerate().filter(|(_, read)| self.trees[read.tree].id == tree) {
            let newest = committer.pages.guarded(me);
            if !committer.is_leaf_unchanged(of.page, at) {
                self.compare(committer, read, (at, newest.at()), me)?;
            }
        }
        Ok(())
    }

    /// Whether anything that was counted may have changed with these pages: no count changes without that of
    /// all records, which is in the root.
    fn counts_on(&self, pages: &HashSet<PageId>) -> bool {
        self.counted().iter().any(|counted| pages.contains(&self.trees[counted.tree].root))
    }

    /// A conflict if anything that was counted comes to something else in the newest state. That is pinned
    /// for some of it at a time, as in [`ReadSet::compare_with_newest`].
    fn count_ahead(
        &self,
        committer: &Committer,
        published: &mut Published<'_>,
        me: &LocalParticipant,
    ) -> Result<()> {
        for some in self.counted().chunks(COUNTED_AT_ONCE) {
            let newest = committer.pages.guarded(me);
            self.count_again(some, committer, newest.at(), me)?;
            drop(newest);
            published.look(me)?;
        }
        Ok(())
    }

    /// A conflict if any of what was counted comes to something else at `now`, which is pinned.
    fn count_again<'c>(
        &self,
        counted: impl IntoIterator<Item = &'c CountedSpan>,
        committer: &Committer,
        now: Lsn,
        me: &LocalParticipant,
    ) -> Result<()> {
        let state = CommittedState { states: committer, me, at: now };
        for CountedSpan { tree, span, records } in counted {
            if count_between(&state, &self.trees[*tree].tree(), ranges::bounds(span))? != *records {
                return Err(changed());
            }
        }
        Ok(())
    }

    /// Where in `reads`, to which all is brought, there is what was read of these pages, or is on them since.
    fn reads_on(&self, pages: impl Iterator<Item = PageId>) -> impl Iterator<Item = usize> {
        pages.flat_map(|page| {
            let homes = self.more.get().map(|more| more.homes.range((page, 0)..=(page, usize::MAX)));
            let moved = homes.into_iter().flatten().map(|home| home.1);
            self.find(page).into_iter().chain(moved)
        })
    }

    /// A conflict if anything read at `at`, which still stood as far as `ahead` says, would read differently
    /// now. Called in the commit step, so "now" holds still: the guard pin of the commit step, or the
    /// snapshot itself, holds the newest state, since nobody else publishes meanwhile.
    pub(crate) fn validate(
        &mut self,
        committer: &Committer,
        at: Lsn,
        ahead: &Ahead<'_>,
        me: &LocalParticipant,
    ) -> Result<()> {
        let since = ahead.since;
        let now = committer.pages.newest();
        if now == since {
            return Ok(());
        }
        self.spell_out();
        // What was read before trees were built anew may be no page of its tree any more, and so never
        // change.
        let mut published = ahead.published.as_ref().map(RefCell::borrow_mut);
        let is_rebuilt = since < committer.pages.rebuilt_since();
        if !self.counted().is_empty() {
            let may_differ: Vec<bool> = self
                .trees
                .iter()
                .map(|tree| is_rebuilt || !committer.pages.is_unchanged_since(tree.root, since))
                .collect();
            let counted = self.counted().iter().filter(|counted| may_differ[counted.tree]);
            self.count_again(counted, committer, now, me)?;
        }
        let concerned: BTreeSet<_> = if is_rebuilt {
            self.settle();
            (0..self.len()).collect()
        } else if let Some(pages) = published.as_mut().and_then(|published| published.rest()) {
            self.reads_on(pages.iter().copied()).collect()
        } else {
            let concerned = self.changed_since(committer, since);
            if concerned.len() > LINEAR_MAX && !self.is_settled() {
                // They may be few leaves, read in turns, each to be compared once.
                self.settle();
                self.changed_since(committer, since)
            } else {
                concerned
            }
        };
        concerned.into_iter().try_for_each(|read| self.compare(committer, read, (at, now), me).map(drop))
    }

    /// What was read of leaves that have changed since, or is on such.
    fn changed_since(&self, committer: &Committer, since: Lsn) -> BTreeSet<usize> {
        let places = self
            .all()
            .enumerate()
            .map(|(read, of)| (of.page, read))
            .chain(self.more.get().into_iter().flat_map(|more| more.homes.iter().copied()));
        places
            .filter(|&(page, _)| !committer.pages.is_unchanged_since(page, since))
            .map(|(_, read)| read)
            .collect()
    }

    /// A conflict if what was read at `at` reads differently in the newest state; else it is noted where it
    /// is there.
    ///
    /// That state is pinned for this alone: to look at what is published may mean to help a committer, which
    /// takes the guard; and kept for longer it would keep what others free.
    fn compare_with_newest(
        &mut self,
        committer: &Committer,
        read: usize,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<()> {
        let newest = committer.pages.guarded(me);
        let leaves = self.compare(committer, read, (at, newest.at()), me)?;
        let own = self.reads[read].page;
        for leaf in leaves.into_iter().filter(|&leaf| leaf != own) {
            self.more.needed().homes.insert((leaf, read));
        }
        Ok(())
    }

    /// A conflict if a read reads differently at two moments, of which the participant has pinned both; else
    /// the leaves that have what was read at the later one.
    fn compare(
        &self,
        committer: &Committer,
        read: usize,
        moments: (Lsn, Lsn),
        me: &LocalParticipant,
    ) -> Result<Vec<PageId>> {
        #[cfg(test)]
        self.compared.set(self.compared.get() + 1);
        let read = self.read(read);
        self.compare_spans(committer, (read, read.spans()), moments, me)
    }

    /// The same of some of what was read of one leaf.
    fn compare_spans<'s>(
        &self,
        committer: &Committer,
        (read, spans): (&LeafRead, impl Iterator<Item = &'s ReadSpan>),
        (at, now): (Lsn, Lsn),
        me: &LocalParticipant,
    ) -> Result<Vec<PageId>> {
        let compared =
            |at| Compared { state: CommittedState { states: committer, me, at }, leaves: Vec::new() };
        let (of, stems) = (&self.trees[read.tree], &self.stems[read.stems.clone()]);
        let tree = of.tree();
        let state = CommittedState { states: committer, me, at };
        // What leads to a subtree has no time.
        let may_go = |key: &[u8], value: StoredValue<'_>| {
            Ok(!committer.is_nested(&tree, key) && state.had_lapsed(of.lapse, (key, value), self.time)?)
        };
        let (mut then, mut newest) = (compared(at), compared(now));
        for span in spans {
            let of_page;
            let bounds = match span.bounds() {
                Some(bounds) => bounds,
                None => {
                    of_page = state.read(read.page, |bytes| tree.covered_in_all(stems, bytes))?;
                    ranges::bounds(&of_page)
                }
            };
            if !tree.reads_same(stems, bounds, (&mut then, &mut newest), &may_go)? {
                return Err(changed());
            }
        }
        Ok(newest.leaves)
    }
}
/// How many records of a counted tree lie between two bounds.
pub(in crate::txn) fn count_between<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    (lower, upper): KeyBounds<'_>,
) -> Result<u64> {
    let below = match lower {
        Bound::Unbounded => 0,
        Bound::Included(key) => tree.count_below(reader, Bound::Excluded(key))?,
        Bound::Excluded(key) => tree.count_below(reader, Bound::Included(key))?,
    };
    Ok(tree.count_below(reader, upper)?.saturating_sub(below))
}

#[cold]
fn changed() -> Error {
    conflict("another transaction changed what this one has read, and committed first; run this one again")
}

//! Pages that nothing leads to: finding them, and freeing them, while others work.
//!
//! A bulk load publishes pages before anything leads to them; if its process dies and a checkpoint has named
//! them, no tree and no note of the catalog says that they are there. (What else is cut short leaves a note,
//! or is named by no checkpoint.) They are found by what they are not: *settled* pages
//! (pages/store/settled.rs) that no tree of the state pinned with these reaches, by any database, the
//! catalog, or a note.
//!
//! What was in use at a state, published, and not reached, will not be reached at any later one: commits lead
//! to pages that they make, or that something led to. The exception are the pages of bulk loads in progress.
//! Each says so in its slot before it publishes any, and counts itself in the header. So nothing is freed
//! unless no slot says so before the state is pinned, and the count is the same before that and after it:
//! then no load was in progress at that state. A process that looks holds a role, so that no two free the
//! same pages.
//!
//! Pages are freed as all pages are, in commits of which the log says nothing: if they are lost in a crash,
//! the pages are found again.
//!
//! Costs: the map and all pages of all trees are read once; a commit for so many stretches of neighbouring
//! pages.

use super::Mender;
use crate::access::PageWrite;
use crate::error::{ErrorKind, Result};
use crate::log;
use crate::pages::{LocalParticipant, PageSet, runs_of};
use crate::region::Work;
use crate::txn::catalog;
use crate::txn::options::Durability;
use crate::txn::state::CommittedState;
use crate::txn::trees::listed;
use crate::txn::trees::making::CHANGED_AT_ONCE;
use crate::types::{Lsn, PageId};

/// How often pages are looked for again when the snapshot is given up.
const TRIES: u32 = 3;
/// Neighbouring pages that are freed as one run, about.
const RUN_MAX: u64 = 1 << 16;

impl Mender {
    /// Frees the pages that nothing leads to, of those that the last checkpoint has; says how many. None are
    /// found while a bulk load is in progress, while somebody else looks for them, or if trees are damaged or
    /// of a method that this build does not know. `me` is pinned to nothing, and has the role until all is
    /// freed.
    ///
    /// # Errors
    /// Those of reading the map and of committing.
    pub(crate) fn free_unreachable(&self, me: &LocalParticipant) -> Result<u64> {
        let Ok(_looking) = self.pages.role(Work::Unreachable).try_take(me.number()) else {
            return Ok(0);
        };
        let mut tries = 1;
        let found = loop {
            match self.find_unreachable(me) {
                Err(error) if error.kind() == ErrorKind::SnapshotTooOld && tries < TRIES => tries += 1,
                Err(error)
                    if error.kind() == ErrorKind::SnapshotTooOld
                        || error.is_corruption()
                        || error.is_not_known() =>
                {
                    return Ok(0);
                }
                found => break found?,
            }
        };
        let Some(pages) = found else { return Ok(0) };
        let runs = self.in_runs(&pages);
        for some in runs.chunks(CHANGED_AT_ONCE) {
            self.patiently(|| {
                self.commit_shape(me, &[], Durability::Memory, |changes, record| {
                    record.begin(log::RecordKind::Filler);
                    some.iter().try_for_each(|&(first, count)| changes.free_run(first, count))?;
                    Ok(true)
                })
            })?;
        }
        Ok(runs.iter().map(|run| run.1).sum())
    }

    /// The pages that nothing leads to; none if there may be a bulk load in progress.
    fn find_unreachable(&self, me: &LocalParticipant) -> Result<Option<PageSet>> {
        let Some(volume) = self.pages.volume() else { return Ok(None) };
        let begun = self.pages.loads_begun();
        if self.pages.anybody_loads() {
            return Ok(None);
        }
        let (pinned, mut pages) = self.pages.settled(volume, me)?;
        if self.pages.loads_begun() != begun {
            return Ok(None);
        }
        let reached = self.reach_all(pinned.at(), me)?;
        pages.remove_all(&reached);
        Ok(Some(pages))
    }

    /// All pages that something leads to at a state.
    fn reach_all(&self, at: Lsn, me: &LocalParticipant) -> Result<PageSet> {
        let mut reached = PageSet::new(self.pages.page_ids().high_water());
        let mut state = CommittedState { states: self, me, at };
        let notes_and_names = catalog::records(&mut state)?;
        // Order and placement do not matter for which pages there are.
        for (_, entry) in &notes_and_names {
            // What a list names is freed with it, or reached by other ways.
            listed::each(&state, entry, &mut |page| _ = reached.insert(page))?;
        }
        let trees = notes_and_names.iter().map(|(key, entry)| entry.tree(key, None, None));
        for tree in std::iter::once(Ok(catalog::catalog_tree().clone())).chain(trees) {
            tree?.tree().reach(&state, &mut |page| reached.insert(page))?;
        }
        Ok(reached)
    }

    /// Pages as stretches of neighbours, so that one frame frees many. The parts of a run that was stored
    /// past the pool stay together.
    fn in_runs(&self, pages: &PageSet) -> Vec<(PageId, u64)> {
        runs_of(pages.iter(), |page, count| count < RUN_MAX || self.pages.is_rest(page))
    }
}

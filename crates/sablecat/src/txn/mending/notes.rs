//! Notes that nobody sees to any more: acting upon them while others work.
//!
//! Whatever has pages and no name has a note in the catalog (txn/catalog/), and as a rule a process is about
//! to see to it. A transaction has made the tree, or has removed it and frees it. A large commit has made the
//! list, or waits for snapshots to end before what it replaced can go. The note says which process that is,
//! as a member of the region. Once that member has left or was reaped, nothing of its making is going on, and
//! no commit of it is to come. A note that is there in a state pinned *after* that is nobody's, and stays
//! until somebody acts upon it. The next process to open the environment afresh does so for all notes
//! (env/databases/mod.rs). A process that compacts it while others work does so for the notes of processes
//! that are gone.
//!
//! A note of an earlier life of the environment has no living maker. Opening has seen to these before anybody
//! joins; should one be left, it names a member of a region that is gone, which may seem to be one of this:
//! then it stays. So do notes that do not say which process made them.
//!
//! Nobody else acts upon such a note meanwhile: a process that does holds the role of freeing what nothing
//! leads to. What is cut short goes on where it was, as all freeing does.
//!
//! A tree that was removed is freed while snapshots still see it, as its remover does. Pages that a large
//! commit replaced are not: as long as a snapshot may be left from before, they are left to the next process
//! that looks.

use super::Mender;
use crate::error::{ErrorKind, Result};
use crate::pages::{LocalParticipant, PageSet};
use crate::region::Work;
use crate::txn::catalog::{self, CatalogEntry, Listed};
use crate::txn::state::CommittedState;
use crate::txn::trees::listed;
use crate::types::Lsn;

impl Mender {
    /// Frees what notes name whose makers are gone; says how many pages that were. `me` is pinned to nothing.
    /// Nothing is freed while somebody else is at it, what is damaged or not known to this build is not, and
    /// a list not as long as some snapshot may see its pages.
    ///
    /// # Errors
    /// Those of reading, but for damage and for a snapshot that is given up, and those of committing.
    pub(crate) fn free_noted(&self, me: &LocalParticipant) -> Result<u64> {
        let Ok(_freeing) = self.pages.role(Work::Unreachable).try_take(me.number()) else {
            return Ok(0);
        };
        let mut freed = 0;
        let Some((at, notes)) = or_none(self.forsaken_notes(me))? else { return Ok(0) };
        for note in notes {
            let Some(pages) = or_none(self.pages_noted(&note, me))? else { continue };
            let may_be_seen = note.list == Some(Listed::Replaced) && !self.comes_unseen(at);
            if !may_be_seen && or_none(self.free_tree(me, &note))?.is_some() {
                freed += pages;
            }
        }
        Ok(freed)
    }

    /// The notes whose makers are gone, and a state that has them.
    fn forsaken_notes(&self, me: &LocalParticipant) -> Result<(Lsn, Vec<CatalogEntry>)> {
        let notes = |me| {
            let pinned = self.pages.pinned(me);
            let mut records = catalog::records(&mut CommittedState { states: self, me, at: pinned.at() })?;
            records.retain(|(key, _)| !catalog::is_name(key));
            Ok((pinned.at(), records.into_iter().map(|(_, entry)| entry)))
        };
        let is_forsaken = |entry: &CatalogEntry| entry.maker.is_some_and(|maker| !self.pages.stands(maker));
        let (at, noted) = notes(me)?;
        let forsaken: Vec<_> = noted.filter(is_forsaken).map(|entry| entry.tree).collect();
        if forsaken.is_empty() {
            return Ok((at, Vec::new()));
        }
        // Again, now that they are known to be gone: what they were committing then they have committed.
        let (at, noted) = notes(me)?;
        Ok((at, noted.filter(|entry| forsaken.contains(&entry.tree)).collect()))
    }

    /// How many pages go with a note.
    fn pages_noted(&self, note: &CatalogEntry, me: &LocalParticipant) -> Result<u64> {
        let pinned = self.pages.pinned(me);
        let state = CommittedState { states: self, me, at: pinned.at() };
        let mut pages = PageSet::new(self.pages.page_ids().high_water());
        let mut count = 0;
        listed::each_to_be_freed(&state, note, &mut |page| count += u64::from(pages.insert(page)))?;
        let tree = note.tree_of_note()?;
        tree.tree().reach(&state, &mut |page| {
            count += 1;
            pages.insert(page)
        })?;
        Ok(count)
    }
}

/// None of what cannot be had now, or ever.
fn or_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(had) => Ok(Some(had)),
        Err(error)
            if error.kind() == ErrorKind::SnapshotTooOld || error.is_corruption() || error.is_not_known() =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

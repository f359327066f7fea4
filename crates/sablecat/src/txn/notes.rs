//! Notes: trees and lists that are to be freed. Whose affair they are, and freeing those that are nobody's any more.
//!
//! Whatever has pages and no name has a note in the catalog (catalog.rs). As a rule somebody is about to see to it: a transaction in progress has made the
//! tree, or has removed it and is freeing it; a large commit has made the list, or waits for snapshots to end before what it replaced can go. If that process
//! dies, or fails to free it, the note is nobody's affair. The next to open the environment afresh frees what all notes name; beside others, `compact` does.
//!
//! A process counts in its member how many notes it *sees to*, each from before the note is committed; and the header counts how often any began to. A note
//! of a state that is pinned while no member sees to any, and between two looks at the header's count that find the same, is nobody's then, and will be
//! nobody's: nobody begins to see to a note that is there.
//!
//! Costs: two counts for each database made or removed and each large commit.

use std::sync::Arc;

use sablecat_os::atomic::Ordering;

use super::catalog::{self, CatalogEntry};
use super::committed::Committed;
use super::{Kernel, listed};
use crate::error::Result;
use crate::region::Region;
use crate::types::PageId;

/// This process sees to a note, or to some, until this is dropped.
#[derive(Debug)]
pub(crate) struct Care {
    region: Arc<Region>,
}

impl Drop for Care {
    fn drop(&mut self) {
        self.region.end_care();
    }
}

/// What the catalog has a note of, and this process sees to.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) entry: CatalogEntry,
    /// Until it is free, or left to whoever looks for such.
    pub(super) _care: Care,
}

impl Kernel {
    /// From now on this process sees to a note that is not there yet.
    pub(crate) fn care(&self) -> Care {
        self.pages.region.begin_care();
        Care { region: Arc::clone(&self.pages.region) }
    }

    /// Frees what notes name that are nobody's affair; says how many pages, about. None while some process sees to a note, or if the trees are damaged; and
    /// no list whose pages some snapshot still sees. The caller is who looks for what nothing leads to.
    ///
    /// # Errors
    /// Those of reading, and of committing.
    pub(super) fn free_noted(&self) -> Result<u64> {
        let (at, notes) = {
            let seat = self.pages.participants.sit()?;
            let header = self.pages.region.header();
            let begun = header.cares_begun.load(Ordering::SeqCst);
            if self.pages.region.anybody_cares() {
                return Ok(0);
            }
            let pinned = self.pages.pinned(&seat);
            let mut state = Committed { kernel: self, me: &seat, at: pinned.at() };
            let mut notes = catalog::records(&mut state)?;
            notes.retain(|(key, _)| !catalog::is_name(key));
            let mut counted = Vec::new();
            for (_, entry) in notes {
                let mut pages = 0;
                listed::each_to_be_freed(&state, &entry, &mut |_: PageId| pages += 1)?;
                counted.push((entry, pages + 1));
            }
            if header.cares_begun.load(Ordering::SeqCst) != begun {
                return Ok(0);
            }
            (pinned.at(), counted)
        };
        let mut freed = 0;
        for (entry, pages) in notes {
            if entry.list.is_none() || self.pages.is_unseen_before(at) {
                self.free_tree(&entry)?;
                freed += pages;
            }
        }
        Ok(freed)
    }
}

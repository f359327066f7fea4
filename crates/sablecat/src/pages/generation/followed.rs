//! What a reader of the last checkpoint knows of it. How it goes on to the next: [`crate::pages::store`].

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Generations;
use crate::error::{Error, Result};
use crate::pages::volume::Volume;
use crate::region::BlockWord;
use crate::types::{Lsn, PageId};

/// What a reader of the last checkpoint knows of it.
#[derive(Debug, Default)]
pub(in crate::pages) struct Following {
    pub(in crate::pages) state: Mutex<FollowedState>,
    /// Held by the thread that goes on to a newer view.
    pub(in crate::pages) turn: Mutex<()>,
}

#[derive(Debug, Default)]
pub(in crate::pages) struct FollowedState {
    /// The generation that the page table is of; none while it is being emptied.
    pub(in crate::pages) view: Option<u64>,
    /// First pages of the map leaves whose pages the page table may know.
    pub(in crate::pages) leaves: HashSet<PageId>,
    /// The LSNs of the checkpoints that somebody may still be reading.
    pub(in crate::pages) lsns: BTreeMap<u64, Lsn>,
}

pub(in crate::pages) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Following {
    /// The generation in force.
    ///
    /// # Errors
    /// `SnapshotTooOld` while another takes its place.
    pub(in crate::pages) fn view(&self) -> Result<u64> {
        lock(&self.state).view.ok_or_else(Error::newer_checkpoint)
    }
}

impl Generations {
    /// Whether this is a reader of the last checkpoint.
    pub(crate) fn is_following(&self) -> bool {
        self.following.is_some()
    }

    /// Has the page table know where the pages of the map leaf over `page` are. The caller looks, when it has
    /// read there, whether that may be believed.
    pub(in crate::pages) fn learn_followed(
        &self,
        volume: &Volume,
        following: &Following,
        page: PageId,
    ) -> Result<()> {
        let span = volume.leaf_span() as u32;
        let view = {
            let mut state = lock(&following.state);
            state.leaves.insert(PageId(page.0 / span * span));
            state.view.ok_or_else(Error::newer_checkpoint)?
        };
        let (first, blocks) = volume.lookup_leaf(page)?;
        let state = lock(&following.state);
        if state.view != Some(view) {
            return Err(Error::newer_checkpoint());
        }
        for (page, block) in self.leaf_pages(volume, first).zip(blocks) {
            self.region.entry(page).learn_block(BlockWord::mapped(block));
        }
        Ok(())
    }

    pub(in crate::pages) fn leaf_pages(
        &self,
        volume: &Volume,
        first: PageId,
    ) -> impl Iterator<Item = PageId> + use<> {
        let end = (u64::from(first.0) + volume.leaf_span()).min(self.region.geometry().pages_max);
        (u64::from(first.0)..end).map(|page| PageId(page as u32))
    }

    /// An error unless everything read so far at `at` may be believed. Without errors unless this is a reader
    /// of checkpoints.
    ///
    /// # Errors
    /// `SnapshotTooOld` if a newer checkpoint has been written; those of reading superblocks.
    pub(crate) fn confirm(&self, at: Lsn) -> Result<()> {
        match (&self.following, &self.volume) {
            (Some(_), Some(volume)) if !volume.is_newest(at.0)? => Err(Error::newer_checkpoint()),
            _ => Ok(()),
        }
    }

    /// The LSN whose state a snapshot pinned at `at` sees.
    pub(crate) fn lsn_of(&self, at: Lsn) -> Lsn {
        match &self.following {
            Some(following) => lock(&following.state).lsns.get(&at.0).copied().unwrap_or_default(),
            None => at,
        }
    }
}

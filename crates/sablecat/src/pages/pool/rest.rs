//! The rest of a run: the pages after its first, which were stored past the pool together with it
//! ([`crate::pages::store`]), as far as frames and entries are concerned.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::Pool;
use crate::error::{Error, Result};
use crate::pages::participants::LocalParticipant;
use crate::region::{BlockWord, EntryWord, FrameState};
use crate::types::{FrameId, PageId};

/// Runs of up to this many pages are kept and read in the pool: about where a write or a read of its own
/// costs less than that many frames.
pub(in crate::pages) const POOLED_MAX: u64 = 16;
/// Freed runs remembered at most; sweeps find those that are forgotten.
const FREED_MAX: usize = 1024;

/// First pages of runs that were freed and may by now be released. Hints: the truth is in the frames, where
/// sweeps find it too.
pub(in crate::pages) type FreedRuns = Mutex<VecDeque<PageId>>;

/// The pages after `first`, `count` of them.
pub(in crate::pages) fn rest_of(first: PageId, count: u64) -> impl Iterator<Item = PageId> {
    (1..=count).map(move |n| PageId((u64::from(first.0) + n) as u32))
}

/// Pages in ascending order as runs of neighbours: the first of each, and how many there are. `goes_on` says
/// whether a page goes on with a run of so many, which ends before it.
pub(crate) fn runs_of(
    pages: impl Iterator<Item = PageId>,
    goes_on: impl Fn(PageId, u64) -> bool,
) -> Vec<(PageId, u64)> {
    let mut runs: Vec<(PageId, u64)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((first, count))
                if u64::from(first.0) + *count == u64::from(page.0) && goes_on(page, *count) =>
            {
                *count += 1;
            }
            _ => runs.push((page, 1)),
        }
    }
    runs
}

impl Pool {
    /// Whether runs of so many pages are stored past the pool.
    pub(crate) fn passes_pool(&self, count: u64) -> bool {
        self.volume.is_some() && count > POOLED_MAX
    }

    /// An error if there cannot be so many pages from `first` on: whatever says so is damaged.
    pub(crate) fn check_run(&self, first: PageId, count: u64) -> Result<()> {
        let end = u64::from(first.0).saturating_add(count);
        if first != PageId::NONE && end <= self.page_ids.high_water() {
            return Ok(());
        }
        Err(Error::corruption(format!("{count} pages from page {first} on run past the last page")))
    }

    /// Drops the frames of the `count` pages after `first`, which nobody can reach any more. False if one of
    /// them is busy.
    pub(in crate::pages) fn drop_rest_frames(
        &self,
        first: PageId,
        count: u64,
        me: &LocalParticipant,
    ) -> bool {
        rest_of(first, count).all(|page| {
            let word = self.region.entry(page).word();
            if word == EntryWord::new(FrameId::NONE, 0) {
                return true;
            }
            // One that it latched when it was a leaf still, and that it has yet to learn is not.
            if word.owner() == me.number() {
                return false;
            }
            let Some(latch) = self.try_hold(page, me) else { return false };
            self.drop_rest_frame(page, latch.current(), me)
        })
    }

    /// Drops the frame of a page that nobody can reach and whose latch `me` holds, if it has one. False if it
    /// is busy.
    fn drop_rest_frame(&self, page: PageId, frame: FrameId, me: &LocalParticipant) -> bool {
        if frame == FrameId::NONE {
            return true;
        }
        let desc = self.region.frame(frame);
        let block = desc.block();
        if block.is_writing() || !desc.change(FrameState::Published, FrameState::Claimed(me.number())) {
            return false;
        }
        let entry = self.region.entry(page);
        entry.set_block(block);
        if entry.change(EntryWord::new(frame, me.number()), EntryWord::new(FrameId::NONE, me.number())) {
            self.retire(frame, me);
        }
        true
    }

    /// Gives back the blocks of the `count` pages after `first`, which nobody can reach. Their ids are for
    /// the caller to give back. May be done again, if a participant dies doing it.
    ///
    /// They may have come into memory, even those that were never published, and since the caller has looked:
    /// a participant that has a handle of a database that was removed looks at what was its root, whatever
    /// that is by now. A frame would be taken for a version of whatever gets the page's number next.
    ///
    /// Their latches are waited for, even by a sweep: only another sweep and a reader of such a page take
    /// them, for a moment. So are frames that a late sweep has claimed. The caller keeps checkpoints out,
    /// unless the pages never belonged to anything published.
    pub(in crate::pages) fn clear_rest(
        &self,
        first: PageId,
        count: u64,
        me: &LocalParticipant,
    ) -> Result<()> {
        for page in rest_of(first, count) {
            let entry = self.region.entry(page);
            let latch = self.hold(page, me)?;
            let mut tries = 0u32;
            while !self.drop_rest_frame(page, latch.current(), me) {
                tries += 1;
                self.try_again(tries);
                self.region.check_fence()?;
            }
            let block = entry.block();
            if block.is_captured() || !block.is_known() {
                // Perhaps the map names the page: the next checkpoint takes it out, and frees the block.
                self.mark_unsaved(page);
            }
            // The word before the block, which is lost rather than freed twice should this process die in
            // between.
            entry.set_block(BlockWord::NOTHING);
            self.forget_block(block);
        }
        Ok(())
    }

    /// Whether the pages after this one were stored past the pool together with it.
    pub(in crate::pages) fn begins_run(&self, page: PageId) -> bool {
        rest_of(page, 1).any(|next| self.is_rest(next))
    }

    /// Whether a page was stored past the pool, together with the one before it. Known at least until a
    /// checkpoint names it.
    pub(crate) fn is_rest(&self, page: PageId) -> bool {
        u64::from(page.0) < self.page_ids.high_water() && self.region.entry(page).block().is_rest()
    }

    /// Remembers that a run was freed, to be released before sweeps come upon it.
    pub(crate) fn note_freed(&self, first: PageId) {
        let mut freed = self.freed_runs.lock().unwrap_or_else(PoisonError::into_inner);
        if freed.len() == FREED_MAX {
            freed.pop_front();
        }
        freed.push_back(first);
    }

    /// Releases the freed runs that no snapshot can see any more, as far as nobody is busy with their pages
    /// and no checkpoint is in progress. The caller has no pages latched.
    pub(crate) fn release_freed(&self, me: &LocalParticipant) {
        let noted = std::mem::take(&mut *self.freed_runs.lock().unwrap_or_else(PoisonError::into_inner));
        if noted.is_empty() {
            return;
        }
        let horizon = self.horizon();
        noted
            .into_iter()
            .filter(|&first| !self.release_if_freed(first, &horizon, me))
            .for_each(|first| self.note_freed(first));
    }
}

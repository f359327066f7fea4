//! Frames and entries for a participant that has the environment to itself, and changes pages in place
//! (pages/visibility/alone.rs). Nobody else is here: nothing is latched, and nothing is pinned.

use super::Pool;
use super::freed::OWN_FREED_MAX;
use crate::error::Result;
use crate::pages::participants::LocalParticipant;
use crate::region::{BlockWord, EntryWord, FrameState, SEARCH_LINES};
use crate::types::{BlockId, FrameId, PageId};

impl Pool {
    /// The frame of a page; none if it is not in memory.
    #[inline]
    pub(in crate::pages) fn resident(&self, page: PageId) -> FrameId {
        self.region.entry(page).word().frame()
    }

    /// Asks the processor to fetch what a search in a frame will look at.
    #[inline]
    pub(in crate::pages) fn prefetch(&self, frame: FrameId) {
        self.region.prefetch(frame, SEARCH_LINES);
    }

    /// Takes the block from the version in a frame, which is to be changed.
    pub(in crate::pages) fn take_off_block(&self, frame: FrameId) {
        let desc = self.region.frame(frame);
        let block = desc.block();
        self.forget_block(block);
        desc.set_block(block.dropped());
    }

    /// Whether the version in a frame is on no block.
    #[inline]
    pub(in crate::pages) fn is_off_block(&self, frame: FrameId) -> bool {
        self.region.frame(frame).block().block() == BlockId::NONE
    }

    /// Has a page's entry name its first version.
    pub(in crate::pages) fn place_first(&self, page: PageId, frame: FrameId) {
        self.region.frame(frame).set_state(FrameState::Published);
        let entry = self.region.entry(page);
        let changed = entry.change(entry.word(), EntryWord::new(frame, 0));
        debug_assert!(changed, "nobody else is here");
        self.mark_unsaved(page);
    }

    /// Frees a page, and the block and the frame of its version, which `me` uses next.
    ///
    /// # Errors
    /// Those of reading where it is.
    pub(in crate::pages) fn free_page(&self, page: PageId, me: &LocalParticipant) -> Result<()> {
        let entry = self.region.entry(page);
        let frame = entry.word().frame();
        if frame == FrameId::NONE {
            self.learn_block(page)?;
            self.forget_block(entry.block());
        } else {
            self.forget_block(self.region.frame(frame).block());
            self.region.frame(frame).set_state(FrameState::Free);
            let changed = entry.change(entry.word(), EntryWord::new(FrameId::NONE, 0));
            debug_assert!(changed, "nobody else is here");
            // One that only removes needs none: the sweep of another finds them.
            if me.free.borrow().len() < OWN_FREED_MAX {
                me.free.borrow_mut().push(frame);
            }
        }
        entry.set_block(BlockWord::NOTHING);
        self.mark_unsaved(page);
        self.release_page(page);
        Ok(())
    }
}

//! Mending: what a dead participant left half done to pages and frames. The order of the steps, and what
//! calls them: txn/mending/reap.rs.
//!
//! Several may mend the same at once, and any of them be stopped between two instructions for as long as it
//! likes. So nothing is looked at and then stored: each word that names the dead is changed by
//! compare-and-swap, into one that does not, and what hangs on it is done by the participant that changed it,
//! and nobody else. The words cannot come to be the same again: the dead's number is not given away as long
//! as anybody mends.
//!
//! New versions of a commit that was cut off between their publication and the commit point are left alone:
//! nothing refers to them, and a sweep that comes by finds out (sweep.rs, `sweep_orphan`). To take them back
//! here would be a guess: the dead's list may be old, and the frame be another page's by now.

use sablecat_os::atomic::Ordering;

use super::Pool;
use crate::pages::participants::LocalParticipant;
use crate::region::{EntryWord, FrameState, ListItem, WRITTEN_QUEUE};
use crate::types::{FrameId, PageId};

impl Pool {
    /// Ends all latches of the participant that was in slot `dead`. `list` is what it had listed for a commit
    /// that did not happen; where it says nonsense (it may have been half written) nothing comes of it.
    pub(crate) fn unlatch_all_of(&self, dead: u16, list: &[ListItem]) {
        for item in list
            .iter()
            .filter(|item| u64::from(item.page.0) < self.page_ids.high_water() && item.new != FrameId::NONE)
        {
            // An id that was allocated for this commit. A run's stay together, since its rest is known by
            // where it is.
            let is_new = item.old == FrameId::NONE && !self.begins_run(item.page);
            // Still latched over the version it was latched over: not published. (Published, the entry would
            // have been swung.)
            if self.end_latch(item.page, EntryWord::new(item.old, dead)) && is_new {
                self.release_page(item.page);
            }
        }
        // What is latched without being listed: to be read in, evicted, captured, or looked at.
        for page in (1..self.page_ids.high_water().min(self.region.geometry().pages_max))
            .map(|page| PageId(page as u32))
        {
            let word = self.region.entry(page).word();
            if word.owner() == dead {
                self.end_latch(page, word);
            }
        }
    }

    /// Ends a latch of the dead: by whatever it was going to do, the version named is whole. True for the
    /// participant that has ended it.
    fn end_latch(&self, page: PageId, word: EntryWord) -> bool {
        !self.region.is_fenced()
            && self.region.entry(page).word() == word
            && self.swing(page, word, EntryWord::new(word.frame(), 0))
    }

    /// Ends what the dead participant had begun with frames: those it was building are free, those it had
    /// claimed are what they were, and those it was writing are on no block. Its latches have been ended.
    pub(crate) fn free_frames_of(&self, dead: u16, me: &LocalParticipant) {
        let (building, claimed) = (FrameState::Building(dead), FrameState::Claimed(dead));
        let mut was_writing = false;
        for frame in
            (1..self.region.header().frames_ready.0.load(Ordering::SeqCst)).map(|frame| FrameId(frame as u32))
        {
            let desc = self.region.frame(frame);
            let (state, block) = (desc.state(), desc.block());
            // In whatever state: a sweep may have claimed it for a moment, and puts it back when it sees that
            // it is being written.
            let is_writing = block.is_writing() && block.writer() == dead;
            if state != building && state != claimed && !is_writing || self.region.is_fenced() {
                continue;
            }
            // A version that it had out of its chain already is one that nobody wants, and is reclaimed when
            // nobody can.
            desc.change(claimed, FrameState::Published);
            if desc.change(building, FrameState::Building(me.number())) {
                // Retired, not free: it may have been on its way there, and operations in progress may be
                // looking at it.
                self.retire(frame, me);
            }
            if is_writing && desc.change_block(block, block.dropped()) {
                // Whether it was written nobody knows. The next one writes it to another block.
                self.blocks.release(block.block());
                was_writing = true;
            }
        }
        if was_writing {
            self.region.queue(WRITTEN_QUEUE).wake();
        }
    }
}

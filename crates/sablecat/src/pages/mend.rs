//! Mending: what a dead participant left half done to pages and frames. The order of the steps, and who calls them: txn/reap.rs.

use sablecat_os::atomic::Ordering;

use super::{Pages, Participant};
use crate::region::{EntryWord, FrameState, ListItem};
use crate::types::{FrameId, Lsn, PageId};

impl Pages {
    /// Ends all latches of the participant that was in slot `dead`. `list` is what it had listed for a commit that did not happen; where it
    /// says nonsense (it may have been half written) nothing comes of it.
    pub(crate) fn unlatch_all_of(&self, dead: u16, list: &[ListItem]) {
        for item in list.iter().filter(|item| u64::from(item.page.0) < self.page_ids.high_water()) {
            // Still latched over the version it was latched over: not published. (Published, the entry would have been swung.)
            if self.region.entry(item.page).word() == EntryWord::new(item.old, dead) && item.new != FrameId::NONE {
                self.claim_unpublished(*item, dead);
                self.end_latch(item.page, dead);
                if item.old == FrameId::NONE && !self.begins_run(item.page) {
                    // An id that was allocated for this commit. A run's stay together, since its rest is known by where it is.
                    self.release_page(item.page);
                }
            }
        }
        // What is latched without being listed: to be read in, evicted, captured, or looked at.
        for page in (1..self.page_ids.high_water().min(self.region.geometry().pages_max)).map(|page| PageId(page as u32)) {
            if self.region.entry(page).word().owner() == dead {
                self.end_latch(page, dead);
            }
        }
    }

    /// Takes back the state of a new version that the commit step had set to published before it was cut off: nothing refers to it.
    fn claim_unpublished(&self, item: ListItem, dead: u16) {
        if (item.new.0 as usize) < self.region.geometry().frames {
            let desc = self.region.frame(item.new);
            if desc.page() == item.page && desc.superseded() == Lsn::MAX && desc.previous() == item.old {
                desc.change(FrameState::Published, FrameState::Building(dead));
            }
        }
    }

    fn end_latch(&self, page: PageId, dead: u16) {
        let word = self.region.entry(page).word();
        if word.owner() != dead {
            return;
        }
        let frame = word.frame();
        if frame != FrameId::NONE {
            // Claimed to be evicted, but still the current version.
            let desc = self.region.frame(frame);
            if desc.page() == page {
                desc.change(FrameState::Building(dead), FrameState::Published);
            }
        }
        self.swing(page, word, EntryWord::new(frame, 0));
    }

    /// Frees the frames that the dead participant was building, and ends the writes it had begun. False if some must wait for a latch. Its
    /// latches have been ended.
    pub(crate) fn free_frames_of(&self, dead: u16, me: &Participant) -> bool {
        let mut done = true;
        for frame in (1..self.region.header().frames_ready.0.load(Ordering::SeqCst)).map(|frame| FrameId(frame as u32)) {
            let desc = self.region.frame(frame);
            if desc.state() == FrameState::Building(dead) {
                done &= self.free_built(frame, me);
            }
            let block = desc.block();
            // In whatever state: a sweep may have claimed it for a moment, and puts it back when it sees that it is being written.
            if block.is_writing() && block.writer() == dead {
                // Whether it was written nobody knows. The next one writes it to another block.
                desc.set_block(block.dropped());
                self.blocks.release(block.block());
            }
        }
        done
    }

    /// Frees a frame that was being built, or that was claimed in order to be reclaimed. An old version that was to be taken out of the middle
    /// of its page's chain, and is still in it, goes back: readers need what hangs behind it.
    fn free_built(&self, frame: FrameId, me: &Participant) -> bool {
        let desc = self.region.frame(frame);
        let page = desc.page();
        let old = desc.superseded() != Lsn::MAX && page != PageId::NONE && u64::from(page.0) < self.region.geometry().pages_max;
        // It may have been the current version until a moment ago, and operations in progress may be looking at it: hence retired, not free.
        if !old {
            self.retire(frame);
            return true;
        }
        let Some(mut at) = self.try_latch(page, me) else { return false };
        while at != FrameId::NONE && at != frame {
            let (newer, born) = (self.region.frame(at), Lsn(self.region.born(at).load(Ordering::Acquire)));
            at = newer.previous();
            // Others may be claimed as well, so their states say nothing here; but a chain goes back in time. (A frame behind its end may have
            // been used again, for this page even, and lead round in a circle.)
            let older = at == frame || self.region.born(at).load(Ordering::Acquire) < born.0;
            if at != FrameId::NONE && (self.region.frame(at).page() != page || self.region.frame(at).superseded() > born || !older) {
                at = FrameId::NONE;
            }
        }
        if at == frame {
            desc.set_state(FrameState::Published)
        } else {
            self.retire(frame)
        }
        self.unlatch(page, me);
        true
    }
}

//! Pages that were freed, whose last versions say so: what these keep in use comes back once nobody can see
//! the time before.
//!
//! A sweep comes upon them as upon other versions. But frames that nobody has used go first, as long as there
//! are some, and cost a page fault each: where records come and go, the memory of the whole cache would be
//! touched. So a participant that needs frames looks for those of the pages first that it has freed itself.

use super::Pool;
use super::sweep::{Evict, Round, SweptFrame};
use crate::pages::header;
use crate::pages::participants::LocalParticipant;
use crate::pages::participants::horizon::Horizon;
use crate::region::FrameState;
use crate::types::{FrameId, Lsn, PageId};

/// So many freed pages a participant remembers, or frames of such.
pub(super) const OWN_FREED_MAX: usize = 1 << 16;

/// What became of a page that was freed.
enum FreedPage {
    /// Its last version has ended, in this frame.
    Ended(FrameId),
    /// It had before.
    Gone,
    /// Somebody may see what it was, or is busy with it.
    Kept,
}

impl Pool {
    /// Takes the frames of pages that `me` has freed and nobody can see any more, until `want` are at hand:
    /// before those that nobody has used, whose memory the system would have to find and clear.
    pub(super) fn take_freed(&self, me: &LocalParticipant, want: usize) {
        if me.freed.borrow().is_empty() {
            return;
        }
        let horizon = self.horizon();
        while me.free.borrow().len() + me.retired.borrow().len() < want {
            let Some(page) = me.freed.borrow_mut().pop_front() else { break };
            match self.end_freed(page, &horizon, me) {
                FreedPage::Ended(frame) => me.retired.borrow_mut().push_back(frame),
                FreedPage::Gone => {}
                FreedPage::Kept => {
                    me.freed.borrow_mut().push_back(page);
                    break;
                }
            }
        }
        self.take_retired(&me.retired, &mut Round::default(), me);
        self.keep_last(me);
    }

    /// Remembers that `me` has freed pages, to use their frames again. What there are too many of is left to
    /// the sweep.
    pub(crate) fn note_own_freed(&self, pages: impl Iterator<Item = PageId>, me: &LocalParticipant) {
        let mut freed = me.freed.borrow_mut();
        freed.extend(pages);
        let over = freed.len().saturating_sub(OWN_FREED_MAX);
        freed.drain(..over);
    }

    /// Releases the run that begins with `first` if it is free and no snapshot can see the time before.
    /// False: not yet, or its pages are busy.
    pub(in crate::pages) fn release_if_freed(
        &self,
        first: PageId,
        horizon: &Horizon,
        me: &LocalParticipant,
    ) -> bool {
        !matches!(self.end_freed(first, horizon, me), FreedPage::Kept)
    }

    /// The same, saying which frame is retired.
    fn end_freed(&self, first: PageId, horizon: &Horizon, me: &LocalParticipant) -> FreedPage {
        if self.region.entry(first).word().owner() == me.number() {
            return FreedPage::Kept;
        }
        let _hand = me.in_hand();
        let Some(latch) = self.try_hold(first, me) else { return FreedPage::Kept };
        let frame = latch.current();
        // SAFETY: the page is latched and this is its current version, which only its latch's holder could
        // supersede.
        let is_last = frame != FrameId::NONE && header::is_free(unsafe { self.region.page(frame) });
        if is_last
            && matches!(self.evict_latched(first, frame, horizon, Evict::Saved, me), Ok(SweptFrame::Retired))
        {
            self.leave_pool(first, frame, me);
            latch.swung();
            return FreedPage::Ended(frame);
        }
        if is_last { FreedPage::Kept } else { FreedPage::Gone }
    }

    /// Gives back what versions in memory keep in use that nobody can want any more: the blocks of old ones,
    /// and by their last ones the pages that are free. The caller is in no operation, and pinned to nothing.
    pub(crate) fn release_unwanted(&self, me: &LocalParticipant) {
        let horizon = self.horizon();
        for frame in (1..=self.frames_ready()).map(|frame| FrameId(frame as u32)) {
            let desc = self.region.frame(frame);
            // Hints: looked at again once the frame is claimed, or its page latched.
            let (state, page, superseded) = (desc.state(), desc.page(), desc.superseded());
            if state != FrameState::Published {
            } else if superseded != Lsn::MAX {
                if superseded <= horizon.of(page) {
                    self.reclaim(frame, &horizon, me);
                }
            } else if self.region.entry(page).word().frame() == frame {
                self.release_if_freed(page, &horizon, me);
            }
        }
    }
}

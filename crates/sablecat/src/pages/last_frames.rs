//! The last frames of an environment in memory alone: kept for those who remove.
//!
//! A removal needs new versions as any commit does, for moments: the old ones are free once nobody sees them. Where nothing can be evicted, whoever inserts
//! takes every frame there is, and then nobody could remove anything any more. So some frames are kept, before anybody else gets one; when there is no other,
//! commits that only remove may use them. What becomes free is kept first.
//!
//! A frame is kept if it is being built by nobody, slot 0; that it counts is decided by its state alone. The header has a list of such frames, where they
//! are looked for: a place is filled before the frame's state is changed, so whoever dies in between leaves a place that says nothing, and no frame is lost.
//!
//! Costs: nothing, before frames run short; then a look at the list each time that frames are swept for.

use sablecat_os::atomic::{AtomicU32, Ordering};

use super::{Pages, Participant};
use crate::region::{FrameState, LAST_FRAMES_MAX};
use crate::types::FrameId;

/// The state of a frame that is kept.
pub(super) const KEPT: FrameState = FrameState::Building(0);
/// The part of the pool that is kept, of small pools.
const LAST_PART: usize = 8;

impl Pages {
    /// How many are to be kept.
    fn last_frames(&self) -> usize {
        if self.volume.is_some() { 0 } else { (self.region.geometry().frames / LAST_PART).min(LAST_FRAMES_MAX) }
    }

    /// Keeps free frames that `me` has at hand, as long as too few are kept.
    pub(super) fn keep_last(&self, me: &Participant) {
        let mut short = false;
        for place in &self.region.header().last_frames.0[..self.last_frames()] {
            // Acquire: pairs with the Release below; the frame's state decides.
            let was = place.load(Ordering::Acquire);
            if self.is_kept(FrameId(was)) {
                continue;
            }
            short = !self.keep_one(was, place, me);
            if short {
                break;
            }
        }
        me.owes.set(short);
    }

    /// Fills a place of the list that says `was`, which means nothing any more. False if no free frame is at hand.
    fn keep_one(&self, was: u32, place: &AtomicU32, me: &Participant) -> bool {
        loop {
            let Some(frame) = me.free.borrow_mut().pop() else { return false };
            if place.compare_exchange(was, frame.0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                // Somebody else has filled it.
                me.free.borrow_mut().push(frame);
                return true;
            }
            if self.region.frame(frame).change(FrameState::Free, KEPT) {
                return true;
            }
            // It was free when last seen. Nobody but this one fills the place as long as it says this frame, or else what the other fills it with is good.
            if place.compare_exchange(frame.0, was, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return true;
            }
        }
    }

    fn is_kept(&self, frame: FrameId) -> bool {
        frame != FrameId::NONE && (frame.0 as usize) < self.region.geometry().frames && self.region.frame(frame).state() == KEPT
    }

    /// One of the last frames, being built by `me` from now on; none if none is left. For who removes, when there is no other.
    #[cold]
    pub(crate) fn take_last(&self, me: &Participant) -> Option<FrameId> {
        let building = FrameState::Building(me.number());
        let (place, taken) = self.region.header().last_frames.0[..self.last_frames()].iter().find_map(|place| {
            let frame = FrameId(place.load(Ordering::Acquire));
            (self.is_kept(frame) && self.region.frame(frame).change(KEPT, building)).then_some((place, frame))
        })?;
        // Left as it is it would count again when the frame is kept in another place.
        let _ = place.compare_exchange(taken.0, FrameId::NONE.0, Ordering::AcqRel, Ordering::Relaxed);
        if self.region.is_fenced() {
            // Unless it was found, mended, and is another's.
            self.region.frame(taken).change(building, FrameState::Free);
            return None;
        }
        me.owes.set(true);
        Some(taken)
    }
}

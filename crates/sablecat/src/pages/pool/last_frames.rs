//! The last frames of an environment in memory alone: kept for participants that remove.
//!
//! A removal needs new versions as any commit does, for moments: the old ones are free once nobody sees them.
//! Where nothing can be evicted, participants that insert take every frame there is, and then nobody could
//! remove anything any more. So some frames are kept before anybody else gets one; when there is no other,
//! commits that only remove use them. Whatever becomes free is kept first, until there are as many again.
//!
//! Such an environment is one process's, so the list of them is in its own memory. A frame that is kept is
//! being *built* by slot 0, which nobody has: no sweep takes it for free, and no reaper for left.
//!
//! Costs: nothing while a participant has frames at hand; then a look at the list each time that it sweeps
//! for some.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Pool;
use crate::error::Result;
use crate::pages::participants::LocalParticipant;
use crate::region::{FrameState, Region};
use crate::types::FrameId;

/// The state of a frame that is kept.
pub(in crate::pages) const KEPT: FrameState = FrameState::Building(0);
/// The part of the pool that is kept, and how many frames at most: a step of freeing a tree changes half of
/// that part (txn/trees/making.rs), a single removal some pages.
const PART: usize = 8;
const MOST: usize = 80;

/// The frames that are kept.
#[derive(Debug)]
pub(in crate::pages) struct LastFrames {
    /// So many are to be.
    wanted: usize,
    kept: Mutex<KeptFrames>,
}

#[derive(Debug, Default)]
struct KeptFrames {
    frames: Vec<FrameId>,
    /// There was no other the last time that anybody looked.
    is_full: bool,
}

impl LastFrames {
    /// None are kept where pages can be evicted, or where the frames are those of several processes.
    pub(in crate::pages) fn of(region: &Region, has_volume: bool) -> LastFrames {
        let is_alone = !has_volume && region.membership().is_none();
        LastFrames {
            wanted: if is_alone { (region.geometry().frames / PART).min(MOST) } else { 0 },
            kept: Mutex::default(),
        }
    }

    /// The list. Nothing shared is touched while one has it, so that it is never waited for.
    fn kept(&self) -> MutexGuard<'_, KeptFrames> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_all_kept(&self) -> bool {
        self.kept().frames.len() >= self.wanted
    }
}

impl Pool {
    /// Keeps free frames that `me` has at hand, as long as too few are kept; not while it removes.
    pub(super) fn keep_last(&self, me: &LocalParticipant) {
        let last = &self.last_frames;
        if last.wanted == 0 || me.removes.get() {
            return;
        }
        while !last.are_all_kept() {
            let Some(frame) = me.free.borrow_mut().pop() else {
                me.owes.set(true);
                return;
            };
            if !self.region.frame(frame).change(FrameState::Free, KEPT) {
                // It was free when last seen.
                continue;
            }
            let mut kept = last.kept();
            if kept.frames.len() < last.wanted {
                kept.frames.push(frame);
            } else {
                // Others have kept some meanwhile.
                drop(kept);
                self.region.frame(frame).set_state(FrameState::Free);
                me.free.borrow_mut().push(frame);
            }
        }
        me.owes.set(false);
    }

    /// Whether a participant that removes is to use the last frames rather than take anything from others.
    pub(in crate::pages) fn has_last(&self, me: &LocalParticipant) -> bool {
        me.removes.get() && {
            let mut kept = self.last_frames.kept();
            kept.is_full |= !kept.frames.is_empty();
            !kept.frames.is_empty()
        }
    }

    /// A participant that looked for frames has found some.
    pub(in crate::pages) fn note_not_full(&self) {
        if self.last_frames.wanted > 0 {
            self.last_frames.kept().is_full = false;
        }
    }

    /// A frame for a participant that removes and has none at hand, in state building: one of the last, if
    /// there are no others.
    ///
    /// # Errors
    /// Those of sweeping for frames.
    #[cold]
    pub(super) fn frame_to_remove(&self, me: &LocalParticipant) -> Result<FrameId> {
        loop {
            me.owes.set(self.last_frames.wanted > 0);
            let last = {
                let mut kept = self.last_frames.kept();
                if kept.is_full { kept.frames.pop() } else { None }
            };
            if let Some(frame) = last {
                // On the list it was nobody else's.
                self.region.frame(frame).set_state(FrameState::Building(me.number()));
                self.touch(frame);
                return Ok(frame);
            }
            match self.with_frames(me, || self.take_frame(me)) {
                // There are no others, and were some of the last.
                Err(error) if error.is_out_of_frames() => {}
                taken => return taken,
            }
        }
    }
}

//! Frames: taking them, giving them back, reclaiming superseded versions.
//!
//! A committer's own superseded frames come back to it first, still warm in its processor's cache. When they
//! do not suffice, a sweep over the pool finds others (`sweep.rs`).
//!
//! A pin holds back all that is superseded while it lasts, some microseconds if its owner runs; but if the
//! owner lost the processor meanwhile, as many frames as the others supersede until it is their turn to wait:
//! with eight processes on two processors some ten thousand, too many for any cache. So a participant that
//! sees [`PATIENCE`] frames held back gives up the processor as soon as it has no pin itself. The owner of
//! the pin comes to run, and soon nobody loses the processor but at such a moment ([decision
//! 16](../../../../../docs/decisions/0016-giving-way.md)).
//!
//! Costs: taking a remembered frame 5 ns; reclaiming an own one 15 ns and a scan of the slots a batch of
//! [`LIMBO_BATCH`].

use super::Pool;
use sablecat_os::atomic::Ordering;

use crate::error::{Error, Result};
use crate::pages::participants::horizon::Horizon;
use crate::pages::participants::{LocalParticipant, PATIENCE};
use crate::region::{FrameDesc, FrameState};
use crate::types::{BlockId, FrameId, Lsn};

/// Own superseded frames that are looked at together.
pub(in crate::pages) const LIMBO_BATCH: usize = 8;
/// Frames an operation wants at hand before it begins, once the pool is under pressure: a path from a root to
/// a leaf, and some.
pub(in crate::pages) const FRAMES_WANTED: usize = 16;
/// Own superseded frames that are remembered: those of a few large commits.
const LIMBO_MAX: usize = 4096;

impl Pool {
    /// A frame in state building, owned by `me`. Inside an operation: fails with "out of frames" rather than
    /// sweep.
    #[inline]
    pub(crate) fn take_frame(&self, me: &LocalParticipant) -> Result<FrameId> {
        let building = FrameState::Building(me.number());
        loop {
            let Some(frame) = me.free.borrow_mut().pop() else {
                if self.reclaim_own(me) {
                    continue;
                }
                return Err(Error::out_of_frames());
            };
            if self.region.frame(frame).change(FrameState::Free, building) {
                if let Err(error) = self.region.check_fence() {
                    // Unless it was found, mended, and is another's.
                    self.region.frame(frame).change(building, FrameState::Free);
                    return Err(error);
                }
                // What is about to come into it is in use.
                self.touch(frame);
                return Ok(frame);
            }
        }
    }

    /// Gives back a frame that `me` was building.
    pub(in crate::pages) fn drop_frame(&self, frame: FrameId, me: &LocalParticipant) {
        if self.region.is_fenced() {
            return;
        }
        debug_assert_eq!(self.region.frame(frame).state(), FrameState::Building(me.number()));
        self.region.frame(frame).set_state(FrameState::Free);
        me.free.borrow_mut().push(frame);
    }

    /// Remembers that `me` superseded `frame` at `at`, and reclaims such frames after every batch.
    #[inline]
    pub(in crate::pages) fn superseded(&self, frame: FrameId, at: Lsn, me: &LocalParticipant) {
        let full = {
            let mut limbo = me.limbo.borrow_mut();
            limbo.push_back((frame, at));
            limbo.len().is_multiple_of(LIMBO_BATCH)
        };
        if full {
            self.reclaim_own(me);
        }
    }

    /// Frees what it can of the frames that `me` superseded; true if anything.
    pub(in crate::pages) fn reclaim_own(&self, me: &LocalParticipant) -> bool {
        let mut limbo = me.limbo.borrow_mut();
        if limbo.is_empty() {
            return false;
        }
        let horizon = self.horizon();
        let mut freed = false;
        while let Some(&(frame, at)) = limbo.front() {
            if at > horizon.all() {
                break;
            }
            limbo.pop_front();
            // Another sweep may have been here first: then the frame is no longer this version.
            if self.region.frame(frame).superseded() == at && self.reclaim(frame, &horizon, me) {
                me.free.borrow_mut().push(frame);
                freed = true;
            }
        }
        // What a long-lived snapshot holds back is left to the sweep.
        let over = limbo.len().saturating_sub(LIMBO_MAX);
        limbo.drain(..over);
        if freed && me.owes.get() {
            self.keep_last(me);
        }
        if freed {
            me.patience.set(limbo.len() + PATIENCE);
        } else if limbo.len() >= me.patience.get() {
            // Not again for the same frames: the pin may be that of a long transaction.
            me.patience.set(limbo.len() + PATIENCE);
            me.crowded.set(true);
        }
        freed
    }

    /// Frees a published version that was superseded at or below `horizon`.
    pub(in crate::pages) fn reclaim(&self, frame: FrameId, horizon: &Horizon, me: &LocalParticipant) -> bool {
        let desc = self.region.frame(frame);
        if !desc.change(FrameState::Published, FrameState::Claimed(me.number())) {
            return false;
        }
        // Claimed; now look again, since the frame may have been freed and published anew between the
        // caller's look and the claim.
        let block = desc.block();
        if desc.superseded() > horizon.of(desc.page()) || block.is_writing() {
            desc.set_state(FrameState::Published);
            return false;
        }
        // Should this process die after that, the frame is published again as what it was
        // (pages/pool/mend.rs), and reclaimed a second time.
        self.drop_block(desc, me);
        desc.set_state(FrameState::Free);
        true
    }

    /// Frees the block of a claimed version that is gone. The word first: what dies with this process is
    /// lost, rather than freed twice.
    pub(in crate::pages) fn drop_block(&self, desc: &FrameDesc, me: &LocalParticipant) {
        let block = desc.block();
        let _hand = (block.block() != BlockId::NONE && !block.is_captured()).then(|| me.in_hand());
        desc.set_block(block.dropped());
        self.forget_block(block);
    }

    /// As [`operate`](crate::pages::visibility), for work that begins no operation: it may hold latches.
    #[inline]
    pub(crate) fn with_frames<T>(
        &self,
        me: &LocalParticipant,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut least = 1;
        loop {
            match work() {
                Err(error) if error.is_out_of_frames() => self.refill(me, FRAMES_WANTED, least)?,
                result => return result,
            }
            // The few frames that come cheap may be those of the pages that the work is about to visit.
            least = FRAMES_WANTED;
        }
    }

    /// True once the pool has had to evict.
    #[inline]
    pub(crate) fn under_pressure(&self) -> bool {
        self.region.header().pressure.0.load(Ordering::Relaxed) != 0
    }

    /// Marks a frame as lately used, for the clock; free while the pool holds everything.
    #[inline]
    pub(in crate::pages) fn touch(&self, frame: FrameId) {
        use Ordering::Relaxed;
        if self.region.header().pressure.0.load(Relaxed) != 0 {
            let byte = self.region.referenced(frame);
            if byte.load(Relaxed) == 0 {
                byte.store(1, Relaxed);
            }
        }
    }
}

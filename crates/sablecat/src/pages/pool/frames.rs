//! Frames: taking them, giving them back, reclaiming superseded versions.
//!
//! A committer's own superseded frames come back to it first, still warm in its processor's cache. When they
//! do not suffice, a sweep over the pool finds others (`sweep.rs`).
//!
//! A snapshot that lasts, a checkpoint's for one, wants one version of each page. What is superseded later is
//! wanted by nobody soon, and is taken out of the middle of its chain: so committers go on in the same few
//! frames. What the snapshot does want is remembered, and comes back when it has ended ([decision
//! 82](../../../../../docs/decisions/0082-between-snapshots.md)).
//!
//! A pin holds back all that is superseded while it lasts, some microseconds if its owner runs; but if the
//! owner lost the processor meanwhile, as many frames as the others supersede until it is their turn to wait:
//! with eight processes on two processors some ten thousand, too many for any cache. So a participant that
//! sees [`PATIENCE`] frames held back gives up the processor as soon as it has no pin itself. The owner of
//! the pin comes to run, and soon nobody loses the processor but at such a moment ([decision
//! 16](../../../../../docs/decisions/0016-giving-way.md)).
//!
//! Costs: taking a remembered frame 5 ns; reclaiming an own one 15 ns and a scan of the slots a batch of
//! [`LIMBO_BATCH`]. One out of the middle of a chain: a scan of the slots and a latch for itself.

use super::Pool;
use super::sweep::Round;
use sablecat_os::atomic::Ordering;

use crate::error::{Error, Result};
use crate::pages::participants::horizon::Horizon;
use crate::pages::participants::{LocalParticipant, PATIENCE, Superseded};
use crate::region::{FrameDesc, FrameState};
use crate::types::{BlockId, FrameId, Lsn};

/// Own superseded frames that are looked at together.
pub(in crate::pages) const LIMBO_BATCH: usize = 8;
/// Frames an operation wants at hand before it begins, once the pool is under pressure: a path from a root to
/// a leaf, and some.
pub(in crate::pages) const FRAMES_WANTED: usize = 16;
/// Own superseded frames that are freed together at most, lest a commit waits for all that a long snapshot
/// has held back.
const FREED_MAX: usize = 256;
/// When more own superseded frames than these are held back they are looked at one by one. A thread that
/// waits for the processor holds back what the others supersede meanwhile, in some milliseconds: that comes
/// back by itself, all together.
const LIMBO_MAX: usize = 2048;
/// Own superseded frames that a snapshot wants, and that are remembered: a megabyte says which.
const WANTED_MAX: usize = 65_536;
/// After so many that were held back others are not given the processor any more.
const CROWD_MAX: usize = 4096;

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
        me.limbo.borrow_mut().push_back(Superseded { frame, at });
        let held_back = me.held_back.get() + 1;
        me.held_back.set(held_back);
        // A pin that stays is that of a long transaction.
        if held_back.is_multiple_of(LIMBO_BATCH)
            && !self.reclaim_own(me)
            && held_back.is_multiple_of(PATIENCE)
            && held_back <= CROWD_MAX
        {
            me.crowded.set(true);
        }
    }

    /// Frees what it can of the frames that `me` superseded; true if the oldest are held back no longer.
    pub(in crate::pages) fn reclaim_own(&self, me: &LocalParticipant) -> bool {
        if me.limbo.borrow().is_empty() && me.wanted.borrow().is_empty() {
            return false;
        }
        let horizon = self.horizon();
        let mut freed = false;
        for queue in [&me.wanted, &me.limbo] {
            let (mut queue, mut free) = (queue.borrow_mut(), me.free.borrow_mut());
            let most = free.len() + FREED_MAX;
            while free.len() < most
                && let Some(&Superseded { frame, at }) = queue.front()
                && (at <= horizon.all() || at <= horizon.of(self.region.frame(frame).page()))
            {
                queue.pop_front();
                // Another sweep may have been here first: then the frame is no longer this version.
                if self.region.frame(frame).superseded() == at && self.reclaim(frame, &horizon, me) {
                    free.push(frame);
                    freed = true;
                }
            }
        }
        if freed {
            me.held_back.set(0);
        }
        if me.limbo.borrow().len() > LIMBO_MAX {
            self.reclaim_between(&horizon, me);
        }
        if freed && me.owes.get() {
            self.keep_last(me);
        }
        freed
    }

    /// Of the frames that `me` superseded, and that a snapshot which lasts holds back, frees those that it
    /// does not want, and puts the others aside: the oldest, until few enough are left.
    #[cold]
    fn reclaim_between(&self, horizon: &Horizon, me: &LocalParticipant) {
        let (mut limbo, mut wanted) = (me.limbo.borrow_mut(), me.wanted.borrow_mut());
        let _hand = me.in_hand();
        while limbo.len() > LIMBO_MAX
            && let Some(one @ Superseded { frame, at }) = limbo.pop_front()
        {
            let desc = self.region.frame(frame);
            // Otherwise another sweep was here first, or is.
            if desc.state() != FrameState::Published || desc.superseded() != at {
            } else if at <= horizon.of(desc.page()) && self.reclaim(frame, horizon, me) {
                me.free.borrow_mut().push(frame);
            } else if self.take_between(frame, at, me) {
                me.retired.borrow_mut().push_back(frame);
            } else {
                wanted.push_back(one);
            }
        }
        // What more there is is left to the sweep.
        let over = wanted.len().saturating_sub(WANTED_MAX);
        wanted.drain(..over);
        self.take_retired(me, &mut Round::default());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::participants::hand::pretend;
    use crate::pages::tests::{commit, pool, read};
    use crate::types::PageId;

    /// So many pages, each with a version, and what it says.
    fn some_pages(pages: &crate::pages::Pages, many: usize, me: &LocalParticipant) -> Vec<PageId> {
        let page = |stamp| {
            let page = pretend(|| pages.allocate_page().unwrap());
            commit(pages, page, Some(stamp), me).unwrap();
            page
        };
        (0..many as u64).map(page).collect()
    }

    /// What is superseded after the version that a snapshot wants comes back while that lasts.
    #[test]
    fn a_snapshot_that_lasts_keeps_one_version_of_each_page() {
        const PAGES: usize = 20;
        let pages = pool(8192);
        let (writer, reader) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
        let all = some_pages(&pages, PAGES, &writer);
        let at = pages.pin(&reader);
        for stamp in 1..=300 {
            all.iter().for_each(|&page| _ = commit(&pages, page, Some(1000 * stamp), &writer).unwrap());
        }
        let census = pages.census();
        assert!(census.old + census.retired <= PAGES + LIMBO_MAX + 2 * LIMBO_BATCH, "{census:?}");
        for (stamp, page) in (0..).zip(&all) {
            assert_eq!(read(&pages, page.0, at, &reader).unwrap(), stamp);
        }
        reader.slot().unpin();
    }

    /// Versions that a snapshot wanted come back to the participant that superseded them when it has ended,
    /// some at each commit.
    #[test]
    fn what_a_snapshot_wanted_comes_back_when_it_has_ended() {
        const PAGES: usize = 600;
        let pages = pool(2048);
        let (writer, reader) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
        let all = some_pages(&pages, PAGES, &writer);
        let at = pages.pin(&reader);
        all.iter().for_each(|&page| _ = commit(&pages, page, Some(1000), &writer).unwrap());
        assert_eq!(pages.census().old, PAGES);
        assert_eq!(read(&pages, all[PAGES - 1].0, at, &reader).unwrap(), PAGES as u64 - 1);
        reader.slot().unpin();
        let held_back = |times| {
            (0..times).for_each(|_| _ = commit(&pages, all[0], Some(2000), &writer).unwrap());
            pages.census().old
        };
        assert!((1..PAGES).contains(&held_back(LIMBO_BATCH)), "some of them");
        assert!(held_back(PAGES) <= LIMBO_BATCH, "all of them");
    }
}

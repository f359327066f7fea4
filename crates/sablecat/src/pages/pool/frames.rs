//! Frames: taking them, giving them back, reclaiming superseded versions.
//!
//! A committer's own superseded frames come back to it first, still warm in its processor's cache. When they
//! do not suffice, a sweep over the pool finds others (`sweep.rs`).
//!
//! A snapshot that lasts, a checkpoint's for one, wants one version of each page. What is superseded later is
//! wanted by nobody soon, and is taken out of the middle of its chain: so committers go on in the same few
//! frames. What somebody wants, or has in hand, is remembered, and looked at again now and then, until all of
//! it comes back in its order when the snapshot has ended ([decision
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
//! [`LIMBO_BATCH`]. One out of the middle of a chain: a latch and a step along the chain, and another scan a
//! batch.

use std::cell::{LazyCell, RefCell};
use std::collections::VecDeque;

use sablecat_os::atomic::Ordering;

use super::Pool;
use super::old_versions::OldVersion;
use super::sweep::Round;
use crate::error::{Error, Result};
use crate::pages::participants::horizon::Horizon;
use crate::pages::participants::{LocalParticipant, PATIENCE, Superseded};
use crate::region::FrameState;
use crate::types::{FrameId, Lsn};

/// Own superseded frames that are looked at together.
pub(in crate::pages) const LIMBO_BATCH: usize = 8;
/// Frames an operation wants at hand before it begins, once the pool is under pressure: a path from a root to
/// a leaf, and some.
pub(in crate::pages) const FRAMES_WANTED: usize = 16;
/// Own superseded frames that are looked at together at most, lest a commit waits for all that a long
/// snapshot has held back.
const LOOKS_MAX: usize = 256;
/// When more own superseded frames than these are held back they are looked at one by one. A thread that
/// waits for the processor holds back what the others supersede meanwhile, in some milliseconds: that comes
/// back by itself, all together.
const LIMBO_MAX: usize = 1024;
/// Own superseded frames that are remembered, and again as many of those that were not to be had when they
/// were looked at: a megabyte of each.
const REMEMBERED_MAX: usize = 65_000;
/// So many of them are looked at again with each batch.
const LOOKED_AT_AGAIN: usize = 4;
/// Frames that were taken out of their chains and are looked at together, for an epoch each time.
const UNLINKED_BATCH: usize = 32;
/// No more are taken out while so many wait for operations in progress: nobody else can free them if one of
/// these is that of a process that is stopped.
pub(super) const UNLINKED_MAX: usize = 128;
/// After so many that were held back others are not given the processor any more.
const CROWD_MAX: usize = 4096;

fn limbo_max() -> usize {
    if sablecat_os::atomic::explored() { 1 } else { LIMBO_MAX }
}

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

    /// Remembers that `me` superseded `frame` at `at`.
    #[inline]
    pub(in crate::pages) fn superseded(&self, frame: FrameId, at: Lsn, me: &LocalParticipant) {
        me.limbo.borrow_mut().push_back(Superseded { frame, at });
        me.unlooked.set(me.unlooked.get() + 1);
    }

    /// Reclaims superseded frames if there are enough of them for a batch. `me` has no pages listed: this may
    /// latch some that it had listed before, and who mends a dead participant takes the latch of a listed
    /// page for that of a commit which did not happen.
    #[inline]
    pub(in crate::pages) fn reclaim_batch(&self, me: &LocalParticipant) {
        let unlooked = me.unlooked.get();
        if unlooked >= LIMBO_BATCH {
            debug_assert_eq!(me.slot().list_len(), 0);
            me.unlooked.set(0);
            me.held_back.set(me.held_back.get() + unlooked);
            self.reclaim_own(me);
            // The pin may be that of a participant that waits for the processor; one that stays is that of a
            // long transaction.
            let held_back = me.held_back.get();
            let before = held_back.saturating_sub(unlooked);
            if before / PATIENCE < held_back / PATIENCE && held_back <= CROWD_MAX {
                me.crowded.set(true);
            }
        }
    }

    /// Frees what it can of the frames that `me` superseded; true if some are at hand now.
    pub(in crate::pages) fn reclaim_own(&self, me: &LocalParticipant) -> bool {
        if me.limbo.borrow().is_empty() && me.wanted.borrow().is_empty() && me.unlinked.borrow().is_empty() {
            return false;
        }
        let before = me.free.borrow().len();
        let horizon = self.horizon();
        let mut looked_at = 0;
        if !me.wanted.borrow().is_empty() {
            looked_at = self.reclaim_wanted(&horizon, me);
        }
        if looked_at + self.reclaim_oldest(&me.limbo, LOOKS_MAX - looked_at, &horizon, me) > 0 {
            me.held_back.set(0);
        }
        if me.limbo.borrow().len() > limbo_max() || !me.wanted.borrow().is_empty() {
            self.reclaim_between(&horizon, me);
        }
        let unlinked = me.unlinked.borrow().len();
        if unlinked >= UNLINKED_BATCH || unlinked > 0 && me.free.borrow().is_empty() {
            self.take_retired(&me.unlinked, &mut Round::default(), me);
        }
        let is_more = me.free.borrow().len() > before;
        if is_more && me.owes.get() {
            self.keep_last(me);
        }
        is_more
    }

    /// Of those that a snapshot wanted frees the oldest, when that has ended; says how many it has looked at.
    #[cold]
    fn reclaim_wanted(&self, horizon: &Horizon, me: &LocalParticipant) -> usize {
        let looked_at = self.reclaim_oldest(&me.wanted, LOOKS_MAX, horizon, me);
        if me.wanted.borrow().is_empty() {
            // It may have been a megabyte.
            me.wanted.take();
        }
        looked_at
    }

    /// Frees those at the front of a queue that lie below all pins; says how many it has looked at, at most
    /// `most`. Those that somebody has in hand go to the back.
    fn reclaim_oldest(
        &self,
        queue: &RefCell<VecDeque<Superseded>>,
        most: usize,
        horizon: &Horizon,
        me: &LocalParticipant,
    ) -> usize {
        let (mut queue, mut free) = (queue.borrow_mut(), me.free.borrow_mut());
        let most = most.min(queue.len());
        for looked_at in 0..most {
            let Some(&one) = queue.front().filter(|one| one.at <= horizon.all()) else { return looked_at };
            queue.pop_front();
            match self.reclaim_old(one, horizon, me) {
                OldVersion::Freed => free.push(one.frame),
                OldVersion::Kept => queue.push_back(one),
                OldVersion::Unlinked | OldVersion::Gone => {}
            }
        }
        most
    }

    /// Of the frames that `me` superseded, and that a snapshot which lasts holds back, frees those that it
    /// does not want, and puts the others aside: the oldest, until few enough are left, and some of those
    /// that were put aside before.
    #[cold]
    fn reclaim_between(&self, horizon: &Horizon, me: &LocalParticipant) {
        let (mut limbo, mut wanted) = (me.limbo.borrow_mut(), me.wanted.borrow_mut());
        let pins = LazyCell::new(|| self.pins());
        let room = UNLINKED_MAX.saturating_sub(me.unlinked.borrow().len());
        let again = wanted.len().min(LOOKED_AT_AGAIN).min(room);
        let more = limbo.len().saturating_sub(limbo_max()).min(room);
        let all: Vec<_> = wanted.drain(..again).chain(limbo.drain(..more)).collect();
        for one in all {
            match self.end_old(one, horizon, &pins, me) {
                OldVersion::Freed => me.free.borrow_mut().push(one.frame),
                OldVersion::Unlinked => me.unlinked.borrow_mut().push_back(one.frame),
                OldVersion::Kept => wanted.push_back(one),
                OldVersion::Gone => {}
            }
        }
        // What more there is is left to the sweep.
        for mut queue in [limbo, wanted] {
            let over = queue.len().saturating_sub(REMEMBERED_MAX);
            queue.drain(..over);
        }
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
                Ok(done) => return Ok(done),
                Err(error) if error.is_out_of_frames() => self.refill(me, FRAMES_WANTED, least)?,
                Err(error) => return Err(error),
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
    use crate::types::{BlockId, PageId, SealedBlock};

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
        const PAGES: usize = 3 * LIMBO_MAX;
        let pages = pool(8192);
        let (writer, reader) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
        let all = some_pages(&pages, PAGES, &writer);
        let at = pages.pin(&reader);
        all.iter().for_each(|&page| _ = commit(&pages, page, Some(9999), &writer).unwrap());
        assert_eq!(pages.census().old, PAGES);
        assert!(writer.wanted.borrow().len() >= PAGES - LIMBO_MAX - LIMBO_BATCH);
        assert_eq!(read(&pages, all[PAGES - 1].0, at, &reader).unwrap(), PAGES as u64 - 1);
        reader.slot().unpin();
        let held_back = |times| {
            (0..times).for_each(|_| _ = commit(&pages, all[0], Some(2000), &writer).unwrap());
            pages.census().old
        };
        assert!((1..PAGES).contains(&held_back(LIMBO_BATCH)), "some of them");
        assert!(held_back(PAGES) <= LIMBO_BATCH, "all of them");
        assert_eq!(writer.wanted.borrow().capacity(), 0, "the memory as well");
    }

    /// What a short snapshot wanted when it was looked at comes back although a long one lasts.
    #[test]
    fn what_a_short_snapshot_wanted_is_looked_at_again() {
        const PAGES: usize = 3 * LIMBO_MAX;
        let pages = pool(16384);
        let [writer, long, short] = [(); 3].map(|()| pages.participants.sit().unwrap());
        let all = some_pages(&pages, PAGES, &writer);
        for snapshot in [&long, &short] {
            pages.pin(snapshot);
            all.iter().for_each(|&page| _ = commit(&pages, page, Some(7), &writer).unwrap());
        }
        assert_eq!(pages.census().old, 2 * PAGES);
        short.slot().unpin();
        (0..4 * PAGES).for_each(|_| _ = commit(&pages, all[0], Some(8), &writer).unwrap());
        let census = pages.census();
        assert!(census.old + census.retired <= PAGES + LIMBO_MAX + UNLINKED_MAX, "{census:?}");
        long.slot().unpin();
    }

    /// A version that is being written when it is looked at is looked at again.
    #[test]
    fn what_is_being_written_is_not_forgotten() {
        let pages = pool(64);
        let writer = pages.participants.sit().unwrap();
        let page = some_pages(&pages, 1, &writer)[0];
        let frame = pages.region.entry(page).word().frame();
        let mark = pages.mark(frame, SealedBlock::unsealed(BlockId(7)), &writer).1;
        let commits = || {
            (0..10 * LIMBO_BATCH as u64).for_each(|n| _ = commit(&pages, page, Some(n), &writer).unwrap());
            pages.reclaim_own(&writer);
            pages.census().old
        };
        assert_eq!(commits(), 1, "it stays while it is written");
        assert!(pages.region.frame(frame).change_block(mark, mark.dropped()));
        assert_eq!(commits(), 0);
    }

    /// A reader that is stopped in the middle of a read keeps nobody from what it does not look at.
    #[test]
    fn who_is_stopped_in_a_read_keeps_little() {
        let pages = pool(4096);
        let [one, other, stopped] = [(); 3].map(|()| pages.participants.sit().unwrap());
        let all = some_pages(&pages, 20, &one);
        let at = pages.pin(&stopped);
        let mut snapshot = pages.at_pin(&stopped, at).unwrap();
        let seen = snapshot.page(all[0]).unwrap();
        for writer in [&one, &other] {
            for stamp in 0..300 {
                all.iter().for_each(|&page| _ = commit(&pages, page, Some(stamp), writer).unwrap());
            }
            assert!(writer.unlinked.borrow().len() <= 2 * UNLINKED_MAX);
        }
        assert!(seen[64..].iter().all(|&byte| byte == 0), "what is looked at stays");
        drop(snapshot);
        stopped.slot().unpin();
    }
}

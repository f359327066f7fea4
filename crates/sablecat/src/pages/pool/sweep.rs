//! The sweep: frames for participants that have run out of them.
//!
//! A clock hand passes over the pool and finds free, reclaimable and cold frames; cold dirty ones are written
//! to fresh blocks in batches and evicted on the next round, unless somebody cleans ahead of the hand
//! (clean.rs). The sweep claims a frame by compare-and-swap on its state before it looks closer, so two
//! sweeps never free one twice. When rounds bring nothing it waits for participants that will give way by
//! themselves, and only then has the oldest snapshot given up.
//!
//! An evicted frame is *retired* until the operations in progress have ended, which is at once if there are
//! none. It counts as found, or the hand would empty the pool while a few operations last: the participant
//! remembers it and looks again before it sweeps for more. Operations that outlast all patience keep only
//! what they say they look at: the rest is freed without them (`free_unlooked`).
//!
//! Costs (sketch): a page evicted is some frames looked at, 10 ns each while they are cold, and a share of a
//! look at all slots.

use std::cell::{LazyCell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use sablecat_os::atomic::{Ordering, fence, fence_everywhere};

use super::Pool;
use super::old_versions::OldVersion;
use super::writing::{MarkedVersion, Writes};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::header;
use crate::pages::participants::horizon::{Horizon, Pins};
use crate::pages::participants::{LocalParticipant, Superseded};
use crate::region::{
    ANY_FRAME, BlockWord, EntryWord, FrameState, MEMORY_IS_FULL, NO_EPOCH, SlotCounter, Work,
};
use crate::trace::{self, Happened};
use crate::types::{FrameId, Lsn, PageId};

/// Frames a sweep looks at between two looks at the clock hand.
const SWEEP_STEP: u64 = 32;
/// Dirty frames written together.
pub(in crate::pages) const WRITE_BATCH: usize = 64;
/// Rounds of the clock without progress after which a sweep takes stronger means.
const ROUNDS: u64 = 4;
/// How often a sweep lets others run: the first times it only gives up the processor, then it sleeps.
const YIELDS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// How long a sweep waits for others, in times that it lets them run.
struct SweepPatience {
    /// Before it takes from them.
    all: u32,
    /// The same if it holds latches: the others may be waiting for these.
    latched: u32,
    /// Before it looks for what the operations in progress do not hold back.
    retired: u32,
    /// Before it takes what they do, but do not look at.
    unlooked: u32,
}

impl SweepPatience {
    fn now() -> SweepPatience {
        if sablecat_os::atomic::explored() {
            return SweepPatience { all: 4, latched: 2, retired: 1, unlooked: 1 };
        }
        SweepPatience { all: 1000, latched: 40, retired: YIELDS, unlooked: YIELDS + 2 }
    }
}

/// What one round of the clock brought.
#[derive(Default)]
pub(in crate::pages) struct Round {
    /// Some frame is closer to free than before.
    progress: bool,
    /// Some frame waits for operations in progress. They end by themselves, unless they wait for a latch of
    /// ours.
    waiting: bool,
}

/// Which current versions a sweep evicts, if they are cold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Evict {
    None,
    /// Those that are on a block.
    Saved,
    /// Those too that must be written first.
    All,
}

/// What a sweep did with one frame.
pub(super) enum SweptFrame {
    /// It is free now.
    Free,
    /// It will be free when the operations in progress have ended.
    Retired,
    /// It was retired before, and some operation that began before that still runs.
    Waiting,
    /// It is cold but its bytes are not on disk: it was given a block, which the sweep must now write.
    Dirty(MarkedVersion),
    /// It stays.
    Kept,
}

impl Pool {
    /// Sweeps until `want` frames are at hand, or at least `least` when more would cost others their
    /// snapshots. The caller is in no operation.
    pub(crate) fn refill(&self, me: &LocalParticipant, want: usize, least: usize) -> Result<()> {
        debug_assert_eq!(me.slot().epoch(), NO_EPOCH, "a sweep inside an operation would wait for itself");
        if me.free.borrow().len() >= want {
            return Ok(());
        }
        self.reclaim_own(me);
        let want = want.min(self.frames_ready() as usize / 8).max(1);
        let least = least.min(want);
        let patience = SweepPatience::now();
        let waits_max = if me.slot().list_len() == 0 { patience.all } else { patience.latched };
        let (mut idle, mut waits, mut rounds) = (0, 0, 0);
        let mut horizon = self.horizon().all();
        self.take_freed(me, want);
        while me.free.borrow().len() < want {
            if self.take_fresh(me) {
                continue;
            }
            let round = self.sweep_round(me, want, waits >= patience.retired)?;
            rounds += 1;
            self.keep_last(me);
            idle = if round.progress { 0 } else { idle + 1 };
            // A participant that looked for more in vain would do so before every operation, as long as
            // frames are scarce.
            if idle > 0 && me.free.borrow().len() >= least {
                return Ok(());
            }
            if idle <= ROUNDS {
                continue;
            }
            idle = 0;
            if round.waiting && self.free_unlooked(me, waits >= patience.unlooked) {
                continue;
            }
            if self.has_last(me) {
                return Err(Error::out_of_frames());
            }
            if waits == waits_max || !round.waiting && !self.others_will_give_way(me) {
                if let Some(error) = self.too_large(me) {
                    return Err(error);
                }
                if self.revoke_oldest(me) {
                    continue;
                }
                // A snapshot that held up these rounds, and ended before it was asked to, leaves neither.
                let before = std::mem::replace(&mut horizon, self.horizon().all());
                if waits == waits_max || horizon == before {
                    return Err(self.no_frames(me));
                }
            }
            waits += 1;
            if waits < YIELDS {
                sablecat_os::atomic::yield_now();
            } else {
                sablecat_os::atomic::pause(PAUSE);
                // The dead give nothing way.
                self.region.stall();
            }
        }
        if rounds > 0 && self.under_pressure() {
            trace::tell(Happened::Swept { frames: me.free.borrow().len(), rounds });
        }
        self.note_not_full();
        Ok(())
    }

    /// Looks for frames until `want` are at hand, without waiting for anybody or taking anything from others:
    /// there may be fewer. The caller is in no operation.
    pub(in crate::pages) fn look_for_frames(&self, me: &LocalParticipant, want: usize) -> Result<()> {
        let is_short = || me.free.borrow().len() < want;
        if is_short() {
            self.reclaim_own(me);
        }
        while is_short() && self.take_fresh(me) {}
        if is_short() {
            self.sweep_round(me, want, false)?;
            self.keep_last(me);
        }
        Ok(())
    }

    /// Takes frames that nobody has used, if there are some and memory for them.
    fn take_fresh(&self, me: &LocalParticipant) -> bool {
        let Some(fresh) = self.region.more_frames() else { return false };
        self.want_fresh(u64::from(fresh.start), fresh.len() as u64);
        me.free.borrow_mut().extend(fresh.map(FrameId));
        self.keep_last(me);
        true
    }

    /// Lets the hand of the clock pass over as many frames as there are, or until `want` frames are at hand
    /// or retired; with `all` those that are retired do not count, but no more than `want` are.
    pub(in crate::pages) fn sweep_round(
        &self,
        me: &LocalParticipant,
        want: usize,
        all: bool,
    ) -> Result<Round> {
        let frames = self.frames_ready();
        let mut round = Round::default();
        let mut looked = 0;
        let retired = || me.retired.borrow().len();
        let found = || me.free.borrow().len() + if all { 0 } else { retired() };
        self.take_retired(&me.retired, &mut round, me);
        while looked < frames && found() < want {
            let _hand = me.in_hand();
            let mut dirty = Writes::new(self);
            let horizon = self.horizon();
            let pins = LazyCell::new(|| self.pins());
            let oldest = self.oldest_epoch();
            while looked < frames && dirty.len() < WRITE_BATCH && found() < want {
                let start = self.region.header().hand.0.fetch_add(SWEEP_STEP, Ordering::Relaxed);
                self.want_fresh(start, SWEEP_STEP);
                let evict = if self.is_beyond_cleaned(start) { Evict::All } else { Evict::Saved };
                looked += SWEEP_STEP;
                for frame in start..start + SWEEP_STEP {
                    let frame = FrameId((1 + frame % frames) as u32);
                    let evict = if found() < want && retired() < want { evict } else { Evict::None };
                    match self.sweep_frame(frame, (&horizon, &pins), oldest, evict, me)? {
                        // A frame counts once, however often the hand comes by.
                        SweptFrame::Free if me.free.borrow().contains(&frame) => {}
                        SweptFrame::Free => {
                            me.free.borrow_mut().push(frame);
                            round.progress = true;
                        }
                        SweptFrame::Dirty(claim) => dirty.push(claim),
                        SweptFrame::Retired => {
                            me.retired.borrow_mut().push_back(frame);
                            round.progress = true;
                        }
                        SweptFrame::Waiting => round.waiting = true,
                        SweptFrame::Kept => {}
                    }
                }
            }
            if !dirty.is_empty() {
                round.progress = true;
                self.call_cleaner();
                dirty.write_out(me)?;
            }
        }
        self.take_retired(&me.retired, &mut round, me);
        Ok(round)
    }

    /// Frees what `me` has retired, of one of its queues, oldest first, as far as the operations that were in
    /// progress then have ended.
    pub(super) fn take_retired(
        &self,
        retired: &RefCell<VecDeque<FrameId>>,
        round: &mut Round,
        me: &LocalParticipant,
    ) {
        let mut retired = retired.borrow_mut();
        let mut oldest = 0;
        while let Some(&frame) = retired.front() {
            let desc = self.region.frame(frame);
            // Another sweep may have been here first.
            if desc.state() == FrameState::Retired {
                let since = desc.superseded().0;
                if since >= oldest {
                    oldest = self.oldest_epoch_after(since);
                }
                if since >= oldest {
                    round.waiting = true;
                    return;
                }
                if desc.change(FrameState::Retired, FrameState::Free) {
                    me.free.borrow_mut().push(frame);
                    round.progress = true;
                }
            }
            retired.pop_front();
        }
    }

    /// Frees what `me` has retired, as far as no operation in progress may be looking at it; true if
    /// anything. That takes a fence in all processes, so the operations are given the time to end, unless the
    /// oldest is one that was waited for long enough before.
    pub(in crate::pages) fn free_unlooked(&self, me: &LocalParticipant, outlasted: bool) -> bool {
        let state =
            |frame: FrameId| (self.region.frame(frame).state(), self.region.frame(frame).superseded());
        let (own, unlinked) = (me.retired.borrow(), me.unlinked.borrow());
        let retired: Vec<_> = own.iter().chain(&*unlinked).map(|&frame| (frame, state(frame))).collect();
        drop((own, unlinked));
        let oldest = self.oldest_epoch();
        if !outlasted && me.outlasted.get() != oldest || !fence_everywhere() {
            return false;
        }
        me.outlasted.set(oldest);
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        let operations: Vec<_> =
            (1..high).map(|n| self.region.slot(n)).map(|slot| (slot.epoch(), slot.looked_at())).collect();
        let may_look_at = |frame, since| {
            operations.iter().any(|&(epoch, at)| epoch <= since && (at == frame || at == ANY_FRAME))
        };
        let unlooked = retired
            .into_iter()
            .filter(|&(frame, (state, since))| state == FrameState::Retired && !may_look_at(frame, since.0));
        let mut any = false;
        for (frame, (_, since)) in unlooked {
            let desc = self.region.frame(frame);
            if !desc.change(FrameState::Retired, FrameState::Building(me.number())) {
                continue;
            }
            // Claimed; now look again. Others may have freed it, used it, and retired it again, with somebody
            // looking at it in between; that was in an epoch after the one that began here.
            let same = desc.superseded() == since;
            desc.set_state(if same { FrameState::Free } else { FrameState::Retired });
            if same {
                me.free.borrow_mut().push(frame);
                any = true;
            }
        }
        for queue in [&me.retired, &me.unlinked] {
            queue.borrow_mut().retain(|&frame| state(frame).0 == FrameState::Retired);
        }
        any
    }

    /// Whether frames will become free if the others get to run: a checkpoint needs fewer versions the
    /// further it comes, and a snapshot that was given up ends with the operation or commit in progress.
    fn others_will_give_way(&self, me: &LocalParticipant) -> bool {
        let header = self.region.header();
        let checkpointer = self.region.role(Work::Checkpoint).look().owner();
        let high = header.slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).filter(|&n| n != me.number()).any(|n| {
            let slot = self.region.slot(n);
            let busy = slot.epoch() != NO_EPOCH || slot.list_len() != 0;
            slot.pinned().is_some() && (n == checkpointer || slot.is_revoked() && busy)
        })
    }

    /// Frames that there is memory for, frame 0 not counted.
    pub(in crate::pages) fn frames_ready(&self) -> u64 {
        self.region.header().frames_ready.0.load(Ordering::Acquire) - 1
    }

    /// The error of a commit that needs so much of the cache for itself that nothing others could give up
    /// would make room for it, nor running it again.
    fn too_large(&self, me: &LocalParticipant) -> Option<Error> {
        let (latched, frames) = (me.slot().list_len() as u64, self.frames_ready());
        if frames == 0 {
            return Some(Error::memory_full(format!("the cache has no memory: {MEMORY_IS_FULL}")));
        }
        // Of each page the commit keeps the version before, and perhaps a new one.
        if latched * 2 < frames / 4 * 3 {
            return None;
        }
        let building = FrameState::Building(me.number());
        let built = (1..=frames)
            .filter(|&frame| self.region.frame(FrameId(frame as u32)).state() == building)
            .count() as u64;
        let block_size = self.region.geometry().block_size as u64;
        let (needs, has) = ((latched + built) * block_size, frames * block_size);
        let to_do = if self.has_all_frames() { "enlarge the cache" } else { MEMORY_IS_FULL };
        (needs >= has / 4 * 3).then(|| {
            Error::cache_full(format!(
                "the transaction needs {needs} bytes of cache and more, for the old and the new versions of \
                 the pages that it changes, and the cache has {has}; change less in one transaction, or \
                 {to_do}"
            ))
        })
    }

    /// Whether there is memory for every frame of the cache.
    fn has_all_frames(&self) -> bool {
        self.frames_ready() + 1 == self.region.geometry().frames as u64
    }

    fn no_frames(&self, me: &LocalParticipant) -> Error {
        // Its own snapshot is what holds up the rest, or was until another sweep just took it: a newer one
        // may do.
        if me.slot().is_revoked()
            || me.slot().pinned().is_some_and(|pin| pin < self.region.header().visible())
        {
            self.revoke(me.number(), me);
            let message = "the snapshot was given up because the old versions it kept filled the cache; \
                           begin a new transaction or enlarge the cache";
            return Error::new(ErrorKind::SnapshotTooOld, message);
        }
        let bytes = self.region.geometry().frames * self.region.geometry().block_size;
        match self.volume {
            Some(_) if !self.has_all_frames() => Error::no_room(format!(
                "every frame that the cache has memory for is in use, and {MEMORY_IS_FULL}"
            )),
            Some(_) => Error::no_room(format!(
                "every frame of the cache ({bytes} bytes) is in use by running operations or one large \
                 transaction; enlarge the cache"
            )),
            // A participant that is about to give some back may not be running, and what is removed is to be
            // removed: it is tried again without latches.
            None if me.removes.get() => Error::no_room(
                "the environment is in memory alone, and the part of its cache that is reserved for \
                 removals is in use; end snapshots, remove less at once, or try again",
            ),
            None => Error::cache_full(format!(
                "the environment is in memory alone and its {bytes} bytes are used up; end snapshots, \
                 remove records, or give it a larger cache (Builder::cache_size)"
            )),
        }
    }

    fn sweep_frame(
        &self,
        frame: FrameId,
        (horizon, pins): (&Horizon, &LazyCell<Pins, impl FnOnce() -> Pins>),
        oldest: u64,
        evict: Evict,
        me: &LocalParticipant,
    ) -> Result<SweptFrame> {
        let desc = self.region.frame(frame);
        Ok(match desc.state() {
            FrameState::Free => SweptFrame::Free,
            FrameState::Building(_) | FrameState::Claimed(_) => SweptFrame::Kept,
            FrameState::Retired => {
                let passed =
                    desc.superseded().0 < oldest && desc.change(FrameState::Retired, FrameState::Free);
                if passed { SweptFrame::Free } else { SweptFrame::Waiting }
            }
            FrameState::Published => {
                let at = desc.superseded();
                if at == Lsn::MAX {
                    return self.sweep_current(frame, horizon, evict, me);
                }
                match self.end_old(Superseded { frame, at }, horizon, pins, me) {
                    OldVersion::Freed => SweptFrame::Free,
                    OldVersion::Unlinked => SweptFrame::Retired,
                    OldVersion::Kept | OldVersion::Gone => SweptFrame::Kept,
                }
            }
        })
    }

    /// A current version: evict it if it is cold, or give it a block if it must be written first.
    fn sweep_current(
        &self,
        frame: FrameId,
        horizon: &Horizon,
        evict: Evict,
        me: &LocalParticipant,
    ) -> Result<SweptFrame> {
        let referenced = self.region.referenced(frame);
        self.region.header().pressure.0.store(1, Ordering::Relaxed);
        if evict == Evict::None {
            return Ok(SweptFrame::Kept);
        }
        if referenced.load(Ordering::Relaxed) != 0 {
            referenced.store(0, Ordering::Relaxed);
            return Ok(SweptFrame::Kept);
        }
        let desc = self.region.frame(frame);
        let page = desc.page();
        let entry = self.region.entry(page);
        let word = entry.word();
        if word.frame() != frame && word.owner() == 0 {
            return Ok(self.sweep_orphan(page, frame, me));
        }
        if word.frame() != frame
            || word.owner() != 0
            || !entry.change(word, EntryWord::new(frame, me.number()))
        {
            return Ok(SweptFrame::Kept);
        }
        let swept = self.evict_latched(page, frame, horizon, evict, me);
        if matches!(swept, Ok(SweptFrame::Retired)) {
            self.leave_pool(page, frame, me);
        } else {
            self.swing(page, EntryWord::new(frame, me.number()), word);
        }
        swept
    }

    /// Ends the life of an evicted version in its frame, and that of the page, and of those that are free
    /// with it, if it was its last.
    pub(super) fn leave_pool(&self, page: PageId, frame: FrameId, me: &LocalParticipant) {
        // SAFETY: claimed by us, and unchanged since it was published.
        let bytes = unsafe { self.region.page(frame) };
        let freed = if header::is_free(bytes) { 1 + header::freed_after(bytes) } else { 0 };
        if !self.swing(page, EntryWord::new(frame, me.number()), EntryWord::new(FrameId::NONE, 0)) {
            // Taken for dead: the page is others' affair.
            return;
        }
        self.retire(frame, me);
        // Last: until then a participant that finds this process dead comes upon the last version, and evicts
        // it again.
        if freed > 0 {
            self.release_run(page, freed);
        }
    }

    /// A version that is said to be current, but not by its page: the participant that published it died
    /// before the page named it. Only the holder of the page's latch publishes versions of it, so under the
    /// latch there can be no doubt.
    #[cold]
    fn sweep_orphan(&self, page: PageId, frame: FrameId, me: &LocalParticipant) -> SweptFrame {
        let Some(latch) = self.try_hold(page, me) else { return SweptFrame::Kept };
        let desc = self.region.frame(frame);
        let claimed = FrameState::Claimed(me.number());
        let mut swept = SweptFrame::Kept;
        if latch.current() != frame && desc.change(FrameState::Published, claimed) {
            // Claimed; now look again: the frame may have been freed and published anew since the caller's
            // look.
            if desc.page() == page && desc.superseded() == Lsn::MAX && !desc.block().is_writing() {
                // Its block, if any, is the page's.
                self.retire(frame, me);
                swept = SweptFrame::Retired;
            } else {
                desc.set_state(FrameState::Published);
            }
        }
        swept
    }

    /// Makes a claimed frame that nobody can come upon any more free from when the operations in progress
    /// have ended. The epoch is read after the frame was unlinked: whichever operation came upon it has
    /// announced this one or an earlier one.
    pub(in crate::pages) fn retire(&self, frame: FrameId, me: &LocalParticipant) {
        let epoch = self.region.header().epoch.0.load(Ordering::SeqCst);
        let desc = self.region.frame(frame);
        // No version any more, from before it loses what it says of one: should this process die here, it is
        // not put back.
        desc.set_state(FrameState::Building(me.number()));
        desc.supersede(Lsn(epoch));
        desc.set_state(FrameState::Retired);
    }

    pub(super) fn evict_latched(
        &self,
        page: PageId,
        frame: FrameId,
        horizon: &Horizon,
        evict: Evict,
        me: &LocalParticipant,
    ) -> Result<SweptFrame> {
        let desc = self.region.frame(frame);
        // SAFETY: the page is latched and this is its current version, which only its latch's holder could
        // supersede.
        let bytes = unsafe { self.region.page(frame) };
        let (free, freed_after) = (header::is_free(bytes), header::freed_after(bytes));
        let is_lone = desc.previous() == FrameId::NONE;
        let horizon = if is_lone { horizon.of_lone(page) } else { horizon.of(page) };
        if desc.superseded() != Lsn::MAX || self.region.born(frame).load(Ordering::Acquire) > horizon.0 {
            return Ok(SweptFrame::Kept);
        }
        // A checkpoint knows a run by its first page: it finds the run as a whole, or gone as a whole.
        let no_checkpoint = if freed_after > 0 { self.try_hold_checkpoint(me) } else { None };
        if freed_after > 0 && (no_checkpoint.is_none() || !self.drop_rest_frames(page, freed_after, me)) {
            return Ok(SweptFrame::Kept);
        }
        let block = desc.block();
        if !free && !block.is_saved() {
            let claim = if evict == Evict::All { self.claim_write(frame, me)? } else { None };
            return Ok(claim.map_or(SweptFrame::Kept, SweptFrame::Dirty));
        }
        // Claimed, because a sweep that comes late may hold the state word for a moment (see `reclaim`).
        if !desc.change(FrameState::Published, FrameState::Claimed(me.number())) {
            return Ok(SweptFrame::Kept);
        }
        if free {
            // Nobody can reach the page any more: all that is left of it is its number. The word first:
            // should this process die here, the block is lost (store/lost.rs), and not freed twice.
            desc.set_block(BlockWord::NOTHING);
            self.forget_block(block);
            self.region.entry(page).set_block(BlockWord::NOTHING);
            self.clear_rest(page, freed_after, me)?;
        } else {
            self.region.entry(page).set_block(block);
        }
        Ok(SweptFrame::Retired)
    }

    /// Tells the owner of a slot that its snapshot is given up.
    fn revoke(&self, slot: u16, me: &LocalParticipant) {
        if self.region.slot(slot).mark_revoked() {
            me.slot().count(SlotCounter::GivenUp, 1);
            trace::tell(Happened::GivenUp { slot });
        }
    }

    /// Gives up the oldest snapshot that is not being read at this moment, for the room its versions take.
    pub(in crate::pages) fn revoke_oldest(&self, me: &LocalParticipant) -> bool {
        let visible = self.region.header().visible();
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        let oldest = (1..high)
            // A checkpoint needs its snapshot to the end: what it missed would be in neither the volume nor
            // the log after it.
            .filter(|&n| n != me.number() && n != self.region.role(Work::Checkpoint).look().owner())
            // A participant that was told already, and is in an operation or a commit, cannot be made to go
            // faster.
            .filter(|&n| {
                let slot = self.region.slot(n);
                !slot.is_revoked() || (slot.epoch() == NO_EPOCH && slot.list_len() == 0)
            })
            .filter_map(|n| self.region.slot(n).pinned().map(|pin| (pin, n)))
            .filter(|&(pin, _)| pin < visible)
            .min();
        let Some((pin, number)) = oldest else { return false };
        let slot = self.region.slot(number);
        self.revoke(number, me);
        // Pairs with the fence of `enter`: either the owner's next operation sees the mark, or this sees its
        // epoch.
        fence(Ordering::SeqCst);
        // One that is committing keeps its pin until the commit is over: helpers rely on it
        // (txn/commit/publish.rs looks at the mark).
        if slot.epoch() == NO_EPOCH && slot.list_len() == 0 {
            slot.unpin_for_owner(pin);
        }
        true
    }
}

//! Frames: taking them, reclaiming superseded versions, evicting cold ones.
//!
//! A committer's own superseded frames come back to it first, still warm in its processor's cache. When they do not suffice, a clock sweep
//! over the pool finds free, reclaimable and cold frames; cold dirty ones are written to fresh blocks in batches and evicted on the
//! next round. The sweep claims a frame by compare-and-swap on its state before it looks closer, so two sweeps never free one twice.
//!
//! Costs: taking a remembered frame 5 ns; reclaiming an own one 15 ns and a scan of the slots a batch of [`LIMBO_BATCH`].

use sablecat_os::atomic::{Ordering, fence};

use super::{KIND_FREE, KIND_OFFSET, Pages, Participant};
use crate::error::{Error, ErrorKind, Result};
use crate::region::{BlockWord, EntryWord, FrameState, NO_EPOCH};
use crate::types::{BlockId, FrameId, Lsn, PageId};

/// Own superseded frames that are looked at together.
const LIMBO_BATCH: usize = 8;
/// Frames a sweep looks at between two looks at the clock hand.
const SWEEP_STEP: u64 = 32;
/// Dirty frames written together.
const WRITE_BATCH: usize = 64;
/// Rounds of the clock after which a sweep takes stronger means.
const ROUNDS: u64 = 4;
/// How often a sweep lets others run, for want of frames that their operations hold back, before it takes those means.
const WAITS_MAX: u32 = 1000;

/// What a sweep did with one frame.
enum Swept {
    /// It is free now.
    Free,
    /// It will be free when the operations in progress have ended.
    Retired,
    /// It was retired before, and some operation that began before that still runs.
    Waiting,
    /// It is cold but its bytes are not on disk: it was given this block, which the sweep must now write.
    Dirty(BlockWord),
    /// It stays.
    Kept,
}

impl Pages {
    /// A frame in state building, owned by `me`. Inside an operation: fails with "out of frames" rather than sweep.
    #[inline]
    pub(crate) fn take_frame(&self, me: &Participant) -> Result<FrameId> {
        let building = FrameState::Building(me.number());
        loop {
            let Some(frame) = me.free.borrow_mut().pop() else {
                if self.reclaim_own(me) {
                    continue;
                }
                return Err(Error::out_of_frames());
            };
            if self.region.frame(frame).change(FrameState::Free, building) {
                return Ok(frame);
            }
        }
    }

    /// Gives back a frame that `me` was building.
    pub(crate) fn drop_frame(&self, frame: FrameId, me: &Participant) {
        debug_assert_eq!(self.region.frame(frame).state(), FrameState::Building(me.number()));
        self.region.frame(frame).set_state(FrameState::Free);
        me.free.borrow_mut().push(frame);
    }

    /// Remembers that `me` superseded `frame` at `at`, and reclaims a batch of such frames when there is one.
    #[inline]
    pub(crate) fn superseded(&self, frame: FrameId, at: Lsn, me: &Participant) {
        let full = {
            let mut limbo = me.limbo.borrow_mut();
            limbo.push_back((frame, at));
            limbo.len() >= LIMBO_BATCH
        };
        if full {
            self.reclaim_own(me);
        }
    }

    /// Below this LSN no snapshot is pinned, nor ever will be.
    pub(crate) fn horizon(&self) -> Lsn {
        let header = self.region.header();
        let visible = header.visible();
        // Pairs with the fence of the pin: a pin that the scan below misses was stored after this, and its owner looks at `visible` again.
        fence(Ordering::SeqCst);
        let high = header.slots_high.0.load(Ordering::SeqCst) as u16;
        self.pins(high).fold(visible, Lsn::min)
    }

    fn pins(&self, high: u16) -> impl Iterator<Item = Lsn> {
        (1..high).flat_map(|n| {
            let slot = self.region.slot(n);
            [slot.pinned(), slot.guarded()].into_iter().flatten()
        })
    }

    fn pin_between(&self, born: Lsn, superseded: Lsn) -> bool {
        if self.region.header().visible() < superseded {
            return true;
        }
        fence(Ordering::SeqCst);
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        self.pins(high).any(|pin| born <= pin && pin < superseded)
    }

    /// Every operation in progress began at or after this epoch.
    fn oldest_epoch(&self) -> u64 {
        fence(Ordering::SeqCst);
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).map(|n| self.region.slot(n).epoch()).fold(NO_EPOCH, u64::min)
    }

    /// Frees what it can of the frames that `me` superseded; true if anything.
    fn reclaim_own(&self, me: &Participant) -> bool {
        let mut limbo = me.limbo.borrow_mut();
        if limbo.is_empty() {
            return false;
        }
        let horizon = self.horizon();
        let mut freed = false;
        while let Some(&(frame, at)) = limbo.front() {
            if at > horizon {
                break;
            }
            limbo.pop_front();
            // Another sweep may have been here first: then the frame is no longer this version.
            if self.region.frame(frame).superseded() == at && self.reclaim(frame, horizon, me) {
                me.free.borrow_mut().push(frame);
                freed = true;
            }
        }
        // What a long-lived snapshot holds back is left to the sweep.
        if limbo.len() > 4 * LIMBO_BATCH {
            limbo.clear();
        }
        freed
    }

    /// Frees a published version that was superseded at or below `horizon`.
    fn reclaim(&self, frame: FrameId, horizon: Lsn, me: &Participant) -> bool {
        let desc = self.region.frame(frame);
        if !desc.change(FrameState::Published, FrameState::Building(me.number())) {
            return false;
        }
        // Claimed; now look again, since the frame may have been freed and published anew between the caller's look and the claim.
        let block = desc.block();
        if desc.superseded() > horizon || block.is_writing() {
            desc.set_state(FrameState::Published);
            return false;
        }
        self.forget_block(block);
        desc.set_state(FrameState::Free);
        true
    }

    /// Frees the block of a version that is gone, unless a checkpoint has named it: then checkpoints free it.
    pub(crate) fn forget_block(&self, block: BlockWord) {
        if block.block() != BlockId::NONE && !block.is_captured() {
            self.blocks.release(block.block().0);
        }
    }

    /// Sweeps until `want` frames are at hand. The caller is in no operation.
    pub(crate) fn refill(&self, me: &Participant, want: usize) -> Result<()> {
        debug_assert_eq!(me.slot().epoch(), NO_EPOCH, "a sweep inside an operation would wait for itself");
        if me.free.borrow().len() >= want {
            return Ok(());
        }
        self.reclaim_own(me);
        let frames = self.region.geometry().frames as u64 - 1;
        let want = want.min(frames as usize / 8);
        let mut looked = 0;
        let mut rounds = 0;
        let mut last_progress = 0;
        let (mut waiting, mut waits) = (false, 0);
        while me.free.borrow().len() < want {
            let before = me.free.borrow().len();
            let mut dirty = Vec::new();
            let horizon = self.horizon();
            self.region.header().epoch.0.fetch_add(1, Ordering::SeqCst);
            let oldest = self.oldest_epoch();
            while dirty.len() < WRITE_BATCH && me.free.borrow().len() < want && looked < (rounds + 1) * frames {
                let start = self.region.header().hand.0.fetch_add(SWEEP_STEP, Ordering::Relaxed);
                looked += SWEEP_STEP;
                for frame in start..start + SWEEP_STEP {
                    let frame = FrameId((1 + frame % frames) as u32);
                    match self.sweep_frame(frame, horizon, oldest, me)? {
                        // A frame counts once, however often the hand comes by.
                        Swept::Free if me.free.borrow().contains(&frame) => {}
                        Swept::Free => me.free.borrow_mut().push(frame),
                        Swept::Dirty(block) => dirty.push((frame, block)),
                        Swept::Retired => last_progress = rounds,
                        Swept::Waiting => waiting = true,
                        Swept::Kept => {}
                    }
                }
            }
            if !dirty.is_empty() {
                last_progress = rounds;
                self.write_back(&dirty)?;
            }
            if me.free.borrow().len() > before {
                last_progress = rounds;
            }
            if looked >= (rounds + 1) * frames {
                rounds += 1;
                if rounds - last_progress > ROUNDS {
                    if !me.free.borrow().is_empty() {
                        // Fewer than hoped for will do.
                        return Ok(());
                    }
                    sablecat_os::atomic::yield_now();
                    // Operations end by themselves, if their threads get to run; unless they wait for a latch of ours.
                    if waiting && waits < WAITS_MAX {
                        waits += 1;
                        waiting = false;
                    } else if !self.revoke_oldest(me) {
                        return Err(self.no_frames(me));
                    }
                    last_progress = rounds;
                }
            }
        }
        Ok(())
    }

    fn no_frames(&self, me: &Participant) -> Error {
        // Its own snapshot is what holds up the rest: a newer one may do.
        if me.slot().pinned().is_some_and(|pin| pin < self.region.header().visible()) {
            me.slot().mark_revoked();
            let message =
                "the snapshot was given up because the old versions it kept filled the cache; begin a new transaction or enlarge the cache";
            return Error::new(ErrorKind::SnapshotTooOld, message);
        }
        let bytes = self.region.geometry().frames * self.region.page_size();
        match self.volume {
            Some(_) => Error::no_room(format!(
                "every frame of the cache ({bytes} bytes) is in use by running operations or one large transaction; enlarge the cache"
            )),
            None => Error::full(format!("the environment lives in memory alone and its {bytes} bytes are used up; enlarge the cache")),
        }
    }

    fn sweep_frame(&self, frame: FrameId, horizon: Lsn, oldest: u64, me: &Participant) -> Result<Swept> {
        let desc = self.region.frame(frame);
        Ok(match desc.state() {
            FrameState::Free => Swept::Free,
            FrameState::Building(_) => Swept::Kept,
            FrameState::Retired => {
                let passed = desc.superseded().0 < oldest && desc.change(FrameState::Retired, FrameState::Free);
                if passed { Swept::Free } else { Swept::Waiting }
            }
            FrameState::Published => {
                let superseded = desc.superseded();
                if superseded == Lsn::MAX {
                    self.sweep_current(frame, horizon, me)?
                } else if superseded <= horizon {
                    if self.reclaim(frame, horizon, me) { Swept::Free } else { Swept::Kept }
                } else {
                    self.sweep_between(frame, superseded, me)
                }
            }
        })
    }

    /// A current version: evict it if it is cold.
    fn sweep_current(&self, frame: FrameId, horizon: Lsn, me: &Participant) -> Result<Swept> {
        let referenced = self.region.referenced(frame);
        self.region.header().pressure.0.store(1, Ordering::Relaxed);
        if referenced.load(Ordering::Relaxed) != 0 {
            referenced.store(0, Ordering::Relaxed);
            return Ok(Swept::Kept);
        }
        let desc = self.region.frame(frame);
        let page = desc.page();
        let entry = self.region.entry(page);
        let word = entry.word();
        if word.frame() != frame || word.owner() != 0 || !entry.change(word, EntryWord::new(frame, me.number())) {
            return Ok(Swept::Kept);
        }
        let swept = self.evict_latched(page, frame, horizon, me);
        if matches!(swept, Ok(Swept::Retired)) {
            // SAFETY: claimed by us, and unchanged since it was published.
            let free = unsafe { self.region.page(frame) }[KIND_OFFSET] == KIND_FREE;
            self.swing(page, EntryWord::new(frame, me.number()), EntryWord::new(FrameId::NONE, 0));
            self.retire(frame);
            if free {
                self.release_page(page);
            }
        } else {
            self.swing(page, EntryWord::new(frame, me.number()), word);
        }
        swept
    }

    /// Makes a claimed frame that nobody can come upon any more free from when the operations in progress have ended. The epoch is read
    /// after the frame was unlinked: whichever operation came upon it has announced this one or an earlier one.
    fn retire(&self, frame: FrameId) {
        let epoch = self.region.header().epoch.0.load(Ordering::SeqCst);
        self.region.frame(frame).supersede(Lsn(epoch));
        self.region.frame(frame).set_state(FrameState::Retired);
    }

    fn evict_latched(&self, page: PageId, frame: FrameId, horizon: Lsn, me: &Participant) -> Result<Swept> {
        let desc = self.region.frame(frame);
        if desc.superseded() != Lsn::MAX || self.region.born(frame).load(Ordering::Acquire) > horizon.0 {
            return Ok(Swept::Kept);
        }
        // SAFETY: the page is latched and this is its current version, which only its latch's holder could supersede.
        let free = unsafe { self.region.page(frame) }[KIND_OFFSET] == KIND_FREE;
        let block = desc.block();
        if !free && !block.is_saved() {
            if block.is_writing() || self.volume.is_none() {
                return Ok(Swept::Kept);
            }
            // Under the latch the version can be neither superseded nor freed; once marked as being written, not freed either.
            let claim = BlockWord::fresh(self.allocate_block()?).writing();
            desc.set_block(claim);
            return Ok(Swept::Dirty(claim));
        }
        // Claimed, because a sweep that comes late may hold the state word for a moment (see `reclaim`).
        if !desc.change(FrameState::Published, FrameState::Building(me.number())) {
            return Ok(Swept::Kept);
        }
        if free {
            // Nobody can reach the page any more: all that is left of it is its number.
            self.forget_block(block);
            self.region.entry(page).set_block(BlockWord::fresh(BlockId::NONE));
        } else {
            self.region.entry(page).set_block(block);
        }
        Ok(Swept::Retired)
    }

    /// An old version that some snapshot below its end may not need: unlink it from its page's chain.
    fn sweep_between(&self, frame: FrameId, superseded: Lsn, me: &Participant) -> Swept {
        let desc = self.region.frame(frame);
        let page = desc.page();
        let born = Lsn(self.region.born(frame).load(Ordering::Acquire));
        if self.pin_between(born, superseded) {
            return Swept::Kept;
        }
        // A sweep while a commit is validated meets pages that its own participant has latched.
        if self.region.entry(page).word().owner() == me.number() {
            return Swept::Kept;
        }
        let Some(mut newer) = self.try_latch(page, me) else { return Swept::Kept };
        let mut swept = Swept::Kept;
        while newer != FrameId::NONE {
            let newer_desc = self.region.frame(newer);
            let next = newer_desc.previous();
            let newer_born = Lsn(self.region.born(newer).load(Ordering::Acquire));
            if next == FrameId::NONE || !self.links(newer, newer_born, next, page) {
                break;
            }
            if next == frame {
                if desc.change(FrameState::Published, FrameState::Building(me.number())) {
                    // Claimed; now look again: the frame may have been freed and published anew since the caller's look.
                    if desc.superseded() == superseded && desc.page() == page && !desc.block().is_writing() {
                        newer_desc.set_previous(desc.previous());
                        self.forget_block(desc.block());
                        self.retire(frame);
                        swept = Swept::Retired;
                    } else {
                        desc.set_state(FrameState::Published);
                    }
                }
                break;
            }
            newer = next;
        }
        self.unlatch(page, me);
        swept
    }

    /// Writes cold dirty versions to the blocks they were given, so that the next round can evict them.
    fn write_back(&self, dirty: &[(FrameId, BlockWord)]) -> Result<()> {
        let Some(volume) = &self.volume else { return Ok(()) };
        // SAFETY: a version whose block is marked as being written is neither reclaimed nor evicted, and published bytes do not change.
        let images: Vec<_> = dirty.iter().map(|&(frame, claim)| (claim.block(), unsafe { self.region.page(frame) })).collect();
        let result = volume.write_blocks(&images);
        self.end_writes(dirty, result.is_ok());
        result
    }

    /// Ends the writes of versions: they are on their blocks, or on none.
    pub(super) fn end_writes(&self, dirty: &[(FrameId, BlockWord)], written: bool) {
        for &(frame, claim) in dirty {
            if written {
                self.region.frame(frame).set_block(claim.written());
            } else {
                self.region.frame(frame).set_block(BlockWord::fresh(BlockId::NONE));
                self.blocks.release(claim.block().0);
            }
        }
    }

    /// A free block, past the end of the file if need be.
    pub(crate) fn allocate_block(&self) -> Result<BlockId> {
        match self.blocks.allocate_one() {
            Some(block) => Ok(BlockId(block)),
            None => Err(Error::full("the volume has reached its largest size")),
        }
    }

    /// Gives up the oldest snapshot that is not being read at this moment, for the room its versions take.
    pub(super) fn revoke_oldest(&self, me: &Participant) -> bool {
        let visible = self.region.header().visible();
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        let oldest = (1..high)
            // A checkpoint needs its snapshot to the end: what it missed would be in neither the volume nor the log after it.
            .filter(|&n| n != me.number() && n != self.region.header().checkpoint.0.look().owner())
            // Who was told already, and is in an operation or a commit, cannot be made to go faster.
            .filter(|&n| {
                let slot = self.region.slot(n);
                !slot.is_revoked() || (slot.epoch() == NO_EPOCH && slot.list_len() == 0)
            })
            .filter_map(|n| self.region.slot(n).pinned().map(|pin| (pin, n)))
            .filter(|&(pin, _)| pin < visible)
            .min();
        let Some((pin, number)) = oldest else { return false };
        let slot = self.region.slot(number);
        slot.mark_revoked();
        // Pairs with the fence of `enter`: either the owner's next operation sees the mark, or this sees its epoch.
        fence(Ordering::SeqCst);
        // One that is committing keeps its pin until the commit is over: helpers rely on it (txn/publish.rs looks at the mark).
        if slot.epoch() == NO_EPOCH && slot.list_len() == 0 {
            slot.unpin_for_owner(pin);
        }
        true
    }
}

//! Checkpoints: the pages half. The checkpointer is a reader that writes what it sees.
//!
//! Pin S. Every page changed since a checkpoint last looked has its bit in `unsaved`; the bits move to `capturing`, and for each page the
//! version valid at S is found, given a block and written; then the map and the superblock name the new blocks. `capturing` is cleared
//! only after that, so that the successor of a checkpointer that failed or died captures the same pages again.
//!
//! Why no change is missed: a commit at c sets the page's bit after it swung the entry and before `visible` reaches c; the checkpointer
//! pins S before it takes bits, so every page changed at or below S has its bit set by then. A page changed above S whose bit was taken
//! gets it back here: capture holds the page's latch, which a commit needs for its swing, so either capture sees the newer version or the
//! commit sets the bit afterwards.
//!
//! Who frees a block: one that a checkpoint has named (`captured`) is freed by the checkpoint that replaces it in the map; any other, by
//! whoever frees the version it holds. The exception are runs (run.rs): of a freed one, old snapshots may read the blocks when the checkpoint
//! takes it out of the map; so it gives them back to the pages' entries, and they are released with the run. That takes this role, so a
//! checkpoint finds a run as a whole or gone as a whole. And where epochs are retained a block stays named until the last map that names it
//! is dropped, that of an epoch perhaps: then the maps say what is free (volume/orphans.rs).

use sablecat_os::atomic::{Ordering, fence};

use super::run::{freed_after, rest_of};
use super::volume::{Superblock, Tail, Volume};
use super::{KIND_FREE, KIND_OFFSET, Moving, Pages, Participant};
use crate::error::{Error, ErrorKind, Result};
use crate::region::{BlockWord, FrameState, Holding, Region};
use crate::types::{BlockId, FrameId, Lsn, PageId};

/// Versions written together.
const BATCH: usize = 256;
/// After so many tries to capture a page somebody dead may be in the way.
const TRIES_STALLED: u32 = 1000;
/// Wait queue of the checkpoint role.
const CHECKPOINT_QUEUE: usize = 254;

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Captured {
    /// Everything committed at or below this LSN is in the volume.
    pub(crate) at: Lsn,
    /// Recovery reads the log from here.
    pub(crate) needed: Lsn,
    /// Pages whose place in the map changed.
    pub(crate) pages: u64,
    /// Of these, pages that had to be written now.
    pub(crate) written: u64,
    /// Pages that were moved to a lower block.
    pub(crate) moved: u64,
    /// The next checkpoint would move more, or should look.
    pub(crate) moving: bool,
}

/// The checkpoint role, held until dropped.
#[derive(Debug)]
pub(crate) struct CheckpointHold<'a> {
    region: &'a Region,
    holding: Holding,
}

impl Drop for CheckpointHold<'_> {
    fn drop(&mut self) {
        self.region.header().checkpoint.0.release(self.holding);
        self.region.queue(CHECKPOINT_QUEUE).wake();
    }
}

/// What capture found for one page.
enum Found {
    /// The map is to name this block for it (none: the page is free).
    Block(BlockId),
    /// As `Block`, after this version has been written there.
    Write(FrameId, BlockWord),
    /// The page is free, and with it so many pages after it.
    Freed(u64),
    /// The page came into being after the snapshot. If the map names it, then for an earlier life.
    Younger,
    /// A sweep is writing the version, or looking at it, at this moment.
    Busy,
}

/// What a checkpoint has found so far.
#[derive(Default)]
struct Changed {
    /// What the map is to say: sorted by page, each page once.
    map: Vec<(PageId, BlockId)>,
    /// Pages below were dealt with, as parts of a run, before their turn.
    done_below: u64,
    /// Blocks of freed runs that an earlier checkpoint has named, to be given back to these pages.
    given_up: Vec<(BlockId, PageId)>,
}

impl Pages {
    /// Writes a checkpoint of the newest published state, and moves blocks down. `describe` fills in what the superblock says beyond the
    /// pages, given the checkpoint's LSN. Durable when it returns. Waits for a checkpoint in progress; stops no writer.
    pub(crate) fn checkpoint(
        &self,
        me: &Participant,
        moving: Moving,
        describe: impl FnOnce(Lsn, &mut Superblock) -> Result<()>,
    ) -> Result<Captured> {
        let Some(volume) = &self.volume else { return Ok(Captured { at: self.region.header().visible(), ..Captured::default() }) };
        self.fail_if_poisoned()?;
        let hold = self.hold_checkpoint(me);
        // Before the pin: what an earlier checkpoint has dealt with says nothing of this one's snapshot (horizon.rs).
        self.region.header().captured_below.0.store(0, Ordering::SeqCst);
        let needed = self.log_needed_from();
        let at = self.pin(me);
        let result = self.follow_generation(volume).and_then(|()| self.checkpoint_at(volume, (at, needed), me, moving, describe));
        me.slot().unpin();
        self.region.header().captured_below.0.store(0, Ordering::SeqCst);
        drop(hold);
        self.release_freed(me);
        if result.as_ref().is_err_and(|error| error.kind() != ErrorKind::Full) {
            self.region.header().volume_poisoned.store(1, Ordering::Release);
        }
        result
    }

    /// From where recovery must read the log for a checkpoint that is pinned after this: the newest commit, or the first chunk of a write
    /// set that is being logged. Of a write set that this misses, every chunk comes later: it is announced before its first chunk.
    fn log_needed_from(&self) -> Lsn {
        let visible = self.region.header().visible();
        fence(Ordering::SeqCst);
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).filter_map(|n| self.region.slot(n).chain()).fold(visible, Lsn::min)
    }

    /// Waits for the end of the checkpoint in progress, if there is one: what it keeps in the cache can be evicted then. False if there is none.
    /// The caller holds no latch, since the checkpointer may want it.
    #[cold]
    pub(crate) fn wait_for_checkpoint(&self) -> bool {
        let role = &self.region.header().checkpoint.0;
        let seen = role.look();
        if seen.owner() == 0 {
            return false;
        }
        self.region.queue(CHECKPOINT_QUEUE).wait_for(|| (role.look() != seen).then_some(()));
        true
    }

    /// Wakes who waits for the checkpoint role.
    pub(super) fn wake_checkpoints(&self) {
        self.region.queue(CHECKPOINT_QUEUE).wake();
    }

    /// Takes the checkpoint role, waiting for whoever has it.
    pub(crate) fn hold_checkpoint(&self, me: &Participant) -> CheckpointHold<'_> {
        self.region.queue(CHECKPOINT_QUEUE).wait_for(|| self.try_hold_checkpoint(me))
    }

    /// Takes the checkpoint role unless somebody has it: until it is dropped, no checkpoint begins.
    pub(super) fn try_hold_checkpoint(&self, me: &Participant) -> Option<CheckpointHold<'_>> {
        let holding = self.region.header().checkpoint.0.try_acquire(me.number()).ok()?;
        Some(CheckpointHold { region: &self.region, holding })
    }

    /// An error once a write to the volume has failed in a way that leaves unknown what is on it.
    pub(crate) fn fail_if_poisoned(&self) -> Result<()> {
        if self.region.header().volume_poisoned.load(Ordering::Acquire) != 0 {
            return Err(Error::new(
                ErrorKind::Poisoned,
                "an earlier write or flush of the volume failed, so what the disk holds is not known; close the environment and open it again to recover",
            ));
        }
        Ok(())
    }

    /// Makes sure that this process reads the map of the generation in force, which another process may have put there.
    pub(crate) fn follow_generation(&self, volume: &Volume) -> Result<()> {
        if volume.generation() == self.region.header().generation.0.load(Ordering::SeqCst) { Ok(()) } else { volume.follow() }
    }

    fn checkpoint_at(
        &self,
        volume: &Volume,
        (at, needed): (Lsn, Lsn),
        me: &Participant,
        moving: Moving,
        describe: impl FnOnce(Lsn, &mut Superblock) -> Result<()>,
    ) -> Result<Captured> {
        let mut changed = Changed::default();
        let mut pending = Vec::new();
        let mut written = 0;
        let words = self.page_ids.high_water().div_ceil(64) as usize;
        for word in 0..words {
            for page in self.take_unsaved(word) {
                // Before anything is written: there may be no room but in blocks that are free.
                self.learn_free(volume)?;
                if u64::from(page.0) < changed.done_below {
                    continue;
                }
                let found = self.capture_when_idle(page, at, me)?;
                let (block, freed_after) = match found {
                    Found::Block(block) => (block, 0),
                    Found::Write(frame, claim) => {
                        pending.push((frame, claim));
                        (claim.block(), 0)
                    }
                    Found::Freed(after) => (BlockId::NONE, after),
                    Found::Younger => (BlockId::NONE, 0),
                    Found::Busy => unreachable!("waited for"),
                };
                changed.map.push((page, block));
                if block != BlockId::NONE {
                    self.capture_rest(page, me, &mut changed);
                } else {
                    self.give_up_rest(page, freed_after, me, &mut changed)?;
                }
                if pending.len() >= BATCH {
                    written += pending.len() as u64;
                    self.write_captured(volume, &mut pending)?;
                }
            }
            self.region.header().captured_below.0.store(word as u64 * 64 + 64, Ordering::SeqCst);
        }
        // What came into being after the snapshot may lie above the words.
        self.region.header().captured_below.0.store(u64::MAX, Ordering::SeqCst);
        written += pending.len() as u64;
        self.write_captured(volume, &mut pending)?;

        let Changed { map: changes, mut given_up, .. } = changed;
        if !changes.is_empty() || moving == Moving::Much {
            self.learn_free(volume)?;
        }
        let before = volume.superblock();
        let mut next = before.clone();
        next.checkpoint = at;
        next.log_position = needed;
        next.page_count = self.page_ids.used_count();
        next.pages_high = self.page_ids.high_water() as u32;
        next.tree_next = self.region.header().tree_next.0.load(Ordering::Acquire);
        describe(at, &mut next)?;
        if before.epochs.iter().any(|epoch| !next.epochs.contains(epoch)) {
            // Blocks will be released, which must not happen while all count as used: they would be made free again later on.
            self.learn_free(volume)?;
        }
        let (freed, moved) = self.write_checkpoint(volume, &changes, moving, next, me)?;
        self.region.header().generation.0.store(volume.generation(), Ordering::SeqCst);
        self.region.header().checkpointed.store(at.0, Ordering::Release);
        let changed = moved > 0 || !freed.is_empty();
        let after = volume.superblock();
        if before.epochs.is_empty() && after.epochs.is_empty() {
            given_up.sort_unstable();
            for block in freed {
                if given_up.binary_search_by_key(&block, |given_up| given_up.0).is_err() {
                    self.blocks.release(block);
                }
            }
            // No map names these any more; some snapshot may read them. They go with the pages.
            for (_, page) in given_up {
                self.change_block(page, me, BlockWord::uncaptured);
            }
        } else {
            // Which of the blocks no epoch names, and which only epochs did that are retained no longer.
            volume.orphans(&before, &after).into_iter().for_each(|(page, block)| self.let_go(page, block, me));
        }
        for word in 0..words {
            self.region.capturing(word).store(0, Ordering::SeqCst);
        }
        // The checkpoint stands whether or not the file could be cut; the next one tries again.
        // While others may write to it, the file is not cut under them.
        if self.region.membership().is_none() {
            let _ = volume.give_back_tail(&self.blocks, if moving == Moving::Much { Tail::Little } else { Tail::Steps });
        }
        let moving = (changed || self.is_moving()) && self.is_worth_moving(volume, moving);
        Ok(Captured { at, needed, pages: changes.len() as u64, written, moved, moving })
    }

    /// Gives the free end of the file back, all but the reserve. For the last to write to the volume, whose checkpoint stands whether or not this can be
    /// done.
    pub(crate) fn give_back_tail(&self) {
        let _ = self.volume.as_ref().map(|volume| volume.give_back_tail(&self.blocks, Tail::Reserve));
    }

    /// Gives back half of the reserve, for who needs it and is alone.
    pub(crate) fn give_back_reserve(&self, me: &Participant) {
        // Without this everything counts as used up to the highest block that ever was.
        let _ = self.learn_free_early(me);
        let _ = self.volume.as_ref().map(|volume| volume.give_back_tail(&self.blocks, Tail::Half));
    }

    /// Moves a word of `unsaved` to `capturing` and lists all pages of the latter.
    fn take_unsaved(&self, word: usize) -> Vec<PageId> {
        let unsaved = self.region.unsaved(word);
        let capturing = self.region.capturing(word);
        let bits = unsaved.load(Ordering::SeqCst);
        let all = capturing.load(Ordering::SeqCst) | bits;
        if bits != 0 {
            capturing.store(all, Ordering::SeqCst);
            unsaved.fetch_and(!bits, Ordering::SeqCst);
        }
        (0..64).filter(|bit| all >> bit & 1 == 1).map(|bit| PageId((word * 64 + bit) as u32)).collect()
    }

    fn capture_when_idle(&self, page: PageId, at: Lsn, me: &Participant) -> Result<Found> {
        let mut tries = 0u32;
        loop {
            match self.capture(page, at, me)? {
                Found::Busy => sablecat_os::atomic::yield_now(),
                found => return Ok(found),
            }
            tries += 1;
            if tries.is_multiple_of(TRIES_STALLED) {
                // Who was writing it may be dead.
                self.region.stall();
            }
        }
    }

    /// Finds, under the page's latch, what the map is to say of it, and marks the block as a checkpoint's.
    fn capture(&self, page: PageId, at: Lsn, me: &Participant) -> Result<Found> {
        let current = self.latch(page, me);
        let found = self.capture_latched(page, current, at, me);
        let newer = current != FrameId::NONE && self.region.born(current).load(Ordering::Acquire) > at.0;
        if newer {
            self.mark_unsaved(page);
        }
        self.unlatch(page, me);
        found
    }

    /// Names the pages that were stored past the pool together with `first`, if there are any.
    fn capture_rest(&self, first: PageId, me: &Participant, changed: &mut Changed) {
        for page in rest_of(first, u64::from(u32::MAX - first.0)).take_while(|&page| self.is_rest(page)) {
            let word = self.change_block(page, me, BlockWord::captured);
            changed.map.push((page, word.block()));
            changed.done_below = u64::from(page.0) + 1;
        }
    }

    /// Takes the `count` pages after `first`, which are free with it, out of the map.
    fn give_up_rest(&self, first: PageId, count: u64, me: &Participant, changed: &mut Changed) -> Result<()> {
        for page in rest_of(first, count) {
            self.learn_block(page)?;
            let word = self.change_block(page, me, |word| word);
            if word.is_captured() {
                changed.given_up.push((word.block(), page));
            }
            changed.map.push((page, BlockId::NONE));
            changed.done_below = u64::from(page.0) + 1;
        }
        Ok(())
    }

    /// Frees a block that no map names any more. If it is that of a run that was freed and is still read by some snapshot, it goes with the run.
    fn let_go(&self, page: PageId, block: BlockId, me: &Participant) {
        let is_known = page != PageId::NONE && u64::from(page.0) < self.page_ids.high_water();
        let own = |word: BlockWord| if word.block() == block { word.uncaptured() } else { word };
        if !is_known || self.change_block(page, me, own).block() != block {
            self.blocks.release(block);
        }
    }

    /// Changes, under the latch, what is known of the block of a page's only version, and says what it is then.
    fn change_block(&self, page: PageId, me: &Participant, change: impl Fn(BlockWord) -> BlockWord) -> BlockWord {
        let current = self.latch(page, me);
        let (entry, desc) = (self.region.entry(page), self.region.frame(current));
        let in_memory = current != FrameId::NONE;
        let before = if in_memory { desc.block() } else { entry.block() };
        let after = change(before);
        // A block that is being written is not touched: its writer ends that without the latch.
        if after != before && in_memory {
            desc.set_block(after);
        } else if after != before {
            entry.set_block(after);
        }
        self.unlatch(page, me);
        after
    }

    fn capture_latched(&self, page: PageId, current: FrameId, at: Lsn, me: &Participant) -> Result<Found> {
        let entry = self.region.entry(page);
        if current == FrameId::NONE {
            self.learn_block(page)?;
            let word = entry.block();
            if word.is_rest() && !word.is_captured() {
                // Stored past the pool: its run's first page, which comes before it, has not been published at the snapshot. The mark is from
                // an earlier life of the page.
                return Ok(Found::Younger);
            }
            if word.block() != BlockId::NONE {
                entry.set_block(word.captured());
            }
            return Ok(Found::Block(word.block()));
        }
        let mut frame = current;
        loop {
            let born = Lsn(self.region.born(frame).load(Ordering::Acquire));
            if born <= at {
                break;
            }
            let previous = self.region.frame(frame).previous();
            if previous == FrameId::NONE {
                return Ok(Found::Younger);
            }
            if !self.links(born, previous, page) {
                // A sweep may have claimed the frame for a moment, to look at it closer; under the latch nobody builds a version of this page.
                let desc = self.region.frame(previous);
                let claimed = matches!(desc.state(), FrameState::Building(_)) && desc.page() == page;
                return Ok(if claimed { Found::Busy } else { Found::Younger });
            }
            frame = previous;
        }
        // SAFETY: the checkpoint's pin covers this version, and the latch keeps the current one from eviction.
        let bytes = unsafe { self.region.page(frame) };
        if bytes[KIND_OFFSET] == KIND_FREE {
            return Ok(Found::Freed(freed_after(bytes)));
        }
        let desc = self.region.frame(frame);
        debug_assert_eq!(desc.state(), FrameState::Published);
        let word = desc.block();
        if word.is_saved() {
            desc.set_block(word.captured());
            return Ok(Found::Block(word.block()));
        }
        Ok(self.claim_write(frame, me)?.map_or(Found::Busy, |claim| Found::Write(frame, claim)))
    }

    fn write_captured(&self, volume: &Volume, pending: &mut Vec<(FrameId, BlockWord)>) -> Result<()> {
        // SAFETY: versions being written are neither reclaimed nor evicted, and published bytes do not change.
        let images: Vec<_> = pending.iter().map(|&(frame, claim)| (claim.block(), unsafe { self.region.page(frame) })).collect();
        let result = volume.write_blocks(&images);
        for entry in pending.iter_mut().filter(|_| result.is_ok()) {
            entry.1 = entry.1.captured();
        }
        self.end_writes(pending, result.is_ok());
        pending.clear();
        result
    }

    /// Remembers that a page changed, so that the next checkpoint looks at it.
    #[inline]
    pub(crate) fn mark_unsaved(&self, page: PageId) {
        let word = self.region.unsaved(page.0 as usize / 64);
        let bit = 1 << (page.0 % 64);
        if word.load(Ordering::SeqCst) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// As [`Pages::learn_free`], for who makes no checkpoint; unless somebody does, who will.
    pub(super) fn learn_free_early(&self, me: &Participant) -> Result<()> {
        let Some(volume) = &self.volume else { return Ok(()) };
        if self.region.header().free_known.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        let Some(_hold) = self.try_hold_checkpoint(me) else { return Ok(()) };
        self.follow_generation(volume)?;
        self.learn_free(volume)
    }

    /// Learns, once, which page ids and blocks below the opening high-water marks are free: until then all count as used, so that opening
    /// need not read the map.
    fn learn_free(&self, volume: &Volume) -> Result<()> {
        if self.region.header().free_known.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        let found = volume.scan()?;
        // Before anything is free: should this process die here, what is not free yet is lost until the next opening, but what is free, and
        // perhaps in use again, is not made free a second time.
        self.region.header().free_known.store(1, Ordering::Release);
        self.page_ids.free_unused(&found.pages);
        self.blocks.free_unused(&found.blocks);
        Ok(())
    }
}

//! Checkpoints: the pages half. The checkpointer is a reader that writes what it sees.
//!
//! Pin S. Every page changed since a checkpoint last looked has its bit in `unsaved` (generation/unsaved.rs);
//! the bits move to `capturing`, and for each page the version valid at S is found, given a block and
//! written; then the map and the superblock name the new blocks. `capturing` is cleared only after that, so
//! that the successor of a checkpointer that failed or died captures the same pages again.
//!
//! Why no change is missed: a commit at c sets the page's bit after it swung the entry and before `visible`
//! reaches c; the checkpointer pins S before it takes bits, so every page changed at or below S has its bit
//! set by then. A page changed above S whose bit was taken gets it back here: capture holds the page's latch,
//! which a commit needs for its swing, so either capture sees the newer version or the commit sets the bit
//! afterwards.
//!
//! What frees a block: one that a checkpoint has named (`captured`) is freed by the checkpoint that replaces
//! it in the map; any other, by the participant that frees the version it holds. The exception are runs
//! (run.rs): of a freed one, old snapshots may read the blocks when the checkpoint takes it out of the map;
//! so it gives them back to the pages' entries, and they are released with the run. That takes this role, so
//! a checkpoint finds a run as a whole or gone as a whole. And where epochs are retained a block stays named
//! until the last map that names it is dropped, that of an epoch perhaps: then the maps say what is free
//! (volume/orphans.rs).
//!
//! *When it fails.* As long as no flush and no superblock has failed, the generation in force is known, and
//! what was written for the next one is named by nothing: its blocks are no longer `captured`, and the next
//! checkpoint does the same again. A flush that fails leaves unknown what is on the disk, and the system may
//! have forgotten what it could not write: it poisons the volume, under the role, and a participant that has
//! waited for the role looks. A later flush that succeeds would say nothing of what was written before the
//! one that failed.
//!
//! *When it is succeeded.* A participant that makes a checkpoint and does not move loses the role to another
//! (generation/succession.rs says why nothing that it does late does harm). It begins anew, unless its
//! superblock was set by then: so its successor has written that. What it has captured stays so: the
//! successor may name it by now.
//!
//! *What is in its way.* Nobody is waited for without end. A page whose latch is not to be had, or whose
//! version somebody is writing, is copied in the end: read as any reader reads it, and written to a block
//! that only the map names; unless the map has it already, somewhere else: the holder of the latch may be
//! telling the page so (relocate.rs). Of a freed run such a page leaves the map, and what it and the map said
//! was its block stays in use: the holder may be about to say that it is the other.

use std::collections::HashSet;

use sablecat_os::atomic::{Ordering, fence};

use super::Store;
use super::capture::{CaptureFinding, CaptureFindings};
use super::relocate::Moving;
use super::relocate::SwitchedGeneration;
use crate::error::{Error, Result};
use crate::pages::participants::LocalParticipant;
use crate::pages::pool::latch::Patience;
use crate::pages::pool::rest::rest_of;
use crate::pages::pool::writing::Writes;
use crate::pages::volume::{FreeEnd, Reserve, Superblock, Volume};
use crate::region::{BlockWord, FrameState, HeldRole};
use crate::types::{BlockId, FrameId, Lsn, PageId, SealedBlock};

/// Versions written together.
const BATCH: usize = 256;
/// How often it tries to have an old version to itself whose block nothing names after all.
const TRIES_UNNAMED: u32 = 1000;

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

impl Store {
    /// Writes a checkpoint of the newest published state, and moves blocks down. `describe` fills in what the
    /// superblock says beyond the pages, given the checkpoint's LSN; it is called again if another took over
    /// and this begins anew. Durable when it returns. Waits for a checkpoint in progress; stops no writer.
    pub(crate) fn checkpoint(
        &self,
        me: &LocalParticipant,
        moving: Moving,
        describe: impl Fn(Lsn, &mut Superblock) -> Result<()>,
    ) -> Result<Captured> {
        let Some(volume) = &self.volume else {
            return Ok(Captured { at: self.region.header().visible(), ..Captured::default() });
        };
        let result = loop {
            let held = self.hold_checkpoint(me)?;
            let result = self.checkpoint_once(volume, &held, me, moving, &describe);
            match &result {
                // Also if it has the role still: one that had it before may have ended its berth, late,
                // taking it for another of the same participant.
                Err(error)
                    if (held.is_succeeded() || error.is_succeeded())
                        && !self.region.is_fenced()
                        && !error.is_volume_in_doubt() => {}
                _ => break result,
            }
        };
        // If this process was taken for dead in the middle, others end it.
        self.region.check_fence()?;
        self.release_freed(me);
        result
    }

    fn checkpoint_once(
        &self,
        volume: &Volume,
        held: &HeldRole<'_>,
        me: &LocalParticipant,
        moving: Moving,
        describe: &impl Fn(Lsn, &mut Superblock) -> Result<()>,
    ) -> Result<Captured> {
        // To the end, also if it is succeeded: what it comes to name it has named, and what it comes to free
        // it has freed, when this is dropped, but for what it keeps back (relocate.rs).
        let _hand = me.in_hand();
        // Not before: the holder of the role before may just have found out.
        self.fail_if_poisoned()?;
        let needed = self.log_needed_from();
        // What an earlier checkpoint has dealt with says nothing of this one's snapshot: it is of another
        // holding (participants/horizon.rs).
        let pinned = self.pinned(me);
        let at = pinned.at();
        let mut changed = CaptureFindings::default();
        self.follow_generation(volume)
            .and_then(|()| {
                self.checkpoint_at(volume, (at, needed), (held, me), moving, &mut changed, describe)
            })
            .inspect_err(|error| self.end_failed(&mut changed, error, (held, me)))
    }

    /// Ends a checkpoint that failed.
    fn end_failed(
        &self,
        changed: &mut CaptureFindings,
        error: &Error,
        (held, me): (&HeldRole<'_>, &LocalParticipant),
    ) {
        if self.region.is_fenced() {
            // Others end it.
        } else if error.is_volume_in_doubt() {
            self.poison();
        } else {
            if !held.is_succeeded() {
                // From here on sweeps leave the versions alone that were valid at the snapshot, as they did
                // before this had come past them.
                self.say_captured(0, held);
                let CaptureFindings { named, patience, .. } = &mut *changed;
                named.iter().for_each(|&(page, block)| self.unname(page, block, patience, me));
            }
            changed.copied.iter().for_each(|&block| _ = self.blocks.release(block));
        }
    }

    /// From where recovery must read the log for a checkpoint that is pinned after this: the newest commit,
    /// or the first chunk of a write set that is being logged. Of a write set that this misses, every chunk
    /// comes later: it is announced before its first chunk.
    pub(crate) fn log_needed_from(&self) -> Lsn {
        let visible = self.region.header().visible();
        fence(Ordering::SeqCst);
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).filter_map(|n| self.region.slot(n).chain()).fold(visible, Lsn::min)
    }

    fn checkpoint_at(
        &self,
        volume: &Volume,
        (at, needed): (Lsn, Lsn),
        (held, me): (&HeldRole<'_>, &LocalParticipant),
        moving: Moving,
        changed: &mut CaptureFindings,
        describe: &impl Fn(Lsn, &mut Superblock) -> Result<()>,
    ) -> Result<Captured> {
        let mut pending = Writes::new(self);
        // Where the map is to name what is pending, once its seals are known.
        let mut places = Vec::new();
        let mut written = 0;
        let words = self.unsaved_words();
        for word in 0..words {
            for page in self.take_unsaved(word, held).ok_or_else(Error::succeeded)? {
                self.move_on();
                // Before anything is written: there may be no room but in blocks that are free.
                self.learn_free(volume)?;
                if u64::from(page.0) < changed.done_below {
                    continue;
                }
                let found = self.capture_when_idle(volume, page, at, me, changed)?;
                let (block, freed_after) = match found {
                    CaptureFinding::Block(block) => (block, 0),
                    CaptureFinding::Write(claim) => {
                        pending.push(claim);
                        places.push(changed.map.len());
                        (claim.1.sealed(), 0)
                    }
                    CaptureFinding::Freed(after) => (SealedBlock::NONE, after),
                    CaptureFinding::Younger => (SealedBlock::NONE, 0),
                    CaptureFinding::Moved => continue,
                    CaptureFinding::Busy => unreachable!("waited for"),
                };
                changed.map.push((page, block));
                if block != SealedBlock::NONE {
                    self.capture_rest(volume, page, at, me, changed)?;
                } else {
                    self.give_up_rest(volume, page, freed_after, me, changed)?;
                }
                if pending.len() >= BATCH {
                    written += pending.len() as u64;
                    changed.name(&pending.write_captured(held, me)?, &mut places);
                }
            }
            self.say_captured(word as u32 + 1, held);
        }
        // What came into being after the snapshot may lie above the words.
        self.say_captured(u32::MAX, held);
        written += pending.len() as u64;
        changed.name(&pending.write_captured(held, me)?, &mut places);

        let CaptureFindings { map: changes, given_up, patience, .. } = changed;
        if !changes.is_empty() || moving != Moving::Little {
            self.learn_free(volume)?;
        }
        let before = volume.superblock();
        let mut next = before.clone();
        next.checkpoint = at;
        next.log_position = needed;
        // Until it is known what is free the marks stay what they were at the opening: what lies below them
        // and the map does not name is free as soon as that is learnt, and above them others have pages and
        // blocks in hand that no map names yet.
        let is_free_known = self.region.header().free_known.load(Ordering::Acquire) != 0;
        if is_free_known {
            next.page_count = self.page_ids.used_count();
            next.pages_high = self.page_ids.high_water() as u32;
        }
        next.tree_next = self.region.header().tree_next.0.load(Ordering::Acquire);
        // A checkpointer that was succeeded may find what its successor has written, and takes it for nothing
        // else.
        describe(at, &mut next)
            .map_err(|error| if held.is_succeeded() { Error::succeeded() } else { error })?;
        if before.epochs.iter().any(|epoch| !next.epochs.contains(epoch)) {
            // Blocks will be released, which must not happen while all count as used: they would be made free
            // again later on.
            self.learn_free(volume)?;
        }
        let SwitchedGeneration { after, freed, moved } =
            self.write_checkpoint(volume, changes, is_free_known.then_some(moving), next, (held, me))?;
        let changed = moved > 0 || !freed.is_empty();
        given_up.sort_unstable();
        let is_given_up =
            |block: BlockId| given_up.binary_search_by_key(&block, |given_up| given_up.0).is_ok();
        if before.epochs.is_empty() && after.epochs.is_empty() {
            let freed: Vec<_> = freed.into_iter().filter(|&block| !is_given_up(block)).collect();
            self.empty_if_short(freed.iter().copied());
            self.end_shortness();
            freed.into_iter().for_each(|block| _ = self.blocks.release(block));
            // No map names these any more; some snapshot may read them. They go with the pages.
            for &(block, page) in &*given_up {
                self.give_back_to_run(page, block, patience, (held, me))?;
            }
        } else {
            // Of these the map did not tell any more: one that was succeeded had taken them out of it, and
            // not given them back.
            let freed: HashSet<_> = freed.into_iter().collect();
            for &(block, page) in given_up.iter().filter(|given_up| !freed.contains(&given_up.0)) {
                if !volume.is_in_epochs(&before, page, block) {
                    self.give_back_to_run(page, block, patience, (held, me))?;
                }
            }
            // Which of the blocks no epoch names, and which only epochs did that are retained no longer.
            for (page, block) in volume.orphans(&before, &after) {
                if is_given_up(block) {
                    self.give_back_to_run(page, block, patience, (held, me))?;
                } else {
                    self.let_go(page, block, patience, me)?;
                }
            }
        }
        for word in 0..words {
            self.forget_captured(word, held);
        }
        // The checkpoint stands whether or not the file could be cut; the next one tries again.
        // While others may write to it, the file is not cut under them.
        if self.region.membership().is_none() {
            let _ = volume.give_back_tail(
                &self.blocks,
                if moving.is_for_any_gain() { FreeEnd::Little } else { FreeEnd::Steps },
            );
        }
        let moving = (changed || self.is_moving()) && self.is_worth_moving(volume, moving);
        Ok(Captured { at, needed, pages: changes.len() as u64, written, moved, moving })
    }

    /// Gives the free end of the file back, all but the reserve. For the last to write to the volume, whose
    /// checkpoint stands whether or not this can be done. False if there is no space for the whole reserve.
    pub(crate) fn give_back_tail(&self) -> bool {
        let given_back =
            self.volume.as_ref().map(|volume| volume.give_back_tail(&self.blocks, FreeEnd::Reserve));
        !matches!(given_back, Some(Ok(Reserve::Short)))
    }

    /// Gives back half of the reserve, for a process that needs it and is alone.
    pub(crate) fn give_back_reserve(&self, me: &LocalParticipant) {
        // Without this everything counts as used up to the highest block that ever was.
        let _ = self.learn_free_early(me);
        let _ = self.volume.as_ref().map(|volume| volume.give_back_tail(&self.blocks, FreeEnd::Half));
    }

    /// Takes the `count` pages after `first`, which are free with it, out of the map.
    fn give_up_rest(
        &self,
        volume: &Volume,
        first: PageId,
        count: u64,
        me: &LocalParticipant,
        changed: &mut CaptureFindings,
    ) -> Result<()> {
        for page in rest_of(first, count) {
            self.learn_block(page)?;
            let latch = self.hold_patiently(page, &mut changed.patience, me)?;
            let word = self.only_block(page);
            if word.is_captured() {
                changed.given_up.push((word.block(), page));
            }
            if latch.is_none() {
                // Its holder may be about to tell the page that it was moved to where the map has it
                // (relocate.rs). So that block is not freed with the map's name for it either.
                let (leaf, blocks) = volume.lookup_leaf(page)?;
                let named = blocks[(page.0 - leaf.0) as usize];
                if named != SealedBlock::NONE && named.block() != word.block() {
                    changed.given_up.push((named.block(), page));
                }
            }
            changed.map.push((page, SealedBlock::NONE));
            changed.done_below = u64::from(page.0) + 1;
        }
        Ok(())
    }

    /// Has the block of a freed run's page, which no map names any more, go with the run. A successor finds
    /// the run once more, and does the same. So the role is looked for under the latch, without which nobody
    /// releases the run: later the block may be another page's, or the page another run's. Whoever keeps the
    /// page latched for too long keeps the block in use, until it is found lost (lost.rs).
    fn give_back_to_run(
        &self,
        page: PageId,
        block: BlockId,
        patience: &mut Patience,
        (held, me): (&HeldRole<'_>, &LocalParticipant),
    ) -> Result<()> {
        let own = |word: BlockWord| {
            if word.block() == block && !held.is_succeeded() { word.uncaptured() } else { word }
        };
        self.change_block(page, patience, me, own).map(drop)
    }

    /// Frees a block that no map names any more. If it is that of a run that was freed and is still read by
    /// some snapshot, it goes with the run; if that cannot be told, since somebody keeps the page latched, it
    /// stays in use until it is found lost (lost.rs).
    fn let_go(
        &self,
        page: PageId,
        block: BlockId,
        patience: &mut Patience,
        me: &LocalParticipant,
    ) -> Result<()> {
        let is_known = page != PageId::NONE && u64::from(page.0) < self.page_ids.high_water();
        let own = |word: BlockWord| if word.block() == block { word.uncaptured() } else { word };
        if !is_known || self.change_block(page, patience, me, own)?.is_some_and(|word| word.block() != block)
        {
            self.blocks.release(block);
        }
        Ok(())
    }

    /// Changes, under the latch, what is known of the block of a page's only version, and says what it was;
    /// none if the latch is not to be had.
    pub(super) fn change_block(
        &self,
        page: PageId,
        patience: &mut Patience,
        me: &LocalParticipant,
        change: impl Fn(BlockWord) -> BlockWord,
    ) -> Result<Option<BlockWord>> {
        let Some(latch) = self.hold_patiently(page, patience, me)? else { return Ok(None) };
        let current = latch.current();
        let before = self.only_block(page);
        let after = change(before);
        // A block that is being written is not touched: its writer ends that without the latch.
        if after != before && current != FrameId::NONE {
            self.region.frame(current).set_block(after);
        } else if after != before {
            self.region.entry(page).set_block(after);
        }
        Ok(Some(before))
    }

    /// What is known of the block of a page that has one version. Without the latch it may come into memory,
    /// or leave it, meanwhile.
    fn only_block(&self, page: PageId) -> BlockWord {
        let entry = self.region.entry(page);
        loop {
            let frame = entry.word().frame();
            let word = if frame == FrameId::NONE { entry.block() } else { self.region.frame(frame).block() };
            if entry.word().frame() == frame {
                return word;
            }
        }
    }

    /// Takes back that a checkpoint names a block, for one that names nothing after all: from then on the
    /// participant that frees the version on it frees it, as any other; or it is free already, if that
    /// version is gone. Not if somebody keeps the page latched: then the block is found lost once the version
    /// is gone (lost.rs).
    fn unname(&self, page: PageId, block: BlockId, patience: &mut Patience, me: &LocalParticipant) {
        // If this process was taken for dead, others mend what is left.
        let Ok(Some(latch)) = self.hold_patiently(page, patience, me) else { return };
        let current = latch.current();
        let entry = self.region.entry(page);
        let is_it = |word: BlockWord| word.block() == block;
        if current == FrameId::NONE {
            if is_it(entry.block()) {
                entry.set_block(entry.block().uncaptured());
            } else {
                self.blocks.release(block);
            }
        } else if is_it(self.region.frame(current).block()) {
            // Nobody frees, evicts or supersedes it: that takes the latch.
            let desc = self.region.frame(current);
            desc.set_block(desc.block().uncaptured());
        } else if let Some(frame) = self.older_on_block(current, block, page) {
            self.unname_old(frame, block, page, me);
        } else {
            // Gone; or out of reach for every snapshot to come, and then it will not be freed with the
            // version: that still says it is a checkpoint's.
            self.blocks.release(block);
        }
    }

    /// The version of a latched page, behind `current`, that is on a block. Sweeps may have claimed any of
    /// them for a moment.
    fn older_on_block(&self, current: FrameId, block: BlockId, page: PageId) -> Option<FrameId> {
        let mut at = current;
        loop {
            let born = Lsn(self.region.born(at).load(Ordering::Acquire));
            let next = self.region.frame(at).previous();
            if next == FrameId::NONE || !self.leads_on(born, next, page) {
                return None;
            }
            if self.region.frame(next).block().block() == block {
                return Some(next);
            }
            at = next;
        }
    }

    /// [`Store::unname`] for a version that is not the current one, so that others may free it at any moment.
    fn unname_old(&self, frame: FrameId, block: BlockId, page: PageId, me: &LocalParticipant) {
        let desc = self.region.frame(frame);
        let is_it = || desc.page() == page && desc.block().block() == block;
        for _ in 0..TRIES_UNNAMED {
            // A participant that frees it says first that it is on no block.
            if !is_it() {
                self.blocks.release(block);
                return;
            }
            if desc.change(FrameState::Published, FrameState::Claimed(me.number())) {
                // Claimed; now look again.
                let claimed = is_it();
                if claimed {
                    desc.set_block(desc.block().uncaptured());
                }
                desc.set_state(FrameState::Published);
                if claimed {
                    return;
                }
            } else {
                sablecat_os::atomic::yield_now();
            }
        }
        // The participant that has claimed it was stopped just there. The block stays in use until it is
        // found lost (lost.rs).
    }
}

//! Capturing: finding the version of a page that a checkpoint is to have, and where it is or is to be.

use std::time::Duration;

use sablecat_os::atomic::Ordering;
use sablecat_os::disk::AlignedBuf;

use super::Store;
use crate::error::Result;
use crate::pages::header;
use crate::pages::participants::LocalParticipant;
use crate::pages::pool::latch::{PageLatch, Patience};
use crate::pages::pool::rest::rest_of;
use crate::pages::pool::writing::MarkedVersion;
use crate::pages::volume::Volume;
use crate::region::{BlockWord, FrameState, WRITTEN_QUEUE};
use crate::types::{BlockId, FrameId, Lsn, PageId, SealedBlock, VolumeId};

/// What capture found for one page.
pub(super) enum CaptureFinding {
    /// The map is to name this block for it (none: the page is free).
    Block(SealedBlock),
    /// As `Block`, after this version has been written there.
    Write(MarkedVersion),
    /// The page is free, and with it so many pages after it.
    Freed(u64),
    /// The map has it already, on another block than the version says.
    Moved,
    /// The page came into being after the snapshot. If the map names it, then for an earlier life.
    Younger,
    /// A sweep is writing the version, or looking at it, at this moment.
    Busy,
}

/// What a checkpoint has found so far.
#[derive(Default)]
pub(super) struct CaptureFindings {
    /// What the map is to say: sorted by page, each page once.
    pub(super) map: Vec<(PageId, SealedBlock)>,
    /// Pages below were dealt with, as parts of a run, before their turn.
    pub(super) done_below: u64,
    /// Blocks of freed runs that an earlier checkpoint has named, to be given back to these pages.
    pub(super) given_up: Vec<(BlockId, PageId)>,
    /// Blocks that this checkpoint is the first to name, and what they hold. Before the superblock is written
    /// nothing hangs on that.
    pub(super) named: Vec<(PageId, BlockId)>,
    /// Blocks of copies, which nobody knows but this checkpoint.
    pub(super) copied: Vec<BlockId>,
    /// How long it waits for others that are writing versions that it needs, or have their pages latched;
    /// then it copies them.
    pub(super) patience: Patience,
}

impl CaptureFindings {
    /// Has the map name, at these places of it, what has just been written there.
    pub(super) fn name(&mut self, written: &[(PageId, SealedBlock)], places: &mut Vec<usize>) {
        for (place, &(page, block)) in places.drain(..).zip(written) {
            self.map[place].1 = block;
            self.named.push((page, block.block()));
        }
    }
}

impl Store {
    /// Captures a page, when its latch is to be had and nobody is writing its version any more. A participant
    /// that is at it may be stopped, or wait for the disk for as long: not all are waited for.
    pub(super) fn capture_when_idle(
        &self,
        volume: &Volume,
        page: PageId,
        at: Lsn,
        me: &LocalParticipant,
        changed: &mut CaptureFindings,
    ) -> Result<CaptureFinding> {
        let held = self.hold_patiently(page, &mut changed.patience, me)?;
        let Some(latch) = held else { return self.copy_version(volume, page, None, at, me, changed) };
        match self.capture(page, latch, at, me, changed)? {
            CaptureFinding::Busy => {}
            found => return Ok(found),
        }
        let until = changed.patience.until(Duration::ZERO);
        let found = self.region.queue(WRITTEN_QUEUE).wait_until(Some(until), |_| {
            match self.try_hold(page, me).map(|latch| self.capture(page, latch, at, me, changed)) {
                None | Some(Ok(CaptureFinding::Busy)) => self.region.check_fence().err().map(Err),
                found => found,
            }
        });
        found.unwrap_or_else(|| self.copy_version(volume, page, None, at, me, changed))
    }

    /// Finds, of a page latched by `me`, what the map is to say of it, and marks the block as a checkpoint's.
    fn capture(
        &self,
        page: PageId,
        latch: PageLatch<'_>,
        at: Lsn,
        me: &LocalParticipant,
        changed: &mut CaptureFindings,
    ) -> Result<CaptureFinding> {
        let current = latch.current();
        // Inside an operation at the pin: a checkpointer that was succeeded may have lost that, like any
        // snapshot, and finds it out before it looks.
        let found =
            self.at_pin(me, at).and_then(|_operation| self.capture_latched(page, current, at, me, changed));
        let newer = current != FrameId::NONE && self.region.born(current).load(Ordering::Acquire) > at.0;
        if newer {
            self.mark_unsaved(page);
        }
        found
    }

    /// Copies the version of a page to a block that nothing but the map will name: the participant that has
    /// the page's latch, or is writing the version, is stopped, or takes too long. The version's own block,
    /// if it has one, goes with it, the copy's goes with the map. `run`: the first page of the run that the
    /// page is of the rest of, which is captured.
    fn copy_version(
        &self,
        volume: &Volume,
        page: PageId,
        run: Option<PageId>,
        at: Lsn,
        me: &LocalParticipant,
        changed: &mut CaptureFindings,
    ) -> Result<CaptureFinding> {
        // What else becomes of the page under that latch the next checkpoint is to see.
        self.mark_unsaved(run.unwrap_or(page));
        let entry = self.region.entry(page);
        let mut bytes = AlignedBuf::new(volume.block_size());
        let page_size = volume.page_size();
        let home = loop {
            let frame = entry.word().frame();
            if frame == FrameId::NONE {
                self.learn_block(page)?;
                let word = entry.block();
                if word.is_rest() && !word.is_captured() && run.is_none() {
                    return Ok(CaptureFinding::Younger);
                }
                if word.block() == BlockId::NONE {
                    return Ok(CaptureFinding::Block(SealedBlock::NONE));
                }
                if word.is_captured() {
                    return self.name_captured(volume, page, word.sealed());
                }
                let read = self.check_stored(volume, page, word.sealed(), &mut bytes);
                // The block is the version's as long as it stands there.
                if entry.word().frame() != FrameId::NONE || entry.block() != word {
                    continue;
                }
                read?;
                break word.volume();
            }
            let shown = self.operate(me, || {
                let _operation = self.at_pin(me, at)?;
                let version = self.version(page, at, me)?;
                // SAFETY: the operation looks at it, or the pin keeps it.
                bytes[..page_size].copy_from_slice(unsafe { self.region.page(version) });
                Ok(self.region.frame(version).block())
            });
            match shown {
                // Its block is a checkpoint's, perhaps of the one in force. Were the map to name another,
                // this one would be freed, and be the version's still.
                Ok(word) if word.is_captured() => return self.name_captured(volume, page, word.sealed()),
                Ok(word) => break word.volume(),
                Err(error) if error.is_not_there() => return Ok(CaptureFinding::Younger),
                Err(error) => return Err(error),
            }
        };
        if header::is_free(&bytes) {
            return Ok(CaptureFinding::Freed(header::freed_after(&bytes)));
        }
        // Looked at without the latch, the frame may have been another page's: then any volume will do.
        let home = if home.index() < volume.count() { home } else { VolumeId::MAIN };
        let block = self.allocate_block(home)?;
        changed.copied.push(block);
        let sealed = self.with_room(volume, || self.write_blocks(volume, &[(block, &bytes[..page_size])]))?;
        Ok(CaptureFinding::Block(sealed[0]))
    }

    /// Has the map name the block of a version that is a checkpoint's, without the page's latch. Unless the
    /// map has the page elsewhere, with the same in it: the holder of the latch may be about to tell the page
    /// that it was moved there (relocate.rs), so there it stays.
    fn name_captured(&self, volume: &Volume, page: PageId, block: SealedBlock) -> Result<CaptureFinding> {
        let moved = self.moved_to(volume, page, block, &mut Self::two_blocks(volume))?;
        Ok(moved.map_or(CaptureFinding::Block(block), |_| CaptureFinding::Moved))
    }

    /// Names the pages that were stored past the pool together with `first`, if there are any.
    pub(super) fn capture_rest(
        &self,
        volume: &Volume,
        first: PageId,
        at: Lsn,
        me: &LocalParticipant,
        changed: &mut CaptureFindings,
    ) -> Result<()> {
        // Looked at again under the latch.
        let own = |word: BlockWord| if word.is_rest() { word.captured() } else { word };
        for page in rest_of(first, u64::from(u32::MAX - first.0)).take_while(|&page| self.is_rest(page)) {
            let named = loop {
                if let Some(before) = self.change_block(page, &mut changed.patience, me, own)? {
                    if !before.is_captured() {
                        changed.named.push((page, before.block()));
                    }
                    break Some(before.sealed());
                }
                match self.copy_version(volume, page, Some(first), at, me, changed)? {
                    CaptureFinding::Block(block) => break Some(block),
                    CaptureFinding::Moved => break None,
                    // Not what a page of a run is: so it is waited for after all.
                    _ => drop(self.hold(page, me)?),
                }
            };
            changed.map.extend(named.map(|block| (page, block)));
            changed.done_below = u64::from(page.0) + 1;
        }
        Ok(())
    }

    fn capture_latched(
        &self,
        page: PageId,
        current: FrameId,
        at: Lsn,
        me: &LocalParticipant,
        changed: &mut CaptureFindings,
    ) -> Result<CaptureFinding> {
        let entry = self.region.entry(page);
        if current == FrameId::NONE {
            self.learn_block(page)?;
            let word = entry.block();
            if word.is_rest() && !word.is_captured() {
                // Stored past the pool: its run's first page, which comes before it, has not been published
                // at the snapshot. The mark is from an earlier life of the page.
                return Ok(CaptureFinding::Younger);
            }
            if word.block() != BlockId::NONE && !word.is_captured() {
                entry.set_block(word.captured());
                changed.named.push((page, word.block()));
            }
            return Ok(CaptureFinding::Block(word.sealed()));
        }
        let mut frame = current;
        loop {
            let born = Lsn(self.region.born(frame).load(Ordering::Acquire));
            if born <= at {
                break;
            }
            let previous = self.region.frame(frame).previous();
            if previous == FrameId::NONE {
                return Ok(CaptureFinding::Younger);
            }
            if !self.links(born, previous, page) {
                // A sweep may have claimed the frame for a moment, to look at it closer.
                let desc = self.region.frame(previous);
                let claimed = matches!(desc.state(), FrameState::Claimed(_)) && desc.page() == page;
                return Ok(if claimed { CaptureFinding::Busy } else { CaptureFinding::Younger });
            }
            frame = previous;
        }
        // SAFETY: the checkpoint's pin covers this version, and the latch keeps the current one from
        // eviction.
        let bytes = unsafe { self.region.page(frame) };
        if header::is_free(bytes) {
            return Ok(CaptureFinding::Freed(header::freed_after(bytes)));
        }
        let desc = self.region.frame(frame);
        // A participant with an old hint may have claimed it for a moment.
        debug_assert!(desc.holds_version(), "{:?}", desc.state());
        let word = desc.block();
        if word.is_saved() {
            if !word.is_captured() {
                desc.set_block(word.captured());
                changed.named.push((page, word.block()));
            }
            return Ok(CaptureFinding::Block(word.sealed()));
        }
        Ok(self.claim_write(frame, me)?.map_or(CaptureFinding::Busy, CaptureFinding::Write))
    }
}

//! Moving blocks down, so that the free end of the file can be given back.
//!
//! Deletions leave holes all over a file. A checkpoint that finds many of them copies pages from above the *bound* (as many blocks as are
//! in use would end there) to the lowest free blocks of the same volume, and names the copies in the map together with what it captured. Map blocks above
//! the bound are written anew, which moves them down as well. Nothing is ever overwritten, so a crash leaves the old places or the new.
//!
//! What is moved is what the map in force names and this checkpoint does not change: bytes that nobody can change, read from the file.
//! Who knows the old block by name is told once the checkpoint is durable, and before the block is given up:
//! - the page's entry, under the page's latch, so nobody is reading the old block in meanwhile. An entry that has not been filled yet is
//!   filled, lest somebody who looked the map up before the checkpoint fill it afterwards;
//! - the current version, if it is the one on the block.
//!
//! If the page was changed meanwhile, the version on the block is an old one by now, and may be freed at any moment; but until the change
//! becomes visible, the next checkpoint may capture it and name its block. So that block is kept back, until a checkpoint has captured the page.
//!
//! While that is being told nobody takes the checkpoint role over, if only its process lives: who was succeeded would tell late, of places that others have moved the pages from. One who was
//! succeeded before it begins to tell leaves it, and so does who dies: the old places hold what the new ones do. Who looks for what is lost (lost.rs) tells then, and the old places are.
//!
//! Each checkpoint moves a bounded number of blocks, looking at a bounded number of map leaves, and the next one goes on from there.
//! Moving is worth nothing if it costs the checkpoint: a page that cannot be read stays where it is, and if the disk is full, all do. While
//! epochs are retained, or will be, nothing is moved: they would keep the old places, and the file would grow instead.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering as StdOrdering;

use sablecat_os::disk::AlignedBuf;

use super::volume::{Bounds, CHECKSUM_BYTES, CheckpointPlan, Found, InUse, Marks, Superblock, Volume, first_within};
use super::{Pages, Participant};
use crate::error::{Error, Result};
use crate::region::{BlockWord, Held, Moored};
use crate::types::{BlockId, FrameId, PageId, SealedBlock, VolumeId};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// Map leaves looked at by one checkpoint.
const LEAVES_MAX: u64 = 1024;

/// How much a checkpoint moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moving {
    /// Little, and only if more than a quarter of the file is free.
    Little,
    /// Much, and whatever it gains.
    Much,
}

impl Moving {
    /// Blocks that one checkpoint moves at most.
    fn blocks_max(self) -> usize {
        match self {
            Moving::Little => 4096,
            Moving::Much => 65536,
        }
    }
}

/// A page and where it was and will be.
#[derive(Clone, Copy, Debug)]
struct Move {
    page: PageId,
    from: SealedBlock,
    to: SealedBlock,
}

/// What came of a checkpoint that stands.
#[derive(Debug)]
pub(super) struct Switched {
    /// Its superblock.
    pub(super) after: Superblock,
    /// Blocks that nothing names any more.
    pub(super) freed: Vec<BlockId>,
    /// How many pages were moved.
    pub(super) moved: u64,
}

/// Blocks that pages were moved from and that a version may bring up again, each with its page.
///
/// Only the process that writes every checkpoint knows when such a block is free. Once another process has written one, which may have named
/// the block again, they are given up: lost ([`lost`](super::lost)).
#[derive(Debug, Default)]
pub(super) struct KeptBack {
    /// That of the checkpoint after which they were kept back.
    generation: u64,
    blocks: Vec<(PageId, BlockId)>,
}

/// What a checkpoint moves.
#[derive(Debug)]
struct Moves {
    pages: Vec<Move>,
    /// Pages that stay where they are, under map blocks that do not.
    touched: Vec<(PageId, SealedBlock)>,
    /// Of each volume: nothing at or above this place is to remain.
    bounds: Bounds,
}

impl Moves {
    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.touched.is_empty()
    }

    /// The changes of the map, with those of a checkpoint.
    fn with(&self, changes: &[(PageId, SealedBlock)]) -> Vec<(PageId, SealedBlock)> {
        let moved = self.pages.iter().map(|one| (one.page, one.to));
        let mut all: Vec<_> = changes.iter().copied().chain(moved).chain(self.touched.iter().copied()).collect();
        all.sort_unstable_by_key(|change| change.0);
        all
    }
}

impl Pages {
    /// Writes the map that results from `changes` and from moving blocks, and puts it in force; without either (none), if it is not known what is free. The caller has the
    /// checkpoint role, or had it: then this fails, or another has put it in force.
    pub(super) fn write_checkpoint(
        &self,
        volume: &Volume,
        changes: &[(PageId, SealedBlock)],
        moving: Option<Moving>,
        next: Superblock,
        (held, me): (&Held<'_>, &Participant),
    ) -> Result<Switched> {
        let marks = if moving.is_some() { Marks::Now } else { Marks::AsBefore };
        let moves = self.copy_down(volume, changes, moving.filter(|_| !next.retains()))?;
        // After the copies, before anything that names the next generation; until it is in force.
        let mut moored = self.take_berth(volume, me)?;
        if held.is_succeeded() {
            self.give_up(&moves.pages);
            return Err(Error::succeeded());
        }
        if !moves.is_empty() {
            let all = moves.with(changes);
            match self.switch(volume, (&all, BlockId(moves.bounds[VolumeId::MAIN]), marks), next.clone(), &mut moored) {
                Ok((after, mut freed)) => {
                    // Who was succeeded leaves the pages where it knows them: both places hold the same, and the old ones stay in use.
                    let moved = if moored.name() { &moves.pages[..] } else { &[] };
                    if moved.is_empty() {
                        let stay: HashSet<_> = moves.pages.iter().map(|one| one.from.block()).collect();
                        freed.retain(|block| !stay.contains(block));
                    }
                    self.keep_back(moved, changes, &mut freed, after.generation, me)?;
                    return Ok(Switched { after, freed, moved: moved.len() as u64 });
                }
                // Perhaps they are named now.
                Err(error) if error.is_volume_in_doubt() => return Err(error),
                Err(error) => {
                    self.give_up(&moves.pages);
                    // Without moves there is less to write.
                    if !error.is_full() {
                        return Err(error);
                    }
                }
            }
        }
        let (after, mut freed) = self.switch(volume, (changes, BlockId(u64::MAX), marks), next, &mut moored)?;
        drop(moored);
        self.keep_back(&[], changes, &mut freed, after.generation, me)?;
        Ok(Switched { after, freed, moved: 0 })
    }

    /// Makes the next generation durable and says that it is in force.
    fn switch(
        &self,
        volume: &Volume,
        (changes, rewrite_from, marks): (&[(PageId, SealedBlock)], BlockId, Marks),
        next: Superblock,
        moored: &mut Moored<'_>,
    ) -> Result<(Superblock, Vec<BlockId>)> {
        let berth = moored.berth();
        let written =
            volume.write_checkpoint(CheckpointPlan { changes, blocks: &self.blocks, rewrite_from, marks, next, berth }, &mut |draft| {
                self.move_on();
                self.region.check_fence()?;
                // A late flush of somebody who was succeeded may have failed since the role was taken.
                self.fail_if_poisoned()?;
                if moored.set(draft) { Ok(()) } else { Err(Error::succeeded()) }
            });
        // Before the berth is given back: until then others would have to settle it.
        match written {
            Ok((after, freed)) => {
                self.say_in_force(after.generation, after.checkpoint.0);
                Ok((after, freed))
            }
            Err(error) => {
                if error.is_volume_in_doubt() && !self.region.is_fenced() {
                    self.poison();
                }
                Err(error)
            }
        }
    }

    /// Whether a checkpoint would look for something to move.
    pub(super) fn is_worth_moving(&self, volume: &Volume, moving: Moving) -> bool {
        !volume.superblock().retains() && self.blocks.volumes().any(|one| self.has_holes(volume, one, moving))
    }

    /// Whether so much of a volume is free that its pages should be moved down.
    fn has_holes(&self, volume: &Volume, one: VolumeId, moving: Moving) -> bool {
        let high = self.blocks.of(one).high_water();
        let free = high.saturating_sub(self.blocks.of(one).used_count());
        free > 0 && (moving == Moving::Much || 4 * free > high.saturating_sub(first_within(one, volume.block_size())))
    }

    /// True unless the search for blocks to move has just come to its end.
    pub(crate) fn is_moving(&self) -> bool {
        self.moved_below.load(StdOrdering::Relaxed) != 0
    }

    /// Copies pages to lower blocks, unless none are to be moved.
    fn copy_down(&self, volume: &Volume, changes: &[(PageId, SealedBlock)], moving: Option<Moving>) -> Result<Moves> {
        let mut moves = Moves { pages: Vec::new(), touched: Vec::new(), bounds: Bounds::new([]) };
        if let Some(moving) = moving.filter(|&moving| self.is_worth_moving(volume, moving)) {
            moves.bounds = Bounds::new(
                self.blocks
                    .volumes()
                    .map(|one| if self.has_holes(volume, one, moving) { self.blocks.of(one).used_count() } else { u64::MAX }),
            );
            self.choose(volume, changes, moving, &mut moves)?;
            self.copy(volume, &mut moves)?;
        } else {
            self.moved_below.store(0, StdOrdering::Relaxed);
        }
        Ok(moves)
    }

    /// Chooses what to move, from where the last choice ended.
    fn choose(&self, volume: &Volume, changes: &[(PageId, SealedBlock)], moving: Moving, moves: &mut Moves) -> Result<()> {
        let from = self.moved_below.load(StdOrdering::Relaxed);
        let to = from.saturating_add(LEAVES_MAX * volume.leaf_span());
        let mut next = if to < self.page_ids.high_water() { to } else { 0 };
        let (mut above, mut full) = (false, false);
        volume.walk(from..to, &mut |found| {
            match found {
                Found::Map(block) => above |= block.within() >= moves.bounds[VolumeId::MAIN],
                // Whoever needs it will say so.
                Found::Damaged(..) => {}
                Found::Page(page, block) => {
                    let changed = changes.binary_search_by_key(&page, |change| change.0).is_ok();
                    if full || changed {
                    } else if block.block().within() >= moves.bounds[block.block().volume()] {
                        moves.pages.push(Move { page, from: block, to: SealedBlock::NONE });
                    } else if above {
                        moves.touched.push((page, block));
                    }
                    // The path to one page below a map block leads through it.
                    above = false;
                    if !full && moves.pages.len() >= moving.blocks_max() {
                        full = true;
                        next = u64::from(page.0) + 1;
                    }
                }
            }
            Ok(())
        })?;
        self.moved_below.store(next, StdOrdering::Relaxed);
        Ok(())
    }

    /// Copies what was chosen, in batches. What cannot be copied is left out.
    fn copy(&self, volume: &Volume, moves: &mut Moves) -> Result<()> {
        let (block_size, page_size) = (volume.block_size(), volume.page_size());
        let mut memory = AlignedBuf::new(COPY_BYTES.max(block_size));
        let chosen = std::mem::take(&mut moves.pages);
        for batch in chosen.chunks(COPY_BYTES / block_size) {
            let mut copied = Vec::with_capacity(batch.len());
            for one in batch {
                let Some(to) = self.block_below(one.from.block().volume(), &moves.bounds) else { continue };
                let bytes = &mut memory[copied.len() * block_size..][..block_size];
                let good = self.check_stored(volume, one.page, one.from, bytes).is_ok();
                copied.push((Move { to: SealedBlock::unsealed(to), ..*one }, good));
            }
            let images: Vec<_> = copied
                .iter()
                .zip(memory.chunks_exact(block_size))
                .filter(|((_, good), _)| *good)
                .map(|((one, _), bytes)| (one.to.block(), &bytes[..page_size]))
                .collect();
            // Of who was taken for dead they may be others' by now.
            self.region.check_fence()?;
            let written = volume.write_blocks(&images);
            let (good, bad): (Vec<_>, Vec<_>) = copied.into_iter().partition(|(_, good)| *good && written.is_ok());
            self.give_up(&bad.into_iter().map(|(one, _)| one).collect::<Vec<_>>());
            match written {
                Err(error) if error.is_full() => break,
                Err(error) => {
                    self.give_up(&moves.pages);
                    return Err(error);
                }
                Ok(sealed) => moves.pages.extend(good.into_iter().zip(sealed).map(|((one, _), to)| Move { to, ..one })),
            }
        }
        Ok(())
    }

    /// The lowest free block of a volume, if it is within the bounds.
    fn block_below(&self, volume: VolumeId, bounds: &Bounds) -> Option<BlockId> {
        let block = self.allocate_block(volume).ok()?;
        if block.within() < bounds[volume] {
            return Some(block);
        }
        self.blocks.release(block);
        None
    }

    /// Frees the blocks of copies that nothing will name.
    fn give_up(&self, moves: &[Move]) {
        moves.iter().for_each(|one| _ = self.blocks.release(one.to.block()));
    }

    /// Tells pages where the map in force has them, which uses `used`, if whoever moved them there died, or was succeeded, before it could.
    pub(super) fn tell_moved(&self, volume: &Volume, used: &InUse, (held, me): (&Held<'_>, &Participant)) -> Result<()> {
        let (mut here, mut there) = (AlignedBuf::new(volume.block_size()), AlignedBuf::new(volume.block_size()));
        for page in (1..used.pages.bound()).filter(|&page| used.pages.contains(page)).map(|page| PageId(page as u32)) {
            let entry = self.region.entry(page);
            let word = match entry.word().frame() {
                FrameId::NONE => entry.block(),
                frame => self.region.frame(frame).block(),
            };
            if !word.is_captured() || !word.is_saved() || used.blocks.contains(word.block()) {
                continue;
            }
            self.move_on();
            let (first, blocks) = volume.lookup_leaf(page)?;
            let (from, to) = (word.sealed(), blocks[(page.0 - first.0) as usize]);
            // Of what was captured for a map that never came the map has an older version. Damage is for who needs it to complain of.
            let are_good =
                self.check_stored(volume, page, from, &mut here).is_ok() && self.check_stored(volume, page, to, &mut there).is_ok();
            let content = CHECKSUM_BYTES..volume.page_size();
            if are_good && here[content.clone()] == there[content] {
                // Looked at under the latch: a successor may move the page once more, and tells it under the latch, before it gives up the place.
                self.rename_block(&Move { page, from, to }, || !held.is_succeeded(), me)?;
            }
        }
        Ok(())
    }

    /// Makes everything in memory that names the block a page was moved from name the new one, if that may be, looked at under the page's latch. False if there are
    /// older versions, one of which may name it still.
    fn rename_block(&self, moved: &Move, may_be: impl Fn() -> bool, me: &Participant) -> Result<bool> {
        let Move { page, from, to } = *moved;
        let current = self.latch(page, me)?;
        if !may_be() {
            self.unlatch(page, me);
            return Ok(false);
        }
        let entry = self.region.entry(page);
        let word = entry.block();
        if word.block() == from.block() || (!word.is_known() && current == FrameId::NONE) {
            entry.set_block(BlockWord::mapped(to));
        }
        let renamed = current == FrameId::NONE || {
            // Nobody frees, evicts or supersedes it: that takes the latch.
            let desc = self.region.frame(current);
            let is_it = desc.block().block() == from.block();
            if is_it {
                desc.set_block(BlockWord::mapped(to));
            }
            is_it || desc.previous() == FrameId::NONE
        };
        self.unlatch(page, me);
        Ok(renamed)
    }

    /// The blocks that are kept back, if this process has written the checkpoint in force. Otherwise another may have kept some back as well.
    pub(super) fn kept_back_at(&self, generation: u64) -> Option<Vec<BlockId>> {
        let kept_back = self.kept_back.lock().unwrap_or_else(PoisonError::into_inner);
        (kept_back.generation == generation).then(|| kept_back.blocks.iter().map(|kept| kept.1).collect())
    }

    /// Sorts out, after a checkpoint with these changes, which blocks that pages were moved from are free now: adds to `freed` those kept
    /// back that no version can bring up again, and keeps back those of `moves` that one may.
    fn keep_back(
        &self,
        moves: &[Move],
        changes: &[(PageId, SealedBlock)],
        freed: &mut Vec<BlockId>,
        in_force: u64,
        me: &Participant,
    ) -> Result<()> {
        let mut kept_back = self.kept_back.lock().unwrap_or_else(PoisonError::into_inner);
        let KeptBack { generation, blocks: kept } = &mut *kept_back;
        if *generation + 1 != in_force {
            kept.clear();
        }
        *generation = in_force;
        kept.retain(|&(page, block)| match changes.binary_search_by_key(&page, |change| change.0) {
            Err(_) => true,
            Ok(n) => {
                // Either the map names the block again, or a later version has taken the place of the one on it.
                if changes[n].1.block() != block {
                    freed.push(block);
                }
                false
            }
        });
        let mut old = Vec::new();
        for one in moves {
            if !self.rename_block(one, || true, me)? {
                old.push((one.page, one.from.block()));
            }
        }
        if !old.is_empty() {
            let blocks: HashSet<_> = old.iter().map(|one| one.1).collect();
            freed.retain(|block| !blocks.contains(block));
            kept.extend(old);
        }
        Ok(())
    }
}

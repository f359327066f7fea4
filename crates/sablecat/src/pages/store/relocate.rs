//! Moving blocks down, so that the free end of the file can be given back.
//!
//! Deletions leave holes all over a file. A checkpoint that finds many of them copies pages from above the
//! *bound* (as many blocks as are in use would end there) to the lowest free blocks of the same volume, and
//! names the copies in the map together with what it captured. Map blocks above the bound are written anew,
//! which moves them down as well. Nothing is ever overwritten, so a crash leaves the old places or the new.
//!
//! What is moved is what the map in force names and this checkpoint does not change: bytes that nobody can
//! change, read from the file. Everything that names the old block is told once the checkpoint is durable,
//! and before the block is given up:
//! - the page's entry, under the page's latch, so nobody is reading the old block in meanwhile. An entry that
//!   has not been filled yet is filled, so that no participant that looked the map up before the checkpoint
//!   fills it afterwards;
//! - the current version, if it is the one on the block.
//!
//! If the page was changed meanwhile, the version on the block is an old one by now, and may be freed at any
//! moment; but until the change becomes visible, the next checkpoint may capture it and name its block. So
//! that block is kept back, until a checkpoint has captured the page.
//!
//! *A checkpointer that is succeeded meanwhile*, or dies, leaves the other pages where they know themselves
//! to be: the old blocks hold what the new ones do, and only the participant that moved a page frees the old
//! one, since only its generation has taken it out of the map. A checkpointer that was succeeded frees none
//! of them, not even of pages that it has told: its successor may have seen them named before. The look for
//! what is lost (lost.rs) tells the pages then, and the old blocks are lost. What is told late, by a
//! checkpoint or by that look, does no harm:
//!
//! - Under the latch it is looked whether the role was taken over. If so nothing is told. So a participant
//!   that tells late is one that was stopped between this look and the two stores behind it, and it has had
//!   the page latched since before it was succeeded.
//! - It stores only where the old block is named. While the latch is held no other version becomes current,
//!   and the page does not leave memory, nor come there. So if it stores anything that counts, the version on
//!   the old block is the current one, which every later checkpoint sees.
//! - A block that the map in force names for a page is not let go of by a checkpoint that has not had the
//!   page's latch, as long as the version on it is the current one. It cannot tell the page that it has moved
//!   it once more: so the place before stays in use, and is lost. Where it captures the page without the
//!   latch, it finds that the map has the same elsewhere, and leaves it there (checkpoint.rs). All else that
//!   takes a page out of the map has had the latch; and a participant that has it after the role was taken
//!   over comes behind all late stores.
//! - So the new block is in use when it is stored, and until a participant that has the latch finds it lost.
//!   That waits for hands, and a checkpoint's is full to its end; one participant at a time looks for what is
//!   lost.
//!
//! Blocks kept back are given up once another process has written a checkpoint. If another of the same
//! process has, that is the next but one at the earliest.
//!
//! Each checkpoint moves a bounded number of blocks, looking at a bounded number of map leaves, and the next
//! one goes on from there. Moving is worth nothing if it costs the checkpoint: a page that cannot be read
//! stays where it is, and if the disk is full, all do.
//!
//! In the same way pages come to the newest key of an encrypted environment ([`Moving::ToKey`]): what is
//! enciphered with another is copied to any free block. While epochs are retained, or will be, nothing is
//! moved: they would keep the old places, and the file would grow instead.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering as StdOrdering;

use sablecat_os::atomic::{Ordering, fence};
use sablecat_os::disk::AlignedBuf;

use super::Store;
use crate::error::{Error, Result};
use crate::pages::allocation::{VolumeBounds, first_within};
use crate::pages::participants::LocalParticipant;
use crate::pages::pool::latch::Patience;
use crate::pages::volume::{CHECKSUM_BYTES, CheckpointPlan, InUse, MapFinding, Marks, Superblock, Volume};
use crate::region::{BlockWord, HeldRole, Moored};
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
    /// Little, whatever it gains: for a reserve, where there is no other space for it.
    ForReserve,
    /// What is enciphered with another key than the newest, wherever there is room.
    ToKey,
}

impl Moving {
    /// Whether it moves whatever it gains, and may take something of the reserve for it.
    pub(in crate::pages) fn is_for_any_gain(self) -> bool {
        matches!(self, Moving::Much | Moving::ForReserve)
    }

    /// Blocks that one checkpoint moves at most.
    fn blocks_max(self) -> usize {
        match self {
            Moving::Little | Moving::ForReserve => 4096,
            Moving::Much | Moving::ToKey => 65536,
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

/// What may still name the block that a page was moved from.
enum NamedBy {
    Nobody,
    /// A version that is not the current one.
    OldVersion,
    /// The page: it could not be told.
    Page,
}

/// What came of a checkpoint that stands.
#[derive(Debug)]
pub(in crate::pages) struct SwitchedGeneration {
    /// Its superblock.
    pub(in crate::pages) after: Superblock,
    /// Blocks that nothing names any more.
    pub(in crate::pages) freed: Vec<BlockId>,
    /// How many pages were moved.
    pub(in crate::pages) moved: u64,
}

/// Blocks that pages were moved from and that a version may bring up again, each with its page.
///
/// Only the process that writes every checkpoint knows when such a block is free. Once another process has
/// written one, which may have named the block again, or one has been succeeded as it told pages where they
/// are, they are given up: lost ([`lost`](crate::pages::allocation)).
#[derive(Debug, Default)]
pub(in crate::pages) struct KeptBack {
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
    /// Of each volume: what is copied goes below this place.
    bounds: VolumeBounds,
    /// Blocks of the map from here on do not stay where they are, if anything below them is touched.
    map_from: BlockId,
}

impl Moves {
    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.touched.is_empty()
    }

    /// The changes of the map, with those of a checkpoint.
    fn with(&self, changes: &[(PageId, SealedBlock)]) -> Vec<(PageId, SealedBlock)> {
        let moved = self.pages.iter().map(|one| (one.page, one.to));
        let mut all: Vec<_> =
            changes.iter().copied().chain(moved).chain(self.touched.iter().copied()).collect();
        all.sort_unstable_by_key(|change| change.0);
        all
    }
}

impl Store {
    /// Writes the map that results from `changes` and from moving blocks, and puts it in force; without
    /// either (none), if it is not known what is free. The caller has the checkpoint role, or had it: then
    /// this fails, or another has put it in force.
    pub(in crate::pages) fn write_checkpoint(
        &self,
        volume: &Volume,
        changes: &[(PageId, SealedBlock)],
        moving: Option<Moving>,
        next: Superblock,
        (held, me): (&HeldRole<'_>, &LocalParticipant),
    ) -> Result<SwitchedGeneration> {
        let marks = if moving.is_some() { Marks::Now } else { Marks::AsBefore };
        let moves = self.copy_down(volume, changes, moving.filter(|_| !next.retains()))?;
        // After the copies, before anything that names the next generation; until it is in force.
        let mut moored = self.take_berth(volume, me).inspect_err(|_| self.give_up(&moves.pages))?;
        if held.is_succeeded() {
            self.give_up(&moves.pages);
            return Err(Error::succeeded());
        }
        if !moves.is_empty() {
            let all = moves.with(changes);
            match self.switch(volume, (&all, moves.map_from, marks), next.clone(), &mut moored) {
                Ok(switched) => {
                    drop(moored);
                    return self.tell(&moves.pages, changes, switched, (held, me));
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
        let switched = self.switch(volume, (changes, BlockId(u64::MAX), marks), next, &mut moored)?;
        drop(moored);
        self.tell(&[], changes, switched, (held, me))
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
        let mut may_switch = |draft: &_| {
            self.move_on();
            self.region.check_fence()?;
            // A late flush of a participant that was succeeded may have failed since the role was taken.
            self.fail_if_poisoned()?;
            if moored.set(draft) { Ok(()) } else { Err(Error::succeeded()) }
        };
        let written = self.with_room(volume, || {
            let next = next.clone();
            let plan = CheckpointPlan { changes, blocks: &self.blocks, rewrite_from, marks, next, berth };
            volume.write_checkpoint(plan, &mut may_switch)
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
    pub(in crate::pages) fn is_worth_moving(&self, volume: &Volume, moving: Moving) -> bool {
        if moving == Moving::ToKey {
            return volume.keyring().is_some();
        }
        !volume.superblock().retains() && self.blocks.volumes().any(|one| self.has_holes(volume, one, moving))
    }

    /// Whether so much of a volume is free that its pages should be moved down.
    fn has_holes(&self, volume: &Volume, one: VolumeId, moving: Moving) -> bool {
        let high = self.blocks.of(one).high_water();
        let free = high.saturating_sub(self.blocks.of(one).used_count());
        free > 0
            && (moving.is_for_any_gain()
                || 4 * free > high.saturating_sub(first_within(one, volume.block_size())))
    }

    /// True unless the search for blocks to move has just come to its end.
    pub(crate) fn is_moving(&self) -> bool {
        self.moved_below.load(StdOrdering::Relaxed) != 0
    }

    /// Copies pages to lower blocks, unless none are to be moved.
    fn copy_down(
        &self,
        volume: &Volume,
        changes: &[(PageId, SealedBlock)],
        moving: Option<Moving>,
    ) -> Result<Moves> {
        let (pages, touched, map_from) = (Vec::new(), Vec::new(), BlockId::NONE);
        let mut moves = Moves { pages, touched, bounds: VolumeBounds::new([]), map_from };
        if let Some(moving) = moving.filter(|&moving| self.is_worth_moving(volume, moving)) {
            if moving == Moving::ToKey {
                moves.bounds = VolumeBounds::new(self.blocks.volumes().map(|_| u64::MAX));
            } else {
                moves.bounds = VolumeBounds::new(self.blocks.volumes().map(|one| {
                    let has_holes = self.has_holes(volume, one, moving);
                    if has_holes { self.blocks.of(one).used_count() } else { u64::MAX }
                }));
                moves.map_from = BlockId(moves.bounds[VolumeId::MAIN]);
            }
            self.choose(volume, changes, moving, &mut moves)?;
            self.copy(volume, moving, &mut moves)?;
        } else {
            self.moved_below.store(0, StdOrdering::Relaxed);
        }
        Ok(moves)
    }

    /// Chooses what to move, from where the last choice ended.
    fn choose(
        &self,
        volume: &Volume,
        changes: &[(PageId, SealedBlock)],
        moving: Moving,
        moves: &mut Moves,
    ) -> Result<()> {
        let below = if moving == Moving::ToKey { &self.anew_below } else { &self.moved_below };
        let from = below.load(StdOrdering::Relaxed);
        let newest = volume.keyring().map_or(0, |keys| keys.newest());
        let bounds = moves.bounds;
        let is_to_go = |block: BlockId| match moving {
            // A participant that needs what cannot be read will say so.
            Moving::ToKey => volume.has_other_key(block, newest),
            Moving::Little | Moving::Much | Moving::ForReserve => block.within() >= bounds[block.volume()],
        };
        let to = from.saturating_add(LEAVES_MAX * volume.leaf_span());
        let mut next = if to < self.page_ids.high_water() { to } else { 0 };
        let (mut above, mut full) = (false, false);
        volume.walk(from..to, &mut |found| {
            match found {
                MapFinding::Map(block) => above |= is_to_go(block),
                // A participant that needs it will say so.
                MapFinding::Damaged(..) => {}
                MapFinding::Page(page, block) => {
                    let changed = changes.binary_search_by_key(&page, |change| change.0).is_ok();
                    if full || changed {
                    } else if is_to_go(block.block()) {
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
        below.store(next, StdOrdering::Relaxed);
        Ok(())
    }

    /// Copies what was chosen, in batches. What cannot be copied is left out. Of a reserve only a caller that
    /// asks for it takes something: others could not go on for want of it.
    fn copy(&self, volume: &Volume, moving: Moving, moves: &mut Moves) -> Result<()> {
        let (block_size, page_size) = (volume.block_size(), volume.page_size());
        let mut memory = AlignedBuf::new(COPY_BYTES.max(block_size));
        let chosen = std::mem::take(&mut moves.pages);
        let (mut left, mut together) = (&chosen[..], COPY_BYTES / block_size);
        while !left.is_empty() {
            let (batch, rest) = left.split_at(together.min(left.len()));
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
            // If this process was taken for dead, they may be others' by now.
            self.region.check_fence()?;
            let write = || self.write_blocks(volume, &images);
            let written = if moving.is_for_any_gain() { self.with_room(volume, write) } else { write() };
            let (good, bad): (Vec<_>, Vec<_>) =
                copied.into_iter().partition(|(_, good)| *good && written.is_ok());
            self.give_up(&bad.into_iter().map(|(one, _)| one).collect::<Vec<_>>());
            match written {
                // There may be room for some of them.
                Err(error) if error.is_full() && batch.len() > 1 && volume.may_have_holes() => {
                    together = 1;
                    continue;
                }
                Err(error) if error.is_full() => break,
                Err(error) => {
                    self.give_up(&moves.pages);
                    return Err(error);
                }
                Ok(sealed) => {
                    moves.pages.extend(good.into_iter().zip(sealed).map(|((one, _), to)| Move { to, ..one }))
                }
            }
            left = rest;
        }
        Ok(())
    }

    /// The lowest free block of a volume, if it is within the bounds.
    fn block_below(&self, volume: VolumeId, bounds: &VolumeBounds) -> Option<BlockId> {
        let block = self.allocate_block(volume).ok()?;
        if block.within() < bounds[volume] {
            return Some(block);
        }
        self.blocks.release(block);
        None
    }

    /// Frees the blocks of copies that nothing will name.
    fn give_up(&self, moves: &[Move]) {
        self.empty_if_short(moves.iter().map(|one| one.to.block()));
        moves.iter().for_each(|one| _ = self.blocks.release(one.to.block()));
    }

    /// Tells pages where a checkpoint with these changes has moved them; and what is free now.
    fn tell(
        &self,
        moves: &[Move],
        changes: &[(PageId, SealedBlock)],
        (after, mut freed): (Superblock, Vec<BlockId>),
        (held, me): (&HeldRole<'_>, &LocalParticipant),
    ) -> Result<SwitchedGeneration> {
        let mut patience = Patience::default();
        let (mut old, mut stay) = (Vec::new(), HashSet::new());
        // Looked at here, so that a late participant latches nothing.
        for one in moves.iter().take_while(|_| !held.is_succeeded()) {
            self.move_on();
            match self.rename_block(one, &mut patience, (held, me))? {
                NamedBy::Nobody => continue,
                NamedBy::OldVersion => old.push((one.page, one.from.block())),
                NamedBy::Page => {}
            }
            stay.insert(one.from.block());
        }
        let mut moved = moves.len() + old.len() - stay.len();
        // A successor has a fence between taking the role and looking at pages (`log_needed_from`): so it
        // finds all of them told, or is found here.
        fence(Ordering::SeqCst);
        if held.is_succeeded() {
            stay.extend(moves.iter().map(|one| one.from.block()));
            moved = 0;
        } else {
            self.keep_back(old, changes, &mut freed, after.generation);
        }
        freed.retain(|block| !stay.contains(block));
        Ok(SwitchedGeneration { after, freed, moved: moved as u64 })
    }

    /// Tells pages where the map in force has them, which uses `used`, if the participant that moved them
    /// there died, or was succeeded, before it could.
    pub(in crate::pages) fn tell_moved(
        &self,
        volume: &Volume,
        used: &InUse,
        (held, me): (&HeldRole<'_>, &LocalParticipant),
    ) -> Result<()> {
        let (mut buffers, mut patience) = (Self::two_blocks(volume), Patience::default());
        for page in
            (1..used.pages.bound()).filter(|&page| used.pages.contains(page)).map(|page| PageId(page as u32))
        {
            self.move_on();
            // This also tells a participant that has looked the page up before it was moved, and has not
            // filled its entry yet.
            self.learn_block(page)?;
            let entry = self.region.entry(page);
            let word = match entry.word().frame() {
                FrameId::NONE => entry.block(),
                frame => self.region.frame(frame).block(),
            };
            if !word.is_captured() || !word.is_saved() || used.blocks.contains(word.block()) {
                continue;
            }
            let from = word.sealed();
            if let Some(to) = self.moved_to(volume, page, from, &mut buffers)? {
                self.rename_block(&Move { page, from, to }, &mut patience, (held, me))?;
            }
        }
        Ok(())
    }

    /// Memory for two blocks.
    pub(in crate::pages) fn two_blocks(volume: &Volume) -> [AlignedBuf; 2] {
        [(); 2].map(|()| AlignedBuf::new(volume.block_size()))
    }

    /// Where the map in force has what is on another block of the page: it was moved there, and has not been
    /// told. Of what was captured for a map that never came the map has an older version.
    pub(in crate::pages) fn moved_to(
        &self,
        volume: &Volume,
        page: PageId,
        from: SealedBlock,
        [here, there]: &mut [AlignedBuf; 2],
    ) -> Result<Option<SealedBlock>> {
        let (first, blocks) = volume.lookup_leaf(page)?;
        let to = blocks[(page.0 - first.0) as usize];
        if to == SealedBlock::NONE || to.block() == from.block() {
            return Ok(None);
        }
        // Damage is for the participant that needs the page to complain of.
        let are_good = self.check_stored(volume, page, from, here).is_ok()
            && self.check_stored(volume, page, to, there).is_ok();
        let content = CHECKSUM_BYTES..volume.page_size();
        Ok((are_good && here[content.clone()] == there[content]).then_some(to))
    }

    /// Makes everything in memory that names the block a page was moved from name the new one, unless the
    /// role was taken over, or the holder of the page's latch keeps it. What names the old one then.
    fn rename_block(
        &self,
        moved: &Move,
        patience: &mut Patience,
        (held, me): (&HeldRole<'_>, &LocalParticipant),
    ) -> Result<NamedBy> {
        let Move { page, from, to } = *moved;
        #[cfg(test)]
        self.telling.pass();
        let Some(latch) = self.hold_patiently(page, patience, me)? else { return Ok(NamedBy::Page) };
        let current = latch.current();
        // Under the latch, without which no successor lets go of the new place.
        if held.is_succeeded() {
            return Ok(NamedBy::Page);
        }
        #[cfg(test)]
        self.telling.pass();
        let entry = self.region.entry(page);
        let word = entry.block();
        if word.block() == from.block() || (!word.is_known() && current == FrameId::NONE) {
            entry.set_block(BlockWord::mapped(to));
        }
        let mut named_by = NamedBy::Nobody;
        if current != FrameId::NONE {
            // Nobody frees, evicts or supersedes it: that takes the latch.
            let desc = self.region.frame(current);
            if desc.block().block() == from.block() {
                desc.set_block(BlockWord::mapped(to));
            } else if desc.previous() != FrameId::NONE {
                named_by = NamedBy::OldVersion;
            }
        }
        Ok(named_by)
    }

    /// The blocks that are kept back, if this process has written the checkpoint in force. Otherwise another
    /// may have kept some back as well.
    pub(in crate::pages) fn kept_back_at(&self, generation: u64) -> Option<Vec<BlockId>> {
        let kept_back = self.kept_back.lock().unwrap_or_else(PoisonError::into_inner);
        (kept_back.generation == generation).then(|| kept_back.blocks.iter().map(|kept| kept.1).collect())
    }

    /// Keeps back, after a checkpoint with these changes, the `old` blocks, and adds to `freed` those kept
    /// back before that no version can bring up again.
    fn keep_back(
        &self,
        old: Vec<(PageId, BlockId)>,
        changes: &[(PageId, SealedBlock)],
        freed: &mut Vec<BlockId>,
        in_force: u64,
    ) {
        let mut kept_back = self.kept_back.lock().unwrap_or_else(PoisonError::into_inner);
        let KeptBack { generation, blocks: kept } = &mut *kept_back;
        if *generation + 1 != in_force {
            kept.clear();
        }
        *generation = in_force;
        kept.retain(|&(page, block)| match changes.binary_search_by_key(&page, |change| change.0) {
            Err(_) => true,
            Ok(n) => {
                // Either the map names the block again, or a later version has taken the place of the one on
                // it.
                if changes[n].1.block() != block {
                    freed.push(block);
                }
                false
            }
        });
        kept.extend(old);
    }
}

//! What is lost: page ids and blocks that are in use and that nobody can reach; finding them, and giving them back, while others work.
//!
//! A process may die between taking a number and naming it, or between taking its name away and giving it back: with a large value that it was storing,
//! with the copies of pages that a checkpoint was moving, with all the blocks that a checkpoint was freeing. Noting each of them beforehand would cost every
//! commit something. They are found by what they are not: named.
//!
//! ```text
//! a page id is named by   its entry: a frame, a latch, a block; the map in force; the last version of the run that it was freed with
//! a block is named by     the map in force and those of epochs; the entry of a page that is not in memory, the descriptor of one that is; an
//!                         old version's descriptor; this process, which has kept it back (relocate.rs)
//! ```
//!
//! *Beside the living.* Participants say when they may have something in hand (hand.rs). Nobody did during a look if each slot says the same even number before
//! it and after it: what was done to bits and names meanwhile is nothing, for it would have been seen together with the slot's change. What was in use then and
//! not named is in nobody's hands, and will be in nobody's: to take it, it would have to be free. So it can be given back at leisure. If somebody is always
//! at it, the look is taken again some times, and then left to the next call.
//!
//! The caller's checkpoint role keeps out those who name and free under it. Names that move from a descriptor to an entry or back, by eviction and reading in,
//! are looked at under the page's latch. Old versions come last: a version becomes one, and never current again.
//!
//! *Names that mean nothing.* The entry of a page in memory is not looked at: it is filled when the page leaves. An old version on a block that checkpoints free
//! counts only while the page has changed since the map in force, for only then may a checkpoint come to name it again. The pages of a run that was being
//! stored past the pool have entries before its first page is published: they count if that page does. And where a checkpoint has moved a page and died before
//! telling its entry, the entry is told here.
//!
//! *Death* in here leaves some of it lost still: an entry is emptied before its block is free, and its id is free last.
//!
//! Costs: the map, read once; a latch for each page in memory, 50 ns; a look at each entry and frame; a bit each.

use sablecat_os::atomic::{Ordering, fence, yield_now};

use super::run::freed_after;
use super::volume::{Found, Used, UsedBlocks, Volume};
use super::{Pages, Participant};
use crate::error::Result;
use crate::region::{BlockWord, EntryWord, FrameState};
use crate::types::{BlockId, FrameId, Lsn, PageId, SealedBlock};

/// How often a look is taken at most, if others are always at work.
const TRIES: u32 = 200;

/// What was found lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Page ids, ascending.
    pub(crate) pages: Vec<PageId>,
    pub(crate) blocks: Vec<BlockId>,
}

/// What is named.
#[derive(Clone, Debug)]
struct Names {
    /// Those at or above its bound are not looked at.
    pages: Used,
    blocks: UsedBlocks,
}

impl Pages {
    /// Gives back what is lost, and says what that was. None: it could not be told, since others were at work all the time, or have written the last
    /// checkpoint. Waits for a checkpoint in progress, and holds up the next.
    ///
    /// # Errors
    /// Those of reading the maps; corruption if one of them is damaged, and then nothing is given back.
    pub(crate) fn free_lost(&self, me: &Participant) -> Result<Option<Lost>> {
        let Some(volume) = &self.volume else { return Ok(Some(Lost::default())) };
        let _no_checkpoint = self.hold_checkpoint(me);
        self.fail_if_poisoned()?;
        self.follow_generation(volume)?;
        self.learn_free(volume)?;
        // Another process may have kept blocks back since the checkpoint that it wrote. Once this one has written one those are given up.
        let Some(mut names) = self.kept_back_names(volume) else { return Ok(None) };
        self.name_mapped(volume, &mut names, me)?;
        for _ in 0..TRIES {
            if let Some(lost) = self.find_lost(&names, me)? {
                self.give_back(&lost, me)?;
                return Ok(Some(lost));
            }
            // Somebody may have died with something in hand.
            self.region.stall();
            yield_now();
        }
        Ok(None)
    }

    /// What this process has kept back, named; none if another may have kept something back too.
    fn kept_back_names(&self, volume: &Volume) -> Option<Names> {
        let kept = self.kept_back(volume.generation())?;
        let blocks = UsedBlocks::reserved(volume.count(), &self.blocks.bounds(), volume.page_size());
        let mut names = Names { pages: Used::new(self.page_ids.high_water()), blocks };
        names.pages.note(0);
        kept.into_iter().for_each(|block| names.blocks.note(block));
        Some(names)
    }

    /// Names what the map in force and those of epochs do.
    fn name_mapped(&self, volume: &Volume, names: &mut Names, me: &Participant) -> Result<()> {
        volume.walk(0..u64::MAX, &mut |found| match found {
            Found::Map(block) => {
                names.blocks.note(block);
                Ok(())
            }
            Found::Page(page, block) => {
                names.pages.note(u64::from(page.0));
                names.blocks.note(block.block());
                self.tell_moved(page, block, me)
            }
            Found::Damaged(_, error) => Err(error),
        })?;
        for epoch in volume.superblock().epochs {
            volume.walk_epoch(&epoch, &mut |found| match found {
                Found::Map(block) => {
                    names.blocks.note(block);
                    Ok(true)
                }
                Found::Page(_, block) => {
                    names.blocks.note(block.block());
                    Ok(true)
                }
                Found::Damaged(_, error) => Err(error),
            })?;
        }
        Ok(())
    }

    /// Tells a page that the map names another block for its current version than it knows of: the checkpoint that moved it there died first.
    fn tell_moved(&self, page: PageId, to: SealedBlock, me: &Participant) -> Result<()> {
        let elsewhere = |word: BlockWord| word.is_captured() && word.block() != to.block();
        let entry = self.region.entry(page);
        let of = |frame: FrameId| if frame == FrameId::NONE { entry.block() } else { self.region.frame(frame).block() };
        if !elsewhere(of(entry.word().frame())) {
            return Ok(());
        }
        let current = self.latch(page, me)?;
        // A page that has no bit has not changed since the map: what a checkpoint has named of it the map names, or names where it was moved.
        if elsewhere(of(current)) && !self.is_changed(page) {
            let word = BlockWord::mapped(to);
            if current == FrameId::NONE { entry.set_block(word) } else { self.region.frame(current).set_block(word) }
        }
        self.unlatch(page, me);
        Ok(())
    }

    /// Whether a checkpoint is to look at a page. Who has the page's latch finds every commit's bit but that of one in its commit step.
    fn is_changed(&self, page: PageId) -> bool {
        let (word, bit) = (page.0 as usize / 64, page.0 % 64);
        [self.region.unsaved(word), self.region.capturing(word)].iter().any(|word| word.load(Ordering::SeqCst) >> bit & 1 == 1)
    }

    /// What is lost; none if somebody has, or may have had, something in hand meanwhile.
    fn find_lost(&self, mapped: &Names, me: &Participant) -> Result<Option<Lost>> {
        let Some(before) = self.empty_hands() else { return Ok(None) };
        let mut names = mapped.clone();
        self.name_current(&mut names, me)?;
        self.name_old(&mut names);
        let lost = Lost {
            pages: self.page_ids.used_beside(&names.pages).map(|page| PageId(page as u32)).collect(),
            blocks: self.blocks.used_beside(&names.blocks),
        };
        // Acquire: what was looked at was looked at before the slots are looked at again.
        fence(Ordering::Acquire);
        Ok((self.empty_hands() == Some(before)).then_some(lost))
    }

    /// What the slots say of hands, when all are empty.
    fn empty_hands(&self) -> Option<Vec<u32>> {
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        let hands: Vec<u32> = (1..high).map(|n| self.region.slot(n).in_hand()).collect();
        hands.iter().all(|hand| hand % 2 == 0).then_some(hands)
    }

    /// Names what the current versions of pages do, and these pages.
    fn name_current(&self, names: &mut Names, me: &Participant) -> Result<()> {
        let (mut before, mut freed_below) = (false, 0);
        for page in (1..names.pages.bound()).filter(|&page| self.page_ids.is_used(page)).map(|page| PageId(page as u32)) {
            // Pages whose ids are not neighbours are no run.
            before &= self.page_ids.is_used(u64::from(page.0) - 1);
            let entry = self.region.entry(page);
            let mut resident = None;
            if entry.word().frame() != FrameId::NONE {
                let current = self.latch(page, me)?;
                if current != FrameId::NONE {
                    // SAFETY: the page is latched, and this is its current version.
                    let after = freed_after(unsafe { self.region.page(current) });
                    resident = Some((self.region.frame(current).block(), after));
                }
                self.unlatch(page, me);
            }
            let (word, after) = resident.unwrap_or_else(|| (entry.block(), 0));
            let is_unpublished_rest = resident.is_none() && word.is_rest() && !word.is_captured();
            let is_named = if is_unpublished_rest {
                before
            } else {
                let is_free = entry.word() == EntryWord::new(FrameId::NONE, 0) && word.block() == BlockId::NONE;
                resident.is_some() || !is_free || u64::from(page.0) < freed_below || names.pages.contains(u64::from(page.0))
            };
            if is_named {
                names.pages.note(u64::from(page.0));
                names.blocks.note(word.block());
            }
            if after > 0 {
                freed_below = freed_below.max(u64::from(page.0) + after + 1);
            }
            before = is_named;
        }
        Ok(())
    }

    /// Names the blocks of old versions.
    fn name_old(&self, names: &mut Names) {
        for frame in (1..=self.frames_ready()).map(|frame| FrameId(frame as u32)) {
            let desc = self.region.frame(frame);
            let word = desc.block();
            let holds = matches!(desc.state(), FrameState::Published | FrameState::Building(_));
            if !holds || word.block() == BlockId::NONE {
                continue;
            }
            let page = desc.page();
            let is_known = u64::from(page.0) < names.pages.bound();
            let is_old = desc.superseded() != Lsn::MAX;
            if !(is_old && word.is_captured() && is_known && !self.is_changed(page)) {
                names.blocks.note(word.block());
            }
        }
    }

    fn give_back(&self, lost: &Lost, me: &Participant) -> Result<()> {
        for &page in &lost.pages {
            // Nobody else comes to it, but the next who is given its number must not find it part of a run.
            self.latch(page, me)?;
            self.region.entry(page).set_block(BlockWord::NOTHING);
            self.unlatch(page, me);
        }
        // Looked at each time: should this process be taken for dead, others find what is left, and give it back.
        for &block in &lost.blocks {
            self.region.check_fence()?;
            self.blocks.release(block);
        }
        for &page in &lost.pages {
            self.region.check_fence()?;
            self.release_page(page);
        }
        Ok(())
    }

    /// Releases the pages that are free and that no snapshot can see any more, without waiting for the room that they take in the pool to be needed.
    pub(crate) fn release_free(&self, me: &Participant) {
        let horizon = self.horizon();
        for page in (1..self.page_ids.high_water()).map(|page| PageId(page as u32)) {
            if self.region.entry(page).word().frame() != FrameId::NONE {
                self.release_if_freed(page, &horizon, me);
            }
        }
    }
}

//! What is lost: page ids and blocks that are in use and that nobody can reach; finding them, and giving them
//! back, while others work.
//!
//! A process may die between taking a number and naming it, or between taking its name away and giving it
//! back: with a large value that it was storing, with the copies of pages that a checkpoint was moving, with
//! all the blocks that a checkpoint was freeing. Noting each of them beforehand would cost every commit
//! something. They are found by what they are not: named.
//!
//! ```text
//! a page id is named by   its entry: a frame, a latch, a block; the map in force; the last version of the
//!                         run that it was freed with
//! a block is named by     the map in force and those of epochs; the entry of a page that is not in memory,
//!                         the descriptor of one that is; an old version's descriptor; this process, which
//!                         has kept it back (relocate.rs)
//!
//! 1 say that somebody looks: from now on it is counted, group by group, what is taken
//! 2 wait until each hand that is full now (participants/hand.rs) has been empty once
//! 3 find what is in use and not named: suspects
//! 4 wait for hands once more
//! 5 suspects that are in use still, of groups from which nothing was taken, are lost
//! ```
//!
//! *Why nothing in use is given back.* Take a number that is in use in 5, and when it was taken last. By a
//! participant that counted it after 1: then its group says so, since it is counted before it is taken. Else
//! by one whose hand was full before 2, and empty since, by 3: so it was named then, unless it was lost
//! already, or somebody had taken its name away to give it back. That participant has done so by 5, and then
//! it would have been taken again, and counted. What is named stays so until somebody gives it back; so what
//! 3 does not find named is in nobody's hand to be named.
//!
//! *Names move* between an entry and a descriptor, when a page leaves the pool or is read in. So each page is
//! looked at at one moment: under its latch if it is in memory; if it is not, its version's block stands in
//! the entry until there is a newer version, whether or not it is read in meanwhile. All frames are looked at
//! after all pages: a version becomes an old one, and never current again. Of maps and of what checkpoints do
//! there is nothing to fear: the caller's checkpoint role keeps them out, and a participant that was
//! succeeded in one has a full hand. So it is with the pages of a freed run, which nobody releases without
//! that role: its first page's last version names them all.
//!
//! *Names that mean nothing* count, but for two. Pages that were moved by a checkpoint whose maker could not
//! tell them, because it died or was succeeded, are told first where they are (relocate.rs); and entries are
//! filled, so that no participant that looked a page up before it was moved, and was stopped, fills its entry
//! afterwards. And the pages of a run that was being stored past the pool have entries before its first page
//! is published: they count if that page does.
//!
//! *When it gives up.* If a participant stays with a full hand, because it is stopped, stores a large value,
//! or makes a long checkpoint, or if one keeps a page latched, nothing is given back this time. So it is if
//! another process has written the last checkpoint: it may have kept blocks back.
//!
//! *Death* in here leaves some of it lost still: an entry is emptied before its block is free, and its id is
//! free last.
//!
//! Costs: the map, read once, and its leaves once more where no page was looked up yet; a latch for each page
//! in memory, 50 ns; a look at each entry and frame; a bit each.

use std::time::Duration;

use sablecat_os::atomic::{Ordering, pause};
use sablecat_os::clock;

use super::Store;
use crate::error::Result;
use crate::pages::allocation::{Used, UsedBlocks, first_within};
use crate::pages::header;
use crate::pages::participants::LocalParticipant;
use crate::pages::pool::rest::rest_of;
use crate::pages::volume::Volume;
use crate::region::{BlockWord, EntryWord, FrameState, HeldRole, RegionHeader, Work, taken_group};
use crate::types::{BlockId, FrameId, PageId};

/// How long hands are waited for, and page latches in all.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at hands.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How much was lost, and was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) pages: u64,
    pub(crate) blocks: u64,
}

/// What is in use and not named, pages with what their entries say.
struct Suspects {
    pages: Vec<(PageId, BlockWord)>,
    blocks: Vec<BlockId>,
}

/// What is named. Numbers beyond the bounds are not looked at.
struct NamedNumbers {
    pages: Used,
    blocks: UsedBlocks,
}

impl NamedNumbers {
    fn name(&mut self, page: PageId) {
        if u64::from(page.0) < self.pages.bound() {
            self.pages.insert(u64::from(page.0));
        }
    }
}

/// Says that a participant looks for what is lost, until dropped.
struct Suspecting<'a> {
    header: &'a RegionHeader,
    /// Which participant looks: so that one that was taken for dead does not end what its successor says.
    tag: u64,
}

impl Suspecting<'_> {
    fn begin<'a>(header: &'a RegionHeader, looking: &HeldRole<'_>) -> Suspecting<'a> {
        let tag = u64::from(looking.holding().tag()) + 1;
        header.suspecting.0.store(tag, Ordering::SeqCst);
        Suspecting { header, tag }
    }

    /// Whether it is still said.
    fn is_said(&self) -> bool {
        self.header.suspecting.0.load(Ordering::SeqCst) == self.tag
    }
}

impl Drop for Suspecting<'_> {
    fn drop(&mut self) {
        let _ = self.header.suspecting.0.compare_exchange(self.tag, 0, Ordering::SeqCst, Ordering::Relaxed);
    }
}

impl Store {
    /// Gives back what is lost, and says how much that was. None: it could not be told, since others had
    /// numbers in hand all the time, have written the last checkpoint, or are looking themselves. Waits for a
    /// checkpoint in progress, and holds up the next. `me` has nothing in hand and is pinned to nothing.
    ///
    /// # Errors
    /// Those of reading the maps; corruption if one of them is damaged, and then nothing is given back.
    pub(crate) fn free_lost(&self, me: &LocalParticipant) -> Result<Option<Lost>> {
        let Some(volume) = &self.volume else { return Ok(Some(Lost::default())) };
        let Ok(looking) = self.region.role(Work::Unreachable).try_take(me.number()) else { return Ok(None) };
        self.region.check_fence()?;
        let header = self.region.header();
        let suspecting = Suspecting::begin(header, &looking);
        // In this order: what was counted before this was counted by a hand that is full, or has been
        // emptied.
        let taken: Vec<u32> = header.taken.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        if !self.wait_for_hands(me)? {
            return Ok(None);
        }
        let Some(suspects) = self.find_suspects(volume, me)? else { return Ok(None) };
        if !self.wait_for_hands(me)? {
            return Ok(None);
        }
        self.give_back(&suspects, (&suspecting, &taken), me).map(Some)
    }

    /// Waits until each hand that is full has been empty once, or its owner was mended. False if one stays as
    /// it is.
    fn wait_for_hands(&self, me: &LocalParticipant) -> Result<bool> {
        debug_assert_eq!(me.slot().hand() % 2, 0, "who looks has nothing in hand");
        let until = clock::monotonic() + PATIENCE;
        let hand = |slot: u16| self.region.slot(slot).hand();
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        let mut full: Vec<_> =
            (1..high).map(|slot| (slot, hand(slot))).filter(|(_, hand)| hand % 2 == 1).collect();
        loop {
            full.retain(|&(slot, seen)| hand(slot) == seen);
            if full.is_empty() {
                return Ok(true);
            }
            self.region.check_fence()?;
            if clock::monotonic() >= until {
                return Ok(false);
            }
            // A participant may have died with something in hand.
            self.region.stall();
            pause(LOOK_EVERY);
        }
    }

    /// What is in use and not named; none if that cannot be told.
    fn find_suspects(&self, volume: &Volume, me: &LocalParticipant) -> Result<Option<Suspects>> {
        let held = self.hold_checkpoint(me)?;
        self.fail_if_poisoned()?;
        self.follow_generation(volume)?;
        {
            let _hand = me.in_hand();
            self.learn_free(volume)?;
        }
        // Another process may have kept blocks back since the checkpoint that it wrote. Once this one has
        // written one those are given up.
        let Some(kept_back) = self.kept_back_at(volume.generation()) else { return Ok(None) };
        let found = volume.scan()?;
        self.tell_moved(volume, &found, (&held, me))?;
        let mut names = NamedNumbers { pages: found.pages, blocks: found.blocks };
        names.pages.extend(self.page_ids.high_water());
        names.blocks.extend(&self.blocks.bounds());
        names.name(PageId::NONE);
        for volume_id in self.blocks.volumes() {
            (0..first_within(volume_id, volume.block_size()))
                .for_each(|within| names.blocks.note(BlockId::new(volume_id, within)));
        }
        kept_back.into_iter().for_each(|block| names.blocks.note(block));
        if !self.name_pages(&mut names, me)? {
            return Ok(None);
        }
        self.name_old(&mut names);
        let pages = self.page_ids.used_beside(&names.pages).map(|page| PageId(page as u32));
        let pages = pages.map(|page| (page, self.region.entry(page).block())).collect();
        let blocks = self.blocks.used_beside(&names.blocks);
        Ok((!held.is_succeeded()).then_some(Suspects { pages, blocks }))
    }

    /// Names pages, and what their current versions are on. False if another participant keeps one latched.
    fn name_pages(&self, names: &mut NamedNumbers, me: &LocalParticipant) -> Result<bool> {
        let (mut before, mut patience) = (false, PATIENCE);
        for page in (1..names.pages.bound()).map(|page| PageId(page as u32)) {
            self.move_on();
            if !self.page_ids.is_used(u64::from(page.0)) {
                before = false;
                continue;
            }
            let entry = self.region.entry(page);
            let word = entry.word();
            let (block, freed_after) = if word.frame() == FrameId::NONE {
                (entry.block(), 0)
            } else {
                match self.look_latched(page, &mut patience, me)? {
                    Some(found) => found,
                    None => return Ok(false),
                }
            };
            let is_unpublished = word.frame() == FrameId::NONE && block.is_rest() && !block.is_captured();
            let is_on_block = if is_unpublished { before } else { block.block() != BlockId::NONE };
            before = word != EntryWord::new(FrameId::NONE, 0)
                || is_on_block
                || names.pages.contains(u64::from(page.0));
            if before {
                names.name(page);
                names.blocks.note(block.block());
                rest_of(page, freed_after).for_each(|page| names.name(page));
            }
        }
        Ok(true)
    }

    /// What the current version of a page is on, and how many pages are free with it, if it is their last
    /// one; looked at under the page's latch. None if that is not to be had; `patience` is how long it is
    /// waited for, and is the less for it.
    fn look_latched(
        &self,
        page: PageId,
        patience: &mut Duration,
        me: &LocalParticipant,
    ) -> Result<Option<(BlockWord, u64)>> {
        let held = match self.try_hold(page, me) {
            None => {
                let since = clock::monotonic();
                let held = self.hold_until(since + *patience, page, me)?;
                *patience = patience.saturating_sub(clock::monotonic().saturating_sub(since));
                held
            }
            held => held,
        };
        let Some(latch) = held else { return Ok(None) };
        let current = latch.current();
        let found = if current == FrameId::NONE {
            (self.region.entry(page).block(), 0)
        } else {
            // SAFETY: the page is latched and this is its current version, which only its latch's holder
            // could supersede.
            let bytes = unsafe { self.region.page(current) };
            (self.region.frame(current).block(), header::freed_after(bytes))
        };
        Ok(Some(found))
    }

    /// Names what all versions in memory are on.
    fn name_old(&self, names: &mut NamedNumbers) {
        for frame in (1..=self.frames_ready()).map(|frame| FrameId(frame as u32)) {
            let desc = self.region.frame(frame);
            let block = desc.block();
            if matches!(desc.state(), FrameState::Published | FrameState::Claimed(_)) || block.is_writing() {
                names.blocks.note(block.block());
            }
        }
    }

    /// Gives back the suspects that are lost.
    fn give_back(
        &self,
        suspects: &Suspects,
        (suspecting, taken): (&Suspecting<'_>, &[u32]),
        me: &LocalParticipant,
    ) -> Result<Lost> {
        let _hand = me.in_hand();
        // After the look whether it is in use: a participant that has taken it meanwhile has counted it
        // before, unless one that was taken for dead has said late that nobody looks.
        let was_not_taken = |space: usize, number: u64| {
            let group = taken_group(space, number);
            self.region.header().taken[group].load(Ordering::SeqCst) == taken[group] && suspecting.is_said()
        };
        let is_lost_page =
            |page: PageId| self.page_ids.is_used(u64::from(page.0)) && was_not_taken(0, u64::from(page.0));
        let is_lost_block = |block: BlockId| {
            self.blocks.is_used(block) && was_not_taken(1 + block.volume().index(), block.within())
        };
        let mut pages = Vec::new();
        for &(page, block) in suspects.pages.iter().filter(|&&(page, _)| is_lost_page(page)) {
            // Nobody else comes to it, but the next participant that is given its number must not find it
            // part of a run.
            let Some(latch) = self.try_hold(page, me) else { continue };
            let entry = self.region.entry(page);
            let is_same = latch.current() == FrameId::NONE && entry.block() == block;
            if is_same {
                entry.set_block(BlockWord::NOTHING);
                pages.push(page);
            }
        }
        let mut lost = Lost::default();
        // Looked at each time: should this process be taken for dead, others find what is left, and give it
        // back.
        for &block in suspects.blocks.iter().filter(|&&block| is_lost_block(block)) {
            self.region.check_fence()?;
            lost.blocks += u64::from(self.blocks.release(block));
        }
        // Not the first of a run of which something is left: the next page with its number would be taken for
        // the first of that.
        for page in pages.into_iter().filter(|&page| !self.begins_run(page)) {
            self.region.check_fence()?;
            self.release_page(page);
            lost.pages += 1;
        }
        Ok(lost)
    }
}

//! Which pages are as the last checkpoint has them: what must be known to find those that nothing leads to.
//!
//! A page that trees do not reach at a state may be anything: made since, free since, part of what a commit
//! is only preparing. Of a page whose newest version is the very one that the map in force names, more is
//! known. While no checkpoint can end, the block of that version is given to nobody else; so nobody has freed
//! the page and used its number again since that checkpoint, and at a state pinned meanwhile it is in use. If
//! nothing leads to it at that state, nothing ever will, but for bulk loads in progress, which say that they
//! are (txn/mending/unreachable.rs).
//!
//! Left out as well is what is free together with a freed run's first page: its own entries do not say so
//! before the run is released, which only the holder of the checkpoint role does (run.rs).
//!
//! Costs (sketch): the map, read once, and a latch a page, 50 ns; a look at each page in memory; a bit each.

use super::Store;
use crate::error::Result;
use crate::pages::header;
use crate::pages::participants::{LocalParticipant, Pinned};
use crate::pages::pool::latch::Patience;
use crate::pages::pool::rest::rest_of;
use crate::pages::volume::{MapFinding, Volume};
use crate::types::{BlockId, FrameId, Lsn, PageId};

/// A set of pages: a bit a page.
#[derive(Debug)]
pub(crate) struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// None of the pages below `bound`.
    pub(crate) fn new(bound: u64) -> PageSet {
        PageSet { words: vec![0; bound.div_ceil(64) as usize] }
    }

    /// Adds a page; false if it was there, or is not below the bound.
    pub(crate) fn insert(&mut self, page: PageId) -> bool {
        let bit = 1 << (page.0 % 64);
        let Some(word) = self.words.get_mut(page.0 as usize / 64) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Takes out all pages of another set.
    pub(crate) fn remove_all(&mut self, other: &PageSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= !other);
    }

    /// The pages, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PageId> {
        let bits = |(n, &word): (usize, &u64)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| PageId((n * 64 + bit) as u32))
        };
        self.words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(bits)
    }
}

impl Store {
    /// The pages whose newest version is the one that the map in force names, and the newest state, which
    /// `me` has pinned as long as that lasts. Waits for a checkpoint in progress, and holds up the next. Of
    /// pages that others keep latched nothing is known.
    ///
    /// # Errors
    /// `SnapshotTooOld` if that state was given up meanwhile; too many if there is no second seat; those of
    /// reading the map. What hangs on a damaged block of it is left out.
    pub(crate) fn settled<'m>(
        &self,
        volume: &Volume,
        me: &'m LocalParticipant,
    ) -> Result<(Pinned<'m>, PageSet)> {
        // By another: nobody gives up the pin of that role's holder, for however long its process does not
        // run.
        let keeper = self.participants.sit()?;
        self.without_checkpoint(&keeper, || self.settled_meanwhile(volume, me))
    }

    fn settled_meanwhile<'m>(
        &self,
        volume: &Volume,
        me: &'m LocalParticipant,
    ) -> Result<(Pinned<'m>, PageSet)> {
        self.follow_generation(volume)?;
        let pinned = self.pinned(me);
        let mut settled = PageSet::new(self.page_ids.high_water());
        let mut patience = Patience::default();
        volume.walk(0..u64::MAX, &mut |found| {
            let MapFinding::Page(page, block) = found else { return Ok(()) };
            self.move_on();
            if self.is_on(page, block.block(), &mut patience, me)? {
                settled.insert(page);
            }
            Ok(())
        })?;
        settled.remove_all(&self.freed_with_others(pinned.at(), me)?);
        Ok((pinned, settled))
    }

    /// The pages of freed runs but their first ones, at a pinned state. While the checkpoint role is held all
    /// last versions are in memory, also of first pages that no checkpoint has: one may be younger than what
    /// goes with it.
    fn freed_with_others(&self, at: Lsn, me: &LocalParticipant) -> Result<PageSet> {
        let bound = self.page_ids.high_water();
        let mut freed = PageSet::new(bound);
        for frame in (1..=self.frames_ready()).map(|frame| FrameId(frame as u32)) {
            let page = self.region.frame(frame).page();
            if u64::from(page.0) >= bound || self.region.entry(page).word().frame() != frame {
                continue;
            }
            self.move_on();
            let after = self.show(page, at, me, header::freed_after).or_else(|error| {
                // It is younger than that state, and what was there before is gone.
                if error.is_not_there() { Ok(0) } else { Err(error) }
            })?;
            rest_of(page, after).for_each(|page| _ = freed.insert(page));
        }
        Ok(freed)
    }

    /// Whether the newest version of a page is the one on a block that the map names for it. It passes for
    /// another if a participant, which may be stopped, has the page latched and is at work on one.
    fn is_on(
        &self,
        page: PageId,
        block: BlockId,
        patience: &mut Patience,
        me: &LocalParticipant,
    ) -> Result<bool> {
        let Some(latch) = self.hold_patiently(page, patience, me)? else { return Ok(false) };
        let current = latch.current();
        let word = if current == FrameId::NONE {
            self.region.entry(page).block()
        } else {
            self.region.frame(current).block()
        };
        // What has not been looked up since the environment was opened is where the map says.
        Ok((current == FrameId::NONE && !word.is_known()) || word.block() == block)
    }
}

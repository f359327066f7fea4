//! Reading the last checkpoint of an environment that others write, without writing anything anywhere: no
//! lock, no log, no shared memory.
//!
//! The page table and the frames are this process's own. They hold what one generation of the volume names:
//! the *view*. Within the region generations take the place of LSNs: a snapshot is pinned at the view's, and
//! a page that is read in is born at it.
//!
//! *What may be believed.* Blocks of generation G are written again once the superblock of G + 1 is durable,
//! not before: the invariant that makes checkpoints safe in a crash. After that they are anybody's: a sweep,
//! a long value or the next checkpoint may take them at any moment, and a block that was taken has a good
//! checksum for its number. So whatever was read, and any error, counts only if the newest superblock is
//! found, afterwards, to be still that of G ([`Volume::is_newest`]). If it is not, the answer is
//! `SnapshotTooOld`; damage is reported as damage only if it was read in force.
//!
//! *Going on to a newer view.* A participant that begins to read looks first ([`Store::sit_to_read`]); if
//! there is a newer superblock, the page table is emptied, then the new generation put in force. Frames are
//! retired, so that a participant that looks at one goes on looking at it. Readers of the view before find
//! none of their pages any more, and are told so.
//!
//! Why nothing of an old view gets into the table of a new one. A page is entered by the holder of its latch,
//! which has found, under it, the view to be the newest; the emptier, which has found that it is not, waits
//! for the latch and takes out what it finds. The blocks of a map leaf are entered under the state's mutex,
//! while the view is in force; the emptier ends that first, under the mutex. They may be wrong already: they
//! are no more than where to read, and a participant that reads there looks at the superblocks afterwards.
//! The leaf is noted before all that, so either the emptier knows it, or what is read comes after it has
//! found a newer superblock, and is not believed.
//!
//! Costs: reading a page in takes two more reads of 64 bytes (1.5 us together, from the page cache), and so
//! does beginning to read; a new view costs a microsecond for each map leaf that was in use, and the cache.

use sablecat_os::atomic::Ordering;

use super::Store;
use crate::error::Result;
use crate::pages::generation::followed::{Following, lock};
use crate::pages::participants::{LocalParticipant, PinnedSeat, Seat};
use crate::pages::volume::Volume;
use crate::region::{BlockWord, EntryWord, FrameState};
use crate::types::{FrameId, PageId};

impl Store {
    /// Takes a seat to read the newest state, which for a reader of checkpoints may be that of a new one.
    ///
    /// # Errors
    /// Those of [`Participants::sit`](crate::pages::Participants::sit); of reading superblocks.
    #[inline]
    pub(crate) fn sit_to_read(&self) -> Result<Seat<'_>> {
        self.catch_up()?;
        self.participants.sit()
    }

    /// As [`Store::sit_to_read`], and pins that state.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn sit_pinned_to_read(&self) -> Result<PinnedSeat<'_>> {
        self.catch_up()?;
        self.participants.sit_pinned()
    }

    /// Goes on to the newest checkpoint, if this is a reader of checkpoints.
    ///
    /// # Errors
    /// Those of reading superblocks; corruption if the newest is older than the one that was read before.
    #[inline]
    pub(crate) fn catch_up(&self) -> Result<()> {
        match (&self.following, &self.volume) {
            (Some(following), Some(volume)) => self.catch_up_with(volume, following),
            _ => Ok(()),
        }
    }

    #[cold]
    fn catch_up_with(&self, volume: &Volume, following: &Following) -> Result<()> {
        let is_there = || lock(&following.state).view.map_or(Ok(false), |view| volume.is_newest(view));
        if is_there()? {
            return Ok(());
        }
        let _turn = lock(&following.turn);
        if is_there()? {
            return Ok(());
        }
        let seat = self.participants.sit()?;
        let leaves = {
            let mut state = lock(&following.state);
            state.view = None;
            std::mem::take(&mut state.leaves)
        };
        leaves.into_iter().try_for_each(|first| self.forget_leaf(volume, first, &seat))?;
        volume.follow()?;
        self.begin_view(volume, following)
    }

    /// Puts the volume's generation in force; the page table knows nothing.
    fn begin_view(&self, volume: &Volume, following: &Following) -> Result<()> {
        let superblock = volume.superblock();
        let header = self.region.header();
        // Marks only grow here: they are bounds of what may be asked for, not of what there is.
        if u64::from(superblock.pages_high) > self.page_ids.high_water() {
            self.page_ids.assume_used_below(u64::from(superblock.pages_high))?;
        }
        let bounds = superblock.bounds();
        if bounds.or(self.blocks.bounds()) != self.blocks.bounds() {
            self.blocks.assume_used_below(&bounds)?;
        }
        let oldest = self.horizon().all().0;
        header.generation.0.store(superblock.generation, Ordering::SeqCst);
        header.checkpointed.store(superblock.checkpoint.0, Ordering::Release);
        let mut state = lock(&following.state);
        state.lsns = state.lsns.split_off(&oldest);
        state.lsns.insert(superblock.generation, superblock.checkpoint);
        // Before the view: a participant that finds that in force pins it.
        header.visible.0.store(superblock.generation, Ordering::SeqCst);
        state.view = Some(superblock.generation);
        drop(state);
        // Handles look for their databases again.
        header.names_since.store(superblock.generation, Ordering::Release);
        Ok(())
    }

    /// Makes the page table know nothing of the pages of a map leaf.
    fn forget_leaf(&self, volume: &Volume, first: PageId, me: &LocalParticipant) -> Result<()> {
        for page in self.leaf_pages(volume, first) {
            let entry = self.region.entry(page);
            if entry.word() == EntryWord::new(FrameId::NONE, 0) {
                entry.set_block(BlockWord::default());
                continue;
            }
            let latch = self.hold(page, me)?;
            entry.set_block(BlockWord::default());
            let frame = latch.current();
            if frame == FrameId::NONE {
                continue;
            }
            // A sweep that comes late may have claimed it for a moment.
            while !self.region.frame(frame).change(FrameState::Published, FrameState::Claimed(me.number())) {
                sablecat_os::atomic::yield_now();
            }
            self.swing(page, EntryWord::new(frame, me.number()), EntryWord::new(FrameId::NONE, 0));
            latch.swung();
            self.retire(frame, me);
        }
        Ok(())
    }
}

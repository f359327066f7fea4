//! Writing pages to neighbouring blocks that will be read one after the other: so they are read, too, many in
//! a call.
//!
//! Sweeps and cleaners write what is cold, a page here and one there, to whatever blocks are free. What is
//! made to be read from end to end is written as soon as it is made, where the cache is too small for what is
//! in use: then it would be written soon anyway.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Pool;
use super::writing::Writes;
use crate::error::Result;
use crate::pages::header;
use crate::pages::participants::LocalParticipant;
use crate::types::{BlockId, FrameId, PageId, SealedBlock};

/// Pages that are written to blocks in a row.
const IN_A_ROW: usize = 64;

/// Lots that wait for the cleaner, at most: so what waits is a small part of the pool.
const LOTS_MAX: usize = 2;

/// What was made and is to be written, each lot together, by the thread that cleans.
pub(super) type MadeLots = Mutex<VecDeque<Vec<PageId>>>;

impl Pool {
    fn made(&self) -> MutexGuard<'_, VecDeque<Vec<PageId>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the cleaner of this process do [`Pool::write_together`]; or does it, if that has as much to do as
    /// it should.
    ///
    /// # Errors
    /// As of that.
    pub(crate) fn have_written_together(&self, pages: Vec<PageId>, me: &LocalParticipant) -> Result<()> {
        if self.volume.is_none() || !self.under_pressure() {
            return Ok(());
        }
        let mut made = self.made();
        if made.len() == LOTS_MAX {
            drop(made);
            return self.write_together(&pages, me);
        }
        made.push_back(pages);
        drop(made);
        self.call_cleaner();
        Ok(())
    }

    /// Writes what waits for the cleaner.
    pub(super) fn write_made(&self, me: &LocalParticipant) -> Result<()> {
        loop {
            let Some(pages) = self.made().pop_front() else { return Ok(()) };
            self.write_together(&pages, me)?;
        }
    }

    /// Writes those of some pages that are on no block, if frames are wanted by others. The caller is in no
    /// operation, and holds no latch.
    ///
    /// # Errors
    /// Full; those of the volume. What could not be written is dirty as before.
    pub(crate) fn write_together(&self, pages: &[PageId], me: &LocalParticipant) -> Result<()> {
        if self.volume.is_none() || !self.under_pressure() {
            return Ok(());
        }
        self.learn_free_early(me)?;
        pages.chunks(IN_A_ROW).try_for_each(|some| self.write_in_a_row(some, me))
    }

    fn write_in_a_row(&self, pages: &[PageId], me: &LocalParticipant) -> Result<()> {
        let dirty = |page: PageId| {
            let latch = self.try_hold(page, me)?;
            let frame = latch.current();
            // SAFETY: the page is latched, and this is its current version, if there is one.
            let is_whole = frame != FrameId::NONE && !header::is_free(unsafe { self.region.page(frame) });
            let word = is_whole.then(|| self.region.frame(frame).block())?;
            (word.block() == BlockId::NONE).then_some((latch, frame, word.volume()))
        };
        let Some(home) = pages.iter().find_map(|&page| dirty(page).map(|(.., home)| home)) else {
            return Ok(());
        };
        let _hand = me.in_hand();
        let first = self.allocate_blocks(home, pages.len() as u64)?;
        let mut writes = Writes::new(self);
        for (n, &page) in (0..).zip(pages) {
            let block = BlockId::new(home, first.within() + n);
            match dirty(page) {
                Some((_latch, frame, volume)) if volume == home => {
                    writes.push(self.mark(frame, SealedBlock::unsealed(block), me));
                }
                _ => _ = self.blocks.release(block),
            }
        }
        writes.write_out(me)
    }
}

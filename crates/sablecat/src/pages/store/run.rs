//! Runs: pages with consecutive ids that are written once, read while something leads to their first page,
//! and freed together. Long values.
//!
//! A short run is pages like any others. Of a long one only the first page gets a frame; the rest goes
//! straight to the volume, to neighbouring blocks, before anybody can know of it, so a run may be larger than
//! the pool. Nothing but what leads to a run decides who sees it, so the rest needs no versions:
//!
//! - *Publishing.* The entry of each page of the rest says where it is, and that it is `rest`. A commit
//!   publishes the first page alone.
//! - *Checkpoints.* Only the first page has its unsaved bit; a checkpoint that names it names all the pages
//!   after it that are `rest`.
//! - *Freeing.* The first page gets a last version that says how many pages after it are free. When no
//!   snapshot can see the time before it, that is, when that version may be evicted, and no checkpoint is
//!   going on, the ids and blocks of all go back. That is one frame for a run of any length.
//! - *Blocks.* A snapshot may still read a freed run from its blocks when a checkpoint takes it out of the
//!   map, so that checkpoint does not free these blocks: they are given back to the pages' entries, and
//!   released with the run (checkpoint.rs).
//! - *Reading.* Pages of the rest may be read into the pool, one at a time, like others; who wants many reads
//!   past it.
//! - *Moving.* A checkpoint may move any of the pages that the map in force names (relocate.rs). Who reads
//!   past the pool has no latch, so it looks at the entry again once it has read: an entry is changed before
//!   the old block is used for something else. A page that has come into memory meanwhile is read there: the
//!   first one may have been freed, and its block used again, while its version in the pool is what the
//!   snapshot sees.
//!
//! If all processes crash before a checkpoint, no map names the blocks, and so they are free; the value is in
//! the log. If one of several does so while it stores a run, ids and blocks stay in use until somebody finds
//! them lost (lost.rs); if while it releases one, another releases what is left: the last version is the last
//! to go, and what is released is marked so before.
//!
//! Costs (sketch): a copy and a checksum a page each way; a write a quarter of a megabyte; 16 bytes of page
//! table and of the checkpoint's list a page; 50 ns a page to capture or release.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::pages::allocation::hand::{self, InHand};
use crate::pages::visibility::operation::Snapshot;
use crate::pages::volume::Volume;
use crate::pages::{Pages, Participant};
use crate::region::{BlockWord, EntryWord, FrameState};
use crate::types::{BlockId, FrameId, PageId, VolumeId};

/// Runs of up to this many pages are kept and read in the pool: about where a write or a read of its own
/// costs less than that many frames.
const POOLED_MAX: u64 = 16;
/// Freed runs remembered at most; sweeps find those that are forgotten.
const FREED_MAX: usize = 1024;

/// First pages of runs that were freed and may by now be released. Hints: the truth is in the frames, where
/// sweeps find it too.
pub(in crate::pages) type FreedRuns = Mutex<VecDeque<PageId>>;

/// The page ids of a run whose rest is on the volume. Dropped, it gives everything back, unless the run was
/// [kept](Run::keep).
#[derive(Debug)]
#[must_use]
pub(crate) struct Run<'a> {
    pages: &'a Pages,
    me: &'a Participant,
    home: VolumeId,
    first: PageId,
    count: u64,
    is_kept: bool,
    _hand: InHand<'a>,
}

impl Run<'_> {
    /// The first page, which is for the owner to add and to publish.
    pub(crate) fn first(&self) -> PageId {
        self.first
    }

    /// The volume that it is in.
    pub(crate) fn home(&self) -> VolumeId {
        self.home
    }

    /// How many pages it has.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Something that is published leads to the run: it is to stay.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Of who was taken for dead it stays in use, as if it had died.
        if !self.is_kept && self.pages.clear_rest(self.first, self.count - 1, self.me).is_ok() {
            self.pages.release_run(self.first, self.count);
        }
    }
}

/// The pages after `first`, `count` of them.
pub(in crate::pages) fn rest_of(first: PageId, count: u64) -> impl Iterator<Item = PageId> {
    (1..=count).map(move |n| PageId((u64::from(first.0) + n) as u32))
}

impl Pages {
    /// Whether runs of so many pages are stored past the pool.
    pub(crate) fn passes_pool(&self, count: u64) -> bool {
        self.volume.is_some() && count > POOLED_MAX
    }

    /// Stores the rest of a run of `count` pages past the pool, in the volume `home`. `fill` forms the bytes
    /// of the n-th page under its id. The caller holds no latch, since this may take long.
    ///
    /// # Errors
    /// `Exhausted` or `DiskFull` if page ids or the disk do not suffice; those of the volume. Nothing is left
    /// behind.
    pub(crate) fn store_run<'a>(
        &'a self,
        me: &'a Participant,
        home: VolumeId,
        count: u64,
        fill: &mut dyn FnMut(u64, PageId, &mut [u8]),
    ) -> Result<Run<'a>> {
        let volume = self
            .volume
            .as_ref()
            .ok_or_else(|| Error::invalid("an environment in memory alone keeps all its pages in frames"))?;
        self.release_freed(me);
        let hand = me.in_hand();
        let run = Run {
            pages: self,
            me,
            home,
            first: self.allocate_run(count)?,
            count,
            is_kept: false,
            _hand: hand,
        };
        let (mut done, mut extent) = (1, count);
        while done < count {
            extent = extent.min(count - done);
            match self.save_extent(volume, &run, done, extent, fill) {
                Ok(()) => done += extent,
                // No room for so many in a row, but perhaps for fewer.
                Err(error) if error.is_full() && extent > 1 => extent = extent.div_ceil(2),
                Err(error) => return Err(error),
            }
        }
        Ok(run)
    }

    /// Writes pages of a run, from the `from`-th on, to neighbouring blocks, and enters these.
    fn save_extent(
        &self,
        volume: &Volume,
        run: &Run<'_>,
        from: u64,
        count: u64,
        fill: &mut dyn FnMut(u64, PageId, &mut [u8]),
    ) -> Result<()> {
        let page = |n: u64| PageId((u64::from(run.first.0) + from + n) as u32);
        self.region.check_fence()?;
        let block = self.allocate_blocks(run.home, count)?;
        let written = volume.write_extent(block, count, &mut |n, bytes| {
            // Of who was taken for dead in the middle the blocks and pages may be others' by now.
            self.region.check_fence()?;
            fill(from + n, page(n), bytes);
            Ok(())
        });
        let sealed = written.inspect_err(|_| self.blocks.release_run(block, count))?;
        for (n, block) in (0..).zip(sealed) {
            self.region.check_fence()?;
            self.region.entry(page(n)).set_block(BlockWord::fresh(block).rest());
        }
        Ok(())
    }

    /// Drops the frames of the `count` pages after `first`, which nobody can reach any more. False if one of
    /// them is busy.
    pub(in crate::pages) fn drop_rest_frames(&self, first: PageId, count: u64, me: &Participant) -> bool {
        rest_of(first, count).all(|page| {
            if self.region.entry(page).word() == EntryWord::new(FrameId::NONE, 0) {
                return true;
            }
            let Some(frame) = self.try_latch(page, me) else { return false };
            let is_dropped = self.drop_rest_frame(page, frame, me);
            self.unlatch(page, me);
            is_dropped
        })
    }

    /// Drops the frame of a page that nobody can reach and whose latch `me` holds, if it has one. False if it
    /// is busy.
    fn drop_rest_frame(&self, page: PageId, frame: FrameId, me: &Participant) -> bool {
        if frame == FrameId::NONE {
            return true;
        }
        let desc = self.region.frame(frame);
        let block = desc.block();
        if block.is_writing() || !desc.change(FrameState::Published, FrameState::Claimed(me.number())) {
            return false;
        }
        let entry = self.region.entry(page);
        entry.set_block(block);
        if entry.change(EntryWord::new(frame, me.number()), EntryWord::new(FrameId::NONE, me.number())) {
            self.retire(frame, me);
        }
        true
    }

    /// Gives back the blocks of the `count` pages after `first`, which nobody can reach. Their ids are for
    /// the caller to give back. May be done again, should somebody die doing it.
    ///
    /// They may have come into memory, even those that were never published, and since the caller has looked:
    /// who has a handle of a database that was removed looks at what was its root, whatever that is by now.
    /// A frame would be taken for a version of whatever gets the page's number next.
    ///
    /// Their latches are waited for, even by a sweep: only another sweep takes them, and who reads such a
    /// page, for a moment. So are frames that a late sweep has claimed. The caller keeps checkpoints out,
    /// unless the pages never belonged to anything published.
    pub(in crate::pages) fn clear_rest(&self, first: PageId, count: u64, me: &Participant) -> Result<()> {
        for page in rest_of(first, count) {
            let entry = self.region.entry(page);
            let frame = self.latch(page, me)?;
            let mut tries = 0u32;
            while !self.drop_rest_frame(page, frame, me) {
                tries += 1;
                self.try_again(tries);
                self.region.check_fence()?;
            }
            let block = entry.block();
            if block.is_captured() || !block.is_known() {
                // Perhaps the map names the page: the next checkpoint takes it out, and frees the block.
                self.mark_unsaved(page);
            }
            // The word before the block, which is lost rather than freed twice should this process die in
            // between.
            entry.set_block(BlockWord::NOTHING);
            self.forget_block(block);
            self.unlatch(page, me);
        }
        Ok(())
    }

    /// Gives back `count` page ids in a row whose pages nothing is left of.
    pub(in crate::pages) fn release_run(&self, first: PageId, count: u64) {
        hand::assert_in_hand();
        // Of who was taken for dead they may be others' by now.
        if !self.region.is_fenced() {
            self.page_ids.release_run(u64::from(first.0), count);
        }
    }

    /// Whether the pages after this one were stored past the pool together with it.
    pub(in crate::pages) fn begins_run(&self, page: PageId) -> bool {
        rest_of(page, 1).any(|next| self.is_rest(next))
    }

    /// Whether a page was stored past the pool, together with the one before it. Known at least until a
    /// checkpoint names it.
    pub(crate) fn is_rest(&self, page: PageId) -> bool {
        u64::from(page.0) < self.page_ids.high_water() && self.region.entry(page).block().is_rest()
    }

    /// An error if there cannot be so many pages from `first` on: whoever says so is damaged.
    pub(crate) fn check_run(&self, first: PageId, count: u64) -> Result<()> {
        let end = u64::from(first.0).saturating_add(count);
        if first != PageId::NONE && end <= self.page_ids.high_water() {
            return Ok(());
        }
        Err(Error::corruption(format!("{count} pages from page {first} on run past the last page")))
    }

    /// Remembers that a run was freed, to be released before sweeps come upon it.
    pub(crate) fn note_freed(&self, first: PageId) {
        let mut freed = self.freed_runs.lock().unwrap_or_else(PoisonError::into_inner);
        if freed.len() == FREED_MAX {
            freed.pop_front();
        }
        freed.push_back(first);
    }

    /// Releases the freed runs that no snapshot can see any more.
    pub(in crate::pages) fn release_freed(&self, me: &Participant) {
        let noted = std::mem::take(&mut *self.freed_runs.lock().unwrap_or_else(PoisonError::into_inner));
        if noted.is_empty() {
            return;
        }
        let horizon = self.horizon();
        noted
            .into_iter()
            .filter(|&first| !self.release_if_freed(first, &horizon, me))
            .for_each(|first| self.note_freed(first));
    }
}

impl Snapshot<'_> {
    /// Shows `count` pages of a run, `first` and those after it, to `look`, with the place of each among
    /// them. When they are many, those that are not in memory are read past the pool.
    ///
    /// # Errors
    /// Those of reading, and of `look`. Some pages may have been shown then.
    pub(crate) fn run(
        &self,
        first: PageId,
        count: u64,
        look: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let pages = self.operation.pages;
        if u64::from(first.0) + count > pages.region.geometry().pages_max {
            return Err(Error::corruption(format!(
                "{count} pages from page {first} on run past the last page"
            )));
        }
        let page = |n: u64| PageId((u64::from(first.0) + n) as u32);
        let mut done = 0;
        while done < count {
            let extent = match &pages.volume {
                Some(volume) if count > POOLED_MAX => {
                    let extent = pages.extent(page(done), count - done);
                    pages.confirm(self.at)?;
                    extent?.map(|extent| (volume, extent))
                }
                _ => None,
            };
            match extent {
                None => {
                    self.show(page(done), |bytes| look(done, bytes))??;
                    done += 1;
                }
                // The pin, which this operation keeps, covers what leads to the run; so its blocks are taken
                // from it only by moving, and from its first page by a last version, which hangs before one
                // that was read into the pool for it.
                Some((volume, (block, blocks))) => {
                    let (from, mut stale) = (done, false);
                    // Where a page is, if that is still where it was read.
                    let still_there = |n: u64| {
                        let entry = pages.region.entry(page(from + n));
                        let named = entry.block().sealed();
                        (entry.word().frame() == FrameId::NONE && named.block().0 == block.0 + n)
                            .then_some(named)
                    };
                    let read = volume.read_extent(block, blocks, &mut |n, bytes| {
                        let Some(named) = still_there(n) else {
                            stale = true;
                            return Err(Error::not_there(page(from + n)));
                        };
                        pages.check_page(page(from + n), named, bytes)?;
                        look(from + n, bytes)?;
                        done += 1;
                        Ok(())
                    });
                    pages.confirm(self.at)?;
                    pages.fail_if_poisoned()?;
                    // What was moved meanwhile, or came into memory, is read where it is now.
                    if read.is_err() && !stale && (done - from..blocks).all(|n| still_there(n).is_some()) {
                        return read;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Pages {
    /// How many of `most` pages from `page` on are not in memory and on neighbouring blocks, and the first of
    /// these; none if the first is in memory.
    fn extent(&self, page: PageId, most: u64) -> Result<Option<(BlockId, u64)>> {
        let mut first = BlockId::NONE;
        for n in 0..most {
            let page = PageId((u64::from(page.0) + n) as u32);
            let entry = self.region.entry(page);
            // In this order: a page's block is entered before it leaves memory, and does not change while it
            // is out.
            let resident = entry.word().frame() != FrameId::NONE;
            if !resident {
                self.learn_block(page)?;
            }
            let block = entry.block().block();
            if n == 0 {
                if resident {
                    return Ok(None);
                }
                if block == BlockId::NONE {
                    return Err(Error::not_there(page));
                }
                first = block;
            } else if resident || block.0 != first.0 + n {
                return Ok(Some((first, n)));
            }
        }
        Ok(Some((first, most)))
    }
}

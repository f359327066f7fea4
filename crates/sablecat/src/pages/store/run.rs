//! Runs: pages with consecutive ids that are written once, read while something leads to their first page,
//! and freed together. Long values.
//!
//! A short run is pages like any others. Of a long one only the first page gets a frame; the rest goes
//! straight to the volume, to neighbouring blocks, before anybody can know of it, so a run may be larger than
//! the pool. Nothing but what leads to a run decides which participants see it, so the rest needs no
//! versions:
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
//! - *Reading.* Pages of the rest may be read into the pool, one at a time, like others; a participant that
//!   wants many reads past it.
//! - *Moving.* A checkpoint may move any of the pages that the map in force names (relocate.rs). A
//!   participant that reads past the pool has no latch, so it looks at the entry again once it has read: an
//!   entry is changed before the old block is used for something else. A page that has come into memory
//!   meanwhile is read there: the first one may have been freed, and its block used again, while its version
//!   in the pool is what the snapshot sees.
//!
//! If all processes crash before a checkpoint, no map names the blocks, and so they are free; the value is in
//! the log. If one of several does so while it stores a run, ids and blocks stay in use until somebody finds
//! them lost (lost.rs); if while it releases one, another releases what is left: the last version is the last
//! to go, and what is released is marked so before.
//!
//! Costs (sketch): a copy and a checksum a page each way; a write a quarter of a megabyte; 16 bytes of page
//! table and of the checkpoint's list a page; 50 ns a page to capture or release.

use super::Store;
use crate::error::{Error, Result};
use crate::pages::participants::InHand;
use crate::pages::participants::LocalParticipant;
use crate::pages::volume::Volume;
use crate::region::BlockWord;
use crate::types::{PageId, VolumeId};

/// The page ids of a run whose rest is on the volume. Dropped, it gives everything back, unless the run was
/// [kept](PageRun::keep).
#[derive(Debug)]
#[must_use]
pub(crate) struct PageRun<'a> {
    pages: &'a Store,
    me: &'a LocalParticipant,
    home: VolumeId,
    first: PageId,
    count: u64,
    is_kept: bool,
    _hand: InHand<'a>,
}

impl PageRun<'_> {
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

impl Drop for PageRun<'_> {
    fn drop(&mut self) {
        // If this process was taken for dead, the run stays in use, as if the process had died.
        if !self.is_kept && self.pages.clear_rest(self.first, self.count - 1, self.me).is_ok() {
            self.pages.release_run(self.first, self.count);
        }
    }
}

impl Store {
    /// Stores the rest of a run of `count` pages past the pool, in the volume `home`. `fill` forms the bytes
    /// of the n-th page under its id. The caller holds no latch, since this may take long.
    ///
    /// # Errors
    /// `Exhausted` or `DiskFull` if page ids or the disk do not suffice; those of the volume. Nothing is left
    /// behind.
    pub(crate) fn store_run<'a>(
        &'a self,
        me: &'a LocalParticipant,
        home: VolumeId,
        count: u64,
        fill: &mut dyn FnMut(u64, PageId, &mut [u8]),
    ) -> Result<PageRun<'a>> {
        let volume = self
            .volume
            .as_ref()
            .ok_or_else(|| Error::invalid("an environment in memory alone keeps all its pages in frames"))?;
        self.release_freed(me);
        let hand = me.in_hand();
        let run = PageRun {
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
        run: &PageRun<'_>,
        from: u64,
        count: u64,
        fill: &mut dyn FnMut(u64, PageId, &mut [u8]),
    ) -> Result<()> {
        let page = |n: u64| PageId((u64::from(run.first.0) + from + n) as u32);
        self.region.check_fence()?;
        let block = self.allocate_blocks(run.home, count)?;
        let written = self.with_room(volume, || {
            volume.write_extent(block, count, &mut |n, bytes| {
                // If this process was taken for dead in the middle, the blocks and pages may be others' by
                // now.
                self.region.check_fence()?;
                fill(from + n, page(n), bytes);
                Ok(())
            })
        });
        let sealed = written.inspect_err(|_| self.blocks.release_run(block, count))?;
        for (n, block) in (0..).zip(sealed) {
            self.region.check_fence()?;
            self.region.entry(page(n)).set_block(BlockWord::fresh(block).rest());
        }
        Ok(())
    }
}

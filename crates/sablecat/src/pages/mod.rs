//! Pages: from a page id to the bytes of the version one may see.
//!
//! A logical page has a stable id. Its current version is in a frame of the pool or on a block of the volume;
//! older versions that a snapshot may still need hang behind it, newest first. A published version never
//! changes, so a page is a plain `&[u8]`.
//!
//! Two protections, both announced in the participant's slot, both one store and a fence:
//! - a *pin* at LSN S keeps every version valid at S from being reclaimed, for as long as a snapshot lives;
//! - an *operation* (its epoch) keeps every frame that was reachable when it began from being used for
//!   something else, for as long as one call lasts. Eviction needs it: a page may leave the pool although a
//!   snapshot could read it, since it can be read in again.
//!
//! A version superseded at `c` is freed when no pin is below `c` (the *horizon*), or when no pin lies in
//! [born, c); the latter also waits for the operations in progress, because chain walkers may be on it.
//!
//! Inside an operation nothing waits for frames: what runs out of them gets an error that [`Pages::operate`]
//! answers by leaving the operation, sweeping, and running it again. So a sweep never waits for itself.

mod allocation;
mod bell;
pub(crate) mod header;
mod pool;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod visibility;
pub(crate) mod volume;

pub(crate) use allocation::hand::InHand;
#[cfg(test)]
pub(crate) use allocation::hand::pretend;
pub(crate) use allocation::{BitSpace, BlockSpace, Lost, first_within};
pub(crate) use bell::Bell;
#[cfg(test)]
pub(crate) use pool::latch::impatiently;
pub(crate) use store::relocate::Moving;
pub(crate) use store::run::Run;
pub(crate) use store::settled::PageSet;
pub(crate) use visibility::operation::Snapshot;
pub(crate) use visibility::participants::{Participant, Participants, Seat};

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use sablecat_os::atomic::{Ordering, accept_fences};

use crate::error::{Error, Result};
use crate::region::Region;
use crate::types::{FrameId, PageId, VolumeId};
use allocation::hand;
use pool::last_frames;
use store::{follow, relocate, run, succession};
use volume::Volume;

/// Tells whether bytes read from disk form a page that the access methods can work on without looking back.
pub(crate) type PageCheck = fn(&[u8]) -> std::result::Result<(), String>;

/// The pages of one environment.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) region: Arc<Region>,
    pub(crate) participants: Participants,
    volume: Option<Volume>,
    page_ids: BitSpace,
    blocks: BlockSpace,
    check: PageCheck,
    /// Where the search for blocks to move goes on: a page id, 0 when it begins anew.
    moved_below: AtomicU64,
    /// Blocks that pages were moved from and that old versions may name. Touched by the checkpointer only.
    kept_back: Mutex<relocate::KeptBack>,
    freed_runs: run::FreedRuns,
    last_frames: last_frames::LastFrames,
    /// Who has the checkpoint role, as this process last saw it.
    watched: Mutex<succession::Watched>,
    /// Rung when dirty frames are in the way of sweeps.
    pub(crate) cleaner: Arc<Bell>,
    /// None: what is in the region is the newest state, not the volume's.
    following: Option<follow::Following>,
    /// Whether others may fence this process's operations, so that what these say of themselves can be relied
    /// upon.
    says_what_it_looks_at: bool,
    /// Before a page is latched to be told where it was moved, and before it is told.
    #[cfg(test)]
    pub(crate) telling: volume::tests::interrupted::Countdown,
}

impl Pages {
    /// Pages over a region: of `volume`, or of memory alone. A volume that may only be read is followed
    /// (follow.rs).
    pub(crate) fn new(region: Arc<Region>, volume: Option<Volume>, check: PageCheck) -> Result<Pages> {
        let header = region.header();
        let of_pages = Arc::clone(&region);
        // Who was taken for dead takes nothing any more: it could not be told from what it had in hand.
        let make_certain = Box::new(move |numbers: Range<u64>| {
            of_pages.check_fence()?;
            of_pages.reserve_pages(numbers.end)?;
            of_pages.count_taken(0, numbers);
            Ok(())
        });
        // SAFETY: the bitmaps and their words lie in the region, which lives as long as `Pages` holds it.
        let page_ids = unsafe {
            BitSpace::new(
                region.page_bits(),
                (&header.page_hint.0).into(),
                (&header.page_high).into(),
                make_certain,
            )
        };
        let blocks = (0..region.geometry().volumes as u8).map(VolumeId).map(|volume| {
            let (words, of_blocks) = (&header.blocks[volume.index()].0, Arc::clone(&region));
            let make_certain = Box::new(move |numbers: Range<u64>| {
                of_blocks.check_fence()?;
                of_blocks.reserve_blocks(volume, numbers.end)?;
                of_blocks.count_taken(1 + volume.index(), numbers);
                Ok(())
            });
            // SAFETY: as above.
            unsafe {
                BitSpace::new(
                    region.block_bits(volume),
                    (&words.hint).into(),
                    (&words.high).into(),
                    make_certain,
                )
            }
        });
        let blocks = blocks.collect();
        let fence = Arc::clone(&region);
        let blocks = BlockSpace::new(
            blocks,
            Box::new(move || {
                hand::assert_in_hand();
                !fence.is_fenced()
            }),
        );
        let participants = Participants::new(&region)?;
        let following =
            volume.as_ref().filter(|volume| volume.is_read_only()).map(|_| follow::Following::default());
        if let Some(volume) = &volume {
            assert_eq!(
                volume.count(),
                region.geometry().volumes,
                "the region was made for the volumes there are"
            );
            // Whoever made the region says which generation is in force; later only checkpointers do.
            let generation = volume.generation();
            if header
                .generation
                .0
                .compare_exchange(0, generation, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                header.generation_first.store(generation, Ordering::Relaxed);
            }
        }
        let last_frames = last_frames::LastFrames::of(&region, volume.is_some());
        Ok(Pages {
            region,
            participants,
            volume,
            page_ids,
            blocks,
            check,
            moved_below: AtomicU64::new(0),
            kept_back: Mutex::default(),
            freed_runs: run::FreedRuns::default(),
            last_frames,
            watched: Mutex::default(),
            cleaner: Arc::default(),
            following,
            says_what_it_looks_at: accept_fences(),
            #[cfg(test)]
            telling: Default::default(),
        })
    }

    /// The volume, unless the environment lives in memory alone.
    pub(crate) fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// The allocator of page ids.
    pub(crate) fn page_ids(&self) -> &BitSpace {
        &self.page_ids
    }

    /// The allocator of blocks.
    pub(crate) fn blocks(&self) -> &BlockSpace {
        &self.blocks
    }

    /// A page id nobody uses.
    pub(crate) fn allocate_page(&self) -> Result<PageId> {
        hand::assert_in_hand();
        match self.page_ids.allocate_one()? {
            Some(id) if id < self.region.geometry().pages_max => Ok(PageId(id as u32)),
            _ => Err(Error::exhausted(
                "all 4,294,967,295 page numbers of the environment are in use; use a larger page size",
            )),
        }
    }

    /// Page ids that nobody uses, `count` in a row; the first.
    pub(crate) fn allocate_run(&self, count: u64) -> Result<PageId> {
        hand::assert_in_hand();
        match self.page_ids.allocate_run(count)? {
            Some(first) if first + count <= self.region.geometry().pages_max => Ok(PageId(first as u32)),
            _ => Err(Error::exhausted(format!(
                "no {count} page numbers in a row are left in the environment; use a larger page size"
            ))),
        }
    }

    /// Gives back the id of a page that was never published, or whose last version is gone.
    pub(crate) fn release_page(&self, page: PageId) {
        self.release_run(page, 1);
    }

    /// Marks a frame as lately used, for the clock; free while the pool holds everything.
    #[inline]
    fn touch(&self, frame: FrameId) {
        use Ordering::Relaxed;
        if self.region.header().pressure.0.load(Relaxed) != 0 {
            let byte = self.region.referenced(frame);
            if byte.load(Relaxed) == 0 {
                byte.store(1, Relaxed);
            }
        }
    }
}

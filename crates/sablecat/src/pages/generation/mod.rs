//! Generations: the volume as all processes of the region share it.
//!
//! Which generation of it is in force, and whether what is on it can be believed (`in_force`); which
//! participant may write the next (`succession`), from which pages (`unsaved`); which page ids and blocks are
//! free, and where each page is (`located`). A read-only process goes on from one to the next (`followed`).

pub(in crate::pages) mod followed;
mod in_force;
mod located;
mod succession;
mod unsaved;

use std::ops::{Deref, Range};
use std::sync::Arc;

use sablecat_os::atomic::Ordering;

use crate::error::Result;
use crate::pages::allocation::{BitSpace, BlockSpace};
use crate::pages::participants::{Participants, hand};
use crate::pages::volume::Volume;
use crate::region::{Region, RoleWatch};
use crate::types::VolumeId;

/// What numbers and blocks there are, and the volume's generations.
#[derive(Debug)]
pub(crate) struct Generations {
    pub(crate) participants: Participants,
    pub(in crate::pages) volume: Option<Volume>,
    pub(in crate::pages) page_ids: BitSpace,
    pub(in crate::pages) blocks: BlockSpace,
    /// None: what is in the region is the newest state, not the volume's.
    pub(in crate::pages) following: Option<followed::Following>,
    /// For how long the holder of the checkpoint role has not moved.
    watch: RoleWatch,
}

impl Generations {
    /// Of a region, and of `volume`, unless all is in memory alone. A volume that may only be read is
    /// followed (`followed`).
    pub(in crate::pages) fn new(region: Arc<Region>, volume: Option<Volume>) -> Result<Generations> {
        let header = region.header();
        let of_pages = Arc::clone(&region);
        // A process that was taken for dead takes nothing any more: what it takes could not be told from what
        // it had in hand.
        let make_certain = Box::new(move |numbers: Range<u64>| {
            of_pages.check_fence()?;
            of_pages.reserve_pages(numbers.end)?;
            of_pages.count_taken(0, numbers);
            Ok(())
        });
        // SAFETY: the bitmaps and their words lie in the region, which lives as long as this holds it.
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
        let following =
            volume.as_ref().filter(|volume| volume.is_read_only()).map(|_| followed::Following::default());
        if let Some(volume) = &volume {
            assert_eq!(
                volume.count(),
                region.geometry().volumes,
                "the region was made for the volumes there are"
            );
            // The process that made the region says which generation is in force; later only checkpointers
            // do.
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
        Ok(Generations {
            participants: Participants::new(region)?,
            volume,
            page_ids,
            blocks,
            following,
            watch: RoleWatch::default(),
        })
    }
}

impl Deref for Generations {
    type Target = Participants;

    #[inline(always)]
    fn deref(&self) -> &Participants {
        &self.participants
    }
}

//! Which generation of the volume is in force, and whether what the disk holds is known.

use sablecat_os::atomic::Ordering;

use super::Generations;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::participants::LocalParticipant;
use crate::pages::volume::{Superblock, Volume};
use crate::trace::{self, Happened};

impl Generations {
    /// Makes a new region go on from a superblock: what it says is in use is, until the maps have been looked
    /// at. Trees get ids from `first_tree` on.
    ///
    /// # Errors
    /// Those of reserving memory for what is in use.
    pub(crate) fn begin_from(&self, superblock: &Superblock, first_tree: u32) -> Result<()> {
        let header = self.region.header();
        self.page_ids.assume_used_below(u64::from(superblock.pages_high))?;
        self.blocks.assume_used_below(&superblock.bounds())?;
        header.tree_next.0.store(superblock.tree_next.max(first_tree), Ordering::Release);
        header.visible.0.store(superblock.checkpoint.0, Ordering::Release);
        header.checkpointed.store(superblock.checkpoint.0, Ordering::Release);
        Ok(())
    }

    /// Nobody knows any more what is on the volume: no checkpoint is made of it from here on, and nothing
    /// read from it is believed. The caller has the checkpoint role, or had it when it flushed.
    pub(in crate::pages) fn poison(&self) {
        // Release, and before the role is released: pairs with the look of the next holder.
        if self.region.header().volume_poisoned.swap(1, Ordering::Release) == 0 {
            trace::tell(Happened::Poisoned { what: "volume", cause: "a write or flush of it failed" });
        }
    }

    /// An error once others took this process for dead.
    pub(crate) fn fail_if_fenced(&self) -> Result<()> {
        self.region.check_fence()
    }

    /// An error once a write to the volume has failed in a way that leaves unknown what is on it.
    pub(crate) fn fail_if_poisoned(&self) -> Result<()> {
        if self.region.header().volume_poisoned.load(Ordering::Acquire) != 0 {
            return Err(Error::new(
                ErrorKind::Poisoned,
                "an earlier write or flush of the volume failed, so what the disk holds is not known; close \
                 the environment and open it again to recover",
            ));
        }
        Ok(())
    }

    /// Makes sure that this process reads the map of the generation in force, which another process may have
    /// put there.
    pub(crate) fn follow_generation(&self, volume: &Volume) -> Result<()> {
        if volume.generation() == self.region.header().generation.0.load(Ordering::SeqCst) {
            Ok(())
        } else {
            volume.follow()
        }
    }

    /// Says which generation is durable and in force, and of which LSN it is.
    pub(in crate::pages) fn say_in_force(&self, generation: u64, checkpoint: u64) {
        let header = self.region.header();
        // Only upwards: a participant that was succeeded says it late.
        header.generation.0.fetch_max(generation, Ordering::SeqCst);
        header.checkpointed.fetch_max(checkpoint, Ordering::SeqCst);
        header.checkpoint_successions.store(0, Ordering::Relaxed);
    }

    /// As [`Generations::learn_free`], for a participant that makes no checkpoint; unless another makes one:
    /// that one will learn which are free.
    pub(in crate::pages) fn learn_free_early(&self, me: &LocalParticipant) -> Result<()> {
        let Some(volume) = &self.volume else { return Ok(()) };
        if self.region.header().free_known.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        let Some(_hold) = self.try_hold_checkpoint(me) else { return Ok(()) };
        let _hand = me.in_hand();
        self.fail_if_poisoned()?;
        self.follow_generation(volume)?;
        self.learn_free(volume)
    }

    /// Learns, once, which page ids and blocks below the opening high-water marks are free: until then all
    /// count as used, so that opening need not read the map.
    pub(in crate::pages) fn learn_free(&self, volume: &Volume) -> Result<()> {
        if self.region.header().free_known.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        let found = volume.scan()?;
        // Before anything is free: should this process die here, what is not free yet is lost
        // (store/lost.rs), but what is free, and perhaps in use again, is not made free a second time. By one
        // participant alone, which may have been succeeded since: what it does not free nobody else can have.
        if self
            .region
            .header()
            .free_known
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Ok(());
        }
        self.page_ids.free_unused(&found.pages);
        self.blocks.free_unused(&found.blocks);
        Ok(())
    }
}

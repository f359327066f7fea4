//! The disk half of a checkpoint.
//!
//! ```text
//! pages to free blocks ─▶ map blocks to free blocks ─▶ flush, every volume that has pages named anew ─▶ superblock g + 1 to its slot ─▶ flush ─▶ generation g's own blocks are free
//! ```
//!
//! The pages come first, by [`Volume::write_blocks`], in as many batches as the caller likes; this module does the rest.
//!
//! A crash before the last flush leaves generation g, or g + 1 if its superblock happened to arrive; both are whole. From the first flush
//! until the last has succeeded nobody knows which, so no block of either may be reused: an error in between is of kind `Poisoned` and
//! ends the environment. The successor of a checkpointer that *died* there asks the file ([`Volume::settle`]).

use std::collections::BTreeSet;

use super::BlockSpace;
use super::file::Volume;
use super::map::{MapChange, MapRoot, update};
use super::superblock::Superblock;
use crate::error::{Error, Result};
use crate::types::{BlockId, PageId, SealedBlock, VolumeId};

/// What the next generation is to be.
#[derive(Debug)]
pub(crate) struct CheckpointPlan<'a> {
    /// What is different in the map: sorted by page, each page once; block 0 removes a page. The blocks hold the pages already.
    pub(crate) changes: &'a [(PageId, SealedBlock)],
    /// Where blocks for the map come from.
    pub(crate) blocks: &'a BlockSpace,
    /// Map blocks from this one on are written anew if they lead to a page among the changes, even to one that stays where it is.
    pub(crate) rewrite_from: BlockId,
    /// What the superblock is to say. Identity, generation, map and what may be in use of each volume are filled in.
    pub(crate) next: Superblock,
}

impl Volume {
    /// Makes the next generation durable and puts it in force. Returns the blocks that only the generation before named: they are free
    /// from now on, for the caller to release.
    ///
    /// The caller is the only checkpointer; whether it still is, `may_switch` says just before the superblock is written.
    ///
    /// # Errors
    /// `Poisoned`, [in doubt](Error::is_volume_in_doubt), when it is not known which generation is on the disk: the environment must be closed. With
    /// any other the old generation is in force and the map blocks allocated here have been given back: it may be tried again. Those of `may_switch`, as they are.
    pub(crate) fn write_checkpoint(&self, plan: CheckpointPlan<'_>, may_switch: &dyn Fn() -> Result<()>) -> Result<Vec<BlockId>> {
        let CheckpointPlan { changes, blocks, rewrite_from, mut next } = plan;
        let named = |change: &&(PageId, SealedBlock)| change.1 != SealedBlock::NONE;
        assert!(changes.iter().rfind(named).is_none_or(|last| last.0.0 < next.pages_high), "pages in use are below the mark");
        let bounds = blocks.bounds();
        let allocated = |block: BlockId| block.within() < bounds[block.volume()];
        assert!(changes.iter().filter(named).all(|change| allocated(change.1.block())), "blocks are allocated before they are named");
        let now = self.superblock();
        next.uuid = now.uuid;
        next.page_size = now.page_size;
        next.generation = now.generation + 1;

        let MapChange { root, height, freed } = self.write_map(&now.map(), next.generation, (changes, rewrite_from), blocks)?;
        next.map_root = root;
        next.map_height = height;
        let bounds = blocks.bounds();
        next.blocks_high = bounds[VolumeId::MAIN];
        let written: BTreeSet<VolumeId> =
            changes.iter().map(|change| change.1.block().volume()).filter(|&volume| volume != VolumeId::MAIN).collect();
        for (number, volume) in (1..).map(VolumeId).zip(&mut next.placement.volumes) {
            volume.blocks_high = bounds[number];
            if written.contains(&number) {
                volume.generation = next.generation;
            }
        }
        self.flush(&next, &written).map_err(in_doubt)?;
        may_switch()?;
        self.switch(&next).map_err(in_doubt)?;
        self.adopt(next);
        Ok(freed)
    }

    fn write_map(
        &self,
        old: &MapRoot,
        generation: u64,
        changes: (&[(PageId, SealedBlock)], BlockId),
        blocks: &BlockSpace,
    ) -> Result<MapChange> {
        let mut allocated = Vec::new();
        let mut allocate = || {
            let block = blocks.allocate(VolumeId::MAIN)?.ok_or_else(|| Error::full("the main volume has reached its largest size"))?;
            allocated.push(block);
            Ok(block)
        };
        let result = update(self, old, generation, changes, &mut allocate);
        if result.is_err() {
            for block in allocated {
                blocks.release(block);
            }
        }
        result
    }

    fn flush(&self, next: &Superblock, written: &BTreeSet<VolumeId>) -> Result<()> {
        // What it names anew in other volumes, whoever wrote it there. What was named before has been flushed before.
        written.iter().try_for_each(|&volume| self.sync_extra(volume, next))?;
        self.sync()
    }

    fn switch(&self, next: &Superblock) -> Result<()> {
        self.write_superblock(next)?;
        self.sync()
    }
}

fn in_doubt(error: Error) -> Error {
    Error::volume_in_doubt(format!(
        "{error}; it is not known whether the checkpoint is on the disk: close the environment and open it again to recover"
    ))
}

//! The disk half of a checkpoint.
//!
//! ```text
//! pages to free blocks ─▶ map blocks to free blocks ─▶ flush, every volume that has pages named anew
//!   ─▶ superblock g + 1 to its berth ─▶ flush ─▶ generation g's own blocks are free
//! ```
//!
//! The pages come first, by [`Volume::write_blocks`], in as many batches as the caller likes; this module
//! does the rest.
//!
//! A crash before the last flush leaves generation g, or g + 1 if its superblock happened to arrive; both are
//! whole. From the first flush until the last has succeeded nobody knows which, so no block of either may be
//! reused: an error in between is of kind `Poisoned` and ends the environment. The successor of a
//! checkpointer that died or was stopped there writes that superblock once more itself
//! ([`Volume::write_draft`]).

use std::collections::BTreeSet;

use super::bytes::SUPERBLOCK_BYTES;
use super::file::Volume;
use super::map::{MapChange, MapRoot, update};
use super::superblock::Superblock;
use crate::error::{Error, Result};
use crate::pages::allocation::BlockSpace;
use crate::types::{Berth, BlockId, PageId, SealedBlock, VolumeId};

/// What the next generation is to be.
#[derive(Debug)]
pub(crate) struct CheckpointPlan<'a> {
    /// What is different in the map: sorted by page, each page once; block 0 removes a page. The blocks hold
    /// the pages already.
    pub(crate) changes: &'a [(PageId, SealedBlock)],
    /// Where blocks for the map come from.
    pub(crate) blocks: &'a BlockSpace,
    /// Map blocks from this one on are written anew if they lead to a page among the changes, even to one
    /// that stays where it is.
    pub(crate) rewrite_from: BlockId,
    /// What it is to say of what may be in use.
    pub(crate) marks: Marks,
    /// What the superblock is to say. Identity, generation, map and what may be in use of each volume are
    /// filled in. Built upon the one in force.
    pub(crate) next: Superblock,
    /// Where the superblock goes, and the headers of other volumes.
    pub(crate) berth: Berth,
}

/// The marks of a superblock: numbers of pages, and blocks, below which all that the map names lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marks {
    /// What is below the allocators' marks may be in use.
    Now,
    /// As in the superblock before: nothing changes in the map.
    AsBefore,
}

impl Volume {
    /// Makes the next generation durable and puts it in force. Returns its superblock, and the blocks that
    /// only the generation before named: they are free from now on, for the caller to release.
    ///
    /// The caller is the only checkpointer; whether it still is, `may_switch` says, with the bytes of the
    /// superblock, just before these are written.
    ///
    /// # Errors
    /// `Poisoned`, [in doubt](Error::is_volume_in_doubt), when it is not known which generation is on the
    /// disk: the environment must be closed. With any other the old generation is in force and the map blocks
    /// allocated here have been given back: it may be tried again. Those of `may_switch`, as they are.
    pub(crate) fn write_checkpoint(
        &self,
        plan: CheckpointPlan<'_>,
        may_switch: &mut dyn FnMut(&[u8; SUPERBLOCK_BYTES]) -> Result<()>,
    ) -> Result<(Superblock, Vec<BlockId>)> {
        let CheckpointPlan { changes, blocks, rewrite_from, marks, mut next, berth } = plan;
        assert!(marks == Marks::Now || changes.is_empty(), "what is named lies below the marks");
        let named = |change: &&(PageId, SealedBlock)| change.1 != SealedBlock::NONE;
        assert!(
            changes.iter().rfind(named).is_none_or(|last| last.0.0 < next.pages_high),
            "pages in use are below the mark"
        );
        let bounds = blocks.bounds();
        let allocated = |block: BlockId| block.within() < bounds[block.volume()];
        assert!(
            changes.iter().filter(named).all(|change| allocated(change.1.block())),
            "blocks are allocated before they are named"
        );
        let now = self.superblock();
        next.uuid = now.uuid;
        next.codec = now.codec;
        next.generation = now.next_generation()?;

        let (MapChange { root, height, freed }, allocated) =
            self.write_map(&now.map(), next.generation, (changes, rewrite_from), blocks)?;
        next.map_root = root;
        next.map_height = height;
        let before = now.bounds();
        let bounds = if marks == Marks::Now { blocks.bounds() } else { before };
        next.blocks_high = bounds[VolumeId::MAIN];
        let written: BTreeSet<VolumeId> = changes
            .iter()
            .map(|change| change.1.block().volume())
            .filter(|&volume| volume != VolumeId::MAIN)
            .collect();
        for (number, volume) in (1..).map(VolumeId).zip(&mut next.placement.volumes) {
            volume.blocks_high = bounds[number];
            if written.contains(&number) {
                volume.generation = next.generation;
            }
        }
        next.old_ends = None;
        self.flush(&next, &written, berth).map_err(in_doubt)?;
        may_switch(&next.encode())
            .inspect_err(|_| allocated.iter().for_each(|&block| _ = blocks.release(block)))?;
        self.switch(&next, berth).map_err(in_doubt)?;
        self.advance(&next, berth);
        Ok((next, freed))
    }

    /// Writes the superblock that another was about to write, makes it durable, and puts it in force.
    ///
    /// # Errors
    /// Corruption if it is not that of `generation` of this volume; those of the file.
    pub(crate) fn write_draft(
        &self,
        draft: &[u8; SUPERBLOCK_BYTES],
        generation: u64,
        berth: Berth,
    ) -> Result<Superblock> {
        let wrong = |why: String| {
            Error::corruption(format!(
                "{}: the superblock that another process left in memory: {why}",
                self.path().display()
            ))
        };
        let superblock = Superblock::decode(draft).map_err(wrong)?;
        let known = self.superblock();
        if superblock.generation != generation
            || superblock.uuid != known.uuid
            || superblock.volume_count() != self.count()
        {
            return Err(wrong(format!(
                "it is generation {} and not {generation} of this volume",
                superblock.generation
            )));
        }
        self.switch(&superblock, berth)?;
        self.advance(&superblock, berth);
        Ok(superblock)
    }

    /// Writes the map anew where it changes; which blocks that took.
    fn write_map(
        &self,
        old: &MapRoot,
        generation: u64,
        changes: (&[(PageId, SealedBlock)], BlockId),
        blocks: &BlockSpace,
    ) -> Result<(MapChange, Vec<BlockId>)> {
        let mut allocated = Vec::new();
        let mut allocate = || {
            let block = blocks
                .allocate(VolumeId::MAIN)?
                .ok_or_else(|| Error::exhausted("the main volume has reached its largest size"))?;
            allocated.push(block);
            Ok(block)
        };
        let result = update(self, old, generation, changes, &mut allocate);
        if result.is_err() {
            allocated.iter().for_each(|&block| _ = blocks.release(block));
        }
        result.map(|change| (change, allocated))
    }

    fn flush(&self, next: &Superblock, written: &BTreeSet<VolumeId>, berth: Berth) -> Result<()> {
        // What it names anew in other volumes, whichever process wrote it there. What was named before has
        // been flushed before.
        written.iter().try_for_each(|&volume| self.sync_extra(volume, next, berth))?;
        self.sync()
    }

    fn switch(&self, next: &Superblock, berth: Berth) -> Result<()> {
        self.write_superblock(next, berth)?;
        self.sync()
    }
}

fn in_doubt(error: Error) -> Error {
    Error::volume_in_doubt(format!(
        "{error}; it is not known whether the checkpoint is on the disk: close the environment and open it \
         again to recover"
    ))
}

//! The blocks of all volumes: one space of numbers, with an allocator for each volume.
//!
//! A block's number says which volume it is in and where there (types.rs), so whatever reads, names or checks
//! blocks need not know of volumes. Only a participant that allocates says where.

use std::fmt;
use std::ops::Index;

use super::space::BitSpace;
use super::used::Used;
use crate::error::Result;
use crate::region::VOLUMES_MAX;
use crate::types::{BlockId, VolumeId};

/// Bytes at the head of the main volume that hold the superblocks and no blocks.
pub(in crate::pages) const RESERVED_BYTES: u64 = 131_072;

/// Bytes at the head of any other volume that hold its header and no blocks: as many as the largest page.
pub(in crate::pages) const EXTRA_RESERVED_BYTES: u64 = 65536;

/// The place of the first block of a volume that can be allocated: before it are the superblocks, or the
/// volume's header.
pub(crate) fn first_within(volume: VolumeId, block_size: usize) -> u64 {
    let reserved = if volume == VolumeId::MAIN { RESERVED_BYTES } else { EXTRA_RESERVED_BYTES };
    reserved / block_size as u64
}

/// For each volume: places below this may be in use. 0 for volumes that are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VolumeBounds([u64; VOLUMES_MAX]);

impl VolumeBounds {
    /// The bounds of the main volume, and those of the others in their order.
    pub(crate) fn new(bounds: impl IntoIterator<Item = u64>) -> VolumeBounds {
        let mut all = [0; VOLUMES_MAX];
        all.iter_mut().zip(bounds).for_each(|(place, bound)| *place = bound);
        VolumeBounds(all)
    }

    /// The highest of them.
    pub(crate) fn highest(&self) -> u64 {
        self.0.into_iter().max().unwrap_or_default()
    }

    /// Whether a number read from somewhere can be that of a block.
    pub(crate) fn contain(&self, block: BlockId, block_size: usize) -> bool {
        let volume = block.volume();
        block.0 < BlockId::MAX
            && volume.index() < VOLUMES_MAX
            && (first_within(volume, block_size)..self.0[volume.index()]).contains(&block.within())
    }

    /// For each volume the larger one.
    pub(crate) fn or(self, other: VolumeBounds) -> VolumeBounds {
        VolumeBounds(std::array::from_fn(|n| self.0[n].max(other.0[n])))
    }

    /// How many places they leave in all.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<VolumeId> for VolumeBounds {
    type Output = u64;
    fn index(&self, volume: VolumeId) -> &u64 {
        &self.0[volume.index()]
    }
}

/// Which blocks are in use, of all volumes.
pub(crate) struct BlockSpace {
    volumes: Vec<BitSpace>,
    may_release: MayRelease,
}

/// Whether blocks may be given back by this process: of one that was taken for dead they may be others' by
/// now.
pub(crate) type MayRelease = Box<dyn Fn() -> bool + Send + Sync>;

impl fmt::Debug for BlockSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockSpace").field("volumes", &self.volumes).finish_non_exhaustive()
    }
}

impl BlockSpace {
    /// Allocators, that of the main volume first.
    pub(crate) fn new(volumes: Vec<BitSpace>, may_release: MayRelease) -> BlockSpace {
        BlockSpace { volumes, may_release }
    }

    /// A volume's own.
    pub(crate) fn of(&self, volume: VolumeId) -> &BitSpace {
        &self.volumes[volume.index()]
    }

    /// The volumes, the main one first.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = VolumeId> + use<> {
        (0..self.volumes.len() as u8).map(VolumeId)
    }

    /// A free block of a volume, about the lowest; none if it is full.
    ///
    /// # Errors
    /// As [`BitSpace::allocate_one`].
    pub(crate) fn allocate(&self, volume: VolumeId) -> Result<Option<BlockId>> {
        Ok(self.of(volume).allocate_one()?.map(|within| BlockId::new(volume, within)))
    }

    /// Free blocks of a volume, `count` in a row; the first.
    ///
    /// # Errors
    /// As [`BitSpace::allocate_one`].
    pub(crate) fn allocate_run(&self, volume: VolumeId, count: u64) -> Result<Option<BlockId>> {
        Ok(self.of(volume).allocate_run(count)?.map(|within| BlockId::new(volume, within)))
    }

    /// Gives a block back. True if it was in use.
    pub(crate) fn release(&self, block: BlockId) -> bool {
        (self.may_release)() && self.of(block.volume()).release(block.within())
    }

    /// Gives back `count` blocks from `first` on.
    pub(crate) fn release_run(&self, first: BlockId, count: u64) {
        if (self.may_release)() {
            self.of(first.volume()).release_run(first.within(), count);
        }
    }

    /// For each volume: places at or above this are free.
    pub(crate) fn bounds(&self) -> VolumeBounds {
        VolumeBounds::new(self.volumes.iter().map(BitSpace::high_water))
    }

    /// Counts everything within the bounds as in use ([`BitSpace::assume_used_below`]).
    ///
    /// # Errors
    /// Full if there is no room for as many.
    pub(crate) fn assume_used_below(&self, bounds: &VolumeBounds) -> Result<()> {
        self.volumes().try_for_each(|volume| self.of(volume).assume_used_below(bounds[volume]))
    }

    /// Frees what is not in use ([`BitSpace::free_unused`]).
    pub(crate) fn free_unused(&self, used: &UsedBlocks) {
        self.volumes().for_each(|volume| self.of(volume).free_unused(used.of(volume)));
    }

    /// The blocks in use, within the bounds of `named`, that are not in it.
    pub(crate) fn used_beside(&self, named: &UsedBlocks) -> Vec<BlockId> {
        self.volumes()
            .flat_map(|volume| {
                self.of(volume).used_beside(named.of(volume)).map(move |within| BlockId::new(volume, within))
            })
            .collect()
    }

    /// True if the block is in use.
    pub(crate) fn is_used(&self, block: BlockId) -> bool {
        self.of(block.volume()).is_used(block.within())
    }

    /// All blocks below the marks.
    #[cfg(test)]
    pub(crate) fn below_marks(&self) -> impl Iterator<Item = BlockId> {
        self.volumes().flat_map(|volume| {
            (0..self.of(volume).high_water()).map(move |within| BlockId::new(volume, within))
        })
    }

    /// How many blocks are in use, those before the first of each volume included.
    #[cfg(test)]
    pub(crate) fn used_count(&self) -> u64 {
        self.volumes.iter().map(BitSpace::used_count).sum()
    }
}

/// Blocks that have been found in use, in process memory.
#[derive(Clone, Debug)]
pub(crate) struct UsedBlocks(Vec<Used>);

impl UsedBlocks {
    /// What lies before the first block of each of so many volumes, within these bounds.
    pub(in crate::pages) fn reserved(volumes: usize, bounds: &VolumeBounds, block_size: usize) -> UsedBlocks {
        let used = (0..volumes as u8).map(VolumeId).map(|volume| {
            let mut used = Used::new(bounds[volume]);
            for within in 0..first_within(volume, block_size).min(bounds[volume]) {
                used.insert(within);
            }
            used
        });
        UsedBlocks(used.collect())
    }

    /// Adds a block, which is within the bounds; false if it was there already.
    pub(in crate::pages) fn insert(&mut self, block: BlockId) -> bool {
        self.0[block.volume().index()].insert(block.within())
    }

    /// Raises the bounds.
    pub(crate) fn extend(&mut self, bounds: &VolumeBounds) {
        (0..).map(VolumeId).zip(&mut self.0).for_each(|(volume, used)| used.extend(bounds[volume]));
    }

    /// Adds a block, unless it is beyond the bounds.
    pub(crate) fn note(&mut self, block: BlockId) {
        if block != BlockId::NONE
            && block.volume().index() < self.0.len()
            && block.within() < self.of(block.volume()).bound()
        {
            self.insert(block);
        }
    }

    /// True if the block is among them.
    pub(crate) fn contains(&self, block: BlockId) -> bool {
        let used = self.of(block.volume());
        block.within() < used.bound() && used.contains(block.within())
    }

    /// How many they are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(Used::count).sum()
    }

    /// Those of one volume.
    pub(crate) fn of(&self, volume: VolumeId) -> &Used {
        &self.0[volume.index()]
    }
}

//! The format of a map block.
//!
//! ```text
//! 0  crc32c u32             4  magic u32 "smap"
//! 8  first page covered u32 12 level u32 (0: leaf)
//! 16 generation u64         24 entries that are not 0, u32     28 zero to 64
//! 64 entries, u64 each: the block of page first + n (leaf), or of the child that begins at page
//!    first + n * coverage(level), in the low 40 bits; its seal (block.rs) in the 20 above, 0 if it was
//!    written when there were none; four bits zero. 0: none
//! ```
//!
//! A block is believed when it has the seal that its parent says, says of itself what its parent says of it,
//! was not written after its superblock, and names only blocks and pages within the superblock's bounds. A
//! map block that was reused under an outdated superblock fails one of these.

use super::{MapRoot, coverage, leaf_span};
use crate::error::{Error, Result};
use crate::pages::volume::blocks::BlockFiles;
use crate::pages::volume::codec;
use crate::types::{SealedBlock, VolumeId};
use crate::zeros::are_zeros;

/// Bytes before the entries.
pub(super) const HEADER_BYTES: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"smap");

/// Which part of the map a block is to be: what its parent knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pages::volume) struct MapPlace {
    /// 0 for a leaf.
    pub(in crate::pages::volume) level: u8,
    /// The first page covered; u64 because the last leaf may cover numbers beyond the last page.
    pub(in crate::pages::volume) first: u64,
}

impl MapPlace {
    /// How many pages one entry of a block at this place stands for.
    pub(in crate::pages::volume) fn pages_per_entry(self, page_size: usize) -> u64 {
        coverage(page_size, self.level)
    }

    /// The entry that leads to `page`, which the block covers.
    pub(in crate::pages::volume) fn entry_of(self, page_size: usize, page: u64) -> usize {
        ((page - self.first) / self.pages_per_entry(page_size)) as usize
    }

    /// The place of the `n`-th child.
    pub(in crate::pages::volume) fn child(self, page_size: usize, n: usize) -> MapPlace {
        MapPlace { level: self.level - 1, first: self.first + n as u64 * self.pages_per_entry(page_size) }
    }
}

/// The entries of a map block in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::pages::volume) struct MapNode {
    pub(in crate::pages::volume) entries: Vec<SealedBlock>,
}

impl MapNode {
    /// A block that leads nowhere.
    pub(super) fn empty(page_size: usize) -> MapNode {
        MapNode { entries: vec![SealedBlock::NONE; leaf_span(page_size)] }
    }

    /// Reads the block at `place` of the map `root`, using `buffer` (one block).
    ///
    /// # Errors
    /// Corruption, saying what about the block cannot be; those of the file.
    pub(in crate::pages::volume) fn read(
        files: &BlockFiles,
        root: &MapRoot,
        place: MapPlace,
        named: SealedBlock,
        buffer: &mut [u8],
    ) -> Result<MapNode> {
        let block = named.block();
        files.read_block(block, buffer)?;
        codec::compare(named, buffer)
            .and_then(|()| MapNode::decode(&buffer[..files.page_size()], files.block_size(), root, place))
            .map_err(|why| {
                Error::corruption(format!(
                    "{}: block {block} should be the map block of level {} over page {}: {why}",
                    files.path().display(),
                    place.level,
                    place.first
                ))
            })
    }

    /// The block's bytes, checksum left out.
    pub(super) fn encode(&self, bytes: &mut [u8], place: MapPlace, generation: u64) {
        let first = u32::try_from(place.first).expect("a map block covers at least one page id");
        let count = self.entries.iter().filter(|&&entry| entry != SealedBlock::NONE).count() as u32;
        bytes.fill(0);
        bytes[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&first.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(place.level).to_le_bytes());
        bytes[16..24].copy_from_slice(&generation.to_le_bytes());
        bytes[24..28].copy_from_slice(&count.to_le_bytes());
        for (slot, entry) in bytes[HEADER_BYTES..].chunks_exact_mut(8).zip(&self.entries) {
            slot.copy_from_slice(&entry.0.to_le_bytes());
        }
    }

    /// The entries, once everything about the bytes has been found possible.
    pub(super) fn decode(
        bytes: &[u8],
        block_size: usize,
        root: &MapRoot,
        place: MapPlace,
    ) -> std::result::Result<MapNode, String> {
        let page_size = bytes.len();
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if u32_at(4) != MAGIC {
            return Err("it is no map block".into());
        }
        if u64::from(u32_at(8)) != place.first || u32_at(12) != u32::from(place.level) {
            return Err(format!("it is that of level {} over page {}", u32_at(12), u32_at(8)));
        }
        let generation = u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32;
        if generation == 0 || generation > root.generation {
            return Err(format!(
                "it was written by generation {generation}, and this is generation {}",
                root.generation
            ));
        }
        let per_entry = place.pages_per_entry(page_size);
        let mut count = 0;
        let mut entries = Vec::with_capacity(leaf_span(page_size));
        for (n, entry) in bytes[HEADER_BYTES..].chunks_exact(8).enumerate() {
            let entry = entry.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
            let page = place.first + n as u64 * per_entry;
            if entry != 0 {
                count += 1;
                // The map itself is in the main volume.
                let (named, block) = (SealedBlock(entry), SealedBlock(entry).block());
                let possible = named.is_possible()
                    && root.blocks.contain(block, block_size)
                    && (place.level == 0 || block.volume() == VolumeId::MAIN);
                if !possible {
                    return Err(format!("entry {n} names block {block}, which cannot be"));
                }
                if page >= u64::from(root.pages_high) || (page == 0 && place.level == 0) {
                    return Err(format!("entry {n} is for page {page}, which cannot exist"));
                }
            }
            entries.push(SealedBlock(entry));
        }
        if u32_at(24) != count {
            return Err(format!("it claims {} entries and has {count}", u32_at(24)));
        }
        if !are_zeros(&bytes[28..HEADER_BYTES]) {
            return Err("its header uses bytes that this version of the format does not have".into());
        }
        Ok(MapNode { entries })
    }
}

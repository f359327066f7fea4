//! The map from page id to block: a radix tree in blocks, changed by copying.
//!
//! A leaf holds the blocks of `leaf_span` consecutive pages, an inner block those of as many children; the
//! leaf over page p is found by dividing, so no keys are stored. With 4 KiB pages (504 entries) two levels
//! cover a gigabyte and four cover everything.
//!
//! [`node`] is the format of a map block, [`read`] finds leaves, [`update`] writes the next generation's map.

mod node;
mod read;
mod update;

pub(super) use node::{MapNode, MapPlace};
pub(super) use read::MapReader;
pub(super) use update::{MapChange, update};

use crate::pages::allocation::VolumeBounds;
use crate::types::SealedBlock;

/// Everything needed to read the map of one generation and to doubt what is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapRoot {
    /// The root block; none for an empty map.
    pub(crate) root: SealedBlock,
    /// Levels: 0 for an empty map, 1 when the root is a leaf.
    pub(crate) height: u8,
    /// No block of the map was written by a later generation.
    pub(crate) generation: u64,
    /// The map names no page at or above this.
    pub(crate) pages_high: u32,
    /// The map names no block beyond these.
    pub(crate) blocks: VolumeBounds,
}

/// Entries of a map block, and so pages a map leaf covers.
pub(crate) fn leaf_span(page_size: usize) -> usize {
    (page_size - node::HEADER_BYTES) / 8
}

/// The most levels a map can need.
pub(super) fn height_max(page_size: usize) -> u8 {
    (1..).find(|&height| coverage(page_size, height) >= 1 << 32).expect("every level multiplies")
}

/// How many pages a map of `height` levels covers.
pub(super) fn coverage(page_size: usize, height: u8) -> u64 {
    (leaf_span(page_size) as u64).saturating_pow(u32::from(height))
}

//! The volumes: the files that hold the pages of an environment when nobody has it open.
//!
//! ```text
//! byte 0        65536          131072
//! | superblock 0 | superblock 1 | block | block | block | ...
//! ```
//!
//! That is the *main volume*. Its file is counted in *blocks* of one page each. A copy-on-write radix tree,
//! the *map*, says which block holds which page; it lives in blocks itself. Two superblocks take turns naming
//! the root of the map.
//!
//! There may be others, each a file of blocks behind a header ([`extra`]), for pages that are to be elsewhere
//! ([`placement`]). The numbers of all blocks are one space ([`blocks`]), so the map says of any page where
//! it is, and one superblock is the switch for all files.
//!
//! The idea is shadow paging (Lorie 1977): no block that the last durable generation names is ever
//! overwritten. A checkpoint writes changed pages and changed map blocks to free blocks, flushes, writes the
//! superblock whose turn it is, flushes; until that last flush the old generation is whole, after it the new
//! one is. So there are no torn pages to mend and nothing to undo.
//!
//! Earlier generations may be retained as *epochs* ([`keeping`]): the superblock names their maps, and their
//! blocks are not reused.
//!
//! Free space is not stored: a block is free when neither the map nor that of an epoch names it. Until the
//! map has been scanned ([`scan`]) everything below the superblock's high-water marks counts as used, so that
//! opening need not read it and allocation goes on at the end.
//!
//! Invariants:
//! - every block carries a CRC-32C that its own number went into ([`block`]), checked by every read; what
//!   names a block names 20 bits of that with it, which are compared by the participant that reads the block
//!   for it, so a block that holds something older than what was written last is damage too;
//! - a superblock is written only after a flush of all that it names, in every file, and followed by a flush
//!   of its own ([`checkpoint_write`]);
//! - bytes from the file are never trusted: numbers are checked against the superblock's bounds before use,
//!   and damage is an error.
//!
//! Costs: a read is one system call, no copy; a write is one copy and one checksum (about 1 us for 4 KB),
//! with neighbouring blocks joined into writes of up to 256 KiB; a checkpoint adds the map blocks on the
//! paths to what changed, and two flushes.
//!
//! What this module does not do: it knows nothing of frames, versions, snapshots or the log, and it does not
//! decide when a block that has become free may be reused; its caller does.

mod batch;
mod blocks;
mod bytes;
mod checkpoint_write;
mod codec;
mod compression;
mod data_file;
mod extent;
mod extra;
mod file;
mod growth;
pub(crate) mod image;
mod keeping;
mod lost;
mod map;
mod open;
mod orphans;
mod packed;
mod placement;
mod scan;
mod scratch;
mod superblock;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

pub(crate) use checkpoint_write::{CheckpointPlan, Marks};
pub(crate) use codec::{CHECKSUM_BYTES, Codec, compare as compare_block};
#[cfg(feature = "fuzzing")]
pub(crate) use codec::{open_compressed, seal as seal_block};
pub use compression::Compression;
pub(crate) use data_file::Leaving;
pub(crate) use file::Volume;
pub(crate) use growth::{FreeEnd, Reserve};
pub(crate) use image::Image;
pub use keeping::Journal;
pub(crate) use keeping::RetainedCheckpoint;
pub use placement::Place;
pub(crate) use placement::{Declared, MAIN_NAME};
pub(crate) use scan::{InUse, MapFinding};
#[cfg(test)]
pub(crate) use superblock::COPIES_AT;
pub(crate) use superblock::Superblock;
#[cfg(feature = "fuzzing")]
pub(crate) use superblock::seal as seal_superblock;

//! Whether a generation is still the newest: for who reads a volume that others write.
//!
//! A superblock is written whole to the slot of its generation, and its first 64 bytes hold checksum and generation. So while the heads of both
//! slots are what they were, nobody has written another superblock: two reads of 64 bytes, 1.5 us together. If they are not, the
//! superblocks are read whole; the answer is theirs.
//!
//! Why that is enough: no block that a generation names is written before the superblock of the next one is durable (checkpoint_write.rs), so
//! not before it was written. Who reads a block and *then* finds no newer superblock has read it as the generation left it.

use std::path::Path;
use std::time::Duration;

use sablecat_os::disk::File;

use super::RESERVED_BYTES;
use super::superblock::{self, Newest, u64_at};
use crate::error::{Error, Result};

const HEAD_BYTES: usize = 64;
const GENERATION_AT: usize = 48;
/// How often superblocks are read until they are found without fault: one that is being written looks damaged.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);

/// What both slots begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Heads([[u8; HEAD_BYTES]; 2]);

impl Heads {
    fn read(file: &dyn File, path: &Path) -> Result<Heads> {
        let mut heads = [[0; HEAD_BYTES]; 2];
        for (head, at) in heads.iter_mut().zip([0, RESERVED_BYTES / 2]) {
            file.read_at(head, at).map_err(|e| Error::io("reading the superblock of", path, e))?;
        }
        Ok(Heads(heads))
    }

    fn generation(&self, slot: u64) -> u64 {
        u64_at(&self.0[slot as usize], GENERATION_AT)
    }
}

/// How a generation is known to be in force, without reading its superblock again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    generation: u64,
    heads: Heads,
}

impl Watch {
    /// Reads the newest superblock, which somebody may be about to replace, and how to see that it has been. None if that cannot be seen by
    /// the heads: that of a later superblock is there, which was not, or not yet, written to its end, or one of them is damaged.
    pub(super) fn begin(file: &dyn File, path: &Path) -> Result<(Newest, Option<Watch>)> {
        Watch::begin_by(file, path, |newest| newest.complaints.is_empty())
    }

    /// The same, for who does not report what is damaged.
    pub(super) fn again(file: &dyn File, path: &Path) -> Result<(Newest, Option<Watch>)> {
        Watch::begin_by(file, path, |_| true)
    }

    fn begin_by(file: &dyn File, path: &Path, will_do: impl Fn(&Newest) -> bool) -> Result<(Newest, Option<Watch>)> {
        let mut tries = 1;
        loop {
            // In this order: a superblock that is written after the heads were read changes them.
            let heads = Heads::read(file, path)?;
            match superblock::read_newest(file, path) {
                Ok(newest) if will_do(&newest) || tries == TRIES => {
                    let generation = newest.superblock.generation;
                    let slot = generation % 2;
                    let is_newest = heads.generation(slot) == generation && heads.generation(1 - slot) < generation;
                    return Ok((newest, is_newest.then_some(Watch { generation, heads })));
                }
                Err(error) if !error.is_corruption() || tries == TRIES => return Err(error),
                _ => sablecat_os::atomic::pause(PAUSE),
            }
            tries += 1;
        }
    }

    /// Whether the heads show that no superblock has been written since that of `generation`.
    pub(super) fn shows(&self, generation: u64, file: &dyn File, path: &Path) -> Result<bool> {
        Ok(self.generation == generation && Heads::read(file, path)? == self.heads)
    }
}

//! Whether a generation is still the newest: for a process that reads a volume that others write.
//!
//! A superblock is written whole to a berth, its first 64 bytes hold checksum and generation, and its last 8
//! change with all of it. The berths lie in pairs, one behind the other: so two reads of 72 bytes, 1.5 us
//! together, show of all four that nobody has written another superblock. If anything is different, the
//! superblocks are read whole; the answer is theirs. (A process that was stopped and writes an old superblock
//! once more writes the bytes that are there.)
//!
//! Why that is enough: no block that a generation names is written before the superblock of the next one is
//! durable (checkpoint_write.rs), so not before it was written. A process that reads a block and *then* finds
//! no newer superblock has read it as the generation left it.

use std::path::Path;
use std::time::Duration;

use sablecat_os::disk::File;

use super::bytes::{SUPERBLOCK_BYTES, u64_at};
use super::superblock::{self, COPIES_AT, Newest};
use crate::error::{Error, Result};

/// From the last bytes of the superblock in one berth to the head of that in the next.
const SEAM_BYTES: usize = 8 + 64;
const GENERATION_AT: usize = 8 + 48;
/// Where they are: of berths 0 and 3, and 2 and 1.
const SEAMS_AT: [u64; 2] = [COPIES_AT[3][0] - 8, COPIES_AT[1][0] - 8];
const _: () = assert!(
    COPIES_AT[0][0] + SUPERBLOCK_BYTES as u64 == COPIES_AT[3][0]
        && COPIES_AT[2][0] + SUPERBLOCK_BYTES as u64 == COPIES_AT[1][0]
);
/// How often superblocks are read until they are found without fault: one that is being written looks
/// damaged.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);

/// What shows of all berths whether one was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seams([[u8; SEAM_BYTES]; 2]);

impl Seams {
    fn read(file: &dyn File, path: &Path) -> Result<Seams> {
        let mut seams = [[0; SEAM_BYTES]; 2];
        for (seam, at) in seams.iter_mut().zip(SEAMS_AT) {
            file.read_at(seam, at).map_err(|e| Error::io("reading the superblock of", path, e))?;
        }
        Ok(Seams(seams))
    }

    /// Whether none of them shows a later generation. The last bytes show its lower half, if a build of
    /// format 5 wrote them.
    fn show_none_after(&self, generation: u64) -> bool {
        self.0.iter().all(|seam| {
            u64_at(seam, 0) >> 32 <= generation & u64::from(u32::MAX)
                && u64_at(seam, GENERATION_AT) <= generation
        })
    }
}

/// How a generation is known to be in force, without reading its superblock again.
#[derive(Clone, Copy, Debug)]
pub(super) struct GenerationWatch {
    generation: u64,
    seams: Seams,
}

impl GenerationWatch {
    /// Reads the newest superblock, which somebody may be about to replace, and how to see that it has been.
    /// None if that cannot be seen by the seams: that of a later superblock is there, which was not, or not
    /// yet, written to its end, or one of them is damaged.
    pub(super) fn begin(file: &dyn File, path: &Path) -> Result<(Newest, Option<GenerationWatch>)> {
        GenerationWatch::begin_by(file, path, |newest| newest.complaints.is_empty())
    }

    /// The same, for a caller that does not report what is damaged.
    pub(super) fn again(file: &dyn File, path: &Path) -> Result<(Newest, Option<GenerationWatch>)> {
        GenerationWatch::begin_by(file, path, |_| true)
    }

    fn begin_by(
        file: &dyn File,
        path: &Path,
        will_do: impl Fn(&Newest) -> bool,
    ) -> Result<(Newest, Option<GenerationWatch>)> {
        let mut tries = 1;
        loop {
            // In this order: a superblock that is written after the seams were read changes them.
            let seams = Seams::read(file, path)?;
            match superblock::read_newest(file, path) {
                Ok(newest) if will_do(&newest) || tries == TRIES => {
                    let generation = newest.superblock.generation;
                    let is_newest = seams.show_none_after(generation);
                    return Ok((newest, is_newest.then_some(GenerationWatch { generation, seams })));
                }
                Err(error) if !error.is_corruption() || tries == TRIES => return Err(error),
                _ => sablecat_os::atomic::pause(PAUSE),
            }
            tries += 1;
        }
    }

    /// Whether the seams show that no superblock has been written since that of `generation`.
    pub(super) fn shows(&self, generation: u64, file: &dyn File, path: &Path) -> Result<bool> {
        Ok(self.generation == generation && Seams::read(file, path)? == self.seams)
    }
}

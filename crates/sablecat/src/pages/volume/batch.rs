//! Joining neighbouring blocks into long writes.
//!
//! Blocks pushed one after another are copied and sealed into scratch memory; as long as each follows the one
//! before it in the file, they become one write. Pushed in order of their numbers, freshly allocated blocks
//! are mostly neighbours. One that was compressed ends such a write, since what follows it is to be a hole.

use std::ops::Range;

use super::blocks::BlockFiles;
use super::scratch::{SCRATCH_BYTES, Scratch};
use crate::error::Result;
use crate::types::{BlockId, SealedBlock};

/// Blocks on their way to the file. What was pushed is written when [`BlockBatch::finish`] returns; dropped
/// before, it may not be.
#[derive(Debug)]
pub(super) struct BlockBatch<'v> {
    files: &'v BlockFiles,
    scratch: Scratch,
    first: BlockId,
    bytes: usize,
    /// How many bytes of each block count; empty as long as these are all.
    counts: Vec<usize>,
}

impl<'v> BlockBatch<'v> {
    pub(super) fn new(files: &'v BlockFiles) -> BlockBatch<'v> {
        BlockBatch { files, scratch: Scratch::take(), first: BlockId::NONE, bytes: 0, counts: Vec::new() }
    }

    /// Adds the image of a block, with zeros in its gap, and says what it is to be named as. The bytes are
    /// copied, so they may change afterwards.
    pub(super) fn push(&mut self, number: BlockId, image: &[u8], gap: Range<usize>) -> Result<SealedBlock> {
        let block_size = self.files.block_size();
        assert_eq!(image.len(), self.files.page_size(), "a block is one page");
        let next = BlockId(self.first.0 + (self.bytes / block_size) as u64);
        if self.bytes > 0 && (number != next || self.bytes + block_size > SCRATCH_BYTES) {
            self.flush()?;
        }
        if self.bytes == 0 {
            self.first = number;
        }
        let target = &mut self.scratch[self.bytes..self.bytes + block_size];
        target[..image.len()].copy_from_slice(image);
        target[gap].fill(0);
        let (sealed, counts) = self.files.seal(number, target);
        note(&mut self.counts, self.bytes / block_size, counts, block_size);
        self.bytes += block_size;
        Ok(sealed)
    }

    fn flush(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let written = match bytes {
            0 => Ok(()),
            bytes => self.files.write_sealed(self.first, &self.scratch[..bytes], &self.counts),
        };
        self.counts.clear();
        written
    }

    /// Writes what is still held. The bytes are with the operating system then, not necessarily on the disk.
    pub(super) fn finish(mut self) -> Result<()> {
        self.flush()
    }
}

/// Notes how many bytes of a block count, the n-th of some. Nothing is as good as all.
pub(super) fn note(counts: &mut Vec<usize>, n: usize, count: usize, block_size: usize) {
    if count < block_size {
        counts.resize(n, block_size);
        counts.push(count);
    }
}

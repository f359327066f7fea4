//! Extents: many neighbouring blocks, written and read in few calls, past the pool.
//!
//! Long values are stored and read this way. Pages are formed in, and shown from, the thread's scratch
//! memory: one copy each way.

use super::batch::note;
use super::file::Volume;
use super::scratch::{SCRATCH_BYTES, Scratch};
use crate::error::Result;
use crate::types::{BlockId, SealedBlock};

impl Volume {
    /// Writes `count` blocks from `first` on, which no durable generation names. `fill` forms the n-th page
    /// in the bytes given, which hold anything before; an error of `fill` ends it. Returns what the blocks
    /// are to be named as.
    ///
    /// # Errors
    /// As [`Volume::write_blocks`]; those of `fill`.
    pub(crate) fn write_extent(
        &self,
        first: BlockId,
        count: u64,
        fill: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Vec<SealedBlock>> {
        let (block_size, page_size) = (self.block_size(), self.page_size());
        let mut scratch = Scratch::take();
        let mut sealed = Vec::with_capacity(count as usize);
        let mut counts = Vec::new();
        for (from, blocks) in self.pieces(count) {
            let bytes = &mut scratch[..blocks * block_size];
            counts.clear();
            for (n, block) in (from..).zip(bytes.chunks_exact_mut(block_size)) {
                fill(n, &mut block[..page_size])?;
                let (name, count) = self.seal(BlockId(first.0 + n), block);
                note(&mut counts, (n - from) as usize, count, block_size);
                sealed.push(name);
            }
            self.write_sealed(BlockId(first.0 + from), bytes, &counts)?;
        }
        Ok(sealed)
    }

    /// Reads and verifies `count` blocks from `first` on and shows each to `look` with its place among them.
    /// An error of `look` ends it.
    ///
    /// # Errors
    /// As [`BlockFiles::read_block`](super::blocks::BlockFiles::read_block); those of `look`.
    pub(crate) fn read_extent(
        &self,
        first: BlockId,
        count: u64,
        look: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (block_size, page_size) = (self.block_size(), self.page_size());
        let mut scratch = Scratch::take();
        for (from, blocks) in self.pieces(count) {
            let bytes = &mut scratch[..blocks * block_size];
            self.read_neighbours(BlockId(first.0 + from), bytes)?;
            (from..)
                .zip(bytes.chunks_exact(block_size))
                .try_for_each(|(n, block)| look(n, &block[..page_size]))?;
        }
        Ok(())
    }

    /// `count` blocks in pieces that fit the scratch memory: where each begins, and how many it has.
    fn pieces(&self, count: u64) -> impl Iterator<Item = (u64, usize)> + use<> {
        let most = (SCRATCH_BYTES / self.block_size()) as u64;
        (0..count).step_by(most as usize).map(move |from| (from, most.min(count - from) as usize))
    }
}

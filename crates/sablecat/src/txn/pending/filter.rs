//! Which keys a run does not have, told without a look at its file: a Bloom filter of which the bits of a
//! key are in one line of the cache (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom
//! Filters", 2007).
//!
//! With ten bits a key it is wrong about one key of a hundred that is not there.

use std::sync::Arc;

use super::run_file::RunFile;

const BITS_A_KEY: usize = 10;
const LINE_WORDS: usize = 8;
const LINE_BITS: usize = LINE_WORDS * 64;
/// Each takes other nine bits of a product with the hash.
const FACTORS: [u32; 6] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1, 0x2c1b_3c6d];

/// The filter of one run, which gives back its memory to those of the other runs when dropped.
#[derive(Debug)]
pub(super) struct Filter {
    lines: Vec<[u64; LINE_WORDS]>,
    of: Arc<RunFile>,
}

impl Filter {
    /// One for so many keys. None if the file's runs have as much memory for filters as they may, but for so
    /// many bytes that are to be given back.
    pub(super) fn new(of: &Arc<RunFile>, keys: usize, returning: usize) -> Option<Filter> {
        let lines = (keys.max(1) * BITS_A_KEY).div_ceil(LINE_BITS);
        of.take_memory(lines * size_of::<[u64; LINE_WORDS]>(), returning)
            .then(|| Filter { lines: vec![[0; LINE_WORDS]; lines], of: Arc::clone(of) })
    }

    /// How much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    fn line(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }

    /// The words of a line, and what of each there is for a key.
    fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
        FACTORS.into_iter().map(move |factor| {
            let bit = ((hash as u32).wrapping_mul(factor) >> (32 - LINE_BITS.ilog2())) as usize;
            (bit / 64, 1 << (bit % 64))
        })
    }

    /// Notes a key, by its hash.
    pub(super) fn add(&mut self, hash: u64) {
        let line = self.line(hash);
        Self::bits(hash).for_each(|(word, bit)| self.lines[line][word] |= bit);
    }

    /// Whether a key may have been noted.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let line = &self.lines[self.line(hash)];
        Self::bits(hash).all(|(word, bit)| line[word] & bit != 0)
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.of.give_memory_back(self.bytes());
    }
}

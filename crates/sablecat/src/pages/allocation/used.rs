//! A set of numbers that have been found in use, in process memory.

/// Words of a chunk: 4 KiB.
const CHUNK_WORDS: usize = 512;
const CHUNK_BITS: u64 = CHUNK_WORDS as u64 * 64;

type Chunk = Box<[u64; CHUNK_WORDS]>;

/// Numbers below a bound, a bit each; stretches without any take next to no memory.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    chunks: Vec<Option<Chunk>>,
    bound: u64,
}

impl Used {
    /// None of the numbers below `bound`.
    pub(crate) fn new(bound: u64) -> Used {
        Used { chunks: Vec::new(), bound }
    }

    /// Adds a number; false if it was there already.
    ///
    /// # Panics
    /// If it is not below the bound.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        assert!(number < self.bound, "numbers are checked against the bound where they are read");
        let chunk = (number / CHUNK_BITS) as usize;
        if chunk >= self.chunks.len() {
            self.chunks.resize(chunk + 1, None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK_WORDS]));
        let word = &mut chunk[(number % CHUNK_BITS / 64) as usize];
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Raises the bound.
    pub(crate) fn extend(&mut self, bound: u64) {
        self.bound = self.bound.max(bound);
    }

    /// True if the number is in the set.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.word((number / 64) as usize) & 1 << (number % 64) != 0
    }

    /// How many numbers are in the set.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.chunks
            .iter()
            .flatten()
            .flat_map(|chunk| chunk.iter())
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// All numbers of the set are below this.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// The bits of numbers `64 * word ..`.
    pub(in crate::pages) fn word(&self, word: usize) -> u64 {
        self.chunks
            .get(word / CHUNK_WORDS)
            .and_then(Option::as_ref)
            .map_or(0, |chunk| chunk[word % CHUNK_WORDS])
    }
}

//! SipHash, by which keys are spread over buckets (Aumasson and Bernstein, "SipHash: a fast short-input PRF",
//! 2012): with one round a word and three at the end, as hash tables commonly have it.
//!
//! Which bucket a key is in follows from it, so it is part of the format. It takes a seed of 128 bits, which
//! each database has of its own: a user that does not know the seed cannot choose keys that fall into one
//! bucket.

/// What a database hashes its keys with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seed {
    pub(super) low: u64,
    pub(super) high: u64,
}

/// Bytes of a seed.
pub(crate) const SEED_BYTES: usize = 16;

impl Seed {
    /// The seed that these bytes are: two numbers, little-endian.
    pub(crate) fn of(bytes: [u8; SEED_BYTES]) -> Seed {
        let both = u128::from_le_bytes(bytes);
        Seed { low: both as u64, high: (both >> 64) as u64 }
    }

    /// Its bytes.
    pub(crate) fn bytes(self) -> [u8; SEED_BYTES] {
        (u128::from(self.high) << 64 | u128::from(self.low)).to_le_bytes()
    }

    /// The hash of some bytes.
    #[inline]
    pub(super) fn hash(self, bytes: &[u8]) -> u64 {
        siphash::<1, 3>(self, bytes)
    }
}

struct SipState {
    v: [u64; 4],
}

impl SipState {
    #[inline(always)]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.v;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }

    #[inline(always)]
    fn word<const ROUNDS: usize>(&mut self, word: u64) {
        self.v[3] ^= word;
        (0..ROUNDS).for_each(|_| self.round());
        self.v[0] ^= word;
    }
}

/// SipHash with so many rounds a word and at the end.
#[inline(always)]
fn siphash<const WORD: usize, const END: usize>(seed: Seed, bytes: &[u8]) -> u64 {
    let mut state = SipState {
        v: [
            seed.low ^ 0x736f_6d65_7073_6575,
            seed.high ^ 0x646f_7261_6e64_6f6d,
            seed.low ^ 0x6c79_6765_6e65_7261,
            seed.high ^ 0x7465_6462_7974_6573,
        ],
    };
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| state.word::<WORD>(u64::from_le_bytes(*word)));
    let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
    state.word::<WORD>((bytes.len() as u64) << 56 | last);
    state.v[2] ^= 0xff;
    (0..END).for_each(|_| state.round());
    state.v[0] ^ state.v[1] ^ state.v[2] ^ state.v[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(count: usize) -> Vec<u8> {
        (0..count).map(|n| n as u8).collect()
    }

    fn counting_seed() -> Seed {
        Seed::of(std::array::from_fn(|n| n as u8))
    }

    #[test]
    fn it_gives_the_number_of_the_paper() {
        assert_eq!(siphash::<2, 4>(counting_seed(), &counting(15)), 0xa129_ca61_49be_45e5);
    }

    /// It is part of the format: these must never change.
    #[test]
    fn hashes_are_what_they_always_were() {
        let hash = |count: usize| counting_seed().hash(&counting(count));
        assert_eq!(hash(0).to_le_bytes(), [0xdc, 0xc4, 0x0f, 0x05, 0x58, 0x01, 0xac, 0xab]);
        assert_eq!(hash(1).to_le_bytes(), [0x93, 0xca, 0x57, 0x7d, 0xf3, 0x9b, 0xf4, 0xc9]);
    }

    /// The standard library's hasher is the same function, without a seed.
    #[test]
    fn it_agrees_with_another_implementation_at_every_length() {
        use std::hash::Hasher;
        for count in 0..200 {
            let mut other = std::hash::DefaultHasher::new();
            other.write(&counting(count));
            assert_eq!(Seed { low: 0, high: 0 }.hash(&counting(count)), other.finish(), "{count} bytes");
        }
    }

    #[test]
    fn seeds_are_what_their_bytes_say() {
        let bytes = std::array::from_fn(|n| n as u8 + 1);
        assert_eq!(Seed::of(bytes).bytes(), bytes);
        assert_eq!(Seed::of(bytes).low.to_le_bytes(), bytes[..8]);
    }
}

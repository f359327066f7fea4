//! CRC-32C (Castagnoli, Bräuer and Herrmann 1993) of the log's records, most of which are short.
//!
//! The crate `crc32c` reads long stretches in three streams at once, which its short calls pay for: some 140
//! instructions for a record of 120 bytes and 90 for the 20 bytes of its seal, which is made under the commit
//! role. One instruction for each word is all that a short one needs. It is also where that is faster: the
//! instruction takes three cycles, so 256 bytes take 96.

/// The longest that is summed word by word.
const SHORT_BYTES_MAX: usize = 256;

/// The checksum of `bytes`.
#[inline]
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    append(0, bytes)
}

/// The checksum of something whose checksum is `sum`, followed by `bytes`.
#[inline]
pub(super) fn append(sum: u32, bytes: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes.len() <= SHORT_BYTES_MAX && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor was just seen to have the instruction.
        return unsafe { append_short(sum, bytes) };
    }
    crc32c::crc32c_append(sum, bytes)
}

/// The same of bytes that are at hand as numbers: two words and a half one, each with its first byte lowest.
/// Put down in memory, and loaded from there in other pieces, they would have to be waited for.
#[inline]
pub(super) fn append_words(sum: u32, words: [u64; 2], half: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor was just seen to have the instruction.
        return unsafe { append_at_hand(sum, words, half) };
    }
    let [first, second] = words.map(u64::to_le_bytes);
    append(append(append(sum, &first), &second), &half.to_le_bytes())
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn append_at_hand(sum: u32, words: [u64; 2], half: u32) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u32, _mm_crc32_u64};
    let state = words.into_iter().fold(u64::from(!sum), |state, word| _mm_crc32_u64(state, word));
    !_mm_crc32_u32(state as u32, half)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn append_short(sum: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut state = u64::from(!sum);
    for word in words {
        state = _mm_crc32_u64(state, u64::from_le_bytes(*word));
    }
    // What is left in at most three steps, each of which waits for the one before.
    let mut state = state as u32;
    let (half, rest) = rest.as_chunks::<4>();
    for word in half {
        state = _mm_crc32_u32(state, u32::from_le_bytes(*word));
    }
    let (quarter, rest) = rest.as_chunks::<2>();
    for word in quarter {
        state = _mm_crc32_u16(state, u16::from_le_bytes(*word));
    }
    !rest.iter().fold(state, |state, &byte| _mm_crc32_u8(state, byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A published example: RFC 3720, appendix B.4.
    #[test]
    fn an_example_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|n| n as u8)), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn words_at_hand_are_summed_as_their_bytes() {
        let bytes: [u8; 20] = std::array::from_fn(|n| (n as u8).wrapping_mul(0x4d) ^ 0x9a);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let half = u32::from_le_bytes(bytes[16..].try_into().expect("four"));
        for sum in [0, 7, u32::MAX] {
            assert_eq!(append_words(sum, [word(0), word(8)], half), append(sum, &bytes));
        }
    }

    #[test]
    fn short_and_long_are_as_the_crate_has_them() {
        let bytes: Vec<u8> =
            (0..2 * SHORT_BYTES_MAX as u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for len in 0..bytes.len() {
            for sum in [0, 1, 0x1234_5678, u32::MAX] {
                assert_eq!(append(sum, &bytes[..len]), crc32c::crc32c_append(sum, &bytes[..len]), "{len}");
            }
            let (first, rest) = bytes.split_at(len);
            assert_eq!(append(crc32c(first), rest), crc32c(&bytes));
        }
    }
}

//! Tags: a byte of each record's hash, of which sixteen are compared at a time.
//!
//! On x86-64 the instructions for that are there on every machine, so there is nothing to choose; elsewhere
//! it is a loop of a fixed length, for which compilers know what their machine has.
//!
//! `unsafe` here: calls of these instructions, which take no pointers.
//!
//! Both compute one function: which of sixteen bytes are the wanted one, a bit each.

/// Tags that are compared at a time. Pages have room for as many as are a multiple of it.
pub(super) const LANE: usize = 16;

/// Which of the tags are `wanted`, the first in the lowest bit.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn matching(tags: &[u8; LANE], wanted: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let both = u128::from_le_bytes(*tags);
    // SAFETY: these are instructions of SSE2, which every x86-64 has.
    unsafe {
        let tags = _mm_set_epi64x((both >> 64) as i64, both as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(wanted as i8))) as u32
    }
}

/// Which of the tags are `wanted`, the first in the lowest bit.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn matching(tags: &[u8; LANE], wanted: u8) -> u32 {
    one_by_one(tags, wanted)
}

/// As [`matching`], in a way that the compiler may do at once or not.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn one_by_one(tags: &[u8; LANE], wanted: u8) -> u32 {
    tags.iter().enumerate().fold(0, |found, (n, tag)| found | u32::from(*tag == wanted) << n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tags_that_are_wanted_are_found_at_once_as_one_by_one() {
        let mut state = 1u64;
        for _ in 0..2000 {
            let tags = std::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 61) as u8).wrapping_mul(0x37)
            });
            for wanted in (0..8u8).map(|n| n.wrapping_mul(0x37)) {
                assert_eq!(matching(&tags, wanted), one_by_one(&tags, wanted), "{wanted} in {tags:?}");
            }
        }
        assert_eq!(matching(&[0xff; LANE], 0xff), 0xffff);
    }
}

//! Reading and comparing bytes: little-endian words of a page, and keys.
//!
//! All bounds-checked; the checks are perfectly predicted and cost less than the proof that they could go.

use std::cmp::Ordering;

use crate::pages::header;

#[inline(always)]
pub(super) fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(header::at(page, at))
}

#[inline(always)]
pub(super) fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(header::at(page, at))
}

#[inline(always)]
pub(super) fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(header::at(page, at))
}

#[inline(always)]
pub(super) fn put_u16(page: &mut [u8], at: usize, value: u16) {
    page[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

#[inline(always)]
pub(super) fn put_u32(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[inline(always)]
pub(super) fn put_u64(page: &mut [u8], at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The first four bytes of a key as an integer that compares as they do; a shorter key is padded with zeros.
#[inline(always)]
pub(super) fn head_of(key: &[u8]) -> u32 {
    match (key.first_chunk::<4>(), key.len()) {
        (Some(four), _) => u32::from_be_bytes(*four),
        (None, 0) => 0,
        (None, len) => three(key) << 8 & u32::MAX << (32 - 8 * len),
    }
}

/// The first eight bytes likewise.
#[inline(always)]
pub(super) fn word_of(key: &[u8]) -> u64 {
    match (key.first_chunk::<8>(), key.len()) {
        (Some(eight), _) => u64::from_be_bytes(*eight),
        (None, len @ 4..) => u64::from(be32(key, 0)) << 32 | u64::from(be32(key, len - 4)) << (64 - 8 * len),
        (None, _) => u64::from(head_of(key)) << 32,
    }
}

/// One to three bytes as an integer that compares as they do, to as many: the first, the one in the middle
/// and the last, which may be the same. A loop over so few costs more than all the rest of a comparison.
#[inline(always)]
fn three(bytes: &[u8]) -> u32 {
    let at = |i: usize| u32::from(bytes[i]);
    at(0) << 16 | at(bytes.len() / 2) << 8 | at(bytes.len() - 1)
}

#[inline(always)]
fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(header::at(bytes, at))
}

#[inline(always)]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(header::at(bytes, at))
}

/// `a.cmp(b)`, without the call to `memcmp` that costs more than comparing keys of usual lengths.
#[inline(always)]
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let common = a.len().min(b.len());
    let (x, y) = if common >= 8 {
        let mut at = 0;
        while at + 8 <= common {
            let (x, y) = (be64(a, at), be64(b, at));
            if x != y {
                return x.cmp(&y);
            }
            at += 8;
        }
        (be64(a, common - 8), be64(b, common - 8))
    } else if common >= 4 {
        let word = |s: &[u8]| u64::from(be32(s, 0)) << 32 | u64::from(be32(s, common - 4));
        (word(a), word(b))
    } else if common > 0 {
        (three(&a[..common]).into(), three(&b[..common]).into())
    } else {
        (0, 0)
    };
    x.cmp(&y).then(a.len().cmp(&b.len()))
}

/// How many bytes `a` and `b` begin with in common.
#[inline]
pub(super) fn common_len(a: &[u8], b: &[u8]) -> usize {
    let common = a.len().min(b.len());
    let mut at = 0;
    while at + 8 <= common {
        let differing = be64(a, at) ^ be64(b, at);
        if differing != 0 {
            return at + differing.leading_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..common].iter().zip(&b[at..common]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comparing_is_what_slices_do(
            shared in prop::collection::vec(0u8..3, 0..20),
            a in prop::collection::vec(0u8..3, 0..12),
            b in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let a = [&shared[..], &a].concat();
            let b = [&shared[..], &b].concat();
            prop_assert_eq!(compare(&a, &b), a.cmp(&b));
            prop_assert_eq!(common_len(&a, &b), a.iter().zip(&b).take_while(|(x, y)| x == y).count());
            prop_assert!(head_of(&a).cmp(&head_of(&b)).is_eq() || head_of(&a).cmp(&head_of(&b)) == a.cmp(&b));
            prop_assert!(word_of(&a).cmp(&word_of(&b)).is_eq() || word_of(&a).cmp(&word_of(&b)) == a.cmp(&b));
            let mut padded = a.clone();
            padded.resize(a.len() + 8, 0);
            prop_assert_eq!(&word_of(&a).to_be_bytes()[..], &padded[..8]);
            prop_assert_eq!(&head_of(&a).to_be_bytes()[..], &padded[..4]);
        }
    }
}

//! The search over hints and heads, in as many instruction sets as are worth it.
//!
//! All variants compute one function: let D = 2^k be the distance of hints. Count the hints below the wanted
//! head: so many whole stretches of D heads are below it. Halve the next stretch while it is longer than 64;
//! count the heads below in what is left. On an ascending page that is the number of heads below the wanted
//! one. On any other page it is still the same number in all variants.
//!
//! The variant is chosen once, at the first search, and read from an atomic byte: a load and a predicted
//! branch.
//!
//! `unsafe` here, and only here in this module: vector loads through raw pointers, whose bounds
//! [`lower_bound`] asserts.

use std::sync::atomic::{AtomicU8, Ordering};

use super::bytes::u32_at;
use super::header::{HEADER_BYTES, HINTS, HINTS_AT};
use super::slots::{head, hint_shift};
use crate::pages::header::PAGE_SIZE_MIN;

/// An instruction set to search with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Variant {
    Scalar = 1,
    #[cfg(target_arch = "x86_64")]
    Avx2 = 2,
    #[cfg(target_arch = "x86_64")]
    Avx512 = 3,
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon = 4,
}

impl Variant {
    /// Those this machine can run, best last.
    pub(super) fn available() -> Vec<Variant> {
        let mut variants = vec![Variant::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                variants.push(Variant::Avx2);
            }
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt") {
                variants.push(Variant::Avx512);
            }
        }
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        if std::arch::is_aarch64_feature_detected!("neon") {
            variants.push(Variant::Neon);
        }
        variants
    }
}

/// The chosen variant; 0 before the first search. Relaxed suffices: it is one byte, and a thread that does
/// not see it chooses the same.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

#[cold]
#[inline(never)]
fn choose() -> u8 {
    let best = Variant::available().last().map_or(Variant::Scalar as u8, |&variant| variant as u8);
    CHOSEN.store(best, Ordering::Relaxed);
    best
}

/// How many of the first `count` heads of an ascending page are below `wanted`.
///
/// What the caller will look at next is fetched meanwhile, if it is not in cache: the array at `beside`, of
/// `width` bytes a slot.
#[inline(always)]
pub(super) fn lower_bound(page: &[u8], count: usize, wanted: u32, (beside, width): (usize, usize)) -> usize {
    let chosen = match CHOSEN.load(Ordering::Relaxed) {
        0 => choose(),
        chosen => chosen,
    };
    // Room for 64 bytes at the hints and at any head: see `slots`. `check_bounds` sees to it.
    assert!(page.len() >= PAGE_SIZE_MIN && HEADER_BYTES + 8 * count <= page.len());
    // Only the x86-64 variants fetch ahead: prefetching has no stable intrinsic elsewhere.
    let _ = (beside, width);
    match chosen {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `choose` found the instructions; the assertion above is the bounds the function asks for.
        3 => unsafe { x86::avx512(page, count, wanted, beside, width) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        2 => unsafe { x86::avx2(page, count, wanted, beside, width) },
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: as above.
        4 => unsafe { arm::neon(page, count, wanted) },
        _ => scalar(page, count, wanted),
    }
}

/// The same, by a given variant (an available one).
#[cfg(test)]
pub(super) fn lower_bound_by(variant: Variant, page: &[u8], count: usize, wanted: u32) -> usize {
    assert!(Variant::available().contains(&variant));
    assert!(page.len() >= PAGE_SIZE_MIN && HEADER_BYTES + 8 * count <= page.len());
    match variant {
        Variant::Scalar => scalar(page, count, wanted),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both obligations are asserted above.
        Variant::Avx512 => unsafe { x86::avx512(page, count, wanted, 0, 0) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Variant::Avx2 => unsafe { x86::avx2(page, count, wanted, 0, 0) },
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: as above.
        Variant::Neon => unsafe { arm::neon(page, count, wanted) },
    }
}

/// The stretch of heads to look at when `hints_below` hints are below the wanted head: its first slot and its
/// length, at most 64.
#[inline(always)]
fn stretch(page: &[u8], count: usize, hints_below: usize, wanted: u32) -> (usize, usize) {
    let shift = hint_shift(count);
    let mut from = (hints_below << shift).min(count);
    let mut len = (1 << shift).min(count - from);
    while len > 64 {
        let half = len / 2;
        if head(page, from + half - 1) < wanted {
            from += half;
            len -= half;
        } else {
            len = half;
        }
    }
    (from, len)
}

fn scalar(page: &[u8], count: usize, wanted: u32) -> usize {
    let below = |from: usize, len: usize| -> usize {
        let bytes = &page[from..from + 4 * len];
        bytes.chunks_exact(4).map(|four| usize::from(u32_at(four, 0) < wanted)).sum()
    };
    let (from, len) = stretch(page, count, below(HINTS_AT, HINTS), wanted);
    from + below(HEADER_BYTES + 4 * from, len)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{HEADER_BYTES, HINTS_AT, stretch};

    #[inline(always)]
    fn prefetch(page: &[u8], at: usize) {
        // SAFETY: a prefetch reads nothing and faults on no address; `wrapping_add` makes any.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(page.as_ptr().wrapping_add(at).cast()) }
    }

    /// # Safety
    ///
    /// The processor has AVX-512F and POPCNT; `page` has at least `PAGE_SIZE_MIN` bytes and at least
    /// `128 + 8 * count`.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) unsafe fn avx512(
        page: &[u8],
        count: usize,
        wanted: u32,
        beside: usize,
        width: usize,
    ) -> usize {
        let wanted_16 = _mm512_set1_epi32(wanted as i32);
        let below = |at: usize| -> u32 {
            debug_assert!(at + 64 <= page.len());
            // SAFETY: 64 bytes at the hints, or at head i < count: 128 + 4i + 64 <= 192 + (len - 128)/2 <=
            // len, since len >= 256.
            let sixteen = unsafe { _mm512_loadu_si512(page.as_ptr().add(at).cast()) };
            u32::from(_mm512_cmplt_epu32_mask(sixteen, wanted_16))
        };
        let (from, len) = stretch(page, count, below(HINTS_AT).count_ones() as usize, wanted);
        prefetch(page, beside + width * from);
        let mut found = from;
        let mut done = 0;
        while done < len {
            // What lies behind the last head (children, offsets) is loaded, and masked out.
            let mask = if len - done >= 16 { 0xffff } else { (1 << (len - done)) - 1 };
            found += (below(HEADER_BYTES + 4 * (from + done)) & mask).count_ones() as usize;
            done += 16;
        }
        found
    }

    /// # Safety
    ///
    /// The processor has AVX2 and POPCNT; `page` has at least `PAGE_SIZE_MIN` bytes and at least
    /// `128 + 8 * count`.
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) unsafe fn avx2(page: &[u8], count: usize, wanted: u32, beside: usize, width: usize) -> usize {
        let wanted_8 = _mm256_set1_epi32(wanted as i32);
        let below = |at: usize| -> u32 {
            debug_assert!(at + 32 <= page.len());
            // SAFETY: as in `avx512`, with half as many bytes.
            let eight = unsafe { _mm256_loadu_si256(page.as_ptr().add(at).cast()) };
            // There is no unsigned "less": a head is not below the wanted one if it is the greater of the
            // two.
            let not_below = _mm256_cmpeq_epi32(_mm256_max_epu32(eight, wanted_8), eight);
            !(_mm256_movemask_ps(_mm256_castsi256_ps(not_below)) as u32) & 0xff
        };
        let hints_below = below(HINTS_AT).count_ones() + below(HINTS_AT + 32).count_ones();
        let (from, len) = stretch(page, count, hints_below as usize, wanted);
        prefetch(page, beside + width * from);
        let mut found = from;
        let mut done = 0;
        while done < len {
            let mask = if len - done >= 8 { 0xff } else { (1 << (len - done)) - 1 };
            found += (below(HEADER_BYTES + 4 * (from + done)) & mask).count_ones() as usize;
            done += 8;
        }
        found
    }
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod arm {
    use std::arch::aarch64::*;

    use super::{HEADER_BYTES, HINTS_AT, stretch};

    /// # Safety
    ///
    /// The processor has NEON; `page` has at least `PAGE_SIZE_MIN` bytes and at least `128 + 8 * count`.
    #[target_feature(enable = "neon")]
    pub(super) unsafe fn neon(page: &[u8], count: usize, wanted: u32) -> usize {
        let wanted_4 = vdupq_n_u32(wanted);
        let one_4 = vdupq_n_u32(1);
        // Four lanes, each 1 if that head is below the wanted one.
        let below = |at: usize| -> uint32x4_t {
            debug_assert!(at + 16 <= page.len());
            // SAFETY: 16 bytes at the hints, or at head i < count, as in `x86::avx512`.
            let four = unsafe { vreinterpretq_u32_u8(vld1q_u8(page.as_ptr().add(at))) };
            vandq_u32(vcltq_u32(four, wanted_4), one_4)
        };
        let two = |at: usize| vaddq_u32(below(at), below(at + 16));
        let hints_below = vaddvq_u32(vaddq_u32(two(HINTS_AT), two(HINTS_AT + 32)));
        let (from, len) = stretch(page, count, hints_below as usize, wanted);
        let mut sums = vdupq_n_u32(0);
        let mut done = 0;
        while done + 4 <= len {
            sums = vaddq_u32(sums, below(HEADER_BYTES + 4 * (from + done)));
            done += 4;
        }
        let mut found = from + vaddvq_u32(sums) as usize;
        while done < len {
            found += usize::from(super::head(page, from + done) < wanted);
            done += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::bytes::put_u32;
    use super::super::header::set_count;
    use super::super::slots::{head_at, hint};
    use super::*;

    /// The least page with these heads; what lies behind them is `behind`.
    fn page_of(heads: &[u32], behind: u8) -> Vec<u8> {
        let mut page = vec![behind; (HEADER_BYTES + 8 * heads.len()).max(512).next_power_of_two()];
        set_count(&mut page, heads.len());
        for (slot, &head) in heads.iter().enumerate() {
            put_u32(&mut page, head_at(slot), head);
        }
        for j in 0..HINTS {
            let hint = hint(&page, heads.len(), j);
            put_u32(&mut page, HINTS_AT + 4 * j, hint);
        }
        page
    }

    fn a_head() -> impl Strategy<Value = u32> {
        prop_oneof![any::<u32>(), 0u32..20, (u32::MAX - 5)..=u32::MAX, 0x7fff_fff0u32..0x8000_0010]
    }

    fn some_heads() -> impl Strategy<Value = Vec<u32>> {
        prop_oneof![
            3 => prop::collection::vec(a_head(), 0..48),
            3 => prop::collection::vec(a_head(), 0..600),
            1 => prop::collection::vec(a_head(), 0..8176),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn every_variant_finds_what_a_binary_search_finds(
            mut heads in some_heads(),
            probes in prop::collection::vec(a_head(), 20),
            behind in prop::sample::select(vec![0u8, 255]),
        ) {
            heads.sort_unstable();
            let page = page_of(&heads, behind);
            for &wanted in probes.iter().chain(&heads) {
                let expected = heads.partition_point(|&head| head < wanted);
                for variant in Variant::available() {
                    prop_assert_eq!(
                        lower_bound_by(variant, &page, heads.len(), wanted),
                        expected,
                        "{:?}",
                        variant
                    );
                }
                prop_assert_eq!(lower_bound(&page, heads.len(), wanted, (0, 0)), expected);
            }
        }

        #[test]
        fn every_variant_finds_the_same_in_disorder(
            heads in some_heads(),
            hints in prop::collection::vec(a_head(), HINTS),
            probes in prop::collection::vec(a_head(), 20),
        ) {
            let mut page = page_of(&heads, 0);
            for (j, hint) in hints.into_iter().enumerate() {
                put_u32(&mut page, HINTS_AT + 4 * j, hint);
            }
            for &wanted in &probes {
                let expected = lower_bound_by(Variant::Scalar, &page, heads.len(), wanted);
                prop_assert!(expected <= heads.len());
                for variant in Variant::available() {
                    prop_assert_eq!(
                        lower_bound_by(variant, &page, heads.len(), wanted),
                        expected,
                        "{:?}",
                        variant
                    );
                }
            }
        }
    }
}

//! The layout of a bitmap with summaries: which of its words a range of numbers needs. What the words mean:
//! pages/allocation/space.rs.
//!
//! ```text
//! level 0: one bit a number | level 1: one bit a word of level 0 | level 2: of level 1 | ... | one word
//! ```
//!
//! All levels lie one after another. Level 0 takes 63 of 64 parts of the memory, and capacity is what level 0
//! holds. The memory may be terabytes, of which only words near numbers in use are ever looked at; in a
//! shared region it must be made certain of before they are, on every level.

use std::ops::Range;

/// Levels enough for 2^36 numbers.
pub(crate) const LEVELS_MAX: usize = 6;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BitmapLevel {
    pub(crate) start: usize,
    pub(crate) words: usize,
}

/// Divides memory into levels: as many words for level 0 as leave room for the summaries of them.
pub(crate) fn divide(words: usize) -> ([BitmapLevel; LEVELS_MAX], usize) {
    let mut bottom = words;
    loop {
        let (levels, depth) = stack(bottom);
        let end = levels[depth - 1].start + levels[depth - 1].words;
        if end <= words {
            return (levels, depth);
        }
        // What is taken from the bottom shrinks the levels above it too.
        bottom -= ((end - words) * 63 / 64).max(1);
    }
}

/// The levels over `bottom` words.
fn stack(bottom: usize) -> ([BitmapLevel; LEVELS_MAX], usize) {
    let mut levels = [BitmapLevel::default(); LEVELS_MAX];
    let (mut start, mut words, mut depth) = (0, bottom, 0);
    loop {
        levels[depth] = BitmapLevel { start, words };
        depth += 1;
        if words == 1 {
            return (levels, depth);
        }
        start += words;
        words = words.div_ceil(64);
    }
}

/// The words of a bitmap of so many bits that are looked at while numbers from `from` to `to` are given out,
/// and the next is looked for.
pub(super) fn words_for(bits: u64, from: u64, to: u64) -> impl Iterator<Item = Range<usize>> {
    let (levels, depth) = divide((bits / 64) as usize);
    (0..depth).map(move |level| {
        let BitmapLevel { start, words } = levels[level];
        // So many numbers, as a power of two, stand behind a word.
        let shift = 6 * (level as u32 + 1);
        // On level 0 the next number is not looked at before it is among those asked for.
        let end = if level == 0 { to.div_ceil(64) } else { (to >> shift) + 1 };
        let end = (end as usize).min(words);
        start + ((from >> shift) as usize).min(end)..start + end
    })
}

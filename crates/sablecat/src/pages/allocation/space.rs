//! Which numbers are in use: a bitmap with summaries, in memory that processes share. Blocks and page ids are
//! given out by it.
//!
//! ```text
//! level 0: one bit a number (set: in use) | level 1: one bit a word of level 0 (set: full)
//!   | level 2: of level 1 | ... | one word
//! ```
//!
//! All levels lie one after another in the memory given (region/bitmap.rs). The memory may be terabytes of
//! untouched zeroes: only words near numbers in use are touched, and in a shared region only after the memory
//! for them has been made certain.
//!
//! Allocation takes the lowest free number, found by going down the summaries (five loads for 2^32 numbers,
//! however full), after trying the word that allocation last succeeded in: so numbers come out ascending and
//! close together, which makes long writes of blocks.
//!
//! A number belongs to the participant that set its bit by compare-and-swap. Everything else is a hint that
//! may be wrong and mends itself: a summary bit missing over a full word is set by a participant that finds
//! the word full; a summary bit left over a word with room (its releaser died between two instructions) hides
//! at most that word's numbers until one of them is released. What a process had allocated and not yet made
//! known when it died stays allocated until somebody finds it lost (pages/store/lost.rs). The high-water mark
//! is raised before a bit at or beyond it is set, so no bit is set above it; scans end there.
//!
//! All atomics of the memory are sequentially consistent. The one place that needs it: a releaser clears a
//! bit and then looks at the summary; a participant that fills a word sets the summary and then looks at the
//! word; one of them sees the other.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sablecat_os::atomic::{AtomicU64, Ordering::SeqCst};

use super::used::Used;
use crate::error::{Error, Result};
use crate::region::{BitmapLevel, LEVELS_MAX, divide};

/// How far a search for a run looks at once into fragmented space, in words.
const RUN_SEARCH_WORDS: usize = 1 << 14;
const FULL: u64 = u64::MAX;

/// Told which numbers somebody is about to take, some of them perhaps. Makes certain of the memory for all
/// below the end of these, so that their words, and those that are looked at to find the next, can be stored
/// to.
pub(crate) type MakeCertain = Box<dyn Fn(Range<u64>) -> Result<()> + Send + Sync>;

/// An allocator of the numbers below [`BitSpace::capacity`].
pub(crate) struct BitSpace {
    memory: NonNull<AtomicU64>,
    levels: [BitmapLevel; LEVELS_MAX],
    depth: usize,
    /// The word of level 0 in which allocation last succeeded, or a lower one in which a number was released.
    hint: NonNull<AtomicU64>,
    /// Numbers at or above this are free. Grows; only `trim_high_water` lowers it.
    high: NonNull<AtomicU64>,
    /// Called before a word is looked at that may never have been.
    make_certain: MakeCertain,
    /// Where runs are looked for far above the lowest room: where this process has given one back or found
    /// one, or has not looked for longest.
    runs_hint: AtomicUsize,
}

impl fmt::Debug for BitSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitSpace").field("high", self.high()).finish_non_exhaustive()
    }
}

// SAFETY: all it points to are atomics, valid for as long as the value lives (`new`).
unsafe impl Send for BitSpace {}
// SAFETY: as above.
unsafe impl Sync for BitSpace {}

impl BitSpace {
    /// An allocator over `bits / 64` words of memory and two words beside them. Fresh memory is all zero, and
    /// everything is free then.
    ///
    /// The summaries are in the same memory, so a 64th of `bits` is not given out; all that use the same
    /// memory give the same `bits`.
    ///
    /// # Safety
    /// `memory` points to `bits / 64` atomics, `hint` and `high` to one each, all valid for as long as the
    /// value lives, and used by nothing but allocators over the same memory.
    pub(crate) unsafe fn new(
        (memory, bits): (NonNull<AtomicU64>, u64),
        hint: NonNull<AtomicU64>,
        high: NonNull<AtomicU64>,
        make_certain: MakeCertain,
    ) -> BitSpace {
        let words = usize::try_from(bits / 64).expect("a bitmap in memory is addressable");
        assert!(words > 0, "a bitmap has at least one word");
        let (levels, depth) = divide(words);
        BitSpace { memory, levels, depth, hint, high, make_certain, runs_hint: AtomicUsize::new(0) }
    }

    fn word(&self, level: usize, index: usize) -> &AtomicU64 {
        let BitmapLevel { start, words } = self.levels[level];
        assert!(index < words);
        // SAFETY: within the level, which `divide` put within the memory of `new`.
        unsafe { self.memory.add(start + index).as_ref() }
    }

    fn hint(&self) -> &AtomicU64 {
        // SAFETY: by the contract of `new`.
        unsafe { self.hint.as_ref() }
    }

    fn high(&self) -> &AtomicU64 {
        // SAFETY: by the contract of `new`.
        unsafe { self.high.as_ref() }
    }

    /// Numbers that can be given out are below this.
    pub(crate) fn capacity(&self) -> u64 {
        self.levels[0].words as u64 * 64
    }

    /// Numbers at or above this are free.
    pub(crate) fn high_water(&self) -> u64 {
        self.high().load(SeqCst)
    }

    /// Takes a free number, about the lowest; none when all are in use.
    ///
    /// # Errors
    /// Full if there is no memory for more of the bitmap.
    pub(crate) fn allocate_one(&self) -> Result<Option<u64>> {
        let hint = self.hint().load(SeqCst) as usize;
        if hint < self.levels[0].words
            && let Some(number) = self.take_from(hint)?
        {
            return Ok(Some(number));
        }
        loop {
            let Some(index) = self.lowest_with_room()? else { return Ok(None) };
            if let Some(number) = self.take_from(index)? {
                self.hint().store(index as u64, SeqCst);
                return Ok(Some(number));
            }
        }
    }

    /// Takes the lowest free number of a word, if there is one.
    fn take_from(&self, index: usize) -> Result<Option<u64>> {
        (self.make_certain)(index as u64 * 64..(index as u64 + 1) * 64)?;
        let word = self.word(0, index);
        let mut value = word.load(SeqCst);
        while value != FULL {
            let bit = value.trailing_ones();
            let number = index as u64 * 64 + u64::from(bit);
            let after = value | 1 << bit;
            self.raise_high_water(number + 1);
            match word.compare_exchange(value, after, SeqCst, SeqCst) {
                Ok(_) => {
                    // Once more, in case the mark was trimmed in between.
                    self.raise_high_water(number + 1);
                    if after == FULL {
                        self.note_full(index);
                    }
                    return Ok(Some(number));
                }
                Err(now) => value = now,
            }
        }
        self.note_full(index);
        Ok(None)
    }

    /// Takes `length` consecutive numbers and returns the first; none when there is no such run.
    ///
    /// Looks through two bounded stretches of fragmented space, the lowest and one that is another each time
    /// that nothing is found there; then takes numbers never used before. If there are none left, or no
    /// memory for them, it looks everywhere. A process that dies in here may leave numbers allocated to
    /// nobody.
    ///
    /// # Errors
    /// As [`BitSpace::allocate_one`].
    pub(crate) fn allocate_run(&self, length: u64) -> Result<Option<u64>> {
        assert!(length > 0, "a run has at least one number");
        if length == 1 {
            return self.allocate_one();
        }
        let lowest = self.lowest_with_room()?.unwrap_or(0);
        let end = self.words_below_high();
        let after = lowest + RUN_SEARCH_WORDS;
        if let Some(first) = self.run_among(lowest..after.min(end), length)? {
            return Ok(Some(first));
        }
        if after < end {
            // Relaxed: a hint.
            let from = Some(self.runs_hint.load(Relaxed))
                .filter(|from| (after..end).contains(from))
                .unwrap_or(after);
            let found = self.run_among(from..(from + RUN_SEARCH_WORDS).min(end), length)?;
            self.runs_hint
                .store(found.map_or(from + RUN_SEARCH_WORDS, |first| (first / 64) as usize), Relaxed);
            if found.is_some() {
                return Ok(found);
            }
        }
        match self.run_at_the_end(length) {
            Ok(Some(first)) => Ok(Some(first)),
            full => self.run_among(lowest..end, length)?.map_or(full, |first| Ok(Some(first))),
        }
    }

    /// Takes a run that lies within these words.
    fn run_among(&self, words: Range<usize>, length: u64) -> Result<Option<u64>> {
        let mut run = 0;
        for index in words {
            let value = self.word(0, index).load(SeqCst);
            if value == FULL {
                run = 0;
                continue;
            }
            for bit in 0..64 {
                run = if value & 1 << bit == 0 { run + 1 } else { 0 };
                if run == length {
                    let first = index as u64 * 64 + bit + 1 - length;
                    if self.take_run(first, length)? {
                        return Ok(Some(first));
                    }
                    run = 0;
                }
            }
        }
        Ok(None)
    }

    /// Takes a run of numbers above all that are in use.
    fn run_at_the_end(&self, length: u64) -> Result<Option<u64>> {
        loop {
            let first = self.high_water();
            let Some(end) = first.checked_add(length).filter(|&end| end <= self.capacity()) else {
                return Ok(None);
            };
            (self.make_certain)(end..end)?;
            let claimed = self.high().compare_exchange(first, end, SeqCst, SeqCst).is_ok();
            // Numbers below the mark are anyone's, so the claim on the mark only makes it likely that they
            // are still free.
            if claimed && self.take_run(first, length)? {
                return Ok(Some(first));
            }
        }
    }

    /// Takes these very numbers, or none of them.
    ///
    /// # Errors
    /// As [`BitSpace::allocate_one`].
    pub(crate) fn take_run(&self, first: u64, length: u64) -> Result<bool> {
        (self.make_certain)(first..first + length)?;
        self.raise_high_water(first + length);
        for (index, mask) in pieces(first, length) {
            let word = self.word(0, index);
            let mut value = word.load(SeqCst);
            loop {
                if value & mask != 0 {
                    // Somebody has one of them: give back the pieces before this one.
                    let piece = (index as u64 * 64).max(first);
                    self.release_run(first, piece - first);
                    return Ok(false);
                }
                match word.compare_exchange(value, value | mask, SeqCst, SeqCst) {
                    Ok(_) => break,
                    Err(now) => value = now,
                }
            }
            if value | mask == FULL {
                self.note_full(index);
            }
        }
        self.raise_high_water(first + length);
        Ok(true)
    }

    /// Gives a number back. True if it was in use.
    pub(crate) fn release(&self, number: u64) -> bool {
        assert!(number < self.capacity(), "only what was allocated is released");
        let index = (number / 64) as usize;
        let bit = 1 << (number % 64);
        let before = self.word(0, index).fetch_and(!bit, SeqCst);
        self.note_room(0, index);
        before & bit != 0
    }

    /// Gives back `length` numbers from `first` on.
    pub(crate) fn release_run(&self, first: u64, length: u64) {
        assert!(
            first.checked_add(length).is_some_and(|end| end <= self.capacity()),
            "only what was allocated is released"
        );
        for (index, mask) in pieces(first, length) {
            self.word(0, index).fetch_and(!mask, SeqCst);
            self.note_room(0, index);
        }
        if length > 1 {
            self.runs_hint.store((first / 64) as usize, Relaxed);
        }
    }

    /// The first free numbers in a row from `from` on that are below the high-water mark.
    pub(crate) fn next_free(&self, from: u64) -> Option<Range<u64>> {
        let high = self.high_water().min(self.capacity());
        let find = |from: u64, sought: fn(u64) -> u64| {
            // Of the first word only what is not below.
            let mut mask = FULL << (from % 64);
            for index in (from / 64) as usize..high.div_ceil(64) as usize {
                let found = sought(self.word(0, index).load(SeqCst)) & mask;
                if found != 0 {
                    return high.min(index as u64 * 64 + u64::from(found.trailing_zeros()));
                }
                mask = FULL;
            }
            high
        };
        let start = find(from, |word| !word);
        (start < high).then(|| start..find(start, |word| word))
    }

    /// True if the number is in use.
    pub(crate) fn is_used(&self, number: u64) -> bool {
        // Nothing at or above the mark is, and there may be no memory for what says so.
        number < self.high_water()
            && self.word(0, (number / 64) as usize).load(SeqCst) & 1 << (number % 64) != 0
    }

    /// Counts everything below `high` as in use, in addition to what is: what a volume starts with, until its
    /// map has been scanned and [`BitSpace::free_unused`] called. Costs a store per 64 numbers. Nobody else
    /// may be allocating yet.
    ///
    /// # Errors
    /// Exhausted, or memory full, if `high` is beyond the capacity, or there is no memory for as many.
    pub(crate) fn assume_used_below(&self, high: u64) -> Result<()> {
        if high > self.capacity() {
            return Err(Error::exhausted(format!(
                "the volume uses numbers up to {high}; this environment was set up for {} at most",
                self.capacity()
            )));
        }
        (self.make_certain)(high..high)?;
        self.raise_high_water(high);
        // At each level, the words that are full because those below are.
        let mut full = high;
        for level in 0..self.depth {
            for (index, mask) in pieces(0, full) {
                self.word(level, index).fetch_or(mask, SeqCst);
            }
            full /= 64;
        }
        self.hint().store(high / 64, SeqCst);
        Ok(())
    }

    /// Frees every number below `used.bound()` that is not in `used`.
    ///
    /// Undoes [`BitSpace::assume_used_below`], which has accepted that bound, while others allocate and
    /// release: what is in `used` is left as it is by now, and what is not cannot have been anybody's.
    pub(crate) fn free_unused(&self, used: &Used) {
        for (index, mask) in pieces(0, used.bound()) {
            let free = mask & !used.word(index);
            if free != 0 {
                self.word(0, index).fetch_and(!free, SeqCst);
                self.note_room(0, index);
            }
        }
    }

    /// The numbers in use below `named.bound()` that are not in `named`.
    pub(crate) fn used_beside(&self, named: &Used) -> impl Iterator<Item = u64> {
        let words = (named.bound().div_ceil(64) as usize).min(self.words_below_high());
        (0..words).flat_map(move |index| {
            let rest = (named.bound() - index as u64 * 64).min(64);
            let word = self.word(0, index).load(SeqCst) & !named.word(index) & (FULL >> (64 - rest));
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index as u64 * 64 + bit)
        })
    }

    /// How many numbers are in use. Looks at every word below the high-water mark.
    pub(crate) fn used_count(&self) -> u64 {
        (0..self.words_below_high())
            .map(|index| u64::from(self.word(0, index).load(SeqCst).count_ones()))
            .sum()
    }

    /// The highest number in use, if any.
    pub(crate) fn highest_used(&self) -> Option<u64> {
        self.highest_in(0..self.words_below_high())
    }

    fn highest_in(&self, words: Range<usize>) -> Option<u64> {
        words.rev().find_map(|index| {
            let value = self.word(0, index).load(SeqCst);
            value.checked_ilog2().map(|bit| index as u64 * 64 + u64::from(bit))
        })
    }

    /// Lowers the high-water mark to just above the highest number in use, and returns it.
    ///
    /// While it runs the mark may for a moment be below a number that is being allocated.
    pub(crate) fn trim_high_water(&self) -> u64 {
        let before = self.high_water();
        let after = self.highest_used().map_or(0, |highest| highest + 1);
        if after < before && self.high().compare_exchange(before, after, SeqCst, SeqCst).is_ok() {
            // A participant that took a number after the number was passed by, and raised the mark before the
            // mark was lowered, is seen now; one that raises the mark later raises it from where it is.
            let words = (after / 64) as usize..before.div_ceil(64) as usize;
            if let Some(highest) = self.highest_in(words) {
                self.raise_high_water(highest + 1);
            }
        }
        self.high_water()
    }

    /// Raises the high-water mark: everything below `high` may be in use. Never lowers it.
    pub(crate) fn raise_high_water(&self, high: u64) {
        if self.high_water() < high {
            self.high().fetch_max(high, SeqCst);
        }
    }

    fn words_below_high(&self) -> usize {
        (self.high_water().div_ceil(64) as usize).min(self.levels[0].words)
    }

    /// The lowest word of level 0 with room, by the summaries. What is looked at on the way is certain to be
    /// there: all that is in use has been made certain of before, and the next number with it.
    fn lowest_with_room(&self) -> Result<Option<usize>> {
        (self.make_certain)(1..1)?;
        'again: loop {
            let mut index = 0;
            for level in (1..self.depth).rev() {
                let value = self.word(level, index).load(SeqCst);
                let room = !value & self.children(level, index);
                if room == 0 {
                    if level + 1 == self.depth {
                        return Ok(None);
                    }
                    // The summary above does not say so yet: the participant that filled it is about to say
                    // it, or died.
                    self.note_full_at(level, index);
                    continue 'again;
                }
                index = index * 64 + room.trailing_zeros() as usize;
            }
            let full = self.depth == 1 && self.word(0, 0).load(SeqCst) == FULL;
            return Ok(if full { None } else { Some(index) });
        }
    }

    /// The bits of a summary word that stand for a word.
    fn children(&self, level: usize, index: usize) -> u64 {
        let below = self.levels[level - 1].words - index * 64;
        if below >= 64 { FULL } else { (1 << below) - 1 }
    }

    fn is_full(&self, level: usize, index: usize) -> bool {
        let whole = if level == 0 { FULL } else { self.children(level, index) };
        self.word(level, index).load(SeqCst) & whole == whole
    }

    /// Enters a full word of level 0 into the summaries.
    fn note_full(&self, index: usize) {
        self.note_full_at(0, index);
    }

    /// Enters a word that was seen full into the summaries above it, for as long as it is.
    fn note_full_at(&self, mut level: usize, mut index: usize) {
        while level + 1 < self.depth && self.is_full(level, index) {
            self.word(level + 1, index / 64).fetch_or(1 << (index % 64), SeqCst);
            if !self.is_full(level, index) {
                // Released in between; its releaser may have looked at the summary before the bit was set.
                self.note_room(level, index);
                return;
            }
            level += 1;
            index /= 64;
        }
    }

    /// Takes a word that has room out of all summaries above it, and the hint back to it.
    fn note_room(&self, level: usize, index: usize) {
        let mut child = index;
        for above in level + 1..self.depth {
            let (word, bit) = (self.word(above, child / 64), 1 << (child % 64));
            if word.load(SeqCst) & bit != 0 {
                word.fetch_and(!bit, SeqCst);
            }
            child /= 64;
        }
        if level == 0 && (index as u64) < self.hint().load(SeqCst) {
            self.hint().store(index as u64, SeqCst);
        }
    }
}

/// The words that numbers `first ..` lie in, each with the bits they take.
fn pieces(first: u64, length: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = first + length;
    let words = if length == 0 { 0..0 } else { first / 64..end.div_ceil(64) };
    words.map(move |index| {
        let from = first.max(index * 64) - index * 64;
        let to = end.min((index + 1) * 64) - index * 64;
        (index as usize, (FULL >> (64 - (to - from))) << from)
    })
}

#[cfg(test)]
pub(in crate::pages) mod tests;

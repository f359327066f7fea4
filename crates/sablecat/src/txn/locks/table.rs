//! The table: buckets of lock words in the region.
//!
//! ```text
//! bucket 0     counters: moments, waits, deadlocks, timeouts, coarse locks
//! bucket 1..n  header {sequence: 32, reach: 16, latch owner: 16} and seven lock words
//! ```
//! A record's *home* is one of the buckets from 1. Words that find no room at home go to the buckets that
//! follow, round the end; the home's `reach` says how many of those must be looked through. Reach is raised
//! before a word is written out there, and lowered by a holder of the latch that sees that nothing is left so
//! far out.
//!
//! The participant that takes the latch writes itself there as the owner. The owner gives the latch back, or
//! the reaper of a dead owner does; the sequence changes with each taking. It is held for tens of
//! nanoseconds, so nobody is woken at its end: a participant that finds it held spins, and if the holder was
//! stopped in the middle, sleeps a few milliseconds at a time. A holder of one latch takes a second only if
//! it is free at once.

use std::sync::Arc;

use sablecat_os::atomic::{AtomicU64, Ordering};

use super::word::{ID_BITS, LockId, Want, Word, clash};
use crate::error::Result;
use crate::region::{Region, Slot};

/// Words of a bucket, its header included.
const LINE: usize = 8;
/// Lock words of a bucket.
pub(super) const WORDS: usize = LINE - 1;

/// What is counted in bucket 0.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counter {
    /// First locks of transactions, and waits: what ages are told by.
    Moments,
    Waits,
    Deadlocks,
    Timeouts,
    Coarse,
}

#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct LockBucket {
    header: AtomicU64,
    pub(super) words: [AtomicU64; WORDS],
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct BucketHeader(u64);

impl BucketHeader {
    fn owner(self) -> u16 {
        self.0 as u16
    }
    fn reach(self) -> usize {
        (self.0 >> 16 & 0xffff) as usize
    }
    fn taken_by(self, owner: u16) -> BucketHeader {
        BucketHeader((self.0 & !0xffff | u64::from(owner)).wrapping_add(1 << 32))
    }
    fn given_back(self) -> BucketHeader {
        BucketHeader(self.0 & !0xffff)
    }
    fn with_reach(self, reach: usize) -> BucketHeader {
        debug_assert!(reach <= 0xffff);
        BucketHeader(self.0 & !0xffff_0000 | (reach as u64) << 16)
    }
}

/// The right to write words of one bucket, and to grant locks on the records at home there.
#[derive(Debug)]
pub(super) struct Latch<'a> {
    header: &'a AtomicU64,
    now: u64,
}

impl Latch<'_> {
    /// How many buckets after this one may hold locks of records at home here.
    #[inline]
    pub(super) fn reach(&self) -> usize {
        BucketHeader(self.now).reach()
    }

    /// Lowers the reach, when the latch is given back.
    #[inline]
    pub(super) fn lower_reach(&mut self, reach: usize) {
        debug_assert!(reach <= self.reach());
        self.now = BucketHeader(self.now).with_reach(reach).0;
    }

    /// Raises the reach at once: before a word is written that far out.
    pub(super) fn raise_reach(&mut self, reach: usize) {
        if reach > self.reach() {
            self.now = BucketHeader(self.now).with_reach(reach).0;
            // Release: as in `drop`.
            self.header.store(self.now, Ordering::Release);
        }
    }
}

impl Drop for Latch<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next taking, which sees the words written under this one.
        self.header.store(BucketHeader(self.now).given_back().0, Ordering::Release);
    }
}

#[derive(Debug)]
pub(super) struct BucketTable {
    region: Arc<Region>,
}

impl BucketTable {
    pub(super) fn new(region: Arc<Region>) -> BucketTable {
        let words = region.geometry().lock_words;
        assert!((2 * LINE..1 << 32).contains(&words), "a lock table of {words} words");
        BucketTable { region }
    }

    /// Whether this process was taken for dead.
    pub(super) fn is_fenced(&self) -> bool {
        self.region.is_fenced()
    }

    /// An error if this process was taken for dead: nobody has to let go of a lock for it.
    pub(super) fn check_fence(&self) -> Result<()> {
        self.region.check_fence()
    }

    /// Wakes the transactions that sleep until something changes (txn/transactions/waiting.rs).
    pub(super) fn wake_listeners(&self) {
        self.region.header().recent.sleepers.wake();
    }

    /// A wait for a lock takes long.
    pub(super) fn stall(&self) {
        self.region.stall();
    }

    #[inline]
    fn buckets(&self) -> &[LockBucket] {
        let (words, count) = self.region.lock_words();
        // SAFETY: `count` words, a power of two and at least 16, start at the 4096-aligned `words` and live
        // as long as the region, which we hold. They are only accessed as atomics, valid for any bytes; a
        // bucket is eight of them.
        unsafe { std::slice::from_raw_parts(words.cast().as_ptr(), count / LINE) }
    }

    /// The farthest that a reach can be: all buckets but the home and the counters'.
    pub(super) fn reach_max(&self) -> usize {
        (self.buckets().len() - 2).min(0xffff)
    }

    /// Lock words in the table.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        (self.region.geometry().lock_words / LINE - 1) * WORDS
    }

    /// The bucket at which all records of `id` are at home.
    #[inline]
    pub(super) fn home(&self, id: LockId) -> usize {
        let usable = self.buckets().len() as u128 - 1;
        1 + ((u128::from(id.0) * usable) >> ID_BITS) as usize
    }

    /// The number of the bucket at a distance from another.
    #[inline]
    pub(super) fn at(&self, home: usize, distance: usize) -> usize {
        let number = home + distance;
        let buckets = self.buckets().len();
        if number < buckets { number } else { number - buckets + 1 }
    }

    #[inline]
    pub(super) fn bucket(&self, number: usize) -> &LockBucket {
        &self.buckets()[number]
    }

    /// The index of a bucket's word.
    #[inline]
    pub(super) fn index(number: usize, position: usize) -> u32 {
        (number * LINE + 1 + position) as u32
    }

    /// A lock word by its index.
    #[inline]
    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        &self.buckets()[index / LINE].words[index % LINE - 1]
    }

    /// Takes a bucket's latch for `me` unless somebody has it.
    #[inline]
    pub(super) fn try_latch(&self, number: usize, me: u16) -> Option<Latch<'_>> {
        debug_assert_ne!(number, 0);
        let header = &self.bucket(number).header;
        let seen = BucketHeader(header.load(Ordering::Relaxed));
        if seen.owner() != 0 {
            return None;
        }
        let now = seen.taken_by(me).0;
        // Acquire: pairs with the Release of the last holder.
        header.compare_exchange(seen.0, now, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Latch { header, now })
    }

    /// Takes a bucket's latch for `me`.
    #[inline]
    pub(super) fn latch(&self, number: usize, me: u16) -> Latch<'_> {
        match self.try_latch(number, me) {
            Some(latch) => latch,
            None => self.latch_slow(number, me),
        }
    }

    #[cold]
    fn latch_slow(&self, number: usize, me: u16) -> Latch<'_> {
        self.slot(me).lock_queue.wait_for(|| self.region.stall(), || self.try_latch(number, me))
    }

    /// The owners of all latches that somebody has.
    pub(super) fn latch_owners(&self) -> impl Iterator<Item = u16> {
        let owner = |bucket: &LockBucket| BucketHeader(bucket.header.load(Ordering::Acquire)).owner();
        self.buckets()[1..].iter().map(owner).filter(|&owner| owner != 0)
    }

    /// Gives back the latches that a dead participant holds.
    pub(super) fn break_latches_of(&self, slot: u16) {
        for bucket in &self.buckets()[1..] {
            let seen = BucketHeader(bucket.header.load(Ordering::Acquire));
            if seen.owner() == slot {
                // The owner is dead, so only another reaper can have changed the word. AcqRel: as a holder's
                // taking and giving back.
                let _ = bucket.header.compare_exchange(
                    seen.0,
                    seen.given_back().0,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            }
        }
    }

    /// Whether there is no lock at all on records at home with this one: most often, and a look at one line.
    #[inline]
    pub(super) fn is_quiet(&self, id: LockId) -> bool {
        let bucket = self.bucket(self.home(id));
        // Acquire: both as in `against`.
        let reach = BucketHeader(bucket.header.load(Ordering::Acquire)).reach();
        reach == 0 && bucket.words.iter().fold(0, |any, word| any | word.load(Ordering::Acquire)) == 0
    }

    /// Shows `see` every lock that stands against `me` having what it wants, or all that touch the record if
    /// `me` is 0. Without the latch, so what is shown may be gone; locks whose owners wait or sleep are shown
    /// for sure.
    pub(super) fn against(&self, me: u16, want: Want, mut see: impl FnMut(Word)) {
        let home = self.home(want.id);
        // Acquire: pairs with the Release that raised the reach before the word out there was written.
        let reach = BucketHeader(self.bucket(home).header.load(Ordering::Acquire)).reach();
        for distance in 0..=reach.min(self.reach_max()) {
            for place in &self.bucket(self.at(home, distance)).words {
                // Acquire: pairs with the Release that wrote the word.
                let word = Word(place.load(Ordering::Acquire));
                if !word.is_free()
                    && word.owner() != me
                    && self.covers(word, want.id)
                    && (me == 0 || clash(word.mode(), want.mode))
                {
                    see(word);
                }
            }
        }
    }

    /// Whether a lock is one on the record of `id`, by itself or because it is coarse.
    #[inline]
    pub(super) fn covers(&self, word: Word, id: LockId) -> bool {
        word.id() == id || word.is_coarse() && self.home(word.id()) == self.home(id)
    }

    /// Calls `see` with the index of every lock word.
    pub(super) fn each_place(&self, mut see: impl FnMut(usize)) {
        self.each_bucket(|number| {
            (0..WORDS).for_each(|position| see(BucketTable::index(number, position) as usize))
        });
    }

    /// Calls `see` with the number of every bucket of lock words.
    pub(super) fn each_bucket(&self, see: impl FnMut(usize)) {
        (1..self.buckets().len()).for_each(see);
    }

    /// The participant's slot.
    #[inline]
    pub(super) fn slot(&self, me: u16) -> &Slot {
        self.region.slot(me)
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        usize::from(self.region.geometry().slots)
    }

    /// The slots that somebody may be in.
    pub(super) fn slots_in_use(&self) -> impl Iterator<Item = (u16, &Slot)> {
        // Acquire: pairs with the raising of the mark; a waiter's slot was taken long before it announced the
        // wait we look for.
        let high = self.region.header().slots_high.0.load(Ordering::Acquire).min(self.slots() as u32) as u16;
        (1..high).map(|number| (number, self.region.slot(number)))
    }

    /// A moment after all that were asked for before.
    #[inline]
    pub(super) fn next_moment(&self) -> u64 {
        self.counter(Counter::Moments).fetch_add(1, Ordering::Relaxed) + 1
    }

    /// One of the counters. All uses are Relaxed: each is a number by itself and orders nothing else.
    #[inline]
    pub(super) fn counter(&self, counter: Counter) -> &AtomicU64 {
        &self.bucket(0).words[counter as usize]
    }

    pub(super) fn count(&self, counter: Counter) {
        self.counter(counter).fetch_add(1, Ordering::Relaxed);
    }
}

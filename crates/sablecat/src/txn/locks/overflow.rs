//! Full buckets.
//!
//! A lock whose home has no free word goes, in this order,
//! 1. to a free word of one of the next few buckets, the home's reach raised first;
//! 2. if its owner has other locks of that home, and nobody's lock stands against it, into one *coarse* lock:
//!    one of those words made to stand for every record of the home, the other words freed. It covers more
//!    than was asked for, never less;
//! 3. to a free word anywhere;
//! 4. nowhere: `TooMany`.
//!
//! A transaction with very many locks prefers 2 from the start, so that it does not fill the table under
//! everybody's feet: it comes to at most [`COARSE_FROM`] of the words and one for each bucket.
//!
//! A coarse lock is written by one compare-and-swap over a lock that it includes, so an owner that dies on
//! the way has one or the other.

use sablecat_os::atomic::Ordering;

use super::grant::Survey;
use super::table::{BucketTable, Counter, Latch, WORDS};
use super::word::{Want, Word, clash};
use super::{HeldLocks, LockMode, LockTable};
use crate::error::{Error, Result};

/// Buckets after the home that are looked through before a coarse lock is considered.
const NEAR: usize = 8;
/// The share of the table's words from which a transaction goes for coarse locks.
const COARSE_FROM: usize = 8;

impl LockTable {
    /// Whether a transaction has so many locks that it should make them coarse where it can.
    #[inline]
    pub(super) fn wants_coarse(&self, held: &HeldLocks) -> bool {
        held.words.len() >= self.table.capacity() / COARSE_FROM
    }

    /// Writes a lock that nothing stands against, but for which the home bucket is full or a coarse lock is
    /// better. None when done; else the number of a bucket that may have had room, but was busy.
    #[cold]
    pub(super) fn place_elsewhere(
        &self,
        mut home_latch: Latch<'_>,
        home: usize,
        word: Word,
        found: &Survey,
        held: &mut HeldLocks,
    ) -> Result<Option<usize>> {
        let company = found.company;
        if company && self.wants_coarse(held) && self.make_coarse(home, home_latch.reach(), word) {
            return Ok(None);
        }
        if let Some(free) = found.free {
            self.write(free, word, held);
            return Ok(None);
        }
        let farthest = self.table.reach_max();
        let near = NEAR.min(farthest);
        let mut busy = None;
        for distance in 1..=near {
            if self.place_at(&mut home_latch, home, distance, word, &mut busy, held) {
                return Ok(None);
            }
        }
        if company && self.make_coarse(home, home_latch.reach(), word) {
            return Ok(None);
        }
        for distance in near + 1..=farthest {
            if self.place_at(&mut home_latch, home, distance, word, &mut busy, held) {
                return Ok(None);
            }
        }
        if busy.is_none() {
            return Err(Error::too_many_at_once(format!(
                "all {} record locks of the environment are taken; end some transactions, or create the \
                 environment with a larger lock table",
                self.table.capacity(),
            )));
        }
        Ok(busy)
    }

    /// Writes a lock into a free word of the bucket at `distance`. False if there is none, or somebody is at
    /// it.
    fn place_at(
        &self,
        home_latch: &mut Latch<'_>,
        home: usize,
        distance: usize,
        word: Word,
        busy: &mut Option<usize>,
        held: &mut HeldLocks,
    ) -> bool {
        let number = self.table.at(home, distance);
        let Some(_latch) = self.table.try_latch(number, word.owner()) else {
            *busy = Some(number);
            return false;
        };
        let words = &self.table.bucket(number).words;
        // Acquire: pairs with the swap of the release that freed the word.
        let Some(position) = words.iter().position(|place| place.load(Ordering::Acquire) == Word::FREE.0)
        else {
            return false;
        };
        home_latch.raise_reach(distance);
        self.write(BucketTable::index(number, position), word, held);
        true
    }

    /// Makes one of the owner's locks of this home stand for all records of it, `word`'s among them, and
    /// frees its others. False if somebody's lock stands against that. The caller has the home's latch.
    fn make_coarse(&self, home: usize, reach: usize, word: Word) -> bool {
        let me = word.owner();
        let mut mode = word.mode();
        let mut theirs = None;
        let mut mine = Vec::new();
        for index in self.places(home, reach) {
            // Acquire: as the survey.
            let other = Word(self.table.word(index).load(Ordering::Acquire));
            if other.is_free() || self.table.home(other.id()) != home {
                continue;
            }
            if other.owner() == me {
                mode = mode.max(other.mode());
                mine.push((index, other));
            } else {
                theirs = theirs.max(Some(other.mode()));
            }
        }
        let Some((kept, seen)) = mine.pop() else { return false };
        if theirs.is_some_and(|theirs| clash(theirs, mode)) {
            return false;
        }
        // Flagged, so that its end wakes the waiters for locks that are now part of it.
        let coarse = Word::new(Want { id: seen.id(), mode }, me).coarse().flagged(true);
        // Our own word, and the latch is held: nobody else changes it. SeqCst: as a release.
        self.table.word(kept).swap(coarse.0, Ordering::SeqCst);
        for (index, _) in mine {
            self.table.word(index).swap(Word::FREE.0, Ordering::SeqCst);
        }
        if mode == LockMode::Exclusive || !seen.is_coarse() {
            self.table.count(Counter::Coarse);
        }
        true
    }

    /// The indices of the words that may hold locks of a home.
    pub(super) fn places(&self, home: usize, reach: usize) -> impl Iterator<Item = usize> {
        (0..=reach).flat_map(move |distance| {
            let number = self.table.at(home, distance);
            (0..WORDS).map(move |position| BucketTable::index(number, position) as usize)
        })
    }
}

//! One try at a lock: what stands against it, and what is written when nothing does.
//!
//! Everything here happens under the latch of the record's home bucket, so no other grant for the record
//! comes between the look and the store. Releases do come between: a lock that was seen may be gone, which is
//! only ever an unnecessary wait, and its waiter is told so by the failure to flag the word.

use sablecat_os::atomic::{AtomicU64, Ordering};

use super::manner::Manner;
use super::table::BucketTable;
use super::word::{Want, Word, clash};
use super::{HeldLocks, LockMode, LockTable};
use crate::error::Result;

/// What a look through a record's range finds.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// My lock on the record covers what I want.
    covered: bool,
    /// My shared lock on the record, to be made exclusive.
    own: Option<u32>,
    /// I have some lock on a record of this home.
    pub(super) company: bool,
    /// Somebody's lock stands against it.
    blocked: bool,
    /// Nothing stands against it but that somebody waits.
    behind_waiter: bool,
    /// A free word in the home bucket.
    pub(super) free: Option<u32>,
    /// How far out locks of this home are.
    farthest: usize,
}

impl LockTable {
    /// Tries to get the lock, and says whether `me` has it now.
    #[inline]
    pub(super) fn attempt(&self, me: u16, want: Want, manner: Manner, held: &mut HeldLocks) -> Result<bool> {
        let home = self.table.home(want.id);
        loop {
            let mut latch = self.table.latch(home, me);
            let found = self.survey(home, latch.reach(), me, want, manner);
            latch.lower_reach(found.farthest);
            if found.covered {
                return Ok(true);
            }
            if found.blocked || found.behind_waiter && manner.polite && self.is_awaited(want.id) {
                return Ok(false);
            }
            if let Some(own) = found.own {
                let change = Word::TO_EXCLUSIVE.flagged(manner.has_slept);
                // The word is ours, so it is not cleared meanwhile, and bits are all that changes. AcqRel: as
                // a word's writing.
                self.table.word(own as usize).fetch_or(change.0, Ordering::AcqRel);
                return Ok(true);
            }
            let word = Word::new(want, me).flagged(manner.has_slept);
            if let Some(free) = found.free
                && !(found.company && self.wants_coarse(held))
            {
                self.write(free, word, held);
                return Ok(true);
            }
            if let Some(busy) = self.place_elsewhere(latch, home, word, &found, held)? {
                // No room was found, but this bucket could not be looked at. Its latch is waited for with
                // none held.
                drop(self.table.latch(busy, me));
                continue;
            }
            return Ok(true);
        }
    }

    /// Writes a lock into a free word. The caller has the latch of the word's bucket.
    #[inline]
    pub(super) fn write(&self, index: u32, word: Word, held: &mut HeldLocks) {
        held.words.push(index);
        let place = self.table.word(index as usize);
        debug_assert_eq!(
            place.load(Ordering::Relaxed),
            Word::FREE.0,
            "words are written under their bucket's latch"
        );
        // Release: pairs with the Acquire of looks without the latch.
        place.store(word.0, Ordering::Release);
    }

    #[inline]
    fn survey(&self, home: usize, reach: usize, me: u16, want: Want, manner: Manner) -> Survey {
        let mut found = Survey::default();
        for distance in 0..=reach {
            let number = self.table.at(home, distance);
            for (position, place) in self.table.bucket(number).words.iter().enumerate() {
                // Acquire: pairs with the swap of a release, so the participant that gets the lock sees what
                // its last holder did.
                let word = Word(place.load(Ordering::Acquire));
                if word.is_free() {
                    if distance == 0 && found.free.is_none() {
                        found.free = Some(BucketTable::index(number, position));
                    }
                    continue;
                }
                let same = word.id() == want.id;
                if !same && self.table.home(word.id()) != home {
                    continue;
                }
                found.farthest = distance;
                let covers = same || word.is_coarse();
                if word.owner() == me {
                    found.company = true;
                    found.covered |= covers && word.mode() >= want.mode;
                    if same && !word.is_coarse() {
                        found.own = Some(BucketTable::index(number, position));
                    }
                } else if covers && clash(word.mode(), want.mode) {
                    found.blocked |= !manner.will_sleep || flag(place, word);
                } else if covers {
                    found.behind_waiter |= word.is_waited();
                }
            }
        }
        found
    }

    /// Whether a lock stands against it, which is flagged then.
    pub(super) fn stands_against(&self, me: u16, want: Want) -> bool {
        let home = self.table.home(want.id);
        let latch = self.table.latch(home, me);
        self.survey(home, latch.reach(), me, want, Manner { will_sleep: true, ..Manner::TAKE }).blocked
    }

    /// Whether somebody waits to have the record exclusively. A lock's flag alone does not say that: its
    /// waiter may have given up.
    fn is_awaited(&self, id: super::LockId) -> bool {
        self.table.slots_in_use().any(|(_, slot)| {
            // SeqCst, as all looks at announcements.
            let announced = Word(slot.waits_for.load(Ordering::SeqCst));
            !announced.is_free() && announced.want() == Want { id, mode: LockMode::Exclusive }
        })
    }
}

/// Flags a lock as waited for. False if it is gone. Its home's latch is held, so it can only be flagged or
/// gone: if the word is somebody else's by now, it is a lock on a record of another home.
fn flag(place: &AtomicU64, word: Word) -> bool {
    // SeqCst: pairs with the swap of the release, see `pass_on`.
    word.is_waited()
        || place.compare_exchange(word.0, word.flagged(true).0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

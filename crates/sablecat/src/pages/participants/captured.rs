//! How far a checkpoint has come: below which page its snapshot wants nothing any more ([`horizon`]).
//!
//! It is said in a word with the tag of the holding of the checkpoint role that it is about, as everything is
//! that a checkpointer changes and a successor of its may have changed since
//! ([`unsaved`](crate::pages::generation)).
//!
//! [`horizon`]: super::horizon

use sablecat_os::atomic::{AtomicU64, Ordering};

use super::Participants;
use crate::region::{HeldRole, PAGES_A_WORD, RoleHolding};

const TAG_SHIFT: u32 = 32;
pub(in crate::pages) const BITS: u64 = u32::MAX as u64;

pub(in crate::pages) fn tagged(tag: u32, bits: u64) -> u64 {
    u64::from(tag) << TAG_SHIFT | bits
}

pub(in crate::pages) fn tag_of(word: u64) -> u32 {
    (word >> TAG_SHIFT) as u32
}

/// Changes what a word says beside its tag, in the name of a holding of the checkpoint role. False if that
/// was succeeded.
pub(in crate::pages) fn change(word: &AtomicU64, held: &HeldRole<'_>, to: impl Fn(u64) -> u64) -> bool {
    let tag = held.holding().tag();
    loop {
        // SeqCst, all of it: in one order with the role's word, and with what commits do to entries and bits.
        let seen = word.load(Ordering::SeqCst);
        if tag_of(seen) != tag && held.is_succeeded() {
            return false;
        }
        let next = tagged(tag, to(seen & BITS));
        if next == seen || word.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return true;
        }
    }
}

impl Participants {
    /// Says that a checkpoint has dealt with all pages of the words below `index`, each of which is about
    /// [`PAGES_A_WORD`]; all ones: with all there are.
    pub(in crate::pages) fn say_captured(&self, index: u32, held: &HeldRole<'_>) {
        // Of a participant that was succeeded it counts for nothing.
        change(&self.region.header().captured_below.0, held, |_| u64::from(index));
    }

    /// Pages below this have been dealt with by the checkpoint that a holding of the role is about.
    pub(in crate::pages) fn captured_by(&self, holding: RoleHolding) -> u64 {
        let word = self.region.header().captured_below.0.load(Ordering::SeqCst);
        match word & BITS {
            _ if tag_of(word) != holding.tag() => 0,
            BITS => u64::MAX,
            words => words * PAGES_A_WORD,
        }
    }
}

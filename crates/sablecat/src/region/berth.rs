//! Berths: which participant writes a superblock where, and what it may still write after it was stopped.
//!
//! ```text
//! free ──take──▶ drafting ──┬─▶ set ──┬──▶ free: written, flushed
//!                           ▼         ▼
//!                         over ──────over ──▶ free: the one that had it has seen that
//! ```
//!
//! The file knows no compare-and-swap: what a process was told to write it writes, however long it was
//! stopped before. So a checkpointer takes a berth before it writes anything that names its generation, and
//! puts the bytes of its superblock, its *draft*, beside the berth's word before it says that the berth is
//! *set*. It writes the superblock only after that. A successor in its role finds one of two things, and
//! decides it by compare-and-swap:
//!
//! - *drafting*: now it is *over*, and the participant that was stopped will never write the superblock, for
//!   it cannot set the berth any more;
//! - *set*: the successor writes the same bytes to the same berth, flushes, and goes on from that generation.
//!   Then it is over: what the other may still write are those bytes, at that place.
//!
//! So of one generation there is one superblock only, whichever participant wrote it. A berth that is over is
//! used for nothing else until the participant that had it is seen to have given up: by itself, or by being
//! reaped. The draft is stored by the participant that drafts, and by nobody after that. Before each word
//! this participant looks whether the berth is still its own.

use sablecat_os::atomic::{AtomicU64, Ordering};

use super::Region;
use crate::types::{BERTHS, Berth};

/// Bytes of a superblock.
pub(crate) const DRAFT_BYTES: usize = 4096;
const DRAFT_WORDS: usize = DRAFT_BYTES / 8;

const OWNER_BITS: u32 = 16;
const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;
const STAGE_MASK: u64 = 3 << OWNER_BITS;
const GENERATION_SHIFT: u32 = OWNER_BITS + 2;
/// The highest generation that there can be.
pub(crate) const GENERATION_MAX: u64 = u64::MAX >> GENERATION_SHIFT;

/// How far the owner of a berth has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Nothing of the superblock is written.
    Drafting,
    /// It may be written at any moment.
    Set,
    /// Another decided what became of it.
    Over,
}

impl Stage {
    fn bits(self) -> u64 {
        (match self {
            Stage::Drafting => 0,
            Stage::Set => 1,
            Stage::Over => 2,
        }) << OWNER_BITS
    }
}

/// All berths.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct BerthWords {
    /// {generation 46 | stage 2 | owner slot 16}; 0: free.
    words: [AtomicU64; BERTHS],
    drafts: [[AtomicU64; DRAFT_WORDS]; BERTHS],
}

/// The owner of a berth at one moment, for which generation, and how far the owner had come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mooring(u64);

impl Mooring {
    fn new(owner: u16, generation: u64) -> Mooring {
        debug_assert!(owner != 0 && generation <= GENERATION_MAX);
        Mooring(generation << GENERATION_SHIFT | u64::from(owner))
    }
    fn at(self, stage: Stage) -> Mooring {
        Mooring(self.0 & !STAGE_MASK | stage.bits())
    }
    /// The slot of the owner.
    pub(crate) fn owner(self) -> u16 {
        (self.0 & OWNER_MASK) as u16
    }
    pub(crate) fn stage(self) -> Stage {
        match (self.0 & STAGE_MASK) >> OWNER_BITS {
            0 => Stage::Drafting,
            1 => Stage::Set,
            _ => Stage::Over,
        }
    }
    pub(crate) fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }
}

/// A berth that is had until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Moored<'a> {
    words: &'a BerthWords,
    berth: Berth,
    mooring: Mooring,
}

impl BerthWords {
    /// The owner of a berth; none if the berth is free.
    ///
    /// SeqCst, here and below: rare, and in one order with the role's word.
    pub(crate) fn look(&self, berth: Berth) -> Option<Mooring> {
        let seen = self.words[berth.index()].load(Ordering::SeqCst);
        (seen != 0).then_some(Mooring(seen))
    }

    /// Takes a berth for a generation, if nobody has it.
    pub(crate) fn take(&self, berth: Berth, owner: u16, generation: u64) -> Option<Moored<'_>> {
        let mooring = Mooring::new(owner, generation);
        let taken = self.words[berth.index()]
            .compare_exchange(0, mooring.0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        taken.then_some(Moored { words: self, berth, mooring })
    }

    /// Decides that what a participant has begun is over, unless the participant has come further by now.
    pub(crate) fn end(&self, berth: Berth, seen: Mooring) -> bool {
        self.change(berth, seen, seen.at(Stage::Over).0)
    }

    /// Gives back the berth of a dead participant.
    pub(crate) fn free(&self, berth: Berth, seen: Mooring) -> bool {
        self.change(berth, seen, 0)
    }

    fn change(&self, berth: Berth, from: Mooring, to: u64) -> bool {
        self.words[berth.index()].compare_exchange(from.0, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// What was drafted for a berth that is set, or was when it was last given back.
    pub(crate) fn draft(&self, berth: Berth) -> [u8; DRAFT_BYTES] {
        let mut bytes = [0; DRAFT_BYTES];
        for (eight, word) in bytes.chunks_exact_mut(8).zip(&self.drafts[berth.index()]) {
            // Relaxed: stored before the berth was set, which was seen, or the generation be said to be in
            // force.
            eight.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }
}

impl Moored<'_> {
    /// Where it is.
    pub(crate) fn berth(&self) -> Berth {
        self.berth
    }

    /// Says what the superblock is to be, and that it may be written from now on. False if it is over: then
    /// it must not be.
    #[must_use]
    pub(crate) fn set(&mut self, draft: &[u8; DRAFT_BYTES]) -> bool {
        for (word, eight) in self.words.drafts[self.berth.index()].iter().zip(draft.as_chunks::<8>().0) {
            // Each time: a participant that was taken for dead meanwhile must not write over what another
            // drafts in its place.
            if self.words.words[self.berth.index()].load(Ordering::SeqCst) != self.mooring.0 {
                return false;
            }
            // Relaxed: the exchange below publishes it.
            word.store(u64::from_le_bytes(*eight), Ordering::Relaxed);
        }
        let set = self.mooring.at(Stage::Set);
        let done = self.words.change(self.berth, self.mooring, set.0);
        if done {
            self.mooring = set;
        }
        done
    }
}

impl Drop for Moored<'_> {
    fn drop(&mut self) {
        // Its own, as it was left or over. A participant that was taken for dead finds it free, or another's.
        if !self.words.change(self.berth, self.mooring, 0) {
            self.words.change(self.berth, self.mooring.at(Stage::Over), 0);
        }
    }
}

impl Region {
    /// The berths.
    pub(crate) fn berths(&self) -> &BerthWords {
        &self.header().berths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Box<BerthWords> {
        Box::new(BerthWords {
            words: [const { AtomicU64::new(0) }; BERTHS],
            drafts: [const { [const { AtomicU64::new(0) }; DRAFT_WORDS] }; BERTHS],
        })
    }

    #[test]
    fn who_is_over_cannot_set_a_berth_and_what_is_set_is_known() {
        let (words, berth) = (words(), Berth::usual(1));
        let mut moored = words.take(berth, 5, 77).expect("free");
        assert!(words.take(berth, 6, 78).is_none());
        let seen = words.look(berth).expect("taken");
        assert_eq!((seen.owner(), seen.generation(), seen.stage()), (5, 77, Stage::Drafting));
        assert!(words.end(berth, seen));
        assert!(!moored.set(&[9; DRAFT_BYTES]));
        assert!(words.take(berth, 6, 78).is_none(), "it may still be drafting");
        drop(moored);
        let mut moored = words.take(berth, 6, 78).expect("free");
        assert!(moored.set(&[8; DRAFT_BYTES]));
        assert!(!words.end(berth, seen), "another's");
        let seen = words.look(berth).expect("taken");
        assert_eq!(
            (seen.owner(), seen.generation(), seen.stage(), words.draft(berth)),
            (6, 78, Stage::Set, [8; DRAFT_BYTES])
        );
        assert!(words.end(berth, seen));
        assert!(words.look(berth).is_some(), "it may still be written");
        drop(moored);
        assert_eq!(words.look(berth), None);
    }

    #[test]
    fn who_was_taken_for_dead_does_not_draft_over_what_another_does() {
        let (words, berth) = (words(), Berth::usual(1));
        let mut late = words.take(berth, 5, 77).expect("free");
        assert!(words.free(berth, words.look(berth).expect("taken")));
        let mut moored = words.take(berth, 6, 77).expect("free");
        assert!(moored.set(&[8; DRAFT_BYTES]));
        assert!(!late.set(&[9; DRAFT_BYTES]));
        assert_eq!(words.draft(berth), [8; DRAFT_BYTES]);
        drop(late);
        assert!(words.look(berth).is_some());
        drop(moored);
    }
}

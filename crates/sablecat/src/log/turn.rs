//! A turn: a role that one participant has at a time, with a line of waiters.
//!
//! The word is {sequence 47 | insists 1 | owner slot 16}; the sequence grows with every taking, so a release meant for an older holding fails, and
//! waiters can say which holding they wait for the end of.
//!
//! There are two bells, rung in turns. Who needs only the end of the present holding (its flush covers them) sleeps on the bell of the
//! present sequence; who will need the turn after it sleeps on the other. The end of a holding wakes all of the first and one of the
//! second: that one takes the turn, and its end wakes the others. So nobody is woken to find that it is not finished yet. Whoever was
//! woken as the one and did not take the turn after all wakes another in its place ([`Turn::pass_on`]).
//!
//! A sleeper looks up every few milliseconds, and if the holder it waits for is dead it takes the turn from it; all work done under a turn
//! can be done again.
//!
//! A turn whose work does no harm when it is done by two at once can also be [taken over](Turn::take_over) from a holder that lives and does not move, because its
//! process is stopped, say. The holder [says that it moves](Held::move_on); it may find, whenever it goes on, that it has been
//! [succeeded](Held::is_succeeded). While it does what must not be done by two it [insists](Held::insist) on the turn, which the word says as well: so
//! nobody can take it over between its saying so and its doing it.

use std::fmt;
use std::time::Duration;

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};
use sablecat_os::{clock, futex};

use crate::error::Result;

const OWNER_BITS: u32 = 16;
const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;
/// The holder must not be succeeded while it lives.
const INSISTS: u64 = 1 << OWNER_BITS;
const SEQUENCE_SHIFT: u32 = OWNER_BITS + 1;
const SEQUENCE_MASK: u64 = !((1 << SEQUENCE_SHIFT) - 1);
/// The longest sleep before a waiter asks whether the holder still lives.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Who calls: the participant slot that turns are held as, and how to tell whether another slot's participant lives.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    owner: u16,
    living: &'a dyn Living,
}

/// Who knows whether the participant in a slot lives.
pub(crate) trait Living {
    /// Whether it does.
    fn is_alive(&self, slot: u16) -> bool;

    /// An error if the caller itself was taken for dead.
    fn check_fence(&self) -> Result<()> {
        Ok(())
    }
}

impl Living for crate::region::Region {
    fn is_alive(&self, slot: u16) -> bool {
        crate::region::Region::is_alive(self, slot)
    }

    fn check_fence(&self) -> Result<()> {
        crate::region::Region::check_fence(self)
    }
}

impl<F: Fn(u16) -> bool> Living for F {
    fn is_alive(&self, slot: u16) -> bool {
        self(slot)
    }
}

impl fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({})", self.owner)
    }
}

impl<'a> Caller<'a> {
    /// The participant in slot `owner` (not 0).
    #[inline]
    pub(crate) fn new(owner: u16, living: &'a dyn Living) -> Caller<'a> {
        debug_assert_ne!(owner, 0);
        Caller { owner, living }
    }

    /// An error if the caller was taken for dead: then a turn that it has, or takes, is another's.
    pub(crate) fn check_fence(&self) -> Result<()> {
        self.living.check_fence()
    }
}

/// The turn.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Turn {
    word: AtomicU64,
    /// Grows while a holder that may be succeeded gets on. Beside the word: only such a holder writes it.
    moved: AtomicU32,
    bells: Bells,
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Bells {
    sleepers: [AtomicU32; 2],
    rung: [AtomicU32; 2],
}

/// A holding of a turn as seen at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holding(u64);

impl Holding {
    fn bell(self) -> usize {
        ((self.0 >> SEQUENCE_SHIFT) & 1) as usize
    }
    fn owner(self) -> u16 {
        (self.0 & OWNER_MASK) as u16
    }
    /// The holding of `owner` that comes next.
    fn next(self, owner: u16) -> Holding {
        Holding((self.0 & SEQUENCE_MASK).wrapping_add(1 << SEQUENCE_SHIFT) | u64::from(owner))
    }
    fn insists(self) -> bool {
        self.0 & INSISTS != 0
    }
}

/// The turn, held until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    turn: &'a Turn,
    holding: Holding,
}

impl Held<'_> {
    /// A number that no other holding of this turn has, and that is higher than those of all before it.
    pub(crate) fn number(&self) -> u64 {
        self.holding.0 >> SEQUENCE_SHIFT
    }

    /// Says that the holder gets on: who waits to take over begins to wait anew.
    pub(crate) fn move_on(&self) {
        // SeqCst: rare.
        self.turn.moved.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether another has taken over.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.turn.word.load(Ordering::SeqCst) != self.holding.0
    }

    /// Whether another has the turn although this one [insists](Held::insist): it was taken for dead.
    pub(crate) fn is_lost(&self) -> bool {
        self.holding.insists() && self.is_succeeded()
    }

    /// Keeps others from taking over until the turn ends, unless this one dies. False if one has done so already.
    #[must_use]
    pub(crate) fn insist(&mut self) -> bool {
        let insisting = self.holding.0 | INSISTS;
        // SeqCst: either this is first, and who would take over finds another word, or that is.
        let done = self.turn.word.compare_exchange(self.holding.0, insisting, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if done {
            self.holding = Holding(insisting);
        }
        done
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.turn.release(self.holding);
    }
}

/// What a waiter needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// The end of the present holding.
    End,
    /// The turn itself, or the end of the holding after the present one.
    Next,
}

/// The bell somebody slept on, for [`Turn::pass_on`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slept {
    bell: usize,
    until: Until,
}

impl Turn {
    /// Takes the turn if it is free; otherwise says who has it.
    #[inline]
    pub(crate) fn try_take(&self, caller: Caller<'_>) -> std::result::Result<Held<'_>, Holding> {
        // Relaxed: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & OWNER_MASK != 0 {
                return Err(Holding(seen));
            }
            match self.take_free(seen, caller) {
                Ok(held) => return Ok(held),
                // Taken by another, and perhaps free again.
                Err(now) => seen = now,
            }
        }
    }

    #[inline]
    fn take_free(&self, seen: u64, caller: Caller<'_>) -> std::result::Result<Held<'_>, u64> {
        let mine = Holding(seen).next(caller.owner);
        // Acquire side: the new holder sees all that the last one did. SeqCst: in one order with the sleepers' counts.
        match self.word.compare_exchange(seen, mine.0, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => Ok(Held { turn: self, holding: mine }),
            Err(now) => Err(now),
        }
    }

    /// Takes the turn, waiting for it.
    pub(crate) fn take(&self, caller: Caller<'_>) -> Held<'_> {
        loop {
            match self.try_take(caller) {
                Ok(held) => return held,
                Err(seen) => {
                    if let (Some(held), _) = self.wait(seen, Until::Next, caller, || false) {
                        return held;
                    }
                }
            }
        }
    }

    /// Takes the turn, waiting for it; also from a holder that lives and has not moved for so long. Its work under the turn must do no harm beside
    /// the caller's, but where it insists.
    pub(crate) fn take_over(&self, caller: Caller<'_>, patience: Duration) -> Held<'_> {
        let mut watched: Option<(Holding, u32, Duration)> = None;
        loop {
            let seen = match self.try_take(caller) {
                Ok(held) => return held,
                Err(seen) => seen,
            };
            let (moved, now) = (self.moved.load(Ordering::SeqCst), clock::monotonic());
            let since = match watched {
                Some((holding, at, since)) if (holding, at) == (seen, moved) => since,
                _ => now,
            };
            watched = Some((seen, moved, since));
            let is_over = !seen.insists() && now.saturating_sub(since) >= patience;
            if is_over && let Some(held) = self.seize(seen, caller) {
                return held;
            }
            if let (Some(held), _) = self.wait(seen, Until::Next, caller, || false) {
                return held;
            }
        }
    }

    /// Takes the turn from a holder that is dead, or may be succeeded.
    #[cold]
    fn seize(&self, seen: Holding, caller: Caller<'_>) -> Option<Held<'_>> {
        let mine = seen.next(caller.owner);
        let taken = self.word.compare_exchange(seen.0, mine.0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !taken {
            return None;
        }
        // Its holding has ended, so its waiters are woken as its release would have done; the one for the turn is this caller.
        self.ring(seen.bell(), u32::MAX);
        Some(Held { turn: self, holding: mine })
    }

    /// The slot of who has the turn; 0: nobody.
    pub(super) fn owner(&self) -> u16 {
        Holding(self.word.load(Ordering::SeqCst)).owner()
    }

    /// Ends the holding of a participant that is dead.
    pub(super) fn release_for(&self, owner: u16) {
        let seen = Holding(self.word.load(Ordering::SeqCst));
        if seen.owner() == owner {
            self.release(seen);
        }
    }

    #[inline]
    fn release(&self, holding: Holding) {
        // SeqCst: Release for what was done under the turn, and in one order with the sleepers' counts: either the sleeper's second look
        // sees the turn free, or this sees the sleeper.
        let free = holding.0 & SEQUENCE_MASK;
        let ended = self.word.compare_exchange(holding.0, free, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if ended {
            // The many first, although the device waits meanwhile: by the time the next holder runs some of them have committed again and
            // are in its group. With 50 threads and a flush simulated by a sleep of 60 us: 210-230 K commits a second, against 180 K the
            // other way round. Real devices were too busy to tell the two apart.
            self.ring(holding.bell(), u32::MAX);
            self.ring(holding.bell() ^ 1, 1);
        }
    }

    #[inline]
    fn ring(&self, bell: usize, sleepers: u32) {
        if self.bells.sleepers[bell].load(Ordering::SeqCst) != 0 {
            self.bells.rung[bell].fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.bells.rung[bell], sleepers);
        }
    }

    /// Sleeps until the holding `seen` has ended, or for a few milliseconds; returns at once if it has ended or `done` says so. If the
    /// holder turns out to be dead the turn is the caller's. Hands back what to [`Turn::pass_on`].
    #[cold]
    pub(crate) fn wait(&self, seen: Holding, until: Until, caller: Caller<'_>, done: impl Fn() -> bool) -> (Option<Held<'_>>, Slept) {
        debug_assert_ne!(seen.owner(), 0);
        let bell = match until {
            Until::End => seen.bell(),
            Until::Next => seen.bell() ^ 1,
        };
        self.bells.sleepers[bell].fetch_add(1, Ordering::SeqCst);
        let rung = self.bells.rung[bell].load(Ordering::SeqCst);
        let held_still = || self.word.load(Ordering::SeqCst) == seen.0;
        if held_still() && !done() {
            futex::wait(&self.bells.rung[bell], rung, Some(LOOK_AGAIN));
        }
        self.bells.sleepers[bell].fetch_sub(1, Ordering::SeqCst);
        let slept = Slept { bell, until };
        if held_still() && !caller.living.is_alive(seen.owner()) {
            return (self.seize(seen, caller), slept);
        }
        (None, slept)
    }

    /// Wakes another in the caller's place, who slept for the turn and no longer needs it.
    #[inline]
    pub(crate) fn pass_on(&self, slept: Option<Slept>) {
        if let Some(Slept { bell, until: Until::Next }) = slept {
            self.ring(bell, 1);
        }
    }
}

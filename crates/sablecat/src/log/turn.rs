//! A turn: a role that one participant has at a time, with a line of waiters.
//! [Decision 89](../../../../docs/decisions/0089-two-kinds-of-role.md) says why it is not one of
//! `region/role.rs`.
//!
//! The word is {sequence 46 | owes 1 | insists 1 | owner slot 16}. The sequence grows with every taking, so a
//! release meant for an older holding fails, and waiters can say which holding they wait for the end of.
//!
//! There are two bells, rung in turns. A waiter that needs only the end of the present holding (whose flush
//! covers it) sleeps on the bell of the present sequence; a waiter that will need the turn after it sleeps on
//! the other. The end of a holding wakes all of the first and one of the second: that one takes the turn, and
//! its end wakes the others. So nobody is woken to find that it is not finished yet. A waiter that was woken
//! as the one and did not take the turn after all wakes another in its place ([`Turn::pass_on`]).
//!
//! A sleeper looks up every few milliseconds, and if the holder it waits for is dead it takes the turn from
//! it; all work done under a turn can be done again. Should the dead live after all, it is fenced before the
//! turn is taken.
//!
//! A turn can also be taken from a holder that lives and does not move, because its process is stopped, say.
//! It may find, whenever it goes on, that it has been [succeeded](HeldTurn::is_succeeded).
//!
//! - Where the work does no harm when it is done by two at once, the turn is just [taken
//!   over](Turn::take_over). The holder [says that it moves](HeldTurn::move_on). While it does what must not
//!   be done by two it [insists](HeldTurn::insist) on the turn, which the word says as well: so nobody can
//!   take it over in that way between its saying so and its doing it.
//! - Where the work does harm unless something is done about it first, the successor [owes](HeldTurn::owes)
//!   that. So the word says this from the moment it is [the successor's](Turn::succeed), and goes on saying
//!   it, whichever participant has the turn next, by whatever way, until somebody [has done
//!   it](HeldTurn::settle). In this way a holder that insists is succeeded as well, once it seems to be
//!   stopped.

use std::fmt;
use std::time::Duration;

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};
use sablecat_os::{clock, futex};

use crate::error::Result;

const OWNER_BITS: u32 = 16;
const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;
/// While the holder lives nobody takes over without owing something for it.
const INSISTS: u64 = 1 << OWNER_BITS;
/// Somebody alive was succeeded, and what has to be done about that has not been done yet.
const OWES: u64 = 1 << (OWNER_BITS + 1);
const SEQUENCE_SHIFT: u32 = OWNER_BITS + 2;
const SEQUENCE_MASK: u64 = !((1 << SEQUENCE_SHIFT) - 1);
/// The longest sleep before a waiter asks whether the holder still lives.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How often a waiter looks before it sleeps when the holder flushes a device: hardly, for that takes as long
/// as many sleeps.
pub(super) const SPINS_DURABLE: u32 = 4;

/// The caller: the participant slot that turns are held as, and how to tell whether another slot's
/// participant lives.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    owner: u16,
    living: &'a dyn Living,
}

/// What knows whether the participant in a slot lives.
pub(crate) trait Living {
    /// Whether it is dead. Should it live after all, it touches nothing that is shared from now on. Asked
    /// about a holder of something, and `holds_still` says whether it still holds it: so it has not left by
    /// itself.
    fn is_dead(&self, slot: u16, holds_still: &dyn Fn() -> bool) -> bool;

    /// What can be seen of one that lives and does not move.
    fn look_at(&self, slot: u16) -> ProcessState {
        let _ = slot;
        ProcessState::Runs
    }

    /// An error if the caller itself was taken for dead.
    fn check_fence(&self) -> Result<()> {
        Ok(())
    }
}

/// What is seen of somebody alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProcessState {
    /// It runs, or waits for the system: its process is the one that looks.
    Runs,
    /// Nothing: it may be slow, or its process frozen in a way that cannot be seen.
    Unknown,
    /// Its process is stopped.
    Stopped,
}

impl Living for crate::region::Region {
    fn is_dead(&self, slot: u16, holds_still: &dyn Fn() -> bool) -> bool {
        self.is_dead_and_fenced(slot, holds_still)
    }

    fn look_at(&self, slot: u16) -> ProcessState {
        match self.is_stopped(slot) {
            None => ProcessState::Runs,
            Some(false) => ProcessState::Unknown,
            Some(true) => ProcessState::Stopped,
        }
    }

    /// Also if the region was cut short and made as long again since the guard looked at it, which the
    /// system has noticed in no write.
    fn check_fence(&self) -> Result<()> {
        self.check_fence_and_end()
    }
}

impl<F: Fn(u16) -> bool> Living for F {
    fn is_dead(&self, slot: u16, _holds_still: &dyn Fn() -> bool) -> bool {
        !self(slot)
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

    /// Its slot.
    #[cfg(test)]
    pub(crate) fn owner(&self) -> u16 {
        self.owner
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
pub(crate) struct TurnHolding(u64);

impl TurnHolding {
    fn bell(self) -> usize {
        ((self.0 >> SEQUENCE_SHIFT) & 1) as usize
    }
    fn owner(self) -> u16 {
        (self.0 & OWNER_MASK) as u16
    }
    /// The holding of `owner` that comes next. What this one owes, that one does.
    fn next(self, owner: u16) -> TurnHolding {
        TurnHolding((self.0 & (SEQUENCE_MASK | OWES)).wrapping_add(1 << SEQUENCE_SHIFT) | u64::from(owner))
    }
    fn insists(self) -> bool {
        self.0 & INSISTS != 0
    }
    fn owes(self) -> bool {
        self.0 & OWES != 0
    }
}

/// For how long somebody has seen the same holding, without its holder's moving.
#[derive(Debug, Default)]
pub(crate) struct TurnWatch {
    seen: Option<(TurnHolding, u32)>,
    since: Duration,
    /// When the holder was looked at last.
    looked: Duration,
}

/// The turn, held until dropped.
#[derive(Debug)]
pub(crate) struct HeldTurn<'a> {
    turn: &'a Turn,
    holding: TurnHolding,
}

impl HeldTurn<'_> {
    /// A number that no other holding of this turn has, and that is higher than those of all before it.
    pub(crate) fn number(&self) -> u64 {
        self.holding.0 >> SEQUENCE_SHIFT
    }

    /// Says that the holder gets on: a participant that waits to take over begins to wait anew.
    pub(crate) fn move_on(&self) {
        // SeqCst: rare.
        self.turn.moved.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether another has taken over.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.turn.word.load(Ordering::SeqCst) != self.holding.0
    }

    /// Whether another has the turn although this one [insists](HeldTurn::insist): it was taken for dead.
    pub(crate) fn is_lost(&self) -> bool {
        self.holding.insists() && self.is_succeeded()
    }

    /// Says that a participant that takes over from this one, while it lives, owes something for it. False if
    /// one has done so already.
    #[must_use]
    pub(crate) fn insist(&mut self) -> bool {
        // Either this is first, and a participant that would take over finds another word, or that is.
        self.becomes(self.holding.0 | INSISTS)
    }

    /// From here on something has to be done, by this one or the next holder of the turn. False if another
    /// has taken over.
    #[must_use]
    pub(crate) fn owe(&mut self) -> bool {
        self.becomes(self.holding.0 | OWES)
    }

    /// Whether something has to be done about a succeeded holder, before anything else.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.holding.owes()
    }

    /// It has been done. False if another has taken over, which does it again.
    #[must_use]
    pub(crate) fn settle(&mut self) -> bool {
        self.becomes(self.holding.0 & !OWES)
    }

    /// Changes the word, unless it is another's by now, which is false.
    fn becomes(&mut self, word: u64) -> bool {
        // SeqCst: in one order with exchanges that take the turn over, and Release for what was done before.
        let done =
            self.turn.word.compare_exchange(self.holding.0, word, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if done {
            self.holding = TurnHolding(word);
        }
        done
    }
}

impl Drop for HeldTurn<'_> {
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
    /// Takes the turn if it is free; otherwise returns the present holding.
    #[inline]
    pub(crate) fn try_take(&self, caller: Caller<'_>) -> std::result::Result<HeldTurn<'_>, TurnHolding> {
        // Relaxed: the exchange decides.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & OWNER_MASK != 0 {
                return Err(TurnHolding(seen));
            }
            match self.take_free(seen, caller) {
                Ok(held) => return Ok(held),
                // Taken by another, and perhaps free again.
                Err(now) => seen = now,
            }
        }
    }

    #[inline]
    fn take_free(&self, seen: u64, caller: Caller<'_>) -> std::result::Result<HeldTurn<'_>, u64> {
        let mine = TurnHolding(seen).next(caller.owner);
        // Acquire side: the new holder sees all that the last one did. SeqCst: in one order with the
        // sleepers' counts.
        match self.word.compare_exchange(seen, mine.0, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => Ok(HeldTurn { turn: self, holding: mine }),
            Err(now) => Err(now),
        }
    }

    /// Takes the turn, waiting for it.
    pub(crate) fn take(&self, caller: Caller<'_>) -> HeldTurn<'_> {
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

    /// Takes the turn, waiting for it; also from a holder that lives and has not moved for the first of these
    /// times. Its work under the turn must do no harm beside the caller's, but where it insists: then it is
    /// [succeeded](Turn::succeed) if it [is stuck](Turn::is_stuck).
    pub(crate) fn take_over(&self, caller: Caller<'_>, patience: (Duration, Duration)) -> HeldTurn<'_> {
        let mut watch = TurnWatch::default();
        loop {
            let seen = match self.try_take(caller) {
                Ok(held) => return held,
                Err(seen) => seen,
            };
            let taken = if seen.insists() {
                self.is_stuck(&mut watch, seen, caller, patience).then(|| self.succeed(seen, caller))
            } else {
                (self.unmoved(&mut watch, seen) >= patience.0)
                    .then(|| self.seize(seen, seen.next(caller.owner)))
            };
            if let Some(Some(held)) = taken {
                return held;
            }
            if let (Some(held), _) = self.wait(seen, Until::Next, caller, || false) {
                return held;
            }
        }
    }

    /// How long a holding has been seen without a move.
    fn unmoved(&self, watch: &mut TurnWatch, seen: TurnHolding) -> Duration {
        let (now, seen) = (clock::monotonic(), Some((seen, self.moved.load(Ordering::SeqCst))));
        if watch.seen != seen {
            *watch = TurnWatch { seen, since: now, looked: now };
        }
        now.saturating_sub(watch.since)
    }

    /// Whether the holder of `seen`, which lives, should be [succeeded](Turn::succeed): it has not moved for
    /// so long, and its process is stopped; or for so much longer, and nobody can tell. A device that takes
    /// its time is no reason: so a holder that owes, and may be waiting for just that, is succeeded only if
    /// it is seen to be stopped.
    pub(crate) fn is_stuck(
        &self,
        watch: &mut TurnWatch,
        seen: TurnHolding,
        caller: Caller<'_>,
        (stopped, unknown): (Duration, Duration),
    ) -> bool {
        let unmoved = self.unmoved(watch, seen);
        let now = watch.since + unmoved;
        // Looking costs a system call or three.
        if unmoved < stopped || now.saturating_sub(watch.looked) < stopped {
            return false;
        }
        watch.looked = now;
        match caller.living.look_at(seen.owner()) {
            ProcessState::Stopped => true,
            ProcessState::Unknown => !seen.owes() && unmoved >= unknown,
            ProcessState::Runs => false,
        }
    }

    /// Takes the turn from a holder that lives, unless that holding has ended. The caller
    /// [owes](HeldTurn::owes) what must be done about the holder, which may go on at any moment.
    pub(crate) fn succeed(&self, seen: TurnHolding, caller: Caller<'_>) -> Option<HeldTurn<'_>> {
        self.seize(seen, TurnHolding(seen.next(caller.owner).0 | OWES))
    }

    /// Takes the turn from a holder that is dead, or may be succeeded.
    #[cold]
    fn seize(&self, seen: TurnHolding, mine: TurnHolding) -> Option<HeldTurn<'_>> {
        let taken = self.word.compare_exchange(seen.0, mine.0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !taken {
            return None;
        }
        // Its holding has ended, so its waiters are woken as its release would have done; the one for the
        // turn is this caller.
        self.ring(seen.bell(), u32::MAX);
        Some(HeldTurn { turn: self, holding: mine })
    }

    /// The slot of the holder; 0: nobody.
    pub(super) fn owner(&self) -> u16 {
        TurnHolding(self.word.load(Ordering::SeqCst)).owner()
    }

    /// Ends the holding of a participant that is dead.
    pub(super) fn release_for(&self, owner: u16) {
        let seen = TurnHolding(self.word.load(Ordering::SeqCst));
        if seen.owner() == owner {
            self.release(seen);
        }
    }

    #[inline]
    fn release(&self, holding: TurnHolding) {
        // SeqCst: Release for what was done under the turn, and in one order with the sleepers' counts:
        // either the sleeper's second look sees the turn free, or this sees the sleeper.
        let free = holding.0 & (SEQUENCE_MASK | OWES);
        let ended = self.word.compare_exchange(holding.0, free, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if ended {
            // The many first, although the device waits meanwhile: by the time the next holder runs some of
            // them have committed again and are in its group. With 50 threads and a flush simulated by a
            // sleep of 60 us: 210-230 K commits a second, against 180 K the other way round. Real devices
            // were too busy to tell the two apart.
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

    /// Sleeps until the holding `seen` has ended, or for a few milliseconds; returns at once if it has ended
    /// or `done` says so. If the holder turns out to be dead the turn is the caller's. Hands back what to
    /// [`Turn::pass_on`].
    #[cold]
    pub(crate) fn wait(
        &self,
        seen: TurnHolding,
        until: Until,
        caller: Caller<'_>,
        done: impl Fn() -> bool,
    ) -> (Option<HeldTurn<'_>>, Slept) {
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
        if held_still() && caller.living.is_dead(seen.owner(), &held_still) {
            return (self.seize(seen, seen.next(caller.owner)), slept);
        }
        (None, slept)
    }

    /// Wakes another in the place of the caller, which slept for the turn and no longer needs it.
    #[inline]
    pub(crate) fn pass_on(&self, slept: Option<Slept>) {
        if let Some(Slept { bell, until: Until::Next }) = slept {
            self.ring(bell, 1);
        }
    }
}

//! Wait queues: futex words that waiters for latches and roles hash to.
//!
//! Pages hash to the lower half of the queues; each structure latch and role has one of the upper half to
//! itself, so that all that sleep there wait for the same thing.
//!
//! Waiting is always bounded: a waiter that missed its wake (its owner died, or two things hashed to one
//! queue) looks again after a few milliseconds.
//!
//! A queue is one word: the lowest bit says that somebody may be asleep, the rest counts wakes. A thread that
//! is about to sleep sets the bit. A thread that wakes others clears it and counts, in one step: so of many
//! releases only the first asks the kernel to wake anybody, however long the woken take to run, and a sleeper
//! that is killed costs one such call, not one with every release ever after.

use std::time::Duration;

use sablecat_os::atomic::{AtomicU32, Ordering, fence_behind_swap};
use sablecat_os::{clock, futex};

use super::Region;

/// The longest sleep before a waiter looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The same for waits that may take as long as a transaction: sleeps double up to this.
const LOOK_AGAIN_LONG: Duration = Duration::from_millis(16);
/// The same for a thread that would sleep for as long as nobody commits.
const LOOK_AGAIN_IDLE: Duration = Duration::from_secs(1);
/// After so many sleeps that nobody ended, a wait takes long.
const STALLED: u32 = 3;
/// How often a waiter tries before it sleeps. Few when explored: there, nobody runs while one spins.
fn spins() -> u32 {
    if sablecat_os::atomic::explored() { 2 } else { 64 }
}

/// What follows a look that finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitPhase {
    /// Another look, very soon.
    Spinning,
    /// A sleep: the time to do what others must know before they can wake the sleeper.
    BeforeSleep,
}

/// A queue of a region, whose waits have the dead looked for when they take long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionQueue<'a> {
    pub(super) words: &'a WaitQueue,
    pub(super) region: &'a Region,
}

impl RegionQueue<'_> {
    /// [`WaitQueue::wait_for`].
    #[inline]
    pub(crate) fn wait_for<T>(&self, done: impl FnMut() -> Option<T>) -> T {
        self.words.wait_for(|| self.region.stall(), done)
    }

    /// [`WaitQueue::wait_until`].
    pub(crate) fn wait_until<T>(
        &self,
        deadline: Option<Duration>,
        done: impl FnMut(WaitPhase) -> Option<T>,
    ) -> Option<T> {
        self.words.wait_until(deadline, || self.region.stall(), done)
    }

    /// Whether somebody may be asleep.
    #[cfg(test)]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.words.sleepers.word.load(Ordering::SeqCst) & ASLEEP != 0
    }

    /// [`WaitQueue::wake`].
    #[inline]
    pub(crate) fn wake(&self) {
        self.words.wake();
    }

    /// [`WaitQueue::wake_one`].
    #[inline]
    pub(crate) fn wake_one(&self) {
        self.words.wake_one();
    }
}

/// One queue.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct WaitQueue {
    sleepers: Sleepers,
}

/// The word of a queue.
#[repr(transparent)]
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    word: AtomicU32,
}

/// Somebody may be asleep.
const ASLEEP: u32 = 1;

impl WaitQueue {
    /// Waits until `done` gives something: spins briefly, then sleeps between looks, and calls `stalled` now
    /// and then when nobody wakes it.
    pub(crate) fn wait_for<T>(&self, stalled: impl Fn(), mut done: impl FnMut() -> Option<T>) -> T {
        let (mut tries, mut sleeps) = (0, 0);
        loop {
            if let Some(got) = done() {
                return got;
            }
            tries += 1;
            if tries < spins() {
                sablecat_os::atomic::spin_hint();
                continue;
            }
            let seen = self.sleepers.announce();
            if let Some(got) = done() {
                return got;
            }
            if futex::wait(&self.sleepers.word, seen, Some(LOOK_AGAIN)) == futex::Wake::TimedOut {
                sleeps += 1;
            }
            if sleeps >= STALLED {
                sleeps = 0;
                stalled();
            }
        }
    }

    /// As [`WaitQueue::wait_for`], for waits that may be long: `done` is told what follows, and none is
    /// returned when the monotonic clock has reached `deadline` (none: never).
    pub(crate) fn wait_until<T>(
        &self,
        deadline: Option<Duration>,
        stalled: impl Fn(),
        mut done: impl FnMut(WaitPhase) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..spins() {
            if let Some(got) = done(WaitPhase::Spinning) {
                return Some(got);
            }
            sablecat_os::atomic::spin_hint();
        }
        let mut pause = LOOK_AGAIN;
        loop {
            let seen = self.sleepers.announce();
            let got = done(WaitPhase::BeforeSleep);
            let left = deadline.map_or(pause, |end| end.saturating_sub(clock::monotonic()).min(pause));
            if got.is_some() || left.is_zero() {
                return got;
            }
            pause = match futex::wait(&self.sleepers.word, seen, Some(left)) {
                futex::Wake::TimedOut => (pause * 2).min(LOOK_AGAIN_LONG),
                futex::Wake::Woken | futex::Wake::Changed => LOOK_AGAIN,
            };
            if pause > LOOK_AGAIN {
                stalled();
            }
        }
    }

    /// [`Sleepers::wake`].
    #[inline]
    pub(crate) fn wake(&self) {
        self.sleepers.wake();
    }

    /// [`Sleepers::wake_one`].
    #[inline]
    pub(crate) fn wake_one(&self) {
        self.sleepers.wake_one();
    }
}

impl Sleepers {
    /// Sleeps until `done` gives something, looking whenever the sleepers are woken; or until the monotonic
    /// clock has reached `deadline` (none: never). For a thread that waits for what may be long in coming,
    /// and that may hear of it late, if the participant that was to wake it died just then.
    pub(crate) fn listen<T>(
        &self,
        deadline: Option<Duration>,
        mut done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        loop {
            let seen = self.announce();
            let got = done();
            let left = deadline
                .map_or(LOOK_AGAIN_IDLE, |end| end.saturating_sub(clock::monotonic()).min(LOOK_AGAIN_IDLE));
            if got.is_some() || left.is_zero() {
                return got;
            }
            futex::wait(&self.word, seen, Some(left));
        }
    }

    /// Says that somebody is about to sleep, before a last look; the word to sleep on.
    fn announce(&self) -> u32 {
        let seen = self.word.fetch_or(ASLEEP, Ordering::SeqCst) | ASLEEP;
        // The last look is after it, whatever it looks at: so either this look sees a change, or the thread
        // that makes it finds the bit.
        fence_behind_swap();
        seen
    }

    /// Wakes all that sleep here. The caller's change came before, by a sequentially consistent operation.
    #[inline]
    pub(crate) fn wake(&self) {
        let seen = self.word.load(Ordering::SeqCst);
        if seen & ASLEEP != 0 {
            self.wake_sleepers(seen);
        }
    }

    #[cold]
    fn wake_sleepers(&self, seen: u32) {
        // If it fails here: another did it, after the caller's change.
        if self.word.compare_exchange(seen, seen.wrapping_add(1), Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            futex::wake(&self.word, u32::MAX);
        }
    }

    /// Wakes one of those that sleep here, if all wait for the same thing and one alone can have it: that one
    /// does the same when it gives it back. If it is killed before it has it, the others look again by
    /// themselves.
    #[inline]
    pub(crate) fn wake_one(&self) {
        let seen = self.word.load(Ordering::SeqCst);
        if seen & ASLEEP != 0 {
            self.wake_one_sleeper(seen);
        }
    }

    #[cold]
    fn wake_one_sleeper(&self, seen: u32) {
        // The bit stays, for there may be more of them. If it fails here: another did it, for this change or
        // a later one.
        let next = seen.wrapping_add(2);
        let counted = self.word.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if counted && futex::wake(&self.word, 1) == 0 {
            // Nobody sleeps; a thread that is about to finds the word changed.
            let _ =
                self.word.compare_exchange(next, next.wrapping_add(1), Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> WaitQueue {
        WaitQueue { sleepers: Sleepers::default() }
    }

    #[test]
    fn only_the_first_wake_after_an_announcement_does_anything() {
        let queue = queue();
        queue.wake();
        assert_eq!(queue.sleepers.word.load(Ordering::SeqCst), 0, "nobody is asleep");
        let seen = queue.sleepers.announce();
        assert_eq!(queue.sleepers.announce(), seen, "two sleep on one word");
        queue.wake();
        let woken = queue.sleepers.word.load(Ordering::SeqCst);
        assert!(
            woken != seen && woken & ASLEEP == 0,
            "who sleeps on the old word wakes, or does not fall asleep"
        );
        queue.wake();
        assert_eq!(
            queue.sleepers.word.load(Ordering::SeqCst),
            woken,
            "a second release, or one long after a sleeper was killed"
        );
    }

    #[test]
    fn waking_one_leaves_word_of_the_others_until_nobody_sleeps() {
        let (queue, free) = (queue(), AtomicU32::new(0));
        let take = || free.compare_exchange(1, 0, Ordering::SeqCst, Ordering::SeqCst).ok().map(drop);
        std::thread::scope(|scope| {
            let sleepers: Vec<_> = (0..2).map(|_| scope.spawn(|| queue.wait_for(|| (), take))).collect();
            for left in [1, 0] {
                while queue.sleepers.word.load(Ordering::SeqCst) & ASLEEP == 0 {
                    std::thread::yield_now();
                }
                free.store(1, Ordering::SeqCst);
                queue.wake_one();
                while sleepers.iter().filter(|sleeper| !sleeper.is_finished()).count() > left {
                    std::thread::yield_now();
                }
            }
        });
        queue.sleepers.announce();
        queue.wake_one();
        assert_eq!(
            queue.sleepers.word.load(Ordering::SeqCst) & ASLEEP,
            0,
            "whoever announced itself was killed"
        );
    }

    #[test]
    fn sleepers_see_what_they_were_woken_for() {
        let (queue, turn) = (queue(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for me in 0..3 {
                let (queue, turn) = (&queue, &turn);
                scope.spawn(move || {
                    for round in 0..200 {
                        queue.wait_for(
                            || (),
                            || (turn.load(Ordering::SeqCst) == 3 * round + me).then_some(()),
                        );
                        turn.fetch_add(1, Ordering::SeqCst);
                        queue.wake();
                    }
                });
            }
        });
        assert_eq!(turn.load(Ordering::SeqCst), 600);
    }

    #[test]
    fn who_listens_hears_of_each_change_and_stops_when_its_time_is_over() {
        let (sleepers, value) = (Sleepers::default(), AtomicU32::new(0));
        assert_eq!(sleepers.listen(Some(clock::monotonic()), || None::<()>), None);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for wanted in 1..100 {
                        sleepers.listen(None, || (value.load(Ordering::SeqCst) >= wanted).then_some(()));
                    }
                });
            }
            for _ in 1..100 {
                value.fetch_add(1, Ordering::SeqCst);
                sleepers.wake();
            }
        });
    }
}

//! Wait queues: futex words that waiters for latches and roles hash to.
//!
//! Waiting is always bounded: a waiter that missed its wake (its owner died, or two things hashed to one queue) looks again after a
//! few milliseconds.

use std::time::Duration;

use sablecat_os::atomic::{AtomicU32, Ordering};
use sablecat_os::{clock, futex};

use super::Region;

/// The longest sleep before a waiter looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The same for waits that may take as long as a transaction: sleeps double up to this.
const LOOK_AGAIN_LONG: Duration = Duration::from_millis(16);
/// After so many sleeps that nobody ended, a wait takes long.
const STALLED: u32 = 3;
/// How often a waiter tries before it sleeps. Few when explored: there, nobody runs while one spins.
const SPINS: u32 = if cfg!(feature = "shuttle") { 2 } else { 64 };

/// What follows a look that finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Another look, very soon.
    Spinning,
    /// A sleep: the time to do what others must know before they can wake the sleeper.
    BeforeSleep,
}

/// A queue of a region, whose waits have the dead looked for when they take long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue<'a> {
    pub(super) words: &'a WaitQueue,
    pub(super) region: &'a Region,
}

impl Queue<'_> {
    /// [`WaitQueue::wait_for`].
    #[inline]
    pub(crate) fn wait_for<T>(&self, done: impl FnMut() -> Option<T>) -> T {
        self.words.wait_for(|| self.region.stall(), done)
    }

    /// [`WaitQueue::wake`].
    #[inline]
    pub(crate) fn wake(&self) {
        self.words.wake();
    }
}

/// One queue.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct WaitQueue {
    word: AtomicU32,
    waiting: AtomicU32,
}

impl WaitQueue {
    /// Waits until `done` gives something: spins briefly, then sleeps between looks, and calls `stalled` now and then when nobody wakes it.
    pub(crate) fn wait_for<T>(&self, stalled: impl Fn(), mut done: impl FnMut() -> Option<T>) -> T {
        let (mut tries, mut sleeps) = (0, 0);
        loop {
            if let Some(got) = done() {
                return got;
            }
            tries += 1;
            if tries < SPINS {
                sablecat_os::atomic::spin_hint();
                continue;
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let seen = self.word.load(Ordering::SeqCst);
            let got = done();
            if got.is_none() && futex::wait(&self.word, seen, Some(LOOK_AGAIN)) == futex::Wake::TimedOut {
                sleeps += 1;
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            if let Some(got) = got {
                return got;
            }
            if sleeps >= STALLED {
                sleeps = 0;
                stalled();
            }
        }
    }

    /// As [`WaitQueue::wait_for`], for waits that may be long: `done` is told what follows, and none is returned when the monotonic clock
    /// has reached `deadline` (none: never).
    pub(crate) fn wait_until<T>(
        &self,
        deadline: Option<Duration>,
        stalled: impl Fn(),
        mut done: impl FnMut(Look) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..SPINS {
            if let Some(got) = done(Look::Spinning) {
                return Some(got);
            }
            sablecat_os::atomic::spin_hint();
        }
        let mut pause = LOOK_AGAIN;
        loop {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let seen = self.word.load(Ordering::SeqCst);
            let got = done(Look::BeforeSleep);
            let left = deadline.map_or(pause, |end| end.saturating_sub(clock::monotonic()).min(pause));
            let over = got.is_some() || left.is_zero();
            if !over {
                pause = match futex::wait(&self.word, seen, Some(left)) {
                    futex::Wake::TimedOut => (pause * 2).min(LOOK_AGAIN_LONG),
                    futex::Wake::Woken | futex::Wake::Changed => LOOK_AGAIN,
                };
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            if over {
                return got;
            }
            if pause > LOOK_AGAIN {
                stalled();
            }
        }
    }

    /// Wakes whoever sleeps here. The caller's change came before, by a sequentially consistent operation.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.word.fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.word, u32::MAX);
        }
    }
}

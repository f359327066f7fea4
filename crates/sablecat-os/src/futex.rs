//! Sleeping until a word changes.
//!
//! The kernel compares and goes to sleep in one step, so a change between the caller's look and its sleep is
//! not missed provided that the waker changes the word before it wakes. The futexes are not private: the word
//! may be in memory that several processes have mapped, at whatever addresses.
//!
//! Nothing here knows what the word means. A caller always looks again after a wait, whatever [`Wake`] says.

use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self as kernel, Flags};
use rustix::time::Timespec;

use crate::atomic::AtomicU32;

/// Why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Somebody called [`wake`], or a signal arrived.
    Woken,
    /// The word did not hold the expected value.
    Changed,
    /// Time ran out.
    TimedOut,
}

/// Sleeps while `word` holds `expected`, until somebody wakes it or `timeout` (none: never) has passed.
///
/// Inside an exploration it lets other threads run until the word has changed; a wait with a timeout gives up
/// after a few turns of the others.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Wake {
    #[cfg(feature = "shuttle")]
    if crate::atomic::explored() {
        return wait_explored(word, expected, timeout.is_some());
    }
    let timeout = timeout.map(|limit| Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    match kernel::wait(word.raw(), Flags::empty(), expected, timeout.as_ref()) {
        Ok(()) | Err(Errno::INTR) => Wake::Woken,
        // If the word is not there any more (truncation.rs), the thread finds that out when it looks at it
        // again.
        Err(Errno::AGAIN | Errno::FAULT) => Wake::Changed,
        Err(Errno::TIMEDOUT) => Wake::TimedOut,
        Err(other) => panic!("futex wait on a word of our own: {other}"),
    }
}

/// Wakes up to `n` of the threads that sleep on `word`, and says how many. The caller has changed the word
/// before.
///
/// Inside an exploration all see that the word has changed; it says `n`.
pub fn wake(word: &AtomicU32, n: u32) -> u32 {
    #[cfg(feature = "shuttle")]
    if crate::atomic::explored() {
        return n;
    }
    // The kernel counts in signed integers.
    let n = n.min(i32::MAX as u32);
    let woken = kernel::wake(word.raw(), Flags::empty(), n);
    debug_assert!(matches!(woken, Ok(_) | Err(Errno::FAULT)), "futex wake on a word of our own: {woken:?}");
    woken.map_or(0, |woken| woken as u32)
}

#[cfg(feature = "shuttle")]
fn wait_explored(word: &AtomicU32, expected: u32, limited: bool) -> Wake {
    use crate::atomic::Ordering;
    const TURNS: u32 = 16;
    let mut turns = 0;
    while word.raw().load(Ordering::SeqCst) == expected {
        if limited && turns == TURNS {
            return Wake::TimedOut;
        }
        turns += 1;
        shuttle::thread::yield_now();
    }
    if turns == 0 { Wake::Changed } else { Wake::Woken }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::Ordering;
    use crate::mapping::Mapping;

    #[test]
    fn a_word_that_has_changed_is_not_waited_for() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None), Wake::Changed);
    }

    #[test]
    fn a_wait_ends_when_its_time_is_over() {
        assert_eq!(wait(&AtomicU32::new(0), 0, Some(Duration::from_millis(1))), Wake::TimedOut);
        assert_eq!(wait(&AtomicU32::new(0), 0, Some(Duration::ZERO)), Wake::TimedOut);
    }

    /// Two addresses for one word stand in for two processes: private futexes would not find each other.
    #[test]
    fn a_sleeper_is_woken_through_another_mapping_of_its_word() {
        let here = Mapping::shared_memory(4096).unwrap();
        let there = here.again().unwrap();
        // SAFETY: both mappings are page aligned, zeroed, and outlive the scope below.
        let word =
            |of: &Mapping| unsafe { of.base().cast::<AtomicU32>().as_ref() as *const AtomicU32 as usize };
        let (mine, theirs) = (word(&here), word(&there));
        assert_ne!(mine, theirs);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // SAFETY: as above.
                let word = unsafe { &*(theirs as *const AtomicU32) };
                while word.load(Ordering::SeqCst) == 0 {
                    wait(word, 0, None);
                }
                word.store(2, Ordering::SeqCst);
                wake(word, u32::MAX);
            });
            // SAFETY: as above.
            let word = unsafe { &*(mine as *const AtomicU32) };
            word.store(1, Ordering::SeqCst);
            wake(word, 1);
            while word.load(Ordering::SeqCst) != 2 {
                wait(word, 1, None);
            }
        });
    }
}

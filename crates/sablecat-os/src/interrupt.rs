//! Being asked to end: by Ctrl-C, by `kill`, by a terminal that goes away; and being told that power fails.
//!
//! A process that has to undo something first asks here, now and then, whether it was asked to end. Children
//! that it starts do not inherit that: in a new program these signals do what they usually do.

use std::io;
// Not this crate's own: a signal handler is no place for an explorer of schedules.
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::signals::{action, calling};

/// The signal that came first; 0: none.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// How often power was said to fail.
static POWER: AtomicU32 = AtomicU32::new(0);

/// From here on each of the signals INT, TERM and HUP, when it comes for the first time, only sets what
/// [`signal`] tells. The next time it ends the process as usual. One that the process was started to ignore
/// stays ignored.
///
/// # Errors
/// Those of the system; there is no reason for any.
pub fn watch() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if action(signal, None)?.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        action(signal, Some(&calling(note, libc::SA_RESETHAND | libc::SA_RESTART)))?;
    }
    Ok(())
}

/// From here on the signal PWR, by which the system's `init` and programs that watch a battery say that power
/// fails, is counted, each time it comes.
///
/// # Errors
/// As of [`watch`].
pub fn watch_power() -> io::Result<()> {
    action(libc::SIGPWR, Some(&calling(note_power, libc::SA_RESTART))).map(drop)
}

/// How often power was said to fail since [`watch_power`].
pub fn power_failures() -> u32 {
    // Relaxed: pairs with the addition in `note_power`; nothing else is told with it.
    POWER.load(Ordering::Relaxed)
}

/// Whether this process was asked to end since [`watch`].
pub fn is_asked() -> bool {
    signal().is_some()
}

/// The signal by which this process was first asked to end since [`watch`], if it was.
pub fn signal() -> Option<u8> {
    // Relaxed: pairs with the exchange in `note`; nothing else is told with it.
    u8::try_from(ASKED.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
}

/// Forgets that this process was asked to end, if by the signal INT, and watches for that anew: for a program
/// that ends only what it was about. Whether it did.
///
/// # Errors
/// As of [`watch`].
pub fn forget_interrupt() -> io::Result<bool> {
    // Relaxed: as in `signal`.
    if ASKED.compare_exchange(libc::SIGINT, 0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return Ok(false);
    }
    action(libc::SIGINT, Some(&calling(note, libc::SA_RESETHAND | libc::SA_RESTART)))?;
    Ok(true)
}

extern "C" fn note(signal: libc::c_int) {
    // The first one counts.
    let _ = ASKED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
}

extern "C" fn note_power(_: libc::c_int) {
    POWER.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_asks_and_the_next_one_does_what_it_did_before() {
        watch().unwrap();
        assert!(!is_asked());
        for _ in 0..3 {
            // SAFETY: raising a signal that has a handler runs the handler.
            assert_eq!(unsafe { libc::raise(libc::SIGINT) }, 0);
            assert_eq!(signal(), Some(libc::SIGINT as u8));
            assert!(forget_interrupt().unwrap() && !is_asked() && !forget_interrupt().unwrap());
        }
        // SAFETY: raising a signal that has a handler runs the handler.
        assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
        assert_eq!(signal(), Some(libc::SIGTERM as u8));
        assert!(!forget_interrupt().unwrap());
        assert_eq!(action(libc::SIGTERM, None).unwrap().sa_sigaction, libc::SIG_DFL);
        assert_ne!(action(libc::SIGINT, None).unwrap().sa_sigaction, libc::SIG_DFL);
    }

    #[test]
    fn power_may_fail_more_than_once() {
        watch_power().unwrap();
        for times in 1..4 {
            // SAFETY: as above.
            assert_eq!(unsafe { libc::raise(libc::SIGPWR) }, 0);
            assert_eq!(power_failures(), times);
        }
    }
}

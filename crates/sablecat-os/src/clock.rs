//! Time: one clock to measure with, one to tell people with.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::calendar::Moment;

/// Time since an arbitrary start that never goes back. The start is the same for all processes of a machine
/// until it is booted again, so times may be compared across processes.
#[inline]
pub fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither part is ever negative: the kernel counts this clock up from zero.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The time of day. May jump either way when somebody sets the clock: for people and file names, not for
/// decisions.
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// The time of day to a few milliseconds, for a quarter of the price: a word that the system keeps up to
/// date. For noting when something happened many times a second.
#[inline]
pub fn wall_coarse() -> Moment {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Moment { ms: u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back_between_threads() {
        let mut last = monotonic();
        for _ in 0..100 {
            let next = std::thread::spawn(monotonic).join().unwrap();
            assert!(next >= last);
            last = next;
        }
    }
}

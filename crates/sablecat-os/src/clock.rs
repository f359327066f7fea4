//! Time: one clock to measure with, one to tell people with.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Time since an arbitrary start that never goes back. The start is the same for all processes of a machine until it is
/// booted again, so times may be compared across processes.
#[inline]
pub fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither part is ever negative: the kernel counts this clock up from zero.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The time of day. May jump either way when somebody sets the clock: for people and file names, not for decisions.
pub fn wall() -> SystemTime {
    SystemTime::now()
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

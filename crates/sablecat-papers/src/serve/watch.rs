//! A watch on single operations: each lasts from the end of the last one to its own.

use std::time::Instant;

use hdrhistogram::Histogram;

use crate::times::{Longest, Times};

/// Digits that a time is kept with: enough for a hundredth.
const DIGITS: u8 = 2;

/// No operation that ends takes longer: an hour.
const NS_MAX: u64 = 3_600_000_000_000;

/// How long the operations of one thread took so far.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    last: Instant,
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    longest_ns: u64,
    longest_began: Instant,
    longest_is_write: bool,
}

impl Watch {
    pub(super) fn start() -> Watch {
        Watch::start_at(Instant::now())
    }

    fn start_at(now: Instant) -> Watch {
        let histogram =
            || Histogram::new_with_bounds(1, NS_MAX, DIGITS).expect("the bounds are in their order");
        Watch {
            last: now,
            reads: histogram(),
            writes: histogram(),
            longest_ns: 0,
            longest_began: now,
            longest_is_write: false,
        }
    }

    /// An operation has ended.
    #[inline]
    pub(super) fn stop(&mut self, is_read: bool) {
        self.stop_at(is_read, Instant::now());
    }

    #[inline]
    fn stop_at(&mut self, is_read: bool, now: Instant) {
        let ns = (now - self.last).as_nanos() as u64;
        if is_read { &mut self.reads } else { &mut self.writes }.saturating_record(ns);
        if ns > self.longest_ns {
            (self.longest_ns, self.longest_began, self.longest_is_write) = (ns, self.last, !is_read);
        }
        self.last = now;
    }

    /// The times of two threads.
    pub(super) fn and(mut self, other: Watch) -> Box<Watch> {
        for (mine, theirs) in [(&mut self.reads, other.reads), (&mut self.writes, other.writes)] {
            mine.add(theirs).expect("both have the same bounds");
        }
        if other.longest_ns > self.longest_ns {
            self.longest_ns = other.longest_ns;
            (self.longest_began, self.longest_is_write) = (other.longest_began, other.longest_is_write);
        }
        Box::new(self)
    }

    /// Of a run that began then, beside these checkpoints.
    pub(super) fn times(&self, start: Instant, checkpoints: &[(Instant, Instant)]) -> Times {
        let pairs = |histogram: &Histogram<u64>| {
            histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
        };
        let ended = self.longest_began + std::time::Duration::from_nanos(self.longest_ns);
        Times {
            reads: pairs(&self.reads),
            writes: pairs(&self.writes),
            longest: Longest {
                ns: self.longest_ns,
                at_ns: (self.longest_began.saturating_duration_since(start)).as_nanos() as u64,
                is_write: self.longest_is_write,
                in_checkpoint: checkpoints.iter().any(|&(from, to)| from < ended && self.longest_began < to),
            },
            checkpoints: checkpoints.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn operations_are_counted_by_kind_and_the_longest_is_known() {
        let start = Instant::now();
        let after = |us: u64| start + Duration::from_micros(us);
        let mut one = Watch::start_at(start);
        (1..=10).for_each(|n| one.stop_at(true, after(20 * n)));
        let mut other = Watch::start_at(after(100));
        other.stop_at(false, after(400));
        let both = one.and(other);
        let count = |pairs: &[(u64, u64)]| pairs.iter().map(|(_, count)| count).sum::<u64>();
        let times = both.times(start, &[(after(150), after(500))]);
        assert_eq!((count(&times.reads), count(&times.writes)), (10, 1));
        let Longest { ns, at_ns, is_write, in_checkpoint } = times.longest;
        assert_eq!((ns, at_ns, is_write, in_checkpoint), (300_000, 100_000, true, true));
        assert_eq!(times.checkpoints, 1);
        let before = both.times(start, &[(start, start)]);
        assert!(!before.longest.in_checkpoint, "{before:?}");
    }
}

//! How long single operations took: the buckets that C counts in (src/c/watch.h), and what goes over the
//! protocol.

use serde::Serialize;

const BITS: u32 = 7;
const BUCKETS: usize = (41 - BITS as usize + 1) << BITS;

/// `struct watch`.
#[repr(C)]
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    counts: [[u64; BUCKETS]; 2],
    longest_ns: u64,
    longest_began_ns: u64,
    longest_is_write: u64,
}

/// Times of the operations of a run, as the papers' crate has them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Times {
    reads: Vec<(u64, u64)>,
    writes: Vec<(u64, u64)>,
    longest: Longest,
    checkpoints: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Longest {
    ns: u64,
    at_ns: u64,
    is_write: bool,
    in_checkpoint: bool,
}

impl Watch {
    /// One that has seen nothing. It is large, so it is made where it stays.
    pub(crate) fn new() -> Box<Watch> {
        Box::new(Watch { counts: [[0; BUCKETS]; 2], longest_ns: 0, longest_began_ns: 0, longest_is_write: 0 })
    }

    /// An operation took from one moment to the other, as src/c/watch.h counts it.
    #[inline]
    pub(crate) fn count(&mut self, (began_ns, ended_ns): (u64, u64), is_write: bool) {
        let ns = ended_ns - began_ns;
        self.counts[usize::from(is_write)][bucket(ns)] += 1;
        if ns > self.longest_ns {
            self.longest_ns = ns;
            self.longest_began_ns = began_ns;
            self.longest_is_write = u64::from(is_write);
        }
    }

    /// Adds what another has seen.
    pub(crate) fn add(&mut self, other: &Watch) {
        for (mine, theirs) in self.counts.iter_mut().flatten().zip(other.counts.iter().flatten()) {
            *mine += theirs;
        }
        if other.longest_ns > self.longest_ns {
            self.longest_ns = other.longest_ns;
            self.longest_began_ns = other.longest_began_ns;
            self.longest_is_write = other.longest_is_write;
        }
    }

    /// Of a run that began then, beside checkpoints that lasted so; all by the monotonic clock.
    pub(crate) fn times(&self, started_ns: u64, checkpoints: &[(u64, u64)]) -> Times {
        let pairs = |counts: &[u64; BUCKETS]| {
            let counted = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
            counted.map(|(bucket, &count)| (value(bucket), count)).collect()
        };
        let (began, ended) = (self.longest_began_ns, self.longest_began_ns + self.longest_ns);
        Times {
            reads: pairs(&self.counts[0]),
            writes: pairs(&self.counts[1]),
            longest: Longest {
                ns: self.longest_ns,
                at_ns: began.saturating_sub(started_ns),
                is_write: self.longest_is_write != 0,
                in_checkpoint: checkpoints.iter().any(|&(from, to)| from < ended && began < to),
            },
            checkpoints: checkpoints.len() as u64,
        }
    }
}

/// The bucket of a time; all that are longer than half an hour share the last.
#[inline]
fn bucket(ns: u64) -> usize {
    if ns < 1 << BITS {
        return ns as usize;
    }
    let shift = ns.ilog2() - BITS;
    let bucket = ((shift as usize + 1) << BITS) + (ns >> shift) as usize % (1 << BITS);
    bucket.min(BUCKETS - 1)
}

/// The longest time that is counted in a bucket.
fn value(bucket: usize) -> u64 {
    let (bucket, one) = (bucket as u64, 1u64 << BITS);
    if bucket < one {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    ((one + (bucket & (one - 1)) + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: they are declared as src/c/probe.c defines them.
    unsafe extern "C" {
        fn probe_watch_bytes() -> usize;
        fn probe_watch_bucket(ns: u64) -> u64;
    }

    #[test]
    fn a_bucket_is_the_one_that_c_counts_in() {
        // SAFETY: both take and return numbers.
        unsafe {
            assert_eq!(probe_watch_bytes(), size_of::<Watch>());
            for ns in
                (0..3000).chain((11..41).flat_map(|bits| [1 << bits, (1 << bits) + 12345, (2 << bits) - 1]))
            {
                let bucket = probe_watch_bucket(ns) as usize;
                assert_eq!(super::bucket(ns), bucket, "{ns}");
                assert!(
                    value(bucket) >= ns && value(bucket) <= ns + ns / 100,
                    "{ns} {bucket} {}",
                    value(bucket)
                );
                assert!(bucket == 0 || value(bucket - 1) < ns, "{ns} {bucket}");
            }
            assert_eq!(
                (probe_watch_bucket(u64::MAX) as usize, super::bucket(u64::MAX)),
                (BUCKETS - 1, BUCKETS - 1)
            );
        }
    }

    #[test]
    fn the_longest_of_all_threads_is_told_with_what_it_met() {
        let mut one = Watch::new();
        (one.counts[0][5], one.longest_ns, one.longest_began_ns) = (2, 100, 1000);
        let mut other = Watch::new();
        (other.counts[1][5], other.longest_ns, other.longest_began_ns, other.longest_is_write) =
            (3, 200, 5000, 1);
        one.add(&other);
        let times = one.times(900, &[(5199, 6000)]);
        assert_eq!((times.reads, times.writes), (vec![(5, 2)], vec![(5, 3)]));
        assert_eq!(
            (times.longest.at_ns, times.longest.is_write, times.longest.in_checkpoint),
            (4100, true, true)
        );
        assert!(!one.times(900, &[(0, 5000), (5200, 6000)]).longest.in_checkpoint);
    }
}

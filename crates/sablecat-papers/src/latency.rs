//! How long single operations took, as it stands in a report.
//!
//! A thread that works as fast as it can begins nothing while one operation takes long, so that a stall of a
//! second would be one sample among millions (*coordinated omission*, Gil Tene, "How NOT to Measure Latency",
//! 2013). So each time that is longer than what usually lies between two such operations of a thread counts
//! as well for those that would have begun meanwhile, each with what was left to wait.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Range;
use crate::protocol::Figures;
use crate::statistics::{median, tenths};
use crate::times::Times;

/// Digits that a time is kept with.
const DIGITS: u8 = 3;

/// How long one kind of operation takes: in microseconds, medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50_us: f64,
    /// One in a hundred takes longer.
    pub p99_us: f64,
    /// One in a thousand takes longer.
    pub p999_us: f64,
    /// The longest, of all rounds.
    pub max_us: f64,
    /// What the longest operation of the run was, of either kind, and what it met.
    pub stall: String,
    /// One in a thousand takes longer, in each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub p999_runs_us: Vec<f64>,
}

/// The kinds of operation that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Reads,
    Writes,
}

impl Of {
    fn times(self, times: &Times) -> &[(u64, u64)] {
        match self {
            Of::Reads => &times.reads,
            Of::Writes => &times.writes,
        }
    }
}

/// The times of one kind, with those that coordination has omitted; none if there is no such operation.
fn corrected(figures: &Figures, threads: u32, of: Of) -> Option<Histogram<u64>> {
    let times = of.times(figures.times.as_ref()?);
    let count: u64 = times.iter().map(|(_, count)| count).sum();
    let mut histogram = Histogram::new(DIGITS).ok()?;
    // What usually lies between two of a thread.
    let interval = (figures.seconds * 1e9 * f64::from(threads) / count.max(1) as f64).max(1.0) as u64;
    for &(ns, count) in times {
        histogram.record_n_correct(ns, count, interval).ok()?;
    }
    (count > 0).then_some(histogram)
}

impl Latency {
    /// Of some rounds; none if nothing was timed.
    pub(crate) fn of(samples: &[&Figures], threads: u32, of: Of) -> Option<Latency> {
        let all: Vec<Histogram<u64>> =
            samples.iter().filter_map(|figures| corrected(figures, threads, of)).collect();
        let us = |pick: &dyn Fn(&Histogram<u64>) -> u64| {
            median(all.iter().map(|histogram| pick(histogram) as f64 / 1000.0).collect()).map(tenths)
        };
        let stalls = samples.iter().filter_map(|figures| Some(figures.times.as_ref()?.longest));
        Some(Latency {
            p50_us: us(&|histogram| histogram.value_at_quantile(0.5))?,
            p99_us: us(&|histogram| histogram.value_at_quantile(0.99))?,
            p999_us: us(&|histogram| histogram.value_at_quantile(0.999))?,
            max_us: tenths(all.iter().map(Histogram::max).max()? as f64 / 1000.0),
            stall: stalls.max_by_key(|longest| longest.ns)?.told(),
            p999_runs_us: all
                .iter()
                .map(|histogram| tenths(histogram.value_at_quantile(0.999) as f64 / 1000.0))
                .collect(),
        })
    }

    /// How far the rounds lie apart in what one operation in a thousand takes at least.
    pub(crate) fn range(&self) -> Option<Range> {
        Range::of(&self.p999_runs_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Longest;

    fn figures(reads: &[(u64, u64)], seconds: f64) -> Figures {
        let longest = Longest { ns: 5_000_000, at_ns: 1_500_000_000, is_write: true, in_checkpoint: true };
        let times = Times { reads: reads.to_vec(), longest, ..Times::default() };
        Figures { seconds, times: Some(times), ..Figures::default() }
    }

    #[test]
    fn what_could_not_begin_during_a_stall_is_counted() {
        // A thousand reads of 1 ms by one thread, one every other millisecond, and one that took a second: it
        // kept five hundred waiting.
        let stalled = figures(&[(1_000_000, 1000), (1_000_000_000, 1)], 2.0);
        let latency = Latency::of(&[&stalled], 1, Of::Reads).unwrap();
        assert!((999.0..1002.0).contains(&latency.p50_us), "{latency:?}");
        assert!(latency.p99_us > 900_000.0, "for somebody who comes at any moment: {latency:?}");
        assert!((999_000.0..1_001_000.0).contains(&latency.max_us), "{latency:?}");
        assert_eq!(latency.stall, "write of 5.0 ms, 1.50 s after the start, beside a checkpoint");
        assert_eq!(Latency::of(&[&stalled], 1, Of::Writes), None);
    }

    #[test]
    fn rounds_are_medians_and_the_longest_is_of_all() {
        let rounds = [1_000_000, 3_000_000, 9_000_000].map(|ns| figures(&[(ns, 100)], 1e9));
        let latency = Latency::of(&rounds.each_ref(), 1, Of::Reads).unwrap();
        assert!((2990.0..3010.0).contains(&latency.p50_us), "{latency:?}");
        assert!((8990.0..9010.0).contains(&latency.max_us), "{latency:?}");
        let range = latency.range().unwrap();
        assert!(
            latency.p999_runs_us.len() == 3 && range.least < 1010.0 && range.most > 8990.0,
            "{latency:?}"
        );
    }
}

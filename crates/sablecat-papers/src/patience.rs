//! How long a process may take over what it is asked, before it is taken for one that hangs.
//!
//! A system that hangs must not keep the others from being measured, and one that is slow must not be taken
//! for one that hangs. So the limits have nothing to do with what is measured: each is ten minutes, and on
//! top of that many times what the work should take, on a slow disk too. A run that ends by itself after some
//! seconds has twenty times as long; where all records are visited, each has as long as a fast disk takes to
//! flush. What is asked for afterwards may be the work on all of that (a checkpoint, or closing), so a
//! process has at least as long as for anything before.

use std::time::Duration;

use serde::Serialize;

use crate::protocol::{Request, Run};

/// What everything has.
pub(crate) const LEAST: Duration = Duration::from_secs(600);

/// For a record that is visited.
pub(crate) const A_RECORD: Duration = Duration::from_micros(500);

/// For a second that a run may last.
const TIMES: f64 = 20.0;

/// Bytes that are stored in a second by what is very slow.
const BYTES_A_SECOND: u64 = 1 << 20;

/// Nothing has longer: a year.
const SECONDS_MAX: f64 = 365.0 * 86_400.0;

/// A request to a process.
pub(crate) trait Asked: Serialize {
    /// In a word or two.
    fn what(&self) -> String;

    /// What the work has on top of [`LEAST`].
    fn work(&self) -> Duration;
}

impl Asked for Request {
    fn what(&self) -> String {
        match self {
            Request::Open(_) => "open".to_owned(),
            Request::Run(run) => format!("run {}", run.kind.name()),
            Request::Close => "close".to_owned(),
            Request::Sync => "sync".to_owned(),
            Request::Checkpoint => "checkpoint".to_owned(),
            Request::Fill { .. } => "fill".to_owned(),
            Request::Spot { .. } => "spot".to_owned(),
        }
    }

    fn work(&self) -> Duration {
        match self {
            Request::Run(run) => of_run(run),
            Request::Fill { bytes } | Request::Spot { bytes } => Duration::from_secs(bytes / BYTES_A_SECOND),
            Request::Open(_) | Request::Close | Request::Sync | Request::Checkpoint => Duration::ZERO,
        }
    }
}

/// All records may be looked at before it begins, to warm a cache or to know what there is.
fn of_run(run: &Run) -> Duration {
    let visits = if run.seconds_max > 0.0 { 0 } else { run.visited().saturating_mul(run.passes.into()) };
    for_records(run.records.saturating_add(visits)) + for_seconds(run.seconds_max)
}

/// What so many visits of records have.
pub(crate) fn for_records(records: u64) -> Duration {
    seconds(A_RECORD.as_secs_f64() * records as f64)
}

/// What a run has that ends by itself.
pub(crate) fn for_seconds(lasts: f64) -> Duration {
    seconds(TIMES * lasts)
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.min(SECONDS_MAX)).unwrap_or_default()
}

/// A limit, in words.
pub(crate) fn told(limit: Duration) -> String {
    match limit.as_secs() {
        0 => format!("{} ms", limit.as_millis()),
        1 => "1 second".to_owned(),
        seconds @ ..120 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Kind, Mode};
    use crate::session::{Session, Step};
    use crate::workload::Keys;

    fn run(kind: Kind, records: u64, passes: u32, seconds_max: f64) -> Request {
        let session = Session::new(Mode::Ds, Keys::Random, records, 1);
        session.run(kind, Some(&Step::new(kind, passes, seconds_max)), false)
    }

    #[test]
    fn the_work_has_many_times_what_it_should_take() {
        let minutes = |request: &Request| request.work().as_secs() / 60;
        assert_eq!(minutes(&run(Kind::Write, 1_000_000, 1, 0.0)), 16, "as many visits as records");
        assert_eq!(minutes(&run(Kind::Bulk, 1_000_000, 20, 0.0)), 175);
        assert_eq!(run(Kind::Update, 0, 1, 20.0).work(), Duration::from_secs(400));
        assert_eq!(minutes(&Request::Fill { bytes: 1 << 30 }), 17);
        assert_eq!(Request::Close.work(), Duration::ZERO);
        assert!(run(Kind::Bulk, u64::MAX, u32::MAX, f64::NAN).work() <= 2 * seconds(SECONDS_MAX));
        assert!(LEAST >= Duration::from_secs(300));
    }

    #[test]
    fn limits_are_told_in_words() {
        let all = [20, 1000, 119_000, 600_000, 5_399_000].map(|ms| told(Duration::from_millis(ms)));
        assert_eq!(all, ["20 ms", "1 second", "119 seconds", "10 minutes", "89 minutes"]);
    }
}

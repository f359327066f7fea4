//! The adapters of stores that are written in Rust: an adapter a file, each a [`Peer`](crate::system::Peer).
//!
//! Their loops are the ones that sablecat itself is measured by, as files of the papers' crate: compiled for
//! each adapter, so that the workload, the check and the adapter's few lines are inlined around the store's
//! own calls, as src/c/loops.h is in C.

use std::time::Instant;

use crate::c::now_ns;
use crate::mix::Act;
use crate::system::{Job, Outcome};

#[path = "../../../../crates/sablecat-papers/src/serve/batch.rs"]
mod batch;
#[cfg(peer_fjall)]
pub(crate) mod fjall;
#[path = "../../../../crates/sablecat-papers/src/serve/loops.rs"]
#[allow(dead_code, reason = "shared with a crate that uses all of it")]
mod loops;
#[cfg(peer_redb)]
pub(crate) mod redb;
mod watch;

use loops::Tally;

/// The job as the loops take it.
fn as_looped(job: &Job, acts: Vec<Act>, timed: bool) -> loops::Job {
    loops::Job {
        kind: job.kind,
        order: job.order,
        shape: job.shape,
        records: job.records,
        present: job.present,
        share: job.first..job.end,
        acts,
        whole: job.whole,
        timed,
        version: job.version,
        passes: job.passes,
        seconds_max: job.seconds_max,
    }
}

/// What work has come to; one that could not begin has failed.
fn outcome(work: Result<Tally, String>) -> Outcome {
    let tally = work.unwrap_or_else(|why| {
        let now = Instant::now();
        let mut tally = Tally { time: Some((now, now)), ..Tally::default() };
        tally.fail("begin", 0, why);
        tally
    });
    let (now, now_ns) = (Instant::now(), now_ns());
    let as_ns = |at: Instant| now_ns - now.saturating_duration_since(at).as_nanos() as u64;
    let (started_ns, ended_ns) =
        tally.time.map_or((now_ns, now_ns), |(start, end)| (as_ns(start), as_ns(end)));
    Outcome {
        ops: tally.ops,
        errors: tally.errors,
        inserted: tally.inserted,
        started_ns,
        ended_ns,
        first_error: tally.first_error,
        note: String::new(),
        watch: tally.watch.map(|watch| watch.seen),
    }
}

fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

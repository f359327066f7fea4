//! The 3n+1 problem, as it was run on GT.M to compare file systems: processes that share one database.
//!
//! From every integer of a range one comes to 1 by halving what is even and taking 3n+1 of what is odd. How many steps that takes is
//! stored for every number met on the way, so that no sequence is followed further than to a known number. Wanted are the longest
//! sequence and the highest number.
//!
//! ```text
//! input.rs    the lines of the input, a run each
//! store.rs    the environment: databases, keys, values
//! work.rs     a worker process
//! drive.rs    the parent: starts, kills and waits for workers
//! check.rs    whether the results and the records are right
//! report.rs   the figures
//! ```
//!
//! Each line has a new environment. Workers claim blocks of integers in it. Nothing is kept anywhere else, so any worker, or all of them,
//! may be killed at any moment: the next process with the same number goes on from the last commit, and the results are the same.

mod check;
mod drive;
mod input;
mod report;
mod store;
mod work;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub use input::{Line, WORKERS_MAX};
pub use report::Row;
pub use work::work;

use crate::grid::thousands;
use crate::{Machine, Progress, Report, Rows, Suite};

/// 65,536 pages of 4 KiB, as in the paper.
const CACHE_BYTES: u64 = 256 << 20;
const CACHE_BYTES_QUICK: u64 = 32 << 20;

/// How to run this suite.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The text of the input: a run a line, `start finish workers blocksize`. `None` for the suite's own.
    pub input: Option<String>,
    /// Run each line with each of these numbers of workers instead of its own, if there are any.
    pub workers: Vec<u32>,
    /// Workers to be killed.
    pub kills: Kills,
    /// A command line that calls [`work()`]; to it are appended the directory, the worker's number, how many workers there are,
    /// start, finish, block and the bytes of cache.
    pub worker: Vec<OsString>,
}

/// Which workers are killed; each is followed by a new one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    /// One at random, again and again. It must be longer than a worker takes to start, or nothing will ever be done.
    pub every: Option<Duration>,
    /// All of them, once so much of the line is done.
    pub all_at_percent: Option<u8>,
}

/// Runs the input.
pub(crate) fn run(options: &crate::Options, dir: &Path, progress: &mut dyn Progress) -> Result<Report, String> {
    let Options { input, workers, kills, worker } = &options.threen1;
    let lines = Line::read_all(input.as_deref(), options.quick)?;
    let lines: Vec<Line> = match &workers[..] {
        [] => lines,
        counts => lines.iter().flat_map(|line| counts.iter().map(|&workers| Line { workers, ..*line })).collect(),
    };
    let cache_bytes = options.cache.unwrap_or(if options.quick { CACHE_BYTES_QUICK } else { CACHE_BYTES });
    progress.start(lines.len() as u64);
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    for (at, line) in lines.iter().enumerate() {
        let label = format!("{} to {}, {} workers", thousands(line.start as f64), thousands(line.finish as f64), line.workers);
        progress.step(&label);
        let outcome = drive::run(line, &dir.join(at.to_string()), cache_bytes, kills, worker)?;
        problems.extend(outcome.problems.iter().map(|problem| format!("{label}: {problem}")));
        rows.push(Row::of(line, &outcome));
    }
    let grids = vec![report::grid(&rows, kills)];
    let (suite, machine, cache_bytes) = (Suite::Threen1.name(), Machine::here(), Some(cache_bytes));
    Ok(Report { suite, machine, cache_bytes, rows: Rows::Lines(rows), grids, notes: Vec::new(), problems })
}

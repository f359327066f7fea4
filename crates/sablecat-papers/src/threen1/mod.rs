//! The 3n+1 problem, as it was run on GT.M to compare file systems: processes that share one database.
//!
//! From every integer of a range one comes to 1 by halving what is even and taking 3n+1 of what is odd. How
//! many steps that takes is stored for every number met on the way, so that no sequence is followed further
//! than to a known number. Wanted are the longest sequence and the highest number.
//!
//! ```text
//! input.rs        the lines of the input, a run each
//! variant.rs      the options that are compared
//! filesystem.rs   file systems made for the run
//! system.rs       what the parent asks of a system
//! ours.rs         sablecat: its workers are
//!   store.rs        the environment: databases, keys, values
//!   work.rs         a worker process
//! gtm.rs          GT.M: its workers are threen1.m
//! drive.rs        the parent: starts, kills and waits for workers
//! check.rs        whether the results and the records are right
//! report.rs       the figures
//! paper.rs        the paper's
//! ```
//!
//! Each run has a new database. Workers claim blocks of integers in it. Of ours nothing is kept anywhere
//! else, so any worker, or all of them, may be killed at any moment: the next process with the same number
//! goes on from the last commit, and the results are the same.
//!
//! Systems take turns: a line is run by each of them before the next round, in the same directory.

mod check;
mod drive;
mod filesystem;
mod gtm;
mod input;
mod ours;
mod paper;
mod report;
mod store;
mod system;
mod variant;
mod work;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use sablecat_os::interrupt;

pub use filesystem::FileSystem;
pub use input::{Line, WORKERS_MAX};
pub use report::Row;
pub use work::work;

use crate::field::Outcome;
use crate::grid::thousands;
use crate::{Progress, Report, Rows, Suite};
use check::Table;
use filesystem::Mounted;
use gtm::Gtm;
use ours::Ours;
use system::System;
use variant::{VARIANTS, Variant};

/// The one peer of this suite.
pub(crate) const PEER: &str = gtm::NAME;

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
    /// The options of ours to compare, by name; none: the paper's guarantee alone.
    pub options: Vec<String>,
    /// File systems to make and run on; none: the directory as it is.
    pub file_systems: Vec<FileSystem>,
    /// Workers to be killed.
    pub kills: Kills,
    /// A command line that calls [`work()`]; to it are appended the directory, the worker's number, how many
    /// workers there are, start, finish, block, the bytes of cache and the name of the options.
    pub worker: Vec<OsString>,
}

/// Which workers are killed; each is followed by a new one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    /// One at random, again and again. It must be longer than a worker takes to start, or nothing will ever
    /// be done.
    pub every: Option<Duration>,
    /// All of them, once so much of the line is done.
    pub all_at_percent: Option<u8>,
}

/// What is run where: the lines with what must come out, by the systems in turn, so many rounds.
struct Plan<'a> {
    lines: Vec<(Line, Table)>,
    systems: Vec<Box<dyn System + 'a>>,
    rounds: u32,
    kills: Kills,
}

/// What has come of it so far.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    notes: Vec<String>,
    problems: Vec<String>,
}

/// Runs the input.
pub(crate) fn run(
    options: &crate::Options,
    dir: &Path,
    progress: &mut dyn Progress,
) -> Result<Report, String> {
    let cache_bytes = options.cache.unwrap_or(if options.quick { CACHE_BYTES_QUICK } else { CACHE_BYTES });
    let mut found = Found::default();
    let plan = Plan::new(options, cache_bytes, &mut found.notes)?;
    let Options { file_systems, .. } = &options.threen1;
    let places = file_systems.len().max(1);
    progress.start((places * plan.lines.len() * plan.systems.len()) as u64 * u64::from(plan.rounds));
    if file_systems.is_empty() {
        plan.run(None, dir, progress, &mut found);
    }
    let bytes = plan.lines.iter().map(|(line, _)| line.disk_bytes()).max().unwrap_or(0);
    for &file_system in file_systems {
        if interrupt::is_asked() {
            break;
        }
        match Mounted::new(file_system, bytes, dir) {
            Ok(mounted) => {
                plan.run(Some(file_system.name), mounted.path(), progress, &mut found);
                mounted
                    .unmount()
                    .unwrap_or_else(|error| found.problems.push(format!("{}: {error}", file_system.name)));
            }
            Err(why) => found.notes.push(format!("{}: skipped: {why}", file_system.name)),
        }
    }
    let Found { rows, notes, problems } = found;
    let grids = report::grids(&rows, plan.rounds);
    let outcome = Outcome { notes, problems, ..Outcome::default() };
    let report = Report::of(Suite::Threen1, Some(cache_bytes), outcome, Vec::new());
    Ok(Report { rows: Rows::Lines(rows), grids, ..report })
}

impl<'a> Plan<'a> {
    fn new(
        options: &'a crate::Options,
        cache_bytes: u64,
        notes: &mut Vec<String>,
    ) -> Result<Plan<'a>, String> {
        let Options { input, workers, options: names, kills, worker, .. } = &options.threen1;
        let mut lines = Vec::new();
        for line in Line::read_all(input.as_deref(), options.quick)? {
            let expected = Table::of(&line)?;
            let counts = if workers.is_empty() { &[line.workers][..] } else { workers };
            lines.extend(counts.iter().map(|&workers| (Line { workers, ..line }, expected)));
        }
        let variants = match &names[..] {
            [] => vec![&VARIANTS[0]],
            names => names.iter().map(|name| Variant::named(name)).collect::<Result<_, _>>()?,
        };
        let mut systems: Vec<Box<dyn System + 'a>> = Vec::new();
        for variant in variants {
            systems.push(Box::new(Ours { variant, cache_bytes, program: worker }));
        }
        for name in options.vs.iter().flatten() {
            if name != gtm::NAME {
                return Err(format!("there is no peer {name} for this suite, only {}", gtm::NAME));
            }
            if kills.every.is_some() || kills.all_at_percent.is_some() {
                return Err(format!(
                    "{name} is not made to carry on where a killed worker was: kill none, or leave it out"
                ));
            }
            match Gtm::find(cache_bytes) {
                Ok(_) if lines.iter().any(|(_, expected)| expected.highest > gtm::HIGHEST_MAX) => {
                    notes.push(format!("{name}: skipped: numbers of this input have more digits than M's"));
                }
                Ok(gtm) => {
                    notes.push(format!("{name}: {}", gtm.version));
                    systems.push(Box::new(gtm));
                }
                Err(why) => notes.push(format!("{name}: skipped: {why}")),
            }
        }
        Ok(Plan { lines, systems, rounds: options.rounds.unwrap_or(1), kills: *kills })
    }

    /// Runs everything in one place, or what can be run until this process is asked to end.
    fn run(
        &self,
        file_system: Option<&'static str>,
        dir: &Path,
        progress: &mut dyn Progress,
        found: &mut Found,
    ) {
        for (line, expected) in &self.lines {
            let place = file_system.map_or(String::new(), |name| format!("{name}, "));
            let label = format!(
                "{place}{} to {}, {} workers",
                thousands(line.start as f64),
                thousands(line.finish as f64),
                line.workers
            );
            let mut rounds = vec![Vec::new(); self.systems.len()];
            for _ in 0..self.rounds {
                for (system, outcomes) in self.systems.iter().zip(&mut rounds) {
                    if interrupt::is_asked() {
                        break;
                    }
                    let label = format!("{label}, {} {}", system.name(), system.options());
                    progress.step(&label);
                    match drive::run(&**system, line, expected, &dir.join("database"), &self.kills) {
                        Ok(outcome) => {
                            found
                                .problems
                                .extend(outcome.problems.iter().map(|problem| format!("{label}: {problem}")));
                            outcomes.push(outcome);
                        }
                        // It has been ended, and why is said once.
                        Err(_) if interrupt::is_asked() => {}
                        Err(why) => found.problems.push(format!("{label}: {why}")),
                    }
                }
            }
            let rows = self
                .systems
                .iter()
                .zip(&rounds)
                .filter_map(|(system, outcomes)| Row::of(&**system, file_system, line, outcomes));
            found.rows.extend(rows);
        }
    }
}

//! The suites of SQL: a bank's transfers, and the queries of the Wisconsin benchmark.
//!
//! ```text
//! library.rs      SQLite's C interface, of whichever library
//! systems.rs      which systems take part, and how each is set up
//! worker.rs       a process that works on a database
//!   scale.rs        how large TPC-B's bank is
//!   bank.rs         its tables and transfers
//!   relations.rs    the standard relations
//!   fill.rs         rows inserted into a table with two indices
//! protocol.rs     what it is asked for
//! spent.rs        what its work cost, as it stands in a report
//! crew.rs         the driving end: processes with a database
//! tpcb.rs         the suite of transfers
//! wisconsin.rs    the suite of queries
//!   queries.rs      the 32, and what they must come to
//! ```
//!
//! One program, this one, does the same through each library's C interface. SQLite's own b-tree is reached
//! through the library that ours is in, by opening a file instead of a directory: the code above the b-tree,
//! its version, compiler and flags are then the same, and what is compared is what is below. Debian's
//! Berkeley DB SQL is another library, of an older SQLite; it is loaded at run time, in a process that does
//! nothing else, if it is installed.
//!
//! Every system works in processes of its own, so that their processor time and memory are its own. A
//! database is new for each run, in the same directory for all, and systems take turns.

mod bank;
mod crew;
mod fill;
mod library;
mod protocol;
mod queries;
mod relations;
mod scale;
mod spent;
mod systems;
pub(crate) mod tpcb;
pub(crate) mod wisconsin;
mod worker;

use std::collections::BTreeMap;
use std::ffi::OsString;

pub use spent::Spent;
pub use worker::work;

use crate::Took;
use crate::contestant::Refusal;
use crate::process::Process;
use crate::protocol::{Figures, Kind, Mode};
use crate::row::Row;
use crate::session::{Session, Step};
use crate::statistics::{median, tenths};
use crate::workload::Keys;
use protocol::{Done, Request};
use systems::System;

const CACHE_BYTES: u64 = 256 << 20;
const CACHE_BYTES_QUICK: u64 = 32 << 20;

/// The cache of a suite's databases.
fn cache_bytes(options: &crate::Options) -> u64 {
    options.cache.unwrap_or(if options.quick { CACHE_BYTES_QUICK } else { CACHE_BYTES })
}

/// What concerns these suites alone.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How many threads or processes at once, instead of the paper's numbers; none: these.
    pub at_once: Vec<u32>,
    /// Processes alone, instead of threads and processes.
    pub processes_only: bool,
    /// How many rows [`Suite::Wisconsin`](crate::Suite::Wisconsin) inserts into a table with two indices,
    /// instead of its own number.
    pub fill: Option<u64>,
    /// A command line that calls [`work()`] with the system's name, which is appended to it.
    pub worker: Vec<OsString>,
}

/// The names of the peers of these suites.
pub(crate) fn peers() -> Vec<String> {
    System::peers().map(|peer| peer.name.to_owned()).collect()
}

/// What takes part.
#[derive(Default)]
struct Found {
    /// Ours is the first.
    systems: Vec<&'static System>,
    notes: Vec<String>,
    took: Vec<Took>,
}

impl Found {
    /// Ours, and the peers that were asked for, or the usual ones.
    ///
    /// # Errors
    /// When a name is asked for that no peer has, or ours cannot be run.
    fn find(vs: Option<&[String]>, worker: &[OsString]) -> Result<Found, String> {
        let names: Vec<String> = match vs {
            Some(names) => names.to_vec(),
            None => System::peers().filter(|peer| peer.is_usual()).map(|peer| peer.name.to_owned()).collect(),
        };
        let mut found = Found::default();
        for name in [systems::OURS.to_owned()].into_iter().chain(names) {
            let system = System::named(&name).ok_or_else(|| {
                format!("there is no peer {name} for this suite, only {}", peers().join(", "))
            })?;
            match version(system, worker) {
                Ok(version) => {
                    found.notes.push(format!("{name}: SQLite {version}"));
                    let modes: BTreeMap<_, _> = system
                        .modes
                        .iter()
                        .map(|(mode, what)| (mode.name().to_owned(), (*what).to_owned()))
                        .collect();
                    found.took.push(Took { system: name, version: format!("SQLite {version}"), modes });
                    found.systems.push(system);
                }
                Err(Refusal::Skipped(why)) => found.notes.push(format!("{name}: skipped: {why}")),
                Err(Refusal::Failed(why) | Refusal::Wrong(why)) if system.is_ours() => {
                    return Err(format!("{name}: {why}"));
                }
                Err(Refusal::Failed(why) | Refusal::Wrong(why)) => {
                    found.notes.push(format!("{name} could not run: {why}"))
                }
            }
        }
        Ok(found)
    }
}

/// What a system's library calls itself, as a process says that works with it.
fn version(system: &System, worker: &[OsString]) -> Result<String, Refusal> {
    let mut process = start(system, worker)?;
    process.tell(&Request::Version)?;
    Ok(process.hear::<Done>()?.version)
}

/// A process that works with a system's library.
fn start(system: &System, worker: &[OsString]) -> Result<Process, Refusal> {
    let command: Vec<OsString> = worker.iter().cloned().chain([system.name.into()]).collect();
    Process::start(&command, None)
}

/// The row of some rounds; none if there were none.
fn row(
    system: &System,
    mode: Mode,
    op: &'static str,
    (threads, records, cache_bytes): (u32, u64, u64),
    rounds: &[Done],
) -> Option<Row> {
    let session = Session { threads, ..Session::new(mode, Keys::Random, records, cache_bytes) };
    let step = Step { op, ..Step::new(Kind::Mix, 1, 0.0) };
    let figures: Vec<Figures> = rounds
        .iter()
        .map(|done| Figures {
            ops: done.ops,
            seconds: done.seconds,
            rss_mb: done.rss_mb,
            disk_mb: done.disk_mb,
            ..Figures::default()
        })
        .collect();
    let row = Row::of(system.name, &session, &step, &figures.iter().collect::<Vec<_>>())?;
    let of = |pick: fn(&Done) -> f64| {
        let each = rounds.iter().map(|done| pick(done) / done.ops.max(1) as f64).collect();
        Some((median(each)? * 1000.0).round() / 1000.0)
    };
    let spent = Spent {
        us: of(|done| done.seconds * 1e6)?,
        cpu_us: of(|done| done.cpu_seconds * 1e6)?,
        again_of_1000: tenths(of(|done| done.again as f64 * 1000.0)?),
    };
    Some(Row { sql: Some(spent), ..row })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::{Report, Suite};

    /// Runs a suite with processes that answer as a shell script says, beside the answers that fit anything.
    fn run(suite: Suite, answers: &str) -> Report {
        let nothing = r#"{"seconds":1,"cpu_seconds":1}"#;
        let script =
            format!(r#"while read -r line; do case "$line" in {answers} *) echo '{nothing}';; esac; done"#);
        let worker = ["sh", "-c", &script].map(OsString::from).into();
        let sql = Options { at_once: vec![2], worker, ..Options::default() };
        let options = crate::Options {
            quick: true,
            records: Some(100),
            vs: Some(Vec::new()),
            sql,
            ..crate::tests::options()
        };
        let place = Place::below(&options.dir).unwrap();
        let run = if suite == Suite::Tpcb { tpcb::run } else { wisconsin::run };
        run(&options, 3, place.path(), &mut ()).unwrap()
    }

    #[test]
    fn a_bank_whose_sums_differ_fails_the_run() {
        let transfers =
            r#"*transfer*) echo '{"seconds":1,"cpu_seconds":1,"ops":5,"transfers":5,"moved":7}';;"#;
        let sums = |numbers: &str| {
            format!(r#"{transfers} *sums*) echo '{{"seconds":1,"cpu_seconds":1,"numbers":[{numbers}]}}';;"#)
        };
        // Two threads are one process.
        let right = run(Suite::Tpcb, &sums("7,7,7,7,5"));
        let of_threads =
            |report: &Report| report.operations().iter().filter(|row| row.op == "threads").count();
        assert_eq!(of_threads(&right), 2);
        assert!(right.problems.iter().all(|problem| !problem.contains("threads")), "{:?}", right.problems);
        // Each process has transferred as much, and the history has what one of them did.
        assert!(
            right.problems[0].contains("10 transfers of 14 altogether have left"),
            "{:?}",
            right.problems
        );
        for wrong in ["8,7,7,7,5", "7,7,7,7,6", "7,7,7,7"] {
            let report = run(Suite::Tpcb, &sums(wrong));
            assert_eq!((of_threads(&report), report.problems.len()), (0, 5 * 3), "{wrong}");
        }
    }

    #[test]
    fn a_query_with_another_result_fails_the_run() {
        let report = run(
            Suite::Wisconsin,
            r#"*query*MIN\(unique2*) echo '{"seconds":1,"cpu_seconds":1,"ops":10,"numbers":[1,0]}';;"#,
        );
        // 20 and 23 are right, of which one stands for each of three rounds.
        assert_eq!(report.problems.len(), 3 * 30);
        assert!(
            report.problems[0].starts_with("sablecat query 1, 1 % selection, no index: [] instead of [1, ")
        );
        let rows: Vec<_> = report.operations().iter().map(|row| (row.op.as_str(), row.median_of)).collect();
        assert_eq!(rows, [("20", 3), ("23", 3), ("fill", 3)]);
    }

    #[test]
    fn a_library_that_crashes_leaves_the_others() {
        // The system's name comes after the script.
        let script = "[ $0 = bdb-sql ] && kill -KILL $$; read -r line; \
                      echo '{\"seconds\":1,\"cpu_seconds\":1,\"version\":\"3\"}'";
        let worker = ["sh", "-c", script].map(OsString::from);
        let found = Found::find(Some(&["bdb-sql", "sqlite"].map(str::to_owned)), &worker).unwrap();
        let names: Vec<_> = found.systems.iter().map(|system| system.name).collect();
        assert_eq!(names, [systems::OURS, "sqlite"]);
        let note = &found.notes[1];
        assert!(note.starts_with("bdb-sql could not run: its process ended in the middle: "), "{note}");
    }

    #[test]
    fn a_library_that_is_not_here_is_told_and_left_out() {
        let report = run(Suite::Tpcb, r#"*version*) echo '{"skipped":"not here"}';;"#);
        assert_eq!(report.notes, ["sablecat: skipped: not here"]);
        assert!(report.operations().is_empty() && report.problems.is_empty());
    }
}

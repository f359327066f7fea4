//! The papers' workloads, run on sablecat and beside it on other embedded stores.
//!
//! Five papers say what systems like this one reached in their day. This crate runs what they ran, prints
//! their figures beside ours, and measures other systems that are at hand in the same run on the same
//! machine. One file, or folder, is one suite:
//!
//! | suite | is |
//! |---|---|
//! | [`Suite::Wp43`] | the white paper on Berkeley DB 4.3: single operations on small records, all in cache |
//! | [`Suite::Wp11g`] | the white paper on Berkeley DB 11g Release 2: runs of ten neighbouring records, by 1 to 16 threads |
//! | [`Suite::Tpcb`] | the same paper's transfers in a bank, through SQL, by threads and by processes |
//! | [`Suite::Wisconsin`] | and its queries, those of the Wisconsin benchmark |
//! | [`Suite::Soliddata`] | Berkeley DB on a solid-state device: 50 and 100 threads, on a disk and in memory |
//! | [`Suite::Bangdb`] | BangDB's figures: four threads, ordered and hashed, in the pool and larger than it |
//! | [`Suite::Ycsb`] | YCSB's workloads A to F: mixes of operations on records some of which are wanted more |
//! | [`Suite::Latency`] | how long single operations take at each durability, beside checkpoints too |
//! | [`Suite::Engine`] | what it only names: recovery, opening, attaching, more records, caches too small for the data |
//! | [`Suite::Threen1`] | the 3n+1 problem of the paper on GT.M: processes that share one environment, and may be killed |
//!
//! Those of SQL have processes of their own kind, which work through SQLite's C interface ([`mod@sql`]).
//! Each of the others but the last is a list of sessions (`session.rs`), each run by every contestant
//! (`contestant.rs`) in turn (`field.rs`), in processes that speak a line protocol ([`protocol`]);
//! [`serve()`] is our end of it. The records and their order are [`workload`]'s, and every value that is read
//! is checked against it. What comes out is a [`Report`], and of several of them a file of [`Results`], from
//! which [`mod@report`] makes pages to look at.
//!
//! Nothing here prints, and nothing decides what is fast enough.

mod bangdb;
mod beside;
mod charted;
mod chosen;
mod contestant;
mod engine;
mod field;
mod grid;
mod latencies;
pub mod latency;
mod machine;
mod memory_limit;
pub mod mix;
mod patience;
mod place;
mod process;
pub mod protocol;
mod range;
pub mod report;
mod results;
mod row;
mod serve;
mod session;
pub mod shape;
pub mod size;
mod soliddata;
pub mod sql;
mod statistics;
pub mod threen1;
pub mod times;
pub mod workload;
mod wp11g;
mod wp43;
mod ycsb;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use sablecat_os::interrupt;
use serde::{Deserialize, Serialize};

pub use beside::{Figure, Line, Said, Table};
pub use charted::{Charted, Dots};
pub use chosen::each;
pub use contestant::{OURS, SHARED};
pub use grid::{BEHIND, Grid, thousands};
pub use machine::Machine;
pub use range::Range;
pub use results::Results;
pub use row::{Attached, Row};
pub use serve::{SYSTEMS, serve};

use contestant::{ALL_OURS, Contestant, DEVICE, HASH, Keeps, LSM, Peers, Program, keeps};
use field::{Field, Outcome};
use place::Place;

/// Rounds of each session, unless the suite has another number.
const ROUNDS: u32 = 3;

/// A paper, or a set of measurements of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Berkeley DB 4.3 white paper, 2005.
    Wp43,
    /// Berkeley DB 11g Release 2 white paper, 2011.
    Wp11g,
    /// TPC-B's transfers through SQL, in the same paper.
    Tpcb,
    /// The Wisconsin benchmark's queries, in the same paper.
    Wisconsin,
    /// Berkeley DB on Solid Data storage, 2002.
    Soliddata,
    /// BangDB, embedded, about 2012.
    Bangdb,
    /// The core workloads of YCSB, 2010.
    Ycsb,
    /// How long single operations take.
    Latency,
    /// Recovery, opening, attaching, large and spilling databases.
    Engine,
    /// Linux file systems under GT.M: the 3n+1 problem, about 2010.
    Threen1,
}

impl Suite {
    /// Every suite, in the order in which they run.
    pub const ALL: [Suite; 10] = [
        Suite::Wp43,
        Suite::Wp11g,
        Suite::Tpcb,
        Suite::Wisconsin,
        Suite::Soliddata,
        Suite::Bangdb,
        Suite::Ycsb,
        Suite::Latency,
        Suite::Engine,
        Suite::Threen1,
    ];

    /// As commands and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Wp43 => "wp43",
            Suite::Wp11g => "wp11g",
            Suite::Tpcb => "tpcb",
            Suite::Wisconsin => "wisconsin",
            Suite::Soliddata => "soliddata",
            Suite::Bangdb => "bangdb",
            Suite::Ycsb => "ycsb",
            Suite::Latency => "latency",
            Suite::Engine => "engine",
            Suite::Threen1 => "threen1",
        }
    }
}

/// A part of [`Suite::Engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// How fast the log is replayed after a crash.
    Replay,
    /// How long a large environment that was closed cleanly takes to open.
    Open,
    /// How long a checkpoint takes.
    Checkpoint,
    /// How long it takes to find a deadlock.
    Deadlock,
    /// How long processes take to attach to a shared environment, and what memory each of them costs.
    Attach,
    /// Random reads of many records, all in cache.
    Large,
    /// Random reads and updates of two and eight times the cache.
    Spill,
    /// Hash tables beside B+trees: random operations of a Data Store.
    Methods,
    /// Queues: records that are appended and consumed, each in a transaction of its own.
    Queue,
    /// Hash tables: random reads, insertions and updates, beside the peers'.
    Hash,
    /// Keys of a hundred sorted values each: insertion and a scan.
    Duplicates,
    /// An index beside two records that are set in one transaction.
    Secondary,
}

/// How to run a suite.
#[derive(Clone, Debug)]
pub struct Options {
    /// Few records and short runs: seconds instead of minutes.
    pub quick: bool,
    /// One order of the keys only.
    pub keys: Option<workload::Keys>,
    /// How many records, instead of the suite's own number.
    pub records: Option<u64>,
    /// Bytes of cache, instead of as much as holds all records.
    pub cache: Option<u64>,
    /// The peers to compare with, by name; `None` for the usual ones, an empty list for none.
    pub vs: Option<Vec<String>>,
    /// Where the environments are created, in a directory that is removed afterwards.
    pub dir: PathBuf,
    /// How often each run is repeated; figures are medians, or means where a paper's are. `None` for the
    /// suite's own number: 3, or 5 of [`Suite::Wp11g`] unless `quick`, or 1 of [`Suite::Threen1`].
    pub rounds: Option<u32>,
    /// Measure in a shared environment too, beside the private one, in [`Suite::Wp43`], [`Suite::Wp11g`] and
    /// [`Suite::Ycsb`].
    pub shared: bool,
    /// The parts of the engine's suite; `None` for all, or the fast ones if `quick`.
    pub cases: Option<Vec<Case>>,
    /// Bytes of the environments whose opening is timed.
    pub size: Option<u64>,
    /// A command line that calls [`serve()`] with the system's name, which is appended to it.
    pub serve: Vec<OsString>,
    /// What concerns [`Suite::Threen1`] alone.
    pub threen1: threen1::Options,
    /// What concerns [`Suite::Tpcb`] and [`Suite::Wisconsin`] alone.
    pub sql: sql::Options,
}

/// Told how a suite goes on.
pub trait Progress {
    /// So many steps are about to come.
    fn start(&mut self, steps: u64);
    /// The next step begins, and what it does.
    fn step(&mut self, doing: &str);
}

/// Tells nobody.
impl Progress for () {
    fn start(&mut self, _: u64) {}
    fn step(&mut self, _: &str) {}
}

/// What a suite came to: a part of [`Results`].
///
/// ```text
/// {"suite": "wp43", "cache_bytes", "systems": [{"system", "version", "modes"}], "notes", "problems",
///  "rows": [{"system", "mode", "op", "keys", "threads", "records", "cache_bytes", "ops_per_s", "mean",
///            "deviation", "runs", "median_of", "errors", "rss_mb", "disk_mb"}],
///  "tables": [{"title", "unit", "paper", "figure", "lines": [{"label", "mode", "op", "threads", "paper"}]}],
///  "grids"}
/// ```
///
/// `median_of` says of how many rounds, and `runs` has the figure of each. A row that is `apart` is shown,
/// and not measured against. The row of [`Case::Attach`] has `attached` besides, an [`Attached`], those of
/// [`Suite::Latency`] have `latency`, and those of the suites of SQL `sql`, a [`sql::Spent`]. The rows of
/// [`Suite::Threen1`] are [`threen1::Row`]s.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The suite's name.
    pub suite: String,
    /// Bytes of cache that every system was given, where all sessions had the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// The peers that took part, and what each made of what it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<Took>,
    /// Every figure.
    pub rows: Rows,
    /// How rows belong together, with the paper's figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// What is shown of the rows otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grids: Vec<Grid>,
    /// Which systems took part, and which could not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Wrong values and failed operations: if there are any, the run has failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl Report {
    /// What came of some sessions.
    fn of(suite: Suite, cache_bytes: Option<u64>, outcome: Outcome, tables: Vec<Table>) -> Report {
        let Outcome { rows, notes, problems } = outcome;
        Report {
            suite: suite.name().to_owned(),
            cache_bytes,
            systems: Vec::new(),
            rows: Rows::Operations(rows),
            tables,
            grids: Vec::new(),
            notes,
            problems,
        }
    }

    /// What stands for a suite that could not be run at all.
    pub fn failed(suite: Suite, why: String) -> Report {
        Report::of(suite, None, Outcome { problems: vec![why], ..Outcome::default() }, Vec::new())
    }

    /// The rows that tables are about.
    pub(crate) fn operations(&self) -> &[Row] {
        match &self.rows {
            Rows::Operations(rows) => rows,
            Rows::Lines(_) => &[],
        }
    }

    /// Everything for people, as tables.
    pub fn grids(&self) -> Vec<Grid> {
        let rows = self.operations();
        let of_table = |table: &Table| {
            [Some(table.beside_the_paper(&self.suite, rows)), table.all_systems(rows)].into_iter().flatten()
        };
        self.tables.iter().flat_map(of_table).chain(self.grids.iter().cloned()).collect()
    }
}

/// A peer that took part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// Its name.
    pub system: String,
    /// Its version.
    pub version: String,
    /// What each mode means in it.
    pub modes: BTreeMap<String, String>,
}

/// The figures of a suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rows {
    /// A system at an operation each.
    Operations(Vec<Row>),
    /// A line of the input of [`Suite::Threen1`] each.
    Lines(Vec<threen1::Row>),
}

/// Runs a suite.
///
/// # Errors
/// When it could not be run at all: the directory cannot be created, a peer does not exist or a named one
/// cannot be had, an input makes no sense. Failures inside it are in [`Report::problems`].
pub fn run(suite: Suite, options: &Options, progress: &mut dyn Progress) -> Result<Report, String> {
    // Shared memory, mounts and what is kept in memory outlive a process, so Ctrl-C must not simply end it.
    interrupt::watch().map_err(|error| format!("cannot watch for signals: {error}"))?;
    let place = Place::below(&options.dir)
        .map_err(|error| format!("cannot create a directory in {}: {error}", options.dir.display()))?;
    let peers = match suite {
        Suite::Engine if !engine::has_peers(options) => Peers::default(),
        Suite::Threen1 | Suite::Tpcb | Suite::Wisconsin => Peers::default(),
        _ => Peers::find(options.vs.as_deref(), options.quick)?,
    };
    let mut notes = peers.notes.clone();
    if machine::is_in_memory(place.path()) {
        notes.push(format!(
            "{} is kept in memory: durable commits cost nothing there. Name a directory on a disk with \
             --dir.",
            options.dir.display()
        ));
    }
    let ours: &[&str] = match suite {
        Suite::Engine => &ALL_OURS,
        Suite::Bangdb => &[OURS, HASH, LSM],
        Suite::Wp43 | Suite::Wp11g | Suite::Ycsb if options.shared => &[OURS, SHARED],
        _ => &[OURS],
    };
    let own: Vec<Program> =
        ours.iter().chain(&[DEVICE]).map(|name| Program::own(name, &options.serve)).collect();
    let contestants = own.iter().chain(&peers.programs).map(|program| program as &dyn Contestant);
    // What queues and the like do only the engine's suite asks for.
    let takes_part = |one: &&dyn Contestant| match keeps(one.name()) {
        Keeps::Records => true,
        Keeps::OwnTable => matches!(suite, Suite::Engine | Suite::Bangdb),
        Keeps::OwnLayers => suite == Suite::Bangdb,
        Keeps::Queue | Keeps::Duplicates => suite == Suite::Engine,
    };
    let contestants = contestants.filter(takes_part).collect();
    let rounds = options.rounds.unwrap_or(match suite {
        Suite::Wp11g if !options.quick => wp11g::ROUNDS,
        _ => ROUNDS,
    });
    let field = Field { contestants, dir: place.path(), rounds, progress };
    let mut report = match suite {
        Suite::Wp43 => wp43::run(options, field),
        Suite::Wp11g => wp11g::run(options, field),
        Suite::Tpcb => sql::tpcb::run(options, rounds, place.path(), field.progress)?,
        Suite::Wisconsin => sql::wisconsin::run(options, rounds, place.path(), field.progress)?,
        Suite::Soliddata => soliddata::run(options, field),
        Suite::Bangdb => bangdb::run(options, field),
        Suite::Ycsb => ycsb::run(options, field),
        Suite::Latency => latencies::run(options, field),
        Suite::Engine => engine::run(options, field),
        Suite::Threen1 => threen1::run(options, place.path(), field.progress)?,
    };
    notes.append(&mut report.notes);
    report.notes = notes;
    report.systems.extend(peers.systems);
    if interrupt::is_asked() {
        // What has been measured by then is worth seeing.
        report.problems.push("interrupted".to_owned());
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A suite's own numbers, of everything.
    pub(crate) fn options() -> Options {
        Options {
            quick: false,
            keys: None,
            records: None,
            cache: None,
            vs: None,
            dir: std::env::temp_dir(),
            rounds: None,
            shared: false,
            cases: None,
            size: None,
            serve: Vec::new(),
            threen1: threen1::Options::default(),
            sql: sql::Options::default(),
        }
    }

    #[test]
    fn suites_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = Suite::ALL.iter().map(|suite| suite.name()).collect();
        assert_eq!(names.len(), Suite::ALL.len());
    }
}

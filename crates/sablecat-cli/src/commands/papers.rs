//! `papers`: run the papers' workloads and print their tables.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use sablecat_os::interrupt;
use sablecat_papers::threen1::FileSystem;
use sablecat_papers::workload::Keys;
use sablecat_papers::{Case, Options, Report, Results, Suite, size, sql, threen1};

use super::{report, serve, statements, work};
use crate::progress::Bar;
use crate::{Failure, Outcome, output};

/// Run the papers' workloads and print their tables, with the papers' figures beside ours
///
/// Every value that is read is checked. Exit code 1 means that one was wrong, that an operation failed, or
/// that one of several suites could not be run.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    /// Which suite; without it, all of them
    suite: Option<SuiteName>,
    /// Few records and short runs: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// wp43, wp11g, ycsb: also measure a shared environment, as a system of its own beside the private one
    #[arg(long)]
    shared: bool,
    /// wp43: one key order instead of both
    #[arg(long)]
    keys: Option<KeysName>,
    /// Number of records, instead of the suite's own; 10M is ten million
    #[arg(long, value_name = "N", value_parser = size::count)]
    records: Option<u64>,
    /// Bytes of cache, instead of enough for all records; 32M is 32 MiB
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    cache: Option<u64>,
    /// The peers to compare with, or `none`; without it, all that bench/peers was built for (with --quick,
    /// one of each library); tpcb, wisconsin: `sqlite`, `bdb-sql`, and `sqlite-system`, which is only run if
    /// it is named; threen1: `gtm`, and without it none. Of several suites, each takes those that it knows
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    vs: Option<Vec<String>>,
    /// Write the results as JSON: to a file, which gets each suite as soon as it is done, or, with `-`, to
    /// standard output instead of the tables; `papers report` makes pages of them
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The directory in which the environments are created, in a subdirectory that is removed afterwards; the
    /// default is the directory for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How often each run is repeated; figures are medians, of wp11g means; without it 3 times, 5 times for
    /// wp11g, or once for threen1
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(3..=99))]
    repeat: Option<u32>,
    /// tpcb: how many threads or processes at once, instead of 1, 2, 3, 4, 5 and 10
    #[arg(long, value_name = "N", value_delimiter = ',',
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=64))]
    threads: Vec<u32>,
    /// tpcb: processes with one connection each, instead of threads
    #[arg(long)]
    processes: bool,
    /// wisconsin: how many rows are inserted into the table with two indices, instead of ten million
    #[arg(long, value_name = "N", value_parser = size::count)]
    fill: Option<u64>,
    /// engine: only these parts of it
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    cases: Option<Vec<CaseName>>,
    /// engine: how large the environments are whose opening is timed, by one process or by hundreds that
    /// attach
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    size: Option<u64>,
    /// threen1: the runs, a line each: start finish workers blocksize
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// threen1: how many worker processes, instead of what the input says; several numbers are a run each
    #[arg(long, value_name = "N", value_delimiter = ',',
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=threen1::WORKERS_MAX.into()))]
    workers: Vec<u32>,
    /// threen1: the options to compare: NoSync, WriteNoSync, Sync, journal, sync_io; without it NoSync, the
    /// paper's guarantee
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    options: Vec<String>,
    /// threen1: make these file systems in image files in --dir and run on each: ext4, ext3, ext2, jfs,
    /// btrfs, xfs, or tmpfs in memory; takes root
    #[arg(long = "fs", value_name = "NAMES", value_delimiter = ',', value_parser = FileSystem::named)]
    file_systems: Vec<FileSystem>,
    /// threen1: kill a worker every so many milliseconds, or when more has been done since the last kill, and
    /// start another
    #[arg(long, value_name = "MS", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    kill_every: Option<u64>,
    /// threen1: kill all workers when so much is done, and start again
    #[arg(long, value_name = "PERCENT", value_parser = RangedU64ValueParser::<u8>::new().range(0..=99))]
    kill_all_at: Option<u8>,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    Report(report::Arguments),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SuiteName {
    /// Berkeley DB 4.3 white paper, 2005: single operations, in cache
    Wp43,
    /// Berkeley DB 11g Release 2 white paper, 2011: runs of ten records, by 1 to 16 threads
    Wp11g,
    /// The same paper's TPC-B in SQL, by threads and by processes
    Tpcb,
    /// The same paper's Wisconsin benchmark in SQL: 32 queries
    Wisconsin,
    /// Berkeley DB on Solid Data storage, 2002: 50 and 100 threads, on a disk and in memory
    Soliddata,
    /// BangDB, about 2012: four threads, with the data in the pool and larger than it
    Bangdb,
    /// YCSB's workloads A to F, by 1 to 4 threads
    Ycsb,
    /// How long single operations take, at each durability, beside checkpoints too
    Latency,
    /// Recovery, opening, processes that attach, ten million records, caches too small for the data
    Engine,
    /// Linux file systems under GT.M, about 2010: the 3n+1 problem, by processes that share an environment
    Threen1,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KeysName {
    Sequential,
    Random,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CaseName {
    Replay,
    Open,
    Checkpoint,
    Deadlock,
    Attach,
    Large,
    Spill,
    Methods,
    Queue,
    Hash,
    Duplicates,
    Secondary,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if let Some(Part::Report(arguments)) = &arguments.part {
        return report::run(arguments);
    }
    let options = arguments.options()?;
    let suites = match arguments.suite {
        Some(SuiteName::Wp43) => vec![Suite::Wp43],
        Some(SuiteName::Wp11g) => vec![Suite::Wp11g],
        Some(SuiteName::Tpcb) => vec![Suite::Tpcb],
        Some(SuiteName::Wisconsin) => vec![Suite::Wisconsin],
        Some(SuiteName::Soliddata) => vec![Suite::Soliddata],
        Some(SuiteName::Bangdb) => vec![Suite::Bangdb],
        Some(SuiteName::Ycsb) => vec![Suite::Ycsb],
        Some(SuiteName::Latency) => vec![Suite::Latency],
        Some(SuiteName::Engine) => vec![Suite::Engine],
        Some(SuiteName::Threen1) => vec![Suite::Threen1],
        None => Suite::ALL.to_vec(),
    };
    let to_output = arguments.json.as_deref() == Some(Path::new("-"));
    let file = arguments.json.as_deref().filter(|_| !to_output);
    // Before the work, not after it: it may not be possible, or no suite know a peer.
    file.map_or(Ok(()), Results::can_be_written)?;
    let suites = sablecat_papers::each(&suites, &options)?;
    let mut results =
        Results::begin(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()));
    let mut screen = Screen { wanted: !to_output, is_needed: file.is_none(), failed: None };
    let machine = &results.machine;
    screen.show(|| {
        output::line(&format!(
            "{}, {} processors, {} MB, {}",
            machine.cpu, machine.cpus, machine.memory_mb, machine.system
        ))
    })?;
    let asked = suites.len();
    for (suite, options) in suites {
        let mut bar = Bar::new();
        let report = sablecat_papers::run(suite, &options, &mut bar);
        bar.finish();
        let report = match report {
            Err(why) if asked > 1 => Report::failed(suite, why),
            report => report?,
        };
        results.suites.push(report);
        results.finished = results.suites.len() == asked && !interrupt::is_asked();
        file.map_or(Ok(()), |file| results.write(file))?;
        let report = &results.suites[results.suites.len() - 1];
        screen.show(|| print(report))?;
        for problem in &report.problems {
            // They are in the results as well, wherever those go.
            let _ = writeln!(io::stderr(), "sablecat: {}: {problem}", report.suite);
        }
        if interrupt::is_asked() {
            break;
        }
    }
    if to_output {
        output::json(&results)?;
    }
    if results.suites.iter().any(|report| !report.problems.is_empty()) {
        return Ok(Outcome::No);
    }
    screen.failed.map_or(Ok(Outcome::Done), Err)
}

/// Where people read. What is saved in a file is worth measuring though nobody can read it here.
struct Screen {
    wanted: bool,
    /// Whether what is not shown is lost.
    is_needed: bool,
    /// Why nothing more is shown.
    failed: Option<Failure>,
}

impl Screen {
    fn show(&mut self, print: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.wanted || self.failed.is_some() {
            return Ok(());
        }
        match print() {
            Err(failure) if !self.is_needed => self.failed = Some(failure),
            done => done?,
        }
        Ok(())
    }
}

impl Arguments {
    fn options(&self) -> Result<Options, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot find this program to run it again: {error}"))?;
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        if dir.to_str().is_none() {
            // Stores are told their places as text.
            return Err(format!("{} is no UTF-8: name another directory with --dir", dir.display()).into());
        }
        Ok(Options {
            quick: self.quick,
            shared: self.shared,
            keys: self.keys.map(|keys| match keys {
                KeysName::Sequential => Keys::Sequential,
                KeysName::Random => Keys::Random,
            }),
            records: self.records,
            cache: self.cache,
            vs: self.vs.clone().map(|names| if names == ["none"] { Vec::new() } else { names }),
            dir,
            rounds: self.repeat,
            cases: self.cases.as_ref().map(|cases| cases.iter().map(|&case| case.into()).collect()),
            size: self.size,
            serve: vec![program.clone().into(), serve::NAME.into()],
            threen1: threen1::Options {
                input: self.input.as_deref().map(read).transpose()?,
                workers: self.workers.clone(),
                options: self.options.clone(),
                file_systems: self.file_systems.clone(),
                kills: threen1::Kills {
                    every: self.kill_every.map(Duration::from_millis),
                    all_at_percent: self.kill_all_at,
                },
                worker: vec![program.clone().into(), work::NAME.into()],
            },
            sql: sql::Options {
                at_once: self.threads.clone(),
                processes_only: self.processes,
                fill: self.fill,
                worker: vec![program.into(), statements::NAME.into()],
            },
        })
    }
}

impl From<CaseName> for Case {
    fn from(name: CaseName) -> Case {
        match name {
            CaseName::Replay => Case::Replay,
            CaseName::Open => Case::Open,
            CaseName::Checkpoint => Case::Checkpoint,
            CaseName::Deadlock => Case::Deadlock,
            CaseName::Attach => Case::Attach,
            CaseName::Large => Case::Large,
            CaseName::Spill => Case::Spill,
            CaseName::Methods => Case::Methods,
            CaseName::Queue => Case::Queue,
            CaseName::Hash => Case::Hash,
            CaseName::Duplicates => Case::Duplicates,
            CaseName::Secondary => Case::Secondary,
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()).into())
}

fn print(report: &Report) -> Result<(), Failure> {
    output::line(&format!("\n{}", report.suite))?;
    for note in &report.notes {
        output::line(note)?;
    }
    for grid in report.grids() {
        output::line("")?;
        output::table(&grid)?;
    }
    Ok(())
}

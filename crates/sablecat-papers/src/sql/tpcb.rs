//! TPC-B, as the white paper on Berkeley DB 11g Release 2 ran it on its SQL: transfers in a bank of 1,000
//! branches, 10,000 tellers and 100,000 accounts, with 256 MB of cache, by 1 to 10 threads with a connection
//! each; without waiting for the disk and with it. And the same by processes, and by processes nine of ten of
//! whose transactions only look at an account.
//!
//! After each run the sums over accounts, tellers, branches and history are compared with what was
//! transferred, and the rows of the history with how often. A run in which one of them is wrong has failed.
//!
//! What is not TPC-B's: a branch has a hundred accounts instead of a hundred thousand, transactions come as
//! fast as they can, and how long single ones take is not told.

use std::path::Path;

use sablecat_os::interrupt;

use super::bank;
use super::crew::{Crew, Opening};
use super::protocol::{Done, Request, Transfers};
use super::scale::Scale;
use super::systems::{OURS, System, UseBy};
use super::{Found, cache_bytes, row};
use crate::beside::{Line, NONE, Said, Table};
use crate::field::Outcome;
use crate::grid::{Grid, ratio, thousands};
use crate::protocol::Mode;
use crate::row::Row;
use crate::{Options, Progress, Report, Suite};

const ACCOUNTS: u64 = 100_000;
const ACCOUNTS_QUICK: u64 = 2_000;

/// How long a run takes.
const SECONDS: f64 = 3.0;
const SECONDS_QUICK: f64 = 0.1;

/// Threads, and what the paper says of them: transactions a second.
const PAPER: [(u32, f64); 6] =
    [(1, 1846.71), (2, 2310.84), (3, 2508.26), (4, 2678.14), (5, 2808.51), (10, 2859.15)];
const AT_ONCE_QUICK: [u32; 2] = [1, 3];

/// The mix, which only processes run: how many, and how many of a hundred transactions are transfers.
const MIX: &str = "processes, 10 % transfers";
const MIX_AT_ONCE: u32 = 4;
const MIX_PERCENT: u32 = 10;

const MODES: [(Mode, &str); 2] = [(Mode::NoSync, "sync off"), (Mode::Sync, "sync on")];

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    op: &'static str,
    mode: Mode,
    at_once: u32,
    processes: bool,
    transfers_percent: u32,
}

impl Case {
    fn all(options: &Options) -> Vec<Case> {
        let asked = &options.sql.at_once;
        let at_once: Vec<u32> = match () {
            () if !asked.is_empty() => asked.clone(),
            () if options.quick => AT_ONCE_QUICK.into(),
            () => PAPER.map(|(threads, _)| threads).into(),
        };
        let mut cases = Vec::new();
        for (processes, op) in [(false, "threads"), (true, "processes")] {
            if !processes && options.sql.processes_only {
                continue;
            }
            for (mode, _) in MODES {
                // One process is one thread.
                let several = at_once.iter().filter(|&&at_once| at_once > 1 || !processes);
                cases.extend(several.map(|&at_once| Case {
                    op,
                    mode,
                    at_once,
                    processes,
                    transfers_percent: 100,
                }));
            }
        }
        let (mode, at_once) = (Mode::NoSync, MIX_AT_ONCE);
        cases.push(Case { op: MIX, mode, at_once, processes: true, transfers_percent: MIX_PERCENT });
        cases
    }

    fn use_by(&self) -> UseBy {
        match (self.processes, self.at_once) {
            (true, _) => UseBy::Processes,
            (false, 1) => UseBy::One,
            (false, _) => UseBy::Threads,
        }
    }

    fn label(&self) -> String {
        let sync = MODES.iter().find(|(mode, _)| *mode == self.mode).map_or("", |(_, words)| words);
        format!("{}, {sync}", self.op)
    }

    fn line(&self) -> Line {
        let paper = PAPER.iter().find(|(threads, _)| *threads == self.at_once);
        let said = paper.filter(|_| !self.processes && self.mode == Mode::NoSync);
        Line::new(self.label(), self.mode, self.op)
            .threads(self.at_once)
            .paper(said.map_or(Said::Nothing, |(_, figure)| Said::Figure(*figure)))
    }
}

/// Runs the suite.
pub(crate) fn run(
    options: &Options,
    rounds: u32,
    dir: &Path,
    progress: &mut dyn Progress,
) -> Result<Report, String> {
    let quick = options.quick;
    let scale = Scale::of_accounts(options.records.unwrap_or(if quick { ACCOUNTS_QUICK } else { ACCOUNTS }));
    let cache_bytes = cache_bytes(options);
    let seconds = if quick { SECONDS_QUICK } else { SECONDS };
    let Found { systems, notes, took } = Found::find(options.vs.as_deref(), &options.sql.worker)?;
    let cases = Case::all(options);
    let mut outcome = Outcome { notes, ..Outcome::default() };
    progress.start((cases.len() * systems.len()) as u64 * u64::from(rounds));
    for case in &cases {
        let opening =
            Opening { worker: &options.sql.worker, mode: case.mode, cache_bytes, use_by: case.use_by() };
        let mut done: Vec<Vec<Done>> = vec![Vec::new(); systems.len()];
        for round in 0..rounds {
            for (system, done) in systems.iter().zip(&mut done) {
                if interrupt::is_asked() {
                    break;
                }
                let label = format!("{} {}, {}", system.name, case.label(), case.at_once);
                progress.step(&label);
                match measure(system, case, (scale, seconds, round), opening, &dir.join("bank")) {
                    Ok(run) => done.push(run),
                    // It has been ended, and why is said once.
                    Err(_) if interrupt::is_asked() => {}
                    Err(why) => outcome.problems.push(format!("{label}: {why}")),
                }
            }
        }
        let made = systems.iter().zip(&done).filter_map(|(system, done)| {
            row(system, case.mode, case.op, (case.at_once, scale.accounts(), cache_bytes), done)
        });
        outcome.rows.extend(made);
    }
    let title = format!(
        "{} branches, {} tellers, {} accounts, {} MB of cache",
        thousands(scale.branches as f64),
        thousands(scale.tellers() as f64),
        thousands(scale.accounts() as f64),
        cache_bytes >> 20
    );
    let table = Table {
        unit: format!("transactions a second, medians of {rounds}"),
        paper: Some("paper".to_owned()),
        axis: Some("threads".to_owned()),
        lines: cases.iter().map(Case::line).collect(),
        remarks: vec![
            "The paper does not say what its commits waited for. Its figures stand beside runs that wait \
             for nothing."
                .to_owned(),
        ],
        ..Table::new(title, rounds)
    };
    let grids = vec![costs(&table, &systems, &outcome.rows)];
    Ok(Report { systems: took, grids, ..Report::of(Suite::Tpcb, Some(cache_bytes), outcome, vec![table]) })
}

/// One run, of a new bank, which is looked at afterwards.
fn measure(
    system: &'static System,
    case: &Case,
    (scale, seconds, round): (Scale, f64, u32),
    opening: Opening<'_>,
    dir: &Path,
) -> Result<Done, String> {
    let mut crew = Crew::new(system, opening, dir)?;
    crew.ask(&Request::Bank(scale))?;
    let (processes, threads) = if case.processes { (case.at_once, 1) } else { (1, case.at_once) };
    for _ in 1..processes {
        crew.join()?;
    }
    let done = crew.ask_all(|process| {
        let seed = u64::from(round) << 16 | process as u64;
        Request::Transfer(Transfers {
            scale,
            threads,
            seed,
            seconds,
            transfers_percent: case.transfers_percent,
        })
    })?;
    let mut all = Done::side_by_side(done);
    let sums = crew.ask(&Request::Sums)?.numbers;
    if let Some(problem) = bank::problem(&sums, all.moved, all.transfers) {
        return Err(problem);
    }
    all.disk_mb = crew.close()?;
    Ok(all)
}

/// How ours relates to each peer, processor time, and transactions that were begun anew.
fn costs(table: &Table, systems: &[&System], rows: &[Row]) -> Grid {
    let mut grid = Grid::new(
        format!(
            "tpcb, {}: ours to each, microseconds of processors a transaction, transactions begun anew of a \
             thousand",
            table.title
        ),
        ["operation", "threads"],
        1,
    );
    let names: Vec<&str> = systems.iter().map(|system| system.name).collect();
    let peers = || names.iter().filter(|name| **name != OURS);
    grid.heads.extend(peers().map(|name| format!("{OURS} / {name}")));
    grid.heads.extend(names.iter().map(|name| format!("{name} µs CPU")));
    grid.heads.extend(names.iter().map(|name| format!("{name} anew")));
    let rows = table.rows(rows);
    for line in &table.lines {
        let of = |name: &str| line.of(name, &rows);
        let spent = |name: &str| of(name).and_then(|row| row.sql.as_ref());
        let cell =
            |figure: Option<f64>| figure.map_or_else(|| NONE.to_owned(), |figure| format!("{figure:.1}"));
        let mut cells = vec![table.label(line), line.threads.to_string()];
        cells.extend(peers().map(|name| ratio(table.figure.share(of(OURS), of(name)))));
        cells.extend(names.iter().map(|name| cell(spent(name).map(|spent| spent.cpu_us))));
        cells.extend(names.iter().map(|name| cell(spent(name).map(|spent| spent.again_of_1000))));
        grid.rows.push(cells);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Spent;

    #[test]
    fn the_paper_stands_beside_threads_that_wait_for_nothing() {
        let options = crate::tests::options();
        let lines: Vec<Line> = Case::all(&options).iter().map(Case::line).collect();
        assert_eq!(lines.len(), 2 * 6 + 2 * 5 + 1);
        assert_eq!((lines[5].threads, &lines[5].paper), (10, &Said::Figure(2859.15)));
        assert!(lines[6..].iter().all(|line| line.paper == Said::Nothing));
        assert_eq!(lines[22].label, "processes, 10 % transfers, sync off");
        let sql = crate::sql::Options { at_once: vec![1, 7], processes_only: true, ..options.sql.clone() };
        let few = Case::all(&Options { sql, ..options });
        let shown: Vec<_> = few.iter().map(|case| (case.op, case.mode, case.at_once)).collect();
        assert_eq!(
            shown,
            [("processes", Mode::NoSync, 7), ("processes", Mode::Sync, 7), (MIX, Mode::NoSync, 4)]
        );
    }

    #[test]
    fn ours_is_compared_with_each_peer() {
        let system = |name| System::named(name).unwrap();
        let done = |ops, again| Done { ops, again, seconds: 2.0, cpu_seconds: 1.0, ..Done::default() };
        let of = |name, ops, again| {
            row(system(name), Mode::NoSync, "threads", (2, 10, 1 << 20), &[done(ops, again)]).unwrap()
        };
        let rows = [of(OURS, 3000, 30), of("sqlite", 2000, 0)];
        assert_eq!(rows[1].sql, Some(Spent { us: 1000.0, cpu_us: 500.0, again_of_1000: 0.0 }));
        let case =
            Case { op: "threads", mode: Mode::NoSync, at_once: 2, processes: false, transfers_percent: 100 };
        let table = Table { lines: vec![case.line()], ..Table::new("t", 1) };
        let grid = costs(&table, &[system(OURS), system("sqlite")], &rows);
        assert_eq!(grid.rows, [["threads, sync off", "2", "1.50", "333.3", "500.0", "10.0", "0.0"]]);
        assert_eq!(grid.heads.len(), 7);
    }
}

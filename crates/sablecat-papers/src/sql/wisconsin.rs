//! The Wisconsin benchmark: 32 queries on the standard relations, by one user, each run ten times, as the
//! white paper on Berkeley DB 11g Release 2 ran it on its SQL. And rows inserted by millions into a table
//! with two indices, which it does not have.
//!
//! A run of a query compiles its text, runs it and takes its rows; a query that changes something is a
//! transaction. Nothing waits for the disk. Each is run once before that counts, and afterwards what it has
//! left is compared with what is known of the relations. Times are means of ten, and medians of some rounds
//! of these.

use std::path::Path;

use sablecat_os::interrupt;

use super::crew::{Crew, Opening};
use super::protocol::{Done, Query, Request};
use super::queries::{self, Case};
use super::systems::{OURS, System, UseBy};
use super::{Found, cache_bytes, row};
use crate::beside::NONE;
use crate::charted::Point;
use crate::field::Outcome;
use crate::grid::{Cell, Grid, is_lost, ratio, ratio_to_best, thousands};
use crate::protocol::Mode;
use crate::row::Row;
use crate::{Charted, Dots, Options, Progress, Report, Suite};

/// Rows of the large relations.
const ROWS: u64 = 10_000;
const ROWS_QUICK: u64 = 1_000;
/// They are a multiple of that.
const ROWS_STEP: u64 = 100;

/// How often a query is run.
const TIMES: u32 = 10;
/// And no longer than that.
const SECONDS_MAX: f64 = 20.0;

/// Rows that are inserted into a table with two indices, in one round: they take long.
const FILL_ROWS: u64 = 10_000_000;
const FILL_ROUNDS: u32 = 1;
const FILL_ROWS_QUICK: u64 = 10_000;
/// As rows of the report have it.
const FILL: &str = "fill";
/// So many bytes of cache for each of its rows, if the machine has them four times, so that it is not a
/// matter of the cache.
const FILL_CACHE_A_ROW: u64 = 256;

const MODE: Mode = Mode::NoSync;

/// Runs the suite.
pub(crate) fn run(
    options: &Options,
    rounds: u32,
    dir: &Path,
    progress: &mut dyn Progress,
) -> Result<Report, String> {
    let quick = options.quick;
    let rows = options.records.unwrap_or(if quick { ROWS_QUICK } else { ROWS });
    let rows = rows.next_multiple_of(ROWS_STEP).max(ROWS_STEP);
    // The relations need a twentieth of it.
    let cache_bytes = cache_bytes(options);
    let filled = options.sql.fill.unwrap_or(if quick { FILL_ROWS_QUICK } else { FILL_ROWS });
    let fill_rounds = options.rounds.unwrap_or(if quick { rounds } else { FILL_ROUNDS });
    let Found { systems, notes, took } = Found::find(options.vs.as_deref(), &options.sql.worker)?;
    let cases = queries::all(rows);
    let opening = Opening { worker: &options.sql.worker, mode: MODE, cache_bytes, use_by: UseBy::One };
    let mut outcome = Outcome { notes, ..Outcome::default() };
    progress.start(systems.len() as u64 * u64::from(rounds + fill_rounds));

    // A round of a system is all queries, on a database that is new.
    let mut queried: Vec<Vec<Vec<Done>>> = vec![vec![Vec::new(); cases.len()]; systems.len()];
    let mut fills: Vec<Vec<Done>> = vec![Vec::new(); systems.len()];
    for _ in 0..rounds {
        for (system, queried) in systems.iter().zip(&mut queried) {
            if interrupt::is_asked() {
                break;
            }
            progress.step(&format!("{}, {} queries", system.name, cases.len()));
            let mut problems = Vec::new();
            let done = query(system, opening, &dir.join("relations"), rows, &cases, queried, &mut problems);
            problems.extend(done.err().map(|why| format!("{}: {why}", system.name)));
            if !interrupt::is_asked() {
                outcome.problems.append(&mut problems);
            }
        }
    }
    let wanted = (filled * FILL_CACHE_A_ROW).min(sablecat_os::machine::memory_bytes() / 4);
    let opening = Opening { cache_bytes: cache_bytes.max(wanted), ..opening };
    for _ in 0..fill_rounds {
        for (system, fills) in systems.iter().zip(&mut fills) {
            if interrupt::is_asked() {
                break;
            }
            progress.step(&format!("{}, {} rows inserted", system.name, thousands(filled as f64)));
            match fill(system, opening, &dir.join("goods"), filled) {
                Ok(done) => fills.push(done),
                Err(_) if interrupt::is_asked() => {}
                Err(why) => outcome.problems.push(format!("{} {FILL}: {why}", system.name)),
            }
        }
    }
    for (number, case) in cases.iter().enumerate() {
        let of = |(system, queried): (&&'static System, &Vec<Vec<Done>>)| {
            row(system, MODE, case.op, (1, rows, cache_bytes), &queried[number])
        };
        outcome.rows.extend(systems.iter().zip(&queried).filter_map(of));
    }
    let of = |(system, fills): (&&'static System, &Vec<Done>)| {
        row(system, MODE, FILL, (1, filled, opening.cache_bytes), fills)
    };
    outcome.rows.extend(systems.iter().zip(&fills).filter_map(of));

    let names: Vec<&str> = systems.iter().map(|system| system.name).collect();
    let grids = vec![
        times(rows, &cases, &names, &outcome.rows, rounds),
        processors(&cases, &names, &outcome.rows),
        filling(filled, &names, &outcome.rows, fill_rounds),
    ];
    Ok(Report {
        systems: took,
        grids,
        ..Report::of(Suite::Wisconsin, Some(cache_bytes), outcome, Vec::new())
    })
}

/// All queries, one after the other, in a new database.
fn query(
    system: &'static System,
    opening: Opening<'_>,
    dir: &Path,
    rows: u64,
    cases: &[Case],
    into: &mut [Vec<Done>],
    problems: &mut Vec<String>,
) -> Result<(), String> {
    let mut crew = Crew::new(system, opening, dir)?;
    crew.ask(&Request::Relations { rows })?;
    for (case, into) in cases.iter().zip(into) {
        if interrupt::is_asked() {
            return Ok(());
        }
        let query = Query { times: TIMES, seconds_max: SECONDS_MAX, ..case.query.clone() };
        let done = crew.ask(&Request::Query(query))?;
        if done.numbers == case.expected {
            into.push(done);
        } else {
            problems.push(format!(
                "{} query {}, {}: {:?} instead of {:?}",
                system.name, case.op, case.what, done.numbers, case.expected
            ));
        }
    }
    crew.close().map(|_| ())
}

fn fill(system: &'static System, opening: Opening<'_>, dir: &Path, rows: u64) -> Result<Done, String> {
    let mut crew = Crew::new(system, opening, dir)?;
    let done = crew.ask(&Request::Fill { rows })?;
    Ok(Done { disk_mb: crew.close()?, ..done })
}

fn of<'a>(rows: &'a [Row], system: &str, op: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.system == system && row.op == op)
}

/// Milliseconds that an operation took, and how far its runs lie apart in that.
pub(crate) fn ms(row: &Row) -> Option<Point> {
    let range = row.range().map(|range| range.map(|rate| 1000.0 / rate));
    row.sql.as_ref().map(|spent| (spent.us / 1000.0, range))
}

/// Milliseconds of processors that an operation took.
fn cpu_ms(row: &Row) -> Option<f64> {
    row.sql.as_ref().map(|spent| spent.cpu_us / 1000.0)
}

fn shown(ms: Option<f64>) -> String {
    ms.map_or_else(|| NONE.to_owned(), |ms| format!("{ms:.3}"))
}

fn label(case: &Case) -> String {
    format!("{}: {}", case.op, case.what)
}

/// What a row of this suite is called; none: it is of no query.
pub(crate) fn label_of(op: &str) -> Option<String> {
    Some(format!("{op}: {}", queries::what(op)?))
}

/// The paper's table: milliseconds of each query.
fn times(relation: u64, cases: &[Case], names: &[&str], rows: &[Row], rounds: u32) -> Grid {
    let title = format!(
        "wisconsin, relations of {} rows; milliseconds, means of {TIMES}, medians of {rounds} of these",
        thousands(relation as f64)
    );
    let mut grid = Grid::new(title, ["query", "paper"], 1);
    grid.heads.extend(names.iter().map(|&name| name.to_owned()));
    grid.heads.push("ratio".to_owned());
    let mut charted = Charted { paper: Some("paper, 2011".to_owned()), ..Charted::new("Milliseconds") };
    for case in cases {
        let takes = |name: &str| of(rows, name, case.op).and_then(ms);
        let each: Vec<Option<Point>> = names.iter().map(|name| takes(name)).collect();
        let best = each.iter().skip(1).flatten().map(|(ms, _)| *ms).min_by(f64::total_cmp);
        let mut cells: Vec<Cell> = vec![label(case).into(), format!("{:.3}", case.paper_ms).into()];
        cells.extend(each.iter().map(|point| match point {
            Some((ms, range)) => Cell { text: shown(Some(*ms)), range: *range },
            None => NONE.into(),
        }));
        let faster = each[0].zip(best).map(|((ours, _), best)| best / ours);
        charted.lines.push(Dots {
            paper: Some(case.paper_ms),
            is_behind: is_lost(faster, best),
            ..Dots::of(label(case), names.iter().copied(), takes)
        });
        cells.push(ratio_to_best(faster, best).into());
        grid.push(cells);
    }
    grid.charted = Some(charted);
    grid.remarks.push(format!(
        "The ratio says how many times as fast {OURS} is as the fastest peer. The paper's relations were of \
         10,000 rows."
    ));
    grid
}

/// Milliseconds of processors, and how ours relates to each.
fn processors(cases: &[Case], names: &[&str], rows: &[Row]) -> Grid {
    let mut grid = Grid::new("wisconsin, milliseconds of processors, and ours to each peer's", ["query"], 1);
    let peers: Vec<&str> = names.iter().copied().filter(|name| *name != OURS).collect();
    grid.heads.extend(names.iter().map(|name| format!("{name} CPU")));
    grid.heads.extend(peers.iter().map(|name| format!("{OURS} / {name}")));
    let share = |case: &Case, peer: &str| {
        Some(cpu_ms(of(rows, OURS, case.op)?)? / cpu_ms(of(rows, peer, case.op)?)?.max(1e-6))
    };
    let mut charted = Charted::new("Milliseconds of processors");
    for case in cases {
        let takes = |name: &str| of(rows, name, case.op).and_then(cpu_ms);
        let point = |name: &str| Some((takes(name)?, None));
        charted.lines.push(Dots::of(label(case), names.iter().copied(), point));
        let mut cells = vec![label(case)];
        cells.extend(names.iter().map(|name| shown(takes(name))));
        cells.extend(peers.iter().map(|peer| ratio(share(case, peer))));
        grid.rows.push(cells);
    }
    grid.charted = Some(charted);
    for peer in peers {
        let all: Vec<(f64, &str)> =
            cases.iter().filter_map(|case| Some((share(case, peer)?, case.op))).collect();
        let Some((most, which)) = all.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let mean = all.iter().map(|(share, _)| share).sum::<f64>() / all.len() as f64;
        let within = all.iter().filter(|(share, _)| *share <= 1.0).count();
        grid.remarks.push(format!(
            "{OURS}'s processor time to {peer}'s: {} in the mean, at most {} (query {which}), no more in \
             {within} of {}.",
            ratio(Some(mean)),
            ratio(Some(most)),
            all.len()
        ));
    }
    grid
}

/// Rows inserted into a table with two indices.
fn filling(filled: u64, names: &[&str], rows: &[Row], rounds: u32) -> Grid {
    let title = format!(
        "wisconsin, {} rows inserted in one transaction into a table with two indices; medians of {rounds}",
        thousands(filled as f64)
    );
    let mut grid =
        Grid::new(title, ["system", "rows a second", "µs CPU a row", "MB on disk", "ours / it"], 1);
    let ours = of(rows, OURS, FILL);
    for name in names {
        let Some(row) = of(rows, name, FILL) else { continue };
        grid.push([
            (*name).into(),
            Cell { text: thousands(row.ops_per_s), range: row.range() },
            row.sql.as_ref().map_or_else(|| NONE.into(), |spent| format!("{:.2}", spent.cpu_us).into()),
            format!("{:.1}", row.disk_mb).into(),
            ratio(ours.map(|ours| ours.ops_per_s / row.ops_per_s)).into(),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(system: &str, op: &'static str, seconds: f64, cpu_seconds: f64) -> Row {
        let done = Done { ops: 10, seconds, cpu_seconds, ..Done::default() };
        row(System::named(system).unwrap(), MODE, op, (1, 1000, 1 << 20), &[done]).unwrap()
    }

    #[test]
    fn a_query_is_shown_beside_the_paper_and_the_fastest_peer() {
        let cases = queries::all(1000);
        let names = [OURS, "sqlite", "bdb-sql"];
        let rows = [
            made(OURS, "1", 0.02, 0.01),
            made("sqlite", "1", 0.03, 0.02),
            made("bdb-sql", "1", 0.05, 0.05),
            made(OURS, "2", 0.02, 0.03),
            made("sqlite", "2", 0.01, 0.02),
        ];
        let times = times(1000, &cases, &names, &rows, 3);
        assert_eq!(times.rows[0], ["1: 1 % selection, no index", "8.175", "2.000", "3.000", "5.000", "1.50"]);
        assert_eq!(times.rows[1][4..], ["—", "▼ 0.50"]);
        assert_eq!(times.rows[2][2..], ["—", "—", "—", "—"]);
        let drawn = |grid: &Grid, at: usize| {
            let line = &grid.charted.as_ref().unwrap().lines[at];
            let values = line.values.iter().map(|(system, value)| format!("{system} {value:.1}"));
            (line.is_behind, line.paper, values.collect::<Vec<_>>().join(", "))
        };
        let first = (false, Some(8.175), "sablecat 2.0, sqlite 3.0, bdb-sql 5.0".to_owned());
        assert_eq!((drawn(&times, 0), drawn(&times, 1).0), (first, true));
        let processors = processors(&cases, &names, &rows);
        assert_eq!(drawn(&processors, 1), (false, None, "sablecat 3.0, sqlite 2.0".to_owned()));
        assert_eq!(processors.rows[0][1..], ["1.000", "2.000", "5.000", "0.50", "0.20"]);
        assert_eq!(
            processors.remarks[0],
            "sablecat's processor time to sqlite's: 1.00 in the mean, at most 1.50 (query 2), no more in 1 \
             of 2."
        );
    }
}

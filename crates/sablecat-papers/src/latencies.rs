//! How long single operations take under concurrency: as many threads as processors, two to four, that read
//! and update records of 24 + 100 bytes at random, half and half, at each durability, first as it comes and
//! then with checkpoints all the time; and threads that only read. More threads would measure how long the
//! system lets each of them run.
//!
//! Every operation is timed. A time counts as well for those operations that could not begin meanwhile
//! ([`crate::latency`]), so that the figures are those of a caller that comes at any moment, and not of a
//! loop that waits. The longest operation of each run is named, with what it met.

use std::ops::RangeInclusive;

use crate::beside::Figure;
use crate::contestant::{DEVICE, is_ours, keeps_promise};
use crate::field::Field;
use crate::grid::{Cell, Grid, ratio_to_best, thousands};
use crate::latency::Latency;
use crate::mix::Mix;
use crate::protocol::{Kind, Mode};
use crate::session::{Session, Step};
use crate::shape::Shape;
use crate::workload::Keys;
use crate::{Machine, OURS, Options, Report, Row, Suite};

const SHAPE: Shape = Shape::new(24, 100, 100, true);

/// More than one, and no more than there are processors, if that can be.
const THREADS: RangeInclusive<u32> = 2..=4;
const RECORDS: u64 = 500_000;
const RECORDS_QUICK: u64 = 20_000;

/// Times the records that the cache is.
const CACHE_TIMES: u64 = 4;
const CACHE_BYTES_MIN: u64 = 32 << 20;

/// Each promise that a commit can make.
const MODES: [Mode; 4] = [Mode::Memory, Mode::NoSync, Mode::WriteNoSync, Mode::Sync];

/// What is run: its name, the share of reads, and whether there are checkpoints all the time.
const RUNS: [(&str, u32, bool); 3] =
    [("alone", 100, false), ("of half and half", 50, false), ("of half and half, checkpoints", 50, true)];

/// The lines of the tables: a kind of operation in a run.
const LINES: [&str; 5] = [
    "read alone",
    "read of half and half",
    "write of half and half",
    "read of half and half, checkpoints",
    "write of half and half, checkpoints",
];

/// How long there is no checkpoint between two.
const CHECKPOINT_MS: u64 = 200;
const CHECKPOINT_MS_QUICK: u64 = 20;

/// Operations that are drawn for each second that a run may last.
const OPERATIONS_A_SECOND: f64 = 4e6;

/// Runs the suite.
pub(crate) fn run(options: &Options, mut field: Field<'_>) -> Report {
    let records = options.records.unwrap_or(if options.quick { RECORDS_QUICK } else { RECORDS }).max(1);
    let cpus = u32::try_from(Machine::here().cpus).unwrap_or(u32::MAX);
    let threads = cpus.clamp(*THREADS.start(), *THREADS.end());
    let data = records * SHAPE.record_bytes();
    let cache_bytes = options.cache.unwrap_or((data * CACHE_TIMES).max(CACHE_BYTES_MIN));
    let base = Session {
        threads,
        in_cache: options.cache.is_none(),
        shape: SHAPE,
        ..Session::new(Mode::NoSync, Keys::Random, records, cache_bytes)
    };
    // The disk can only be overwritten.
    field.contestants.retain(|contestant| contestant.name() != DEVICE);
    let outcome = field.run(&MODES.map(|mode| session(&base, mode, options.quick)));
    let head = format!(
        "{} records of 24 + 100 bytes, {threads} threads, {} MB of cache",
        thousands(records as f64),
        cache_bytes >> 20
    );
    let mut grids = vec![worst(&head, &outcome.rows)];
    grids.extend(MODES.map(|mode| all(&head, mode, &outcome.rows)));
    Report { grids, ..Report::of(Suite::Latency, Some(cache_bytes), outcome, Vec::new()) }
}

fn session(base: &Session, mode: Mode, quick: bool) -> Session {
    let seconds_max = if quick { 0.04 } else { 4.0 };
    let checkpoint_ms = if quick { CHECKPOINT_MS_QUICK } else { CHECKPOINT_MS };
    let step = |(op, read, with_checkpoints): (&'static str, u32, bool)| {
        let operations = (seconds_max * OPERATIONS_A_SECOND) as u64;
        let mix = Mix::lookups_and_updates(read, operations);
        Step {
            op,
            mix: Some(mix),
            timed: true,
            checkpoint_ms: if with_checkpoints { checkpoint_ms } else { 0 },
            ..Step::new(Kind::Mix, 1, seconds_max)
        }
    };
    let steps = [Step::aside(Kind::Load)].into_iter().chain(RUNS.map(step)).chain([Step::aside(Kind::Bulk)]);
    Session { mode, steps: steps.collect(), ..base.clone() }
}

fn of<'a>(rows: &'a [Row], mode: Mode, op: &str) -> Vec<(&'a Row, &'a Latency)> {
    let wanted = rows.iter().filter(|row| row.mode == mode && row.op == op);
    wanted.filter_map(|row| Some((row, row.latency.as_ref()?))).collect()
}

/// What one operation in a thousand takes at least: ours beside the peer that takes the least.
fn worst(head: &str, rows: &[Row]) -> Grid {
    let title = format!("latency, one in a thousand takes longer: {head}; microseconds");
    let mut grid = Grid::new(title, ["operation", OURS, "best peer", "which", "ratio"], 1);
    for mode in MODES {
        for op in LINES {
            let mut all = of(rows, mode, op);
            all.retain(|(row, _)| row.errors == 0);
            let ours = all.iter().find(|(row, _)| row.system == OURS).map(|(_, latency)| *latency);
            let peers =
                all.iter().filter(|(row, _)| !is_ours(&row.system) && keeps_promise(&row.system, mode));
            let best = peers.min_by(|a, b| a.1.p999_us.total_cmp(&b.1.p999_us));
            let theirs = best.map(|(_, latency)| *latency);
            let us = |latency: Option<&Latency>| latency.map_or_else(|| "—".into(), thousandth);
            let share = ours.zip(theirs).map(|(ours, theirs)| theirs.p999_us / ours.p999_us);
            grid.push([
                format!("{} {op}", mode.name()).into(),
                us(ours),
                us(theirs),
                best.map_or("—", |(row, _)| &row.system).into(),
                ratio_to_best(share, theirs.map(|theirs| theirs.p999_us)).into(),
            ]);
        }
    }
    grid.remarks = vec![
        "The ratio is the peer's time to ours, so that more is better. Times count for operations that \
         could not begin meanwhile."
            .to_owned(),
        "LevelDB, RocksDB and fjall make no checkpoints: they merge files when they find it due, in every \
         run. Where there are checkpoints, their logs are flushed; redb's is an empty commit that is durable."
            .to_owned(),
    ];
    grid
}

/// All systems at one durability.
fn all(head: &str, mode: Mode, rows: &[Row]) -> Grid {
    let title = format!("latency, {}: {head}; microseconds", mode.name());
    let heads =
        ["operation", "system", "operations/s", "p50", "p99", "p99.9", "longest", "the run's longest stall"];
    let mut grid = Grid::new(title, heads, 2);
    for op in LINES {
        for (row, latency) in of(rows, mode, op) {
            let time = |us: f64| Cell::from(micros(us));
            grid.push([
                op.into(),
                row.system.clone().into(),
                Figure::Median.cell(Some(row)),
                time(latency.p50_us),
                time(latency.p99_us),
                thousandth(latency),
                time(latency.max_us),
                latency.stall.clone().into(),
            ]);
        }
    }
    grid
}

/// What one operation in a thousand takes at least.
fn thousandth(latency: &Latency) -> Cell {
    Cell { text: micros(latency.p999_us), range: latency.range() }
}

/// Microseconds, with a digit more where there are few.
pub(crate) fn micros(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { thousands(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::tests::row;

    #[test]
    fn every_line_is_measured_by_a_run() {
        let base = Session { shape: SHAPE, threads: 2, ..Session::new(Mode::Ds, Keys::Random, 100, 1) };
        let session = session(&base, Mode::Sync, true);
        for line in LINES {
            let is_of =
                |step: &&Step| ["read", "write"].iter().any(|word| format!("{word} {}", step.op) == line);
            let found: Vec<&Step> = session.steps.iter().filter(is_of).collect();
            assert!(matches!(found[..], [Step { timed: true, mix: Some(_), .. }]), "{line}");
            assert_eq!(found[0].checkpoint_ms > 0, line.ends_with("checkpoints"), "{line}");
        }
    }

    #[test]
    fn who_takes_less_is_ahead() {
        let with = |system: &str, p999_us: f64| {
            let stall = "read of 1.0 ms".to_owned();
            let p999_runs_us = vec![p999_us, p999_us + 2.0, p999_us - 1.0];
            let latency = Latency { p50_us: 1.0, p99_us: 2.0, p999_us, max_us: 5000.0, stall, p999_runs_us };
            Row { latency: Some(latency), ..row(system, Mode::Sync, LINES[0], 2, 1000.0) }
        };
        let rows = [with(OURS, 20.0), with("a", 10.0), with("b", 5.0)];
        let grid = worst("x", &rows);
        assert_eq!(grid.rows[15], ["Sync read alone", "20", "5.0", "b", "▼ 0.25"]);
        assert_eq!(grid.rows[0][1..], ["—", "—", "—", "—"]);
        let range = |grid: &Grid, row, column| grid.range(row, column).map(|range| range.to_string());
        assert_eq!(range(&grid, 15, 1).unwrap(), "19.0–22.0");
        let grid = all("x", Mode::Sync, &rows);
        assert_eq!(range(&grid, 1, 5).unwrap(), "9.00–12.0");
        assert_eq!(grid.rows[1], ["read alone", "a", "1,000", "1.0", "2.0", "10", "5,000", "read of 1.0 ms"]);
    }
}

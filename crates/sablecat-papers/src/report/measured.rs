//! What the suites have measured that have no tables of rates, in several files: how long single operations
//! take, the cases of the engine's suite, queries, processes with one database.
//!
//! A line is a row of the first file's that is ours and that another file has as well: the same operation at
//! the same durability. If a file has several, which differ in their records or their cache, it is the one
//! with the same. Where times are compared, ratios are turned round, so that more is better everywhere.

use crate::contestant::{is_ours, keeps_promise};
use crate::grid::{Cell, Grid, ratio, ratio_to_best, thousands};
use crate::latencies::micros;
use crate::sql::wisconsin;
use crate::{OURS, Range, Report, Row, Rows, Suite, engine, threen1};

/// What figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    OperationsASecond,
    StepsASecond,
    Milliseconds,
    Microseconds,
    /// One operation in a thousand takes longer.
    ThousandthInMicroseconds,
}

impl Unit {
    fn words(self) -> &'static str {
        match self {
            Unit::OperationsASecond => "Operations a second",
            Unit::StepsASecond => "Steps stored a second",
            Unit::Milliseconds => "Milliseconds",
            Unit::Microseconds => "Microseconds",
            Unit::ThousandthInMicroseconds => "Microseconds; one operation in a thousand takes longer",
        }
    }

    fn is_rate(self) -> bool {
        matches!(self, Unit::OperationsASecond | Unit::StepsASecond)
    }

    fn shown(self, value: f64) -> String {
        match self {
            Unit::OperationsASecond | Unit::StepsASecond => thousands(value),
            Unit::Milliseconds => format!("{value:.3}"),
            Unit::Microseconds | Unit::ThousandthInMicroseconds => micros(value),
        }
    }

    /// How many times as fast one is as another.
    fn ratio(self, of: Option<f64>, to: Option<f64>) -> Option<f64> {
        let (of, to) = of.zip(to)?;
        Some(if self.is_rate() { of / to } else { to / of })
    }

    /// The fastest.
    fn best(self, all: impl Iterator<Item = f64>) -> Option<f64> {
        if self.is_rate() { all.max_by(f64::total_cmp) } else { all.min_by(f64::total_cmp) }
    }
}

/// A figure of ours.
#[derive(Clone, Debug)]
struct Measured {
    label: String,
    /// What it has in common with the figures that it can be compared with.
    same: String,
    /// In what these may differ: records, bytes of cache, threads; of a line of integers its block.
    with: [u64; 3],
    /// How many before it are the same in all of that.
    nth: usize,
    unit: Unit,
    /// None: operations were wrong or failed.
    value: Option<f64>,
    cell: Cell,
    /// What the best peer has.
    best: Option<f64>,
}

/// A table for each unit of a suite, of what the first of some files has in common with others.
pub(super) fn grids(reports: &[(&str, &Report)]) -> Vec<Grid> {
    let all: Vec<(&str, Vec<Measured>)> =
        reports.iter().map(|(name, report)| (*name, measured(report))).collect();
    let Some(((first, lines), others)) = all.split_first() else { return Vec::new() };
    let mut units: Vec<Unit> = Vec::new();
    for line in lines {
        if !units.contains(&line.unit) {
            units.push(line.unit);
        }
    }
    let of = |unit: &Unit| {
        let lines = lines.iter().filter(|line| line.unit == *unit);
        grid(*unit, first, &lines.collect::<Vec<_>>(), others)
    };
    units.iter().map(of).filter(|grid| !grid.rows.is_empty()).collect()
}

fn grid(unit: Unit, first: &str, lines: &[&Measured], others: &[(&str, Vec<Measured>)]) -> Grid {
    let mut grid = Grid::new(unit.words(), ["operation"], 1);
    let names = || [first].into_iter().chain(others.iter().map(|(name, _)| *name));
    grid.heads.extend(names().map(str::to_owned));
    grid.heads.extend(others.iter().map(|(name, _)| format!("{name} / {first}")));
    grid.heads.extend(names().map(|name| format!("{name} / best peer")));
    let mut differ: Vec<&str> = Vec::new();
    for line in lines {
        let beside: Vec<Option<&Measured>> = others.iter().map(|(_, theirs)| line.among(theirs)).collect();
        if beside.iter().all(Option::is_none) {
            continue;
        }
        for ((name, _), other) in others.iter().zip(&beside) {
            if other.is_some_and(|other| other.with != line.with) && !differ.contains(name) {
                differ.push(name);
            }
        }
        let all = || [Some(*line)].into_iter().chain(beside.iter().copied());
        let value = |of: Option<&Measured>| of.and_then(|of| of.value);
        let mut cells = vec![Cell::from(line.label.as_str())];
        cells.extend(all().map(|of| of.map_or_else(|| "—".into(), |of| of.cell.clone())));
        cells.extend(beside.iter().map(|of| ratio(unit.ratio(value(*of), line.value)).into()));
        cells.extend(all().map(|of| {
            let best = of.and_then(|of| of.best);
            ratio_to_best(unit.ratio(value(of), best), best).into()
        }));
        grid.push(cells);
    }
    if !unit.is_rate() {
        grid.remarks.push("Of times, ratios are turned round, so that more is better.".to_owned());
    }
    let differing =
        |name: &&str| format!("{name} was run with other records, another cache or other threads.");
    grid.remarks.extend(differ.iter().map(differing));
    grid
}

impl Measured {
    /// The figure of another file that this is to be compared with.
    fn among<'m>(&self, others: &'m [Measured]) -> Option<&'m Measured> {
        let same = others.iter().filter(|other| other.same == self.same && other.unit == self.unit);
        let alike = |other: &&Measured| self.with.iter().zip(other.with).filter(|(a, b)| **a == *b).count();
        same.max_by_key(|other| (alike(other), other.nth == self.nth))
    }
}

/// All figures of ours in a report.
fn measured(report: &Report) -> Vec<Measured> {
    let mut all: Vec<Measured> = match &report.rows {
        Rows::Operations(rows) => {
            let took_part = |row: &&Row| {
                let is_of = |system: &str| row.system.starts_with(system) && !is_ours(&row.system);
                report.systems.iter().any(|took| is_of(&took.system))
            };
            let counts = |row: &&Row| took_part(row) && !row.apart && keeps_promise(&row.system, row.mode);
            let peers: Vec<&Row> = rows.iter().filter(counts).collect();
            let ours = rows.iter().filter(|row| is_ours(&row.system));
            ours.filter_map(|row| of_operation(&report.suite, row, &peers)).collect()
        }
        Rows::Lines(rows) => {
            rows.iter().filter(|row| row.system == OURS).map(|row| of_line(row, rows)).collect()
        }
    };
    for at in 0..all.len() {
        let is_same = |one: &&Measured| (&one.same, one.with) == (&all[at].same, all[at].with);
        all[at].nth = all[..at].iter().filter(is_same).count();
    }
    // What cannot be told apart otherwise is by its records, or else by its cache.
    let records = |one: &Measured| format!(", {} records", thousands(one.with[0] as f64));
    let cache = |one: &Measured| format!(", {} MB of cache", one.with[1] >> 20);
    let by: [&dyn Fn(&Measured) -> String; 2] = [&records, &cache];
    for by in by {
        let is_needed = |one: &Measured| {
            let with_its_label = || all.iter().filter(|other| other.label == one.label);
            with_its_label().any(|other| by(other) != by(one))
        };
        let more: Vec<String> =
            all.iter().map(|one| if is_needed(one) { by(one) } else { String::new() }).collect();
        all.iter_mut().zip(more).for_each(|(one, more)| one.label += &more);
    }
    all
}

/// A figure of a row, and how far its runs lie apart in that.
fn figure(suite: &str, row: &Row) -> Option<(Unit, f64, Option<Range>)> {
    if let Some(latency) = &row.latency {
        return Some((Unit::ThousandthInMicroseconds, latency.p999_us, latency.range()));
    }
    if suite == Suite::Wisconsin.name() && wisconsin::label_of(&row.op).is_some() {
        let (ms, range) = wisconsin::ms(row)?;
        return Some((Unit::Milliseconds, ms, range));
    }
    if suite == Suite::Engine.name() && engine::is_single(&row.op) {
        let us = |rate: f64| 1e6 / rate;
        return Some((Unit::Microseconds, us(row.ops_per_s), row.range().map(|range| range.map(us))));
    }
    Some((Unit::OperationsASecond, row.ops_per_s, row.range()))
}

fn of_operation(suite: &str, row: &Row, peers: &[&Row]) -> Option<Measured> {
    let (unit, value, range) = figure(suite, row)?;
    let Row { system, mode, op, keys, .. } = row;
    let is_same = |peer: &&&Row| {
        (peer.mode, &peer.op, &peer.keys) == (*mode, op, keys)
            && (peer.threads, peer.records, peer.cache_bytes) == (row.threads, row.records, row.cache_bytes)
            && peer.errors == 0
    };
    let theirs = peers.iter().filter(is_same).filter_map(|peer| Some(figure(suite, peer)?.1));
    let whose = if system == OURS { String::new() } else { format!(" ({system})") };
    let label = match wisconsin::label_of(op).filter(|_| suite == Suite::Wisconsin.name()) {
        Some(label) => label,
        None => format!("{} {op}{whose}", mode.name()),
    };
    let failed = row.failed();
    Some(Measured {
        label,
        same: format!("{system} {} {op} {keys}", mode.name()),
        with: [row.records, row.cache_bytes, row.threads.into()],
        nth: 0,
        unit,
        value: failed.is_none().then_some(value),
        cell: Cell { text: failed.unwrap_or_else(|| unit.shown(value)), range },
        best: unit.best(theirs),
    })
}

fn of_line(row: &threen1::Row, rows: &[threen1::Row]) -> Measured {
    let range = format!("{} to {}", thousands(row.start as f64), thousands(row.finish as f64));
    let label = format!("{}, {range}, {}", row.options, row.place());
    let is_same = |other: &&threen1::Row| {
        (other.start, other.finish, other.block, other.workers)
            == (row.start, row.finish, row.block, row.workers)
            && other.file_system == row.file_system
            && other.system != OURS
    };
    let unit = Unit::StepsASecond;
    Measured {
        same: label.clone(),
        label,
        with: [0, row.block, 0],
        nth: 0,
        unit,
        value: Some(row.updates_per_s),
        cell: Cell { text: unit.shown(row.updates_per_s), range: row.range() },
        best: unit.best(rows.iter().filter(is_same).map(|other| other.updates_per_s)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Took;
    use crate::beside::tests::row;
    use crate::contestant::QUEUE;
    use crate::field::Outcome;
    use crate::latency::Latency;
    use crate::protocol::Mode;
    use crate::sql::Spent;
    use std::collections::BTreeMap;

    fn report(suite: Suite, rows: Vec<Row>) -> Report {
        let took =
            |system: &str| Took { system: system.to_owned(), version: String::new(), modes: BTreeMap::new() };
        let outcome = Outcome { rows, ..Outcome::default() };
        Report { systems: vec![took("lmdb"), took("bdb")], ..Report::of(suite, None, outcome, Vec::new()) }
    }

    /// The tables of two files.
    fn compared(one: &Report, other: &Report) -> Vec<Grid> {
        grids(&[("a", one), ("b", other)])
    }

    #[test]
    fn rates_and_times_have_tables_of_their_own_in_which_more_is_better() {
        let rows = |times: f64| {
            vec![
                row(OURS, Mode::Ds, "read", 1, 100.0 * times),
                row("lmdb-cursor", Mode::Ds, "read", 1, 200.0),
                row("two puts", Mode::Ds, "read", 1, 900.0),
                row(QUEUE, Mode::Memory, "append", 1, 50.0 * times),
                row(OURS, Mode::NoSync, "open", 1, 1000.0 * times),
            ]
        };
        let (one, other) = (report(Suite::Engine, rows(1.0)), report(Suite::Engine, rows(4.0)));
        let grids = compared(&one, &other);
        let titles: Vec<&str> = grids.iter().map(|grid| grid.title.as_str()).collect();
        assert_eq!(titles, ["Operations a second", "Microseconds"]);
        assert_eq!(grids[0].heads, ["operation", "a", "b", "b / a", "a / best peer", "b / best peer"]);
        assert_eq!(
            grids[0].rows,
            [
                ["DS read", "100", "400", "4.00", "▼ 0.50", "2.00"],
                ["Memory append (sablecat-queue)", "50", "200", "4.00", "—", "—"]
            ]
        );
        assert_eq!(grids[1].rows, [["NoSync open", "1,000", "250", "4.00", "—", "—"]]);
        assert_eq!(grids[1].range(0, 1).unwrap().to_string(), "997–1.00K");
        assert_eq!(grids[1].remarks, ["Of times, ratios are turned round, so that more is better."]);
    }

    #[test]
    fn latencies_are_compared_by_machines_of_other_threads_too() {
        let timed = |system: &str, threads, p999_us: f64| {
            let p999_runs_us = vec![p999_us, p999_us + 1.0];
            let stall = String::new();
            let latency = Latency { p50_us: 1.0, p99_us: 2.0, p999_us, max_us: 9.0, stall, p999_runs_us };
            Row { latency: Some(latency), ..row(system, Mode::Sync, "read alone", threads, 1.0) }
        };
        let one = report(Suite::Latency, vec![timed(OURS, 2, 8.0), timed("lmdb", 2, 4.0)]);
        let other = report(Suite::Latency, vec![timed(OURS, 4, 2.0), timed("lmdb", 4, 4.0)]);
        let grid = &compared(&one, &other)[0];
        assert_eq!(grid.rows, [["Sync read alone", "8.0", "2.0", "4.00", "▼ 0.50", "2.00"]]);
        assert_eq!(grid.range(0, 2).unwrap().to_string(), "2.00–3.00");
        let differ = "b was run with other records, another cache or other threads.";
        assert_eq!(grid.remarks[1], differ);
        assert!(compared(&one, &one)[0].remarks.len() == 1);
    }

    #[test]
    fn queries_are_compared_in_milliseconds_and_what_is_filled_in_rows() {
        let query = |system: &str, us: f64| {
            let sql = Some(Spent { us, cpu_us: us, again_of_1000: 0.0 });
            Row { sql, ..row(system, Mode::NoSync, "3", 1, 1e6 / us) }
        };
        let rows =
            |us: f64| vec![query(OURS, us), query("bdb-sql", 500.0), row(OURS, Mode::NoSync, "fill", 1, 7.0)];
        let (one, other) = (report(Suite::Wisconsin, rows(1000.0)), report(Suite::Wisconsin, rows(250.0)));
        let grids = compared(&one, &other);
        let label = "3: 1 % selection, clustered index";
        assert_eq!(grids[0].rows, [[label, "1.000", "0.250", "4.00", "▼ 0.50", "2.00"]]);
        assert_eq!(grids[1].rows[0][..3], ["NoSync fill", "7", "7"]);
    }

    #[test]
    fn of_several_figures_that_are_alike_those_of_the_same_records_are_compared() {
        let of = |records, rate| Row { records, ..row(OURS, Mode::Ds, "read", 1, rate) };
        let one = report(Suite::Engine, vec![of(10, 1.0), of(500, 2.0)]);
        let other = report(Suite::Engine, vec![of(500, 20.0), of(10, 10.0), of(7, 5.0)]);
        let grid = &compared(&one, &other)[0];
        let rows = [["DS read, 10 records", "1", "10"], ["DS read, 500 records", "2", "20"]];
        assert!(grid.rows.iter().zip(rows).all(|(found, row)| found[..3] == row), "{grid:?}");
        assert!(grid.remarks.is_empty(), "{grid:?}");
    }

    #[test]
    fn figures_that_differ_in_their_cache_or_their_place_alone_keep_their_partners() {
        let of = |mb: u64, rate| Row { cache_bytes: mb << 20, ..row(OURS, Mode::Ds, "read", 1, rate) };
        let one = report(Suite::Engine, vec![of(4, 1.0), of(1, 2.0), of(1, 3.0)]);
        let other = report(Suite::Engine, vec![of(1, 20.0), of(4, 10.0), of(1, 30.0)]);
        let grid = &compared(&one, &other)[0];
        let rows = [
            ["DS read, 4 MB of cache", "1", "10"],
            ["DS read, 1 MB of cache", "2", "20"],
            ["DS read, 1 MB of cache", "3", "30"],
        ];
        assert!(grid.rows.iter().zip(rows).all(|(found, row)| found[..3] == row), "{grid:?}");
    }

    #[test]
    fn what_failed_is_told_and_what_nobody_else_has_is_left_out() {
        let failed = Row { errors: 3, ..row(OURS, Mode::Ds, "read", 1, 5.0) };
        let apart = Row { apart: true, ..row("lmdb", Mode::Ds, "read", 1, 9.0) };
        let one = report(Suite::Engine, vec![failed, row(OURS, Mode::Ds, "scan", 1, 5.0)]);
        let other = report(Suite::Engine, vec![row(OURS, Mode::Ds, "read", 1, 4.0), apart]);
        let grid = &compared(&one, &other)[0];
        assert_eq!(grid.rows, [["DS read", "3 failed", "4", "—", "—", "—"]]);
        assert_eq!(grid.range(0, 1), None);
        assert!(compared(&other, &report(Suite::Engine, Vec::new())).is_empty());
    }

    #[test]
    fn lines_of_processes_are_compared_by_what_they_store() {
        let line = |system: &str, options: &str, updates_per_s| threen1::Row {
            system: system.to_owned(),
            options: options.to_owned(),
            durability: "NoSync".to_owned(),
            file_system: None,
            start: 1,
            finish: 1000,
            workers: 8,
            block: 5,
            longest: 1,
            highest: 1,
            reads: 1,
            updates: 1,
            elapsed_s: 1.0,
            reads_per_s: 1.0,
            updates_per_s,
            cpu_s: 1.0,
            reads_per_cpu_s: 1.0,
            updates_per_cpu_s: 1.0,
            median_of: 1,
            runs: Vec::new(),
            kills: 0,
            correct: true,
        };
        let of = |rows| Report { rows: Rows::Lines(rows), ..report(Suite::Threen1, Vec::new()) };
        let one = of(vec![line(OURS, "NoSync", 10.0), line("gtm", "before-images", 5.0)]);
        let other = of(vec![line(OURS, "Sync", 1.0), line(OURS, "NoSync", 20.0)]);
        let grid = &compared(&one, &other)[0];
        let label = "NoSync, 1 to 1,000, 8 workers";
        assert_eq!(grid.rows, [[label, "10", "20", "2.00", "2.00", "—"]]);
    }
}

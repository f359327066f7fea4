//! The figures, for programs and for people.

use serde::{Deserialize, Serialize};

use super::drive::Outcome;
use super::gtm;
use super::input::Line;
use super::paper;
use super::system::System;
use super::variant::VARIANTS;
use crate::contestant::OURS;
use crate::grid::{Cell, Grid, ratio, thousands};
use crate::statistics::{median, tenths};
use crate::{Charted, Dots, Range};

/// A system at a line of the input; figures are medians of several rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `sablecat`, or `gtm`.
    pub system: String,
    /// Which of the compared options it had: for ours as `--options` names them.
    pub options: String,
    /// What the commits promised.
    pub durability: String,
    /// The file system, if it was made for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// The first integer.
    pub start: u64,
    /// The last one.
    pub finish: u64,
    /// Processes.
    pub workers: u32,
    /// Integers claimed at a time.
    pub block: u64,
    /// Steps of the longest sequence, in the last round.
    pub longest: u64,
    /// The highest number in any sequence, in the last round.
    pub highest: u64,
    /// Numbers looked up.
    pub reads: u64,
    /// Steps stored.
    pub updates: u64,
    /// From the first worker's start to the last one's end.
    pub elapsed_s: f64,
    /// Lookups a second, of all workers together.
    pub reads_per_s: f64,
    /// Steps stored a second.
    pub updates_per_s: f64,
    /// Processor time of all workers.
    pub cpu_s: f64,
    /// Lookups in a second of processor time that is also spent on the updates.
    pub reads_per_cpu_s: f64,
    /// Steps stored in a second of processor time that is also spent on the lookups.
    pub updates_per_cpu_s: f64,
    /// Of how many rounds the figures are medians.
    pub median_of: u32,
    /// Steps stored a second, in each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<f64>,
    /// Workers killed, in all rounds.
    pub kills: u64,
    /// Whether everything that was checked is right, in all rounds.
    pub correct: bool,
}

impl Row {
    /// The row of some rounds; none if there were none.
    pub(super) fn of(
        system: &dyn System,
        file_system: Option<&'static str>,
        line: &Line,
        rounds: &[Outcome],
    ) -> Option<Row> {
        // A run too short for the clock, which counts processor time in hundredths, counts as one tick.
        let rate = |count: u64, seconds: f64| count as f64 / seconds.max(0.01);
        let of = |pick: &dyn Fn(&Outcome) -> f64| median(rounds.iter().map(pick).collect());
        let last = rounds.last()?.total;
        Some(Row {
            system: system.name().to_owned(),
            options: system.options().to_owned(),
            durability: system.durability().to_owned(),
            file_system: file_system.map(str::to_owned),
            start: line.start,
            finish: line.finish,
            workers: line.workers,
            block: line.block,
            longest: last.longest,
            highest: last.highest,
            reads: of(&|run| run.total.reads as f64)? as u64,
            updates: of(&|run| run.total.updates as f64)? as u64,
            elapsed_s: hundredths(of(&|run| run.seconds)?),
            reads_per_s: tenths(of(&|run| rate(run.total.reads, run.seconds))?),
            updates_per_s: tenths(of(&|run| rate(run.total.updates, run.seconds))?),
            cpu_s: hundredths(of(&|run| run.cpu_seconds)?),
            reads_per_cpu_s: tenths(of(&|run| rate(run.total.reads, run.cpu_seconds))?),
            updates_per_cpu_s: tenths(of(&|run| rate(run.total.updates, run.cpu_seconds))?),
            median_of: rounds.len() as u32,
            runs: rounds.iter().map(|run| tenths(rate(run.total.updates, run.seconds))).collect(),
            kills: rounds.iter().map(|run| run.kills).sum(),
            correct: rounds.iter().all(|run| run.problems.is_empty()),
        })
    }

    fn line(&self) -> Line {
        Line { start: self.start, finish: self.finish, workers: self.workers, block: self.block }
    }

    fn is_of(&self, line: &Line) -> bool {
        (self.start, self.finish, self.block) == (line.start, line.finish, line.block)
    }

    /// How far the rounds lie apart in steps stored a second.
    pub(crate) fn range(&self) -> Option<Range> {
        Range::of(&self.runs)
    }

    fn paper(&self) -> Option<paper::Figures> {
        paper::figures(&self.line(), self.file_system.as_deref().unwrap_or(paper::FILE_SYSTEM))
    }

    /// For a sentence about where it ran.
    pub(crate) fn place(&self) -> String {
        let workers = format!("{} {}", self.workers, if self.workers == 1 { "worker" } else { "workers" });
        self.file_system.as_ref().map_or_else(|| workers.clone(), |name| format!("{name}, {workers}"))
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A table for each range of integers.
pub(super) fn grids(rows: &[Row], rounds: u32) -> Vec<Grid> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        if !lines.iter().any(|line| row.is_of(line)) {
            lines.push(row.line());
        }
    }
    let of = |line: &Line| rows.iter().filter(|row| row.is_of(line)).collect::<Vec<_>>();
    lines.iter().map(|line| grid(line, &of(line), rounds)).collect()
}

fn grid(line: &Line, rows: &[&Row], rounds: u32) -> Grid {
    let count = |count: u64| thousands(count as f64);
    let (on_file_systems, is_killing) =
        (rows.iter().any(|row| row.file_system.is_some()), rows.iter().any(|row| row.kills > 0));
    let has_paper = rows.iter().any(|row| row.paper().is_some());
    let range = format!("{} to {} in blocks of {}", count(line.start), count(line.finish), count(line.block));
    let medians = if rounds == 1 { String::new() } else { format!("; medians of {rounds}") };
    let mut grid = Grid::new::<0>(
        format!("threen1, {range}: steps of 3n+1 sequences, by processes that share a database{medians}"),
        [],
        2,
    );
    let mut heads = vec!["system", "options"];
    heads.splice(0..0, on_file_systems.then_some("file system"));
    grid.text_columns = heads.len();
    heads.extend(["workers", "longest", "highest", "reads", "updates", "seconds", "reads/s", "updates/s"]);
    heads.extend(["CPU s", "reads/CPU s", "updates/CPU s"]);
    heads.extend(is_killing.then_some("kills"));
    heads.extend(has_paper.then_some(["paper's s", "paper's updates/s"]).into_iter().flatten());
    grid.heads = heads.into_iter().map(str::to_owned).collect();
    for row in rows {
        let mut cells: Vec<Cell> =
            on_file_systems.then(|| row.file_system.as_deref().unwrap_or("—").into()).into_iter().collect();
        cells.extend([&row.system, &row.options].map(|text| text.clone().into()));
        cells.push(row.workers.to_string().into());
        cells.extend([row.longest, row.highest, row.reads, row.updates].map(|n| count(n).into()));
        cells.extend([format!("{:.2}", row.elapsed_s).into(), thousands(row.reads_per_s).into()]);
        cells.push(Cell { text: thousands(row.updates_per_s), range: row.range() });
        cells.push(format!("{:.2}", row.cpu_s).into());
        cells.extend([row.reads_per_cpu_s, row.updates_per_cpu_s].map(|rate| thousands(rate).into()));
        cells.extend(is_killing.then(|| count(row.kills).into()));
        if has_paper {
            let paper = row.paper();
            let figure = |figure: Option<u64>| figure.map_or("—".to_owned(), count);
            cells.extend([
                figure(paper.map(|paper| paper.seconds)).into(),
                figure(paper.and_then(|paper| paper.updates_per_s)).into(),
            ]);
        }
        grid.push(cells);
    }
    grid.charted = Some(charted(rows));
    grid.remarks = ratios(rows);
    for variant in VARIANTS
        .iter()
        .filter(|variant| rows.iter().any(|row| row.system == OURS && row.options == variant.name))
    {
        grid.remarks.push(format!("{OURS}, {}: {}.", variant.name, variant.promise));
    }
    if rows.iter().any(|row| row.system == gtm::NAME) {
        grid.remarks.push(format!("{}: {}.", gtm::NAME, gtm::PROMISE));
    }
    if has_paper {
        let where_else = if on_file_systems { String::new() } else { format!(", {}", paper::FILE_SYSTEM) };
        grid.remarks.push(format!(
            "The paper's figures: GT.M, {} workers{where_else}, a magnetic disk of 2010.",
            paper::WORKERS
        ));
    }
    grid
}

/// The steps stored a second, a line for each row.
fn charted(rows: &[&Row]) -> Charted {
    let line = |row: &&Row| {
        let label = format!("{}, {}", row.options, row.place());
        let paper = row.paper().and_then(|paper| paper.updates_per_s).map(|figure| figure as f64);
        let point = |_: &str| Some((row.updates_per_s, row.range()));
        Dots { paper, ..Dots::of(label, [row.system.as_str()], point) }
    };
    let lines: Vec<Dots> = rows.iter().map(line).collect();
    let paper = lines.iter().any(|line| line.paper.is_some()).then(|| "GT.M in the paper, 2010".to_owned());
    Charted { unit: "Updates a second".to_owned(), paper, lines }
}

/// Ours beside GT.M in the same place.
fn ratios(rows: &[&Row]) -> Vec<String> {
    let pairs = rows.iter().filter(|row| row.system == OURS).filter_map(|ours| {
        let same = |row: &&&Row| {
            row.system == gtm::NAME && (row.workers, &row.file_system) == (ours.workers, &ours.file_system)
        };
        Some((ours, rows.iter().find(same)?))
    });
    let times = |ours: f64, theirs: f64| ratio((theirs > 0.0).then_some(ours / theirs));
    let sentence = |(ours, gtm): (&&Row, &&Row)| {
        format!(
            "{OURS} {} / {}, {}: {} times the updates a second, {} times the updates per CPU second",
            ours.options,
            gtm::NAME,
            ours.place(),
            times(ours.updates_per_s, gtm.updates_per_s),
            times(ours.updates_per_cpu_s, gtm.updates_per_cpu_s)
        )
    };
    pairs.map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, options: &str, file_system: Option<&str>, updates_per_s: f64) -> Row {
        Row {
            system: system.to_owned(),
            options: options.to_owned(),
            durability: "NoSync".to_owned(),
            file_system: file_system.map(str::to_owned),
            start: 1,
            finish: 1_000_000,
            workers: 8,
            block: 50_000,
            longest: 524,
            highest: 56_991_483_520,
            reads: 3_168_608,
            updates: 2_168_610,
            elapsed_s: 2.5,
            reads_per_s: 1_000_000.0,
            updates_per_s,
            cpu_s: 4.0,
            reads_per_cpu_s: 900_000.0,
            updates_per_cpu_s: updates_per_s / 2.0,
            median_of: 3,
            runs: vec![updates_per_s, updates_per_s + 3.0, updates_per_s - 1.0],
            kills: 0,
            correct: true,
        }
    }

    #[test]
    fn ratios_are_of_the_same_place() {
        let rows = [
            row(OURS, "NoSync", Some("ext4"), 800.0),
            row(OURS, "Sync", Some("ext4"), 100.0),
            row(gtm::NAME, "before-images", Some("ext4"), 200.0),
            row(OURS, "NoSync", Some("xfs"), 900.0),
        ];
        let grids = grids(&rows, 3);
        assert_eq!(grids.len(), 1);
        let expected = |options, times| {
            format!(
                "sablecat {options} / gtm, ext4, 8 workers: {times} times the updates a second, {times} \
                 times the updates per CPU second"
            )
        };
        assert_eq!(grids[0].remarks[..2], [expected("NoSync", "4.00"), expected("Sync", "0.50")]);
        assert!(grids[0].rows.iter().all(|cells| cells.len() == grids[0].heads.len()));
        assert_eq!(grids[0].rows[3][grids[0].heads.len() - 2..], ["14", "155,152"], "the paper's on xfs");
        let charted = grids[0].charted.as_ref().unwrap();
        let line = &charted.lines[3];
        assert_eq!((line.label.as_str(), line.paper), ("NoSync, xfs, 8 workers", Some(155_152.0)));
        assert_eq!((charted.lines.len(), &line.values), (4, &vec![(OURS.to_owned(), 900.0)]));
        assert_eq!(line.range(OURS).unwrap().to_string(), "899–903");
        let widest = "Runs lie furthest apart at ext4, sablecat, Sync, updates/s: 99.0–103.";
        assert_eq!(grids[0].widest().unwrap(), widest);
    }

    #[test]
    fn a_range_has_a_table_of_its_own() {
        let (first, second) =
            (row(OURS, "NoSync", None, 1.0), Row { finish: 7, ..row(OURS, "NoSync", None, 1.0) });
        let grids = grids(&[first.clone(), second, Row { workers: 1, ..first }], 1);
        assert_eq!(grids.iter().map(|grid| grid.rows.len()).collect::<Vec<_>>(), [2, 1]);
        assert!(
            grids[0].heads.contains(&"paper's s".to_owned())
                && !grids[1].heads.contains(&"paper's s".to_owned())
        );
        assert!(!grids[0].heads.contains(&"file system".to_owned()));
    }
}

//! The figures, for programs and for people.

use serde::Serialize;

use super::Kills;
use super::drive::Outcome;
use super::input::Line;
use super::store::DURABILITY_NAME;
use crate::contestant::OURS;
use crate::grid::{Grid, thousands};
use crate::row::tenths;

/// The paper's figures for eight workers on ext4 and a magnetic disk: finish, seconds, reads and updates a second.
const PAPER: [(u64, &str); 4] = [
    (1_000_000, "15 s, 211,365 reads/s, 144,698 updates/s"),
    (10_000_000, "319 s, 99,479 reads/s, 68,131 updates/s"),
    (20_000_000, "2,213 s, 28,675 reads/s, 19,638 updates/s"),
    (40_000_000, "41,087 s"),
];

/// One line of the input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `sablecat`.
    pub system: &'static str,
    /// What the commits promised.
    pub durability: &'static str,
    /// The first integer.
    pub start: u64,
    /// The last one.
    pub finish: u64,
    /// Processes.
    pub workers: u32,
    /// Integers claimed at a time.
    pub block: u64,
    /// Steps of the longest sequence.
    pub longest: u64,
    /// The highest number in any sequence.
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
    /// Workers killed.
    pub kills: u64,
    /// Whether everything that was checked is right.
    pub correct: bool,
}

impl Row {
    pub(super) fn of(line: &Line, outcome: &Outcome) -> Row {
        let Outcome { total, seconds, cpu_seconds, kills, problems } = outcome;
        // A run too short for the clock, which counts processor time in hundredths, counts as one tick.
        let rate = |count: u64, seconds: f64| tenths(count as f64 / seconds.max(0.01));
        Row {
            system: OURS,
            durability: DURABILITY_NAME,
            start: line.start,
            finish: line.finish,
            workers: line.workers,
            block: line.block,
            longest: total.longest,
            highest: total.highest,
            reads: total.reads,
            updates: total.updates,
            elapsed_s: hundredths(*seconds),
            reads_per_s: rate(total.reads, *seconds),
            updates_per_s: rate(total.updates, *seconds),
            cpu_s: hundredths(*cpu_seconds),
            reads_per_cpu_s: rate(total.reads, *cpu_seconds),
            updates_per_cpu_s: rate(total.updates, *cpu_seconds),
            kills: *kills,
            correct: problems.is_empty(),
        }
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The table of all lines.
pub(super) fn grid(rows: &[Row], kills: &Kills) -> Grid {
    let mut heads = vec!["start", "finish", "workers", "longest", "highest", "reads", "updates", "seconds", "reads/s", "updates/s"];
    heads.extend(["reads/CPU s", "updates/CPU s"]);
    let is_killing = kills.every.is_some() || kills.all_at_percent.is_some();
    heads.extend(is_killing.then_some("kills"));
    let mut grid = Grid::new::<0>("threen1: steps of 3n+1 sequences, by processes that share one environment", [], 0);
    grid.heads = heads.into_iter().map(str::to_owned).collect();
    for row in rows {
        let count = |count: u64| thousands(count as f64);
        let mut cells = vec![count(row.start), count(row.finish), row.workers.to_string(), count(row.longest), count(row.highest)];
        cells.extend([count(row.reads), count(row.updates), format!("{:.2}", row.elapsed_s)]);
        cells.extend([row.reads_per_s, row.updates_per_s, row.reads_per_cpu_s, row.updates_per_cpu_s].map(thousands));
        cells.extend(is_killing.then(|| count(row.kills)));
        grid.rows.push(cells);
    }
    grid.remarks.push(format!(
        "{DURABILITY_NAME} commits: what is written survives any process's death, and an operating-system crash up to the last flush."
    ));
    for (finish, figures) in PAPER {
        if rows.iter().any(|row| (row.start, row.finish) == (1, finish)) {
            grid.remarks.push(format!("The paper, to {}: {figures} (GT.M, 8 workers, ext4 on a magnetic disk).", thousands(finish as f64)));
        }
    }
    grid
}

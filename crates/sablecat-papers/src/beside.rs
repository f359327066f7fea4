//! Tables of what several systems did at the same operations: ours beside the best peer and a paper's
//! figures, and all systems beside each other.

use crate::contestant::{DEVICE, OURS, SHARED, is_ours, keeps_promise};
use crate::grid::{Grid, ratio, thousands};
use crate::protocol::Mode;
use crate::row::Row;

/// A line of a paper's table, or one added to it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) mode: Mode,
    /// As the rows have it.
    pub(crate) op: &'static str,
    pub(crate) threads: u32,
    /// What the paper says.
    pub(crate) paper: String,
}

/// Which figure of a row a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The median of the rounds.
    Median,
    /// Their mean, shown with the standard deviation.
    Mean,
}

impl Figure {
    pub(crate) fn of(self, row: &Row) -> f64 {
        match self {
            Figure::Median => row.ops_per_s,
            Figure::Mean => row.mean,
        }
    }

    fn cell(self, row: Option<&Row>) -> String {
        match (self, row) {
            (_, None) => NONE.to_owned(),
            (Figure::Median, Some(row)) => thousands(row.ops_per_s),
            (Figure::Mean, Some(row)) => format!("{} ± {}", thousands(row.mean), thousands(row.deviation)),
        }
    }

    /// How two rows relate.
    pub(crate) fn share(self, of: Option<&Row>, to: Option<&Row>) -> Option<f64> {
        Some(self.of(of?) / self.of(to?))
    }
}

/// Where there is nothing to show.
pub(crate) const NONE: &str = "—";

impl Line {
    fn is_of(&self, row: &Row) -> bool {
        row.mode == self.mode && row.op == self.op && row.threads == self.threads
    }

    fn of<'a>(&self, system: &str, rows: &[&'a Row]) -> Option<&'a Row> {
        rows.iter().copied().find(|row| row.system == system && self.is_of(row))
    }

    fn best_peer<'a>(
        &self,
        rows: &[&'a Row],
        figure: Figure,
        counts: impl Fn(&str) -> bool,
    ) -> Option<&'a Row> {
        let is_peer =
            |row: &&Row| is_peer(row) && counts(&row.system) && keeps_promise(&row.system, row.mode);
        let peers = rows.iter().copied().filter(|row| is_peer(row) && self.is_of(row));
        peers.max_by(|a, b| figure.of(a).total_cmp(&figure.of(b)))
    }
}

/// Whether a row is neither ours nor the disk's.
pub(crate) fn is_peer(row: &Row) -> bool {
    !is_ours(&row.system) && row.system != DEVICE
}

/// Ours beside what the paper says, if it says something of these lines, and beside the best of the peers
/// that `counts` lets count.
pub(crate) fn beside_the_paper(
    (title, paper): (String, Option<&str>),
    lines: &[Line],
    rows: &[&Row],
    figure: Figure,
    counts: impl Fn(&str) -> bool,
) -> Grid {
    let mut grid = Grid::new(title, ["operation", "threads"], 1);
    let is_shared = rows.iter().any(|row| row.system == SHARED);
    let shared = [SHARED, "shared / private"].into_iter().filter(|_| is_shared);
    let heads = paper.into_iter().chain([OURS, "best peer", "which", "ratio"]).chain(shared);
    grid.heads.extend(heads.map(str::to_owned));
    for line in lines {
        let (ours, best) = (line.of(OURS, rows), line.best_peer(rows, figure, &counts));
        let mut cells = vec![line.label.clone(), line.threads.to_string()];
        cells.extend(paper.map(|_| line.paper.clone()));
        cells.extend([
            figure.cell(ours),
            figure.cell(best),
            best.map_or(NONE, |row| &row.system).to_owned(),
            ratio(figure.share(ours, best)),
        ]);
        if is_shared {
            let shared = line.of(SHARED, rows);
            cells.extend([figure.cell(shared), ratio(figure.share(shared, ours))]);
        }
        grid.rows.push(cells);
    }
    for row in rows.iter().filter(|row| !keeps_promise(&row.system, row.mode)) {
        let (system, mode) = (&row.system, row.mode.name());
        let remark =
            format!("{system} is no peer in {mode}: it promises less than that (bench/peers/README.md)");
        if !grid.remarks.contains(&remark) {
            grid.remarks.push(remark);
        }
    }
    grid
}

/// All systems beside each other; none if there is no peer among them.
pub(crate) fn all_systems(head: &str, lines: &[Line], rows: &[&Row], figure: Figure) -> Option<Grid> {
    if !rows.iter().any(|row| is_peer(row)) {
        return None;
    }
    let systems = systems(rows);
    let mut grid =
        Grid::new(format!("all systems, {head}; thousand operations a second"), ["operation", "threads"], 1);
    grid.heads.extend(systems.iter().map(|&system| system.to_owned()));
    for line in lines {
        let cells = systems.iter().map(|system| {
            line.of(system, rows)
                .map_or_else(|| NONE.to_owned(), |row| format!("{:.1}", figure.of(row) / 1000.0))
        });
        grid.rows.push([line.label.clone(), line.threads.to_string()].into_iter().chain(cells).collect());
    }
    Some(grid)
}

/// The systems that have rows, in the order of their first.
pub(crate) fn systems<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut systems: Vec<&str> = Vec::new();
    for row in rows {
        if !systems.contains(&row.system.as_str()) {
            systems.push(&row.system);
        }
    }
    systems
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row of two runs, one in a second more and one in a second less.
    pub(crate) fn row(system: &str, mode: Mode, op: &str, threads: u32, ops_per_s: f64) -> Row {
        Row {
            system: system.to_owned(),
            mode,
            op: op.to_owned(),
            keys: "random".to_owned(),
            threads,
            records: 10,
            ops_per_s,
            mean: ops_per_s + 1.0,
            deviation: 2.0,
            median_of: 3,
            errors: 0,
            rss_mb: 1.5,
            disk_mb: 2.5,
            attached: None,
        }
    }

    fn line(op: &'static str, threads: u32) -> Line {
        Line { label: "L".to_owned(), mode: Mode::Sync, op, threads, paper: "7".to_owned() }
    }

    #[test]
    fn the_best_peer_is_one_that_counts() {
        let rows = [
            row(OURS, Mode::Sync, "write", 1, 90.0),
            row(SHARED, Mode::Sync, "write", 1, 99.0),
            row(DEVICE, Mode::Sync, "write", 1, 100.0),
            row("a", Mode::Sync, "write", 1, 30.0),
            row("b", Mode::Sync, "write", 1, 60.0),
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let lines = [line("write", 1), line("write", 4)];
        let table = |paper, figure, counts: &dyn Fn(&str) -> bool| {
            beside_the_paper(("t".to_owned(), paper), &lines, &rows, figure, counts)
        };
        let all = table(Some("paper"), Figure::Median, &|_| true);
        assert_eq!(all.heads.len(), 9);
        assert_eq!(all.rows[0], ["L", "1", "7", "90", "60", "b", "1.50", "99", "1.10"]);
        assert_eq!(all.rows[1][3..], [NONE; 6]);
        let some = table(None, Figure::Mean, &|peer| peer != "b");
        assert_eq!(some.rows[0], ["L", "1", "91 ± 2", "31 ± 2", "a", "2.94", "100 ± 2", "1.10"]);
        assert_eq!(some.heads.len(), 8);
    }

    #[test]
    fn all_systems_have_a_cell_in_each_line() {
        let rows = [row(OURS, Mode::Sync, "read", 1, 5000.0), row("b", Mode::Sync, "write", 1, 30.0)];
        let lines = [line("read", 1), line("write", 1)];
        let grid = all_systems("x", &lines, &rows.each_ref(), Figure::Median).unwrap();
        assert_eq!(grid.rows, [["L", "1", "5.0", "—"], ["L", "1", "—", "0.0"]]);
        assert_eq!(all_systems("x", &lines, &[&rows[0]], Figure::Median), None);
    }
}

//! Tables of what several systems did at the same operations: ours beside the best peer and a paper's
//! figures, and all systems beside each other.
//!
//! A [`Table`] says which lines there are and what the paper says of them. It is kept with the rows, so that
//! a program that has these can lay it out again, beside others' as well.

use serde::{Deserialize, Serialize};

use crate::charted::{Point, each_once};
use crate::contestant::{DEVICE, OURS, SHARED, is_ours, keeps_promise};
use crate::grid::{Cell, Grid, ratio, ratio_to_best, thousands};
use crate::protocol::Mode;
use crate::row::Row;

/// Lines that belong together, and how they are to be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Records, cache and whatever else all lines have in common.
    pub title: String,
    /// What is counted, and which figure of several rounds that is.
    pub unit: String,
    /// What the paper's figures are called, where a paper has figures.
    pub paper: Option<String>,
    /// How many rounds its unit speaks of; 0: it is not known.
    #[serde(default)]
    pub rounds: u32,
    /// Which figure of the rows.
    pub figure: Figure,
    /// Rows of this order of the keys alone.
    pub keys: Option<String>,
    /// What [`Line::at`] counts, where lines of one label make a curve.
    pub axis: Option<String>,
    /// Peers that are shown, and not measured against.
    pub apart: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
    /// What to know of it.
    pub remarks: Vec<String>,
}

/// A line of a paper's table, or one added to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// As people read it.
    pub label: String,
    /// Which of ours it is about.
    pub ours: String,
    /// As the rows have it.
    pub mode: Mode,
    /// As the rows have it.
    pub op: String,
    /// As the rows have it.
    pub threads: u32,
    /// Where it stands on the table's axis.
    pub at: f64,
    /// What the paper says.
    pub paper: Said,
}

/// What a paper says of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Said {
    /// Operations a second.
    Figure(f64),
    /// Something else.
    Words(String),
    /// Nothing.
    Nothing,
}

impl Said {
    /// As a cell shows it.
    pub fn cell(&self) -> String {
        match self {
            Said::Figure(figure) => thousands(*figure),
            Said::Words(words) => words.clone(),
            Said::Nothing => NONE.to_owned(),
        }
    }
}

/// Which figure of a row a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// The median of the rounds.
    Median,
    /// Their mean, shown with the standard deviation.
    Mean,
}

impl Figure {
    /// The figure of a row; none if operations were wrong or failed, since what is left undone is fast.
    pub(crate) fn of(self, row: &Row) -> Option<f64> {
        let figure = match self {
            Figure::Median => row.ops_per_s,
            Figure::Mean => row.mean,
        };
        (row.errors == 0).then_some(figure)
    }

    pub(crate) fn cell(self, row: Option<&Row>) -> Cell {
        let Some(row) = row else { return NONE.into() };
        let text = row.failed().unwrap_or_else(|| match self {
            Figure::Median => thousands(row.ops_per_s),
            Figure::Mean => format!("{} ± {}", thousands(row.mean), thousands(row.deviation)),
        });
        Cell { text, range: row.range() }
    }

    /// What a chart shows of a row: the figure, and how far its runs lie apart.
    pub(crate) fn point(self, row: &Row) -> Option<Point> {
        Some((self.of(row)?, row.range()))
    }

    /// How two rows relate.
    pub(crate) fn share(self, of: Option<&Row>, to: Option<&Row>) -> Option<f64> {
        Some(self.of(of?)? / self.of(to?)?)
    }
}

/// Where there is nothing to show.
pub(crate) const NONE: &str = "—";

impl Line {
    /// A line about our usual system, of one thread, of which no paper says anything.
    pub(crate) fn new(label: impl Into<String>, mode: Mode, op: &str) -> Line {
        let (label, op) = (label.into(), op.to_owned());
        Line { label, ours: OURS.to_owned(), mode, op, threads: 1, at: 1.0, paper: Said::Nothing }
    }

    /// The same of so many threads, which are its place on the axis.
    pub(crate) fn threads(self, threads: u32) -> Line {
        Line { threads, at: threads.into(), ..self }
    }

    pub(crate) fn paper(self, paper: Said) -> Line {
        Line { paper, ..self }
    }

    /// Whether the row is one of this line.
    pub(crate) fn is_of(&self, row: &Row) -> bool {
        row.mode == self.mode && row.op == self.op && row.threads == self.threads
    }

    pub(crate) fn of<'a>(&self, system: &str, rows: &[&'a Row]) -> Option<&'a Row> {
        rows.iter().copied().find(|row| row.system == system && self.is_of(row))
    }
}

/// Whether a row is neither ours nor the disk's.
pub(crate) fn is_peer(row: &Row) -> bool {
    !is_ours(&row.system) && row.system != DEVICE
}

impl Table {
    /// One without lines: medians of so many rounds, of all orders of keys, without a paper.
    pub(crate) fn new(title: impl Into<String>, rounds: u32) -> Table {
        Table {
            title: title.into(),
            unit: format!("operations a second, medians of {rounds}"),
            paper: None,
            rounds,
            figure: Figure::Median,
            keys: None,
            axis: None,
            apart: Vec::new(),
            lines: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// What a line is called; where it stands on the axis as well, if no column says that.
    pub(crate) fn label(&self, line: &Line) -> String {
        match &self.axis {
            Some(axis) if axis != "threads" => format!("{}, {axis} {}", line.label, line.at),
            _ => line.label.clone(),
        }
    }

    /// The rows that it is about.
    pub(crate) fn rows<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        let is_wanted = |row: &&Row| self.keys.as_ref().is_none_or(|keys| *keys == row.keys);
        rows.iter().filter(is_wanted).filter(|row| self.lines.iter().any(|line| line.is_of(row))).collect()
    }

    pub(crate) fn best_peer<'a>(&self, line: &Line, rows: &[&'a Row]) -> Option<&'a Row> {
        let counts = |row: &&Row| {
            is_peer(row) && !self.apart.contains(&row.system) && keeps_promise(&row.system, row.mode)
        };
        let peers = rows.iter().copied().filter(|row| counts(row) && line.is_of(row));
        let figures = peers.filter_map(|row| Some((row, self.figure.of(row)?)));
        figures.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(row, _)| row)
    }

    /// How ours relates to the best peer, and what that did.
    pub(crate) fn ratio(&self, line: &Line, rows: &[&Row]) -> (Option<f64>, Option<f64>) {
        let best = self.best_peer(line, rows);
        (self.figure.share(line.of(&line.ours, rows), best), best.and_then(|row| self.figure.of(row)))
    }

    /// Which systems had fewer rounds than the unit says, and where.
    fn fewer_rounds(&self, rows: &[&Row]) -> Vec<String> {
        let of = |system: &str| {
            let fewer = rows.iter().filter(|row| row.system == system && row.median_of < self.rounds);
            let each = fewer.map(|row| format!("{} of {}", row.median_of, row.operation()));
            let each: Vec<String> = each.collect();
            (!each.is_empty()).then(|| format!("{system} has fewer rounds: {}", each.join("; ")))
        };
        systems(rows).into_iter().filter_map(of).collect()
    }

    /// Ours beside what the paper says, if it says something, and beside the best of the peers that count.
    pub(crate) fn beside_the_paper(&self, suite: &str, rows: &[Row]) -> Grid {
        let rows = self.rows(rows);
        let title = format!("{suite}, {}; {}", self.title, self.unit);
        let mut grid = Grid::new(title, ["operation", "threads"], 1);
        let is_shared = rows.iter().any(|row| row.system == SHARED);
        let shared = [SHARED, "shared / private"].into_iter().filter(|_| is_shared);
        let heads =
            self.paper.as_deref().into_iter().chain([OURS, "best peer", "which", "ratio"]).chain(shared);
        grid.heads.extend(heads.map(str::to_owned));
        grid.remarks.clone_from(&self.remarks);
        for line in &self.lines {
            let (ours, best) = (line.of(&line.ours, &rows), self.best_peer(line, &rows));
            let mut cells: Vec<Cell> = vec![self.label(line).into(), line.threads.to_string().into()];
            cells.extend(self.paper.iter().map(|_| line.paper.cell().into()));
            cells.extend([
                self.figure.cell(ours),
                self.figure.cell(best),
                best.map_or(NONE, |row| &row.system).into(),
                ratio_to_best(self.figure.share(ours, best), best.and_then(|row| self.figure.of(row))).into(),
            ]);
            if is_shared {
                let shared = line.of(SHARED, &rows);
                cells.extend([self.figure.cell(shared), ratio(self.figure.share(shared, ours)).into()]);
            }
            grid.push(cells);
        }
        for row in rows.iter().filter(|row| !keeps_promise(&row.system, row.mode)) {
            let (system, mode) = (&row.system, row.mode.name());
            let remark =
                format!("{system} is no peer in {mode}: it promises less than that (bench/peers/README.md)");
            if !grid.remarks.contains(&remark) {
                grid.remarks.push(remark);
            }
        }
        grid.remarks.extend(self.fewer_rounds(&rows));
        grid
    }

    /// All systems beside each other; none if there is no peer among them.
    pub(crate) fn all_systems(&self, rows: &[Row]) -> Option<Grid> {
        let rows = self.rows(rows);
        if !rows.iter().any(|row| is_peer(row)) {
            return None;
        }
        let systems = systems(&rows);
        let title = format!("all systems, {}; thousand operations a second", self.title);
        let mut grid = Grid::new(title, ["operation", "threads"], 1);
        grid.heads.extend(systems.iter().map(|&system| system.to_owned()));
        for line in &self.lines {
            let cells = systems.iter().map(|system| {
                let row = line.of(system, &rows);
                match row.and_then(|row| self.figure.point(row)) {
                    None => self.figure.cell(row),
                    Some((figure, range)) => Cell {
                        text: format!("{:.1}", figure / 1000.0),
                        range: range.map(|range| range.map(|rate| rate / 1000.0)),
                    },
                }
            });
            grid.push([self.label(line), line.threads.to_string()].map(Cell::from).into_iter().chain(cells));
        }
        Some(grid)
    }
}

/// The systems that have rows, in the order of their first.
pub(crate) fn systems<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    each_once(rows.iter().map(|row| row.system.as_str()))
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
            cache_bytes: 1 << 20,
            ops_per_s,
            mean: ops_per_s + 1.0,
            deviation: 2.0,
            runs: vec![ops_per_s, ops_per_s, ops_per_s + 3.0],
            median_of: 3,
            errors: 0,
            rss_mb: 1.5,
            disk_mb: 2.5,
            apart: false,
            attached: None,
            latency: None,
            sql: None,
        }
    }

    fn line(op: &str, threads: u32) -> Line {
        Line::new("L", Mode::Sync, op).threads(threads).paper(Said::Figure(7.0))
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
        let lines = vec![line("write", 1), line("write", 4)];
        let all = Table { paper: Some("paper".to_owned()), lines, ..Table::new("t", 3) };
        let some = Table { paper: None, figure: Figure::Mean, apart: vec!["b".to_owned()], ..all.clone() };
        let all = all.beside_the_paper("s", &rows);
        assert_eq!((all.title.as_str(), all.heads.len()), ("s, t; operations a second, medians of 3", 9));
        assert_eq!(all.rows[0], ["L", "1", "7", "90", "60", "b", "1.50", "99", "1.10"]);
        assert_eq!(all.rows[1][3..], [NONE; 6]);
        let ranges = |grid: &Grid| -> Vec<Option<String>> {
            (0..grid.heads.len()).map(|column| grid.range(0, column).map(|range| range.to_string())).collect()
        };
        let [ours, peer, shared] = ["90.0–93.0", "60.0–63.0", "99.0–102"].map(|text| Some(text.to_owned()));
        assert_eq!(ranges(&all), [None, None, None, ours, peer, None, None, shared, None]);
        let some = some.beside_the_paper("s", &rows);
        assert_eq!(some.rows[0], ["L", "1", "91 ± 2", "31 ± 2", "a", "2.94", "100 ± 2", "1.10"]);
        assert_eq!(some.heads.len(), 8);
    }

    #[test]
    fn where_a_peer_did_better_there_is_a_mark() {
        let rows = [row(OURS, Mode::Sync, "write", 1, 90.0), row("a", Mode::Sync, "write", 1, 100.0)];
        let grid = Table { lines: vec![line("write", 1)], ..Table::new("t", 3) }.beside_the_paper("s", &rows);
        assert_eq!(grid.rows[0][5], "▼ 0.90");
    }

    #[test]
    fn rates_of_what_failed_are_not_compared() {
        let failing = |system: &str| Row { errors: 1200, ..row(system, Mode::Sync, "write", 1, 900.0) };
        let table = Table { lines: vec![line("write", 1)], ..Table::new("t", 3) };
        let cells = |rows: &[Row]| table.beside_the_paper("s", rows).rows[0][2..].join(" | ");
        let (ours, peer) = (row(OURS, Mode::Sync, "write", 1, 90.0), row("a", Mode::Sync, "write", 1, 30.0));
        assert_eq!(cells(&[ours.clone(), peer.clone(), failing("b")]), "90 | 30 | a | 3.00");
        assert_eq!(cells(&[ours.clone(), failing("b")]), "90 | — | — | —");
        assert_eq!(cells(&[failing(OURS), peer.clone()]), "1,200 failed | 30 | a | ▼ —");
        assert_eq!(cells(&[peer]), "— | 30 | a | ▼ —");
        let all = table.all_systems(&[ours, failing("b")]).unwrap();
        assert_eq!(all.rows[0][2..], ["0.1", "1,200 failed"]);
        assert_eq!((all.range(0, 2).unwrap().to_string(), all.range(0, 3)), ("0.090–0.093".to_owned(), None));
    }

    #[test]
    fn fewer_rounds_than_the_title_says_are_told() {
        let fewer =
            |op: &str, threads, median_of| Row { median_of, ..row("a", Mode::Sync, op, threads, 30.0) };
        let rows = [row(OURS, Mode::Sync, "write", 1, 90.0), fewer("write", 1, 1), fewer("write", 4, 2)];
        let table = Table { lines: vec![line("write", 1), line("write", 4)], ..Table::new("t", 3) };
        let remarks = |table: &Table| table.beside_the_paper("s", &rows).remarks;
        let told = "a has fewer rounds: 1 of Sync write, random; 2 of Sync write, random, 4 threads";
        assert_eq!(remarks(&table), [told]);
        assert!(remarks(&Table { rounds: 0, ..table }).is_empty(), "a file of before does not say");
    }

    #[test]
    fn all_systems_have_a_cell_in_each_line() {
        let rows = [row(OURS, Mode::Sync, "read", 1, 5000.0), row("b", Mode::Sync, "write", 1, 30.0)];
        let table = Table { lines: vec![line("read", 1), line("write", 1)], ..Table::new("x", 3) };
        let grid = table.all_systems(&rows).unwrap();
        assert_eq!(grid.rows, [["L", "1", "5.0", "—"], ["L", "1", "—", "0.0"]]);
        assert_eq!(table.all_systems(&rows[..1]), None);
    }

    #[test]
    fn lines_of_a_curve_are_told_apart() {
        let at = |axis: &str| {
            let lines = vec![Line { at: 0.25, ..line("read", 4) }];
            Table { axis: Some(axis.to_owned()), lines, ..Table::new("t", 3) }.beside_the_paper("s", &[]).rows
                [0][..2]
                .join(" ")
        };
        assert_eq!([at("data / pool"), at("threads")], ["L, data / pool 0.25 4", "L 4"]);
    }

    #[test]
    fn what_a_paper_says_outlives_a_file() {
        let lines = [Said::Figure(7.5), Said::Words("set by the disk".to_owned()), Said::Nothing];
        for paper in lines {
            let line = line("write", 2).paper(paper);
            assert_eq!(serde_json::from_str::<Line>(&serde_json::to_string(&line).unwrap()).unwrap(), line);
        }
    }
}

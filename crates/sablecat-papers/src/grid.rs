//! A table as data: the front end decides how it looks.

use serde::{Deserialize, Serialize};

use crate::{Charted, Range};

/// Rows under headed columns, with a title above and remarks below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// One line above the table.
    pub title: String,
    /// A head for each column.
    pub heads: Vec<String>,
    /// How many of the first columns are text; the rest are numbers, and aligned as such.
    pub text_columns: usize,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Lines below the table.
    pub remarks: Vec<String>,
    /// How far the runs of a cell's figure lie apart, by row and column; rows and columns may be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<Vec<Option<Range>>>,
    /// What of it a chart shows, where there is something to be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charted: Option<Charted>,
}

impl Grid {
    /// An empty table.
    pub fn new<const N: usize>(title: impl Into<String>, heads: [&str; N], text_columns: usize) -> Grid {
        let heads = heads.map(str::to_owned).into();
        Grid { title: title.into(), heads, text_columns, ..Grid::default() }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let (row, ranges): (Vec<_>, Vec<_>) = cells.into_iter().map(|cell| (cell.text, cell.range)).unzip();
        if ranges.iter().any(Option::is_some) {
            self.ranges.resize(self.rows.len(), Vec::new());
            self.ranges.push(ranges);
        }
        self.rows.push(row);
    }

    /// How far the runs of a cell's figure lie apart, where that is known.
    pub fn range(&self, row: usize, column: usize) -> Option<Range> {
        self.ranges.get(row)?.get(column).copied().flatten()
    }

    /// A sentence about the figure whose runs lie furthest apart, for where there is no room to show that of
    /// each; none where it is known of none.
    pub fn widest(&self) -> Option<String> {
        let places =
            (0..self.rows.len()).flat_map(|row| (0..self.heads.len()).map(move |column| (row, column)));
        let ranges = places.filter_map(|at| Some((at, self.range(at.0, at.1)?)));
        let ((row, column), range) = ranges.max_by(|a, b| a.1.times().total_cmp(&b.1.times()))?;
        let cells = &self.rows[row];
        // Of the best peer its name is in the next column.
        let head = &self.heads[column];
        let named = self.heads.get(column + 1).filter(|head| *head == "which").and(cells.get(column + 1));
        let threads = match self.heads.get(1) {
            Some(head) if head == "threads" && cells[1] != "1" => format!(", {} threads", cells[1]),
            _ => String::new(),
        };
        let (text, of) = (cells[..self.text_columns.max(1)].join(", "), named.unwrap_or(head));
        Some(format!("Runs lie furthest apart at {text}{threads}, {of}: {range}."))
    }
}

/// A cell of a row that is to be added.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// How far the runs of its figure lie apart.
    pub(crate) range: Option<Range>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), range: None }
    }
}

/// A number with its thousands set apart: 1,234,567.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.split_at(usize::from(digits.starts_with('-')));
    let mut text = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio to two places; an em dash for none.
pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "—".to_owned(), |value| format!("{value:.2}"))
}

/// What stands before a ratio to the best peer that is less than one.
pub const BEHIND: &str = "▼";

/// A ratio to what the best peer did, with a mark where that did better.
pub(crate) fn ratio_to_best(value: Option<f64>, best: Option<f64>) -> String {
    let mark = if is_lost(value, best) { format!("{BEHIND} ") } else { String::new() };
    mark + &ratio(value)
}

/// Whether the best peer did better, or ours has no figure beside it.
pub(crate) fn is_lost(ratio: Option<f64>, best: Option<f64>) -> bool {
    ratio.map_or(best.is_some(), is_behind)
}

/// Whether a ratio, as it is shown, is less than one.
pub(crate) fn is_behind(ratio: f64) -> bool {
    (ratio * 100.0).round() < 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_range_is_named() {
        let mut grid = Grid::new("t", ["operation", "threads", "sablecat", "best peer", "which"], 1);
        assert_eq!(grid.widest(), None);
        let figure = |least, most| Cell { text: "5".to_owned(), range: Some(Range { least, most }) };
        grid.push(["read", "1", "5", "4", "a"].map(Cell::from));
        assert_eq!((grid.widest(), &grid.ranges), (None, &Vec::new()));
        grid.push(["read".into(), "1".into(), figure(4.0, 6.0), figure(3.0, 4.0), "a".into()]);
        assert_eq!(grid.widest().unwrap(), "Runs lie furthest apart at read, sablecat: 4.00–6.00.");
        grid.push(["write".into(), "4".into(), figure(5.0, 6.0), figure(2.0, 4.0), "b".into()]);
        let sentence = "Runs lie furthest apart at write, 4 threads, b: 2.00–4.00.";
        assert_eq!(grid.widest().unwrap(), sentence);
        assert_eq!(grid.rows[2], ["write", "4", "5", "5", "b"]);
        assert_eq!((grid.range(0, 2), grid.range(2, 4), grid.range(9, 9)), (None, None, None));
        assert_eq!(grid.range(2, 3), Some(Range { least: 2.0, most: 4.0 }));
    }

    #[test]
    fn thousands_are_set_apart() {
        for (value, text) in
            [(0.0, "0"), (999.4, "999"), (999.5, "1,000"), (1_234_567.0, "1,234,567"), (-1234.0, "-1,234")]
        {
            assert_eq!(thousands(value), text);
        }
        assert_eq!((ratio(Some(1.234)), ratio(None)), ("1.23".to_owned(), "—".to_owned()));
        let marked =
            [Some(1.234), Some(0.996), Some(0.994), None].map(|value| ratio_to_best(value, Some(5.0)));
        assert_eq!(marked, ["1.23", "1.00", "▼ 0.99", "▼ —"]);
        assert_eq!(ratio_to_best(None, None), "—");
    }
}

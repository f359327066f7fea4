//! A table as data: the front end decides how it looks.

use serde::{Deserialize, Serialize};

use crate::Charted;

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

//! Where ours is ahead of every peer, and where it is not, from the tables as they are shown.

use crate::Report;
use crate::grid::{BEHIND, Grid, is_behind};

/// A line beside its best peer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Beside {
    /// Its first cells, and which table it is of, if that has a name.
    pub(super) line: String,
    /// The peer, where the table names one.
    pub(super) peer: Option<String>,
    /// None: the peer has a figure, and ours has none.
    pub(super) ratio: Option<f64>,
}

/// How a suite stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    pub(super) lines: usize,
    pub(super) behind: Vec<Beside>,
    /// The geometric mean of all ratios; none if there are none.
    pub(super) mean: Option<f64>,
}

/// What a ratio is at most that is shown as 0.00.
const SHOWN_AS_ZERO: f64 = 0.005;

/// How a suite stands; none if no line of it has a peer beside it.
pub(super) fn standing(report: &Report) -> Option<Standing> {
    let all: Vec<Beside> = report.grids().iter().flat_map(lines).collect();
    if all.is_empty() {
        return None;
    }
    let logarithms: Vec<f64> =
        all.iter().filter_map(|line| Some(line.ratio?.max(SHOWN_AS_ZERO).ln())).collect();
    let mean =
        (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp());
    let lines = all.len();
    let is_behind = |line: &Beside| line.ratio.is_none_or(is_behind);
    Some(Standing { lines, behind: all.into_iter().filter(is_behind).collect(), mean })
}

/// The lines of a table that have a ratio to the best peer, or only what that did.
fn lines(grid: &Grid) -> Vec<Beside> {
    let Some(column) = grid.heads.iter().position(|head| head == "ratio" || head == "ratio to the best peer")
    else {
        return Vec::new();
    };
    let peer = grid.heads.iter().position(|head| head == "which");
    let beside = |cells: &Vec<String>| {
        let cell = &cells[column];
        let ratio: Option<f64> = cell.trim_start_matches(BEHIND).trim().parse().ok();
        if ratio.is_none() && !cell.starts_with(BEHIND) {
            return None;
        }
        let threads = match grid.heads.get(1) {
            Some(head) if head == "threads" && cells[1] != "1" => format!(", {} threads", cells[1]),
            _ => String::new(),
        };
        let of = grid.title.split_once(": ").and_then(|(name, _)| name.rsplit(", ").next());
        let of = of.map_or_else(String::new, |name| format!(" ({name})"));
        let line = format!("{}{threads}{of}", cells[0]);
        Some(Beside { line, peer: peer.map(|at| cells[at].clone()), ratio })
    };
    grid.rows.iter().filter_map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::named;
    use super::*;
    use crate::Suite;
    use crate::field::Outcome;

    #[test]
    fn a_lost_line_is_named() {
        let results = named("a", 100.0).results;
        let standing = standing(&results.suites[0]).unwrap();
        let lost = Beside { line: "DS read".to_owned(), peer: Some("lmdb".to_owned()), ratio: Some(0.5) };
        assert_eq!((standing.lines, standing.behind), (3, vec![lost]));
        let mean = standing.mean.unwrap();
        assert!((mean - (0.5f64 * 4.0 * 8.0).cbrt()).abs() < 0.01, "{mean}");
    }

    #[test]
    fn a_line_without_ours_and_one_far_behind_are_lost_too() {
        let mut grid = Grid::new("t", ["operation", "threads", "which", "ratio"], 1);
        let rows = [["a", "1", "p", "2.00"], ["b", "1", "p", "▼ —"], ["c", "1", "—", "—"]];
        grid.rows = rows.map(|cells| cells.map(str::to_owned).into()).into();
        let mut report = Report::of(Suite::Wp43, None, Outcome::default(), Vec::new());
        report.grids = vec![grid.clone()];
        let stands = standing(&report).unwrap();
        assert_eq!((stands.lines, stands.behind.len()), (2, 1));
        assert_eq!((stands.behind[0].line.as_str(), stands.behind[0].ratio), ("b", None));
        assert!((stands.mean.unwrap() - 2.0).abs() < 1e-9, "{stands:?}");

        grid.rows[0][3] = "▼ 0.00".to_owned();
        report.grids = vec![grid.clone()];
        let stands = standing(&report).unwrap();
        assert_eq!((stands.lines, stands.behind.len()), (2, 2));
        assert!((stands.mean.unwrap() - SHOWN_AS_ZERO).abs() < 1e-9, "{stands:?}");

        grid.rows.remove(0);
        report.grids = vec![grid];
        assert_eq!(standing(&report).unwrap().mean, None);
    }
}

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
    pub(super) ratio: f64,
}

/// How a suite stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    pub(super) lines: usize,
    pub(super) behind: Vec<Beside>,
    /// The geometric mean of all ratios.
    pub(super) mean: f64,
}

/// How a suite stands; none if no line of it has a peer beside it.
pub(super) fn standing(report: &Report) -> Option<Standing> {
    let all: Vec<Beside> = report.grids().iter().flat_map(lines).collect();
    if all.is_empty() {
        return None;
    }
    let mean = (all.iter().map(|line| line.ratio.ln()).sum::<f64>() / all.len() as f64).exp();
    let lines = all.len();
    Some(Standing { lines, behind: all.into_iter().filter(|line| is_behind(line.ratio)).collect(), mean })
}

/// The lines of a table that have a ratio to the best peer.
fn lines(grid: &Grid) -> Vec<Beside> {
    let Some(column) = grid.heads.iter().position(|head| head == "ratio" || head == "ratio to the best peer")
    else {
        return Vec::new();
    };
    let peer = grid.heads.iter().position(|head| head == "which");
    let beside = |cells: &Vec<String>| {
        let ratio: f64 = cells[column].trim_start_matches(BEHIND).trim().parse().ok()?;
        let threads = match grid.heads.get(1) {
            Some(head) if head == "threads" && cells[1] != "1" => format!(", {} threads", cells[1]),
            _ => String::new(),
        };
        let of = grid.title.split_once(": ").and_then(|(name, _)| name.rsplit(", ").next());
        let of = of.map_or_else(String::new, |name| format!(" ({name})"));
        let line = format!("{}{threads}{of}", cells[0]);
        (ratio > 0.0).then(|| Beside { line, peer: peer.map(|at| cells[at].clone()), ratio })
    };
    grid.rows.iter().filter_map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::named;
    use super::*;

    #[test]
    fn a_lost_line_is_named() {
        let results = named("a", 100.0).results;
        let standing = standing(&results.suites[0]).unwrap();
        let lost = Beside { line: "DS read".to_owned(), peer: Some("lmdb".to_owned()), ratio: 0.5 };
        assert_eq!((standing.lines, standing.behind), (3, vec![lost]));
        assert!((standing.mean - (0.5f64 * 4.0 * 8.0).cbrt()).abs() < 0.01, "{}", standing.mean);
    }
}

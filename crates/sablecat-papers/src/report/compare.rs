//! Ours on several machines, or of several versions or builds, beside each other.

use super::{Named, measured};
use crate::grid::{Cell, Grid, ratio, ratio_to_best, thousands};
use crate::{Report, Row, Table};

/// What each suite of the first file's has in common with that of others, as tables.
pub(super) fn grids(all: &[Named]) -> Vec<(String, Vec<Grid>)> {
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let of = |report: &Report| {
        let same: Vec<(&str, &Report)> = [(first.name.as_str(), report)]
            .into_iter()
            .chain(
                others.iter().filter_map(|other| Some((other.name.as_str(), suite(other, &report.suite)?))),
            )
            .collect();
        if same.len() < 2 {
            return None;
        }
        let grids: Vec<Grid> = match &report.tables[..] {
            [] => measured::grids(&same),
            tables => tables.iter().map(|table| grid(table, &same)).collect(),
        };
        (!grids.is_empty()).then(|| (report.suite.clone(), grids))
    };
    first.results.suites.iter().filter_map(of).collect()
}

fn suite<'a>(named: &'a Named, name: &str) -> Option<&'a Report> {
    named.results.suites.iter().find(|report| report.suite == name)
}

fn grid(table: &Table, reports: &[(&str, &Report)]) -> Grid {
    let mut grid = Grid::new(format!("{}; {}", table.title, table.unit), ["operation", "threads"], 1);
    let (first, rest) = reports.split_first().expect("the table's own report is one of them");
    grid.heads.extend(reports.iter().map(|(name, _)| (*name).to_owned()));
    grid.heads.extend(rest.iter().map(|(name, _)| format!("{name} / {}", first.0)));
    grid.heads.extend(reports.iter().map(|(name, _)| format!("{name} / best peer")));
    for line in &table.lines {
        let all: Vec<Vec<&Row>> = reports.iter().map(|(_, report)| table.rows(report.operations())).collect();
        let ours: Vec<Option<&Row>> = all.iter().map(|rows| line.of(&line.ours, rows)).collect();
        let mut cells: Vec<Cell> = vec![table.label(line).into(), line.threads.to_string().into()];
        cells.extend(ours.iter().map(|row| match row.and_then(|row| table.figure.point(row)) {
            Some((rate, range)) => Cell { text: thousands(rate), range },
            None => table.figure.cell(*row),
        }));
        cells.extend(ours[1..].iter().map(|row| ratio(table.figure.share(*row, ours[0])).into()));
        cells.extend(all.iter().map(|rows| {
            let (ratio, best) = table.ratio(line, rows);
            ratio_to_best(ratio, best).into()
        }));
        grid.push(cells);
    }
    for (name, report) in rest {
        if !report.tables.iter().any(|other| other.title == table.title) {
            grid.remarks.push(format!("{name} was run with other records or another cache."));
        }
    }
    grid
}

//! Everything as Markdown, for where pages are not shown.

use std::fmt::Write as _;

use super::about::about;
use super::summary::standing;
use super::{Named, compare, facts};
use crate::OURS;
use crate::grid::{BEHIND, Grid, ratio};

/// So many characters are a ratio of one in a chart of characters.
const ONE: f64 = 10.0;

/// The longest bar.
const BAR_MAX: usize = 50;

/// The same as [`html`](super::html), as Markdown.
pub fn markdown(all: &[Named]) -> String {
    let mut text = format!("# {OURS} beside the papers and the peers\n");
    for named in all {
        if all.len() > 1 {
            let _ = write!(text, "\n## {}\n", cell(&named.name));
        }
        text.push('\n');
        for (name, fact) in facts(all, named) {
            let fact = if name == "to repeat" { format!("`{fact}`") } else { cell(&fact) };
            let _ = writeln!(text, "- {name}: {fact}");
        }
    }
    text += "\nBehind a figure are the least and the most of its runs, in brackets.\n";
    for (suite, grids) in compare::grids(all) {
        let _ = write!(text, "\n## Compared: {} ({suite})\n", about(&suite).title);
        grids.iter().for_each(|grid| text += &table(grid));
    }
    for named in all {
        for report in &named.results.suites {
            let about = about(&report.suite);
            let whose = if all.len() > 1 { format!(", {}", named.name) } else { String::new() };
            let _ = write!(text, "\n## {} ({}{whose})\n\n{}\n", about.title, report.suite, about.what);
            if let Some(standing) = standing(report) {
                let (lines, behind) = (standing.lines, standing.behind.len());
                let mean = ratio(standing.mean);
                let _ = write!(
                    text,
                    "\nAhead of every peer in {} of {lines} lines; the geometric mean of the ratios is \
                     {mean}.\n",
                    lines - behind
                );
            }
            for problem in &report.problems {
                let _ = write!(text, "\n{BEHIND} {problem}\n");
            }
            for grid in report.grids() {
                text += &table(&grid);
                text += &bars(&grid);
            }
            text += "\nWho took part:\n\n";
            report.notes.iter().for_each(|note| {
                let _ = writeln!(text, "- {note}");
            });
            for took in &report.systems {
                for (mode, meaning) in &took.modes {
                    let _ = writeln!(text, "- {} {mode}: {meaning}", took.system);
                }
            }
        }
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn table(grid: &Grid) -> String {
    let mut text = format!("\n**{}**\n\n", cell(&grid.title));
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text += &row(grid.heads.iter().map(|head| cell(head)).collect());
    let rules = (0..grid.heads.len()).map(|column| if column < grid.text_columns { "---" } else { "--:" });
    let _ = writeln!(text, "| {} |", rules.collect::<Vec<_>>().join(" | "));
    for (at, cells) in grid.rows.iter().enumerate() {
        let cells = cells.iter().enumerate().map(|(column, text)| match grid.range(at, column) {
            Some(range) => format!("{} ({range})", cell(text)),
            None => cell(text),
        });
        text += &row(cells.collect());
    }
    for remark in &grid.remarks {
        let _ = write!(text, "\n{remark}\n");
    }
    text
}

/// A chart of the ratios, in characters; nothing if there are none.
fn bars(grid: &Grid) -> String {
    let Some(column) = grid.heads.iter().position(|head| head == "ratio") else { return String::new() };
    let lines: Vec<(String, f64)> = grid
        .rows
        .iter()
        .filter_map(|cells| {
            let ratio = cells[column].trim_start_matches(BEHIND).trim().parse().ok()?;
            Some((format!("{} {:>3}", cells[0], cells[1]), ratio))
        })
        .collect();
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (label, ratio) in &lines {
        let length = ((ratio * ONE).round() as usize).min(BAR_MAX);
        let more = if ratio * ONE > BAR_MAX as f64 { "…" } else { "" };
        let _ = writeln!(text, "{label:>width$} {}{more} {ratio:.2}", "█".repeat(length));
    }
    if text.is_empty() { text } else { format!("\n```text\n{text}```\n") }
}

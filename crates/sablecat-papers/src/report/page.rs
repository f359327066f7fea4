//! Everything as one HTML page: no script, nothing from elsewhere, light or dark as its reader's system is.

use std::fmt::Write as _;

use super::about::about;
use super::summary::{Standing, standing};
use super::{Named, chart, compare, facts};
use crate::beside::systems;
use crate::contestant::{DEVICE, is_ours};
use crate::grid::{BEHIND, Grid, ratio};
use crate::{OURS, Report, Row, Table};

/// What is small below figures, and the lines of charts.
const RANGES: &str = "<p class=\"remark\">Small below a figure are the least and the most of its runs, \
                      <small class=\"wide\">coloured</small> where the most is one and a half times the \
                      least or more; in charts, a line through a mark leads from one to the other.</p>\n";

const STYLE: &str = include_str!("page.css");

/// Text, where a page has text.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page of one or more files; of several, they are compared first.
pub fn html(all: &[Named]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{OURS} beside the papers</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{OURS} beside the papers and the peers</h1>\n"
    );
    for named in all {
        if all.len() > 1 {
            let _ = writeln!(page, "<h3>{}</h3>", escape(&named.name));
        }
        page += &head(all, named);
    }
    page += RANGES;
    for (suite, grids) in compare::grids(all) {
        let _ = writeln!(
            page,
            "<section>\n<h2>Compared: {} <small>{}</small></h2>",
            about(&suite).title,
            escape(&suite)
        );
        grids.iter().for_each(|grid| page += &table(grid));
        page += "</section>\n";
    }
    for named in all {
        for report in &named.results.suites {
            let whose = if all.len() > 1 { format!(", {}", named.name) } else { String::new() };
            page += &section(report, &whose);
        }
    }
    page + "</body>\n</html>\n"
}

fn head(all: &[Named], named: &Named) -> String {
    let mut text = String::from("<dl>\n");
    for (name, fact) in facts(all, named) {
        let fact = escape(&fact);
        let fact = if name == "to repeat" { format!("<code>{fact}</code>") } else { fact };
        let _ = writeln!(text, "<dt>{name}</dt><dd>{fact}</dd>");
    }
    text += "</dl>\n";
    let standings: Vec<(&Report, Standing)> =
        named.results.suites.iter().filter_map(|report| Some((report, standing(report)?))).collect();
    if standings.is_empty() {
        return text + "<p>Nothing of this is measured against the best of several peers.</p>\n";
    }
    let heads = ["suite", "lines with a peer", "ahead", "behind", "geometric mean of the ratios"];
    let mut grid = Grid::new("", heads, 1);
    for (report, standing) in &standings {
        let behind = standing.behind.len();
        let counts = [standing.lines, standing.lines - behind, behind].map(|count| count.to_string());
        let cells = [report.suite.clone()].into_iter().chain(counts).chain([ratio(standing.mean)]);
        grid.rows.push(cells.collect());
    }
    text += &table(&grid);
    text + "<p class=\"remark\">Each ratio is ours to the best of the peers at that operation, in the same \
            run.</p>\n"
}

fn section(report: &Report, whose: &str) -> String {
    let about = about(&report.suite);
    let (suite, whose) = (escape(&report.suite), escape(whose));
    let mut text =
        format!("<section>\n<h2>{} <small>{suite}{whose}</small></h2>\n<p>{}</p>\n", about.title, about.what);
    for problem in &report.problems {
        let _ = writeln!(text, "<p class=\"remark\">{BEHIND} {}</p>", escape(problem));
    }
    if let Some(Standing { behind, .. }) = standing(report)
        && !behind.is_empty()
    {
        text += "<h3>Where a peer did better</h3>\n<ul class=\"lost\">\n";
        for line in behind {
            let peer = line.peer.map_or_else(String::new, |peer| format!(" of {}", escape(&peer)));
            let _ = writeln!(
                text,
                "<li>{}: <b>{BEHIND} {}</b>{peer}</li>",
                escape(&line.line),
                ratio(line.ratio)
            );
        }
        text += "</ul>\n";
    }
    let rows = report.operations();
    for shown in &report.tables {
        text += &table(&shown.beside_the_paper(&report.suite, rows));
        text += &charts(shown, rows);
        if let Some(grid) = shown.all_systems(rows) {
            let _ = writeln!(text, "<details><summary>All systems</summary>{}</details>", table(&grid));
        }
    }
    if let Some(svg) = chart::latencies(rows) {
        let caption =
            "What one operation in a thousand takes at least, in microseconds, on a logarithmic scale";
        text += &one_chart(legend(systems(&rows.iter().collect::<Vec<_>>()), None), caption, &svg);
    }
    for grid in &report.grids {
        text += &table(grid);
        text += &chart_of(grid);
    }
    text + &whom(report) + "</section>\n"
}

/// The charts of a table, with what their marks stand for.
fn charts(shown: &Table, rows: &[Row]) -> String {
    let curves = chart::curves(shown, rows);
    if !curves.is_empty() {
        let figures: String =
            curves.iter().map(|(label, svg)| figure(&format!("{label}: operations a second"), svg)).collect();
        return format!("<div class=\"charts\">{figures}</div>\n");
    }
    let Some(svg) = chart::dots(shown, rows) else { return String::new() };
    let caption = "Operations a second, on a logarithmic scale";
    let legend = legend(systems(&shown.rows(rows)), shown.paper.as_deref());
    one_chart(legend, caption, &svg)
}

/// The chart of a table of cells, where it has one.
fn chart_of(grid: &Grid) -> String {
    let Some(charted) = &grid.charted else { return String::new() };
    let Some(svg) = chart::drawn(charted, &grid.title) else { return String::new() };
    let legend = legend(charted.systems(), charted.paper.as_deref());
    let caption = format!("{}, on a logarithmic scale", charted.unit);
    one_chart(legend, &caption, &svg)
}

fn one_chart(legend: String, caption: &str, svg: &str) -> String {
    legend + "<div class=\"charts one\">" + &figure(caption, svg) + "</div>\n"
}

fn figure(caption: &str, svg: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>{svg}</figure>\n", escape(caption))
}

/// What marks stand for.
fn legend(mut all: Vec<&str>, paper: Option<&str>) -> String {
    all.sort_by_key(|system| (!is_ours(system), *system == DEVICE));
    let item = |mark: String, name: &str| {
        let name = escape(name);
        format!("<li><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\">{mark}</svg>{name}</li>")
    };
    let paper = paper.into_iter().map(|paper| item(chart::paper_mark(7.0, 7.0, paper), paper));
    let items: String =
        all.iter().map(|system| item(chart::mark(system, 7.0, 7.0, system), system)).chain(paper).collect();
    format!("<ul class=\"legend\">{items}</ul>\n")
}

/// Which systems took part, in which version and configuration.
fn whom(report: &Report) -> String {
    let mut text = String::from("<details><summary>Who took part, and how</summary>\n");
    for note in &report.notes {
        let _ = writeln!(text, "<p class=\"remark\">{}</p>", escape(note));
    }
    for took in &report.systems {
        let (system, version) = (escape(&took.system), escape(&took.version));
        let _ = writeln!(text, "<h3>{system} <small>{version}</small></h3>\n<dl>");
        for (mode, meaning) in &took.modes {
            let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(mode), escape(meaning));
        }
        text += "</dl>\n";
    }
    text + "</details>\n"
}

fn table(grid: &Grid) -> String {
    let mut text = String::new();
    if !grid.title.is_empty() {
        let _ = writeln!(text, "<h3>{}</h3>", escape(&grid.title));
    }
    text += "<div class=\"scroll\"><table>\n<tr>";
    let is_text = |column: usize| column < grid.text_columns || grid.heads[column] == "which";
    for (column, head) in grid.heads.iter().enumerate() {
        let class = if is_text(column) { " class=\"text\"" } else { "" };
        let _ = write!(text, "<th scope=\"col\"{class}>{}</th>", escape(head));
    }
    text += "</tr>\n";
    for (at, cells) in grid.rows.iter().enumerate() {
        text += "<tr>";
        for (column, cell) in cells.iter().enumerate() {
            let class = match () {
                () if cell.starts_with(BEHIND) => " class=\"behind\"",
                () if is_text(column) => " class=\"text\"",
                () if grid.heads[column] == OURS => " class=\"ours\"",
                () => "",
            };
            let range = grid.range(at, column).map_or_else(String::new, |range| {
                let class = if range.is_wide() { " class=\"wide\"" } else { "" };
                format!("<small{class}>{range}</small>")
            });
            let _ = write!(text, "<td{class}>{}{range}</td>", escape(cell));
        }
        text += "</tr>\n";
    }
    text += "</table></div>\n";
    for remark in &grid.remarks {
        let _ = writeln!(text, "<p class=\"remark\">{}</p>", escape(remark));
    }
    text
}

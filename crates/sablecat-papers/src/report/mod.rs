//! Pages to look at, from files of [`Results`].
//!
//! ```text
//! about.rs      what each suite is, and of which paper
//! summary.rs    where ours is ahead, and where it is not
//! compare.rs    several machines, versions or builds beside each other
//! measured.rs   what the suites without tables have measured, to be compared as well
//! chart.rs      every system at every operation, and curves, as SVG
//! page.rs       all of it as one HTML page, without script and without anything from elsewhere
//! text.rs       all of it as Markdown
//! ```

mod about;
mod chart;
mod compare;
mod measured;
mod page;
mod summary;
mod text;

pub use page::html;
pub use text::markdown;

use crate::Results;

/// Results, and what they are called beside others.
#[derive(Clone, Debug)]
pub struct Named {
    /// A file's name, say.
    pub name: String,
    /// What it has.
    pub results: Results,
}

/// Sentences about where and how the results of one of them came to be.
fn facts(all: &[Named], of: &Named) -> Vec<(&'static str, String)> {
    let results = &of.results;
    let machine = &results.machine;
    let whole = if results.finished { "whole" } else { "interrupted: what was finished is here" };
    vec![
        ("machine", format!("{}, {} processors, {} MB", machine.cpu, machine.cpus, machine.memory_mb)),
        ("system", machine.system.clone()),
        ("sablecat", made_by(all, of)),
        ("began", format!("{} ({whole})", results.began)),
        ("to repeat", results.command.clone()),
    ]
}

/// Which version and which build of it has run, and whether another of the files is of the same.
fn made_by(all: &[Named], of: &Named) -> String {
    let Results { version, build, .. } = &of.results;
    let Some(build) = build else {
        return if all.len() > 1 {
            format!("{version}, of a build that is not known")
        } else {
            version.clone()
        };
    };
    let is_same = |other: &&Named| {
        !std::ptr::eq(*other, of)
            && (&other.results.version, &other.results.build) == (version, &of.results.build)
    };
    let same: Vec<&str> = all.iter().filter(is_same).map(|other| other.name.as_str()).collect();
    let same = if same.is_empty() { String::new() } else { format!(", as {}", same.join(", ")) };
    format!("{version}, build {build}{same}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::tests::row;
    use crate::field::Outcome;
    use crate::protocol::Mode;
    use crate::{Charted, Dots, Grid, Line, OURS, Report, Rows, Said, Suite, Table};

    /// Two tables: one of a paper with a line that is lost, one of curves.
    pub(super) fn named(name: &str, rate: f64) -> Named {
        let mut rows = vec![
            row(OURS, Mode::Ds, "read", 1, rate),
            row("lmdb", Mode::Ds, "read", 1, 200.0),
            row("device", Mode::Ds, "read", 1, 900.0),
        ];
        for threads in [2, 4] {
            rows.push(row(OURS, Mode::Sync, "write", threads, 100.0 * f64::from(threads)));
            rows.push(row("bdb-hash", Mode::Sync, "write", threads, 50.0));
        }
        let one = Table {
            paper: Some("paper, 1999".to_owned()),
            lines: vec![Line::new("DS read", Mode::Ds, "read").paper(Said::Figure(77.0))],
            ..Table::new("small & fast", 3)
        };
        let curves = Table {
            axis: Some("threads".to_owned()),
            lines: [2, 4].map(|threads| Line::new("w<r>ites", Mode::Sync, "write").threads(threads)).into(),
            ..Table::new("by threads", 3)
        };
        let mut grid = Grid::new("sizes", ["system", "MB"], 1);
        grid.rows.push(vec!["a|b".to_owned(), "3".to_owned()]);
        let values = [(OURS, 4.0), ("gtm", 3.0)].map(|(system, value)| (system.to_owned(), value));
        let line = Dots {
            label: "by cells".to_owned(),
            is_behind: true,
            paper: Some(2.0),
            values: values.into(),
            ranges: Vec::new(),
        };
        grid.charted =
            Some(Charted { unit: "MB".to_owned(), paper: Some("book, 1949".to_owned()), lines: vec![line] });
        let outcome = Outcome { rows, notes: vec!["lmdb: 0.9".to_owned()], ..Outcome::default() };
        let report = Report::of(Suite::Wp43, Some(1), outcome, vec![one, curves]);
        let mut results = Results::begin(["papers".to_owned()]);
        results.suites.push(Report { grids: vec![grid], ..report });
        Named { name: name.to_owned(), results }
    }

    #[test]
    fn a_page_needs_nothing_but_itself() {
        let page = html(&[named("a", 100.0)]);
        for shown in [
            "<!doctype html>",
            "prefers-color-scheme",
            "width=device-width",
            "small &amp; fast",
            "w&lt;r&gt;ites",
            "▼ 0.50",
            "paper, 1999",
            "MB, on a logarithmic scale",
            "▼ by cells</text>",
            "by cells: gtm, 3</title>",
            "by cells: book, 1949, 2</title>",
            ">77<",
            ">100<small>100–103</small><",
            "c0 range\"",
            "build ",
            "<svg",
            "sablecat papers",
            "interrupted",
        ] {
            assert!(page.contains(shown), "{shown} in {page}");
        }
        for absent in ["<script", "http://", "https://", "@import", "url(", "w<r>ites", "NaN", "inf"] {
            assert!(!page.contains(absent), "{absent} in {page}");
        }
        for name in ["svg", "table", "section", "div", "details", "g", "tr", "td", "th"] {
            let (opened, closed) = (format!("<{name}"), format!("</{name}>"));
            let is_opened = |at: &(usize, &str)| page[at.0 + opened.len()..].starts_with([' ', '>']);
            let count = page.match_indices(&opened).filter(is_opened).count();
            assert_eq!(count, page.matches(&closed).count(), "{name}");
        }
    }

    #[test]
    fn markdown_has_the_same_tables() {
        let text = markdown(&[named("a", 100.0)]);
        for shown in [
            "# ",
            "| DS read | 1 | 77 | 100 (100–103) | 200 (200–203) | lmdb | ▼ 0.50 |",
            "a\\|b",
            "`sablecat papers`",
        ] {
            assert!(text.contains(shown), "{shown} in {text}");
        }
    }

    #[test]
    fn two_files_are_compared_line_by_line() {
        let both = [named("old", 100.0), named("new", 300.0)];
        let text = markdown(&both);
        let line = "| DS read | 1 | 100 (100–103) | 300 (300–303) | 3.00 | ▼ 0.50 | 1.50 |";
        assert!(text.contains(line), "{text}");
        assert!(html(&both).contains("new / old"));
        let marked = both.map(|mut named| {
            named.results.suites[0].suite = "<w>".to_owned();
            named
        });
        let page = html(&marked);
        assert!(page.contains("<small>&lt;w&gt;</small>") && !page.contains("<w>"), "{page}");
    }

    #[test]
    fn runs_that_lie_wide_apart_are_marked() {
        let mut wide = named("a", 100.0);
        let Rows::Operations(rows) = &mut wide.results.suites[0].rows else { unreachable!() };
        rows[0].runs = vec![80.0, 100.0, 120.0];
        assert!(html(&[wide]).contains(">100<small class=\"wide\">80.0–120</small><"));
    }

    #[test]
    fn builds_of_one_version_are_told_apart() {
        let of = |build: Option<&str>, name| {
            let mut named = named(name, 100.0);
            named.results.build = build.map(str::to_owned);
            named
        };
        let all = [of(Some("1"), "a"), of(Some("2"), "b"), of(Some("1"), "c"), of(None, "d")];
        let made = all.each_ref().map(|named| made_by(&all, named));
        let version = &all[0].results.version;
        let expected = ["build 1, as c", "build 2", "build 1, as a", "of a build that is not known"];
        assert_eq!(made, expected.map(|what| format!("{version}, {what}")));
        assert_eq!(made_by(&all[3..], &all[3]), *version);
        let text = markdown(&all);
        assert!(text.contains(&format!("- sablecat: {version}, build 1, as c\n")), "{text}");
        assert!(html(&all).contains("build 2</dd>"));
    }
}

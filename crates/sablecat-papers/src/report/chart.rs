//! Charts as SVG: every system at every operation of a table, and curves where a table has an axis.
//!
//! Drawn here rather than by a plotting crate: colours are the page's, by class, so that they follow its
//! light or dark scheme; and all is as wide as a telephone, so that letters keep their size there, and a desk
//! shows several side by side. Every mark says in its title what it stands for, which needs no script.
//!
//! Rates are on logarithmic scales: the same distance is the same ratio, wherever it is. A line through a
//! mark leads from the least of its runs to the most.

use std::fmt::Write as _;

use super::page::escape;
use crate::beside::{NONE, Said, systems};
use crate::charted::Point;
use crate::contestant::{DEVICE, is_ours};
use crate::grid::{BEHIND, is_lost, thousands};
use crate::{Charted, Dots, Line, Range, Row, Table};

const WIDTH: f64 = 420.0;

/// Where the labels of lines end at most, and where the names of curves begin.
const LABELS: f64 = 200.0;
const NAMES: f64 = 96.0;

const LINE_HEIGHT: f64 = 20.0;
const CURVES_HEIGHT: f64 = 240.0;

/// The class of a system's colour: one for each library, and one for ours.
pub(super) fn class(system: &str) -> &'static str {
    const LIBRARIES: [(&str, &str); 9] = [
        ("bdb", "c1"),
        ("lmdb", "c2"),
        ("leveldb", "c3"),
        ("rocksdb", "c4"),
        ("wiredtiger", "c5"),
        ("sqlite", "c6"),
        ("tkrzw", "c7"),
        ("redb", "c9"),
        ("fjall", "c10"),
    ];
    if is_ours(system) {
        return "c0";
    }
    LIBRARIES.iter().find(|(library, _)| system.starts_with(library)).map_or("c8", |(_, class)| class)
}

/// A mark at a place: what is the plain system of its library is full, its variants are hollow.
pub(super) fn mark(system: &str, x: f64, y: f64, title: &str) -> String {
    let (class, title) = (class(system), format!("<title>{}</title>", escape(title)));
    let hollow = if system.contains('-') { " hollow" } else { "" };
    if is_ours(system) {
        format!(r#"<circle class="{class}{hollow}" cx="{x:.1}" cy="{y:.1}" r="6">{title}</circle>"#)
    } else if system == DEVICE {
        let (x, y) = (x - 3.5, y - 3.5);
        format!(r#"<rect class="{class} hollow" x="{x:.1}" y="{y:.1}" width="7" height="7">{title}</rect>"#)
    } else {
        format!(r#"<circle class="{class}{hollow}" cx="{x:.1}" cy="{y:.1}" r="4">{title}</circle>"#)
    }
}

/// The mark of a paper's figure.
pub(super) fn paper_mark(x: f64, y: f64, title: &str) -> String {
    let title = escape(title);
    format!(r#"<path class="paper" d="M{x:.1} {:.1}l5 5l-5 5l-5 -5z"><title>{title}</title></path>"#, y - 5.0)
}

/// What a mark says of a value.
fn told(value: f64, range: Option<Range>) -> String {
    let value = thousands(value);
    range.map_or_else(|| value.clone(), |range| format!("{value} ({range})"))
}

/// A logarithmic scale: from which value to which, and from which place to which.
struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// One that has room for all values; none if there are none above zero.
    fn of(values: impl Iterator<Item = f64>, (start, end): (f64, f64), room: f64) -> Option<Scale> {
        let (mut from, mut to) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            from = from.min(value);
            to = to.max(value);
        }
        (to > 0.0).then(|| Scale { from: (from / room).ln(), to: (to * room).ln(), start, end })
    }

    fn at(&self, value: f64) -> f64 {
        let place = (value.max(f64::MIN_POSITIVE).ln() - self.from) / (self.to - self.from);
        self.start + place.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Round numbers that it shows: powers of ten, and of narrow scales what lies between them.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.to - self.from) / std::f64::consts::LN_10;
        let steps: &[f64] = match decades {
            ..0.7 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            ..2.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let (low, high) = (self.from.exp(), self.to.exp());
        let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    }
}

/// A number as an axis has room for it.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "K"),
        _ => (value, ""),
    };
    let digits = if scaled >= 100.0 || scaled.fract().abs() < 0.005 { 0 } else { 1 };
    let digits = if unit.is_empty() && scaled < 1.0 { 2 } else { digits };
    format!("{scaled:.digits$}{unit}")
}

fn svg(height: f64, label: &str, inside: &str) -> String {
    let label = escape(label);
    format!(r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{label}">{inside}</svg>"#)
}

/// A line for each of the table's: ours, the paper's and every system's rate; none without a row.
pub(super) fn dots(table: &Table, rows: &[Row]) -> Option<String> {
    let rows = table.rows(rows);
    let of = |line: &Line| {
        let threads = if line.threads == 1 { String::new() } else { format!(", {} threads", line.threads) };
        let of_line = rows.iter().filter(|row| line.is_of(row));
        let mut dots = Dots {
            label: format!("{}{threads}", line.label),
            is_behind: {
                let (ratio, best) = table.ratio(line, &rows);
                is_lost(ratio, best)
            },
            paper: match line.paper {
                Said::Figure(figure) => Some(figure),
                Said::Words(_) | Said::Nothing => None,
            },
            ..Dots::default()
        };
        of_line.for_each(|row| dots.push(&row.system, table.figure.point(row)));
        dots
    };
    let lines: Vec<Dots> = table.lines.iter().map(of).collect();
    let charted = Charted { unit: table.unit.clone(), paper: table.paper.clone(), lines };
    drawn(&charted, &table.title)
}

/// What one operation in a thousand takes at least, of every kind at each durability; none if nothing was
/// timed.
pub(super) fn latencies(rows: &[Row]) -> Option<String> {
    let mut lines: Vec<Dots> = Vec::new();
    for row in rows {
        let Some(latency) = row.latency.as_ref().filter(|_| row.errors == 0) else { continue };
        let label = format!("{} {}", row.mode.name(), row.op);
        let at = lines.iter().position(|line| line.label == label).unwrap_or(lines.len());
        if at == lines.len() {
            lines.push(Dots { label, ..Dots::default() });
        }
        lines[at].push(&row.system, Some((latency.p999_us, latency.range())));
    }
    let unit = "microseconds".to_owned();
    drawn(&Charted { unit, paper: None, lines }, "one in a thousand takes longer")
}

/// A chart of these lines; none if there is nothing to show.
pub(super) fn drawn(charted: &Charted, title: &str) -> Option<String> {
    let lines = &charted.lines;
    let shown = |line: &Dots| {
        let behind = if line.is_behind { format!("{BEHIND} ") } else { String::new() };
        behind + &line.label
    };
    let longest = lines.iter().map(|line| shown(line).chars().count()).max()?;
    // About as wide as letters are. Those that leave too little room for the marks stand above them.
    let needed = (longest as f64 * 6.0 + 12.0).max(60.0);
    let is_above = needed > LABELS;
    let labels = if is_above { 0.0 } else { needed };
    let height = if is_above { 2.0 * LINE_HEIGHT - 6.0 } else { LINE_HEIGHT };
    let of_papers = lines.iter().filter_map(|line| line.paper);
    let values = lines.iter().flat_map(|line| &line.values).map(|(_, value)| *value).chain(of_papers);
    let ranges = lines.iter().flat_map(|line| &line.ranges);
    let values = values.chain(ranges.flat_map(|(_, range)| [range.least, range.most]));
    let scale = Scale::of(values, (labels + 8.0, WIDTH - 10.0), 1.3)?;
    let bottom = height * lines.len() as f64 + 6.0;
    let mut inside = String::new();
    for tick in scale.ticks() {
        let x = scale.at(tick);
        let (y, text) = (bottom + 14.0, short(tick));
        let _ = write!(inside, r#"<path class="grid" d="M{x:.1} 0V{bottom:.0}"/>"#);
        let _ = write!(inside, r#"<text class="tick" x="{x:.1}" y="{y:.0}">{text}</text>"#);
    }
    for (i, line) in lines.iter().enumerate() {
        let (y, label) = (height * (i as f64 + 1.0) - LINE_HEIGHT / 2.0 + 3.0, &line.label);
        let shown = escape(&shown(line));
        let (from, to) = (labels + 8.0, WIDTH - 10.0);
        let (class, x, below) = if is_above { ("above", 8.0, y - 11.0) } else { ("label", labels, y + 4.0) };
        let _ = write!(inside, r#"<text class="{class}" x="{x:.0}" y="{below:.1}">{shown}</text>"#);
        let _ = write!(inside, r#"<path class="track" d="M{from:.0} {y:.1}H{to}"/>"#);
        if let Some(figure) = line.paper {
            let paper = charted.paper.as_deref().unwrap_or_default();
            inside += &paper_mark(scale.at(figure), y, &format!("{label}: {paper}, {}", thousands(figure)));
        }
        // Ours last, so that nothing covers it.
        let mut values: Vec<&(String, f64)> = line.values.iter().collect();
        values.sort_by_key(|(system, _)| is_ours(system));
        for (system, _) in &values {
            let Some(range) = line.range(system) else { continue };
            let (class, from, to) = (self::class(system), scale.at(range.least), scale.at(range.most));
            let _ = write!(inside, r#"<path class="{class} range" d="M{from:.1} {y:.1}H{to:.1}"/>"#);
        }
        for (system, value) in values {
            let title = format!("{label}: {system}, {}", told(*value, line.range(system)));
            inside += &mark(system, scale.at(*value), y, &title);
        }
    }
    Some(svg(bottom + 20.0, &format!("{title}, {}", charted.unit), &inside))
}

/// A chart for each label of a table that has an axis: a curve for each system.
pub(super) fn curves(table: &Table, rows: &[Row]) -> Vec<(String, String)> {
    let Some(axis) = &table.axis else { return Vec::new() };
    let rows = table.rows(rows);
    let mut labels: Vec<&str> = table.lines.iter().map(|line| line.label.as_str()).collect();
    labels.dedup();
    let of = |label: &&str| {
        let lines: Vec<&Line> = table.lines.iter().filter(|line| line.label == *label).collect();
        Some(((*label).to_owned(), curves_of(table, axis, &lines, &rows)?))
    };
    labels.iter().filter_map(of).collect()
}

fn curves_of(table: &Table, axis: &str, lines: &[&Line], rows: &[&Row]) -> Option<String> {
    let right = WIDTH - NAMES;
    let measured = lines.iter().flat_map(|line| rows.iter().filter(|row| line.is_of(row)));
    let values = measured
        .filter_map(|row| table.figure.point(row))
        .flat_map(|(value, range)| range.map_or([value; 3], |range| [value, range.least, range.most]));
    let y_scale = Scale::of(values, (CURVES_HEIGHT - 34.0, 8.0), 1.2)?;
    let x_scale = Scale::of(lines.iter().map(|line| line.at), (44.0, right - 6.0), 1.05)?;
    let mut inside = String::new();
    for tick in y_scale.ticks() {
        let y = y_scale.at(tick);
        let (below, text) = (y + 4.0, short(tick));
        let _ = write!(inside, r#"<path class="grid" d="M38 {y:.1}H{right}"/>"#);
        let _ = write!(inside, r#"<text class="label" x="34" y="{below:.1}">{text}</text>"#);
    }
    for line in lines {
        let (x, y, text) = (x_scale.at(line.at), CURVES_HEIGHT - 20.0, short(line.at));
        let _ = write!(inside, r#"<text class="tick" x="{x:.1}" y="{y:.0}">{text}</text>"#);
    }
    let (x, y) = (f64::midpoint(44.0, right), CURVES_HEIGHT - 5.0);
    let _ = write!(inside, r#"<text class="tick" x="{x:.0}" y="{y:.0}">{}</text>"#, escape(axis));

    let mut all = systems(rows);
    // Ours last, so that nothing covers it.
    all.sort_by_key(|system| is_ours(system));
    let mut ends: Vec<(f64, &str)> = Vec::new();
    for system in all {
        let points: Vec<(f64, Point)> = lines
            .iter()
            .filter_map(|line| Some((line.at, table.figure.point(line.of(system, rows)?)?)))
            .collect();
        let Some((_, (last, _))) = points.last() else { continue };
        let class = class(system);
        let path = points.iter().map(|(at, (rate, _))| {
            let (x, y) = (x_scale.at(*at), y_scale.at(*rate));
            format!("{x:.1} {y:.1}")
        });
        let path = path.collect::<Vec<_>>().join("L");
        let _ = write!(inside, r#"<path class="{class} curve" d="M{path}"/>"#);
        for (at, (rate, range)) in &points {
            let x = x_scale.at(*at);
            if let Some(range) = range {
                let (from, to) = (y_scale.at(range.least), y_scale.at(range.most));
                let _ = write!(inside, r#"<path class="{class} range" d="M{x:.1} {from:.1}V{to:.1}"/>"#);
            }
            let title = format!("{system}, {axis} {}: {}", short(*at), told(*rate, *range));
            inside += &mark(system, x, y_scale.at(*rate), &title);
        }
        ends.push((y_scale.at(*last), system));
    }
    for (y, system) in apart(ends) {
        let (x, class) = (right + 4.0, class(system));
        let _ = write!(
            inside,
            r#"<text class="{class} name" x="{x:.0}" y="{:.1}">{}</text>"#,
            y + 4.0,
            escape(system)
        );
    }
    let label = lines.first().map_or(NONE, |line| &line.label);
    Some(svg(CURVES_HEIGHT, &format!("{label}, {}", table.title), &inside))
}

/// Names at such heights, moved so that none covers another.
fn apart(mut names: Vec<(f64, &str)>) -> Vec<(f64, &str)> {
    const HEIGHT: f64 = 12.0;
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    for i in 1..names.len() {
        names[i].0 = names[i].0.max(names[i - 1].0 + HEIGHT);
    }
    let mut lowest = CURVES_HEIGHT - 24.0;
    for name in names.iter_mut().rev() {
        name.0 = name.0.min(lowest);
        lowest = name.0 - HEIGHT;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::tests::row;
    use crate::latency::Latency;
    use crate::protocol::Mode;

    #[test]
    fn what_failed_has_no_mark() {
        let rows = [1, 2].map(|threads| row("a", Mode::Sync, "write", threads, 30.0));
        let lines = [1, 2].map(|threads| Line::new("w", Mode::Sync, "write").threads(threads));
        let table = Table { axis: Some("threads".to_owned()), lines: lines.into(), ..Table::new("t", 3) };
        let marks = |rows: &[Row]| {
            let all = curves(&table, rows).into_iter().map(|(_, svg)| svg).chain(dots(&table, rows));
            all.map(|svg| svg.matches("<circle").count()).collect::<Vec<_>>()
        };
        assert_eq!(marks(&rows), [2, 2]);
        let [one, other] = rows;
        assert_eq!(marks(&[one, Row { errors: 1, ..other }]), [1, 1]);
    }

    #[test]
    fn a_line_leads_from_the_least_run_to_the_most() {
        let lines = [1, 2].map(|threads| Line::new("w", Mode::Sync, "write").threads(threads));
        let table = Table { axis: Some("threads".to_owned()), lines: lines.into(), ..Table::new("t", 3) };
        let [one, other] = [1, 2].map(|threads| row("a", Mode::Sync, "write", threads, 30.0));
        let runs = |runs: &[f64]| Row { runs: runs.to_vec(), ..one.clone() };
        let drawn = |one: Row| {
            let rows = [one, Row { runs: vec![30.0], ..other.clone() }];
            [curves(&table, &rows).remove(0).1, dots(&table, &rows).unwrap()]
        };
        for svg in drawn(runs(&[300.0, 30.0, 3.0])) {
            assert!(svg.contains("30 (3.00–300)</title>"), "{svg}");
            let (_, line) = svg.split_once(r#"c8 range" d="M"#).unwrap();
            let numbers: Vec<f64> =
                line.split(['"', ' ', 'H', 'V']).map_while(|number| number.parse().ok()).collect();
            let (from, to) = if line.contains('V') && line.find('V') < line.find('"') {
                (numbers[1], numbers[2])
            } else {
                (numbers[0], numbers[2])
            };
            let (_, mark) = svg.rsplit_once(if from > to { "cy=\"" } else { "cx=\"" }).unwrap();
            let mark: f64 = mark.split('"').next().unwrap().parse().unwrap();
            assert!((f64::midpoint(from, to) - mark).abs() < 0.2, "{from} to {to} about {mark}: {svg}");
            assert!(from != to && svg.matches("range").count() == 1, "{svg}");
        }
        for svg in drawn(runs(&[30.0])) {
            assert!(!svg.contains("range"), "{svg}");
        }
    }

    #[test]
    fn a_scale_shows_round_numbers_within_it() {
        let scale = Scale::of([120.0, 80_000.0].into_iter(), (0.0, 100.0), 1.0).unwrap();
        assert_eq!(scale.ticks(), [1e3, 1e4]);
        let narrow = Scale::of([1.0, 4.0].into_iter(), (0.0, 100.0), 1.0).unwrap();
        assert_eq!(narrow.ticks(), [1.0, 1.5, 2.0, 3.0, 4.0]);
        assert_eq!((scale.at(120.0), scale.at(80_000.0).round()), (0.0, 100.0));
        assert!(Scale::of([0.0].into_iter(), (0.0, 1.0), 1.0).is_none());
        let one = Scale::of([5.0].into_iter(), (0.0, 100.0), 1.3).unwrap();
        assert_eq!(one.at(5.0).round(), 50.0);
        let texts = [0.25, 2.0, 1.5, 999.0, 20_000.0, 1_500_000.0].map(short);
        assert_eq!(texts, ["0.25", "2", "1.5", "999", "20K", "1.5M"]);
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let heights = [230.0, 229.0, 20.0, 25.0, 231.0].map(|height| (height, "x"));
        let moved = apart(heights.into());
        assert!(moved.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 11.9), "{moved:?}");
        assert!(moved.iter().all(|(height, _)| (0.0..CURVES_HEIGHT).contains(height)), "{moved:?}");
    }

    #[test]
    fn times_have_a_line_for_each_kind_and_durability() {
        let timed = |system: &str, p999_us| {
            let stall = "read of 1.0 ms".to_owned();
            let p999_runs_us = vec![p999_us, p999_us + 1.0];
            let latency = Latency { p50_us: 1.0, p99_us: 2.0, p999_us, max_us: 9.0, stall, p999_runs_us };
            Row { latency: Some(latency), ..row(system, Mode::Sync, "read alone", 4, 1.0) }
        };
        let chart = latencies(&[timed("sablecat", 3.0), timed("lmdb", 7.0)]).unwrap();
        assert_eq!(chart.matches("Sync read alone</text>").count(), 1, "{chart}");
        assert!(chart.contains("lmdb, 7 (7.00–8.00)</title>"), "{chart}");
        assert_eq!(latencies(&[row("lmdb", Mode::Sync, "read", 1, 1.0)]), None);
    }

    #[test]
    fn a_library_has_one_colour() {
        assert_eq!(
            ["bdb", "bdb-hash", "sablecat-hash", "sablecat", "twin"].map(class),
            ["c1", "c1", "c0", "c0", "c8"]
        );
    }
}

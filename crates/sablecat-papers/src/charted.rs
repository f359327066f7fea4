//! What a chart shows: for each of several lines what every system has there.

use serde::{Deserialize, Serialize};

use crate::Range;

/// What a chart of a table shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Charted {
    /// What the values are.
    pub unit: String,
    /// What the paper's values are called, where there are any.
    pub paper: Option<String>,
    /// The lines, from the top down.
    pub lines: Vec<Dots>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dots {
    /// As people read it.
    pub label: String,
    /// Whether a peer did better than ours.
    pub is_behind: bool,
    /// What the paper says of it.
    pub paper: Option<f64>,
    /// Systems, with what each has.
    pub values: Vec<(String, f64)>,
    /// How far the runs of a system's value lie apart, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<(String, Range)>,
}

/// A value, and how far its runs lie apart.
pub(crate) type Point = (f64, Option<Range>);

impl Charted {
    /// A chart without lines.
    pub(crate) fn new(unit: &str) -> Charted {
        Charted { unit: unit.to_owned(), ..Charted::default() }
    }

    /// The systems in it, each once, as they first come.
    pub(crate) fn systems(&self) -> Vec<&str> {
        each_once(self.lines.iter().flat_map(|line| &line.values).map(|(system, _)| system.as_str()))
    }
}

impl Dots {
    /// A line of those of some systems that have a value.
    pub(crate) fn of<'s>(
        label: impl Into<String>,
        systems: impl IntoIterator<Item = &'s str>,
        point: impl Fn(&str) -> Option<Point>,
    ) -> Dots {
        let mut dots = Dots { label: label.into(), ..Dots::default() };
        for system in systems {
            dots.push(system, point(system));
        }
        dots
    }

    /// Adds a system, if it has a value.
    pub(crate) fn push(&mut self, system: &str, point: Option<Point>) {
        let Some((value, range)) = point else { return };
        self.values.push((system.to_owned(), value));
        self.ranges.extend(range.map(|range| (system.to_owned(), range)));
    }

    /// How far the runs of a system's value lie apart, where that is known.
    pub(crate) fn range(&self, system: &str) -> Option<Range> {
        self.ranges.iter().find(|(named, _)| named == system).map(|(_, range)| *range)
    }
}

/// Names, each once, as they first come.
pub(crate) fn each_once<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut once = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

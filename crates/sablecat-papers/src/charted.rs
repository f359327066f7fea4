//! What a chart shows: for each of several lines what every system has there.

use serde::{Deserialize, Serialize};

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
}

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
        value: impl Fn(&str) -> Option<f64>,
    ) -> Dots {
        let values = systems.into_iter().filter_map(|system| Some((system.to_owned(), value(system)?)));
        Dots { label: label.into(), values: values.collect(), ..Dots::default() }
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

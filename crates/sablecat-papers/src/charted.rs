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
    /// The systems in it, each once, as they first come.
    pub(crate) fn systems(&self) -> Vec<&str> {
        let mut systems: Vec<&str> = Vec::new();
        for (system, _) in self.lines.iter().flat_map(|line| &line.values) {
            if !systems.contains(&system.as_str()) {
                systems.push(system);
            }
        }
        systems
    }
}

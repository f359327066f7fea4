//! How long the operations of a run took, as it goes over the protocol.

use serde::{Deserialize, Serialize};

/// Times of the operations of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Of lookups: nanoseconds, and how many took as long.
    pub reads: Vec<(u64, u64)>,
    /// Of what changes something.
    pub writes: Vec<(u64, u64)>,
    /// The longest of all.
    pub longest: Longest,
    /// How many checkpoints were made meanwhile.
    pub checkpoints: u64,
}

/// The longest operation of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Longest {
    /// How long it took.
    pub ns: u64,
    /// When it began, from the start of the run on.
    pub at_ns: u64,
    /// Whether it was to change something.
    pub is_write: bool,
    /// Whether a checkpoint was being made during any of it.
    pub in_checkpoint: bool,
}

impl Longest {
    /// In words.
    pub(crate) fn told(self) -> String {
        let what = if self.is_write { "write" } else { "read" };
        let met = if self.in_checkpoint { "beside a checkpoint" } else { "beside no checkpoint" };
        let (ms, at) = (self.ns as f64 / 1e6, self.at_ns as f64 / 1e9);
        format!("{what} of {ms:.1} ms, {at:.2} s after the start, {met}")
    }
}

//! What makes sense to be asked for, and what follows from it: the same of all systems.
//!
//! The peers' own workspace includes this file beside a protocol of the same words.

use crate::protocol::{Kind, Run};
use crate::workload::{Order, Stage};

impl Run {
    /// Whether it makes sense by itself, on a store that was opened for so many threads.
    pub(crate) fn check(&self, threads_opened: u32) -> Result<(), String> {
        if self.threads == 0 || self.threads > threads_opened {
            return Err(format!("{} threads, but the store was opened for {threads_opened}", self.threads));
        }
        if self.records == 0 || self.passes == 0 {
            return Err("records and passes must be at least 1".to_owned());
        }
        self.shape.check()?;
        self.mix.map_or(Ok(()), |mix| mix.check())?;
        if self.mix.is_some() != (self.kind == Kind::Mix) || (self.mix.is_some() && self.shape.is_plain()) {
            return Err(
                "a mix, and nothing else, says what is done, to records that know their version".to_owned()
            );
        }
        let is_in_runs = |records: u64| records.checked_rem(self.together) == Some(0);
        if !is_in_runs(self.records) || !is_in_runs(self.visited()) || self.visited() > self.records {
            return Err(format!(
                "{} of {} records, {} together",
                self.visited(),
                self.records,
                self.together
            ));
        }
        if (self.timed || self.checkpoint_ms > 0) && self.kind != Kind::Mix {
            return Err(
                "what a mix does is timed, and has checkpoints beside it, and nothing else".to_owned()
            );
        }
        Ok(())
    }

    /// The version of the values to write, or to expect, where the last were of `last` and those that are
    /// there are of `expected`.
    pub(crate) fn version_of_values(&self, last: u32, expected: u32) -> u32 {
        self.version.unwrap_or(match self.kind {
            Kind::Load | Kind::Write => 0,
            Kind::Update => last + 1,
            Kind::Read | Kind::Bulk | Kind::Take | Kind::Delete | Kind::Mix => expected,
        })
    }

    /// The order in which it visits the records.
    pub(crate) fn order(&self) -> Order {
        let stage = match self.kind {
            // What is removed and written again are the same records.
            Kind::Load | Kind::Write | Kind::Delete => Stage::Write,
            Kind::Update => Stage::Update,
            Kind::Read | Kind::Bulk | Kind::Take | Kind::Mix => Stage::Read,
        };
        Order::in_runs(self.keys, stage, (self.records / self.together, self.together), self.seed)
    }

    /// When its loops end early; 0: never.
    pub(crate) fn seconds_limit(&self) -> f64 {
        if self.kind == Kind::Load { 0.0 } else { self.seconds_max }
    }

    /// How many records there are before it, of so many that were added to its own and removed.
    pub(crate) fn present(&self, added: u64, removed: u64) -> u64 {
        (self.records + added).saturating_sub(removed)
    }
}

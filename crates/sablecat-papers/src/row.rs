//! A measured figure, as it stands in the JSON report.

use serde::{Deserialize, Serialize};

use crate::Range;
use crate::grid::thousands;
use crate::latency::Latency;
use crate::protocol::{Figures, Mode};
use crate::session::{Session, Step};
use crate::sql::Spent;
use crate::statistics::{median, spread, tenths, thousandths};

/// One system at one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `sablecat`, the same with `-shared` for a shared environment, a peer's name, or `device`.
    pub system: String,
    /// What was promised: DS, TDS, Memory, NoSync, WriteNoSync or Sync.
    pub mode: Mode,
    /// read, write, update or bulk; the engine's own suite has more.
    pub op: String,
    /// sequential or random.
    pub keys: String,
    /// Among how many threads the records were shared out.
    pub threads: u32,
    /// How many records there were.
    pub records: u64,
    /// Bytes of cache that the system was given.
    pub cache_bytes: u64,
    /// Operations a second, of all threads together; records a second for bulk. The median of all runs.
    pub ops_per_s: f64,
    /// The mean of all runs.
    pub mean: f64,
    /// Their standard deviation; 0 of one run.
    pub deviation: f64,
    /// Operations a second of each run, in their order.
    pub runs: Vec<f64>,
    /// Of how many runs these are.
    pub median_of: u32,
    /// Wrong or failed operations in all of those runs.
    pub errors: u64,
    /// Resident memory of the process after the run, the median.
    pub rss_mb: f64,
    /// Disk blocks of the store after it was closed, the median.
    pub disk_mb: f64,
    /// Whether it is shown, and not measured against: it was given more than the others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apart: bool,
    /// What else [`Case::Attach`](crate::Case::Attach) has measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Attached>,
    /// How long single operations took, where that was measured; the rate is of all kinds together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// What transactions and queries of SQL cost beside time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<Spent>,
}

/// What processes that attach to a shared environment cost: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attached {
    /// How many there were, without the one that made the environment.
    pub processes: u32,
    /// How long the slowest of them took to attach; the median is in [`Row::ops_per_s`], as so many a second.
    pub slowest_ms: f64,
    /// Memory that a process has to itself, the program's own included; the median of the processes.
    pub private_mb: f64,
    /// Page tables of a process, which come on top of that, the median of the processes.
    pub page_tables_mb: f64,
}

impl Attached {
    /// The figures of some rounds of as many processes; none if there were no rounds.
    pub(crate) fn over(rounds: &[Attached]) -> Option<Attached> {
        let of = |pick: fn(&Attached) -> f64| Some(thousandths(median(rounds.iter().map(pick).collect())?));
        Some(Attached {
            processes: rounds.first()?.processes,
            slowest_ms: of(|round| round.slowest_ms)?,
            private_mb: of(|round| round.private_mb)?,
            page_tables_mb: of(|round| round.page_tables_mb)?,
        })
    }
}

impl Row {
    /// The row of some rounds' figures; none if there were no rounds.
    pub(crate) fn of(system: &str, session: &Session, step: &Step, samples: &[&Figures]) -> Option<Row> {
        let all = |pick: fn(&Figures) -> f64| samples.iter().map(|sample| pick(sample)).collect::<Vec<_>>();
        let of = |pick: fn(&Figures) -> f64| median(all(pick));
        let (mean, deviation) = spread(&all(rate))?;
        Some(Row {
            system: system.to_owned(),
            mode: session.mode,
            op: step.op.to_owned(),
            keys: session.keys_name().to_owned(),
            threads: session.threads,
            records: session.records,
            cache_bytes: session.cache_bytes,
            ops_per_s: tenths(of(rate)?),
            mean: tenths(mean),
            deviation: tenths(deviation),
            runs: all(rate).into_iter().map(tenths).collect(),
            median_of: samples.len() as u32,
            errors: samples.iter().map(|sample| sample.errors).sum(),
            rss_mb: tenths(of(|sample| sample.rss_mb)?),
            disk_mb: tenths(of(|sample| sample.disk_mb)?),
            apart: false,
            attached: None,
            latency: None,
            sql: None,
        })
    }

    /// How far its runs lie apart; none of one run, or if operations were wrong or failed.
    pub(crate) fn range(&self) -> Option<Range> {
        Range::of(&self.runs).filter(|_| self.errors == 0)
    }

    /// What a cell shows in place of a rate, if operations were wrong or failed.
    pub(crate) fn failed(&self) -> Option<String> {
        (self.errors > 0).then(|| format!("{} failed", thousands(self.errors as f64)))
    }

    /// For a sentence about the row.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.system, self.operation())
    }

    /// What was done, for a sentence.
    pub(crate) fn operation(&self) -> String {
        let Row { mode, op, keys, threads, .. } = self;
        let threads = if *threads == 1 { String::new() } else { format!(", {threads} threads") };
        format!("{} {op}, {keys}{threads}", mode.name())
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Operations a second; a run too short for the clock counts as a nanosecond.
pub(crate) fn rate(figures: &Figures) -> f64 {
    figures.ops as f64 / figures.seconds.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_no_time_to_be_finite() {
        assert_eq!(rate(&Figures { ops: 10, seconds: 2.0, ..Figures::default() }), 5.0);
        assert!(rate(&Figures { ops: 10, ..Figures::default() }).is_finite());
    }
}

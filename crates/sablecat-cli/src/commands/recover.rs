//! `recover`: open an environment and say what that took.

use sablecat_papers::thousands;
use serde_json::json;

use crate::arguments::Existing;
use crate::{Failure, Outcome, output};

/// Recover an environment that was not closed, and say what was replayed
///
/// Every other command does the same on its way, without a word.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
}

pub(crate) fn run(Arguments { place }: &Arguments) -> Result<Outcome, Failure> {
    let env = place.open()?;
    let report = env.recovery();
    env.close()?;
    if place.json {
        output::json(&json!({
            "recovered": report.recovered,
            "commits": report.commits,
            "operations": report.operations,
            "torn": report.torn,
            "checkpoint": report.checkpoint.0,
            "end": report.end.0,
        }))?;
        return Ok(Outcome::Done);
    }
    if !report.recovered {
        output::line("It had been closed: there was nothing to recover.")?;
        return Ok(Outcome::Done);
    }
    output::pairs([
        ("commits replayed", thousands(report.commits as f64)),
        ("changes of records", thousands(report.operations as f64)),
        ("from the checkpoint at LSN", thousands(report.checkpoint.0 as f64)),
        ("to LSN", thousands(report.end.0 as f64)),
    ])?;
    if report.torn {
        output::line("After that came remains of commits that had not been made durable; they are gone.")?;
    }
    Ok(Outcome::Done)
}

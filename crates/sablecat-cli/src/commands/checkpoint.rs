//! `checkpoint`: write what has changed into the volume.

use sablecat_papers::thousands;
use serde_json::json;

use crate::arguments::Existing;
use crate::{Failure, Outcome, output};

/// Write a checkpoint, so that recovery begins there
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
}

pub(crate) fn run(Arguments { place }: &Arguments) -> Result<Outcome, Failure> {
    let env = place.open()?;
    let report = env.checkpoint()?;
    env.close()?;
    if place.json {
        output::json(&json!({
            "lsn": report.lsn.0, "pages": report.pages, "written": report.written, "moved": report.moved
        }))?;
    } else {
        output::pairs([
            ("LSN", thousands(report.lsn.0 as f64)),
            ("pages changed", thousands(report.pages as f64)),
            ("pages written", thousands(report.written as f64)),
            ("pages moved", thousands(report.moved as f64)),
        ])?;
    }
    Ok(Outcome::Done)
}

//! `compact`: make the volume as small as its data.

use sablecat_papers::thousands;
use serde_json::json;

use crate::arguments::Existing;
use crate::{Failure, Outcome, output};

/// Make the volume smaller: remove expired records, free unreachable pages, move all pages to the beginning
/// of the file, and cut off the free space at its end
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
}

pub(crate) fn run(Arguments { place }: &Arguments) -> Result<Outcome, Failure> {
    let env = place.open()?;
    let swept = env.sweep()?;
    let report = env.compact()?;
    env.close()?;
    let found =
        |count: u64| if report.undecided { "could not be told".to_owned() } else { thousands(count as f64) };
    if place.json {
        output::json(&json!({
            "bytes_before": report.bytes_before,
            "bytes_after": report.bytes_after,
            "moved": report.moved,
            "pages_freed": report.pages_freed,
            "page_numbers_freed": report.page_numbers_freed,
            "blocks_freed": report.blocks_freed,
            "undecided": report.undecided,
            "records_swept": swept,
        }))?;
    } else {
        output::pairs([
            ("bytes before", thousands(report.bytes_before as f64)),
            ("bytes after", thousands(report.bytes_after as f64)),
            ("pages moved", thousands(report.moved as f64)),
            ("unreachable pages freed", thousands(report.pages_freed as f64)),
            ("page numbers of killed processes freed", found(report.page_numbers_freed)),
            ("blocks of killed processes freed", found(report.blocks_freed)),
            ("expired records removed", thousands(swept as f64)),
        ])?;
    }
    Ok(Outcome::Done)
}

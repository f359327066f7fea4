//! `verify`: check everything.

use sablecat::{ErrorKind, Progress};
use sablecat_papers::thousands;
use serde_json::json;

use crate::arguments::{Existing, Reading};
use crate::progress::Bar;
use crate::{Failure, Outcome, interrupt, output};

/// How often it begins again when a newer checkpoint has taken the place of the one that it checks.
const TRIES: u32 = 5;

/// Check every page and every invariant
///
/// Exit code 1 means that problems were found; each is a line that names the page and the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    #[command(flatten)]
    reading: Reading,
}

pub(crate) fn run(Arguments { place, reading }: &Arguments) -> Result<Outcome, Failure> {
    let env = place.open_to_read(reading)?;
    let bar = Bar::new();
    let mut look = |progress: Progress| {
        interrupt::unwind_if_told();
        bar.set(progress.pages, progress.pages_total);
    };
    let mut tries = 1;
    let report = loop {
        match env.verify(&mut look) {
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld && tries < TRIES => {
                eprintln!("sablecat: {error}; beginning again");
                tries += 1;
            }
            checked => break checked,
        }
    };
    bar.finish();
    let report = report.map_err(|error| match error.kind() {
        ErrorKind::SnapshotTooOld => format!(
            "{error}; {TRIES} times a new checkpoint was written before the last one was checked: leave out \
             --read-only, so that the command joins the processes that have the environment open"
        )
        .into(),
        _ => Failure::from(error),
    })?;
    env.close()?;
    if place.json {
        output::json(&json!({
            "problems": report.problems,
            "databases": report.databases,
            "records": report.records,
            "pages": report.pages,
            "pages_unreachable": report.pages_unreachable,
            "order_not_checked": report.order_not_checked,
            "indices_not_compared": report.indices_not_compared,
            "not_known": report.not_known,
            "epochs": report.epochs,
        }))?;
    } else {
        for problem in &report.problems {
            output::line(problem)?;
        }
        for name in &report.order_not_checked {
            output::line(&format!(
                "database {name:?}: order not checked, since only its own program has the comparator"
            ))?;
        }
        for name in &report.indices_not_compared {
            output::line(&format!(
                "index {name:?}: its entries lead to records; whether each record has its entries was not \
                 checked, since only its own program has the extractor"
            ))?;
        }
        for name in &report.not_known {
            output::line(&format!(
                "database {name:?}: not checked, since this version does not know its access method"
            ))?;
        }
        let number = |number: u64| thousands(number as f64);
        output::pairs([
            ("problems", number(report.problems.len() as u64)),
            ("databases", number(report.databases)),
            ("records", number(report.records)),
            ("pages", number(report.pages)),
            ("unreachable pages", number(report.pages_unreachable)),
            ("retained epochs", number(report.epochs)),
        ])?;
    }
    Ok(if report.problems.is_empty() { Outcome::Done } else { Outcome::No })
}

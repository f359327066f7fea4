//! `scan`: records in key order.

use sablecat::{Database, Error, ErrorKind};

use crate::arguments::{InDatabase, Reading};
use crate::output::Records;
use crate::part::Part;
use crate::shown::Shown;
use crate::{Failure, Outcome, interrupt};

/// Print records in key order
///
/// Each record is a line: the key, a tab, the value. Bytes that are not printable are shown as \xNN. Where a
/// key has several values, there is a line for each. In place of a key, records of a queue and numbered
/// records have their number, and nodes of globals a reference. An index is shown as its keys, each with the
/// key of a record that has it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    part: Part,
    /// From the last record to the first
    #[arg(long)]
    reverse: bool,
    /// At most this many records
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print the keys without the values
    #[arg(long)]
    keys_only: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let (env, database) = arguments.place.open_to_read(&arguments.reading)?;
    arguments.print(database).map_err(|failure| match failure.downcast_ref::<Error>() {
        Some(error) if error.kind() == ErrorKind::SnapshotTooOld => format!(
            "{error}; other processes write to the environment: without --read-only the command joins them"
        )
        .into(),
        _ => failure,
    })?;
    env.close()?;
    Ok(Outcome::Done)
}

impl Arguments {
    fn print(&self, database: Database) -> Result<(), Failure> {
        let mut records = Records::new(self.place.environment.json, self.place.spelling);
        let shown = Shown::new(database)?;
        let range = shown.records(&self.part.names(&shown, self.place.spelling)?)?;
        let ordered: Box<dyn Iterator<Item = _>> = if self.reverse { Box::new(range.rev()) } else { range };
        for record in ordered.take(self.limit.unwrap_or(usize::MAX)) {
            interrupt::check()?;
            let (name, value) = record?;
            records.push(&name, (!self.keys_only).then_some(&value))?;
        }
        records.finish()
    }
}

//! `scan`: records in key order.

use std::ops::Bound;

use sablecat::{Database, Error, ErrorKind, Prefix};

use crate::arguments::{InDatabase, Reading};
use crate::output::Records;
use crate::shown::{Ordered, Shown};
use crate::{Failure, Outcome, interrupt};

/// Print records in key order
///
/// Each record is a line: the key, a tab, the value. Bytes that are not printable are shown as \xNN.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    #[command(flatten)]
    reading: Reading,
    /// Only keys at or above this one (inclusive)
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only keys below this one (exclusive)
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only keys that begin with this
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
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
        let mut records = Records::new(self.place.environment.json, self.place.hex);
        let range = self.range(&Shown::new(database)?)?;
        let ordered: Box<dyn Iterator<Item = _>> = if self.reverse { Box::new(range.rev()) } else { range };
        for record in ordered.take(self.limit.unwrap_or(usize::MAX)) {
            interrupt::check()?;
            let (key, value) = record?;
            records.push(&key, (!self.keys_only).then_some(&value))?;
        }
        records.finish()
    }

    fn range(&self, database: &Shown) -> Result<Ordered, Failure> {
        let bytes =
            |argument: &Option<String>| argument.as_deref().map(|text| self.place.bytes(text)).transpose();
        if let Some(prefix) = bytes(&self.prefix)? {
            return Ok(database.range(Prefix(&prefix))?);
        }
        let (from, to) = (bytes(&self.from)?, bytes(&self.to)?);
        if from.is_some() && to.is_some() && from > to {
            return Err("--from is after --to".into());
        }
        Ok(database.range((
            from.map_or(Bound::Unbounded, Bound::Included),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        ))?)
    }
}

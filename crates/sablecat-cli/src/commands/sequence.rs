//! `sequence`: numbers that nobody else gets.

use sablecat::SequenceOptions;
use serde_json::json;

use crate::arguments::InDatabase;
use crate::{Failure, Outcome, output};

/// Take numbers from a sequence, and print them
///
/// No other call and no other process gets the same numbers, whatever becomes of this one. The sequence is a
/// record of a database of plain records; environment, database and sequence are created if they do not
/// exist. --start, --least, --greatest, --descending and --wraps say what a new one is; one that exists stays
/// as it is. At the end of a sequence fewer numbers come, and an error where there are none left.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The key of the sequence's record
    key: String,
    /// How many consecutive numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    numbers: u64,
    /// The first number of a new sequence; else the least, or the greatest of a descending one
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    start: Option<i64>,
    /// The least number of a new sequence
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    least: i64,
    /// The greatest number of a new sequence
    #[arg(long, value_name = "N", default_value_t = i64::MAX, allow_negative_numbers = true)]
    greatest: i64,
    /// A new sequence goes downwards
    #[arg(long)]
    descending: bool,
    /// A new sequence begins again at its other end after the last number
    #[arg(long)]
    wraps: bool,
}

impl Arguments {
    fn options(&self) -> SequenceOptions {
        let options = SequenceOptions::new()
            .bounds(self.least..=self.greatest)
            .descending(self.descending)
            .wraps(self.wraps)
            .cache(1);
        match self.start {
            Some(start) => options.start(start),
            None => options,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    let key = place.spelling.key(&arguments.key)?;
    let (first, last) = place.environment.with_made(&place.db, |env| {
        let database = match env.existing_database(&place.db)? {
            Some(database) => database,
            None => env.database(&place.db)?,
        };
        if database.holds() != sablecat::Holds::Records || database.index_of().is_some() {
            return Err(format!(
                "a sequence in {}: the database holds {}; sequences are in databases of plain records",
                place.db,
                database.holds()
            )
            .into());
        }
        Ok(database.sequence(&key, arguments.options())?.next_block(arguments.numbers)?)
    })?;
    if place.environment.json {
        output::json(&json!({ "first": first, "last": last }))?;
    } else {
        output::lines(numbers(first, last).map(|number| number.to_string()))?;
    }
    Ok(Outcome::Done)
}

/// From one to the other, whichever is the greater.
fn numbers(first: i64, last: i64) -> Box<dyn Iterator<Item = i64>> {
    if first <= last { Box::new(first..=last) } else { Box::new((last..=first).rev()) }
}

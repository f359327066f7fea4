//! `queue`: append records to a queue, and consume them.

use clap::Subcommand;
use sablecat::{Env, Queue};
use serde_json::{Map, Value};

use crate::arguments::{InDatabase, Reading};
use crate::naming::Name;
use crate::{Failure, Outcome, output};

/// Append records to a queue, and consume them
///
/// A record goes into a pipe or a file as it is, filled up to the length of the queue's records, without a
/// line end. Exit code 1 means that there is no record. `scan`, `count`, `get` and `del` take the numbers of
/// records.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Append a record, and print its number; it is durable then
    Append {
        #[command(flatten)]
        place: InDatabase,
        /// Create the queue, if there is none, with records of so many bytes
        #[arg(long, value_name = "N")]
        record_bytes: Option<u32>,
        /// The record; without it, the bytes of standard input, unchanged
        record: Option<String>,
    },
    /// Print the first record that no process has in hand, and remove it: it stays if it cannot be printed
    Consume {
        #[command(flatten)]
        place: InDatabase,
    },
    /// Print the first record
    Peek {
        #[command(flatten)]
        place: InDatabase,
        #[command(flatten)]
        reading: Reading,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.what {
        What::Append { place, record_bytes, record } => append(place, *record_bytes, record.as_deref()),
        What::Consume { place } => {
            let (env, database) = place.open()?;
            let queue = Queue::of(database)?;
            let mut txn = env.begin()?;
            let outcome = tell(place, queue.consume(&mut txn)?)?;
            txn.commit()?;
            close(env, queue)?;
            Ok(outcome)
        }
        What::Peek { place, reading } => {
            let (env, database) = place.open_to_read(reading)?;
            let queue = Queue::of(database)?;
            let outcome = tell(place, queue.peek(&env)?)?;
            close(env, queue)?;
            Ok(outcome)
        }
    }
}

fn append(place: &InDatabase, record_bytes: Option<u32>, record: Option<&str>) -> Result<Outcome, Failure> {
    let record = place.value_or_input(record)?;
    let number = match record_bytes {
        None => {
            let (env, database) = place.open()?;
            let queue = Queue::of(database)?;
            let number = queue.append_one(&record)?;
            close(env, queue)?;
            number
        }
        Some(record_bytes) => place.environment.with_made(&place.db, |env| {
            let queue = match env.existing_database(&place.db)? {
                Some(database) => Queue::of(database)?,
                None => Queue::open(env, &place.db, record_bytes)?,
            };
            Ok(queue.append_one(&record)?)
        })?,
    };
    output::number(place.environment.json, "number", number)?;
    Ok(Outcome::Done)
}

fn close(env: Env, queue: Queue) -> Result<(), Failure> {
    drop(queue);
    Ok(env.close()?)
}

/// Prints a record, if there is one.
fn tell(place: &InDatabase, found: Option<(u64, Vec<u8>)>) -> Result<Outcome, Failure> {
    match &found {
        _ if place.environment.json => {
            let mut document = found.as_ref().map_or_else(Map::new, |(number, record)| {
                output::record(&Name::Number(*number), Some(record), place.spelling)
            });
            document.insert("found".to_owned(), Value::from(found.is_some()));
            output::json(&document)?;
        }
        Some((_, record)) if output::is_line(place.spelling.hex) => {
            output::value_line(record, place.spelling.hex)?
        }
        Some((_, record)) => output::value_part(record)?,
        None => {}
    }
    Ok(if found.is_some() { Outcome::Done } else { Outcome::No })
}

//! `put`: set the value of a key.

use std::io::{self, Read};

use serde_json::Value;

use crate::arguments::InDatabase;
use crate::{Failure, Outcome, output};

/// Set the value of a key
///
/// Creates the environment and the database if they do not exist. Durable when it returns.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The key
    key: String,
    /// The value; without it, everything on standard input, as it is
    value: Option<String>,
}

pub(crate) fn run(Arguments { place, key, value }: &Arguments) -> Result<Outcome, Failure> {
    let key = place.bytes(key)?;
    let value = match value {
        Some(value) => place.bytes(value)?,
        None => {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes)?;
            bytes
        }
    };
    let env = place.environment.open_or_create()?;
    let database = env.database(&place.db)?;
    database.insert(&key, &value)?;
    drop(database);
    env.close()?;
    if place.environment.json {
        let mut document = output::members(&key, None, place.hex);
        document.insert("value_bytes".to_owned(), Value::from(value.len()));
        output::json(&document)?;
    }
    Ok(Outcome::Done)
}

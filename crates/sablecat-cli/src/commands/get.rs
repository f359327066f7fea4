//! `get`: the value of a key.

use serde_json::Value;

use crate::arguments::InDatabase;
use crate::{Failure, Outcome, output};

/// Print the value of a key
///
/// Into a pipe or a file the value goes as it is, without a line end. Exit code 1 says that the key is absent.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The key
    key: String,
}

pub(crate) fn run(Arguments { place, key }: &Arguments) -> Result<Outcome, Failure> {
    let key = place.bytes(key)?;
    let (env, database) = place.open()?;
    let value = database.get(&key)?;
    drop(database);
    env.close()?;
    if place.environment.json {
        let mut document = output::members(&key, value.as_deref(), place.hex);
        document.insert("found".to_owned(), Value::from(value.is_some()));
        output::json(&document)?;
    } else if let Some(value) = &value {
        output::value(value, place.hex)?;
    }
    Ok(if value.is_some() { Outcome::Done } else { Outcome::No })
}

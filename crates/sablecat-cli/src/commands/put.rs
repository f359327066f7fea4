//! `put`: set the value of a key.

use std::io::{self, Read};

use sablecat::Method;
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
    /// How the database is arranged if it is created: one that exists stays as it is
    #[arg(long, value_enum, default_value_t)]
    method: Arrangement,
    /// The key
    key: String,
    /// The value; without it, everything on standard input, as it is
    value: Option<String>,
}

/// How records are arranged.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Arrangement {
    /// In the order of keys
    #[default]
    Btree,
    /// By the hashes of keys
    Hash,
    /// In the order of keys, counted
    Counted,
}

pub(crate) fn run(Arguments { place, method, key, value }: &Arguments) -> Result<Outcome, Failure> {
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
    let method = match method {
        Arrangement::Btree => Method::Btree,
        Arrangement::Hash => Method::Hash,
        Arrangement::Counted => Method::Counted,
    };
    let database = match env.existing_database(&place.db)? {
        Some(database) => database,
        None => env.database_as(&place.db, method)?,
    };
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

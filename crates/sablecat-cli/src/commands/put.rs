//! `put`: set the value of a key.

use std::io::{self, Read};
use std::time::Duration;

use sablecat::{Database, DatabaseOptions, Expiring, Holds, Lifetime, Method};
use serde_json::Value;

use crate::arguments::InDatabase;
use crate::{Failure, Outcome, lifetime, output};

/// Set the value of a key
///
/// Creates the environment and the database if they do not exist. The record is durable when the command
/// ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The access method of the database if it is created; an existing database stays as it is
    #[arg(long, value_enum, default_value_t)]
    method: Arrangement,
    /// Make the database temporary if it is created: its records are gone once no process has the environment
    /// open any more
    #[arg(long)]
    temporary: bool,
    /// Time to live of the record: seconds, or a number with ms, s, m, h or d. If the database is created, it
    /// is one whose records expire; in such a database a record without --ttl never expires
    #[arg(long, value_name = "TIME", value_parser = lifetime::ttl)]
    ttl: Option<Duration>,
    /// The key
    key: String,
    /// The value; without it, the bytes of standard input, unchanged
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
    /// In the order of keys, with records counted
    Counted,
}

pub(crate) fn run(
    Arguments { place, method, temporary, ttl, key, value }: &Arguments,
) -> Result<Outcome, Failure> {
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
    let options = DatabaseOptions::new().method(method).temporary(*temporary);
    let database = match (env.existing_database(&place.db)?, ttl) {
        (Some(database), _) => database,
        (None, None) => env.database_with(&place.db, options)?,
        (None, Some(_)) => {
            env.database_with(&place.db, options.holds(Holds::Expiring))?;
            Expiring::open(&env, &place.db)?.database().clone()
        }
    };
    put(database, (&key, &value), *ttl)?;
    env.close()?;
    if place.environment.json {
        let mut document = output::members(&key, None, place.hex);
        document.insert("value_bytes".to_owned(), Value::from(value.len()));
        output::json(&document)?;
    }
    Ok(Outcome::Done)
}

fn put(database: Database, (key, value): (&[u8], &[u8]), ttl: Option<Duration>) -> Result<(), Failure> {
    if database.holds() != Holds::Expiring {
        if ttl.is_some() {
            return Err(format!(
                "the database {} holds {}; --ttl is only for databases whose records expire: a new one, or one that was created with --ttl",
                database.name(),
                database.holds()
            )
            .into());
        }
        return Ok(database.insert(key, value)?);
    }
    let env = database.env();
    let expiring = Expiring::of(env, &database)?;
    let lifetime = ttl.map_or(Lifetime::Unlimited, Lifetime::For);
    Ok(env.write(|txn| expiring.insert(txn, key, value, lifetime))?)
}

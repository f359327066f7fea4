//! `put`: set the value of a key.

use std::time::Duration;

use sablecat::globals::Globals;
use sablecat::{Database, DatabaseOptions, Expiring, Holds, Lifetime, MultiMap, Numbered};
use serde_json::Value;

use crate::arguments::InDatabase;
use crate::commands::db::{self, Arrangement};
use crate::naming::Name;
use crate::{Failure, Outcome, lifetime, output};

/// Set the value of a key
///
/// Creates the environment and the database if they do not exist. The record is durable when the command
/// ends. Where keys have several values, the value is added to those of the key. Records are appended to a
/// queue by `sablecat queue append`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The access method of the database if it is created; an existing database stays as it is
    #[arg(long, value_enum, default_value_t = Arrangement::Btree)]
    method: Arrangement,
    /// Make the database temporary if it is created: its records are gone once no process has the environment
    /// open any more
    #[arg(long)]
    temporary: bool,
    /// Time to live of the record: seconds, or a number with ms, s, m, h or d. If the database is created, it
    /// is one whose records expire; in such a database a record without --ttl never expires
    #[arg(long, value_name = "TIME", value_parser = lifetime::ttl)]
    ttl: Option<Duration>,
    /// Of numbered records that make room: insert the record before the one that has this number
    #[arg(long, conflicts_with = "ttl")]
    insert: bool,
    /// The key; the number, of numbered records; a reference such as 'acct(42,"name")', of a node of globals
    key: String,
    /// The value; without it, the bytes of standard input, unchanged
    value: Option<String>,
}

pub(crate) fn run(
    Arguments { place, method, temporary, ttl, insert, key, value }: &Arguments,
) -> Result<Outcome, Failure> {
    let value = place.bytes_or_input(value.as_deref())?;
    if !place.environment.path().exists() {
        // Nothing is made for a key that is none.
        place.bytes(key)?;
    }
    let env = place.environment.open_or_create()?;
    let options = DatabaseOptions::new().method((*method).into()).temporary(*temporary);
    let existing = env.existing_database(&place.db)?;
    let name = match &existing {
        Some(database) => Name::of(database, key, place.hex)?,
        None => Name::Key(place.bytes(key)?),
    };
    let database = match existing {
        Some(database) => database,
        None if ttl.is_some() => db::made(&env, &place.db, options.holds(Holds::Expiring))?,
        None => db::made(&env, &place.db, options)?,
    };
    put(&database, &name, &value, *ttl, *insert)?;
    drop(database);
    env.close()?;
    if place.environment.json {
        let mut document = output::record(&name, None, place.hex);
        document.insert("value_bytes".to_owned(), Value::from(value.len()));
        output::json(&document)?;
    }
    Ok(Outcome::Done)
}

fn put(
    database: &Database,
    name: &Name,
    value: &[u8],
    ttl: Option<Duration>,
    insert: bool,
) -> Result<(), Failure> {
    let (env, holds) = (database.env(), database.holds());
    let of = database.name();
    if ttl.is_some() && holds != Holds::Expiring {
        return Err(format!(
            "the database {of} holds {holds}; --ttl is only for databases whose records expire: a new one, \
             or one that was created with --ttl"
        )
        .into());
    }
    if insert && !matches!(holds, Holds::Renumbered { .. }) {
        return Err(format!(
            "the database {of} holds {holds}; --insert is only for numbered records that make room"
        )
        .into());
    }
    match (holds, name) {
        (Holds::Records, Name::Key(key)) => database.insert(key, value)?,
        (Holds::Expiring, Name::Key(key)) => {
            let expiring = Expiring::of(env, database)?;
            let lifetime = ttl.map_or(Lifetime::Unlimited, Lifetime::For);
            env.write(|txn| expiring.insert(txn, key, value, lifetime))?;
        }
        (Holds::Values(order), Name::Key(key)) => {
            MultiMap::of(database.clone(), order)?.insert_one(key, value)?;
        }
        (Holds::Numbers { .. } | Holds::Renumbered { .. }, Name::Number(number)) => {
            let numbers = Numbered::of(database.clone())?;
            env.write(|txn| match insert {
                true => numbers.insert(txn, *number, value),
                false => numbers.put(txn, *number, value),
            })?;
        }
        (Holds::Globals, Name::Node(reference)) => {
            let globals = Globals::of(database.clone())?;
            env.write(|txn| globals.node(reference)?.set(txn, value))?;
        }
        _ => {
            return Err(format!(
                "setting a record of {of}: the database holds {holds}, to which records are only appended: \
                 sablecat queue append does that"
            )
            .into());
        }
    }
    Ok(())
}

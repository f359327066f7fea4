//! `del`: remove a record.

use sablecat::{Expiring, Holds};
use serde_json::Value;

use crate::arguments::InDatabase;
use crate::{Failure, Outcome, output};

/// Remove the record of a key
///
/// Exit code 1 means that there was no such record. The removal is durable when the command ends.
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
    let removed = if database.holds() == Holds::Expiring {
        let expiring = Expiring::of(&env, &database)?;
        env.write(|txn| expiring.remove(txn, &key))?
    } else {
        database.remove(&key)?
    };
    drop(database);
    env.close()?;
    if place.environment.json {
        let mut document = output::members(&key, None, place.hex);
        document.insert("removed".to_owned(), Value::from(removed));
        output::json(&document)?;
    }
    Ok(if removed { Outcome::Done } else { Outcome::No })
}

//! `del`: remove a record.

use sablecat::globals::Globals;
use sablecat::{Database, Expiring, Holds, MultiMap, Numbered, Queue};
use serde_json::Value;

use crate::arguments::InDatabase;
use crate::naming::Name;
use crate::{Failure, Outcome, output};

/// Remove the record of a key
///
/// Where keys have several values, removes all of the key, or the one that is given. Of numbered records, a
/// number is a gap then, or, where numbers close up, the next record's. Exit code 1 means that there was no
/// such record. The removal is durable when the command ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The key; the number, of a record of a queue or of numbered records; a reference such as
    /// 'acct(42,"name")', of a node of globals
    key: String,
    /// Where keys have several values: remove only this one, the first if the key has it several times
    value: Option<String>,
    /// Of globals: remove the node's descendants as well, not its value alone
    #[arg(long)]
    descendants: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    let (env, database) = place.open()?;
    let name = Name::of(&database, &arguments.key, place.hex)?;
    let removed = arguments.remove(&database, &name)?;
    drop(database);
    env.close()?;
    if place.environment.json {
        let mut document = output::record(&name, None, place.hex);
        document.insert("removed".to_owned(), Value::from(removed));
        output::json(&document)?;
    }
    Ok(if removed { Outcome::Done } else { Outcome::No })
}

impl Arguments {
    /// False if there is nothing to remove.
    fn remove(&self, database: &Database, name: &Name) -> Result<bool, Failure> {
        let (env, holds) = (database.env(), database.holds());
        let refused = |what: &str, is_for: &str| {
            format!("{what} of {}: the database holds {holds}; that is only for {is_for}", database.name())
        };
        if self.value.is_some() && !matches!(holds, Holds::Values(_)) {
            return Err(refused("removing one value of a key", "keys with several values").into());
        }
        if self.descendants && holds != Holds::Globals {
            return Err(refused("removing with --descendants", "globals").into());
        }
        if let Some(index) = database.index_of() {
            return Err(format!(
                "removing from {}: it is an index of {}; remove the record there, and it changes with it",
                database.name(),
                index.primary
            )
            .into());
        }
        let own = database.clone();
        let removed = match (holds, name) {
            (Holds::Expiring, Name::Key(key)) => {
                let expiring = Expiring::of(env, database)?;
                env.write(|txn| expiring.remove(txn, key))
            }
            (Holds::Values(order), Name::Key(key)) => {
                let values = MultiMap::of(own, order)?;
                match &self.value {
                    Some(value) => {
                        let value = self.place.bytes(value)?;
                        env.write(|txn| values.remove(txn, key, &value))
                    }
                    None => env.write(|txn| Ok(values.remove_all(txn, key)? > 0)),
                }
            }
            (Holds::Queue { .. }, Name::Number(number)) => {
                let queue = Queue::of(own)?;
                env.write(|txn| queue.remove(txn, *number))
            }
            (_, Name::Number(number)) => {
                let numbers = Numbered::of(own)?;
                env.write(|txn| numbers.remove(txn, *number))
            }
            (_, Name::Node(reference)) => {
                let globals = Globals::of(own)?;
                env.write(|txn| {
                    let node = globals.node(reference)?;
                    let there = node.data(txn)?;
                    if self.descendants {
                        node.kill(txn)?
                    } else {
                        node.kill_value(txn)?
                    }
                    Ok(there.value || self.descendants && there.children)
                })
            }
            (_, Name::Key(key)) => database.remove(key),
        };
        Ok(removed?)
    }
}

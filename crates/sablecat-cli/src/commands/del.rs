//! `del`: remove a record, or those of a part of a database.

use sablecat::globals::Globals;
use sablecat::{Database, Holds, MultiMap, Txn};
use serde_json::{Map, Value};

use crate::arguments::InDatabase;
use crate::naming::Name;
use crate::part::Part;
use crate::shown::Shown;
use crate::{Failure, Outcome, output, removal};

/// Remove the record of a key, or all records of a range
///
/// With --from, --to or --prefix instead of a key: all records in that range, in one transaction. Where keys
/// have several values, removes all of the key, or the one that is given. Of numbered records, a number is a
/// gap then, or, where numbers close up, the next record's. Exit code 1 means that there was no such record.
/// The removal is durable when the command ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The key; the number, of a record of a queue or of numbered records; a reference such as
    /// 'acct(42,"name")', of a node of globals
    #[arg(required_unless_present_any = ["from", "to", "prefix"],
          conflicts_with_all = ["from", "to", "prefix"])]
    key: Option<String>,
    #[command(flatten)]
    part: Part,
    /// Where keys have several values: remove only this one, the first if the key has it several times
    value: Option<String>,
    /// Of globals: remove the node's descendants as well, not its value alone
    #[arg(long)]
    descendants: bool,
    /// Remove the record only if its value is this one. Exit code 1 means that it is not
    #[arg(long, value_name = "OLD", conflicts_with_all = ["from", "to", "prefix", "value", "descendants"])]
    if_value: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    let old = arguments.if_value.as_deref().map(|old| place.value(old)).transpose()?;
    let (env, database) = place.open_to_change()?;
    arguments.check(&database)?;
    let mut document = Map::new();
    let removed = match &arguments.key {
        Some(key) => {
            let name = Name::of(&database, key, place.spelling)?;
            let removed = env.try_write(|txn| {
                if old.is_some() && Shown::within(&*txn, database.clone())?.get(&name)? != old {
                    return Ok(false);
                }
                arguments.remove(txn, &database, &name)
            })?;
            document = output::record(&name, None, place.spelling);
            document.insert("removed".to_owned(), Value::from(removed));
            removed
        }
        None => {
            let removed = env.try_write(|txn| {
                let names = arguments.part.names(&Shown::within(&*txn, database.clone())?, place.spelling)?;
                removal::all_of(txn, &database, &names)
            })?;
            document.insert("removed".to_owned(), Value::from(removed));
            removed > 0
        }
    };
    drop(database);
    env.close()?;
    if place.environment.json {
        output::json(&document)?;
    }
    Ok(if removed { Outcome::Done } else { Outcome::No })
}

impl Arguments {
    /// What is asked for of a database that has no such thing.
    fn check(&self, database: &Database) -> Result<(), Failure> {
        let holds = database.holds();
        let refused = |what: &str, is_for: &str| {
            format!("{what} of {}: the database holds {holds}; that is only for {is_for}", database.name())
        };
        if self.value.is_some() && !matches!(holds, Holds::Values(_)) {
            return Err(refused("removing one value of a key", "keys with several values").into());
        }
        if self.descendants && holds != Holds::Globals {
            return Err(refused("removing with --descendants", "globals").into());
        }
        if self.if_value.is_some() && matches!(holds, Holds::Values(_)) {
            return Err(refused("removing with --if-value", "records that have one value").into());
        }
        Ok(())
    }

    /// Removes what the key names. False if it is not there.
    fn remove(&self, txn: &mut Txn<'_>, database: &Database, name: &Name) -> Result<bool, Failure> {
        match (database.holds(), name, &self.value) {
            (Holds::Values(order), Name::Key(key), Some(value)) => {
                let values = MultiMap::of(database.clone(), order)?;
                Ok(values.remove(txn, key, self.place.value(value)?)?)
            }
            (_, Name::Node(reference), _) if self.descendants => {
                let globals = Globals::of(database.clone())?;
                let node = globals.node(reference)?;
                let there = node.data(&*txn)?;
                node.kill(txn)?;
                Ok(there.value || there.children)
            }
            _ => removal::one(txn, database, name),
        }
    }
}

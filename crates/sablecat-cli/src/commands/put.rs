//! `put`: set the value of a key.

use std::time::Duration;

use sablecat::globals::Globals;
use sablecat::{Database, DatabaseOptions, Env, Expiring, Holds, Lifetime, MultiMap, Numbered, Txn};
use serde_json::Value;

use crate::arguments::InDatabase;
use crate::commands::db::{self, Arrangement};
use crate::naming::Name;
use crate::shown::Shown;
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
    /// Change only a part of the value: replace the bytes from this offset on. A value that ends before it is
    /// filled up with zeros; if there is no record, the value is empty
    #[arg(long, value_name = "OFFSET", conflicts_with_all = ["ttl", "insert"])]
    at: Option<u64>,
    /// With --at: how many bytes are replaced, by more or fewer if need be [default: as many as VALUE has]
    #[arg(long, value_name = "N", requires = "at")]
    len: Option<u64>,
    /// Set the value only if it is this one now. Exit code 1 means that it is not; nothing is created
    #[arg(long, value_name = "OLD", conflicts_with_all = ["insert", "at"])]
    if_value: Option<String>,
    /// Set the value only if there is no such record. Exit code 1 means that there is one
    #[arg(long, conflicts_with_all = ["insert", "at", "if_value"])]
    if_absent: bool,
    /// The key; the number, of numbered records; a reference such as 'acct(42,"name")', of a node of globals
    key: String,
    /// The value; without it, the bytes of standard input, unchanged
    value: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    let value = place.value_or_input(arguments.value.as_deref())?;
    let old = arguments.if_value.as_deref().map(|old| place.value(old)).transpose()?;
    let put = |env: &Env| arguments.put(env, &value, old.as_deref());
    let (name, len) = match old {
        Some(_) => {
            let env = place.environment.open()?;
            let put = put(&env)?;
            env.close()?;
            put
        }
        None => place.environment.with_made(&place.db, put)?,
    };
    if place.environment.json {
        let mut document = output::record(&name, None, place.spelling);
        document.insert("set".to_owned(), Value::from(len.is_some()));
        document.extend(len.map(|len| ("value_bytes".to_owned(), Value::from(len))));
        output::json(&document)?;
    }
    Ok(if len.is_some() { Outcome::Done } else { Outcome::No })
}

impl Arguments {
    /// What names the record, and how long its value is then; none if it is not as expected.
    fn put(&self, env: &Env, value: &[u8], old: Option<&[u8]>) -> Result<(Name, Option<u64>), Failure> {
        let database = self.database(env)?;
        self.check(&database)?;
        let name = Name::of(&database, &self.key, self.place.spelling)?;
        let len = env.try_write(|txn| {
            if self.is_conditional() {
                let found = Shown::within(&*txn, database.clone())?.get(&name)?;
                if found.as_deref() != old {
                    return Ok(None);
                }
            }
            self.set(txn, &database, &name, value).map(Some)
        })?;
        Ok((name, len))
    }

    /// The database, which is made if it is not there.
    fn database(&self, env: &Env) -> Result<Database, Failure> {
        let name = &self.place.db;
        let options = DatabaseOptions::new().method(self.method.into()).temporary(self.temporary);
        match env.existing_database(name)? {
            Some(database) => Ok(database),
            None if self.if_value.is_some() => self.place.find(env, name),
            None if self.ttl.is_some() => db::made(env, name, options.holds(Holds::Expiring)),
            None => db::made(env, name, options),
        }
    }

    /// Whether the record is set only if it is as expected.
    fn is_conditional(&self) -> bool {
        self.if_value.is_some() || self.if_absent
    }

    /// What is asked for of a database that has no such thing.
    fn check(&self, database: &Database) -> Result<(), Failure> {
        let holds = database.holds();
        let refused = |option: &str, is_for: &str| {
            let of = database.name();
            Err(format!("the database {of} holds {holds}; {option} is only for {is_for}").into())
        };
        if self.ttl.is_some() && holds != Holds::Expiring {
            return refused(
                "--ttl",
                "databases whose records expire: a new one, or one that was created with --ttl",
            );
        }
        if self.insert && !matches!(holds, Holds::Renumbered { .. }) {
            return refused("--insert", "numbered records that make room");
        }
        if self.is_conditional() && matches!(holds, Holds::Values(_)) {
            return refused("--if-value or --if-absent", "records that have one value");
        }
        if self.at.is_some() && !matches!(holds, Holds::Records | Holds::Globals) {
            return refused("--at", "plain records and nodes of globals");
        }
        if matches!(holds, Holds::Queue { .. }) {
            return Err(only_appended(database, holds));
        }
        Ok(())
    }

    /// Sets the record. How long its value is then.
    fn set(&self, txn: &mut Txn<'_>, database: &Database, name: &Name, value: &[u8]) -> Result<u64, Failure> {
        let own = database.clone();
        match (database.holds(), name) {
            (Holds::Records, Name::Key(key)) => match self.at {
                Some(at) => return self.splice(txn, database, key, at, value),
                None => txn.insert(database, key, value)?,
            },
            (Holds::Globals, Name::Node(reference)) => {
                let globals = Globals::of(own)?;
                let node = globals.node(reference)?;
                match self.at {
                    Some(at) => return self.splice(txn, database, node.key(), at, value),
                    None => node.set(txn, value)?,
                }
            }
            (Holds::Expiring, Name::Key(key)) => {
                let lifetime = self.ttl.map_or(Lifetime::Unlimited, Lifetime::For);
                Expiring::of(&*txn, database)?.insert(txn, key, value, lifetime)?;
            }
            (Holds::Values(order), Name::Key(key)) => {
                MultiMap::of(own, order)?.insert(txn, key, value)?;
            }
            (Holds::Numbers { .. } | Holds::Renumbered { .. }, Name::Number(number)) => {
                let numbers = Numbered::of(own)?;
                match self.insert {
                    true => numbers.insert(txn, *number, value)?,
                    false => numbers.put(txn, *number, value)?,
                }
            }
            (holds, _) => return Err(only_appended(database, holds)),
        }
        Ok(value.len() as u64)
    }

    /// Replaces a part of a value, which may be that of a node.
    fn splice(
        &self,
        txn: &mut Txn<'_>,
        database: &Database,
        key: &[u8],
        at: u64,
        value: &[u8],
    ) -> Result<u64, Failure> {
        Ok(txn.splice(database, key, at, self.len.unwrap_or(value.len() as u64), value)?)
    }
}

/// Of a queue.
fn only_appended(database: &Database, holds: Holds) -> Failure {
    format!(
        "setting a record of {}: the database holds {holds}, to which records are only appended: sablecat \
         queue append does that",
        database.name()
    )
    .into()
}

//! `db`: create, rename, empty and remove databases.

use std::ops::Bound;

use clap::{Subcommand, ValueEnum};
use sablecat::{Database, DatabaseOptions, Duplicates, Env, Expiring, Holds, Method};
use serde_json::{Value, json};

use crate::arguments::{Existing, InDatabase};
use crate::naming::Names;
use crate::{Failure, Outcome, output, removal};

/// Create, rename, empty and remove databases
///
/// `sablecat stat` lists them. Each change is durable when the command ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Create a database of any kind; the environment too, if there is none
    Create {
        #[command(flatten)]
        place: Existing,
        /// The name of the new database
        name: String,
        /// What it is to hold
        #[arg(long, value_enum, default_value_t)]
        holds: Kind,
        /// The access method; where nothing is said, the one for what it holds
        #[arg(long, value_enum)]
        method: Option<Arrangement>,
        /// Of a queue, and of numbers: the bytes of each record
        #[arg(long, value_name = "N")]
        record_bytes: Option<u32>,
        /// With --record-bytes: the byte that shorter records are filled up with, as a number
        #[arg(long, value_name = "BYTE", default_value_t = 0, requires = "record_bytes")]
        pad: u8,
        /// Its records are gone once no process has the environment open any more
        #[arg(long)]
        temporary: bool,
    },
    /// Give a database another name
    Rename {
        #[command(flatten)]
        place: Existing,
        /// The name that it has
        from: String,
        /// The name that it gets
        to: String,
    },
    /// Remove all records of a database; it stays, as what it is
    Clear {
        #[command(flatten)]
        place: InDatabase,
    },
    /// Remove a database with all its records. Exit code 1 means that there was none
    Remove {
        #[command(flatten)]
        place: Existing,
        /// Its name
        name: String,
    },
}

/// What a database holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Keys with one value each
    #[default]
    Records,
    /// Keys with several values, in the order of their bytes
    Values,
    /// Keys with several values, in the order in which they were inserted
    InsertedValues,
    /// A queue of records of one length
    Queue,
    /// Records by number
    Numbers,
    /// Records by number, which close up and make room
    Renumbered,
    /// Globals
    Globals,
    /// Records that can expire
    Expiring,
}

/// How records are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrangement {
    /// In the order of keys
    Btree,
    /// By the hashes of keys
    Hash,
    /// In the order of keys, with records counted
    Counted,
    /// In the order of keys, in layers: for more than memory holds, written more often than read
    Lsm,
}

impl From<Arrangement> for Method {
    fn from(arrangement: Arrangement) -> Method {
        match arrangement {
            Arrangement::Btree => Method::Btree,
            Arrangement::Hash => Method::Hash,
            Arrangement::Counted => Method::Counted,
            Arrangement::Lsm => Method::Lsm,
        }
    }
}

impl Kind {
    /// The same with what else was said.
    fn holds(self, record_bytes: Option<u32>, pad: u8) -> Result<Holds, Failure> {
        let has_length = matches!(self, Kind::Queue | Kind::Numbers | Kind::Renumbered);
        if record_bytes.is_some() && !has_length {
            return Err("--record-bytes is only for queues and for records by number".into());
        }
        Ok(match self {
            Kind::Records => Holds::Records,
            Kind::Values => Holds::Values(Duplicates::Sorted),
            Kind::InsertedValues => Holds::Values(Duplicates::Inserted),
            Kind::Queue => {
                let record_bytes =
                    record_bytes.ok_or("a queue without --record-bytes: all have one length")?;
                Holds::Queue { record_bytes, pad }
            }
            Kind::Numbers => Holds::Numbers { record_bytes, pad },
            Kind::Renumbered => Holds::Renumbered { record_bytes, pad },
            Kind::Globals => Holds::Globals,
            Kind::Expiring => Holds::Expiring,
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.what {
        What::Create { place, name, holds, method, record_bytes, pad, temporary } => {
            let options =
                DatabaseOptions::new().holds(holds.holds(*record_bytes, *pad)?).temporary(*temporary);
            let options = method.iter().fold(options, |options, &method| options.method(method.into()));
            place.with_made(name, |env| create(env, name, options.clone()))?;
            tell(place.json, &json!({ "created": name }))
        }
        What::Rename { place, from, to } => {
            let env = place.open()?;
            env.rename_database(from, to)?;
            env.close()?;
            tell(place.json, &json!({ "renamed": from, "to": to }))
        }
        What::Clear { place } => {
            let (env, database) = place.open_to_change()?;
            let all = Names::Between(Bound::Unbounded, Bound::Unbounded);
            let removed = env.try_write(|txn| removal::all_of(txn, &database, &all))?;
            drop(database);
            env.close()?;
            tell(place.environment.json, &json!({ "removed": removed }))
        }
        What::Remove { place, name } => {
            let env = place.open()?;
            let was_there = env.remove_database(name)?;
            env.close()?;
            let told = tell(place.json, &json!({ "removed": was_there }))?;
            Ok(if was_there { told } else { Outcome::No })
        }
    }
}

/// What was done, for programs.
fn tell(json: bool, document: &Value) -> Result<Outcome, Failure> {
    if json {
        output::json(document)?;
    }
    Ok(Outcome::Done)
}

/// One that is not there yet.
fn create(env: &Env, name: &str, options: DatabaseOptions) -> Result<(), Failure> {
    if env.existing_database(name)?.is_some() {
        return Err(format!("creating the database {name}: there is one of that name").into());
    }
    made(env, name, options).map(drop)
}

/// One with these options, made if it is not there.
pub(crate) fn made(env: &Env, name: &str, options: DatabaseOptions) -> Result<Database, Failure> {
    let database = env.database_with(name, options)?;
    if database.holds() == Holds::Expiring {
        // With its index by time.
        Expiring::open(env, name)?;
    }
    Ok(database)
}

//! Databases by what they hold: where the records of a text go, and what of a database goes into a text.

use std::cell::RefCell;
use std::io;

use sablecat::globals::parts;
use sablecat::{
    Appender, Database, DatabaseOptions, Env, Expiring, Holds, Method, MultiMap, Numbered, Queue, Read,
    Result, Txn,
};

use crate::{Failure, interrupt, lifetime};

/// What a text says of a database, for the code that makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) method: Method,
    pub(crate) holds: Holds,
    pub(crate) temporary: bool,
}

impl Made {
    pub(crate) fn of(database: &Database) -> Made {
        Made { method: database.method(), holds: database.holds(), temporary: database.is_temporary() }
    }
}

/// A database, as what it holds.
#[derive(Debug)]
pub(crate) enum Held {
    /// Records as they are.
    Records(Database),
    Values(MultiMap),
    Expiring(Expiring),
    Queue(Queue),
    Numbers(Numbered),
    /// And what appends to them, once anything was set.
    Renumbered(Numbered, RefCell<Option<Appender>>),
}

/// Which record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which<'k> {
    Key(&'k [u8]),
    /// With what tells from when on it is gone, in milliseconds since 1970.
    Expiring(&'k [u8], u64),
    Number(u64),
}

impl Held {
    fn of(from: &impl Read<Of = Env>, database: Database) -> Result<Held> {
        Ok(match database.holds() {
            Holds::Expiring => Held::Expiring(Expiring::of(from, &database)?),
            Holds::Values(order) => Held::Values(MultiMap::of(database, order)?),
            Holds::Queue { .. } => Held::Queue(Queue::of(database)?),
            Holds::Numbers { .. } => Held::Numbers(Numbered::of(database)?),
            Holds::Renumbered { .. } => Held::Renumbered(Numbered::of(database)?, RefCell::default()),
            _ => Held::Records(database),
        })
    }

    /// A database that is there.
    pub(crate) fn existing(from: &impl Read<Of = Env>, name: &str) -> std::result::Result<Held, Failure> {
        let database = from.existing_database(name)?;
        Ok(Held::of(from, database.ok_or_else(|| format!("there is no database {name:?}"))?)?)
    }

    /// A database that is opened, or created as a text says.
    ///
    /// # Errors
    /// As [`Txn::database_with`]; `Invalid` if it is there and holds something else.
    pub(crate) fn open(txn: &mut Txn<'_>, name: &str, made: Made) -> Result<Held> {
        let options = DatabaseOptions::new().holds(made.holds).temporary(made.temporary);
        let database = match (txn.existing_database(name)?, made.holds) {
            // Whatever their order and method, and whether or not it is temporary.
            (Some(database), Holds::Records) if database.holds() == Holds::Records => database,
            (Some(_), holds) => txn.database_holding(name, holds)?,
            (None, Holds::Records | Holds::Expiring) => {
                txn.database_with(name, options.method(made.method))?
            }
            (None, _) => txn.database_with(name, options)?,
        };
        if made.holds == Holds::Expiring {
            // With its index by time.
            Expiring::open_in(txn, name, None)?;
        }
        match made.holds {
            Holds::Values(order) => MultiMap::of(database, order).map(Held::Values),
            _ => Held::of(txn, database),
        }
    }

    pub(crate) fn database(&self) -> &Database {
        match self {
            Held::Records(database) => database,
            Held::Values(values) => values.database(),
            Held::Expiring(expiring) => expiring.database(),
            Held::Queue(queue) => queue.database(),
            Held::Numbers(numbers) | Held::Renumbered(numbers, _) => numbers.database(),
        }
    }

    /// Shows each record.
    pub(crate) fn each(
        &self,
        state: &impl Read<Of = Env>,
        mut each: impl FnMut(Which<'_>, &[u8]) -> std::result::Result<(), Failure>,
    ) -> std::result::Result<(), Failure> {
        match self {
            Held::Records(database) => {
                show(state.range(database, ..)?, |(key, value)| each(Which::Key(key), value))
            }
            Held::Values(values) => {
                show(values.range(state, ..)?, |(key, value)| each(Which::Key(key), value))
            }
            Held::Expiring(expiring) => show(expiring.range(state, ..)?, |(key, value)| {
                let lifetime = expiring.lifetime(state, key)?;
                match lifetime.and_then(lifetime::expires) {
                    Some(expires) => each(Which::Expiring(key, expires), value),
                    None => each(Which::Key(key), value),
                }
            }),
            Held::Queue(queue) => {
                show(queue.iter(state)?, |(number, record)| each(Which::Number(*number), record))
            }
            Held::Numbers(numbers) | Held::Renumbered(numbers, _) => {
                show(numbers.iter(state)?, |(number, record)| each(Which::Number(*number), record))
            }
        }
    }

    /// Sets a record, which has a key or, if it has one, a number: else it comes after all others. False if
    /// such a record is there already, and it is to be left alone.
    pub(crate) fn set(
        &self,
        txn: &mut Txn<'_>,
        which: Option<Which<'_>>,
        value: &[u8],
        overwrite: bool,
    ) -> std::result::Result<bool, Failure> {
        let wrong = || Failure::from("a key where there are numbers, or a number where there are keys");
        match (self, which) {
            (Held::Records(database), Some(Which::Key(key))) => {
                if database.holds() == Holds::Globals {
                    // Else none of them could be shown any more.
                    parts(key)?;
                }
                if !overwrite {
                    return Ok(txn.insert_new(database, key, value)?);
                }
                txn.insert(database, key, value)?;
            }
            (Held::Values(values), Some(Which::Key(key))) => {
                return if overwrite {
                    values.insert(txn, key, value)?;
                    Ok(true)
                } else {
                    Ok(!values.contains(txn, key, value)? && values.insert(txn, key, value)?)
                };
            }
            (Held::Expiring(expiring), Some(Which::Key(key) | Which::Expiring(key, _))) => {
                let expires = match which {
                    Some(Which::Expiring(_, expires)) => Some(expires),
                    _ => None,
                };
                if overwrite {
                    expiring.insert(txn, key, value, lifetime::until(expires))?;
                } else {
                    return Ok(expiring.insert_new(txn, key, value, lifetime::until(expires))?);
                }
            }
            (_, Some(Which::Expiring(..))) => {
                return Err("a record that expires in a database whose records do not".into());
            }
            (Held::Queue(queue), Some(Which::Number(number))) => {
                if !overwrite && queue.get(txn, number)?.is_some() {
                    return Ok(false);
                }
                queue.restore(txn, number, value)?;
            }
            (Held::Numbers(numbers), Some(Which::Number(number))) => {
                if !overwrite && numbers.get(txn, number)?.is_some() {
                    return Ok(false);
                }
                numbers.put(txn, number, value)?;
            }
            (Held::Renumbered(numbers, appender), Some(Which::Number(_)) | None) => {
                let mut appender = appender.borrow_mut();
                let appender = match &mut *appender {
                    Some(appender) => appender,
                    none => none.insert(numbers.appender(txn)?),
                };
                let next = appender.last_number() + 1;
                match which {
                    Some(Which::Number(number)) if number > next => {
                        let why = format!(
                            "record {number} where the next is {next}: renumbered records have no gaps"
                        );
                        return Err(why.into());
                    }
                    Some(Which::Number(number)) if number < next && !overwrite => return Ok(false),
                    Some(Which::Number(number)) if number < next => numbers.put(txn, number, value)?,
                    _ => _ = appender.append(txn, value)?,
                }
            }
            (Held::Queue(queue), None) => _ = queue.append(txn, value)?,
            (Held::Numbers(numbers), None) => _ = numbers.append(txn, value)?,
            _ => return Err(wrong()),
        }
        Ok(true)
    }
}

fn show<T>(
    records: impl Iterator<Item = Result<(T, Vec<u8>)>>,
    mut each: impl FnMut((&T, &[u8])) -> std::result::Result<(), Failure>,
) -> std::result::Result<(), Failure> {
    for record in records {
        interrupt::check()?;
        let (which, value) = record?;
        each((&which, &value))?;
    }
    Ok(())
}

/// What a failure to write is, to code that shows records.
pub(crate) fn written(result: io::Result<()>) -> std::result::Result<(), Failure> {
    Ok(result?)
}

//! Databases of keys and values beside those of SQL, as tables of SQL's: which there are, and how their
//! records change.
//!
//! They are looked up by name in the transaction that sees the rows of all other tables too, each time that
//! it has become another one. What changes in them is counted like that of SQL's trees, by numbers that none
//! of these has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sablecat::{Database, Error, ErrorKind, Holds, Method};

use crate::connection::{Connection, is_of_sql};
use crate::failure::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// The numbers of trees are below this.
const NUMBERS_FROM: u32 = 1 << 31;
/// For how long it is not looked again how many records there are.
const ESTIMATE_FOR: Duration = Duration::from_secs(1);

/// What rows a database makes, as `c/ours.h` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A row for each key, in the order of their bytes,
    Ordered = 1,
    /// or in another order.
    Unordered = 2,
    /// A row for each value of a key, in the order of the keys' bytes. Only to be read.
    Values = 3,
}

/// A database, as the transaction in progress sees it.
#[derive(Clone, Debug)]
pub(crate) struct KeyValue {
    pub(crate) database: Database,
    pub(crate) shape: Shape,
    /// By which its connection tells its states.
    pub(crate) number: u32,
}

/// What a connection knows of such databases, by their names.
#[derive(Debug, Default)]
pub(crate) struct KeyValues(BTreeMap<Box<str>, Known>);

#[derive(Debug)]
struct Known {
    number: u32,
    /// What was found, and in which state of the transaction.
    found: Option<(u64, KeyValue)>,
    /// How many records there were, and when.
    estimate: Option<(Instant, u64)>,
}

impl KeyValues {
    fn known(&mut self, name: &str) -> &mut Known {
        let number = NUMBERS_FROM + self.0.len() as u32;
        let new = || Known { number, found: None, estimate: None };
        self.0.entry(name.into()).or_insert_with(new)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What rows a database makes.
fn shape_of(database: &Database) -> Result<Shape> {
    let what = match database.holds() {
        Holds::Records if database.method() == Method::Hash || database.comparator().is_some() => {
            return Ok(Shape::Unordered);
        }
        Holds::Records => return Ok(Shape::Ordered),
        Holds::Values(_) => return Ok(Shape::Values),
        Holds::Queue { .. } => "a queue",
        Holds::Numbers { .. } | Holds::Renumbered { .. } => "records by number",
        Holds::Globals => "globals",
        Holds::Expiring => "records that expire",
        _ => "something else",
    };
    Err(Failure::refused(format!(
        "the database {:?} holds {what}; tables of SQL's are made of records with keys and values alone",
        database.name()
    )))
}

/// What an operation's error means to SQL. A database that is gone is no damage.
pub(crate) fn failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => Failure::refused(error.to_string()),
        _ => error.into(),
    }
}

/// The name of a database, if it may be seen as a table.
pub(crate) fn name(bytes: &[u8]) -> Result<&str> {
    let name =
        std::str::from_utf8(bytes).map_err(|_| Failure::refused("the name of a database is not UTF-8"))?;
    if is_of_sql(name) {
        return Err(Failure::refused(format!("the database {name:?} is one of SQL's own")));
    }
    Ok(name)
}

/// Whether SQLite gives text back as it was when it has had it in UTF-16: of bytes that are no UTF-8, and of
/// the last two characters of each plane, which are none, it makes something else.
pub(crate) fn is_held_by_utf16(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.chars().all(|c| u32::from(c) & 0xfffe != 0xfffe))
}

/// What rows a database makes; none if there is none of that name.
pub(crate) fn shape(of: &mut Connection, name: &str) -> Result<Option<Shape>> {
    of.existing(name)?.map(|database| shape_of(&database)).transpose()
}

/// A database, for the transaction in progress.
pub(crate) fn find(of: &mut Connection, name: &str) -> Result<KeyValue> {
    let state = of.whole_state();
    let known = of.key_values.known(name);
    let number = known.number;
    if let Some((of, found)) = &known.found
        && *of == state
    {
        return Ok(found.clone());
    }
    // It must be in one.
    of.txn()?;
    let database = of.existing(name)?;
    let database =
        database.ok_or_else(|| Failure::refused(format!("there is no database {name:?} any more")))?;
    let shape = shape_of(&database)?;
    let found = KeyValue { database, shape, number };
    of.key_values.known(name).found = Some((state, found.clone()));
    Ok(found)
}

/// How many records there are, about.
pub(crate) fn estimate(of: &mut Connection, name: &str) -> Result<u64> {
    if let Some((then, records)) = of.key_values.known(name).estimate
        && then.elapsed() < ESTIMATE_FOR
    {
        return Ok(records);
    }
    let Some(database) = of.existing(name)? else { return Ok(0) };
    let records = database.estimate(..).map_err(failure)?.records;
    of.key_values.known(name).estimate = Some((Instant::now(), records));
    Ok(records)
}

/// A record that was to change or to go is not there.
fn gone(name: &str) -> Failure {
    Failure::refused(format!(
        "a record of the database {name:?} that was to change is not there any more: the statement has changed it \
         already"
    ))
}

/// A record cannot take the place of another.
fn taken(name: &str) -> Failure {
    Failure::refused(format!(
        "UPDATE OR REPLACE would give a record of the database {name:?} the key of another: remove that one first"
    ))
}

/// Why a record was not changed.
type Stopped = Option<Error>;

/// Removes the record of one key, if it is given one, and sets another, or the same, if it is given that;
/// or does neither. False if there is a record where another is to be set, and that is not to be replaced.
/// Busy, and nothing is done, while a program has one of the records locked.
pub(crate) fn change(
    of: &mut Connection,
    name: &str,
    from: Option<&[u8]>,
    to: Option<(&[u8], &[u8])>,
    replaces: bool,
) -> Result<bool> {
    let KeyValue { database, shape, number } = find(of, name)?;
    if shape == Shape::Values {
        return Err(Failure::refused(format!(
            "the database {name:?} holds keys with several values, which SQL can only read"
        )));
    }
    let keys = [from, to.map(|(key, _)| key)];
    for key in keys.into_iter().flatten() {
        if of.txn()?.is_locked(&database, key).map_err(failure)? {
            return Err(Failure::busy());
        }
    }
    let txn = of.writing_to(number)?;
    let done = match (from, to) {
        (Some(from), None) => match txn.remove(&database, from) {
            Ok(false) => return Err(gone(name)),
            removed => removed.map(drop).map_err(Some),
        },
        (Some(from), Some((key, value))) if from == key => txn.insert(&database, key, value).map_err(Some),
        (None, Some((key, _))) if !replaces && txn.contains_key(&database, key).map_err(failure)? => {
            Err(None)
        }
        (None, Some((key, value))) => txn.insert(&database, key, value).map_err(Some),
        (Some(from), Some((key, value))) => {
            if txn.contains_key(&database, key).map_err(failure)? {
                // The record there may be one that the statement is still to move: SQLite has what it was.
                return if replaces { Err(taken(name)) } else { Ok(false) };
            }
            txn.try_nested(|txn| -> std::result::Result<(), Stopped> {
                if !txn.remove(&database, from)? {
                    return Err(None);
                }
                Ok(txn.insert(&database, key, value)?)
            })
        }
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) => {
            // Behind the looks at what is there.
            keys.into_iter().flatten().try_for_each(|key| of.check(&database, key))?;
            Ok(true)
        }
        Err(None) if from.is_some() => Err(gone(name)),
        Err(None) => Ok(false),
        Err(Some(error)) => Err(failure(error)),
    }
}

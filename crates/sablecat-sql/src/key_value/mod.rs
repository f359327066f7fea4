//! Databases of keys and values beside those of SQL, as tables of SQL's.
//!
//! ```text
//! known.rs    what a connection knows of them
//! table.rs    which columns a table has, and which keys a statement wants
//! column.rs   what the columns of a key are made of, and what a condition on one leaves
//! content.rs  what values are made of
//! entries.rs  where a statement is among the records
//! change.rs   how records change
//! ```
//!
//! They are looked up by name in the transaction that sees the rows of all other tables too, each time that
//! it has become another one. What changes in them is counted like that of SQL's trees, by numbers that none
//! of these has.

pub(crate) mod change;
mod column;
mod content;
pub(crate) mod entries;
mod known;
pub(crate) mod table;

use std::time::{Duration, Instant};

use sablecat::{Error, ErrorKind};

pub(crate) use self::known::{KeyValue, KeyValues};
use self::table::Table;
use crate::connection::{Connection, is_of_sql};
use crate::failure::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// For how long it is not looked again how many records there are.
const ESTIMATE_FOR: Duration = Duration::from_secs(1);

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

/// The database of a table, for the transaction in progress.
pub(crate) fn find(of: &mut Connection, table: &Table) -> Result<KeyValue> {
    let (name, state) = (&*table.name, of.whole_state());
    let known = of.key_values.known(name);
    let number = known.number;
    if let Some((of, found)) = &known.found
        && *of == state
    {
        table.require(&found.database)?;
        return Ok(found.clone());
    }
    // It must be in one.
    of.txn()?;
    let database = of.existing(name)?;
    let database =
        database.ok_or_else(|| Failure::refused(format!("there is no database {name:?} any more")))?;
    table.require(&database)?;
    let found = KeyValue { database, number };
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

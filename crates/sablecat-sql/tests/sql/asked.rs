//! What tests ask a database and their environment.

use rusqlite::{Connection, Result};

/// The one number that a statement returns.
pub(super) fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The first column of what a statement returns.
pub(super) fn texts(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_>>().unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// What SQLite calls a transaction that lost.
pub(super) const BUSY_SNAPSHOT: i32 = 517;

/// SQLite's code for what went wrong.
pub(super) fn code(result: &Result<impl Sized>) -> Option<i32> {
    match result {
        Err(rusqlite::Error::SqliteFailure(error, _)) => Some(error.extended_code),
        _ => None,
    }
}

/// A number that a variable of the environment has.
pub(super) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

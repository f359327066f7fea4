//! A file of comma-separated values, inserted into a table: all of it, or nothing.

use rusqlite::Connection;

use super::dump::quoted;
use crate::{Failure, interrupt};

/// What to insert where.
struct Wanted<'a> {
    file: &'a str,
    table: &'a str,
    skip: usize,
    separator: u8,
}

impl<'a> Wanted<'a> {
    fn of(given: &'a [String]) -> Result<Wanted<'a>, Failure> {
        let (mut skip, mut separator, mut names) = (0, b',', Vec::new());
        let mut given = given.iter().map(String::as_str);
        while let Some(word) = given.next() {
            match word {
                "--skip" => {
                    let lines = given.next().unwrap_or_default();
                    skip =
                        lines.parse().map_err(|_| format!("{lines:?} is not a number of lines to skip"))?;
                }
                "--separator" => {
                    separator = match given.next().map(str::as_bytes) {
                        Some(b"\\t") => b'\t',
                        Some(&[byte]) => byte,
                        _ => return Err("a separator is one character, or \\t".into()),
                    };
                }
                name => names.push(name),
            }
        }
        match names[..] {
            [file, table] => Ok(Wanted { file, table, skip, separator }),
            _ => Err("name a file and a table".into()),
        }
    }
}

/// Inserts what a line of the shell names.
pub(super) fn import(db: &mut Connection, given: &[String]) -> Result<(), Failure> {
    let wanted = Wanted::of(given)?;
    let all_or_nothing = db.savepoint()?;
    insert(&all_or_nothing, &wanted)?;
    Ok(all_or_nothing.commit()?)
}

fn insert(db: &Connection, wanted: &Wanted<'_>) -> Result<(), Failure> {
    let Wanted { file, table, skip, separator } = *wanted;
    let lines =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_path(file);
    let mut lines = lines.map_err(|error| format!("reading {file}: {error}"))?.into_byte_records();
    let mut next = || -> Result<Option<csv::ByteRecord>, Failure> {
        let line = lines.next().transpose();
        Ok(line.map_err(|error| format!("reading {file}: {error}"))?)
    };
    for _ in 0..skip {
        next()?;
    }
    let mut columns = count_columns(db, table)?;
    if columns == 0 {
        let heads = next()?.ok_or_else(|| {
            format!("{file} has no first line, which must name the columns of the new table")
        })?;
        let heads: Vec<String> =
            heads.iter().map(|head| quoted(&String::from_utf8_lossy(head)) + " TEXT").collect();
        db.execute_batch(&format!("CREATE TABLE {} ({})", quoted(table), heads.join(", ")))?;
        columns = count_columns(db, table)?;
    }
    let places = vec!["?"; columns].join(",");
    let mut statement = db.prepare(&format!("INSERT INTO {} VALUES ({places})", quoted(table)))?;
    while let Some(values) = next()? {
        interrupt::check()?;
        let line = values.position().map_or(0, csv::Position::line);
        if values.len() != columns {
            let have = values.len();
            return Err(format!(
                "line {line} of {file} has {have} values, and the table {table} {columns} columns; nothing \
                 was inserted"
            )
            .into());
        }
        for (number, value) in values.iter().enumerate() {
            match str::from_utf8(value) {
                Ok(text) => statement.raw_bind_parameter(number + 1, text)?,
                Err(_) => statement.raw_bind_parameter(number + 1, value)?,
            }
        }
        statement
            .raw_execute()
            .map_err(|error| format!("inserting line {line} of {file}: {error}; nothing was inserted"))?;
    }
    Ok(())
}

/// How many values a row of a table is inserted with; 0: there is no such table.
fn count_columns(db: &Connection, table: &str) -> Result<usize, Failure> {
    let count = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden = 0";
    Ok(db.query_row(count, [table], |row| row.get::<_, i64>(0))?.unsigned_abs() as usize)
}

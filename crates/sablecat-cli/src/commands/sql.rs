//! `sql`: statements, on the tables of an environment.

use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, Row, Statement};
use serde_json::{Map, Number, Value};

use crate::arguments::to_hex;
use crate::{Failure, Outcome, interrupt};

/// Run SQL on an environment, which is created if there is none
///
/// The SQL is SQLite's. Rows are printed a line each, their values parted by `|`, as SQLite's shell does.
/// The first statement that fails ends it; a transaction that is open then is rolled back.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The environment's directory, or a database file of SQLite's
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What to run, instead of what standard input says; may be given several times
    #[arg(short, long, value_name = "SQL")]
    command: Vec<String>,
    /// Print the rows of each statement that has some as a JSON array of objects; of blobs, the digits
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let sql = match arguments.command.is_empty() {
        false => arguments.command.join(";\n"),
        true => {
            let mut script = String::new();
            io::stdin().read_to_string(&mut script)?;
            script
        }
    };
    let db = Connection::open(sablecat_sql::uri(&arguments.dir))?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut statements = Batch::new(&db, &sql);
    while let Some(mut statement) = statements.next()? {
        if arguments.json { print_json(&mut statement, &mut out) } else { print(&mut statement, &mut out) }?;
        out.flush()?;
    }
    db.close().map_err(|(_, error)| error)?;
    Ok(Outcome::Done)
}

fn print(statement: &mut Statement<'_>, out: &mut impl Write) -> Result<(), Failure> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        interrupt::check()?;
        for column in 0..columns {
            if column > 0 {
                out.write_all(b"|")?;
            }
            match row.get_ref(column)? {
                ValueRef::Null => {}
                ValueRef::Integer(integer) => write!(out, "{integer}")?,
                ValueRef::Real(real) => write!(out, "{real:?}")?,
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => out.write_all(bytes)?,
            }
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn print_json(statement: &mut Statement<'_>, out: &mut impl Write) -> Result<(), Failure> {
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.raw_query();
    let mut count = 0u64;
    while let Some(row) = rows.next()? {
        interrupt::check()?;
        out.write_all(if count == 0 { b"[" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &object(&names, row)?)?;
        count += 1;
    }
    if count > 0 {
        out.write_all(b"]\n")?;
    }
    Ok(())
}

fn object(names: &[String], row: &Row<'_>) -> Result<Map<String, Value>, Failure> {
    let mut object = Map::new();
    for (column, name) in names.iter().enumerate() {
        let value = match row.get_ref(column)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(integer) => integer.into(),
            // What JSON has no number for is said in words.
            ValueRef::Real(real) => {
                Number::from_f64(real).map_or_else(|| real.to_string().into(), Value::Number)
            }
            ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
            ValueRef::Blob(blob) => to_hex(blob).into(),
        };
        object.insert(name.clone(), value);
    }
    Ok(object)
}

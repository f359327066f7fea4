//! Scripts of `sqllogictest`, with results that are SQLite's, on a database of sablecat and on one of
//! SQLite's own.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

use crate::directory::Directory;

struct Scripted(Connection);

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text([]) => "(empty)".to_owned(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(blob) => {
            let digits: String = blob.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("X'{digits}'")
        }
    }
}

impl DB for Scripted {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let mut statement = self.0.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push((0..columns).map(|at| Ok(shown(row.get_ref(at)?))).collect::<Result<_>>()?);
        }
        Ok(match columns {
            0 => DBOutput::StatementComplete(self.0.changes()),
            _ => DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows: all },
        })
    }
}

fn scripts() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logic");
    let all = fs::read_dir(&all).unwrap_or_else(|error| panic!("{}: {error}", all.display()));
    all.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn scripts_come_to_what_sqlite_says() {
    let scripts = scripts();
    assert!(scripts.len() >= 9, "{scripts:?}");
    for script in scripts {
        for open in [Directory::stock, Directory::ours] {
            let directory = Directory::new();
            let mut runner = Runner::new(|| async {
                let db = open(&directory);
                db.execute_batch("PRAGMA foreign_keys = 1; PRAGMA synchronous = OFF")?;
                Ok(Scripted(db))
            });
            runner.run_file(&script).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

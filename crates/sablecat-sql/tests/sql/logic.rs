//! Scripts of `sqllogictest`, with results that are SQLite's, on a database of sablecat and on one of
//! SQLite's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};
use sqllogictest::{
    Control, DB, DBOutput, DefaultColumnType, QueryExpect, Record, ResultMode, Runner, parse_with_name,
};

use crate::directory::Directory;

/// What conditions of scripts call it.
const ENGINE: &str = "sqlite";

struct Scripted {
    db: Connection,
    /// The types of the next query's columns, where scripts say which and values are shown as these.
    wanted: Option<Arc<Mutex<Vec<DefaultColumnType>>>>,
}

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
        let wanted = self.wanted.as_ref().map(|wanted| wanted.lock().expect("nobody panics").clone());
        let value = |value: ValueRef<'_>, at: usize| match wanted.as_ref().and_then(|wanted| wanted.get(at)) {
            Some(wanted) => cast(value, wanted),
            None => shown(value),
        };
        let mut statement = match self.db.prepare(sql) {
            Err(Error::MultipleStatement) => {
                self.db.execute_batch(sql)?;
                return Ok(DBOutput::StatementComplete(self.db.changes()));
            }
            statement => statement?,
        };
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        loop {
            let row = match rows.next() {
                // To SQLite's own scripts a query that fails on its way has no more rows.
                Err(_) if self.wanted.is_some() && columns > 0 => break,
                Ok(None) => break,
                row => row?.expect("there is one"),
            };
            all.push((0..columns).map(|at| Ok(value(row.get_ref(at)?, at))).collect::<Result<_>>()?);
        }
        Ok(match columns {
            0 => DBOutput::StatementComplete(self.db.changes()),
            _ => DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows: all },
        })
    }

    fn engine_name(&self) -> &str {
        ENGINE
    }
}

fn scripts() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logic");
    let all = fs::read_dir(&all).unwrap_or_else(|error| panic!("{}: {error}", all.display()));
    all.map(|entry| entry.expect("an entry").path()).collect()
}

/// A number as SQLite prints it by `%.3f`: with sixteen digits that say something.
fn thousandths(real: f64) -> String {
    if real.abs() < 1e15 {
        return format!("{real:.3}");
    }
    let digits = format!("{real:.15e}");
    let (digits, exponent) = digits.split_once('e').expect("it is written so");
    let zeros = exponent.parse::<usize>().expect("a great number") - 15;
    format!("{}{}.000", digits.replace('.', ""), "0".repeat(zeros))
}

/// A value as SQLite's own scripts have it: as the type that they name.
fn cast(value: ValueRef<'_>, wanted: &DefaultColumnType) -> String {
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    // What a text begins with, as C reads it.
    let number = |text: &str, of: &str| {
        let begins = text.trim_start();
        let sign = usize::from(begins.starts_with(['-', '+']));
        let end = begins[sign..].find(|c: char| !c.is_ascii_digit() && !of.contains(c));
        begins[..end.map_or(begins.len(), |end| sign + end)].to_owned()
    };
    match (wanted, value) {
        (_, ValueRef::Null) => "NULL".to_owned(),
        (DefaultColumnType::Integer, ValueRef::Real(real)) => (real as i64).to_string(),
        (DefaultColumnType::Integer, ValueRef::Text(of)) => {
            number(&text(of), "").parse::<i64>().unwrap_or_default().to_string()
        }
        (DefaultColumnType::FloatingPoint, ValueRef::Integer(integer)) => thousandths(integer as f64),
        (DefaultColumnType::FloatingPoint, ValueRef::Real(real)) => thousandths(real),
        (DefaultColumnType::FloatingPoint, ValueRef::Text(of)) => {
            thousandths(number(&text(of), ".").parse().unwrap_or_default())
        }
        (_, ValueRef::Text(of)) if !of.is_empty() => {
            text(of).chars().map(|c| if (' '..='~').contains(&c) { c } else { '@' }).collect()
        }
        (_, value) => shown(value),
    }
}

/// The parser knows no comments behind conditions, and no conditions of a halt. Each line stays where it is,
/// since failures name it.
fn as_the_parser_takes_it(script: &str) -> String {
    let mut text = String::with_capacity(script.len());
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        let (before, _) = line.split_once('#').unwrap_or((line, ""));
        match before.split_whitespace().collect::<Vec<_>>()[..] {
            [what @ ("onlyif" | "skipif"), engine] => {
                let holds = (what == "onlyif") == (engine == ENGINE);
                match lines.next_if(|next| next.trim() == "halt") {
                    Some(_) if holds => text.push_str("\nhalt"),
                    Some(_) => text.push('\n'),
                    None => text.push_str(before),
                }
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Runs a script of SQLite's own to its end, and says how many records it has.
fn run_to_the_end(script: &Path) -> std::result::Result<usize, String> {
    let directory = Directory::new();
    let wanted = Arc::new(Mutex::new(Vec::new()));
    let mut runner = Runner::new(|| async {
        let db = directory.ours();
        db.execute_batch("PRAGMA synchronous = OFF")?;
        Ok(Scripted { db, wanted: Some(wanted.clone()) })
    });
    // As SQLite's own runner has it where a script does not say.
    runner.with_hash_threshold(8);
    let text = fs::read_to_string(script).map_err(|error| error.to_string())?;
    let name: Arc<str> = script.to_string_lossy().into();
    let records = parse_with_name(&as_the_parser_takes_it(&text), name).map_err(|error| error.to_string())?;
    let by_values = Record::Control(Control::ResultMode(ResultMode::ValueWise));
    runner.run(by_values).map_err(|error| error.to_string())?;
    let mut done = 0;
    for record in records {
        match &record {
            Record::Halt { .. } => break,
            Record::Query { expected: QueryExpect::Results { types, .. }, .. } => {
                wanted.lock().expect("nobody panics").clone_from(types);
            }
            _ => {}
        }
        done += usize::from(matches!(record, Record::Query { .. } | Record::Statement { .. }));
        runner.run(record).map_err(|error| error.to_string())?;
    }
    Ok(done)
}

fn scripts_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            scripts_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "test") {
            found.push(path);
        }
    }
}

/// SQLite's own scripts, which are not here: the directory `test` of its repository `sqllogictest`.
#[test]
#[ignore = "takes the scripts, a gigabyte, at SABLECAT_SQLLOGICTEST, and some four minutes"]
fn sqlites_own_scripts_come_to_what_they_say() {
    let directory =
        std::env::var_os("SABLECAT_SQLLOGICTEST").expect("SABLECAT_SQLLOGICTEST names their directory");
    let mut scripts = Vec::new();
    scripts_below(Path::new(&directory), &mut scripts);
    assert!(!scripts.is_empty(), "scripts, *.test, in {directory:?}");
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match run_to_the_end(script) {
                        Ok(records) => _ = done.fetch_add(records, Ordering::Relaxed),
                        Err(error) => failures.lock().expect("nobody panics").push(error),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nobody panicked");
    println!("{} scripts, {} statements and queries", scripts.len(), done.into_inner());
    assert!(failures.is_empty(), "{} scripts failed:\n{}", failures.len(), failures.join("\n"));
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
                Ok(Scripted { db, wanted: None })
            });
            runner.run_file(&script).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

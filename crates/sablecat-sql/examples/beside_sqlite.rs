//! What statements cost on sablecat and on a file of SQLite's own, in one program, in turns: processor time
//! in user mode a row, the least of some rounds, everything in the cache.
//!
//! `cargo run --release -p sablecat-sql --example beside_sqlite [ROWS [CASE [ours|stock]]]`
//!
//! With a case and an engine it runs that alone and once, for a profiler: what counts is in `measured`. Reads
//! the processor time where Linux has it, which counts it by hundredths of a second: take many rows.

use std::error::Error;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use sablecat_sql as _;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs statements over so many rows.
type Run = fn(&Connection, i64) -> rusqlite::Result<i64>;

const ROUNDS: u32 = 5;

/// What is measured.
const CASES: &[(&str, Run)] = &[
    ("scan", |db, _| one(db, "SELECT count(*) + sum(k) + max(length(s)) FROM t")),
    ("scan-wide", |db, _| one(db, "SELECT count(*) + sum(k) FROM w")),
    ("scan-back", |db, _| one(db, "SELECT sum(k) FROM (SELECT k FROM t ORDER BY id DESC LIMIT -1 OFFSET 0)")),
    ("scan-index", |db, _| one(db, "SELECT sum(k) FROM t WHERE k >= 0")),
    ("point", |db, rows| each(db, "SELECT length(s) FROM t WHERE id = ?1", rows)),
    ("point-in-one", |db, rows| within(db, |db| each(db, "SELECT length(s) FROM t WHERE id = ?1", rows))),
    ("by-index", |db, rows| each(db, "SELECT length(s) FROM t WHERE k = ?1 * 7", rows)),
    ("join", |db, _| one(db, "SELECT sum(length(b.s)) FROM t a JOIN t b ON b.id = a.other")),
    ("join-by-index", |db, _| one(db, "SELECT sum(length(b.s)) FROM t a JOIN t b ON b.k = a.other * 7")),
    ("insert", |db, rows| fill(db, rows, "")),
    ("insert-with-index", |db, rows| fill(db, rows, "CREATE INDEX uk ON u (k)")),
    ("update", |db, rows| {
        within(db, |db| each(db, "UPDATE t SET s = upper(s) WHERE id = ?1 RETURNING 1", rows))
    }),
    ("update-all", |db, rows| db.execute("UPDATE t SET s = lower(s)", []).map(|_| rows)),
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().map_or(Ok(200_000), |rows| rows.parse())?;
    let (case, engine) = (arguments.next(), arguments.next());
    let directory = std::env::temp_dir().join(format!("beside-sqlite-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let done = compare(&directory, rows, case.as_deref(), engine.as_deref());
    fs::remove_dir_all(&directory)?;
    done
}

fn compare(directory: &Path, rows: i64, case: Option<&str>, engine: Option<&str>) -> Result<()> {
    let paths = [
        ("ours", sablecat_sql::uri(directory.join("ours"))),
        ("stock", format!("file:{}", directory.join("stock.db").display())),
    ];
    let mut databases = Vec::new();
    for (name, path) in paths {
        if engine.is_none_or(|engine| engine == name) {
            databases.push((name, prepared(&path, rows)?));
        }
    }
    let cases = || CASES.iter().filter(|(name, _)| case.is_none_or(|case| case == *name));
    if engine.is_some() {
        for ((_, run), (_, db)) in cases().flat_map(|case| databases.iter().map(move |db| (case, db))) {
            measured(db, rows, *run)?;
        }
        return Ok(());
    }
    println!("{:<18} {:>10} {:>10} {:>7}", "ns a row", "ours", "stock", "ratio");
    for (name, run) in cases() {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for ((_, db), least) in databases.iter().zip(&mut least) {
                let before = user_ns()?;
                measured(db, rows, *run)?;
                *least = least.min((user_ns()? - before) / rows as f64);
            }
        }
        let [ours, stock] = least;
        println!("{name:<18} {ours:>10.0} {stock:>10.0} {:>7.2}", ours / stock);
    }
    Ok(())
}

/// A database with a table and an index, and everything in its cache.
fn prepared(path: &str, rows: i64) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = wal; PRAGMA synchronous = normal; PRAGMA cache_size = -262144;
         CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, other INTEGER, s TEXT);
         CREATE INDEX tk ON t (k);",
    )?;
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
         INSERT INTO t SELECT i, i * 7, (i * 104729) % ?1, 'what is said of number ' || i FROM n",
        [rows],
    )?;
    db.execute_batch(
        "CREATE TABLE w (id INTEGER PRIMARY KEY, k INTEGER, s TEXT);
         INSERT INTO w SELECT id, k, printf('%200d', k) FROM t;
         PRAGMA wal_checkpoint; ANALYZE;",
    )?;
    Ok(db)
}

#[inline(never)]
fn measured(db: &Connection, rows: i64, run: Run) -> rusqlite::Result<()> {
    std::hint::black_box(run(db, rows)?);
    Ok(())
}

fn one(db: &Connection, sql: &str) -> rusqlite::Result<i64> {
    db.query_row(sql, [], |row| row.get(0))
}

/// Runs a statement for each row, in no order.
fn each(db: &Connection, sql: &str, rows: i64) -> rusqlite::Result<i64> {
    let mut statement = db.prepare(sql)?;
    let mut sum = 0;
    for number in 0..rows {
        sum += statement.query_row([number * 104_729 % rows], |row| row.get::<_, i64>(0))?;
    }
    Ok(sum)
}

fn within(db: &Connection, work: impl FnOnce(&Connection) -> rusqlite::Result<i64>) -> rusqlite::Result<i64> {
    let txn = db.unchecked_transaction()?;
    let result = work(&txn)?;
    txn.commit()?;
    Ok(result)
}

/// Inserts rows into a new table in one transaction.
fn fill(db: &Connection, rows: i64, index: &str) -> rusqlite::Result<i64> {
    db.execute_batch("DROP TABLE IF EXISTS u; CREATE TABLE u (id INTEGER PRIMARY KEY, k INTEGER, s TEXT);")?;
    db.execute_batch(index)?;
    within(db, |db| {
        let mut statement = db.prepare("INSERT INTO u (k, s) VALUES (?1, 'what is said of it')")?;
        (0..rows).try_for_each(|number| statement.execute([number * 104_729 % rows]).map(|_| ()))?;
        Ok(rows)
    })
}

/// What all threads of this process have taken of processors in user mode.
fn user_ns() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let ticks = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11));
    Ok(ticks.ok_or("no time in /proc/self/stat")?.parse::<f64>()? * 1e7)
}

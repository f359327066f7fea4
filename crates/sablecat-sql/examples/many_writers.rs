//! Threads with a connection each write to one database at once, through `rusqlite`; the same program also
//! keeps records in a database of keys and values beside the tables.
//!
//! `cargo run -p sablecat-sql --example many_writers`

use std::error::Error;
use std::path::Path;
use std::thread;

use rusqlite::{Connection, ErrorCode};

const THREADS: u32 = 4;
const ORDERS: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("many-writers-{}", std::process::id()));
    let db = Connection::open(sablecat_sql::uri(&directory))?;
    db.execute_batch(
        "CREATE TABLE stock (item INTEGER PRIMARY KEY, count INTEGER NOT NULL);
         CREATE TABLE orders (clerk INTEGER, number INTEGER, item INTEGER,
                              PRIMARY KEY (clerk, number)) WITHOUT ROWID;
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
         INSERT INTO stock SELECT i, 1000 FROM n;",
    )?;

    let directory = directory.as_path();
    thread::scope(|scope| {
        let clerks: Vec<_> = (0..THREADS).map(|clerk| scope.spawn(move || work(directory, clerk))).collect();
        clerks.into_iter().try_for_each(|clerk| clerk.join().expect("no clerk panics"))
    })?;

    let (orders, left): (u32, i64) =
        db.query_row("SELECT (SELECT count(*) FROM orders), sum(count) FROM stock", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    println!("{orders} orders, {left} things left");

    // The tables and these records are in one environment.
    let env = sablecat_sql::environment(directory)?;
    env.database("notes")?.insert("last inventory", format!("{left} things"))?;
    drop((db, env));
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

fn work(directory: &Path, clerk: u32) -> rusqlite::Result<()> {
    let mut db = Connection::open(sablecat_sql::uri(directory))?;
    for number in 0..ORDERS {
        let item = (clerk * 7919 + number * 104_729) % 1000;
        // A transaction that lost to another is over, and is run again.
        loop {
            match order(&mut db, clerk, number, item) {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
                done => break done?,
            }
        }
    }
    Ok(())
}

fn order(db: &mut Connection, clerk: u32, number: u32, item: u32) -> rusqlite::Result<()> {
    let txn = db.transaction()?;
    txn.execute("UPDATE stock SET count = count - 1 WHERE item = ?1", [item])?;
    txn.execute("INSERT INTO orders VALUES (?1, ?2, ?3)", (clerk, number, item))?;
    txn.commit()
}

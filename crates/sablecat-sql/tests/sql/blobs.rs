//! Handles of values that are open in a row, and statements around them, at random on a database of sablecat
//! and on one of SQLite's own: what each step returns is the same, and what is there at the end.
//!
//! `SABLECAT_TEST_SQL_SEEDS` says how many seeds, `SABLECAT_TEST_FROM` from which on.

use rusqlite::blob::Blob;
use rusqlite::types::Value;
use rusqlite::{Connection, MAIN_DB, Result};

use crate::asked::{setting, texts};
use crate::dice::Dice;
use crate::directory::Directory;

const ROWS: u64 = 6;
const HANDLES: u64 = 3;

/// What is done in both databases.
#[derive(Clone, Debug)]
enum Step {
    Open { handle: usize, row: i64, column: &'static str, read_only: bool },
    Reopen { handle: usize, row: i64 },
    Close { handle: usize },
    Read { handle: usize, at: usize, bytes: usize },
    Write { handle: usize, at: usize, bytes: Vec<u8> },
    Statement(String),
}

fn statement(dice: &mut Dice) -> String {
    let (row, number) = (1 + dice.below(ROWS), dice.below(100));
    // Some that lie in their row's leaf, and some that are too long for it.
    let bytes = dice.pick(&["zeroblob(3)", "zeroblob(700)", "zeroblob(20000)", "x''", "'text'", "8", "NULL"]);
    match dice.below(16) {
        0..=2 => format!("INSERT OR REPLACE INTO t VALUES ({row}, {bytes}, {number}, {bytes})"),
        3 => format!("INSERT INTO t (b, k) VALUES ({bytes}, {number})"),
        4 => format!("UPDATE t SET b = {bytes} WHERE id = {row}"),
        5 => format!("UPDATE t SET k = {number} WHERE id = {row}"),
        6 => format!("UPDATE t SET id = id + 1 WHERE id = {row}"),
        7 => format!("DELETE FROM t WHERE id = {row}"),
        8 => format!("SELECT id, length(b), hex(substr(b, 1, 40)), k FROM t WHERE id >= {row} ORDER BY id"),
        9 => "INSERT INTO u VALUES (1)".to_owned(),
        10 => "BEGIN".to_owned(),
        11 => dice.pick(&["COMMIT", "COMMIT", "ROLLBACK"]).to_owned(),
        12 => "SAVEPOINT s".to_owned(),
        13 => "ROLLBACK TO s".to_owned(),
        14 => "RELEASE s".to_owned(),
        _ => dice
            .pick(&["DELETE FROM t", "CREATE INDEX tk ON t (k)", "DROP INDEX tk", "DELETE FROM u"])
            .to_owned(),
    }
}

fn step(dice: &mut Dice) -> Step {
    let (handle, row) = (dice.below(HANDLES) as usize, 1 + dice.below(ROWS) as i64);
    let at = dice.pick(&[0, 1, 2, 600, 5000, 19_990]);
    match dice.below(20) {
        0..=3 => {
            let column = dice.pick(&["b", "b", "b", "c", "k"]);
            Step::Open { handle, row, column, read_only: dice.once_in(3) }
        }
        4 => Step::Reopen { handle, row },
        5 => Step::Close { handle },
        6..=8 => Step::Read { handle, at, bytes: 1 + dice.below(6) as usize },
        9..=12 => {
            let bytes = (0..1 + dice.below(6)).map(|_| dice.below(256) as u8).collect();
            Step::Write { handle, at, bytes }
        }
        _ => Step::Statement(statement(dice)),
    }
}

/// A value that is open.
struct Handle<'c> {
    blob: Blob<'c>,
    read_only: bool,
}

fn open<'h, 'c>(handles: &'h mut [Option<Handle<'c>>], number: usize) -> Option<&'h mut Blob<'c>> {
    handles[number].as_mut().map(|handle| &mut handle.blob)
}

/// What a step comes to, as text.
fn done<'c>(db: &'c Connection, handles: &mut [Option<Handle<'c>>], step: &Step) -> String {
    let said = |result: Result<String>| result.unwrap_or_else(|error| format!("error: {error}"));
    let outcome = match step {
        Step::Open { handle, row, column, read_only } => {
            match db.blob_open(MAIN_DB, "t", *column, *row, *read_only) {
                Ok(blob) => {
                    let size = blob.size();
                    handles[*handle] = Some(Handle { blob, read_only: *read_only });
                    format!("{size} bytes")
                }
                Err(error) => format!("error: {error}"),
            }
        }
        Step::Reopen { handle, row } => open(handles, *handle).map_or_else(String::new, |blob| {
            said(blob.reopen(*row).map(|()| format!("{} bytes", blob.size())))
        }),
        Step::Close { handle } => match handles[*handle].take() {
            Some(Handle { blob, .. }) => said(blob.close().map(|()| "closed".to_owned())),
            None => String::new(),
        },
        Step::Read { handle, at, bytes } => open(handles, *handle).map_or_else(String::new, |blob| {
            let mut into = vec![0; *bytes];
            said(blob.read_at_exact(&mut into, *at).map(|()| format!("{into:?}")))
        }),
        Step::Write { handle, at, bytes } => open(handles, *handle)
            .map_or_else(String::new, |blob| said(blob.write_at(bytes, *at).map(|()| "written".to_owned()))),
        Step::Statement(sql) => said(rows(db, sql)),
    };
    if matches!(step, Step::Statement(sql) if sql.starts_with("ROLLBACK")) {
        // If their row was rolled back, SQLite's own tree reads from whichever is next.
        handles.iter_mut().for_each(|handle| _ = handle.take_if(|handle| handle.read_only));
    }
    format!("{outcome}, in a transaction: {}, changes: {}", !db.is_autocommit(), db.total_changes())
}

fn rows(db: &Connection, sql: &str) -> Result<String> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement
        .query_map([], |row| (0..columns).map(|at| row.get::<_, Value>(at)).collect::<Result<Vec<_>>>())?;
    Ok(format!("{:?}", rows.collect::<Result<Vec<_>>>()?))
}

fn run(seed: u64) {
    let directory = Directory::new();
    let both = [directory.ours(), directory.stock()];
    for db in &both {
        db.execute_batch(
            "PRAGMA synchronous = OFF;
             CREATE TABLE t (id INTEGER PRIMARY KEY, b, k INTEGER, c);
             CREATE TABLE u (x);
             INSERT INTO t VALUES (1, zeroblob(10), 1, 'abc'), (2, zeroblob(20000), 2, 'def');
             INSERT INTO t VALUES (3, x'0102', 3, 4)",
        )
        .expect("tables");
    }
    let mut handles = [(); 2].map(|()| [const { None }; HANDLES as usize]);
    let mut dice = Dice::new(seed);
    let mut steps = Vec::new();
    for _ in 0..120 {
        let step = step(&mut dice);
        let [ours, stock] = [0, 1].map(|of: usize| done(&both[of], &mut handles[of], &step));
        steps.push(step);
        assert!(
            ours == stock,
            "seed {seed}: on sablecat and on SQLite\n{}\ncame to\n{ours}\nand\n{stock}",
            steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>().join("\n")
        );
    }
    drop(handles);
    let all = [&both[0], &both[1]].map(|db| {
        let _ = db.execute_batch("COMMIT");
        texts(
            db,
            "SELECT id || '|' || typeof(b) || hex(b) || '|' || ifnull(k, '') || hex(c) FROM t ORDER BY id",
        )
    });
    assert!(all[0] == all[1], "seed {seed}: what is there at the end differs");
    assert_eq!(texts(&both[0], "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn open_values_are_read_and_written_and_expire_as_on_sqlites_own_tree() {
    let from = setting("SABLECAT_TEST_FROM", 0);
    for seed in from..from + setting("SABLECAT_TEST_SQL_SEEDS", 40) {
        run(seed);
    }
}

//! Transactions at random, of some connections, in two databases: in one a statement says what it meets, in
//! the other `COMMIT` alone. What one says early the other says late, and else they do the same.
//!
//! Who runs a statement within another is told nothing early, unless SQLite has a savepoint for it.
//!
//! `SABLECAT_TEST_SQL_SEEDS` says how many seeds, `SABLECAT_TEST_FROM` from which on.

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Error, Result};

use crate::asked::{BUSY_SNAPSHOT, code, setting, texts};
use crate::dice::Dice;
use crate::directory::Directory;

const CONNECTIONS: usize = 3;
const STEPS: u64 = 120;
/// All there is, of tables and by their indices.
const CONTENTS: [&str; 6] = [
    "SELECT id || ' ' || a || ' ' || length(s) FROM t NOT INDEXED ORDER BY id",
    "SELECT a || ' ' || id FROM t INDEXED BY t_by_a WHERE a > -1000000 ORDER BY a, id",
    "SELECT id || ' ' || x FROM u ORDER BY id",
    "SELECT x || '' FROM u WHERE x > -1000000 ORDER BY x",
    "SELECT k || ' ' || a FROM keyed ORDER BY k",
    "SELECT x || '' FROM log ORDER BY x",
];

/// Connections to one database.
fn connections(directory: &Directory) -> Vec<Connection> {
    let all: Vec<_> = (0..CONNECTIONS).map(|_| directory.ours()).collect();
    all[0]
        .execute_batch(
            "PRAGMA synchronous = OFF;
             CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, s TEXT);
             CREATE INDEX t_by_a ON t (a);
             CREATE TABLE u (id INTEGER PRIMARY KEY, x INTEGER UNIQUE);
             CREATE TABLE keyed (k INTEGER PRIMARY KEY, a INTEGER) WITHOUT ROWID;
             CREATE TABLE log (x);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80)
             INSERT INTO t SELECT 2 * i, i % 10, hex(zeroblob(20 * (i % 20))) FROM n;
             INSERT INTO u SELECT id, id FROM t WHERE id < 100;
             INSERT INTO keyed SELECT id, a FROM t;",
        )
        .expect("tables");
    for db in &all {
        db.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
        db.create_scalar_function("run", 1, FunctionFlags::SQLITE_UTF8, |context| {
            // SAFETY: it is used here, and not closed.
            let db = unsafe { context.get_connection()? };
            match db.execute_batch(&context.get::<String>(0)?) {
                // With the words the code would be lost.
                Err(Error::SqliteFailure(error, _)) => Err(Error::SqliteFailure(error, None)),
                done => done.map(|()| 0),
            }
        })
        .expect("a function");
    }
    all
}

/// Something to do with rows, and whether it writes.
fn statement(dice: &mut Dice) -> (String, bool) {
    let (id, v, n) = (dice.below(170), dice.below(200), dice.below(8));
    let s = format!("hex(zeroblob({}))", dice.below(400));
    let (table, key) = dice.pick(&[("t", "id"), ("u", "id"), ("keyed", "k")]);
    let value = if table == "u" { "x" } else { "a" };
    match dice.below(24) {
        0 => (format!("SELECT sum({value}) FROM {table} WHERE {key} BETWEEN {id} AND {id} + {n}"), false),
        1 => (format!("SELECT count(*) FROM t WHERE a BETWEEN {v} AND {v} + {n}"), false),
        2 => (format!("SELECT {value} FROM {table} WHERE {key} = {id}"), false),
        3 => (format!("SELECT max({key}) FROM {table}"), false),
        4..8 => (format!("UPDATE {table} SET {value} = {value} + 1000 WHERE {key} = {id}"), true),
        8 => (format!("UPDATE t SET a = {v}, s = {s} WHERE id BETWEEN {id} AND {id} + {n}"), true),
        9 => (format!("UPDATE t SET a = {v} WHERE a = {n}"), true),
        10 => (format!("DELETE FROM {table} WHERE {key} BETWEEN {id} AND {id} + {n}"), true),
        11 => (format!("DELETE FROM {table} WHERE {key} = {id}"), true),
        12 => (format!("INSERT INTO t VALUES ({id}, {v}, {s})"), true),
        13 => (format!("REPLACE INTO t VALUES ({id}, {v}, {s})"), true),
        14 => (format!("INSERT INTO u VALUES ({id}, {v})"), true),
        15 => (format!("REPLACE INTO u VALUES ({id}, {v})"), true),
        16 => (format!("UPDATE OR IGNORE u SET x = {v} WHERE id BETWEEN {id} AND {id} + {n}"), true),
        17 => (format!("UPDATE OR REPLACE u SET x = {v} WHERE id = {id}"), true),
        18 => (format!("INSERT INTO u VALUES ({id}, {v}) ON CONFLICT (x) DO UPDATE SET x = x + 500"), true),
        19 => (format!("INSERT OR IGNORE INTO keyed VALUES ({id}, {v})"), true),
        20 => (format!("REPLACE INTO keyed VALUES ({id}, {v})"), true),
        21 => (format!("INSERT INTO log VALUES ({v})"), true),
        22 => (
            format!("INSERT OR IGNORE INTO t SELECT id + 1, a, s FROM t WHERE id BETWEEN {id} AND {v}"),
            true,
        ),
        _ if dice.once_in(10) => (format!("DELETE FROM {table}"), true),
        _ => (format!("UPDATE keyed SET k = {v} WHERE k = {id}"), true),
    }
}

/// How often statements met something early, and commits that were told late.
#[derive(Debug, Default)]
struct Told {
    early: u32,
    late: u32,
}

fn run(seed: u64, told: &mut Told) {
    let mut dice = Dice::new(seed);
    let directories = [Directory::new(), Directory::new()];
    let [early, late] = directories.each_ref().map(connections);
    let mut done = Vec::new();
    for _ in 0..STEPS {
        let at = dice.below(CONNECTIONS as u64) as usize;
        let (early, late) = (&early[at], &late[at]);
        let (sql, is_dml) = if early.is_autocommit() && !dice.once_in(6) {
            (dice.pick(&["BEGIN", "BEGIN", "SAVEPOINT s"]).to_owned(), false)
        } else if !early.is_autocommit() && dice.once_in(8) {
            let savepoint = dice.pick(&["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"]);
            (dice.pick(&["COMMIT", "COMMIT", "COMMIT", "ROLLBACK", savepoint]).to_owned(), false)
        } else {
            statement(&mut dice)
        };
        done.push(format!("{at}: {sql}"));
        let context = || format!("seed {seed}:\n{}", done.join("\n"));
        let is_within = !early.is_autocommit() && is_dml;
        let before = early.total_changes();
        let found = early.execute_batch(&sql);
        let expected = match is_within {
            true => late.query_row("SELECT run(?1)", [&sql], |_| Ok(())),
            false => late.execute_batch(&sql),
        };
        if is_within && code(&found) == Some(BUSY_SNAPSHOT) {
            told.early += 1;
            assert_eq!(early.total_changes(), before, "{}", context());
            assert_eq!(code(&early.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT), "{}", context());
            // Of the rows that it changes, no other transaction had anything to say until now.
            if code(&expected) != Some(BUSY_SNAPSHOT) {
                assert_eq!(expected, Ok(()), "{}", context());
            }
            let commit = late.execute_batch("COMMIT");
            assert_eq!(code(&commit), Some(BUSY_SNAPSHOT), "{commit:?} {}", context());
        } else {
            let (found, expected): (Result<()>, Result<()>) = (found, expected);
            assert_eq!(code(&found), code(&expected), "{found:?} {expected:?} {}", context());
            told.late += u32::from(code(&found) == Some(BUSY_SNAPSHOT));
        }
        assert_eq!(early.is_autocommit(), late.is_autocommit(), "{}", context());
    }
    for sql in CONTENTS {
        for (early, late) in early.iter().zip(&late) {
            assert_eq!(texts(early, sql), texts(late, sql), "{sql} seed {seed}:\n{}", done.join("\n"));
        }
    }
    for db in [&early[0], &late[0]] {
        assert_eq!(texts(db, "PRAGMA integrity_check"), ["ok"], "seed {seed}");
    }
}

#[test]
fn what_a_statement_says_early_the_commit_would_have_said() {
    let mut told = Told::default();
    let (from, seeds) = (setting("SABLECAT_TEST_FROM", 0), setting("SABLECAT_TEST_SQL_SEEDS", 20));
    for seed in from..from + seeds {
        run(seed, &mut told);
    }
    assert!(seeds < 10 || (told.early > 0 && told.late > 0), "{told:?}");
}

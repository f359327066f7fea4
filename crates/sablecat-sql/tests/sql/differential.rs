//! The same statements at random on a database of sablecat and on one of SQLite's own: rows, errors, and how
//! many were changed are the same, statement by statement, and all that there is at the end.
//!
//! `SABLECAT_TEST_SQL_SEEDS` says how many seeds, `SABLECAT_TEST_FROM` from which on.

use rusqlite::types::Value;
use rusqlite::{Connection, Error};

use crate::asked::setting;
use crate::dice::Dice;
use crate::directory::Directory;
use crate::generated;

/// What came of a statement.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The rows, sorted: which comes first is nobody's business, unless they are ordered.
    rows: Vec<String>,
    error: Option<String>,
    changes: u64,
    last: i64,
    in_transaction: bool,
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) if text.len() > 50 => format!("text of {} bytes", text.len()),
        Value::Blob(blob) if blob.len() > 50 => format!("blob of {} bytes", blob.len()),
        value => format!("{value:?}"),
    }
}

fn rows(db: &Connection, sql: &str) -> Result<Vec<String>, Error> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let values: Result<Vec<_>, _> = (0..columns).map(|at| row.get::<_, Value>(at)).collect();
        all.push(values?.iter().map(shown).collect::<Vec<_>>().join(" | "));
    }
    Ok(all)
}

fn outcome(db: &Connection, sql: &str) -> Outcome {
    let (rows, error) = match rows(db, sql) {
        Ok(mut rows) => {
            rows.sort();
            (rows, None)
        }
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Outcome {
        rows,
        error,
        changes: db.total_changes(),
        last: db.last_insert_rowid(),
        in_transaction: !db.is_autocommit(),
    }
}

fn run(seed: u64) {
    let directory = Directory::new();
    let (ours, stock) = (directory.ours(), directory.stock());
    let settings = "PRAGMA synchronous = OFF; PRAGMA foreign_keys = 1";
    ours.execute_batch(settings).expect("settings");
    stock.execute_batch(settings).expect("settings");
    let mut dice = Dice::new(seed);
    let mut done = Vec::new();
    let mut check = |ours: &Connection, sql: String| {
        let (found, expected) = (outcome(ours, &sql), outcome(&stock, &sql));
        done.push(sql);
        assert!(
            found == expected,
            "seed {seed}: on sablecat and on SQLite\n{}\ncame to\n{found:#?}\nand\n{expected:#?}",
            done.iter().map(|sql| format!("{sql};")).collect::<Vec<_>>().join("\n")
        );
    };
    for sql in generated::beginning(&mut dice) {
        check(&ours, sql);
    }
    for _ in 0..190 {
        check(&ours, generated::statement(&mut dice));
    }
    check(&ours, "COMMIT".to_owned());
    // If foreign keys are not as they are to be, nothing was committed.
    check(&ours, "ROLLBACK".to_owned());
    for sql in generated::all_of_it() {
        check(&ours, sql);
    }
    // What a new connection finds is what the old one left.
    drop(ours);
    let ours = directory.ours();
    for sql in generated::all_of_it() {
        let (found, expected) = (rows(&ours, &sql), rows(&stock, &sql));
        let same = match (&found, &expected) {
            (Ok(found), Ok(expected)) => sorted(found) == sorted(expected),
            (Err(found), Err(expected)) => found.to_string() == expected.to_string(),
            _ => false,
        };
        assert!(same, "seed {seed}, after it was opened again: {sql}\n{found:#?}\nand\n{expected:#?}");
    }
}

fn sorted(rows: &[String]) -> Vec<&String> {
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort();
    rows
}

#[test]
fn statements_at_random_mean_the_same_as_on_sqlites_own_tree() {
    let from = setting("SABLECAT_TEST_FROM", 0);
    for seed in from..from + setting("SABLECAT_TEST_SQL_SEEDS", 40) {
        run(seed);
    }
}

#[test]
fn row_ids_are_given_and_records_read_ahead_as_on_sqlites_own_tree() {
    let directory = Directory::new();
    let (ours, stock) = (directory.ours(), directory.stock());
    let statements = [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, k)",
        "CREATE INDEX tk ON t (k)",
        // A row that another cursor adds to the same table, behind the last one.
        "CREATE TRIGGER more AFTER INSERT ON t WHEN new.k < 0 BEGIN INSERT INTO t (k) VALUES (-new.k); END",
        "INSERT INTO t (k) VALUES (1), (-2), (3), (-4), (5)",
        "BEGIN",
        "INSERT INTO t (k) VALUES (6), (7)",
        "SAVEPOINT s",
        "INSERT INTO t (k) VALUES (8), (-9)",
        "ROLLBACK TO s",
        "INSERT INTO t (k) VALUES (10)",
        "DELETE FROM t WHERE id > 7",
        "INSERT INTO t (k) VALUES (11)",
        "INSERT INTO t VALUES (40, 12)",
        "INSERT INTO t (k) VALUES (13)",
        "ROLLBACK",
        "INSERT INTO t (k) VALUES (14)",
        "BEGIN",
        "INSERT INTO t (k) VALUES (15)",
        "DELETE FROM t",
        "INSERT INTO t VALUES (3, 16)",
        "INSERT INTO t (k) VALUES (17)",
        "COMMIT",
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
         INSERT INTO t (k) SELECT i / 3 FROM n",
        "SELECT count(*), sum(k), max(id) FROM t",
        "SELECT count(*), sum(b.id) FROM t a JOIN t b ON b.k = a.k",
        "UPDATE t SET k = k + 1 WHERE id % 2",
        "DELETE FROM t WHERE k % 5 = 0",
    ];
    let all = "SELECT id, k FROM t ORDER BY id";
    for statement in statements {
        assert_eq!(outcome(&ours, statement), outcome(&stock, statement), "{statement}");
        if statement != statements[0] {
            assert_eq!(rows(&ours, all), rows(&stock, all), "after {statement}");
        }
    }
    // A statement that has read ahead sees what its connection writes meanwhile where SQLite's does.
    let seen = [&ours, &stock].map(|db| {
        let mut statement = db.prepare(all).expect("a statement");
        let mut rows = statement.query([]).expect("rows");
        let mut seen = Vec::new();
        while let Some(row) = rows.next().expect("a row") {
            let id: i64 = row.get(0).expect("a number");
            if seen.len() == 20 {
                db.execute("DELETE FROM t WHERE id > ?1 AND id % 2", [id]).expect("rows removed");
            }
            seen.push(id);
        }
        seen
    });
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].len() > 100, "{} rows", seen[0].len());
}

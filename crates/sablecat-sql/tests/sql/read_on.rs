//! A connection that writes while one of its statements still reads: what it writes rests on what is
//! committed then, and on nothing that the statement has seen before.

use rusqlite::Connection;

use crate::asked::{number, texts};
use crate::directory::Directory;

/// Two connections, with a table to read and others to write.
fn two(directory: &Directory) -> (Connection, Connection) {
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(
        "CREATE TABLE read (x INTEGER);
         INSERT INTO read VALUES (1), (2), (3);
         CREATE TABLE once (id INTEGER PRIMARY KEY, x UNIQUE, y);
         INSERT INTO once VALUES (1, 1, 1), (2, 2, 2);
         CREATE TABLE parents (id INTEGER PRIMARY KEY);
         INSERT INTO parents VALUES (1), (2);
         CREATE TABLE children (parent INTEGER REFERENCES parents);",
    )
    .expect("tables");
    (one, other)
}

/// Has a statement under way that has returned a row, while `work` runs, and reads it to its end then.
fn reading(db: &Connection, work: impl FnOnce()) {
    let mut statement = db.prepare("SELECT x FROM read").expect("a statement");
    let mut rows = statement.query([]).expect("it begins");
    rows.next().expect("a row").expect("there is one");
    work();
    let mut count = 1;
    while rows.next().expect("it goes on").is_some() {
        count += 1;
    }
    assert_eq!(count, 3, "none is missing, and none comes twice");
}

#[test]
fn a_key_that_others_have_taken_meanwhile_is_not_taken_twice() {
    for begin in ["", "BEGIN;", "BEGIN IMMEDIATE;", "SAVEPOINT s;"] {
        let directory = Directory::new();
        let (one, other) = two(&directory);
        reading(&one, || {
            other.execute_batch("INSERT INTO once VALUES (10, 5, 0)").expect("a row of the other's");
            let twice = one.execute_batch(&format!("{begin} INSERT INTO once VALUES (20, 5, 0)"));
            let said = twice.expect_err("the key is taken").to_string();
            assert!(said.contains("UNIQUE"), "{begin} {said}");
            if !one.is_autocommit() {
                one.execute_batch("COMMIT").expect("there is nothing to commit");
            }
        });
        assert_eq!(texts(&one, "PRAGMA integrity_check"), ["ok"], "{begin}");
    }
}

#[test]
fn a_row_that_others_have_removed_meanwhile_is_not_referred_to() {
    let directory = Directory::new();
    let (one, other) = two(&directory);
    reading(&one, || {
        other.execute_batch("DELETE FROM parents WHERE id = 1").expect("a row goes");
        let referring = one.execute("INSERT INTO children VALUES (1)", []);
        assert!(referring.is_err_and(|error| error.to_string().contains("FOREIGN KEY")));
        one.execute("INSERT INTO children VALUES (2)", []).expect("that one is there");
    });
    assert!(texts(&one, "SELECT \"table\" FROM pragma_foreign_key_check").is_empty());
}

#[test]
fn what_a_transaction_reads_is_newer_than_what_was_read_before_it_and_counts_as_read() {
    let directory = Directory::new();
    let (one, other) = two(&directory);
    reading(&one, || {
        other.execute_batch("UPDATE once SET y = 100 WHERE id = 1").expect("a change");
        one.execute_batch("BEGIN").expect("a transaction");
        assert_eq!(number(&one, "SELECT y FROM once WHERE id = 1"), 100);
        other.execute_batch("UPDATE once SET y = 200 WHERE id = 1").expect("another");
        assert_eq!(number(&one, "SELECT y FROM once WHERE id = 1"), 100, "it sees one state");
        one.execute("UPDATE once SET y = (SELECT y FROM once WHERE id = 1) WHERE id = 2", [])
            .expect("a change");
        assert!(one.execute_batch("COMMIT").is_err(), "what it has read was changed");
    });
    assert_eq!(number(&one, "SELECT y FROM once WHERE id = 2"), 2);
}

#[test]
fn rows_are_changed_one_by_one_as_they_are_read_beside_others_that_commit() {
    let directory = Directory::new();
    let (one, other) = two(&directory);
    one.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);
         WITH RECURSIVE i(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM i WHERE id < 500)
         INSERT INTO t SELECT id, 0 FROM i",
    )
    .expect("a table");
    for order in ["ASC", "DESC"] {
        let mut statement =
            one.prepare(&format!("SELECT id FROM t ORDER BY id {order}")).expect("a statement");
        let mut rows = statement.query([]).expect("it begins");
        while let Some(row) = rows.next().expect("it goes on") {
            let id: i64 = row.get(0).expect("a number");
            other.execute("UPDATE once SET y = y + 1", []).expect("a commit in between");
            one.execute("UPDATE t SET n = n + 1 WHERE id = ?1", [id]).expect("a change");
        }
    }
    assert_eq!(number(&one, "SELECT count(*) FROM t WHERE n = 2"), 500);
}

//! What a connection keeps from one statement to the next (trees, cursors that were closed, numbers of the
//! schema), where that has become something else.

use rusqlite::Connection;

use crate::asked::{BUSY_SNAPSHOT, code, number, texts};
use crate::directory::Directory;

/// A table of one column, used with a cursor to write and one to read.
fn make_and_use(db: &Connection, value: i64) {
    db.execute_batch(&format!("CREATE TABLE u (a UNIQUE); INSERT INTO u VALUES ({value}), ({value} + 1)"))
        .expect("a table");
    assert_eq!(number(db, "SELECT sum(a) FROM u"), 2 * value + 1);
    assert_eq!(number(db, "SELECT count(*) FROM u WHERE a >= 0"), 2);
}

#[test]
fn a_table_of_the_number_of_one_that_was_rolled_back_is_another_one() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch("CREATE TABLE t (a)").expect("a table");
    for value in [10, 20] {
        db.execute_batch("BEGIN").expect("a transaction");
        make_and_use(&db, value);
        db.execute_batch("SAVEPOINT s; DROP TABLE u").expect("it goes");
        make_and_use(&db, value + 5);
        db.execute_batch("ROLLBACK TO s").expect("it is back");
        assert_eq!(number(&db, "SELECT sum(a) FROM u"), 2 * value + 1);
        db.execute_batch("INSERT INTO u VALUES (-1); ROLLBACK").expect("nothing was done");
        assert!(db.prepare("SELECT * FROM u").is_err());
    }
    make_and_use(&db, 30);
    // And by another connection, between two statements of this one.
    let other = directory.ours();
    other.execute_batch("DROP TABLE u").expect("it goes");
    make_and_use(&other, 40);
    assert_eq!(texts(&db, "SELECT CAST(a AS TEXT) FROM u ORDER BY a"), ["40", "41"]);
    assert!(db.execute("INSERT INTO u VALUES (41)", []).is_err(), "the index is that of the new table");
    assert_eq!(db.execute("INSERT INTO u VALUES (42)", []), Ok(1));
    assert_eq!(texts(&other, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn numbers_of_the_schema_are_those_of_the_transaction() {
    let directory = Directory::new();
    let (db, other) = (directory.ours(), directory.ours());
    let version = |db| number(db, "PRAGMA user_version");
    db.execute_batch("PRAGMA user_version = 1; BEGIN; PRAGMA user_version = 2").expect("a number");
    assert_eq!((version(&db), version(&other)), (2, 1));
    db.execute_batch("SAVEPOINT s; PRAGMA user_version = 3").expect("a number");
    assert_eq!(version(&db), 3);
    db.execute_batch("ROLLBACK TO s").expect("back to the savepoint");
    assert_eq!(version(&db), 2);
    db.execute_batch("ROLLBACK").expect("back to the beginning");
    assert_eq!(version(&db), 1);
    db.execute_batch("BEGIN").expect("a transaction");
    assert_eq!(version(&db), 1);
    other.execute_batch("PRAGMA user_version = 4").expect("a number");
    assert_eq!(version(&db), 1, "of its state");
    // What it has read was changed, so it may not write by it.
    db.execute_batch("CREATE TABLE t (a)").expect("a table");
    assert!(db.execute_batch("COMMIT").is_err());
    assert_eq!(version(&db), 4);
}

/// Makes a table in a transaction, and ends that while a statement reads the table; the statement is ended
/// afterwards.
fn end_under_a_statement(db: &Connection, end: impl FnOnce()) {
    db.execute_batch("BEGIN; SAVEPOINT s; CREATE TABLE a (x); INSERT INTO a VALUES (1), (2)")
        .expect("a table");
    let mut statement = db.prepare("SELECT x FROM a").expect("it is there");
    let mut rows = statement.query([]).expect("rows");
    rows.next().expect("a row");
    end();
}

#[test]
fn a_cursor_that_was_open_over_a_rollback_is_not_used_for_a_later_table_of_that_number() {
    let directory = Directory::new();
    let (db, other) = (directory.ours(), directory.ours());
    let make = "CREATE TABLE b (x); INSERT INTO b VALUES (7)";
    let check = || {
        assert_eq!(number(&db, "SELECT x FROM b"), 7);
        assert_eq!(db.execute("INSERT INTO b VALUES (8)", []), Ok(1));
        assert_eq!(number(&other, "SELECT sum(x) FROM b"), 15);
        other.execute_batch("DROP TABLE b").expect("it goes");
    };
    // The next one is made by itself, or by others;
    for by in [&db, &other] {
        end_under_a_statement(&db, || db.execute_batch("ROLLBACK").expect("undone"));
        by.execute_batch(make).expect("a table");
        check();
    }
    // in the same transaction;
    end_under_a_statement(&db, || db.execute_batch("ROLLBACK TO s").expect("undone"));
    db.execute_batch(make).expect("a table");
    db.execute_batch("COMMIT").expect("a commit");
    check();
    // and after a commit that was none.
    end_under_a_statement(&db, || {
        other.execute_batch(make).expect("a table");
        assert_eq!(code(&db.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    });
    check();
}

#[test]
fn cursors_that_are_used_again_see_the_newest_state_and_note_what_they_read() {
    let directory = Directory::new();
    let (db, other) = (directory.ours(), directory.ours());
    db.execute_batch("CREATE TABLE t (x INTEGER PRIMARY KEY, y UNIQUE); CREATE INDEX i ON t (y DESC, x)")
        .expect("a table");
    for n in 0..60i64 {
        let (one, two) = if n % 3 == 0 { (&db, &other) } else { (&other, &db) };
        one.execute("INSERT INTO t (y) VALUES (?1)", [n]).expect("a row");
        for end in ["", "COMMIT", "ROLLBACK"] {
            if !end.is_empty() {
                two.execute_batch("BEGIN").expect("a transaction");
            }
            assert_eq!(number(two, "SELECT count(*) FROM t"), n + 1);
            assert_eq!(number(two, "SELECT sum(y) FROM t"), n * (n + 1) / 2);
            assert_eq!(number(two, "SELECT y FROM t ORDER BY x DESC LIMIT 1"), n);
            assert_eq!(number(two, "SELECT y FROM t INDEXED BY i WHERE y >= 0 LIMIT 1"), n);
            two.execute_batch(end).expect("an end");
        }
    }
    // Of two that read what the other one writes, one commits.
    for read in ["SELECT sum(y) FROM t", "SELECT max(y) FROM t", "SELECT y FROM t ORDER BY x DESC"] {
        for db in [&db, &other] {
            db.execute_batch("BEGIN").expect("a transaction");
            number(db, read);
        }
        for (db, row) in [(&db, 1), (&other, 2)] {
            db.execute("UPDATE t SET y = y + 1000 WHERE x = ?1", [row]).expect("nobody is waited for");
        }
        let done = [&db, &other].map(|db| db.execute_batch("COMMIT").is_ok());
        assert_eq!(done, [true, false], "{read}");
    }
    assert_eq!(texts(&db, "PRAGMA integrity_check"), ["ok"]);
}

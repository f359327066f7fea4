//! What a connection keeps from one statement to the next (trees, cursors that were closed, numbers of the
//! schema), where that has become something else.

use crate::asked::{number, texts};
use crate::directory::Directory;

/// A table of one column, used with a cursor to write and one to read.
fn make_and_use(db: &rusqlite::Connection, value: i64) {
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

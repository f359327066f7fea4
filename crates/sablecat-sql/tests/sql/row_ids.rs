//! Row ids of rows that are inserted without one, by many at once.

use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;

use rusqlite::Connection;

use crate::asked::{BUSY_SNAPSHOT, code, number, texts};
use crate::dice::Dice;
use crate::directory::Directory;

const DIRECTORY: &str = "SABLECAT_TEST_SQL_ROWS_DIRECTORY";
const WHO: &str = "SABLECAT_TEST_SQL_ROWS_WHO";

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, who INTEGER, number INTEGER, s TEXT);
    CREATE INDEX t_by_who ON t (who, number)";

/// Inserts so many rows in transactions of some rows each; none of them may lose.
fn insert(db: &Connection, who: u64, rows: u64) {
    let mut dice = Dice::new(who);
    let mut insert = db.prepare("INSERT INTO t (who, number, s) VALUES (?1, ?2, 'a row')").expect("it");
    let mut done = 0;
    while done < rows {
        db.execute_batch("BEGIN").expect("a transaction");
        let end = rows.min(done + 1 + dice.below(12));
        // Now and then some are taken back.
        if dice.once_in(4) {
            db.execute_batch("SAVEPOINT s").expect("a savepoint");
            for row in done..end {
                insert.execute([who as i64, row as i64]).expect("a row that will not be");
            }
            db.execute_batch("ROLLBACK TO s; RELEASE s").expect("it is gone");
        }
        for row in done..end {
            insert.execute([who as i64, row as i64]).expect("a row");
        }
        db.execute_batch("COMMIT").unwrap_or_else(|error| panic!("{who} at row {done}: {error}"));
        done = end;
    }
}

/// That all rows are there, as the table and the index have them.
fn check(db: &Connection, inserters: u64, rows: u64) {
    let all = (inserters * rows) as i64;
    assert_eq!(number(db, "SELECT count(*) FROM t NOT INDEXED"), all);
    assert_eq!(number(db, "SELECT count(DISTINCT id) FROM t NOT INDEXED"), all);
    assert_eq!(number(db, "SELECT count(DISTINCT who * 1000000 + number) FROM t NOT INDEXED"), all);
    assert_eq!(number(db, &format!("SELECT count(*) FROM t WHERE number < {rows}")), all);
    assert_eq!(texts(db, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn threads_that_insert_into_one_table_do_not_conflict() {
    const THREADS: u64 = 4;
    const ROWS: u64 = 2000;
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(TABLE).expect("a table");
    let begin = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for who in 0..THREADS {
            let (directory, begin) = (&directory, &begin);
            scope.spawn(move || {
                let db = directory.ours();
                db.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
                begin.wait();
                insert(&db, who, ROWS);
            });
        }
    });
    check(&db, THREADS, ROWS);
}

const ROWS_OF_A_PROCESS: u64 = 3000;

/// What a process does.
#[test]
fn a_process_that_inserts() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let who: u64 = std::env::var(WHO).expect("who").parse().expect("a number");
    let db = Connection::open(directory).expect("the database is there");
    db.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
    insert(&db, who, ROWS_OF_A_PROCESS);
}

fn process(directory: &Directory, who: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "row_ids::a_process_that_inserts", "--nocapture"])
        .env(DIRECTORY, directory.path().join("ours"))
        .env(WHO, who.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("a process")
}

#[test]
fn processes_that_insert_into_one_table_do_not_conflict() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(TABLE).expect("a table");
    let processes = [0, 1].map(|who| process(&directory, who));
    for mut process in processes {
        assert!(process.wait().expect("it ends").success(), "it ends well");
    }
    check(&db, 2, ROWS_OF_A_PROCESS);
}

#[test]
fn who_inserts_alone_is_given_the_numbers_that_follow() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(TABLE).expect("a table");
    for row in 1..=400 {
        db.execute("INSERT INTO t (who) VALUES (0)", []).expect("a row");
        assert_eq!(db.last_insert_rowid(), row);
    }
    db.execute_batch("BEGIN; DELETE FROM t WHERE id = 3").expect("a row goes, not the last");
    for row in 401..=1200 {
        db.execute("INSERT INTO t (who) VALUES (0)", []).expect("a row");
        assert_eq!(db.last_insert_rowid(), row);
    }
    db.execute_batch("DELETE FROM t WHERE id > 1100; INSERT INTO t (who) VALUES (0)").expect("the last go");
    assert_eq!(db.last_insert_rowid(), 1101);
    db.execute_batch("ROLLBACK; INSERT INTO t (who) VALUES (0)").expect("none of it was");
    assert_eq!(db.last_insert_rowid(), 401);
    db.execute_batch("INSERT INTO t (id) VALUES (9223372036854775807); INSERT INTO t (who) VALUES (0)")
        .expect("the greatest, and any");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 403);
}

#[test]
fn two_transactions_are_given_different_numbers_and_both_commit() {
    let directory = Directory::new();
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(TABLE).expect("a table");
    one.execute_batch("INSERT INTO t (id) VALUES (1), (2)").expect("rows");
    let add = |db: &Connection| db.execute("INSERT INTO t (who) VALUES (0)", []).expect("a row");
    one.execute_batch("BEGIN").expect("a transaction");
    other.execute_batch("BEGIN").expect("another");
    for _ in 0..3 {
        add(&one);
        add(&other);
    }
    // A queue: what is removed is not the last row.
    one.execute_batch("DELETE FROM t WHERE id = 1").expect("a row goes");
    add(&one);
    other.execute_batch("SAVEPOINT s; INSERT INTO t (who) VALUES (7); ROLLBACK TO s").expect("one was not");
    add(&other);
    one.execute_batch("COMMIT").expect("they have not met");
    // Of a state of before that commit.
    add(&other);
    other.execute_batch("COMMIT").expect("they have not met");
    assert_eq!(number(&one, "SELECT count(*) FROM t"), 2 + 3 + 3 + 2 - 1 + 1);
}

#[test]
fn a_row_of_a_number_that_somebody_was_given_is_a_conflict_and_not_lost() {
    let directory = Directory::new();
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(TABLE).expect("a table");
    // Who names the number commits first, then who was given it.
    for named_first in [true, false] {
        one.execute_batch("BEGIN; INSERT INTO t (s) VALUES ('given')").expect("a row");
        let given = one.last_insert_rowid();
        let name = format!("BEGIN; INSERT INTO t (id, s) VALUES ({given}, 'named')");
        other.execute_batch(&name).expect("nobody else's is seen");
        let (first, second) = if named_first { (&other, &one) } else { (&one, &other) };
        first.execute_batch("COMMIT").expect("the first commits");
        let lost = second.execute_batch("COMMIT");
        assert_eq!(code(&lost), Some(BUSY_SNAPSHOT), "{lost:?}");
        let there = texts(&one, &format!("SELECT s FROM t WHERE id = {given}"));
        assert_eq!(there, [if named_first { "named" } else { "given" }]);
    }
}

#[test]
fn a_number_of_a_sequence_that_somebody_moved_a_row_to_is_a_conflict_and_not_lost() {
    let directory = Directory::new();
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, s TEXT);
         INSERT INTO t (s) VALUES ('first'), ('second'), ('third');
         DELETE FROM t WHERE id > 1",
    )
    .expect("a table");
    one.execute_batch("BEGIN; INSERT INTO t (s) VALUES ('given')").expect("a row");
    assert_eq!(one.last_insert_rowid(), 4);
    other.execute_batch("UPDATE t SET id = 4, s = 'moved' WHERE id = 1").expect("a row is moved");
    let lost = one.execute_batch("COMMIT");
    assert_eq!(code(&lost), Some(BUSY_SNAPSHOT), "{lost:?}");
    assert_eq!(texts(&one, "SELECT s FROM t"), ["moved"]);
}

/// Statements by themselves, of one connection or by turns, each behind the last row as that is by then.
#[test]
fn a_row_that_is_inserted_by_itself_follows_the_last_one_whoever_has_set_or_removed_that() {
    let directory = Directory::new();
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, who INTEGER); CREATE TABLE u (a)")
        .expect("tables");
    let mut dice = Dice::new(5);
    let (mut last, mut rows) = (0, 0);
    for _ in 0..400 {
        let db = if dice.once_in(4) { &other } else { &one };
        let sql = match dice.below(12) {
            0 => "DELETE FROM t",
            1 => "DELETE FROM t WHERE id = (SELECT max(id) FROM t)",
            2 => "DELETE FROM t WHERE id = (SELECT min(id) FROM t)",
            3 => "BEGIN; DELETE FROM t; INSERT INTO t (who) VALUES (3); COMMIT",
            4 => {
                "BEGIN; INSERT INTO t (who) VALUES (4), (4);
                 DELETE FROM t WHERE id = (SELECT max(id) FROM t); COMMIT"
            }
            5 => "BEGIN; INSERT INTO t (who) VALUES (5); DELETE FROM t; ROLLBACK",
            6 => "INSERT INTO t (id) VALUES ((SELECT coalesce(max(id), 0) + 7 FROM t))",
            7 => "INSERT INTO t (id) VALUES ((SELECT coalesce(min(id), 0) - 1 FROM t))",
            8 => "INSERT INTO u VALUES (8)",
            _ => {
                db.execute("INSERT INTO t (who) VALUES (0)", []).expect("a row");
                assert_eq!(db.last_insert_rowid(), if rows == 0 { 1 } else { last + 1 });
                ""
            }
        };
        db.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows = number(&one, "SELECT count(*) FROM t");
        last = number(&one, "SELECT coalesce(max(id), 0) FROM t");
    }
}

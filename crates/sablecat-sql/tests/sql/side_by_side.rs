//! Several connections at once: what each sees, who waits for whom, and which of two commits.

use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::ffi;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::asked::{BUSY_SNAPSHOT, code, number};
use crate::dice::Dice;
use crate::directory::Directory;

const DIRECTORY: &str = "SABLECAT_TEST_SQL_DIRECTORY_BESIDE";

fn with_accounts(directory: &Directory) -> Connection {
    let db = directory.ours();
    db.execute_batch(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
         INSERT INTO accounts SELECT i, 100 FROM n;
         PRAGMA synchronous = OFF;",
    )
    .expect("accounts");
    db
}

#[test]
fn two_that_write_side_by_side_both_commit_unless_they_meet() {
    let directory = Directory::new();
    let (one, other) = (with_accounts(&directory), directory.ours());
    let pay = |db: &Connection, id: i64| {
        db.execute("UPDATE accounts SET balance = balance - 1 WHERE id = ?1", [id]).expect("an update")
    };
    one.execute_batch("BEGIN").expect("a transaction");
    other.execute_batch("BEGIN").expect("another");
    pay(&one, 1);
    pay(&other, 2);
    assert_eq!(number(&other, "SELECT balance FROM accounts WHERE id = 1"), 100, "nobody sees it before");
    one.execute_batch("COMMIT").expect("the first commits");
    // It has read what the first changed.
    let lost = other.execute_batch("COMMIT");
    assert_eq!(code(&lost), Some(BUSY_SNAPSHOT), "{lost:?}");
    assert!(other.is_autocommit(), "it is over");

    one.execute_batch("BEGIN").expect("a transaction");
    other.execute_batch("BEGIN").expect("another");
    pay(&one, 1);
    pay(&other, 2);
    one.execute_batch("COMMIT").expect("the first commits");
    other.execute_batch("COMMIT").expect("they have not met");
    assert_eq!(number(&one, "SELECT sum(balance) FROM accounts"), 1997);
}

#[test]
fn begin_concurrent_is_begin() {
    let directory = Directory::new();
    let (one, other) = (with_accounts(&directory), directory.ours());
    for begin in ["BEGIN CONCURRENT", "begin concurrent transaction", "BEGIN /* all do */ Concurrent;"] {
        one.execute_batch(begin).unwrap_or_else(|error| panic!("{begin}: {error}"));
        other.execute_batch(begin).unwrap_or_else(|error| panic!("{begin}: {error}"));
        one.execute("UPDATE accounts SET balance = 7 WHERE id = 1", []).expect("an update");
        other.execute("UPDATE accounts SET balance = 8 WHERE id = 2", []).expect("another");
        assert!(!one.is_autocommit() && !other.is_autocommit(), "{begin}");
        one.execute_batch("COMMIT").expect("the first commits");
        other.execute_batch("COMMIT").expect("they have not met");
    }
    // It is no word anywhere else.
    one.execute_batch(
        "CREATE TABLE concurrent (concurrent INTEGER);
         CREATE TRIGGER t AFTER INSERT ON concurrent
           BEGIN UPDATE concurrent SET concurrent = concurrent + 1; END;
         INSERT INTO concurrent VALUES (1)",
    )
    .expect("a table, a column and a trigger");
    assert_eq!(number(&one, "SELECT concurrent FROM concurrent"), 2);
    for wrong in
        ["BEGIN CONCURRENTLY", "BEGIN CONCURRENT CONCURRENT", "BEGIN \"concurrent\"", "COMMIT CONCURRENT"]
    {
        assert!(one.execute_batch(wrong).is_err(), "{wrong}");
        assert!(one.is_autocommit(), "{wrong}");
    }
}

#[test]
fn what_others_commit_during_a_transaction_is_told_after_it() {
    let directory = Directory::new();
    let (reader, writer) = (with_accounts(&directory), directory.ours());
    writer.execute_batch("CREATE VIRTUAL TABLE words USING fts5 (word)").expect("a table of words");
    let version = || number(&reader, "PRAGMA data_version");
    let words = || number(&reader, "SELECT count(*) FROM words ('sought')");
    for round in 0..10 {
        reader.execute_batch("BEGIN").expect("a transaction");
        assert_eq!(number(&reader, "SELECT count(*) FROM words"), round);
        writer.execute("INSERT INTO words VALUES ('sought')", []).expect("a word");
        // FTS5 keeps what it read by this number.
        let during = version();
        assert_eq!((words(), version()), (round, during), "round {round}");
        reader.execute_batch("COMMIT").expect("it has only read");
        assert_eq!(words(), round + 1, "round {round}");
        let after = version();
        assert_ne!(during, after, "round {round}");
        assert_eq!(version(), after, "nobody commits in between");
    }
}

/// What a program asks of a database's file to know whether to look again.
#[test]
fn the_version_of_a_file_is_of_all_that_is_committed() {
    let directory = Directory::new();
    let (db, other) = (with_accounts(&directory), directory.ours());
    let version = || {
        let mut version = 0u32;
        // SAFETY: the connection is open; it has no database but the first; and this operation wants a u32.
        let code = unsafe {
            ffi::sqlite3_file_control(
                db.handle(),
                std::ptr::null(),
                ffi::SQLITE_FCNTL_DATA_VERSION,
                (&raw mut version).cast(),
            )
        };
        assert_eq!(code, ffi::SQLITE_OK);
        version
    };
    let look = || number(&db, "SELECT sum(balance) FROM accounts");
    look();
    let first = version();
    look();
    db.execute_batch("BEGIN; UPDATE accounts SET balance = balance + 1; ROLLBACK")
        .expect("nothing comes of it");
    assert_eq!(version(), first, "nobody has committed anything");
    db.execute_batch("UPDATE accounts SET balance = balance + 1").expect("a commit");
    let own = version();
    assert_ne!(own, first);
    other.execute_batch("UPDATE accounts SET balance = balance + 1").expect("a commit");
    assert_eq!(version(), own, "as with SQLite, until the connection has looked");
    look();
    assert_ne!(version(), own);
}

#[test]
fn the_version_of_data_is_of_what_others_commit() {
    let directory = Directory::new();
    let (db, other) = (with_accounts(&directory), directory.ours());
    let version = || number(&db, "PRAGMA data_version");
    let first = version();
    for own in [
        "UPDATE accounts SET balance = balance + 1",
        "CREATE TABLE t (a UNIQUE, b)",
        "BEGIN; INSERT INTO t VALUES (1, 2); SAVEPOINT s; INSERT INTO t VALUES (2, 3); ROLLBACK TO s; COMMIT",
        "BEGIN IMMEDIATE; DELETE FROM t; COMMIT",
        "BEGIN; INSERT INTO t VALUES (5, 5); ROLLBACK",
        "PRAGMA user_version = 7",
        "CREATE INDEX i ON t (b); ALTER TABLE t ADD COLUMN c",
        "DROP TABLE t",
        "CREATE VIRTUAL TABLE words USING fts5 (word)",
        "INSERT INTO words VALUES ('sought')",
        "BEGIN; SELECT * FROM accounts; COMMIT",
        "BEGIN; COMMIT",
    ] {
        db.execute_batch(own).unwrap_or_else(|error| panic!("{own}: {error}"));
        assert_eq!(version(), first, "after {own}");
    }
    let mut before = first;
    let mut changed = |why: &str| {
        let now = version();
        assert_ne!(now, before, "{why}");
        assert_eq!(version(), now, "{why}");
        before = now;
    };
    let pay = |db: &Connection, id: i64| db.execute("UPDATE accounts SET balance = 7 WHERE id = ?1", [id]);
    assert_eq!(pay(&other, 1), Ok(1));
    changed("another connection has committed");
    other.execute_batch("CREATE TABLE u (x)").expect("a table");
    changed("and made a table");
    // Between the state that a transaction sees and its commit; and between two of one's own.
    db.execute_batch("BEGIN").expect("a transaction");
    assert_eq!(pay(&db, 2), Ok(1));
    let during = version();
    assert_eq!(pay(&other, 3), Ok(1));
    assert_eq!(version(), during, "it does not see that");
    db.execute_batch("COMMIT").expect("they have not met");
    changed("another one lies before the own commit");
    assert_eq!(pay(&db, 4), Ok(1));
    assert_eq!(pay(&other, 5), Ok(1));
    assert_eq!(pay(&db, 6), Ok(1));
    changed("another one lies between two");
    // One that loses has changed nothing.
    db.execute_batch("BEGIN; UPDATE accounts SET balance = balance + 1 WHERE id = 1").expect("it writes");
    let during = version();
    assert_eq!(other.execute("UPDATE accounts SET balance = 9 WHERE id = 1", []), Ok(1));
    assert_eq!(code(&db.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    assert_ne!(version(), during);

    let before = version();
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "side_by_side::a_child_that_commits"])
        .env(DIRECTORY, directory.path().join("ours"))
        .output()
        .expect("a child");
    assert!(child.status.success(), "{child:?}");
    assert_eq!(number(&db, "SELECT balance FROM accounts WHERE id = 1"), 13);
    assert_ne!(version(), before, "another process has committed");
}

/// What another process does.
#[test]
fn a_child_that_commits() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let db = Connection::open(directory).expect("the database is there");
    assert_eq!(db.execute("UPDATE accounts SET balance = 13 WHERE id = 1", []), Ok(1));
}

#[test]
fn a_reader_sees_one_state_and_stops_nobody() {
    let directory = Directory::new();
    let (reader, writer) = (with_accounts(&directory), directory.ours());
    reader.execute_batch("BEGIN").expect("a transaction");
    assert_eq!(number(&reader, "SELECT sum(balance) FROM accounts"), 2000);
    writer.execute("UPDATE accounts SET balance = 0", []).expect("nobody is in the way");
    writer.execute_batch("CREATE TABLE more (x); INSERT INTO more VALUES (1)").expect("nor of a table");
    assert_eq!(number(&reader, "SELECT sum(balance) FROM accounts"), 2000);
    reader.execute_batch("COMMIT").expect("it has changed nothing");
    assert_eq!(number(&reader, "SELECT sum(balance) + (SELECT x FROM more) FROM accounts"), 1);
}

#[test]
fn the_number_of_a_table_that_was_rolled_back_may_be_anothers() {
    let directory = Directory::new();
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch("BEGIN; CREATE TABLE t (x); INSERT INTO t VALUES (1); ROLLBACK")
        .expect("nothing came of it");
    other.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (2)").expect("a table");
    assert_eq!(number(&one, "SELECT x FROM t"), 2);
    one.execute_batch("BEGIN; SAVEPOINT s; CREATE TABLE u (x); ROLLBACK TO s; COMMIT")
        .expect("nothing again");
    other.execute_batch("CREATE TABLE u (x); INSERT INTO u VALUES (3)").expect("a table");
    assert_eq!(number(&one, "SELECT x FROM u"), 3);
}

#[test]
fn who_begins_immediately_writes_alone_and_never_loses() {
    let directory = Directory::new();
    let (mut one, other) = (with_accounts(&directory), directory.ours());
    other.busy_timeout(Duration::ZERO).expect("a setting");
    let alone = one.transaction_with_behavior(TransactionBehavior::Immediate).expect("alone");
    assert_eq!(number(&other, "SELECT count(*) FROM accounts"), 20, "readers go on");
    let refused = other.execute("UPDATE accounts SET balance = 1", []).expect_err("nobody else writes");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    alone.execute("UPDATE accounts SET balance = balance + 1", []).expect("an update");
    alone.commit().expect("it never loses");
    other.execute("UPDATE accounts SET balance = balance + 1", []).expect("it is free again");
    other.execute_batch("BEGIN; UPDATE accounts SET balance = 5 WHERE id = 1").expect("it writes");
    one.busy_timeout(Duration::ZERO).expect("a setting");
    let refused = one.transaction_with_behavior(TransactionBehavior::Immediate).expect_err("somebody writes");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
}

#[test]
fn statements_by_themselves_run_again_until_they_are_through() {
    const THREADS: i64 = 4;
    const EACH: i64 = 60;
    let directory = Directory::new();
    let db = with_accounts(&directory);
    db.execute_batch("CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, who INTEGER)")
        .expect("a table");
    let begin = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for who in 0..THREADS {
            let (directory, begin) = (&directory, &begin);
            scope.spawn(move || {
                let db = directory.ours();
                db.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
                begin.wait();
                for _ in 0..EACH {
                    db.execute("UPDATE accounts SET balance = balance + 1 WHERE id = 1", [])
                        .expect("it gets through");
                    db.execute("INSERT INTO log (who) VALUES (?1)", [who]).expect("it gets through");
                }
            });
        }
    });
    assert_eq!(number(&db, "SELECT balance FROM accounts WHERE id = 1"), 100 + THREADS * EACH);
    assert_eq!(number(&db, "SELECT count(*) FROM log"), THREADS * EACH);
    // Numbers that one of several has taken and not used are not given again.
    let last = number(&db, "SELECT max(id) FROM log");
    assert!(last >= THREADS * EACH, "{last}");
    assert_eq!(number(&db, "SELECT seq FROM sqlite_sequence"), last);
}

#[test]
fn money_is_neither_made_nor_lost_by_transfers_at_once() {
    let directory = Directory::new();
    let db = with_accounts(&directory);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let directory = &directory;
                scope.spawn(move || {
                    let db = directory.ours();
                    db.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
                    let mut dice = Dice::new(worker);
                    let mut done = 0;
                    while done < 150 {
                        let (from, to) = (1 + dice.below(20), 1 + dice.below(20));
                        let tried = (|| {
                            db.execute_batch("BEGIN")?;
                            let balance =
                                number(&db, &format!("SELECT balance FROM accounts WHERE id = {from}"));
                            let sum = balance.min(dice.below(30) as i64);
                            db.execute(
                                "UPDATE accounts SET balance = balance - ?1 WHERE id = ?2",
                                (sum, from as i64),
                            )?;
                            db.execute(
                                "UPDATE accounts SET balance = balance + ?1 WHERE id = ?2",
                                (sum, to as i64),
                            )?;
                            db.execute_batch("COMMIT")
                        })();
                        match code(&tried) {
                            None => done += 1,
                            // A statement has met it, or the commit.
                            Some(BUSY_SNAPSHOT) if !db.is_autocommit() => {
                                db.execute_batch("ROLLBACK").expect("it ends")
                            }
                            Some(BUSY_SNAPSHOT) => {}
                            Some(_) => panic!("{tried:?}"),
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let db = directory.ours();
            while !over.load(Ordering::Relaxed) {
                assert_eq!(number(&db, "SELECT sum(balance) FROM accounts"), 2000);
            }
        });
        workers.into_iter().for_each(|worker| worker.join().expect("it ends well"));
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(number(&db, "SELECT sum(balance) FROM accounts"), 2000);
    assert!(number(&db, "SELECT min(balance) FROM accounts") >= 0);
}

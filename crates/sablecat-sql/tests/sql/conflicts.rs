//! Transactions that meet: which statement says so, what is left of it, and what it is not said of.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Result};
use sablecat::Env;

use crate::asked::{BUSY_SNAPSHOT, code, number, texts};
use crate::directory::Directory;

const DIRECTORY: &str = "SABLECAT_TEST_SQL_DIRECTORY_CONFLICTS";
const BEGINS: [&str; 4] = ["BEGIN", "BEGIN CONCURRENT", "SAVEPOINT s", "BEGIN; SAVEPOINT s"];

/// Two connections, and tables of each kind with rows 1 to 9. What is long fills leaves.
pub(super) fn two(directory: &Directory) -> (Connection, Connection) {
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(
        "PRAGMA synchronous = OFF;
         CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT UNIQUE, c TEXT NOT NULL UNIQUE);
         CREATE TABLE bare (id INTEGER PRIMARY KEY, a INTEGER);
         CREATE TABLE keyed (k TEXT PRIMARY KEY, a INTEGER) WITHOUT ROWID;
         CREATE TABLE long (id INTEGER PRIMARY KEY, a INTEGER, s TEXT);
         CREATE INDEX long_by_a ON long (a);
         CREATE TABLE log (x);
         CREATE TABLE still (x);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
         INSERT INTO t SELECT i, i, 'b' || i, 'c' || i FROM n;
         INSERT INTO bare SELECT id, a FROM t;
         INSERT INTO keyed SELECT 'k' || id, a FROM t;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
         INSERT INTO long SELECT i, i, hex(zeroblob(600)) FROM n;",
    )
    .expect("tables");
    (one, other)
}

/// Begins, and has a state.
fn begin(db: &Connection, begin: &str) {
    db.execute_batch(begin).expect(begin);
    number(db, "SELECT count(*) FROM still");
}

/// That a statement has met a conflict, and the transaction is there still.
pub(super) fn assert_lost(db: &Connection, done: Result<()>, what: &str) {
    assert_eq!(code(&done), Some(BUSY_SNAPSHOT), "{what}: {done:?}");
    let said = done.expect_err("it has failed").to_string();
    assert!(said.contains("another transaction changed") && said.contains("ROLLBACK"), "{what}: {said}");
    assert!(!db.is_autocommit(), "{what}: it goes on until ROLLBACK");
}

/// What one transaction has committed, and what another is to do in a state of before.
pub(super) const MEETINGS: [[&str; 2]; 16] = [
    ["UPDATE bare SET a = 0 WHERE id = 5", "UPDATE bare SET a = a + 1 WHERE id = 5"],
    ["DELETE FROM bare WHERE id = 5", "UPDATE bare SET a = a + 1 WHERE id = 5"],
    ["UPDATE bare SET a = 0 WHERE id = 5", "DELETE FROM bare WHERE id = 5"],
    ["DELETE FROM bare WHERE id = 5", "DELETE FROM bare WHERE id = 5"],
    ["UPDATE bare SET a = 0 WHERE id = 5", "UPDATE bare SET id = 50 WHERE id = 5"],
    ["INSERT INTO bare VALUES (10, 1)", "INSERT INTO bare VALUES (10, 2)"],
    ["INSERT INTO bare VALUES (10, 1)", "REPLACE INTO bare VALUES (10, 2)"],
    [
        "INSERT INTO bare VALUES (10, 1)",
        "INSERT INTO bare VALUES (10, 2) ON CONFLICT (id) DO UPDATE SET a = a + 1",
    ],
    [
        "UPDATE bare SET a = 0 WHERE id = 5",
        "INSERT INTO bare VALUES (5, 2) ON CONFLICT (id) DO UPDATE SET a = a + 1",
    ],
    ["UPDATE bare SET a = 0 WHERE id = 5", "DELETE FROM bare"],
    ["INSERT INTO t VALUES (10, 1, 'x', 'c10')", "INSERT INTO t VALUES (20, 2, 'x', 'c20')"],
    ["INSERT INTO t VALUES (10, 1, 'b10', 'x')", "INSERT INTO t VALUES (20, 2, 'b20', 'x')"],
    ["UPDATE t SET c = 'x' WHERE id = 1", "UPDATE t SET c = 'x' WHERE id = 9"],
    ["UPDATE keyed SET a = 0 WHERE k = 'k5'", "UPDATE keyed SET a = a + 1 WHERE k = 'k5'"],
    ["INSERT INTO keyed VALUES ('x', 1)", "INSERT INTO keyed VALUES ('x', 2)"],
    ["CREATE TABLE new (x)", "CREATE TABLE newer (x)"],
];

#[test]
fn a_statement_that_meets_what_others_have_committed_says_so() {
    for (at, [theirs, ours]) in MEETINGS.into_iter().enumerate() {
        let what = &format!("{theirs}; {ours}");
        let directory = Directory::new();
        let (one, other) = two(&directory);
        begin(&one, BEGINS[at % BEGINS.len()]);
        one.execute_batch("INSERT INTO log VALUES (1)").expect("nobody is met");
        other.execute_batch(theirs).expect(theirs);
        assert_lost(&one, one.execute_batch(ours), what);
        // It still sees its state, and changes nothing any more.
        assert_eq!(number(&one, "SELECT count(*) FROM log"), 1, "{what}");
        assert_eq!(number(&one, "SELECT sum(a) FROM bare"), 45, "{what}");
        assert_lost(&one, one.execute_batch("INSERT INTO log VALUES (2)"), what);
        if at % 2 == 0 {
            one.execute_batch("ROLLBACK").expect("that helps");
        } else {
            let lost = one.execute_batch("COMMIT");
            assert_eq!(code(&lost), Some(BUSY_SNAPSHOT), "{what}: {lost:?}");
        }
        assert!(one.is_autocommit(), "{what}");
        assert_eq!(number(&one, "SELECT count(*) FROM log"), 0, "{what}");
        assert_eq!(texts(&one, "PRAGMA integrity_check"), ["ok"], "{what}");
        one.execute_batch(&format!("BEGIN; INSERT INTO log VALUES (1); {}; COMMIT", MEETINGS[0][1]))
            .expect("and then all is well");
    }
}

#[test]
fn rolling_back_to_a_savepoint_does_not_help() {
    for begun in BEGINS {
        let directory = Directory::new();
        let (one, other) = two(&directory);
        begin(&one, begun);
        one.execute_batch("SAVEPOINT inner").expect("a savepoint");
        other.execute_batch(MEETINGS[0][0]).expect("an update");
        assert_lost(&one, one.execute_batch(MEETINGS[0][1]), begun);
        one.execute_batch("ROLLBACK TO inner").expect("nothing was done since");
        assert_lost(&one, one.execute_batch("INSERT INTO log VALUES (2)"), begun);
        one.execute_batch("RELEASE inner").expect("it goes");
        assert_lost(&one, one.execute_batch(MEETINGS[0][1]), begun);
        if begun.starts_with("SAVEPOINT") {
            one.execute_batch("ROLLBACK TO s").expect("back to the beginning");
            assert_eq!(code(&one.execute_batch("RELEASE s")), Some(BUSY_SNAPSHOT));
            one.execute_batch("ROLLBACK").expect("SQLite goes on after a release that failed");
        } else {
            assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT), "{begun}");
        }
        assert!(one.is_autocommit(), "{begun}");
        assert_eq!(number(&one, "SELECT a FROM bare WHERE id = 5"), 0);
    }
}

#[test]
fn what_a_statement_has_changed_before_it_meets_a_conflict_is_undone() {
    let sums = "SELECT sum(a) || ' ' || sum(id * a) || ' ' || count(*) FROM long NOT INDEXED";
    let by_index =
        "SELECT sum(a) || ' ' || sum(id * a) || ' ' || count(*) FROM long INDEXED BY long_by_a WHERE a > -1";
    for statement in [
        "UPDATE long SET a = a + 100",
        "UPDATE OR FAIL long SET a = a + 100",
        "UPDATE OR IGNORE long SET s = 'x', a = 2 * a",
        "DELETE FROM long WHERE a > 3",
        "UPDATE long SET id = id + 1000 WHERE a > 3",
        "INSERT INTO long SELECT 111 - id, 0, '' FROM long WHERE true ON CONFLICT (id) DO UPDATE SET a = 0",
        // The row itself is changed last.
        "UPDATE long SET a = a + 100 WHERE id = 55",
    ] {
        let directory = Directory::new();
        let (one, other) = two(&directory);
        begin(&one, "BEGIN");
        one.execute_batch("UPDATE long SET a = a + 1 WHERE id < 3").expect("nobody is met");
        let before = [texts(&one, sums), texts(&one, by_index)];
        assert_eq!(before[0], before[1]);
        let lengths = number(&one, "SELECT sum(length(s)) FROM long");
        other.execute_batch("UPDATE long SET s = 'short' WHERE id = 55").expect("another's row");
        assert_lost(&one, one.execute_batch(statement), statement);
        assert_eq!([texts(&one, sums), texts(&one, by_index)], before, "{statement}");
        assert_eq!(number(&one, "SELECT sum(length(s)) FROM long"), lengths, "{statement}");
        one.execute_batch("ROLLBACK").expect("it ends");
        assert_eq!(number(&one, "SELECT sum(a) FROM long"), 1830);
    }
}

#[test]
fn triggers_and_references_are_parts_of_the_statement_that_meets_a_conflict() {
    let directory = Directory::new();
    let (one, other) = two(&directory);
    one.execute_batch(
        "CREATE TRIGGER counts AFTER INSERT ON log BEGIN
           UPDATE bare SET a = a + 1 WHERE id = 1;
           UPDATE keyed SET a = a + 1 WHERE k = 'k5';
         END;
         CREATE TABLE child (k REFERENCES keyed ON DELETE CASCADE);
         CREATE INDEX children ON child (k);
         INSERT INTO child VALUES ('k1'), ('k9');
         PRAGMA foreign_keys = ON",
    )
    .expect("a trigger and references");
    begin(&one, "BEGIN");
    other.execute_batch("UPDATE keyed SET a = 0 WHERE k = 'k5'").expect("another's row");
    assert_lost(&one, one.execute_batch("INSERT INTO log VALUES (1)"), "a trigger");
    assert_eq!(number(&one, "SELECT (SELECT count(*) FROM log) * 100 + a FROM bare WHERE id = 1"), 1);
    one.execute_batch("ROLLBACK").expect("it ends");

    begin(&one, "BEGIN");
    other.execute_batch("UPDATE child SET k = 'k2' WHERE k = 'k9'").expect("another's row");
    assert_lost(&one, one.execute_batch("DELETE FROM keyed"), "a reference");
    assert_eq!(number(&one, "SELECT (SELECT count(*) FROM keyed) * 10 + count(*) FROM child"), 92);
    one.execute_batch("ROLLBACK").expect("it ends");
}

#[test]
fn who_meets_nobody_is_told_nothing() {
    let directory = Directory::new();
    let (one, other) = two(&directory);
    for (theirs, ours) in [
        // Rows of the same leaf, and of an index.
        ("UPDATE bare SET a = 0 WHERE id = 4", "UPDATE bare SET a = a + 1 WHERE id IN (3, 5)"),
        ("DELETE FROM bare WHERE id = 4", "DELETE FROM bare WHERE id = 5"),
        ("UPDATE t SET b = 'x1', c = 'x2' WHERE id = 4", "UPDATE t SET b = 'y1', c = 'y2' WHERE id = 5"),
        ("UPDATE t SET a = 7 WHERE id = 4", "UPDATE t SET a = 7 WHERE id = 5"),
        ("INSERT INTO keyed VALUES ('y1', 1)", "INSERT INTO keyed VALUES ('y2', 1), ('y0', 1)"),
        ("INSERT INTO log VALUES (1)", "INSERT INTO log VALUES (2)"),
        ("UPDATE long SET a = 7 WHERE id = 4", "UPDATE long SET a = 7 WHERE id = 5"),
        // Changed to what it was.
        ("UPDATE bare SET a = a WHERE id = 7", "UPDATE bare SET a = 8 WHERE id = 7"),
    ] {
        for begun in BEGINS {
            begin(&one, begun);
            one.execute_batch("UPDATE bare SET a = a + 1 WHERE id = 2").expect("nobody is met");
            other.execute_batch(theirs).expect(theirs);
            one.execute_batch(ours).unwrap_or_else(|error| panic!("{theirs}; {ours}: {error}"));
            let end = if begun == "SAVEPOINT s" { "RELEASE s" } else { "COMMIT" };
            one.execute_batch(end).unwrap_or_else(|error| panic!("{theirs}; {ours}; {end}: {error}"));
            for undo in ["DELETE FROM keyed WHERE k > 'y'", "REPLACE INTO bare VALUES (4, 4), (5, 5)"] {
                one.execute_batch(undo).expect(undo);
            }
        }
    }
    assert_eq!(texts(&one, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn a_transaction_that_only_reads_on_loses_nothing() {
    let directory = Directory::new();
    let (one, other) = two(&directory);
    begin(&one, "BEGIN");
    other.execute_batch("UPDATE bare SET a = 0").expect("rows");
    assert_eq!(number(&one, "SELECT sum(a) FROM bare"), 45);
    // It looks at rows to change them, and changes none.
    one.execute_batch("UPDATE bare SET a = 1 WHERE id = 5 AND a = 100").expect("it has met nothing");
    one.execute_batch("COMMIT").expect("it has only read");
}

#[test]
fn a_row_that_was_changed_by_another_process_is_met_as_well() {
    let directory = Directory::new();
    let (one, _) = two(&directory);
    begin(&one, "BEGIN");
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "conflicts::a_child_that_commits"])
        .env(DIRECTORY, directory.path().join("ours"))
        .output()
        .expect("a child");
    assert!(child.status.success(), "{child:?}");
    assert_lost(&one, one.execute_batch(MEETINGS[0][1]), "another process");
    one.execute_batch("ROLLBACK").expect("it ends");
    assert_eq!(number(&one, "SELECT a FROM bare WHERE id = 5"), 13);
}

/// What another process does.
#[test]
fn a_child_that_commits() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let db = Connection::open(directory).expect("the database is there");
    assert_eq!(db.execute("UPDATE bare SET a = 13 WHERE id = 5", []), Ok(1));
}

/// A connection with a table `kv` of records that a program has, too.
fn with_records(directory: &Directory) -> (Connection, Env, sablecat::Database) {
    let db = directory.ours();
    let env = sablecat_sql::environment(directory.path().join("ours")).expect("the environment is open");
    let words = env.database("words").expect("a database");
    words.insert_batch([("a", "1"), ("b", "1"), ("c", "1")]).expect("records");
    db.execute_batch(
        "CREATE VIRTUAL TABLE kv USING sablecat('words', key=text, value=text); CREATE TABLE still (x)",
    )
    .expect("tables");
    (db, env, words)
}

#[test]
fn a_record_that_a_program_has_changed_is_met_unless_nobody_has_read_it() {
    let directory = Directory::new();
    let (db, _, words) = with_records(&directory);
    for (statement, is_met) in [
        ("UPDATE kv SET value = value + 1", true),
        ("UPDATE kv SET value = 7 WHERE key = 'b'", true),
        ("UPDATE kv SET key = 'z' WHERE key = 'b'", true),
        ("DELETE FROM kv WHERE key = 'b'", true),
        ("INSERT OR IGNORE INTO kv VALUES ('new', 1)", true),
        ("REPLACE INTO kv VALUES ('b', 7)", false),
        ("UPDATE kv SET value = 7 WHERE key = 'a'", false),
    ] {
        words.remove("new").expect("it goes");
        words.insert("b", "1").expect("a record");
        begin(&db, "BEGIN");
        words.insert("b", "program's").expect("a record");
        words.insert("new", "program's").expect("a record");
        let done = db.execute_batch(statement);
        if is_met {
            assert_lost(&db, done, statement);
            assert_eq!(texts(&db, "SELECT group_concat(value) FROM kv"), ["1,1,1"], "{statement}");
            db.execute_batch("ROLLBACK").expect("it ends");
        } else {
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
            db.execute_batch("COMMIT").unwrap_or_else(|error| panic!("{statement}: {error}"));
            words.insert("a", "1").expect("as before");
        }
    }
}

/// Somebody waits.
static WAITS: AtomicBool = AtomicBool::new(false);

fn waits(_: i32) -> bool {
    WAITS.store(true, Ordering::SeqCst);
    thread::yield_now();
    true
}

#[test]
fn a_record_that_a_program_has_locked_is_waited_for_as_long_as_the_connection_waits() {
    let directory = Directory::new();
    let (mut db, env, words) = with_records(&directory);
    for begun in ["", "BEGIN"] {
        db.busy_timeout(Duration::ZERO).expect("a setting");
        let mut holder = env.begin().expect("a transaction");
        holder.get_for_update(&words, "b").expect("nobody else has it");
        db.execute_batch(begun).expect("a transaction");
        let change = "UPDATE kv SET value = value + 1";
        let refused = db.execute_batch(change).expect_err("somebody has a record of these");
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
        assert_eq!(code(&Result::<()>::Err(refused)), Some(5), "no conflict");
        assert_eq!(texts(&db, "SELECT group_concat(value) FROM kv"), ["1,1,1"], "nothing of it is left");
        assert_eq!(db.execute("UPDATE kv SET value = 1 WHERE key < 'b'", []), Ok(1), "others are free");

        WAITS.store(false, Ordering::SeqCst);
        db.busy_handler(Some(waits)).expect("a setting");
        thread::scope(|scope| {
            scope.spawn(move || {
                while !WAITS.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                drop(holder);
            });
            assert_eq!(db.execute(change, []), Ok(3));
        });
        if !begun.is_empty() {
            db.execute_batch("COMMIT").expect("nobody was met");
        }
        assert_eq!(texts(&db, "SELECT group_concat(value) FROM kv"), ["2,2,2"]);
        db.execute_batch("UPDATE kv SET value = 1").expect("as before");
    }
}

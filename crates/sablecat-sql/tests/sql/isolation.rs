//! Less isolation, by `PRAGMA sablecat_isolation`: what conflicts no more, and what does all the same.

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Result};
use sablecat::{Duplicates, MultiMap, Numbered};

use crate::asked::{BUSY_SNAPSHOT, code, number, texts};
use crate::conflicts::{MEETINGS, assert_lost, two};
use crate::directory::Directory;

const SNAPSHOT: &str = "PRAGMA sablecat_isolation = snapshot";

/// Two connections with tables, whose transactions see a snapshot and depend on no `SELECT`.
fn two_loose(directory: &Directory, tables: &str) -> (Connection, Connection) {
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(&format!("PRAGMA synchronous = OFF; {tables}")).expect(tables);
    for db in [&one, &other] {
        assert_eq!(texts(db, SNAPSHOT), ["snapshot"]);
    }
    (one, other)
}

/// Has two transactions begin, the first do `ours`, the second `theirs` and commit, and then the first
/// commit: how that ends.
fn meet((one, other): (&Connection, &Connection), ours: &str, theirs: &str) -> Result<()> {
    for db in [one, other] {
        db.execute_batch("BEGIN").expect("a transaction");
        number(db, "SELECT count(*) FROM sqlite_schema");
    }
    let done = one.execute_batch(ours);
    other.execute_batch(theirs).expect(theirs);
    other.execute_batch("COMMIT").expect("the first to commit");
    let done = done.and_then(|()| one.execute_batch("COMMIT"));
    if !one.is_autocommit() {
        one.execute_batch("ROLLBACK").expect("that helps");
    }
    assert_eq!(texts(one, "PRAGMA integrity_check"), ["ok"], "{ours}; {theirs}");
    assert!(texts(one, "PRAGMA foreign_key_check").is_empty(), "{ours}; {theirs}");
    done
}

fn assert_conflict(done: &Result<()>, what: &str) {
    assert_eq!(code(done), Some(BUSY_SNAPSHOT), "{what}: {done:?}");
}

#[test]
fn it_is_asked_for_by_a_pragma_outside_of_transactions() {
    let directory = Directory::new();
    let (one, other) = (directory.ours(), directory.ours());
    assert_eq!(texts(&one, "PRAGMA sablecat_isolation"), ["serializable"]);
    assert_eq!(texts(&one, "PRAGMA main.sablecat_isolation = 'SnapShot'"), ["snapshot"]);
    assert_eq!(texts(&one, "PRAGMA sablecat_isolation"), ["snapshot"]);
    assert_eq!(texts(&other, "PRAGMA sablecat_isolation"), ["serializable"], "each connection has its own");
    let said = one.execute_batch("PRAGMA sablecat_isolation = dirty").expect_err("there is none").to_string();
    assert!(said.contains("dirty") && said.contains("serializable, snapshot"), "{said}");
    one.execute_batch("BEGIN").expect("a transaction");
    let said =
        one.execute_batch("PRAGMA sablecat_isolation = serializable").expect_err("too late").to_string();
    assert!(said.contains("inside a transaction"), "{said}");
    assert_eq!(texts(&one, "PRAGMA sablecat_isolation"), ["snapshot"]);
    one.execute_batch("COMMIT; PRAGMA sablecat_isolation = serializable").expect("before one");
    // SQLite's own databases know nothing of it, as of any name that is none.
    assert!(texts(&directory.stock(), "PRAGMA sablecat_isolation").is_empty());
}

/// The one thing that is left out: each reads what the other changes.
#[test]
fn what_select_has_read_others_may_change() {
    let tables = "CREATE TABLE doctors (name TEXT PRIMARY KEY, on_call INTEGER);
                  CREATE TABLE log (x);
                  INSERT INTO doctors VALUES ('ann', 1), ('bob', 1);";
    let leave = |name: &str| {
        format!(
            "SELECT count(*) FROM doctors; SELECT count(*) FROM log; INSERT INTO log VALUES (1);
             SELECT * FROM doctors WHERE on_call ORDER BY name;
             SELECT max(rowid) FROM doctors; SELECT on_call FROM doctors WHERE rowid < 3;
             UPDATE doctors SET on_call = 0 WHERE name = '{name}'"
        )
    };
    for (level, is_fine) in [("snapshot", true), ("serializable", false)] {
        let directory = Directory::new();
        let (one, other) = two_loose(&directory, tables);
        for db in [&one, &other] {
            texts(db, &format!("PRAGMA sablecat_isolation = {level}"));
        }
        let done = meet((&one, &other), &leave("ann"), &leave("bob"));
        match is_fine {
            true => done.expect("what SELECT has read does not count"),
            false => assert_conflict(&done, level),
        }
        assert_eq!(number(&one, "SELECT count(*) FROM doctors WHERE on_call"), i64::from(!is_fine));
    }
}

#[test]
fn tables_of_keys_and_values_are_read_so_as_well() {
    let directory = Directory::new();
    let (one, other) = two_loose(&directory, "CREATE TABLE log (x)");
    let env = sablecat_sql::environment(directory.path().join("ours")).expect("the environment");
    let words = env.database("words").expect("a database");
    for key in ["a", "b", "c"] {
        words.insert(key, "1").expect("a record");
    }
    let tags = MultiMap::open(&env, "tags", Duplicates::Sorted).expect("keys with values");
    env.write(|txn| tags.insert(txn, "b", "x")).expect("a value");
    let lines = Numbered::open_renumbered(&env, "lines").expect("numbers");
    env.write(|txn| lines.append(txn, "first")).expect("a line");
    one.execute_batch(
        "CREATE VIRTUAL TABLE words USING sablecat('words', key=text, value=text);
         CREATE VIRTUAL TABLE tags USING sablecat('tags', key=text, value=text);
         CREATE VIRTUAL TABLE lines USING sablecat('lines', value=text)",
    )
    .expect("tables");
    let read = "SELECT * FROM words; SELECT value FROM words WHERE key = 'b'; SELECT count(*) FROM words;
                SELECT * FROM tags; SELECT value FROM tags WHERE key = 'b' AND value = 'x';
                SELECT * FROM lines; SELECT * FROM lines WHERE number = 1";
    for theirs in ["DELETE FROM words WHERE key = 'b'", "INSERT INTO lines (number, value) VALUES (1, 'new')"]
    {
        meet((&one, &other), &format!("{read}; INSERT INTO log VALUES (1)"), theirs)
            .expect("what SELECT has read does not count");
    }
    one.execute_batch(&format!("BEGIN; {read}; INSERT INTO log VALUES (1)")).expect("a transaction");
    env.write(|txn| tags.insert(txn, "b", "y")).expect("a value");
    one.execute_batch("COMMIT").expect("what SELECT has read does not count");
    let change = |to: &str| format!("UPDATE words SET value = '{to}' WHERE key = 'c'");
    assert_conflict(&meet((&one, &other), &change("mine"), &change("theirs")), "one record");
    let copy = "INSERT INTO log SELECT value FROM words WHERE key > 'a'";
    assert_conflict(&meet((&one, &other), copy, &change("new")), copy);
}

#[test]
fn two_that_change_one_row_conflict() {
    for [theirs, ours] in MEETINGS {
        let what = &format!("{theirs}; {ours}");
        let directory = Directory::new();
        let (one, other) = two(&directory);
        for db in [&one, &other] {
            texts(db, SNAPSHOT);
        }
        one.execute_batch("BEGIN").expect("a transaction");
        // What the program rests upon was read by SELECT.
        number(&one, "SELECT sum(a) + (SELECT count(*) FROM t) + (SELECT count(*) FROM keyed) FROM bare");
        one.execute_batch("INSERT INTO log VALUES (1)").expect("nobody is met");
        other.execute_batch(theirs).expect(theirs);
        assert_lost(&one, one.execute_batch(ours), what);
        one.execute_batch("ROLLBACK").expect("that helps");
        assert_eq!(texts(&one, "PRAGMA integrity_check"), ["ok"], "{what}");
    }
}

/// What statements that write make sure of is as sure as ever: of each pair the second to commit loses.
#[test]
fn whatever_holds_between_rows_holds() {
    let tables = "PRAGMA foreign_keys = ON;
        CREATE TABLE parent (id INTEGER PRIMARY KEY, code TEXT UNIQUE);
        CREATE TABLE child (id INTEGER PRIMARY KEY, of INTEGER REFERENCES parent,
                            code TEXT REFERENCES parent (code) ON DELETE CASCADE);
        CREATE TABLE late (of INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
        CREATE TABLE pair (a INTEGER, b INTEGER, UNIQUE (a, b));
        CREATE TABLE part (x INTEGER, y INTEGER);
        CREATE UNIQUE INDEX part_by_x ON part (x) WHERE y > 0;
        CREATE TABLE room (id INTEGER PRIMARY KEY, day INTEGER);
        CREATE TRIGGER one_a_day BEFORE INSERT ON room
          WHEN (SELECT count(*) FROM room WHERE day = new.day) > 0
          BEGIN SELECT raise(ABORT, 'taken'); END;
        CREATE TABLE plain (x INTEGER, y INTEGER);
        INSERT INTO parent VALUES (1, 'p'), (2, 'q'), (3, 'r');
        INSERT INTO plain VALUES (1, 1), (2, 2);
        INSERT INTO part VALUES (7, 0), (7, 0);";
    let meetings = [
        ("INSERT INTO child (of) VALUES (1)", "DELETE FROM parent WHERE id = 1"),
        ("DELETE FROM parent WHERE id = 1", "INSERT INTO child (of) VALUES (1)"),
        ("INSERT INTO child (code) VALUES ('q')", "DELETE FROM parent WHERE id = 2"),
        ("DELETE FROM parent WHERE id = 2", "INSERT INTO child (code) VALUES ('q')"),
        ("UPDATE parent SET code = 'z' WHERE id = 3", "INSERT INTO child (code) VALUES ('r')"),
        ("INSERT INTO late VALUES (3)", "DELETE FROM parent WHERE id = 3"),
        ("DELETE FROM parent WHERE id = 3", "INSERT INTO late VALUES (3)"),
        ("INSERT INTO pair VALUES (1, 1)", "INSERT INTO pair VALUES (1, 1)"),
        ("INSERT INTO pair VALUES (1, 2)", "INSERT INTO pair SELECT 1, 2"),
        ("UPDATE part SET y = 1 WHERE rowid = 1", "UPDATE part SET y = 1 WHERE rowid = 2"),
        ("INSERT INTO room VALUES (1, 5)", "INSERT INTO room VALUES (2, 5)"),
        ("CREATE INDEX plain_by_x ON plain (x)", "INSERT INTO plain VALUES (3, 3)"),
        ("INSERT INTO plain VALUES (3, 3)", "CREATE INDEX plain_by_x ON plain (x)"),
        ("CREATE UNIQUE INDEX plain_by_y ON plain (y)", "INSERT INTO plain VALUES (3, 1)"),
        ("ALTER TABLE plain DROP COLUMN y", "INSERT INTO plain (x, y) VALUES (3, 3)"),
        ("INSERT INTO plain SELECT x + 10, y FROM plain", "UPDATE plain SET y = 9 WHERE x = 1"),
        ("UPDATE plain SET y = (SELECT count(*) FROM part)", "INSERT INTO part VALUES (8, 0)"),
        ("DELETE FROM plain WHERE x NOT IN (SELECT x FROM part)", "INSERT INTO part VALUES (8, 0)"),
    ];
    for (ours, theirs) in meetings {
        let directory = Directory::new();
        let (one, other) = two_loose(&directory, tables);
        other.execute_batch("PRAGMA foreign_keys = ON").expect("references are looked at");
        assert_conflict(&meet((&one, &other), ours, theirs), &format!("{ours}; {theirs}"));
    }
}

/// What a module reads of its own tables to write to them counts, wherever it looks, also at the commit.
#[test]
fn what_is_behind_virtual_tables_goes_together() {
    let tables = "CREATE VIRTUAL TABLE words USING fts5(x);
        CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1, y0, y1);
        INSERT INTO words VALUES ('one two'), ('two three');
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
        INSERT INTO boxes SELECT i, i, i + 1, i, i + 1 FROM n;";
    let look =
        "SELECT count(*) FROM words WHERE words MATCH 'two'; SELECT count(*) FROM boxes WHERE x0 > 10;";
    let directory = Directory::new();
    let (one, other) = two_loose(&directory, tables);
    for turn in 0..30 {
        let ours = format!(
            "{look} INSERT INTO words VALUES ('four two {turn}'); DELETE FROM boxes WHERE id = {};
             INSERT INTO boxes VALUES ({}, -50, 400, 0, 1)",
            turn + 1,
            1000 + turn
        );
        let theirs = format!(
            "{look} INSERT INTO words VALUES ('five two {turn}'); DELETE FROM boxes WHERE id BETWEEN {} AND \
             {}",
            100 + 5 * turn,
            104 + 5 * turn
        );
        let _ = meet((&one, &other), &ours, &theirs);
        for db in [&one, &other] {
            db.execute_batch("INSERT INTO words (words) VALUES ('integrity-check')")
                .expect("words are indexed");
            assert_eq!(texts(db, "SELECT rtreecheck('boxes')"), ["ok"], "{turn}");
            let count = number(db, "SELECT count(*) FROM boxes WHERE x0 > -1000 AND x1 < 1000");
            assert_eq!(count, number(db, "SELECT count(*) FROM boxes_rowid"), "{turn}");
        }
    }
}

/// A handle of a blob that was opened to read may be a module's, and be read by as it writes.
#[test]
fn what_was_read_by_a_handle_of_a_blob_counts() {
    let directory = Directory::new();
    let tables = "CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB); CREATE TABLE log (x);
                  INSERT INTO t VALUES (1, x'0102'), (2, x'0304')";
    let (one, other) = two_loose(&directory, tables);
    one.execute_batch("BEGIN; INSERT INTO log VALUES (1)").expect("a transaction");
    let mut blob = one.blob_open("main", "t", "b", 1, true).expect("a blob");
    blob.reopen(2).expect("the other row");
    let mut byte = [0];
    blob.read_at_exact(&mut byte, 0).expect("a byte");
    drop(blob);
    other.execute_batch("UPDATE t SET b = x'0506' WHERE id = 2").expect("nobody is in its way");
    assert_conflict(&one.execute_batch("COMMIT"), "the row that was read");
}

/// What runs within a statement may be part of what that does, even if that only reads itself.
#[test]
fn what_was_read_within_another_statement_counts() {
    let directory = Directory::new();
    let (one, other) =
        two_loose(&directory, "CREATE TABLE t (x); CREATE TABLE log (x); INSERT INTO t VALUES (1)");
    one.create_scalar_function("look", 0, FunctionFlags::SQLITE_UTF8, |context| {
        // SAFETY: it is used in here alone.
        let db = unsafe { context.get_connection()? };
        db.query_row("SELECT sum(x) FROM t", [], |row| row.get::<_, i64>(0))
    })
    .expect("a function");
    let theirs = "UPDATE t SET x = x + 1";
    meet((&one, &other), "SELECT sum(x) FROM t; INSERT INTO log VALUES (1)", theirs).expect("a SELECT");
    assert_conflict(&meet((&one, &other), "SELECT look(); INSERT INTO log VALUES (1)", theirs), "one within");
}

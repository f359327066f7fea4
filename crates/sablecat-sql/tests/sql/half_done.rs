//! Statements that meet a conflict when they are half done: nothing of them is left, in their database and
//! beside it, and what else the connection has under way goes on.

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Result, ffi};

use crate::asked::{BUSY_SNAPSHOT, code, number, texts};
use crate::directory::Directory;

const TABLES: &str = "PRAGMA synchronous = OFF;
    CREATE TABLE met (id INTEGER PRIMARY KEY, a INTEGER);
    INSERT INTO met VALUES (1, 1), (2, 2), (3, 3);
    CREATE TABLE many (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER);
    CREATE INDEX many_by_a ON many (a);
    CREATE INDEX many_by_b ON many (b, a);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
    INSERT INTO many SELECT i, i, 1000 - i FROM n;
    CREATE TABLE log (x);
    CREATE TABLE still (x);";
const MEETS: &str = "UPDATE met SET a = 100 WHERE id = 2";

/// Two connections to a database with these tables, and what else is said.
fn two(directory: &Directory, more: &str) -> (Connection, Connection) {
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(TABLES).expect("tables");
    one.execute_batch(more).expect(more);
    (one, other)
}

/// Begins, in a state of before what the other does.
fn begin(db: &Connection, other: &Connection, theirs: &str) {
    db.execute_batch("BEGIN").expect("a transaction");
    number(db, "SELECT count(*) FROM still");
    other.execute_batch(theirs).expect(theirs);
}

fn assert_met(done: &Result<()>, what: &str) {
    assert_eq!(code(done), Some(BUSY_SNAPSHOT), "{what}: {done:?}");
}

/// All that there is in tables, and in their indices.
fn contents(db: &Connection) -> Vec<Vec<String>> {
    [
        "SELECT id || ' ' || a FROM met",
        "SELECT id || ' ' || a || ' ' || b FROM many NOT INDEXED",
        "SELECT a || '' FROM many INDEXED BY many_by_a WHERE a > -10000 ORDER BY a",
        "SELECT b || ' ' || a FROM many INDEXED BY many_by_b WHERE b > -10000 ORDER BY b, a",
        "SELECT x || '' FROM log",
    ]
    .map(|sql| texts(db, sql))
    .to_vec()
}

#[test]
fn nothing_is_left_of_a_statement_of_whatever_kind_and_of_no_count() {
    let directory = Directory::new();
    let (one, other) = two(
        &directory,
        "CREATE TABLE pairs (x, y, z, PRIMARY KEY (x, y)) WITHOUT ROWID;
         CREATE UNIQUE INDEX pairs_by_z ON pairs (z);
         INSERT INTO pairs SELECT id % 7, id, id FROM many;
         CREATE TABLE chained (id INTEGER PRIMARY KEY, next REFERENCES chained DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO chained VALUES (1, NULL), (2, 1);
         CREATE TRIGGER chains AFTER INSERT ON chained BEGIN UPDATE met SET a = a + 1 WHERE id = 2; END;
         CREATE VIEW seen AS SELECT * FROM met;
         CREATE TRIGGER sees INSTEAD OF UPDATE ON seen BEGIN
           INSERT INTO log VALUES (old.id);
           UPDATE met SET a = new.a WHERE id = old.id;
         END;
         PRAGMA foreign_keys = ON",
    );
    let theirs = "UPDATE met SET a = 100 WHERE id = 2; UPDATE many SET a = 5000 WHERE id = 250;
                  DELETE FROM pairs WHERE y = 250";
    for statement in [
        "UPDATE many SET a = a + 1, b = b - 1 RETURNING id",
        "UPDATE OR REPLACE many SET a = a + 1",
        "UPDATE OR ROLLBACK many SET a = a + 1",
        "REPLACE INTO many SELECT id + 100, a, b FROM many WHERE id < 200",
        "INSERT INTO many SELECT id + 1000, a, b FROM many WHERE true ON CONFLICT DO NOTHING RETURNING \
         (SELECT 1)",
        "INSERT INTO many SELECT id, 1, 1 FROM many WHERE true ON CONFLICT (id) DO UPDATE SET a = many.a + 1",
        "DELETE FROM many WHERE b < 900 RETURNING a",
        "DELETE FROM many",
        "DELETE FROM pairs",
        "DELETE FROM pairs WHERE z > 3",
        "UPDATE pairs SET x = x + 10",
        "UPDATE OR IGNORE pairs SET z = z + 1",
        "REPLACE INTO pairs SELECT x, y + 1, z + 1 FROM pairs",
        "INSERT INTO chained VALUES (10, 11)",
        "INSERT INTO chained SELECT id + 20, id + 19 FROM chained",
        "UPDATE seen SET a = a + 1",
        "WITH w AS (SELECT id FROM many) UPDATE many SET a = -1 FROM w WHERE w.id = many.id",
    ] {
        begin(&one, &other, theirs);
        one.execute_batch("UPDATE many SET a = -id WHERE id < 20; INSERT INTO log VALUES ('before')")
            .expect("nobody is met");
        let more = ["SELECT x || ' ' || y || ' ' || z FROM pairs", "SELECT z || '' FROM pairs ORDER BY z"];
        let all = |db| {
            [
                contents(db),
                more.map(|sql| texts(db, sql)).to_vec(),
                vec![texts(db, "SELECT id || '' FROM chained")],
            ]
        };
        let before = all(&one);
        let total = one.total_changes();
        let done = one.execute_batch(statement);
        // What reads nothing of what the other has changed meets nothing.
        if done.is_ok() {
            assert!(statement.contains("DO NOTHING"), "{statement}");
        } else {
            assert_met(&done, statement);
            assert_eq!(all(&one), before, "{statement}");
            assert_eq!(one.changes(), 0, "{statement}");
            // What triggers have changed before counts, as in SQLite whenever a statement is undone.
            let triggered = i64::from(statement.contains("seen"));
            assert_eq!(one.total_changes() as i64 - total as i64, triggered, "{statement}");
            assert_met(&one.execute_batch("INSERT INTO log VALUES (1)"), statement);
        }
        let committed = one.execute_batch("COMMIT");
        assert!(committed.is_err() || statement.contains("DO NOTHING"), "{statement}");
        if !one.is_autocommit() {
            one.execute_batch("ROLLBACK").expect("it ends");
        }
        assert_eq!(texts(&one, "PRAGMA integrity_check"), ["ok"], "{statement}");
        other
            .execute_batch(
                "UPDATE met SET a = id; DELETE FROM many; DELETE FROM log;
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
                 INSERT INTO many SELECT i, i, 1000 - i FROM n;
                 REPLACE INTO pairs SELECT id % 7, id, id FROM many",
            )
            .expect("as before");
    }
}

#[test]
fn what_else_the_connection_reads_goes_on_as_before() {
    let directory = Directory::new();
    let (one, other) = two(&directory, "");
    for (statement, select) in [
        ("UPDATE many SET a = a + 10000", "SELECT a FROM many ORDER BY id"),
        ("UPDATE many SET a = a + 10000", "SELECT a FROM many NOT INDEXED ORDER BY id DESC"),
        ("UPDATE many SET a = a + 10000", "SELECT a FROM many INDEXED BY many_by_a WHERE a > 0 ORDER BY a"),
        (
            "UPDATE many SET a = a + 10000",
            "SELECT a FROM many INDEXED BY many_by_b WHERE b > 0 ORDER BY b DESC",
        ),
        ("DELETE FROM many WHERE id <> 1000", "SELECT a FROM many ORDER BY id"),
        ("DELETE FROM many", "SELECT a FROM many ORDER BY id"),
        (
            "INSERT INTO many SELECT id + 300, a, b FROM many ORDER BY id; UPDATE many SET a = 0",
            "SELECT a FROM many ORDER BY id",
        ),
    ] {
        for after in [1, 2, 40, 150, 299] {
            let what = &format!("{statement}; {select}; {after}");
            begin(&one, &other, "UPDATE many SET b = b + 10000 WHERE id = 200");
            let expected = texts_of_numbers(&one, select);
            {
                let mut reads = one.prepare(select).expect(select);
                let mut rows = reads.query([]).expect("it begins");
                let mut found = Vec::new();
                while found.len() < after {
                    let row = rows.next().expect("a row").expect("there are so many");
                    found.push(row.get::<_, i64>(0).expect("a number"));
                }
                let first = statement.split(';').next_back().expect("one");
                assert_met(&one.execute_batch(first), what);
                while let Some(row) = rows.next().expect("it goes on") {
                    found.push(row.get::<_, i64>(0).expect("a number"));
                }
                assert_eq!(found, expected, "{what}");
            }
            one.execute_batch("ROLLBACK").expect("it ends");
            other.execute_batch("UPDATE many SET b = 1000 - id").expect("as before");
        }
    }
}

fn texts_of_numbers(db: &Connection, sql: &str) -> Vec<i64> {
    let mut statement = db.prepare(sql).expect(sql);
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_>>().expect("numbers")
}

/// A statement that is stepped by what else there is: a function steps it once each time.
struct Stepped(*mut ffi::sqlite3_stmt);

// SAFETY: one thread has it and its connection.
unsafe impl Send for Stepped {}

impl Stepped {
    fn new(db: &Connection, sql: &str) -> Stepped {
        let sql = CString::new(sql).expect("text");
        let mut statement = std::ptr::null_mut();
        // SAFETY: a connection, a text that ends, and a place for the statement.
        let code = unsafe {
            ffi::sqlite3_prepare_v2(db.handle(), sql.as_ptr(), -1, &mut statement, std::ptr::null_mut())
        };
        assert_eq!(code, ffi::SQLITE_OK);
        Stepped(statement)
    }

    fn reset(&self) {
        // SAFETY: a statement that is not finalized.
        unsafe { ffi::sqlite3_reset(self.0) };
    }

    /// The number in the next row, if there is one.
    fn step(&self) -> Option<i64> {
        // SAFETY: a statement that is not finalized, and stands at a row when it is asked for a number.
        unsafe {
            match ffi::sqlite3_step(self.0) {
                ffi::SQLITE_ROW => Some(ffi::sqlite3_column_int64(self.0, 0)),
                code => {
                    assert_eq!(code, ffi::SQLITE_DONE);
                    None
                }
            }
        }
    }

    fn finalize(&self) {
        // SAFETY: done once.
        unsafe { ffi::sqlite3_finalize(self.0) };
    }
}

#[test]
fn what_is_read_within_the_statement_reads_on_in_what_is_left() {
    let directory = Directory::new();
    let (one, other) = two(
        &directory,
        "CREATE TRIGGER logs AFTER INSERT ON log BEGIN
           DELETE FROM many WHERE id BETWEEN 8 AND 200;
           UPDATE met SET a = a + step() WHERE id = 2;
         END",
    );
    let reads = Arc::new(Mutex::new(Stepped::new(&one, "SELECT b FROM many NOT INDEXED")));
    let within = Arc::clone(&reads);
    one.create_scalar_function("step", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        let reads = within.lock().expect("nobody panics");
        reads.reset();
        assert_eq!((0..7).filter_map(|_| reads.step()).count(), 7);
        Ok(0)
    })
    .expect("a function");
    begin(&one, &other, MEETS);
    let step = || reads.lock().expect("nobody panics").step();
    assert_eq!(step(), Some(999));
    let statement = "INSERT INTO log VALUES (1)";
    assert_met(&one.execute_batch(statement), statement);
    for expected in 8..=300 {
        assert_eq!(step(), Some(1000 - expected));
    }
    assert_eq!(step(), None);
    reads.lock().expect("nobody panics").finalize();
    one.execute_batch("ROLLBACK").expect("it ends");
}

#[test]
fn a_statement_that_writes_beside_its_database_leaves_nothing_there() {
    for (logged, triggers) in [("temp.logged", "TEMP"), ("file.logged", "TEMP"), ("second.logged", "TEMP")] {
        let directory = Directory::new();
        let (one, other) = two(&directory, "");
        one.execute_batch(&format!(
            "ATTACH '{}' AS file; ATTACH '{}' AS second;
             CREATE TABLE {logged} (x);
             CREATE {triggers} TRIGGER logs AFTER INSERT ON main.log BEGIN
               INSERT INTO logged VALUES (new.x);
               UPDATE met SET a = a + 1 WHERE id = 2;
             END",
            directory.path().join("beside.db").display(),
            sablecat_sql::uri(directory.path().join("second")),
        ))
        .expect("a trigger");
        begin(&one, &other, MEETS);
        let done = one.execute_batch("INSERT INTO main.log VALUES (1)");
        if done.is_err() {
            assert_met(&done, logged);
            assert_eq!(number(&one, &format!("SELECT count(*) FROM {logged}")), 0, "{logged}");
            assert_eq!(number(&one, "SELECT count(*) FROM main.log"), 0, "{logged}");
        }
        assert_met(&one.execute_batch("COMMIT"), logged);
        assert!(one.is_autocommit(), "{logged}");
        assert_eq!(number(&one, "SELECT count(*) FROM main.log"), 0, "{logged}");
    }
}

#[test]
fn no_database_of_a_transaction_commits_when_a_statement_has_met_a_conflict_in_one() {
    for reversed in [false, true] {
        let directory = Directory::new();
        let (own, other) = two(&directory, "");
        let second = sablecat_sql::uri(directory.path().join("second"));
        let one = match reversed {
            false => {
                let one = Connection::open(&second).expect("a database");
                let ours = sablecat_sql::uri(directory.path().join("ours"));
                one.execute_batch(&format!("ATTACH '{ours}' AS ours")).expect("both");
                one
            }
            true => {
                own.execute_batch(&format!("ATTACH '{second}' AS second")).expect("both");
                own
            }
        };
        let beside = directory.path().join("beside.db");
        one.execute_batch(&format!("ATTACH '{}' AS file; CREATE TABLE file.f (x)", beside.display()))
            .expect("a file");
        let name = if reversed { "second" } else { "main" };
        one.execute_batch(&format!("CREATE TABLE {name}.s (x)")).expect("a table");
        begin(&one, &other, MEETS);
        one.execute_batch("INSERT INTO s VALUES (1); INSERT INTO f VALUES (1)").expect("nobody is met");
        assert_met(&one.execute_batch("UPDATE met SET a = a + 1"), "all rows");
        assert_met(&one.execute_batch("COMMIT"), "both");
        assert!(one.is_autocommit());
        assert_eq!(number(&one, "SELECT (SELECT count(*) FROM s) + (SELECT count(*) FROM f)"), 0, "{name}");
    }
}

#[test]
fn a_statement_by_itself_runs_again_when_others_commit_within_it() {
    let directory = Directory::new();
    let (one, other) = two(&directory, "");
    let runs = Arc::new(AtomicUsize::new(0));
    let (count, other) = (Arc::clone(&runs), Mutex::new(other));
    one.create_scalar_function("meddle", 1, FunctionFlags::SQLITE_UTF8, move |context| {
        if context.get::<i64>(0)? == 2 && count.fetch_add(1, Ordering::Relaxed) < 2 {
            let other = other.lock().expect("nobody panics");
            other.execute_batch("UPDATE met SET a = a + 100 WHERE id > 1")?;
        }
        Ok(0)
    })
    .expect("a function");
    assert_eq!(one.execute("UPDATE met SET a = a + 1 + meddle(id)", []), Ok(3));
    assert_eq!(texts(&one, "SELECT a || '' FROM met"), ["2", "203", "204"]);
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    // In a transaction it says so, at the end if not before, and nothing is left.
    for begun in ["BEGIN", "SAVEPOINT s"] {
        runs.store(0, Ordering::Relaxed);
        one.execute_batch(begun).expect(begun);
        let before = texts(&one, "SELECT a || '' FROM met");
        let done = one.execute_batch("UPDATE met SET a = a + 1 + meddle(id)");
        if done.is_err() {
            assert_met(&done, begun);
            assert_eq!(texts(&one, "SELECT a || '' FROM met"), before);
        }
        assert_met(&one.execute_batch("COMMIT"), begun);
        assert!(one.is_autocommit());
    }
}

#[test]
fn a_search_by_words_or_places_is_whole_after_a_conflict() {
    let more = "CREATE VIRTUAL TABLE words USING fts5(w);
         INSERT INTO words(rowid, w) SELECT id, 'word number ' || id FROM many;
         CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);
         INSERT INTO places SELECT id, id, id + 1 FROM many;
         CREATE TRIGGER both AFTER INSERT ON log BEGIN
           UPDATE many SET a = 0 WHERE id = new.x;
           UPDATE words SET w = 'another ' || new.x WHERE rowid = new.x;
           UPDATE places SET x1 = x1 + 5 WHERE id = new.x;
           UPDATE met SET a = a + 1 WHERE id = 2;
         END";
    for theirs in [
        MEETS,
        "UPDATE words SET w = 'theirs' WHERE rowid = 7",
        "UPDATE places SET x1 = 1000 WHERE id = 7",
        "DELETE FROM words WHERE rowid > 5",
        "DELETE FROM places WHERE id > 5",
    ] {
        for statement in [
            "INSERT INTO log VALUES (7)",
            "UPDATE words SET w = 'mine' WHERE rowid < 10",
            "UPDATE places SET x1 = x1 + 1 WHERE id < 10",
            "DELETE FROM words WHERE rowid < 10",
            "DELETE FROM places WHERE id < 10",
            "INSERT INTO words(rowid, w) SELECT id + 1000, 'more' FROM many",
            "INSERT INTO words(words) VALUES ('rebuild')",
            "INSERT INTO words(words) VALUES ('optimize')",
        ] {
            let what = &format!("{theirs}; {statement}");
            let directory = Directory::new();
            let (one, other) = two(&directory, more);
            begin(&one, &other, theirs);
            one.execute_batch("UPDATE many SET a = 1 WHERE id = 3").expect("nobody is met");
            let before = contents(&one);
            let done = one.execute_batch(statement);
            if done.is_err() {
                assert_met(&done, what);
                assert_eq!(contents(&one), before, "{what}");
                assert_met(&one.execute_batch("COMMIT"), what);
            } else if let Err(error) = one.execute_batch("COMMIT") {
                assert_met(&Err(error), what);
            }
            assert!(one.is_autocommit(), "{what}");
            one.execute_batch("INSERT INTO words(words) VALUES ('integrity-check')").expect(what);
            assert_eq!(texts(&one, "SELECT rtreecheck('places')"), ["ok"], "{what}");
            assert_eq!(texts(&one, "PRAGMA integrity_check"), ["ok"], "{what}");
        }
    }
}

#[test]
fn a_statement_that_was_stopped_by_the_program_ends_its_transaction() {
    let directory = Directory::new();
    let (one, other) = two(&directory, "");
    let handle = Arc::new(one.get_interrupt_handle());
    one.create_scalar_function("stop", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        handle.interrupt();
        Ok(0)
    })
    .expect("a function");
    begin(&one, &other, MEETS);
    one.execute_batch("UPDATE met SET a = 5 WHERE id = 1").expect("nobody is met");
    let stopped = one.execute_batch("UPDATE many SET a = stop()");
    assert_eq!(code(&stopped), Some(ffi::SQLITE_INTERRUPT), "{stopped:?}");
    assert!(one.is_autocommit());
    assert_eq!(texts(&one, "SELECT a || '' FROM met"), ["1", "100", "3"]);
    one.execute_batch("BEGIN; UPDATE met SET a = a + 1; COMMIT").expect("the next one meets nobody");
}

#[test]
fn a_blob_that_is_open_writes_nothing_more() {
    let directory = Directory::new();
    let (one, other) = two(
        &directory,
        "CREATE TABLE blobs (id INTEGER PRIMARY KEY, b BLOB); INSERT INTO blobs VALUES (1, zeroblob(10)), \
         (2, zeroblob(10))",
    );
    begin(&one, &other, MEETS);
    {
        use std::io::{Read, Write};
        let mut blob = one.blob_open(rusqlite::MAIN_DB, "blobs", "b", 1, false).expect("a blob");
        assert_eq!(blob.write(b"1234").expect("nobody is met"), 4);
        assert_met(&one.execute_batch("UPDATE met SET a = a + 1"), "a blob is open");
        let mut rest = [0; 2];
        blob.read_exact(&mut rest).expect("it is read on");
        assert!(blob.write_all(b"56").is_err());
    }
    assert_eq!(texts(&one, "SELECT hex(b) FROM blobs")[0], "31323334000000000000");
    assert_met(&one.execute_batch("COMMIT"), "a blob was open");
}

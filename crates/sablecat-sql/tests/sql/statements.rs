//! Statements on a database of sablecat, as programs make them.

use rusqlite::{Connection, ErrorCode, params};

use crate::asked::{number, texts};
use crate::directory::Directory;

const PEOPLE: &str = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, born INTEGER);
    CREATE INDEX people_by_name ON people (name, born DESC);
    INSERT INTO people (name, born) VALUES ('Grace', 1906), ('ada', 1815), ('Ada', 1990), ('joan', 1933);";

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(PEOPLE).expect("a table");
    db.execute_batch("PRAGMA user_version = 7").expect("a number");
    drop(db);
    // The path alone says whose it is.
    let db = Connection::open(directory.path().join("ours")).expect("it is there");
    assert_eq!(number(&db, "SELECT count(*) FROM people"), 4);
    assert_eq!(number(&db, "PRAGMA user_version"), 7);
    let by_name = "SELECT name || born FROM people INDEXED BY people_by_name WHERE name >= 'a' ORDER BY \
                   name, born DESC";
    assert_eq!(texts(&db, by_name), ["Ada1990", "ada1815", "Grace1906", "joan1933"]);
    assert_eq!(texts(&db, "PRAGMA integrity_check"), ["ok"]);
    assert_eq!(texts(&db, "PRAGMA journal_mode = wal"), ["wal"]);
}

#[test]
fn a_file_stays_sqlites_and_both_may_be_attached() {
    let directory = Directory::new();
    let db = directory.stock();
    db.execute_batch(PEOPLE).expect("a table");
    let header = std::fs::read(directory.path().join("stock.db")).expect("a file");
    assert!(header.starts_with(b"SQLite format 3\0"));
    let uri = format!("file:{}?engine=sablecat", directory.path().join("ours").display());
    db.execute("ATTACH ?1 AS ours", [uri]).expect("both");
    db.execute_batch(
        "CREATE TABLE ours.people (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, born INTEGER);
         INSERT INTO ours.people SELECT * FROM main.people;
         CREATE TABLE main.copies (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, born INTEGER);
         INSERT INTO main.copies SELECT * FROM ours.people;",
    )
    .expect("copies");
    let difference = "SELECT count(*) FROM (SELECT * FROM main.people EXCEPT SELECT * FROM main.copies)";
    assert_eq!((number(&db, difference), number(&db, "SELECT count(*) FROM main.copies")), (0, 4));
}

#[test]
fn vacuum_into_adds_nothing_to_an_environment_that_is_there() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(PEOPLE).expect("a table");
    let there = sablecat_sql::uri(directory.path().join("there"));
    Connection::open(&there).and_then(|db| db.execute_batch("CREATE TABLE t (a)")).expect("another");
    for into in [there.clone(), directory.path().join("there").display().to_string()] {
        let refused = db.execute("VACUUM INTO ?1", [into]).expect_err("it is there");
        assert_eq!(refused.to_string(), "output file already exists");
    }
    let there = Connection::open(&there).expect("it is there");
    assert_eq!(texts(&there, "SELECT name FROM sqlite_schema"), ["t"]);
    let new = sablecat_sql::uri(directory.path().join("new"));
    db.execute("VACUUM INTO ?1", [&new]).expect("a new one");
    let new = Connection::open(new).expect("it was made");
    assert_eq!(number(&new, "SELECT count(*) FROM people"), 4);
}

#[test]
fn savepoints_and_rollbacks_undo_records_tables_and_numbers() {
    let directory = Directory::new();
    let mut db = directory.ours();
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE)").expect("a table");
    let txn = db.transaction().expect("a transaction");
    txn.execute_batch(
        "INSERT INTO t VALUES (1, 'one');
         SAVEPOINT s;
         INSERT INTO t VALUES (2, 'two');
         CREATE TABLE u (x);
         INSERT INTO u VALUES (1);
         ROLLBACK TO s;
         INSERT INTO t VALUES (3, 'three');
         CREATE TABLE v (x);
         RELEASE s;",
    )
    .expect("a savepoint");
    // One row of three breaks the constraint, and none is there.
    assert!(txn.execute("INSERT INTO t VALUES (4, 'four'), (5, 'one'), (6, 'six')", []).is_err());
    txn.commit().expect("a commit");
    assert_eq!(texts(&db, "SELECT b FROM t ORDER BY a"), ["one", "three"]);
    assert_eq!(texts(&db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"), ["t", "v"]);
    let txn = db.transaction().expect("a transaction");
    txn.execute_batch("DROP TABLE v; DELETE FROM t; PRAGMA user_version = 9").expect("changes");
    txn.rollback().expect("a rollback");
    assert_eq!((number(&db, "SELECT count(*) FROM t"), number(&db, "PRAGMA user_version")), (2, 0));
    assert_eq!(number(&db, "SELECT count(*) FROM v"), 0);
}

#[test]
fn rows_are_removed_and_changed_while_others_read_them() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO t SELECT i, i % 7 FROM n;
         CREATE INDEX t_b ON t (b);",
    )
    .expect("a table");
    let mut statement = db.prepare("SELECT a FROM t ORDER BY a").expect("a statement");
    let mut rows = statement.query([]).expect("rows");
    let mut seen = 0;
    while let Some(row) = rows.next().expect("a row") {
        let a: i64 = row.get(0).expect("a number");
        db.execute("DELETE FROM t WHERE a = ?1 OR a = ?2", [a, a + 1]).expect("it goes");
        seen += 1;
    }
    assert_eq!(seen, 500);
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 0);
    drop(rows);
    drop(statement);
    db.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90)
         INSERT INTO t SELECT i, i % 3 FROM n",
    )
    .expect("rows");
    db.execute("UPDATE t SET b = b + 10 WHERE b < 2", []).expect("an update of what it is found by");
    db.execute("UPDATE t SET a = a + 1000", []).expect("an update of keys");
    db.execute("DELETE FROM t WHERE b = 10", []).expect("a removal by index");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 60);
    assert_eq!(texts(&db, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn large_values_and_open_blobs() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").expect("a table");
    db.execute("INSERT INTO t VALUES (1, zeroblob(300000))", []).expect("a blob");
    let large = vec![7u8; 2_000_000];
    db.execute("INSERT INTO t VALUES (2, ?1)", params![large]).expect("a blob");
    let found: Vec<u8> = db.query_row("SELECT b FROM t WHERE a = 2", [], |row| row.get(0)).expect("a blob");
    assert!(found == large);
    assert_eq!(number(&db, "SELECT length(b) FROM t WHERE a = 1"), 300_000);
    let long = "x".repeat(70_000);
    db.execute_batch("CREATE TABLE u (s TEXT UNIQUE)").expect("a table");
    let refused = db.execute("INSERT INTO u VALUES (?1)", [long]).expect_err("it is too long for a key");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::TooBig));
    assert!(refused.to_string().contains("65536"), "{refused}");
}

#[test]
fn keys_and_values_are_kept_beside_tables_whoever_opens_first() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = sablecat_sql::environment(directory.path().join("ours")).expect("it is open already");
    env.database("notes").expect("a database").insert("a", "b").expect("a record");
    db.execute_batch(PEOPLE).expect("a table");
    drop(db);
    // Of the connections none is left; the handle stays good, and the next joins it.
    let db = directory.ours();
    assert_eq!(number(&db, "SELECT count(*) FROM people"), 4);
    assert_eq!(env.database("notes").expect("it").get("a").expect("a record").as_deref(), Some(&b"b"[..]));
    drop(env);
    db.execute("DELETE FROM people", []).expect("it goes on");
    assert_eq!(texts(&db, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn what_is_not_there_is_not_made_up() {
    let directory = Directory::new();
    let path = directory.path().join("nothing");
    assert!(sablecat_sql::environment(&path).is_err());
    let refused = Connection::open(format!("file:{}?engine=oracle", path.display())).expect_err("no engine");
    assert!(refused.to_string().contains("oracle"), "{refused}");
    let read_only = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    assert!(Connection::open_with_flags(sablecat_sql::uri(&path), read_only).is_err());
    assert!(!path.exists());
    directory.ours().execute_batch(PEOPLE).expect("a table");
    let ours = directory.path().join("ours");
    let db = Connection::open_with_flags(&ours, read_only).expect("it is there by now");
    assert_eq!(number(&db, "SELECT count(*) FROM people"), 4);
    let refused = db.execute("DELETE FROM people", []).expect_err("it is only to be read");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly));
}

#[test]
fn a_collation_of_the_programs_own_is_refused_where_an_index_would_need_it() {
    let directory = Directory::new();
    let db = directory.ours();
    db.create_collation("backwards", |a: &str, b: &str| b.cmp(a)).expect("a collation");
    db.execute_batch("CREATE TABLE t (a TEXT COLLATE backwards); INSERT INTO t VALUES ('a'), ('b')")
        .expect("a table that sorts nothing");
    assert_eq!(texts(&db, "SELECT a FROM t ORDER BY a"), ["b", "a"]);
    db.execute_batch("CREATE INDEX t_a ON t (a)").expect_err("its keys cannot be written");
    assert_eq!(number(&db, "SELECT count(*) FROM sqlite_schema"), 1);
}

#[test]
fn what_sqlite_builds_on_its_tree_works() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(
        "CREATE VIRTUAL TABLE texts USING fts5(body);
         INSERT INTO texts VALUES ('the quick brown fox'), ('jumps over'), ('the lazy dog');
         INSERT INTO texts SELECT 'row ' || value FROM json_each('[1, 2, 3]');
         DELETE FROM texts WHERE rowid = 5;
         INSERT INTO texts(texts) VALUES ('optimize');
         INSERT INTO texts(texts) VALUES ('integrity-check');
         CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1, y0, y1);
         INSERT INTO boxes VALUES (1, 0, 1, 0, 1), (2, 5, 6, 5, 6);
         CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b TEXT, c AS (b || '!'));
         CREATE INDEX t_c ON t (c DESC);
         INSERT INTO t (b) VALUES ('x'), ('y');",
    )
    .expect("tables of all kinds");
    assert_eq!(
        texts(&db, "SELECT body FROM texts('the') ORDER BY rowid"),
        ["the quick brown fox", "the lazy dog"]
    );
    assert_eq!(number(&db, "SELECT id FROM boxes WHERE x0 > 2"), 2);
    // As Rust programs have it, and those in C do not.
    assert_eq!(number(&db, "PRAGMA foreign_keys"), 1);
    let copy = directory.path().join("copy.db");
    db.execute("VACUUM INTO ?1", [copy.to_string_lossy()]).expect("a copy");
    db.execute_batch("VACUUM; ANALYZE; REINDEX; PRAGMA wal_checkpoint").expect("upkeep");
    db.execute("ATTACH ?1 AS copy", [copy.to_string_lossy()]).expect("it is a file of SQLite's");
    db.execute_batch(
        "BEGIN; INSERT INTO copy.t (b) SELECT b FROM main.t; DELETE FROM main.t WHERE b = 'x'; COMMIT",
    )
    .expect("one transaction in both");
    assert_eq!(number(&db, "SELECT (SELECT count(*) FROM copy.t) * 10 + (SELECT count(*) FROM main.t)"), 41);
    db.execute_batch("ALTER TABLE t RENAME TO t2; CREATE TEMP TABLE mine AS SELECT * FROM t2")
        .expect("a name");
    assert_eq!(number(&db, "SELECT count(*) FROM t2 INDEXED BY t_c WHERE c >= 'y'"), 1);
    assert_eq!(texts(&db, "PRAGMA integrity_check"), ["ok"]);
}

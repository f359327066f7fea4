//! Copies by `sqlite3_backup_*` between environments, files and memory: all there is arrives, the destination
//! is replaced in one piece or not at all, and what SQLite refuses is refused.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::asked::{number, texts};
use crate::directory::Directory;

/// Of whose kind a database is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ours,
    File,
    Memory,
}

const PAIRS: [(Kind, Kind); 5] = [
    (Kind::Ours, Kind::File),
    (Kind::Ours, Kind::Memory),
    (Kind::Ours, Kind::Ours),
    (Kind::File, Kind::Ours),
    (Kind::Memory, Kind::Ours),
];

fn place(directory: &Directory, name: &str) -> PathBuf {
    directory.path().join(name)
}

fn open(directory: &Directory, name: &str, kind: Kind) -> Connection {
    let path = place(directory, name);
    let opened = match kind {
        Kind::Ours => Connection::open(sablecat_sql::uri(path)),
        Kind::File => Connection::open(path),
        Kind::Memory => Connection::open_in_memory(),
    };
    opened.unwrap_or_else(|error| panic!("{name}, {kind:?}: {error}"))
}

/// Something of each kind that a schema can have.
const EVERYTHING: &str = "
    PRAGMA user_version = 11;
    PRAGMA application_id = 42;
    CREATE TABLE people (
        name TEXT COLLATE NOCASE UNIQUE, born, twice AS (born * 2), thrice AS (born * 3) STORED,
        CHECK (born > 0)
    );
    CREATE INDEX by_birth ON people (born DESC, name COLLATE RTRIM);
    CREATE UNIQUE INDEX of_some ON people (born) WHERE born < 100;
    CREATE INDEX by_length ON people (length(name));
    CREATE TABLE pairs (a, b REAL, c TEXT, PRIMARY KEY (b DESC, a)) WITHOUT ROWID;
    CREATE INDEX pairs_by_c ON pairs (c);
    CREATE TABLE logged (id INTEGER PRIMARY KEY AUTOINCREMENT, what ANY) STRICT;
    CREATE TABLE empty (x);
    CREATE VIEW old AS SELECT name FROM people WHERE born < 100;
    CREATE TRIGGER told AFTER INSERT ON pairs BEGIN INSERT INTO logged (what) VALUES (new.a); END;
    CREATE VIRTUAL TABLE words USING fts5 (word);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
        INSERT INTO people (rowid, name, born) SELECT i * 7, 'Name ' || i || '  ', i FROM n;
    INSERT INTO people (rowid, name, born) VALUES (-5, NULL, 9e300), (9223372036854775807, 'x', X'00');
    INSERT INTO pairs SELECT name, born / 4, NULL FROM people WHERE name IS NOT NULL;
    INSERT INTO pairs VALUES (zeroblob(9000), 1e-9, replace(hex(zeroblob(3000)), '0', 'ä'));
    INSERT INTO logged (id, what) VALUES (-1, zeroblob(300000));
    DELETE FROM logged WHERE id > 600;
    INSERT INTO words SELECT name FROM people;
    CREATE TABLE gone (x); INSERT INTO gone VALUES (1); DROP TABLE gone;
    ANALYZE;";

/// What is there: the schema, its numbers, and all rows.
fn content(db: &Connection) -> Vec<String> {
    let mut all =
        texts(db, "SELECT type || name || tbl_name || quote(sql) FROM sqlite_schema ORDER BY rowid");
    for of in ["user_version", "application_id"] {
        all.push(format!("{of} {}", number(db, &format!("PRAGMA {of}"))));
    }
    all.extend(texts(db, "PRAGMA encoding"));
    for table in texts(db, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name") {
        let has_row_ids = db.prepare(&format!("SELECT rowid FROM \"{table}\"")).is_ok();
        let columns = if has_row_ids { "rowid, *" } else { "*" };
        let mut statement = db.prepare(&format!("SELECT {columns} FROM \"{table}\"")).expect("a table");
        let count = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..count).map(|at| row.get::<_, Value>(at)).collect::<rusqlite::Result<Vec<_>>>()
        });
        let rows = rows.expect("rows").map(|row| format!("{table}: {:?}", row.expect("a row")));
        all.extend(rows);
    }
    all
}

fn whole(db: &Connection) {
    assert_eq!(texts(db, "PRAGMA integrity_check"), ["ok"]);
}

/// Copies all, with that many pages a step.
fn copy(from: &Connection, to: &mut Connection, pages: i32) {
    let backup = Backup::new(from, to).expect("a backup");
    while backup.step(pages).expect("a step") != StepResult::Done {}
    assert_eq!(backup.progress().remaining, 0);
}

#[test]
fn everything_is_there_afterwards_and_nothing_else() {
    for (from, to) in PAIRS {
        for (pages, text) in [(-1, "UTF-8"), (3, "UTF-16le")] {
            let directory = Directory::new();
            let (source, mut into) = (open(&directory, "from", from), open(&directory, "to", to));
            source.execute_batch(&format!("PRAGMA encoding = '{text}'; {EVERYTHING}")).expect("everything");
            into.execute_batch(&format!(
                "PRAGMA encoding = '{text}'; CREATE TABLE people (x UNIQUE); INSERT INTO people VALUES (1);
                 CREATE TABLE other (x); CREATE VIRTUAL TABLE words USING fts5 (word);
                 INSERT INTO words VALUES ('name')",
            ))
            .expect("something else");
            assert_eq!(number(&into, "SELECT count(*) FROM words ('name')"), 1);
            copy(&source, &mut into, pages);
            let expected = content(&source);
            assert!(expected.len() > 2000);
            assert!(content(&into) == expected, "{from:?} to {to:?} has become another one");
            whole(&into);
            // It is used as any: triggers, searches, new numbers.
            assert_eq!(number(&into, "SELECT count(*) FROM words ('name')"), 700);
            let add = "INSERT INTO pairs VALUES (1, 2, 3); INSERT INTO words VALUES ('name');
                       CREATE TABLE later (x UNIQUE); INSERT INTO later VALUES (1)";
            into.execute_batch(add).expect("more");
            source.execute_batch(add).expect("more");
            assert!(content(&into) == content(&source));
            whole(&into);
            if to != Kind::Memory {
                let again = open(&directory, "to", to);
                assert!(content(&again) == content(&source));
                assert_eq!(
                    number(&again, "SELECT count(*) FROM people INDEXED BY of_some WHERE born < 100"),
                    99
                );
            }
        }
    }
}

#[test]
fn a_source_without_anything_empties_the_destination() {
    for (from, to) in PAIRS {
        let directory = Directory::new();
        let (source, mut into) = (open(&directory, "from", from), open(&directory, "to", to));
        into.execute_batch(EVERYTHING).expect("everything");
        copy(&source, &mut into, -1);
        assert_eq!(number(&into, "SELECT count(*) FROM sqlite_schema"), 0);
        assert_eq!(number(&into, "PRAGMA user_version"), 0);
        whole(&into);
        into.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("it can be used");
    }
}

#[test]
fn others_see_the_old_content_until_it_is_done_and_one_given_up_changes_nothing() {
    for (from, to) in PAIRS.into_iter().filter(|(_, to)| *to != Kind::Memory) {
        let directory = Directory::new();
        let (source, mut into) = (open(&directory, "from", from), open(&directory, "to", to));
        let other = open(&directory, "to", to);
        source.execute_batch(EVERYTHING).expect("everything");
        into.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (7)")
            .expect("a table");
        let before = content(&other);
        {
            let backup = Backup::new(&source, &mut into).expect("a backup");
            let done = to == Kind::File && backup.step(2).expect("a step") == StepResult::Done;
            assert!(!done && content(&other) == before, "{from:?} to {to:?}");
        }
        assert!(content(&other) == before && content(&into) == before);
        // What reads goes on in its state.
        other.execute_batch("BEGIN").expect("a transaction");
        assert_eq!(number(&other, "SELECT x FROM t"), 7);
        copy(&source, &mut into, -1);
        assert_eq!(number(&other, "SELECT x FROM t"), 7);
        other.execute_batch("COMMIT").expect("it has only read");
        assert!(content(&other) == content(&source));
        whole(&other);
    }
}

#[test]
fn a_copy_is_of_one_state_while_others_write() {
    let directory = Directory::new();
    let source = open(&directory, "from", Kind::Ours);
    source
        .execute_batch(
            "PRAGMA synchronous = OFF; CREATE TABLE t (id INTEGER PRIMARY KEY, x UNIQUE);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO t SELECT i, i FROM n",
        )
        .expect("a table");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let writer = open(&directory, "from", Kind::Ours);
            writer.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
            for n in 0.. {
                let (up, down) = (n * 37 % 2000 + 1, n * 91 % 2000 + 1);
                if up != down && !over.load(Ordering::Relaxed) {
                    writer
                        .execute_batch(&format!(
                            "BEGIN; UPDATE t SET x = x + 10000 WHERE id = {up};
                             UPDATE t SET x = x - 10000 WHERE id = {down}; COMMIT;
                             CREATE TABLE IF NOT EXISTS t{} (x); DROP TABLE IF EXISTS t{};",
                            n % 5,
                            (n + 3) % 5
                        ))
                        .expect("nobody is in the way");
                } else if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 0..6 {
            let to = [Kind::Ours, Kind::File, Kind::Memory][round % 3];
            let mut into = open(&directory, &format!("to {}", round % 3), to);
            copy(&source, &mut into, -1);
            assert_eq!(number(&into, "SELECT sum(x) FROM t"), 2000 * 2001 / 2);
            whole(&into);
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn refusal(made: rusqlite::Result<Backup<'_, '_>>) -> String {
    match made {
        Ok(_) => panic!("it is to be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_sqlite_refuses_is_refused() {
    for (from, to) in PAIRS {
        let directory = Directory::new();
        let (source, mut into) = (open(&directory, "from", from), open(&directory, "to", to));
        source.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("a table");
        into.execute_batch("CREATE TABLE u (x); BEGIN; INSERT INTO u VALUES (1)").expect("a table");
        assert_eq!(refusal(Backup::new(&source, &mut into)), "destination database is in use");
        into.execute_batch("COMMIT").expect("a commit");
        // While the source's own connection writes.
        source.execute_batch("BEGIN; INSERT INTO t VALUES (2)").expect("it writes");
        let backup = Backup::new(&source, &mut into).expect("a backup");
        assert_eq!(backup.step(-1), Ok(StepResult::Busy), "{from:?} to {to:?}");
        source.execute_batch("COMMIT").expect("a commit");
        assert_eq!(backup.step(-1), Ok(StepResult::Done));
        assert_eq!(backup.step(-1), Ok(StepResult::Done));
        drop(backup);
        assert_eq!(number(&into, "SELECT sum(x) FROM t"), 3);
    }
}

#[test]
fn who_writes_to_the_destination_is_waited_for_and_nobody_may_who_only_reads() {
    for (from, to) in PAIRS.into_iter().filter(|(_, to)| *to != Kind::Memory) {
        let directory = Directory::new();
        let (source, mut into) = (open(&directory, "from", from), open(&directory, "to", to));
        source.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("a table");
        into.busy_timeout(Duration::ZERO).expect("a setting");
        let other = open(&directory, "to", to);
        other.execute_batch("BEGIN IMMEDIATE; CREATE TABLE u (x)").expect("it writes");
        let backup = Backup::new(&source, &mut into).expect("a backup");
        assert_eq!(backup.step(-1), Ok(StepResult::Busy), "{from:?} to {to:?}");
        other.execute_batch("COMMIT").expect("a commit");
        assert_eq!(backup.step(-1), Ok(StepResult::Done));
        drop(backup);
        assert_eq!(texts(&other, "SELECT name FROM sqlite_schema"), ["t"]);
        let only = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let mut only = Connection::open_with_flags(place(&directory, "to"), only).expect("a reader");
        let backup = Backup::new(&source, &mut only).expect("a backup");
        let refused = backup.step(-1).expect_err("it only reads");
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{from:?} to {to:?}");
    }
}

#[test]
fn a_database_is_not_copied_over_itself() {
    let directory = Directory::new();
    let (one, mut other) = (directory.ours(), directory.ours());
    one.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("a table");
    assert_eq!(refusal(Backup::new(&one, &mut other)), "source and destination must be distinct");
    let refused = Backup::new_with_names(&one, "nowhere", &mut other, "main");
    assert_eq!(refusal(refused), "unknown database nowhere");
    assert_eq!(number(&other, "SELECT x FROM t"), 1);
}

#[test]
fn a_source_that_an_environment_cannot_hold_leaves_it_as_it_was() {
    let directory = Directory::new();
    let (source, mut into) = (open(&directory, "from", Kind::File), open(&directory, "to", Kind::Ours));
    source.create_collation("backwards", |one, other| other.cmp(one)).expect("a collation");
    source
        .execute_batch(
            "CREATE TABLE t (x); CREATE TABLE u (x COLLATE backwards UNIQUE); INSERT INTO u VALUES (1)",
        )
        .expect("tables");
    into.execute_batch(EVERYTHING).expect("everything");
    let before = content(&into);
    let backup = Backup::new(&source, &mut into).expect("a backup");
    backup.step(-1).expect_err("no index by such a collation");
    backup.step(-1).expect_err("and not later");
    drop(backup);
    assert!(content(&into) == before);
    whole(&into);
    into.execute_batch("INSERT INTO pairs VALUES (1, 2, 3)").expect("it can be written to");
}

#[test]
fn an_attached_database_is_copied_by_its_name() {
    let directory = Directory::new();
    let (source, mut into) = (open(&directory, "from", Kind::File), open(&directory, "to", Kind::Memory));
    for db in [&source, &into] {
        let uri = sablecat_sql::uri(place(
            &directory,
            &format!("beside {}", db.path().is_some_and(|p| !p.is_empty())),
        ));
        db.execute("ATTACH ?1 AS beside", [uri]).expect("an environment");
    }
    source.execute_batch(&EVERYTHING.replace("PRAGMA ", "PRAGMA main.")).expect("everything");
    source.execute_batch("CREATE TABLE beside.v (x); INSERT INTO beside.v VALUES (5)").expect("a table");
    let backup = Backup::new_with_names(&source, "beside", &mut into, "main").expect("a backup");
    assert_eq!(backup.step(-1), Ok(StepResult::Done));
    drop(backup);
    assert_eq!(number(&into, "SELECT x FROM main.v"), 5);
    let backup = Backup::new_with_names(&source, "main", &mut into, "beside").expect("a backup");
    assert_eq!(backup.step(-1), Ok(StepResult::Done));
    drop(backup);
    assert_eq!(number(&into, "SELECT count(*) FROM beside.people"), 702);
    assert_eq!(number(&into, "SELECT x FROM main.v"), 5);
    assert_eq!(texts(&into, "PRAGMA integrity_check"), ["ok"]);
}

/// The bytes are a file of SQLite's: it is read as such, from memory and from a disk, and goes back.
#[test]
fn a_database_is_serialized_as_a_file_of_sqlites() {
    let directory = Directory::new();
    let mut source = open(&directory, "from", Kind::Ours);
    let empty = source.serialize("main").expect("nothing yet").to_vec();
    std::fs::write(place(&directory, "empty"), empty).expect("written");
    assert_eq!(number(&open(&directory, "empty", Kind::File), "SELECT count(*) FROM sqlite_schema"), 0);
    source.execute_batch(EVERYTHING).expect("everything");
    // What a transaction has changed is its own to see.
    source.execute_batch("BEGIN; INSERT INTO pairs VALUES (1, 2, 3)").expect("a row");
    let bytes = source.serialize("main").expect("bytes").to_vec();
    assert!(bytes.starts_with(b"SQLite format 3\0"));
    let expected = content(&source);
    source.execute_batch("ROLLBACK").expect("undone");
    let before = content(&source);
    assert!(before != expected);

    std::fs::write(place(&directory, "file"), &bytes).expect("written");
    let file = open(&directory, "file", Kind::File);
    assert!(content(&file) == expected);
    whole(&file);
    let mut memory = open(&directory, "", Kind::Memory);
    memory.deserialize_read_exact("main", &bytes[..], bytes.len(), false).expect("read");
    assert!(content(&memory) == expected);
    whole(&memory);

    // A connection that has an environment lets go of it for what it is given.
    let mut other = open(&directory, "from", Kind::Ours);
    other.deserialize_read_exact("main", &bytes[..], bytes.len(), false).expect("read");
    assert!(content(&other) == expected);
    other.execute_batch("DELETE FROM pairs").expect("it is its own");
    assert!(content(&source) == before);
    let refused = source.serialize("nowhere").map(drop);
    assert!(refused.is_err());
}

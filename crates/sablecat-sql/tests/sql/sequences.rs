//! AUTOINCREMENT: numbers that no row is given twice, by transactions that do not meet for it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use rusqlite::Connection;

use crate::asked::{BUSY_SNAPSHOT, code, number, setting, texts};
use crate::dice::Dice;
use crate::directory::Directory;

/// Two connections to a database with a table, in which rows have been given numbers up to 3.
fn two(directory: &Directory) -> [Connection; 2] {
    let [one, other] = [directory.ours(), directory.ours()];
    one.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, s TEXT);
         INSERT INTO t (s) VALUES ('a'), ('b'), ('c')",
    )
    .expect("a table");
    [one, other]
}

const IDS: &str = "SELECT group_concat(id) FROM (SELECT id FROM t ORDER BY id)";

fn last(db: &Connection) -> i64 {
    number(db, "SELECT seq FROM sqlite_sequence WHERE name = 't'")
}

#[test]
fn transactions_that_insert_beside_each_other_all_commit() {
    let directory = Directory::new();
    let [one, other] = two(&directory);
    one.execute_batch("BEGIN; INSERT INTO t (s) VALUES ('d'); INSERT INTO t (s) VALUES ('e')").expect("rows");
    other.execute_batch("BEGIN; INSERT INTO t (s) VALUES ('x'), ('y')").expect("rows");
    one.execute_batch("INSERT INTO t (s) VALUES ('f')").expect("a row");
    // Those with the greater numbers first.
    let ids = [&one, &other].map(Connection::last_insert_rowid);
    assert_ne!(ids[0], ids[1]);
    let [first, second] = if ids[0] > ids[1] { [&one, &other] } else { [&other, &one] };
    first.execute_batch("COMMIT").expect("it commits");
    second.execute_batch("COMMIT").expect("and so does the other");
    assert_eq!(number(&one, "SELECT count(*) FROM t"), 8);
    for db in [&one, &other] {
        assert_eq!(last(db), ids[0].max(ids[1]), "the greater one counts, whoever commits last");
    }
    one.execute_batch("DELETE FROM t").expect("rows");
    other.execute_batch("INSERT INTO t (s) VALUES ('z')").expect("a row");
    assert!(other.last_insert_rowid() > ids[0].max(ids[1]), "no number comes twice");
    assert_eq!(texts(&one, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn a_number_that_was_given_is_not_given_again_though_its_row_is_gone() {
    let directory = Directory::new();
    let [one, other] = two(&directory);
    // It has read that the last is 3.
    one.execute_batch("BEGIN; SELECT * FROM sqlite_schema").expect("a transaction");
    other
        .execute_batch("INSERT INTO t (s) VALUES ('gone'); DELETE FROM t WHERE s = 'gone'")
        .expect("a row that goes");
    one.execute_batch("INSERT INTO t (s) VALUES ('d'); COMMIT").expect("it commits");
    assert_eq!(texts(&one, IDS), ["1,2,3,5"]);
    // What is undone was never given.
    one.execute_batch(
        "BEGIN; SAVEPOINT s; INSERT INTO t (s) VALUES ('e'); ROLLBACK TO s; COMMIT;
         BEGIN; INSERT INTO t (s) VALUES ('e'); ROLLBACK; INSERT INTO t (s) VALUES ('e')",
    )
    .expect("a row");
    assert_eq!((texts(&one, IDS), last(&other)), (vec!["1,2,3,5,6".to_owned()], 6));
}

#[test]
fn what_a_program_names_is_behind_what_is_given() {
    let directory = Directory::new();
    let [one, other] = two(&directory);
    one.execute_batch("BEGIN; INSERT INTO t (s) VALUES ('d'); INSERT INTO t VALUES (1000, 'named')")
        .expect("rows");
    other.execute_batch("INSERT INTO t (s) VALUES ('e')").expect("a row");
    one.execute_batch("INSERT INTO t (s) VALUES ('f'); COMMIT").expect("they commit");
    assert_eq!((texts(&other, IDS), last(&other)), (vec!["1,2,3,4,5,1000,1001".to_owned()], 1001));
    other.execute_batch("INSERT INTO t (s) VALUES ('g')").expect("a row");
    assert_eq!(other.last_insert_rowid(), 1002);
    // Two that name one number meet.
    one.execute_batch("BEGIN; INSERT INTO t VALUES (2000, 'one')").expect("a row");
    other.execute_batch("INSERT INTO t VALUES (2000, 'other')").expect("a row");
    assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    one.execute_batch("INSERT INTO t VALUES (9223372036854775807, 'last')").expect("a row");
    let full = one.execute_batch("INSERT INTO t (s) VALUES ('none is left')").expect_err("there is none");
    assert_eq!(full.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "as SQLite says it");
}

#[test]
fn the_first_row_of_a_table_is_where_two_meet() {
    let directory = Directory::new();
    let [one, other] = two(&directory);
    one.execute_batch("CREATE TABLE new (id INTEGER PRIMARY KEY AUTOINCREMENT)").expect("a table");
    one.execute_batch("BEGIN; INSERT INTO new DEFAULT VALUES").expect("a row");
    other.execute_batch("INSERT INTO new DEFAULT VALUES").expect("a row");
    assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    one.execute_batch("INSERT INTO new DEFAULT VALUES").expect("a row");
    assert_eq!(number(&other, "SELECT count(*) FROM sqlite_sequence WHERE name = 'new'"), 1);
    assert_eq!(number(&other, "SELECT seq FROM sqlite_sequence WHERE name = 'new'"), 2);
    // Also where both name their numbers.
    one.execute_batch("CREATE TABLE named (id INTEGER PRIMARY KEY AUTOINCREMENT)").expect("a table");
    one.execute_batch("BEGIN; INSERT INTO named VALUES (5)").expect("a row");
    other.execute_batch("INSERT INTO named VALUES (9)").expect("a row");
    assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    assert_eq!(number(&other, "SELECT count(*) FROM sqlite_sequence WHERE name = 'named'"), 1);
    // A table that is made beside who inserts into another is none of its business.
    one.execute_batch("CREATE TABLE log (x); BEGIN; INSERT INTO t (s) VALUES ('d')").expect("a row");
    other.execute_batch("INSERT INTO sqlite_sequence VALUES ('somebody', 7)").expect("a row");
    one.execute_batch("COMMIT").expect("it commits");
}

/// One that nobody else works beside.
#[test]
fn a_transaction_that_makes_a_sequence_raises_it() {
    let made = [
        "",
        "DELETE FROM sqlite_sequence;",
        "INSERT INTO sqlite_sequence VALUES ('t', 10);",
        "INSERT INTO sqlite_sequence VALUES ('u', 10), ('t', 20);",
        "INSERT INTO t (s) VALUES ('x'); DELETE FROM sqlite_sequence;",
        "INSERT INTO t (s) VALUES ('x'); DELETE FROM sqlite_sequence WHERE name = 't';",
        "SAVEPOINT p; INSERT INTO t (s) VALUES ('x'); INSERT INTO u (s) VALUES ('x'); ROLLBACK TO p;",
        "INSERT INTO t (s) VALUES ('x'); UPDATE sqlite_sequence SET seq = 30;",
        "DELETE FROM t; DELETE FROM u; UPDATE sqlite_sequence SET seq = 0;",
        "INSERT INTO t (s) VALUES ('x'); DELETE FROM t; UPDATE sqlite_sequence SET seq = 0 WHERE name = 't';",
        "SAVEPOINT p; UPDATE sqlite_sequence SET seq = 0; INSERT INTO t (s) VALUES ('x'); ROLLBACK TO p;",
        "INSERT INTO t (s) VALUES ('x'); ALTER TABLE t RENAME TO v; INSERT INTO v (s) VALUES ('x');
         ALTER TABLE v RENAME TO t;",
        "ALTER TABLE t RENAME TO v; INSERT INTO v (s) VALUES ('x'); ALTER TABLE u RENAME TO t;
         INSERT INTO t (s) VALUES ('x'); ALTER TABLE v RENAME TO u;",
        "INSERT INTO u (s) VALUES ('x'); DROP TABLE u;
         CREATE TABLE u (id INTEGER PRIMARY KEY AUTOINCREMENT, s);",
        "UPDATE sqlite_sequence SET name = CASE name WHEN 't' THEN 'u' ELSE 't' END;",
    ];
    let inserts =
        "INSERT INTO t (s) VALUES ('a'); INSERT INTO u (s) VALUES ('b'); INSERT INTO t (s) VALUES ('c');
                   INSERT INTO u (s) VALUES ('d'), ('e'); INSERT INTO t (s) VALUES ('f')";
    let before = [
        "",
        "INSERT INTO t (s) VALUES ('0'); INSERT INTO u (s) VALUES ('0');",
        "INSERT INTO u (s) VALUES ('0');",
    ];
    let tables = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, s TEXT);
                  CREATE TABLE u (id INTEGER PRIMARY KEY AUTOINCREMENT, s TEXT);";
    let rows = "SELECT name || seq FROM sqlite_sequence UNION ALL SELECT 't' || id || s FROM t
                UNION ALL SELECT 'u' || id || s FROM u ORDER BY 1";
    for made in made {
        for before in before {
            let come_to = [Directory::stock, Directory::ours].map(|open| {
                let directory = Directory::new();
                let db = open(&directory);
                db.execute_batch(&format!("{tables} {before}")).expect("tables");
                for _ in 0..2 {
                    db.execute_batch(&format!("BEGIN; {made} {inserts}; COMMIT"))
                        .unwrap_or_else(|error| panic!("{before} {made}: {error}"));
                }
                texts(&db, rows)
            });
            assert_eq!(come_to[0], come_to[1], "{before} {made}");
        }
    }
}

/// The row of a table's sequence that was removed may be another's by then, in the same transaction.
#[test]
fn a_sequence_in_the_place_of_another_begins_with_one() {
    let comes_to = |open: fn(&Directory) -> Connection| {
        let directory = Directory::new();
        let (db, _other) = (open(&directory), open(&directory));
        db.execute_batch(
            "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, s);
             CREATE TABLE d (id INTEGER PRIMARY KEY AUTOINCREMENT, s);
             INSERT INTO a (s) VALUES ('x'), ('y'), ('z');
             BEGIN; SAVEPOINT p; DROP TABLE a;
             INSERT INTO d (s) SELECT 'none' WHERE 0; INSERT INTO d (s) VALUES ('first');
             RELEASE p; INSERT INTO d (s) VALUES ('second'); COMMIT;
             INSERT INTO d (s) VALUES ('third');",
        )
        .expect("rows");
        (texts(&db, "SELECT id || s FROM d"), texts(&db, "SELECT name || seq FROM sqlite_sequence"))
    };
    assert_eq!(comes_to(Directory::ours), comes_to(Directory::stock));
}

/// However the program sets it, before or after AUTOINCREMENT has raised it.
#[test]
fn a_sequence_that_is_set_beside_another_that_raises_it_is_a_conflict() {
    let own = [
        "UPDATE sqlite_sequence SET seq = 0",
        "INSERT INTO t (s) VALUES ('d'); UPDATE sqlite_sequence SET seq = 10",
        "UPDATE sqlite_sequence SET seq = 10; INSERT INTO t (s) VALUES ('d')",
        "INSERT INTO t (s) VALUES ('d'); DELETE FROM sqlite_sequence WHERE name = 't'",
        "INSERT INTO t (s) VALUES ('d'); ALTER TABLE t RENAME TO v; INSERT INTO v (s) VALUES ('e')",
    ];
    for own in own {
        let directory = Directory::new();
        let [one, other] = two(&directory);
        one.execute_batch(&format!("BEGIN; {own}")).expect("changes");
        other.execute_batch("INSERT INTO t (s) VALUES ('x')").expect("a row");
        assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT), "{own}");
        assert_eq!(last(&other), number(&other, "SELECT max(id) FROM t"), "{own}");
        // With nobody beside it goes through.
        one.execute_batch(&format!("BEGIN; {own}; COMMIT")).unwrap_or_else(|error| panic!("{own}: {error}"));
    }
}

#[test]
fn a_sequence_that_others_remove_is_where_two_meet() {
    let directory = Directory::new();
    let [one, other] = two(&directory);
    one.execute_batch("BEGIN; SELECT * FROM t").expect("a transaction");
    other.execute_batch("DELETE FROM sqlite_sequence").expect("no rows");
    let inserted = one.execute_batch("INSERT INTO t (s) VALUES ('d'); COMMIT");
    assert_eq!(code(&inserted), Some(BUSY_SNAPSHOT));
}

#[test]
fn who_sets_a_sequence_sets_it() {
    let directory = Directory::new();
    let [one, other] = two(&directory);
    one.execute_batch("DELETE FROM t; UPDATE sqlite_sequence SET seq = 0 WHERE name = 't'").expect("anew");
    other.execute_batch("INSERT INTO t (s) VALUES ('a')").expect("a row");
    assert_eq!(texts(&one, IDS), ["1"]);
    // In the transaction that has inserted, too: what it says last counts.
    one.execute_batch(
        "BEGIN; INSERT INTO t (s) VALUES ('b'); DELETE FROM t; UPDATE sqlite_sequence SET seq = 0; COMMIT",
    )
    .expect("anew");
    assert_eq!(last(&other), 0);
    one.execute_batch(
        "BEGIN; DELETE FROM t; DELETE FROM sqlite_sequence; INSERT INTO t (s) VALUES ('a'); COMMIT",
    )
    .expect("anew");
    assert_eq!((texts(&one, IDS), last(&other)), (vec!["1".to_owned()], 1));

    // Who has read it, to set it, depends on it; who goes on with one that is gone does not commit.
    one.execute_batch("BEGIN; UPDATE sqlite_sequence SET seq = seq + 10").expect("a row");
    other.execute_batch("INSERT INTO t (s) VALUES ('b')").expect("a row");
    assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    one.execute_batch("BEGIN; INSERT INTO t (s) VALUES ('c')").expect("a row");
    other.execute_batch("DELETE FROM sqlite_sequence").expect("a row goes");
    assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    assert_eq!(texts(&one, IDS), ["1,2"]);
    one.execute_batch("BEGIN; INSERT INTO t (s) VALUES ('c'); SELECT seq FROM sqlite_sequence")
        .expect("a row");
    other.execute_batch("DROP TABLE t").expect("it goes");
    assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
}

#[test]
fn threads_that_insert_get_numbers_of_their_own_and_none_runs_again() {
    const THREADS: usize = 4;
    let directory = Directory::new();
    let [db, _] = two(&directory);
    db.execute_batch("CREATE TABLE u (id INTEGER PRIMARY KEY AUTOINCREMENT, of INTEGER)").expect("a table");
    db.execute_batch("INSERT INTO u (of) VALUES (0)").expect("a row");
    let given = Mutex::new(Vec::new());
    let transactions = setting("SABLECAT_TEST_SQL_SEEDS", 40);
    thread::scope(|scope| {
        for who in 0..THREADS {
            let (directory, given) = (&directory, &given);
            scope.spawn(move || {
                let db = directory.ours();
                let mut dice = Dice::new(who as u64);
                db.execute_batch(["PRAGMA synchronous = OFF", "PRAGMA synchronous = FULL"][who % 2])
                    .expect("a setting");
                for _ in 0..transactions {
                    db.execute_batch("BEGIN").expect("a transaction");
                    let mut mine = Vec::new();
                    for _ in 0..1 + dice.below(5) {
                        db.execute_batch("INSERT INTO t (s) VALUES ('x')").expect("a row");
                        let id = db.last_insert_rowid();
                        mine.push(id);
                        db.execute("INSERT INTO u (of) VALUES (?1)", [id]).expect("a row");
                    }
                    // Gone at once, or as soon as it has committed: their numbers are given all the same.
                    if dice.once_in(3) {
                        db.execute("DELETE FROM t WHERE id = ?1", [mine[0]]).expect("a row");
                    }
                    if dice.once_in(8) {
                        db.execute_batch("ROLLBACK").expect("undone");
                        continue;
                    }
                    db.execute_batch("COMMIT").expect("nobody is in its way");
                    if dice.once_in(3) {
                        db.execute("DELETE FROM t WHERE id = ?1", [mine[mine.len() - 1]]).expect("a row");
                    }
                    given.lock().expect("no panic").extend(mine);
                }
            });
        }
    });
    let given = given.into_inner().expect("no panic");
    let different: BTreeSet<i64> = given.iter().copied().collect();
    assert_eq!(different.len(), given.len(), "no number was given twice");
    assert_eq!(last(&db), *different.last().expect("some"), "the greatest is known");
    assert_eq!(number(&db, "SELECT count(DISTINCT of) FROM u WHERE of > 0"), given.len() as i64);
    assert_eq!(number(&db, "SELECT count(*) FROM sqlite_sequence"), 2);
    assert_eq!(texts(&db, "PRAGMA integrity_check"), ["ok"]);
}

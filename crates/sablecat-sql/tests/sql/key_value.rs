//! Databases of keys and values as tables: what programs put there, what SQL does, ranges of keys, and one
//! transaction for both.

use std::thread;

use rusqlite::{Connection, ErrorCode};
use sablecat::{Database, Duplicates, Env, Holds, Method, MultiMap, Queue};

use crate::asked::{BUSY_SNAPSHOT, code, number, setting, texts};
use crate::dice::Dice;
use crate::directory::Directory;

/// The environment in which a connection's database is.
pub(crate) fn environment(directory: &Directory) -> Env {
    sablecat_sql::environment(directory.path().join("ours")).expect("the environment is open")
}

/// A connection with a table `kv` of a new database of texts, and that database.
fn with_texts(directory: &Directory) -> (Connection, Database) {
    let db = directory.ours();
    let database = environment(directory).database("words").expect("a database");
    db.execute_batch("CREATE VIRTUAL TABLE kv USING sablecat('words', key=text, value=text)")
        .expect("a table");
    (db, database)
}

/// What a statement fails with.
pub(crate) fn said(db: &Connection, sql: &str) -> String {
    db.execute_batch(sql).expect_err(sql).to_string()
}

#[test]
fn records_of_a_program_are_rows_and_rows_are_records() {
    let directory = Directory::new();
    let (db, words) = with_texts(&directory);
    for (key, value) in [("b", "two"), ("a", "one"), ("", "none"), ("long", &"x".repeat(200_000))] {
        words.insert(key, value).expect("a record");
    }
    assert_eq!(texts(&db, "SELECT key || ':' || length(value) FROM kv"), [":4", "a:3", "b:3", "long:200000"]);
    assert_eq!(texts(&db, "SELECT value FROM kv WHERE key = 'a'"), ["one"]);

    assert_eq!(db.execute("INSERT INTO kv VALUES ('c', 'three'), ('d', 4)", []).expect("rows"), 2);
    assert_eq!(db.execute("UPDATE kv SET value = value || '!' WHERE key <= 'b'", []).expect("rows"), 3);
    assert_eq!(db.execute("UPDATE kv SET key = 'e' WHERE key = 'd'", []).expect("a row"), 1);
    assert_eq!(db.execute("DELETE FROM kv WHERE key IN ('b', 'long', 'nobody')", []).expect("rows"), 2);
    let records: Vec<_> = words.range(..).expect("records").map(|record| record.expect("a record")).collect();
    let records: Vec<_> = records.iter().map(|(k, v)| [k, v].map(|b| String::from_utf8_lossy(b))).collect();
    assert_eq!(records, [["", "none!"], ["a", "one!"], ["c", "three"], ["e", "4"]]);
    assert_eq!(db.execute("UPDATE kv SET key = key || 'x' WHERE key >= ''", []).expect("rows"), 4);
    assert_eq!(texts(&db, "SELECT key FROM kv"), ["ax", "cx", "ex", "x"]);
    assert_eq!(db.execute("DELETE FROM kv", []).expect("rows"), 4);
    assert!(words.is_empty().expect("read"));
}

#[test]
fn a_key_that_is_there_is_a_conflict_of_a_constraint() {
    let directory = Directory::new();
    let (db, words) = with_texts(&directory);
    db.execute_batch("INSERT INTO kv VALUES ('a', 1), ('b', 2)").expect("rows");
    assert!(
        said(&db, "INSERT INTO kv VALUES ('z', 0), ('a', 3)").contains("UNIQUE constraint failed: kv.key")
    );
    assert!(
        said(&db, "UPDATE kv SET key = 'b' WHERE key = 'a'").contains("UNIQUE constraint failed: kv.key")
    );
    assert!(said(&db, "UPDATE kv SET key = 'c'").contains("UNIQUE constraint failed: kv.key"));
    let two = || texts(&db, "SELECT key || value FROM kv");
    assert_eq!(two(), ["a1", "b2"], "nothing of them stays");
    db.execute_batch("INSERT OR IGNORE INTO kv VALUES ('a', 3), ('c', 3)").expect("rows");
    assert_eq!(two(), ["a1", "b2", "c3"]);
    db.execute_batch(
        "REPLACE INTO kv VALUES ('a', 4); DELETE FROM kv WHERE key = 'b';
         UPDATE OR REPLACE kv SET key = 'b' WHERE key = 'c'",
    )
    .expect("rows");
    assert_eq!(two(), ["a4", "b3"]);
    assert!(said(&db, "INSERT OR FAIL INTO kv VALUES ('x', 5), ('b', 5), ('y', 5)").contains("UNIQUE"));
    assert_eq!(two(), ["a4", "b3", "x5"], "what came before the failure stays");
    assert_eq!(words.len().expect("read"), 3);

    assert!(said(&db, "INSERT INTO kv VALUES (NULL, 5)").contains("NOT NULL constraint failed: kv.key"));
    assert!(said(&db, "INSERT INTO kv (key) VALUES ('v')").contains("NOT NULL constraint failed: kv.value"));
    assert!(said(&db, "INSERT INTO kv VALUES (x'00', 5)").contains("made of text"));
    assert_eq!(number(&db, "SELECT count(*) FROM kv"), 3);
}

/// How a statement reads what it reads.
pub(crate) fn plan(db: &Connection, sql: &str) -> String {
    let rows = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).and_then(|mut statement| {
        statement.query_map([], |row| row.get::<_, String>(3))?.collect::<rusqlite::Result<Vec<_>>>()
    });
    rows.expect("a plan").join("; ")
}

#[test]
fn conditions_on_the_key_are_ranges_of_bytes() {
    let directory = Directory::new();
    let (db, _) = with_texts(&directory);
    let plan = |db: &Connection, condition: &str| plan(db, &format!("SELECT * FROM kv {condition}"));
    for (condition, how) in [
        ("WHERE key = 'a'", ":key=?"),
        ("WHERE key > 'a'", ":key>?"),
        ("WHERE key >= 'a' ORDER BY key", ":key>=?"),
        ("WHERE key < 'a' ORDER BY key DESC", ":key<?"),
        ("WHERE key <= 'a'", ":key<=?"),
        ("WHERE key BETWEEN 'a' AND 'b' ORDER BY key DESC", ":key between"),
    ] {
        let plan = plan(&db, condition);
        assert!(plan.ends_with(how), "{condition}: {plan}");
    }
    for condition in [
        "WHERE value = 'a'",
        "WHERE key = 'a' COLLATE NOCASE",
        "WHERE key > CAST('1' AS INTEGER)",
        "ORDER BY key DESC",
    ] {
        let plan = plan(&db, condition);
        assert!(
            plan.ends_with("VIRTUAL TABLE INDEX 0:") || plan.contains("INDEX 16:"),
            "{condition}: {plan}"
        );
    }
    assert!(plan(&db, "ORDER BY key COLLATE NOCASE").contains("TEMP B-TREE"));
    assert!(plan(&db, "ORDER BY value").contains("TEMP B-TREE"));

    // What is read is read within the range alone: whoever changes the rest is in nobody's way.
    let (one, other) = (&db, directory.ours());
    one.execute_batch("INSERT INTO kv VALUES ('a', ''), ('b', ''), ('c', ''), ('d', ''), ('e', '')")
        .expect("rows");
    one.execute_batch("CREATE TABLE log (x)").expect("a table");
    for (condition, apart) in [
        ("key BETWEEN 'b' AND 'c'", "a"),
        ("key BETWEEN 'b' AND 'c'", "d"),
        ("key >= 'b' AND key < 'd' ORDER BY key DESC", "d"),
        ("key > 'a' AND key <= 'c' ORDER BY key DESC", "a"),
        ("key = 'c'", "d"),
    ] {
        for (changed, is_met) in [(apart, false), ("c", true)] {
            one.execute_batch("BEGIN; INSERT INTO log VALUES (1)").expect("a transaction");
            texts(one, &format!("SELECT key FROM kv WHERE {condition}"));
            other.execute("UPDATE kv SET value = value || 'x' WHERE key = ?1", [changed]).expect("a row");
            let done = one.execute_batch("COMMIT");
            assert_eq!(code(&done), is_met.then_some(BUSY_SNAPSHOT), "{condition} with {changed}: {done:?}");
        }
    }
}

#[test]
fn rows_are_those_that_a_table_of_sqls_own_has() {
    for encoding in ["UTF-8", "UTF-16le"] {
        rows_are_those_of_own(encoding);
    }
}

/// Keys and conditions of all kinds show what they do in a table of SQL's own.
fn rows_are_those_of_own(encoding: &str) {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(&format!("PRAGMA encoding = '{encoding}'")).expect("a setting");
    let env = environment(&directory);
    env.database("texts").expect("a database");
    env.database("blobs").expect("a database");
    env.database_as("hashed", Method::Hash).expect("a database");
    env.database_as("counted", Method::Counted).expect("a database");
    db.execute_batch(
        "CREATE VIRTUAL TABLE texts USING sablecat('texts', key=text);
         CREATE VIRTUAL TABLE blobs USING sablecat(\"blobs\", key = blob, value = blob);
         CREATE VIRTUAL TABLE hashed USING sablecat(hashed, key=text);
         CREATE VIRTUAL TABLE counted USING sablecat('counted', KEY=TEXT);
         CREATE TABLE texts_own (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
         CREATE TABLE blobs_own (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;
         CREATE TABLE numbers (i INTEGER, t TEXT, b BLOB);
         INSERT INTO numbers VALUES (7, '7', x'37'), (11, '11', x'3131'), (NULL, '!', 5), ('!', 'a', '11');",
    )
    .expect("tables");
    let mut dice = Dice::new(setting("SABLECAT_TEST_FROM", 0));
    for _ in 0..400 {
        let n = dice.below(200);
        let key = match dice.below(3) {
            0 => format!("{n:03}"),
            1 => format!("{n}"),
            _ => ["é", "\u{fffd}", "\u{10000}", "\u{100}"][n as usize % 4].repeat(n as usize % 5),
        };
        for table in ["texts", "texts_own", "hashed", "counted"] {
            db.execute(&format!("REPLACE INTO {table} VALUES (?1, ?2)"), (&key, key.as_bytes()))
                .expect("a row");
        }
        for table in ["blobs", "blobs_own"] {
            db.execute(&format!("REPLACE INTO {table} VALUES (?1, ?1)"), [key.as_bytes()]).expect("a row");
        }
    }
    let values =
        ["'1'", "'15'", "'099'", "''", "'x'", "x'31'", "x'3135'", "x''", "15", "15.5", "'\u{fffd}'", "NULL"];
    let value = |dice: &mut Dice| values[dice.below(values.len() as u64) as usize];
    for round in 0..setting("SABLECAT_TEST_SQL_SEEDS", 40) * 4 {
        let mut conditions = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let operator = ["=", "<", "<=", ">", ">=", "IS", "<>"][dice.below(7) as usize];
            conditions.push(match dice.below(6) {
                0 => format!("key IN ({}, {})", value(&mut dice), value(&mut dice)),
                1 => format!("key {operator} (SELECT i FROM numbers WHERE t = '11')"),
                2 => format!("(key {operator} {} OR key = {})", value(&mut dice), value(&mut dice)),
                _ => format!("key {operator} {}", value(&mut dice)),
            });
        }
        let condition = conditions.join(" AND ");
        let order = ["key", "key DESC"][dice.below(2) as usize];
        for (table, own) in [
            ("texts", "texts_own"),
            ("hashed", "texts_own"),
            ("counted", "texts_own"),
            ("blobs", "blobs_own"),
        ] {
            for sql in [
                format!("SELECT hex(key) FROM {{}} WHERE {condition} ORDER BY {order}"),
                format!(
                    "SELECT hex(key) || coalesce(i, '') FROM {{}} JOIN numbers ON key = i OR key = b
                     WHERE {condition} ORDER BY {order}, numbers.rowid"
                ),
                format!(
                    "SELECT hex(key) FROM numbers CROSS JOIN {{}} ON key >= i AND key < t
                     ORDER BY numbers.rowid, {order}"
                ),
            ] {
                let shown = [table, own].map(|table| texts(&db, &sql.replace("{}", table)));
                assert_eq!(shown[0], shown[1], "{encoding}, round {round}, {table}: {sql}");
            }
        }
    }
}

#[test]
fn rows_of_both_kinds_are_joined() {
    let directory = Directory::new();
    let (db, words) = with_texts(&directory);
    for n in 0..1000 {
        words.insert(format!("{n:04}"), format!("v{n}")).expect("a record");
    }
    db.execute_batch(
        "CREATE TABLE wanted (k TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
         INSERT INTO wanted VALUES ('0007', 1), ('0500', 2), ('9999', 3)",
    )
    .expect("a table");
    let joined = "SELECT n || value FROM wanted JOIN kv ON key = k ORDER BY n";
    assert_eq!(texts(&db, joined), ["1v7", "2v500"]);
    let plan = plan(&db, "SELECT * FROM wanted CROSS JOIN kv ON key = k");
    assert!(plan.ends_with(":key=?"), "by the key, not all of them: {plan}");
    db.execute_batch(
        "INSERT INTO wanted SELECT key, 4 FROM kv WHERE key >= '0998'; DELETE FROM kv WHERE \
         key IN (SELECT k FROM wanted)",
    )
    .expect("both");
    assert_eq!((number(&db, "SELECT count(*) FROM wanted"), words.len().expect("read")), (5, 996));
    db.execute_batch("INSERT INTO kv SELECT key || 'x', value FROM kv").expect("from itself");
    assert_eq!(words.len().expect("read"), 2 * 996);
}

#[test]
fn one_transaction_has_rows_and_records() {
    let directory = Directory::new();
    let (db, words) = with_texts(&directory);
    db.execute_batch("CREATE TABLE t (x TEXT)").expect("a table");
    let both = "INSERT INTO t VALUES ('row'); INSERT INTO kv VALUES ('key', 'record')";
    let counts = || (number(&db, "SELECT count(*) FROM t"), words.len().expect("read"));

    db.execute_batch(&format!("BEGIN; {both}")).expect("a transaction");
    assert_eq!(number(&db, "SELECT count(*) FROM kv"), 1, "it sees its own");
    assert_eq!(words.len().expect("read"), 0, "nobody else does before it commits");
    db.execute_batch("ROLLBACK").expect("it ends");
    assert_eq!(counts(), (0, 0));

    db.execute_batch(&format!(
        "BEGIN; INSERT INTO kv VALUES ('first', 1); SAVEPOINT s; {both}; SAVEPOINT r; DELETE FROM kv;
         ROLLBACK TO r; RELEASE r;"
    ))
    .expect("a transaction");
    assert_eq!(texts(&db, "SELECT key FROM kv"), ["first", "key"]);
    db.execute_batch("UPDATE kv SET key = 'moved' WHERE key = 'first'").expect("a row");
    assert_eq!(texts(&db, "SELECT key FROM kv"), ["key", "moved"]);
    db.execute_batch("ROLLBACK TO s").expect("back");
    assert_eq!(texts(&db, "SELECT key FROM kv"), ["first"]);
    db.execute_batch("COMMIT").expect("it commits");
    assert_eq!(counts(), (0, 1));

    db.execute_batch(&format!("BEGIN; {both}; COMMIT")).expect("a transaction");
    assert_eq!(counts(), (1, 2));
    assert!(
        said(&db, "INSERT INTO t SELECT value FROM kv; INSERT INTO kv SELECT 'k', x FROM t")
            .contains("UNIQUE")
    );
    assert_eq!(counts(), (3, 2), "a statement that fails leaves nothing, that before it stays");
    db.execute_batch(
        "CREATE TRIGGER log AFTER INSERT ON t BEGIN REPLACE INTO kv VALUES ('last', new.x); END;
         INSERT INTO t VALUES ('seen');",
    )
    .expect("a trigger");
    assert_eq!(words.get("last").expect("read").as_deref(), Some(&b"seen"[..]));
}

#[test]
fn of_two_that_change_one_key_one_commits() {
    let directory = Directory::new();
    let (one, words) = with_texts(&directory);
    let other = directory.ours();
    one.execute_batch("INSERT INTO kv VALUES ('a', 1), ('b', 1); CREATE TABLE t (x)").expect("rows");
    for (mine, met) in [("b", false), ("a", true)] {
        one.execute_batch("BEGIN; INSERT INTO t VALUES (1)").expect("a transaction");
        other.execute_batch("BEGIN").expect("another");
        one.execute("UPDATE kv SET value = value + 1 WHERE key = ?1", [mine]).expect("a row");
        other.execute_batch("UPDATE kv SET value = value + 10 WHERE key = 'a'; COMMIT").expect("the first");
        let done = one.execute_batch("COMMIT");
        assert_eq!(code(&done), met.then_some(BUSY_SNAPSHOT), "{done:?}");
    }
    assert_eq!(texts(&one, "SELECT key || value FROM kv"), ["a21", "b2"]);
    assert_eq!(number(&one, "SELECT count(*) FROM t"), 1, "the row goes with the record");

    one.execute_batch("BEGIN; UPDATE kv SET value = 0 WHERE key = 'a'").expect("a transaction");
    words.insert("a", "a program's").expect("a record");
    assert_eq!(code(&one.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT), "programs count as well");
    one.execute_batch("BEGIN").expect("a transaction");
    let before = texts(&one, "SELECT value FROM kv");
    words.insert("b", "new").expect("a record");
    assert_eq!(texts(&one, "SELECT value FROM kv"), before, "it sees one state");
    one.execute_batch("COMMIT").expect("it has only read");
    assert_eq!(texts(&one, "SELECT value FROM kv"), ["a program's", "new"]);
}

#[test]
fn statements_by_themselves_run_again_until_they_are_through() {
    const THREADS: u64 = 3;
    const EACH: u64 = 40;
    let directory = Directory::new();
    let (db, words) = with_texts(&directory);
    db.execute_batch("INSERT INTO kv VALUES ('sum', 0)").expect("a row");
    thread::scope(|scope| {
        for who in 0..THREADS {
            let directory = &directory;
            scope.spawn(move || {
                let db = directory.ours();
                db.execute_batch("PRAGMA synchronous = OFF").expect("a setting");
                for n in 0..EACH {
                    db.execute_batch("UPDATE kv SET value = value + 1 WHERE key = 'sum'").expect("through");
                    db.execute(
                        "INSERT INTO kv SELECT ?1 || '/' || value, '' FROM kv WHERE key = 'sum'",
                        [who as i64],
                    )
                    .unwrap_or_else(|error| panic!("{who}, {n}: {error}"));
                }
            });
        }
    });
    assert_eq!(texts(&db, "SELECT value FROM kv WHERE key = 'sum'"), [(THREADS * EACH).to_string()]);
    assert_eq!(words.len().expect("read"), THREADS * EACH + 1);
}

#[test]
fn who_reads_on_sees_no_torn_state() {
    let directory = Directory::new();
    let (db, _) = with_texts(&directory);
    let fill = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 399)
                REPLACE INTO kv SELECT i, i FROM n";
    for (order, delta) in [("key", 1), ("key DESC", -1)] {
        db.execute_batch(&format!("DELETE FROM kv; {fill}; BEGIN")).expect("rows");
        let mut statement =
            db.prepare(&format!("SELECT key, value FROM kv ORDER BY {order}")).expect("a reader");
        let mut rows = statement.query([]).expect("rows");
        let mut seen = Vec::new();
        while let Some(row) = rows.next().expect("a row") {
            let (key, value): (String, String) = (row.get(0).expect("a key"), row.get(1).expect("a value"));
            let at: i64 = key.parse().expect("a number");
            seen.push(at);
            if at % 10 == 0 {
                assert_eq!(value, key, "as it was made");
                // Where it is, one in front of it, which goes, and one that changes.
                for sql in [
                    format!("DELETE FROM kv WHERE key IN ('{at}', '{}')", at + delta),
                    format!("UPDATE kv SET value = 'new' WHERE key = '{}'", at + 2 * delta),
                ] {
                    db.execute_batch(&sql).expect("a change");
                }
            } else if (at - 2 * delta) % 10 == 0 && (100..400).contains(&(at - 2 * delta)) {
                assert_eq!(value, "new", "{order}: {key}");
            }
        }
        let wanted = (100..400).filter(|at| (at - delta) % 10 != 0 || !(100..400).contains(&(at - delta)));
        let mut wanted: Vec<i64> = wanted.collect();
        if delta < 0 {
            wanted.reverse();
        }
        assert_eq!(seen, wanted, "{order}");
        db.execute_batch("COMMIT").expect("it ends");
    }
}

#[test]
fn keys_with_several_values_have_a_row_for_each() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    for (order, name) in [(Duplicates::Sorted, "sorted"), (Duplicates::Inserted, "inserted")] {
        let map = MultiMap::open(&env, name, order).expect("a database");
        for (key, value) in [("b", "2"), ("a", "3"), ("a", "1"), ("a", "1"), ("c", ""), ("a\0", "0")] {
            env.write(|txn| map.insert(txn, key, value)).expect("a record");
        }
        db.execute_batch(&format!(
            "CREATE VIRTUAL TABLE {name} USING sablecat({name}, key=text, value=text)"
        ))
        .expect("a table");
        let asked = |what: &str| texts(&db, &format!("SELECT hex(key) || ':' || value FROM {name} {what}"));
        let of_a =
            if order == Duplicates::Sorted { vec!["61:1", "61:3"] } else { vec!["61:3", "61:1", "61:1"] };
        let rest = ["6100:0", "62:2", "63:"].map(String::from);
        assert_eq!(asked("WHERE key = 'a'"), of_a, "{name}");
        assert_eq!(asked(""), [of_a.iter().map(|&row| row.to_owned()).collect(), rest.to_vec()].concat());
        assert_eq!(asked("WHERE key > 'a' ORDER BY key"), rest);
        assert_eq!(asked("WHERE key > 'a' AND key < 'c' ORDER BY key"), rest[..2]);
        assert_eq!(asked("WHERE key >= 'b' ORDER BY key DESC"), ["63:", "62:2"]);
        assert_eq!(asked("WHERE key = 'a' OR key = 'b' OR key = 'nobody'").len(), of_a.len() + 1);
        let distinct = number(&db, &format!("SELECT count(*) FROM (SELECT DISTINCT key FROM {name})"));
        assert_eq!(distinct, 4);
        for sql in ["INSERT INTO {} VALUES ('x', 'y')", "DELETE FROM {}", "UPDATE {} SET value = 1"] {
            assert!(said(&db, &sql.replace("{}", name)).contains("several values"), "{sql}");
        }
    }
}

#[test]
fn tables_are_of_the_environment_that_their_schema_is_in() {
    let directory = Directory::new();
    let (db, words) = with_texts(&directory);
    let other = directory.path().join("other");
    db.execute("ATTACH ?1 AS other", [sablecat_sql::uri(&other)]).expect("another environment");
    let others = sablecat_sql::environment(&other).expect("an environment").database("words").expect("one");
    db.execute_batch(
        "CREATE VIRTUAL TABLE other.theirs USING sablecat('words', key=text, value=text);
         CREATE VIRTUAL TABLE again USING sablecat('words');
         INSERT INTO kv VALUES ('a', 'here'); INSERT INTO theirs SELECT key, 'there' FROM kv;",
    )
    .expect("tables");
    assert_eq!(words.get("a").expect("read").as_deref(), Some(&b"here"[..]));
    assert_eq!(others.get("a").expect("read").as_deref(), Some(&b"there"[..]));
    assert_eq!(number(&db, "SELECT value = x'68657265' AND key = x'61' FROM again"), 1, "the same, as blobs");
    db.execute_batch("DETACH other; ALTER TABLE kv RENAME TO renamed").expect("it goes");
    drop((db, words, others));

    // What a schema says is there when it is opened again.
    let db = directory.ours();
    assert_eq!(texts(&db, "SELECT value FROM renamed"), ["here"]);
    db.execute_batch("DROP TABLE renamed").expect("the table goes");
    let words = environment(&directory).database("words").expect("a database");
    assert_eq!(words.len().expect("read"), 1, "the database stays");
    assert_eq!(texts(&db, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn what_cannot_be_a_table_is_refused_with_a_reason() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    Queue::open(&env, "jobs", 16).expect("a queue");
    env.database("plain").expect("a database");
    let refused = |what: &str| said(&db, &format!("CREATE VIRTUAL TABLE kv USING sablecat({what})"));
    assert!(refused("'nobody'").contains("there is no database \"nobody\""));
    assert!(refused("'\u{1}sql'").contains("one of SQL's own"));
    assert!(refused("'\u{1}sql:1'").contains("one of SQL's own"));
    assert!(refused("jobs, key=text").contains("holds a queue"));
    assert!(refused("jobs, subscripts=3").contains("holds a queue"));
    assert!(refused("").contains("wants the name"));
    assert!(refused("plain, key=real").contains("key=real"));
    assert!(said(&db, "CREATE VIRTUAL TABLE temp.kv USING sablecat(plain)").contains("no environment"));
    assert!(
        said(&directory.stock(), "CREATE VIRTUAL TABLE kv USING sablecat(plain)").contains("no environment")
    );

    db.execute_batch("CREATE VIRTUAL TABLE kv USING sablecat(plain)").expect("a table");
    for (sql, why) in [
        ("INSERT INTO kv VALUES ('a', x'00')", "made of blobs"),
        ("INSERT INTO kv VALUES (x'00', 1)", "made of blobs"),
        ("INSERT INTO kv VALUES (zeroblob(70000), x'')", "70000"),
    ] {
        assert!(said(&db, sql).contains(why), "{sql}: {}", said(&db, sql));
    }
    env.remove_database("plain").expect("it goes");
    assert!(said(&db, "SELECT * FROM kv").contains("no database \"plain\" any more"));
    env.database_holding("plain", Holds::Values(Duplicates::Sorted)).expect("another one");
    assert!(said(&db, "SELECT * FROM kv").contains("created again"));
    drop(env);
    drop(db);
    let db = directory.ours();
    assert_eq!(number(&db, "SELECT count(*) FROM kv"), 0);
    environment(&directory).remove_database("plain").expect("it goes");
    Queue::open(&environment(&directory), "plain", 16).expect("a queue");
    drop(db);
    let db = directory.ours();
    assert_eq!(texts(&db, "SELECT name FROM pragma_table_xinfo('kv')"), ["number", "value"], "as it is now");
    environment(&directory).remove_database("plain").expect("it goes");
    drop(db);
    let db = directory.ours();
    let failed = db.execute_batch("INSERT INTO kv VALUES (x'00', x'')").expect_err("it is gone");
    assert_eq!(failed.sqlite_error_code(), Some(ErrorCode::Unknown), "{failed}");
    db.execute_batch("DROP TABLE kv").expect("it is dropped all the same");
}

#[test]
fn a_copy_that_is_a_file_says_that_there_are_no_records_and_is_whole_but_for_these() {
    let directory = Directory::new();
    let (db, _) = with_texts(&directory);
    db.execute_batch("INSERT INTO kv VALUES ('a', 'b'); CREATE TABLE own (x); INSERT INTO own VALUES (1)")
        .expect("rows");
    let path = directory.path().join("copy.db");
    db.execute("VACUUM INTO ?1", [path.to_str().expect("a path of text")]).expect("a copy");
    let copy = Connection::open(&path).expect("a file");
    assert_eq!(texts(&copy, "PRAGMA integrity_check"), ["ok"]);
    assert_eq!(number(&copy, "SELECT x FROM own"), 1);
    for sql in ["SELECT * FROM kv", "INSERT INTO kv VALUES ('a', 'b')", "DELETE FROM kv"] {
        assert!(said(&copy, sql).contains("is no environment of sablecat"), "{sql}: {}", said(&copy, sql));
    }
    copy.execute_batch("DROP TABLE kv").expect("it goes");
}

#[test]
fn like_and_glob_find_blobs_too() {
    let directory = Directory::new();
    let db = directory.ours();
    environment(&directory).database("b").expect("a database");
    db.execute_batch(
        "PRAGMA case_sensitive_like = ON;
         CREATE VIRTUAL TABLE kv USING sablecat('b', value=text);
         INSERT INTO kv VALUES (x'6162', 'ab'), (x'6263', 'bc')",
    )
    .expect("a table of blobs");
    for condition in ["key GLOB 'a*'", "key LIKE 'a%'", "key GLOB 'ab'"] {
        assert_eq!(texts(&db, &format!("SELECT value FROM kv WHERE {condition}")), ["ab"], "{condition}");
    }
}

#[test]
fn text_that_utf_16_does_not_hold_is_refused_and_no_other_record_is_taken_for_it() {
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch("PRAGMA encoding = 'UTF-16le'").expect("an encoding");
    let database = environment(&directory).database("b").expect("a database");
    db.execute_batch("CREATE VIRTUAL TABLE kv USING sablecat('b', key=text, value=text)").expect("a table");
    database.insert("\u{fffd}", "two").expect("a record");
    for key in [&b"\xff"[..], "\u{fffe}".as_bytes()] {
        database.insert(key, "one").expect("a record");
        for change in ["DELETE FROM kv WHERE value = 'one'", "UPDATE kv SET value = value || '!'"] {
            let said = said(&db, change);
            assert!(said.contains("is no text that UTF-16 can hold"), "{said}");
        }
        assert_eq!(database.len().expect("read"), 2);
        database.remove(key).expect("a record goes");
    }
    for sql in
        ["INSERT INTO kv VALUES (CAST(x'00d8' AS TEXT), '')", "UPDATE kv SET value = CAST(x'00d8' AS TEXT)"]
    {
        let said = said(&db, sql);
        assert!(said.contains("is no text that UTF-16 can hold"), "{said}");
    }
    assert_eq!(db.execute("UPDATE kv SET value = value || '!'", []).expect("it is text"), 1);
    assert_eq!(database.get("\u{fffd}").expect("read"), Some(b"two!".to_vec()));
}

#[test]
fn a_record_does_not_replace_another_by_a_change_of_its_key() {
    let directory = Directory::new();
    let (db, words) = with_texts(&directory);
    db.execute_batch("INSERT INTO kv VALUES ('a', 'va'), ('b', 'vb'), ('c', 'vc')").expect("rows");
    let said = said(&db, "UPDATE OR REPLACE kv SET key = char(unicode(key) + 1)");
    assert!(said.contains("remove that one first"), "{said}");
    assert_eq!(texts(&db, "SELECT key || value FROM kv"), ["ava", "bvb", "cvc"], "none was changed");
    assert_eq!(db.execute("UPDATE OR REPLACE kv SET key = key || 'x'", []).expect("nobody is there"), 3);
    assert_eq!(words.len().expect("read"), 3);
}

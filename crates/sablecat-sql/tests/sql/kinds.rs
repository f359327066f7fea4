//! Databases that hold something else than plain records, as tables: queues, records by number, globals,
//! records that expire, and keys and values that have types.

use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use sablecat::globals::Globals;
use sablecat::typed::Typed;
use sablecat::{Expiring, Moment, Numbered, Queue};

use crate::asked::{BUSY_SNAPSHOT, code, number, texts};
use crate::directory::Directory;
use crate::key_value::{environment, plan, said};

pub(crate) fn make(db: &Connection, table: &str, arguments: &str) {
    db.execute_batch(&format!("CREATE VIRTUAL TABLE {table} USING sablecat({arguments})")).expect("a table");
}

/// What a statement fails with that reads.
fn said_of_rows(db: &Connection, sql: &str) -> String {
    let read = db.prepare(sql).and_then(|mut statement| {
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    });
    read.expect_err(sql).to_string()
}

/// What kind of error a statement fails with.
fn error_code(db: &Connection, sql: &str) -> Option<ErrorCode> {
    db.execute_batch(sql).expect_err(sql).sqlite_error_code()
}

#[test]
fn rows_of_a_queue_are_appended_and_taken() {
    let directory = Directory::new();
    let db = directory.ours();
    let jobs = Queue::open_padded(&environment(&directory), "jobs", 6, b'.').expect("a queue");
    make(&db, "jobs", "jobs, value=text");
    jobs.append_one("wash").expect("a record");
    db.execute_batch("INSERT INTO jobs (value) VALUES ('dry'), ('iron'), ('fold')").expect("rows");
    assert_eq!(db.last_insert_rowid(), 4);
    environment(&directory).database("kv").expect("a database");
    make(&db, "kv", "kv, key=text, value=text");
    db.execute_batch("INSERT INTO kv VALUES ('a', 'b')").expect("a row");
    assert_eq!(db.last_insert_rowid(), 4, "it has no number");
    let rows = || texts(&db, "SELECT number || value FROM jobs");
    assert_eq!(rows(), ["1wash..", "2dry...", "3iron..", "4fold.."]);
    assert_eq!(texts(&db, "SELECT value FROM jobs WHERE number = 3"), ["iron.."]);
    assert_eq!(
        texts(&db, "SELECT '' || number FROM jobs WHERE number BETWEEN 2 AND 3.5 ORDER BY number DESC"),
        ["3", "2"]
    );
    assert!(plan(&db, "SELECT * FROM jobs WHERE number > 2 ORDER BY number DESC").ends_with(":number>?"));

    assert_eq!(jobs.consume_one().expect("read"), Some((1, b"wash..".to_vec())));
    db.execute_batch("DELETE FROM jobs WHERE number = (SELECT min(number) FROM jobs)").expect("the first");
    db.execute_batch("UPDATE jobs SET value = 'press' WHERE number = 3").expect("a row");
    db.execute_batch("DELETE FROM jobs WHERE number = 4").expect("the last");
    assert_eq!(rows(), ["3press."]);
    db.execute_batch("DELETE FROM jobs").expect("rows");
    assert_eq!((rows().len(), jobs.len(&environment(&directory)).expect("read")), (0, 0));
    db.execute_batch("INSERT INTO jobs (value) VALUES ('again')").expect("a row");
    assert!(number(&db, "SELECT number FROM jobs") > 4, "no number comes twice");

    for (sql, why) in [
        ("UPDATE jobs SET number = 99", "keeps its number"),
        ("INSERT INTO jobs SELECT number, 'x' FROM jobs", "UNIQUE constraint failed: jobs.number"),
        ("INSERT INTO jobs (value) VALUES ('longer than six')", "15 bytes"),
        ("INSERT INTO jobs (value) VALUES (NULL)", "NOT NULL constraint failed: jobs.value"),
        ("INSERT INTO jobs (value) VALUES (x'00')", "jobs.value is made of text"),
    ] {
        assert!(said(&db, sql).contains(why), "{sql}: {}", said(&db, sql));
    }
    assert_eq!(error_code(&db, "INSERT INTO jobs (value) VALUES (x'00')"), Some(ErrorCode::TypeMismatch));
    assert_eq!(rows().len(), 1);

    // As when what was dumped is loaded.
    db.execute_batch(
        "INSERT INTO jobs VALUES (1000, 'x'); REPLACE INTO jobs VALUES (1000, 'y');
         INSERT INTO jobs (value) VALUES ('z')",
    )
    .expect("rows");
    assert_eq!(rows()[1..], ["1000y.....", "1001z....."]);
    db.execute_batch("INSERT INTO jobs VALUES (9223372036854775807, 'last')").expect("a row");
    assert!(said(&db, "INSERT INTO jobs (value) VALUES ('x')").contains("which SQL does not have"));
    assert_eq!(rows().len(), 4);
}

#[test]
fn what_a_consumer_has_in_hand_is_nobody_elses() {
    let directory = Directory::new();
    let db = directory.ours();
    db.busy_timeout(Duration::ZERO).expect("a setting");
    let env = environment(&directory);
    let jobs = Queue::open(&env, "jobs", 1).expect("a queue");
    make(&db, "jobs", "jobs");
    for job in ["a", "b"] {
        jobs.append_one(job).expect("a record");
    }
    let mut consumer = env.begin().expect("a transaction");
    assert_eq!(jobs.consume(&mut consumer).expect("a record").map(|(number, _)| number), Some(1));
    assert_eq!(error_code(&db, "DELETE FROM jobs WHERE number = 1"), Some(ErrorCode::DatabaseBusy));
    assert_eq!(db.execute("DELETE FROM jobs WHERE number = 2", []).expect("a row"), 1);
    consumer.commit().expect("it commits");
    assert_eq!(jobs.len(&env).expect("read"), 0);

    // Of two that take one record, one does.
    jobs.append_one("c").expect("a record");
    db.execute_batch("BEGIN; DELETE FROM jobs").expect("rows");
    assert!(jobs.consume_one().expect("a record").is_some());
    assert_eq!(code(&db.execute_batch("COMMIT")), Some(BUSY_SNAPSHOT));
    db.execute_batch("BEGIN; INSERT INTO jobs (value) VALUES (x'64'); ROLLBACK").expect("undone");
    assert!(jobs.consume_one().expect("read").is_none());
}

#[test]
fn numbered_records_are_rows_by_number() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    let lines = Numbered::open(&env, "lines").expect("a database");
    make(&db, "lines", "'lines', value = text");
    db.execute_batch("INSERT INTO lines VALUES (NULL, 'one'), (7, 'seven'), (NULL, 'eight')").expect("rows");
    assert_eq!(db.last_insert_rowid(), 8);
    db.execute_batch("INSERT INTO lines VALUES (3, 'three')").expect("a row");
    assert_eq!(db.last_insert_rowid(), 3);
    assert_eq!(texts(&db, "SELECT number || value FROM lines"), ["1one", "3three", "7seven", "8eight"]);
    assert_eq!(lines.get(&env, 7).expect("read").as_deref(), Some(&b"seven"[..]));
    assert!(
        said(&db, "INSERT INTO lines VALUES (7, 'x')").contains("UNIQUE constraint failed: lines.number")
    );
    assert_eq!(error_code(&db, "INSERT INTO lines VALUES (7, 'x')"), Some(ErrorCode::ConstraintViolation));
    db.execute_batch(
        "INSERT OR IGNORE INTO lines VALUES (7, 'x'); REPLACE INTO lines VALUES ('8', 'EIGHT');
         UPDATE lines SET number = number + 10 WHERE number < 4; DELETE FROM lines WHERE number = 7",
    )
    .expect("rows");
    assert_eq!(texts(&db, "SELECT number || value FROM lines"), ["8EIGHT", "11one", "13three"]);
    for wrong in ["0", "-1", "'x'", "1.5"] {
        let sql = format!("INSERT INTO lines VALUES ({wrong}, 'x')");
        assert!(said(&db, &sql).contains("lines.number is made of integers above 0"), "{sql}");
    }
    assert_eq!(number(&db, "SELECT count(*) FROM lines WHERE number > -5 AND number < 1e30"), 3);
    assert_eq!(
        number(&db, "SELECT count(*) FROM lines WHERE number = 11.5 OR number < 0 OR number > 'x'"),
        0
    );
    env.write(|txn| lines.put(txn, u64::MAX, "beyond")).expect("a record");
    assert!(said_of_rows(&db, "SELECT * FROM lines").contains("SQL has no integer 18446744073709551615"));

    Numbered::open_fixed(&env, "fixed", 3, b'-').expect("a database");
    make(&db, "fixed", "fixed, value=text");
    db.execute_batch("INSERT INTO fixed VALUES (NULL, 'a'), (5, 'abc')").expect("rows");
    assert_eq!(texts(&db, "SELECT number || value FROM fixed"), ["1a--", "5abc"]);
    assert!(said(&db, "INSERT INTO fixed VALUES (6, 'abcd')").contains("records of 3 bytes"));
}

#[test]
fn numbers_that_close_up_are_places() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    Numbered::open_renumbered(&env, "lines").expect("a database");
    make(&db, "lines", "lines, value=text");
    db.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
         INSERT INTO lines (value) SELECT i FROM n",
    )
    .expect("rows");
    assert_eq!(db.last_insert_rowid(), 500);
    assert_eq!(number(&db, "SELECT count(*) FROM lines WHERE number = value"), 500);
    assert_eq!(db.execute("DELETE FROM lines WHERE value % 2 = 0", []).expect("rows"), 250);
    assert_eq!(number(&db, "SELECT count(*) FROM lines WHERE value = 2 * number - 1"), 250);
    db.execute_batch("INSERT INTO lines VALUES (2, 'second'), (252, 'last'), (1, 'first')").expect("rows");
    let ends = |order: &str| texts(&db, &format!("SELECT number || ':' || value FROM lines {order} LIMIT 3"));
    assert_eq!(ends("ORDER BY number"), ["1:first", "2:1", "3:second"]);
    assert_eq!(ends("ORDER BY number DESC"), ["253:last", "252:499", "251:497"]);
    for (condition, wanted) in [
        ("number = 3", &["3:second"][..]),
        ("number > 251.5", &["252:499", "253:last"]),
        ("number >= 251 AND number < 253", &["251:497", "252:499"]),
        ("number < 3 ORDER BY number DESC", &["2:1", "1:first"]),
        ("number <= 0", &[]),
        ("number > 253", &[]),
        ("number = 254", &[]),
    ] {
        let sql = format!("SELECT number || ':' || value FROM lines WHERE {condition}");
        assert_eq!(texts(&db, &sql), wanted, "{condition}");
        assert!(!plan(&db, &sql).ends_with("INDEX 0:"), "{condition}");
    }
    db.execute_batch("UPDATE lines SET value = 'changed' WHERE number = 3").expect("a row");
    assert_eq!(texts(&db, "SELECT value FROM lines WHERE number = 3"), ["changed"]);
    assert!(
        said(&db, "UPDATE lines SET number = 9 WHERE number = 3").contains("its position among all records")
    );
    assert!(said(&db, "INSERT INTO lines VALUES (300, 'x')").contains("they have no gaps"));
    // Removed one after the other, each by what it was.
    db.execute_batch("DELETE FROM lines WHERE number IN (1, 2, 3)").expect("rows");
    assert_eq!(ends(""), ["1:3", "2:5", "3:7"]);
}

/// A node of a table of globals, as text.
const NODE: &str = "SELECT global || '(' || quote(s1) || ',' || quote(s2) || ')=' || value FROM acct";

#[test]
fn nodes_of_globals_are_rows() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    let globals = Globals::open(&env, "globals").expect("globals");
    make(&db, "acct", "globals, subscripts=2, value=text");
    env.write(|txn| {
        let acct = globals.global("acct")?;
        acct.set(txn, "all")?;
        acct.at(42).set(txn, "gold")?;
        acct.at(42).at("name").set(txn, "Ada")?;
        acct.at("x").set(txn, "text")?;
        acct.at(7).at(-2).set(txn, "seven")?;
        globals.global("b")?.at("").set(txn, "empty")
    })
    .expect("nodes");
    let asked = |what: &str| texts(&db, &format!("{NODE} {what}"));
    let all = [
        "acct(NULL,NULL)=all",
        "acct(7,-2)=seven",
        "acct(42,NULL)=gold",
        "acct(42,'name')=Ada",
        "acct('x',NULL)=text",
        "b('',NULL)=empty",
    ];
    assert_eq!(asked(""), all);
    assert_eq!(asked("WHERE global = 'acct' AND s1 = 42"), all[2..4]);
    assert_eq!(asked("WHERE global = 'acct' AND s1 = '42'"), [""; 0], "a number is no text to SQL");
    assert_eq!(asked("WHERE global = 'acct' AND s1 BETWEEN 7 AND 42"), all[1..4]);
    assert_eq!(asked("WHERE global > 'acct'"), all[5..]);
    assert!(
        plan(&db, "SELECT * FROM acct WHERE global = 'acct' AND s1 = 42 AND s2 > 'a'")
            .ends_with(":global=? AND s1=? AND s2>?")
    );

    db.execute_batch(
        "INSERT INTO acct VALUES ('acct', 42, 'visits', 1), ('new', NULL, NULL, 'n'),
                                 ('acct', '43', 2.5, 'half');
         UPDATE acct SET value = value + 1 WHERE s2 = 'visits';
         UPDATE acct SET s1 = 8 WHERE s1 = 7;
         DELETE FROM acct WHERE global = 'b'",
    )
    .expect("rows");
    let acct = globals.global("acct").expect("a name");
    assert_eq!(acct.at(42).at("visits").get(&env).expect("read").as_deref(), Some(&b"2"[..]));
    assert_eq!(acct.at(43).at("2.5").get(&env).expect("read").as_deref(), Some(&b"half"[..]));
    assert_eq!(acct.at(8).at(-2).get(&env).expect("read").as_deref(), Some(&b"seven"[..]));
    assert!(globals.global("b").expect("a name").first_child(&env).expect("read").is_none());
    for (sql, why) in [
        (
            "INSERT INTO acct VALUES ('acct', 42, 'visits', 1)",
            "UNIQUE constraint failed: acct.global, acct.s1, acct.s2",
        ),
        ("INSERT INTO acct VALUES ('1st', 1, 1, 1)", "acct.global is made of names of globals"),
        ("INSERT INTO acct VALUES ('a-b', 1, 1, 1)", "acct.global is made of names of globals"),
        ("INSERT INTO acct VALUES (NULL, 1, 1, 1)", "NOT NULL constraint failed: acct.global"),
        ("INSERT INTO acct VALUES ('a', NULL, 1, 1)", "NOT NULL constraint failed: acct.s1"),
        (
            "INSERT INTO acct VALUES ('a', x'00', 1, 1)",
            "acct.s1 is made of numbers, of 18 digits at most, and text",
        ),
        ("INSERT INTO acct VALUES ('a', 1e300, 1, 1)", "acct.s1 is made of numbers"),
        ("INSERT INTO acct VALUES ('a', 1152921504606846976, 1, 1)", "acct.s1 is made of numbers"),
    ] {
        assert!(said(&db, sql).contains(why), "{sql}: {}", said(&db, sql));
    }
    env.write(|txn| acct.at(1).at(2).at(3).set(txn, "deep")).expect("a node");
    assert!(
        said_of_rows(&db, "SELECT * FROM acct").contains("3 subscripts, which are columns with subscripts=3")
    );
    assert_eq!(asked("WHERE global = 'acct' AND s1 = 42").len(), 3, "the rest can be read");
}

#[test]
fn records_that_expire_say_when() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    let sessions = Expiring::open(&env, "sessions").expect("a database");
    make(&db, "sessions", "sessions, key=text, value=text");
    env.write(|txn| {
        sessions.insert(txn, "a", "ada", sablecat::Lifetime::Unlimited)?;
        sessions.insert(txn, "b", "bob", Duration::ZERO)?;
        sessions.insert(txn, "c", "cy", Moment { ms: 1 << 45 })
    })
    .expect("records");
    let rows = || texts(&db, "SELECT key || value || coalesce(expires, '') FROM sessions");
    assert_eq!(rows(), ["aada".to_owned(), format!("ccy{}", 1u64 << 45)]);
    assert_eq!(number(&db, "SELECT count(*) FROM sessions WHERE key = 'b'"), 0);
    db.execute_batch(
        "INSERT INTO sessions VALUES ('b', 'bea', NULL), ('d', 'dan', unixepoch() * 1000 + 3600000),
                                     ('e', 'eve', 0);
         UPDATE sessions SET expires = 1 WHERE key = 'c'",
    )
    .expect("rows");
    assert_eq!(texts(&db, "SELECT key FROM sessions ORDER BY key DESC"), ["d", "b", "a"]);
    assert!(said(&db, "INSERT INTO sessions VALUES ('b', 'bill', NULL)").contains("UNIQUE"));
    assert!(said(&db, "INSERT INTO sessions VALUES ('f', 'f', 'soon')").contains("milliseconds since 1970"));
    db.execute_batch("UPDATE sessions SET expires = unixepoch('now', 'subsec') * 1000 + 1e9 WHERE key = 'd'")
        .expect("a real is a time, too");
    assert_eq!(
        number(&db, "SELECT expires > unixepoch() * 1000 + 900000000 FROM sessions WHERE key = 'd'"),
        1
    );
    assert_eq!(sessions.len(&env).expect("read"), 3);
    assert_eq!(env.sweep().expect("swept"), 2);
    assert!(sessions.verify(&env).expect("read").is_empty(), "the index by time is right");
    db.execute_batch("DELETE FROM sessions").expect("rows");
    assert!(sessions.is_empty(&env).expect("read") && sessions.verify(&env).expect("read").is_empty());
}

#[test]
fn typed_keys_and_values_are_columns() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    let orders: Typed<(String, i64), f64> = Typed::open(&env, "orders").expect("a database");
    make(&db, "orders", "orders, key=(customer text, day integer), value=f64");
    for (customer, day, sum) in [("ada", 3, 1.5), ("ada", -4, 2.0), ("bob", 1, 0.25)] {
        env.write(|txn| orders.insert(txn, &(customer.to_owned(), day), &sum)).expect("a record");
    }
    db.execute_batch("INSERT INTO orders VALUES ('ada', 10, 7), ('al', '5', 2.5)").expect("rows");
    assert_eq!(orders.get(&env, &("al".to_owned(), 5)).expect("read"), Some(2.5));
    assert_eq!(
        texts(&db, "SELECT customer || day || ':' || value FROM orders"),
        ["ada-4:2.0", "ada3:1.5", "ada10:7.0", "al5:2.5", "bob1:0.25"]
    );
    assert_eq!(
        texts(&db, "SELECT '' || day FROM orders WHERE customer = 'ada' AND day > -4 ORDER BY day DESC"),
        ["10", "3"]
    );
    for (sql, how) in [
        ("customer = 'ada' AND day > 3 ORDER BY day DESC", ":customer=? AND day>?"),
        ("customer = 'ada' AND day = 3", ":customer=? AND day=?"),
        ("customer >= 'b' ORDER BY customer, day", ":customer>=?"),
        ("day = 3 AND customer < 'b' ORDER BY customer", ":customer<?"),
    ] {
        let plan = plan(&db, &format!("SELECT * FROM orders WHERE {sql}"));
        assert!(plan.ends_with(how), "{sql}: {plan}");
    }
    for order in ["customer, day DESC", "day", "value"] {
        assert!(
            plan(&db, &format!("SELECT * FROM orders ORDER BY {order}")).contains("TEMP B-TREE"),
            "{order}"
        );
    }
    db.execute_batch("UPDATE orders SET day = day + 1, value = 2 * value WHERE customer = 'ada'")
        .expect("rows");
    assert_eq!(orders.get(&env, &("ada".to_owned(), 11)).expect("read"), Some(14.0));
    assert!(
        said(&db, "INSERT INTO orders VALUES ('ada', 11, 0)")
            .contains("UNIQUE constraint failed: orders.customer, orders.day")
    );
    for (sql, why) in [
        ("INSERT INTO orders VALUES ('ada', 'x', 0)", "orders.day is made of integers"),
        ("INSERT INTO orders VALUES (x'00', 1, 0)", "orders.customer is made of text"),
        ("INSERT INTO orders VALUES ('ada', 1, 'x')", "orders.value is made of f64"),
    ] {
        assert!(said(&db, sql).contains(why), "{sql}: {}", said(&db, sql));
    }
    // What is of another type is told, and nothing else is made of it.
    env.database("orders").expect("a database").insert("\u{2}zoe\0", "12345678").expect("a record");
    assert!(said_of_rows(&db, "SELECT * FROM orders").contains("1 elements in place of 2"));
    assert_eq!(number(&db, "SELECT count(*) FROM orders WHERE customer = 'ada'"), 3);

    for (kind, good, bad) in [
        ("u8", "255", "256"),
        ("i16", "-32768", "32768"),
        ("u64", "9223372036854775807", "-1"),
        ("bool", "1", "2"),
        ("f32", "0.5", "1e300"),
        ("i64", "9223372036854774784.0", "9223372036854775808.0"),
        ("i64", "'-9'", "1.5"),
    ] {
        let name = format!("of_{kind}");
        let _ = env.remove_database(&name).expect("it may be there");
        db.execute_batch(&format!("DROP TABLE IF EXISTS {name}")).expect("it may be there");
        env.database(&name).expect("a database");
        make(&db, &name, &format!("{name}, key=text, value={kind}"));
        db.execute_batch(&format!("INSERT INTO {name} VALUES ('k', {good})")).expect(kind);
        assert_eq!(number(&db, &format!("SELECT value = 0 + {good} FROM {name}")), 1, "{kind}");
        assert_eq!(
            error_code(&db, &format!("UPDATE {name} SET value = {bad}")),
            Some(ErrorCode::TypeMismatch)
        );
        env.database(&name).expect("it").insert("short", "").expect("a record");
        assert!(
            said_of_rows(&db, &format!("SELECT * FROM {name}")).contains("does not fit this table"),
            "{kind}"
        );
    }
    for arguments in [
        "orders, key=()",
        "orders, key=(a)",
        "orders, key=(a text, A blob)",
        "orders, key=(value text)",
        "orders, key=(a decimal)",
        "orders, value=(a text)",
        "orders, key=text, key=blob",
        "orders, value=text, value=text",
    ] {
        db.execute_batch(&format!("CREATE VIRTUAL TABLE wrong USING sablecat({arguments})"))
            .expect_err(arguments);
    }
}

#[test]
fn what_cannot_be_found_by_its_values_is_told() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    let tuples = env.database("tuples").expect("a database");
    make(&db, "tuples", "tuples, key=(n integer)");
    tuples.insert(b"\x16\x00\x13", "").expect("an integer with a zero in front");
    assert!(said_of_rows(&db, "SELECT n FROM tuples").contains("written in another way"));
    let nodes = Globals::open(&env, "nodes").expect("globals");
    make(&db, "nodes", "nodes");
    let one = nodes.global("a").expect("a name").at(1).key().to_vec();
    let digits = [&one[..one.len() - 1], &[1, 0]].concat();
    nodes.database().insert(digits, "").expect("a number with zeros behind");
    assert!(said_of_rows(&db, "SELECT s1 FROM nodes").contains("does not fit this table"));
    for (name, holds) in [("numbers", false), ("queue", true)] {
        let database = match holds {
            true => Queue::open(&env, name, 1).expect("a queue").database().clone(),
            false => Numbered::open(&env, name).expect("records").database().clone(),
        };
        make(&db, name, name);
        database.insert([0; 8], "x").expect("a record");
        assert!(said_of_rows(&db, &format!("SELECT number FROM {name}")).contains("not a number above 0"));
    }
    let sessions = Expiring::open(&env, "sessions").expect("a database");
    make(&db, "sessions", "sessions, key=text");
    sessions.database().insert("k", "short").expect("a record");
    assert!(said_of_rows(&db, "SELECT value FROM sessions").contains("it has no expiry time"));
    assert_eq!(db.execute("DELETE FROM sessions", []), Ok(1), "it can be removed");

    // What is no number is null to SQL, and the other way round.
    let reals: Typed<String, f64> = Typed::open(&env, "reals").expect("a database");
    make(&db, "reals", "reals, key=(k text), value=f64");
    env.write(|txn| reals.insert(txn, "nan", &f64::NAN)).expect("a record");
    db.execute_batch("INSERT INTO reals VALUES ('null', NULL), ('one', 1); UPDATE reals SET k = k || '!'")
        .expect("rows");
    assert_eq!(texts(&db, "SELECT k FROM reals WHERE value IS NULL"), ["nan!", "null!"]);
    assert!(reals.get(&env, "null!").expect("read").is_some_and(f64::is_nan));
}

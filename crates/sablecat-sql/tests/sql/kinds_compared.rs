//! Tables of databases of keys and values, beside ones of SQL's own with the same rows: what is compared with
//! their columns, in every way, and in which order they come.

use rusqlite::Connection;
use sablecat::Method;
use sablecat::globals::Globals;
use sablecat::tuple::{self, Element, Integer, Uuid};

use crate::asked::{number, setting, texts};
use crate::dice::Dice;
use crate::directory::Directory;
use crate::key_value::environment;
use crate::kinds::make;

/// A table of SQL's own with the rows of another, of which the columns have types.
fn own(db: &Connection, table: &str, columns: &str) {
    db.execute_batch(&format!(
        "DROP TABLE IF EXISTS own; CREATE TABLE own ({columns}); INSERT INTO own SELECT * FROM {table}"
    ))
    .expect("rows");
}

/// That a statement on a table shows what it does on `own`.
fn is_same(db: &Connection, table: &str, sql: &str) {
    let rows = [table, "own"].map(|table| texts(db, &sql.replace("{}", table)));
    assert_eq!(rows[0], rows[1], "{sql}");
}

#[test]
fn values_are_compared_as_sql_compares_those_of_two_columns() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    env.database("kv").expect("a database");
    env.database("two").expect("a database");
    make(&db, "kv", "kv, key=text, value=text");
    make(&db, "two", "two, key=(a text, b integer), value=text");
    db.execute_batch(
        "INSERT INTO kv VALUES ('', ''), ('1', ''), ('01', ''), ('2', ''), ('A', ''), ('a', ''), ('é', '');
         INSERT INTO two VALUES ('01', 1, 'x'), ('1', 2, 'y'), ('a', 3, 'z');
         CREATE TABLE o (u, i INTEGER, t TEXT, r REAL, b BLOB);
         INSERT INTO o VALUES (2, 2, '2', 2.0, x'32'), ('1', 1, '1', 1.0, '1'),
                              (NULL, NULL, NULL, NULL, NULL),
                              ('a', 3, 'a', 0.5, 'a'), (x'31', 7, '01', -1.0, 1);",
    )
    .expect("rows");
    own(&db, "kv", "key TEXT, value TEXT");
    for operator in ["=", "<", "<=", ">", ">=", "IS"] {
        for column in ["u", "i", "t", "r", "b", "+t", "+i", "CAST(i AS TEXT)", "CAST(t AS BLOB)", "t || ''"] {
            for on in [format!("key {operator} {column}"), format!("{column} {operator} key")] {
                let sql = format!("SELECT quote(key) || o.rowid FROM o CROSS JOIN {{}} ON {on} ORDER BY 1");
                is_same(&db, "kv", &sql);
            }
        }
    }
    for within in ["SELECT u FROM o", "SELECT b FROM o", "SELECT i FROM o", "1, '1', x'31', 'a'"] {
        is_same(&db, "kv", &format!("SELECT key FROM {{}} WHERE key IN ({within}) ORDER BY key"));
    }
    own(&db, "two", "a TEXT, b INTEGER, value TEXT");
    is_same(&db, "two", "SELECT value FROM {} WHERE (a, b) IN (SELECT 'A' COLLATE NOCASE, 3) ORDER BY value");
    for (one, other) in [("i", "i"), ("t", "i"), ("u", "u"), ("t", "t"), ("b", "r")] {
        for sql in [
            format!("SELECT value FROM {{}} WHERE (a, b) IN (SELECT {one}, {other} FROM o) ORDER BY value"),
            format!("SELECT value FROM {{}} WHERE (b, a) IN (SELECT {one}, {other} FROM o) ORDER BY value"),
            format!(
                "SELECT value || o.rowid FROM o CROSS JOIN {{}} AS k ON (k.a, k.b) >= (o.{one}, o.{other}) \
                 ORDER BY 1"
            ),
        ] {
            is_same(&db, "two", &sql);
        }
    }
}

#[test]
fn two_zeros_are_one_to_sql() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    for (name, method) in [("tree", Method::Btree), ("hash", Method::Hash)] {
        let database = env.database_as(name, method).expect("a database");
        make(&db, name, &format!("{name}, key=(r real, n integer), value=text"));
        for zero in [0.0, -0.0] {
            database.insert(tuple::pack(&(zero, 5)), "").expect("a record");
        }
        database.insert(tuple::pack(&(1.0, 5)), "").expect("a record");
        assert_eq!(number(&db, &format!("SELECT count(*) FROM {name} WHERE r = 0 AND n = 5")), 2, "{name}");
        assert_eq!(db.execute(&format!("UPDATE {name} SET value = 'x' WHERE r = 0 AND n = 5"), []), Ok(2));
        assert_eq!(db.execute(&format!("DELETE FROM {name} WHERE r = 0 AND n = 5"), []), Ok(2));
        assert_eq!(database.len().expect("read"), 1);
    }
}

#[test]
fn a_key_may_have_more_columns_than_conditions_are_taken_of() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    for (name, method) in [("tree", Method::Btree), ("hash", Method::Hash)] {
        env.database_as(name, method).expect("a database");
        let columns: Vec<String> = (0..40).map(|n| format!("c{n} {}", ["text", "blob"][n % 2])).collect();
        make(&db, name, &format!("{name}, key=({}), value=text", columns.join(", ")));
        let values =
            |of: u8| (0..40).map(move |n| [format!("'{of}'"), format!("x'{of:02x}'")][n % 2].clone());
        for of in 0..3 {
            let values: Vec<String> = values(of).collect();
            db.execute_batch(&format!("INSERT INTO {name} VALUES ({}, '{of}')", values.join(", ")))
                .expect("a row");
        }
        let all: Vec<String> = values(1).enumerate().map(|(n, value)| format!("c{n} = {value}")).collect();
        assert_eq!(texts(&db, &format!("SELECT value FROM {name} WHERE {}", all.join(" AND "))), ["1"]);
        let all: Vec<String> = (0..40).map(|n| format!("one.c{n} = other.c{n}")).collect();
        let joined =
            format!("SELECT count(*) FROM {name} AS one JOIN {name} AS other ON {}", all.join(" AND "));
        assert_eq!(number(&db, &joined), 3);
    }
}

/// Conditions on the columns of a table show the rows that they do in one of SQL's own, in its order.
fn is_as_own(db: &Connection, table: &str, columns: &[(&str, &[&str])], dice: &mut Dice) {
    let shown: Vec<_> = columns
        .iter()
        .map(|(name, _)| format!("quote(0 + {name}) || typeof({name}) || quote({name})"))
        .collect();
    // Of the two zeros SQL knows one.
    let shown = shown.join(" || ',' || ").replace("quote(0 + r) || typeof(r) || quote(r)", "quote(0.0 + r)");
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    for round in 0..setting("SABLECAT_TEST_SQL_SEEDS", 40) * 10 {
        let mut conditions = Vec::new();
        for _ in 0..dice.below(4) {
            let (name, values) = columns[dice.below(columns.len() as u64) as usize];
            let mut value = || values[dice.below(values.len() as u64) as usize];
            let (one, other) = (value(), value());
            let operator = ["=", "<", "<=", ">", ">=", "IS", "<>"][dice.below(7) as usize];
            conditions.push(match dice.below(6) {
                0 => format!("{name} IN ({one}, {other})"),
                1 => format!("{name} BETWEEN {one} AND {other}"),
                _ => format!("{name} {operator} {one}"),
            });
        }
        // Also those that begin as the key does.
        for (name, values) in &columns[..dice.below(columns.len() as u64) as usize] {
            conditions.push(format!("{name} = {}", values[dice.below(values.len() as u64) as usize]));
        }
        let condition = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") };
        let down = ["", " DESC"][dice.below(2) as usize];
        let order = names.iter().map(|name| format!("{name}{down}")).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT {shown} FROM {{}} WHERE {condition} ORDER BY {order}");
        let rows = [table, "own"].map(|table| texts(db, &sql.replace("{}", table)));
        assert_eq!(rows[0], rows[1], "round {round}: {sql}");
    }
}

#[test]
fn conditions_on_typed_keys_are_as_on_columns_of_sqls_own() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    let database = env.database("t").expect("a database");
    make(&db, "t", "t, key=(r real, n integer, t text, b blob, y boolean, u uuid)");
    let mut dice = Dice::new(setting("SABLECAT_TEST_FROM", 0));
    let integers = [i64::MIN, -1, 0, 1, 2, 255, 256, (1 << 53) + 1, i64::MAX];
    let reals =
        [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1.0, 2.5, 9_007_199_254_740_992.0, 9.3e18, f64::INFINITY];
    let texts_of = ["", "a", "a\0", "ab", "b", "\u{10000}", "é"];
    for _ in 0..600 {
        let mut any = |of: usize| dice.below(of as u64) as usize;
        let bytes = texts_of[any(texts_of.len())].as_bytes().to_vec();
        let elements = vec![
            Element::Double(reals[any(reals.len())]),
            Element::Integer(Integer::from(integers[any(integers.len())])),
            Element::Text(texts_of[any(texts_of.len())].to_owned()),
            if any(5) == 0 { Element::Null } else { Element::Bytes(bytes) },
            Element::Bool(any(2) == 0),
            Element::Uuid(Uuid([any(3) as u8; 16])),
        ];
        database.insert(tuple::pack(&elements), "").expect("a record");
    }
    db.execute_batch(
        "CREATE TABLE own (r REAL, n INTEGER, t TEXT, b BLOB, y INTEGER, u BLOB);
         INSERT INTO own SELECT r, n, t, b, y, u FROM t;",
    )
    .expect("rows");
    assert!(number(&db, "SELECT count(*) FROM own") > 500);
    let numbers: &[&str] = &[
        "0",
        "-0.0",
        "1",
        "1.0",
        "0.5",
        "2.5",
        "-1e300",
        "9007199254740993",
        "9007199254740992.0",
        "9223372036854775807",
        "-9223372036854775808",
        "9e999",
        "-9e999",
        "'1'",
        "'x'",
        "''",
        "x'00'",
        "NULL",
        "256",
        "-1.5",
    ];
    let columns: [(&str, &[&str]); 6] = [
        ("r", numbers),
        ("n", numbers),
        ("t", &["''", "'a'", "'ab'", "'a' || char(0)", "'é'", "x'61'", "1", "1.5", "NULL", "char(65536)"]),
        ("b", &["x''", "x'61'", "x'6100'", "x'62'", "'a'", "1", "NULL", "x'ff'"]),
        ("y", numbers),
        (
            "u",
            &[
                "zeroblob(16)",
                "zeroblob(3)",
                "zeroblob(17)",
                "x'01010101010101010101010101010101'",
                "x'0101'",
                "'a'",
                "1",
                "NULL",
            ],
        ),
    ];
    is_as_own(&db, "t", &columns, &mut dice);
}

#[test]
fn conditions_on_nodes_are_as_on_columns_of_sqls_own() {
    let directory = Directory::new();
    let db = directory.ours();
    let env = environment(&directory);
    let globals = Globals::open(&env, "g").expect("globals");
    make(&db, "t", "g, subscripts=3");
    let mut dice = Dice::new(setting("SABLECAT_TEST_FROM", 0));
    let subscripts = [
        "",
        "0",
        "1",
        "-1",
        "42",
        "1.5",
        "-.5",
        ".1",
        "123456789.123456789",
        "999999999999999999",
        "576460752303423488",
        "576460752303423500",
        "1152921504606846976",
        "01",
        "1E5",
        "a",
        "aa",
        "-",
        "9",
        "9z",
        ":",
        "é",
        "100000000000000000000000000000",
        ".0000000000000000000000000000000000000000001",
    ];
    env.write(|txn| {
        for _ in 0..500 {
            let mut node = globals.global(["a", "aa", "b", "%z"][dice.below(4) as usize])?;
            for _ in 0..dice.below(4) {
                node = node.at(subscripts[dice.below(subscripts.len() as u64) as usize]);
            }
            node.set(txn, "")?;
        }
        Ok(())
    })
    .expect("nodes");
    db.execute_batch(
        "CREATE TABLE own (global TEXT, s1, s2, s3); INSERT INTO own SELECT global, s1, s2, s3 FROM t;",
    )
    .expect("rows");
    assert!(number(&db, "SELECT count(*) FROM own") > 200);
    assert!(number(&db, "SELECT count(*) FROM own WHERE typeof(s1) = 'integer'") > 10);
    assert!(number(&db, "SELECT count(*) FROM own WHERE typeof(s1) = 'real'") > 10);
    let values: &[&str] = &[
        "''",
        "0",
        "1",
        "1.0",
        "-1",
        "42",
        "'42'",
        "1.5",
        "-0.5",
        "0.1",
        "123456789.123456789",
        "'123456789.123456789'",
        "999999999999999999",
        "576460752303423488",
        "576460752303423488.0",
        "1152921504606846976",
        "1.152921504606847e18",
        "'1152921504606846976'",
        "'01'",
        "'1E5'",
        "'a'",
        "'aa'",
        "'-'",
        "'9z'",
        "':'",
        "x'61'",
        "NULL",
        "1e29",
        "1e300",
        "-1e300",
        "1e-43",
        "1e-60",
        "9e999",
        "-9e999",
    ];
    let columns: [(&str, &[&str]); 4] = [
        ("global", &["'a'", "'aa'", "'b'", "''", "'%'", "'a-'", "'zz'", "1", "x'61'", "NULL"]),
        ("s1", values),
        ("s2", values),
        ("s3", values),
    ];
    is_as_own(&db, "t", &columns, &mut dice);
}

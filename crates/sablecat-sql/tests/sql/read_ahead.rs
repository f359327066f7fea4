//! What is read ahead of a statement: the same rows as without, and no more conflicts than what it reads.

use rusqlite::Connection;

use crate::asked::{BUSY_SNAPSHOT, code, number, texts};
use crate::directory::Directory;

/// Rows 1 to 400, of which an index has ten for each key, a hundred bytes each: some forty a leaf.
fn two(directory: &Directory) -> (Connection, Connection) {
    let (one, other) = (directory.ours(), directory.ours());
    one.execute_batch(
        "PRAGMA synchronous = OFF;
         CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, s TEXT);
         CREATE INDEX tk ON t (k);
         CREATE TABLE sums (x);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
         INSERT INTO t SELECT i, i / 10 * 2, hex(zeroblob(50)) FROM n;",
    )
    .expect("a table");
    (one, other)
}

/// Whether a transaction that has read this fails since another has committed that meanwhile.
fn conflicts(reads: &str, meanwhile: &str) -> bool {
    let directory = Directory::new();
    let (one, other) = two(&directory);
    one.execute_batch("BEGIN").expect("a transaction");
    one.execute_batch(reads).expect(reads);
    one.execute_batch("INSERT INTO sums VALUES (1)").expect("a change");
    other.execute_batch(meanwhile).expect(meanwhile);
    let done = one.execute_batch("COMMIT");
    assert!(done.is_ok() || code(&done) == Some(BUSY_SNAPSHOT), "{reads}; {meanwhile}: {done:?}");
    assert_eq!(texts(&other, "PRAGMA integrity_check"), ["ok"], "{reads}; {meanwhile}");
    done.is_err()
}

/// Joins whose rows are sought by number, each behind the one before.
fn sought(from: u32, to: u32) -> String {
    format!(
        "SELECT count(b.s) FROM t a CROSS JOIN t b ON b.id = a.id + 100 WHERE a.id BETWEEN {from} AND {to}"
    )
}

#[test]
fn a_few_rows_that_are_sought_by_number_are_all_that_is_read_of_their_leaf() {
    let few = sought(1, 8);
    assert!(conflicts(&few, "UPDATE t SET s = 'x' WHERE id = 108"));
    assert!(!conflicts(&few, "UPDATE t SET s = 'x' WHERE id = 110"));
    assert!(!conflicts(&few, "DELETE FROM t WHERE id = 115"));
    // Many, and nothing that was read goes unnoticed: none of them, nor one that was not there.
    let many = sought(1, 100);
    for id in [101, 116, 120, 150, 200] {
        assert!(conflicts(&many, &format!("UPDATE t SET s = 'x' WHERE id = {id}")), "{id}");
    }
    assert!(!conflicts(&many, "UPDATE t SET s = 'x' WHERE id = 390"));
    assert!(conflicts(
        &format!("DELETE FROM t WHERE id = 150; {many}"),
        "UPDATE t SET s = 'x' WHERE id = 150"
    ));
}

#[test]
fn entries_of_one_key_are_all_that_is_read_of_an_index() {
    for reads in ["SELECT count(k) FROM t WHERE k = 20", "SELECT EXISTS (SELECT 1 FROM t WHERE k = 21)"] {
        let is_there = reads.ends_with("20");
        assert!(!conflicts(reads, "INSERT INTO t VALUES (1000, 19, 'x')"), "{reads}");
        assert!(!conflicts(reads, "INSERT INTO t VALUES (1000, 22, 'x')"), "{reads}");
        assert!(conflicts(reads, &format!("INSERT INTO t VALUES (1000, {}, 'x')", 21 - u8::from(is_there))));
    }
    // Of more entries than are read at once.
    let groups =
        "SELECT count(*), sum(b.k) FROM t a CROSS JOIN t b INDEXED BY tk ON b.k = a.k WHERE a.id < 15";
    assert!(conflicts(groups, "INSERT INTO t VALUES (1000, 2, 'x')"));
    assert!(!conflicts(groups, "INSERT INTO t VALUES (1000, 5, 'x')"));
}

#[test]
fn a_table_that_is_read_as_a_whole_conflicts_with_each_change_and_with_none_that_is_undone() {
    let all = "SELECT count(*), max(s) FROM t NOT INDEXED WHERE k >= 0";
    for change in [
        "UPDATE t SET s = 'x' WHERE id = 1",
        "UPDATE t SET s = 'x' WHERE id = 199",
        "DELETE FROM t WHERE id = 400",
        "INSERT INTO t VALUES (-1, 1, 'x')",
        "INSERT INTO t VALUES (401, 1, 'x')",
        "DELETE FROM t WHERE id BETWEEN 50 AND 250",
    ] {
        assert!(conflicts(all, change), "{change}");
    }
    // Leaves are divided and joined, and read the same in the end.
    let there_and_back =
        "INSERT INTO t SELECT 1000 + id, 1, s FROM t; UPDATE t SET s = s || s WHERE id < 200;
                          DELETE FROM t WHERE id > 1000; UPDATE t SET s = substr(s, 1, 100) WHERE id < 200";
    assert!(!conflicts(all, there_and_back));
}

#[test]
fn rows_of_all_lengths_are_read_as_sqlites_own_tree_has_them() {
    let directory = Directory::new();
    let (ours, stock) = (directory.ours(), directory.stock());
    let questions = [
        "SELECT id || ' ' || length(s) || ' ' || hex(substr(s, -3)) FROM t",
        "SELECT id || ' ' || length(s) || ' ' || hex(substr(s, -3)) FROM t ORDER BY id DESC",
        "SELECT a.id || ' ' || length(b.s) || hex(substr(b.s, -3))
         FROM t a CROSS JOIN t b ON b.id = a.id + 1",
        "SELECT a.id || ' ' || sum(length(b.s)) FROM t a CROSS JOIN t b INDEXED BY tk ON b.k = a.id % 90
         GROUP BY a.id",
        "SELECT id || ' ' || k FROM t WHERE k IN (3, 5, 7, 11, 500) ORDER BY k, id",
        "SELECT id || '' FROM t WHERE (k, id) IN (SELECT k, id + 90 FROM t) ORDER BY id LIMIT 40",
    ];
    for db in [&ours, &stock] {
        db.execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, s BLOB);
             CREATE INDEX tk ON t (k);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
             INSERT INTO t SELECT i, i % 90, CAST(printf('%.*c%d', CASE i % 97 WHEN 0 THEN 20000
                 WHEN 1 THEN 3000 ELSE i * 7 % 200 END, 'x', i) AS BLOB) FROM n;
             DELETE FROM t WHERE id % 11 = 0 OR id BETWEEN 700 AND 720;
             UPDATE t SET s = CAST(s || id AS BLOB) WHERE id % 7 = 0;",
        )
        .expect("a table");
    }
    for (question, is_written) in
        questions.into_iter().flat_map(|question| [(question, false), (question, true)])
    {
        let (mut one, mut other) = (texts(&ours, question), texts(&stock, question));
        if is_written {
            // By a statement of which what it reads is noted.
            for db in [&ours, &stock] {
                db.execute_batch(&format!("DROP TABLE IF EXISTS kept; CREATE TABLE kept AS {question}"))
                    .expect(question);
            }
            (one, other) = (texts(&ours, "SELECT * FROM kept"), texts(&stock, "SELECT * FROM kept"));
        }
        assert!(!one.is_empty(), "{question}");
        assert!(one == other, "{question}: {} rows and {}", one.len(), other.len());
    }
    assert_eq!(number(&ours, "SELECT count(*) FROM t"), number(&stock, "SELECT count(*) FROM t"));
}

/// Behind a row its successor is read on from, which may not be there, or be the last that can be.
#[test]
fn rows_at_the_ends_of_all_row_ids_are_read_as_sqlites_own_tree_has_them() {
    let directory = Directory::new();
    let (ours, stock) = (directory.ours(), directory.stock());
    for db in [&ours, &stock] {
        db.execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, s BLOB);
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
             INSERT INTO t
                 SELECT -9223372036854775808 + i * 3 + i % 2, zeroblob(i % 50) FROM n WHERE true
                 UNION SELECT i - 350, zeroblob(i % 80) FROM n
                 UNION SELECT 9223372036854775807 - i, zeroblob(i % 60) FROM n;",
        )
        .expect("a table");
    }
    let ask = |question: &str| {
        let (one, other) = (texts(&ours, question), texts(&stock, question));
        assert!(one == other, "{question}: {} rows and {}", one.len(), other.len());
        one.len()
    };
    let questions = [
        "SELECT id || ' ' || length(s) FROM t",
        "SELECT id || ' ' || length(s) FROM t ORDER BY id DESC",
        "SELECT id || '' FROM t WHERE id >= 9223372036854775807",
        "SELECT id || '' FROM t WHERE id > 9223372036854775700 ORDER BY id LIMIT 300",
        "SELECT id || '' FROM t WHERE id < -9223372036854775700 ORDER BY id LIMIT 300",
        "SELECT id || '' FROM t WHERE id BETWEEN -20 AND 20",
    ];
    // As committed, and with what is pending: rows that were read on from are gone, and others are there.
    for pending in [
        "",
        "DELETE FROM t WHERE id % 3 = 0",
        "INSERT INTO t SELECT id * 5 + 3000, s FROM t
         WHERE id BETWEEN -300 AND 300",
        "DELETE FROM t WHERE id > 9223372036854775700",
    ] {
        for db in [&ours, &stock] {
            db.execute_batch(&format!("BEGIN; {pending}")).expect(pending);
        }
        assert!(ask(questions[0]) > 300);
        questions.into_iter().for_each(|question| _ = ask(question));
        // What a statement goes through goes as it does, and the rows behind it too.
        let gone_through = |db: &rusqlite::Connection| {
            let mut statement = db.prepare("SELECT id FROM t").expect("a statement");
            let mut rows = statement.query([]).expect("rows");
            let mut ids = Vec::new();
            while let Some(row) = rows.next().expect("a row") {
                let id: i64 = row.get(0).expect("a number");
                ids.push(id);
                if id.rem_euclid(5) == 0 {
                    let to = id.saturating_add(id.rem_euclid(4));
                    db.execute("DELETE FROM t WHERE id BETWEEN ?1 AND ?2", [id, to]).expect("they go");
                }
            }
            ids
        };
        let (one, other) = (gone_through(&ours), gone_through(&stock));
        assert!(one == other, "{} rows and {}", one.len(), other.len());
        questions.into_iter().for_each(|question| _ = ask(question));
        for db in [&ours, &stock] {
            db.execute_batch("COMMIT").expect("committed");
        }
        questions.into_iter().for_each(|question| _ = ask(question));
    }
}

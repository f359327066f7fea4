//! Joins by rows in a row and by equal keys, with changes in the middle of reading, as on SQLite's own tree.

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::asked::setting;
use crate::dice::Dice;
use crate::directory::Directory;

fn row(row: &rusqlite::Row<'_>, columns: usize) -> String {
    (0..columns)
        .map(|at| match row.get::<_, Value>(at) {
            Ok(Value::Text(text)) if text.len() > 40 => format!("t{}{}", text.len(), &text[text.len() - 8..]),
            Ok(Value::Blob(blob)) if blob.len() > 40 => {
                format!("b{}{:?}", blob.len(), &blob[blob.len() - 4..])
            }
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{error}"),
        })
        .collect::<Vec<_>>()
        .join("|")
}

/// All rows of a question, of which after some a change is made by the same connection.
fn asked(db: &Connection, sql: &str, at: &[(usize, String)]) -> Vec<String> {
    let mut all = Vec::new();
    let mut statement = match db.prepare(sql) {
        Ok(statement) => statement,
        Err(error) => return vec![error.to_string()],
    };
    let columns = statement.column_count();
    let mut rows = match statement.query([]) {
        Ok(rows) => rows,
        Err(error) => return vec![error.to_string()],
    };
    let mut many = 0;
    loop {
        match rows.next() {
            Ok(Some(found)) => all.push(row(found, columns)),
            Ok(None) => break,
            Err(error) => {
                all.push(error.to_string());
                break;
            }
        }
        many += 1;
        for (_, change) in at.iter().filter(|(after, _)| *after == many) {
            match db.execute_batch(change) {
                Ok(()) => all.push(format!("{change}: {}", db.total_changes())),
                Err(error) => all.push(format!("{change}: {error}")),
            }
        }
        if many > 3000 {
            break;
        }
    }
    all
}

fn text(dice: &mut Dice) -> String {
    match dice.below(40) {
        0 => "printf('%.*c', 9000 + id % 7, 'L')".to_owned(),
        1 => "zeroblob(3000)".to_owned(),
        2 => "NULL".to_owned(),
        3 | 4 => "''".to_owned(),
        5 => "x''".to_owned(),
        _ => format!("printf('%.*c%d', {}, 's', id)", dice.below(150)),
    }
}

fn column(dice: &mut Dice) -> &'static str {
    dice.pick(&["k", "k", "j", "s", "lower(s)", "u"])
}

fn question(dice: &mut Dice) -> String {
    let (one, other) = (dice.pick(&["t", "r", "w"]), dice.pick(&["t", "r", "w"]));
    let join = dice.pick(&["CROSS JOIN", "JOIN", "LEFT JOIN"]);
    let offset = dice.below(60) as i64 - 10;
    let (from, to) = (dice.below(300) as i64, 300 + dice.below(200));
    let n = dice.below(12);
    let k = dice.below(25);
    let direction = dice.pick(&["", " DESC"]);
    match dice.below(20) {
        0..=3 => format!(
            "SELECT p.id, q.id, q.s, q.k FROM {one} p {join} {other} q ON q.id = p.id + {offset} WHERE \
             p.id BETWEEN {from} AND {to} ORDER BY p.id{direction}"
        ),
        4 => format!(
            "SELECT p.id, q.id, q.s FROM {one} p {join} {other} q ON q.id = p.id * {} WHERE p.id BETWEEN \
             {from} AND {to}",
            1 + dice.below(3)
        ),
        5..=7 => {
            let c = dice.pick(&["k", "j", "u"]);
            format!(
                "SELECT p.id, q.id, q.s FROM {one} p {join} {other} q ON q.{c} = p.k WHERE p.id < {} ORDER \
                 BY p.id{direction}, q.id",
                30 + dice.below(40)
            )
        }
        8 => format!(
            "SELECT p.id, (SELECT count(*) || '-' || max(q.id) || '-' || min(q.j) FROM {other} q WHERE q.k \
             = p.k AND q.j IS p.j) FROM {one} p WHERE p.id < 80"
        ),
        9 => format!(
            "SELECT DISTINCT k, j FROM {one} WHERE k IN ({k}, {n}, {}, NULL, 3) ORDER BY k{direction}, j",
            k + 2
        ),
        10 => format!(
            "SELECT id, k, j FROM {one} WHERE k IN (SELECT j FROM {other} WHERE id < {from}) AND j > {n} \
             ORDER BY id"
        ),
        11 => format!("SELECT min(j), max(j), min(id) FROM {one} WHERE k = {k}"),
        12 => format!(
            "SELECT k, min(j), max(s), count(*) FROM {one} WHERE k = {k} OR j = {n} OR id = {from} GROUP \
             BY k ORDER BY k"
        ),
        13 => format!(
            "SELECT id, k, j FROM {one} WHERE k = {k} ORDER BY j{direction}, id{direction} LIMIT {}",
            1 + dice.below(20)
        ),
        14 => format!(
            "WITH RECURSIVE c(i, n) AS (SELECT {from}, 0 UNION ALL SELECT {other}.id + 1, n + 1 FROM c \
             JOIN {other} ON {other}.id = c.i WHERE n < 100) SELECT c.i, x.s FROM c LEFT JOIN {one} x ON \
            x.id = c.i"
        ),
        15 => format!(
            "SELECT p.id, EXISTS (SELECT 1 FROM {other} q WHERE q.u = p.k), (SELECT s FROM {other} q WHERE \
             q.id = p.id + 1), (SELECT s FROM {one} q WHERE q.id = p.id + 2) FROM {one} p WHERE p.id < 200"
        ),
        16 => format!("SELECT id FROM {one} WHERE j = {n} ORDER BY id{direction}"),
        17 => format!("SELECT id, s FROM {one} WHERE k = {k} AND s > 's' ORDER BY s{direction}, id"),
        18 => format!("SELECT id, k FROM {one} WHERE j IS NULL AND k >= {k} ORDER BY k{direction}, id"),
        _ => format!(
            "SELECT p.id, q.k, r.s FROM {one} p JOIN {other} q ON q.id = p.id + 1 JOIN t r ON r.id = q.id \
             + {offset} WHERE p.id < {to}"
        ),
    }
}

fn change(dice: &mut Dice) -> String {
    let t = dice.pick(&["t", "r", "w"]);
    let (id, k, n) = (dice.below(520), dice.below(25), dice.below(12));
    let text = text(dice);
    let or = dice.pick(&["", "", " OR REPLACE", " OR IGNORE"]);
    match dice.below(16) {
        0 => format!("UPDATE{or} {t} SET s = {text} WHERE id = {id}"),
        1 => format!("UPDATE{or} {t} SET s = {text}, k = k + 1 WHERE id BETWEEN {id} AND {}", id + n * 4),
        2 => format!("DELETE FROM {t} WHERE id BETWEEN {id} AND {}", id + n),
        3 => format!("DELETE FROM {t} WHERE k = {k} AND j = {n}"),
        4 => format!("INSERT{or} INTO {t} (id, k, j, s, u) SELECT {id}, {k}, {n}, 'new', NULL"),
        5 => format!(
            "REPLACE INTO {t} (id, k, j, s, u) SELECT id + {}, k, j, s, u FROM {t} WHERE id BETWEEN {id} \
             AND {}",
            n,
            id + 30
        ),
        6 => format!("UPDATE{or} {t} SET k = {k} WHERE k = {}", k + 1),
        7 => format!("UPDATE{or} {t} SET u = {} WHERE id = {id}", dice.below(600)),
        8 => format!("UPDATE{or} {t} SET id = id + 1000 WHERE id = {id}"),
        9 => format!(
            "UPDATE {t} SET s = (SELECT q.s FROM r q WHERE q.id = {t}.id + 1) WHERE id BETWEEN {id} AND {}",
            id + 40
        ),
        10 => format!("DELETE FROM {t} WHERE id IN (SELECT q.id + 1 FROM {t} q WHERE q.k = {k})"),
        11 => format!("UPDATE {t} SET j = NULL WHERE k = {k}"),
        12 => format!(
            "UPDATE {t} SET j = q.j FROM r q WHERE q.id = {t}.id + 3 AND {t}.id BETWEEN {id} AND {}",
            id + 60
        ),
        13 => format!("INSERT{or} INTO {t} (k, j, s) SELECT k, j, s FROM {t} WHERE k = {k} AND id % 5 = 1"),
        _ => format!("UPDATE{or} {t} SET s = 'x' || id, j = {n} WHERE k = {k}"),
    }
}

fn in_the_middle(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => "SAVEPOINT a".to_owned(),
        1 => "ROLLBACK TO a".to_owned(),
        2 => "RELEASE a".to_owned(),
        3 => {
            let (one, two) = (change(dice), change(dice));
            format!("SAVEPOINT b; {one}; {two}; ROLLBACK TO b; RELEASE b")
        }
        _ => change(dice),
    }
}

fn run(seed: u64) {
    let directory = Directory::new();
    let (ours, stock) = (directory.ours(), directory.stock());
    let mut dice = Dice::new(seed);
    let mut done: Vec<String> = Vec::new();
    let index = |dice: &mut Dice, t: &str, n: usize| {
        let unique = if dice.once_in(9) { "UNIQUE " } else { "" };
        let columns: Vec<String> = (0..1 + dice.below(3))
            .map(|_| {
                format!(
                    "{}{}{}",
                    column(dice),
                    dice.pick(&["", "", " COLLATE NOCASE"]),
                    dice.pick(&["", "", " DESC"])
                )
            })
            .collect();
        let partial = dice.pick(&["", "", "", " WHERE j > 2", " WHERE j IS NOT NULL"]);
        format!("CREATE {unique}INDEX {t}{n} ON {t} ({}){partial}", columns.join(", "))
    };
    let mut setup = vec![
        "PRAGMA synchronous = OFF; PRAGMA foreign_keys = 1".to_owned(),
        "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, j INTEGER, s, u)".to_owned(),
        "CREATE TABLE r (id INTEGER PRIMARY KEY, k, j, s COLLATE NOCASE, u UNIQUE)".to_owned(),
        dice.pick(&[
            "CREATE TABLE w (id INTEGER NOT NULL, k, j, s, u, PRIMARY KEY (id)) WITHOUT ROWID",
            "CREATE TABLE w (id INTEGER, k, j, s, u, PRIMARY KEY (k, id)) WITHOUT ROWID",
            "CREATE TABLE w (id INTEGER PRIMARY KEY, k REFERENCES t (id) ON DELETE CASCADE ON UPDATE SET \
             NULL, j, s, u)",
        ])
        .to_owned(),
    ];
    for t in ["t", "r", "w"] {
        let many = 100 + dice.below(500);
        let (text, keys) = (text(&mut dice), dice.pick(&[3, 20, 90]));
        let long = dice.pick(&[3, 17, 97, 1000]);
        let k = if t == "w" { format!("i % {keys} + 1") } else { format!("i % {keys}") };
        setup.push(format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many})
             INSERT OR IGNORE INTO {t} (id, k, j, s, u) SELECT i AS id, {k}, CASE WHEN i % 7 = 0 THEN NULL \
             ELSE i % 11 END,
             CASE WHEN i % {long} = 0 THEN printf('%.*c%d', 5000, 'l', i) WHEN i % 5 = 0 THEN '' ELSE {} \
             END, CASE i % 3 WHEN 0 THEN NULL ELSE i END FROM n",
            text.replace("id", "i")
        ));
        setup.push(format!("DELETE FROM {t} WHERE id % {} = 0", 5 + dice.below(30)));
        for n in 0..dice.below(4) as usize {
            setup.push(index(&mut dice, t, n));
        }
    }
    if dice.once_in(3) {
        setup.push(
            "CREATE TRIGGER g AFTER UPDATE OF k ON t BEGIN UPDATE r SET j = j + 1 WHERE id = old.id \
        + 1; DELETE FROM w WHERE id = old.id + 2; END"
                .to_owned(),
        );
    }
    if dice.once_in(3) {
        setup.push(
            "CREATE TRIGGER h AFTER DELETE ON r BEGIN UPDATE t SET j = (SELECT count(*) FROM r q \
        WHERE q.k = old.k) WHERE id BETWEEN old.id AND old.id + 5; END"
                .to_owned(),
        );
    }
    if dice.once_in(2) {
        setup.push("ANALYZE".to_owned());
    }
    for sql in setup {
        let (one, other) = (ours.execute_batch(&sql), stock.execute_batch(&sql));
        assert_eq!(
            one.as_ref().err().map(ToString::to_string),
            other.as_ref().err().map(ToString::to_string),
            "seed {seed} {sql}"
        );
        done.push(sql);
    }
    for _ in 0..60 {
        let sql = match dice.below(10) {
            0 => dice
                .pick(&[
                    "BEGIN",
                    "BEGIN IMMEDIATE",
                    "COMMIT",
                    "ROLLBACK",
                    "SAVEPOINT c",
                    "ROLLBACK TO c",
                    "RELEASE c",
                ])
                .to_owned(),
            1..=2 => change(&mut dice),
            3 => format!("{} RETURNING id, k, j, s", change(&mut dice)),
            4 => "CREATE TABLE IF NOT EXISTS kept (a, b, c, d); DELETE FROM kept; INSERT INTO kept SELECT \
                  id, k, j, s FROM t x WHERE EXISTS (SELECT 1 FROM r WHERE r.id = x.id + 1)"
                .to_owned(),
            _ => question(&mut dice),
        };
        let mut at = Vec::new();
        // Of a table without row ids SQLite itself may show a row twice that is changed while it stands
        // there.
        if sql.starts_with("SELECT") && !sql.contains(" w ") && dice.once_in(2) {
            for _ in 0..=dice.below(4) {
                at.push((1 + dice.below(60) as usize, in_the_middle(&mut dice)));
            }
        }
        let is_batch = sql.contains(';');
        let (found, expected) = if is_batch {
            let one = |db: &Connection| {
                let done = format!("{:?}", db.execute_batch(&sql));
                let mut all = asked(db, "SELECT * FROM kept", &[]);
                all.push(done);
                all
            };
            (one(&ours), one(&stock))
        } else {
            (asked(&ours, &sql, &at), asked(&stock, &sql, &at))
        };
        done.push(format!("{sql} {at:?}"));
        if found != expected {
            let first = found
                .iter()
                .zip(&expected)
                .position(|(one, other)| one != other)
                .unwrap_or(found.len().min(expected.len()));
            for (name, rows) in [("ours", &found), ("stock", &expected)] {
                println!("{name} {:#?}", &rows[first.saturating_sub(4)..rows.len().min(first + 3)]);
            }
            panic!(
                "seed {seed}: at {first} of {} and {}: {:?} and {:?} (before: {:?})\n{}",
                found.len(),
                expected.len(),
                found.get(first),
                expected.get(first),
                first.checked_sub(1).map(|at| &found[at]),
                done.join(";\n")
            );
        }
        if sql.starts_with("UPDATE") || sql.starts_with("DELETE") || !at.is_empty() {
            for t in ["t", "r", "w"] {
                let all = format!("SELECT * FROM {t} ORDER BY id, k");
                let (found, expected) = (asked(&ours, &all, &[]), asked(&stock, &all, &[]));
                assert!(found == expected, "seed {seed}: {t} differs after\n{}", done.join(";\n"));
            }
        }
    }
    let _ = (ours.execute_batch("COMMIT"), stock.execute_batch("COMMIT"));
    assert_eq!(
        asked(&ours, "PRAGMA integrity_check", &[]),
        asked(&stock, "PRAGMA integrity_check", &[]),
        "seed {seed}"
    );
}

/// A transaction that reads, and writes elsewhere, beside another connection's changes.
fn run_beside(seed: u64, stood: &mut u64, lost: &mut u64) {
    let directory = Directory::new();
    let (one, other) = (directory.ours(), directory.ours());
    let mut dice = Dice::new(seed);
    one.execute_batch(
        "PRAGMA synchronous = OFF;
         CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, j INTEGER, s, u);
         CREATE TABLE r (id INTEGER PRIMARY KEY, k, j, s COLLATE NOCASE, u UNIQUE);
         CREATE TABLE w (id INTEGER, k, j, s, u, PRIMARY KEY (k, id)) WITHOUT ROWID;
         CREATE INDEX tk ON t (k); CREATE INDEX tj ON t (j DESC, k); CREATE INDEX rk ON r (k, s);
         CREATE UNIQUE INDEX wu ON w (u); CREATE TABLE sums (x);",
    )
    .expect("tables");
    for t in ["t", "r", "w"] {
        one.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
             INSERT INTO {t} SELECT i, i % 23, CASE WHEN i % 7 = 0 THEN NULL ELSE i % 11 END,
             CASE WHEN i % 61 = 0 THEN printf('%.*c%d', 5000, 'l', i) ELSE printf('%.*c', i % 90, 's') \
             END, i FROM n;
             DELETE FROM {t} WHERE id % 37 = 0",
            100 + dice.below(400)
        ))
        .expect("rows");
    }
    for _ in 0..40 {
        one.execute_batch("BEGIN").expect("a transaction");
        let mut read = Vec::new();
        for _ in 0..=dice.below(2) {
            let sql = question(&mut dice);
            read.push((asked(&one, &sql, &[]), sql));
        }
        let mut changes = Vec::new();
        for _ in 0..=dice.below(2) {
            let sql = change(&mut dice);
            let _ = other.execute_batch(&sql);
            changes.push(sql);
        }
        one.execute_batch("INSERT INTO sums VALUES (1)").expect("a change");
        if one.execute_batch("COMMIT").is_err() {
            *lost += 1;
            let _ = one.execute_batch("ROLLBACK");
            continue;
        }
        *stood += 1;
        for (rows, sql) in read {
            assert!(
                rows == asked(&one, &sql, &[]),
                "seed {seed}: {sql} comes to something else after {changes:?}"
            );
        }
    }
}

#[test]
fn what_was_joined_still_stands_when_a_transaction_is_committed() {
    let from = setting("SABLECAT_TEST_FROM", 0);
    let (mut stood, mut lost) = (0, 0);
    for seed in from..from + setting("SABLECAT_TEST_SQL_SEEDS", 5) {
        run_beside(seed, &mut stood, &mut lost);
    }
    println!("{stood} stood, {lost} were lost");
    assert!(stood > 0 && lost > 0, "{stood} and {lost}");
}

#[test]
fn joins_with_changes_in_the_middle_of_reading_are_as_on_sqlites_own_tree() {
    let from = setting("SABLECAT_TEST_FROM", 0);
    for seed in from..from + setting("SABLECAT_TEST_SQL_SEEDS", 5) {
        run(seed);
    }
}

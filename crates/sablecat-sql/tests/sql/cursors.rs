//! Statements that read on while others, or they themselves, change the rows in front of them, behind them
//! and where they are: the same rows as SQLite's own tree shows.

use rusqlite::Connection;

use crate::asked::{number, setting, texts};
use crate::dice::Dice;
use crate::directory::Directory;

/// Three times as many ids as rows at first.
const IDS: u64 = 900;

fn make(db: &Connection) {
    db.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, k INTEGER);
         CREATE INDEX tk ON t (k);
         CREATE TABLE log (id INTEGER, v TEXT);
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299)
         INSERT INTO t SELECT 3 * i, hex(zeroblob(i % 50)), i * 37 % 900 FROM n",
    )
    .expect("a table");
}

/// A statement that goes through the table.
fn reader(dice: &mut Dice) -> String {
    match dice.below(11) {
        0 => "SELECT id, v FROM t NOT INDEXED ORDER BY id".to_owned(),
        1 => format!("SELECT id, v FROM t WHERE id > {} ORDER BY id", dice.below(IDS)),
        2 => "SELECT k, id FROM t INDEXED BY tk ORDER BY k".to_owned(),
        3 => format!("SELECT k, v FROM t INDEXED BY tk WHERE k >= {} ORDER BY k", dice.below(IDS)),
        4 => format!("SELECT id, v FROM t WHERE id < {} ORDER BY id DESC", dice.below(IDS)),
        5 => format!("SELECT k, v FROM t INDEXED BY tk WHERE k <= {} ORDER BY k DESC", dice.below(IDS)),
        6 => "SELECT id, v FROM t NOT INDEXED ORDER BY id DESC".to_owned(),
        // Rows that are sought one after the other, with some that are not there, and the entries of one key.
        7 => "SELECT a.id, b.v FROM t a CROSS JOIN t b ON b.id = a.id / 3 ORDER BY a.id".to_owned(),
        8 => "SELECT a.id, b.v FROM t a CROSS JOIN t b ON b.id = a.id ORDER BY a.id".to_owned(),
        9 => "SELECT a.id, b.v FROM t a CROSS JOIN t b ON b.id = a.id + a.id / 90 ORDER BY a.id".to_owned(),
        _ => "SELECT a.id, b.v FROM t a CROSS JOIN t b INDEXED BY tk ON b.k = a.id / 9 ORDER BY a.id, b.id"
            .to_owned(),
    }
}

/// A change of the rows near one, which may be the one that a reader is at.
fn change(dice: &mut Dice, near: i64) -> String {
    let id = match dice.below(3) {
        0 => near,
        1 => near + dice.below(9) as i64 - 2,
        _ => dice.below(IDS) as i64,
    };
    match dice.below(9) {
        0 => format!("DELETE FROM t WHERE id = {id}"),
        1 => format!("DELETE FROM t WHERE k BETWEEN {id} AND {id} + 5"),
        2 => format!("UPDATE t SET v = v || 'x' WHERE id = {id}"),
        3 => format!("UPDATE t SET k = k + 7 WHERE id BETWEEN {id} AND {id} + 3"),
        4 => format!("INSERT INTO log SELECT id, v FROM t WHERE id >= {id} LIMIT 20"),
        5 => "SAVEPOINT s".to_owned(),
        6 => format!("UPDATE t SET v = 'y' WHERE id > {id} AND k % 5 = 0"),
        _ => format!("INSERT OR REPLACE INTO t VALUES ({id}, 'new', {})", dice.below(IDS)),
    }
}

/// What a transaction's statements show that are stepped by turns, with changes in between.
fn shown(db: &Connection, seed: u64) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let mut shown = Vec::new();
    db.execute_batch("BEGIN").expect("a transaction");
    {
        let readers: Vec<_> = (0..2).map(|_| reader(&mut dice)).collect();
        let mut statements: Vec<_> = readers.iter().map(|sql| db.prepare(sql).expect(sql)).collect();
        let mut rows: Vec<_> = statements.iter_mut().map(|s| s.query([]).expect("a reader")).collect();
        let mut near = 0;
        for _ in 0..400 {
            let which = dice.below(2) as usize;
            match rows[which].next() {
                Ok(Some(row)) => {
                    // None: a join's row that was removed while it was at it.
                    let place = usize::from(readers[which].starts_with("SELECT k, id"));
                    let id: Option<i64> = row.get(place).expect("a number");
                    near = id.unwrap_or(near);
                    let second: rusqlite::types::Value = row.get(1).expect("a value");
                    shown.push(format!("{which}: {id:?} {second:?}"));
                }
                // It would begin anew.
                Ok(None) => break,
                Err(error) => shown.push(error.to_string()),
            }
            if dice.once_in(4) {
                let sql = change(&mut dice, near);
                let done = db.execute(&sql, []);
                shown.push(format!("{sql}: {done:?}"));
            }
        }
    }
    for sql in [
        "UPDATE t SET v = v || k WHERE id % 3 = 0",
        "UPDATE t SET k = k + 1",
        "DELETE FROM t WHERE k % 7 = 0",
        "UPDATE t SET id = id + 1000 WHERE id % 11 = 0",
        "INSERT INTO t (v, k) SELECT v, k FROM t WHERE k % 13 = 0",
    ] {
        shown.push(format!("{sql}: {:?}", db.execute(sql, [])));
    }
    shown.extend(texts(db, "SELECT id || ' ' || v || ' ' || k FROM t ORDER BY id"));
    shown.extend(texts(db, "SELECT k || '' FROM t INDEXED BY tk ORDER BY k"));
    shown.push(format!("{}", number(db, "SELECT count(*) FROM log")));
    db.execute_batch(if dice.once_in(2) { "COMMIT" } else { "ROLLBACK" }).expect("it ends");
    shown
}

#[test]
fn statements_that_are_stepped_between_changes_show_what_they_do_on_sqlites_own_tree() {
    let from = setting("SABLECAT_TEST_FROM", 0);
    for seed in from..from + setting("SABLECAT_TEST_SQL_SEEDS", 40) {
        let directory = Directory::new();
        let (ours, stock) = (directory.ours(), directory.stock());
        for db in [&ours, &stock] {
            make(db);
        }
        for more in 0..3 {
            let (one, other) = (shown(&ours, 3 * seed + more), shown(&stock, 3 * seed + more));
            let differs = one.iter().zip(&other).position(|(one, other)| one != other);
            if let Some(at) = differs {
                panic!(
                    "seed {seed}, {more}, step {at}: ours {:?}, SQLite's {:?}\nafter {:#?}",
                    one[at],
                    other[at],
                    &one[at.saturating_sub(6)..at]
                );
            }
            assert_eq!(one.len(), other.len(), "seed {seed}");
        }
        assert_eq!(texts(&ours, "PRAGMA integrity_check"), ["ok"], "seed {seed}");
    }
}

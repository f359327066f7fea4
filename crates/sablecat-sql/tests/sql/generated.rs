//! Statements at random, over a handful of tables, that mean the same to every database.

use crate::dice::Dice;
use crate::families;

const TABLES: [&str; 4] = ["a", "b", "c", "d"];
const COLUMNS: [&str; 4] = ["k", "x", "y", "z"];
const COLLATIONS: [&str; 4] = ["", " COLLATE NOCASE", " COLLATE RTRIM", " COLLATE BINARY"];

/// A value as SQL writes it: few of them, so that they meet, and odd ones.
pub(super) fn value(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => "NULL".to_owned(),
        1..=4 => format!("{}", dice.below(30) as i64 - 5),
        5 => format!("{}.5", dice.below(20) as i64 - 5),
        6 => format!("{}.0", dice.below(20) as i64 - 5),
        7..=9 => {
            let words = ["a", "A", "ab", "aB ", "b", "B  ", "", " ", "zz", "Zz", "[", "a''b", "10", "1.5"];
            format!("'{}'", dice.pick(&words))
        }
        10 => dice.pick(&["x''", "x'00'", "x'0001ff'", "x'61'", "zeroblob(9)", "zeroblob(5000)"]).to_owned(),
        _ => dice
            .pick(&[
                "9007199254740993",
                "9007199254740992.0",
                "-9007199254740993",
                "9223372036854770001",
                "-9223372036854775808",
                "9.2233720368547758e18",
                "1e300",
                "-1e300",
                "1e999",
                "char(97, 0, 98)",
                "printf('%.*c', 9000, 'x')",
            ])
            .to_owned(),
    }
}

/// A condition on one row of a table.
fn condition(dice: &mut Dice, of: &str) -> String {
    let column = dice.pick(&COLUMNS);
    let operator = dice.pick(&["=", "=", "=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT"]);
    let one = match dice.below(8) {
        0 => format!("{of}.{column} BETWEEN {} AND {}", value(dice), value(dice)),
        1 => format!("{of}.{column} IN ({}, {}, {})", value(dice), value(dice), value(dice)),
        2 => format!("{of}.{column} LIKE 'a%'"),
        _ => format!("{of}.{column} {operator} {}", value(dice)),
    };
    match dice.below(4) {
        0 => format!("{one} AND {}", condition(dice, of)),
        1 if dice.once_in(2) => format!("({one} OR {})", condition(dice, of)),
        _ => one,
    }
}

fn create_table(dice: &mut Dice) -> String {
    let table = dice.pick(&TABLES);
    let key = match dice.below(6) {
        0 => "k INTEGER PRIMARY KEY",
        1 => "k INTEGER PRIMARY KEY AUTOINCREMENT",
        2 => "k PRIMARY KEY",
        3 => "k TEXT COLLATE NOCASE PRIMARY KEY",
        _ => "k",
    };
    let without_rowid = key.contains("PRIMARY KEY") && !key.contains("INTEGER") && dice.once_in(2);
    let mut columns = vec![key.to_owned()];
    for column in &COLUMNS[1..] {
        let kind = dice.pick(&["", " INTEGER", " TEXT", " REAL", " NUMERIC", " BLOB"]);
        let unique = if dice.once_in(6) { " UNIQUE" } else { "" };
        let default = if dice.once_in(6) { " NOT NULL DEFAULT 3" } else { "" };
        columns.push(format!("{column}{kind}{}{unique}{default}", dice.pick(&COLLATIONS)));
    }
    if dice.once_in(5) {
        columns.push(format!("CHECK (x IS NOT {})", value(dice)));
    }
    if dice.once_in(5) && !key.contains("PRIMARY KEY") {
        columns.push("PRIMARY KEY (y DESC, z)".to_owned());
        let without = if dice.once_in(2) { " WITHOUT ROWID" } else { "" };
        return format!("CREATE TABLE {table} ({}){without}", columns.join(", "));
    }
    if dice.once_in(8) {
        columns.push("g AS (x || y) STORED".to_owned());
    }
    let without = if without_rowid { " WITHOUT ROWID" } else { "" };
    format!("CREATE TABLE {table} ({}){without}", columns.join(", "))
}

fn create_index(dice: &mut Dice) -> String {
    let table = dice.pick(&TABLES);
    let unique = if dice.once_in(5) { "UNIQUE " } else { "" };
    let columns: Vec<String> = (0..1 + dice.below(3))
        .map(|_| {
            let column = match dice.below(8) {
                0 => format!("abs({})", dice.pick(&COLUMNS)),
                1 => format!("lower({})", dice.pick(&COLUMNS)),
                _ => dice.pick(&COLUMNS).to_owned(),
            };
            format!("{column}{}{}", dice.pick(&COLLATIONS), dice.pick(&["", " ASC", " DESC"]))
        })
        .collect();
    let partial = if dice.once_in(5) { " WHERE x > 3" } else { "" };
    format!("CREATE {unique}INDEX i{} ON {table} ({}){partial}", dice.below(6), columns.join(", "))
}

fn create_trigger(dice: &mut Dice) -> String {
    let (on, into) = (dice.pick(&TABLES), dice.pick(&TABLES));
    let event = dice.pick(&["INSERT", "UPDATE", "DELETE"]);
    let row = if event == "DELETE" { "OLD" } else { "NEW" };
    let time = dice.pick(&["BEFORE", "AFTER"]);
    let act = match dice.below(4) {
        0 => format!("UPDATE OR IGNORE {into} SET z = {row}.x WHERE y = {row}.y"),
        1 => format!("DELETE FROM {into} WHERE x = {row}.x AND y = {row}.z"),
        2 => "SELECT RAISE(IGNORE) WHERE 0".to_owned(),
        _ => format!("INSERT OR IGNORE INTO {into} (k, x, y) VALUES ({row}.x, {row}.y, {row}.k)"),
    };
    let when = format!(" WHEN {}", condition(dice, row));
    format!("CREATE TRIGGER t{} {time} {event} ON {on}{when} BEGIN {act}; END", dice.below(3))
}

fn schema(dice: &mut Dice) -> String {
    let table = dice.pick(&TABLES);
    match dice.below(12) {
        0..=2 => create_table(dice),
        3..=6 => create_index(dice),
        7 => create_trigger(dice),
        8 => format!("DROP INDEX i{}", dice.below(6)),
        9 => format!("DROP TABLE {table}"),
        10 => dice
            .pick(&[
                "DROP TRIGGER t0",
                "DROP TRIGGER t1",
                "REINDEX",
                "ANALYZE",
                "CREATE VIEW v AS SELECT a.k, b.x FROM a JOIN b ON a.x = b.x",
                "DROP VIEW v",
                "ALTER TABLE a ADD COLUMN w DEFAULT 'new'",
                "ALTER TABLE b RENAME COLUMN z TO zz",
                "ALTER TABLE b RENAME COLUMN zz TO z",
                "ALTER TABLE a DROP COLUMN w",
                "PRAGMA user_version = 5",
            ])
            .to_owned(),
        _ => format!("CREATE TABLE {table}{} AS SELECT * FROM {table}", dice.below(3)),
    }
}

fn insert(dice: &mut Dice) -> String {
    let table = dice.pick(&TABLES);
    let how = dice.pick(&[
        "INSERT",
        "INSERT",
        "INSERT OR REPLACE",
        "INSERT OR IGNORE",
        "INSERT OR FAIL",
        "REPLACE",
    ]);
    if dice.once_in(8) {
        let other = dice.pick(&TABLES);
        return format!(
            "{how} INTO {table} (k, x, y, z) SELECT k, y, x, z FROM {other} WHERE {} LIMIT 20",
            condition(dice, other)
        );
    }
    let rows: Vec<String> = (0..1 + dice.below(4))
        .map(|_| format!("({}, {}, {}, {})", value(dice), value(dice), value(dice), value(dice)))
        .collect();
    let rows = rows.join(", ");
    match dice.below(6) {
        0 => format!(
            "INSERT INTO {table} (k, x, y, z) VALUES {rows} ON CONFLICT DO UPDATE SET x = excluded.y, z = z \
             + 1"
        ),
        1 => format!("INSERT INTO {table} (k, x, y, z) VALUES {rows} ON CONFLICT DO NOTHING RETURNING k, x"),
        2 => format!("{how} INTO {table} (x, y, z) SELECT column1, column2, column3 FROM (VALUES {rows})"),
        _ => format!("{how} INTO {table} (k, x, y, z) VALUES {rows}"),
    }
}

fn change(dice: &mut Dice) -> String {
    let table = dice.pick(&TABLES);
    let how = dice.pick(&["UPDATE", "UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"]);
    let to = match dice.below(4) {
        0 => format!("k = k + {}", dice.below(5)),
        1 => format!("x = {}, y = x", value(dice)),
        2 => format!("z = z || 'a', x = {}", value(dice)),
        _ => format!("{} = {}", dice.pick(&COLUMNS), value(dice)),
    };
    match dice.below(5) {
        0 => format!("DELETE FROM {table} WHERE {}", condition(dice, table)),
        1 if dice.once_in(6) => format!("DELETE FROM {table}"),
        2 => format!("DELETE FROM {table} WHERE x IN (SELECT y FROM {})", dice.pick(&TABLES)),
        _ => format!("{how} {table} SET {to} WHERE {}", condition(dice, table)),
    }
}

fn query(dice: &mut Dice) -> String {
    let (one, other) = (dice.pick(&TABLES), dice.pick(&TABLES));
    let column = dice.pick(&COLUMNS);
    match dice.below(9) {
        0 => format!("SELECT * FROM {one} WHERE {} ORDER BY {column} DESC, k, x, y, z", condition(dice, one)),
        1 => format!(
            "SELECT p.k, q.y FROM {one} p JOIN {other} q ON p.{column} = q.{} WHERE {}",
            dice.pick(&COLUMNS),
            condition(dice, "p")
        ),
        2 => format!("SELECT {column}, count(*), sum(x), max(y) FROM {one} GROUP BY {column}"),
        3 => format!("SELECT min({column}), max({column}), count(*) FROM {one}"),
        4 => format!("SELECT DISTINCT {column} FROM {one} UNION SELECT {column} FROM {other} ORDER BY 1"),
        5 => format!("SELECT p.k FROM {one} p LEFT JOIN {other} q USING ({column}) WHERE q.x IS NULL"),
        6 => format!(
            "SELECT k, row_number() OVER (PARTITION BY {column} ORDER BY k, x, y, z) FROM {one} WHERE {}",
            condition(dice, one)
        ),
        7 => format!("SELECT * FROM {one} WHERE {column} = {} ORDER BY k DESC, x, y, z", value(dice)),
        _ => format!("SELECT count(*) FROM {one} WHERE {}", condition(dice, one)),
    }
}

/// What may come next.
pub(super) fn statement(dice: &mut Dice) -> String {
    match dice.below(50) {
        0..=3 => schema(dice),
        4..=15 => insert(dice),
        16..=23 => change(dice),
        24..=31 => query(dice),
        32 => dice.pick(&["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s1"]).to_owned(),
        33 => dice.pick(&["COMMIT", "COMMIT", "ROLLBACK"]).to_owned(),
        34 | 35 => format!("SAVEPOINT s{}", dice.below(3)),
        36 => format!("ROLLBACK TO s{}", dice.below(3)),
        37 => format!("RELEASE s{}", dice.below(3)),
        38 => insert(dice),
        39..=48 => families::statement(dice),
        _ => dice
            .pick(&["PRAGMA foreign_keys = 1", "PRAGMA recursive_triggers = 1", "PRAGMA user_version"])
            .to_owned(),
    }
}

/// A table each, so that there is something to begin with.
pub(super) fn beginning(dice: &mut Dice) -> Vec<String> {
    let mut all: Vec<String> = TABLES
        .iter()
        .map(|name| {
            let table = create_table(dice);
            let (_, rest) = table.split_once('(').expect("columns");
            format!("CREATE TABLE {name} ({rest}")
        })
        .collect();
    all.extend(families::beginning(dice));
    all
}

/// What shows all that there is.
pub(super) fn all_of_it() -> Vec<String> {
    let mut all: Vec<String> = TABLES.iter().map(|table| format!("SELECT * FROM {table}")).collect();
    all.extend(families::all_of_it());
    all.push("SELECT type, name, tbl_name, sql FROM sqlite_schema".to_owned());
    all.push("PRAGMA integrity_check".to_owned());
    all
}

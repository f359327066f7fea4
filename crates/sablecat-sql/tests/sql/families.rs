//! Statements at random on tables that refer to each other.

use crate::dice::Dice;

/// Who may be referred to by which columns, and who refers.
const PARENTS: [&str; 2] = ["p", "w"];
const CHILDREN: [&str; 3] = ["q", "r", "w"];

/// A value: few of them, so that they meet.
fn value(dice: &mut Dice) -> String {
    match dice.below(9) {
        0 => "NULL".to_owned(),
        1 => dice.pick(&["'a'", "'A'", "'a '", "2.0", "'3'"]).to_owned(),
        _ => format!("{}", dice.below(6)),
    }
}

fn reference(dice: &mut Dice) -> String {
    let to = dice.pick(&["p (k)", "p (k)", "p (x)", "w (k)", "w (x)"]);
    let actions = ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"];
    let deferred = dice.pick(&["", "", " DEFERRABLE INITIALLY DEFERRED"]);
    let (delete, update) = (dice.pick(&actions), dice.pick(&actions));
    format!("REFERENCES {to} ON DELETE {delete} ON UPDATE {update}{deferred}")
}

/// The tables: two that are referred to, of which one refers, too, by rows and without rows' numbers.
pub(super) fn beginning(dice: &mut Dice) -> Vec<String> {
    let key = dice.pick(&["INTEGER PRIMARY KEY", "PRIMARY KEY", "TEXT COLLATE NOCASE PRIMARY KEY"]);
    vec![
        format!("CREATE TABLE p (k {key}, x UNIQUE, y)"),
        format!("CREATE TABLE w (k PRIMARY KEY, x UNIQUE, y DEFAULT 1 {}) WITHOUT ROWID", reference(dice)),
        format!(
            "CREATE TABLE q (k INTEGER PRIMARY KEY, x DEFAULT 2 {}, y {})",
            reference(dice),
            reference(dice)
        ),
        format!("CREATE TABLE r (k, x {}, y DEFAULT 3 {})", reference(dice), reference(dice)),
        "CREATE INDEX r_by_x ON r (x)".to_owned(),
        "INSERT OR IGNORE INTO p VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0)".to_owned(),
        "INSERT OR IGNORE INTO w VALUES (1, 1, NULL), (2, 2, 1), (3, 3, 1)".to_owned(),
    ]
}

/// What may come next.
pub(super) fn statement(dice: &mut Dice) -> String {
    let (parent, child) = (dice.pick(&PARENTS), dice.pick(&CHILDREN));
    let any = if dice.once_in(2) { parent } else { child };
    let column = dice.pick(&["k", "x", "y"]);
    let or = dice.pick(&["", "", " OR REPLACE", " OR IGNORE"]);
    match dice.below(10) {
        0..=2 => {
            format!("INSERT{or} INTO {child} VALUES ({}, {}, {})", value(dice), value(dice), value(dice))
        }
        3 => format!("INSERT{or} INTO {parent} VALUES ({}, {}, {})", value(dice), value(dice), value(dice)),
        4 | 5 => format!("DELETE FROM {parent} WHERE {column} = {}", value(dice)),
        6 => format!("UPDATE{or} {parent} SET {column} = {} WHERE k = {}", value(dice), value(dice)),
        7 => format!("UPDATE{or} {any} SET {column} = {column} + 1 WHERE k >= {}", value(dice)),
        8 => format!("DELETE FROM {any} WHERE {column} > {}", value(dice)),
        _ => dice
            .pick(&["PRAGMA foreign_key_check", "PRAGMA defer_foreign_keys = 1", "DELETE FROM q"])
            .to_owned(),
    }
}

/// What shows all that there is.
pub(super) fn all_of_it() -> Vec<String> {
    ["p", "w", "q", "r"].map(|table| format!("SELECT * FROM {table}")).to_vec()
}

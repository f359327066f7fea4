//! The standard relations of the Wisconsin benchmark (DeWitt, "The Wisconsin Benchmark: Past, Present, and
//! Future", in Gray's Benchmark Handbook, 1993).
//!
//! `tenktup1` and `tenktup2` have ten thousand rows, `onektup` a tenth of them, `bprime` the first tenth of
//! `tenktup2`. A row has thirteen integers and three texts of 52 characters:
//!
//! | attribute | is |
//! |---|---|
//! | unique1 | another number below the count of rows in each row, in no order |
//! | unique2 | the number of the row |
//! | two, four, ten, twenty, onepercent, tenpercent, twentypercent, fiftypercent | unique1 modulo 2, 4, 10, 20, 100, 10, 5, 2 |
//! | unique3 | unique1 |
//! | evenonepercent, oddonepercent | twice onepercent, and one more |
//! | stringu1, stringu2 | unique1 and unique2 in seven letters, then 45 times x |
//! | string4 | AAAA, HHHH, OOOO and VVVV in turn, then 48 times x |
//!
//! Each is there twice: with `heap_` before its name it has no index, so that its rows are found by reading
//! all of them; without, `unique2` is the key by which its rows are sorted, the benchmark's clustered index,
//! and `unique1` has an index beside. (Tables of rows by their number are what all libraries here have for
//! the one and for the other.) Rows come in the order of `unique2`.

use super::library::{Connection, Fault};
use crate::workload::mix;

/// The integers of a row, in their order.
const INTEGERS: usize = 13;
/// All attributes.
pub(super) const ATTRIBUTES: usize = INTEGERS + 3;
/// Characters of a text.
pub(super) const TEXT: i64 = 52;

/// A relation of so many rows: the value of unique1 in each row, which is numbered by unique2.
#[derive(Clone, Debug)]
pub(super) struct Relation(pub(super) Vec<i64>);

/// The relations, as queries name them.
#[derive(Clone, Debug)]
pub(super) struct Relations {
    pub(super) onektup: Relation,
    pub(super) tenktup1: Relation,
    pub(super) tenktup2: Relation,
    pub(super) bprime: Relation,
}

impl Relation {
    /// In an order that differs by the seed (Fisher and Yates).
    fn shuffled(rows: u64, seed: u64) -> Relation {
        let mut unique1: Vec<i64> = (0..rows as i64).collect();
        for last in (1..unique1.len()).rev() {
            let drawn = mix(seed << 32 ^ last as u64) % (last as u64 + 1);
            unique1.swap(last, drawn as usize);
        }
        Relation(unique1)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.0.iter().enumerate().map(|(unique2, &unique1)| Row { unique1, unique2: unique2 as i64 })
    }
}

impl Relations {
    /// Those whose large ones have so many rows, which is rounded down to a multiple of a hundred.
    pub(super) fn of(rows: u64) -> Relations {
        let tenktup2 = Relation::shuffled(rows, 2);
        let bprime = Relation(tenktup2.0[..rows as usize / 10].to_vec());
        Relations {
            onektup: Relation::shuffled(rows / 10, 3),
            tenktup1: Relation::shuffled(rows, 1),
            tenktup2,
            bprime,
        }
    }

    fn named(&self) -> [(&'static str, &Relation); 4] {
        [
            ("onektup", &self.onektup),
            ("tenktup1", &self.tenktup1),
            ("tenktup2", &self.tenktup2),
            ("bprime", &self.bprime),
        ]
    }
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) unique1: i64,
    pub(super) unique2: i64,
}

impl Row {
    pub(super) fn onepercent(self) -> i64 {
        self.unique1 % 100
    }

    pub(super) fn string4(self) -> String {
        format!("{:x<52}", ["AAAA", "HHHH", "OOOO", "VVVV"][self.unique2 as usize % 4])
    }

    fn integers(self) -> [i64; INTEGERS] {
        let Row { unique1, unique2 } = self;
        let onepercent = self.onepercent();
        [
            unique1,
            unique2,
            unique1 % 2,
            unique1 % 4,
            unique1 % 10,
            unique1 % 20,
            onepercent,
            unique1 % 10,
            unique1 % 5,
            unique1 % 2,
            unique1,
            2 * onepercent,
            2 * onepercent + 1,
        ]
    }

    /// As a list of SQL's values.
    pub(super) fn values(self) -> String {
        let integers: Vec<String> = self.integers().iter().map(i64::to_string).collect();
        let texts =
            [letters(self.unique1), letters(self.unique2), self.string4()].map(|text| format!("'{text}'"));
        [integers, texts.into()].concat().join(", ")
    }
}

/// A number in seven letters, the last of which changes most often, and so many x that it is long enough.
fn letters(mut number: i64) -> String {
    let mut seven = [b'A'; 7];
    for letter in seven.iter_mut().rev() {
        *letter = b'A' + (number % 26) as u8;
        number /= 26;
    }
    format!("{:x<52}", String::from_utf8_lossy(&seven))
}

/// Numbers of columns of the tables that take results, whose columns are c1, c2 and so on.
const RESULTS: [usize; 6] = [1, 6, 14, ATTRIBUTES, 2 * ATTRIBUTES, 3 * ATTRIBUTES];

/// Makes them, and the tables that take results.
pub(super) fn make(connection: &Connection, rows: u64) -> Result<(), Fault> {
    let relations = Relations::of(rows);
    for (name, relation) in relations.named() {
        for (prefix, key) in [("heap_", ""), ("", " PRIMARY KEY")] {
            connection.execute(&format!(
                "CREATE TABLE {prefix}{name} (
                     unique1 INTEGER NOT NULL, unique2 INTEGER{key} NOT NULL, two INTEGER NOT NULL,
                     four INTEGER NOT NULL, ten INTEGER NOT NULL, twenty INTEGER NOT NULL,
                     onepercent INTEGER NOT NULL, tenpercent INTEGER NOT NULL, twentypercent INTEGER NOT NULL,
                     fiftypercent INTEGER NOT NULL, unique3 INTEGER NOT NULL, evenonepercent INTEGER NOT NULL,
                     oddonepercent INTEGER NOT NULL, stringu1 TEXT NOT NULL, stringu2 TEXT NOT NULL,
                     string4 TEXT NOT NULL);
                 BEGIN;"
            ))?;
            fill(connection, &format!("{prefix}{name}"), relation)?;
            connection.execute("COMMIT")?;
        }
        connection.execute(&format!("CREATE UNIQUE INDEX {name}_unique1 ON {name} (unique1)"))?;
    }
    for columns in RESULTS {
        let names: Vec<String> = (1..=columns).map(|column| format!("c{column}")).collect();
        connection.execute(&format!("CREATE TABLE result{columns} ({})", names.join(", ")))?;
    }
    connection.execute("ANALYZE; PRAGMA wal_checkpoint;")
}

fn fill(connection: &Connection, name: &str, relation: &Relation) -> Result<(), Fault> {
    let places: Vec<String> = (1..=ATTRIBUTES).map(|place| format!("?{place}")).collect();
    let mut insert = connection.prepare(&format!("INSERT INTO {name} VALUES ({})", places.join(", ")))?;
    for row in relation.rows() {
        for (before, text) in [letters(row.unique1), letters(row.unique2), row.string4()].iter().enumerate() {
            insert.bind_text(INTEGERS + before + 1, text)?;
        }
        insert.run(&row.integers())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_as_the_benchmark_has_it() {
        let row = Row { unique1: 1234, unique2: 27 };
        let x45 = "x".repeat(45);
        let expected = format!(
            "1234, 27, 0, 2, 4, 14, 34, 4, 4, 0, 1234, 68, 69, 'AAAABVM{x45}', 'AAAAABB{x45}', 'VVVVxxx{x45}'"
        );
        assert_eq!(row.values(), expected);
        assert_eq!(row.string4().len() as i64, TEXT);
    }

    #[test]
    fn numbers_are_unique_and_in_no_order() {
        let relations = Relations::of(1000);
        for (name, relation) in relations.named() {
            let mut sorted = relation.0.clone();
            assert!(!sorted.is_sorted(), "{name}");
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), if name.starts_with("ten") { 1000 } else { 100 });
        }
        assert_ne!(relations.tenktup1.0, relations.tenktup2.0);
    }
}

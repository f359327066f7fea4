//! The 32 queries of the Wisconsin benchmark, and what each must come to.
//!
//! The text is that of DeWitt's chapter, with numbers that are in proportion to the relations, and these
//! differences: what is selected goes into a table that is emptied before each run, whose columns have no
//! names of their own; queries that are to find no index are of the relations that have none; the join of
//! three relations names all three; the row that is inserted has a unique2 that is not taken.
//!
//! What comes out is known from how the relations are made ([`super::relations`]): how many rows, and sums
//! over some of their columns and over the lengths of their texts. Joins are checked by columns of each side.

use std::collections::{BTreeMap, BTreeSet};

use super::protocol::Query;
use super::relations::{ATTRIBUTES, Relations, Row, TEXT};

/// A query of the benchmark.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// As rows of a report have it.
    pub(super) op: &'static str,
    /// For people.
    pub(super) what: &'static str,
    /// Milliseconds, in the white paper on Berkeley DB 11g Release 2.
    pub(super) paper_ms: f64,
    pub(super) query: Query,
    /// The numbers of its check.
    pub(super) expected: Vec<i64>,
}

/// Number, words and the paper's milliseconds of each.
const CASES: [(&str, &str, f64); 32] = [
    ("1", "1 % selection, no index", 8.175),
    ("2", "10 % selection, no index", 13.875),
    ("3", "1 % selection, clustered index", 0.879),
    ("4", "10 % selection, clustered index", 6.749),
    ("5", "1 % selection, non-clustered index", 1.368),
    ("6", "10 % selection, non-clustered index", 11.017),
    ("7", "one row, clustered index", 0.244),
    ("8", "1 % selection to the program, clustered index", 1.373),
    ("9", "JoinAselB, no index", 31_047.220),
    ("10", "JoinABprime, no index", 3_160.824),
    ("11", "JoinCselAselB, no index", 5_335.219),
    ("12", "JoinAselB, clustered index", 9.920),
    ("13", "JoinABprime, clustered index", 9.942),
    ("14", "JoinCselAselB, clustered index", 11.585),
    ("15", "JoinAselB, non-clustered index", 19.407),
    ("16", "JoinABprime, non-clustered index", 14.759),
    ("17", "JoinCselAselB, non-clustered index", 16.944),
    ("18", "projection, 1 %", 58.801),
    ("19", "projection, 100 %", 136.595),
    ("20", "minimum, no index", 3.944),
    ("21", "minimum of 100 groups, no index", 32.566),
    ("22", "sum of 100 groups, no index", 32.774),
    ("23", "minimum, clustered index", 0.102),
    ("24", "minimum of 100 groups, clustered index", 17.742),
    ("25", "sum of 100 groups, clustered index", 18.163),
    ("26", "insert a row, no index", 0.907),
    ("27", "delete a row, no index", 3.844),
    ("28", "update the key, no index", 4.380),
    ("29", "insert a row, indices", 1.081),
    ("30", "delete a row, indices", 1.273),
    ("31", "update the key, indices", 1.252),
    ("32", "update an indexed attribute", 1.081),
];

/// What the query of that number is, for people.
pub(super) fn what(op: &str) -> Option<&'static str> {
    CASES.iter().find(|(number, ..)| *number == op).map(|(_, what, _)| *what)
}

/// All of them, for relations whose large ones have so many rows.
pub(super) fn all(rows: u64) -> Vec<Case> {
    let relations = Relations::of(rows);
    let found = Expected { rows: rows as i64, relations };
    let bodies = found.selections().into_iter().chain(found.joins()).chain(found.aggregates());
    let bodies = bodies.chain(found.changes());
    let case = |((op, what, paper_ms), (query, expected)): ((&'static str, &'static str, f64), Body)| Case {
        op,
        what,
        paper_ms,
        query,
        expected,
    };
    CASES.into_iter().zip(bodies).map(case).collect()
}

/// A query, and the numbers of its check.
type Body = (Query, Vec<i64>);

struct Expected {
    /// Of the large relations.
    rows: i64,
    relations: Relations,
}

impl Expected {
    /// A number of the benchmark, for relations of so many rows.
    fn scaled(&self, number: i64) -> i64 {
        number * self.rows / 10_000
    }

    /// Queries 1 to 8.
    fn selections(&self) -> Vec<Body> {
        let (percent, tenth) = (self.rows / 100, self.rows / 10);
        let few = (0, percent - 1);
        let many = (self.scaled(792), self.scaled(792) + tenth - 1);
        let within = |(from, to): (i64, i64), of: fn(&Row) -> i64| {
            let is_within = move |row: &Row| (from..=to).contains(&of(row));
            let found: Vec<Row> = self.relations.tenktup1.rows().filter(is_within).collect();
            numbers(found.len(), &[&found])
        };
        let selection = |table: &str, by: &str, (from, to): (i64, i64)| {
            into(ATTRIBUTES, &format!("SELECT * FROM {table} WHERE {by} BETWEEN {from} AND {to}"))
        };
        let mut bodies = Vec::new();
        for table in ["heap_tenktup1", "tenktup1"] {
            for range in [few, many] {
                bodies.push((selection(table, "unique2", range), within(range, |row| row.unique2)));
            }
        }
        for range in [few, many] {
            bodies.push((selection("tenktup1", "unique1", range), within(range, |row| row.unique1)));
        }
        let shown = |sql: String| Query { sql, ..Query::default() };
        let one = self.scaled(2001);
        let unique1 = &self.relations.tenktup1.0;
        bodies.push((
            shown(format!("SELECT * FROM tenktup1 WHERE unique2 = {one}")),
            vec![1, unique1[one as usize]],
        ));
        bodies.push((
            shown(format!("SELECT * FROM tenktup1 WHERE unique2 BETWEEN {} AND {}", few.0, few.1)),
            vec![percent, unique1[..percent as usize].iter().sum()],
        ));
        bodies
    }

    /// Queries 9 to 17.
    fn joins(&self) -> Vec<Body> {
        let tenth = self.rows / 10;
        let Relations { onektup, tenktup1, tenktup2, bprime } = &self.relations;
        let a: Vec<Row> = tenktup1.rows().collect();
        let (b, small, c): (Vec<Row>, Vec<Row>, Vec<Row>) =
            (tenktup2.rows().collect(), bprime.rows().collect(), onektup.rows().collect());
        // By unique2 rows of equal numbers meet; by unique1 those that a list of all has there.
        let first = |rows: &[Row]| rows[..tenth as usize].to_vec();
        let by_unique1 = |rows: &[Row]| {
            let mut sorted = rows.to_vec();
            sorted.sort_unstable_by_key(|row| row.unique1);
            sorted
        };
        let (a_by_1, b_by_1) = (by_unique1(&a), by_unique1(&b));
        let meeting = |rows: &[Row], by_1: &[Row]| -> Vec<Row> {
            rows.iter().map(|row| by_1[row.unique1 as usize]).collect()
        };

        let mut bodies = Vec::new();
        for p in ["heap_", ""] {
            let (one, two, b, c) =
                (format!("{p}tenktup1"), format!("{p}tenktup2"), format!("{p}bprime"), format!("{p}onektup"));
            bodies.push((
                into(
                    2 * ATTRIBUTES,
                    &format!(
                        "SELECT * FROM {one}, {two} WHERE {one}.unique2 = {two}.unique2 AND {two}.unique2 < \
                         {tenth}"
                    ),
                ),
                numbers(tenth as usize, &[&first(&a), &first(&self.of(tenktup2))]),
            ));
            bodies.push((
                into(2 * ATTRIBUTES, &format!("SELECT * FROM {one}, {b} WHERE {one}.unique2 = {b}.unique2")),
                numbers(tenth as usize, &[&first(&a), &small]),
            ));
            bodies.push((
                into(
                    3 * ATTRIBUTES,
                    &format!(
                        "SELECT * FROM {c}, {one}, {two} WHERE {c}.unique2 = {one}.unique2
                         AND {one}.unique2 = {two}.unique2 AND {one}.unique2 < {tenth}"
                    ),
                ),
                numbers(tenth as usize, &[&self.of(onektup), &first(&a), &first(&self.of(tenktup2))]),
            ));
        }
        bodies.push((
            into(
                2 * ATTRIBUTES,
                &format!(
                    "SELECT * FROM tenktup1, tenktup2 WHERE tenktup1.unique1 = tenktup2.unique1
                     AND tenktup1.unique2 < {tenth}"
                ),
            ),
            numbers(tenth as usize, &[&first(&a), &meeting(&first(&a), &b_by_1)]),
        ));
        bodies.push((
            into(2 * ATTRIBUTES, "SELECT * FROM tenktup1, bprime WHERE tenktup1.unique1 = bprime.unique1"),
            numbers(tenth as usize, &[&meeting(&small, &a_by_1), &small]),
        ));
        bodies.push((
            into(
                3 * ATTRIBUTES,
                &format!(
                    "SELECT * FROM onektup, tenktup1, tenktup2 WHERE onektup.unique1 = tenktup1.unique1
                     AND tenktup1.unique1 = tenktup2.unique1 AND tenktup1.unique1 < {tenth}"
                ),
            ),
            numbers(tenth as usize, &[&c, &first(&a_by_1), &first(&b_by_1)]),
        ));
        bodies
    }

    fn of(&self, relation: &super::relations::Relation) -> Vec<Row> {
        relation.rows().collect()
    }

    /// Queries 18 to 25.
    fn aggregates(&self) -> Vec<Body> {
        let rows = self.of(&self.relations.tenktup1);
        let few: BTreeSet<(i64, String)> = rows.iter().map(|row| (row.onepercent(), row.string4())).collect();
        let percents = few.iter().map(|(percent, _)| percent).sum();
        let sum: i64 = rows.iter().map(|row| row.unique1).sum();
        let mut groups: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for row in &rows {
            let (least, sum) = groups.entry(row.onepercent()).or_insert((row.unique1, 0));
            *least = row.unique1.min(*least);
            *sum += row.unique1;
        }
        let count = groups.len() as i64;
        let (least, sums): (i64, i64) =
            (groups.values().map(|group| group.0).sum(), groups.values().map(|group| group.1).sum());
        let mut bodies = vec![
            (
                Query {
                    check: "SELECT count(*), sum(c5), sum(length(c6)) FROM result6".to_owned(),
                    columns: 3,
                    ..into(
                        6,
                        "SELECT DISTINCT two, four, ten, twenty, onepercent, string4 FROM \
                               heap_tenktup1",
                    )
                },
                vec![few.len() as i64, percents, TEXT * few.len() as i64],
            ),
            (
                Query {
                    check: "SELECT count(*), sum(c9), sum(length(c12) + length(c13) + length(c14)) FROM \
                            result14"
                        .to_owned(),
                    columns: 3,
                    ..into(
                        14,
                        "SELECT DISTINCT two, four, ten, twenty, onepercent, tenpercent, twentypercent,
                         fiftypercent, unique3, evenonepercent, oddonepercent, stringu1, stringu2, string4
                         FROM heap_tenktup1",
                    )
                },
                vec![self.rows, sum, 3 * TEXT * self.rows],
            ),
        ];
        for table in ["heap_tenktup1", "tenktup1"] {
            let one = |sql: String| Query {
                check: "SELECT count(*), sum(c1) FROM result1".to_owned(),
                columns: 2,
                ..into(1, &sql)
            };
            bodies.push((one(format!("SELECT MIN(unique2) FROM {table}")), vec![1, 0]));
            let grouped =
                |what: &str| one(format!("SELECT {what}(unique3) FROM {table} GROUP BY onepercent"));
            bodies.push((grouped("MIN"), vec![count, least]));
            bodies.push((grouped("SUM"), vec![count, sums]));
        }
        bodies
    }

    /// Queries 26 to 32.
    fn changes(&self) -> Vec<Body> {
        let new = Row { unique1: self.rows + 1, unique2: self.rows + 1 };
        let key = self.scaled(1491);
        let rows = self.of(&self.relations.tenktup1);
        let sums = |rows: &[Row]| numbers(rows.len(), &[rows]);
        let with = |new: Row| sums(&[&rows[..], &[new]].concat());
        let changed = |change: &dyn Fn(&mut Row)| {
            let mut rows = rows.clone();
            rows.iter_mut().for_each(change);
            sums(&rows)
        };
        let moved = changed(&|row| row.unique2 = if row.unique2 == key { new.unique2 } else { row.unique2 });
        // Only the attribute changes, not those that follow from it.
        let renamed =
            changed(&|row| row.unique1 = if row.unique1 == key { new.unique1 } else { row.unique1 });
        let mut bodies = Vec::new();
        for table in ["heap_tenktup1", "tenktup1"] {
            let insert = format!("INSERT INTO {table} VALUES ({})", new.values());
            let delete = format!("DELETE FROM {table} WHERE unique1 = {}", new.unique1);
            let change = |before: &[&String], sql: &String, after: &[&String]| Query {
                before: before.iter().map(|&sql| sql.clone()).collect(),
                sql: sql.clone(),
                check: check(
                    table,
                    1,
                    ["unique1", "unique2", "stringu1", "stringu2", "string4"].map(str::to_owned),
                ),
                columns: 4,
                after: after.iter().map(|&sql| sql.clone()).collect(),
                ..Query::default()
            };
            bodies.push((change(&[], &insert, &[&delete]), with(new)));
            bodies.push((change(&[&insert], &delete, &[]), sums(&rows)));
            let update = |attribute: &str, from: i64, to: i64| {
                format!("UPDATE {table} SET {attribute} = {to} WHERE {attribute} = {from}")
            };
            let there = update("unique2", key, new.unique2);
            bodies.push((change(&[], &there, &[&update("unique2", new.unique2, key)]), moved.clone()));
            if table == "tenktup1" {
                let there = update("unique1", key, new.unique1);
                bodies.push((change(&[], &there, &[&update("unique1", new.unique1, key)]), renamed.clone()));
            }
        }
        bodies
    }
}

/// A query whose rows go into the table for so many columns.
fn into(columns: usize, select: &str) -> Query {
    let side =
        |side: usize| [1, 2, 14, 15, 16].map(|attribute| format!("c{}", side * ATTRIBUTES + attribute));
    let sides: Vec<String> = (0..columns / ATTRIBUTES).flat_map(side).collect();
    Query {
        before: vec![format!("DELETE FROM result{columns}")],
        sql: format!("INSERT INTO result{columns} {select}"),
        check: check(&format!("result{columns}"), columns / ATTRIBUTES, sides),
        columns: 1 + 3 * (columns / ATTRIBUTES),
        ..Query::default()
    }
}

/// A query for the count of rows and, of each side of a join, three sums: unique1, unique2, lengths of texts.
fn check(table: &str, sides: usize, columns: impl IntoIterator<Item = String>) -> String {
    let columns: Vec<String> = columns.into_iter().collect();
    let sums = columns.chunks(5).take(sides).map(|side| {
        let [one, two, texts @ ..] = side else { unreachable!("five of each side") };
        let lengths: Vec<String> = texts.iter().map(|text| format!("length({text})")).collect();
        format!(", sum({one}), sum({two}), sum({})", lengths.join(" + "))
    });
    format!("SELECT count(*){} FROM {table}", sums.collect::<String>())
}

/// What such a query must give.
fn numbers(rows: usize, sides: &[&[Row]]) -> Vec<i64> {
    let of = |side: &&[Row]| {
        let (one, two) = side.iter().fold((0, 0), |(one, two), row| (one + row.unique1, two + row.unique2));
        [one, two, 3 * TEXT * rows as i64]
    };
    [rows as i64].into_iter().chain(sides.iter().flat_map(of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_has_a_text_and_numbers() {
        let all = all(1000);
        assert_eq!(all.len(), 32);
        for (number, case) in all.iter().enumerate() {
            assert_eq!(case.op, (number + 1).to_string());
            assert!(case.expected.len() == case.query.columns || case.query.check.is_empty(), "{case:?}");
            assert_eq!(
                case.what.contains("no index"),
                case.query.sql.contains("heap_") && !case.what.contains("projection"),
                "{case:?}"
            );
        }
        assert_eq!(all[3].expected[0], 100);
        assert_eq!(all[16].expected.len(), 10);
        assert_eq!(all[16].query.columns, 10);
    }

    #[test]
    fn a_check_names_columns_of_each_side() {
        assert_eq!(
            into(32, "SELECT 1").check,
            "SELECT count(*), sum(c1), sum(c2), sum(length(c14) + length(c15) + length(c16)), \
             sum(c17), sum(c18), sum(length(c30) + length(c31) + length(c32)) FROM result32"
        );
        let rows = [Row { unique1: 3, unique2: 1 }, Row { unique1: 5, unique2: 2 }];
        assert_eq!(numbers(2, &[&rows]), [2, 8, 3, 312]);
    }
}

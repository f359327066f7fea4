//! Names that one process makes, passes on, empties, loads and takes away, beside what another is in the
//! middle of: snapshots, ranges with a snapshot of their own, cursors.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;

use sablecat::{Cursor, Database, Env, ErrorKind, Method, Range, Read, ReadTxn, Record, Result};
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const METHODS: [Method; 3] = [Method::Btree, Method::Hash, Method::Counted];

/// Records of one value: some are long, some have long keys.
fn records(of: u8, count: u64) -> Vec<Record> {
    let record = |n: u64| {
        let mut key = n.to_be_bytes().to_vec();
        key.resize(if n.is_multiple_of(40) { 700 } else { 8 }, b'k');
        (key, vec![of; if n.is_multiple_of(60) { 6000 } else { 40 }])
    };
    (0..count).map(record).collect()
}

/// All records of each name, in the order of their keys.
fn contents(from: &impl Read<Of = Env>) -> BTreeMap<String, Vec<Record>> {
    let all = |name: String| {
        let database = from.existing_database(&name).unwrap().unwrap();
        let mut all: Vec<_> = from.range(&database, ..).unwrap().map(Result::unwrap).collect();
        all.sort();
        (name, all)
    };
    from.databases().unwrap().into_iter().map(all).collect()
}

/// Changes what there is under some name.
fn change(env: &Env, dice: &mut Dice) -> Result<()> {
    let (name, other) = (dice.of(&NAMES), dice.of(&NAMES));
    let (of, count) = (dice.below(256) as u8, dice.below(300));
    match dice.below(6) {
        0 => env.remove_database(name).map(drop),
        1 => match env.rename_database(name, other) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Exists) => Ok(()),
            renamed => renamed,
        },
        2 => match env.existing_database(name)? {
            Some(database) => database.clear().map(drop),
            None => Ok(()),
        },
        3 => {
            // Of another method, under the name of one that is gone since.
            env.remove_database(name)?;
            env.database_as(name, dice.of(&METHODS))?.bulk_load(records(of, count)).map(drop)
        }
        4 => match env.existing_database(name)? {
            Some(database) => {
                database.clear()?;
                database.bulk_load(records(of, count)).map(drop)
            }
            None => Ok(()),
        },
        _ => env.write(|txn| {
            txn.remove_database(name)?;
            let new = txn.database_as(name, METHODS[usize::from(of) % 3])?;
            records(of, count).iter().try_for_each(|(key, value)| txn.insert(&new, key, value))
        }),
    }
}

/// Who has come half way through a database.
struct Halfway {
    name: String,
    database: Database,
    owned: Range<ReadTxn>,
    cursor: Cursor,
    /// One that looks at the newest state each time.
    newest: Cursor,
    seen: [Vec<Record>; 2],
}

fn step(cursor: &mut Cursor, state: &ReadTxn) -> Result<Option<Record>> {
    let Some(key) = cursor.next(state)?.map(<[u8]>::to_vec) else { return Ok(None) };
    Ok(cursor.value(state)?.map(|value| (key, value.to_vec())))
}

impl Halfway {
    fn begin(state: &ReadTxn, name: &str, dice: &mut Dice) -> Halfway {
        let database = state.existing_database(name).unwrap().unwrap();
        let mut halfway = Halfway {
            name: name.to_owned(),
            owned: database.range(..).unwrap(),
            cursor: database.cursor(),
            newest: database.cursor(),
            seen: Default::default(),
            database,
        };
        for _ in 0..dice.below(200) {
            halfway.seen[0].extend(halfway.owned.next().map(Result::unwrap));
            halfway.seen[1].extend(step(&mut halfway.cursor, state).unwrap());
            halfway.newest.next(halfway.database.env()).unwrap();
        }
        halfway
    }

    /// The rest is what there was, and as it was.
    fn end(mut self, state: &ReadTxn, expected: &[Record]) {
        self.seen[0].extend(self.owned.by_ref().map(Result::unwrap));
        while let Some(record) = step(&mut self.cursor, state).unwrap() {
            self.seen[1].push(record);
        }
        for mut seen in self.seen {
            seen.sort();
            assert!(seen == expected, "{}: {} of {}", self.name, seen.len(), expected.len());
        }
        for (key, value) in expected.iter().step_by(17) {
            assert_eq!(state.get(&self.database, key).unwrap().as_ref(), Some(value), "{}", self.name);
        }
        assert_eq!(state.len(&self.database).unwrap(), expected.len() as u64);
        // It may be gone by now, and nothing else is wrong.
        let is_gone = |error: sablecat::Error| assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let newest = self.newest.next(self.database.env()).map(drop);
        let others = [newest, self.database.first().map(drop), self.database.insert("key", "value")];
        others.into_iter().for_each(|done| done.unwrap_or_else(is_gone));
    }
}

#[test]
fn what_is_read_of_a_snapshot_is_that_of_the_snapshot_whatever_becomes_of_the_names() {
    let place = Place::new("names-beside");
    let open = || place.builder().cache_size(16 << 20).open(place.env()).unwrap();
    // Two members of one environment, as two processes are.
    let (changer, reader) = (open(), open());
    let rounds = std::env::var("SABLECAT_TEST_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
    let mut dice = Dice(1);
    for round in 0..rounds {
        for _ in 0..3 {
            change(&changer, &mut dice).unwrap();
        }
        let state = reader.snapshot().unwrap();
        let expected = contents(&changer);
        assert!(contents(&state) == expected, "in round {round}");
        let halfway: Vec<_> = expected.keys().map(|name| Halfway::begin(&state, name, &mut dice)).collect();
        for n in 0..1 + dice.below(8) {
            change(&changer, &mut dice).unwrap();
            if n == 3 {
                changer.checkpoint().unwrap();
            }
        }
        for one in halfway {
            let all = &expected[&one.name];
            one.end(&state, all);
        }
        assert!(contents(&state) == expected, "at the end of round {round}");
        drop(state);
        assert!(contents(&reader) == contents(&changer));
    }
    let report = changer.verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, [""; 0]);
}

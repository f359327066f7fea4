//! Ranges of records removed: what is left is what a map has.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;
use sablecat::{Builder, Database, Durability, Env, Isolation, Read, TxnOptions};
use sablecat_os::sim::{SimDisk, Survival};

type Bytes = Vec<u8>;
type Bounds = (Bound<Bytes>, Bound<Bytes>);

const DIRECTORY: &str = "/env";

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Pages so small that some hundred records make a tree of three levels.
fn small() -> Builder {
    Env::builder().page_size(512).background(false)
}

fn assert_sound(env: &Env) {
    env.keep_house().expect("kept");
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
}

fn all(from: &impl Read<Of = Env>, db: &Database) -> BTreeMap<Bytes, Bytes> {
    from.range(db, ..).expect("read").map(|record| record.expect("read")).collect()
}

/// Something that is done in a transaction.
#[derive(Clone, Debug)]
enum Deed {
    Insert(Bytes, usize),
    Remove(Bytes),
    RemoveRange(Bounds),
    Savepoint,
    RollBack(usize),
    /// Reads from both ends and counts.
    Look(Bounds),
    Get(Bytes),
}

/// Few of all keys are nested; these have much in common.
fn any_key() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        12 => (0u32..700).prop_map(|n| key(n * 3).to_vec()),
        2 => (0u8..3, 0usize..4, 0u8..8).prop_map(|(first, more, last)| {
            let mut key = vec![0, 0, first, 200];
            key.resize(90 + 80 * more, b'n');
            key.push(last);
            key
        }),
        1 => (0u8..3).prop_map(|first| vec![0, 0, first]),
    ]
}

fn any_bound() -> impl Strategy<Value = Bound<Bytes>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        4 => any_key().prop_map(Bound::Included),
        4 => any_key().prop_map(Bound::Excluded),
    ]
}

fn any_range() -> impl Strategy<Value = Bounds> {
    prop_oneof![
        3 => (any_bound(), any_bound()),
        4 => (0u32..2100, 0u32..300)
            .prop_map(|(from, len)| {
                (Bound::Included(key(from).to_vec()), Bound::Excluded(key(from + len).to_vec()))
            }),
    ]
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (any_key(), prop_oneof![9 => 0usize..60, 1 => Just(1500)])
            .prop_map(|(key, len)| Deed::Insert(key, len)),
        3 => any_key().prop_map(Deed::Remove),
        4 => any_range().prop_map(Deed::RemoveRange),
        1 => Just(Deed::Savepoint),
        1 => (0usize..4).prop_map(Deed::RollBack),
        2 => any_range().prop_map(Deed::Look),
        2 => any_key().prop_map(Deed::Get),
    ]
}

fn within(model: &BTreeMap<Bytes, Bytes>, (lower, upper): &Bounds) -> Vec<(Bytes, Bytes)> {
    let low = |key: &Bytes| match lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => key >= bound,
        Bound::Excluded(bound) => key > bound,
    };
    let high = |key: &Bytes| match upper {
        Bound::Unbounded => true,
        Bound::Included(bound) => key <= bound,
        Bound::Excluded(bound) => key < bound,
    };
    let found = model.iter().filter(|(key, _)| low(key) && high(key));
    found.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What there is before: enough for several levels, long values, and subtrees of some pages.
fn fill(env: &Env, db: &Database) -> BTreeMap<Bytes, Bytes> {
    let mut model = BTreeMap::new();
    for n in 0..700u32 {
        model
            .insert(key(n * 3).to_vec(), vec![n as u8; if n % 97 == 5 { 1300 } else { 8 + n as usize % 50 }]);
    }
    for n in 0..120u8 {
        let mut nested = vec![0, 0, n % 3, 200];
        nested.resize(90 + 80 * usize::from(n % 4), b'n');
        nested.push(n / 3);
        model.insert(nested, vec![n; 30]);
    }
    env.write(|txn| model.iter().try_for_each(|(key, value)| txn.insert(db, key, value))).expect("inserted");
    model
}

/// Does all of it in one transaction and compares each answer.
fn run(env: &Env, db: &Database, isolation: Isolation, deeds: &[Deed], model: &mut BTreeMap<Bytes, Bytes>) {
    let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).expect("a seat");
    let mut saved = Vec::new();
    for deed in deeds {
        match deed {
            Deed::Insert(key, len) => {
                let value = vec![*len as u8; *len];
                txn.insert(db, key, &value).expect("inserted");
                model.insert(key.clone(), value);
            }
            Deed::Remove(key) => {
                assert_eq!(txn.remove(db, key).expect("removed"), model.remove(key).is_some());
            }
            Deed::RemoveRange(range) => {
                let gone = within(model, range);
                assert_eq!(txn.remove_range(db, range).expect("removed"), gone.len() as u64, "{range:?}");
                gone.iter().for_each(|(key, _)| _ = model.remove(key));
            }
            Deed::Savepoint => saved.push((txn.savepoint(), model.clone())),
            Deed::RollBack(n) => {
                if !saved.is_empty() {
                    saved.truncate(n % saved.len() + 1);
                    let (point, before) = saved.last().expect("one is left");
                    txn.rollback_to(point).expect("undone");
                    model.clone_from(before);
                }
            }
            Deed::Look(range) => {
                let expected = within(model, range);
                let found: Vec<_> =
                    txn.range(db, range).expect("read").map(|record| record.expect("read")).collect();
                assert_eq!(found, expected);
                let mut back: Vec<_> =
                    txn.range(db, range).expect("read").rev().map(|record| record.expect("read")).collect();
                back.reverse();
                assert_eq!(back, expected);
            }
            Deed::Get(key) => assert_eq!(txn.get(db, key).expect("read").as_ref(), model.get(key)),
        }
    }
    txn.commit().expect("nobody else is there");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// In transactions; then after a crash, from the log; and in the Data Store.
    #[test]
    fn what_is_left_of_ranges_is_what_a_map_has(
        transactions in proptest::collection::vec(proptest::collection::vec(any_deed(), 1..30), 1..5),
        isolation in prop_oneof![
            Just(Isolation::ReadCommitted), Just(Isolation::Snapshot), Just(Isolation::Serializable)
        ],
        checkpoint in any::<bool>(),
    ) {
        let disk = SimDisk::new(7);
        let builder =
            || small().disk(Arc::new(disk.clone())).cache_size(1 << 20).durability(Durability::Sync);
        let env = builder().open(DIRECTORY).expect("created");
        let db = env.database("d").expect("created");
        let mut model = fill(&env, &db);
        if checkpoint {
            env.checkpoint().expect("written");
        }
        for deeds in &transactions {
            run(&env, &db, isolation, deeds, &mut model);
            assert_eq!(all(&env, &db), model);
        }
        let after = disk.crash_as(Survival::Nothing, 3);
        assert_sound(&env);
        let env = small().disk(Arc::new(after)).cache_size(1 << 20).open(DIRECTORY).expect("recovered");
        let db = env.existing_database("d").expect("read").expect("there");
        assert_eq!(all(&env, &db), model);
        assert_sound(&env);
    }

    #[test]
    fn a_data_store_removes_ranges_as_a_map_does(deeds in proptest::collection::vec(any_deed(), 1..60)) {
        let env = small().in_memory().expect("memory");
        let mut model = fill(&env, &env.database("d").expect("created"));
        let mut store = small().data_store_in_memory().expect("memory");
        let db = store.database("d").expect("created");
        for (key, value) in &model {
            store.insert(&db, key, value).expect("inserted");
        }
        for deed in &deeds {
            match deed {
                Deed::Insert(key, len) => {
                    let value = vec![*len as u8; *len];
                    store.insert(&db, key, &value).expect("inserted");
                    model.insert(key.clone(), value);
                }
                Deed::Remove(key) => {
                    assert_eq!(store.remove(&db, key).expect("removed"), model.remove(key).is_some());
                }
                Deed::RemoveRange(range) => {
                    let gone = within(&model, range);
                    assert_eq!(store.remove_range(&db, range).expect("removed"), gone.len() as u64);
                    gone.iter().for_each(|(key, _)| _ = model.remove(key));
                    let found: BTreeMap<_, _> =
                        store.range(&db, ..).expect("read").map(|record| record.expect("read")).collect();
                    assert_eq!(found, model);
                }
                _ => {}
            }
        }
        let report = store.verify(&mut |_| {}).expect("verified");
        assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
    }
}

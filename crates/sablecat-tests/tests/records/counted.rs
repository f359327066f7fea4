//! Counted B+trees: which number a record has, and which record has a number, is what a map says.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use sablecat::{Builder, Database, Durability, Env, ErrorKind, Isolation, Method, Read, TxnOptions};
use sablecat_os::sim::{SimDisk, Survival};

type Bytes = Vec<u8>;
type Bounds = (Bound<Bytes>, Bound<Bytes>);
type Model = BTreeMap<Bytes, Bytes>;

const DIRECTORY: &str = "/env";

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Pages so small that some hundred records make a tree of three levels.
fn small() -> Builder {
    Env::builder().page_size(512).background(false)
}

fn counted(env: &Env) -> Database {
    env.database_as("d", Method::Counted).expect("created")
}

fn assert_sound(env: &Env) {
    env.keep_house().expect("kept");
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
}

fn within(model: &Model, (lower, upper): &Bounds) -> u64 {
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
    model.keys().filter(|key| low(key) && high(key)).count() as u64
}

/// Everything there is to ask, at some places.
fn assert_counts<S: Read>(from: &S, db: &Database<S::Of>, model: &Model) {
    assert_eq!(from.len(db).expect("read"), model.len() as u64);
    for (n, (key, value)) in model.iter().enumerate().step_by(13) {
        let n = n as u64;
        assert_eq!(from.rank(db, key).expect("read"), n);
        assert_eq!(from.nth(db, n).expect("read"), Some((key.clone(), value.clone())));
        let above = [&key[..], &[0]].concat();
        assert_eq!(from.rank(db, above).expect("read"), n + 1, "the first above");
    }
    for beyond in [model.len() as u64, u64::MAX] {
        assert_eq!(from.nth(db, beyond).expect("read"), None);
    }
}

/// Something that is done in a transaction.
#[derive(Clone, Debug)]
enum Deed {
    Insert(Bytes, usize),
    Remove(Bytes),
    RemoveRange(Bounds),
    Savepoint,
    RollBack(usize),
    Count(Bounds),
    Rank(Bytes),
    Nth(u64),
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
        9 => (any_key(), prop_oneof![9 => 0usize..60, 1 => Just(1500)])
            .prop_map(|(key, len)| Deed::Insert(key, len)),
        5 => any_key().prop_map(Deed::Remove),
        2 => any_range().prop_map(Deed::RemoveRange),
        1 => Just(Deed::Savepoint),
        1 => (0usize..4).prop_map(Deed::RollBack),
        3 => any_range().prop_map(Deed::Count),
        3 => any_key().prop_map(Deed::Rank),
        5 => (0u64..900).prop_map(Deed::Nth),
    ]
}

/// What there is before: enough for several levels, long values, and subtrees of some pages.
fn fill(env: &Env, db: &Database, bulk: bool) -> Model {
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
    if bulk {
        db.bulk_load(&model).expect("loaded");
    } else {
        env.write(|txn| model.iter().try_for_each(|(key, value)| txn.insert(db, key, value)))
            .expect("inserted");
    }
    model
}

/// Does all of it in one transaction and compares each answer.
fn run(env: &Env, db: &Database, isolation: Isolation, deeds: &[Deed], model: &mut Model) {
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
                assert_eq!(txn.remove_range(db, range).expect("removed"), gone, "{range:?}");
                let left = |key: &Bytes| within(&BTreeMap::from([(key.clone(), Vec::new())]), range) == 0;
                model.retain(|key, _| left(key));
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
            Deed::Count(range) => assert_eq!(txn.count(db, range).expect("read"), within(model, range)),
            Deed::Rank(key) => {
                let below = (Bound::Unbounded, Bound::Excluded(key.clone()));
                assert_eq!(txn.rank(db, key).expect("read"), within(model, &below));
                let mut cursor = db.cursor();
                if cursor.at_or_after(&txn, key).expect("read").is_some() {
                    assert_eq!(cursor.rank(&txn).expect("read"), Some(within(model, &below)));
                }
            }
            Deed::Nth(n) => {
                let expected = model.iter().nth(*n as usize);
                let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
                assert_eq!(txn.nth(db, *n).expect("read"), expected, "record {n}");
                let mut cursor = db.cursor();
                assert_eq!(
                    cursor.seek_nth(&txn, *n).expect("read"),
                    expected.as_ref().map(|(key, _)| &key[..])
                );
                let next = model.iter().nth(*n as usize + 1).map(|(key, _)| &key[..]);
                assert_eq!(cursor.next(&txn).expect("read"), next);
            }
        }
    }
    assert_counts(&txn, db, model);
    txn.commit().expect("nobody else is there");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// In transactions; then after a crash, from the log.
    #[test]
    fn numbers_are_those_of_a_map(
        transactions in proptest::collection::vec(proptest::collection::vec(any_deed(), 1..30), 1..5),
        isolation in prop_oneof![
            Just(Isolation::ReadCommitted), Just(Isolation::Snapshot), Just(Isolation::Serializable)
        ],
        (bulk, checkpoint) in any::<(bool, bool)>(),
    ) {
        let disk = SimDisk::new(7);
        let builder =
            || small().disk(Arc::new(disk.clone())).cache_size(1 << 20).durability(Durability::Sync);
        let env = builder().open(DIRECTORY).expect("created");
        let db = counted(&env);
        let mut model = fill(&env, &db, bulk);
        assert_counts(&env, &db, &model);
        if checkpoint {
            env.checkpoint().expect("written");
        }
        let (seen, then) = (env.snapshot().expect("begun"), model.clone());
        for deeds in &transactions {
            run(&env, &db, isolation, deeds, &mut model);
            assert_counts(&env, &db, &model);
        }
        assert_counts(&seen, &db, &then);
        drop(seen);
        let after = disk.crash_as(Survival::Nothing, 3);
        assert_sound(&env);
        let env = small().disk(Arc::new(after)).cache_size(1 << 20).open(DIRECTORY).expect("recovered");
        let db = env.existing_database("d").expect("read").expect("there");
        assert_counts(&env, &db, &model);
        assert_sound(&env);
    }

    #[test]
    fn a_data_store_counts_as_a_map_does(deeds in proptest::collection::vec(any_deed(), 1..60)) {
        let mut store = small().method(Method::Counted).data_store_in_memory().expect("memory");
        let db = store.database("d").expect("created");
        let mut model =
            fill(&small().in_memory().expect("memory"), &counted(&small().in_memory().unwrap()), true);
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
                    assert_eq!(store.remove_range(&db, range).expect("removed"), within(&model, range));
                    model.retain(|key, _| within(&BTreeMap::from([(key.clone(), Vec::new())]), range) == 0);
                }
                Deed::Count(range) => {
                    assert_eq!(store.count(&db, range).expect("read"), within(&model, range))
                },
                _ => {}
            }
        }
        assert_counts(&store, &db, &model);
        let report = store.verify(&mut |_| {}).expect("verified");
        assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
    }
}

/// What else is committed while a transaction that has asked for something is about to commit.
fn conflicts(ask: impl Fn(&sablecat::Txn<'_>, &Database), meanwhile: impl Fn(&Database)) -> bool {
    let env = small().in_memory().expect("memory");
    let (db, other) = (counted(&env), env.database("other").expect("created"));
    db.insert_batch((0..500).map(|n| (key(2 * n), [0; 20]))).expect("inserted");
    let mut txn = env.begin_with(TxnOptions::new().isolation(Isolation::Serializable)).expect("a seat");
    ask(&txn, &db);
    txn.insert(&other, "what was read", "led to this").expect("set");
    meanwhile(&db);
    match txn.commit() {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::Conflict => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn who_has_read_a_number_conflicts_with_who_changes_it() {
    let rank = |txn: &sablecat::Txn<'_>, db: &Database| assert_eq!(txn.rank(db, key(400)).unwrap(), 200);
    let nth = |txn: &sablecat::Txn<'_>, db: &Database| {
        assert_eq!(txn.nth(db, 200).unwrap().unwrap().0, key(400));
    };
    let beyond = |txn: &sablecat::Txn<'_>, db: &Database| assert_eq!(txn.nth(db, 500).unwrap(), None);
    let inserts = |n: u32| move |db: &Database| db.insert(key(n), "new").unwrap();
    let removes = |n: u32| move |db: &Database| assert!(db.remove(key(n)).unwrap());
    assert!(conflicts(rank, inserts(1)) && conflicts(rank, inserts(399)) && conflicts(rank, removes(398)));
    assert!(!conflicts(rank, inserts(401)) && !conflicts(rank, removes(400)), "from the key up");
    assert!(!conflicts(rank, inserts(2)), "another value for what is there");
    assert!(!conflicts(rank, |db| {
        db.insert(key(3), "one more").unwrap();
        assert!(db.remove(key(4)).unwrap(), "one fewer");
    }));
    assert!(conflicts(nth, inserts(1)) && conflicts(nth, removes(400)) && conflicts(nth, inserts(400)));
    assert!(!conflicts(nth, inserts(401)) && !conflicts(nth, removes(998)));
    assert!(conflicts(beyond, inserts(999)) && !conflicts(beyond, inserts(0)));
    assert!(conflicts(|txn, db| assert_eq!(txn.len(db).unwrap(), 500), removes(600)));
}

/// Of a transaction's own changes the numbers depend as well.
#[test]
fn who_has_read_a_number_over_its_own_changes_conflicts_all_the_same() {
    for (also, expected) in [(None, false), (Some(7), true), (Some(801), false), (Some(601), true)] {
        let env = small().in_memory().expect("memory");
        let db = counted(&env);
        db.insert_batch((0..500).map(|n| (key(2 * n), [0; 20]))).expect("inserted");
        let mut txn = env.begin_with(TxnOptions::new().isolation(Isolation::Serializable)).expect("a seat");
        txn.insert(&db, key(101), "more").expect("set");
        assert!(txn.remove(&db, key(300)).expect("removed"));
        assert_eq!(txn.remove_range(&db, key(500)..key(600)).expect("removed"), 50);
        assert_eq!(txn.nth(&db, 300).expect("read").expect("there").0, key(700));
        assert_eq!(txn.rank(&db, key(700)).expect("read"), 300);
        if let Some(n) = also {
            db.insert(key(n), "by another").expect("committed");
        }
        assert_eq!(txn.commit().is_err(), expected, "{also:?}");
        assert_sound(&env);
    }
}

#[test]
fn snapshots_count_right_beside_writers() {
    let env = Env::builder().page_size(512).in_memory().expect("memory");
    let db = counted(&env);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (env, db, done) = (&env, &db, &done);
        let writers: Vec<_> = (0..3u32)
            .map(|thread| {
                threads.spawn(move || {
                    for n in 0..3000u32 {
                        let k = key((n * 7919 + thread * 131) % 2000);
                        match n % 5 {
                            0 | 1 => db.insert(k, vec![n as u8; n as usize % 60]).expect("inserted"),
                            2 => _ = db.remove(k).expect("removed"),
                            _ => env
                                .write(|txn| {
                                    txn.insert(db, k, "a transaction's")?;
                                    let rank = txn.rank(db, k)?;
                                    assert_eq!(txn.nth(db, rank)?.expect("it is there").0, k);
                                    txn.remove(db, key(n % 2000)).map(drop)
                                })
                                .expect("committed"),
                        }
                    }
                })
            })
            .collect();
        threads.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let seen = env.snapshot().expect("begun");
                let model: Model =
                    seen.range(db, ..).expect("read").map(|record| record.expect("read")).collect();
                assert_counts(&seen, db, &model);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("it ended well"));
        done.store(true, Ordering::SeqCst);
    });
    assert_sound(&env);
}

/// What a transaction asked, and what it was told.
#[derive(Debug)]
enum Told {
    Rank(Bytes, u64),
    Nth(u64, Option<Bytes>),
    Count(Bounds, u64),
}

impl Told {
    fn ask(
        txn: &sablecat::Txn<'_>,
        db: &Database,
        dice: &mut impl FnMut(u64) -> u64,
    ) -> sablecat::Result<Told> {
        Ok(match dice(4) {
            0 => {
                let key = some_key(dice);
                let rank = txn.rank(db, &key)?;
                Told::Rank(key, rank)
            }
            1 => {
                let (from, len) = (dice(2100) as u32, dice(400) as u32);
                let range = (Bound::Included(key(from).to_vec()), Bound::Excluded(key(from + len).to_vec()));
                let count = txn.count(db, &range)?;
                Told::Count(range, count)
            }
            _ => {
                let n = dice(900);
                Told::Nth(n, txn.nth(db, n)?.map(|(key, _)| key))
            }
        })
    }

    fn is_true(&self, model: &Model) -> bool {
        match self {
            Told::Rank(key, rank) => {
                within(model, &(Bound::Unbounded, Bound::Excluded(key.clone()))) == *rank
            }
            Told::Nth(n, found) => model.keys().nth(*n as usize) == found.as_ref(),
            Told::Count(range, count) => within(model, range) == *count,
        }
    }
}

/// Some are nested.
fn some_key(dice: &mut impl FnMut(u64) -> u64) -> Bytes {
    if dice(6) > 0 {
        return key(dice(2100) as u32).to_vec();
    }
    let mut key = vec![0, 0, dice(6) as u8, 200];
    key.resize(90 + 80 * dice(4) as usize, b'n');
    key.push(dice(8) as u8);
    key
}

/// A change that a transaction makes, in the order of which they are committed.
#[derive(Clone, Debug)]
enum Made {
    Set(Bytes, Bytes),
    Gone(Bytes),
    RangeGone(Bounds),
}

/// Whatever they do at once, it is as if one had come after the other, as they committed: trees that are
/// built anew beside the old ones, ranges, subtrees, pages split and joined.
#[test]
fn what_transactions_were_told_is_so_when_they_commit() {
    for on_disk in [false, true] {
        let disk = SimDisk::new(3);
        let builder = Env::builder().page_size(512).durability(Durability::NoSync);
        let env = match on_disk {
            true => builder.disk(Arc::new(disk)).cache_size(256 << 10).open(DIRECTORY).expect("created"),
            false => builder.in_memory().expect("memory"),
        };
        let db = counted(&env);
        let mut model = fill(&env, &db, true);
        let mut all: Vec<(sablecat::Lsn, Vec<Told>, Vec<Made>)> = std::thread::scope(|threads| {
            let work = |thread: u64| {
                let (env, db) = (&env, &db);
                move || {
                    let mut seed = 0x9e37_79b9 + thread;
                    let mut dice = move |below: u64| {
                        seed = seed
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        (seed >> 33) % below
                    };
                    let mut done = Vec::new();
                    while done.len() < 400 {
                        let isolation =
                            if dice(3) == 0 { Isolation::ReadCommitted } else { Isolation::Serializable };
                        let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).expect("a seat");
                        match step(&mut txn, db, isolation, &mut dice) {
                            Ok((told, made)) => match txn.commit() {
                                Ok(lsn) => done.push((lsn, told, made)),
                                Err(error) => assert_again(&error),
                            },
                            Err(error) => assert_again(&error),
                        }
                    }
                    done
                }
            };
            let threads: Vec<_> = (0..3).map(|thread| threads.spawn(work(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("it ended well")).collect()
        });
        all.sort_by_key(|(lsn, ..)| *lsn);
        for (lsn, told, made) in &all {
            for told in told {
                assert!(told.is_true(&model), "at {lsn}, on disk {on_disk}: {told:?}, and then {made:?}");
            }
            for made in made {
                match made {
                    Made::Set(key, value) => _ = model.insert(key.clone(), value.clone()),
                    Made::Gone(key) => _ = model.remove(key),
                    Made::RangeGone(range) => {
                        model.retain(|key, _| {
                            within(&BTreeMap::from([(key.clone(), Vec::new())]), range) == 0
                        });
                    }
                }
            }
        }
        assert_counts(&env, &db, &model);
        assert_sound(&env);
    }
}

/// The cache is so small that three transactions at once may be too much for it.
fn assert_again(error: &sablecat::Error) {
    let kinds = [ErrorKind::Conflict, ErrorKind::SnapshotTooOld, ErrorKind::CacheFull];
    assert!(kinds.contains(&error.kind()), "{error}");
}

fn step(
    txn: &mut sablecat::Txn<'_>,
    db: &Database,
    isolation: Isolation,
    dice: &mut impl FnMut(u64) -> u64,
) -> sablecat::Result<(Vec<Told>, Vec<Made>)> {
    let mut told = Vec::new();
    // Read committed, nothing is said of when it commits.
    if isolation == Isolation::Serializable {
        let questions = if dice(8) == 0 { 60 } else { 1 + dice(4) };
        for _ in 0..questions {
            told.push(Told::ask(txn, db, dice)?);
        }
    }
    let mut made = Vec::new();
    let changes = if dice(20) == 0 { 300 } else { 1 + dice(5) };
    let validates = isolation == Isolation::Serializable;
    for n in 0..changes {
        match dice(12) {
            // The last one is a change for sure.
            0 if changes < 10 && n + 1 < changes && (validates || n == 0) => {
                let (from, len) = (dice(2100) as u32, dice(60) as u32);
                let range = (Bound::Included(key(from).to_vec()), Bound::Excluded(key(from + len).to_vec()));
                // Read committed, what goes is what is there when it commits, if there was anything.
                if txn.remove_range(db, &range)? > 0 || validates {
                    made.push(Made::RangeGone(range));
                }
            }
            1..=4 if n + 1 < changes => {
                let key = some_key(dice);
                if txn.remove(db, &key)? || validates {
                    made.push(Made::Gone(key));
                }
            }
            _ => {
                let (key, len) = (some_key(dice), if dice(30) == 0 { 1300 } else { dice(60) });
                let value = vec![len as u8; len as usize];
                txn.insert(db, &key, &value)?;
                made.push(Made::Set(key, value));
            }
        }
    }
    Ok((told, made))
}

#[test]
fn what_does_not_count_says_so() {
    let env = Env::in_memory().expect("memory");
    for (name, method) in [("plain", Method::Btree), ("hashed", Method::Hash)] {
        let db = env.database_as(name, method).expect("created");
        db.insert("a", "1").expect("inserted");
        for error in [db.rank("a").unwrap_err(), db.nth(0).map(drop).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("does not count its records"), "{error}");
        }
        assert_eq!(db.count(..).expect("it can be counted"), 1);
        let error = env.database_as(name, Method::Counted).unwrap_err();
        assert!(error.to_string().contains("was asked for as a counted B+tree"), "{error}");
    }
    let counted = env.database_as("counted", Method::Counted).expect("created");
    assert_eq!(
        (counted.method(), env.database("counted").unwrap().method()),
        (Method::Counted, Method::Counted)
    );
    assert_eq!(env.database_as("counted", Method::Btree).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Beside a plain B+tree: how much longer the same takes.
#[test]
#[ignore = "it measures"]
fn measure() {
    const RECORDS: u32 = 200_000;
    let shuffled = |n: u32| key(n.wrapping_mul(0x9e37_79b1)).repeat(2);
    type Work = fn(&Env, &Database, &dyn Fn(u32) -> Bytes);
    let works: [(&str, Work); 6] = [
        ("insert, one by one", |_, db, key| (0..RECORDS).for_each(|n| db.insert(key(n), [7; 32]).unwrap())),
        ("set again, one by one", |_, db, key| {
            (0..RECORDS).for_each(|n| db.insert(key(n), [8; 32]).unwrap())
        }),
        ("set again, by tens", |env, db, key| by_tens(env, db, &|n| key(n), 0)),
        ("insert, by tens", |env, db, key| by_tens(env, db, &|n| key(n), RECORDS)),
        ("get", |_, db, key| (0..RECORDS).for_each(|n| assert!(db.get(key(n)).unwrap().is_some()))),
        ("remove, one by one", |_, db, key| (0..RECORDS).for_each(|n| assert!(db.remove(key(n)).unwrap()))),
    ];
    fn by_tens(env: &Env, db: &Database, key: &dyn Fn(u32) -> Bytes, from: u32) {
        for tens in 0..RECORDS / 10 {
            env.write(|txn| (0..10).try_for_each(|n| txn.insert(db, key(from + tens * 10 + n), [9; 32])))
                .unwrap();
        }
    }
    let open = || Env::builder().cache_size(256 << 20).background(false).in_memory().unwrap();
    for round in 0..3 {
        let (plain, counting) = (open(), open());
        let dbs = [plain.database("d").unwrap(), counted(&counting)];
        for (what, work) in works {
            let took = [(&plain, &dbs[0]), (&counting, &dbs[1])].map(|(env, db)| {
                let begun = std::time::Instant::now();
                work(env, db, &shuffled);
                begun.elapsed().as_nanos() as f64 / f64::from(RECORDS)
            });
            println!(
                "{round} {what}: {:.0} ns, counted {:.0} ns: {:.2}",
                took[0],
                took[1],
                took[0] / took[1]
            );
        }
        let begun = std::time::Instant::now();
        (0..10_000).for_each(|n| assert!(dbs[1].nth(n * 17).unwrap().is_some()));
        println!("{round} nth: {:.0} ns", begun.elapsed().as_nanos() as f64 / 1e4);
    }
}

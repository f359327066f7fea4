//! Keys up to 64 KiB: with every page size, in every way to write and to read them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use sablecat::{Database, Durability, Env, ErrorKind, Isolation, Method, Result, TxnOptions};
use sablecat_os::sim::{SimDisk, Survival};

type Bytes = Vec<u8>;
type Model = BTreeMap<Bytes, Bytes>;

const PAGE_SIZES: [usize; 3] = [512, 4096, 65536];
const LONGEST: usize = 65536;

/// Bytes from which on keys are nested.
fn stem(page_size: usize) -> usize {
    page_size / 8 - 16
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

/// A key of a few families that share stems, with a length about a multiple of a stem's: up to `most` stems,
/// now and then up to the longest.
fn key(dice: &mut Dice, page_size: usize, most: usize) -> Bytes {
    let stem = stem(page_size);
    let len = match dice.below(40) {
        0 => LONGEST - dice.below(3),
        1..10 => dice.below(stem),
        _ => (stem * dice.below(most + 1) + dice.below(5)).saturating_sub(2),
    };
    let mut key = vec![[0, b'm', 255][dice.below(3)]; len.min(LONGEST)];
    if !key.is_empty() {
        let at = [key.len() - 1, key.len() / 2, stem.min(key.len()) - 1][dice.below(3)];
        key[at] = [0, 1, b'm', 254, 255][dice.below(5)];
    }
    key
}

fn value(dice: &mut Dice, page_size: usize) -> Bytes {
    let len = if dice.below(10) == 0 { page_size + dice.below(page_size) } else { dice.below(40) };
    vec![dice.below(256) as u8; len]
}

/// Cache enough for a transaction with the longest keys; a log in which one such key takes more than a
/// record.
fn builder(page_size: usize, disk: &SimDisk) -> sablecat::Builder {
    let builder = Env::builder()
        .page_size(page_size)
        .cache_size(64 << 20)
        .durability(Durability::NoSync)
        .background(false);
    builder.log_buffer_size(65536).log_segment_size(65536).disk(Arc::new(disk.clone()))
}

fn open(page_size: usize, disk: &SimDisk) -> Env {
    builder(page_size, disk).open("/env").unwrap()
}

fn environment(page_size: usize) -> Env {
    open(page_size, &SimDisk::new(1))
}

/// Every invariant holds, and the checkpoint that is made first has no pages that nothing leads to.
fn sound(env: &Env, model: &Model) {
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable), (vec![], 0));
    assert_eq!(report.records, model.len() as u64);
}

fn between((lower, upper): (Bound<Bytes>, Bound<Bytes>), model: &Model) -> Vec<(Bytes, Bytes)> {
    let inside = |key: &Bytes| {
        (match &lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => key >= bound,
            Bound::Excluded(bound) => key > bound,
        }) && (match &upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => key <= bound,
            Bound::Excluded(bound) => key < bound,
        })
    };
    model.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Everything that can be asked, against the model.
fn compare(db: &Database, model: &Model, dice: &mut Dice, page_size: usize) {
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(db.range(..).unwrap().collect::<Result<Vec<_>>>().unwrap(), all);
    assert_eq!(
        db.range(..).unwrap().rev().collect::<Result<Vec<_>>>().unwrap(),
        all.iter().rev().cloned().collect::<Vec<_>>()
    );
    assert_eq!(db.len().unwrap(), model.len() as u64);
    assert_eq!(db.first().unwrap(), all.first().cloned());
    assert_eq!(db.last().unwrap(), all.last().cloned());
    for (key, value) in model {
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value), "a key of {} bytes", key.len());
        let mut part = vec![0; 100];
        let len = db.read_at(key, 3, &mut part).unwrap().unwrap();
        assert_eq!(part[..len], value.get(3..).unwrap_or_default()[..len]);
    }
    for _ in 0..20 {
        let absent = key(dice, page_size, 4);
        assert_eq!(db.get(&absent).unwrap(), model.get(&absent).cloned());
        let mut bound = || {
            let mut key = key(dice, page_size, 4);
            if dice.below(3) == 0 {
                key.truncate(dice.below(key.len() + 1));
            }
            [Bound::Unbounded, Bound::Included(key.clone()), Bound::Excluded(key)][dice.below(3)].clone()
        };
        let bounds = (bound(), bound());
        let expected = between(bounds.clone(), model);
        assert_eq!(db.range(bounds.clone()).unwrap().collect::<Result<Vec<_>>>().unwrap(), expected);
        let mut visited = Vec::new();
        db.visit(bounds.clone(), |key, value| {
            visited.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(visited, expected);
        visited.clear();
        db.visit_back(bounds.clone(), |key, value| {
            visited.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
        visited.reverse();
        assert_eq!(visited, expected, "from the last to the first");
        // Folded, to the end or until there are so many.
        let most = dice.below(2 * expected.len() + 2);
        let folded = db.fold(bounds.clone(), Vec::new(), |mut so_far, key, value| {
            if so_far.len() == most {
                return ControlFlow::Break(so_far);
            }
            so_far.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(so_far)
        });
        assert_eq!(folded.unwrap(), expected[..most.min(expected.len())]);
        // From both ends in turn.
        let (mut range, mut left) = (db.range(bounds).unwrap(), VecDeque::from(expected));
        loop {
            let (next, expected) = match dice.below(2) {
                0 => (range.next(), left.pop_front()),
                _ => (range.next_back(), left.pop_back()),
            };
            assert_eq!(next.transpose().unwrap(), expected);
            if expected.is_none() {
                break;
            }
        }
        let prefix = &absent[..dice.below(absent.len() + 1)];
        let expected: Vec<_> = all.iter().filter(|(key, _)| key.starts_with(prefix)).cloned().collect();
        assert_eq!(
            db.range(sablecat::Prefix(prefix)).unwrap().collect::<Result<Vec<_>>>().unwrap(),
            expected
        );
    }
}

#[test]
fn long_keys_in_transactions_are_found_as_in_a_map_and_survive_a_crash() {
    for page_size in PAGE_SIZES {
        for seed in 1..=2 {
            let mut dice = Dice(seed);
            let disk = SimDisk::new(seed);
            let mut env = open(page_size, &disk);
            let mut db = env.database("db").unwrap();
            let mut model = Model::new();
            for step in 0..60 {
                match dice.below(8) {
                    0..3 => {
                        let (key, value) = (key(&mut dice, page_size, 4), value(&mut dice, page_size));
                        db.insert(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                    3 | 4 => {
                        let any = model.keys().nth(dice.below(model.len() + 1)).cloned();
                        let key = any.unwrap_or_else(|| key(&mut dice, page_size, 4));
                        assert_eq!(db.remove(&key).unwrap(), model.remove(&key).is_some());
                    }
                    5 | 6 => {
                        let isolation =
                            [Isolation::Serializable, Isolation::Snapshot, Isolation::ReadCommitted]
                                [dice.below(3)];
                        let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).unwrap();
                        for _ in 0..dice.below(30) {
                            let key = key(&mut dice, page_size, 4);
                            assert_eq!(txn.get(&db, &key).unwrap(), model.get(&key).cloned());
                            if dice.below(2) == 0 {
                                assert_eq!(txn.remove(&db, &key).unwrap(), model.remove(&key).is_some());
                            } else {
                                let value = value(&mut dice, page_size);
                                txn.insert(&db, &key, &value).unwrap();
                                model.insert(key, value);
                            }
                        }
                        let mine: Vec<_> = txn.range(&db, ..).unwrap().collect::<Result<_>>().unwrap();
                        assert!(mine.into_iter().eq(model.clone()));
                        txn.commit().unwrap();
                    }
                    _ if step % 3 == 0 => drop(env.checkpoint().unwrap()),
                    _ => {
                        env.sync().unwrap();
                        let after = disk.crash_as(Survival::Everything, seed);
                        let other = open(page_size, &after);
                        compare(&other.database("db").unwrap(), &model, &mut dice, page_size);
                        sound(&other, &model);
                    }
                }
            }
            compare(&db, &model, &mut dice, page_size);
            drop(db);
            env.close().unwrap();
            env = open(page_size, &disk);
            db = env.database("db").unwrap();
            compare(&db, &model, &mut dice, page_size);
            sound(&env, &model);
            for key in model.keys() {
                assert!(db.remove(key).unwrap());
            }
            assert_eq!(db.len().unwrap(), 0);
            sound(&env, &Model::new());
        }
    }
}

#[test]
fn a_bulk_load_takes_long_keys() {
    for page_size in PAGE_SIZES {
        for seed in 1..=2 {
            let mut dice = Dice(seed);
            let model: Model =
                (0..400).map(|_| (key(&mut dice, page_size, 3), value(&mut dice, page_size))).collect();
            let env = environment(page_size);
            let db = env.database("db").unwrap();
            assert_eq!(db.bulk_load(&model).unwrap(), model.len() as u64);
            compare(&db, &model, &mut dice, page_size);
            sound(&env, &model);
        }
    }
}

#[test]
fn a_bulk_load_of_long_keys_that_fails_leaves_nothing() {
    let env = environment(512);
    let db = env.database("db").unwrap();
    let keys = (0..300u32).map(|n| [&[7; 200][..], &n.to_be_bytes(), &[9; 100]].concat());
    let records = keys.clone().chain([vec![1]]).map(|key| (key, [3; 100]));
    assert_eq!(db.bulk_load(records).unwrap_err().kind(), ErrorKind::Invalid);
    sound(&env, &Model::new());
    assert_eq!(db.bulk_load(keys.map(|key| (key, [3; 100]))).unwrap(), 300);
    assert_eq!(db.len().unwrap(), 300);
}

#[test]
fn a_data_store_holds_long_keys() {
    for page_size in PAGE_SIZES {
        for seed in 1..=2 {
            let mut dice = Dice(seed);
            let disk = SimDisk::new(seed);
            let open = || builder(page_size, &disk).open_data_store("/env").unwrap();
            let mut store = open();
            let table = store.database("db").unwrap();
            let loaded = store.database("loaded").unwrap();
            let mut model = Model::new();
            for _ in 0..300 {
                let key = key(&mut dice, page_size, 4);
                assert_eq!(store.get(&table, &key).unwrap(), model.get(&key).cloned());
                if dice.below(3) == 0 {
                    assert_eq!(store.remove(&table, &key).unwrap(), model.remove(&key).is_some());
                } else {
                    let value = value(&mut dice, page_size);
                    store.insert(&table, &key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            store.bulk_load(&loaded, &model).unwrap();
            store.close().unwrap();
            let mut store = open();
            for name in ["db", "loaded"] {
                let table = store.database(name).unwrap();
                let mut found = Model::new();
                store
                    .visit(&table, .., |key, value| {
                        found.insert(key.to_vec(), value.to_vec());
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                assert_eq!(found, model);
            }
            let report = store.verify(&mut |_| {}).unwrap();
            assert!(report.pages > 1);
            assert_eq!((report.problems, report.pages_unreachable), (vec![], 0));
            assert!(store.remove_database("db").unwrap() && store.remove_database("loaded").unwrap());
            store.checkpoint().unwrap();
            assert_eq!(store.verify(&mut |_| {}).unwrap().pages_unreachable, 0);
        }
    }
}

#[test]
fn a_removed_database_gives_back_the_pages_of_its_long_keys() {
    for page_size in PAGE_SIZES {
        let env = environment(page_size);
        let db = env.database("db").unwrap();
        let mut dice = Dice(5);
        let mut model = Model::new();
        for _ in 0..150 {
            let (key, value) = (key(&mut dice, page_size, 4), value(&mut dice, page_size));
            db.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
        env.rename_database("db", "other").unwrap();
        compare(&env.database("other").unwrap(), &model, &mut dice, page_size);
        env.remove_database("other").unwrap();
        sound(&env, &Model::new());
    }
}

#[test]
fn the_longest_name_of_a_database_fits_the_smallest_pages() {
    let disk = SimDisk::new(1);
    let name = "n".repeat(48);
    let env = open(512, &disk);
    env.database(&name).unwrap().insert("key", "value").unwrap();
    env.sync().unwrap();
    let env = open(512, &disk.crash_as(Survival::Everything, 1));
    assert_eq!(env.databases().unwrap(), [name.as_str()]);
    assert_eq!(env.database(&name).unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    sound(&env, &Model::from([(vec![], vec![])]));
    assert!(env.remove_database(&name).unwrap());
    assert!(env.databases().unwrap().is_empty());
    sound(&env, &Model::new());
}

/// What there is to say of a database need not fit a page beside its name.
#[test]
fn a_comparator_with_a_long_name_is_remembered_under_the_longest_name_of_a_database() {
    let disk = SimDisk::new(1);
    let (name, other, comparator) = ("n".repeat(48), "o".repeat(48), "c".repeat(2000));
    let open = |disk: &SimDisk| {
        let builder = Env::builder()
            .background(false)
            .page_size(512)
            .cache_size(0)
            .comparator(&comparator, |a, b| b.cmp(a));
        builder.disk(Arc::new(disk.clone())).open("env").unwrap()
    };
    let env = open(&disk);
    let db = env.database_ordered_by(&name, &comparator).unwrap();
    ["a", "b"].iter().for_each(|key| db.insert(key, "").unwrap());
    env.sync().unwrap();
    let env = open(&disk.crash_as(Survival::Everything, 1));
    assert_eq!(env.databases().unwrap(), [name.as_str()]);
    env.rename_database(&name, &other).unwrap();
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    assert_eq!(env.database(&other).unwrap().first().unwrap().unwrap().0, b"b");
    assert!(env.remove_database(&other).unwrap());
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable, report.pages), (vec![], 0, 1), "the catalog");
}

#[test]
fn a_key_of_one_byte_more_is_refused() {
    for page_size in PAGE_SIZES {
        let env = environment(page_size);
        let db = env.database("db").unwrap();
        let (longest, longer) = (vec![1; LONGEST], vec![1; LONGEST + 1]);
        db.insert(&longest, "value").unwrap();
        let error = db.insert(&longer, "value").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), "a key of 65537 bytes; keys can have 65536 at most");
        let mut txn = env.begin().unwrap();
        assert_eq!(txn.insert(&db, &longer, "value").unwrap_err().kind(), ErrorKind::Invalid);
        drop(txn);
        assert_eq!(db.get(&longer).unwrap(), None);
        assert_eq!(db.range(longer..).unwrap().count(), 0);
        assert_eq!(db.get(&longest).unwrap().as_deref(), Some(&b"value"[..]));
        assert!(db.remove(&longest).unwrap());
        sound(&env, &Model::new());
    }
}

#[test]
fn a_comparator_leaves_the_limit_at_what_a_page_holds() {
    let env = builder(512, &SimDisk::new(1)).comparator("reversed", |a, b| b.cmp(a)).open("/env").unwrap();
    let db = env.database_ordered_by("db", "reversed").unwrap();
    db.insert([5; 48], "value").unwrap();
    assert_eq!(db.get([5; 48]).unwrap().as_deref(), Some(&b"value"[..]));
    let error = db.insert([5; 49], "value").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("in a database with a comparator, keys can have 48 at most"),
        "{error}"
    );
    assert_eq!(db.get([5; 49]).unwrap(), None);
    sound(&env, &Model::from([(vec![], vec![])]));
    env.remove_database("db").unwrap();
    sound(&env, &Model::new());
}

#[test]
fn writers_below_one_stem_lose_nothing() {
    write_below_one_stem(Isolation::Serializable);
}

#[test]
fn writers_below_one_stem_lose_nothing_at_snapshot_isolation() {
    write_below_one_stem(Isolation::Snapshot);
}

fn write_below_one_stem(isolation: Isolation) {
    let env = environment(512);
    let db = env.database("db").unwrap();
    let name = |n: usize| [&[b'x'; 100][..], &[n as u8 % 3; 60], &[n as u8]].concat();
    let raise = |by: u8| {
        let mut dice = Dice(u64::from(by) + 1);
        for _ in 0..150 {
            let n = dice.below(6);
            let options = TxnOptions::new().isolation(isolation);
            env.write_with(options, |txn| {
                let have = txn.get(&db, name(n))?.map_or(0, |value| value.len());
                // At nine the record goes, and with it, now and then, its subtrees.
                if have == 9 {
                    txn.remove(&db, name(n)).map(|_| ())
                } else {
                    txn.insert(&db, name(n), vec![by; have + 1])
                }?;
                let count = txn
                    .get(&db, "count")?
                    .map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
                txn.insert(&db, "count", (count + 1).to_le_bytes())
            })
            .unwrap();
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|by| drop(scope.spawn(move || raise(by)))));
    let count = u64::from_le_bytes(db.get("count").unwrap().unwrap().try_into().unwrap());
    let lengths: usize = (0..6).map(|n| db.get(name(n)).unwrap().map_or(0, |value| value.len())).sum();
    assert_eq!(count, 450);
    assert_eq!(lengths % 10, 450 % 10, "each raise counts once: ten make nothing");
    let left: Model = db.range(..).unwrap().collect::<Result<_>>().unwrap();
    sound(&env, &left);
}

#[test]
fn a_long_key_that_appears_below_a_missing_stem_is_a_phantom() {
    let env = environment(512);
    let db = env.database("db").unwrap();
    let long = vec![3; 300];
    for other in [long.clone(), vec![3; 299]] {
        let mut txn = env.begin().unwrap();
        assert_eq!(txn.range(&db, vec![3; 200]..vec![3; 400]).unwrap().count(), 0);
        assert_eq!(txn.get(&db, &long).unwrap(), None);
        txn.insert(&db, "seen", "nothing").unwrap();
        db.insert(&other, "value").unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
        db.remove(&other).unwrap();
    }
}

#[test]
fn a_subtree_that_went_meanwhile_is_a_conflict() {
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let env = environment(512);
        let db = env.database("db").unwrap();
        let (one, other) = (vec![3; 300], vec![3; 301]);
        db.insert(&one, "value").unwrap();
        let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).unwrap();
        assert!(txn.get(&db, &one).unwrap().is_some());
        txn.insert(&db, &one, "mine").unwrap();
        db.remove(&one).unwrap();
        assert_eq!(txn.get(&db, &one).unwrap().as_deref(), Some(&b"mine"[..]));
        // Its pages may belong to something else by now.
        env.checkpoint().unwrap();
        db.insert([8; 400], "else").unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
        // A neighbour in the subtree is none.
        db.insert(&one, "value").unwrap();
        let mut txn = env.begin_with(TxnOptions::new().isolation(isolation)).unwrap();
        assert!(txn.get(&db, &one).unwrap().is_some());
        txn.insert(&db, &one, "mine").unwrap();
        db.insert(&other, "theirs").unwrap();
        txn.commit().unwrap();
        assert_eq!(db.len().unwrap(), 3);
    }
}

#[test]
fn a_snapshot_keeps_showing_subtrees_that_are_gone() {
    let env = environment(512);
    let db = env.database("db").unwrap();
    let mut dice = Dice(9);
    let model: Model = (0..60).map(|_| (key(&mut dice, 512, 3), value(&mut dice, 512))).collect();
    db.insert_batch(&model).unwrap();
    let snapshot = env.snapshot().unwrap();
    for key in model.keys() {
        db.remove(key).unwrap();
    }
    db.insert_batch((0..40u8).map(|n| ([n; 700], "other"))).unwrap();
    let seen: Model = snapshot.range(&db, ..).unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(seen, model);
    for (key, value) in &model {
        assert_eq!(snapshot.get(&db, key).unwrap().as_ref(), Some(value));
    }
}

#[test]
fn a_transaction_of_keys_that_begin_alike_may_be_larger_than_the_cache() {
    let key = |n: u64| [&[b'k'; 60][..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat();
    for method in [Method::Btree, Method::Counted, Method::Hash] {
        let env = builder(512, &SimDisk::new(1)).cache_size(300 * 512).open("/env").unwrap();
        let db = env.database_as("d", method).unwrap();
        (0..5000).for_each(|n| db.insert(key(n), [1; 30]).unwrap());
        env.write(|txn| (0..5000).try_for_each(|n| txn.insert(&db, key(n), [2; 30]))).unwrap();
        assert!((0..5000).all(|n| db.get(key(n)).unwrap().is_some_and(|value| value == [2; 30])));
        assert_eq!((db.len().unwrap(), env.verify(&mut |_| {}).unwrap().problems.len()), (5000, 0));
        // A part of them goes, and all others change.
        env.write(|txn| {
            (0..2000).try_for_each(|n| txn.remove(&db, key(n)).map(drop))?;
            (2000..5000).try_for_each(|n| txn.insert(&db, key(n), [3; 30]))
        })
        .unwrap();
        assert_eq!((db.len().unwrap(), env.verify(&mut |_| {}).unwrap().problems.len()), (3000, 0));
        assert!((2000..5000).all(|n| db.get(key(n)).unwrap().is_some_and(|value| value == [3; 30])));
    }
}

#[test]
fn a_range_may_take_keys_that_begin_alike_and_are_more_than_the_cache_holds() {
    let key = |n: u64| [&[b'k'; 60][..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat();
    for method in [Method::Btree, Method::Counted, Method::Hash] {
        let env = builder(512, &SimDisk::new(1)).cache_size(300 * 512).open("/env").unwrap();
        let db = env.database_as("d", method).unwrap();
        for around in [b'a', b'z'] {
            (0..100).for_each(|n| db.insert([around, n], [1; 30]).unwrap());
        }
        (0..5000).for_each(|n| db.insert(key(n), [1; 30]).unwrap());
        env.write(|txn| {
            let (removed, expected) = match method {
                Method::Hash => (txn.clear(&db)?, 5200),
                _ => (txn.remove_range(&db, vec![b'b']..vec![b'y'])?, 5000),
            };
            assert_eq!(removed, expected);
            (0..100).try_for_each(|n| txn.insert(&db, [b'm', n], [2; 30]))
        })
        .unwrap();
        assert_eq!(db.len().unwrap(), if method == Method::Hash { 100 } else { 300 });
        assert!((0..100).all(|n| db.get([b'm', n]).unwrap().is_some_and(|value| value == [2; 30])));
        let pages = env.verify(&mut |_| {}).unwrap();
        assert_eq!(pages.problems.len(), 0, "{:?}", pages.problems);
        if method == Method::Counted {
            assert_eq!(env.snapshot().unwrap().rank(&db, [b'z', 7]).unwrap(), 207);
        }
    }
}

//! What a serialisable transaction has read of whole leaves, of all kinds of trees: what has changed since is
//! a conflict, and what reads the same as before is none.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use sablecat::{Database, Env, ErrorKind, Isolation, Method, Read, TxnOptions};

use sablecat_tests::dice::Dice;

const KEYS: u64 = 700;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Short ones, long ones, and such that share a few stems, which lead to subtrees of several leaves.
fn key_of(method: Method, n: u64) -> Vec<u8> {
    let mut key = Vec::new();
    match n % 4 {
        0 => key.extend(format!("{:05}", n / 3).into_bytes()),
        1 => {
            key.extend(format!("{:05}", n / 3).into_bytes());
            key.extend([b'-'; 30]);
        }
        2 if method != Method::Lsm => {
            key.extend(std::iter::repeat_n(b'0' + (n / 4 % 2) as u8, 1000 + 1000 * (n / 8 % 2) as usize));
            key.extend(format!("{:05}", n / 3).into_bytes());
        }
        _ => key.extend(n.to_be_bytes()),
    }
    key
}

fn value(dice: &mut Dice) -> Vec<u8> {
    vec![dice.below(250) as u8; dice.of(&[0, 1, 10, 60, 200]) as usize]
}

fn read(
    from: &impl Read<Of = Env>,
    db: &Database,
    how: (u64, Bound<&[u8]>, Bound<&[u8]>, usize),
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (way, lower, upper, most) = how;
    let mut shown = Vec::new();
    match way {
        0 | 1 => {
            let show = |key: &[u8], value: &[u8]| {
                shown.push((key.to_vec(), value.to_vec()));
                if shown.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let visited = if way == 0 {
                from.visit(db, (lower, upper), show)
            } else {
                from.visit_back(db, (lower, upper), show)
            };
            visited.expect("it is read");
        }
        2 => shown.extend(
            from.range(db, (lower, upper))
                .expect("it is read")
                .take(most)
                .map(|record| record.expect("it is read")),
        ),
        3 => shown.extend(
            from.range(db, (lower, upper))
                .expect("it is read")
                .rev()
                .take(most)
                .map(|record| record.expect("it is read")),
        ),
        _ => {
            shown.push((
                b"count".to_vec(),
                from.count(db, (lower, upper)).expect("it is counted").to_be_bytes().to_vec(),
            ));
        }
    }
    shown
}

fn check(method: Method) {
    let key = |n| key_of(method, n);
    let (mut conflicts, mut beside) = (0, 0);
    for seed in 0..20 {
        let mut dice = Dice(seed * 1000 + method as u64 + 1);
        let env = Env::in_memory().expect("in memory nothing fails");
        let db = env.database_as("read", method).expect("a database");
        let other = env.database("other").expect("a database");
        let mut model = Records::new();
        for n in 0..KEYS {
            if dice.below(3) > 0 {
                model.insert(key(n), value(&mut dice));
            }
        }
        env.write(|txn| model.iter().try_for_each(|(key, value)| txn.insert(&db, key, value)))
            .expect("filled");
        for turn in 0..12 {
            let options = TxnOptions::new().isolation(Isolation::Serializable);
            let mut txn = env.begin_with(options).expect("a transaction");
            let mut reads = Vec::new();
            for _ in 0..=dice.below(3) {
                let (mut lower, mut upper) = (key(dice.below(KEYS)), key(dice.below(KEYS)));
                if lower > upper {
                    std::mem::swap(&mut lower, &mut upper);
                }
                let bound = |dice: &mut Dice, key| match dice.below(4) {
                    0 => Bound::Included(key),
                    1 => Bound::Excluded(key),
                    _ => Bound::Unbounded,
                };
                let (lower, upper) = if method == Method::Hash {
                    (Bound::Unbounded, Bound::Unbounded)
                } else {
                    (bound(&mut dice, lower), bound(&mut dice, upper))
                };
                let how = (dice.below(5), lower, upper, dice.of(&[1, 5, 50, 10_000, 10_000]) as usize);
                let slices =
                    (how.0, how.1.as_ref().map(Vec::as_slice), how.2.as_ref().map(Vec::as_slice), how.3);
                let found = read(&txn, &db, slices);
                reads.push((how, found));
            }
            let before: Vec<_> = db.range(..).expect("all").map(|record| record.expect("all")).collect();
            // Changes of others, some of which are undone.
            let style = dice.below(5);
            for _ in 0..=dice.below(3) {
                match style {
                    0 => {
                        // Large ones, there and maybe back.
                        let many = 100 + dice.below(300);
                        let at = dice.below(KEYS);
                        env.write(|txn| {
                            (0..many).try_for_each(|n| {
                                let key = key((at + n) % KEYS);
                                txn.insert(&db, &key, vec![b'g'; 300])
                            })
                        })
                        .expect("written");
                        if dice.below(2) == 0 {
                            env.write(|txn| {
                                txn.remove_range(&db, ..)?;
                                before.iter().try_for_each(|(key, value)| txn.insert(&db, key, value))
                            })
                            .expect("written");
                        }
                    }
                    1 => {
                        let changed = key(dice.below(KEYS));
                        let was = db.get(&changed).expect("it is read");
                        db.insert(&changed, vec![b'y'; 400]).expect("written");
                        match was {
                            Some(was) => db.insert(&changed, was).expect("written"),
                            None => drop(db.remove(&changed).expect("written")),
                        }
                    }
                    _ => {
                        let changed = key(dice.below(KEYS));
                        if dice.below(2) == 0 {
                            db.remove(&changed).expect("removed");
                        } else {
                            db.insert(&changed, value(&mut dice)).expect("written");
                        }
                    }
                }
            }
            if dice.below(10) == 0 {
                let _ = env.checkpoint();
            }
            txn.insert(&other, "it", "matters").expect("written");
            let done = txn.commit();
            let now = env.begin().expect("a transaction");
            let reads_same = reads.iter().all(|(how, found)| {
                let slices =
                    (how.0, how.1.as_ref().map(Vec::as_slice), how.2.as_ref().map(Vec::as_slice), how.3);
                read(&now, &db, slices) == *found
            });
            match done {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    conflicts += 1;
                }
                Ok(_) => {
                    assert!(
                        reads_same,
                        "{method:?}, seed {seed}, turn {turn}: read otherwise, and no conflict"
                    );
                    beside += 1;
                }
            }
        }
    }
    assert!(conflicts > 50 && beside > 50, "{conflicts} and {beside}");
}

#[test]
fn of_btrees() {
    check(Method::Btree);
}

#[test]
fn of_counted_trees() {
    check(Method::Counted);
}

#[test]
fn of_lsm_trees() {
    check(Method::Lsm);
}

#[test]
fn of_hash_tables() {
    check(Method::Hash);
}

/// Of a subtree of a hash table's bucket, whose leaves are not buckets.
#[test]
fn what_lies_below_a_stem_of_a_hash_table_is_compared_as_what_it_is() {
    for method in [Method::Hash, Method::Btree, Method::Counted] {
        let env = Env::in_memory().expect("in memory nothing fails");
        let db = env.database_as("read", method).expect("a database");
        let other = env.database("other").expect("a database");
        let key = |n: u64| [&[b's'; 496][..], &n.to_be_bytes()].concat();
        env.write(|txn| (0..300).try_for_each(|n| txn.insert(&db, key(n), [7; 60]))).expect("filled");
        for n in [0, 1, 2, 10, 100, 200, 299, 300] {
            let options = TxnOptions::new().isolation(Isolation::Serializable);
            let mut txn = env.begin_with(options).expect("a transaction");
            read(&txn, &db, (2, Bound::Unbounded, Bound::Unbounded, 1000));
            db.insert(key(n), "changed").expect("written");
            txn.insert(&other, "it", "matters").expect("written");
            assert!(txn.commit().is_err(), "{method:?}: {n} was changed, and no conflict");

            // The first ones are as before, and those of another leaf were not read.
            let mut txn = env.begin_with(options).expect("a transaction");
            read(&txn, &db, (2, Bound::Unbounded, Bound::Unbounded, 2));
            let was = db.get(key(1)).expect("it is read").expect("a record");
            db.insert(key(1), "changed").expect("written");
            db.insert(key(1), was).expect("written");
            db.insert(key(290), [n as u8; 20]).expect("written");
            txn.insert(&other, "it", "matters").expect("written");
            assert!(txn.commit().is_ok(), "{method:?}: a conflict with what was not read");
        }
    }
}

//! What a serialisable transaction is shown in place counts as read.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use sablecat::{Database, Env, ErrorKind, Method, TxnOptions};

use sablecat_tests::dice::Dice;

/// Of so many kinds; some are so long that they are in subtrees.
fn key(n: u64) -> Vec<u8> {
    let mut key = format!("{:05}", n / 3).into_bytes();
    match n % 3 {
        0 => {}
        1 => key.extend([b'-'; 30]),
        _ => key.extend(std::iter::repeat_n(b'l', 1400)),
    }
    key
}

const KEYS: u64 = 900;

fn filled(env: &Env, method: Method, dice: &mut Dice) -> (Database, BTreeMap<Vec<u8>, Vec<u8>>) {
    let db = env.database_as("shown", method).expect("in memory nothing fails");
    let mut model = BTreeMap::new();
    for n in 0..KEYS {
        if dice.below(3) > 0 {
            model.insert(key(n), vec![n as u8; dice.of(&[10, 60, 3000])]);
        }
    }
    env.write(|txn| model.iter().try_for_each(|(key, value)| txn.insert(&db, key, value)))
        .expect("in memory nothing fails");
    (db, model)
}

fn check(method: Method) {
    let mut dice = Dice(method as u64 + 1);
    let (mut conflicts, mut beside) = (0, 0);
    for _ in 0..60 {
        let env = Env::in_memory().expect("in memory nothing fails");
        let (db, mut model) = filled(&env, method, &mut dice);
        let other = env.database("other").expect("in memory nothing fails");
        for _ in 0..8 {
            let (mut lower, mut upper) = (key(dice.below(KEYS)), key(dice.below(KEYS)));
            if method == Method::Hash {
                // Ranges of a hash table are not of keys: all of it, or some from its beginning on.
                (lower, upper) = (Vec::new(), vec![0xff]);
            } else if lower > upper {
                std::mem::swap(&mut lower, &mut upper);
            }
            let most = dice.of(&[1, 5, 50, 10_000]) as usize;
            let options = TxnOptions::new().isolation(sablecat::Isolation::Serializable);
            let mut txn = env.begin_with(options).expect("in memory nothing fails");
            // What is pending of it, within the bounds or without.
            let mut seen = model.clone();
            for _ in 0..dice.below(3) {
                let changed = key(dice.below(KEYS));
                if dice.below(2) == 0 {
                    seen.remove(&changed);
                    txn.remove(&db, &changed).expect("in memory nothing fails");
                } else {
                    seen.insert(changed.clone(), b"pending".to_vec());
                    txn.insert(&db, &changed, "pending").expect("in memory nothing fails");
                }
            }
            let mut shown = Vec::new();
            let show = |key: &[u8], value: &[u8]| {
                shown.push((key.to_vec(), value.to_vec()));
                if shown.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let bounds = if method == Method::Hash {
                (Bound::Unbounded, Bound::Unbounded)
            } else {
                (Bound::Included(&lower[..]), Bound::Excluded(&upper[..]))
            };
            let is_back = method != Method::Hash && dice.below(2) == 0;
            let visited =
                if is_back { txn.visit_back(&db, bounds, show) } else { txn.visit(&db, bounds, show) };
            visited.expect("in memory nothing fails");
            let in_bounds: BTreeMap<_, _> = match method {
                Method::Hash => seen.clone(),
                _ => seen.range(lower.clone()..upper.clone()).map(|(k, v)| (k.clone(), v.clone())).collect(),
            };
            if method == Method::Hash {
                assert_eq!(shown.len(), most.min(in_bounds.len()));
                assert!(shown.iter().all(|(key, value)| in_bounds.get(key) == Some(value)));
            } else {
                let mut expected: Vec<_> = in_bounds.into_iter().collect();
                if is_back {
                    expected.reverse();
                }
                expected.truncate(most);
                assert!(shown == expected, "{} shown, {} expected", shown.len(), expected.len());
            }
            // Another transaction changes something, and this one writes, so that it matters what it read.
            let changed = key(dice.below(KEYS));
            let is_read = match method {
                Method::Hash => shown.len() < most || shown.iter().any(|(key, _)| *key == changed),
                _ if is_back => {
                    let begins = if shown.len() < most { &lower } else { &shown[most - 1].0 };
                    changed >= *begins && changed < upper
                }
                _ => {
                    let ends = if shown.len() < most { &upper } else { &shown[most - 1].0 };
                    changed >= lower && (changed < *ends || shown.len() == most && changed == *ends)
                }
            };
            if model.remove(&changed).is_some() {
                db.remove(&changed).expect("in memory nothing fails");
            } else {
                model.insert(changed.clone(), b"new".to_vec());
                db.insert(&changed, "new").expect("in memory nothing fails");
            }
            txn.insert(&other, "it", "matters").expect("in memory nothing fails");
            match txn.commit() {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    conflicts += 1;
                }
                Ok(_) => {
                    assert!(!is_read, "{:?} was read and changed", String::from_utf8_lossy(&changed));
                    beside += 1;
                    model = db
                        .range(..)
                        .expect("in memory nothing fails")
                        .collect::<sablecat::Result<_>>()
                        .expect("in memory nothing fails");
                }
            }
        }
    }
    assert!(conflicts > 30 && beside > 100, "{conflicts} and {beside}");
}

#[test]
fn what_a_transaction_is_shown_of_a_tree_counts_as_read() {
    check(Method::Btree);
}

#[test]
fn what_a_transaction_is_shown_of_a_counted_tree_counts_as_read() {
    check(Method::Counted);
}

#[test]
fn what_a_transaction_is_shown_of_a_hash_table_counts_as_read() {
    check(Method::Hash);
}

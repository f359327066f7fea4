//! Changes of a record in one call: compare and swap, counting, parts of values; alike in transactions,
//! databases and Data Stores.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use proptest::prelude::*;
use sablecat::{DataStore, Database, Env, ErrorKind, Write};

fn in_transaction(check: impl FnOnce(&mut sablecat::Txn<'_>, &Database)) {
    let env = Env::in_memory().unwrap();
    let db = env.database("d").unwrap();
    check(&mut env.begin().unwrap(), &db);
}

fn in_data_store(check: impl FnOnce(&mut DataStore, &Database<DataStore>)) {
    let mut store = Env::builder().data_store_in_memory().unwrap();
    let db = store.database("d").unwrap();
    check(&mut store, &db);
}

fn swaps<W: Write>(to: &mut W, db: &Database<W::Of>) {
    assert!(!to.compare_and_swap(db, "k", Some(b""), Some(b"a")).unwrap(), "nothing is not the empty value");
    assert!(to.compare_and_swap(db, "k", None, Some(b"a")).unwrap());
    assert!(!to.compare_and_swap(db, "k", None, None).unwrap());
    assert!(to.compare_and_swap(db, "k", Some(b"a"), Some(b"a")).unwrap());
    assert!(to.compare_and_swap(db, "k", Some(b"a"), Some(b"")).unwrap());
    assert_eq!(to.get(db, "k").unwrap().as_deref(), Some(&b""[..]));
    assert!(to.compare_and_swap(db, "k", Some(b""), None).unwrap());
    assert_eq!(to.get(db, "k").unwrap(), None);
    assert!(to.compare_and_swap(db, "k", None, None).unwrap());
}

fn counts<W: Write>(to: &mut W, db: &Database<W::Of>) {
    assert_eq!(to.increment(db, "n", 7).unwrap(), 7);
    assert_eq!(to.increment(db, "n", -10).unwrap(), -3);
    assert_eq!(to.get(db, "n").unwrap().as_deref(), Some(&(-3i64).to_le_bytes()[..]));
    assert_eq!(to.increment(db, "n", i64::MIN).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(to.increment(db, "n", 0).unwrap(), -3, "as it was");
    to.insert(db, "text", "seven").unwrap();
    assert_eq!(to.increment(db, "text", 1).unwrap_err().kind(), ErrorKind::Invalid);
}

fn splices<W: Write>(to: &mut W, db: &Database<W::Of>) {
    assert_eq!(to.splice(db, "s", 2, 9, "ab").unwrap(), 4);
    assert_eq!(to.get(db, "s").unwrap().as_deref(), Some(&b"\0\0ab"[..]));
    assert_eq!(to.splice(db, "s", 1, 2, "").unwrap(), 2);
    assert_eq!(to.splice(db, "s", 0, 1, "long").unwrap(), 5);
    assert_eq!(to.get(db, "s").unwrap().as_deref(), Some(&b"longb"[..]));
    assert_eq!(to.splice(db, "s", 5, u64::MAX, "er").unwrap(), 7);
    assert_eq!(to.splice(db, "s", u64::from(u32::MAX), 0, "x").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(to.splice(db, "s", u64::MAX, u64::MAX, "x").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(to.get(db, "s").unwrap().as_deref(), Some(&b"longber"[..]));
}

fn fills_places<W: Write>(to: &mut W, db: &Database<W::Of>) {
    assert_eq!(to.entry(db, "a").and_modify(|value| value.push(b'!')).apply().unwrap(), None);
    assert!(!to.contains_key(db, "a").unwrap());
    for wanted in ["x", "x!", "x!!"] {
        let value = to.entry(db, "a").and_modify(|value| value.push(b'!')).or_insert("x").unwrap();
        assert_eq!((value, to.get(db, "a").unwrap().as_deref()), (wanted.into(), Some(wanted.as_bytes())));
    }
    let there = to.entry(db, "a").or_insert_with(|| unreachable!("there is a value"));
    assert_eq!(there.unwrap(), b"x!!");
    let cut = to.entry(db, "a").and_modify(Vec::clear).and_modify(|value| value.push(b'y')).apply();
    assert_eq!(cut.unwrap().as_deref(), Some(&b"y"[..]));
    assert_eq!((to.len(db).unwrap(), to.get(db, "a").unwrap().as_deref()), (1, Some(&b"y"[..])));
}

#[test]
fn places_of_keys_are_filled() {
    in_transaction(|txn, db| fills_places(txn, db));
    in_data_store(fills_places);
    let env = Env::in_memory().unwrap();
    let db = env.database("d").unwrap();
    let mut txn = env.begin().unwrap();
    fills_places(&mut txn, &db);
    txn.entry(&db, "b").or_insert("x").unwrap();
    txn.abort();
    assert!(db.is_empty().unwrap());
}

#[test]
fn values_are_compared_and_swapped() {
    in_transaction(|txn, db| swaps(txn, db));
    in_data_store(swaps);
}

#[test]
fn numbers_are_counted() {
    in_transaction(|txn, db| counts(txn, db));
    in_data_store(counts);
}

#[test]
fn parts_of_values_are_replaced() {
    in_transaction(|txn, db| splices(txn, db));
    in_data_store(splices);
}

#[test]
fn no_count_of_many_threads_is_lost() {
    let env = Env::in_memory().unwrap();
    let db = env.database("d").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|_| assert!(db.increment("n", 1).unwrap() > 0)));
        }
    });
    assert_eq!(db.increment("n", 0).unwrap(), 1000);
    assert!(db.compare_and_swap("n", Some(&1000i64.to_le_bytes()), None).unwrap());
    assert_eq!(db.splice("n", 0, 0, "text").unwrap(), 4);
}

proptest! {
    #[test]
    fn a_part_of_a_value_is_replaced_as_in_a_vector(
        before in prop::collection::vec(any::<u8>(), 0..40),
        offset in 0usize..60,
        len in 0usize..60,
        bytes in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let env = Env::in_memory().unwrap();
        let db = env.database("d").unwrap();
        db.insert("k", &before).unwrap();
        let mut after = before.clone();
        after.resize(before.len().max(offset), 0);
        let tail = after.split_off(offset);
        after.extend(&bytes);
        after.extend(tail.iter().skip(len));
        prop_assert_eq!(db.splice("k", offset as u64, len as u64, &bytes).unwrap(), after.len() as u64);
        prop_assert_eq!(db.get("k").unwrap(), Some(after));
    }
}

//! Conflicts that are told before the commit: those that the commit would come to, and no others.

use std::ops::Bound;

use super::*;
use crate::error::ErrorKind;

fn key(n: u32) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

fn store() -> Store {
    let store = Store::new(600, 6, None);
    (0..500).for_each(|n| store.put(&key(2 * n), &[n as u8; 30]).unwrap());
    store
}

/// Whether it is told of a conflict at a key.
fn is_told(txn: &Transaction<'_>, store: &Store, at: &[u8]) -> bool {
    match txn.check_unchanged(&store.tree, at) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            true
        }
    }
}

fn read(txn: &Transaction<'_>, store: &Store, at: &[u8]) {
    txn.get(&store.tree, at, |_| ()).unwrap();
}

#[test]
fn what_was_read_and_has_changed_is_told_and_nothing_else() {
    let store = store();
    let mut txn = store.begin(Isolation::Serializable, false);
    for n in [100, 101, 300, 301, 302] {
        read(&txn, &store, &key(n));
    }
    txn.set(&store.tree, &key(100), Some(b"own")).unwrap();
    assert!(txn.sees_newest() && !is_told(&txn, &store, &key(100)));
    // A neighbour, what was set blindly, and what is changed to what it was.
    txn.set(&store.tree, &key(104), Some(b"blind")).unwrap();
    store.put(&key(102), b"another").unwrap();
    store.put(&key(104), b"another").unwrap();
    store.put(&key(300), &[150; 30]).unwrap();
    assert!(!txn.sees_newest());
    for n in [100, 101, 102, 104, 300, 301, 302, 303] {
        assert!(!is_told(&txn, &store, &key(n)), "{n}");
    }
    store.put(&key(101), b"another").unwrap();
    assert!(store.remove(&key(302)).unwrap());
    let told: Vec<u32> = (98..306).filter(|n| is_told(&txn, &store, &key(*n))).collect();
    assert_eq!(told, [101, 302]);
    assert_eq!(txn.check_all_unchanged(&store.tree).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(txn.commit(Durability::Memory).unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn what_was_read_of_a_range_is_told_at_its_keys() {
    let store = store();
    let txn = store.begin(Isolation::Serializable, false);
    let mut scan = Scan::new(Bound::Included(key(200)), Bound::Excluded(key(400)));
    while txn.next(&store.tree, &mut scan, true).unwrap().is_some() {}
    store.put(&key(199), b"another").unwrap();
    store.put(&key(401), b"another").unwrap();
    assert!(!(190..410).any(|n| is_told(&txn, &store, &key(n))));
    txn.check_all_unchanged(&store.tree).unwrap();
    // One that was not there counts at all keys that were read together with it.
    store.put(&key(301), b"another").unwrap();
    assert!(is_told(&txn, &store, &key(301)) && is_told(&txn, &store, &key(300)));
    assert!(!is_told(&txn, &store, &key(200)) && !is_told(&txn, &store, &key(398)));
    assert_eq!(txn.check_all_unchanged(&store.tree).unwrap_err().kind(), ErrorKind::Conflict);
}

/// As many others are set beside it as it takes to split its leaf, before and after; also in a subtree.
#[test]
fn a_key_is_told_of_wherever_its_leaf_has_gone() {
    let long = |n: u32| [&[b'l'; 300][..], &key(n)].concat();
    for name in [key, long as fn(u32) -> Vec<u8>] {
        let store = store();
        (0..60).for_each(|n| store.put(&name(1000 + 2 * n), &[0; 30]).unwrap());
        let txn = store.begin(Isolation::Serializable, false);
        let read_keys = (0..60).map(|n| name(1000 + 2 * n));
        read_keys.clone().for_each(|key| read(&txn, &store, &key));
        (0..59).for_each(|n| store.put(&name(1001 + 2 * n), &[1; 60]).unwrap());
        // More than are kept apart of a leaf are kept as what lies between them.
        let told = read_keys.clone().filter(|key| is_told(&txn, &store, key)).count();
        assert!(told == 0 || name(0) != key(0), "{told}");
        store.put(&name(1060), b"another").unwrap();
        assert!(is_told(&txn, &store, &name(1060)));
    }
}

#[test]
fn isolation_says_what_is_told() {
    for (isolation, read_only, answers) in [
        (Isolation::Serializable, false, [true, false]),
        (Isolation::Serializable, true, [false, false]),
        (Isolation::Snapshot, false, [true, true]),
        (Isolation::ReadCommitted, false, [false, false]),
    ] {
        let store = store();
        let txn = store.begin(isolation, read_only);
        read(&txn, &store, &key(2));
        store.put(&key(2), b"another").unwrap();
        store.put(&key(4), b"another").unwrap();
        let told = [2, 4, 6].map(|n| is_told(&txn, &store, &key(n)));
        assert_eq!(told, [answers[0], answers[1], false], "{isolation:?}");
        assert_eq!(txn.check_all_unchanged(&store.tree).is_err(), answers[0] && !answers[1]);
    }
}

#[test]
fn a_database_that_was_removed_is_told_of() {
    let store = removal::database();
    store.put(b"a", b"1").unwrap();
    let txn = store.begin(Isolation::Serializable, false);
    read(&txn, &store, b"a");
    removal::take_name(&store, &mut store.begin(Isolation::Snapshot, false)).unwrap();
    assert!(is_told(&txn, &store, b"a"));
    assert_eq!(txn.check_all_unchanged(&store.tree).unwrap_err().kind(), ErrorKind::Conflict);
}

/// A leaf that was read before its tree was built anew is no page of it any more, and never changes.
#[test]
fn what_was_read_of_a_tree_that_was_built_anew_is_compared() {
    const RECORDS: u32 = 5000;
    const APART: u32 = 50;
    let store = Store::with_catalog(128, 8, Some(volume(5)));
    (0..RECORDS).for_each(|n| store.put(&key(n), &[0; 40]).unwrap());
    let txn = store.begin(Isolation::Serializable, false);
    (0..RECORDS).step_by(APART as usize).for_each(|n| read(&txn, &store, &key(n)));
    let mut rebuilds = store.begin(Isolation::ReadCommitted, false);
    (0..RECORDS)
        .filter(|n| n % APART != 0)
        .for_each(|n| rebuilds.set(&store.tree, &key(n), Some(&[1; 40])).unwrap());
    rebuilds.commit(Durability::Memory).unwrap();
    assert!(store.kernel.pages.region.header().rebuilt_since() > txn.at(), "the tree was built anew");
    assert!(!is_told(&txn, &store, &key(RECORDS / 2)));
    txn.check_all_unchanged(&store.tree).unwrap();
    store.put(&key(RECORDS / 2), b"another").unwrap();
    assert!(is_told(&txn, &store, &key(RECORDS / 2)));
    assert_eq!(txn.check_all_unchanged(&store.tree).unwrap_err().kind(), ErrorKind::Conflict);
}

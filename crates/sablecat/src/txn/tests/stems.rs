//! Transactions that change, or remove, trees of long keys with one stem that are larger than the cache.

use std::ops::Bound;

use super::*;
use crate::access::btree::node;
use crate::error::ErrorKind;

const FRAMES: usize = 96;
const RECORDS: u64 = 5000;

type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn stem(letter: u8) -> Vec<u8> {
    vec![letter; node::key_bytes_max(512)]
}

fn key(n: u64) -> Vec<u8> {
    [&stem(b's')[..], &n.to_be_bytes()].concat()
}

/// Records under one stem, in a tree of their own of hundreds of pages: all change, some go as a range.
/// Before that a commit meets a conflict when most of the copy is made.
#[test]
fn a_subtree_larger_than_the_cache_is_copied_part_by_part() {
    let store = Store::with_catalog(FRAMES, 8, Some(volume(1)));
    store.put(b"a", b"before the subtree").unwrap();
    (0..RECORDS).for_each(|n| store.put(&key(n), &[0; 40]).unwrap());
    let mut reader = store.begin(Isolation::Snapshot, true);
    let seen =
        |txn: &mut Transaction<'_>, n| txn.get(&store.tree, &key(n), |value| value.map(|value| value[0]));
    assert_eq!(seen(&mut reader, 7).unwrap(), Some(0));
    for in_the_way in [true, false] {
        let mut txn = store.begin(Isolation::Snapshot, false);
        let (from, to) = (Bound::Excluded(key(1000)), Bound::Included(key(2000)));
        assert_eq!(txn.remove_range(&store.tree, (from, to)).unwrap(), 1000);
        (0..RECORDS)
            .filter(|n| n % 2 == 0)
            .for_each(|n| txn.set(&store.tree, &key(n), Some(&[1; 40])).unwrap());
        if in_the_way {
            store.put(&key(RECORDS - 2), &[2; 40]).unwrap();
        }
        let done = txn.commit(Durability::Memory);
        assert_eq!(done.err().map(|error| error.kind()), in_the_way.then_some(ErrorKind::Conflict));
        drop(txn);
        if in_the_way {
            store.put(&key(RECORDS - 2), &[0; 40]).unwrap();
        }
        let mut now = store.begin(Isolation::Snapshot, true);
        for n in 0..RECORDS {
            let is_gone = !in_the_way && n % 2 == 1 && (1001..=2000).contains(&n);
            let expected = (!is_gone).then_some(u8::from(!in_the_way && n % 2 == 0));
            assert_eq!(seen(&mut now, n).unwrap(), expected, "record {n}");
            assert_eq!(seen(&mut reader, n).unwrap(), Some(0), "record {n} as it was");
        }
    }
    drop(reader);
    store.kernel.free_pages_later();
    store.assert_nothing_leaks();
}

/// Everything that a transaction sees.
fn all(txn: &mut Transaction<'_>, tree: &TreeRef) -> Vec<Vec<u8>> {
    let mut scan = Scan::new(Bound::Unbounded, Bound::Unbounded);
    std::iter::from_fn(|| txn.next(tree, &mut scan, true).unwrap()).map(|(key, _)| key).collect()
}

/// Three stems with hundreds of pages each, one of them below another, and some long values; but for one
/// commit, a range takes them whole. Each commit meets a conflict at first, when most is done.
#[test]
fn subtrees_larger_than_the_cache_go_with_a_range() {
    let nested = |n: u64| [stem(b's'), stem(b't'), n.to_be_bytes().to_vec()].concat();
    let last = |n: u64| [stem(b'u'), n.to_be_bytes().to_vec()].concat();
    let keys: Vec<Vec<u8>> = [b"a".to_vec()]
        .into_iter()
        .chain((0..100).chain(200..RECORDS).map(key))
        .chain((0..2000).map(nested))
        .chain((0..2000).map(last))
        .chain([b"z".to_vec()])
        .collect();
    let unbounded = || (Bound::Unbounded, Bound::Unbounded);
    let removed: [&[Range]; 7] = [
        &[unbounded()],
        &[(Bound::Excluded(b"a".to_vec()), Bound::Excluded(b"z".to_vec()))],
        &[(Bound::Included(key(0)), Bound::Included(nested(1999)))],
        // Its first part is gone when the rest goes: all of that are copies.
        &[
            (Bound::Included(key(0)), Bound::Included(key(99))),
            (Bound::Included(key(200)), Bound::Included(nested(1999))),
        ],
        &[(Bound::Included(key(4000)), Bound::Included(last(1000)))],
        &[(Bound::Included(nested(0)), Bound::Unbounded)],
        &[(Bound::Included(last(0)), Bound::Included(last(1999)))],
    ];
    for ranges in removed {
        let store = Store::with_catalog(FRAMES, 8, Some(volume(1)));
        for (n, key) in keys.iter().enumerate() {
            store.put(key, &vec![0; if n % 500 == 7 { 2500 } else { 40 }]).unwrap();
        }
        let is_left =
            |key: &&Vec<u8>| !ranges.iter().any(|range| std::ops::RangeBounds::contains(range, *key));
        let left: Vec<Vec<u8>> = keys.iter().filter(is_left).cloned().collect();
        let mut reader = store.begin(Isolation::Snapshot, true);
        assert_eq!(all(&mut reader, &store.tree), keys);
        for in_the_way in [true, false] {
            let mut txn = store.begin(Isolation::Snapshot, false);
            let counts = ranges.iter().map(|range| txn.remove_range(&store.tree, range.clone()).unwrap());
            assert_eq!(counts.sum::<u64>(), (keys.len() - left.len()) as u64);
            txn.set(&store.tree, b"zz", Some(&[1; 40])).unwrap();
            txn.set(&store.tree, b"zz", None).unwrap();
            if in_the_way {
                txn.set(&store.tree, b"y", Some(&[1; 40])).unwrap();
                store.put(b"y", &[2; 40]).unwrap();
            }
            let done = txn.commit(Durability::Memory);
            assert_eq!(done.err().map(|error| error.kind()), in_the_way.then_some(ErrorKind::Conflict));
            drop(txn);
            if in_the_way {
                assert!(store.remove(b"y").unwrap());
            }
            let now = all(&mut store.begin(Isolation::Snapshot, true), &store.tree);
            assert!(now == if in_the_way { &keys[..] } else { &left }, "{} records", now.len());
        }
        assert!(all(&mut reader, &store.tree) == keys, "as it was");
        drop(reader);
        store.kernel.free_pages_later();
        store.assert_nothing_leaks();
    }
}

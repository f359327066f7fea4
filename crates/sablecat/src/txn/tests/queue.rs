//! Records of a queue that are consumed or appended by themselves, beside transactions that come in between.

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::txn::locks::record_hash;
use crate::txn::operations::queue;
use crate::txn::transactions::queue::key_of;

/// With three records; for as long as the process lives, since what comes in between borrows it.
fn store() -> &'static Store {
    let store: &'static Store = Box::leak(Box::new(Store::with_catalog(256, 16, None)));
    let mut txn = store.begin(Isolation::Snapshot, false);
    for n in 1..=3 {
        assert_eq!(txn.append(&store.tree, b"record", 0).unwrap(), n);
    }
    txn.commit(Durability::Memory).unwrap();
    store
}

/// Nothing yet of what comes in between.
fn leaked<T>() -> &'static RefCell<Option<T>> {
    Box::leak(Box::default())
}

fn consume(txn: &mut Transaction<'_>, store: &Store) -> Option<u64> {
    txn.consume(&store.tree).unwrap().map(|(number, _)| number)
}

/// The lock is not there when the record is found, and is when it is to go.
#[test]
fn what_a_transaction_gets_in_hand_at_the_last_moment_is_left_to_it() {
    let store = store();
    let txn = leaked();
    let between = move |at| {
        if at == queue::InterleavingPoint::Prepared && txn.borrow().is_none() {
            let mut other = store.begin(Isolation::Snapshot, false);
            assert_eq!(consume(&mut other, store), Some(1));
            txn.replace(Some(other));
        }
    };
    let consumed = queue::between(between, || store.kernel.consume_one(&store.tree, 6, Durability::Memory));
    assert_eq!(consumed.unwrap(), None, "it takes a transaction");
    let mut txn = txn.take().expect("it came in between");
    txn.commit(Durability::Memory).expect("the record was left to it");
    let next = store.kernel.consume_one(&store.tree, 6, Durability::Memory).unwrap();
    assert_eq!(next, Some((2, b"record".to_vec())));
}

#[test]
fn numbers_that_a_transaction_takes_at_the_last_moment_are_left_to_it() {
    let store = store();
    let txn = leaked();
    let between = move |at| {
        if at == queue::InterleavingPoint::Prepared && txn.borrow().is_none() {
            let mut other = store.begin(Isolation::Snapshot, false);
            assert_eq!(other.append(&store.tree, b"others", 0).unwrap(), 4);
            txn.replace(Some(other));
        }
    };
    let append = || store.kernel.append_one(&store.tree, b"record", Durability::Memory).unwrap();
    assert_eq!(queue::between(between, append), None, "it takes a transaction");
    assert_eq!(append(), Some(64), "one of the next batch");
    txn.take().expect("it came in between").commit(Durability::Memory).expect("nobody has its number");
    assert_eq!(append(), Some(65));
}

/// Also where the last leaf is full, and is divided: of so many records several are.
#[test]
fn numbers_that_a_transaction_takes_as_a_leaf_is_divided_are_left_to_it() {
    let store = store();
    let append = || store.kernel.append_one(&store.tree, b"record", Durability::Memory).unwrap();
    for last in 3..600 {
        let txn = leaked();
        let between = move |at| {
            if at == queue::InterleavingPoint::Prepared && txn.borrow().is_none() {
                let mut other = store.begin(Isolation::Snapshot, false);
                assert_eq!(other.append(&store.tree, b"others", 0).unwrap(), last + 1);
                txn.replace(Some(other));
            }
        };
        assert_eq!(queue::between(between, append), None, "it takes a transaction, after {last}");
        drop(txn.take().expect("it came in between"));
        assert_eq!(append(), Some(last + 1));
    }
    let txn = store.begin(Isolation::Snapshot, true);
    let there = (1..=600).all(|number| txn.get_owned(&store.tree, &key_of(number)).unwrap().is_some());
    assert!(there);
}

/// It has the record's lock when that is being consumed, and looks at it after that only.
#[test]
fn who_gets_a_lock_too_late_sees_that_the_record_is_gone() {
    let store = store();
    let (lock, is_taken) = mpsc::channel();
    let other = leaked();
    let between = move |at| {
        if at == queue::InterleavingPoint::Checked && other.borrow().is_none() {
            let lock = lock.clone();
            other.replace(Some(thread::spawn(move || {
                let mut txn = store.begin(Isolation::Snapshot, false);
                lock.send(()).expect("waited for");
                let number = consume(&mut txn, store);
                (number, txn.commit(Durability::Memory).map(drop))
            })));
            is_taken.recv().expect("it began");
            while !store.kernel.locks.is_taken(0, record_hash(store.tree.id, &key_of(1))) {
                thread::yield_now();
            }
            // For one that does not wait for the role to look at what is there.
            thread::sleep(Duration::from_millis(20));
        }
    };
    let consumed = queue::between(between, || store.kernel.consume_one(&store.tree, 6, Durability::Memory));
    assert_eq!(consumed.unwrap().map(|(number, _)| number), Some(1));
    let (number, committed) = other.take().expect("it came in between").join().expect("ended");
    assert_eq!(number, Some(2));
    committed.expect("nobody is in its way");
}

//! Answers: what single operations and transactions say beside commits that are stopped between any two steps
//! agrees with one order of all calls, in which each happened while it ran.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::txn::tests::linear::{Call, Step, is_linear};

/// What was called, with one clock for all. The explorer switches no threads in here.
#[derive(Default)]
struct Calls {
    clock: AtomicU64,
    calls: Mutex<Vec<Call>>,
}

impl Calls {
    fn note(&self, call: impl FnOnce() -> Vec<Step>) {
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let steps = call();
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        self.calls.lock().unwrap().push(Call { span: (begun, ended), steps });
    }

    fn put(&self, store: &Store, key: u8, stamp: u32) {
        self.note(|| {
            store.put(&[key], &value(stamp)).unwrap();
            vec![Step::Put(key, stamp)]
        });
    }

    fn remove(&self, store: &Store, key: u8) {
        self.note(|| vec![Step::Removed(key, store.remove(&[key]).unwrap())]);
    }

    fn get(&self, store: &Store, key: u8) {
        self.note(|| vec![Step::Got(key, store.get(&[key]).map(|value| stamp(&value)))]);
    }

    fn is_there(&self, store: &Store, key: u8) {
        self.note(|| match store.kernel.value_len(&store.tree, &[key]).unwrap() {
            Some(_) => vec![],
            None => vec![Step::Got(key, None)],
        });
    }

    /// Two records at one snapshot, walked to.
    fn look(&self, store: &Store, keys: [u8; 2]) {
        self.note(|| {
            let txn = store.begin(Isolation::Snapshot, true);
            let mut scan = Scan::new(Bound::Included(vec![keys[0]]), Bound::Included(vec![keys[1]]));
            let mut found = BTreeMap::new();
            while let Some((key, value)) = txn.next(&store.tree, &mut scan, true).unwrap() {
                found.insert(key[0], stamp(&value));
            }
            keys.map(|key| Step::Got(key, found.get(&key).copied())).into()
        });
    }

    /// Reads one record and writes another, as often as it takes.
    fn copy(&self, store: &Store, from: u8, to: u8, isolation: Isolation) {
        self.note(|| {
            let mut txn = store.begin(isolation, false);
            loop {
                let seen = txn.get(&store.tree, &[from], |value| value.map(stamp)).unwrap();
                let stamp = seen.map_or(100, |stamp| stamp + 1000);
                txn.set(&store.tree, &[to], Some(&value(stamp))).unwrap();
                match txn.commit(Durability::Memory) {
                    Ok(_) => return vec![Step::Got(from, seen), Step::Put(to, stamp)],
                    Err(error) => assert!(
                        matches!(error.kind(), ErrorKind::Conflict | ErrorKind::SnapshotTooOld),
                        "{error}"
                    ),
                }
                txn.restart();
            }
        });
    }
}

fn explored(seed: u64, runs: usize, works: &'static [fn(&Store, &Calls)]) {
    explore(seed, runs, move || {
        let store = Arc::new(Store::with_two_leaves(24, 8, None));
        let calls = Arc::new(Calls::default());
        let threads: Vec<_> = works
            .iter()
            .map(|work| {
                let (store, calls) = (Arc::clone(&store), Arc::clone(&calls));
                thread::spawn(move || work(&store, &calls))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let calls = calls.calls.lock().unwrap();
        assert!(is_linear(&calls), "in no order: {calls:?}");
    });
}

/// A record is found, or not, under its leaf's latch, where commits can be met that are not visible yet.
#[test]
fn who_found_nothing_to_remove_does_not_find_it_afterwards() {
    explored(
        91,
        400,
        &[
            |store, calls| {
                calls.put(store, b'c', 1);
                calls.remove(store, b'c');
            },
            |store, calls| {
                calls.remove(store, b'c');
                calls.get(store, b'c');
                calls.remove(store, b'c');
                calls.is_there(store, b'c');
            },
        ],
    );
}

#[test]
fn single_operations_have_one_order() {
    explored(
        92,
        300,
        &[
            |store, calls| (1..3).for_each(|stamp| calls.put(store, b'c', stamp)),
            |store, calls| {
                calls.remove(store, b'c');
                calls.is_there(store, b'c');
                calls.put(store, b'd', 7);
            },
            |store, calls| {
                calls.get(store, b'd');
                calls.get(store, b'c');
                calls.remove(store, b'd');
                calls.get(store, b'd');
            },
        ],
    );
}

#[test]
fn serialisable_transactions_and_single_operations_have_one_order() {
    explored(
        93,
        300,
        &[
            |store, calls| {
                calls.copy(store, b'c', b'd', Isolation::Serializable);
                calls.remove(store, b'd');
            },
            |store, calls| {
                calls.copy(store, b'd', b'c', Isolation::Serializable);
                calls.get(store, b'd');
            },
            |store, calls| {
                calls.remove(store, b'c');
                calls.get(store, b'c');
                calls.put(store, b'c', 3);
            },
            |store, calls| (0..2).for_each(|_| calls.look(store, [b'c', b'd'])),
        ],
    );
}

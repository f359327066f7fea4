//! A comparator that panics, at every one of its calls: nothing leaks, and what was not committed has not
//! happened.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::access::Method;
use crate::txn::catalog::Comparator;

/// A store ordered by a comparator whose so-many-th call from now, if the word is not 0, unwinds.
fn store(calls: &Arc<AtomicU32>) -> Store {
    let store = Store::new(200, 6, Some(volume(1)));
    let calls = Arc::clone(calls);
    let compare = move |one: &[u8], two: &[u8]| {
        let left = calls.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left == Ok(1) {
            resume_unwind(Box::new(()));
        }
        one.cmp(two)
    };
    let comparator = Some(Arc::new(Comparator::new("panics", compare)));
    let seat = store.kernel.pages.participants.sit().unwrap();
    // SAFETY: nobody else knows of the region yet.
    let mut direct = unsafe { Direct::new(&store.kernel.pages, &seat) };
    Method::Btree.format(direct.write(store.tree.root).unwrap(), store.tree.id, store.tree.root, true);
    drop(direct);
    drop(seat);
    let Store { kernel, tree } = store;
    Store { kernel, tree: tree.with(|tree| tree.comparator = comparator) }
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

#[test]
fn nothing_leaks_when_a_comparator_panics_at_any_of_its_calls() {
    let calls = Arc::new(AtomicU32::new(0));
    let store = store(&calls);
    let mut model = BTreeMap::new();
    let mut dice = Dice(11);
    let mut panics = 0;
    for round in 0..400 {
        let (first, len, many) = (dice.below(200) as u32, dice.below(90) as usize, dice.below(12) as u32);
        let change = |n: u32| (n % 3 != round % 3).then(|| vec![n as u8; len]);
        let changed = Cell::new(false);
        let work = || {
            let mut txn = store.begin(Isolation::Serializable, false);
            txn.get(&store.tree, &key(first + 7), |_| ()).unwrap();
            // A neighbour changes, so that this is compared under the commit role.
            let left = calls.swap(0, Ordering::SeqCst);
            store.put(&key(first + 8), b"beside").unwrap();
            changed.set(true);
            calls.store(left, Ordering::SeqCst);
            (first..first + many).for_each(|n| txn.set(&store.tree, &key(n), change(n).as_deref()).unwrap());
            txn.commit(Durability::Memory).unwrap();
        };
        calls.store(1 + dice.below(80) as u32, Ordering::SeqCst);
        let done = catch_unwind(AssertUnwindSafe(work));
        calls.store(0, Ordering::SeqCst);
        if changed.get() {
            model.insert(key(first + 8), b"beside".to_vec());
        }
        if done.is_err() {
            panics += 1;
            continue;
        }
        for n in first..first + many {
            match change(n) {
                Some(value) => drop(model.insert(key(n), value)),
                None => drop(model.remove(&key(n))),
            }
        }
    }
    assert!((50..350).contains(&panics), "{panics}");
    let (records, _) = store.verified();
    assert!(
        records == model.into_iter().collect::<Records>(),
        "something of a commit that unwound is there, or something else is not"
    );
    store.assert_nothing_leaks();
}

//! Counted trees with counts that are wrong: verifying finds them, a reader that asks gets an error or a
//! wrong number, and nothing worse happens.

use std::cell::Cell;
use std::ops::Bound;
use std::rc::Rc;

use super::*;
use crate::access::Method;
use crate::access::btree::node::{Inner, InnerMut};
use crate::error::ErrorKind;
use crate::txn::seen::reads::ReadSet;

const RECORDS: u32 = 600;

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// A tree of three levels.
fn store() -> Store {
    let store = Store::new(800, 4, None);
    let tree = store.tree.with(|tree| tree.method = Method::Counted);
    store.in_place(|direct| tree.tree().format(direct.write(tree.root).unwrap()));
    let store = Store { tree, ..store };
    for n in 0..RECORDS {
        store.put(&key(n), b"a record").unwrap();
    }
    store
}

impl Store {
    fn nth(&self, n: u64) -> Result<Option<Vec<u8>>> {
        let found = self.begin(Isolation::Serializable, false).nth(&self.tree, n)?;
        Ok(found.map(|(key, _)| key))
    }

    /// What the root says of each child.
    fn counts(&self) -> Vec<u64> {
        self.in_place(|direct| {
            let root = Inner::new(direct.latched(self.tree.root).unwrap());
            (0..=root.count()).map(|child| root.records_below(child)).collect()
        })
    }
}

#[test]
fn wrong_counts_are_found_and_end_no_search_in_a_panic() {
    let counts = store().counts();
    assert!(counts.len() > 1 && counts.iter().sum::<u64>() == RECORDS.into(), "{counts:?}");
    for (child, good) in counts.iter().enumerate() {
        for wrong in [0, good - 1, good + 1, u64::MAX] {
            let store = store();
            assert_eq!(store.problems(), [""; 0]);
            store.in_place(|direct| {
                InnerMut::new(direct.write(store.tree.root).unwrap()).set_records(child, wrong);
            });
            let problems = store.problems();
            let said = format!("below child {child}, which has {good}");
            assert!(problems.len() == 1 && problems[0].contains(&said), "{problems:?}");
            let before: u64 = counts[..child].iter().sum();
            for n in [before, before + good - 1, before + good, before + wrong.min(1 << 40), u64::MAX] {
                match store.nth(n) {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
                }
            }
            if wrong > *good {
                let error = store.nth(before + good).unwrap_err();
                assert!(error.to_string().contains("has fewer records"), "{error}");
            }
            // Records are what they were.
            assert_eq!(store.scan(true).unwrap(), RECORDS as usize);
            for n in 0..RECORDS {
                assert!(store.remove(&key(n)).unwrap());
            }
            store.put(b"again", b"a record").unwrap();
            assert_eq!(store.scan(true).unwrap(), 1);
        }
    }
}

#[test]
fn a_page_without_counts_is_damage_to_who_counts() {
    let store = store();
    store.in_place(|direct| direct.write(store.tree.root).unwrap()[22] = 0);
    let error = store.nth(0).unwrap_err();
    assert!(error.to_string().contains("has no counts"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(!store.problems().is_empty());
}

/// The ways of changing a tree that count by themselves: one of each leaves counts that are right.
#[test]
fn what_is_left_of_everything_is_counted() {
    let store = store();
    let long = |n: u8| [vec![b'n'; 200], vec![n]].concat();
    for n in 0..40 {
        store.put(&long(n), &[n; 9]).unwrap();
    }
    for n in (0..RECORDS).filter(|n| n % 3 > 0) {
        assert!(store.remove(&key(n)).unwrap());
    }
    for n in 0..39 {
        assert!(store.remove(&long(n)).unwrap());
    }
    assert_eq!(store.problems(), [""; 0]);
    assert_eq!(store.nth(200).unwrap(), Some(long(39)));
    assert_eq!(store.nth(201).unwrap(), None);
    assert!(store.remove(&long(39)).unwrap());
    assert_eq!((store.nth(200).unwrap(), store.nth(199).unwrap()), (None, Some(key(597))));
    assert_eq!(store.problems(), [""; 0]);
}

/// What was counted is counted once more for as long as the commit role is held: with much of it nobody else
/// would commit for seconds.
#[test]
fn what_was_counted_much_is_counted_again_before_the_commit_step() {
    let store = store();
    let kernel = &store.kernel;
    let seat = store.seat();
    let pinned = kernel.pages.pinned(&seat);
    let at = pinned.at();
    let mut reads = ReadSet::default();
    for n in (0..RECORDS).step_by(6) {
        let bounds = key(n);
        reads.note_count(&store.tree, (Bound::Unbounded, Bound::Excluded(&bounds)), n.into());
    }
    // No count changes.
    store.put(&key(7), b"another").unwrap();
    let ahead = reads.validate_ahead(kernel, at, &seat).unwrap();
    store.put(&key(8), b"another").unwrap();
    // A count taken now would show it.
    let good = store.counts()[0];
    let set = |records| {
        store.in_place(|direct| {
            InnerMut::new(direct.write(store.tree.root).unwrap()).set_records(0, records);
        });
    };
    set(good + 1);
    reads.validate(kernel, at, &ahead, &seat).unwrap();
    set(good);
    store.put(&[0], b"before all").unwrap();
    assert_eq!(reads.validate(kernel, at, &ahead, &seat).unwrap_err().kind(), ErrorKind::Conflict);
    drop(pinned);
}

/// Others add records between any two looks of a transaction that validates, one of them before what was
/// counted: it is found whenever that is.
#[test]
fn a_count_that_changes_while_much_is_validated_is_a_conflict_whenever_it_does() {
    let mut looks_max = 0;
    for late in 0..24 {
        for conflicts in [false, true] {
            let store = Rc::new(store());
            let mut txn = store.begin(Isolation::Serializable, false);
            for n in 0..100 {
                txn.nth(&store.tree, 2 * n).unwrap().unwrap();
            }
            txn.set(&store.tree, &key(RECORDS - 1), Some(b"sum")).unwrap();
            let looks = Rc::new(Cell::new(0));
            let others = {
                let (store, looks) = (Rc::clone(&store), Rc::clone(&looks));
                move || {
                    looks.set(looks.get() + 1);
                    if looks.get() == 1 + late {
                        // Behind all that was counted.
                        (0..40).for_each(|n| store.put(&key(RECORDS + n), b"more").unwrap());
                        if conflicts {
                            store.put(&[0, 0, 0, 17, 1], b"more").unwrap();
                        }
                    }
                }
            };
            crate::txn::commit::recent::beside(Rc::new(others), || match txn.commit(Durability::Memory) {
                Ok(_) => assert!(!conflicts || looks.get() <= late, "after look {late}"),
                Err(error) => assert!(conflicts && error.kind() == ErrorKind::Conflict, "{error}"),
            });
            looks_max = looks_max.max(looks.get());
        }
    }
    assert!(looks_max > 8, "{looks_max}");
}

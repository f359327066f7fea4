//! Removing a database against writers to it: what they write is published before the database is gone, or
//! refused; and no page is lost.

use sablecat_os::atomic::yield_now;

use super::*;
use crate::txn::tests::removal::{database, entry, take_name};
use crate::txn::{PresenceState, catalog};

/// Writes some records, which may take more leaves, until the database is gone.
fn write(store: &Store, isolation: Isolation) {
    for n in 0..3 {
        let mut txn = store.begin(isolation, false);
        (0..4).for_each(|key| txn.set(&store.tree, &[key, n], Some(&[n; 60])).unwrap());
        match txn.commit(Durability::Memory) {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::SnapshotTooOld) => {}
            done => drop(done.unwrap()),
        }
    }
}

/// Writes a record, as often as it is let.
fn put(store: &Store) {
    for n in 0..3 {
        match store.put(&[9, n], &[n; 60]) {
            // What it met on its way had been freed: its caller looks why.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Corruption
                ) =>
            {
                return;
            }
            done => done.unwrap(),
        }
    }
}

fn remove(store: &Store) {
    let mut txn = store.begin(Isolation::Snapshot, false);
    let mut take = || {
        let done = take_name(store, &mut txn);
        txn.restart();
        done
    };
    while let Err(error) = take() {
        assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
        yield_now();
    }
    drop(txn);
    let refused = store.put(b"late", b"").expect_err("it is gone");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    store.kernel.free_tree(&store.seat(), &entry(store)).unwrap();
}

fn explored(works: &'static [Work], seed: u64) {
    explore(seed, 60, move || {
        let store = Arc::new(database());
        together(&store, works);
        assert_eq!(store.tree.presence.as_ref().map(|presence| presence.state()), Some(PresenceState::Gone));
        let Store { kernel, .. } = Arc::into_inner(store).expect("all threads have ended");
        Store { kernel, tree: catalog::catalog_tree().clone() }.assert_nothing_leaks();
    });
}

#[test]
fn writers_are_before_a_removal_or_refused() {
    explored(
        &[|store| write(store, Isolation::Snapshot), |store| write(store, Isolation::ReadCommitted), remove],
        71,
    );
}

#[test]
fn single_writes_are_before_a_removal_or_refused() {
    explored(&[put, |store| store.sweep(3), remove], 72);
}

//! Bulk loads, beside operations on the tree that is being loaded.

use super::*;
use crate::error::ErrorKind;
use crate::pages::header;
use crate::txn::catalog::Comparator;
use crate::txn::catalog::tree::CompareFn;

const RECORDS: u32 = 4000;
/// As many as make some leaves under one root, so that the tree is as it was made when they have been
/// removed.
const FEW: u32 = 300;

fn key(n: u32) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

/// The leaf of a key as a participant with a hint for it finds it, and the key's value there.
fn covering(store: &Store, seat: &Seat<'_>, key: &[u8]) -> (PageId, Option<Vec<u8>>) {
    let mut snapshot = store.kernel.pages.snapshot(seat);
    let view = store.tree.tree();
    let bytes = snapshot.covering(&view, view.sought(key)).unwrap();
    let value = view.get(bytes, view.sought(key)).map(|value| match value {
        access::StoredValue::Inline(value) => value.to_vec(),
        access::StoredValue::Long { .. } => unreachable!("short"),
    });
    (header::page_id(bytes), value)
}

/// The number of a leaf that somebody remembers may be that of a page of the load, which looks like a leaf of
/// the tree. That is read by nobody before the load has committed, and written by nobody: it would be lost if
/// the load failed.
#[test]
fn a_leaf_remembered_from_when_others_had_filled_the_tree_is_no_page_of_the_load() {
    let store = Store::new(2000, 8, None);
    let pages = &store.kernel.pages;
    let seats: Vec<_> = (0..4).map(|_| store.seat()).collect();
    let mut remembered = Vec::new();
    let records = (0..RECORDS).map(|n| {
        if n == RECORDS / 2 {
            (0..FEW).for_each(|n| store.put(&key(n), &[7; 9]).unwrap());
            remembered
                .extend(seats.iter().zip(1..).map(|(seat, n)| covering(&store, seat, &key(FEW / 5 * n)).0));
            // From the end, so that each leaf is merged with the one behind it.
            (0..FEW).rev().for_each(|n| assert!(store.remove(&key(n)).unwrap()));
            pages.sweep_all(&store.seat());
        }
        if n + 1 == RECORDS {
            let looks_like = |page, n: u32| {
                let view = store.tree.tree();
                let snapshot = pages.snapshot(&seats[0]);
                snapshot.show(page, |bytes| view.covers(bytes, view.sought(&key(n)))).unwrap_or(false)
            };
            let mut met = 0;
            for (seat, &page) in seats.iter().zip(&remembered) {
                let Some(within) = (0..RECORDS).find(|&n| looks_like(page, n)) else { continue };
                assert_eq!(
                    covering(&store, seat, &key(within)),
                    (store.tree.root, None),
                    "nothing of a load is seen before it has committed"
                );
                met += 1;
            }
            assert!(met > 0, "the load has some of these numbers: {remembered:?}");
        }
        (key(n), [1; 9])
    });
    assert_eq!(store.kernel.bulk_load(&store.tree, records, Durability::Memory).unwrap(), u64::from(RECORDS));
    drop(seats);
    assert_eq!(store.verified().0.len(), RECORDS as usize);
}

/// What fills the tree is found before anything is published beside it, and not only when the load ends.
#[test]
fn a_load_into_a_tree_that_others_have_filled_fails_and_leaves_nothing() {
    let store = Store::new(2000, 8, None);
    let records = (0..RECORDS).map(|n| {
        if n == RECORDS / 2 {
            (0..RECORDS).for_each(|n| store.put(&key(n), &[7; 9]).unwrap());
        }
        (key(n), [1; 9])
    });
    assert_eq!(
        store.kernel.bulk_load(&store.tree, records, Durability::Memory).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert!(store.verified().0.iter().all(|(_, value)| value == &[7; 9]));
    store.assert_nothing_leaks();
}

/// Pages of a load are born before the load commits: a snapshot from in between does not have what they say,
/// though it is younger than they are.
#[test]
fn who_began_while_a_tree_was_loaded_does_not_write_over_what_was_loaded() {
    for writes in [1, 100] {
        let store = Store::new(2000, 8, None);
        let mut begun = None;
        let records = (0..RECORDS).map(|n| {
            if n == RECORDS / 2 {
                let mut txn = store.begin(Isolation::Snapshot, false);
                assert_eq!(txn.get_owned(&store.tree, &key(7)).unwrap(), None);
                (0..writes).for_each(|n| txn.set(&store.tree, &key(7 + n), Some(b"first")).unwrap());
                begun = Some(txn);
            }
            (key(n), [1; 9])
        });
        assert_eq!(
            store.kernel.bulk_load(&store.tree, records, Durability::Memory).unwrap(),
            u64::from(RECORDS)
        );
        let committed = begun.expect("it was begun").commit(Durability::Memory);
        assert_eq!(
            committed.expect_err("the load has set the same records, and committed first").kind(),
            ErrorKind::Conflict
        );
    }
}

/// In memory alone nothing else can be put where its pages are: they would be in use for good.
#[test]
fn a_load_that_fills_memory_leaves_nothing_of_itself() {
    for frames in [90, 130, 200, 333] {
        let store = Store::new(frames, 6, None);
        for _ in 0..3 {
            let loaded =
                store.kernel.bulk_load(&store.tree, (0..).map(|n| (key(n), [1; 90])), Durability::Memory);
            assert_eq!(loaded.expect_err("there is an end to memory").kind(), ErrorKind::CacheFull);
            assert!(store.verified().0.is_empty());
            store.assert_nothing_leaks();
        }
    }
}

/// Nothing of a load hangs on its snapshot.
#[test]
fn a_load_whose_snapshot_is_given_up_at_any_moment_goes_on() {
    // Without a page before the last one, and with some.
    for records in [3, RECORDS] {
        let store = Store::new(2000, 8, None);
        let ordered = |compare: CompareFn| {
            let comparator = Some(Arc::new(Comparator { name: "of a user".into(), compare, table: None }));
            store.tree.with(|tree| tree.comparator = comparator)
        };
        let region = Arc::clone(&store.kernel.pages.region);
        let give_up = move |a: &[u8], b: &[u8]| {
            let pinned = (1..8).map(|slot| region.slot(slot)).filter(|slot| slot.pinned().is_some());
            pinned.for_each(|slot| _ = slot.mark_revoked());
            a.cmp(b)
        };
        let all = (0..records).map(|n| (key(n), [1; 9]));
        let loaded = store.kernel.bulk_load(&ordered(Box::new(give_up)), all, Durability::Memory);
        assert_eq!(loaded.unwrap(), u64::from(records));
        assert_eq!(store.verified_tree(&ordered(Box::new(|a, b| a.cmp(b)))).0.len(), records as usize);
    }
}

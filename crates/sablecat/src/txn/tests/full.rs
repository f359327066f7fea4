//! Memory that is full: what can be done still, and what becomes of those whose snapshots are given up.

use std::collections::BTreeSet;

use super::*;
use crate::error::{Error, ErrorKind};
use crate::txn::commit::changes::ChangedPages;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn seen(store: &Store, txn: &mut Transaction<'_>, n: u64) -> Option<Vec<u8>> {
    txn.get(&store.tree, &key(n), |value| value.map(<[u8]>::to_vec)).unwrap()
}

/// A removal needs new versions too, and in memory alone nothing can be evicted to make room for them.
#[test]
fn what_fills_the_memory_can_be_removed_again() {
    for (seed, frames) in [(1, 64), (2, 300), (3, 1200)] {
        let store = Store::with_catalog(frames, 8, None);
        let mut dice = Dice(seed);
        let mut most = Vec::new();
        for round in 0..3 {
            let mut keys = BTreeSet::new();
            // Until there is no room for one more, wherever that is to go.
            let mut refused = 0;
            while refused < 5 {
                let n = dice.below(1 << 30);
                match store.put(&key(n), &[round; 40]) {
                    Ok(()) => drop(keys.insert(n)),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::CacheFull, "{error}");
                        refused += 1;
                    }
                }
            }
            most.push(keys.len());
            // In no order: most of them leave their leaf as full as it was, but for one record.
            let mut left: Vec<u64> = keys.into_iter().collect();
            while !left.is_empty() {
                let n = left.swap_remove(dice.below(left.len() as u64) as usize);
                if dice.below(8) == 0 {
                    let mut txn = store.begin(Isolation::Serializable, false);
                    txn.set(&store.tree, &key(n), None).unwrap();
                    txn.commit(Durability::Memory).unwrap();
                } else {
                    assert!(store.remove(&key(n)).unwrap(), "record {n}");
                }
            }
            assert_eq!(store.verified().0, []);
        }
        let (least, most) = (most.iter().min().unwrap(), most.iter().max().unwrap());
        assert!(most - least <= most / 8, "as much room as before: {least} to {most}");
        store.assert_nothing_leaks();
    }
}

#[test]
fn what_fills_the_memory_can_be_removed_beside_others_who_fill_it() {
    let store = Store::with_catalog(400, 12, None);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..20 {
                    let own = |n: u64| key(n * 4 + thread);
                    let full = (0..).find(|&n| match store.put(&own(n), &[round; 40]) {
                        Ok(()) => false,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::CacheFull, "{error}");
                            true
                        }
                    });
                    for n in 0..full.unwrap() {
                        // For a moment a thread that does not run may hold back what all others give back.
                        let removed = std::iter::repeat_with(|| store.remove(&own(n))).find(|removed| {
                            removed
                                .as_ref()
                                .err()
                                .inspect(|error| assert_eq!(error.kind(), ErrorKind::CacheFull, "{error}"))
                                .is_none()
                        });
                        assert!(removed.unwrap().unwrap(), "record {n} of {thread} in round {round}");
                    }
                }
            });
        }
    });
    assert_eq!(store.verified().0, []);
    store.assert_nothing_leaks();
}

/// A participant that has found a page holds nothing until it has the latch: its snapshot may be given up,
/// and others may free the page.
#[test]
fn a_page_that_was_freed_before_its_latch_was_had_is_no_damage() {
    for volume in [None, Some(volume(3))] {
        let store = Store::with_catalog(300, 8, volume);
        let records = 0..800;
        records.clone().for_each(|n| store.put(&key(n), &[1; 40]).unwrap());
        let (pages, tree, me) = (&store.kernel.pages, store.tree.tree(), store.seat());
        let pinned = pages.pinned(&me);
        let leaves: BTreeSet<_> = records
            .clone()
            .map(|n| store.kernel.locate(&tree, tree.sought(&key(n)), pinned.at(), &me).unwrap())
            .collect();
        records.for_each(|n| assert!(store.remove(&key(n)).unwrap()));
        // Others want the room that its versions take.
        assert!(pages.give_up_oldest(&store.seat()), "it is older than the newest state");
        pages.sweep_all(&store.seat());
        let latched: Vec<_> = leaves
            .into_iter()
            .map(|page| ChangedPages::new(pages, &me, pinned.at()).latched(page).map(drop))
            .collect();
        let freed: Vec<_> = latched.iter().filter_map(|latched| latched.as_ref().err()).collect();
        assert!(freed.len() > 10, "{} of {} leaves", freed.len(), latched.len());
        freed.iter().for_each(|error| assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}"));
    }
}

/// The snapshot of another is taken from it only when there is nothing else.
#[test]
fn who_removes_from_memory_that_is_full_takes_nobody_s_snapshot_for_it() {
    let store = Store::with_catalog(300, 8, None);
    let full = (0..).find(|&n| store.put(&key(n), &[1; 40]).is_err()).unwrap();
    let mut reader = store.begin(Isolation::Snapshot, true);
    assert_eq!(seen(&store, &mut reader, 7), Some(vec![1; 40]));
    (0..10).for_each(|n| assert!(store.remove(&key(n)).unwrap()));
    (0..full).for_each(|n| assert_eq!(seen(&store, &mut reader, n), Some(vec![1; 40]), "record {n}"));
}

/// Where the process could have address space for few pages or blocks alone.
#[test]
fn numbers_that_are_all_in_use_come_back_when_records_are_removed() {
    let pages = Geometry { pages_max: 512, ..geometry(4096, 8) };
    let blocks = Geometry { blocks_max: 1024, ..geometry(4096, 8) };
    for (geometry, of) in [(pages, "of 512 page numbers"), (blocks, "all 1024 blocks")] {
        let store = Store::of_geometry(geometry, Some(volume(1)));
        for _ in 0..3 {
            let refused = |error: Error| {
                assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
                assert!(error.to_string().contains(of) && error.to_string().contains("ulimit -v"), "{error}");
            };
            let mut put = 0;
            // A checkpoint now and then, which takes the blocks.
            let put_one = |n: u64| {
                store.put(&key(n), &[7; 40])?;
                if n.is_multiple_of(500) { store.checkpoint().map(drop) } else { Ok(()) }
            };
            while put < 30_000 {
                match put_one(put) {
                    Ok(()) => put += 1,
                    Err(error) => {
                        refused(error);
                        break;
                    }
                }
            }
            assert!(put < 30_000, "{of}");
            (0..put).for_each(|n| assert_eq!(store.get(&key(n)), Some(vec![7; 40]), "record {n}"));
            (0..put).for_each(|n| assert!(store.remove(&key(n)).unwrap(), "record {n}"));
            // It is there if it was the checkpoint after it that was refused.
            store.remove(&key(put)).unwrap();
            store.checkpoint().unwrap();
            store.checkpoint().unwrap();
            assert_eq!(store.verified().0, []);
        }
    }
}

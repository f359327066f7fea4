//! What serialisable transactions have read: how it is kept, and how it is validated when it is much.

use std::cell::Cell;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::*;
use crate::error::ErrorKind;
use crate::log::{RecordBuilder, RecordKind};
use crate::pages::LocalParticipant;
use crate::region::Work;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish;
use crate::txn::seen::reads::ReadSet;

fn key(n: u32) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

/// A store of many leaves, far more than there are frames if it is on a disk.
fn store(volume: Option<Volume>) -> Store {
    store_of(if volume.is_some() { 60 } else { 600 }, volume)
}

fn store_of(frames: usize, volume: Option<Volume>) -> Store {
    let store = Store::new(frames, 6, volume);
    (0..1000).for_each(|n| store.put(&key(2 * n), &[n as u8; 30]).unwrap());
    if store.kernel.pages.volume().is_some() {
        store.checkpoint().unwrap();
    }
    store
}

/// The leaf that a key belongs to in a state.
fn leaf_of(store: &Store, key: &[u8], at: Lsn, me: &LocalParticipant) -> PageId {
    let pages = &store.kernel.pages;
    let tree = store.tree.tree();
    pages.operate(me, || tree.find(&pages.at_pin(me, at)?, tree.sought(key))).unwrap()
}

/// What a transaction has read that has looked for these keys in a state.
fn reads_of(store: &Store, keys: impl Iterator<Item = Vec<u8>>, at: Lsn, me: &LocalParticipant) -> ReadSet {
    let mut reads = ReadSet::default();
    for key in keys {
        reads.note(
            &store.tree,
            b"",
            leaf_of(store, &key, at, me),
            Bound::Included(&key),
            Bound::Included(&key),
        );
    }
    reads
}

fn read_all(txn: &mut Transaction<'_>, store: &Store) {
    let mut scan = Scan::new(Bound::Unbounded, Bound::Excluded(key(1800)));
    while txn.next(&store.tree, &mut scan, true).unwrap().is_some() {}
}

#[test]
fn what_is_read_again_and_again_takes_no_memory() {
    let store = store(None);
    let mut reads = ReadSet::default();
    for n in 0..100_000 {
        let key = key(n % 50);
        reads.note(&store.tree, b"", PageId(7), Bound::Included(&key), Bound::Included(&key));
        reads.note(&store.tree, b"", PageId(8), Bound::Excluded(b"a"), Bound::Included(b"b"));
    }
    assert!(reads.spans() <= 20, "{} spans of two leaves", reads.spans());
    // A scan that is begun anew where it stands, in one leaf.
    let mut reads = ReadSet::default();
    for from in 0..10 {
        reads.note(&store.tree, b"", PageId(7), Bound::Excluded(&key(from)), Bound::Excluded(&key(50)));
    }
    assert_eq!(reads.spans(), 1);
    reads.note(&store.tree, b"", PageId(7), Bound::Excluded(&key(60)), Bound::Unbounded);
    reads.note(&store.tree, b"", PageId(7), Bound::Included(&key(0)), Bound::Excluded(&key(50)));
    assert_eq!(reads.spans(), 3, "what has no end, and what begins before, are more");
    // All that the leaf has is in one piece, whatever was read of it before and is after.
    reads.note_page(&store.tree, b"", PageId(7));
    for n in 0..50 {
        reads.note(&store.tree, b"", PageId(7), Bound::Included(&key(n)), Bound::Included(&key(n)));
    }
    reads.note_page(&store.tree, b"", PageId(9));
    assert_eq!((reads.spans(), reads.leaves()), (2, 2));
    let mut more = ReadSet::default();
    more.note(&store.tree, b"", PageId(9), Bound::Included(&key(1)), Bound::Included(&key(2)));
    more.absorb(&reads);
    assert_eq!((more.spans(), more.leaves()), (2, 2));
}

/// What is read of many leaves is validated before the commit step; what changes between the two must be
/// found all the same, and so must what changed before.
#[test]
fn a_change_of_what_was_read_is_a_conflict_however_much_was_read() {
    for volume in [None, Some(volume(5))] {
        let store = store(volume);
        for (changed, conflicts) in [(key(1), true), (key(600), true), (key(1799), true), (key(1801), false)]
        {
            let mut txn = store.begin(Isolation::Serializable, false);
            read_all(&mut txn, &store);
            txn.set(&store.tree, &key(1900), Some(b"sum")).unwrap();
            store.put(&changed, b"another").unwrap();
            match txn.commit(Durability::Memory) {
                Ok(_) => assert!(!conflicts, "{changed:?}"),
                Err(error) => assert!(conflicts && error.kind() == ErrorKind::Conflict, "{error}"),
            }
        }
        // Nothing has changed: whatever was evicted meanwhile.
        let mut txn = store.begin(Isolation::Serializable, false);
        read_all(&mut txn, &store);
        txn.set(&store.tree, &key(1900), Some(b"sum")).unwrap();
        txn.commit(Durability::Memory).unwrap();
    }
}

/// Of leaves that lie wholly in a scan it is noted that all of them was read, and no keys.
#[test]
fn what_a_scan_without_ends_has_read_is_compared_leaf_by_leaf() {
    for volume in [None, Some(volume(5))] {
        let store = store(volume);
        let read = |txn: &mut Transaction<'_>| {
            let mut scan = Scan::new(Bound::Unbounded, Bound::Unbounded);
            while txn.next(&store.tree, &mut scan, true).unwrap().is_some() {}
        };
        let long = [7; 400];
        type Changes<'c> = &'c [(u32, Option<&'c [u8]>)];
        let changes: [(Changes<'_>, bool); 7] = [
            (&[(0, Some(b"x"))], true),
            (&[(1001, Some(b"x"))], true),
            (&[(1998, None)], true),
            (&[(5000, Some(b"x"))], true),
            // There and back: the leaf is another version, or two leaves meanwhile.
            (&[(1000, Some(b"x")), (1000, Some(&[500u32 as u8; 30]))], false),
            (
                &[
                    (1003, Some(&long)),
                    (1005, Some(&long)),
                    (1007, Some(&long)),
                    (1003, None),
                    (1005, None),
                    (1007, None),
                ],
                false,
            ),
            (
                &[(1003, Some(&long)), (1005, Some(&long)), (1007, Some(&long)), (1003, None), (1005, None)],
                true,
            ),
        ];
        for (changes, conflicts) in changes {
            let mut txn = store.begin(Isolation::Serializable, false);
            read(&mut txn);
            txn.set(&store.tree, &key(4000), Some(b"sum")).unwrap();
            for &(n, value) in changes {
                match value {
                    Some(value) => store.put(&key(n), value).unwrap(),
                    None => drop(store.remove(&key(n)).unwrap()),
                }
            }
            match txn.commit(Durability::Memory) {
                Ok(_) => assert!(!conflicts, "{changes:?}"),
                Err(error) => assert!(conflicts && error.kind() == ErrorKind::Conflict, "{error}"),
            }
            // As it was.
            (0..1000).for_each(|n| store.put(&key(2 * n), &[n as u8; 30]).unwrap());
            for n in [1001, 1003, 1005, 1007, 4000, 5000] {
                store.remove(&key(n)).unwrap();
            }
        }
    }
}

#[test]
fn keys_of_one_leaf_that_were_read_apart_are_compared_apart_if_they_are_few() {
    let store = store(None);
    for (reads, conflicts) in [(3, false), (17, true)] {
        let mut txn = store.begin(Isolation::Serializable, false);
        let scattered = (0..reads).map(|n| format!("{:05}{n:02}", 4).into_bytes());
        // Beside one record, none of them there.
        [key(2), key(6)]
            .into_iter()
            .chain(scattered)
            .for_each(|key| txn.get(&store.tree, &key, |_| ()).unwrap());
        txn.set(&store.tree, &key(1900), Some(b"sum")).unwrap();
        store.put(&key(4), format!("{reads}").as_bytes()).unwrap();
        match txn.commit(Durability::Memory) {
            Ok(_) => assert!(!conflicts),
            Err(error) => assert!(conflicts && error.kind() == ErrorKind::Conflict, "{error}"),
        }
    }
}

/// A leaf that was read before its tree was built anew is no page of it any more, and never changes: whatever
/// has been compared since, and up to when.
#[test]
fn what_was_read_before_a_tree_was_built_anew_is_compared_again_after_it_was_validated_ahead() {
    const RECORDS: u32 = 5000;
    const APART: u32 = 50;
    let store = Store::with_catalog(128, 8, Some(volume(5)));
    (0..RECORDS).for_each(|n| store.put(&key(n), &[0; 40]).unwrap());
    let kernel = &store.kernel;
    let seat = kernel.pages.participants.sit().unwrap();
    let pinned = kernel.pages.pinned(&seat);
    let at = pinned.at();
    let mut reads = reads_of(&store, (0..RECORDS).step_by(APART as usize).map(key), at, &seat);

    let mut txn = store.begin(Isolation::ReadCommitted, false);
    (0..RECORDS)
        .filter(|n| n % APART != 0)
        .for_each(|n| txn.set(&store.tree, &key(n), Some(&[1; 40])).unwrap());
    txn.commit(Durability::Memory).unwrap();
    assert!(kernel.pages.region.header().rebuilt_since() > at, "the tree was built anew");

    let ahead = reads.validate_ahead(kernel, at, &seat).unwrap();
    reads.validate(kernel, at, &ahead, &seat).unwrap();
    store.put(&key(RECORDS / 2), b"another").unwrap();
    assert_eq!(reads.validate(kernel, at, &ahead, &seat).unwrap_err().kind(), ErrorKind::Conflict);
    drop(pinned);
}

/// Part of what was read may be in another leaf by the time it was validated ahead; the leaf it was read from
/// does not change when it does. Whether all that was published since is known, or so much was that it is
/// not.
#[test]
fn what_was_read_of_a_leaf_that_was_split_is_compared_again_after_it_was_validated_ahead() {
    for others in [0, 5000] {
        let store = store_of(8000, None);
        let kernel = &store.kernel;
        let seat = kernel.pages.participants.sit().unwrap();
        let pinned = kernel.pages.pinned(&seat);
        let at = pinned.at();
        let read: Vec<_> = (0..900).map(|n| key(2 * n)).collect();
        let mut reads = reads_of(&store, read.iter().cloned(), at, &seat);
        // None of this was read.
        (0..900).for_each(|n| store.put(&key(2 * n + 1), &[1; 40]).unwrap());
        let ahead = reads.validate_ahead(kernel, at, &seat).unwrap();
        reads.validate(kernel, at, &ahead, &seat).unwrap();
        (0..others).for_each(|n| store.put(&key(1990), &u64::to_le_bytes(n)).unwrap());
        assert_eq!(ahead.knows(), others == 0);
        reads.validate(kernel, at, &ahead, &seat).unwrap();
        let newest = store.seat();
        let newest = kernel.pages.pinned(&newest).at();
        let moved = read
            .iter()
            .find(|key| leaf_of(&store, key, at, &seat) != leaf_of(&store, key, newest, &seat))
            .expect("a leaf was split");
        store.put(moved, b"another").unwrap();
        assert_eq!(reads.validate(kernel, at, &ahead, &seat).unwrap_err().kind(), ErrorKind::Conflict);
        drop(pinned);
    }
}

/// Where nothing was published since the snapshot there is nothing to validate, as long as that stays so
/// until the commit step: what is published in between is found there, in leaves of which much was read in
/// turns, and in such as were read last. Where pages are evicted it is validated all the same.
#[test]
fn what_is_published_first_before_the_commit_step_is_found_there() {
    let looked = |store: &Rc<Store>, reads: &mut ReadSet, at: Lsn, me: &LocalParticipant| {
        let looks = Rc::new(Cell::new(0));
        let others = {
            let looks = Rc::clone(&looks);
            move || looks.set(looks.get() + 1)
        };
        crate::txn::commit::recent::beside(Rc::new(others), || {
            reads.validate_ahead(&store.kernel, at, me).unwrap();
        });
        looks.get()
    };
    for turns in [1, 3, 10] {
        for changed in [0, 899, 900] {
            let store = Rc::new(store(None));
            let kernel = &store.kernel;
            let seat = store.seat();
            let pinned = kernel.pages.pinned(&seat);
            let at = pinned.at();
            let read: Vec<_> = (0..turns).flat_map(|_| (0..900).map(|n| key(2 * n))).collect();
            let mut reads = reads_of(&store, read.into_iter(), at, &seat);
            assert_eq!(looked(&store, &mut reads, at, &seat), 0);
            let ahead = reads.validate_ahead(kernel, at, &seat).unwrap();
            reads.validate(kernel, at, &ahead, &seat).unwrap();
            store.put(&key(2 * changed), b"another").unwrap();
            let conflicts = changed < 900;
            assert_eq!(reads.validate(kernel, at, &ahead, &seat).is_err(), conflicts, "{turns}, {changed}");
            drop(pinned);
        }
    }
    let store = Rc::new(store(None));
    let kernel = &store.kernel;
    let seat = store.seat();
    let pinned = kernel.pages.pinned(&seat);
    let at = pinned.at();
    let mut reads = reads_of(&store, (0..900).map(|n| key(2 * n)), at, &seat);
    kernel.pages.region.header().pressure.0.store(1, Ordering::Relaxed);
    assert!(looked(&store, &mut reads, at, &seat) > 100);
    drop(pinned);
}

/// Others commit between any two looks of a transaction that validates: if it gets through, it has met no
/// change of what it has read.
#[test]
fn what_is_published_while_much_is_validated_is_found_whenever_it_is() {
    let mut looks_max = 0;
    for late in (0..200).step_by(9) {
        for conflicts in [false, true] {
            let store = Rc::new(store(None));
            let mut txn = store.begin(Isolation::Serializable, false);
            read_all(&mut txn, &store);
            txn.set(&store.tree, &key(1990), Some(b"sum")).unwrap();
            // Not read, either; or there is nothing to validate.
            store.put(&key(1991), b"before").unwrap();
            let looks = Rc::new(Cell::new(0));
            let others = {
                let (store, looks) = (Rc::clone(&store), Rc::clone(&looks));
                move || {
                    looks.set(looks.get() + 1);
                    if looks.get() == 1 + late {
                        // Nothing of this was read.
                        (0..90).for_each(|n| store.put(&key(1801 + 2 * n), &[1; 40]).unwrap());
                        if conflicts {
                            store.put(&key(8 * late), b"another").unwrap();
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
    assert!((33..190).contains(&looks_max), "{looks_max}");
}

/// A transaction that validates ahead waits for the commit role now and then, and helps its holder: the state
/// that it compares with is to be there still after that.
#[test]
fn the_state_that_is_compared_with_is_kept_while_the_commit_role_is_waited_for() {
    let store = Arc::new(store_of(600, Some(volume(5))));
    let kernel = &store.kernel;
    let seat = store.seat();
    let pinned = kernel.pages.pinned(&seat);
    let at = pinned.at();
    let mut reads = reads_of(&store, (0..900).map(|n| key(2 * n)), at, &seat);
    // Neither this nor anything to come was read, but it is in the last leaf that was.
    store.put(&key(1797), b"before").unwrap();
    let (looks, holder) = (Cell::new(0), Cell::new(None));
    let others = {
        let store = Arc::clone(&store);
        move || {
            looks.set(looks.get() + 1);
            if looks.get() == 1 {
                // What was there before it is of the state that is compared with, and of no other that
                // anybody has pinned.
                store.put(&key(1797), b"after").unwrap();
                // So much that it has to be said again that it is wanted.
                let (pages, log, seat) = (&store.kernel.pages, &store.kernel.log, store.seat());
                let mut record = RecordBuilder::new();
                record.begin(RecordKind::Filler);
                record.raw(&vec![0; log.record_bytes_max() / 2]);
                record.finish_body();
                let end = log.tail().0 + (9 << 20);
                while log.tail().0 < end {
                    publish::publish(
                        pages,
                        log,
                        ChangedPages::new(pages, &seat, Lsn(0)),
                        &mut record,
                        |_| Ok(()),
                    )
                    .unwrap();
                }
                drop(seat);
                let (has, had) = std::sync::mpsc::channel();
                let store = Arc::clone(&store);
                holder.set(Some(std::thread::spawn(move || {
                    let seat = store.seat();
                    let held = store.kernel.pages.region.role(Work::Commit).try_take(seat.number()).unwrap();
                    has.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(500));
                    drop(held);
                })));
                had.recv().unwrap();
            } else if let Some(holder) = holder.take() {
                holder.join().unwrap();
                store.kernel.pages.sweep_all(&store.seat());
            }
        }
    };
    crate::txn::commit::recent::beside(Rc::new(others), || {
        let ahead = reads.validate_ahead(kernel, at, &seat).unwrap();
        reads.validate(kernel, at, &ahead, &seat).unwrap();
    });
    drop(pinned);
}

/// What others commit right after what they had published was taken is no part of that, nor of the state up
/// to which it is validated then: it is found, also if so much comes after it that what was published is not
/// known any more.
#[test]
fn what_is_published_right_after_what_was_published_has_been_taken_is_found() {
    let store = Rc::new(store_of(8000, None));
    let kernel = &store.kernel;
    let seat = store.seat();
    let pinned = kernel.pages.pinned(&seat);
    let at = pinned.at();
    let mut reads = reads_of(&store, (0..900).map(|n| key(2 * n)), at, &seat);
    // Not read; or there is nothing to validate.
    store.put(&key(1991), b"before").unwrap();
    let calls = Cell::new(0);
    let (others, leaves) = (Rc::clone(&store), reads.leaves());
    let others = move || {
        calls.set(calls.get() + 1);
        if calls.get() == 1 {
            // Not read itself, but in a leaf of which something was, so that it is not over with one look at
            // each.
            others.put(&key(1), b"beside").unwrap();
        } else if calls.get() == leaves + 1 {
            others.put(&key(1000), b"another").unwrap();
            (0..5000u32).for_each(|n| others.put(&key(1990), &n.to_le_bytes()).unwrap());
        }
    };
    crate::txn::commit::recent::beside(Rc::new(others), || {
        let ahead = reads.validate_ahead(kernel, at, &seat).unwrap();
        assert!(!ahead.knows());
        assert_eq!(reads.validate(kernel, at, &ahead, &seat).unwrap_err().kind(), ErrorKind::Conflict);
    });
    drop(pinned);
}

/// A transaction that asks whether a leaf has changed may be stopped between its looks, while the leaf's
/// frame is used for another page and then for the leaf again.
#[test]
fn a_leaf_that_was_read_into_the_frame_that_it_had_is_not_taken_for_the_page_that_was_there_in_between() {
    let store = store(Some(volume(5)));
    let (pages, seat, asker) = (&store.kernel.pages, store.seat(), store.seat());
    let tree = store.tree.tree();
    let leaf = |n| tree.find(&pages.snapshot(&seat), tree.sought(&key(n))).unwrap();
    let (changed, other, same) = (leaf(0), leaf(1000), leaf(1998));
    let since = pages.pinned(&asker).at();
    store.put(&key(0), b"another").unwrap();
    // Its snapshot was given up: what was there before the change is not kept.
    let _newest = pages.guarded(&asker);
    // Again and again, or in the first look alone.
    for (asked, times, answer) in [(changed, 100, false), (changed, 1, false), (same, 1, true)] {
        for from in 0..4 {
            for to in from + 1..4 {
                pages.sweep_all(&seat);
                let frame = FrameId(7);
                pages.read_into(frame, asked, &seat);
                let mut look = 0;
                let found = pages.is_unchanged_beside(asked, since, || {
                    let stage = look % 4;
                    if look < 4 * times && stage == from {
                        pages.read_into(frame, other, &seat);
                    } else if look < 4 * times && stage == to {
                        pages.read_into(frame, asked, &seat);
                    }
                    look += 1;
                });
                assert_eq!(found, answer, "{asked:?}, {times} times, between {from} and {to}");
            }
        }
        assert_eq!(pages.is_unchanged_since(asked, since), asked == same);
    }
}

/// Ways down to subtrees take no memory either, however often what is read of two of them is read in turns.
#[test]
fn what_is_read_of_subtrees_in_turns_takes_no_memory() {
    let store = store(None);
    let mut reads = ReadSet::default();
    for n in 0..100_000u32 {
        let (key, stems) = (key(n % 50), [n as u8 % 2; 48]);
        reads.note(&store.tree, &stems, PageId(7 + n % 2), Bound::Included(&key), Bound::Included(&key));
    }
    assert_eq!(reads.leaves(), 2);
    assert!(reads.stem_bytes() <= 1000, "{} bytes of stems for two leaves", reads.stem_bytes());
}

/// Few leaves are left to the commit step, however often they were read in turns: nobody waits for the commit
/// role for them alone.
#[test]
fn few_leaves_that_were_read_in_turns_are_not_validated_ahead() {
    for turns in [1, 10, 20, 100] {
        let store = Rc::new(store(None));
        let kernel = &store.kernel;
        let seat = store.seat();
        let pinned = kernel.pages.pinned(&seat);
        let at = pinned.at();
        let read: Vec<_> = (0..turns).flat_map(|_| [key(0), key(1000)]).collect();
        let mut reads = reads_of(&store, read.into_iter(), at, &seat);
        store.put(&key(1991), b"not read").unwrap();
        let looks = Rc::new(Cell::new(0));
        let others = {
            let looks = Rc::clone(&looks);
            move || looks.set(looks.get() + 1)
        };
        crate::txn::commit::recent::beside(Rc::new(others), || {
            reads.validate_ahead(kernel, at, &seat).unwrap();
        });
        assert_eq!((looks.get(), reads.leaves()), (0, 2), "{turns} turns");
        drop(pinned);
    }
}

/// What was read often in turns, and has changed beside what was read, is compared once for each leaf in the
/// commit step, where everybody waits.
#[test]
fn what_was_read_in_turns_is_compared_once_in_the_commit_step() {
    let store = store(None);
    let kernel = &store.kernel;
    let seat = store.seat();
    let pinned = kernel.pages.pinned(&seat);
    let at = pinned.at();
    let read: Vec<_> = (0..2000).flat_map(|_| [key(0), key(1000)]).collect();
    let mut reads = reads_of(&store, read.into_iter(), at, &seat);
    let ahead = reads.validate_ahead(kernel, at, &seat).unwrap();
    store.put(&key(1), b"beside").unwrap();
    store.put(&key(1001), b"beside").unwrap();
    let compared = reads.compared();
    reads.validate(kernel, at, &ahead, &seat).unwrap();
    assert!(reads.compared() - compared <= 2, "{} leaves compared", reads.compared() - compared);
    drop(pinned);
}

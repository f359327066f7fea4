//! Transactions that change more pages than the cache has room for.

use std::collections::BTreeMap;
use std::ops::Bound;

use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::Fault;

use super::*;
use crate::access::ScannedValue;
use crate::access::btree::node;
use crate::error::ErrorKind;
use crate::pages::header;
use crate::txn::catalog::Comparator;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::pending::write_set::WriteSet;
use crate::txn::trees::apply::WriteCheck;

const FRAMES: usize = 128;
const RECORDS: u64 = 5000;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Records in some ten times as many leaves as there are frames.
fn store() -> Store {
    let store = Store::new(FRAMES, 6, Some(volume(1)));
    (0..RECORDS).for_each(|n| store.put(&key(n), &[0; 40]).unwrap());
    store
}

impl Store {
    fn set(&self, txn: &mut Transaction<'_>, n: u64, value: Option<&[u8]>) {
        txn.set(&self.tree, &key(n), value).unwrap();
    }

    fn seen(&self, txn: &mut Transaction<'_>, n: u64) -> Option<Vec<u8>> {
        txn.get(&self.tree, &key(n), |value| value.map(<[u8]>::to_vec)).unwrap()
    }
}

/// Records in some ten times as many leaves as there are frames, in a tree that can be built anew.
fn roomy(frames: usize) -> Store {
    let store = Store::with_catalog(frames, 8, Some(volume(1)));
    (0..RECORDS).for_each(|n| store.put(&key(n), &[0; 40]).unwrap());
    store
}

#[test]
fn a_transaction_of_more_pages_than_frames_commits_and_leaves_everybody_their_snapshot() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let store = roomy(64);
        let mut reader = store.begin(Isolation::Snapshot, true);
        assert_eq!(store.seen(&mut reader, 7), Some(vec![0; 40]));
        let mut txn = store.begin(isolation, false);
        assert_eq!(store.seen(&mut txn, 7), Some(vec![0; 40]));
        (0..RECORDS).for_each(|n| store.set(&mut txn, n, Some(&[1; 40])));
        txn.commit(Durability::Memory).unwrap();
        (0..RECORDS).for_each(|n| assert_eq!(store.get(&key(n)), Some(vec![1; 40]), "record {n}"));
        (0..RECORDS)
            .for_each(|n| assert_eq!(store.seen(&mut reader, n), Some(vec![0; 40]), "record {n} as it was"));
        drop((reader, txn));
        store.kernel.free_pages_later();
        store.assert_nothing_leaks();
    }
}

/// Has write sets keep so many bytes in memory.
fn spilling(disk: &SimDisk, bytes_max: usize) -> SpillSettings {
    SpillSettings { disk: Arc::new(disk.clone()), directory: "".into(), bytes_max, cipher: None }
}

/// A store of few frames, and a place for large write sets.
fn spilling_store(slots: u16, seed: u64, spill: Option<SpillSettings>) -> Store {
    let region = Region::shareable(geometry(96, slots)).expect("memory");
    Store::over(spilling_kernel(region, Some(volume(seed)), spill)).and_catalog()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of all lengths, some of which share stems.
fn any_key(dice: &mut Dice) -> Vec<u8> {
    let n = dice.below(1500);
    let mut key = n.to_be_bytes()[6..].to_vec();
    if n.is_multiple_of(5) {
        // Nested: a few that share a stem, and some of more than one.
        key.splice(0..0, vec![b's'; 100 + n as usize % 3 * 100]);
    }
    key
}

fn any_value(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.below(50) {
        0 => 20 * 448,
        1..4 => 300 + dice.below(2000),
        _ => dice.below(60),
    };
    vec![dice.below(256) as u8; len as usize]
}

/// Everything that a transaction sees, from one end or the other.
fn all(txn: &mut Transaction<'_>, tree: &TreeRef, forward: bool) -> Records {
    let mut scan = Scan::new(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut found: Records = std::iter::from_fn(|| txn.next(tree, &mut scan, forward).unwrap()).collect();
    if !forward {
        found.reverse();
    }
    found
}

/// Transactions of all sizes against a map, with snapshots that are kept and checkpoints in between; some of
/// them with room for few changes in memory.
#[test]
fn transactions_of_any_size_do_what_they_do_to_a_map() {
    for seed in 1..7 {
        let disk = SimDisk::new(seed);
        let spill = (seed > 2).then(|| spilling(&disk, 5000 << (seed - 2)));
        let store = spilling_store(16, seed, spill);
        let mut dice = Dice(seed);
        let mut model = Model::new();
        let mut snapshots: Vec<(Transaction<'_>, Model)> = Vec::new();
        for _ in 0..15 {
            let isolation = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable]
                [dice.below(3) as usize];
            let mut txn = store.begin(isolation, false);
            let mut after = model.clone();
            let (most, removals) =
                ([5, 200, 1500][dice.below(3) as usize], [1, 5, 9][dice.below(3) as usize]);
            let mut savepoint = None;
            for _ in 0..most {
                match dice.below(400) {
                    0 => savepoint = Some((txn.position(), after.clone())),
                    1 if savepoint.is_some() => {
                        let (position, then) = savepoint.clone().unwrap();
                        txn.roll_back_to(position).unwrap();
                        after = then;
                    }
                    2 => assert!(
                        all(&mut txn, &store.tree, dice.below(2) == 0)
                            == after.clone().into_iter().collect::<Records>()
                    ),
                    _ => {}
                }
                let key = any_key(&mut dice);
                if dice.below(8) == 0 {
                    assert_eq!(
                        txn.get_owned(&store.tree, &key).unwrap().as_ref(),
                        after.get(&key),
                        "seed {seed}"
                    );
                }
                let value = (dice.below(10) >= removals).then(|| any_value(&mut dice));
                txn.set(&store.tree, &key, value.as_deref()).unwrap();
                match value {
                    Some(value) => after.insert(key, value),
                    None => after.remove(&key),
                };
            }
            if dice.below(5) > 0 {
                txn.commit(Durability::Memory).unwrap();
                model = after;
            }
            drop(txn);
            let records: Records = model.clone().into_iter().collect();
            assert!(store.verified().0 == records, "seed {seed}");
            match dice.below(4) {
                0 => _ = store.checkpoint().unwrap(),
                1 => snapshots.push((store.begin(Isolation::Snapshot, true), model.clone())),
                2 if !snapshots.is_empty() => {
                    let (snapshot, then) = snapshots.swap_remove(dice.below(snapshots.len() as u64) as usize);
                    let mut scan = Scan::new(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
                    let mut found = Model::new();
                    while let Some((key, value)) = snapshot.next(&store.tree, &mut scan, true).unwrap() {
                        found.insert(key, value);
                    }
                    assert!(found == then, "seed {seed}: a snapshot is as it was");
                }
                _ => {
                    snapshots.clear();
                    store.kernel.free_pages_later();
                    store.assert_nothing_leaks();
                }
            }
        }
        snapshots.clear();
        store.kernel.free_pages_later();
        store.assert_nothing_leaks();
        assert_eq!(
            sablecat_os::disk::Disk::list(&disk, Path::new("")).unwrap(),
            [""; 0],
            "files have no names"
        );
    }
}

/// What went to a file is found there, undone, and found to be nothing, however often runs were merged; in a
/// user's order as well.
#[test]
fn a_write_set_that_does_not_fit_memory_is_one_like_any_other() {
    let backwards = Comparator::new("backwards", |a, b| b.cmp(a));
    let disk = SimDisk::new(1);
    for comparator in [None, Some(Arc::new(backwards))] {
        let place = spilling(&disk, 2000);
        let tree = catalog::catalog_tree().with(|tree| (tree.id, tree.comparator) = (TreeId(20), comparator));
        let forward = tree.comparator.is_none();
        let compare = |a: &[u8], b: &[u8]| if forward { a.cmp(b) } else { b.cmp(a) };
        let (mut set, mut model, mut dice) = (WriteSet::default(), BTreeMap::new(), Dice(7));
        let mut marks = Vec::new();
        for n in 0..6000 {
            let key = dice.below(700).to_be_bytes().to_vec();
            let value = (dice.below(4) > 0).then(|| vec![n as u8; dice.below(90) as usize]);
            set.set(&tree, &key, value.as_deref()).unwrap();
            set.make_room(tree.id, &place).unwrap();
            model.insert(key, value);
            if n % 500 == 250 {
                marks.push((set.savepoint(), model.clone()));
            }
            if n % 1500 == 1499 {
                let (mark, then) = marks.swap_remove(dice.below(marks.len() as u64) as usize);
                set.roll_back_to(mark).unwrap();
                model = then;
                marks.clear();
            }
            let records = set.records(tree.id).unwrap();
            let key = dice.below(700).to_be_bytes();
            let found = records.get(&key).unwrap().map(|pending| pending.as_deref().map(<[u8]>::to_vec));
            assert_eq!(found.as_ref(), model.get(&key[..]), "change {n}");
            let (low, high) = (dice.below(700).to_be_bytes(), dice.below(700).to_be_bytes());
            let (low, high) = if compare(&low, &high).is_lt() { (low, high) } else { (high, low) };
            let within = |key: &[u8]| compare(&low, key).is_lt() && compare(key, &high).is_lt();
            let mut between =
                model.iter().filter(|(key, _)| within(key)).map(|(key, value)| (key.clone(), value.clone()));
            let (least, greatest) = (between.next(), between.next_back());
            let ends = [least.clone(), greatest.or(least)];
            let edge = |forward| {
                records
                    .edge(std::ops::Bound::Excluded(&low[..]), std::ops::Bound::Excluded(&high[..]), forward)
                    .unwrap()
            };
            assert_eq!([edge(forward), edge(!forward)], ends, "change {n}");
        }
        assert!(set.is_spilled());
        let mut expected: Vec<_> = model.into_iter().collect();
        if !forward {
            expected.reverse();
        }
        for from in [0, 1, 300, expected.len() - 1] {
            let records = set.records(tree.id).unwrap();
            let mut left = records.after(from.checked_sub(1).map(|last| &expected[last].0[..])).unwrap();
            for (key, value) in &expected[from..] {
                let (found, pending) = left.next().unwrap().unwrap();
                assert_eq!((&found[..], pending.as_deref()), (&key[..], value.as_deref()));
            }
            assert!(left.next().unwrap().is_none());
        }
    }
}

#[test]
fn a_range_that_is_removed_leaves_nothing_noted_of_what_comes_after() {
    let store = spilling_store(16, 1, Some(spilling(&SimDisk::new(1), 2000)));
    let mut txn = store.begin(Isolation::Snapshot, false);
    let key = |n: u32| n.to_be_bytes();
    (0..500).for_each(|n| txn.set(&store.tree, &key(n), Some(&[7; 30])).unwrap());
    assert!(txn.writes.is_spilled());
    let span = (Bound::Included(key(10).to_vec()), Bound::Excluded(key(20).to_vec()));
    assert_eq!(txn.remove_range(&store.tree, span.clone()).unwrap(), 10);
    assert!(!txn.writes.is_journaled());
    // One that was asked for is still good.
    let before = txn.position();
    let span = (span.0, Bound::Unbounded);
    assert_eq!(txn.remove_range(&store.tree, span).unwrap(), 480);
    txn.roll_back_to(before).unwrap();
    assert!(txn.get_owned(&store.tree, &key(400)).unwrap().is_some());
    assert!(txn.get_owned(&store.tree, &key(15)).unwrap().is_none());
}

/// Processes of one number in different namespaces, and ones that are killed as they make a file.
#[test]
fn a_name_that_another_has_or_takes_away_does_no_harm_to_a_large_transaction() {
    let disk = SimDisk::new(1);
    let place = spilling(&disk, 2000);
    let tree = catalog::catalog_tree().with(|tree| tree.id = TreeId(20));
    let (mut one, mut other) = (WriteSet::default(), WriteSet::default());
    let named = disk.open(Path::new("sablecat.spill"), How { create_new: true, ..How::default() }).unwrap();
    for n in 0..300 {
        for (set, value) in [(&mut one, 1), (&mut other, 2)] {
            set.make_room(tree.id, &place).unwrap();
            set.set(&tree, &key(n), Some(&[value; 40])).unwrap();
        }
    }
    named.write_at(b"another's", 0).unwrap();
    assert!(one.is_spilled() && other.is_spilled());
    assert_eq!(disk.list(Path::new("")).unwrap(), [""; 0]);
    place.remove_name().unwrap();
    for (set, value) in [(&one, 1), (&other, 2)] {
        let said = |n| {
            set.records(tree.id)
                .unwrap()
                .get(&key(n))
                .unwrap()
                .map(|pending| pending.as_deref().map(<[u8]>::to_vec))
        };
        (0..300).for_each(|n| assert_eq!(said(n), Some(Some(vec![value; 40])), "record {n}"));
    }
}

/// Names come and go between any two calls of a transaction that makes files.
#[test]
fn many_that_make_files_for_large_transactions_at_once_have_one_each() {
    let disk = SimDisk::new(1);
    let tree = catalog::catalog_tree().with(|tree| tree.id = TreeId(20));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (place, tree) = (spilling(&disk, 2000), &tree);
            scope.spawn(move || {
                let mut set = WriteSet::default();
                for n in 0..1000 {
                    set.make_room(tree.id, &place).unwrap();
                    set.set(tree, &key(n), Some(&[thread; 40])).unwrap();
                }
                let records = set.records(tree.id).unwrap();
                for n in 0..1000 {
                    assert_eq!(
                        records.get(&key(n)).unwrap().map(|pending| pending.as_deref().map(<[u8]>::to_vec)),
                        Some(Some(vec![thread; 40]))
                    );
                }
            });
        }
    });
    assert_eq!(disk.list(Path::new("")).unwrap(), [""; 0]);
}

/// The disk fails when records are set, at any of its calls; and when they are set again it does not.
#[test]
fn a_record_whose_predecessors_could_not_be_moved_to_a_file_has_not_been_set() {
    let fault = Fault::Error(std::io::ErrorKind::StorageFull);
    for call in 0.. {
        let disk = SimDisk::new(1);
        let store = spilling_store(8, 1, Some(spilling(&disk, 2000)));
        let mut txn = store.begin(Isolation::Snapshot, false);
        disk.fail_at(call, fault);
        let (mut model, mut refused) = (BTreeMap::new(), 0);
        for n in 0..300 {
            let (n, value) = (n % 170, [n as u8; 40]);
            if let Err(error) = txn.set(&store.tree, &key(n), Some(&value)) {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                refused += 1;
                assert_eq!(
                    store.seen(&mut txn, n).as_deref(),
                    model.get(&n).map(|value: &[u8; 40]| &value[..]),
                    "call {call}, record {n}"
                );
                store.set(&mut txn, n, Some(&value));
            }
            model.insert(n, value);
        }
        disk.clear_faults();
        (0..170).for_each(|n| {
            assert_eq!(store.seen(&mut txn, n).as_deref(), Some(&model[&n][..]), "call {call}, record {n}")
        });
        txn.commit(Durability::Memory).unwrap();
        (0..170).for_each(|n| {
            assert_eq!(store.get(&key(n)).as_deref(), Some(&model[&n][..]), "call {call}, record {n}")
        });
        drop(txn);
        store.assert_nothing_leaks();
        if refused == 0 {
            assert!(call > 20, "only {call} calls");
            return;
        }
    }
}

#[test]
fn a_record_of_which_the_file_cannot_say_what_was_pending_has_not_been_set() {
    let disk = SimDisk::new(3);
    let store = spilling_store(16, 3, Some(spilling(&disk, 4000)));
    let mut txn = store.begin(Isolation::Snapshot, false);
    let position = txn.position();
    (0..300).for_each(|n| store.set(&mut txn, n, Some(&[1; 40])));
    let (later, mut refused) = (txn.position(), 0);
    for n in 0..300 {
        // The next call: a read, or the write of what moves out of memory.
        disk.fail_at(disk.calls() + 1, Fault::Error(std::io::ErrorKind::Other));
        let outcome = txn.set(&store.tree, &key(n), Some(&[2; 40]));
        disk.clear_faults();
        refused += u32::from(outcome.is_err());
        let expected = if outcome.is_err() { [1; 40] } else { [2; 40] };
        assert_eq!(store.seen(&mut txn, n).as_deref(), Some(&expected[..]), "record {n}");
    }
    assert!(refused > 20, "{refused} refused");
    txn.roll_back_to(later).unwrap();
    (0..300).for_each(|n| assert_eq!(store.seen(&mut txn, n).as_deref(), Some(&[1; 40][..]), "record {n}"));
    txn.roll_back_to(position).unwrap();
    (0..300).for_each(|n| assert_eq!(store.seen(&mut txn, n), None, "record {n}"));
    drop(txn);
    store.assert_nothing_leaks();
}

#[test]
fn a_large_commit_needs_no_seat_but_its_own() {
    let store = roomy(64);
    let mut txn = store.begin(Isolation::Snapshot, false);
    (0..RECORDS).for_each(|n| store.set(&mut txn, n, Some(&[1; 40])));
    let seats: Vec<_> = std::iter::from_fn(|| store.kernel.pages.participants.sit().ok()).collect();
    assert_eq!(seats.len(), 6, "all that there are");
    txn.commit(Durability::Memory).unwrap();
    drop(txn);
    // What was replaced is free already.
    drop(seats);
    (0..RECORDS).for_each(|n| assert_eq!(store.get(&key(n)), Some(vec![1; 40]), "record {n}"));
    store.assert_nothing_leaks();
}

/// A leaf that was remembered looks as good as ever.
#[test]
fn who_has_found_a_leaf_before_it_was_replaced_finds_it_no_more() {
    let store = roomy(128);
    let large = |value: u8| {
        let mut txn = store.begin(Isolation::ReadCommitted, false);
        (0..RECORDS).for_each(|n| store.set(&mut txn, n, Some(&[value; 40])));
        txn
    };
    // Others keep what is replaced from being freed.
    let reader = store.begin(Isolation::Snapshot, true);
    let mut single = store.begin(Isolation::Snapshot, false);
    let mut validated = store.begin(Isolation::Serializable, false);
    let mut unrelated = store.begin(Isolation::Serializable, false);
    assert_eq!(store.get(&key(7)), Some(vec![0; 40]));
    assert_eq!(store.seen(&mut validated, 7), Some(vec![0; 40]));
    assert_eq!(store.seen(&mut unrelated, RECORDS + 7), None);
    large(1).commit(Durability::Memory).unwrap();
    assert_eq!(store.get(&key(7)), Some(vec![1; 40]), "read where it is now");
    store.put(&key(8), &[2; 40]).unwrap();
    assert_eq!(store.get(&key(8)), Some(vec![2; 40]), "written where it is now");

    store.set(&mut single, 9, Some(&[3; 40]));
    assert_eq!(
        single.commit(Durability::Memory).unwrap_err().kind(),
        ErrorKind::Conflict,
        "the first committer wins"
    );
    store.set(&mut validated, RECORDS + 1, Some(&[3; 40]));
    assert_eq!(
        validated.commit(Durability::Memory).unwrap_err().kind(),
        ErrorKind::Conflict,
        "what it has read was changed"
    );
    store.set(&mut unrelated, RECORDS + 2, Some(&[3; 40]));
    unrelated.commit(Durability::Memory).unwrap();
    assert_eq!(store.get(&key(RECORDS + 2)), Some(vec![3; 40]));
    drop((reader, single, validated, unrelated));
    store.kernel.free_pages_later();
    store.assert_nothing_leaks();
}

/// A page that is built beside a tree may have the number of a leaf that was merged away, and that somebody
/// idle remembers.
#[test]
fn nobody_takes_a_page_being_built_for_the_leaf_that_had_its_number() {
    let store = roomy(128);
    let kernel = &store.kernel;
    let idle: Vec<_> = (0..5).map(|_| kernel.pages.participants.sit().unwrap()).collect();
    let tree = store.tree.tree();
    let mut remembered = Vec::new();
    for (n, seat) in (0..).zip(&idle) {
        let pinned = kernel.pages.pinned(seat);
        remembered.push(kernel.locate(&tree, tree.sought(&key(1000 + 8 * n)), pinned.at(), seat).unwrap());
    }
    (900..1200).for_each(|n| assert!(store.remove(&key(n)).unwrap()));
    // What is merged away leaves the cache, and its number is given to others.
    (0..RECORDS).for_each(|n| drop(store.get(&key(n))));

    let seat = kernel.pages.participants.sit().unwrap();
    let mut writes = WriteSet::default();
    (0..RECORDS)
        .filter(|n| !(900..1200).contains(n))
        .for_each(|n| writes.set(&store.tree, &key(n), Some(&[1; 40])).unwrap());
    let large = kernel.store_all_large(&seat, &writes).unwrap();
    let mut record = crate::log::RecordBuilder::new();
    let chain = kernel.write_record(&writes, &mut record, &seat).unwrap();
    let looked = std::cell::Cell::new(0);
    let look = |_: &mut ChangedPages<'_>| {
        for (&page, idle) in remembered.iter().zip(&idle) {
            let first = kernel.pages.operate(idle, || {
                let mut snapshot = kernel.pages.snapshot(idle);
                let bytes = snapshot.page(page)?;
                let is_leaf =
                    header::tree_id(bytes) == tree.id && node::kind(bytes) == Some(node::NodeKind::Leaf);
                Ok(is_leaf.then(|| node::Leaf::new(bytes).lower_fence().map(<[u8]>::to_vec)).flatten())
            });
            let Ok(Some(first)) = first else { continue };
            let Ok(first) = <[u8; 8]>::try_from(&first[..]) else { continue };
            let read = || {
                kernel.look_up(&mut kernel.pages.snapshot(idle), &tree, tree.sought(&first), |value| {
                    value.map(ScannedValue::from)
                })
            };
            let value = kernel.pages.operate(idle, read).unwrap();
            // A leaf may begin where a record was that has been removed.
            let is_removed = (900..1200).any(|n| key(n)[..] == first);
            let committed = (!is_removed).then(|| ScannedValue::Bytes(vec![0; 40]));
            assert!(value == committed, "what is not committed is seen by nobody");
            looked.set(looked.get() + 1);
        }
        Ok(())
    };
    let check = WriteCheck::of(Isolation::ReadCommitted, (Lsn(0), 0), &seat);
    kernel.commit_beside(&seat, (&writes, large), check, &mut record, look).map(drop).unwrap();
    drop(chain);
    assert!(looked.get() > 0, "no number was given to another page");
}

/// The first committer wins, and reads are validated, whether or not a commit goes beside the tree.
#[test]
fn a_large_commit_meets_the_conflicts_of_any_other() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let store = roomy(128);
        for in_the_way in [false, true] {
            let mut txn = store.begin(isolation, false);
            assert_eq!(store.seen(&mut txn, 7).map(|value| value.len()), Some(40));
            (100..RECORDS).for_each(|n| store.set(&mut txn, n, Some(&[1; 40])));
            // In a leaf that the transaction changes, and in one that it has read, and otherwise beside all
            // that.
            store
                .put(
                    &key(if isolation == Isolation::Snapshot { 101 } else { 7 }),
                    &[2 + u8::from(in_the_way); 40],
                )
                .unwrap();
            if !in_the_way {
                txn.restart();
                assert_eq!(store.seen(&mut txn, 7).map(|value| value.len()), Some(40));
                (100..RECORDS).for_each(|n| store.set(&mut txn, n, Some(&[1; 40])));
                store.put(&key(20), &[3; 40]).unwrap();
            }
            let done = txn.commit(Durability::Memory);
            assert_eq!(done.err().map(|error| error.kind()), in_the_way.then_some(ErrorKind::Conflict));
            drop(txn);
            assert_eq!(store.get(&key(20)), Some(vec![3; 40]));
        }
        store.kernel.free_pages_later();
        store.assert_nothing_leaks();
    }
}

/// Everybody at once: transfers between records by small commits, by large ones, readers that add up, and
/// checkpoints.
#[test]
fn large_commits_among_small_ones_lose_nothing() {
    const ACCOUNTS: u64 = 2000;
    for seed in 1..4u64 {
        let store = Store::with_catalog(160, 16, Some(volume(seed)));
        (0..ACCOUNTS).for_each(|n| store.put(&key(n), &100u64.to_le_bytes().repeat(5)).unwrap());
        let balance =
            |value: Option<Vec<u8>>| u64::from_le_bytes(value.expect("an account")[..8].try_into().unwrap());
        let working = std::sync::atomic::AtomicU64::new(3);
        std::thread::scope(|scope| {
            let (store, working) = (&store, &working);
            let run = move |work: &dyn Fn(&mut Transaction<'_>) -> Result<()>| loop {
                let mut txn = store.begin(Isolation::Serializable, false);
                match work(&mut txn).and_then(|()| txn.commit(Durability::Memory)) {
                    Ok(_) => return,
                    Err(error) => assert!(error.is_retryable() || error.is_full(), "{error}"),
                }
            };
            for own in 0..3u64 {
                scope.spawn(move || {
                    let mut dice = Dice(seed * 7 + own + 1);
                    for _ in 0..if own == 0 { 3 } else { 60 } {
                        let (from, to) = (dice.below(ACCOUNTS), dice.below(ACCOUNTS));
                        run(&|txn| {
                            // The large one moves one from each account to the next, all the way round.
                            let pairs = if own == 0 {
                                (0..ACCOUNTS).map(|n| (n, (n + 1) % ACCOUNTS)).collect()
                            } else {
                                vec![(from, to)]
                            };
                            for (from, to) in pairs {
                                for (n, difference) in [(from, u64::MAX), (to, 1)] {
                                    let now = balance(
                                        txn.get(&store.tree, &key(n), |value| value.map(<[u8]>::to_vec))?,
                                    );
                                    store.set(
                                        txn,
                                        n,
                                        Some(&now.wrapping_add(difference).to_le_bytes().repeat(5)),
                                    );
                                }
                            }
                            Ok(())
                        });
                    }
                    working.fetch_sub(1, std::sync::atomic::Ordering::AcqRel);
                });
            }
            scope.spawn(move || {
                while working.load(std::sync::atomic::Ordering::Acquire) > 0 {
                    let mut reader = store.begin(Isolation::Snapshot, true);
                    let all = |reader: &mut Transaction<'_>| -> Result<u64> {
                        (0..ACCOUNTS)
                            .map(|n| {
                                reader.get(&store.tree, &key(n), |value| balance(value.map(<[u8]>::to_vec)))
                            })
                            .try_fold(0u64, |sum, one| Ok(sum.wrapping_add(one?)))
                    };
                    match all(&mut reader) {
                        Ok(sum) => assert_eq!(sum, 100 * ACCOUNTS),
                        Err(error) => {
                            assert!(error.kind() == ErrorKind::SnapshotTooOld || error.is_full(), "{error}")
                        }
                    }
                }
            });
            while working.load(std::sync::atomic::Ordering::Acquire) > 0 {
                store.checkpoint().unwrap();
                store.kernel.free_pages_later();
            }
        });
        let sum = (0..ACCOUNTS).fold(0u64, |sum, n| sum.wrapping_add(balance(store.get(&key(n)))));
        assert_eq!(sum, 100 * ACCOUNTS);
        store.kernel.free_pages_later();
        store.assert_nothing_leaks();
    }
}

#[test]
fn a_transaction_that_cannot_fit_is_refused_and_takes_no_snapshot_from_anybody() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let store = store();
        let mut reader = store.begin(Isolation::Snapshot, true);
        let seen = |reader: &mut Transaction<'_>| {
            reader.get(&store.tree, &key(7), |value| value.map(<[u8]>::to_vec)).unwrap()
        };
        assert_eq!(seen(&mut reader), Some(vec![0; 40]));
        let mut txn = store.begin(isolation, false);
        assert!(txn.get(&store.tree, &key(1), |value| value.is_some()).unwrap());
        (0..RECORDS).for_each(|n| txn.set(&store.tree, &key(n), Some(&[1; 40])).unwrap());
        let error = txn.commit(Durability::Memory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CacheFull, "{isolation:?}: {error}");
        assert!(!error.is_retryable() && error.to_string().contains("the transaction needs"), "{error}");
        drop(txn);
        assert_eq!(seen(&mut reader), Some(vec![0; 40]), "others keep their snapshots");
        drop(reader);
        assert_eq!(store.get(&key(RECORDS - 1)), Some(vec![0; 40]));
        store.assert_nothing_leaks();
    }
}

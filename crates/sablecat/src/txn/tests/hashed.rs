//! Hash tables: against a map, in all ways in which records change, and in pages that hold few.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::*;
use crate::access::{Hashing, Seed};
use crate::access::{Method, PageRead, Tree};
use crate::error::ErrorKind;
use crate::txn::catalog::Comparator;

/// Keys at least as long are nested.
const STEM: usize = crate::access::btree::node::key_bytes_max(512);

fn hashing(seed: u8) -> Hashing {
    Hashing::new(Seed::of([seed; 16]), 512)
}

impl Store {
    /// A region with an empty hash table, whose root is page 1.
    fn hashed(frames: usize, seed: u8, volume: Option<Volume>) -> Store {
        Store::new(frames, 4, volume).made_hashed(seed)
    }

    /// With a hash table in the place of its empty tree.
    pub(super) fn made_hashed(self, seed: u8) -> Store {
        let store = self;
        let comparator = Some(Arc::new(Comparator::by_hash(hashing(seed))));
        let tree = store.tree.with(|tree| (tree.method, tree.comparator) = (Method::Hash, comparator));
        store.in_place(|direct| tree.tree().format(direct.write(tree.root).unwrap()));
        Store { tree, ..store }
    }

    /// What a scan finds between two bounds, from one end.
    fn between(&self, (lower, upper): &(Bound<Vec<u8>>, Bound<Vec<u8>>), forward: bool) -> Records {
        let txn = self.begin(Isolation::Snapshot, true);
        let mut source = txn.committed();
        let mut scan = Scan::new(lower.clone(), upper.clone());
        let mut found = Vec::new();
        while let Some((key, value)) = scan.next(&self.tree.tree(), &mut source, forward).unwrap() {
            found.push((key, source.load(value).unwrap()));
        }
        if !forward {
            found.reverse();
        }
        found
    }

    /// That it has the records of a model, in its order, found in every way; and its pages no others.
    fn assert_is(&self, model: &BTreeMap<Vec<u8>, Vec<u8>>, seed: u8) {
        let mut expected: Records = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        expected.sort_by(|(one, _), (other, _)| hashing(seed).compare(one, other));
        let (found, _) = self.verified();
        assert_eq!(found, expected);
        assert_eq!(self.between(&(Bound::Unbounded, Bound::Unbounded), false), expected);
        for (key, value) in model {
            assert_eq!(self.get(key).as_ref(), Some(value), "{key:?}");
        }
    }
}

/// A key; some of the same number share stems, up to two.
fn key(dice: &mut Dice, keys: u64) -> Vec<u8> {
    let n = dice.below(keys);
    match n % 16 {
        0..12 => n.to_be_bytes()[5..].to_vec(),
        12 => vec![n as u8; STEM - 1],
        13 => [&vec![b'm'; STEM][..], &n.to_be_bytes()[6..]].concat(),
        14 => vec![b'm' + (n / 16 % 3) as u8; STEM + (n / 48 % 2) as usize * STEM],
        _ => [&vec![b'm' + (n / 16 % 3) as u8; 2 * STEM][..], &n.to_be_bytes()[6..]].concat(),
    }
}

fn value(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.below(40) {
        0 => 300 + dice.below(900),
        1..4 => dice.below(90),
        _ => dice.below(24),
    };
    vec![dice.below(256) as u8; len as usize]
}

/// Random changes, one after the other: phases in which records are added, and such in which they go.
fn random_life(seed: u64, steps: u64, keys: u64, mut change: impl FnMut(&Store, &[u8], Option<&[u8]>)) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let own = seed as u8;
    let store = Store::hashed(3000, own, None);
    let mut model = BTreeMap::new();
    let mut pages_max = 0;
    for step in 0..steps {
        let key = key(&mut dice, keys);
        let grows = (step / (steps / 4)).is_multiple_of(2);
        if dice.below(10) < if grows { 8 } else { 2 } {
            let value = value(&mut dice);
            change(&store, &key, Some(&value));
            model.insert(key, value);
        } else {
            change(&store, &key, None);
            model.remove(&key);
        }
        if step % (steps / 16) == 0 {
            store.assert_is(&model, own);
            pages_max = pages_max.max(store.verified().1.len());
        }
    }
    store.assert_is(&model, own);
    // Bounded scans, of keys that are there and of others.
    let order = hashing(own);
    let bound = |dice: &mut Dice| match dice.below(4) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key(dice, keys)),
        _ => Bound::Included(key(dice, keys)),
    };
    for _ in 0..300 {
        let (lower, upper) = (bound(&mut dice), bound(&mut dice));
        let is_within = |key: &[u8]| {
            let above = match &lower {
                Bound::Unbounded => true,
                Bound::Included(bound) => order.compare(key, bound).is_ge(),
                Bound::Excluded(bound) => order.compare(key, bound).is_gt(),
            };
            above
                && match &upper {
                    Bound::Unbounded => true,
                    Bound::Included(bound) => order.compare(key, bound).is_le(),
                    Bound::Excluded(bound) => order.compare(key, bound).is_lt(),
                }
        };
        let mut expected: Records =
            model.iter().filter(|(key, _)| is_within(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
        expected.sort_by(|(one, _), (other, _)| order.compare(one, other));
        let bounds = (lower.clone(), upper.clone());
        assert_eq!(store.between(&bounds, true), expected, "{bounds:?}");
        assert_eq!(store.between(&bounds, false), expected, "{bounds:?}, from the end");
    }
    for key in model.keys() {
        change(&store, key, None);
    }
    assert!(pages_max > 40, "it had {pages_max} pages: too few to show anything");
    let left = store.verified().1.len();
    assert!(left <= 3, "{left} pages of {pages_max} are left when all records are gone");
    store.assert_nothing_leaks();
}

#[test]
fn it_is_a_map_changed_in_place() {
    for seed in 0..4 {
        random_life(seed, 4000, 1500, |store, key, value| {
            store.in_place(|direct| direct.change(&store.tree.tree(), key, value).map(drop).unwrap());
        });
    }
}

#[test]
fn it_is_a_map_changed_by_single_commits() {
    for seed in 4..7 {
        random_life(seed, 4000, 1500, |store, key, value| match value {
            Some(value) => store.put(key, value).unwrap(),
            None => _ = store.remove(key).unwrap(),
        });
    }
}

#[test]
fn it_is_a_map_changed_by_transactions() {
    for (seed, isolation) in
        [(7, Isolation::Serializable), (8, Isolation::Snapshot), (9, Isolation::ReadCommitted)]
    {
        let pending = std::cell::RefCell::new(Vec::new());
        random_life(seed, 4000, 1500, |store, key, value| {
            let mut pending = pending.borrow_mut();
            pending.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            let mut txn = store.begin(isolation, false);
            for (key, value) in pending.drain(..) {
                txn.set(&store.tree, &key, value.as_deref()).unwrap();
            }
            txn.commit(Durability::Memory).unwrap();
        });
    }
}

/// Many records in one commit: several splits of the same bucket in it, and directories below directories.
#[test]
fn a_large_commit_splits_as_often_as_it_must() {
    let store = Store::hashed(6000, 1, None);
    let model: BTreeMap<_, _> =
        (0..6000u32).map(|n| (n.to_be_bytes().to_vec(), n.to_le_bytes().to_vec())).collect();
    let mut txn = store.begin(Isolation::Snapshot, false);
    for (key, value) in &model {
        txn.set(&store.tree, key, Some(value)).unwrap();
    }
    txn.commit(Durability::Memory).unwrap();
    drop(txn);
    store.assert_is(&model, 1);
    let txn = store.begin(Isolation::Snapshot, true);
    let shape = store.tree.tree().verify(
        &txn.committed(),
        &mut HashSet::new(),
        &mut |why| panic!("{why}"),
        &mut |_| {},
    );
    assert!(shape.levels >= 3 && shape.inner_pages > 3, "{shape:?}");
    drop(txn);
    let mut txn = store.begin(Isolation::Snapshot, false);
    for key in model.keys() {
        txn.set(&store.tree, key, None).unwrap();
    }
    txn.commit(Durability::Memory).unwrap();
    drop(txn);
    store.assert_is(&BTreeMap::new(), 1);
    store.assert_nothing_leaks();
}

/// A snapshot from before the splits and one from before the joins see what they saw.
#[test]
fn a_snapshot_sees_the_table_as_it_was() {
    let store = Store::hashed(6000, 2, None);
    let all = |txn: &Transaction<'_>| {
        let mut source = txn.committed();
        let mut scan = Scan::new(Bound::Unbounded, Bound::Unbounded);
        let mut found = Vec::new();
        while let Some((key, _)) = scan.next(&store.tree.tree(), &mut source, true).unwrap() {
            found.push(key);
        }
        found.len()
    };
    let keys: Vec<_> = (0..1500u32).map(u32::to_be_bytes).collect();
    keys[..10].iter().for_each(|key| store.put(key, b"old").unwrap());
    let few = store.begin(Isolation::Snapshot, true);
    keys.iter().for_each(|key| store.put(key, b"new").unwrap());
    let many = store.begin(Isolation::Snapshot, true);
    keys[20..].iter().for_each(|key| assert!(store.remove(key).unwrap()));
    for (n, key) in keys.iter().enumerate() {
        let seen = few.get_owned(&store.tree, key).unwrap();
        assert_eq!(seen.as_deref(), (n < 10).then_some(&b"old"[..]));
        assert_eq!(many.get_owned(&store.tree, key).unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(store.get(key).is_some(), n < 20);
    }
    assert_eq!((all(&few), all(&many)), (10, 1500));
}

/// What was read is compared as ranges of the order of hashes: a record that comes into one is noticed, in
/// whatever bucket it is by then, and one that does not is not.
#[test]
fn what_was_scanned_is_validated_as_ranges_of_hashes() {
    let order = hashing(3);
    let mut keys: Vec<Vec<u8>> = (0..400u32).map(|n| n.to_be_bytes().to_vec()).collect();
    keys.sort_by(|one, other| order.compare(one, other));
    let (absent, present): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(n, _)| n % 4 == 1);
    let (from, to) = (100, 300);
    for (n, new) in absent {
        for grow in [false, true] {
            let store = Store::hashed(2000, 3, None);
            present.iter().for_each(|(_, key)| store.put(key, b"there").unwrap());
            let mut txn = store.begin(Isolation::Serializable, false);
            let mut scan = Scan::new(Bound::Included(keys[from].clone()), Bound::Excluded(keys[to].clone()));
            let mut count = 0;
            while txn.next(&store.tree, &mut scan, true).unwrap().is_some() {
                count += 1;
            }
            assert_eq!(count, present.iter().filter(|(n, _)| (from..to).contains(n)).count());
            txn.set(&store.tree, b"else", Some(b"")).unwrap();
            if grow {
                // Values grow, so that buckets are split.
                present
                    .iter()
                    .filter(|(n, _)| *n < from)
                    .for_each(|(_, key)| store.put(key, &[7; 60]).unwrap());
            }
            store.put(new, b"new").unwrap();
            let is_conflict = match txn.commit(Durability::Memory) {
                Ok(_) => false,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    true
                }
            };
            assert_eq!(is_conflict, (from..to).contains(&n), "record {n} of the order, growing: {grow}");
        }
        if n > 320 {
            break;
        }
    }
}

/// Of two transactions that set one record, from snapshots that have it not, the second to commit conflicts:
/// nested keys are compared in their subtree.
#[test]
fn the_second_to_set_a_record_conflicts() {
    for (key, beside) in [(&[b'q'; 5][..], &b"another"[..]), (&[b'q'; 2 * STEM], &[b'q'; STEM + 3])] {
        let store = Store::hashed(2000, 3, None);
        store.put(beside, b"there, so that there is a subtree").unwrap();
        let mut second = store.begin(Isolation::Snapshot, false);
        second.set(&store.tree, key, Some(b"second")).unwrap();
        store.put(key, b"first").unwrap();
        let error = second.commit(Durability::Memory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let mut other = store.begin(Isolation::Snapshot, false);
        other.set(&store.tree, key, Some(b"other")).unwrap();
        store.put(beside, b"changed").unwrap();
        other.commit(Durability::Memory).unwrap();
        assert_eq!(store.get(key).as_deref(), Some(&b"other"[..]));
    }
}

/// Keys that were looked for and not found, nested ones too.
#[test]
fn what_was_not_found_is_validated() {
    let long = vec![b'q'; 3 * STEM + 5];
    for (wanted, other) in [(&b"short"[..], &b"another"[..]), (&long, &long[..STEM]), (&long[..STEM], &long)]
    {
        for (put, is_conflict) in [(wanted, true), (other, false)] {
            let store = Store::hashed(2000, 3, None);
            let mut txn = store.begin(Isolation::Serializable, false);
            assert_eq!(txn.get_owned(&store.tree, wanted).unwrap(), None);
            txn.set(&store.tree, b"else", Some(b"")).unwrap();
            store.put(put, b"").unwrap();
            let committed = txn.commit(Durability::Memory);
            // That there is a subtree now is as much as is compared of what was not there.
            let may_conflict = is_conflict || wanted.len() >= STEM && other.len() >= STEM;
            assert!(committed.is_ok() != is_conflict || may_conflict, "{committed:?}");
            assert!(committed.is_err() || !is_conflict);
        }
    }
}

#[test]
fn a_table_is_freed_bit_by_bit() {
    for seed in 0..3 {
        let store = Store::hashed(6000, 5, None);
        let mut dice = Dice(seed + 11);
        for _ in 0..2000 {
            let (key, value) = (key(&mut dice, 3000), value(&mut dice));
            store.put(&key, &value).unwrap();
        }
        let seat = store.seat();
        let mut steps = 0;
        while store.kernel.free_some(&seat, &store.tree).unwrap() {
            steps += 1;
            // What is left can be gone through for its pages at any time, as often as it is left so.
            let txn = store.begin(Isolation::Snapshot, true);
            let mut met = HashSet::new();
            store.tree.tree().reach(&txn.committed(), &mut |page| met.insert(page)).unwrap();
        }
        assert!(steps > 2, "{steps}");
        drop(seat);
        store.assert_is(&BTreeMap::new(), 5);
        store.assert_nothing_leaks();
    }
}

#[test]
fn a_load_takes_records_in_any_order_and_each_key_once() {
    let store = Store::hashed(6000, 6, None);
    let mut dice = Dice(77);
    let mut model = BTreeMap::new();
    for _ in 0..3000 {
        model.insert(key(&mut dice, 5000), value(&mut dice));
    }
    let loaded = store.kernel.bulk_load(&store.tree, model.iter(), Durability::Memory).unwrap();
    assert_eq!(loaded, model.len() as u64);
    store.assert_is(&model, 6);
    let loaded = store.kernel.bulk_load(&store.tree, model.iter(), Durability::Memory);
    assert_eq!(loaded.unwrap_err().kind(), ErrorKind::Invalid, "it is not empty");
    store.assert_nothing_leaks();

    for long in [false, true] {
        let store = Store::hashed(6000, 6, None);
        let twice = vec![b'w'; if long { 2 * STEM } else { 5 }];
        let records =
            model.iter().chain([(&twice, &twice)]).chain(model.iter().take(50)).chain([(&twice, &twice)]);
        let error = store.kernel.bulk_load(&store.tree, records, Durability::Memory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        store.assert_is(&BTreeMap::new(), 6);
        store.assert_nothing_leaks();
    }
}

#[test]
fn an_estimate_is_exact_of_few_pages_and_near_of_many() {
    let store = Store::hashed(12000, 9, None);
    let mut sum = 0u64;
    for (count, exactly) in [(0u32, true), (5, true), (300, true), (20_000, false)] {
        (sum as u32..count).for_each(|n| store.put(&n.to_be_bytes(), &[0; 8]).unwrap());
        sum = count.into();
        let (_, pages) = store.verified();
        let txn = store.begin(Isolation::Snapshot, true);
        let about = store.tree.tree().estimate(&txn.committed(), 1).unwrap();
        assert_eq!(about.is_exact, exactly, "{count} records");
        let near =
            |is: f64, should: f64| if exactly { is == should } else { (is / should - 1.0).abs() < 0.15 };
        assert!(near(about.sum.records, count.into()), "{count} records: {about:?}");
        assert!(near(about.sum.pages, pages.len() as f64), "{} pages: {about:?}", pages.len());
    }
}

/// A page that is led to and is another, wherever that is: an error that names it, and no panic.
#[test]
fn pages_that_are_not_what_leads_to_them_are_errors() {
    let store = Store::hashed(6000, 4, None);
    (0..3000u32).for_each(|n| store.put(&n.to_be_bytes(), b"value").unwrap());
    let (_, pages) = store.verified();
    let image = |page| store.in_place(|direct| direct.read(page, <[u8]>::to_vec).unwrap());
    let write =
        |page, bytes: &[u8]| store.in_place(|direct| direct.write(page).unwrap().copy_from_slice(bytes));
    let mut pages: Vec<_> = pages.into_iter().collect();
    pages.sort();
    for (n, &page) in pages.iter().enumerate().step_by(7) {
        let (sound, other) = (image(page), image(pages[(n + 5) % pages.len()]));
        write(page, &other);
        let txn = store.begin(Isolation::Snapshot, true);
        let mut problems = 0;
        store.tree.tree().verify(&txn.committed(), &mut HashSet::new(), &mut |_| problems += 1, &mut |_| {});
        assert!(problems > 0, "page {page} with the bytes of another");
        drop(txn);
        for forward in [false, true] {
            match store.scan(forward) {
                Ok(count) => panic!("a scan found {count} records"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
            }
        }
        for n in (0..3000u32).step_by(41) {
            let tree: Tree<'_> = store.tree.tree();
            let changed = store.in_place(|direct| direct.change(&tree, &n.to_be_bytes(), Some(b"")));
            if let Err(error) = changed {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            }
        }
        write(page, &sound);
    }
}

//! Subtrees whose references are wrong: errors that name a page, whatever is asked.

use super::*;
use crate::access::btree::node::{self, Inner, InnerMut, key_bytes_max};
use crate::access::btree::{self, nest};
use crate::access::{Home, Order, StoredValue, Tree};
use crate::error::{Error, ErrorKind};
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish;
use crate::txn::commit::scratch::ScratchRecord;

const STEM: usize = key_bytes_max(512);

/// A tree with a nested key of `stems` stems and a byte, and short keys around it.
fn store(stems: usize) -> (Store, Vec<u8>) {
    let store = Store::new(400, 4, None);
    let key = vec![b'm'; stems * STEM + 1];
    for short in [&b"a"[..], b"mm", b"z"] {
        store.put(short, b"short").unwrap();
    }
    store.put(&key, b"long").unwrap();
    (store, key)
}

impl Store {
    /// Writes in place.
    pub(super) fn in_place<R>(&self, work: impl FnOnce(&mut Direct<'_>) -> R) -> R {
        let seat = self.kernel.pages.participants.sit().unwrap();
        // SAFETY: the test has one thread and no snapshot.
        work(&mut unsafe { Direct::new(&self.kernel.pages, &seat) })
    }

    /// The subtree that so many stems of a key lead to.
    fn subtree(&self, key: &[u8], stems: usize) -> Tree<'static> {
        let tree = self.in_place(|direct| self.tree.tree().place(direct, &key[..stems * STEM]).unwrap().tree);
        Tree { id: tree.id, root: tree.root, method: tree.method, order: Order::Bytes, home: Home::MAIN }
    }

    /// Makes a record of the tree that `stems` stems lead to something else.
    fn damage(&self, key: &[u8], stems: usize, value: &[u8]) {
        let tree = self.subtree(key, stems);
        let stem = &key[stems * STEM..][..STEM];
        self.in_place(|direct| btree::put(direct, &tree, stem, StoredValue::Inline(value)).unwrap());
    }

    /// What a scan of everything ends with.
    pub(super) fn scan(&self, forward: bool) -> Result<usize> {
        let txn = self.begin(Isolation::Serializable, false);
        let mut scan = Scan::new(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let mut source = txn.committed();
        let mut count = 0;
        while scan.next(&self.tree.tree(), &mut source, forward)?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let txn = self.begin(Isolation::Snapshot, true);
        let mut problems = Vec::new();
        self.tree.tree().verify(
            &txn.committed(),
            &mut HashSet::new(),
            &mut |why| problems.push(why),
            &mut |_| {},
        );
        problems
    }

    fn free_all(&self) -> Result<()> {
        let seat = self.seat();
        while self.kernel.free_some(&seat, &self.tree)? {}
        Ok(())
    }
}

fn assert_corrupt(result: Result<impl Sized>, why: &str) {
    let error: Error = result.err().expect("damage is an error");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let message = error.to_string();
    assert!(message.contains(why) && message.contains("page "), "{message}");
}

/// Whatever goes to the key's record, or over everything, meets the damage.
fn assert_all_corrupt(store: &Store, key: &[u8], why: &str) {
    assert_corrupt(store.kernel.read_one(&store.tree, key, |_| {}), why);
    assert_corrupt(store.put(key, b"new"), why);
    assert_corrupt(store.remove(key), why);
    assert_corrupt(store.scan(true), why);
    assert_corrupt(store.scan(false), why);
    assert_corrupt(store.free_all(), why);
}

fn reference(root: PageId) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(!root.0).to_le_bytes());
    bytes[4..].copy_from_slice(&root.0.to_le_bytes());
    bytes
}

#[test]
fn a_reference_that_is_none_is_damage() {
    let mut flipped = reference(PageId(3));
    flipped[1] ^= 4;
    for (value, why) in [
        (&b"7 bytes"[..], "has another value"),
        (b"nine byte", "has another value"),
        (&flipped, "do not fit each other"),
        (&reference(PageId::NONE), "do not fit each other"),
    ] {
        for depth in 0..2 {
            let (store, key) = store(3);
            store.damage(&key, depth, value);
            assert_all_corrupt(&store, &key, why);
            assert!(store.problems().iter().any(|problem| problem.contains(why)), "{:?}", store.problems());
            assert_eq!(store.get(b"a").as_deref(), Some(&b"short"[..]));
        }
    }
}

#[test]
fn a_reference_to_a_page_of_something_else_is_damage() {
    let (store, key) = store(3);
    // The outermost root, a page that was never used, and one that does not exist.
    for (root, why) in [(1, "belongs to another tree"), (4000, "is named by a tree but is not in use")] {
        for depth in 0..2 {
            let good = store.subtree(&key, depth + 1).root;
            store.damage(&key, depth, &reference(PageId(root)));
            assert_all_corrupt(&store, &key, why);
            assert!(!store.problems().is_empty());
            store.damage(&key, depth, &reference(good));
            assert!(store.problems().is_empty(), "{:?}", store.problems());
        }
    }
}

#[test]
fn subtrees_that_contain_each_other_end_every_walk() {
    for (at, to) in [(1, 1), (2, 1), (2, 2)] {
        let (store, key) = store(3);
        store.damage(&key, at, &reference(store.subtree(&key, to).root));
        let why = "is nested deeper than the longest key";
        assert_corrupt(store.scan(true), why);
        assert_corrupt(store.scan(false), why);
        assert_corrupt(store.free_all(), why);
        assert!(
            store.problems().iter().any(|problem| problem.contains("is reached twice")),
            "{:?}",
            store.problems()
        );
        // A key is used up by the way down.
        let longest = vec![b'm'; nest::KEY_BYTES_MAX];
        assert_eq!(store.get(&longest), None);
        assert!(!store.remove(&longest).unwrap());
    }
}

#[test]
fn an_empty_subtree_is_a_problem() {
    let (store, key) = store(2);
    let innermost = store.subtree(&key, 2);
    store.in_place(|direct| assert!(btree::remove(direct, &innermost, &key[2 * STEM..]).unwrap()));
    let problems = store.problems();
    assert!(matches!(&problems[..], [problem] if problem.contains("no record was found")), "{problems:?}");
}

#[test]
fn the_last_record_takes_its_subtree_along_even_if_empty_leaves_could_not_be_merged() {
    let store = Store::new(4000, 4, None);
    let key = |n: u32| [&[7; STEM][..], &n.to_be_bytes(), &[b'.'; STEM - 8]].concat();
    // A few large records a leaf, removed in many orders: some leaves empty beside full ones.
    for step in [1, 3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31, 33, 37, 39] {
        (0..40).for_each(|n| store.put(&key(n), &[1; 10]).unwrap());
        (0..40).for_each(|n| assert!(store.remove(&key(n * step % 40)).unwrap()));
        assert_eq!(store.verified().1.len(), 1, "every {step}th");
    }
    store.assert_nothing_leaks();
}

/// A participant that unmakes a subtree has the structure latch, and reads at an earlier state: short records
/// beside the subtree's reference come and go meanwhile, and move it to another slot.
#[test]
fn a_subtree_is_unmade_while_records_come_and_go_beside_it() {
    let (store, key) = store(2);
    let kernel = &store.kernel;
    let seat = kernel.pages.participants.sit().unwrap();
    let hold = kernel.hold_structure(std::iter::once(store.tree.id), &seat).unwrap();
    let mut changes = ChangedPages::at_newest(&kernel.pages, &seat);
    store.put(b"b", b"short").unwrap();
    store.put(b"c", b"short").unwrap();
    assert!(store.remove(b"mm").unwrap());
    assert!(kernel.apply_one(&mut changes, &store.tree.tree(), (&key, None), None).unwrap());
    let mut record = ScratchRecord::of(&seat);
    record.begin(crate::log::RecordKind::Commit);
    record.delete(store.tree.id, &key);
    record.finish_body();
    publish::publish(&kernel.pages, &kernel.log, changes, &mut record, |_| Ok(())).unwrap();
    drop(record);
    drop(hold);
    drop(seat);
    assert_eq!(store.get(&key), None);
    let keys: Vec<_> = store.verified().0.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&b"a"[..], b"b", b"c", b"z"]);
    store.assert_nothing_leaks();
}

/// A commit larger than the cache copies all of a subtree: what does not belong to it, it leaves alone.
#[test]
fn a_page_of_something_else_is_not_copied_with_a_subtree() {
    let key = |n: u32| [&[b'm'; STEM][..], &n.to_be_bytes()].concat();
    for at_root in [false, true] {
        let store = Store::with_catalog(128, 6, Some(volume(1)));
        (0..1000u32).for_each(|n| store.put(&n.to_be_bytes(), &[1; 40]).unwrap());
        (0..100).for_each(|n| store.put(&key(n), &[1; 40]).unwrap());
        let (tree, subtree) = (store.tree.tree(), store.subtree(&key(0), 1));
        let leaf = store.in_place(|direct| tree.find(direct, tree.sought(&7u32.to_be_bytes())).unwrap());
        if at_root {
            store.damage(&key(0), 0, &reference(leaf));
        } else {
            store.in_place(|direct| {
                let bytes = direct.write(subtree.root).unwrap();
                assert_eq!(node::level(bytes), 1);
                InnerMut::new(bytes).replace_child(3, leaf);
            });
        }
        let mut txn = store.begin(Isolation::ReadCommitted, false);
        (500..1000u32).for_each(|n| txn.set(&store.tree, &n.to_be_bytes(), Some(&[2; 40])).unwrap());
        txn.set(&store.tree, &key(0), Some(&[2; 40])).unwrap();
        let done = txn.commit(Durability::Memory);
        drop(txn);
        store.kernel.free_pages_later();
        (0..500u32).for_each(|n| assert_eq!(store.get(&n.to_be_bytes()), Some(vec![1; 40]), "record {n}"));
        assert_corrupt(done, "belongs to another tree");
    }
}

#[test]
fn a_page_of_something_else_is_not_copied_to_be_merged_with() {
    let store = Store::with_catalog(128, 6, Some(volume(1)));
    let key = [b'm'; STEM + 1];
    (0..1000u32).for_each(|n| store.put(&n.to_be_bytes(), &[1; 40]).unwrap());
    store.put(&key, &[1; 40]).unwrap();
    let subtree = store.subtree(&key, 1);
    // The page beside the first leaf.
    store.in_place(|direct| {
        let mut parent = store.tree.root;
        while node::level(direct.latched(parent).unwrap()) > 1 {
            parent = Inner::new(direct.latched(parent).unwrap()).child(0);
        }
        InnerMut::new(direct.write(parent).unwrap()).replace_child(1, subtree.root);
    });
    let mut txn = store.begin(Isolation::ReadCommitted, false);
    txn.set(&store.tree, &0u32.to_be_bytes(), Some(&[2; 40])).unwrap();
    (1..6u32).for_each(|n| txn.set(&store.tree, &n.to_be_bytes(), None).unwrap());
    (500..1000u32).for_each(|n| txn.set(&store.tree, &n.to_be_bytes(), Some(&[2; 40])).unwrap());
    let done = txn.commit(Durability::Memory);
    drop(txn);
    store.kernel.free_pages_later();
    assert_eq!(store.get(&key), Some(vec![1; 40]));
    assert_corrupt(done, "belongs to another tree");
}

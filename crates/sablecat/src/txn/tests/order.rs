//! The order in which a commit latches leaves that have been split since its snapshot.

use super::*;
use crate::txn::commit::changes::ChangedPages;

/// In the snapshot, both keys lie in `first`; by now it ends before them, and each has a leaf of its own. A
/// participant that holds the one and looks for the other must not wait for `first`, whose holder may be
/// waiting for what this one holds.
#[test]
fn who_holds_a_leaf_waits_for_none_before_it() {
    let store = Store::new(400, 4, None);
    let kernel = &store.kernel;
    let tree = store.tree.tree();
    let value = [7; 60];
    for n in 0..12 {
        store.put(&[b'z', n], &value).unwrap();
    }
    for key in [b"a", b"m", b"y"] {
        store.put(key, &value).unwrap();
    }
    let (me, other) = (kernel.pages.participants.sit().unwrap(), kernel.pages.participants.sit().unwrap());
    let leaf = |key: &[u8]| {
        let snapshot = kernel.pages.snapshot(&other);
        tree.find(&snapshot, tree.sought(key)).unwrap()
    };
    let first = leaf(b"a");
    assert!(
        first != tree.root && first == leaf(b"m") && first == leaf(b"y"),
        "one leaf, which is not the root"
    );
    let pinned = kernel.pages.pinned(&me);
    let snapshot = pinned.at();
    for n in 0..16 {
        store.put(&[b"bkx"[n % 3], n as u8], &value).unwrap();
    }
    let (second, third) = (leaf(b"m"), leaf(b"y"));
    assert!(first == leaf(b"a") && first != second && second != third, "split twice");

    let mut changes = ChangedPages::new(&kernel.pages, &me, snapshot);
    assert_eq!(
        kernel.leaf_for(&mut changes, &tree, tree.sought(b"m"), PageId::NONE, &mut snapshot.clone()).unwrap(),
        second
    );
    kernel.pages.keep_latched(first, &other);
    std::thread::scope(|scope| {
        let slot = me.slot();
        scope.spawn(move || {
            // A page is announced before its latch is waited for.
            while slot.list_len() < 2 {
                std::thread::yield_now();
            }
            let waits = slot.item(1).page == first;
            kernel.pages.let_go_of(first, &other);
            assert!(!waits, "waits for a leaf while it holds one behind it");
        });
        assert_eq!(
            kernel.leaf_for(&mut changes, &tree, tree.sought(b"y"), second, &mut snapshot.clone()).unwrap(),
            third
        );
    });
}

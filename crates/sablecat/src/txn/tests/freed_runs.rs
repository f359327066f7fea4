//! Runs of pages that were made one by one, and are freed together.

use super::*;
use crate::access::PageWrite;
use crate::pages::header;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish::{self, filler};

fn commit(store: &Store, change: impl FnOnce(&mut ChangedPages<'_>)) {
    let seat = store.seat();
    let mut changes = ChangedPages::at_newest(&store.kernel.pages, &seat);
    change(&mut changes);
    publish::publish(&store.kernel.pages, &store.kernel.log, changes, &mut filler(), |_| Ok(())).unwrap();
}

/// A page that nothing leads to.
fn make(store: &Store) -> PageId {
    let mut made = PageId::NONE;
    commit(store, |changes| {
        made = changes.allocate(VolumeId::MAIN).unwrap();
        let bytes = changes.write(made).unwrap();
        store.tree.tree().format(bytes);
        header::set_page_id(bytes, made);
    });
    made
}

/// Two neighbours that are freed together, of which the last checkpoint has only the second: the first was
/// made after it.
fn freed_run() -> (Store, PageId) {
    let store = Store::with_catalog(400, 12, Some(volume(6)));
    store.checkpoint().unwrap();
    let (first, second) = (make(&store), make(&store));
    assert_eq!(second.0, first.0 + 1);
    commit(&store, |changes| changes.free(first).unwrap());
    store.kernel.pages.sweep_all(&store.seat());
    store.checkpoint().unwrap();
    // The lowest free number.
    assert_eq!(make(&store), first);
    commit(&store, |changes| changes.free_run(first, 2).unwrap());
    (store, first)
}

#[test]
fn what_goes_with_a_page_that_no_checkpoint_has_is_not_unreachable() {
    let (store, _) = freed_run();
    assert_eq!(store.kernel.free_unreachable(&store.seat()).unwrap(), 0);
}

#[test]
fn no_page_is_freed_twice() {
    let (store, first) = freed_run();
    let pages = &store.kernel.pages;
    store.kernel.free_unreachable(&store.seat()).unwrap();
    // Somebody looks at the first page as a sweep comes by; others get the numbers that are free then.
    let busy = store.seat();
    pages.keep_latched(first, &busy);
    pages.sweep_all(&store.seat());
    (0..40u32).for_each(|n| store.put(&n.to_be_bytes(), &[7; 40]).unwrap());
    pages.let_go_of(first, &busy);
    drop(busy);
    pages.sweep_all(&store.seat());
    assert_eq!(store.verified().0.len(), 40);
    store.assert_nothing_leaks();
}

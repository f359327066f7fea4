//! A database that was removed, against transactions that have read it.

use super::*;
use crate::error::ErrorKind;
use crate::txn::catalog::{self, Presence};
use crate::txn::commit::changes::ChangedPages;

const NAME: &[u8] = b"d";

/// A store over the tree of a database, which the catalog names.
pub(super) fn database() -> Store {
    database_of(60)
}

/// The same over so many frames.
fn database_of(frames: usize) -> Store {
    let store = Store::new(frames, 6, None);
    let entry = store
        .kernel
        .create_tree(&store.seat(), CatalogEntry::new(TreeId(16), VolumeId::MAIN, Method::Btree))
        .unwrap();
    let mut txn = store.begin(Isolation::Snapshot, false);
    txn.set(&store.tree, NAME, Some(&entry.named().encode())).unwrap();
    txn.set(&store.tree, &catalog::note_key(entry.tree), None).unwrap();
    let at = txn.commit(Durability::Memory).unwrap();
    drop(txn);
    let tree =
        entry.tree_of_note().unwrap().with(|tree| tree.presence = Some(Arc::new(Presence::seen_at(at))));
    Store { tree, ..store }
}

/// What the catalog says of it.
pub(super) fn entry(store: &Store) -> CatalogEntry {
    CatalogEntry {
        root: store.tree.root,
        ..CatalogEntry::new(store.tree.id, VolumeId::MAIN, store.tree.method)
    }
}

/// Takes the database's name away; its pages are still to be freed.
pub(super) fn take_name(store: &Store, txn: &mut Transaction<'_>) -> Result<Lsn> {
    let (entry, catalog) = (entry(store), catalog::catalog_tree());
    assert_eq!(txn.claim(catalog, NAME)?, Some(entry.encode()));
    txn.set(catalog, NAME, None)?;
    txn.set(catalog, &catalog::note_key(entry.tree), Some(&entry.encode()))?;
    txn.commit(Durability::Memory)
}

/// Between the commit that takes its name and the freeing of its pages lies a flush, or the death of the
/// remover.
#[test]
fn a_database_whose_pages_are_not_freed_yet_is_a_conflict_for_who_has_read_it() {
    let store = database();
    store.put(b"a", b"1").unwrap();
    let catalog = catalog::catalog_tree();
    let mut reader = store.begin(Isolation::Serializable, false);
    assert_eq!(reader.get_owned(&store.tree, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    reader.set(catalog, b"other", Some(b"2")).unwrap();
    let mut remover = store.begin(Isolation::Serializable, false);
    assert_eq!(remover.get_owned(catalog, b"other").unwrap(), None);
    take_name(&store, &mut remover).unwrap();
    drop(remover);
    // Each has seen the state before the other.
    assert_eq!(reader.commit(Durability::Memory).expect_err("write skew").kind(), ErrorKind::Conflict);
    // Run again it does not read what is gone, and is not held responsible for what it read before.
    reader.restart();
    reader.get_owned(catalog, b"other").unwrap();
    reader.set(catalog, b"other", Some(b"3")).unwrap();
    reader.commit(Durability::Memory).unwrap();
}

/// Removes the database and frees all of its pages, so that the numbers of these are others' next.
fn remove(store: &Store) {
    take_name(store, &mut store.begin(Isolation::Snapshot, false)).unwrap();
    store.kernel.free_tree(&store.seat(), &entry(store)).unwrap();
    store.kernel.pages.sweep_all(&store.seat());
}

/// A process with a handle looks at what was the root. The participant whose page that is now may be waiting
/// for the one that looks: for the commit role, as a rule.
#[test]
fn who_looks_for_a_removed_database_does_not_wait_for_who_is_making_a_page_of_its_roots_number() {
    let store = database();
    remove(&store);
    let (pages, making, looking) = (&store.kernel.pages, store.seat(), store.seat());
    let mut changes = ChangedPages::at_newest(pages, &making);
    assert_eq!(changes.allocate(VolumeId::MAIN).unwrap(), store.tree.root);
    for me in [&looking, &making] {
        assert!(!store.kernel.has_name(&store.tree, pages.region.header().visible(), me).unwrap());
    }
}

/// Its own pages get the numbers of those that were freed.
#[test]
fn a_load_whose_database_is_removed_meanwhile_fails_and_leaves_nothing() {
    let store = database_of(2000);
    let records = (0..4000u32).map(|n| {
        if n == 2000 {
            remove(&store);
        }
        (n.to_be_bytes(), [1; 9])
    });
    let loaded = store.kernel.bulk_load(&store.tree, records, Durability::Memory);
    assert_eq!(loaded.expect_err("its database is not there").kind(), ErrorKind::Conflict);
    let catalog = Store { tree: catalog::catalog_tree().clone(), ..store };
    assert!(catalog.verified().0.is_empty());
    catalog.assert_nothing_leaks();
}

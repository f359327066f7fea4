//! Creating, opening, renaming and removing databases. Each is one commit in the catalog.
//!
//! A removed database is at once gone from the catalog's names, but its pages are many: the commit leaves a note in the catalog, and the
//! pages are freed after it, some hundred a commit. A crash in between finds the note and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as StdOrdering};

use sablecat_os::atomic::Ordering;

use super::catalog::{self, CatalogEntry};
use super::{Core, lock, recover, volumes};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Durability, Isolation, Options, Transaction, TreeRef};
use crate::types::{TreeId, VolumeId};

/// A database as this process knows it.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) tree: TreeRef,
    /// Set when the database is removed: handles then say so instead of looking at pages of something else.
    removed: Arc<AtomicBool>,
    /// The region's count of names taken away, when the database was last known to be there.
    seen: AtomicU64,
}

impl Named {
    /// The tree, unless the database was removed.
    #[inline]
    pub(crate) fn tree(&self) -> Result<&TreeRef> {
        if self.removed.load(StdOrdering::Acquire) { Err(self.gone()) } else { Ok(&self.tree) }
    }

    #[cold]
    fn gone(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("the database {:?} was removed after this handle was opened", self.name))
    }
}

impl Core {
    fn names_changed(&self) -> u64 {
        self.kernel.pages.region.header().names_changed.load(Ordering::Acquire)
    }

    /// Tells the other processes that a name has been taken away.
    fn change_names(&self) {
        self.kernel.pages.region.header().names_changed.fetch_add(1, Ordering::AcqRel);
    }

    /// Looks again whether a database is there when any may have been removed since.
    #[inline]
    pub(crate) fn check_named(&self, named: &Named) -> Result<()> {
        if named.seen.load(StdOrdering::Relaxed) == self.names_changed() { Ok(()) } else { self.look_again(named) }
    }

    #[cold]
    fn look_again(&self, named: &Named) -> Result<()> {
        let changed = self.names_changed();
        // An environment that was taken back to an earlier time may have given the number again.
        let is_it = |entry: &CatalogEntry| entry.tree == named.tree.id && entry.root == named.tree.root;
        if !self.catalog_entries()?.iter().any(|(_, entry)| is_it(entry)) {
            named.removed.store(true, StdOrdering::Release);
        }
        named.seen.store(changed, StdOrdering::Relaxed);
        Ok(())
    }

    fn catalog_txn(&self) -> Result<Transaction<'_>> {
        let options = Options {
            isolation: Isolation::Serializable,
            durability: self.config.durability,
            read_only: false,
            patience: self.config.lock_timeout,
        };
        Transaction::begin(&self.kernel, options)
    }

    fn look_up(&self, name: &str) -> Result<Option<CatalogEntry>> {
        let found = at_any_snapshot(|| {
            let mut txn = self.catalog_txn()?;
            txn.get_owned(&catalog::catalog_tree(), name.as_bytes())
        })?;
        found.map(|value| CatalogEntry::decode(name.as_bytes(), &value)).transpose()
    }

    /// Opens a database; `create` says whether to make it, and with which comparator, if there is none of that name.
    pub(crate) fn database(&self, name: &str, create: bool, comparator: Option<&str>) -> Result<Option<Arc<Named>>> {
        catalog::check_name(name)?;
        self.kernel.pages.catch_up()?;
        let mut names = lock(&self.names);
        let changed = self.names_changed();
        if self.names_seen.swap(changed, StdOrdering::Relaxed) != changed {
            // Another process may have given the name to another database.
            names.clear();
        }
        if let Some(known) = names.get(name) {
            check_comparator(name, &known.tree, comparator)?;
            return Ok(Some(Arc::clone(known)));
        }
        let entry = match self.look_up(name)? {
            Some(entry) => entry,
            None if create => self.to_write()?.create_database(name, comparator)?,
            None => return Ok(None),
        };
        let tree = self.resolve(name, &entry)?;
        check_comparator(name, &tree, comparator)?;
        let named = Arc::new(Named { name: name.to_owned(), tree, removed: Arc::default(), seen: AtomicU64::new(changed) });
        names.insert(name.to_owned(), Arc::clone(&named));
        Ok(Some(named))
    }

    fn resolve(&self, name: &str, entry: &CatalogEntry) -> Result<TreeRef> {
        let comparator = match &entry.comparator {
            None => None,
            Some(wanted) => Some(self.config.comparators.get(wanted).cloned().ok_or_else(|| {
                Error::invalid(format!(
                    "the database {name:?} is ordered by the comparator {wanted:?}; give it to the builder under that name"
                ))
            })?),
        };
        let keys = volumes::keys(&self.kernel.pages, name, entry)?;
        Ok(entry.tree(comparator, keys))
    }

    fn create_database(&self, name: &str, comparator: Option<&str>) -> Result<CatalogEntry> {
        if let Some(comparator) = comparator
            && !self.config.comparators.contains_key(comparator)
        {
            return Err(Error::invalid(format!("there is no comparator {comparator:?}; give it to the builder under that name first")));
        }
        let tree = TreeId(self.kernel.pages.region.header().tree_next.0.fetch_add(1, Ordering::AcqRel));
        let comparator = comparator.map(str::to_owned);
        let durability = self.durability();
        let volume = self.kernel.pages.volume().map_or(VolumeId::MAIN, |volume| volume.superblock().placement.of_database(name));
        let root = self.kernel.create_tree(tree, volume, comparator.is_some(), durability, |root| {
            let entry = CatalogEntry { tree, root, volume, comparator: comparator.clone() };
            (catalog::catalog_tree(), name.as_bytes().to_vec(), entry.encode())
        })?;
        Ok(CatalogEntry { tree, root, volume, comparator })
    }

    fn durability(&self) -> Durability {
        if self.kernel.log.keeps_records() { self.config.durability } else { Durability::Memory }
    }

    /// The names of all databases, in order.
    pub(crate) fn database_names(&self) -> Result<Vec<String>> {
        Ok(self.catalog_entries()?.into_iter().map(|(name, _)| name).collect())
    }

    /// All databases, in the order of their names.
    pub(crate) fn catalog_entries(&self) -> Result<Vec<(String, CatalogEntry)>> {
        let records = self.catalog_records()?;
        records
            .into_iter()
            .filter(|(key, _)| catalog::is_name(key))
            .map(|(key, value)| {
                let entry = CatalogEntry::decode(&key, &value)?;
                let name = String::from_utf8(key).map_err(|_| Error::corruption("the catalog has a name that is no text"))?;
                Ok((name, entry))
            })
            .collect()
    }

    fn catalog_records(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        at_any_snapshot(|| {
            let txn = self.catalog_txn()?;
            let tree = catalog::catalog_tree();
            let mut source = txn.committed();
            recover::collect(&tree, &mut source)
        })
    }

    /// Gives a database another name.
    pub(crate) fn rename_database(&self, from: &str, to: &str) -> Result<()> {
        catalog::check_name(from)?;
        catalog::check_name(to)?;
        let mut names = lock(&self.names);
        let entry =
            self.look_up(from)?.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no database {from:?} to rename")))?;
        if self.look_up(to)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("there is a database {to:?} already")));
        }
        let tree = catalog::catalog_tree();
        let mut txn = self.catalog_txn()?;
        txn.set(&tree, from.as_bytes(), None)?;
        txn.set(&tree, to.as_bytes(), Some(&entry.encode()))?;
        let committed = txn.commit(self.durability());
        self.change_names();
        // A commit whose flush failed is visible all the same.
        if committed.is_err() && self.look_up(from)?.is_some() {
            return committed.map(|_| ());
        }
        // Open handles stay good: they know the tree.
        if let Some(known) = names.remove(from) {
            let seen = AtomicU64::new(self.names_changed());
            let named = Named { name: to.to_owned(), tree: known.tree.clone(), removed: Arc::clone(&known.removed), seen };
            names.insert(to.to_owned(), Arc::new(named));
        }
        committed.map(|_| ())
    }

    /// Removes a database and all its records. False if there was none.
    pub(crate) fn remove_database(&self, name: &str) -> Result<bool> {
        catalog::check_name(name)?;
        let mut names = lock(&self.names);
        let Some(entry) = self.look_up(name)? else { return Ok(false) };
        let tree = catalog::catalog_tree();
        let mut txn = self.catalog_txn()?;
        txn.set(&tree, name.as_bytes(), None)?;
        txn.set(&tree, &catalog::dropped_key(entry.tree), Some(&entry.encode()))?;
        let committed = txn.commit(self.durability());
        self.change_names();
        // A commit whose flush failed is visible all the same.
        if committed.is_err() && self.look_up(name)?.is_some() {
            return committed.map(|_| true);
        }
        if let Some(known) = names.remove(name) {
            known.removed.store(true, StdOrdering::Release);
        }
        committed?;
        self.free_tree(&entry)?;
        Ok(true)
    }

    /// Frees what removals that a crash cut short have left.
    pub(super) fn finish_drops(&self) -> Result<()> {
        for (key, value) in self.catalog_records()? {
            if !catalog::is_name(&key) {
                self.free_tree(&CatalogEntry::decode(&key, &value)?)?;
            }
        }
        Ok(())
    }

    fn free_tree(&self, entry: &CatalogEntry) -> Result<()> {
        // Freeing looks at pages, not keys, so the comparator does not matter.
        let tree = entry.tree(None, None);
        while self.kernel.free_some(&tree)? {}
        let catalog = catalog::catalog_tree();
        self.kernel.free_root(&tree, &catalog, &catalog::dropped_key(entry.tree), self.durability())
    }
}

/// Looks at the catalog again when the snapshot was given up for want of cache: any other does as well.
fn at_any_snapshot<T>(mut look: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match look() {
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
            seen => return seen,
        }
    }
}

fn check_comparator(name: &str, tree: &TreeRef, wanted: Option<&str>) -> Result<()> {
    let has = tree.comparator.as_ref().map(|comparator| comparator.name.as_str());
    if wanted.is_none() || wanted == has {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the database {name:?} is ordered {}, and was asked for as ordered by the comparator {:?}",
        has.map_or("by bytes".to_owned(), |has| format!("by the comparator {has:?}")),
        wanted.unwrap_or_default()
    )))
}

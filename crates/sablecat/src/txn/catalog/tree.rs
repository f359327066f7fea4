//! A tree as a process knows it: where it is, how its records are arranged, and what has to do with them.

use std::ops::Deref;
use std::sync::Arc;

use super::entry::CatalogEntry;
use super::follow::Follow;
use super::lapse::{BY_EXPIRY, Lapse};
use super::presence::{Presence, PresenceState};
use super::{Holds, note_key};
use crate::access::{HashTable, Hashing};
use crate::access::{Home, KeyRule, Method, Order, Tree};
use crate::error::{Error, Result};
use crate::log::RecordKind;
use crate::txn::options::Durability;
use crate::types::{PageId, TreeId, VolumeId};

/// A tree, as the process remembers it: what is known of it, shared by all that name it. Each transaction
/// keeps one of each tree that it reads or changes, and counts that in one place.
#[derive(Clone)]
pub(crate) struct TreeRef(Arc<KnownTree>);

impl Deref for TreeRef {
    type Target = KnownTree;

    #[inline(always)]
    fn deref(&self) -> &KnownTree {
        &self.0
    }
}

/// What a process knows of a tree.
#[derive(Clone)]
pub(crate) struct KnownTree {
    pub(crate) id: TreeId,
    pub(crate) root: PageId,
    /// How its records are arranged.
    pub(crate) method: Method,
    pub(crate) comparator: Option<Arc<Comparator>>,
    /// The volume of its pages.
    pub(crate) volume: VolumeId,
    /// Which of its records go elsewhere; none: none.
    pub(crate) keys: Option<Arc<[KeyRule]>>,
    /// Whether it is still a database's; none: nobody can take it away.
    pub(crate) presence: Option<Arc<Presence>>,
    /// What follows its records; none: nothing.
    pub(crate) follower: Option<Arc<dyn Follow>>,
    /// Whether its records lapse.
    pub(crate) lapse: Lapse,
    /// Nothing is logged of its records, which are gone when the environment is opened afresh.
    pub(crate) temporary: bool,
}

/// A user's order of keys, by the name that the catalog remembers it under; or that of a hash table.
pub(crate) struct Comparator {
    pub(crate) name: String,
    pub(crate) compare: CompareFn,
    /// It is none of a user's, but that of a hash table.
    pub(crate) table: Option<HashTable>,
}

impl Comparator {
    /// A user's.
    pub(crate) fn new(
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> std::cmp::Ordering + Send + Sync + 'static,
    ) -> Comparator {
        Comparator { name: name.to_owned(), compare: Box::new(compare), table: None }
    }

    /// The order of a hash table.
    pub(crate) fn by_hash(hashing: Hashing) -> Comparator {
        let compare = move |one: &[u8], other: &[u8]| hashing.compare(one, other);
        Comparator { table: Some(HashTable::new(hashing)), ..Comparator::new("", compare) }
    }
}

/// A user's order of keys.
pub(crate) type CompareFn = Box<dyn Fn(&[u8], &[u8]) -> std::cmp::Ordering + Send + Sync>;

impl std::fmt::Debug for Comparator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl From<KnownTree> for TreeRef {
    fn from(tree: KnownTree) -> TreeRef {
        TreeRef(Arc::new(tree))
    }
}

impl TreeRef {
    /// The same tree, of which something else is known.
    pub(crate) fn with(&self, change: impl FnOnce(&mut KnownTree)) -> TreeRef {
        let mut known = KnownTree::clone(self);
        change(&mut known);
        known.into()
    }
}

impl std::fmt::Debug for TreeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TreeRef").field("id", &self.id).field("root", &self.root).finish_non_exhaustive()
    }
}

impl KnownTree {
    /// The tree as the access methods want it.
    #[inline]
    pub(crate) fn tree(&self) -> Tree<'_> {
        let order = match &self.comparator {
            Some(comparator) => match &comparator.table {
                Some(table) => Order::Hashed(table),
                None => Order::Custom(&*comparator.compare),
            },
            None => Order::Bytes,
        };
        let home = Home { volume: self.volume, keys: self.keys.as_deref().unwrap_or_default() };
        Tree { id: self.id, root: self.root, method: self.method, order, home }
    }

    /// The kind of the log record of a commit that changes this tree alone: one of a temporary tree only
    /// gives the commit its place.
    #[inline]
    pub(in crate::txn) fn record_kind(&self) -> RecordKind {
        if self.temporary { RecordKind::Filler } else { RecordKind::Commit }
    }

    /// How durable a commit that changes this tree alone is to be made: of a temporary tree there is nothing
    /// that a flush would keep.
    #[inline]
    pub(in crate::txn) fn durability(&self, asked: Durability) -> Durability {
        if self.temporary { Durability::Memory } else { asked }
    }

    /// Whether a transaction in progress is making it: then it has nothing but what is pending there.
    #[inline]
    pub(in crate::txn) fn is_new(&self) -> bool {
        self.presence.as_ref().is_some_and(|presence| matches!(presence.state(), PresenceState::New(_)))
    }

    /// Whether it was found to be no database's any more.
    #[cold]
    pub(in crate::txn) fn is_gone(&self) -> bool {
        self.presence.as_ref().is_some_and(|presence| presence.state() == PresenceState::Gone)
    }
}

impl CatalogEntry {
    /// What its keys are ordered by, if that is not their bytes: the comparator that has been found for it,
    /// or their hashes.
    ///
    /// # Errors
    /// Corruption if it is a hash table without a seed.
    pub(crate) fn order(
        &self,
        key: &[u8],
        comparator: Option<Arc<Comparator>>,
        page_size: usize,
    ) -> Result<Option<Arc<Comparator>>> {
        if !Method::of(self.method).is_some_and(Method::hashes) {
            return Ok(comparator);
        }
        match self.seed {
            Some(seed) => Ok(Some(Arc::new(Comparator::by_hash(Hashing::new(seed, page_size))))),
            None => Err(Error::corruption(format!(
                "the catalog's entry for {:?} is that of a hash table, and has no seed",
                String::from_utf8_lossy(key)
            ))),
        }
    }

    /// The tree of a key of the catalog, once its order has been found, and which of its records go into
    /// other volumes than it.
    ///
    /// # Errors
    /// As [`CatalogEntry::method`].
    pub(crate) fn tree(
        &self,
        key: &[u8],
        comparator: Option<Arc<Comparator>>,
        keys: Option<Arc<[KeyRule]>>,
    ) -> Result<TreeRef> {
        let method = self.method(key)?;
        Ok(TreeRef::from(KnownTree {
            id: self.tree,
            root: self.root,
            method,
            comparator,
            volume: self.volume,
            keys,
            presence: None,
            follower: None,
            lapse: self.lapse(),
            temporary: self.temporary,
        }))
    }

    /// Whether its records lapse.
    fn lapse(&self) -> Lapse {
        match &self.relations.index {
            Some(index) if index.extractor == BY_EXPIRY => Lapse::Entries,
            None if self.holds == Holds::Expiring => Lapse::Records,
            _ => Lapse::Never,
        }
    }

    /// The tree of a note. What is done with it looks at pages, not keys, so neither order nor placement
    /// matters.
    ///
    /// # Errors
    /// As [`CatalogEntry::method`].
    pub(crate) fn tree_of_note(&self) -> Result<TreeRef> {
        self.tree(&note_key(self.tree), None, None)
    }
}

/// Refuses keys and values that a tree of pages of `page_size` bytes cannot hold.
#[inline]
pub(in crate::txn) fn check_record(
    tree: &Tree<'_>,
    page_size: usize,
    key: &[u8],
    value_len: usize,
) -> Result<()> {
    tree.check_key(page_size, key)?;
    if value_len as u64 > u64::from(u32::MAX) {
        return Err(Error::invalid(format!(
            "a value of {value_len} bytes; values can have 4294967295 at most"
        )));
    }
    Ok(())
}

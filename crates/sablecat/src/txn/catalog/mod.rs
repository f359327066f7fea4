//! The catalog: which databases there are. A tree like any other, with a fixed number and a fixed root.
//!
//! ```text
//! key    name of the database; or 0x00 'd' tree-number (big-endian): the note of a tree that has no name,
//!        and is to be freed
//! value  what there is to say of the tree (entry.rs)
//! ```
//!
//! Names are UTF-8, not empty, and do not begin with a zero byte. A tree has a name or a note, never both
//! and, as long as it has pages, never neither. So whatever cuts short the making or the removal of a
//! database leaves a note that says what is to be freed. Removing takes the name and leaves a note; making
//! leaves a note with an empty tree, in a commit of its own, and then gives the tree a name instead.
//!
//! Changes of the catalog are logged as ordinary changes of tree 1. The log cannot know at which page a
//! replayed tree's root will be, so replay gives a tree it has not seen a root of its own, and writes that
//! into the record.
//!
//! The log does not say what a record was before it changed. So a transaction that takes a name from a tree
//! also deletes a third kind of key, which is never in the catalog: it tells readers of the log which name
//! the tree had until then. Nothing else heeds it.
//!
//! ```text
//! key    0x00 'w' tree-number (big-endian) name; without a name: it had none, and the same transaction made
//!        it
//! ```
//!
//! A note says which process sees to it (notes.rs).
//!
//! Up to version 2 of entries a tree was made together with its name, and what replayed a log took no heed of
//! notes that were deleted: it would free what has been given a name since.

pub(in crate::txn) mod entry;
pub(crate) mod follow;
mod holds;
pub(crate) mod lapse;
pub(crate) mod meaning;
pub(crate) mod presence;
pub(crate) mod relation;
pub(in crate::txn) mod tree;

pub(crate) use entry::{CatalogEntry, Listed, OPTION_BYTES_MAX};
pub use holds::{Duplicates, Holds};
pub(crate) use lapse::Lapse;
pub(crate) use presence::{KnownDatabase, Looked, Presence};
pub use relation::{IndexInfo, OnRemove};
pub(in crate::txn) use tree::check_record;
pub(crate) use tree::{Comparator, KnownTree, TreeRef};

use std::ops::Bound::{Included, Unbounded};
use std::sync::LazyLock;

use crate::access::{Method, Scan, StateSource};
use crate::error::{Error, Result};
use crate::types::{PageId, TreeId, VolumeId};

/// The catalog's own tree.
pub(crate) const CATALOG: TreeId = TreeId(1);
/// Its root.
pub(crate) const CATALOG_ROOT: PageId = PageId(1);
/// The first tree number that databases get.
pub(crate) const FIRST_TREE: u32 = 16;

/// The longest name.
const NAME_BYTES_MAX: usize = 48;

/// The catalog as a tree.
pub(crate) fn catalog_tree() -> &'static TreeRef {
    static TREE: LazyLock<TreeRef> = LazyLock::new(|| {
        TreeRef::from(KnownTree {
            id: CATALOG,
            root: CATALOG_ROOT,
            method: Method::Btree,
            comparator: None,
            volume: VolumeId::MAIN,
            keys: None,
            presence: None,
            follower: None,
            lapse: Lapse::Never,
            temporary: false,
        })
    });
    &TREE
}

/// Refuses names that the catalog cannot hold.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('\0') {
        return Err(Error::invalid(format!(
            "{name:?} as the name of a database; names have 1 to {NAME_BYTES_MAX} bytes and do not begin \
             with a zero byte"
        )));
    }
    Ok(())
}

/// The key of the note that a tree is to be freed.
pub(crate) fn note_key(tree: TreeId) -> Vec<u8> {
    let mut key = b"\0d".to_vec();
    key.extend(tree.0.to_be_bytes());
    key
}

/// The key that, deleted, says in the log which name a tree had.
pub(crate) fn former_key(tree: TreeId, name: &[u8]) -> Vec<u8> {
    let mut key = b"\0w".to_vec();
    key.extend(tree.0.to_be_bytes());
    key.extend(name);
    key
}

/// What a key of the catalog says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CatalogKey<'a> {
    /// The name of a database.
    Name(&'a [u8]),
    /// The note of a tree.
    Note(TreeId),
    /// That a tree had a name, which is empty if it had none.
    Former(TreeId, &'a [u8]),
    /// Nothing that this build knows.
    Unknown,
}

impl<'a> CatalogKey<'a> {
    pub(crate) fn of(key: &'a [u8]) -> CatalogKey<'a> {
        match key {
            [0, kind, a, b, c, d, name @ ..] => match (kind, TreeId(u32::from_be_bytes([*a, *b, *c, *d]))) {
                (b'd', tree) if name.is_empty() => CatalogKey::Note(tree),
                (b'w', tree) => CatalogKey::Former(tree, name),
                _ => CatalogKey::Unknown,
            },
            key if is_name(key) => CatalogKey::Name(key),
            _ => CatalogKey::Unknown,
        }
    }
}

/// Whether a catalog key is a database's name. If not, it is a note's.
pub(crate) fn is_name(key: &[u8]) -> bool {
    key.first().is_some_and(|&byte| byte != 0)
}

/// All records of the catalog.
pub(crate) fn records(state: &mut impl StateSource) -> Result<Vec<(Vec<u8>, CatalogEntry)>> {
    records_between(state, Scan::new(Unbounded, Unbounded))
}

/// The record of a key of the catalog.
pub(crate) fn record(state: &mut impl StateSource, key: &[u8]) -> Result<Option<CatalogEntry>> {
    let found = records_between(state, Scan::new(Included(key.to_vec()), Included(key.to_vec())))?;
    Ok(found.into_iter().next().map(|(_, entry)| entry))
}

fn records_between(state: &mut impl StateSource, mut scan: Scan) -> Result<Vec<(Vec<u8>, CatalogEntry)>> {
    let tree = catalog_tree();
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next(&tree.tree(), state, true)? {
        // In small pages a long name leaves little room beside it.
        let entry = CatalogEntry::decode(&key, &state.load(value)?)?;
        found.push((key, entry));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_it_was_made_as() {
        let tree = TreeId(0x0102_0304);
        assert_eq!(CatalogKey::of(b"letters"), CatalogKey::Name(b"letters"));
        assert_eq!(CatalogKey::of(&note_key(tree)), CatalogKey::Note(tree));
        assert_eq!(CatalogKey::of(&former_key(tree, b"letters")), CatalogKey::Former(tree, b"letters"));
        assert_eq!(CatalogKey::of(&former_key(tree, b"")), CatalogKey::Former(tree, b""));
        for unknown in [&b""[..], b"\0", b"\0d\0\0", b"\0d\0\0\0\x01more", b"\0x\0\0\0\x01"] {
            assert_eq!(CatalogKey::of(unknown), CatalogKey::Unknown);
        }
    }
}

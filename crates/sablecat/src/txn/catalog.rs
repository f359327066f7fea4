//! The catalog: which databases there are. A tree like any other, with a fixed number and a fixed root.
//!
//! ```text
//! key    name of the database; or 0x00 'd' tree-number (big-endian): the note of a tree that has no name, and is to be freed
//! value  version u8 = 3 | flags u8 | tree u32 | root page u32 | volume u8 | comparator's name, to the end
//! note   version u8 = 5 | flags u8 | tree u32 | root page u32 | volume u8 | its maker's member u16 | incarnation u32 | comparator's name, to the end
//! flags  1: ordered by a comparator; in a note of version 4 or 5, 2: pages that its records name as made are to be freed with it; 4: those named as replaced
//! ```
//!
//! Names are UTF-8, not empty, and do not begin with a zero byte. A tree has a name or a note, never both and, as long as it has pages, never
//! neither: so whatever cuts short the making or the removal of a database leaves a note that says what is to be freed. Removing takes the name
//! and leaves a note; making leaves a note with an empty tree, in a commit of its own, and then gives the tree a name instead.
//!
//! Changes of the catalog are logged as ordinary changes of tree 1. The log cannot know at which page a replayed tree's root will be, so replay
//! gives a tree it has not seen a root of its own, and writes that into the record.
//!
//! The log does not say what a record was before it changed. So whoever takes a name from a tree also deletes a third kind of key, which is never in the catalog: for who reads
//! the log it says which name the tree had until then. Nothing else heeds it.
//!
//! ```text
//! key    0x00 'w' tree-number (big-endian) name; without a name: it had none, and the same transaction made it
//! ```
//!
//! A note says which process sees to it (notes.rs). Up to version 4 it did not, and 4 was that of notes of lists (listed.rs) alone, so that a build which does not
//! know of them frees none and keeps what they name.
//!
//! Version 1 had no volume; everything was in the main one. Up to version 2 a tree was made together with its name, and what replayed a log
//! took no heed of notes that were deleted: it would free what has been given a name since.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use super::{Comparator, TreeRef};
use crate::access::{Found, KeyRule, Method, Scan, Source};
use crate::error::{Error, Result};
use crate::region::Standing;
use crate::types::{PageId, TreeId, VolumeId};

/// The catalog's own tree.
pub(crate) const CATALOG: TreeId = TreeId(1);
/// Its root.
pub(crate) const CATALOG_ROOT: PageId = PageId(1);
/// The first tree number that databases get.
pub(crate) const FIRST_TREE: u32 = 16;

const VERSION: u8 = 3;
/// Of the notes of lists, while notes did not say who had made them.
const LIST_OF_NOBODY: u8 = 4;
/// Of notes.
const NOTE_VERSION: u8 = 5;
/// The oldest that it reads.
const VERSION_MIN: u8 = 1;
const CUSTOM: u8 = 1;
const MADE: u8 = 2;
const REPLACED: u8 = 4;
const VOLUME_AT: usize = 10;
const HEADER_BYTES: usize = 11;
const MAKER_BYTES: usize = 6;
/// The longest name.
const NAME_BYTES_MAX: usize = 48;

/// The catalog as a tree.
pub(crate) fn catalog_tree() -> TreeRef {
    TreeRef { id: CATALOG, root: CATALOG_ROOT, comparator: None, volume: VolumeId::MAIN, keys: None, presence: None }
}

/// What the catalog says of a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CatalogEntry {
    pub(crate) tree: TreeId,
    pub(crate) root: PageId,
    /// The volume of its pages.
    pub(crate) volume: VolumeId,
    pub(crate) comparator: Option<String>,
    /// Whether it is a list of pages, and which of them are to be freed with it.
    pub(crate) list: Option<Listed>,
    /// In a note, the process that sees to it.
    pub(crate) maker: Option<Standing>,
}

/// What a list names of a commit that builds trees anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listed {
    /// Pages made for it: to be freed if it does not come about.
    Made,
    /// Pages that it replaces: to be freed if it does.
    Replaced,
}

impl CatalogEntry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let version = match (self.maker, self.list) {
            (Some(_), _) => NOTE_VERSION,
            (None, Some(_)) => LIST_OF_NOBODY,
            (None, None) => VERSION,
        };
        let list = match self.list {
            None => 0,
            Some(Listed::Made) => MADE,
            Some(Listed::Replaced) => REPLACED,
        };
        let mut bytes = vec![version, list | if self.comparator.is_some() { CUSTOM } else { 0 }];
        bytes.extend(self.tree.0.to_le_bytes());
        bytes.extend(self.root.0.to_le_bytes());
        bytes.push(self.volume.0);
        if let Some(Standing { member, incarnation }) = self.maker {
            bytes.extend(member.to_le_bytes());
            bytes.extend(incarnation.to_le_bytes());
        }
        bytes.extend(self.comparator.as_deref().unwrap_or_default().as_bytes());
        bytes
    }

    pub(crate) fn decode(name: &[u8], bytes: &[u8]) -> Result<CatalogEntry> {
        let wrong = |why: &str| Error::corruption(format!("the catalog's entry for {:?} {why}", String::from_utf8_lossy(name)));
        let version = bytes.first().copied().unwrap_or_default();
        if !(VERSION_MIN..=NOTE_VERSION).contains(&version) {
            return Err(wrong("has a version this build does not know"));
        }
        let header_bytes = match version {
            VERSION_MIN => VOLUME_AT,
            NOTE_VERSION => HEADER_BYTES + MAKER_BYTES,
            _ => HEADER_BYTES,
        };
        if bytes.len() < header_bytes {
            return Err(wrong("is too short"));
        }
        let volume = if version == VERSION_MIN { VolumeId::MAIN } else { VolumeId(bytes[VOLUME_AT]) };
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let comparator =
            String::from_utf8(bytes[header_bytes..].to_vec()).map_err(|_| wrong("names its comparator in bytes that are no text"))?;
        let comparator = (bytes[1] & CUSTOM != 0).then_some(comparator);
        let list = match bytes[1] & (MADE | REPLACED) {
            _ if version < LIST_OF_NOBODY => None,
            0 if version == NOTE_VERSION => None,
            MADE => Some(Listed::Made),
            REPLACED => Some(Listed::Replaced),
            _ => return Err(wrong("is a list and does not say of what")),
        };
        let maker = (version == NOTE_VERSION).then(|| Standing {
            member: u16::from_le_bytes([bytes[HEADER_BYTES], bytes[HEADER_BYTES + 1]]),
            incarnation: word(HEADER_BYTES + 2),
        });
        Ok(CatalogEntry { tree: TreeId(word(2)), root: PageId(word(6)), volume, comparator, list, maker })
    }

    /// The same as the entry of a name.
    pub(crate) fn named(&self) -> CatalogEntry {
        CatalogEntry { maker: None, ..self.clone() }
    }

    /// Makes the tree's root page, with nothing in it.
    pub(crate) fn form_root(&self, bytes: &mut [u8]) {
        Method::Btree.format(bytes, self.tree, self.root, self.comparator.is_some());
    }

    /// The tree, once its comparator has been found, and which of its records go into other volumes than it.
    pub(crate) fn tree(&self, comparator: Option<Arc<Comparator>>, keys: Option<Arc<[KeyRule]>>) -> TreeRef {
        TreeRef { id: self.tree, root: self.root, comparator, volume: self.volume, keys, presence: None }
    }
}

/// Refuses names that the catalog cannot hold.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('\0') {
        return Err(Error::invalid(format!(
            "{name:?} as the name of a database; names have 1 to {NAME_BYTES_MAX} bytes and do not begin with a zero byte"
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
pub(crate) enum Key<'a> {
    /// The name of a database.
    Name(&'a [u8]),
    /// The note of a tree.
    Note(TreeId),
    /// That a tree had a name, which is empty if it had none.
    Former(TreeId, &'a [u8]),
    /// Nothing that this build knows.
    Unknown,
}

impl<'a> Key<'a> {
    pub(crate) fn of(key: &'a [u8]) -> Key<'a> {
        match key {
            [0, kind, a, b, c, d, name @ ..] => match (kind, TreeId(u32::from_be_bytes([*a, *b, *c, *d]))) {
                (b'd', tree) if name.is_empty() => Key::Note(tree),
                (b'w', tree) => Key::Former(tree, name),
                _ => Key::Unknown,
            },
            key if is_name(key) => Key::Name(key),
            _ => Key::Unknown,
        }
    }
}

/// Whether a catalog key is a database's name. If not, it is a note's.
pub(crate) fn is_name(key: &[u8]) -> bool {
    key.first().is_some_and(|&byte| byte != 0)
}

/// All records of the catalog.
pub(crate) fn records(source: &mut impl Source) -> Result<Vec<(Vec<u8>, CatalogEntry)>> {
    records_between(source, Scan::new(Unbounded, Unbounded))
}

/// The record of a key of the catalog.
pub(crate) fn record(source: &mut impl Source, key: &[u8]) -> Result<Option<CatalogEntry>> {
    let found = records_between(source, Scan::new(Included(key.to_vec()), Included(key.to_vec())))?;
    Ok(found.into_iter().next().map(|(_, entry)| entry))
}

fn records_between(source: &mut impl Source, mut scan: Scan) -> Result<Vec<(Vec<u8>, CatalogEntry)>> {
    let tree = catalog_tree();
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next(&tree.tree(), source, true)? {
        match value {
            Found::Bytes(value) => {
                let entry = CatalogEntry::decode(&key, &value)?;
                found.push((key, entry));
            }
            Found::Long(..) => return Err(Error::corruption("a record of the catalog has a long value")),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_it_was_made_as() {
        let tree = TreeId(0x0102_0304);
        assert_eq!(Key::of(b"letters"), Key::Name(b"letters"));
        assert_eq!(Key::of(&note_key(tree)), Key::Note(tree));
        assert_eq!(Key::of(&former_key(tree, b"letters")), Key::Former(tree, b"letters"));
        assert_eq!(Key::of(&former_key(tree, b"")), Key::Former(tree, b""));
        for unknown in [&b""[..], b"\0", b"\0d\0\0", b"\0d\0\0\0\x01more", b"\0x\0\0\0\x01"] {
            assert_eq!(Key::of(unknown), Key::Unknown);
        }
    }

    #[test]
    fn an_entry_is_what_was_encoded_and_older_ones_are_read() {
        let entry = |volume| CatalogEntry {
            tree: TreeId(17),
            root: PageId(4711),
            volume,
            comparator: Some("order".into()),
            list: None,
            maker: None,
        };
        let bytes = entry(VolumeId(3)).encode();
        assert_eq!(bytes, b"\x03\x01\x11\0\0\0\x67\x12\0\0\x03order");
        assert_eq!(CatalogEntry::decode(b"d", &bytes).expect("good"), entry(VolumeId(3)));
        let of_version_2 = b"\x02\x01\x11\0\0\0\x67\x12\0\0\x03order";
        assert_eq!(CatalogEntry::decode(b"d", of_version_2).expect("good"), entry(VolumeId(3)));
        let of_version_1 = b"\x01\x01\x11\0\0\0\x67\x12\0\0order";
        assert_eq!(CatalogEntry::decode(b"d", of_version_1).expect("good"), entry(VolumeId::MAIN));
        for list in [Some(Listed::Made), Some(Listed::Replaced)] {
            let note = CatalogEntry { list, ..entry(VolumeId(0)) };
            assert_eq!(note.encode()[0], 4);
            assert_eq!(CatalogEntry::decode(b"d", &note.encode()).expect("good"), note);
        }
        let maker = Some(Standing { member: 0x102, incarnation: 0x0304_0507 });
        for list in [None, Some(Listed::Made), Some(Listed::Replaced)] {
            let note = CatalogEntry { list, maker, ..entry(VolumeId(0)) };
            assert_eq!(CatalogEntry::decode(b"d", &note.encode()).expect("good"), note);
            assert_eq!(CatalogEntry::decode(b"d", &note.named().encode()).expect("good").maker, None);
        }
        let note = CatalogEntry { maker, ..entry(VolumeId(3)) }.encode();
        assert_eq!(note, b"\x05\x01\x11\0\0\0\x67\x12\0\0\x03\x02\x01\x07\x05\x04\x03order");
        for wrong in [
            &b""[..],
            b"\x01\x01\x11",
            &bytes[..10],
            b"\x04\x01\x11\0\0\0\x67\x12\0\0\x03",
            b"\x06\x01\x11\0\0\0\x67\x12\0\0\x03order",
            &note[..16],
        ] {
            assert!(CatalogEntry::decode(b"d", wrong).expect_err("wrong").is_corruption());
        }
    }
}

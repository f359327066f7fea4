//! What the operations of the log mean, apart from how it is carried out.
//!
//! The rules of the catalog stand here once. Recovery carries out what they come to in place, on pages
//! (env/recovery/recover.rs); a follower of the log says it by the names of databases
//! (env/streams/naming.rs), and sets it in transactions elsewhere (api/follower.rs).

use super::{CATALOG, CatalogEntry, CatalogKey};
use crate::access::KeyBounds;
use crate::error::{Error, Result};
use crate::log::LogOperation;
use crate::types::TreeId;

/// What one operation means.
#[derive(Debug)]
pub(crate) enum Meaning<'a> {
    /// A record of a tree has this value from here on; none: it is gone.
    Record { tree: TreeId, key: &'a [u8], value: Option<&'a [u8]> },
    /// No record of a tree between two bounds is there from here on.
    Range { tree: TreeId, bounds: KeyBounds<'a> },
    /// A name of a database, or the note that a tree is to be freed, stands for a tree from here on. A tree
    /// that was not there is made, empty.
    Stands { key: &'a [u8], entry: CatalogEntry },
    /// A name stands for nothing from here on.
    Unnamed { name: &'a [u8] },
    /// The note of a tree goes: its pages are free, or it has a name by the same commit.
    Unnoted { tree: TreeId },
    /// Before this commit a tree had this name; empty: none, since its transaction made it.
    Formerly { tree: TreeId, name: &'a [u8] },
    /// Nothing that this build knows, and nothing that it has to.
    Nothing,
}

impl<'a> Meaning<'a> {
    /// # Errors
    /// `Corruption` if a record of the catalog is none.
    pub(crate) fn of(operation: LogOperation<'a>) -> Result<Meaning<'a>> {
        Ok(match operation {
            LogOperation::Put { tree: CATALOG, key, value } => {
                Meaning::Stands { key, entry: CatalogEntry::decode(key, value)? }
            }
            LogOperation::Delete { tree: CATALOG, key } => match CatalogKey::of(key) {
                CatalogKey::Name(name) => Meaning::Unnamed { name },
                CatalogKey::Note(tree) => Meaning::Unnoted { tree },
                CatalogKey::Former(tree, name) => Meaning::Formerly { tree, name },
                CatalogKey::Unknown => Meaning::Nothing,
            },
            LogOperation::DeleteRange { tree: CATALOG, .. } => {
                return Err(Error::corruption(
                    "the log removes a range of the catalog, which no version of the library does",
                ));
            }
            LogOperation::DeleteRange { tree, lower, upper } => {
                Meaning::Range { tree, bounds: (lower, upper) }
            }
            LogOperation::Put { tree, key, value } => Meaning::Record { tree, key, value: Some(value) },
            LogOperation::Delete { tree, key } => Meaning::Record { tree, key, value: None },
        })
    }
}

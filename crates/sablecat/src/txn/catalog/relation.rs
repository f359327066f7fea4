//! How databases are related, as the catalog says it: which is an index of which, and whose keys must be
//! those of another.
//!
//! Each relation is said at both of its ends, so that a transaction that writes to one knows of the other:
//!
//! ```text
//! option 0x83  of a primary:             tree of an index u32 | its name
//! option 0x84  of a referenced database: tree of an index whose keys are its keys u32 | its name
//! option 0x85  of an index:              flags u8, 1: unique | bytes of the primary's name u8 | that name
//!                                        | the extractor's name
//! option 0x86  of an index:              u8, on removal 0: refuse, 1: cascade, 2: nullify
//!                                        | bytes of the referenced database's name u8 | that name
//!                                        | the nullifier's name
//! ```
//!
//! The first two come once for each such index. A build that does not know one of these leaves the database
//! alone: it would not keep the index. What an index is never changes but for names; the number of its tree
//! tells it from another that has its name later on.

use crate::types::TreeId;

/// The bit of an option's tag that says that the tag must be known.
const MUST_BE_KNOWN: u8 = 0x80;
const INDEXED_BY: u8 = MUST_BE_KNOWN | 3;
const REFERRED_BY: u8 = MUST_BE_KNOWN | 4;
const INDEX_OF: u8 = MUST_BE_KNOWN | 5;
const REFERENCES: u8 = MUST_BE_KNOWN | 6;

const UNIQUE: u8 = 1;
const REFUSE: u8 = 0;
const CASCADE: u8 = 1;
const NULLIFY: u8 = 2;

/// The longest name of an extractor or nullifier.
pub(crate) const FUNCTION_NAME_BYTES_MAX: usize = 255;

/// What kind of index it is, and of which database.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IndexInfo {
    /// The name of the primary database: the one that has the records.
    pub primary: String,
    /// The name of the extractor that says which index keys a record has.
    pub extractor: String,
    /// Whether no two records may have the same index key.
    pub unique: bool,
    /// The name of the database whose keys the index keys must be, and what happens on removals there; none
    /// if there are no references.
    pub references: Option<(String, OnRemove)>,
}

/// What happens to the records that refer to a removed record: see
/// [`IndexOptions::references`](crate::IndexOptions::references).
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum OnRemove {
    /// The removal is refused.
    Refuse,
    /// The records that refer to it are removed too, and so are those that refer to them, and so on.
    Cascade,
    /// The nullifier of this name ([`Builder::nullifier`](crate::Builder::nullifier)) changes the records
    /// that refer to it, so that they do not refer to it any more.
    Nullify(String),
}

impl IndexInfo {
    pub(crate) fn new(primary: String, extractor: String, unique: bool) -> IndexInfo {
        IndexInfo { primary, extractor, unique, references: None }
    }
}

/// An index that a database has, or that refers to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RelatedIndex {
    pub(crate) name: String,
    pub(crate) tree: TreeId,
}

/// The relations of one database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Relations {
    /// Its indices.
    pub(crate) indices: Vec<RelatedIndex>,
    /// The indices of others whose keys must be its keys.
    pub(crate) referred_by: Vec<RelatedIndex>,
    /// What it is an index of.
    pub(crate) index: Option<IndexInfo>,
}

/// Why the bytes of an option are none.
const BAD: &str = "has an option for an index that cannot be read";

impl Relations {
    /// What a transaction that writes to the database has to know: its own relations as a primary. Empty:
    /// nothing.
    pub(crate) fn followers(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (tag, related) in [(INDEXED_BY, &self.indices), (REFERRED_BY, &self.referred_by)] {
            related.iter().for_each(|one| put(&mut bytes, tag, &one.encode()));
        }
        bytes
    }

    /// Adds the options of an entry that say all this.
    pub(in crate::txn) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.followers());
        let Some(index) = &self.index else { return };
        let flags = if index.unique { UNIQUE } else { 0 };
        put(bytes, INDEX_OF, &two_names(flags, &index.primary, &index.extractor));
        if let Some((database, on_remove)) = &index.references {
            let (action, nullifier) = match on_remove {
                OnRemove::Refuse => (REFUSE, ""),
                OnRemove::Cascade => (CASCADE, ""),
                OnRemove::Nullify(name) => (NULLIFY, &name[..]),
            };
            put(bytes, REFERENCES, &two_names(action, database, nullifier));
        }
    }

    /// Takes an option of an entry in; false if it is of something else.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in crate::txn) fn decode(&mut self, tag: u8, option: &[u8]) -> Result<bool, &'static str> {
        match tag {
            INDEXED_BY => self.indices.push(RelatedIndex::decode(option)?),
            REFERRED_BY => self.referred_by.push(RelatedIndex::decode(option)?),
            INDEX_OF => {
                let (flags, primary, extractor) = names_of(option)?;
                if flags & !UNIQUE != 0 || self.index.is_some() {
                    return Err(BAD);
                }
                self.index = Some(IndexInfo::new(primary, extractor, flags == UNIQUE));
            }
            REFERENCES => {
                let (action, database, nullifier) = names_of(option)?;
                let on_remove = match action {
                    REFUSE => OnRemove::Refuse,
                    CASCADE => OnRemove::Cascade,
                    NULLIFY => OnRemove::Nullify(nullifier),
                    _ => return Err(BAD),
                };
                // It comes after what it is of.
                let index = self.index.as_mut().filter(|index| index.references.is_none()).ok_or(BAD)?;
                index.references = Some((database, on_remove));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl RelatedIndex {
    fn encode(&self) -> Vec<u8> {
        [&self.tree.0.to_le_bytes()[..], self.name.as_bytes()].concat()
    }

    fn decode(option: &[u8]) -> Result<RelatedIndex, &'static str> {
        let (tree, name) = option.split_first_chunk::<4>().ok_or(BAD)?;
        Ok(RelatedIndex { name: text(name)?, tree: TreeId(u32::from_le_bytes(*tree)) })
    }
}

fn put(bytes: &mut Vec<u8>, tag: u8, option: &[u8]) {
    bytes.push(tag);
    bytes.extend((option.len() as u16).to_le_bytes());
    bytes.extend(option);
}

fn two_names(flags: u8, one: &str, other: &str) -> Vec<u8> {
    [&[flags, one.len() as u8], one.as_bytes(), other.as_bytes()].concat()
}

fn names_of(option: &[u8]) -> Result<(u8, String, String), &'static str> {
    let ([flags, len], rest) = option.split_first_chunk::<2>().ok_or(BAD)?;
    let (one, other) = rest.split_at_checked(usize::from(*len)).ok_or(BAD)?;
    Ok((*flags, text(one)?, text(other)?))
}

fn text(bytes: &[u8]) -> Result<String, &'static str> {
    String::from_utf8(bytes.to_vec()).map_err(|_| BAD)
}

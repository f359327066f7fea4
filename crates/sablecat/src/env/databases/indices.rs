//! Indices as a process keeps them: what follows the records of a primary database, and of a database that
//! records of others refer to.
//!
//! The catalog says which indices there are to keep (txn/catalog/relation.rs). It names functions, and a
//! program gives these when it opens the environment. A program that lacks one reads as always, and fails
//! when it writes. An index's records:
//!
//! ```text
//! key    index key, escaped, with an end | key of the primary's record    value  nothing
//! if the index is unique:
//! key    index key, escaped, with an end                                  value  key of the primary's record
//! ```
//!
//! The key of a unique index's record is the same for all transactions that want one index key. So these are
//! in each other's way, as transactions that change one record are.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::Databases;
use crate::access::SetOrRemove;
use crate::env::config::{Extractor, Functions};
use crate::env::placed;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::catalog::CatalogEntry;
use crate::txn::pairs::{self, END};
use crate::txn::{
    Also, Comparator, Follow, FollowedRecords, IndexInfo, KnownDatabase, Lapse, OnRemove, RemovalProgress,
    TreeRef, View, With, conflict,
};
use crate::types::{Lsn, TreeId};

/// Follows the records of an index: nobody else changes them.
#[derive(Debug)]
struct IndexGuard {
    name: String,
    primary: String,
}

impl Follow for IndexGuard {
    fn follow(&self, _: &TreeRef, _: SetOrRemove<'_>, _: &mut dyn FollowedRecords) -> Result<With> {
        Err(Error::new(
            ErrorKind::NotAllowed,
            format!(
                "writing to the index {:?}: the engine keeps it with the records of {:?}; change these, or \
                 remove some of them through the index (Index::remove)",
                self.name, self.primary
            ),
        ))
    }

    fn entries(&self, _: &str, _: (&[u8], &[u8]), _: &TreeRef, _: &mut dyn FollowedRecords) -> Result<With> {
        Ok(With::default())
    }

    fn is_referred_to(&self) -> bool {
        false
    }

    fn consequence(
        &self,
        _: (TreeId, &[u8]),
        _: &mut RemovalProgress,
        _: &mut dyn FollowedRecords,
    ) -> Result<Option<Also>> {
        Ok(None)
    }

    fn keeps(&self) -> (&[TreeRef], Lsn) {
        (&[], Lsn(0))
    }
}

/// Follows the records of a database that has indices, or that records of others refer to.
#[derive(Debug)]
pub(crate) struct Indexed {
    name: String,
    functions: Arc<Functions>,
    indices: Vec<KnownIndex>,
    referrers: Vec<Referrer>,
    /// The trees of the indices.
    trees: Vec<TreeRef>,
    /// A state that had them.
    since: Lsn,
    /// Whether there are marks among the records (txn/transactions/queue.rs), which have no index keys.
    has_marks: bool,
}

/// One of its indices.
#[derive(Debug)]
struct KnownIndex {
    name: String,
    tree: TreeRef,
    info: IndexInfo,
    /// None if the program gave none of that name.
    extractor: Option<Arc<Extractor>>,
    /// The database that its keys are keys of.
    referenced: Option<TreeRef>,
}

/// An index whose keys are its keys.
#[derive(Debug)]
struct Referrer {
    name: String,
    tree: TreeRef,
    info: IndexInfo,
}

/// The key and value of the entry of a record in an index.
fn entry(unique: bool, index_key: &[u8], key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    if unique {
        (pairs::with_end(index_key, END), key.to_vec())
    } else {
        (pairs::pair(index_key, key), Vec::new())
    }
}

/// The entries of a record in an index.
///
/// # Errors
/// `Invalid` if the extractor was not given.
pub(crate) fn entries_of(
    databases: &Databases,
    name: &str,
    info: &IndexInfo,
    (key, value): (&[u8], &[u8]),
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let found = databases.config.functions.extractor(&info.extractor, name)?.keys(key, Some(value));
    Ok(found.sorted().into_iter().map(|index_key| entry(info.unique, index_key, key)).collect())
}

impl KnownIndex {
    /// # Errors
    /// `Invalid` if it was not given.
    fn extractor<'a>(&'a self, functions: &'a Functions) -> Result<&'a Extractor> {
        match &self.extractor {
            Some(extractor) => Ok(extractor),
            None => functions.extractor(&self.info.extractor, &self.name).map(|extractor| &**extractor),
        }
    }

    /// What changes with a record of the primary.
    fn follow(
        &self,
        functions: &Functions,
        (tree, key): (&TreeRef, &[u8]),
        (before, after): (Option<&[u8]>, Option<&[u8]>),
        records: &mut dyn FollowedRecords,
        with: &mut With,
    ) -> Result<()> {
        let extractor = self.extractor(functions)?;
        let (old, new) = (extractor.keys(key, before), extractor.keys(key, after));
        let (old, new) = (old.sorted(), new.sorted());
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.cmp(new),
            };
            let gone = old.next_if(|_| order.is_le());
            let come = new.next_if(|_| order.is_ge());
            match (gone, come) {
                (Some(gone), None) => {
                    with.last.push((self.tree.clone(), entry(self.info.unique, gone, key).0, None))
                }
                (None, Some(come)) => {
                    let (entry, value) = entry(self.info.unique, come, key);
                    self.check(tree, (come, &entry), key, records)?;
                    with.first.push((self.tree.clone(), entry, Some(value)));
                }
                // A sweep may have taken it meanwhile, which is no change to a transaction that found that it
                // had lapsed.
                (Some(kept), Some(_)) if self.tree.lapse == Lapse::Entries => {
                    let (entry, value) = entry(self.info.unique, kept, key);
                    with.first.push((self.tree.clone(), entry, Some(value)));
                }
                _ => {}
            }
        }
    }

    /// Refuses an index key that the record may not have.
    fn check(
        &self,
        tree: &TreeRef,
        (index_key, entry): (&[u8], &[u8]),
        key: &[u8],
        records: &mut dyn FollowedRecords,
    ) -> Result<()> {
        if self.info.unique
            && let Some(other) = records.before(&self.tree, entry)?
            && other != key
        {
            return Err(Error::new(
                ErrorKind::Duplicate,
                format!(
                    "setting the record {} of {:?}: its key {} in the unique index {:?} is that of the \
                     record {} already",
                    key.escape_ascii(),
                    self.info.primary,
                    index_key.escape_ascii(),
                    self.name,
                    other.escape_ascii()
                ),
            ));
        }
        let (Some(referenced), Some((name, _))) = (&self.referenced, &self.info.references) else {
            return Ok(());
        };
        if referenced.id == tree.id && index_key == key {
            return Ok(());
        }
        if !records.contains(referenced, index_key)? {
            return Err(Error::new(
                ErrorKind::Reference,
                format!(
                    "setting the record {} of {:?}, which refers, by the index {:?}, to the record {} of \
                     {name:?}: there is no such record",
                    key.escape_ascii(),
                    self.info.primary,
                    self.name,
                    index_key.escape_ascii()
                ),
            ));
        }
        records.must_stay(referenced, index_key);
        Ok(())
    }
}

impl Follow for Indexed {
    fn follow(
        &self,
        tree: &TreeRef,
        (key, value): SetOrRemove<'_>,
        records: &mut dyn FollowedRecords,
    ) -> Result<With> {
        let mut with = With::default();
        if self.indices.is_empty() {
            return Ok(with);
        }
        for index in &self.indices {
            index.extractor(&self.functions)?;
        }
        let before = records.before(tree, key)?;
        if before.as_deref() != value || tree.lapse == Lapse::Records {
            let both = (self.shown(before.as_deref()), self.shown(value));
            for index in &self.indices {
                index.follow(&self.functions, (tree, key), both, records, &mut with)?;
            }
        }
        Ok(with)
    }

    fn entries(
        &self,
        index: &str,
        (key, value): (&[u8], &[u8]),
        tree: &TreeRef,
        records: &mut dyn FollowedRecords,
    ) -> Result<With> {
        let mut with = With::default();
        for index in self.indices.iter().filter(|one| one.name == index) {
            index.follow(
                &self.functions,
                (tree, key),
                (None, self.shown(Some(value))),
                records,
                &mut with,
            )?;
        }
        Ok(with)
    }

    fn is_referred_to(&self) -> bool {
        !self.referrers.is_empty()
    }

    fn consequence(
        &self,
        (tree, key): (TreeId, &[u8]),
        progress: &mut RemovalProgress,
        records: &mut dyn FollowedRecords,
    ) -> Result<Option<Also>> {
        while let Some(referrer) = self.referrers.get(progress.done) {
            let (begin, end) = pairs::bounds_of_one(key);
            let from = progress.after.take().map_or_else(|| begin.clone(), Bound::Excluded);
            if let Some((entry, value)) = records.first(&referrer.tree, &(from, end.clone()))? {
                progress.after = Some(entry.clone());
                match self.consequence_of(referrer, key, (entry, value), records)? {
                    None => continue,
                    also => return Ok(also),
                }
            }
            records.must_be_empty(&referrer.tree, (begin, end), (tree, key));
            progress.done += 1;
        }
        Ok(None)
    }

    fn keeps(&self) -> (&[TreeRef], Lsn) {
        (&self.trees, self.since)
    }
}

impl Indexed {
    /// The value that extractors are shown.
    fn shown<'v>(&self, value: Option<&'v [u8]>) -> Option<&'v [u8]> {
        value.filter(|value| !(self.has_marks && value.is_empty()))
    }

    /// What becomes of a record that refers to one which is removed, by the entry that says so; none if the
    /// entry is gone meanwhile, as in a read committed transaction it may be.
    fn consequence_of(
        &self,
        referrer: &Referrer,
        removed: &[u8],
        (entry, value): (Vec<u8>, Vec<u8>),
        records: &mut dyn FollowedRecords,
    ) -> Result<Option<Also>> {
        let seen = records.state();
        let key = key_of(referrer.info.unique, &entry, value.clone())?;
        let on_remove = referrer.info.references.as_ref().map(|(_, on_remove)| on_remove);
        let primary = &referrer.info.primary;
        let nullifier = match on_remove {
            Some(OnRemove::Cascade) => None,
            Some(OnRemove::Nullify(name)) => Some(self.functions.nullifier(name, &referrer.name)?),
            _ => {
                return Err(Error::new(
                    ErrorKind::Reference,
                    format!(
                        "removing the record {} of {:?}, to which the record {} of {primary:?} refers by \
                         the index {:?}",
                        removed.escape_ascii(),
                        self.name,
                        key.escape_ascii(),
                        referrer.name
                    ),
                ));
            }
        };
        let tree = self.primary_of(referrer, records)?;
        // That it is what it is now is claimed before it is known that the entry is of that.
        let before = records.before(&tree, &key)?;
        if records.get(&referrer.tree, &entry)? != Some(value) {
            return Ok(None);
        }
        let Some(before) = before else {
            // If these were several states, it may have come back in the last of them.
            let is_one_state = records.state() == seen;
            return Err(if is_one_state {
                leads_nowhere(&referrer.name, primary, &key)
            } else {
                came_back()
            });
        };
        let Some(nullifier) = nullifier else { return Ok(Some((tree, key, None))) };
        let after = (nullifier.0)(&key, &before, removed);
        let extractor = self.functions.extractor(&referrer.info.extractor, &referrer.name)?;
        if extractor.keys(&key, Some(&after)).sorted().contains(&removed) {
            return Err(Error::invalid(format!(
                "the nullifier of the index {:?} gave the record {} of {primary:?} a value that still \
                 refers to {}",
                referrer.name,
                key.escape_ascii(),
                removed.escape_ascii()
            )));
        }
        Ok(Some((tree, key, Some(after))))
    }

    /// The tree of the database that an index is of, with what follows it now.
    fn primary_of(&self, referrer: &Referrer, records: &dyn FollowedRecords) -> Result<TreeRef> {
        let view = as_view(records);
        let seen = self.since.min(view.state());
        let gone = || {
            disagrees(view, seen, || {
                format!("the index {:?} is of a database that is not there", referrer.name)
            })
        };
        // It may have another name by now.
        let index = view.entry(&referrer.name)?.filter(|entry| entry.tree == referrer.tree.id);
        let info = index.and_then(|entry| entry.relations.index).ok_or_else(gone)?;
        let entry = view.entry(&info.primary)?.ok_or_else(gone)?;
        let presence = view.presence(entry.tree).knowing(KnownDatabase::of(&info.primary, &entry));
        let follower = follower(&self.functions, view, &info.primary, &entry)?;
        let plain = plain(view, &info.primary, &entry, None)?;
        Ok(plain.with(|tree| (tree.presence, tree.follower) = (Some(Arc::new(presence)), follower)))
    }
}

/// The key of the primary's record that an entry of an index leads to.
pub(crate) fn key_of(unique: bool, entry: &[u8], value: Vec<u8>) -> Result<Vec<u8>> {
    if unique { Ok(value) } else { pairs::parts(entry).map(|(_, key)| key.to_vec()) }
}

/// The error of an entry for a record that is not there.
#[cold]
pub(crate) fn leads_nowhere(index: &str, primary: &str, key: &[u8]) -> Error {
    Error::corruption(format!(
        "the index {index:?} leads to a record {} of {primary:?}, which is not there; create the index again",
        key.escape_ascii()
    ))
}

#[cold]
fn came_back() -> Error {
    conflict(
        "another transaction removed a record, and set it again, while this one looked for the records that \
         refer to it; run this transaction again",
    )
}

/// The error if what the catalog says at two places does not agree. That is damage, unless names have changed
/// after the first of these was `seen`.
#[cold]
fn disagrees(view: &dyn View, seen: Lsn, what: impl FnOnce() -> String) -> Error {
    if view.names_since() > seen { Error::changed() } else { Error::corruption(what()) }
}

fn as_view(records: &dyn FollowedRecords) -> &dyn View {
    records
}

/// The tree of an entry, which nobody follows.
pub(in crate::env) fn plain(
    view: &dyn View,
    name: &str,
    entry: &CatalogEntry,
    comparator: Option<Arc<Comparator>>,
) -> Result<TreeRef> {
    let pages = view.pages();
    let order = entry.order(name.as_bytes(), comparator, pages.page_size())?;
    let keys = placed::keys(pages, name, entry)?;
    entry.tree(name.as_bytes(), order, keys)
}

/// What follows the records of a database, as its entry says.
pub(super) fn follower(
    functions: &Arc<Functions>,
    view: &dyn View,
    name: &str,
    entry: &CatalogEntry,
) -> Result<Option<Arc<dyn Follow>>> {
    let relations = &entry.relations;
    if let Some(info) = &relations.index {
        return Ok(Some(Arc::new(IndexGuard { name: name.to_owned(), primary: info.primary.clone() })));
    }
    if relations.indices.is_empty() && relations.referred_by.is_empty() {
        return Ok(None);
    }
    // Each look of a read committed transaction is at a state of its own.
    let begun = view.state();
    let found = |related: &crate::txn::relation::RelatedIndex| -> Result<(TreeRef, IndexInfo)> {
        let bad = || {
            disagrees(view, begun, || {
                format!(
                    "the database {name:?} has the index {:?}, which is not there, or is not an index",
                    related.name
                )
            })
        };
        let index = view.entry(&related.name)?.filter(|index| index.tree == related.tree).ok_or_else(bad)?;
        let tree = seen(view, &related.name, &index)?;
        index.relations.index.map(|info| (tree, info)).ok_or_else(bad)
    };
    let (mut indices, mut referrers) = (Vec::new(), Vec::new());
    for related in &relations.indices {
        let (tree, info) = found(related)?;
        let referenced = match &info.references {
            None => None,
            Some((other, _)) => {
                let entry = view.entry(other)?.ok_or_else(|| {
                    disagrees(view, begun, || {
                        format!(
                            "the index {:?} refers to the database {other:?}, which is not there",
                            related.name
                        )
                    })
                })?;
                Some(seen(view, other, &entry)?)
            }
        };
        let extractor = functions.extractor(&info.extractor, &related.name).ok().cloned();
        indices.push(KnownIndex { name: related.name.clone(), tree, info, extractor, referenced });
    }
    for related in &relations.referred_by {
        let (tree, info) = found(related)?;
        referrers.push(Referrer { name: related.name.clone(), tree, info });
    }
    let all = indices.iter().map(|index| &index.tree).chain(referrers.iter().map(|referrer| &referrer.tree));
    let trees: Vec<TreeRef> = all.cloned().collect();
    let since = trees.iter().filter_map(|tree| tree.presence.as_ref()).map(|one| one.seen()).max();
    Ok(Some(Arc::new(Indexed {
        name: name.to_owned(),
        functions: Arc::clone(functions),
        indices,
        referrers,
        trees,
        since: since.unwrap_or(Lsn(0)),
        has_marks: entry.holds.has_marks(),
    })))
}

/// The tree of an entry, as one that only has to be there.
fn seen(view: &dyn View, name: &str, entry: &CatalogEntry) -> Result<TreeRef> {
    let presence = Some(Arc::new(view.presence(entry.tree)));
    Ok(plain(view, name, entry, None)?.with(|tree| tree.presence = presence))
}

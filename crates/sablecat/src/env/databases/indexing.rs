//! Making indices, and what becomes of them when databases are renamed and removed: changes of the catalog,
//! as parts of a transaction.
//!
//! ```text
//! create    the index as any database, temporary if its primary is, which is named as having it; an entry
//!           for each record there is
//! rename    every entry that names the renamed one names it by its new name
//! remove    an index: nobody names it any more. A primary: with its indices; refused if others refer to it
//! ```
//!
//! A transaction that reads all records to make an index of them has its reads validated, at snapshot
//! isolation too. A transaction that writes without knowing of the index gets a conflict when it commits
//! (txn/catalog/presence.rs).

use std::sync::Arc;

use super::transaction::EnvTxn;
use super::{Asked, Databases, Named, seen_as};
use crate::access::Method;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::catalog::{self, CatalogEntry, catalog_tree};
use crate::txn::lapse::BY_EXPIRY;
use crate::txn::relation::{FUNCTION_NAME_BYTES_MAX, RelatedIndex};
use crate::txn::{Holds, IndexInfo, KnownDatabase, OnRemove, TreeRef, View};

/// A tree to be written to.
#[derive(Debug)]
pub(crate) enum Written<'n> {
    /// As the handle has it.
    Known(&'n TreeRef),
    /// As the transaction has made it.
    Own(Arc<Named>),
}

impl std::ops::Deref for Written<'_> {
    type Target = TreeRef;

    #[inline]
    fn deref(&self) -> &TreeRef {
        match self {
            Written::Known(tree) => tree,
            Written::Own(named) => &named.tree,
        }
    }
}

impl Databases {
    /// Makes an index in a transaction of its own.
    pub(crate) fn create_index(&self, name: &str, info: &IndexInfo) -> Result<Arc<Named>> {
        self.check_writable()?;
        self.write(|txn| txn.create_index(name, info, false))
    }
}

impl EnvTxn<'_> {
    /// The tree of a database, with all that changes with its records.
    ///
    /// # Errors
    /// As [`EnvTxn::tree`].
    #[inline]
    pub(crate) fn tree_to_write<'n>(&self, named: &'n Named) -> Result<Written<'n>> {
        if self.databases.kernel.is_surely_there(&named.presence) && !self.changes_databases() {
            Ok(Written::Known(&named.tree))
        } else {
            self.tree_to_write_if_there(named)
        }
    }

    #[cold]
    fn tree_to_write_if_there<'n>(&self, named: &'n Named) -> Result<Written<'n>> {
        self.tree_if_there(named)?;
        if named.is_replica() {
            return Ok(Written::Known(&named.tree));
        }
        if let Some(own) = self.own(named)? {
            return Ok(Written::Own(own));
        }
        match self.databases.tree(named) {
            // The transaction is making it, or its commit will find that it is gone.
            Err(error) if matches!(error.kind(), ErrorKind::NotAllowed | ErrorKind::NotFound) => {
                Ok(Written::Known(&named.tree))
            }
            tree => tree.map(Written::Known),
        }
    }

    /// A database as the transaction has made it, if it is another than it was.
    fn own(&self, named: &Named) -> Result<Option<Arc<Named>>> {
        let Some(changed) = self.related.get() else { return Ok(None) };
        let Some(names) = changed.names.get(&named.tree.id) else { return Ok(None) };
        let mut found = None;
        for name in names {
            if let Some(entry) = self.records.entry(name)?.filter(|entry| entry.tree == named.tree.id) {
                found = Some((name, entry));
                break;
            }
        }
        // None: what was done was undone, its name included.
        let Some((name, entry)) = found else { return Ok(None) };
        let mut all = changed.named.borrow_mut();
        if let Some(own) = all.get(&entry.tree).filter(|own| own.presence.knows(&entry)) {
            return Ok(Some(Arc::clone(own)));
        }
        let presence = self.records.presence(entry.tree).knowing(KnownDatabase::of(name, &entry));
        let own = self.databases.name(name, &entry, Arc::new(presence), &self.records)?;
        all.insert(entry.tree, Arc::clone(&own));
        Ok(Some(own))
    }

    /// The same database with the indices that it has by now; none if it has another name by now than was
    /// found last, or is gone.
    pub(super) fn named_anew(&self, named: &Named) -> Result<Option<Arc<Named>>> {
        let Some(name) = named.presence.name() else { return Ok(None) };
        let Some(entry) = self.records.entry(&name)?.filter(|entry| entry.tree == named.tree.id) else {
            return Ok(None);
        };
        let presence = Arc::new(seen_as(&name, &entry, self.records.at()));
        let newer = self.databases.name(&name, &entry, presence, &self.records)?;
        Ok(Some(if named.is_replica() { Arc::new(newer.as_replica()) } else { newer }))
    }

    /// Makes an index of a database, with an entry for each record that this has; of a replica, without: they
    /// come by themselves.
    ///
    /// # Errors
    /// `Exists` if there is a database of that name; `NotFound`, `Invalid` for databases and functions that
    /// are not there or cannot be so used; `Duplicate`, `Reference` if the records there are cannot be in
    /// such an index.
    pub(crate) fn create_index(
        &mut self,
        name: &str,
        info: &IndexInfo,
        of_replica: bool,
    ) -> Result<Arc<Named>> {
        catalog::check_name(name)?;
        if self.records.claim(catalog_tree(), name.as_bytes())?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("there is a database {name:?} already")));
        }
        if !of_replica {
            self.check_index(name, info)?;
        }
        let temporary = self.records.entry(&info.primary)?.is_some_and(|primary| primary.temporary);
        let asked = Asked { index: Some(info), temporary, ..Asked::arranged_as(Method::Btree) };
        let tree = self.make(name, asked)?.tree;
        let related = || RelatedIndex { name: name.to_owned(), tree };
        self.edit(&info.primary, |entry| entry.relations.indices.push(related()))?;
        if let Some((referenced, _)) = &info.references {
            self.edit(referenced, |entry| entry.relations.referred_by.push(related()))?;
        }
        if !of_replica {
            self.fill_index(name, info)?;
        }
        let entry = self.records.entry(name)?;
        let entry = entry.ok_or_else(|| Error::corruption("an index just made is not in the catalog"))?;
        self.found(name, &entry)
    }

    /// Refuses an index that cannot be.
    fn check_index(&self, name: &str, info: &IndexInfo) -> Result<()> {
        let check = |database: &str, what: &str| -> Result<()> {
            let Some(entry) = self.records.entry(database)? else {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("the index {name:?} {what} {database:?}: there is no database of that name"),
                ));
            };
            entry.method(database.as_bytes())?;
            if entry.relations.index.is_some() {
                return Err(Error::invalid(format!(
                    "the index {name:?} {what} {database:?}, which is an index itself"
                )));
            }
            if entry.holds == Holds::Expiring && info.extractor != BY_EXPIRY {
                return Err(Error::invalid(format!(
                    "the index {name:?} {what} {database:?}, whose records expire: the index would still \
                     find expired records"
                )));
            }
            if entry.holds.has_marks() && info.references.is_some() {
                return Err(Error::invalid(format!(
                    "the index {name:?}, with references, {what} {database:?}, which is a queue: records \
                     are consumed whatever they refer to, and whatever refers to them"
                )));
            }
            if entry.comparator.is_some() {
                return Err(Error::invalid(format!(
                    "the index {name:?} {what} {database:?}, which is ordered by a comparator: that may \
                     take several keys for one, which an index tells apart"
                )));
            }
            Ok(())
        };
        check(&info.primary, "cannot be of")?;
        self.check_by_expiry(name, info)?;
        let functions = &self.databases.config.functions;
        functions.extractor(&info.extractor, name)?;
        let mut names = vec![&info.extractor];
        if let Some((referenced, on_remove)) = &info.references {
            check(referenced, "cannot refer to")?;
            let is_temporary =
                |name: &str| Ok::<_, Error>(self.records.entry(name)?.is_some_and(|entry| entry.temporary));
            if is_temporary(referenced)? && !is_temporary(&info.primary)? {
                return Err(Error::invalid(format!(
                    "the index {name:?} by which records of {:?}, which is durable, are to refer to those \
                     of {referenced:?}, which is temporary: they would lead nowhere when the environment is \
                     opened afresh",
                    info.primary
                )));
            }
            if let OnRemove::Nullify(nullifier) = on_remove {
                functions.nullifier(nullifier, name)?;
                names.push(nullifier);
            }
        }
        if let Some(long) = names.iter().find(|name| name.len() > FUNCTION_NAME_BYTES_MAX) {
            return Err(Error::invalid(format!(
                "the name of an extractor or a nullifier with {} bytes; such names can have \
                 {FUNCTION_NAME_BYTES_MAX} at most",
                long.len()
            )));
        }
        Ok(())
    }

    /// Refuses an index by time that is none: of a database whose records do not expire, or that demands
    /// something of them.
    fn check_by_expiry(&self, name: &str, info: &IndexInfo) -> Result<()> {
        let is_of_expiring = || {
            Ok::<_, Error>(
                self.records.entry(&info.primary)?.is_some_and(|entry| entry.holds == Holds::Expiring),
            )
        };
        if info.extractor != BY_EXPIRY || !info.unique && info.references.is_none() && is_of_expiring()? {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the index {name:?} with the extractor {BY_EXPIRY:?}, which is only for records that expire \
             (Expiring::open creates that index)"
        )))
    }

    /// Makes the entries of an index for all records that there are.
    fn fill_index(&mut self, name: &str, info: &IndexInfo) -> Result<()> {
        let gone = || Error::corruption("a database that was just given an index is not in the catalog");
        let entry = self.records.entry(&info.primary)?.ok_or_else(gone)?;
        let primary = self.found(&info.primary, &entry)?;
        let primary = self.own(&primary)?.ok_or_else(gone)?;
        let Some(follower) = &primary.tree.follower else { return Err(gone()) };
        let follower = Arc::clone(follower);
        self.records.each_to_stay(&primary.tree, |records, key, value| {
            for (tree, entry, value) in follower.entries(name, (key, value), &primary.tree, records)?.first {
                records.set(&tree, &entry, value.as_deref())?;
            }
            Ok(())
        })
    }

    /// Changes what the catalog says of how a database is related to others. Nothing is done if there is
    /// none: a follower of another environment may be in the middle of what happened there.
    fn edit(&mut self, name: &str, change: impl FnOnce(&mut CatalogEntry)) -> Result<()> {
        let Some(value) = self.records.claim(catalog_tree(), name.as_bytes())? else { return Ok(()) };
        let mut entry = CatalogEntry::decode(name.as_bytes(), &value)?;
        entry.method(name.as_bytes())?;
        change(&mut entry);
        self.log_former(name, entry.tree)?;
        self.related.note_name(entry.tree, name);
        self.records.set(catalog_tree(), name.as_bytes(), Some(&entry.encode()))
    }

    /// Has all that name a database that was renamed do so by its new name.
    pub(super) fn note_renamed(&mut self, entry: &CatalogEntry, from: &str, to: &str) -> Result<()> {
        let relations = &entry.relations;
        if self.related.get().is_some_and(|changed| changed.names.contains_key(&entry.tree)) {
            self.related.note_name(entry.tree, to);
        }
        for index in relations.indices.iter().chain(&relations.referred_by) {
            self.edit(&index.name, |entry| {
                let Some(info) = &mut entry.relations.index else { return };
                let references = info.references.as_mut().map(|(name, _)| name);
                for name in references.into_iter().chain([&mut info.primary]).filter(|name| *name == from) {
                    to.clone_into(name);
                }
            })?;
        }
        let tree = entry.tree;
        self.each_end(entry, |all| {
            for one in all.iter_mut().filter(|one| one.tree == tree) {
                to.clone_into(&mut one.name);
            }
        })
    }

    /// Has nobody name an index that is removed.
    pub(super) fn note_unrelated(&mut self, entry: &CatalogEntry) -> Result<()> {
        let tree = entry.tree;
        self.each_end(entry, |all| all.retain(|one| one.tree != tree))
    }

    /// Changes what is said of an index where it ends: at its primary, and at what it refers to.
    fn each_end(&mut self, entry: &CatalogEntry, change: impl Fn(&mut Vec<RelatedIndex>)) -> Result<()> {
        let Some(info) = &entry.relations.index else { return Ok(()) };
        self.edit(&info.primary, |entry| change(&mut entry.relations.indices))?;
        if let Some((referenced, _)) = &info.references {
            self.edit(referenced, |entry| change(&mut entry.relations.referred_by))?;
        }
        Ok(())
    }

    /// The indices that go with a database.
    ///
    /// # Errors
    /// `Reference` if records of others refer to its records.
    pub(super) fn to_remove_with(&self, name: &str) -> Result<Vec<String>> {
        catalog::check_name(name)?;
        let Some(entry) = self.records.entry(name)? else { return Ok(Vec::new()) };
        let relations = entry.relations;
        let is_own = |one: &RelatedIndex| relations.indices.iter().any(|index| index.tree == one.tree);
        if let Some(referrer) = relations.referred_by.iter().find(|one| !is_own(one)) {
            return Err(Error::new(
                ErrorKind::Reference,
                format!(
                    "removing the database {name:?}, whose records other records refer to by the index \
                     {:?}; remove that index first",
                    referrer.name
                ),
            ));
        }
        Ok(relations.indices.into_iter().map(|index| index.name).collect())
    }
}

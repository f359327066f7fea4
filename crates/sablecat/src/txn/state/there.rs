//! Whether a database is there in a state, with the indices that are known of it (catalog/presence.rs).

use sablecat_os::atomic::Ordering;

use super::{CommittedState, States};
use crate::access::PageRead;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::{LocalParticipant, header};
use crate::txn::catalog::presence::PresenceState;
use crate::txn::catalog::{self, CatalogEntry, Looked, Presence, TreeRef};
use crate::txn::refusals::{conflict, removed};
use crate::types::Lsn;

impl States {
    /// Whether no name was taken away since a state that had the database. If not, it may still be there.
    #[inline]
    pub(crate) fn is_surely_there(&self, presence: &Presence) -> bool {
        presence.seen() >= self.names_since()
    }

    /// States at or above this LSN come after the last commit that took a name from a database: what one of
    /// them had the newest one has.
    #[inline]
    pub(crate) fn names_since(&self) -> Lsn {
        // Acquire pairs with the Release in `take_names`; for committers, the commit role orders the two.
        Lsn(self.pages.names_since().load(Ordering::Acquire))
    }

    /// In the commit step of a committer that takes a name away: what was seen up to now may not be there any
    /// more.
    pub(in crate::txn) fn take_names(&self) {
        // Only upwards: a process that was taken for dead does it late.
        self.pages.names_since().fetch_max(self.pages.newest().0 + 1, Ordering::Release);
    }

    /// In the commit step: a conflict unless a tree that was only read is there.
    #[inline]
    pub(in crate::txn) fn check_readable(&self, tree: &TreeRef, me: &LocalParticipant) -> Result<()> {
        match self.check_there(tree, me) {
            // A reader of it need not know of its indices.
            Err(error) if error.is_changed() => Ok(()),
            checked => checked,
        }
    }

    /// In the commit step: a conflict unless the tree is there, with the indices that are known of it.
    #[inline]
    pub(in crate::txn) fn check_there(&self, tree: &TreeRef, me: &LocalParticipant) -> Result<()> {
        match &tree.presence {
            Some(presence) if !self.is_surely_there(presence) => {
                // Nobody else publishes meanwhile, so the newest state needs no pin.
                let newest = self.pages.newest();
                match self.look_for(tree, newest, me)? {
                    Looked::There => Ok(()),
                    Looked::Changed => Err(Error::changed()),
                    Looked::Gone => Err(removed()),
                }
            }
            _ => Ok(()),
        }
    }

    /// A conflict if a tree that was found not to be there is there in the newest state, which the
    /// participant has pinned or which nobody can change. One that is not will never be again.
    pub(in crate::txn) fn check_absent(
        &self,
        tree: &TreeRef,
        newest: Lsn,
        me: &LocalParticipant,
    ) -> Result<()> {
        if !self.is_there(tree, newest, me)? {
            return Ok(());
        }
        Err(conflict(
            "another transaction created a database that this one did not find, and committed first; run \
             this one again",
        ))
    }

    /// Whether a database is there in the newest state, which the participant has pinned or which nobody can
    /// change.
    pub(crate) fn is_there(&self, tree: &TreeRef, at: Lsn, me: &LocalParticipant) -> Result<bool> {
        Ok(self.look_for(tree, at, me)? != Looked::Gone)
    }

    /// As [`States::is_there`], and whether it has the indices that are known.
    pub(crate) fn look_for(&self, tree: &TreeRef, at: Lsn, me: &LocalParticipant) -> Result<Looked> {
        match &tree.presence {
            Some(presence) if !self.is_surely_there(presence) => match presence.state() {
                PresenceState::Gone => Ok(Looked::Gone),
                PresenceState::New(_) => Ok(Looked::There),
                PresenceState::There => {
                    let looked = self.look_in_catalog(tree, presence, at, me)?;
                    match looked {
                        Looked::There => presence.note_seen(at),
                        Looked::Gone => presence.note_gone(),
                        Looked::Changed => {}
                    }
                    Ok(looked)
                }
            },
            _ => Ok(Looked::There),
        }
    }

    fn look_in_catalog(
        &self,
        tree: &TreeRef,
        presence: &Presence,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<Looked> {
        let Some(known) = &presence.known else {
            return Ok(if self.has_name(tree, at, me)? { Looked::There } else { Looked::Gone });
        };
        let as_known =
            |entry: &CatalogEntry| if presence.knows(entry) { Looked::There } else { Looked::Changed };
        let mut state = CommittedState { states: self, me, at };
        let entry = catalog::record(&mut state, known.name().as_bytes())?;
        if let Some(entry) = entry.filter(|entry| entry.tree == tree.id) {
            return Ok(as_known(&entry));
        }
        if !self.has_name(tree, at, me)? {
            return Ok(Looked::Gone);
        }
        // It has another one.
        let records = catalog::records(&mut state)?;
        let renamed = records.iter().find(|(key, entry)| catalog::is_name(key) && entry.tree == tree.id);
        let Some((name, entry)) = renamed else { return Ok(Looked::Gone) };
        known.note_name(&String::from_utf8_lossy(name));
        Ok(as_known(entry))
    }

    /// Whether a tree had a name at an LSN that is pinned, or that nobody can change: it had no note, and was
    /// not freed.
    pub(crate) fn has_name(&self, tree: &TreeRef, at: Lsn, me: &LocalParticipant) -> Result<bool> {
        if self.value_at(&catalog::catalog_tree().tree(), &catalog::note_key(tree.id), at, me)?.is_some() {
            return Ok(false);
        }
        match (CommittedState { states: self, me, at })
            .read(tree.root, |page| header::tree_id(page) == tree.id)
        {
            Err(error) if error.is_not_there() => Ok(false),
            is_its_root => is_its_root,
        }
    }

    /// Tells a commit that failed over pages which had been freed from one that met damage: the first is a
    /// conflict.
    #[cold]
    pub(in crate::txn) fn explain<'t>(
        &self,
        error: Error,
        mut trees: impl Iterator<Item = &'t TreeRef>,
        me: &LocalParticipant,
    ) -> Error {
        if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) {
            return error;
        }
        let newest = self.pages.guarded(me);
        let lost = trees.find_map(|tree| match self.look_for(tree, newest.at(), me) {
            Ok(Looked::Gone) => Some(removed()),
            Ok(Looked::Changed) => Some(Error::changed()),
            _ => None,
        });
        drop(newest);
        lost.unwrap_or(error)
    }
}

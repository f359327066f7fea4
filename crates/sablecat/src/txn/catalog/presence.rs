//! Whether a database is still there.
//!
//! Databases are removed and renamed by commits that take a name away, and whoever has a handle of one does
//! not hear of it. So the region says from which LSN on no name has been taken away (`names_since` in its
//! header), and each process remembers of a database a state that had it. If that is not older, the database
//! is there; else the catalog is looked at again. On the ordinary path this is one comparison.
//!
//! *Why nothing is written to a tree that is being freed.* A commit that takes a name away raises the word in
//! its commit step, before its commit point. A commit that changes a tree compares in its own commit step.
//! One of the two steps comes first: so a change is published before the name is gone, or not at all. Pages
//! are freed after that.
//!
//! *Why a look at any snapshot will do.* The word is raised above everything visible. So what was seen in a
//! snapshot from before the commit counts as older, even if the look came after the word was raised; and who
//! dies between raising it and the commit point costs others a look.
//!
//! *Indices.* Which indices a database has is said by its entry in the catalog, under its name. Whoever
//! changes that changes what the name stands for, and raises the word too. A process that writes to the
//! database knows the indices that it has found ([`Known`]), and looks for the same when it looks whether the
//! database is there: if there are others, what it writes is a conflict, and it goes on with what there is
//! now. So a handle from before an index keeps it, from the commit on that made it.

use std::sync::{Mutex, PoisonError};

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};

use super::catalog::CatalogEntry;
use super::{Committed, Kernel, TreeRef, catalog, conflict};
use crate::access::PageRead;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::{Participant, header};
use crate::types::Lsn;

/// What a process knows of whether a database is there; all its handles share it.
#[derive(Debug)]
pub(crate) struct Presence {
    /// The LSN of a state that had it; 0: none is known. Relaxed: what it says is true by itself, and whoever
    /// needs more asks the region's word.
    seen: AtomicU64,
    /// [`THERE`], [`GONE`], or the slot of the transaction that is making it.
    state: AtomicU32,
    /// What is known of it besides, if that is to be so still.
    known: Option<Known>,
}

/// What a process knows of a database that it may write to.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its name, when it was last looked for.
    name: Mutex<String>,
    /// What of its entry those have to know who write to it: which indices there are
    /// ([`Relations::followers`](super::relation::Relations::followers)).
    followers: Vec<u8>,
}

impl Known {
    /// What an entry says that was found under a name.
    pub(crate) fn of(name: &str, entry: &CatalogEntry) -> Known {
        Known { name: Mutex::new(name.to_owned()), followers: entry.relations.followers() }
    }

    /// The name that it was last found under.
    pub(crate) fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_name(&self, name: &str) {
        name.clone_into(&mut self.name.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What a look for a database has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Looked {
    /// It is there, as it is known.
    There,
    /// It is there, and has other indices than are known.
    Changed,
    Gone,
}

const THERE: u32 = 0;
const GONE: u32 = u32::MAX;

/// What is known of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It was there when last looked for.
    There,
    /// The transaction in this slot is making it.
    New(u16),
    /// It has been removed, or its making undone.
    Gone,
}

impl Presence {
    /// Of a database that was seen at an LSN.
    pub(crate) fn seen_at(at: Lsn) -> Presence {
        Presence { seen: AtomicU64::new(at.0), state: AtomicU32::new(THERE), known: None }
    }

    /// Of a database that the transaction in a slot is making.
    pub(crate) fn made_in(slot: u16) -> Presence {
        Presence { seen: AtomicU64::new(0), state: AtomicU32::new(slot.into()), known: None }
    }

    /// The same, of one of which more is known.
    pub(crate) fn knowing(self, known: Known) -> Presence {
        Presence { known: Some(known), ..self }
    }

    /// The name that it was last found under, if that is known.
    pub(crate) fn name(&self) -> Option<String> {
        self.known.as_ref().map(Known::name)
    }

    /// Whether an entry says the same of its indices as is known.
    pub(crate) fn knows(&self, entry: &CatalogEntry) -> bool {
        self.known.as_ref().is_none_or(|known| known.followers == entry.relations.followers())
    }

    pub(crate) fn state(&self) -> State {
        // Acquire and Release only for the sake of whoever reasons from one handle to another: each state is
        // true by itself.
        match self.state.load(Ordering::Acquire) {
            THERE => State::There,
            GONE => State::Gone,
            slot => State::New(slot as u16),
        }
    }

    /// The newest state that is known to have had it.
    #[inline]
    pub(crate) fn seen(&self) -> Lsn {
        Lsn(self.seen.load(Ordering::Relaxed))
    }

    /// It was seen at an LSN.
    pub(crate) fn note_seen(&self, at: Lsn) {
        self.seen.fetch_max(at.0, Ordering::Relaxed);
    }

    /// The transaction that made it has committed.
    pub(crate) fn note_made(&self) {
        self.state.store(THERE, Ordering::Release);
    }

    /// It is gone, for good.
    pub(crate) fn note_gone(&self) {
        self.state.store(GONE, Ordering::Release);
    }
}

impl Kernel {
    /// Whether no name was taken away since a state that had the database. If not, it may still be there.
    #[inline]
    pub(crate) fn is_surely_there(&self, presence: &Presence) -> bool {
        presence.seen() >= self.names_since()
    }

    /// States at or above this LSN come after the last commit that took a name from a database: what one of
    /// them had the newest one has.
    #[inline]
    pub(crate) fn names_since(&self) -> Lsn {
        // Acquire pairs with the Release in `take_names`; for who commits, the commit role orders the two.
        Lsn(self.pages.names_since().load(Ordering::Acquire))
    }

    /// In the commit step of who takes a name away: what was seen up to now may not be there any more.
    pub(super) fn take_names(&self) {
        // Only upwards: who was taken for dead does it late.
        self.pages.names_since().fetch_max(self.pages.newest().0 + 1, Ordering::Release);
    }

    /// In the commit step: a conflict unless a tree that was only read is there.
    #[inline]
    pub(super) fn check_readable(&self, tree: &TreeRef, me: &Participant) -> Result<()> {
        match self.check_there(tree, me) {
            // Who reads it need not know of its indices.
            Err(error) if error.is_changed() => Ok(()),
            checked => checked,
        }
    }

    /// In the commit step: a conflict unless the tree is there, with the indices that are known of it.
    #[inline]
    pub(super) fn check_there(&self, tree: &TreeRef, me: &Participant) -> Result<()> {
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
    pub(super) fn check_absent(&self, tree: &TreeRef, newest: Lsn, me: &Participant) -> Result<()> {
        if !self.is_there(tree, newest, me)? {
            return Ok(());
        }
        Err(conflict(
            "another transaction created a database that this one found not to be there, and committed first; run it again",
        ))
    }

    /// Whether a database is there in the newest state, which the participant has pinned or which nobody can
    /// change.
    pub(crate) fn is_there(&self, tree: &TreeRef, at: Lsn, me: &Participant) -> Result<bool> {
        Ok(self.look_for(tree, at, me)? != Looked::Gone)
    }

    /// As [`Kernel::is_there`], and whether it has the indices that are known.
    pub(crate) fn look_for(&self, tree: &TreeRef, at: Lsn, me: &Participant) -> Result<Looked> {
        match &tree.presence {
            Some(presence) if !self.is_surely_there(presence) => match presence.state() {
                State::Gone => Ok(Looked::Gone),
                State::New(_) => Ok(Looked::There),
                State::There => {
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
        me: &Participant,
    ) -> Result<Looked> {
        let Some(known) = &presence.known else {
            return Ok(if self.has_name(tree, at, me)? { Looked::There } else { Looked::Gone });
        };
        let as_known =
            |entry: &CatalogEntry| if presence.knows(entry) { Looked::There } else { Looked::Changed };
        let mut state = Committed { kernel: self, me, at };
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
    pub(crate) fn has_name(&self, tree: &TreeRef, at: Lsn, me: &Participant) -> Result<bool> {
        if self.value_at(&catalog::catalog_tree().tree(), &catalog::note_key(tree.id), at, me)?.is_some() {
            return Ok(false);
        }
        match (Committed { kernel: self, me, at }).read(tree.root, |page| header::tree_id(page) == tree.id) {
            Err(error) if error.is_not_there() => Ok(false),
            is_its_root => is_its_root,
        }
    }

    /// Tells a commit that failed over pages which had been freed from one that met damage: the first is a
    /// conflict.
    #[cold]
    pub(super) fn explain<'t>(
        &self,
        error: Error,
        mut trees: impl Iterator<Item = &'t TreeRef>,
        me: &Participant,
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

#[cold]
pub(super) fn removed() -> Error {
    conflict(
        "another transaction removed a database that this one works on, and committed first; run it again",
    )
}

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

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};

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
        Presence { seen: AtomicU64::new(at.0), state: AtomicU32::new(THERE) }
    }

    /// Of a database that the transaction in a slot is making.
    pub(crate) fn made_in(slot: u16) -> Presence {
        Presence { seen: AtomicU64::new(0), state: AtomicU32::new(slot.into()) }
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
        Lsn(self.pages.region.header().names_since.load(Ordering::Acquire))
    }

    /// In the commit step of who takes a name away: what was seen up to now may not be there any more.
    pub(super) fn take_names(&self) {
        let header = self.pages.region.header();
        // Only upwards: who was taken for dead does it late.
        header.names_since.fetch_max(header.visible().0 + 1, Ordering::Release);
    }

    /// In the commit step: a conflict unless the tree is there.
    #[inline]
    pub(super) fn check_there(&self, tree: &TreeRef, me: &Participant) -> Result<()> {
        match &tree.presence {
            Some(presence) if !self.is_surely_there(presence) => {
                // Nobody else publishes meanwhile, so the newest state needs no pin.
                let newest = self.pages.region.header().visible();
                if self.is_there(tree, newest, me)? { Ok(()) } else { Err(removed()) }
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
        match &tree.presence {
            Some(presence) if !self.is_surely_there(presence) => match presence.state() {
                State::Gone => Ok(false),
                State::New(_) => Ok(true),
                State::There => {
                    let is_there = self.has_name(tree, at, me)?;
                    if is_there {
                        presence.note_seen(at)
                    } else {
                        presence.note_gone()
                    }
                    Ok(is_there)
                }
            },
            _ => Ok(true),
        }
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
        let lost = trees.any(|tree| matches!(self.is_there(tree, newest.at(), me), Ok(false)));
        drop(newest);
        if lost { removed() } else { error }
    }
}

#[cold]
pub(super) fn removed() -> Error {
    conflict(
        "another transaction removed a database that this one works on, and committed first; run it again",
    )
}

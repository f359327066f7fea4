//! Whether a database is still there.
//!
//! Databases are removed and renamed by commits that take a name away, and a process with a handle of one
//! does not hear of it. So the region says from which LSN on no name has been taken away (`names_since` in
//! its header), and each process remembers of a database a state that had it. If that is not older, the
//! database is there; else the catalog is looked at again. On the ordinary path this is one comparison.
//!
//! *Why nothing is written to a tree that is being freed.* A commit that takes a name away raises the word in
//! its commit step, before its commit point. A commit that changes a tree compares in its own commit step.
//! One of the two steps comes first: so a change is published before the name is gone, or not at all. Pages
//! are freed after that.
//!
//! *Why a look at any snapshot will do.* The word is raised above everything visible. So what was seen in a
//! snapshot from before the commit counts as older, even if the look came after the word was raised. And a
//! committer that dies between raising it and the commit point costs others a look.
//!
//! *Indices.* A database's entry in the catalog, under its name, says which indices it has. A commit that
//! changes that changes what the name stands for, and raises the word too. A process that writes to the
//! database knows the indices that it has found ([`KnownDatabase`]), and looks for the same when it looks
//! whether the database is there. If there are others, what it writes is a conflict, and it goes on with what
//! there is now. So a handle from before an index keeps it, from the commit on that made it.

use std::sync::{Mutex, PoisonError};

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};

use super::CatalogEntry;
use crate::types::Lsn;

/// What a process knows of whether a database is there; all its handles share it.
#[derive(Debug)]
pub(crate) struct Presence {
    /// The LSN of a state that had it; 0: none is known. Relaxed: what it says is true by itself, and a
    /// caller that needs more asks the region's word.
    seen: AtomicU64,
    /// [`THERE`], [`GONE`], or the slot of the transaction that is making it.
    state: AtomicU32,
    /// What is known of it besides, if that is to be so still.
    pub(in crate::txn) known: Option<KnownDatabase>,
}

/// What a process knows of a database that it may write to.
#[derive(Debug)]
pub(crate) struct KnownDatabase {
    /// Its name, when it was last looked for.
    name: Mutex<String>,
    /// What of its entry a transaction that writes to it has to know: which indices there are
    /// ([`Relations::followers`](super::relation::Relations::followers)).
    followers: Vec<u8>,
}

impl KnownDatabase {
    /// What an entry says that was found under a name.
    pub(crate) fn of(name: &str, entry: &CatalogEntry) -> KnownDatabase {
        KnownDatabase { name: Mutex::new(name.to_owned()), followers: entry.relations.followers() }
    }

    /// The name that it was last found under.
    pub(crate) fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::txn) fn note_name(&self, name: &str) {
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
pub(crate) enum PresenceState {
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
    pub(crate) fn knowing(self, known: KnownDatabase) -> Presence {
        Presence { known: Some(known), ..self }
    }

    /// The name that it was last found under, if that is known.
    pub(crate) fn name(&self) -> Option<String> {
        self.known.as_ref().map(KnownDatabase::name)
    }

    /// Whether an entry says the same of its indices as is known.
    pub(crate) fn knows(&self, entry: &CatalogEntry) -> bool {
        self.known.as_ref().is_none_or(|known| known.followers == entry.relations.followers())
    }

    pub(crate) fn state(&self) -> PresenceState {
        // Acquire and Release only so that one can reason from one handle to another: each state is true by
        // itself.
        match self.state.load(Ordering::Acquire) {
            THERE => PresenceState::There,
            GONE => PresenceState::Gone,
            slot => PresenceState::New(slot as u16),
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

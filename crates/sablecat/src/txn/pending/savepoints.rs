//! Savepoints: positions in a journal of what each entry of a write set was before it changed.

use std::sync::atomic::{self, AtomicU64};

use super::short::Short;
use super::write_set::Pending;
use crate::error::{Error, Result};
use crate::txn::ranges::Added;
use crate::types::TreeId;

/// What undoes a change.
#[derive(Debug)]
struct Undo {
    /// Which of all changes of the write set this undoes, the undone ones counted.
    change: u64,
    tree: TreeId,
    what: Undone,
}

/// What was before a change.
#[derive(Debug)]
pub(in crate::txn) enum Undone {
    /// A record, and what was there: nothing, or what was pending.
    Record(Short, Option<Pending>),
    /// The removal of a range.
    Range(Added),
}

/// A place in a write set to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The write set's number.
    set: u64,
    /// How many changes the journal has before it.
    len: usize,
    /// The last of these; 0: there are none.
    after: u64,
}

/// The journal of a write set.
#[derive(Debug)]
pub(in crate::txn) struct UndoJournal {
    /// The write set's number: no other of this process has it.
    set: u64,
    /// How many changes there have been, the undone ones counted.
    changes: u64,
    undos: Vec<Undo>,
    /// As many of the first undos cannot be rolled back at present: they are from before a transaction within
    /// the transaction. None: there is no such.
    kept: Option<usize>,
}

/// Numbers of write sets with savepoints.
static SETS: AtomicU64 = AtomicU64::new(1);

impl Default for UndoJournal {
    fn default() -> UndoJournal {
        // Relaxed: the numbers need only differ.
        UndoJournal {
            set: SETS.fetch_add(1, atomic::Ordering::Relaxed),
            changes: 0,
            undos: Vec::new(),
            kept: None,
        }
    }
}

impl UndoJournal {
    pub(in crate::txn) fn position(&self) -> Position {
        Position {
            set: self.set,
            len: self.undos.len(),
            after: self.undos.last().map_or(0, |undo| undo.change),
        }
    }

    /// Refuses a position that cannot be rolled back to.
    pub(in crate::txn) fn check(&self, position: Position) -> Result<()> {
        if position.set != self.set {
            return Err(foreign());
        }
        let after =
            position.len.checked_sub(1).map_or(Some(0), |last| self.undos.get(last).map(|undo| undo.change));
        if after != Some(position.after) {
            return Err(Error::invalid(
                "rolling back to a savepoint that is gone, since the transaction was rolled back to an \
                 earlier one: nothing was undone",
            ));
        }
        if self.kept.is_some_and(|kept| position.len < kept) {
            return Err(Error::invalid(
                "rolling back, in a nested transaction, to a savepoint from before it: nothing was undone; \
                 let the nested transaction fail, which undoes what it did, then roll back",
            ));
        }
        Ok(())
    }

    /// Notes a change.
    pub(in crate::txn) fn note(&mut self, tree: TreeId, what: Undone) {
        self.changes += 1;
        self.undos.push(Undo { change: self.changes, tree, what });
    }

    /// What undoes the last change made since a position, and of which tree.
    pub(super) fn last_since(&mut self, position: Position) -> Option<(TreeId, &mut Undone)> {
        self.undos.get_mut(position.len..)?.last_mut().map(|undo| (undo.tree, &mut undo.what))
    }

    /// Notes no more what undoes the last change.
    pub(super) fn forget_last(&mut self) {
        self.undos.pop();
    }

    /// Keeps what was noted so far from being rolled back; says how much was kept before.
    pub(in crate::txn) fn keep(&mut self) -> Option<usize> {
        self.kept.replace(self.undos.len())
    }

    /// Ends [`UndoJournal::keep`], by what that said.
    pub(in crate::txn) fn keep_only(&mut self, kept: Option<usize>) {
        self.kept = kept;
    }

    /// Whether any of it is kept from being rolled back.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

/// The error of rolling back to a position of another write set.
pub(super) fn foreign() -> Error {
    Error::invalid(
        "rolling back to a savepoint of another transaction, or of an earlier run of this one: nothing was \
         undone; use the savepoints that this transaction was asked for in this run",
    )
}

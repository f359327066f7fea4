//! What the statements in progress depend on.
//!
//! A transaction is serialisable: what it has read is compared at its commit. With less isolation, which a
//! program asks for by a `PRAGMA`, it depends on what statements that write have read, and no more. So
//! whatever makes sure that what is written goes together (keys that are unique, references, triggers,
//! indices that are built, what is behind virtual tables) is as sure as ever, and of two transactions that
//! change one row the second to commit has a conflict. What is left out is what `SELECT` has read: two
//! transactions may each read what the other one changes, and both commit.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use crate::failure::Failure;

/// How isolated the transactions of a connection are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// As if one ran after the other.
    Serializable,
    /// They see one state each, and depend on what statements that write have read.
    Snapshot,
}

impl Level {
    const ALL: [Level; 2] = [Level::Serializable, Level::Snapshot];

    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Level::Serializable => c"serializable",
            Level::Snapshot => c"snapshot",
        }
    }

    pub(crate) fn of_name(name: &CStr) -> Result<Level, Failure> {
        let is_it = |level: &Level| level.name().to_bytes().eq_ignore_ascii_case(name.to_bytes());
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let names = Self::ALL.map(|level| level.name().to_string_lossy()).join(", ");
            Failure::refused(format!("there is no isolation {:?}; there are {names}", name.to_string_lossy()))
        })
    }
}

/// SQLite's own counts of the statements that a connection has in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statements {
    /// Of those that write,
    writing: NonNull<c_int>,
    /// and of those that run at this moment, one within the other.
    running: NonNull<c_int>,
}

impl Statements {
    /// # Safety
    /// Both are there for as long as this is used, and nobody changes them meanwhile but the caller.
    pub(crate) unsafe fn new(writing: NonNull<c_int>, running: NonNull<c_int>) -> Statements {
        Statements { writing, running }
    }

    /// Whether what is read now is a `SELECT`'s alone. Those within others are part of what these do: of FTS5
    /// and R*Tree, which look so for where to write.
    pub(super) fn only_read(&self) -> bool {
        // SAFETY: by the word of the caller of `new`.
        unsafe { *self.writing.as_ptr() == 0 && *self.running.as_ptr() <= 1 }
    }
}

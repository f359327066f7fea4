//! Errors that several rooms give.

use crate::error::{Error, ErrorKind};
use crate::pages::LocalParticipant;
use crate::region::SlotCounter;
use crate::trace::{self, Happened};

/// The error of a transaction that lost to another.
#[cold]
pub(crate) fn conflict(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Conflict, what)
}

/// Counts the error of a transaction, if it is that one.
#[cold]
pub(in crate::txn) fn count_conflict(error: Error, me: &LocalParticipant) -> Error {
    if error.kind() == ErrorKind::Conflict {
        me.slot().count(SlotCounter::Conflicts, 1);
        trace::tell(Happened::Conflict(&error));
    }
    error
}

/// The error of a transaction that finds that a database is gone.
#[cold]
pub(in crate::txn) fn removed() -> Error {
    conflict(
        "another transaction removed a database that this one uses, and committed first; run this one again",
    )
}

/// The error of loading what is not empty.
#[cold]
pub(crate) fn not_empty() -> Error {
    Error::invalid(
        "a bulk load into a database that is not empty; insert the records, or load a new database",
    )
}

//! Errors, as SQLite knows them: a result code, and the sentence that goes with it.
//!
//! SQLite has a sentence for each of its codes. Ours say more: they are kept, for each thread the last one,
//! until SQLite asks for what a code of ours means. Codes of ours are SQLite's, extended by a number that is
//! in none of its own; so is the code for a lost transaction, which is SQLite's own.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use sablecat::{Error, ErrorKind};

pub(crate) const OK: c_int = 0;
const ERROR: c_int = 1;
pub(crate) const BUSY: c_int = 5;
const NOMEM: c_int = 7;
const READONLY: c_int = 8;
const IOERR: c_int = 10;
const CORRUPT: c_int = 11;
const FULL: c_int = 13;
const CANTOPEN: c_int = 14;
const TOOBIG: c_int = 18;
const CONSTRAINT: c_int = 19;
const MISMATCH: c_int = 20;
pub(crate) const BUSY_SNAPSHOT: c_int = BUSY | (2 << 8);

/// What marks a code as ours.
const OURS: c_int = 0x53 << 8;

/// Why a call of SQLite's fails.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) message: String,
}

impl Failure {
    /// Somebody else is in the way, for now.
    pub(crate) fn busy() -> Failure {
        Failure { code: BUSY, message: String::new() }
    }

    /// The transaction in progress cannot commit any more.
    pub(crate) fn conflict() -> Failure {
        let message = "database is locked: another transaction changed what this one has read and is to \
                       change, and committed first; only ROLLBACK helps, then run the transaction again";
        Failure { code: BUSY_SNAPSHOT, message: message.to_owned() }
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Failure {
        Failure { code: CORRUPT | OURS, message: message.into() }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure { code: ERROR | OURS, message: message.into() }
    }

    /// What was asked for cannot be.
    pub(crate) fn refused(message: impl Into<String>) -> Failure {
        Failure { code: ERROR | OURS, message: message.into() }
    }

    pub(crate) fn cannot_open(message: impl Into<String>) -> Failure {
        Failure { code: CANTOPEN | OURS, message: message.into() }
    }

    pub(crate) fn too_big(message: impl Into<String>) -> Failure {
        Failure { code: TOOBIG | OURS, message: message.into() }
    }

    /// A row is none that the table can have.
    pub(crate) fn constraint(message: impl Into<String>) -> Failure {
        Failure { code: CONSTRAINT | OURS, message: message.into() }
    }

    /// A value is none of those that a column takes.
    pub(crate) fn mismatch(message: impl Into<String>) -> Failure {
        Failure { code: MISMATCH | OURS, message: message.into() }
    }

    pub(crate) fn read_only(message: impl Into<String>) -> Failure {
        Failure { code: READONLY | OURS, message: message.into() }
    }

    /// Keeps the message for SQLite to ask for, and returns the code.
    pub(crate) fn tell(self) -> c_int {
        if self.code > 0xff {
            let message = CString::new(self.message.replace('\0', " ")).unwrap_or_default();
            LAST.with(|last| *last.borrow_mut() = (self.code, message));
        }
        self.code
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error.kind() {
            ErrorKind::Conflict | ErrorKind::SnapshotTooOld | ErrorKind::Deadlock => BUSY_SNAPSHOT,
            ErrorKind::Timeout | ErrorKind::InUse | ErrorKind::TooMany => BUSY | OURS,
            ErrorKind::Io | ErrorKind::Poisoned | ErrorKind::NotDurable => IOERR | OURS,
            ErrorKind::Corruption | ErrorKind::NotFound => CORRUPT | OURS,
            ErrorKind::DiskFull | ErrorKind::CacheFull | ErrorKind::Exhausted => FULL | OURS,
            ErrorKind::MemoryFull => NOMEM | OURS,
            ErrorKind::ReadOnly => READONLY | OURS,
            _ => ERROR | OURS,
        };
        let message = match code & 0xff {
            // SQLite's words first: programs know by these that they are to try again.
            BUSY => format!("database is locked: {error}"),
            _ => error.to_string(),
        };
        Failure { code, message }
    }
}

thread_local! {
    static LAST: RefCell<(c_int, CString)> = RefCell::new((OK, CString::default()));
}

/// The sentence for a code, if it is of the last failure in this thread. Good until the next one.
pub(crate) fn message(code: c_int) -> *const c_char {
    LAST.with(|last| match &*last.borrow() {
        (of, message) if *of == code => message.as_ptr(),
        _ => std::ptr::null(),
    })
}

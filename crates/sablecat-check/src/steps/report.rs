//! What stepping through an operation came to, or why it did not.

use std::fmt;

/// What it came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Report {
    /// Instructions of the operation, or moments before and after its system calls.
    pub steps: u64,
    /// Different states in which the process died.
    pub states: u64,
    /// Of these, states in which the operation was found done.
    pub done: u64,
    /// Survivors that had the files alone.
    pub files_alone: u64,
    /// Deaths in earnest.
    pub kills: u64,
    /// Times the process was stopped while it held nothing, and others went on.
    pub stops: u64,
    /// Of these, times at which it had a role that others took over.
    pub passed_on: u64,
    /// The last step that was looked at, if the run ended before the operation did.
    pub cut_after: Option<u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { steps, states, done, files_alone, kills, stops, passed_on, cut_after } = self;
        write!(
            f,
            "{steps} steps, {states} states, done in {done} of them; {files_alone} times the files alone; \
             {kills} killed, {stops} stopped, {passed_on} of them in a role"
        )?;
        cut_after.map_or(Ok(()), |after| write!(f, "; cut short: the rest is --after {after}"))
    }
}

/// Why an operation was not stepped through to a good end.
#[derive(Debug)]
pub enum Why {
    /// It cannot be done on this machine.
    NotPermitted,
    /// Something is wrong.
    Wrong(String),
}

impl From<String> for Why {
    fn from(wrong: String) -> Why {
        Why::Wrong(wrong)
    }
}

impl From<std::io::Error> for Why {
    fn from(error: std::io::Error) -> Why {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            Why::NotPermitted
        } else {
            Why::Wrong(error.to_string())
        }
    }
}

impl From<sablecat::Error> for Why {
    fn from(error: sablecat::Error) -> Why {
        Why::Wrong(error.to_string())
    }
}

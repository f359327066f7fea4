//! The checks of `tidy`.
//!
//! ```text
//! layers.rs     modules of the engine use only the layers below them
//! ways.rs       what is said of a read's and a write's way through them is so
//! names.rs      types have names of their own
//! unsafety.rs   every `unsafe` says why it is sound, and is where it may be
//! links.rs      documents point to what exists
//! format.rs     docs/format.md names the versions that the code writes
//! length.rs     no file is too long to be one idea
//! width.rs      lines are narrow enough to be read
//! wording.rs    nothing that belongs on somebody's machine
//! licences.rs   every package says under which terms it may be used
//! packages.rs   every package that may be published says what it is
//! ```
//!
//! A problem names file and line and says what to do.

mod format;
mod layers;
mod length;
mod licences;
mod links;
mod names;
mod packages;
mod unsafety;
mod ways;
mod width;
mod wording;

use std::fmt;
use std::io;
use std::path::Path;

use crate::files::{self, TextFile};

/// Something to put right.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    path: String,
    /// 0: the file as a whole.
    line: usize,
    what: String,
}

impl Problem {
    fn new(file: &TextFile, line: usize, what: impl fmt::Display) -> Problem {
        Problem { path: file.path.clone(), line, what: what.to_string() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// A check: what is wrong with the files of a checkout.
type Check = fn(&[TextFile]) -> Vec<Problem>;

/// Runs all checks on the checkout at `root`.
pub(crate) fn run(root: &Path) -> io::Result<Vec<Problem>> {
    let files = files::all(root)?;
    let checks: [Check; 11] = [
        layers::check,
        ways::check,
        names::check,
        unsafety::check,
        links::check,
        format::check,
        length::check,
        width::check,
        wording::check,
        licences::check,
        packages::check,
    ];
    Ok(checks.iter().flat_map(|check| check(&files)).collect())
}

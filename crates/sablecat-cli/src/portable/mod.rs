//! Databases as text that other programs read and write too.
//!
//! ```text
//! berkeley.rs    what Berkeley DB's db_dump and db_load write and read, in both of its forms
//! json.rs        a JSON object on each line
//! lines.rs       lines that are read, and told by their numbers
//! ```
//!
//! What reads such text gives its parts one at a time, so that it may be larger than memory. ZWR, the text of
//! globals, is the library's.

pub(crate) mod berkeley;
pub(crate) mod json;
pub(crate) mod lines;

use clap::ValueEnum;
use sablecat::Method;

use crate::Failure;

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Berkeley DB's, in hexadecimal digits (db_dump)
    Db,
    /// Berkeley DB's, with text as it is (db_dump -p)
    DbPrint,
    /// A JSON object on each line
    Json,
    /// GT.M's, of a database that holds globals (mupip extract -format=zwr)
    Zwr,
}

/// A part of what text says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A database begins; without a name, if the text has none for it. How it is arranged, if it is made.
    Database(Option<String>, Method),
    /// A record of the last to begin.
    Record(Vec<u8>, Vec<u8>),
}

/// Text that is being read.
pub(crate) trait Parts {
    /// The next part; none at the end.
    fn next(&mut self) -> Result<Option<Part>, Failure>;

    /// An error that names the line of the last part.
    fn wrong(&self, why: &dyn std::fmt::Display) -> Failure;
}

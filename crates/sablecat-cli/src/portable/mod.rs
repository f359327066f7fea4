//! Databases as text that other programs read and write too.
//!
//! ```text
//! berkeley.rs    what Berkeley DB's db_dump and db_load write and read, in both of its forms
//! json.rs        a JSON object on each line
//! kinds.rs       databases by what they hold
//! lines.rs       lines that are read, and told by their numbers
//! ```
//!
//! What reads such text gives its parts one at a time, so that it may be larger than memory. ZWR, the text of
//! globals, is the library's.

pub(crate) mod berkeley;
pub(crate) mod json;
pub(crate) mod kinds;
pub(crate) mod lines;

use clap::ValueEnum;

use crate::Failure;
use kinds::{Made, Which};

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
    /// A database begins; without a name, if the text has none for it. What it is, if it is made.
    Database(Option<String>, Made),
    /// A record of the last to begin.
    Record(Vec<u8>, Vec<u8>),
    /// The same, and from when on it is gone, in milliseconds since 1970.
    Expiring(Vec<u8>, Vec<u8>, u64),
    /// A record of the last to begin, with its number, if the text says it.
    Numbered(Option<u64>, Vec<u8>),
}

impl Part {
    /// Which record it is, and the record; none: it is a database.
    pub(crate) fn record(&self) -> Option<(Option<Which<'_>>, &[u8])> {
        match self {
            Part::Database(..) => None,
            Part::Record(key, value) => Some((Some(Which::Key(key)), value)),
            Part::Expiring(key, value, expires) => Some((Some(Which::Expiring(key, *expires)), value)),
            Part::Numbered(number, value) => Some((number.map(Which::Number), value)),
        }
    }
}

/// Text that is being read.
pub(crate) trait Parts {
    /// The next part; none at the end.
    fn next(&mut self) -> Result<Option<Part>, Failure>;

    /// An error that names the line of the last part.
    fn wrong(&self, why: &dyn std::fmt::Display) -> Failure;
}

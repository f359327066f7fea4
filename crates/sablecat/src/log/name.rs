//! What the names of the log's files say.

use super::limits::SEGMENT_BYTES_MIN;
use crate::types::Lsn;

/// Segments have lower numbers than this: of the shortest there are, those that LSNs lie in. A file with
/// another number in its name is not the log's.
const NUMBERS: u64 = Lsn::END.0 / SEGMENT_BYTES_MIN;

/// The segment that a part of a file name says.
pub(super) fn segment_in_name(digits: &str) -> Option<u64> {
    number_in_name(digits).filter(|&number| number < NUMBERS)
}

/// The number that a part of a file name says.
fn number_in_name(digits: &str) -> Option<u64> {
    let are_digits = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

/// What a file name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Log(u64),
    Spare(u64),
    New(u64),
    Copy(u64),
}

impl Name {
    pub(super) fn parse(name: &str) -> Option<Name> {
        let (digits, kind) = name.split_once('.')?;
        match kind {
            "log" => segment_in_name(digits).map(Name::Log),
            "spare" => segment_in_name(digits).map(Name::Spare),
            "new" => number_in_name(digits).map(Name::New),
            "copy" => number_in_name(digits).map(Name::Copy),
            _ => None,
        }
    }

    /// The number, unless the file was never in use.
    pub(super) fn number_used(self) -> Option<u64> {
        match self {
            Name::Log(number) | Name::Spare(number) => Some(number),
            Name::New(_) | Name::Copy(_) => None,
        }
    }

    pub(super) fn file_name(self) -> String {
        match self {
            Name::Log(number) => format!("{number:016x}.log"),
            Name::Spare(number) => format!("{number:016x}.spare"),
            Name::New(number) => format!("{number:016x}.new"),
            Name::Copy(number) => format!("{number:016x}.copy"),
        }
    }
}

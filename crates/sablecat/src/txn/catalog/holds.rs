//! What kind of records a database holds, as the catalog's entry says it.
//!
//! ```text
//! option  values    1 | 0 sorted, 1 as inserted
//!         queue     2 | record's bytes u32 | pad u8
//!         numbers   3 | flags u8: 1 of one length | record's bytes u32 | pad u8
//!         globals   4
//!         numbers that close up  5 | flags u8: 1 of one length | record's bytes u32 | pad u8
//!         expiring  6
//! ```
//!
//! Nothing is done by it: which records there are, and what they mean, the handles know (api/multi/mod.rs,
//! api/queue.rs and their like). It keeps a database of one kind from being opened as another, whose records
//! would be written between its own. A database of which nothing is said holds whatever is put into it: plain
//! records, or, from before there was this option, keys with several values or globals.

use std::fmt;

use crate::access::Method;
use crate::error::{Error, Result};

/// The kind of records that a database holds: see [`Database::holds`](crate::Database::holds).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum Holds {
    /// Plain records: keys with one value each.
    #[default]
    Records,
    /// Keys with several values: a [`MultiMap`](crate::MultiMap).
    Values(Duplicates),
    /// A [`Queue`](crate::Queue).
    Queue {
        /// Bytes of a record.
        record_bytes: u32,
        /// The byte that shorter ones are filled up with.
        pad: u8,
    },
    /// Records by number: [`Numbered`](crate::Numbered).
    Numbers {
        /// Bytes of each record; none: they have any length.
        record_bytes: Option<u32>,
        /// The byte that shorter ones are filled up with, where all have one length.
        pad: u8,
    },
    /// Records by number, in which an insertion or a removal changes the numbers of all records after it:
    /// [`Numbered::open_renumbered`](crate::Numbered::open_renumbered).
    Renumbered {
        /// Bytes of each record; none: they have any length.
        record_bytes: Option<u32>,
        /// The byte that shorter ones are filled up with, where all have one length.
        pad: u8,
    },
    /// Globals: [`Globals`](crate::globals::Globals).
    Globals,
    /// Records that can expire: [`Expiring`](crate::Expiring).
    Expiring,
}

/// The order of a key's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Duplicates {
    /// By their bytes; no value is there twice for the same key.
    Sorted,
    /// As they were inserted; the same value may be there several times.
    Inserted,
}

const VALUES: u8 = 1;
const QUEUE: u8 = 2;
const NUMBERS: u8 = 3;
const GLOBALS: u8 = 4;
const RENUMBERED: u8 = 5;
const EXPIRING: u8 = 6;

const SORTED: u8 = 0;
const INSERTED: u8 = 1;
const OF_ONE_LENGTH: u8 = 1;

impl Holds {
    /// What the option says; nothing of plain records.
    pub(crate) fn encode(self) -> Option<Vec<u8>> {
        match self {
            Holds::Records => None,
            Holds::Values(Duplicates::Sorted) => Some(vec![VALUES, SORTED]),
            Holds::Values(Duplicates::Inserted) => Some(vec![VALUES, INSERTED]),
            Holds::Queue { record_bytes, pad } => {
                let [a, b, c, d] = record_bytes.to_le_bytes();
                Some(vec![QUEUE, a, b, c, d, pad])
            }
            Holds::Numbers { record_bytes, pad } => Some(encode_numbers(NUMBERS, record_bytes, pad)),
            Holds::Renumbered { record_bytes, pad } => Some(encode_numbers(RENUMBERED, record_bytes, pad)),
            Holds::Globals => Some(vec![GLOBALS]),
            Holds::Expiring => Some(vec![EXPIRING]),
        }
    }

    /// What an option says; none if this build does not know that.
    pub(crate) fn decode(option: &[u8]) -> Option<Holds> {
        Some(match *option {
            [VALUES, SORTED] => Holds::Values(Duplicates::Sorted),
            [VALUES, INSERTED] => Holds::Values(Duplicates::Inserted),
            [QUEUE, a, b, c, d, pad] => Holds::Queue { record_bytes: u32::from_le_bytes([a, b, c, d]), pad },
            [kind @ (NUMBERS | RENUMBERED), flags @ (0 | OF_ONE_LENGTH), a, b, c, d, pad] => {
                let record_bytes = (flags == OF_ONE_LENGTH).then_some(u32::from_le_bytes([a, b, c, d]));
                if kind == NUMBERS {
                    Holds::Numbers { record_bytes, pad }
                } else {
                    Holds::Renumbered { record_bytes, pad }
                }
            }
            [GLOBALS] => Holds::Globals,
            [EXPIRING] => Holds::Expiring,
            _ => return None,
        })
    }

    /// Whether what holds this may be used as what holds the other.
    pub(crate) fn serves_as(self, other: Holds) -> bool {
        self == other || self == Holds::Records && matches!(other, Holds::Values(_) | Holds::Globals)
    }

    /// An error for records that all have no bytes.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Holds::Queue { record_bytes: 0, .. } => {
                Err(Error::invalid("a queue with records of 0 bytes; they must have at least 1"))
            }
            Holds::Numbers { record_bytes: Some(0), .. }
            | Holds::Renumbered { record_bytes: Some(0), .. } => Err(Error::invalid(
                "numbered records of 0 bytes; give a length of at least 1, or none for records of any length",
            )),
            _ => Ok(()),
        }
    }

    /// The method that its records are to be arranged by, if there is but one.
    pub(crate) fn method(self) -> Option<Method> {
        matches!(self, Holds::Renumbered { .. }).then(Method::of_closing_numbers)
    }

    /// Whether there are marks among its records, which have no value and are not shown.
    pub(crate) fn has_marks(self) -> bool {
        matches!(self, Holds::Queue { .. })
    }

    /// Whether its records must be in the order of their keys.
    pub(crate) fn needs_order(self) -> bool {
        !matches!(self, Holds::Records | Holds::Expiring)
    }
}

fn encode_numbers(kind: u8, record_bytes: Option<u32>, pad: u8) -> Vec<u8> {
    let [a, b, c, d] = record_bytes.unwrap_or_default().to_le_bytes();
    vec![kind, if record_bytes.is_some() { OF_ONE_LENGTH } else { 0 }, a, b, c, d, pad]
}

/// What it is called.
impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Holds::Records => f.write_str("plain records"),
            Holds::Values(Duplicates::Sorted) => f.write_str("keys with several values, sorted"),
            Holds::Values(Duplicates::Inserted) => f.write_str("keys with several values, as inserted"),
            Holds::Queue { record_bytes, pad } => {
                write!(f, "a queue, records of {record_bytes} bytes, padded with 0x{pad:02x}")
            }
            Holds::Numbers { record_bytes: Some(bytes), pad } => {
                write!(f, "numbered records of {bytes} bytes, padded with 0x{pad:02x}")
            }
            Holds::Numbers { record_bytes: None, .. } => f.write_str("numbered records"),
            Holds::Renumbered { record_bytes: Some(bytes), pad } => {
                write!(f, "records of {bytes} bytes whose numbers close up, padded with 0x{pad:02x}")
            }
            Holds::Renumbered { record_bytes: None, .. } => f.write_str("records whose numbers close up"),
            Holds::Globals => f.write_str("globals"),
            Holds::Expiring => f.write_str("records that expire"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_all_else_is_not_known() {
        let all = [
            Holds::Values(Duplicates::Sorted),
            Holds::Values(Duplicates::Inserted),
            Holds::Queue { record_bytes: 0x0102_0304, pad: 7 },
            Holds::Numbers { record_bytes: Some(80), pad: b' ' },
            Holds::Numbers { record_bytes: None, pad: 0 },
            Holds::Renumbered { record_bytes: Some(7), pad: b'.' },
            Holds::Renumbered { record_bytes: None, pad: 0 },
            Holds::Globals,
            Holds::Expiring,
        ];
        assert_eq!(Holds::Records.encode(), None);
        assert_eq!(all[2].encode().as_deref(), Some(&[2, 4, 3, 2, 1, 7][..]));
        for holds in all {
            let mut option = holds.encode().expect("it is said");
            assert_eq!(Holds::decode(&option), Some(holds));
            option.push(0);
            assert_eq!(Holds::decode(&option), None);
            assert_eq!(Holds::decode(&option[..option.len() - 2]), None);
        }
        for unknown in [&[9][..], &[1, 2], &[3, 2, 0, 0, 0, 0, 0], &[]] {
            assert_eq!(Holds::decode(unknown), None);
        }
        assert!(Holds::Records.serves_as(Holds::Globals) && !Holds::Globals.serves_as(Holds::Records));
        assert!(!Holds::Records.serves_as(all[2]) && !Holds::Records.serves_as(all[4]));
    }
}

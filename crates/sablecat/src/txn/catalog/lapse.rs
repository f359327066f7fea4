//! Records that lapse: what a database whose records expire says of the time until which each is there.
//!
//! ```text
//! value of a record           milliseconds since 1970 from which on it is gone, u64 LE; 0: never
//!                             | the user's value
//! entry in the index by time  those milliseconds, u64 BE, as the first of a pair (pairs.rs)
//!                             | the record's key
//! ```
//!
//! The index is kept as all indices are, by an extractor of this name that every process has. It has an entry
//! for each record that lapses, in the order of time: a sweep finds what has lapsed at the index's beginning.
//!
//! *What a sweep takes is no change* to a transaction for which it had lapsed already. So where a transaction
//! compares what it has seen, or what it changes, with what others have made of it, a record that was there,
//! had lapsed at the transaction's time, and is not there any more, counts as the same: it was not there
//! before either. That is looked at only where two states differ, so what does not lapse pays nothing for it.

use crate::txn::pairs;

/// The extractor of the index by time. No program can give one of this name.
pub(crate) const BY_EXPIRY: &str = "\0expiry";

/// Bytes before the user's value.
pub(crate) const HEAD_BYTES: usize = 8;

/// Whether records of a tree lapse, and where it is said when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Lapse {
    /// They do not.
    #[default]
    Never,
    /// Their values begin with it.
    Records,
    /// Their keys do: they are the entries of an index by time.
    Entries,
}

impl Lapse {
    /// Whether a record is gone at a time, as far as its key says so; else the value has to be asked, as the
    /// second says.
    pub(in crate::txn) fn of_key(self, key: &[u8], time: u64) -> (bool, bool) {
        match self {
            Lapse::Never => (false, false),
            Lapse::Records => (false, true),
            Lapse::Entries => (entry_parts(key).is_some_and(|(expires, _)| is_gone(expires, time)), false),
        }
    }
}

/// The time that is said by the beginning of a value; none if there is not so much of it.
#[inline]
pub(crate) fn expires(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|head| u64::from_le_bytes(*head))
}

/// Whether what says this is gone at a time.
#[inline]
pub(crate) fn is_gone(expires: u64, time: u64) -> bool {
    expires != 0 && expires <= time
}

/// The index key of a record that is gone from a time on.
pub(crate) fn index_key(expires: u64) -> [u8; 8] {
    expires.to_be_bytes()
}

/// What an entry of the index by time says: when, and the record's key. None if it is no such entry.
pub(crate) fn entry_parts(entry: &[u8]) -> Option<(u64, &[u8])> {
    let (first, key) = pairs::parts(entry).ok()?;
    Some((u64::from_be_bytes(first.try_into().ok()?), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_sort_by_time_and_say_it() {
        let times = [1, 255, 256, 0x0100_0000_0000, 0x0100_0000_0001, u64::MAX];
        let entries = times.map(|time| pairs::pair(&index_key(time), b"\0key"));
        assert!(entries.is_sorted());
        for (entry, time) in entries.iter().zip(times) {
            assert_eq!(entry_parts(entry), Some((time, &b"\0key"[..])));
            assert_eq!(Lapse::Entries.of_key(entry, time), (true, false));
            assert_eq!(Lapse::Entries.of_key(entry, time - 1), (false, false));
        }
        assert_eq!(entry_parts(b"no entry"), None);
        assert_eq!(entry_parts(&pairs::pair(b"1234567", b"key")), None);
    }

    #[test]
    fn what_says_no_time_is_never_gone() {
        assert!(!is_gone(0, u64::MAX) && is_gone(5, 5) && !is_gone(5, 4));
        assert_eq!((expires(b"1234567"), expires(&[1, 0, 0, 0, 0, 0, 0, 0, 9])), (None, Some(1)));
    }
}

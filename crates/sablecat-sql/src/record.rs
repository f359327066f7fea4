//! SQLite's records, as far as their keys are made of them: a header of types, then the values.
//!
//! ```text
//! record = varint length of the header, with itself | varint type ... | value ...
//! type     0 null; 1..=6 integers of 1, 2, 3, 4, 6, 8 bytes; 7 real; 8, 9 the integers 0 and 1;
//!          even from 12 on: a blob of (type - 12) / 2 bytes; odd from 13 on: text of (type - 13) / 2
//! ```

use crate::failure::Failure;

/// A value, borrowed from where SQLite has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'v> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'v [u8]),
    /// Bytes, and how many zeros follow.
    Blob(&'v [u8], u32),
}

/// The values of a record, one after the other.
pub(crate) struct Values<'r> {
    record: &'r [u8],
    types: &'r [u8],
    data: usize,
}

impl<'r> Values<'r> {
    pub(crate) fn of(record: &'r [u8]) -> Result<Values<'r>, Failure> {
        let (length, begin) = varint(record).ok_or_else(broken)?;
        let length = usize::try_from(length).map_err(|_| broken())?;
        let types = record.get(begin..length).ok_or_else(broken)?;
        Ok(Values { record, types, data: length })
    }

    /// The next value. A record with fewer than are asked for has nulls there, as in a table that got more
    /// columns.
    pub(crate) fn next(&mut self) -> Result<Value<'r>, Failure> {
        if self.types.is_empty() {
            return Ok(Value::Null);
        }
        let (kind, length) = varint(self.types).ok_or_else(broken)?;
        self.types = &self.types[length..];
        let size = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return Err(broken()),
            _ => usize::try_from((kind - 12) / 2).map_err(|_| broken())?,
        };
        let end = self.data.checked_add(size).ok_or_else(broken)?;
        let bytes = self.record.get(self.data..end).ok_or_else(broken)?;
        self.data = end;
        Ok(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => Value::Integer(integer(bytes)),
            7 => real(f64::from_bits(integer(bytes) as u64)),
            _ if kind % 2 == 0 => Value::Blob(bytes, 0),
            _ => Value::Text(bytes),
        })
    }
}

/// Adds a number as SQLite writes those of a record's header: seven bits in a byte, the highest first, and
/// eight in a ninth.
pub(crate) fn push_varint(to: &mut Vec<u8>, number: u64) {
    let bits = u64::BITS - number.leading_zeros();
    let bytes = bits.div_ceil(7).max(1);
    debug_assert!(bytes < 9, "lengths are shorter");
    for n in (0..bytes).rev() {
        let more = if n > 0 { 0x80 } else { 0 };
        to.push((number >> (7 * n)) as u8 & 0x7f | more);
    }
}

fn broken() -> Failure {
    Failure::corrupt(
        "a record of an index is not in SQLite's format; check the database with PRAGMA integrity_check",
    )
}

/// A real, of which SQLite takes what is no number for null.
fn real(value: f64) -> Value<'static> {
    if value.is_nan() { Value::Null } else { Value::Real(value) }
}

fn integer(bytes: &[u8]) -> i64 {
    let sign = bytes.first().map_or(0, |first| if first & 0x80 == 0 { 0 } else { -1 });
    bytes.iter().fold(sign, |sum, byte| (sum << 8) | i64::from(*byte))
}

/// A number in SQLite's variable length, and how many bytes it has.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut sum = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(8) {
        sum = (sum << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((sum, at + 1));
        }
    }
    bytes.get(8).map(|last| ((sum << 8) | u64::from(*last), 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(record: &[u8], count: usize) -> Result<Vec<Value<'_>>, Failure> {
        let mut values = Values::of(record)?;
        (0..count).map(|_| values.next()).collect()
    }

    #[test]
    fn each_type_is_read_and_what_is_missing_is_null() {
        let record = [8, 0, 1, 2, 9, 7, 17, 14, 0x85, 1, 0, 0x40, 0x10, 0, 0, 0, 0, 0, 0, b'h', b'i', 0xff];
        assert_eq!(
            all(&record, 8).expect("a record"),
            [
                Value::Null,
                Value::Integer(-123),
                Value::Integer(256),
                Value::Integer(1),
                Value::Real(4.0),
                Value::Text(b"hi"),
                Value::Blob(&[0xff], 0),
                Value::Null,
            ]
        );
    }

    #[test]
    fn no_bytes_are_read_beyond_a_record() {
        let whole = [4, 6, 17, 7, 1, 2, 3, 4, 5, 6, 7, 8, b'h', b'i', 1, 2, 3, 4, 5, 6, 7, 8];
        for length in 0..whole.len() {
            assert!(all(&whole[..length], 3).is_err(), "{length} of {} bytes", whole.len());
        }
        assert!(all(&whole, 3).is_ok());
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let _ = all(&[first, second, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 4);
            }
        }
    }
}

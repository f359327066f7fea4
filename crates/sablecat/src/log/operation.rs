//! The operations in the body of a commit.
//!
//! ```text
//! put:     1 u8 │ tree varint │ key length varint │ key │ value length varint │ value
//! delete:  2 u8 │ tree varint │ key length varint │ key
//! range:   3 u8 │ tree varint │ lower bound │ upper bound
//! bound:   0 u8: none; 1 u8 (the key is in the range) or 2 u8 (it is not) │ key length varint │ key
//! ```
//!
//! Varints are little-endian groups of seven bits, the high bit set on all but the last.

use std::ops::Bound;

use crate::error::{Error, Result};
use crate::types::{Lsn, TreeId};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;

const UNBOUNDED: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

/// One change to one tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogOperation<'a> {
    /// `key` has `value` from here on.
    Put { tree: TreeId, key: &'a [u8], value: &'a [u8] },
    /// `key` is gone from here on.
    Delete { tree: TreeId, key: &'a [u8] },
    /// All keys between two bounds are gone from here on.
    DeleteRange { tree: TreeId, lower: Bound<&'a [u8]>, upper: Bound<&'a [u8]> },
}

impl LogOperation<'_> {
    /// The tree that it changes.
    pub(crate) fn tree(&self) -> TreeId {
        match self {
            LogOperation::Put { tree, .. }
            | LogOperation::Delete { tree, .. }
            | LogOperation::DeleteRange { tree, .. } => *tree,
        }
    }
}

/// An operation is not longer than this: its code, a tree number, and two lengths, beside key and value.
pub(crate) const fn operation_bytes_max(key_len: usize, value_len: usize) -> usize {
    1 + 5 + 10 + key_len + 10 + value_len
}

/// The removal of a range is not longer than this.
pub(crate) fn range_bytes_max((lower, upper): (Bound<&[u8]>, Bound<&[u8]>)) -> usize {
    let bytes = |bound: Bound<&[u8]>| match bound {
        Bound::Unbounded => 1,
        Bound::Included(key) | Bound::Excluded(key) => 1 + 10 + key.len(),
    };
    1 + 5 + bytes(lower) + bytes(upper)
}

pub(super) fn encode_put(into: &mut Vec<u8>, tree: TreeId, key: &[u8], value: &[u8]) {
    encode_put_up_to_value(into, tree, key, value.len());
    into.extend_from_slice(value);
}

/// All of a put but its value, which comes next.
pub(super) fn encode_put_up_to_value(into: &mut Vec<u8>, tree: TreeId, key: &[u8], value_len: usize) {
    into.push(PUT);
    encode_varint(into, u64::from(tree.0));
    encode_bytes(into, key);
    encode_varint(into, value_len as u64);
}

pub(super) fn encode_delete(into: &mut Vec<u8>, tree: TreeId, key: &[u8]) {
    into.push(DELETE);
    encode_varint(into, u64::from(tree.0));
    encode_bytes(into, key);
}

pub(super) fn encode_delete_range(
    into: &mut Vec<u8>,
    tree: TreeId,
    (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
) {
    into.push(DELETE_RANGE);
    encode_varint(into, u64::from(tree.0));
    encode_bound(into, lower);
    encode_bound(into, upper);
}

fn encode_bound(into: &mut Vec<u8>, bound: Bound<&[u8]>) {
    let (kind, key) = match bound {
        Bound::Unbounded => return into.push(UNBOUNDED),
        Bound::Included(key) => (INCLUDED, key),
        Bound::Excluded(key) => (EXCLUDED, key),
    };
    into.push(kind);
    encode_bytes(into, key);
}

#[inline]
fn encode_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    encode_varint(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

#[inline]
pub(super) fn encode_varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Why bytes are not an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bad {
    /// They end too early; more may follow.
    Short,
    /// No bytes could make them one.
    Malformed(&'static str),
}

/// Takes a varint off the front of `bytes`.
#[inline]
pub(super) fn decode_varint(bytes: &mut &[u8]) -> std::result::Result<u64, Bad> {
    // Most have one byte.
    if let Some((&byte @ ..0x80, rest)) = bytes.split_first() {
        *bytes = rest;
        return Ok(byte.into());
    }
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Bad::Short)?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Bad::Malformed("a number of more than 64 bits"))
}

#[inline]
fn decode_bytes<'a>(bytes: &mut &'a [u8]) -> std::result::Result<&'a [u8], Bad> {
    let len = usize::try_from(decode_varint(bytes)?)
        .map_err(|_| Bad::Malformed("a length beyond this machine's memory"))?;
    let (taken, rest) = bytes.split_at_checked(len).ok_or(Bad::Short)?;
    *bytes = rest;
    Ok(taken)
}

fn decode_bound<'a>(bytes: &mut &'a [u8]) -> std::result::Result<Bound<&'a [u8]>, Bad> {
    let (&kind, rest) = bytes.split_first().ok_or(Bad::Short)?;
    *bytes = rest;
    match kind {
        UNBOUNDED => Ok(Bound::Unbounded),
        INCLUDED => decode_bytes(bytes).map(Bound::Included),
        EXCLUDED => decode_bytes(bytes).map(Bound::Excluded),
        _ => Err(Bad::Malformed("an unknown bound of a range")),
    }
}

/// Takes an operation off the front of `bytes`, which are not changed on failure.
pub(super) fn decode<'a>(bytes: &mut &'a [u8]) -> std::result::Result<LogOperation<'a>, Bad> {
    let mut rest = *bytes;
    let (&code, after) = rest.split_first().ok_or(Bad::Short)?;
    rest = after;
    if !matches!(code, PUT | DELETE | DELETE_RANGE) {
        return Err(Bad::Malformed("an unknown operation"));
    }
    let tree = TreeId(
        u32::try_from(decode_varint(&mut rest)?)
            .map_err(|_| Bad::Malformed("a tree number of more than 32 bits"))?,
    );
    let operation = match code {
        DELETE_RANGE => LogOperation::DeleteRange {
            tree,
            lower: decode_bound(&mut rest)?,
            upper: decode_bound(&mut rest)?,
        },
        DELETE => LogOperation::Delete { tree, key: decode_bytes(&mut rest)? },
        _ => LogOperation::Put { tree, key: decode_bytes(&mut rest)?, value: decode_bytes(&mut rest)? },
    };
    *bytes = rest;
    Ok(operation)
}

pub(super) fn damaged(lsn: Lsn, why: &str) -> Error {
    Error::corruption(format!(
        "the commit logged at LSN {lsn} has a right checksum but wrong contents: {why}"
    ))
}

/// The operations of a commit, in order.
#[derive(Clone, Debug)]
pub(crate) struct LogOperations<'a> {
    rest: &'a [u8],
    lsn: Lsn,
}

impl<'a> LogOperations<'a> {
    pub(super) fn new(body: &'a [u8], lsn: Lsn) -> LogOperations<'a> {
        LogOperations { rest: body, lsn }
    }

    /// The next operation.
    ///
    /// # Errors
    /// `Corruption` when the bytes are none.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<LogOperation<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        match decode(&mut self.rest) {
            Ok(operation) => Ok(Some(operation)),
            Err(Bad::Short) => Err(damaged(self.lsn, "its last operation is cut off")),
            Err(Bad::Malformed(why)) => Err(damaged(self.lsn, why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..most)
    }

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![
            Just(Bound::Unbounded),
            bytes(200).prop_map(Bound::Included),
            bytes(200).prop_map(Bound::Excluded)
        ]
    }

    #[derive(Clone, Debug)]
    enum Said {
        Put(Vec<u8>, Vec<u8>),
        Delete(Vec<u8>),
        DeleteRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
    }

    impl Said {
        fn as_operation(&self, tree: TreeId) -> LogOperation<'_> {
            match self {
                Said::Put(key, value) => LogOperation::Put { tree, key, value },
                Said::Delete(key) => LogOperation::Delete { tree, key },
                Said::DeleteRange(lower, upper) => LogOperation::DeleteRange {
                    tree,
                    lower: lower.as_ref().map(Vec::as_slice),
                    upper: upper.as_ref().map(Vec::as_slice),
                },
            }
        }
    }

    fn said() -> impl Strategy<Value = Said> {
        prop_oneof![
            (bytes(200), bytes(300)).prop_map(|(key, value)| Said::Put(key, value)),
            bytes(200).prop_map(Said::Delete),
            (bound(), bound()).prop_map(|(lower, upper)| Said::DeleteRange(lower, upper)),
        ]
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back(list in proptest::collection::vec((any::<u32>(), said()), 0..20)) {
            let mut bytes = Vec::new();
            for (tree, said) in &list {
                let before = bytes.len();
                let most = match said.as_operation(TreeId(*tree)) {
                    LogOperation::Put { tree, key, value } => {
                        encode_put(&mut bytes, tree, key, value);
                        operation_bytes_max(key.len(), value.len())
                    }
                    LogOperation::Delete { tree, key } => {
                        encode_delete(&mut bytes, tree, key);
                        operation_bytes_max(key.len(), 0)
                    }
                    LogOperation::DeleteRange { tree, lower, upper } => {
                        encode_delete_range(&mut bytes, tree, (lower, upper));
                        range_bytes_max((lower, upper))
                    }
                };
                prop_assert!(bytes.len() - before <= most);
            }
            let mut operations = LogOperations::new(&bytes, Lsn(0));
            for (tree, said) in &list {
                prop_assert_eq!(operations.next().unwrap(), Some(said.as_operation(TreeId(*tree))));
            }
            prop_assert_eq!(operations.next().unwrap(), None);
            // Cut anywhere, it is short, not wrong: chunks end anywhere.
            if let Some((tree, said)) = list.last() {
                let whole = bytes.len();
                let mut rest = &bytes[..];
                let mut begins = 0;
                while let Ok(operation) = decode(&mut rest) {
                    if !rest.is_empty() {
                        begins = whole - rest.len();
                    }
                    prop_assert!(!rest.is_empty() || operation == said.as_operation(TreeId(*tree)));
                    if rest.is_empty() { break; }
                }
                for end in begins..whole {
                    prop_assert_eq!(decode(&mut &bytes[begins..end]), Err(Bad::Short));
                }
            }
        }

        #[test]
        fn varints_of_any_size(value in any::<u64>(), small in 0u64..300) {
            for value in [value, small, u64::MAX] {
                let mut bytes = Vec::new();
                encode_varint(&mut bytes, value);
                prop_assert_eq!(decode_varint(&mut &bytes[..]), Ok(value));
                prop_assert_eq!(decode_varint(&mut &bytes[..bytes.len() - 1]), Err(Bad::Short));
            }
        }
    }

    #[test]
    fn overlong_varints_are_malformed() {
        assert!(matches!(decode_varint(&mut &[0xff; 11][..]), Err(Bad::Malformed(_))));
    }
}

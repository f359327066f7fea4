//! Two byte strings in one key, which sorts by the first and then by the second: a key with one of its
//! values, or an index key with the key of a record that has it.
//!
//! ```text
//! first, each zero byte of it followed by 0xff | 0x00 0x01 | second
//! ```

use std::ops::Bound;

use crate::access::KeySpan;
use crate::error::{Error, Result};

/// After the first, before the second.
pub(crate) const END: [u8; 2] = [0, 1];
/// After the first: above all that begins with it and [`END`], and below those that it is the beginning of.
pub(crate) const BEYOND: [u8; 2] = [0, 2];
/// After a zero byte of the first: so that it is none of the above.
const ESCAPE: u8 = 0xff;

/// The first with its zero bytes marked, and an end.
pub(crate) fn with_end(first: &[u8], end: [u8; 2]) -> Vec<u8> {
    with_end_and(first, end, &[])
}

/// Both in one.
pub(crate) fn pair(first: &[u8], second: &[u8]) -> Vec<u8> {
    with_end_and(first, END, second)
}

fn with_end_and(first: &[u8], end: [u8; 2], rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    add_with_end(&mut bytes, first, end, rest.len());
    bytes.extend_from_slice(rest);
    bytes
}

/// Adds the first with its zero bytes marked, and an end, to what so many more bytes will be added to.
pub(crate) fn add_with_end(bytes: &mut Vec<u8>, first: &[u8], end: [u8; 2], more: usize) {
    let zeros = first.iter().filter(|&&byte| byte == 0).count();
    bytes.reserve(first.len() + zeros + end.len() + more);
    if zeros == 0 {
        bytes.extend_from_slice(first);
    } else {
        let mut at = bytes.len();
        bytes.resize(at + first.len() + zeros, ESCAPE);
        for &byte in first {
            bytes[at] = byte;
            at += 1 + usize::from(byte == 0);
        }
    }
    bytes.extend_from_slice(&end);
}

/// How many bytes of a pair, or of what pairs begin with, are the first and its end; none if the end is not
/// there.
pub(crate) fn begin_bytes(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == 0)? + END.len();
        match *bytes.get(at - 1)? {
            ESCAPE => {}
            mark => return ([0, mark] == END).then_some(at),
        }
    }
}

/// The first, and the second.
///
/// # Errors
/// `Invalid` if the bytes are none of both.
pub(crate) fn parts(bytes: &[u8]) -> Result<(Vec<u8>, &[u8])> {
    let (mut first, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == 0 {
            match rest.split_first() {
                Some((&ESCAPE, after)) => rest = after,
                Some((&mark, after)) if [0, mark] == END => return Ok((first, after)),
                _ => break,
            }
        }
        first.push(byte);
    }
    Err(Error::invalid(format!(
        "the key {} does not end like a key with several values: something else was written to the database",
        bytes.escape_ascii()
    )))
}

/// The bounds of all with one of some firsts.
pub(crate) fn bounds_of((lower, upper): KeySpan) -> KeySpan {
    let lower = match lower {
        Bound::Included(key) => Bound::Included(with_end(&key, END)),
        Bound::Excluded(key) => Bound::Included(with_end(&key, BEYOND)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let upper = match upper {
        Bound::Included(key) => Bound::Excluded(with_end(&key, BEYOND)),
        Bound::Excluded(key) => Bound::Excluded(with_end(&key, END)),
        Bound::Unbounded => Bound::Unbounded,
    };
    (lower, upper)
}

/// The bounds of all with this first.
pub(crate) fn bounds_of_one(first: &[u8]) -> KeySpan {
    (Bound::Included(with_end(first, END)), Bound::Excluded(with_end(first, BEYOND)))
}

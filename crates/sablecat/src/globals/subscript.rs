//! Subscripts, and the keys that they make up.

use std::borrow::Cow;
use std::fmt;

use super::Number;
use super::number::{NEGATIVE, POSITIVE, ZERO};
use super::text::shown;
use crate::error::{Error, Result};

/// One step from a node to a child of it: a number or a text. Numbers sort before texts, by value; texts sort
/// by their bytes, the empty text before all numbers. A text that is written just as M writes a number is
/// that number: `"42"` is 42, `"042"` is a text.
///
/// ```
/// use sablecat::globals::Subscript;
///
/// assert_eq!(Subscript::from("42"), Subscript::from(42));
/// assert!(Subscript::from(9) < Subscript::from(10));
/// assert!(Subscript::from(10) < Subscript::from("042"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Subscript<'a>(Form<'a>);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form<'a> {
    Number(Number),
    Text(Cow<'a, [u8]>),
}

/// The bytes that begin a subscript that is no number.
const EMPTY: u8 = 0x01;
const TEXT: u8 = 0x05;
/// Ends a text, and the name of a global.
const END: u8 = 0x00;
/// After a zero byte: that is one of the text, not its end.
pub(super) const ESCAPE: u8 = 0xff;

/// The longest name of a global, in bytes.
const NAME_BYTES_MAX: usize = 31;

impl<'a> Subscript<'a> {
    fn of_text(text: Cow<'a, [u8]>) -> Subscript<'a> {
        Subscript(match Number::canonical(&text) {
            Some(number) => Form::Number(number),
            None => Form::Text(text),
        })
    }

    /// The number that it is; none if it is a text.
    #[must_use]
    pub fn number(&self) -> Option<Number> {
        match self.0 {
            Form::Number(number) => Some(number),
            Form::Text(_) => None,
        }
    }

    /// Its text; of a number, that which M writes for it.
    #[must_use]
    pub fn text(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Form::Number(number) => Cow::Owned(number.to_string().into_bytes()),
            Form::Text(text) => Cow::Borrowed(text),
        }
    }

    /// The bytes that it adds to the key of a node; such keys sort as subscripts do
    /// ([`Node::key`](super::Node::key)).
    #[must_use]
    pub fn key_bytes(&self) -> Vec<u8> {
        let mut key = Vec::new();
        self.encode(&mut key);
        key
    }

    /// Appends it to a key.
    pub(super) fn encode(&self, key: &mut Vec<u8>) {
        match &self.0 {
            Form::Number(number) => number.encode(key),
            Form::Text(text) if text.is_empty() => key.push(EMPTY),
            Form::Text(text) => {
                key.push(TEXT);
                for &byte in text.iter() {
                    key.push(byte);
                    if byte == END {
                        key.push(ESCAPE);
                    }
                }
                key.push(END);
            }
        }
    }

    /// Reads a subscript off the beginning of what is left of a key. None if there is none.
    fn decode(bytes: &mut &[u8]) -> Option<Subscript<'static>> {
        let form = match *bytes.first()? {
            EMPTY => {
                *bytes = &bytes[1..];
                Form::Text(Cow::Borrowed(&[]))
            }
            NEGATIVE | ZERO | POSITIVE => Form::Number(Number::decode(bytes)?),
            TEXT => {
                let (mut text, mut rest) = (Vec::new(), &bytes[1..]);
                loop {
                    let (&byte, next) = rest.split_first()?;
                    rest = next;
                    if byte == END {
                        match rest.split_first() {
                            Some((&ESCAPE, next)) => rest = next,
                            _ => break,
                        }
                    }
                    text.push(byte);
                }
                *bytes = rest;
                // What is a number, or empty, is written as such.
                if text.is_empty() || Number::canonical(&text).is_some() {
                    return None;
                }
                Form::Text(Cow::Owned(text))
            }
            _ => return None,
        };
        Some(Subscript(form))
    }
}

/// Where the subscript ends that begins at `at` in a key that is sound up to there; the key's end at most.
pub(super) fn end_of(key: &[u8], at: usize) -> usize {
    let mut rest = &key[at..];
    match Subscript::decode(&mut rest) {
        Some(_) => key.len() - rest.len(),
        None => key.len(),
    }
}

/// Where the name of the global ends that a key begins with, and subscripts begin; its end, if there is none.
pub(super) fn name_end(key: &[u8]) -> usize {
    key.iter().position(|&byte| byte == END).map_or(key.len(), |end| end + 1)
}

/// Where the last subscript of a key begins; 0 if it has none.
pub(super) fn last_begins(key: &[u8]) -> usize {
    let (mut begins, mut end) = (0, name_end(key));
    while end < key.len() {
        (begins, end) = (end, end_of(key, end));
    }
    begins
}

/// The key of a global: what the keys of all its nodes begin with.
///
/// # Errors
/// `Invalid` for a name that cannot be.
pub(super) fn key_of(name: &str) -> Result<Vec<u8>> {
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|byte| byte == b'%' || byte.is_ascii_alphabetic());
    if !begins || !bytes.all(|byte| byte.is_ascii_alphanumeric()) || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "{name:?} as the name of a global: one has a letter or % first, then letters and digits, \
             {NAME_BYTES_MAX} at most"
        )));
    }
    Ok([name.as_bytes(), &[END]].concat())
}

/// The name and the subscripts in a key.
///
/// # Errors
/// `Invalid` if the key is none of a node: somebody else wrote it.
pub(super) fn parts_of(key: &[u8]) -> Result<(&str, Vec<Subscript<'static>>)> {
    let parts = || {
        let end = key.iter().position(|&byte| byte == END)?;
        let name = std::str::from_utf8(&key[..end]).ok()?;
        key_of(name).ok()?;
        Some((name, decode_all(&key[end + 1..])?))
    };
    parts().ok_or_else(|| {
        Error::invalid(format!(
            "the key {} is none of a node: something else was written to the database of these globals",
            key.escape_ascii()
        ))
    })
}

/// The subscripts that a key is made of.
///
/// # Errors
/// `Invalid` if it is made of something else.
pub(crate) fn subscripts_of(key: &[u8]) -> Result<Vec<Subscript<'static>>> {
    decode_all(key).ok_or_else(|| {
        Error::invalid(format!(
            "the key {} is not made of subscripts: it is of another type",
            key.escape_ascii()
        ))
    })
}

fn decode_all(mut bytes: &[u8]) -> Option<Vec<Subscript<'static>>> {
    let mut subscripts = Vec::new();
    while !bytes.is_empty() {
        subscripts.push(Subscript::decode(&mut bytes)?);
    }
    Some(subscripts)
}

macro_rules! from_text {
    ($($text:ty, $this:ident => $bytes:expr;)*) => {$(
        impl<'a> From<$text> for Subscript<'a> {
            fn from($this: $text) -> Subscript<'a> {
                Subscript::of_text($bytes)
            }
        }
    )*};
}

from_text! {
    &'a str, text => Cow::Borrowed(text.as_bytes());
    &'a String, text => Cow::Borrowed(text.as_bytes());
    &'a [u8], text => Cow::Borrowed(text);
    String, text => Cow::Owned(text.into_bytes());
    Vec<u8>, text => Cow::Owned(text);
}

impl<'a, const N: usize> From<&'a [u8; N]> for Subscript<'a> {
    fn from(text: &'a [u8; N]) -> Subscript<'a> {
        Subscript::of_text(Cow::Borrowed(text))
    }
}

impl From<Number> for Subscript<'_> {
    fn from(number: Number) -> Self {
        Subscript(Form::Number(number))
    }
}

macro_rules! from_integers {
    ($($integer:ty)*) => {$(
        /// As the text of the integer: one of more than eighteen digits, zeros at its end not counted, sorts
        /// as a text.
        impl From<$integer> for Subscript<'_> {
            fn from(integer: $integer) -> Self {
                Subscript::of_text(Cow::Owned(integer.to_string().into_bytes()))
            }
        }
    )*};
}

from_integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

/// As they sort.
impl Ord for Subscript<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |subscript: &Self| {
            let mut key = Vec::new();
            subscript.encode(&mut key);
            key
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Subscript<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// As M writes it in a reference: texts in quotes, bytes that are no UTF-8 by their numbers.
impl fmt::Display for Subscript<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Number(number) => number.fmt(f),
            Form::Text(text) => f.write_str(&shown(text)),
        }
    }
}

impl fmt::Debug for Subscript<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! One value of a tuple whose kind is known only when the program runs.

use std::cmp::Ordering;
use std::fmt;

use super::Integer;

/// One value of a tuple, of any kind: for tuples that are not of a type of the program. Sorts as its bytes
/// do.
///
/// ```
/// use sablecat::tuple::{Element, pack, unpack};
///
/// let key = pack(&("invoice", 2026, None::<u8>));
/// let elements: Vec<Element> = unpack(&key)?;
/// assert_eq!(elements, [Element::from("invoice"), Element::from(2026), Element::Null]);
/// assert_eq!(pack(&elements), key);
/// # Ok::<(), sablecat::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Element {
    /// Nothing.
    Null,
    /// Bytes.
    Bytes(Vec<u8>),
    /// Text.
    Text(String),
    /// A tuple.
    Nested(Vec<Element>),
    /// An integer.
    Integer(Integer),
    /// A float of 32 bits.
    Float(f32),
    /// A float of 64 bits.
    Double(f64),
    /// False or true.
    Bool(bool),
    /// A universally unique identifier.
    Uuid(Uuid),
}

/// A universally unique identifier: its 16 bytes, in the order in which it is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(n, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Element {
    /// Where its kind comes among the kinds.
    fn rank(&self) -> u8 {
        match self {
            Element::Null => 0,
            Element::Bytes(_) => 1,
            Element::Text(_) => 2,
            Element::Nested(_) => 3,
            Element::Integer(_) => 4,
            Element::Float(_) => 5,
            Element::Double(_) => 6,
            Element::Bool(_) => 7,
            Element::Uuid(_) => 8,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Bytes(one), Element::Bytes(other)) => one.cmp(other),
            (Element::Text(one), Element::Text(other)) => one.cmp(other),
            (Element::Nested(one), Element::Nested(other)) => one.cmp(other),
            (Element::Integer(one), Element::Integer(other)) => one.cmp(other),
            (Element::Float(one), Element::Float(other)) => one.total_cmp(other),
            (Element::Double(one), Element::Double(other)) => one.total_cmp(other),
            (Element::Bool(one), Element::Bool(other)) => one.cmp(other),
            (Element::Uuid(one), Element::Uuid(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

macro_rules! from {
    ($($from:ty => |$value:ident| $element:expr;)*) => {$(
        impl From<$from> for Element {
            fn from($value: $from) -> Element {
                $element
            }
        }
    )*};
}

from! {
    Vec<u8> => |bytes| Element::Bytes(bytes);
    &[u8] => |bytes| Element::Bytes(bytes.to_vec());
    String => |text| Element::Text(text);
    &str => |text| Element::Text(text.to_owned());
    Vec<Element> => |elements| Element::Nested(elements);
    Integer => |integer| Element::Integer(integer);
    f32 => |float| Element::Float(float);
    f64 => |double| Element::Double(double);
    bool => |truth| Element::Bool(truth);
    Uuid => |uuid| Element::Uuid(uuid);
}

macro_rules! from_integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Element {
            fn from(value: $integer) -> Element {
                Element::Integer(value.into())
            }
        }
    )*};
}

from_integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

impl<T: Into<Element>> From<Option<T>> for Element {
    fn from(value: Option<T>) -> Element {
        value.map_or(Element::Null, Into::into)
    }
}

//! Tuples: several values in one key, whose bytes sort as the values do.
//!
//! A database sorts keys by their bytes. Numbers and texts written one after the other do not sort as they
//! should: `"10"` comes before `"9"`, and `("a", "bc")` and `("ab", "c")` could not be told apart. A tuple's
//! bytes solve both: they sort element by element, each by its value, and they can be read back.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! use sablecat::tuple;
//!
//! let env = sablecat::Env::in_memory()?;
//! let orders = env.database("orders")?;
//! for order in [("ada", 2026, 12), ("ada", 2026, 9), ("ada", 2025, 700), ("adam", 2024, 1)] {
//!     orders.insert(tuple::pack(&order), "")?;
//! }
//! let mut of_ada = Vec::new();
//! for record in orders.range(tuple::beginning_with(&("ada", 2026)))? {
//!     let (customer, year, number): (String, i32, i32) = tuple::unpack(&record?.0)?;
//!     of_ada.push((customer, year, number));
//! }
//! assert_eq!(of_ada, [("ada".to_owned(), 2026, 9), ("ada".to_owned(), 2026, 12)]);
//! # Ok(())
//! # }
//! ```
//!
//! | Rust | is | sorts |
//! |---|---|---|
//! | `None` | nothing | before everything else |
//! | `[u8]`, `Vec<u8>`, `[u8; N]` | bytes | by bytes |
//! | `str`, `String`, `char` | text | by code points |
//! | tuples, [`Element`]s | a tuple within the tuple | element by element; before all that go on |
//! | integers, [`Integer`] | an integer | by value, whatever its type |
//! | `f32` | a float | by value; -0.0 before 0.0, NaNs at the ends |
//! | `f64` | a double | as a float, after all of these |
//! | `bool` | false or true | false first |
//! | [`Uuid`] | 16 bytes | by bytes |
//!
//! Values of different kinds sort by kind, in the order of this table. The bytes are those of FoundationDB's
//! tuple layer (its document `design/tuple.md`), so keys written by its libraries are read, and the other way
//! round. (For the two integers of eight bytes that are all ones, 18446744073709551615 and its opposite, its
//! Python library writes other bytes than the document says. They are read.)
//!
//! An integer takes one byte and as many as its value needs; a text or bytes, its length and two, and one
//! more for each zero byte in it.

mod element;
mod integer;
mod pack;
#[cfg(test)]
mod tests;
mod unpack;

pub use element::{Element, Uuid};
pub use integer::Integer;
pub use pack::{Pack, PackElements, Packer};
pub use unpack::{Unpack, UnpackElements, Unpacker};

use std::ops::Bound;

use crate::error::Result;

/// The bytes that begin an element, by its kind.
mod code {
    pub(super) const NULL: u8 = 0x00;
    pub(super) const BYTES: u8 = 0x01;
    pub(super) const TEXT: u8 = 0x02;
    pub(super) const NESTED: u8 = 0x05;
    /// An integer below zero of nine bytes or more.
    pub(super) const LONG_NEGATIVE: u8 = 0x0b;
    /// Zero. Integers of n bytes, up to eight, have n more, or n fewer.
    pub(super) const ZERO: u8 = 0x14;
    pub(super) const LONG_POSITIVE: u8 = 0x1d;
    pub(super) const FLOAT: u8 = 0x20;
    pub(super) const DOUBLE: u8 = 0x21;
    pub(super) const FALSE: u8 = 0x26;
    pub(super) const TRUE: u8 = 0x27;
    pub(super) const UUID: u8 = 0x30;
    /// After a zero byte: that is one of the content, not its end.
    pub(super) const ESCAPE: u8 = 0xff;
}

/// Tuples within each other at most, in a tuple, which is not counted itself: more are not made by mistake,
/// and reading them would take any amount of stack.
pub const DEPTH_MAX: usize = 100;

/// The bytes of a tuple.
///
/// ```
/// use sablecat::tuple::pack;
///
/// assert_eq!(pack(&("foo\0bar", -5551212)), b"\x02foo\x00\xffbar\x00\x11\xabK\x93");
/// assert!(pack(&("a", 9)) < pack(&("a", 10)));
/// ```
///
/// # Panics
/// With more than [`DEPTH_MAX`] tuples within each other, which could not be unpacked. [`Element`]s, if a
/// program makes them of what it is given, are packed by [`try_pack`].
pub fn pack(tuple: &impl PackElements) -> Vec<u8> {
    try_pack(tuple).unwrap_or_else(|error| panic!("packing a tuple: {error}"))
}

/// As [`pack`], for tuples that may have too many within each other.
///
/// ```
/// use sablecat::tuple::{DEPTH_MAX, Element, try_pack};
///
/// let nested = |depth| (0..depth).fold(vec![], |within, _| vec![Element::Nested(within)]);
/// assert!(try_pack(&nested(DEPTH_MAX)).is_ok() && try_pack(&nested(DEPTH_MAX + 1)).is_err());
/// ```
///
/// # Errors
/// `Invalid` with more than [`DEPTH_MAX`] tuples within each other.
pub fn try_pack(tuple: &impl PackElements) -> Result<Vec<u8>> {
    let mut packer = Packer::default();
    tuple.pack_elements(&mut packer);
    packer.into_bytes()
}

/// The tuple that was packed into some bytes.
///
/// # Errors
/// `Invalid` if they are not a tuple, or a tuple of other elements; the message says from which byte on.
pub fn unpack<'b, T: UnpackElements<'b>>(bytes: &'b [u8]) -> Result<T> {
    let mut unpacker = Unpacker::new(bytes);
    let tuple = T::unpack_elements(&mut unpacker)?;
    unpacker.finish()?;
    Ok(tuple)
}

/// The keys of all tuples that begin with these elements, and of the tuple that has no others: for ranges.
///
/// This differs from the [`Prefix`](crate::Prefix) of the tuple's bytes: keys in which the last text or bytes
/// go on with a zero byte have that prefix too.
///
/// # Panics
/// As [`pack`].
pub fn beginning_with(tuple: &impl PackElements) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let from = pack(tuple);
    let mut to = from.clone();
    // No element begins with this byte.
    to.push(code::ESCAPE);
    (Bound::Included(from), Bound::Excluded(to))
}

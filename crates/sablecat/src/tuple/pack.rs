//! From values to bytes.

use std::borrow::Cow;

use super::{DEPTH_MAX, Element, Integer, Uuid, code};
use crate::error::{Error, Result};

/// Bytes of a tuple in the making.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
    /// So many tuples are open, one within the other.
    depth: usize,
    /// Whether more were to be: these are left out.
    is_too_deep: bool,
}

/// A value that can be an element of a tuple. The table in [the module](super) says which are.
///
/// A type of your own packs its parts:
///
/// ```
/// use sablecat::tuple::{Pack, Packer, pack};
///
/// struct Day { year: u16, day: u16 }
///
/// impl Pack for Day {
///     fn pack(&self, packer: &mut Packer) {
///         (self.year, self.day).pack(packer);
///     }
/// }
/// assert_eq!(pack(&(Day { year: 2026, day: 327 },)), pack(&((2026, 327),)));
/// ```
pub trait Pack {
    /// Adds it to a tuple, as one element.
    fn pack(&self, packer: &mut Packer);
}

/// Values that can be the elements of a tuple: a Rust tuple of up to twelve, a slice or vector of
/// [`Element`]s.
pub trait PackElements {
    /// Adds them to a tuple.
    fn pack_elements(&self, packer: &mut Packer);
}

impl Packer {
    /// The bytes of the tuple.
    ///
    /// # Errors
    /// `Invalid` if more than [`DEPTH_MAX`] tuples are within each other.
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        if self.is_too_deep {
            return Err(Error::invalid(format!(
                "a tuple with more than {DEPTH_MAX} tuples within each other; it could not be unpacked"
            )));
        }
        Ok(self.bytes)
    }

    fn null(&mut self) {
        self.bytes.push(code::NULL);
        if self.depth > 0 {
            self.bytes.push(code::ESCAPE);
        }
    }

    /// Content that a zero byte ends, which is followed by another if it is none.
    fn escaped(&mut self, code: u8, content: &[u8]) {
        self.bytes.reserve(content.len() + 2);
        self.bytes.push(code);
        let mut parts = content.split(|&byte| byte == 0);
        self.bytes.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            self.bytes.extend([0, code::ESCAPE]);
            self.bytes.extend_from_slice(part);
        }
        self.bytes.push(0);
    }

    fn nested(&mut self, elements: impl FnOnce(&mut Packer)) {
        if self.depth == DEPTH_MAX {
            self.is_too_deep = true;
            return;
        }
        self.bytes.push(code::NESTED);
        self.depth += 1;
        elements(self);
        self.depth -= 1;
        self.bytes.push(0);
    }

    /// The bytes of an absolute value, without zeros in front.
    fn integer(&mut self, negative: bool, digits: &[u8]) {
        let len = digits.len() as u8;
        let flip = if negative { 0xff } else { 0 };
        match (negative, len) {
            (false, 0..=8) => self.bytes.push(code::ZERO + len),
            (true, 0..=8) => self.bytes.push(code::ZERO - len),
            (false, _) => self.bytes.extend([code::LONG_POSITIVE, len]),
            (true, _) => self.bytes.extend([code::LONG_NEGATIVE, !len]),
        }
        self.bytes.extend(digits.iter().map(|digit| digit ^ flip));
    }

    fn short_integer(&mut self, negative: bool, absolute: u128) {
        self.integer(negative, &absolute.to_be_bytes()[absolute.leading_zeros() as usize / 8..]);
    }
}

impl<T: Pack + ?Sized> Pack for &T {
    fn pack(&self, packer: &mut Packer) {
        (**self).pack(packer);
    }
}

impl<T: PackElements + ?Sized> PackElements for &T {
    fn pack_elements(&self, packer: &mut Packer) {
        (**self).pack_elements(packer);
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, packer: &mut Packer) {
        match self {
            None => packer.null(),
            Some(value) => value.pack(packer),
        }
    }
}

impl<T: Pack + ToOwned + ?Sized> Pack for Cow<'_, T> {
    fn pack(&self, packer: &mut Packer) {
        (**self).pack(packer);
    }
}

macro_rules! pack {
    ($($kind:ty, $value:ident, $packer:ident => $how:expr;)*) => {$(
        impl Pack for $kind {
            fn pack(&self, $packer: &mut Packer) {
                let $value = self;
                $how
            }
        }
    )*};
}

pack! {
    [u8], bytes, packer => packer.escaped(code::BYTES, bytes);
    Vec<u8>, bytes, packer => packer.escaped(code::BYTES, bytes);
    str, text, packer => packer.escaped(code::TEXT, text.as_bytes());
    String, text, packer => packer.escaped(code::TEXT, text.as_bytes());
    char, letter, packer => packer.escaped(code::TEXT, letter.encode_utf8(&mut [0; 4]).as_bytes());
    Integer, integer, packer => integer.with_bytes(|digits| packer.integer(integer.is_negative(), digits));
    bool, truth, packer => packer.bytes.push(if *truth { code::TRUE } else { code::FALSE });
    f32, float, packer => {
        packer.bytes.push(code::FLOAT);
        let bits = float.to_bits();
        packer.bytes.extend(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }.to_be_bytes());
    };
    f64, double, packer => {
        packer.bytes.push(code::DOUBLE);
        let bits = double.to_bits();
        packer.bytes.extend(if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }.to_be_bytes());
    };
    Uuid, uuid, packer => {
        packer.bytes.push(code::UUID);
        packer.bytes.extend(uuid.0);
    };
    Element, element, packer => match element {
        Element::Null => packer.null(),
        Element::Bytes(bytes) => bytes.pack(packer),
        Element::Text(text) => text.pack(packer),
        Element::Nested(elements) => packer.nested(|packer| elements.pack_elements(packer)),
        Element::Integer(integer) => integer.pack(packer),
        Element::Float(float) => float.pack(packer),
        Element::Double(double) => double.pack(packer),
        Element::Bool(truth) => truth.pack(packer),
        Element::Uuid(uuid) => uuid.pack(packer),
    };
}

impl<const N: usize> Pack for [u8; N] {
    fn pack(&self, packer: &mut Packer) {
        self[..].pack(packer);
    }
}

macro_rules! pack_integers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Pack for $unsigned {
            fn pack(&self, packer: &mut Packer) {
                packer.short_integer(false, *self as u128);
            }
        }
        impl Pack for $signed {
            fn pack(&self, packer: &mut Packer) {
                packer.short_integer(*self < 0, self.unsigned_abs() as u128);
            }
        }
    )*};
}

pack_integers! {
    u8, i8;
    u16, i16;
    u32, i32;
    u64, i64;
    u128, i128;
    usize, isize;
}

impl PackElements for [Element] {
    fn pack_elements(&self, packer: &mut Packer) {
        self.iter().for_each(|element| element.pack(packer));
    }
}

impl PackElements for Vec<Element> {
    fn pack_elements(&self, packer: &mut Packer) {
        self[..].pack_elements(packer);
    }
}

impl PackElements for () {
    fn pack_elements(&self, _: &mut Packer) {}
}

/// As an element, a tuple without elements: not nothing.
impl Pack for () {
    fn pack(&self, packer: &mut Packer) {
        packer.nested(|_| {});
    }
}

macro_rules! pack_tuples {
    ($(($($element:ident $index:tt)+))*) => {$(
        impl<$($element: Pack),+> PackElements for ($($element,)+) {
            fn pack_elements(&self, packer: &mut Packer) {
                $(self.$index.pack(packer);)+
            }
        }
        impl<$($element: Pack),+> Pack for ($($element,)+) {
            fn pack(&self, packer: &mut Packer) {
                packer.nested(|packer| self.pack_elements(packer));
            }
        }
    )*};
}

pack_tuples! {
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 F 5)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11)
}

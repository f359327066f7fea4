//! From bytes to values. Bytes may be anything: what is no tuple is an error that says where.

use std::borrow::Cow;

use super::{DEPTH_MAX, Element, Integer, Uuid, code};
use crate::error::{Error, ErrorKind, Result};

/// What is left of a tuple's bytes.
#[derive(Clone, Debug)]
pub struct Unpacker<'b> {
    bytes: &'b [u8],
    at: usize,
    depth: usize,
}

/// A value that can be read from an element of a tuple: what [`Pack`](super::Pack) makes one of, and text and
/// bytes also as `Cow`s, which borrow where they can.
pub trait Unpack<'b>: Sized {
    /// Takes the next element.
    ///
    /// # Errors
    /// `Invalid` if it is of another kind, or none.
    fn unpack(unpacker: &mut Unpacker<'b>) -> Result<Self>;
}

/// Values that can be read from the elements of a tuple: a Rust tuple, or a vector of [`Element`]s.
pub trait UnpackElements<'b>: Sized {
    /// Takes all of them.
    ///
    /// # Errors
    /// `Invalid` if one is of another kind, or missing.
    fn unpack_elements(unpacker: &mut Unpacker<'b>) -> Result<Self>;
}

impl<'b> Unpacker<'b> {
    /// Unpacks a whole tuple.
    pub fn new(bytes: &'b [u8]) -> Unpacker<'b> {
        Unpacker { bytes, at: 0, depth: 0 }
    }

    /// Whether there are more elements, of the innermost tuple that is open.
    pub fn has_more(&self) -> bool {
        match self.bytes.get(self.at) {
            None => false,
            Some(&code::NULL) if self.depth > 0 => self.bytes.get(self.at + 1) == Some(&code::ESCAPE),
            Some(_) => true,
        }
    }

    /// Whether the next element is there and is nothing.
    fn is_null(&self) -> bool {
        self.has_more() && self.bytes[self.at] == code::NULL
    }

    /// Checks that the last element was read.
    ///
    /// # Errors
    /// `Invalid` if there are more.
    pub fn finish(self) -> Result<()> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.no("the end of the tuple")) }
    }

    #[cold]
    fn no(&self, wanted: &str) -> Error {
        let what = match self.bytes.get(self.at).filter(|_| self.has_more()) {
            None => "the end of a tuple".to_owned(),
            Some(code) => format!("an element of kind 0x{code:02x}"),
        };
        let message = format!(
            "byte {} of a tuple of {} bytes: {what} where {wanted} should be",
            self.at,
            self.bytes.len()
        );
        Error::new(ErrorKind::Invalid, message)
    }

    #[cold]
    fn cut_off(&self) -> Error {
        Error::new(
            ErrorKind::Invalid,
            format!(
                "a tuple of {} bytes is cut off within the element at byte {}",
                self.bytes.len(),
                self.at
            ),
        )
    }

    /// Takes an element's code, if it is this one.
    fn code(&mut self, code: u8, wanted: &str) -> Result<()> {
        if self.has_more() && self.bytes[self.at] == code {
            self.at += 1;
            Ok(())
        } else {
            Err(self.no(wanted))
        }
    }

    fn null(&mut self) {
        self.at += if self.depth > 0 { 2 } else { 1 };
    }

    fn array<const N: usize>(&mut self, code: u8, wanted: &str) -> Result<[u8; N]> {
        let begun = self.clone();
        self.code(code, wanted)?;
        let content = self.bytes[self.at..].first_chunk().ok_or_else(|| begun.cut_off())?;
        self.at += N;
        Ok(*content)
    }

    fn escaped(&mut self, code: u8, wanted: &str) -> Result<Cow<'b, [u8]>> {
        let begun = self.clone();
        self.code(code, wanted)?;
        let bytes = self.bytes;
        let mut whole: Cow<'b, [u8]> = Cow::Borrowed(&[]);
        loop {
            let rest = &bytes[self.at..];
            let end = rest.iter().position(|&byte| byte == 0).ok_or_else(|| begun.cut_off())?;
            let (part, after) = (&rest[..end], rest.get(end + 1));
            self.at += end + 1;
            if after != Some(&code::ESCAPE) {
                return Ok(if whole.is_empty() {
                    Cow::Borrowed(part)
                } else {
                    Cow::Owned([&whole, part].concat())
                });
            }
            self.at += 1;
            let so_far = whole.to_mut();
            so_far.extend_from_slice(part);
            so_far.push(0);
        }
    }

    fn text(&mut self) -> Result<Cow<'b, str>> {
        let begun = self.clone();
        let not_text = |_| {
            Error::new(ErrorKind::Invalid, format!("the text at byte {} of a tuple is not UTF-8", begun.at))
        };
        match self.escaped(code::TEXT, "text")? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| not_text(())),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| not_text(())),
        }
    }

    fn nested<T>(&mut self, elements: impl FnOnce(&mut Unpacker<'b>) -> Result<T>) -> Result<T> {
        let begun = self.clone();
        self.code(code::NESTED, "a tuple")?;
        if self.depth == DEPTH_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("more than {DEPTH_MAX} tuples within each other, at byte {}", begun.at),
            ));
        }
        self.depth += 1;
        let tuple = elements(self)?;
        if self.has_more() {
            return Err(self.no("the end of the tuple"));
        }
        if self.at == self.bytes.len() {
            return Err(begun.cut_off());
        }
        self.at += 1;
        self.depth -= 1;
        Ok(tuple)
    }

    fn integer(&mut self) -> Result<Integer> {
        const WANTED: &str = "an integer";
        let begun = self.clone();
        let code = if self.has_more() { self.bytes[self.at] } else { code::NULL };
        self.at += 1;
        let (negative, len) = match code {
            code::LONG_NEGATIVE | code::LONG_POSITIVE => {
                let &len = self.bytes.get(self.at).ok_or_else(|| begun.cut_off())?;
                self.at += 1;
                let negative = code == code::LONG_NEGATIVE;
                (negative, usize::from(if negative { !len } else { len }))
            }
            _ => match usize::from(code.abs_diff(code::ZERO)) {
                len @ 0..=8 => (code < code::ZERO, len),
                _ => return Err(begun.no(WANTED)),
            },
        };
        let digits = self.bytes[self.at..].get(..len).ok_or_else(|| begun.cut_off())?;
        self.at += len;
        if negative {
            let flipped: Vec<u8> = digits.iter().map(|digit| !digit).collect();
            Integer::from_bytes(true, &flipped)
        } else {
            Integer::from_bytes(false, digits)
        }
    }

    fn element(&mut self) -> Result<Element> {
        let code = if self.has_more() { self.bytes[self.at] } else { return Err(self.no("an element")) };
        Ok(match code {
            code::NULL => {
                self.null();
                Element::Null
            }
            code::BYTES => Element::Bytes(Vec::unpack(self)?),
            code::TEXT => Element::Text(String::unpack(self)?),
            code::NESTED => Element::Nested(self.nested(Vec::unpack_elements)?),
            code::FLOAT => Element::Float(f32::unpack(self)?),
            code::DOUBLE => Element::Double(f64::unpack(self)?),
            code::FALSE | code::TRUE => Element::Bool(bool::unpack(self)?),
            code::UUID => Element::Uuid(Uuid::unpack(self)?),
            code::LONG_NEGATIVE..=code::LONG_POSITIVE => Element::Integer(self.integer()?),
            _ => return Err(self.no("an element of a known kind")),
        })
    }
}

macro_rules! unpack {
    ($($kind:ty, $unpacker:ident => $how:expr;)*) => {$(
        impl<'b> Unpack<'b> for $kind {
            fn unpack($unpacker: &mut Unpacker<'b>) -> Result<Self> {
                $how
            }
        }
    )*};
}

unpack! {
    Vec<u8>, unpacker => unpacker.escaped(code::BYTES, "bytes").map(Cow::into_owned);
    Cow<'b, [u8]>, unpacker => unpacker.escaped(code::BYTES, "bytes");
    String, unpacker => unpacker.text().map(Cow::into_owned);
    Cow<'b, str>, unpacker => unpacker.text();
    Integer, unpacker => unpacker.integer();
    Element, unpacker => unpacker.element();
    Uuid, unpacker => unpacker.array(code::UUID, "a UUID").map(Uuid);
    bool, unpacker => match unpacker.bytes.get(unpacker.at) {
        Some(&code @ (code::FALSE | code::TRUE)) => {
            unpacker.at += 1;
            Ok(code == code::TRUE)
        }
        _ => Err(unpacker.no("false or true")),
    };
    f32, unpacker => {
        let bits = u32::from_be_bytes(unpacker.array(code::FLOAT, "a float of 32 bits")?);
        Ok(f32::from_bits(if bits >> 31 == 0 { !bits } else { bits ^ 1 << 31 }))
    };
    f64, unpacker => {
        let bits = u64::from_be_bytes(unpacker.array(code::DOUBLE, "a float of 64 bits")?);
        Ok(f64::from_bits(if bits >> 63 == 0 { !bits } else { bits ^ 1 << 63 }))
    };
    char, unpacker => {
        let begun = unpacker.clone();
        let text = unpacker.text()?;
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(letter),
            _ => Err(begun.no("a text of one character")),
        }
    };
    (), unpacker => unpacker.nested(|_| Ok(()));
}

impl<'b, const N: usize> Unpack<'b> for [u8; N] {
    fn unpack(unpacker: &mut Unpacker<'b>) -> Result<Self> {
        let begun = unpacker.clone();
        let bytes = unpacker.escaped(code::BYTES, "bytes")?;
        (*bytes).try_into().map_err(|_| begun.no(&format!("{N} bytes")))
    }
}

impl<'b, T: Unpack<'b>> Unpack<'b> for Option<T> {
    fn unpack(unpacker: &mut Unpacker<'b>) -> Result<Self> {
        if unpacker.is_null() {
            unpacker.null();
            return Ok(None);
        }
        T::unpack(unpacker).map(Some)
    }
}

macro_rules! unpack_integers {
    ($($integer:ty)*) => {$(
        impl<'b> Unpack<'b> for $integer {
            fn unpack(unpacker: &mut Unpacker<'b>) -> Result<Self> {
                let begun = unpacker.clone();
                let integer = unpacker.integer()?;
                <$integer>::try_from(&integer).map_err(|error| {
                    Error::new(ErrorKind::Invalid, format!("byte {} of a tuple: {error}", begun.at))
                })
            }
        }
    )*};
}

unpack_integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

impl<'b> UnpackElements<'b> for Vec<Element> {
    fn unpack_elements(unpacker: &mut Unpacker<'b>) -> Result<Self> {
        let mut elements = Vec::new();
        while unpacker.has_more() {
            elements.push(unpacker.element()?);
        }
        Ok(elements)
    }
}

impl UnpackElements<'_> for () {
    fn unpack_elements(_: &mut Unpacker<'_>) -> Result<Self> {
        Ok(())
    }
}

macro_rules! unpack_tuples {
    ($(($($element:ident)+))*) => {$(
        impl<'b, $($element: Unpack<'b>),+> UnpackElements<'b> for ($($element,)+) {
            fn unpack_elements(unpacker: &mut Unpacker<'b>) -> Result<Self> {
                Ok(($($element::unpack(unpacker)?,)+))
            }
        }
        impl<'b, $($element: Unpack<'b>),+> Unpack<'b> for ($($element,)+) {
            fn unpack(unpacker: &mut Unpacker<'b>) -> Result<Self> {
                unpacker.nested(Self::unpack_elements)
            }
        }
    )*};
}

unpack_tuples! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
    (A B C D E F G H I)
    (A B C D E F G H I J)
    (A B C D E F G H I J K)
    (A B C D E F G H I J K L)
}

//! Types that keys can have.

use crate::error::Result;
use crate::tuple::{self, Integer, Pack, PackElements, Unpack, UnpackElements, Uuid};

/// A type that can be the key of a record, or be used for one: `str` for `String`, `[u8]` for `Vec<u8>`. The
/// bytes sort as the values do.
pub trait KeyBytes {
    /// The key.
    fn key_bytes(&self) -> Vec<u8>;
}

/// A type that a key can be read as: integers, floats, `bool`, `char`, text, bytes, [`Uuid`], and tuples of
/// these, all in the order and the bytes of [tuples](crate::tuple). A type of your own is written and read as
/// its parts:
///
/// ```
/// use sablecat::typed::{Key, KeyBytes};
///
/// struct Day { year: u16, day: u16 }
///
/// impl KeyBytes for Day {
///     fn key_bytes(&self) -> Vec<u8> {
///         (self.year, self.day).key_bytes()
///     }
/// }
///
/// impl Key for Day {
///     fn from_key_bytes(bytes: &[u8]) -> sablecat::Result<Day> {
///         let (year, day) = Key::from_key_bytes(bytes)?;
///         Ok(Day { year, day })
///     }
/// }
/// ```
pub trait Key: KeyBytes + Sized {
    /// The value that a key stands for.
    ///
    /// # Errors
    /// `Invalid` if it is the key of another type.
    fn from_key_bytes(bytes: &[u8]) -> Result<Self>;
}

impl<T: KeyBytes + ?Sized> KeyBytes for &T {
    fn key_bytes(&self) -> Vec<u8> {
        (**self).key_bytes()
    }
}

/// A value alone is a tuple of one element.
fn single(value: &(impl Pack + ?Sized)) -> Vec<u8> {
    tuple::pack(&(value,))
}

impl KeyBytes for str {
    fn key_bytes(&self) -> Vec<u8> {
        single(self)
    }
}

impl KeyBytes for [u8] {
    fn key_bytes(&self) -> Vec<u8> {
        single(self)
    }
}

macro_rules! keys {
    ($($kind:ty)*) => {$(
        impl KeyBytes for $kind {
            fn key_bytes(&self) -> Vec<u8> {
                single(self)
            }
        }
        impl Key for $kind {
            fn from_key_bytes(bytes: &[u8]) -> Result<$kind> {
                tuple::unpack::<($kind,)>(bytes).map(|(value,)| value)
            }
        }
    )*};
}

keys! {
    u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize Integer
    f32 f64 bool char String Vec<u8> Uuid
}

impl<const N: usize> KeyBytes for [u8; N] {
    fn key_bytes(&self) -> Vec<u8> {
        single(self)
    }
}

impl<const N: usize> Key for [u8; N]
where
    [u8; N]: for<'b> Unpack<'b>,
{
    fn from_key_bytes(bytes: &[u8]) -> Result<[u8; N]> {
        tuple::unpack::<([u8; N],)>(bytes).map(|(value,)| value)
    }
}

macro_rules! tuples {
    ($(($($element:ident)*))*) => {$(
        impl<$($element: Pack),*> KeyBytes for ($($element,)*)
        where
            Self: PackElements,
        {
            fn key_bytes(&self) -> Vec<u8> {
                tuple::pack(self)
            }
        }
        impl<$($element: Pack + for<'b> Unpack<'b>),*> Key for ($($element,)*)
        where
            Self: PackElements + for<'b> UnpackElements<'b>,
        {
            fn from_key_bytes(bytes: &[u8]) -> Result<Self> {
                tuple::unpack(bytes)
            }
        }
    )*};
}

tuples! {
    () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H)
    (A B C D E F G H I) (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L)
}

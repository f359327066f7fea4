//! Types that values can have.

use std::borrow::Cow;

use crate::error::{Error, Result};

/// A type that can be the value of a record, or be used for one: `str` for `String`, `[u8]` for `Vec<u8>`.
pub trait ValueBytes {
    /// The bytes that are stored.
    fn value_bytes(&self) -> Cow<'_, [u8]>;
}

/// A type that a value can be read as: bytes and text as they are, arrays of bytes, integers and floats in
/// little-endian order, `bool` as a byte, `()` as nothing. With the feature `serde`, whatever serde writes
/// (`Postcard`); with the feature `bytemuck`, plain data as it is in memory (`Pod`).
pub trait Value: ValueBytes + Sized {
    /// The value that bytes stand for.
    ///
    /// # Errors
    /// `Invalid` if they are none of this type.
    fn from_value_bytes(bytes: &[u8]) -> Result<Self>;
}

impl<T: ValueBytes + ?Sized> ValueBytes for &T {
    fn value_bytes(&self) -> Cow<'_, [u8]> {
        (**self).value_bytes()
    }
}

/// The error of bytes that are not a value of a type.
#[cold]
fn none_of<T>(bytes: &[u8], why: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("a value of {} bytes is not a {}: {why}", bytes.len(), std::any::type_name::<T>()))
}

macro_rules! as_they_are {
    ($($owned:ty, $borrowed:ty, $this:ident => $bytes:expr, $read:ident => $value:expr;)*) => {$(
        impl ValueBytes for $borrowed {
            fn value_bytes(&self) -> Cow<'_, [u8]> {
                let $this = self;
                Cow::Borrowed($bytes)
            }
        }
        impl ValueBytes for $owned {
            fn value_bytes(&self) -> Cow<'_, [u8]> {
                let $this = self;
                Cow::Borrowed($bytes)
            }
        }
        impl Value for $owned {
            fn from_value_bytes($read: &[u8]) -> Result<$owned> {
                $value
            }
        }
    )*};
}

as_they_are! {
    Vec<u8>, [u8], this => this, bytes => Ok(bytes.to_vec());
    String, str, this => this.as_bytes(), bytes => match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(none_of::<String>(bytes, &error)),
    };
}

impl<const N: usize> ValueBytes for [u8; N] {
    fn value_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self)
    }
}

impl<const N: usize> Value for [u8; N] {
    fn from_value_bytes(bytes: &[u8]) -> Result<[u8; N]> {
        bytes.try_into().map_err(|error| none_of::<[u8; N]>(bytes, &error))
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl ValueBytes for $number {
            fn value_bytes(&self) -> Cow<'_, [u8]> {
                Cow::Owned(self.to_le_bytes().to_vec())
            }
        }
        impl Value for $number {
            fn from_value_bytes(bytes: &[u8]) -> Result<$number> {
                let array = bytes.try_into().map_err(|error| none_of::<$number>(bytes, &error))?;
                Ok(<$number>::from_le_bytes(array))
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl ValueBytes for bool {
    fn value_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(if *self { &[1] } else { &[0] })
    }
}

impl Value for bool {
    fn from_value_bytes(bytes: &[u8]) -> Result<bool> {
        match bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(none_of::<bool>(bytes, &"it is one byte, 0 or 1")),
        }
    }
}

impl ValueBytes for () {
    fn value_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }
}

impl Value for () {
    fn from_value_bytes(bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { Err(none_of::<()>(bytes, &"it has none")) }
    }
}

/// A value that serde writes and reads, in the format of the crate `postcard`, which is short and has a
/// specification. Bytes after it are an error.
///
/// ```
/// use sablecat::typed::{Postcard, Typed};
///
/// # fn main() -> sablecat::Result<()> {
/// let env = sablecat::Env::in_memory()?;
/// let scores: Typed<String, Postcard<Vec<(String, u32)>>> = Typed::open(&env, "scores")?;
/// env.write(|txn| scores.insert(txn, "ada", &Postcard(vec![("chess".to_owned(), 3)])))?;
/// assert_eq!(scores.get(&env, "ada")?, Some(Postcard(vec![("chess".to_owned(), 3)])));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "serde")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Postcard<T>(pub T);

#[cfg(feature = "serde")]
impl<T: serde::Serialize> ValueBytes for Postcard<T> {
    /// # Panics
    /// If the type's own serialising fails, as that of a map with a length that is not known in advance does.
    fn value_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Owned(postcard::to_allocvec(&self.0).expect("a type that can be written"))
    }
}

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Value for Postcard<T> {
    fn from_value_bytes(bytes: &[u8]) -> Result<Postcard<T>> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(Postcard(value)),
            Ok((_, more)) => Err(none_of::<T>(bytes, &format_args!("{} bytes come after it", more.len()))),
            Err(error) => Err(none_of::<T>(bytes, &error)),
        }
    }
}

/// Plain data, stored as it is in memory: with the byte order of the machine.
///
/// ```
/// use sablecat::typed::{Pod, Typed};
///
/// # fn main() -> sablecat::Result<()> {
/// let env = sablecat::Env::in_memory()?;
/// let places: Typed<u32, Pod<[f64; 2]>> = Typed::open(&env, "places")?;
/// env.write(|txn| places.insert(txn, &7, &Pod([52.5, 13.4])))?;
/// assert_eq!(places.get(&env, &7)?, Some(Pod([52.5, 13.4])));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "bytemuck")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Pod<T>(pub T);

#[cfg(feature = "bytemuck")]
impl<T: bytemuck::Pod> ValueBytes for Pod<T> {
    fn value_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(bytemuck::bytes_of(&self.0))
    }
}

#[cfg(feature = "bytemuck")]
impl<T: bytemuck::Pod> Value for Pod<T> {
    fn from_value_bytes(bytes: &[u8]) -> Result<Pod<T>> {
        bytemuck::try_pod_read_unaligned(bytes).map(Pod).map_err(|error| none_of::<T>(bytes, &error))
    }
}

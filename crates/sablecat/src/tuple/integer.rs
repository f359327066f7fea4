//! Integers of any size: up to 255 bytes.

use std::cmp::Ordering;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// A signed integer of up to 255 bytes.
///
/// ```
/// use sablecat::tuple::Integer;
///
/// let large = Integer::from_bytes(true, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
/// assert!(large < Integer::from(i128::MIN));
/// assert_eq!(i64::try_from(&Integer::from(7u8))?, 7);
/// # Ok::<(), sablecat::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Integer {
    negative: bool,
    /// The absolute value: its bytes, the highest first, which is not zero.
    magnitude: Magnitude,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Magnitude {
    Short(u128),
    /// More than 16 bytes.
    Long(Box<[u8]>),
}

impl Integer {
    /// Bytes of an absolute value at most.
    pub const BYTES_MAX: usize = 255;

    /// The integer with this absolute value, the highest byte first.
    ///
    /// # Errors
    /// `Invalid` if it has more than 255 bytes, zeros in front not counted.
    pub fn from_bytes(negative: bool, absolute: &[u8]) -> Result<Integer> {
        let zeros = absolute.iter().take_while(|&&byte| byte == 0).count();
        let digits = &absolute[zeros..];
        if digits.len() > Self::BYTES_MAX {
            return Err(Error::invalid(format!(
                "an integer of {} bytes; those in tuples can have {} at most",
                digits.len(),
                Self::BYTES_MAX
            )));
        }
        let magnitude = if digits.len() <= 16 {
            Magnitude::Short(digits.iter().fold(0, |value, &byte| value << 8 | u128::from(byte)))
        } else {
            Magnitude::Long(digits.into())
        };
        Ok(Integer { negative: negative && !digits.is_empty(), magnitude })
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Shows the bytes of its absolute value, the highest first, without zeros in front.
    pub fn with_bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        match &self.magnitude {
            Magnitude::Short(value) => look(&value.to_be_bytes()[value.leading_zeros() as usize / 8..]),
            Magnitude::Long(bytes) => look(bytes),
        }
    }

    fn too_large(&self, wanted: &str) -> Error {
        Error::new(ErrorKind::Invalid, format!("the integer {self} does not fit {wanted}"))
    }
}

impl Ord for Integer {
    fn cmp(&self, other: &Integer) -> Ordering {
        let by_size = || match (&self.magnitude, &other.magnitude) {
            (Magnitude::Short(one), Magnitude::Short(other)) => one.cmp(other),
            (Magnitude::Short(_), Magnitude::Long(_)) => Ordering::Less,
            (Magnitude::Long(_), Magnitude::Short(_)) => Ordering::Greater,
            (Magnitude::Long(one), Magnitude::Long(other)) => (one.len(), one).cmp(&(other.len(), other)),
        };
        match (self.negative, other.negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => by_size(),
            (true, true) => by_size().reverse(),
        }
    }
}

impl PartialOrd for Integer {
    fn partial_cmp(&self, other: &Integer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// In decimal, or with more than 16 bytes in hexadecimal.
impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        match &self.magnitude {
            Magnitude::Short(value) => write!(f, "{sign}{value}"),
            Magnitude::Long(bytes) => {
                write!(f, "{sign}0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl fmt::Debug for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! conversions {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl From<$unsigned> for Integer {
            fn from(value: $unsigned) -> Integer {
                Integer { negative: false, magnitude: Magnitude::Short(value as u128) }
            }
        }
        impl From<$signed> for Integer {
            fn from(value: $signed) -> Integer {
                Integer { negative: value < 0, magnitude: Magnitude::Short(value.unsigned_abs() as u128) }
            }
        }
        impl TryFrom<&Integer> for $unsigned {
            type Error = Error;

            fn try_from(value: &Integer) -> Result<$unsigned> {
                match value.magnitude {
                    Magnitude::Short(absolute) if !value.negative => <$unsigned>::try_from(absolute).ok(),
                    _ => None,
                }
                .ok_or_else(|| value.too_large(stringify!($unsigned)))
            }
        }
        impl TryFrom<&Integer> for $signed {
            type Error = Error;

            fn try_from(value: &Integer) -> Result<$signed> {
                let signed = match value.magnitude {
                    // Of the least value there is no opposite.
                    Magnitude::Short(absolute) if value.negative => 0i128.checked_sub_unsigned(absolute),
                    Magnitude::Short(absolute) => i128::try_from(absolute).ok(),
                    Magnitude::Long(_) => None,
                };
                signed
                    .and_then(|signed| <$signed>::try_from(signed).ok())
                    .ok_or_else(|| value.too_large(stringify!($signed)))
            }
        }
    )*};
}

conversions! {
    u8, i8;
    u16, i16;
    u32, i32;
    u64, i64;
    u128, i128;
    usize, isize;
}

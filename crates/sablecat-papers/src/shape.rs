//! What the records of a suite look like, where they are not the first paper's 8 + 32 bytes.
//!
//! Every system is given the same bytes, so they are specified here once, as [`crate::workload`] specifies
//! the order: the peers' own workspace includes this file too, and its C repeats it, which a test compares.
//!
//! ```text
//! key     the key's number, big-endian in 8 bytes, and zeroes behind it; or, scattered: a bijection of the
//!         number, and bytes made of it behind that, so that neighbours have nothing in common
//! value   little-endian words, the last one cut off: the first has the key's number and the value's version,
//!         the others are made of it; how many bytes there are is also made of it
//! ```
//!
//! A value tells which record it belongs to and which version of that it is, so it can be checked when
//! several threads update the same records and nobody knows which came last.

use serde::{Deserialize, Serialize};

use crate::workload::{self, GOLDEN, mix};

/// The longest keys.
pub const KEY_BYTES_MAX: usize = 64;

/// The longest values.
pub const VALUE_BYTES_MAX: usize = 4096;

/// Stands for every version, when it is not known which one must be there.
pub const ANY_VERSION: u32 = u32::MAX;

/// Bits of the first word that have the key's number; the version has the others.
const NUMBER_BITS: u32 = 40;

/// What keys and values look like. The layout is C's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    key_bytes: u32,
    value_bytes_min: u32,
    value_bytes_max: u32,
    /// 0 or 1, for C.
    scattered: u32,
}

impl Shape {
    /// The records that [`workload`] specifies, which keep no version in their values.
    pub const PLAIN: Shape = Shape {
        key_bytes: workload::KEY_BYTES as u32,
        value_bytes_min: workload::VALUE_BYTES as u32,
        value_bytes_max: workload::VALUE_BYTES as u32,
        scattered: 0,
    };

    /// Keys of so many bytes, `scattered` over all there are or rising with their numbers, and values of so
    /// many.
    #[must_use]
    pub const fn new(key_bytes: u32, value_bytes_min: u32, value_bytes_max: u32, scattered: bool) -> Shape {
        Shape { key_bytes, value_bytes_min, value_bytes_max, scattered: scattered as u32 }
    }

    /// Whether these are the records that [`workload`] specifies.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.key_bytes as usize == workload::KEY_BYTES
    }

    /// Whether there can be such records.
    ///
    /// # Errors
    /// A sentence, when there cannot.
    pub fn check(&self) -> Result<(), String> {
        let fits = *self == Shape::PLAIN
            || (16..=KEY_BYTES_MAX as u32).contains(&self.key_bytes)
                && (9..=self.value_bytes_max).contains(&self.value_bytes_min)
                && self.value_bytes_max as usize <= VALUE_BYTES_MAX;
        if fits {
            return Ok(());
        }
        Err(format!(
            "keys of 16 to {KEY_BYTES_MAX} bytes and values of 9 to {VALUE_BYTES_MAX}, or of 8 and 32"
        ))
    }

    /// Bytes of a key.
    #[must_use]
    pub fn key_bytes(&self) -> u64 {
        self.key_bytes.into()
    }

    /// Bytes of a key and a value, on average.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::midpoint(self.value_bytes_min.into(), self.value_bytes_max.into())
    }

    /// The key with this number, in `bytes`.
    #[inline]
    pub fn key<'b>(&self, number: u64, bytes: &'b mut [u8; KEY_BYTES_MAX]) -> &'b [u8] {
        if self.is_plain() {
            bytes[..workload::KEY_BYTES].copy_from_slice(&workload::key_bytes(number));
            return &bytes[..workload::KEY_BYTES];
        }
        if self.scattered == 0 {
            *bytes = [0; KEY_BYTES_MAX];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
        } else {
            for (chunk, i) in bytes.chunks_exact_mut(8).zip(0..) {
                chunk.copy_from_slice(&mix(number.wrapping_add(GOLDEN.wrapping_mul(i))).to_le_bytes());
            }
        }
        &bytes[..self.key_bytes as usize]
    }

    /// The value that `version` of a record has, in `bytes`.
    #[inline]
    pub fn value<'b>(&self, number: u64, version: u32, bytes: &'b mut [u8; VALUE_BYTES_MAX]) -> &'b [u8] {
        if self.is_plain() {
            bytes[..workload::VALUE_BYTES].copy_from_slice(&workload::value(number, version));
            return &bytes[..workload::VALUE_BYTES];
        }
        let first = number | u64::from(version) << NUMBER_BITS;
        let base = mix(first);
        let length = self.length(base);
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        for (chunk, i) in bytes[8..].chunks_exact_mut(8).zip(1..).take(length.div_ceil(8) - 1) {
            chunk.copy_from_slice(&word(base, i).to_le_bytes());
        }
        &bytes[..length]
    }

    /// Whether `bytes` are the value that `version` of record `number` must have.
    #[inline]
    #[must_use]
    pub fn is_value(&self, number: u64, version: u32, bytes: &[u8]) -> bool {
        if self.is_plain() {
            return workload::is_value(number, version, bytes);
        }
        let Some((first, rest)) = bytes.split_first_chunk::<8>() else { return false };
        let first = u64::from_le_bytes(*first);
        let found = (first >> NUMBER_BITS) as u32;
        if first & ((1 << NUMBER_BITS) - 1) != number || (version != ANY_VERSION && found != version) {
            return false;
        }
        let base = mix(first);
        if bytes.len() != self.length(base) {
            return false;
        }
        let (words, end) = rest.as_chunks::<8>();
        let differ = words
            .iter()
            .zip(1..)
            .fold(0, |sum, (bytes, i)| sum | (u64::from_le_bytes(*bytes) ^ word(base, i)));
        differ == 0 && word(base, words.len() as u64 + 1).to_le_bytes().starts_with(end)
    }

    /// The number of the record that a key and a value were found as; `None` if they are no record's.
    #[inline]
    #[must_use]
    pub fn number(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        if self.is_plain() {
            return workload::key_number(key);
        }
        let number = u64::from_le_bytes(*value.first_chunk()?) & ((1 << NUMBER_BITS) - 1);
        (self.key(number, &mut [0; KEY_BYTES_MAX]) == key).then_some(number)
    }

    #[inline]
    fn length(&self, base: u64) -> usize {
        let range = u64::from(self.value_bytes_max - self.value_bytes_min) + 1;
        self.value_bytes_min as usize + (base % range) as usize
    }
}

/// One word of a value behind the first.
#[inline]
fn word(base: u64, i: u64) -> u64 {
    base ^ GOLDEN.wrapping_mul(i)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 5] = [
        Shape::PLAIN,
        Shape::new(64, 64, 64, false),
        Shape::new(16, 10, 10, true),
        Shape::new(20, 100, 400, true),
        Shape::new(24, 1000, 1000, true),
    ];

    #[test]
    fn a_record_is_known_by_its_value() {
        for shape in SHAPES {
            shape.check().unwrap();
            for number in 0..300 {
                for version in 0..3 {
                    let (mut key, mut value) = ([0; KEY_BYTES_MAX], [0; VALUE_BYTES_MAX]);
                    let key = shape.key(number, &mut key);
                    let value = shape.value(number, version, &mut value);
                    assert_eq!(key.len() as u64, shape.key_bytes());
                    assert!(shape.is_value(number, version, value), "{shape:?} {number} {version}");
                    assert!(!shape.is_value(number + 1, version, value));
                    assert!(!shape.is_value(number, version + 1, value));
                    assert!(!shape.is_value(number, version, &value[..value.len() - 1]));
                    assert_eq!(shape.number(key, value), Some(number));
                    if !shape.is_plain() {
                        assert!(shape.is_value(number, ANY_VERSION, value));
                        assert_eq!(shape.number(&key[1..], value), None);
                        let mut other = value.to_vec();
                        *other.last_mut().unwrap() ^= 1;
                        assert!(!shape.is_value(number, ANY_VERSION, &other));
                    }
                }
            }
        }
    }

    #[test]
    fn values_have_all_lengths_of_their_range() {
        let shape = Shape::new(20, 100, 400, true);
        let lengths = (0..20_000).map(|number| shape.value(number, 0, &mut [0; VALUE_BYTES_MAX]).len());
        let (shortest, longest) = (lengths.clone().min(), lengths.max());
        assert_eq!((shortest, longest), (Some(100), Some(400)));
        assert_eq!(shape.record_bytes(), 270);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for shape in [
            Shape::new(8, 100, 100, false),
            Shape::new(65, 100, 100, false),
            Shape::new(20, 200, 100, false),
            Shape::new(20, 8, 100, false),
            Shape::new(20, 100, 4097, false),
        ] {
            assert!(shape.check().is_err(), "{shape:?}");
        }
    }
}

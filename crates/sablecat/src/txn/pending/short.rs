//! Owned bytes that take no allocation while they are few: keys and values of write sets, most of which are
//! short.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Deref;

/// Bytes kept in place: with their number and what tells the kinds apart they fill three words.
const IN_PLACE: usize = 22;

/// Owned bytes. Compared as slices are.
#[derive(Clone, Debug)]
pub(crate) enum Short {
    InPlace(u8, [u8; IN_PLACE]),
    Allocated(Box<[u8]>),
}

impl From<&[u8]> for Short {
    #[inline]
    fn from(bytes: &[u8]) -> Short {
        if bytes.len() > IN_PLACE {
            return Short::Allocated(bytes.into());
        }
        let mut place = [0; IN_PLACE];
        place[..bytes.len()].copy_from_slice(bytes);
        Short::InPlace(bytes.len() as u8, place)
    }
}

impl Deref for Short {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Short::InPlace(len, place) => &place[..usize::from(*len)],
            Short::Allocated(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Short {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Short {
    fn eq(&self, other: &Short) -> bool {
        **self == **other
    }
}

impl Eq for Short {}

impl PartialOrd for Short {
    fn partial_cmp(&self, other: &Short) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Short {
    #[inline]
    fn cmp(&self, other: &Short) -> Ordering {
        self.first().cmp(&other.first()).then_with(|| (**self).cmp(&**other))
    }
}

impl Short {
    /// What its bytes begin with.
    #[inline]
    fn first(&self) -> FirstBytes {
        match self {
            Short::InPlace(_, place) => FirstBytes::of(place),
            Short::Allocated(bytes) => FirstBytes::of(bytes),
        }
    }

    /// The bytes alone.
    pub(super) fn into_vec(self) -> Vec<u8> {
        match self {
            Short::InPlace(..) => self.to_vec(),
            Short::Allocated(bytes) => bytes.into_vec(),
        }
    }

    /// Compares it with bytes, which begin so.
    #[inline]
    pub(super) fn compare(&self, other: &[u8], first: FirstBytes) -> Ordering {
        self.first().cmp(&first).then_with(|| (**self).cmp(other))
    }
}

/// The first sixteen bytes of some, as a number: where two of them differ, what they are of is in their
/// order. Behind fewer bytes there are zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FirstBytes(u128);

impl FirstBytes {
    /// So many there are.
    pub(super) const BYTES: usize = 16;

    #[inline]
    pub(super) fn of(bytes: &[u8]) -> FirstBytes {
        let of_both = |one: u64, other: u64| FirstBytes(u128::from(one) << 64 | u128::from(other));
        match (bytes.first_chunk(), bytes.get(8..).and_then(|rest| rest.first_chunk())) {
            (Some(&one), Some(&other)) => of_both(u64::from_be_bytes(one), u64::from_be_bytes(other)),
            // Those behind the first eight are the last ones of the last eight.
            (Some(&one), None) => {
                let last = bytes.last_chunk().map_or(0, |&last| u64::from_be_bytes(last));
                let more = last.checked_shl(8 * (16 - bytes.len() as u32)).unwrap_or(0);
                of_both(u64::from_be_bytes(one), more)
            }
            (None, _) => {
                let add = |word: u64, (n, &byte): (usize, &u8)| word | u64::from(byte) << (56 - 8 * n);
                of_both(bytes.iter().enumerate().fold(0, add), 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of bytes that differ anywhere, and of any lengths.
    #[test]
    fn what_bytes_begin_with_is_in_their_order() {
        let mut all: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 1..30 {
            let counted: Vec<u8> = (1..=len).collect();
            for at in 0..len as usize {
                for byte in [0, 1, 255] {
                    let mut bytes = counted.clone();
                    bytes[at] = byte;
                    all.push(bytes);
                }
            }
            all.push(counted);
        }
        for one in &all {
            let short = Short::from(&one[..]);
            for other in &all {
                assert_eq!(short.compare(other, FirstBytes::of(other)), one.cmp(other), "{one:?} {other:?}");
                assert_eq!(short.cmp(&Short::from(&other[..])), one.cmp(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn bytes_are_kept_and_ordered_whatever_their_number() {
        assert_eq!(size_of::<Short>(), 24);
        let mut all: Vec<Vec<u8>> =
            (0..60).flat_map(|len| [0u8, 7, 255].map(|byte| vec![byte; len])).collect();
        let mut short: Vec<Short> = all.iter().map(|bytes| Short::from(&bytes[..])).collect();
        assert!(all.iter().zip(&short).all(|(bytes, short)| **short == **bytes));
        assert!(
            short.iter().any(|short| matches!(short, Short::InPlace(..)))
                && short.iter().any(|short| matches!(short, Short::Allocated(_)))
        );
        all.sort();
        short.sort();
        assert!(all.iter().zip(&short).all(|(bytes, short)| **short == **bytes));
    }
}

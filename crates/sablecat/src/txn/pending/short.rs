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
        match (self, other) {
            // Behind the bytes are zeros: as long as those in both differ from each other they decide, and
            // where one ends it is the smaller.
            (Short::InPlace(len, place), Short::InPlace(other_len, other_place)) => first(place)
                .cmp(&first(other_place))
                .then_with(|| place[8..].cmp(&other_place[8..]))
                .then(len.cmp(other_len)),
            _ => (**self).cmp(&**other),
        }
    }
}

/// The first eight bytes, ordered as they are.
#[inline]
fn first(place: &[u8; IN_PLACE]) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|n| place[n]))
}

#[cfg(test)]
mod tests {
    use super::*;

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

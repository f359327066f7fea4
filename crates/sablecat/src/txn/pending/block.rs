//! A block of a run, as it is read: entries, and behind them where each begins.

use super::short::Short;
use super::write_set::{Becomes, MaybePending};

const HEADER_BYTES: usize = 9;
const REMOVED: u8 = 0;
const SET: u8 = 1;
const NOTHING: u8 = 2;
/// What says where an entry begins, and how many entries there are.
pub(super) const PLACE_BYTES: usize = 4;

/// How many bytes an entry takes in a block.
pub(super) fn entry_bytes(key: &[u8], slot: Option<Becomes<'_>>) -> u64 {
    let value = slot.flatten().map_or(0, <[u8]>::len);
    (HEADER_BYTES + key.len() + value + PLACE_BYTES) as u64
}

/// Writes an entry.
pub(super) fn write_entry(buffer: &mut Vec<u8>, key: &[u8], slot: Option<Becomes<'_>>) {
    let (what, value): (u8, &[u8]) = match slot {
        Some(None) => (REMOVED, &[]),
        Some(Some(value)) => (SET, value),
        None => (NOTHING, &[]),
    };
    buffer.push(what);
    buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
    buffer.extend_from_slice(key);
    buffer.extend_from_slice(value);
}

/// Ends a block of which the entries begin at these places, each from its beginning.
pub(super) fn end(buffer: &mut Vec<u8>, places: &[u32]) {
    places.iter().for_each(|place| buffer.extend_from_slice(&place.to_le_bytes()));
    buffer.extend_from_slice(&(places.len() as u32).to_le_bytes());
}

/// An entry of a block.
pub(super) struct BlockEntry<'a> {
    pub(super) key: &'a [u8],
    what: u8,
    value: &'a [u8],
}

impl BlockEntry<'_> {
    pub(super) fn slot(&self) -> MaybePending {
        match self.what {
            REMOVED => Some(None),
            SET => Some(Some(Short::from(self.value))),
            _ => None,
        }
    }
}

/// The entry that begins at a place.
pub(super) fn entry_at(bytes: &[u8], begin: usize) -> Option<BlockEntry<'_>> {
    let (what, rest) = bytes.get(begin..)?.split_first()?;
    let (key_len, value_len) = (word(rest, 0)?, word(rest, 4)?);
    let (key, rest) = rest.get(HEADER_BYTES - 1..)?.split_at_checked(key_len)?;
    Some(BlockEntry { key, what: *what, value: rest.get(..value_len)? })
}

/// A block in memory.
#[derive(Debug)]
pub(super) struct RunBlock {
    bytes: Vec<u8>,
    count: usize,
}

impl RunBlock {
    /// None if that is no block.
    pub(super) fn new(bytes: Vec<u8>) -> Option<RunBlock> {
        let count = word(&bytes, bytes.len().checked_sub(PLACE_BYTES)?)?;
        let places = count.checked_add(1)?.checked_mul(PLACE_BYTES)?;
        (places <= bytes.len()).then_some(RunBlock { bytes, count })
    }

    /// How many entries it has.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// An entry; none if it is not as it was written, or there are not as many.
    pub(super) fn entry(&self, at: usize) -> Option<BlockEntry<'_>> {
        let places = self.bytes.len() - (self.count + 1) * PLACE_BYTES;
        entry_at(&self.bytes, word(&self.bytes, (at < self.count).then_some(places + at * PLACE_BYTES)?)?)
    }

    /// How many entries at its beginning have such keys, of which there is none behind one that has not. None
    /// if it is not as it was written.
    pub(super) fn partition_point(&self, is_before: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = from + (to - from) / 2;
            if is_before(self.entry(middle)?.key) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        Some(from)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is no block, or one that was changed, has entries or has none.
        #[test]
        fn odd_bytes_are_read_without_a_panic(
            bytes in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 9, 255]), 0..60),
        ) {
            if let Some(block) = RunBlock::new(bytes) {
                let last = block.count().min(20);
                (0..=last).for_each(|at| assert!(block.entry(at).is_none_or(|entry| entry.key.len() < 60)));
                let _ = block.partition_point(|key| key < &[1, 1][..]);
            }
        }
    }
}

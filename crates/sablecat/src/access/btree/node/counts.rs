//! Counts of records: in the inner pages of trees that keep them, one for each child, and in references to
//! subtrees.
//!
//! ```text
//! u48  records, little-endian
//! ```
//!
//! In an inner page the count of the first child is in the header, each other is the value of the cell left
//! of its child. So changing one moves nothing.

/// Bytes of a count.
pub(crate) const COUNT_BYTES: usize = 6;
/// The most that a count can say.
const COUNT_MAX: u64 = (1 << 48) - 1;

/// A count as it is stored.
#[inline]
pub(crate) fn encode_count(records: u64) -> [u8; COUNT_BYTES] {
    let [a, b, c, d, e, f, ..] = records.min(COUNT_MAX).to_le_bytes();
    [a, b, c, d, e, f]
}

/// What a stored count says.
#[inline]
pub(crate) fn decode_count(&[a, b, c, d, e, f]: &[u8; COUNT_BYTES]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_what_was_stored() {
        for records in [0, 1, 0x0102_0304_0506, COUNT_MAX] {
            assert_eq!(decode_count(&encode_count(records)), records);
        }
        assert_eq!(encode_count(0x0102_0304_0506), [6, 5, 4, 3, 2, 1]);
        assert_eq!(decode_count(&encode_count(u64::MAX)), COUNT_MAX);
    }
}

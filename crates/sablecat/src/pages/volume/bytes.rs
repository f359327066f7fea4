//! The bytes of a superblock: how many there are, and the numbers in them.

use crate::region::DRAFT_BYTES;

/// Bytes of one encoded superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = DRAFT_BYTES;

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The number at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

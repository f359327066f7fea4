//! The checksum of a block.
//!
//! ```text
//! 0        4                                   page size
//! | crc32c | everything else of the page ...          |
//! ```
//!
//! The checksum covers the block's number (8 bytes, little-endian) and then bytes 4.. of the block, so a block that the disk wrote to or
//! read from the wrong place is found as surely as one whose bits changed. A block of zeroes, as never written space reads, is not valid.
//!
//! Of a write that the disk lost although it said otherwise nothing is to be seen in the block: what was there before is as valid. So whoever names a
//! block, the map or a word in memory, names with it 20 bits of its checksum, the *seal*, and who reads it for them compares. One lost write in a
//! million is not noticed.

use std::path::Path;

use crate::error::{Error, Result};
use crate::types::{BlockId, SealedBlock};

/// Bytes of the checksum at the start of every block.
pub(crate) const CHECKSUM_BYTES: usize = 4;

fn checksum(block: BlockId, bytes: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&block.0.to_le_bytes());
    crc32c::crc32c_append(seed, &bytes[CHECKSUM_BYTES..])
}

/// Puts the checksum for a block's place and content into its first four bytes. Returns what it is to be named as.
pub(crate) fn seal(block: BlockId, bytes: &mut [u8]) -> SealedBlock {
    let sum = checksum(block, bytes);
    bytes[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    SealedBlock::new(block, sum)
}

fn stored(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// What is wrong if a block that was read and verified is not what it is named as.
pub(crate) fn compare(named: SealedBlock, bytes: &[u8]) -> std::result::Result<(), String> {
    let found = SealedBlock::new(named.block(), stored(bytes));
    if named.seal() == 0 || found == named {
        return Ok(());
    }
    Err(format!(
        "it is whole, but not what was written there last: that has the seal {:05x}, this {:05x}; the disk has lost a write, or what is here is an older copy of the file",
        named.seal(),
        found.seal()
    ))
}

/// Checks a block that was read.
///
/// # Errors
/// Corruption, naming the file, the block and both checksums.
pub(crate) fn verify(path: &Path, block: BlockId, bytes: &[u8]) -> Result<()> {
    let expected = checksum(block, bytes);
    let found = stored(bytes);
    if found == expected {
        return Ok(());
    }
    let hint = if bytes.iter().all(|&b| b == 0) { "; the block is all zeroes, as if it had never been written" } else { "" };
    Err(Error::corruption(format!(
        "{}: block {} (byte {}) is damaged: its checksum is {found:08x}, its content gives {expected:08x}{hint}",
        path.display(),
        block.within(),
        block.within().saturating_mul(bytes.len() as u64),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts_and_so_does_the_place() {
        let path = Path::new("v");
        let mut bytes: Vec<u8> = (0..512).map(|n| n as u8).collect();
        seal(BlockId(7), &mut bytes);
        verify(path, BlockId(7), &bytes).expect("just sealed");
        assert!(verify(path, BlockId(8), &bytes).expect_err("misplaced").is_corruption());
        for bit in 0..512 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(path, BlockId(7), &bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_hole_in_the_file_is_not_a_block() {
        for page_size in [512, 4096, 65536] {
            let error = verify(Path::new("v"), BlockId(300), &vec![0; page_size]).expect_err("zeroes");
            assert!(error.to_string().contains("never been written"), "{error}");
        }
    }
}

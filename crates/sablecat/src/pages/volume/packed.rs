//! Pages made smaller: what is in a block of which only the beginning counts.
//!
//! ```text
//!  0  crc32c u32
//!  4  0 u32
//!  8  magic u32, `spak`
//! 12  length u32, that counts
//! 16  compressor u8, 0 in 3 bytes
//! 20  n u32, bytes that follow
//! 24  text, n bytes
//!     0, to the trailer
//!     trailer, to the length that counts
//!     anything, to the block's end
//! ```
//!
//! The text is the page, without its first four bytes. No page has the id 0, and no block of the map begins
//! so: that is how such a block is told from others. Its *length* is a multiple of 4096, what file systems
//! give space by: that much is written, and the rest of the block's space is given back. So what is behind
//! the length may be zeros, or what was there before, and means nothing; checksum and seal cover what counts.
//! In a volume that is enciphered everything from byte 16 to the trailer is, and the trailer is at the end of
//! what counts.
//!
//! A page is made smaller if that saves 4096 bytes at least; otherwise its block is as any other.

use super::codec::{CHECKSUM_BYTES, Codec};
use super::compression::{self, Compression};
use crate::pages::header;
use crate::types::PageId;
use crate::zeros::are_zeros;

/// What is written is a multiple of this.
pub(super) const GRANULE: usize = 4096;
/// The smallest blocks that can be made smaller.
pub(crate) const BLOCK_SIZE_MIN: usize = 2 * GRANULE;
const MAGIC: [u8; 4] = *b"spak";
/// Everything that is never enciphered.
pub(super) const CLEAR_BYTES: usize = 16;
const HEAD_BYTES: usize = 24;

/// How many bytes of a block count, if it says that it has a page made smaller. Any bytes.
pub(super) fn length(codec: Codec, bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<CLEAR_BYTES>()?;
    // The usual case, a page, differs in the first of these.
    if header::page_id(head) != PageId::NONE || head[8..12] != MAGIC {
        return None;
    }
    let length = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
    (length.is_multiple_of(GRANULE) && (GRANULE..codec.block_size()).contains(&length)).then_some(length)
}

/// Makes the page at the start of a block smaller: how many bytes count then, without checksum and trailer.
/// The bytes stay as they are if it is of no use.
pub(super) fn pack(codec: Codec, how: Compression, bytes: &mut [u8]) -> Option<usize> {
    let trailer = codec.block_size() - codec.page_size();
    let most = codec.block_size().checked_sub(GRANULE + HEAD_BYTES + trailer)?;
    // From here on places are four less than in the block.
    let text = &mut bytes[CHECKSUM_BYTES..codec.page_size()];
    let (compressed, length) = compression::compress(how, text, most, |text, packed| {
        let length = (HEAD_BYTES + packed.len() + trailer).next_multiple_of(GRANULE);
        text[HEAD_BYTES - CHECKSUM_BYTES..][..packed.len()].copy_from_slice(packed);
        (packed.len(), length)
    })?;
    header::set_page_id(bytes, PageId::NONE);
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(8, &MAGIC);
    put(12, &(length as u32).to_le_bytes());
    put(16, &[how.number(), 0, 0, 0]);
    put(20, &(compressed as u32).to_le_bytes());
    bytes[HEAD_BYTES + compressed..length].fill(0);
    Some(length)
}

/// Makes a page whole whose block was checked and deciphered, and of which `length` bytes count.
///
/// # Errors
/// A sentence, if they cannot be a page.
pub(super) fn unpack(codec: Codec, length: usize, bytes: &mut [u8]) -> std::result::Result<(), String> {
    let end = length - (codec.block_size() - codec.page_size());
    let head: [u8; 8] = std::array::from_fn(|n| bytes[CLEAR_BYTES + n]);
    let [compressor, rest @ .., _, _, _, _] = head;
    let count = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if rest != [0; 3] || count > end - HEAD_BYTES {
        return Err(format!(
            "a page of {count} compressed bytes in {length}, which this build does not know"
        ));
    }
    if !are_zeros(&bytes[HEAD_BYTES + count..end]) {
        return Err("behind its page there is something that this build does not know".into());
    }
    compression::decompress(
        compressor,
        bytes,
        HEAD_BYTES..HEAD_BYTES + count,
        CHECKSUM_BYTES..codec.page_size(),
    )
}

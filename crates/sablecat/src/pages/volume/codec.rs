//! How a page becomes a block, and a block a page: the one place where that is done.
//!
//! ```text
//! 0        4                                   page size       block size
//! | crc32c | everything else of the page ...          | trailer        |
//! ```
//!
//! The checksum covers the block's number (8 bytes, little-endian) and then bytes 4.. of the block, so a
//! block that the disk wrote to or read from the wrong place is found as surely as one whose bits changed. A
//! block of zeroes, as never written space reads, is not valid.
//!
//! Of a write that the disk lost although it said otherwise nothing is to be seen in the block: what was
//! there before is as valid. So everything that names a block, the map or a word in memory, names with it 20
//! bits of its checksum, the *seal*, and a participant that reads the block for it compares. One lost write
//! in a million is not noticed.
//!
//! The *trailer* is room for what a codec adds to a page: what it enciphered it with, and what proves that
//! nobody changed it. A volume has trailers of one length, chosen when it is made. There are two kinds of
//! codecs: one stores pages as they are and needs no trailer, so that is zero, and has no bytes unless a test
//! wants some. The others encipher all of the page but its first four bytes (crypt/keyring.rs); the checksum
//! covers what comes of that, so that a block can be checked without a key, and seals say as much as before.
//! In a volume that is not encrypted, of an environment that is, the trailer is zero: its pages are as long
//! as all others.
//!
//! A page that was compressed says so itself, where every other block has the id of its page ([`packed`]). Of
//! its block only the beginning counts: that is enciphered, covered by the checksum, and written.

use std::path::Path;

use super::compression::Compression;
use super::packed;
use crate::crypt::{self, Cipher, Keyring};
use crate::error::{Error, Result};
use crate::types::{BlockId, SealedBlock};
use crate::zeros::are_zeros;

/// Bytes of the checksum at the start of every block.
pub(crate) const CHECKSUM_BYTES: usize = 4;
/// Trailers are of so many bytes, or a multiple: what follows a page is aligned as the page is.
const TRAILER_STEP: usize = 8;
/// The longest trailer: a sixteenth of the smallest block.
pub(crate) const TRAILER_BYTES_MAX: usize = 32;

/// Of a superblock of an encrypted environment: there are volumes whose blocks are not enciphered.
pub(super) const PLAIN_MARK: u8 = 0x40;

/// How the blocks of a volume are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Codec {
    block_size: usize,
    trailer_bytes: usize,
    cipher: Option<Cipher>,
}

impl Codec {
    /// That of blocks of a size with trailers of a length.
    ///
    /// # Errors
    /// A sentence, if there can be no such blocks.
    pub(crate) fn new(block_size: usize, trailer_bytes: usize) -> std::result::Result<Codec, String> {
        if !block_size.is_power_of_two() || !(512..=65536).contains(&block_size) {
            return Err(format!("page size {block_size} is not a power of two from 512 to 65536"));
        }
        if trailer_bytes > TRAILER_BYTES_MAX || !trailer_bytes.is_multiple_of(TRAILER_STEP) {
            return Err(format!(
                "{trailer_bytes} bytes behind a page are not a multiple of {TRAILER_STEP} up to \
                 {TRAILER_BYTES_MAX}"
            ));
        }
        Ok(Codec { block_size, trailer_bytes, cipher: None })
    }

    /// That of blocks of a size which are enciphered, if with any cipher.
    ///
    /// # Errors
    /// As [`Codec::new`].
    pub(crate) fn of_cipher(block_size: usize, cipher: Option<Cipher>) -> std::result::Result<Codec, String> {
        let plain = Codec::new(block_size, if cipher.is_some() { crypt::BLOCK_BYTES } else { 0 })?;
        Ok(Codec { cipher, ..plain })
    }

    /// What blocks are enciphered with, if they are.
    pub(crate) fn cipher(self) -> Option<Cipher> {
        self.cipher
    }

    /// Its number in the superblock.
    pub(super) fn number(self) -> u8 {
        self.cipher.map_or(0, Cipher::number)
    }

    /// Bytes of a block: a power of two from 512 to 65536.
    #[inline]
    pub(crate) fn block_size(self) -> usize {
        self.block_size
    }

    /// Bytes of a page: of a block without its trailer.
    #[inline]
    pub(crate) fn page_size(self) -> usize {
        self.block_size - self.trailer_bytes
    }

    /// Makes a block of the page at the start of `bytes`, which have the length of a block. Returns what it
    /// is to be named as, and how many of its bytes count: all, unless it could be compressed. The keys are
    /// there if it is to be enciphered.
    pub(super) fn seal(
        self,
        keys: Option<&Keyring>,
        compression: Compression,
        block: BlockId,
        bytes: &mut [u8],
    ) -> (SealedBlock, usize) {
        debug_assert_eq!(bytes.len(), self.block_size);
        debug_assert!(keys.is_none() || self.cipher.is_some());
        let packed =
            if compression == Compression::None { None } else { packed::pack(self, compression, bytes) };
        let counts = packed.unwrap_or(self.block_size);
        let (text, trailer) = self.parts(&mut bytes[..counts], packed.is_some());
        match keys {
            None => trailer.fill(0),
            Some(keys) => keys.seal_block(block.0, text, trailer),
        }
        (seal(block, &mut bytes[..counts]), counts)
    }

    /// Of the bytes of a block that count: what is enciphered, and the trailer.
    fn parts(self, counts: &mut [u8], is_packed: bool) -> (&mut [u8], &mut [u8]) {
        let (text, trailer) = counts.split_at_mut(counts.len() - self.trailer_bytes);
        let clear = if is_packed { packed::CLEAR_BYTES } else { CHECKSUM_BYTES };
        (&mut text[clear..], trailer)
    }

    /// Checks a block that was read, and deciphers it. The page at its start is the one that was sealed.
    ///
    /// # Errors
    /// Corruption, naming the file, the block and what is wrong; `EncryptionKey` if its key was added after
    /// the user's key was changed, and this process does not know that.
    pub(super) fn open(
        self,
        keys: Option<&Keyring>,
        path: &Path,
        block: BlockId,
        bytes: &mut [u8],
    ) -> Result<()> {
        let counts = self.check(path, block, bytes)?;
        let is_packed = counts < self.block_size;
        let (text, trailer) = self.parts(&mut bytes[..counts], is_packed);
        match keys {
            None if are_zeros(trailer) => {}
            None => {
                let why = "behind its page there is something that this build does not know";
                return Err(damaged(path, block, self, why));
            }
            Some(keys) => keys
                .open_block(block.0, text, trailer)
                .map_err(|refused| refused.into_error(place(path, block, self)))?,
        }
        if is_packed {
            packed::unpack(self, counts, bytes).map_err(|why| damaged(path, block, self, &why))?;
        }
        Ok(())
    }

    /// Which key a block that was read is enciphered with.
    ///
    /// # Errors
    /// As [`Codec::open`], which looks at more.
    pub(super) fn key_of(self, path: &Path, block: BlockId, bytes: &[u8]) -> Result<u32> {
        let counts = self.check(path, block, bytes)?;
        Ok(Keyring::key_of(&bytes[counts - self.trailer_bytes..counts]))
    }

    /// Checks the checksum of a block: how many of its bytes count.
    pub(super) fn check(self, path: &Path, block: BlockId, bytes: &[u8]) -> Result<usize> {
        let found = stored(bytes);
        // What was enciphered may look as if it were compressed, once in 2^64; its checksum tells.
        if let Some(counts) = packed::length(self, bytes)
            && found == checksum(block, &bytes[..counts])
        {
            return Ok(counts);
        }
        let expected = checksum(block, bytes);
        if found == expected {
            return Ok(self.block_size);
        }
        let hint =
            if are_zeros(bytes) { "; the block is all zeroes, as if it had never been written" } else { "" };
        Err(damaged(
            path,
            block,
            self,
            &format!("its checksum is {found:08x}, its content gives {expected:08x}{hint}"),
        ))
    }
}

/// The page of a block that says that it is compressed, whatever its checksum is; none if there cannot be
/// one.
#[cfg(feature = "fuzzing")]
pub(crate) fn open_compressed(bytes: &mut [u8]) -> Option<&[u8]> {
    let codec = Codec::new(bytes.len(), 0).ok()?;
    let counts = packed::length(codec, bytes)?;
    seal(BlockId(77), &mut bytes[..counts]);
    codec.open(None, Path::new(""), BlockId(77), bytes).ok()?;
    Some(bytes)
}

/// A block, for people.
fn place(path: &Path, block: BlockId, codec: Codec) -> String {
    let (place, at) = (block.within(), block.within().saturating_mul(codec.block_size as u64));
    format!("{}: block {place} (byte {at})", path.display())
}

#[cold]
fn damaged(path: &Path, block: BlockId, codec: Codec, why: &str) -> Error {
    Error::corruption(format!("{} is damaged: {why}", place(path, block, codec)))
}

/// Of the bytes of a block that count.
fn checksum(block: BlockId, bytes: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&block.0.to_le_bytes());
    crc32c::crc32c_append(seed, &bytes[CHECKSUM_BYTES..])
}

/// Puts the checksum for a block's place and content into its first four bytes. Returns what it is to be
/// named as.
pub(crate) fn seal(block: BlockId, bytes: &mut [u8]) -> SealedBlock {
    let sum = checksum(block, bytes);
    bytes[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    SealedBlock::new(block, sum)
}

fn stored(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// What is wrong if a block that was read and is whole is not what it is named as.
pub(crate) fn compare(named: SealedBlock, bytes: &[u8]) -> std::result::Result<(), String> {
    let found = SealedBlock::new(named.block(), stored(bytes));
    if named.seal() == 0 || found == named {
        return Ok(());
    }
    Err(format!(
        "it is whole, but not what was written there last: that has the seal {:05x}, this {:05x}; the disk \
         has lost a write, or what is here is an older copy of the file",
        named.seal(),
        found.seal()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(block_size: usize, trailer_bytes: usize) -> Codec {
        Codec::new(block_size, trailer_bytes).expect("possible")
    }

    #[test]
    fn every_bit_counts_and_so_does_the_place() {
        let path = Path::new("v");
        for trailer_bytes in [0, 8, 32] {
            let codec = codec(512, trailer_bytes);
            let mut bytes: Vec<u8> = (0..512).map(|n| n as u8).collect();
            codec.seal(None, Compression::None, BlockId(7), &mut bytes);
            assert_eq!(
                bytes[4..512 - trailer_bytes],
                (4..512 - trailer_bytes).map(|n| n as u8).collect::<Vec<_>>()[..]
            );
            codec.open(None, path, BlockId(7), &mut bytes).expect("just sealed");
            assert!(codec.open(None, path, BlockId(8), &mut bytes).expect_err("misplaced").is_corruption());
            for bit in 0..512 * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(codec.open(None, path, BlockId(7), &mut bytes).is_err(), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn a_hole_in_the_file_is_not_a_block() {
        for block_size in [512, 4096, 65536] {
            let error = codec(block_size, 0)
                .open(None, Path::new("v"), BlockId(300), &mut vec![0; block_size])
                .expect_err("zeroes");
            assert!(error.to_string().contains("never been written"), "{error}");
        }
    }

    #[test]
    fn what_another_codec_left_behind_a_page_is_refused() {
        let mut bytes = vec![1; 512];
        seal(BlockId(7), &mut bytes);
        codec(512, 0).open(None, Path::new("v"), BlockId(7), &mut bytes).expect("all of it is the page");
        let error = codec(512, 32).open(None, Path::new("v"), BlockId(7), &mut bytes).expect_err("a trailer");
        assert!(error.is_corruption() && error.to_string().contains("does not know"), "{error}");
    }

    /// With the checksum put right after each change, so that only the tag tells.
    #[cfg(feature = "encryption")]
    #[test]
    fn a_block_that_was_changed_moved_or_brought_from_elsewhere_is_refused_whatever_its_checksum() {
        for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
            let (codec, path) = (Codec::of_cipher(512, Some(cipher)).expect("possible"), Path::new("v"));
            let (keys, other) = (Keyring::of_nobody(cipher), Keyring::of_nobody(cipher));
            let page: Vec<u8> = (0..codec.page_size()).map(|n| n as u8).collect();
            let mut block = page.clone();
            block.resize(512, 0);
            codec.seal(Some(&keys), Compression::None, BlockId(7), &mut block);
            assert!(!block.windows(8).any(|window| page.windows(8).any(|clear| clear == window)));
            let mut opened = block.clone();
            codec.open(Some(&keys), path, BlockId(7), &mut opened).expect("just sealed");
            assert_eq!(opened[CHECKSUM_BYTES..page.len()], page[CHECKSUM_BYTES..]);
            let refused = |keys: Option<&Keyring>, number: u64, change: &dyn Fn(&mut [u8])| {
                let mut block = block.clone();
                change(&mut block);
                seal(BlockId(number), &mut block);
                let error = codec.open(keys, path, BlockId(number), &mut block).expect_err("not the same");
                assert!(error.is_corruption(), "{error}");
            };
            for bit in CHECKSUM_BYTES * 8..512 * 8 {
                refused(Some(&keys), 7, &|block| block[bit / 8] ^= 1 << (bit % 8));
            }
            refused(Some(&keys), 8, &|_| {});
            refused(Some(&other), 7, &|_| {});
        }
    }

    /// Those that are built in.
    fn compressions() -> impl Iterator<Item = Compression> {
        let all = [Compression::Lz4, Compression::zstd(), Compression::Zstd { level: 19 }];
        all.into_iter().filter(|how| how.check().is_ok())
    }

    /// A page with something in it that can be made smaller.
    fn page(codec: Codec) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..codec.page_size()).map(|n| (n * n / 61 % 19) as u8).collect();
        bytes[4..8].copy_from_slice(&77u32.to_le_bytes());
        bytes.resize(codec.block_size(), 0);
        bytes
    }

    /// How blocks can be made beside being compressed.
    fn codecs() -> Vec<(Codec, Option<Keyring>)> {
        let plain = [0, 8, 32].map(|trailer| (codec(16384, trailer), None));
        #[cfg(not(feature = "encryption"))]
        return plain.into();
        #[cfg(feature = "encryption")]
        plain
            .into_iter()
            .chain([Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].map(|cipher| {
                let made = Codec::of_cipher(16384, Some(cipher)).expect("possible");
                (made, Some(Keyring::of_nobody(cipher)))
            }))
            .collect()
    }

    #[test]
    fn of_a_compressed_block_every_byte_that_counts_counts_and_no_other() {
        let path = Path::new("v");
        for how in compressions() {
            for (codec, keys) in codecs() {
                let page = page(codec);
                let mut block = page.clone();
                let (named, counts) = codec.seal(keys.as_ref(), how, BlockId(7), &mut block);
                assert!(counts < 16384 && counts.is_multiple_of(packed::GRANULE), "{how}: {counts}");
                // What was there before.
                block[counts..].fill(0xa5);
                let open = |block: &[u8], number: u64| {
                    let mut bytes = block.to_vec();
                    codec.open(keys.as_ref(), path, BlockId(number), &mut bytes).map(|()| bytes)
                };
                let opened = open(&block, 7).expect("just sealed");
                assert_eq!(opened[4..codec.page_size()], page[4..codec.page_size()]);
                assert_eq!(compare(named, &opened), Ok(()));
                if let Some(keys) = &keys {
                    assert_eq!(codec.key_of(path, BlockId(7), &block).expect("whole"), keys.newest());
                }
                assert!(open(&block, 8).expect_err("misplaced").is_corruption());
                for byte in 0..counts {
                    block[byte] ^= 1 << (byte % 8);
                    assert!(open(&block, 7).expect_err("changed").is_corruption(), "{how}: byte {byte}");
                    block[byte] ^= 1 << (byte % 8);
                }
                // Cut short by a crash anywhere, with zeros or something older behind it.
                for sector in (0..counts).step_by(512) {
                    let mut torn = block.clone();
                    torn[sector..sector + 512].fill(0);
                    assert!(torn == block || open(&torn, 7).is_err(), "{how}: sector at {sector}");
                }
                // A page that cannot be made smaller is as it was.
                let mut noise = page.clone();
                sablecat_os::random::bytes(&mut noise[8..]);
                let before = noise.clone();
                let (_, counts) = codec.seal(keys.as_ref(), how, BlockId(7), &mut noise);
                assert_eq!(counts, 16384);
                assert_eq!(
                    open(&noise, 7).expect("just sealed")[4..codec.page_size()],
                    before[4..codec.page_size()]
                );
            }
        }
    }

    /// Whatever is in a block that says it is compressed, under a checksum that is right.
    #[test]
    fn what_no_compressor_has_written_is_damage_and_no_more() {
        let path = Path::new("v");
        let codec = codec(8192, 0);
        let mut dice = 7u64;
        let mut next = || {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (dice >> 33) as usize
        };
        for round in 0..3000 {
            let mut block = page(codec);
            if let Some(how) = compressions().nth(round % 3)
                && next() % 4 > 0
            {
                codec.seal(None, how, BlockId(7), &mut block);
            } else {
                sablecat_os::random::bytes(&mut block);
                block[4..16].copy_from_slice(b"\0\0\0\0spak\0\x10\0\0");
                block[16..20].copy_from_slice(&[(next() % 4) as u8, 0, 0, 0]);
                block[20..24].copy_from_slice(&(next() as u32 % 5000).to_le_bytes());
                let end = 24 + next() % 4000;
                block[end..4096].fill(0);
            }
            for _ in 0..next() % 4 {
                let at = 12 + next() % [12, 100, 4000][next() % 3];
                block[at] = [0, 1, 0xff, next() as u8][next() % 4];
            }
            let counts = packed::length(codec, &block).unwrap_or(8192);
            seal(BlockId(7), &mut block[..counts]);
            if let Err(error) = codec.open(None, path, BlockId(7), &mut block) {
                assert!(error.is_corruption(), "{error}");
            }
        }
    }

    #[test]
    fn there_are_blocks_of_few_sizes() {
        for (block_size, trailer_bytes) in
            [(0, 0), (500, 0), (256, 0), (131_072, 0), (4096, 4), (4096, 40), (512, 512)]
        {
            assert!(Codec::new(block_size, trailer_bytes).is_err(), "{block_size}, {trailer_bytes}");
        }
    }
}

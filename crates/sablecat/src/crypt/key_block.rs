//! The key block: the data keys of an environment, wrapped by the user's key, in the main volume.
//!
//! ```text
//! 0   magic 16: 89 's' 'a' 'b' 'l' 'e' 'k' 'e' 'y' 's' 0D 0A 1A 0A 00 00
//! 16  version u32               20  crc32c u32 (of all 4096 bytes, this field zero)
//! 24  number u64: how often it was written
//! 32  uuid of the main volume 16
//! 48  cipher u8 (1: AES-256-GCM, 2: ChaCha20-Poly1305), zero to 52
//! 52  the key that is used for what is written u32         56  how many keys there are u32         60  zero
//! 64  72 bytes each: number of the key u32 | nonce 12 | wrapped key 32 | tag 16 | zero 8
//! ```
//!
//! All little-endian; the rest is zero. It has two berths, in turn by its number, of two copies each, between
//! those of superblocks. A crash while one is written leaves the other. The highest number counts.
//!
//! A key is *wrapped* by enciphering it with the user's key, a random nonce, and what is known of it: uuid,
//! cipher, its number. So the tags tell whether the user's key is the right one: they are the check value.
//!
//! *Two writes for a new key.* First it is there, and the old one is still used; when that is durable, it is
//! used. So any process that sees that a key is used knows that no crash takes it away. Both berths have it
//! then, and after the user's key was changed none has anything that the old one opens.
//!
//! *What is read need not be durable*: the process that wrote it may have been killed before its flush, or
//! the flush may have failed. So it is written once more to its berth before the other one is written over:
//! else a crash could leave neither. A process that opens the environment alone does so too: otherwise the
//! key that opened it might not open it again.

use std::path::Path;

use sablecat_os::disk::{AlignedBuf, File};
use zeroize::Zeroizing;

use super::aead::{self, Aead, KEY_BYTES, NONCE_BYTES, SecretBytes, TAG_BYTES};
use super::{Cipher, EncryptionKey};
use crate::error::{Error, Result};
use crate::zeros::are_zeros;

const BYTES: usize = 4096;
const VERSION: u32 = 1;
const MAGIC: [u8; 16] = *b"\x89sablekeys\r\n\x1a\n\0\0";
const CRC_AT: usize = 20;
const KEYS_AT: usize = 64;
const SLOT_BYTES: usize = 72;
/// As many keys as a key block has room for.
pub(super) const KEYS_MAX: usize = (BYTES - KEYS_AT) / SLOT_BYTES;
/// Where the copies in both berths are: where no superblock is (pages/volume/superblock.rs).
pub(crate) const COPIES_AT: [[u64; 2]; 2] = [[16_384, 81_920], [24_576, 90_112]];

/// A key as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wrapped {
    pub(super) number: u32,
    nonce: [u8; NONCE_BYTES],
    bytes: [u8; KEY_BYTES],
    tag: [u8; TAG_BYTES],
}

/// What a key block says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyBlock {
    pub(super) number: u64,
    pub(super) uuid: [u8; 16],
    pub(super) cipher: Cipher,
    /// The key that is used for what is written: one of `keys`.
    pub(super) newest: u32,
    /// In ascending order of their numbers, from 1.
    pub(super) keys: Vec<Wrapped>,
}

impl Wrapped {
    pub(super) fn new(of: &KeyBlock, number: u32, key: &[u8; KEY_BYTES], by: &EncryptionKey) -> Wrapped {
        let (nonce, mut bytes) = (aead::random(), *key);
        let tag = Aead::new(of.cipher, by.bytes()).seal(&nonce, &of.known(number), &mut bytes);
        Wrapped { number, nonce, bytes, tag }
    }

    /// The key, if it was wrapped by this one.
    pub(super) fn open(&self, of: &KeyBlock, by: &EncryptionKey) -> Option<SecretBytes> {
        let mut bytes = Zeroizing::new(self.bytes);
        Aead::new(of.cipher, by.bytes())
            .open(&self.nonce, &of.known(self.number), &mut *bytes, &self.tag)
            .then_some(bytes)
    }
}

impl KeyBlock {
    /// What is authenticated with a key.
    fn known(&self, number: u32) -> [u8; 21] {
        let mut known = [0; 21];
        known[..16].copy_from_slice(&self.uuid);
        known[16] = self.cipher.number();
        known[17..].copy_from_slice(&number.to_le_bytes());
        known
    }

    fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::new(BYTES);
        block.fill(0);
        let mut put = |at: usize, field: &[u8]| block[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(16, &VERSION.to_le_bytes());
        put(24, &self.number.to_le_bytes());
        put(32, &self.uuid);
        put(48, &[self.cipher.number()]);
        put(52, &self.newest.to_le_bytes());
        put(56, &(self.keys.len() as u32).to_le_bytes());
        for (n, key) in self.keys.iter().enumerate() {
            let at = KEYS_AT + n * SLOT_BYTES;
            put(at, &key.number.to_le_bytes());
            put(at + 4, &key.nonce);
            put(at + 16, &key.bytes);
            put(at + 48, &key.tag);
        }
        let crc = crc32c::crc32c(&block);
        block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// What is in some bytes, or what is wrong with them.
    fn decode(bytes: &[u8]) -> std::result::Result<KeyBlock, String> {
        let Ok(bytes) = <&[u8; BYTES]>::try_from(bytes) else {
            return Err(format!("only {} bytes of it are there", bytes.len()));
        };
        if bytes[..16] != MAGIC {
            return Err("it does not begin as one".into());
        }
        let mut copy = *bytes;
        copy[CRC_AT..CRC_AT + 4].fill(0);
        if crc32c::crc32c(&copy).to_le_bytes() != bytes[CRC_AT..CRC_AT + 4] {
            return Err("its checksum is wrong".into());
        }
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if u32_at(16) != VERSION {
            return Err(format!("it has version {}, and this build knows version {VERSION}", u32_at(16)));
        }
        let cipher = Cipher::of_number(bytes[48])
            .ok_or_else(|| format!("it is for cipher {}, which this build does not know", bytes[48]))?;
        let count = u32_at(56) as usize;
        if count > KEYS_MAX {
            return Err(format!("it claims {count} keys"));
        }
        let keys: Vec<Wrapped> = bytes[KEYS_AT..]
            .chunks_exact(SLOT_BYTES)
            .take(count)
            .map(|slot| Wrapped {
                number: u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]),
                nonce: std::array::from_fn(|n| slot[4 + n]),
                bytes: std::array::from_fn(|n| slot[16 + n]),
                tag: std::array::from_fn(|n| slot[48 + n]),
            })
            .collect();
        let found = KeyBlock {
            number: u64::from(u32_at(24)) | u64::from(u32_at(28)) << 32,
            uuid: std::array::from_fn(|n| bytes[32 + n]),
            cipher,
            newest: u32_at(52),
            keys,
        };
        let ascend = found.keys.windows(2).all(|pair| pair[0].number < pair[1].number);
        let is_there = |key: &Wrapped| key.number == found.newest && key.number > 0;
        if !ascend || !found.keys.iter().any(is_there) {
            return Err("its keys are impossible".into());
        }
        // Whatever else is in the bytes would not be in those of this one.
        if found.encode()[..] != bytes[..] {
            return Err("it uses parts of the format that this build does not know; use a newer build".into());
        }
        Ok(found)
    }

    /// Writes it to its berth. Durable when the file is flushed.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn write_unflushed(&self, file: &dyn File, path: &Path) -> Result<()> {
        let block = self.encode();
        COPIES_AT[(self.number % 2) as usize]
            .iter()
            .try_for_each(|&at| file.write_at(&block, at))
            .map_err(|e| Error::io("writing the keys of", path, e))
    }

    /// Writes it to its berth. Durable when it returns.
    ///
    /// # Errors
    /// `Poisoned`, [in doubt](Error::is_volume_in_doubt), if the flush fails; those of the file.
    pub(super) fn write(&self, file: &dyn File, path: &Path) -> Result<()> {
        self.write_unflushed(file, path)?;
        // What others wrote to the file may be lost with it, and they will not hear of it.
        file.sync().map_err(|e| {
            Error::volume_in_doubt(format!(
                "flushing the keys of {}: {e}; close the environment and open it again to recover",
                path.display()
            ))
        })
    }

    /// The newest in a file, and what is wrong with other copies that were written once.
    ///
    /// # Errors
    /// Corruption if there is none that can be read, or it is of another volume; those of the file.
    pub(super) fn read(
        file: &dyn File,
        path: &Path,
        uuid: [u8; 16],
        cipher: Cipher,
    ) -> Result<(KeyBlock, Vec<String>)> {
        let mut buffer = AlignedBuf::new(BYTES);
        let (mut newest, mut complaints): (Option<KeyBlock>, _) = (None, Vec::new());
        for at in COPIES_AT.into_iter().flatten() {
            let length =
                file.read_at(&mut buffer, at).map_err(|e| Error::io("reading the keys of", path, e))?;
            let found = &buffer[..length.min(BYTES)];
            if are_zeros(found) {
                continue;
            }
            match KeyBlock::decode(found) {
                Ok(block) if block.uuid != uuid || block.cipher != cipher => {
                    complaints.push(format!("key block at byte {at}: it is of another volume"));
                }
                Ok(block) => {
                    if newest.as_ref().is_none_or(|newest| newest.number < block.number) {
                        newest = Some(block);
                    }
                }
                Err(why) => complaints.push(format!("key block at byte {at}: {why}")),
            }
        }
        newest.map(|newest| (newest, complaints.clone())).ok_or_else(|| {
            Error::corruption(format!(
                "{}: it is encrypted, and no copy of its data keys can be read: restore a backup ({})",
                path.display(),
                if complaints.is_empty() { "all are zero".to_owned() } else { complaints.join("; ") }
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (KeyBlock, EncryptionKey) {
        let by = EncryptionKey::random();
        let mut block =
            KeyBlock { number: 7, uuid: [3; 16], cipher: Cipher::Aes256Gcm, newest: 2, keys: Vec::new() };
        block.keys = (1..=3).map(|n| Wrapped::new(&block, n, &[n as u8; 32], &by)).collect();
        (block, by)
    }

    #[test]
    fn every_bit_of_a_key_block_counts() {
        let (block, _) = sample();
        let mut bytes = block.encode();
        assert_eq!(KeyBlock::decode(&bytes), Ok(block));
        for bit in 0..BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(KeyBlock::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(KeyBlock::decode(&bytes[..4095]).is_err());
    }

    #[test]
    fn a_key_is_opened_by_what_wrapped_it_and_only_in_its_place() {
        let (block, by) = sample();
        assert_eq!(block.keys[1].open(&block, &by).as_deref(), Some(&[2; 32]));
        assert!(block.keys[1].open(&block, &EncryptionKey::random()).is_none());
        let elsewhere = KeyBlock { uuid: [4; 16], ..block.clone() };
        assert!(block.keys[1].open(&elsewhere, &by).is_none());
        let renumbered = Wrapped { number: 3, ..block.keys[1] };
        assert!(renumbered.open(&block, &by).is_none());
    }
}

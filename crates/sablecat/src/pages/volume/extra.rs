//! The header of a volume other than the main one: what it is, so that no other file is taken for it.
//!
//! ```text
//! 0   magic 16: 89 's' 'a' 'b' 'l' 'e' 'v' 'o' 'l' 0D 0A 1A 0A 00 00 00
//! 16  version u32               20  crc32c u32 (of all 512 bytes, this field zero)
//! 24  page size u32             28  number of the volume u32
//! 32  uuid of the environment 16
//! 48  uuid of its own 16
//! 64  generation u64: of the checkpoint that last wrote to it; 0: none has
//! 72  zero to 512
//! ```
//!
//! All little-endian. There are as many berths as for superblocks (superblock.rs), and in each two copies 32
//! KiB apart, each written by a call of its own; the rest of the first 65536 bytes is zero. Each copy is
//! within one sector, which disks write as a whole, so at any moment all are whole, each the old one or the
//! new one. The highest generation counts.
//!
//! A checkpoint that writes to the volume puts the generation that it is going to be into the berth that its
//! superblock will go to, before the volume is flushed, and the superblock remembers which it was. So a file
//! that is older than its environment, or newer, is known for what it is; and a header of a generation long
//! past, which a stopped process writes late, does not take the place of a later one.
//!
//! In version 1 there was the first berth only, with its copies at bytes 0 and 4096, written by one call.

use std::path::{Path, PathBuf};

use sablecat_os::disk::{AlignedBuf, Disk, File, How};

use super::bytes::u64_at;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::allocation::EXTRA_RESERVED_BYTES;
use crate::types::{Berth, VolumeId};
use crate::zeros::are_zeros;

/// The version this build writes.
pub(crate) const VERSION: u32 = 2;
/// The oldest that it reads.
const VERSION_MIN: u32 = 1;

const MAGIC: [u8; 16] = *b"\x89sablevol\r\n\x1a\n\0\0\0";
const HEADER_BYTES: usize = 512;
const CRC_AT: usize = 20;
const COPY_BYTES: usize = 4096;
/// How far from the first of a berth the second is.
const APART: u64 = 32768;
/// A volume is made under its name with this behind it.
const UNFINISHED: &str = ".sablecat-new";

/// What a volume says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct VolumeHeader {
    pub(super) environment: [u8; 16],
    pub(super) uuid: [u8; 16],
    pub(super) block_size: u32,
    pub(super) volume: VolumeId,
    /// The newest generation that has or would have blocks in it.
    pub(super) generation: u64,
}

impl VolumeHeader {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        self.encode_as(VERSION)
    }

    fn encode_as(&self, version: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(16, &version.to_le_bytes());
        put(24, &self.block_size.to_le_bytes());
        put(28, &u32::from(self.volume.0).to_le_bytes());
        put(32, &self.environment);
        put(48, &self.uuid);
        put(64, &self.generation.to_le_bytes());
        let sum = crc32c::crc32c(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> std::result::Result<VolumeHeader, String> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err("the file is too short".into());
        };
        if bytes[..16] != MAGIC {
            return Err("it does not begin as a volume does".into());
        }
        let version = u64_at(bytes, 16) as u32;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(format!(
                "it has version {version}; this build reads versions {VERSION_MIN} to {VERSION}"
            ));
        }
        let header = VolumeHeader {
            environment: std::array::from_fn(|n| bytes[32 + n]),
            uuid: std::array::from_fn(|n| bytes[48 + n]),
            block_size: u64_at(bytes, 24) as u32,
            volume: VolumeId(bytes[28]),
            generation: u64_at(bytes, 64),
        };
        let mut unsummed = *bytes;
        unsummed[CRC_AT..CRC_AT + 4].fill(0);
        if u64_at(bytes, CRC_AT) as u32 != crc32c::crc32c(&unsummed) {
            return Err("its checksum is wrong".into());
        }
        // Whatever else is in the bytes would not be in those of this header.
        if header.encode_as(version) != *bytes {
            return Err("it uses parts of the format that this build does not know; use a newer build".into());
        }
        Ok(header)
    }

    /// Writes both copies to a berth. Durable once a flush has followed.
    pub(super) fn write(&self, file: &dyn File, path: &Path, berth: Berth) -> Result<()> {
        let mut buffer = AlignedBuf::new(COPY_BYTES);
        buffer[..HEADER_BYTES].copy_from_slice(&self.encode());
        copies_in(berth).into_iter().try_for_each(|at| {
            file.write_at(&buffer, at).map_err(|e| Error::io("writing the header of", path, e))
        })
    }

    /// The newest copy, and what is wrong with others if anything is.
    ///
    /// # Errors
    /// Corruption if there is none; those of the file.
    pub(super) fn read(file: &dyn File, path: &Path) -> Result<(VolumeHeader, Vec<String>)> {
        let mut buffer = AlignedBuf::new(COPY_BYTES);
        let (mut found, mut wrong) = (None, Vec::new());
        for at in Berth::all().flat_map(copies_in) {
            let length =
                file.read_at(&mut buffer, at).map_err(|e| Error::io("reading the header of", path, e))?;
            let bytes = &buffer[..HEADER_BYTES.min(length)];
            match VolumeHeader::decode(bytes) {
                Ok(header) => {
                    found = found
                        .filter(|other: &VolumeHeader| other.generation >= header.generation)
                        .or(Some(header))
                }
                // Never written.
                Err(_) if bytes.len() == HEADER_BYTES && are_zeros(bytes) => {}
                Err(why) => wrong.push(format!("{}: header at byte {at}: {why}", path.display())),
            }
        }
        match found {
            Some(header) => Ok((header, wrong)),
            None => Err(Error::corruption(format!("there is no sablecat volume: {}", wrong.join("; ")))),
        }
    }
}

/// Where the copies in a berth are.
fn copies_in(berth: Berth) -> [u64; 2] {
    let first = berth.index() as u64 * COPY_BYTES as u64;
    [first, first + APART]
}

/// Makes the file of a volume; it is durable when this returns, or not there at all, whatever happens
/// meanwhile. What is there already is replaced if it is such a file that was made for the same environment
/// and never used.
///
/// # Errors
/// `Exists` if anything else is there; `NotFound` if the directory is not; those of the disk.
pub(super) fn create(
    disk: &dyn Disk,
    path: &Path,
    header: &VolumeHeader,
    known: impl Fn(&[u8; 16]) -> bool,
) -> Result<()> {
    let io = |e| Error::io("creating", path, e);
    let directory = path.parent().unwrap_or(Path::new(""));
    if directory != Path::new("") && !disk.exists(directory).map_err(io)? {
        let message = format!(
            "there is no directory {} to create the volume {} in; make it first",
            directory.display(),
            path.display()
        );
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    if disk.exists(path).map_err(io)? && !is_left_over(disk, path, header, known)? {
        let message = format!(
            "{} exists already, and is not a volume that this environment left unused; choose another name, \
             or move it away",
            path.display()
        );
        return Err(Error::new(ErrorKind::Exists, message));
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    let how = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
    let file = disk.open(&unfinished, how).map_err(io)?;
    file.set_len(0).map_err(io)?;
    file.set_len(EXTRA_RESERVED_BYTES).map_err(io)?;
    header.write(&*file, &unfinished, Berth::usual(header.generation))?;
    file.sync().map_err(io)?;
    drop(file);
    disk.rename(&unfinished, path).map_err(io)?;
    disk.sync_dir(directory).map_err(|e| Error::io("flushing the directory", directory, e))
}

/// Whether a file is a volume that was made for this environment, and then no superblock came to name it.
fn is_left_over(
    disk: &dyn Disk,
    path: &Path,
    header: &VolumeHeader,
    known: impl Fn(&[u8; 16]) -> bool,
) -> Result<bool> {
    let file = super::data_file::open(disk, path, false, true).map_err(|e| Error::io("opening", path, e))?;
    let found = match VolumeHeader::read(&*file, path) {
        Err(error) if error.is_corruption() => return Ok(false),
        found => found?.0,
    };
    Ok(found.environment == header.environment && found.generation == 0 && !known(&found.uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_version_1_is_read() {
        let header = VolumeHeader {
            environment: [7; 16],
            uuid: [9; 16],
            block_size: 4096,
            volume: VolumeId(3),
            generation: 77,
        };
        assert_eq!(VolumeHeader::decode(&header.encode_as(1)), Ok(header));
    }

    #[test]
    fn every_bit_of_a_header_counts() {
        let header = VolumeHeader {
            environment: [7; 16],
            uuid: [9; 16],
            block_size: 4096,
            volume: VolumeId(3),
            generation: 77,
        };
        let mut bytes = header.encode();
        assert_eq!(VolumeHeader::decode(&bytes), Ok(header));
        for bit in 0..HEADER_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(VolumeHeader::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(VolumeHeader::decode(&bytes[..511]).is_err());
    }
}

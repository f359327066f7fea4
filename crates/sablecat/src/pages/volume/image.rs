//! Images: the generation in force, copied into a file of its own.
//!
//! An image is a main volume as a last checkpoint leaves it: its superblock says that there is no log to look
//! at. Blocks keep their places and are copied as they are in the file, enciphered or compressed; free ones
//! are holes. Each is checked on the way by its checksum.
//!
//! The log of an environment that goes on from an image begins so far above the checkpoint that nothing which
//! was logged after it has the same LSN: a follower of the log finds that what it has seen is gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat_os::disk::{AlignedBuf, Disk, File, How};

use super::bytes::SUPERBLOCK_BYTES;
use super::file::Volume;
use super::superblock::{self, COPIES_AT, Superblock};
use crate::error::{Error, Result};
use crate::pages::allocation::{RESERVED_BYTES, first_within};
use crate::types::{Berth, BlockId, Lsn, VolumeId};
use crate::zeros::are_zeros;

/// Bytes that are copied together.
const PIECE_BYTES: usize = 1 << 20;
/// Zeros in such pieces are left out.
const GRANULE: usize = 4096;
/// More than is logged between two images.
const LOG_MAX: u64 = 1 << 40;

const _: () = assert!(RESERVED_BYTES as usize <= PIECE_BYTES);

/// What was written.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) superblock: Superblock,
    /// Bytes of all but holes.
    pub(crate) bytes: u64,
}

impl Volume {
    /// Copies the generation in force into an empty file. No checkpoint may end meanwhile. `move_on` is
    /// called now and then.
    ///
    /// # Errors
    /// Corruption if a block of it is damaged; those of the files.
    pub(crate) fn write_image(&self, to: &dyn File, path: &Path, move_on: &mut dyn FnMut()) -> Result<Image> {
        let now = self.superblock();
        assert!(self.count() == 1 && now.epochs.is_empty(), "an image has one volume and one checkpoint");
        let superblock = Superblock {
            clean: true,
            log_position: now.checkpoint,
            log_floor: Lsn(now.checkpoint.0.max(now.log_floor.0) + LOG_MAX),
            old_ends: None,
            ..now
        };
        let io = |e| Error::io("writing", path, e);
        let (block_size, high) = (self.block_size(), superblock.blocks_high);
        to.set_len(high * block_size as u64).map_err(io)?;
        let mut buffer = AlignedBuf::new(PIECE_BYTES);
        let mut bytes = 0;
        let mut put = |bytes_there: &[u8], at: u64| {
            bytes += write_but_zeros(to, bytes_there, at).map_err(io)?;
            Ok::<_, Error>(())
        };
        put(self.read_beside_superblocks(&mut buffer)?, 0)?;
        let used = self.scan()?.blocks;
        let is_used = |within: u64| within < high && used.contains(BlockId::new(VolumeId::MAIN, within));
        let mut from = first_within(VolumeId::MAIN, block_size);
        while from < high {
            let length =
                (from..).take(PIECE_BYTES / block_size).take_while(|&within| is_used(within)).count();
            if length > 0 {
                let piece = &mut buffer[..length * block_size];
                self.read_as_they_are(BlockId::new(VolumeId::MAIN, from), piece)?;
                put(piece, from * block_size as u64)?;
                move_on();
            }
            from += (length as u64).max(1);
        }
        // In the berth of the generation before as well: where nothing can be read something newer may have
        // been.
        let berths = [0, 1].map(|n| Berth::usual(superblock.generation + n));
        berths.into_iter().try_for_each(|berth| superblock::write(to, path, &superblock, berth))?;
        Ok(Image { superblock, bytes })
    }

    /// Whether an image has what there is before the blocks, superblocks aside: the keys.
    ///
    /// # Errors
    /// Those of the files.
    pub(crate) fn has_same_keys(&self, disk: &dyn Disk, image: &Path) -> Result<bool> {
        let io = |e| Error::io("reading", image, e);
        let file = disk.open(image, How { read_only: true, ..How::default() }).map_err(io)?;
        let [mut own, mut there] = [(); 2].map(|()| AlignedBuf::new(RESERVED_BYTES as usize));
        Ok(self.read_beside_superblocks(&mut own)?
            == read_beside_superblocks(&*file, &mut there).map_err(io)?)
    }

    fn read_beside_superblocks<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
        read_beside_superblocks(self.file(), buffer).map_err(|e| Error::io("reading", self.path(), e))
    }

    /// That an image with this superblock is as long as it has to be.
    ///
    /// # Errors
    /// Corruption if not; those of the disk.
    pub(crate) fn check_length_of_image(disk: &dyn Disk, image: &Path, of: &Superblock) -> Result<()> {
        let io = |e| Error::io("looking at", image, e);
        let file = disk.open(image, How { read_only: true, ..How::default() }).map_err(io)?;
        check_length(file.len().map_err(io)?, image, of)
    }

    /// Makes the file of a main volume of an image, which has this superblock. The file is whole and durable,
    /// or not there at all, whatever happens meanwhile.
    ///
    /// # Errors
    /// Corruption if the image is too short; those of the disk, on which nothing is left then.
    pub(crate) fn load_image(disk: &dyn Disk, image: &Path, of: &Superblock, volume: &Path) -> Result<()> {
        let unfinished = unfinished(volume);
        let loaded =
            copy(disk, image, of, &unfinished).and_then(|()| put_in_place(disk, &unfinished, volume));
        loaded.inspect_err(|_| _ = disk.remove(&unfinished))
    }
}

/// Where an image is while it is made, or a volume of one.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

/// Gives what was made its name, in the place of what has it. Durable when it returns.
///
/// # Errors
/// Those of the disk.
pub(crate) fn put_in_place(disk: &dyn Disk, unfinished: &Path, path: &Path) -> Result<()> {
    disk.rename(unfinished, path).map_err(|e| Error::io("naming", path, e))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    disk.sync_dir(directory).map_err(|e| Error::io("flushing the directory", directory, e))
}

/// An empty file, for what is to be made; it belongs to the owner of the file `like`, if this process may
/// give it away. What a killed process has left there is removed: it may be another's, or lead elsewhere.
///
/// # Errors
/// Those of the disk.
pub(crate) fn begin(disk: &dyn Disk, path: &Path, like: &Path) -> Result<Arc<dyn File>> {
    let io = |e| Error::io("making", path, e);
    match disk.remove(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io("removing", path, e)),
        _ => {}
    }
    let file = disk.open(path, How { create_new: true, ..How::default() }).map_err(io)?;
    if let Some(owner) = disk.owner(like).map_err(|e| Error::io("looking at", like, e))? {
        file.give_to(owner).map_err(|e| Error::io("giving to its owner", path, e))?;
    }
    Ok(file)
}

fn check_length(length: u64, image: &Path, of: &Superblock) -> Result<()> {
    if length < of.blocks_high * of.codec.block_size() as u64 {
        return Err(Error::corruption(format!("{}: the image was cut short", image.display())));
    }
    Ok(())
}

fn copy(disk: &dyn Disk, image: &Path, of: &Superblock, path: &Path) -> Result<()> {
    let reading = |e| Error::io("reading", image, e);
    let writing = |e| Error::io("writing", path, e);
    let from = disk.open(image, How { read_only: true, ..How::default() }).map_err(reading)?;
    let length = from.len().map_err(reading)?;
    check_length(length, image, of)?;
    let to = begin(disk, path, image)?;
    to.set_len(length).map_err(writing)?;
    let mut buffer = AlignedBuf::new(PIECE_BYTES);
    let mut at = 0;
    while at < length {
        let read = from.read_at(&mut buffer, at).map_err(reading)?;
        if read == 0 {
            break;
        }
        write_but_zeros(&*to, &buffer[..read], at).map_err(writing)?;
        at += read as u64;
    }
    to.sync().map_err(writing)
}

/// What a file has before its blocks, with zeros for the superblocks.
fn read_beside_superblocks<'a>(file: &dyn File, buffer: &'a mut [u8]) -> std::io::Result<&'a [u8]> {
    let reserved = &mut buffer[..RESERVED_BYTES as usize];
    let read = file.read_at(reserved, 0)?;
    reserved[read..].fill(0);
    for at in COPIES_AT.into_iter().flatten() {
        reserved[at as usize..][..SUPERBLOCK_BYTES].fill(0);
    }
    Ok(reserved)
}

/// Writes bytes to a place where the file has zeros. Returns how many were no zeros, by granules.
fn write_but_zeros(file: &dyn File, bytes: &[u8], at: u64) -> std::io::Result<u64> {
    let mut written = 0;
    let mut from = 0;
    while from < bytes.len() {
        let granules = bytes[from..].chunks(GRANULE);
        let is_zero = |granule: &&[u8]| are_zeros(granule);
        let zeros = granules.clone().take_while(is_zero).count();
        let others = granules.skip(zeros).take_while(|granule| !is_zero(granule)).count();
        let start = (from + zeros * GRANULE).min(bytes.len());
        let end = (start + others * GRANULE).min(bytes.len());
        if start < end {
            file.write_at(&bytes[start..end], at + start as u64)?;
            written += (end - start) as u64;
        }
        from = end;
    }
    Ok(written)
}

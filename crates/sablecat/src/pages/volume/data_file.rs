//! The file of one volume: reading, writing and flushing its blocks.
//!
//! All reads are verified, all writes sealed. Threads and processes may use one file at once: no call here
//! depends on what another does, save that nobody may write a block while another reads or writes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use sablecat_os::disk::{Disk, File, How, may_pass};

use super::codec::Codec;
use super::compression::Compression;
use super::growth::{self, By, FreeEnd, Growth, Reserve};
use super::packed::GRANULE;
use super::scratch::Scratch;
use crate::crypt::Keyring;
use crate::error::{Error, Result};
use crate::pages::allocation::BitSpace;
use crate::pages::allocation::first_within;
use crate::types::{BlockId, VolumeId};

/// The smallest page for which direct input and output is used; smaller ones would not fit the sectors of
/// every disk.
pub(super) const DIRECT_PAGE_MIN: usize = 4096;

/// Of volumes' files there are only zeros here: between superblocks, and behind headers.
const HOLE_TRIED_AT: u64 = 20480;

/// What is to be done with the free blocks of a file that is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// How many of the lowest have space then.
    pub(crate) kept: u64,
    /// Whether the others take so much that it is worth while to give it back.
    pub(crate) is_worth_emptying: bool,
}

/// An open file of blocks.
#[derive(Debug)]
pub(super) struct DataFile {
    path: PathBuf,
    file: Arc<dyn File>,
    volume: VolumeId,
    codec: Codec,
    keys: Option<Arc<Keyring>>,
    read_only: bool,
    growth: Growth,
    /// How pages are compressed: a compressor and its level, in a byte each.
    compression: AtomicU16,
    /// Some pages were, or are: of its last block not all may be there.
    has_compressed: AtomicBool,
    /// Some of it takes no space of the file system.
    may_have_holes: AtomicBool,
    /// The file system was found to make no holes, so that compressing is of no use.
    without_holes: AtomicBool,
}

/// Opens a file that is there already.
pub(super) fn open(
    disk: &dyn Disk,
    path: &Path,
    direct: bool,
    read_only: bool,
) -> std::io::Result<Arc<dyn File>> {
    disk.open(path, How { create: false, create_new: false, read_only, direct, durable: false })
}

impl DataFile {
    /// Over a file that is open.
    pub(super) fn new(
        path: &Path,
        file: Arc<dyn File>,
        volume: VolumeId,
        (codec, keys): (Codec, Option<Arc<Keyring>>),
        read_only: bool,
    ) -> Result<DataFile> {
        let length = file.len().map_err(|e| Error::io("finding the size of", path, e))?;
        let space = file.space().map_err(|e| Error::io("finding the space of", path, e))?;
        // Of what is before the first block some is never written.
        let blocks =
            length.saturating_sub(first_within(volume, codec.block_size()) * codec.block_size() as u64);
        let growth = Growth::new(length, codec.block_size() as u64);
        Ok(DataFile {
            path: path.to_owned(),
            file,
            volume,
            codec,
            keys,
            read_only,
            growth,
            compression: AtomicU16::new(0),
            has_compressed: AtomicBool::new(false),
            may_have_holes: AtomicBool::new(space < blocks),
            without_holes: AtomicBool::new(false),
        })
    }

    /// How pages are compressed that are written to it.
    #[inline]
    pub(super) fn compression(&self) -> Compression {
        // Relaxed: either setting is right at any time.
        match self.compression.load(Ordering::Relaxed) {
            0 => Compression::None,
            _ if self.without_holes.load(Ordering::Relaxed) => Compression::None,
            parts => Compression::of_parts(parts.to_le_bytes()).unwrap_or_default(),
        }
    }

    /// How pages are to be compressed from now on, and whether some may be already.
    pub(super) fn set_compression(&self, compression: Compression, some_are: bool) {
        self.has_compressed.store(some_are, Ordering::Relaxed);
        self.may_have_holes.fetch_or(some_are, Ordering::Relaxed);
        self.compression.store(u16::from_le_bytes(compression.parts()), Ordering::Relaxed);
    }

    /// Whether of the last block not all may be there, as what counts of it is less.
    pub(super) fn may_end_within_a_block(&self) -> bool {
        self.has_compressed.load(Ordering::Relaxed)
    }

    /// Whether a block that is written again may need space.
    pub(super) fn may_have_holes(&self) -> bool {
        self.may_have_holes.load(Ordering::Relaxed)
    }

    /// Whether the file system makes holes, as far as is known.
    pub(super) fn makes_holes(&self) -> bool {
        !self.without_holes.load(Ordering::Relaxed)
    }

    /// Finds out whether the file system makes holes, by one where the file has only zeros.
    pub(super) fn try_hole(&self) -> Result<bool> {
        self.give_back(HOLE_TRIED_AT, GRANULE as u64)?;
        Ok(self.makes_holes())
    }

    /// Gives the space of a range back whose bytes mean nothing.
    fn give_back(&self, at: u64, bytes: u64) -> Result<()> {
        match self.file.punch(at, bytes) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.without_holes.store(true, Ordering::Relaxed);
                Ok(())
            }
            // To write down where a hole is may take space. The next participant that writes the block tries
            // again.
            Err(error) if may_pass(&error) => Ok(()),
            Err(error) => Err(Error::io("making a hole in", &self.path, error)),
        }
    }

    /// Gives the space of `count` blocks from `first` on back.
    pub(super) fn empty(&self, first: BlockId, count: u64) -> Result<()> {
        let _room = self.growth.reach(&*self.file, &self.path, 0, By::Holes)?;
        let Some(at) = self.offset(first, count) else { return Ok(()) };
        // Before the call, which may be made good in part.
        self.may_have_holes.store(true, Ordering::Relaxed);
        self.give_back(at, count * self.codec.block_size() as u64)
    }

    /// Has `count` blocks from `first` on, which are free, take space. Best effort.
    pub(super) fn fill(&self, first: BlockId, count: u64) {
        if let Some(at) = self.offset(first, count) {
            growth::fill_holes(&*self.file, at, at + count * self.codec.block_size() as u64);
        }
    }

    /// What to do with the free blocks of a file that is left; none if pages in it are compressed, since
    /// nobody knows then what those that are written next need, or if blocks are smaller than holes, since
    /// what one that is freed gives back is nothing then.
    pub(super) fn leaving(&self, blocks: &BitSpace) -> Result<Option<Leaving>> {
        if self.may_end_within_a_block() || self.codec.block_size() < GRANULE {
            return Ok(None);
        }
        let block = self.codec.block_size() as u64;
        let reserve = self.growth.reserve(blocks.high_water() * block);
        // One is kept, one is the end of the file, and for less than a third it is not worth the calls.
        let is_worth_emptying = self.space()? > blocks.used_count() * block + 3 * reserve;
        Ok(Some(Leaving { kept: reserve.div_ceil(block), is_worth_emptying }))
    }

    /// Bytes that the file takes of its file system.
    pub(super) fn space(&self) -> Result<u64> {
        self.file.space().map_err(|e| Error::io("finding the space of", &self.path, e))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Whether the file that is open is the one at its path; also where that cannot be told.
    pub(super) fn is_of_its_name(&self, disk: &dyn Disk) -> Result<bool> {
        let looking = |e| Error::io("looking at", &self.path, e);
        let there = match disk.id(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            there => there.map_err(looking)?,
        };
        let own = self.file.id().map_err(looking)?;
        Ok(there.zip(own).is_none_or(|(there, own)| there == own))
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> Result<u64> {
        self.file.len().map_err(|e| Error::io("finding the size of", &self.path, e))
    }

    /// Reads and verifies a block of this volume. `buffer` is one block long; after an error its content
    /// means nothing.
    pub(super) fn read_block(&self, number: BlockId, buffer: &mut [u8]) -> Result<()> {
        if self.file.is_direct() && !buffer.as_ptr().addr().is_multiple_of(DIRECT_PAGE_MIN) {
            let mut scratch = Scratch::take();
            let aligned = &mut scratch[..self.codec.block_size()];
            self.read_neighbours(number, aligned)?;
            buffer.copy_from_slice(aligned);
            return Ok(());
        }
        self.read_neighbours(number, buffer)
    }

    /// Reads and verifies blocks, `first` and those after it, as many as `buffer` has room for, in one call.
    /// `buffer` is aligned.
    pub(super) fn read_neighbours(&self, first: BlockId, buffer: &mut [u8]) -> Result<()> {
        self.read_raw(first, buffer)?;
        (first.0..)
            .zip(buffer.chunks_exact_mut(self.codec.block_size()))
            .try_for_each(|(n, bytes)| self.codec.open(self.keys(), &self.path, BlockId(n), bytes))
    }

    /// What blocks are enciphered with, if they are.
    #[inline]
    pub(super) fn keys(&self) -> Option<&Keyring> {
        self.keys.as_deref()
    }

    /// Which key a block of this volume is enciphered with; none: it is not.
    pub(super) fn key_of(&self, number: BlockId) -> Result<Option<u32>> {
        if self.keys.is_none() {
            return Ok(None);
        }
        let mut scratch = Scratch::take();
        let bytes = &mut scratch[..self.codec.block_size()];
        self.read_raw(number, bytes)?;
        self.codec.key_of(&self.path, number, bytes).map(Some)
    }

    /// Reads blocks as they are in the file, `first` and those after it, with zeros for what does not count
    /// of them, and verifies their checksums. `buffer` is aligned.
    pub(super) fn read_as_they_are(&self, first: BlockId, buffer: &mut [u8]) -> Result<()> {
        self.read_raw(first, buffer)?;
        for (n, bytes) in (first.0..).zip(buffer.chunks_exact_mut(self.codec.block_size())) {
            let counts = self.codec.check(&self.path, BlockId(n), bytes)?;
            bytes[counts..].fill(0);
        }
        Ok(())
    }

    /// Reads blocks as they are in the file.
    fn read_raw(&self, first: BlockId, buffer: &mut [u8]) -> Result<()> {
        let blocks = (buffer.len() / self.codec.block_size()) as u64;
        let Some(at) = self.offset(first, blocks) else {
            let (from, to) = (first.within(), first.within() + blocks.saturating_sub(1));
            return Err(Error::corruption(format!(
                "{}: there can be no blocks {from} to {to}",
                self.path.display()
            )));
        };
        let place = first.within();
        let length = self
            .file
            .read_at(buffer, at)
            .map_err(|e| Error::io(format!("reading block {place} of"), &self.path, e))?;
        if length != buffer.len() {
            // What counts of a compressed block may be all that is there of the last one: the file was made
            // longer before that was written, and where a flush fails nobody knows what is left of that.
            if self.may_end_within_a_block() && buffer.len() - length < self.codec.block_size() {
                buffer[length..].fill(0);
                return Ok(());
            }
            let missing = place + (length / self.codec.block_size()) as u64;
            return Err(Error::corruption(format!(
                "{}: block {missing} (byte {}) lies beyond the end of the file, which was cut short",
                self.path.display(),
                missing * self.codec.block_size() as u64
            )));
        }
        Ok(())
    }

    /// Writes blocks of this volume that carry their checksums already, `first` and those after it: so many
    /// bytes of each as `counts` says, and the space of the others is given back; all where it says nothing.
    pub(super) fn write_sealed(&self, first: BlockId, bytes: &[u8], counts: &[usize]) -> Result<()> {
        assert!(!self.read_only, "a volume opened for reading is not written");
        let at = self
            .offset(first, (bytes.len() / self.codec.block_size()) as u64)
            .expect("blocks are allocated between the bounds");
        let is_whole = counts.is_empty() && self.compression() == Compression::None;
        let by = if is_whole { By::Space } else { By::Holes };
        // Room is made as it is needed: on a full disk what the first leave of theirs is for the last.
        let write = |from: usize, to: usize, end: usize| {
            let _room = self.growth.reach(&*self.file, &self.path, at + end as u64, by)?;
            let place = first.within() + (from / self.codec.block_size()) as u64;
            self.file
                .write_at(&bytes[from..to], at + from as u64)
                .map_err(|e| Error::io(format!("writing block {place} of"), &self.path, e))
        };
        let mut from = 0;
        for (n, &count) in counts.iter().enumerate() {
            let (start, end) = (n * self.codec.block_size(), (n + 1) * self.codec.block_size());
            if start + count < end {
                write(from, start + count, end)?;
                self.give_back(at + (start + count) as u64, (end - start - count) as u64)?;
                from = end;
            }
        }
        if from < bytes.len() { write(from, bytes.len(), bytes.len()) } else { Ok(()) }
    }

    /// Makes all that was written before durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| Error::io("flushing", &self.path, e))
    }

    /// Gives the free end of the file back to the disk, but for what is to be kept of it.
    pub(super) fn give_back_tail(&self, blocks: &BitSpace, tail: FreeEnd) -> Result<Reserve> {
        self.growth.cut((&*self.file, &self.path), (tail, self.may_have_holes()), || {
            let high = blocks.trim_high_water().max(first_within(self.volume, self.codec.block_size()));
            high * self.codec.block_size() as u64
        })
    }

    /// Where `count` blocks from `first` on are in the file, if there can be such.
    fn offset(&self, first: BlockId, count: u64) -> Option<u64> {
        let within = first.within();
        let possible = within >= first_within(self.volume, self.codec.block_size())
            && within + count <= BlockId::WITHIN_MAX;
        possible.then(|| within * self.codec.block_size() as u64)
    }
}

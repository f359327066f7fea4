//! The files of an environment's volumes as one space of blocks: reading, writing and flushing them.
//!
//! All reads are verified, all writes sealed. Threads and processes may use the files at once: no call here
//! depends on what another does, save that nobody may write a block while another reads or writes it.

use std::path::Path;
use std::sync::Arc;

use sablecat_os::disk::File;

use super::codec::Codec;
use super::compression::Compression;
use super::data_file::{DataFile, Leaving};
use crate::crypt::Keyring;
use crate::error::{Error, Result};
use crate::pages::allocation::{BlockSpace, VolumeBounds};
use crate::types::{BlockId, SealedBlock, VolumeId};

/// The files of the open volumes.
#[derive(Debug)]
pub(crate) struct BlockFiles {
    pub(super) codec: Codec,
    /// The keys of the environment, if it is encrypted.
    pub(super) keys: Option<Arc<Keyring>>,
    /// The main volume first.
    pub(super) files: Vec<DataFile>,
}

impl BlockFiles {
    /// Bytes of a block.
    #[inline]
    pub(crate) fn block_size(&self) -> usize {
        self.codec.block_size()
    }

    /// Bytes of a page, and of what the map has in a block.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.codec.page_size()
    }

    /// The keys of the environment, if it is encrypted.
    pub(crate) fn keyring(&self) -> Option<&Arc<Keyring>> {
        self.keys.as_ref()
    }

    /// Whether a block is enciphered with another key than this one. One that cannot be read is not, nor is
    /// one that is not enciphered.
    pub(crate) fn has_other_key(&self, number: BlockId, key: u32) -> bool {
        let found = self.of(number).and_then(|file| file.key_of(number));
        found.is_ok_and(|found| found.is_some_and(|found| found != key))
    }

    /// Where the main volume is.
    pub(crate) fn path(&self) -> &Path {
        self.files[0].path()
    }

    /// How many volumes there are, the main one included.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// The file of the volume that a block is in.
    pub(super) fn path_of(&self, block: BlockId) -> &Path {
        self.files.get(block.volume().index()).map_or(self.path(), DataFile::path)
    }

    /// Each volume's file and the bytes of it, the main one first.
    pub(crate) fn files(&self) -> Result<Vec<(&Path, u64)>> {
        self.files.iter().map(|file| Ok((file.path(), file.bytes()?))).collect()
    }

    /// Gives the space of `count` blocks from `first` on, which nothing names, to the file system.
    ///
    /// # Errors
    /// Those of the file; the blocks are as good as before for a participant that writes them.
    pub(crate) fn empty(&self, first: BlockId, count: u64) -> Result<()> {
        self.of(first)?.empty(first, count)
    }

    /// Has `count` free blocks from `first` on take space. Best effort.
    pub(crate) fn fill(&self, first: BlockId, count: u64) {
        if let Ok(file) = self.of(first) {
            file.fill(first, count);
        }
    }

    /// What to do with the free blocks of a volume whose file is left, if anything.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn leaving(&self, one: VolumeId, blocks: &BlockSpace) -> Result<Option<Leaving>> {
        self.files[one.index()].leaving(blocks.of(one))
    }

    /// Whether a block that is written again may need space.
    pub(crate) fn may_have_holes(&self) -> bool {
        self.files.iter().any(DataFile::may_have_holes)
    }

    /// Bytes of all files.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        self.files.iter().try_fold(0, |sum, file| Ok(sum + file.bytes()?))
    }

    /// For each volume, the places that its file has.
    pub(super) fn blocks_there(&self) -> Result<VolumeBounds> {
        let lengths = self.files.iter().map(DataFile::bytes).collect::<Result<Vec<_>>>()?;
        // Of the last block there may be no more than what counts (data_file.rs).
        let block = self.block_size() as u64;
        Ok(VolumeBounds::new(lengths.into_iter().zip(&self.files).map(|(bytes, file)| {
            if file.may_end_within_a_block() { bytes.div_ceil(block) } else { bytes / block }
        })))
    }

    /// The file of the main volume.
    pub(crate) fn file(&self) -> &dyn File {
        self.files[0].file()
    }

    /// The volume that a block is in, if there is such a one.
    pub(super) fn of(&self, block: BlockId) -> Result<&DataFile> {
        let file = if block.0 < BlockId::MAX { self.files.get(block.volume().index()) } else { None };
        file.ok_or_else(|| {
            Error::corruption(format!("{}: there can be no block {block}", self.path().display()))
        })
    }

    /// Reads and verifies a block. `buffer` is one block long, and has the page at its start; after an error
    /// its content means nothing.
    ///
    /// # Errors
    /// Corruption if the block is not as it was written; those of the file.
    pub(crate) fn read_block(&self, number: BlockId, buffer: &mut [u8]) -> Result<()> {
        assert_eq!(buffer.len(), self.block_size(), "a block is read as a whole");
        self.of(number)?.read_block(number, buffer)
    }

    /// Reads and verifies blocks, `first` and those after it, as many as `buffer` has room for, in one call.
    /// `buffer` is aligned.
    ///
    /// # Errors
    /// As [`BlockFiles::read_block`].
    pub(in crate::pages) fn read_neighbours(&self, first: BlockId, buffer: &mut [u8]) -> Result<()> {
        self.of(first)?.read_neighbours(first, buffer)
    }

    /// Reads blocks as they are in the file, verified and not deciphered: `first` and those after it.
    ///
    /// # Errors
    /// As [`BlockFiles::read_block`].
    pub(super) fn read_as_they_are(&self, first: BlockId, buffer: &mut [u8]) -> Result<()> {
        self.of(first)?.read_as_they_are(first, buffer)
    }

    /// Writes blocks that carry their checksums already, `first` and those after it: so many bytes of each as
    /// `counts` says, all where that says nothing.
    pub(super) fn write_sealed(&self, first: BlockId, bytes: &[u8], counts: &[usize]) -> Result<()> {
        self.of(first)?.write_sealed(first, bytes, counts)
    }

    /// Makes a block of the page at the start of `bytes`, by how those of its volume are made at present. See
    /// [`Codec::seal`].
    #[inline]
    pub(super) fn seal(&self, block: BlockId, bytes: &mut [u8]) -> (SealedBlock, usize) {
        let file = self.files.get(block.volume().index());
        let compression = file.map_or(Compression::None, DataFile::compression);
        self.codec.seal(file.and_then(DataFile::keys), compression, block, bytes)
    }

    /// Makes all that was written to the main volume before durable.
    ///
    /// # Errors
    /// Those of the file. The environment cannot go on then: what was written before may be lost although
    /// later flushes succeed.
    pub(crate) fn sync(&self) -> Result<()> {
        self.files[0].sync()
    }
}

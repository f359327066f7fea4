//! Segment files: names, headers, and which byte of the log is where.
//!
//! ```text
//! <directory>/<number, 16 hex digits>.log      in use: number n holds the LSNs [n * bytes, (n + 1) * bytes)
//! <directory>/<number>.spare                   no longer needed, waits for reuse under a higher number
//! <directory>/<number>.new                     being written; means nothing. The number is that of the
//!                                              holding of the supply turn in which it is written
//! <directory>/<number>.copy                    the same, of a segment in use; of the holding of the flush
//!                                              turn (succession.rs)
//!
//! file:    0 ─ header block ─ 4096 ─ log bytes ─ 4096 + bytes
//! header:  0 magic "sablelog" │ 8 version u32 │ 12 crc32c u32 │ 16 uuid [16] │ 32 number u64 │ 40 bytes u64
//!          │ 48 life u64 │ 56 continues u64 │ zeros, checked
//! ```
//!
//! Archived segments have other names (archive.rs) and are the same files, the last one of a life cut short.
//!
//! All integers are little-endian; the checksum covers the header block with the checksum itself zero. `life`
//! is the first LSN of the stretch between two recoveries that the segment belongs to, `continues` the LSN at
//! which the stretch before ended. A file has a `.log` name only when its whole length has been made and its
//! header written, both flushed, so a bad header is damage, never an accident of timing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat_os::calendar::Moment;
use sablecat_os::disk::{AlignedBuf, Disk, File, How};

use super::archive::Archive;
use super::limits::{BLOCK, SEGMENT_BYTES_MIN};
use super::name::Name;
use crate::crypt::Keyring;
use crate::error::{Error, ErrorKind, Result};
use crate::types::Lsn;
use crate::zeros::are_zeros;

const MAGIC: &[u8; 8] = b"sablelog";
const VERSION: u32 = 1;
/// Bytes of a header that say anything.
const USED_BYTES: usize = 64;
/// Bytes of a file before the log bytes.
pub(super) const HEADER_BYTES: u64 = BLOCK;

/// A segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHeader {
    pub(super) uuid: [u8; 16],
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) life: u64,
    pub(super) continues: u64,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::new(HEADER_BYTES as usize);
        block[0..8].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.uuid);
        block[32..40].copy_from_slice(&self.number.to_le_bytes());
        block[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        block[48..56].copy_from_slice(&self.life.to_le_bytes());
        block[56..64].copy_from_slice(&self.continues.to_le_bytes());
        let crc = crc32c::crc32c(&block);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// The header in `block`, or what is wrong with it.
    pub(super) fn decode(block: &[u8]) -> std::result::Result<SegmentHeader, String> {
        let Ok(block) = <&[u8; HEADER_BYTES as usize]>::try_from(block) else {
            return Err(format!("the file ends inside its header, after {} bytes", block.len()));
        };
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&block[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let word = u64_at(8);
        let (version, crc) = (word as u32, (word >> 32) as u32);
        if &block[0..8] != MAGIC {
            return Err("it does not begin as a log segment does".into());
        }
        let mut copy = *block;
        copy[12..16].fill(0);
        if crc32c::crc32c(&copy) != crc {
            return Err("its header's checksum is wrong".into());
        }
        if version != VERSION {
            return Err(format!("its format version is {version}, and this library knows {VERSION}"));
        }
        if !are_zeros(&block[USED_BYTES..]) {
            return Err(
                "its header uses parts of the format that this version of the library does not know; use a \
                 newer version"
                    .into(),
            );
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&block[16..32]);
        Ok(SegmentHeader {
            uuid,
            number: u64_at(32),
            bytes: u64_at(40),
            life: u64_at(48),
            continues: u64_at(56),
        })
    }
}

/// What a file of the log is, for people.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile {
    pub(crate) path: PathBuf,
    pub(crate) first: Lsn,
    pub(crate) life: Lsn,
    pub(crate) continues: Lsn,
    pub(crate) bytes: u64,
    /// When it was archived; none: it is in use.
    pub(crate) archived: Option<Moment>,
}

/// The segment files of one log.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// Where segments no longer needed are; none if they are not kept.
    archive: Option<Archive>,
    bytes: u64,
    uuid: [u8; 16],
    /// What bodies of records are enciphered with, if they are.
    keys: Option<Arc<Keyring>>,
}

impl Segments {
    /// The segments in `directory`, with those in `archive`. The header of the newest one in use says how
    /// long they are, or of the newest archived; `bytes` does when there is none.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        archive: Option<PathBuf>,
        bytes: u64,
        uuid: [u8; 16],
    ) -> Result<Segments> {
        check_size(bytes).map_err(Error::invalid)?;
        disk.create_dir_all(&directory)
            .map_err(|e| Error::io("creating the log directory", &directory, e))?;
        let archive = archive.map(|directory| Archive::new(Arc::clone(&disk), directory));
        let mut segments = Segments { disk, directory, archive, bytes, uuid, keys: None };
        // Processes that have the environment open may take a segment out of use under a look at it, even the
        // one that was the newest when the segments were listed.
        loop {
            let seen = segments.newest()?;
            let header = seen.map(|newest| segments.read_header(newest)).transpose();
            if let Ok(Some(header)) = &header {
                segments.bytes = header.bytes;
                return Ok(segments);
            }
            if segments.newest()? == seen {
                return header.map(|_| segments);
            }
        }
    }

    /// The same, whose records are enciphered if there are keys.
    pub(crate) fn with_keys(self, keys: Option<Arc<Keyring>>) -> Segments {
        Segments { keys, ..self }
    }

    pub(super) fn keys(&self) -> Option<&Keyring> {
        self.keys.as_deref()
    }

    /// The number of the newest segment in use, or of the newest archived.
    fn newest(&self) -> Result<Option<u64>> {
        match self.numbers()?.last() {
            Some(&in_use) => Ok(Some(in_use)),
            None => Ok(self.numbers_kept()?.last().copied()),
        }
    }

    pub(super) fn archive(&self) -> Option<&Archive> {
        self.archive.as_ref()
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the segment that holds `lsn`.
    #[inline]
    pub(super) fn number_of(&self, lsn: Lsn) -> u64 {
        lsn.0 / self.bytes
    }
    /// The number of the segment that holds what is right below `end`, which is above 0.
    pub(super) fn number_of_last(&self, end: Lsn) -> u64 {
        self.number_of(Lsn(end.0 - 1))
    }
    /// Where in its file `lsn` is.
    #[inline]
    pub(super) fn offset_of(&self, lsn: Lsn) -> u64 {
        HEADER_BYTES + lsn.0 % self.bytes
    }
    /// The first LSN of a segment.
    #[inline]
    pub(super) fn first_lsn(&self, number: u64) -> Lsn {
        Lsn(number.saturating_mul(self.bytes))
    }

    pub(super) fn path(&self, name: Name) -> PathBuf {
        self.directory.join(name.file_name())
    }

    /// The header for segment `number` of a life.
    pub(super) fn header(&self, number: u64, life: u64, continues: u64) -> SegmentHeader {
        SegmentHeader { uuid: self.uuid, number, bytes: self.bytes, life, continues }
    }

    /// All files of the log.
    pub(super) fn list(&self) -> Result<Vec<Name>> {
        let names = self
            .disk
            .list(&self.directory)
            .map_err(|e| Error::io("listing the log directory", &self.directory, e))?;
        Ok(names.iter().filter_map(|name| Name::parse(name)).collect())
    }

    /// The numbers of the segments in use, ascending.
    pub(super) fn numbers(&self) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> = self
            .list()?
            .into_iter()
            .filter_map(|name| if let Name::Log(number) = name { Some(number) } else { None })
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The numbers of all segments there are, in use or archived, ascending.
    pub(super) fn numbers_kept(&self) -> Result<Vec<u64>> {
        let mut numbers = self.numbers()?;
        if let Some(archive) = &self.archive {
            numbers.extend(archive.list()?.iter().map(|archived| archived.number));
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// All segments there are, in use or archived, ascending. What is removed meanwhile is left out.
    pub(crate) fn files(&self) -> Result<Vec<SegmentFile>> {
        let mut files = Vec::new();
        for number in self.numbers_kept()? {
            let archived = self
                .archive
                .as_ref()
                .map(|archive| archive.find(number))
                .transpose()?
                .flatten()
                .map(|archived| archived.time);
            let path = self.path_of(number);
            let Ok(file) = self.open_to_read(number) else { continue };
            let bytes = file.len().map_err(|e| Error::io("asking the length of", &path, e))?;
            let header = match self.read_header(number) {
                Err(error) if error.kind() == ErrorKind::Io || !self.numbers_kept()?.contains(&number) => {
                    continue;
                }
                header => header?,
            };
            let (life, continues) = (Lsn(header.life), Lsn(header.continues));
            files.push(SegmentFile { path, first: self.first_lsn(number), life, continues, bytes, archived });
        }
        Ok(files)
    }

    /// Where numbers begin that no segment has had.
    pub(crate) fn end_of_numbers(&self) -> Result<Lsn> {
        Ok(self.numbers_kept()?.last().map_or(Lsn(0), |last| self.first_lsn(last + 1)))
    }

    /// Opens a segment to read it, whether it is in use or archived.
    pub(super) fn open_to_read(&self, number: u64) -> Result<Arc<dyn File>> {
        if let Some(archive) = &self.archive
            && let Some(archived) = archive.find(number)?
        {
            return archive.open(&archived);
        }
        let opened = self.open_file(Name::Log(number), false, true);
        if opened.is_err()
            && let Some(archive) = &self.archive
            && let Some(archived) = archive.find(number)?
        {
            // Since that look.
            return archive.open(&archived);
        }
        opened
    }

    /// Where a segment is, or would be in use.
    pub(super) fn path_of(&self, number: u64) -> PathBuf {
        let archived =
            self.archive.as_ref().and_then(|archive| Some(archive.path(&archive.find(number).ok()??)));
        archived.unwrap_or_else(|| self.path(Name::Log(number)))
    }

    /// Opens an existing file.
    pub(super) fn open_file(&self, name: Name, direct: bool, read_only: bool) -> Result<Arc<dyn File>> {
        let path = self.path(name);
        let how = How { create: false, create_new: false, read_only, direct, durable: false };
        self.disk.open(&path, how).map_err(|e| Error::io("opening log segment", &path, e))
    }

    /// Opens a segment to write it around the page cache; `durable`: each write so that it is durable when it
    /// returns.
    pub(super) fn open_direct(&self, number: u64, durable: bool) -> Result<Arc<dyn File>> {
        let path = self.path(Name::Log(number));
        let how = How { create: false, create_new: false, read_only: false, direct: true, durable };
        self.disk.open(&path, how).map_err(|e| Error::io("opening log segment", &path, e))
    }

    /// False: it is not there any more. A holder that was succeeded in the supply turn may be at the same
    /// files still.
    pub(super) fn rename(&self, from: Name, to: Name) -> Result<bool> {
        let path = self.path(from);
        is_there(self.disk.rename(&path, &self.path(to)))
            .map_err(|e| Error::io("renaming log segment", &path, e))
    }

    /// Gives a file a name that no other has. False: another has it.
    pub(super) fn rename_new(&self, from: Name, to: Name) -> Result<bool> {
        let path = self.path(from);
        match self.disk.rename_new(&path, &self.path(to)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("renaming log segment", &path, error)),
        }
    }

    /// Removes a file, unless it is not there any more: as for [`Segments::rename`].
    pub(super) fn remove(&self, name: Name) -> Result<()> {
        let path = self.path(name);
        is_there(self.disk.remove(&path)).map(drop).map_err(|e| Error::io("removing log segment", &path, e))
    }

    /// Cuts a segment off at `end`, which lies within it: a block may stay that is only part of the log up to
    /// there. Durable when it returns.
    pub(super) fn cut(&self, number: u64, end: Lsn) -> Result<()> {
        let path = self.path(Name::Log(number));
        let io = |e| Error::io("shortening log segment", &path, e);
        let file = self.open_file(Name::Log(number), false, false)?;
        let len = self.offset_of(end).next_multiple_of(BLOCK);
        if file.len().map_err(io)? > len {
            file.set_len(len).and_then(|()| file.sync()).map_err(io)?;
        }
        Ok(())
    }

    /// Gives the space of a segment behind `end`, which lies within it, to the file system: zeros are there
    /// then. It keeps its length, as one that is shorter is taken for damaged. Durable when it returns.
    pub(super) fn empty_behind(&self, number: u64, end: Lsn) -> Result<()> {
        let path = self.path(Name::Log(number));
        let io = |e| Error::io("emptying the end of log segment", &path, e);
        let file = self.open_file(Name::Log(number), false, false)?;
        let at = self.offset_of(end).next_multiple_of(BLOCK);
        let behind = file.len().map_err(io)?.saturating_sub(at);
        if behind > 0 && file.punch(at, behind).map_err(io)? {
            file.sync().map_err(io)?;
        }
        Ok(())
    }

    /// Makes creations, renames and removals durable.
    pub(super) fn sync_directory(&self) -> Result<()> {
        self.disk
            .sync_dir(&self.directory)
            .map_err(|e| Error::io("flushing the log directory", &self.directory, e))
    }

    /// Makes the log directory itself durable.
    pub(super) fn sync_parent(&self) -> Result<()> {
        let Some(parent) = self.directory.parent() else { return Ok(()) };
        self.disk.sync_dir(parent).map_err(|e| Error::io("flushing directory", parent, e))
    }

    /// The header of segment `number`, checked against its name, the environment and the segment size.
    pub(super) fn read_header(&self, number: u64) -> Result<SegmentHeader> {
        let file = self.open_to_read(number)?;
        let path = self.path_of(number);
        let mut block = vec![0; HEADER_BYTES as usize];
        let got = file
            .read_at(&mut block, 0)
            .map_err(|e| Error::io("reading the header of log segment", &path, e))?;
        let damaged =
            |why: &str| Error::corruption(format!("log segment {} cannot be used: {why}", path.display()));
        let header = SegmentHeader::decode(&block[..got.min(block.len())]).map_err(|why| damaged(&why))?;
        if header.uuid != self.uuid {
            return Err(damaged("it belongs to another environment"));
        }
        if header.number != number {
            return Err(damaged(&format!("its header says it is segment {:016x}", header.number)));
        }
        check_size(header.bytes).map_err(|why| damaged(&why))?;
        Ok(header)
    }
}

/// Whether a file was there to be renamed or removed.
fn is_there(done: std::io::Result<()>) -> std::io::Result<bool> {
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true),
    }
}

fn check_size(bytes: u64) -> std::result::Result<(), String> {
    if (SEGMENT_BYTES_MIN..=1 << 40).contains(&bytes) && bytes.is_multiple_of(BLOCK) {
        Ok(())
    } else {
        Err(format!(
            "a log segment of {bytes} bytes; the size must be a multiple of {BLOCK}, from \
             {SEGMENT_BYTES_MIN} to 2^40"
        ))
    }
}

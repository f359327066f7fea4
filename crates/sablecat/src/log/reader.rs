//! Reading the log's bytes, wherever they are: in segments in use, in archived ones, in the ring.
//!
//! Nothing here trusts a byte: a length that a record claims is bounded, and a record is good if its checksum
//! says so.

use std::sync::Arc;

use sablecat_os::disk::File;

use super::record;
use super::segment::{HEADER_BYTES, Segments};
use super::{BLOCK, Log};
use crate::error::{Error, Result};
use crate::types::Lsn;
use crate::zeros::are_zeros;

/// How much is read at once.
const READ_BYTES: usize = 1 << 20;

/// Reads the log's bytes, across segments, a lot at a time.
#[derive(Debug)]
pub(super) struct LogReader<'l> {
    pub(super) segments: &'l Segments,
    /// The log whose ring may have what is read, for a reader of what others append.
    pub(super) ring: Option<&'l Log>,
    file: Option<(u64, Arc<dyn File>)>,
    buffer: Vec<u8>,
    /// So many bytes of the buffer are the log's, from `start` on.
    filled: usize,
    start: Lsn,
}

impl<'l> LogReader<'l> {
    pub(super) fn new(segments: &'l Segments, ring: Option<&'l Log>) -> LogReader<'l> {
        LogReader { segments, ring, file: None, buffer: Vec::new(), filled: 0, start: Lsn(0) }
    }

    /// The length of the good record at `at`, if there is one that ends by `limit`.
    pub(super) fn good_len(&mut self, at: Lsn, limit: Lsn) -> Result<Option<usize>> {
        let Some(len) = record::claimed_len(self.bytes(at, record::HEADER_BYTES, limit)?, at) else {
            return Ok(None);
        };
        let bytes = self.bytes(at, len, limit)?;
        Ok((bytes.len() == len && record::is_good(bytes)).then_some(len))
    }

    /// The same, read once more from the files if what was in the ring was none.
    pub(super) fn good_len_surely(&mut self, at: Lsn, limit: Lsn) -> Result<Option<usize>> {
        match self.good_len(at, limit) {
            Ok(None) if self.ring.is_some() => {
                let ring = self.ring.take();
                (self.filled, self.file) = (0, None);
                let found = self.good_len(at, limit);
                self.ring = ring;
                found
            }
            found => found,
        }
    }

    /// Whether the whole record at `at`, as long as it claims to be, is in the buffer.
    pub(super) fn has_record(&self, at: Lsn) -> bool {
        record::claimed_len(self.held(at, record::HEADER_BYTES), at)
            .is_some_and(|len| self.held(at, len).len() == len)
    }

    /// The first good record that begins at or above `at` and ends by `limit`, and its length.
    pub(super) fn next_good(&mut self, mut at: Lsn, limit: Lsn) -> Result<Option<(Lsn, usize)>> {
        while at < limit {
            let bytes = self.bytes(at, READ_BYTES.min((limit.0 - at.0) as usize), limit)?;
            if bytes.len() < record::HEADER_BYTES {
                break;
            }
            // Every place in reach whose header is in reach as well.
            let places = (bytes.len() - record::HEADER_BYTES) / 8 + 1;
            // Looked at first: what is not used yet of a segment is long.
            let is_empty = at.0 > 0 && are_zeros(bytes);
            let is_named = |&place: &usize| record::u64_at(bytes, place * 8 + 8) == at.0 + place as u64 * 8;
            let found = if is_empty { None } else { (0..places).find(is_named) };
            let Some(place) = found else {
                at.0 += places as u64 * 8;
                if is_empty && self.ring.is_none() {
                    at = self.behind_hole(at)?;
                }
                continue;
            };
            at.0 += place as u64 * 8;
            match self.good_len(at, limit)? {
                Some(len) => return Ok(Some((at, len))),
                None => at.0 += 8,
            }
        }
        Ok(None)
    }

    /// The first place at or above `at`, which is above 0, where a record may begin that is not all zeros:
    /// what is not written of a segment, which may be long, takes no space in most file systems.
    fn behind_hole(&mut self, at: Lsn) -> Result<Lsn> {
        let (segments, number) = (self.segments, self.segments.number_of(at));
        let begins = segments.first_lsn(number);
        let io = |e| Error::io("looking for data in log segment", &segments.path_of(number), e);
        // Its header may be in the hole.
        let data = self.file_of(number)?.next_data(segments.offset_of(at)).map_err(io)?;
        let within = data.map_or(segments.bytes(), |data| data.saturating_sub(HEADER_BYTES));
        Ok(at.max(Lsn(begins.0 + (within & !7).saturating_sub(record::HEADER_BYTES as u64))))
    }

    /// A segment, to be read.
    fn file_of(&mut self, number: u64) -> Result<Arc<dyn File>> {
        match &self.file {
            Some((open, file)) if *open == number => Ok(Arc::clone(file)),
            _ => {
                let file = self.segments.open_to_read(number)?;
                self.file = Some((number, Arc::clone(&file)));
                Ok(file)
            }
        }
    }

    /// `len` bytes from `at` on, fewer where `limit` comes first.
    pub(super) fn bytes(&mut self, at: Lsn, len: usize, limit: Lsn) -> Result<&[u8]> {
        let stop = limit.0.min(at.0.saturating_add(len as u64)).max(at.0);
        if at < self.start || stop > self.start.0 + self.filled as u64 {
            self.fill(at, stop, limit)?;
        }
        let offset = (at.0 - self.start.0) as usize;
        Ok(&self.buffer[offset..offset + (stop - at.0) as usize])
    }

    /// The same once more, of which nothing was read beyond since.
    pub(super) fn held(&self, at: Lsn, len: usize) -> &[u8] {
        let offset = at.0.wrapping_sub(self.start.0) as usize;
        self.buffer[..self.filled].get(offset..).and_then(|bytes| bytes.get(..len)).unwrap_or_default()
    }

    /// Fills the buffer from `at` to `needed` at least, and on for as much as is read at once if it is there.
    fn fill(&mut self, at: Lsn, needed: u64, limit: Lsn) -> Result<()> {
        let stop = limit.0.min(needed.max((at.0 & !(BLOCK - 1)).saturating_add(READ_BYTES as u64)));
        (self.start, self.filled) = (at, 0);
        let room = (stop - at.0) as usize;
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        if let Some(log) = self.ring
            && log.copy_from_ring(at, &mut self.buffer[..room])
        {
            self.filled = room;
            return Ok(());
        }
        let mut at = at;
        while at.0 < stop {
            let number = self.segments.number_of(at);
            let piece = (stop.min(self.segments.first_lsn(number + 1).0) - at.0) as usize;
            let file = match self.file_of(number) {
                Ok(file) => file,
                Err(_) if at.0 >= needed => break,
                Err(error) => return Err(error),
            };
            let offset = self.segments.offset_of(at);
            let got = file.read_at(&mut self.buffer[self.filled..][..piece], offset).map_err(|e| {
                Error::io(
                    format_args!("reading at offset {offset} of log segment"),
                    &self.segments.path_of(number),
                    e,
                )
            })?;
            if got < piece {
                let whole = Lsn(at.0 + got as u64);
                if whole.0 >= needed {
                    // An archived segment that was cut to what it holds.
                    self.filled += got;
                    break;
                }
                self.filled = 0;
                return Err(damaged(self.segments, whole, "the file is shorter than a segment"));
            }
            self.filled += piece;
            at.0 += piece as u64;
        }
        Ok(())
    }
}

/// The error of finding other bytes in the log than those that must be there.
pub(super) fn damaged(segments: &Segments, lsn: Lsn, why: &str) -> Error {
    let path = segments.path_of(segments.number_of(lsn));
    Error::corruption(format!(
        "log segment {} is damaged at offset {} (LSN {lsn}): {why}",
        path.display(),
        segments.offset_of(lsn)
    ))
}

//! Large write sets: operations in chunks, committed by a short record that names them.
//!
//! ```text
//! Chunk body:          chain u64 │ bytes
//! CommitChunked body:  chain u64 │ chunks u64 │ bytes u64
//! ```
//!
//! The bytes of a chain's chunks, one after the other, are what the body of a `Commit` would have been; an
//! operation may begin in one chunk and end in another. Chunks are appended before the commit step, between
//! other transactions' records; without their `CommitChunked` they mean nothing. A reader keeps only where
//! the chunks are and reads them again when the commit comes: its memory is bounded by one chunk and one
//! operation, however large the transaction.

use std::collections::HashMap;

use super::Log;
use super::operation::{self, Bad, LogOperation};
use super::record::{LogRecord, RecordBuilder, RecordKind, u64_at};
use super::segment::Segments;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Lsn, TreeId};

impl RecordBuilder {
    /// Begins a chunk of `chain`, dropping what was there. Operations, or parts of them, are to follow.
    pub(crate) fn begin_chunk(&mut self, chain: u64) {
        self.begin(RecordKind::Chunk);
        self.raw(&chain.to_le_bytes());
    }

    /// Bytes of operations in the chunk so far.
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.body().len() - size_of::<u64>()
    }

    /// A chunk of `chain`, ready to be sealed.
    pub(crate) fn chunk(&mut self, chain: u64, bytes: &[u8]) {
        self.begin_chunk(chain);
        self.raw(bytes);
        self.finish_body();
    }

    /// The commit of `chain`, which has `chunks` chunks of `bytes` bytes together; ready to be sealed.
    pub(crate) fn commit_chunked(&mut self, chain: u64, chunks: u64, bytes: u64) {
        self.begin(RecordKind::CommitChunked);
        self.raw(&chain.to_le_bytes());
        self.raw(&chunks.to_le_bytes());
        self.raw(&bytes.to_le_bytes());
        self.finish_body();
    }
}

impl<'a> LogRecord<'a> {
    /// The chain and the bytes of a chunk.
    pub(crate) fn as_chunk(&self) -> Result<(u64, &'a [u8])> {
        match self.body.split_at_checked(8) {
            Some((chain, bytes)) if self.kind == RecordKind::Chunk => Ok((u64_at(chain, 0), bytes)),
            _ => Err(operation::damaged(self.start, "a chunk of a large transaction without its chain")),
        }
    }

    fn as_commit_chunked(&self) -> Result<(u64, u64, u64)> {
        if self.kind != RecordKind::CommitChunked || self.body.len() != 24 {
            return Err(operation::damaged(
                self.start,
                "the commit of a large transaction without its chain",
            ));
        }
        Ok((u64_at(self.body, 0), u64_at(self.body, 8), u64_at(self.body, 16)))
    }
}

/// Where the chunks of unfinished chains are, gathered while scanning.
#[derive(Debug, Default)]
pub(super) struct Chains {
    open: HashMap<u64, Vec<Lsn>>,
}

impl Chains {
    /// Notes a `Chunk` record.
    pub(super) fn add(&mut self, record: &LogRecord<'_>) -> Result<()> {
        let (chain, _) = record.as_chunk()?;
        self.open.entry(chain).or_default().push(record.start);
        Ok(())
    }

    /// The chain that a `CommitChunked` record commits. Every chunk has been [added](Chains::add): scanning
    /// began no later than the transaction's first chunk (a checkpoint's log position is below the chunks of
    /// all transactions that were open at it).
    ///
    /// # Errors
    /// `Corruption` when chunks are missing.
    pub(super) fn take(&mut self, record: &LogRecord<'_>) -> Result<Chain> {
        self.take_with(record, |_, _| Ok(Vec::new()))
    }

    /// The same, for a reader that may have begun between the chunks: `look_for` finds so many of a chain, if
    /// they are there.
    pub(super) fn take_with(
        &mut self,
        record: &LogRecord<'_>,
        look_for: impl FnOnce(u64, u64) -> Result<Vec<Lsn>>,
    ) -> Result<Chain> {
        let (chain, chunks, bytes) = record.as_commit_chunked()?;
        let mut places = self.open.remove(&chain).unwrap_or_default();
        if places.len() as u64 != chunks {
            let found = look_for(chain, chunks)?;
            places = if found.is_empty() { places } else { found };
        }
        if places.len() as u64 != chunks {
            let why =
                format!("it has {chunks} chunks and {} of them are in the log that was read", places.len());
            return Err(operation::damaged(record.start, &why));
        }
        Ok(Chain { lsn: record.start, places, bytes })
    }

    /// Where the first chunk is that has no commit yet.
    pub(super) fn first(&self) -> Option<Lsn> {
        self.open.values().filter_map(|places| places.first().copied()).min()
    }

    /// Forgets the chains that begin below `at`: they will have no commit.
    pub(super) fn forget_below(&mut self, at: Lsn) {
        self.open.retain(|_, places| places.first().is_some_and(|&first| first >= at));
    }
}

/// Where the chunks of a commit are.
#[derive(Debug)]
pub(super) struct Chain {
    /// Where the record that commits them begins.
    lsn: Lsn,
    places: Vec<Lsn>,
    /// Bytes that they have together.
    bytes: u64,
}

impl Chain {
    /// Where the first of them is.
    pub(super) fn first(&self) -> Option<Lsn> {
        self.places.first().copied()
    }

    /// The operations in them, from the first on.
    pub(super) fn operations<'a>(&'a self, source: ChunkSource<'a>) -> ChainOperations<'a> {
        ChainOperations {
            source,
            lsn: self.lsn,
            places: self.places.iter(),
            expected: self.bytes,
            seen: 0,
            buffer: Vec::new(),
            used: 0,
        }
    }
}

/// Where chunks are read: from the ring of a log that others append to what it still has, else from the
/// files.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkSource<'a> {
    pub(super) segments: &'a Segments,
    pub(super) ring: Option<&'a Log>,
}

/// The operations of a chunked commit, read as they are asked for.
#[derive(Debug)]
pub(crate) struct ChainOperations<'a> {
    source: ChunkSource<'a>,
    lsn: Lsn,
    places: std::slice::Iter<'a, Lsn>,
    expected: u64,
    seen: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl ChainOperations<'_> {
    /// The next operation on a tree that is wanted.
    pub(super) fn next_of(&mut self, wanted: impl Fn(TreeId) -> bool) -> Result<Option<LogOperation<'_>>> {
        loop {
            let before = &self.buffer[self.used..];
            let mut rest = before;
            match operation::decode(&mut rest) {
                Ok(operation) if wanted(operation.tree()) => break,
                Ok(_) => self.used += before.len() - rest.len(),
                Err(Bad::Malformed(why)) => return Err(operation::damaged(self.lsn, why)),
                Err(Bad::Short) => {
                    if !self.more()? {
                        return self.finish();
                    }
                }
            }
        }
        // Decoded again for the borrow's sake: the loop above changes the buffer.
        let before = &self.buffer[self.used..];
        let mut rest = before;
        let operation = operation::decode(&mut rest)
            .map_err(|_| operation::damaged(self.lsn, "an operation that changed"))?;
        self.used += before.len() - rest.len();
        Ok(Some(operation))
    }

    /// Reads the next chunk behind what is left of the last.
    fn more(&mut self) -> Result<bool> {
        let Some(&place) = self.places.next() else { return Ok(false) };
        self.buffer.drain(..self.used);
        self.used = 0;
        let ChunkSource { segments, ring } = self.source;
        // They end where the record that commits them begins, at the latest: beyond it others may be writing.
        let bytes = segments.read_record(place, self.lsn, ring)?;
        let mut text = Vec::new();
        let (_, chunk) = match LogRecord::parse(&bytes, place)? {
            Some(record) => record.decipher(segments.keys(), &mut text)?.as_chunk()?,
            None => {
                return Err(operation::damaged(
                    self.lsn,
                    "a chunk that was good when it was scanned is not any more",
                ));
            }
        };
        self.seen += chunk.len() as u64;
        self.buffer.extend_from_slice(chunk);
        Ok(true)
    }

    fn finish(&self) -> Result<Option<LogOperation<'_>>> {
        if self.used != self.buffer.len() {
            return Err(operation::damaged(self.lsn, "its last operation is cut off"));
        }
        if self.seen != self.expected {
            return Err(operation::damaged(self.lsn, "its chunks have another length than it says"));
        }
        Ok(None)
    }
}

/// What is wrong if segments with chunks of the commit that is logged there are gone.
#[cold]
pub(super) fn parts_gone(commit: Lsn) -> Error {
    Error::new(
        ErrorKind::LogGone,
        format!(
            "parts of the large commit that is logged at LSN {commit} are not kept any more: begin again \
             with a copy of a later state"
        ),
    )
}

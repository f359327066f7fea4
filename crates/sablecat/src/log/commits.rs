//! Commits: the log as what was committed, one after the other, whatever of it stands where.
//!
//! The one reader of commits. Recovery replays them, going back counts and replays them, and a stream hands
//! them on (tail.rs). It goes over the records of a [`LogScan`], notes where chunks are, keeps the time that
//! time records tell, and passes by what changes nothing.
//!
//! What a commit changes is read when it is asked for, and again if it is asked for again: of a commit that
//! was logged in chunks one chunk at a time.

use sablecat_os::calendar::Moment;

use super::chunk::{Chain, ChainOperations, Chains, ChunkSource};
use super::operation::{self, LogOperation};
use super::record::{HEADER_BYTES, RecordKind};
use super::scan::{LogEnd, LogScan};
use crate::error::Result;
use crate::types::{Lsn, TreeId};

/// The commits of a scan.
#[derive(Debug)]
pub(crate) struct Commits<'l> {
    scan: LogScan<'l>,
    /// Commits that begin below it are passed by: but for chunks, nobody wants them.
    after: Lsn,
    chains: Chains,
    passed: Lsn,
    last: Lsn,
    time: Option<Moment>,
    found: Option<FoundCommit>,
    /// Whether it may have begun between the chunks of a commit, and looks for the others before it.
    looks_back: bool,
}

/// The commit that was found last.
#[derive(Debug)]
struct FoundCommit {
    start: Lsn,
    end: Lsn,
    /// Bytes of the record's body.
    body: usize,
    /// Where the operations are, if they were logged in chunks.
    chain: Option<Chain>,
}

/// One commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedCommit<'a> {
    /// Where its record begins.
    pub(crate) start: Lsn,
    /// Its LSN: where its record ends.
    pub(crate) lsn: Lsn,
    /// When it was made, as far as the log says: at this time or a little later (stamp.rs).
    pub(crate) time: Option<Moment>,
    source: CommitSource<'a>,
}

#[derive(Clone, Copy, Debug)]
enum CommitSource<'a> {
    Record(&'a [u8]),
    Chunks(&'a Chain, ChunkSource<'a>),
}

/// The operations of a commit, in order: those of the catalog come first.
#[derive(Debug)]
pub(crate) enum CommitOperations<'a> {
    Together(operation::LogOperations<'a>),
    Chunked(ChainOperations<'a>),
}

impl<'l> Commits<'l> {
    /// The commits of a scan, which has not begun, that begin at or above `after`. The scan begins no later
    /// than the first chunk of any of them.
    pub(crate) fn new(scan: LogScan<'l>, after: Lsn) -> Commits<'l> {
        let from = scan.at();
        Commits {
            scan,
            after,
            chains: Chains::default(),
            passed: from,
            last: from,
            time: None,
            found: None,
            looks_back: false,
        }
    }

    /// The commits of a scan of a log that others append to, wherever it begins.
    pub(super) fn following(scan: LogScan<'l>) -> Commits<'l> {
        let from = scan.at();
        Commits { looks_back: true, ..Commits::new(scan, from) }
    }

    /// [`LogScan::extend`].
    pub(super) fn extend(&mut self, to: Lsn) {
        self.scan.extend(to);
    }

    /// Where it is: see [`LogScan`].
    pub(super) fn at(&self) -> Lsn {
        self.scan.at()
    }

    /// Where the first chunk of the commit is that it has gone on to, if that has chunks.
    pub(super) fn chunk_of_commit(&self) -> Option<Lsn> {
        self.found.as_ref()?.chain.as_ref()?.first()
    }

    /// Where the first chunk is that has no commit yet.
    pub(super) fn first_chunk(&self) -> Option<Lsn> {
        self.chains.first()
    }

    /// Forgets the chunks that will have no commit: those below `at`.
    pub(super) fn forget_chunks_below(&mut self, at: Lsn) {
        self.chains.forget_below(at);
    }

    /// The next commit, or nothing at the end.
    ///
    /// # Errors
    /// As [`LogScan::next`]; `Corruption` when chunks are missing.
    pub(crate) fn next(&mut self) -> Result<Option<LoggedCommit<'_>>> {
        Ok(if self.advance()? { self.commit() } else { None })
    }

    /// Goes on to the next commit. False at the end.
    ///
    /// # Errors
    /// As [`Commits::next`].
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.found = None;
        let segments = self.scan.segments();
        while let Some(record) = self.scan.next()? {
            self.last = record.end;
            if record.end <= self.after {
                self.passed = record.end;
            }
            self.time = record.time().or(self.time);
            let chain = match record.kind {
                RecordKind::Chunk => {
                    self.chains.add(&record)?;
                    continue;
                }
                RecordKind::Commit | RecordKind::CommitChunked if record.start < self.after => continue,
                RecordKind::Commit => None,
                RecordKind::CommitChunked if self.looks_back => {
                    Some(self.chains.take_with(&record, |chain, count| {
                        segments.chunks_before(chain, count, record.start)
                    })?)
                }
                RecordKind::CommitChunked => Some(self.chains.take(&record)?),
                RecordKind::Filler | RecordKind::Checkpoint | RecordKind::Time => continue,
            };
            self.found =
                Some(FoundCommit { start: record.start, end: record.end, body: record.body.len(), chain });
            return Ok(true);
        }
        Ok(false)
    }

    /// The commit that it has gone on to.
    pub(crate) fn commit(&self) -> Option<LoggedCommit<'_>> {
        let found = self.found.as_ref()?;
        let source = match &found.chain {
            None => {
                CommitSource::Record(self.scan.held(Lsn(found.start.0 + HEADER_BYTES as u64), found.body))
            }
            Some(chain) => CommitSource::Chunks(chain, self.scan.chunks()),
        };
        Some(LoggedCommit { start: found.start, lsn: found.end, time: self.time, source })
    }

    /// The time in the last time record so far.
    pub(crate) fn time(&self) -> Option<Moment> {
        self.time
    }

    /// Where the last record ends that was passed by, for it ends at or below where commits are wanted; or
    /// where the scan began.
    pub(crate) fn passed(&self) -> Lsn {
        self.passed
    }

    /// Where the last record so far ends, or the scan began.
    pub(crate) fn last(&self) -> Lsn {
        self.last
    }

    /// [`LogScan::make_last`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn make_last(&mut self, end: Lsn) -> Result<()> {
        self.scan.make_last(end)
    }

    /// [`LogScan::end`].
    pub(crate) fn end(&self) -> Option<LogEnd> {
        self.scan.end()
    }
}

impl<'a> LoggedCommit<'a> {
    /// What it changes, from the first operation on.
    pub(crate) fn operations(&self) -> CommitOperations<'a> {
        match self.source {
            CommitSource::Record(body) => {
                CommitOperations::Together(operation::LogOperations::new(body, self.start))
            }
            CommitSource::Chunks(chain, source) => CommitOperations::Chunked(chain.operations(source)),
        }
    }
}

impl CommitOperations<'_> {
    /// The next operation.
    ///
    /// # Errors
    /// `Corruption` when the bytes are none; those of reading chunks.
    pub(crate) fn next(&mut self) -> Result<Option<LogOperation<'_>>> {
        self.next_of(|_| true)
    }

    /// The next operation on a tree that is wanted.
    ///
    /// # Errors
    /// As [`CommitOperations::next`].
    pub(crate) fn next_of(&mut self, wanted: impl Fn(TreeId) -> bool) -> Result<Option<LogOperation<'_>>> {
        match self {
            CommitOperations::Together(operations) => loop {
                match operations.next()? {
                    Some(operation) if !wanted(operation.tree()) => {}
                    next => return Ok(next),
                }
            },
            CommitOperations::Chunked(operations) => operations.next_of(wanted),
        }
    }
}

//! The log: what makes a commit survive.
//!
//! Committers copy a record each into a ring in the region and move `tail` over it; everything else is about
//! getting the ring's bytes to files and saying truthfully how far they got:
//!
//! ```text
//!      durable      written        tail
//!         │            │             │
//!  ───────┴────────────┴─────────────┴────────▶ LSN = byte offset in the log since the
//!  flushed   with the OS   in the ring   free   environment was created
//! ```
//!
//! An LSN's place in the ring is `lsn mod ring length`; in the files, segment `lsn / segment_bytes` at
//! `4096 + lsn mod segment_bytes`. All three lengths are multiples of 4096, so a 4 KiB block of the log is a
//! block of the ring and a block of a file, and can be written from the ring as it is.
//!
//! # One way to write
//!
//! The holder of the flush turn writes, nobody else, and always whole blocks from the one that holds
//! `written`. The last block is padded with zeros in a private copy (nothing beyond the tail reaches a file,
//! and no buffer changes under a write). A block half filled is written again with more in it. The bytes
//! below the old `written` are the same each time, so a torn rewrite cannot hurt them. Two ways out:
//!
//! - *Direct* (O_DIRECT, then fdatasync; or O_DIRECT and O_DSYNC alone, if so configured), for a flush while
//!   nothing of the log is dirty in the page cache.
//! - *Cached* (page cache), for everything else. One shortcut: while the block holding `written` is the one
//!   this process cached last, the new bytes go in by a store through a mapped window, where the file system
//!   lets nobody share the block meanwhile ([decision
//!   24](../../../../docs/decisions/0024-in-each-others-way.md)).
//!
//! The word `cached` says up to where bytes went through the page cache; `cached <= durable` is when direct
//! writes are allowed. So a direct write never meets a dirty page of the same file, which is what the kernel
//! asks of programs that mix the two. And since cached blocks are first written whole, no store through the
//! window ever has to read a page in.
//!
//! # Sketch
//!
//! - Sync, alone: one 4 KiB direct write and one flush, 80-100 us; the log's own part is 1 us (measure.rs).
//!   In a group: the same for all of it, and about 10 us of processor for each committer that sleeps and is
//!   woken.
//! - WriteNoSync, 72-byte records: a compare-and-swap to take the turn, one to give it back, 72 bytes stored;
//!   and every 57th record a 4 KiB cached write and a page fault, 2 us or 35 ns a record. Measured 135-190 ns
//!   on a busy machine, where a write call each takes 1,100.
//! - NoSync: nothing but the copy into the ring, with its checksum 35 ns; megabytes at a time are drained by
//!   somebody else.
//!
//! # Failure
//!
//! A write or flush that fails poisons the log for good: the page cache may have dropped what it could not
//! write, so trying again would lie. What was durable stays acknowledged, nothing else will be. A full disk
//! seldom comes to that: segments are prewritten before a record may get an LSN inside them
//! ([`Log::make_room`]), so it is an error before the commit point.
//!
//! A call that is refused loses nothing: a file that cannot be opened because there are too many, a write for
//! which there is no room after all (a snapshot of the file system shares the segment's blocks), a limit of
//! one process. `written` and `durable` stay, the ring has the bytes, and the next holder of the turn writes
//! them to the same place. The committer is told that its commit is not durable yet. Never so for a flush,
//! whatever its error says: where zeros are filled in, too, and for directories.
//!
//! # Lives
//!
//! After each recovery the log goes on at the start of a segment number never used before. Each such stretch
//! is a *life*; its segments name its first LSN and the LSN at which the life before ended. So torn remains
//! of one life are never taken for records of the next, and a scan crosses from one to the next without
//! guessing. What the new life builds upon is written again first: it may have been in the page cache alone
//! ([decision 23](../../../../docs/decisions/0023-what-recovery-believed.md)).
//!
//! # Readers of the log
//!
//! Others may read the log while it is appended to, up to what is written or durable: from the ring what it
//! still has, else from the files. They sleep on a word beside that position, and the participant that raises
//! it wakes them (tail.rs).
//!
//! # Archive
//!
//! Where a journal is kept, segments that would be used again are renamed into a directory instead
//! (archive.rs). Time records stand between the others (stamp.rs). A scan can go through both, along the
//! lives that lead to the present one.
//!
//! # Stopped processes
//!
//! A process that is stopped in one of the turns keeps nobody waiting for long: another takes over, and what
//! the stopped one does when it goes on is harmless (succession.rs, supply.rs; [decision
//! 24](../../../../docs/decisions/0024-in-each-others-way.md)).
//!
//! What this module does not do: decide when to commit, when to checkpoint, or what a record's operations
//! mean.
//!
//! `unsafe` here: the pointers into the region (this file), the copies in and out of the ring (ring.rs, and
//! its callers), and an instruction that not every processor has (sum.rs).

mod archive;
mod chunk;
mod commits;
mod files;
mod fill;
mod flush;
mod lane;
mod limits;
mod name;
mod operation;
mod reader;
mod record;
mod rescue;
mod ring;
mod scan;
mod segment;
mod stamp;
mod succession;
mod sum;
mod supply;
mod tail;
mod turn;
mod words;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;

pub(crate) use commits::{CommitOperations, Commits, LoggedCommit};
pub(crate) use limits::{BLOCK, SEGMENT_BYTES_MIN};
pub(crate) use operation::{LogOperation, operation_bytes_max, range_bytes_max};
#[cfg(feature = "fuzzing")]
pub(crate) use record::seal_record;
pub(crate) use record::{RECORD_BYTES_MAX, RecordBuilder, RecordKind};
pub(crate) use ring::Ring;
pub(crate) use scan::EndReason;
#[cfg(test)]
pub(crate) use scan::LogEnd;
pub(crate) use segment::Segments;
pub(crate) use supply::Retention;
pub(crate) use tail::{LogTail, Reach};
pub(crate) use turn::Caller;
pub(crate) use words::LogWords;

use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sablecat_os::atomic::{Ordering, fence};
use sablecat_os::disk::Disk;
use sablecat_os::prefetch;

use crate::crypt::Keyring;
use crate::error::{Error, Result};
use crate::types::Lsn;
use files::Files;
use lane::Lane;

/// How a log is kept.
#[derive(Clone, Debug)]
pub(crate) struct LogConfig {
    /// Bytes of log in a segment file: a multiple of 4096. A log that exists keeps the size it was created
    /// with.
    pub(crate) segment_bytes: u64,
    /// The environment's own number; segments of another environment are refused.
    pub(crate) uuid: [u8; 16],
    /// Whether flushes may go around the page cache.
    pub(crate) direct: bool,
    /// Whether writes around the page cache are durable when they return, instead of being flushed.
    pub(crate) sync_io: bool,
    /// How many segments no longer needed are kept for reuse instead of being removed.
    pub(crate) spares_max: usize,
    /// Where segments no longer needed are archived; none: they are not.
    pub(crate) archive: Option<PathBuf>,
    /// What bodies of records are enciphered with; none: they are not.
    pub(crate) keys: Option<Arc<Keyring>>,
    /// How long a living holder of a turn of the log may not get on before another takes over.
    pub(crate) patience: Duration,
}

/// What was done to the files of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogCounts {
    /// Flushes of the device.
    pub(crate) flushes: u64,
    /// Bytes of records, handed to the operating system.
    pub(crate) bytes: u64,
}

/// Where the log's shared state is: words and ring in the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogMemory {
    words: NonNull<LogWords>,
    ring: Ring,
}

impl LogMemory {
    /// The log's memory at these addresses.
    ///
    /// # Safety
    /// `words` points to [`LogWords`] (all bytes zero when created; any state later) that outlive every `Log`
    /// made of this value, and are accessed as `LogWords` only, by all processes. `ring` fulfils
    /// [`Ring::new`] for as long.
    pub(crate) unsafe fn new(words: NonNull<LogWords>, ring: Ring) -> LogMemory {
        LogMemory { words, ring }
    }

    /// Whether the positions are such as they can be while the log is in use, with everything up to `visible`
    /// published.
    ///
    /// # Errors
    /// Invalid, saying what is impossible.
    pub(crate) fn check(&self, visible: Lsn) -> Result<()> {
        // SAFETY: as `new` demands.
        unsafe { self.words.as_ref() }.check_positions(visible, self.ring.len() as u64)
    }

    /// Whether a write or flush has failed in a way that leaves unknown what the files have.
    pub(crate) fn is_poisoned(&self) -> bool {
        // SAFETY: as `new` demands.
        unsafe { self.words.as_ref() }.check().is_err()
    }

    /// What was done to its files since this life of it began.
    pub(crate) fn counts(&self) -> LogCounts {
        // SAFETY: as `new` demands.
        let words = unsafe { self.words.as_ref() };
        let bytes = words.written.0.get().saturating_sub(words.life.0.load(Ordering::Acquire));
        LogCounts { flushes: words.counters.0.flushes.load(Ordering::Relaxed), bytes }
    }

    /// The turns, by name, and the slots of their holders; 0: nobody.
    pub(crate) fn turns(&self) -> [(&'static str, u16); 2] {
        // SAFETY: as `new` demands.
        let words = unsafe { self.words.as_ref() };
        [("log flush", words.flush.owner()), ("log supply", words.supply.owner())]
    }
}

// SAFETY: the words are atomics, and the ring is copied in and out under the rules of ring.rs, whichever
// thread does it.
unsafe impl Send for LogMemory {}
// SAFETY: as above.
unsafe impl Sync for LogMemory {}

/// The log of one environment, as one process uses it.
pub(crate) struct Log {
    memory: LogMemory,
    /// The files; none when the environment lives in memory alone.
    files: Option<Files>,
    /// Whether segments no longer needed are archived, and so the log says when commits were made.
    is_archived: bool,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("words", self.words())
            .field("directory", &self.files.as_ref().map(|files| files.segments.directory()))
            .finish_non_exhaustive()
    }
}

impl Log {
    /// The log in `directory` of `disk` (created if need be), or in memory alone without a disk. Reads at
    /// most one segment's header and touches no words: follow it with [`Log::scan`] and [`Log::start_fresh`],
    /// or use it as it is on a region that is already in use.
    ///
    /// # Errors
    /// `Invalid` for a segment size that is not a multiple of 4096; `Io`; `Corruption` when the newest
    /// segment's header is damaged or is of another environment.
    pub(crate) fn open(
        disk: Option<Arc<dyn Disk>>,
        directory: &Path,
        config: LogConfig,
        memory: LogMemory,
    ) -> Result<Log> {
        let is_archived = disk.is_some() && config.archive.is_some();
        let files = match disk {
            None => None,
            Some(disk) => Some(Files {
                segments: Segments::open(
                    disk,
                    PathBuf::from(directory),
                    config.archive,
                    config.segment_bytes,
                    config.uuid,
                )?
                .with_keys(config.keys),
                spares_max: config.spares_max,
                direct: config.direct,
                sync_io: config.sync_io,
                patience: config.patience,
                in_memory: AtomicBool::new(false),
                lane: Mutex::new(Lane::new(config.sync_io)),
            }),
        };
        Ok(Log { memory, files, is_archived })
    }

    /// Where recovery of an environment that is closed now is to begin: where the log ended, which is in an
    /// earlier life if this one has no commit below `visible`. So a life in which nothing happened leaves no
    /// trace.
    pub(crate) fn closing_position(&self, visible: Lsn) -> Lsn {
        let words = self.words();
        if visible.0 == words.life.0.load(Ordering::Acquire) {
            Lsn(words.continues.load(Ordering::Acquire))
        } else {
            visible
        }
    }

    /// Where this life of the log began.
    pub(crate) fn life(&self) -> Lsn {
        Lsn(self.words().life.0.load(Ordering::Acquire))
    }

    /// Makes sure that this life has a segment. A superblock that is not the last one says that there is one.
    ///
    /// # Errors
    /// As [`Log::prepare_next`].
    pub(crate) fn begin(&self, caller: Caller<'_>) -> Result<()> {
        self.prepare_to(Lsn(self.life().0 + 1), caller)
    }

    #[inline]
    fn words(&self) -> &LogWords {
        // SAFETY: `LogMemory::new` promised that the words outlive the log and are only used as atomics.
        unsafe { self.memory.words.as_ref() }
    }

    /// Whether records are wanted at all. False in memory alone: commits then only move the tail.
    #[inline]
    pub(crate) fn keeps_records(&self) -> bool {
        self.files.is_some()
    }

    /// The longest record that may be appended; what is longer goes in chunks.
    pub(crate) fn record_bytes_max(&self) -> usize {
        (self.memory.ring.len() / 2).min(RECORD_BYTES_MAX)
    }

    /// The end of the last record appended.
    #[inline]
    pub(crate) fn tail(&self) -> Lsn {
        // Acquire: pairs with `advance_tail`; a reader of a tail may read the record bytes below it.
        Lsn(self.words().tail.0.end.load(Ordering::Acquire))
    }

    /// Everything below is with the operating system: a crash of all processes does not lose it.
    #[inline]
    pub(crate) fn written(&self) -> Lsn {
        if self.files.is_none() {
            return self.tail();
        }
        // Acquire, pairing with the Release after the write: a committer that reuses ring space does so after
        // it was read.
        Lsn(self.words().written.0.get())
    }

    /// Everything below is on the disk: a crash of the machine does not lose it.
    #[inline]
    pub(crate) fn durable(&self) -> Lsn {
        if self.files.is_none() {
            return self.tail();
        }
        Lsn(self.words().durable.0.load(Ordering::Acquire))
    }

    /// Enciphers the body of a finished record, if the environment is encrypted. From the ring on it is as in
    /// the files.
    #[inline]
    pub(crate) fn encipher(&self, record: &mut RecordBuilder) {
        if let Some(keys) = self.files.as_ref().and_then(|files| files.segments.keys()) {
            record.encipher(keys);
        }
    }

    /// Copies a sealed record to its place in the ring. The caller holds the commit role, has seen
    /// [`Log::has_room`] under it for all it copies, and passes the tail as `start`, or the end of the last
    /// record copied; it counts once [`Log::advance_tail`] has moved over it.
    #[inline]
    pub(crate) fn copy_record(&self, start: Lsn, record: &[u8]) {
        debug_assert!(start >= self.tail());
        if self.files.is_some() {
            debug_assert!(self.has_room((start.0 - self.tail().0) as usize + record.len()));
            // SAFETY: the commit role makes this the only writer of the ring; `has_room` kept [start, start +
            // len) clear of the block that holds `written` and all after it, which is what flushers read.
            unsafe { self.memory.ring.copy_in(start, record) };
        }
    }

    /// Copies out what the ring has of the log from `from` on, if it has it all still. The caller knows that
    /// it was appended.
    pub(super) fn copy_from_ring(&self, from: Lsn, bytes: &mut [u8]) -> bool {
        // A record, with the time in front, that is being copied in reaches no further beyond the tail.
        let ahead = (self.record_bytes_max() + self.stamp_bytes()) as u64;
        // Acquire, in `tail`: pairs with its store, after which the next record is copied in.
        let is_there = || self.tail().0 + ahead <= from.0 + self.memory.ring.len() as u64;
        let is_of_this_life = from.0 >= self.words().life.0.load(Ordering::Acquire);
        if self.files.is_none() || bytes.len() > self.memory.ring.len() || !is_of_this_life || !is_there() {
            return false;
        }
        // SAFETY: the bytes are taken for nothing if somebody may have written their places meanwhile, and
        // for a record only if its checksum is right.
        unsafe { self.memory.ring.copy_out(from, bytes) };
        // What was copied out was before this look.
        fence(Ordering::Acquire);
        is_there()
    }

    /// The tail is about to be moved.
    #[inline]
    pub(crate) fn foresee_tail(&self) {
        prefetch::write((&raw const self.words().tail).cast());
    }

    /// Starts to bring the place of the next record: its beginning is in the cache of the processor that
    /// copied the last one in.
    #[inline]
    pub(crate) fn foresee_record(&self) {
        self.memory.ring.foresee(self.tail());
    }

    /// Moves the tail: the commit point. The caller holds the commit role and has copied a record to each
    /// byte up to `to`.
    #[inline]
    pub(crate) fn advance_tail(&self, to: Lsn) {
        debug_assert!(to >= self.tail());
        // SeqCst store: Release, pairing with the Acquire of `tail`, and in one order with the commit
        // protocol's other words.
        self.words().tail.0.end.store(to.0, Ordering::SeqCst);
    }

    /// Over which state a transaction changes something, or the last one did.
    pub(crate) fn changed_over(&self) -> Lsn {
        // Acquire: pairs with `change_over`.
        Lsn(self.words().tail.0.over.load(Ordering::Acquire))
    }

    /// A transaction is about to change something over this state. The caller holds the commit role.
    #[inline]
    pub(crate) fn change_over(&self, state: Lsn) {
        self.words().tail.0.over.store(state.0, Ordering::Release);
    }

    /// Whether a record of `len` bytes may be appended at the tail now. Exact while the caller holds the
    /// commit role; otherwise a hint.
    #[inline]
    pub(crate) fn has_room(&self, len: usize) -> bool {
        // Acquire: pairs with the Release in supply.rs; the segment is there before a record is inside it.
        let in_segments = || self.tail().0 + len as u64 <= self.words().prepared.0.load(Ordering::Acquire);
        self.files.is_none() || (self.ring_has_room(len) && in_segments())
    }

    #[inline]
    fn ring_has_room(&self, len: usize) -> bool {
        // The block that holds `written` will be written again from its start, so it stays.
        let kept = self.written().0 & !(BLOCK - 1);
        self.tail().0 + len as u64 <= kept + self.memory.ring.len() as u64
    }

    /// An error once the log is poisoned.
    ///
    /// # Errors
    /// `Poisoned`, naming what did it.
    pub(crate) fn fail_if_poisoned(&self) -> Result<()> {
        self.words().check()
    }

    /// A number for a new chain of chunks, never given before in this environment.
    pub(crate) fn new_chain(&self) -> u64 {
        // Relaxed: only uniqueness matters. Starts at the life's first LSN and grows slower than the tail, so
        // lives cannot collide.
        self.words().chains.0.fetch_add(1, Ordering::Relaxed)
    }

    /// See [`LogMemory::counts`]. In memory alone there is nothing to count.
    pub(crate) fn counts(&self) -> LogCounts {
        if self.files.is_some() { self.memory.counts() } else { LogCounts::default() }
    }

    /// See [`LogMemory::turns`].
    pub(crate) fn turns(&self) -> [(&'static str, u16); 2] {
        self.memory.turns()
    }

    /// Ends what turns the dead participant in a slot has: its successors do the work again.
    pub(crate) fn release_turns_of(&self, slot: u16) {
        self.words().flush.release_for(slot);
        self.words().supply.release_for(slot);
        // It may have died between what it wrote and waking them.
        self.words().wake_followers();
    }

    /// The log's files, to be read.
    ///
    /// # Errors
    /// `Invalid` in memory alone.
    pub(crate) fn segments(&self) -> Result<&Segments> {
        Ok(&self.files()?.segments)
    }

    /// The files, or the mistake of asking a log in memory for them.
    fn files(&self) -> Result<&Files> {
        self.files
            .as_ref()
            .ok_or_else(|| Error::invalid("the environment is kept in memory alone and has no log files"))
    }
}

//! What a process has of the log's files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use sablecat_os::disk::File;

use super::lane::Lane;
use super::segment::Segments;

/// What a log with files needs of the disk.
pub(super) struct Files {
    pub(super) segments: Segments,
    pub(super) spares_max: usize,
    pub(super) direct: bool,
    pub(super) sync_io: bool,
    pub(super) patience: Duration,
    /// They are on a file system in memory, as was found when one was made ready.
    pub(super) in_memory: AtomicBool,
    /// The holder of the flush turn's own things. Never waited for: the turn already excludes everybody.
    pub(super) lane: Mutex<Lane>,
}

/// On a file system in memory so many bytes are made ready, and written, at once: each takes as long whenever
/// that is done, and so nobody waits long for it.
pub(super) const IN_MEMORY_BYTES: u64 = 256 << 10;

impl Files {
    /// So many bytes; no more than `most` if they are on a file system in memory, as far as that was found.
    #[inline]
    pub(super) fn at_most_in_memory(&self, bytes: u64, most: u64) -> u64 {
        // Relaxed: nothing depends on it but how long things take.
        if self.in_memory.load(Ordering::Relaxed) { bytes.min(most) } else { bytes }
    }

    /// One of them is being made ready.
    pub(super) fn note_kind(&self, file: &dyn File) {
        if file.is_ready_preallocated() {
            self.in_memory.store(true, Ordering::Relaxed);
        }
    }

    /// Does the work of the holder of the turn with this process's lane; or with one for this time only,
    /// while a thread of this process that was succeeded, or taken for dead, still has that.
    pub(super) fn with_lane<T>(&self, work: impl FnOnce(&mut Lane) -> T) -> T {
        match self.lane.try_lock() {
            Ok(mut lane) => work(&mut lane),
            Err(TryLockError::Poisoned(poisoned)) => {
                self.lane.clear_poison();
                let mut lane = poisoned.into_inner();
                lane.reset();
                work(&mut lane)
            }
            Err(TryLockError::WouldBlock) => work(&mut Lane::new(self.sync_io)),
        }
    }
}

//! How the file grows: ahead of the blocks, in steps.
//!
//! Extending a file by every block written costs a metadata change each time and scatters it over the disk. So the file is extended by
//! a sixteenth of its size, at least 64 KiB and at most 64 MiB, before a block beyond its end is written: a small database stays small,
//! a large one grows seldom.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use sablecat_os::disk::File;

use crate::error::{Error, Result};

const STEP_MIN: u64 = 64 << 10;
const STEP_MAX: u64 = 64 << 20;
/// File sizes are multiples of this, so that direct reads of the last block need no exception.
const ROUND: u64 = 64 << 10;

/// What a process knows about a file's extent.
#[derive(Debug)]
pub(super) struct Growth {
    /// The file is at least this long, as far as this process knows. Changed under `changing`.
    extent: AtomicU64,
    changing: Mutex<()>,
    /// Held shared by writers, exclusively while the file is cut.
    cutting: RwLock<()>,
}

/// While it lives, the file is not cut.
#[must_use]
#[derive(Debug)]
pub(super) struct Room<'g> {
    _uncut: RwLockReadGuard<'g, ()>,
}

impl Growth {
    /// Starts with a file of `length` bytes.
    pub(super) fn new(length: u64) -> Growth {
        Growth { extent: AtomicU64::new(length), changing: Mutex::new(()), cutting: RwLock::new(()) }
    }

    /// Makes room for bytes below `end`, which stays until they are written and the guard dropped.
    pub(super) fn reach(&self, file: &dyn File, path: &Path, end: u64) -> Result<Room<'_>> {
        let room = Room { _uncut: self.uncut() };
        // Relaxed: a stale value only leads to asking again under the lock.
        if end > self.extent.load(Ordering::Relaxed) {
            self.extend(file, path, end)?;
        }
        Ok(room)
    }

    /// Keeps the file from being cut. Not by sleeping in the lock: who cuts holds it across atomic operations, at which an explorer of
    /// schedules may stop it.
    fn uncut(&self) -> RwLockReadGuard<'_, ()> {
        loop {
            match self.cutting.try_read() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => sablecat_os::atomic::yield_now(),
            }
        }
    }

    fn extend(&self, file: &dyn File, path: &Path, end: u64) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread or process may have extended it.
        let length = length(file, path)?;
        if end <= length {
            self.extent.store(length, Ordering::Relaxed);
            return Ok(());
        }
        let target = end.max(length.saturating_add(step(length))).div_ceil(ROUND) * ROUND;
        let reached = match file.preallocate(length, target - length) {
            Ok(()) => target,
            // No room for the step, but perhaps for the blocks: their write will tell.
            Err(e) if e.kind() == std::io::ErrorKind::StorageFull => end,
            Err(e) => return Err(Error::io("extending", path, e)),
        };
        self.extent.store(reached, Ordering::Relaxed);
        Ok(())
    }

    /// Cuts the file off at the byte that `end` finds, if that gives back more than two steps, or anything when `all` is to go. Writers are kept out from before `end` is
    /// called until the file is cut.
    pub(super) fn cut(&self, file: &dyn File, path: &Path, all: bool, end: impl FnOnce() -> u64) -> Result<()> {
        let _alone = self.cutting.write().unwrap_or_else(PoisonError::into_inner);
        let end = end().div_ceil(ROUND) * ROUND;
        let length = length(file, path)?;
        let kept = if all { 0 } else { 2 * step(end) };
        if length.saturating_sub(end) > kept {
            // Before the call, so that a failure that cut the file all the same does no harm.
            self.extent.store(end, Ordering::Relaxed);
            file.set_len(end).map_err(|e| Error::io("shortening", path, e))?;
        }
        Ok(())
    }
}

fn length(file: &dyn File, path: &Path) -> Result<u64> {
    file.len().map_err(|e| Error::io("finding the size of", path, e))
}

fn step(length: u64) -> u64 {
    (length / 16).clamp(STEP_MIN, STEP_MAX)
}

//! How the file grows: ahead of the blocks, in steps.
//!
//! Extending a file by every block written costs a metadata change each time and scatters it over the disk.
//! So the file is extended by a sixteenth of its size, at least 64 KiB and at most 64 MiB, before a block
//! beyond its end is written: a small database stays small, a large one grows seldom.
//!
//! A file that is left has a *reserve* behind its last block, of a step and at most 1 MiB: so whoever opens
//! it when the disk is full can delete something, write that to free blocks, and give back the rest. A part
//! of the reserve is cut off if the log has no room otherwise.
//!
//! Where pages are compressed a file has holes, and grows by some: by as much, of which only so much at the
//! end as is kept for a reserve is space. Making a hole where there is none yet takes ten times as long as
//! to find that there is one.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use sablecat_os::disk::File;

use crate::error::{Error, Result, is_full};

const STEP_MIN: u64 = 64 << 10;
const STEP_MAX: u64 = 64 << 20;
/// File sizes are multiples of this, so that direct reads of the last block need no exception; but for a file
/// that gave up some of its reserve.
const ROUND: u64 = 64 << 10;
/// Bytes of a closed file behind its last block, at most.
const RESERVE_MAX: u64 = 1 << 20;
/// How much of the end of a file is made where there is no room for more.
const ENDING: u64 = 4096;
/// What the log gets of it at most.
const GIVEN_UP_MAX: u64 = 64 << 10;

/// How much of a file's free end stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tail {
    /// What it grows by in two steps, so that it is not cut and made longer all the time.
    Steps,
    /// The reserve, as far as it is there.
    Little,
    /// The reserve, which is made if there is room for it: the file is about to be left.
    Reserve,
    /// Half of it, or more: somebody needs the room.
    Half,
}

/// What a file is made longer by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// Space of the file system, so that writing to it needs none.
    Space,
    /// Holes, since most of it would be given back again, and that takes longer; but for a reserve at the
    /// end.
    Holes,
}

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

    /// Makes room for bytes below `end`, which stays until they are written and the guard dropped. Where
    /// there is none their write will tell. In a file with holes that is so in any case, and it is made
    /// longer by the time this returns, since of its last block not all may be written.
    pub(super) fn reach(&self, file: &dyn File, path: &Path, end: u64, by: By) -> Result<Room<'_>> {
        let room = Room { _uncut: self.uncut() };
        // Relaxed: a stale value only leads to asking again under the lock.
        if end > self.extent.load(Ordering::Relaxed) {
            self.extend(file, path, end, by)?;
        }
        Ok(room)
    }

    /// Keeps the file from being cut. Not by sleeping in the lock: who cuts holds it across atomic
    /// operations, at which an explorer of schedules may stop it.
    fn uncut(&self) -> RwLockReadGuard<'_, ()> {
        loop {
            match self.cutting.try_read() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => sablecat_os::atomic::yield_now(),
            }
        }
    }

    fn extend(&self, file: &dyn File, path: &Path, end: u64, by: By) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread or process may have extended it.
        let length = length(file, path)?;
        if end <= length {
            self.extent.store(length, Ordering::Relaxed);
            return Ok(());
        }
        let target = end.max(length.saturating_add(step(length))).div_ceil(ROUND) * ROUND;
        // Of which as much is made of space.
        let made = match by {
            By::Space => target - length,
            By::Holes => reserve(target).min(target - length),
        };
        let reached = match (file.preallocate(target - made, made), by) {
            (Ok(()), _) => target,
            // No room for the step, but perhaps for the blocks: their write will tell.
            (Err(e), By::Space) if is_full(&e) => end,
            (Err(e), By::Holes) if is_full(&e) => {
                let made = ENDING.min(end - length);
                file.preallocate(end - made, made).map_err(|e| Error::io("extending", path, e))?;
                end
            }
            (Err(e), _) => return Err(Error::io("extending", path, e)),
        };
        self.extent.store(reached, Ordering::Relaxed);
        Ok(())
    }

    /// Cuts the file off behind the byte that `end` finds, at a whole block, and leaves what is to be kept.
    /// Writers are kept out from before `end` is called until the file is cut. If there may be holes in
    /// what is left as a reserve, they are filled.
    pub(super) fn cut(
        &self,
        (file, path): (&dyn File, &Path),
        (tail, may_have_holes): (Tail, bool),
        block: u64,
        end: impl FnOnce() -> u64,
    ) -> Result<()> {
        let _alone = self.cutting.write().unwrap_or_else(PoisonError::into_inner);
        let used = end();
        let length = length(file, path)?;
        let (end, beyond) = match tail {
            Tail::Steps => (used.next_multiple_of(ROUND), 2 * step(used)),
            Tail::Little | Tail::Reserve => ((used + reserve(used)).next_multiple_of(ROUND), 0),
            Tail::Half => {
                ((length - (length.saturating_sub(used) / 2).min(GIVEN_UP_MAX)).next_multiple_of(block), 0)
            }
        };
        if may_have_holes && tail == Tail::Reserve && length < end {
            // As below.
            if fill_holes(file, used, end) {
                self.extent.store(end, Ordering::Relaxed);
            }
            return Ok(());
        }
        if length < end && tail == Tail::Reserve {
            // Best effort: without room for it the environment is as good as ever until the disk is full.
            if file.preallocate(length, end - length).is_ok() {
                self.extent.store(end, Ordering::Relaxed);
            }
        } else if length.saturating_sub(end) > beyond {
            // Before the call, so that a failure that cut the file all the same does no harm.
            self.extent.store(end, Ordering::Relaxed);
            file.set_len(end).map_err(|e| Error::io("shortening", path, e))?;
        }
        if may_have_holes && matches!(tail, Tail::Little | Tail::Reserve) && used < end.min(length) {
            _ = fill_holes(file, used, end.min(length));
        }
        Ok(())
    }
}

/// Has as much of a range be made of space as there is room for, from its end on: that is where it is given
/// up again. Best effort, as with any reserve: whether there was room for any of it.
fn fill_holes(file: &dyn File, from: u64, to: u64) -> bool {
    let (end, mut to, mut piece) = (to, to, to.saturating_sub(from));
    while from < to {
        let some = piece.min(to - from);
        match file.preallocate(to - some, some) {
            Ok(()) => to -= some,
            Err(error) if is_full(&error) && piece > ENDING => {
                piece = (piece / 2).next_multiple_of(ENDING).min(GIVEN_UP_MAX);
            }
            Err(_) => break,
        }
    }
    to < end
}

fn length(file: &dyn File, path: &Path) -> Result<u64> {
    file.len().map_err(|e| Error::io("finding the size of", path, e))
}

/// Bytes behind the last block of a closed file.
fn reserve(end: u64) -> u64 {
    step(end).min(RESERVE_MAX)
}

fn step(length: u64) -> u64 {
    (length / 16).clamp(STEP_MIN, STEP_MAX)
}

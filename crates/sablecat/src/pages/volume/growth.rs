//! How the file grows: ahead of the blocks, in steps.
//!
//! Extending a file by every block written costs a metadata change each time and scatters it over the disk.
//! So the file is extended by a sixteenth of its size, at least 64 KiB and at most 64 MiB, before a block
//! beyond its end is written: a small database stays small, a large one grows seldom.
//!
//! A file that is left has a *reserve* behind its last block, of a step, or of as many blocks as a checkpoint
//! of a few changes writes, and at most 1 MiB: so a process that opens it when the disk is full can delete
//! something, write that to free blocks, and give back the rest. A part of the reserve is cut off if the log
//! has no room otherwise.
//!
//! Blocks that are free when a file is left become holes, all but some ([`Leaving`](super::Leaving)).
//!
//! Where pages are compressed a file has holes, and grows by some: by as much, of which only so much at the
//! end as is kept for a reserve is space. Making a hole where there is none yet takes ten times as long as
//! to find that there is one.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use sablecat_os::disk::{DIRECT_ALIGNMENT, File};

use crate::error::{Error, Result, is_full};

const STEP_MIN: u64 = 64 << 10;
const STEP_MAX: u64 = 64 << 20;
/// File sizes are multiples of this, so that direct reads of the last block need no exception; but for a file
/// that gave up some of its reserve.
const ROUND: u64 = 64 << 10;
/// Bytes of a closed file behind its last block, at most.
const RESERVE_MAX: u64 = 1 << 20;
/// Blocks of a reserve at least: two records' leaves with what leads to them, the map's blocks, and as many
/// again for a process that cannot use those that a checkpoint before has freed.
const RESERVE_BLOCKS: u64 = 12;
/// How much of the end of a file is made where there is no room for more.
const ENDING: u64 = 4096;
/// What the log gets of it at most.
const GIVEN_UP_MAX: u64 = 64 << 10;

/// How much of a file's free end stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FreeEnd {
    /// What it grows by in two steps, and the reserve, so that it is not cut and made longer all the time.
    Steps,
    /// The reserve, as far as it is there.
    Little,
    /// The reserve, which is made if there is room for it: the file is about to be left.
    Reserve,
    /// Half of it, or more: the log needs the room.
    Half,
    /// All but a block: some other block needs the room.
    Block,
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
    /// Bytes of a block.
    block: u64,
}

/// Whether a file has the reserve that it is to be left with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Reserve {
    /// It has, or none was asked for.
    There,
    /// There is no space for all of it, as far as could be told.
    Short,
}

/// While it lives, the file is not cut.
#[must_use]
#[derive(Debug)]
pub(super) struct RoomGuard<'g> {
    _uncut: RwLockReadGuard<'g, ()>,
}

impl Growth {
    /// Starts with a file of `length` bytes, and blocks of `block`.
    pub(super) fn new(length: u64, block: u64) -> Growth {
        let (extent, changing, cutting) = (AtomicU64::new(length), Mutex::new(()), RwLock::new(()));
        Growth { extent, changing, cutting, block }
    }

    /// Bytes behind the last block of a closed file that ends at `end`.
    pub(super) fn reserve(&self, end: u64) -> u64 {
        step(end).max(RESERVE_BLOCKS * self.block).min(RESERVE_MAX)
    }

    /// Makes room for bytes below `end`, which stays until they are written and the guard dropped. Where
    /// there is none their write will tell. In a file with holes that is so in any case, and it is made
    /// longer by the time this returns, since of its last block not all may be written.
    pub(super) fn reach(&self, file: &dyn File, path: &Path, end: u64, by: By) -> Result<RoomGuard<'_>> {
        let room = RoomGuard { _uncut: self.uncut() };
        // Relaxed: a stale value only leads to asking again under the lock.
        if end > self.extent.load(Ordering::Relaxed) {
            self.extend(file, path, end, by)?;
        }
        Ok(room)
    }

    /// Keeps the file from being cut. Not by sleeping in the lock: a thread that cuts holds it across atomic
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
            By::Holes => self.reserve(target).min(target - length),
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
        (tail, may_have_holes): (FreeEnd, bool),
        end: impl FnOnce() -> u64,
    ) -> Result<Reserve> {
        let _alone = self.cutting.write().unwrap_or_else(PoisonError::into_inner);
        let used = end();
        let length = length(file, path)?;
        let block = self.block.max(DIRECT_ALIGNMENT as u64);
        let reserved = (used + self.reserve(used)).next_multiple_of(ROUND);
        let (end, beyond) = match tail {
            FreeEnd::Steps => (reserved, (2 * step(used)).saturating_sub(self.reserve(used))),
            FreeEnd::Little | FreeEnd::Reserve => (reserved, 0),
            FreeEnd::Half => {
                let given_up = (length.saturating_sub(used) / 2).min(GIVEN_UP_MAX);
                ((length - given_up).next_multiple_of(block), 0)
            }
            FreeEnd::Block => (length.saturating_sub(block).max(used).next_multiple_of(block), 0),
        };
        let mut reserve = Reserve::There;
        if may_have_holes && tail == FreeEnd::Reserve && length < end {
            // As below.
            let filled = fill_holes(file, used, end);
            if filled.is_some() {
                self.extent.store(end, Ordering::Relaxed);
            }
            return Ok(if filled == Some(end - used) { Reserve::There } else { Reserve::Short });
        }
        if length < end && tail == FreeEnd::Reserve {
            // Best effort: without room for it the environment is as good as ever until the disk is full.
            let made = make_space(file, length, end, block);
            self.extent.store(length + made, Ordering::Relaxed);
            if made < end - length {
                reserve = Reserve::Short;
            }
        } else if length.saturating_sub(end) > beyond {
            // Before the call, so that a failure that cut the file all the same does no harm.
            self.extent.store(end, Ordering::Relaxed);
            file.set_len(end).map_err(|e| Error::io("shortening", path, e))?;
        }
        if may_have_holes && matches!(tail, FreeEnd::Little | FreeEnd::Reserve) && used < end.min(length) {
            let end = end.min(length);
            if fill_holes(file, used, end) != Some(end - used) {
                reserve = Reserve::Short;
            }
        }
        Ok(reserve)
    }
}

/// Has as much of a range be made of space as there is room for, from its end on: that is where it is given
/// up again. Best effort, as with any reserve: how much of it there was room for, if any.
pub(super) fn fill_holes(file: &dyn File, from: u64, to: u64) -> Option<u64> {
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
    (to < end).then_some(end - to)
}

/// Makes a file longer by as many blocks of space as there is room for: by how much. Best effort: any other
/// error ends it.
fn make_space(file: &dyn File, from: u64, to: u64, block: u64) -> u64 {
    let (mut made, mut piece) = (0, to - from);
    while made < to - from {
        let some = piece.min(to - from - made);
        match file.preallocate(from + made, some) {
            Ok(()) => made += some,
            Err(error) if is_full(&error) && piece > block => piece = (piece / 2).next_multiple_of(block),
            Err(_) => break,
        }
    }
    made
}

fn length(file: &dyn File, path: &Path) -> Result<u64> {
    file.len().map_err(|e| Error::io("finding the size of", path, e))
}

fn step(length: u64) -> u64 {
    (length / 16).clamp(STEP_MIN, STEP_MAX)
}

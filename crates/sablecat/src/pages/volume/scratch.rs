//! Aligned memory in which blocks are sealed on their way to the file.
//!
//! Published pages are shared and immutable, so a checksum cannot be put into them; they are copied first.
//! Each thread keeps one buffer for that, large enough for the longest write, and lends it to one writer at a
//! time.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use sablecat_os::disk::AlignedBuf;

/// The longest write, in bytes: four of the largest pages.
pub(super) const SCRATCH_BYTES: usize = 256 << 10;

thread_local! {
    static IDLE: Cell<Option<AlignedBuf>> = const { Cell::new(None) };
}

/// A borrowed buffer of [`SCRATCH_BYTES`] with old content; given back to the thread when dropped.
#[derive(Debug)]
pub(super) struct Scratch(Option<AlignedBuf>);

impl Scratch {
    /// This thread's buffer, or a new one if it is lent already.
    pub(super) fn take() -> Scratch {
        // A thread that is ending has no thread-local buffer any more, and allocates.
        let idle = IDLE.try_with(Cell::take).ok().flatten();
        Scratch(Some(idle.unwrap_or_else(|| AlignedBuf::new(SCRATCH_BYTES))))
    }
}

impl Deref for Scratch {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().expect("held until dropped")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = self.0.take();
        let _ = IDLE.try_with(|idle| idle.set(buffer));
    }
}

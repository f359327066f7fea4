//! The store: what brings versions from frames to blocks, and makes them the state that a crash leaves.
//!
//! A `checkpoint` writes all that has changed, and names it in the next generation of the volume; meanwhile
//! it may move other pages (`relocate`). Long values go to blocks at once (`run`). A process that only reads
//! follows the generations (`follow`). The last checkpoint may be copied as a whole (`image`). What the dead
//! had in hand is found by what nothing names (`lost`), what no tree reaches among the pages that have not
//! changed since the last checkpoint (`settled`).

mod capture;
mod checkpoint;
mod follow;
mod image;
mod keys;
pub(in crate::pages) mod lost;
pub(in crate::pages) mod relocate;
pub(in crate::pages) mod run;
pub(in crate::pages) mod settled;

use std::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use crate::pages::visibility::Visibility;

/// What brings versions to the volume.
#[derive(Debug)]
pub(crate) struct Store {
    visibility: Visibility,
    /// Where the search for blocks to move goes on: a page id, 0 when it begins anew.
    moved_below: AtomicU64,
    /// The same of what is enciphered with older keys.
    anew_below: AtomicU64,
    /// Blocks that pages were moved from and that old versions may name. Touched by the checkpointer only.
    kept_back: Mutex<relocate::KeptBack>,
    /// Before a page is latched to be told where it was moved, and before it is told.
    #[cfg(test)]
    pub(crate) telling: crate::pages::volume::tests::interrupted::Countdown,
}

impl Store {
    pub(in crate::pages) fn new(visibility: Visibility) -> Store {
        Store {
            visibility,
            moved_below: AtomicU64::new(0),
            anew_below: AtomicU64::new(0),
            kept_back: Mutex::default(),
            #[cfg(test)]
            telling: Default::default(),
        }
    }
}

impl Deref for Store {
    type Target = Visibility;

    #[inline(always)]
    fn deref(&self) -> &Visibility {
        &self.visibility
    }
}

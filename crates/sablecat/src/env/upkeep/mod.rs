//! Upkeep: what keeps the files fit. Checkpoints and compaction (`checkpoint`), what is kept so that the
//! environment can go back (`journal`), images of one that is held in memory (`image`), and whether
//! everything is as it should be (`verify`).

mod checkpoint;
mod image;
mod journal;
mod verify;

pub use checkpoint::{CheckpointReport, CompactReport};
pub use image::ImageReport;
pub use verify::{Progress, VerifyReport};

use std::ops::Deref;
use std::sync::atomic::AtomicBool;

use crate::env::running::Running;
use crate::pages::volume::{Journal, Superblock};

/// What keeps the files fit.
#[derive(Debug)]
pub(crate) struct Upkeep {
    running: Running,
    /// What is kept so that the environment can go back.
    journal: Option<Journal>,
    /// Whether the last checkpoint of this process left blocks to be moved.
    moving: AtomicBool,
}

impl Upkeep {
    pub(in crate::env) fn new(running: Running, journal: Option<Journal>) -> Upkeep {
        Upkeep { running, journal, moving: AtomicBool::new(false) }
    }

    /// Whether a superblock says of the journal what the next one will.
    pub(in crate::env) fn is_journal_of(&self, superblock: &Superblock) -> bool {
        self.journal == superblock.journal
    }
}

impl Deref for Upkeep {
    type Target = Running;

    #[inline(always)]
    fn deref(&self) -> &Running {
        &self.running
    }
}

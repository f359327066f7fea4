//! The pool: frames, and which page versions they hold.
//!
//! ```text
//!             page_in: read from a block                     sweep: evicted, its block has it
//!   (disk) ─────────────────────────▶ a page's current version ──────────────────▶ free frame
//!                                        │ superseded by a commit                      ▲
//!                                        ▼                                             │
//!                                     an older version ── frames, sweep: nobody sees it
//! ```
//!
//! Whoever needs a frame takes one that is free, or sweeps for one; `clean` writes what is cold before that,
//! so that a sweep need not (`writing`). A page is changed (`building`, by the `new_versions` of a commit) or
//! read in under its `latch`; its versions are a `chain`. Of a long value, only the first page is a page like
//! others (`rest`). Who has the environment to itself changes pages in place (`alone`). What the dead leave
//! half done in all this `mend` ends.

mod alone;
mod building;
mod chain;
mod clean;
pub(in crate::pages) mod frames;
mod last_frames;
pub(in crate::pages) mod latch;
mod mend;
mod new_versions;
mod page_in;
pub(in crate::pages) mod rest;
pub(in crate::pages) mod sweep;
pub(in crate::pages) mod writing;

pub(crate) use new_versions::{NewVersions, PageMap};
pub(crate) use page_in::PageCheck;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::pages::bell::Bell;
use crate::pages::generation::Generations;

/// The frames of the region, and the versions in them.
#[derive(Debug)]
pub(crate) struct Pool {
    generations: Generations,
    check: PageCheck,
    freed_runs: rest::FreedRuns,
    last_frames: last_frames::LastFrames,
    /// A block found no space in a file with holes.
    is_short: AtomicBool,
    /// Rung when dirty frames are in the way of sweeps.
    pub(crate) cleaner: Arc<Bell>,
}

impl Pool {
    pub(in crate::pages) fn new(generations: Generations, check: PageCheck) -> Pool {
        let last_frames = last_frames::LastFrames::of(&generations.region, generations.volume.is_some());
        Pool {
            generations,
            check,
            freed_runs: rest::FreedRuns::default(),
            last_frames,
            is_short: AtomicBool::new(false),
            cleaner: Arc::default(),
        }
    }
}

impl Deref for Pool {
    type Target = Generations;

    #[inline(always)]
    fn deref(&self) -> &Generations {
        &self.generations
    }
}

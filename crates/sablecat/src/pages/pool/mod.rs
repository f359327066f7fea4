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
//! A participant that needs a frame takes one that is free, or sweeps for one; `clean` writes what is cold
//! before that, so that a sweep need not (`writing`), and has memory found for `fresh` frames. A page is
//! changed (`building`, by the `new_versions` of a commit) or read in (`page_in`, or `ahead` of a reader that
//! will come to it) under its `latch`; its versions are a `chain`, and `old_versions` of it end. Of a long
//! value, only the first page is a page like others (`rest`). A participant that has the environment to
//! itself changes pages in place (`alone`). What the dead leave half done in all this `mend` ends.

pub(crate) mod ahead;
mod alone;
mod building;
mod chain;
mod clean;
pub(in crate::pages) mod frames;
mod freed;
mod fresh;
mod last_frames;
pub(in crate::pages) mod latch;
mod mend;
mod new_versions;
mod old_versions;
mod page_in;
pub(in crate::pages) mod rest;
pub(in crate::pages) mod sweep;
mod together;
pub(in crate::pages) mod writing;

pub(crate) use new_versions::{NewVersions, PageMap};

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ahead::ReadAhead;

use crate::pages::bell::Bell;
use crate::pages::generation::Generations;

/// What is to be known here of the pages of the access methods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageKinds {
    /// Tells whether bytes read from disk form a page that the access methods can work on without looking
    /// back.
    pub(crate) check: fn(&[u8]) -> std::result::Result<(), String>,
    /// The bytes of a page that passed the check which mean nothing: its *gap*. No version hands them to the
    /// next one, so in a frame there may be anything, of other pages too; in a block there are zeros.
    pub(crate) gap: fn(&[u8]) -> Range<usize>,
}

impl PageKinds {
    /// The gap of a page; of bytes that are none, whatever is within them.
    #[inline]
    pub(in crate::pages) fn gap_in(self, page: &[u8]) -> Range<usize> {
        let gap = (self.gap)(page);
        if gap.start <= gap.end && gap.end <= page.len() { gap } else { 0..0 }
    }
}

/// The frames of the region, and the versions in them.
#[derive(Debug)]
pub(crate) struct Pool {
    generations: Generations,
    kinds: PageKinds,
    freed_runs: rest::FreedRuns,
    last_frames: last_frames::LastFrames,
    /// A block found no space in a file with holes.
    is_short: AtomicBool,
    /// Rung when dirty frames are in the way of sweeps.
    pub(crate) cleaner: Arc<Bell>,
    /// What is to be written together.
    made: together::MadeLots,
    /// What is to be read before it is needed.
    pub(crate) ahead: ReadAhead,
}

impl Pool {
    pub(in crate::pages) fn new(generations: Generations, kinds: PageKinds) -> Pool {
        let last_frames = last_frames::LastFrames::of(&generations.region, generations.volume.is_some());
        Pool {
            generations,
            kinds,
            freed_runs: rest::FreedRuns::default(),
            last_frames,
            is_short: AtomicBool::new(false),
            cleaner: Arc::default(),
            made: together::MadeLots::default(),
            ahead: ReadAhead::default(),
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

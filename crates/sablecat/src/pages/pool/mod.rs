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
//! so that a sweep need not. A page is changed or read in under its `latch`. What the dead leave half done in
//! all this `mend` ends.

mod clean;
pub(in crate::pages) mod frames;
pub(in crate::pages) mod last_frames;
pub(in crate::pages) mod latch;
mod mend;
mod page_in;
pub(in crate::pages) mod sweep;

//! Whether a page has changed, asked of many without reading any.
//!
//! Of a page in memory its version says when it was born. Of one that is not, the bits of pages that changed since a checkpoint looked at them say that it
//! did not change after the last checkpoint's snapshot, if it has none: a commit sets a page's bit before it is visible, and a checkpoint whose snapshot
//! is older than a change gives the bit back.

use sablecat_os::atomic::Ordering;

use super::Pages;
use crate::region::Work;
use crate::types::{FrameId, Lsn, PageId};

impl Pages {
    /// Whether the version of the page that was valid at `since`, which somebody has seen, is so still: of every later one that is visible when this is called
    /// it is known. False if it cannot be told.
    pub(crate) fn is_unchanged_since(&self, page: PageId, since: Lsn) -> bool {
        let region = &self.region;
        let entry = region.entry(page);
        let frame = entry.word().frame();
        if frame != FrameId::NONE {
            // Looked at twice: no operation keeps the frame from being evicted and used again in between.
            return region.born(frame).load(Ordering::Acquire) <= since.0 && entry.word().frame() == frame;
        }
        // No checkpoint runs meanwhile, so no bit is on its way from one word to the other, or back.
        let role = region.role(Work::Checkpoint);
        let seen = role.look();
        seen.owner() == 0
            && region.header().checkpointed.load(Ordering::Acquire) <= since.0
            && !self.is_unsaved(page)
            && role.look() == seen
    }
}

//! Whether a page has changed, asked of many without reading any.
//!
//! Of a page in memory its version says when it was born. Of one that is not, the bits of pages that changed
//! since a checkpoint looked at them say that it did not change after the last checkpoint's snapshot, if it
//! has none: a commit sets a page's bit before it is visible, and a checkpoint whose snapshot is older than a
//! change gives the bit back.
//!
//! *The frame may be another page's by then.* No operation keeps it: one for all leaves of a large
//! transaction would hold up participants that look for frames, and one for each costs a fence. A page that
//! has changed stays where it is as long as the snapshot is pinned, for the sake of the version before; but a
//! snapshot may be given up while it is validated. So the entry is looked at again; and as the frame may have
//! been used for another page and for this one again in between, the count of epochs is looked at too. A
//! participant that asks has pinned some state, so a version that is current when it is looked at leaves its
//! frame by being *retired* alone, at an epoch that is read after the page's entry has lost it; and the frame
//! is used again only when an epoch has begun since (`horizon.rs`, `oldest_epoch`). If none has begun between
//! the first look and the last, it was not used again.
//!
//! Costs: two cache misses, the entry and the birth; the count of epochs lies on a line that only sweeps
//! write to, and committers beside a snapshot that lasts, once in some dozens of versions.

use sablecat_os::atomic::Ordering;

use super::Visibility;
use crate::region::Work;
use crate::types::{FrameId, Lsn, PageId};

/// How often it looks, as long as others begin epochs meanwhile. Each of them passes over some dozens of
/// frames, or has superseded as many, which takes longer than a look.
const LOOKS: u32 = 4;

impl Visibility {
    /// Whether the version of the page that was valid at `since`, which somebody has seen, is so still: of
    /// every later one that is visible when this is called it is known. False if it cannot be told. The
    /// caller has pinned a state.
    pub(crate) fn is_unchanged_since(&self, page: PageId, since: Lsn) -> bool {
        self.is_unchanged_beside(page, since, || ())
    }

    /// As [`Visibility::is_unchanged_since`]; `others` runs between any two looks at a page in memory.
    #[inline]
    pub(crate) fn is_unchanged_beside(&self, page: PageId, since: Lsn, mut others: impl FnMut()) -> bool {
        let region = &self.region;
        let (entry, epoch) = (region.entry(page), &region.header().epoch.0);
        for _ in 0..LOOKS {
            // Sequentially consistent, this look and the next, as are the change of the entry and the look at
            // the epoch in the participant that takes the frame away: it finds this epoch, or a later one.
            let began = epoch.load(Ordering::SeqCst);
            others();
            let frame = entry.word_in_order().frame();
            if frame == FrameId::NONE {
                return self.is_unchanged_on_disk(page, since);
            }
            others();
            let born = region.born(frame).load(Ordering::Acquire);
            others();
            let is_still = entry.word().frame() == frame;
            others();
            // Behind the looks above, which acquire: a participant that has met a version that was built
            // there in a later epoch finds that.
            if epoch.load(Ordering::Acquire) == began {
                return is_still && born <= since.0;
            }
        }
        false
    }

    /// The same of a page that is not in memory.
    fn is_unchanged_on_disk(&self, page: PageId, since: Lsn) -> bool {
        // No checkpoint runs meanwhile, so no bit is on its way from one word to the other, or back.
        let role = self.region.role(Work::Checkpoint);
        let seen = role.look();
        seen.owner() == 0
            && self.region.header().checkpointed.load(Ordering::Acquire) <= since.0
            && !self.is_unsaved(page)
            && role.look() == seen
    }
}

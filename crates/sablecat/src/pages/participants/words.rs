//! What the region says of the state that all participants work in, asked for by what it means.

use std::sync::Arc;

use sablecat_os::atomic::{AtomicU64, Ordering};

use super::Participants;
use crate::error::Result;
use crate::region::{MemberIncarnation, Rebuilds, RecentPages, Region, Role, Slot, Work};
use crate::types::{Lsn, TreeId};

impl Participants {
    /// The region itself: for code that makes it, enters and leaves it, looks at all of it, or mends what the
    /// dead left in it.
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The newest published commit: what a participant that pins now sees.
    #[inline]
    pub(crate) fn newest(&self) -> Lsn {
        self.region.header().visible()
    }

    /// Whether this process was taken for dead.
    #[inline]
    pub(crate) fn is_fenced(&self) -> bool {
        self.region.is_fenced()
    }

    /// An error if this process was taken for dead.
    ///
    /// # Errors
    /// `Poisoned`.
    #[inline]
    pub(crate) fn check_fence(&self) -> Result<()> {
        self.region.check_fence()
    }

    /// Does something, of which nothing counts, whatever it came to, once memory is found to be cut short.
    ///
    /// # Errors
    /// Those of `work`; `Poisoned` in that case.
    #[inline(always)]
    pub(crate) fn unless_cut_short<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.region.unless_cut_short(work)
    }

    /// Something is waited for that may be in the hands of a dead participant.
    pub(crate) fn stall(&self) {
        self.region.stall();
    }

    /// Bytes of a page.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.region.page_size()
    }

    /// Bytes of a block, and of a frame.
    pub(crate) fn block_size(&self) -> usize {
        self.region.geometry().block_size
    }

    /// Frames that the cache has when it has all its memory.
    #[inline]
    pub(crate) fn frames_max(&self) -> usize {
        self.region.geometry().frames
    }

    /// Volumes that there are.
    pub(crate) fn volume_count(&self) -> usize {
        self.region.geometry().volumes
    }

    /// What one participant does for all.
    #[inline]
    pub(crate) fn role(&self, work: Work) -> Role<'_> {
        self.region.role(work)
    }

    /// What is written down of this process, for others to see later whether it is still there.
    pub(crate) fn standing(&self) -> MemberIncarnation {
        self.region.standing()
    }

    /// Whether a process that this was written down of is still there.
    pub(crate) fn stands(&self, standing: MemberIncarnation) -> bool {
        self.region.stands(standing)
    }

    /// A tree id that nobody has.
    pub(crate) fn new_tree_id(&self) -> TreeId {
        TreeId(self.region.header().tree_next.0.fetch_add(1, Ordering::AcqRel))
    }

    /// A tree of this id is there: from now on others get others.
    pub(crate) fn note_tree_id(&self, id: TreeId) {
        self.region.header().tree_next.0.fetch_max(id.0 + 1, Ordering::AcqRel);
    }

    /// States at or above this come after the last time that trees were built anew (txn/commit/rebuilt.rs).
    #[inline]
    pub(crate) fn rebuilt_since(&self) -> Lsn {
        self.region.header().rebuilt_since()
    }

    /// Leaves found at states at or above this are leaves of their trees still, or freed
    /// (txn/commit/rebuilt.rs).
    #[inline]
    pub(crate) fn leaves_since(&self) -> Lsn {
        self.region.header().leaves_since()
    }

    /// The trees that are, or were, built anew (txn/commit/rebuilt.rs).
    #[inline]
    pub(crate) fn rebuilds(&self) -> &Rebuilds {
        &self.region.header().visible.1
    }

    /// From which state on no name was taken from a database, as a word to be raised
    /// (txn/catalog/presence.rs).
    #[inline]
    pub(crate) fn names_since(&self) -> &AtomicU64 {
        &self.region.header().names_since
    }

    /// What commits have published of late (txn/commit/recent.rs).
    #[inline]
    pub(crate) fn recent(&self) -> &RecentPages {
        &self.region.header().recent
    }

    /// The LSN of the last checkpoint.
    pub(crate) fn checkpointed(&self) -> Lsn {
        Lsn(self.region.header().checkpointed.load(Ordering::Acquire))
    }

    /// Says from where on this process reads the log (none: nowhere), and that it wants no more of it than
    /// `lag_max` bytes.
    ///
    /// # Errors
    /// `Poisoned` if this process was taken for dead.
    pub(crate) fn want_log(&self, from: Option<Lsn>, lag_max: u64) -> Result<()> {
        self.region.want_log(from, lag_max)
    }

    /// From where on processes want the log that ends at `tail`.
    pub(crate) fn log_wanted(&self, tail: Lsn) -> Option<Lsn> {
        self.region.log_wanted(tail)
    }

    /// A bulk load begins: a participant that looks for pages that nothing leads to begins anew
    /// (txn/mending/unreachable.rs).
    pub(crate) fn count_load(&self) {
        self.region.header().loads_begun.fetch_add(1, Ordering::SeqCst);
    }

    /// How many bulk loads have begun.
    pub(crate) fn loads_begun(&self) -> u64 {
        self.region.header().loads_begun.load(Ordering::SeqCst)
    }

    /// Whether any participant is loading in bulk.
    pub(crate) fn anybody_loads(&self) -> bool {
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).any(|n| self.region.slot(n).loads())
    }

    /// The slot of a participant, of this process or another.
    #[inline]
    pub(crate) fn slot(&self, number: u16) -> &Slot {
        self.region.slot(number)
    }

    /// What a participant calls itself, for messages: that of its process, and its number.
    pub(crate) fn name_of(&self, slot: u16) -> String {
        self.region.slot(slot).called(slot)
    }
}

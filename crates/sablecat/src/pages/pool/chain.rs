//! Chains: the versions of a page, newest first, each in front of the one that it superseded.

use sablecat_os::atomic::Ordering;

use super::Pool;
use crate::pages::participants::{LocalParticipant, Superseded};
use crate::region::FrameState;
use crate::types::{FrameId, Lsn, PageId};

/// After so many tries to find a version a dead participant may be in the way.
const TRIES_STALLED: u32 = 10_000;

impl Pool {
    /// Whether `frame` still holds the version of `page` that was born at `born`, or one that is to be seen
    /// in its place at a snapshot between that and `until`: it may have been used again since it was come
    /// upon.
    pub(in crate::pages) fn is_still(&self, frame: FrameId, page: PageId, born: Lsn, until: Lsn) -> bool {
        let desc = self.region.frame(frame);
        let whole = desc.holds_version();
        let superseded = desc.superseded();
        whole
            && desc.page() == page
            && superseded != Lsn::MAX
            && superseded > until
            && self.region.born(frame).load(Ordering::Acquire) == born.0
    }

    /// A chain was cut, or a sweep has claimed one of its frames for a moment; unless it died at that, which
    /// takes a reaper.
    #[cold]
    pub(in crate::pages) fn try_again(&self, tries: u32) {
        sablecat_os::atomic::spin_hint();
        if tries.is_multiple_of(TRIES_STALLED) {
            sablecat_os::atomic::yield_now();
            self.region.stall();
        }
    }

    /// Whether `previous` still is an older version of `page` behind one born at `born`.
    pub(in crate::pages) fn links(&self, born: Lsn, previous: FrameId, page: PageId) -> bool {
        let desc = self.region.frame(previous);
        desc.state() == FrameState::Published && desc.page() == page && desc.superseded() <= born
    }

    /// As [`Pool::links`], for a participant that has pinned a snapshot to which this version or an older one
    /// belongs.
    ///
    /// A sweep may have claimed the version, to look at it closer or to take it out of the chain; and it may
    /// have died at that, or be stopped. A claim changes nothing of what the reader needs: nobody frees a
    /// version that is superseded above a pin. One that is taken out of the middle keeps its bytes and where
    /// it leads until the operations in progress have ended, or somebody has waited for that in vain: so what
    /// the walk comes to in the end is looked at again (`is_still`).
    pub(in crate::pages) fn leads_on(&self, born: Lsn, previous: FrameId, page: PageId) -> bool {
        let desc = self.region.frame(previous);
        desc.holds_version() && desc.page() == page && desc.superseded() <= born
    }

    /// The version behind another of a page that the caller has latched, if that is in its chain.
    pub(in crate::pages) fn behind(&self, newer: FrameId, page: PageId) -> Option<FrameId> {
        let next = self.region.frame(newer).previous();
        let born = Lsn(self.region.born(newer).load(Ordering::Acquire));
        (next != FrameId::NONE && self.links(born, next, page)).then_some(next)
    }

    /// Takes a version of a latched page out of the middle of its chain: `one`, which stands behind `newer`.
    /// False if it cannot be had.
    ///
    /// Both are claimed, and then looked at again: pins may have moved since the chain was walked, and others
    /// have freed either frame and built something else in it. The current version is safe from that while
    /// the page is latched.
    pub(in crate::pages) fn take_from_chain(
        &self,
        newer: FrameId,
        is_current: bool,
        one: Superseded,
        page: PageId,
        me: &LocalParticipant,
    ) -> bool {
        let claimed = FrameState::Claimed(me.number());
        let (newer, old) = (self.region.frame(newer), self.region.frame(one.frame));
        if !is_current && !newer.change(FrameState::Published, claimed) {
            return false;
        }
        let mut taken = false;
        if newer.page() == page && newer.previous() == one.frame && old.change(FrameState::Published, claimed)
        {
            if old.superseded() == one.at && old.page() == page && !old.block().is_writing() {
                newer.set_previous(old.previous());
                self.drop_block(old, me);
                self.retire(one.frame, me);
                taken = true;
            } else {
                old.set_state(FrameState::Published);
            }
        }
        if !is_current {
            newer.set_state(FrameState::Published);
        }
        taken
    }
}

//! Old versions: superseded, and of use to nobody but snapshots. Who looks at one ends its life if there are
//! none that want it: a committer that superseded it (frames.rs), or a sweep (sweep.rs).
//!
//! Those below all pins are freed from the end of their chains, and need no latch: nobody goes there. Those
//! in whose time no pin lies are taken out of the middle.

use sablecat_os::atomic::Ordering;

use super::Pool;
use super::frames::UNLINKED_MAX;
use crate::pages::participants::horizon::{Horizon, Pins};
use crate::pages::participants::{LocalParticipant, Superseded};
use crate::region::{FrameDesc, FrameState};
use crate::types::{BlockId, FrameId, Lsn, PageId};

/// What has become of an old version that a participant has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldVersion {
    /// Its frame is free.
    Freed,
    /// It is out of its chain, and its frame retired.
    Unlinked,
    /// Some snapshot may want it, or somebody has its page or its frame in hand.
    Kept,
    /// It had gone before.
    Gone,
}

impl Pool {
    /// Ends the life of an old version, if nobody wants it; by taking it out of the middle of its chain,
    /// where older ones are wanted.
    pub(super) fn end_old(
        &self,
        one: Superseded,
        horizon: &Horizon,
        pins: &Pins,
        me: &LocalParticipant,
    ) -> OldVersion {
        let desc = self.region.frame(one.frame);
        let page = desc.page();
        if one.at <= horizon.of(page) {
            self.reclaim_old(one, horizon, me)
        } else if desc.superseded() == one.at && desc.holds_version() {
            self.take_between(one, page, pins, me)
        } else {
            OldVersion::Gone
        }
    }

    /// Frees an old version that was superseded at or below `horizon`.
    #[inline]
    pub(super) fn reclaim_old(
        &self,
        one: Superseded,
        horizon: &Horizon,
        me: &LocalParticipant,
    ) -> OldVersion {
        let desc = self.region.frame(one.frame);
        if desc.superseded() == one.at && self.reclaim(one.frame, horizon, me) {
            OldVersion::Freed
        } else if desc.superseded() == one.at && desc.holds_version() {
            OldVersion::Kept
        } else {
            OldVersion::Gone
        }
    }

    /// Frees a published version that was superseded at or below `horizon`.
    pub(in crate::pages) fn reclaim(&self, frame: FrameId, horizon: &Horizon, me: &LocalParticipant) -> bool {
        let desc = self.region.frame(frame);
        if !desc.change(FrameState::Published, FrameState::Claimed(me.number())) {
            return false;
        }
        // Claimed; now look again, since the frame may have been freed and published anew between the
        // caller's look and the claim.
        let block = desc.block();
        if desc.superseded() > horizon.of(desc.page()) || block.is_writing() {
            desc.set_state(FrameState::Published);
            return false;
        }
        // Should this process die after that, the frame is published again as what it was
        // (pages/pool/mend.rs), and reclaimed a second time.
        self.drop_block(desc, me);
        desc.set_state(FrameState::Free);
        true
    }

    /// Frees the block of a claimed version that is gone. The word first: what dies with this process is
    /// lost, rather than freed twice.
    pub(in crate::pages) fn drop_block(&self, desc: &FrameDesc, me: &LocalParticipant) {
        let block = desc.block();
        let _hand = (block.block() != BlockId::NONE && !block.is_captured()).then(|| me.in_hand());
        desc.set_block(block.dropped());
        self.forget_block(block);
    }

    /// Takes an old version that no snapshot below its end may want out of its page's chain, and retires its
    /// frame. What nobody wants of what is in front of it goes with it, so that nobody walks a long chain for
    /// each of its versions.
    fn take_between(&self, one: Superseded, page: PageId, pins: &Pins, me: &LocalParticipant) -> OldVersion {
        let born = |frame| Lsn(self.region.born(frame).load(Ordering::Acquire));
        if pins.want(page, born(one.frame), one.at) {
            return OldVersion::Kept;
        }
        // A participant that looks for frames to change a page in, or reads pages in as a commit is
        // validated, meets those that it has latched itself. Behind the look at the word, as after every
        // latch: a participant that was taken for dead has none, and the word may name the tenant that has
        // its slot since.
        let word = self.region.entry(page).word();
        let is_own = word.owner() == me.number();
        if is_own && self.region.is_fenced() {
            return OldVersion::Kept;
        }
        let latch = if is_own { None } else { self.try_hold(page, me) };
        let current = match &latch {
            Some(latch) => latch.current(),
            None if is_own => word.frame(),
            None => return OldVersion::Kept,
        };
        if current == FrameId::NONE {
            return OldVersion::Kept;
        }
        let mut newer = current;
        while let Some(frame) = self.behind(newer, page) {
            let next = Superseded { frame, at: self.region.frame(frame).superseded() };
            let is_sought = frame == one.frame;
            let may_go = me.unlinked.borrow().len() < UNLINKED_MAX && !pins.want(page, born(frame), next.at);
            if (is_sought || may_go) && self.take_from_chain(newer, newer == current, next, page, me) {
                if is_sought {
                    return OldVersion::Unlinked;
                }
                me.unlinked.borrow_mut().push_back(frame);
            } else if is_sought {
                break;
            } else {
                newer = frame;
            }
        }
        OldVersion::Kept
    }
}

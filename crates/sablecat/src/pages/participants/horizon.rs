//! What the pins allow: which superseded versions nobody can want any more, which current ones may leave the
//! pool.
//!
//! A snapshot wants every version that was current at its pin. A checkpoint wants less and less of them: once
//! it has dealt with a page, no version of that page is its business, for what it still writes of it is
//! marked as being written and stays by itself. So the checkpointer publishes how far it has come
//! (`captured_below`), and its pin counts only for the pages from there on. This is what lets a small pool
//! turn over while a checkpoint of it runs.
//!
//! Why the order of the looks is right (`visible`, fence, the holder of the checkpoint role, the pins,
//! `captured_below`; all sequentially consistent): let V be the `visible` that was read. A pin that is stored
//! after its slot was scanned is verified against a `visible` read later still, so it is at or above V, and
//! everything here stays at or below V. The slot that is left out belonged to a checkpointer *after* V was
//! read, so whatever else that participant pins once its checkpoint is over is at or above V, too. And
//! `captured_below` names the holding of the role that it is about: a participant that leaves a pin out sees
//! how far this very checkpoint has come, or zero. The pin of a checkpointer that was succeeded is a pin like
//! any other.
//!
//! *Lone versions.* A current version behind which no older one hangs (`previous` is none) is its page's
//! first, or was read in, or the older ones were found to be unwanted. A snapshot from before it does not
//! come to the page: the page did not exist in its state, or whatever version it would have wanted would be
//! kept behind this one. So such a version may leave the pool whatever snapshots there are; so may the last
//! one of a page that is free, and then its number is used again: a snapshot that the page was made and freed
//! after does not come to whatever has the number next, either. Otherwise pages that come and go beside a
//! long snapshot, that of a large transaction among them, would fill the cache. A checkpoint is
//! told apart from them because it comes to every page that has its bit: not finding the version in memory it
//! would take what is on the block for its own. If it begins after `visible` was read, its pin is at or above
//! V, and so is not below a version born at or below V.
//!
//! *Helpers.* Who finishes the commit of another puts a version in its place by the latch of the page, which
//! it knows by the version before, if there was one, and the latch's owner. If there was none, that owner has
//! the page latched in the same way again when it reads it in, once it has left memory: a helper that was
//! stopped would name a frame that is another's by then. So as long as somebody helps no version leaves that
//! is younger than what the helper has pinned, alone or not.
//!
//! The role may also be held by a participant that makes no checkpoint but keeps one out, and whose pin is
//! its own snapshot's: while it holds the role, `captured_below` is another's. So `captured_below` counts
//! only if the role's holding is still the one whose pin was left out.

use sablecat_os::atomic::{Ordering, fence};

use super::Participants;
use crate::region::{RoleHolding, Work};
use crate::types::{Lsn, PageId};

/// Below these LSNs no snapshot is pinned, nor ever will be.
#[derive(Clone, Copy, Debug)]
pub(in crate::pages) struct Horizon {
    all: Lsn,
    without_checkpoint: Lsn,
    /// That of checkpoints alone.
    of_checkpoint: Lsn,
    /// Everything that was visible when it was looked at, and to those that help.
    visible_to_helpers: Lsn,
    captured_below: u64,
}

/// Whose pin one is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PinnedBy {
    /// The holder of the checkpoint role.
    Checkpoint,
    /// A participant that finishes the commit of another.
    Helper,
    Other,
}

impl Horizon {
    /// The horizon of every page.
    #[inline]
    pub(in crate::pages) fn all(&self) -> Lsn {
        self.all
    }

    /// The horizon of one page.
    #[inline]
    pub(in crate::pages) fn of(&self, page: PageId) -> Lsn {
        if u64::from(page.0) < self.captured_below { self.without_checkpoint } else { self.all }
    }

    /// The horizon of a page behind whose current version hangs no older one. A snapshot from before that
    /// version cannot come to the page, so only a checkpoint counts, which looks at every page that has
    /// changed.
    #[inline]
    pub(in crate::pages) fn of_lone(&self, page: PageId) -> Lsn {
        let of = if u64::from(page.0) < self.captured_below { Lsn::MAX } else { self.of_checkpoint };
        of.min(self.visible_to_helpers)
    }
}

/// The pins that there were at a moment. One that is stored later is at or above what was visible then.
#[derive(Debug)]
pub(in crate::pages) struct Pins {
    visible: Lsn,
    of_checkpoint: Option<Lsn>,
    /// In their order.
    others: Vec<Lsn>,
    captured_below: u64,
}

impl Pins {
    /// Whether some snapshot may want the version of `page` that was current in [born, superseded).
    pub(in crate::pages) fn want(&self, page: PageId, born: Lsn, superseded: Lsn) -> bool {
        let is_between = |pin: &Lsn| (born..superseded).contains(pin);
        let first = self.others.partition_point(|&pin| pin < born);
        self.visible < superseded
            || self.others.get(first).is_some_and(is_between)
            || self.of_checkpoint.as_ref().is_some_and(is_between) && u64::from(page.0) >= self.captured_below
    }
}

impl Participants {
    /// Whether no snapshot is older than `at`, nor ever will be.
    pub(crate) fn is_unseen_before(&self, at: Lsn) -> bool {
        self.horizon().all() >= at
    }

    /// Whether a commit that is being made looks at a state of before `at`. A hint: one may begin to.
    pub(crate) fn is_guarded_before(&self, at: Lsn) -> bool {
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).any(|number| self.region.slot(number).guarded().is_some_and(|guarded| guarded < at))
    }

    pub(in crate::pages) fn horizon(&self) -> Horizon {
        let visible = self.region.header().visible();
        let (mut of_checkpoint, mut without_checkpoint) = (visible, visible);
        let mut visible_to_helpers = visible;
        let holding = self.each_pin(|pin, by| {
            let of = if by == PinnedBy::Checkpoint { &mut of_checkpoint } else { &mut without_checkpoint };
            *of = (*of).min(pin);
            if by == PinnedBy::Helper {
                visible_to_helpers = visible_to_helpers.min(pin);
            }
        });
        let all = of_checkpoint.min(without_checkpoint);
        Horizon {
            all,
            without_checkpoint,
            of_checkpoint,
            visible_to_helpers,
            captured_below: self.captured_below(holding),
        }
    }

    /// All pins, one by one.
    pub(in crate::pages) fn pins(&self) -> Pins {
        let visible = self.region.header().visible();
        let (mut of_checkpoint, mut others) = (None, Vec::new());
        let holding = self.each_pin(|pin, by| {
            if by == PinnedBy::Checkpoint { of_checkpoint = Some(pin) } else { others.push(pin) }
        });
        others.sort_unstable();
        Pins { visible, of_checkpoint, others, captured_below: self.captured_below(holding) }
    }

    /// Shows `look` every pin, and whose it is. Returns which holding of the checkpoint role there was. The
    /// caller has read `visible` before.
    fn each_pin(&self, mut look: impl FnMut(Lsn, PinnedBy)) -> RoleHolding {
        let header = self.region.header();
        // Pairs with the fence of the pin: a pin that this misses was stored after it, and its owner looks at
        // `visible` again.
        fence(Ordering::SeqCst);
        let holding = self.region.role(Work::Checkpoint).look();
        let high = header.slots_high.0.load(Ordering::SeqCst) as u16;
        for number in 1..high {
            let slot = self.region.slot(number);
            let by = if number == holding.owner() { PinnedBy::Checkpoint } else { PinnedBy::Other };
            slot.pinned().into_iter().for_each(|pin| look(pin, by));
            slot.guarded().into_iter().for_each(|pin| look(pin, PinnedBy::Other));
            slot.helps().into_iter().for_each(|pin| look(pin, PinnedBy::Helper));
        }
        holding
    }

    /// How far a checkpoint has come; zero if `holding` of its role is over.
    fn captured_below(&self, holding: RoleHolding) -> u64 {
        let captured_below = self.captured_by(holding);
        if self.region.role(Work::Checkpoint).look() == holding { captured_below } else { 0 }
    }

    /// Begins an epoch, and says which one every operation in progress, and every one to come, began at or
    /// after. At most the new one, although no operation may be in progress: one that begins right after this
    /// look is not to lose what is evicted under it.
    pub(in crate::pages) fn oldest_epoch(&self) -> u64 {
        let new = self.region.header().epoch.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.oldest_epoch_until(new)
    }

    /// As [`Participants::oldest_epoch`], but begins one only if none has begun since `epoch`.
    pub(in crate::pages) fn oldest_epoch_after(&self, epoch: u64) -> u64 {
        let now = self.region.header().epoch.0.load(Ordering::SeqCst);
        if now > epoch { self.oldest_epoch_until(now) } else { self.oldest_epoch() }
    }

    fn oldest_epoch_until(&self, now: u64) -> u64 {
        fence(Ordering::SeqCst);
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).map(|n| self.region.slot(n).epoch()).fold(now, u64::min)
    }
}

//! Page latches: held by writers from building a new version to publishing it. Readers never take one.
//!
//! The latch is the owner field of the page's entry. Latch order: docs/locks.md.

use std::time::Duration;

use sablecat_os::clock;

use super::Pool;
use crate::error::Result;
use crate::pages::participants::LocalParticipant;
use crate::region::{EntryWord, PAGE_QUEUES, RegionQueue};
use crate::types::{FrameId, PageId};

/// How long a checkpoint waits for others, in all.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long, at least, it waits for a page's latch.
const PATIENCE_LATCH: Duration = Duration::from_millis(20);

/// Until when, by the monotonic clock, the holder of the checkpoint role waits for others, which may be
/// stopped: from when it first has to.
#[derive(Debug, Default)]
pub(in crate::pages) struct Patience(Option<Duration>);

impl Patience {
    /// Until when it waits now, for at least so long.
    pub(in crate::pages) fn until(&mut self, at_least: Duration) -> Duration {
        // No time passes where threads are explored.
        if sablecat_os::atomic::explored() || is_impatient() {
            return Duration::ZERO;
        }
        let now = clock::monotonic();
        (*self.0.get_or_insert(now + PATIENCE)).max(now + at_least)
    }
}

#[cfg(test)]
thread_local! {
    /// For tests in which this thread has what it would wait for.
    static IMPATIENT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
fn is_impatient() -> bool {
    IMPATIENT.get()
}

#[cfg(not(test))]
fn is_impatient() -> bool {
    false
}

/// Does what makes checkpoints, and waits for no participant that has pages latched or writes their versions.
#[cfg(test)]
pub(crate) fn impatiently<T>(act: impl FnOnce() -> T) -> T {
    let before = IMPATIENT.replace(true);
    let done = act();
    IMPATIENT.set(before);
    done
}

/// A page's latch, held until dropped.
#[derive(Debug)]
#[must_use]
pub(in crate::pages) struct PageLatch<'a> {
    pool: &'a Pool,
    me: &'a LocalParticipant,
    page: PageId,
    current: FrameId,
}

impl PageLatch<'_> {
    /// Which page.
    pub(in crate::pages) fn page(&self) -> PageId {
        self.page
    }

    /// The frame of the page's current version; none: not in memory.
    pub(in crate::pages) fn current(&self) -> FrameId {
        self.current
    }

    /// It has ended: the page's entry was swung.
    pub(in crate::pages) fn swung(self) {
        std::mem::forget(self);
    }
}

impl Drop for PageLatch<'_> {
    fn drop(&mut self) {
        self.pool.unlatch(self.page, self.me);
    }
}

impl Pool {
    /// Latches a page for as long as what is returned lasts.
    ///
    /// # Errors
    /// As [`Pool::latch`].
    pub(in crate::pages) fn hold<'a>(
        &'a self,
        page: PageId,
        me: &'a LocalParticipant,
    ) -> Result<PageLatch<'a>> {
        self.latch(page, me).map(|current| PageLatch { pool: self, me, page, current })
    }

    /// As [`Pool::hold`], unless somebody has it, or this process was taken for dead.
    pub(in crate::pages) fn try_hold<'a>(
        &'a self,
        page: PageId,
        me: &'a LocalParticipant,
    ) -> Option<PageLatch<'a>> {
        self.try_latch(page, me).map(|current| PageLatch { pool: self, me, page, current })
    }

    #[inline]
    pub(in crate::pages) fn latch_queue(&self, page: PageId) -> RegionQueue<'_> {
        self.region.queue(page.0 as usize % PAGE_QUEUES)
    }

    /// Latches a page for `me`, waiting for its holder, and says its current frame (none: not in memory).
    ///
    /// # Errors
    /// `Poisoned` if this process was taken for dead.
    #[inline]
    pub(in crate::pages) fn latch(&self, page: PageId, me: &LocalParticipant) -> Result<FrameId> {
        if let Some(frame) = self.try_latch(page, me) {
            return Ok(frame);
        }
        self.latch_queue(page).wait_for(|| match self.try_latch(page, me) {
            None => self.region.check_fence().err().map(Err),
            frame => frame.map(Ok),
        })
    }

    /// As [`Pool::hold`]; none if it is not to be had until then, by the monotonic clock.
    ///
    /// # Errors
    /// As [`Pool::latch`].
    pub(in crate::pages) fn hold_until<'a>(
        &'a self,
        until: Duration,
        page: PageId,
        me: &'a LocalParticipant,
    ) -> Result<Option<PageLatch<'a>>> {
        let held = self.latch_queue(page).wait_until(Some(until), |_| match self.try_hold(page, me) {
            None => self.region.check_fence().err().map(Err),
            held => held.map(Ok),
        });
        held.transpose()
    }

    /// As [`Pool::hold`]; none if its holder keeps it for longer than the holder of the checkpoint role
    /// waits.
    ///
    /// # Errors
    /// As [`Pool::latch`].
    pub(in crate::pages) fn hold_patiently<'a>(
        &'a self,
        page: PageId,
        patience: &mut Patience,
        me: &'a LocalParticipant,
    ) -> Result<Option<PageLatch<'a>>> {
        match self.try_hold(page, me) {
            // As a rule for a moment.
            None => self.hold_until(patience.until(PATIENCE_LATCH), page, me),
            held => Ok(held),
        }
    }

    /// Latches a page unless somebody has it, or this process was taken for dead.
    #[inline]
    pub(in crate::pages) fn try_latch(&self, page: PageId, me: &LocalParticipant) -> Option<FrameId> {
        let entry = self.region.entry(page);
        let word = entry.word();
        debug_assert!(
            word.owner() != me.number() || self.region.is_fenced(),
            "a participant latches a page once"
        );
        let (free, latched) = (word.owner() == 0, EntryWord::new(word.frame(), me.number()));
        if !free || !entry.change(word, latched) {
            return None;
        }
        if self.region.is_fenced() {
            // Nobody that would end it knows of it.
            self.swing(page, latched, word);
            return None;
        }
        Some(word.frame())
    }

    /// Ends a latch that `me` holds, leaving the current version as it is.
    #[inline]
    pub(in crate::pages) fn unlatch(&self, page: PageId, me: &LocalParticipant) {
        if self.region.is_fenced() {
            return;
        }
        let entry = self.region.entry(page);
        let word = entry.word();
        // A thread that unwinds may do so since its memory is gone.
        debug_assert!(word.owner() == me.number() || std::thread::panicking(), "only the holder unlatches");
        self.swing(page, word, EntryWord::new(word.frame(), 0));
    }

    /// Changes a latched page's entry and wakes participants that wait for the latch. False if the entry had
    /// been changed already (by a helper).
    #[inline]
    pub(in crate::pages) fn swing(&self, page: PageId, from: EntryWord, to: EntryWord) -> bool {
        let swung = self.region.entry(page).change(from, to);
        self.latch_queue(page).wake();
        swung
    }
}

/// Of tests of the layers above, in which somebody has a page latched for longer than a call.
#[cfg(test)]
impl Pool {
    /// Latches a page for `me` and says its current frame, until [`Pool::let_go_of`].
    pub(crate) fn keep_latched(&self, page: PageId, me: &LocalParticipant) -> FrameId {
        self.latch(page, me).expect("nobody was taken for dead")
    }

    /// Ends that.
    pub(crate) fn let_go_of(&self, page: PageId, me: &LocalParticipant) {
        self.unlatch(page, me);
    }
}

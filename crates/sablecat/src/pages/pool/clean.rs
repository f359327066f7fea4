//! Cleaning: writing what is cold and dirty before the clock's hand comes to it, so that a participant that
//! needs a frame finds one that need not be written first.
//!
//! ```text
//!            hand                 cleaned
//! frames ----|--------------------|-------------------->  the hand goes this way, round and round
//!  evicts here    clean or hot     dirty ones are written by the sweep itself
//! ```
//!
//! A second hand, `cleaned`, goes ahead of the sweep's. A cleaner that moves it over some frames sees to what
//! is dirty and cold among them. Sweeps pass over dirty frames behind it, which are being written at the
//! moment or have become dirty since, and write those beyond it: so with no cleaner, or one that does not
//! keep up or died, all is as if there was none.
//!
//! Why ahead by a part of the pool only: what is written and then changed before it is evicted was written
//! for nothing.
//!
//! Several may clean at once, in one process or many: each sees to other frames.

use sablecat_os::atomic::Ordering;

use super::Pool;
use super::sweep::WRITE_BATCH;
use super::writing::{MarkedVersion, Writes};
use crate::error::Result;
use crate::pages::header;
use crate::pages::participants::LocalParticipant;
use crate::pages::participants::horizon::Horizon;
use crate::region::FrameState;
use crate::types::{FrameId, Lsn};

/// Which part of the pool is kept clean ahead of the hand, and how many frames at most.
const AHEAD_PART: u64 = 4;
const AHEAD_MAX: u64 = 4096;
/// Frames looked at between two looks at the hand.
const STEP: u64 = 16;

impl Pool {
    /// Whether a sweep that is at `hand` has to write what is dirty there. Calls the cleaner when a quarter
    /// of what is kept clean has been used.
    pub(in crate::pages) fn is_beyond_cleaned(&self, hand: u64) -> bool {
        // Relaxed, here and below: a hint.
        let cleaned = self.region.header().cleaned.0.load(Ordering::Relaxed);
        if hand >= cleaned {
            return true;
        }
        if cleaned - hand < self.ahead() / 4 * 3 {
            self.call_cleaner();
        }
        false
    }

    /// Calls the cleaner of this process.
    pub(in crate::pages) fn call_cleaner(&self) {
        self.cleaner.ring();
    }

    fn ahead(&self) -> u64 {
        (self.frames_ready() / AHEAD_PART).min(AHEAD_MAX)
    }

    /// Writes what is cold and dirty in the frames that the hand comes to next, and what it was given. The
    /// caller is in no operation.
    ///
    /// # Errors
    /// Full; those of the volume. What could not be written is dirty as before.
    pub(crate) fn clean(&self, me: &LocalParticipant) -> Result<()> {
        let header = self.region.header();
        let (frames, ahead) = (self.frames_ready(), self.ahead());
        self.bring_fresh();
        let mut more = self.under_pressure();
        if more {
            // Or the file would grow by all that is written before the first checkpoint.
            self.learn_free_early(me)?;
        }
        self.write_made(me)?;
        while more {
            let _hand = me.in_hand();
            let mut dirty = Writes::new(self);
            let horizon = self.horizon();
            while dirty.len() < WRITE_BATCH {
                let hand = header.hand.0.load(Ordering::Relaxed);
                header.cleaned.0.fetch_max(hand, Ordering::Relaxed);
                more = header.cleaned.0.load(Ordering::Relaxed) < hand + ahead;
                if !more {
                    break;
                }
                let start = header.cleaned.0.fetch_add(STEP, Ordering::Relaxed);
                for frame in start..start + STEP {
                    let frame = FrameId((1 + frame % frames) as u32);
                    if let Some(claim) = self.claim_dirty(frame, &horizon, me)? {
                        dirty.push(claim);
                    }
                }
            }
            dirty.write_out(me)?;
            self.write_made(me)?;
        }
        Ok(())
    }

    /// Gives a frame a block to be written to if a sweep would want it written: a current version that is
    /// cold, and that no snapshot is older than.
    fn claim_dirty(
        &self,
        frame: FrameId,
        horizon: &Horizon,
        me: &LocalParticipant,
    ) -> Result<Option<MarkedVersion>> {
        let desc = self.region.frame(frame);
        let is_dirty = || {
            desc.state() == FrameState::Published && desc.superseded() == Lsn::MAX && !desc.block().is_saved()
        };
        if !is_dirty() || self.region.referenced(frame).load(Ordering::Relaxed) != 0 {
            return Ok(None);
        }
        let page = desc.page();
        let Some(latch) = self.try_hold(page, me) else { return Ok(None) };
        // SAFETY: the page is latched and this is its current version, if it is: bytes that only its latch's
        // holder could supersede.
        let is_free = || header::is_free(unsafe { self.region.page(frame) });
        let horizon = if desc.previous() == FrameId::NONE { horizon.of_lone(page) } else { horizon.all() };
        let is_old = || self.region.born(frame).load(Ordering::Acquire) <= horizon.0;
        let is_current = latch.current() == frame;
        if is_current && is_old() && !is_free() { self.claim_write(frame, me) } else { Ok(None) }
    }
}

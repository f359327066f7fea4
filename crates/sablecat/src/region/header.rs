//! The header: the few words that everybody reads.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Geometry, Role};
use crate::types::Lsn;

/// What the ready word holds when the region has been created completely ("sablecat", layout 1).
pub(crate) const READY: u64 = u64::from_le_bytes(*b"sblcat\x00\x01");

/// A value on cache lines of its own (two, since processors fetch lines in pairs).
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Line<T>(pub(crate) T);

/// The header's words, each hot one on its own lines.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Header {
    /// [`READY`], stored last at creation: a region without it was never finished.
    pub(crate) ready: AtomicU64,
    page_size: AtomicU64,
    frames: AtomicU64,
    /// Published commits: every commit with an LSN at or below it is swung. Written in the commit step and by helpers; only grows.
    pub(crate) visible: Line<AtomicU64>,
    /// Who is in the commit step.
    pub(crate) commit: Line<Role>,
    /// Who is making a checkpoint.
    pub(crate) checkpoint: Line<Role>,
    /// The checkpoint in progress has dealt with every page below this; 0 when it has not begun. Written by whoever has the role.
    pub(crate) captured_below: Line<AtomicU64>,
    /// The operation clock for physical reuse of evicted frames. Written by evictors; only grows.
    pub(crate) epoch: Line<AtomicU64>,
    /// Where the clock sweep stands, a frame number modulo the pool. A hint.
    pub(crate) hand: Line<AtomicU64>,
    /// Slots below this have been used at some time, so scans stop here. Only grows.
    pub(crate) slots_high: Line<AtomicU32>,
    /// 1 once the pool has had to evict: readers then mark the frames they use.
    pub(crate) pressure: Line<AtomicU32>,
    /// Allocation hint and high-water mark of the page ids.
    pub(crate) page_hint: Line<AtomicU64>,
    pub(crate) page_high: AtomicU64,
    /// Allocation hint and high-water mark of the blocks.
    pub(crate) block_hint: Line<AtomicU64>,
    pub(crate) block_high: AtomicU64,
    /// The next tree number to give out.
    pub(crate) tree_next: Line<AtomicU32>,
    /// The serial gate: a transaction that keeps losing holds it while others stay out of commit.
    pub(crate) serial: Line<Role>,
}

impl Header {
    pub(super) fn create(&self, geometry: &Geometry) {
        // Relaxed stores: nobody reads them before the ready word, whose Release store they precede.
        self.page_size.store(geometry.page_size as u64, Ordering::Relaxed);
        self.frames.store(geometry.frames as u64, Ordering::Relaxed);
        self.epoch.0.store(1, Ordering::Relaxed);
        self.hand.0.store(1, Ordering::Relaxed);
        self.slots_high.0.store(1, Ordering::Relaxed);
        self.ready.store(READY, Ordering::Release);
    }

    /// The LSN of the newest published commit. Acquire: pairs with the Release in the commit step, so that whoever sees the LSN sees
    /// the entries it swung.
    #[inline]
    pub(crate) fn visible(&self) -> Lsn {
        Lsn(self.visible.0.load(Ordering::Acquire))
    }
}

//! Frame descriptors: the truth about each frame.
//!
//! ```text
//! Free ──take──▶ Building(slot) ──publish──▶ Published ◀──claim, put back──▶ Claimed(slot) ──reclaim──▶ Free
//!                     │                                                         │
//!                     └──abort──▶ Free                     Building(slot) ◀──evict──┘
//!                                                             └──▶ Retired ──epoch passed──▶ Free
//! ```
//!
//! State and owner are one word, changed by compare-and-swap, so nothing leaks: a sweep finds every frame in
//! every state. `superseded` is MAX while the version is current; in a retired frame it is the epoch that
//! must pass. Only the holder of the page's latch, the commit step and the sweep that won the state word
//! write the rest.
//!
//! The state alone says what a frame is to a participant that finds its owner dead: in a *claimed* one there
//! is a version, whole, which readers may need; in a *building* one there is nothing that anybody can come
//! upon any more, or yet.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};

use super::BlockWord;
use crate::types::{FrameId, Lsn, PageId};

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameState {
    /// Nobody's.
    Free,
    /// Being filled by the participant of this slot.
    Building(u16),
    /// A version of a page, which the participant of this slot looks at closer, to take it out of the pool
    /// perhaps. Nobody else does meanwhile.
    Claimed(u16),
    /// A version of a page.
    Published,
    /// Evicted; free once every operation that may still look at it has ended.
    Retired,
}

impl FrameState {
    #[inline]
    fn encode(self) -> u32 {
        match self {
            FrameState::Free => 0,
            FrameState::Building(slot) => 1 | u32::from(slot) << 16,
            FrameState::Published => 2,
            FrameState::Retired => 3,
            FrameState::Claimed(slot) => 4 | u32::from(slot) << 16,
        }
    }
    #[inline]
    fn decode(word: u32) -> FrameState {
        match word & 7 {
            0 => FrameState::Free,
            1 => FrameState::Building((word >> 16) as u16),
            2 => FrameState::Published,
            4 => FrameState::Claimed((word >> 16) as u16),
            _ => FrameState::Retired,
        }
    }
}

/// One frame's descriptor.
#[repr(C, align(32))]
#[derive(Debug)]
pub(crate) struct FrameDesc {
    state: AtomicU32,
    page: AtomicU32,
    superseded: AtomicU64,
    block: AtomicU64,
    previous: AtomicU32,
    _unused: AtomicU32,
}

impl FrameDesc {
    #[inline]
    pub(crate) fn state(&self) -> FrameState {
        FrameState::decode(self.state.load(Ordering::Acquire))
    }
    /// Whether it holds a version of a page, as readers know it: somebody may have claimed it.
    #[inline]
    pub(crate) fn holds_version(&self) -> bool {
        matches!(self.state(), FrameState::Published | FrameState::Claimed(_))
    }
    #[inline]
    pub(crate) fn change(&self, from: FrameState, to: FrameState) -> bool {
        self.state.compare_exchange(from.encode(), to.encode(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    /// Sets the state of a frame that the caller holds.
    #[inline]
    pub(crate) fn set_state(&self, state: FrameState) {
        self.state.store(state.encode(), Ordering::Release);
    }
    /// Describes a building frame: a version of `page` over `previous`, on no block yet.
    #[inline]
    pub(crate) fn describe(&self, page: PageId, previous: FrameId, block: BlockWord) {
        // Relaxed: the entry's swing or the state's Release store publishes them.
        self.page.store(page.0, Ordering::Relaxed);
        self.superseded.store(Lsn::MAX.0, Ordering::Relaxed);
        self.block.store(block.0, Ordering::Relaxed);
        self.previous.store(previous.0, Ordering::Relaxed);
    }
    #[inline]
    pub(crate) fn page(&self) -> PageId {
        PageId(self.page.load(Ordering::Acquire))
    }
    #[inline]
    pub(crate) fn superseded(&self) -> Lsn {
        Lsn(self.superseded.load(Ordering::Acquire))
    }
    #[inline]
    pub(crate) fn supersede(&self, at: Lsn) {
        self.superseded.store(at.0, Ordering::Release);
    }
    #[inline]
    pub(crate) fn previous(&self) -> FrameId {
        FrameId(self.previous.load(Ordering::Acquire))
    }
    #[inline]
    pub(crate) fn set_previous(&self, frame: FrameId) {
        self.previous.store(frame.0, Ordering::Release);
    }
    #[inline]
    pub(crate) fn block(&self) -> BlockWord {
        BlockWord(self.block.load(Ordering::Acquire))
    }
    /// Replaces the block word if it still is `from`.
    #[inline]
    pub(crate) fn change_block(&self, from: BlockWord, to: BlockWord) -> bool {
        self.block.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    #[inline]
    pub(crate) fn set_block(&self, to: BlockWord) {
        self.block.store(to.0, Ordering::Release);
    }
}

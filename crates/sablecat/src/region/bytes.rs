//! The bytes of frames: pages, for the participants that may look at them.

use std::ptr::NonNull;

use sablecat_os::atomic::{AtomicU32, AtomicU64};
use sablecat_os::prefetch::Ahead;

use super::{BORN_AT, Region};
use crate::types::FrameId;

/// Cache lines at the start of a page that a search looks at, as a rule: 128 bytes of header and hints, and
/// six bytes a record for some 85 records.
pub(crate) const SEARCH_LINES: usize = 10;

/// More than this of a page is not fetched ahead: the processor follows by itself.
const AHEAD_BYTES_MAX: usize = 8192;

impl Region {
    /// The address of a frame's bytes.
    #[inline]
    pub(crate) fn frame_pointer(&self, frame: FrameId) -> NonNull<u8> {
        assert!((frame.0 as usize) < self.geometry.frames);
        // SAFETY: the frames array has `frames` elements of `block_size` bytes inside the mapping.
        unsafe { self.base.add(self.offsets.frames + frame.0 as usize * self.geometry.block_size) }
    }

    /// A published frame as a page.
    ///
    /// # Safety
    /// The frame is published, and for the whole of the returned lifetime the caller is protected from its
    /// reuse: by a pin that its version covers and the operation's epoch, by its page's latch, or because it
    /// is the caller's own building frame and nothing writes it meanwhile.
    #[inline]
    pub(crate) unsafe fn page(&self, frame: FrameId) -> &[u8] {
        // SAFETY: in bounds (frame_pointer); unchanged and not reused by the caller's obligation.
        unsafe { std::slice::from_raw_parts(self.frame_pointer(frame).as_ptr(), self.geometry.page_size) }
    }

    /// A building frame as writable bytes.
    ///
    /// # Safety
    /// The caller alone holds the frame: it is in state building with the caller's slot, or the caller has
    /// the environment exclusively; and no other reference to its bytes lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the frame's state, not the borrow, says who may write it")]
    pub(crate) unsafe fn page_mut(&self, frame: FrameId) -> &mut [u8] {
        // SAFETY: in bounds; exclusive by the caller's obligation.
        unsafe { std::slice::from_raw_parts_mut(self.frame_pointer(frame).as_ptr(), self.geometry.page_size) }
    }

    /// A whole building frame as writable bytes: what is behind the page too.
    ///
    /// # Safety
    /// As for [`Region::page_mut`].
    #[expect(clippy::mut_from_ref, reason = "the frame's state, not the borrow, says who may write it")]
    pub(crate) unsafe fn frame_mut(&self, frame: FrameId) -> &mut [u8] {
        // SAFETY: in bounds; exclusive by the caller's obligation.
        unsafe {
            std::slice::from_raw_parts_mut(self.frame_pointer(frame).as_ptr(), self.geometry.block_size)
        }
    }

    /// The LSN at which a frame's version became current: bytes 8..16 of its page, an atomic because chain
    /// walkers may look at a frame that is being reused under them (and then start again).
    #[inline]
    pub(crate) fn born(&self, frame: FrameId) -> &AtomicU64 {
        // SAFETY: frames are at least 512-aligned, so this offset is aligned; these eight bytes are only
        // accessed as an atomic while shared.
        unsafe { &*self.frame_pointer(frame).as_ptr().add(BORN_AT).cast::<AtomicU64>() }
    }

    /// The `index`-th 32-bit word of a frame that holds no page but the rest of a publish list: read by
    /// helpers, so atomic.
    pub(crate) fn frame_word(&self, frame: FrameId, index: usize) -> &AtomicU32 {
        assert!(index < self.geometry.page_size / 4);
        // SAFETY: in bounds and aligned; such frames are only accessed through this function while they are
        // building.
        unsafe { &*self.frame_pointer(frame).as_ptr().cast::<AtomicU32>().add(index) }
    }

    /// Asks the processor to fetch what a search in a frame will look at, so many cache lines: of a B+tree's,
    /// header, hints, heads and offsets of a page of up to 4 KiB. They come together, instead of one after
    /// the other as the search finds out where to look.
    #[inline(always)]
    pub(crate) fn prefetch(&self, frame: FrameId, lines: usize) {
        self.prefetch_from(frame, 0, lines);
    }

    /// As [`Region::prefetch`], from a byte on.
    #[inline(always)]
    pub(crate) fn prefetch_from(&self, frame: FrameId, at: usize, lines: usize) {
        let start = self.frame_pointer(frame).as_ptr().wrapping_add(at);
        for line in 0..lines {
            sablecat_os::prefetch::read(start.wrapping_add(64 * line));
        }
    }

    /// A whole frame, for the processor to fetch in the course of other work.
    pub(crate) fn ahead(&self, frame: FrameId) -> Ahead {
        Ahead::new(self.frame_pointer(frame).as_ptr(), self.geometry.page_size.min(AHEAD_BYTES_MAX))
    }
}

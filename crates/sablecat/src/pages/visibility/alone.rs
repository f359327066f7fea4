//! Pages as a participant that has the environment to itself changes them: in place, in the frames where they
//! are.
//!
//! Nothing is latched, and nothing is pinned: that nobody else is here is what makes it sound, and a caller
//! that says so gets an [`Alone`], the only way to such a change.

use crate::error::Result;
use crate::pages::participants::LocalParticipant;
use crate::pages::visibility::Visibility;
use crate::types::{FrameId, PageId, VolumeId};

/// The participant that has the environment to itself.
#[derive(Debug)]
pub(crate) struct Alone<'a> {
    pages: &'a Visibility,
    me: &'a LocalParticipant,
    /// A page is being shown.
    #[cfg(debug_assertions)]
    shows: std::cell::Cell<bool>,
}

impl<'a> Alone<'a> {
    /// # Safety
    /// For as long as this lives, no other participant is in an operation, holds a pin or a latch, or begins
    /// to; and what [`Alone::show`] shows a page to has no other one shown.
    pub(crate) unsafe fn new(pages: &'a Visibility, me: &'a LocalParticipant) -> Alone<'a> {
        Alone {
            pages,
            me,
            #[cfg(debug_assertions)]
            shows: std::cell::Cell::new(false),
        }
    }

    /// The frame of a page, which is read in if it must be.
    #[inline]
    fn resident(&self, page: PageId) -> Result<FrameId> {
        let frame = self.pages.resident(page);
        if frame != FrameId::NONE { Ok(frame) } else { self.read_in(page) }
    }

    #[cold]
    fn read_in(&self, page: PageId) -> Result<FrameId> {
        self.pages.operate(self.me, || {
            let operation = self.pages.enter(self.me);
            operation.pages.current(page, self.me)
        })
    }

    /// The frame of a page, to be written: resident, and on no block.
    #[inline]
    fn frame(&mut self, page: PageId) -> Result<FrameId> {
        let frame = self.resident(page)?;
        if !self.pages.is_off_block(frame) {
            self.take_off_block(frame);
        }
        self.pages.mark_unsaved(page);
        Ok(frame)
    }

    #[cold]
    fn take_off_block(&self, frame: FrameId) {
        let _hand = self.me.in_hand();
        self.pages.take_off_block(frame);
    }

    /// Whether a page is in a frame.
    #[inline]
    pub(crate) fn is_resident(&self, page: PageId) -> bool {
        self.pages.resident(page) != FrameId::NONE
    }

    /// Shows `look` a page. `look` may not have another one shown to it.
    #[inline]
    pub(crate) fn show<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let frame = self.resident(page)?;
        self.pages.prefetch(frame);
        #[cfg(debug_assertions)]
        assert!(!self.shows.replace(true), "one page is shown at a time");
        // SAFETY: nobody else is here, by the word of the caller that made this; and the sweeps of this
        // participant, which might evict the page, come when another is read in.
        let shown = look(unsafe { self.pages.bytes(frame) });
        #[cfg(debug_assertions)]
        self.shows.set(false);
        Ok(shown)
    }

    /// A page.
    #[inline]
    pub(crate) fn bytes(&mut self, page: PageId) -> Result<&[u8]> {
        let frame = self.resident(page)?;
        // SAFETY: nobody else is here, and the borrow of `self` keeps this participant's sweeps away.
        Ok(unsafe { self.pages.bytes(frame) })
    }

    /// A page, to be written.
    #[inline]
    pub(crate) fn write(&mut self, page: PageId) -> Result<&mut [u8]> {
        let frame = self.frame(page)?;
        // SAFETY: nobody else is here, and the borrow of `self` keeps other references away.
        Ok(unsafe { self.pages.bytes_mut(frame) })
    }

    /// As [`Alone::write`], of several, which are different ones.
    pub(crate) fn write_all<const N: usize>(&mut self, pages: [PageId; N]) -> Result<[&mut [u8]; N]> {
        let is_first = |at: usize| !pages[..at].contains(&pages[at]);
        assert!((0..N).all(is_first), "a page is written once at a time");
        self.make_ready(&pages)?;
        let frames = pages.map(|page| self.pages.resident(page));
        // SAFETY: different frames; otherwise as in `write`.
        Ok(frames.map(|frame| unsafe { self.pages.bytes_mut(frame) }))
    }

    /// Has several pages be ready to be written.
    pub(crate) fn make_ready(&mut self, pages: &[PageId]) -> Result<()> {
        loop {
            pages.iter().try_for_each(|&page| self.frame(page).map(drop))?;
            // Reading in one may have swept another out again.
            let is_there = |&page: &PageId| {
                let frame = self.pages.resident(page);
                frame != FrameId::NONE && self.pages.is_off_block(frame)
            };
            if pages.iter().all(is_there) {
                return Ok(());
            }
        }
    }

    /// Adds a page, which `form` forms: it may be swept out at once, and be read in again.
    pub(crate) fn add(&mut self, page: PageId, home: VolumeId, form: impl FnOnce(&mut [u8])) -> Result<()> {
        let frame = self.pages.with_frames(self.me, || self.pages.take_frame(self.me))?;
        // SAFETY: the frame is building and ours.
        unsafe { self.pages.first_version(frame, page, home) };
        // SAFETY: as above.
        form(unsafe { self.pages.bytes_mut(frame) });
        self.pages.place_first(page, frame);
        Ok(())
    }

    /// Has a page go to a volume.
    pub(crate) fn send_to(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        let frame = self.frame(page)?;
        self.pages.send_to(frame, home);
        Ok(())
    }

    /// Frees a page, and the block and the frame of its version.
    ///
    /// # Errors
    /// Those of reading where it is.
    pub(crate) fn free(&mut self, page: PageId) -> Result<()> {
        let _hand = self.me.in_hand();
        self.pages.free_page(page, self.me)
    }
}

//! Operations and snapshots: what must be held to look at pages.
//!
//! An operation holds every frame that it can come upon, by its epoch. That is cheap, and right as long as
//! operations last microseconds. One may last for ever: its process may be stopped, or be looked at in a
//! debugger, and then all frames that are evicted or unlinked would be held until it goes on. So a snapshot's
//! operation says besides, for each page, which frame it looks at; and a participant that has waited for
//! frames in vain frees those that operations hold by their epochs alone
//! ([`Pool::free_unlooked`](crate::pages::pool::Pool), [decision
//! 20](../../../../../docs/decisions/0020-looking-at-one-frame.md)). What is behind a frame may then change
//! as long as it is not looked at: so the entry, or what describes an old version, is read again after it was
//! said which.

use std::cell::Cell;
use std::ptr::NonNull;
use std::slice;

use sablecat_os::atomic::{Ordering, light_fence};
use sablecat_os::prefetch::{self, Ahead};

use super::Visibility;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::participants::hints::LeftOff;
use crate::pages::participants::{LocalParticipant, Pinned};
use crate::pages::pool::frames::FRAMES_WANTED;
use crate::region::{ANY_FRAME, PageEntry, SEARCH_LINES, Slot};
use crate::types::{FrameId, Lsn, PageId};

/// It sweeps for them when it has fewer than this: not none, so that those which wait for operations in
/// progress are free by the time they are needed.
const FRAMES_LOW: usize = 4;

/// Cache lines of a record that are asked for before it is known where it is.
const RECORD_LINES: usize = 2;

/// One operation in progress. Frames reachable while it lasts are not used for anything else before it ends;
/// of a snapshot's, if it lasts too long, only the one that it looks at.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) pages: &'a Visibility,
    pub(crate) me: &'a LocalParticipant,
}

impl Drop for Operation<'_> {
    #[inline]
    fn drop(&mut self) {
        self.me.slot().exit();
    }
}

/// A pinned snapshot inside an operation of its own: what a single read needs. It looks at one page at a
/// time.
#[derive(Debug)]
pub(crate) struct Snapshot<'a> {
    pub(crate) operation: Operation<'a>,
    pub(crate) at: Lsn,
    /// False when a transaction holds the pin.
    owned: bool,
    /// The bytes that it looks at: those of frame 0, which nobody uses, when it looks at nothing.
    bytes: Cell<NonNull<u8>>,
    /// The page that these are of; none if it looks at nothing.
    page: Cell<PageId>,
    /// A page is being shown.
    shows: Cell<bool>,
}

impl Drop for Snapshot<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.owned {
            self.operation.me.slot().unpin();
        }
    }
}

impl<'a> Snapshot<'a> {
    /// Ends the operation, not the pin: a caller that needs both, and the pin for longer, has one fence for
    /// them.
    #[inline]
    pub(crate) fn into_pinned(mut self) -> Pinned<'a> {
        debug_assert!(self.owned, "the pin is a transaction's");
        self.owned = false;
        self.operation.pages.pinned_already(self.operation.me, self.at)
    }

    /// Whether the page is in memory, as the snapshot sees it and as `is_it` wants it: for remembered pages,
    /// which may be anything by now. Takes no step back and reads nothing in. If so, [`Snapshot::looked_at`]
    /// is that page.
    #[inline]
    pub(crate) fn is_resident(&mut self, page: PageId, is_it: impl FnOnce(&[u8]) -> bool) -> bool {
        self.is_resident_with(page, SEARCH_LINES, is_it)
    }

    /// The same, where a search looks at so many cache lines at the page's start.
    #[inline(always)]
    pub(crate) fn is_resident_with(
        &mut self,
        page: PageId,
        lines: usize,
        is_it: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        page != PageId::NONE && self.look_at_current(page, lines) && is_it(self.looked_at())
    }

    /// The page that was looked at last.
    #[inline]
    pub(crate) fn looked_at(&mut self) -> &[u8] {
        // SAFETY: the frame's version is one that the pin covers, if it was superseded; if not, the operation
        // has said that it looks at this frame. The borrow keeps it from looking at another.
        unsafe { slice::from_raw_parts(self.bytes.get().as_ptr(), self.operation.pages.region.page_size()) }
    }

    /// The page as the snapshot sees it, until another one is looked at.
    #[inline]
    pub(crate) fn page(&mut self, page: PageId) -> Result<&[u8]> {
        if page == PageId::NONE || self.page.get() != page {
            self.look_at(page)?;
        }
        Ok(self.looked_at())
    }

    /// Shows `look` the page as the snapshot sees it. `look` may not have another one shown to it.
    #[inline(always)]
    pub(crate) fn show<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        assert!(!self.shows.replace(true), "a snapshot shows one page at a time");
        let page_size = self.operation.pages.region.page_size();
        // SAFETY: as in `looked_at`: as long as `shows` is set no other page is looked at.
        let shown = self
            .look_at(page)
            .map(|()| look(unsafe { slice::from_raw_parts(self.bytes.get().as_ptr(), page_size) }));
        self.shows.set(false);
        shown
    }

    /// Looks at the version of a page that the snapshot sees.
    #[inline(always)]
    fn look_at(&self, page: PageId) -> Result<()> {
        if self.look_at_current(page, SEARCH_LINES) { Ok(()) } else { self.look_back(page) }
    }

    #[cold]
    fn look_back(&self, page: PageId) -> Result<()> {
        let Operation { pages, me } = self.operation;
        self.bytes.set(pages.region.frame_pointer(pages.version(page, self.at, me)?));
        self.page.set(page);
        Ok(())
    }

    /// Looks at the current version of a page, if it is in memory and the snapshot sees it; else at nothing.
    ///
    /// All addresses are known before the light fence, behind which nothing that was loaded before is known
    /// to the compiler any more.
    #[inline(always)]
    fn look_at_current(&self, page: PageId, lines: usize) -> bool {
        let Operation { pages, me } = self.operation;
        let (region, at) = (&*pages.region, self.at);
        let entry = region.entry(page);
        let frame = entry.word().frame();
        region.prefetch(frame, lines);
        let (bytes, born) = (region.frame_pointer(frame), region.born(frame));
        self.bytes.set(region.frame_pointer(FrameId::NONE));
        self.page.set(PageId::NONE);
        let slot = me.slot();
        if !pages.looks_at(frame, entry, slot)
            || frame == FrameId::NONE
            || born.load(Ordering::Acquire) > at.0
        {
            return false;
        }
        self.bytes.set(bytes);
        self.page.set(page);
        slot.count_hit();
        pages.touch(frame);
        true
    }

    /// The whole page, to be fetched into the processor's cache in the course of other work; nothing if it is
    /// not in memory.
    pub(crate) fn ahead(&self, page: PageId) -> Ahead {
        let pages = self.operation.pages;
        match pages.region.entry(page).word().frame() {
            FrameId::NONE => Ahead::NOTHING,
            frame => {
                prefetch::read(pages.region.born(frame).as_ptr().cast());
                pages.region.ahead(frame)
            }
        }
    }

    /// How often a page that its participant wanted was not in memory.
    #[inline]
    pub(crate) fn waits(&self) -> u32 {
        self.operation.me.waits()
    }

    /// Where its participant left a scan.
    #[inline]
    pub(crate) fn left_off(&self) -> &LeftOff {
        &self.operation.me.left_off
    }

    /// Has those of the pages that are not in memory read by others, soon. Says how many.
    pub(crate) fn ask_for(&self, pages: &[PageId]) -> usize {
        self.operation.pages.ask_for(pages)
    }

    /// So many pages are asked for at once, at most.
    pub(crate) fn ahead_max(&self) -> usize {
        self.operation.pages.ahead_max()
    }

    /// Asks the processor to fetch what [`Snapshot::ahead`] of the page will look at.
    pub(crate) fn far_ahead(&self, page: PageId) {
        let entry: *const _ = self.operation.pages.region.entry(page);
        prefetch::read(entry.cast());
    }
}

impl Visibility {
    /// Asks the processor to fetch what a search in a page will look at, so many cache lines at its start and
    /// two about where the record may be, if the page is in memory: for a participant that is about to begin
    /// an operation.
    #[inline(always)]
    pub(crate) fn foresee(&self, (page, record_at): (PageId, usize), lines: usize) {
        if page != PageId::NONE {
            let frame = self.region.entry(page).word().frame();
            self.region.prefetch(frame, lines);
            self.region.prefetch_from(frame, record_at, RECORD_LINES);
        }
    }

    /// As [`Visibility::foresee`], and what is looked at of a page that is to be changed.
    #[inline(always)]
    pub(crate) fn foresee_change(&self, (page, record_at): (PageId, usize), lines: usize) {
        if page != PageId::NONE {
            let frame = self.region.entry(page).word().frame();
            self.region.prefetch(frame, lines);
            self.region.prefetch_from(frame, record_at, RECORD_LINES);
            self.foresee_description(frame);
        }
    }

    /// Asks the processor to fetch what is looked at next of a page that is about to be latched and changed,
    /// and that no search in it looks at: where it ends, as what it covers stands there, and what describes
    /// its current version.
    #[inline(always)]
    pub(crate) fn foresee_latched(&self, page: PageId) {
        let frame = self.region.entry(page).word().frame();
        self.region.prefetch_from(frame, self.region.page_size() - prefetch::LINE_BYTES, 1);
        self.foresee_description(frame);
    }

    /// Asks the processor to fetch what describes the version in a frame.
    #[inline(always)]
    fn foresee_description(&self, frame: FrameId) {
        let described: *const _ = self.region.frame(frame);
        prefetch::read(described.cast());
    }

    /// Begins an operation without a pin, which may look at anything.
    #[inline]
    pub(crate) fn enter<'a>(&'a self, me: &'a LocalParticipant) -> Operation<'a> {
        let slot = me.slot();
        slot.look_at(ANY_FRAME);
        self.enter_looking(me, slot)
    }

    /// Begins an operation that says what it looks at.
    #[inline]
    fn enter_looking<'a>(&'a self, me: &'a LocalParticipant, slot: &Slot) -> Operation<'a> {
        slot.enter_fenced(self.region.header().epoch.0.load(Ordering::SeqCst));
        Operation { pages: self, me }
    }

    /// Begins an operation and pins the newest published state: stored, fenced, and looked at again
    /// (docs/locks.md); the epoch is announced under the same fence.
    #[inline]
    pub(crate) fn snapshot<'a>(&'a self, me: &'a LocalParticipant) -> Snapshot<'a> {
        let slot = me.slot();
        slot.enter(self.region.header().epoch.0.load(Ordering::SeqCst));
        let at = self.pin_slot(slot);
        Snapshot {
            operation: Operation { pages: self, me },
            at,
            owned: true,
            bytes: Cell::new(self.region.frame_pointer(FrameId::NONE)),
            page: Cell::new(PageId::NONE),
            shows: Cell::new(false),
        }
    }

    /// Begins an operation at a snapshot that the participant has pinned already.
    ///
    /// Always inlined: the snapshot is put together where it is used, not copied there.
    #[inline(always)]
    pub(crate) fn at_pin<'a>(&'a self, me: &'a LocalParticipant, at: Lsn) -> Result<Snapshot<'a>> {
        let slot = me.slot();
        let operation = self.enter_looking(me, slot);
        // What a commit looks at with its second pin stays, whatever became of its snapshot.
        if slot.is_revoked() && slot.guarded() != Some(at) {
            return Err(Error::given_up());
        }
        Ok(Snapshot {
            operation,
            at,
            owned: false,
            bytes: Cell::new(self.region.frame_pointer(FrameId::NONE)),
            page: Cell::new(PageId::NONE),
            shows: Cell::new(false),
        })
    }

    /// Runs `work` as often as the pool runs out of frames under it. `work` begins its own operation and must
    /// be repeatable.
    #[inline]
    pub(crate) fn operate<T>(&self, me: &LocalParticipant, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        // What it comes to stays here: handed out through what catches panics it would be moved in memory.
        let mut done = None;
        self.unless_cut_short(|| {
            self.operate_watched(me, || {
                done = Some(work()?);
                Ok(())
            })
        })?;
        Ok(done.expect("the work was done"))
    }

    /// The same as part of something that as a whole [is no answer if memory was cut
    /// short](crate::pages::participants::Participants::unless_cut_short).
    #[inline]
    pub(crate) fn operate_watched<T>(
        &self,
        me: &LocalParticipant,
        work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.region.check_fence()?;
        // In memory alone nothing is ever read in, so looking takes no frame, and must be possible when none
        // is left.
        if self.under_pressure() && self.volume.is_some() && me.free.borrow().len() < FRAMES_LOW {
            self.refill(me, FRAMES_WANTED, 1)?;
        }
        self.with_frames(me, work)
    }

    /// Shows `look` a page as of `at`, which `me` has pinned, in an operation of its own.
    #[inline]
    pub(crate) fn show<R>(
        &self,
        page: PageId,
        at: Lsn,
        me: &LocalParticipant,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let (mut look, mut shown) = (Some(look), None);
        self.show_to(page, at, me, &mut |bytes| shown = look.take().map(|look| look(bytes)))?;
        Ok(shown.expect("the page is shown once"))
    }

    /// The same for any `look`, which is called once: all that reads pages in the course of changes is
    /// generic, and would have a copy of this for each page that it looks at.
    fn show_to(
        &self,
        page: PageId,
        at: Lsn,
        me: &LocalParticipant,
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        self.operate(me, || {
            let mut snapshot = self.at_pin(me, at)?;
            look(snapshot.page(page)?);
            Ok(())
        })
    }

    /// Says that the operation looks at a frame, which its page's entry had. Whether the entry still has it:
    /// from then on nobody takes it away.
    #[inline]
    fn looks_at(&self, frame: FrameId, entry: &PageEntry, slot: &Slot) -> bool {
        slot.look_at(if self.says_what_it_looks_at { frame } else { ANY_FRAME });
        light_fence();
        entry.word().frame() == frame
    }

    /// The frame of the version of `page` that a snapshot at `at` sees, which the operation looks at or the
    /// pin keeps. The caller is in an operation, pinned at `at`.
    pub(in crate::pages) fn version(&self, page: PageId, at: Lsn, me: &LocalParticipant) -> Result<FrameId> {
        let mut tries = 0u32;
        'again: loop {
            tries += 1;
            if tries > 1 {
                self.try_again(tries);
            }
            let read = self.current(page, me);
            if read.is_err() {
                // What is wrong may be wrong with a newer checkpoint than the one that is being read.
                self.confirm(at)?;
            }
            let newest = read?;
            if !self.looks_at(newest, self.region.entry(page), me.slot()) {
                continue 'again;
            }
            let mut frame = newest;
            loop {
                let born = Lsn(self.region.born(frame).load(Ordering::Acquire));
                if born <= at {
                    // What is superseded above the pin, and not below it, is kept by that.
                    if frame == newest || self.is_still(frame, page, born, at) {
                        return Ok(frame);
                    }
                    continue 'again;
                }
                let previous = self.region.frame(frame).previous();
                if previous == FrameId::NONE {
                    if frame != newest && !self.is_still(frame, page, born, born) {
                        continue 'again;
                    }
                    if me.slot().is_revoked() {
                        return Err(Error::new(
                            ErrorKind::SnapshotTooOld,
                            "the snapshot was given up while it was being read",
                        ));
                    }
                    if self.is_following() {
                        return Err(Error::newer_checkpoint());
                    }
                    // The chain was cut under us (a version freed, a page evicted and read again), or the
                    // page is younger than the snapshot.
                    if self.region.entry(page).word().frame() == newest {
                        return Err(Error::not_there(page));
                    }
                    continue 'again;
                }
                if !self.leads_on(born, previous, page) {
                    continue 'again;
                }
                frame = previous;
            }
        }
    }

    /// The frame of the current version, read in if it is not in memory. The caller is in an operation.
    #[inline]
    pub(crate) fn current(&self, page: PageId, me: &LocalParticipant) -> Result<FrameId> {
        let frame = self.region.entry(page).word().frame();
        if frame != FrameId::NONE {
            me.slot().count_hit();
            self.touch(frame);
            return Ok(frame);
        }
        self.page_in(page, me)
    }
}

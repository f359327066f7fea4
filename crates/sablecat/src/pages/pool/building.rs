//! Building new versions, and putting them in the place of old ones, for the holder of the latches of the
//! pages.
//!
//! ```text
//! take_frame ──▶ first_version, NewVersions::write ──▶ finish ──▶ put_in_place ──▶ raise_newest
//!                (the frame is building)              (the state  (entries lead   (all that
//!                                                     is published) there)         begin see it)
//! ```
//!
//! A commit has listed before what it is about to do, in its slot and in frames that hold the rest of the
//! list: a participant that finds it stopped or dead ends it by that.

use sablecat_os::atomic::Ordering;
use sablecat_os::prefetch;

use super::Pool;
use crate::region::{BlockWord, EntryWord, ListItem, SLOT_LIST_INLINE, Slot};
use crate::types::{FrameId, Lsn, PageId, VolumeId};

impl Pool {
    /// The bytes of a version.
    ///
    /// # Safety
    /// It stays as it is for as long as they are looked at: by a pin, by the latch of its page, or because
    /// the frame is the caller's own, or the environment is.
    #[inline]
    pub(in crate::pages) unsafe fn bytes(&self, frame: FrameId) -> &[u8] {
        // SAFETY: by the caller's word.
        unsafe { self.region.page(frame) }
    }

    /// The bytes of a version that is being built.
    ///
    /// # Safety
    /// The frame is the caller's own, or the environment is, and no other reference to the bytes lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the frame's state, not the borrow, says who may write it")]
    pub(in crate::pages) unsafe fn bytes_mut(&self, frame: FrameId) -> &mut [u8] {
        // SAFETY: by the caller's word.
        unsafe { self.region.page_mut(frame) }
    }

    /// Makes a frame that the caller builds the first version of a page, of zeros.
    ///
    /// # Safety
    /// As of [`Pool::bytes_mut`].
    #[inline]
    pub(in crate::pages) unsafe fn first_version(&self, frame: FrameId, page: PageId, home: VolumeId) {
        // What was in the frame before is no part of this page, and perhaps of another volume.
        // SAFETY: by the caller's word.
        unsafe { self.region.page_mut(frame) }.fill(0);
        self.region.frame(frame).describe(page, FrameId::NONE, BlockWord::unwritten(home));
    }

    /// Says which volume a version goes to that is on no block.
    pub(in crate::pages) fn send_to(&self, frame: FrameId, home: VolumeId) {
        self.region.frame(frame).set_block(BlockWord::unwritten(home));
    }

    /// The LSN at which a version became current.
    #[inline]
    pub(crate) fn born(&self, frame: FrameId) -> Lsn {
        Lsn(self.region.born(frame).load(Ordering::Acquire))
    }

    /// Has a page's entry name the version that `owner`'s commit brings; idempotent while its caller is
    /// pinned below `commit`.
    #[inline]
    pub(crate) fn put_in_place(&self, item: ListItem, commit: Lsn, owner: u16) {
        if item.new == FrameId::NONE {
            // Latched, looked at, and left as it was: the owner unlatches it. A helper must not, since the
            // same owner may have latched the same version again.
            return;
        }
        if item.old != FrameId::NONE {
            self.region.frame(item.old).supersede(commit);
        }
        self.swing(item.page, EntryWord::new(item.old, owner), EntryWord::new(item.new, 0));
        // After the swing and before `visible` moves: see pages/store/checkpoint.rs.
        self.mark_unsaved(item.page);
    }

    /// The newest commit is about to be another.
    #[inline(always)]
    pub(crate) fn foresee_newest(&self) {
        prefetch::write((&raw const self.region.header().visible).cast());
    }

    /// A commit is the newest now, unless a later one is.
    #[inline(always)]
    pub(crate) fn raise_newest(&self, commit: Lsn) {
        let header = self.region.header();
        header.visible.0.fetch_max(commit.0, Ordering::SeqCst);
        header.recent.sleepers.wake();
    }

    /// How many items of a publish list one frame holds behind its link.
    pub(super) fn listed_in_frame(&self) -> usize {
        (self.region.page_size() / 4 - 1) / 3
    }

    /// Has a frame that the caller builds hold more of its publish list, behind the `last` that does.
    pub(super) fn begin_list(&self, frame: FrameId, last: Option<FrameId>, slot: &Slot) {
        self.region.frame_word(frame, 0).store(0, Ordering::Release);
        match last {
            Some(last) => self.region.frame_word(last, 0).store(frame.0, Ordering::Release),
            None => slot.set_list_more(frame),
        }
    }

    /// Sets the n-th item of those that a frame holds.
    pub(super) fn set_listed(&self, frame: FrameId, n: usize, item: ListItem) {
        let at = 1 + 3 * n;
        // Release: as in the slot (`Slot::set_item`).
        self.region.frame_word(frame, at).store(item.page.0, Ordering::Release);
        self.region.frame_word(frame, at + 1).store(item.old.0, Ordering::Release);
        self.region.frame_word(frame, at + 2).store(item.new.0, Ordering::Release);
    }

    /// The publish list of a slot. May be nonsense if the owner goes on meanwhile; the caller checks the role
    /// word afterwards.
    pub(crate) fn read_list(&self, slot: &Slot) -> Vec<ListItem> {
        let frames = self.frames_ready();
        let len = slot.list_len();
        let mut list: Vec<_> = (0..len.min(SLOT_LIST_INLINE)).map(|n| slot.item(n)).collect();
        let each = self.listed_in_frame();
        let mut more = slot.list_more();
        while list.len() < len && more != FrameId::NONE && u64::from(more.0) <= frames {
            let word = |n| self.region.frame_word(more, n).load(Ordering::Acquire);
            for n in 0..each.min(len - list.len()) {
                let at = 1 + 3 * n;
                list.push(ListItem {
                    page: PageId(word(at)),
                    old: FrameId(word(at + 1)),
                    new: FrameId(word(at + 2)),
                });
            }
            more = FrameId(word(0));
        }
        list
    }
}

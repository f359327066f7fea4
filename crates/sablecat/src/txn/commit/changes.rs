//! The changes of one commit while they are being prepared: latched pages and the new versions built for
//! them.
//!
//! A page is announced in the slot's publish list before its latch is taken, and the list names its old and
//! new frame before anything can be published, so that whoever finds the slot's owner dead can undo, and
//! whoever finds it slow past the commit point can finish. The list is kept here as well, where it can be
//! searched.
//!
//! While changes are held nothing of the pool can be waited for inside an operation; so reads here begin an
//! operation of their own, and frames are taken outside of any.
//!
//! `unsafe` here: building frames as bytes; each is owned by this participant, and the borrow of `self` keeps
//! two references apart.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::access::{PageRead, PageWrite, check_different, long};
use crate::error::{Error, Result};
use crate::pages::{InHand, Pages, Participant, Run, header};
use crate::region::{ListItem, SLOT_LIST_INLINE};
use crate::types::{FrameId, Lsn, PageId, TreeId, VolumeId};

/// Above this many changed pages they are found by hashing.
const LINEAR_MAX: usize = 12;
/// The pages that one commit changes.
pub(crate) struct Changes<'a> {
    pages: &'a Pages,
    me: &'a Participant,
    items: Vec<ListItem>,
    index: PageMap<usize>,
    /// Frames that hold the part of the list that the slot has no room for, each with its link in word 0.
    more: Vec<FrameId>,
    /// The snapshot at which pages that are not changed here are read.
    at: Lsn,
    /// Page ids to give back when the changes are dropped.
    allocated: Vec<PageId>,
    /// First pages of the runs that are freed here.
    freed_runs: Vec<PageId>,
    /// So many pages at most.
    most: usize,
    published: bool,
    /// From the first page id that is taken on.
    hand: Option<InHand<'a>>,
}

impl<'a> Changes<'a> {
    /// No changes yet, over the state at `at`, which `me` has pinned.
    #[inline]
    pub(crate) fn new(pages: &'a Pages, me: &'a Participant, at: Lsn) -> Changes<'a> {
        let items = me.list.take();
        debug_assert!(items.is_empty());
        Changes {
            pages,
            me,
            items,
            index: PageMap::default(),
            more: Vec::new(),
            at,
            allocated: Vec::new(),
            freed_runs: Vec::new(),
            most: usize::MAX,
            published: false,
            hand: None,
        }
    }

    /// Page ids are about to be taken, which have names when this is published.
    fn take_in_hand(&mut self) {
        if self.hand.is_none() {
            self.hand = Some(self.me.in_hand());
        }
    }

    /// No changes yet, over the newest state, which the participant's guard holds from now on.
    pub(in crate::txn) fn at_newest(pages: &'a Pages, me: &'a Participant) -> Changes<'a> {
        let mut changes = Changes::new(pages, me, Lsn::MAX);
        changes.at = changes.guard();
        changes
    }

    /// The state that they are over.
    pub(in crate::txn) fn at(&self) -> Lsn {
        self.at
    }

    /// Moves the participant's guard to the newest state, until these changes are published or dropped; says
    /// which that is.
    pub(in crate::txn) fn guard(&self) -> Lsn {
        self.pages.guard(self.me)
    }

    /// Has them fail with "too many" when they come to more pages than this.
    pub(in crate::txn) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// They only remove, and so may use the frames that are kept for that.
    pub(in crate::txn) fn only_remove(&mut self) {
        self.me.removes.set(true);
    }

    /// What changed, in the order of latching.
    #[inline]
    pub(crate) fn items(&self) -> &[ListItem] {
        &self.items
    }

    pub(crate) fn participant(&self) -> &'a Participant {
        self.me
    }

    /// The page's new version, if it is changed here.
    #[inline]
    fn find(&self, page: PageId) -> Option<usize> {
        if self.items.len() <= LINEAR_MAX {
            self.items.iter().rposition(|item| item.page == page)
        } else {
            self.index.get(&page).copied()
        }
    }

    /// Whether the page is among the changes already.
    #[inline]
    pub(crate) fn holds(&self, page: PageId) -> bool {
        self.find(page).is_some()
    }

    /// Holds a page whose id nobody else knows, with a building frame for its first version. The id is for
    /// the caller to give back.
    fn add(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        let index = self.items.len();
        self.set(index, ListItem { page, old: FrameId::NONE, new: FrameId::NONE })?;
        let old = self.pages.latch(page, self.me)?;
        debug_assert_eq!(old, FrameId::NONE, "a page just allocated has no version");
        self.note(page, index);
        let new = self.frame()?;
        // SAFETY: the frame is building and ours.
        unsafe { self.pages.first_version(new, page, home) };
        let item = ListItem { page, old: FrameId::NONE, new };
        self.items[index] = item;
        self.set(index, item)
    }

    /// Holds the first page of a run whose rest is stored, and forms it. Who has the run gives all its ids
    /// back, or keeps it.
    pub(in crate::txn) fn add_run(&mut self, run: &Run<'_>, tree: TreeId, value: &[u8]) -> Result<PageId> {
        let first = run.first();
        self.add(first, run.home())?;
        long::form(self.write(first)?, first, tree, value, 0);
        Ok(first)
    }

    /// Makes the page findable.
    #[inline]
    fn note(&mut self, page: PageId, index: usize) {
        if self.items.len() == LINEAR_MAX + 1 {
            self.index = self.items.iter().enumerate().map(|(n, item)| (item.page, n)).collect();
        } else if self.items.len() > LINEAR_MAX {
            self.index.insert(page, index);
        }
    }

    /// Latches a page, and with `wait` off gives up if it is taken. True if held afterwards.
    fn hold(&mut self, page: PageId, wait: bool) -> Result<Option<usize>> {
        if let Some(found) = self.find(page) {
            return Ok(Some(found));
        }
        let index = self.items.len();
        self.set(index, ListItem { page, old: FrameId::NONE, new: FrameId::NONE })?;
        let old = if wait {
            self.pages.latch(page, self.me)?
        } else {
            match self.pages.try_latch(page, self.me) {
                Some(old) => old,
                None => {
                    self.items.pop();
                    self.me.slot().set_list_len(self.items.len());
                    return Ok(None);
                }
            }
        };
        self.note(page, index);
        // In the slot it is not needed before there is a new version beside it.
        self.items[index].old = if old == FrameId::NONE { self.load(page)? } else { old };
        Ok(Some(index))
    }

    /// The version of a held page that was current when it was latched; none for a page added here.
    pub(crate) fn read_old<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let item = self.items[self.find(page)?];
        // SAFETY: latched by us, so the version that was current stays.
        (item.old != FrameId::NONE).then(|| look(unsafe { self.pages.bytes(item.old) }))
    }

    /// Reads in a page whose latch we hold.
    #[cold]
    fn load(&mut self, page: PageId) -> Result<FrameId> {
        self.pages.with_frames(self.me, || self.pages.load_under_latch(page, self.me))
    }

    /// Ends the latch of the page latched last, which must not have been written.
    pub(crate) fn release_last(&mut self) {
        let item = self.items.pop().expect("a page was latched");
        debug_assert_eq!(item.new, FrameId::NONE);
        self.index.remove(&item.page);
        self.pages.unlatch(item.page, self.me);
        self.me.slot().set_list_len(self.items.len());
    }

    fn frame(&mut self) -> Result<FrameId> {
        let (pages, me) = (self.pages, self.me);
        if me.removes.get() {
            return pages.take_frame(me).or_else(|error| {
                if error.is_out_of_frames() { pages.frame_to_remove(me) } else { Err(error) }
            });
        }
        pages.with_frames(me, || pages.take_frame(me))
    }

    /// Writes a list item here and in the slot, or in the frames that continue it.
    #[inline]
    fn set(&mut self, index: usize, item: ListItem) -> Result<()> {
        if index >= self.most {
            return Err(Error::too_many());
        }
        if index >= SLOT_LIST_INLINE {
            self.set_more(index - SLOT_LIST_INLINE, item)?;
        }
        let slot = self.me.slot();
        if index < SLOT_LIST_INLINE {
            slot.set_item(index, item);
        }
        if index == self.items.len() {
            slot.set_list_len(index + 1);
            self.items.push(item);
        }
        Ok(())
    }

    #[cold]
    fn set_more(&mut self, index: usize, item: ListItem) -> Result<()> {
        let each = self.pages.listed_in_frame();
        if index / each == self.more.len() {
            let frame = self.frame()?;
            self.pages.begin_list(frame, self.more.last().copied(), self.me.slot());
            self.more.push(frame);
        }
        self.pages.set_listed(self.more[index / each], index % each, item);
        Ok(())
    }

    /// The new version of a held page, copied from the current one at the first call.
    #[inline]
    fn version(&mut self, index: usize) -> Result<FrameId> {
        let item = self.items[index];
        if item.new != FrameId::NONE {
            return Ok(item.new);
        }
        // Latched, so the version has a block or is to have one: which volume that is in does not change.
        // Loaded before the copy, so that one miss of the cache hides behind the other.
        let home = self.pages.home_of_next(item.old);
        let new = self.frame()?;
        // SAFETY: the new frame is building and ours; the old one is current and latched by us.
        unsafe { self.pages.next_version(new, item.page, item.old, home) };
        let item = ListItem { new, ..item };
        self.items[index] = item;
        self.set(index, item)?;
        Ok(new)
    }

    /// Everything is published (the commit step swung all entries): nothing is to be undone.
    #[inline]
    pub(crate) fn published(mut self, at: Lsn) {
        self.published = true;
        for item in &self.items {
            if item.new == FrameId::NONE {
                self.pages.unlatch(item.page, self.me);
            } else if item.old != FrameId::NONE {
                self.pages.superseded(item.old, at, self.me);
            }
        }
        self.freed_runs.drain(..).for_each(|first| self.pages.note_freed(first));
    }
}

/// Something of each of some pages.
pub(in crate::txn) type PageMap<T> = HashMap<PageId, T, BuildHasherDefault<PageHasher>>;

/// Hashes page ids, which the engine itself gives out: by one multiplication.
#[derive(Default)]
pub(in crate::txn) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    #[inline]
    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table looks at the lowest and the highest bits, and the multiplication leaves the best in the
        // highest half.
        self.0.rotate_left(32)
    }
}

impl Drop for Changes<'_> {
    /// Undoes what was not published: frees the new frames, ends the latches, gives back the page ids.
    #[inline]
    fn drop(&mut self) {
        // Of who was taken for dead all of it is for others to mend, or mended.
        if !self.published && !self.pages.is_fenced() {
            for item in self.items.drain(..).rev() {
                if item.new != FrameId::NONE {
                    self.pages.drop_frame(item.new, self.me);
                }
                self.pages.unlatch(item.page, self.me);
            }
            for page in self.allocated.drain(..) {
                self.pages.release_page(page);
            }
        }
        let slot = self.me.slot();
        slot.set_list_len(0);
        if !self.more.is_empty() {
            slot.set_list_more(FrameId::NONE);
        }
        slot.unguard();
        for frame in self.more.drain(..) {
            self.pages.drop_frame(frame, self.me);
        }
        self.items.clear();
        self.me.list.replace(std::mem::take(&mut self.items));
        self.me.removes.set(false);
        if self.me.owes.get() {
            self.pages.keep_last(self.me);
        }
    }
}

impl PageRead for Changes<'_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        if let Some(index) = self.find(page) {
            let item = self.items[index];
            let frame = if item.new == FrameId::NONE { item.old } else { item.new };
            // SAFETY: latched by us, or our own building frame; `look` cannot reach `self` mutably.
            return Ok(look(unsafe { self.pages.bytes(frame) }));
        }
        self.pages.show(page, self.at, self.me, look)
    }

    fn page_size(&self) -> usize {
        self.pages.page_size()
    }
}

impl PageWrite for Changes<'_> {
    // Only the holder of the latch may supersede or evict the newest version.
    #[inline]
    fn latched(&mut self, page: PageId) -> Result<&[u8]> {
        let index = self.hold(page, true)?.expect("waiting ends with the latch");
        let item = self.items[index];
        let frame = if item.new == FrameId::NONE { item.old } else { item.new };
        // SAFETY: the page is latched by us, so its current version stays; or the frame is our own building
        // one.
        Ok(unsafe { self.pages.bytes(frame) })
    }

    #[inline]
    fn write(&mut self, page: PageId) -> Result<&mut [u8]> {
        let index = self.hold(page, true)?.expect("waiting ends with the latch");
        let frame = self.version(index)?;
        // SAFETY: the frame is building and ours; the borrow of `self` keeps other references away.
        Ok(unsafe { self.pages.bytes_mut(frame) })
    }

    fn write_all<const N: usize>(&mut self, pages: [PageId; N]) -> Result<[&mut [u8]; N]> {
        check_different(&pages)?;
        let mut frames = [FrameId::NONE; N];
        for (frame, page) in frames.iter_mut().zip(pages) {
            let index = self.hold(page, true)?.expect("waiting ends with the latch");
            *frame = self.version(index)?;
        }
        // SAFETY: different building frames, all ours; the borrow of `self` keeps other references away.
        Ok(frames.map(|frame| unsafe { self.pages.bytes_mut(frame) }))
    }

    fn allocate(&mut self, home: VolumeId) -> Result<PageId> {
        self.take_in_hand();
        let page = self.pages.allocate_page()?;
        self.allocated.push(page);
        self.add(page, home)?;
        Ok(page)
    }

    fn allocate_run(&mut self, home: VolumeId, count: u64) -> Result<PageId> {
        self.take_in_hand();
        let first = self.pages.allocate_run(count)?;
        let run = (first.0..first.0 + count as u32).map(PageId);
        self.allocated.extend(run.clone());
        run.into_iter().try_for_each(|page| self.add(page, home))?;
        Ok(first)
    }

    fn settle(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        let index = self.hold(page, true)?.expect("waiting ends with the latch");
        let frame = self.version(index)?;
        self.pages.send_to(frame, home);
        Ok(())
    }

    fn free(&mut self, page: PageId) -> Result<()> {
        self.free_run(page, 1)
    }

    fn free_run(&mut self, first: PageId, count: u64) -> Result<()> {
        self.pages.check_run(first, count)?;
        let freed_after = (count - 1) as u32;
        header::form_free(self.write(first)?, first, freed_after);
        if freed_after > 0 {
            self.freed_runs.push(first);
        }
        Ok(())
    }

    fn try_claim(&mut self, page: PageId) -> Result<bool> {
        Ok(self.hold(page, false)?.is_some())
    }
}

//! The new versions of one commit while they are being built: latched pages, and a frame for each that is
//! changed.
//!
//! A page is announced in the slot's publish list before its latch is taken, and the list names its old and
//! new frame before anything can be published, so that a participant that finds the slot's owner dead can
//! undo, and one that finds it slow past the commit point can finish. The list is kept here as well, where it
//! can be searched.
//!
//! Nobody gets at the bytes of a frame that is being built but by what is kept here, and for as long as that
//! lasts: what is latched and building ends with it, published or undone.
//!
//! While versions are held nothing of the pool can be waited for inside an operation; so frames are taken
//! outside of any.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use sablecat_os::atomic::Ordering;

use sablecat_os::prefetch;

use super::Pool;
use crate::error::{Error, Result};
use crate::pages::participants::LocalParticipant;
use crate::region::{FrameState, ListItem, SLOT_LIST_INLINE};
use crate::seldom::Seldom;
use crate::types::{FrameId, Lsn, PageId, VolumeId};

/// So many lines are fetched ahead of being copied: no more than a processor keeps track of.
const LINES_AHEAD: usize = 4;
/// Above this many changed pages they are found by hashing.
const LINEAR_MAX: usize = 12;

/// The versions that one commit builds, and the latches of their pages.
#[derive(Debug)]
pub(crate) struct NewVersions<'a> {
    pool: &'a Pool,
    me: &'a LocalParticipant,
    /// Each page is latched by `me`, and named once. `old` is its current version, and stays that; `new`, if
    /// there is one, is building, by `me`.
    items: Vec<ListItem>,
    long: Seldom<Long>,
    /// So many pages at most.
    most: usize,
    /// What was published of them.
    put: Vec<ListItem>,
}

/// What a long list has beside its items.
#[derive(Debug, Default)]
struct Long {
    /// Where in it a page is.
    index: PageMap<usize>,
    /// What was found last: a page is looked for several times for each of its records.
    last: Cell<usize>,
    /// Frames that hold the part of the list that the slot has no room for, each with its link in word 0.
    more: Vec<FrameId>,
}

impl Long {
    #[inline]
    fn find(&self, page: PageId, items: &[ListItem]) -> Option<usize> {
        if items.get(self.last.get()).is_some_and(|item| item.page == page) {
            return Some(self.last.get());
        }
        let found = self.index.get(&page).copied();
        self.last.set(found.unwrap_or_default());
        found
    }
}

impl<'a> NewVersions<'a> {
    /// None yet.
    #[inline]
    pub(crate) fn new(pool: &'a Pool, me: &'a LocalParticipant) -> NewVersions<'a> {
        let items = me.list.take();
        debug_assert!(items.is_empty());
        NewVersions { pool, me, items, long: Seldom::default(), most: usize::MAX, put: Vec::new() }
    }

    /// Has them fail with "too many" when they come to more pages than this.
    pub(crate) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Pages and versions, in the order of latching.
    #[inline]
    pub(crate) fn items(&self) -> &[ListItem] {
        &self.items
    }

    #[inline]
    pub(crate) fn participant(&self) -> &'a LocalParticipant {
        self.me
    }

    /// Where a page is among them.
    #[inline]
    pub(crate) fn find(&self, page: PageId) -> Option<usize> {
        if self.items.len() <= LINEAR_MAX {
            self.items.iter().rposition(|item| item.page == page)
        } else {
            self.long.get().and_then(|long| long.find(page, &self.items))
        }
    }

    /// The new version of the n-th page, or the current one if there is none.
    #[inline]
    pub(crate) fn bytes(&self, n: usize) -> &[u8] {
        let item = self.items[n];
        let frame = if item.new == FrameId::NONE { item.old } else { item.new };
        // SAFETY: the page is latched by `me`, so its current version stays; or the frame is building and
        // ours, and is written through `&mut self` only.
        unsafe { self.pool.bytes(frame) }
    }

    /// The version of the n-th page that was current when it was latched; none if it was added here.
    pub(crate) fn old(&self, n: usize) -> Option<&[u8]> {
        let old = self.items[n].old;
        // SAFETY: latched by `me`, so the version that was current stays.
        (old != FrameId::NONE).then(|| unsafe { self.pool.bytes(old) })
    }

    /// The new version of the n-th page, to be written: copied from the current one at the first call, but
    /// for its gap, where anything is.
    #[inline]
    pub(crate) fn write(&mut self, n: usize) -> Result<&mut [u8]> {
        let mut item = self.items[n];
        if item.new == FrameId::NONE {
            // Latched, so the version has a block or is to have one: which volume that is in does not change.
            // Loaded before the copy, so that one miss of the cache hides behind the other.
            let home = self.pool.region.frame(item.old).block().dropped();
            item.new = self.frame()?;
            // SAFETY: the new frame is building and ours, and nobody has it yet; the old one is current and
            // latched by us.
            let (new, old) = unsafe { (self.pool.bytes_mut(item.new), self.pool.bytes(item.old)) };
            let gap = self.pool.kinds.gap_in(old);
            // What is behind the gap is on its way while what is before it is copied.
            let (before, behind) = (&old[..gap.start], &old[gap.end..]);
            (0..LINES_AHEAD).for_each(|line| prefetch::read(behind.as_ptr().wrapping_add(64 * line)));
            new[..gap.start].copy_from_slice(before);
            new[gap.end..].copy_from_slice(behind);
            if cfg!(debug_assertions) {
                new[gap].fill(0xee);
            }
            self.pool.region.frame(item.new).describe(item.page, item.old, home);
            self.items[n] = item;
            self.set(n, item)?;
        }
        // SAFETY: the frame is building and ours; the borrow of `self` keeps other references away.
        Ok(unsafe { self.pool.bytes_mut(item.new) })
    }

    /// As [`NewVersions::write`], of several, which are different ones.
    pub(crate) fn write_all<const N: usize>(&mut self, all: [usize; N]) -> Result<[&mut [u8]; N]> {
        let is_first = |at: usize| !all[..at].contains(&all[at]);
        assert!((0..N).all(is_first), "a page is written once at a time");
        all.iter().try_for_each(|&n| self.write(n).map(drop))?;
        // SAFETY: building frames, all ours, of different pages, and so different ones; the borrow of `self`
        // keeps other references away.
        Ok(all.map(|n| unsafe { self.pool.bytes_mut(self.items[n].new) }))
    }

    /// Has the new version of the n-th page go to a volume.
    pub(crate) fn send_to(&mut self, n: usize, home: VolumeId) -> Result<()> {
        self.write(n)?;
        self.pool.send_to(self.items[n].new, home);
        Ok(())
    }

    /// Adds a page whose id nobody else knows, with a frame of zeros for its first version. The id is for the
    /// caller to give back.
    pub(crate) fn add(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        let index = self.items.len();
        self.set(index, ListItem { page, old: FrameId::NONE, new: FrameId::NONE })?;
        let old = self.pool.latch(page, self.me)?;
        debug_assert_eq!(old, FrameId::NONE, "a page just allocated has no version");
        self.note(page, index);
        let new = self.frame()?;
        // SAFETY: the frame is building and ours.
        unsafe { self.pool.first_version(new, page, home) };
        let item = ListItem { page, old: FrameId::NONE, new };
        self.items[index] = item;
        self.set(index, item)
    }

    /// Latches a page, and says where it is among them. With `wait` off: none if another has it.
    pub(crate) fn hold(&mut self, page: PageId, wait: bool) -> Result<Option<usize>> {
        if let Some(found) = self.find(page) {
            return Ok(Some(found));
        }
        let index = self.items.len();
        self.set(index, ListItem { page, old: FrameId::NONE, new: FrameId::NONE })?;
        let old = if wait {
            self.pool.latch(page, self.me)?
        } else {
            match self.pool.try_latch(page, self.me) {
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

    /// Makes the page findable.
    #[inline]
    fn note(&mut self, page: PageId, index: usize) {
        if self.items.len() > LINEAR_MAX {
            self.note_in_long(page, index);
        }
    }

    #[cold]
    fn note_in_long(&mut self, page: PageId, at: usize) {
        let index = &mut self.long.needed().index;
        if self.items.len() == LINEAR_MAX + 1 {
            index.clear();
            index.extend(self.items.iter().enumerate().map(|(n, item)| (item.page, n)));
        } else {
            index.insert(page, at);
        }
    }

    /// Reads in a page whose latch we hold.
    #[cold]
    fn load(&mut self, page: PageId) -> Result<FrameId> {
        self.pool.with_frames(self.me, || self.pool.load_under_latch(page, self.me))
    }

    /// Ends the latch of the page latched last, which must not have been written.
    pub(crate) fn release_last(&mut self) {
        let item = self.items.pop().expect("a page was latched");
        debug_assert_eq!(item.new, FrameId::NONE);
        if let Some(long) = self.long.get_mut() {
            long.index.remove(&item.page);
        }
        self.pool.unlatch(item.page, self.me);
        self.me.slot().set_list_len(self.items.len());
    }

    fn frame(&mut self) -> Result<FrameId> {
        let (pool, me) = (self.pool, self.me);
        if me.removes.get() {
            return pool.take_frame(me).or_else(|error| {
                if error.is_out_of_frames() { pool.frame_to_remove(me) } else { Err(error) }
            });
        }
        pool.with_frames(me, || pool.take_frame(me))
    }

    /// Writes a list item here and in the slot, or in the frames that continue it.
    ///
    /// Always inlined: what an item consists of is in registers then, and stored from there.
    #[inline(always)]
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
        let each = self.pool.listed_in_frame();
        if index / each == self.long.needed().more.len() {
            let frame = self.frame()?;
            let more = &mut self.long.needed().more;
            self.pool.begin_list(frame, more.last().copied(), self.me.slot());
            more.push(frame);
        }
        self.pool.set_listed(self.long.needed().more[index / each], index % each, item);
        Ok(())
    }

    /// Ends the building: they are those of the commit at an LSN.
    #[inline]
    pub(crate) fn finish(&mut self, commit: Lsn) {
        let region = &self.pool.region;
        for item in self.items.iter().filter(|item| item.new != FrameId::NONE) {
            // Release of the state publishes the bytes to chain walkers; the entry's swing publishes them to
            // everybody else.
            region.born(item.new).store(commit.0, Ordering::Relaxed);
            region.frame(item.new).set_state(FrameState::Published);
        }
    }

    /// In the commit step: has the pages' entries name them. From then on they are not among these, and
    /// nobody writes them.
    #[inline]
    pub(crate) fn put_in_place(&mut self, commit: Lsn) {
        for &item in &self.items {
            self.pool.put_in_place(item, commit, self.me.number());
        }
        std::mem::swap(&mut self.items, &mut self.put);
    }

    /// Whether the pages' entries name them, of which there are some.
    #[inline]
    pub(crate) fn are_put(&self) -> bool {
        !self.put.is_empty()
    }

    /// After the commit step: ends the latches of what was not changed, and remembers the old versions, to be
    /// freed when these are dropped.
    #[inline]
    pub(crate) fn settle(&mut self, commit: Lsn) {
        for item in &self.put {
            if item.new == FrameId::NONE {
                self.pool.unlatch(item.page, self.me);
            } else if item.old != FrameId::NONE {
                self.pool.superseded(item.old, commit, self.me);
            }
        }
    }

    /// Undoes what was not published: frees the new frames, ends the latches.
    pub(crate) fn undo(&mut self) {
        for item in self.items.drain(..).rev() {
            if item.new != FrameId::NONE {
                self.pool.drop_frame(item.new, self.me);
            }
            self.pool.unlatch(item.page, self.me);
        }
    }
}

impl NewVersions<'_> {
    /// Moves the participant's guard to the newest state, until these versions are published or dropped; says
    /// which that is.
    #[inline]
    pub(crate) fn guard(&self) -> Lsn {
        self.pool.guard(self.me)
    }

    #[cold]
    fn end_long(&self, long: Long) {
        let slot = self.me.slot();
        if !long.more.is_empty() {
            slot.set_list_more(FrameId::NONE);
        }
        slot.unguard();
        long.more.into_iter().for_each(|frame| self.pool.drop_frame(frame, self.me));
    }
}

impl Drop for NewVersions<'_> {
    /// Undoes what was not published, and ends the list.
    #[inline]
    fn drop(&mut self) {
        // If this process was taken for dead, all of it is for others to mend, or mended.
        if !self.items.is_empty() && !self.pool.is_fenced() {
            self.undo();
        }
        let slot = self.me.slot();
        slot.set_list_len(0);
        match self.long.take() {
            Some(long) => self.end_long(long),
            None => slot.unguard(),
        }
        let mut memory =
            std::mem::take(if self.put.capacity() == 0 { &mut self.items } else { &mut self.put });
        memory.clear();
        self.me.list.replace(memory);
        self.me.removes.set(false);
        self.pool.reclaim_batch(self.me);
        if self.me.owes.get() {
            self.pool.keep_last(self.me);
        }
    }
}

/// Something of each of some pages.
pub(crate) type PageMap<T> = HashMap<PageId, T, BuildHasherDefault<PageHasher>>;

/// Hashes page ids, which the engine itself gives out: by one multiplication.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

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

//! Access methods: how records are arranged in pages.
//!
//! They see pages through two small traits and know nothing of disks, logs, versions or latches. What
//! implements the traits decides what a read means (a snapshot, or the newest state under latches) and what a
//! write means (a new version, or the page itself).

mod ahead;
pub(crate) mod btree;
mod each;
mod estimate;
#[cfg(feature = "seam")]
mod flat;
mod hash;
mod home;
mod in_order;
mod in_turn;
mod layers;
pub(crate) mod long;
mod lsm;
mod method;
mod numbers;
mod one_by_one;
mod reads;
mod scan;
mod sought;
mod uses;
mod whole;
mod wrong;

pub(crate) use btree::{Append, Appending, RecordsOnPage, Several, UnfinishedSubtree};
pub(crate) use each::Counting;
pub use each::Each;
pub(crate) use estimate::{Estimate, RecordEstimate};
#[cfg(feature = "seam")]
pub use hash::hash_order;
pub(crate) use hash::{HashTable, Hashing, SEED_BYTES, Seed};
pub(crate) use home::{Home, KeyRule, after};
pub(crate) use in_order::InOrder;
pub(crate) use lsm::{Drawing, DrawnStep, LayerDuty, LayerLimits};
pub use method::Method;
#[cfg(feature = "fuzzing")]
pub(crate) use method::exercise;
pub(crate) use method::{KeyPlace, Order, SetOrRemove, StoredValue, Tree, Tried, form_blank};
pub(crate) use scan::{
    KeyBounds, KeySpan, PageCopy, Part, PendingRecord, Scan, ScanSource, Scanned, ScannedValue, StateId,
    StateSource, WantedPage,
};
pub(crate) use sought::Sought;
pub(crate) use whole::Load;

use std::ops::Range;

use crate::error::{Error, Result};
use crate::pages::{PageKinds, Snapshot, header};
use crate::types::{PageId, VolumeId};

/// Sees pages.
pub(crate) trait PageRead {
    /// Shows a page to `look`, which may keep nothing of it. Repeats nothing: `look` is called once, or an
    /// error is returned.
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R>;

    /// Bytes of a page.
    fn page_size(&self) -> usize;

    /// How often a page had to be waited for, since it was not in memory.
    #[inline]
    fn waits(&self) -> u32 {
        0
    }

    /// Asks for pages that will be read soon. Says how many are on their way, which were not in memory.
    fn ask_for(&self, _pages: &[PageId]) -> usize {
        0
    }

    /// So many are asked for at once, at most.
    fn ahead_max(&self) -> usize {
        0
    }
}

impl PageRead for Snapshot<'_> {
    #[inline(always)]
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.show(page, look)
    }

    #[inline]
    fn page_size(&self) -> usize {
        self.operation.pages.page_size()
    }

    #[inline]
    fn waits(&self) -> u32 {
        Snapshot::waits(self)
    }

    fn ask_for(&self, pages: &[PageId]) -> usize {
        Snapshot::ask_for(self, pages)
    }

    fn ahead_max(&self) -> usize {
        Snapshot::ahead_max(self)
    }
}

/// What the pages know of what is in them.
pub(crate) const PAGE_KINDS: PageKinds = PageKinds { check: check_page, gap: gap_of };

/// Tells whether bytes read from disk form a page that the access methods can work on: memory-safe and
/// without panics from then on.
pub(crate) fn check_page(bytes: &[u8]) -> std::result::Result<(), String> {
    match header::kind(bytes) {
        Some(long::KIND_LONG) => long::check(bytes),
        Some(kind) if hash::is_kind(kind) => hash::check(bytes),
        Some(lsm::KIND) => lsm::check(bytes),
        #[cfg(feature = "seam")]
        Some(flat::KIND) => flat::check(bytes),
        _ => btree::node::check_bounds(bytes),
    }
}

/// The bytes of a page that mean nothing, between what grows from both its ends.
#[inline]
fn gap_of(page: &[u8]) -> Range<usize> {
    match header::kind(page) {
        Some(kind) if hash::is_kind(kind) => hash::gap_of(page),
        _ if btree::node::kind(page).is_some() => btree::node::gap_of(page),
        _ => 0..0,
    }
}

/// An error if pages that are to be changed together are not different: whatever leads to them is damaged.
pub(crate) fn check_different(pages: &[PageId]) -> Result<()> {
    match pages.iter().enumerate().find(|&(n, page)| pages[..n].contains(page)) {
        None => Ok(()),
        Some((_, page)) => Err(Error::corruption(format!("page {page} is led to twice, or leads to itself"))),
    }
}

/// Changes pages. What it has changed, it also reads.
pub(crate) trait PageWrite: PageRead {
    /// The newest bytes of a page, which nobody else changes before this writer is done.
    fn latched(&mut self, page: PageId) -> Result<&[u8]>;

    /// The bytes of a page, to be changed.
    fn write(&mut self, page: PageId) -> Result<&mut [u8]>;

    /// The bytes of different pages, all to be changed. All are there when this returns: so a writer that has
    /// to change one together with the next does not fail in between, for want of room or as one cannot be
    /// read.
    ///
    /// # Errors
    /// Corruption if they are not different; those of writing each.
    fn write_all<const N: usize>(&mut self, pages: [PageId; N]) -> Result<[&mut [u8]; N]>;

    /// Has some pages be such that [`PageWrite::write`] of any of them does not fail, until something else is
    /// done: so a writer that has to change all of them does not fail in between.
    fn make_ready(&mut self, pages: &[PageId]) -> Result<()> {
        pages.iter().try_for_each(|&page| self.write(page).map(drop))
    }

    /// Adds a page, to be in this volume; its bytes are undefined until the caller has formatted them.
    fn allocate(&mut self, home: VolumeId) -> Result<PageId>;

    /// Adds pages with consecutive ids, to be in this volume, and names the first. At least one.
    fn allocate_run(&mut self, home: VolumeId, count: u64) -> Result<PageId>;

    /// Has a page that is being written be in this volume from now on.
    fn settle(&mut self, page: PageId, home: VolumeId) -> Result<()>;

    /// Ends a page: nothing in the state this writer makes refers to it.
    fn free(&mut self, page: PageId) -> Result<()>;

    /// Ends `count` pages with consecutive ids, as [`PageWrite::free`] does, that have never been changed
    /// since they were written.
    fn free_run(&mut self, first: PageId, count: u64) -> Result<()>;

    /// Gives back pages that were made and that nothing leads to, as what they were made for has failed. A
    /// writer that makes new versions drops them with all others then: so this is for writers in place.
    fn give_back(&mut self, _first: PageId, _count: u64) {}

    /// Whether `page` could be written without waiting for anybody, and if so, claims it.
    fn try_claim(&mut self, page: PageId) -> Result<bool>;
}

/// Changes pages in copies, which have other numbers.
pub(crate) trait CopyWrite: PageWrite {
    /// Whether a page is a copy, or was made: nobody else knows it.
    fn is_own(&self, page: PageId) -> Result<bool>;

    /// Whether as many pages were changed or copied as should be at once: what is left to copy can wait for
    /// another time.
    fn is_full(&self) -> bool;

    /// Copies a page of a tree, which then is not needed any more if all this comes about.
    fn copy(&mut self, tree: &Tree<'_>, page: PageId) -> Result<PageId>;

    /// What was begun with a subtree and is not ended.
    fn begun(&mut self) -> &mut UnfinishedSubtree;
}

//! The changes of one commit while they are being prepared: what the access methods write, as new versions of
//! latched pages (pages/pool/new_versions.rs), and the page ids that they take and give back.
//!
//! While changes are held nothing of the pool can be waited for inside an operation; so reads here begin an
//! operation of their own.

use crate::access::{PageRead, PageWrite, check_different, long};
use crate::error::{Error, Result};
use crate::pages::{InHand, LocalParticipant, NewVersions, PageRun, Pages, header};
use crate::region::ListItem;
use crate::seldom::Seldom;
use crate::types::{Lsn, PageId, TreeId, VolumeId};

/// The pages that one commit changes.
pub(crate) struct ChangedPages<'a> {
    pages: &'a Pages,
    pub(super) versions: NewVersions<'a>,
    /// The snapshot at which pages that are not changed here are read.
    at: Lsn,
    ids: Seldom<Ids<'a>>,
}

/// The page ids that changes take and give back.
#[derive(Default)]
struct Ids<'a> {
    /// To be given back when the changes are dropped.
    allocated: Vec<PageId>,
    /// First pages of the runs that are freed here.
    freed_runs: Vec<PageId>,
    /// Single pages, likewise.
    freed: Vec<PageId>,
    /// From the first page id that is taken on.
    hand: Option<InHand<'a>>,
}

impl<'a> ChangedPages<'a> {
    /// No changes yet, over the state at `at`, which `me` has pinned.
    #[inline]
    pub(crate) fn new(pages: &'a Pages, me: &'a LocalParticipant, at: Lsn) -> ChangedPages<'a> {
        ChangedPages { pages, versions: NewVersions::new(pages, me), at, ids: Seldom::default() }
    }

    /// Page ids are about to be taken, which have names when this is published.
    fn take_in_hand(&mut self) {
        let me = self.participant();
        self.ids.needed().hand.get_or_insert_with(|| me.in_hand());
    }

    /// No changes yet, over the newest state, which the participant's guard holds from now on.
    pub(in crate::txn) fn at_newest(pages: &'a Pages, me: &'a LocalParticipant) -> ChangedPages<'a> {
        let mut changes = ChangedPages::new(pages, me, Lsn::MAX);
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
        self.versions.guard()
    }

    /// Has them fail with "too many" when they come to more pages than this.
    pub(in crate::txn) fn limit(&mut self, most: usize) {
        self.versions.limit(most);
    }

    /// They only remove, and so may use the frames that are kept for that.
    pub(in crate::txn) fn only_remove(&mut self) {
        self.participant().removes.set(true);
    }

    /// What changed, in the order of latching.
    #[inline]
    pub(crate) fn items(&self) -> &[ListItem] {
        self.versions.items()
    }

    #[inline]
    pub(crate) fn participant(&self) -> &'a LocalParticipant {
        self.versions.participant()
    }

    /// Whether the page is among the changes already.
    #[inline]
    pub(crate) fn holds(&self, page: PageId) -> bool {
        self.versions.find(page).is_some()
    }

    /// Holds the first page of a run whose rest is stored, and forms it. The caller has the run, and gives
    /// all its ids back or keeps it.
    pub(in crate::txn) fn add_run(
        &mut self,
        run: &PageRun<'_>,
        tree: TreeId,
        value: &[u8],
    ) -> Result<PageId> {
        let first = run.first();
        self.versions.add(first, run.home())?;
        long::form(self.write(first)?, first, tree, value, 0);
        Ok(first)
    }

    /// The version of a held page that was current when it was latched; none for a page added here.
    pub(crate) fn read_old<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.versions.old(self.versions.find(page)?).map(look)
    }

    /// Ends the latch of the page latched last, which must not have been written.
    pub(crate) fn release_last(&mut self) {
        self.versions.release_last();
    }
}

impl ChangedPages<'_> {
    #[cold]
    fn undo(&mut self) {
        // If this process was taken for dead, all of it is for others to mend, or mended.
        if self.pages.is_fenced() {
            return;
        }
        self.versions.undo();
        if let Some(ids) = self.ids.get_mut() {
            ids.allocated.drain(..).for_each(|page| self.pages.release_page(page));
        }
    }
}

impl Drop for ChangedPages<'_> {
    /// Undoes what was not published: frees the new frames, ends the latches, gives back the page ids.
    #[inline]
    fn drop(&mut self) {
        if self.versions.are_put() {
            let me = self.versions.participant();
            if let Some(ids) = self.ids.get_mut() {
                ids.freed_runs.drain(..).for_each(|first| self.pages.note_freed(first));
                self.pages.note_own_freed(ids.freed.drain(..), me);
            }
        } else {
            self.undo();
        }
    }
}

impl PageRead for ChangedPages<'_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        if let Some(index) = self.versions.find(page) {
            return Ok(look(self.versions.bytes(index)));
        }
        self.pages.show(page, self.at, self.participant(), look)
    }

    fn page_size(&self) -> usize {
        self.pages.page_size()
    }
}

impl PageWrite for ChangedPages<'_> {
    #[inline]
    fn latched(&mut self, page: PageId) -> Result<&[u8]> {
        let index = self.versions.hold(page, true)?.expect("waiting ends with the latch");
        Ok(self.versions.bytes(index))
    }

    #[inline]
    fn write(&mut self, page: PageId) -> Result<&mut [u8]> {
        let index = self.versions.hold(page, true)?.expect("waiting ends with the latch");
        self.versions.write(index)
    }

    fn write_all<const N: usize>(&mut self, pages: [PageId; N]) -> Result<[&mut [u8]; N]> {
        check_different(&pages)?;
        let mut all = [0; N];
        for (index, page) in all.iter_mut().zip(pages) {
            *index = self.versions.hold(page, true)?.expect("waiting ends with the latch");
        }
        self.versions.write_all(all)
    }

    fn allocate(&mut self, home: VolumeId) -> Result<PageId> {
        self.take_in_hand();
        let page = self.pages.allocate_page()?;
        self.ids.needed().allocated.push(page);
        self.versions.add(page, home)?;
        Ok(page)
    }

    fn allocate_run(&mut self, home: VolumeId, count: u64) -> Result<PageId> {
        self.take_in_hand();
        let first = self.pages.allocate_run(count)?;
        let run = (first.0..first.0 + count as u32).map(PageId);
        self.ids.needed().allocated.extend(run.clone());
        run.into_iter().try_for_each(|page| self.versions.add(page, home))?;
        Ok(first)
    }

    fn settle(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        let index = self.versions.hold(page, true)?.expect("waiting ends with the latch");
        self.versions.send_to(index, home)
    }

    fn free(&mut self, page: PageId) -> Result<()> {
        self.free_run(page, 1)
    }

    fn free_run(&mut self, first: PageId, count: u64) -> Result<()> {
        self.pages.check_run(first, count)?;
        let freed_after = (count - 1) as u32;
        let bytes = self.write(first)?;
        if header::is_free(bytes) {
            return Err(Error::corruption(format!("page {first} is to be freed, and is free")));
        }
        header::form_free(bytes, first, freed_after);
        let ids = self.ids.needed();
        if freed_after > 0 { &mut ids.freed_runs } else { &mut ids.freed }.push(first);
        Ok(())
    }

    fn try_claim(&mut self, page: PageId) -> Result<bool> {
        Ok(self.versions.hold(page, false)?.is_some())
    }
}

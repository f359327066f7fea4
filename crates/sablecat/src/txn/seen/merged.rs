//! A transaction's state as a scan sees it: the snapshot, with what is pending over it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Bound;

use super::reads::ReadSet;
use crate::access::{
    KeyBounds, PageCopy, PageRead, Part, PendingRecord, ScanSource, ScannedValue, StateSource, WantedPage,
};
use crate::error::Result;
use crate::pages::Snapshot;
use crate::txn::catalog::TreeRef;
use crate::txn::pending::write_set::WriteSet;
use crate::txn::state::CommittedState;
use crate::types::PageId;

/// A transaction's snapshot with its pending records over it. As a [`StateSource`], of which the committed
/// records are shown in place, it is for a caller that knows that nothing is pending between its bounds.
pub(in crate::txn) struct Merged<'a> {
    pub(in crate::txn) state: CommittedState<'a>,
    pub(in crate::txn) tree: &'a TreeRef,
    pub(in crate::txn) writes: &'a WriteSet,
    /// Where what was read is noted, if it is.
    pub(in crate::txn) reads: Option<&'a RefCell<ReadSet>>,
}

impl PageRead for Merged<'_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.state.read(page, look)
    }

    fn page_size(&self) -> usize {
        self.state.page_size()
    }
}

impl StateSource for Merged<'_> {
    #[inline]
    fn operate<T>(&self, work: impl FnMut(&mut Snapshot<'_>) -> Result<T>) -> Result<T> {
        self.state.operate(work)
    }

    fn load(&self, found: ScannedValue) -> Result<Vec<u8>> {
        self.state.load(found)
    }

    /// What of the page lies between the bounds counts as read, whether or not the scan gets that far.
    fn shows(&self, part: &Part<'_>, page: PageId, bytes: &[u8]) {
        if let Some(reads) = self.reads {
            if part.tree.is_all_within(bytes, part) {
                reads.borrow_mut().note_page(self.tree, part.stems, page);
                return;
            }
            let (lower, upper) = part.tree.covered(bytes, part);
            let as_slice = |bound| Bound::map(bound, |key: &Cow<'_, [u8]>| &**key);
            let (lower, upper) = (as_slice(lower.as_ref()), as_slice(upper.as_ref()));
            reads.borrow_mut().note(self.tree, part.stems, page, lower, upper);
        }
    }
}

impl Merged<'_> {
    /// Copies the wanted page, and says which that is, if the snapshot has the tree.
    fn copy_page(
        &self,
        part: &Part<'_>,
        wanted: WantedPage<'_>,
        into: &mut PageCopy,
    ) -> Result<Option<PageId>> {
        if !self.tree.is_new() {
            return self.state.copy_page(part, wanted, into).map(Some);
        }
        // It is as it was made.
        let mut page = vec![0; self.state.page_size()];
        self.tree.tree().format(&mut page);
        into.fill(&page);
        Ok(None)
    }
}

impl ScanSource for Merged<'_> {
    fn copy(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        if let Some(page) = self.copy_page(part, wanted, into)? {
            self.shows(part, page, into.bytes());
        }
        Ok(())
    }

    fn copy_unseen(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.copy_page(part, wanted, into).map(drop)
    }

    fn pending(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        forward: bool,
    ) -> Result<Option<PendingRecord>> {
        self.writes.records(self.tree.id).map_or(Ok(None), |records| records.edge(lower, upper, forward))
    }

    fn removed_around(&self, key: &[u8]) -> Option<KeyBounds<'_>> {
        self.writes.records(self.tree.id)?.removed_around(key)
    }
}

//! A writer that copies: what it is to change of a frozen tree it changes in copies, with numbers of their
//! own (beside.rs).
//!
//! A transaction that changes a record has the pages on the way to it copied first, from the root beside the
//! tree's own on. So what the access methods then write are copies, or pages that they have made. Only where
//! they look for a neighbour to merge with they may come to a page that is neither. They do without it,
//! unless that was copied beforehand as well.

use super::Trees;
use super::listed::Additions;
use crate::access::{CopyWrite, PageRead, PageWrite, SetOrRemove, Tree, UnfinishedSubtree, long};
use crate::error::{Error, Result};
use crate::pages::{PageRun, header};
use crate::txn::catalog::Listed;
use crate::txn::commit::changes::ChangedPages;
use crate::types::{Lsn, PageId, TreeId, VolumeId};

/// Changes that copy pages from before a state.
pub(in crate::txn) struct Copying<'c, 'a> {
    changes: &'c mut ChangedPages<'a>,
    frozen: Lsn,
    most: usize,
    listed: Additions,
    begun: UnfinishedSubtree,
}

impl<'c, 'a> Copying<'c, 'a> {
    /// Copies what was born up to `frozen`, until about `most` pages are latched. `begun` is what those
    /// before have not ended.
    pub(in crate::txn) fn new(
        changes: &'c mut ChangedPages<'a>,
        frozen: Lsn,
        most: usize,
        begun: UnfinishedSubtree,
    ) -> Copying<'c, 'a> {
        Copying { changes, frozen, most, listed: Additions::default(), begun }
    }

    /// What is to be listed of it, and what was not ended.
    pub(in crate::txn) fn finish(self) -> (Additions, UnfinishedSubtree) {
        (self.listed, self.begun)
    }

    /// Says that pages are not needed any more if the commit comes about.
    fn replaces(&mut self, first: PageId, count: u64) {
        self.listed.add(Listed::Replaced, first, count);
    }

    /// Copies the root of a tree. If the commit comes about, the root takes over what is in the copy, and
    /// that is not needed any more.
    pub(super) fn copy_root(&mut self, tree: &Tree<'_>) -> Result<PageId> {
        let copy = self.copy_page(tree, tree.root)?;
        self.replaces(copy, 1);
        Ok(copy)
    }

    /// Copies a page of a tree.
    fn copy_page(&mut self, tree: &Tree<'_>, page: PageId) -> Result<PageId> {
        let source = self.changes.read(page, <[u8]>::to_vec)?;
        let copy = self.allocate(tree.home_of_page(&source))?;
        let bytes = self.changes.write(copy)?;
        bytes.copy_from_slice(&source);
        header::set_page_id(bytes, copy);
        Ok(copy)
    }
}

impl PageRead for Copying<'_, '_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.changes.read(page, look)
    }

    fn page_size(&self) -> usize {
        self.changes.page_size()
    }
}

/// The error of a change to what others read.
fn not_own(page: PageId) -> Error {
    Error::corruption(format!("page {page} was to be changed beside the tree it is still a page of"))
}

impl CopyWrite for Copying<'_, '_> {
    fn is_full(&self) -> bool {
        // Each page that is listed may be on another page of the list.
        self.changes.items().len() >= self.most || self.listed.len() > 3 * self.most
    }

    fn is_own(&self, page: PageId) -> Result<bool> {
        Ok(self.changes.holds(page) || self.changes.read(page, header::born)? > self.frozen)
    }

    fn copy(&mut self, tree: &Tree<'_>, page: PageId) -> Result<PageId> {
        let copy = self.copy_page(tree, page)?;
        self.replaces(page, 1);
        Ok(copy)
    }

    fn begun(&mut self) -> &mut UnfinishedSubtree {
        &mut self.begun
    }
}

impl PageWrite for Copying<'_, '_> {
    fn latched(&mut self, page: PageId) -> Result<&[u8]> {
        if self.is_own(page)? { self.changes.latched(page) } else { Err(not_own(page)) }
    }

    fn write(&mut self, page: PageId) -> Result<&mut [u8]> {
        if self.is_own(page)? { self.changes.write(page) } else { Err(not_own(page)) }
    }

    fn write_all<const N: usize>(&mut self, pages: [PageId; N]) -> Result<[&mut [u8]; N]> {
        match pages
            .into_iter()
            .find_map(|page| self.is_own(page).map(|own| (!own).then_some(page)).transpose())
        {
            None => self.changes.write_all(pages),
            Some(other) => Err(other.map_or_else(|error| error, not_own)),
        }
    }

    fn allocate(&mut self, home: VolumeId) -> Result<PageId> {
        let page = self.changes.allocate(home)?;
        self.listed.add(Listed::Made, page, 1);
        Ok(page)
    }

    fn allocate_run(&mut self, home: VolumeId, count: u64) -> Result<PageId> {
        let first = self.changes.allocate_run(home, count)?;
        self.listed.add(Listed::Made, first, count);
        Ok(first)
    }

    fn settle(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        if self.is_own(page)? { self.changes.settle(page, home) } else { Err(not_own(page)) }
    }

    fn free(&mut self, page: PageId) -> Result<()> {
        if self.is_own(page)? {
            self.listed.remove(Listed::Made, page);
            self.changes.free(page)
        } else {
            self.replaces(page, 1);
            Ok(())
        }
    }

    /// A write set has one value for each key: so what it takes the place of is an old one.
    fn free_run(&mut self, first: PageId, count: u64) -> Result<()> {
        self.replaces(first, count);
        Ok(())
    }

    fn try_claim(&mut self, page: PageId) -> Result<bool> {
        Ok(self.is_own(page)? && self.changes.try_claim(page)?)
    }
}

impl Trees {
    /// Applies one change to a tree whose root is a copy. `run` is the value's if it was stored past the
    /// pool; `last` the page of the change before, then of this one. False if so far only pages were copied:
    /// the same change is to be applied again, in the next batch.
    pub(super) fn change_copy(
        &self,
        copying: &mut Copying<'_, '_>,
        tree: &Tree<'_>,
        change: SetOrRemove<'_>,
        run: Option<&PageRun<'_>>,
        last: &mut PageId,
    ) -> Result<bool> {
        let store = store_with(tree, change.0, run);
        Ok(tree.change_beside(copying, change, last, store)?.is_some())
    }
}

/// Stores the value of a key's record if it is long: it may have been, past the pool.
pub(super) fn store_with<'s, 'c, 'w>(
    tree: &'s Tree<'_>,
    key: &[u8],
    run: Option<&'s PageRun<'_>>,
) -> impl FnOnce(&mut Copying<'c, 'w>, TreeId, &[u8]) -> Result<PageId> + use<'s, 'c, 'w> {
    let (id, home) = (tree.id, tree.home.of_key(key));
    move |copying, within, value| match run {
        Some(run) => {
            copying.listed.add(Listed::Made, run.first(), run.count());
            copying.changes.add_run(run, id, value)
        }
        None => long::store(copying, (within, home), value),
    }
}

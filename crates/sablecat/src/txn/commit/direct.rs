//! Writing in place, for a process that has the environment to itself: the Data Store, recovery, creation.
//!
//! The one exception to "a published page is never modified". It is sound where nobody else can look: no
//! other participant, no snapshot open. The Data Store's handle proves it by being borrowed exclusively;
//! recovery and creation run before any handle exists.
//!
//! A page changed in place loses the block that held it (a checkpoint frees it, if a checkpoint has named it)
//! and is written to another one when it is evicted or captured.

use crate::access::{KeyBounds, PageRead, PageWrite, Sought, Tree, Tried, check_different, form_blank, long};
use crate::error::Result;
use crate::pages::{Alone, InHand, LocalParticipant, Pages, Use};
use crate::txn::catalog::check_record;
use crate::txn::refusals::not_empty;
use crate::types::{PageId, TreeId, VolumeId};

/// A writer in place.
#[derive(Debug)]
pub(crate) struct Direct<'a> {
    pages: &'a Pages,
    me: &'a LocalParticipant,
    alone: Alone<'a>,
    /// The pages of a load in progress, which nothing leads to before its end.
    loaded: Option<Vec<PageId>>,
    /// Once page ids or blocks are taken: for as long as not all of them have names.
    hand: Option<InHand<'a>>,
}

impl Drop for Direct<'_> {
    /// Frees what was loaded, if the load has not come to its end: a page that looks like a leaf, and is
    /// none, may have the number of one that somebody remembers.
    #[inline]
    fn drop(&mut self) {
        if let Some(loaded) = self.loaded.take() {
            loaded.into_iter().for_each(|page| _ = self.free(page));
        }
    }
}

impl<'a> Direct<'a> {
    /// A writer in place.
    ///
    /// # Safety
    /// For as long as the writer lives, no other participant is in an operation, holds a pin or a latch, or
    /// begins to.
    #[inline]
    pub(crate) unsafe fn new(pages: &'a Pages, me: &'a LocalParticipant) -> Direct<'a> {
        // SAFETY: by the caller's word; and the access methods read one page at a time.
        let alone = unsafe { Alone::new(pages, me) };
        Direct { pages, me, alone, loaded: None, hand: None }
    }

    /// Page ids or blocks are about to be taken, which have names when the writer is dropped.
    fn take_in_hand(&mut self) {
        if self.hand.is_none() {
            self.hand = Some(self.me.in_hand());
        }
    }

    fn add(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        // Blank until its owner forms it: so it is a page that can be read in.
        self.alone.add(page, home, |bytes| form_blank(bytes, page))
    }

    /// Sets or removes a record. False if there was nothing to remove.
    #[inline]
    pub(crate) fn change(&mut self, tree: &Tree<'_>, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        self.change_sought(tree, (tree.sought(key), value))
    }

    /// As [`Direct::change`].
    #[inline]
    pub(crate) fn change_sought(
        &mut self,
        tree: &Tree<'_>,
        (sought, value): (Sought<'_>, Option<&[u8]>),
    ) -> Result<bool> {
        let remembered = match tree.remembers() {
            true => tree.remembered(sought, self.pages.leaves_since()),
            false => self.me.hints.of(tree.id),
        };
        // What is in no frame may have been freed.
        let hint = Some(remembered)
            .filter(|&hint| hint != PageId::NONE && self.alone.is_resident(hint))
            .unwrap_or(PageId::NONE);
        // Setting is tried first in the page that covers the key; removing is not: what was tried may have
        // been done. What counts its records nearly always changes more.
        if value.is_some() && !tree.method.counts() && !tree.is_nested(sought.key, self.page_size()) {
            let sought = sought.after(self.me.hints.near(tree.id, Use::Change));
            let Some(page) = self.covering(tree, sought, hint)? else {
                // It is damaged, and what is wrong with it is found on the way.
                return self.change_with_structure(tree, (sought, value), PageId::NONE);
            };
            if tree.try_change(self, page, (sought, value))? == Tried::Done {
                return Ok(true);
            }
            return self.change_with_structure(tree, (sought, value), page);
        }
        if tree.has_layers() && value.is_none() && !self.has(tree, sought)? {
            return Ok(false);
        }
        self.change_with_structure(tree, (sought, value), hint)
    }

    /// The page that covers a key that is not nested: the hint, if it is a page and does. None: the one that
    /// should does not.
    #[inline]
    fn covering(&mut self, tree: &Tree<'_>, sought: Sought<'_>, hint: PageId) -> Result<Option<PageId>> {
        if hint != PageId::NONE && tree.covers(self.alone.bytes(hint)?, sought) {
            return Ok(Some(hint));
        }
        let page = tree.find(self, sought)?;
        self.remember(tree, sought, page)?;
        Ok((!tree.remembers() || tree.covers(self.alone.bytes(page)?, sought)).then_some(page))
    }

    /// Whether there is a record with a key that is not nested.
    fn has(&self, tree: &Tree<'_>, sought: Sought<'_>) -> Result<bool> {
        let page = tree.find(self, sought)?;
        self.read(tree.saying(self, page, sought)?, |bytes| tree.get(bytes, sought).is_some())
    }

    /// Remembers the page that a key was in.
    fn remember(&mut self, tree: &Tree<'_>, sought: Sought<'_>, page: PageId) -> Result<()> {
        if tree.remembers() {
            tree.remember(sought, (page, self.alone.bytes(page)?), self.pages.leaves_since());
        } else {
            self.me.hints.remember(tree.id, page);
        }
        Ok(())
    }

    /// Sets or removes a record, whatever has to change for it. The hint is a page, if it is any.
    fn change_with_structure(
        &mut self,
        tree: &Tree<'_>,
        (sought, value): (Sought<'_>, Option<&[u8]>),
        hint: PageId,
    ) -> Result<bool> {
        let home = tree.home.of_key(sought.key);
        let mut page = hint;
        let done = tree.change(self, (sought, value), &mut page, |direct, within, value| {
            direct.store_long((within, home), value)
        })?;
        if page != PageId::NONE && page != hint {
            self.remember(tree, sought, page)?;
        }
        Ok(done)
    }

    /// Removes all records of a range; how many there were.
    pub(crate) fn remove_range(&mut self, tree: &Tree<'_>, bounds: KeyBounds<'_>) -> Result<u64> {
        tree.remove_range(self, bounds)
    }

    /// Loads records that come in ascending order into an empty tree. Returns how many there were. After an
    /// error there are none, once the writer is dropped.
    pub(crate) fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        tree: &Tree<'_>,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        if !self.read(tree.root, |bytes| tree.is_as_made(bytes))? {
            return Err(not_empty());
        }
        self.loaded = Some(Vec::new());
        let mut load = tree.load(self.page_size());
        for (key, value) in records {
            let (key, value) = (key.as_ref(), value.as_ref());
            check_record(tree, self.page_size(), key, value.len())?;
            let home = tree.home.of_key(key);
            load.push(self, key, value, |direct, within, value| direct.store_long((within, home), value))?;
        }
        let count = load.finish(self)?;
        self.loaded = None;
        Ok(count)
    }

    /// Notes pages that were made, if they are of a load.
    #[inline]
    fn note_loaded(&mut self, first: PageId, count: u64) {
        if let Some(loaded) = &mut self.loaded {
            loaded.extend((first.0..first.0 + count as u32).map(PageId));
        }
    }

    /// Stores a long value in pages of its own, in a volume, past the pool if it is large, and says which is
    /// the first.
    fn store_long(&mut self, (tree, home): (TreeId, VolumeId), value: &[u8]) -> Result<PageId> {
        let count = long::page_count(value.len() as u64, self.page_size());
        if !self.pages.passes_pool(count) {
            return long::store(self, (tree, home), value);
        }
        self.take_in_hand();
        let run = self
            .pages
            .store_run(self.me, home, count, &mut |n, page, bytes| long::form(bytes, page, tree, value, n))?;
        let first_page = run.first();
        self.add(first_page, home)?;
        long::form(self.write(first_page)?, first_page, tree, value, 0);
        self.note_loaded(first_page, count);
        run.keep();
        Ok(first_page)
    }
}

impl PageRead for Direct<'_> {
    #[inline]
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.alone.show(page, look)
    }

    fn page_size(&self) -> usize {
        self.pages.page_size()
    }
}

impl PageWrite for Direct<'_> {
    #[inline]
    fn latched(&mut self, page: PageId) -> Result<&[u8]> {
        self.alone.bytes(page)
    }

    #[inline]
    fn write(&mut self, page: PageId) -> Result<&mut [u8]> {
        self.alone.write(page)
    }

    fn write_all<const N: usize>(&mut self, pages: [PageId; N]) -> Result<[&mut [u8]; N]> {
        check_different(&pages)?;
        self.alone.write_all(pages)
    }

    fn make_ready(&mut self, pages: &[PageId]) -> Result<()> {
        self.alone.make_ready(pages)
    }

    fn allocate(&mut self, home: VolumeId) -> Result<PageId> {
        self.take_in_hand();
        let page = self.pages.allocate_page()?;
        if let Err(error) = self.add(page, home) {
            self.pages.release_page(page);
            return Err(error);
        }
        self.note_loaded(page, 1);
        Ok(page)
    }

    fn allocate_run(&mut self, home: VolumeId, count: u64) -> Result<PageId> {
        self.take_in_hand();
        let first = self.pages.allocate_run(count)?;
        for n in 0..count {
            if let Err(error) = self.add(PageId(first.0 + n as u32), home) {
                (0..n).for_each(|n| _ = self.free(PageId(first.0 + n as u32)));
                (n..count).for_each(|n| self.pages.release_page(PageId(first.0 + n as u32)));
                return Err(error);
            }
        }
        self.note_loaded(first, count);
        Ok(first)
    }

    fn settle(&mut self, page: PageId, home: VolumeId) -> Result<()> {
        self.alone.send_to(page, home)
    }

    fn free(&mut self, page: PageId) -> Result<()> {
        self.alone.free(page)
    }

    fn free_run(&mut self, first: PageId, count: u64) -> Result<()> {
        self.pages.check_run(first, count)?;
        (0..count).try_for_each(|n| self.free(PageId((u64::from(first.0) + n) as u32)))
    }

    fn give_back(&mut self, first: PageId, count: u64) {
        // What was loaded goes with all of the load. What cannot be freed is found by the search for what
        // nothing leads to.
        if self.loaded.is_none() {
            (0..count).for_each(|n| _ = self.free(PageId(first.0 + n as u32)));
        }
    }

    fn try_claim(&mut self, _: PageId) -> Result<bool> {
        Ok(true)
    }
}

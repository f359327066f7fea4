//! Finding a record: the page that covers its key, and what that says.
//!
//! Often it is the page that was used last in the same tree, which is asked whether it covers the key; else
//! it is found from the root. Of a hash table the process remembers where hashes were, and asks the page that
//! the key's was in (access/hash/ways.rs). A key too long for a page is first taken to the innermost subtree
//! that it leads to.

use super::{CommittedState, States};
use crate::access::{KeyPlace, ScannedValue, Sought, StoredValue, Tree};
use crate::error::Result;
use crate::pages::{LocalParticipant, Snapshot, Use};
use crate::types::{Lsn, PageId};

/// Cache lines at the start of a remembered page that a search looks at: 48 bytes of header, and three bytes
/// a record for some 85 records. The processor need not be asked for more.
const REMEMBERED_LINES: usize = 5;

impl States {
    /// Shows `look` the value in the snapshot of a key that is not nested, or none.
    #[inline]
    pub(crate) fn look_up<R>(
        &self,
        snapshot: &mut Snapshot<'_>,
        tree: &Tree<'_>,
        sought: Sought<'_>,
        look: impl FnOnce(Option<StoredValue<'_>>) -> R,
    ) -> Result<R> {
        let sought = sought.after(snapshot.operation.me.hints.near(tree.id, Use::Read));
        let (_, bytes) = snapshot.saying(tree, sought)?;
        Ok(look(tree.get(bytes, sought)))
    }

    /// Has the processor begin to fetch what a search for a key will look at, if it is remembered where that
    /// is: in the course of all that has to be done before.
    #[inline(always)]
    pub(crate) fn foresee(&self, tree: &Tree<'_>, sought: Sought<'_>) {
        if tree.remembers() {
            self.pages.foresee(self.remembered(tree, sought), REMEMBERED_LINES);
        }
    }

    /// The same of a change.
    #[inline(always)]
    pub(crate) fn foresee_change(&self, tree: &Tree<'_>, sought: Sought<'_>) {
        if tree.remembers() {
            self.pages.foresee_change(self.remembered(tree, sought), REMEMBERED_LINES);
        }
    }

    /// Where a key was, and about where in that page its record.
    #[inline(always)]
    fn remembered(&self, tree: &Tree<'_>, sought: Sought<'_>) -> (PageId, usize) {
        tree.remembered_with_record((sought, self.pages.page_size()), self.pages.leaves_since())
    }

    /// The page that covered a key at `at`.
    #[inline]
    pub(in crate::txn) fn locate(
        &self,
        tree: &Tree<'_>,
        sought: Sought<'_>,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<PageId> {
        self.pages.operate(me, || self.pages.at_pin(me, at)?.locate(tree, sought))
    }

    /// Where a key belongs at an LSN that `me` has pinned: for a nested one the innermost subtree, going down
    /// one operation a page.
    #[inline]
    pub(crate) fn place<'t, 'k>(
        &self,
        tree: &Tree<'t>,
        key: &'k [u8],
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<KeyPlace<'t, 'k>> {
        tree.place(&CommittedState { states: self, me, at }, key)
    }

    /// Whether a key is nested.
    #[inline]
    pub(crate) fn is_nested(&self, tree: &Tree<'_>, key: &[u8]) -> bool {
        tree.is_nested(key, self.pages.page_size())
    }

    /// The value of a record at an LSN that `me` has pinned.
    pub(in crate::txn) fn value_at(
        &self,
        tree: &Tree<'_>,
        key: &[u8],
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<Option<ScannedValue>> {
        let place = self.place(tree, key, at, me)?;
        self.pages.operate(me, || {
            let mut snapshot = self.pages.at_pin(me, at)?;
            self.look_up(&mut snapshot, &place.tree, place.sought(), |value| value.map(ScannedValue::from))
        })
    }

    /// The value, at an LSN that `me` has pinned, of a record of which the newest layer says nothing.
    pub(in crate::txn) fn value_below(
        &self,
        tree: &Tree<'_>,
        sought: Sought<'_>,
        at: Lsn,
        me: &LocalParticipant,
    ) -> Result<Option<ScannedValue>> {
        self.pages.operate(me, || {
            let mut snapshot = self.pages.at_pin(me, at)?;
            let Some(page) = tree.find_below(&snapshot, sought)? else { return Ok(None) };
            Ok(tree.get(snapshot.page(page)?, sought).map(ScannedValue::from))
        })
    }
}

impl Snapshot<'_> {
    /// The page of `tree` that covers a key.
    #[inline(always)]
    pub(crate) fn covering(&mut self, tree: &Tree<'_>, sought: Sought<'_>) -> Result<&[u8]> {
        let page = self.locate(tree, sought)?;
        self.page(page)
    }

    /// The page of `tree` that covers a key, and what is in the page that says what its record is: nearly
    /// always the same.
    #[inline(always)]
    pub(crate) fn saying(&mut self, tree: &Tree<'_>, sought: Sought<'_>) -> Result<(PageId, &[u8])> {
        let page = self.locate(tree, sought)?;
        let saying = tree.saying(self, page, sought)?;
        self.page(saying).map(|bytes| (page, bytes))
    }

    /// Which page of `tree` covers a key: the one used last if that is it, else by descent. It is the one
    /// that was looked at last, as a rule.
    ///
    /// Never inlined: reads and changes share one copy of it, which stays in the processor's cache.
    #[inline(never)]
    pub(crate) fn locate(&mut self, tree: &Tree<'_>, sought: Sought<'_>) -> Result<PageId> {
        let since = self.operation.pages.leaves_since();
        let hints = &self.operation.me.hints;
        // An older state may have the remembered page's number for one that nothing leads to.
        let are_good = hints.are_of(self.at, since);
        let remembered = match tree.remembers() {
            _ if !are_good => PageId::NONE,
            true => tree.remembered(sought, since),
            false => hints.of(tree.id),
        };
        let covers = |bytes: &[u8]| tree.covers(bytes, sought);
        let is_it = match tree.remembers() {
            true => self.is_resident_with(remembered, REMEMBERED_LINES, covers),
            false => self.is_resident(remembered, covers),
        };
        if is_it {
            return Ok(remembered);
        }
        let page = tree.find(self, sought)?;
        if !are_good {
            return Ok(page);
        }
        if tree.remembers() {
            tree.remember(sought, (page, self.page(page)?), since);
        } else {
            hints.remember(tree.id, page);
        }
        Ok(page)
    }

    /// Which page of a tree in the order of keys covers a key: the one remembered as the nth from the front,
    /// if that is it, else by descent.
    pub(crate) fn locate_in_front(
        &mut self,
        tree: &Tree<'_>,
        sought: Sought<'_>,
        n: usize,
    ) -> Result<PageId> {
        let hints = &self.operation.me.hints;
        let are_good = hints.are_of(self.at, self.operation.pages.leaves_since());
        let remembered = if are_good { hints.front(tree.id, n) } else { PageId::NONE };
        if self.is_resident(remembered, |bytes| tree.covers(bytes, sought)) {
            return Ok(remembered);
        }
        let page = tree.find(self, sought)?;
        if are_good {
            hints.remember_front(tree.id, n, page);
        }
        Ok(page)
    }
}

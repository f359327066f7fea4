//! Finding a record: the page that covers its key, and what that says.
//!
//! Often it is the page that was used last in the same tree, which is asked whether it covers the key; else
//! it is found from the root. A key too long for a page is first taken to the innermost subtree that it leads
//! to.

use super::{Committed, States};
use crate::access::{Place, Tree, Value};
use crate::error::Result;
use crate::pages::{Participant, Snapshot};
use crate::types::{Lsn, PageId};

impl States {
    /// Shows `look` the value in the snapshot of a key that is not nested, or none.
    #[inline]
    pub(crate) fn look_up<R>(
        &self,
        snapshot: &mut Snapshot<'_>,
        tree: &Tree<'_>,
        key: &[u8],
        look: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<R> {
        Ok(look(tree.get(snapshot.covering(tree, key)?, key)))
    }

    /// The page that covered `key` at `at`.
    #[inline]
    pub(in crate::txn) fn locate(
        &self,
        tree: &Tree<'_>,
        key: &[u8],
        at: Lsn,
        me: &Participant,
    ) -> Result<PageId> {
        self.pages.operate(me, || {
            let mut snapshot = self.pages.at_pin(me, at)?;
            let are_good = me.hints.are_of(at, self.pages.leaves_since());
            let hint = if are_good { me.hints.of(tree.id) } else { PageId::NONE };
            if snapshot.is_resident(hint, |bytes| tree.covers(bytes, key)) {
                return Ok(hint);
            }
            let page = tree.find(&snapshot, key)?;
            if are_good {
                me.hints.remember(tree.id, page);
            }
            Ok(page)
        })
    }

    /// Where a key belongs at an LSN that `me` has pinned: for a nested one the innermost subtree, going down
    /// one operation a page.
    #[inline]
    pub(crate) fn place<'t, 'k>(
        &self,
        tree: &Tree<'t>,
        key: &'k [u8],
        at: Lsn,
        me: &Participant,
    ) -> Result<Place<'t, 'k>> {
        tree.place(&Committed { kernel: self, me, at }, key)
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
        me: &Participant,
    ) -> Result<Option<OwnedValue>> {
        let place = self.place(tree, key, at, me)?;
        self.pages.operate(me, || {
            let mut snapshot = self.pages.at_pin(me, at)?;
            self.look_up(&mut snapshot, &place.tree, place.rest, |value| value.map(OwnedValue::of))
        })
    }
}

/// A value by which two states of a record are compared. Long values never change in place, so their place
/// stands for them.
#[derive(PartialEq, Eq)]
pub(in crate::txn) enum OwnedValue {
    Inline(Vec<u8>),
    Long(PageId, u64),
}

impl OwnedValue {
    pub(in crate::txn) fn of(value: Value<'_>) -> OwnedValue {
        match value {
            Value::Inline(bytes) => OwnedValue::Inline(bytes.to_vec()),
            Value::Long { first_page, len } => OwnedValue::Long(first_page, len),
        }
    }

    pub(super) fn value(&self) -> Value<'_> {
        match *self {
            OwnedValue::Inline(ref bytes) => Value::Inline(bytes),
            OwnedValue::Long(first_page, len) => Value::Long { first_page, len },
        }
    }
}

impl Snapshot<'_> {
    /// The page of `tree` that covers `key`: the one used last if that is it, else by descent.
    #[inline(always)]
    pub(crate) fn covering(&mut self, tree: &Tree<'_>, key: &[u8]) -> Result<&[u8]> {
        let hints = &self.operation.me.hints;
        let are_good = hints.are_of(self.at, self.operation.pages.leaves_since());
        if are_good && self.is_resident(hints.of(tree.id), |bytes| tree.covers(bytes, key)) {
            return Ok(self.looked_at());
        }
        let page = tree.find(self, key)?;
        if are_good {
            hints.remember(tree.id, page);
        }
        self.page(page)
    }
}

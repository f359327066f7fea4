//! Keys that are looked for, and where they were.
//!
//! What is computed of a key it is computed of once, and goes with it from the way down to the comparison in
//! the page. Some trees remember where their keys were, for each of them; what they say is asked of the page,
//! which may be anything by now.

use super::hash;
use super::method::{KeyPlace, Method, Tree};
use crate::pages::Near;
use crate::types::{Lsn, PageId};

/// A key that is looked for in a tree, with what is computed of it once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought<'k> {
    pub(crate) key: &'k [u8],
    /// Of a hash table's key; of others nothing.
    pub(super) hash: u64,
    /// Where in its page the key before was, of a tree whose pages are searched.
    pub(super) near: Option<&'k Near>,
}

impl<'k> Sought<'k> {
    /// The same, after other keys that were sought so in the same tree.
    #[inline(always)]
    pub(crate) fn after<'n>(self, near: &'n Near) -> Sought<'n>
    where
        'k: 'n,
    {
        Sought { near: Some(near), ..self }
    }
}

impl<'k> KeyPlace<'_, 'k> {
    /// What is left of the key, to be looked for in its tree.
    #[inline(always)]
    pub(crate) fn sought(&self) -> Sought<'k> {
        self.tree.sought(self.rest)
    }
}

impl Tree<'_> {
    /// A key, to be looked for in this very tree.
    #[inline(always)]
    pub(crate) fn sought<'k>(&self, key: &'k [u8]) -> Sought<'k> {
        let hash = match self.method {
            Method::Hash => hash::hash_of(self, key),
            _ => 0,
        };
        Sought { key, hash, near: None }
    }

    /// Whether this process remembers where keys were, for each of them; if not, the caller that looks for
    /// them may do so.
    #[inline(always)]
    pub(crate) fn remembers(&self) -> bool {
        self.method == Method::Hash
    }

    /// The page that covered a key when it was looked for last, if that is remembered; or no page. It may be
    /// anything by now. Trees were built anew last at `since`, and the caller that goes there looks at a
    /// state at or above that.
    #[inline(always)]
    pub(crate) fn remembered(&self, sought: Sought<'_>, since: Lsn) -> PageId {
        match self.method {
            Method::Hash => hash::remembered(self, sought.hash, since),
            _ => PageId::NONE,
        }
    }

    /// The same, and about where in the page, of that many bytes, its record was when it was shown last; or
    /// its beginning.
    #[inline(always)]
    pub(crate) fn remembered_with_record(
        &self,
        (sought, page_bytes): (Sought<'_>, usize),
        since: Lsn,
    ) -> (PageId, usize) {
        match self.method {
            Method::Hash => hash::remembered_with_record(self, (sought.hash, page_bytes), since),
            _ => (PageId::NONE, 0),
        }
    }

    /// Remembers a page which covers a key, and looks so, in a state at or above `since`.
    pub(crate) fn remember(&self, sought: Sought<'_>, found: (PageId, &[u8]), since: Lsn) {
        if self.method == Method::Hash {
            hash::remember(self, sought.hash, found, since);
        }
    }
}

//! The records of one leaf, in order.

use super::node::{Leaf, NodeKind, StoredValue, kind};

/// The records of a leaf.
#[derive(Clone, Copy)]
pub(crate) struct RecordsOnPage<'p>(Leaf<'p>);

impl<'p> RecordsOnPage<'p> {
    /// Those of a page, if it is a leaf.
    pub(in crate::access) fn of(page: &'p [u8]) -> Option<RecordsOnPage<'p>> {
        (kind(page) == Some(NodeKind::Leaf)).then(|| RecordsOnPage(Leaf::new(page)))
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(self) -> usize {
        self.0.count()
    }

    /// The key of the nth one from 0 on, in two parts.
    #[inline]
    pub(crate) fn key(self, n: usize) -> (&'p [u8], &'p [u8]) {
        self.0.key(n)
    }

    /// Its value.
    #[inline]
    pub(crate) fn value(self, n: usize) -> StoredValue<'p> {
        self.0.value(n)
    }

    /// Where the next page begins; none: no page has records above them.
    #[inline]
    pub(crate) fn next(self) -> Option<&'p [u8]> {
        self.0.upper_fence()
    }
}

//! Records by their numbers, in trees of a method that counts.

use std::ops::Bound;

use super::method::{SetOrRemove, Tree};
use super::scan::ScannedValue;
use super::{PageRead, btree};
use crate::error::Result;
use crate::types::PageId;

/// A record that was found by counting: its key, and what stands there for its value.
pub(crate) type CountedRecord = (Vec<u8>, ScannedValue);

impl Tree<'_> {
    /// How many records there are up to an upper bound, without going through them. For methods that count.
    ///
    /// # Errors
    /// Those of reading, and corruption if pages are not arranged as they must be.
    pub(crate) fn count_below<R: PageRead>(&self, reader: &R, upper: Bound<&[u8]>) -> Result<u64> {
        debug_assert!(self.method.counts());
        btree::count_below(reader, self, upper)
    }

    /// The record before which there are `n`; none if there are no more. For methods that count.
    ///
    /// # Errors
    /// As [`Tree::count_below`].
    pub(crate) fn record_at<R: PageRead>(&self, reader: &R, n: u64) -> Result<Option<CountedRecord>> {
        debug_assert!(self.method.counts());
        btree::record_at(reader, self, n)
    }

    /// The page of this very tree that a change of a nested key changes as well, beside those of subtrees,
    /// whether or not it is there already.
    pub(crate) fn changed_around<R: PageRead>(&self, reader: &R, key: &[u8]) -> Result<Option<PageId>> {
        if !self.method.counts() || !self.is_nested(key, reader.page_size()) {
            return Ok(None);
        }
        btree::find_around(reader, self, key).map(Some)
    }

    /// Whether a change is one of structure, whatever the page that covers its key says: that need not be
    /// looked for then.
    #[inline(always)]
    pub(crate) fn is_of_structure(&self, change: SetOrRemove<'_>) -> bool {
        self.method.counts() && change.1.is_none()
    }
}

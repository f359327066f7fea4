//! What is asked of a page by an operation that takes records in their order, one by one.

use super::method::{Method, Tree, Tried};
use super::{PageWrite, RecordsOnPage, btree};
use crate::error::Result;
use crate::types::PageId;

impl Tree<'_> {
    /// Removes the nth of the [records on a page](Tree::records_on), also where that should be joined with
    /// another then: for an operation that removes records in their order, and so comes to the end of that
    /// page.
    #[inline]
    pub(crate) fn remove_here<W: PageWrite>(&self, writer: &mut W, page: PageId, n: usize) -> Result<Tried> {
        match self.method {
            Method::Btree => btree::remove_here(writer, page, n),
            _ => Ok(Tried::Structure),
        }
    }

    /// The records of a page that covers some key, if pages have them in order.
    #[inline]
    pub(crate) fn records_on<'p>(&self, bytes: &'p [u8]) -> Option<RecordsOnPage<'p>> {
        match self.method {
            Method::Btree => RecordsOnPage::of(bytes),
            _ => None,
        }
    }
}

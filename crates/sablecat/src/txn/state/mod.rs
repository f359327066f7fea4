//! Committed states: what a record is at an LSN, and whether a database is there.
//!
//! A state is looked at a page an operation, so that a long walk holds up nobody (`committed`). In it a
//! record is looked for (`finding`), or a database (`there`). Two of them are compared, as far as that is of
//! concern (`lapsed`).

mod committed;
mod finding;
mod lapsed;
mod there;

pub(crate) use committed::CommittedState;

use crate::error::Result;
use crate::pages::Pages;
use crate::txn::catalog::{TreeRef, check_record};

/// The states that were committed.
#[derive(Debug)]
pub(crate) struct States {
    pub(crate) pages: Pages,
}

impl States {
    pub(in crate::txn) fn new(pages: Pages) -> States {
        States { pages }
    }

    /// Bytes of a page.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.pages.page_size()
    }

    /// Refuses keys and values that the tree cannot hold.
    #[inline]
    pub(crate) fn check_record(&self, tree: &TreeRef, key: &[u8], value_len: usize) -> Result<()> {
        check_record(&tree.tree(), self.pages.page_size(), key, value_len)
    }
}

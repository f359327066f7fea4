//! Large values on their way: stored past the pool before anything is latched.
//!
//! Writing gigabytes takes seconds, in which nobody should wait for a latch. So a commit that has large
//! values stores them first, where nobody can know of them, and then prepares as ever: of each such value it
//! publishes one page, and the cell that names it. An attempt that fails for want of room or for a full leaf
//! is repeated with the values as they are. If the commit fails, they go.

use std::collections::VecDeque;

use super::Trees;
use crate::access::long;
use crate::error::Result;
use crate::pages::{LocalParticipant, PageRun};
use crate::txn::pending::write_set::WriteSet;
use crate::types::{TreeId, VolumeId};

/// The large values of a write set, in its order.
#[derive(Debug)]
pub(in crate::txn) struct Large<'a> {
    runs: Vec<PageRun<'a>>,
}

impl<'a> Large<'a> {
    pub(in crate::txn) fn runs(&self) -> impl Iterator<Item = &PageRun<'a>> {
        self.runs.iter()
    }

    /// They are published bit by bit.
    pub(super) fn into_runs(self) -> VecDeque<PageRun<'a>> {
        self.runs.into()
    }

    /// They are published.
    pub(in crate::txn) fn keep(self) {
        self.runs.into_iter().for_each(PageRun::keep);
    }
}

impl Trees {
    /// Whether a value of so many bytes goes past the pool.
    pub(in crate::txn) fn is_large(&self, value_len: usize) -> bool {
        self.pages.passes_pool(long::page_count(value_len as u64, self.page_size()))
    }

    /// Stores a large value in a volume. The caller holds no latch.
    pub(in crate::txn) fn store_large<'a>(
        &'a self,
        me: &'a LocalParticipant,
        (tree, home): (TreeId, VolumeId),
        value: &[u8],
    ) -> Result<PageRun<'a>> {
        let count = long::page_count(value.len() as u64, self.page_size());
        self.pages.store_run(me, home, count, &mut |n, page, bytes| long::form(bytes, page, tree, value, n))
    }

    /// Stores the large values of a write set. Their pages say they are of the outermost tree: which subtrees
    /// a commit makes shows later. The caller holds no latch.
    #[inline]
    pub(in crate::txn) fn store_all_large<'a>(
        &'a self,
        me: &'a LocalParticipant,
        writes: &WriteSet,
    ) -> Result<Large<'a>> {
        if self.is_large(writes.longest()) {
            self.store_some_large(me, writes)
        } else {
            Ok(Large { runs: Vec::new() })
        }
    }

    #[cold]
    fn store_some_large<'a>(&'a self, me: &'a LocalParticipant, writes: &WriteSet) -> Result<Large<'a>> {
        let mut large = Large { runs: Vec::new() };
        for (tree, records) in writes.trees() {
            let mut all = records.after(None)?;
            while let Some((key, value)) = all.next()? {
                if let Some(value) = value.as_deref().filter(|value| self.is_large(value.len())) {
                    large.runs.push(self.store_large(me, (tree.id, tree.tree().home.of_key(&key)), value)?);
                }
            }
        }
        Ok(large)
    }
}

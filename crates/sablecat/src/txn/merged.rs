//! A transaction's state as a scan sees it: the snapshot, with what is pending over it.

use std::cell::RefCell;
use std::ops::Bound;

use super::reads::ReadSet;
use super::write_set::WriteSet;
use super::{Kernel, TreeRef};
use crate::access::btree::{self, LeafCopy, Part, PendingRecord, Source, Wanted, above, below};
use crate::error::Result;
use crate::pages::Participant;
use crate::types::Lsn;

/// A transaction's snapshot with its pending records over it.
pub(super) struct Merged<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) me: &'a Participant,
    pub(super) at: Lsn,
    pub(super) tree: &'a TreeRef,
    pub(super) writes: &'a WriteSet,
    /// Where what was read is noted, if it is.
    pub(super) reads: Option<&'a RefCell<ReadSet>>,
}

impl Source for Merged<'_> {
    fn leaf(&mut self, part: &Part<'_>, wanted: Wanted<'_>, into: &mut LeafCopy) -> Result<()> {
        if self.tree.is_new() {
            // The snapshot does not have it; it is as it was made.
            let mut page = vec![0; self.kernel.page_size()];
            btree::format_root(&mut page, self.tree.id, self.tree.root, self.tree.comparator.is_some());
            into.fill(&page);
            return Ok(());
        }
        let page = self.kernel.pages.operate(self.me, || {
            let mut snapshot = self.kernel.pages.at_pin(self.me, self.at)?;
            let page = wanted.find(&snapshot, part.tree)?;
            into.fill(snapshot.page(page)?);
            Ok(page)
        })?;
        if let Some(reads) = self.reads {
            // What of this leaf lies between the bounds counts as read, whether or not the scan gets that far.
            let leaf = into.leaf();
            let lower = match leaf.lower_fence() {
                Some(fence) if above(part.tree, fence, part.lower) => Bound::Included(fence),
                _ => part.lower,
            };
            let upper = match leaf.upper_fence() {
                Some(fence) if below(part.tree, fence, part.upper) => Bound::Excluded(fence),
                _ => part.upper,
            };
            reads.borrow_mut().note(self.tree, part.stems, page, lower, upper);
        }
        Ok(())
    }

    fn pending(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, forward: bool) -> Result<Option<PendingRecord>> {
        self.writes.records(self.tree.id).map_or(Ok(None), |records| records.edge(lower, upper, forward))
    }
}

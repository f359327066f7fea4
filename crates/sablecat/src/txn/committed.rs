//! The committed state at one LSN, read one operation a page, so that a long walk does not hold up eviction.

use std::ops::Bound;

use super::Kernel;
use crate::access::PageRead;
use crate::access::btree::{LeafCopy, Part, PendingRecord, Source, Wanted};
use crate::error::Result;
use crate::pages::Participant;
use crate::types::{Lsn, PageId};

/// The state at an LSN that `me` has pinned.
#[derive(Clone, Copy)]
pub(crate) struct Committed<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) me: &'a Participant,
    pub(crate) at: Lsn,
}

impl PageRead for Committed<'_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.kernel.pages.show(page, self.at, self.me, look)
    }

    fn page_size(&self) -> usize {
        self.kernel.pages.region.page_size()
    }
}

impl Source for Committed<'_> {
    fn leaf(&mut self, part: &Part<'_>, wanted: Wanted<'_>, into: &mut LeafCopy) -> Result<()> {
        self.kernel.pages.operate(self.me, || {
            let mut snapshot = self.kernel.pages.at_pin(self.me, self.at)?;
            let page = wanted.find(&snapshot, part.tree)?;
            into.fill(snapshot.page(page)?);
            Ok(())
        })
    }

    fn pending(&self, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool) -> Result<Option<PendingRecord>> {
        Ok(None)
    }
}

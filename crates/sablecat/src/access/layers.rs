//! What is asked of a method that keeps records in layers, of which only the newest changes: what of a key an
//! older one says, and what is to be done to them.

use super::method::{Method, StoredValue, Tree};
use super::{DrawnStep, LayerDuty, LayerLimits, PageRead, PageWrite, Sought, lsm};
use crate::error::Result;
use crate::types::{Lsn, PageId};

impl Tree<'_> {
    /// What the page that covers a key says of its record: the value, or that there is none. None: it says
    /// nothing, and an older layer may.
    #[inline(always)]
    pub(crate) fn says<'p>(&self, bytes: &'p [u8], sought: Sought<'_>) -> Option<Option<StoredValue<'p>>> {
        match self.method {
            Method::Lsm => lsm::says(bytes, sought, self),
            _ => Some(self.get(bytes, sought)),
        }
    }

    /// The page of an older layer that says what a record is of which the newest says nothing; none: there is
    /// no such record. Nobody changes that page.
    pub(crate) fn find_below<R: PageRead>(&self, reader: &R, sought: Sought<'_>) -> Result<Option<PageId>> {
        match self.method {
            Method::Lsm => lsm::find_below(reader, self, sought.key),
            _ => Ok(None),
        }
    }

    /// The page that says what a record is: the one that covers its key, or one of an older layer.
    #[inline(always)]
    pub(crate) fn saying<R: PageRead>(
        &self,
        reader: &R,
        covering: PageId,
        sought: Sought<'_>,
    ) -> Result<PageId> {
        if !self.has_layers() || reader.read(covering, |bytes| self.says(bytes, sought).is_some())? {
            return Ok(covering);
        }
        Ok(self.find_below(reader, sought)?.unwrap_or(covering))
    }

    /// Whether what the page that covers a key does not say older layers may. A removal does not look there
    /// whether there is something to remove.
    #[inline(always)]
    pub(crate) fn has_layers(&self) -> bool {
        self.method == Method::Lsm
    }

    /// What is to be done next to its layers, if it has any, that become so large. `is_unseen` says whether
    /// no snapshot is left from before a state, `is_taken` whether another [works on a
    /// part](LayerDuty::part).
    pub(crate) fn layer_duty<R: PageRead>(
        &self,
        reader: &R,
        limits: LayerLimits,
        is_unseen: impl Fn(Lsn) -> bool,
        is_taken: impl Fn(PageId) -> bool,
    ) -> Result<LayerDuty> {
        match self.method {
            Method::Lsm => lsm::duty(reader, self, limits, (is_unseen, is_taken)),
            _ => Ok(LayerDuty::Nothing),
        }
    }

    /// How many times as large as it should be its newest layer is, about, if it has layers.
    pub(crate) fn overdue<R: PageRead>(&self, reader: &R, limits: LayerLimits) -> Result<usize> {
        match self.method {
            Method::Lsm => lsm::overdue(reader, self, limits),
            _ => Ok(0),
        }
    }

    /// Pages that are read as some are freed of what was merged, if that is its duty; so many at most.
    pub(crate) fn freed_next<R: PageRead>(
        &self,
        reader: &R,
        duty: LayerDuty,
        most: usize,
    ) -> Result<Vec<PageId>> {
        match duty {
            LayerDuty::Free(layer) => lsm::freed_next(reader, self, layer, most),
            _ => Ok(Vec::new()),
        }
    }

    /// Does what is to be done to its layers, if it still is. The structure latch is held. `step` is what
    /// was drawn for it; some `most` pages are freed at once. When the newest layer was sealed, others must
    /// be told that the tree was built anew.
    pub(crate) fn tend_layers<W: PageWrite>(
        &self,
        writer: &mut W,
        duty: LayerDuty,
        (step, most): (&DrawnStep, usize),
        is_enough: impl Fn(&W) -> bool,
    ) -> Result<()> {
        lsm::perform(writer, self, duty, (step, most), is_enough)
    }
}

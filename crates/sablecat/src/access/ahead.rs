//! How far ahead of a scan pages are asked for.
//!
//! A scan whose pages are in memory asks for none. One that waits for its pages asks for half as many as it
//! has come to so far, so that at most a third of all is read in vain, and a short scan asks for none; and
//! again each time that it is through with half of these. Only pages with the same parent: one wait for each
//! parent remains. A merge, which comes to all there are, asks for as many as may be from the first on.

use super::PageRead;
use crate::error::Result;
use crate::pages::{Foresight, Snapshot};
use crate::types::PageId;

/// Fewer pages are not asked for: to wake a thread takes about as long as to read one.
const LEAST: u32 = 4;

/// How many of the pages behind another one: without so many of the nearest, and so many at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Many {
    pub(crate) without: usize,
    pub(crate) at_most: usize,
}

/// What a visit has asked for. It may be one of several, each of which goes on where the one before ended.
#[derive(Debug, Default)]
pub(super) struct VisitForesight(Option<Foresight>);

impl VisitForesight {
    /// As [`Foresight::came`], to this page.
    ///
    /// # Errors
    /// Those of `list`.
    #[inline]
    pub(super) fn came(
        &mut self,
        snapshot: &Snapshot<'_>,
        (page, waited): (PageId, bool),
        list: impl FnOnce(Many) -> Result<Vec<PageId>>,
    ) -> Result<()> {
        match &mut self.0 {
            Some(foresight) => foresight.came(snapshot, waited, list),
            none => {
                let (foresight, has_come) = snapshot.left_off().taken_up_at(page);
                let foresight = none.insert(foresight);
                if has_come { Ok(()) } else { foresight.came(snapshot, waited, list) }
            }
        }
    }

    /// The visit ends at this page, and `next` would have come, if that is known.
    #[inline]
    pub(super) fn end(&self, snapshot: &Snapshot<'_>, page: PageId, next: Option<PageId>) {
        snapshot.left_off().at(page, next.unwrap_or(PageId::NONE), self.0.unwrap_or_default());
    }
}

impl Foresight {
    /// The scan has come to its next page, for which it has `waited` or not. `list` names so many of the
    /// pages behind it.
    ///
    /// # Errors
    /// Those of `list`.
    #[inline]
    pub(crate) fn came<R: PageRead>(
        &mut self,
        reader: &R,
        waited: bool,
        list: impl FnOnce(Many) -> Result<Vec<PageId>>,
    ) -> Result<()> {
        if waited || self.left > 0 || self.comes_to_all {
            return self.look_ahead(reader, list);
        }
        self.come_to = 0;
        Ok(())
    }

    #[cold]
    fn look_ahead<R: PageRead>(
        &mut self,
        reader: &R,
        list: impl FnOnce(Many) -> Result<Vec<PageId>>,
    ) -> Result<()> {
        self.come_to += 1;
        self.left = self.left.saturating_sub(1);
        let come_to = if self.comes_to_all { u32::MAX } else { self.come_to };
        let window = (come_to / 2).min(reader.ahead_max() as u32);
        if self.left * 2 > self.window || window < LEAST {
            return Ok(());
        }
        self.window = window;
        let (without, at_most) = (self.left as usize, window.saturating_sub(self.left) as usize);
        let pages = list(Many { without, at_most })?;
        if !pages.is_empty() && reader.ask_for(&pages) == 0 && !self.comes_to_all {
            // They are in memory, or it would not be worth it: until it has waited as often again.
            *self = Foresight::default();
        } else {
            self.left += pages.len() as u32;
        }
        Ok(())
    }
}

//! The committed state at one LSN, read one operation a page, so that a long walk does not hold up eviction.

use std::ops::Bound;

use super::States;
use crate::access::{
    PageCopy, PageRead, Part, PendingRecord, ScanSource, ScannedValue, StateSource, Tree, WantedPage, long,
};
use crate::error::{Error, Result};
use crate::pages::{LocalParticipant, Snapshot};
use crate::types::{Lsn, PageId, TreeId};

/// Pages of a long value that one operation reads.
const PAGES_AN_OPERATION: usize = 64;

/// The state at an LSN that `me` has pinned.
#[derive(Clone, Copy)]
pub(crate) struct CommittedState<'a> {
    pub(crate) states: &'a States,
    pub(crate) me: &'a LocalParticipant,
    pub(crate) at: Lsn,
}

impl StateSource for CommittedState<'_> {
    #[inline]
    fn operate<T>(&self, mut work: impl FnMut(&mut Snapshot<'_>) -> Result<T>) -> Result<T> {
        self.states.pages.operate(self.me, || work(&mut self.states.pages.at_pin(self.me, self.at)?))
    }

    fn load(&self, found: ScannedValue) -> Result<Vec<u8>> {
        match found {
            ScannedValue::Bytes(value) => Ok(value),
            ScannedValue::Long(first, len) => self.states.load_long(self.me, self.at, first, len),
        }
    }
}

impl PageRead for CommittedState<'_> {
    fn read<R>(&self, page: PageId, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.states.pages.show(page, self.at, self.me, look)
    }

    fn page_size(&self) -> usize {
        self.states.pages.page_size()
    }

    fn waits(&self) -> u32 {
        self.me.waits()
    }

    fn ask_for(&self, pages: &[PageId]) -> usize {
        self.states.pages.ask_for(pages)
    }

    fn ahead_max(&self) -> usize {
        self.states.pages.ahead_max()
    }
}

impl CommittedState<'_> {
    /// What picks the pages by which a tree is estimated: the same for the same state.
    pub(in crate::txn) fn seed(&self, tree: TreeId) -> u64 {
        self.at.0 ^ u64::from(tree.0) << 32
    }

    /// Whether there is a record.
    pub(in crate::txn) fn has(&self, tree: &Tree<'_>, key: &[u8]) -> Result<bool> {
        let place = self.states.place(tree, key, self.at, self.me)?;
        self.operate(|snapshot| {
            self.states.look_up(snapshot, &place.tree, place.sought(), |value| value.is_some())
        })
    }

    /// Copies the wanted page, and says which that is.
    pub(in crate::txn) fn copy_page(
        &self,
        part: &Part<'_>,
        wanted: WantedPage<'_>,
        into: &mut PageCopy,
    ) -> Result<PageId> {
        self.operate(|snapshot| {
            let page = part.tree.wanted(snapshot, part, wanted, &mut into.foresight)?;
            into.fill(snapshot.page(page)?);
            Ok(page)
        })
    }
}

impl ScanSource for CommittedState<'_> {
    fn copy(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.copy_page(part, wanted, into).map(drop)
    }

    fn copy_unseen(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.copy(part, wanted, into)
    }

    fn pending(&self, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool) -> Result<Option<PendingRecord>> {
        Ok(None)
    }
}

impl States {
    /// A long value, whole.
    pub(crate) fn load_long(
        &self,
        me: &LocalParticipant,
        at: Lsn,
        first: PageId,
        len: u64,
    ) -> Result<Vec<u8>> {
        // Before there is memory for so much: a damaged leaf may say anything.
        self.pages.check_run(first, long::page_count(len, self.page_size()))?;
        let bytes = usize::try_from(len)
            .map_err(|_| Error::corruption(format!("a value says it has {len} bytes")))?;
        let mut value = vec![0; bytes];
        self.read_long(me, at, first, len, 0, &mut value)?;
        Ok(value)
    }

    pub(in crate::txn) fn read_long(
        &self,
        me: &LocalParticipant,
        at: Lsn,
        first: PageId,
        len: u64,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize> {
        let page_size = self.page_size();
        let step = long::payload_bytes(page_size) * PAGES_AN_OPERATION;
        let mut done = 0;
        // Some pages an operation, so that a long read does not hold up participants that wait for frames to
        // become free.
        while done < into.len() {
            let end = into.len().min(done + step);
            let read = self.pages.operate(me, || {
                let snapshot = self.pages.at_pin(me, at)?;
                long::read(&snapshot, page_size, first, len, offset + done as u64, &mut into[done..end])
            })?;
            done += read;
            if read == 0 {
                break;
            }
        }
        Ok(done)
    }
}

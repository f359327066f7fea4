//! Lists of pages: what a commit that builds trees anew has made, and what it replaces.
//!
//! ```text
//! key    0: made, 1: replaced (u8) | first page u32, big-endian
//! value  how many pages in a row u32
//! ```
//!
//! A list is a tree of its own that only a note in the catalog names (txn/catalog/). The note says which of
//! the two are to be freed with it: those made, until the commit's own step changes that to those replaced.
//! What is added to the list is published in the same step as the pages that it tells of. So in every state,
//! and so in every checkpoint, list and pages fit each other. A process that finds the note, however the
//! commit was cut short, frees what nothing leads to in that state and nothing else. The log knows of
//! neither. A replayed commit changes the trees in place, and what had been made for it by the checkpoint is
//! freed.
//!
//! A page is freed and taken off the list in one step, so freeing can be cut short as well. No snapshot may
//! be left that sees what is freed: freeing gives the page a last version, and would keep the one before in
//! the cache for it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Trees;
use crate::access::{Method, PageRead, PageWrite, Scan, Scanned, ScannedValue, SetOrRemove, Tree};
use crate::error::{Error, Result};
use crate::log;
use crate::pages::LocalParticipant;
use crate::txn::catalog::{CATALOG, CatalogEntry, Listed, TreeRef};
use crate::txn::commit::changes::ChangedPages;
use crate::txn::options::Durability;
use crate::txn::state::CommittedState;
use crate::types::{Lsn, PageId, VolumeId};

const KEY_BYTES: usize = 5;
/// Entries that are looked at together.
const LOOKED_AT_ONCE: usize = 1024;
/// How often a commit lets others run before it leaves to later what they see.
const YIELDS: u32 = 20;
/// How often a participant that frees pages waits for those that look at them, and how long each time.
const PAUSES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(1);

fn key(listed: Listed, page: PageId) -> [u8; KEY_BYTES] {
    let [a, b, c, d] = page.0.to_be_bytes();
    let kind = match listed {
        Listed::Made => 0,
        Listed::Replaced => 1,
    };
    [kind, a, b, c, d]
}

/// What is to be added to a list and taken off it, in one commit.
#[derive(Debug, Default)]
pub(in crate::txn) struct Additions(BTreeMap<[u8; KEY_BYTES], Option<u32>>);

impl Additions {
    pub(in crate::txn) fn add(&mut self, listed: Listed, first: PageId, count: u64) {
        self.0.insert(key(listed, first), Some(count as u32));
    }

    /// How many entries change.
    pub(in crate::txn) fn len(&self) -> usize {
        self.0.len()
    }

    /// The page is freed in this commit.
    pub(in crate::txn) fn remove(&mut self, listed: Listed, page: PageId) {
        self.0.insert(key(listed, page), None);
    }

    /// Writes them into the list.
    pub(in crate::txn) fn write(self, list: &TreeRef, changes: &mut ChangedPages<'_>) -> Result<()> {
        let mut last = PageId::NONE;
        self.0.iter().try_for_each(|(key, count)| {
            let count = count.map(u32::to_le_bytes);
            change(changes, &list.tree(), (key, count.as_ref().map(<[u8; 4]>::as_slice)), &mut last)
        })
    }
}

/// Sets or removes an entry. `last` is the page of the one before, then of this one.
fn change(
    changes: &mut ChangedPages<'_>,
    list: &Tree<'_>,
    change: SetOrRemove<'_>,
    last: &mut PageId,
) -> Result<()> {
    let too_long = |_: &mut ChangedPages<'_>, _, _: &[u8]| {
        Err(Error::corruption("an entry of a list of pages is too long for a page"))
    };
    list.change(changes, (list.sought(change.0), change.1), last, too_long).map(drop)
}

/// Tells of all pages that a list names; of none if the catalog's entry is that of another tree.
pub(in crate::txn) fn each(
    state: &CommittedState<'_>,
    entry: &CatalogEntry,
    tell: &mut impl FnMut(PageId),
) -> Result<()> {
    match entry.list {
        None => Ok(()),
        Some(_) => [Listed::Made, Listed::Replaced]
            .into_iter()
            .try_for_each(|listed| each_of(state, entry, listed, tell)),
    }
}

/// Tells of the pages that are to be freed with a list.
pub(crate) fn each_to_be_freed(
    state: &CommittedState<'_>,
    entry: &CatalogEntry,
    tell: &mut impl FnMut(PageId),
) -> Result<()> {
    entry.list.map_or(Ok(()), |listed| each_of(state, entry, listed, tell))
}

fn each_of(
    state: &CommittedState<'_>,
    entry: &CatalogEntry,
    listed: Listed,
    tell: &mut impl FnMut(PageId),
) -> Result<()> {
    let list = entry.tree_of_note()?;
    let mut from = PageId::NONE;
    loop {
        let found = entries(state, &list.tree(), listed, from, LOOKED_AT_ONCE)?;
        let Some(&(last, _)) = found.last() else { return Ok(()) };
        for (first, count) in found {
            state.states.pages.check_run(first, count)?;
            (0..count).for_each(|n| tell(PageId(first.0 + n as u32)));
        }
        from = PageId(last.0.saturating_add(1));
    }
}

/// Entries of one kind that follow each other, from the first of that kind on, up to `most` of them.
fn entries<R: PageRead>(
    reader: &R,
    list: &Tree<'_>,
    listed: Listed,
    from: PageId,
    most: usize,
) -> Result<Vec<(PageId, u64)>> {
    let wrong =
        || Error::corruption(format!("the list of pages in tree {} has an entry that is none", list.id));
    let bounds = (
        Bound::Included(key(listed, from).to_vec()),
        Bound::Included(key(listed, PageId(u32::MAX)).to_vec()),
    );
    let mut scan = Scan::new(bounds.0, bounds.1);
    let mut found = Vec::new();
    while found.len() < most
        && let Some((key, value)) = scan.next(list, &mut Scanned(reader), true)?
    {
        let (&[_, a, b, c, d], ScannedValue::Bytes(value)) = (&key[..], value) else { return Err(wrong()) };
        let &[e, f, g, h] = &value[..] else { return Err(wrong()) };
        let (page, count) = (PageId(u32::from_be_bytes([a, b, c, d])), u32::from_le_bytes([e, f, g, h]));
        if page == PageId::NONE || count == 0 {
            return Err(wrong());
        }
        found.push((page, u64::from(count)));
    }
    Ok(found)
}

/// How fast a participant that frees pages goes on. Others may be making commits over an earlier state, which
/// cannot be taken from them as snapshots can. Meanwhile what is freed takes the cache twice, and they find
/// no room.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// One of them has stopped.
    is_stopped: bool,
}

impl Pace {
    /// Waits until nobody looks at a state from before what has just been freed; for a moment, and not again
    /// if that was not enough. The caller holds no latch.
    pub(super) fn leave_room(&mut self, trees: &Trees) {
        let at = trees.pages.newest();
        let mut pauses = 0..if self.is_stopped { 0 } else { PAUSES };
        while trees.pages.participants.is_guarded_before(at) {
            if pauses.next().is_none() {
                self.is_stopped = true;
                return;
            }
            sablecat_os::atomic::pause(PAUSE);
        }
    }
}

/// Lists that are to be freed, with what they name, once no snapshot is older than these LSNs.
pub(crate) type Unfreed = Mutex<Vec<(CatalogEntry, Lsn)>>;

impl Trees {
    /// Makes an empty list: a commit of its own. The caller holds no latch.
    pub(super) fn create_list(&self, me: &LocalParticipant) -> Result<CatalogEntry> {
        let tree = self.pages.new_tree_id();
        let maker = Some(self.pages.standing());
        let entry = CatalogEntry {
            list: Some(Listed::Made),
            maker,
            ..CatalogEntry::new(tree, VolumeId::MAIN, Method::Btree)
        };
        self.patiently(|| self.create_noted(me, entry.clone()))
    }

    /// Frees the pages of one kind that a list names, some at a time.
    pub(super) fn free_listed(
        &self,
        me: &LocalParticipant,
        entry: &CatalogEntry,
        listed: Listed,
    ) -> Result<()> {
        let list = entry.tree_of_note()?;
        let (most, mut pace) = (self.changed_at_once(), Pace::default());
        while self.patiently(|| {
            self.commit_shape(me, &[list.id], Durability::Memory, |changes, record| {
                record.begin(log::RecordKind::Filler);
                let found = entries(changes, &list.tree(), listed, PageId::NONE, most)?;
                let mut last = PageId::NONE;
                for &(first, count) in &found {
                    changes.free_run(first, count)?;
                    change(changes, &list.tree(), (&key(listed, first), None), &mut last)?;
                }
                Ok(!found.is_empty())
            })
        })? {
            pace.leave_room(self);
        }
        Ok(())
    }

    /// Frees a list and what goes with it, unless some snapshot from before `at` still sees that, or there is
    /// no room to: then later (`free_pages_later`), or when the environment is next opened afresh.
    pub(in crate::txn) fn free_pages_of(&self, me: &LocalParticipant, entry: CatalogEntry, at: Lsn) {
        if !self.comes_unseen(at) || self.free_tree(me, &entry).is_err() {
            self.unfreed().push((entry, at));
        }
    }

    /// Whether no snapshot is left from before a state, or is left in a moment.
    pub(in crate::txn) fn comes_unseen(&self, at: Lsn) -> bool {
        // Most reads of this moment are about to end.
        let mut waits = 0..YIELDS;
        while !self.pages.is_unseen_before(at) {
            if waits.next().is_none() {
                return false;
            }
            sablecat_os::atomic::yield_now();
        }
        true
    }

    /// Frees what could not be freed before. What goes wrong is tried again; so is what a participant that
    /// may be stopped is in the way of.
    pub(crate) fn free_pages_later(&self) {
        let Ok(seat) = self.pages.participants.sit() else { return };
        let noted = std::mem::take(&mut *self.unfreed());
        for (entry, at) in noted {
            let would_wait = self.is_structure_held(CATALOG)
                || self.is_structure_held(entry.tree)
                || self.pages.is_checkpoint_in_progress();
            if would_wait { self.unfreed().push((entry, at)) } else { self.free_pages_of(&seat, entry, at) }
        }
    }

    fn unfreed(&self) -> MutexGuard<'_, Vec<(CatalogEntry, Lsn)>> {
        self.unfreed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

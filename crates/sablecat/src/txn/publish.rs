//! The commit step: from prepared changes to a published commit, and how others finish it.
//!
//! ```text
//! 1 acquire role commit      5 born = c in every new frame; slot.commit = c; phase = Committing
//! 2 pin                      6 tail = c                    <- the commit point
//! 3 validate                 7 old.superseded = c; swing each entry {old, me} -> {new, nobody}; mark the page unsaved
//! 4 copy the record          8 visible = max(visible, c)   9 phase = Idle, release the role
//! ```
//!
//! Dying before 6 leaves nothing; after 6, whoever wants the role finds phase Committing with the tail at or
//! past `commit`, and does 7 to 9 for the owner. All of it can be done twice. A helper pins first and reads
//! the role word again after the list, because the list may by then be of a later commit; if its own pin is
//! at or past the commit, all is swung already and the old frames may be reused: it only releases the role.
//!
//! Costs (sketch, uncontended, one page): two locked swaps for the role, one for the entry, one for
//! `visible`: 20 ns; the record's copy.

use sablecat_os::atomic::Ordering;

use super::changes::{Changes, more_items};
use super::{Kernel, recent};
use crate::error::Result;
use crate::log::{Log, RecordBuilder};
use crate::pages::{Pages, Participant};
use crate::region::{
    EntryWord, FrameState, Held, Holding, ListItem, Phase, Role, SLOT_LIST_INLINE, Slot, Work,
};
use crate::types::{FrameId, Lsn, PageId};

/// Publishes `changes` with `record` in the log, if `validate` agrees once nobody else can commit. Returns
/// the commit's LSN; the record is in the ring, and how durable it must become is the caller's affair. On any
/// error nothing is published and the changes are undone.
#[inline]
pub(crate) fn publish(
    pages: &Pages,
    log: &Log,
    mut changes: Changes<'_>,
    record: &mut RecordBuilder,
    validate: impl FnOnce(&mut Changes<'_>) -> Result<()>,
) -> Result<Lsn> {
    let me = changes.participant();
    let header = pages.region.header();
    let slot = me.slot();
    let needed = record.len() + log.stamp_bytes();
    let role = loop {
        log.ensure_room(needed, super::caller(&pages.region, me.number()))?;
        let role = acquire(pages, log, me)?;
        if log.has_room(needed) {
            break role;
        }
        // Others have filled what was free a moment ago.
    };

    // The pin that holds every old frame: the participant's own, if it covers them all.
    let covered = !slot.is_revoked()
        && slot.pinned().is_some_and(|at| {
            changes.items().iter().all(|item| {
                item.old == FrameId::NONE || pages.region.born(item.old).load(Ordering::Relaxed) <= at.0
            })
        });
    if !covered {
        changes.guard();
    }

    validate(&mut changes)?;

    pages.region.check_fence()?;
    let start = log.stamp();
    let bytes = record.seal(start, log.durable());
    let commit = Lsn(start.0 + bytes.len() as u64);
    log.copy_record(start, bytes);
    for item in changes.items() {
        let frame = if item.new == FrameId::NONE { continue } else { item.new };
        // Release of the state publishes the bytes to chain walkers; the entry's swing publishes them to
        // everybody else.
        pages.region.born(frame).store(commit.0, Ordering::Relaxed);
        pages.region.frame(frame).set_state(FrameState::Published);
    }
    recent::list(
        pages,
        start,
        changes.items().iter().filter(|item| item.new != FrameId::NONE).map(|item| item.page),
    )?;
    // Once more, as late as can be: copying may have taken long. Who is stopped between this and the commit
    // point, and taken for dead then, is not held up.
    pages.region.check_fence()?;
    // From here to the end of the role nothing of the caller's is called, and nothing can panic: who unwound
    // would give up the role half way.
    slot.begin_commit(commit);
    log.advance_tail(commit);
    for &item in changes.items() {
        swing(pages, item, commit, me.number());
    }
    header.visible.0.fetch_max(commit.0, Ordering::SeqCst);
    header.recent.sleepers.wake();
    slot.end_commit();
    drop(role);
    changes.published(commit);
    Ok(commit)
}

/// Step 7 for one page; idempotent while its caller is pinned below `commit`.
#[inline]
fn swing(pages: &Pages, item: ListItem, commit: Lsn, owner: u16) {
    if item.new == FrameId::NONE {
        // Latched, looked at, and left as it was: the owner unlatches it. A helper must not, since the same
        // owner may have latched the same version again.
        return;
    }
    if item.old != FrameId::NONE {
        pages.region.frame(item.old).supersede(commit);
    }
    pages.swing(item.page, EntryWord::new(item.old, owner), EntryWord::new(item.new, 0));
    // After the swing and before `visible` moves: see pages/store/checkpoint.rs.
    pages.mark_unsaved(item.page);
}

/// Takes the commit role, helping who is past its commit point in it.
#[inline]
pub(super) fn acquire<'a>(pages: &'a Pages, log: &Log, me: &Participant) -> Result<Held<'a>> {
    let role = pages.region.role(Work::Commit);
    match role.try_take(me.number()) {
        Ok(held) => Ok(held),
        Err(_) => acquire_slow(pages, log, me, role),
    }
}

#[cold]
fn acquire_slow<'a>(pages: &Pages, log: &Log, me: &Participant, role: Role<'a>) -> Result<Held<'a>> {
    let mut looks = 0u32;
    role.wait_for(|| {
        let taken = role.try_take_unfenced(me.number()).transpose();
        if taken.is_none() {
            looks += 1;
            // A holder that is running finishes within a few looks; one that was pre-empted or died past the
            // commit point is helped.
            if looks.is_multiple_of(32) {
                help(pages, log, me, role.look());
            }
        }
        taken
    })
}

impl Kernel {
    /// Finishes the commit in progress if its pages can be seen already: for who has met one of them, and
    /// would meet it again at every state before that commit is visible.
    #[cold]
    pub(super) fn help_committer(&self, me: &Participant) {
        help(&self.pages, &self.log, me, self.pages.region.role(Work::Commit).look());
    }
}

/// Finishes the commit step of `other`'s owner if it is past the commit point.
pub(super) fn help(pages: &Pages, log: &Log, me: &Participant, other: Holding) {
    let (header, role) = (pages.region.header(), pages.region.role(Work::Commit));
    let owner = other.owner();
    // Who was taken for dead has no pin, and cannot help.
    if owner == 0 || pages.region.is_fenced() {
        return;
    }
    let newest = pages.guarded(me);
    let theirs = pages.region.slot(owner);
    let phase = theirs.phase();
    let commit = theirs.commit();
    let list = read_list(pages, theirs);
    // Only now is it known that what was read belongs to this holding: all of it was read by Acquire loads,
    // and stored by Release stores, so who has met a word of a later commit finds the role changed.
    if role.look() == other && phase == Phase::Committing && log.tail() >= commit {
        if newest.at() < commit {
            for item in list {
                swing(pages, item, commit, owner);
            }
            header.visible.0.fetch_max(commit.0, Ordering::SeqCst);
            header.recent.sleepers.wake();
        }
        role.end(other);
    }
}

/// The publish list of a slot. May be nonsense if the owner goes on meanwhile; the caller checks the role
/// word afterwards.
pub(super) fn read_list(pages: &Pages, slot: &Slot) -> Vec<ListItem> {
    let frames = pages.region.geometry().frames;
    let len = slot.list_len();
    let mut list: Vec<_> = (0..len.min(SLOT_LIST_INLINE)).map(|n| slot.item(n)).collect();
    let each = more_items(pages.region.page_size());
    let mut more = slot.list_more();
    while list.len() < len && more != FrameId::NONE && (more.0 as usize) < frames {
        let word = |n| pages.region.frame_word(more, n).load(Ordering::Acquire);
        for n in 0..each.min(len - list.len()) {
            let at = 1 + 3 * n;
            list.push(ListItem {
                page: PageId(word(at)),
                old: FrameId(word(at + 1)),
                new: FrameId(word(at + 2)),
            });
        }
        more = FrameId(word(0));
    }
    list
}

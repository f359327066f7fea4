//! The commit step: from prepared changes to a published commit, and how others finish it.
//!
//! ```text
//! 1 acquire role commit    5 born = c in every new frame; slot.commit = c; phase = Committing
//! 2 pin                    6 tail = c                    <- the commit point
//! 3 validate               7 old.superseded = c; swing each entry {old, me} -> {new, nobody};
//! 4 copy the record          mark the page unsaved
//!                          8 visible = max(visible, c)   9 phase = Idle, release the role
//! ```
//!
//! A death before 6 leaves nothing. After 6, a participant that wants the role finds phase Committing with
//! the tail at or past `commit`, and does 7 to 9 for the owner. All of it can be done twice. A helper pins
//! first and reads the role word again after the list, because the list may by then be of a later commit. If
//! its own pin is at or past the commit, all is swung already and the old frames may be reused: then it only
//! releases the role.
//!
//! Costs (sketch, uncontended, one page): two locked swaps for the role, one for the entry, one for
//! `visible`: 20 ns; the record's copy.

use super::changes::ChangedPages;
use super::{Committer, recent};
use crate::error::Result;
use crate::log::{self, Log, RecordBuilder};
use crate::pages::{LocalParticipant, Pages};
use crate::region::{HeldRole, Phase, Role, RoleHolding, Work};
use crate::types::{FrameId, Lsn};

/// Publishes `changes` with `record` in the log, if `validate` agrees once nobody else can commit. Returns
/// the commit's LSN; the record is in the ring, and how durable it must become is the caller's affair. On any
/// error nothing is published and the changes are undone.
#[inline]
pub(crate) fn publish(
    pages: &Pages,
    log: &Log,
    mut changes: ChangedPages<'_>,
    record: &mut RecordBuilder,
    validate: impl FnOnce(&mut ChangedPages<'_>) -> Result<()>,
) -> Result<Lsn> {
    let me = changes.participant();
    let slot = me.slot();
    log.encipher(record);
    let needed = record.len() + log.stamp_bytes();
    let role = loop {
        log.fail_if_poisoned()?;
        let role = acquire(pages, log, me)?;
        if log.has_room(needed) {
            log.foresee_record();
            break role;
        }
        drop(role);
        log.make_room(needed, super::caller(pages, me.number()))?;
        // Others may have filled it by the time that the role is had again.
    };

    // The pin that holds every old frame: the participant's own, if it covers them all.
    let covered = !slot.is_revoked()
        && slot.pinned().is_some_and(|at| {
            changes.items().iter().all(|item| item.old == FrameId::NONE || pages.born(item.old) <= at)
        });
    if !covered {
        changes.guard();
    }

    validate(&mut changes)?;

    pages.check_fence()?;
    let start = log.stamp();
    let bytes = record.seal(start, log.durable());
    let commit = Lsn(start.0 + bytes.len() as u64);
    log.copy_record(start, bytes);
    changes.versions.finish(commit);
    recent::list(
        pages,
        start,
        changes.items().iter().filter(|item| item.new != FrameId::NONE).map(|item| item.page),
    )?;
    // Once more, as late as can be: copying may have taken long. A committer that is stopped between this and
    // the commit point, and taken for dead then, is not held up.
    pages.check_fence()?;
    // From here to the end of the role nothing of the caller's is called, and nothing can panic: unwinding
    // would give up the role half way.
    slot.begin_commit(commit);
    log.advance_tail(commit);
    changes.versions.put_in_place(commit);
    pages.raise_newest(commit);
    slot.end_commit();
    drop(role);
    changes.versions.settle(commit);
    Ok(commit)
}

/// Takes the commit role, helping a holder that is past its commit point.
#[inline]
pub(in crate::txn) fn acquire<'a>(
    pages: &'a Pages,
    log: &Log,
    me: &LocalParticipant,
) -> Result<HeldRole<'a>> {
    let role = pages.role(Work::Commit);
    if role.look().owner() == 0 {
        // The last committer wrote all three lines, and this one will. They come at once, as its own. Nothing
        // looks at the tail before, which would bring it twice; and nobody asks for them while another is in
        // the role: that one would have to fetch them back.
        pages.foresee_newest();
        log.foresee_tail();
        if let Ok(held) = role.try_take(me.number()) {
            return Ok(held);
        }
    }
    acquire_slow(pages, log, me, role)
}

#[cold]
fn acquire_slow<'a>(pages: &Pages, log: &Log, me: &LocalParticipant, role: Role<'a>) -> Result<HeldRole<'a>> {
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

impl Committer {
    /// Finishes the commit in progress if its pages can be seen already: for a participant that has met one
    /// of them, and would meet it again at every state before that commit is visible.
    #[cold]
    pub(in crate::txn) fn help_committer(&self, me: &LocalParticipant) {
        help(&self.pages, &self.log, me, self.pages.role(Work::Commit).look());
    }
}

/// Finishes the commit step of `other`'s owner if it is past the commit point.
pub(in crate::txn) fn help(pages: &Pages, log: &Log, me: &LocalParticipant, other: RoleHolding) {
    let role = pages.role(Work::Commit);
    let owner = other.owner();
    // A process that was taken for dead has no pin, and cannot help.
    if owner == 0 || pages.is_fenced() {
        return;
    }
    let newest = pages.helping(me);
    let theirs = pages.slot(owner);
    let phase = theirs.phase();
    let commit = theirs.commit();
    let list = pages.read_list(theirs);
    // Only now is it known that what was read belongs to this holding: all of it was read by Acquire loads,
    // and stored by Release stores, so a helper that has met a word of a later commit finds the role changed.
    if role.look() == other && phase == Phase::Committing && log.tail() >= commit {
        if newest.at() < commit {
            for item in list {
                pages.put_in_place(item, commit, owner);
            }
            pages.raise_newest(commit);
        }
        role.end(other);
    }
}

/// A record that says nothing: it gives a publish its LSN.
pub(in crate::txn) fn filler() -> RecordBuilder {
    let mut record = RecordBuilder::new();
    record.begin(log::RecordKind::Filler);
    record.finish_body();
    record
}

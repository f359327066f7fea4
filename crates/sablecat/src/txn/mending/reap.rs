//! Reaping: finishing what the participants of dead processes left undone.
//!
//! ```text
//! 0 the member is another incarnation, and its slots say that it is dead: should it live after all, it finds
//!   out before it touches anything
//! 1 the commit role: past the commit point, finish the commit, and count it; before it, nothing happened:
//!   release
//! 2 pages it had latched: the latch ended
//! 3 pins: it reads nothing any more
//! 4 frames it was building: free; claimed: a version again; it was writing: on no block
//! 5 record locks, the roles, the log's turns
//! 6 the slots say that they are mended; the name of a file for a large transaction that one of them was
//!   making (runs.rs)
//! 7 when nobody else mends: the slots are free, the member is struck out
//! ```
//!
//! A reaper may die anywhere, and it may be stopped anywhere, for as long as it likes. So every step can be
//! done again, and *beside* another reaper that does it at the same time: a word that names the dead changes
//! by compare-and-swap, once. Only the reaper that has changed it does what hangs on that. What the reaper
//! needs to have for itself it takes from the dead in its own name first (the checkpoint role, frames).
//! Nothing is waited for, since the caller of a reaper may hold latches.
//!
//! That is sound for as long as the dead's number names the dead and nobody else. So a mender says in its own
//! slot that it mends, before it looks for the dead. And slots are given away by a mender that sees, *after*
//! they say that all is mended, that nobody else mends: a mender that begins later finds that said, and
//! leaves them alone. The slots and the number of the dead are therefore all that a stopped reaper keeps from
//! others.
//!
//! The role of reaping protects nothing: it keeps processes from doing the same twice. It is taken from the
//! dead, and from a holder that has had it for long.
//!
//! What is not mended: page ids and blocks that were allocated and named nowhere yet. They are lost to use
//! until somebody finds that out (pages/store/lost.rs), and to nothing else. The pages of a bulk load
//! are found when somebody looks for them (unreachable.rs), and so are those of a large commit, or of a
//! database whose removal or creation was cut short (notes.rs).
//!
//! Costs: a look at all members, 0.3 us each, and 1.5 us each if there are 500, which is why most callers
//! look [now and then](Mender::reap_now_and_then); for each dead one, a pass over the page table and the
//! frames: 10 ms for a million of either.

use std::time::Duration;

use sablecat_os::atomic::Ordering;

use super::Mender;
use crate::pages::LocalParticipant;
use crate::region::{HeldRole, RoleHolding, STRUCTURE_LATCHES, Tenant, Work};
use crate::trace::{self, Happened};
use crate::txn::commit::publish;

/// The dead are not looked for again within this many milliseconds, and one more for every so many slots in
/// use.
const LOOK_EVERY: u64 = 10;
const SLOTS_A_MILLISECOND: u64 = 16;
/// Another may mend for so long, as far as one has looked, before one mends beside it.
const PATIENCE: Duration = Duration::from_millis(100);

/// A member that was found dead.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Dead {
    pub(in crate::txn) member: u16,
    /// The incarnation that says so.
    pub(in crate::txn) incarnation: u64,
}

/// Says that a participant mends, until dropped.
#[derive(Debug)]
pub(in crate::txn) struct Mending<'a>(&'a LocalParticipant);

impl Mending<'_> {
    pub(in crate::txn) fn begin(me: &LocalParticipant) -> Mending<'_> {
        me.slot().begin_mending();
        Mending(me)
    }
}

impl Drop for Mending<'_> {
    fn drop(&mut self) {
        self.0.slot().end_mending();
    }
}

impl Mender {
    /// As [`Mender::reap`], for a caller that asks again and again: does nothing if anybody has looked a
    /// moment ago. The more processes there are, the more a look costs, and the more of them ask: together
    /// they would do nothing else.
    pub(crate) fn reap_now_and_then(&self, me: &LocalParticipant) {
        let header = self.pages.region().header();
        let now = sablecat_os::clock::monotonic().as_millis() as u64;
        let last = header.looked.0.load(Ordering::Relaxed);
        let soon = LOOK_EVERY + u64::from(header.slots_high.0.load(Ordering::Relaxed)) / SLOTS_A_MILLISECOND;
        if now.wrapping_sub(last) < soon
            || header.looked.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        // What is left for later is done at a later look.
        let _ = self.reap(me);
    }

    /// Reaps the participants of all members that have died, unless somebody else is at it, and has not been
    /// for long. True if there is more to do later.
    pub(crate) fn reap(&self, me: &LocalParticipant) -> bool {
        let region = self.pages.region();
        let Some(membership) = region.membership() else { return false };
        let is_dead = |number: u16| region.member(number).is_used() && !membership.is_alive(number);
        if region.is_fenced() || !(0..region.geometry().members).any(is_dead) {
            return false;
        }
        let _mending = Mending::begin(me);
        let dead: Vec<_> =
            (0..region.geometry().members).filter_map(|number| self.fence_if(number, is_dead)).collect();
        let role = region.role(Work::Reaping);
        let _held = loop {
            let other = match role.try_take(me.number()) {
                Ok(held) => break held,
                Err(other) => other,
            };
            if other.owner() != 0
                && region
                    .slot(other.owner())
                    .member()
                    .is_some_and(|member| dead.iter().any(|dead| dead.member == member))
            {
                // A reaper died: this one starts again.
                role.end(other);
            } else if other.owner() != 0 && self.reaper.is_long(other, PATIENCE) {
                // It is stopped, perhaps.
                match role.take_over(other, me.number()) {
                    Some(held) => break held,
                    None => return true,
                }
            } else {
                return true;
            }
        };
        self.reap_members(&dead, me)
    }

    /// Fences a member that is found dead.
    fn fence_if(&self, number: u16, is_dead: impl Fn(u16) -> bool) -> Option<Dead> {
        let member = self.pages.region().member(number);
        loop {
            // In this order: a process that enters has its lock before it is another incarnation. So if it is
            // this one still, it is this one that is dead.
            let seen = member.incarnation().load(Ordering::SeqCst);
            if !is_dead(number) {
                return None;
            }
            if let Some(incarnation) = member.fence(seen) {
                return Some(Dead { member: number, incarnation });
            }
        }
    }

    /// Mends what the dead left, and gives their slots away unless somebody else mends. True if there is more
    /// to do later. The caller has begun to [mend](Mending).
    pub(in crate::txn) fn reap_members(&self, dead: &[Dead], me: &LocalParticipant) -> bool {
        let region = self.pages.region();
        let high = || region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        let mut slots: Vec<_> = (1..high())
            .filter_map(|slot| self.dead_tenant(slot, dead).map(|tenant| (slot, tenant)))
            .collect();
        for (slot, tenant) in slots.iter_mut().filter(|(_, tenant)| !tenant.is_mended()) {
            let is_mended = self.mend_slot(*slot, me);
            if region.is_fenced() {
                return true;
            }
            if is_mended {
                *tenant = region.slot(*slot).note_mended(*tenant);
            }
        }
        if slots.iter().any(|(_, tenant)| !tenant.is_mended()) {
            return true;
        }
        if let Some(place) = &self.spill {
            // A name that stays goes with the next file that is made, or when the environment is next opened.
            let _ = place.remove_name();
        }
        // Only now: see above.
        if (1..high()).any(|slot| slot != me.number() && region.slot(slot).mends()) || region.is_fenced() {
            return true;
        }
        slots.into_iter().for_each(|(slot, tenant)| region.slot(slot).give_back(tenant));
        for &Dead { member, incarnation } in dead {
            let pid = region.member(member).pid();
            if region.member(member).leave(incarnation) {
                trace::tell(Happened::Mended { member, pid });
            }
        }
        false
    }

    /// The tenant of a slot, if it is one of the dead; the slot says so from then on.
    fn dead_tenant(&self, slot: u16, dead: &[Dead]) -> Option<Tenant> {
        let region = self.pages.region();
        let slot = region.slot(slot);
        loop {
            // In this order: a process that enters with that number is another incarnation before it has a
            // slot.
            let tenant = slot.tenant();
            let is_dead = |dead: &&Dead| {
                Some(dead.member) == tenant.member()
                    && region.member(dead.member).incarnation().load(Ordering::SeqCst) == dead.incarnation
            };
            dead.iter().find(is_dead)?;
            if let Some(dead) = slot.note_dead(tenant) {
                return Some(dead);
            }
        }
    }

    /// Mends what was left by the participant of a dead member that had this slot: all but the slot. False if
    /// another participant is deciding what became of its checkpoint.
    pub(in crate::txn) fn mend_slot(&self, dead: u16, me: &LocalParticipant) -> bool {
        let region = self.pages.region();
        let (slot, role) = (region.slot(dead), region.role(Work::Commit));
        // What is given back of it is in this one's hand, until all that mend it have.
        let _hand = me.in_hand();

        let begun = slot.begun();
        let commit = role.look();
        if commit.owner() == dead {
            publish::help(&self.pages, &self.log, me, commit);
            // Had it been past the commit point, it would have ended now; but a process that was taken for
            // dead has not helped.
            if region.is_fenced() {
                return false;
            }
            if role.look() == commit {
                // While it has the role: after that, whether its commit happened cannot be told from the
                // tail.
                slot.end_commit_of(begun, false);
                role.end(commit);
            }
        }
        // It was helped, now or before, unless a mender has said otherwise, which was before the role was
        // found to have ended.
        slot.end_commit_of(begun, true);

        let unpublished = self.pages.read_list(slot);
        self.pages.unlatch_all_of(dead, &unpublished);
        if region.is_fenced() {
            return false;
        }
        slot.set_list_len(0);
        slot.set_list_more(crate::types::FrameId::NONE);

        slot.exit();
        slot.unpin();
        slot.end_helping();
        slot.unguard();
        self.pages.free_frames_of(dead, me);

        self.locks.release_all_of(dead);
        let settled = self.pages.end_checkpoint_of(dead, me);
        let others = [Work::Serial, Work::Housekeeping, Work::Unreachable, Work::Reaping];
        for work in (0..STRUCTURE_LATCHES).map(Work::Structure).chain(others) {
            let role = region.role(work);
            let holding = role.look();
            if holding.owner() == dead && !region.is_fenced() {
                role.end(holding);
            }
        }
        self.log.release_turns_of(dead);
        if region.is_fenced() {
            return false;
        }

        slot.end_chain();
        slot.end_load();
        slot.end_hand();
        slot.end_settling();
        slot.clear_revoked();
        slot.end_mending();
        settled
    }

    /// Takes the role of housekeeping, until dropped.
    pub(crate) fn keep(&self, me: &LocalParticipant) -> std::result::Result<HeldRole<'_>, RoleHolding> {
        self.pages.role(Work::Housekeeping).try_take(me.number())
    }

    /// Takes the role of housekeeping from another process, which has had it for long, until dropped. None if
    /// that process has let go of it, or is this one.
    pub(crate) fn keep_instead(&self, of: RoleHolding, me: &LocalParticipant) -> Option<HeldRole<'_>> {
        let region = self.pages.region();
        let is_other = of.owner() != 0 && region.slot(of.owner()).member() != Some(region.number());
        if is_other { region.role(Work::Housekeeping).take_over(of, me.number()) } else { None }
    }
}

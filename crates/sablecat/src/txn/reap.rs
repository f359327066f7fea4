//! Reaping: finishing what the participants of dead processes left undone.
//!
//! ```text
//! 0 the member is another incarnation: should it live after all, it finds out before it touches anything
//! 1 the commit role: past the commit point, finish the commit; before it, nothing happened: release
//! 2 pages it had latched: its version again if it was being evicted, its unpublished new version claimed, the latch ended
//! 3 pins: it reads nothing any more
//! 4 frames it was building: free; frames it was writing: on no block
//! 5 record locks, the roles, the log's turns
//! 6 the slot
//! ```
//!
//! One participant reaps at a time, under a role of its own. Every step can be done again, so a reaper may die anywhere: its successor starts
//! from the beginning, and the slot of the dead is what tells it that there is something to do, until the last step. Nothing here waits for
//! a latch: a reaper may be called by who holds one. What cannot be done at the moment, in step 4, or what another is about to settle of a checkpoint, keeps the slot for the next time, and nothing
//! else: who holds that latch may be waiting for what the other steps let go.
//!
//! What is not mended before the environment is next opened afresh: page ids and blocks that were allocated and named nowhere yet, and the
//! pages of a database whose removal or creation was cut short. They are lost to use until then, and to nothing else. Those of a bulk load are found
//! when somebody looks for them (unreachable.rs).
//!
//! Costs: a look at all members, 0.3 us each, and 1.5 us each if there are 500; for each dead one, a pass over the page table and the frames: 10 ms for a million of either.

use sablecat_os::atomic::Ordering;

use super::{Kernel, publish};
use crate::pages::Participant;
use crate::region::{Held, Holding, STRUCTURE_LATCHES, Work};

/// The dead are not looked for again within this many milliseconds, and one more for every so many slots in use.
const LOOK_EVERY: u64 = 10;
const SLOTS_A_MILLISECOND: u64 = 16;

impl Kernel {
    /// As [`Kernel::reap`], for who asks again and again: does nothing if anybody has looked a moment ago. A look costs the more the more
    /// processes there are, and so do those who ask: together they would do nothing else.
    pub(crate) fn reap_now_and_then(&self, me: &Participant) {
        let header = self.pages.region.header();
        let now = sablecat_os::clock::monotonic().as_millis() as u64;
        let last = header.looked.0.load(Ordering::Relaxed);
        let soon = LOOK_EVERY + u64::from(header.slots_high.0.load(Ordering::Relaxed)) / SLOTS_A_MILLISECOND;
        if now.wrapping_sub(last) < soon || header.looked.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // What is left for later is done at a later look.
        let _ = self.reap(me);
    }

    /// Reaps the participants of all members that have died, unless somebody else is at it. True if there is more to do later.
    pub(crate) fn reap(&self, me: &Participant) -> bool {
        let region = &self.pages.region;
        let Some(membership) = region.membership() else { return false };
        let members = region.geometry().members;
        let dead = || -> Vec<u16> { (0..members).filter(|&n| region.member(n).is_used() && !membership.is_alive(n)).collect() };
        if dead().is_empty() {
            return false;
        }
        let role = region.role(Work::Reaping);
        let _held = loop {
            match role.try_take(me.number()) {
                Ok(held) => break held,
                Err(other) if other.owner() != 0 && !region.is_alive(other.owner()) => {
                    // A reaper died: this one starts again.
                    role.end(other);
                }
                Err(_) => return true,
            }
        };
        // Looked at again: until the role was taken another may have reaped one of them, and a living process have taken its number.
        self.reap_members(&dead(), me)
    }

    fn reap_members(&self, dead: &[u16], me: &Participant) -> bool {
        let region = &self.pages.region;
        if region.is_fenced() {
            return false;
        }
        // Before anything is looked at: one of them may live, and not know yet that it is not believed to.
        dead.iter().for_each(|&member| region.member(member).fence());
        let high = region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        let slots: Vec<u16> = (1..high).filter(|&n| region.slot(n).member().is_some_and(|member| dead.contains(&member))).collect();
        let mut later = false;
        for &slot in &slots {
            later |= !self.reap_slot(slot, me);
        }
        if !later {
            for &member in dead {
                region.member(member).leave();
            }
        }
        later
    }

    /// True when the slot is free again.
    pub(super) fn reap_slot(&self, dead: u16, me: &Participant) -> bool {
        let region = &self.pages.region;
        let (slot, role) = (region.slot(dead), region.role(Work::Commit));

        let commit = role.look();
        if commit.owner() == dead {
            publish::help(&self.pages, &self.log, me, commit);
            // Had it been past the commit point, it would have ended now.
            role.end(commit);
        }
        slot.end_commit();

        let unpublished = publish::read_list(&self.pages, slot);
        self.pages.unlatch_all_of(dead, &unpublished);
        slot.set_list_len(0);
        slot.set_list_more(crate::types::FrameId::NONE);

        slot.exit();
        slot.unpin();
        slot.unguard();
        let freed = self.pages.free_frames_of(dead, me);

        self.locks.release_all_of(dead);
        let settled = self.pages.end_checkpoint_of(dead, me);
        for work in (0..STRUCTURE_LATCHES).map(Work::Structure).chain([Work::Serial, Work::Housekeeping, Work::Unreachable]) {
            let role = region.role(work);
            let holding = role.look();
            if holding.owner() == dead {
                self.thaw(work);
                role.end(holding);
            }
        }
        self.log.release_turns_of(dead);

        slot.end_chain();
        slot.end_load();
        slot.end_settling();
        slot.clear_revoked();
        if freed && settled {
            slot.give_back();
        }
        freed && settled
    }

    /// Takes the role of who keeps house, until dropped.
    pub(crate) fn keep(&self, me: &Participant) -> std::result::Result<Held<'_>, Holding> {
        self.pages.region.role(Work::Housekeeping).try_take(me.number())
    }

    /// Takes the role of who keeps house from another process, which has had it for long, until dropped. None if it has let go of it, or is this one.
    pub(crate) fn keep_instead(&self, of: Holding, me: &Participant) -> Option<Held<'_>> {
        let region = &self.pages.region;
        let is_other = of.owner() != 0 && region.slot(of.owner()).member() != Some(region.number());
        if is_other { region.role(Work::Housekeeping).take_over(of, me.number()) } else { None }
    }
}

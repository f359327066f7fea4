//! Roles: work that one participant does at a time.
//!
//! A role word is {owner slot, sequence}. The sequence changes with every acquisition, so a release or a help
//! that was meant for an older holding fails. Writer: the participant that acquires or releases; if the owner
//! dies the word still names it, and the finder decides by the rules of that role what to finish before it
//! ends the holding for the dead.
//!
//! A participant has a role until its [`HeldRole`] is dropped. The words are given and taken here and nowhere
//! else, so a thread that unwinds, because a caller's closure or comparator panicked, gives up every role on
//! its way. What a role's holder has half done then is left to whatever guards that.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sablecat_os::atomic::{AtomicU64, Ordering};
use sablecat_os::clock;

use super::{PAGE_QUEUES, Region, RegionQueue, STRUCTURE_LATCHES};
use crate::error::Result;

const OWNER_BITS: u32 = 16;
const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;

/// The queues behind those of the structure latches, from the last one down.
const COMMIT_QUEUE: usize = 255;
const CHECKPOINT_QUEUE: usize = 254;
const SERIAL_QUEUE: usize = 253;
const HOUSEKEEPING_QUEUE: usize = 252;
const REAPING_QUEUE: usize = 251;
const UNREACHABLE_QUEUE: usize = 250;
/// No role's: of participants that wait for the end of a write that another is at.
pub(crate) const WRITTEN_QUEUE: usize = 249;
const _: () = assert!(PAGE_QUEUES + STRUCTURE_LATCHES <= WRITTEN_QUEUE);

/// What one participant does at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// The commit step.
    Commit,
    /// Writing a checkpoint.
    Checkpoint,
    /// To be the only one that begins commits.
    Serial,
    /// Keeping house.
    Housekeeping,
    /// Finishing what the dead left.
    Reaping,
    /// Freeing pages that nothing leads to.
    Unreachable,
    /// Changing the shape of the trees that share this structure latch.
    Structure(usize),
}

/// One role's word.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct RoleWord(AtomicU64);

/// A holding of a role, as seen at one moment: the owner and which of its holdings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoleHolding(u64);

impl RoleHolding {
    /// The owner's slot; 0 when the role is free.
    #[inline]
    pub(crate) fn owner(self) -> u16 {
        (self.0 & OWNER_MASK) as u16
    }

    /// What says of a word that the holder changed it: of two holdings that a word could remember, another.
    #[inline]
    pub(crate) fn tag(self) -> u32 {
        (self.0 >> OWNER_BITS) as u32
    }
}

impl RoleWord {
    /// What the word says now. Acquire: pairs with the releases below.
    #[inline]
    pub(crate) fn look(&self) -> RoleHolding {
        RoleHolding(self.0.load(Ordering::Acquire))
    }

    /// Takes the role for `slot` if it is free, and says with which holding; otherwise says which holding has
    /// it.
    #[inline]
    fn acquire(&self, slot: u16) -> std::result::Result<RoleHolding, RoleHolding> {
        debug_assert_ne!(slot, 0);
        // Acquire: a participant that finds the role held may go on to what its holder has announced, as
        // after `look`.
        let seen = self.0.load(Ordering::Acquire);
        if seen & OWNER_MASK != 0 {
            return Err(RoleHolding(seen));
        }
        let mine = seen.wrapping_add(1 << OWNER_BITS) | u64::from(slot);
        // SeqCst, so also: the new holder sees all that the last one did; its claim is ordered before what it
        // does.
        match self.0.compare_exchange(seen, mine, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => Ok(RoleHolding(mine)),
            Err(now) => Err(RoleHolding(now)),
        }
    }

    /// Takes the role for `slot` from a holding, unless that has ended.
    fn take_over(&self, from: RoleHolding, slot: u16) -> Option<RoleHolding> {
        debug_assert_ne!(slot, 0);
        let mine = (from.0 & !OWNER_MASK).wrapping_add(1 << OWNER_BITS) | u64::from(slot);
        self.0
            .compare_exchange(from.0, mine, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
            .then_some(RoleHolding(mine))
    }

    /// Ends one holding. False if it had ended already.
    #[inline]
    fn release(&self, holding: RoleHolding) -> bool {
        // SeqCst: Release for what was done in the role, and before the look at the queue: either the
        // sleeper's last look finds the role free, or the look at the queue finds the sleeper.
        self.0
            .compare_exchange(holding.0, holding.0 & !OWNER_MASK, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }
}

/// Since when a role has had one holding that does not move, as far as this process has looked.
#[derive(Debug, Default)]
pub(crate) struct RoleWatch(Mutex<Option<(RoleHolding, u64, Duration)>>);

impl RoleWatch {
    /// Whether this holding has been seen for at least so long.
    pub(crate) fn is_long(&self, holding: RoleHolding, patience: Duration) -> bool {
        sablecat_os::atomic::explored() || self.unmoved(holding, 0) >= patience
    }

    /// For how long this holding has been seen without a move; `moved` is how often it has moved.
    pub(crate) fn unmoved(&self, holding: RoleHolding, moved: u64) -> Duration {
        let now = clock::monotonic();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |seen: &(RoleHolding, u64, Duration)| (seen.0, seen.1) == (holding, moved);
        let since = seen.filter(is_same).map_or(now, |seen| seen.2);
        *seen = Some((holding, moved, since));
        now.saturating_sub(since)
    }
}

/// A role, and where participants sleep that want it.
#[derive(Clone, Copy)]
pub(crate) struct Role<'a> {
    work: Work,
    word: &'a RoleWord,
    queue: RegionQueue<'a>,
}

impl fmt::Debug for Role<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Role").field(&self.work).finish()
    }
}

impl<'a> Role<'a> {
    /// Its holding now.
    #[inline]
    pub(crate) fn look(self) -> RoleHolding {
        self.word.look()
    }

    /// Takes it for `slot` if it is free; otherwise says which holding has it.
    #[inline]
    pub(crate) fn try_take(self, slot: u16) -> std::result::Result<HeldRole<'a>, RoleHolding> {
        self.word.acquire(slot).map(|holding| HeldRole { role: self, holding })
    }

    /// Takes it for `slot` from a holder that is alive, unless that holding has ended. The holder before does
    /// not know, and may go on with what it does: so this is for work of which no harm comes if two do it,
    /// because all that it changes has a role or turn of its own, or is changed by compare-and-swap in the
    /// name of a holding (pages/generation/succession.rs) or of the dead (txn/mending/reap.rs).
    pub(crate) fn take_over(self, from: RoleHolding, slot: u16) -> Option<HeldRole<'a>> {
        assert!(
            matches!(self.work, Work::Housekeeping | Work::Checkpoint | Work::Reaping),
            "everything else is for one participant at a time"
        );
        self.word.take_over(from, slot).map(|holding| HeldRole { role: self, holding })
    }

    /// Takes it for `slot` from a dead participant, which has been fenced, unless that holding has ended: to
    /// finish what that one left.
    pub(crate) fn inherit(self, from: RoleHolding, slot: u16) -> Option<HeldRole<'a>> {
        self.word.take_over(from, slot).map(|holding| HeldRole { role: self, holding })
    }

    /// Takes it for `slot`, waiting for the participant that has it.
    ///
    /// # Errors
    /// `Poisoned` if this process was taken for dead, meanwhile perhaps: its slot is another's then, and the
    /// role is not held in its name.
    pub(crate) fn take(self, slot: u16) -> Result<HeldRole<'a>> {
        self.wait_for(|| self.try_take_unfenced(slot).transpose())
    }

    /// [`Role::try_take`] for a participant that has waited, for how long nobody knows: looks, before and
    /// after, whether the slot is this process's still.
    ///
    /// # Errors
    /// As [`Role::take`].
    pub(crate) fn try_take_unfenced(self, slot: u16) -> Result<Option<HeldRole<'a>>> {
        self.queue.region.check_fence()?;
        let held = self.try_take(slot).ok();
        self.queue.region.check_fence().map(|()| held)
    }

    /// Waits until `done` gives something: called when a holding has ended, and now and then.
    pub(crate) fn wait_for<T>(self, done: impl FnMut() -> Option<T>) -> T {
        self.queue.wait_for(done)
    }

    /// Whether anybody waits for it.
    #[cfg(test)]
    pub(crate) fn has_sleepers(self) -> bool {
        self.queue.has_sleepers()
    }

    /// Ends a holding of another participant, which is dead or helped to its end, unless it has ended.
    pub(crate) fn end(self, holding: RoleHolding) {
        if holding.owner() != 0 && self.word.release(holding) {
            self.wake();
        }
    }

    #[inline]
    fn wake(self) {
        match self.work {
            // The participant that is woken takes it, and wakes the next in the end.
            Work::Structure(_) => self.queue.wake_one(),
            // Nobody waits for these.
            Work::Housekeeping | Work::Reaping | Work::Unreachable => {}
            Work::Commit | Work::Checkpoint | Work::Serial => self.queue.wake(),
        }
    }
}

/// A role, held until dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct HeldRole<'a> {
    role: Role<'a>,
    holding: RoleHolding,
}

impl HeldRole<'_> {
    /// Which holding it is.
    pub(crate) fn holding(&self) -> RoleHolding {
        self.holding
    }

    /// Whether another has taken it over.
    pub(crate) fn is_succeeded(&self) -> bool {
        // SeqCst: a participant that finds that it still has the role has come before its successor, in one
        // order with all that is changed in the name of holdings.
        self.role.word.0.load(Ordering::SeqCst) != self.holding.0
    }
}

impl Drop for HeldRole<'_> {
    #[inline]
    fn drop(&mut self) {
        // In a child made by fork it is the parent's.
        if self.role.queue.region.is_inherited() {
            return;
        }
        // A helper may have ended it, or a process that took this one for dead. If not it is let go of in
        // that case too: a holding that was got since then is known to nobody that would end it.
        self.role.word.release(self.holding);
        self.role.wake();
    }
}

impl Region {
    /// A role.
    #[inline]
    pub(crate) fn role(&self, work: Work) -> Role<'_> {
        let header = self.header();
        let (word, queue) = match work {
            Work::Commit => (&header.commit.0, COMMIT_QUEUE),
            Work::Checkpoint => (&header.checkpoint.0, CHECKPOINT_QUEUE),
            Work::Serial => (&header.serial.0, SERIAL_QUEUE),
            Work::Housekeeping => (&header.housekeep.0, HOUSEKEEPING_QUEUE),
            Work::Reaping => (&header.reap.0, REAPING_QUEUE),
            Work::Unreachable => (&header.unreachable.0, UNREACHABLE_QUEUE),
            Work::Structure(index) => (self.structure(index), PAGE_QUEUES + index),
        };
        Role { work, word, queue: self.queue(queue) }
    }
}

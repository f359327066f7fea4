//! Which participant has the checkpoint role, and which one has it after a holder that does not move.
//!
//! A process may be stopped at any instruction, and goes on when it likes. A participant that wants the role
//! and sees its holder not move takes it over, by compare-and-swap, and decides first what becomes of the
//! superblock that the other may be writing ([`berth`](crate::region)). Whatever the late one does when it
//! goes on is harmless, at any of its steps:
//!
//! - *Move bits of changed pages, say how far it has come*: compare-and-swap in the name of its holding
//!   (unsaved.rs).
//! - *Look at a page, mark its block as a checkpoint's*: it has the page's latch, and looks inside an
//!   operation at its snapshot, which a sweep may have ended: then it finds that out. A block so marked that
//!   no map comes to name stays in use until it is found lost (store/lost.rs).
//! - *Write versions, map blocks, copies*: to blocks of its own. Its marks it ends as any writer does.
//! - *Write the header of another volume*: to its berth.
//! - *Flush, and fail*: it poisons the volume. Its successor looks once more before it sets its berth; its
//!   own flush through its own descriptor says what the system could not write.
//! - *Set its berth*: it cannot, once it is over.
//! - *Write its superblock, or that which it settled for another*: those very bytes are there, and nothing
//!   else is in that berth.
//! - *Say which generation is in force*: only upwards.
//! - *Free what only the generation before its own named*: nobody else frees that, since no map names it; and
//!   each block is freed once.
//! - *Tell a page where it was moved to*: it looks, under the page's latch, whether it has the role; if it
//!   was stopped behind that look, no checkpoint lets go of that place without the latch (store/relocate.rs).
//! - *Free the blocks that it moved pages from*: it looks, after it has told them all, whether it was
//!   succeeded: then it does not.
//! - *Give blocks of freed runs back to their pages*: the successor does that too, and they may be another's
//!   by then; so a participant that does it looks, under the page's latch, whether it has the role.
//! - *Find damage, since blocks that it reads have been used again; find that another wrote to the file*: it
//!   looks whether it was succeeded before it believes that, and begins anew.
//!
//! *When.* The holder counts its steps. A process that the system says is stopped is given [`STILL`], any
//! other [`PATIENCE`], twice as long after each succession that was not followed by a checkpoint: on a disk
//! so slow that a flush takes longer the role would go round for ever. To succeed one that is only slow costs
//! what it had done, and nothing else.
//!
//! A participant that keeps checkpoints out without making one, to read the map, looks at the end whether it
//! was succeeded: then what it has found says nothing.

use std::time::Duration;

use sablecat_os::atomic::Ordering;
use sablecat_os::liveness;

use super::Generations;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::participants::LocalParticipant;
use crate::pages::volume::Volume;
use crate::region::{HeldRole, Moored, RoleHolding, Stage, Work};
use crate::types::Berth;

/// How long the holder may stand still when its process is stopped.
const STILL: Duration = Duration::from_millis(200);
/// How long if it is not, so far as the system says.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often that is doubled at most.
const DOUBLED_MAX: u32 = 6;

/// Says, until dropped, that a participant may write to a berth what another set there.
struct Settling<'a>(&'a LocalParticipant);

impl Settling<'_> {
    fn begin(me: &LocalParticipant, berth: Berth) -> Settling<'_> {
        me.slot().begin_settling(berth);
        Settling(me)
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.slot().end_settling();
    }
}

impl Generations {
    /// Takes the checkpoint role, waiting for its holder unless that does not move. Until it is dropped
    /// nobody else makes a checkpoint, or it has been [succeeded](HeldRole::is_succeeded).
    ///
    /// # Errors
    /// `Poisoned` if this process was taken for dead, meanwhile perhaps.
    pub(crate) fn hold_checkpoint(&self, me: &LocalParticipant) -> Result<HeldRole<'_>> {
        let role = self.region.role(Work::Checkpoint);
        let succeed =
            || self.holder_that_stands_still().and_then(|still| self.succeed_checkpoint(still, me)).map(Ok);
        let held = role.wait_for(|| role.try_take_unfenced(me.number()).transpose().or_else(succeed))?;
        // For a participant that has waited; and before anything is settled in the name of a slot that may be
        // another's.
        self.region.check_fence()?;
        self.settle_berths(&held, me);
        Ok(held)
    }

    /// Does something while no checkpoint is made; again, if another took the role over all the same, so that
    /// what was found says nothing.
    ///
    /// # Errors
    /// Those of `act`.
    pub(crate) fn without_checkpoint<T>(
        &self,
        me: &LocalParticipant,
        mut act: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            let no_checkpoint = self.hold_checkpoint(me)?;
            let done = act();
            if !no_checkpoint.is_succeeded() {
                return done;
            }
        }
    }

    /// Takes the checkpoint role unless somebody has it: until it is dropped, no checkpoint begins.
    pub(in crate::pages) fn try_hold_checkpoint(&self, me: &LocalParticipant) -> Option<HeldRole<'_>> {
        let held = self.region.role(Work::Checkpoint).try_take(me.number()).ok()?;
        self.settle_berths(&held, me);
        Some(held)
    }

    /// Takes the role over from a holding. What that one has set is for the caller to settle.
    pub(crate) fn succeed_checkpoint(
        &self,
        from: RoleHolding,
        me: &LocalParticipant,
    ) -> Option<HeldRole<'_>> {
        let held = self.region.role(Work::Checkpoint).take_over(from, me.number())?;
        // Relaxed: how patient to be.
        self.region.header().checkpoint_successions.fetch_add(1, Ordering::Relaxed);
        Some(held)
    }

    /// Whether a participant that moves makes a checkpoint, or keeps others from making one.
    pub(crate) fn is_checkpoint_in_progress(&self) -> bool {
        self.region.role(Work::Checkpoint).look().owner() != 0 && self.holder_that_stands_still().is_none()
    }

    /// Waits for the end of the checkpoint in progress, if there is one: what it keeps in the cache can be
    /// evicted then. If its maker does not move, takes the role over instead, so that the maker's snapshot is
    /// one like any other. False if there is none. The caller holds no latch, since the checkpointer may want
    /// it.
    #[cold]
    pub(crate) fn wait_for_checkpoint(&self) -> bool {
        let role = self.region.role(Work::Checkpoint);
        let seen = role.look();
        if seen.owner() == 0 {
            return false;
        }
        let is_over =
            || role.look() != seen || self.holder_that_stands_still().is_some() || self.region.is_fenced();
        role.wait_for(|| is_over().then_some(()));
        if role.look() == seen
            && let Ok(me) = self.participants.sit()
        {
            drop(self.hold_checkpoint(&me));
        }
        true
    }

    /// Says that the holder of the checkpoint role gets on.
    pub(crate) fn move_on(&self) {
        // Relaxed: a sign of life.
        self.region.header().checkpoint_moves.fetch_add(1, Ordering::Relaxed);
    }

    /// The holding of the checkpoint role, if it is another process's that has not moved for as long as it
    /// may.
    fn holder_that_stands_still(&self) -> Option<RoleHolding> {
        let header = self.region.header();
        let holding = self.region.role(Work::Checkpoint).look();
        let member = self.region.slot(holding.owner()).member()?;
        if holding.owner() == 0 || member == self.region.number() {
            return None;
        }
        let still = self.watch.unmoved(holding, header.checkpoint_moves.load(Ordering::Relaxed));
        if still < STILL {
            return None;
        }
        let doubled = header.checkpoint_successions.load(Ordering::Relaxed).min(DOUBLED_MAX);
        let is_long =
            still >= PATIENCE * (1 << doubled) || liveness::is_stopped(self.region.member(member).pid());
        is_long.then_some(holding)
    }

    /// Decides what becomes of the superblocks that others were about to write, or were writing. The caller
    /// has just got the checkpoint role; if it has lost it since, that is for its successor.
    pub(crate) fn settle_berths(&self, held: &HeldRole<'_>, me: &LocalParticipant) {
        let Some(volume) = &self.volume else { return };
        for berth in Berth::all() {
            while let Some(seen) = self.region.berths().look(berth) {
                // After the look: so what was seen is not that of a successor, which has settled all the
                // others. If this process was taken for dead, others do it.
                if held.is_succeeded() || self.region.is_fenced() {
                    return;
                }
                match seen.stage() {
                    Stage::Over => break,
                    _ if seen.owner() == me.number() => break,
                    Stage::Set if self.is_news(seen.generation()) && self.fail_if_poisoned().is_ok() => {
                        // Until this ends nobody else takes the berth: this one may be stopped here too.
                        let _settling = Settling::begin(me, berth);
                        if self.region.berths().look(berth) != Some(seen) {
                            continue;
                        }
                        // Only the holder of the role sets berths, one at a time, and this is the next
                        // generation.
                        if self.write_for(volume, berth, seen.generation()).is_err() {
                            if self.region.is_fenced() {
                                return;
                            }
                            self.poison();
                        }
                    }
                    Stage::Drafting | Stage::Set => {}
                }
                if self.region.berths().end(berth, seen) {
                    break;
                }
            }
        }
    }

    /// Whether a participant that had the role may still write to a berth what another set there.
    fn is_being_settled(&self, berth: Berth) -> bool {
        let high = self.region.header().slots_high.0.load(Ordering::SeqCst) as u16;
        (1..high).any(|slot| self.region.slot(slot).settles(berth))
    }

    fn is_news(&self, generation: u64) -> bool {
        generation > self.region.header().generation.0.load(Ordering::SeqCst)
    }

    /// Writes the superblock that another has set, and puts it in force.
    fn write_for(&self, volume: &Volume, berth: Berth, generation: u64) -> Result<()> {
        self.region.check_fence()?;
        let superblock = volume.write_draft(&self.region.berths().draft(berth), generation, berth)?;
        self.say_in_force(superblock.generation, superblock.checkpoint.0);
        Ok(())
    }

    /// Takes a berth for the next superblock.
    ///
    /// # Errors
    /// Too many if each is that of a process that was stopped in a checkpoint, and may still write to it; as
    /// [`Volume::next_generation`].
    pub(crate) fn take_berth(&self, volume: &Volume, me: &LocalParticipant) -> Result<Moored<'_>> {
        let (berths, next) = (self.region.berths(), volume.next_generation()?);
        let take = |berth| berths.take(berth, me.number(), next).filter(|_| !self.is_being_settled(berth));
        // Of the participants that take one only this one has the role; late ones give theirs back.
        let moored = volume.berths_of_next().find_map(take);
        moored.ok_or_else(|| {
            Error::new(
                ErrorKind::TooMany,
                "no superblock can be written, since several processes were stopped while they wrote \
                 theirs; let them continue, or kill them",
            )
        })
    }

    /// Ends what a participant that died was doing about checkpoints. Its superblock may have been set: then
    /// it is written, and its generation stands. If that cannot be made durable the volume is poisoned; it is
    /// not tried again, since a flush says nothing of what one before it could not write. False if that is
    /// for another participant to decide, which is at it.
    pub(crate) fn end_checkpoint_of(&self, dead: u16, me: &LocalParticipant) -> bool {
        let role = self.region.role(Work::Checkpoint);
        let holding = role.look();
        let held = match holding.owner() {
            owner if owner == dead => role.inherit(holding, me.number()),
            // It was succeeded, by one that has not settled that, and let go of it in dying.
            0 if self.has_set(dead) => role.try_take(me.number()).ok(),
            _ => None,
        };
        if let Some(held) = &held {
            self.settle_berths(held, me);
        } else if self.has_set(dead) || role.look().owner() == dead {
            return false;
        }
        let berths = self.region.berths();
        Berth::all()
            .filter_map(|berth| Some((berth, berths.look(berth)?)))
            .filter(|(_, seen)| seen.owner() == dead)
            .for_each(|(berth, seen)| {
                berths.free(berth, seen);
            });
        true
    }

    /// Whether a participant may have been writing a superblock that nobody has settled.
    fn has_set(&self, owner: u16) -> bool {
        let berths = self.region.berths();
        let is_set = |berth| {
            berths.look(berth).is_some_and(|seen| {
                seen.owner() == owner && seen.stage() == Stage::Set && self.is_news(seen.generation())
            })
        };
        Berth::all().any(is_set)
    }
}

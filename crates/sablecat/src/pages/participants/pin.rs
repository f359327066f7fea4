//! Pins: which snapshots' versions are kept.
//!
//! A participant has two: one for the snapshot of its transaction or operation, and a *guard*, for the commit
//! step and for helping, whatever snapshot it keeps. To pin: store `visible` with a full fence, look at
//! `visible` again, and begin anew if it has moved. A participant that frees versions reads `visible`,
//! fences, and looks at all pins (horizon.rs): a pin that it missed was stored afterwards, and its owner
//! looks again.
//!
//! A pin that nobody ends keeps every version from then on, until the cache is full. So every pin has an
//! owner that ends it when it is dropped: [`Pinned`] and [`Guarded`] for as long as a call lasts, however it
//! ends (what is read under it may be shown to a caller's closure or comparator, which may panic),
//! [`PinnedSeat`] for as long as a transaction does, and new versions (pool/new_versions.rs) for the guard of
//! a commit.

use std::cell::Cell;
use std::ops::Deref;

use sablecat_os::atomic::Ordering;

use super::{LocalParticipant, Participants, Seat};
use crate::error::{Error, Result};
use crate::region::Slot;
use crate::types::Lsn;

/// A state, the newest published one as a rule, pinned until dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pinned<'a> {
    me: &'a LocalParticipant,
    at: Lsn,
}

impl Pinned<'_> {
    /// Its LSN.
    #[inline]
    pub(crate) fn at(&self) -> Lsn {
        self.at
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.me.slot().unpin();
    }
}

/// The newest published state, held by the participant's guard until dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Guarded<'a> {
    me: &'a LocalParticipant,
    at: Lsn,
}

impl Guarded<'_> {
    /// Its LSN.
    #[inline]
    pub(crate) fn at(&self) -> Lsn {
        self.at
    }
}

/// As [`Guarded`], of a participant that finishes the commit of another: meanwhile nothing younger leaves
/// memory (horizon.rs).
#[derive(Debug)]
#[must_use]
pub(crate) struct Helping<'a>(Guarded<'a>);

impl Helping<'_> {
    /// Its LSN.
    pub(crate) fn at(&self) -> Lsn {
        self.0.at
    }
}

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.me.slot().end_helping();
    }
}

impl Drop for Guarded<'_> {
    #[inline]
    fn drop(&mut self) {
        self.me.slot().unguard();
    }
}

/// A seat with a snapshot that is pinned until the seat is dropped, or lets go of it.
#[derive(Debug)]
#[must_use]
pub(crate) struct PinnedSeat<'a> {
    seat: Seat<'a>,
    participants: &'a Participants,
    at: Cell<Lsn>,
}

impl PinnedSeat<'_> {
    /// The snapshot's LSN.
    #[inline]
    pub(crate) fn at(&self) -> Lsn {
        self.at.get()
    }

    /// Pins the newest published state, in the place of the snapshot before.
    #[inline]
    pub(crate) fn renew(&self) {
        self.at.set(self.participants.pin(&self.seat));
    }

    /// Keeps no versions any more. The LSN stays, to be compared with.
    #[inline]
    pub(crate) fn let_go(&self) {
        self.seat.slot().unpin();
    }
}

impl Deref for PinnedSeat<'_> {
    type Target = LocalParticipant;

    #[inline]
    fn deref(&self) -> &LocalParticipant {
        &self.seat
    }
}

impl Drop for PinnedSeat<'_> {
    #[inline]
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Participants {
    /// Takes a seat and pins the newest published state.
    ///
    /// # Errors
    /// Those of taking a seat.
    #[inline]
    pub(crate) fn sit_pinned(&self) -> Result<PinnedSeat<'_>> {
        let seat = self.sit()?;
        let at = Cell::new(self.pin(&seat));
        Ok(PinnedSeat { seat, participants: self, at })
    }

    /// Pins the newest published state for as long as what is returned lasts.
    #[inline]
    pub(crate) fn pinned<'a>(&self, me: &'a LocalParticipant) -> Pinned<'a> {
        Pinned { me, at: self.pin(me) }
    }

    /// As [`Participants::pinned`], with the participant's second pin, leaving its snapshot alone.
    #[inline]
    pub(crate) fn guarded<'a>(&self, me: &'a LocalParticipant) -> Guarded<'a> {
        Guarded { me, at: self.guard(me) }
    }

    /// As [`Participants::guarded`], to finish the commit of another.
    pub(crate) fn helping<'a>(&self, me: &'a LocalParticipant) -> Helping<'a> {
        let slot = me.slot();
        let at = self.pin_with(|at| {
            slot.begin_helping(at);
            slot.set_guard(at);
        });
        Helping(Guarded { me, at })
    }

    /// Pins the newest published state and says which. For what ends it when dropped.
    #[inline]
    pub(in crate::pages) fn pin(&self, me: &LocalParticipant) -> Lsn {
        self.pin_slot(me.slot())
    }

    #[inline]
    pub(in crate::pages) fn pin_slot(&self, slot: &Slot) -> Lsn {
        // A mark that a sweep left here was meant for a snapshot of before, perhaps of the seat's last user.
        if slot.is_revoked() {
            slot.clear_revoked();
        }
        self.pin_with(|at| slot.set_pin(at))
    }

    /// Takes a seat and pins the snapshot there that another participant, in a slot, keeps pinned for longer
    /// than this one will.
    ///
    /// That one's snapshot may be given up, before or meanwhile. A participant that frees versions looks at
    /// the slots in their order, and may have come past this one when the pin is stored. So its slot comes
    /// after the other. The other's pin may have been ended, since its snapshot was given up; but it had not
    /// been given up yet when we looked behind our pin. So a participant that has not seen the other's pin
    /// any more comes by here later, and sees ours.
    ///
    /// # Errors
    /// `SnapshotTooOld` if it has been given up; those of taking a seat.
    pub(crate) fn sit_beside(&self, slot: u16, at: Lsn) -> Result<PinnedSeat<'_>> {
        let seat = self.sit_above(slot)?;
        // As in `pin`.
        seat.slot().clear_revoked();
        seat.slot().set_pin(at);
        let seat = PinnedSeat { seat, participants: self, at: Cell::new(at) };
        self.check_kept(slot)?;
        Ok(seat)
    }

    /// Names the transaction in a slot, which its caller keeps in progress, and for which nobody else does so
    /// meanwhile. Of a process that was taken for dead the slot is another's, which keeps its name.
    pub(crate) fn set_name(&self, slot: u16, name: &str) {
        if !self.region.is_fenced() {
            self.region.slot(slot).set_name(name);
        }
    }

    /// What `me` has pinned already, with an operation, until what is returned is dropped.
    #[inline]
    pub(in crate::pages) fn pinned_already<'a>(&self, me: &'a LocalParticipant, at: Lsn) -> Pinned<'a> {
        Pinned { me, at }
    }

    /// An error if the snapshot of the participant in a slot, which is in progress, has been given up.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    fn check_kept(&self, slot: u16) -> Result<()> {
        if self.region.slot(slot).is_revoked() { Err(Error::given_up()) } else { Ok(()) }
    }

    /// As [`Participants::pin`], with the participant's second pin.
    #[inline]
    pub(in crate::pages) fn guard(&self, me: &LocalParticipant) -> Lsn {
        let slot = me.slot();
        self.pin_with(|at| slot.set_guard(at))
    }

    #[inline]
    fn pin_with(&self, store: impl Fn(Lsn)) -> Lsn {
        let visible = &self.region.header().visible.0;
        loop {
            // Acquire: pairs with the commit step's last store to it, so everything at or below is there.
            let at = Lsn(visible.load(Ordering::Acquire));
            store(at);
            // A reclaimer that missed the pin read `visible` before its fence; then it has moved, or the
            // versions at `at` are not its to free. The fence behind the store keeps this load behind it, as
            // the reclaimer's keeps its looks at the pins behind that at `visible`.
            if visible.load(Ordering::Acquire) == at.0 {
                return at;
            }
        }
    }
}

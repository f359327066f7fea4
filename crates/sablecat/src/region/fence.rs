//! The fence: what tells a process that the region has gone on without it, or was never its own.
//!
//! A process that was taken for dead finds that its member's incarnation has moved on. A child made by fork
//! has the parent's mapping and the parent's handles; there the number to compare with is another one, so
//! that everything that asks for the fence is refused in it as well. So is it in a process that has found the
//! region's file cut short, before it can read the first zero of what is missing.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use sablecat_os::atomic::{AtomicU64, Ordering};
use sablecat_os::fork::OfParent;
use sablecat_os::mapping::Mapping;
use sablecat_os::truncation::{self, CUT_SHORT};

use super::member::{self, Member, MemberIncarnation};
use super::{Membership, Region};
use crate::error::{Error, Result};

/// A member's incarnation, in the mapping, or a word of its own if this process is none; and what that is
/// while nobody has taken the process for dead.
pub(super) struct Fence {
    word: NonNull<AtomicU64>,
    incarnation: OfParent,
    /// What the word is if this process is no member.
    _own: Option<Box<AtomicU64>>,
}

impl Fence {
    /// Of a process that nobody takes for dead.
    ///
    /// # Errors
    /// Those of being told of forks.
    pub(super) fn of_nobody() -> Result<Fence> {
        let own_word = Box::new(AtomicU64::new(0));
        Ok(Fence { word: NonNull::from(&*own_word), incarnation: own(0)?, _own: Some(own_word) })
    }

    /// Of this process, which begins to be a member. The caller keeps the mapping for as long.
    ///
    /// # Errors
    /// As of [`Fence::of_nobody`].
    pub(super) fn of_member(member: &Member) -> Result<Fence> {
        let word = NonNull::from(member.incarnation());
        Ok(Fence { word, incarnation: own(member.begin())?, _own: None })
    }

    /// Has the number be another one once the memory is cut short.
    pub(super) fn watch(&self, memory: &Mapping) {
        memory.tell_when_cut_short(&self.incarnation);
    }
}

/// A number of this process, which its children do not have.
fn own(number: u64) -> Result<OfParent> {
    OfParent::new(number).map_err(|error| Error::stream("watching for forks", error))
}

impl Region {
    /// Whether this process was taken for dead: what it held is others' by now; or is a child made by fork:
    /// what it holds is its parent's; or has found the region cut short. One load of a line that nobody
    /// writes, and one of its own.
    ///
    /// SeqCst: with [`Member::fence`] in one order with the taking of slots, latches and frames and the
    /// reaper's looks at them. What a process takes and finds itself unfenced after, the reaper finds; what
    /// the reaper may have missed, the process finds itself fenced after.
    #[inline(always)]
    pub(crate) fn is_fenced(&self) -> bool {
        let Fence { word, incarnation, .. } = &self.fence;
        // SAFETY: the word is part of a member, which lies in the mapping (`joined_as`), and that lives as
        // long as `self`; or the fence has it.
        unsafe { word.as_ref() }.load(Ordering::SeqCst) != incarnation.get()
    }

    /// An error if this process was taken for dead, is a child made by fork, or has found the region cut
    /// short.
    ///
    /// # Errors
    /// `Poisoned`; `Invalid` in a child.
    #[inline(always)]
    pub(crate) fn check_fence(&self) -> Result<()> {
        if self.is_fenced() { Err(self.fenced()) } else { Ok(()) }
    }

    /// The same, also if what is missing of the region is what nobody has touched, or reads as zero.
    ///
    /// # Errors
    /// As for [`Region::check_fence`].
    pub(crate) fn check_fence_and_end(&self) -> Result<()> {
        self.look_whether_cut_short();
        self.check_fence()
    }

    #[cold]
    pub(super) fn fenced(&self) -> Error {
        if self.is_inherited() {
            return Error::inherited();
        }
        if self.look_whether_cut_short() {
            // A process that only looks at the region from outside changes nothing of it.
            if let Some(own) = self.membership.as_ref().filter(|own| own.number < self.geometry.members) {
                // What others can still see of it is of no use to them either; and what this process holds
                // they need not wait for, once it writes to no file any more: the next process that comes may
                // then be the first.
                self.header().volume_poisoned.store(1, Ordering::Release);
                if self.guard.get().is_none_or(|guard| guard.is_idle()) {
                    own.give_up();
                }
            }
            return Error::cut_short();
        }
        self.membership.iter().for_each(Membership::lose);
        Error::fenced()
    }

    /// Whether anything of the region that this process has read or stored so far was not there any more.
    #[inline(always)]
    pub(crate) fn is_cut_short(&self) -> bool {
        truncation::ever_happened() && self.fence.incarnation.get() == CUT_SHORT
    }

    /// Whether anything of the region is not there any more, as its end shows: also what nobody has touched,
    /// or what reads as zero.
    #[inline]
    pub(crate) fn look_whether_cut_short(&self) -> bool {
        if !self.has_end() {
            self.mapping.found_cut_short();
        }
        self.is_cut_short()
    }

    /// Does something, of which nothing counts, whatever it came to, once the region is found to be cut
    /// short: code that reads zeros may not expect them, and may panic.
    ///
    /// # Errors
    /// Those of `work`; `Poisoned` in that case.
    #[inline(always)]
    pub(crate) fn unless_cut_short<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // What the work has left half way is of use to nobody if it is caught here, and goes on if not.
        let done = catch_unwind(AssertUnwindSafe(work));
        let is_cut_short = match &done {
            Ok(Ok(_)) => self.is_cut_short(),
            _ => self.look_whether_cut_short(),
        };
        if is_cut_short {
            return Err(self.fenced());
        }
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Whether this process is a child of the one that mapped it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.fence.incarnation.is_inherited()
    }

    /// This process counts as dead from now on: it is not what its member stands for any more, or its lock is
    /// gone.
    pub(crate) fn fence_itself(&self) {
        self.as_member().into_iter().for_each(|(member, incarnation)| _ = member.fence(incarnation));
    }

    /// This process is no member any more.
    pub(crate) fn leave(&self) {
        self.as_member().into_iter().for_each(|(member, incarnation)| _ = member.leave(incarnation));
    }

    /// This process, as what may outlive it names it.
    pub(crate) fn standing(&self) -> MemberIncarnation {
        MemberIncarnation {
            member: self.number(),
            incarnation: self.as_member().map_or(0, |(_, incarnation)| member::used_as(incarnation)),
        }
    }

    /// Whether a process is a member still. If not nothing that it began is going on: it has left, or was
    /// reaped, or was a member of another region.
    pub(crate) fn stands(&self, standing: MemberIncarnation) -> bool {
        self.membership.is_none()
            || standing.member < self.geometry.members
                && self.member(standing.member).stands_as(standing.incarnation)
    }

    pub(super) fn as_member(&self) -> Option<(&Member, u64)> {
        let membership =
            self.membership.as_ref().filter(|membership| membership.number < self.geometry.members)?;
        Some((self.member(membership.number), self.fence.incarnation.get()))
    }
}

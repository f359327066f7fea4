//! Deadlocks: circles of participants each of which waits for the next.
//!
//! Every circle is closed by some waiter's wait. So each waiter, once it has announced its wait, follows the
//! locks that stand against it to their owners, those owners' announcements to the locks that stand against
//! them, and so on. A path that comes back to the waiter is a circle. (It looks again after each sleep, in
//! case a detector died.) Nothing stops while it looks, so it looks twice. If every announcement and every
//! lock of the circle is still there the second time, all of them were there at the moment between the two
//! looks. Such a circle does not go away by itself.
//!
//! Then one of the circle is chosen to give way, by a rule that depends on the circle alone, so that all
//! detectors choose the same one, and its announcement is marked by compare-and-swap. It finds the mark when
//! it looks, and gets the error. Paths do not go through marked waits: their circles are resolved already.
//! Two circles that share members, found at one moment by two detectors, may cost one victim more than was
//! needed.

use sablecat_os::atomic::Ordering;

use super::LockTable;
use super::table::Counter;
use super::wait::named;
use super::word::Word;
use crate::error::{Error, ErrorKind};

/// Which transaction is the victim of a deadlock, in which transactions wait for each other in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum DeadlockPolicy {
    /// The transaction that took its first lock last: the least work is lost, and the oldest always gets
    /// through.
    #[default]
    Youngest,
    /// The transaction that took its first lock first.
    Oldest,
    /// The transaction whose wait closed the cycle.
    Requester,
}

/// A participant and the wait it has announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Waiter {
    slot: u16,
    wait: Word,
}

impl LockTable {
    /// Chooses a participant to give way in each circle that the wait of `me` is part of, and tells it.
    pub(super) fn break_circles(&self, me: u16) {
        // Each turn marks another wait, or finds that something has changed, which may have hidden a circle
        // that has not. The bound is for a table that never rests: then the next look, milliseconds later,
        // goes on.
        for _ in 0..self.table.slots() {
            if self.is_victim(me) {
                return;
            }
            let Some(circle) = self.circle_of(me) else { return };
            if !self.stands(&circle) {
                continue;
            }
            let victim = self.victim_of(&circle);
            let slot = self.table.slot(victim.slot);
            // SeqCst: before the wake. It fails if the wait is over, or marked by another detector.
            let marked = slot.waits_for.compare_exchange(
                victim.wait.0,
                victim.wait.flagged(true).0,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            if marked.is_ok() && victim.slot != me {
                slot.lock_queue.wake();
            }
        }
    }

    /// Whether `me` has been chosen to give way.
    pub(super) fn is_victim(&self, me: u16) -> bool {
        // Acquire: pairs with the mark.
        Word(self.table.slot(me).waits_for.load(Ordering::Acquire)).is_victim()
    }

    /// The error of a participant that gives way. Its wait is still announced.
    #[cold]
    pub(super) fn deadlock_error(&self, me: u16) -> Error {
        self.table.count(Counter::Deadlocks);
        let called = |slot| self.table.slot(slot).called(slot);
        let mut message = String::from("deadlock: ");
        match self.circle_of(me) {
            Some(circle) => {
                message += &called(me);
                for (number, waiter) in circle.iter().enumerate() {
                    let next = circle[(number + 1) % circle.len()].slot;
                    let which = if number == 0 { "" } else { ", which" };
                    message +=
                        &format!("{which} waited for {} held by {}", named(waiter.wait.mode()), called(next));
                }
            }
            // Another of the circle has been chosen too, by a detector that came from another circle.
            None => message += &format!("{} was part of several cycles of waiting transactions", called(me)),
        }
        let reason = match self.policy {
            DeadlockPolicy::Youngest => "youngest of them",
            DeadlockPolicy::Oldest => "oldest of them",
            DeadlockPolicy::Requester => "one that closed the cycle",
        };
        message += &format!("; participant {me} gives way as the {reason}. Run the transaction again");
        Error::new(ErrorKind::Deadlock, message)
    }

    /// The wait that a slot announces.
    fn waiter(&self, slot: u16) -> Option<Waiter> {
        // SeqCst: after the fence that follows our own announcement.
        let wait = Word(self.table.slot(slot).waits_for.load(Ordering::SeqCst));
        (!wait.is_free()).then_some(Waiter { slot, wait })
    }

    /// The participants that a waiter waits for.
    fn blockers(&self, waiter: Waiter) -> Vec<u16> {
        let mut blockers = Vec::new();
        self.table.against(waiter.slot, waiter.wait.want(), |lock| blockers.push(lock.owner()));
        blockers
    }

    /// A circle of waiters that begins with `me`, by depth-first search. Each waits for the next and the last
    /// for `me`, as far as a look at one after the other can tell.
    fn circle_of(&self, me: u16) -> Option<Vec<Waiter>> {
        let first = self.waiter(me)?;
        let mut seen = vec![false; self.table.slots()];
        let mut path = vec![first];
        let mut open = vec![self.blockers(first)];
        while let Some(blockers) = open.last_mut() {
            let Some(next) = blockers.pop() else {
                open.pop();
                path.pop();
                continue;
            };
            if next == me {
                return Some(path);
            }
            if std::mem::replace(&mut seen[usize::from(next)], true) {
                continue;
            }
            if let Some(waiter) = self.waiter(next).filter(|waiter| !waiter.wait.is_victim()) {
                path.push(waiter);
                open.push(self.blockers(waiter));
            }
        }
        None
    }

    /// Whether all of a circle is still there.
    fn stands(&self, circle: &[Waiter]) -> bool {
        circle.iter().enumerate().all(|(number, waiter)| {
            let next = circle[(number + 1) % circle.len()].slot;
            self.waiter(waiter.slot) == Some(*waiter) && self.blockers(*waiter).contains(&next)
        })
    }

    /// The participant of a circle that gives way.
    fn victim_of(&self, circle: &[Waiter]) -> Waiter {
        // Relaxed: both were written before the announcement that we saw.
        let age = |waiter: &&Waiter| self.table.slot(waiter.slot).locks_since.load(Ordering::Relaxed);
        let began = |waiter: &&Waiter| self.table.slot(waiter.slot).waits_since.load(Ordering::Relaxed);
        let victim = match self.policy {
            DeadlockPolicy::Youngest => circle.iter().max_by_key(age),
            DeadlockPolicy::Oldest => circle.iter().min_by_key(age),
            DeadlockPolicy::Requester => circle.iter().max_by_key(began),
        };
        *victim.expect("a circle has members")
    }
}

//! Waiting for a lock, and which waiters a release wakes.
//!
//! A waiter announces in its slot what it waits for, flags each lock that stands against it, looks for a
//! circle of waiters, and sleeps on its slot's own queue. A release that finds its word flagged looks through
//! the slots for the oldest transaction that waits for that record and wakes it alone. A woken waiter writes
//! its lock flagged, so the next release wakes the next one. A waiter that leaves without the lock passes its
//! wake on.
//!
//! Deaths on the way: the other waiters' own looks, milliseconds later, make up for a wake that was sent to a
//! dead waiter, or died with its sender. The reaper clears the announcement.

use std::time::Duration;

use sablecat_os::atomic::{Ordering, fence};
use sablecat_os::clock;

use super::manner::Manner;
use super::table::Counter;
use super::word::{Want, Word, clash};
use super::{HeldLocks, LockMode, LockTable};
use crate::error::{Error, ErrorKind, Result};
use crate::region::WaitPhase;

impl LockTable {
    /// Waits until `me` has the lock.
    #[cold]
    pub(super) fn wait(&self, me: u16, want: Want, timeout: Duration, held: &mut HeldLocks) -> Result<()> {
        self.table.count(Counter::Waits);
        self.announce(me, want);
        let deadline = clock::monotonic().checked_add(timeout);
        let mut manner = Manner { has_slept: true, ..Manner::ASK };
        let end = self.table.slot(me).lock_queue.wait_until(
            deadline,
            || self.table.stall(),
            |look| {
                manner.will_sleep = look == WaitPhase::BeforeSleep;
                if look == WaitPhase::Spinning && self.is_blocked(me, want) {
                    return None;
                }
                match self.attempt(me, want, manner, held) {
                    Ok(false) => {}
                    Ok(true) => return Some(Ok(())),
                    Err(error) => return Some(Err(error)),
                }
                if look == WaitPhase::Spinning {
                    return None;
                }
                manner.polite = false;
                if want.mode == LockMode::Exclusive {
                    // Perhaps a release woke nobody but us, and then somebody shared the lock: others that
                    // wait to share it may go on.
                    self.pass_on(Word::new(want, me));
                }
                self.break_circles(me);
                if self.is_victim(me) {
                    return Some(Err(self.deadlock_error(me)));
                }
                self.table.check_fence().err().map(Err)
            },
        );
        let end = end.unwrap_or_else(|| self.last_try(me, want, timeout, held));
        self.withdraw(me);
        if end.is_err() {
            self.pass_on(Word::new(want, me));
        }
        end
    }

    fn last_try(&self, me: u16, want: Want, timeout: Duration, held: &mut HeldLocks) -> Result<()> {
        if self.attempt(me, want, Manner { has_slept: true, ..Manner::TAKE }, held)? {
            return Ok(());
        }
        self.table.count(Counter::Timeouts);
        let mut holders = String::new();
        self.table.against(me, want, |lock| {
            let and = if holders.is_empty() { "" } else { " and " };
            let how = if lock.mode() == LockMode::Exclusive { "exclusively" } else { "shared" };
            holders += &format!("{and}{} ({how})", self.table.slot(lock.owner()).called(lock.owner()));
        });
        if holders.is_empty() {
            holders.push_str("a participant that has ended just now");
        }
        Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "participant {me} waited {timeout:?} for {} that is held by {holders}; run the transaction \
                 again, or allow more time. If this thread has another transaction open that locked the \
                 record, end that one first",
                named(want.mode),
            ),
        ))
    }

    /// Whether a lock stands against it, as seen without the latch: a cheap look between two tries.
    fn is_blocked(&self, me: u16, want: Want) -> bool {
        let mut blocked = false;
        self.table.against(me, want, |_| blocked = true);
        blocked
    }

    /// Tells others what `me` is going to wait for.
    pub(super) fn announce(&self, me: u16, want: Want) {
        let number = self.table.next_moment();
        let slot = self.table.slot(me);
        // Relaxed: ordered by the Release that follows.
        slot.waits_since.store(number, Ordering::Relaxed);
        // Release: a participant that sees the announcement sees the numbers that go with it.
        slot.waits_for.store(Word::announcement(want, number).0, Ordering::Release);
        // Of two that close one circle at once, one sees the other's announcement and both's locks; and a
        // release that finds our flag finds the announcement.
        fence(Ordering::SeqCst);
    }

    /// Ends the announcement of a wait, if there is one.
    pub(super) fn withdraw(&self, slot: u16) {
        // Release: a detector that saw the announcement twice saw us waiting all the time between.
        self.table.slot(slot).waits_for.store(Word::FREE.0, Ordering::Release);
    }

    /// Wakes waiters that can have the lock that ended: the oldest, and if it is to share the lock, the
    /// others that are.
    ///
    /// A waiter that is not woken now is woken later, because what stands against it is flagged. Where it is
    /// not (somebody came by and took the lock before those that wait), the oldest is woken to flag it.
    #[cold]
    pub(super) fn pass_on(&self, ended: Word) {
        // The lock's end, a SeqCst swap, comes before these looks. A waiter announces, then flags the lock;
        // so if its flag was seen, its announcement is; if it was not, the waiter's compare-and-swap failed
        // and it looks again by itself.
        fence(Ordering::SeqCst);
        // A transaction that has passed over the record, and sleeps until something changes, has flagged the
        // lock, too, after it announced its sleep.
        self.table.wake_listeners();
        let mut waiting: Vec<_> = self
            .table
            .slots_in_use()
            .filter_map(|(number, slot)| {
                let wait = Word(slot.waits_for.load(Ordering::SeqCst));
                // Relaxed: written before the announcement.
                let age = slot.locks_since.load(Ordering::Relaxed);
                (!wait.is_free() && self.table.covers(ended, wait.id())).then_some((age, number, wait.want()))
            })
            .collect();
        waiting.sort_unstable_by_key(|(age, ..)| *age);
        let wake = |number| self.table.slot(number).lock_queue.wake();
        // Those that wait for different records, as they may behind a coarse lock, do not wait for each
        // other.
        let for_one_record = !ended.is_coarse();
        let mut gone_on = None;
        let mut flagging = false;
        for (_, number, want) in waiting {
            match self.chance(number, want) {
                Chance::Later => {}
                Chance::Unknown if flagging && for_one_record => {}
                Chance::Unknown => {
                    flagging = true;
                    wake(number);
                }
                Chance::Now if for_one_record && gone_on.is_some_and(|mode| clash(mode, want.mode)) => {}
                Chance::Now => {
                    gone_on = gone_on.max(Some(want.mode));
                    wake(number);
                }
            }
        }
    }

    /// What a waiter can do when a lock has ended.
    fn chance(&self, waiter: u16, want: Want) -> Chance {
        let mut chance = Chance::Now;
        self.table.against(waiter, want, |lock| {
            chance = chance.max(if lock.is_waited() { Chance::Later } else { Chance::Unknown })
        });
        chance
    }
}

/// What a waiter can do when a lock has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Chance {
    /// Nothing stands against its lock.
    Now,
    /// A lock does whose end would wake nobody.
    Unknown,
    /// A lock does whose end will wake.
    Later,
}

/// A lock, as messages call it.
pub(super) fn named(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Shared => "a shared lock on a record",
        LockMode::Exclusive => "an exclusive lock on a record",
    }
}

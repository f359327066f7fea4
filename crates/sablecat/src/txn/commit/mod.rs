//! The commit step, and what is changed in it.
//!
//! New versions of pages are built beside the old ones (`changes`), the log record in memory that is lent
//! (`scratch`). The commit step (`publish`) makes both visible at once, under the commit role; it tells the
//! transactions that want to know which pages it publishes (`recent`), and finds out whether a tree is being
//! built anew (`rebuilt`). The holder of the serial gate keeps others from beginning one (`gate`). A process
//! that is alone changes pages in place (`direct`).

pub(in crate::txn) mod changes;
mod content;
pub(in crate::txn) mod direct;
pub(in crate::txn) mod gate;
pub(in crate::txn) mod publish;
pub(in crate::txn) mod rebuilt;
pub(in crate::txn) mod recent;
pub(in crate::txn) mod scratch;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{ErrorKind, Result};
use crate::log::{Caller, Log};
use crate::pages::{Bell, LocalParticipant, Pages};
use crate::region::Work;
use crate::txn::options::Durability;
use crate::txn::state::States;
use crate::types::Lsn;

/// How often an operation that finds no room begins anew, its latches released, before it gives up; and how
/// long it pauses the first time, twice as long each time after, unless there is a checkpoint to wait for.
const TRIES_FOR_ROOM: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// What makes changes visible, and durable.
#[derive(Debug)]
pub(crate) struct Committer {
    states: States,
    pub(crate) log: Log,
    /// Rung when the log wants housekeeping.
    pub(crate) bell: Arc<Bell>,
    /// How long to wait for a record lock or the serial gate.
    pub(crate) patience: Duration,
}

impl Committer {
    pub(in crate::txn) fn new(states: States, log: Log, patience: Duration) -> Committer {
        Committer { states, log, bell: Arc::default(), patience }
    }

    /// Runs `work`, which holds no latch when it returns. Runs it again when others, which may have waited
    /// for its latches, kept the cache full under it. Memory that is cut short is an error.
    #[inline]
    #[expect(clippy::redundant_closure, reason = "as a reference it is not compiled into this")]
    pub(crate) fn patiently<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        self.until_there_is_room(|| self.pages.unless_cut_short(|| work()))
    }

    /// As [`Committer::patiently`], for work that is [an operation](crate::pages::visibility), which looks to
    /// its memory itself.
    #[inline]
    pub(in crate::txn) fn until_there_is_room<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut tries = 1;
        loop {
            match work() {
                Err(error) if error.is_no_room() && tries < TRIES_FOR_ROOM => {
                    if !self.pages.wait_for_checkpoint() {
                        sablecat_os::atomic::pause(FIRST_PAUSE * (1 << (tries - 1)));
                    }
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    /// The same for work that has no snapshot: a mark in its slot that one was given up was meant for an
    /// earlier snapshot.
    pub(crate) fn patiently_at_newest<T>(
        &self,
        me: &LocalParticipant,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.patiently(|| {
            loop {
                me.slot().clear_revoked();
                match work() {
                    Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
                    result => return result,
                }
            }
        })
    }

    /// Makes the commit at `lsn` as durable as asked.
    #[inline]
    pub(crate) fn settle(&self, lsn: Lsn, durability: Durability, me: u16) -> Result<()> {
        // Looking at the tail would take its cache line from the committer.
        if self.log.wants_drain_behind(lsn) || self.log.wants_segment_behind(lsn) {
            self.call_keeper();
        }
        let me = caller(&self.pages, me);
        let (log, pages) = (&self.log, &self.pages);
        match durability {
            Durability::Memory | Durability::NoSync => return Ok(()),
            Durability::WriteNoSync => pages.unless_cut_short(|| log.hand_over(lsn, me)),
            Durability::Sync => pages.unless_cut_short(|| log.make_durable(lsn, me)),
        }?;
        // The log may be sound when the volume is not; but no checkpoint will ever relieve it.
        pages.fail_if_poisoned()
    }

    /// Calls this process's housekeeping thread, unless somebody keeps house already, here or in another
    /// process.
    ///
    /// A process that is called meanwhile finds the role taken and sleeps again, and every commit would call
    /// anew, for as long as the one at it waits for the disk. With eight processes that would take a sixth of
    /// all processor time. What is still wanted afterwards the next commit calls for; if the one at it is
    /// dead, the process whose interval ends first takes over.
    fn call_keeper(&self) {
        if self.pages.role(Work::Housekeeping).look().owner() == 0 {
            self.bell.ring();
        }
    }
}

impl Deref for Committer {
    type Target = States;

    #[inline(always)]
    fn deref(&self) -> &States {
        &self.states
    }
}

/// The caller of the log.
#[inline]
pub(crate) fn caller(pages: &Pages, me: u16) -> Caller<'_> {
    Caller::new(me, &**pages.region())
}

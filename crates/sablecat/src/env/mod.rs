//! Environments: opening, recovering, keeping house, closing; and their databases.
//!
//! ```text
//! config.rs        settings and their defaults
//! open.rs          from a directory to a running environment
//! attach.rs        joining the processes that have it open
//! entrance.rs      one process at a time enters or leaves
//! left.rs          what processes left that were all killed
//! recover.rs       forward replay of the log over the last checkpoint
//! journal.rs       what is kept so that the environment can go back
//! history.rs       what there is to go back to
//! backward.rs      going back to an epoch, and forwards from there
//! stream.rs        the log as a stream of changes, and what is kept of it for who reads
//! naming.rs        what the changes are called: databases by their names
//! transaction.rs   transactions: records, and creating, renaming, removing databases
//! databases.rs     databases as a process knows them
//! indices.rs       indices as a process keeps them
//! indexing.rs      making indices, and what becomes of them with their databases
//! volumes.rs       what of them is in which volume
//! processes.rs     who has it open and holds what
//! counters.rs      what all of them have done
//! read_only.rs     reading the last checkpoint, for who may not write
//! housekeeping.rs  the threads that flush, checkpoint and clean
//! ```

mod attach;
mod backward;
mod config;
mod counters;
mod databases;
#[cfg(feature = "encryption")]
mod encryption;
mod entrance;
mod history;
mod housekeeping;
mod indexing;
mod indices;
mod journal;
mod left;
mod naming;
mod open;
mod processes;
mod read_only;
mod recover;
#[cfg(test)]
mod shared_place;
mod stream;
#[cfg(test)]
mod tests;
mod transaction;
mod verify;
mod volumes;

pub(crate) use backward::prepare as prepare_recovery;
pub use backward::{Recovery, RecoveryPlan, Target};
pub(crate) use config::{Config, Journaling};
pub(crate) use counters::counters;
pub use counters::{Counters, OldestSnapshot};
pub(crate) use databases::{Asked, Named, arranged, check_holds};
#[cfg(feature = "encryption")]
pub use encryption::{EncipherReport, EncryptionStats};
pub(crate) use history::history;
pub use history::{Epoch, History, JournalFile};
pub(crate) use indexing::Written;
pub use indices::IndexKeys;
pub(crate) use indices::{Extractor, Nullifier, entries_of, key_of, leads_nowhere};
pub(crate) use open::{in_memory, open};
pub(crate) use processes::activity;
pub use processes::{Activity, Participant, Process, RecordLock};
pub use recover::RecoveryReport;
pub use stream::Change;
pub(crate) use stream::{Changed, ChangedRecords, Stream};
pub(crate) use transaction::EnvTxn;
pub use verify::{Progress, VerifyReport};
pub use volumes::VolumeStats;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sablecat_os::clock;
use sablecat_os::disk::File;

use crate::error::{Error, ErrorKind, Result};
use crate::pages::volume::Journal;
use crate::pages::{self, Moving};
use crate::trace::{self, Doing, Happened};
use crate::txn::{Kernel, caller};
use crate::types::Lsn;

/// What an environment is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Transactions, a log, many threads.
    Transactional,
    /// The Data Store: one handle, no log.
    DataStore,
}

/// A running environment, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) kernel: Kernel,
    pub(crate) config: Config,
    pub(crate) mode: Mode,
    /// What is kept so that the environment can go back.
    journal: Option<Journal>,
    pub(crate) recovery: RecoveryReport,
    /// Where it lives; none: in memory alone.
    pub(crate) directory: Option<PathBuf>,
    /// Databases opened so far, by name.
    names: Mutex<databases::KnownNames>,
    keeper: housekeeping::Keeper,
    /// Who reads the log, and from where on.
    readers: Mutex<stream::Readers>,
    /// Whether the last checkpoint of this process left blocks to be moved.
    moving: AtomicBool,
    /// Locked against other processes for as long as the environment is open. After the volume and the log,
    /// so that it is let go last.
    _lock: Option<Arc<dyn File>>,
    /// The file of the shared region; none when the environment is private.
    shared: Option<PathBuf>,
}

/// Where an environment lives, and what says that it is in use.
#[derive(Debug, Default)]
struct Place {
    /// None: in memory alone.
    directory: Option<PathBuf>,
    /// The lock of who has the environment for itself.
    lock: Option<Arc<dyn File>>,
    /// The file of the shared region; none when the environment is private.
    region: Option<PathBuf>,
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Everything committed at or below this LSN is in the volume.
    pub lsn: Lsn,
    /// Pages that changed since the last checkpoint.
    pub pages: u64,
    /// Of these, pages that had to be written now.
    pub written: u64,
    /// Other pages that were moved towards the beginning of the file, so that its end can be given back.
    pub moved: u64,
}

/// What compacting an environment did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Bytes of the volumes before.
    pub bytes_before: u64,
    /// Bytes of the volumes after.
    pub bytes_after: u64,
    /// Pages moved, counting one as often as it was moved.
    pub moved: u64,
    /// Pages freed that nothing led to: what bulk loads that were cut short had left, and killed processes
    /// that were at a large commit, or at making or removing a database.
    pub pages_freed: u64,
    /// Page numbers given back that were in the hands of processes when these died.
    pub page_numbers_freed: u64,
    /// Blocks given back that were: copies that a checkpoint was making or about to free, large values that
    /// were being stored.
    pub blocks_freed: u64,
    /// Whether it could not be told what was in the hands of the dead: somebody was stopped, stored a large
    /// value, or made a large commit or a checkpoint, for seconds. Then none of it was given back, and
    /// compacting again may.
    pub undecided: bool,
}

/// Rounds of compaction after which it ends although others keep changing pages: each has looked at all of
/// them.
const COMPACT_FRUITLESS_MAX: u32 = 2;

/// After which pause who waits for a commit looks for the first time; twice as long each time after,
const LOOK_FIRST_AFTER: Duration = Duration::from_micros(50);
/// until it is this. Nobody rings: commits would have to look for who waits.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// An environment over a kernel, which keeps no house yet.
    fn new(
        kernel: Kernel,
        config: Config,
        (mode, journal): (Mode, Option<Journal>),
        recovery: RecoveryReport,
        place: Place,
    ) -> Arc<Core> {
        Arc::new(Core {
            kernel,
            config,
            mode,
            journal,
            recovery,
            directory: place.directory,
            names: Mutex::default(),
            keeper: housekeeping::Keeper::default(),
            readers: Mutex::default(),
            moving: AtomicBool::new(false),
            _lock: place.lock,
            shared: place.region,
        })
    }

    /// Writes a checkpoint and lets go of the log before it. Durable when it returns.
    pub(crate) fn checkpoint(&self, clean: bool) -> Result<CheckpointReport> {
        let seat = self.kernel.pages.participants.sit()?;
        self.checkpoint_as(&seat, clean, Moving::Little)
    }

    fn checkpoint_as(
        &self,
        me: &pages::Participant,
        clean: bool,
        moving: Moving,
    ) -> Result<CheckpointReport> {
        let _checkpoint = trace::begin(Doing::Checkpoint);
        let captured = self.kernel.pages.checkpoint(me, moving, |at, superblock| {
            self.describe(at, clean, superblock);
            if let Some(volume) = self.kernel.pages.volume() {
                volume.check_names(&*self.config.disk)?;
                volume.check_generation()?;
            }
            // The log up to the snapshot must be durable before a superblock says that the pages hold it.
            let flushed = self.kernel.log.make_durable(at, caller(&self.kernel.pages, me.number()));
            // Nothing was committed here that could be short of something: the checkpoint may be tried again.
            flushed.map_err(|error| {
                if error.kind() == ErrorKind::NotDurable {
                    Error::new(ErrorKind::DiskFull, error)
                } else {
                    error
                }
            })?;
            // Also when all of it was durable before it was poisoned: whoever was told of that is not to hear
            // that all is well again.
            self.kernel.log.fail_if_poisoned()
        });
        let captured = captured.inspect_err(|error| trace::tell(Happened::NotCheckpointed(error)))?;
        if self.directory.is_some() {
            trace::tell(Happened::Checkpointed {
                lsn: captured.at,
                pages: captured.pages,
                written: captured.written,
                moved: captured.moved,
            });
        }
        self.let_go_of_log(captured.needed, me)?;
        self.moving.store(captured.moving, Ordering::Relaxed);
        Ok(CheckpointReport {
            lsn: captured.at,
            pages: captured.pages,
            written: captured.written,
            moved: captured.moved,
        })
    }

    /// Frees what nothing leads to, and writes checkpoints that move pages down, until the file gets no
    /// shorter.
    pub(crate) fn compact(&self) -> Result<CompactReport> {
        let Some(volume) = self.kernel.pages.volume() else {
            return Ok(CompactReport::default());
        };
        let seat = self.kernel.pages.participants.sit()?;
        let bytes_before = volume.file_bytes()?;
        // So that all that is left of the dead can be found.
        self.kernel.reap(&seat);
        let pages_freed = self.kernel.free_noted(&seat)? + self.free_unreachable(&seat)?;
        let (mut moved, mut fruitless, mut lost) = (0, 0, None);
        // What a checkpoint frees can be used by the next one only: hence more than one without success.
        while fruitless < COMPACT_FRUITLESS_MAX {
            let end = self.kernel.pages.blocks().bounds().sum();
            loop {
                moved += self.checkpoint_as(&seat, false, Moving::Much)?.moved;
                if !self.kernel.pages.is_moving() {
                    break;
                }
            }
            self.kernel.pages.release_unwanted(&seat);
            if lost.is_none() {
                // After a checkpoint of this process: then no other has kept anything back.
                lost = self.free_lost(&seat)?;
            }
            fruitless = if self.kernel.pages.blocks().bounds().sum() < end { 0 } else { fruitless + 1 };
        }
        let undecided = lost.is_none();
        let pages::Lost { pages, blocks } = lost.unwrap_or_default();
        let bytes_after = volume.file_bytes()?;
        Ok(CompactReport {
            bytes_before,
            bytes_after,
            moved,
            pages_freed,
            page_numbers_freed: pages,
            blocks_freed: blocks,
            undecided,
        })
    }

    /// Gives back what is lost; none if that cannot be told at the moment. Nothing is if the map is damaged,
    /// or in a Data Store, which one process has.
    fn free_lost(&self, me: &pages::Participant) -> Result<Option<pages::Lost>> {
        if self.mode == Mode::DataStore {
            return Ok(Some(pages::Lost::default()));
        }
        match self.kernel.pages.free_lost(me) {
            Err(error) if error.is_corruption() => Ok(None),
            lost => lost,
        }
    }

    /// Frees the pages that nothing leads to. A Data Store leaves that to who opens it with transactions.
    fn free_unreachable(&self, me: &pages::Participant) -> Result<u64> {
        if self.mode == Mode::DataStore {
            return Ok(0);
        }
        // Only what a checkpoint has is found.
        self.checkpoint_as(me, false, Moving::Little)?;
        self.kernel.free_unreachable(me)
    }

    /// Gives back segments that the last checkpoint does not need, and spares that nothing used since it.
    fn recycle_log(&self) -> Result<()> {
        let Some(volume) = self.kernel.pages.volume() else { return Ok(()) };
        // The files of another state, in the place of these, may need theirs.
        volume.check_names(&*self.config.disk)?;
        let seat = self.kernel.pages.participants.sit()?;
        self.let_go_of_log(volume.superblock().log_position, &seat)
    }

    /// Whether another checkpoint would make the volume smaller.
    fn is_moving(&self) -> bool {
        self.moving.load(Ordering::Relaxed)
    }

    /// The LSN of the last checkpoint.
    pub(crate) fn checkpointed(&self) -> Lsn {
        self.kernel.pages.checkpointed()
    }

    /// Makes everything committed so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.flush_log_to(self.kernel.pages.newest())?;
        // Also when everything was durable before it was poisoned: nothing that comes will be.
        self.kernel.log.fail_if_poisoned()?;
        self.kernel.pages.fail_if_poisoned()
    }

    /// Makes everything committed at or below an LSN durable.
    pub(crate) fn make_durable(&self, lsn: Lsn) -> Result<()> {
        let visible = self.kernel.pages.newest();
        if lsn > visible {
            return Err(Error::invalid(format!(
                "making everything up to LSN {lsn} durable: the newest commit is at {visible}; wait for it first"
            )));
        }
        self.flush_log_to(lsn)?;
        self.kernel.pages.fail_if_poisoned()
    }

    /// Has the log durable up to an LSN.
    fn flush_log_to(&self, lsn: Lsn) -> Result<()> {
        let seat = self.kernel.pages.participants.sit()?;
        self.kernel.log.make_durable(lsn, caller(&self.kernel.pages, seat.number()))
    }

    /// Waits until what was committed at an LSN is seen by who begins.
    pub(crate) fn wait_visible(&self, lsn: Lsn, time: Duration) -> Result<()> {
        let begun = clock::monotonic();
        let mut pause = LOOK_FIRST_AFTER;
        loop {
            self.kernel.pages.catch_up()?;
            let pages = &self.kernel.pages;
            let visible = pages.lsn_of(pages.newest());
            if visible >= lsn {
                return Ok(());
            }
            let left = time.saturating_sub(clock::monotonic().saturating_sub(begun));
            if left.is_zero() {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "waited {time:?} to see what was committed at LSN {lsn}: the newest commit to be seen here is at {visible}"
                    ),
                ));
            }
            pages.check_fence()?;
            sablecat_os::atomic::pause(pause.min(left));
            pause = (pause * 2).min(LOOK_AGAIN_AFTER);
        }
    }

    /// Stops the housekeeping thread, writes a last checkpoint, and removes the log, of which nothing is
    /// needed then; when the environment is shared, the last to leave does.
    pub(crate) fn close(&self) -> Result<()> {
        if self.kernel.pages.participants.is_inherited() {
            // In a child made by fork nothing of this is the child's.
            return Ok(());
        }
        self.keeper.stop(&self.kernel);
        if self.config.read_only {
            return Ok(());
        }
        self.kernel.free_pages_later();
        if self.shared.is_some() {
            return self.detach();
        }
        // Also when nothing was committed since the last checkpoint: the next opening then knows that there
        // is no log to look at.
        if self.kernel.pages.volume().is_some() { self.checkpoint_and_remove_log() } else { Ok(()) }
    }

    /// The last thing done with an environment.
    fn checkpoint_and_remove_log(&self) -> Result<()> {
        let seat = self.kernel.pages.participants.sit()?;
        let last = self.checkpoint_as(&seat, true, Moving::Little)?;
        let given_up = self.kernel.log.give_up_files(last.lsn, caller(&self.kernel.pages, seat.number()));
        // After that: there may be room for the reserve now.
        self.kernel.pages.give_back_tail();
        given_up
    }
}

//! Checkpoints, and making the files smaller.

use std::sync::atomic::Ordering;

use super::Upkeep;
use crate::env::config::EnvMode;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::volume::Superblock;
use crate::pages::{self, Moving};
use crate::trace::{self, Happened, TracedWork};
use crate::txn::caller;
use crate::types::Lsn;

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
    /// Other pages that were moved towards the beginning of the file, so that its end can be cut off.
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
    /// Unreachable pages freed: what interrupted bulk loads had left, and processes that were killed in a
    /// large commit, or while they created or removed a database.
    pub pages_freed: u64,
    /// Page numbers freed that processes had taken, and not used yet, when they died.
    pub page_numbers_freed: u64,
    /// Blocks freed in the same way: copies that a checkpoint was making or about to free, large values that
    /// were being stored.
    pub blocks_freed: u64,
    /// Whether it could not be found out what dead processes had taken, because another process was stopped,
    /// stored a large value, or made a large commit or a checkpoint, for seconds. Then none of that was
    /// freed; compact again to free it.
    pub undecided: bool,
}

/// Rounds of compaction after which it ends although others keep changing pages: each has looked at all of
/// them.
const COMPACT_FRUITLESS_MAX: u32 = 2;
/// Checkpoints that move pages for a reserve.
const RESERVE_ROUNDS: u32 = 3;

impl Upkeep {
    /// Writes a checkpoint and lets go of the log before it. Durable when it returns.
    pub(crate) fn checkpoint(&self, clean: bool) -> Result<CheckpointReport> {
        let seat = self.kernel.pages.participants.sit()?;
        self.checkpoint_as(&seat, clean, Moving::Little)
    }

    pub(in crate::env) fn checkpoint_as(
        &self,
        me: &pages::LocalParticipant,
        clean: bool,
        moving: Moving,
    ) -> Result<CheckpointReport> {
        let _checkpoint = trace::begin(TracedWork::Checkpoint);
        let describe = |at, superblock: &mut Superblock| {
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
            // Also when all of it was durable before it was poisoned: a thread that was told of that is not
            // to hear that all is well again.
            self.kernel.log.fail_if_poisoned()
        };
        let pages = &self.kernel.pages;
        let capture = || {
            pages.unless_cut_short(|| {
                if !clean {
                    self.kernel.log.begin(caller(pages, me.number()))?;
                }
                pages.checkpoint(me, moving, describe)
            })
        };
        let captured = match capture() {
            // What the log keeps to use it again may be the room that it needs.
            Err(error) if error.is_full() && self.gives_up_spares(me) => capture(),
            captured => captured,
        };
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

    /// Whether the log had segments to use again, which are gone now.
    fn gives_up_spares(&self, me: &pages::LocalParticipant) -> bool {
        self.kernel.log.give_up_spares(caller(&self.kernel.pages, me.number())).unwrap_or(false)
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
    pub(super) fn free_lost(&self, me: &pages::LocalParticipant) -> Result<Option<pages::Lost>> {
        if self.mode == EnvMode::DataStore {
            return Ok(Some(pages::Lost::default()));
        }
        match self.kernel.pages.free_lost(me) {
            Err(error) if error.is_corruption() => Ok(None),
            lost => lost,
        }
    }

    /// Frees the pages that nothing leads to. A Data Store leaves that to a process that opens it with
    /// transactions.
    pub(super) fn free_unreachable(&self, me: &pages::LocalParticipant) -> Result<u64> {
        if self.mode == EnvMode::DataStore {
            return Ok(0);
        }
        // Only what a checkpoint has is found.
        self.checkpoint_as(me, false, Moving::Little)?;
        self.kernel.free_unreachable(me)
    }

    /// Gives back segments that the last checkpoint does not need, and spares that nothing used since it.
    pub(in crate::env) fn recycle_log(&self) -> Result<()> {
        let Some(volume) = self.kernel.pages.volume() else { return Ok(()) };
        // The files of another state, in the place of these, may need theirs.
        volume.check_names(&*self.config.disk)?;
        let seat = self.kernel.pages.participants.sit()?;
        self.let_go_of_log(volume.superblock().log_position, &seat)
    }

    /// Whether another checkpoint would make the volume smaller.
    pub(in crate::env) fn is_moving(&self) -> bool {
        self.moving.load(Ordering::Relaxed)
    }

    /// The last thing done with an environment.
    pub(in crate::env) fn leave_files(&self) -> Result<()> {
        self.checkpoint_and_remove_log()?;
        // A Data Store has no log: if its last checkpoint cannot be read, the blocks of the one before are
        // what there is.
        if self.mode == EnvMode::Transactional {
            let seat = self.kernel.pages.participants.sit()?;
            self.kernel.pages.empty_when_left(&seat);
        }
        Ok(())
    }

    /// Writes to the volume all that the log has, and removes that.
    pub(in crate::env) fn checkpoint_and_remove_log(&self) -> Result<()> {
        let seat = self.kernel.pages.participants.sit()?;
        let last = self.checkpoint_as(&seat, true, Moving::Little)?;
        let given_up = self.kernel.log.give_up_files(last.lsn, caller(&self.kernel.pages, seat.number()));
        // After that: there may be room for the reserve now.
        if !self.kernel.pages.give_back_tail() && self.mode == EnvMode::Transactional {
            self.make_reserve(&seat);
        }
        given_up
    }

    /// On a full disk the reserve is made of what is free before the last block: pages go there, and what is
    /// behind them is cut off; so many and no more, so that it does not take long. Best effort: the
    /// checkpoint before stands.
    fn make_reserve(&self, me: &pages::LocalParticipant) {
        // What one frees the next can use.
        for _ in 0..RESERVE_ROUNDS {
            let moved = self.checkpoint_as(me, true, Moving::ForReserve).map_or(0, |report| report.moved);
            if self.kernel.pages.give_back_tail() || moved == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use sablecat_os::disk::Disk;
    use sablecat_os::sim::SimDisk;

    use crate::env::config::{Config, EnvMode};
    use crate::env::databases::Asked;
    use crate::env::opening::open::open;
    use crate::txn::{Durability, RecordChange};

    /// On a disk that is full the log's spare segments are given up for the pages that have changed.
    #[test]
    fn a_checkpoint_takes_the_room_of_spare_segments() {
        let disk = Arc::new(SimDisk::new(1));
        let config = Config {
            disk: Arc::clone(&disk) as Arc<dyn Disk>,
            background: false,
            log_segment_bytes: 1 << 20,
            ..Config::default()
        };
        let core = open(Path::new("full"), config, EnvMode::Transactional).unwrap();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        let set = |n: u32, value: &[u8]| {
            let (key, durability) = (n.to_be_bytes(), Durability::NoSync);
            core.kernel.change_one(&records.tree, &key, RecordChange::Put(value), durability).unwrap();
        };
        let spares = || {
            let names = disk.list(Path::new("full/log")).unwrap();
            names.iter().filter(|name| name.ends_with(".spare")).count()
        };
        for n in 0..10_000 {
            set(n, &[6; 300]);
            if n % 500 == 0 {
                core.keep_house().unwrap();
            }
        }
        core.checkpoint(false).unwrap();
        // Some hundred pages, in little log; of the volume nothing is free.
        (0..4_000).step_by(5).for_each(|n| set(n, &[7; 300]));
        disk.fill_up();
        assert!(spares() > 0);
        core.checkpoint(false).unwrap();
        assert_eq!(spares(), 0);
        core.close().unwrap();
    }
}

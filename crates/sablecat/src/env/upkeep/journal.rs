//! The journal: what is kept so that the environment can go back. Which checkpoints are retained as epochs,
//! and which of the old log is kept.
//!
//! Both are decided by each checkpoint: its superblock says which of the ones before it stay. A checkpoint
//! becomes an epoch when the next one takes its place, if it is far enough from the last epoch and holds
//! another state. Old segments are archived, and removed from the archive, after it, by the process that
//! wrote it.

use sablecat_os::calendar::Moment;

use super::Upkeep;
use crate::error::Result;
use crate::log::Retention;
use crate::pages::LocalParticipant;
use crate::pages::volume::{Journal, RetainedCheckpoint, Superblock};
use crate::txn::caller;
use crate::types::Lsn;

impl Upkeep {
    /// What the superblock of a checkpoint at `at` says beyond the pages. `clean`: it is the last one.
    pub(super) fn describe(&self, at: Lsn, clean: bool, next: &mut Superblock) {
        let log = &self.kernel.log;
        // Without a log nothing is ever in it.
        next.clean = clean || !log.keeps_records();
        next.time_ms = log.time().max(next.time_ms);
        next.journal = self.journal.clone();
        next.epochs = match (&self.journal, self.kernel.pages.volume()) {
            (Some(journal), Some(volume)) => retained(journal, &volume.superblock(), at, next.time_ms),
            _ => Vec::new(),
        };
        if clean && self.journal.is_some() {
            next.log_position = log.closing_position(next.log_position);
        }
    }

    /// Gives up the log that nothing needs after a checkpoint from which recovery begins at `needed`, and
    /// that nobody reads.
    pub(super) fn let_go_of_log(&self, needed: Lsn, me: &LocalParticipant) -> Result<()> {
        let caller = caller(&self.kernel.pages, me.number());
        let log = &self.kernel.log;
        let wanted = self.kernel.pages.log_wanted(log.tail()).map_or(needed, |wanted| wanted.min(needed));
        // A reader of what is archived finds it there.
        log.recycle_before(if self.journal.is_some() { needed } else { wanted }, caller)?;
        let (Some(journal), Some(volume)) = (&self.journal, self.kernel.pages.volume()) else {
            return Ok(());
        };
        let oldest = volume
            .superblock()
            .epochs
            .first()
            .map_or(needed, |oldest| oldest.log_position.min(needed))
            .min(wanted);
        let limit = |limit: u64| (limit != 0).then_some(limit);
        let kept = Retention {
            bytes_max: limit(journal.bytes_max),
            since: limit(journal.age_max_ms).map(|age| Moment { ms: log.time().saturating_sub(age) }),
        };
        log.prune_archive(kept, oldest, caller)
    }
}

/// The epochs after a checkpoint at `at`, which takes the place of the one of `before`.
fn retained(journal: &Journal, before: &Superblock, at: Lsn, now_ms: u64) -> Vec<RetainedCheckpoint> {
    let mut epochs = before.epochs.clone();
    let last = epochs.last();
    // Of a checkpoint without a journal the log is not kept.
    let is_possible = before.journal.is_some() && before.map_height > 0;
    let is_new = before.checkpoint < at && last.is_none_or(|last| last.map_root != before.map_root);
    let is_spaced =
        last.is_none_or(|last| before.time_ms >= last.time_ms.saturating_add(journal.epoch_spacing_ms));
    if is_possible && is_new && is_spaced {
        epochs.push(before.epoch());
    }
    epochs.retain(|epoch| {
        journal.epoch_age_max_ms == 0 || epoch.time_ms.saturating_add(journal.epoch_age_max_ms) >= now_ms
    });
    let too_many = epochs.len().saturating_sub(journal.epochs_max as usize);
    epochs.drain(..too_many);
    epochs
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use sablecat_os::disk::Disk;
    use sablecat_os::sim::{Fault, SimDisk, Survival};

    use super::*;
    use crate::env::config::{Config, EnvMode, Journaling};
    use crate::env::databases::Asked;
    use crate::env::opening::Core;
    use crate::env::opening::open::open;
    use crate::error::ErrorKind;
    use crate::txn::{Durability, RecordChange};
    use crate::types::SealedBlock;

    /// A superblock whose checkpoint was made at `n` seconds and `n` times 100.
    fn superblock(n: u64, epochs: Vec<RetainedCheckpoint>) -> Superblock {
        Superblock {
            generation: n,
            checkpoint: Lsn(n * 100),
            time_ms: n * 1000,
            map_root: SealedBlock(1000 + n),
            map_height: 1,
            journal: Some(Journal::new()),
            epochs,
            ..Superblock::initial([0; 16], crate::pages::volume::tests::plain(4096))
        }
    }

    /// The generations retained after checkpoints every second.
    fn run(journal: &Journal, checkpoints: u64) -> Vec<u64> {
        let mut epochs = Vec::new();
        for n in 1..checkpoints {
            epochs = retained(journal, &superblock(n, epochs), Lsn(n * 100 + 100), (n + 1) * 1000);
        }
        epochs.iter().map(|epoch| epoch.generation).collect()
    }

    #[test]
    fn epochs_are_as_many_as_far_apart_and_as_old_as_wanted() {
        use std::time::Duration;
        let seconds = Duration::from_secs;
        assert_eq!(run(&Journal::new().epochs(3), 10), [7, 8, 9]);
        assert_eq!(run(&Journal::new().epochs(0), 10), [0u64; 0]);
        assert_eq!(run(&Journal::new().epoch_spacing(seconds(3)), 12), [1, 4, 7, 10]);
        assert_eq!(run(&Journal::new().keep_epochs_for(seconds(2)), 10), [8, 9]);
    }

    #[test]
    fn a_state_is_retained_once() {
        let journal = Journal::new();
        let first = retained(&journal, &superblock(1, Vec::new()), Lsn(200), 2000);
        assert_eq!(first.len(), 1);
        let same_map = Superblock { map_root: SealedBlock(1001), ..superblock(2, first.clone()) };
        assert_eq!(retained(&journal, &same_map, Lsn(300), 3000), first);
        assert_eq!(
            retained(&journal, &superblock(2, first.clone()), Lsn(200), 3000),
            first,
            "nothing was committed since"
        );
        let without = Superblock { journal: None, ..superblock(2, Vec::new()) };
        assert_eq!(retained(&journal, &without, Lsn(300), 3000), [], "its log was not kept");
    }

    const DIRECTORY: &str = "env";

    fn core(disk: &SimDisk) -> Arc<Core> {
        let config = Config {
            disk: Arc::new(disk.clone()),
            background: false,
            cache_bytes: Some(0),
            log_buffer_bytes: 1 << 16,
            log_segment_bytes: 1 << 16,
            journaling: Journaling::On(Journal::new()),
            ..Config::default()
        };
        open(Path::new(DIRECTORY), config, EnvMode::Transactional).unwrap()
    }

    fn names(disk: &SimDisk) -> [Vec<String>; 2] {
        ["log", "journal"].map(|name| disk.list(&Path::new(DIRECTORY).join(name)).unwrap_or_default())
    }

    /// Those of the journal come when the checkpoint stands. Nothing that is asked for afterwards is said to
    /// be durable, and nothing more is done with the files of the log.
    #[test]
    fn a_checkpoint_after_a_flush_of_the_log_failed_does_not_say_that_all_is_well() {
        let mut of_the_journal = 0;
        for nth in 1.. {
            let disk = SimDisk::new(nth);
            let core = core(&disk);
            let records = core.database_or_new("records", Asked::default()).unwrap();
            let put = |n: u32, rung| {
                core.kernel.change_one(&records.tree, &n.to_be_bytes(), RecordChange::Put(&[7; 1000]), rung)
            };
            (0..200).for_each(|n| assert!(put(n, Durability::NoSync).unwrap()));
            core.sync().unwrap();
            disk.fail_at(disk.calls() + nth, Fault::SyncFails);
            let failed = match core.checkpoint(false) {
                Ok(_) => break,
                Err(error) => error,
            };
            assert_eq!(failed.kind(), ErrorKind::Poisoned, "flush {nth}: {failed}");
            if core.kernel.log.fail_if_poisoned().is_ok() {
                continue;
            }
            of_the_journal += u32::from(failed.to_string().contains("journal"));
            let left = names(&disk);
            let refused = [
                core.checkpoint(false).map(drop),
                core.compact().map(drop),
                core.recycle_log(),
                core.sync(),
                core.close(),
            ];
            for (n, refused) in refused.into_iter().enumerate() {
                assert!(refused.is_err_and(|error| error.kind() == ErrorKind::Poisoned), "flush {nth}, {n}");
            }
            assert_eq!(names(&disk), left, "flush {nth}");
            drop(records);
            drop(core);
            for survival in Survival::ALL {
                let core = self::core(&disk.crash_as(survival, nth));
                let records = core.database("records").unwrap().unwrap();
                let is_there = |n: &u32| {
                    core.kernel.read_one(&records.tree, &n.to_be_bytes(), |value| value.is_some()).unwrap()
                };
                assert_eq!((0..200).filter(is_there).count(), 200, "flush {nth}, {survival:?}");
            }
        }
        assert!(of_the_journal > 1, "{of_the_journal}");
    }
}

//! The housekeeping thread: hands the log to the operating system and flushes it every interval, prepares the
//! next log segment, and writes checkpoints when the interval has passed or the log has grown enough. When
//! nothing was logged for an interval, it goes on with making the volume smaller, if there is something to
//! gain, and gives back the log's spare segments. Now and then it sweeps some of the records that have
//! expired.
//!
//! Errors do not end it: what went wrong poisons the log or the volume, and the next commit reports it.
//!
//! One process at a time keeps house. One that has done so for long without an end is stopped, perhaps, or
//! makes a long checkpoint: then another does, beside it. No harm comes of two: all that they do has turns
//! and roles of its own, of which housekeeping waits for the flush alone. (A process that is stopped in that
//! holds up all durable commits.)
//!
//! A second thread, which nothing of that can hold up, writes dirty pages ahead of need while the cache is
//! too small for what is in use, and before that has memory found for frames that come to be used. The first
//! one starts it, before it does anything else: a process that opens an environment for a moment has only the
//! one.
//!
//! Some more read pages that a scan will come to, ahead of it (pages/pool/ahead.rs), and some seal and merge
//! the layers of LSM trees (txn/trees/layers.rs). The first one starts them when they are first called for.
//!
//! A program that may not have threads calls [`Core::keep_house`] instead, now and then; its operations write
//! dirty pages themselves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Core;
use crate::env::config::EnvMode;
use crate::env::databases::Upcoming;
use crate::env::mutex::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::{Bell, LocalParticipant};
use crate::region::{HeldRole, RoleWatch};
use crate::txn::{Kernel, caller};

/// How long the cleaning thread sleeps when nobody calls it: only to see whether the environment is still
/// there.
const CLEANER_SLEEP: Duration = Duration::from_secs(1);
/// Threads that read ahead: of blocks that are not neighbours a device reads 17,000 a second for one thread,
/// 35,000 for four and 47,000 for eight.
const READERS: usize = 8;
/// Threads that tend LSM trees: while one waits for the disk another merges.
const TENDERS: usize = 2;

/// Keeps house in this process.
#[derive(Debug)]
pub(in crate::env) struct Keeper {
    threads: Mutex<Vec<JoinHandle<()>>>,
    done: Mutex<Done>,
    sweeping: Mutex<Sweeping>,
    /// The participant that had the role when this process last wanted it.
    other: RoleWatch,
    /// When this process last made sure that others know that it lives, in milliseconds of the monotonic
    /// clock.
    asked: AtomicU64,
    /// Threads that read ahead.
    readers: AtomicUsize,
    /// Threads that tend LSM trees.
    tenders: AtomicUsize,
}

/// For so many intervals of flushing another process may keep house without an end; then this one does.
const INTERVALS_PATIENT: u32 = 20;
/// So often, at most, in milliseconds, it is made sure that this process is known to live.
const ASK_EVERY: u64 = 200;

/// When things were done last, by the monotonic clock.
#[derive(Debug)]
struct Done {
    flush: Duration,
    checkpoint: Duration,
}

/// What of records that expire was swept.
#[derive(Debug)]
struct Sweeping {
    /// When, by the monotonic clock.
    at: Duration,
    /// Not all that there was.
    is_more: bool,
    upcoming: Upcoming,
}

impl Default for Keeper {
    fn default() -> Keeper {
        let now = sablecat_os::clock::monotonic();
        let done = Mutex::new(Done { flush: now, checkpoint: now });
        let sweeping = Mutex::new(Sweeping { at: now, is_more: false, upcoming: Upcoming::default() });
        Keeper {
            threads: Mutex::default(),
            done,
            sweeping,
            other: RoleWatch::default(),
            asked: AtomicU64::new(0),
            readers: AtomicUsize::new(0),
            tenders: AtomicUsize::new(0),
        }
    }
}

impl Keeper {
    pub(in crate::env) fn start(&self, core: &Arc<Core>) -> Result<()> {
        let interval = core.config.flush_interval.max(Duration::from_millis(1));
        // What fails poisons the log, or is tried again by the commit that needs it: either way a committer
        // is told.
        let bell = &core.kernel.bell;
        let pages = &core.kernel.pages;
        pages.cleaner.until_listened_to(bell);
        pages.ahead.bell.until_listened_to(bell);
        core.kernel.tending_bell().until_listened_to(bell);
        core.kernel.set_tender(true);
        self.spawn("sablecat", core, bell, interval, |core| {
            let cleaner = &core.kernel.pages.cleaner;
            // Without it threads that need frames write what is in their way; it is tried again.
            if !cleaner.is_listened_to() && core.keeper.start_cleaner(core).is_ok() {
                cleaner.has_listener();
            }
            let ahead = &core.kernel.pages.ahead.bell;
            // The same goes for what is to be read ahead: who wants it reads it.
            if ahead.is_rung() && !ahead.is_listened_to() && core.keeper.start_readers(core).is_ok() {
                ahead.has_listener();
            }
            let tending = core.kernel.tending_bell();
            if tending.is_rung() && !tending.is_listened_to() {
                let is_there = core.keeper.start_tenders(core).is_ok();
                // Where there is no room for them those who write do it.
                core.kernel.set_tender(is_there);
                if is_there {
                    tending.has_listener();
                }
            }
            // A program's clock may panic, which has been said then. The next sweep asks it again; all else
            // that is to be done is done meanwhile.
            let sweep = || catch_unwind(AssertUnwindSafe(|| core.sweep_if_due())).unwrap_or(Ok(()));
            drop(core.kernel.pages.unless_cut_short(|| core.keep_house_and(sweep)));
        })
    }

    fn start_cleaner(&self, core: &Arc<Core>) -> Result<()> {
        // What could not be written is written by the operation that needs its frame, which is told what is
        // wrong.
        self.spawn("sablecat-clean", core, &core.kernel.pages.cleaner, CLEANER_SLEEP, |core| {
            drop(core.kernel.pages.unless_cut_short(|| core.clean()));
        })
    }

    fn start_readers(&self, core: &Arc<Core>) -> Result<()> {
        let bell = &core.kernel.pages.ahead.bell;
        // Who wants a page that could not be read is told why.
        self.spawn_up_to((READERS, &self.readers), "sablecat-read", core, bell, |core| {
            drop(core.kernel.pages.unless_cut_short(|| core.read_ahead()));
        })
    }

    fn start_tenders(&self, core: &Arc<Core>) -> Result<()> {
        // What could not be done is wanted again with the next change.
        self.spawn_up_to(
            (TENDERS, &self.tenders),
            "sablecat-merge",
            core,
            core.kernel.tending_bell(),
            |core| {
                drop(core.kernel.pages.unless_cut_short(|| core.tend()));
            },
        )
    }

    /// Starts those of some threads of one kind that are missing: some may have been started before there was
    /// no room for more.
    fn spawn_up_to(
        &self,
        (most, started): (usize, &AtomicUsize),
        name: &str,
        core: &Arc<Core>,
        bell: &Arc<Bell>,
        work: fn(&Arc<Core>),
    ) -> Result<()> {
        (started.load(Ordering::Relaxed)..most).try_for_each(|_| {
            self.spawn(name, core, bell, CLEANER_SLEEP, work)?;
            started.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Starts a thread that works whenever the bell is rung, and every so often.
    fn spawn(
        &self,
        name: &str,
        core: &Arc<Core>,
        bell: &Arc<Bell>,
        every: Duration,
        work: fn(&Arc<Core>),
    ) -> Result<()> {
        let (weak, bell) = (Arc::downgrade(core), Arc::clone(bell));
        let keep = move || {
            while bell.listen(every) {
                let Some(core) = Weak::upgrade(&weak) else { return };
                work(&core);
            }
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(keep);
        let thread =
            started.map_err(|e| Error::new(ErrorKind::Io, format!("starting the thread {name}: {e}")))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    pub(super) fn stop(&self, kernel: &Kernel) {
        kernel.bell.stop();
        kernel.pages.cleaner.stop();
        kernel.pages.ahead.bell.stop();
        kernel.tending_bell().stop();
        loop {
            // The one may have started the other before it ends.
            let Some(thread) = lock(&self.threads).pop() else { break };
            // A panic of the thread has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Core {
    /// Writes dirty pages that would be in the way of threads that need frames.
    fn clean(&self) -> Result<()> {
        let seat = self.kernel.pages.participants.sit()?;
        self.kernel.pages.clean(&seat)
    }

    /// Reads what was asked for.
    fn read_ahead(&self) -> Result<()> {
        let seat = self.kernel.pages.participants.sit()?;
        self.kernel.pages.read_ahead(&seat)
    }

    /// Seals and merges layers, until nothing is left to be done.
    fn tend(&self) -> Result<()> {
        let goes_on = || !self.kernel.tending_bell().is_stopped();
        self.kernel.tend_wanted(goes_on)
    }

    /// Does what is due; nothing if another thread or process is at it.
    pub(crate) fn keep_house(&self) -> Result<()> {
        self.keep_house_and(|| self.sweep_if_due())
    }

    fn keep_house_and(&self, sweep: impl FnOnce() -> Result<()>) -> Result<()> {
        let done = self.do_what_is_due();
        // Last: they commit, and nothing that is due waits for those that a commit may wait for.
        self.kernel.free_pages_later();
        if done? { sweep() } else { Ok(()) }
    }

    /// Whether it was this process's to do.
    fn do_what_is_due(&self) -> Result<bool> {
        let log = &self.kernel.log;
        let now = sablecat_os::clock::monotonic().as_millis() as u64;
        let is_to_ask = now.saturating_sub(self.keeper.asked.load(Ordering::Relaxed)) >= ASK_EVERY;
        if is_to_ask {
            self.keeper.asked.store(now, Ordering::Relaxed);
            self.check_own_lock();
        }
        let seat = self.kernel.pages.participants.sit()?;
        // Before anything that might wait for the dead.
        self.kernel.reap_now_and_then(&seat);
        let Some(_keeper) = self.take_house(&seat) else { return Ok(false) };
        let mut done = lock(&self.keeper.done);
        let caller = caller(&self.kernel.pages, seat.number());
        // One failure does not keep the rest from being done: a checkpoint may be what makes room for the
        // next segment.
        let whole = if is_to_ask { log.check_newest() } else { Ok(()) };
        let prepared = log.prepare_next(caller);
        let now = sablecat_os::clock::monotonic();
        let written = if now.saturating_sub(done.flush) >= self.config.flush_interval {
            done.flush = now;
            log.make_durable(log.tail(), caller)
        } else {
            log.drain(caller)
        };
        drop(seat);
        let grown = log.tail().0.saturating_sub(self.checkpointed().0);
        let due = now.saturating_sub(done.checkpoint) >= self.config.checkpoint_interval;
        // A process that does that is not waited for: it may be stopped, and the log is to be flushed
        // meanwhile.
        let is_free = !self.kernel.pages.is_checkpoint_in_progress() && !log.is_supplying();
        let checkpointed = if is_free && (due || grown >= self.config.checkpoint_log_bytes) {
            done.checkpoint = now;
            if grown > 0 || self.is_moving() { self.checkpoint(false).map(drop) } else { self.recycle_log() }
        } else {
            Ok(())
        };
        whole.and(prepared).and(written).and(checkpointed).map(|()| true)
    }

    /// Sweeps some of what has expired, unless another thread is at it.
    fn sweep_if_due(&self) -> Result<()> {
        let mut sweeping = match self.keeper.sweeping.try_lock() {
            Ok(sweeping) => sweeping,
            // A program's clock has panicked; there is nothing half done.
            Err(TryLockError::Poisoned(sweeping)) => sweeping.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let now = sablecat_os::clock::monotonic();
        let is_due = sweeping.is_more || now.saturating_sub(sweeping.at) >= self.config.sweep_interval;
        if !is_due || self.mode != EnvMode::Transactional {
            return Ok(());
        }
        (sweeping.at, sweeping.is_more) = (now, false);
        sweeping.is_more = self.sweep_some(&mut sweeping.upcoming)?;
        Ok(())
    }

    /// The role of housekeeping, if nobody has it; or from another process that has had it for long: it is
    /// stopped, or making a long checkpoint, and the log is to be flushed every interval all the same.
    fn take_house(&self, me: &LocalParticipant) -> Option<HeldRole<'_>> {
        let holding = match self.kernel.keep(me) {
            Ok(held) => return Some(held),
            Err(holding) => holding,
        };
        if self.keeper.other.is_long(holding, self.config.flush_interval * INTERVALS_PATIENT) {
            self.kernel.keep_instead(holding, me)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sablecat_os::atomic::Ordering;
    use sablecat_os::sim::SimDisk;

    use super::*;
    use crate::env::config::{Config, EnvMode};
    use crate::env::databases::Asked;
    use crate::env::opening::open::open;
    use crate::env::tests::shared_place::SharedPlace;
    use crate::txn::{Durability, RecordChange};

    fn wait_for_cleaner(core: &Core) {
        let begun = sablecat_os::clock::monotonic();
        while !core.kernel.pages.cleaner.is_listened_to() {
            assert!(sablecat_os::clock::monotonic() - begun < Duration::from_secs(60), "nobody has come");
            sablecat_os::atomic::pause(Duration::from_millis(1));
        }
        assert_eq!(lock(&core.keeper.threads).len(), 2);
    }

    /// Although the thread that starts it sleeps for an hour, but for what it is called for.
    #[test]
    fn a_thread_cleans_when_it_is_called_for_the_first_time() {
        let config = Config {
            disk: Arc::new(SimDisk::new(1)),
            flush_interval: Duration::from_secs(3600),
            ..Config::default()
        };
        let core = open(Path::new("called"), config, EnvMode::Transactional).unwrap();
        assert_eq!(lock(&core.keeper.threads).len(), 1);
        core.kernel.pages.cleaner.ring();
        wait_for_cleaner(&core);
        core.close().unwrap();
    }

    /// Of those that read ahead some may be there: the system had no room for more.
    #[test]
    fn no_more_threads_are_started_than_are_missing() {
        let config = Config { disk: Arc::new(SimDisk::new(1)), background: false, ..Config::default() };
        let core = open(Path::new("missing"), config, EnvMode::Transactional).unwrap();
        core.keeper.readers.store(READERS - 2, Ordering::Relaxed);
        (0..2).for_each(|_| core.keeper.start_readers(&core).unwrap());
        assert_eq!(lock(&core.keeper.threads).len(), 2);
        core.close().unwrap();
    }

    /// House may be kept for long from then on.
    #[test]
    fn a_thread_that_cleans_is_there_once_house_is_kept() {
        let config = Config {
            disk: Arc::new(SimDisk::new(1)),
            flush_interval: Duration::from_millis(1),
            ..Config::default()
        };
        let core = open(Path::new("uncalled"), config, EnvMode::Transactional).unwrap();
        wait_for_cleaner(&core);
        core.close().unwrap();
    }

    /// Many more pages than the smallest cache has, changed until the thread has seen to some of them.
    #[test]
    fn a_thread_cleans_once_the_cache_is_too_small() {
        let config = Config { disk: Arc::new(SimDisk::new(1)), cache_bytes: Some(0), ..Config::default() };
        let core = open(Path::new("cleaning"), config, EnvMode::Transactional).unwrap();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        let cleaned = || core.kernel.pages.region.header().cleaned.0.load(Ordering::Relaxed);
        for n in (0..300_000u32).take_while(|_| cleaned() == 0) {
            let key = n.wrapping_mul(2_654_435_761).to_be_bytes();
            core.kernel
                .change_one(&records.tree, &key, RecordChange::Put(&[7; 300]), Durability::Memory)
                .unwrap();
        }
        assert_ne!(cleaned(), 0, "frames that the thread has seen to");
        core.close().unwrap();
    }

    /// As when making the next segment fails: all that was committed is durable already.
    #[test]
    fn to_sync_says_that_the_log_is_poisoned_also_when_nothing_was_lost() {
        let disk = Arc::new(SimDisk::new(1));
        let config = Config {
            disk: Arc::clone(&disk) as Arc<dyn sablecat_os::disk::Disk>,
            background: false,
            cache_bytes: Some(0),
            log_segment_bytes: 1 << 20,
            ..Config::default()
        };
        let core = open(Path::new("poisoned"), config, EnvMode::Transactional).unwrap();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        let log = &core.kernel.log;
        for n in (0..u32::MAX).take_while(|_| !log.wants_segment()) {
            core.kernel
                .change_one(&records.tree, &n.to_be_bytes(), RecordChange::Put(&[7; 300]), Durability::NoSync)
                .unwrap();
        }
        core.sync().unwrap();
        // A segment that cannot be flushed is made once more; its name is there, and may be lost.
        let failed = (1..100).map(|call| {
            disk.fail_at(disk.calls() + call, sablecat_os::sim::Fault::SyncFails);
            core.keep_house().unwrap_err().kind()
        });
        assert_eq!(
            failed.filter(|kind| *kind != crate::ErrorKind::Io).take(1).collect::<Vec<_>>(),
            [crate::ErrorKind::Poisoned]
        );
        assert_eq!(log.durable(), log.tail());
        assert_eq!(core.sync().unwrap_err().kind(), crate::ErrorKind::Poisoned);
    }

    /// It may be stopped in any of what it does, for as long as it likes.
    #[test]
    fn who_is_stopped_while_it_keeps_house_ends_no_flushes_of_the_others() {
        let place = SharedPlace::new("house", &Arc::new(SimDisk::new(1)));
        let open = || place.open_as(|config| config.flush_interval = Duration::from_millis(1));
        let (stopped, other) = (open(), open());
        let records = other.database_or_new("records", Asked::default()).unwrap();
        // The role, and what may be held with it.
        let seat = stopped.kernel.pages.participants.sit().unwrap();
        let _keeping = stopped.kernel.keep(&seat).unwrap();
        let _checkpoint = stopped.kernel.pages.hold_checkpoint(&seat).unwrap();
        let supplying = stopped.kernel.log.hold_supply(caller(&stopped.kernel.pages, seat.number()));
        let log = &other.kernel.log;
        for n in 0..3u8 {
            other
                .kernel
                .change_one(&records.tree, &[n], RecordChange::Put(&[7; 300]), Durability::NoSync)
                .unwrap();
            let committed = log.tail();
            while log.durable() < committed {
                other.keep_house().unwrap();
            }
        }
        drop((supplying, _checkpoint, _keeping, seat));
        drop(records);
        [stopped, other].into_iter().for_each(|core| core.close().unwrap());
    }

    /// While one process keeps house the commits of all others leave their threads asleep; afterwards they
    /// call for what is still wanted.
    #[test]
    fn nobody_is_called_while_somebody_keeps_house() {
        let config = Config { disk: Arc::new(SimDisk::new(1)), background: false, ..Config::default() };
        let core = open(Path::new("calling"), config, EnvMode::Transactional).unwrap();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        let commit = || {
            assert!(
                core.kernel
                    .change_one(&records.tree, b"key", RecordChange::Put(&[7; 300]), Durability::NoSync)
                    .unwrap()
            )
        };
        let seat = core.kernel.pages.participants.sit().unwrap();
        let keeping = core.kernel.keep(&seat).unwrap();
        while !core.kernel.log.wants_segment() {
            commit();
        }
        commit();
        assert!(!core.kernel.bell.is_rung());
        drop(keeping);
        commit();
        assert!(core.kernel.bell.is_rung());
        drop(seat);
        core.close().unwrap();
    }
}

//! Shared environments: joining the processes that have one open, and leaving them.
//!
//! What the processes share lies in one file on a file system in memory, named after the directory's device
//! and inode. Every process holds a lock on a byte of its own in the environment's lock file, which says that
//! it lives; entering and leaving happen one at a time (env/files/entrance.rs). A process that has the
//! environment for itself holds the whole file locked.
//!
//! A process that enters and finds others alive attaches to their region, if it is what they use: of this
//! environment, this build and this run of the machine, not poisoned, and over the files that are there now.
//! Otherwise that is an error: nothing can be done about it as long as they live. A process that enters alone
//! ends what dead processes may have left (env/files/left.rs), makes a new region, and recovers the
//! environment from its files. The region gets its name only when that is done, so a half-made one is never
//! found.
//!
//! The process that leaves last flushes the log, removes the region, and writes a last checkpoint, in this
//! order.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::atomic::Ordering;
use sablecat_os::disk::FileId;
use sablecat_os::machine;

use super::open::assemble;
use super::{Core, EnvPlace};
use crate::env::config::{Config, EnvMode};
use crate::env::files::entrance::Entrance;
use crate::env::files::held::make_ready;
use crate::env::files::left::{
    end_what_is_left, open_region, region_path, remove, set_aside, this_boots, unfinished,
};
use crate::env::files::{LOCK, VOLUME, find_volume, log_memory, open_volume};
use crate::env::recovery::recover::RecoveryReport;
use crate::env::recovery::{build_kernel, geometry};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::volume::Volume;
use crate::region::{DiskGuard, Region};
use crate::types::Lsn;

/// How long a process that leaves waits before it looks again for what is left of the dead.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Opens an environment that other processes may have open.
pub(super) fn open_shared(directory: &Path, mut config: Config, mode: EnvMode) -> Result<Arc<Core>> {
    if mode == EnvMode::DataStore {
        return Err(Error::invalid(
            "a Data Store has one handle; open the environment with transactions to share it",
        ));
    }
    let volume_path = directory.join(VOLUME);
    let looking = |e| Error::io("looking into", directory, e);
    if !config.disk.exists(&volume_path).map_err(looking)? {
        find_volume(directory, &config)?;
    }
    let region_path = region_path(directory, &config)?;
    let guard = DiskGuard::before(&mut config.disk);
    let entrance = Entrance::enter(&directory.join(LOCK), config.file_mode)?;

    config.take_after(&volume_path)?;
    if entrance.anybody_lives()? {
        make_ready(directory, &config, false)?;
        let Some(file) = open_region(&region_path)? else {
            return Err(entrance.cannot_join("its shared memory is not where it should be"));
        };
        let how = (config.direct_io, false);
        let volume = Volume::join(&*config.disk, &volume_path, how, config.encryption.as_ref())?;
        let region = judge((file, &region_path), &volume, &entrance)?;
        let region = Arc::new(entrance.admit(region)?);
        guard.watch(&region);
        return join(directory, volume, region, region_path, config, mode);
    }
    end_what_is_left(&entrance, directory, &region_path, &config)?;
    make_ready(directory, &config, true)?;
    // Looked for again: another may have made it while this one waited.
    let (exists, _) = find_volume(directory, &config)?;
    let volume = open_volume(exists, &volume_path, &config)?;
    // A process that may write the volume may enter the environment.
    config.take_after(&volume_path)?;
    let superblock = volume.superblock();
    let identity = this_boots(superblock.uuid)?;
    let id = file_id(&volume)?;
    let unfinished = unfinished(&region_path);
    let file = create_region(&unfinished, config.file_mode)?;
    let membership = entrance.first_member()?;
    let sizes = geometry(&config, superblock.codec, Some(&volume)).shared();
    let made = Region::create_shared((file, &unfinished), sizes, identity, membership).and_then(|region| {
        let region = Arc::new(region);
        guard.watch(&region);
        assemble(Some((directory, volume)), None, Some((region, region_path.clone())), config, mode)
    });
    let core = match made {
        Ok(core) => core,
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            // Where to make room, or what to mount larger.
            let is_full = error.kind() == ErrorKind::MemoryFull;
            return Err(if is_full {
                Error::memory_full(format!("making {}: {error}", region_path.display()))
            } else {
                error
            });
        }
    };
    let region = core.kernel.pages.region();
    enter(region, id);
    region.header().set_ready();
    fs::rename(&unfinished, &region_path)
        .map_err(|e| Error::io("naming the shared memory", &region_path, e))?;
    core.watch_stalls();
    drop(entrance);
    Ok(core)
}

/// The region that living processes use, if it is one that this process can use with them: of this
/// environment, this build and this run of the machine, in order, and over the files that are there, of which
/// this one has `volume` open.
///
/// # Errors
/// `InUse` and `Poisoned`, saying why it cannot be joined; those of the system.
fn judge(file: (File, &Path), volume: &Volume, entrance: &Entrance) -> Result<Region> {
    let refused = |error: Error| {
        if error.kind() == ErrorKind::Invalid { entrance.cannot_join(&error.to_string()) } else { error }
    };
    let mut superblock = volume.superblock();
    let region = Region::attach(file, this_boots(superblock.uuid)?).map_err(refused)?;
    let (header, memory) = (region.header(), log_memory(&region));
    memory.check(header.visible()).map_err(refused)?;
    if memory.is_poisoned() || header.volume_poisoned.load(Ordering::Acquire) != 0 {
        return Err(Error::new(
            ErrorKind::Poisoned,
            format!(
                "{}: an earlier write or flush failed; the processes that have the environment open must \
                 close it before it can be opened again",
                volume.path().display()
            ),
        ));
    }
    // In this order: the header's generation only grows, and follows the file's by one checkpoint at most.
    let before = header.generation.0.load(Ordering::SeqCst);
    if superblock.generation < before {
        // Others have made checkpoints since, or these are older files.
        superblock = volume.look_again()?;
    }
    let after = header.generation.0.load(Ordering::SeqCst);
    let here = file_id(volume)?;
    let is_elsewhere = |number| {
        let member = region.member(number);
        let has_another =
            member.is_used() && member.volume().zip(here).is_some_and(|(theirs, here)| theirs != here);
        Ok::<_, Error>(has_another && entrance.is_alive(number)?)
    };
    let mut are_elsewhere = false;
    for number in 0..region.geometry().members {
        are_elsewhere |= is_elsewhere(number)?;
    }
    let is_another = !(before..=after + 1).contains(&superblock.generation)
        || superblock.clean
        || superblock.checkpoint > header.visible()
        || superblock.volume_count() != region.geometry().volumes
        || are_elsewhere;
    if is_another {
        return Err(entrance.cannot_join(
            "its files are not those that they have open: they were replaced; close it everywhere, then put \
             the right files back",
        ));
    }
    Ok(region)
}

/// Becomes one of the processes that have the environment open.
fn join(
    directory: &Path,
    volume: Volume,
    region: Arc<Region>,
    region_path: PathBuf,
    config: Config,
    mode: EnvMode,
) -> Result<Arc<Core>> {
    enter(&region, file_id(&volume)?);
    let journal = volume.superblock().journal;
    if config.journaling.over(journal.clone()) != journal {
        return Err(Error::new(
            ErrorKind::InUse,
            "changing the journal while other processes have the environment open, with another journal or \
             none; close it in all of them first",
        ));
    }
    if volume.is_news(&config.declared)? {
        return Err(Error::new(
            ErrorKind::InUse,
            "declaring volumes, rules or compression while other processes have the environment open, with \
             other ones; close it in all of them first",
        ));
    }
    let kernel = build_kernel(Some(directory), Some(volume), &region, &config, (mode, journal.as_ref()))?;
    if !kernel.log.is_in_its_files()? {
        return Err(Error::new(
            ErrorKind::InUse,
            format!(
                "{}: other processes have the environment open, and the log there is not theirs: files were \
                 replaced; close it everywhere",
                directory.display()
            ),
        ));
    }
    let place = EnvPlace { directory: Some(directory.to_path_buf()), lock: None, region: Some(region_path) };
    let report = RecoveryReport {
        joined: true,
        checkpoint: Lsn(region.header().checkpointed.load(Ordering::Acquire)),
        end: region.header().visible(),
        ..RecoveryReport::default()
    };
    let core = Core::new(kernel, config, (mode, journal), report, place);
    core.watch_stalls();
    {
        // Not if somebody has looked just now: hundreds that enter would look at hundreds each.
        let seat = core.kernel.pages.participants.sit()?;
        core.kernel.reap_now_and_then(&seat);
    }
    core.remove_names_left();
    core.start_housekeeping()?;
    Ok(core)
}

/// Which file the main volume is; none where a disk does not tell.
fn file_id(volume: &Volume) -> Result<Option<FileId>> {
    volume.file().id().map_err(|e| Error::io("looking at", volume.path(), e))
}

/// Enters this process, which has the main volume open as the file `volume`.
fn enter(region: &Region, volume: Option<FileId>) {
    region.member(region.number()).enter(std::process::id(), volume, machine::command());
}

fn create_region(path: &Path, file_mode: Option<u32>) -> Result<File> {
    let io = |e| Error::io("creating the shared memory", path, e);
    // Nobody else's until it has the bits it is to have: its records are the files' records.
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    file_mode.map_or(Ok(()), |mode| file.set_permissions(fs::Permissions::from_mode(mode))).map_err(io)?;
    Ok(file)
}

/// Keeps others from entering, leaving and changing the keys; none needs to be kept from it where the
/// environment is not shared.
#[cfg(feature = "encryption")]
pub(super) fn enter_to_change(core: &Core) -> Result<Option<Entrance>> {
    let (Some(directory), Some(_)) = (&core.directory, &core.shared) else { return Ok(None) };
    core.kernel.pages.region().check_fence()?;
    Entrance::enter(&directory.join(LOCK), core.config.file_mode).map(Some)
}

impl Core {
    /// Has waits that take long look for the dead.
    fn watch_stalls(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.kernel.pages.region().when_stalled(move || {
            let Some(core) = core.upgrade() else { return };
            if let Ok(seat) = core.kernel.pages.participants.sit() {
                core.kernel.reap_now_and_then(&seat);
            }
        });
    }

    /// Finds out whether others would take this process for dead, as its lock is gone. Then it counts itself
    /// among them, at once: nothing of it is mended before somebody else comes, but nothing is spoilt either.
    pub(super) fn check_own_lock(&self) {
        let region = self.kernel.pages.region();
        let (Some(directory), Some(_), Some(membership)) =
            (&self.directory, &self.shared, region.membership())
        else {
            return;
        };
        // What is missing of the memory need not be what anybody touches.
        region.look_whether_cut_short();
        if !region.is_fenced() && membership.seems_dead(&directory.join(LOCK)) {
            region.fence_itself();
        }
    }

    /// Leaves the others; the last one removes the region and writes a checkpoint.
    pub(super) fn detach(&self) -> Result<()> {
        let (Some(directory), Some(region_path)) = (&self.directory, &self.shared) else { return Ok(()) };
        let region = self.kernel.pages.region();
        region.check_fence()?;
        let entrance = Entrance::enter(&directory.join(LOCK), self.config.file_mode)?;
        {
            let seat = self.kernel.pages.participants.sit()?;
            let is_alive = |n| {
                n != region.number()
                    && region.member(n).is_used()
                    && region.membership().is_some_and(|own| own.is_alive(n))
            };
            // What somebody else is mending, or is in the way of, is mended without this one: that may be
            // stopped.
            while self.kernel.reap(&seat) && !(0..region.geometry().members).any(is_alive) {
                sablecat_os::atomic::pause(LOOK_AGAIN);
            }
        }
        let others =
            (0..region.geometry().members).any(|n| n != region.number() && region.member(n).is_used());
        let healthy =
            || self.kernel.log.fail_if_poisoned().and_then(|()| self.kernel.pages.fail_if_poisoned());
        let left = if others { healthy() } else { self.end_region(region_path) };
        self.kernel.pages.participants.leave();
        region.leave();
        if let Some(membership) = region.membership() {
            membership.give_up();
        }
        drop(entrance);
        left
    }

    /// The last thing done with a shared environment. The region goes as soon as nothing hangs on it: a
    /// process that found it after the last checkpoint would log on behind a superblock which says that no
    /// log is needed, and in files that are not there any more. It stays where it is if the log could not be
    /// written out this time and nothing is lost: the next process that opens the environment has that done
    /// (env/files/left.rs).
    fn end_region(&self, path: &Path) -> Result<()> {
        let flushed = self.flush_log();
        // Somebody may have removed it; and where it was, there may be that of another environment, if this
        // one's directory was removed as well.
        if self.kernel.pages.region().is_at(path)? {
            match &flushed {
                Ok(()) => remove(path)?,
                Err(error) if error.kind() == ErrorKind::Poisoned => set_aside(path)?,
                Err(_) => {}
            }
        }
        flushed?;
        self.kernel.pages.fail_if_poisoned()?;
        self.leave_files()
    }

    /// Makes everything committed so far durable, unless the log is poisoned: then it is not known what the
    /// files have of it.
    pub(super) fn flush_log(&self) -> Result<()> {
        self.kernel.log.fail_if_poisoned()?;
        self.flush_log_to(self.kernel.log.tail())
    }
}

#[cfg(test)]
mod tests {
    use sablecat_os::disk::{Disk, How};
    use sablecat_os::sim::{Fault, SimDisk};

    use super::*;
    use crate::env::databases::Asked;
    use crate::env::tests::shared_place::SharedPlace;
    use crate::region::Work;
    use crate::txn::{Durability, RecordChange};

    const JOININGS: usize = 300;

    #[test]
    fn who_leaves_does_not_wait_for_who_was_stopped_while_it_mended() {
        let place = SharedPlace::new("leaving", &Arc::new(SimDisk::new(1)));
        let (stopped, leaving) = (place.open(), place.open());
        let region = &stopped.kernel.pages.region;
        // Somebody whose byte of the lock file nobody holds.
        region.member(9).begin();
        region.member(9).enter(1, None, "dead");
        let seat = stopped.kernel.pages.participants.sit().unwrap();
        let mending = region.role(Work::Reaping).try_take(seat.number()).unwrap();
        leaving.close().unwrap();
        assert!(region.member(9).is_used(), "left to who is at it");
        drop((mending, seat));
        stopped.close().unwrap();
    }

    /// What they read of the files is older than what the others have at any moment.
    #[test]
    fn who_comes_beside_checkpoints_joins() {
        let place = SharedPlace::new("beside", &Arc::new(SimDisk::new(1)));
        let core = place.open();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        std::thread::scope(|scope| {
            let coming = scope.spawn(|| (0..JOININGS).for_each(|_| place.open().close().unwrap()));
            while !coming.is_finished() {
                let put = RecordChange::Put(b"1");
                core.kernel.change_one(&records.tree, b"one", put, Durability::NoSync).unwrap();
                core.checkpoint(false).unwrap();
            }
        });
        drop(records);
        core.close().unwrap();
    }

    /// Killed between making a file for a large transaction and removing its name.
    #[test]
    fn a_file_that_a_killed_process_was_making_is_removed_by_who_comes_and_who_mends() {
        let disk = Arc::new(SimDisk::new(1));
        let place = SharedPlace::new("made", &disk);
        let first = place.open();
        let name = first.directory.as_ref().unwrap().join("sablecat.spill");
        let is_left = || disk.exists(&name).unwrap();
        let leave = || drop(disk.open(&name, How { create_new: true, ..How::default() }).unwrap());
        leave();
        let second = place.open();
        assert!(!is_left(), "after joining");
        leave();
        // As in the other test.
        let region = &first.kernel.pages.region;
        region.member(9).begin();
        region.member(9).enter(1, None, "dead");
        assert!(!first.kernel.reap(&first.kernel.pages.participants.sit().unwrap()));
        assert!(!is_left(), "after mending");
        [first, second].into_iter().for_each(|core| core.close().unwrap());
        leave();
        place.open().close().unwrap();
        assert!(!is_left(), "after opening");
    }

    /// The memory has what the files lack, and the next process finds it there.
    #[test]
    fn what_the_last_to_leave_could_not_write_out_is_not_lost() {
        let disk = Arc::new(SimDisk::new(1));
        let place = SharedPlace::new("refused", &disk);
        let core = place.open();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        for n in 0..200u8 {
            core.kernel
                .change_one(&records.tree, &[n], RecordChange::Put(&[7; 300]), Durability::NoSync)
                .unwrap();
        }
        drop(records);
        let tail = core.kernel.log.tail();
        disk.fail_at(disk.calls() + 1, Fault::DiskFull);
        assert_eq!(core.close().unwrap_err().kind(), ErrorKind::NotDurable);
        drop(core);
        let core = place.open();
        assert_eq!(core.recovery.end, tail);
        core.close().unwrap();
    }
}

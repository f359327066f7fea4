//! Shared environments: joining the processes that have one open, and leaving them.
//!
//! What the processes share lies in one file on a file system in memory, named after the directory's device and inode. Every process holds
//! a lock on a byte of its own in the environment's lock file, which says that it lives; entering and leaving happen one at a time under
//! another byte. A process that has the environment for itself holds the whole file locked.
//!
//! Who enters and finds a region of this environment, this build and this run of the machine attaches to it, whether or not anybody else is
//! there: if all were killed, what they had committed is in it, at whatever durability. Otherwise a new region is made and the
//! environment recovered from its files. The region gets its name only when that is done, so a half-made one is never found.
//!
//! Who leaves last flushes the log, removes the region, and writes a last checkpoint, in this order.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind as IoErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::liveness::LockFile;
use sablecat_os::{clock, machine};

use super::open::{LOCK, VOLUME, assemble, build_kernel, find_volume, geometry, log_memory, open_volume};
use super::recover::RecoveryReport;
use super::{Config, Core, Mode, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::volume::{Superblock, Volume};
use crate::region::{Identity, Membership, Region};

/// Where regions lie unless the configuration says otherwise.
const REGION_DIRECTORY: &str = "/dev/shm";
/// How long to wait for others to enter or leave, which takes as long as a recovery or a checkpoint.
const ATTACH_PATIENCE: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Opens an environment that other processes may have open.
pub(super) fn open_shared(directory: &Path, mut config: Config, mode: Mode) -> Result<Arc<Core>> {
    if mode == Mode::DataStore {
        return Err(Error::invalid("a Data Store has one handle; open the environment with transactions to share it"));
    }
    let volume_path = directory.join(VOLUME);
    let looking = |e| Error::io("looking into", directory, e);
    if !config.disk.exists(&volume_path).map_err(looking)? {
        find_volume(directory, &config)?;
    }
    let region_path = region_path(directory, &config)?;
    let entrance = Entrance::enter(&directory.join(LOCK), config.file_mode)?;

    // Looked for again: another may have made it while this one waited.
    let exists = config.disk.exists(&volume_path).map_err(looking)?;
    config.take_after(&volume_path)?;
    let boot = machine::boot_id();
    if exists {
        let superblock = Volume::look(&*config.disk, &volume_path)?;
        if let Some(file) = open_region(&region_path)? {
            match judge(file, &superblock, boot) {
                Ok(region) => {
                    let volume = Volume::join(&*config.disk, &volume_path, config.direct_io, false)?;
                    return join(directory, volume, entrance.admit(region)?, region_path, config, mode);
                }
                Err(why) if why.kind() == ErrorKind::Invalid => entrance.set_aside(&region_path, &why)?,
                Err(error) => return Err(error),
            }
        }
    }
    entrance.check_nobody_lives(&region_path, "its shared memory is not where it should be")?;
    find_volume(directory, &config)?;
    let volume = open_volume(exists, &volume_path, &config)?;
    // Who may write the volume may enter the environment.
    config.take_after(&volume_path)?;
    let superblock = volume.superblock();
    let identity = Identity { uuid: superblock.uuid, boot };
    let unfinished = beside(&region_path, ".new");
    let file = create_region(&unfinished, config.file_mode)?;
    let membership = entrance.first_member()?;
    let sizes = geometry(&config, superblock.page_size as usize, false).with_volumes(volume.count()).shared();
    let made = Region::create_shared(file, sizes, identity, membership)
        .and_then(|region| assemble(Some((directory, volume)), None, Some((region, region_path.clone())), config, mode));
    let core = match made {
        Ok(core) => core,
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
    };
    let region = &core.kernel.pages.region;
    enter(region);
    region.header().set_ready();
    fs::rename(&unfinished, &region_path).map_err(|e| Error::io("naming the shared memory", &region_path, e))?;
    core.watch_stalls();
    drop(entrance);
    Ok(core)
}

/// Where the region of the environment in a directory is, if there is one.
pub(super) fn region_path(directory: &Path, config: &Config) -> Result<PathBuf> {
    let metadata = fs::metadata(directory).map_err(|e| Error::io("looking at", directory, e))?;
    let region_directory = config.region_directory.clone().unwrap_or_else(|| PathBuf::from(REGION_DIRECTORY));
    Ok(region_directory.join(format!("sablecat-{:x}-{:x}", metadata.dev(), metadata.ino())))
}

/// The region of this environment, for this build, in this run of the machine.
///
/// # Errors
/// Invalid if it is anything else, saying what. Others say only that it could not be looked at: no reason to do without what is in it.
fn judge(file: File, superblock: &Superblock, boot: [u8; 16]) -> Result<Region> {
    let region = Region::attach(file, Identity { uuid: superblock.uuid, boot })?;
    let visible = region.header().visible();
    log_memory(&region).check(visible)?;
    // Somebody has had the environment for himself since, and the region knows nothing of what he did: the log has gone further than it ever did.
    let is_behind = superblock.checkpoint > visible || superblock.log_floor > visible;
    if is_behind || region.geometry().volumes != superblock.volume_count() {
        return Err(Error::invalid("the environment was used without it since"));
    }
    Ok(region)
}

/// Becomes one of those who have the environment open.
fn join(directory: &Path, volume: Volume, region: Region, region_path: PathBuf, config: Config, mode: Mode) -> Result<Arc<Core>> {
    let region = Arc::new(region);
    enter(&region);
    let journal = volume.superblock().journal;
    if config.journaling.over(journal.clone()) != journal {
        return Err(Error::new(
            ErrorKind::InUse,
            "others have the environment open, with another journal or none; change that when nobody else has it open",
        ));
    }
    if volume.is_news(&config.declared)? {
        return Err(Error::new(
            ErrorKind::InUse,
            "others have the environment open, or were killed, and know of other volumes or rules; declare them when nobody has it open: \
             if all were killed, open it and close it once without",
        ));
    }
    let kernel = build_kernel(Some(directory), Some(volume), &region, &config, (mode, journal.as_ref()))?;
    let place = Place { directory: Some(directory.to_path_buf()), lock: None, region: Some(region_path) };
    let core = Core::new(kernel, config, (mode, journal), RecoveryReport::default(), place);
    core.watch_stalls();
    {
        let seat = core.kernel.pages.participants.sit()?;
        core.kernel.reap(&seat);
    }
    core.start_housekeeping()?;
    Ok(core)
}

fn enter(region: &Region) {
    let command = fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    region.member(region.number()).enter(std::process::id(), command.trim());
}

/// The right to enter, or to leave: one process at a time has it, until dropped.
struct Entrance {
    path: PathBuf,
    file_mode: Option<u32>,
    lock: Membership,
}

impl Entrance {
    fn enter(path: &Path, file_mode: Option<u32>) -> Result<Entrance> {
        let entrance = Entrance { path: path.to_owned(), file_mode, lock: Membership::new(open_lock(path, file_mode)?, 0) };
        let end = clock::monotonic() + ATTACH_PATIENCE;
        while !entrance.lock.try_attach_lock().map_err(|e| Error::io("locking", path, e))? {
            if entrance.lock.whole_file_is_taken().map_err(|e| Error::io("asking after the locks of", path, e))? {
                return Err(taken_alone(path));
            }
            if clock::monotonic() >= end {
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!("{}: another process has been entering or leaving the environment for {ATTACH_PATIENCE:?}", path.display()),
                ));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(entrance)
    }

    /// The membership of a number, unless another process has it.
    fn try_member(&self, number: u16) -> Result<Option<Membership>> {
        let membership = Membership::new(open_lock(&self.path, self.file_mode)?, number);
        let taken = membership.take().map_err(|e| Error::io("locking", &self.path, e))?;
        Ok(taken.then_some(membership))
    }

    /// The membership of the first who enters.
    fn first_member(&self) -> Result<Membership> {
        self.try_member(0)?.ok_or_else(|| {
            Error::new(ErrorKind::InUse, format!("{}: processes have the environment open, but not its shared memory", self.path.display()))
        })
    }

    /// Makes this process a member.
    fn admit(&self, region: Region) -> Result<Region> {
        for number in (0..region.geometry().members).filter(|&number| !region.member(number).is_used()) {
            if let Some(membership) = self.try_member(number)? {
                return Ok(region.joined_as(membership));
            }
        }
        Err(Error::full(format!("{} processes have the environment open already", region.geometry().members)))
    }

    /// Refuses to go on beside processes whose region cannot be attached to.
    fn check_nobody_lives(&self, path: &Path, why: impl Display) -> Result<()> {
        if self.lock.anybody_lives().map_err(|e| Error::io("asking after the locks of", &self.path, e))? {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("{}: processes have the environment open in a way that this one cannot join: {why}", path.display()),
            ));
        }
        Ok(())
    }

    /// Puts a region that cannot be attached to out of the way. Nobody may be using it.
    fn set_aside(&self, path: &Path, why: &Error) -> Result<()> {
        self.check_nobody_lives(path, why)?;
        fs::rename(path, beside(path, ".aside")).map_err(|e| Error::io("setting aside", path, e))
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.lock.unlock_attach();
    }
}

/// The error of who finds the whole lock file locked.
pub(super) fn taken_alone(path: &Path) -> Error {
    Error::new(
        ErrorKind::InUse,
        format!("{}: a process has the environment open for itself alone; close it there, or open it shared in both", path.display()),
    )
}

/// The file of that name with something after it.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn open_lock(path: &Path, file_mode: Option<u32>) -> Result<LockFile> {
    LockFile::open(path, file_mode).map_err(|e| Error::io("opening", path, e))
}

fn open_region(path: &Path) -> Result<Option<File>> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == IoErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("opening the shared memory", path, e)),
    }
}

fn create_region(path: &Path, file_mode: Option<u32>) -> Result<File> {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(e) if e.kind() == IoErrorKind::NotFound => {}
        Err(e) => return Err(Error::io("removing what was left of", path, e)),
    }
    let io = |e| Error::io("creating the shared memory", path, e);
    // Nobody else's until it has the bits it is to have: its records are the files' records.
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    file_mode.map_or(Ok(()), |mode| file.set_permissions(fs::Permissions::from_mode(mode))).map_err(io)?;
    Ok(file)
}

impl Core {
    /// Has waits that take long look for the dead.
    fn watch_stalls(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.kernel.pages.region.when_stalled(move || {
            let Some(core) = core.upgrade() else { return };
            if let Ok(seat) = core.kernel.pages.participants.sit() {
                core.kernel.reap_now_and_then(&seat);
            }
        });
    }

    /// Leaves the others; the last one removes the region and writes a checkpoint.
    pub(super) fn detach(&self) -> Result<()> {
        let (Some(directory), Some(region_path)) = (&self.directory, &self.shared) else { return Ok(()) };
        let region = &self.kernel.pages.region;
        let entrance = Entrance::enter(&directory.join(LOCK), self.config.file_mode)?;
        {
            let seat = self.kernel.pages.participants.sit()?;
            while self.kernel.reap(&seat) {}
        }
        let others = (0..region.geometry().members).any(|n| n != region.number() && region.member(n).is_used());
        let left = if others { Ok(()) } else { self.end_region(region_path) };
        self.kernel.pages.participants.leave();
        region.member(region.number()).leave();
        if let Some(membership) = region.membership() {
            membership.give_up();
        }
        drop(entrance);
        left
    }

    /// The last thing done with a shared environment. The region goes as soon as nothing hangs on it: who found it after the last checkpoint
    /// would log on behind a superblock which says that no log is needed, and in files that are not there any more.
    fn end_region(&self, path: &Path) -> Result<()> {
        self.sync()?;
        fs::remove_file(path).map_err(|e| Error::io("removing the shared memory", path, e))?;
        self.checkpoint_and_remove_log()
    }
}

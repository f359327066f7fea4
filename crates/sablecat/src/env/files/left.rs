//! What is left of a shared environment whose processes were all killed: a region that nobody uses.
//!
//! It may have commits that are nowhere else: those that were not handed over to the operating system yet.
//! And it is a cache over files that anybody may have changed since the last process closed them: a backup
//! was put back, a snapshot of the file system, or an older state; or a process had the environment for
//! itself. To check against the files what its pages say of them would cost more than it is worth; to check
//! what its log says does not (log/rescue.rs). So no process goes on with such a region. The next process
//! that opens the environment, in whatever way, first
//!
//! ```text
//! has the rest of its log written to the files ─▶ removes it ─▶ recovers from the files
//! ```
//!
//! before anything else of the files is changed. If both copies of the last superblock are damaged, the
//! region has its bytes, and it is put back (pages/volume/lost.rs): what can be read is older, and the log
//! may not reach back that far. If region and files do not belong together it is *set aside*, and the files
//! are what counts: they were put there by somebody, or are all there is. So is one whose log is poisoned,
//! since it is not known what the files have of it, and one that cannot be read.
//!
//! Nobody enters meanwhile: the caller has the entrance, and nobody lives.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind as IoErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat_os::atomic::Ordering;
use sablecat_os::disk::File as DiskFile;
use sablecat_os::{machine, regular};

use super::entrance::Entrance;
use super::{LOCK, LOG, VOLUME, log_config, log_memory, take_lock};
use crate::env::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::pages::volume::{Superblock, Volume};
use crate::region::{DiskGuard, Region, RegionIdentity};
use crate::types::Berth;

/// Where regions lie unless the configuration says otherwise.
const REGION_DIRECTORY: &str = "/dev/shm";

/// Where the region of the environment in a directory is, if there is one.
pub(in crate::env) fn region_path(directory: &Path, config: &Config) -> Result<PathBuf> {
    let metadata = fs::metadata(directory).map_err(|e| Error::io("looking at", directory, e))?;
    let region_directory = config.region_directory.clone().unwrap_or_else(|| PathBuf::from(REGION_DIRECTORY));
    Ok(region_directory.join(format!("sablecat-{:x}-{:x}", metadata.dev(), metadata.ino())))
}

/// What a region of this environment, made since the machine was started, says of itself.
///
/// # Errors
/// Those of the system, which does not tell when that was: then nothing may be done about a region that is
/// there.
pub(in crate::env) fn this_boots(uuid: [u8; 16]) -> Result<RegionIdentity> {
    let boot = machine::boot_id().map_err(|e| Error::io("reading", Path::new(machine::BOOT_ID), e))?;
    Ok(RegionIdentity { uuid, boot })
}

/// The file of a region, if it is there.
pub(in crate::env) fn open_region(path: &Path) -> Result<Option<File>> {
    match regular::open(path, OpenOptions::new().read(true).write(true), 0) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == IoErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("opening the shared memory", path, e)),
    }
}

/// Takes the environment to this process alone, when nothing is left of the processes that shared it.
pub(in crate::env) fn take_alone(directory: &Path, config: &Config) -> Result<Arc<dyn DiskFile>> {
    if !directory.is_dir() {
        // On a disk that is not the machine's: nobody can share it.
        return take_lock(config, directory);
    }
    let region_path = region_path(directory, config)?;
    let unfinished = unfinished(&region_path);
    let is_left =
        || region_path.try_exists().map_err(|e| Error::io("looking for the shared memory", &region_path, e));
    loop {
        if (is_left()? || unfinished.exists())
            && let Some(entrance) = Entrance::enter_if_nobody_lives(&directory.join(LOCK), config.file_mode)?
        {
            end_what_is_left(&entrance, directory, &region_path, config)?;
        }
        let lock = take_lock(config, directory)?;
        // Others may have come and been killed in between.
        if !is_left()? {
            return Ok(lock);
        }
    }
}

/// Ends the region of processes that are all dead, if there is one: nothing that it has is lost, or it is set
/// aside.
pub(in crate::env) fn end_what_is_left(
    _nobody_enters: &Entrance,
    directory: &Path,
    region_path: &Path,
    config: &Config,
) -> Result<()> {
    // Killed while it made one. It knows nothing, and if it cannot be removed it is only in the way of a
    // process that makes another.
    let _ = remove(&unfinished(region_path));
    let Some(file) = open_region(region_path)? else { return Ok(()) };
    match rescue((file, region_path), directory, config) {
        Ok(()) => remove(region_path),
        Err(why) if matches!(why.kind(), ErrorKind::Invalid | ErrorKind::Poisoned) => set_aside(region_path),
        Err(error) => Err(error),
    }
}

/// Has what a region knows of the log and of the last checkpoint, and the files do not, written to them.
///
/// # Errors
/// Invalid if region and files do not belong together; Poisoned if the log is. Others say only that it could
/// not be done: no reason to do without what is in it.
fn rescue((file, region_path): (File, &Path), directory: &Path, config: &Config) -> Result<()> {
    let volume = directory.join(VOLUME);
    if !config.disk.exists(&volume).map_err(|e| Error::io("looking into", directory, e))? {
        return Err(Error::invalid("its environment is not there any more"));
    }
    let (found, encryption) = (Volume::look_closely(&*config.disk, &volume)?, config.encryption.as_ref());
    let keys = Volume::look_at_keys(&*config.disk, &volume, &found.superblock, encryption)?;
    let region = Arc::new(Region::attach((file, region_path), this_boots(found.superblock.uuid)?)?);
    let mut disk = Arc::clone(&config.disk);
    DiskGuard::before(&mut disk).watch(&region);
    // A process that was taken for dead and lives must commit nothing more behind what is read of the log
    // from here on.
    (0..region.geometry().members)
        .map(|number| region.member(number))
        .for_each(|member| _ = member.fence(member.incarnation().load(Ordering::SeqCst)));
    let memory = log_memory(&region);
    memory.check(region.header().visible())?;
    let generation = region.header().generation.0.load(Ordering::SeqCst);
    let lost = Superblock::lost(&found, generation, Berth::all().map(|berth| region.berths().draft(berth)));
    let superblock = lost.as_ref().unwrap_or(&found.superblock);
    if superblock.clean {
        return Err(Error::invalid("the environment was closed without it"));
    }
    let journal = superblock.journal.as_ref();
    let log = log_config(config, superblock.uuid, Some(directory), journal, keys);
    Log::open(Some(Arc::clone(&disk)), &directory.join(LOG), log, memory)?.rescue(superblock.log_position)?;
    // Nor is what was written all that it had, if it went away meanwhile.
    if region.look_whether_cut_short() {
        return Err(Error::cut_short());
    }
    // After the log, which tells whether these are the files.
    lost.map_or(Ok(()), |lost| Volume::put_back(&*disk, &volume, &lost, encryption))
}

/// Takes a region's name away. That somebody else has done so is no harm: what hung on it is in the files.
pub(in crate::env) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != IoErrorKind::NotFound => Err(Error::io("removing the shared memory", path, e)),
        _ => Ok(()),
    }
}

/// Puts a region that nobody may go on with out of the way.
pub(in crate::env) fn set_aside(path: &Path) -> Result<()> {
    match fs::rename(path, beside(path, ".aside")) {
        Err(e) if e.kind() != IoErrorKind::NotFound => Err(Error::io("setting aside", path, e)),
        _ => Ok(()),
    }
}

/// Where a region is while it is made.
pub(in crate::env) fn unfinished(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// The file of that name with something after it.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

//! What an environment has in its directory and beside it, whether or not it is open.
//!
//! ```text
//! <directory>/sablecat.lock   locked while processes have the environment open
//! <directory>/sablecat.db     the volume
//! <directory>/log/            log segments
//! <directory>/journal/        those that are kept although recovery does not need them any more
//! ```
//!
//! Here these are found, made and locked. Of processes that share it one at a time enters or leaves
//! (`entrance`); what they left that were all killed is ended (`left`); there may be older states to go back
//! to (`history`); and the directory may be one in memory, with an image elsewhere (`held`),
//! which it knows (`known`).

pub(in crate::env) mod entrance;
pub(in crate::env) mod held;
pub(in crate::env) mod history;
pub(in crate::env) mod known;
pub(in crate::env) mod left;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::disk::{File, How};

use crate::crypt::Keyring;
use crate::env::config::{Config, check_directory};
use crate::error::{Error, ErrorKind, Result};
use crate::log::{LogConfig, LogMemory, LogWords, Ring};
use crate::pages::volume::{Journal, Volume};
use crate::region::{LOG_WORDS_BYTES, Region};

pub(in crate::env) const VOLUME: &str = "sablecat.db";
pub(in crate::env) const LOCK: &str = "sablecat.lock";
pub(in crate::env) const LOG: &str = "log";
/// Segments kept for reuse, at most: as many as are used up between two checkpoints by default. Before the
/// later of these the log took that space as well, and what is used again need be neither made nor filled.
const SPARES_MAX: usize = 8;
/// A disk that takes longer than this for a step of making a segment has it made twice, which does no harm.
const SUPPLY_PATIENCE: Duration = Duration::from_millis(500);

const _: () = assert!(size_of::<LogWords>() <= LOG_WORDS_BYTES);

/// Whether there is a volume in the directory, which is there in either case afterwards; and where.
pub(in crate::env) fn find_volume(directory: &Path, config: &Config) -> Result<(bool, PathBuf)> {
    let disk = Arc::clone(&config.disk);
    let path = directory.join(VOLUME);
    let io = |tried: &'static str| move |e| Error::io(tried, directory, e);
    let exists = disk.exists(&path).map_err(io("looking into"))?;
    // What is held in memory is, though nothing may be there yet but an image.
    if !exists && !config.create && config.held.is_none() {
        return Err(none_in(directory));
    }
    if exists {
        // As above: the process that opened it last may have ended before the volume's name was durable.
        disk.sync_dir(directory).map_err(io("flushing the directory"))?;
    } else {
        if config.held.is_none() {
            // What is declared that cannot be leaves no directory behind.
            Volume::check_new(&path, config.codec()?, &config.declared)?;
        }
        make_directory(config, directory)?;
    }
    Ok((exists, path))
}

/// Where the volume of an environment is that is there already.
pub(in crate::env) fn existing_volume(directory: &Path, config: &Config) -> Result<PathBuf> {
    check_directory(directory)?;
    let path = directory.join(VOLUME);
    let exists = config.disk.exists(&path).map_err(|e| Error::io("looking into", directory, e))?;
    if exists { Ok(path) } else { Err(none_in(directory)) }
}

fn none_in(directory: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no environment in {}", directory.display()))
}

/// Opens the volume, or creates it. The caller is the only one to do so.
pub(in crate::env) fn open_volume(exists: bool, path: &Path, config: &Config) -> Result<Volume> {
    if exists {
        let (disk, encryption) = (&*config.disk, config.encryption.as_ref());
        return Volume::open_with(disk, path, config.direct_io, &config.declared, encryption);
    }
    let mut uuid = [0; 16];
    sablecat_os::random::bytes(&mut uuid);
    let how = (config.direct_io, config.encryption.as_ref());
    let mut volume = Volume::create_with(&*config.disk, path, config.codec()?, uuid, how)?;
    volume.add(&*config.disk, config.direct_io, &config.declared)?;
    Ok(volume)
}

/// Makes the directory, and makes its name last.
fn make_directory(config: &Config, directory: &Path) -> Result<()> {
    let disk = &config.disk;
    let io = |e| Error::io("creating the directory", directory, e);
    // The process that made the directory may have ended before its name was durable.
    let mut made = directory.parent().into_iter().collect::<Vec<_>>();
    let mut at = directory;
    while !disk.exists(at).map_err(io)? {
        let Some(parent) = at.parent() else { break };
        made.push(parent);
        at = parent;
    }
    disk.create_dir_all(directory).map_err(io)?;
    made.into_iter().try_for_each(|parent| disk.sync_dir(parent)).map_err(io)
}

pub(in crate::env) fn take_lock(config: &Config, directory: &Path) -> Result<Arc<dyn File>> {
    let path = directory.join(LOCK);
    let how = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
    let file = config.disk.open(&path, how).map_err(|e| Error::io("opening", &path, e))?;
    if file.try_lock().map_err(|e| Error::io("locking", &path, e))? {
        say_who(&*file);
        return Ok(file);
    }
    let who = match who_locked(&*file) {
        Some(number) if number == std::process::id() => "by another handle of this process".to_owned(),
        Some(number) => format!("in process {number} (if that is a number here)"),
        None => "in another process, or by another handle of this one".to_owned(),
    };
    Err(Error::new(
        ErrorKind::InUse,
        format!(
            "the environment in {} is open already, {who}; close it there first, or open it read-only",
            directory.display()
        ),
    ))
}

/// Bytes of what a lock file says of the process that locked it: its number and spaces.
const WHO_BYTES: usize = 12;

/// Writes into a locked file which process has locked it. It is for people: if it cannot be written nothing
/// is wrong.
fn say_who(file: &dyn File) {
    let number = format!("{:<WHO_BYTES$}", std::process::id());
    let _ = file.write_at(number.as_bytes(), 0);
}

/// The process that has locked a file, as the file says.
fn who_locked(file: &dyn File) -> Option<u32> {
    let mut text = [0; WHO_BYTES];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.trim_end().parse().ok()
}

/// Where a region has the log's words and ring. What is made of it must not outlive the region.
pub(in crate::env) fn log_memory(region: &Region) -> LogMemory {
    // SAFETY: the ring and the words lie in the region at the addresses and sizes the log asks for, are used
    // by nothing else, and live as long as the region, which its users hold beside this.
    unsafe {
        LogMemory::new(region.log_words().cast(), Ring::new(region.ring(), region.geometry().ring_bytes))
    }
}

/// How the log of an environment is kept.
pub(in crate::env) fn log_config(
    config: &Config,
    uuid: [u8; 16],
    directory: Option<&Path>,
    journal: Option<&Journal>,
    keys: Option<Arc<Keyring>>,
) -> LogConfig {
    LogConfig {
        keys,
        segment_bytes: config.log_segment_bytes,
        uuid,
        direct: true,
        sync_io: config.sync_io,
        spares_max: SPARES_MAX,
        patience: SUPPLY_PATIENCE,
        archive: directory.zip(journal).map(|(directory, journal)| directory.join(&journal.directory)),
    }
}

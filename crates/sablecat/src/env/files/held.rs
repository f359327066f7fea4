//! Environments that are held in memory: being put there, and being loaded from the image.
//!
//! ```text
//! <directory>/sablecat.memory   says where in memory the files are (env/config/held.rs)
//! <directory>/sablecat.db       the image: a main volume, closed (pages/volume/image.rs)
//! <directory>/sablecat.lock     locked while a process writes an image, or puts the environment into memory
//! <memory>/...                  files as of any environment, with the lock of processes that have it open
//! ```
//!
//! The directory is the environment's name, and outlives the memory. It leads a process that opens it to the
//! files. Where these are missing, as after a start of the machine, the first process that enters loads the
//! image; no other enters meanwhile. Files that are there are used, whatever the image has: an image is never
//! put over them.

use std::path::{Path, PathBuf};

use super::entrance::Entrance;
use super::known;
use super::{LOCK, LOG, VOLUME, make_directory, none_in, open_volume};
use crate::env::config::{Config, EnvMode, HELD_NAME, HeldEnvironment, Journaling};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::volume::{Superblock, Volume};

impl HeldEnvironment {
    /// Where the image is.
    pub(in crate::env) fn image(&self) -> PathBuf {
        self.directory.join(VOLUME)
    }

    /// Waits for a process that writes an image, and keeps others from writing one.
    pub(in crate::env) fn enter(&self, config: &Config) -> Result<Entrance> {
        Entrance::enter(&self.directory.join(LOCK), config.file_mode)
    }

    /// The superblock of the image; none if there is no image.
    ///
    /// # Errors
    /// `Invalid` if it is of another environment; those of reading it.
    pub(in crate::env) fn look_at_image(&self, config: &Config) -> Result<Option<Superblock>> {
        let image = self.image();
        if !config.disk.exists(&image).map_err(|e| Error::io("looking for", &image, e))? {
            return Ok(None);
        }
        let newest = Volume::look_closely(&*config.disk, &image)?;
        self.check_image(&newest.superblock)?;
        if newest.in_doubt {
            return Err(Error::corruption(format!(
                "{}: the image is damaged: {}",
                image.display(),
                newest.complaints.join("; ")
            )));
        }
        Volume::check_length_of_image(&*config.disk, &image, &newest.superblock)?;
        Ok(Some(newest.superblock))
    }

    /// That a superblock is that of an image of this environment.
    fn check_image(&self, superblock: &Superblock) -> Result<()> {
        let refuse = |why: &str| {
            Err(Error::invalid(format!(
                "{} is {why} than {} names; put the right file there",
                self.image().display(),
                self.directory.join(HELD_NAME).display()
            )))
        };
        if superblock.uuid != self.uuid {
            return refuse("the image of another environment");
        }
        if has_more_than_an_image(superblock) {
            return refuse("another kind of volume, which keeps a journal, or has other volumes,");
        }
        Ok(())
    }

    /// That a superblock is that of the files in memory of this environment.
    fn check_files(&self, superblock: &Superblock) -> Result<()> {
        let refuse = |why: &str| {
            Err(Error::invalid(format!(
                "{} has another environment than the one in {}, which should be held there{why}: move one \
                 of them",
                self.memory.display(),
                self.directory.display()
            )))
        };
        if superblock.uuid != self.uuid {
            return refuse("");
        }
        if has_more_than_an_image(superblock) {
            return refuse(", and which neither keeps a journal, nor has other volumes");
        }
        Ok(())
    }

    /// That the directory in memory is not that by which the environment is named: the image would take the
    /// place of the volume that it was made of.
    fn check_directories(&self, config: &Config) -> Result<()> {
        let looking = |path: &Path, e| Error::io("looking at", path, e);
        let id = |path: &Path| {
            let is_there = config.disk.exists(path).map_err(|e| looking(path, e))?;
            if is_there { config.disk.id(path).map_err(|e| looking(path, e)) } else { Ok(None) }
        };
        let are_one = self.memory == self.directory
            || id(&self.memory)?.zip(id(&self.directory)?).is_some_and(|(one, other)| one == other);
        if are_one {
            return Err(Error::invalid(format!(
                "the environment in {} cannot be held in {}, which is the directory for its image",
                self.directory.display(),
                self.memory.display()
            )));
        }
        Ok(())
    }
}

/// Whether there is something of which an image has nothing.
fn has_more_than_an_image(superblock: &Superblock) -> bool {
    superblock.journal.is_some() || !superblock.epochs.is_empty() || superblock.volume_count() > 1
}

/// Where the files are of an environment that was located: as it is held in memory, or is to be from now on.
///
/// # Errors
/// `Invalid` for what cannot be held in memory, or is so elsewhere; `InUse` and `Invalid` if an environment
/// that is there cannot be put into memory as it is; those of the disk.
pub(in crate::env) fn settle(directory: PathBuf, config: &mut Config, mode: EnvMode) -> Result<PathBuf> {
    let mut files = directory;
    if let Some(memory) = config.memory.clone().filter(|_| !config.read_only) {
        if config.held.is_none() {
            check_settings(config, mode)?;
            let held = put_into_memory(&files, &memory, config)?;
            files = held.memory.clone();
            config.held = Some(held);
        }
        let held = config.held.as_ref().expect("it is held");
        if held.memory != memory {
            return Err(Error::invalid(format!(
                "the environment in {} is held in {}, and cannot be in {}",
                held.directory.display(),
                held.memory.display(),
                memory.display()
            )));
        }
    }
    let Some(held) = &config.held else { return Ok(files) };
    check_settings(config, mode)?;
    held.check_directories(config)?;
    if !config.read_only {
        // The process looks at them when it has entered.
        return Ok(files);
    }
    let volume = files.join(VOLUME);
    if config.disk.exists(&volume).map_err(|e| Error::io("looking for", &volume, e))? {
        held.check_files(&Volume::look(&*config.disk, &volume)?)?;
        return Ok(files);
    }
    // A read-only process reads the image, until another process loads it.
    held.look_at_image(config)?;
    Ok(held.directory.clone())
}

/// Refuses what an environment in memory cannot have: more than one file, and more than one checkpoint.
fn check_settings(config: &Config, mode: EnvMode) -> Result<()> {
    let refused = if mode == EnvMode::DataStore {
        "a Data Store"
    } else if matches!(config.journaling, Journaling::On(_)) {
        "a journal"
    } else if !config.declared.volumes.is_empty() {
        "other volumes"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "an environment that is held in memory cannot have {refused}: its image would not include that"
    )))
}

/// Says that the environment of a directory is held in memory from now on. One that is there becomes the
/// first image; where there is none, an empty one does. Nothing is changed if there are files in memory
/// already: they would be gone on with, in the place of what the image has.
fn put_into_memory(directory: &Path, memory: &Path, config: &Config) -> Result<HeldEnvironment> {
    let image = directory.join(VOLUME);
    let looking = |e| Error::io("looking into", directory, e);
    if !config.create && !config.disk.exists(&image).map_err(looking)? {
        return Err(none_in(directory));
    }
    let mut held =
        HeldEnvironment { directory: directory.to_owned(), memory: memory.to_owned(), uuid: [0; 16] };
    held.check_directories(config)?;
    let mut config = config.clone();
    config.take_after(&image)?;
    make_directory(&config, directory)?;
    let entrance = Entrance::enter(&directory.join(LOCK), config.file_mode)?;
    if let Some(held) = HeldEnvironment::find(&*config.disk, directory)? {
        // By another, just now.
        return Ok(held);
    }
    if entrance.anybody_lives()? {
        return Err(Error::new(
            ErrorKind::InUse,
            format!(
                "processes have the environment in {} open; to hold it in memory, close it everywhere first",
                directory.display()
            ),
        ));
    }
    // What cannot be made, or is had by another, is not written down as the place of this one.
    make_directory(&config, memory)?;
    let volume = memory.join(VOLUME);
    let has_volume = config.disk.exists(&volume).map_err(|e| Error::io("looking for", &volume, e))?;
    if has_volume || has_log(&config, &memory.join(LOG))? {
        return Err(Error::invalid(format!(
            "{} has files of an environment already; to hold the one in {} there, remove them, or choose \
             another directory in memory",
            memory.display(),
            directory.display()
        )));
    }
    let is_there = config.disk.exists(&image).map_err(looking)?;
    let superblock = if is_there {
        Volume::look(&*config.disk, &image)?
    } else {
        open_volume(false, &image, &config)?.superblock()
    };
    let refuse = |why: &str| {
        Err(Error::invalid(format!(
            "the environment in {} cannot be held in memory: {why}",
            directory.display()
        )))
    };
    if !superblock.clean {
        return refuse("it was not closed; open it once without that setting, and close it");
    }
    if has_more_than_an_image(&superblock) {
        return refuse("it keeps a journal, or has other volumes");
    }
    held.uuid = superblock.uuid;
    held.write(&*config.disk)?;
    Ok(held)
}

/// Sees to it that the files in a directory are those of an environment that is held there, and loads the
/// image if they are not there. The caller has the environment to himself, or, if `nobody_lives` is not so,
/// is about to join others.
///
/// # Errors
/// `InUse` if the environment was put into memory since it was located; `Invalid` and `Corruption` if files
/// and image do not belong together; `NotFound` if there are neither; those of the disk.
pub(in crate::env) fn make_ready(directory: &Path, config: &Config, nobody_lives: bool) -> Result<()> {
    let Some(held) = &config.held else {
        let name = directory.join(HELD_NAME);
        let is_held = config.disk.exists(&name).map_err(|e| Error::io("looking for", &name, e))?;
        return if is_held {
            Err(Error::new(
                ErrorKind::InUse,
                format!(
                    "the environment in {} was put into memory just now; open it again",
                    directory.display()
                ),
            ))
        } else {
            Ok(())
        };
    };
    let volume = directory.join(VOLUME);
    let looking = |e| Error::io("looking into", directory, e);
    if !config.disk.exists(&volume).map_err(looking)? {
        return if nobody_lives { load(held, directory, config) } else { Ok(()) };
    }
    let there = Volume::look(&*config.disk, &volume)?;
    held.check_files(&there)?;
    // A damaged image is replaced by the next.
    let image = held
        .look_at_image(config)
        .or_else(|error| if error.is_corruption() { Ok(None) } else { Err(error) })?;
    if let Some(image) = image.filter(|image| nobody_lives && image.generation > there.generation) {
        return Err(Error::invalid(format!(
            "the image {} is newer (checkpoint {}) than the files in {} (checkpoint {}): the files in one \
             of the two were replaced; to load the image, remove the files in memory",
            held.image().display(),
            image.generation,
            directory.display(),
            there.generation
        )));
    }
    Ok(())
}

/// Whether there is anything of a log in its directory.
fn has_log(config: &Config, log: &Path) -> Result<bool> {
    let looking = |e| Error::io("looking into", log, e);
    Ok(config.disk.exists(log).map_err(looking)? && !config.disk.list(log).map_err(looking)?.is_empty())
}

/// Puts the files of the image into memory.
fn load(held: &HeldEnvironment, directory: &Path, config: &Config) -> Result<()> {
    let (image, log) = (held.image(), directory.join(LOG));
    let Some(superblock) = held.look_at_image(config)? else {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "the files of the environment in {} are not in {}, and there is no image of them: put {} \
                 back",
                held.directory.display(),
                directory.display(),
                image.display()
            ),
        ));
    };
    if !superblock.clean {
        return Err(Error::invalid(format!(
            "{} is not an image, but a volume that was used where it is; to go on with it there, move {} \
             away",
            image.display(),
            held.directory.join(HELD_NAME).display()
        )));
    }
    if has_log(config, &log)? {
        return Err(Error::corruption(format!(
            "{} has a log, and the volume it belongs to is gone; what was committed since the last image \
             may be in it. Put the volume back, or remove the log to go on from the image",
            directory.display()
        )));
    }
    known::know(&*config.disk, directory, &[&superblock], &image)?;
    Volume::load_image(&*config.disk, &image, &superblock, &directory.join(VOLUME))
}

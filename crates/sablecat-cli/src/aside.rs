//! A directory that is made aside and moved to its place when it is whole: a process that is killed on the
//! way leaves nothing there that could be taken for it.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Failure;

/// In the directory aside: locked by the process that is at work in it; the system unlocks it when that
/// process ends.
const LOCK: &str = "lock";
/// What is made there.
const MADE: &str = "made";

/// Where a directory is made, beside its place. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Aside {
    place: PathBuf,
    aside: PathBuf,
    _lock: File,
}

impl Aside {
    /// To make what is to be at `place`, where nothing is yet but perhaps an empty directory. What a killed
    /// process left aside is removed.
    ///
    /// # Errors
    /// If something is there; if another is making it; those of the file system.
    pub(crate) fn new(place: &Path) -> Result<Aside, Failure> {
        let shown = place.display();
        let place = std::path::absolute(place)?;
        match fs::read_dir(&place) {
            Ok(mut entries) => match entries.next().transpose()? {
                None => {}
                Some(_) => {
                    return Err(format!(
                        "{shown} exists and is not empty: name a directory that does not exist, or remove it"
                    )
                    .into());
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("looking for {shown}: {error}").into()),
        }
        let name = place.file_name().ok_or_else(|| format!("{shown} has no name to make it under"))?;
        let aside = place.with_file_name([name, ".unfinished".as_ref()].into_iter().collect::<OsString>());
        let lock = lock(&aside)?;
        let made = Aside { place, aside, _lock: lock };
        made.clear()
            .map_err(|error| format!("removing what is left in {}: {error}", made.aside.display()))?;
        Ok(made)
    }

    /// Where it is to be made meanwhile; not there yet.
    pub(crate) fn path(&self) -> PathBuf {
        self.aside.join(MADE)
    }

    /// Moves it to its place. Durable when this returns, if what is in it is.
    ///
    /// # Errors
    /// Those of the file system; if something is at its place by now.
    pub(crate) fn put(self) -> Result<(), Failure> {
        let moved = fs::rename(self.path(), &self.place);
        moved
            .map_err(|error| format!("moving the finished directory to {}: {error}", self.place.display()))?;
        if let Some(parent) = self.place.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // What cannot be removed now is removed the next time. The lock last: until then nobody else comes.
        let _ = self.clear();
        let _ = fs::remove_file(self.aside.join(LOCK));
        let _ = fs::remove_dir(&self.aside);
    }
}

/// Locks a directory, which is made if it is not there.
fn lock(aside: &Path) -> Result<File, Failure> {
    let shown = aside.display();
    loop {
        fs::create_dir_all(aside).map_err(|error| format!("making the directory {shown}: {error}"))?;
        let path = aside.join(LOCK);
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let file = match opened {
            // Somebody has just finished.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.map_err(|error| format!("opening {}: {error}", path.display()))?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(format!("another process works in {shown}: wait until it has ended").into());
            }
            locked => locked.map_err(|error| format!("locking {}: {error}", path.display()))?,
        }
        // Not one that was removed meanwhile.
        if fs::metadata(&path).is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino())) {
            return Ok(file);
        }
    }
}

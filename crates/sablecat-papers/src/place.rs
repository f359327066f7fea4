//! A directory for the environments of one run, gone when the run is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine;

/// A new directory; it and everything in it is removed on drop.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    /// A directory below `parent`, which is created if it is missing.
    pub(crate) fn below(parent: &Path) -> io::Result<Place> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(parent)?;
        loop {
            // Relaxed: the number only has to be another one each time.
            let name =
                format!("sablecat-papers-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Place { path }),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory on a file system that is kept in memory.
///
/// # Errors
/// A sentence, when there is none.
pub(crate) fn in_memory() -> Result<Place, String> {
    const MEMORY: &str = "/dev/shm";
    if !machine::is_in_memory(Path::new(MEMORY)) {
        return Err(format!("{MEMORY} is not kept in memory"));
    }
    Place::below(Path::new(MEMORY)).map_err(|error| format!("{MEMORY}: {error}"))
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody is left to be told, and what remains is in a directory for temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}

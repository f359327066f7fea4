//! Closing descriptors behind the back of who has them, as programs do that close all there are.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

/// Closes every descriptor of this process for the file at this path, and says how many there were.
///
/// # Errors
/// Those of finding out which there are.
///
/// # Safety
/// Whoever has one of them does not use its number again but to be told that it is none.
pub unsafe fn close_of(path: &Path) -> io::Result<usize> {
    let (path, mut closed) = (fs::canonicalize(path)?, 0);
    for entry in fs::read_dir("/proc/self/fd")?.collect::<io::Result<Vec<_>>>()? {
        let is_it = fs::read_link(entry.path()).is_ok_and(|target| target == path);
        let number = entry.file_name().to_str().and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|_| is_it) {
            // SAFETY: the descriptor is open; what comes of it is on the caller.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
            closed += 1;
        }
    }
    Ok(closed)
}

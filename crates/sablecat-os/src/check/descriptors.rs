//! Doing things with descriptors behind the back of the code that has them: closing them, as programs do that
//! close all there are, or ending the locks that they hold, as the system does when a process is killed.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Closes every descriptor of this process for the file at this path, and says how many there were. The locks
/// on it end at once: a program that another thread is starting has copies until it executes, with which
/// closing alone would end them some time later.
///
/// # Errors
/// Those of finding out which there are, and of ending locks.
///
/// # Safety
/// Code that has one of them does not use its number again but to be told that it is none.
pub unsafe fn close_of(path: &Path) -> io::Result<usize> {
    let open = of(path)?;
    for &number in &open {
        unlock(number)?;
        // SAFETY: the descriptor is open; what comes of it is on the caller.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(open.len())
}

/// The descriptors of this process for the file at this path.
///
/// # Errors
/// Those of finding out which there are.
pub fn of(path: &Path) -> io::Result<Vec<RawFd>> {
    let (path, mut found) = (fs::canonicalize(path)?, Vec::new());
    for entry in fs::read_dir("/proc/self/fd")?.collect::<io::Result<Vec<_>>>()? {
        let is_it = fs::read_link(entry.path()).is_ok_and(|target| target == path);
        let number = entry.file_name().to_str().and_then(|number| number.parse().ok());
        found.extend(number.filter(|_: &RawFd| is_it));
    }
    Ok(found)
}

/// Ends the locks that belong to what a descriptor has open; it stays open.
///
/// # Errors
/// Those of the system.
pub fn unlock(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: all fields of the structure are integers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_UNLCK as _;
    lock.l_whence = libc::SEEK_SET as _;
    // SAFETY: the command reads the structure during the call only. To a number that is no descriptor the
    // system says so.
    if unsafe { libc::fcntl(descriptor, libc::F_OFD_SETLK, &lock) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

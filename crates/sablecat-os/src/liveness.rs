//! Telling the living from the dead: byte locks that the kernel lets go of when their holder ends.
//!
//! Each member of a group holds the lock on a byte of its own in one file. The locks are those of an *open
//! file description* (Linux 3.15, and POSIX.1-2024): the kernel releases them when the last descriptor of the
//! description is closed, so also at SIGKILL, for a zombie as well, whatever has become of the process
//! number, and across namespaces of process numbers. Asking after another's lock costs 0.3 us.
//!
//! A child made by fork inherits the descriptor, and with it would keep its dead parent's lock alive. So
//! [`LockFile`]s are given up in the child at once ([`crate::fork`]).

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{fork, regular};

/// Bytes of a note, with the spaces after it.
const NOTE_BYTES: usize = 256;

/// A file whose bytes are locks.
#[derive(Debug)]
pub struct LockFile {
    given_up_by_children: Option<fork::GivenUp>,
    file: ManuallyDrop<File>,
    lost: AtomicBool,
}

/// The holder of a lock that was asked after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// Nobody, or the asker.
    Nobody,
    /// Another, which has locked that byte, or a stretch of bytes.
    Byte,
    /// Another, which has locked the file to its end, however long it becomes.
    Whole,
}

impl LockFile {
    /// Opens the file at `path`, creating it if need be: with exactly the permission bits that are given, if
    /// some are. Two openings are two holders, also within one process.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path, mode: Option<u32>) -> io::Result<LockFile> {
        let how = OpenOptions::new().read(true).write(true).clone();
        let file = match regular::open(path, how.clone().create_new(true), 0) {
            Ok(file) => {
                mode.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode)))?;
                file
            }
            // Also where one may not make files.
            Err(made) => regular::open(path, &how, 0)
                .map_err(|error| if error.kind() == io::ErrorKind::NotFound { made } else { error })?,
        };
        LockFile::over(file)
    }

    /// Opens the file at `path` to ask after locks: it need only be readable. Nothing can be locked.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_to_ask(path: &Path) -> io::Result<LockFile> {
        LockFile::over(regular::open(path, OpenOptions::new().read(true), 0)?)
    }

    fn over(file: File) -> io::Result<LockFile> {
        let given_up_by_children = Some(fork::GivenUp::new(file.as_raw_fd())?);
        Ok(LockFile { given_up_by_children, file: ManuallyDrop::new(file), lost: AtomicBool::new(false) })
    }

    /// Somebody has closed the descriptor. Its number may be another file's by now: it will not be closed
    /// again.
    pub fn lose(&self) {
        // Relaxed: the thread that drops the file has it for itself.
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Locks a byte unless another has it. True if it is this holder's now.
    ///
    /// # Errors
    /// Those of the system.
    pub fn try_lock(&self, byte: u64) -> io::Result<bool> {
        match self.command(libc::F_OFD_SETLK, libc::F_WRLCK, byte) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets go of a byte.
    ///
    /// # Errors
    /// Those of the system.
    pub fn unlock(&self, byte: u64) -> io::Result<()> {
        self.command(libc::F_OFD_SETLK, libc::F_UNLCK, byte).map(|_| ())
    }

    /// Which other holder has a lock on a byte.
    ///
    /// # Errors
    /// Those of the system.
    pub fn holder(&self, byte: u64) -> io::Result<Holder> {
        let found = self.command(libc::F_OFD_GETLK, libc::F_WRLCK, byte)?;
        Ok(match i32::from(found.l_type) {
            libc::F_UNLCK => Holder::Nobody,
            _ if found.l_len == 0 => Holder::Whole,
            _ => Holder::Byte,
        })
    }

    /// Whether anybody else has a lock on a byte from this one on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_any_held_from(&self, byte: u64) -> io::Result<bool> {
        Ok(i32::from(self.stretch(libc::F_OFD_GETLK, libc::F_WRLCK, byte, 0)?.l_type) != libc::F_UNLCK)
    }

    /// Leaves a note in the file, in place of the one that is there: for people, and nothing hangs on it. It
    /// is lost if there is no room for it, and takes no more room than the first one did.
    pub fn leave_note(&self, note: &str) {
        let mut bytes = [b' '; NOTE_BYTES];
        bytes.iter_mut().zip(note.bytes()).for_each(|(place, byte)| *place = byte);
        let _ = self.file.write_all_at(&bytes, 0);
    }

    /// The note in the file.
    #[must_use]
    pub fn note(&self) -> String {
        let mut bytes = [0; NOTE_BYTES];
        let read = self.file.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).trim_end().to_owned()
    }

    fn command(&self, command: i32, kind: i32, byte: u64) -> io::Result<libc::flock> {
        self.stretch(command, kind, byte, 1)
    }

    /// A command on `len` bytes; 0: to the end of the file, however long it becomes.
    fn stretch(&self, command: i32, kind: i32, byte: u64, len: i64) -> io::Result<libc::flock> {
        // SAFETY: all fields of the structure are integers, for which zero is a value.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as _;
        lock.l_whence = libc::SEEK_SET as _;
        lock.l_start = i64::try_from(byte).map_err(|_| io::ErrorKind::InvalidInput)?;
        lock.l_len = len;
        loop {
            // SAFETY: the descriptor is open, and the command reads and writes the structure during the call
            // only.
            let answer = unsafe { libc::fcntl(self.file.as_raw_fd(), command, &mut lock) };
            match (answer, io::Error::last_os_error()) {
                // By a signal: so a file system may answer that asks another machine.
                (-1, error) if error.kind() == io::ErrorKind::Interrupted => {}
                (-1, error) => return Err(error),
                _ => return Ok(lock),
            }
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Before the file, so that a descriptor number is forgotten before it can be another's.
        self.given_up_by_children = None;
        if !self.lost.load(Ordering::Relaxed) {
            // A program that another thread is starting has a copy of the descriptor until it executes, with
            // which closing alone would not end the locks. Should it fail, the end of the last copy does it.
            let _ = self.stretch(libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0);
            // SAFETY: the file is not used again.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

/// Whether a process is seen to be stopped, by a signal or a debugger. False where that cannot be seen: of
/// the number of a process elsewhere, of one frozen with its group, without `/proc`. Not to be relied upon:
/// the number may be another process's by now.
#[must_use]
pub fn is_stopped(process: u32) -> bool {
    // The command stands in parentheses and may hold anything, so the state is what follows the last of them.
    let stat = std::fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 2));
    matches!(state, Some(b'T' | b't'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_one_holder_and_others_see_it() {
        let path = std::env::temp_dir().join(format!("sablecat-liveness-{}", std::process::id()));
        let (one, two) =
            (LockFile::open(&path, Some(0o600)).unwrap(), LockFile::open(&path, Some(0o600)).unwrap());
        assert!(one.try_lock(7).unwrap());
        assert!(!two.try_lock(7).unwrap());
        assert!(two.try_lock(8).unwrap());
        assert_eq!(two.holder(7).unwrap(), Holder::Byte);
        assert_eq!(one.holder(7).unwrap(), Holder::Nobody, "one's own lock is in nobody's way");
        one.unlock(7).unwrap();
        assert_eq!(two.holder(7).unwrap(), Holder::Nobody);
        drop(two);
        assert_eq!(one.holder(8).unwrap(), Holder::Nobody, "closing lets go");
        std::fs::remove_file(&path).unwrap();
    }

    /// As a process has it that is being started, which is not told of being a child.
    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_locks() {
        let path = std::env::temp_dir().join(format!("sablecat-liveness-copy-{}", std::process::id()));
        let (one, two) =
            (LockFile::open(&path, Some(0o600)).unwrap(), LockFile::open(&path, Some(0o600)).unwrap());
        assert!(one.try_lock(3).unwrap() && one.try_lock(900).unwrap());
        let copy = one.file.try_clone().unwrap();
        drop(one);
        assert!(!two.is_any_held_from(0).unwrap());
        drop(copy);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_child_does_not_keep_its_parents_lock() {
        let path = std::env::temp_dir().join(format!("sablecat-liveness-fork-{}", std::process::id()));
        let (one, two) =
            (LockFile::open(&path, Some(0o600)).unwrap(), LockFile::open(&path, Some(0o600)).unwrap());
        assert!(one.try_lock(3).unwrap());
        let (mut born, birth) = std::io::pipe().unwrap();
        // SAFETY: the child calls nothing but functions that are safe after fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the byte is there, and the descriptor is open.
            unsafe {
                libc::write(birth.as_raw_fd(), [1u8].as_ptr().cast(), 1);
                libc::pause();
                libc::_exit(0);
            }
        }
        std::io::Read::read_exact(&mut born, &mut [0]).unwrap();
        drop(one);
        assert_eq!(two.holder(3).unwrap(), Holder::Nobody);
        // SAFETY: our own child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        std::fs::remove_file(&path).unwrap();
    }
}

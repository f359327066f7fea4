//! Storage: files and directories behind two small traits, so that a test can put a disk of its own in.
//!
//! [`HostDisk`] is the machine's; [`crate::sim::SimDisk`] is made of memory and breaks on request. What both
//! promise:
//!
//! | done by | survives the process | survives the power |
//! |---|---|---|
//! | [`File::write_at`], [`File::punch`], [`Window::write`] | yes | once [`File::sync`] has returned |
//! | [`File::write_at`] to a file opened [`How::durable`] | yes | yes |
//! | creating, renaming, removing | yes | once [`Disk::sync_dir`] of the directory it is in has returned |
//!
//! Before that a power failure may keep any part of it, in any order. After a failed sync nothing is known
//! about what was written before it, and syncing again does not help: the system may have dropped the data
//! and marked it clean.
//!
//! Every call waits for the system and may be made from any thread; calls that overlap in bytes give those
//! bytes in either order. Nothing here buffers.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod aligned;
pub mod between;
mod host;

pub use aligned::AlignedBuf;
pub use host::HostDisk;

/// What addresses, lengths and offsets of direct transfers are a multiple of, at least. Devices may ask for
/// more; an [`AlignedBuf`] and offsets in multiples of 4096 satisfy all.
pub const DIRECT_ALIGNMENT: usize = 512;

/// How to open a file. By default one that exists, to read and write, through the system's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Make an empty file if there is none.
    pub create: bool,
    /// Make an empty file, and fail with `AlreadyExists` if there is one.
    pub create_new: bool,
    /// Do not write: the file system may be mounted so that one cannot. Making a file this way is
    /// `InvalidInput`.
    pub read_only: bool,
    /// Bypass the system's cache where the file system can: see [`File::is_direct`].
    pub direct: bool,
    /// Every write is durable when it returns, as if [`File::sync`] had followed it, for its own bytes alone.
    /// Not stores through a window.
    pub durable: bool,
}

/// Whose a file is, by the system's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Of the user.
    pub user: u32,
    /// Of the group.
    pub group: u32,
}

/// Which file it is, whatever it is called: no two files have the same at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The file system.
    pub device: u64,
    /// The file's number in it.
    pub number: u64,
}

/// A place where files are.
///
/// Paths are as the system takes them; a name is whatever UTF-8 the caller likes.
///
/// # Errors
/// Every method answers with the system's error. The kinds worth telling apart are `NotFound`,
/// `AlreadyExists`, `PermissionDenied` and `StorageFull`.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file. Making one is not durable until the directory is synced.
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>>;

    /// Makes a directory and those it is in, unless they exist. Durable once the directory each is in is
    /// synced.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, of files and directories, sorted. Names that are not UTF-8 are left out:
    /// they are not ours.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Gives a file a new name, in one step: a reader finds the old state or the new one. A file that had the
    /// new name is gone. Durable once the directory of the new name is synced, and that of the old name if it
    /// is another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// As [`Disk::rename`], but fails with `AlreadyExists` if there is a file of the new name: of two callers
    /// that give it, one does. On a file system that can neither do that in one step nor give a file a second
    /// name, it is looked whether there is one first.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file's name away. Processes that have the file open keep it.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Whether there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Makes what was created, renamed and removed in a directory durable. The empty path is the current
    /// directory.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Bytes that may still be written to the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Which users may read and write a file: the nine bits that `chmod` changes. None on a disk that has no
    /// such thing.
    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        let _ = path;
        Ok(None)
    }

    /// Whose a file is. None on a disk that has no such thing.
    fn owner(&self, path: &Path) -> io::Result<Option<Owner>> {
        let _ = path;
        Ok(None)
    }

    /// Which file it is that has a name at present. None on a disk that cannot tell.
    fn id(&self, path: &Path) -> io::Result<Option<FileId>> {
        let _ = path;
        Ok(None)
    }

    /// Whether what has the name, or what symbolic links lead to from there, is a regular file: no directory,
    /// device or FIFO. On a disk that has only files it is.
    fn is_regular(&self, path: &Path) -> io::Result<bool> {
        let _ = path;
        Ok(true)
    }

    /// Where a symbolic link leads, as it says; none if what has the name is something else, or nothing has
    /// it, and on a disk that has no such links.
    fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let _ = path;
        Ok(None)
    }

    /// The path by which the same file is found whatever becomes the current directory. `InvalidInput` for an
    /// empty one.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    /// The same disk, on which every file that is made gets exactly these bits, and every directory the same,
    /// with the right to look files up for users that may read them. None as for [`Disk::mode`].
    fn with_mode(&self, mode: u32) -> Option<Arc<dyn Disk>> {
        let _ = mode;
        None
    }
}

/// An open file. Closed, and its lock released, when the last reference goes.
///
/// # Errors
/// As for [`Disk`]. After an error in a write any part of the bytes may have been written.
pub trait File: Send + Sync + Debug {
    /// Reads as much as there is: the answer is less than the buffer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all the bytes or answers with an error. The file grows if it must; a gap reads as zero.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Writes one buffer behind another, all or an error. Cheaper than a call each.
    fn write_all_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable. Not the name: see [`Disk::sync_dir`].
    fn sync(&self) -> io::Result<()>;

    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are none.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file off, or extends it by zeros that take no space.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Takes space for a range, so that writing to it does not run out of space later. The file extends at
    /// least to the end of the range afterwards, the new bytes zero. Where a file system cannot reserve space
    /// zeros are written; where not even that, nothing is done. Others may make it longer and write to it at
    /// the same time: nothing of theirs is lost.
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Whether a range that reads as zeros is as ready to be written to, once it is
    /// [preallocated](File::preallocate), as one to which zeros were written: so it is in memory, where a
    /// flush has nothing to note of what has become of reserved space.
    fn is_ready_preallocated(&self) -> bool {
        false
    }

    /// Gives the space of a range back to the file system: its bytes read as zero from then on, and the file
    /// keeps its length. What of the range is not a whole block of the file system becomes zero and keeps its
    /// space. `false` where files cannot have holes: nothing is done then. Durable once synced; before that a
    /// power failure may leave any part of it done.
    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        let _ = (offset, len);
        Ok(false)
    }

    /// Bytes of the file system that the file takes: fewer than its length if it has holes, more if space was
    /// reserved for it.
    fn space(&self) -> io::Result<u64> {
        self.len()
    }

    /// Where at or above an offset there may be bytes that are not zero: what is passed over is a hole. None
    /// if there are none, and beyond the end. The offset itself where that cannot be told.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Asks that what is written over the bytes of this file, which is empty so far, goes where they are, on
    /// a file system that would otherwise put it elsewhere and write down where. Such a file system then
    /// keeps no checksums of its own for the file. Where it is refused, all is as before.
    fn keep_in_place(&self) {}

    /// Locks the whole file against all other openings of it, in this process and others, unless one of them
    /// has it: `false`. The lock belongs to this opening and goes with it, also when the process is killed. A
    /// child made by fork does not keep it alive: the file is closed in it. Locking twice is locking once.
    /// The file must be open for writing.
    fn try_lock(&self) -> io::Result<bool>;

    /// A window to write through, onto a range of the file that exists and has been preallocated or written
    /// before. `Unsupported` on file systems where a store could need space all the same, since a store has
    /// nobody to tell that there is none: files whose blocks can be shared.
    fn window(&self, offset: u64, len: usize) -> io::Result<Box<dyn Window>>;

    /// Which file it is. None on a disk that cannot tell.
    fn id(&self) -> io::Result<Option<FileId>> {
        Ok(None)
    }

    /// Has it be somebody else's from now on. If this process may not give files away, it is as it was.
    fn give_to(&self, owner: Owner) -> io::Result<()> {
        let _ = owner;
        Ok(())
    }

    /// Whether transfers bypass the system's cache, and so must be aligned: see [`DIRECT_ALIGNMENT`].
    fn is_direct(&self) -> bool;
}

/// A range of a file that is written by copying to memory: no system call.
///
/// When the file is cut off below the range, writing there is refused from then on.
pub trait Window: Send + Sync + Debug {
    /// Writes bytes at an offset from the start of the window. The system has them when it returns, as with
    /// [`File::write_at`]: they survive the process, not the power.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is not as long any more: some of the bytes may be in it.
    ///
    /// # Panics
    /// If the bytes do not fit in the window.
    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()>;
}

/// Whether a call was refused for want of something that may be there again later: space, a quota, file
/// descriptors, memory, a limit of this process, permission. What the call was to do can be done later, or by
/// another process. Never ask this of a failed sync: whatever the reason, something was lost then.
#[must_use]
pub fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | OutOfMemory) || is_unopened(error)
}

/// Whether a call did not even get a file to work on: there are too many open, or permission is missing. A
/// sync that answers so, of a directory, was not tried.
#[must_use]
pub fn is_unopened(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
        || error.kind() == io::ErrorKind::PermissionDenied
}

/// A direct transfer that is not aligned is a mistake of the caller; what the system does with it differs by
/// file system.
#[inline]
pub(crate) fn debug_assert_aligned(bytes: &[u8], offset: u64) {
    debug_assert!(
        bytes.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT)
            && bytes.len().is_multiple_of(DIRECT_ALIGNMENT)
            && offset.is_multiple_of(DIRECT_ALIGNMENT as u64),
        "a direct transfer of {} bytes between {:p} and file offset {offset} is not aligned to \
         {DIRECT_ALIGNMENT}",
        bytes.len(),
        bytes.as_ptr(),
    );
}

/// The end of a range, or `InvalidInput` if no file could reach so far.
pub(crate) fn range_end(offset: u64, len: usize) -> io::Result<u64> {
    offset
        .checked_add(len as u64)
        .filter(|end| i64::try_from(*end).is_ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file reaches that far"))
}

/// The answer to a write through a window where the file has been cut off.
pub fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file was cut short while it was in use")
}

/// The answer to a window onto bytes that the file does not have.
pub(crate) fn window_refused(offset: u64, len: usize) -> io::Error {
    let message =
        format!("a window of {len} bytes at {offset} needs bytes that the file has, allocated beforehand");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

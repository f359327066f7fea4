//! The machine's own files.
//!
//! Calls that a signal interrupts are made again, transfers that stop short are continued: the caller sees
//! all or an error.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{
    CWD, FallocateFlags, IFlags, RenameFlags, SeekFrom, fallocate, fdatasync, fstat, fstatfs, fsync,
    ftruncate, ioctl_getflags, ioctl_setflags, renameat_with, seek, statvfs,
};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev, pwritev2, retry_on_intr};

use super::{
    AlignedBuf, Disk, File, FileId, How, Owner, Window, cut_off, debug_assert_aligned, range_end,
    window_refused,
};
use crate::fork;
use crate::machine::{self, page_bytes};
use crate::mapping::Mapping;
use crate::regular;
use crate::truncation;

/// Bytes written at once where a file is made longer by writing.
const FILL_BYTES: usize = 1 << 18;

/// The files of the machine this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDisk;

/// The same, with the permission bits of what is made on it.
#[derive(Clone, Copy, Debug)]
struct HostDiskOfMode(u32);

impl Disk for HostDiskOfMode {
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>> {
        if !how.create && !how.create_new {
            return HostDisk.open(path, how);
        }
        match open_file(path, How { create_new: true, ..how }, Some(self.0)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !how.create_new => {
                HostDisk.open(path, how)
            }
            made => Ok(Arc::new(made?)),
        }
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.try_exists()? {
            return Ok(());
        }
        fs::create_dir_all(path)?;
        // Users that may read files may look them up.
        set_mode(path, self.0 | (self.0 & 0o444) >> 2)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        HostDisk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        HostDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        HostDisk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        HostDisk.remove(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        HostDisk.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        HostDisk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        HostDisk.free_bytes(dir)
    }

    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        HostDisk.mode(path)
    }

    fn owner(&self, path: &Path) -> io::Result<Option<Owner>> {
        HostDisk.owner(path)
    }

    fn id(&self, path: &Path) -> io::Result<Option<FileId>> {
        HostDisk.id(path)
    }

    fn is_regular(&self, path: &Path) -> io::Result<bool> {
        HostDisk.is_regular(path)
    }

    fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        HostDisk.link(path)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        HostDisk.absolute(path)
    }

    fn with_mode(&self, mode: u32) -> Option<Arc<dyn Disk>> {
        HostDisk.with_mode(mode)
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Opens a file. One that is made gets the permission bits `mode`, if any are given, and never has more.
fn open_file(path: &Path, how: How, mode: Option<u32>) -> io::Result<HostFile> {
    let open = |how: How, direct: bool| {
        let flags = (if direct { libc::O_DIRECT } else { 0 }) | (if how.durable { libc::O_DSYNC } else { 0 });
        let options = fs::OpenOptions::new()
            .read(true)
            .write(!how.read_only)
            .create(how.create)
            .create_new(how.create_new)
            .mode(mode.unwrap_or(0o666))
            .clone();
        regular::open(path, &options, flags)
    };
    if !how.read_only {
        machine::outlive_file_limit();
    }
    let (mut how, mut direct) = (how, how.direct);
    let file = match open(how, direct) {
        // A file system without direct transfers says so after it has made the file.
        Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => {
            direct = false;
            how.create_new &= !path.try_exists()?;
            open(how, direct)?
        }
        opened => opened?,
    };
    // Of the file, not of its name, which others may have taken away.
    mode.map_or(Ok(()), |mode| file.set_permissions(fs::Permissions::from_mode(mode)))?;
    Ok(HostFile::new(file, direct))
}

impl Disk for HostDisk {
    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        Ok(Some(fs::metadata(path)?.permissions().mode() & 0o777))
    }

    fn owner(&self, path: &Path) -> io::Result<Option<Owner>> {
        let metadata = fs::metadata(path)?;
        Ok(Some(Owner { user: metadata.uid(), group: metadata.gid() }))
    }

    fn id(&self, path: &Path) -> io::Result<Option<FileId>> {
        let metadata = fs::metadata(path)?;
        Ok(Some(FileId { device: metadata.dev(), number: metadata.ino() }))
    }

    fn is_regular(&self, path: &Path) -> io::Result<bool> {
        Ok(fs::metadata(path)?.is_file())
    }

    fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        match fs::read_link(path) {
            // It is no link, or there is nothing.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }

    fn with_mode(&self, mode: u32) -> Option<Arc<dyn Disk>> {
        Some(Arc::new(HostDiskOfMode(mode)))
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(open_file(path, how, None)?))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let open = || loop {
            match fs::read_dir(or_here(dir)) {
                // Files are opened again after a signal by the standard library, directories are not.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                opened => return opened,
            }
        };
        for entry in open()? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            done => return Ok(done?),
        }
        match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) if to.try_exists()? => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(or_here(dir))?;
        Ok(retry_on_intr(|| fsync(&dir))?)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let system = statvfs(or_here(dir))?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }
}

/// The parent of a bare name is the empty path, which the system does not take.
fn or_here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

#[derive(Debug)]
struct HostFile {
    /// Once it is locked. Before the file, so that a descriptor number is forgotten before it can be
    /// another's.
    given_up_by_children: OnceLock<fork::GivenUp>,
    file: OwnedFd,
    direct: bool,
}

impl HostFile {
    fn new(file: fs::File, direct: bool) -> HostFile {
        HostFile { given_up_by_children: OnceLock::new(), file: file.into(), direct }
    }

    fn check(&self, bytes: &[u8], offset: u64) {
        if self.direct {
            debug_assert_aligned(bytes, offset);
        }
    }

    /// Makes the file at least so long, by zeros behind its end: wherever that is when they are written, for
    /// another process may be writing there, and its bytes must be neither cut off nor overwritten.
    fn fill_up_to(&self, end: u64) -> io::Result<()> {
        let length = self.len()?;
        let zeros = AlignedBuf::new(end.saturating_sub(length).clamp(1, FILL_BYTES as u64) as usize);
        loop {
            let missing = end.saturating_sub(self.len()?);
            if missing == 0 {
                return Ok(());
            }
            let piece = &zeros[..missing.min(zeros.len() as u64) as usize];
            match retry_on_intr(|| pwritev2(&self.file, &[IoSlice::new(piece)], 0, ReadWriteFlags::APPEND)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                // Where not even that can be done, files grow as they are written.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl HostFile {
    /// Locks or unlocks the whole file.
    fn set_lock(&self, kind: libc::c_int) -> io::Result<()> {
        // SAFETY: all fields of the structure are integers, for which zero is a value.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as _;
        lock.l_whence = libc::SEEK_SET as _;
        loop {
            // SAFETY: the descriptor is open, and the command reads the structure during the call only.
            let answer = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
            match (answer, io::Error::last_os_error()) {
                // By a signal.
                (-1, error) if error.kind() == io::ErrorKind::Interrupted => {}
                (-1, error) => return Err(error),
                _ => return Ok(()),
            }
        }
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        if self.given_up_by_children.get().is_some() {
            // A child that is about to become another program has a copy of the descriptor: closing this one
            // alone would not end the lock. Should it fail, the end of the last copy does it.
            let _ = self.set_lock(libc::F_UNLCK);
        }
    }
}

impl File for HostFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(buf, offset);
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let answer = retry_on_intr(|| pread(&self.file, &mut buf[done..], at));
            match answer.map_err(|error| truncation::refused(error, &[&buf[done..]]))? {
                0 => break,
                count => done += count,
            }
            // Going on after a direct transfer ended with the file would be a transfer that is not aligned.
            if self.direct && done < buf.len() && offset + done as u64 >= self.len()? {
                break;
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check(buf, offset);
        range_end(offset, buf.len())?;
        let mut done = 0;
        while done < buf.len() {
            let answer = retry_on_intr(|| pwrite(&self.file, &buf[done..], offset + done as u64));
            match answer.map_err(|error| truncation::refused(error, &[buf]))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    fn write_all_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.check(buf, at);
            at = range_end(at, buf.len())?;
        }
        let mut slices: Vec<IoSlice<'_>> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
        let mut left = slices.as_mut_slice();
        let mut at = offset;
        loop {
            // Without them in front, a call that writes nothing has failed.
            IoSlice::advance_slices(&mut left, 0);
            if left.is_empty() {
                return Ok(());
            }
            // The kernel takes 1024 buffers in one call; rustix leaves the others for the next.
            let answer = retry_on_intr(|| pwritev(&self.file, left, at));
            match answer.map_err(|error| truncation::refused(error, bufs))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => {
                    at += count as u64;
                    IoSlice::advance_slices(&mut left, count);
                }
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fdatasync(&self.file))?)
    }

    fn len(&self) -> io::Result<u64> {
        // Half as dear as `fstat`; and the next write need not set the file's time anew, as it has to once
        // that was asked for. Nobody uses the offset.
        Ok(seek(&self.file, SeekFrom::End(0))?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| ftruncate(&self.file, len))?)
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), offset, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.fill_up_to(range_end(offset, len.try_into().unwrap_or(usize::MAX))?)
            }
            done => Ok(done?),
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&self.file, how, offset, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }

    fn space(&self) -> io::Result<u64> {
        // Counted in 512 bytes whatever the file system's blocks are.
        Ok(fstat(&self.file)?.st_blocks as u64 * 512)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        // Nobody uses the offset of the descriptor.
        match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    fn is_ready_preallocated(&self) -> bool {
        matches!(file_system(&self.file), Ok(TMPFS))
    }

    fn keep_in_place(&self) {
        if let Ok(flags) = ioctl_getflags(&self.file) {
            // Most file systems write in place anyway, and do not know the flag.
            let _ = ioctl_setflags(&self.file, flags | IFlags::NOCOW);
        }
    }

    fn id(&self) -> io::Result<Option<FileId>> {
        let stat = fstat(&self.file)?;
        Ok(Some(FileId { device: stat.st_dev, number: stat.st_ino }))
    }

    fn give_to(&self, owner: Owner) -> io::Result<()> {
        let stat = fstat(&self.file)?;
        if (owner.user, owner.group) == (stat.st_uid, stat.st_gid) {
            return Ok(());
        }
        match fchown(&self.file, Some(owner.user), Some(owner.group)) {
            // Not by this one; or there is no such user here, for a process that has users of its own.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EINVAL)) => Ok(()),
            given => given,
        }
    }

    fn try_lock(&self) -> io::Result<bool> {
        // Before the lock: a child that is made in between keeps nothing.
        if self.given_up_by_children.get().is_none() {
            let _ = self.given_up_by_children.set(fork::GivenUp::new(self.file.as_raw_fd())?);
        }
        match self.set_lock(libc::F_WRLCK) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            locked => locked.map(|()| true),
        }
    }

    fn window(&self, offset: u64, len: usize) -> io::Result<Box<dyn Window>> {
        if len == 0 || range_end(offset, len)? > self.len()? {
            return Err(window_refused(offset, len));
        }
        if !stores_in_place(&self.file)? {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a store through a window may need space on this file system",
            ));
        }
        Ok(Box::new(HostWindow::new(&self.file, offset, len)?))
    }

    fn is_direct(&self) -> bool {
        self.direct
    }
}

/// ext2, ext3 and ext4 have one number.
const EXT: u32 = 0xef53;
const TMPFS: u32 = 0x0102_1994;

/// Whether a block that was written stays the file's own, so that a store to it through a mapping never has
/// to find another place for it. Where blocks can be shared (btrfs, XFS, ZFS, bcachefs, and whatever lies
/// under overlayfs or FUSE), a snapshot or a clone may take them at any moment: the next store needs space,
/// and without any the process is killed. Nothing that could be asked of the file before the store would
/// still be true at it, so only file systems count that are known to have no such thing.
fn stores_in_place(file: &OwnedFd) -> io::Result<bool> {
    Ok(matches!(file_system(file)?, EXT | TMPFS))
}

/// The number of the kind of file system that a file is on.
fn file_system(file: &OwnedFd) -> io::Result<u32> {
    // The type's width and sign differ between processors; the number has 32 bits.
    Ok(fstatfs(file)?.f_type as u32)
}

/// A shared mapping of a file's range.
#[derive(Debug)]
struct HostWindow {
    /// Begins at the system page that holds the window's first byte.
    mapping: Mapping,
    /// Where in the mapping the window starts.
    start: usize,
    len: usize,
    /// Writers take turns, so that no two of them write a byte at once. Uncontended it costs less than the
    /// copy.
    turn: Mutex<()>,
}

impl HostWindow {
    fn new(file: &OwnedFd, offset: u64, len: usize) -> io::Result<HostWindow> {
        let start = (offset % page_bytes() as u64) as usize;
        let mapping = Mapping::of_part(file, offset - start as u64, start + len)?;
        Ok(HostWindow { mapping, start, len, turn: Mutex::new(()) })
    }
}

impl Window for HostWindow {
    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len);
        assert!(fits, "{} bytes at {offset} do not fit in a window of {}", bytes.len(), self.len);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the destination is within the mapping, as just checked; nothing of Rust's refers to it, so
        // it cannot overlap `bytes`; other threads keep off by `turn`.
        unsafe {
            ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.mapping.base().as_ptr().add(self.start + offset),
                bytes.len(),
            )
        }
        if self.mapping.is_cut_short() { Err(cut_off()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(name: &str) -> (PathBuf, HostFile) {
        let path = std::env::temp_dir().join(format!("sablecat-host-{name}-{}", std::process::id()));
        let file =
            fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        (path, HostFile::new(file, false))
    }

    const BLOCK: usize = 16;
    const BLOCKS: usize = 2000;

    /// As on a file system that cannot reserve space: each of two processes makes room, and writes where it
    /// has.
    #[test]
    fn who_makes_a_file_longer_cuts_nothing_off_and_overwrites_nothing() {
        // When the two meet is for the system to say; so often that they do.
        (0..50).for_each(|_| two_make_a_file_longer());
    }

    fn two_make_a_file_longer() {
        let (path, first) = file("longer");
        let second = HostFile::new(fs::OpenOptions::new().read(true).write(true).open(&path).unwrap(), false);
        std::thread::scope(|scope| {
            for (n, file) in [&first, &second].into_iter().enumerate() {
                scope.spawn(move || {
                    for block in (0..BLOCKS).filter(|block| block % 2 == n) {
                        file.fill_up_to(((block + 1) * BLOCK) as u64).unwrap();
                        file.write_at(&[1 + n as u8; BLOCK], (block * BLOCK) as u64).unwrap();
                    }
                });
            }
        });
        for block in 0..BLOCKS {
            let mut bytes = [0; BLOCK];
            assert_eq!(first.read_at(&mut bytes, (block * BLOCK) as u64).unwrap(), bytes.len());
            assert_eq!(bytes, [1 + (block % 2) as u8; BLOCK], "block {block}");
        }
        first.fill_up_to(10).unwrap();
        assert!(first.len().unwrap() >= (BLOCKS * BLOCK) as u64, "never shorter");
        first.fill_up_to(3 << 20).unwrap();
        assert!(first.len().unwrap() >= 3 << 20);
        fs::remove_file(path).unwrap();
    }
}

//! A disk in front of another one, which asks somebody before each call whether it is to be made: to count
//! calls, to have something happen between two of them, to have some fail.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, File, FileId, How, Owner, Window};

/// What a call wants of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// To open a file that exists.
    Open,
    /// To open a file, and to make it if need be; to make a directory.
    Make,
    /// To know what there is: names, lengths, room.
    Look,
    /// To read bytes.
    Read,
    /// To write bytes.
    Write,
    /// To change a file's length, to reserve space or to give some back.
    Grow,
    /// To rename a file.
    Rename,
    /// To remove one.
    Remove,
    /// To flush a file.
    Sync,
    /// To flush a directory.
    SyncDir,
    /// To map a window.
    Map,
    /// To store bytes through one.
    Store,
}

impl Call {
    /// Whether a later look at files and names may show that it was made.
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(self, Call::Open | Call::Look | Call::Read | Call::Map)
    }
}

/// What becomes of a call.
#[derive(Debug)]
pub enum Verdict {
    /// It is made.
    Make,
    /// It answers with this error, and nothing is done.
    Fail(io::Error),
    /// The same, but half of what is to be written is.
    Cut(io::Error),
}

/// Says what becomes of calls.
pub trait Judge: Debug + Send + Sync {
    /// Asked before each call, on the thread that makes it, which holds nothing of the disk's meanwhile.
    fn judge(&self, call: Call) -> Verdict;

    /// Told when the call that was asked about has ended, or is not made.
    fn ended(&self, call: Call) {
        let _ = call;
    }
}

/// Something to call, until this is dropped.
#[derive(Debug)]
struct Called<'a, T: ?Sized> {
    on: &'a T,
    judge: &'a dyn Judge,
    call: Call,
}

impl<T: ?Sized> std::ops::Deref for Called<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.on
    }
}

impl<T: ?Sized> Drop for Called<'_, T> {
    fn drop(&mut self) {
        self.judge.ended(self.call);
    }
}

/// The disk in front.
#[derive(Clone, Debug)]
pub struct Between {
    disk: Arc<dyn Disk>,
    judge: Arc<dyn Judge>,
}

impl Between {
    /// In front of a disk, asking `judge`.
    #[must_use]
    pub fn new(disk: impl Disk + 'static, judge: impl Judge + 'static) -> Between {
        Between::over(Arc::new(disk), Arc::new(judge))
    }

    /// As [`Between::new`].
    #[must_use]
    pub fn over(disk: Arc<dyn Disk>, judge: Arc<dyn Judge>) -> Between {
        Between { disk, judge }
    }

    fn ask(&self, call: Call) -> io::Result<Called<'_, dyn Disk>> {
        asked(&*self.judge, call, &*self.disk)
    }
}

/// Of a call that is not made by halves.
fn asked<'a, T: ?Sized>(judge: &'a dyn Judge, call: Call, on: &'a T) -> io::Result<Called<'a, T>> {
    let called = Called { on, judge, call };
    match judge.judge(call) {
        Verdict::Make => Ok(called),
        Verdict::Fail(error) | Verdict::Cut(error) => Err(error),
    }
}

impl Disk for Between {
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>> {
        let call = if how.create || how.create_new { Call::Make } else { Call::Open };
        let file = self.ask(call)?.open(path, how)?;
        Ok(Arc::new(FileBetween { file, judge: Arc::clone(&self.judge) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.ask(Call::Make)?.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.ask(Call::Look)?.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Call::Rename)?.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Call::Rename)?.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(Call::Remove)?.remove(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.ask(Call::Look)?.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.ask(Call::SyncDir)?.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.ask(Call::Look)?.free_bytes(dir)
    }

    fn mode(&self, path: &Path) -> io::Result<Option<u32>> {
        self.ask(Call::Look)?.mode(path)
    }

    fn owner(&self, path: &Path) -> io::Result<Option<Owner>> {
        self.ask(Call::Look)?.owner(path)
    }

    fn id(&self, path: &Path) -> io::Result<Option<FileId>> {
        self.ask(Call::Look)?.id(path)
    }

    fn is_regular(&self, path: &Path) -> io::Result<bool> {
        self.ask(Call::Look)?.is_regular(path)
    }

    fn link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        self.ask(Call::Look)?.link(path)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.absolute(path)
    }

    fn with_mode(&self, mode: u32) -> Option<Arc<dyn Disk>> {
        let disk = self.disk.with_mode(mode)?;
        Some(Arc::new(Between { disk, judge: Arc::clone(&self.judge) }))
    }
}

#[derive(Debug)]
struct FileBetween {
    file: Arc<dyn File>,
    judge: Arc<dyn Judge>,
}

impl FileBetween {
    fn ask(&self, call: Call) -> io::Result<Called<'_, dyn File>> {
        asked(&*self.judge, call, &*self.file)
    }

    /// A call that may be made by halves: what becomes of it, and what is to be held while it is made.
    fn ask_for_write(&self) -> (Verdict, Called<'_, dyn File>) {
        let called = Called { on: &*self.file, judge: &*self.judge, call: Call::Write };
        (self.judge.judge(Call::Write), called)
    }

    /// What half of a write is: some of it, aligned as all of it is.
    fn half(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let len = (buf.len() / 2) & !4095;
        if len == 0 { Ok(()) } else { self.file.write_at(&buf[..len], offset) }
    }
}

impl File for FileBetween {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.ask(Call::Read)?.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let (verdict, file) = self.ask_for_write();
        match verdict {
            Verdict::Make => file.write_at(buf, offset),
            Verdict::Fail(error) => Err(error),
            Verdict::Cut(error) => self.half(buf, offset).and(Err(error)),
        }
    }

    fn write_all_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        let (verdict, file) = self.ask_for_write();
        match verdict {
            Verdict::Make => file.write_all_at(bufs, offset),
            Verdict::Fail(error) => Err(error),
            Verdict::Cut(error) if bufs.len() > 1 => {
                file.write_all_at(&bufs[..bufs.len() / 2], offset).and(Err(error))
            }
            Verdict::Cut(error) => bufs.iter().try_for_each(|buf| self.half(buf, offset)).and(Err(error)),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.ask(Call::Sync)?.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.ask(Call::Look)?.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.ask(Call::Grow)?.set_len(len)
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.ask(Call::Grow)?.preallocate(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.ask(Call::Grow)?.punch(offset, len)
    }

    fn space(&self) -> io::Result<u64> {
        self.ask(Call::Look)?.space()
    }

    fn is_ready_preallocated(&self) -> bool {
        self.file.is_ready_preallocated()
    }

    fn keep_in_place(&self) {
        self.file.keep_in_place();
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn window(&self, offset: u64, len: usize) -> io::Result<Box<dyn Window>> {
        let window = self.ask(Call::Map)?.window(offset, len)?;
        Ok(Box::new(WindowBetween { window, judge: Arc::clone(&self.judge) }))
    }

    fn id(&self) -> io::Result<Option<FileId>> {
        self.ask(Call::Look)?.id()
    }

    fn give_to(&self, owner: Owner) -> io::Result<()> {
        self.ask(Call::Make)?.give_to(owner)
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}

#[derive(Debug)]
struct WindowBetween {
    window: Box<dyn Window>,
    judge: Arc<dyn Judge>,
}

impl Window for WindowBetween {
    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let window = Called { on: &*self.window, judge: &*self.judge, call: Call::Store };
        match self.judge.judge(Call::Store) {
            Verdict::Make => window.write(offset, bytes),
            Verdict::Fail(error) => Err(error),
            Verdict::Cut(error) => window.write(offset, &bytes[..bytes.len() / 2]).and(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sim::SimDisk;

    /// Notes what is asked, and refuses calls of one kind.
    #[derive(Clone, Debug)]
    struct Refuse(Call, Arc<Mutex<Vec<Call>>>);

    impl Judge for Refuse {
        fn judge(&self, call: Call) -> Verdict {
            self.1.lock().unwrap().push(call);
            if call == self.0 { Verdict::Cut(io::ErrorKind::StorageFull.into()) } else { Verdict::Make }
        }
    }

    #[test]
    fn what_is_refused_is_not_done_or_half_done() {
        let how = How { create: true, ..How::default() };
        let asked = Arc::new(Mutex::new(Vec::new()));
        let sim = SimDisk::new(1);
        sim.create_dir_all(Path::new("/d")).unwrap();
        let between = |refused| Between::new(sim.clone(), Refuse(refused, Arc::clone(&asked)));
        let path = Path::new("/d/f");
        assert_eq!(between(Call::Make).open(path, how).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(!sim.exists(path).unwrap());
        let file = between(Call::Write).open(path, how).unwrap();
        assert!(file.write_at(&[7; 16384], 0).is_err());
        assert_eq!(file.len().unwrap(), 8192);
        assert!(file.write_all_at(&[&[8; 4096], &[8; 4096]], 0).is_err());
        let mut first = [0; 8192];
        assert_eq!(file.read_at(&mut first, 0).unwrap(), 8192);
        assert_eq!((first[4095], first[4096]), (8, 7));
        file.sync().unwrap();
        assert_eq!(
            *asked.lock().unwrap(),
            [Call::Make, Call::Make, Call::Write, Call::Look, Call::Write, Call::Read, Call::Sync]
        );
    }
}

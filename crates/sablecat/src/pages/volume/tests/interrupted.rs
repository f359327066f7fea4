//! Reads and flushes under which something else happens.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use sablecat_os::disk::{Disk, File, How, Window};

/// What happens once before the next call, outside of every lock.
type Hook = Box<dyn FnOnce() + Send>;

/// What happens once, after so many moments of some kind and before the next.
#[derive(Clone, Default)]
pub(crate) struct Countdown(Arc<Mutex<Option<(u64, Hook)>>>);

impl std::fmt::Debug for Countdown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Countdown").finish_non_exhaustive()
    }
}

impl Countdown {
    /// So many moments pass, and before the next `hook` runs.
    pub(crate) fn before(&self, after: u64, hook: impl FnOnce() + Send + 'static) {
        *self.0.lock().expect("no panic") = Some((after, Box::new(hook)));
    }

    /// A moment passes.
    pub(crate) fn pass(&self) {
        let mut waiting = self.0.lock().expect("no panic");
        let due = match &mut *waiting {
            Some((0, _)) => waiting.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        drop(waiting);
        if let Some((_, hook)) = due {
            hook();
        }
    }

    /// Forgets what [`Countdown::before`] was told, and says whether it had not come to that.
    pub(crate) fn forget(&self) -> bool {
        self.0.lock().expect("no panic").take().is_some()
    }
}

/// The hooks of a disk.
#[derive(Clone, Default)]
struct Hooks {
    read: Arc<Mutex<Option<Hook>>>,
    flush: Arc<Mutex<Option<Hook>>>,
    /// Before how many more calls that read, write or flush.
    call: Countdown,
}

/// A disk whose reads and flushes can be interrupted.
#[derive(Clone)]
pub(crate) struct Interrupted {
    disk: Arc<dyn Disk>,
    hooks: Hooks,
}

struct InterruptedFile {
    file: Arc<dyn File>,
    hooks: Hooks,
}

fn happen(hook: &Mutex<Option<Hook>>) {
    let hook = hook.lock().expect("no panic").take();
    if let Some(hook) = hook {
        hook();
    }
}

impl Interrupted {
    pub(crate) fn new(disk: impl Disk + 'static) -> Interrupted {
        Interrupted { disk: Arc::new(disk), hooks: Hooks::default() }
    }

    /// The next read of any file runs `hook` first; reads that it does itself are not interrupted.
    pub(crate) fn before_next_read(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hooks.read.lock().expect("no panic") = Some(Box::new(hook));
    }

    /// The next flush of any file runs `hook` first; flushes that it does itself are not interrupted.
    pub(crate) fn before_next_flush(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hooks.flush.lock().expect("no panic") = Some(Box::new(hook));
    }

    /// So many calls that read, write or flush any file are made, and before the next `hook` runs; calls that
    /// it makes itself are not interrupted.
    pub(crate) fn before_call(&self, after: u64, hook: impl FnOnce() + Send + 'static) {
        self.hooks.call.before(after, hook);
    }

    /// Forgets what [`Interrupted::before_call`] was told, and says whether it had not come to that.
    pub(crate) fn forget_call(&self) -> bool {
        self.hooks.call.forget()
    }

    /// Whether the read that was waited for has come.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.hooks.read.lock().expect("no panic").is_none()
    }
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.disk.fmt(f)
    }
}

impl std::fmt::Debug for InterruptedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl Disk for Interrupted {
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(InterruptedFile { file: self.disk.open(path, how)?, hooks: self.hooks.clone() }))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename_new(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
}

impl File for InterruptedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        happen(&self.hooks.read);
        self.hooks.call.pass();
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.hooks.call.pass();
        self.file.write_at(buf, offset)
    }
    fn write_all_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        self.hooks.call.pass();
        self.file.write_all_at(bufs, offset)
    }
    fn sync(&self) -> io::Result<()> {
        happen(&self.hooks.flush);
        self.hooks.call.pass();
        self.file.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.preallocate(offset, len)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
    fn window(&self, offset: u64, len: usize) -> io::Result<Box<dyn Window>> {
        self.file.window(offset, len)
    }
    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}

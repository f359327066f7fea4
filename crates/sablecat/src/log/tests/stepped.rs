//! A disk on which a participant can be stopped between any two of its calls.

use std::sync::{Condvar, MutexGuard, PoisonError};

use sablecat_os::disk::{File, FileId, How, Window};
use sablecat_os::sim::SimDisk;

use super::*;

/// Where a participant stops: before the call of a number, or after it.
#[derive(Debug, Default)]
pub(super) struct Stop {
    state: Mutex<StopState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct StopState {
    steps: u64,
    at: Option<u64>,
    stopped: bool,
    ended: bool,
}

impl Stop {
    fn state(&self) -> MutexGuard<'_, StopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on the participant stops at its `at`-th step.
    pub(super) fn arm(&self, at: u64) {
        let mut state = self.state();
        (state.steps, state.at) = (0, Some(at));
    }

    fn step(&self) {
        let mut state = self.state();
        state.steps += 1;
        if state.at == Some(state.steps) {
            state.stopped = true;
            self.changed.notify_all();
            drop(self.changed.wait_while(state, |state| state.stopped).unwrap());
        }
    }

    pub(super) fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Returns when the participant has stopped, or ended, which is false.
    pub(super) fn wait(&self) -> bool {
        self.changed.wait_while(self.state(), |state| !state.stopped && !state.ended).unwrap().stopped
    }

    pub(super) fn go_on(&self) {
        self.state().stopped = false;
        self.changed.notify_all();
    }
}

/// A disk of which each call is a step of a participant, and the return from it another.
#[derive(Debug)]
pub(super) struct Stepped<T: ?Sized> {
    pub(super) stop: Arc<Stop>,
    pub(super) of: Arc<T>,
}

impl<T: ?Sized> Stepped<T> {
    fn call<R>(&self, call: impl FnOnce(&T) -> R) -> R {
        self.stop.step();
        let result = call(&self.of);
        self.stop.step();
        result
    }
}

impl Disk for Stepped<SimDisk> {
    fn open(&self, path: &Path, how: How) -> std::io::Result<Arc<dyn File>> {
        let of = self.call(|disk| disk.open(path, how))?;
        Ok(Arc::new(Stepped { stop: Arc::clone(&self.stop), of }))
    }
    fn create_dir_all(&self, path: &Path) -> std::io::Result<()> {
        self.call(|disk| disk.create_dir_all(path))
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        self.call(|disk| disk.list(dir))
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.call(|disk| disk.rename(from, to))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.call(|disk| disk.rename_new(from, to))
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.call(|disk| disk.remove(path))
    }
    fn exists(&self, path: &Path) -> std::io::Result<bool> {
        self.call(|disk| disk.exists(path))
    }
    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.call(|disk| disk.sync_dir(dir))
    }
    fn free_bytes(&self, dir: &Path) -> std::io::Result<u64> {
        self.call(|disk| disk.free_bytes(dir))
    }
    fn id(&self, path: &Path) -> std::io::Result<Option<FileId>> {
        self.of.id(path)
    }
}

impl File for Stepped<dyn File> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.call(|file| file.read_at(buf, offset))
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> std::io::Result<()> {
        self.call(|file| file.write_at(buf, offset))
    }
    fn write_all_at(&self, bufs: &[&[u8]], offset: u64) -> std::io::Result<()> {
        self.call(|file| file.write_all_at(bufs, offset))
    }
    fn sync(&self) -> std::io::Result<()> {
        self.call(|file| file.sync())
    }
    fn len(&self) -> std::io::Result<u64> {
        self.call(|file| file.len())
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.call(|file| file.set_len(len))
    }
    fn preallocate(&self, offset: u64, len: u64) -> std::io::Result<()> {
        self.call(|file| file.preallocate(offset, len))
    }
    fn try_lock(&self) -> std::io::Result<bool> {
        self.of.try_lock()
    }
    fn window(&self, offset: u64, len: usize) -> std::io::Result<Box<dyn Window>> {
        let window = self.call(|file| file.window(offset, len))?;
        Ok(Box::new(Stepped { stop: Arc::clone(&self.stop), of: Arc::from(window) }))
    }
    fn is_direct(&self) -> bool {
        self.of.is_direct()
    }
}

impl Window for Stepped<dyn Window> {
    fn write(&self, offset: usize, bytes: &[u8]) -> std::io::Result<()> {
        self.call(|window| window.write(offset, bytes))
    }
}

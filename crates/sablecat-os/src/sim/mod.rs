//! A disk in memory that loses power, tears writes, fails calls and fills up when it is told to.
//!
//! What chance decides follows from seeds: the same calls on the same seed meet the same fate.
//!
//! It keeps two disks in one: what programs see, and what is durable; and the changes since, in order.
//! [`SimDisk::crash`] makes a new disk of one of the states that a power failure at this moment may leave.
//! The old one goes on unharmed, so any number of states of one moment can be looked at. What may happen to
//! unsynced changes:
//!
//! - writes survive or not, whatever their order, and are torn at sectors of 512 bytes ([`Survival`] says in
//!   which patterns);
//! - a write through a window, in progress as the disk reads the memory, may be torn within a sector as well;
//! - a file has one of the lengths it had since it was last synced, not always one that fits the bytes;
//! - a hole made in a file may be there or not, sector by sector;
//! - files created, renamed or removed may be, or not, until their directory is synced. That goes for
//!   directories too: a file is there only if the whole path to it survived.
//!
//! What was synced is there, always. Two limits keep the states to those that disks and file systems have: a
//! sector that survives has all earlier writes to it in it, and changes to one name survive in order.
//!
//! Faults are planned by the number of the call: calls are counted from 1, over all files and directories,
//! whether or not they change anything. Run a program once, ask for [`SimDisk::calls`], then run it again for
//! each number:
//!
//! ```
//! # use std::path::Path;
//! # use sablecat_os::disk::{Disk, How};
//! # use sablecat_os::sim::SimDisk;
//! fn program(disk: &SimDisk) -> std::io::Result<()> {
//!     let file = disk.open(Path::new("greeting"), How { create: true, ..How::default() })?;
//!     file.write_at(b"hello", 0)?;
//!     file.sync()?;
//!     disk.sync_dir(Path::new(""))
//! }
//! let whole = SimDisk::new(1);
//! program(&whole)?;
//! for call in 0..whole.calls() {
//!     let disk = SimDisk::new(1);
//!     disk.crash_at(call);
//!     assert!(program(&disk).is_err());
//!     for seed in 0..10 {
//!         let found = disk.crash(seed);
//!         // Anything may be there by now, but for a program that returned, the greeting is.
//!         # drop(found);
//!     }
//! }
//! assert!(whole.crash(7).exists(Path::new("greeting"))?);
//! # std::io::Result::Ok(())
//! ```
//!
//! Besides failing, calls may lie: a write is lost or goes to another place, and nobody is told
//! ([`Fault::LostWrite`], [`Fault::MisdirectedWrite`]).
//!
//! It does not model time, permissions, or the contents of bad sectors: to see a program meet corruption,
//! write over its files.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, File, How};

mod bytes;
mod crash;
mod dice;
mod fault;
mod file;
mod handle;
mod names;
mod shared;
mod state;

pub use crash::Survival;
pub use fault::{Fault, PowerLost};

use dice::Dice;
use fault::{Call, sync_failed};
use file::FileState;
use handle::SimFile;
use names::Names;
use shared::SharedState;
use state::State;

/// A disk in memory. A clone is the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: SharedState,
}

impl SimDisk {
    /// An empty disk. What chance decides within its faults follows from the seed.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::with(State::new(seed, Names::new(), BTreeMap::new()))
    }

    fn with(state: State) -> SimDisk {
        SimDisk { state: SharedState::new(state) }
    }

    /// A disk as a power failure at this moment may leave it: which one, the seed decides. It has no faults
    /// planned, no locks and the same capacity; everything on it is durable.
    pub fn crash(&self, seed: u64) -> SimDisk {
        let mut dice = Dice::new(seed);
        let survival = dice.pick(&Survival::ALL);
        self.crash_as(survival, dice.next())
    }

    /// As [`SimDisk::crash`], with changes surviving in a given way.
    pub fn crash_as(&self, survival: Survival, seed: u64) -> SimDisk {
        SimDisk::with(self.state.lock().after_crash(survival, Dice::new(seed)))
    }

    /// Makes something go wrong in the `call`-th call, or the first after it that the fault suits. Calls are
    /// counted from 1.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.state.lock().plan.fail_at(call, fault);
    }

    /// Turns the power off after the `call`-th call: later ones answer with [`PowerLost`] and do nothing, and
    /// writes through windows do nothing.
    pub fn crash_at(&self, call: u64) {
        self.state.lock().plan.crash_at(call);
    }

    /// Forgets what was planned and has not happened yet, and turns the power on again.
    pub fn clear_faults(&self) {
        self.state.lock().plan.clear();
    }

    /// How many calls there were: those of [`Disk`] and [`File`], and writes through windows.
    pub fn calls(&self) -> u64 {
        self.state.lock().plan.calls()
    }

    /// Whether a call has met the power off.
    pub fn has_crashed(&self) -> bool {
        self.state.lock().plan.crashed()
    }

    /// Whether a write to a file was lost although nobody was told.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn has_lied_about(&self, path: &Path) -> io::Result<bool> {
        let state = self.state.lock();
        let node = state.names.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(state.files.get(&node).is_some_and(|file| file.lied))
    }

    /// How many changes a power failure now could undo, in files and in directories.
    pub fn unsynced(&self) -> usize {
        self.state.lock().moments().len()
    }

    /// Limits the space that files may take, counted in chunks of 4096 bytes. Beyond it calls answer
    /// `StorageFull`.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Limits the space that files may take to what they take now.
    pub fn fill_up(&self) {
        let mut state = self.state.lock();
        state.capacity = state.taken();
    }

    /// From now on files cannot have holes made in them, as on some file systems.
    pub fn make_no_holes(&self) {
        self.state.lock().has_holes = false;
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("SimDisk")
            .field("calls", &state.plan.calls())
            .field("files", &state.files.len())
            .field("unsynced", &state.moments().len())
            .finish_non_exhaustive()
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>> {
        if how.read_only && (how.create || how.create_new) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (mut state, fault) =
            self.state.call(if how.create || how.create_new { Call::Make } else { Call::Open })?;
        let node = match state.names.find(path)? {
            Some(_) if how.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(node) if state.names.is_dir(node) => {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Some(node) => node,
            None if !how.create && !how.create_new => return Err(io::ErrorKind::NotFound.into()),
            None if fault == Some(Fault::DiskFull) => return Err(io::ErrorKind::StorageFull.into()),
            None => {
                let slot = state.names.slot(path)?;
                let (moment, node) = (state.tick(), state.new_node());
                state.files.insert(node, FileState::default());
                state.names.set(moment, slot, Some(node));
                node
            }
        };
        Ok(Arc::new(SimFile::open(&self.state, &mut state, node, how)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let (mut state, fault) = self.state.call(Call::Grow)?;
        let mut ancestors: Vec<&Path> = path.ancestors().collect();
        ancestors.reverse();
        for path in ancestors {
            match state.names.find(path)? {
                Some(node) if state.names.is_dir(node) => {}
                Some(_) => return Err(io::ErrorKind::AlreadyExists.into()),
                None if fault == Some(Fault::DiskFull) => {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                None => {
                    let slot = state.names.slot(path)?;
                    let (moment, node) = (state.tick(), state.new_node());
                    state.names.make_dir(moment, slot, node);
                }
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let (state, _) = self.state.call(Call::Read)?;
        let dir = state.names.dir(dir)?;
        Ok(state.names.list(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, _) = self.state.call(Call::Rename)?;
        let (from, to) = (state.names.slot(from)?, state.names.slot(to)?);
        let node = state.names.get(&from).ok_or(io::ErrorKind::NotFound)?;
        match state.names.get(&to) {
            Some(same) if same == node => return Ok(()),
            Some(other) if state.names.is_dir(other) => {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Some(_) if state.names.is_dir(node) => return Err(io::ErrorKind::NotADirectory.into()),
            _ => {}
        }
        let moment = state.tick();
        state.names.rename(moment, from, to, node);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, _) = self.state.call(Call::Rename)?;
        let (from, to) = (state.names.slot(from)?, state.names.slot(to)?);
        let node = state.names.get(&from).ok_or(io::ErrorKind::NotFound)?;
        if state.names.get(&to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let moment = state.tick();
        state.names.rename(moment, from, to, node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut state, _) = self.state.call(Call::Rename)?;
        let slot = state.names.slot(path)?;
        let node = state.names.get(&slot).ok_or(io::ErrorKind::NotFound)?;
        if state.names.is_dir(node) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let moment = state.tick();
        state.names.set(moment, slot, None);
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let (state, _) = self.state.call(Call::Read)?;
        Ok(state.names.find(path)?.is_some())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let (mut state, fault) = self.state.call(Call::SyncDir)?;
        let dir = state.names.dir(dir)?;
        if fault == Some(Fault::SyncFails) {
            let mut fates = state.fates();
            state.names.fail_to_sync(dir, &mut fates);
            return Err(sync_failed());
        }
        state.names.sync(dir);
        state.forget_nameless();
        Ok(())
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let (state, _) = self.state.call(Call::Read)?;
        state.names.dir(dir)?;
        Ok(state.room())
    }
}

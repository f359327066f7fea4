//! The entrance: entering and leaving a shared environment, one process at a time.
//!
//! A byte of the lock file is the entrance's, one is each member's; a process that has the environment for itself holds all of them. Who is at
//! the entrance sees who lives, and nobody comes or goes meanwhile, but by dying.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sablecat_os::clock;
use sablecat_os::liveness::LockFile;

use crate::error::{Error, ErrorKind, Result};
use crate::region::{Membership, Region};

/// How long to wait for others to enter or leave, which takes as long as a recovery or a checkpoint.
const ATTACH_PATIENCE: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The right to enter, or to leave: one process at a time has it, until dropped.
pub(super) struct Entrance {
    path: PathBuf,
    file_mode: Option<u32>,
    lock: Membership,
}

impl Entrance {
    /// Waits for those who enter or leave at the moment.
    pub(super) fn enter(path: &Path, file_mode: Option<u32>) -> Result<Entrance> {
        let end = clock::monotonic() + ATTACH_PATIENCE;
        let lock = Membership::outside(open_lock(path, file_mode)?);
        while !lock.try_attach_lock().map_err(|e| Error::io("locking", path, e))? {
            if lock.whole_file_is_taken().map_err(|e| Error::io("asking after the locks of", path, e))? {
                return Err(taken_alone(path));
            }
            if clock::monotonic() >= end {
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!("{}: another process has been entering or leaving the environment for {ATTACH_PATIENCE:?}", path.display()),
                ));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(Entrance { path: path.to_owned(), file_mode, lock })
    }

    /// The entrance, if nobody is entering or leaving, and nobody is inside.
    pub(super) fn enter_if_nobody_lives(path: &Path, file_mode: Option<u32>) -> Result<Option<Entrance>> {
        let lock = Membership::outside(open_lock(path, file_mode)?);
        if !lock.try_attach_lock().map_err(|e| Error::io("locking", path, e))? {
            return Ok(None);
        }
        let entrance = Entrance { path: path.to_owned(), file_mode, lock };
        Ok(if entrance.anybody_lives()? { None } else { Some(entrance) })
    }

    /// Whether any process has the environment open. While this is held, nobody comes.
    pub(super) fn anybody_lives(&self) -> Result<bool> {
        self.lock.anybody_lives().map_err(|e| Error::io("asking after the locks of", &self.path, e))
    }

    /// Whether a member lives.
    pub(super) fn is_alive(&self, member: u16) -> bool {
        self.lock.is_alive(member)
    }

    /// The membership of a number, unless another process has it.
    fn try_member(&self, number: u16) -> Result<Option<Membership>> {
        let membership = Membership::new(open_lock(&self.path, self.file_mode)?, number);
        let taken = membership.take().map_err(|e| Error::io("locking", &self.path, e))?;
        Ok(taken.then_some(membership))
    }

    /// The membership of the first who enters.
    pub(super) fn first_member(&self) -> Result<Membership> {
        self.try_member(0)?.ok_or_else(|| {
            Error::new(ErrorKind::InUse, format!("{}: processes have the environment open, but not its shared memory", self.path.display()))
        })
    }

    /// Makes this process a member.
    pub(super) fn admit(&self, region: Region) -> Result<Region> {
        for number in (0..region.geometry().members).filter(|&number| !region.member(number).is_used()) {
            if let Some(membership) = self.try_member(number)? {
                return Ok(region.joined_as(membership));
            }
        }
        Err(Error::too_many_at_once(format!("{} processes have the environment open already", region.geometry().members)))
    }

    /// The error of who cannot join those who have the environment open.
    pub(super) fn cannot_join(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::InUse,
            format!("{}: processes have the environment open in a way that this one cannot join: {why}", self.path.display()),
        )
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.lock.unlock_attach();
    }
}

/// The error of who finds the whole lock file locked.
pub(super) fn taken_alone(path: &Path) -> Error {
    Error::new(
        ErrorKind::InUse,
        format!("{}: a process has the environment open for itself alone; close it there, or open it shared in both", path.display()),
    )
}

fn open_lock(path: &Path, file_mode: Option<u32>) -> Result<LockFile> {
    LockFile::open(path, file_mode).map_err(|e| Error::io("opening", path, e))
}

//! The entrance: entering and leaving a shared environment, one process at a time.
//!
//! A byte of the lock file is the entrance's, one is each member's; a process that has the environment for
//! itself holds all of them. The process at the entrance sees which processes live. Meanwhile no process
//! enters, and none leaves except by dying.
//!
//! A process that is inside needs no entrance, and nothing there holds it up. A process that wants to enter
//! or leave waits as long as another enters or leaves. The lock is the kernel's, and cannot be taken from a
//! process that lives. Taking it would not help either: a process that is stopped at the entrance may be in
//! the middle of a recovery. So a wait ends with an error: soon, if the process at the entrance is seen to be
//! stopped, else after a time that no recovery takes. The error says which process it is: as long as a
//! process is at the entrance, a note of it is in the lock file for others to read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sablecat_os::liveness::{self, LockFile};
use sablecat_os::{clock, machine};

use crate::error::{Error, ErrorKind, Result};
use crate::region::{Membership, Region};

/// How long to wait for others to enter or leave, which takes as long as a recovery or a checkpoint.
const ATTACH_PATIENCE: Duration = Duration::from_secs(600);
/// Of a command so much is told: enough to know it by, and not all that it was given.
const COMMAND_CHARS: usize = 96;
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// After so many looks it is asked which process is there.
const LOOKS_ASKED: u32 = 64;
/// How long to wait for a process that is stopped.
const STOPPED_PATIENCE: Duration = Duration::from_secs(10);

/// The right to enter, or to leave: one process at a time has it, until dropped.
pub(in crate::env) struct Entrance {
    path: PathBuf,
    file_mode: Option<u32>,
    lock: Membership,
}

impl Entrance {
    /// Waits for processes that enter or leave at the moment.
    ///
    /// # Errors
    /// `InUse` if a process has the environment for itself alone, or one at the entrance does not go on;
    /// those of the system.
    pub(in crate::env) fn enter(path: &Path, file_mode: Option<u32>) -> Result<Entrance> {
        Entrance::enter_within(path, file_mode, ATTACH_PATIENCE, STOPPED_PATIENCE)
    }

    /// As [`Entrance::enter`], waiting for at most so long, and for a process that is stopped for so long.
    fn enter_within(
        path: &Path,
        file_mode: Option<u32>,
        patience: Duration,
        stopped: Duration,
    ) -> Result<Entrance> {
        let began = clock::monotonic();
        let lock = Membership::outside(open_lock(path, file_mode)?);
        let (mut looks, mut since) = (0u32, None);
        while !lock.try_attach_lock(own_note).map_err(|e| Error::io("locking", path, e))? {
            if lock.whole_file_is_taken().map_err(|e| Error::io("testing the locks of", path, e))? {
                return Err(taken_alone(path, &lock.attach_note()));
            }
            let now = clock::monotonic();
            if looks.is_multiple_of(LOOKS_ASKED) {
                let is_stopped = pid_of(&lock.attach_note()).is_some_and(liveness::is_stopped);
                since = if is_stopped { since.or(Some(now)) } else { None };
            }
            looks = looks.wrapping_add(1);
            let is_stopped = since.is_some_and(|since| now.saturating_sub(since) >= stopped);
            if is_stopped || now.saturating_sub(began) >= patience {
                return Err(held_up(path, &lock.attach_note(), is_stopped, now.saturating_sub(began)));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(Entrance { path: path.to_owned(), file_mode, lock })
    }

    /// The entrance, if nobody is entering or leaving, and nobody is inside.
    pub(super) fn enter_if_nobody_lives(path: &Path, file_mode: Option<u32>) -> Result<Option<Entrance>> {
        let lock = Membership::outside(open_lock(path, file_mode)?);
        if !lock.try_attach_lock(own_note).map_err(|e| Error::io("locking", path, e))? {
            return Ok(None);
        }
        let entrance = Entrance { path: path.to_owned(), file_mode, lock };
        Ok(if entrance.anybody_lives()? { None } else { Some(entrance) })
    }

    /// Whether any process has the environment open. While this is held, nobody comes.
    pub(in crate::env) fn anybody_lives(&self) -> Result<bool> {
        self.lock.anybody_lives().map_err(|e| Error::io("testing the locks of", &self.path, e))
    }

    /// Whether a member lives.
    pub(in crate::env) fn is_alive(&self, member: u16) -> Result<bool> {
        self.lock.ask_after(member).map_err(|e| Error::io("testing the locks of", &self.path, e))
    }

    /// The membership of a number, unless another process has it.
    fn try_member(&self, number: u16) -> Result<Option<Membership>> {
        let membership = Membership::new(open_lock(&self.path, self.file_mode)?, number);
        let taken = membership.take().map_err(|e| Error::io("locking", &self.path, e))?;
        Ok(taken.then_some(membership))
    }

    /// The membership of the first process that enters.
    pub(in crate::env) fn first_member(&self) -> Result<Membership> {
        self.try_member(0)?.ok_or_else(|| {
            Error::new(
                ErrorKind::InUse,
                format!(
                    "{}: processes have the environment open, but its shared memory is not there; close it \
                     in all of them and open it again",
                    self.path.display()
                ),
            )
        })
    }

    /// Makes this process a member.
    pub(in crate::env) fn admit(&self, region: Region) -> Result<Region> {
        for number in (0..region.geometry().members).filter(|&number| !region.member(number).is_used()) {
            if let Some(membership) = self.try_member(number)? {
                return region.joined_as(membership);
            }
        }
        Err(Error::too_many_at_once(format!(
            "{} processes have the environment open, as many as can; close it in one of them first",
            region.geometry().members
        )))
    }

    /// The error of a process that cannot join those that have the environment open.
    pub(in crate::env) fn cannot_join(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::InUse,
            format!(
                "{}: processes have the environment open in a way that this one cannot join: {why}",
                self.path.display()
            ),
        )
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.lock.unlock_attach();
    }
}

/// What a process says of itself at the entrance: its number, among which processes it has that, and the
/// beginning of its command.
fn own_note() -> String {
    let among = machine::process_namespace().unwrap_or_default();
    let command: String = machine::command().chars().take(COMMAND_CHARS).collect();
    format!("{} {among} {command}", std::process::id())
}

/// The number of the process that left a note, if it means the same process here.
fn pid_of(note: &str) -> Option<u32> {
    let mut words = note.split(' ');
    let pid = words.next()?.parse().ok()?;
    (words.next()? == machine::process_namespace()?).then_some(pid)
}

/// The error of a process that was held up at the entrance.
fn held_up(path: &Path, note: &str, is_stopped: bool, waited: Duration) -> Error {
    let mut words = note.splitn(3, ' ');
    let who = match (words.next().filter(|pid| !pid.is_empty()), words.nth(1)) {
        (Some(pid), Some(command)) => format!("process {pid} ({command})"),
        _ => "another process".to_owned(),
    };
    let what = if is_stopped {
        "is stopped while it opens or closes the environment: let it continue, or kill it"
    } else {
        "has been opening or closing the environment all that time: find out what it does; nothing is lost \
         if it is killed"
    };
    Error::new(ErrorKind::InUse, format!("{}: waited for {waited:?}, and {who} {what}", path.display()))
}

/// The error of a process that finds the whole lock file locked, and in it, as a note, the number of the
/// process that has locked it.
pub(in crate::env) fn taken_alone(path: &Path, note: &str) -> Error {
    let who = match note.split(' ').next().and_then(|pid| pid.parse::<u32>().ok()) {
        Some(pid) => format!("process {pid} (if that is a number here)"),
        None => "a process".to_owned(),
    };
    Error::new(
        ErrorKind::InUse,
        format!(
            "{}: {who} has the environment open exclusively; close it there, open it shared in both \
             processes, or open it read-only",
            path.display()
        ),
    )
}

fn open_lock(path: &Path, file_mode: Option<u32>) -> Result<LockFile> {
    LockFile::open(path, file_mode).map_err(|e| Error::io("opening", path, e))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_waits_at_the_entrance_is_told_which_process_is_stopped_there() {
        let path = std::env::temp_dir().join(format!("sablecat-entrance-{}", std::process::id()));
        let there = Entrance::enter(&path, Some(0o600)).unwrap();
        let refused = |stopped| {
            Entrance::enter_within(&path, None, Duration::from_millis(10), stopped)
                .err()
                .expect("somebody is there")
        };
        let error = refused(Duration::MAX);
        assert!(error.to_string().contains(&format!("process {} (", std::process::id())), "{error}");

        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let kill = |signal: &str| {
            assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success())
        };
        kill("-STOP");
        while !liveness::is_stopped(child.id()) {
            std::thread::yield_now();
        }
        let note = own_note().replacen(&std::process::id().to_string(), &child.id().to_string(), 1);
        Membership::outside(open_lock(&path, None).unwrap()).leave_note(&note);
        let error = Entrance::enter_within(&path, None, Duration::MAX, Duration::ZERO)
            .err()
            .expect("somebody is there");
        assert_eq!(error.kind(), ErrorKind::InUse);
        assert!(
            error.to_string().contains(&format!("process {} (", child.id()))
                && error.to_string().contains("is stopped"),
            "{error}"
        );
        child.kill().unwrap();
        child.wait().unwrap();

        drop(there);
        let there = Entrance::enter_within(&path, None, Duration::ZERO, Duration::ZERO).unwrap();
        drop(there);
        assert_eq!(std::fs::read(&path).unwrap().trim_ascii(), b"", "nobody is there");
        std::fs::remove_file(&path).unwrap();
    }
}

//! Being one of the processes that share a region.

use std::path::Path;

use sablecat_os::liveness::{Holder, LockFile};

/// The byte of the lock file under which processes enter and leave, one at a time.
const ATTACH_BYTE: u64 = 0;

/// The byte of the lock file that a member holds.
fn member_byte(number: u16) -> u64 {
    ATTACH_BYTE + 1 + u64::from(number)
}

/// The number of no member.
const OUTSIDE: u16 = u16::MAX;

/// This process as a member: its number, and the lock that says it lives. Ends when dropped, or with the
/// process.
#[derive(Debug)]
pub(crate) struct Membership {
    lock: LockFile,
    pub(super) number: u16,
}

impl Membership {
    /// The member `number`, whose byte of `lock` this process holds.
    pub(crate) fn new(lock: LockFile, number: u16) -> Membership {
        Membership { lock, number }
    }

    /// A process that is no member, and asks after members.
    pub(crate) fn outside(lock: LockFile) -> Membership {
        Membership::new(lock, OUTSIDE)
    }

    /// Whether a member lives. One that cannot be asked after counts as alive.
    pub(crate) fn is_alive(&self, member: u16) -> bool {
        self.ask_after(member).unwrap_or(true)
    }

    /// Whether a member lives, as the system says.
    pub(crate) fn ask_after(&self, member: u16) -> std::io::Result<bool> {
        Ok(member == self.number || self.lock.holder(member_byte(member))? != Holder::Nobody)
    }

    /// Takes the member's byte; false if another process has it.
    pub(crate) fn take(&self) -> std::io::Result<bool> {
        self.lock.try_lock(member_byte(self.number))
    }

    /// Lets go of the member's byte: it has left.
    pub(crate) fn give_up(&self) {
        // Should it fail, the end of the process does it.
        let _ = self.lock.unlock(member_byte(self.number));
    }

    /// Whether any process but this one is a member.
    pub(crate) fn anybody_lives(&self) -> std::io::Result<bool> {
        self.lock.is_any_held_from(member_byte(0))
    }

    /// Whether a process has the environment for itself alone.
    pub(crate) fn whole_file_is_taken(&self) -> std::io::Result<bool> {
        Ok(self.lock.holder(ATTACH_BYTE)? == Holder::Whole)
    }

    /// Tries to be the process that enters or leaves, and leaves a note that says which process that is. True
    /// if it is this process now.
    pub(crate) fn try_attach_lock(&self, note: impl FnOnce() -> String) -> std::io::Result<bool> {
        let is_mine = self.lock.try_lock(ATTACH_BYTE)?;
        if is_mine {
            self.lock.leave_note(&note());
        }
        Ok(is_mine)
    }

    #[cfg(test)]
    pub(crate) fn leave_note(&self, note: &str) {
        self.lock.leave_note(note);
    }

    /// The note of the process that enters or leaves.
    pub(crate) fn attach_note(&self) -> String {
        self.lock.note()
    }

    /// Whether other processes, which open the lock file at `path`, do not find this member's byte locked.
    pub(crate) fn seems_dead(&self, path: &Path) -> bool {
        LockFile::open_to_ask(path)
            .is_ok_and(|others| matches!(others.holder(member_byte(self.number)), Ok(Holder::Nobody)))
    }

    /// The lock is not this process's any more.
    pub(super) fn lose(&self) {
        self.lock.lose();
    }

    /// Lets the next one enter or leave.
    pub(crate) fn unlock_attach(&self) {
        self.lock.leave_note("");
        // Should it fail, the end of the process does it.
        let _ = self.lock.unlock(ATTACH_BYTE);
    }
}

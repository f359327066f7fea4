//! What is to go wrong, and when: a count of calls and a plan over it.

use std::io;

/// Something that goes wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call answers with an error of this kind and does nothing.
    Error(io::ErrorKind),
    /// A write stops part of the way and answers `WriteZero`.
    ShortWrite,
    /// A write, or another call that takes space, finds none: `StorageFull`. Part of a write may be done. So
    /// may a call that gives some back, which has to write down where the hole is.
    DiskFull,
    /// A sync answers with an error. Any part of what it was to make durable is; the rest never will be,
    /// however often one syncs again, and may be read for a while or not: the system drops what it could not
    /// write.
    SyncFails,
    /// A write answers that it is done, and so does the sync after it, but nothing gets to the disk: what was
    /// there before is there.
    LostWrite,
    /// As [`Fault::LostWrite`]; and the bytes are written to another place of the file, aligned as the right
    /// one is.
    MisdirectedWrite,
    /// An opening finds no file descriptor left, nor does the sync of a directory, which opens it: `EMFILE`,
    /// and nothing is done.
    NoDescriptor,
}

/// What a call wants of the disk, as far as faults care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    /// Opens a file that exists.
    Open,
    /// Opens a file, and makes it if need be.
    Make,
    Write,
    /// Takes space without bytes: creating, growing, reserving.
    Grow,
    /// Gives space back.
    Punch,
    /// Changes names and takes no space.
    Rename,
    Sync,
    SyncDir,
    /// A write through a window.
    Window,
}

impl Fault {
    fn suits(self, call: Call) -> bool {
        match self {
            Fault::Error(_) => true,
            Fault::ShortWrite | Fault::LostWrite | Fault::MisdirectedWrite => call == Call::Write,
            Fault::DiskFull => {
                matches!(call, Call::Write | Call::Grow | Call::Make | Call::Punch)
            }
            Fault::SyncFails => matches!(call, Call::Sync | Call::SyncDir),
            Fault::NoDescriptor => matches!(call, Call::Open | Call::Make | Call::SyncDir),
        }
    }
}

/// The plan.
#[derive(Debug, Default)]
pub(super) struct Plan {
    calls: u64,
    faults: Vec<(u64, Fault)>,
    crash_at: Option<u64>,
    crashed: bool,
}

impl Plan {
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn crashed(&self) -> bool {
        self.crashed
    }

    pub(super) fn fail_at(&mut self, call: u64, fault: Fault) {
        self.faults.push((call, fault));
        // Stable: of two faults at one call the one planned first comes first.
        self.faults.sort_by_key(|(call, _)| *call);
    }

    pub(super) fn crash_at(&mut self, call: u64) {
        self.crash_at = Some(call);
    }

    pub(super) fn clear(&mut self) {
        *self = Plan { calls: self.calls, ..Plan::default() };
    }

    /// Counts a call and says what is to go wrong in it. Calls after the crash are not counted: they do not
    /// happen.
    pub(super) fn count(&mut self, call: Call) -> io::Result<Option<Fault>> {
        if self.crash_at.is_some_and(|last| self.calls >= last) {
            self.crashed = true;
            return Err(io::Error::other(PowerLost));
        }
        self.calls += 1;
        let due = |(at, fault): &(u64, Fault)| *at <= self.calls && fault.suits(call);
        match self.faults.iter().position(due).map(|place| self.faults.remove(place).1) {
            Some(Fault::Error(kind)) => Err(io::Error::new(kind, "simulated fault")),
            Some(Fault::NoDescriptor) => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            other => Ok(other),
        }
    }
}

/// The error that every call answers with once the power is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerLost;

impl PowerLost {
    /// Whether an error is this one.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<PowerLost>())
    }
}

impl std::fmt::Display for PowerLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("simulated power loss")
    }
}

impl std::error::Error for PowerLost {}

/// What the system says when a device did not take what it was given.
pub(super) fn sync_failed() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

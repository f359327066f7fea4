//! Members: the attached processes.
//!
//! A member's number is the byte it holds locked in the environment's lock file for as long as it is attached; whether it lives is asked of
//! that lock, never of what stands here. The rest is for people, but for which file it has open: who enters compares that. Written under the attach lock: by the member when it enters and leaves,
//! and by whoever has reaped it.
//!
//! The *incarnation* is for processes that live although they were taken for dead, since the lock was closed behind their backs. Who reaps a member makes it another before
//! anything else; a process whose member has another incarnation than when it entered touches nothing that is shared any more. An odd one is that of a process, an even one
//! that of nobody, or of a process found dead. It changes by compare-and-swap, and whoever enters makes it another too, its lock held: so who has found a process dead, and comes
//! late to say so, does not say it of the next one.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};
use sablecat_os::disk::FileId;

/// Words kept of the command a member runs.
const COMMAND_WORDS: usize = 12;

/// A process as what may outlive it names it: the number of its member, and the low half of the incarnation that it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    pub(crate) member: u16,
    pub(crate) incarnation: u32,
}

/// One attached process.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Member {
    /// 0 if nobody stands here, else the low half of an odd incarnation.
    used: AtomicU32,
    pid: AtomicU32,
    /// The main volume's file as this process has it open: file system and number, 0 if it has none.
    volume: [AtomicU64; 2],
    incarnation: AtomicU64,
    command: [AtomicU64; COMMAND_WORDS],
}

/// What says that a process stands somewhere, of its incarnation or of the one that says it dead.
pub(super) fn used_as(incarnation: u64) -> u32 {
    incarnation.wrapping_sub(1) as u32 | 1
}

impl Member {
    /// Enters a process, whose lock is held.
    pub(crate) fn enter(&self, pid: u32, volume: Option<FileId>, command: &str) {
        let bytes = command.as_bytes();
        for (n, word) in self.command.iter().enumerate() {
            let mut eight = [0; 8];
            let part = bytes.get(8 * n..).unwrap_or_default();
            let len = part.len().min(8);
            eight[..len].copy_from_slice(&part[..len]);
            // Relaxed: for people.
            word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        self.pid.store(pid, Ordering::Relaxed);
        let volume = volume.map_or([0; 2], |id| [id.device, id.number]);
        // Relaxed: read under the attach lock, under which this is.
        self.volume.iter().zip(volume).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.used.store(used_as(self.incarnation.load(Ordering::SeqCst)), Ordering::SeqCst);
    }

    /// Strikes out the process that stood here as this incarnation, or whom this one says to be dead; unless another stands here by now. None of its slots is in use any
    /// more.
    pub(crate) fn leave(&self, incarnation: u64) {
        let _ = self.used.compare_exchange(used_as(incarnation), 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Which process stands here, of those that ever had the number and did not leave by themselves.
    pub(crate) fn incarnation(&self) -> &AtomicU64 {
        &self.incarnation
    }

    /// A process enters, whose lock is held: which incarnation it is.
    pub(crate) fn begin(&self) -> u64 {
        loop {
            let seen = self.incarnation.load(Ordering::SeqCst);
            let mine = seen.wrapping_add(1) | 1;
            if self.incarnation.compare_exchange(seen, mine, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return mine;
            }
        }
    }

    /// From now on the process that stands here as this incarnation counts for nothing: the incarnation that says so. None if another stands here by now.
    pub(crate) fn fence(&self, seen: u64) -> Option<u64> {
        let fenced = seen.wrapping_add(seen & 1);
        self.incarnation.compare_exchange(seen, fenced, Ordering::SeqCst, Ordering::SeqCst).is_ok().then_some(fenced)
    }

    /// The same, unless another incarnation than this one stands here by now.
    pub(crate) fn fence_from(&self, incarnation: u64) {
        let _ = self.incarnation.compare_exchange(incarnation, incarnation + 1, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a process stands here, alive or not.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::SeqCst) != 0
    }

    /// Whether the process still stands here that was this incarnation: it has not left, and was not reaped. SeqCst: who finds it gone finds all that it, or who
    /// reaped it, has done.
    pub(super) fn stands_as(&self, incarnation: u32) -> bool {
        self.used.load(Ordering::SeqCst) == incarnation
    }

    /// Which file it has open as the main volume, if its disk can tell.
    pub(crate) fn volume(&self) -> Option<FileId> {
        let [device, number] = [0, 1].map(|n| self.volume[n].load(Ordering::Relaxed));
        (number != 0).then_some(FileId { device, number })
    }

    /// The process's number, in its own namespace.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// The beginning of its command.
    pub(crate) fn command(&self) -> String {
        let bytes: Vec<u8> = self.command.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
}

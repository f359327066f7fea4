//! Members: the attached processes.
//!
//! A member's number is the byte it holds locked in the environment's lock file for as long as it is attached; whether it lives is asked of
//! that lock, never of what stands here. The rest is for people. Written under the attach lock: by the member when it enters and leaves,
//! and by whoever has reaped it.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words kept of the command a member runs.
const COMMAND_WORDS: usize = 6;

/// One attached process.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Member {
    used: AtomicU32,
    pid: AtomicU32,
    command: [AtomicU64; COMMAND_WORDS],
}

impl Member {
    /// Enters a process, whose lock is held.
    pub(crate) fn enter(&self, pid: u32, command: &str) {
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
        self.used.store(1, Ordering::SeqCst);
    }

    /// Strikes a process out; none of its slots is in use any more.
    pub(crate) fn leave(&self) {
        self.used.store(0, Ordering::SeqCst);
    }

    /// Whether a process stands here, alive or not.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::SeqCst) != 0
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

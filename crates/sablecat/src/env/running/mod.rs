//! A running kernel with its settings, and what there is to see of it: which processes have it open and what
//! they hold (`processes`), what all of them have done (`counters`), its volumes (`volumes`), which files are
//! its own (`own_files`); and how far what was committed has come.

pub(in crate::env) mod counters;
mod own_files;
pub(in crate::env) mod processes;
mod volumes;

pub use volumes::VolumeStats;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sablecat_os::clock;

use crate::env::config::{Config, EnvMode};
use crate::error::{Error, ErrorKind, Result};
use crate::txn::{Kernel, caller};
use crate::types::Lsn;

/// After which pause a thread that waits for a commit looks for the first time; twice as long each time
/// after,
const LOOK_FIRST_AFTER: Duration = Duration::from_micros(50);
/// until it is this. Nobody rings: commits would have to look for threads that wait.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// A kernel that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) kernel: Kernel,
    pub(crate) config: Config,
    pub(crate) mode: EnvMode,
    /// Where it lives; none: in memory alone.
    pub(crate) directory: Option<PathBuf>,
    /// The file of the shared region; none when the environment is private.
    pub(in crate::env) shared: Option<PathBuf>,
}

impl Running {
    /// # Errors
    /// `ReadOnly` if it was opened to be read only.
    #[inline]
    pub(in crate::env) fn check_writable(&self) -> Result<()> {
        if self.config.read_only { Err(read_only()) } else { Ok(()) }
    }

    /// The directory by which it is named; none: in memory alone.
    pub(crate) fn path(&self) -> Option<&Path> {
        let held = self.config.held.as_ref().map(|held| &held.directory);
        held.or(self.directory.as_ref()).map(PathBuf::as_path)
    }

    /// The LSN of the last checkpoint.
    pub(crate) fn checkpointed(&self) -> Lsn {
        self.kernel.pages.checkpointed()
    }

    /// Makes everything committed so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.flush_log_to(self.kernel.pages.newest())?;
        // Also when everything was durable before it was poisoned: nothing that comes will be.
        self.kernel.log.fail_if_poisoned()?;
        self.kernel.pages.fail_if_poisoned()
    }

    /// Makes everything committed at or below an LSN durable.
    pub(crate) fn make_durable(&self, lsn: Lsn) -> Result<()> {
        let visible = self.kernel.pages.newest();
        if lsn > visible {
            return Err(Error::invalid(format!(
                "making everything up to LSN {lsn} durable: the newest commit is at {visible}; wait for it \
                 first"
            )));
        }
        self.flush_log_to(lsn)?;
        self.kernel.pages.fail_if_poisoned()
    }

    /// Has the log durable up to an LSN.
    pub(in crate::env) fn flush_log_to(&self, lsn: Lsn) -> Result<()> {
        let seat = self.kernel.pages.participants.sit()?;
        let me = caller(&self.kernel.pages, seat.number());
        self.kernel.pages.unless_cut_short(|| self.kernel.log.make_durable(lsn, me))
    }

    /// Waits until transactions that begin see what was committed at an LSN.
    pub(crate) fn wait_visible(&self, lsn: Lsn, time: Duration) -> Result<()> {
        let begun = clock::monotonic();
        let mut pause = LOOK_FIRST_AFTER;
        loop {
            self.kernel.pages.catch_up()?;
            let pages = &self.kernel.pages;
            let visible = pages.lsn_of(pages.newest());
            if visible >= lsn {
                return Ok(());
            }
            let left = time.saturating_sub(clock::monotonic().saturating_sub(begun));
            if left.is_zero() {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "waited {time:?} until what was committed at LSN {lsn} is visible: the newest \
                         commit visible here is at {visible}"
                    ),
                ));
            }
            pages.check_fence()?;
            sablecat_os::atomic::pause(pause.min(left));
            pause = (pause * 2).min(LOOK_AGAIN_AFTER);
        }
    }
}

#[cold]
fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the environment was opened read-only; open it for writing")
}

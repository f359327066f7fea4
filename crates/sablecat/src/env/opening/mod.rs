//! From a directory to a running environment, and back: `open`ing, joining the processes that have it open
//! (`attach`) or only reading its last checkpoint (`read_only`), the threads that keep house
//! (`housekeeping`), changing keys (`encryption`), and closing.

mod attach;
#[cfg(feature = "encryption")]
mod encryption;
mod housekeeping;
pub(in crate::env) mod open;
mod read_only;

#[cfg(feature = "encryption")]
pub use encryption::{EncipherReport, EncryptionStats};

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use sablecat_os::disk::File;

use crate::env::config::{Config, EnvMode};
use crate::env::databases::Databases;
use crate::env::recovery::RecoveryReport;
use crate::env::running::Running;
use crate::env::streams::Streams;
use crate::env::upkeep::Upkeep;
use crate::error::Result;
use crate::pages::volume::Journal;
use crate::txn::Kernel;

/// A running environment, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Core {
    streams: Streams,
    pub(crate) recovery: RecoveryReport,
    keeper: housekeeping::Keeper,
    /// Locked against other processes for as long as the environment is open. After the volume and the log,
    /// so that it is let go last.
    _lock: Option<Arc<dyn File>>,
}

/// Where an environment lives, and what says that it is in use.
#[derive(Debug, Default)]
struct EnvPlace {
    /// None: in memory alone.
    directory: Option<PathBuf>,
    /// The lock of a process that has the environment for itself.
    lock: Option<Arc<dyn File>>,
    /// The file of the shared region; none when the environment is private.
    region: Option<PathBuf>,
}

impl Core {
    /// An environment over a kernel, which keeps no house yet.
    fn new(
        kernel: Kernel,
        config: Config,
        (mode, journal): (EnvMode, Option<Journal>),
        recovery: RecoveryReport,
        place: EnvPlace,
    ) -> Arc<Core> {
        let running = Running { kernel, config, mode, directory: place.directory, shared: place.region };
        Arc::new(Core {
            streams: Streams::new(Databases::new(Upkeep::new(running, journal))),
            recovery,
            keeper: housekeeping::Keeper::default(),
            _lock: place.lock,
        })
    }

    /// Stops the housekeeping thread, writes a last checkpoint, and removes the log, of which nothing is
    /// needed then; when the environment is shared, the last to leave does.
    pub(crate) fn close(&self) -> Result<()> {
        if self.kernel.pages.participants.is_inherited() {
            // In a child made by fork nothing of this is the child's.
            return Ok(());
        }
        self.keeper.stop(&self.kernel);
        if self.config.read_only {
            return Ok(());
        }
        self.kernel.free_pages_later();
        if self.shared.is_some() {
            return self.detach();
        }
        if self.kernel.pages.volume().is_none() {
            return Ok(());
        }
        // First: if the checkpoint finds no room, the log is what there is. If this fails, the checkpoint may
        // be made all the same, and has everything then; if both fail, what is lost is said by this error.
        let flushed = if self.kernel.log.keeps_records() { self.flush_log() } else { Ok(()) };
        // Also when nothing was committed since the last checkpoint: the next opening then knows that there
        // is no log to look at.
        self.leave_files().map_err(|error| flushed.err().unwrap_or(error))
    }
}

impl Deref for Core {
    type Target = Streams;

    #[inline(always)]
    fn deref(&self) -> &Streams {
        &self.streams
    }
}

//! Numbers about an environment.

use crate::env::{Core, VolumeStats};
use crate::error::Result;
use crate::types::Lsn;

/// Numbers about an environment, taken one after the other while others work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The names of the databases.
    pub databases: Vec<String>,
    /// How the records of each of them are arranged, in the same order: what its [`Method`](crate::Method) is called, or, of one that this version of the library does not know, `unknown
    /// method` and its number.
    pub methods: Vec<String>,
    /// Bytes of a page.
    pub page_size: u64,
    /// Bytes of the page cache.
    pub cache_bytes: u64,
    /// Page numbers in use, and those that only older snapshots see.
    pub pages: u64,
    /// Blocks of the volumes in use; 0 in memory alone.
    pub blocks: u64,
    /// Bytes of the volumes' files; 0 in memory alone.
    pub volume_bytes: u64,
    /// The volumes, the main one first; none in memory alone.
    pub volumes: Vec<VolumeStats>,
    /// The end of the log.
    pub log_tail: Lsn,
    /// Everything below is with the operating system.
    pub log_written: Lsn,
    /// Everything below is on stable storage.
    pub log_durable: Lsn,
    /// Record locks that were not to be had at once, since the environment was opened.
    pub lock_waits: u64,
    /// Waits for record locks that ended in a deadlock error.
    pub deadlocks: u64,
    /// Waits for record locks that ended in a timeout.
    pub lock_timeouts: u64,
    /// The last checkpoint: recovery replays from here.
    pub checkpoint: Lsn,
}

impl Stats {
    pub(super) fn of(core: &Core) -> Result<Stats> {
        let kernel = &core.kernel;
        let geometry = kernel.pages.region.geometry();
        let volume = kernel.pages.volume();
        let locks = kernel.locks.counts();
        // Of the log a reader of the last checkpoint sees what is in that.
        let log = |lsn| if core.config.read_only { core.checkpointed() } else { lsn };
        let ((databases, methods), volumes) = (core.database_methods()?, core.volumes()?);
        Ok(Stats {
            databases,
            methods,
            page_size: geometry.block_size as u64,
            cache_bytes: ((geometry.frames - 1) * geometry.block_size) as u64,
            pages: kernel.pages.page_ids().used_count().saturating_sub(1),
            blocks: volumes.iter().map(|volume| volume.blocks).sum(),
            volume_bytes: volume.map_or(Ok(0), |volume| volume.file_bytes())?,
            volumes,
            log_tail: log(kernel.log.tail()),
            log_written: log(kernel.log.written()),
            log_durable: log(kernel.log.durable()),
            lock_waits: locks.waits,
            deadlocks: locks.deadlocks,
            lock_timeouts: locks.timeouts,
            checkpoint: core.checkpointed(),
        })
    }
}

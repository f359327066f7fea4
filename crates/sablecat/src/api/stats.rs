//! Numbers about an environment.

use std::collections::BTreeMap;

use crate::access::Estimate;
use crate::env::{Core, VolumeStats};
use crate::error::Result;
use crate::txn::{Holds, IndexInfo, TreeRef};
use crate::types::Lsn;

/// Statistics of an environment, read one after the other while others work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The names of the databases.
    pub databases: Vec<String>,
    /// The access method of each of them, in the same order: the name of its [`Method`](crate::Method), or,
    /// for one that this version of the library does not know, `unknown method` and its number.
    pub methods: Vec<String>,
    /// What kind of records each of them holds, in the same order.
    pub holds: Vec<Holds>,
    /// The databases that are indices, by name, with what they are.
    pub indices: BTreeMap<String, IndexInfo>,
    /// The names of those of them that are [temporary](crate::DatabaseOptions::temporary).
    pub temporary: Vec<String>,
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
    /// Bytes that they take on their file systems: fewer than the files' bytes if there are holes in them,
    /// for pages that were compressed, or since the last process to use the environment left some.
    pub occupied_bytes: u64,
    /// How it is encrypted; none: it is not.
    #[cfg(feature = "encryption")]
    pub encryption: Option<crate::EncryptionStats>,
    /// The volumes, the main one first; none in memory alone.
    pub volumes: Vec<VolumeStats>,
    /// The end of the log.
    pub log_tail: Lsn,
    /// Everything below this LSN is written to the operating system.
    pub log_written: Lsn,
    /// Everything below this LSN is on stable storage.
    pub log_durable: Lsn,
    /// Record locks that had to be waited for, since the environment was opened.
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
        let volume = kernel.pages.volume();
        let locks = kernel.locks.counts();
        // Of the log a reader of the last checkpoint sees what is in that.
        let log = |lsn| if core.config.read_only { core.checkpointed() } else { lsn };
        let (kinds, volumes) = (core.database_kinds()?, core.volumes()?);
        Ok(Stats {
            databases: kinds.names,
            methods: kinds.methods,
            holds: kinds.holds,
            indices: kinds.indices,
            temporary: kinds.temporary,
            page_size: kernel.pages.block_size() as u64,
            cache_bytes: ((kernel.pages.frames_max() - 1) * kernel.pages.block_size()) as u64,
            pages: kernel.pages.page_ids().used_count().saturating_sub(1),
            blocks: volumes.iter().map(|volume| volume.blocks).sum(),
            occupied_bytes: volumes.iter().map(|volume| volume.occupied).sum(),
            volume_bytes: volume.map_or(Ok(0), |volume| volume.file_bytes())?,
            #[cfg(feature = "encryption")]
            encryption: core.encryption(),
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

/// The size of a database, exact or an estimate: see [`Database::stats`](crate::Database::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseStats {
    /// Pages on the way from the root to a record, both ends counted. Always exact; long keys take more.
    pub depth: u32,
    /// Pages that it consists of, including those of long values.
    pub pages: u64,
    /// Records.
    pub records: u64,
    /// Bytes in use in its pages: keys, values, and what leads to them; without the headers of pages.
    pub bytes: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// Whether all of its pages were read, so that everything here is exact. If not, it is estimated from 64
    /// paths from the root to a leaf.
    pub is_exact: bool,
}

impl DatabaseStats {
    pub(super) fn of(core: &Core, tree: &TreeRef) -> Result<DatabaseStats> {
        let Estimate { depth, sum, is_exact } = core.kernel.estimate(tree)?;
        let whole = |number: f64| number.round() as u64;
        Ok(DatabaseStats {
            depth,
            pages: whole(sum.pages),
            records: whole(sum.records),
            bytes: whole(sum.bytes),
            page_size: core.kernel.pages.page_size() as u64,
            is_exact,
        })
    }

    /// The fraction of its pages that is in use, from 0 to 1. About 0.7 is usual where records came in random
    /// order; much less means that records were removed in random order, and that loading the rest again
    /// would save room.
    #[must_use]
    pub fn fill(&self) -> f64 {
        if self.pages == 0 { 0.0 } else { self.bytes as f64 / (self.pages * self.page_size) as f64 }
    }
}

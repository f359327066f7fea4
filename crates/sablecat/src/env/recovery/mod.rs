//! Recovery: from the files to a kernel that has what they say.
//!
//! The kernel over a region; forward replay of the log over the last checkpoint (`recover`), after which
//! temporary databases are emptied (`temporary`); going back to an epoch, and forwards from there
//! (`backward`).

pub(in crate::env) mod backward;
pub(in crate::env) mod recover;
mod temporary;

pub use recover::RecoveryReport;

use std::path::Path;
use std::sync::Arc;

use crate::access;
use crate::env::config::{Config, Mode};
use crate::env::files::{LOG, log_config, log_memory};
use crate::error::Result;
use crate::log::Log;
use crate::pages::Pages;
use crate::pages::volume::{Codec, Journal, Superblock, Volume};
use crate::region::{Geometry, Region};
use crate::txn::catalog::FIRST_TREE;
use crate::txn::locks::LockTable;
use crate::txn::{self, Kernel};

/// Bytes of a write set that stay in memory.
const SPILL_BYTES_MIN: usize = 256 << 10;
const SPILL_BYTES_MAX: usize = 64 << 20;

/// The kernel over a region, which may be in use already.
pub(in crate::env) fn build_kernel(
    directory: Option<&Path>,
    volume: Option<Volume>,
    region: &Arc<Region>,
    config: &Config,
    (mode, journal): (Mode, Option<&Journal>),
) -> Result<Kernel> {
    // A part of the cache, within bounds.
    let bytes_max =
        (region.geometry().frames * region.page_size() / 4).clamp(SPILL_BYTES_MIN, SPILL_BYTES_MAX);
    let keys = volume.as_ref().and_then(Volume::keyring).cloned();
    let spill = directory.map(|directory| txn::runs::Place {
        disk: Arc::clone(&config.disk),
        directory: directory.to_owned(),
        bytes_max,
        cipher: keys.as_ref().map(|keys| keys.cipher()),
    });
    let log_disk = directory.filter(|_| mode == Mode::Transactional).map(|_| Arc::clone(&config.disk));
    let uuid = volume.as_ref().map_or([0; 16], |volume| volume.superblock().uuid);
    let log_config = log_config(config, uuid, directory, journal, keys);
    let log =
        Log::open(log_disk, &directory.unwrap_or(Path::new("")).join(LOG), log_config, log_memory(region))?;
    let locks = LockTable::new(region).with_policy(config.deadlock_policy);
    let pages = Pages::new(Arc::clone(region), volume, access::PAGE_KINDS)?;
    Ok(Kernel::new(pages, (log, locks), config.lock_timeout, spill))
}

/// Makes a new region go on from a superblock: what it says is in use is, until the maps have been looked at.
pub(in crate::env) fn begin_from(kernel: &Kernel, superblock: &Superblock) -> Result<()> {
    kernel.pages.begin_from(superblock, FIRST_TREE)
}

/// What a region is sized for.
pub(in crate::env) fn geometry(config: &Config, codec: Codec, bounded: bool) -> Geometry {
    let block_size = codec.block_size();
    Geometry::new(block_size, config.cache_for(block_size), config.log_buffer_bytes, bounded)
        .with_pages_of(codec.page_size())
}

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
use crate::env::config::{Config, EnvMode};
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

/// Places for pages and blocks, where the process cannot have the address space for all.
struct Room {
    /// So many times what there is.
    times: u64,
    /// As many at least.
    pages_min: u64,
    blocks_min: u64,
}

/// The one, or else the other: 180 MB and 10 MB for a small environment; 64 GB and 4 GB in pages of 4 KiB.
const ROOMS: [Room; 2] = [
    Room { times: 16, pages_min: 1 << 24, blocks_min: 1 << 28 },
    Room { times: 4, pages_min: 1 << 20, blocks_min: 1 << 22 },
];

/// The kernel over a region, which may be in use already.
pub(in crate::env) fn build_kernel(
    directory: Option<&Path>,
    volume: Option<Volume>,
    region: &Arc<Region>,
    config: &Config,
    (mode, journal): (EnvMode, Option<&Journal>),
) -> Result<Kernel> {
    // A part of the cache, within bounds.
    let bytes_max =
        (region.geometry().frames * region.page_size() / 4).clamp(SPILL_BYTES_MIN, SPILL_BYTES_MAX);
    let keys = volume.as_ref().and_then(|volume| volume.keyring()).cloned();
    let spill = directory.map(|directory| txn::runs::SpillSettings {
        disk: Arc::clone(&config.disk),
        directory: directory.to_owned(),
        bytes_max,
        cipher: keys.as_ref().map(|keys| keys.cipher()),
    });
    let log_disk = directory.filter(|_| mode == EnvMode::Transactional).map(|_| Arc::clone(&config.disk));
    let uuid = volume.as_ref().map_or([0; 16], |volume| volume.superblock().uuid);
    let log_config = log_config(config, uuid, directory, journal, keys);
    let log =
        Log::open(log_disk, &directory.unwrap_or(Path::new("")).join(LOG), log_config, log_memory(region))?;
    let locks = LockTable::new(region).with_policy(config.deadlock_policy);
    let pages = Pages::new(Arc::clone(region), volume, access::PAGE_KINDS)?;
    Ok(Kernel::new(pages, (log, locks), config.lock_timeout, spill, config.newest_layer_bytes))
}

/// Makes a new region go on from a superblock: what it says is in use is, until the maps have been looked at.
pub(in crate::env) fn begin_from(kernel: &Kernel, superblock: &Superblock) -> Result<()> {
    kernel.pages.begin_from(superblock, FIRST_TREE)
}

/// What a region is sized for, over a volume (none: in memory alone). Where the process cannot have the
/// address space that places for all pages take, which is 74 GB, or may make no file as long for others to
/// share, there are places for some multiple of what the volume has: what is opened again then has room.
pub(in crate::env) fn geometry(config: &Config, codec: Codec, volume: Option<&Volume>) -> Geometry {
    let block_size = codec.block_size();
    let cache_bytes = config.cache_for(block_size);
    let whole = Geometry::new(block_size, cache_bytes, config.log_buffer_bytes, volume.is_none())
        .with_pages_of(codec.page_size())
        .with_volumes(volume.map_or(1, |volume| volume.count()));
    let Some(superblock) = volume.map(Volume::superblock) else { return whole };
    let smaller = ROOMS.map(|Room { times, pages_min, blocks_min }| {
        let of = |used: u64, least: u64| used.saturating_mul(times).max(least);
        let pages = of(superblock.pages_high.into(), pages_min);
        whole.clone().with_places_for(pages, of(superblock.bounds().highest(), blocks_min))
    });
    let [some, few] = smaller;
    [whole, some].into_iter().find(|sizes| Region::can_be(sizes, config.shared)).unwrap_or(few)
}

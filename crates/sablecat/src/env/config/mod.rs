//! What an environment can be told when it is opened, and what it does when it is told nothing.

pub(in crate::env) mod functions;
mod held;
mod wall_clock;

pub use functions::IndexKeys;
pub(crate) use functions::{Extractor, Functions, Nullifier};
pub(crate) use held::HeldEnvironment;
pub(in crate::env) use held::NAME as HELD_NAME;
pub(crate) use wall_clock::WallClock;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::disk::{Disk, HostDisk};

use crate::access::Method;
use crate::access::SEED_BYTES;
use crate::crypt::Encryption;
use crate::error::{Error, Result};
use crate::log::SEGMENT_BYTES_MIN;
use crate::pages::volume::{Codec, Compression, Declared, Journal};
use crate::region::RING_BYTES;
use crate::txn::{Comparator, DeadlockPolicy, Durability, Isolation};

/// What an environment is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EnvMode {
    /// Transactions, a log, many threads.
    Transactional,
    /// The Data Store: one handle, no log.
    DataStore,
}

/// The settings of an environment, with defaults that need no tuning.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) disk: Arc<dyn Disk>,
    /// None: what suits the machine.
    pub(crate) cache_bytes: Option<u64>,
    /// Bytes of a block, and of a page with its trailer, of a new environment; none: what suits it.
    pub(crate) page_size: Option<usize>,
    /// Bytes behind each page of a new environment.
    pub(crate) trailer_bytes: usize,
    /// The user's key, and how an environment is enciphered that is made.
    pub(crate) encryption: Option<Encryption>,
    pub(crate) log_segment_bytes: u64,
    pub(crate) log_buffer_bytes: usize,
    pub(crate) durability: Durability,
    pub(crate) isolation: Isolation,
    pub(crate) direct_io: bool,
    pub(crate) sync_io: bool,
    pub(crate) flush_interval: Duration,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) checkpoint_log_bytes: u64,
    /// How often housekeeping sweeps what has expired.
    pub(crate) sweep_interval: Duration,
    /// How large the newest layer of an LSM tree becomes; none: a part of the cache.
    pub(crate) newest_layer_bytes: Option<usize>,
    /// By which records expire.
    pub(crate) clock: WallClock,
    pub(crate) changes_lag_max: u64,
    pub(crate) lock_timeout: Duration,
    pub(crate) deadlock_policy: DeadlockPolicy,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) file_mode: Option<u32>,
    pub(crate) shared: bool,
    pub(crate) region_directory: Option<PathBuf>,
    pub(crate) background: bool,
    pub(crate) comparators: HashMap<String, Arc<Comparator>>,
    /// What keeps indices.
    pub(crate) functions: Arc<Functions>,
    /// How the records of databases are arranged that are made here, if nothing else is asked for.
    pub(crate) method: Method,
    /// What hash tables are made with; none: each with another, by chance.
    pub(crate) hash_seed: Option<[u8; SEED_BYTES]>,
    pub(crate) journaling: Journaling,
    pub(crate) declared: Declared,
    /// The directory in memory that the environment is to be held in from now on, if it is not yet.
    pub(crate) memory: Option<PathBuf>,
    /// Where it is held, once it has been located, if it is.
    pub(crate) held: Option<HeldEnvironment>,
}

/// Whether an environment is to keep a journal from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Journaling {
    /// If it does so far, and as it does.
    #[default]
    AsItIs,
    Off,
    On(Journal),
}

impl Journaling {
    /// What is kept from now on by an environment of which the superblock says what is kept so far.
    pub(crate) fn over(&self, so_far: Option<Journal>) -> Option<Journal> {
        match self {
            Journaling::AsItIs => so_far,
            Journaling::Off => None,
            Journaling::On(journal) => Some(journal.clone()),
        }
    }
}

/// Bytes of a page if nothing is said.
const PAGE_SIZE: usize = 4096;
/// The same if pages are to be compressed: what is saved is a multiple of 4096.
const PAGE_SIZE_COMPRESSED: usize = 32768;
/// The smallest cache: room for the paths of some tens of operations at once.
const CACHE_PAGES_MIN: u64 = 256;

impl Default for Config {
    fn default() -> Config {
        Config {
            disk: Arc::new(HostDisk),
            cache_bytes: None,
            page_size: None,
            trailer_bytes: 0,
            encryption: None,
            log_segment_bytes: 16 << 20,
            log_buffer_bytes: 8 << 20,
            durability: Durability::Sync,
            isolation: Isolation::Serializable,
            direct_io: false,
            sync_io: false,
            flush_interval: Duration::from_millis(50),
            checkpoint_interval: Duration::from_secs(60),
            checkpoint_log_bytes: 128 << 20,
            sweep_interval: Duration::from_secs(1),
            newest_layer_bytes: None,
            clock: WallClock::default(),
            changes_lag_max: 1 << 30,
            lock_timeout: Duration::from_secs(10),
            deadlock_policy: DeadlockPolicy::default(),
            create: true,
            read_only: false,
            file_mode: None,
            shared: false,
            region_directory: None,
            background: true,
            comparators: HashMap::new(),
            functions: Arc::default(),
            method: Method::default(),
            hash_seed: None,
            journaling: Journaling::AsItIs,
            declared: Declared::default(),
            memory: None,
            held: None,
        }
    }
}

/// Refuses a path that is none: it would be the current directory, which nobody means by it.
pub(in crate::env) fn check_directory(directory: &Path) -> Result<()> {
    if directory.as_os_str().is_empty() {
        return Err(Error::invalid(
            "an empty path for the directory of an environment; use \".\" for the current directory",
        ));
    }
    Ok(())
}

impl Config {
    /// Refuses settings that make no sense, saying which.
    pub(crate) fn check(&self) -> Result<()> {
        self.codec()?;
        if !self.log_segment_bytes.is_multiple_of(4096) || self.log_segment_bytes < SEGMENT_BYTES_MIN {
            return Err(Error::invalid(format!(
                "log segments of {} bytes; they must be a multiple of 4096 and at least {SEGMENT_BYTES_MIN}",
                self.log_segment_bytes
            )));
        }
        if !self.log_buffer_bytes.is_power_of_two() || !RING_BYTES.contains(&self.log_buffer_bytes) {
            return Err(Error::invalid(format!(
                "a log buffer of {} bytes; it must be a power of two from {} to {}",
                self.log_buffer_bytes,
                RING_BYTES.start(),
                RING_BYTES.end()
            )));
        }
        if self.file_mode.is_some_and(|mode| mode & !0o666 != 0 || mode & 0o600 != 0o600) {
            return Err(Error::invalid(
                "permission bits for the environment's files: their owner must have read and write \
                 permission, and nobody permission to execute",
            ));
        }
        if let Journaling::On(journal) = &self.journaling {
            journal.check().map_err(Error::invalid)?;
        }
        Ok(())
    }

    /// How the blocks of a new environment are made.
    pub(crate) fn codec(&self) -> Result<Codec> {
        let is_compressed = self.declared.compressions.iter().any(|(_, how)| *how != Compression::None);
        let usual = if is_compressed { PAGE_SIZE_COMPRESSED } else { PAGE_SIZE };
        let page_size = self.page_size.unwrap_or(usual);
        match &self.encryption {
            None => Codec::new(page_size, self.trailer_bytes),
            Some(encryption) => Codec::of_cipher(page_size, Some(encryption.cipher)),
        }
        .map_err(Error::invalid)
    }

    /// Where the files of the environment in a directory are, whatever becomes the current directory: there,
    /// or where in memory they are held; and its region.
    pub(crate) fn locate(&mut self, directory: &Path) -> Result<PathBuf> {
        check_directory(directory)?;
        let absolute = |path: &Path| self.disk.absolute(path).map_err(|e| Error::io("finding", path, e));
        self.region_directory = self.region_directory.as_deref().map(absolute).transpose()?;
        self.memory = self.memory.as_deref().map(absolute).transpose()?;
        let directory = absolute(directory)?;
        self.held = HeldEnvironment::find(&*self.disk, &directory)?;
        Ok(self.held.as_ref().map_or(directory, |held| held.memory.clone()))
    }

    /// Has what is made from now on take after the volume at a path; without one, after the settings.
    pub(crate) fn take_after(&mut self, volume: &Path) -> Result<()> {
        let looking = |e| Error::io("looking at", volume, e);
        if self.disk.exists(volume).map_err(looking)? {
            self.file_mode = self.disk.mode(volume).map_err(looking)?;
        }
        if let Some(disk) = self.file_mode.and_then(|mode| self.disk.with_mode(mode)) {
            self.disk = disk;
        }
        Ok(())
    }

    /// The cache for blocks of a size, never too small to work in.
    pub(crate) fn cache_for(&self, block_size: usize) -> u64 {
        // A quarter of the machine. Memory is taken as it is used, so a small environment stays small.
        let suitable = || (sablecat_os::machine::memory_bytes() / 4).max(64 << 20);
        self.cache_bytes.unwrap_or_else(suitable).max(CACHE_PAGES_MIN * block_size as u64)
    }
}

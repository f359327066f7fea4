//! What is measured: sessions of one store.
//!
//! A session opens a store, does a few runs on it and closes it, in a new process each time (field.rs). It
//! either loads its store once and reopens it in each round, or starts each round from an empty directory;
//! sessions of the same records after each other share one loading.

use std::path::{Path, PathBuf};

use crate::contestant::{Contestant, is_ours};
use crate::mix::{Act, Mix};
use crate::protocol::{Kind, Mode, Open, Request, Run};
use crate::shape::Shape;
use crate::workload::Keys;

/// The seed of all random orders.
const SEED: u64 = 43;

/// One store's life: opened, measured, closed.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) mode: Mode,
    pub(crate) keys: Keys,
    pub(crate) records: u64,
    pub(crate) threads: u32,
    pub(crate) cache_bytes: u64,
    /// The cache is meant to hold everything, so a system that needs more for that gets it.
    pub(crate) in_cache: bool,
    /// Load the records once, before the first round, and keep them through all rounds, and for the next
    /// session if it has the same ones.
    pub(crate) loaded: bool,
    /// Keep the operating system from caching the files.
    pub(crate) uncached: bool,
    pub(crate) log_buffer: u64,
    /// The size of pages, for systems that have pages; 0: what suits the system.
    pub(crate) page_size: u32,
    /// Operations are put together to transactions.
    pub(crate) transactions: bool,
    /// The stores are in memory; those that can be held there, and be found again without it, have their
    /// images in this directory.
    pub(crate) images: Option<PathBuf>,
    pub(crate) shape: Shape,
    /// How many keys that follow each other are visited together.
    pub(crate) together: u64,
    pub(crate) steps: Vec<Step>,
}

/// A measured run of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// How its rows are labelled.
    pub(crate) op: &'static str,
    pub(crate) passes: u32,
    pub(crate) seconds_max: f64,
    /// How many records are visited; 0: all.
    pub(crate) visits: u64,
    /// What is done to which records.
    pub(crate) mix: Option<Mix>,
    /// Whether each operation is timed.
    pub(crate) timed: bool,
    /// How often there is a checkpoint; 0: when the mode or the system says.
    pub(crate) checkpoint_ms: u64,
    /// Whether it prepares or checks only, so that it has no row.
    pub(crate) is_aside: bool,
}

impl Step {
    pub(crate) fn new(kind: Kind, passes: u32, seconds_max: f64) -> Step {
        Step {
            kind,
            op: kind.name(),
            passes,
            seconds_max,
            visits: 0,
            mix: None,
            timed: false,
            checkpoint_ms: 0,
            is_aside: false,
        }
    }

    /// One that has no row: what goes wrong in it is a problem all the same.
    pub(crate) fn aside(kind: Kind) -> Step {
        Step { is_aside: true, ..Step::new(kind, 1, 0.0) }
    }
}

/// What a process has that is limited, beside its cache and the list of what it is to do.
pub(crate) const BESIDE_CACHE_BYTES: u64 = 128 << 20;

/// The log buffer that the first paper sets.
pub(crate) const LOG_BUFFER_BYTES: u64 = 8 << 20;

impl Session {
    /// One of a single thread on the first paper's records, as yet without steps.
    pub(crate) fn new(mode: Mode, keys: Keys, records: u64, cache_bytes: u64) -> Session {
        Session {
            mode,
            keys,
            records,
            threads: 1,
            cache_bytes,
            in_cache: false,
            loaded: false,
            uncached: false,
            log_buffer: LOG_BUFFER_BYTES,
            page_size: 0,
            transactions: false,
            images: None,
            shape: Shape::PLAIN,
            together: 1,
            steps: Vec::new(),
        }
    }

    pub(crate) fn keys_name(&self) -> &'static str {
        match self.keys {
            Keys::Sequential => "sequential",
            Keys::Random => "random",
        }
    }

    /// Whether it can use what the session before it has loaded.
    pub(crate) fn goes_on_with(&self, before: &Session) -> bool {
        self.loaded
            && before.loaded
            && (self.mode, self.keys, self.records) == (before.mode, before.keys, before.records)
            && self.shape == before.shape
    }

    /// So much memory has a process for all that it does and caches in this session, if it is limited.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let operations = self.steps.iter().filter_map(|step| step.mix).map(|mix| mix.operations).max();
        self.cache_bytes + BESIDE_CACHE_BYTES + operations.unwrap_or(0) * size_of::<Act>() as u64
    }

    /// For a sentence about a system in this session.
    pub(crate) fn label(&self, system: &str) -> String {
        let threads = if self.threads == 1 { String::new() } else { format!(", {} threads", self.threads) };
        format!("{} {} {system}{threads}", self.mode.name(), self.keys_name())
    }

    pub(crate) fn open(&self, contestant: &dyn Contestant, dir: &Path, threads: u32) -> Request {
        Request::Open(Open {
            dir: dir.to_string_lossy().into_owned(),
            mode: self.mode,
            cache_bytes: if self.in_cache {
                self.cache_bytes * contestant.cache_scale()
            } else {
                self.cache_bytes
            },
            log_buffer: self.log_buffer,
            page_size: match self.page_size {
                0 if self.uncached => contestant.page_size_out_of_cache(),
                size if contestant.has_pages() => size,
                _ => 0,
            },
            threads,
            keep_log: false,
            direct: self.uncached && contestant.has_direct_io(),
            transactions: self.transactions,
            image: self
                .image_of(contestant.name())
                .map_or_else(String::new, |image| image.to_string_lossy().into_owned()),
        })
    }

    /// Where the image is of a system's store, if that is held in memory and has one.
    pub(crate) fn image_of(&self, system: &str) -> Option<PathBuf> {
        self.images.as_ref().filter(|_| is_ours(system)).map(|images| images.join(system))
    }

    pub(crate) fn run(&self, kind: Kind, step: Option<&Step>, by_cursor: bool) -> Request {
        Request::Run(Run {
            kind,
            keys: self.keys,
            records: self.records,
            // Records are loaded, and looked at as a whole, by one.
            threads: step.filter(|step| !step.is_aside).map_or(1, |_| self.threads),
            seed: SEED,
            seconds_max: step.map_or(0.0, |step| step.seconds_max),
            // The server knows, except of what an earlier process has updated, and that is not read again.
            version: None,
            passes: step.map_or(1, |step| step.passes),
            cursor: by_cursor && self.mode == Mode::Ds,
            // Warming a cache that is too small for the data would take long and change little.
            warm: !self.uncached,
            shape: self.shape,
            together: self.together,
            visits: step.map_or(0, |step| step.visits),
            mix: step.and_then(|step| step.mix),
            timed: step.is_some_and(|step| step.timed),
            checkpoint_ms: step.map_or(0, |step| step.checkpoint_ms),
        })
    }
}

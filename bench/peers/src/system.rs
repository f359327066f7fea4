//! What a peer is to the harness: three traits, which the adapters in src/c and in src/rust have each in
//! their own way, and the list of those that this build has.
//!
//! A [`Peer`] can be opened, the [`Store`] is what it opens, and each thread has a [`Session`]. A session
//! borrows its store, so a store cannot be closed under one, and closing a store consumes it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::c::InC;
use crate::mix::Act;
use crate::protocol::Kind;
use crate::shape::Shape;
use crate::watch::Watch;
use crate::workload::Order;

/// What of a store's promises is bought for a run, from none to durable commits. The numbers are C's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(i32)]
pub(crate) enum Mode {
    /// Data Store: no locks, log or transactions, as far as the system can leave them out.
    #[serde(rename = "DS")]
    Ds = 0,
    /// Transactions; for reads.
    #[serde(rename = "TDS")]
    Tds = 1,
    /// Transactions, with a log in memory only.
    Memory = 2,
    /// A commit stays in the process.
    NoSync = 3,
    /// A commit is with the operating system.
    WriteNoSync = 4,
    /// A commit is durable when it returns.
    Sync = 5,
    /// A commit stays in the process, and is made durable by somebody beside it.
    Background = 6,
    /// Nothing is logged, and threads work side by side.
    Unlogged = 7,
}

impl Mode {
    /// From the least to the most, and two that the others have nothing to do with.
    pub(crate) const ALL: [Mode; 8] = [
        Mode::Ds,
        Mode::Tds,
        Mode::Memory,
        Mode::NoSync,
        Mode::WriteNoSync,
        Mode::Sync,
        Mode::Background,
        Mode::Unlogged,
    ];

    /// As requests and reports spell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Ds => "DS",
            Mode::Tds => "TDS",
            Mode::Memory => "Memory",
            Mode::NoSync => "NoSync",
            Mode::WriteNoSync => "WriteNoSync",
            Mode::Sync => "Sync",
            Mode::Background => "Background",
            Mode::Unlogged => "Unlogged",
        }
    }
}

/// A system, as its adapter has it.
pub(crate) trait Peer: Sync {
    fn version(&self) -> String;

    /// What a mode means in it, in one line; `None` when it has none like it.
    fn meaning(&self, mode: Mode) -> Option<String>;

    /// Opens a store. The directory is empty, or holds what [`Store::close`] left there in this mode.
    fn open(&self, options: &Options) -> Result<Box<dyn Store>, String>;
}

/// An open store. Dropping it without [`Store::close`] may leak it, as a killed process would.
pub(crate) trait Store: Sync {
    /// What the calling thread works with.
    fn session(&self) -> Result<Box<dyn Session + '_>, String>;

    /// After a load, untimed: brings the store into the shape in which it likes to be read.
    fn settle(&mut self) -> Result<(), String>;

    /// Makes durable what has been committed, or a checkpoint, beside the sessions. One thread does that, in
    /// a store that was opened for two or more. A system that makes its checkpoints by itself, whenever one
    /// is due, only does the former.
    fn upkeep(&self, checkpoint: bool) -> Result<(), String>;

    /// Shuts down cleanly.
    fn close(self: Box<Self>) -> Result<(), String>;
}

/// What one thread works with.
pub(crate) trait Session {
    /// Does one thread's share of a run; `acts` is what it does in a mix, and each is timed on request.
    fn run(&mut self, job: &Job, acts: Vec<Act>, timed: bool) -> Outcome;
}

/// How to open a store; see [`crate::protocol::Open`].
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// It exists.
    pub(crate) dir: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) cache_bytes: u64,
    pub(crate) log_buffer: u64,
    pub(crate) page_size: u32,
    pub(crate) threads: u32,
    pub(crate) direct: bool,
    pub(crate) transactions: bool,
}

/// One thread's share of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    pub(crate) shape: Shape,
    /// How many records there are when all are there, and how many are.
    pub(crate) records: u64,
    pub(crate) present: u64,
    /// The positions of this thread.
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// The loop ends early after so long; 0: never.
    pub(crate) seconds_max: f64,
    /// Operations between looks at the clock, a power of two.
    pub(crate) check_every: u64,
    /// Of the values to write, or to expect.
    pub(crate) version: u32,
    /// How often read and bulk go over their share.
    pub(crate) passes: u32,
    /// Of a mix: a lookup and the update after it are one transaction.
    pub(crate) whole: bool,
    /// DS: operate through a cursor kept open, where get and put are calls of their own.
    pub(crate) cursor: bool,
}

/// What one thread's share came to; the times are of the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) ops: u64,
    pub(crate) errors: u64,
    pub(crate) inserted: u64,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) first_error: String,
    pub(crate) note: String,
    /// How long acts took, where that was asked for.
    pub(crate) watch: Option<Box<Watch>>,
}

/// The adapters that this build has, and why it lacks the others.
#[allow(clippy::undocumented_unsafe_blocks, reason = "generated; argued in the module's own comment")]
mod built {
    // SAFETY of the generated references: each names a `const struct peer` of an adapter that the build
    // script has compiled into this program; it is never written and lives as long as the program.
    use super::{InC, Peer};
    use crate::c::RawPeer;
    include!(concat!(env!("OUT_DIR"), "/systems.rs"));
}

pub(crate) use built::SKIPPED;

/// A system that this build can run.
#[derive(Clone, Copy)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) peer: &'static dyn Peer,
}

/// All systems that this build can run.
pub(crate) fn all() -> impl Iterator<Item = System> {
    built::FOUND.iter().map(|&(name, peer)| System { name, peer })
}

/// The system of that name, or why it cannot be run.
pub(crate) fn find(name: &str) -> Result<System, String> {
    if let Some(system) = all().find(|system| system.name == name) {
        return Ok(system);
    }
    let skipped = SKIPPED.iter().find(|(skipped, _)| *skipped == name);
    Err(skipped.map_or_else(|| "no such system".to_owned(), |(_, reason)| (*reason).to_owned()))
}

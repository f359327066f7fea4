//! What programs are told of as it happens, through the `tracing` crate: if the feature `tracing` is on.
//! Otherwise nothing of this is left by the compiler, and the library does not depend on that crate.
//!
//! Everything that is told stands here, so that what happens elsewhere reads the same with the feature and
//! without. The names of fields are the interface: what is told is for people and for programs that count.
//! All of it is rare; what happens at every read or commit is counted instead (region/counts.rs).
//!
//! A subscriber is called in the middle of things, by the thread that does them, and holds these up for as
//! long as it takes: it must not use the environment.

use std::path::Path;

use crate::error::Error;
use crate::types::Lsn;

/// Something that happened.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "told to nobody"))]
pub(crate) enum Happened<'a> {
    /// An environment is open: whether it is new, whether others had it open, and where its log ends.
    Opened { created: bool, joined: bool, end: Lsn },
    /// The log was replayed: from where, and how much of it; and whether a checkpoint may have been lost,
    /// whose commits the log had.
    Recovered { checkpoint: Lsn, end: Lsn, commits: u64, operations: u64, doubt: bool },
    /// A checkpoint is durable.
    Checkpointed { lsn: Lsn, pages: u64, written: u64, moved: u64 },
    /// A checkpoint came to nothing.
    NotCheckpointed(&'a Error),
    /// Frames ran out although some were taken from others, and so many rounds of sweeps have found so many.
    Swept { frames: usize, rounds: u32 },
    /// A slot's snapshot was given up for the room that its versions took.
    GivenUp { slot: u16 },
    /// A transaction has met a conflict.
    Conflict(&'a Error),
    /// What a process left that died was finished, and its place is free.
    Mended { member: u16, pid: u32 },
    /// Nothing more is made durable before all have closed the environment: why.
    Poisoned { what: &'static str, cause: &'a str },
}

/// Work that takes a while: what happens meanwhile is told as part of it.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "told to nobody"))]
pub(crate) enum TracedWork<'a> {
    Opening(&'a Path),
    Checkpoint,
}

#[cfg(feature = "tracing")]
mod told {
    use tracing::span::EnteredSpan;
    use tracing::{debug, error, info, info_span, warn};

    use super::{Happened, TracedWork};

    /// Tells the subscribers.
    #[cold]
    pub(crate) fn tell(what: Happened<'_>) {
        match what {
            Happened::Opened { created, joined, end } => {
                info!(created, joined, end = end.0, "environment opened")
            }
            Happened::Recovered { checkpoint, end, commits, operations, doubt: false } => {
                info!(checkpoint = checkpoint.0, end = end.0, commits, operations, "environment recovered");
            }
            Happened::Recovered { checkpoint, end, commits, operations, doubt: true } => {
                warn!(
                    checkpoint = checkpoint.0,
                    end = end.0,
                    commits,
                    operations,
                    "environment recovered; a checkpoint could not be read"
                );
            }
            Happened::Checkpointed { lsn, pages, written, moved } => {
                info!(lsn = lsn.0, pages, written, moved, "checkpoint durable")
            }
            Happened::NotCheckpointed(why) => warn!(error = %why, "checkpoint failed"),
            Happened::Swept { frames, rounds } => debug!(frames, rounds, "cache swept"),
            Happened::GivenUp { slot } => warn!(slot, "snapshot given up"),
            Happened::Conflict(why) => debug!(error = %why, "conflict"),
            Happened::Mended { member, pid } => warn!(member, pid, "dead process mended"),
            Happened::Poisoned { what, cause } => error!(what, cause, "environment poisoned"),
        }
    }

    /// Work in progress, until dropped.
    #[derive(Debug)]
    pub(crate) struct Span {
        _entered: EnteredSpan,
    }

    /// Says that work begins.
    pub(crate) fn begin(what: TracedWork<'_>) -> Span {
        let span = match what {
            TracedWork::Opening(directory) => info_span!("opening", directory = %directory.display()),
            TracedWork::Checkpoint => info_span!("checkpoint"),
        };
        Span { _entered: span.entered() }
    }
}

#[cfg(not(feature = "tracing"))]
mod told {
    use super::{Happened, TracedWork};

    /// Nobody listens.
    #[inline(always)]
    pub(crate) fn tell(_: Happened<'_>) {}

    /// Work in progress.
    #[derive(Debug)]
    pub(crate) struct Span;

    /// Nobody is told.
    #[inline(always)]
    pub(crate) fn begin(_: TracedWork<'_>) -> Span {
        Span
    }
}

pub(crate) use told::{begin, tell};

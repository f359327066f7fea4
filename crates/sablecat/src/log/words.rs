//! The words of the log: what all processes that use an environment know about its log.
//!
//! | word | written by | means |
//! |---|---|---|
//! | `tail.end` | the holder of the commit role | end of the last record |
//! | `tail.over` | the holder of the commit role, before its commit point | over which state a transaction changes something, or the last one did |
//! | `stamped` | the holder of the commit role | the time in the last time record, 0 when there is none in this life |
//! | `written`, `durable` | the holder of the flush turn, and former holders | how far the files got |
//! | `target` | the same | how far the flush in progress goes |
//! | `cached` | the same | up to where bytes went through the page cache |
//! | `successions` | the holder of the flush turn | how often somebody alive was succeeded in it |
//! | `prepared` | the holder of the supply turn | below it there are segment files |
//! | `life`, `continues` | recovery, alone | where this stretch of the log began and the one before ended |
//! | `poisoned`, `cause` | the holder of the flush turn | why nothing more is acknowledged |
//!
//! Beside each of `written` and `durable` there is a word. Readers that wait for the position to be raised,
//! to read on in the log (tail.rs), sleep on that word. It is on the same cache line, which the participant
//! that raises the position has at hand.
//!
//! All LSNs only grow. A holder that dies leaves them at the last thing that was true; its successor does the
//! same work again. All-zero words are valid: a log that has not started.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering};

use super::turn::Turn;
use crate::error::{Error, ErrorKind, Result};
use crate::region::{CachePadded, Sleepers};
use crate::trace::{self, Happened};
use crate::types::Lsn;

/// A position that others follow, and the sleepers that wait for it to be raised.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Followed<T>(pub(super) T, pub(super) Sleepers);

/// A position that the holder of the flush turn raises, again and again: by a store, the cheapest way, as
/// long as nobody alive has been succeeded in the turn. A succeeded holder may do its one store later, below
/// what others have raised since. So these leave that word alone and raise another, never to less than it is.
/// The position is the greater of the two.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    stored: AtomicU64,
    raised: AtomicU64,
}

impl Reached {
    /// Acquire: pairs with the Release in `raise`.
    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.stored.load(Ordering::Acquire).max(self.raised.load(Ordering::Acquire))
    }

    /// Raises it to `to`. The caller has, or had, the flush turn, and has seen the number of `successions`
    /// under it.
    #[inline]
    pub(super) fn raise(&self, to: u64, successions: u64) {
        // Release: a participant that finds it raised sees what was done before.
        if successions == 0 {
            self.stored.store(to, Ordering::Release);
        } else {
            self.raised.fetch_max(to, Ordering::Release);
        }
    }

    /// Sets it. The caller is alone.
    fn start(&self, at: u64) {
        self.stored.store(at, Ordering::SeqCst);
        self.raised.store(0, Ordering::SeqCst);
    }
}

const CAUSE_WORDS: usize = 32;
const HEALTHY: u32 = 0;
const POISONING: u32 = 1;
const POISONED: u32 = 2;

/// What the holder of the commit role has at hand.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct TailWords {
    pub(super) end: AtomicU64,
    pub(super) over: AtomicU64,
}

/// The shared words.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct LogWords {
    pub(super) tail: CachePadded<TailWords>,
    pub(super) written: Followed<Reached>,
    pub(super) durable: Followed<AtomicU64>,
    /// The tail that the flush in progress will make durable. Says nothing while no flush is in progress.
    pub(super) target: CachePadded<AtomicU64>,
    /// Up to where bytes went through the page cache.
    pub(super) cached: CachePadded<Reached>,
    /// How often other files were put under the names of those that somebody succeeded in the flush turn may
    /// still write to.
    pub(super) successions: CachePadded<AtomicU64>,
    pub(super) prepared: CachePadded<AtomicU64>,
    pub(super) flush: Turn,
    pub(super) supply: Turn,
    pub(super) life: CachePadded<AtomicU64>,
    pub(super) continues: AtomicU64,
    pub(super) chains: CachePadded<AtomicU64>,
    /// The time in the last time record.
    pub(super) stamped: AtomicU64,
    pub(super) counters: CachePadded<LogCounters>,
    poisoned: CachePadded<AtomicU32>,
    cause_len: AtomicU32,
    cause: [AtomicU64; CAUSE_WORDS],
}

// The region keeps one page for them.
const _: () = assert!(size_of::<LogWords>() <= 4096);

/// What the log has done since the region was created. Written by holders of the flush turn; `late_segments`
/// of the supply turn.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    /// Flushes of the device asked for.
    pub(crate) flushes: AtomicU64,
    /// Write calls, and the bytes in them.
    pub(crate) writes: AtomicU64,
    pub(crate) write_bytes: AtomicU64,
    /// Stores through a mapped window.
    pub(crate) stores: AtomicU64,
    /// Segments that had to be prepared in a commit's way, not ahead of time.
    pub(crate) late_segments: AtomicU64,
}

/// Adds to a counter that only the holder of the turn writes, so a plain load and store do.
#[inline]
pub(super) fn count(counter: &AtomicU64, more: u64) {
    // Relaxed: a statistic.
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl LogWords {
    /// Sets every position to the start of a life. The caller is alone.
    pub(super) fn start(&self, life: u64, continues: u64) {
        // SeqCst throughout: rare, and nobody else looks yet.
        self.life.0.store(life, Ordering::SeqCst);
        self.continues.store(continues, Ordering::SeqCst);
        for word in [&self.tail.0.end, &self.durable.0, &self.target.0, &self.prepared.0, &self.chains.0] {
            word.store(life, Ordering::SeqCst);
        }
        self.written.0.start(life);
        self.cached.0.start(life);
    }

    /// Whether the positions are such as they can be with a ring of so many bytes and everything up to
    /// `visible` published, whatever their writers are doing.
    ///
    /// # Errors
    /// Invalid, naming what is impossible.
    pub(super) fn check_positions(&self, visible: Lsn, ring_bytes: u64) -> Result<()> {
        let at = |word: &AtomicU64| word.load(Ordering::SeqCst);
        // Each only grows and follows the next one, so they are read in this order; the ring's bound the
        // other way round.
        let (life, durable, written, tail, prepared) = (
            at(&self.life.0),
            at(&self.durable.0),
            self.written.0.get(),
            at(&self.tail.0.end),
            at(&self.prepared.0),
        );
        let unwritten = tail.saturating_sub(self.written.0.get());
        if !(life..=tail).contains(&visible.0)
            || ![life, durable, written, tail, prepared].is_sorted()
            || unwritten > ring_bytes
        {
            return Err(Error::invalid("the positions of its log are impossible"));
        }
        Ok(())
    }

    /// An error once the log is poisoned, naming what did it.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        // Acquire: pairs with the Release in `poison`, so the cause is complete.
        if self.poisoned.0.load(Ordering::Acquire) == HEALTHY { Ok(()) } else { Err(self.poisoned_error()) }
    }

    /// Poisons the log with the first cause given, and says what later callers will hear.
    #[cold]
    pub(super) fn poison(&self, cause: &Error) -> Error {
        if self.poisoned.0.compare_exchange(HEALTHY, POISONING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let mut text = cause.to_string().into_bytes();
            text.truncate(CAUSE_WORDS * 8);
            for (word, bytes) in self.cause.iter().zip(text.chunks(8)) {
                let mut eight = [0; 8];
                eight[..bytes.len()].copy_from_slice(bytes);
                // Relaxed: ordered by the Release below.
                word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
            }
            self.cause_len.store(text.len() as u32, Ordering::Relaxed);
            // SeqCst: Release for the cause, and before the look for sleepers.
            self.poisoned.0.store(POISONED, Ordering::SeqCst);
            self.wake_followers();
            trace::tell(Happened::Poisoned { what: "log", cause: &cause.to_string() });
        }
        self.poisoned_error()
    }

    /// Wakes all that wait for the log to go on: not because it does, but to look at something else.
    pub(super) fn wake_followers(&self) {
        self.written.1.wake();
        self.durable.1.wake();
    }

    #[cold]
    fn poisoned_error(&self) -> Error {
        let mut text = Vec::with_capacity(CAUSE_WORDS * 8);
        if self.poisoned.0.load(Ordering::Acquire) == POISONED {
            for word in &self.cause {
                text.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            text.truncate(self.cause_len.load(Ordering::Relaxed) as usize);
        }
        let cause = String::from_utf8_lossy(&text);
        Error::new(
            ErrorKind::Poisoned,
            format!(
                "the log could not be written, so nothing committed since is sure to be kept; close the \
                 environment, see to the disk, and reopen it to recover what was durable (first failure: \
                 {cause})"
            ),
        )
    }
}

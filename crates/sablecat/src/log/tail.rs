//! The tail: commits as they come, for a reader that reads on while others append.
//!
//! ```text
//!    from ──▶ at            written or durable
//!  ───┴────────┴─────────────────────┴───────▶ LSN
//!      given        to be given
//! ```
//!
//! Nothing is given that a crash might take back: of the machine, up to `durable`; of all processes, up to
//! `written`. A reader that has been given everything sleeps on the word beside that position
//! ([`Log::listen`]).
//!
//! *Where it may begin.* At the end of any record, in any life of the log that leads to the present one, if
//! the segments from there on are kept. A life in which nothing was logged leaves no trace; what began there
//! goes on where the life before it ended. It cannot begin in what was cut off: in commits that a crash took
//! back, or in a time that the environment was taken back from.
//!
//! *Where it reads.* From the ring what it still has, and else from the files; there are no records in the
//! files that the ring had not, and a record is one only if it is good. What is not there any more is known
//! by its segment: no segment of that number is kept, in use or archived.
//!
//! *Large commits.* Chunks that were passed are remembered until their commit comes. A reader that began
//! between chunks and their commit looks for them backwards. Chunks of which no commit will come are
//! [forgotten](LogTail::forget_chunks), when the caller knows which these are.

use std::time::Duration;

use sablecat_os::atomic::Ordering;

use super::Log;
use super::commits::{Commits, LoggedCommit};
use super::scan::{Broken, Life};
use super::segment::Segments;
use crate::error::{Error, ErrorKind, Result};
use crate::types::Lsn;

/// Up to where commits are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// What is with the operating system.
    Written,
    /// What is on the disk.
    Durable,
}

/// The commits after a place in the log, as they come.
#[derive(Debug)]
pub(crate) struct LogTail<'l> {
    log: &'l Log,
    reach: Reach,
    /// Where it began.
    from: Lsn,
    commits: Commits<'l>,
}

impl Log {
    /// Everything below has been reached.
    pub(crate) fn reached(&self, reach: Reach) -> Lsn {
        match reach {
            Reach::Written => self.written(),
            Reach::Durable => self.durable(),
        }
    }

    /// Sleeps until `done` gives something, looking whenever more has been reached, or until the monotonic
    /// clock has come to `deadline` (none: never). Also looks when the log is poisoned, when a participant
    /// that was at it died, and now and then.
    pub(crate) fn listen<T>(
        &self,
        reach: Reach,
        deadline: Option<Duration>,
        done: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        match reach {
            Reach::Written => self.words().written.1.listen(deadline, done),
            Reach::Durable => self.words().durable.1.listen(deadline, done),
        }
    }

    /// Has all that [listen](Log::listen) look again.
    pub(crate) fn wake_listeners(&self) {
        self.words().wake_followers();
    }

    /// The commits after `from`, where a record ends or a life begins.
    ///
    /// # Errors
    /// `LogGone` if the log is not kept from there on, or does not lead here from there; `Invalid` if it does
    /// not reach there, and in memory alone; `Io`; `Corruption`.
    pub(crate) fn tail_from(&self, from: Lsn, reach: Reach) -> Result<LogTail<'_>> {
        let segments = self.segments()?;
        let tail = self.tail();
        if from > tail {
            return Err(Error::invalid(format!("reading changes after LSN {from}: the log ends at {tail}")));
        }
        let lives = self.lives_from(from)?;
        let scan = segments.scan_live(self, lives, from)?;
        let at = scan.at();
        // Not below where the life of now begins: what is before it was looked at.
        if at >= self.life() && at < tail && !segments.is_kept(at)? {
            return Err(self.gone(at));
        }
        Ok(LogTail { log: self, reach, from: at, commits: Commits::following(scan) })
    }

    /// The lives from `from` on, up to the present one.
    fn lives_from(&self, from: Lsn) -> Result<Vec<Life>> {
        let segments = self.segments()?;
        let words = self.words();
        let (life, continues) = (self.life(), Lsn(words.continues.load(Ordering::Acquire)));
        let present = |from: Lsn| Life { from, limit: from, followed: false };
        let mut at = from;
        loop {
            if at >= life {
                return Ok(vec![present(at)]);
            }
            let found = match at.cmp(&continues) {
                std::cmp::Ordering::Less => segments.lives_kept(at, continues),
                std::cmp::Ordering::Equal => Ok(Vec::new()),
                std::cmp::Ordering::Greater => {
                    Err(Broken::Contradicts { number: segments.number_of(life), continues })
                }
            };
            match found {
                Ok(mut lives) => {
                    lives.push(present(life));
                    return Ok(lives);
                }
                Err(Broken::Contradicts { continues, .. }) if segments.is_idle(continues, at)? => {
                    at = continues
                }
                Err(Broken::Contradicts { continues, .. }) => {
                    return Err(Error::new(
                        ErrorKind::LogGone,
                        format!(
                            "the log does not lead from LSN {from} to the present: it goes on from LSN \
                             {continues}, because a crash undid commits that were not durable, or the \
                             environment was taken back to an earlier time; begin again with a copy of its \
                             present state"
                        ),
                    ));
                }
                // It may have been let go of since it was looked for.
                Err(Broken::Missing(_) | Broken::Unknown(_)) if !segments.is_kept(at)? => {
                    return Err(self.gone(at));
                }
                Err(broken) => return Err(broken.into_error(segments, at)),
            }
        }
    }

    /// The error of a reader that wants what is not kept any more.
    #[cold]
    fn gone(&self, at: Lsn) -> Error {
        let kept = self.oldest_kept().map_or_else(|error| format!("({error})"), |lsn| format!("LSN {lsn}"));
        Error::new(
            ErrorKind::LogGone,
            format!(
                "the log at LSN {at} is not kept any more; the oldest LSN to go on from is {kept}. Begin \
                 again with a copy of the present state; to have older log kept, keep a journal \
                 (Builder::journal, or `sablecat journal DIR --on`), or, in the program that reads the \
                 changes, allow more lag (Builder::changes_lag_max)"
            ),
        )
    }

    /// The least LSN that [`Log::tail_from`] can begin at.
    ///
    /// # Errors
    /// As [`Log::tail_from`].
    pub(crate) fn oldest_kept(&self) -> Result<Lsn> {
        let segments = self.segments()?;
        loop {
            let kept = segments.numbers_kept()?;
            match self.oldest_of(segments, &kept) {
                // What was looked at was let go of meanwhile.
                Err(_) if segments.numbers_kept()?.first() != kept.first() => {}
                found => return found,
            }
        }
    }

    /// The same where these segments are kept.
    fn oldest_of(&self, segments: &Segments, kept: &[u64]) -> Result<Lsn> {
        let words = self.words();
        let (mut life, mut continues) =
            (words.life.0.load(Ordering::Acquire), words.continues.load(Ordering::Acquire));
        let mut end = self.written();
        loop {
            let first = segments.number_of(Lsn(life));
            // That in which the last record of the life ends.
            let mut oldest = segments.number_of(Lsn(end.0.saturating_sub(1).max(life)));
            if !kept.contains(&oldest) {
                return Ok(end);
            }
            while oldest > first && kept.contains(&(oldest - 1)) {
                oldest -= 1;
            }
            if oldest > first {
                return Ok(segments.first_record(segments.first_lsn(oldest), end)?.unwrap_or(end));
            }
            let before = segments.number_of(Lsn(continues.saturating_sub(1)));
            if continues >= life || continues == 0 || !kept.contains(&before) {
                return Ok(Lsn(life));
            }
            let header = segments.read_header(before)?;
            (end, life, continues) = (Lsn(continues), header.life, header.continues);
        }
    }
}

impl Segments {
    /// Whether the segment is kept that the log goes on in after `at`.
    fn is_kept(&self, at: Lsn) -> Result<bool> {
        Ok(self.numbers_kept()?.contains(&self.number_of(at)))
    }

    /// Whether nothing was ever logged between `end`, where a life ended, and `begin`, where one began that
    /// left no trace.
    fn is_idle(&self, end: Lsn, begin: Lsn) -> Result<bool> {
        let begins_one = self.first_lsn(self.number_of(begin)) == begin;
        let kept = self.numbers_kept()?;
        let between =
            kept.iter().any(|&number| self.first_lsn(number) > end && self.first_lsn(number) <= begin);
        if !begins_one || between {
            return Ok(false);
        }
        // The life did end there, and was not cut off.
        let last = self.number_of(Lsn(end.0.saturating_sub(1)));
        let goes_on = kept.contains(&self.number_of(end)) && self.has_record(end)?;
        Ok(kept.contains(&last) && !goes_on)
    }
}

impl LogTail<'_> {
    /// Goes on to the next commit that has been reached. False if there is none yet.
    ///
    /// # Errors
    /// `LogGone` if it is not kept any more; `Invalid` if no commit ends where this began; `Corruption`,
    /// `Io`.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.commits.extend(self.log.reached(self.reach));
        self.commits.advance().map_err(|error| self.explain(error))
    }

    /// The commit that it has gone on to.
    pub(crate) fn commit(&self) -> Option<LoggedCommit<'_>> {
        self.commits.commit()
    }

    /// Where it is: everything below has been passed.
    pub(crate) fn at(&self) -> Lsn {
        self.commits.at()
    }

    /// From where on the log is still needed, once the present commit is not.
    pub(crate) fn needs(&self) -> Lsn {
        self.commits.first_chunk().map_or(self.at(), |first| first.min(self.at()))
    }

    /// Forgets the chunks below `at` that it has passed without their commit: there will be none.
    pub(crate) fn forget_chunks(&mut self, below: Lsn) {
        self.commits.forget_chunks_below(below);
    }

    /// What an error of reading means, for a reader of what others may have let go of.
    #[cold]
    pub(crate) fn explain(&self, error: Error) -> Error {
        if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) {
            return error;
        }
        let at = self.commits.chunk_of_commit().map_or(self.needs(), |chunk| chunk.min(self.needs()));
        let is_gone = |segments: &Segments| Ok(!segments.is_kept(at)? || !segments.is_kept(self.at())?);
        match self.log.segments().and_then(is_gone) {
            Ok(true) => self.log.gone(at),
            Ok(false) if self.at() == self.from && error.is_corruption() => {
                Error::invalid(format!("reading changes after LSN {at}: no commit ends there"))
            }
            _ => error,
        }
    }
}

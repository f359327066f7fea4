//! Flushing: making room in the ring, handing bytes to the operating system, making them durable, for whole
//! groups at a time.
//!
//! One participant at a time holds the flush turn. A flush takes everything appended when it starts, so all
//! committers while one flush runs share the next; nobody waits on purpose for company, since the flush in
//! progress is that wait.

use sablecat_os::atomic::{Ordering, spin_hint};
use sablecat_os::disk::{File, cut_off};

use super::Log;
use super::files::{Files, IN_MEMORY_BYTES};
use super::lane::{Lane, OPEN_MAX, WritePath};
use super::name::Name;
use super::segment::Segments;
use super::succession::ReplacedSegments;
use super::turn::{Caller, HeldTurn, SPINS_DURABLE, TurnWatch, Until};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Lsn;

/// How often a waiter looks before it sleeps when the holder writes to memory only.
const SPINS_HAND_OVER: u32 = 200;
impl Log {
    /// Returns once everything below `lsn` is durable.
    ///
    /// # Errors
    /// `Poisoned` when a write or a flush has failed, now or earlier; `NotDurable` when it was refused and
    /// may be tried again.
    pub(crate) fn make_durable(&self, lsn: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let target = &self.words().target.0;
        // A target left by an earlier flush is no larger than `durable`, which has been looked at by then. A
        // participant that looks just before the holder raises it sleeps for the turn, and passes that on
        // when it finds itself covered.
        let covered = || lsn.0 <= target.load(Ordering::SeqCst);
        self.until(
            caller,
            SPINS_DURABLE,
            || self.durable() >= lsn,
            covered,
            |held| self.flush(files, (held, caller)).map_err(after_the_commit),
        )
    }

    /// Returns once everything below `lsn` is with the operating system: it survives the death of every
    /// process, not of the machine.
    ///
    /// # Errors
    /// As for [`Log::make_durable`].
    #[inline]
    pub(crate) fn hand_over(&self, lsn: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let write =
            |held: &mut HeldTurn<'_>| self.write_cached(files, (held, caller)).map_err(after_the_commit);
        self.until(caller, SPINS_HAND_OVER, || self.written() >= lsn, || false, write)
    }

    /// Whether enough stands in the ring that somebody should [drain](Log::drain) it, where the tail was not
    /// long ago.
    #[inline]
    pub(crate) fn wants_drain_behind(&self, tail: Lsn) -> bool {
        self.files.as_ref().is_some_and(|files| {
            let enough = files.at_most_in_memory(self.memory.ring.len() as u64 / 2, IN_MEMORY_BYTES);
            tail.0.saturating_sub(self.written().0) >= enough
        })
    }

    /// Hands everything appended to the operating system, unless somebody is writing already.
    ///
    /// # Errors
    /// `Poisoned`, as for [`Log::make_durable`]; `DiskFull` or `Io` when it was refused and may be tried
    /// again.
    pub(crate) fn drain(&self, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let words = self.words();
        words.check()?;
        if self.written() == self.tail() {
            return Ok(());
        }
        match words.flush.try_take(caller) {
            Ok(mut held) => {
                caller.check_fence().and_then(|()| self.write_cached(files, (&mut held, caller)))?;
                drop(held);
                words.written.1.wake();
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// Finds out whether somebody has cut short the segment that holds the last of what is with the operating
    /// system, below what is durable: commits that are flushed one by one do not look, and the next one makes
    /// it as long again. To be asked now and then.
    ///
    /// # Errors
    /// `Poisoned` in that case, from now on for everybody.
    pub(crate) fn check_newest(&self) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let (words, segments) = (self.words(), &files.segments);
        words.check()?;
        // Before the length: a file does not get shorter, and has its length before anything is written.
        let written = self.written();
        if written.0 <= words.life.0.load(Ordering::Acquire) {
            return Ok(());
        }
        match segments.open_file(Name::Log(segments.number_of_last(written)), false, true) {
            Ok(file) => {
                self.check_length(segments, &*file, written, "looking at what was written to log segment")
            }
            // It was recycled meanwhile; or it cannot be looked at just now, and the process that needs it is
            // told.
            Err(_) => Ok(()),
        }
    }

    /// An error if a segment is shorter than what was written to it, up to `end`, above 0: somebody has cut
    /// it short.
    ///
    /// # Errors
    /// `Poisoned` in that case, from now on for everybody, with what was being done. `Io` when nothing can be
    /// said.
    pub(super) fn check_length(
        &self,
        segments: &Segments,
        file: &dyn File,
        end: Lsn,
        doing: &str,
    ) -> Result<()> {
        let path = segments.path(Name::Log(segments.number_of_last(end)));
        let last = segments.offset_of(Lsn(end.0 - 1));
        if file.len().map_err(|e| Error::io("asking the length of", &path, e))? <= last {
            return Err(self.words().poison(&Error::io(doing, &path, cut_off())));
        }
        Ok(())
    }

    /// Returns once a record of `len` bytes fits: into the ring, and into segments that exist. For a
    /// committer that has asked [`Log::has_room`] in the commit role, and has left that since. Others may use
    /// the room up before the role is taken again.
    ///
    /// # Errors
    /// `DiskFull` (or `Io`) when no further segment can be made, or the ring not be written out: nothing has
    /// happened then, and it may be tried again later. `Poisoned`, as for [`Log::make_durable`].
    #[cold]
    pub(crate) fn make_room(&self, len: usize, caller: Caller<'_>) -> Result<()> {
        let files = self.files()?;
        assert!(len <= self.record_bytes_max() + self.stamp_bytes(), "long write sets are logged in chunks");
        while !self.has_room(len) {
            self.prepare_to(Lsn(self.tail().0 + len as u64), caller)?;
            self.until(
                caller,
                SPINS_HAND_OVER,
                || self.ring_has_room(len),
                || false,
                |held| self.write_cached(files, (held, caller)),
            )?;
        }
        Ok(())
    }

    /// Takes the flush turn and does `work` under it, until `done`. While another has the turn, waits for its
    /// end if what it does will make this caller `covered`, and for the turn otherwise; but not for ever for
    /// a holder that does not move.
    #[inline]
    pub(super) fn until(
        &self,
        caller: Caller<'_>,
        spins: u32,
        done: impl Fn() -> bool,
        covered: impl Fn() -> bool,
        work: impl Fn(&mut HeldTurn<'_>) -> Result<()>,
    ) -> Result<()> {
        let words = self.words();
        let mut slept = None;
        let mut watch = TurnWatch::default();
        let outcome = loop {
            if done() {
                break Ok(());
            }
            if let Err(poisoned) = words.check() {
                break Err(poisoned);
            }
            let held = match words.flush.try_take(caller) {
                Ok(held) => Some(held),
                Err(_) if spin(spins, &done) => continue,
                Err(seen) => {
                    let until = if covered() { Until::End } else { Until::Next };
                    let (held, bell) = words.flush.wait(seen, until, caller, &done);
                    slept = Some(bell);
                    let held = held.or_else(|| self.succeed_if_stuck(&mut watch, seen, caller));
                    if held.is_none()
                        && let Err(fenced) = caller.check_fence()
                    {
                        break Err(fenced);
                    }
                    held
                }
            };
            if let Some(mut held) = held {
                // Having had the turn is what a sleeper was woken for: nothing to pass on, the end of the
                // holding wakes the others.
                slept = None;
                if let Err(error) = caller.check_fence().and_then(|()| work(&mut held)) {
                    break Err(error);
                }
                drop(held);
                // After the turn, whose end comes between this look and the raising: either this sees the
                // sleeper, or the sleeper sees what was written.
                words.written.1.wake();
            }
        };
        words.flush.pass_on(slept);
        outcome
    }

    /// Writes and flushes everything appended.
    fn flush(&self, files: &Files, (held, caller): (&mut HeldTurn<'_>, Caller<'_>)) -> Result<()> {
        if held.owes() && !self.replace_files(files, held, ReplacedSegments::Unwritten)? {
            return Ok(());
        }
        let words = self.words();
        let to = self.tail();
        // SeqCst: a waiter that sees the target while the turn is held is covered by this flush.
        words.target.0.store(to.0, Ordering::SeqCst);
        let (durable, cached) = (self.durable(), words.cached.0.get());
        let way = if files.direct && cached <= durable.0 { WritePath::Direct } else { WritePath::Cached };
        self.write_out(files, (held, caller), to, way, true)
    }

    /// Hands everything appended to the page cache.
    #[inline]
    pub(super) fn write_cached(
        &self,
        files: &Files,
        (held, caller): (&mut HeldTurn<'_>, Caller<'_>),
    ) -> Result<()> {
        if held.owes() && !self.replace_files(files, held, ReplacedSegments::Unwritten)? {
            return Ok(());
        }
        self.write_out(files, (held, caller), self.tail(), WritePath::Stored, false)
    }

    fn write_out(
        &self,
        files: &Files,
        holder: (&HeldTurn<'_>, Caller<'_>),
        to: Lsn,
        way: WritePath,
        sync: bool,
    ) -> Result<()> {
        // Once poisoned, the files say nothing any more; the participant that takes the turn after a failed
        // holder must not go on.
        self.words().check()?;
        files.with_lane(|lane| self.write_with(files, lane, holder, to, way, sync))
    }

    /// What becomes of the error of an opening or a write. It is of no consequence if the call was refused,
    /// since the ring still has the bytes, and the next holder of the turn writes them to the same place. Nor
    /// is it if another has the turn by now, which may have taken the file away.
    #[cold]
    fn refused(&self, held: &HeldTurn<'_>, error: Error) -> Result<()> {
        match error {
            _ if held.is_succeeded() => Ok(()),
            error if error.may_pass() => Err(error),
            error => Err(self.words().poison(&error)),
        }
    }

    #[inline]
    fn write_with(
        &self,
        files: &Files,
        lane: &mut Lane,
        (held, caller): (&HeldTurn<'_>, Caller<'_>),
        to: Lsn,
        way: WritePath,
        sync: bool,
    ) -> Result<()> {
        let words = self.words();
        // Acquire: pairs with the addition to it, under the turn. If the turn is still this caller's when it
        // is looked at before the write, this is the number of now.
        let successions = words.successions.0.load(Ordering::Acquire);
        lane.adopt(successions);
        let from = self.written();
        // What was written before this has to be flushed, whichever process wrote it and however.
        let unflushed = from != self.durable();
        let is_durable = way == WritePath::Direct && files.sync_io && !unflushed;
        if from < to {
            if way != WritePath::Direct {
                // Before the write, so that a holder that dies in it leaves the truth behind.
                words.cached.0.raise(to.0, successions);
            }
            let is_mine = || !held.is_succeeded();
            // SAFETY: the holder of the flush turn has the ring from the block of `written`, which it has
            // looked at, to the tail: see `has_room`.
            match unsafe {
                let (segments, ring, counters) = (&files.segments, self.memory.ring, &words.counters.0);
                lane.write(segments, ring, counters, (from, to), unflushed, (way, is_mine))
            } {
                // A process that was taken for dead meanwhile must not lower what others have raised: they
                // have used the ring again since. Nor is what was not there in memory to count as written.
                Ok(true) if is_mine() => caller.check_fence()?,
                Ok(_) => return Ok(()),
                Err(error) => return self.refused(held, error),
            }
            // Committers may overwrite the ring below this from now on.
            words.written.0.raise(to.0, successions);
        }
        if sync || lane.open_segments() > OPEN_MAX {
            if !is_durable {
                let range = (self.durable(), to);
                if let Err(error) = lane.open_all(&files.segments, range) {
                    return self.refused(held, error);
                }
                let stored = unflushed || way == WritePath::Stored;
                // Whatever the reason, something may be lost: also if another has the turn by now.
                lane.sync(&files.segments, &words.counters.0, range, stored)
                    .map_err(|error| words.poison(&error))?;
            }
            if held.is_succeeded() {
                return Ok(());
            }
            // SeqCst: in one order with the waiters' looks before they sleep. Others may have raised it
            // further, if this one has been succeeded since.
            words.durable.0.fetch_max(to.0, Ordering::SeqCst);
            words.durable.1.wake();
            lane.close_before(&files.segments, to);
        }
        Ok(())
    }
}

/// The error of a committer that waits for what it has committed.
#[cold]
fn after_the_commit(error: Error) -> Error {
    if error.kind() == ErrorKind::Poisoned { error } else { error.not_durable() }
}

impl Log {
    /// Writes what the files lack up to the tail, and makes all of it durable, for a process that is alone
    /// with a memory whose users are dead, whatever turns they had. The words stay as they are, so that
    /// another may do the same again, also if a flush fails.
    pub(super) fn write_rest(&self, files: &Files) -> Result<()> {
        let words = self.words();
        let (durable, written, tail) = (self.durable(), self.written(), self.tail());
        files.with_lane(|lane| {
            // SAFETY: nobody else uses the log; the ring has everything from the block of `written` to the
            // tail.
            unsafe {
                lane.write(
                    &files.segments,
                    self.memory.ring,
                    &words.counters.0,
                    (written, tail),
                    durable != written,
                    (WritePath::Cached, || true),
                )?
            };
            lane.open_all(&files.segments, (durable, tail))?;
            lane.sync(&files.segments, &words.counters.0, (durable, tail), durable != written)
        })
    }
}

/// Looks a few times.
#[inline]
fn spin(times: u32, done: &impl Fn() -> bool) -> bool {
    for _ in 0..times {
        if done() {
            return true;
        }
        spin_hint();
    }
    false
}

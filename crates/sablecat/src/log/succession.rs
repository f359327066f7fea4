//! Succession: going on for a holder of the flush turn that lives and does not move.
//!
//! A holder that is stopped there may go on at any moment, at any instruction: write from the ring, at a
//! place that was right when it was stopped, bytes that have been used again since. That is made harmless
//! before anything else is done under the turn: the successor puts other files under the names of all those
//! that the stopped one may still write to.
//!
//! ```text
//! 1 the turn, with the word that this is owed: by compare-and-swap
//! 2 copies that earlier successors were making: removed
//! 3 the ring from the block of `written` to the tail, copied; again, if `written` moves meanwhile
//! 4 each segment that holds some of that: a file with what is before that block, the copy, and zeros;
//!   flushed; renamed over the old one
//! 5 the directory flushed
//! 6 one more succession is counted, `written` raised to the end of the copy
//! 7 no longer owed
//! ```
//!
//! The stopped one looks at the turn after it has opened a file and before it writes (lane.rs). Had it the
//! turn then, the file is one that has no name after step 4, or loses it before; and it has read a tail that
//! is no later than the one of step 3. So of what it does when it goes on,
//!
//! - its writes and stores through a window are of what is right, before step 6, since nobody uses the ring
//!   again before that; later they go to a file without a name;
//! - `written` and `durable`, raised to its tail, say the truth: its file has all up to there, flushed for
//!   `durable`, and each file put in its place has more, flushed. `durable` is raised by maximum, `written`
//!   and `cached` by stores to words of their own ([`Reached`](super::words::Reached)): only a holder that
//!   found no succession counted does that, and there is one such holder;
//! - `target` says little at any time: somebody sleeps on the other bell;
//! - its flushes, of files with names or without, do no harm. If one fails it poisons, as what was copied may
//!   have been what could not be written;
//! - other errors count for nothing;
//! - its lane is emptied before it is used again, as successions have been counted.
//!
//! A successor may be stopped, or die, at any point, and be succeeded: the turn says what is owed, whichever
//! participant has it, and all is done again. Its copy bears the number of its holding, is made, and then it
//! looks at the turn before it goes on. The next successor removes all copies of lower numbers before it
//! reads what the names lead to. So a rename by a successor that was succeeded is done by then, of a file
//! that has all that the one before had and more; or it never is. What it adds to the number of successions
//! costs others their open files, and what it raises `written` to is true from step 5 on, whichever copy has
//! the name.
//!
//! If the power fails, a name leads to the old file, which has all that was durable, or to a copy, which was
//! flushed before it got the name. Segments below `written` are not replaced, as nobody writes to them. One
//! that all of this is too late for, since the stopped one went on, finished, and had it taken out of use,
//! appears once more, and goes again as any that is out of use.
//!
//! # In the supply turn
//!
//! A holder that is stopped while it fills the rest of a segment in use with zeros is succeeded by one that
//! owes as well, and can do anything but fill that segment. Nothing is given an LSN where the zeros come. A
//! participant that needs more of the segment puts another file under its name, under the flush turn and in
//! the same steps, with zeros to the end of the segment, and then raises `prepared` to that end (step 6). It
//! is nobody's debt in the flush turn until the first name is given. So the late one
//!
//! - writes zeros where there are no records, or to a file without a name, or finds that it was succeeded: it
//!   has opened the file before it looks;
//! - raises `prepared` from what it found, which is true of both files, or not at all: `prepared` is at the
//!   end of the segment by then, and only grows. There nothing is owed for it any more, whichever participant
//!   raised it;
//! - poisons, if its flush fails: what was copied may be what could not be written.
//!
//! It costs the writing of one segment, mostly, and later for each hand-over two locked instructions instead
//! of two stores, until the region is made anew. Without room for the copies nobody is succeeded in the flush
//! turn, and others wait; in the supply turn a participant that needs more of the segment is told that the
//! disk is full.

use std::time::Duration;

use sablecat_os::atomic::{Ordering, fence};
use sablecat_os::disk::{AlignedBuf, File, How};

use super::files::Files;
use super::fill::{FILL_BYTES, fill};
use super::lane::{block_of, numbers};
use super::name::Name;
use super::segment::HEADER_BYTES;
use super::turn::{Caller, HeldTurn, SPINS_DURABLE, TurnHolding, TurnWatch};
use super::{BLOCK, Log};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Lsn;

/// A waiter that cannot tell whether the holder is stopped has so many times more patience. It has twice as
/// much after each succession, so many times: a device on which every flush takes so long must not have a
/// segment to write each time.
const UNKNOWN: u32 = 20;
const DOUBLED_MAX: u64 = 6;

/// The segments that get other files.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplacedSegments {
    /// Those that the succeeded holder of the flush turn may write to.
    Unwritten,
    /// The one that the succeeded holder of the supply turn may fill.
    Unfilled(u64),
}

/// What the ring has from the block of `written` to the tail.
struct RingCopy {
    from: Lsn,
    written: Lsn,
    to: Lsn,
    /// With zeros behind `to`.
    bytes: AlignedBuf,
}

impl Log {
    /// For how long a holder may not move if it is seen to be stopped, and if nobody can tell.
    pub(super) fn patience(&self, files: &Files) -> (Duration, Duration) {
        // Relaxed: any number will do.
        let doubled = self.words().successions.0.load(Ordering::Relaxed).min(DOUBLED_MAX) as u32;
        (files.patience, files.patience * (UNKNOWN << doubled))
    }

    /// Takes the turn from a holder that has not moved for long, if there is room for what that takes.
    #[cold]
    pub(super) fn succeed_if_stuck(
        &self,
        watch: &mut TurnWatch,
        seen: TurnHolding,
        caller: Caller<'_>,
    ) -> Option<HeldTurn<'_>> {
        let (words, files) = (self.words(), self.files.as_ref()?);
        let is_stuck = words.flush.is_stuck(watch, seen, caller, self.patience(files));
        if is_stuck && self.has_room_for_copies(files) { words.flush.succeed(seen, caller) } else { None }
    }

    /// Whether there is room for copies of the segments that would be replaced now. Where nobody can tell,
    /// the copying will.
    fn has_room_for_copies(&self, files: &Files) -> bool {
        let segments = &files.segments;
        let count = numbers(segments, block_of(self.written()), self.tail()).count() as u64;
        segments
            .disk()
            .free_bytes(segments.directory())
            .map_or(true, |free| free >= count * (HEADER_BYTES + segments.bytes()))
    }

    /// Puts another file under the name of a segment that somebody succeeded in the supply turn may fill,
    /// ready to its end.
    ///
    /// # Errors
    /// `DiskFull` or `Io`: nothing is lost, and a participant that needs more of that segment tries again.
    /// `Poisoned` if a flush failed.
    #[cold]
    pub(super) fn replace_unfilled(&self, files: &Files, number: u64, caller: Caller<'_>) -> Result<()> {
        let end = files.segments.first_lsn(number + 1);
        // Acquire: as in `has_room`.
        let is_ready = || self.words().prepared.0.load(Ordering::Acquire) >= end.0;
        // A participant that takes over the supply turn meanwhile does the same, and finds it done.
        self.until(
            caller,
            SPINS_DURABLE,
            is_ready,
            || false,
            |held| {
                if is_ready()
                    || held.owes() && !self.replace_files(files, held, ReplacedSegments::Unwritten)?
                {
                    return Ok(());
                }
                self.replace_files(files, held, ReplacedSegments::Unfilled(number)).map(drop)
            },
        )
    }

    /// Does what is [owed](HeldTurn::owes) about a succeeded holder. False if the caller has been succeeded
    /// itself, and all is the next one's.
    ///
    /// # Errors
    /// `DiskFull` or `Io`: it is owed still, nothing is lost, and the next holder of the turn tries again.
    /// `Poisoned` if a flush failed.
    #[cold]
    pub(super) fn replace_files(
        &self,
        files: &Files,
        held: &mut HeldTurn<'_>,
        which: ReplacedSegments,
    ) -> Result<bool> {
        self.words().check()?;
        let replaced = self.replace(files, held, which);
        if !matches!(replaced, Ok(true)) {
            // Best effort: the next one does it if need be.
            let _ = files.segments.remove(Name::Copy(held.number()));
        }
        match replaced {
            Ok(true) => Ok(held.settle()),
            Err(error) if error.kind() != ErrorKind::Poisoned && held.is_succeeded() => Ok(false),
            replaced => replaced,
        }
    }

    fn replace(&self, files: &Files, held: &mut HeldTurn<'_>, which: ReplacedSegments) -> Result<bool> {
        let (words, segments) = (self.words(), &files.segments);
        for name in segments.list()? {
            if matches!(name, Name::Copy(number) if number <= held.number()) {
                segments.remove(name)?;
            }
        }
        let copied = loop {
            let copied = self.copy_ring();
            match self.replace_files_of(files, &copied, (held, which)) {
                Ok(true) => break copied,
                // The stopped one went on, and others have taken a file out of use since.
                Err(error) if error.kind() != ErrorKind::Poisoned && self.written() > copied.written => {}
                replaced => return replaced,
            }
        };
        // SeqCst: rare. Before the turn is another's, which looks at it: pairs with the Acquire in
        // `write_with`.
        let successions = words.successions.0.fetch_add(1, Ordering::SeqCst) + 1;
        match which {
            ReplacedSegments::Unwritten => words.written.0.raise(copied.to.0, successions),
            // Release: pairs with the Acquire in `has_room`. A holder that has been succeeded here finds it
            // raised as far, or it is true of the file of its successor.
            ReplacedSegments::Unfilled(number) => {
                _ = words.prepared.0.fetch_max(segments.first_lsn(number + 1).0, Ordering::Release)
            }
        }
        Ok(true)
    }

    /// Puts other files under the names of all segments that hold something of what was copied, or of the one
    /// that is to be filled.
    fn replace_files_of(
        &self,
        files: &Files,
        copied: &RingCopy,
        (held, which): (&mut HeldTurn<'_>, ReplacedSegments),
    ) -> Result<bool> {
        let numbers = match which {
            // If nothing was appended since, nobody is about to write.
            ReplacedSegments::Unwritten if copied.written == copied.to => return Ok(true),
            ReplacedSegments::Unwritten => numbers(&files.segments, copied.from, copied.to),
            ReplacedSegments::Unfilled(number) => number..number + 1,
        };
        self.flush_copied(files, copied)?;
        for number in numbers {
            if !self.replace_file(files, number, copied, (held, which))? {
                return Ok(false);
            }
        }
        self.sync_directory(files)?;
        Ok(true)
    }

    /// Copies what the ring has. The tail is read under the turn, so it is no earlier than any that an
    /// earlier holder has read and may act upon.
    fn copy_ring(&self) -> RingCopy {
        loop {
            let (written, to) = (self.written(), self.tail());
            let from = block_of(written);
            let mut bytes = AlignedBuf::new((to.0 - from.0).next_multiple_of(BLOCK) as usize);
            // SAFETY: until `written` moves nobody writes there; if it has, the bytes are not used.
            unsafe { self.memory.ring.copy_out(from, &mut bytes[..(to.0 - from.0) as usize]) };
            // Acquire: the copy is made before the look. A committer that has written over what was copied
            // had seen `written` raised.
            fence(Ordering::Acquire);
            if self.written() == written {
                return RingCopy { from, written, to, bytes };
            }
        }
    }

    /// Flushes what is copied of the files and may not be durable: the system may have failed to write it,
    /// and forget it, and a copy would not show that.
    fn flush_copied(&self, files: &Files, copied: &RingCopy) -> Result<()> {
        let (words, segments) = (self.words(), &files.segments);
        let first = segments.first_lsn(segments.number_of(copied.from));
        let unflushed = (self.durable().max(first), copied.written);
        files.with_lane(|lane| {
            lane.adopt(words.successions.0.load(Ordering::Acquire));
            lane.open_all(segments, unflushed)?;
            let stored = true;
            lane.sync(segments, &words.counters.0, unflushed, stored).map_err(|error| words.poison(&error))
        })
    }

    /// Puts another file under the name of a segment. False if the caller has been succeeded.
    fn replace_file(
        &self,
        files: &Files,
        number: u64,
        copied: &RingCopy,
        (held, which): (&mut HeldTurn<'_>, ReplacedSegments),
    ) -> Result<bool> {
        let segments = &files.segments;
        let (name, copy) = (Name::Log(number), Name::Copy(held.number()));
        let path = segments.path(copy);
        let old = segments.open_file(name, false, true)?;
        let how =
            How { create: false, create_new: true, read_only: false, direct: files.direct, durable: false };
        let file = segments
            .disk()
            .open(&path, how)
            .map_err(|e| Error::io("making a copy of a log segment", &path, e))?;
        // Had this one the turn until now, its successor finds the copy, and takes the name away.
        if held.is_succeeded() {
            return Ok(false);
        }
        self.fill_copy(files, (&*old, &*file), number, copied, (held, which))
            .map_err(|e| Error::io(format_args!("copying log segment {number:016x} to"), &path, e))?;
        // Others may have the old file open: they must not write before this has been counted.
        if !held.owe() {
            return Ok(false);
        }
        let renamed = segments.rename(copy, name)?;
        if !renamed && !held.is_succeeded() {
            return Err(Error::io(
                "renaming a copy of a log segment",
                &path,
                std::io::ErrorKind::NotFound.into(),
            ));
        }
        Ok(renamed)
    }

    /// Writes and flushes a copy of segment `number`.
    fn fill_copy(
        &self,
        files: &Files,
        (old, file): (&dyn File, &dyn File),
        number: u64,
        copied: &RingCopy,
        (held, which): (&HeldTurn<'_>, ReplacedSegments),
    ) -> std::io::Result<()> {
        let segments = &files.segments;
        let (first, end) = (segments.first_lsn(number), segments.first_lsn(number + 1));
        // Equal if the ring has nothing of it: one that is yet to be used.
        let from = copied.from.max(first);
        let to = Lsn(copied.to.0.next_multiple_of(BLOCK)).min(end).max(from);
        file.keep_in_place();
        // Also what was made ready while this goes on has its room.
        file.preallocate(0, HEADER_BYTES + segments.bytes())?;
        let before = HEADER_BYTES + (from.0 - first.0);
        let mut buffer = AlignedBuf::new(FILL_BYTES.min(usize::try_from(before).unwrap_or(FILL_BYTES)));
        let mut at = 0;
        while at < before {
            let piece = (before - at).min(buffer.len() as u64) as usize;
            read_exactly(old, &mut buffer[..piece], at)?;
            file.write_at(&buffer[..piece], at)?;
            held.move_on();
            at += piece as u64;
        }
        if from < to {
            file.write_at(
                &copied.bytes[(from.0 - copied.from.0) as usize..(to.0 - copied.from.0) as usize],
                before,
            )?;
        }
        let ready = match which {
            ReplacedSegments::Unwritten => Lsn(self.words().prepared.0.load(Ordering::Acquire)).min(end),
            ReplacedSegments::Unfilled(_) => end,
        };
        fill(file, HEADER_BYTES + (to.0 - first.0), ready.0.saturating_sub(to.0), held)?;
        file.sync()
    }
}

fn read_exactly(file: &dyn File, mut bytes: &mut [u8], mut at: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, at)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                at += read as u64;
            }
        }
    }
    Ok(())
}

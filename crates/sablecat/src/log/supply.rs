//! The supply of segments: made ahead of the tail, reused behind the checkpoint, begun afresh after recovery,
//! removed after a clean close.
//!
//! A segment is a file of zeros written and flushed once, since a flush after overwriting costs a fraction of
//! one after growing; or a file whose old contents nobody needs. Old contents do no harm: every record names
//! its LSN, and no LSN is given twice. A file system that writes nothing over what is there (btrfs) is asked
//! to make an exception: there each flush would give blocks new places, and zeros would have been for nothing
//! ([decision 18](../../../../docs/decisions/0018-log-in-place.md)).
//!
//! Order of events, each step flushed before the next: the file made in its whole length under a name that
//! means nothing, with its header and its first zeros; the name changed to that of the next segment; the
//! directory flushed; `prepared` raised, from which moment commits may get LSNs inside. A file that was not
//! filled to its end is filled on, and `prepared` raised again: no record is where zeros are still to be
//! written. The supply turn has one participant at a time do this. A holder that dies leaves a file that the
//! next one removes, or a segment that is ready and only not counted yet. A holder that is stopped is
//! succeeded after a while, and may go on at any moment. So files in the making have names of their own, the
//! name of a segment is given only if nobody has it, and `prepared` is raised only from what it was. Zeros
//! into a segment in use would not be harmless then: a holder that writes them insists on the turn. So a
//! successor that takes the turn from it owes something, and before anybody else fills that segment another
//! file takes its name, ready to the end (succession.rs, [decision
//! 24](../../../../docs/decisions/0024-in-each-others-way.md)).
//!
//! How much is made ready follows the need: as much ahead as this life has used, from half a megabyte to half
//! a segment. So opening costs a megabyte of zeros and its space, a short life never fills a segment, and
//! after some megabytes of log whole segments are made. On a file system in memory it is one megabyte at
//! most, in small pieces: others could use that memory, and to find it takes as long whenever that is done.
//! Likewise as many spares are kept as the last stretch between two checkpoints used up. Where segments are
//! archived none becomes a spare, and all are made anew.
//!
//! On a disk without room for a segment one is made all the same, with a hole for its end. As much of it is
//! made ready as there is room for. A full disk must not keep anybody from opening the environment and
//! deleting something. When the hole is reached there is room by then, or commits end in `DiskFull`.

use std::path::PathBuf;

use sablecat_os::atomic::Ordering;
use sablecat_os::calendar::Moment;
use sablecat_os::clock;
use sablecat_os::disk::{AlignedBuf, How};

use super::archive::Archive;
use super::files::{Files, IN_MEMORY_BYTES};
use super::fill::{fill_some, reserve_ahead};
use super::limits::LIFE_END;
use super::name::Name;
use super::segment::{HEADER_BYTES, Segments};
use super::turn::{Caller, HeldTurn};
use super::words::count;
use super::{BLOCK, Log};
use crate::error::{Error, ErrorKind, Result, is_full};
use crate::types::Lsn;

/// So much is made ready beyond the tail at least.
const AHEAD_MIN: u64 = 512 << 10;
/// And so much at most, on a file system in memory.
const AHEAD_IN_MEMORY_MAX: u64 = 1 << 20;

/// What is kept of the archive, beyond what is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retention {
    /// So many bytes; none: any number.
    pub(crate) bytes_max: Option<u64>,
    /// What was archived at this time or later; none: everything.
    pub(crate) since: Option<Moment>,
}

impl Log {
    /// Whether more should be made ready: less is left than [is wanted ahead](Log::ahead).
    pub(crate) fn wants_segment(&self) -> bool {
        self.wants_segment_behind(self.tail())
    }

    /// The same where the tail was not long ago.
    #[inline]
    pub(crate) fn wants_segment_behind(&self, tail: Lsn) -> bool {
        self.files.as_ref().is_some_and(|files| {
            let left = self.words().prepared.0.load(Ordering::Acquire).saturating_sub(tail.0);
            left < self.ahead(files, tail)
        })
    }

    /// How many bytes beyond the tail should be ready: as many as this life has used, within bounds.
    #[inline]
    fn ahead(&self, files: &Files, tail: Lsn) -> u64 {
        let used = tail.0.saturating_sub(self.words().life.0.load(Ordering::Acquire));
        files.at_most_in_memory(used, AHEAD_IN_MEMORY_MAX).max(AHEAD_MIN).min(files.segments.bytes() / 2)
    }

    /// How many bytes are made ready at once, if that many are left of the segment.
    fn piece(&self, files: &Files) -> u64 {
        let wanted = 2 * self.ahead(files, self.tail());
        files.at_most_in_memory(wanted, IN_MEMORY_BYTES).next_multiple_of(BLOCK)
    }

    /// Makes the next segment ready if it [is wanted](Log::wants_segment), unless somebody is at that
    /// already. For housekeeping, off the commit path.
    ///
    /// # Errors
    /// `DiskFull` or `Io`; nothing is lost and it may be tried again. `Poisoned` when a flush of what was in
    /// use has failed, now or earlier.
    pub(crate) fn prepare_next(&self, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        if !self.wants_segment() {
            return Ok(());
        }
        // Not waited for: it may be stopped, and its caller has the log to flush.
        let Ok(held) = self.words().supply.try_take(caller) else { return Ok(()) };
        self.unless_succeeded(held, caller, |held| {
            if self.wants_segment() { self.prepare_one(files, held, caller) } else { Ok(()) }
        })
    }

    /// Does `work` under the supply turn.
    fn supplying(
        &self,
        files: &Files,
        caller: Caller<'_>,
        work: impl FnOnce(&mut HeldTurn<'_>) -> Result<()>,
    ) -> Result<()> {
        self.unless_succeeded(self.words().supply.take_over(caller, self.patience(files)), caller, work)
    }

    /// Does `work` under the turn. Errors of a holder that has been succeeded meanwhile count for nothing,
    /// since the successor may have been at the same files. But a failed flush is one, whoever asked for it.
    fn unless_succeeded(
        &self,
        mut held: HeldTurn<'_>,
        caller: Caller<'_>,
        work: impl FnOnce(&mut HeldTurn<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check_supplier(caller)?;
        match work(&mut held) {
            Err(error) if error.kind() != ErrorKind::Poisoned && held.is_succeeded() => Ok(()),
            result => result,
        }
    }

    /// Whether a participant that has just got the turn may do anything with it. Once a flush has failed
    /// nobody knows which names will be there tomorrow, and the next flush, which may succeed, says nothing
    /// of them: so files are neither made, nor renamed, nor removed any more. Not before the turn: the last
    /// holder may just have found out.
    fn check_supplier(&self, caller: Caller<'_>) -> Result<()> {
        caller.check_fence()?;
        self.words().check()
    }

    /// Whether somebody makes, recycles or archives segments at the moment.
    pub(crate) fn is_supplying(&self) -> bool {
        self.words().supply.owner() != 0
    }

    /// Makes segments ready until they reach `to`.
    pub(super) fn prepare_to(&self, to: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let words = self.words();
        // Acquire: pairs with the Release in `prepare_one`.
        while words.prepared.0.load(Ordering::Acquire) < to.0 {
            words.check()?;
            self.supplying(files, caller, |held| {
                if words.prepared.0.load(Ordering::Acquire) >= to.0 {
                    return Ok(());
                }
                count(&words.counters.0.late_segments, 1);
                self.prepare_one(files, held, caller)
            })?;
        }
        Ok(())
    }

    /// Makes more of the last segment ready, or of the one after it when it is ready to its end.
    fn prepare_one(&self, files: &Files, held: &mut HeldTurn<'_>, caller: Caller<'_>) -> Result<()> {
        let (words, segments) = (self.words(), &files.segments);
        let from = Lsn(words.prepared.0.load(Ordering::Acquire));
        let number = segments.number_of(from);
        let left = segments.first_lsn(number + 1).0 - from.0;
        let piece = left.min(self.piece(files));
        let ready = if left < segments.bytes() {
            // The holder that was succeeded may still be filling it.
            if held.owes() {
                return self.replace_unfilled(files, number, caller);
            }
            // Zeros that came late would come over records.
            if !held.insist() {
                return Ok(());
            }
            let path = segments.path(Name::Log(number));
            let file = segments.open_file(Name::Log(number), files.direct, false)?;
            files.note_kind(&*file);
            // Zeros behind the end of what was cut short would make it as long again: nobody would find it.
            self.check_length(segments, &*file, from, "filling log segment")?;
            let offset = segments.offset_of(from);
            // Where that cannot be said nothing is reserved.
            let room = segments.disk().free_bytes(segments.directory()).unwrap_or(0);
            let filled = reserve_ahead(&*file, offset, (piece, left), room, held)
                .and_then(|()| fill_some(&*file, offset, piece, held))
                .map_err(|e| Error::io("filling log segment", &path, e))?;
            // The segment is in use, and its flush is of all that was written to it, by whomever: what was
            // handed over is lost with the zeros. Also if another has the turn by now: what it copied may be
            // what was lost.
            file.sync().map_err(|e| words.poison(&Error::io("flushing log segment", &path, e)))?;
            filled
        } else {
            // The succeeded holder has raised it so far, and does nothing more; or it fills a file without a
            // name.
            if held.owes() && !held.settle() {
                return Ok(());
            }
            self.begin_segment(files, number, piece, held)?
        };
        // Release: pairs with the Acquire in `has_room`; a commit inside comes after all of the above. A
        // holder that has been succeeded may find it raised already; it only grows, so it is not raised twice
        // for one thing.
        let _ =
            words.prepared.0.compare_exchange(from.0, from.0 + ready, Ordering::Release, Ordering::Relaxed);
        Ok(())
    }

    /// Makes segment `number`, of a spare or anew, with `piece` bytes of zeros in the latter case. Returns
    /// how much of it is ready.
    fn begin_segment(&self, files: &Files, number: u64, piece: u64, held: &HeldTurn<'_>) -> Result<u64> {
        let (words, segments) = (self.words(), &files.segments);
        if segments.first_lsn(number + 1) > Lsn::END {
            return Err(Error::exhausted("the log has used up its numbers"));
        }
        let ready = segments.path(Name::Log(number));
        let header = segments.header(
            number,
            words.life.0.load(Ordering::Acquire),
            words.continues.load(Ordering::Acquire),
        );
        let exists =
            segments.disk().exists(&ready).map_err(|e| Error::io("looking for log segment", &ready, e))?;
        let made =
            if exists { None } else { self.make_segment(files, number, &header.encode(), piece, held)? };
        let bytes = match made {
            Some(bytes) => bytes,
            None => {
                // Who made it may have died since, or been quicker; anything else is not this life's.
                if segments.read_header(number)? != header {
                    return Err(Error::corruption(format!(
                        "log segment {} exists already, and belongs to another life (timeline) of the log: \
                         files were replaced, or added, while the environment was open",
                        ready.display()
                    )));
                }
                self.ready_in(files, number, piece)?
            }
        };
        // Also when another has made it: the participant that renamed it may have died before this.
        self.sync_directory(files)?;
        Ok(bytes)
    }

    /// Makes a file of a spare or anew, and gives it the name of segment `number`. Returns how much of it is
    /// ready; none: another was quicker.
    fn make_segment(
        &self,
        files: &Files,
        number: u64,
        header: &AlignedBuf,
        piece: u64,
        held: &HeldTurn<'_>,
    ) -> Result<Option<u64>> {
        let segments = &files.segments;
        let mine = Name::New(held.number());
        // Of spares that are there before the first nobody knows how they became that.
        let is_first = segments.first_lsn(number).0 == self.words().life.0.load(Ordering::Acquire);
        let is_spare = !is_first && self.take_spare(files, held)?;
        let made = if is_spare {
            // Its old name must be gone for good; the participant that took that away may have died before
            // this.
            self.sync_directory(files)
                .and_then(|()| rewrite_header(segments, mine, header))
                .map(|()| segments.bytes())
        } else {
            self.make_new(files, mine, header, piece, held)
        };
        held.move_on();
        let named = made.and_then(|ready| Ok(segments.rename_new(mine, Name::Log(number))?.then_some(ready)));
        if !matches!(named, Ok(Some(_))) {
            // Best effort: on a full disk what was written should not stay, nor what another was quicker
            // with.
            let _ = segments.remove(mine);
        }
        named
    }

    /// How much of a segment is ready, up to `piece`, that another made and that may be in use. On a full
    /// disk there may be a hole in it. Nothing is written: that would not be harmless.
    fn ready_in(&self, files: &Files, number: u64, piece: u64) -> Result<u64> {
        let segments = &files.segments;
        let path = segments.path(Name::Log(number));
        let file = segments.open_file(Name::Log(number), false, false)?;
        let mut ready = piece;
        loop {
            match file.preallocate(HEADER_BYTES, ready) {
                Err(e) if is_full(&e) && ready > BLOCK => ready = (ready / 2).next_multiple_of(BLOCK),
                reserved => {
                    break reserved.map_err(|e| Error::io("taking space for log segment", &path, e))?;
                }
            }
        }
        file.sync().map_err(|e| self.words().poison(&Error::io("flushing log segment", &path, e)))?;
        // Not every file system can reserve: then what its maker has filled counts.
        let space = file.space().map_err(|e| Error::io("asking the space of log segment", &path, e))?;
        Ok(ready.min(space.saturating_sub(HEADER_BYTES) / BLOCK * BLOCK).max(BLOCK))
    }

    /// Gives a spare file of the right size, without holes, the name that it has while it is made ready, if
    /// there is one: of two participants that want it one gets it. Others found on the way are removed, and
    /// what earlier holders of the turn left unfinished; if they live, they have been succeeded.
    fn take_spare(&self, files: &Files, held: &HeldTurn<'_>) -> Result<bool> {
        let segments = &files.segments;
        for name in segments.list()? {
            match name {
                Name::New(number) if number < held.number() => segments.remove(name)?,
                Name::Spare(_) => {
                    // Claimed before it is looked at.
                    let mine = Name::New(held.number());
                    if !segments.rename(name, mine)? {
                        continue;
                    }
                    let file = segments.open_file(mine, false, false)?;
                    let io = |e| Error::io("asking the length of", &segments.path(mine), e);
                    let len = file.len().map_err(io)?;
                    // One of which not all was needed has a hole, which must be filled first: not every file
                    // system can.
                    let whole = HEADER_BYTES + segments.bytes();
                    if len == whole
                        && file.preallocate(0, whole).is_ok()
                        && file.space().map_err(io)? >= whole
                    {
                        return Ok(true);
                    }
                    segments.remove(mine)?;
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// Makes a new file in its whole length, its header and `piece` zeros written and flushed, or as many as
    /// there is room for, under a name that means nothing yet. Says how many those were.
    fn make_new(
        &self,
        files: &Files,
        name: Name,
        header: &AlignedBuf,
        piece: u64,
        held: &HeldTurn<'_>,
    ) -> Result<u64> {
        let segments = &files.segments;
        let path = segments.path(name);
        let how =
            How { create: true, create_new: false, read_only: false, direct: files.direct, durable: false };
        let made = segments.disk().open(&path, how).and_then(|file| {
            files.note_kind(&*file);
            file.keep_in_place();
            let whole = HEADER_BYTES + segments.bytes();
            file.set_len(whole)?;
            let is_ready = match file.preallocate(0, HEADER_BYTES + piece) {
                // What the disk has room for is filled; the rest when it is wanted, if there is room for that
                // then.
                Err(e) if is_full(&e) => {
                    file.set_len(0).and_then(|()| file.set_len(whole)).map(|()| false)?
                }
                preallocated => preallocated.map(|()| file.is_ready_preallocated())?,
            };
            file.write_at(header, 0)?;
            let ready = if is_ready { piece } else { fill_some(&*file, HEADER_BYTES, piece, held)? };
            // Nobody relies on the file yet: if this fails it goes.
            file.sync().map(|()| ready)
        });
        made.map_err(|e| Error::io("making log segment", &path, e))
    }

    /// Gives back the segments that lie wholly below `lsn`: to the archive if there is one, else for reuse or
    /// to the disk. As many spares are kept as segments are given back now, that is, as were used up since
    /// the last time. The caller knows that nothing below `lsn` will be read again for recovery: a durable
    /// checkpoint begins there or above.
    ///
    /// # Errors
    /// `Io`; what was not given back this time will be the next. `Poisoned` if a flush of the log or of its
    /// directories has failed, now or earlier.
    pub(crate) fn recycle_before(&self, lsn: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        // What is not durable yet will be flushed by name.
        let lsn = lsn.min(self.durable());
        self.supplying(files, caller, |held| self.recycle(files, lsn, held))
    }

    fn recycle(&self, files: &Files, lsn: Lsn, held: &HeldTurn<'_>) -> Result<()> {
        let segments = &files.segments;
        let names = segments.list()?;
        // Strictly below: a scan from exactly the end of a segment wants to see that it was there.
        let is_over = |name: &Name| matches!(name, Name::Log(number) if segments.first_lsn(number + 1) < lsn);
        let mut over: Vec<u64> =
            names.iter().filter(|name| is_over(name)).filter_map(|name| name.number_used()).collect();
        over.sort_unstable();
        let mut wanted = over.len().min(files.spares_max);
        let mut changed = false;
        // Those that are spares already first.
        for name in names.iter().filter(|name| matches!(name, Name::Spare(_))) {
            if wanted > 0 {
                wanted -= 1;
            } else {
                segments.remove(*name)?;
                changed = true;
            }
        }
        if let Some(archive) = segments.archive() {
            return self
                .archive(files, archive, &over, None, held)
                .and_then(|()| if changed { self.sync_directory(files) } else { Ok(()) });
        }
        for &number in &over {
            held.move_on();
            if wanted > 0 {
                segments.rename(Name::Log(number), Name::Spare(number))?;
                wanted -= 1;
            } else {
                segments.remove(Name::Log(number))?;
            }
            changed = true;
        }
        // Before a spare's header is rewritten its old name must be gone for good.
        if changed { self.sync_directory(files) } else { Ok(()) }
    }

    /// Gives up all files of the log, after the last commit of a life: to the archive, if there is one, those
    /// that hold something of what was logged before `end`. The caller knows that a durable checkpoint holds
    /// everything and says so. The names need not be gone for good: whichever a crash brings back, the next
    /// life passes them by.
    ///
    /// # Errors
    /// `Io`; what is left is of no use, and does no harm. `Poisoned` as for [`Log::recycle_before`].
    pub(crate) fn give_up_files(&self, end: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let segments = &files.segments;
        let held = self.words().supply.take(caller);
        self.check_supplier(caller)?;
        if let Some(archive) = segments.archive() {
            let kept: Vec<u64> =
                segments.numbers()?.into_iter().filter(|&number| segments.first_lsn(number) < end).collect();
            self.archive(files, archive, &kept, Some(end), &held)?;
        }
        let mut names = segments.list()?;
        // Oldest first, so that a log of which a part is left lacks its beginning, and is not taken for a
        // shorter one.
        names.sort_unstable_by_key(|name| name.number_used());
        let removed = names.into_iter().try_for_each(|name| segments.remove(name));
        // What is open keeps its space.
        files.with_lane(|lane| lane.reset());
        removed
    }

    /// Gives back what has no record yet of the segment in which the life before ended, if it is there.
    ///
    /// # Errors
    /// `Io`: nothing is lost.
    pub(crate) fn empty_last(&self, end: Lsn) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let number = files.segments.number_of(end);
        let is_there = files.segments.numbers()?.contains(&number);
        if is_there { files.segments.empty_behind(number, end) } else { Ok(()) }
    }

    /// Removes all spare segments, for the room that they take. Says whether there were any.
    ///
    /// # Errors
    /// `Io`. `Poisoned` as for [`Log::recycle_before`].
    pub(crate) fn give_up_spares(&self, caller: Caller<'_>) -> Result<bool> {
        let Some(files) = &self.files else { return Ok(false) };
        let mut were_any = false;
        self.supplying(files, caller, |_| self.remove_spares().map(|any| were_any = any))?;
        Ok(were_any)
    }

    /// The same. The caller is alone, or has the supply turn.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_spares(&self) -> Result<bool> {
        let Some(files) = &self.files else { return Ok(false) };
        let spares: Vec<_> =
            files.segments.list()?.into_iter().filter(|name| matches!(name, Name::Spare(_))).collect();
        spares.iter().try_for_each(|name| files.segments.remove(*name))?;
        Ok(!spares.is_empty())
    }

    /// Archives segments, given in ascending order. A life of which the end is known, from the life after it
    /// or because it is `end`, is cut off there. The caller has the supply turn.
    fn archive(
        &self,
        files: &Files,
        archive: &Archive,
        numbers: &[u64],
        end: Option<Lsn>,
        held: &HeldTurn<'_>,
    ) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let segments = &files.segments;
        archive.create()?;
        archive.make_last().map_err(|error| self.unflushed(error))?;
        let in_use = segments.numbers()?;
        let now = clock::wall_coarse();
        for &number in numbers {
            held.move_on();
            if archive.find(number)?.is_some() {
                // Made once more by a holder that had been succeeded long ago: there is nothing in it.
                segments.remove(Name::Log(number))?;
                continue;
            }
            let taken = self.archive_one(files, archive, number, (&in_use, end, now));
            let path = segments.path(Name::Log(number));
            // A late one may have been quicker: then it is there under the other name, which is flushed
            // below.
            if taken.is_err()
                && segments
                    .disk()
                    .exists(&path)
                    .map_err(|e| Error::io("looking for log segment", &path, e))?
            {
                return taken;
            }
        }
        // The new names first: a segment is never without one.
        archive.sync().map_err(|error| self.unflushed(error))?;
        self.sync_directory(files)
    }

    fn archive_one(
        &self,
        files: &Files,
        archive: &Archive,
        number: u64,
        (in_use, end, now): (&[u64], Option<Lsn>, Moment),
    ) -> Result<()> {
        let segments = &files.segments;
        let next = in_use
            .iter()
            .find(|&&other| other > number)
            .map(|&next| segments.read_header(next))
            .transpose()?;
        let own = segments.read_header(number)?;
        let ends = match next {
            Some(next) if next.life == own.life => None,
            Some(next) => Some(Lsn(next.continues)),
            None => end,
        };
        let within = segments.first_lsn(number)..segments.first_lsn(number + 1);
        if let Some(ends) = ends.filter(|ends| within.contains(ends)) {
            segments.cut(number, ends)?;
        }
        archive.take_in(&segments.path(Name::Log(number)), number, now)
    }

    /// The first of the archived segments, if there is one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn oldest_archived(&self) -> Result<Option<PathBuf>> {
        let Some(archive) = self.files.as_ref().and_then(|files| files.segments.archive()) else {
            return Ok(None);
        };
        Ok(archive.list()?.first().map(|oldest| archive.path(oldest)))
    }

    /// Removes archived segments, the oldest first, as long as they are more than is to be kept and lie
    /// wholly below `needed`.
    ///
    /// # Errors
    /// `Io`; what was not removed this time will be the next. `Poisoned` as for [`Log::recycle_before`].
    pub(crate) fn prune_archive(&self, kept: Retention, needed: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let segments = &files.segments;
        let Some(archive) = segments.archive().filter(|_| kept.bytes_max.is_some() || kept.since.is_some())
        else {
            return Ok(());
        };
        self.supplying(files, caller, |held| {
            let archived = archive.list()?;
            let lengths = archived.iter().map(|one| archive.len(one)).collect::<Result<Vec<_>>>()?;
            let mut bytes: u64 = lengths.iter().sum();
            for (one, len) in archived.iter().zip(lengths) {
                let is_needed = segments.first_lsn(one.number + 1) >= needed;
                let is_too_much = kept.bytes_max.is_some_and(|max| bytes > max)
                    || kept.since.is_some_and(|since| one.time < since);
                if is_needed || !is_too_much {
                    break;
                }
                archive.remove(one)?;
                held.move_on();
                bytes -= len;
            }
            Ok(())
        })
    }

    /// Whether there are segments. Without any, nothing was logged since the log was last given up.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn has_segments(&self) -> Result<bool> {
        Ok(!self.files()?.segments.numbers()?.is_empty())
    }

    /// Flushes the directory.
    pub(super) fn sync_directory(&self, files: &Files) -> Result<()> {
        files.segments.sync_directory().map_err(|error| self.unflushed(error))
    }

    /// The error of a directory's flush. If it failed, nobody knows which names will be there tomorrow, and
    /// asking again does not help: it poisons. Not so if it was never tried.
    #[cold]
    fn unflushed(&self, error: Error) -> Error {
        if error.is_untried() { error } else { self.words().poison(&error) }
    }

    /// Begins a new life of the log that goes on after `end`, which is where a [scan](Log::scan) ended (0 for
    /// a new environment), at `floor` or above, and returns its first LSN. From here on commits may come; on
    /// a full disk there may be no room ready for them yet. The caller has [made](super::LogScan::make_last)
    /// everything below `end` last, and is alone.
    ///
    /// # Errors
    /// `Io`; it may be tried again.
    pub(crate) fn start_fresh(&self, end: Lsn, floor: Lsn, caller: Caller<'_>) -> Result<Lsn> {
        let Some(files) = &self.files else {
            self.words().start(end.0, end.0);
            return Ok(end);
        };
        let segments = &files.segments;
        segments.sync_parent()?;
        let names = segments.list()?;
        let last = segments.number_of(end);
        let archived = segments.numbers_kept()?.last().copied();
        let newest = names.iter().filter_map(|name| Some((name.number_used()?, *name))).max_by_key(|it| it.0);
        let highest = newest.map(|it| it.0).max(archived);
        let number = match highest {
            None if end.0 == 0 => 0,
            highest => highest.unwrap_or(0).max(last) + 1,
        };
        let number = number.max(floor.0.div_ceil(segments.bytes()));
        // Refused now, with nothing logged yet: nobody comes to the last number.
        let life = number.checked_mul(segments.bytes()).filter(|&life| life < LIFE_END).ok_or_else(|| {
            let newest = newest.map_or(segments.directory().to_owned(), |it| segments.path(it.1));
            Error::exhausted(format!(
                "the log cannot go on after {}: there are too few numbers left; move that file away if it \
                 is not one of this environment, or copy the environment into a new one (`sablecat restore`)",
                newest.display()
            ))
        })?;
        let mut newest_first = names;
        newest_first.sort_unstable_by_key(|name| std::cmp::Reverse(name.number_used()));
        for name in newest_first {
            match name {
                Name::New(_) | Name::Copy(_) => segments.remove(name)?,
                // Made ahead, or torn remains beyond the end. `number` stays above them under either name.
                // One by one, newest first, so that a crash never leaves a gap.
                Name::Log(number) if number > last => {
                    segments.rename(name, Name::Spare(number))?;
                    self.sync_directory(files)?;
                }
                Name::Log(_) | Name::Spare(_) => {}
            }
        }
        self.sync_directory(files)?;
        self.words().start(life, end.0);
        match self.supplying(files, caller, |held| self.prepare_one(files, held, caller)) {
            // The opening makes room, or a committer says that there is none.
            Err(error) if error.is_full() => {}
            prepared => {
                prepared?;
                // Now that there is a segment above them all. Where the flush of the directory failed that
                // made it a spare, its old name is the one that lasts, whatever can be seen now.
                self.remove_spares()?;
            }
        }
        Ok(Lsn(life))
    }
}

/// Writes the header of a spare file anew, and flushes it.
fn rewrite_header(segments: &Segments, name: Name, header: &AlignedBuf) -> Result<()> {
    let path = segments.path(name);
    let file = segments.open_file(name, false, false)?;
    file.write_at(header, 0).map_err(|e| Error::io("writing the header of log segment", &path, e))?;
    file.sync().map_err(|e| Error::io("flushing log segment", &path, e))
}

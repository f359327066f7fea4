//! The supply of segments: made ahead of the tail, reused behind the checkpoint, begun afresh after recovery.
//!
//! A segment is a file of zeros written and flushed once, since a flush after overwriting costs a fraction of one after growing; or a file
//! whose old contents nobody needs. Old contents do no harm: every record names its LSN, and no LSN is given twice.
//!
//! Order of events, each step flushed before the next: all blocks written under a name that means nothing; the header written; the name
//! changed to that of the next segment; the directory flushed; `prepared` raised, from which moment commits may get LSNs inside. The supply
//! turn makes sure that one participant at a time does this. Whoever dies in it leaves a file that the next one overwrites, or a segment
//! that is ready and only not counted yet.

use sablecat_os::atomic::Ordering;
use sablecat_os::disk::{AlignedBuf, File, How};

use super::segment::{HEADER_BYTES, Name};
use super::turn::{Caller, Held};
use super::words::count;
use super::{Files, Log};
use crate::error::{Error, Result};
use crate::types::Lsn;

/// How much is written at once while a new file is filled.
const FILL_BYTES: usize = 1 << 20;

impl Log {
    /// Whether the next segment should be made ready: more than half of the last one is used.
    #[inline]
    pub(crate) fn wants_segment(&self) -> bool {
        self.files.as_ref().is_some_and(|files| {
            let left = self.words().prepared.0.load(Ordering::Acquire).saturating_sub(self.tail().0);
            left < files.segments.bytes() / 2
        })
    }

    /// Makes the next segment ready if it [is wanted](Log::wants_segment). For whoever keeps house, off the commit path.
    ///
    /// # Errors
    /// `Full` or `Io`; nothing is lost and it may be tried again.
    pub(crate) fn prepare_next(&self, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        if !self.wants_segment() {
            return Ok(());
        }
        let held = self.words().supply.take(caller);
        if self.wants_segment() { self.prepare_one(files, &held) } else { Ok(()) }
    }

    /// Makes segments ready until they reach `to`.
    pub(super) fn prepare_to(&self, to: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let words = self.words();
        // Acquire: pairs with the Release in `prepare_one`.
        while words.prepared.0.load(Ordering::Acquire) < to.0 {
            let held = words.supply.take(caller);
            if words.prepared.0.load(Ordering::Acquire) < to.0 {
                count(&words.counters.0.late_segments, 1);
                self.prepare_one(files, &held)?;
            }
        }
        Ok(())
    }

    fn prepare_one(&self, files: &Files, _held: &Held<'_>) -> Result<()> {
        let (words, segments) = (self.words(), &files.segments);
        let end = words.prepared.0.load(Ordering::Acquire);
        let number = segments.number_of(Lsn(end));
        let ready = segments.path(Name::Log(number));
        let header = segments.header(number, words.life.0.load(Ordering::Acquire), words.continues.load(Ordering::Acquire)).encode();
        let exists = segments.disk().exists(&ready).map_err(|e| Error::io("looking for log segment", &ready, e))?;
        if !exists {
            let name = match self.take_spare(files)? {
                Some(name) => name,
                None => self.fill_new(files, number)?,
            };
            let path = segments.path(name);
            let file = segments.open_file(name, false, false)?;
            file.write_at(&header, 0).map_err(|e| Error::io("writing the header of log segment", &path, e))?;
            file.sync().map_err(|e| Error::io("flushing log segment", &path, e))?;
            segments.disk().rename(&path, &ready).map_err(|e| Error::io("renaming log segment", &path, e))?;
        }
        // Also when it existed: whoever renamed it may have died before this.
        self.sync_directory(files)?;
        // Release: pairs with the Acquire in `has_room`; a commit inside the segment comes after all of the above.
        words.prepared.0.store(end + segments.bytes(), Ordering::Release);
        Ok(())
    }

    /// A spare file of the right size. Others found on the way are removed.
    fn take_spare(&self, files: &Files) -> Result<Option<Name>> {
        let segments = &files.segments;
        for name in segments.list()? {
            if !matches!(name, Name::Spare(_)) {
                continue;
            }
            let path = segments.path(name);
            let len = segments.open_file(name, false, true)?.len().map_err(|e| Error::io("asking the length of", &path, e))?;
            if len == HEADER_BYTES + segments.bytes() {
                return Ok(Some(name));
            }
            segments.remove(name)?;
        }
        Ok(None)
    }

    /// Writes a new file of zeros, flushed, under a name that means nothing yet.
    fn fill_new(&self, files: &Files, number: u64) -> Result<Name> {
        let segments = &files.segments;
        let name = Name::New(number);
        let path = segments.path(name);
        let how = How { create: true, create_new: false, read_only: false, direct: files.direct };
        let filled = segments
            .disk()
            .open(&path, how)
            .and_then(|file| fill(&*file, HEADER_BYTES + segments.bytes()))
            .map_err(|e| Error::io("making log segment", &path, e));
        if filled.is_err() {
            // Best effort: on a full disk the part that was written should not stay. A later attempt overwrites what is left.
            let _ = segments.disk().remove(&path);
        }
        filled.map(|()| name)
    }

    /// Gives back the segments that lie wholly below `lsn`, for reuse or, beyond the number of spares kept, to the disk. The caller knows
    /// that nothing below `lsn` will be read again: a durable checkpoint begins there or above.
    ///
    /// # Errors
    /// `Io`; what was not given back this time will be the next.
    pub(crate) fn recycle_before(&self, lsn: Lsn, caller: Caller<'_>) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let segments = &files.segments;
        // What is not durable yet will be flushed by name.
        let lsn = lsn.min(self.durable());
        let _held = self.words().supply.take(caller);
        let names = segments.list()?;
        let mut spares = names.iter().filter(|name| matches!(name, Name::Spare(_))).count();
        let mut changed = false;
        for name in names {
            let Name::Log(number) = name else { continue };
            // Strictly below: a scan from exactly the end of a segment wants to see that it was there.
            if segments.first_lsn(number + 1) >= lsn {
                continue;
            }
            if spares < files.spares_max {
                segments.rename(name, Name::Spare(number))?;
                spares += 1;
            } else {
                segments.remove(name)?;
            }
            changed = true;
        }
        // Before a spare's header is rewritten its old name must be gone for good.
        if changed { self.sync_directory(files) } else { Ok(()) }
    }

    /// Flushes the directory. Failing that, nobody knows which names will be there tomorrow, and asking again does not help: it poisons.
    fn sync_directory(&self, files: &Files) -> Result<()> {
        files.segments.sync_directory().map_err(|error| self.words().poison(&error))
    }

    /// Begins a new life of the log that goes on after `end`, which is where a [scan](Log::scan) ended (0 for a new environment), and
    /// returns its first LSN. From here on commits may come; everything below `end` has been made durable. The caller is alone.
    ///
    /// # Errors
    /// `Io`, `Full`; it may be tried again.
    pub(crate) fn start_fresh(&self, end: Lsn, caller: Caller<'_>) -> Result<Lsn> {
        let Some(files) = &self.files else {
            self.words().start(end.0, end.0);
            return Ok(end);
        };
        let segments = &files.segments;
        segments.sync_parent()?;
        let names = segments.list()?;
        let last = segments.number_of(end);
        let highest = names.iter().filter_map(|name| name.number_used()).max();
        let number = match highest {
            None if end.0 == 0 => 0,
            highest => highest.unwrap_or(0).max(last) + 1,
        };
        let life = number.checked_mul(segments.bytes()).filter(|&life| life < 1 << 62);
        let life = life.ok_or_else(|| Error::full("the log has used up its numbers; back up and restore into a new environment"))?;
        let mut newest_first = names;
        newest_first.sort_unstable_by_key(|name| std::cmp::Reverse(name.number_used()));
        for name in newest_first {
            match name {
                Name::New(_) => segments.remove(name)?,
                // Made ahead, or torn remains beyond the end: of no use but as files. `number` stays above them under either name. One
                // by one, newest first, so that a crash never leaves a gap.
                Name::Log(number) if number > last => {
                    segments.rename(name, Name::Spare(number))?;
                    self.sync_directory(files)?;
                }
                // Read by the scan, perhaps from the page cache only. What the new life builds upon must be as durable as it will be.
                Name::Log(_) => {
                    let file = segments.open_file(name, false, false)?;
                    file.sync().map_err(|e| Error::io("flushing log segment", &segments.path(name), e))?;
                }
                Name::Spare(_) => {}
            }
        }
        self.sync_directory(files)?;
        self.words().start(life, end.0);
        let held = self.words().supply.take(caller);
        self.prepare_one(files, &held)?;
        Ok(Lsn(life))
    }
}

fn fill(file: &dyn File, bytes: u64) -> std::io::Result<()> {
    file.preallocate(0, bytes)?;
    let zeros = AlignedBuf::new(FILL_BYTES.min(usize::try_from(bytes).unwrap_or(FILL_BYTES)));
    let mut at = 0;
    while at < bytes {
        let piece = (bytes - at).min(zeros.len() as u64);
        file.write_at(&zeros[..piece as usize], at)?;
        at += piece;
    }
    file.sync()
}

//! Rescue: what the memory of dead processes has of the log and the files have not, brought to the files.
//!
//! All that was ever committed is either in the ring or in a segment file: the ring is used again only behind
//! `written`. So the ring's bytes from there to the tail, written where they belong, make the files say all
//! that the memory knew, and recovery does the rest. Nothing else of the memory is needed, and nothing else
//! of it is believed.
//!
//! But the files may be others by now: a backup put back, a copy, those of a life that somebody began without
//! this memory. Bytes of one history in the files of another would be damage. A life of the log belongs to
//! one memory, so they belong together if
//!
//! - the newest segment is of the memory's life, and those that hold the bytes to be written are there; and
//! - the log in the files, read from the checkpoint on as recovery will, ends at or after `written`. Older
//!   files end before it. It may end later, by as much as a process wrote that died before that was counted;
//!   not beyond the tail.
//!
//! What was written and is not known to have been flushed is written again, as recovery does it. A flush of
//! it may have failed, and nobody that knows of it is alive; after that another flush says that all is well.
//! So a rescue whose own flush fails can be tried again, and dying anywhere leaves bytes that the next one
//! writes again.

use sablecat_os::atomic::Ordering;

use super::{BLOCK, Log};
use crate::error::{Error, Result};
use crate::types::Lsn;

impl Log {
    /// Makes everything that was committed durable. All processes that used the log's memory are dead;
    /// recovery will read the files from `from`.
    ///
    /// # Errors
    /// `Invalid` if the files are not the ones that this memory logged to, or not as it left them: nothing
    /// was written then. `Poisoned` if the log is. `Corruption` and `Io`, as of a [scan](Log::scan), and, as
    /// `DiskFull`, if writing or flushing fails: it may be tried again.
    pub(crate) fn rescue(&self, from: Lsn) -> Result<()> {
        let words = self.words();
        words.check()?;
        let (written, tail) = (self.written(), self.tail());
        if tail.0 == words.life.0.load(Ordering::Acquire) {
            // Nothing was logged; on a full disk a life may not even have a segment yet.
            return Ok(());
        }
        self.check_segments()?;
        let mut scan = self.scan(from)?;
        while scan.next()?.is_some() {}
        let end = scan.end().map_or(from, |end| end.lsn);
        if !(written..=tail).contains(&end) {
            return Err(Error::invalid(format!(
                "the log in the files ends at LSN {end}, and it had been written to LSN {written}"
            )));
        }
        scan.make_last(end)?;
        self.write_rest(self.files()?)
    }

    /// Whether the newest segment is of the life that the words are of, and those that the rest of the log
    /// goes to are there.
    fn check_segments(&self) -> Result<()> {
        let (words, segments) = (self.words(), self.segments()?);
        let (life, continues) =
            (words.life.0.load(Ordering::Acquire), words.continues.load(Ordering::Acquire));
        let numbers = segments.numbers()?;
        let newest = numbers.last().map(|&newest| segments.read_header(newest)).transpose()?;
        if newest.is_none_or(|newest| (newest.life, newest.continues) != (life, continues)) {
            return Err(Error::invalid("the log in the files is of another life"));
        }
        let (from, to) = (self.written().0 & !(BLOCK - 1), self.tail().0);
        let mut needed = segments.number_of(Lsn(from))..segments.number_of(Lsn(to.saturating_sub(1))) + 1;
        match needed.find(|number| from < to && !numbers.contains(number)) {
            Some(missing) => {
                Err(Error::invalid(format!("log segment {} is missing", segments.path_of(missing).display())))
            }
            None => Ok(()),
        }
    }

    /// Whether the files have the life that the words are of as their newest. While others use the log they
    /// always do, once it has a segment.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub(crate) fn is_in_its_files(&self) -> Result<bool> {
        let (words, segments) = (self.words(), self.segments()?);
        let life = words.life.0.load(Ordering::Acquire);
        if words.prepared.0.load(Ordering::Acquire) == life {
            return Ok(true);
        }
        // What was the newest may have been given back since it was listed.
        loop {
            let newest = segments.numbers()?.last().copied();
            let header = newest.map(|newest| segments.read_header(newest)).transpose();
            match header {
                Ok(header) => return Ok(header.is_some_and(|header| header.life == life)),
                Err(error) if segments.numbers()?.last().copied() == newest => return Err(error),
                Err(_) => {}
            }
        }
    }
}

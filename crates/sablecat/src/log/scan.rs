//! Scanning: the records from a position on, and the truth about where they end.
//!
//! The log of the last life ends where no good record begins. Whether that is an end or damage, the records after it tell: each says what
//! was durable when it was appended. If any good record further on says so of the bad place, bytes that had been flushed are gone, and that
//! is an error; if none does, the bad place is the torn remains of a write that nobody was promised.
//!
//! A life that another one follows has a known end, since the recovery between them read up to there and flushed it. Any bad place
//! before it is damage.
//!
//! Which lives lead to the end is found backwards: each says where the one before it ended (`continues`), and the life that holds that place
//! is the one that begins last at or below it. Lives that lie between were cut off, when the environment was taken back to a
//! time before them.
//!
//! What is read comes from the page cache, and may be nowhere else: after a failed flush the system takes for clean what it could not write. So
//! before anything durable builds upon the end that was found, what no record says was flushed is written again, flushed and looked at once
//! more ([`Segments::make_last`]). A last life without a record may be in a file whose very name is not durable: nothing builds upon that, and the
//! log ends where the life before it did.
//!
//! Nothing here trusts a byte: lengths are bounded, places checked, and whatever is wrong becomes an error or the end.

use std::sync::Arc;

use sablecat_os::disk::File;

use super::record::{self, Record};
use super::segment::{Name, Segments};
use super::{BLOCK, Log};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Lsn;

/// How much is read at once.
const READ_BYTES: usize = 1 << 20;

/// Where a scan ended, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    /// The end of the last good record: what `Log::start_fresh` goes on after.
    pub(crate) lsn: Lsn,
    pub(crate) reason: EndReason,
}

/// What stands at the end of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndReason {
    /// Nothing that was ever part of a record after it.
    Clean,
    /// Part of a record, or later records, that nobody was promised.
    Torn,
}

/// One life of the log, as far as the scan will go through it.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Where the scan begins in it.
    from: Lsn,
    /// Where it ends if a later life says so; otherwise where its files end.
    limit: Lsn,
    /// Whether `limit` is where its records end for certain.
    followed: bool,
}

/// The records from a position on.
#[derive(Debug)]
pub(crate) struct Scan<'l> {
    reader: Reader<'l>,
    lives: std::vec::IntoIter<Life>,
    life: Life,
    at: Lsn,
    /// Below it everything was flushed, as records say.
    flushed: Lsn,
    /// Where the last record ended, or the scan began.
    last: Lsn,
    end: Option<End>,
}

impl Log {
    /// The records that begin at `from` (the end of a record, or the start of a life) or later, as the files have them. Nobody may be
    /// appending meanwhile.
    ///
    /// # Errors
    /// `Corruption` when a segment is missing or its header is damaged; `Io`; `Invalid` in memory alone.
    pub(crate) fn scan(&self, from: Lsn) -> Result<Scan<'_>> {
        self.segments()?.scan(from)
    }

    /// Whether a life that followed the one which ended at `end`, and that begins at `floor` or later, has a record: whether anything was
    /// logged since.
    ///
    /// # Errors
    /// As [`Log::scan`].
    pub(crate) fn goes_on_after(&self, end: Lsn, floor: Lsn) -> Result<bool> {
        let segments = self.segments()?;
        for number in segments.numbers()? {
            let begins = segments.first_lsn(number);
            if begins < end.max(floor) {
                continue;
            }
            let header = segments.read_header(number)?;
            // One that begins at the end itself goes on from the life before only by its header: it was given up before it had a record, and begun again.
            let follows = header.life == begins.0 && (header.continues >= end.0 || begins == end);
            // Who was giving it up may have cut it to what it holds.
            let path = segments.path_of(number);
            let bytes = segments.open_to_read(number)?.len().map_err(|e| Error::io("asking the length of", &path, e))?;
            let limit = Lsn(begins.0 + bytes.saturating_sub(segments.offset_of(begins)).min(segments.bytes()));
            if follows && Reader::new(segments).good_len(begins, limit)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Segments {
    /// As [`Log::scan`].
    pub(super) fn scan(&self, from: Lsn) -> Result<Scan<'_>> {
        self.scan_lives(lives(self, &self.numbers()?, from, None)?, from)
    }

    /// The records from `from` on in all segments there are, archived ones included; up to `end` if that is where the log ends, and otherwise
    /// to where no good record begins.
    ///
    /// # Errors
    /// As [`Log::scan`].
    pub(crate) fn scan_kept(&self, from: Lsn, end: Option<Lsn>) -> Result<Scan<'_>> {
        self.scan_lives(lives(self, &self.numbers_kept()?, from, end)?, from)
    }

    fn scan_lives(&self, lives: Vec<Life>, from: Lsn) -> Result<Scan<'_>> {
        let mut lives = lives.into_iter();
        let first = Life { from, limit: from, followed: false };
        let life = lives.next().unwrap_or(first);
        Ok(Scan { reader: Reader::new(self), lives, life, at: from, flushed: from, last: from, end: None })
    }

    /// Makes what was read between `flushed` and `end` last: writes it again, flushes, and sees that it is still the same.
    ///
    /// # Errors
    /// `Io`, `DiskFull`: it may be tried again, from reading on; what is read then may be less.
    pub(crate) fn make_last(&self, flushed: Lsn, end: Lsn) -> Result<()> {
        if flushed >= end {
            return Ok(());
        }
        let in_use = self.numbers()?;
        let mut buffer = Vec::new();
        for number in self.number_of(flushed)..=self.number_of(Lsn(end.0 - 1)) {
            // An archived one was flushed before it was.
            if !in_use.contains(&number) {
                continue;
            }
            let path = self.path(Name::Log(number));
            let file = self.open_file(Name::Log(number), false, false)?;
            let mut at = Lsn(flushed.0.max(self.first_lsn(number).0) & !(BLOCK - 1));
            let stop = end.0.next_multiple_of(BLOCK).min(self.first_lsn(number + 1).0);
            while at.0 < stop {
                let offset = self.offset_of(at);
                buffer.resize(READ_BYTES.min((stop - at.0) as usize), 0);
                let got = file.read_at(&mut buffer, offset).map_err(|e| Error::io("reading log segment", &path, e))?;
                if got == 0 {
                    return Err(damaged(self, at, "the file is shorter than a segment"));
                }
                file.write_at(&buffer[..got], offset).map_err(|e| Error::io("writing again log segment", &path, e))?;
                at.0 += got as u64;
            }
            file.sync().map_err(|e| Error::io("flushing log segment", &path, e))?;
        }
        let mut reader = Reader::new(self);
        let mut at = flushed;
        while at < end {
            // No other record was ever at this LSN, so a good one is the one that was read.
            let Some(len) = reader.good_len(at, end)? else {
                let path = self.path(Name::Log(self.number_of(at)));
                let message =
                    format!("{}: what was read of the log at LSN {at} is not there any more; open the environment again", path.display());
                return Err(Error::new(ErrorKind::Io, message));
            };
            at.0 += len as u64;
        }
        Ok(())
    }

    /// The bytes of the record that begins at `lsn`, read from the files.
    ///
    /// # Errors
    /// `Corruption` when no record does.
    pub(super) fn read_record(&self, lsn: Lsn) -> Result<Vec<u8>> {
        let mut reader = Reader::new(self);
        let limit = Lsn(lsn.0.saturating_add(record::RECORD_BYTES_MAX as u64));
        let claimed = record::claimed_len(reader.bytes(lsn, record::HEADER_BYTES, limit)?, lsn);
        match claimed {
            Some(len) => Ok(reader.bytes(lsn, len, limit)?.to_vec()),
            None => Err(damaged(self, lsn, "no record begins there any more")),
        }
    }
}

impl Scan<'_> {
    /// The next record, or nothing at the end: [`Scan::end`] then says where and how.
    ///
    /// # Errors
    /// `Corruption`, naming segment file, offset and LSN, when bytes that had been flushed are damaged; `Invalid` for a record of a newer
    /// version; `Io`.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        loop {
            if self.at < self.life.limit {
                let at = self.at;
                if let Some(len) = self.reader.good_len(at, self.life.limit)? {
                    self.at = Lsn(at.0 + len as u64);
                    self.last = self.at;
                    let record = Record::decode(self.reader.bytes(at, len, self.life.limit)?, at)?;
                    let durable = record.as_ref().map_or(Lsn(0), |record| record.durable.min(at));
                    self.flushed = self.flushed.max(self.life.from).max(durable);
                    return Ok(record);
                }
            }
            match self.lives.next() {
                Some(next) if self.at == self.life.limit => {
                    self.life = next;
                    self.at = next.from;
                }
                _ => break,
            }
        }
        if self.life.followed && self.at != self.life.limit {
            let why = format!(
                "no good record begins there, although an earlier recovery read the log up to LSN {}; restore the file, or the environment \
                 from a backup",
                self.life.limit
            );
            return Err(damaged(self.reader.segments, self.at, &why));
        }
        self.end = Some(End { lsn: self.last, reason: self.judge()? });
        Ok(None)
    }

    /// Where it is: the next record begins here, or above if a life ends here.
    pub(super) fn at(&self) -> Lsn {
        self.at
    }

    /// The files that it reads.
    pub(super) fn segments(&self) -> &Segments {
        self.reader.segments
    }

    /// Bytes of the record that [`Scan::next`] returned last.
    pub(super) fn held(&self, at: Lsn, len: usize) -> &[u8] {
        self.reader.held(at, len)
    }

    /// Below this, everything that was read had been flushed: what [`Segments::make_last`] begins from.
    pub(crate) fn flushed(&self) -> Lsn {
        self.flushed
    }

    /// Where the log ends, once [`Scan::next`] has returned nothing.
    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// Looks at all that comes after the bad place, `at`.
    fn judge(&mut self) -> Result<EndReason> {
        let (bad, limit) = (self.at, self.life.limit);
        let began = record::claimed_len(self.reader.bytes(bad, record::HEADER_BYTES, limit)?, bad).is_some();
        let mut reason = if began { EndReason::Torn } else { EndReason::Clean };
        let mut at = Lsn(bad.0 + 8);
        while at < limit {
            let bytes = self.reader.bytes(at, READ_BYTES.min((limit.0 - at.0) as usize), limit)?;
            if bytes.len() < record::HEADER_BYTES {
                break;
            }
            // Every place in reach whose header is in reach as well.
            let places = (bytes.len() - record::HEADER_BYTES) / 8 + 1;
            let found = (0..places).find(|place| record::u64_at(bytes, place * 8 + 8) == at.0 + *place as u64 * 8);
            let Some(place) = found else {
                at.0 += places as u64 * 8;
                continue;
            };
            at.0 += place as u64 * 8;
            let Some(len) = self.reader.good_len(at, limit)? else {
                at.0 += 8;
                continue;
            };
            reason = EndReason::Torn;
            if let Some(later) = Record::decode(self.reader.bytes(at, len, limit)?, at)?
                && later.durable > bad
            {
                let why = format!(
                    "no good record begins there, although the record at LSN {at} shows that everything below LSN {} had been flushed; \
                     restore the file, or the environment from a backup",
                    later.durable
                );
                return Err(damaged(self.reader.segments, bad, &why));
            }
            at.0 += len as u64;
        }
        Ok(reason)
    }
}

fn damaged(segments: &Segments, lsn: Lsn, why: &str) -> Error {
    let path = segments.path_of(segments.number_of(lsn));
    Error::corruption(format!("log segment {} is damaged at offset {} (LSN {lsn}): {why}", path.display(), segments.offset_of(lsn)))
}

/// A life, as its segments' headers have it.
#[derive(Debug)]
struct Stretch {
    life: Lsn,
    continues: Lsn,
    /// Its segments, ascending.
    numbers: Vec<u64>,
}

impl Stretch {
    /// Checks that the segments from `first` on reach `end`, or are without a gap if that is not known; says how far they reach.
    fn reach(&self, segments: &Segments, first: u64, end: Option<Lsn>) -> Result<Lsn> {
        let mut next = first;
        for &number in self.numbers.iter().filter(|&&number| number >= first) {
            if number != next {
                break;
            }
            next += 1;
        }
        let reach = segments.first_lsn(next);
        let is_whole = end.map_or(self.numbers.last().is_some_and(|&last| last < next), |end| end <= reach);
        if is_whole { Ok(end.unwrap_or(reach)) } else { Err(missing(segments, next)) }
    }
}

/// The lives that a scan of these segments from `from` goes through: those that lead to `end`, or else to the newest. None when there is
/// nothing and should be nothing.
fn lives(segments: &Segments, numbers: &[u64], from: Lsn, end: Option<Lsn>) -> Result<Vec<Life>> {
    let wanted = segments.number_of(from);
    let at_start = segments.first_lsn(wanted) == from;
    // A log that ended exactly with a segment may have no next one yet.
    let Some(first) = [Some(wanted), wanted.checked_sub(1).filter(|_| at_start)].into_iter().flatten().find(|n| numbers.contains(n)) else {
        if from.0 == 0 && numbers.is_empty() {
            return Ok(Vec::new());
        }
        return Err(missing(segments, wanted));
    };
    let mut stretches: Vec<Stretch> = Vec::new();
    for &number in numbers.iter().filter(|&&number| number >= first) {
        let header = segments.read_header(number)?;
        match stretches.last_mut() {
            Some(last) if last.life.0 == header.life => last.numbers.push(number),
            _ => stretches.push(Stretch { life: Lsn(header.life), continues: Lsn(header.continues), numbers: vec![number] }),
        }
    }
    let mut lives = Vec::new();
    let (mut limit, mut below) = (end, stretches.len());
    loop {
        // The life that holds the place: the last to begin at or below it.
        let holds = |stretch: &Stretch| limit.is_none_or(|limit| stretch.life <= limit);
        let Some(n) = stretches[..below].iter().rposition(holds) else {
            return Err(missing(segments, limit.map_or(wanted, |limit| segments.number_of(limit))));
        };
        let stretch = &stretches[n];
        let is_first = stretch.life <= from;
        let (begins, first_number) = if is_first { (from, first) } else { (stretch.life, segments.number_of(stretch.life)) };
        let followed = limit.is_some();
        lives.push(Life { from: begins, limit: stretch.reach(segments, first_number, limit)?, followed });
        if is_first {
            lives.reverse();
            return Ok(lives);
        }
        if stretch.continues < from {
            return Err(contradicts(segments, stretch.numbers[0], stretch.continues.0, from));
        }
        (limit, below) = (Some(stretch.continues), n);
    }
}

fn missing(segments: &Segments, number: u64) -> Error {
    let path = segments.path_of(number);
    Error::corruption(format!(
        "log segment {} is missing, and recovery needs it; restore the file, or the environment from a backup",
        path.display()
    ))
}

fn contradicts(segments: &Segments, number: u64, continues: u64, from: Lsn) -> Error {
    let path = segments.path_of(number);
    Error::corruption(format!(
        "log segment {} says that it goes on from LSN {continues}, but the checkpoint is at LSN {from}; files of different times were mixed",
        path.display()
    ))
}

/// Reads the log's bytes, across segments, a lot at a time.
#[derive(Debug)]
struct Reader<'l> {
    segments: &'l Segments,
    file: Option<(u64, Arc<dyn File>)>,
    buffer: Vec<u8>,
    start: Lsn,
}

impl<'l> Reader<'l> {
    fn new(segments: &'l Segments) -> Reader<'l> {
        Reader { segments, file: None, buffer: Vec::new(), start: Lsn(0) }
    }

    /// The length of the good record at `at`, if there is one that ends by `limit`.
    fn good_len(&mut self, at: Lsn, limit: Lsn) -> Result<Option<usize>> {
        let Some(len) = record::claimed_len(self.bytes(at, record::HEADER_BYTES, limit)?, at) else { return Ok(None) };
        let bytes = self.bytes(at, len, limit)?;
        Ok((bytes.len() == len && record::is_good(bytes)).then_some(len))
    }

    /// `len` bytes from `at` on, fewer where `limit` comes first.
    fn bytes(&mut self, at: Lsn, len: usize, limit: Lsn) -> Result<&[u8]> {
        let stop = limit.0.min(at.0.saturating_add(len as u64)).max(at.0);
        if at < self.start || stop > self.start.0 + self.buffer.len() as u64 {
            self.fill(at, stop, limit)?;
        }
        let offset = (at.0 - self.start.0) as usize;
        Ok(&self.buffer[offset..offset + (stop - at.0) as usize])
    }

    /// The same once more, of which nothing was read beyond since.
    fn held(&self, at: Lsn, len: usize) -> &[u8] {
        let offset = at.0.wrapping_sub(self.start.0) as usize;
        self.buffer.get(offset..).and_then(|bytes| bytes.get(..len)).unwrap_or_default()
    }

    /// Fills the buffer from `at` to `needed` at least, and on for as much as is read at once if it is there.
    fn fill(&mut self, at: Lsn, needed: u64, limit: Lsn) -> Result<()> {
        let stop = limit.0.min(needed.max((at.0 & !(BLOCK - 1)).saturating_add(READ_BYTES as u64)));
        self.start = at;
        self.buffer.clear();
        let mut at = at;
        while at.0 < stop {
            let number = self.segments.number_of(at);
            let piece = (stop.min(self.segments.first_lsn(number + 1).0) - at.0) as usize;
            let file = match &self.file {
                Some((open, file)) if *open == number => file,
                _ => match self.segments.open_to_read(number) {
                    Ok(file) => &self.file.insert((number, file)).1,
                    Err(_) if at.0 >= needed => break,
                    Err(error) => return Err(error),
                },
            };
            let filled = self.buffer.len();
            self.buffer.resize(filled + piece, 0);
            let offset = self.segments.offset_of(at);
            let got = file
                .read_at(&mut self.buffer[filled..], offset)
                .map_err(|e| Error::io(format_args!("reading at offset {offset} of log segment"), &self.segments.path_of(number), e))?;
            if got < piece {
                let whole = Lsn(at.0 + got as u64);
                if whole.0 >= needed {
                    // An archived segment that was cut to what it holds.
                    self.buffer.truncate(filled + got);
                    break;
                }
                self.buffer.clear();
                return Err(damaged(self.segments, whole, "the file is shorter than a segment"));
            }
            at.0 += piece as u64;
        }
        Ok(())
    }
}

//! Scanning: the records from a position on, and the truth about where they end.
//!
//! The log of the last life ends where no good record begins. Whether that is an end or damage, the records
//! after it tell: each says what was durable when it was appended. If any good record further on says so of
//! the bad place, bytes that had been flushed are gone, and that is an error. If none does, the bad place is
//! the torn remains of a write that nobody was promised.
//!
//! A life that another one follows has a known end, since the recovery between them read up to there and
//! flushed it. Any bad place before it is damage.
//!
//! Which lives lead to the end is found backwards: each says where the one before it ended (`continues`), and
//! the life that holds that place is the one that begins last at or below it. Lives that lie between were cut
//! off, when the environment was taken back to a time before them.
//!
//! What is read comes from the page cache, and may be nowhere else: after a failed flush the system takes for
//! clean what it could not write. So before anything durable builds upon the end that was found, what no
//! record says was flushed is looked at once more, written again and flushed ([`LogScan::make_last`]). A
//! last life without a record may be in a file whose very name is not durable: nothing builds upon that, and
//! the log ends where the life before it did.
//!
//! A scan may also go over a log that others append to, up to where they have come (tail.rs): there nothing
//! is at its end, and nothing to be judged.
//!
//! Nothing here trusts a byte: lengths are bounded, places checked, and whatever is wrong becomes an error or
//! the end.

use std::sync::Arc;

use sablecat_os::disk::File;

use super::Log;
use super::chunk::{ChunkSource, parts_gone};
use super::name::Name;
use super::reader::{LogReader, damaged};
use super::record::{self, LogRecord, RecordKind};
use super::segment::{HEADER_BYTES, Segments};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Lsn;

/// Where a scan ended, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogEnd {
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
pub(super) struct Life {
    /// Where the scan begins in it.
    pub(super) from: Lsn,
    /// Where it ends if a later life says so; otherwise where its files end.
    pub(super) limit: Lsn,
    /// Whether `limit` is where its records end for certain.
    pub(super) followed: bool,
}

/// Why there is no way through the lives of a log from one place to another.
#[derive(Debug)]
pub(super) enum Broken {
    /// This segment is missing.
    Missing(u64),
    /// This segment, of the life that comes after the place to begin from, says that it goes on from a place
    /// before that.
    Contradicts { number: u64, continues: Lsn },
    /// It could not be found out.
    Unknown(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        Broken::Unknown(error)
    }
}

impl Broken {
    /// The error of a scan that needs the log from `from` on.
    pub(super) fn into_error(self, segments: &Segments, from: Lsn) -> Error {
        match self {
            Broken::Missing(number) => missing(segments, number),
            Broken::Contradicts { number, continues } => contradicts(segments, number, continues.0, from),
            Broken::Unknown(error) => error,
        }
    }
}

/// The records from a position on.
#[derive(Debug)]
pub(crate) struct LogScan<'l> {
    reader: LogReader<'l>,
    lives: std::vec::IntoIter<Life>,
    life: Life,
    at: Lsn,
    /// Below it everything was flushed, as records say.
    flushed: Lsn,
    /// Where the last record ended, or the scan began.
    last: Lsn,
    end: Option<LogEnd>,
    /// Whether others append to the last life, which goes on beyond its limit.
    is_live: bool,
    /// Of the record that was met last its body in the clear, if it was enciphered; and where that begins.
    text: Vec<u8>,
    text_of: Option<Lsn>,
}

impl Log {
    /// The records that begin at `from` (the end of a record, or the start of a life) or later, as the files
    /// have them. Nobody may be appending meanwhile.
    ///
    /// # Errors
    /// `Corruption` when a segment is missing or its header is damaged; `Io`; `Invalid` in memory alone.
    pub(crate) fn scan(&self, from: Lsn) -> Result<LogScan<'_>> {
        self.segments()?.scan(from)
    }

    /// Whether a life that followed the one which ended at `end`, and that begins at `floor` or later, has a
    /// record: whether anything was logged since.
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
            // One that begins at the end itself goes on from the life before only by its header: it was given
            // up before it had a record, and begun again.
            let follows = header.life == begins.0 && (header.continues >= end.0 || begins == end);
            // The process that was giving it up may have cut it to what it holds.
            let path = segments.path_of(number);
            let bytes = segments
                .open_to_read(number)?
                .len()
                .map_err(|e| Error::io("asking the length of", &path, e))?;
            let limit =
                Lsn(begins.0 + bytes.saturating_sub(segments.offset_of(begins)).min(segments.bytes()));
            if follows && LogReader::new(segments, None).good_len(begins, limit)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Segments {
    /// As [`Log::scan`].
    pub(super) fn scan(&self, from: Lsn) -> Result<LogScan<'_>> {
        let lives =
            lives(self, &self.numbers()?, from, None).map_err(|broken| broken.into_error(self, from))?;
        Ok(self.scan_lives(LogReader::new(self, None), lives, from))
    }

    /// The records from `from` on in all segments there are, archived ones included; up to `end` if that is
    /// where the log ends, and otherwise to where no good record begins.
    ///
    /// # Errors
    /// As [`Log::scan`].
    pub(crate) fn scan_kept(&self, from: Lsn, end: Option<Lsn>) -> Result<LogScan<'_>> {
        let lives =
            lives(self, &self.numbers_kept()?, from, end).map_err(|broken| broken.into_error(self, from))?;
        Ok(self.scan_lives(LogReader::new(self, None), lives, from))
    }

    fn scan_lives<'l>(&self, reader: LogReader<'l>, lives: Vec<Life>, from: Lsn) -> LogScan<'l> {
        let mut lives = lives.into_iter();
        let life = lives.next().unwrap_or(Life { from, limit: from, followed: false });
        let (text, text_of) = (Vec::new(), None);
        let (at, is_live) = (life.from, false);
        LogScan { reader, lives, life, at, flushed: from, last: from, end: None, is_live, text, text_of }
    }

    /// The lives that a scan from `from` goes through up to `end`, in all segments there are, archived ones
    /// included.
    pub(super) fn lives_kept(&self, from: Lsn, end: Lsn) -> std::result::Result<Vec<Life>, Broken> {
        lives(self, &self.numbers_kept()?, from, Some(end))
    }

    /// The records of these lives, the last of which others append to: up to where [`LogScan::extend`] says.
    pub(super) fn scan_live<'l>(&self, log: &'l Log, lives: Vec<Life>, from: Lsn) -> Result<LogScan<'l>> {
        let reader = LogReader::new(log.segments()?, Some(log));
        Ok(LogScan { is_live: true, ..self.scan_lives(reader, lives, from) })
    }

    /// The first place at or above `from` where a good record begins that ends by `limit`.
    pub(super) fn first_record(&self, from: Lsn, limit: Lsn) -> Result<Option<Lsn>> {
        Ok(LogReader::new(self, None).next_good(from, limit)?.map(|(at, _)| at))
    }

    /// Whether a good record begins at `at` and ends in the same segment, which is there.
    pub(super) fn has_record(&self, at: Lsn) -> Result<bool> {
        let number = self.number_of(at);
        let path = self.path_of(number);
        let bytes =
            self.open_to_read(number)?.len().map_err(|e| Error::io("asking the length of", &path, e))?;
        let within = bytes.saturating_sub(HEADER_BYTES).min(self.bytes());
        let limit = Lsn(self.first_lsn(number).0.saturating_add(within));
        Ok(LogReader::new(self, None).good_len(at, limit)?.is_some())
    }

    /// Where the last `count` chunks of a chain begin that was committed at `before`, as far as they are
    /// there: looked for backwards, segment by segment. For a reader that began between them.
    ///
    /// # Errors
    /// `LogGone` if segments that may have some of them are not kept any more; those of reading.
    pub(super) fn chunks_before(&self, chain: u64, count: u64, before: Lsn) -> Result<Vec<Lsn>> {
        let mut number = self.number_of(before);
        let found = self.look_for_chunks(chain, count, before, &mut number);
        let is_in_doubt = match &found {
            Ok(places) => (places.len() as u64) < count,
            Err(error) => matches!(error.kind(), ErrorKind::Io | ErrorKind::Corruption),
        };
        // One of the segments may have been used again under this look at it.
        if is_in_doubt
            && let Ok(kept) = self.numbers_kept()
            && !(number..=self.number_of(before)).all(|number| kept.contains(&number))
        {
            return Err(parts_gone(before));
        }
        found
    }

    /// The same, and which segment was looked at last.
    fn look_for_chunks(&self, chain: u64, count: u64, before: Lsn, number: &mut u64) -> Result<Vec<Lsn>> {
        let kept = self.numbers_kept()?;
        let (mut reader, mut text) = (LogReader::new(self, None), Vec::new());
        let (mut places, mut life): (Vec<Lsn>, _) = (Vec::new(), None);
        while (places.len() as u64) < count {
            if !kept.contains(number) {
                // Below where the life begins there is nothing of it.
                let may_be_of_life = life.is_none_or(|life| self.first_lsn(*number) >= Lsn(life));
                return if may_be_of_life { Err(parts_gone(before)) } else { Ok(places) };
            }
            // A large write set does not outlive the life of the log in which it was begun.
            let header = self.read_header(*number)?;
            if *life.get_or_insert(header.life) != header.life {
                break;
            }
            let end = before.min(self.first_lsn(*number + 1));
            let mut here = Vec::new();
            let mut next = reader.next_good(self.first_lsn(*number), before)?;
            while let Some((at, len)) = next.filter(|&(at, _)| at < end) {
                let record = LogRecord::decode(reader.bytes(at, len, before)?, at)?;
                if let Some(record) = record.filter(|record| record.kind == RecordKind::Chunk) {
                    let record = record.decipher(self.keys(), &mut text)?;
                    if record.as_chunk().is_ok_and(|(of, _)| of == chain) {
                        here.push(at);
                    }
                }
                let at = Lsn(at.0 + len as u64);
                next = reader.good_len(at, before)?.map(|len| (at, len));
            }
            here.append(&mut places);
            places = here;
            let Some(earlier) = number.checked_sub(1) else { break };
            *number = earlier;
        }
        Ok(places)
    }

    /// The bytes of the record that begins at `lsn` and ends by `limit`, from the ring of the log if it still
    /// has them, else from the files.
    ///
    /// # Errors
    /// `Corruption` when no record does.
    pub(super) fn read_record(&self, lsn: Lsn, limit: Lsn, ring: Option<&Log>) -> Result<Vec<u8>> {
        let mut reader = LogReader::new(self, ring);
        match reader.good_len_surely(lsn, limit)? {
            Some(len) => Ok(reader.bytes(lsn, len, limit)?.to_vec()),
            None => Err(damaged(self, lsn, "no record begins there any more")),
        }
    }
}

impl<'l> LogScan<'l> {
    /// The next record, or nothing at the end: [`LogScan::end`] then says where and how.
    ///
    /// # Errors
    /// `Corruption`, naming segment file, offset and LSN, when bytes that had been flushed are damaged;
    /// `Invalid` for a record of a newer version; `Io`.
    pub(crate) fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        loop {
            if self.at < self.life.limit {
                let (at, segments) = (self.at, self.reader.segments);
                if let Some(len) = self.reader.good_len_surely(at, self.life.limit)? {
                    let record = LogRecord::decode(self.reader.bytes(at, len, self.life.limit)?, at)?;
                    self.at = Lsn(at.0 + len as u64);
                    self.last = self.at;
                    let durable = record.as_ref().map_or(Lsn(0), |record| record.durable.min(at));
                    self.flushed = self.flushed.max(self.life.from).max(durable);
                    let Some(record) = record else { return Ok(None) };
                    self.text_of = record.is_enciphered().then(|| Lsn(at.0 + record::HEADER_BYTES as u64));
                    return record.decipher(segments.keys(), &mut self.text).map(Some);
                }
            }
            if self.at != self.life.limit {
                break;
            }
            let Some(next) = self.lives.next() else { break };
            self.life = next;
            self.at = next.from;
        }
        if self.is_live && self.lives.as_slice().is_empty() {
            if self.at >= self.life.limit {
                return Ok(None);
            }
            let why =
                format!("no good record begins there, although the log goes on to LSN {}", self.life.limit);
            return Err(damaged(self.reader.segments, self.at, &why));
        }
        if self.life.followed && self.at != self.life.limit {
            let why = format!(
                "no good record begins there, although an earlier recovery read the log up to LSN {}; \
                 restore the file, or the environment from a backup",
                self.life.limit
            );
            return Err(damaged(self.reader.segments, self.at, &why));
        }
        self.end = Some(LogEnd { lsn: self.last, reason: self.judge()? });
        Ok(None)
    }

    /// Lets a scan of a log that others append to go on up to `to`, which is where a record ends.
    pub(super) fn extend(&mut self, to: Lsn) {
        debug_assert!(self.is_live);
        let last = if self.lives.as_slice().is_empty() {
            &mut self.life
        } else {
            self.lives.as_mut_slice().last_mut().expect("it is not empty")
        };
        last.limit = last.limit.max(to);
    }

    /// Where it is: the next record begins here, or above if a life ends here.
    pub(super) fn at(&self) -> Lsn {
        self.at
    }

    /// The files that it reads.
    pub(super) fn segments(&self) -> &'l Segments {
        self.reader.segments
    }

    /// Where chunks are read that it has met.
    pub(super) fn chunks(&self) -> ChunkSource<'l> {
        ChunkSource {
            segments: self.reader.segments,
            ring: self.is_live.then_some(self.reader.ring).flatten(),
        }
    }

    /// Bytes of the record that [`LogScan::next`] returned last.
    pub(super) fn held(&self, at: Lsn, len: usize) -> &[u8] {
        if self.text_of == Some(at) {
            return self.text.get(..len).unwrap_or_default();
        }
        self.reader.held(at, len)
    }

    /// Makes what was read last, up to `end`, of which no record says that it was flushed: sees that it is
    /// still the same, writes it again, and flushes.
    ///
    /// # Errors
    /// `Io`, `DiskFull`: it may be tried again, from reading on; what is read then may be less.
    pub(crate) fn make_last(&mut self, end: Lsn) -> Result<()> {
        let mut at = self.flushed;
        if at >= end {
            return Ok(());
        }
        let mut again = Again::new(self.reader.segments)?;
        while at < end {
            let from = at;
            while at == from || (at < end && self.reader.has_record(at)) {
                // No other record was ever at this LSN, so a good one is the one that was read.
                let Some(len) = self.reader.good_len(at, end)? else {
                    return Err(gone(self.reader.segments, at));
                };
                at.0 += len as u64;
            }
            again.write(from, self.reader.held(from, (at.0 - from.0) as usize))?;
        }
        again.flush()
    }

    /// Where the log ends, once [`LogScan::next`] has returned nothing.
    pub(crate) fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// Looks at all that comes after the bad place, `at`.
    fn judge(&mut self) -> Result<EndReason> {
        let (bad, limit) = (self.at, self.life.limit);
        let began = record::claimed_len(self.reader.bytes(bad, record::HEADER_BYTES, limit)?, bad).is_some();
        let mut reason = if began { EndReason::Torn } else { EndReason::Clean };
        let mut from = Lsn(bad.0 + 8);
        while let Some((at, len)) = self.reader.next_good(from, limit)? {
            reason = EndReason::Torn;
            if let Some(later) = LogRecord::decode(self.reader.bytes(at, len, limit)?, at)?
                && later.durable > bad
            {
                let why = format!(
                    "no good record begins there, although the record at LSN {at} shows that everything \
                     below LSN {} had been flushed; restore the file, or the environment from a backup",
                    later.durable
                );
                return Err(damaged(self.reader.segments, bad, &why));
            }
            from = Lsn(at.0 + len as u64);
        }
        Ok(reason)
    }
}

fn gone(segments: &Segments, lsn: Lsn) -> Error {
    let path = segments.path_of(segments.number_of(lsn));
    let message = format!(
        "{}: the log at LSN {lsn}, which was read before, is not there any more; open the environment again",
        path.display()
    );
    Error::new(ErrorKind::Io, message)
}

/// A life, as its segments' headers have it.
#[derive(Debug)]
struct LifeSegments {
    life: Lsn,
    continues: Lsn,
    /// Its segments, ascending.
    numbers: Vec<u64>,
}

impl LifeSegments {
    /// Checks that the segments from `first` on reach `end`, or are without a gap if that is not known; says
    /// how far they reach.
    fn reach(&self, segments: &Segments, first: u64, end: Option<Lsn>) -> std::result::Result<Lsn, Broken> {
        let mut next = first;
        for &number in self.numbers.iter().filter(|&&number| number >= first) {
            if number != next {
                break;
            }
            next += 1;
        }
        let reach = segments.first_lsn(next);
        let is_whole = end.map_or(self.numbers.last().is_some_and(|&last| last < next), |end| end <= reach);
        if is_whole { Ok(end.unwrap_or(reach)) } else { Err(Broken::Missing(next)) }
    }
}

/// The lives that a scan of these segments from `from` goes through: those that lead to `end`, or else to the
/// newest. None when there is nothing and should be nothing.
fn lives(
    segments: &Segments,
    numbers: &[u64],
    from: Lsn,
    end: Option<Lsn>,
) -> std::result::Result<Vec<Life>, Broken> {
    let wanted = segments.number_of(from);
    let at_start = segments.first_lsn(wanted) == from;
    // A log that ended exactly with a segment may have no next one yet.
    let Some(first) = [Some(wanted), wanted.checked_sub(1).filter(|_| at_start)]
        .into_iter()
        .flatten()
        .find(|n| numbers.contains(n))
    else {
        if from.0 == 0 && numbers.is_empty() {
            return Ok(Vec::new());
        }
        return Err(Broken::Missing(wanted));
    };
    let mut stretches: Vec<LifeSegments> = Vec::new();
    for &number in numbers.iter().filter(|&&number| number >= first) {
        let header = segments.read_header(number)?;
        match stretches.last_mut() {
            Some(last) if last.life.0 == header.life => last.numbers.push(number),
            _ => stretches.push(LifeSegments {
                life: Lsn(header.life),
                continues: Lsn(header.continues),
                numbers: vec![number],
            }),
        }
    }
    let mut lives = Vec::new();
    let (mut limit, mut below) = (end, stretches.len());
    loop {
        // The life that holds the place: the last to begin at or below it.
        let holds = |stretch: &LifeSegments| limit.is_none_or(|limit| stretch.life <= limit);
        let Some(n) = stretches[..below].iter().rposition(holds) else {
            return Err(Broken::Missing(limit.map_or(wanted, |limit| segments.number_of(limit))));
        };
        let stretch = &stretches[n];
        let is_first = stretch.life <= from;
        let (begins, first_number) =
            if is_first { (from, first) } else { (stretch.life, segments.number_of(stretch.life)) };
        let followed = limit.is_some();
        lives.push(Life { from: begins, limit: stretch.reach(segments, first_number, limit)?, followed });
        if is_first {
            lives.reverse();
            return Ok(lives);
        }
        if stretch.continues < from {
            return Err(Broken::Contradicts { number: stretch.numbers[0], continues: stretch.continues });
        }
        (limit, below) = (Some(stretch.continues), n);
    }
}

fn missing(segments: &Segments, number: u64) -> Error {
    let path = segments.path_of(number);
    Error::corruption(format!(
        "log segment {} is missing, and recovery needs it; restore the file, or the environment from a \
         backup",
        path.display()
    ))
}

fn contradicts(segments: &Segments, number: u64, continues: u64, from: Lsn) -> Error {
    let path = segments.path_of(number);
    Error::corruption(format!(
        "log segment {} says that it goes on from LSN {continues}, but the checkpoint is at LSN {from}; \
         files of different times were mixed",
        path.display()
    ))
}

/// Writes bytes of the log again, in the segments that are in use.
struct Again<'l> {
    segments: &'l Segments,
    in_use: Vec<u64>,
    /// The segment that was written to last, not flushed yet.
    file: Option<(u64, Arc<dyn File>)>,
}

impl<'l> Again<'l> {
    fn new(segments: &'l Segments) -> Result<Again<'l>> {
        Ok(Again { segments, in_use: segments.numbers()?, file: None })
    }

    fn write(&mut self, mut at: Lsn, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let number = self.segments.number_of(at);
            let room = self.segments.first_lsn(number + 1).0 - at.0;
            let (piece, rest) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            // An archived one was flushed before it was.
            if self.in_use.contains(&number) {
                let segments = self.segments;
                self.file_of(number)?
                    .write_at(piece, segments.offset_of(at))
                    .map_err(|e| Error::io("writing again log segment", &segments.path_of(number), e))?;
            }
            (at, bytes) = (Lsn(at.0 + piece.len() as u64), rest);
        }
        Ok(())
    }

    /// The file of a segment; that of another is flushed before.
    fn file_of(&mut self, number: u64) -> Result<&dyn File> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != number) {
            self.flush()?;
            let file = self.segments.open_file(Name::Log(number), false, false)?;
            self.file = Some((number, file));
        }
        Ok(&*self.file.as_ref().expect("just opened").1)
    }

    fn flush(&mut self) -> Result<()> {
        let Some((number, file)) = self.file.take() else { return Ok(()) };
        file.sync().map_err(|e| Error::io("flushing log segment", &self.segments.path_of(number), e))
    }
}

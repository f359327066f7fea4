//! The lane: how the holder of the flush turn gets bytes from the ring into segment files.
//!
//! Everything here belongs to one process and is used only under the turn. What it keeps between turns (open
//! files, the block it cached last) are shortcuts: another process may take the turn in between, and then
//! they are merely not used or cost a little more.

use std::cell::OnceCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sablecat_os::disk::{AlignedBuf, File, Window, cut_off};

use super::limits::BLOCK;
use super::name::Name;
use super::ring::Ring;
use super::segment::{HEADER_BYTES, Segments};
use super::words::{LogCounters, count};
use crate::error::{Error, Result};
use crate::types::Lsn;

/// With more open segments than this, none of them flushed, the next write flushes. Only participants that
/// never ask for a flush reach it.
pub(super) const OPEN_MAX: usize = 64;

/// By which way bytes go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WritePath {
    /// Around the page cache. Only while no byte of the log is dirty in it.
    Direct,
    /// Through the page cache, in whole blocks.
    Cached,
    /// Through the page cache, the block cached last by stores: the quickest when no flush follows, but a
    /// flush has to write-protect the page again and costs half as much more after it.
    Stored,
}

/// One process's side of the flush turn.
#[derive(Debug)]
pub(super) struct Lane {
    open: Vec<OpenSegment>,
    /// The first LSN of the block that this lane put into the page cache last, unless it is full or went out
    /// another way since.
    resident: Option<Lsn>,
    /// The first block of a write, some of which may be in the file already, and the last one, with zeros
    /// behind the tail. They are copied before the guard looks at the ring's memory (region/guard.rs): what
    /// goes missing later takes nothing from the file that it has, and leaves no record that says more is
    /// there.
    first_block: AlignedBuf,
    last_block: AlignedBuf,
    /// Behind so many of its bytes the last block has zeros.
    last_used: usize,
    /// Direct writes are durable when they return.
    sync_io: bool,
    /// The number of successions before anything here was opened: after another the names are those of other
    /// files.
    successions: u64,
}

#[derive(Debug)]
struct OpenSegment {
    number: u64,
    cached: Arc<dyn File>,
    direct: Option<Arc<dyn File>>,
    /// Made at the first use; none where the file system has no such thing, and write calls must do.
    window: OnceCell<Option<Box<dyn Window>>>,
}

pub(super) fn block_of(lsn: Lsn) -> Lsn {
    Lsn(lsn.0 & !(BLOCK - 1))
}

/// The numbers of the segments that hold [from, to).
pub(super) fn numbers(segments: &Segments, from: Lsn, to: Lsn) -> std::ops::Range<u64> {
    if from < to { segments.number_of(from)..segments.number_of(Lsn(to.0 - 1)) + 1 } else { 0..0 }
}

impl Lane {
    pub(super) fn new(sync_io: bool) -> Lane {
        Lane {
            open: Vec::new(),
            resident: None,
            first_block: AlignedBuf::new(BLOCK as usize),
            last_block: AlignedBuf::new(BLOCK as usize),
            last_used: 0,
            sync_io,
            successions: 0,
        }
    }

    /// How many segments are open.
    pub(super) fn open_segments(&self) -> usize {
        self.open.len()
    }

    /// Forgets all shortcuts, after a holder of the turn panicked.
    pub(super) fn reset(&mut self) {
        *self = Lane { successions: self.successions, ..Lane::new(self.sync_io) };
    }

    /// Forgets all files that were opened before the last of so many successions.
    #[inline]
    pub(super) fn adopt(&mut self, successions: u64) {
        if self.successions != successions {
            self.reset();
            self.successions = successions;
        }
    }

    /// Closes segments below the one that holds `lsn`.
    #[inline]
    pub(super) fn close_before(&mut self, segments: &Segments, lsn: Lsn) {
        if self.open.len() > 1 {
            let first = segments.number_of(lsn);
            self.open.retain(|segment| segment.number >= first);
        }
    }

    fn segment(&mut self, segments: &Segments, number: u64) -> Result<&mut OpenSegment> {
        // Newest last; looked at from the end, as that is the one wanted nearly always.
        let index = match self.open.iter().rposition(|segment| segment.number == number) {
            Some(index) => index,
            None => {
                let cached = segments.open_file(Name::Log(number), false, false)?;
                // Stores go to the newest segment only. The others stay open until they are flushed, so that
                // no error of theirs is missed.
                for older in &mut self.open {
                    older.window = OnceCell::new();
                }
                self.open.push(OpenSegment { number, cached, direct: None, window: OnceCell::new() });
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[index])
    }

    /// Brings the ring's bytes [from, to) out, and with them what the block of `from` holds before it. On
    /// return they are with the operating system; or false: the turn is not the caller's any more, and
    /// nothing goes on. What is before `from` is durable, or `unflushed`: a file that was cut short below
    /// that, or below what is stored here, is made no longer, or nobody would find it.
    ///
    /// Between a look at `is_mine` that says so and what is written then nothing is opened. So a successor
    /// that takes the turn after that look has only to put other files under the names: what is written
    /// later, of bytes that may be others by then, goes to a file without a name.
    ///
    /// # Safety
    /// While `is_mine` says so, [from rounded down to a block, to) is in the ring.
    pub(super) unsafe fn write(
        &mut self,
        segments: &Segments,
        ring: Ring,
        counters: &LogCounters,
        (from, to): (Lsn, Lsn),
        unflushed: bool,
        (way, is_mine): (WritePath, impl Fn() -> bool),
    ) -> Result<bool> {
        let (begin, mut from) = (from, from);
        if way == WritePath::Stored && self.resident == Some(block_of(from)) {
            let stop = to.min(Lsn(block_of(from).0 + BLOCK));
            if let Some(window) = self.segment(segments, segments.number_of(from))?.window(segments) {
                if !is_mine() {
                    return Ok(false);
                }
                // SAFETY: by the caller's promise no committer writes here; or else the bytes go where nobody
                // reads them. One block does not wrap: the ring's length is a multiple of it.
                let [bytes, _] = unsafe { ring.slices(from, stop) };
                let number = segments.number_of(from);
                window
                    .write((from.0 % segments.bytes()) as usize, bytes)
                    .map_err(|e| writing((from, stop), &segments.path(Name::Log(number)), e))?;
                count(&counters.stores, 1);
                from = stop;
            }
        }
        if from == to && !to.0.is_multiple_of(BLOCK) {
            return Ok(true);
        }
        self.resident = None;
        let is_stored = begin < from;
        if (unflushed || is_stored) && from < to {
            let number = segments.number_of(from);
            self.segment(segments, number)?
                .check_length(segments.offset_of(from))
                .map_err(|e| writing((from, to), &segments.path(Name::Log(number)), e))?;
        }
        while from < to {
            let stop = to.min(segments.first_lsn(segments.number_of(from) + 1));
            // SAFETY: as the caller promised.
            if !unsafe {
                self.write_blocks(segments, ring, counters, (block_of(from), stop), (way, &is_mine))?
            } {
                return Ok(false);
            }
            from = stop;
            if way != WritePath::Direct && !to.0.is_multiple_of(BLOCK) {
                self.resident = Some(block_of(to));
            }
        }
        Ok(true)
    }

    /// Writes the blocks of [from, to): `from` begins one, `to` is in the same segment or its end.
    ///
    /// # Safety
    /// As for [`Lane::write`].
    unsafe fn write_blocks(
        &mut self,
        segments: &Segments,
        ring: Ring,
        counters: &LogCounters,
        (from, to): (Lsn, Lsn),
        (way, is_mine): (WritePath, impl Fn() -> bool),
    ) -> Result<bool> {
        let number = segments.number_of(from);
        let whole = block_of(to);
        // SAFETY: as the caller promised, here and below.
        let [first, second] = unsafe { ring.slices(from, whole) };
        let rest = (to.0 - whole.0) as usize;
        if rest != 0 {
            // SAFETY: as above; less than a block does not wrap.
            let [bytes, _] = unsafe { ring.slices(whole, to) };
            self.last_block[..rest].copy_from_slice(bytes);
            // Nothing, as a rule: one write after another goes further in the same block.
            if rest < self.last_used {
                self.last_block[rest..self.last_used].fill(0);
            }
            self.last_used = rest;
        }
        let sync_io = self.sync_io;
        let file = self.segment(segments, number)?.file(segments, way, sync_io)?;
        let (head, first) = first.split_at(first.len().min(BLOCK as usize));
        self.first_block[..head.len()].copy_from_slice(head);
        let head = &self.first_block[..head.len()];
        let last: &[u8] = if rest == 0 { &[] } else { &self.last_block };
        let mut pieces = [first; 4];
        let mut filled = 0;
        for piece in [head, first, second, last] {
            if !piece.is_empty() {
                pieces[filled] = piece;
                filled += 1;
            }
        }
        let pieces = &pieces[..filled];
        if !is_mine() {
            return Ok(false);
        }
        count(&counters.writes, 1);
        count(&counters.write_bytes, pieces.iter().map(|piece| piece.len() as u64).sum());
        file.write_all_at(pieces, segments.offset_of(from))
            .map(|()| true)
            .map_err(|e| writing((from, to), &segments.path(Name::Log(number)), e))
    }

    /// Opens the segments that hold [from, to).
    pub(super) fn open_all(&mut self, segments: &Segments, (from, to): (Lsn, Lsn)) -> Result<()> {
        numbers(segments, from, to).try_for_each(|number| self.segment(segments, number).map(drop))
    }

    /// Flushes the segments that hold [from, to), [which are open](Lane::open_all), whichever way the bytes
    /// went; perhaps by stores, if `stored`. Any error means that something may be lost.
    pub(super) fn sync(
        &mut self,
        segments: &Segments,
        counters: &LogCounters,
        (from, to): (Lsn, Lsn),
        stored: bool,
    ) -> Result<()> {
        for number in numbers(segments, from, to) {
            count(&counters.flushes, 1);
            let end = to.min(segments.first_lsn(number + 1));
            let needed = HEADER_BYTES + (end.0 - segments.first_lsn(number).0);
            let segment = self.segment(segments, number)?;
            // What was stored behind the end of a file that others have cut short is in no file.
            (segment.cached.sync())
                .and_then(|()| if stored { segment.check_length(needed) } else { Ok(()) })
                .map_err(|e| Error::io("flushing log segment", &segments.path(Name::Log(number)), e))?;
        }
        Ok(())
    }
}

/// The error of a write of LSNs.
fn writing((from, to): (Lsn, Lsn), path: &Path, error: io::Error) -> Error {
    Error::io(format_args!("writing LSNs {from}..{to} to log segment"), path, error)
}

impl OpenSegment {
    fn file(&mut self, segments: &Segments, way: WritePath, sync_io: bool) -> Result<Arc<dyn File>> {
        if way != WritePath::Direct {
            return Ok(Arc::clone(&self.cached));
        }
        if self.direct.is_none() {
            self.direct = Some(segments.open_direct(self.number, sync_io)?);
        }
        Ok(Arc::clone(self.direct.as_ref().unwrap_or(&self.cached)))
    }

    /// An error if the file is shorter than it was left.
    fn check_length(&self, at_least: u64) -> io::Result<()> {
        if self.cached.len()? < at_least { Err(cut_off()) } else { Ok(()) }
    }

    fn window(&self, segments: &Segments) -> Option<&dyn Window> {
        let make = || self.cached.window(HEADER_BYTES, usize::try_from(segments.bytes()).ok()?).ok();
        self.window.get_or_init(make).as_deref()
    }
}

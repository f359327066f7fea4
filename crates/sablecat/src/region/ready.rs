//! What of the region has memory for certain.
//!
//! The mapping is as long as all of it can become, and lazy. Of a shared region, whose file system may be
//! full, memory is made certain before anything is touched for which there may be none: frames by the large
//! page, and with them what describes them; the tables by the step. What a header's word calls *ready* has
//! it. In a private one all is ready from the beginning, and the system finds memory when it is touched, or
//! is told [to do so before](Region::bring_frames).

use std::ops::Range;
use std::path::Path;

use sablecat_os::atomic::{AtomicU8, AtomicU64, Ordering};
use sablecat_os::clock;
use sablecat_os::mapping::LARGE_PAGE;

use super::geometry::Offsets;
use super::{FrameDesc, MEMORY_IS_FULL, PageEntry, Region, bitmap};
use crate::error::{Error, Result};
use crate::types::VolumeId;

/// Page ids or blocks for which memory is made certain at a time, in a shared region.
const TABLE_STEP: u64 = 1 << 16;

/// As much as this part of the frames' memory is left free for tables when frames are added.
const TABLES_PART: usize = 8;

/// Memory for frames is found before it is needed if there is so many times as much.
const ROOM_TO_BRING: usize = 16;

/// For how long a process that was refused memory for more frames does without.
const ASK_AGAIN_MS: u64 = 1000;

impl Region {
    /// Makes memory certain for a range.
    ///
    /// # Errors
    /// `MemoryFull` when there is none left.
    pub(super) fn reserve(&self, offset: usize, len: usize) -> Result<()> {
        self.mapping.reserve(offset, len).map_err(|e| match e.kind() {
            std::io::ErrorKind::StorageFull => Error::memory_full(MEMORY_IS_FULL),
            _ => Error::io("reserving the shared memory of", Path::new("the environment"), e),
        })
    }

    /// The same, in large pages as far as there are such.
    ///
    /// # Errors
    /// As [`Region::reserve`].
    pub(super) fn gather(&self, bytes: Range<usize>) -> Result<()> {
        self.mapping.gather(bytes.start, bytes.len());
        self.reserve(bytes.start, bytes.len())
    }

    /// Has memory for some more frames made certain, those of a large page: which; none if all have it, or
    /// there is none left for more. Some is left to the tables, which grow with the files: what the cache
    /// does not have it can do without.
    pub(crate) fn more_frames(&self) -> Option<Range<u32>> {
        let frames = self.next_frames()?;
        // Being refused costs as much as being given, and a process with few frames asks before every
        // operation.
        let now = clock::monotonic().as_millis() as u64;
        if now < self.refused_until.load(Ordering::Relaxed) {
            return None;
        }
        if !self.has_room_for(&frames, 1) || !self.gather_frames(&frames) {
            self.refused_until.store(now + ASK_AGAIN_MS, Ordering::Relaxed);
            return None;
        }
        // A loser of the race reserved the same range.
        let ready = &self.header().frames_ready.0;
        ready.compare_exchange(frames.start, frames.end, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        Some(frames.start as u32..frames.end as u32)
    }

    /// Has memory found for some frames that nobody has used, before they are used: in a shared region for
    /// those that are to be [made ready](Region::more_frames) next, if there is much left; in a private one,
    /// where all are ready, for those in the large page that follows the one with this frame.
    pub(crate) fn bring_frames(&self, behind: u64) {
        if self.membership.is_some() {
            if let Some(next) = self.next_frames().filter(|next| self.has_room_for(next, ROOM_TO_BRING)) {
                self.gather_frames(&next);
            }
            return;
        }
        let each = self.frames_in_large_page();
        let first = (behind / each + 1) * each;
        let end = (first + each).min(self.geometry.frames as u64);
        if first < end {
            let (offset, len) = self.place_of_frames(&(first..end));
            self.mapping.populate(offset, len);
        }
    }

    /// How many frames a large page has.
    pub(crate) fn frames_in_large_page(&self) -> u64 {
        (LARGE_PAGE / self.geometry.block_size) as u64
    }

    /// The frames that are to be made ready next: up to the end of a large page. None if all are.
    fn next_frames(&self) -> Option<Range<u64>> {
        let from = self.header().frames_ready.0.load(Ordering::SeqCst);
        let step = self.frames_in_large_page();
        let to = (from / step * step + step).min(self.geometry.frames as u64);
        (from < to).then_some(from..to)
    }

    /// Where all frames of the large page with these are, up to the last of them: offset and length.
    fn place_of_frames(&self, frames: &Range<u64>) -> (usize, usize) {
        let step = self.frames_in_large_page();
        let bytes = |frame: u64| self.offsets.frames + frame as usize * self.geometry.block_size;
        let start = bytes(frames.start / step * step);
        (start, bytes(frames.end) - start)
    }

    /// Whether there is so many times the memory for some frames, beside what the tables may need.
    fn has_room_for(&self, frames: &Range<u64>, times: usize) -> bool {
        let (offset, len) = self.place_of_frames(frames);
        let left = (offset - self.offsets.frames) / TABLES_PART;
        // What describes them may need another large page.
        let more: usize = self.places_of_descriptions(frames).map(|bytes| bytes.len()).iter().sum();
        self.mapping.room().is_none_or(|room| room >= (times * len + left + more) as u64)
    }

    /// Makes memory certain for the frames of a large page, and for what describes them. False: there is
    /// none.
    fn gather_frames(&self, frames: &Range<u64>) -> bool {
        let (offset, len) = self.place_of_frames(frames);
        self.describe_frames(frames).and_then(|()| self.gather(offset..offset + len)).is_ok()
    }

    /// Makes memory certain for what describes frames, where those below them have it.
    ///
    /// # Errors
    /// `MemoryFull` when there is none left.
    pub(super) fn describe_frames(&self, frames: &Range<u64>) -> Result<()> {
        let mut places = self.places_of_descriptions(frames).into_iter().filter(|bytes| !bytes.is_empty());
        places.try_for_each(|bytes| self.gather(bytes))
    }

    /// All bytes that describe some frames, up to the ends of the large pages that they are in, but those of
    /// pages that describe frames below them.
    pub(super) fn places_of_descriptions(&self, frames: &Range<u64>) -> [Range<usize>; 2] {
        let Offsets { descriptors, references, table, .. } = self.offsets;
        [(descriptors, size_of::<FrameDesc>()), (references, size_of::<AtomicU8>())].map(|(offset, each)| {
            let end = |frame: u64| match frame {
                0 => (offset / LARGE_PAGE * LARGE_PAGE).max(descriptors),
                _ => (offset + frame as usize * each).next_multiple_of(LARGE_PAGE).min(table),
            };
            end(frames.start)..end(frames.end)
        })
    }

    /// Makes memory certain for the table's entries of page ids below `end`.
    ///
    /// # Errors
    /// `MemoryFull` when there is none left.
    #[inline]
    pub(crate) fn reserve_pages(&self, end: u64) -> Result<()> {
        if end > self.header().pages_ready.load(Ordering::Relaxed) {
            self.reserve_pages_slowly(end)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn reserve_pages_slowly(&self, end: u64) -> Result<()> {
        let ready = &self.header().pages_ready;
        let (from, to) = step(ready, end, self.geometry.pages_max);
        self.places_of_pages(from, to)
            .into_iter()
            .try_for_each(|bytes| self.reserve(bytes.start, bytes.len()))?;
        ready.fetch_max(to, Ordering::SeqCst);
        Ok(())
    }

    /// All bytes that are looked at because of page ids from `from` to `to`.
    pub(super) fn places_of_pages(&self, from: u64, to: u64) -> Vec<Range<usize>> {
        let Offsets { table, page_bits, unsaved, capturing, .. } = self.offsets;
        let rows = [(table, 8 * size_of::<PageEntry>()), (unsaved, 2), (capturing, 2)].into_iter().map(
            |(offset, bits)| {
                let byte = |place: u64| offset + place as usize * bits / 8;
                byte(from)..byte(to).max(byte(from))
            },
        );
        rows.chain(places_of_bits(page_bits, self.geometry.pages_max, from, to)).collect()
    }

    /// Makes memory certain for the bits of a volume's blocks below `end`.
    ///
    /// # Errors
    /// `MemoryFull` when there is none left.
    #[inline]
    pub(crate) fn reserve_blocks(&self, volume: VolumeId, end: u64) -> Result<()> {
        let ready = &self.header().blocks[volume.index()].0.ready;
        if end > ready.load(Ordering::Relaxed) { self.reserve_blocks_slowly(volume, end) } else { Ok(()) }
    }

    #[cold]
    fn reserve_blocks_slowly(&self, volume: VolumeId, end: u64) -> Result<()> {
        let ready = &self.header().blocks[volume.index()].0.ready;
        let (from, to) = step(ready, end, self.geometry.blocks_max);
        places_of_bits(self.block_bits_at(volume), self.geometry.blocks_max, from, to)
            .try_for_each(|bytes| self.reserve(bytes.start, bytes.len()))?;
        ready.fetch_max(to, Ordering::SeqCst);
        Ok(())
    }
}

/// From where to where places are to be made certain of, so that `end` of at most `max` are.
fn step(ready: &AtomicU64, end: u64, max: u64) -> (u64, u64) {
    let from = ready.load(Ordering::SeqCst) / TABLE_STEP * TABLE_STEP;
    (from, end.div_ceil(TABLE_STEP).saturating_mul(TABLE_STEP).min(max))
}

/// The bytes of a bitmap with summaries, at `offset` and of so many bits, that are looked at because of
/// numbers from `from` to `to`.
pub(super) fn places_of_bits(
    offset: usize,
    bits: u64,
    from: u64,
    to: u64,
) -> impl Iterator<Item = Range<usize>> {
    let byte = move |word: usize| offset + word * size_of::<AtomicU64>();
    bitmap::words_for(bits, from, to).map(move |words| byte(words.start)..byte(words.end))
}

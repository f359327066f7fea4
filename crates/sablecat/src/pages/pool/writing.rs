//! Writing versions to blocks: from the moment that one is given a block until it is on it, or on none.
//!
//! Sweeps, cleaners and checkpoints write versions from their frames. The writer gives each a block first,
//! and marks it in the frame's descriptor as being written, with its own slot. A marked version is neither
//! reclaimed nor evicted, so its bytes stay while the disk takes them, without a latch; and nobody else
//! writes it. The marks of one writer are a list that ends them when it is dropped: whatever goes wrong on
//! the way, no version is left that all others take to be written at this moment. Those of the dead are ended
//! by reaping (mend.rs).
//!
//! A block that could not be written holds anything, and nothing names it: it is free again, and its version
//! is to be written as before. So an error here does no harm, and poisons nothing.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Pool;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::allocation::first_within;
use crate::pages::participants::{LocalParticipant, hand};
use crate::pages::volume::{FreeEnd, Leaving, Volume};
use crate::region::{BlockWord, HeldRole, SlotCounter, WRITTEN_QUEUE};
use crate::types::{BlockId, FrameId, PageId, SealedBlock, VolumeId};

/// Runs of free blocks of a volume whose space is given back when it is left, at most: each is a system call,
/// of 65 to 125 us where ext4 has to make a hole.
const RUNS_EMPTIED_MAX: u64 = 16_384;

/// A version that its writer has marked: its frame, and the mark.
pub(crate) type MarkedVersion = (FrameId, BlockWord);

/// Versions that are being written by one participant. Dropped, those that are left are on no block.
#[must_use]
#[derive(Debug)]
pub(in crate::pages) struct Writes<'a> {
    pages: &'a Pool,
    claims: Vec<MarkedVersion>,
}

impl<'a> Writes<'a> {
    pub(in crate::pages) fn new(pages: &'a Pool) -> Writes<'a> {
        Writes { pages, claims: Vec::new() }
    }

    pub(in crate::pages) fn push(&mut self, claim: MarkedVersion) {
        self.claims.push(claim);
    }

    pub(in crate::pages) fn len(&self) -> usize {
        self.claims.len()
    }

    pub(in crate::pages) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Writes all of them, each to its block, so that their frames can be used for others.
    ///
    /// # Errors
    /// Those of the volume; all are on no block then.
    pub(in crate::pages) fn write_out(&mut self, me: &LocalParticipant) -> Result<()> {
        let written = self.write_as(me, |word| word)?;
        me.slot().count(SlotCounter::Swept, written.len() as u64);
        Ok(())
    }

    /// The same for a checkpoint, which names the blocks: which pages' they are, in the order in which they
    /// were pushed. A participant that has lost the role does not.
    ///
    /// # Errors
    /// As [`Writes::write`]; if the role was lost.
    pub(in crate::pages) fn write_captured(
        &mut self,
        held: &HeldRole<'_>,
        me: &LocalParticipant,
    ) -> Result<Vec<(PageId, SealedBlock)>> {
        let written = self.write_as(me, |word| if held.is_succeeded() { word } else { word.captured() })?;
        me.slot().count(SlotCounter::Captured, written.len() as u64);
        if held.is_succeeded() { Err(Error::succeeded()) } else { Ok(written) }
    }

    /// Writes all, and ends the marks: the versions are on their blocks, with seals that are known from then
    /// on.
    fn write_as(
        &mut self,
        me: &LocalParticipant,
        known_as: impl Fn(BlockWord) -> BlockWord,
    ) -> Result<Vec<(PageId, SealedBlock)>> {
        let pages = self.pages;
        // For a process that has the environment alone: see `Pool::with_room`.
        let _hand = pages.region.membership().is_none().then(|| me.in_hand());
        let Some(volume) = pages.volume.as_ref().filter(|_| !self.is_empty()) else { return Ok(Vec::new()) };
        pages.region.check_fence()?;
        // SAFETY: versions that are marked as being written are neither reclaimed nor evicted, and published
        // bytes do not change.
        let images: Vec<_> = self
            .claims
            .iter()
            .map(|&(frame, claim)| (claim.block(), unsafe { pages.region.page(frame) }))
            .collect();
        let sealed = pages
            .with_room(volume, || pages.write_blocks(volume, &images))
            .inspect_err(|_| self.give_up())?;
        let written = self.claims.drain(..).zip(sealed).map(|((frame, claim), block)| {
            let desc = pages.region.frame(frame);
            // Read while the mark keeps the frame.
            let page = desc.page();
            // Not if this process was taken for dead meanwhile, and another has ended the mark.
            desc.change_block(claim, known_as(claim.written(block)));
            (page, block)
        });
        let written = written.collect();
        pages.region.queue(WRITTEN_QUEUE).wake();
        Ok(written)
    }

    /// Ends the marks: the versions are on no block.
    fn give_up(&mut self) {
        if self.is_empty() {
            return;
        }
        for (frame, claim) in self.claims.drain(..) {
            if self.pages.region.frame(frame).change_block(claim, claim.dropped()) {
                self.pages.empty_if_short([claim.block()].into_iter());
                self.pages.blocks.release(claim.block());
            }
        }
        self.pages.region.queue(WRITTEN_QUEUE).wake();
    }
}

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Pool {
    /// Writes to blocks. Of one that had a compressed page, or was free when the file was left, the space may
    /// have been given back, and on a full disk there is none for what is to be there now; then that of free
    /// blocks is given up for it, and the reserve, bit by bit. The reserve not while others share the
    /// environment, since they may be writing to the end of the file; otherwise the caller may have blocks in
    /// hand.
    ///
    /// # Errors
    /// Those of `write`.
    pub(in crate::pages) fn with_room<T>(
        &self,
        volume: &Volume,
        mut write: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let bytes = || volume.file_bytes().ok();
        let (mut is_emptied, mut least) = (false, None);
        loop {
            let error = match write() {
                Err(error) if error.kind() == ErrorKind::DiskFull && volume.may_have_holes() => error,
                done => return done,
            };
            self.is_short.store(true, Ordering::Relaxed);
            if !is_emptied {
                is_emptied = true;
                self.empty_free(volume);
                continue;
            }
            if self.region.membership().is_some() {
                return Err(error);
            }
            // The write may make the file longer again by what it could not do with.
            let before = least.or_else(bytes);
            if volume.give_back_tail(&self.blocks, FreeEnd::Block).is_err() || bytes() >= before {
                return Err(error);
            }
            least = bytes();
        }
    }

    /// Writes pages to blocks that nobody names: see [`Volume::write_blocks`].
    ///
    /// # Errors
    /// As there.
    pub(in crate::pages) fn write_blocks(
        &self,
        volume: &Volume,
        images: &[(BlockId, &[u8])],
    ) -> Result<Vec<SealedBlock>> {
        volume.write_blocks(images, |page| self.kinds.gap_in(page))
    }

    /// Gives the file system what free blocks have kept of the space of what was in them, so that it does not
    /// matter which of them is written next.
    fn empty_free(&self, volume: &Volume) {
        for one in self.blocks.volumes() {
            self.free_runs(volume, one).for_each(|run| self.empty_run(volume, one, run));
        }
    }

    /// The runs of free blocks of a volume, by their places in it.
    fn free_runs(&self, volume: &Volume, one: VolumeId) -> impl Iterator<Item = Range<u64>> {
        let (space, mut from) = (self.blocks.of(one), first_within(one, volume.block_size()));
        std::iter::from_fn(move || {
            let run = space.next_free(from)?;
            from = run.end;
            Some(run)
        })
    }

    /// Gives the file system the space of some blocks of a volume, if they are free. Best effort: whether or
    /// not it can be done they are free afterwards.
    fn empty_run(&self, volume: &Volume, one: VolumeId, Range { start, end }: Range<u64>) {
        hand::assert_in_hand();
        // Nobody else can have them meanwhile.
        if start < end && self.blocks.of(one).take_run(start, end - start).is_ok_and(|taken| taken) {
            let first = BlockId::new(one, start);
            // Those of a participant that was taken for dead may be others' by now.
            if self.region.check_fence().is_ok() {
                _ = volume.empty(first, end - start);
            }
            self.blocks.release_run(first, end - start);
        }
    }

    /// Gives the file system the space of free blocks: for the last to write to the volume. Of those that are
    /// written next, the lowest, as many as a reserve has keep theirs or are given it: so who opens the
    /// volume on a disk that is full by then has as much to begin with as if the file had no free blocks, and
    /// need not take it from the reserve. Best effort, as that is.
    pub(crate) fn empty_when_left(&self, me: &LocalParticipant) {
        let Some(volume) = &self.volume else { return };
        let _hand = me.in_hand();
        for one in self.blocks.volumes() {
            let Ok(Some(Leaving { mut kept, is_worth_emptying })) = volume.leaving(one, &self.blocks) else {
                continue;
            };
            let shortest = if is_worth_emptying { longest(self.free_runs(volume, one)) } else { u64::MAX };
            let mut lowest = Vec::new();
            for Range { start, end } in self.free_runs(volume, one) {
                let from = start + kept.min(end - start);
                if start < from {
                    kept -= from - start;
                    lowest.push(start..from);
                }
                if end - from >= shortest {
                    self.empty_run(volume, one, from..end);
                }
            }
            // Last: on a full disk there is room now.
            lowest.into_iter().for_each(|run| volume.fill(BlockId::new(one, run.start), run.end - run.start));
        }
    }

    /// If a block has found no space, gives the file system that of these, which nobody needs any more, or
    /// not for now, and nobody else can have yet.
    pub(in crate::pages) fn empty_if_short(&self, blocks: impl Iterator<Item = BlockId>) {
        // Relaxed: it is a hint.
        if self.is_short.load(Ordering::Relaxed)
            && let Some(volume) = &self.volume
        {
            // Whether or not it can be done they are free.
            blocks.for_each(|block| _ = volume.empty(block, 1));
        }
    }

    /// A checkpoint stands, which has found space for all that it wrote, and made some.
    pub(in crate::pages) fn end_shortness(&self) {
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// Gives a version that is on no block one that the caller is to write it to; none if it is on one, or
    /// being written to one. Its page is latched by `me`, and it is the current one or pinned: so it cannot
    /// be freed; once marked as being written, not after that either.
    pub(crate) fn claim_write(&self, frame: FrameId, me: &LocalParticipant) -> Result<Option<MarkedVersion>> {
        let desc = self.region.frame(frame);
        // One look: its writer needs no latch to say that it is written.
        let word = desc.block();
        if word.block() != BlockId::NONE || self.volume.is_none() {
            return Ok(None);
        }
        let _hand = me.in_hand();
        let block = SealedBlock::unsealed(self.allocate_block(word.volume())?);
        Ok(Some(self.mark(frame, block, me)))
    }

    /// Marks a version that is on no block as being written to this one, under the same conditions.
    pub(super) fn mark(&self, frame: FrameId, block: SealedBlock, me: &LocalParticipant) -> MarkedVersion {
        let claim = BlockWord::fresh(block).writing(me.number());
        self.region.frame(frame).set_block(claim);
        (frame, claim)
    }
}

/// How many numbers the shortest of the longest runs has, by powers of two, so that these are not more than
/// are emptied.
fn longest(runs: impl Iterator<Item = Range<u64>>) -> u64 {
    let mut of_length = [0; u64::BITS as usize];
    runs.for_each(|run| of_length[(run.end - run.start).ilog2() as usize] += 1);
    let mut many = 0;
    let class = (0..u64::BITS).rev().take_while(|&class| {
        many += of_length[class as usize];
        many <= RUNS_EMPTIED_MAX
    });
    class.last().map_or(u64::MAX, |class| 1 << class)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sablecat_os::disk::{Disk, How};
    use sablecat_os::sim::SimDisk;

    use super::*;
    use crate::pages::participants::hand::pretend;
    use crate::pages::tests::pool_over;
    use crate::pages::volume::tests::plain;

    #[test]
    fn the_longest_runs_are_emptied_as_many_as_may_be() {
        let runs = |lengths: &[(u64, u64)]| {
            let all: Vec<_> =
                lengths.iter().flat_map(|&(length, many)| (0..many).map(move |_| 7..7 + length)).collect();
            longest(all.into_iter())
        };
        assert_eq!(runs(&[]), 1);
        assert_eq!(runs(&[(1, RUNS_EMPTIED_MAX)]), 1);
        assert_eq!(runs(&[(1, RUNS_EMPTIED_MAX), (1 << 40, 1)]), 2);
        assert_eq!(runs(&[(1, 9), (5, RUNS_EMPTIED_MAX), (9, 1)]), 8);
        assert_eq!(runs(&[(9, RUNS_EMPTIED_MAX + 1)]), 16);
    }

    /// Of a file with holes its end is given up for a write that finds no space. That may make the file
    /// longer by as much before it finds none again.
    #[test]
    fn a_write_that_makes_the_file_longer_and_finds_no_space_ends() {
        let (disk, path) = (SimDisk::new(1), Path::new("sablecat.db"));
        let pages = pool_over(16, Some(Volume::create(&disk, path, plain(512), [7; 16], false).unwrap()));
        let volume = pages.volume().unwrap();
        let file = disk.open(path, How::default()).unwrap();
        let first = BlockId(first_within(VolumeId::MAIN, 512));
        file.preallocate(0, 1 << 20).unwrap();
        pretend(|| volume.empty(first, 64).unwrap());
        let length = file.len().unwrap();
        let mut tries = 0;
        let error = pretend(|| {
            pages.with_room(volume, || -> Result<()> {
                tries += 1;
                assert!(tries < 10_000, "it is tried for ever");
                file.preallocate(file.len().unwrap(), 512).unwrap();
                Err(Error::io("writing", path, std::io::ErrorKind::StorageFull.into()))
            })
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::DiskFull);
        assert!(tries > 1, "nothing was given up in a file of {length} bytes");
    }
}

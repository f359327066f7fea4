//! Reading a page into the pool.
//!
//! The reader latches the page's entry, so one participant reads while others that want the page wait; then
//! it takes a frame, reads, verifies, and swings the entry to it. Dying anywhere leaves a latch and a
//! building frame, both found through the slot.

use sablecat_os::atomic::Ordering;
use sablecat_os::disk::AlignedBuf;

use super::Pool;
use super::latch::PageLatch;
use crate::error::{Error, Result};
use crate::pages::generation::followed::Following;
use crate::pages::header;
use crate::pages::participants::LocalParticipant;
use crate::pages::volume::{MapFinding, Volume, compare_block};
use crate::region::{BlockWord, EntryWord, FrameState, SlotCounter};
use crate::types::{BlockId, FrameId, Lsn, PageId, SealedBlock};

impl Pool {
    /// The current version's frame, after reading it if nobody else did meanwhile.
    #[cold]
    pub(in crate::pages) fn page_in(&self, page: PageId, me: &LocalParticipant) -> Result<FrameId> {
        if u64::from(page.0) >= self.region.geometry().pages_max || page == PageId::NONE {
            return Err(self.no_place(page));
        }
        me.waits.set(me.waits.get().wrapping_add(1));
        self.read_with_neighbours(page, me);
        // Waits for a participant that reads the page in, not for one that latches it to change it, or to
        // make it: a writer may wait for what this reader holds, or be this one.
        let entry = self.region.entry(page);
        let found = self.latch_queue(page).wait_for(|| match entry.word().frame() {
            FrameId::NONE if self.is_nowhere(entry.block()) => Some(Ok(None)),
            FrameId::NONE => match self.try_hold(page, me) {
                None => self.region.check_fence().err().map(Err),
                Some(latch) => Some(Ok(Some((latch.current(), Some(latch))))),
            },
            frame => Some(Ok(Some((frame, None)))),
        })?;
        match found {
            None => {
                self.region.check_fence()?;
                Err(me.finds_nothing(page))
            }
            Some((FrameId::NONE, Some(latch))) => {
                let loaded = self.load_latched(page, me);
                self.region.check_fence()?;
                let frame = loaded?;
                self.swing(page, EntryWord::new(FrameId::NONE, me.number()), EntryWord::new(frame, 0));
                latch.swung();
                Ok(frame)
            }
            // Another has read it in, before it was latched here or after.
            Some((frame, _)) => Ok(frame),
        }
    }

    /// Whether a page that is not in memory has no version at all, by its block word, which was looked at
    /// after that: a page's block is entered before it leaves memory, and does not change while it is out. So
    /// it is with a page that somebody is only just making. A participant that has learned its number
    /// elsewhere has learned it of a page that was freed since.
    fn is_nowhere(&self, block: BlockWord) -> bool {
        self.volume.is_none() || block.is_known() && block.block() == BlockId::NONE
    }

    /// Reads in a page whose latch `me` holds and keeps: the entry names the frame when this returns.
    pub(super) fn load_under_latch(&self, page: PageId, me: &LocalParticipant) -> Result<FrameId> {
        let frame = self.load_latched(page, me)?;
        let swung = self
            .region
            .entry(page)
            .change(EntryWord::new(FrameId::NONE, me.number()), EntryWord::new(frame, me.number()));
        debug_assert!(swung, "only the holder of the latch changes the entry");
        Ok(frame)
    }

    fn load_latched(&self, page: PageId, me: &LocalParticipant) -> Result<FrameId> {
        let view = self.view()?;
        let loaded = self.load(page, me);
        self.publish_loaded(loaded, view, me)
    }

    /// The generation that what is read now is of, for a reader that follows them.
    ///
    /// # Errors
    /// `SnapshotTooOld` while another takes its place.
    pub(super) fn view(&self) -> Result<Option<u64>> {
        self.following.as_ref().map(Following::view).transpose()
    }

    /// Publishes what was read into a frame, if the generation from before it was read is in force still.
    fn publish_loaded(
        &self,
        loaded: Result<FrameId>,
        view: Option<u64>,
        me: &LocalParticipant,
    ) -> Result<FrameId> {
        if let Some(view) = view {
            if let Err(error) = self.confirm(Lsn(view)) {
                loaded.into_iter().for_each(|frame| self.drop_frame(frame, me));
                return Err(error);
            }
            loaded.iter().for_each(|&frame| self.region.born(frame).store(view, Ordering::Release));
        }
        let frame = loaded?;
        self.region.frame(frame).set_state(FrameState::Published);
        me.slot().count(SlotCounter::Misses, 1);
        Ok(frame)
    }

    /// Reads a page into a frame that is building still.
    fn load(&self, page: PageId, me: &LocalParticipant) -> Result<FrameId> {
        let Some(volume) = &self.volume else { return Err(me.finds_nothing(page)) };
        self.learn_block(page)?;
        let word = self.region.entry(page).block();
        if word.block() == BlockId::NONE {
            return Err(me.finds_nothing(page));
        }
        self.fill_frame(page, word, me, |block| volume.read_block(word.block(), block))
    }

    /// A frame that is building still, with a page's version from the block that its entry names.
    fn fill_frame(
        &self,
        page: PageId,
        word: BlockWord,
        me: &LocalParticipant,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<FrameId> {
        let frame = self.take_frame(me)?;
        // SAFETY: the frame is building and ours.
        let block = unsafe { self.region.frame_mut(frame) };
        let read = read(block).and_then(|()| {
            let bytes = &block[..self.region.page_size()];
            self.check_page(page, word.sealed(), bytes)?;
            self.check_age(page, word, bytes)
        });
        // What a failed flush has dropped is not the disk's damage; and it may be an older version of the
        // page that is there instead.
        if let Err(error) = self.fail_if_poisoned().and(read) {
            self.drop_frame(frame, me);
            return Err(error);
        }
        self.region.frame(frame).describe(page, FrameId::NONE, word);
        Ok(frame)
    }

    /// Takes a page into the pool whose block, which its entry names, was read while it was latched; `view`
    /// is from before.
    pub(super) fn take_in(
        &self,
        latch: PageLatch<'_>,
        (word, bytes): (BlockWord, &[u8]),
        view: Option<u64>,
        me: &LocalParticipant,
    ) -> Result<()> {
        let page = latch.page();
        let loaded = self.fill_frame(page, word, me, |block| {
            block.copy_from_slice(bytes);
            Ok(())
        });
        let frame = self.publish_loaded(loaded, view, me)?;
        self.region.check_fence()?;
        self.swing(page, EntryWord::new(FrameId::NONE, me.number()), EntryWord::new(frame, 0));
        latch.swung();
        Ok(())
    }

    /// Checks what a block holds, which is to be a version of this page. `buffer` is one block long, and has
    /// the page at its start then.
    ///
    /// # Errors
    /// Corruption, saying what is wrong; those of the file.
    pub(crate) fn check_stored(
        &self,
        volume: &Volume,
        page: PageId,
        block: SealedBlock,
        buffer: &mut [u8],
    ) -> Result<()> {
        volume.read_block(block.block(), buffer)?;
        self.check_page(page, block, &buffer[..volume.page_size()])
    }

    /// Reads the block of every page that the last checkpoint's map names, and says which are not what they
    /// should be. Checkpoints wait for the pages of one map leaf. Blocks of the map are for others to
    /// complain of.
    ///
    /// # Errors
    /// Those of `wrong`; those of the file.
    pub(crate) fn check_blocks(
        &self,
        me: &LocalParticipant,
        wrong: &mut dyn FnMut(PageId, Error) -> Result<()>,
    ) -> Result<()> {
        let Some(volume) = &self.volume else { return Ok(()) };
        let mut buffer = AlignedBuf::new(volume.block_size());
        for first in (0..self.page_ids.high_water()).step_by(volume.leaf_span() as usize) {
            let found = self.without_checkpoint(me, || {
                self.follow_generation(volume)?;
                let checkpoint = volume.superblock().checkpoint;
                let mut wrong = Vec::new();
                volume.walk(first..first + volume.leaf_span(), &mut |found| {
                    let MapFinding::Page(page, block) = found else { return Ok(()) };
                    self.move_on();
                    let checked = self.check_stored(volume, page, block, &mut buffer);
                    let checked = checked.and_then(|()| check_born(page, block.block(), &buffer, checkpoint));
                    wrong.extend(checked.err().map(|error| (page, error)));
                    Ok(())
                })?;
                Ok(wrong)
            })?;
            found.into_iter().try_for_each(|(page, error)| wrong(page, error))?;
        }
        Ok(())
    }

    /// Checks what was read from a block and verified: whether it is what was written there last, and this
    /// page.
    pub(in crate::pages) fn check_page(&self, page: PageId, named: SealedBlock, bytes: &[u8]) -> Result<()> {
        let block = named.block();
        let found = header::page_id(bytes);
        if found != page {
            return Err(Error::corruption(format!(
                "block {block} should hold page {page} but holds page {found}"
            )));
        }
        let checked = compare_block(named, bytes).and_then(|()| (self.kinds.check)(bytes));
        checked.map_err(|why| Error::corruption(format!("page {page} in block {block}: {why}")))
    }

    /// Checks that a version on a block that the last checkpoint names is not from after it: the map would be
    /// of an older generation than the blocks. The page's latch is held.
    fn check_age(&self, page: PageId, word: BlockWord, bytes: &[u8]) -> Result<()> {
        // In this order: a checkpoint marks its blocks under the latch, after it has set the page's bit, and
        // says that it stands before it clears the bit. So a block that one in progress, or one that came to
        // nothing, has marked is not taken for one that the last names.
        let capturing = self.is_capturing(page);
        let checkpoint = Lsn(self.region.header().checkpointed.load(Ordering::Acquire));
        if word.is_captured() && !capturing {
            check_born(page, word.block(), bytes, checkpoint)
        } else {
            Ok(())
        }
    }
}

fn check_born(page: PageId, block: BlockId, bytes: &[u8], checkpoint: Lsn) -> Result<()> {
    let born = header::born(bytes);
    if born <= checkpoint {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "page {page} in block {block}: it is of LSN {born}, and the checkpoint that names it of \
         {checkpoint}; a later checkpoint was lost: restore the environment from a backup"
    )))
}

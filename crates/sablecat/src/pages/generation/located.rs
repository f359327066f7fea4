//! Where things are: page ids and blocks that are taken and given back, and the block that a page is on.

use sablecat_os::atomic::Ordering;

use super::Generations;
use crate::error::{Error, Result};
use crate::pages::allocation::{BitSpace, BlockSpace};
use crate::pages::participants::hand;
use crate::pages::volume::Volume;
use crate::region::BlockWord;
use crate::types::{BlockId, PageId, VolumeId};

/// What to do where the process could not have the address space for all numbers.
const MORE_PLACES: &str = "the process could not have address space for more; open the environment again, \
                           which makes places for some times what it has, or allow the process more (ulimit \
                           -v, vm.overcommit_memory)";

impl Generations {
    /// Makes sure that the page's entry says where the page is on disk: fills the entries of all pages that
    /// share a map leaf with it.
    pub(crate) fn learn_block(&self, page: PageId) -> Result<()> {
        let Some(volume) = &self.volume else { return Ok(()) };
        if self.region.entry(page).block().is_known() {
            return Ok(());
        }
        if let Some(following) = &self.following {
            return self.learn_followed(volume, following, page);
        }
        // The blocks of a map that is no longer in force are written anew, perhaps by another process: what
        // was read there counts only if that map was in force to the end. The blocks that it named hold: what
        // has changed since has an entry that says so.
        let generation = &self.region.header().generation.0;
        let (first, blocks) = loop {
            let before = generation.load(Ordering::SeqCst);
            self.follow_generation(volume)?;
            let found = volume.lookup_leaf(page);
            if generation.load(Ordering::SeqCst) == before {
                break found?;
            }
        };
        for (n, &block) in blocks.iter().enumerate() {
            let id = u64::from(first.0) + n as u64;
            // Of ids that nobody has ever used there may be no memory to learn it.
            if id < self.page_ids.high_water() {
                self.region.entry(PageId(id as u32)).learn_block(BlockWord::mapped(block));
            }
        }
        Ok(())
    }

    /// A free block of a volume, past the end of the file if need be.
    pub(crate) fn allocate_block(&self, volume: VolumeId) -> Result<BlockId> {
        hand::assert_in_hand();
        self.blocks.allocate(volume)?.ok_or_else(|| self.volume_is_full())
    }

    /// Free blocks of a volume, `count` in a row; the first.
    pub(in crate::pages) fn allocate_blocks(&self, volume: VolumeId, count: u64) -> Result<BlockId> {
        hand::assert_in_hand();
        self.blocks.allocate_run(volume, count)?.ok_or_else(|| self.volume_is_full())
    }

    /// Frees the block of a version that is gone, unless a checkpoint has named it: then checkpoints free it.
    pub(crate) fn forget_block(&self, block: BlockWord) {
        if block.block() != BlockId::NONE && !block.is_captured() {
            self.blocks.release(block.block());
        }
    }

    /// A page id nobody uses.
    pub(crate) fn allocate_page(&self) -> Result<PageId> {
        hand::assert_in_hand();
        match self.page_ids.allocate_one()? {
            Some(id) if id < self.region.geometry().pages_max => Ok(PageId(id as u32)),
            _ => Err(self.no_numbers(1)),
        }
    }

    /// Page ids that nobody uses, `count` in a row; the first.
    pub(crate) fn allocate_run(&self, count: u64) -> Result<PageId> {
        hand::assert_in_hand();
        match self.page_ids.allocate_run(count)? {
            Some(first) if first + count <= self.region.geometry().pages_max => Ok(PageId(first as u32)),
            _ => Err(self.no_numbers(count)),
        }
    }

    /// Gives back the id of a page that was never published, or whose last version is gone.
    pub(crate) fn release_page(&self, page: PageId) {
        self.release_run(page, 1);
    }

    /// Gives back `count` page ids in a row whose pages nothing is left of.
    pub(in crate::pages) fn release_run(&self, first: PageId, count: u64) {
        hand::assert_in_hand();
        // If this process was taken for dead, they may be others' by now.
        if !self.region.is_fenced() {
            self.page_ids.release_run(u64::from(first.0), count);
        }
    }

    #[cold]
    fn no_numbers(&self, count: u64) -> Error {
        let geometry = self.region.geometry();
        Error::exhausted(match &self.volume {
            None => format!(
                "no {count} page numbers in a row are left in memory; remove values, or ask for a larger \
                 cache"
            ),
            Some(_) if geometry.is_limited() => {
                format!("of {} page numbers no {count} in a row are left: {MORE_PLACES}", geometry.pages_max)
            }
            Some(_) => format!(
                "of the environment's 4,294,967,295 page numbers no {count} in a row are left; use a larger \
                 page size"
            ),
        })
    }

    #[cold]
    fn volume_is_full(&self) -> Error {
        let geometry = self.region.geometry();
        Error::exhausted(if geometry.is_limited() {
            format!("all {} blocks of the volume are in use: {MORE_PLACES}", geometry.blocks_max)
        } else {
            "the volume has reached its largest size".to_owned()
        })
    }

    /// The error for a participant that reads of a page which has no place in the page table.
    #[cold]
    pub(in crate::pages) fn no_place(&self, page: PageId) -> Error {
        let places = self.region.geometry().pages_max;
        // What others have written since this process opened the environment.
        if self.is_following() && u64::from(page.0) >= places {
            return Error::exhausted(format!("page {page} is beyond the first {places}: {MORE_PLACES}"));
        }
        Error::corruption(format!("a page refers to page {page}, which cannot exist"))
    }

    /// The volume, unless the environment lives in memory alone.
    pub(crate) fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// The allocator of page ids.
    pub(crate) fn page_ids(&self) -> &BitSpace {
        &self.page_ids
    }

    /// The allocator of blocks.
    pub(crate) fn blocks(&self) -> &BlockSpace {
        &self.blocks
    }
}

//! Reading the pages of a run ([`crate::pages::store`]), past the pool where they are many.

use super::Visibility;
use super::operation::Snapshot;
use crate::error::{Error, Result};
use crate::pages::participants::LocalParticipant;
use crate::pages::pool::rest::POOLED_MAX;
use crate::types::{BlockId, FrameId, PageId};

impl Snapshot<'_> {
    /// Shows `count` pages of a run, `first` and those after it, to `look`, with the place of each among
    /// them. When they are many, those that are not in memory are read past the pool.
    ///
    /// # Errors
    /// Those of reading, and of `look`. Some pages may have been shown then.
    pub(crate) fn run(
        &self,
        first: PageId,
        count: u64,
        look: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let pages = self.operation.pages;
        if u64::from(first.0) + count > pages.region.geometry().pages_max {
            return Err(Error::corruption(format!(
                "{count} pages from page {first} on run past the last page"
            )));
        }
        let page = |n: u64| PageId((u64::from(first.0) + n) as u32);
        let mut done = 0;
        while done < count {
            let extent = match &pages.volume {
                Some(volume) if count > POOLED_MAX => {
                    let extent = pages.extent(page(done), count - done, self.operation.me);
                    pages.confirm(self.at)?;
                    extent?.map(|extent| (volume, extent))
                }
                _ => None,
            };
            match extent {
                None => {
                    self.show(page(done), |bytes| look(done, bytes))??;
                    done += 1;
                }
                // The pin, which this operation keeps, covers what leads to the run; so its blocks are taken
                // from it only by moving, and from its first page by a last version, which hangs before one
                // that was read into the pool for it.
                Some((volume, (block, blocks))) => {
                    let (from, mut stale) = (done, false);
                    // Where a page is, if that is still where it was read.
                    let still_there = |n: u64| {
                        let entry = pages.region.entry(page(from + n));
                        let named = entry.block().sealed();
                        (entry.word().frame() == FrameId::NONE && named.block().0 == block.0 + n)
                            .then_some(named)
                    };
                    let read = volume.read_extent(block, blocks, &mut |n, bytes| {
                        let Some(named) = still_there(n) else {
                            stale = true;
                            return Err(Error::not_there(page(from + n)));
                        };
                        pages.check_page(page(from + n), named, bytes)?;
                        look(from + n, bytes)?;
                        done += 1;
                        Ok(())
                    });
                    pages.confirm(self.at)?;
                    pages.fail_if_poisoned()?;
                    // What was moved meanwhile, or came into memory, is read where it is now.
                    if read.is_err() && !stale && (done - from..blocks).all(|n| still_there(n).is_some()) {
                        return read;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Visibility {
    /// How many of `most` pages from `page` on are not in memory and on neighbouring blocks, and the first of
    /// these; none if the first is in memory.
    fn extent(&self, page: PageId, most: u64, me: &LocalParticipant) -> Result<Option<(BlockId, u64)>> {
        let mut first = BlockId::NONE;
        for n in 0..most {
            let page = PageId((u64::from(page.0) + n) as u32);
            let entry = self.region.entry(page);
            // In this order: a page's block is entered before it leaves memory, and does not change while it
            // is out.
            let resident = entry.word().frame() != FrameId::NONE;
            if !resident {
                self.learn_block(page)?;
            }
            let block = entry.block().block();
            if n == 0 {
                if resident {
                    return Ok(None);
                }
                if block == BlockId::NONE {
                    return Err(me.finds_nothing(page));
                }
                first = block;
            } else if resident || block.0 != first.0 + n {
                return Ok(Some((first, n)));
            }
        }
        Ok(Some((first, most)))
    }
}

//! The volumes of an environment, of whose blocks (blocks.rs) the superblock says what they are.
//!
//! Writes go to blocks beyond what the durable generation names; that they do is the caller's part, by
//! allocating them from the [`super::BlockSpace`].

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use sablecat_os::atomic::{Ordering, fence};
use sablecat_os::disk::Disk;

use super::batch::BlockBatch;
use super::blocks::BlockFiles;
use super::compression::{self, Compression};
use super::extra::VolumeHeader;
use super::keeping::RetainedCheckpoint;
use super::map::{MapReader, MapRoot, leaf_span};
use super::orphans;
use super::scan::{self, InUse, MapFinding};
use super::superblock::{self, Superblock};
use super::watch::GenerationWatch;
use super::{FreeEnd, Reserve};
use crate::error::{Error, Result};
use crate::pages::allocation::BlockSpace;
use crate::types::{Berth, BlockId, PageId, SealedBlock, VolumeId};

/// The open volumes of an environment.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(super) blocks: BlockFiles,
    pub(super) read_only: bool,
    /// The superblock in force, and where it stands; `map` reads what it names.
    pub(super) in_force: Mutex<(Superblock, Berth)>,
    pub(super) map: MapReader,
    /// When opened for reading only: how to see that the superblock in force is still the newest.
    pub(super) watch: Mutex<Option<GenerationWatch>>,
    pub(super) complaints: Vec<String>,
    pub(super) in_doubt: bool,
    /// Where a superblock newer than the one that was found at opening may be.
    pub(super) passed_by: Vec<Berth>,
    /// Some copy of the keys could not be read then.
    pub(super) are_keys_damaged: bool,
}

/// What compression has come to in a volume.
pub(crate) struct Holes {
    /// Bytes that the file takes of its file system.
    pub(crate) occupied: u64,
    /// How pages are compressed from now on.
    pub(crate) compression: Compression,
    /// Whether the file system makes holes, as far as is known.
    pub(crate) are_made: bool,
}

impl Deref for Volume {
    type Target = BlockFiles;

    #[inline]
    fn deref(&self) -> &BlockFiles {
        &self.blocks
    }
}

impl Volume {
    /// Whether it is opened for reading only, while others may write it.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether a generation is in force and still the newest that the file holds, of a volume opened for
    /// reading only. Then all that was read before, as what that generation names, is so.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn is_newest(&self, generation: u64) -> Result<bool> {
        // The look must not be taken before the reads that it is to justify; pairs with the flushes around a
        // superblock's write.
        fence(Ordering::SeqCst);
        let watch = *self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if self.generation() != generation {
            return Ok(false);
        }
        if let Some(watch) = watch
            && watch.shows(generation, self.file(), self.path())?
        {
            return Ok(true);
        }
        let superblock = self.superblock();
        let (newest, watch) = GenerationWatch::again(self.file(), self.path())?;
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        Ok(superblock.generation == generation && newest.superblock == superblock)
    }

    /// The generation that this process has in force.
    pub(crate) fn generation(&self) -> u64 {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).0.generation
    }

    /// The generation that comes after.
    ///
    /// # Errors
    /// As [`Superblock::next_generation`].
    pub(crate) fn next_generation(&self) -> Result<u64> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).0.next_generation()
    }

    /// Reads the newest complete generation again and goes on from it: another process has written a
    /// checkpoint.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn follow(&self) -> Result<()> {
        let (newest, watch) = if self.read_only {
            GenerationWatch::again(self.file(), self.path())?
        } else {
            (superblock::read_newest(self.file(), self.path())?, None)
        };
        let superblock = newest.superblock;
        if self.read_only
            && superblock.uuid == self.superblock().uuid
            && superblock.volume_count() != self.count()
        {
            return Err(Error::invalid(format!(
                "{}: volumes were added to the environment; open it again to read on",
                self.path().display()
            )));
        }
        let known = self.superblock();
        let replaced = superblock.uuid != known.uuid
            || superblock.generation < known.generation
            || self.read_only && superblock.generation == known.generation && superblock != known;
        if superblock.codec != self.codec || superblock.volume_count() != self.count() || replaced {
            return Err(Error::corruption(format!(
                "{}: the file was replaced while it was open",
                self.path().display()
            )));
        }
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        self.adopt(superblock, newest.berth);
        Ok(())
    }

    /// That the files which are open are still the ones of their names: so that files put in their place are
    /// not taken for them, nor harmed.
    ///
    /// # Errors
    /// `Poisoned`, [in doubt](Error::is_volume_in_doubt), if not; those of the files.
    pub(crate) fn check_names(&self, disk: &dyn Disk) -> Result<()> {
        for file in &self.files {
            if !file.is_of_its_name(disk)? {
                return Err(replaced(file.path(), "another file, or none, has its name now"));
            }
        }
        Ok(())
    }

    /// That the generation in force is the newest that the file has: nobody else has written to it. The
    /// caller is the only participant that may write a superblock.
    ///
    /// # Errors
    /// `Poisoned`, [in doubt](Error::is_volume_in_doubt), if not; those of the file.
    pub(crate) fn check_generation(&self) -> Result<()> {
        let is_newest = superblock::is_newest(self.file(), self.path(), &self.superblock())?;
        if is_newest { Ok(()) } else { Err(replaced(self.path(), "its last checkpoint is a different one")) }
    }

    /// Makes the superblock in force durable, if it is not, and the newest that there is; unless it is in
    /// doubt: what is damaged is what tells of that, until it is [decided](Volume::end_passed_by).
    pub(super) fn make_sure(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let (superblock, berth) = self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.write_superblock(&superblock, berth)?;
        self.sync()?;
        if self.in_doubt { Ok(()) } else { self.end_passed_by() }
    }

    /// Sees to it that no superblock is found later on that was passed by when the volume was opened, since
    /// something could not be read: the one in force, which is durable, is in its place from now on. To be
    /// called before anything is written that rests on the one in force. The caller is alone.
    ///
    /// # Errors
    /// Those of the file. Nothing is lost: it is done again by the next opening, or needs not be.
    pub(crate) fn end_passed_by(&self) -> Result<()> {
        let superblock = self.superblock();
        if self.passed_by.is_empty() {
            return Ok(());
        }
        self.passed_by.iter().try_for_each(|&berth| self.write_superblock(&superblock, berth))?;
        self.sync()
    }

    /// The superblock in force: what the volume is and what is in it, as of the last checkpoint.
    pub(crate) fn superblock(&self) -> Superblock {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Where the next superblock can be written: where that of its generation usually is, first of all, but
    /// not where the one in force is.
    pub(crate) fn berths_of_next(&self) -> impl Iterator<Item = Berth> + use<> {
        let (generation, in_force) = {
            let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
            (in_force.0.generation, in_force.1)
        };
        [Berth::usual(generation + 1)].into_iter().chain(Berth::all()).filter(move |&berth| berth != in_force)
    }

    /// Puts a newer generation in force, unless this process has gone on to one that is newer still.
    pub(super) fn advance(&self, superblock: &Superblock, berth: Berth) {
        if self.generation() < superblock.generation {
            self.adopt(superblock.clone(), berth);
        }
    }

    /// Puts another generation in force.
    pub(super) fn adopt(&self, superblock: Superblock, berth: Berth) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        self.map.set_root(superblock.map());
        self.set_compressions(&superblock);
        *in_force = (superblock, berth);
    }

    /// Has pages be compressed as a superblock says.
    pub(super) fn set_compressions(&self, superblock: &Superblock) {
        let placement = &superblock.placement;
        for (file, compression) in self.files.iter().zip(placement.compressions()) {
            file.set_compression(compression, placement.marks & compression::MARKS != 0);
        }
    }

    /// Whether what is written to each volume is enciphered, the main one first.
    pub(crate) fn are_encrypted(&self) -> impl Iterator<Item = bool> {
        self.files.iter().map(|file| file.keys().is_some())
    }

    /// What there is to say of each volume's compression, the main one first.
    pub(crate) fn holes(&self) -> Result<Vec<Holes>> {
        let placement = self.superblock().placement;
        let holes = self.files.iter().zip(placement.compressions()).map(|(file, compression)| {
            Ok(Holes { occupied: file.space()?, compression, are_made: file.makes_holes() })
        });
        holes.collect()
    }

    /// Damage found and survived while opening, a sentence each: a copy of a superblock that was not
    /// readable.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Whether a superblock newer than the one in force may have been there when the volume was opened, and
    /// been damaged.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Seals copies of pages, with zeros in their gaps, and writes them to blocks that no durable generation
    /// names, in the order of the numbers, neighbours in one call. Returns for each what it is to be named
    /// as.
    ///
    /// # Errors
    /// Full, or another failure of the file; the content of all the blocks means nothing then.
    pub(crate) fn write_blocks(
        &self,
        images: &[(BlockId, &[u8])],
        gap_of: impl Fn(&[u8]) -> Range<usize>,
    ) -> Result<Vec<SealedBlock>> {
        let mut order: Vec<usize> = (0..images.len()).collect();
        order.sort_unstable_by_key(|&n| images[n].0);
        debug_assert!(order.windows(2).all(|w| images[w[0]].0 < images[w[1]].0), "no block is written twice");
        let mut batch = BlockBatch::new(self);
        let mut sealed = vec![SealedBlock::NONE; images.len()];
        for n in order {
            let (number, page) = images[n];
            sealed[n] = batch.push(number, page, gap_of(page))?;
        }
        batch.finish()?;
        Ok(sealed)
    }

    /// Makes all that was written to another volume before durable, and that `next` has blocks there.
    pub(super) fn sync_extra(&self, volume: VolumeId, next: &Superblock, berth: Berth) -> Result<()> {
        let file = &self.files[volume.index()];
        let uuid = next.placement.volumes[volume.index() - 1].uuid;
        let header = VolumeHeader {
            environment: next.uuid,
            uuid,
            block_size: next.codec.block_size() as u32,
            volume,
            generation: next.generation,
        };
        header.write(file.file(), file.path(), berth)?;
        file.sync()
    }

    /// Writes a superblock, without any flush.
    pub(crate) fn write_superblock(&self, superblock: &Superblock, berth: Berth) -> Result<()> {
        superblock::write(self.file(), self.path(), superblock, berth)
    }

    /// Gives the free ends of the files back to their disks, but for what is to be kept; and says whether
    /// each has the reserve then that is to be there.
    ///
    /// Writers of this process are kept out while the highest block in use is looked up and the file cut, so
    /// a block allocated and written meanwhile is not lost. Other processes that write blocks have to be kept
    /// out by the caller.
    ///
    /// # Errors
    /// Those of a file; it keeps its length then.
    pub(crate) fn give_back_tail(&self, blocks: &BlockSpace, tail: FreeEnd) -> Result<Reserve> {
        blocks.volumes().zip(&self.files).try_fold(Reserve::There, |so_far, (volume, file)| {
            let one = file.give_back_tail(blocks.of(volume), tail)?;
            Ok(if one == Reserve::Short { one } else { so_far })
        })
    }

    /// The map leaf that covers a page: the first page it covers and where each of them is, by the generation
    /// in force.
    ///
    /// Map leaves cover as many pages each as 8-byte entries fit behind a 64-byte header. Pages that are
    /// nowhere, the map's edges included, have block 0.
    ///
    /// # Errors
    /// Corruption; those of the file.
    pub(crate) fn lookup_leaf(&self, page: PageId) -> Result<(PageId, Vec<SealedBlock>)> {
        self.map.lookup_leaf(self, page)
    }

    /// What the generation in force uses, found by walking its map, and the blocks of the epochs. No
    /// checkpoint may end meanwhile.
    ///
    /// # Errors
    /// Corruption if the map is damaged or names a block twice; those of the file.
    pub(crate) fn scan(&self) -> Result<InUse> {
        let superblock = self.superblock();
        let mut found = scan::in_use(self, &superblock.map())?;
        superblock
            .epochs
            .iter()
            .try_for_each(|epoch| scan::add_blocks(self, &superblock.map_of(epoch), &mut found.blocks))?;
        Ok(found)
    }

    /// The blocks that the superblock `before` named, by its map or by those of its epochs, and that `after`,
    /// which has taken its place, does not: those of pages with their pages, those of maps with page 0.
    pub(crate) fn orphans(&self, before: &Superblock, after: &Superblock) -> Vec<(PageId, BlockId)> {
        let blocks = before.bounds().or(after.bounds());
        let roots = |superblock: &Superblock| -> Vec<MapRoot> {
            let epochs = superblock.epochs.iter().map(|epoch| superblock.map_of(epoch));
            epochs.chain([superblock.map()]).map(|root| MapRoot { blocks, ..root }).collect()
        };
        let mut others = roots(after);
        let dropped: Vec<MapRoot> = roots(before)
            .into_iter()
            .filter(|root| !others.iter().any(|kept| kept.generation == root.generation))
            .collect();
        let mut found = Vec::new();
        for (n, root) in dropped.iter().enumerate() {
            // What several of them name goes with the last.
            let kept = others.len();
            others.extend_from_slice(&dropped[n + 1..]);
            found.extend(orphans::orphans(self, root, &others));
            others.truncate(kept);
        }
        found
    }

    /// Whether one of a superblock's epochs has a page in a block. What cannot be read is taken to.
    pub(crate) fn is_in_epochs(&self, superblock: &Superblock, page: PageId, block: BlockId) -> bool {
        let pages = u64::from(page.0)..u64::from(page.0) + 1;
        superblock.epochs.iter().any(|epoch| {
            let mut has_it = false;
            let walked = scan::walk(self, &superblock.map_of(epoch), pages.clone(), &mut |found| {
                has_it |= match found {
                    MapFinding::Map(_) => false,
                    MapFinding::Page(_, named) => named.block() == block,
                    MapFinding::Damaged(..) => true,
                };
                Ok(())
            });
            has_it || walked.is_err()
        })
    }

    /// Puts an epoch in force in place of the newest generation, for this process alone: what is read is the
    /// epoch's, and the next checkpoint will be built upon it. Nothing is written before that.
    ///
    /// Blocks of the newest generation are not to be reused until that checkpoint is durable.
    pub(crate) fn go_back_to(&self, epoch: &RetainedCheckpoint) {
        let (now, berth) = self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let back = Superblock {
            checkpoint: epoch.checkpoint,
            log_position: epoch.log_position,
            time_ms: epoch.time_ms,
            map_root: epoch.map_root,
            map_height: epoch.map_height,
            pages_high: epoch.pages_high,
            tree_next: epoch.tree_next,
            page_count: 0,
            epochs: Vec::new(),
            ..now
        };
        self.adopt(back, berth);
    }

    /// Calls `visit` for everything the map in force names of these page ids, pages in ascending order, a map
    /// block before what it leads to; an error of `visit` ends the walk. No checkpoint may end meanwhile.
    ///
    /// # Errors
    /// Those of `visit`: damage is reported to it as [`MapFinding::Damaged`].
    pub(crate) fn walk(
        &self,
        pages: Range<u64>,
        visit: &mut dyn FnMut(MapFinding) -> Result<()>,
    ) -> Result<()> {
        scan::walk(self, &self.map.root(), pages, visit)
    }

    /// As [`Volume::walk`], of the map of a retained epoch; what hangs on a block of the map is left out if
    /// `visit` says so of the block.
    ///
    /// # Errors
    /// As [`Volume::walk`].
    pub(crate) fn walk_epoch(
        &self,
        epoch: &RetainedCheckpoint,
        visit: &mut dyn FnMut(MapFinding) -> Result<bool>,
    ) -> Result<()> {
        scan::walk_parts(self, &self.superblock().map_of(epoch), 0..u64::MAX, visit)
    }

    /// How many pages a map leaf covers.
    pub(crate) fn leaf_span(&self) -> u64 {
        leaf_span(self.page_size()) as u64
    }
}

fn replaced(path: &Path, why: &str) -> Error {
    let message = format!(
        "{}: the file was replaced while the environment was open ({why}); close it everywhere, put the \
         right files there, and open it again",
        path.display()
    );
    Error::volume_in_doubt(message)
}

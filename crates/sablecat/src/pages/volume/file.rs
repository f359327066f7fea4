//! The file of a volume: reading, writing and flushing blocks.
//!
//! All reads are verified, all writes sealed. Writes go to blocks beyond what the durable generation names; that they do is the caller's
//! part, by allocating them from the [`super::BitSpace`] of the volume.
//!
//! Threads and processes may use one file at once: no call here depends on what another does, save that nobody may write a block while
//! another reads or writes it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sablecat_os::atomic::{Ordering, fence};
use sablecat_os::disk::{Disk, File, How};

use super::batch::BlockBatch;
use super::growth::Growth;
use super::keeping::Epoch;
use super::map::{MapReader, MapRoot, leaf_span};
use super::orphans;
use super::scan::{self, Found, InUse};
use super::scratch::Scratch;
use super::space::BitSpace;
use super::superblock::{self, Superblock};
use super::watch::Watch;
use super::{BLOCKS_MAX, RESERVED_BYTES, block, first_block};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{BlockId, PageId};

/// The smallest page for which direct input and output is used; smaller ones would not fit the sectors of every disk.
const DIRECT_PAGE_MIN: usize = 4096;

/// An open volume.
#[derive(Debug)]
pub(crate) struct Volume {
    path: PathBuf,
    file: Arc<dyn File>,
    page_size: usize,
    read_only: bool,
    growth: Growth,
    /// The superblock in force; `map` reads what it names.
    superblock: Mutex<Superblock>,
    map: MapReader,
    /// When opened for reading only: how to see that the superblock in force is still the newest.
    watch: Mutex<Option<Watch>>,
    complaints: Vec<String>,
}

impl Volume {
    /// Creates the file of an empty volume; it is durable, or not there at all, whatever happens meanwhile.
    ///
    /// The file is made under a name of its own and renamed, replacing a file of that name if there is one.
    ///
    /// # Errors
    /// Invalid for a page size that is not a power of two from 512 to 65536, and those of the disk.
    pub(crate) fn create(disk: &dyn Disk, path: &Path, page_size: usize, uuid: [u8; 16], direct: bool) -> Result<Volume> {
        if !page_size.is_power_of_two() || !(512..=65536).contains(&page_size) {
            return Err(Error::invalid(format!("page size {page_size}: choose a power of two from 512 to 65536")));
        }
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        let unfinished = PathBuf::from(unfinished);
        let how = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
        let file = disk.open(&unfinished, how).map_err(|e| Error::io("creating", &unfinished, e))?;
        let io = |e| Error::io("creating", &unfinished, e);
        file.set_len(0).map_err(io)?;
        file.set_len(RESERVED_BYTES).map_err(io)?;
        superblock::write(&*file, &unfinished, &Superblock::initial(uuid, page_size))?;
        file.sync().map_err(io)?;
        drop(file);
        disk.rename(&unfinished, path).map_err(|e| Error::io("creating", path, e))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        disk.sync_dir(directory).map_err(|e| Error::io("flushing the directory", directory, e))?;
        Volume::open(disk, path, direct, false)
    }

    /// Opens a volume at its newest complete generation.
    ///
    /// Unless read-only, that generation's superblock is written once more and flushed: it may have reached the file but not the disk
    /// when its writer died, and what follows relies on it.
    ///
    /// # Errors
    /// Not found; corruption if no superblock is valid; invalid for another format version; those of the disk.
    pub(crate) fn open(disk: &dyn Disk, path: &Path, direct: bool, read_only: bool) -> Result<Volume> {
        let volume = Volume::join(disk, path, direct, read_only)?;
        volume.make_sure()?;
        Ok(volume)
    }

    /// Opens a volume that other processes have open, writing nothing.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub(crate) fn join(disk: &dyn Disk, path: &Path, direct: bool, read_only: bool) -> Result<Volume> {
        let open = |direct| {
            let how = How { create: false, create_new: false, read_only, direct, durable: false };
            disk.open(path, how).map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("there is no volume {}", path.display())),
                _ => Error::io("opening", path, e),
            })
        };
        let mut file = open(false)?;
        let (newest, watch) = if read_only { Watch::begin(&*file, path)? } else { (superblock::read_newest(&*file, path)?, None) };
        let superblock = newest.superblock;
        let page_size = superblock.page_size as usize;
        // Who only reads looks at the superblocks time and again, which should not be a matter of the disk.
        if direct && !read_only && page_size >= DIRECT_PAGE_MIN {
            file = open(true)?;
        }
        let length = file.len().map_err(|e| Error::io("finding the size of", path, e))?;
        Ok(Volume {
            path: path.to_owned(),
            file,
            page_size,
            read_only,
            growth: Growth::new(length),
            map: MapReader::new(superblock.map()),
            superblock: Mutex::new(superblock),
            watch: Mutex::new(watch),
            complaints: newest.complaints,
        })
    }

    /// Whether it is opened for reading only, while others may write it.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether a generation is in force and still the newest that the file holds, of a volume opened for reading only. Then all that was read
    /// before, as what that generation names, is so.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub(crate) fn is_newest(&self, generation: u64) -> Result<bool> {
        // The look must not be taken before the reads that it is to justify; pairs with the flushes around a superblock's write.
        fence(Ordering::SeqCst);
        let watch = *self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if self.generation() != generation {
            return Ok(false);
        }
        if let Some(watch) = watch
            && watch.shows(generation, &*self.file, &self.path)?
        {
            return Ok(true);
        }
        let superblock = self.superblock();
        let (newest, watch) = Watch::again(&*self.file, &self.path)?;
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        Ok(superblock.generation == generation && newest.superblock == superblock)
    }

    /// Reads the newest complete generation again, makes sure it is durable, and goes on from it.
    ///
    /// For who takes over from a dead checkpointer: the superblock it was writing may be in the file although nobody was told. If so its
    /// generation stands, and the blocks it names must not be returned as pending.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub(crate) fn settle(&self) -> Result<()> {
        self.follow()?;
        self.make_sure()
    }

    /// The generation that this process has in force.
    pub(crate) fn generation(&self) -> u64 {
        self.superblock.lock().unwrap_or_else(PoisonError::into_inner).generation
    }

    /// Reads the newest complete generation again and goes on from it: another process has written a checkpoint.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub(crate) fn follow(&self) -> Result<()> {
        let (newest, watch) =
            if self.read_only { Watch::again(&*self.file, &self.path)? } else { (superblock::read_newest(&*self.file, &self.path)?, None) };
        let superblock = newest.superblock;
        let replaced = self.read_only && superblock.generation <= self.generation() && superblock != self.superblock();
        if superblock.page_size as usize != self.page_size || replaced {
            return Err(Error::corruption(format!("{}: the file was replaced while it was open", self.path.display())));
        }
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        self.adopt(superblock);
        Ok(())
    }

    /// Makes the superblock in force durable, if it is not.
    fn make_sure(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.write_superblock(&self.superblock())?;
        self.sync()
    }

    /// The superblock in force: what the volume is and what is in it, as of the last checkpoint.
    pub(crate) fn superblock(&self) -> Superblock {
        self.superblock.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another generation in force.
    pub(super) fn adopt(&self, superblock: Superblock) {
        self.map.set_root(superblock.map());
        *self.superblock.lock().unwrap_or_else(PoisonError::into_inner) = superblock;
    }

    /// Bytes of a page and of a block.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        self.file.len().map_err(|e| Error::io("finding the size of", &self.path, e))
    }

    /// True when blocks bypass the operating system's cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Damage found and survived while opening, a sentence each: a copy of a superblock that was not readable.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The file itself, for locks and sizes.
    pub(crate) fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Reads and verifies a block. `buffer` is one page long; after an error its content means nothing.
    ///
    /// # Errors
    /// Corruption if the block is not as it was written; those of the file.
    pub(crate) fn read_block(&self, number: BlockId, buffer: &mut [u8]) -> Result<()> {
        assert_eq!(buffer.len(), self.page_size, "a block is one page");
        let Some(at) = self.offset(number) else {
            return Err(Error::corruption(format!("{}: there can be no block {number}", self.path.display())));
        };
        if self.is_direct() && !buffer.as_ptr().addr().is_multiple_of(DIRECT_PAGE_MIN) {
            let mut scratch = Scratch::take();
            let aligned = &mut scratch[..self.page_size];
            self.read_exactly(number, at, aligned)?;
            buffer.copy_from_slice(aligned);
            return Ok(());
        }
        self.read_exactly(number, at, buffer)
    }

    /// Reads and verifies blocks, `first` and those after it, as many as `buffer` has room for, in one call. `buffer` is aligned.
    ///
    /// # Errors
    /// As [`Volume::read_block`].
    pub(super) fn read_neighbours(&self, first: BlockId, buffer: &mut [u8]) -> Result<()> {
        let last = BlockId(first.0.saturating_add((buffer.len() / self.page_size) as u64 - 1));
        let (Some(at), Some(_)) = (self.offset(first), self.offset(last)) else {
            return Err(Error::corruption(format!("{}: there can be no blocks {first} to {last}", self.path.display())));
        };
        self.read_exactly(first, at, buffer)
    }

    fn read_exactly(&self, first: BlockId, at: u64, buffer: &mut [u8]) -> Result<()> {
        let length = self.file.read_at(buffer, at).map_err(|e| Error::io(format!("reading block {first} of"), &self.path, e))?;
        if length != buffer.len() {
            let missing = first.0 + (length / self.page_size) as u64;
            return Err(Error::corruption(format!(
                "{}: block {missing} (byte {}) lies beyond the end of the file, which was cut short",
                self.path.display(),
                missing * self.page_size as u64
            )));
        }
        (first.0..).zip(buffer.chunks_exact(self.page_size)).try_for_each(|(n, bytes)| block::verify(&self.path, BlockId(n), bytes))
    }

    /// Seals copies of pages and writes them to blocks that no durable generation names, in the order of the numbers, neighbours in one
    /// call.
    ///
    /// # Errors
    /// Full, or another failure of the file; the content of all the blocks means nothing then.
    pub(crate) fn write_blocks(&self, images: &[(BlockId, &[u8])]) -> Result<()> {
        let mut order: Vec<&(BlockId, &[u8])> = images.iter().collect();
        order.sort_unstable_by_key(|image| image.0);
        debug_assert!(order.windows(2).all(|w| w[0].0 < w[1].0), "no block is written twice");
        let mut batch = BlockBatch::new(self);
        for &&(number, page) in &order {
            batch.push(number, page)?;
        }
        batch.finish()
    }

    /// Writes blocks that carry their checksums already, `first` and those after it.
    pub(super) fn write_sealed(&self, first: BlockId, bytes: &[u8]) -> Result<()> {
        assert!(!self.read_only, "a volume opened for reading is not written");
        let blocks = (bytes.len() / self.page_size) as u64;
        assert!(first >= self.first_block() && first.0 + blocks <= BLOCKS_MAX, "blocks are allocated between the bounds");
        let at = first.0 * self.page_size as u64;
        let _room = self.growth.reach(&*self.file, &self.path, at + bytes.len() as u64)?;
        self.file.write_at(bytes, at).map_err(|e| Error::io(format!("writing block {first} of"), &self.path, e))
    }

    /// Makes all that was written before durable.
    ///
    /// # Errors
    /// Those of the file. The environment cannot go on then: what was written before may be lost although later flushes succeed.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| Error::io("flushing", &self.path, e))
    }

    /// Writes a superblock to its slot, without any flush.
    pub(super) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        superblock::write(&*self.file, &self.path, superblock)
    }

    /// Gives the free end of the file back to the disk, if it is worth a call: when more than two growth steps are free, or `all` is to go.
    ///
    /// Writers of this process are kept out while the highest block in use is looked up and the file cut, so a block allocated and
    /// written meanwhile is not lost. Other processes that write blocks have to be kept out by the caller.
    ///
    /// # Errors
    /// Those of the file; it keeps its length then.
    pub(crate) fn give_back_tail(&self, blocks: &BitSpace, all: bool) -> Result<()> {
        self.growth.cut(&*self.file, &self.path, all, || {
            let high = blocks.trim_high_water().max(self.first_block().0);
            high * self.page_size as u64
        })
    }

    /// The map leaf that covers a page: the first page it covers and where each of them is, by the generation in force.
    ///
    /// Map leaves cover as many pages each as 8-byte entries fit behind a 64-byte header. Pages that are nowhere, the map's edges included, have block 0.
    ///
    /// # Errors
    /// Corruption; those of the file.
    pub(crate) fn lookup_leaf(&self, page: PageId) -> Result<(PageId, Vec<BlockId>)> {
        self.map.lookup_leaf(self, page)
    }

    /// What the generation in force uses, found by walking its map, and the blocks of the epochs. No checkpoint may end meanwhile.
    ///
    /// # Errors
    /// Corruption if the map is damaged or names a block twice; those of the file.
    pub(crate) fn scan(&self) -> Result<InUse> {
        let superblock = self.superblock();
        let mut found = scan::in_use(self, &superblock.map())?;
        superblock.epochs.iter().try_for_each(|epoch| scan::add_blocks(self, &superblock.map_of(epoch), &mut found.blocks))?;
        Ok(found)
    }

    /// The blocks that the superblock `before` named, by its map or by those of its epochs, and that `after`, which has taken its place, does
    /// not: those of pages with their pages, those of maps with page 0.
    pub(crate) fn orphans(&self, before: &Superblock, after: &Superblock) -> Vec<(PageId, BlockId)> {
        let blocks_high = before.blocks_high.max(after.blocks_high);
        let roots = |superblock: &Superblock| -> Vec<MapRoot> {
            let epochs = superblock.epochs.iter().map(|epoch| superblock.map_of(epoch));
            epochs.chain([superblock.map()]).map(|root| MapRoot { blocks_high, ..root }).collect()
        };
        let mut others = roots(after);
        let dropped: Vec<MapRoot> =
            roots(before).into_iter().filter(|root| !others.iter().any(|kept| kept.generation == root.generation)).collect();
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

    /// Puts an epoch in force in place of the newest generation, for this process alone: what is read is the epoch's, and the next checkpoint
    /// will be built upon it. Nothing is written before that.
    ///
    /// Blocks of the newest generation are not to be reused until that checkpoint is durable.
    pub(crate) fn go_back_to(&self, epoch: &Epoch) {
        let now = self.superblock();
        self.adopt(Superblock {
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
        });
    }

    /// Calls `visit` for everything the map in force names of these page ids, pages in ascending order, a map block before what it leads
    /// to; an error of `visit` ends the walk. No checkpoint may end meanwhile.
    ///
    /// # Errors
    /// Those of `visit`: damage is reported to it as [`Found::Damaged`].
    pub(crate) fn walk(&self, pages: Range<u64>, visit: &mut dyn FnMut(Found) -> Result<()>) -> Result<()> {
        scan::walk(self, &self.map.root(), pages, visit)
    }

    /// As [`Volume::walk`], of the map of a retained epoch; what hangs on a block of the map is left out if `visit` says so of the block.
    ///
    /// # Errors
    /// As [`Volume::walk`].
    pub(crate) fn walk_epoch(&self, epoch: &Epoch, visit: &mut dyn FnMut(Found) -> Result<bool>) -> Result<()> {
        scan::walk_parts(self, &self.superblock().map_of(epoch), 0..u64::MAX, visit)
    }

    /// How many pages a map leaf covers.
    pub(crate) fn leaf_span(&self) -> u64 {
        leaf_span(self.page_size) as u64
    }

    /// The first block that can be allocated.
    pub(crate) fn first_block(&self) -> BlockId {
        first_block(self.page_size)
    }

    fn offset(&self, number: BlockId) -> Option<u64> {
        (number >= self.first_block() && number.0 < BLOCKS_MAX).then(|| number.0 * self.page_size as u64)
    }
}

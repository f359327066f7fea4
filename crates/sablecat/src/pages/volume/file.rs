//! The volumes of an environment as one space of blocks: reading, writing and flushing them, and what the superblock says.
//!
//! All reads are verified, all writes sealed. Writes go to blocks beyond what the durable generation names; that they do is the caller's
//! part, by allocating them from the [`super::BlockSpace`].
//!
//! Threads and processes may use the files at once: no call here depends on what another does, save that nobody may write a block while
//! another reads or writes it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sablecat_os::disk::{Disk, File, How};

use super::batch::BlockBatch;
use super::data_file::{self, DIRECT_PAGE_MIN, DataFile};
use super::extra::{self, Header};
use super::keeping::Epoch;
use super::map::{MapReader, MapRoot, leaf_span};
use super::orphans;
use super::placement::{Declared, ExtraVolume};
use super::scan::{self, Found, InUse};
use super::superblock::{self, Superblock};
use super::{BlockSpace, Bounds, RESERVED_BYTES, first_within};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{BlockId, PageId, VolumeId};

/// How volumes are opened.
#[derive(Clone, Copy)]
struct Opening<'a> {
    direct: bool,
    read_only: bool,
    /// Nobody else has them open.
    alone: bool,
    declared: &'a Declared,
}

/// The open volumes of an environment.
#[derive(Debug)]
pub(crate) struct Volume {
    page_size: usize,
    read_only: bool,
    /// The main volume first.
    files: Vec<DataFile>,
    /// The superblock in force; `map` reads what it names.
    superblock: Mutex<Superblock>,
    map: MapReader,
    complaints: Vec<String>,
}

impl Volume {
    /// Creates the file of an empty main volume; it is durable, or not there at all, whatever happens meanwhile.
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

    /// Opens the main volume at its newest complete generation, and those that it names.
    ///
    /// Unless read-only, that generation's superblock is written once more and flushed: it may have reached the file but not the disk
    /// when its writer died, and what follows relies on it.
    ///
    /// # Errors
    /// Not found; corruption if no superblock is valid; invalid for another format version, or if a file is there in the place of another
    /// volume and is not that volume as it was left; those of the disk.
    pub(crate) fn open(disk: &dyn Disk, path: &Path, direct: bool, read_only: bool) -> Result<Volume> {
        let volume = Volume::begin(disk, path, Opening { direct, read_only, alone: true, declared: &Declared::default() })?;
        volume.make_sure()?;
        Ok(volume)
    }

    /// As [`Volume::open`], to be written to; then adds the volumes, and goes by the rules, that are declared and were not known. Durable when
    /// it returns.
    ///
    /// # Errors
    /// As [`Volume::open`]; invalid for what cannot be declared; exists if there are other files in the places of new volumes. Nothing has changed then.
    pub(crate) fn open_with(disk: &dyn Disk, path: &Path, direct: bool, declared: &Declared) -> Result<Volume> {
        let mut volume = Volume::begin(disk, path, Opening { direct, read_only: false, alone: true, declared })?;
        volume.make_sure()?;
        volume.add(disk, direct, declared)?;
        Ok(volume)
    }

    /// Opens a volume that other processes have open, writing nothing.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub(crate) fn join(disk: &dyn Disk, path: &Path, direct: bool, read_only: bool) -> Result<Volume> {
        Volume::begin(disk, path, Opening { direct, read_only, alone: false, declared: &Declared::default() })
    }

    /// Whether a declaration says anything new.
    ///
    /// # Errors
    /// Invalid for what cannot be declared.
    pub(crate) fn is_news(&self, declared: &Declared) -> Result<bool> {
        let placement = self.superblock().placement;
        Ok(declared.over(&placement, self.first_of_extra())? != placement)
    }

    /// The newest complete superblock of a main volume, of which nothing else is looked at.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub(crate) fn look(disk: &dyn Disk, path: &Path) -> Result<Superblock> {
        Ok(superblock::read_newest(&*open_main(disk, path, false, true)?, path)?.superblock)
    }

    fn begin(disk: &dyn Disk, path: &Path, how: Opening<'_>) -> Result<Volume> {
        let Opening { direct, read_only, declared, .. } = how;
        let open = |direct| open_main(disk, path, direct, read_only);
        let mut file = open(false)?;
        let newest = superblock::read_newest(&*file, path)?;
        let superblock = newest.superblock;
        let page_size = superblock.page_size as usize;
        if direct && page_size >= DIRECT_PAGE_MIN {
            file = open(true)?;
        }
        let mut volume = Volume {
            page_size,
            read_only,
            files: vec![DataFile::new(path, file, VolumeId::MAIN, page_size, read_only)?],
            map: MapReader::new(superblock.map()),
            superblock: Mutex::new(superblock),
            complaints: newest.complaints,
        };
        let superblock = volume.superblock();
        for (number, extra) in superblock.placement.numbered() {
            let path = volume.directory().join(declared.path_of(&extra.name).unwrap_or(Path::new(&extra.path)));
            volume.open_extra(disk, how, &superblock, (number, extra), &path)?;
        }
        Ok(volume)
    }

    /// Opens the file of a volume other than the main one, if it is the one that the superblock speaks of.
    fn open_extra(
        &mut self,
        disk: &dyn Disk,
        how: Opening<'_>,
        superblock: &Superblock,
        (number, extra): (VolumeId, &ExtraVolume),
        path: &Path,
    ) -> Result<()> {
        let name = &extra.name;
        let wrong = |kind, why: String| {
            let message = format!(
                "{}: {why}; wanted is the volume {name:?} of the environment in {}: put its file there, or say where it is when you open the environment",
                path.display(),
                self.directory().display()
            );
            Error::new(kind, message)
        };
        let file =
            data_file::open(disk, path, how.direct && self.page_size >= DIRECT_PAGE_MIN, self.read_only).map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => wrong(ErrorKind::NotFound, "there is no such file".into()),
                _ => Error::io("opening", path, e),
            })?;
        let (header, complaint) = Header::read(&*file, path).map_err(|error| match error.kind() {
            ErrorKind::Corruption => wrong(ErrorKind::Corruption, error.to_string()),
            _ => error,
        })?;
        let refuse = |why: String| Err(wrong(ErrorKind::Invalid, why));
        if header.environment != superblock.uuid {
            return refuse("this is a volume of another environment".into());
        }
        if (header.volume, header.uuid, header.page_size) != (number, extra.uuid, superblock.page_size) {
            return refuse(format!("this is another volume of the environment (number {} instead of {number})", header.volume));
        }
        if header.generation < extra.generation {
            let (found, needed) = (header.generation, extra.generation);
            return refuse(format!(
                "this is an older state of the volume: it was last written by checkpoint {found}, and {needed} wrote to it"
            ));
        }
        // While others have it open they may have written checkpoints since the superblock was read.
        if how.alone && header.generation > superblock.generation + 1 {
            let (found, last) = (header.generation, superblock.generation);
            return refuse(format!(
                "it is newer than {}: checkpoint {found} wrote to it, and the last there is {last}",
                self.path().display()
            ));
        }
        self.complaints.extend(complaint);
        self.files.push(DataFile::new(path, file, number, self.page_size, self.read_only)?);
        Ok(())
    }

    /// Adds what is declared to what the superblock says. New files are made first; then one superblock, of the same map, names all of it.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn add(&mut self, disk: &dyn Disk, direct: bool, declared: &Declared) -> Result<()> {
        let before = self.superblock();
        let placement = declared.over(&before.placement, self.first_of_extra())?;
        if placement == before.placement {
            return Ok(());
        }
        let next = Superblock { generation: before.generation + 1, placement, ..before };
        let known = |uuid: &[u8; 16]| next.placement.volumes.iter().any(|volume| volume.uuid == *uuid);
        for (number, extra) in next.placement.numbered().skip(self.files.len() - 1) {
            let path = self.directory().join(&extra.path);
            let header = Header { environment: next.uuid, uuid: extra.uuid, page_size: next.page_size, volume: number, generation: 0 };
            extra::create(disk, &path, &header, known)?;
            let how = Opening { direct, read_only: false, alone: true, declared };
            self.open_extra(disk, how, &next, (number, extra), &path)?;
        }
        self.write_superblock(&next)?;
        self.sync()?;
        self.adopt(next);
        Ok(())
    }

    fn first_of_extra(&self) -> u64 {
        first_within(VolumeId(1), self.page_size)
    }

    fn directory(&self) -> PathBuf {
        self.path().parent().unwrap_or(Path::new("")).to_owned()
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
        let superblock = superblock::read_newest(self.file(), self.path())?.superblock;
        if superblock.page_size as usize != self.page_size || superblock.volume_count() != self.count() {
            return Err(Error::corruption(format!("{}: the file was replaced while it was open", self.path().display())));
        }
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

    /// Where the main volume is.
    pub(crate) fn path(&self) -> &Path {
        self.files[0].path()
    }

    /// How many volumes there are, the main one included.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// The file of the volume that a block is in.
    pub(super) fn path_of(&self, block: BlockId) -> &Path {
        self.files.get(block.volume().index()).map_or(self.path(), DataFile::path)
    }

    /// Each volume's file and the bytes of it, the main one first.
    pub(crate) fn files(&self) -> Result<Vec<(&Path, u64)>> {
        self.files.iter().map(|file| Ok((file.path(), file.bytes()?))).collect()
    }

    /// Bytes of all files.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        self.files.iter().try_fold(0, |sum, file| Ok(sum + file.bytes()?))
    }

    /// For each volume, the places that its file has.
    pub(super) fn blocks_there(&self) -> Result<Bounds> {
        let lengths = self.files.iter().map(DataFile::bytes).collect::<Result<Vec<_>>>()?;
        Ok(Bounds::new(lengths.into_iter().map(|bytes| bytes / self.page_size as u64)))
    }

    /// Damage found and survived while opening, a sentence each: a copy of a superblock that was not readable.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The file of the main volume.
    pub(crate) fn file(&self) -> &dyn File {
        self.files[0].file()
    }

    /// The volume that a block is in, if there is such a one.
    fn of(&self, block: BlockId) -> Result<&DataFile> {
        let file = if block.0 < BlockId::MAX { self.files.get(block.volume().index()) } else { None };
        file.ok_or_else(|| Error::corruption(format!("{}: there can be no block {block}", self.path().display())))
    }

    /// Reads and verifies a block. `buffer` is one page long; after an error its content means nothing.
    ///
    /// # Errors
    /// Corruption if the block is not as it was written; those of the file.
    pub(crate) fn read_block(&self, number: BlockId, buffer: &mut [u8]) -> Result<()> {
        assert_eq!(buffer.len(), self.page_size, "a block is one page");
        self.of(number)?.read_block(number, buffer)
    }

    /// Reads and verifies blocks, `first` and those after it, as many as `buffer` has room for, in one call. `buffer` is aligned.
    ///
    /// # Errors
    /// As [`Volume::read_block`].
    pub(super) fn read_neighbours(&self, first: BlockId, buffer: &mut [u8]) -> Result<()> {
        self.of(first)?.read_neighbours(first, buffer)
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
        self.of(first)?.write_sealed(first, bytes)
    }

    /// Makes all that was written to the main volume before durable.
    ///
    /// # Errors
    /// Those of the file. The environment cannot go on then: what was written before may be lost although later flushes succeed.
    pub(crate) fn sync(&self) -> Result<()> {
        self.files[0].sync()
    }

    /// Makes all that was written to another volume before durable, and that `next` has blocks there.
    pub(super) fn sync_extra(&self, volume: VolumeId, next: &Superblock) -> Result<()> {
        let file = &self.files[volume.index()];
        let uuid = next.placement.volumes[volume.index() - 1].uuid;
        let header = Header { environment: next.uuid, uuid, page_size: next.page_size, volume, generation: next.generation };
        header.write(file.file(), file.path())?;
        file.sync()
    }

    /// Writes a superblock to its slot, without any flush.
    pub(super) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        superblock::write(self.file(), self.path(), superblock)
    }

    /// Gives the free ends of the files back to their disks, where it is worth a call: when more than two growth steps are free, or `all` is
    /// to go.
    ///
    /// Writers of this process are kept out while the highest block in use is looked up and the file cut, so a block allocated and
    /// written meanwhile is not lost. Other processes that write blocks have to be kept out by the caller.
    ///
    /// # Errors
    /// Those of a file; it keeps its length then.
    pub(crate) fn give_back_tail(&self, blocks: &BlockSpace, all: bool) -> Result<()> {
        blocks.volumes().zip(&self.files).try_for_each(|(volume, file)| file.give_back_tail(blocks.of(volume), all))
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
        let blocks = before.bounds().or(after.bounds());
        let roots = |superblock: &Superblock| -> Vec<MapRoot> {
            let epochs = superblock.epochs.iter().map(|epoch| superblock.map_of(epoch));
            epochs.chain([superblock.map()]).map(|root| MapRoot { blocks, ..root }).collect()
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

    /// How many pages a map leaf covers.
    pub(crate) fn leaf_span(&self) -> u64 {
        leaf_span(self.page_size) as u64
    }
}

fn open_main(disk: &dyn Disk, path: &Path, direct: bool, read_only: bool) -> Result<std::sync::Arc<dyn File>> {
    data_file::open(disk, path, direct, read_only).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("there is no volume {}", path.display())),
        _ => Error::io("opening", path, e),
    })
}

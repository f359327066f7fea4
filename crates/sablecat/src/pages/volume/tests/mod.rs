//! The volume as a whole: against a model, through crashes, with damage.

mod crash;
mod damage;
mod epochs;
pub(crate) mod interrupted;
mod lookup;
mod model;
mod superblock;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;

use sablecat_os::disk::Disk;
use sablecat_os::sim::SimDisk;

use super::{CheckpointPlan, Codec, Declared, FreeEnd, Marks, Superblock, Volume, compare_block};
use crate::error::Result;
use crate::pages::allocation::BlockSpace;
use crate::pages::allocation::Owned;
use crate::types::{Berth, BlockId, Lsn, PageId, SealedBlock, VolumeId};

pub(super) const UUID: [u8; 16] = *b"0123456789abcdef";

pub(super) fn path() -> &'static Path {
    Path::new("db/sablecat.db")
}

/// What the pages of one generation should be: for each page the stamp its content is made from.
pub(super) type Model = BTreeMap<u32, u64>;

/// Pages to write (with their stamps) and to remove (`None`) in one checkpoint.
pub(super) type Changes = BTreeMap<u32, Option<u64>>;

/// A simulated disk with, durably, the directory that volumes are in.
pub(super) fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(path().parent().expect("has one")).expect("no faults yet");
    disk.create_dir_all(Path::new("elsewhere")).expect("no faults yet");
    disk.sync_dir(Path::new("")).expect("no faults yet");
    disk
}

/// A declaration of so many volumes, all beside the directory of the environment.
pub(super) fn declared(count: usize) -> Declared {
    Declared {
        volumes: (1..=count).map(|n| (format!("v{n}"), format!("../elsewhere/v{n}.db").into())).collect(),
        ..Declared::default()
    }
}

/// A volume with its block allocator, as an environment holds them.
pub(super) struct Store {
    pub(super) volume: Volume,
    pub(super) blocks: BlockSpace,
    _memory: Vec<Owned>,
}

/// The content of a page: a function of its number and its stamp, different in every 64 bits.
pub(super) fn image(page_size: usize, page: u32, stamp: u64) -> Vec<u8> {
    let mut state = stamp ^ u64::from(page) << 32 ^ 0x9E37_79B9_7F4A_7C15;
    (0..page_size / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state.to_le_bytes()
        })
        .collect()
}

/// Blocks that pages fill.
pub(crate) fn plain(block_size: usize) -> Codec {
    Codec::new(block_size, 0).expect("a possible size")
}

impl Store {
    pub(super) fn create(disk: &dyn Disk, page_size: usize) -> Result<Store> {
        Store::create_with(disk, plain(page_size), 0)
    }

    /// As `create`, with so many volumes beside the main one.
    pub(super) fn create_with(disk: &dyn Disk, codec: Codec, volumes: usize) -> Result<Store> {
        let mut volume = Volume::create(disk, path(), codec, UUID, false)?;
        volume.add(disk, false, &declared(volumes))?;
        Store::over(volume)
    }

    pub(super) fn open(disk: &dyn Disk) -> Result<Store> {
        Store::over(Volume::open(disk, path(), false, false)?)
    }

    /// As `open`; volumes that are not there yet are added.
    pub(super) fn open_with(disk: &dyn Disk, volumes: usize) -> Result<Store> {
        Store::over(Volume::open_with(disk, path(), false, &declared(volumes), None)?)
    }

    fn over(volume: Volume) -> Result<Store> {
        let memory: Vec<_> = (0..volume.count()).map(|_| Owned::new(1 << 20)).collect();
        let blocks = BlockSpace::new(memory.iter().map(Owned::again).collect(), Box::new(|| true));
        blocks.assume_used_below(&volume.superblock().bounds())?;
        Ok(Store { volume, blocks, _memory: memory })
    }

    /// Pages take turns among the volumes.
    pub(super) fn home(&self, page: u32) -> VolumeId {
        VolumeId((page as usize % self.volume.count()) as u8)
    }

    /// Learns which blocks are free.
    pub(super) fn learn_free(&self) -> Result<()> {
        let in_use = self.volume.scan()?;
        self.blocks.free_unused(&in_use.blocks);
        Ok(())
    }

    /// Writes pages, then the checkpoint, then releases what it freed.
    pub(super) fn checkpoint(&self, changes: &Changes) -> Result<()> {
        for block in self.checkpoint_keeping(changes)? {
            assert!(self.blocks.release(block), "what is freed was in use");
        }
        Ok(())
    }

    /// As `checkpoint`, but the blocks that became free are not released.
    pub(super) fn checkpoint_keeping(&self, changes: &Changes) -> Result<Vec<BlockId>> {
        self.checkpoint_with(changes, |_| {})
    }

    /// As `checkpoint_keeping`; `describe` adds to what the superblock says.
    pub(super) fn checkpoint_with(
        &self,
        changes: &Changes,
        describe: impl FnOnce(&mut Superblock),
    ) -> Result<Vec<BlockId>> {
        let page_size = self.volume.page_size();
        let mut images = Vec::new();
        for (&page, &stamp) in changes {
            if let Some(stamp) = stamp {
                images.push((
                    self.blocks.allocate(self.home(page)).unwrap().expect("room"),
                    image(page_size, page, stamp),
                ));
            }
        }
        let borrowed: Vec<_> = images.iter().map(|(block, bytes)| (*block, &bytes[..])).collect();
        let mut sealed = self.volume.write_blocks(&borrowed, |_| 0..0)?.into_iter();
        let mut named = |stamp: Option<u64>| stamp.and_then(|_| sealed.next()).unwrap_or(SealedBlock::NONE);
        let map: Vec<_> = changes.iter().map(|(&page, &stamp)| (PageId(page), named(stamp))).collect();
        let mut next = self.volume.superblock();
        next.checkpoint = Lsn(next.generation * 100);
        let above = changes.keys().next_back().map_or(1, |last| last + 1);
        next.pages_high = next.pages_high.max(above);
        describe(&mut next);
        let berth = self.volume.berths_of_next().next().expect("several");
        let plan = CheckpointPlan {
            changes: &map,
            blocks: &self.blocks,
            rewrite_from: BlockId(u64::MAX),
            marks: Marks::Now,
            next,
            berth,
        };
        self.volume.write_checkpoint(plan, &mut |_| Ok(())).map(|(_, freed)| freed)
    }

    /// The pages of the generation in force must be those of the model, by walking and by looking up.
    pub(super) fn assert_is(&self, model: &Model) {
        assert_eq!(&self.stamps(model), model);
        let in_use = self.volume.scan().expect("an undamaged map");
        assert_eq!(in_use.pages.count(), model.len() as u64 + 1, "and page 0");
        assert!(model.keys().all(|&page| in_use.pages.contains(u64::from(page))));
    }

    /// Looks up every page of the model; those found with the right content are in the answer.
    fn stamps(&self, model: &Model) -> Model {
        let mut buffer = vec![0; self.volume.block_size()];
        let mut found = Model::new();
        for (&page, &stamp) in model {
            let (first, entries) = self.volume.lookup_leaf(PageId(page)).expect("an undamaged map");
            let block = entries[(page - first.0) as usize];
            assert_ne!(block, SealedBlock::NONE, "page {page} is somewhere");
            self.volume.read_block(block.block(), &mut buffer).expect("an undamaged block");
            assert_eq!(compare_block(block, &buffer), Ok(()), "page {page}");
            let bytes = &buffer[..self.volume.page_size()];
            if bytes[4..] == image(bytes.len(), page, stamp)[4..] {
                found.insert(page, stamp);
            }
        }
        found
    }

    /// True if the generation in force is the model's.
    pub(super) fn is(&self, model: &Model) -> bool {
        let in_use = self.volume.scan().expect("an undamaged map");
        in_use.pages.count() == model.len() as u64 + 1
            && model.keys().all(|&page| in_use.pages.contains(u64::from(page)))
            && &self.stamps(model) == model
    }
}

/// The model after some changes.
pub(super) fn after(model: &Model, changes: &Changes) -> Model {
    let mut model = model.clone();
    for (&page, stamp) in changes {
        match stamp {
            Some(stamp) => model.insert(page, *stamp),
            None => model.remove(&page),
        };
    }
    model
}

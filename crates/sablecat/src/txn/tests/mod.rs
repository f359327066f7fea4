//! Tests of the kernel as a whole: pages, log and locks over regions of a few frames. This file holds what
//! they share.

mod accounting;
mod appending;
mod bulk;
mod counted;
mod damaged;
mod early;
mod explore;
mod failing;
mod freed_runs;
mod full;
mod gaps;
mod hashed;
mod large;
mod latched_rest;
mod late;
mod linear;
mod lost;
mod mapped_twice;
mod marks;
mod nested;
mod order;
mod pressure;
mod queue;
mod reads;
mod reaping;
mod removal;
mod room;
mod stems;
mod succession;
mod told;
mod unwinding;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sablecat_os::sim::SimDisk;

use crate::access::{self, Method, PageWrite};
use crate::access::{Scan, StateSource};
use crate::error::Result;
use crate::log::{Log, LogConfig, LogMemory, Ring};
use crate::pages::volume::{Journal, Superblock, Volume};
use crate::pages::{Moving, Pages, Seat};
use crate::region::{Geometry, Region};
use crate::txn::Kernel;
use crate::txn::catalog::{self, CATALOG, CatalogEntry, FIRST_TREE, TreeRef};
use crate::txn::commit::direct::Direct;
use crate::txn::locks::LockTable;
use crate::txn::operations::RecordChange;
use crate::txn::options::{Durability, Isolation, Options};
use crate::txn::pending::runs::SpillSettings;
use crate::txn::state::CommittedState;
use crate::txn::transactions::Transaction;
use crate::types::{FrameId, Lsn, PageId, TreeId, VolumeId};

/// Keys and values.
type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Small pages, so that few records make several leaves.
fn geometry(frames: usize, slots: u16) -> Geometry {
    Geometry {
        block_size: 512,
        page_size: 512,
        frames: frames + 1,
        slots,
        ring_bytes: 65536,
        lock_words: 64,
        pages_max: 1 << 15,
        blocks_max: 1 << 15,
        volumes: 1,
        members: 4,
    }
}

/// The kernel over a region, with its log in memory and its pages in memory alone or in a volume.
fn kernel(region: Region, volume: Option<Volume>) -> Kernel {
    spilling_kernel(region, volume, None)
}

/// The same, with a place for large write sets.
fn spilling_kernel(region: Region, volume: Option<Volume>, spill: Option<SpillSettings>) -> Kernel {
    let region = Arc::new(region);
    // SAFETY: the ring and the words lie in the region, are used for this alone, and live as long as the
    // region, which `Pages` holds.
    let memory = unsafe {
        LogMemory::new(region.log_words().cast(), Ring::new(region.ring(), region.geometry().ring_bytes))
    };
    let config = LogConfig {
        keys: None,
        segment_bytes: 65536,
        uuid: [0; 16],
        direct: true,
        sync_io: false,
        spares_max: 1,
        archive: None,
        patience: Duration::from_secs(60),
    };
    let log = Log::open(None, Path::new(""), config, memory).expect("a log in memory");
    let locks = LockTable::new(&region);
    let pages = Pages::new(region, volume, access::PAGE_KINDS).expect("memory");
    Kernel::new(pages, (log, locks), Duration::from_secs(60), spill, None)
}

/// An empty volume on a simulated disk.
fn volume(seed: u64) -> Volume {
    Volume::create(
        &SimDisk::new(seed),
        Path::new("sablecat.db"),
        crate::pages::volume::tests::plain(512),
        [7; 16],
        false,
    )
    .expect("no faults")
}

/// A kernel and one tree in it.
struct Store {
    kernel: Kernel,
    tree: TreeRef,
}

impl Store {
    /// A new region with an empty tree, whose root is page 1.
    fn new(frames: usize, slots: u16, volume: Option<Volume>) -> Store {
        Store::of_geometry(geometry(frames, slots), volume)
    }

    fn of_geometry(geometry: Geometry, volume: Option<Volume>) -> Store {
        Store::over(kernel(Region::shareable(geometry).expect("memory"), volume))
    }

    /// A new region's kernel, and an empty tree.
    fn over(kernel: Kernel) -> Store {
        kernel.pages.page_ids().assume_used_below(1).unwrap();
        if let Some(superblock) = kernel.pages.volume().map(Volume::superblock) {
            kernel.pages.blocks().assume_used_below(&superblock.bounds()).unwrap();
        }
        let tree = catalog::catalog_tree().clone();
        let seat = kernel.pages.participants.sit().unwrap();
        // SAFETY: nobody else knows of the region yet.
        let mut direct = unsafe { Direct::new(&kernel.pages, &seat) };
        assert_eq!(direct.allocate(VolumeId::MAIN).unwrap(), tree.root);
        tree.tree().format(direct.write(tree.root).unwrap());
        drop(direct);
        drop(seat);
        Store { kernel, tree }
    }

    /// As [`Store::new`], with a catalog beside the tree, which has a name there.
    fn with_catalog(frames: usize, slots: u16, volume: Option<Volume>) -> Store {
        Store::new(frames, slots, volume).and_catalog()
    }

    fn and_catalog(self) -> Store {
        let entry = self
            .kernel
            .create_tree(&self.seat(), CatalogEntry::new(TreeId(FIRST_TREE), VolumeId::MAIN, Method::Btree))
            .unwrap();
        self.kernel
            .pages
            .region
            .header()
            .tree_next
            .0
            .store(FIRST_TREE + 1, std::sync::atomic::Ordering::SeqCst);
        self.put(b"tree", &entry.named().encode()).unwrap();
        assert!(self.remove(&catalog::note_key(entry.tree)).unwrap());
        Store { tree: entry.tree_of_note().unwrap(), ..self }
    }

    fn seat(&self) -> Seat<'_> {
        self.kernel.pages.participants.sit().unwrap()
    }

    fn begin(&self, isolation: Isolation, read_only: bool) -> Transaction<'_> {
        let options = Options {
            isolation,
            durability: Durability::Memory,
            read_only,
            patience: Duration::from_secs(60),
        };
        Transaction::begin(&self.kernel, options).unwrap()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.kernel.change_one(&self.tree, key, RecordChange::Put(value), Durability::Memory).map(|_| ())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.kernel.change_one(&self.tree, key, RecordChange::Remove, Durability::Memory)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.kernel.read_one(&self.tree, key, |value| value.map(<[u8]>::to_vec)).unwrap()
    }

    fn checkpoint(&self) -> Result<Lsn> {
        self.checkpoint_moving(Moving::Little)
    }

    /// A checkpoint that retains the one before it and drops one of the epochs, as chance will have it.
    fn checkpoint_retaining(&self, dice: &mut Dice) -> Result<Lsn> {
        let seat = self.kernel.pages.participants.sit()?;
        let before = self.kernel.pages.volume().map(Volume::superblock);
        let dice = std::cell::RefCell::new(dice);
        let describe = |at, next: &mut Superblock| {
            let mut dice = dice.borrow_mut();
            next.journal = Some(Journal::new());
            let before = before.as_ref().filter(|before| before.map_height > 0 && before.checkpoint < at);
            let Some(before) = before else { return Ok(()) };
            if dice.below(2) == 0 {
                next.epochs.push(before.epoch());
            }
            if !next.epochs.is_empty() && (dice.below(3) == 0 || next.epochs.len() > 6) {
                next.epochs.remove(dice.below(next.epochs.len() as u64) as usize);
            }
            Ok(())
        };
        self.kernel.pages.checkpoint(&seat, Moving::Little, describe).map(|captured| captured.at)
    }

    fn checkpoint_moving(&self, moving: Moving) -> Result<Lsn> {
        let seat = self.kernel.pages.participants.sit()?;
        self.kernel.pages.checkpoint(&seat, moving, |_, _| Ok(())).map(|captured| captured.at)
    }

    /// All records, after the whole tree has been verified; and the pages that it consists of.
    fn verified(&self) -> (Records, HashSet<PageId>) {
        self.verified_tree(&self.tree)
    }

    fn verified_tree(&self, tree: &TreeRef) -> (Records, HashSet<PageId>) {
        let seat = self.kernel.pages.participants.sit().unwrap();
        let pinned = self.kernel.pages.pinned(&seat);
        let at = pinned.at();
        let mut source = CommittedState { states: &self.kernel, me: &seat, at };
        let mut scan = Scan::new(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let mut records = Vec::new();
        while let Some((key, value)) = scan.next(&tree.tree(), &mut source, true).unwrap() {
            records.push((key, source.load(value).unwrap()));
        }
        let mut seen = HashSet::new();
        let mut problems = Vec::new();
        let shape = tree.tree().verify(&source, &mut seen, &mut |why| problems.push(why), &mut |_| {});
        drop(pinned);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(shape.records, records.len() as u64);
        (records, seen)
    }

    /// With nobody at work: every frame is free or holds a current version, every page id in use is that of a
    /// page of the tree, and every block in use is named by the last checkpoint's map.
    fn assert_nothing_leaks(&self) {
        let pages = &self.kernel.pages;
        let seat = pages.participants.sit().unwrap();
        pages.sweep_all(&seat);
        if let Some(volume) = pages.volume() {
            for _ in 0..2 {
                self.checkpoint().unwrap();
                pages.sweep_all(&seat);
            }
            let named = volume.scan().unwrap().blocks;
            let lost: Vec<_> = pages
                .blocks()
                .below_marks()
                .filter(|&block| pages.blocks().is_used(block) != named.contains(block))
                .collect();
            assert!(lost.is_empty(), "blocks in use that nothing names, or the other way round: {lost:?}");
        }
        let census = pages.census();
        assert_eq!((census.old, census.building, census.retired), (0, 0, 0), "{census:?}");
        assert_eq!(census.free + census.current, pages.region.geometry().frames - 1);
        drop(seat);
        let (_, mut reachable) = self.verified();
        if self.tree.id != CATALOG {
            let (records, pages) = self.verified_tree(catalog::catalog_tree());
            assert_eq!(records.len(), 1, "what was left half done: {records:?}");
            reachable.extend(pages);
        }
        let lost: Vec<_> = (1..pages.page_ids().high_water())
            .filter(|&page| pages.page_ids().is_used(page) != reachable.contains(&PageId(page as u32)))
            .collect();
        assert!(
            lost.is_empty(),
            "page ids in use that the tree does not reach, or the other way round: {lost:?}"
        );
    }
}

/// A generator good enough for choosing what to do next.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

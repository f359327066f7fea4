//! Checkpoints that fail, and what others find afterwards.

use sablecat_os::sim::{Fault, Survival};

use super::*;
use crate::error::{Error, ErrorKind};
use crate::pages::LocalParticipant;
use crate::pages::pretend;
use crate::pages::volume::tests::interrupted::Interrupted;
use crate::pages::volume::{Declared, MapFinding};
use crate::region::{FrameState, Work};
use crate::types::{Berth, BlockId, FrameId};

const PATH: &str = "sablecat.db";

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A store with some pages on a disk, and a checkpoint of it.
fn store_on(disk: &dyn sablecat_os::disk::Disk, frames: usize) -> Store {
    let volume =
        Volume::create(disk, Path::new(PATH), crate::pages::volume::tests::plain(512), [7; 16], false)
            .expect("no faults");
    let store = Store::new(frames, 8, Some(volume));
    store.change_all(0);
    store.checkpoint().unwrap();
    store
}

impl Store {
    fn change_all(&self, stamp: u8) {
        (0..200).for_each(|n| self.put(&key(n), &[stamp; 40]).unwrap());
    }

    /// Versions that are said to be on their way to the volume, although nobody is at work.
    fn being_written(&self) -> usize {
        let region = &self.kernel.pages.region;
        (1..region.geometry().frames as u32)
            .filter(|&frame| region.frame(FrameId(frame)).block().is_writing())
            .count()
    }

    /// Takes all blocks but `left` that the volume can have.
    fn take_blocks(&self, left: u64) -> Vec<BlockId> {
        let blocks = self.kernel.pages.blocks();
        let mut taken: Vec<_> = std::iter::from_fn(|| blocks.allocate(VolumeId::MAIN).unwrap()).collect();
        for block in taken.split_off(taken.len() - left as usize) {
            pretend(|| blocks.release(block));
        }
        taken
    }

    fn give_blocks(&self, taken: Vec<BlockId>) {
        taken.into_iter().for_each(|block| assert!(pretend(|| self.kernel.pages.blocks().release(block))));
    }
}

/// The system tells of what it could not write once, and takes it for written from then on.
#[test]
fn a_checkpoint_that_waited_for_one_whose_flush_failed_does_not_go_on() {
    for seed in 0..10 {
        let sim = SimDisk::new(seed);
        let disk = Interrupted::new(sim.clone());
        let store = Arc::new(store_on(&disk, 300));
        store.change_all(1);
        let (sender, receiver) = std::sync::mpsc::channel();
        let (others, plan) = (Arc::clone(&store), sim.clone());
        disk.before_next_flush(move || {
            let waiting = Arc::clone(&others);
            sender.send(std::thread::spawn(move || waiting.checkpoint())).unwrap();
            while !others.kernel.pages.is_checkpoint_waited_for() {
                std::thread::yield_now();
            }
            plan.fail_at(plan.calls() + 1, Fault::SyncFails);
        });
        let failed = store.checkpoint().map_err(|error| error.kind());
        let waited = receiver.recv().unwrap().join().unwrap().map_err(|error| error.kind());
        assert_eq!([failed, waited], [Err(ErrorKind::Poisoned); 2], "seed {seed}");
        for survival in Survival::ALL {
            let left = sim.crash_as(survival, seed);
            let volume =
                Volume::open_with(&left, Path::new(PATH), false, &Declared::default(), None).unwrap();
            let pages =
                Pages::new(Arc::new(Region::private(geometry(300, 8)).unwrap()), None, access::PAGE_KINDS)
                    .unwrap();
            let mut buffer = vec![0; 512];
            let mut look = |found| match found {
                MapFinding::Page(page, block) => pages.check_stored(&volume, page, block, &mut buffer),
                MapFinding::Damaged(_, error) => Err(error),
                MapFinding::Map(_) => Ok(()),
            };
            volume
                .walk(0..u64::MAX, &mut look)
                .unwrap_or_else(|error| panic!("seed {seed}, {survival:?}: {error}"));
        }
    }
}

/// A checkpoint after it would wait for their end, for ever.
#[test]
fn a_checkpoint_that_finds_no_block_leaves_no_version_being_written() {
    let store = store_on(&SimDisk::new(1), 300);
    for left in [0, 1, 10] {
        store.change_all(left as u8 + 1);
        let taken = store.take_blocks(left);
        assert_eq!(store.checkpoint().unwrap_err().kind(), ErrorKind::Exhausted);
        assert_eq!(store.being_written(), 0, "{left} blocks were to be had");
        store.give_blocks(taken);
        store.checkpoint().unwrap();
    }
    store.assert_nothing_leaks();
}

/// The same of sweeps, which write in batches as well.
#[test]
fn a_sweep_that_finds_no_block_leaves_no_version_being_written() {
    let store = store_on(&SimDisk::new(1), 300);
    store.change_all(1);
    let taken = store.take_blocks(3);
    let seat = store.kernel.pages.participants.sit().unwrap();
    store.kernel.pages.sweep_all(&seat);
    drop(seat);
    assert_eq!(store.being_written(), 0);
    store.give_blocks(taken);
    store.assert_nothing_leaks();
}

/// On a disk that is full each attempt would cost as many blocks as pages are changed between two.
#[test]
fn blocks_that_a_checkpoint_in_vain_has_captured_are_used_again() {
    let store = store_on(&SimDisk::new(1), 300);
    let pages = &store.kernel.pages;
    let begun = pages.blocks().used_count();
    for round in 0..20u8 {
        let seat = pages.participants.sit().unwrap();
        store.change_all(round);
        if round % 2 == 0 {
            pages.sweep_all(&seat);
        }
        let snapshot = (round % 3 == 0).then(|| store.begin(Isolation::Snapshot, true));
        // What it has captured becomes an old version, is evicted, and read in again.
        let change = |_, _: &mut Superblock| {
            let other = pages.participants.sit().unwrap();
            if round % 4 < 2 {
                store.change_all(round + 100);
            }
            pages.sweep_all(&other);
            if round % 5 == 0 {
                store.verified();
            }
            Err(Error::new(ErrorKind::DiskFull, "a disk"))
        };
        assert_eq!(pages.checkpoint(&seat, Moving::Little, change).unwrap_err().kind(), ErrorKind::DiskFull);
        drop(snapshot);
        assert!(pages.blocks().used_count() < 4 * begun, "round {round}");
    }
    store.assert_nothing_leaks();
}

/// Leaves the checkpoint role and a superblock that may be in the file, or not.
fn dies_in_a_checkpoint(store: &Store, dead: &LocalParticipant) {
    let pages = &store.kernel.pages;
    std::mem::forget(pages.hold_checkpoint(dead).unwrap());
    let volume = pages.volume().unwrap();
    let berth = volume.berths_of_next().next().unwrap();
    let mut moored = pages.region.berths().take(berth, dead.number(), volume.generation() + 1).unwrap();
    let next = Superblock { generation: volume.generation() + 1, ..volume.superblock() };
    assert!(moored.set(&next.encode()));
    std::mem::forget(moored);
}

/// What the system could not write it has forgotten; a second flush would succeed, and say nothing.
#[test]
fn a_dead_checkpoint_that_cannot_be_settled_poisons_and_the_dead_lets_go_of_the_rest() {
    let sim = SimDisk::new(1);
    let store = store_on(&sim, 300);
    let region = &store.kernel.pages.region;
    let (dead, reaper) =
        (store.kernel.pages.participants.sit().unwrap(), store.kernel.pages.participants.sit().unwrap());
    dies_in_a_checkpoint(&store, &dead);
    std::mem::forget(region.role(Work::Structure(7)).try_take(dead.number()).unwrap());
    std::mem::forget(region.role(Work::Serial).try_take(dead.number()).unwrap());
    sim.fail_at(sim.calls() + 1, Fault::SyncFails);
    store.kernel.mend_slot(dead.number(), &reaper);
    assert_eq!(store.kernel.pages.fail_if_poisoned().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(
        [Work::Checkpoint, Work::Serial, Work::Structure(7)].map(|work| region.role(work).look().owner()),
        [0; 3]
    );
    let checkpoint = store.checkpoint().map_err(|error| error.kind());
    assert_eq!(checkpoint, Err(ErrorKind::Poisoned), "nothing of what was written before is to be named");
}

/// Whatever fails, and at whichever call, the rest is mended, by this one and for good: nothing waits for
/// somebody to come again.
#[test]
fn nothing_stays_claimed_when_a_call_fails_while_the_dead_are_mended() {
    let faults = [
        Fault::Error(std::io::ErrorKind::Other),
        Fault::ShortWrite,
        Fault::DiskFull,
        Fault::SyncFails,
        Fault::NoDescriptor,
    ];
    for (nth, fault) in (1..=8).flat_map(|nth| faults.map(|fault| (nth, fault))) {
        let sim = SimDisk::new(nth);
        let store = store_on(&sim, 300);
        let (pages, region) = (&store.kernel.pages, &store.kernel.pages.region);
        store.change_all(1);
        let (dead, reaper) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
        dies_in_a_checkpoint(&store, &dead);
        std::mem::forget(region.role(Work::Structure(7)).try_take(dead.number()).unwrap());
        let frames: Vec<_> =
            (0..3).map(|_| pages.with_frames(&dead, || pages.take_frame(&dead)).unwrap()).collect();
        let latched = pages.keep_latched(store.tree.root, &dead);
        pages.claim_write(latched, &dead).unwrap();
        assert!(region.frame(latched).change(FrameState::Published, FrameState::Claimed(dead.number())));
        sim.fail_at(sim.calls() + nth, fault);
        assert!(store.kernel.mend_slot(dead.number(), &reaper));
        assert_eq!(
            [Work::Checkpoint, Work::Structure(7)].map(|work| region.role(work).look().owner()),
            [0; 2],
            "{nth}: {fault:?}"
        );
        assert!(frames.iter().all(|&frame| region.frame(frame).state() == FrameState::Retired));
        assert_eq!((pages.census().building, store.being_written()), (0, 0), "{nth}: {fault:?}");
        sim.clear_faults();
        drop(reaper);
        match store.checkpoint() {
            Ok(_) => assert!(pages.fail_if_poisoned().is_ok()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Poisoned, "{nth}: {fault:?}: {error}"),
        }
        store.put(&key(1), b"others go on").unwrap();
    }
}

/// Somebody had the role before, was stopped as it settled berths, and goes on when the same participant has
/// that berth again for the same generation.
#[test]
fn a_checkpoint_whose_berth_is_ended_by_who_is_late_begins_anew() {
    let disk = Interrupted::new(SimDisk::new(1));
    let store = Arc::new(store_on(&disk, 300));
    store.change_all(1);
    let late = Arc::clone(&store);
    disk.before_next_flush(move || {
        let berths = late.kernel.pages.region.berths();
        let drafting = Berth::all().find_map(|berth| Some((berth, berths.look(berth)?)));
        let (berth, seen) = drafting.expect("one is about to be written");
        assert!(berths.end(berth, seen));
    });
    let before = store.kernel.pages.volume().unwrap().generation();
    store.checkpoint().unwrap();
    assert_eq!(store.kernel.pages.volume().unwrap().generation(), before + 1);
    assert!(Berth::all().all(|berth| store.kernel.pages.region.berths().look(berth).is_none()));
    store.change_all(2);
    store.assert_nothing_leaks();
}

/// A process may be stopped for as long as it likes while it writes what a sweep has found.
#[test]
fn a_checkpoint_does_not_wait_for_who_was_stopped_while_it_wrote_a_version() {
    let store = store_on(&SimDisk::new(1), 300);
    let pages = &store.kernel.pages;
    store.change_all(1);
    let stopped = pages.participants.sit().unwrap();
    let claims = pages.claim_some(5, &stopped);
    assert_eq!((claims.len(), store.being_written()), (5, 5));
    store.checkpoint().unwrap();
    assert_eq!(store.being_written(), 5);
    pages.end_claims(claims);
    drop(stopped);
    // Their blocks are the versions' own, and go with them.
    store.change_all(2);
    store.assert_nothing_leaks();
}

/// A page has not changed since a checkpoint named its block. A helper of a commit that had changed it before
/// may say, late, that it has.
#[test]
fn a_page_that_is_latched_for_long_keeps_the_block_that_the_map_names() {
    let store = store_on(&SimDisk::new(1), 300);
    store.change_all(1);
    store.checkpoint().unwrap();
    let pages = &store.kernel.pages;
    let other = pages.participants.sit().unwrap();
    let current = pages.keep_latched(store.tree.root, &other);
    let block = pages.region.frame(current).block();
    assert!(block.is_captured());
    pages.mark_unsaved(store.tree.root);
    store.checkpoint().unwrap();
    pages.let_go_of(store.tree.root, &other);
    assert_eq!(pages.region.frame(current).block(), block);
    assert!(pages.blocks().is_used(block.block()), "what the page is read from next");
    drop(other);
    store.change_all(2);
    store.assert_nothing_leaks();
}

//! Checkpoints whose maker is stopped, and goes on when others have made some.

use sablecat_os::liveness::LockFile;
use sablecat_os::sim::{Fault, Survival};

use super::*;
use crate::error::ErrorKind;
use crate::pages::volume::tests::interrupted::Interrupted;
use crate::pages::volume::{Declared, MapFinding};
use crate::region::{Membership, Work};
use crate::txn::locks;

const PATH: &str = "sablecat.db";

pub(super) fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Two processes, as it were: a region mapped twice, and its volume opened by each, by the first through a
/// disk that can stop it.
pub(super) struct Two {
    sim: SimDisk,
    pub(super) disk: Interrupted,
    pub(super) first: Arc<Store>,
    pub(super) second: Arc<Store>,
}

impl Two {
    pub(super) fn new(seed: u64) -> Two {
        let sim = SimDisk::new(seed);
        let disk = Interrupted::new(sim.clone());
        let first = Store::new(
            400,
            12,
            Some(
                Volume::create(
                    &disk,
                    Path::new(PATH),
                    crate::pages::volume::tests::plain(512),
                    [7; 16],
                    false,
                )
                .expect("no faults"),
            ),
        );
        let region = first.kernel.pages.region.again().expect("memory");
        let volume = Volume::join(&sim, Path::new(PATH), (false, false), None).expect("there");
        let second = Store { kernel: kernel(region, Some(volume)), tree: first.tree.clone() };
        let two = Two { sim, disk, first: Arc::new(first), second: Arc::new(second) };
        two.first.change(0..200, 0);
        for stamp in 1..4 {
            two.first.checkpoint().unwrap();
            two.first.change(0..150, stamp);
        }
        two
    }

    /// A third one, which is a member.
    fn joined(&self, name: &str) -> Kernel {
        let locks = std::env::temp_dir().join(format!("sablecat-{name}-{}", std::process::id()));
        let membership = Membership::new(LockFile::open(&locks, Some(0o600)).unwrap(), 1);
        std::fs::remove_file(&locks).unwrap();
        assert!(membership.take().unwrap());
        let region =
            self.first.kernel.pages.region.again().expect("memory").joined_as(membership).expect("joined");
        region.member(1).enter(1, None, "test");
        let volume = Volume::join(&self.sim, Path::new(PATH), (false, false), None);
        kernel(region, Some(volume.expect("there")))
    }

    /// That every page which the file names is there, as after a failure of the machine; and which generation
    /// that is.
    fn check_files(&self, survival: Survival, seed: u64) -> Superblock {
        let left = self.sim.crash_as(survival, seed);
        let volume = Volume::open_with(&left, Path::new(PATH), false, &Declared::default(), None).unwrap();
        assert_eq!(volume.complaints(), [""; 0]);
        assert!(!volume.is_in_doubt());
        let pages =
            Pages::new(Arc::new(Region::private(geometry(300, 8)).unwrap()), None, access::PAGE_KINDS)
                .unwrap();
        let mut buffer = vec![0; 512];
        let look = &mut |found| match found {
            MapFinding::Page(page, block) => pages.check_stored(&volume, page, block, &mut buffer),
            MapFinding::Damaged(_, error) => Err(error),
            MapFinding::Map(_) => Ok(()),
        };
        volume.walk(0..u64::MAX, look).unwrap_or_else(|error| panic!("{survival:?}: {error}"));
        volume.superblock()
    }
}

impl Store {
    pub(super) fn change(&self, keys: std::ops::Range<u64>, stamp: u8) {
        keys.for_each(|n| self.put(&key(n), &[stamp; 40]).unwrap());
    }

    /// Takes over from the maker of a checkpoint, as if that had not moved for long. Does nothing if there is
    /// none.
    pub(super) fn take_over(&self) {
        let (pages, seat) = (&self.kernel.pages, self.kernel.pages.participants.sit().unwrap());
        let holding = pages.region.role(Work::Checkpoint).look();
        if holding.owner() != 0 {
            let held = pages.succeed_checkpoint(holding, &seat).expect("it does not move");
            pages.settle_berths(&held, &seat);
            drop(held);
        }
    }

    /// A checkpoint which looks whether others have written to the file, as those of environments do.
    fn checkpoint_looking(&self) -> Result<Lsn> {
        let seat = self.kernel.pages.participants.sit()?;
        let looking =
            |_, _: &mut Superblock| self.kernel.pages.volume().expect("there is one").check_generation();
        self.kernel.pages.checkpoint(&seat, Moving::Little, looking).map(|captured| captured.at)
    }

    /// A checkpoint that retains the one before it; those to come do too.
    fn retain(&self) {
        let before = self.kernel.pages.volume().expect("there is one").superblock();
        let seat = self.kernel.pages.participants.sit().unwrap();
        let describe = |_, next: &mut Superblock| {
            next.journal = Some(Journal::new());
            next.epochs.push(before.epoch());
            Ok(())
        };
        self.kernel.pages.checkpoint(&seat, Moving::Little, describe).unwrap();
    }

    fn generation(&self) -> u64 {
        self.kernel.pages.region.header().generation.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

/// Before each of its reads, writes and flushes, for as long as others take to make so many checkpoints.
#[test]
fn who_is_stopped_in_a_checkpoint_is_succeeded_and_does_no_harm_when_it_goes_on() {
    for (made, changes) in [(0, false), (1, false), (1, true), (2, true), (5, true)] {
        let mut stops = 0;
        loop {
            let two = Two::new(stops);
            let durable = Arc::new(std::sync::Mutex::new(None));
            let (other, sim, noted) = (Arc::clone(&two.second), two.sim.clone(), Arc::clone(&durable));
            two.disk.before_call(stops, move || {
                other.take_over();
                for round in 0..made {
                    if changes {
                        other.change(50..170 + round, 100 + round as u8);
                    }
                    other.checkpoint().unwrap();
                }
                let volume = other.kernel.pages.volume().unwrap();
                *noted.lock().unwrap() = Some((volume.generation(), sim.crash_as(Survival::Nothing, stops)));
            });
            two.first.checkpoint_looking().unwrap_or_else(|error| {
                panic!("{made} made meanwhile, stopped before call {stops}: {error}")
            });
            if two.disk.forget_call() {
                break;
            }
            let (generation, left) = durable.lock().unwrap().take().expect("it was stopped");
            let volume = Volume::open(&left, Path::new(PATH), false, true).expect("whole");
            assert!(
                volume.generation() >= generation && !volume.is_in_doubt(),
                "the machine fails while it is stopped before call {stops}"
            );
            for survival in Survival::ALL {
                let newest = two.check_files(survival, stops);
                assert!(
                    newest.generation >= two.first.generation(),
                    "{survival:?}, stopped before call {stops}"
                );
            }
            let (records, _) = two.first.verified();
            assert_eq!(records, two.second.verified().0);
            two.second.change(0..30, 77);
            two.second.checkpoint().unwrap();
            two.first.checkpoint().unwrap();
            // A version that only the stopped participant had captured, and that was replaced then, keeps its
            // block until the next opening.
            if !changes {
                two.first.assert_nothing_leaks();
            }
            stops += 1;
        }
        assert!(stops > 12, "{stops}");
    }
}

/// As many as there are berths but two: that of the generation in force is not written to, and one is needed
/// for the next.
#[test]
fn several_are_stopped_while_they_write_superblocks() {
    let two = Two::new(1);
    let pages = &two.second.kernel.pages;
    let volume = pages.volume().unwrap();
    let mut stopped = Vec::new();
    for _ in 0..2 {
        two.second.checkpoint().unwrap();
        let seat = pages.participants.sit().unwrap();
        let held = pages.hold_checkpoint(&seat);
        pages.follow_generation(volume).unwrap();
        let mut moored = pages.take_berth(volume, &seat).unwrap();
        let next = Superblock { generation: volume.generation() + 1, ..volume.superblock() };
        assert!(moored.set(&next.encode()));
        // For as long as it is stopped.
        std::mem::forget(held);
        stopped.push((next, moored.berth()));
        std::mem::forget(moored);
        std::mem::forget(seat);
        let generation = two.first.generation();
        two.first.take_over();
        assert_eq!(two.first.generation(), generation + 1, "what was set is in force");
    }
    for round in 0..6 {
        two.first.change(0..100, 50 + round);
        two.first.checkpoint().unwrap();
        // The late ones write, in any order.
        let (late, berth) = &stopped[usize::from(round) % 2];
        volume.write_superblock(late, *berth).unwrap();
        for survival in Survival::ALL {
            assert_eq!(two.check_files(survival, u64::from(round)).generation, two.first.generation());
        }
    }
    // A third: there is no berth left once its own is over.
    let seat = pages.participants.sit().unwrap();
    let held = pages.hold_checkpoint(&seat);
    pages.follow_generation(volume).unwrap();
    let moored = pages.take_berth(volume, &seat).unwrap();
    two.first.take_over();
    assert!(two.first.checkpoint().unwrap_err().is_full());
    drop((moored, held));
    two.first.checkpoint().unwrap();
}

/// It has copied pages by then, to move them.
#[test]
fn a_checkpoint_that_finds_no_berth_gives_back_the_blocks_of_its_copies() {
    let two = Two::new(1);
    let pages = &two.second.kernel.pages;
    let volume = pages.volume().unwrap();
    // The first has the berth that it took; so have those after it, until there is none left.
    let mut stopped = Vec::new();
    let refused = loop {
        (0..150).for_each(|n| two.first.put(&key(n), &[9; 100]).unwrap());
        two.first.checkpoint().unwrap();
        // The last are at the end of the file.
        (0..120).for_each(|n| assert!(two.first.remove(&key(n)).unwrap()));
        two.first.checkpoint().unwrap();
        let seat = pages.participants.sit().unwrap();
        let held = pages.hold_checkpoint(&seat).unwrap();
        pages.follow_generation(volume).unwrap();
        let moored = pages.take_berth(volume, &seat).unwrap();
        two.first.take_over();
        std::mem::forget(held);
        stopped.push(moored);
        std::mem::forget(seat);
        let used = pages.blocks().used_count();
        if let Err(error) = two.first.checkpoint_moving(Moving::Much) {
            assert_eq!(pages.blocks().used_count(), used, "after {error}");
            break error;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::TooMany);
    drop(stopped);
    let seat = two.first.seat();
    let captured = two.first.kernel.pages.checkpoint(&seat, Moving::Much, |_, _| Ok(())).unwrap();
    assert!(captured.moved > 0, "there was something to move");
}

/// The system tells one of the participants that flush, and takes for written what it could not write.
#[test]
fn a_late_flush_that_fails_poisons() {
    let mut found = 0;
    for stops in 0.. {
        let two = Two::new(stops);
        let (other, sim) = (Arc::clone(&two.second), two.sim.clone());
        let calls = Arc::new(std::sync::Mutex::new(0));
        let noted = Arc::clone(&calls);
        two.disk.before_call(stops, move || {
            other.take_over();
            other.checkpoint().unwrap();
            other.change(0..50, 9);
            *noted.lock().unwrap() = other.generation();
            // If it is not a flush that comes now, nothing fails.
            sim.fail_at(sim.calls(), Fault::SyncFails);
        });
        let result = two.first.checkpoint();
        two.sim.clear_faults();
        if two.disk.forget_call() {
            break;
        }
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
            assert_eq!(two.second.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned);
            let durable = *calls.lock().unwrap();
            for survival in Survival::ALL {
                assert!(two.check_files(survival, stops).generation >= durable);
            }
            found += 1;
        }
    }
    assert!(found >= 2, "{found} flushes");
}

/// Pages of a value stored past the pool.
fn long(tag: u64, pages: usize) -> Vec<u8> {
    (0..(pages * 448) as u64 / 8).flat_map(|n| (tag << 32 | n).to_le_bytes()).collect()
}

/// Its blocks are given back to its pages by the successor too, and may be another value's by the time the
/// late one comes to it. Where epochs are retained no map tells the successor of them any more, if the
/// superblock of the one before it was set.
#[test]
fn the_blocks_of_a_freed_large_value_are_given_back_by_who_succeeds_and_not_again_by_who_goes_on_late() {
    for retains in [false, true] {
        let mut stops = 0;
        loop {
            let two = Two::new(stops);
            if retains {
                two.first.retain();
            }
            two.first.put(b"freed", &long(1, 60)).unwrap();
            two.first.checkpoint().unwrap();
            assert!(two.first.remove(b"freed").unwrap());
            let other = Arc::clone(&two.second);
            two.disk.before_call(stops, move || {
                other.take_over();
                other.checkpoint().unwrap();
                let seat = other.kernel.pages.participants.sit().unwrap();
                other.kernel.pages.sweep_all(&seat);
                drop(seat);
                // Of other lengths: other pages are in its blocks.
                other.put(b"one", &long(2, 25)).unwrap();
                other.put(b"two", &long(3, 30)).unwrap();
            });
            two.first.checkpoint().unwrap();
            if two.disk.forget_call() {
                break;
            }
            for tag in 4..8 {
                two.second.put(&key(1000 + tag), &long(tag, 20)).unwrap();
            }
            let at = format!("stopped before call {stops}, epochs: {retains}");
            assert!(two.second.get(b"one") == Some(long(2, 25)), "{at}");
            assert!(two.second.get(b"two") == Some(long(3, 30)), "{at}");
            two.second.checkpoint().unwrap();
            two.first.checkpoint().unwrap();
            two.first.assert_nothing_leaks();
            stops += 1;
        }
        assert!(stops > 7, "{stops}");
    }
}

/// Between taking the role over and settling what others have set, it was succeeded itself.
#[test]
fn who_was_succeeded_before_it_settled_anything_leaves_the_berth_of_the_next_alone() {
    let two = Two::new(1);
    let (first, second) = (&two.first.kernel.pages, &two.second.kernel.pages);
    let seats: Vec<_> = (0..3).map(|_| second.participants.sit().unwrap()).collect();
    let role = second.region.role(Work::Checkpoint);
    let stopped = second.hold_checkpoint(&seats[0]).unwrap();
    let late = first.succeed_checkpoint(role.look(), &seats[1]).expect("it does not move");
    let held = second.succeed_checkpoint(role.look(), &seats[2]).expect("nor does this one");
    second.settle_berths(&held, &seats[2]);
    let volume = second.volume().unwrap();
    second.follow_generation(volume).unwrap();
    let mut moored = second.take_berth(volume, &seats[2]).unwrap();
    first.settle_berths(&late, &seats[1]);
    let next = Superblock { generation: volume.generation() + 1, ..volume.superblock() };
    assert!(moored.set(&next.encode()), "only who has the role decides what becomes of a berth");
    drop((moored, held, late, stopped));
}

/// Its look at the fence, before it settles, was too early.
#[test]
fn who_was_taken_for_dead_before_it_settled_a_superblock_poisons_nothing() {
    let two = Two::new(1);
    let late = two.joined("settling");
    let (late, second) = (&late.pages, &two.second.kernel.pages);
    let seats: Vec<_> = (0..2).map(|_| second.participants.sit().unwrap()).collect();
    let stopped = second.hold_checkpoint(&seats[0]).unwrap();
    let volume = second.volume().unwrap();
    second.follow_generation(volume).unwrap();
    let mut moored = second.take_berth(volume, &seats[0]).unwrap();
    let next = Superblock { generation: volume.generation() + 1, ..volume.superblock() };
    assert!(moored.set(&next.encode()));
    let held = late.succeed_checkpoint(stopped.holding(), &seats[1]).expect("it does not move");
    late.region.fence_itself();
    late.settle_berths(&held, &seats[1]);
    second.fail_if_poisoned().unwrap();
    drop((held, moored, stopped));
}

/// What it waits for is held by others, which let go of nothing for it.
#[test]
fn who_was_taken_for_dead_waits_for_nobody() {
    let two = Two::new(1);
    let late = two.joined("waiting");
    two.first.checkpoint().unwrap();
    let others = &two.first.kernel;
    let (theirs, also_theirs) =
        (others.pages.participants.sit().unwrap(), others.pages.participants.sit().unwrap());
    // The participant that wants it does not know that there is no such page.
    let page = PageId(399);
    assert!(others.pages.region.entry(page).word().frame() == FrameId::NONE);
    others.pages.keep_latched(page, &theirs);
    let checkpoint = others.pages.hold_checkpoint(&also_theirs).unwrap();
    let mut held = locks::HeldLocks::default();
    let wait = Duration::from_secs(3600);
    others.locks.acquire(theirs.number(), 1, locks::LockMode::Exclusive, wait, &mut held).unwrap();
    let sit = || late.pages.participants.sit();
    std::thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| late.pages.current(page, &*sit()?).map(drop)),
            scope.spawn(|| {
                late.pages.wait_for_checkpoint();
                late.pages.region.check_fence()
            }),
            scope.spawn(|| {
                let (me, mut held) = (sit()?, locks::HeldLocks::default());
                late.locks.acquire(me.number(), 1, locks::LockMode::Shared, wait, &mut held)
            }),
        ];
        // So that they are asleep, as a rule; before that they find out as well.
        std::thread::sleep(Duration::from_millis(20));
        assert!(waiting.iter().all(|wait| !wait.is_finished()));
        late.pages.region.fence_itself();
        for wait in waiting {
            assert_eq!(wait.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
        }
    });
    drop(checkpoint);
    others.pages.let_go_of(page, &theirs);
    others.locks.release_all(theirs.number(), &mut held);
}

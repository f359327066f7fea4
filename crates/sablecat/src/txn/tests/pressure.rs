//! A pool that is smaller than the data: what is in it, and which participant writes what leaves it.

use std::sync::mpsc;
use std::thread;

use sablecat_os::atomic::Ordering;
use sablecat_os::sim::Fault;

use super::*;
use crate::error::ErrorKind;
use crate::pages::pretend;
use crate::pages::volume::tests::interrupted::Interrupted;
use crate::region::{FrameState, NO_EPOCH};
use crate::types::{BlockId, FrameId, PageId, VolumeId};

const FRAMES: usize = 256;
const RECORDS: u64 = 5000;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Records in some four times as many leaves as there are frames.
fn store(disk: &SimDisk) -> Store {
    let volume = Volume::create(
        disk,
        Path::new("sablecat.db"),
        crate::pages::volume::tests::plain(512),
        [7; 16],
        false,
    )
    .expect("no faults");
    let store = Store::new(FRAMES, 6, Some(volume));
    for n in 0..RECORDS {
        store.put(&key(n), &[n as u8; 40]).unwrap();
    }
    store
}

impl Store {
    /// Changes records here and there.
    fn change_some(&self, dice: &mut Dice) {
        (0..300).for_each(|_| self.put(&key(dice.below(RECORDS)), &[dice.below(256) as u8; 40]).unwrap());
    }

    /// The versions in the frames that the hand comes to next and that were seen to, if a sweep would evict
    /// them: saved or not.
    fn cold_ahead(&self) -> Vec<bool> {
        let (region, header) = (&self.kernel.pages.region, self.kernel.pages.region.header());
        let (hand, cleaned) = (header.hand.0.load(Ordering::SeqCst), header.cleaned.0.load(Ordering::SeqCst));
        let ahead = (hand..cleaned).map(|n| FrameId(1 + (n % FRAMES as u64) as u32));
        let is_current = |frame| {
            region.frame(frame).state() == FrameState::Published
                && region.frame(frame).superseded() == Lsn::MAX
        };
        let cold =
            ahead.filter(|&frame| is_current(frame) && region.referenced(frame).load(Ordering::SeqCst) == 0);
        cold.map(|frame| region.frame(frame).block().is_saved()).collect()
    }
}

#[test]
fn a_pool_under_pressure_is_full() {
    let store = store(&SimDisk::new(1));
    let mut dice = Dice(1);
    for _ in 0..2000 {
        let n = dice.below(RECORDS);
        assert_eq!(store.get(&key(n)), Some(vec![n as u8; 40]));
        let census = store.kernel.pages.census();
        assert!(census.current > FRAMES * 3 / 4, "{census:?}");
    }
}

#[test]
fn what_was_cleaned_is_evicted_without_being_written() {
    let store = store(&SimDisk::new(1));
    let pages = &store.kernel.pages;
    let mut dice = Dice(1);
    for _ in 0..20 {
        store.change_some(&mut dice);
        let seat = pages.participants.sit().unwrap();
        pages.clean(&seat).unwrap();
        let cold = store.cold_ahead();
        assert!(cold.iter().all(|&saved| saved), "{cold:?}");
        let used = pages.blocks().used_count();
        pages.forget_free(&seat);
        pages.refill(&seat, cold.len().min(16), 1).unwrap();
        assert!(pages.blocks().used_count() <= used, "a sweep wrote what it evicts");
    }
}

/// The first lots wait for a cleaner; what comes when these are as many as should wait is written at once.
#[test]
fn what_is_to_be_written_together_comes_to_neighbouring_blocks() {
    let store = store(&SimDisk::new(1));
    let (pages, region) = (&store.kernel.pages, &store.kernel.pages.region);
    store.change_some(&mut Dice(1));
    let seat = pages.participants.sit().unwrap();
    let block = |page: PageId| region.frame(region.entry(page).word().frame()).block();
    let is_dirty = |page: &PageId| {
        let frame = region.entry(*page).word().frame();
        frame != FrameId::NONE && block(*page).block() == BlockId::NONE
    };
    let dirty: Vec<PageId> =
        (1..pages.page_ids().high_water()).map(|page| PageId(page as u32)).filter(is_dirty).collect();
    let lots: Vec<&[PageId]> = dirty.chunks(8).take(3).collect();
    lots.iter().for_each(|lot| pages.have_written_together(lot.to_vec(), &seat).unwrap());
    assert_eq!(lots.iter().map(|lot| lot.iter().any(is_dirty)).collect::<Vec<_>>(), [true, true, false]);
    pages.clean(&seat).unwrap();
    for lot in lots {
        let first = block(lot[0]).block().0;
        assert!((first..).zip(lot).all(|(wanted, &page)| block(page).block().0 == wanted), "{lot:?}");
    }
    drop(seat);
    store.assert_nothing_leaks();
}

#[test]
fn what_a_cleaner_could_not_write_is_as_dirty_as_before() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let pages = &store.kernel.pages;
    store.checkpoint().unwrap();
    store.change_some(&mut Dice(1));
    let seat = pages.participants.sit().unwrap();
    let used = pages.blocks().used_count();
    disk.fail_at(disk.calls(), Fault::Error(std::io::ErrorKind::Other));
    pages.clean(&seat).unwrap_err();
    disk.clear_faults();
    assert_eq!(pages.blocks().used_count(), used);
    assert!(store.cold_ahead().contains(&false));
    drop(seat);
    store.assert_nothing_leaks();
}

#[test]
fn a_cleaner_that_runs_out_of_blocks_keeps_none() {
    let store = store(&SimDisk::new(1));
    let pages = &store.kernel.pages;
    store.checkpoint().unwrap();
    store.change_some(&mut Dice(1));
    let seat = pages.participants.sit().unwrap();
    let mut taken: Vec<BlockId> =
        std::iter::from_fn(|| pages.blocks().allocate(VolumeId::MAIN).unwrap()).collect();
    taken.drain(..3).for_each(|block| _ = pretend(|| pages.blocks().release(block)));
    let used = pages.blocks().used_count();
    pages.clean(&seat).unwrap_err();
    assert_eq!(pages.blocks().used_count(), used);
    taken.into_iter().for_each(|block| _ = pretend(|| pages.blocks().release(block)));
    drop(seat);
    store.assert_nothing_leaks();
}

/// What opening takes for used, because it does not read the map, is used again long before the first
/// checkpoint.
#[test]
fn who_cleans_learns_what_is_free() {
    let store = store(&SimDisk::new(1));
    let pages = &store.kernel.pages;
    for _ in 0..2 {
        store.change_some(&mut Dice(1));
        store.checkpoint().unwrap();
    }
    let seat = pages.participants.sit().unwrap();
    // An old version may be on a block that no map names, and that is above what opening takes for used.
    pages.sweep_all(&seat);
    let used = pages.blocks().used_count();
    pages.blocks().assume_used_below(&pages.blocks().bounds()).unwrap();
    assert!(pages.blocks().used_count() > used);
    pages.region.header().free_known.store(0, Ordering::SeqCst);
    pages.clean(&seat).unwrap();
    assert_eq!(pages.blocks().used_count(), used, "a checkpoint has left nothing to clean");
    drop(seat);
    store.assert_nothing_leaks();
}

/// What the dead left half done is mended although a participant has a page latched that they worked on, and
/// may in turn be waiting for the frames that they kept.
#[test]
fn the_dead_keep_no_frames_from_who_has_a_page_latched_that_they_worked_on() {
    let store = store(&SimDisk::new(1));
    let pages = &store.kernel.pages;
    let [dead, committer, reaper] = [(); 3].map(|()| pages.participants.sit().unwrap());
    // An old version of the root, which the dead had claimed to take it out of its chain.
    let root = store.tree.root;
    let pinned = pages.pinned(&committer);
    let mut n = RECORDS;
    let old = pages.region.entry(root).word().frame();
    while pages.region.entry(root).word().frame() == old {
        store.put(&key(n), &[0; 40]).unwrap();
        n += 1;
    }
    assert!(pages.region.frame(old).change(FrameState::Published, FrameState::Claimed(dead.number())));
    std::mem::forget(pages.pinned(&dead));
    std::mem::forget(pages.enter(&dead));
    drop(pinned);

    pages.keep_latched(root, &committer);
    store.kernel.mend_slot(dead.number(), &reaper);
    assert_eq!(
        (dead.slot().epoch(), dead.slot().pinned()),
        (NO_EPOCH, None),
        "the committer may wait for frames that these keep"
    );
    pages.let_go_of(root, &committer);
    assert_eq!(pages.census().building, 0);
}

/// It may not be run for long: then others would find the cache full.
#[test]
fn who_reads_the_map_for_what_nothing_leads_to_gives_up_its_snapshot_when_others_need_the_room() {
    let disk = Interrupted::new(SimDisk::new(1));
    let volume = Volume::create(
        &disk,
        Path::new("sablecat.db"),
        crate::pages::volume::tests::plain(512),
        [7; 16],
        false,
    )
    .expect("no faults");
    let store = Arc::new(Store::new(64, 6, Some(volume)));
    (0..1000).for_each(|n| store.put(&key(n), &[n as u8; 40]).unwrap());
    store.checkpoint().unwrap();
    let other = Arc::clone(&store);
    disk.before_next_read(move || (0..300).for_each(|n| other.put(&key(n * 7 % 1000), &[1; 40]).unwrap()));
    let (pages, seat) = (&store.kernel.pages, store.seat());
    let found = pages
        .settled(pages.volume().expect("there is one"), &seat)
        .and_then(|(pinned, _)| pages.show(PageId(1), pinned.at(), &seat, |_| ()));
    assert!(disk.was_interrupted());
    assert_eq!(found.unwrap_err().kind(), ErrorKind::SnapshotTooOld);
}

/// It has the checkpoint role meanwhile, so nobody else makes a checkpoint.
#[test]
fn who_reads_the_map_for_what_nothing_leads_to_waits_for_nobody_who_keeps_a_page_latched() {
    let store = Store::new(64, 6, Some(volume(1)));
    (0..1000).for_each(|n| store.put(&key(n), &[n as u8; 40]).unwrap());
    store.checkpoint().unwrap();
    let (pages, stopped) = (&store.kernel.pages, store.seat());
    let settled = || {
        let seat = store.seat();
        let (_pinned, settled) = pages.settled(pages.volume().expect("there is one"), &seat).unwrap();
        settled.iter().collect::<Vec<_>>()
    };
    let all = settled();
    let latched = all[all.len() / 2];
    pages.keep_latched(latched, &stopped);
    let (found, finds) = mpsc::channel();
    let beside = thread::scope(|scope| {
        scope.spawn(|| found.send(settled()).unwrap());
        let beside = finds.recv_timeout(Duration::from_secs(60));
        pages.let_go_of(latched, &stopped);
        beside
    });
    let others: Vec<_> = all.into_iter().filter(|&page| page != latched).collect();
    assert_eq!(beside, Ok(others), "all but that page");
}

/// However often it is changed; and the writer has its page latched each time that it looks for a frame.
#[test]
fn a_page_that_is_changed_again_and_again_takes_no_snapshot_from_others() {
    for volume in [None, Some(volume(1))] {
        let store = Store::new(64, 6, volume);
        store.put(&key(1), &[0; 40]).unwrap();
        let reader = store.begin(Isolation::Snapshot, true);
        let seen = || reader.get(&store.tree, &key(1), |value| value.map(<[u8]>::to_vec)).unwrap();
        assert_eq!(seen(), Some(vec![0; 40]));
        (0..2000).for_each(|n| store.put(&key(1), &[n as u8; 40]).unwrap());
        assert_eq!(seen(), Some(vec![0; 40]));
        drop(reader);
        store.assert_nothing_leaks();
    }
}

/// What was neither there in its state nor is there any more is none of its business, and the numbers of such
/// pages are used again.
#[test]
fn pages_that_come_and_go_beside_a_snapshot_do_not_take_it_from_its_owner() {
    for volume in [None, Some(volume(1))] {
        let store = Store::new(64, 6, volume);
        store.put(b"k", b"before").unwrap();
        let reader = store.begin(Isolation::Snapshot, true);
        let seen = || reader.get(&store.tree, b"k", |value| value.map(<[u8]>::to_vec)).unwrap();
        assert_eq!(seen().as_deref(), Some(&b"before"[..]));
        let mut numbers = Vec::new();
        for _ in 0..20 {
            (0..50).for_each(|n| store.put(&key(n), &[0; 40]).unwrap());
            (0..50).for_each(|n| assert!(store.remove(&key(n)).unwrap()));
            numbers.push(store.kernel.pages.page_ids().high_water());
        }
        assert_eq!(seen().as_deref(), Some(&b"before"[..]));
        assert!(numbers[19] < 64, "{numbers:?}");
        drop(reader);
        store.assert_nothing_leaks();
    }
}

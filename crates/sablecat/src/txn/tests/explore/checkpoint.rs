//! Checkpoints against commits: no change is missed, and what a checkpoint holds is one state.

use super::*;
use crate::txn::catalog;

/// What the newest checkpoint on the disk says of both records, read by a process that knows only the disk.
fn on_disk(disk: &SimDisk) -> u32 {
    let volume = Volume::open(disk, Path::new("sablecat.db"), false, false).unwrap();
    let superblock = volume.superblock();
    let region = Region::shareable(geometry(16, 3)).unwrap();
    region.header().visible.0.store(superblock.checkpoint.0, Ordering::SeqCst);
    region.header().checkpointed.store(superblock.checkpoint.0, Ordering::SeqCst);
    let kernel = kernel(region, Some(volume));
    kernel.pages.page_ids().assume_used_below(u64::from(superblock.pages_high)).unwrap();
    kernel.pages.blocks().assume_used_below(&superblock.bounds()).unwrap();
    let store = Store { kernel, tree: catalog::catalog_tree().clone() };
    store.verified();
    store.look_at_both(1).unwrap()
}

/// Gives back what is lost: a page that another participant has latched at that moment is not told that it
/// was moved, since here no latch is waited for, and the place before stays in use until this.
fn find_lost(store: &Store) {
    let (pages, seat) = (&store.kernel.pages, store.seat());
    // The old version that was there is to have left the cache.
    pages.sweep_all(&seat);
    pages.free_lost(&seat).unwrap().expect("nobody else is there");
}

fn checkpointed(works: &'static [Work], seed: u64, runs: usize, frames: usize, both: u32, beside: u32) {
    explore(seed, runs, move || {
        let disk = SimDisk::new(1);
        let volume = Volume::create(
            &disk,
            Path::new("sablecat.db"),
            crate::pages::volume::tests::plain(512),
            [7; 16],
            false,
        )
        .unwrap();
        let store = Store::with_two_leaves(frames, 6, Some(volume));
        store.checkpoint().unwrap();
        together(&store, works);
        let at_rest = on_disk(&disk);
        assert!(at_rest <= both);
        store.checkpoint().unwrap();
        assert_eq!(on_disk(&disk), both, "the last checkpoint came after all commits");
        find_lost(&store);
        store.check_end(both, beside);
        store.assert_nothing_leaks();
    });
}

#[test]
fn no_change_is_missed() {
    checkpointed(
        &[
            |store| (1..=4).for_each(|stamp| _ = store.set_both(stamp)),
            |store| _ = store.checkpoint().unwrap(),
        ],
        31,
        150,
        16,
        4,
        0,
    );
}

#[test]
fn no_change_is_missed_when_the_commit_is_helped() {
    checkpointed(
        &[
            |store| (1..=3).for_each(|stamp| _ = store.set_both(stamp)),
            |store| (0..2).for_each(|_| _ = store.checkpoint().unwrap()),
            |store| (0..2).for_each(|_| store.add_beside()),
        ],
        32,
        80,
        16,
        3,
        2,
    );
}

/// Versions get their blocks from sweeps and from checkpoints, and lose them to both.
#[test]
fn sweeps_write_and_evict_what_a_checkpoint_captures() {
    checkpointed(
        &[
            |store| (1..=3).for_each(|stamp| _ = store.set_both(stamp)),
            |store| (0..2).for_each(|_| _ = store.checkpoint().unwrap()),
            |store| store.sweep(5),
        ],
        33,
        120,
        16,
        3,
        0,
    );
}

/// A page is moved while its version there becomes an old one, which the next checkpoint may still have to
/// name.
#[test]
fn pages_are_moved_under_commits() {
    explore(34, 300, || {
        let disk = SimDisk::new(1);
        let volume = Volume::create(
            &disk,
            Path::new("sablecat.db"),
            crate::pages::volume::tests::plain(512),
            [7; 16],
            false,
        )
        .unwrap();
        let store = Store::with_two_leaves(16, 6, Some(volume));
        store.checkpoint().unwrap();
        // Both leaves go behind the blocks that they had, and leave them free.
        store.set_both(1);
        store.checkpoint().unwrap();
        together(
            &store,
            &[
                |store| (2..=3).for_each(|stamp| _ = store.set_both(stamp)),
                |store| (0..3).for_each(|_| _ = store.checkpoint_moving(Moving::Much).unwrap()),
                |store| _ = store.look_at_both(2),
            ],
        );
        assert!((1..=3).contains(&on_disk(&disk)));
        store.checkpoint().unwrap();
        assert_eq!(on_disk(&disk), 3);
        find_lost(&store);
        store.check_end(3, 0);
        store.assert_nothing_leaks();
    });
}

/// As a participant of another process does when it finds the maker of a checkpoint standing still, at
/// whatever step that is.
fn succeed(store: &Store) {
    let (pages, seat) = (&store.kernel.pages, store.seat());
    let holding = pages.region.role(crate::region::Work::Checkpoint).look();
    if holding.owner() != 0
        && let Some(held) = pages.succeed_checkpoint(holding, &seat)
    {
        pages.settle_berths(&held, &seat);
    }
}

/// The participant that moves pages and tells the others so is succeeded at any step, by one that moves them
/// again, and goes on at any step of its successor's.
#[test]
fn pages_are_moved_by_who_is_succeeded() {
    explore(35, 300, || {
        let disk = SimDisk::new(1);
        let path = Path::new("sablecat.db");
        let volume =
            Volume::create(&disk, path, crate::pages::volume::tests::plain(512), [7; 16], false).unwrap();
        let first = Store::with_two_leaves(16, 8, Some(volume));
        let region = first.kernel.pages.region.again().expect("memory");
        let other = kernel(region, Some(Volume::join(&disk, path, (false, false), None).expect("there")));
        let second = Arc::new(Store { kernel: other, tree: first.tree.clone() });
        first.checkpoint().unwrap();
        // Both leaves go behind the blocks that they had, and leave them free.
        first.set_both(1);
        first.checkpoint().unwrap();
        let spawn = |store: &Arc<Store>, work: Work| {
            let store = Arc::clone(store);
            thread::spawn(move || work(&store))
        };
        let threads = [
            spawn(&first, |store| _ = store.set_both(2)),
            spawn(&first, |store| (0..2).for_each(|_| _ = store.checkpoint_moving(Moving::Much).unwrap())),
            spawn(&second, |store| {
                for _ in 0..2 {
                    succeed(store);
                    store.checkpoint_moving(Moving::Much).unwrap();
                }
            }),
            spawn(&second, |store| {
                store.look_at_both(1);
                store.sweep(1);
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!((1..=2).contains(&on_disk(&disk)));
        for store in [&second, &first] {
            store.expect_named_to_be_used("at the end");
            store.checkpoint().unwrap();
            assert_eq!(on_disk(&disk), 2);
            store.kernel.pages.sweep_all(&store.seat());
            store.find_lost();
        }
        first.kernel.pages.sweep_all(&first.seat());
        first.find_lost();
        first.check_end(2, 0);
    });
}

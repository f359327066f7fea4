//! Large values against checkpoints, snapshots and sweeps: whole at every snapshot, named by the checkpoints
//! that see them and no others.

use super::*;
use crate::txn::catalog;

const KEY: &[u8] = b"large";
/// The fewest pages that go past the pool.
const PAGES: usize = 17;

fn large(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(PAGES * 448 / 8)
}

/// Looks at the value twice in one snapshot.
fn look(store: &Store) {
    let txn = store.begin(Isolation::Snapshot, true);
    let read = || txn.get_owned(&store.tree, KEY).unwrap();
    let once = read();
    assert!(once == read(), "a snapshot does not change");
    if let Some(value) = once {
        let stamp = u64::from_le_bytes(std::array::from_fn(|n| value[n]));
        assert!(value == large(stamp), "the value is of one piece");
    }
}

/// What the newest checkpoint on the disk names is what its tree reaches: nothing is missing, and nothing
/// would be lost room after a crash.
fn assert_disk_is_exact(disk: &SimDisk) {
    let volume = Volume::open(disk, Path::new("sablecat.db"), false, false).unwrap();
    let superblock = volume.superblock();
    let region = Region::shareable(geometry(40, 3)).unwrap();
    region.header().visible.0.store(superblock.checkpoint.0, Ordering::SeqCst);
    region.header().checkpointed.store(superblock.checkpoint.0, Ordering::SeqCst);
    let named = volume.scan().unwrap().pages;
    let kernel = kernel(region, Some(volume));
    kernel.pages.page_ids().assume_used_below(u64::from(superblock.pages_high)).unwrap();
    kernel.pages.blocks().assume_used_below(&superblock.bounds()).unwrap();
    let store = Store { kernel, tree: catalog::catalog_tree().clone() };
    let (_, reached) = store.verified();
    let wrong: Vec<_> = (1..named.bound())
        .filter(|&page| named.contains(page) != reached.contains(&PageId(page as u32)))
        .collect();
    assert!(
        wrong.is_empty(),
        "pages that the map names and the tree does not reach, or the other way round: {wrong:?}"
    );
}

fn explored(works: &'static [Work], seed: u64, runs: usize) {
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
        let store = Store::with_two_leaves(40, 6, Some(volume));
        store.put(KEY, &large(100)).unwrap();
        store.checkpoint().unwrap();
        together(&store, works);
        assert_disk_is_exact(&disk);
        store.assert_nothing_leaks();
        assert_disk_is_exact(&disk);
    });
}

#[test]
fn a_snapshot_reads_what_is_replaced_under_checkpoints() {
    explored(
        &[
            |store| (1..=2).for_each(|stamp| store.put(KEY, &large(stamp)).unwrap()),
            |store| (0..2).for_each(|_| look(store)),
            |store| (0..2).for_each(|_| _ = store.checkpoint().unwrap()),
        ],
        61,
        40,
    );
}

#[test]
fn ids_and_blocks_are_used_again_under_checkpoints_and_sweeps() {
    explored(
        &[
            |store| {
                for stamp in 1..=2 {
                    store.remove(KEY).unwrap();
                    store.put(b"other", &large(stamp)).unwrap();
                    store.remove(b"other").unwrap();
                    store.put(KEY, &large(stamp)).unwrap();
                }
            },
            |store| (0..3).for_each(|_| _ = store.checkpoint().unwrap()),
            |store| store.sweep(3),
        ],
        62,
        40,
    );
}

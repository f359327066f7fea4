//! Large values: stored past the pool, read past it, freed by one version; whatever checkpoints and snapshots
//! are there meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::access::{StoredValue, btree, long};
use crate::error::ErrorKind;
use crate::pages::tests::Census;
use crate::pages::volume::tests::interrupted::Interrupted;
use crate::types::FrameId;

/// Pages of a value that does not fit the smallest pool of these tests.
const PAGES: usize = 150;

/// A value that says in each of its words which it is, and where.
fn value(tag: u64, pages: usize) -> Vec<u8> {
    let words = (pages * 448) as u64 / 8;
    (0..words).flat_map(|n| (tag << 32 | n).to_le_bytes()).collect()
}

fn begin_reading(store: &Store) -> Transaction<'_> {
    store.begin(Isolation::Snapshot, true)
}

fn read(txn: &mut Transaction<'_>, store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    txn.get(&store.tree, key, |value| value.map(<[u8]>::to_vec)).unwrap()
}

impl Store {
    fn census(&self) -> Census {
        self.kernel.pages.census()
    }

    /// Pages that the map in force names.
    fn mapped(&self) -> Vec<u64> {
        let pages = self.kernel.pages.volume().unwrap().scan().unwrap().pages;
        (1..pages.bound()).filter(|&page| pages.contains(page)).collect()
    }
}

#[test]
fn a_value_larger_than_the_pool_is_stored_read_in_parts_and_freed() {
    let store = Store::new(40, 6, Some(volume(1)));
    let large = value(7, PAGES);
    store.put(b"key", &large).unwrap();
    assert!(store.census().current < 10, "its pages are not in the pool: {:?}", store.census());
    assert!(store.get(b"key") == Some(large.clone()));
    for (offset, len) in
        [(0, 1), (447, 2), (5000, 300), (448 * 20, 448 * 30), (large.len() - 3, 10), (large.len(), 5)]
    {
        let mut part = vec![0; len];
        let read = store.kernel.read_part(&store.tree, b"key", offset as u64, &mut part).unwrap().unwrap();
        assert_eq!(
            part[..read],
            large[offset..large.len().min(offset + len)],
            "{len} bytes from {offset} on"
        );
    }
    assert_eq!(store.kernel.value_len(&store.tree, b"key").unwrap(), Some(large.len() as u64));
    assert!(store.remove(b"key").unwrap());
    assert_eq!(store.get(b"key"), None);
    store.assert_nothing_leaks();
    assert_eq!(store.kernel.pages.page_ids().used_count(), 2, "page 0 and the root");
}

#[test]
fn a_large_value_is_in_neighbouring_blocks() {
    let store = Store::new(40, 6, Some(volume(1)));
    store.put(b"key", &value(7, PAGES)).unwrap();
    let run = PAGES - 1;
    let first =
        (1..).map(PageId).find(|&page| store.kernel.pages.region.entry(page).block().is_rest()).unwrap();
    let block = |n: usize| store.kernel.pages.region.entry(PageId(first.0 + n as u32)).block().block().0;
    assert!((0..run).all(|n| block(n) == block(0) + n as u64));
}

/// A checkpoint frees the blocks that it takes out of the map; but a snapshot may still read them.
#[test]
fn a_snapshot_reads_a_freed_value_while_checkpoints_pass_and_others_are_stored() {
    for named_before in [true, false] {
        let store = Store::new(200, 6, Some(volume(1)));
        store.put(b"old", &value(1, PAGES)).unwrap();
        if named_before {
            store.checkpoint().unwrap();
        }
        let mut snapshot = begin_reading(&store);
        store.put(b"old", &value(2, PAGES)).unwrap();
        for round in 0..4 {
            store.checkpoint().unwrap();
            store.put(format!("other {round}").as_bytes(), &value(10 + round, PAGES)).unwrap();
            assert!(
                read(&mut snapshot, &store, b"old") == Some(value(1, PAGES)),
                "round {round}, named before: {named_before}"
            );
        }
        drop(snapshot);
        let before = store.kernel.pages.page_ids().used_count();
        store.checkpoint().unwrap();
        assert_eq!(
            store.kernel.pages.page_ids().used_count(),
            before - PAGES as u64,
            "the old value is released at once, without a sweep"
        );
        store.assert_nothing_leaks();
    }
}

/// The blocks of a freed value are an epoch's and a snapshot's: whichever lets go last frees them.
#[test]
fn a_snapshot_reads_a_freed_value_that_an_epoch_named_before_and_after_it_is_dropped() {
    for dropped_first in [true, false] {
        let store = Store::new(200, 6, Some(volume(1)));
        let checkpoint = |drop: bool| {
            let seat = store.kernel.pages.participants.sit().unwrap();
            let before = store.kernel.pages.volume().unwrap().superblock();
            let describe = |at, next: &mut Superblock| {
                next.journal = Some(Journal::new());
                if drop {
                    next.epochs.clear();
                } else if before.epochs.is_empty() && before.checkpoint < at {
                    next.epochs.push(before.epoch());
                }
                Ok(())
            };
            store.kernel.pages.checkpoint(&seat, Moving::Little, describe).unwrap();
        };
        store.put(b"old", &value(1, PAGES)).unwrap();
        store.checkpoint().unwrap();
        let mut snapshot = Some(begin_reading(&store));
        store.put(b"old", &value(2, PAGES)).unwrap();
        for round in 0..5 {
            checkpoint(round > 0 && dropped_first);
            store.put(format!("other {round}").as_bytes(), &value(10 + round, PAGES)).unwrap();
            if round == 3 && !dropped_first {
                snapshot = None;
            }
            if let Some(snapshot) = &mut snapshot {
                assert!(
                    read(snapshot, &store, b"old") == Some(value(1, PAGES)),
                    "round {round}, dropped first: {dropped_first}"
                );
            }
        }
        drop(snapshot);
        let volume = store.kernel.pages.volume().unwrap();
        assert_eq!(volume.superblock().epochs.is_empty(), dropped_first);
        store.assert_nothing_leaks();
        checkpoint(true);
        store.assert_nothing_leaks();
    }
}

#[test]
fn overwriting_a_large_value_over_and_over_takes_the_room_of_a_few() {
    let store = Store::new(400, 6, Some(volume(1)));
    for round in 0..40 {
        store.put(b"key", &value(round, PAGES)).unwrap();
    }
    assert!(
        store.kernel.pages.blocks().bounds().sum() < 600 + 5 * PAGES as u64,
        "{}",
        store.kernel.pages.blocks().bounds().sum()
    );
    store.assert_nothing_leaks();
}

#[test]
fn a_checkpoint_names_no_page_of_a_value_that_is_stored_and_not_yet_published() {
    let store = Store::new(100, 6, Some(volume(1)));
    // Page ids that bear the mark of an earlier life.
    store.put(b"before", &value(1, PAGES)).unwrap();
    store.checkpoint().unwrap();
    store.remove(b"before").unwrap();
    let seat = store.kernel.pages.participants.sit().unwrap();
    store.kernel.pages.sweep_all(&seat);
    let large = value(2, PAGES / 2);
    let run = store.kernel.store_large(&seat, (store.tree.id, VolumeId::MAIN), &large).unwrap();
    assert!(u64::from(run.first().0) < PAGES as u64, "the same page ids are used again");
    store.checkpoint().unwrap();
    assert_eq!(store.mapped(), [1]);
    drop(run);
    drop(seat);
    store.put(b"after", &large).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.mapped().len(), PAGES / 2 + 1);
    store.assert_nothing_leaks();
}

#[test]
fn when_no_blocks_in_a_row_are_left_a_value_is_scattered() {
    let disk = SimDisk::new(3);
    let on_disk = Volume::create(
        &disk,
        Path::new("sablecat.db"),
        crate::pages::volume::tests::plain(512),
        [7; 16],
        false,
    )
    .unwrap();
    let store = Store::new(400, 6, Some(on_disk));
    // Every other value goes, so that there is room for two more, but not in a row.
    let short = |n: u64| value(n, 20);
    (0..30u64).for_each(|n| store.put(&n.to_be_bytes(), &short(n)).unwrap());
    store.checkpoint().unwrap();
    (0..30u64).step_by(2).for_each(|n| _ = store.remove(&n.to_be_bytes()).unwrap());
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    disk.set_capacity(1 << 30);
    let room = sablecat_os::disk::Disk::free_bytes(&disk, Path::new("")).unwrap();
    disk.set_capacity((1 << 30) - room + 20_000);
    store.put(b"large", &value(99, PAGES)).unwrap();
    assert!(store.get(b"large") == Some(value(99, PAGES)));
    let error = store.put(b"too large", &value(100, 2 * PAGES)).unwrap_err();
    assert!(error.is_full(), "{error}");
    disk.set_capacity(1 << 30);
    (1..30u64).step_by(2).for_each(|n| assert!(store.get(&n.to_be_bytes()) == Some(short(n))));
    store.assert_nothing_leaks();
}

#[test]
fn damage_in_a_large_value_is_an_error_and_nothing_else() {
    let disk = SimDisk::new(3);
    let on_disk = Volume::create(
        &disk,
        Path::new("sablecat.db"),
        crate::pages::volume::tests::plain(512),
        [7; 16],
        false,
    )
    .unwrap();
    let store = Store::new(40, 6, Some(on_disk));
    store.put(b"key", &value(1, PAGES)).unwrap();
    let pages = &store.kernel.pages;
    let first = (1..).map(PageId).find(|&page| pages.region.entry(page).block().is_rest()).unwrap();
    let at = (pages.region.entry(first).block().block().0 + 77) * 512;
    pages.volume().unwrap().file().write_at(&[0xee; 3], at + 100).unwrap();
    let error = store.kernel.read_one(&store.tree, b"key", |_| ()).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("damaged"), "{error}");
    let mut part = vec![0; 448 * 20];
    let read = store.kernel.read_part(&store.tree, b"key", 0, &mut part).unwrap();
    assert!(read == Some(part.len()) && part == value(1, PAGES)[..part.len()]);
}

/// A reader has looked up where a value is and not read it yet when the value is removed: its first page is
/// read into the pool for that, gets a last version, and a checkpoint frees the block, which is used for
/// something else.
#[test]
fn a_value_that_is_removed_under_its_reader_is_read_from_the_pool() {
    let disk = Interrupted::new(SimDisk::new(1));
    let on_disk = Volume::create(
        &disk,
        Path::new("sablecat.db"),
        crate::pages::volume::tests::plain(512),
        [7; 16],
        false,
    )
    .unwrap();
    let store = Arc::new(Store::new(240, 8, Some(on_disk)));
    store.put(b"key", &value(1, PAGES)).unwrap();
    let entry = |page| store.kernel.pages.region.entry(page);
    let first = PageId((1..).map(PageId).find(|&page| entry(page).block().is_rest()).unwrap().0 - 1);
    store.checkpoint().unwrap();
    for n in 0..200u64 {
        store.put(&n.to_be_bytes(), &value(n, 2)).unwrap();
    }
    assert_eq!(entry(first).word().frame(), FrameId::NONE, "the pool has turned over");
    // Nothing that is evicted while the reader is interrupted can be used before it has ended.
    let seat = store.kernel.pages.participants.sit().unwrap();
    store.kernel.pages.refill(&seat, 30, 30).unwrap();
    drop(seat);
    let block = entry(first).block().block();

    let mut snapshot = begin_reading(&store);
    assert_eq!(snapshot.value_len(&store.tree, b"key").unwrap(), Some(value(1, PAGES).len() as u64));
    let beside = Arc::clone(&store);
    disk.before_next_read(move || {
        assert!(beside.remove(b"key").unwrap());
        for n in 0..3 {
            beside.checkpoint().unwrap();
            beside.put(b"another", &value(n, 17)).unwrap();
        }
        let mut bytes = [0; 512];
        let read = beside.kernel.pages.volume().unwrap().read_block(block, &mut bytes);
        assert!(
            read.is_err() || bytes[4..8] != first.0.to_le_bytes(),
            "the block is used for something else"
        );
    });
    assert!(read(&mut snapshot, &store, b"key") == Some(value(1, PAGES)));
    assert!(disk.was_interrupted());
    drop(snapshot);
    store.assert_nothing_leaks();
}

/// Counts down when a thread ends.
struct Done<'a>(&'a AtomicU64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Everybody at once: values stored, replaced, removed and read at snapshots, while checkpoints and sweeps
/// run in a pool too small.
#[test]
fn large_values_of_many_threads_are_whole_at_every_snapshot_and_leak_nothing() {
    for seed in 0..4u64 {
        let store = Store::new(120, 12, Some(volume(seed)));
        let working = AtomicU64::new(3);
        std::thread::scope(|scope| {
            let (store, working) = (&store, &working);
            for own in 0..3u64 {
                scope.spawn(move || {
                    // Also if the thread fails, so that the others end.
                    let _done = Done(working);
                    let mut dice = Dice((seed * 3 + own) * 2 + 1);
                    for round in 0..60 {
                        let key = [own as u8, dice.below(3) as u8];
                        if dice.below(4) == 0 {
                            store.remove(&key).unwrap();
                        } else {
                            let pages = [3, 17, 40, 130][dice.below(4) as usize];
                            store.put(&key, &value(own << 16 | round, pages)).unwrap();
                        }
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(move || {
                    while working.load(Ordering::Acquire) > 0 {
                        let mut snapshot = begin_reading(store);
                        let all = |snapshot: &mut Transaction<'_>| -> Result<Vec<Option<Vec<u8>>>> {
                            let keys = (0..9u8).map(|n| [n / 3, n % 3]);
                            keys.map(|key| snapshot.get(&store.tree, &key, |value| value.map(<[u8]>::to_vec)))
                                .collect()
                        };
                        let (once, again) = match (all(&mut snapshot), all(&mut snapshot)) {
                            (Ok(once), Ok(again)) => (once, again),
                            (Err(error), _) | (_, Err(error)) => {
                                assert!(
                                    error.kind() == ErrorKind::SnapshotTooOld || error.is_full(),
                                    "{error}"
                                );
                                continue;
                            }
                        };
                        assert!(once == again, "a snapshot does not change");
                        for found in once.into_iter().flatten() {
                            let tag = u64::from_le_bytes(found[..8].try_into().unwrap()) >> 32;
                            assert!(found == value(tag, found.len() / 448), "the value is of one piece");
                        }
                    }
                });
            }
            while working.load(Ordering::Acquire) > 0 {
                store.checkpoint().unwrap();
            }
        });
        store.assert_nothing_leaks();
    }
}

#[test]
fn in_memory_alone_values_are_in_frames_and_freed_by_one() {
    let store = Store::new(400, 6, None);
    for round in 0..10 {
        store.put(b"key", &value(round, PAGES)).unwrap();
        assert!(store.get(b"key") == Some(value(round, PAGES)));
    }
    assert!(store.remove(b"key").unwrap());
    store.assert_nothing_leaks();
    assert_eq!(long::page_count(value(0, PAGES).len() as u64, 512), PAGES as u64);
}

#[test]
fn a_value_that_says_it_is_longer_than_the_environment_is_damage_and_takes_no_memory() {
    let store = Store::new(64, 2, None);
    store.put(b"key", b"short").unwrap();
    let seat = store.seat();
    let len = u64::MAX >> 8;
    // SAFETY: the test has one thread and no snapshot.
    let mut direct = unsafe { Direct::new(&store.kernel.pages, &seat) };
    btree::put(
        &mut direct,
        &store.tree.tree(),
        b"key",
        StoredValue::Long { first_page: store.tree.root, len },
    )
    .unwrap();
    drop(direct);
    drop(seat);
    let error = store.kernel.get_one(&store.tree, b"key").unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let mut some = [0; 16];
    assert!(store.kernel.read_part(&store.tree, b"key", 1 << 40, &mut some).unwrap_err().is_corruption());
}

/// A process with a handle of a database that another process has removed looks at what was its root, which
/// may be anything by now: also a page of a value that is only just being stored, and then is not.
#[test]
fn a_page_of_a_value_that_came_to_nothing_is_not_left_in_memory_under_a_number_that_is_free() {
    let store = Store::new(400, 6, Some(volume(1)));
    let (storing, looking) = (store.seat(), store.seat());
    let run = store.kernel.store_large(&storing, (store.tree.id, VolumeId::MAIN), &value(7, PAGES)).unwrap();
    for n in [1, 40, PAGES - 1] {
        let (id, root) = (TreeId(FIRST_TREE), PageId(run.first().0 + n as u32));
        let pinned = store.kernel.pages.pinned(&looking);
        let at = pinned.at();
        let tree = store.tree.with(|tree| (tree.id, tree.root) = (id, root));
        assert!(!store.kernel.has_name(&tree, at, &looking).unwrap());
        drop(pinned);
    }
    drop(run);
    drop((storing, looking));
    for n in 0..1000u32 {
        store.put(&n.to_be_bytes(), &[n as u8; 100]).unwrap();
    }
    assert_eq!(store.verified().0.len(), 1000);
    store.assert_nothing_leaks();
}

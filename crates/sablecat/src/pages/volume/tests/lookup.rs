//! Lookups while checkpoints reuse the map under them.

use std::path::PathBuf;
use std::sync::Arc;

use super::interrupted::Interrupted;
use super::*;

#[test]
fn a_lookup_whose_map_blocks_are_reused_under_it_looks_again() {
    let disk = Interrupted::new(disk(1));
    let store = Arc::new(Store::create(&disk, 512).expect("no faults"));
    for generation in 1..30 {
        store.checkpoint(&(1..300).map(|page| (page, Some(generation))).collect()).expect("no faults");
        // Between the lookup's look at the root and its read, three checkpoints go by: every block of its map
        // is something else.
        let interrupting = Arc::clone(&store);
        let hook = move || {
            for stamp in 100..103 {
                let changes = (1..300).map(|page| (page, Some(stamp + generation))).collect();
                interrupting.checkpoint(&changes).expect("no faults");
            }
        };
        disk.before_next_read(hook);
        let (first, entries) = store.volume.lookup_leaf(PageId(77)).expect("the map is whole at all times");
        assert_eq!(first, PageId(56));
        let mut bytes = [0; 512];
        store.volume.read_block(entries[77 - 56].block(), &mut bytes).expect("no damage");
        assert_eq!(bytes[4..], image(512, 77, 102 + generation)[4..], "the newest generation's page");
    }
}

#[test]
fn lookups_beside_checkpoints_see_one_generation_or_the_next() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&(1..2000).map(|page| (page, Some(0))).collect()).expect("no faults");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, done) = (&store, &done);
        for n in 0..2 {
            scope.spawn(move || {
                let mut page = n;
                while !done.load(Relaxed) {
                    page = (page * 7 + 13) % 1999 + 1;
                    let (first, entries) = store.volume.lookup_leaf(PageId(page)).expect("never damaged");
                    assert_ne!(entries[(page - first.0) as usize], SealedBlock::NONE);
                }
            });
        }
        for stamp in 1..60 {
            store
                .checkpoint(&(1..2000).step_by(stamp).map(|page| (page, Some(stamp as u64))).collect())
                .expect("no faults");
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn a_volume_on_the_machines_own_disk_direct_or_not() {
    let directory: PathBuf = std::env::temp_dir().join(format!("sablecat-volume-{}", std::process::id()));
    let path = directory.join("sablecat.db");
    let host = sablecat_os::disk::HostDisk;
    host.create_dir_all(&directory).expect("a temporary directory");
    for (page_size, direct) in [(512, false), (512, true), (4096, false), (4096, true), (65536, true)] {
        let volume = Volume::create(&host, &path, plain(page_size), UUID, direct).expect("a new volume");
        assert!(page_size >= 4096 || !volume.file().is_direct());
        let store = Store::over(volume).expect("room");
        let changes: Changes = (1..300).map(|page| (page, Some(7))).collect();
        store.checkpoint(&changes).expect("room on the disk");
        let model = after(&Model::new(), &changes);
        store.assert_is(&model);
        drop(store);
        let store =
            Store::over(Volume::open(&host, &path, direct, false).expect("it is there")).expect("room");
        store.assert_is(&model);
        store.learn_free().expect("no damage");
        store.checkpoint(&changes.keys().map(|&page| (page, None)).collect()).expect("room on the disk");
        let _ = store.volume.give_back_tail(&store.blocks, FreeEnd::Steps).expect("no faults");
        drop(store);
        Volume::open(&host, &path, direct, true).expect("it is there, for reading");
    }
    for name in host.list(&directory).expect("it is there") {
        host.remove(&directory.join(name)).expect("a file");
    }
    std::fs::remove_dir(&directory).expect("empty");
}

//! What an environment takes on disk: no more than its data needs, for long.

use std::path::{Path, PathBuf};

use sablecat::Durability;
use sablecat_check::setting::{DIRECTORY, Setting};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

fn log_files(disk: &SimDisk) -> Vec<PathBuf> {
    let directory = Path::new(DIRECTORY).join("log");
    disk.list(&directory).unwrap().into_iter().map(|name| directory.join(name)).collect()
}

fn small() -> Setting {
    Setting::small(512, Durability::Sync)
}

#[test]
fn a_clean_close_leaves_no_log() {
    let disk = SimDisk::new(1);
    for life in 0..3u32 {
        let env = small().builder_on(&disk).open(DIRECTORY).unwrap();
        assert!(!env.recovery().recovered);
        let db = env.database("records").unwrap();
        assert_eq!(db.len().unwrap(), u64::from(life) * 500);
        for n in 0..500u32 {
            db.insert((life * 500 + n).to_be_bytes(), [7; 300]).unwrap();
        }
        assert!(!log_files(&disk).is_empty());
        drop(db);
        env.close().unwrap();
        assert_eq!(log_files(&disk), Vec::<PathBuf>::new());
    }
}

#[test]
fn an_environment_without_its_log_is_not_taken_for_a_closed_one() {
    let disk = SimDisk::new(2);
    let env = small().builder_on(&disk).open(DIRECTORY).unwrap();
    env.database("records").unwrap().insert("key", "value").unwrap();
    let crashed = disk.crash_as(Survival::Everything, 1);
    for path in log_files(&crashed) {
        crashed.remove(&path).unwrap();
    }
    assert!(small().builder_on(&crashed).open(DIRECTORY).unwrap_err().is_corruption());
}

/// Both copies of the newest superblock are lost: what the one before says is not the last word, and is not taken for it.
#[test]
fn a_lost_superblock_is_noticed_by_the_log() {
    let forget = |disk: &SimDisk, slot: u64| {
        let file = disk.open(&Path::new(DIRECTORY).join("sablecat.db"), How::default()).unwrap();
        file.write_at(&[0xee; 8192], slot * 65536).unwrap();
    };
    let opened = |disk: &SimDisk| small().builder_on(disk).open(DIRECTORY).map(|_| ());
    let disk = SimDisk::new(3);
    // Generation 1 is that of the empty volume, 2 that of opening, 3 that of closing.
    let env = small().builder_on(&disk).open(DIRECTORY).unwrap();
    env.database("records").unwrap().insert("key", "value").unwrap();
    let crashed = disk.crash_as(Survival::Everything, 1);
    forget(&crashed, 0);
    assert!(opened(&crashed).unwrap_err().is_corruption(), "back to an empty volume");
    env.close().unwrap();
    let closed = disk.crash_as(Survival::Everything, 1);
    forget(&closed, 1);
    assert!(opened(&closed).unwrap_err().is_corruption(), "back to the life before closing");
    opened(&disk).unwrap();
}

#[test]
fn a_data_store_that_crashed_may_be_opened_with_transactions() {
    let disk = SimDisk::new(4);
    let env = small().builder_on(&disk).open(DIRECTORY).unwrap();
    env.database("records").unwrap().insert("first", "kept").unwrap();
    env.close().unwrap();
    let mut store = small().builder_on(&disk).open_data_store(DIRECTORY).unwrap();
    let table = store.database("records").unwrap();
    store.insert(&table, "second", "kept").unwrap();
    store.checkpoint().unwrap();
    store.insert(&table, "third", "lost").unwrap();
    let disk = disk.crash(5);
    drop(small().builder_on(&disk).open_data_store(DIRECTORY).unwrap());
    let env = small().builder_on(&disk).open(DIRECTORY).unwrap();
    assert_eq!(env.database("records").unwrap().len().unwrap(), 2);
}

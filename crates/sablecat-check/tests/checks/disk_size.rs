//! What an environment takes on disk: no more than its data needs, for long.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::path::{Path, PathBuf};

use sablecat::{Compression, Durability, Env};
use sablecat_check::dice::Dice;
use sablecat_check::engine;
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

#[test]
fn a_removed_database_takes_no_room_after_a_crash() {
    let disk = SimDisk::new(3);
    let env = small().builder_on(&disk).open(DIRECTORY).unwrap();
    let (kept, removed) = (env.database("kept").unwrap(), env.database("removed").unwrap());
    for n in 0..100u32 {
        kept.insert(n.to_be_bytes(), [7; 100]).unwrap();
        removed.insert(n.to_be_bytes(), [7; 100]).unwrap();
    }
    assert!(env.remove_database("removed").unwrap());
    // The log has the database from its first record to its removal, and nothing of its pages.
    let crashed = disk.crash_as(Survival::Everything, 1);
    let env = small().builder_on(&crashed).open(DIRECTORY).unwrap();
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.databases, report.pages_unreachable), (vec![], 1, 0));
}

/// Both copies of the newest superblock are lost: what the one before says is not the last word, and is not
/// taken for it.
#[test]
fn a_lost_superblock_is_noticed_by_the_log() {
    let forget = |disk: &SimDisk, slot: u64| {
        let file = disk.open(&Path::new(DIRECTORY).join("sablecat.db"), How::default()).unwrap();
        for copy in [slot * 65536, if slot == 0 { 131_072 - 4096 } else { 8192 }] {
            file.write_at(&[0xee; 4096], copy).unwrap();
        }
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

/// Numbers below `count`, in an order of the seed's.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    Dice::new(seed).shuffle(&mut numbers);
    numbers
}

fn insert(env: &Env, numbers: &[u32]) {
    let db = env.database("records").unwrap();
    for chunk in numbers.chunks(500) {
        db.insert_batch(chunk.iter().map(|n| (n.to_be_bytes(), [*n as u8; 100]))).unwrap();
    }
}

fn volume_bytes(env: &Env) -> u64 {
    env.stats().unwrap().volume_bytes
}

const RECORDS: u32 = 60_000;

/// An environment of which nine tenths were deleted, here and there; and the bytes of one that never had more
/// than the rest.
fn thinned(disk: &SimDisk) -> (Env, u64) {
    let setting = Setting {
        page_size: 4096,
        trailer: 0,
        cipher: None,
        compression: Compression::None,
        cache: 64 << 20,
        durability: Durability::NoSync,
        log_buffer: 1 << 20,
        log_segment: 1 << 20,
        journal: None,
        sync_io: false,
        volumes: 0,
    };
    let (kept, gone) = (
        shuffled(RECORDS, 1)[..RECORDS as usize / 10].to_vec(),
        shuffled(RECORDS, 1)[RECORDS as usize / 10..].to_vec(),
    );
    let fresh = setting.builder_on(&SimDisk::new(1)).open(DIRECTORY).unwrap();
    insert(&fresh, &kept);
    fresh.checkpoint().unwrap();
    let env = setting.builder_on(disk).open(DIRECTORY).unwrap();
    insert(&env, &shuffled(RECORDS, 2));
    env.checkpoint().unwrap();
    let db = env.database("records").unwrap();
    for n in gone {
        db.remove(n.to_be_bytes()).unwrap();
    }
    assert!(volume_bytes(&env) > 5 * volume_bytes(&fresh));
    let bytes = volume_bytes(&fresh);
    (env, bytes)
}

#[test]
fn the_file_shrinks_with_checkpoints_after_deletions() {
    let disk = SimDisk::new(5);
    let (env, fresh) = thinned(&disk);
    let before = engine::state(&env).unwrap();
    let mut rounds = 0;
    while 2 * volume_bytes(&env) > 3 * fresh {
        rounds += 1;
        assert!(rounds < 10, "{} bytes are left, {fresh} would do", volume_bytes(&env));
        env.checkpoint().unwrap();
    }
    assert!(engine::state(&env).unwrap() == before);
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    drop(env);
    let disk = disk.crash(1);
    let env = Env::builder().disk(std::sync::Arc::new(disk)).open(DIRECTORY).unwrap();
    assert!(engine::state(&env).unwrap() == before);
}

#[test]
fn compaction_leaves_no_holes() {
    let disk = SimDisk::new(6);
    let (env, fresh) = thinned(&disk);
    let report = env.compact().unwrap();
    assert!(report.moved > 0);
    assert_eq!(report.bytes_after, volume_bytes(&env));
    assert!(2 * report.bytes_after <= 3 * fresh, "{report:?}, and {fresh} would do");
    let again = env.compact().unwrap();
    assert_eq!((again.moved, again.bytes_after), (0, report.bytes_after));
    // All of it is behind the end that there is.
    let before = engine::state(&env).unwrap();
    drop(env);
    let env = Env::builder().disk(std::sync::Arc::new(disk)).open(DIRECTORY).unwrap();
    assert!(engine::state(&env).unwrap() == before);
}

/// A disk without a byte to spare: what deletions free is enough to work with, and moving asks for no more.
#[test]
fn moving_needs_no_room() {
    let disk = SimDisk::new(7);
    let (env, _) = thinned(&disk);
    env.checkpoint().unwrap();
    disk.set_capacity(0);
    let before = volume_bytes(&env);
    let state = engine::state(&env).unwrap();
    env.compact().unwrap();
    assert!(volume_bytes(&env) < before / 2);
    assert!(engine::state(&env).unwrap() == state);
}

/// A page that cannot be read is not moved; all others are, and a reader of it is told.
#[test]
fn a_damaged_page_stays_where_it_is() {
    let disk = SimDisk::new(8);
    let (env, _) = thinned(&disk);
    env.checkpoint().unwrap();
    let path = Path::new(DIRECTORY).join("sablecat.db");
    let file = disk.open(&path, How::default()).unwrap();
    let state = engine::state(&env).unwrap();
    let end = file.len().unwrap();
    let mut block = vec![0; 4096];
    // The last leaf in the file, as far as anything is there.
    let at = (0..end / 4096).rev().map(|n| n * 4096).find(|&at| {
        file.read_at(&mut block, at).unwrap();
        block[20] == 1 && block[16] >= 16 && file.write_at(&[block[3000] ^ 1], at + 3000).is_ok()
    });
    let at = at.unwrap();
    env.compact().unwrap();
    assert!(engine::state(&env).unwrap() == state, "it is in memory");
    assert!(volume_bytes(&env) <= end && at < end);
    env.close().unwrap();
    let env = Env::builder().disk(std::sync::Arc::new(disk)).open(DIRECTORY).unwrap();
    let read = engine::state(&env);
    assert!(read.is_err() || read.unwrap() == state);
}

#[test]
fn a_clean_close_gives_back_the_free_end_of_the_file() {
    let disk = SimDisk::new(9);
    let setting = Setting { page_size: 4096, durability: Durability::NoSync, ..small() };
    let env = setting.builder_on(&disk).open(DIRECTORY).unwrap();
    insert(&env, &(0..RECORDS).collect::<Vec<_>>());
    env.close().unwrap();
    let file = disk.open(&Path::new(DIRECTORY).join("sablecat.db"), How::default()).unwrap();
    let length = file.len().unwrap();
    let env = setting.builder_on(&disk).open(DIRECTORY).unwrap();
    // With the head of the file.
    let needed = env.stats().unwrap().blocks * 4096 + 131_072;
    // A sixteenth is kept in reserve; the file's length is a multiple of 64 KiB; a few blocks below its end
    // are those of the generation before.
    assert!(length < needed + needed / 16 + 2 * 65536, "{length} bytes, {needed} in use");
    assert_eq!(env.database("records").unwrap().len().unwrap(), u64::from(RECORDS));
}

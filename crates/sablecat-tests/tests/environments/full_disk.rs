//! A full disk locks nobody out: an environment is opened, read, thinned out and made smaller without a byte
//! free.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sablecat::{Builder, Durability, Env, ErrorKind, Journal};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

fn builder(disk: &Arc<SimDisk>) -> Builder {
    Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).durability(Durability::NoSync)
}

fn open(disk: &Arc<SimDisk>) -> Env {
    builder(disk).open("env").unwrap()
}

/// From now on the disk is as full as it can be.
fn fill_up(disk: &SimDisk) {
    disk.fill_up();
    assert_eq!(disk.free_bytes(Path::new("env")).unwrap(), 0);
}

/// The disk as it is if everybody is killed now, and the machine goes on.
fn killed(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.crash_as(Survival::Everything, 1))
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn length(disk: &SimDisk) -> u64 {
    disk.open(Path::new("env/sablecat.db"), How::default()).unwrap().len().unwrap()
}

/// Bytes that the file takes of the disk.
fn space(disk: &SimDisk) -> u64 {
    disk.open(Path::new("env/sablecat.db"), How::default()).unwrap().space().unwrap()
}

/// That the environment has these records, and is as it should be.
fn check(env: &Env, model: &BTreeMap<u32, Vec<u8>>) {
    let db = env.database("records").unwrap();
    let found: Vec<_> = db.range(..).unwrap().collect::<sablecat::Result<_>>().unwrap();
    assert!(found.into_iter().eq(model.iter().map(|(n, value)| (key(*n).to_vec(), value.clone()))));
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// Everything that an owner must be able to do, and that there is room afterwards, by what becomes smaller.
fn thin_out(disk: &Arc<SimDisk>, mut model: BTreeMap<u32, Vec<u8>>, size: fn(&SimDisk) -> u64) {
    let env = open(disk);
    check(&env, &model);
    env.close().unwrap();
    let before = size(disk);
    // One record a time to begin with: the first has no more room than was kept for it.
    for some in [1, 10, 100, 1000] {
        let env = open(disk);
        let db = env.database("records").unwrap();
        for n in model.keys().copied().take(some).collect::<Vec<_>>() {
            assert!(db.remove(key(n)).unwrap());
            model.remove(&n);
        }
        drop(db);
        env.compact().unwrap();
        check(&env, &model);
        env.close().unwrap();
        fill_up(disk);
    }
    assert!(size(disk) < before - (1 << 20), "{} of {before} bytes", size(disk));
    disk.set_capacity(u64::MAX);
    check(&open(disk), &model);
}

fn filled(disk: &Arc<SimDisk>) -> (Env, BTreeMap<u32, Vec<u8>>) {
    let model: BTreeMap<_, _> =
        (0..3000).map(|n| (n, vec![n as u8; if n % 50 == 0 { 100_000 } else { 1000 }])).collect();
    let env = open(disk);
    let db = env.database("records").unwrap();
    model.iter().for_each(|(n, value)| db.insert(key(*n), value).unwrap());
    drop(db);
    (env, model)
}

#[test]
fn an_environment_that_was_closed_is_of_use_on_a_full_disk() {
    let disk = Arc::new(SimDisk::new(1));
    let (env, model) = filled(&disk);
    env.close().unwrap();
    fill_up(&disk);
    thin_out(&disk, model, length);
}

#[test]
fn an_environment_that_was_killed_is_of_use_on_a_full_disk() {
    let disk = Arc::new(SimDisk::new(1));
    let (env, mut model) = filled(&disk);
    env.checkpoint().unwrap();
    let db = env.database("records").unwrap();
    for n in 0..5 {
        db.insert(key(n), "changed").unwrap();
        model.insert(n, b"changed".to_vec());
    }
    env.sync().unwrap();
    let left = killed(&disk);
    fill_up(&left);
    thin_out(&left, model, length);
}

/// What is free inside the file goes back to the disk when it is left, but for what is written first; and
/// what is on it is all that was there.
#[test]
fn a_file_that_is_left_takes_little_more_than_what_is_in_use() {
    let disk = Arc::new(SimDisk::new(1));
    let (env, mut model) = filled(&disk);
    let db = env.database("records").unwrap();
    // So much that the last checkpoint does not move all of it.
    for n in 3000..3800 {
        db.insert(key(n), [n as u8; 100_000]).unwrap();
        model.insert(n, vec![n as u8; 100_000]);
    }
    env.checkpoint().unwrap();
    // Nearly all pages anew.
    for (n, value) in model.iter_mut().skip(100) {
        value.fill(!*n as u8);
        db.insert(key(*n), value).unwrap();
    }
    drop(db);
    env.checkpoint().unwrap();
    let stats = env.stats().unwrap();
    let (running, used) = (space(&disk), stats.blocks * stats.page_size);
    env.close().unwrap();
    let left = space(&disk);
    let reserve = (used / 16).clamp(96 << 10, 1 << 20);
    assert!(running > used + 5 * reserve, "{running} of which {used}");
    assert!(left < used + 4 * reserve, "{left} of which {used}");
    assert!(left > used + 3 * reserve / 2, "{left} of which {used}: what is written first has none");
    // The next life uses what was kept, and leaves as much again.
    let env = open(&disk);
    let db = env.database("records").unwrap();
    for n in 4000..7000 {
        db.insert(key(n), [1; 1000]).unwrap();
        model.insert(n, vec![1; 1000]);
    }
    drop(db);
    env.sync().unwrap();
    let left = killed(&disk);
    fill_up(&left);
    thin_out(&left, model.clone(), space);
    env.close().unwrap();
    fill_up(&disk);
    thin_out(&disk, model, space);
}

/// Whatever moment the disk is full at, the same environment goes on when there is room again, and its
/// checkpoints have lost no block.
#[test]
fn a_checkpoint_that_found_no_room_can_be_made_later() {
    let disk = Arc::new(SimDisk::new(1));
    let (env, mut model) = filled(&disk);
    env.checkpoint().unwrap();
    let db = env.database("records").unwrap();
    let blocks = |env: &Env| {
        env.checkpoint().unwrap();
        env.checkpoint().unwrap();
        env.stats().unwrap().blocks
    };
    for round in 0..5u8 {
        let change = |n: u32| (n, vec![round; 1000]);
        for (n, value) in (0..3000).filter(|n| n % 50 != 0).map(change) {
            db.insert(key(n), &value).unwrap();
            model.insert(n, value);
        }
        disk.fill_up();
        for _ in 0..3 {
            assert_eq!(env.checkpoint().unwrap_err().kind(), ErrorKind::DiskFull);
        }
        assert!(db.remove(key(u32::from(round))).unwrap());
        model.remove(&u32::from(round));
        disk.set_capacity(u64::MAX);
        blocks(&env);
    }
    let now = blocks(&env);
    drop(db);
    env.close().unwrap();
    let env = open(&disk);
    assert_eq!(env.stats().unwrap().blocks.max(now), blocks(&env).max(now), "no block was lost");
    let db = env.database("records").unwrap();
    assert!(model.iter().all(|(n, value)| db.get(key(*n)).unwrap().as_deref() == Some(value)));
    assert_eq!(db.len().unwrap(), model.len() as u64);
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// A last checkpoint that finds no room loses nothing of what was committed, waited for or not: the log has
/// it.
#[test]
fn what_was_committed_is_there_although_closing_found_no_room() {
    let disk = Arc::new(SimDisk::new(1));
    let (env, mut model) = filled(&disk);
    env.checkpoint().unwrap();
    fill_up(&disk);
    let db = env.database("records").unwrap();
    let mut changed = Vec::new();
    for (n, value) in &mut model {
        value.fill(!*n as u8);
        match db.insert(key(*n), &value) {
            Ok(_) => changed.push(*n),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull);
                break;
            }
        }
    }
    drop(db);
    assert_eq!(env.close().unwrap_err().kind(), ErrorKind::DiskFull);
    disk.set_capacity(u64::MAX);
    let db = open(&disk).database("records").unwrap();
    assert!(changed.len() > 50, "{} were committed", changed.len());
    assert!(changed.into_iter().all(|n| db.get(key(n)).unwrap().as_ref() == Some(&model[&n])));
}

/// Commits for which the log had room, and the volume has none: each opening has them, and adds what there
/// is room for in the log; when there is room, all goes on.
#[test]
fn who_opens_an_environment_reads_it_although_there_is_no_room_for_a_checkpoint() {
    let plain: fn(Builder) -> Builder = |builder| builder;
    for with in [plain, |builder| builder.journal(Journal::new())] {
        let open = |disk: &Arc<SimDisk>| with(builder(disk)).open("env");
        let mut disk = Arc::new(SimDisk::new(1));
        let (env, mut model) = filled(&disk);
        env.close().unwrap();
        let env = open(&disk).unwrap();
        let db = env.database("records").unwrap();
        // More than is free in the file.
        for n in 10_000..20_000 {
            db.insert(key(n), [n as u8; 1000]).unwrap();
            model.insert(n, vec![n as u8; 1000]);
        }
        env.sync().unwrap();
        disk = killed(&disk);
        let (mut unsaved, mut changed) = (0, 0);
        for life in 0..8 {
            fill_up(&disk);
            // What the superblock is to say first needs a checkpoint.
            let other = builder(&disk).journal(Journal::new().epochs(3)).open("env");
            assert_eq!(other.unwrap_err().kind(), ErrorKind::DiskFull);
            fill_up(&disk);
            let env = open(&disk).unwrap();
            assert!(env.recovery().recovered && env.recovery().commits >= 10_000);
            assert_eq!(env.stats().unwrap().checkpoint, env.recovery().checkpoint);
            check(&env, &model);
            let db = env.database("records").unwrap();
            for n in life * 10..life * 10 + 3 {
                match db.insert(key(n), "changed") {
                    Ok(_) => {
                        model.insert(n, b"changed".to_vec());
                        changed += 1;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::DiskFull),
                }
            }
            match env.checkpoint() {
                Err(error) => assert_eq!(error.kind(), ErrorKind::DiskFull),
                Ok(_) => panic!("there was room for a checkpoint in life {life}"),
            }
            check(&env, &model);
            if life % 2 == 0 {
                unsaved += usize::from(env.close().is_err_and(|error| error.kind() == ErrorKind::DiskFull));
            } else {
                env.sync().unwrap();
                disk = killed(&disk);
            }
        }
        assert_eq!(unsaved, 4);
        assert!(changed > 0, "nothing could be changed");
        disk.set_capacity(u64::MAX);
        let env = open(&disk).unwrap();
        check(&env, &model);
        env.database("records").unwrap().insert(key(0), "there is room").unwrap();
        model.insert(0, b"there is room".to_vec());
        env.close().unwrap();
        let env = open(&disk).unwrap();
        assert!(env.recovery().closed);
        check(&env, &model);
    }
}

//! Caches far too small: long snapshots, many threads, checkpoints in between. Answers are right or "too
//! old", never wrong.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sablecat::{Durability, Env, ErrorKind, TxnOptions};
use sablecat_check::dice::Dice;
use sablecat_check::setting::{DIRECTORY, Setting};
use sablecat_check::{alike, engine};
use sablecat_os::sim::{SimDisk, Survival};

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(n: u64, round: u64) -> Vec<u8> {
    let mut value = vec![(n ^ round) as u8; 60 + (n % 40) as usize];
    value[..8].copy_from_slice(&round.to_le_bytes());
    value
}

/// The smallest cache: 256 pages.
fn tiny(disk: &SimDisk, page_size: usize) -> Env {
    let setting = Setting {
        log_buffer: 1 << 20,
        log_segment: 1 << 20,
        ..Setting::small(page_size, Durability::NoSync)
    };
    setting.builder_on(disk).open(DIRECTORY).expect("opened")
}

#[test]
fn a_long_snapshot_shows_its_state_or_is_given_up() {
    const RECORDS: u64 = 3000;
    let (mut right, mut given_up) = (0, 0);
    for page_size in [512, 4096] {
        let env = tiny(&SimDisk::new(1), page_size);
        let db = env.database("d").expect("created");
        for n in 0..RECORDS {
            db.insert(key(n), value(n, 0)).expect("inserted");
        }
        let mut dice = Dice::new(7);
        let mut kept: Vec<(u64, sablecat::ReadTxn, bool)> = Vec::new();
        for round in 1..=30 {
            kept.push((round - 1, env.snapshot().expect("a seat"), false));
            if kept.len() > 4 {
                kept.remove(dice.index(4));
            }
            // A round changes everything, or a few records many times over.
            for n in 0..RECORDS {
                db.insert(key(n), value(n, round)).expect("writers are never refused");
            }
            for (state, snapshot, too_old) in &mut kept {
                for _ in 0..20 {
                    let n = dice.below(RECORDS);
                    match snapshot.get(&db, key(n)) {
                        Ok(found) => {
                            assert!(!*too_old, "a snapshot that was given up came back");
                            assert_eq!(found, Some(value(n, *state)), "record {n} at state {state}");
                            right += 1;
                        }
                        Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {
                            *too_old = true;
                            given_up += 1;
                        }
                        Err(error) => panic!("{:?}: {error}", error.kind()),
                    }
                }
            }
        }
        drop(kept);
        alike::clean(&env).expect("sound");
    }
    assert!(given_up > 0, "the cache was small enough: {right} right, {given_up} given up");
}

/// Checkpoints run all the time, so that most versions are younger than one's snapshot; writers get through
/// all the same.
#[test]
fn money_moved_by_many_threads_is_neither_made_nor_lost() {
    const ACCOUNTS: u64 = 1500;
    for seed in 0..3 {
        let disk = SimDisk::new(seed);
        let env = tiny(&disk, [1024, 2048, 4096][seed as usize % 3]);
        let db = env.database("accounts").expect("created");
        for n in 0..ACCOUNTS {
            db.insert(key(n), [&1000u64.to_le_bytes()[..], &[0; 90]].concat()).expect("inserted");
        }
        env.checkpoint().expect("durable");
        let stop = AtomicBool::new(false);
        let (sums, too_old) = (AtomicU64::new(0), AtomicU64::new(0));
        let sum = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
        let read_all = |env: &Env| -> sablecat::Result<u64> {
            let snapshot = env.snapshot()?;
            let db = env.database("accounts")?;
            snapshot.range(&db, ..)?.map(|record| record.map(|(_, value)| sum(&value))).sum()
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3u64)
                .map(|thread| {
                    let (env, db) = (&env, &db);
                    scope.spawn(move || {
                        let mut dice = Dice::new(seed * 10 + thread);
                        for _ in 0..400 {
                            let (from, to, amount) =
                                (dice.below(ACCOUNTS), dice.below(ACCOUNTS), dice.below(50));
                            let durability =
                                dice.pick(&[Durability::Memory, Durability::NoSync, Durability::Sync]);
                            env.write_with(TxnOptions::new().durability(durability), |txn| {
                                for (n, change) in [(from, -(amount as i64)), (to, amount as i64)] {
                                    let mut value = txn.get(db, key(n))?.expect("accounts are never closed");
                                    let now = sum(&value).wrapping_add_signed(change);
                                    value[..8].copy_from_slice(&now.to_le_bytes());
                                    txn.insert(db, key(n), value)?;
                                }
                                Ok(())
                            })
                            .expect("everyone gets through");
                        }
                    })
                })
                .collect();
            for checkpoints in [true, false] {
                let (env, stop, sums, too_old) = (&env, &stop, &sums, &too_old);
                scope.spawn(move || {
                    loop {
                        if checkpoints {
                            env.checkpoint().expect("a checkpoint");
                        }
                        match read_all(env) {
                            Ok(total) => {
                                assert_eq!(total, ACCOUNTS * 1000, "a snapshot with money made or lost")
                            }
                            Err(error) if error.kind() == ErrorKind::SnapshotTooOld || error.is_full() => {
                                too_old.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{:?}: {error}", error.kind()),
                        }
                        sums.fetch_add(1, Ordering::Relaxed);
                        if stop.load(Ordering::Acquire) {
                            break;
                        }
                    }
                });
            }
            let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            stop.store(true, Ordering::Release);
            ended.into_iter().for_each(|ended| ended.expect("no worker failed"));
        });
        assert!(sums.load(Ordering::Relaxed) > 0);
        assert_eq!(read_all(&env).expect("read"), ACCOUNTS * 1000);
        alike::clean(&env).expect("sound");
        for survival in Survival::ALL {
            let found = disk.crash_as(survival, seed);
            let env = tiny(&found, 4096);
            assert_eq!(read_all(&env).expect("read"), ACCOUNTS * 1000, "after a crash, {survival:?}");
            assert_eq!(engine::problems(&env).expect("verified"), Vec::<String>::new());
        }
    }
}

#[test]
fn a_database_younger_than_a_snapshot_is_empty_or_not_there_for_it() {
    let env = Env::in_memory().expect("memory");
    let old = env.database("old").expect("created");
    old.insert("k", "v").expect("inserted");
    let snapshot = env.snapshot().expect("a seat");
    let young = env.database("young").expect("created");
    young.insert("k", "v").expect("inserted");
    match snapshot.get(&young, "k") {
        Ok(found) => assert_eq!(found, None),
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
    }
}

#[test]
fn the_last_mark_of_a_given_up_snapshot_does_not_meet_whoever_sits_there_next() {
    // Found by model seed 1473: an operation of its own answered SnapshotTooOld because a snapshot dropped
    // before had been given up.
    let env = tiny(&SimDisk::new(1), 512);
    let db = env.database("d").expect("created");
    let mut given_up = false;
    for round in 0..40 {
        let snapshot = env.snapshot().expect("a seat");
        for n in 0..400 {
            db.insert(key(n), value(n, round)).expect("a single operation has no snapshot to lose");
        }
        given_up |= snapshot.get(&db, key(0)).is_err();
        drop(snapshot);
        db.len().expect("a snapshot of its own");
        db.remove(key(0)).expect("a single operation has no snapshot to lose");
    }
    assert!(given_up, "the cache was small enough");
}

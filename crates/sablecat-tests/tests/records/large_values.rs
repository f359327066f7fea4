//! Values larger than the cache, through the public interface.

use std::sync::Arc;

use sablecat::{Builder, Durability, Env, ErrorKind};
use sablecat_os::sim::{SimDisk, Survival};

const DIRECTORY: &str = "/env";

/// A value that says in each of its words where it is.
fn value(tag: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|n| (tag << 40 | n).to_le_bytes()).collect()
}

fn tiny(disk: &SimDisk) -> Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .cache_size(1 << 20)
        .log_buffer_size(1 << 18)
        .log_segment_size(1 << 20)
        .durability(Durability::Sync)
        .background(false)
}

fn assert_sound(env: &Env) {
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
}

/// Sets, replaces, removes and reads three megabytes with a cache of one, before and after the process ends
/// without closing.
#[test]
fn a_value_of_three_times_the_cache_is_a_value_like_any_other() {
    let disk = SimDisk::new(1);
    let large = value(1, 3 << 20);
    {
        let env = tiny(&disk).open(DIRECTORY).expect("created");
        let db = env.database("d").expect("created");
        db.insert("a", &large).expect("stored");
        db.insert("b", &large[..2 << 20]).expect("stored");
        assert!(db.get("a").expect("read").as_ref() == Some(&large));
        let before = env.snapshot().expect("a seat");
        env.write(|txn| {
            txn.insert(&db, "a", value(2, 2 << 20))?;
            assert_eq!(txn.value_len(&db, "a")?, Some(2 << 20), "its own, not committed yet");
            txn.remove(&db, "b")
        })
        .expect("committed");
        env.checkpoint().expect("durable");
        db.insert("c", value(3, 2 << 20)).expect("stored");
        assert!(before.get(&db, "a").expect("kept") == Some(large.clone()));
        assert_eq!(before.value_len(&db, "b").expect("kept"), Some(2 << 20));
        assert_eq!(db.len().expect("counted"), 2);
    }
    for survival in Survival::ALL {
        let env = tiny(&disk.crash_as(survival, 7))
            .open(DIRECTORY)
            .expect("recovered without room for the value in the cache");
        let db = env.database("d").expect("there");
        assert!(db.get("a").expect("read") == Some(value(2, 2 << 20)), "{survival:?}");
        assert!(db.get("c").expect("read") == Some(value(3, 2 << 20)), "{survival:?}");
        assert_eq!(db.value_len("b").expect("read"), None);
        let mut part = vec![0; 100_000];
        assert_eq!(db.read_at("c", (2 << 20) - 50_000, &mut part).expect("read"), Some(50_000));
        assert!(part[..50_000] == value(3, 2 << 20)[(2 << 20) - 50_000..]);
        assert_sound(&env);
        env.remove_database("d").expect("removed");
        env.checkpoint().expect("durable");
        assert_sound(&env);
    }
}

#[test]
fn a_database_of_more_long_values_than_the_cache_has_pages_can_be_removed() {
    let disk = SimDisk::new(5);
    let env = tiny(&disk).open(DIRECTORY).expect("created");
    let db = env.database("d").expect("created");
    let values = |n: u32| value(n.into(), [1600, 5000][n as usize % 2]);
    db.bulk_load((0..3000u32).map(|n| (n.to_be_bytes(), values(n)))).expect("loaded");
    env.remove_database("d").expect("removed");
    env.checkpoint().expect("durable");
    assert_sound(&env);
}

#[test]
fn many_large_values_in_one_transaction_are_all_there_or_none() {
    let disk = SimDisk::new(2);
    let env = tiny(&disk).open(DIRECTORY).expect("created");
    let db = env.database("d").expect("created");
    let mut given_up = env.begin().expect("a seat");
    (0..8u8).for_each(|n| given_up.insert(&db, [n], value(9, 1 << 20)).expect("pending"));
    given_up.abort();
    let mut txn = env.begin().expect("a seat");
    (0..8u8).for_each(|n| txn.insert(&db, [n], value(n.into(), 1 << 20)).expect("pending"));
    let mut loses = env.begin().expect("a seat");
    assert_eq!(loses.get(&db, [3]).expect("read"), None);
    loses.insert(&db, [3], value(77, 1 << 20)).expect("pending");
    txn.commit().expect("committed");
    assert_eq!(loses.commit().expect_err("the record is there by now").kind(), ErrorKind::Conflict);
    (0..8u8).for_each(|n| assert!(db.get([n]).expect("read") == Some(value(n.into(), 1 << 20))));
    env.checkpoint().expect("durable");
    assert_sound(&env);
}

#[test]
fn bulk_loads_and_data_stores_take_values_larger_than_the_cache() {
    let disk = SimDisk::new(3);
    let records = || (0..4u8).map(|n| ([n], value(n.into(), (n as usize) << 20)));
    {
        let env = tiny(&disk).open(DIRECTORY).expect("created");
        let db = env.database("d").expect("created");
        let failing = records().chain(std::iter::once(([0], vec![])));
        assert_eq!(db.bulk_load(failing).expect_err("not in order").kind(), ErrorKind::Invalid);
        assert_eq!(db.bulk_load(records()).expect("loaded"), 4);
        env.checkpoint().expect("durable");
        assert_sound(&env);
        records().for_each(|(key, value)| assert!(db.get(key).expect("read") == Some(value)));
    }
    let found = disk.crash_as(Survival::Nothing, 1);
    let env = tiny(&found).open(DIRECTORY).expect("recovered");
    let db = env.database("d").expect("there");
    records().for_each(|(key, value)| assert!(db.get(key).expect("read") == Some(value)));
    drop((db, env));

    let disk = SimDisk::new(4);
    let mut store = tiny(&disk).open_data_store(DIRECTORY).expect("created");
    let table = store.database("d").expect("created");
    store.bulk_load(&table, records()).expect("loaded");
    for round in 0..5 {
        store.insert(&table, [2], value(round, 3 << 20)).expect("stored");
        assert_eq!(store.value_len(&table, [2]).expect("read"), Some(3 << 20));
        let mut part = vec![0; 300_000];
        assert_eq!(store.read_at(&table, [2], 1 << 20, &mut part).expect("read"), Some(part.len()));
        assert!(part[..] == value(round, 3 << 20)[1 << 20..][..part.len()]);
        store.checkpoint().expect("durable");
    }
    store.remove(&table, [3]).expect("removed");
    store.close().expect("closed");
    let store = tiny(&disk.crash_as(Survival::Nothing, 1)).open_data_store(DIRECTORY);
    let mut store = store.expect("opened");
    let table = store.database("d").expect("there");
    assert!(store.get(&table, [2]).expect("read") == Some(value(4, 3 << 20)));
    let report = store.verify(&mut |_| {}).expect("verified");
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
}

/// Hundreds of megabytes on a real disk, with a cache of sixteen:
/// `cargo test --release -p sablecat --test records large_values -- --ignored --nocapture`.
#[test]
#[ignore = "writes gigabytes"]
fn hundreds_of_megabytes_pass_through_a_cache_of_sixteen() {
    let directory = std::env::temp_dir().join(format!("sablecat-large-{}", std::process::id()));
    let open = || {
        Env::builder().cache_size(16 << 20).durability(Durability::NoSync).open(&directory).expect("opened")
    };
    for megabytes in [300usize, 1024] {
        let large = value(5, megabytes << 20);
        let took = |what: &str, begun: std::time::Instant| {
            let seconds = begun.elapsed().as_secs_f64();
            println!("{megabytes} MB {what}: {seconds:.2} s, {:.0} MB/s", megabytes as f64 / seconds);
        };
        let env = open();
        let db = env.database("d").expect("created");
        let begun = std::time::Instant::now();
        db.insert("k", &large).expect("stored");
        took("stored", begun);
        let begun = std::time::Instant::now();
        assert!(db.get("k").expect("read").as_ref() == Some(&large));
        took("read whole", begun);
        let begun = std::time::Instant::now();
        let mut part = vec![0; 1 << 20];
        (0..megabytes as u64)
            .for_each(|n| assert_eq!(db.read_at("k", n << 20, &mut part).expect("read"), Some(part.len())));
        took("read in parts of 1 MB", begun);
        let begun = std::time::Instant::now();
        env.checkpoint().expect("durable");
        took("checkpoint", begun);
        let begun = std::time::Instant::now();
        db.remove("k").expect("removed");
        took("removed", begun);
        let begun = std::time::Instant::now();
        env.checkpoint().expect("durable");
        took("checkpoint after removal", begun);
        drop(db);
        drop(env);
    }
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// Keys of several stems, with values larger than the cache.
#[test]
fn large_values_of_nested_keys_are_kept_replaced_and_freed() {
    let disk = SimDisk::new(6);
    let env = tiny(&disk).open(DIRECTORY).expect("created");
    let db = env.database("d").expect("created");
    let key = |n: u8| [&[n; 3000][..], b"end"].concat();
    db.insert(key(1), value(1, 2 << 20)).expect("stored");
    let before = env.snapshot().expect("a seat");
    db.insert(key(1), value(2, 3 << 20)).expect("replaced");
    env.checkpoint().expect("durable");
    assert_eq!(db.value_len(key(1)).expect("read"), Some(3 << 20));
    assert!(before.get(&db, key(1)).expect("kept") == Some(value(1, 2 << 20)));
    let mut part = [0; 8];
    assert_eq!(db.read_at(key(1), 80_000, &mut part).expect("read"), Some(8));
    assert_eq!(part, (2u64 << 40 | 10_000).to_le_bytes());
    drop(before);
    let loaded = env.database("loaded").expect("created");
    loaded.bulk_load((1..3).map(|n| (key(n), value(n.into(), 2 << 20)))).expect("loaded");
    assert!(loaded.get(key(2)).expect("read") == Some(value(2, 2 << 20)));
    assert_sound(&env);
    assert!(db.remove(key(1)).expect("removed"));
    env.remove_database("loaded").expect("removed");
    env.checkpoint().expect("durable");
    assert_sound(&env);
}

/// Checkpoints move the pages of large values like any others.
#[test]
fn large_values_are_moved_down_and_stay_what_they_are() {
    let disk = SimDisk::new(7);
    let env = tiny(&disk).open(DIRECTORY).expect("created");
    let db = env.database("d").expect("created");
    (0..4u8).for_each(|n| db.insert([n], value(n.into(), 2 << 20)).expect("stored"));
    env.checkpoint().expect("durable");
    (0..3u8).for_each(|n| assert!(db.remove([n]).expect("removed")));
    let snapshot = env.snapshot().expect("a seat");
    for _ in 0..3 {
        env.compact().expect("moved");
        assert!(snapshot.get(&db, [3]).expect("kept") == Some(value(3, 2 << 20)));
    }
    db.insert([3], value(5, 1 << 20)).expect("replaced");
    env.compact().expect("moved");
    assert!(snapshot.get(&db, [3]).expect("kept") == Some(value(3, 2 << 20)));
    drop(snapshot);
    env.checkpoint().expect("durable");
    env.compact().expect("moved");
    assert!(db.get([3]).expect("read") == Some(value(5, 1 << 20)));
    assert_sound(&env);
}

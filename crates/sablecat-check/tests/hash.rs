//! A sample of all checks over hash tables.
//!
//! Long runs: `cargo run --release -p sablecat-check -- <check> --method hash --seeds N --from S`.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use sablecat::{Durability, Env, Method};
use sablecat_check::{deaths, faults, method, seeds};
use sablecat_os::sim::{SimDisk, Survival};

/// Over hash tables, with everything else in this process.
fn all(name: &str, count: u64) {
    method::choose(Method::Hash);
    seeds::all(name, 0..count);
}

fn command(words: &[&str]) {
    const NOT_PERMITTED: i32 = 3;
    let out = Command::new(env!("CARGO_BIN_EXE_sablecat-check"))
        .args(words)
        .args(["--method", "hash"])
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&out.stdout);
    let is_well = out.status.success() || out.status.code() == Some(NOT_PERMITTED);
    assert!(is_well, "{words:?}: {said}{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn the_engine_answers_as_the_model_does() {
    all("model", 40);
}

#[test]
fn a_crash_anywhere_keeps_what_was_promised() {
    all("crash", 100);
    all("crash-shared", 5);
}

#[test]
fn a_data_store_is_whole_as_of_its_last_checkpoint() {
    all("store", 60);
}

#[test]
fn going_back_goes_to_what_was() {
    all("backward", 10);
}

#[test]
fn a_fault_loses_nothing_and_says_so() {
    all("faults", 10);
    all("faults-shared", 2);
    for seed in 0..2 {
        deaths::some(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        faults::small_disk(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn damage_is_found_and_harms_nothing_else() {
    all("damage", 20);
    all("lies", 5);
}

#[test]
fn histories_of_concurrent_transactions_are_as_their_level_promises() {
    all("histories", 5);
}

#[test]
fn processes_killed_anywhere_lose_nothing() {
    command(&["storm", "--commits", "500", "--seed", "1"]);
    command(&["storm", "--commits", "300", "--seed", "3", "--faults", "5000"]);
}

#[test]
fn dying_at_any_system_call_leaves_nothing_in_doubt() {
    for operation in ["split", "merge", "commit", "commit-large"] {
        command(&["steps", "--operation", operation, "--by", "calls", "--every", "8"]);
    }
}

/// What changes is built beside the table: buckets, directories and subtrees are copied.
#[test]
fn a_commit_larger_than_the_cache_is_done_or_not() {
    method::choose(Method::Hash);
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| {
        let builder =
            method::builder().page_size(512).cache_size(0).background(false).log_segment_size(1 << 16);
        builder.durability(Durability::NoSync).disk(Arc::new(disk.clone())).open("env").expect("opened")
    };
    type Model = BTreeMap<Vec<u8>, Vec<u8>>;
    // One key of seven is nested, in few subtrees.
    let key = |n: u32| match n % 7 {
        0 => [&[b'a' + (n % 3) as u8; 60][..], &n.to_be_bytes()].concat(),
        _ => n.to_be_bytes().to_vec(),
    };
    let assert_is = |env: &Env, model: &Model| {
        let db = env.database("hash").expect("there");
        let found: Vec<_> = db.range(..).expect("begun").map(|record| record.expect("read")).collect();
        assert_eq!(found.len(), model.len());
        assert_eq!(found.into_iter().collect::<Model>(), *model);
        assert!(model.iter().all(|(key, value)| db.get(key).expect("read").as_ref() == Some(value)));
    };
    let env = open(&disk);
    let db = env.database("hash").expect("made");
    assert_eq!(env.stats().expect("read").methods, ["hash table"]);
    let mut model: Model = (0..1500).map(|n: u32| (key(n), n.to_le_bytes().to_vec())).collect();
    assert_eq!(db.bulk_load((0..1500).rev().map(|n| (key(n), n.to_le_bytes()))).expect("loaded"), 1500);
    assert_is(&env, &model);
    let value = |n: u32, round: u32| match n % 50 {
        0 => Some(vec![round as u8; 700]),
        // In the third round nearly all go, and buckets are joined.
        _ if n % 7 == round || round == 3 && !n.is_multiple_of(40) => None,
        _ => Some(vec![round as u8; 30]),
    };
    for round in 1..4 {
        let seen = env.snapshot().expect("begun");
        let before = seen.len(&db).expect("read");
        let changed = || (0..1500).rev().filter(|n| n % 3 != round % 3 || round == 3);
        env.write(|txn| {
            changed().try_for_each(|n| match value(n, round) {
                Some(value) => txn.insert(&db, key(n), value),
                None => txn.remove(&db, key(n)).map(drop),
            })
        })
        .expect("written");
        for n in changed() {
            match value(n, round) {
                Some(value) => _ = model.insert(key(n), value),
                None => _ = model.remove(&key(n)),
            }
        }
        assert_eq!(seen.len(&db).expect("its pages are kept"), before);
        drop(seen);
        assert_is(&env, &model);
        // Of the last round nothing but the log knows.
        if round < 3 {
            env.checkpoint().expect("written");
            assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
        }
    }
    env.sync().expect("written");
    let env = open(&disk.crash_as(Survival::Nothing, 1));
    assert_is(&env, &model);
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
    assert!(env.remove_database("hash").expect("removed"));
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable, report.pages), (Vec::new(), 0, 1), "the catalog");
}

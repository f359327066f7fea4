//! A sample of all checks over another access method than that of most databases: what is above the methods
//! takes no pages for those of a B+tree.
//!
//! Long runs: `cargo run --release -p sablecat-check -- <check> --method flat --seeds N --from S`.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use sablecat::{Durability, Method, Txn};
use sablecat_check::{deaths, faults, method, seeds};
use sablecat_os::sim::{SimDisk, Survival};

/// Over flat lists, with everything else in this process.
fn all(name: &str, count: u64) {
    method::choose(Method::Flat);
    seeds::all(name, 0..count);
}

fn command(words: &[&str]) {
    const NOT_PERMITTED: i32 = 3;
    let out = Command::new(env!("CARGO_BIN_EXE_sablecat-check"))
        .args(words)
        .args(["--method", "flat"])
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
    for operation in ["split", "merge", "commit", "commit-large", "remove-range"] {
        command(&["steps", "--operation", operation, "--by", "calls", "--every", "8"]);
    }
    command(&["steps", "--operation", "clear-large", "--by", "calls", "--every", "40"]);
}

/// What changes is built beside the chain, of which a batch can copy a part only.
#[test]
#[ignore = "it goes along the chain for each page, and takes minutes"]
fn a_commit_larger_than_the_cache_is_done_or_not() {
    method::choose(Method::Flat);
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| {
        let builder =
            method::builder().page_size(512).cache_size(0).background(false).log_segment_size(1 << 16);
        builder.durability(Durability::NoSync).disk(Arc::new(disk.clone())).open("env").expect("opened")
    };
    let env = open(&disk);
    let db = env.database("flat").expect("made");
    assert_eq!(env.stats().expect("read").methods, ["flat list"]);
    assert_eq!(db.bulk_load((0..2500u32).map(|n| (n.to_be_bytes(), n.to_le_bytes()))).expect("loaded"), 2500);
    // From the end on, so that all of the chain has to be copied for the first; and some long values.
    let change = |txn: &mut Txn<'_>, round: u32| {
        (0..2500u32).rev().filter(|n| n % 3 != round % 3).try_for_each(|n| match n % 50 {
            0 => txn.insert(&db, n.to_be_bytes(), vec![round as u8; 700]),
            _ if n % 7 == round => txn.remove(&db, n.to_be_bytes()).map(drop),
            _ => txn.insert(&db, n.to_be_bytes(), [round as u8; 30]),
        })
    };
    let mut model: BTreeMap<u32, Vec<u8>> = (0..2500).map(|n: u32| (n, n.to_le_bytes().to_vec())).collect();
    for round in 1..4 {
        let seen = env.snapshot().expect("begun");
        let before = seen.len(&db).expect("read");
        env.write(|txn| change(txn, round)).expect("written");
        for n in (0..2500u32).filter(|n| n % 3 != round % 3) {
            match n % 50 {
                0 => _ = model.insert(n, vec![round as u8; 700]),
                _ if n % 7 == round => _ = model.remove(&n),
                _ => _ = model.insert(n, vec![round as u8; 30]),
            }
        }
        assert_eq!(seen.len(&db).expect("its pages are kept"), before);
        drop(seen);
        let found = db.range(..).expect("begun").map(|record| record.expect("read"));
        assert!(found.eq(model.iter().map(|(n, value)| (n.to_be_bytes().to_vec(), value.clone()))));
        // Of the last round nothing but the log knows.
        if round < 3 {
            env.checkpoint().expect("written");
            assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
        }
    }
    env.sync().expect("written");
    let env = open(&disk.crash_as(Survival::Nothing, 1));
    let db = env.database("flat").expect("there");
    let found = db.range(..).expect("begun").map(|record| record.expect("read"));
    assert!(found.eq(model.iter().map(|(n, value)| (n.to_be_bytes().to_vec(), value.clone()))));
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
    assert!(env.remove_database("flat").expect("removed"));
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable, report.pages), (Vec::new(), 0, 1), "the catalog");
}

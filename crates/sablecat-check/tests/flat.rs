//! A sample of all checks over another access method than that of most databases: what is above the methods
//! takes no pages for those of a B+tree.
//!
//! Long runs: `cargo run --release -p sablecat-check -- <check> --method flat --seeds N --from S`.

mod sample;

use std::collections::BTreeMap;
use std::sync::Arc;

use sablecat::{Durability, Method, Txn};
use sablecat_check::method;
use sablecat_os::sim::{SimDisk, Survival};

sample::sample!(Method::Flat, "flat");

/// So many records take a few seconds at most, and more pages than an ordinary commit may change.
const LEAST: u32 = 1500;

#[test]
fn a_commit_larger_than_the_cache_is_done_or_not() {
    larger_than_cache(LEAST, 2);
}

#[test]
#[ignore = "it goes along the chain for each page, and takes minutes"]
fn commits_much_larger_than_the_cache_are_done_or_not() {
    larger_than_cache(2500, 4);
}

/// What changes is built beside the chain, of which a batch can copy a part only. So many records, in rounds
/// from the first to before `rounds`.
fn larger_than_cache(records: u32, rounds: u32) {
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
    assert_eq!(
        db.bulk_load((0..records).map(|n| (n.to_be_bytes(), n.to_le_bytes()))).expect("loaded"),
        u64::from(records)
    );
    // From the end on, so that all of the chain has to be copied for the first; and some long values.
    let change = |txn: &mut Txn<'_>, round: u32| {
        (0..records).rev().filter(|n| n % 3 != round % 3).try_for_each(|n| match n % 50 {
            0 => txn.insert(&db, n.to_be_bytes(), vec![round as u8; 700]),
            _ if n % 7 == round => txn.remove(&db, n.to_be_bytes()).map(drop),
            _ => txn.insert(&db, n.to_be_bytes(), [round as u8; 30]),
        })
    };
    let mut model: BTreeMap<u32, Vec<u8>> =
        (0..records).map(|n: u32| (n, n.to_le_bytes().to_vec())).collect();
    for round in 1..rounds {
        let seen = env.snapshot().expect("begun");
        let before = seen.len(&db).expect("read");
        env.write(|txn| change(txn, round)).expect("written");
        for n in (0..records).filter(|n| n % 3 != round % 3) {
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
        if round + 1 < rounds {
            env.checkpoint().expect("written");
            assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
        }
    }
    let stats = env.stats().expect("read");
    let most = stats.cache_bytes / stats.page_size / 4;
    assert!(db.stats().expect("read").pages > most, "the commits were ordinary ones");
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

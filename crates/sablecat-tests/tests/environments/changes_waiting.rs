//! Waiting for the next commit of the stream.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use sablecat::{Builder, ChangesOptions, Durability, Env, ErrorKind};
use sablecat_os::sim::{Fault, SimDisk};

fn builder(disk: &Arc<SimDisk>) -> Builder {
    Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false)
}

fn disk(seed: u64) -> Arc<SimDisk> {
    Arc::new(SimDisk::new(seed))
}

#[test]
fn who_waits_is_woken_by_a_commit_a_stop_and_the_end_of_its_time() {
    let env = builder(&disk(1)).open("env").unwrap();
    let database = env.database("d").unwrap();
    let mut changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    assert!(changes.next_within(Duration::ZERO).unwrap().is_none());
    assert!(changes.next_within(Duration::from_millis(1)).unwrap().is_none());
    let stopper = changes.stopper();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        while let Some(commit) = changes.next().unwrap() {
            sender.send(commit.lsn()).unwrap();
        }
        changes
    });
    for n in 0..50u32 {
        // Made durable by itself, or by a flush of everything.
        let mut txn = env.begin().unwrap();
        txn.insert(&database, n.to_be_bytes(), "value").unwrap();
        let lsn = txn.commit_with(if n % 2 == 0 { Durability::Sync } else { Durability::NoSync }).unwrap();
        if n % 2 == 1 {
            env.sync().unwrap();
        }
        assert_eq!(receiver.recv().unwrap(), lsn);
    }
    stopper.stop();
    let mut changes = reader.join().unwrap();
    database.insert("more", "value").unwrap();
    assert!(changes.next().unwrap().is_none(), "stopped for good");
    assert!(changes.try_next().unwrap().is_some(), "what is there is given to who does not wait");
}

#[test]
fn who_waits_hears_of_a_failed_flush_when_all_that_is_durable_was_given() {
    let disk = disk(1);
    let env = builder(&disk).open("env").unwrap();
    let database = env.database("d").unwrap();
    let mut changes = env.changes_from_now(ChangesOptions::new()).unwrap();
    database.insert("durable", "value").unwrap();
    disk.fail_at(disk.calls() + 1, Fault::SyncFails);
    database.insert("lost", "value").expect_err("the flush fails");
    assert!(changes.next().unwrap().is_some());
    assert_eq!(changes.next().expect_err("nothing more comes").kind(), ErrorKind::Poisoned);
}

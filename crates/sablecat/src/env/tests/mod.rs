//! What processes that die have left, and `compact` gives back while others live.

mod reading_ahead;
pub(in crate::env) mod shared_place;

use std::mem::forget;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sablecat_os::sim::SimDisk;

use crate::env::config::{Config, EnvMode};
use crate::env::databases::Asked;
use crate::env::databases::transaction::EnvTxn;
use crate::env::opening::Core;
use crate::env::opening::open::open;
use crate::env::tests::shared_place::SharedPlace;
use crate::txn::{Comparator, Durability, Isolation, Options, RecordChange, catalog};
use crate::types::VolumeId;

/// Its process is killed, as far as others can see.
fn dies(core: &Arc<Core>) {
    core.kernel.pages.region.membership().expect("of one of several processes").give_up();
}

fn begin(core: &Core) -> EnvTxn<'_> {
    let options = Options {
        isolation: Isolation::Snapshot,
        durability: Durability::Memory,
        read_only: false,
        patience: Duration::from_secs(60),
    };
    EnvTxn::begin(core, options).unwrap()
}

/// Notes in the catalog.
fn notes(core: &Core) -> usize {
    let records = core.read(|txn| catalog::records(&mut txn.records.committed())).unwrap();
    records.iter().filter(|(key, _)| !catalog::is_name(key)).count()
}

/// What is in use of page ids and blocks, once all that can be freed is.
fn in_use(core: &Core) -> (u64, u64) {
    core.compact().unwrap();
    core.checkpoint(false).unwrap();
    core.kernel.pages.sweep_all(&core.kernel.pages.participants.sit().unwrap());
    core.checkpoint(false).unwrap();
    let report = core.verify(&mut |_| {}).unwrap();
    assert_eq!((&report.problems[..], report.pages_unreachable), (&[][..], 0));
    (core.kernel.pages.page_ids().used_count(), core.kernel.pages.blocks().used_count())
}

fn fill(core: &Core, name: &str, records: u32) {
    let database = core.database_or_new(name, Asked::default()).unwrap();
    for n in 0..records {
        core.kernel
            .change_one(
                &database.tree,
                &n.to_be_bytes(),
                RecordChange::Put(&[n as u8; 300]),
                Durability::Memory,
            )
            .unwrap();
    }
}

#[test]
fn a_database_that_was_being_created_is_freed_beside_others_once_its_maker_is_dead() {
    let place = SharedPlace::new("creating", &Arc::new(SimDisk::new(1)));
    let (lives, dead) = (place.open(), place.open());
    fill(&lives, "records", 10);
    let before = in_use(&lives);
    let mut txn = begin(&dead);
    txn.database_or_new("half made", Asked::default()).unwrap();
    lives.compact().unwrap();
    assert_eq!(notes(&lives), 1, "its maker lives");
    dies(&dead);
    assert_eq!(lives.compact().unwrap().pages_freed, 1);
    assert_eq!(notes(&lives), 0);
    assert_eq!(in_use(&lives), before);
    forget(txn);
    forget(dead);
    lives.close().unwrap();
}

/// A note that another has made since is that one's.
#[test]
fn a_member_with_the_number_of_a_dead_one_keeps_its_own_notes_alone() {
    let place = SharedPlace::new("numbers", &Arc::new(SimDisk::new(1)));
    let (lives, dead) = (place.open(), place.open());
    let before = in_use(&lives);
    let mut lost = begin(&dead);
    lost.database_or_new("lost", Asked::default()).unwrap();
    dies(&dead);
    assert!(!lives.kernel.reap(&lives.kernel.pages.participants.sit().unwrap()));
    let next = place.open();
    assert_eq!(next.kernel.pages.region.number(), dead.kernel.pages.region.number(), "as who was reaped");
    let mut kept = begin(&next);
    kept.database_or_new("kept", Asked::default()).unwrap();
    assert_eq!((notes(&lives), lives.compact().unwrap().pages_freed, notes(&lives)), (2, 1, 1));
    kept.commit(Durability::Memory).unwrap();
    drop(kept);
    fill(&next, "kept", 100);
    assert!(next.remove_database("kept").unwrap());
    next.close().unwrap();
    assert_eq!(in_use(&lives), before);
    forget(lost);
    forget(dead);
    lives.close().unwrap();
}

#[test]
fn a_database_that_was_removed_and_not_freed_is_freed_beside_others_once_its_remover_is_dead() {
    let place = SharedPlace::new("removing", &Arc::new(SimDisk::new(1)));
    let (lives, dead) = (place.open(), place.open());
    let before = in_use(&lives);
    fill(&lives, "removed", 500);
    let mut txn = begin(&dead);
    assert!(txn.remove_database("removed").unwrap());
    // The commit alone: what comes after it is what it does not come to.
    txn.records.commit(Durability::Memory).unwrap();
    lives.compact().unwrap();
    assert_eq!(notes(&lives), 1, "its remover lives");
    dies(&dead);
    assert!(lives.compact().unwrap().pages_freed > 30);
    assert_eq!((notes(&lives), in_use(&lives)), (0, before));
    forget(txn);
    forget(dead);
    lives.close().unwrap();
}

const PANICS: &str = "panics";

/// After so many comparisons more it panics; never, if it is below zero.
static LEFT: AtomicI64 = AtomicI64::new(-1);

fn with_comparator(config: &mut Config) {
    let compare = |a: &[u8], b: &[u8]| {
        assert_ne!(LEFT.fetch_sub(1, Ordering::SeqCst), 0, "as if killed");
        a.cmp(b)
    };
    let comparator = Comparator::new(PANICS, compare);
    config.comparators.insert(PANICS.to_owned(), Arc::new(comparator));
}

/// Changes most pages of a database, which takes more than the cache.
fn change_all(txn: &mut EnvTxn<'_>, name: &str, round: u8) {
    let named = txn.database(name).unwrap().expect("it is there");
    let tree = txn.tree(&named).unwrap().clone();
    for n in 0..2000u32 {
        txn.records.set(&tree, &n.to_be_bytes(), Some(&[round; 300])).unwrap();
    }
}

#[test]
fn what_a_commit_larger_than_the_cache_had_made_is_freed_beside_others_once_its_maker_is_dead() {
    let place = SharedPlace::new("made", &Arc::new(SimDisk::new(1)));
    let lives = place.open_as(with_comparator);
    let database = lives.database_or_new("large", Asked::ordered_by(PANICS)).unwrap();
    let mut txn = begin(&lives);
    change_all(&mut txn, "large", 1);
    txn.commit(Durability::Memory).unwrap();
    drop(txn);
    let before = in_use(&lives);
    let mut noted = 0;
    for comparisons in (0..60_000).step_by(7777) {
        let dead = place.open_as(with_comparator);
        let mut txn = begin(&dead);
        change_all(&mut txn, "large", 2);
        LEFT.store(comparisons, Ordering::SeqCst);
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| txn.commit(Durability::Memory)));
        LEFT.store(-1, Ordering::SeqCst);
        let is_noted = notes(&lives) > 0;
        noted += usize::from(is_noted && died.is_err());
        lives.compact().unwrap();
        assert_eq!(notes(&lives) > 0, is_noted, "its maker lives");
        dies(&dead);
        assert_eq!(lives.compact().unwrap().pages_freed > 0, is_noted);
        assert_eq!((notes(&lives), in_use(&lives)), (0, before), "after {comparisons} comparisons");
        let first =
            lives.kernel.read_one(&database.tree, &[0; 4], |value| value.map(|value| value[0])).unwrap();
        assert_eq!(first, Some(if died.is_err() { 1 } else { 2 }));
        forget(txn);
        forget(dead);
    }
    assert!(noted > 2, "{noted} died in the middle");
    lives.close().unwrap();
}

#[test]
fn what_a_commit_larger_than_the_cache_replaced_is_freed_once_its_maker_is_dead_and_no_snapshot_sees_it() {
    let place = SharedPlace::new("replaced", &Arc::new(SimDisk::new(1)));
    let (lives, dead) = (place.open(), place.open());
    fill(&lives, "large", 2000);
    let before = in_use(&lives);
    let snapshot = begin(&lives);
    let mut txn = begin(&dead);
    change_all(&mut txn, "large", 2);
    txn.commit(Durability::Memory).unwrap();
    dies(&dead);
    assert_eq!((lives.compact().unwrap().pages_freed, notes(&lives)), (0, 1), "the snapshot sees it");
    let named = snapshot.databases().database("large").unwrap().expect("it is there");
    for n in 0..2000u32 {
        let value = snapshot.records.get_owned(&named.tree, &n.to_be_bytes()).unwrap();
        assert_eq!(value, Some(vec![n as u8; 300]));
    }
    drop(snapshot);
    assert!(lives.compact().unwrap().pages_freed > 100);
    assert_eq!((notes(&lives), in_use(&lives)), (0, before));
    forget(txn);
    forget(dead);
    lives.close().unwrap();
}

/// Opened afresh, nothing that a note names is asked after.
#[test]
fn notes_of_processes_that_were_all_killed_are_acted_upon_by_the_next_to_open() {
    let disk = Arc::new(SimDisk::new(1));
    let config = || Config {
        disk: Arc::clone(&disk) as Arc<_>,
        cache_bytes: Some(0),
        background: false,
        ..Config::default()
    };
    let core = open(Path::new("alone"), config(), EnvMode::Transactional).unwrap();
    begin(&core).database_or_new("half made", Asked::default()).map(drop).unwrap();
    let mut txn = begin(&core);
    txn.database_or_new("half made", Asked::default()).unwrap();
    core.compact().unwrap();
    assert_eq!(notes(&core), 1, "who is alone lives");
    core.checkpoint(false).unwrap();
    let left = Arc::new(disk.crash_as(sablecat_os::sim::Survival::Everything, 1));
    let next = open(Path::new("alone"), Config { disk: left, ..config() }, EnvMode::Transactional).unwrap();
    assert_eq!(notes(&next), 0);
    next.close().unwrap();
    drop(txn);
    core.close().unwrap();
}

/// Until it is known what is free, nothing below the marks of the opening is anybody's, and all above them
/// belongs to the process that took it.
#[test]
fn what_others_have_in_hand_at_a_checkpoint_of_nothing_stays_theirs() {
    let place = SharedPlace::new("in-hand", &Arc::new(SimDisk::new(1)));
    let env = place.open();
    fill(&env, "records", 100);
    env.close().unwrap();
    drop(env);
    let env = place.open();
    let pages = &env.kernel.pages;
    // Another is about to publish them.
    let seat = pages.participants.sit().unwrap();
    let hand = seat.in_hand();
    let (page, block) =
        (pages.allocate_page().unwrap(), pages.blocks().allocate(VolumeId::MAIN).unwrap().unwrap());
    env.checkpoint(false).unwrap();
    fill(&env, "more records", 100);
    env.checkpoint(false).unwrap();
    assert!(pages.page_ids().is_used(u64::from(page.0)), "page {page}");
    assert!(pages.blocks().is_used(block), "block {block}");
    drop(hand);
}

//! Transactions of which a part is in a file: what goes wrong with that, and what it must not change.

use std::io::ErrorKind as Io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use sablecat::{Builder, Durability, Env, ErrorKind};
use sablecat_os::sim::{Fault, SimDisk, Survival};

fn builder(disk: &SimDisk) -> Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .page_size(4096)
        .cache_size(1 << 20)
        .durability(Durability::Sync)
        .background(false)
        .comparator("caseless", |a, b| a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()))
}

#[test]
fn where_the_file_takes_a_part_of_what_is_to_go_there_the_commit_is_whole() {
    let mut failed = 0;
    for fault_at in 0..8 {
        let disk = SimDisk::new(1);
        let env = builder(&disk).open("/env").unwrap();
        let (a, b) = (env.database("a").unwrap(), env.database("b").unwrap());
        let mut txn = env.begin().unwrap();
        disk.fail_at(disk.calls() + fault_at, Fault::Error(Io::StorageFull));
        let both = || (0..400u32).flat_map(|n| [(&a, n), (&b, n)]);
        let refused = both().find_map(|(db, n)| txn.insert(db, n.to_be_bytes(), [7; 400]).err());
        disk.clear_faults();
        failed += u32::from(refused.is_some_and(|error| error.kind() == ErrorKind::DiskFull));
        let seen = [txn.len(&a).unwrap(), txn.len(&b).unwrap()];
        txn.commit().unwrap();
        let env = builder(&disk.crash_as(Survival::Nothing, 3)).open("/env").unwrap();
        let there = ["a", "b"].map(|name| env.existing_database(name).unwrap().unwrap().len().unwrap());
        assert_eq!(there, seen, "call {fault_at}");
    }
    assert!(failed >= 3, "{failed}");
}

#[test]
fn a_write_of_the_file_that_is_lost_or_goes_astray_is_an_error_and_no_answer() {
    for fault in [Fault::LostWrite, Fault::MisdirectedWrite] {
        let noticed = (2..8).filter(|&call| {
            let disk = SimDisk::new(1);
            let env = builder(&disk).open("/env").unwrap();
            let a = env.database("a").unwrap();
            let mut txn = env.begin().unwrap();
            // The first calls make the file and take its name away, then there is a write for each run.
            disk.fail_at(disk.calls() + call, fault);
            (0..900u32).for_each(|n| txn.insert(&a, n.to_be_bytes(), [7; 700]).unwrap());
            disk.clear_faults();
            let is_damage = |error: sablecat::Error| error.kind() == ErrorKind::Corruption;
            let mut damaged = 0;
            for n in 0..900u32 {
                match txn.get(&a, n.to_be_bytes()) {
                    Ok(value) => assert_eq!(value.as_deref(), Some(&[7; 700][..]), "{fault:?} {call}: {n}"),
                    Err(error) => damaged += u32::from(is_damage(error)),
                }
            }
            if damaged > 0 {
                assert!(txn.len(&a).is_err_and(is_damage));
                assert!(txn.commit().is_err_and(is_damage));
            } else {
                txn.commit().unwrap();
            }
            assert_eq!(a.len().unwrap(), if damaged > 0 { 0 } else { 900 }, "{fault:?} {call}");
            env.write(|txn| txn.insert(&a, "on", "it goes")).unwrap();
            damaged > 0
        });
        assert!(noticed.count() > 0, "{fault:?}");
    }
}

#[test]
fn of_ways_to_write_a_key_the_first_stays_also_where_it_is_in_the_file() {
    for (spills, rolls_back) in [(false, false), (false, true), (true, false), (true, true)] {
        let env = builder(&SimDisk::new(1)).open("/env").unwrap();
        let a = env.database_ordered_by("a", "caseless").unwrap();
        let mut txn = env.begin().unwrap();
        txn.insert(&a, "Pending", "1").unwrap();
        let fill = |txn: &mut sablecat::Txn<'_>| {
            let count = if spills { 400 } else { 0 };
            (0..count).for_each(|n| txn.insert(&a, format!("z{n:05}"), [7; 1000]).unwrap());
        };
        fill(&mut txn);
        let before = txn.savepoint();
        txn.insert(&a, "pENDING", "2").unwrap();
        // Then both are in the file.
        fill(&mut txn);
        txn.insert(&a, "PENDING", "3").unwrap();
        let value = if rolls_back { "1" } else { "3" };
        if rolls_back {
            txn.rollback_to(&before).unwrap();
        }
        let expected = (b"Pending".to_vec(), value.as_bytes().to_vec());
        assert_eq!(txn.first(&a).unwrap().as_ref(), Some(&expected), "{spills} {rolls_back}");
        let in_range = txn.range(&a, ..).unwrap().next().unwrap().unwrap();
        assert_eq!((in_range.0.to_vec(), in_range.1.to_vec()), expected, "{spills} {rolls_back}");
        txn.commit().unwrap();
        assert_eq!(a.first().unwrap(), Some(expected), "{spills} {rolls_back}");
    }
}

#[test]
fn what_an_order_that_panics_cut_short_is_rolled_back_with_the_rest() {
    let fuse = Arc::new(AtomicI64::new(i64::MAX));
    let compares = Arc::clone(&fuse);
    let env = builder(&SimDisk::new(1))
        .comparator("fused", move |a, b| {
            assert!(compares.fetch_sub(1, Relaxed) > 0, "the fuse has blown");
            a.cmp(b)
        })
        .open("/env")
        .unwrap();
    let a = env.database_ordered_by("a", "fused").unwrap();
    let mut txn = env.begin().unwrap();
    (0..600u32).for_each(|n| txn.insert(&a, n.to_be_bytes(), [7; 700]).unwrap());
    let mut blown = [0; 3];
    for compared in 0..400 {
        let before = txn.savepoint();
        fuse.store(compared, Relaxed);
        let set = catch_unwind(AssertUnwindSafe(|| txn.insert(&a, 9u32.to_be_bytes(), "new")));
        fuse.store(compared % 10, Relaxed);
        let undone = catch_unwind(AssertUnwindSafe(|| txn.rollback_to(&before)));
        fuse.store(i64::MAX, Relaxed);
        txn.rollback_to(&before).unwrap();
        let value = txn.get(&a, 9u32.to_be_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&[7; 700][..]), "after {compared} comparisons");
        fuse.store(20 * compared, Relaxed);
        let range = 5u32.to_be_bytes()..15u32.to_be_bytes();
        let removed = catch_unwind(AssertUnwindSafe(|| txn.remove_range(&a, range)));
        fuse.store(i64::MAX, Relaxed);
        txn.rollback_to(&before).unwrap();
        for (blown, what) in blown.iter_mut().zip([set.is_err(), undone.is_err(), removed.is_err()]) {
            *blown += u32::from(what);
        }
    }
    assert!(blown.iter().all(|blown| (5..400).contains(blown)), "{blown:?}");
    assert_eq!(txn.len(&a).unwrap(), 600);
    txn.commit().unwrap();
    assert_eq!(a.len().unwrap(), 600);
}

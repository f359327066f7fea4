//! The everyday operations, end to end, in memory and on disk.

use std::collections::BTreeMap;

use sablecat::{Durability, Env};

/// A directory that goes when the test ends.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("sablecat-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn key(n: u64) -> [u8; 8] {
    // A bijection that scatters the keys.
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

#[test]
fn many_records_are_found_again_in_order_and_by_key() {
    let env = Env::in_memory().unwrap();
    let db = env.database("records").unwrap();
    let mut model = BTreeMap::new();
    for n in 0..20_000 {
        db.insert(key(n), n.to_le_bytes()).unwrap();
        model.insert(key(n).to_vec(), n.to_le_bytes().to_vec());
    }
    for n in (0..20_000).step_by(3) {
        assert!(db.remove(key(n)).unwrap());
        model.remove(key(n).as_slice());
    }
    for n in 0..20_000 {
        assert_eq!(db.get(key(n)).unwrap(), model.get(key(n).as_slice()).cloned());
    }
    let forwards: Vec<_> = db.range(..).unwrap().collect::<sablecat::Result<_>>().unwrap();
    let expected: Vec<_> = model.into_iter().collect();
    assert_eq!(forwards, expected);
    let mut backwards: Vec<_> = db.range(..).unwrap().rev().collect::<sablecat::Result<_>>().unwrap();
    backwards.reverse();
    assert_eq!(backwards, expected);
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn what_was_committed_is_there_after_closing_and_opening() {
    let scratch = Scratch::new("reopen");
    {
        let env = Env::builder().durability(Durability::NoSync).open(&scratch.0).unwrap();
        let db = env.database("records").unwrap();
        for n in 0..5_000 {
            db.insert(key(n), n.to_le_bytes()).unwrap();
        }
        drop(db);
        env.close().unwrap();
    }
    let env = Env::open(&scratch.0).unwrap();
    assert!(!env.recovery().recovered);
    let db = env.existing_database("records").unwrap().expect("it was created");
    for n in 0..5_000 {
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&n.to_le_bytes()[..]));
    }
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_second_handle_on_the_same_directory_is_refused() {
    let scratch = Scratch::new("twice");
    let _env = Env::open(&scratch.0).unwrap();
    let error = Env::open(&scratch.0).unwrap_err();
    assert_eq!(error.kind(), sablecat::ErrorKind::InUse);
}

#[test]
fn data_larger_than_the_cache_is_all_there() {
    let scratch = Scratch::new("evict");
    let open = || Env::builder().cache_size(1 << 20).durability(Durability::NoSync).open(&scratch.0).unwrap();
    let env = open();
    let db = env.database("records").unwrap();
    for n in 0..60_000 {
        db.insert(key(n), [n as u8; 100]).unwrap();
    }
    for n in 0..60_000 {
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&[n as u8; 100][..]), "record {n}");
    }
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    drop(db);
    drop(env);
    let env = open();
    let db = env.database("records").unwrap();
    assert_eq!(db.len().unwrap(), 60_000);
}

#[test]
fn long_values_are_kept_and_read_in_parts() {
    let env = Env::in_memory().unwrap();
    let db = env.database("long").unwrap();
    let long: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    db.insert("long", &long).unwrap();
    assert_eq!(db.get("long").unwrap().as_deref(), Some(&long[..]));
    let mut part = [0; 100];
    assert_eq!(db.read_at("long", 200_000, &mut part).unwrap(), Some(100));
    assert_eq!(part[..], long[200_000..200_100]);
    db.insert("long", "short now").unwrap();
    assert_eq!(db.get("long").unwrap().as_deref(), Some(&b"short now"[..]));
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_removed_database_is_gone_and_its_pages_are_used_again() {
    let env = Env::in_memory().unwrap();
    let mut pages = Vec::new();
    for _ in 0..4 {
        let db = env.database("short-lived").unwrap();
        for n in 0..20_000 {
            db.insert(key(n), [7; 40]).unwrap();
        }
        assert!(env.remove_database("short-lived").unwrap());
        assert_eq!(db.get(key(1)).unwrap_err().kind(), sablecat::ErrorKind::NotFound);
        pages.push(env.stats().unwrap().pages);
    }
    assert_eq!(env.databases().unwrap(), Vec::<String>::new());
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn threads_that_add_to_one_record_lose_nothing() {
    let env = Env::in_memory().unwrap();
    let db = env.database("counter").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    env.write(|txn| {
                        let have = txn
                            .get(&db, "n")?
                            .map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()));
                        txn.insert(&db, "n", (have + 1).to_le_bytes())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(db.get("n").unwrap().unwrap(), 2000u64.to_le_bytes());
}

#[test]
fn a_data_store_keeps_what_was_checkpointed() {
    let scratch = Scratch::new("store");
    {
        let mut store = Env::builder().cache_size(1 << 20).open_data_store(&scratch.0).unwrap();
        let table = store.database("records").unwrap();
        for n in 0..50_000 {
            store.insert(&table, key(n), [n as u8; 50]).unwrap();
        }
        for n in (0..50_000).step_by(2) {
            assert!(store.remove(&table, key(n)).unwrap());
        }
        assert_eq!(store.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        store.close().unwrap();
    }
    let mut store = Env::builder().open_data_store(&scratch.0).unwrap();
    let table = store.database("records").unwrap();
    for n in 0..50_000 {
        let expected = (n % 2 == 1).then_some(vec![n as u8; 50]);
        assert_eq!(store.get(&table, key(n)).unwrap(), expected);
    }
}

#[test]
fn a_transaction_larger_than_the_log_buffer_commits_and_is_recovered() {
    let disk = std::sync::Arc::new(sablecat_os::sim::SimDisk::new(7));
    let open = |disk: std::sync::Arc<sablecat_os::sim::SimDisk>| {
        Env::builder()
            .disk(disk)
            .log_buffer_size(1 << 16)
            .log_segment_size(1 << 16)
            .background(false)
            .open("db")
            .unwrap()
    };
    let env = open(disk.clone());
    let db = env.database("records").unwrap();
    let mut txn = env.begin().unwrap();
    for n in 0..10_000 {
        txn.insert(&db, key(n), [n as u8; 60]).unwrap();
    }
    txn.commit().unwrap();
    // The power goes: what was promised is there, replayed from the log.
    let env = open(std::sync::Arc::new(disk.crash(1)));
    assert!(env.recovery().recovered);
    let db = env.existing_database("records").unwrap().expect("it was created");
    for n in 0..10_000 {
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&[n as u8; 60][..]));
    }
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_database_renamed_after_a_checkpoint_has_its_records_after_a_crash() {
    for (from, to) in [("a", "b"), ("b", "a")] {
        let disk = std::sync::Arc::new(sablecat_os::sim::SimDisk::new(9));
        let env = Env::builder().disk(disk.clone()).background(false).open("/env").unwrap();
        env.database(from).unwrap().insert(b"k", b"v").unwrap();
        env.checkpoint().unwrap();
        env.rename_database(from, to).unwrap();
        let env =
            Env::builder().disk(std::sync::Arc::new(disk.crash(1))).background(false).open("/env").unwrap();
        assert_eq!(env.databases().unwrap(), [to]);
        assert_eq!(
            env.database(to).unwrap().get(b"k").unwrap().as_deref(),
            Some(&b"v"[..]),
            "{from} to {to}"
        );
        let report = env.verify(&mut |_| {}).unwrap();
        assert_eq!((report.problems.len(), report.pages_unreachable), (0, 0));
    }
}

#[test]
fn a_bulk_load_fills_an_empty_database_and_survives_a_crash() {
    let disk = std::sync::Arc::new(sablecat_os::sim::SimDisk::new(8));
    let open = |disk: std::sync::Arc<sablecat_os::sim::SimDisk>| {
        Env::builder()
            .disk(disk)
            .log_buffer_size(1 << 16)
            .log_segment_size(1 << 16)
            .background(false)
            .open("db")
            .unwrap()
    };
    let env = open(disk.clone());
    for records in [0, 1, 50, 30_000u64] {
        let db = env.database(&format!("of {records}")).unwrap();
        let loaded = db.bulk_load((0..records).map(|n| (n.to_be_bytes(), [n as u8; 30]))).unwrap();
        assert_eq!(loaded, records);
        assert_eq!(db.len().unwrap(), records);
    }
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    let db = env.database("of 50").unwrap();
    assert_eq!(db.bulk_load([(b"k", b"v")]).unwrap_err().kind(), sablecat::ErrorKind::Invalid);
    let env = open(std::sync::Arc::new(disk.crash(2)));
    let db = env.existing_database("of 30000").unwrap().expect("it was created");
    let visited: Vec<_> = db.range(..).unwrap().collect::<sablecat::Result<_>>().unwrap();
    assert!(visited.iter().map(|(key, _)| key.clone()).eq((0..30_000u64).map(|n| n.to_be_bytes().to_vec())));
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn records_out_of_order_fail_a_bulk_load_and_leave_the_database_empty() {
    let env = Env::in_memory().unwrap();
    let db = env.database("records").unwrap();
    let before = env.stats().unwrap().pages;
    let disorder = (0..20_000u64).chain(5..6).map(|n| (n.to_be_bytes(), [1; 30]));
    assert_eq!(db.bulk_load(disorder).unwrap_err().kind(), sablecat::ErrorKind::Invalid);
    assert!(db.is_empty().unwrap());
    assert!(env.stats().unwrap().pages >= before);
    db.insert("k", "v").unwrap();
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn an_environment_goes_from_data_store_to_transactions_and_back() {
    let scratch = Scratch::new("both-ways");
    for round in 0..3u64 {
        {
            let mut store = Env::builder().open_data_store(&scratch.0).unwrap();
            let table = store.database("records").unwrap();
            for n in 0..3_000 {
                store.insert(&table, key(n), round.to_le_bytes()).unwrap();
            }
            store.close().unwrap();
        }
        let env = Env::builder().durability(Durability::NoSync).open(&scratch.0).unwrap();
        let db = env.database("records").unwrap();
        assert_eq!(db.len().unwrap(), 3_000 + round);
        db.insert(format!("round {round}"), "transactional").unwrap();
    }
}

#[test]
fn a_visit_shows_exactly_the_records_between_its_bounds() {
    let env = Env::in_memory().unwrap();
    let db = env.database("records").unwrap();
    for n in 0..5_000u32 {
        db.insert((2 * n).to_be_bytes(), n.to_le_bytes()).unwrap();
    }
    for (from, to) in [(0u32, 10u32), (777, 778), (4_000, 9_999), (5, 5), (9_998, 20_000)] {
        let mut seen = Vec::new();
        db.visit(from.to_be_bytes()..=to.to_be_bytes(), |key, _| {
            seen.push(u32::from_be_bytes(key.try_into().unwrap()));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        let expected: Vec<u32> = (from..=to.min(9_998)).filter(|n| n % 2 == 0).collect();
        assert_eq!(seen, expected, "{from}..={to}");
        seen.clear();
        db.visit_back(from.to_be_bytes()..=to.to_be_bytes(), |key, _| {
            seen.push(u32::from_be_bytes(key.try_into().unwrap()));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert!(seen.iter().rev().eq(&expected), "{from}..={to}, from the last to the first");
        // What is folded is handed on from leaf to leaf, and comes out where it breaks off, in whichever leaf
        // that is.
        for most in [0, 1, 150, 2_000, 9_999] {
            let folded =
                db.fold(from.to_be_bytes()..=to.to_be_bytes(), (0, 0u64), |(count, sum), key, value| {
                    if count == most {
                        return std::ops::ControlFlow::Break((count, sum));
                    }
                    let (key, value) = (
                        u32::from_be_bytes(key.try_into().unwrap()),
                        u32::from_le_bytes(value.try_into().unwrap()),
                    );
                    std::ops::ControlFlow::Continue((count + 1, sum + u64::from(key) + u64::from(value)))
                });
            let expected = &expected[..most.min(expected.len())];
            assert_eq!(
                folded.unwrap(),
                (expected.len(), expected.iter().map(|&key| u64::from(key + key / 2)).sum()),
                "{from}..={to}, {most}"
            );
        }
    }
}

#[test]
fn a_read_only_transaction_folds_the_state_it_began_with() {
    let env = Env::in_memory().unwrap();
    let db = env.database("records").unwrap();
    for n in 0..5_000u32 {
        db.insert(n.to_be_bytes(), n.to_le_bytes()).unwrap();
    }
    let then = env.snapshot().unwrap();
    for n in 1_000..5_000u32 {
        db.remove(n.to_be_bytes()).unwrap();
    }
    let sum = |sum: u64, _: &[u8], value: &[u8]| {
        std::ops::ControlFlow::Continue(sum + u64::from(u32::from_le_bytes(value.try_into().unwrap())))
    };
    assert_eq!(then.fold(&db, .., 0, sum).unwrap(), (0..5_000).sum::<u64>());
    assert_eq!(db.fold(.., 0, sum).unwrap(), (0..1_000).sum::<u64>());
    let mut seen = 0;
    then.visit(&db, .., |_, _| {
        seen += 1;
        if seen == 3_000 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, 3_000);
}

/// Whoever looks at a record for as long as he likes (a debugger may have stopped his process) holds up
/// nobody: not those who change all records, many more times than there is room for versions, nor those who
/// read many more than there is room for.
#[test]
fn who_looks_at_a_record_for_long_holds_up_nobody() {
    const RECORDS: u64 = 20_000;
    const CHANGED: u64 = 2_000;
    let scratch = Scratch::new("long-look");
    let env = Env::builder().cache_size(1 << 20).durability(Durability::NoSync).open(&scratch.0).unwrap();
    let db = env.database("records").unwrap();
    let value = |n: u64| [n as u8; 100];
    for n in 0..RECORDS {
        db.insert(n.to_be_bytes(), value(n)).unwrap();
    }
    let ((looks, begun), (done, end)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    std::thread::scope(|scope| {
        let db = &db;
        scope.spawn(move || {
            let look = |seen: Option<&[u8]>| {
                looks.send(()).unwrap();
                end.recv().unwrap_err();
                assert_eq!(seen, Some(&value(0)[..]), "what is looked at stays");
            };
            db.get_with(0u64.to_be_bytes(), look).unwrap();
        });
        // Ends the look, also when something here fails.
        let done = done;
        begun.recv().unwrap();
        for n in 0..RECORDS {
            db.insert((n % CHANGED).to_be_bytes(), value(n + 1)).expect("nobody is in the way");
            assert_eq!(db.get((RECORDS + n).to_be_bytes()).expect("nobody is in the way"), None);
        }
        for n in CHANGED..RECORDS {
            assert_eq!(db.get(n.to_be_bytes()).expect("nobody is in the way"), Some(value(n).to_vec()));
        }
        drop(done);
    });
    drop(db);
    env.close().unwrap();
}

#[test]
fn a_program_without_threads_keeps_house_itself() {
    let disk = std::sync::Arc::new(sablecat_os::sim::SimDisk::new(9));
    let open = |disk: std::sync::Arc<sablecat_os::sim::SimDisk>| {
        let builder = Env::builder()
            .disk(disk)
            .log_buffer_size(1 << 16)
            .durability(sablecat::Durability::NoSync)
            .background(false);
        builder.flush_interval(std::time::Duration::ZERO).checkpoint_log_size(1 << 16).open("db").unwrap()
    };
    let env = open(disk.clone());
    let db = env.database("records").unwrap();
    db.insert("flushed", "1").unwrap();
    env.keep_house().unwrap();
    db.insert("not flushed", "2").unwrap();

    // The power goes, with all that no flush has covered.
    let env = open(std::sync::Arc::new(disk.crash_as(sablecat_os::sim::Survival::Nothing, 1)));
    let db = env.existing_database("records").unwrap().expect("it was created");
    assert_eq!(db.get("flushed").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get("not flushed").unwrap(), None);

    let before = env.stats().unwrap().checkpoint;
    for n in 0..2_000 {
        db.insert(key(n), [n as u8; 60]).unwrap();
    }
    env.keep_house().unwrap();
    assert!(
        env.stats().unwrap().checkpoint > before,
        "a checkpoint is written when the log has grown enough"
    );
}

/// Each thread remembers for itself where it was. A leaf that it remembers may be gone, and its number be
/// that of a page of a load that has failed.
#[test]
fn nothing_of_a_load_that_failed_is_found_in_a_data_store() {
    use std::sync::{RwLock, mpsc};
    let key = |n: u32| n.to_be_bytes();
    for n in (0..300).step_by(20) {
        let mut store = Env::builder().data_store_in_memory().unwrap();
        let db = store.database("d").unwrap();
        (0..300).for_each(|n| store.insert(&db, key(n), [1; 100]).unwrap());
        let store = RwLock::new(store);
        let ((ask, asked), (tell, told)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                asked
                    .into_iter()
                    .for_each(|()| tell.send(store.read().unwrap().get(&db, key(n)).unwrap()).unwrap())
            });
            let get = || {
                ask.send(()).unwrap();
                told.recv().unwrap()
            };
            assert_eq!(get(), Some(vec![1; 100]));
            {
                let mut store = store.write().unwrap();
                (0..300).rev().for_each(|n| assert!(store.remove(&db, key(n)).unwrap()));
                let records = (0..1000).chain([0]).map(|n| (key(n), [2; 100]));
                store.bulk_load(&db, records).expect_err("the last is out of order");
            }
            assert_eq!(get(), None, "record {n}");
            drop(ask);
        });
    }
}

/// An insertion may need pages that are not in the cache, and room on the disk for those that are in their
/// way.
#[test]
fn what_was_in_a_data_store_is_there_after_insertions_that_failed() {
    use sablecat_os::sim::{Fault, SimDisk};
    for seed in 0..6 {
        let disk = SimDisk::new(seed);
        let builder = Env::builder()
            .disk(std::sync::Arc::new(disk.clone()))
            .page_size(512)
            .cache_size(0)
            .background(false);
        let mut store = builder.open_data_store("/env").unwrap();
        let db = store.database("d").unwrap();
        let (mut there, mut failed) = (Vec::new(), 0);
        for n in 0..12_000 {
            if n % 5 == 0 {
                let fault =
                    if n % 2 == 0 { Fault::DiskFull } else { Fault::Error(std::io::ErrorKind::Other) };
                disk.fail_at(disk.calls() + 1 + n / 5 % 4, fault);
            }
            match store.insert(&db, key(n + seed), [n as u8; 60]) {
                Ok(()) => there.push(n),
                Err(_) => failed += 1,
            }
            disk.clear_faults();
        }
        assert!(failed > 10, "{failed}");
        for n in there {
            assert_eq!(
                store.get(&db, key(n + seed)).unwrap(),
                Some(vec![n as u8; 60]),
                "record {n} of seed {seed}, {failed} failed"
            );
        }
        assert_eq!(store.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    }
}

/// Keys in order are expected behind one another, in the leaf used last. Groups of keys that end alike are in
/// leaves that look alike but for what their keys begin with: who goes from one group over to another finds
/// that, and so does who comes to where records are missing, or to another database.
#[test]
fn what_is_expected_of_keys_in_order_is_not_taken_for_granted() {
    const GROUPS: u32 = 9;
    const NUMBERS: u32 = 400;
    let key = |group: u32, n: u32| [&b"group"[..], &group.to_be_bytes(), &n.to_be_bytes()].concat();
    let value = |group: u32, n: u32, version: u32| [group, n, version].map(u32::to_le_bytes).concat();
    let is_there = |group: u32, n: u32| !(group + n).is_multiple_of(7);
    let walk = |from: u32| {
        (0..GROUPS * NUMBERS).map(move |i| ((from + i / 13 * 5) % GROUPS, (i * (1 + from % 2)) % NUMBERS))
    };
    let env = Env::in_memory().unwrap();
    // Nine, so that two share what is remembered.
    let databases: Vec<_> = (0..9).map(|n| env.database(&format!("d{n}")).unwrap()).collect();
    let directory = Scratch::new("expected");
    let mut store = Env::builder().open_data_store(&directory.0).unwrap();
    let table = store.database("t").unwrap();
    for (group, n) in (0..GROUPS).flat_map(|group| (0..NUMBERS).map(move |n| (group, n))) {
        if is_there(group, n) {
            for db in &databases {
                db.insert(key(group, n), value(group, n, 0)).unwrap();
            }
            store.insert(&table, key(group, n), value(group, n, 0)).unwrap();
        }
    }
    let expected = |group, n, version| is_there(group, n).then(|| value(group, n, version));
    for from in 0..GROUPS {
        let snapshot = env.snapshot().unwrap();
        for (i, (group, n)) in (0..).zip(walk(from)) {
            let db = &databases[if i % 50 < 40 { 0 } else { 8 }];
            assert_eq!(db.get(key(group, n)).unwrap(), expected(group, n, 0), "{group} {n}");
            assert_eq!(snapshot.get(db, key(group, n)).unwrap(), expected(group, n, 0), "{group} {n}");
            assert_eq!(store.get(&table, key(group, n)).unwrap(), expected(group, n, 0), "{group} {n}");
        }
    }
    // Changes go the same ways: each record has its own, and no other.
    for (group, n) in walk(3).filter(|&(group, n)| is_there(group, n)) {
        databases[1].insert(key(group, n), value(group, n, 1)).unwrap();
        store.insert(&table, key(group, n), value(group, n, 1)).unwrap();
        env.write(|txn| txn.insert(&databases[2], key(group, n), value(group, n, 1))).unwrap();
    }
    let changed: std::collections::HashSet<_> = walk(3).collect();
    for (group, n) in (0..GROUPS).flat_map(|group| (0..NUMBERS).map(move |n| (group, n))) {
        let expected = expected(group, n, changed.contains(&(group, n)).into());
        assert_eq!(databases[1].get(key(group, n)).unwrap(), expected, "{group} {n}");
        assert_eq!(databases[2].get(key(group, n)).unwrap(), expected, "{group} {n}");
        assert_eq!(store.get(&table, key(group, n)).unwrap(), expected, "{group} {n}");
    }
}

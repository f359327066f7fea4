//! LSM trees: what layers say together, whatever is being merged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{Database, Durability, Env, ErrorKind, Method};
use sablecat_os::sim::SimDisk;

fn open(disk: &SimDisk) -> Env {
    open_with(disk, 512 * 1024)
}

fn open_with(disk: &SimDisk, cache_bytes: u64) -> Env {
    Env::builder()
        .page_size(1024)
        .background(false)
        .cache_size(cache_bytes)
        .newest_layer_bytes(8 * 1024)
        .log_segment_size(1 << 20)
        .durability(Durability::NoSync)
        .disk(Arc::new(disk.clone()))
        .open("env")
        .expect("opened")
}

/// How many pages there are, with what is still to be freed.
fn pages(env: &Env) -> u64 {
    env.stats().expect("looked at").pages
}

fn key(n: u32) -> Vec<u8> {
    format!("{:08x}", n.wrapping_mul(0x9e37_79b1)).into_bytes()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn assert_is(records: &Database, model: &Model) {
    let found: Vec<_> = records.range(..).expect("begun").map(|record| record.expect("read")).collect();
    assert_eq!(found.len(), model.len());
    assert!(found.iter().map(|(key, value)| (key, value)).eq(model));
    let back = records.range(..).expect("begun").rev().map(|record| record.expect("read"));
    assert!(back.eq(model.iter().rev().map(|(key, value)| (key.clone(), value.clone()))));
    for n in 0..4000 {
        assert_eq!(records.get(key(n)).expect("read"), model.get(&key(n)).cloned(), "{n}");
    }
}

/// All layers are read for it but what is freed; what it sees stays, however much is merged meanwhile.
#[test]
fn a_snapshot_sees_what_it_saw_while_all_is_merged_again_and_again() {
    let env = open(&SimDisk::new(1));
    let records = env.database_as("records", Method::Lsm).expect("made");
    let write = |round: u8| {
        (0..4000).for_each(|n| records.insert(key(n), [round; 60]).expect("inserted"));
    };
    write(0);
    let before = env.snapshot().expect("begun");
    (1..5).for_each(write);
    let seen: Vec<_> = before.range(&records, ..).expect("begun").map(|found| found.expect("kept")).collect();
    assert_eq!(seen.len(), 4000);
    assert!(seen.iter().all(|(_, value)| value[..] == [0; 60]));
    assert!((0..4000).all(|n| before.get(&records, key(n)).expect("kept").as_deref() == Some(&[0; 60][..])));
    drop(before);
    // What was kept for it is freed then.
    (5..7).for_each(write);
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
    assert!(report.pages < 4 * 4000 / 10, "{} pages", report.pages);
}

/// Merges with the oldest layer leave removals out, and so may come to many records without drawing one: more
/// here than one step looks at.
#[test]
fn removals_in_a_row_end_no_merge() {
    let env = Env::builder()
        .page_size(1024)
        .background(false)
        .cache_size(512 * 1024)
        .newest_layer_bytes(64 * 1024)
        .durability(Durability::NoSync)
        .disk(Arc::new(SimDisk::new(1)))
        .open("env")
        .expect("opened");
    let records = env.database_as("records", Method::Lsm).expect("made");
    (0..8000u32).for_each(|n| records.insert(n.to_be_bytes(), n.to_be_bytes()).expect("inserted"));
    for n in 0..7900u32 {
        assert!(records.remove(n.to_be_bytes()).expect("removed"), "{n} is gone");
        if n.is_multiple_of(100) {
            assert_eq!(records.len().expect("read"), u64::from(7999 - n));
        }
    }
    let left = records.range(..).expect("begun").map(|record| record.expect("read").0);
    assert!(left.eq((7900..8000u32).map(|n| n.to_be_bytes().to_vec())));
}

/// Threads merge, free and seal while others read and write.
#[test]
fn what_is_merged_in_the_background_disturbs_nobody() {
    let env = Env::builder()
        .page_size(1024)
        .cache_size(512 * 1024)
        .newest_layer_bytes(16 * 1024)
        .durability(Durability::NoSync)
        .disk(Arc::new(SimDisk::new(1)))
        .open("env")
        .expect("opened");
    let records = env.database_as("records", Method::Lsm).expect("made");
    (0..2000).for_each(|n| records.insert(key(n), 0u32.to_be_bytes()).expect("inserted"));
    let stop = AtomicBool::new(false);
    let added: u32 = std::thread::scope(|scope| {
        let adders: Vec<_> = (0..3u32)
            .map(|thread| {
                let (env, records) = (&env, &records);
                scope.spawn(move || {
                    for n in 0..2000u32 {
                        let at = key(n.wrapping_mul(2_654_435_761 + thread) % 2000);
                        env.write(|txn| {
                            let count = txn.get(records, &at)?.expect("none is removed");
                            let count = u32::from_be_bytes(count[..].try_into().expect("four bytes"));
                            txn.insert(records, &at, (count + 1).to_be_bytes())
                        })
                        .expect("committed");
                    }
                    2000
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut walks = 0;
            while !stop.load(Ordering::Relaxed) || walks == 0 {
                match records.range(..).expect("begun").collect::<sablecat::Result<Vec<_>>>() {
                    Ok(all) => assert_eq!(all.len(), 2000),
                    // Too much is changed for so small a cache.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::SnapshotTooOld),
                }
                walks += 1;
            }
        });
        let added = adders.into_iter().map(|adder| adder.join().expect("ended")).sum();
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("ended");
        added
    });
    let counts = records.range(..).expect("begun").map(|record| {
        let (_, count) = record.expect("read");
        u32::from_be_bytes(count[..].try_into().expect("four bytes"))
    });
    assert_eq!(counts.sum::<u32>(), added);
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!(report.problems, [""; 0]);
}

#[test]
fn keys_fit_a_page_and_queues_are_elsewhere() {
    let env = open(&SimDisk::new(1));
    let records = env.database_as("records", Method::Lsm).expect("made");
    records.insert([7; 111], "").expect("the longest");
    assert_eq!(records.insert([7; 112], "").expect_err("too long").kind(), ErrorKind::Invalid);
    let options = sablecat::DatabaseOptions::new().method(Method::Lsm);
    let queue = sablecat::Holds::Queue { record_bytes: 8, pad: 0 };
    let error = env.database_with("jobs", options.holds(queue)).expect_err("not in layers");
    assert!(error.to_string().contains("an LSM tree"), "{error}");
    let env = Env::builder()
        .comparator("reversed", |one, other| other.cmp(one))
        .disk(Arc::new(SimDisk::new(1)))
        .open("env")
        .expect("opened");
    let reversed = sablecat::DatabaseOptions::new().method(Method::Lsm).ordered_by("reversed");
    let error = env.database_with("reversed", reversed).expect_err("in the order of bytes");
    assert!(error.to_string().contains("an LSM tree"), "{error}");
}

#[test]
fn records_are_what_was_written_last() {
    let disk = SimDisk::new(1);
    let mut model = Model::new();
    let mut env = open(&disk);
    let mut n = 0u32;
    for round in 0..6u32 {
        let records = env.database_as("records", Method::Lsm).expect("made");
        for _ in 0..1500 {
            n += 1;
            let at = n.wrapping_mul(2_654_435_761) % 4000;
            if n % 5 == round % 5 {
                assert_eq!(records.remove(key(at)).expect("removed"), model.remove(&key(at)).is_some());
            } else {
                // One of some has pages of its own.
                let value = vec![n as u8; if n.is_multiple_of(97) { 1500 } else { 60 }];
                records.insert(key(at), &value).expect("inserted");
                model.insert(key(at), value);
            }
        }
        assert_is(&records, &model);
        env.checkpoint().expect("written");
        let report = env.verify(&mut |_| {}).expect("read");
        assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
        assert_eq!(report.records, model.len() as u64);
        drop(records);
        env.close().expect("closed");
        env = open(&disk);
    }
}

/// A transaction that has read a long value is not in conflict with a merge that has moved its record.
#[test]
fn long_values_stay_where_they_are_while_their_layers_are_merged() {
    let env = open(&SimDisk::new(1));
    let records = env.database_as("records", Method::Lsm).expect("made");
    (0..100).for_each(|n| records.insert(key(n), [1; 3000]).expect("inserted"));
    // The records are in a layer that was sealed, all of which changed since.
    (100..1000).for_each(|n| records.insert(key(n), [1; 60]).expect("inserted"));
    let mut txn = env.begin().expect("begun");
    let read = (0..3).map(|n| txn.get(&records, key(n)).expect("read").expect("there"));
    assert!(read.into_iter().all(|value| value[..] == [1; 3000]));
    (1000..4000).for_each(|n| records.insert(key(n), [2; 60]).expect("inserted"));
    txn.insert(&records, key(5000), [3]).expect("taken");
    txn.commit().expect("nobody has changed what it has read");
}

/// Wherever a merge stands, each long value is led to once, and goes with what leads to it.
#[test]
fn long_values_belong_to_one_layer_at_a_time() {
    let env = open(&SimDisk::new(1));
    let records = env.database_as("records", Method::Lsm).expect("made");
    let mut model = Model::new();
    let check = |model: &Model| {
        env.checkpoint().expect("written");
        let report = env.verify(&mut |_| {}).expect("read");
        assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
        assert_eq!(report.records, model.len() as u64);
    };
    for n in 0..6000u32 {
        let at = n.wrapping_mul(2_654_435_761) % 500;
        // Replaced by another long one, by a short one, or removed.
        let value = vec![n as u8; if n.is_multiple_of(3) { 60 } else { 1500 }];
        if n.is_multiple_of(7) {
            assert_eq!(records.remove(key(at)).expect("removed"), model.remove(&key(at)).is_some());
        } else {
            records.insert(key(at), &value).expect("inserted");
            model.insert(key(at), value);
        }
        if n.is_multiple_of(61) {
            check(&model);
        }
    }
    assert_is(&records, &model);
    records.clear().expect("cleared");
    check(&Model::new());
}

/// A layer is as large as its records, whatever these lead to: so it is merged with those of like size.
#[test]
fn space_of_long_values_that_were_loaded_comes_back() {
    let env = open(&SimDisk::new(1));
    let records = env.database_as("records", Method::Lsm).expect("made");
    let mut keys: Vec<_> = (0..300).map(key).collect();
    keys.sort();
    records.bulk_load(keys.iter().map(|key| (key, [1; 8000]))).expect("loaded");
    let pages = |env: &Env| {
        let report = env.verify(&mut |_| {}).expect("read");
        assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
        report.pages
    };
    let loaded = pages(&env);
    assert!(loaded > 300 * 8, "{loaded} pages");
    for round in 0..8 {
        (0..300).for_each(|n| records.insert(key(n), [round; 60]).expect("inserted"));
    }
    assert!(pages(&env) < loaded / 4, "{} pages", pages(&env));
}

/// A merge may be anywhere when its database goes: what it has handed on goes once, and so does what it has
/// not.
#[test]
fn a_database_goes_with_its_long_values_while_layers_are_merged() {
    let env = Env::builder()
        .page_size(1024)
        .cache_size(256 * 1024)
        .newest_layer_bytes(32 * 1024)
        .durability(Durability::NoSync)
        .disk(Arc::new(SimDisk::new(1)))
        .open("env")
        .expect("opened");
    for round in 0..40u32 {
        let name = format!("to be removed {round}");
        let records = env.database_as(&name, Method::Lsm).expect("made");
        for n in 0..1000 + 50 * round {
            let value = vec![n as u8; if n.is_multiple_of(8) { 1500 } else { 150 }];
            records.insert(key(n % 900), value).expect("inserted");
        }
        drop(records);
        assert!(env.remove_database(&name).expect("removed"));
        env.checkpoint().expect("written");
        let report = env.verify(&mut |_| {}).expect("read");
        assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0), "round {round}");
    }
}

/// Layers that are out of memory are freed a run of neighbours at a time, of which one page is read. A
/// snapshot from between their merge and that still comes to all of them.
#[test]
fn what_was_merged_is_freed_unread_and_stays_for_who_may_come_to_it() {
    let disk = SimDisk::new(1);
    let write = |records: &Database, round: u8, numbers: Range<u32>| {
        numbers.for_each(|n| records.insert(key(n), [round; 60]).expect("inserted"));
    };
    let env = open_with(&disk, 8 << 20);
    let records = env.database_as("records", Method::Lsm).expect("made");
    write(&records, 0, 0..4000);
    // What it sees is kept.
    let before = env.snapshot().expect("begun");
    write(&records, 1, 0..4000);
    let kept = pages(&env);
    drop((before, records));
    env.close().expect("closed");

    let env = open_with(&disk, 8 << 20);
    let records = env.database_as("records", Method::Lsm).expect("there");
    let (mut read, mut begun) = (0, false);
    let report = env.verify(&mut |_| {
        if !std::mem::replace(&mut begun, true) {
            write(&records, 2, 0..100);
            read = env.counters().page_misses;
        }
    });
    assert_eq!(report.expect("read").problems, [""; 0]);
    env.checkpoint().expect("written");
    let left = pages(&env);
    assert!(left + 300 < kept, "{kept} pages, {left} left");
    assert!(read < 200, "{read} pages were read to free {}", kept - left);
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
}

/// Several threads merge, free and make filters at once, beside checkpoints, while what is merged has long
/// values and removals.
#[test]
fn layers_that_several_tend_are_what_was_written() {
    let env = Env::builder()
        .page_size(1024)
        .cache_size(1 << 20)
        .newest_layer_bytes(8 * 1024)
        .checkpoint_interval(std::time::Duration::from_millis(50))
        .durability(Durability::NoSync)
        .disk(Arc::new(SimDisk::new(1)))
        .open("env")
        .expect("opened");
    let records = env.database_as("records", Method::Lsm).expect("made");
    let write = |thread: u32| {
        let (mut model, mut dice) = (Model::new(), thread);
        for n in 0..12_000u32 {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = [&[thread as u8][..], &key((dice >> 8) % 1500)].concat();
            if dice >> 28 < 4 {
                assert_eq!(records.remove(&at).expect("removed"), model.remove(&at).is_some(), "{n}");
            } else {
                let len = if dice >> 28 == 15 { 3000 } else { 40 };
                let value = vec![n as u8; len];
                records.insert(&at, &value).expect("inserted");
                model.insert(at, value);
            }
        }
        model
    };
    let models: Vec<Model> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|thread| scope.spawn(move || write(thread))).collect();
        writers.into_iter().map(|writer| writer.join().expect("ended")).collect()
    });
    let model: Model = models.into_iter().flatten().collect();
    let found = records.range(..).expect("begun").map(|record| record.expect("read"));
    assert!(found.eq(model.clone()));
    assert!(model.iter().all(|(key, value)| records.get(key).expect("read").as_ref() == Some(value)));
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!(report.problems, [""; 0]);
    drop(records);
    env.remove_database("records").expect("removed");
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
}

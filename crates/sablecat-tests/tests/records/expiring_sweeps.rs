//! Records that have expired, and are swept: beside transactions at each isolation, and by who keeps house.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sablecat::{Database, Env, ErrorKind, Expiring, Isolation, Lifetime, Method, Result, Txn};
use sablecat_os::sim::SimDisk;
use sablecat_tests::clock::{Clock, ISOLATIONS, METHODS, at, ms};

/// What expired less long ago housekeeping leaves alone.
const GRACE: u64 = 5000;

/// An environment with two records that expire at once, one of them long, and a plain database.
fn with_expired(clock: &Clock, method: Method) -> (Env, Expiring, Database) {
    let env = clock.in_memory();
    let records = Expiring::open_as(&env, "records", method).unwrap();
    let aside = env.database("aside").unwrap();
    env.write(|txn| {
        records.insert(txn, "stays", "here", Lifetime::Unlimited)?;
        records.insert(txn, "short", "value", ms(10))?;
        records.insert(txn, "long", [7; 10_000], ms(10))
    })
    .unwrap();
    clock.pass(10);
    (env, records, aside)
}

/// What a transaction does with a record that has expired.
type Work = fn(&mut Txn<'_>, &Expiring) -> Result<()>;

const WORKS: [(&str, Work); 8] = [
    ("get", |txn, records| records.get(txn, "short").map(|found| assert_eq!(found, None))),
    ("get long", |txn, records| records.get(txn, "long").map(|found| assert_eq!(found, None))),
    ("range", |txn, records| {
        let all: Vec<_> = records.range(txn, ..)?.collect::<Result<_>>()?;
        assert_eq!(all.len(), 1);
        Ok(())
    }),
    ("insert", |txn, records| records.insert(txn, "short", "new", ms(1000))),
    ("insert long", |txn, records| records.insert(txn, "long", [8; 10_000], Lifetime::Unlimited)),
    // With the time that the one before had: it has the same entry in the index.
    ("insert with its time", |txn, records| records.insert(txn, "short", "new", ms(0))),
    ("insert as it was", |txn, records| records.insert(txn, "short", "value", ms(0))),
    ("insert new", |txn, records| {
        assert!(records.insert_new(txn, "short", "new", Lifetime::Unlimited)?);
        assert!(records.insert_new(txn, "long", "new", ms(5))?);
        Ok(())
    }),
];

#[test]
fn no_transaction_conflicts_with_a_sweep_of_what_had_expired_for_it() {
    for (isolation, method) in ISOLATIONS.into_iter().flat_map(|one| METHODS.map(|method| (one, method))) {
        for (name, work) in WORKS {
            for many in [false, true] {
                let clock = Clock::new();
                let (env, records, aside) = with_expired(&clock, method);
                let mut txn = env.begin_with(at(isolation)).unwrap();
                work(&mut txn, &records).unwrap();
                // More leaves than are looked at one by one; and some that are split.
                for n in 0..if many { 2000u32 } else { 1 } {
                    txn.insert(&aside, n.to_be_bytes(), [1; 50]).unwrap();
                }
                assert_eq!(records.sweep().unwrap(), 2);
                let committed = txn.commit();
                assert!(committed.is_ok(), "{name}, {isolation:?}, {method}: {committed:?}");
                assert_eq!(records.verify(&env).unwrap(), [""; 0], "{name}, {isolation:?}, {method}");
                if name.starts_with("insert") {
                    assert!(records.database().len().unwrap() > 1, "{name}, {isolation:?}, {method}");
                }
            }
        }
    }
}

/// A sweep is excused, and nobody else.
#[test]
fn what_others_than_a_sweep_do_is_a_conflict_as_always() {
    type Other = fn(&Env, &Expiring, &Clock) -> Result<()>;
    let others: [(&str, Other); 3] = [
        ("set anew", |env, records, _| env.write(|txn| records.insert(txn, "short", "theirs", ms(1000)))),
        ("set for good", |env, records, _| {
            env.write(|txn| records.insert(txn, "short", "theirs", Lifetime::Unlimited))
        }),
        ("swept and set", |env, records, _| {
            records.sweep()?;
            env.write(|txn| records.insert(txn, "short", "theirs", ms(1000)))
        }),
    ];
    for (isolation, method) in ISOLATIONS.into_iter().flat_map(|one| METHODS.map(|method| (one, method))) {
        for (name, other) in others {
            let clock = Clock::new();
            let (env, records, _) = with_expired(&clock, method);
            let mut txn = env.begin_with(at(isolation)).unwrap();
            assert!(records.insert_new(&mut txn, "short", "mine", ms(1000)).unwrap());
            other(&env, &records, &clock).unwrap();
            let lost = txn.commit().expect_err(name);
            assert_eq!(lost.kind(), ErrorKind::Conflict, "{name}, {isolation:?}, {method}");
            assert_eq!(records.get(&env, "short").unwrap().as_deref(), Some(&b"theirs"[..]));
        }
    }
}

/// What expires and is swept while a transaction has it is as if another had removed it.
#[test]
fn who_depends_on_what_expires_and_is_swept_meanwhile_runs_again() -> Result<()> {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let clock = Clock::new();
        let env = clock.in_memory();
        let records = Expiring::open(&env, "records")?;
        env.write(|txn| records.insert(txn, "a", "b", ms(10)))?;
        let mut txn = env.begin_with(at(isolation))?;
        assert!(records.touch(&mut txn, "a", ms(1000))?);
        clock.pass(10);
        assert_eq!(env.sweep()?, 1);
        assert_eq!(txn.commit().expect_err("it is gone").kind(), ErrorKind::Conflict);
        // Before it is swept there is nothing in the way.
        env.write(|txn| records.insert(txn, "a", "b", ms(10)))?;
        let mut txn = env.begin_with(at(isolation))?;
        assert!(records.touch(&mut txn, "a", ms(1000))?);
        clock.pass(10);
        txn.commit()?;
        assert_eq!(env.sweep()?, 0);
        assert!(records.contains_key(&env, "a")?);
    }
    Ok(())
}

#[test]
fn locked_records_are_passed_over_and_damaged_ones_told() -> Result<()> {
    let clock = Clock::new();
    let (env, records, _) = with_expired(&clock, Method::Btree);
    let mut txn = env.begin()?;
    txn.get_for_update(records.database(), "short")?;
    assert_eq!(env.sweep()?, 1, "the long one");
    records.insert(&mut txn, "short", "new", ms(1))?;
    txn.commit()?;
    clock.pass(1);
    assert_eq!(env.sweep()?, 1);
    // Who writes to it as what it is keeps the index too, and what says no time is told.
    records.database().insert("wrong", "short")?;
    assert_eq!(records.get(&env, "wrong").expect_err("no time").kind(), ErrorKind::Invalid);
    assert_eq!(records.len(&env).expect_err("no time").kind(), ErrorKind::Invalid);
    records.database().insert("wrong", (clock.now() + 5).to_le_bytes())?;
    assert_eq!(records.remaining(&env, "wrong")?, Some(Lifetime::For(ms(5))));
    clock.pass(5);
    assert_eq!((records.sweep()?, records.database().len()?), (1, 1));
    Ok(())
}

/// Writers that set what has expired anew, and sweepers, each as fast as they can.
#[test]
fn what_is_set_again_while_it_is_swept_is_there() {
    for isolation in ISOLATIONS {
        let clock = Clock::new();
        let env = clock.in_memory();
        let records = Expiring::open(&env, "records").unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let sweepers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut swept = 0;
                        while !done.load(Ordering::SeqCst) {
                            clock.pass(1);
                            match env.sweep() {
                                Ok(removed) => swept += removed,
                                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                            }
                        }
                        swept
                    })
                })
                .collect();
            let writers: Vec<_> = (0..3u32)
                .map(|writer| {
                    let (env, records) = (&env, &records);
                    scope.spawn(move || {
                        for n in 0..300u32 {
                            let keys: Vec<_> =
                                (0..4u32).map(|key| [writer, key].map(u32::to_be_bytes).concat()).collect();
                            env.write_with(at(isolation), |txn| {
                                keys.iter().try_for_each(|key| records.insert(txn, key, "old", ms(0)))
                            })
                            .unwrap();
                            // At times all of it is swept first, else some may be, or be about to be.
                            let is_there = |key: &Vec<u8>| records.database().contains_key(key).unwrap();
                            while n % 10 == 0 && keys.iter().any(is_there) {
                                thread::yield_now();
                            }
                            env.write_with(at(isolation), |txn| {
                                keys.iter().try_for_each(|key| {
                                    assert!(!records.contains_key(txn, key)?);
                                    records.insert(txn, key, n.to_be_bytes(), Lifetime::Unlimited)
                                })
                            })
                            .unwrap();
                            for key in &keys {
                                assert_eq!(
                                    records.get(env, key).unwrap().as_deref(),
                                    Some(&n.to_be_bytes()[..])
                                );
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::SeqCst);
            let swept: u64 = sweepers.into_iter().map(|sweeper| sweeper.join().unwrap()).sum();
            assert!(swept > 0, "{isolation:?}: the sweepers came to nothing");
        });
        assert_eq!(records.verify(&env).unwrap(), [""; 0]);
        assert_eq!(records.len(&env).unwrap(), 12);
        assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    }
}

#[test]
fn housekeeping_sweeps_so_much_at_a_time_of_what_expired_a_while_ago() -> Result<()> {
    let (clock, disk) = (Clock::new(), Arc::new(SimDisk::new(1)));
    let open = || clock.builder().disk(Arc::clone(&disk) as _).sweep_interval(Duration::ZERO).open("env");
    let env = open()?;
    for name in ["many", "few"] {
        let records = Expiring::open(&env, name)?;
        let count = if name == "many" { 3000u32 } else { 10 };
        for from in (0..count).step_by(500) {
            env.write(|txn| {
                (from..count.min(from + 500))
                    .try_for_each(|n| records.insert(txn, n.to_be_bytes(), "", ms(10)))
            })?;
        }
    }
    env.close()?;
    // By a process that has opened neither.
    let env = open()?;
    env.keep_house()?;
    let stored = || -> Result<u64> {
        let count = |name| env.existing_database(name).and_then(|found| found.unwrap().len());
        Ok(count("many")? + count("few")?)
    };
    assert_eq!(stored()?, 3010);
    clock.pass(10 + GRACE - 1);
    env.keep_house()?;
    assert_eq!(stored()?, 3010, "it expired just now");
    clock.pass(1);
    let mut left = vec![3010];
    while left.last() > Some(&0) {
        env.keep_house()?;
        left.push(stored()?);
        assert!(left.windows(2).all(|two| two[1] < two[0] && two[0] - two[1] <= 1100), "{left:?}");
    }
    assert!(left.len() > 3, "{left:?}");
    // What comes later is found later.
    let records = Expiring::open(&env, "few")?;
    env.write(|txn| records.insert(txn, "later", "", ms(10)))?;
    env.keep_house()?;
    assert_eq!(stored()?, 1);
    clock.pass(10 + GRACE);
    env.keep_house()?;
    assert_eq!(stored()?, 0);
    Ok(())
}

/// To sweep a few records of many touches some pages, not all.
#[test]
fn a_sweep_costs_by_what_has_expired() -> Result<()> {
    let clock = Clock::new();
    let env = clock.in_memory();
    let records = Expiring::open(&env, "records")?;
    for from in (0..20_000u32).step_by(1000) {
        env.write(|txn| {
            (from..from + 1000)
                .try_for_each(|n| records.insert(txn, n.to_be_bytes(), [1; 20], ms(u64::from(n) + 1)))
        })?;
    }
    let looked = || env.counters().page_hits + env.counters().page_misses;
    clock.pass(10);
    let before = looked();
    assert_eq!(env.sweep()?, 10);
    let few = looked() - before;
    clock.pass(1000);
    let before = looked();
    assert_eq!(env.sweep()?, 1000);
    let many = looked() - before;
    assert!(few * 10 < many, "{few} looks at pages for 10 records, {many} for 1000");
    Ok(())
}

/// In memory alone a sweep is what gives room again to who has filled it with what has expired.
#[test]
fn memory_that_is_full_of_what_has_expired_is_swept() -> Result<()> {
    for method in METHODS {
        for bytes in [300, 5000] {
            let clock = Clock::new();
            // The least there is, of which a sweep of many at once would need more than is kept for removals.
            let env = clock.builder().cache_size(0).in_memory()?;
            let records = Expiring::open_as(&env, "records", method)?;
            let fill = || -> Result<u64> {
                for n in 0u64.. {
                    let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                    match env.write(|txn| records.insert(txn, key, vec![7; bytes], ms(10))) {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::CacheFull => return Ok(n),
                        Err(error) => return Err(error),
                    }
                }
                Ok(0)
            };
            let first = fill()?;
            for round in 0..3 {
                clock.pass(10);
                assert_eq!(records.sweep()?, first, "{method:?}, {bytes} bytes, round {round}");
                assert_eq!(fill()?, first, "{method:?}, {bytes} bytes, round {round}");
            }
            // So does who keeps house.
            clock.pass(10 + GRACE);
            while records.unswept(&env)? > 0 {
                env.keep_house()?;
            }
        }
    }
    Ok(())
}

/// It is asked by the thread that keeps house, which has the log to flush and checkpoints to make.
#[test]
fn a_clock_that_panics_ends_no_housekeeping() -> Result<()> {
    let (clock, is_broken) = (Clock::new(), Arc::new(AtomicBool::new(false)));
    let (asked, broken) = (clock.clone(), Arc::clone(&is_broken));
    let tell = move || {
        assert!(!broken.load(Ordering::SeqCst), "a clock that is broken");
        sablecat::Moment { ms: asked.now() }
    };
    let env = Env::builder()
        .clock(tell)
        .disk(Arc::new(SimDisk::new(1)) as _)
        .flush_interval(Duration::from_millis(1))
        .sweep_interval(Duration::ZERO)
        .open("env")?;
    let records = Expiring::open(&env, "records")?;
    env.write(|txn| records.insert(txn, "a", "", ms(10)))?;
    is_broken.store(true, Ordering::SeqCst);
    thread::sleep(Duration::from_millis(200));
    is_broken.store(false, Ordering::SeqCst);
    clock.pass(10 + GRACE);
    let begun = std::time::Instant::now();
    while records.database().len()? > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody sweeps");
        thread::sleep(Duration::from_millis(1));
    }
    drop(records);
    env.close()
}

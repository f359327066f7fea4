//! Slips that programs make: each is told at once, by the call that makes it, and nobody else waits for it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use sablecat::{Database, Env, Error, ErrorKind, Prefix, Result, Txn, TxnOptions};
use sablecat_os::sim::SimDisk;

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("a slip").kind()
}

/// An environment in which whoever waits for a lock that nobody lets go of would never go on.
fn patient() -> Env {
    Env::builder().lock_timeout(Duration::MAX).in_memory().unwrap()
}

fn keys(txn: &mut Txn<'_>, db: &Database) -> Vec<String> {
    txn.range(db, ..).unwrap().map(|record| String::from_utf8(record.unwrap().0).unwrap()).collect()
}

#[test]
fn using_the_environment_around_a_transaction_that_has_it_to_itself_waits_for_itself() {
    let env = patient();
    let db = env.database("d").unwrap();
    db.insert("k", "0").unwrap();
    let mut runs = 0;
    let refused = env.write(|txn| {
        runs += 1;
        let value = txn.get(&db, "k")?;
        db.insert("k", "1")?; // should have been txn.insert
        txn.insert(&db, "copy", value.unwrap_or_default())
    });
    assert_eq!((kind(refused), runs), (ErrorKind::NotAllowed, 1), "not only once others get in the way");
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"0"[..]));
    assert_eq!(db.get("copy").unwrap(), None);
}

#[test]
fn everything_that_commits_or_locks_around_a_transaction_is_refused_and_reads_are_not() {
    let env = patient();
    let (db, other) = (env.database("d").unwrap(), env.database("other").unwrap());
    db.insert("k", "v").unwrap();
    let mut by_hand = env.begin().unwrap();
    by_hand.insert(&other, "by hand", "").unwrap();
    let mut by_hand = Some(by_hand);
    env.write(|txn| {
        let refused: [Result<()>; 11] = [
            db.insert("k", "w"),
            db.remove("k").map(drop),
            db.insert_batch([("k", "w")]),
            db.retain(|_, _| false),
            db.entry("k").or_insert("w").map(drop),
            db.entry("k").and_modify(Vec::clear).apply().map(drop),
            other.bulk_load([("k", "w")]).map(drop),
            env.begin().map(drop),
            env.write(|_| Ok(())),
            by_hand.as_mut().unwrap().get_for_update(&db, "k").map(drop),
            by_hand.take().unwrap().commit().map(|_| ()),
        ];
        for (n, refused) in refused.into_iter().enumerate() {
            let error = refused.expect_err("around the transaction");
            assert_eq!(error.kind(), ErrorKind::NotAllowed, "{n}");
            assert!(error.to_string().contains("use the transaction"), "{n}: {error}");
        }
        txn.insert(&db, "k", "mine")?;
        assert_eq!(db.get("k")?.as_deref(), Some(&b"v"[..]));
        assert_eq!(db.len()?, 1);
        assert_eq!(env.snapshot()?.get(&db, "k")?.as_deref(), Some(&b"v"[..]));
        assert!(env.existing_database("new")?.is_none());
        env.database("other")?;
        // Its own environment is another matter.
        let elsewhere = Env::in_memory()?;
        elsewhere.database("d")?.insert("k", "v")?;
        elsewhere.write(|within| within.insert(&elsewhere.database("d")?, "k", "w"))?;
        assert_eq!(kind(db.insert("k", "w")), ErrorKind::NotAllowed, "not forgotten for the one within");
        Ok(())
    })
    .unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"mine"[..]));
    assert_eq!(env.databases().unwrap(), ["d", "other"]);
    assert!(other.is_empty().unwrap());
    db.insert("k", "after").unwrap();
}

#[test]
fn a_panic_in_the_work_leaves_nothing_refused() {
    let env = patient();
    let db = env.database("d").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| env.write(|_| -> Result<()> { panic!("of the work") })));
    assert!(panicked.is_err());
    db.insert("k", "v").unwrap();
}

#[test]
fn a_transaction_inside_another_that_locked_its_record_waits_for_ever() {
    let env = patient();
    let db = env.database("d").unwrap();
    db.insert("k", "0").unwrap();
    let mut runs = 0;
    let refused = env.write(|txn| {
        runs += 1;
        txn.get_for_update(&db, "k")?;
        env.write(|inner| inner.get_for_update(&db, "k").map(drop))
    });
    assert_eq!((kind(refused), runs), (ErrorKind::NotAllowed, 1));
}

#[test]
fn the_error_of_another_transaction_makes_this_one_run_again() {
    let (env, elsewhere) = (patient(), patient());
    let (db, there) = (env.database("d").unwrap(), elsewhere.database("d").unwrap());
    there.insert("k", "0").unwrap();
    let mut runs = 0;
    let failed = env.write(|txn| {
        runs += 1;
        txn.insert(&db, "k", "v")?;
        let mut inner = elsewhere.begin()?;
        inner.get(&there, "k")?;
        there.insert("k", "1")?;
        inner.insert(&there, "other", "")?;
        inner.commit()
    });
    assert_eq!((kind(failed), runs), (ErrorKind::Conflict, 1));
    assert_eq!(db.get("k").unwrap(), None);
}

/// Of errors of one's own, one that hides a conflict.
#[derive(Debug, PartialEq, Eq)]
enum Mine {
    Refused,
    Store(ErrorKind),
}

impl From<Error> for Mine {
    fn from(error: Error) -> Mine {
        Mine::Store(error.kind())
    }
}

#[test]
fn an_error_of_ones_own_commits_what_was_done_before_it() {
    let env = patient();
    let db = env.database("d").unwrap();
    let mut runs = 0;
    let refused = env.try_write(|txn| {
        runs += 1;
        txn.insert(&db, "k", "v")?;
        let within: std::result::Result<(), Mine> = txn.try_nested(|txn| {
            txn.insert(&db, "within", "v")?;
            Err(Mine::Refused)
        });
        assert_eq!(within, Err(Mine::Refused));
        assert_eq!(keys(txn, &db), ["k"]);
        within
    });
    assert_eq!((refused, runs), (Err(Mine::Refused), 1));
    assert!(db.is_empty().unwrap());
    let committed: std::result::Result<(), Mine> = env.try_write(|txn| Ok(txn.insert(&db, "k", "v")?));
    assert_eq!(committed, Ok(()));
}

#[test]
fn an_error_of_ones_own_ends_waiting_work_and_rolls_back() {
    let env = patient();
    let db = env.database("d").unwrap();
    let mut runs = 0;
    let mut refuse = |txn: &mut Txn<'_>| -> std::result::Result<Option<()>, Mine> {
        runs += 1;
        txn.insert(&db, "k", "v")?;
        Err(Mine::Refused)
    };
    assert_eq!(env.try_write_when(&mut refuse), Err(Mine::Refused));
    assert_eq!(env.try_write_when_within(Duration::from_secs(60), &mut refuse), Err(Mine::Refused));
    assert_eq!(runs, 2);
    assert!(db.is_empty().unwrap());
    let made: std::result::Result<_, Mine> = env.try_write_when(|txn| Ok(Some(txn.insert(&db, "k", "v")?)));
    assert_eq!((made, db.len().unwrap()), (Ok(()), 1));
}

/// Changes a record in another thread, as another client would.
fn elsewhere(db: &Database, key: &str, value: &str) {
    std::thread::scope(|scope| scope.spawn(|| db.insert(key, value)).join().unwrap().unwrap());
}

#[test]
fn a_conflict_that_the_work_turned_into_another_error_is_not_run_again() {
    let env = patient();
    let db = env.database("d").unwrap();
    db.insert("k", "0").unwrap();
    let mut runs = 0;
    let done = env.try_write(|txn| {
        runs += 1;
        txn.get(&db, "other")?;
        if runs < 4 {
            elsewhere(&db, "k", &runs.to_string());
        }
        // Changed since the transaction began.
        txn.get_for_update(&db, "k").map_err(|_| Mine::Refused)?;
        Ok::<_, Mine>(txn.insert(&db, "done", "")?)
    });
    assert_eq!((done, runs), (Ok(()), 4));
}

#[test]
fn who_waits_for_a_lock_that_is_never_let_go_of_tries_a_hundred_times_and_then_stops_everybody() {
    let env = Env::builder().lock_timeout(Duration::from_millis(1)).in_memory().unwrap();
    let db = env.database("d").unwrap();
    let mut forgotten = env.begin().unwrap();
    forgotten.get_for_update(&db, "k").unwrap();
    let mut runs = 0;
    let options = TxnOptions::new().give_up_after(Duration::from_millis(30));
    let given_up = env.write_with(options, |txn| {
        runs += 1;
        assert!(
            env.processes()
                .iter()
                .flat_map(|process| &process.participants)
                .all(|one| !one.roles.contains(&"serial")),
            "{runs}"
        );
        txn.get_for_update(&db, "k").map(drop)
    });
    assert_eq!(kind(given_up), ErrorKind::Timeout);
    assert!(runs > 1, "{runs}");
    runs = 0;
    let once = env.write_with(TxnOptions::new().give_up_after(Duration::ZERO), |txn| {
        runs += 1;
        txn.get_for_update(&db, "k").map(drop)
    });
    assert_eq!((kind(once), runs), (ErrorKind::Timeout, 1));
}

#[test]
fn who_keeps_losing_waits_without_end_for_who_has_the_environment_to_itself() {
    let env = patient();
    let db = env.database("d").unwrap();
    let (changed, has_it, lost) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut runs = 0;
            env.write(|txn| {
                runs += 1;
                if runs == 1 {
                    // With the environment to itself it would keep the other from being lost to anybody.
                    changed.wait();
                }
                txn.get(&db, "mine")?;
                if runs < 5 {
                    elsewhere(&db, "mine", &runs.to_string());
                } else {
                    has_it.wait();
                    lost.wait();
                }
                txn.insert(&db, "mine", "done")
            })
            .unwrap();
        });
        // As one that has lost for all of its time but a little.
        let options = TxnOptions::new().give_up_after(Duration::from_nanos(1));
        let given_up = env.write_with(options, |txn| {
            txn.get(&db, "k")?;
            elsewhere(&db, "k", "another's");
            changed.wait();
            has_it.wait();
            txn.get_for_update(&db, "k").map(drop)
        });
        assert_eq!(kind(given_up), ErrorKind::Conflict);
        lost.wait();
    });
    assert_eq!(db.get("mine").unwrap().as_deref(), Some(&b"done"[..]));
}

#[test]
fn a_savepoint_of_another_transaction_undoes_half_of_this_one() {
    let env = patient();
    let db = env.database("d").unwrap();
    let (mut one, mut two) = (env.begin().unwrap(), env.begin().unwrap());
    one.insert(&db, "1", "").unwrap();
    let of_one = one.savepoint();
    two.insert(&db, "a", "").unwrap();
    assert_eq!(kind(two.rollback_to(&of_one)), ErrorKind::Invalid, "it has no savepoints");
    two.savepoint();
    two.insert(&db, "b", "").unwrap();
    two.insert(&db, "c", "").unwrap();
    assert_eq!(kind(two.rollback_to(&of_one)), ErrorKind::Invalid);
    assert_eq!(keys(&mut two, &db), ["a", "b", "c"]);
}

#[test]
fn a_savepoint_of_an_earlier_run_undoes_half_of_this_one() {
    let env = patient();
    let db = env.database("d").unwrap();
    let (mut runs, mut saved) = (0, None);
    env.write(|txn| {
        runs += 1;
        txn.get(&db, "k")?;
        txn.savepoint();
        txn.insert(&db, "1", "")?;
        txn.insert(&db, "2", "")?;
        let Some(earlier) = saved.replace(txn.savepoint()) else {
            elsewhere(&db, "k", "");
            return Ok(());
        };
        txn.insert(&db, "3", "")?;
        assert_eq!(kind(txn.rollback_to(&earlier)), ErrorKind::Invalid);
        assert_eq!(keys(txn, &db), ["1", "2", "3", "k"]);
        Ok(())
    })
    .unwrap();
    assert_eq!(runs, 2);
}

#[test]
fn a_savepoint_that_was_rolled_back_over_undoes_half_of_what_came_after() {
    let env = patient();
    let db = env.database("d").unwrap();
    let mut txn = env.begin().unwrap();
    txn.insert(&db, "1", "").unwrap();
    let first = txn.savepoint();
    let same = txn.savepoint();
    txn.insert(&db, "2", "").unwrap();
    let second = txn.savepoint();
    txn.insert(&db, "3", "").unwrap();
    txn.rollback_to(&first).unwrap();
    assert_eq!(kind(txn.rollback_to(&second)), ErrorKind::Invalid, "there is less than it says");
    txn.insert(&db, "4", "").unwrap();
    txn.insert(&db, "5", "").unwrap();
    assert_eq!(kind(txn.rollback_to(&second)), ErrorKind::Invalid);
    assert_eq!(keys(&mut txn, &db), ["1", "4", "5"]);
    txn.rollback_to(&same).unwrap();
    txn.rollback_to(&first).unwrap();
    assert_eq!(keys(&mut txn, &db), ["1"]);
    txn.commit().unwrap();
}

#[test]
fn a_savepoint_that_was_given_up_undoes_nothing() {
    let env = patient();
    let db = env.database("d").unwrap();
    let mut txn = env.begin().unwrap();
    txn.forget_savepoints();
    let first = txn.savepoint();
    txn.insert(&db, "1", "").unwrap();
    txn.forget_savepoints();
    assert_eq!(kind(txn.rollback_to(&first)), ErrorKind::Invalid);
    txn.insert(&db, "2", "").unwrap();
    let second = txn.savepoint();
    assert_eq!(kind(txn.rollback_to(&first)), ErrorKind::Invalid);
    // What is within another transaction gives up nothing of that.
    let failed: Result<()> = txn.nested(|txn| {
        txn.insert(&db, "3", "")?;
        txn.forget_savepoints();
        txn.rollback_to(&first)
    });
    assert_eq!(kind(failed), ErrorKind::Invalid);
    assert_eq!(keys(&mut txn, &db), ["1", "2"]);
    txn.insert(&db, "4", "").unwrap();
    txn.rollback_to(&second).unwrap();
    txn.commit().unwrap();
    assert_eq!(db.len().unwrap(), 2);
}

#[test]
fn a_nested_transaction_that_rolls_back_over_its_beginning_undoes_the_one_around_it() {
    let env = patient();
    let db = env.database("d").unwrap();
    let mut txn = env.begin().unwrap();
    let first = txn.savepoint();
    txn.insert(&db, "1", "").unwrap();
    txn.nested(|txn| {
        txn.insert(&db, "2", "")?;
        assert_eq!(kind(txn.rollback_to(&first)), ErrorKind::Invalid);
        let within = txn.savepoint();
        txn.insert(&db, "3", "")?;
        let failed: Result<()> = txn.nested(|txn| {
            txn.insert(&db, "4", "")?;
            txn.rollback_to(&within)
        });
        assert_eq!(kind(failed), ErrorKind::Invalid);
        assert_eq!(keys(txn, &db), ["1", "2", "3"]);
        txn.rollback_to(&within)
    })
    .unwrap();
    assert_eq!(keys(&mut txn, &db), ["1", "2"]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        txn.nested(|txn| -> Result<()> {
            txn.insert(&db, "5", "")?;
            panic!("of the work")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(keys(&mut txn, &db), ["1", "2"]);
    txn.rollback_to(&first).unwrap();
    assert_eq!(keys(&mut txn, &db), [""; 0]);
}

fn check(env: &Env) {
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable), (vec![], 0));
}

#[test]
fn a_bulk_load_whose_records_come_slowly_holds_up_writers_of_other_databases() {
    let env = patient();
    let db = env.database("d").unwrap();
    // As many as there are latches over the shape of trees, and some more.
    let others: Vec<_> = (0..70).map(|n| env.database(&format!("other {n}")).unwrap()).collect();
    let split = |other: &Database| (0..300u32).for_each(|n| other.insert(n.to_be_bytes(), [0; 50]).unwrap());
    let loaded = db.bulk_load((0..100_000u32).map(|n| {
        if n == 50_000 {
            std::thread::scope(|scope| scope.spawn(|| others.iter().for_each(split)).join().unwrap());
        }
        (n.to_be_bytes(), [7; 10])
    }));
    assert_eq!(loaded.unwrap(), 100_000);
    assert!(others.iter().all(|other| other.len().unwrap() == 300));
    check(&env);
}

#[test]
fn a_bulk_load_that_is_fed_from_its_own_database_waits_for_itself() {
    let env = patient();
    let (db, other) = (env.database("d").unwrap(), env.database("other").unwrap());
    let loaded = db.bulk_load((0..20_000u32).map(|n| {
        if n % 1000 == 0 {
            assert_eq!(kind(db.insert("k", "v")), ErrorKind::NotAllowed);
            assert_eq!(kind(db.remove("k")), ErrorKind::NotAllowed);
            assert_eq!(kind(db.bulk_load([("k", "v")])), ErrorKind::NotAllowed);
            assert_eq!(kind(db.insert_batch([("k", "v")])), ErrorKind::NotAllowed);
            assert_eq!(kind(env.write(|txn| txn.insert(&db, "k", "v"))), ErrorKind::NotAllowed);
            assert_eq!(db.get("k").unwrap(), None);
            env.write(|txn| txn.insert(&other, n.to_be_bytes(), "v")).unwrap();
        }
        other.insert(n.to_be_bytes(), [0; 100]).unwrap();
        (n.to_be_bytes(), "v")
    }));
    assert_eq!(loaded.unwrap(), 20_000);
    assert_eq!(other.len().unwrap(), 20_000);
    db.insert("k", "v").unwrap();
    check(&env);
}

#[test]
fn that_a_database_is_not_empty_any_more_is_found_when_all_records_have_been_drawn() {
    let env = patient();
    let db = env.database("d").unwrap();
    let endless = (0..u64::MAX).map(|n| {
        if n == 100_000 {
            elsewhere(&db, "k", "v");
        }
        (n.to_be_bytes(), [0; 20])
    });
    assert_eq!(kind(db.bulk_load(endless)), ErrorKind::Conflict);
    assert_eq!(db.len().unwrap(), 1);
    check(&env);
    db.remove("k").unwrap();
    let beside =
        || std::thread::scope(|scope| scope.spawn(|| db.bulk_load([("a", "1"), ("b", "2")])).join().unwrap());
    let overtaken = db.bulk_load((0..3u8).map(|n| {
        if n == 1 {
            assert_eq!(beside().unwrap(), 2);
        }
        ([n], [n])
    }));
    assert_eq!(kind(overtaken), ErrorKind::Conflict);
    assert_eq!(db.len().unwrap(), 2);
    check(&env);
}

#[test]
fn a_checkpoint_waits_for_the_records_of_a_bulk_load() {
    let env = Env::builder()
        .disk(Arc::new(SimDisk::new(1)))
        .cache_size(8 << 20)
        .background(false)
        .open("slips")
        .unwrap();
    let db = env.database("d").unwrap();
    // Keys of two long stems: the pages on the way to the records of a stem are published, and once more
    // after the last of them.
    let key = |n: u32| [vec![(n / 5000) as u8; 600], n.to_be_bytes().to_vec()].concat();
    let loaded = db.bulk_load((0..10_000u32).map(|n| {
        if n == 5001 {
            env.checkpoint().unwrap();
        }
        (key(n), [7; 100])
    }));
    assert_eq!(loaded.unwrap(), 10_000);
    assert_eq!(db.get(key(7777)).unwrap().as_deref(), Some(&[7; 100][..]));
    check(&env);
}

#[test]
fn a_bulk_load_goes_on_into_pages_of_a_database_that_was_removed() {
    let env = Env::builder()
        .disk(Arc::new(SimDisk::new(2)))
        .cache_size(8 << 20)
        .background(false)
        .open("slips")
        .unwrap();
    let db = env.database("d").unwrap();
    let loaded = db.bulk_load((0..20_000u32).map(|n| {
        if n == 19_999 {
            env.remove_database("d").unwrap();
            env.checkpoint().unwrap();
            env.checkpoint().unwrap();
            for other in 0..50 {
                env.database(&format!("other {other}")).unwrap().insert("k", "v").unwrap();
            }
        }
        (n.to_be_bytes(), [7; 100])
    }));
    assert_eq!(kind(loaded), ErrorKind::NotFound);
    for other in 0..50 {
        assert_eq!(
            env.database(&format!("other {other}")).unwrap().get("k").unwrap().as_deref(),
            Some(&b"v"[..])
        );
    }
    check(&env);
}

#[test]
fn a_limit_of_memory_that_was_asked_for_is_none() {
    let env = Env::builder().cache_size(4 << 20).in_memory().unwrap();
    assert!(env.stats().unwrap().cache_bytes <= 5 << 20);
    let db = env.database("d").unwrap();
    let fill = || {
        (0..100_000u32)
            .find_map(|n| db.insert(n.to_be_bytes(), [n as u8; 1000]).err().map(|error| (n, error)))
    };
    let (_, error) = fill().expect("100 MB are more than 4 MiB");
    assert_eq!(error.kind(), ErrorKind::CacheFull);
    assert!(error.to_string().contains("memory alone"), "{error}");
    assert_eq!(db.get(1u32.to_be_bytes()).unwrap().as_deref(), Some(&[1; 1000][..]));
    let mut store = Env::builder().cache_size(4 << 20).data_store_in_memory().unwrap();
    let table = store.database("d").unwrap();
    let full = (0..100_000u32).find_map(|n| store.insert(&table, n.to_be_bytes(), [0; 1000]).err());
    assert_eq!(full.expect("100 MB are more than 4 MiB").kind(), ErrorKind::CacheFull);
}

#[test]
fn a_prefix_in_an_order_of_ones_own_finds_nothing() {
    let env = Env::builder().comparator("reversed", |a, b| b.cmp(a)).in_memory().unwrap();
    let db = env.database_ordered_by("d", "reversed").unwrap();
    ["a", "ab", "b"].iter().for_each(|key| db.insert(key, "").unwrap());
    assert_eq!(kind(db.range(Prefix("a"))), ErrorKind::Invalid);
    assert_eq!(kind(env.begin().unwrap().range(&db, Prefix("a"))), ErrorKind::Invalid);
    assert_eq!(kind(env.snapshot().unwrap().range(&db, Prefix("a"))), ErrorKind::Invalid);
}

#[test]
fn a_database_in_an_order_that_is_not_at_hand_is_said_to_be_damaged() {
    let disk = Arc::new(SimDisk::new(3));
    let open = || Env::builder().disk(Arc::clone(&disk) as _).cache_size(4 << 20).background(false);
    let env = open().comparator("reversed", |a, b| b.cmp(a)).open("slips").unwrap();
    let db = env.database_ordered_by("d", "reversed").unwrap();
    (0..5000u32).for_each(|n| db.insert(n.to_be_bytes(), [0; 50]).unwrap());
    check(&env);
    drop((db, env));
    let env = open().open("slips").unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable, report.records), (vec![], 0, 5000));
    assert_eq!(report.order_not_checked, ["d"]);
}

#[test]
fn the_error_that_main_returns_shows_what_is_inside_of_it() {
    let error = Env::in_memory().unwrap().rename_database("a", "b").unwrap_err();
    assert_eq!(format!("{error:?}"), "NotFound: there is no database \"a\" to rename");
}

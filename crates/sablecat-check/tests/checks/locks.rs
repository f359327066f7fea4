//! `get_for_update`: waiting, giving up, circles.

use std::sync::Barrier;
use std::time::Duration;

use sablecat::{Env, ErrorKind, Isolation, TxnOptions};

fn counter(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("counters have eight bytes")))
}

#[test]
fn a_locked_record_times_out_for_others_and_is_free_after_the_end() {
    let env = Env::in_memory().expect("memory");
    let db = env.database("d").expect("created");
    let impatient = TxnOptions::new().lock_timeout(Duration::ZERO);
    for commit in [false, true] {
        let mut holder = env.begin().expect("begun");
        holder.get_for_update(&db, "k").expect("free");
        let mut other = env.begin_with(impatient).expect("begun");
        let error = other.get_for_update(&db, "k").expect_err("it is taken");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.is_retryable());
        // Others may read it, and lock other records.
        assert_eq!(other.get(&db, "k").expect("reading needs no lock"), None);
        other.get_for_update(&db, "another").expect("free");
        if commit {
            holder.commit().expect("no conflict");
        } else {
            holder.abort();
        }
        other.get_for_update(&db, "k").expect("free again");
    }
}

#[test]
fn of_a_circle_of_waiting_transactions_one_gives_up_and_the_rest_get_through() {
    for threads in 2..5usize {
        let env = Env::in_memory().expect("memory");
        let db = env.database("d").expect("created");
        let all_hold_one = Barrier::new(threads);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let run = |n: usize| {
                let (env, db, all_hold_one) = (&env, &db, &all_hold_one);
                move || {
                    let mut txn = env
                        .begin_with(TxnOptions::new().lock_timeout(Duration::from_secs(600)))
                        .expect("begun");
                    txn.get_for_update(db, [n as u8]).expect("free");
                    all_hold_one.wait();
                    txn.get_for_update(db, [((n + 1) % threads) as u8])
                        .and_then(|_| txn.commit())
                        .map_err(|error| error.kind())
                }
            };
            let handles: Vec<_> = (0..threads).map(|n| scope.spawn(run(n))).collect();
            handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
        });
        let gave_up = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert!(
            outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(ErrorKind::Deadlock))),
            "{outcomes:?}"
        );
        assert!(gave_up >= 1 && gave_up < threads, "{outcomes:?}");
    }
}

#[test]
fn counters_raised_under_locks_lose_nothing_at_any_isolation() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let env = Env::in_memory().expect("memory");
        let db = env.database("d").expect("created");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..150u64 {
                        env.write_with(TxnOptions::new().isolation(isolation), |txn| {
                            // In opposite orders, so that they would wait in circles for ever if nobody gave
                            // up.
                            for key in if n % 2 == 0 { ["a", "b"] } else { ["b", "a"] } {
                                let value = counter(txn.get_for_update(&db, key)?);
                                txn.insert(&db, key, (value + 1).to_le_bytes())?;
                            }
                            Ok(())
                        })
                        .expect("everyone gets through");
                    }
                });
            }
        });
        for key in ["a", "b"] {
            assert_eq!(counter(db.get(key).expect("read")), 600, "{isolation:?}");
        }
    }
}

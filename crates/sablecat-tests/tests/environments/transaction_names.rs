//! Names of transactions: who looks sees them, as long as the transaction lasts.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sablecat::{Env, ErrorKind, TxnOptions};

/// The names that anybody in the environment has.
fn names(env: &Env) -> Vec<String> {
    env.processes().into_iter().flat_map(|process| process.participants).filter_map(|one| one.name).collect()
}

#[test]
fn a_name_lasts_as_long_as_its_transaction() {
    let env = Env::in_memory().unwrap();
    let db = env.database("d").unwrap();
    assert_eq!(names(&env), [""; 0]);

    let mut txn = env.begin().unwrap();
    txn.set_name("one");
    txn.insert(&db, "k", "v").unwrap();
    assert_eq!(names(&env), ["one"]);
    txn.set_name("another");
    assert_eq!(names(&env), ["another"]);
    txn.commit().unwrap();
    assert_eq!(names(&env), [""; 0], "committed");

    let mut txn = env.begin().unwrap();
    assert_eq!(names(&env), [""; 0], "the next one in its slot");
    txn.set_name("one");
    txn.abort();
    assert_eq!(names(&env), [""; 0], "aborted");

    let mut owned = env.begin_owned(TxnOptions::new()).unwrap();
    owned.set_name("one");
    owned.set_name("");
    assert_eq!(names(&env), [""; 0], "an empty name");
    drop(owned);

    let unwound = catch_unwind(AssertUnwindSafe(|| {
        env.write(|txn| {
            txn.set_name("one");
            if names(&env) == ["one"] {
                panic!("by design");
            }
            Ok(())
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(names(&env), [""; 0], "it panicked");
}

#[test]
fn what_was_cloned_from_a_reader_keeps_its_name() {
    let env = Env::in_memory().unwrap();
    let reader = env.snapshot().unwrap();
    reader.set_name("report");
    let clone = reader.clone();
    drop(reader);
    assert_eq!(names(&env), ["report"]);
    clone.set_name("the other report");
    assert_eq!(names(&env), ["the other report"]);
    drop(clone);
    assert_eq!(names(&env), [""; 0]);
}

#[test]
fn who_reads_from_a_snapshot_keeps_nobody_from_naming_it() {
    let env = Env::in_memory().unwrap();
    let db = env.database("d").unwrap();
    db.insert("k", "v").unwrap();
    let reader = env.snapshot().unwrap();
    reader
        .visit(&db, .., |_, _| {
            reader.set_name("within its own visit");
            assert_eq!(names(&env), ["within its own visit"]);
            std::thread::scope(|scope| scope.spawn(|| reader.set_name("by another thread")).join().unwrap());
            assert_eq!(names(&env), ["by another thread"]);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(names(&env), ["by another thread"]);
    reader.get_with(&db, "k", |_| reader.set_name("within a look at a record")).unwrap();
    assert_eq!(names(&env), ["within a look at a record"]);
    let other = env.snapshot().unwrap();
    drop(reader);
    assert_eq!(names(&env), [""; 0], "it has ended");
    let next = env.snapshot().unwrap();
    assert_eq!(names(&env), [""; 0], "the next one in its slot");
    drop((other, next));
}

#[test]
fn a_transaction_that_is_run_again_keeps_its_name() {
    let env = Env::in_memory().unwrap();
    let db = env.database("d").unwrap();
    let mut runs = 0;
    env.write(|txn| {
        runs += 1;
        if runs == 1 {
            txn.set_name("counter");
            txn.get(&db, "k")?;
            std::thread::scope(|scope| scope.spawn(|| db.insert("k", "of another")).join().unwrap())?;
        }
        assert_eq!(names(&env), ["counter"]);
        txn.insert(&db, "k", "mine")
    })
    .unwrap();
    assert_eq!(runs, 2);
}

#[test]
fn an_error_about_a_lock_names_who_has_it() {
    let env = Env::builder().lock_timeout(Duration::from_millis(10)).in_memory().unwrap();
    let db = env.database("d").unwrap();
    let mut holder = env.begin().unwrap();
    holder.set_name("monthly invoices");
    holder.get_for_update(&db, "k").unwrap();
    assert!(
        env.locks().iter().all(|lock| lock.name.as_deref() == Some("monthly invoices")),
        "{:?}",
        env.locks()
    );
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| env.begin().and_then(|mut txn| txn.get_for_update(&db, "k")).unwrap_err());
        let error = waiter.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("\"monthly invoices\" (exclusively)"), "{error}");
    });
}

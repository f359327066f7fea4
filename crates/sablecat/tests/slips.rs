//! Slips that programs make: each is told at once, by the call that makes it, and nobody else waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use sablecat::{Database, Env, ErrorKind, Result, Txn};

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("a slip").kind()
}

/// An environment in which whoever waits for a lock that nobody lets go of would never go on.
fn patient() -> Env {
    Env::builder().lock_timeout(Duration::MAX).in_memory().unwrap()
}

fn keys(txn: &mut Txn<'_>, db: &Database) -> Vec<String> {
    txn.range::<&[u8]>(db, ..).unwrap().map(|record| String::from_utf8(record.unwrap().0).unwrap()).collect()
}

/// Changes a record in another thread, as another client would.
fn elsewhere(db: &Database, key: &str, value: &str) {
    std::thread::scope(|scope| scope.spawn(|| db.insert(key, value)).join().unwrap().unwrap());
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

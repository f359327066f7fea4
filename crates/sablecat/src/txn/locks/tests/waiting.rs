//! Waits that end with the lock, and waits that end without.

use super::*;
use crate::error::ErrorKind;

#[test]
fn what_is_held_already_is_not_waited_for() {
    let locks = lock_table(2, 1 << 8);
    let mut party = Party::new(&locks, 1);
    party.acquire(record(1), LockMode::Shared).unwrap();
    party.acquire(record(1), LockMode::Shared).unwrap();
    party.acquire(record(1), LockMode::Exclusive).unwrap();
    party.acquire(record(1), LockMode::Shared).unwrap();
    let holders = locks.holders(record(1));
    assert_eq!(holders.len(), 1, "one word, however often it is asked for");
    assert_eq!(
        (holders[0].slot, holders[0].mode),
        (1, LockMode::Exclusive),
        "and it stays as strong as it was"
    );
    assert!(!party.held.is_empty());
    party.release_all();
    assert!(party.held.is_empty());
    assert_empty(&locks);
}

#[test]
fn a_timeout_names_who_has_the_lock_and_leaves_nothing_behind() {
    let locks = lock_table(3, 1 << 8);
    let mut first = Party::new(&locks, 1);
    let mut second = Party::new(&locks, 2);
    first.acquire(record(1), LockMode::Shared).unwrap();
    second.acquire(record(1), LockMode::Shared).unwrap();
    let mut held = HeldLocks::default();
    let error =
        locks.acquire(3, record(1), LockMode::Exclusive, Duration::from_millis(3), &mut held).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(
        error.to_string(),
        "participant 3 waited 3ms for an exclusive lock on a record that is held by participant 1 (shared) \
         and participant 2 (shared); run the transaction again, or allow more time. If this thread has \
         another transaction open that locked the record, end that one first"
    );
    assert!(held.is_empty());
    assert_eq!((locks.counts().waits, locks.counts().timeouts), (1, 1));
    let error =
        locks.acquire(1, record(1), LockMode::Exclusive, Duration::ZERO, &mut first.held).unwrap_err();
    assert!(error.to_string().contains("held by participant 2 (shared);"), "{error}");
    first.release_all();
    second.release_all();
    assert_empty(&locks);
}

/// Nobody waits any more, but the flag that it left is still there.
#[test]
fn a_waiter_that_gave_up_does_not_hold_back_those_that_share() {
    let locks = lock_table(3, 1 << 8);
    let mut first = Party::new(&locks, 1);
    first.acquire(record(1), LockMode::Shared).unwrap();
    locks.acquire(2, record(1), LockMode::Exclusive, Duration::ZERO, &mut HeldLocks::default()).unwrap_err();
    assert!(locks.holders(record(1))[0].awaited);
    let mut third = Party::new(&locks, 3);
    third.acquire(record(1), LockMode::Shared).unwrap();
    assert_eq!(locks.counts().waits, 1, "the third did not wait");
}

#[test]
fn those_that_share_hold_back_for_a_waiter_but_not_for_ever() {
    let locks = lock_table(3, 1 << 8);
    let mut first = Party::new(&locks, 1);
    first.acquire(record(1), LockMode::Shared).unwrap();
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| {
            let mut second = Party::new(&locks, 2);
            second.acquire(record(1), LockMode::Exclusive).unwrap();
            second.release_all();
        });
        until_waiting(&locks, 2);
        while !locks.holders(record(1)).iter().all(|holder| holder.awaited) {
            sablecat_os::atomic::yield_now();
        }
        let mut third = Party::new(&locks, 3);
        third.acquire(record(1), LockMode::Shared).unwrap();
        assert_eq!(locks.counts().waits, 2, "the third stood back once");
        assert!(third.try_acquire(record(1), LockMode::Shared).unwrap());
        third.release_all();
        first.release_all();
        wait.join().unwrap();
    });
    assert_empty(&locks);
}

#[test]
fn all_that_wait_to_share_get_the_lock_together() {
    let locks = lock_table(5, 1 << 8);
    let mut writer = Party::new(&locks, 1);
    writer.acquire(record(1), LockMode::Exclusive).unwrap();
    let inside = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for me in 2..=5 {
            let (locks, inside) = (&locks, &inside);
            scope.spawn(move || {
                let mut reader = Party::new(locks, me);
                reader.acquire(record(1), LockMode::Shared).unwrap();
                // Passed only when all four have it.
                inside.wait();
                reader.release_all();
            });
        }
        (2..=5).for_each(|me| until_waiting(&locks, me));
        writer.release_all();
    });
    assert_empty(&locks);
}

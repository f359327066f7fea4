//! Circles of waiters: always found, and one of each gives way.

use super::*;
use crate::error::{Error, ErrorKind};
use crate::txn::locks::DeadlockPolicy;
use crate::txn::locks::word::{LockId, Want};

/// Participants 1 to `parties` lock record 1 to `parties` in that order, then each wants the record of the
/// next; they start to wait one after the other if `in_turn`, else all at once. Says which of them gave way
/// and with what error; everybody else must get what it wants.
fn circle(locks: &LockTable, parties: u16, in_turn: bool) -> Vec<(u16, Error)> {
    let mut all: Vec<_> = (1..=parties).map(|me| Party::new(locks, me)).collect();
    for party in &mut all {
        party.acquire(record(u64::from(party.me)), LockMode::Exclusive).unwrap();
    }
    let together = std::sync::Barrier::new(usize::from(parties));
    let gave_way = std::thread::scope(|scope| {
        let waits: Vec<_> = all
            .into_iter()
            .map(|mut party| {
                let together = &together;
                let me = party.me;
                let wait = scope.spawn(move || {
                    if !in_turn {
                        together.wait();
                    }
                    let got = party.acquire(record(u64::from(me % parties) + 1), LockMode::Exclusive);
                    party.release_all();
                    got.err().map(|error| (me, error))
                });
                if in_turn && me < parties {
                    until_waiting(locks, me);
                }
                wait
            })
            .collect();
        waits.into_iter().filter_map(|wait| wait.join().unwrap()).collect()
    });
    assert_empty(locks);
    gave_way
}

fn only(gave_way: Vec<(u16, Error)>) -> (u16, Error) {
    assert_eq!(gave_way.len(), 1, "one gives way: {gave_way:?}");
    let (who, error) = gave_way.into_iter().next().unwrap();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    assert!(error.is_retryable());
    (who, error)
}

#[test]
fn of_a_circle_the_one_that_the_policy_names_gives_way_and_no_other() {
    for parties in [2, 3, 5] {
        for (policy, expected) in [(DeadlockPolicy::Youngest, parties), (DeadlockPolicy::Oldest, 1)] {
            let locks = lock_table(parties, 1 << 8).with_policy(policy);
            for round in 0..60 {
                assert_eq!(
                    only(circle(&locks, parties, round % 2 == 0)).0,
                    expected,
                    "{policy:?} of {parties}"
                );
            }
            assert_eq!(locks.counts().deadlocks, 60);
        }
    }
}

#[test]
fn the_requester_is_the_one_whose_wait_closed_the_circle() {
    let locks = lock_table(5, 1 << 8).with_policy(DeadlockPolicy::Requester);
    for parties in [2, 5] {
        for _ in 0..30 {
            assert_eq!(only(circle(&locks, parties, true)).0, parties);
            // All at once: nobody can say which, but it is one.
            only(circle(&locks, parties, false));
        }
    }
}

#[test]
fn a_deadlock_error_says_who_waited_for_whom() {
    let locks = lock_table(2, 1 << 8);
    let (who, error) = only(circle(&locks, 2, true));
    assert_eq!(who, 2);
    assert_eq!(
        error.to_string(),
        "deadlock: participant 2 waited for an exclusive lock on a record held by participant 1, which \
         waited for an exclusive lock on a record held by participant 2; participant 2 gives way as the \
         youngest of them. Run the transaction again"
    );
}

#[test]
fn of_those_that_share_a_lock_all_but_one_give_way_when_all_want_it_alone() {
    for parties in [2, 3, 4] {
        let locks = lock_table(parties, 1 << 8);
        for _ in 0..60 {
            let mut all: Vec<_> = (1..=parties).map(|me| Party::new(&locks, me)).collect();
            for party in &mut all {
                party.acquire(record(1), LockMode::Shared).unwrap();
            }
            let gave_way: usize = std::thread::scope(|scope| {
                let waits: Vec<_> = all
                    .into_iter()
                    .map(|mut party| {
                        scope.spawn(move || {
                            let got = party.acquire(record(1), LockMode::Exclusive);
                            party.release_all();
                            got.is_err_and(|error| {
                                assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
                                true
                            })
                        })
                    })
                    .collect();
                waits.into_iter().map(|wait| usize::from(wait.join().unwrap())).sum()
            });
            // A thread that begins when others are through has nobody to wait for, so it may be fewer.
            assert!(gave_way < usize::from(parties), "somebody gets through");
            assert_empty(&locks);
        }
    }
}

#[test]
fn two_that_upgrade_at_once_are_resolved_with_one_victim() {
    let locks = lock_table(2, 1 << 8);
    let mut elder = Party::new(&locks, 1);
    let mut younger = Party::new(&locks, 2);
    elder.acquire(record(1), LockMode::Shared).unwrap();
    younger.acquire(record(1), LockMode::Shared).unwrap();
    std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| elder.acquire(record(1), LockMode::Exclusive));
        until_waiting(&locks, 1);
        let error = younger.acquire(record(1), LockMode::Exclusive).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
        assert_eq!(locks.holders(record(1)).len(), 2, "the shared lock stays until the transaction ends");
        younger.release_all();
        upgrade.join().unwrap().unwrap();
    });
    assert_eq!(locks.holders(record(1)).len(), 1);
    elder.release_all();
    assert_empty(&locks);
}

#[test]
fn a_circle_is_found_behind_any_of_the_owners_of_a_shared_lock() {
    let locks = lock_table(4, 1 << 8);
    let mut parties: Vec<_> = (0..=4).map(|me| Party::new(&locks, me)).collect();
    parties[1].acquire(record(1), LockMode::Exclusive).unwrap();
    for party in &mut parties[2..] {
        party.acquire(record(2), LockMode::Shared).unwrap();
    }
    let mut last = parties.pop().unwrap();
    let mut first = parties.swap_remove(1);
    std::thread::scope(|scope| {
        let wait = scope.spawn(move || {
            let got = first.acquire(record(2), LockMode::Exclusive);
            (first, got)
        });
        until_waiting(&locks, 1);
        // 4 is the youngest, and 2 and 3 go on as they like.
        assert_eq!(last.acquire(record(1), LockMode::Shared).unwrap_err().kind(), ErrorKind::Deadlock);
        last.release_all();
        for party in &mut parties[1..] {
            party.release_all();
        }
        let (mut first, got) = wait.join().unwrap();
        got.unwrap();
        first.release_all();
    });
    assert_empty(&locks);
}

#[test]
fn waiting_for_somebody_that_does_not_wait_is_no_deadlock() {
    let locks = lock_table(3, 1 << 8);
    let mut parties: Vec<_> = (0..=3).map(|me| Party::new(&locks, me)).collect();
    let (mut third, mut second, mut first) =
        (parties.pop().unwrap(), parties.pop().unwrap(), parties.pop().unwrap());
    first.acquire(record(1), LockMode::Exclusive).unwrap();
    second.acquire(record(2), LockMode::Exclusive).unwrap();
    std::thread::scope(|scope| {
        let end = scope.spawn(move || {
            third.acquire(record(2), LockMode::Exclusive).unwrap();
            third.release_all();
        });
        let middle = scope.spawn(move || {
            second.acquire(record(1), LockMode::Exclusive).unwrap();
            second.release_all();
        });
        until_waiting(&locks, 2);
        until_waiting(&locks, 3);
        first.release_all();
        middle.join().unwrap();
        end.join().unwrap();
    });
    assert_eq!(locks.counts().deadlocks, 0);
    assert_empty(&locks);
}

/// 2 is to give way to 1, but has not looked yet when 3 comes to wait for it. Nobody runs: announcements are
/// all that detectors see.
#[test]
fn a_wait_that_is_marked_already_makes_no_second_victim() {
    let locks = lock_table(3, 1 << 8);
    let mut parties: Vec<_> = (1..=3).map(|me| Party::new(&locks, me)).collect();
    parties[0].acquire(record(1), LockMode::Shared).unwrap();
    parties[1].acquire(record(2), LockMode::Exclusive).unwrap();
    parties[2].acquire(record(1), LockMode::Shared).unwrap();
    let announce = |me, key, mode| locks.announce(me, Want { id: LockId::of(record(key)), mode });
    announce(2, 1, LockMode::Exclusive);
    locks.break_circles(2);
    assert!(!locks.is_victim(2), "it waits for two that run");
    announce(1, 2, LockMode::Shared);
    locks.break_circles(1);
    assert!(locks.is_victim(2) && !locks.is_victim(1));
    announce(3, 2, LockMode::Shared);
    locks.break_circles(3);
    assert!(!locks.is_victim(3) && !locks.is_victim(1));
    assert!(locks.deadlock_error(2).to_string().contains("held by participant 2; participant 2 gives way"));
    (1..=3).for_each(|me| locks.withdraw(me));
    parties.iter_mut().for_each(Party::release_all);
    assert_empty(&locks);
}

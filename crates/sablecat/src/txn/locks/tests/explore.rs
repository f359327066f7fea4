//! Every kind of meeting, under many thread schedules.

use sablecat_os::atomic::{self, AtomicU32};
use sablecat_os::shuttle::thread;

use super::*;
use crate::error::ErrorKind;
use crate::txn::locks::DeadlockPolicy;

const SEED: u64 = 11;
const RUNS: usize = 2000;

/// Runs `body` under schedules that switch threads at random all the time, and under such as let one run for
/// long and stop it at the worst moment.
fn explore(runs: usize, body: impl Fn() + Clone + Send + Sync + 'static) {
    atomic::explore(SEED, runs, body.clone());
    atomic::explore_few_switches(SEED, 4, runs, body);
}

/// How many are inside: readers, or 1000 for a writer.
#[derive(Default)]
struct Room(AtomicU32);

impl Room {
    fn visit(&self, mode: LockMode) {
        let weight = if mode == LockMode::Exclusive { 1000 } else { 1 };
        let before = self.0.fetch_add(weight, Ordering::SeqCst);
        assert!(before == 0 || before < 1000 && mode == LockMode::Shared, "{mode:?} beside {before}");
        self.0.fetch_sub(weight, Ordering::SeqCst);
    }
}

/// Runs `work` once for each participant, each in its thread, and returns what they return.
fn parties<T: Send + 'static>(
    locks: &Arc<LockTable>,
    count: u16,
    work: impl Fn(&mut Party<'_>) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let work = Arc::new(work);
    let threads: Vec<_> = (1..=count)
        .map(|me| {
            let (locks, work) = (Arc::clone(locks), Arc::clone(&work));
            thread::spawn(move || {
                let mut party = Party::new(&locks, me);
                let result = work(&mut party);
                party.release_all();
                result
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn explored_exclusive_and_shared_locks_exclude_each_other() {
    explore(RUNS, || {
        let locks = Arc::new(lock_table(3, 1 << 5));
        let room = Room::default();
        parties(&locks, 3, move |party| {
            for turn in 0..2 {
                let mode = if (party.me + turn) % 3 == 0 { LockMode::Shared } else { LockMode::Exclusive };
                party.acquire(record(1), mode).unwrap();
                room.visit(mode);
                party.release_all();
            }
        });
        assert_empty(&locks);
    });
}

#[test]
fn explored_circles_have_one_victim() {
    for (count, policy) in
        [(2, DeadlockPolicy::Youngest), (2, DeadlockPolicy::Requester), (3, DeadlockPolicy::Youngest)]
    {
        explore(RUNS, move || {
            let locks = Arc::new(lock_table(count, 1 << 5).with_policy(policy));
            // All have their first lock before any wants its second.
            let ready = AtomicU32::new(0);
            let gave_way = parties(&locks, count, move |party| {
                party.acquire(record(u64::from(party.me)), LockMode::Exclusive).unwrap();
                ready.fetch_add(1, Ordering::SeqCst);
                while ready.load(Ordering::SeqCst) != u32::from(count) {
                    sablecat_os::atomic::spin_hint();
                }
                let got = party.acquire(record(u64::from(party.me % count) + 1), LockMode::Exclusive);
                got.is_err_and(|error| {
                    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
                    true
                })
            });
            assert_eq!(gave_way.into_iter().filter(|gave_way| *gave_way).count(), 1);
            assert_empty(&locks);
        });
    }
}

#[test]
fn explored_upgrades_have_one_victim() {
    explore(RUNS, || {
        let locks = Arc::new(lock_table(2, 1 << 5));
        let ready = AtomicU32::new(0);
        let room = Room::default();
        let gave_way = parties(&locks, 2, move |party| {
            party.acquire(record(1), LockMode::Shared).unwrap();
            ready.fetch_add(1, Ordering::SeqCst);
            while ready.load(Ordering::SeqCst) != 2 {
                sablecat_os::atomic::spin_hint();
            }
            let got = party.acquire(record(1), LockMode::Exclusive);
            if got.is_ok() {
                room.visit(LockMode::Exclusive);
            }
            got.is_err()
        });
        assert_eq!(gave_way.into_iter().filter(|gave_way| *gave_way).count(), 1);
        assert_empty(&locks);
    });
}

/// 2 lets go of one record before it wants the other: what a detector sees at one moment and at the next
/// would make a circle. By the policy the detector itself, the older, would give way.
#[test]
fn explored_circles_that_never_were_have_no_victim() {
    explore(RUNS * 2, || {
        let locks = Arc::new(lock_table(2, 1 << 5).with_policy(DeadlockPolicy::Oldest));
        parties(&locks, 2, |party| {
            if party.me == 1 {
                party.acquire(record(2), LockMode::Exclusive).unwrap();
                party.acquire(record(1), LockMode::Exclusive).unwrap();
                return;
            }
            party.acquire(record(1), LockMode::Exclusive).unwrap();
            // Long enough for the other to look for circles while we have it.
            (0..4).for_each(|_| atomic::spin_hint());
            party.release_all();
            party.acquire(record(2), LockMode::Exclusive).unwrap();
        });
        assert_eq!(locks.counts().deadlocks, 0);
        assert_empty(&locks);
    });
}

/// Two homes are full, so that new locks of both go to the bucket of a third, which is in use too.
#[test]
fn explored_guests_of_one_bucket_do_not_overwrite_each_other() {
    explore(RUNS, || {
        let locks = Arc::new(lock_table(10, 1 << 5));
        let records: Vec<_> = (1..=3).map(|bucket| at_home_in(&locks, bucket, 2)).collect();
        let mut crowd: Vec<_> = (4..=10).map(|me| Party::new(&locks, me)).collect();
        for party in &mut crowd {
            party.acquire(records[0][0], LockMode::Shared).unwrap();
            party.acquire(records[1][0], LockMode::Shared).unwrap();
        }
        let mut held: Vec<_> = crowd.into_iter().map(|party| (party.me, party.held)).collect();
        parties(&locks, 3, move |party| {
            let own = records[usize::from(party.me) - 1][1];
            party.acquire(own, LockMode::Exclusive).unwrap();
            assert_eq!(
                party.locks.holders(own).iter().map(|holder| holder.slot).collect::<Vec<_>>(),
                [party.me]
            );
        });
        held.iter_mut().for_each(|(me, held)| locks.release_all(*me, held));
        assert_empty(&locks);
    });
}

/// Locks of all homes overflow into each other's buckets.
#[test]
fn explored_overflow_excludes_and_ends() {
    explore(RUNS / 4, || {
        let locks = Arc::new(lock_table(3, 1 << 5));
        let rooms: Vec<_> = (0..8).map(|_| Room::default()).collect();
        parties(&locks, 3, move |party| {
            for step in 0..8 {
                let key = (u64::from(party.me) * 5 + step) % 8;
                let mode = if (step + key) % 3 == 0 { LockMode::Exclusive } else { LockMode::Shared };
                if party.try_acquire(record(key), mode).is_ok_and(|got| got) {
                    rooms[key as usize].visit(mode);
                }
            }
        });
        assert_empty(&locks);
    });
}

/// A participant that is no more has a lock and two latches; one waits, one reaps.
#[test]
fn explored_reaping_lets_waiters_through() {
    explore(RUNS, || {
        let locks = Arc::new(lock_table(3, 1 << 5));
        let mut dead = Party::new(&locks, 3);
        dead.acquire(record(1), LockMode::Exclusive).unwrap();
        let home = home(&locks, record(1));
        std::mem::forget(locks.table.latch(home, 3));
        std::mem::forget(locks.table.latch(locks.table.at(home, 1), 3));
        let room = Room::default();
        parties(&locks, 2, move |party| {
            if party.me == 2 {
                party.locks.release_all_of(3);
            }
            party.acquire(record(1), LockMode::Exclusive).unwrap();
            room.visit(LockMode::Exclusive);
        });
        assert_empty(&locks);
    });
}

//! Participants that died, and those that clean up behind them.

use super::*;
use crate::txn::locks::word::{LockId, Want, Word};

#[test]
fn the_locks_of_a_dead_slot_go_to_those_that_wait_for_them() {
    let locks = lock_table(2, 1 << 10);
    let mut dead = Party::new(&locks, 1);
    let mut alive = Party::new(&locks, 2);
    for key in 0..40 {
        dead.acquire(record(key), LockMode::Exclusive).unwrap();
    }
    dead.acquire(record(50), LockMode::Shared).unwrap();
    alive.acquire(record(50), LockMode::Shared).unwrap();
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| alive.acquire(record(7), LockMode::Exclusive));
        until_waiting(&locks, 2);
        locks.release_all_of(1);
        wait.join().unwrap().unwrap();
    });
    assert_eq!(locks.holders(record(50)).len(), 1, "the other owner of a shared lock keeps it");
    alive.release_all();
    assert_empty(&locks);
}

#[test]
fn latches_and_announcements_of_a_dead_slot_end_with_it() {
    let locks = lock_table(2, 1 << 5);
    let home = home(&locks, record(1));
    let mut dead = Party::new(&locks, 1);
    dead.acquire(record(1), LockMode::Exclusive).unwrap();
    // It dies at the worst moment: two latches held, the reach raised, nothing written out there, a wait
    // announced.
    let mut latch = locks.table.latch(home, 1);
    latch.raise_reach(1);
    std::mem::forget(latch);
    std::mem::forget(locks.table.try_latch(locks.table.at(home, 1), 1));
    assert_eq!(locks.look_at_latches().collect::<Vec<_>>(), [1, 1]);
    let want = Want { id: LockId::of(record(2)), mode: LockMode::Exclusive };
    locks.table.slot(1).waits_for.store(Word::announcement(want, 9).0, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| {
            let mut alive = Party::new(&locks, 2);
            alive.acquire(record(1), LockMode::Exclusive).unwrap();
            alive.release_all();
        });
        locks.release_all_of(1);
        wait.join().unwrap();
    });
    locks.release_all_of(1);
    assert_eq!(locks.look_at_latches().count(), 0);
    assert_empty(&locks);
    assert_eq!(locks.table.latch(home, 2).reach(), 0, "the next look lowered what the dead had raised");
}

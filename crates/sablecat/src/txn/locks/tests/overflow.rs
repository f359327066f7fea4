//! More locks than a bucket, a neighbourhood, or the table has room for.

use super::*;
use crate::error::ErrorKind;

#[test]
fn more_owners_than_a_bucket_has_words_share_one_lock() {
    let locks = lock_table(100, 1 << 12);
    let mut parties: Vec<_> = (1..=100).map(|me| Party::new(&locks, me)).collect();
    for party in &mut parties {
        party.acquire(record(1), LockMode::Shared).unwrap();
    }
    assert_eq!(locks.holders(record(1)).len(), 100);
    let mut last = parties.pop().unwrap();
    assert!(!last.try_acquire(record(1), LockMode::Exclusive).unwrap());
    for party in &mut parties {
        assert!(!last.try_acquire(record(1), LockMode::Exclusive).unwrap());
        party.release_all();
    }
    assert!(last.try_acquire(record(1), LockMode::Exclusive).unwrap());
    last.release_all();
    assert_eq!(locks.counts().coarse, 0);
    assert_empty(&locks);
}

#[test]
fn the_reach_of_a_home_goes_back_when_its_far_locks_end() {
    let locks = lock_table(1, 1 << 12);
    let mut party = Party::new(&locks, 1);
    let hashes = at_home_in(&locks, 5, 30);
    for hash in &hashes {
        party.acquire(*hash, LockMode::Exclusive).unwrap();
    }
    assert_eq!(locks.table.latch(5, 1).reach(), 4, "30 words in buckets of 7");
    party.release_all();
    party.acquire(hashes[0], LockMode::Exclusive).unwrap();
    assert_eq!(locks.table.latch(5, 1).reach(), 0);
}

#[test]
fn a_transaction_with_very_many_locks_makes_them_coarse_and_excludes_the_same_and_more() {
    const RECORDS: u64 = 20_000;
    let locks = lock_table(2, 1 << 10);
    let mut giant = Party::new(&locks, 1);
    for key in 0..RECORDS {
        giant
            .acquire(record(key), if key % 3 == 0 { LockMode::Exclusive } else { LockMode::Shared })
            .unwrap();
    }
    assert!(locks.counts().coarse > 0);
    let mut taken = 0;
    locks.table.each_place(|index| taken += usize::from(locks.table.word(index).load(Ordering::SeqCst) != 0));
    assert!(taken < locks.table.capacity() / 2, "{taken} words: others still find room");
    let mut other = Party::new(&locks, 2);
    for key in 0..RECORDS {
        assert!(!other.try_acquire(record(key), LockMode::Exclusive).unwrap());
        assert!(key % 3 != 0 || !other.try_acquire(record(key), LockMode::Shared).unwrap());
    }
    giant.release_all();
    assert!(other.try_acquire(record(0), LockMode::Exclusive).unwrap());
    other.release_all();
    assert_empty(&locks);
}

#[test]
fn a_coarse_lock_that_ends_wakes_who_waits_for_any_of_its_records() {
    let locks = lock_table(4, 1 << 4);
    let mut giant = Party::new(&locks, 1);
    for key in 0..20 {
        giant.acquire(record(key), LockMode::Exclusive).unwrap();
    }
    assert!(locks.holders(record(1000))[0].coarse);
    std::thread::scope(|scope| {
        for me in 2..=4 {
            let locks = &locks;
            scope.spawn(move || {
                let mut party = Party::new(locks, me);
                party.acquire(record(500 + u64::from(me)), LockMode::Exclusive).unwrap();
                party.release_all();
            });
        }
        (2..=4).for_each(|me| until_waiting(&locks, me));
        giant.release_all();
    });
    assert_empty(&locks);
}

#[test]
fn coarse_locks_of_those_that_share_stand_beside_each_other() {
    let locks = lock_table(3, 1 << 4);
    let mut parties: Vec<_> = (1..=3).map(|me| Party::new(&locks, me)).collect();
    for key in 0..50 {
        for party in &mut parties {
            party.acquire(record(key), LockMode::Shared).unwrap();
        }
    }
    assert!(locks.counts().coarse >= 3);
    assert!(
        !parties[0].try_acquire(record(3), LockMode::Exclusive).unwrap(),
        "the others' coarse locks cover it"
    );
    parties[1].release_all();
    parties[2].release_all();
    assert!(parties[0].try_acquire(record(3), LockMode::Exclusive).unwrap());
    assert!(
        !parties[1].try_acquire(record(3), LockMode::Shared).unwrap(),
        "what was added to a coarse lock counts"
    );
    parties[0].release_all();
    assert_empty(&locks);
}

#[test]
fn a_full_table_is_an_error_that_leaves_all_as_it_was() {
    let locks = lock_table(8, 1 << 4);
    let mut parties: Vec<_> = (1..=8).map(|me| Party::new(&locks, me)).collect();
    for party in &mut parties[..7] {
        party.acquire(record(u64::from(party.me)), LockMode::Exclusive).unwrap();
    }
    let error = parties[7].acquire(record(8), LockMode::Exclusive).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooMany);
    assert!(error.to_string().starts_with("all 7 record locks of the environment are taken"), "{error}");
    parties[0].release_all();
    parties[7].acquire(record(8), LockMode::Exclusive).unwrap();
    parties.iter_mut().for_each(Party::release_all);
    assert_empty(&locks);
}

//! Locks keep out those that they should, with many threads at once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::error::ErrorKind;

/// A counter that loses counts if two add at once.
#[derive(Default)]
struct Fragile(AtomicU64);

impl Fragile {
    fn add(&self) {
        let now = self.0.load(Relaxed);
        std::hint::spin_loop();
        self.0.store(now + 1, Relaxed);
    }
}

/// A small generator of numbers, so that runs can be repeated.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}

#[test]
fn an_exclusive_lock_is_held_by_one_at_a_time() {
    const PARTIES: u16 = 8;
    const TURNS: u64 = 2000;
    let locks = lock_table(PARTIES, 1 << 10);
    let counter = Fragile::default();
    std::thread::scope(|scope| {
        for me in 1..=PARTIES {
            let (locks, counter) = (&locks, &counter);
            scope.spawn(move || {
                let mut party = Party::new(locks, me);
                for _ in 0..TURNS {
                    party.acquire(record(1), LockMode::Exclusive).unwrap();
                    counter.add();
                    party.release_all();
                }
            });
        }
    });
    assert_eq!(counter.0.into_inner(), u64::from(PARTIES) * TURNS);
    assert_empty(&locks);
}

/// Each transaction locks a few records at random, upgrades some, and adds to those it has exclusively. If it
/// is told to give way, or finds no room, it starts again. The smallest table overflows all the time.
fn transfer(words: usize, records: u64, parties: u16, turns: u64) {
    let locks = lock_table(parties, words);
    let counters: Vec<_> = (0..records).map(|_| Fragile::default()).collect();
    let added: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=parties)
            .map(|me| {
                let (locks, counters) = (&locks, &counters);
                scope.spawn(move || {
                    let mut numbers = Numbers(0x1234_5678 + u64::from(me));
                    let mut party = Party::new(locks, me);
                    let mut added = 0;
                    for _ in 0..turns {
                        for _ in 0..1 + numbers.below(4) {
                            let number = numbers.below(records);
                            let shared = numbers.below(2) == 0;
                            if shared {
                                let got = party.acquire(record(number), LockMode::Shared);
                                if got.is_err_and(|error| gives_way(&error)) {
                                    break;
                                }
                                let seen = counters[number as usize].0.load(Relaxed);
                                std::hint::spin_loop();
                                assert_eq!(
                                    seen,
                                    counters[number as usize].0.load(Relaxed),
                                    "it changed under a shared lock"
                                );
                            }
                            if !shared || numbers.below(3) == 0 {
                                let got = party.acquire(record(number), LockMode::Exclusive);
                                if got.is_err_and(|error| gives_way(&error)) {
                                    break;
                                }
                                counters[number as usize].add();
                                added += 1;
                            }
                        }
                        party.release_all();
                    }
                    added
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(counters.iter().map(|counter| counter.0.load(Relaxed)).sum::<u64>(), added);
    assert_empty(&locks);
}

fn gives_way(error: &crate::error::Error) -> bool {
    assert!(matches!(error.kind(), ErrorKind::Deadlock | ErrorKind::TooMany), "{error}");
    true
}

#[test]
fn transactions_over_few_records_exclude_each_other_and_all_end() {
    transfer(1 << 10, 6, 6, 1500);
}

#[test]
fn transactions_over_many_records_exclude_each_other_and_all_end() {
    transfer(1 << 10, 200, 6, 3000);
}

#[test]
fn transactions_in_a_table_of_seven_words_exclude_each_other_and_all_end() {
    transfer(1 << 4, 20, 6, 1000);
}

#[test]
fn transactions_in_a_table_of_three_buckets_exclude_each_other_and_all_end() {
    transfer(1 << 5, 20, 8, 1000);
}

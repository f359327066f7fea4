//! The explorer drives real atomics in mapped memory through their interleavings.

#![cfg(feature = "shuttle")]
#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use sablecat_os::atomic::{self, AtomicU32};
use sablecat_os::futex::{self, Wake};
use sablecat_os::mapping::Mapping;
use sablecat_os::shuttle::thread;

/// Words in mapped memory, as the engine has them.
struct Words(Mapping);

impl Words {
    fn new() -> Arc<Words> {
        Arc::new(Words(Mapping::anonymous(4096).unwrap()))
    }

    fn word(&self, number: usize) -> &AtomicU32 {
        assert!(number < 1024);
        // SAFETY: zeroed, aligned, within the mapping, and used as atomics only.
        unsafe { self.0.base().cast::<AtomicU32>().add(number).as_ref() }
    }
}

#[test]
fn a_lost_update_is_found() {
    let found = catch_unwind(|| {
        atomic::explore(1, 200, || {
            let words = Words::new();
            let other = Arc::clone(&words);
            let add = |words: &Words| words.word(0).store(words.word(0).load(SeqCst) + 1, SeqCst);
            let thread = thread::spawn(move || add(&other));
            add(&words);
            thread.join().unwrap();
            assert_eq!(words.word(0).load(SeqCst), 2);
        });
    });
    assert!(found.is_err(), "two threads that each load and store lose an update in some schedule");
}

#[test]
fn an_update_in_one_operation_is_not_lost() {
    atomic::explore(1, 200, || {
        let words = Words::new();
        let other = Arc::clone(&words);
        let thread = thread::spawn(move || other.word(0).fetch_add(1, SeqCst));
        words.word(0).fetch_add(1, SeqCst);
        thread.join().unwrap();
        assert_eq!(words.word(0).load(SeqCst), 2);
    });
}

#[test]
fn waiting_lets_others_run() {
    atomic::explore(2, 200, || {
        let words = Words::new();
        let other = Arc::clone(&words);
        let thread = thread::spawn(move || {
            other.word(0).store(1, SeqCst);
            futex::wake(other.word(0), 1);
            while other.word(1).load(SeqCst) == 0 {
                atomic::spin_hint();
            }
            while other.word(1).load(SeqCst) == 1 {
                atomic::yield_now();
            }
        });
        assert_ne!(futex::wait(words.word(0), 0, None), Wake::TimedOut);
        assert_eq!(words.word(0).load(SeqCst), 1);
        words.word(1).store(1, SeqCst);
        words.word(1).store(2, SeqCst);
        thread.join().unwrap();
    });
}

#[test]
fn a_limited_wait_ends_though_nobody_wakes() {
    atomic::explore(3, 10, || {
        let words = Words::new();
        assert_eq!(futex::wait(words.word(0), 0, Some(Duration::from_secs(3600))), Wake::TimedOut);
        assert_eq!(futex::wait(words.word(0), 1, Some(Duration::ZERO)), Wake::Changed);
    });
}

/// A fence is a place to switch: without it the two stores below could not be seen apart.
#[test]
fn every_operation_is_a_place_to_switch() {
    let operations: [fn(&AtomicU32); 12] = [
        |word| {
            word.load(SeqCst);
        },
        |word| word.store(0, SeqCst),
        |word| {
            word.swap(0, SeqCst);
        },
        |word| {
            let _ = word.compare_exchange(0, 0, SeqCst, SeqCst);
        },
        |word| {
            let _ = word.compare_exchange_weak(0, 0, SeqCst, SeqCst);
        },
        |word| {
            word.fetch_add(0, SeqCst);
        },
        |word| {
            word.fetch_sub(0, SeqCst);
        },
        |word| {
            word.fetch_or(0, SeqCst);
        },
        |word| {
            word.fetch_and(0, SeqCst);
        },
        |word| {
            word.fetch_max(0, SeqCst);
        },
        |_| atomic::fence(SeqCst),
        |_| atomic::spin_hint(),
    ];
    for (number, operation) in operations.into_iter().enumerate() {
        let between = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&between);
        atomic::explore(4, 100, move || {
            let words = Words::new();
            // The standard library's own atomics are no places to switch.
            let state = Arc::new(std::sync::atomic::AtomicU32::new(0));
            let (mine, seen) = (Arc::clone(&state), Arc::clone(&seen));
            let thread = thread::spawn(move || {
                if state.load(SeqCst) == 1 {
                    seen.store(true, SeqCst);
                }
            });
            mine.store(1, SeqCst);
            operation(words.word(0));
            mine.store(2, SeqCst);
            thread.join().unwrap();
        });
        assert!(between.load(SeqCst), "operation {number}");
    }
}

#[test]
fn the_same_seed_explores_the_same_schedules() {
    let trace = |seed| {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let shared = Arc::clone(&order);
        atomic::explore(seed, 20, move || {
            let words = Words::new();
            let threads: Vec<_> = (0..3)
                .map(|number| {
                    let (words, order) = (Arc::clone(&words), Arc::clone(&shared));
                    thread::spawn(move || {
                        words.word(0).fetch_add(1, SeqCst);
                        order.lock().unwrap().push(number);
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    };
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}

#[test]
fn outside_an_exploration_the_real_thing_happens() {
    let word = AtomicU32::new(1);
    assert_eq!(word.fetch_add(1, SeqCst), 1);
    atomic::fence(SeqCst);
    atomic::spin_hint();
    atomic::yield_now();
    assert_eq!(futex::wait(&word, 2, Some(Duration::from_millis(1))), Wake::TimedOut);
    let panicked = catch_unwind(AssertUnwindSafe(|| atomic::explore(7, 1, || panic!("one"))));
    assert!(panicked.is_err());
    word.store(3, SeqCst);
}

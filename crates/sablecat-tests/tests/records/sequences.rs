//! Sequences: no number twice, in whatever way they are taken, and whatever becomes of who took them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use proptest::prelude::*;
use sablecat::{Database, Durability, Env, ErrorKind, Isolation, Sequence, SequenceOptions, TxnOptions};
use sablecat_os::sim::{SimDisk, Survival};

fn options(bounds: RangeInclusive<i64>) -> SequenceOptions {
    SequenceOptions::new().bounds(bounds)
}

fn meta() -> Database {
    Env::in_memory().unwrap().database("meta").unwrap()
}

/// All numbers until there are no more.
fn drain(sequence: &Sequence) -> Vec<i64> {
    let mut numbers = Vec::new();
    loop {
        match sequence.next() {
            Ok(number) => numbers.push(number),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Exhausted);
                return numbers;
            }
        }
    }
}

#[test]
fn numbers_come_in_order_from_one_end_to_the_other() {
    let meta = meta();
    for cache in [0, 1, 3, 7, 1000] {
        let key = |name: &str| format!("{name} {cache}");
        let up = meta.sequence(key("up"), options(-3..=9).cache(cache)).unwrap();
        assert_eq!(drain(&up), (-3..=9).collect::<Vec<_>>());
        assert_eq!(drain(&up), [], "and stays at its end");
        let from = meta.sequence(key("from"), options(-3..=9).start(5).cache(cache)).unwrap();
        assert_eq!(drain(&from), (5..=9).collect::<Vec<_>>());
        let down = meta.sequence(key("down"), options(-3..=9).descending(true).cache(cache)).unwrap();
        assert_eq!(drain(&down), (-3..=9).rev().collect::<Vec<_>>());
        let round = meta.sequence(key("round"), options(1..=3).start(2).wraps(true).cache(cache)).unwrap();
        assert_eq!((0..7).map(|_| round.next().unwrap()).collect::<Vec<_>>(), [2, 3, 1, 2, 3, 1, 2]);
        let back =
            meta.sequence(key("back"), options(1..=3).descending(true).wraps(true).cache(cache)).unwrap();
        assert_eq!((0..4).map(|_| back.next().unwrap()).collect::<Vec<_>>(), [3, 2, 1, 3]);
        let one = meta.sequence(key("one"), options(7..=7).cache(cache)).unwrap();
        assert_eq!(drain(&one), [7]);
    }
}

#[test]
fn the_ends_of_all_integers_are_numbers_as_any() {
    let meta = meta();
    let all = || options(i64::MIN..=i64::MAX).cache(u64::MAX);
    let high = meta.sequence("high", all().start(i64::MAX - 1).cache(1)).unwrap();
    assert_eq!(drain(&high), [i64::MAX - 1, i64::MAX]);
    let low = meta.sequence("low", all().start(i64::MIN + 1).descending(true)).unwrap();
    assert_eq!(drain(&low), [i64::MIN + 1, i64::MIN]);
    let whole = meta.sequence("whole", all().cache(1)).unwrap();
    assert_eq!(whole.next_block(u64::MAX).unwrap(), (i64::MIN, i64::MAX - 1));
    assert_eq!(drain(&whole), [i64::MAX]);
}

#[test]
fn options_that_fit_no_sequence_are_refused_and_those_of_one_that_is_there_do_not_matter() {
    let meta = meta();
    let refused = |options| meta.sequence("s", options).unwrap_err().kind();
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let empty = options(3..=1);
    assert_eq!(refused(empty), ErrorKind::Invalid);
    assert_eq!(refused(options(1..=3).start(4)), ErrorKind::Invalid);
    assert_eq!(meta.get("s").unwrap(), None);
    let first = meta.sequence("s", options(10..=20).cache(2)).unwrap();
    assert_eq!(first.next().unwrap(), 10);
    let second = meta.sequence("s", options(1..=3).descending(true)).unwrap();
    assert_eq!(
        (second.next().unwrap(), second.bounds().unwrap()),
        (12, 10..=20),
        "after what the other has taken"
    );
}

#[test]
fn records_that_are_no_sequences_are_errors() {
    let meta = meta();
    let kind = |result: sablecat::Result<i64>| result.unwrap_err().kind();
    for bytes in [&b""[..], b"text", &[2; 26], &[0; 26], &[0; 27]] {
        meta.insert("s", bytes).unwrap();
        assert_eq!(
            meta.sequence("s", SequenceOptions::new()).unwrap_err().kind(),
            ErrorKind::Invalid,
            "{bytes:?}"
        );
    }
    meta.remove("s").unwrap();
    let sequence = meta.sequence("s", SequenceOptions::new().cache(1)).unwrap();
    sequence.next().unwrap();
    meta.remove("s").unwrap();
    assert_eq!(kind(sequence.next()), ErrorKind::NotFound);
    assert_eq!(sequence.bounds().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(kind(meta.env().write(|txn| sequence.next_in(txn))), ErrorKind::NotFound);
    meta.insert("s", "another").unwrap();
    assert_eq!(kind(sequence.next()), ErrorKind::Invalid);
    assert_eq!(sequence.next_block(0).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn no_two_threads_and_no_two_handles_get_one_number() {
    let meta = meta();
    let shared = meta.sequence("s", SequenceOptions::new().cache(10)).unwrap();
    let take = |own: bool| {
        let mine = meta.sequence("s", SequenceOptions::new().cache(3)).unwrap();
        let sequence = if own { &mine } else { &shared };
        let mut numbers: Vec<_> = (0..200).map(|_| sequence.next().unwrap()).collect();
        let (first, last) = sequence.next_block(5).unwrap();
        numbers.extend(first..=last);
        assert_eq!(numbers.len(), 205);
        numbers
    };
    let all: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|n| scope.spawn(move || take(n % 2 == 0))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 6 * 205);
}

#[test]
fn numbers_are_taken_within_a_transaction_and_are_gone_whatever_becomes_of_it() {
    let meta = meta();
    let sequence = meta.sequence("s", SequenceOptions::new().cache(2)).unwrap();
    let mut seen = Vec::new();
    let failed = meta.env().try_write(|txn| -> Result<(), Box<dyn std::error::Error>> {
        for _ in 0..5 {
            seen.push(sequence.next()?);
        }
        txn.insert(&meta, "k", "v")?;
        Err("by design".into())
    });
    assert!(failed.is_err());
    assert_eq!((seen, sequence.next().unwrap(), meta.get("k").unwrap()), (vec![1, 2, 3, 4, 5], 6, None));
}

#[test]
fn a_number_that_is_part_of_a_transaction_is_given_again_if_that_is_rolled_back() {
    let meta = meta();
    let sequence = meta.sequence("s", options(1..=3)).unwrap();
    let mut txn = meta.env().begin().unwrap();
    assert_eq!((sequence.next_in(&mut txn).unwrap(), sequence.next_in(&mut txn).unwrap()), (1, 2));
    txn.abort();
    for number in 1..=3 {
        assert_eq!(meta.env().write(|txn| sequence.next_in(txn)).unwrap(), number);
    }
    assert_eq!(meta.env().write(|txn| sequence.next_in(txn)).unwrap_err().kind(), ErrorKind::Exhausted);
    assert_eq!(sequence.next().unwrap_err().kind(), ErrorKind::Exhausted);
}

/// Read committed, the transaction committed, and the handle's numbers were given once more.
#[test]
fn a_number_that_a_handle_takes_beside_a_transaction_is_not_that_of_both() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let meta = meta();
        let sequence = meta.sequence("s", SequenceOptions::new().cache(3)).unwrap();
        let begin = || meta.env().begin_with(TxnOptions::new().isolation(isolation)).unwrap();
        let mut txn = begin();
        let within = (sequence.next_in(&mut txn).unwrap(), sequence.next_in(&mut txn).unwrap());
        assert_eq!((within, sequence.next().unwrap()), ((1, 2), 1));
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict, "{isolation:?}");
        let mut txn = begin();
        assert_eq!(sequence.next_in(&mut txn).unwrap(), 4, "{isolation:?}");
        txn.commit().unwrap();
        assert_eq!((0..3).map(|_| sequence.next().unwrap()).collect::<Vec<_>>(), [2, 3, 5]);
    }
}

#[test]
fn no_number_comes_again_after_a_power_failure() {
    let open = |disk: &Arc<SimDisk>| {
        let builder =
            Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).log_segment_size(1 << 16);
        builder.durability(Durability::NoSync).open("env").unwrap()
    };
    let disk = Arc::new(SimDisk::new(1));
    let env = open(&disk);
    let meta = env.database("meta").unwrap();
    let sequence = meta.sequence("s", SequenceOptions::new().cache(4)).unwrap();
    let mut given = HashSet::new();
    for round in 0..30 {
        assert!(given.insert(sequence.next().unwrap()));
        let after = open(&Arc::new(disk.crash_as(Survival::Nothing, round)));
        let meta = after.database("meta").unwrap();
        let next = meta.sequence("s", SequenceOptions::new()).unwrap().next().unwrap();
        assert!(!given.contains(&next), "{next} was given before the power failed");
    }
}

#[test]
fn threads_that_go_round_give_each_number_once_in_each_round() {
    let meta = meta();
    let mut given = std::thread::scope(|scope| {
        let threads = [1, 7, 30].map(|cache| {
            let sequence = meta.sequence("s", options(1..=100).wraps(true).cache(cache)).unwrap();
            // With so many numbers each has taken whole blocks, but for those that end at the last number.
            scope.spawn(move || {
                let mut numbers = vec![sequence.next().unwrap()];
                while numbers.len() < 400 || numbers.last() != Some(&100) {
                    numbers.push(sequence.next().unwrap());
                }
                numbers
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let rounds = given.iter().filter(|&&number| number == 100).count();
    // What is left of the last round.
    let rest = meta.sequence("s", options(1..=100).cache(1)).unwrap();
    let next = rest.next().unwrap();
    given.extend(if next == 1 { 1..1 } else { next..101 });
    given.sort_unstable();
    let each: Vec<i64> =
        (1..=100).flat_map(|number| std::iter::repeat_n(number, rounds + usize::from(next != 1))).collect();
    assert_eq!(given, each);
}

/// What a sequence gives, in order, and how far it is.
struct Course {
    numbers: Vec<i64>,
    at: usize,
    wraps: bool,
}

impl Course {
    fn take(&mut self, most: usize) -> Option<Vec<i64>> {
        let rest = self.numbers.get(self.at..).filter(|rest| !rest.is_empty())?;
        let taken = rest[..most.min(rest.len())].to_vec();
        self.at += taken.len();
        if self.wraps {
            self.at %= self.numbers.len();
        }
        Some(taken)
    }
}

proptest! {
    #[test]
    fn handles_share_a_sequence_as_they_would_a_list(
        (least, count, start) in (-20i64..20, 1..25i64, 0..25i64),
        (descending, wraps) in any::<(bool, bool)>(),
        steps in prop::collection::vec((0usize..3, 0u8..8, 1u64..6), 1..80),
    ) {
        let meta = meta();
        let bounds = least..=least + count - 1;
        let mut numbers: Vec<i64> = bounds.clone().collect();
        if descending {
            numbers.reverse();
        }
        let at = (start % count) as usize;
        let options = options(bounds).start(numbers[at]).descending(descending).wraps(wraps);
        let caches = [1, 2, 5];
        let handles = caches.map(|cache| meta.sequence("s", options.clone().cache(cache)).unwrap());
        let (mut course, mut taken) = (Course { numbers, at, wraps }, [const { Vec::new() }; 3]);
        for (one, what, some) in steps {
            let (handle, mine) = (&handles[one], &mut taken[one]);
            let (given, expected) = match what {
                0 => {
                    let block = handle.next_block(some).map(|(first, last)| vec![first, last]);
                    let taken = course.take(some as usize);
                    (block, taken.map(|taken| vec![taken[0], taken[taken.len() - 1]]))
                }
                1 => (meta.env().write(|txn| handle.next_in(txn)).map(|n| vec![n]), course.take(1)),
                2 => {
                    let mut txn = meta.env().begin().unwrap();
                    let given = handle.next_in(&mut txn).map(|n| vec![n]);
                    txn.abort();
                    let before = course.at;
                    let expected = course.take(1);
                    course.at = before;
                    (given, expected)
                }
                _ => {
                    if mine.is_empty() {
                        *mine = course.take(caches[one] as usize).unwrap_or_default();
                    }
                    let expected = (!mine.is_empty()).then(|| vec![mine.remove(0)]);
                    (handle.next().map(|n| vec![n]), expected)
                }
            };
            let given = match given {
                Err(error) if error.kind() == ErrorKind::Exhausted => None,
                given => Some(given.unwrap()),
            };
            prop_assert_eq!(given, expected);
        }
    }
}

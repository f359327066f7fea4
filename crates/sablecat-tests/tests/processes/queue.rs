//! Queues: against a model, over crashes, and between threads and processes that are killed.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use sablecat::{Durability, Env, ErrorKind, Isolation, Queue, Txn, TxnOptions};
use sablecat_os::sim::SimDisk;
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);
/// Short, for what is not to happen.
const MOMENT: Duration = Duration::from_millis(30);

pub(crate) const ISOLATIONS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

pub(crate) fn at(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}

pub(crate) fn record(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

pub(crate) fn queue(env: &Env) -> Queue {
    Queue::open(env, "queue", 8).unwrap()
}

/// What is in a queue, by number.
type Model = BTreeMap<u64, Vec<u8>>;

fn contents(queue: &Queue, env: &Env) -> Model {
    queue.iter(env).unwrap().map(Result::unwrap).collect()
}

/// A transaction of random steps, on the queue and on what it is to be; whether it is to commit.
fn random_steps(
    txn: &mut Txn<'_>,
    queue: &Queue,
    model: &mut Model,
    high: &mut u64,
    dice: &mut Dice,
) -> bool {
    let mut savepoints = Vec::new();
    for _ in 0..dice.below(24) {
        match dice.below(14) {
            0..5 => {
                let value = record(dice.below(1 << 40));
                let number = queue.append(txn, value).unwrap();
                assert!(number > *high, "{number} comes after {high}");
                *high = number;
                model.insert(number, value.to_vec());
            }
            5..9 => assert_eq!(queue.consume(txn).unwrap(), model.pop_first()),
            9 => {
                // Numbers that are rolled back may come again; nobody has seen them.
                savepoints.push((txn.savepoint(), model.clone(), *high));
            }
            10 => {
                if let Some((savepoint, then, risen)) = savepoints.last() {
                    *high = *risen;
                    txn.rollback_to(savepoint).unwrap();
                    model.clone_from(then);
                }
            }
            11..13 => {
                // The last one, any, and none.
                let of_any = model.keys().nth(dice.below(model.len() as u64 + 1) as usize).copied();
                let n = if dice.below(3) == 0 { *high } else { of_any.unwrap_or(*high + 1) };
                assert_eq!(queue.remove(txn, n).unwrap(), model.remove(&n).is_some());
            }
            _ => {
                let n = dice.below(*high + 2);
                assert_eq!(queue.get(txn, n).unwrap().as_ref(), model.get(&n));
                assert_eq!(queue.peek(txn).unwrap(), model.first_key_value().map(|(&n, v)| (n, v.clone())));
                assert_eq!(queue.len(txn).unwrap(), model.len() as u64);
            }
        }
    }
    dice.below(4) > 0
}

#[test]
fn it_is_a_line_of_records_over_transactions_savepoints_crashes_and_reopening() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut disk = Arc::new(SimDisk::new(seed));
        let open = |disk: &Arc<SimDisk>| {
            let builder = Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).page_size(512);
            let builder = builder.cache_size(1 << 20).log_segment_size(1 << 16);
            builder.durability(Durability::Sync).open("env").unwrap()
        };
        let mut env = open(&disk);
        let (mut model, mut high) = (Model::new(), 0);
        for _ in 0..120 {
            let jobs = queue(&env);
            let options = at(ISOLATIONS[dice.below(3) as usize]).durability(Durability::Sync);
            let mut txn = env.begin_with(options).unwrap();
            let (mut then, mut risen) = (model.clone(), high);
            if random_steps(&mut txn, &jobs, &mut then, &mut risen, &mut dice) {
                txn.commit().unwrap();
                // What is not committed leaves no number behind.
                high = then.last_key_value().map_or(high, |(&last, _)| last.max(high));
                model = then;
            } else {
                txn.abort();
            }
            for _ in 0..dice.below(20) {
                if dice.below(2) == 0 {
                    assert_eq!(jobs.consume_one().unwrap(), model.pop_first());
                    continue;
                }
                let value = record(dice.below(1 << 40));
                let number = jobs.append_one(value).unwrap();
                assert!(number > high, "{number} comes after {high}");
                high = number;
                model.insert(number, value.to_vec());
            }
            assert_eq!(contents(&jobs, &env), model);
            let backwards: Vec<_> = jobs.iter(&env).unwrap().rev().map(|one| one.unwrap().0).collect();
            assert!(backwards.iter().eq(model.keys().rev()));
            match dice.below(20) {
                0 => {
                    drop(jobs);
                    env.close().unwrap();
                    env = open(&disk);
                }
                1 => _ = env.checkpoint().unwrap(),
                2 => {
                    let crashed = Arc::new(disk.crash(seed));
                    drop((jobs, env));
                    disk = crashed;
                    env = open(&disk);
                    assert_eq!(contents(&queue(&env), &env), model);
                }
                _ => {}
            }
        }
        assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    }
}

#[test]
fn who_consumes_passes_over_what_others_have_in_hand_and_who_appends_what_others_append() {
    for isolation in ISOLATIONS {
        let env = Env::in_memory().unwrap();
        let jobs = queue(&env);
        (1..=4).for_each(|n| assert_eq!(jobs.append_one(record(n)).unwrap(), n));
        let [mut one, mut two, mut three] = [(); 3].map(|()| env.begin_with(at(isolation)).unwrap());
        let number = |txn: &mut Txn<'_>| jobs.consume(txn).unwrap().map(|(number, _)| number);
        let appended =
            [&mut one, &mut two, &mut three].map(|txn| queue(&env).append(txn, record(9)).unwrap());
        assert_eq!(BTreeSet::from(appended).len(), 3);
        assert_eq!([&mut one, &mut two, &mut three].map(number), [1, 2, 3].map(Some));
        assert_eq!(number(&mut one), Some(4));
        // Its own, which nobody else sees.
        assert_eq!(number(&mut two), Some(appended[1]));
        assert_eq!((number(&mut two), number(&mut two)), (None, None));
        assert_eq!(jobs.consume_one().unwrap(), None);
        two.commit().unwrap();
        one.abort();
        three.commit().unwrap();
        let left: Vec<_> = contents(&jobs, &env).into_keys().collect();
        assert_eq!(left, [1, 4, appended[2]], "{isolation:?}");
        for number in left {
            assert_eq!(jobs.consume_one().unwrap().map(|(number, _)| number), Some(number));
        }
        assert!(jobs.is_empty(&env).unwrap());
    }
}

/// Also what is appended and consumed by itself, without locks.
#[test]
fn what_transactions_have_in_hand_is_passed_over_one_by_one() {
    let env = Env::in_memory().unwrap();
    let jobs = queue(&env);
    (1..=6).for_each(|n| assert_eq!(jobs.append_one(record(n)).unwrap(), n));
    for isolation in ISOLATIONS {
        let mut txn = env.begin_with(at(isolation)).unwrap();
        let (first, _) = jobs.consume(&mut txn).unwrap().unwrap();
        let its = jobs.append(&mut txn, record(0)).unwrap();
        let (second, value) = jobs.consume_one().unwrap().unwrap();
        assert!(second > first);
        let beyond = jobs.append_one(&value).unwrap();
        assert!(beyond > its, "{beyond} is none of the numbers that {its} is one of");
        assert_eq!(beyond % 64, 0);
        let its_next = jobs.append(&mut txn, record(0)).unwrap();
        assert!(its_next > its && its_next < beyond);
        txn.commit().expect("nobody is in its way");
        let numbers: Vec<_> = contents(&jobs, &env).into_keys().collect();
        assert!(numbers.ends_with(&[its, its_next, beyond]), "{numbers:?}");
        assert!(!numbers.contains(&first) && !numbers.contains(&second));
    }
}

/// As with any record, what was consumed and given back is consumed by who began before that, too.
#[test]
fn a_record_that_is_given_back_is_the_first_again() {
    for isolation in ISOLATIONS {
        let env = Env::in_memory().unwrap();
        let jobs = queue(&env);
        (1..=4).for_each(|n| _ = jobs.append_one(record(n)).unwrap());
        let [mut one, mut other] = [(); 2].map(|()| env.begin_with(at(isolation)).unwrap());
        assert_eq!(jobs.consume(&mut one).unwrap(), Some((1, record(1).to_vec())));
        assert_eq!(jobs.consume(&mut other).unwrap(), Some((2, record(2).to_vec())));
        one.abort();
        assert_eq!(jobs.consume(&mut other).unwrap(), Some((1, record(1).to_vec())));
        let before = other.savepoint();
        assert_eq!(jobs.consume(&mut other).unwrap(), Some((3, record(3).to_vec())));
        assert_eq!(jobs.consume(&mut other).unwrap(), Some((4, record(4).to_vec())));
        other.rollback_to(&before).unwrap();
        assert_eq!(jobs.consume(&mut other).unwrap(), Some((3, record(3).to_vec())));
        other.commit().unwrap();
        assert_eq!(contents(&jobs, &env).into_keys().collect::<Vec<_>>(), [4]);
    }
}

#[test]
fn numbers_do_not_come_again_though_everything_was_consumed() {
    let place = Place::new("queue-numbers");
    let mut high = 0;
    for round in 0..3 {
        let env = place.open().unwrap();
        let jobs = queue(&env);
        // Its snapshot is of before, and what it takes is not.
        let mut old = env.begin_with(at(Isolation::Snapshot)).unwrap();
        jobs.len(&old).unwrap();
        for n in 0..200 {
            let number = jobs.append_one(record(n)).unwrap();
            assert_eq!(number, high + 1, "round {round}");
            high = number;
            assert_eq!(jobs.consume_one().unwrap(), Some((number, record(n).to_vec())));
        }
        // By a handle that has not seen any.
        assert_eq!(queue(&env).append(&mut old, record(7)).unwrap(), high + 1);
        old.commit().unwrap();
        high += 1;
        assert_eq!(jobs.consume_one().unwrap().map(|(number, _)| number), Some(high));
        assert_eq!((jobs.len(&env).unwrap(), jobs.estimated_len().unwrap()), (0, 0));
        // The places of records that were the last go once there is another.
        assert_eq!(jobs.database().len().unwrap(), 1);
        drop(jobs);
        env.close().unwrap();
    }
}

#[test]
fn the_last_number_is_given_once_and_none_after_it() {
    let env = Env::in_memory().unwrap();
    for isolation in ISOLATIONS {
        let jobs = Queue::open(&env, &format!("{isolation:?}"), 8).unwrap();
        // What is not committed does not count.
        let mut txn = env.begin_with(at(isolation)).unwrap();
        jobs.restore(&mut txn, u64::MAX - 1, record(0)).unwrap();
        assert_eq!(jobs.append(&mut txn, record(1)).unwrap(), u64::MAX);
        txn.abort();
        let mut txn = env.begin_with(at(isolation)).unwrap();
        assert!(jobs.append(&mut txn, record(1)).unwrap() < 1 << 63);
        jobs.restore(&mut txn, u64::MAX - 2, record(2)).unwrap();
        txn.commit().unwrap();
        let mut txn = env.begin_with(at(isolation)).unwrap();
        let numbers = [(); 2].map(|()| jobs.append(&mut txn, record(3)).unwrap());
        assert_eq!(numbers, [u64::MAX - 1, u64::MAX]);
        assert_eq!(jobs.append(&mut txn, record(4)).unwrap_err().kind(), ErrorKind::Exhausted);
        txn.commit().unwrap();
        assert_eq!(jobs.append_one(record(4)).unwrap_err().kind(), ErrorKind::Exhausted);
        let consumed: Vec<_> = (0..4).map(|_| jobs.consume_one().unwrap().unwrap().0).collect();
        assert_eq!(consumed[1..], [u64::MAX - 2, u64::MAX - 1, u64::MAX]);
        assert_eq!(jobs.consume_one().unwrap(), None);
        assert_eq!(jobs.append_one(record(4)).unwrap_err().kind(), ErrorKind::Exhausted);
    }
}

#[test]
fn records_have_one_length() {
    let env = Env::in_memory().unwrap();
    let jobs = Queue::open_padded(&env, "jobs", 4, b'.').unwrap();
    jobs.append_one("a").unwrap();
    jobs.append_one("abcd").unwrap();
    let error = jobs.append_one("abcde").unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("5 bytes"), "{error}");
    assert_eq!(jobs.get(&env, 1).unwrap().as_deref(), Some(&b"a..."[..]));
    assert_eq!((jobs.record_bytes(), jobs.pad()), (4, b'.'));
    assert_eq!(Queue::open(&env, "none", 0).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Queue::open(&env, "jobs", 4).unwrap_err().kind(), ErrorKind::Invalid, "another pad");
    let raw = env.existing_database("jobs").unwrap().unwrap();
    assert_eq!(Queue::of(raw.clone()).unwrap().peek(&env).unwrap(), Some((1, b"a...".to_vec())));
    // Longer than a page.
    let large = Queue::open(&env, "large", 20_000).unwrap();
    large.append_one(vec![7; 20_000]).unwrap();
    assert_eq!(large.consume_one().unwrap(), Some((1, vec![7; 20_000])));
    // What is no record of a queue.
    raw.insert(0u64.to_be_bytes(), "zero").unwrap();
    assert_eq!(jobs.consume_one().unwrap_err().kind(), ErrorKind::Invalid);
    raw.remove(0u64.to_be_bytes()).unwrap();
    raw.insert(1u64.to_be_bytes(), "long one").unwrap();
    assert_eq!(jobs.consume_one().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(jobs.get(&env, 1).unwrap_err().kind(), ErrorKind::Invalid);
    raw.insert("key", "value").unwrap();
    assert_eq!(jobs.append_one("b").unwrap_err().kind(), ErrorKind::Invalid);
    assert!(jobs.iter(&env).unwrap().any(|one| one.is_err()));
    let plain = env.database("plain").unwrap();
    assert!(Queue::of(plain).unwrap_err().to_string().contains("plain records"));
}

/// Longer than a page, and than the log has room for in one piece; one by one.
#[test]
fn long_records_are_appended_one_after_the_other() {
    for (bytes, log_buffer) in [(1800, 1 << 20), (40_000, 1 << 16), (17 << 20, 1 << 20)] {
        let builder = Env::builder().log_buffer_size(log_buffer).durability(Durability::NoSync);
        let env = builder.disk(Arc::new(SimDisk::new(1))).open("env").unwrap();
        let long = Queue::open(&env, "long", bytes).unwrap();
        let record = |n: u64| vec![n as u8; bytes as usize];
        (1..=4).for_each(|n| assert_eq!(long.append_one(record(n)).unwrap(), n));
        (1..=4).for_each(|n| assert_eq!(long.consume_one().unwrap(), Some((n, record(n)))));
        assert_eq!(long.consume_one().unwrap(), None);
    }
}

#[test]
fn pages_of_what_was_consumed_are_given_back() {
    let env = Env::builder().page_size(512).in_memory().unwrap();
    let jobs = queue(&env);
    let mut most = 0;
    for n in 0..40_000u64 {
        jobs.append_one(record(n)).unwrap();
        if n >= 500 {
            assert_eq!(jobs.consume_one().unwrap().unwrap().1, record(n - 500));
        }
        if n % 1000 == 999 {
            most = most.max(jobs.database().stats().unwrap().pages);
        }
    }
    // Some twenty records to a page, and what leads to them.
    assert!(most < 100, "{most} pages for 500 records");
    while jobs.consume_one().unwrap().is_some() {}
    let stats = jobs.database().stats().unwrap();
    assert!(stats.pages < 4 && stats.records == 1, "{stats:?}");
}

/// What was appended at once fills its pages, so that none has room for what is left of another.
#[test]
fn pages_of_a_full_queue_are_given_back_as_it_empties() {
    let env = Env::builder().page_size(1024).in_memory().unwrap();
    let jobs = queue(&env);
    env.write(|txn| (0..20_000).try_for_each(|n| jobs.append(txn, record(n)).map(drop))).unwrap();
    let full = jobs.database().stats().unwrap().pages;
    let before = env.counters().page_hits;
    for n in 0..19_000u64 {
        assert_eq!(jobs.consume_one().unwrap().unwrap().1, record(n));
    }
    let hits = env.counters().page_hits - before;
    assert!(hits < 19_000 * 12, "{hits} pages were looked at for 19000 records");
    let left = jobs.database().stats().unwrap().pages;
    assert!(left < full / 14, "{left} pages of {full} are left for a twentieth of the records");
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// In one transaction, which sees what it has removed for as long as it lasts.
#[test]
fn consuming_does_not_go_over_what_was_consumed() {
    let env = Env::builder().page_size(512).in_memory().unwrap();
    let jobs = queue(&env);
    let done = env.database("done").unwrap();
    env.write(|txn| (0..8000).try_for_each(|n| jobs.append(txn, record(n)).map(drop))).unwrap();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let before = env.counters().page_hits;
        let mut txn = env.begin_with(at(isolation)).unwrap();
        for n in 0..4000u64 {
            assert_eq!(jobs.consume(&mut txn).unwrap().unwrap().1, record(n));
            txn.insert(&done, record(n), "done").unwrap();
        }
        let hits = env.counters().page_hits - before;
        assert!(hits < 4000 * 40, "{hits} pages were looked at for 4000 records");
        txn.abort();
    }
}

/// Everything that is appended is consumed once, in the order of who appended it.
#[test]
fn threads_append_and_consume_and_nothing_is_lost_or_twice() {
    const EACH: u64 = 3000;
    for isolation in ISOLATIONS {
        let env = Env::in_memory().unwrap();
        let jobs = Queue::open(&env, "queue", 16).unwrap();
        let done = env.database("done").unwrap();
        let left = AtomicU32::new(3);
        thread::scope(|scope| {
            for who in 0..3u64 {
                let (env, jobs, left) = (&env, &jobs, &left);
                scope.spawn(move || {
                    let mut dice = Dice(who);
                    let mut n = 0;
                    while who == 0 && n < EACH {
                        jobs.append_one([record(who), record(n)].concat()).unwrap();
                        n += 1;
                    }
                    while n < EACH {
                        let count = (1 + dice.below(90)).min(EACH - n);
                        let mut txn = env.begin_with(at(isolation)).unwrap();
                        for next in n..n + count {
                            jobs.append(&mut txn, [record(who), record(next)].concat()).unwrap();
                        }
                        if dice.below(3) == 0 {
                            continue;
                        }
                        txn.commit().expect("nobody is in the way of who appends");
                        n += count;
                    }
                    left.fetch_sub(1, Ordering::SeqCst);
                });
            }
            for who in 0..3 {
                let (env, jobs, left, done) = (&env, &jobs, &left, &done);
                scope.spawn(move || {
                    let mut last = [const { None }; 3];
                    let by_itself = || {
                        let found = jobs.consume_one().unwrap();
                        found.inspect(|(number, job)| done.insert(job, record(*number)).unwrap())
                    };
                    let in_transaction = || {
                        let mut txn = env.begin_with(at(isolation)).unwrap();
                        let (number, job) = jobs.consume(&mut txn).unwrap()?;
                        txn.insert(done, &job, record(number)).unwrap();
                        txn.commit().expect("nobody is in the way of who consumes");
                        Some((number, job))
                    };
                    loop {
                        let is_end = left.load(Ordering::SeqCst) == 0;
                        let consumed = if who == 0 { by_itself() } else { in_transaction() };
                        let Some((_, job)) = consumed else {
                            if is_end {
                                break;
                            }
                            thread::yield_now();
                            continue;
                        };
                        let (who, n) = (job[7] as usize, job[8..].to_vec());
                        assert!(last[who].as_ref() < Some(&n), "{n:?} after {:?}", last[who]);
                        last[who] = Some(n);
                    }
                });
            }
        });
        assert!(jobs.is_empty(&env).unwrap());
        let mut numbers = BTreeSet::new();
        for (count, result) in done.range(..).unwrap().enumerate() {
            let (job, number) = result.unwrap();
            let (who, n) = (count as u64 / EACH, count as u64 % EACH);
            assert_eq!(job, [record(who), record(n)].concat());
            assert!(numbers.insert(number), "a number came twice");
        }
        assert_eq!(numbers.len() as u64, 3 * EACH);
        assert!(env.locks().is_empty());
    }
}

/// One transaction that appends very much leaves room for others, if not at once.
#[test]
fn a_large_transaction_and_small_ones_append_beside_each_other() {
    let env = Env::builder().cache_size(64 << 20).in_memory().unwrap();
    let jobs = queue(&env);
    let mut large = env.begin().unwrap();
    (0..100_000).for_each(|n| _ = jobs.append(&mut large, record(n)).unwrap());
    (0..100).for_each(|n| _ = jobs.append_one(record(1 << 32 | n)).unwrap());
    large.commit().unwrap();
    let values: Vec<_> = contents(&jobs, &env).into_values().collect();
    let (small, large): (Vec<_>, Vec<_>) = values.iter().partition(|value| value[3] == 1);
    assert!(small.iter().map(|value| &value[4..]).eq((0..100u32).map(u32::to_be_bytes).collect::<Vec<_>>()));
    assert!(large.iter().map(|value| value.to_vec()).eq((0..100_000).map(|n| record(n).to_vec())));
}

#[test]
fn who_waits_is_woken_by_what_is_appended_and_by_what_is_given_back() {
    let env = Env::in_memory().unwrap();
    let jobs = queue(&env);
    assert_eq!(jobs.consume_wait_within(Duration::ZERO).unwrap(), None);
    let (runs, is_run) = mpsc::channel();
    let waiting = || {
        env.write_when_within(PATIENCE, |txn| {
            runs.send(()).unwrap();
            jobs.consume(txn)
        })
    };
    thread::scope(|scope| {
        let waiter = scope.spawn(waiting);
        is_run.recv_timeout(PATIENCE).expect("it runs");
        thread::sleep(MOMENT);
        jobs.append_one(record(1)).unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), Some((1, record(1).to_vec())));
    });
    is_run.try_iter().count();
    jobs.append_one(record(2)).unwrap();
    let mut holder = env.begin().unwrap();
    assert_eq!(jobs.consume(&mut holder).unwrap(), Some((2, record(2).to_vec())));
    thread::scope(|scope| {
        let waiter = scope.spawn(waiting);
        is_run.recv_timeout(PATIENCE).expect("it runs");
        thread::sleep(MOMENT);
        holder.abort();
        assert_eq!(waiter.join().unwrap().unwrap(), Some((2, record(2).to_vec())));
    });
}

fn open_shared(path: &Path) -> Env {
    Env::builder().shared(true).cache_size(4 << 20).durability(Durability::Memory).open(path).unwrap()
}

/// Appends and consumes, until it is killed. What it appends it notes, in the same transaction; so it does
/// with what it consumes.
#[test]
#[ignore = "the workers of the tests below"]
fn worker() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let env = open_shared(Path::new(&path));
    let jobs = Queue::open(&env, "queue", 12).unwrap();
    let (sent, done, stop) =
        (env.database("sent").unwrap(), env.database("done").unwrap(), env.database("stop").unwrap());
    let me = std::process::id();
    let mut dice = Dice(me.into());
    thread::scope(|scope| {
        let consumer = || {
            loop {
                let taken = env.write_when(|txn| {
                    if txn.first(&stop)?.is_some() && jobs.is_empty(txn)? {
                        return Ok(Some(None));
                    }
                    let Some((number, job)) = jobs.consume(txn)? else { return Ok(None) };
                    assert!(txn.insert_new(&done, &job, record(number))?, "{number} was consumed twice");
                    Ok(Some(Some(number)))
                });
                if taken.unwrap().is_none() {
                    break;
                }
            }
        };
        scope.spawn(consumer);
        scope.spawn(consumer);
        let mut n = 0u64;
        while stop.is_empty().unwrap() {
            let count = 1 + dice.below(70);
            let keep = dice.below(4) > 0;
            let mut txn = env.begin().unwrap();
            for next in n..n + count {
                let job = [&me.to_be_bytes()[..], &record(next)].concat();
                let number = jobs.append(&mut txn, &job).unwrap();
                txn.insert(&sent, job, record(number)).unwrap();
            }
            if keep {
                txn.commit().expect("nobody is in the way of who appends");
            }
            n += if keep { count } else { 0 };
        }
    });
}

#[test]
fn processes_append_and_consume_some_are_killed_and_nothing_is_lost_or_twice() {
    let place = Place::new("queue-processes");
    let path = place.env();
    let env = open_shared(&path);
    let (sent, done, stop) =
        (env.database("sent").unwrap(), env.database("done").unwrap(), env.database("stop").unwrap());
    let jobs = Queue::open(&env, "queue", 12).unwrap();
    let mut workers: Vec<_> = (0..3).map(|_| Worker::start(worker, &path)).collect();
    let mut dice = Dice(1);
    for _ in 0..25 {
        // Killed anywhere: some time after others have done something.
        let before = env.lsn();
        let has_worked = env.write_when_within(PATIENCE, |txn| {
            Ok((txn.last(&done)?.is_some() && env.lsn() != before).then_some(()))
        });
        has_worked.unwrap().expect("they work");
        thread::sleep(Duration::from_micros(dice.below(20_000)));
        let victim = dice.below(workers.len() as u64) as usize;
        workers[victim] = Worker::start(worker, &path);
    }
    stop.insert("now", "").unwrap();
    for worker in &mut workers {
        worker.assert_ends();
    }
    while let Some((number, job)) = jobs.consume_one().unwrap() {
        assert!(done.insert_new(job, record(number)).unwrap(), "{number} was consumed twice");
    }
    let all = |database: &sablecat::Database| -> Vec<_> {
        database.range(..).unwrap().map(Result::unwrap).collect()
    };
    let (sent_all, done_all) = (all(&sent), all(&done));
    assert!(sent_all.len() > 100, "{} were sent", sent_all.len());
    assert!(sent_all == done_all, "{} were sent, {} done", sent_all.len(), done_all.len());
    let numbers: BTreeSet<_> = sent_all.iter().map(|(_, number)| number).collect();
    assert_eq!(numbers.len(), sent_all.len(), "a number came twice");
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    drop((jobs, sent, done, stop));
    env.close().unwrap();
}

/// It has all records in hand when it is killed, and somebody waits for one.
#[test]
#[ignore = "started by the test below"]
fn holder() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let env = open_shared(Path::new(&path));
    let (jobs, held) = (queue(&env), env.database("held").unwrap());
    let mut txn = env.begin().unwrap();
    while jobs.consume(&mut txn).unwrap().is_some() {}
    held.insert("all", "").unwrap();
    env.write_when(|txn| txn.get(&held, "never")).unwrap();
}

#[test]
fn what_a_killed_process_had_in_hand_is_there_for_who_waits() {
    let place = Place::new("queue-holder");
    let path = place.env();
    let env = open_shared(&path);
    let (jobs, held) = (queue(&env), env.database("held").unwrap());
    (1..=3).for_each(|n| _ = jobs.append_one(record(n)).unwrap());
    let mut child = Worker::start(holder, &path);
    env.write_when_within(PATIENCE, |txn| txn.get(&held, "all")).unwrap().expect("it holds them");
    assert_eq!(jobs.consume_one().unwrap(), None);
    thread::scope(|scope| {
        let consume = || jobs.consume_wait_within(PATIENCE).unwrap().expect("it is there again");
        let waiter = scope.spawn(move || [(); 3].map(|()| consume().0));
        thread::sleep(MOMENT);
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        // Its locks end one after the other.
        assert_eq!(BTreeSet::from(waiter.join().unwrap()), BTreeSet::from([1, 2, 3]));
    });
    assert!(jobs.is_empty(&env).unwrap());
    drop((jobs, held));
    env.close().unwrap();
}

#[test]
#[ignore = "a measurement"]
fn measure() {
    const RECORDS: u32 = 500_000;
    for durability in [Durability::Memory, Durability::NoSync] {
        let path = Path::new("/dev/shm").join(format!("sablecat-queue-measure-{}", std::process::id()));
        let env = Env::builder().cache_size(256 << 20).durability(durability).open(&path).unwrap();
        let jobs = Queue::open(&env, "queue", 32).unwrap();
        let plain = env.database("plain").unwrap();
        let timed = |what: &str, mut work: Box<dyn FnMut(u64) + '_>| {
            let begun = std::time::Instant::now();
            (0..u64::from(RECORDS)).for_each(&mut work);
            let each = begun.elapsed() / RECORDS;
            println!(
                "{durability:?}, {what}: {} ns, {:.0} a second",
                each.as_nanos(),
                1e9 / each.as_nanos() as f64
            );
        };
        timed("insert", Box::new(|n| plain.insert(record(n), [7; 32]).unwrap()));
        timed("append", Box::new(|_| _ = jobs.append_one([7; 32]).unwrap()));
        timed("consume", Box::new(|_| _ = jobs.consume_one().unwrap().unwrap()));
        timed(
            "both",
            Box::new(|_| {
                jobs.append_one([7; 32]).unwrap();
                jobs.consume_one().unwrap().unwrap();
            }),
        );
        drop((jobs, plain));
        env.close().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }
}

//! Records that expire in an environment that processes share: they set, touch and sweep, and are killed at
//! any moment.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone. Their clock is the machine's: what was set for good is there whatever it says.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::thread;
use std::time::Duration;

use sablecat::{
    Database, Durability, Env, ErrorKind, Expiring, Isolation, Lifetime, Method, Result, TxnOptions,
};
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);
const KEYS: u64 = 60;
const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn open_shared(path: &Path) -> Env {
    Env::builder()
        .shared(true)
        .cache_size(8 << 20)
        .durability(Durability::Memory)
        .sweep_interval(Duration::from_millis(1))
        .lock_timeout(Duration::from_secs(5))
        .open(path)
        .unwrap()
}

/// What a worker has: two databases whose records expire, and what was set in them for good.
struct Work {
    env: Env,
    expiring: [Expiring; 2],
    truth: [Database; 2],
    dice: Dice,
}

impl Work {
    fn begin(env: Env, seed: u64) -> Work {
        let methods = [Method::Btree, Method::Hash];
        Work {
            expiring: [0, 1].map(|n| Expiring::open_as(&env, ["ordered", "hashed"][n], methods[n]).unwrap()),
            truth: ["ordered truth", "hashed truth"].map(|name| env.database(name).unwrap()),
            dice: Dice(seed),
            env,
        }
    }

    /// Sets some records for a moment or for good, or removes some. What is for good is noted in the same
    /// transaction, and found again in the next.
    fn one(&mut self) {
        let which = self.dice.below(2) as usize;
        let (records, truth) = (&self.expiring[which], &self.truth[which]);
        let isolation = ISOLATIONS[self.dice.below(3) as usize];
        let options = TxnOptions::new().isolation(isolation);
        // A read committed one may see another state with each look.
        let is_one_state = isolation != Isolation::ReadCommitted;
        let value = self.dice.below(u64::MAX).to_be_bytes();
        let value = if self.dice.below(10) == 0 { value.repeat(1000) } else { value.to_vec() };
        let keys: Vec<_> = (0..1 + self.dice.below(3)).map(|_| self.dice.below(KEYS).to_be_bytes()).collect();
        let kind = self.dice.below(5);
        let done = match kind {
            0 | 1 => self.env.write_with(options, |txn| {
                for key in &keys {
                    // Gone now, or after some more transactions.
                    records.insert(txn, key, &value, Duration::from_millis(kind))?;
                    txn.remove(truth, key)?;
                }
                Ok(())
            }),
            2 => self.env.write_with(options, |txn| {
                for key in &keys {
                    // Whether or not there is one to be touched.
                    if txn.contains_key(truth, key)? {
                        let is_there = records.touch(txn, key, Lifetime::Unlimited)?;
                        assert!(is_there || !is_one_state, "it is there for good");
                    }
                }
                Ok(())
            }),
            3 => self.env.sweep().map(drop),
            _ => self.env.write_with(options, |txn| {
                for key in &keys {
                    records.insert(txn, key, &value, Lifetime::Unlimited)?;
                    txn.insert(truth, key, &value)?;
                }
                Ok(())
            }),
        };
        match done {
            Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Conflict) && kind == 3 => {}
            done => done.unwrap(),
        }
    }

    /// What was set for good is there, and indices agree with what they are of.
    fn check(&self) {
        let state = self.env.snapshot().unwrap();
        for (records, truth) in self.expiring.iter().zip(&self.truth) {
            for record in state.range(truth, ..).unwrap() {
                let (key, value) = record.unwrap();
                assert_eq!(records.get(&state, &key).unwrap(), Some(value), "{key:?}");
                assert_eq!(records.lifetime(&state, &key).unwrap(), Some(Lifetime::Unlimited));
            }
            assert_eq!(records.verify(&state).unwrap(), [""; 0]);
        }
    }
}

#[test]
#[ignore = "the workers of the test below"]
fn worker() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let env = open_shared(Path::new(&path));
    let stop = env.database("stop").unwrap();
    let mut work = Work::begin(env, std::process::id().into());
    while stop.is_empty().unwrap() {
        work.one();
    }
}

#[test]
fn nothing_is_lost_between_processes_that_set_touch_and_sweep_and_are_killed() {
    let place = Place::new("expiring-processes");
    let path = place.env();
    let env = open_shared(&path);
    let stop = env.database("stop").unwrap();
    let mut work = Work::begin(env.clone(), 1);
    let kills = std::env::var("SABLECAT_TEST_KILLS").map_or(60, |kills| kills.parse().unwrap());
    let mut workers: Vec<_> = (0..3).map(|_| Worker::start(worker, &path)).collect();
    for _ in 0..kills {
        let before = env.lsn();
        let has_worked = env.write_when_within(PATIENCE, |txn| {
            txn.first(&work.truth[0])?;
            Ok((env.lsn() != before).then_some(()))
        });
        has_worked.unwrap().expect("they work");
        thread::sleep(Duration::from_micros(work.dice.below(30_000)));
        work.check();
        let victim = work.dice.below(workers.len() as u64) as usize;
        workers[victim].assert_works();
        workers[victim] = Worker::start(worker, &path);
    }
    stop.insert("now", "").unwrap();
    for worker in &mut workers {
        worker.assert_ends();
    }
    work.check();
    let swept: Result<u64> = env.sweep();
    swept.unwrap();
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    drop((work, stop));
    env.close().unwrap();
    let env = open_shared(&path);
    Work::begin(env.clone(), 1).check();
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

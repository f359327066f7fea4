//! Temporary databases in an environment that processes share: these are killed at any moment, and nothing
//! is lost of what they have committed for as long as one is left.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::thread;
use std::time::Duration;

use sablecat::{
    Database, DatabaseOptions, Durability, Env, Index, IndexOptions, Isolation, Method, TxnOptions,
};
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: u64 = 400;
const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

fn open_shared(path: &Path) -> Env {
    Env::builder()
        .shared(true)
        .page_size(1024)
        .cache_size(1 << 19)
        .durability(Durability::Memory)
        .lock_timeout(Duration::from_secs(5))
        .extractor("value", |_, value, keys| keys.push(&value[..8]))
        .open(path)
        .unwrap()
}

/// Two temporary databases, of which the first has an index, and a durable one that has the same records.
struct Work {
    env: Env,
    temporary: [Database; 2],
    by_value: Index,
    durable: Database,
    dice: Dice,
}

impl Work {
    fn begin(env: Env, seed: u64) -> Work {
        let methods = [Method::Btree, Method::Hash];
        let temporary = [0, 1].map(|n| {
            let options = DatabaseOptions::new().temporary(true).method(methods[n]);
            env.database_with(["ordered", "hashed"][n], options).unwrap()
        });
        let by_value = env.index("by value", &temporary[0], IndexOptions::new("value")).unwrap();
        Work { durable: env.database("durable").unwrap(), temporary, by_value, dice: Dice(seed), env }
    }

    /// Changes the same records everywhere, some of which are long, or very many.
    fn one(&mut self) {
        let options = TxnOptions::new().isolation(ISOLATIONS[self.dice.below(3) as usize]);
        let many = [1, 4, 4, 4, 300][self.dice.below(5) as usize];
        let len = [8, 8, 40, 40, 5000][self.dice.below(5) as usize];
        let value = self.dice.below(u64::MAX).to_be_bytes().repeat(if many > 4 { 1 } else { len / 8 });
        let keys: Vec<_> = (0..many).map(|_| self.dice.below(KEYS).to_be_bytes()).collect();
        let is_removed = self.dice.below(4) == 0;
        let all = [&self.temporary[0], &self.durable, &self.temporary[1]];
        let done = self.env.write_with(options, |txn| {
            for key in &keys {
                // Whatever the isolation, none of them is somebody else's meanwhile.
                txn.get_for_update(all[0], key)?;
            }
            for database in all {
                for key in &keys {
                    if is_removed {
                        txn.remove(database, key)?;
                    } else {
                        txn.insert(database, key, &value)?;
                    }
                }
            }
            Ok(())
        });
        done.unwrap();
    }

    /// All have the same.
    fn check(&self) -> usize {
        let state = self.env.snapshot().unwrap();
        let all = |database: &Database| {
            let mut all: Vec<_> = state.range(database, ..).unwrap().map(|record| record.unwrap()).collect();
            all.sort_unstable();
            all
        };
        let durable = all(&self.durable);
        for database in &self.temporary {
            assert!(all(database) == durable, "{}", database.name());
        }
        assert_eq!(self.by_value.range(&state, ..).unwrap().count(), durable.len());
        assert_eq!(self.by_value.verify(&state).unwrap(), [""; 0]);
        durable.len()
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
fn nothing_is_lost_while_one_of_many_processes_that_are_killed_is_left() {
    let place = Place::new("temporary-processes");
    let path = place.env();
    let env = open_shared(&path);
    let stop = env.database("stop").unwrap();
    let mut work = Work::begin(env.clone(), 1);
    let kills = std::env::var("SABLECAT_TEST_KILLS").map_or(15, |kills| kills.parse().unwrap());
    let mut workers: Vec<_> = (0..2).map(|_| Worker::start(worker, &path)).collect();
    for n in 0..kills {
        let before = env.lsn();
        let has_worked = env.write_when_within(PATIENCE, |txn| {
            txn.first(&work.durable)?;
            Ok((env.lsn() != before).then_some(()))
        });
        has_worked.unwrap().expect("they work");
        if n % 4 == 0 {
            env.checkpoint().unwrap();
        }
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
    assert!(work.check() > 0);
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    drop((work, stop));
    env.close().unwrap();
    let env = open_shared(&path);
    let work = Work::begin(env.clone(), 1);
    assert!(!work.durable.is_empty().unwrap());
    assert!(work.temporary.iter().all(|database| database.is_empty().unwrap()));
    assert!(work.by_value.range(&env, ..).unwrap().next().is_none());
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// All are killed at once: the shared memory is gone, with what was in it alone.
#[test]
fn they_are_empty_after_all_processes_were_killed() {
    let place = Place::new("temporary-all-killed");
    let env = place.open().unwrap();
    let temporary = env.database_with("temporary", DatabaseOptions::new().temporary(true)).unwrap();
    let durable = env.database("durable").unwrap();
    for n in 0..300u32 {
        env.write(|txn| {
            txn.insert(&temporary, n.to_be_bytes(), [7; 100])?;
            txn.insert(&durable, n.to_be_bytes(), [7; 100])
        })
        .unwrap();
        if n == 200 {
            env.checkpoint().unwrap();
        }
    }
    let joined = place.open().unwrap();
    assert_eq!(joined.database("temporary").unwrap().len().unwrap(), 300, "it is there for who comes");
    let left = place.killed("temporary-all-killed-left");
    for open in [Place::open, Place::open_alone] {
        let env = open(&left).unwrap();
        assert_eq!(env.database("durable").unwrap().len().unwrap(), 300);
        let temporary = env.database("temporary").unwrap();
        assert!(temporary.is_temporary() && temporary.is_empty().unwrap());
        temporary.insert("k", "v").unwrap();
        assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
        drop(temporary);
        env.close().unwrap();
    }
}

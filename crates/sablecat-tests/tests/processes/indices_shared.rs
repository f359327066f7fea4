//! Indices that processes make, rename and remove while others write to what they are of, by handles from
//! before: some are killed, some stopped, at any moment.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::thread;
use std::time::Duration;

use sablecat::{
    Database, Durability, Env, Error, ErrorKind, Index, IndexOptions, Isolation, Method, Numbered, OnRemove,
    Queue, Txn, TxnOptions,
};
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker, unless};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);
/// Records that are there all the time, so that it takes a while to make an index of them.
const RECORDS: u64 = 2000;
const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
/// The databases whose indices come and go.
const PRIMARIES: [&str; 5] = ["records", "table", "queue", "lines", "loaded"];

fn open_shared(path: &Path) -> Env {
    Env::builder()
        .shared(true)
        .cache_size(8 << 20)
        .durability(Durability::Memory)
        .lock_timeout(Duration::from_secs(1))
        .extractor("bytes", |_, value, keys| value.iter().take(3).for_each(|&byte| keys.push([byte])))
        .extractor("whole", |_, value, keys| keys.push(value))
        .open(path)
        .unwrap()
}

fn at(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}

struct Work {
    env: Env,
    records: Database,
    table: Database,
    loaded: Database,
    queue: Queue,
    lines: Numbered,
    people: Database,
    orders: Database,
    dice: Dice,
}

impl Work {
    fn begin(env: Env, seed: u64) -> Work {
        let plain = |name| env.database(name).unwrap();
        Work {
            records: plain("records"),
            table: env.database_as("table", Method::Hash).unwrap(),
            loaded: plain("loaded"),
            queue: Queue::open(&env, "queue", 4).unwrap(),
            lines: Numbered::open(&env, "lines").unwrap(),
            people: plain("people"),
            orders: plain("orders"),
            dice: Dice(seed),
            env,
        }
    }

    fn key(&mut self) -> [u8; 8] {
        self.dice.below(RECORDS).to_be_bytes()
    }

    fn value(&mut self) -> [u8; 4] {
        (self.dice.below(1 << 32) as u32).to_be_bytes().map(|byte| byte % 7)
    }

    fn isolation(&mut self) -> TxnOptions {
        at(ISOLATIONS[self.dice.below(3) as usize])
    }

    fn one(&mut self) {
        let (key, other, value) = (self.key(), self.key(), self.value());
        let options = self.isolation();
        let some = if self.dice.below(2) == 0 { self.records.clone() } else { self.table.clone() };
        match self.dice.below(14) {
            0 => unless(&[], some.insert(key, value)),
            1 => unless(&[], some.take(key)),
            2 => unless(&[], some.replace(key, value)),
            3 => {
                let work = |txn: &mut Txn<'_>| {
                    txn.insert(&some, key, value)?;
                    let undone = txn.nested(|txn| {
                        txn.insert(&some, other, value)?;
                        txn.remove(&some, key)?;
                        Err::<(), _>(txn.rename_database("", "none").expect_err("no name"))
                    });
                    assert!(undone.is_err());
                    txn.remove(&some, other).map(drop)
                };
                unless(&[], self.env.write_with(options, work));
            }
            4 => unless(&[], self.records.remove_range(key..(u64::from_be_bytes(key) + 20).to_be_bytes())),
            5 => {
                let batch: Vec<_> = (0..40).map(|_| (self.key(), value)).collect();
                unless(&[ErrorKind::Conflict], self.records.insert_batch(batch));
            }
            6 => {
                let work = |txn: &mut Txn<'_>| {
                    (0..3).try_for_each(|_| self.queue.append(txn, value).map(drop))?;
                    self.lines.append(txn, value).map(drop)
                };
                unless(&[], self.env.write_with(options, work));
            }
            7 => {
                let work = |txn: &mut Txn<'_>| {
                    (0..3).try_for_each(|_| self.queue.consume(txn).map(drop))?;
                    let last = self.lines.last_number(txn)?;
                    self.lines.remove(txn, last).map(drop)
                };
                unless(&[], self.env.write_with(options, work));
            }
            8 => {
                unless(&[], self.loaded.clear());
                let load = (0..500u32).map(|n| (n.to_be_bytes(), value));
                unless(&[ErrorKind::Conflict, ErrorKind::Invalid], self.loaded.bulk_load(load));
            }
            9 => unless(&[], self.people.insert(&value[..1], "")),
            10 => {
                unless(&[], self.env.write_with(options, |txn| txn.remove(&self.people, &value[..1])));
            }
            11 => {
                let done = self.env.write_with(options, |txn| txn.insert(&self.orders, key, &value[..2]));
                unless(&[ErrorKind::Reference], done);
            }
            _ => self.arrange(),
        }
    }

    /// Makes, renames or removes an index.
    fn arrange(&mut self) {
        let names = ["index 1", "index 2", "index 3"];
        let name = names[self.dice.below(3) as usize];
        match self.dice.below(4) {
            0 => unless(&[ErrorKind::NotFound, ErrorKind::Exists], self.env.rename_database(name, names[0])),
            1 => unless(&[], self.env.remove_database(name)),
            _ => {
                let of = self.env.existing_database(PRIMARIES[self.dice.below(5) as usize]).unwrap().unwrap();
                let extractor = ["bytes", "whole"][self.dice.below(2) as usize];
                // There may be another of that name.
                unless(
                    &[ErrorKind::Invalid, ErrorKind::Exists],
                    self.env.index(name, &of, IndexOptions::new(extractor)),
                );
            }
        }
    }
}

#[test]
#[ignore = "the workers of the tests below"]
fn worker() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let env = open_shared(Path::new(&path));
    let stop = env.database("stop").unwrap();
    let mut work = Work::begin(env, std::process::id().into());
    while stop.is_empty().unwrap() {
        work.one();
    }
}

/// All indices that there are agree with what they are of, and references lead somewhere.
fn sound(env: &Env) -> usize {
    let read = env.snapshot().unwrap();
    let mut count = 0;
    for name in sablecat::Read::databases(&read).unwrap() {
        match Index::existing(&read, &name) {
            Ok(index) => {
                let index = index.unwrap();
                assert_eq!(index.verify(&read).unwrap(), [""; 0], "{name} of {}", index.info().primary);
                count += 1;
            }
            Err(error) => assert_eq!(Error::kind(&error), ErrorKind::Invalid, "{name}: {error}"),
        }
    }
    let people = env.database("people").unwrap();
    for order in read.range(&env.database("orders").unwrap(), ..).unwrap() {
        let (key, people_of) = order.unwrap();
        for person in people_of {
            assert!(read.contains_key(&people, [person]).unwrap(), "of {key:?}, {person}");
        }
    }
    count
}

#[test]
fn processes_make_indices_while_others_write_and_some_are_killed() {
    let place = Place::new("indices-processes");
    let path = place.env();
    let env = open_shared(&path);
    let (stop, aside) = (env.database("stop").unwrap(), env.database("aside").unwrap());
    let mut work = Work::begin(env.clone(), 1);
    for n in 0..RECORDS {
        let value = work.value();
        work.records.insert(n.to_be_bytes(), value).unwrap();
        work.table.insert(n.to_be_bytes(), value).unwrap();
    }
    let options = IndexOptions::new("bytes").references(&work.people, OnRemove::Cascade);
    env.index("by person", &work.orders, options).unwrap();
    let kills = std::env::var("SABLECAT_TEST_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let mut workers: Vec<_> = (0..4).map(|_| Worker::start(worker, &path)).collect();
    let mut seen = 0;
    for _ in 0..kills {
        // Killed or stopped anywhere: some time after others have done something.
        let before = env.lsn();
        let has_worked = env.write_when_within(PATIENCE, |txn| {
            txn.first(&work.records)?;
            Ok((env.lsn() != before).then_some(()))
        });
        has_worked.unwrap().expect("they work");
        thread::sleep(Duration::from_micros(work.dice.below(30_000)));
        seen += sound(&env);
        let victim = work.dice.below(workers.len() as u64) as usize;
        if work.dice.below(3) == 0 {
            workers[victim].stopped_beside(&env, || {
                unless(&[], aside.insert("key", "value"));
                env.checkpoint().unwrap();
            });
        } else {
            workers[victim].assert_works();
            workers[victim] = Worker::start(worker, &path);
        }
    }
    stop.insert("now", "").unwrap();
    for worker in &mut workers {
        worker.assert_ends();
    }
    seen += sound(&env);
    assert!(seen > usize::try_from(kills).unwrap(), "{seen} indices were looked at");
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, [""; 0]);
    drop((work, stop, aside));
    env.close().unwrap();
    let env = open_shared(&path);
    sound(&env);
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

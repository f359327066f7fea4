//! Databases of all methods that processes make, load, exchange and remove beside others that walk through
//! them, wait for them and follow them: some are killed, some stopped, at any moment.
//!
//! What one transaction or bulk load does is there as a whole or not at all, in any state: that is what is
//! looked at, beside `verify`.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

use sablecat::{
    Changes, Database, Durability, Env, ErrorKind, Follower, Isolation, Method, Numbered, Queue, ReadTxn,
    Result, Txn, TxnOptions,
};
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker, unless};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);
const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
const METHODS: [Method; 3] = [Method::Btree, Method::Hash, Method::Counted];
/// Databases that have all of these records, with one value, or none.
const WHOLE: [&str; 3] = ["whole 0", "whole 1", "whole 2"];
const RECORDS: u32 = 400;
/// Databases that pass their names round; each says which it was at first.
const PASSED: [&str; 4] = ["passed 0", "passed 1", "passed 2", "passed 3"];
/// Databases that are made and removed beside handles of those before them; each record says of which it is.
const SCRAPS: [&str; 3] = ["scrap 0", "scrap 1", "scrap 2"];

/// A key and its value.
type Record = (Vec<u8>, Vec<u8>);

fn open_shared(path: &Path) -> Env {
    Env::builder()
        .shared(true)
        .cache_size(6 << 20)
        .durability(Durability::Memory)
        .lock_timeout(Duration::from_secs(1))
        .open(path)
        .unwrap()
}

/// A key of a database that is whole: some are too long for a leaf.
fn key(n: u32) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    if n.is_multiple_of(50) {
        key.resize(700, b'k');
    }
    key
}

struct Work {
    env: Env,
    queue: Queue,
    lines: Numbered,
    /// What was consumed, and how often.
    consumed: Database,
    /// Handles of scraps, with what these were then; most are gone by now.
    old: Vec<(Database, Vec<u8>)>,
    dice: Dice,
}

impl Work {
    fn begin(env: Env, seed: u64) -> Work {
        Work {
            queue: Queue::open(&env, "queue", 8).unwrap(),
            lines: Numbered::open_renumbered(&env, "lines").unwrap(),
            consumed: env.database("consumed").unwrap(),
            old: Vec::new(),
            dice: Dice(seed),
            env,
        }
    }

    fn isolation(&mut self) -> TxnOptions {
        TxnOptions::new().isolation(self.dice.of(&ISOLATIONS))
    }

    fn one(&mut self) {
        match self.dice.below(20) {
            0 | 1 => self.make_anew(),
            2 => self.load(),
            3 | 4 => self.change_whole(),
            5 | 6 => self.pass_names(),
            7 => self.make_scrap(),
            8..11 => self.write_to_old(),
            11 | 12 => self.append(),
            13 | 14 => self.consume(),
            15 => self.walk(),
            16 | 17 => self.insert_line(),
            18 => self.wait(),
            _ => match self.dice.below(8) {
                0 => unless(&[], self.env.compact()),
                1 => unless(&[], self.env.checkpoint()),
                _ => {}
            },
        }
    }

    /// A database that is whole gives its name to another, of any method, in one transaction.
    fn make_anew(&mut self) {
        let (name, method, value) =
            (self.dice.of(&WHOLE), self.dice.of(&METHODS), self.dice.below(256) as u8);
        let options = self.isolation();
        let made = self.env.write_with(options, |txn| {
            txn.remove_database(name)?;
            let new = txn.database_as(name, method)?;
            let before = txn.savepoint();
            (0..9).try_for_each(|n| txn.insert(&new, key(n), "undone"))?;
            txn.rollback_to(&before)?;
            (0..RECORDS).try_for_each(|n| txn.insert(&new, key(n), [value; 40]))
        });
        unless(&[], made);
    }

    /// A database that is whole is emptied, and loaded.
    fn load(&mut self) {
        let (name, value) = (self.dice.of(&WHOLE), self.dice.below(256) as u8);
        let Some(database) = self.env.existing_database(name).unwrap() else { return };
        unless(&[ErrorKind::NotFound], database.clear());
        let mut keys: Vec<Vec<u8>> = (0..RECORDS).map(key).collect();
        keys.sort();
        // Others may have loaded it, or removed it.
        let kinds = [ErrorKind::NotFound, ErrorKind::Conflict, ErrorKind::Invalid, ErrorKind::SnapshotTooOld];
        unless(&kinds, database.bulk_load(keys.into_iter().map(|key| (key, [value; 40]))));
    }

    /// One that is whole gets another value, or loses all of its records, in one transaction.
    fn change_whole(&mut self) {
        let (name, value, how) = (self.dice.of(&WHOLE), self.dice.below(256) as u8, self.dice.below(3));
        // What is read is to be as it was: two that half empty it would leave nothing whole.
        let options = TxnOptions::new().isolation(Isolation::Serializable);
        let changed = self.env.write_with(options, |txn| {
            let Some(database) = txn.existing_database(name)? else { return Ok(()) };
            match how {
                0 => (0..RECORDS).try_for_each(|n| txn.insert(&database, key(n), [value; 40])),
                1 if database.method() != Method::Hash => {
                    txn.remove_range(&database, ..key(100))?;
                    txn.remove_range(&database, key(100)..).map(drop)
                }
                _ => (0..RECORDS).try_for_each(|n| txn.remove(&database, key(n)).map(drop)),
            }
        });
        unless(&[], changed);
    }

    /// Databases exchange their names, two of them or all.
    fn pass_names(&mut self) {
        let (from, count) = (self.dice.below(4) as usize, 2 + self.dice.below(3) as usize);
        let names: Vec<&str> = (0..count).map(|n| PASSED[(from + n) % PASSED.len()]).collect();
        let between = format!("between {}", std::process::id());
        let options = self.isolation();
        let passed = self.env.write_with(options, |txn| {
            txn.rename_database(names[0], &between)?;
            for pair in names.windows(2) {
                txn.rename_database(pair[1], pair[0])?;
            }
            txn.rename_database(&between, names[count - 1])
        });
        unless(&[], passed);
    }

    fn make_scrap(&mut self) {
        let (name, method) = (self.dice.of(&SCRAPS), self.dice.of(&METHODS));
        let id = (u64::from(std::process::id()) << 32 | self.dice.below(1 << 32)).to_be_bytes().to_vec();
        let options = self.isolation();
        let made = self.env.write_with(options, |txn| {
            txn.remove_database(name)?;
            let new = txn.database_as(name, method)?;
            txn.insert(&new, "id", &id)?;
            Ok(new)
        });
        if let Ok(new) = &made {
            self.old.push((new.clone(), id));
        }
        unless(&[], made);
        if self.old.len() > 20 {
            self.old.remove(0);
        }
    }

    /// Through a handle that may be of a database removed long ago.
    fn write_to_old(&mut self) {
        if self.dice.below(3) == 0 {
            let name = self.dice.of(&SCRAPS);
            let found = self.env.write(|txn| {
                let Some(scrap) = txn.existing_database(name)? else { return Ok(None) };
                Ok(txn.get(&scrap, "id")?.map(|id| (scrap, id)))
            });
            if let Ok(Some(found)) = &found {
                self.old.push(found.clone());
            }
            unless(&[], found);
        }
        if self.old.is_empty() {
            return;
        }
        let (scrap, id) = self.old[self.dice.below(self.old.len() as u64) as usize].clone();
        let n = self.dice.below(500).to_be_bytes();
        let options = self.isolation();
        let gone = [ErrorKind::NotFound];
        match self.dice.below(6) {
            0 => unless(&gone, scrap.insert(n, &id)),
            1 => unless(&gone, scrap.remove(n)),
            2 => unless(&gone, self.env.write_with(options, |txn| txn.insert(&scrap, n, &id))),
            3 => {
                let many = (0..60u64).map(|more| ((more * 7).to_be_bytes(), &id));
                unless(&[ErrorKind::NotFound, ErrorKind::Conflict], scrap.insert_batch(many));
            }
            4 => unless(&gone, scrap.replace(n, &id)),
            // In the order of hashes what says which it is may be anywhere.
            _ if scrap.method() == Method::Hash => unless(&gone, scrap.take(n)),
            _ => unless(&gone, scrap.remove_range(n..500u64.to_be_bytes())),
        }
    }

    fn append(&mut self) {
        let record = self.dice.below(u64::MAX).to_be_bytes();
        if self.dice.below(2) == 0 {
            return unless(&[], self.queue.append_one(record));
        }
        let options = self.isolation();
        unless(
            &[],
            self.env
                .write_with(options, |txn| (0..5).try_for_each(|_| self.queue.append(txn, record).map(drop))),
        );
    }

    /// No record comes twice.
    fn consume(&mut self) {
        let options = self.isolation();
        let consumed = self.env.write_with(options, |txn| {
            for _ in 0..3 {
                let Some((number, _)) = self.queue.consume(txn)? else { break };
                assert_eq!(txn.get(&self.consumed, number.to_be_bytes())?, None, "{number} comes twice");
                txn.insert(&self.consumed, number.to_be_bytes(), "")?;
            }
            Ok(())
        });
        unless(&[], consumed);
    }

    /// In one state, while others take the names away.
    fn walk(&mut self) {
        let state = self.env.snapshot().unwrap();
        if let Err(error) = look(&state) {
            assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
        }
    }

    fn insert_line(&mut self) {
        let options = self.isolation();
        let (number, removes) = (self.dice.below(4), self.dice.below(3) == 0);
        let done = self.env.write_with(options, |txn| {
            let len = self.lines.len(txn)?;
            if removes && len > 100 {
                return self.lines.remove(txn, 1 + number).map(drop);
            }
            self.lines.insert(txn, 1 + number.min(len), [7; 30])
        });
        // Read committed: there may be fewer than there were.
        unless(&[ErrorKind::Invalid], done);
    }

    /// Until a name stands for another database.
    fn wait(&mut self) {
        let name = self.dice.of(&SCRAPS);
        let mut before = None;
        let waited = self.env.write_when_within(Duration::from_millis(20), |txn| {
            let now = match txn.existing_database(name)? {
                Some(scrap) => txn.get(&scrap, "id")?,
                None => None,
            };
            let is_other = before.as_ref().is_some_and(|before| *before != now);
            before = Some(now);
            Ok(is_other.then_some(()))
        });
        unless(&[], waited);
    }
}

/// Looks whether everything is whole.
fn look(state: &ReadTxn) -> Result<()> {
    let mut passed = BTreeSet::new();
    for name in state.databases()? {
        let database = state.existing_database(&name)?.unwrap();
        let mut records = BTreeMap::new();
        for record in state.range(&database, ..)? {
            let (key, value) = record?;
            assert_eq!(records.insert(key, value), None, "a key of {name} comes twice");
        }
        if database.method() == Method::Counted {
            assert_eq!(state.len(&database)?, records.len() as u64, "{name}");
            for n in (0..records.len()).step_by(37) {
                let (key, value) = state.nth(&database, n as u64)?.unwrap();
                assert_eq!(records.iter().nth(n), Some((&key, &value)), "{name}");
                assert_eq!(state.rank(&database, &key)?, n as u64, "{name}");
            }
        }
        if WHOLE.contains(&&*name) {
            assert!(records.is_empty() || records.len() == RECORDS as usize, "{} of {name}", records.len());
            let values: BTreeSet<_> = records.values().collect();
            assert!(values.len() <= 1, "{name} has {values:?}");
            assert!(
                records.keys().all(|found| *found == key(u32::from_be_bytes(*found.first_chunk().unwrap())))
            );
        } else if PASSED.contains(&&*name) {
            assert_eq!(records.len(), 1, "{name}");
            assert!(passed.insert(records[&b"id"[..]].clone()), "{name}");
        } else if SCRAPS.contains(&&*name) {
            let id = &records[&b"id"[..]];
            assert!(records.values().all(|value| value == id), "{name} has records of another");
        } else {
            assert!(!name.starts_with("between"), "{name}");
        }
    }
    assert_eq!(passed.len(), PASSED.len());
    Ok(())
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

/// Looks at a state until one is to be had for long enough.
fn looked(env: &Env) {
    loop {
        match look(&env.snapshot().unwrap()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}"),
            Ok(()) => return,
        }
    }
}

/// All that there is, but what followers note.
fn contents(env: &Env) -> BTreeMap<String, Vec<Record>> {
    let state = env.snapshot().unwrap();
    let names = state.databases().unwrap().into_iter().filter(|name| name != "sablecat.followed");
    let of = |name: &str| {
        let database = state.existing_database(name).unwrap().unwrap();
        let mut all: Vec<_> = state.range(&database, ..).unwrap().map(Result::unwrap).collect();
        // Those of a hash table are in another order in a copy.
        all.sort();
        all
    };
    names.map(|name| (name.clone(), of(&name))).collect()
}

fn follow(changes: &mut Changes, follower: &Follower) {
    while let Some(commit) = changes.try_next().unwrap() {
        follower.apply(&commit).unwrap();
    }
}

#[test]
fn processes_make_load_and_exchange_databases_while_some_are_killed_or_stopped() {
    let place = Place::new("names-processes");
    let path = place.env();
    let env = open_shared(&path);
    let (stop, aside) = (env.database("stop").unwrap(), env.database("aside").unwrap());
    let mut work = Work::begin(env.clone(), 1);
    for name in PASSED {
        env.database(name).unwrap().insert("id", name).unwrap();
    }
    for name in SCRAPS {
        env.database(name).unwrap().insert("id", "first").unwrap();
    }
    let copy = Env::builder().durability(Durability::Memory).open(place.base.join("copy")).unwrap();
    let follower = Follower::new(&copy, "origin").unwrap();
    let mut changes = follower.copy(&env, &mut |_| {}).unwrap();
    let kills = std::env::var("SABLECAT_TEST_KILLS").map_or(8, |kills| kills.parse().unwrap());
    let mut workers: Vec<_> = (0..4).map(|_| Worker::start(worker, &path)).collect();
    for _ in 0..kills {
        // Killed or stopped anywhere: some time after others have done something.
        let before = env.lsn();
        let has_worked = env.write_when_within(PATIENCE, |txn: &mut Txn<'_>| {
            txn.first(&work.consumed)?;
            txn.databases()?;
            Ok((env.lsn() != before).then_some(()))
        });
        has_worked.unwrap().expect("they work");
        thread::sleep(Duration::from_micros(work.dice.below(30_000)));
        looked(&env);
        follow(&mut changes, &follower);
        let victim = work.dice.below(workers.len() as u64) as usize;
        if work.dice.below(3) == 0 {
            workers[victim].stopped_beside(&env, || {
                unless(&[], aside.insert("key", "value"));
                env.checkpoint().unwrap();
                looked(&env);
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
    looked(&env);
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    env.sync().unwrap();
    follow(&mut changes, &follower);
    assert_eq!(contents(&copy), contents(&env));
    assert_eq!(copy.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    drop((work, stop, aside, changes, follower));
    copy.close().unwrap();
    env.close().unwrap();
    let env = open_shared(&path);
    looked(&env);
    // What the killed had in hand is given back.
    env.compact().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
}

//! Processes that sweep what has expired, load in bulk, split and join buckets of hash tables, compact and
//! remove ranges, and are stopped and killed at any moment: others commit to other databases meanwhile, read
//! the same ones, and make checkpoints.
//!
//! What a worker has done is there as a whole or not at all, in any state: each transaction that moves a
//! *window* of records says so in the same commit, and so is held against what there is.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs one
//! of [`sweeper`], [`loader`], [`splitter`], [`compacter`] and [`remover`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use sablecat::{Database, Durability, Env, ErrorKind, Expiring, Lifetime, Method, ReadTxn, Result, Txn};
use sablecat_os::check::signal;
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker, patiently, test_name, unless};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of log, more than others write beside anything that ends.
const LOGGED_MAX: u64 = 4 << 30;
const METHODS: [Method; 3] = [Method::Btree, Method::Hash, Method::Counted];

fn open_shared(path: &Path) -> Env {
    Env::builder()
        .shared(true)
        // Enough for all there is: who is stopped as it reads a page in keeps others from that page.
        .cache_size(32 << 20)
        .durability(Durability::Memory)
        .sweep_interval(Duration::from_millis(1))
        .lock_timeout(Duration::from_secs(1))
        .open(path)
        .unwrap()
}

/// The key of a record: some are too long for a page.
fn key(n: u64) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    if n.is_multiple_of(61) {
        key.resize(700, b'k');
    }
    key
}

/// Its value: some have pages of their own.
fn value(n: u64, of: u8) -> Vec<u8> {
    vec![of; if n.is_multiple_of(97) { 9000 } else { 20 + (n % 30) as usize }]
}

/// Records with numbers in a row, all with one value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    from: u64,
    to: u64,
    of: u8,
}

impl Window {
    fn bytes(self) -> Vec<u8> {
        [&self.from.to_be_bytes()[..], &self.to.to_be_bytes(), &[self.of]].concat()
    }

    fn read(bytes: &[u8]) -> Window {
        let number = |at: usize| u64::from_be_bytes(*bytes[at..].first_chunk().unwrap());
        Window { from: number(0), to: number(8), of: bytes[16] }
    }

    /// Looks whether a database has these records and no others.
    fn look(self, state: &ReadTxn, database: &Database) -> Result<()> {
        let mut count = 0;
        for record in state.range(database, ..)? {
            let (found, bytes) = record?;
            let n = u64::from_be_bytes(*found.first_chunk().unwrap());
            let name = database.name();
            assert!((self.from..self.to).contains(&n), "{n} is in {name}, not within {self:?}");
            assert!(found == key(n) && bytes == value(n, self.of), "{n} in {name} is not of {self:?}");
            count += 1;
        }
        assert_eq!(count, self.to - self.from, "of {self:?} in {}", database.name());
        if database.method() == Method::Counted {
            assert_eq!(state.len(database)?, count);
        }
        for n in (self.from..self.to).step_by(41) {
            assert!(state.contains_key(database, key(n))?, "{n} is not found in {}", database.name());
        }
        Ok(())
    }
}

/// What a process has of it all.
struct Work {
    env: Env,
    /// Databases of each method of which the records are as `windows` says.
    moved: Vec<Database>,
    /// By the name of a database that is moved.
    windows: Database,
    /// Databases of each method that are empty, or loaded with [`LOADED`] records of one value.
    loaded: Vec<Database>,
    expiring: Expiring,
    /// What was set in `expiring` for good.
    truth: Database,
    /// What nobody but the parent writes to.
    aside: Database,
    stop: Database,
    dice: Dice,
}

const LOADED: u64 = 3000;

impl Work {
    fn begin(env: Env, seed: u64) -> Work {
        let each = |name: &str| {
            let made = METHODS.iter().map(|&method| env.database_as(&format!("{name} {method:?}"), method));
            made.collect::<Result<_>>().unwrap()
        };
        Work {
            moved: each("moved"),
            windows: env.database("windows").unwrap(),
            loaded: each("loaded"),
            expiring: Expiring::open(&env, "expiring").unwrap(),
            truth: env.database("truth").unwrap(),
            aside: env.database("aside").unwrap(),
            stop: env.database("stop").unwrap(),
            dice: Dice(seed),
            env,
        }
    }

    /// What a worker does, again and again until it is told to end.
    fn run(mut one: impl FnMut(&mut Work)) {
        let Some(path) = std::env::var_os(DIRECTORY) else { return };
        let mut work = Work::begin(open_shared(Path::new(&path)), std::process::id().into());
        while work.stop.is_empty().unwrap() {
            one(&mut work);
        }
    }

    /// Sets some for no time and some for good, or ends some, and sweeps.
    fn sweep(&mut self) {
        let first = self.dice.below(400);
        let kind = self.dice.below(3);
        let set = self.env.write(|txn| {
            for n in first..first + 150 {
                if n % 3 == kind {
                    self.expiring.insert(txn, key(n), value(n, 1), Lifetime::Unlimited)?;
                    txn.insert(&self.truth, key(n), "")?;
                } else {
                    self.expiring.insert(txn, key(n), value(n, 2), Duration::ZERO)?;
                    txn.remove(&self.truth, key(n))?;
                }
            }
            Ok(())
        });
        unless(&[], set);
        unless(&[ErrorKind::Conflict], self.env.sweep());
    }

    /// Loads a database, and empties it at once or when it is its turn again.
    fn load(&mut self) {
        let (which, of) = (self.dice.below(3) as usize, self.dice.below(256) as u8);
        let database = &self.loaded[which];
        let records = (0..LOADED).map(|n| (key(n), value(n, of)));
        // Others load it as well.
        unless(&[ErrorKind::Conflict, ErrorKind::Invalid], database.bulk_load(records));
        unless(&[], database.clear());
    }

    /// Moves the window of a database: grows it at its end, shrinks it from its beginning, or begins it anew.
    fn shift(&mut self, which: usize, most: u64) {
        let database = &self.moved[which];
        let (by, how, anew) = (1 + self.dice.below(most), self.dice.below(4), self.dice.below(256) as u8);
        let shifted = self.env.write(|txn| {
            let was = txn.get(&self.windows, database.name())?;
            let was = was.map_or(Window { from: 0, to: 0, of: 0 }, |bytes| Window::read(&bytes));
            let mut is = was;
            let len = was.to - was.from;
            if how == 0 && len > 0 {
                // All of them, by pages, and others in their place.
                txn.clear(database)?;
                is = Window { from: was.to, to: was.to + by, of: anew };
                (is.from..is.to).try_for_each(|n| txn.insert(database, key(n), value(n, is.of)))?;
            } else if len > most || how == 1 {
                is.from += by.min(len);
                if database.method() == Method::Hash {
                    (was.from..is.from).try_for_each(|n| txn.remove(database, key(n)).map(drop))?;
                } else {
                    // A key too long for a page stands behind the number alone.
                    txn.remove_range(database, was.from.to_be_bytes()..is.from.to_be_bytes())?;
                }
            } else {
                is.to += by;
                (was.to..is.to).try_for_each(|n| txn.insert(database, key(n), value(n, is.of)))?;
            }
            txn.insert(&self.windows, database.name(), is.bytes())
        });
        unless(&[], shifted);
    }

    /// Everything is whole.
    fn look(&self, state: &ReadTxn) -> Result<()> {
        for database in &self.moved {
            let window = state.get(&self.windows, database.name())?;
            let window = window.map_or(Window { from: 0, to: 0, of: 0 }, |bytes| Window::read(&bytes));
            window.look(state, database)?;
        }
        for database in &self.loaded {
            let of = state.get(database, key(1))?.map(|bytes| bytes[0]);
            let to = if of.is_some() { LOADED } else { 0 };
            Window { from: 0, to, of: of.unwrap_or_default() }.look(state, database)?;
        }
        for record in state.range(&self.truth, ..)? {
            let (key, _) = record?;
            let found = self.expiring.get(state, &key)?;
            let n = u64::from_be_bytes(*key.first_chunk().unwrap());
            assert!(found == Some(value(n, 1)), "{n} was set for good");
        }
        assert_eq!(self.expiring.verify(state)?, [""; 0]);
        Ok(())
    }

    /// Looks at a state until one is to be had for long enough.
    fn looked(&self) {
        patiently(|| self.env.snapshot().and_then(|state| self.look(&state)));
    }

    /// As [`Work::looked`].
    fn verified(&self) {
        assert_eq!(patiently(|| self.env.verify(&mut |_| {})).problems, [""; 0]);
    }
}

#[test]
#[ignore = "a worker of the tests below"]
fn sweeper() {
    Work::run(Work::sweep);
}

#[test]
#[ignore = "a worker of the tests below"]
fn loader() {
    Work::run(Work::load);
}

#[test]
#[ignore = "a worker of the tests below"]
fn splitter() {
    Work::run(|work| work.shift(1, 600));
}

#[test]
#[ignore = "a worker of the tests below"]
fn remover() {
    Work::run(|work| {
        let which = 2 * work.dice.below(2) as usize;
        work.shift(which, 1500);
    });
}

/// Makes room below what there is, and has what is above it moved there.
#[test]
#[ignore = "a worker of the tests below"]
fn compacter() {
    Work::run(|work| {
        work.shift(0, 3000);
        unless(&[], work.env.compact());
    });
}

/// Does some work in steps beside a process that is stopped: all are to end although it is. If they do not,
/// or the others' log grows meanwhile beyond what a memory has room for, the process goes on, and the test
/// fails.
fn ends_beside(pid: u32, env: &Env, steps: &[(&str, &dyn Fn())]) {
    let (step, names) = (&AtomicUsize::new(0), steps.iter().map(|step| step.0).collect::<Vec<_>>());
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let watch = scope.spawn(move || {
            let (since, from) = (Instant::now(), env.lsn());
            while end.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                let logged = env.lsn().0 - from.0;
                if since.elapsed() > PATIENCE || logged > LOGGED_MAX {
                    let at = names[step.load(Ordering::Relaxed)];
                    let seen = format!("at {at}, {logged} bytes of log later: {:#?}", env.processes());
                    signal::go_on(pid).unwrap();
                    return Some(seen);
                }
            }
            None
        });
        for (n, (_, work)) in steps.iter().enumerate() {
            step.store(n, Ordering::Relaxed);
            work();
        }
        drop(ended);
        if let Some(seen) = watch.join().unwrap() {
            panic!("nobody got through beside process {pid}: {seen}");
        }
    });
}

/// Stops and kills workers that do what `jobs` says.
fn stop_and_kill(name: &str, jobs: &[&str], times: u64) {
    let place = Place::new(name);
    let path = place.env();
    let env = open_shared(&path);
    let mut work = Work::begin(env.clone(), 1);
    let times = std::env::var("SABLECAT_TEST_KILLS").map_or(times, |times| times.parse().unwrap());
    let mut workers: Vec<_> = jobs.iter().map(|job| Worker::start_named(job, &path)).collect();
    for n in 0..times {
        // Stopped anywhere: some time after others have done something.
        let before = env.lsn();
        let has_worked = env.write_when_within(PATIENCE, |txn: &mut Txn<'_>| {
            for database in work.moved.iter().chain(&work.loaded).chain([&work.truth]) {
                txn.first(database)?;
            }
            Ok((env.lsn() != before).then_some(()))
        });
        has_worked.unwrap().expect("they work");
        thread::sleep(Duration::from_micros(work.dice.below(30_000)));
        let victim = work.dice.below(workers.len() as u64) as usize;
        let ends = work.dice.below(3) == 0;
        let pid = workers[victim].0.id();
        workers[victim].assert_works();
        workers[victim].stopped_beside(&env, || {
            let look: &dyn Fn() = &|| work.looked();
            let steps: [(&str, &dyn Fn()); 5] = [
                ("a change", &|| unless(&[], work.aside.insert("key", n.to_be_bytes()))),
                ("a look", look),
                ("a checkpoint", &|| _ = env.checkpoint().unwrap()),
                ("a change after it", &|| unless(&[], work.aside.insert("key", "after the checkpoint"))),
                ("a look after it", look),
            ];
            ends_beside(pid, &env, &steps);
            if ends {
                // As it is, stopped.
                signal::kill(pid).unwrap();
            }
        });
        if ends {
            workers[victim] = Worker::start_named(jobs[victim], &path);
        }
        work.looked();
        if n % 8 == 0 {
            work.verified();
        }
    }
    work.stop.insert("now", "").unwrap();
    for worker in &mut workers {
        worker.assert_ends();
    }
    work.looked();
    work.verified();
    drop(work);
    env.close().unwrap();
    let env = open_shared(&path);
    let work = Work::begin(env.clone(), 1);
    work.looked();
    // What the killed had in hand is given back.
    env.compact().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
    work.looked();
}

#[test]
fn who_is_stopped_in_a_sweep_holds_up_nobody() {
    stop_and_kill("stopped-sweep", &[test_name(sweeper), test_name(sweeper)], 4);
}

#[test]
fn who_is_stopped_in_a_bulk_load_holds_up_nobody() {
    stop_and_kill("stopped-load", &[test_name(loader), test_name(loader)], 4);
}

#[test]
fn who_is_stopped_while_a_hash_table_grows_holds_up_nobody() {
    stop_and_kill("stopped-growth", &[test_name(splitter), test_name(splitter)], 4);
}

#[test]
fn who_is_stopped_while_it_removes_a_range_holds_up_nobody() {
    stop_and_kill("stopped-removal", &[test_name(remover), test_name(remover)], 4);
}

#[test]
fn who_is_stopped_while_it_compacts_holds_up_nobody() {
    stop_and_kill("stopped-compaction", &[test_name(compacter), test_name(remover)], 4);
}

#[test]
fn any_of_them_may_be_stopped_beside_the_others() {
    stop_and_kill(
        "stopped-all",
        &[
            test_name(sweeper),
            test_name(loader),
            test_name(splitter),
            test_name(remover),
            test_name(compacter),
        ],
        6,
    );
}

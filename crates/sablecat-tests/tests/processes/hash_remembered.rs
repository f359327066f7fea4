//! A process remembers in which page the keys of a hash table were. Whatever becomes of these pages, by its
//! own doing or by that of another process, each state is read as it is.
//!
//! The other process is this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone: it does what it is told, line by line.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use sablecat::{Builder, Database, Durability, Env, Method, Read, ReadTxn};
use sablecat_os::sim::SimDisk;
use sablecat_tests::Place;
use sablecat_tests::worker::test_name;

const DIRECTORY: &str = "SABLECAT_TEST_DIR";
const FEW: u32 = 30;
const MANY: u32 = 3000;
/// How many steps there are.
const STEPS: u32 = 7;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// The value of a record after a step; none if it is not there.
fn value(step: u32, n: u32) -> Option<Vec<u8>> {
    let is_there = match step {
        0 => n < FEW,
        1 => true,
        // Buckets are joined, down to few.
        2..=4 => n.is_multiple_of(40),
        _ => true,
    };
    let written = match step {
        0 => 0,
        1..=4 => 1,
        later => later,
    };
    is_there.then(|| vec![written as u8; 10 + (n + written) as usize % 7])
}

/// Does a step.
fn step(env: &Env, step: u32) {
    let table = env.database_as("table", Method::Hash).unwrap();
    // Each takes the numbers of pages that the one before has given back.
    let method = if step == 3 { Method::Hash } else { Method::Btree };
    match step {
        3 | 4 => {
            let other = env.database_as(&format!("other {step}"), method).unwrap();
            // The same keys: in the wrong page they would be found.
            (0..MANY).for_each(|n| other.insert(key(n), [99; 12]).unwrap());
        }
        5 => _ = env.remove_database("other 3").unwrap(),
        _ => {}
    }
    for n in 0..MANY {
        match (value(step, n), step.checked_sub(1).and_then(|before| value(before, n))) {
            (now, before) if now == before => {}
            (Some(value), _) => table.insert(key(n), value).unwrap(),
            (None, _) => assert!(table.remove(key(n)).unwrap()),
        }
    }
}

/// Looks at all keys in a state, each twice: what was not remembered is the second time.
fn assert_is(state: &impl Read<Of = Env>, table: &Database, after: u32) {
    for _ in 0..2 {
        for n in 0..MANY {
            assert_eq!(state.get(table, key(n)).unwrap(), value(after, n), "key {n} after step {after}");
        }
    }
}

/// Has the steps be done one after the other, looking at all states there were after each.
fn go_through(env: &Env, mut done: impl FnMut(u32)) {
    let table = env.database_as("table", Method::Hash).unwrap();
    let mut snapshots: Vec<ReadTxn> = Vec::new();
    for step in 0..STEPS {
        done(step);
        assert_is(env, &table, step);
        snapshots.push(env.snapshot().unwrap());
        for (after, snapshot) in (0..).zip(&snapshots) {
            assert_is(snapshot, &table, after);
        }
        // In writing, too: each record is set to what it is.
        for n in 0..MANY {
            if let Some(value) = value(step, n) {
                table.insert(key(n), value).unwrap();
            }
        }
        assert_is(env, &table, step);
    }
    drop(snapshots);
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable), (vec![], 0));
}

#[test]
fn pages_that_are_split_joined_and_used_elsewhere_are_not_taken_for_what_they_were() {
    let env = Env::builder().page_size(512).cache_size(16 << 20).in_memory().unwrap();
    go_through(&env, |n| step(&env, n));
}

/// In place, where nothing has versions.
#[test]
fn a_data_store_finds_what_there_is_whatever_became_of_the_pages() {
    let mut store = Env::builder().page_size(512).cache_size(16 << 20).data_store_in_memory().unwrap();
    let table = store.database_as("table", Method::Hash).unwrap();
    for step in 0..STEPS {
        if step == 3 || step == 4 {
            let method = if step == 3 { Method::Hash } else { Method::Btree };
            let other = store.database_as(&format!("other {step}"), method).unwrap();
            (0..MANY).for_each(|n| store.insert(&other, key(n), [99; 12]).unwrap());
        } else if step == 5 {
            assert!(store.remove_database("other 3").unwrap());
        }
        for n in 0..MANY {
            match value(step, n) {
                Some(value) => store.insert(&table, key(n), value).unwrap(),
                None => _ = store.remove(&table, key(n)).unwrap(),
            }
            // Each change is seen at once, and so are those before it.
            for n in [n, n / 2, n / 3] {
                assert_eq!(store.get(&table, key(n)).unwrap(), value(step, n), "key {n}, step {step}");
            }
        }
        for n in 0..MANY {
            assert_eq!(store.get(&table, key(n)).unwrap(), value(step, n), "key {n} after step {step}");
        }
    }
    assert_eq!(store.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// Pages that a commit larger than the cache has replaced stay as they were as long as a snapshot sees them:
/// they say that they cover what they covered, and nothing leads to them.
#[test]
fn pages_that_were_replaced_are_not_gone_to() {
    let open = |builder: Builder| {
        let builder = builder.page_size(512).cache_size(1 << 20).background(false);
        builder.durability(Durability::NoSync).disk(Arc::new(SimDisk::new(5))).open("/env").unwrap()
    };
    let env = open(Env::builder());
    let table = env.database_as("table", Method::Hash).unwrap();
    let fill = |round: u32| {
        env.write(|txn| (0..3 * MANY).try_for_each(|n| txn.insert(&table, key(n), [round as u8; 20])))
            .unwrap();
    };
    fill(0);
    for round in 1..4 {
        let before = env.snapshot().unwrap();
        for n in 0..3 * MANY {
            assert_eq!(table.get(key(n)).unwrap(), Some(vec![round as u8 - 1; 20]), "key {n}");
        }
        fill(round);
        // From the end, where what the cache still has is newest.
        for n in (0..3 * MANY).rev() {
            assert_eq!(table.get(key(n)).unwrap(), Some(vec![round as u8; 20]), "key {n}, round {round}");
            assert_eq!(before.get(&table, key(n)).unwrap(), Some(vec![round as u8 - 1; 20]), "key {n}");
        }
    }
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

/// Threads share what is remembered, and each looks at states of its own.
#[test]
fn threads_read_beside_splits_and_joins() {
    let env = Env::builder().page_size(512).cache_size(16 << 20).in_memory().unwrap();
    let table = env.database_as("table", Method::Hash).unwrap();
    let (each, rounds) = (400u32, 6);
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (env, table) = (&env, &table);
            scope.spawn(move || {
                let own = |n: u32| [&b"of"[..], &(thread * each + n).to_le_bytes()].concat();
                for round in 0..rounds {
                    for n in 0..each {
                        table.insert(own(n), [round as u8; 30]).unwrap();
                        assert_eq!(table.get(own(n / 2)).unwrap(), Some(vec![round as u8; 30]));
                    }
                    let all = env.snapshot().unwrap();
                    for n in (0..each).rev().filter(|n| n % 16 != 0) {
                        assert!(table.remove(own(n)).unwrap());
                        assert_eq!(table.get(own(n)).unwrap(), None);
                        assert_eq!(all.get(table, own(n)).unwrap(), Some(vec![round as u8; 30]));
                    }
                }
            });
        }
    });
    assert_eq!(table.len().unwrap(), u64::from(3 * each / 16));
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, [""; 0]);
}

fn open_shared(path: &Path) -> Env {
    let builder = Env::builder().shared(true).page_size(512).cache_size(16 << 20);
    builder.durability(Durability::Memory).open(path).unwrap()
}

#[test]
#[ignore = "what the process of another test does"]
fn worker() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let env = open_shared(Path::new(&path));
    for line in std::io::stdin().lines() {
        step(&env, line.unwrap().parse().unwrap());
        // Not by what the test harness captures.
        writeln!(std::io::stdout(), "done").unwrap();
    }
}

struct Worker {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Worker {
    fn start(path: &Path) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test_name(worker), "--ignored", "--nocapture"]).env(DIRECTORY, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), child.stdout.take().unwrap());
        Worker { child, to, from: BufReader::new(from) }
    }

    fn step(&mut self, n: u32) {
        writeln!(self.to.as_ref().unwrap(), "{n}").unwrap();
        let mut line = String::new();
        // Behind what the harness has said in the line, if it runs one test at a time.
        while !line.trim_end().ends_with("done") {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the process has ended");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends when its input does.
        self.to = None;
        let _ = self.child.wait();
    }
}

#[test]
fn what_another_process_does_to_the_pages_is_seen() {
    let place = Place::new("hash-remembered");
    let env = open_shared(&place.env());
    let mut worker = Worker::start(&place.env());
    go_through(&env, |n| worker.step(n));
}

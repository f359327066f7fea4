//! Environments shared by processes, which are killed.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use sablecat::{Durability, Env, ErrorKind};
use sablecat_tests::worker::{patiently, test_name};

const DIRECTORY: &str = "SABLECAT_TEST_DIR";
const WORKER: &str = "SABLECAT_TEST_WORKER";
const ACCOUNTS: u64 = 200;
const BALANCE: u64 = 1000;

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sablecat-shared-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn open(path: &Path) -> sablecat::Result<Env> {
    Env::builder()
        .shared(true)
        .cache_size(cache())
        .log_segment_size(1 << 20)
        .durability(Durability::NoSync)
        .open(path)
}

fn cache() -> u64 {
    std::env::var("SABLECAT_TEST_CACHE").map_or(4 << 20, |bytes| bytes.parse().expect("a number"))
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn account(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn sum(env: &Env) -> sablecat::Result<u64> {
    let accounts = env.database("accounts")?;
    let snapshot = env.snapshot()?;
    snapshot.range(&accounts, ..)?.map(|record| record.map(|(_, value)| number(&value))).sum()
}

/// Moves money for ever, counts each move in the same transaction, and says the count once it is committed.
#[test]
#[ignore = "what the processes of the other tests do"]
fn worker() {
    let (Ok(path), Ok(me)) = (std::env::var(DIRECTORY), std::env::var(WORKER)) else { return };
    let env = open(Path::new(&path)).expect("attached");
    let (accounts, counts) =
        (env.database("accounts").expect("opened"), env.database("counts").expect("opened"));
    let mut out = std::io::stdout().lock();
    let mut dice = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    loop {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let (from, to, amount) = (dice % ACCOUNTS, (dice >> 16) % ACCOUNTS, (dice >> 32) % 10);
        let done = env
            .write(|txn| {
                let have = number(&txn.get(&accounts, account(from))?.expect("an account"));
                if from == to || have < amount {
                    return Ok(None);
                }
                let other = number(&txn.get(&accounts, account(to))?.expect("an account"));
                txn.insert(&accounts, account(from), (have - amount).to_le_bytes())?;
                txn.insert(&accounts, account(to), (other + amount).to_le_bytes())?;
                let count = txn.get(&counts, &me)?.map_or(0, |count| number(&count)) + 1;
                txn.insert(&counts, &me, count.to_le_bytes())?;
                if count % 64 == 0 {
                    // Pages come and go as well.
                    txn.insert(&counts, format!("{me} {count}"), vec![7; 500])?;
                    txn.remove(&counts, format!("{me} {}", count.saturating_sub(64 * 20)))?;
                }
                Ok(Some(count))
            })
            .expect("committed");
        if let Some(count) = done {
            writeln!(out, "{count}").expect("the parent listens");
        }
    }
}

struct Worker {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Worker {
    fn start(path: &Path, me: usize) -> Worker {
        Worker::start_by(Command::new(std::env::current_exe().expect("a program")), path, me)
    }

    /// A worker in a namespace of process numbers of its own, in which it has the number 1.
    fn start_as_first(path: &Path, me: usize) -> Worker {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child"]).arg(std::env::current_exe().expect("a program"));
        Worker::start_by(unshare, path, me)
    }

    fn start_by(command: Command, path: &Path, me: usize) -> Worker {
        Worker::start_doing(test_name(worker), command, path, me)
    }

    /// A process that does what one of the tests says.
    fn start_doing(what: &str, mut command: Command, path: &Path, me: usize) -> Worker {
        let mut child = command
            .args(["--exact", what, "--ignored", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, path)
            .env(WORKER, format!("worker {me}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Worker { child, out }
    }

    /// Reads until a count has been said. The last one said.
    fn hear(&mut self) -> u64 {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).expect("read"), 0, "the worker ended by itself");
            if let Ok(count) = line.trim().parse() {
                return count;
            }
        }
    }

    /// Kills the process, and says the last count it had said.
    fn kill(mut self) -> u64 {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        let mut last = 0;
        for line in self.out.lines() {
            // The last line may be cut short; a number cut short is a smaller one.
            if let Ok(count) = line.expect("read").trim().parse() {
                last = count;
            }
        }
        last
    }
}

fn fill(env: &Env) {
    let accounts = env.database("accounts").expect("created");
    env.database("counts").expect("created");
    for n in 0..ACCOUNTS {
        accounts.insert(account(n), BALANCE.to_le_bytes()).expect("inserted");
    }
}

fn check(env: &Env, said: &[u64]) {
    assert_eq!(patiently(|| sum(env)), ACCOUNTS * BALANCE, "money was made or lost");
    let counts = env.database("counts").expect("opened");
    for (me, &said) in said.iter().enumerate() {
        let count = counts.get(format!("worker {me}")).expect("read").map_or(0, |count| number(&count));
        assert!(count >= said, "worker {me} was told that {said} were committed, and {count} are there");
    }
    let report = patiently(|| env.verify(&mut |_| {}));
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn killed_processes_lose_nothing_and_hold_up_nobody() {
    let path = directory("storm");
    let env = open(&path).expect("created");
    fill(&env);
    let mut said = vec![0; 4];
    let mut workers: Vec<_> = (0..said.len()).map(|me| Worker::start(&path, me)).collect();
    let kills = std::env::var("SABLECAT_TEST_KILLS").map_or(200, |kills| kills.parse().expect("a number"));
    for kill in 0..kills {
        let victim = kill % said.len();
        // So that it dies at another moment each time.
        (0..1 + kill * 7 % 50).for_each(|_| assert!(workers[victim].hear() > 0));
        let dead = std::mem::replace(&mut workers[victim], Worker::start(&path, victim));
        said[victim] = said[victim].max(dead.kill());
        if kill % 10 == 0 {
            check(&env, &said);
        }
    }
    for (me, worker) in workers.into_iter().enumerate() {
        said[me] = said[me].max(worker.kill());
    }
    check(&env, &said);
    assert!(said.iter().all(|&said| said > 0), "{said:?}");
    env.close().expect("closed");
    let env = open(&path).expect("opened afresh");
    check(&env, &said);
    drop(env);
    std::fs::remove_dir_all(&path).expect("removed");
}

/// Whether a process lives is asked of the kernel's locks: its number may be another's, at the same time or
/// later.
#[test]
fn process_numbers_do_not_say_who_lives() {
    let possible = Command::new("unshare").args(["--pid", "--fork", "--kill-child", "true"]).output();
    if !possible.is_ok_and(|out| out.status.success()) {
        eprintln!("not tested: namespaces of process numbers take privileges");
        return;
    }
    let path = directory("namespaces");
    let env = open(&path).expect("created");
    fill(&env);
    let mut said = vec![0; 2];
    let mut workers: Vec<_> = (0..said.len()).map(|me| Worker::start_as_first(&path, me)).collect();
    let firsts = || env.processes().iter().filter(|process| process.pid == 1 && process.alive).count();
    for _ in 0..5 {
        // Both have the number 1, which here is the number of a process that lives and has nothing to do with
        // it.
        workers.iter_mut().for_each(|worker| assert!(worker.hear() > 0));
        assert_eq!(firsts(), 2);
        said[0] = said[0].max(workers.remove(0).kill());
        // The dead one is mended, the living one is not.
        while env.processes().len() > 2 {
            assert!(workers[0].hear() > 0);
        }
        assert_eq!(firsts(), 1);
        workers.insert(0, Worker::start_as_first(&path, 0));
    }
    // Killed before its child has asked to die with it, `unshare` would leave one that works for ever.
    assert!(workers[0].hear() > 0);
    for (me, worker) in workers.into_iter().enumerate() {
        said[me] = said[me].max(worker.kill());
    }
    check(&env, &said);
    env.close().expect("closed");
    std::fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn what_all_killed_processes_had_committed_is_there_for_the_next() {
    let path = directory("all");
    let env = open(&path).expect("created");
    fill(&env);
    env.close().expect("closed");
    for _ in 0..5 {
        let mut workers: Vec<_> = (0..3).map(|me| Worker::start(&path, me)).collect();
        workers.iter_mut().for_each(|worker| (0..100).for_each(|_| assert!(worker.hear() > 0)));
        let said: Vec<_> = workers.into_iter().map(Worker::kill).collect();
        // Nobody is left. Without a flush: what these had committed is in the memory they shared.
        let env = open(&path).expect("attached to what they left");
        check(&env, &said);
        drop(env);
    }
    std::fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn private_and_shared_exclude_each_other() {
    let path = directory("modes");
    let shared = open(&path).expect("created");
    assert_eq!(Env::open(&path).expect_err("shared already").kind(), ErrorKind::InUse);
    let again = open(&path).expect("shared twice");
    drop(shared);
    assert_eq!(Env::open(&path).expect_err("still shared").kind(), ErrorKind::InUse);
    again.close().expect("closed");
    let private = Env::open(&path).expect("nobody is left");
    assert_eq!(open(&path).expect_err("private").kind(), ErrorKind::InUse);
    private.close().expect("closed");
    std::fs::remove_dir_all(&path).expect("removed");
}

/// Opens a private environment that nobody has open. What other tests start has the locks of this process
/// too, until it is a program of its own.
fn open_alone(path: &Path) -> Env {
    loop {
        match Env::open(path) {
            Err(error) if error.kind() == ErrorKind::InUse => std::thread::yield_now(),
            opened => return opened.expect("opened alone"),
        }
    }
}

/// Creates a database and fills it, in a transaction that it says is open and never commits.
#[test]
#[ignore = "what the processes of another test do"]
fn creator() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let env = open(Path::new(&path)).expect("attached");
    let mut txn = env.begin().expect("begun");
    let new = txn.database("new").expect("created");
    txn.insert(&new, "k", "never").expect("inserted");
    // In a line of its own: the harness has begun one.
    println!("\n1");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_process_killed_while_it_creates_a_database_leaves_nothing_of_it() {
    let path = directory("creator");
    let env = open(&path).expect("created");
    for _ in 0..3 {
        let mut creator = Worker::start_doing(
            test_name(creator),
            Command::new(std::env::current_exe().expect("a program")),
            &path,
            0,
        );
        creator.hear();
        env.checkpoint().expect("written, with what is being made");
        assert!(env.existing_database("new").expect("looked up").is_none());
        creator.kill();
    }
    env.write(|txn| {
        let new = txn.database("new")?;
        txn.insert(&new, "k", "v")
    })
    .expect("the name is free");
    env.close().expect("closed");
    // Opened afresh, what they had made is freed; opened again, all that is free is known.
    open_alone(&path).close().expect("closed");
    let env = open_alone(&path);
    assert_eq!(env.databases().expect("listed"), ["new"]);
    env.compact().expect("written");
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!((report.problems, report.pages_unreachable), (vec![], 0));
    assert_eq!(env.stats().expect("counted").pages, 2, "the catalog, and what was created");
    env.close().expect("closed");
    std::fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn databases_removed_or_renamed_by_one_process_are_so_for_all() {
    let path = directory("names");
    let (one, two) = (open(&path).expect("created"), open(&path).expect("attached"));
    let here = one.database("d").expect("created");
    here.insert("k", "first").expect("inserted");
    let there = two.database("d").expect("opened");
    assert_eq!(there.get("k").expect("read").as_deref(), Some(&b"first"[..]));
    one.rename_database("d", "e").expect("renamed");
    assert_eq!(there.get("k").expect("an open handle stays good").as_deref(), Some(&b"first"[..]));
    assert!(two.existing_database("d").expect("looked up").is_none());
    assert!(one.remove_database("e").expect("removed"));
    assert_eq!(there.get("k").expect_err("removed").kind(), ErrorKind::NotFound);
    two.database("e").expect("another of that name").insert("k", "second").expect("inserted");
    assert_eq!(one.database("e").expect("opened").get("k").expect("read").as_deref(), Some(&b"second"[..]));
    drop((here, there, one));
    two.close().expect("closed");
    std::fs::remove_dir_all(&path).expect("removed");
}
